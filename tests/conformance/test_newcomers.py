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
from discreet._registry import DOCUMENTS, FAMILIES, MECHANISMS, QUESTIONS
from discreet.answers.release import Release
from discreet.cli import main
from discreet.data import clipped_sum
from discreet.declarations import as_epsilon, as_rational, as_real
from discreet.documents.answer import Answer, Row, Words, as_count, load_answer
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.outputs import Output
from discreet.numerics.count_vectors import compositions
from discreet.posterior_sampling.families.means import GaussianMean
from discreet.posterior_sampling.family import Family
from discreet.posterior_sampling.sample import Sample
from discreet.privacy.guarantee import Guarantee
from discreet.questions.base import Bound, Question, parameter
from discreet.questions.text import BUDGET, NUMBER, TEXT, WHOLE
from discreet.randomness.bulk import uniform_composition
from discreet.randomness.entropy import private_source
from discreet.randomness.integers import discrete_laplace
from discreet.study.study import run_study
from test_studio import running, sent_by

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")

Program = Callable[..., str]


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
    """A ledger with room for everything, beside a file with the ages of people."""
    monkeypatch.chdir(tmp_path)
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
    lines = ["[study]", 'data = "ages.csv"', f'ledger = "{ledger}"', 'dataset = "people"']
    lines += ["[budget]", "epsilon = 20", "delta = 1e-3", "[[question]]", 'id = "one"', f'kind = "{kind}"']
    lines += [f"{name} = {json.dumps(value)}" for name, value in parameters.items()]
    Path("study.toml").write_text("\n".join(lines), "utf-8")
    result = run_study("study.toml")
    assert run_study("study.toml").answers["one"] == result.answers["one"]
    assert "Spent" in discreet.report(result)
    answer: Answer = result.answers["one"]
    return answer


def browsed(ledger: str, **asked: str) -> str:
    """The question in the studio: form, price, release, and the report that can be downloaded."""
    with running(ledger=ledger) as outside:
        browser = outside.enter()
        page = browser.follow(browser.upload(Path("ages.csv").read_bytes()))
        known = {"source": page.field("source"), "request": page.field("request"), "dataset": "people"}
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

        def _output(self, counts: tuple[int, ...], source: Any) -> Output:
            return Output(uniform_composition(self.n, self.k, source))

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
    asked: dict[str, Any] = {"column": "smoker", "levels": ["no", "yes"], "epsilon": 1, "mechanism": "blind"}
    released = discreet.release("ages.csv", **asked, ledger=ledger, dataset="people")
    # The output says nothing, so what is known is the prior.
    assert released.noise_aware().marginal(0).mean() == pytest.approx(0.5)
    assert "blind: The counts were made up." in printed(released)
    assert Release.from_json(studied(ledger, "proportion", **asked).to_json()).mechanism == "blind"
    assert "0" in program("audit", "blind", "--prior", "1,1", "--n", "8", "--epsilon", "1")
    said = program(
        *("release", "ages.csv", "--column", "smoker", "--levels", "no,yes", "--epsilon", "1"),
        *("--mechanism", "blind", "--ledger", ledger, "--dataset", "people", "--out", "made.json"),
    )
    assert "blind" in said
    assert program("show", "made.json") == said
    program("report", "made.json", "--out", "made.html")
    shown = browsed(ledger, column="smoker", levels="no\nyes", epsilon="1", mechanism="blind")
    assert "The counts were made up." in shown
    with running() as outside:
        browser = outside.enter()
        for page in (
            "plan?levels=no,yes&n=8&epsilon=1&mechanism=blind",
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
        "bounds": [0, 100],
        "sigma": 10,
        "prior": [40, 20],
        "epsilon": 1,
        "delta": 1e-6,
    }
    sampler = discreet.posterior_sampler(
        "diffused", "fresh", prior=(40, 20), n=30, sigma=10, bounds=(0, 100), epsilon=1, delta="1e-6"
    )
    assert sampler.guarantee.is_private
    released = discreet.posterior_sample("ages.csv", **asked, ledger=ledger, dataset="people")
    assert "level" in printed(released)
    assert released.parameters() == ["level"]
    assert released.prior_marginals()[0].mean() == 40
    assert Fraction(str(released.guarantee.exact_epsilon)) == 1
    with pytest.raises(discreet.InvalidInput, match="'fresh'"):
        released.noise_aware()
    assert isinstance(studied(ledger, "sample", **asked), Sample)
    said = program(
        *("sample", "ages.csv", "--family", "fresh", "--column", "age", "--bounds", "0,100", "--sigma", "10"),
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
        kind="sample",
        family="fresh",
        column="age",
        bounds="0,100",
        sigma="10",
        prior="40,20",
        epsilon="1",
        delta="1e-6",
    )
    assert "level" in shown


