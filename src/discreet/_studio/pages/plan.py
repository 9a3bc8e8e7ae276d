"""The plan pages: the precision that an ε allows, before data are opened, and one budget for several
questions."""

from __future__ import annotations

import math
import shlex
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet._declarations import as_epsilon
from discreet._reporting.figures import curve
from discreet._reporting.report import meaning
from discreet._studio.forms import (
    FIRST_EPSILON,
    MAX_EPSILON,
    MAX_TEXT,
    MIN_EPSILON,
    Input,
    ReleaseForm,
    at_fault,
    can_be_planned,
    first_texts,
    kinds,
    schema_as_python,
)
from discreet._studio.schemas import EXAMPLE, Schemas
from discreet._studio.shell import Studio
from discreet.errors import DiscreetError, InvalidInputError, TooLargeError
from discreet.planning.plan import Plan, Split, plan, split
from discreet.privacy.guarantee import Guarantee
from discreet.questions._text import OPTIONS, WHOLE
from discreet.questions.widths import POINTS, RECORDS
from discreet.schema import PUBLIC, Schema

MAX_N, MAX_QUESTIONS = 1_000_000, 8
FIRST_N = 1000
"""The number of records that a new plan assumes if the schema does not state it."""
PLANNED_FOR = ("n", "within", "of", "guess")
"""The fields of a plan besides those of the question."""
COMPUTED_EPSILONS = (0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 10.0)
DRAWN_POINTS = 81
_busy = threading.Lock()


@dataclass(frozen=True)
class PlanForm(ReleaseForm):
    """A question without data, the number of records, and the wanted precision, all as text."""

    n: str = ""
    within: str = ""
    of: str = ""
    guess: str = ""

    @classmethod
    def read(cls, given: Mapping[str, str], schemas: Schemas | None = None) -> Self:
        """Read the fields of the form; if it has no question, fill in a first one that the schema allows."""
        available = schemas or Schemas()
        schema = available.find(given["schema"]) if given.get("schema") else available.list_recent()[0]
        kind = given.get("kind") or next(kind for kind in kinds() if can_be_planned(kind, schema.schema))
        asked = {**given, "kind": kind, "schema": schema.identifier, "source": "", "request": ""}
        form = super().read(asked, available)
        texts = dict(form.texts)
        if set(texts) <= {"epsilon"}:
            texts = {**(first_texts(kind, schema.schema) or {}), **texts}
        more: dict[str, Any] = {name: given.get(name, "").strip() for name in PLANNED_FOR}
        return replace(form, texts={"epsilon": FIRST_EPSILON, **texts}, **more)

    @property
    def epsilon(self) -> str:
        return self.texts["epsilon"]

    @property
    def slider(self) -> str:
        """The position of the slider, log10 ε; the middle if ε is not valid."""
        try:
            return f"{math.log10(as_epsilon(self.epsilon)):.2f}"
        except (DiscreetError, ValueError):
            return "-0.50"

    @property
    def shown_n(self) -> str:
        """The number of records as the form shows it."""
        return self.n or str(self.declared_schema.size or FIRST_N)

    @cached_property
    def records(self) -> int:
        """The number of records for which the page plans."""
        with at_fault("n"):
            n: int = WHOLE.read(self.shown_n, "Number of records")
            if not 0 < n <= MAX_N:
                raise TooLargeError(f"Number of records: this page plans from 1 to {MAX_N:,}")
        return n

    @cached_property
    def guesses(self) -> dict[str, Any]:
        """The guesses about the records."""
        with at_fault("guess"):
            return OPTIONS.read(self.guess[:MAX_TEXT], "Guesses") if self.guess else {}

    def width(self, epsilon: str | None = None) -> Plan:
        """Return the expected width at this ε or another."""
        _ = self.checked_request
        guesses = tuple(sorted(self.guesses.items()))
        with self.fields_named(), _guess_at_fault(self.guesses):
            texts = tuple(sorted(self.texts.items()))
            return _plan(
                self.kind, texts, self.declared_schema, self.records, epsilon or self.epsilon, guesses
            )

    def inputs(self) -> list[Input]:
        """Return the fields of the question except ε, which has a slider."""
        return [field for field in super().inputs() if field.name != "epsilon"]

    def tabs(self) -> Iterator[tuple[bool, str, str]]:
        """Yield for each kind of question whether it is this one, its title and the address of its plan."""
        for kind, cls in kinds().items():
            if can_be_planned(kind, self.declared_schema):
                query = {"kind": kind, "schema": self.schema, "n": self.n}
                yield (
                    kind == self.kind,
                    cls.title,
                    "/plan?" + urlencode({k: v for k, v in query.items() if v}),
                )

    def items(self) -> list[tuple[str, str]]:
        """Names and values of all fields that are filled in."""
        more = [(name, getattr(self, name)) for name in PLANNED_FOR]
        return [*super().items(), *((name, text) for name, text in more if text)]

    def release(self, **given: Any) -> str:
        """Return the address of the release form with this question and these ε and δ."""
        paid = {name: str(value) for name, value in given.items() if value is not None}
        fields: dict[str, Any] = {
            "kind": self.kind,
            "schema": self.schema,
            "dataset": self.dataset,
            "label": self.label,
        }
        if self.kept_schema is not None and self.kept_schema.text == EXAMPLE:
            fields["schema"] = ""  # of no data
        return ReleaseForm(**fields, texts={**self.texts, **paid}).address()

    @property
    def title(self) -> str:
        """The question, in one line."""
        about = self.texts.get(self.asks.subject() or "", "")
        return f"{self.asks.title}: {', '.join(about.splitlines())[:80]}" if about else self.asks.title

    def python(self) -> str:
        """Return the plan as a Python program."""
        cls, explicit = self.asks, self.question.explicit_fields()
        explicit.pop("epsilon", None)
        ours = cls.__module__.startswith("discreet.")
        head = "" if ours else f"from {cls.__module__} import {cls.__qualname__}\n"
        asked = ", ".join(f"{name}={value!r}" for name, value in explicit.items())
        more = {
            "epsilon": self.epsilon,
            "n": self.records,
            **({"guess": self.guesses} if self.guesses else {}),
        }
        wanted = "".join(f"    {name}={value!r},\n" for name, value in more.items())
        return (
            f"import discreet\n{head}\n{schema_as_python(self.declared_schema)}"
            f"question = {'discreet.' * ours}{cls.__qualname__}({asked})\n"
            f"plan = discreet.plan(\n    question,\n    schema,\n{wanted})\nprint(plan)\n"
        )

    def command(self) -> str:
        """Return the plan as a command; its schema is saved as schema.toml."""
        more = [f"--n={self.records}", *([f"--guess={self.guess}"] if self.guess else [])]
        words = ["discreet", "plan", self.kind, "schema.toml", *more, *self.question.arguments()]
        return shlex.join(words) + "\n"


