"""Tables, groups, studies under one budget, study files that go on where they stopped, and reports."""

from __future__ import annotations

import json
import random
import re
import runpy
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet
import shorthand
from discreet import Study
from discreet._cli import main
from discreet._declarations import Domain, Relation
from discreet._documents.answer import load_answer
from discreet._documents.base import write_document
from discreet._reporting.report import report
from discreet.answers.conditional import ConditionalRelease
from discreet.answers.release import Release
from discreet.errors import (
    BudgetExceededError,
    CorruptReleaseError,
    DataError,
    DiscreetError,
    FileError,
    InvalidInputError,
    NoiseWarning,
    RequestConflictError,
)
from discreet.questions import _counts as counts
from discreet.study.study import read_study, run_study

pytestmark = pytest.mark.filterwarnings("ignore:the number of records in each group")

LEVELS = ("never", "former", "current")
STUDY = """
[study]
title = "A <b>survey</b>"
data = "survey.csv"
epsilon = 3
delta = "1e-5"

[schema]
n = 120

[schema.columns]
smoker = ["never", "former", "current"]
sex = { values = ["f", "m", "x"], public = true }
age = { low = 0, high = 100, bins = [0, 30, 60, 100] }

[[question]]
id = "smokers"
title = "Who smokes?"
columns = "smoker"
epsilon = "0.5"

[[question]]
id = "cross"
columns = ["sex", "smoker"]
epsilon = "0.5"

[[question]]
id = "given-sex"
columns = "smoker"
by = "sex"
epsilon = "0.5"

[[question]]
id = "age"
kind = "draw"
column = "age"
family = "gaussian"
prior = [50, 30]
options = { sigma = 20 }
epsilon = "0.5"
delta = "1e-6"

[[question]]
id = "age-groups"
columns = "age"
epsilon = "0.25"

[[question]]
id = "mean-age"
kind = "draw"
column = "age"
prior = [5, 5]
epsilon = "0.5"
delta = "1e-6"
"""
PUBLIC_SEX = discreet.Category(("f", "m"), public=True)
SCHEMA = discreet.Schema({"smoker": LEVELS, "sex": PUBLIC_SEX, "age": (0, 100), "person": (0, 60)}, n=120)


def study_of(folder: Path, schema: Any = SCHEMA, name: str = "ledger.db", **given: Any) -> Study:
    """A study of the survey, with a ledger of its own."""
    return Study(folder / "survey.csv", schema, ledger=folder / name, dataset="survey", **given)


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
    released = shorthand.table(folder / "survey.csv", columns, epsilon=50)
    assert released.levels[:2] == ("f · never", "f · former")
    assert sum(released.counts) == 120
    cells = np.array(released.plug_in.parameters).reshape(2, 3)
    cells_of = cells / cells.sum()  # at ε = 50 the noise is gone: margins are those of the posterior
    assert released.margin("sex").mean() == pytest.approx(cells_of.sum(axis=1), abs=0.01)
    assert released.margin("smoker").mean() == pytest.approx(cells_of.sum(axis=0), abs=0.01)
    both = released.margin("smoker", "sex")
    assert both.mean() == pytest.approx(cells_of.T.ravel(), abs=0.01)
    assert both.names[:2] == ((LEVELS[0], "f"), (LEVELS[0], "m"))
    assert [row["name"] for row in released.margin("sex").table()] == ["f", "m"]
    assert cells.sum(axis=1) == pytest.approx(
        [63, 63]
    )  # at ε = 50 the noise is gone: 60 and three prior records
    again = Release.from_json(released.to_json())
    assert again == released
    for wrong in ((), ("age",), ("sex", "sex")):
        with pytest.raises(InvalidInputError):
            released.margin(*wrong)
    with pytest.raises(InvalidInputError, match="several columns"):
        shorthand.shares([1, 0], levels=(0, 1), epsilon=1).margin("sex")


def test_groups_cost_the_budget_once_and_say_what_they_assume(folder: Path) -> None:
    question: dict[str, Any] = {
        "outcome": "smoker",
        "by": "sex",
        "levels": LEVELS,
        "groups": ("f", "m", "x"),
        "epsilon": "0.8",
    }
    found = shorthand.groups(folder / "survey.csv", **question)
    assert found.guarantee.exact_epsilon == Fraction(4, 5)
    assert any("public" in assumption for assumption in found.guarantee.assumptions)
    assert found.sizes == (60, 60, 0)
    assert found["x"] is None
    assert found["f"] is not None
    assert found["f"].n == 60
    assert found["f"].guarantee.exact_epsilon == Fraction(4, 5)
    assert ConditionalRelease.from_json(found.to_json()) == found
    assert "No records" in str(found)
    declared = shorthand.groups(folder / "survey.csv", **question, sizes=(60, 60, 0))
    assert declared.sizes == (60, 60, 0)
    with pytest.raises(InvalidInputError, match="not the numbers of records"):
        shorthand.groups(folder / "survey.csv", **question, sizes=(61, 59, 0))
    with pytest.raises(InvalidInputError, match="2 entries for 3 groups"):
        shorthand.groups(folder / "survey.csv", **question, sizes=(60, 60))
    with pytest.raises(InvalidInputError, match="not one of"):
        found["y"]