@dataclass(frozen=True)
class Number(Answer):
    """How many records lie above a limit, give or take geometric noise."""

    format: ClassVar[str] = "newcomer/number"

    limit: float
    value: int
    rate: Fraction
    guarantee: Guarantee

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        numbers = as_real(content["limit"], "limit"), as_count(content["value"], "value", -(10**9))
        rate, guarantee = as_rational(content["rate"], "rate", 0), Guarantee.from_dict(content["guarantee"])
        return cls(*numbers, rate, guarantee)

    def cost(self) -> Guarantee:
        return Guarantee(self.rate, basis="theorem: geometric noise")

    def rows(self, interval: float = 0.95) -> list[Row]:
        reach = math.ceil(-math.log(1 - interval) / self.rate)
        return [Row(f"above {self.limit:g}", self.value, None, self.value - reach, self.value + reach)]

    def words(self) -> Words:
        return Words("A private number of records", f"Records above {self.limit:g}", notes=("Give or take.",))


@pytest.fixture
def above() -> Iterator[type[Question]]:
    @QUESTIONS.register
    @dataclass(frozen=True, kw_only=True)
    class Above(Question):
        """The number of records above a limit."""

        kind: ClassVar[str] = "above"
        verb: ClassVar[str] = "above"
        title: ClassVar[str] = "Records above a limit"
        sentence: ClassVar[str] = "Release how many records lie above a limit."

        column: str = parameter(TEXT, "The column.", example="age")
        limit: float = parameter(NUMBER, "What they lie above.", example="65")
        epsilon: Any = parameter(BUDGET, "The price.", example="1/2")
        n: int | None = parameter(WHOLE, "Public number of records.", default=None)

        def __post_init__(self) -> None:
            as_epsilon(self.epsilon)

        def read(self, data: Any) -> tuple[int, int]:
            """A record at the limit counts as 0, one that lies above by a millionth or more as 1."""
            ends = (self.limit, self.limit + 1e-6)
            summed = clipped_sum(data, column=self.column, bounds=ends, n=self.n)
            return summed.grid_sum // summed.steps, summed.n

        def size_of(self, statistic: tuple[int, int]) -> int:
            return statistic[1]

        @property
        def declared_size(self) -> int | None:
            return self.n

        def bind(self, size: int) -> Bound:
            epsilon = as_epsilon(self.epsilon)
            promise = Guarantee(epsilon, basis="theorem: geometric noise")

            def make(statistic: tuple[int, int]) -> Number:
                noise = discrete_laplace(*epsilon.as_integer_ratio(), private_source())
                return Number(self.limit, statistic[0] + noise, epsilon, promise)

            return Bound(promise, make)

    DOCUMENTS.register(Number)
    yield Above
    QUESTIONS.unregister("above")
    DOCUMENTS.unregister(Number.format)


def test_a_new_question(above: type[Question], ledger: str, program: Program) -> None:
    asked: dict[str, Any] = {"column": "age", "limit": 35, "epsilon": 4}
    question = above.of(asked)
    assert question.price(30).epsilon == 4
    released = discreet.Study("ages.csv", budget=8).ask("above", **asked)
    assert abs(released.value - 20) < 20  # but with probability 2e-34
    assert "Records above 35" in printed(released)
    assert isinstance(studied(ledger, "above", **asked), Number)
    assert "Release how many records lie above a limit" in " ".join(program("--help").split())
    assert "--limit" in program("above", "--help")
    said = program(
        *("above", "ages.csv", "--column", "age", "--limit", "35", "--epsilon", "4"),
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
