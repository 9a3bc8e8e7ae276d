"""The plan pages: how precise an ε is, before any data are opened, and one budget for several questions."""

from __future__ import annotations

import math
import shlex
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet.declarations import as_epsilon
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.planning.widths import Split, epsilon_within, size_within, split
from discreet.privacy.guarantee import Guarantee
from discreet.questions.base import Question
from discreet.questions.text import WHOLE
from discreet.questions.widths import Width
from discreet.reporting.figures import curve
from discreet.reporting.report import meaning
from discreet.studio.forms import MAX_EPSILON, MIN_EPSILON, Input, ReleaseForm, kinds, written
from discreet.studio.shell import Studio

MAX_LEVELS, MAX_N, MAX_QUESTIONS = 12, 1_000_000, 8
START = {
    "proportion": {"levels": "never\nformer\ncurrent"},
    "regress": {
        "formula": "hours ~ age + C(sex)",
        "bounds": "hours=0,80\nage=16,100",
        "levels": "sex=f,m",
        "delta": "1e-6",
    },
}
"""What a new plan is about; elsewhere it is the example of each field that is required."""
PLANNED_FOR = ("epsilon", "n")
DRAWN_EPSILONS = (0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 10.0)
_busy = threading.Lock()


def planned_kinds() -> dict[str, type[Question]]:
    """The questions whose precision can be planned."""
    return {kind: cls for kind, cls in kinds().items() if cls.expected_width is not Question.expected_width}


@dataclass(frozen=True)
class PlanForm(ReleaseForm):
    """A question without data, the number of records, and the precision that is wanted; all as text."""

    n: str = "400"
    within: str = ""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        known = planned_kinds()
        form = super().read({"kind": next(iter(known)), **given, "source": "", "request": ""})
        if form.kind not in known:
            raise InvalidInput(
                f"kind {form.kind!r} cannot be planned: no width of its answer is known beforehand"
            )
        texts = {"epsilon": "0.5", **START.get(form.kind, {}), **form.texts}
        if "edges" in form.texts and "levels" not in form.texts:
            texts.pop("levels", None)
        return replace(form, texts=texts, n=given.get("n") or "400", within=given.get("within", ""))

    @property
    def epsilon(self) -> str:
        return self.texts["epsilon"]

    @property
    def slider(self) -> str:
        """Where the slider of ε stands: log10 ε, in the middle if there is no such ε."""
        try:
            return f"{math.log10(as_epsilon(self.epsilon)):.2f}"
        except (DiscreetError, ValueError):
            return "-0.50"

    @cached_property
    def records(self) -> int:
        n: int = WHOLE.read(self.n, "Number of records n")
        if not 0 < n <= MAX_N:
            raise TooLargeError(
                f"Number of records n: this page plans from 1 to {MAX_N:,}; Python has no such limit"
            )
        return n

    @cached_property
    def filled(self) -> ReleaseForm:
        """The form with an example in every field that is required, since a plan needs no columns."""
        known = written(self.asks)
        examples = {one.name: one.example for one in known if one.required and one.example}
        texts = {**examples, **self.texts}
        if any(one.name == "n" for one in known):
            texts.pop("n", None)
            if texts.get("relation") != "add-remove" and not texts.get("person"):
                texts["n"] = str(self.records)
        return ReleaseForm(kind=self.kind, texts=texts)

    @cached_property
    def question(self) -> Question:
        found = self.filled.question
        if getattr(found, "selection", None) is None and getattr(found, "k", 0) > MAX_LEVELS:
            raise TooLargeError(
                f"this page plans for up to {MAX_LEVELS} levels; the command line has no such limit"
            )
        return found

    @property
    def title(self) -> str:
        about = self.texts.get("levels") or self.texts.get("bounds") or self.texts.get("columns", "")
        return f"{self.question.title}: {', '.join(about.split())[:80]}"

    def width(self, epsilon: str | None = None) -> Width:
        """How precise it will be, at this ε or another."""
        _ = self.question
        texts = self.filled.texts if epsilon is None else {**self.filled.texts, "epsilon": epsilon}
        return _width(self.kind, tuple(sorted(texts.items())), self.records)

    def inputs(self) -> list[Input]:
        """The fields of the question, without names of columns."""
        return [one for one in super().inputs() if one.name not in PLANNED_FOR and one.columns != "name"]

    def tabs(self) -> Iterator[tuple[bool, str, str]]:
        """For each kind of question whether it is this one, its title and the address of its plan."""
        for kind, cls in planned_kinds().items():
            yield kind == self.kind, cls.title, f"/plan?{urlencode({'kind': kind, 'n': self.n})}"

    def items(self) -> list[tuple[str, str]]:
        """Names and values of all fields that are filled in."""
        found = {**dict(super().items()), "n": self.n, "within": self.within}
        return [(name, text) for name, text in found.items() if text]

    def release(self, **given: Fraction | None) -> str:
        """What was planned, with these ε and δ, as the address of the release form; data are chosen next."""
        planned = {"n": str(self.records)} if "n" in self.filled.texts else {}
        paid = {name: str(value) for name, value in given.items() if value is not None}
        own = {"kind": self.kind, "dataset": self.dataset, "label": self.label}
        return ReleaseForm(**own, texts={**self.texts, **planned, **paid}).address()

    def python(self) -> str:
        """The plan as a program."""
        asked = {"id": "planned", "kind": self.kind, **self.question.stated()}
        asked.pop("n", None)
        lines = "".join(f"            {name!r}: {value!r},\n" for name, value in asked.items())
        delta = f', "delta": {asked["delta"]!r}' if asked.get("delta") else ""
        budget = f'{{"epsilon": {self.epsilon!r}{delta}}}'
        return (
            "import discreet\n\n"
            f'study = discreet.Study("FILE.csv", budget={budget}, n={self.records})\n'
            f"plan = study.split(\n    [\n        {{\n{lines}        }},\n    ]\n)\nprint(plan)\n"
        )

    def command(self) -> str:
        """The plan as a command, where there is one."""
        if self.kind != "proportion":
            return ""
        asked = shlex.join(one for one in self.question.arguments() if not one.startswith("--n="))
        return f"discreet plan-release {asked} --n {self.records}\n"