def test_conditional_distribution_of_neighbours_stays_within_epsilon() -> None:
    """Exact distributions of both groups multiplied: one record changes its outcome, nothing else."""
    one, two = (discreet.mechanism("lattice", prior=(1, 1), n=n, epsilon="0.7") for n in (3, 4))
    other = np.exp(two.log_pmf((2, 2))[1])
    for x in range(3):
        p, q = (np.exp(one.log_pmf(c)[1]) for c in ((x, 3 - x), (x + 1, 2 - x)))
        ratio = np.multiply.outer(p, other) / np.multiply.outer(q, other)
        assert np.abs(np.log(ratio)).max() <= 0.7 + 1e-9


def test_bins_of_a_numeric_column(folder: Path) -> None:
    released = shorthand.shares(folder / "survey.csv", column="age", edges=(0, 40, 60, 100), epsilon=50)
    assert released.levels == ("[0, 40)", "[40, 60)", "[60, 100]")
    assert released.counts == (40, 40, 40)
    clipped = shorthand.shares(
        folder / "survey.csv", column="age", edges=(30, 40, 50), outside="clip", epsilon=50
    )
    assert sum(clipped.counts) == 120
    extra = shorthand.shares(
        folder / "survey.csv", column="age", edges=(30, 40, 50), outside="bin", missing="bin", epsilon=50
    )
    assert extra.levels[-2:] == ("outside", "missing")
    for edges in ("abc", (1, 0, 2), (1, 2)):
        with pytest.raises(InvalidInputError):
            shorthand.shares(folder / "survey.csv", column="age", epsilon=1, edges=edges)


def test_people_with_several_records(folder: Path) -> None:
    options: dict[str, Any] = {"column": "smoker", "levels": LEVELS, "epsilon": 1, "person": "person"}
    single = shorthand.shares(folder / "survey.csv", per_person=1, **options)
    assert single.n == 60
    assert single.guarantee.exact_epsilon == 1
    assert single.parameters["epsilon"] == "1"
    both = shorthand.shares(folder / "survey.csv", per_person=2, n=120, **options)
    assert both.guarantee.exact_epsilon == 1  # of a person
    assert both.parameters["epsilon"] == "1/2"  # of a record
    assert any("at most 2 records" in assumption for assumption in both.guarantee.assumptions)
    assert both.guarantee.relation is Relation.REPLACE_PERSON
    assert "with all their records, by any other person" in both.guarantee.meaning()
    assert "at most 2 records" in report(both)
    assert both.posterior.marginal(0).mean() > 0
    with pytest.raises(InvalidInputError, match="needs a declared n"):
        shorthand.shares(folder / "survey.csv", per_person=2, **options)


def test_group_privacy_of_people_is_enumerated() -> None:
    """Two records of one person replaced: the exact loss of the lattice at ε/2 is at most ε."""
    built = discreet.mechanism("lattice", prior=(1, 1), n=5, epsilon="1/2")
    distributions = [np.exp(built.log_pmf((x, 5 - x))[1]) for x in range(6)]
    losses = [np.abs(np.log(distributions[x] / distributions[x + 2])).max() for x in range(4)]
    assert max(losses) <= float(built.guarantee.group(2).epsilon) + 1e-9 == 1 + 1e-9


# Studies.


def test_study_spends_prices_and_refuses(folder: Path) -> None:
    study = study_of(folder, epsilon=2, delta="1e-5")
    questions = [
        {"id": "a", "columns": "smoker", "epsilon": "0.5"},
        {"id": "b", "kind": "draw", "column": "age", "family": "poisson", "prior": (50, 1), "epsilon": 1,
         "delta": "1e-6"},
    ]  # fmt: skip
    price = study.price(questions)
    assert price.fits
    assert price.asked.epsilon == Fraction(3, 2)
    assert study.account().spent.epsilon == 0
    assert "fits" in str(price)
    released = study.proportions("smoker", epsilon=1)
    assert released.receipt is not None
    assert not study.price(questions).fits
    with pytest.raises(BudgetExceededError):
        study.answer({**questions[0], "epsilon": "1.5"})
    first = study.answer(questions[0])
    assert study.answer(questions[0]) == first
    assert study.price(questions[:1]).charged == ("a",)
    with pytest.raises(RequestConflictError):
        study.answer({**questions[0], "epsilon": "0.25"})
    assert study.account().remaining.epsilon == Fraction(1, 2)
    table = study.proportions("sex", "smoker", epsilon="0.25")
    assert table.axes is not None
    grouped = study.proportions("smoker", by="sex", epsilon="0.125")
    assert grouped.receipt is not None
    drawn = study.draw("age", prior=(5, 5), epsilon="0.0625", delta="1e-6")
    assert drawn.bounds == (0, 100)
    assert study.account().remaining.epsilon == Fraction(1, 16)
    assert "ε = 0.0625" in str(study)
    assert "\n" not in repr(study)


