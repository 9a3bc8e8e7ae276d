"""A mechanism, a family and a question that somebody writes tomorrow: one class each, and everything works.

Each is planned, audited, released, charged, inferred from, printed and reported: in Python, in a study file,
on the command line and in the studio. Nothing else has to know it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlencode, urlsplit

import numpy as np
import pytest

import discreet
from discreet._cli import main
from discreet._data import clipped_sum
from discreet._documents.answer import Answer, load_answer
from discreet._documents.parts import Row, Words
from discreet._numerics.count_vectors import compositions
from discreet._randomness.bulk import uniform_composition
from discreet._randomness.entropy import private_source
from discreet._randomness.integers import discrete_laplace
from discreet._registry import DOCUMENTS, FAMILIES, MECHANISMS, QUESTIONS
from discreet.answers.release import Release
from discreet.errors import InvalidInputError
from discreet.mechanisms.base import Mechanism
from discreet.posterior_sampling.families.means import GaussianMean
from discreet.posterior_sampling.family import Family
from discreet.posterior_sampling.sample import Sample
from discreet.privacy.guarantee import Guarantee
from discreet.questions._request import PricedRequest, Request
from discreet.questions._text import NUMBER, TEXT, parameter
from discreet.questions.base import Question
from discreet.schema import _toml
from discreet.study.study import run_study
from test_studio import running, sent_by

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")

Program = Callable[..., str]
SCHEMA = discreet.Schema({"age": (0, 100), "smoker": ["no", "yes"]}, n=30)


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    """The command line: what it prints, and that it ends well."""

    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        captured = capsys.readouterr()
        assert not stopped.value.code, captured.err
        return captured.out

    return run


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A ledger with room for everything, beside a file with the ages of people and its schema."""
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text(SCHEMA.to_toml(), "utf-8")
    Path("ages.csv").write_text("age,smoker\n" + "30,no\n40,yes\n50,no\n" * 10, "utf-8")
    with discreet.Ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as book:
        book.create("people", epsilon=20, delta="1e-3")
    return f"sqlite:///{tmp_path / 'ledger.db'}"


def printed(answer: Answer) -> str:
    """Everything that an answer says of itself; its document reads back as the same."""
    assert load_answer(answer.to_json()) == answer
    return f"{answer}{answer._repr_html_()}{discreet.report(answer)}"


def studied(ledger: str, kind: str, **parameters: Any) -> Answer:
    """The answer of a study file with this one question; a second run repeats it."""
    lines = ['schema = "schema.toml"', "[study]", 'data = "ages.csv"', f'ledger = "{ledger}"']
    lines += ['dataset = "people"', "[[question]]", 'id = "one"', f'kind = "{kind}"']
    lines += [f"{name} = {_toml(value)}" for name, value in parameters.items()]
    Path("study.toml").write_text("\n".join(lines), "utf-8")
    result = run_study("study.toml")
    assert run_study("study.toml").answers["one"] == result.answers["one"]
    assert "Spent" in discreet.report(result)
    answer: Answer = result.answers["one"]
    return answer


def browsed(ledger: str, schema: discreet.Schema | None = None, **asked: str) -> str:
    """The question in the studio: form, price, release, and the report that can be downloaded."""
    with running(ledger=ledger) as outside:
        browser = outside.enter()
        known = browser.opened(Path("ages.csv").read_bytes(), "ages.csv", (schema or SCHEMA).to_toml())
        known["dataset"] = "people"
        pages = [browser.get("/release?" + urlencode({**known, **asked}))]
        pages.append(browser.get("/release/review?" + urlencode({**known, **asked})))
        done = browser.confirm(sent_by(pages[-1]))
        pages.append(browser.follow(done))
        pages.append(browser.get("/release/download/html?" + urlsplit(done.headers["Location"]).query))
        pages.append(browser.get("/ledger?dataset=people"))
        assert {one.status for one in pages} == {200}
        return "".join(one.text for one in pages[2:])


@pytest.fixture
def blind() -> Iterator[type[Mechanism]]:
    @MECHANISMS.register
    @dataclass(frozen=True)
    class Blind(Mechanism):
        """Any counts with equal probability, whatever the data are."""

        name: ClassVar[str] = "blind"
        words: ClassVar[str] = "The counts were made up."

        @property
        def guarantee(self) -> discreet.Guarantee:
            return discreet.Guarantee(self.epsilon, basis="theorem: it does not look at the data")

        @property
        def noise_scale(self) -> float:
            return self.n / 2

        def _output(self, counts: tuple[int, ...], source: Any) -> tuple[int, ...]:
            return uniform_composition(self.n, self.k, source)

        def _log_pmf(self, counts: tuple[int, ...]) -> tuple[Any, Any]:
            rows = compositions(self.n, self.k)
            return rows, np.full(len(rows), -math.log(len(rows)))

        def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> Any:
            rows = compositions(self.n, self.k)
            return rows[rng.integers(len(rows), size=size)]

    yield Blind
    MECHANISMS.unregister("blind")