@contextmanager
def _guess_at_fault(guesses: Mapping[str, Any]) -> Iterator[None]:
    """Show errors about a guess, raised in the block, at the form's field of guesses."""
    try:
        yield
    except DiscreetError as error:
        if error.parameter in (*guesses, "guess"):
            error.parameter = "guess"
        raise


@lru_cache(maxsize=2000)
def _plan(
    kind: str,
    texts: tuple[tuple[str, str], ...],
    schema: Schema,
    n: int,
    epsilon: str,
    guesses: tuple[tuple[str, Any], ...],
) -> Plan:
    question = kinds()[kind].from_text(dict(texts))
    return plan(question, schema, epsilon=epsilon, n=n, guess=dict(guesses))


def add_plan(app: FastAPI, studio: Studio) -> None:
    @app.get("/plan")
    def plan_page(request: Request) -> Response:
        listed = request.query_params.getlist("q")[:MAX_QUESTIONS]

        def make(context: dict[str, Any]) -> str:
            form = context["plan"] = PlanForm.read(request.query_params, studio.schemas)
            width = form.width()
            delta = form.question.delta
            spent = as_epsilon(delta, "delta") if delta else Fraction(0)
            relation = form.declared_schema.relation
            questions = [*listed, urlencode(form.items())]
            context |= {
                "width": width,
                "meaning": meaning(Guarantee(as_epsilon(form.epsilon), exact_delta=spent, relation=relation)),
                "release": form.release(),
                "divide": "/plan/split?" + urlencode([("q", question) for question in questions]),
                "more": form.address("/plan/more"),
            }
            return form.address("/plan")

        limits = {"n": MAX_N, "low": float(MIN_EPSILON), "high": float(MAX_EPSILON)}
        return studio.attempt(
            request,
            "plan.html",
            make,
            "plan_result.html",
            plan=PlanForm.read({}, studio.schemas),
            schemas=[
                (schema, "/plan?" + urlencode({"schema": schema.identifier}))
                for schema in studio.schemas.list_recent()
            ],
            listed=listed,
            limits=limits,
        )

    @app.get("/plan/more")
    def more(request: Request) -> Response:
        form = PlanForm.read(request.query_params, studio.schemas)
        with _busy:  # one at a time: the second of two equal questions finds the first one's answer
            plans = [form.width(f"{epsilon:g}") for epsilon in COMPUTED_EPSILONS]
            wanted = _solve(form) if form.within else None
        first, place = plans[0].planned, plans[0].place
        name = plans[0].labels.term(plans[0].names[place])
        heights = [plan.planned.scale * plan.widths[place] for plan in plans]
        epsilons, drawn = _between(COMPUTED_EPSILONS, heights)
        picture = curve(
            epsilons,
            drawn,
            title=f"Expected half-width of the 95 % interval of {name} at each ε, for "
            f"{form.records:,} records",
            axes=("ε", f"± {first.unit if first.unit in (POINTS, RECORDS) else name}"),
            marked=float(as_epsilon(form.epsilon)),
            floor=first.scale * plans[-1].without_privacy()[place],
            logarithmic=True,
        )
        return studio.page(request, "plan_more.html", plan=form, drawn=picture, wanted=wanted)

    @app.get("/plan/split")
    def split_page(request: Request) -> Response:
        query = request.query_params
        listed = query.getlist("q")[:MAX_QUESTIONS]

        def make(context: dict[str, Any]) -> str:
            plans = [PlanForm.read(dict(parse_qsl(query)), studio.schemas) for query in listed]
            context["titles"] = [form.title for form in plans]
            if len({form.schema for form in plans}) > 1:
                raise InvalidInputError(
                    "questions that share a budget are about the same data: plan all of them under one schema"
                )
            if plans and query.get("epsilon", "").strip():
                division = context["found"] = _split(plans, query)
                context["links"] = [
                    form.release(epsilon=share.question.exact_epsilon, delta=share.question.delta)
                    for form, share in zip(plans, division.shares, strict=True)
                ]
            return ""

        schema = dict(parse_qsl(listed[0])).get("schema", "") if listed else ""
        again = [*([("schema", schema)] if schema else []), *(("q", question) for question in listed)]
        another = "/plan" + ("?" if again else "") + urlencode(again)
        return studio.attempt(
            request, "split.html", make, listed=listed, given=query, found=None, titles=[], another=another
        )