def test_a_study_without_a_ledger_opens_no_data(tmp_path: Path) -> None:
    study = Study(tmp_path / "nowhere.csv", SCHEMA, epsilon=2, delta="1e-5")
    for answer in (
        study.proportions("smoker", epsilon=1),
        study.proportions("smoker", by="sex", epsilon=1),
        study.mean("age", epsilon=1),
        study.regress("age ~ smoker", epsilon=1),
        study.draw("smoker", epsilon=1, delta="1e-6"),
        study.network({"smoker": ["sex"]}, epsilon=1),
    ):
        assert not answer.is_private
        assert "not private" in answer.guarantee.basis
    assert "not private" in str(study)
    assert "must not be published as private" in study.report()


def test_study_draws_logistic_coefficients(folder: Path) -> None:
    study = study_of(folder, epsilon=2, delta="1e-5")
    question: dict[str, Any] = {"column": "sex ~ age + person", "epsilon": 1, "delta": "1e-6"}
    assert study.price([{"id": "fit", "kind": "draw", **question}]).asked.epsilon == 1
    fitted = study.draw(**question, id="fit")
    assert fitted.coefficients.shape == (1, 1, 2)
    assert fitted.receipt is not None
    again = study.draw(**question, id="fit")
    assert (again.coefficients == fitted.coefficients).all()
    assert study.account().spent.epsilon == 1
    assert "intercept" in report(fitted)
    assert load_answer(fitted.to_json()).classes == ("f", "m")
    for formula, message in (
        ("sex ~ sex", "declared as a category"),
        ("sex ~ agee", "did you mean 'age'"),
        ("age ~ person", "declared as numbers"),
        ("sex ~ smoker", "not as numbers"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            study.draw(**{**question, "column": formula})
    for formula, message in (
        ("sex ~ age", "undeclared value in column 'sex'"),
        ("person ~ smoker", "no number"),
    ):
        people = discreet.Category([str(i) for i in range(60)])
        columns = {"sex": ("f", "x"), "smoker": (0, 1), "age": (0, 100), "person": people}
        others = discreet.Schema(columns, n=120)
        with pytest.raises(DataError, match=message):
            study_of(folder, others, "other.db", epsilon=2, delta="1e-5").draw(
                **{**question, "column": formula}
            )
    assert study.account().spent.epsilon == 1


def test_study_with_a_ledger_keeps_its_budget(folder: Path) -> None:
    study_of(folder, epsilon=1).proportions("sex", epsilon="0.75")
    with pytest.raises(BudgetExceededError):
        study_of(folder, epsilon=1).proportions("sex", epsilon="0.5")
    with pytest.raises(InvalidInputError, match="the ledger's cap"):
        study_of(folder, epsilon=2)
    with pytest.raises(InvalidInputError, match="this schema is for add-remove"):
        study_of(folder, {"sex": ("f", "m")}, epsilon=1)
    for given in ({"epsilon": 0}, {"epsilon": 1, "zcdp": 2}, {"epsilon": "x"}, {"epsilon": (1, "1e-6")}):
        with pytest.raises(InvalidInputError):
            study_of(folder, name="none.db", **given)
    with pytest.raises(InvalidInputError, match="epsilon is missing"):
        Study(folder / "survey.csv", SCHEMA)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"columns": "sex"}, "needs an id"),
        ({"id": "a b"}, "needs an id"),
        ({"id": "a", "kind": "proportion"}, "did you mean 'proportions'"),
        ({"id": "a", "column": "sex"}, "did you mean 'columns'"),
        ({"id": "a", "ledger": "x"}, "ledger='x' belongs to the charge"),
        ({"id": "a", "columns": "sex", "epsilon": 1, "options": {"gama": 1}}, "did you mean 'gamma'"),
        ({"id": "a", "columns": "sex"}, "epsilon is missing"),
        ({"id": "a", "kind": "regress", "epsilon": 1}, "formula is missing"),
        ({"id": "a", "kind": ["table"]}, "is unknown"),
        ({"id": "a", "columns": "sexes", "epsilon": 1}, "did you mean 'sex'"),
    ],
)
def test_bad_questions(folder: Path, question: dict[str, Any], message: str) -> None:
    study = study_of(folder, epsilon=1)
    with pytest.raises(InvalidInputError, match=message):
        study.price([question])
    with pytest.raises(InvalidInputError, match=message):
        study.answer(question)


# What a review found.

