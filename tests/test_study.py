"""Tables, groups, studies under one budget, study files that go on where they stopped, and reports."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet import Study, proportions
from discreet.cli import main
from discreet.reports import report
from discreet.study import load_answer, read_study, run_study

LEVELS = ("never", "former", "current")
STUDY = """
[study]
title = "A <b>survey</b>"
data = "survey.csv"
n = 120

[budget]
epsilon = 3
delta = "1e-5"

[[question]]
id = "smokers"
title = "Who smokes?"
column = "smoker"
levels = ["never", "former", "current"]
epsilon = "0.5"

[[question]]
id = "cross"
kind = "table"
columns = { sex = ["f", "m"], smoker = ["never", "former", "current"] }
epsilon = "0.5"

[[question]]
id = "given-sex"
kind = "conditional"
outcome = "smoker"
given = "sex"
levels = ["never", "former", "current"]
groups = ["f", "m", "x"]
epsilon = "0.5"

[[question]]
id = "age"
kind = "sample"
family = "gaussian"
column = "age"
bounds = [0, 100]
sigma = 20
prior = [50, 30]
epsilon = "0.5"
delta = "1e-6"

[[question]]
id = "age-groups"
column = "age"
edges = [0, 30, 60, 100]
epsilon = "0.25"

[[question]]
id = "mean-age"
kind = "query"
column = "age"
bounds = [0, 100]
prior = [5, 5]
epsilon = "0.5"
delta = "1e-6"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = random.Random(3)
    rows = [f"{'fm'[i % 2]},{rng.choice(LEVELS)},{20 + i % 60},{i // 2}" for i in range(120)]
    (tmp_path / "survey.csv").write_text("sex,smoker,age,person\n" + "\n".join(rows) + "\n")
    (tmp_path / "survey.toml").write_text(STUDY)
    return tmp_path


# Tables, groups, bins, people.


def test_table_counts_cells_and_sums_them_up(folder: Path) -> None:
    columns = {"sex": ("f", "m"), "smoker": LEVELS}
    released = discreet.release_table(folder / "survey.csv", columns, epsilon=50)
    assert released.levels[:2] == ("f · never", "f · former")
    assert sum(released.counts) == 120
    cells = np.array(released.posterior.parameters).reshape(2, 3)
    assert released.margin("sex").parameters == pytest.approx(tuple(cells.sum(axis=1)))
    assert released.margin("smoker").parameters == pytest.approx(tuple(cells.sum(axis=0)))
    assert released.margin("smoker", "sex").parameters == pytest.approx(tuple(cells.T.ravel()))
    assert cells.sum(axis=1) == pytest.approx(
        [63, 63]
    )  # at ε = 50 the noise is gone: 60 and three prior records
    again = discreet.Release.from_json(released.to_json())
    assert again == released
    for wrong in ((), ("age",), ("sex", "sex")):
        with pytest.raises(discreet.InvalidInput):
            released.margin(*wrong)
    with pytest.raises(discreet.InvalidInput, match="several columns"):
        discreet.release([1, 0], levels=(0, 1), epsilon=1).margin("sex")
    with pytest.raises(discreet.InvalidInput, match="at least two columns"):
        discreet.release_table(folder / "survey.csv", {"sex": ("f", "m")}, epsilon=1)


def test_groups_cost_the_budget_once_and_say_what_they_assume(folder: Path) -> None:
    question: dict[str, Any] = {
        "outcome": "smoker", "given": "sex", "levels": LEVELS, "groups": ("f", "m", "x"), "epsilon": "0.8",
    }  # fmt: skip
    found = discreet.release_conditional(folder / "survey.csv", **question)
    assert found.guarantee.exact_epsilon == Fraction(4, 5)
    assert any("public" in assumption for assumption in found.guarantee.assumptions)
    assert found.sizes == (60, 60, 0)
    assert found["x"] is None
    assert found["f"] is not None
    assert found["f"].n == 60
    assert found["f"].guarantee.exact_epsilon == Fraction(4, 5)
    assert discreet.ConditionalRelease.from_json(found.to_json()) == found
    assert "no records" in str(found)
    declared = discreet.release_conditional(folder / "survey.csv", **question, sizes=(60, 60, 0))
    assert declared.sizes == (60, 60, 0)
    with pytest.raises(discreet.InvalidInput, match="other numbers"):
        discreet.release_conditional(folder / "survey.csv", **question, sizes=(61, 59, 0))
    with pytest.raises(discreet.InvalidInput, match="2 entries for 3 groups"):
        discreet.release_conditional(folder / "survey.csv", **question, sizes=(60, 60))
    with pytest.raises(discreet.InvalidInput, match="not one of"):
        found["y"]