@lru_cache(maxsize=2000)
def _width(kind: str, texts: tuple[tuple[str, str], ...], n: int) -> Width:
    found = ReleaseForm(kind=kind, texts=dict(texts)).question.expected_width(n)
    assert found is not None
    return found


def add_plan(app: FastAPI, studio: Studio) -> None:
    @app.get("/plan")
    def plan_page(request: Request) -> Response:
        listed = request.query_params.getlist("q")[:MAX_QUESTIONS]

        def make(context: dict[str, Any]) -> str:
            plan = context["plan"] = PlanForm.read(request.query_params)
            delta = getattr(plan.question, "delta", None)
            spent = as_epsilon(delta, "delta") if delta else Fraction(0)
            own = [*listed, urlencode(plan.items())]
            context |= {
                "width": plan.width(),
                "meaning": meaning(Guarantee(as_epsilon(plan.epsilon), exact_delta=spent)),
                "release": plan.release(),
                "divide": "/plan/split?" + urlencode([("q", one) for one in own]),
                "more": plan.address("/plan/more"),
            }
            return plan.address("/plan")

        limits = {"n": MAX_N, "low": float(MIN_EPSILON), "high": float(MAX_EPSILON)}
        return studio.attempt(
            request,
            "plan.html",
            make,
            "plan_result.html",
            plan=PlanForm.read({}),
            listed=listed,
            limits=limits,
        )

    @app.get("/plan/more")
    def more(request: Request) -> Response:
        plan = PlanForm.read(request.query_params)
        with _busy:  # one at a time: the second of two equal questions finds the first one's answer
            widths = [plan.width(f"{epsilon:g}") for epsilon in DRAWN_EPSILONS]
            wanted = None if not plan.within.strip() else _wanted(plan)
        drawn = curve(
            DRAWN_EPSILONS,
            [one.scale * one.half for one in widths],
            title=f"Expected half-width of the 95 % interval at each ε, for {plan.records:,} records",
            axes=("ε", f"± {widths[0].of}"),
            marked=float(as_epsilon(plan.epsilon)),
            floor=None if widths[0].without is None else widths[0].scale * widths[0].without,
            logarithmic=True,
        )
        return studio.page(request, "plan_more.html", plan=plan, drawn=drawn, wanted=wanted)

    @app.get("/plan/split")
    def split_page(request: Request) -> Response:
        given = request.query_params
        listed = given.getlist("q")[:MAX_QUESTIONS]

        def make(context: dict[str, Any]) -> str:
            plans = [PlanForm.read(dict(parse_qsl(one))) for one in listed]
            context["titles"] = [plan.title for plan in plans]
            if plans and given.get("epsilon", "").strip():
                found = context["found"] = _split(plans, given)
                context["links"] = [
                    plan.release(epsilon=share.epsilon, delta=share.delta)
                    for plan, share in zip(plans, found.shares, strict=True)
                ]
            return ""

        another = "/plan" + ("?" if listed else "") + urlencode([("q", one) for one in listed])
        return studio.attempt(
            request, "split.html", make, listed=listed, given=given, found=None, titles=[], another=another
        )


def _wanted(plan: PlanForm) -> dict[str, Any]:
    """Which ε, and how many records, the wanted precision needs."""
    found: dict[str, Any] = {}
    for name, search in (
        ("epsilon", lambda: epsilon_within(plan.question, plan.within, plan.records)),
        ("n", lambda: size_within(plan.question, plan.within)),
    ):
        try:
            found[name] = search()
        except InvalidInput as error:
            found[f"{name}_problem"] = str(error).replace("within=", "Wanted precision ± ")
    if "epsilon" in found:
        texts = {**plan.texts, "epsilon": f"{float(found['epsilon']):g}"}
        found["use"] = replace(plan, texts=texts).address("/plan")
    return found


def _split(plans: list[PlanForm], given: Mapping[str, str]) -> Split:
    questions = {}
    for index, plan in enumerate(plans, 1):
        asked = {key: value for key, value in plan.question.stated().items() if key not in PLANNED_FOR}
        said = {name: given.get(f"{name}{index}", "").strip() for name in ("within", "weight")}
        said = {name: text for name, text in said.items() if text}
        questions[f"question {index}"] = {"kind": plan.kind, **asked, **said}
    delta = given.get("delta", "").strip()
    total = as_epsilon(given["epsilon"].strip())
    return split(questions, total, as_epsilon(delta, "delta") if delta else None, plans[0].records)