PLANS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "proportions": (
        {"columns": "sex", "epsilon": "0.5", "mechanism": "ehds", "options": {"gamma": 1.0}},
        {"columns": "smoker", "epsilon": "0.25", "options": {"gamma": 0.5}, "prior": 2},
    ),
    "mean": (
        {"column": "age", "epsilon": "0.5"},
        {"column": "person", "by": "sex", "epsilon": 1, "delta": "1e-6"},
    ),
    "regress": (
        {"formula": "age ~ smoker", "epsilon": 1, "delta": "1e-6"},
        {"formula": "age ~ sex", "epsilon": 2, "delta": "1e-7", "prior": {"Intercept": (50, 10)}},
    ),
    "draw": (
        {"column": "age", "family": "gaussian", "options": {"sigma": 20}, "prior": (50, 30), "epsilon": "0.5",
         "delta": "1e-6"},
        {"options": {"sigma": 10}, "prior": (50, 20), "epsilon": 1, "delta": "1e-7", "column": "person",
         "method": "concentrated"},
    ),
    "network": (
        {"parents": {"smoker": ["sex"]}, "epsilon": 1},
        {"parents": {"sex": ["smoker"]}, "epsilon": 2},
    ),
}  # fmt: skip
DECLARED = (
    {"strict": False},
    {"columns": {**SCHEMA.columns, "age": (0, 90), "person": (0, 61)}},
    {
        "columns": {
            **SCHEMA.columns,
            "smoker": LEVELS[::-1],
            "sex": discreet.Category(("m", "f"), public=True),
        }
    },
)


@pytest.mark.parametrize("kind", PLANS)
def test_every_public_parameter_is_in_the_plan(folder: Path, kind: str) -> None:
    """Changed under the same id: refused before anything is charged, never the answer of another question."""
    question, changes = PLANS[kind]
    study = study_of(folder, epsilon=20, delta="1e-3")
    study.answer({"id": "q", "kind": kind, **question})
    spent = study.account().spent
    for name, value in changes.items():
        changed = {"id": "q", "kind": kind, **question, name: value}
        with pytest.raises(RequestConflictError):
            study.answer(changed)
        with pytest.raises(RequestConflictError):
            study.price([changed])
    assert study.account().spent == spent
    assert study.price([{"id": "q", "kind": kind, **question}]).charged == ("q",)


@pytest.mark.parametrize("change", DECLARED)
def test_every_declaration_that_matters_is_in_the_plan(folder: Path, change: dict[str, Any]) -> None:
    question = {"id": "q", "columns": ["sex", "smoker"], "epsilon": 1}
    study_of(folder, epsilon=20).answer(question)
    other = study_of(folder, discreet.Schema(**{"columns": SCHEMA.columns, "n": 120, **change}), epsilon=20)
    if "strict" not in change and change["columns"]["smoker"] == SCHEMA["smoker"]:  # the question has no age
        assert other.answer(question).receipt.repeated
        return
    with pytest.raises(RequestConflictError):
        other.answer(question)


def test_people_and_records_have_different_relations(folder: Path) -> None:
    """Moving a record from one person to another changes two people: more than the person's ε."""
    one = shorthand.shares(
        folder / "survey.csv", column="smoker", levels=LEVELS, epsilon=1, person="person", per_person=1
    )
    two = shorthand.shares(folder / "survey.csv", column="smoker", levels=LEVELS, epsilon=1)
    with pytest.raises(InvalidInputError, match="different relations"):
        discreet.compose([one.guarantee, two.guarantee])
    people = discreet.Schema({"smoker": LEVELS}, n=60, person="person", per_person=1)
    study_of(folder, people, epsilon=3).proportions("smoker", epsilon=1)
    with pytest.raises(DiscreetError, match="replace-person"):
        study_of(folder, {"smoker": LEVELS}, epsilon=3).proportions("smoker", epsilon=1)
    with pytest.warns(NoiseWarning):
        built = discreet.mechanism("lattice", prior=(1, 1, 1, 1), n=2, epsilon=1)
    p, q = (np.exp(built.log_pmf(c)[1]) for c in ((1, 0, 0, 1), (0, 1, 1, 0)))
    assert np.abs(np.log(p / q)).max() > 1.5  # which is why replace-one is not claimed
    for wrong in (0, -1):
        with pytest.raises(InvalidInputError, match="per_person"):
            shorthand.shares(
                folder / "survey.csv",
                column="smoker",
                levels=LEVELS,
                epsilon=1,
                person="person",
                per_person=wrong,
                n=120,
            )


def test_equal_values_that_print_differently_do_not_decide_for_each_other() -> None:
    from discreet._data import count_levels

    domain = Domain(("(1,)", "(True,)"))
    for first, others in (((1,), (True,)), ((True,), (1,))):
        counts = count_levels([first] + [others] * 5, domain)
        assert counts == ((1, 5) if first == (1,) and type(first[0]) is int else (5, 1))