def test_conditional_law_of_neighbours_stays_within_epsilon() -> None:
    """Exact laws of both groups multiplied: one record changes its outcome, nothing else."""
    one, two = (discreet.mechanism("lattice", prior=(1, 1), n=n, epsilon="0.7") for n in (3, 4))
    other = np.exp(two.log_pmf((2, 2))[1])
    for x in range(3):
        p, q = (np.exp(one.log_pmf(c)[1]) for c in ((x, 3 - x), (x + 1, 2 - x)))
        ratio = np.multiply.outer(p, other) / np.multiply.outer(q, other)
        assert np.abs(np.log(ratio)).max() <= 0.7 + 1e-9


def test_bins_of_a_numeric_column(folder: Path) -> None:
    released = discreet.release(folder / "survey.csv", column="age", edges=(0, 40, 60, 100), epsilon=50)
    assert released.levels == ("[0, 40)", "[40, 60)", "[60, 100]")
    assert released.counts == (40, 40, 40)
    clipped = discreet.release(
        folder / "survey.csv", column="age", edges=(30, 40, 50), outside="clip", epsilon=50
    )
    assert sum(clipped.counts) == 120
    extra = discreet.release(
        folder / "survey.csv", column="age", edges=(30, 40, 50), outside="level", missing="level", epsilon=50
    )
    assert extra.levels[-2:] == ("outside", "missing")
    for options in ({}, {"edges": (0, 1, 2), "levels": (0, 1)}, {"levels": (0, 1), "outside": "clip"},
                    {"edges": (0, 1, 2), "other": 1}, {"edges": "abc"}, {"edges": (1, 0, 2)}):  # fmt: skip
        with pytest.raises(discreet.InvalidInput):
            discreet.release(folder / "survey.csv", column="age", epsilon=1, **options)  # type: ignore[arg-type]


def test_people_with_several_records(folder: Path) -> None:
    options: dict[str, Any] = {"column": "smoker", "levels": LEVELS, "epsilon": 1, "person": "person"}
    single = discreet.release(folder / "survey.csv", per_person=1, **options)
    assert single.n == 60
    assert single.guarantee.exact_epsilon == 1
    assert single.parameters["epsilon"] == "1"
    both = discreet.release(folder / "survey.csv", per_person=2, n=120, **options)
    assert both.guarantee.exact_epsilon == 1  # of a person
    assert both.parameters["epsilon"] == "1/2"  # of a record
    assert any("at most 2 records" in assumption for assumption in both.guarantee.assumptions)
    assert "at most 2 records" in report(both)
    assert both.noise_aware().marginal(0).mean() > 0
    with pytest.raises(discreet.InvalidInput, match="needs n="):
        discreet.release(folder / "survey.csv", per_person=2, **options)


def test_group_privacy_of_people_is_enumerated() -> None:
    """Two records of one person replaced: the exact loss of the lattice at ε/2 is at most ε."""
    built = discreet.mechanism("lattice", prior=(1, 1), n=5, epsilon="1/2")
    laws = [np.exp(built.log_pmf((x, 5 - x))[1]) for x in range(6)]
    losses = [np.abs(np.log(laws[x] / laws[x + 2])).max() for x in range(4)]
    assert max(losses) <= float(built.guarantee.group(2).epsilon) + 1e-9 == 1 + 1e-9


# Studies.


def test_study_spends_prices_and_refuses(folder: Path) -> None:
    study = Study(folder / "survey.csv", budget={"epsilon": 2, "delta": "1e-5"}, n=120)
    questions = [
        {"id": "a", "column": "smoker", "levels": LEVELS, "epsilon": "0.5"},
        {"id": "b", "kind": "sample", "family": "poisson", "column": "age", "bounds": (0, 100),
         "prior": (50, 1), "epsilon": 1, "delta": "1e-6"},
    ]  # fmt: skip
    price = study.price(questions)
    assert price.fits
    assert price.asked.epsilon == Fraction(3, 2)
    assert study.account().spent.epsilon == 0
    assert "fits" in str(price)
    released = study.release(column="smoker", levels=LEVELS, epsilon=1)
    assert released.receipt is not None
    assert not study.price(questions).fits
    with pytest.raises(discreet.BudgetExceededError):
        study.answer({**questions[0], "epsilon": "1.5"})
    first = study.answer(questions[0])
    assert study.answer(questions[0]) == first
    assert study.price(questions[:1]).charged == ("a",)
    with pytest.raises(discreet.RequestConflictError):
        study.answer({**questions[0], "epsilon": "0.25"})
    assert study.account().remaining.epsilon == Fraction(1, 2)
    table = study.table({"sex": ("f", "m"), "smoker": LEVELS}, epsilon="0.25")
    assert table.axes is not None
    found = study.conditional(
        outcome="smoker", given="sex", levels=LEVELS, groups=("f", "m"), epsilon="0.125"
    )
    assert found.receipt is not None
    drawn = study.statistical_query(
        column="age", bounds=(0, 100), prior=(5, 5), epsilon="0.0625", delta="1e-6"
    )
    assert drawn.bounds == (0, 100)
    assert study.account().remaining.epsilon == Fraction(1, 16)