def test_a_new_mechanism(blind: type[Mechanism], ledger: str, program: Program) -> None:
    assert "blind" in MECHANISMS
    m = discreet.mechanism("blind", prior=(1, 1, 1), n=5, epsilon=1)
    found = discreet.audit(m)
    assert found.epsilon == pytest.approx(0, abs=1e-12)
    assert found.guarantee().is_private
    assert discreet.audit_sampler(m, draws=2000).fits
    asked: dict[str, Any] = {"columns": "smoker", "epsilon": 1, "mechanism": "blind"}
    charge = discreet.Charge(ledger, "people")
    released = discreet.ask("ages.csv", discreet.Proportions(**asked), schema=SCHEMA, charge=charge)
    # The output says nothing, so what is known is the prior.
    assert released.posterior.marginal(0).mean() == pytest.approx(0.5)
    assert "blind: The counts were made up." in printed(released)
    assert Release.from_json(studied(ledger, "proportions", **asked).to_json()).mechanism == "blind"
    assert "0" in program("audit", "blind", "--prior", "1,1", "--n", "8", "--epsilon", "1")
    said = program(
        *("proportions", "ages.csv", "schema.toml", "smoker", "--epsilon", "1"),
        *("--mechanism", "blind", "--ledger", ledger, "--dataset", "people", "--out", "made.json"),
    )
    assert "blind" in said
    assert program("show", "made.json") == said
    program("report", "made.json", "--out", "made.html")
    shown = browsed(ledger, kind="proportions", columns="smoker", epsilon="1", mechanism="blind")
    assert "The counts were made up." in shown
    planned = discreet.plan(discreet.Proportions(**asked), SCHEMA)
    assert min(planned.widths) > 0.3  # the prior's
    command = ("plan", "proportions", "schema.toml", "smoker", "--epsilon", "1", "--mechanism", "blind")
    assert program(*command) == f"{planned}\n"
    with running() as outside:
        browser = outside.enter()
        known = browser.opened(Path("ages.csv").read_bytes(), "ages.csv", SCHEMA.to_toml())["schema"]
        for page in (
            f"plan?schema={known}&kind=proportions&columns=smoker&epsilon=1&mechanism=blind",
            "audit?mechanism=blind&prior=1,1&n=8&epsilon=1",
        ):
            answer = browser.get(f"/{page}")
            assert (answer.status, "blind" in answer.text) == (200, True)


@pytest.fixture
def fresh() -> Iterator[type[Family]]:
    @FAMILIES.register
    @dataclass(frozen=True)
    class Fresh(GaussianMean):
        """A mean, of which nobody has worked out what draws say about it."""

        name: ClassVar[str] = "fresh"
        parameter: ClassVar[str] = "level"

        given_draws = Family.given_draws  # type: ignore[assignment]

    yield Fresh
    FAMILIES.unregister("fresh")


def test_a_new_family(fresh: type[Family], ledger: str, program: Program) -> None:
    """It once charged the ledger and then ended in a KeyError."""
    asked: dict[str, Any] = {
        "family": "fresh",
        "column": "age",
        "options": {"sigma": 10},
        "prior": [40, 20],
        "epsilon": 1,
        "delta": 1e-6,
    }
    sampler = discreet.posterior_sampler(
        "diffused", "fresh", prior=(40, 20), n=30, sigma=10, bounds=(0, 100), epsilon=1, delta="1e-6"
    )
    assert sampler.guarantee.is_private
    charge = discreet.Charge(ledger, "people")
    released = discreet.ask("ages.csv", discreet.Draw(**asked), schema=SCHEMA, charge=charge)
    assert "level" in printed(released)
    assert released.names == ("level",)
    assert released.prior_marginals()[0].mean() == 40
    assert Fraction(str(released.guarantee.exact_epsilon)) == 1
    with pytest.raises(InvalidInputError, match="'fresh'"):
        _ = released.posterior
    assert isinstance(studied(ledger, "draw", **asked), Sample)
    said = program(
        *("draw", "ages.csv", "schema.toml", "age", "--family", "fresh", "--options", "sigma=10"),
        *("--prior", "40,20", "--epsilon", "1", "--delta", "1e-6", "--ledger", ledger, "--dataset", "people"),
        *("--out", "drawn.json"),
    )
    assert "Private posterior draw" in said
    assert "fresh" in program("show", "drawn.json")
    assert json.loads(program("show", "drawn.json", "--json"))["table"] == []
    program("report", "drawn.json", "--out", "drawn.html")
    assert "level" in Path("drawn.html").read_text("utf-8")
    shown = browsed(
        ledger,
        kind="draw",
        family="fresh",
        column="age",
        options="sigma=10",
        prior="40,20",
        epsilon="1",
        delta="1e-6",
    )
    assert "level" in shown