def test_dates_in_a_study_file(folder: Path) -> None:
    (folder / "days.csv").write_text("day\n" + "2024-01-01\n2024-01-02\n" * 10)
    (folder / "days.toml").write_text(
        '[study]\ndata = "days.csv"\nepsilon = 1\n[schema.columns]\nday = [2024-01-01, 2024-01-02]\n'
        '[schema]\nn = 20\n[[question]]\nid = "days"\ncolumns = "day"\nepsilon = 1\n'
    )
    result = run_study(folder / "days.toml")
    assert sum(result.answers["days"].counts) == 20
    written = json.loads(result.to_json())["release"]["schema"]["columns"]["day"]
    assert written == ["2024-01-01", "2024-01-02"]


def test_answers_of_other_data_are_not_taken_for_these(folder: Path) -> None:
    with pytest.raises(InvalidInputError, match="dataset is missing"):
        Study({"sex": ["f"]}, SCHEMA, epsilon=1, ledger=folder / "l.db")
    question = {"id": "q", "columns": "sex", "epsilon": "0.5"}
    study_of(folder, epsilon=1).answer(question)
    (folder / "other.csv").write_text((folder / "survey.csv").read_text())
    other = Study(folder / "other.csv", SCHEMA, epsilon=1, ledger=folder / "ledger.db", dataset="survey")
    with pytest.raises(RequestConflictError):
        other.answer(question)


def test_a_finished_study_needs_no_data(folder: Path) -> None:
    path = folder / "survey.toml"
    path.write_text(STUDY.replace("n = 120\n", 'n = "public"\n'))
    first = run_study(path)
    (folder / "survey.csv").unlink()
    assert run_study(path).answers == first.answers