def test_study_fits_a_logistic_regression(folder: Path) -> None:
    study = Study(folder / "survey.csv", budget={"epsilon": 2, "delta": "1e-5"}, n=120)
    question: dict[str, Any] = {
        "target": "sex", "classes": ("f", "m"), "features": {"age": (0, 100), "person": (0, 60)},
        "epsilon": 1, "delta": "1e-6",
    }  # fmt: skip
    assert study.price([{"id": "fit", "kind": "logistic", **question}]).asked.epsilon == 1
    fitted = study.logistic(**question, request_id="fit")
    assert fitted.coefficients.shape == (1, 1, 2)
    assert fitted.receipt is not None
    again = study.logistic(**question, request_id="fit")
    assert (again.coefficients == fitted.coefficients).all()
    assert study.account().spent.epsilon == 1
    assert "intercept" in report(fitted)
    assert load_answer(fitted.to_json()).classes == ("f", "m")
    for change, message in (
        ({"features": {"sex": (0, 1)}}, "cannot be a feature"),
        ({"features": {"agee": (0, 1)}}, "did you mean 'age'"),
        ({"features": {}}, "must map each column"),
        ({"features": {"age": (1, 0)}}, "low < high"),
    ):
        with pytest.raises(discreet.InvalidInput, match=message):
            study.logistic(**(question | change))
    with pytest.raises(discreet.DataError, match="60 of 120 records have a target outside"):
        study.logistic(**(question | {"classes": ("f", "x")}))
    with pytest.raises(discreet.DataError, match="no number"):
        study.logistic(**(question | {"features": {"smoker": (0, 1)}}))
    assert study.account().spent.epsilon == 1


def test_study_with_a_ledger_keeps_its_budget(folder: Path) -> None:
    address = folder / "ledger.db"
    first = Study(folder / "survey.csv", budget=1, ledger=address, dataset="survey")
    first.release(column="sex", levels=("f", "m"), epsilon="0.75")
    second = Study(folder / "survey.csv", budget=1, ledger=address, dataset="survey")
    with pytest.raises(discreet.BudgetExceededError):
        second.release(column="sex", levels=("f", "m"), epsilon="0.5")
    with pytest.raises(discreet.InvalidInput, match="the ledger's cap"):
        Study(folder / "survey.csv", budget=2, ledger=address, dataset="survey")
    for budget in (0, {"epsilon": 1, "rho": 2}, {}, "x"):
        with pytest.raises(discreet.InvalidInput):
            Study(folder / "survey.csv", budget=budget)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"column": "sex"}, "needs an id"),
        ({"id": "a b"}, "needs an id"),
        ({"id": "a", "kind": "proportions"}, "did you mean 'proportion'"),
        ({"id": "a", "colum": "sex"}, "did you mean 'column'"),
        ({"id": "a", "ledger": "x"}, "'ledger' is unknown"),
        ({"id": "a", "acknowledge_not_private": True}, "is unknown"),
    ],
)
def test_bad_questions(folder: Path, question: dict[str, Any], message: str) -> None:
    study = Study(folder / "survey.csv", budget=1)
    with pytest.raises(discreet.InvalidInput, match=message):
        study.price([question])
    with pytest.raises(discreet.InvalidInput, match=message):
        study.answer(question)


# Study files.