def _between(x: tuple[float, ...], y: list[float]) -> tuple[list[float], list[float]]:
    """Return a smooth curve through computed points, interpolated on logarithmic scales."""
    import numpy as np
    from scipy.interpolate import PchipInterpolator

    places = np.linspace(math.log(x[0]), math.log(x[-1]), DRAWN_POINTS)
    curve_at = PchipInterpolator(np.log(x), np.log(np.maximum(y, 1e-300)))
    return np.exp(places).tolist(), np.exp(curve_at(places)).tolist()


def _solve(form: PlanForm) -> dict[str, Any]:
    """Return the ε, and the number of records, that the wanted precision needs."""
    plans: dict[str, Any] = {}
    schema = form.declared_schema
    wanted: dict[str, Any] = {"within": form.within, "of": form.of or None, "guess": form.guesses}

    def open_size() -> Schema:
        return replace(schema, n=PUBLIC, sizes=None) if schema.size is not None else schema

    for name, solve in (
        ("epsilon", lambda: plan(form.question, schema, n=form.records, **wanted).epsilon),
        ("n", lambda: plan(form.question, open_size(), epsilon=form.epsilon, **wanted).n),
    ):
        try:
            plans[name] = solve()
        except InvalidInputError as error:
            plans[f"{name}_problem"] = error.describe(
                f"Wanted precision {form.within}" if error.parameter == "within" else None
            )
    if "epsilon" in plans:
        texts = {**form.texts, "epsilon": f"{plans['epsilon']:g}"}
        plans["use"] = replace(form, texts=texts).address("/plan")
    return plans


def _split(plans: list[PlanForm], given: Mapping[str, str]) -> Split:
    questions = {}
    for index, form in enumerate(plans, 1):
        asked = {key: value for key, value in form.question.explicit_fields().items() if key != "epsilon"}
        precision = {name: given.get(f"{name}{index}", "").strip() for name in ("within", "weight")}
        precision = {name: text for name, text in precision.items() if text}
        guess = {"guess": form.guesses} if form.guesses else {}
        questions[f"question {index}"] = {"kind": form.kind, **asked, **precision, **guess}
        _ = form.checked_request  # within the limits of this page
    delta = given.get("delta", "").strip()
    with at_fault("epsilon"):
        total = as_epsilon(given["epsilon"].strip())
    budget = total, as_epsilon(delta, "delta") if delta else None
    return split(questions, plans[0].declared_schema, *budget, n=plans[0].records)