def test_prices_write_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(path.name for path in folder.iterdir())
    tight = folder / "survey.toml"
    tight.write_text(STUDY.replace("epsilon = 3", "epsilon = 1"))
    for arguments in (["run", str(tight), "--price"], ["run", str(tight)]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 7
    assert sorted(path.name for path in folder.iterdir()) == before
    tight.write_text(STUDY)  # a larger budget is no conflict: nothing was fixed by asking
    assert run_study(tight).account.cap.epsilon == 3


def test_the_ledger_of_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISCREET_LEDGER", str(folder / "team.db"))
    run_study(folder / "survey.toml")
    assert (folder / "team.db").exists()
    assert not (folder / "survey.ledger.db").exists()


def test_one_group_alone_says_what_it_assumes(folder: Path) -> None:
    found = shorthand.groups(
        folder / "survey.csv",
        outcome="sex",
        by="smoker",
        levels=("f", "m"),
        groups=Domain(("all", "none"), other="all"),
        epsilon=1,
    )
    assert found.sizes == (120, 0)
    assert any("public" in assumption for assumption in found.guarantee.assumptions)
    assert any("public" in assumption for assumption in found["all"].guarantee.assumptions)  # type: ignore[union-attr]


def test_infinite_and_close_edges(folder: Path) -> None:
    ages = {"age": discreet.Number(0, 100, bins=(float("-inf"), 40, float("inf")))}
    found = study_of(folder, discreet.Schema(ages, n=120), epsilon=1).proportions("age", epsilon="0.5")
    assert sum(found.counts) == 120
    close = shorthand.shares([1000000.5] * 9, edges=(1000000, 1000001, 1000002), epsilon=1)
    assert close.levels == ("[1000000, 1000001)", "[1000001, 1000002]")


@pytest.mark.slow
def test_study_documents_are_shown_and_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_study(folder / "survey.toml")
    (folder / "study.json").write_text(result.to_json())
    document = load_answer(result.to_json())
    assert document.answers == result.answers
    for name, answer in result.answers.items():
        read = document.answers[name].receipt
        assert (read.hash, read.charged, read.guarantee) == (
            answer.receipt.hash,
            answer.receipt.charged,
            answer.receipt.guarantee,
        )
        assert f"hash {read.hash}" in report(document)
    with pytest.raises(SystemExit) as stopped:
        main(["show", str(folder / "study.json")])
    assert not stopped.value.code
    assert "mean-age" in capsys.readouterr().out
    assert "Who smokes?" in report(document)
    edited = result.to_json().replace('"sex"', '"sexes"', 1)
    with pytest.raises(CorruptReleaseError):
        load_answer(edited)


def test_hostile_text_stays_text(folder: Path) -> None:
    nasty = "<img src=x onerror=alert(1)>"
    (folder / "nasty.csv").write_text(f"{nasty},who\n" + f"{nasty},1\nb,2\n" * 5)
    found = shorthand.shares(
        folder / "nasty.csv",
        column=nasty,
        levels=(nasty, "b"),
        epsilon=1,
        person="who",
        per_person=1,
        mechanism="lattice",
    )
    grouped = shorthand.groups(
        folder / "nasty.csv", outcome="who", by=nasty, levels=("1", "2"), groups=(nasty, "b"), epsilon=1
    )
    for answer in (found, grouped):
        text = report(answer, title=nasty)
        assert "<img" not in text
        tags = Tags()
        tags.feed(text)
        assert "img" not in tags.seen


def test_one_file_by_two_names(folder: Path) -> None:
    (folder / "again.csv").symlink_to(folder / "survey.csv")
    with pytest.raises(FileError, match="twice"):
        shorthand.shares(
            [folder / "survey.csv", folder / "again.csv"], column="sex", levels=("f", "m"), epsilon=1
        )


# Study files.


def test_run_goes_on_where_it_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, bool]] = []
    real = counts.contingency

    def broken(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("the engine died")

    monkeypatch.setattr(counts, "contingency", broken)
    with pytest.raises(RuntimeError):
        run_study(folder / "survey.toml", progress=lambda name, repeated: seen.append((name, repeated)))
    assert seen == []  # prices came first: a conditional needs the sizes of its groups
    monkeypatch.setattr(counts, "contingency", real)
    publish = counts.ConditionalRelease
    monkeypatch.setattr(counts, "ConditionalRelease", broken)
    with pytest.raises(RuntimeError):
        run_study(folder / "survey.toml", progress=lambda name, repeated: seen.append((name, repeated)))
    assert seen == [("smokers", False), ("cross", False)]
    monkeypatch.setattr(counts, "ConditionalRelease", publish)
    result = run_study(folder / "survey.toml", progress=lambda name, repeated: seen.append((name, repeated)))
    again = [("smokers", True), ("cross", True)]
    assert seen[2:] == [*again, *((name, False) for name in list(result.answers)[2:])]
    assert result.account.spent.epsilon == Fraction(11, 4)
    again = run_study(folder / "survey.toml")
    assert again.answers == result.answers
    assert again.to_json() == result.to_json()  # a document made again is the same, byte for byte
    assert report(again) == report(result)
    assert again.account.spent == result.account.spent
    document = json.loads(result.to_json())
    assert [entry["id"] for entry in document["release"]["answers"]] == list(result.answers)
    for entry, answer in zip(document["release"]["answers"], result.answers.values(), strict=True):
        assert load_answer(json.dumps(entry["answer"])) == answer


def test_study_that_does_not_fit_spends_nothing(folder: Path) -> None:
    path = folder / "survey.toml"
    path.write_text(STUDY.replace("epsilon = 3", "epsilon = 2"))
    with pytest.raises(BudgetExceededError, match="nothing was spent"):
        run_study(path)
    assert not (folder / "survey.ledger.db").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[study]", "[stdy]"), "is unknown; a study file has"),
        (('data = "survey.csv"', ""), "data ="),
        (("n = 120", "m = 120"), "m=120 is unknown"),
        (("[schema.columns]", "[schema.colums]"), "a schema needs a table of columns"),
        (("[schema]", "[schem]"), "is unknown; a study file has"),
        (('id = "cross"', 'id = "smokers"'), "used twice"),
        (('kind = "draw"', 'kind = "drew"'), "did you mean 'draw'"),
        (("[schema]", "[schema"), "not valid TOML"),
        (('delta = "1e-5"', "gamma = 1"), "gamma=1 is unknown to a study"),
        (('columns = "smoker"', 'columns = "smokers"'), "did you mean 'smoker'"),
        (("low = 0, high = 100", "low = 100, high = 0"), "low < high"),
    ],
)
def test_bad_study_files(folder: Path, change: tuple[str, str], message: str) -> None:
    path = folder / "bad.toml"
    assert change[0] in STUDY
    path.write_text(STUDY.replace(change[0], change[1], 1))
    with pytest.raises(InvalidInputError, match=re.escape(message)):
        read_study(path)
    assert not (folder / "bad.ledger.db").exists()