def test_run_goes_on_where_it_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    real = proportions.contingency

    def broken(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("the engine died")

    monkeypatch.setattr(proportions, "contingency", broken)
    with pytest.raises(RuntimeError):
        run_study(folder / "survey.toml", progress=lambda name, repeated: seen.append((name, repeated)))
    assert seen == []  # prices came first: a conditional needs the sizes of its groups
    monkeypatch.setattr(proportions, "contingency", real)
    calls = {"left": 1}

    def dies_later(*arguments: Any, **options: Any) -> Any:
        calls["left"] -= 1
        return real(*arguments, **options) if calls["left"] >= 0 else broken()

    monkeypatch.setattr(proportions, "contingency", dies_later)
    with pytest.raises(RuntimeError):
        run_study(folder / "survey.toml", progress=lambda name, repeated: seen.append((name, repeated)))
    assert seen == [("smokers", False)]
    monkeypatch.setattr(proportions, "contingency", real)
    result = run_study(folder / "survey.toml", progress=lambda name, repeated: seen.append((name, repeated)))
    assert seen[1:] == [("smokers", True), *((name, False) for name in list(result.answers)[1:])]
    assert result.account.spent.epsilon == Fraction(11, 4)
    again = run_study(folder / "survey.toml")
    assert again.answers == result.answers
    assert again.account.spent == result.account.spent
    document = json.loads(result.to_json())
    assert [entry["id"] for entry in document["release"]["answers"]] == list(result.answers)
    for entry, answer in zip(document["release"]["answers"], result.answers.values(), strict=True):
        assert load_answer(json.dumps(entry["answer"])) == answer


def test_study_that_does_not_fit_spends_nothing(folder: Path) -> None:
    path = folder / "survey.toml"
    path.write_text(STUDY.replace("epsilon = 3", "epsilon = 2"))
    with pytest.raises(discreet.BudgetExceededError, match="nothing was spent"):
        run_study(path)
    assert discreet.Ledger(folder / "survey.ledger.db").show("survey").spent.epsilon == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[study]", "[stdy]"), "is unknown; a study has"),
        (('data = "survey.csv"', ""), "data ="),
        (("n = 120", "m = 120"), "'m' is unknown"),
        (("[budget]", "[[question]]\nid = 'z'\n[budge]"), "is unknown; a study has"),
        (('id = "cross"', 'id = "smokers"'), "used twice"),
        (('kind = "table"', 'kind = "tabel"'), "did you mean 'table'"),
        (("[budget]", "[budget"), "not valid TOML"),
        (('delta = "1e-5"\n\n[[question]]', "gamma = 1\n\n[[question]]"), "budget has 'gamma'"),
    ],
)
def test_bad_study_files(folder: Path, change: tuple[str, str], message: str) -> None:
    path = folder / "bad.toml"
    assert change[0] in STUDY
    path.write_text(STUDY.replace(change[0], change[1], 1))
    with pytest.raises(discreet.InvalidInput, match=re.escape(message)):
        read_study(path)
    assert not (folder / "bad.ledger.db").exists()


def test_study_files_that_are_not_there(folder: Path) -> None:
    with pytest.raises(discreet.FileError):
        read_study(folder / "none.toml")
    (folder / "latin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(discreet.FileError):
        read_study(folder / "latin.toml")


def test_run_and_report_on_the_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        return int(stopped.value.code or 0)

    assert run("run", "survey.toml", "--price") == 0
    assert "fits" in capsys.readouterr().out
    assert run("run", "survey.toml") == 0
    assert "6/6 mean-age" in capsys.readouterr().err
    first = (folder / "survey-results" / "study.json").read_text()
    assert run("run", "survey.toml", "--json", "--out", "again") == 0
    assert json.loads(capsys.readouterr().out)["budget"]["spent"]["epsilon"] == "11/4"
    documents = [json.loads(first), json.loads((folder / "again" / "study.json").read_text())]
    answers = [[entry["answer"] for entry in d["release"]["answers"]] for d in documents]
    assert answers[0] == answers[1]
    assert (folder / "again" / "report.html").exists()
    answer = documents[0]["release"]["answers"][2]["answer"]
    Path("given.json").write_text(json.dumps(answer))
    assert run("show", "given.json") == 0
    assert "P(smoker | sex)" in capsys.readouterr().out
    assert run("report", "given.json", "--out", "given.html") == 0
    assert run("report", "given.json", "--out", "given.html") != 0  # it is not replaced


# Reports.


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)
        if tag not in ("meta", "br", "line", "polyline"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "polyline"):
            assert self.open.pop() == tag


def test_report_is_whole_escaped_and_fetches_nothing(folder: Path) -> None:
    text = report(run_study(folder / "survey.toml"))
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert "script" not in tags.seen
    assert "b" not in tags.seen  # the title's markup is text
    assert "A &lt;b&gt;survey&lt;/b&gt;" in text
    assert not re.search(r"https?://|src=|url\(", text)
    for words in ("Who smokes?", "Receipt", "Replacing any one record", "How to verify", "the prior"):
        assert words in text


def test_report_holds_released_values_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same released counts from other data: the report is the same, byte for byte."""
    monkeypatch.setattr(
        discreet.mechanisms.lattice.Lattice, "_output",
        lambda self, counts, source: discreet.mechanisms.Output((40, 40, 40), (40, 40, 40)),
    )  # fmt: skip
    one, two = (
        discreet.release(
            {"a": a, "b": 40, "c": 80 - a}, levels=("a", "b", "c"), epsilon=1, mechanism="lattice"
        )
        for a in (50, 20)
    )
    assert report(one) == report(two)
    assert one.to_json() == two.to_json()