@dataclass(frozen=True, repr=False)
class Number(Answer):
    """How many records lie above a limit, give or take geometric noise."""

    format: ClassVar[str] = "newcomer/number"

    limit: float
    value: int
    noise: Fraction
    guarantee: Guarantee

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        guarantee = Guarantee.from_dict(content["guarantee"])
        return cls(float(content["limit"]), int(content["value"]), Fraction(content["noise"]), guarantee)

    def cost(self) -> Guarantee:
        return Guarantee(self.noise, basis="theorem: geometric noise")

    def _rows(self, level: float) -> list[Row]:
        reach = math.ceil(-math.log(1 - level) / self.guarantee.epsilon)
        return [Row(f"above {self.limit:g}", self.value, None, self.value - reach, self.value + reach)]

    def draws(self, size: int = 4000, seed: int | None = None) -> Any:
        return self.value - np.random.default_rng(seed).laplace(scale=float(1 / self.noise), size=(size, 1))

    def words(self) -> Words:
        return Words("A private number of records", f"Records above {self.limit:g}", notes=("Give or take.",))


@pytest.fixture
def above() -> Iterator[type[Question]]:
    @QUESTIONS.register
    @dataclass(frozen=True)
    class Above(Question):
        """The number of records above a limit."""

        kind: ClassVar[str] = "above"
        title: ClassVar[str] = "Records above a limit"
        sentence: ClassVar[str] = "Release how many records lie above a limit."

        column: str = parameter(TEXT, "The column.", example="age")
        limit: float = parameter(NUMBER, "What they lie above.", example="65", kw_only=True)

        def columns_used(self, schema: discreet.Schema) -> tuple[str, ...]:
            return (self.column,)

        def request(self, schema: discreet.Schema) -> Request:
            return Counted(schema=schema, question=self)

    @dataclass(frozen=True, kw_only=True)
    class Counted(Request):
        """What is read, and what it costs."""

        question: Above

        def read(self, data: Any) -> tuple[int, int]:
            """A record at the limit counts as 0, one that lies above by a millionth or more as 1."""
            ends = (self.question.limit, self.question.limit + 1e-6)
            summed = clipped_sum(data, column=self.question.column, bounds=ends, n=self.schema.size)
            return summed.grid_sum // summed.steps, summed.n

        def size_of(self, statistic: tuple[int, int]) -> int:
            return statistic[1]

        def bind(self, size: int) -> PricedRequest:
            epsilon = self.question.exact_epsilon
            promise = Guarantee(epsilon, basis="theorem: geometric noise")

            def make(statistic: tuple[int, int]) -> Number:
                noise = discrete_laplace(*epsilon.as_integer_ratio(), private_source())
                return Number(self.question.limit, statistic[0] + noise, epsilon, promise)

            return PricedRequest(promise, make)

    DOCUMENTS.register(Number)
    yield Above
    QUESTIONS.unregister("above")
    DOCUMENTS.unregister(Number.format)


def test_a_new_question(above: type[Question], ledger: str, program: Program) -> None:
    asked: dict[str, Any] = {"column": "age", "limit": 35, "epsilon": 4}
    question = above.of(asked)
    assert question.request(SCHEMA).price(30).epsilon == 4
    released = discreet.ask("ages.csv", question, schema=SCHEMA)
    rehearsed = discreet.Study("ages.csv", SCHEMA, epsilon=8).ask(question)
    assert not rehearsed.is_private
    assert abs(released.value - 20) < 20  # but with probability 2e-34
    assert "Records above 35" in printed(released)
    assert isinstance(studied(ledger, "above", **asked), Number)
    assert "Release how many records lie above a limit" in " ".join(program("--help").split())
    assert "--limit" in program("above", "--help")
    said = program(
        *("above", "ages.csv", "schema.toml", "age", "--limit", "35", "--epsilon", "4"),
        *("--ledger", ledger, "--dataset", "people", "--out", "number.json"),
    )
    assert "A private number of records" in said
    assert program("show", "number.json") == said
    assert json.loads(program("show", "number.json", "--json"))["table"][0]["name"] == "above 35"
    program("report", "number.json", "--out", "number.html")
    shown = browsed(ledger, kind="above", column="age", limit="35", epsilon="4")
    assert "A private number of records" in shown
    with discreet.Ledger(ledger) as book:
        assert book.show("people").spent.epsilon == 12