def test_study_files_that_are_not_there(folder: Path) -> None:
    with pytest.raises(FileError):
        read_study(folder / "none.toml")
    (folder / "latin.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(FileError):
        read_study(folder / "latin.toml")


def run(*arguments: str) -> int:
    """The exit code of the command line."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    return int(stopped.value.code or 0)


@pytest.mark.slow
def test_run_and_report_on_the_command_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)

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
    assert "Private shares of smoker within each sex" in capsys.readouterr().out
    assert run("report", "given.json", "--out", "given.html") == 0
    assert run("report", "given.json", "--out", "given.html") != 0  # it is not replaced
    assert run("report", "again/study.json", "--out", "study.html", "--ledger", "ledger.db") == 2
    assert "already has its receipts" in capsys.readouterr().err


def test_a_report_of_one_release_finds_its_receipt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    with discreet.Ledger("ledger.db") as book:
        book.create("survey", epsilon=1)
        given = {"ledger": book, "dataset": "survey", "request_id": "once"}
        release = shorthand.shares({"no": 30, "yes": 12}, levels=("no", "yes"), epsilon="0.5", **given)
    Path("r.json").write_text(release.to_json())
    assert run("report", "r.json", "--out", "with.html", "--ledger", "ledger.db") == 0
    assert release.receipt is not None
    assert f"hash {release.receipt.hash}" in Path("with.html").read_text()
    assert run("report", "r.json", "--out", "without.html") == 0
    assert "Receipt: none" in Path("without.html").read_text()
    other = shorthand.shares({"no": 30, "yes": 12}, levels=("no", "yes"), epsilon="0.4")
    Path("r.json").write_text(other.to_json())
    capsys.readouterr()
    assert run("report", "r.json", "--out", "none.html", "--ledger", "ledger.db") == 2
    assert "this release is not in the ledger" in capsys.readouterr().err
    assert not Path("none.html").exists()


def test_an_older_document_finds_its_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own text: written again today it would have more fields."""
    monkeypatch.chdir(tmp_path)
    sampler = discreet.posterior_sampler("direct", "beta", prior=(5, 5), n=40)
    content = json.loads(sampler.release(12).to_json())["release"]
    del content["levels"]
    text = write_document("discreet/sample", 1, content)
    with discreet.Ledger("ledger.db") as book:
        book.create("survey", epsilon=1, delta="1e-5")
        spent = discreet.Guarantee(Fraction(1, 2))
        receipt = book.spend("survey", spent, lambda: text, plan={"question": "old"})
    Path("old.json").write_text(text)
    assert run("report", "old.json", "--out", "old.html", "--ledger", "ledger.db") == 0
    assert f"hash {receipt.hash}" in Path("old.html").read_text()


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
    for words in ("Who smokes?", "Receipt", "How people are protected", "How to verify", "the prior"):
        assert words in text


def test_report_holds_released_values_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same released counts from other data: the report is the same, byte for byte."""
    monkeypatch.setattr(
        discreet.mechanisms.lattice.Lattice,
        "_noisy",
        lambda self, counts, source: (40, 40, 40),
    )
    one, two = (
        shorthand.shares(
            {"a": a, "b": 40, "c": 80 - a}, levels=("a", "b", "c"), epsilon=1, mechanism="lattice"
        )
        for a in (50, 20)
    )
    assert report(one) == report(two)
    assert one.to_json() == two.to_json()


# ---- one budget for several questions --------------------------------------------------------------------

DIVIDED = """
[study]
data = "survey.csv"
epsilon = 1
delta = 1e-5

[schema]
n = 2000

[schema.columns]
smoker = ["no", "yes"]
age = [0, 120]

[[question]]
id = "smokers"
columns = "smoker"
within = "2.4 points"

[[question]]
id = "ages"
kind = "mean"
column = "age"
weight = 2

[[question]]
id = "model"
kind = "regress"
formula = "age ~ smoker"
"""


def test_a_budget_is_divided_before_data_are_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "divided.toml"
    file.write_text(DIVIDED)  # and no data
    declared = read_study(file)
    assert declared.split is not None
    smokers, ages, model = declared.split.shares
    assert smokers.plan is not None
    assert smokers.plan.widths[0] <= 0.024
    budgets = [one.question.exact_epsilon for one in declared.split.shares]
    assert budgets[1] == pytest.approx(2 * budgets[2], rel=1e-3)
    assert 0.999 < declared.split.spent <= 1
    assert (ages.question.delta, model.question.delta) == (None, "1/1000000")
    assert [one["epsilon"] for one in declared.questions] == list(map(str, budgets))
    assert read_study(file).questions == declared.questions
    with pytest.raises(SystemExit) as done:
        main(["split", str(file)])
    assert not done.value.code
    shown = capsys.readouterr().out
    assert str(declared.split) in shown
    assert max(map(len, shown.splitlines())) <= 80
    with pytest.raises(SystemExit) as done:
        main(["split", str(file), "--json"])
    assert json.loads(capsys.readouterr().out)["questions"][0]["id"] == "smokers"


def test_a_draw_gets_its_part_of_the_budget_and_of_delta(folder: Path) -> None:
    study = study_of(folder, epsilon=1, delta="1e-5")
    drawn = study.draw("smoker", epsilon="0.1")
    assert drawn.guarantee.exact_delta == Fraction(1, 10**6)
    asked = [
        {"id": "fixed", "kind": "draw", "column": "smoker", "epsilon": "0.2", "delta": "1e-7"},
        {"id": "rest", "kind": "draw", "column": "smoker", "weight": 1},
        {"id": "renyi", "kind": "draw", "column": "smoker", "weight": 1, "options": {"order": 10}},
    ]
    fixed, rest, renyi = (share.question for share in study.split(asked).shares)
    assert [one.epsilon for one in (fixed, rest, renyi)] == [Fraction(1, 5), Fraction(2, 5), Fraction(2, 5)]
    assert [one.delta for one in (fixed, rest, renyi)] == ["1e-7", "1/1000000", None]


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([{"id": "a", "within": "2.4 points"}] * 2, "used twice"),
        ([{"id": "a", "within": "1 point"}], "question 'a': within='1 point' cannot be reached"),
        ([{"id": "a", "within": "2.19 points"}, {"id": "b", "within": "2.19 points"}], "is too small"),
        ([{"id": "a", "epsilon": 1}, {"id": "b"}], "the others need a part too"),
        ([{"id": "a", "epsilon": 1, "weight": 2}], "give one of epsilon, within and weight"),
        ([{"id": "a", "weight": 0}], "must be positive"),
        ([{"id": "a", "kind": "regress", "formula": "y ~ x"}], "needs a δ"),
    ],
)
def test_what_cannot_be_divided(questions: list[dict[str, Any]], message: str) -> None:
    study = Study("nothing.csv", discreet.Schema({"x": ["no", "yes"], "y": (0, 1)}, n=2000), epsilon=1)
    asked = [one if "kind" in one else {"columns": "x", **one} for one in questions]
    with pytest.raises(InvalidInputError, match=message):
        study.split(asked)


def test_a_python_study_writes_its_report(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    table = pd.DataFrame({"smoker": ["no", "yes"] * 100, "age": range(200)})
    schema = discreet.Schema({"smoker": ("no", "yes"), "age": (0, 200)}, n=200)
    study = Study(table, schema, epsilon=4, delta="1e-5", ledger=folder / "l.db", dataset="spring")
    study.proportions("smoker", epsilon=1, title="Who smokes?", id="smokers")
    study.mean("age", epsilon=1)
    study.regress("age ~ smoker", epsilon=1)
    page = study.report("board.html", title="Board")
    assert Path("board.html").read_text("utf-8") == page
    assert "Who smokes?" in page
    assert "mean of age" in page.lower()
    assert Path("board.json").read_text("utf-8") == study.result("Board").to_json()
    again = load_answer(study.result().to_json())
    assert list(again.answers) == list(study.result().answers)
    with pytest.raises(FileError, match="cannot be written"):
        study.report(folder / "no" / "board.html")


def test_data_that_do_not_fit_are_found_before_the_first_charge(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    Path("people.csv").write_text("smoker,sex\n" + "no,f\nyes,m\n" * 50)
    Path("two.toml").write_text(
        '[study]\ndata = "people.csv"\nepsilon = 1\n[schema]\nn = 100\n'
        '[schema.columns]\nsmoker = ["no", "yes"]\nsex = ["f", "x"]\nheight = ["f", "x"]\n'
        '[[question]]\nid = "a"\ncolumns = "smoker"\nepsilon = 0.1\n'
        '[[question]]\nid = "b"\ncolumns = "sex"\nepsilon = 0.1\n'
        '[[question]]\nid = "c"\ncolumns = "height"\nepsilon = 0.1\n'
    )
    with pytest.raises(SystemExit) as done:
        main(["run", "two.toml"])
    assert done.value.code in (2, 3)
    said = capsys.readouterr().err
    assert "question 'b'" in said
    assert "question 'c'" in said
    assert "nothing was charged" in said
    assert not Path("two-results").exists()
    with pytest.raises(SystemExit) as done:
        main(["run", "two.toml", "--no-check"])
    assert done.value.code == 3
    assert list(load_answer(Path("two-results/study.json").read_text()).answers) == ["a"]
    assert Path("two-results/report.html").exists()


def test_a_report_replaces_no_document_of_another_kind(tmp_path: Path) -> None:
    schema = discreet.Schema({"smoker": ["no", "yes"]}, n=10)
    study = discreet.Study(["no"] * 10, schema, epsilon=1, ledger=tmp_path / "l.db", dataset="d")
    answer = study.proportions("smoker", epsilon=1)
    answer.save(tmp_path / "answer.json")
    with pytest.raises(FileError, match=r"'answer\.json' beside it would replace .*choose another name"):
        study.report(tmp_path / "answer.html")
    assert discreet.load(tmp_path / "answer.json") == answer
    assert not (tmp_path / "answer.html").exists()
    for _ in range(2):  # its own it replaces
        study.report(tmp_path / "study.html")
    assert list(discreet.load(tmp_path / "study.json").answers.values()) == [answer]


EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.mark.slow
def test_the_board_study_is_short_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = (EXAMPLES / "board_study.py").read_text("utf-8")
    assert len(source.splitlines()) < 30
    runpy.run_path(str(EXAMPLES / "board_study.py"))
    page = Path("board.html").read_text("utf-8")
    for words in ("Education by sex", "age", "sex: male", "survey-2026"):
        assert words in page


@pytest.mark.slow
def test_the_demo_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / "demo.py"), run_name="__main__")
    assert Path("out/demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_the_notebook_of_the_board_study_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "board_study.ipynb").read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(cell["source"], scope)
    assert Path("board.html").exists()
