"""Questions as data: fields, plans, prices, texts; and the verbs and methods of a study beside them."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
from discreet._registry import QUESTIONS, SENTENCES
from discreet.errors import InvalidInputError, PrivacyWarning
from discreet.questions import _asking as asking
from discreet.questions import _counts as counts
from discreet.questions._asking import BoundQuestion
from discreet.questions.base import question_of

SCHEMA = discreet.Schema(
    {
        "smoker": ["no", "yes"],
        "sex": ["f", "m"],
        "region": discreet.Category(["north", "south"], public=True),
        "age": discreet.Number(0, 120, missing="exclude"),
        "hours": (0, 80),
    },
    n=200,
    sizes={"north": 120, "south": 80},
)
EXAMPLES: dict[str, list[dict[str, Any]]] = {
    "proportions": [
        {"columns": "smoker", "epsilon": "1/2", "mechanism": "ehds", "options": {"gamma": 2.0}},
        {"columns": ("smoker", "sex"), "epsilon": 1},
        {"columns": "smoker", "by": "region", "epsilon": 1},
        {"columns": "hours", "epsilon": 1},
    ],
    "mean": [{"column": "age", "by": "sex", "epsilon": "1/2"}, {"column": "hours", "epsilon": 1}],
    "quantiles": [
        {"column": "hours", "epsilon": 1},
        {"column": "age", "probs": (0.1, 0.5), "by": "region", "epsilon": 1},
    ],
    "survival": [
        {"time": "hours", "event": "smoker", "by": "sex", "bins": (0.0, 20.0, 40.0, 80.0), "epsilon": 1},
        {"time": "hours", "event": "smoker", "epsilon": 1},
    ],
    "regress": [
        {"formula": "smoker ~ age + sex", "family": "binomial", "epsilon": 1, "delta": "1e-6"},
        {"formula": "hours ~ age", "options": {"errors": "robust"}, "epsilon": 1, "delta": "1e-6"},
    ],
    "draw": [
        {"column": "smoker", "epsilon": 1, "delta": "1e-6"},
        {"column": "hours", "epsilon": 1, "delta": "1e-6", "options": {"draws": 2}},
        {"column": "hours", "family": "gaussian", "prior": (40, 20), "options": {"sigma": 10}, "epsilon": 1,
         "delta": "1e-6"},
        {"column": "smoker ~ hours", "epsilon": 1, "delta": "1e-6"},
    ],
    "network": [{"parents": {"smoker": ("sex",)}, "epsilon": 1}],
}  # fmt: skip
ROWS = [(kind, example) for kind, examples in EXAMPLES.items() for example in examples]
AROUND = {"data", "schema", "charge", "self", "id", "title", "unknown"}
MOST_PARAMETERS = 8


def test_every_kind_has_an_example_and_a_sentence() -> None:
    assert set(EXAMPLES) <= set(QUESTIONS) == set(SENTENCES)
    for kind, sentence in SENTENCES.items():
        assert sentence.endswith("."), kind


@pytest.mark.parametrize("kind", EXAMPLES)
def test_verb_and_method_take_exactly_the_fields(kind: str) -> None:
    made = QUESTIONS[kind]
    for face in (getattr(discreet, kind), getattr(discreet.Study, kind)):
        signature = inspect.signature(face).parameters
        taken = {one.name for one in fields(made)} - (
            {"delta"} if kind in ("network", "quantiles", "survival") else set()
        )
        assert set(signature) - AROUND == taken
        assert len(set(signature) - {"data", "schema", "self", "unknown"} - {"columns"}) <= MOST_PARAMETERS
        for field in fields(made):
            default = signature[field.name].default if field.name in taken else field.default
            assert default in (inspect.Parameter.empty, field.default, ""), field.name


@pytest.mark.parametrize("kind", EXAMPLES)
def test_fields_say_what_they_mean(kind: str) -> None:
    made = QUESTIONS[kind]
    assert made.title
    for one in made.parameters():
        assert one.help.endswith("."), one.name
        assert one.label[0].isupper() or one.label[0] in "δε"


@pytest.mark.parametrize(("kind", "example"), ROWS)
def test_a_plan_is_plain_normalised_and_leaves_defaults_out(kind: str, example: dict[str, Any]) -> None:
    question = question_of(kind, example)
    plan = question.plan(SCHEMA)
    assert json.loads(json.dumps(plan)) == plan
    assert (plan["question"], plan["plan"]) == (kind, 3)
    given = example["epsilon"]
    for epsilon in (given, Fraction(str(given)), float(Fraction(str(given)))):
        assert question_of(kind, {**example, "epsilon": epsilon}).plan(SCHEMA) == plan
    assert question_of(kind, {**example, "epsilon": "0.25"}).plan(SCHEMA) != plan
    left_out = {one.name for one in question.parameters() if one.name not in question.explicit_fields()}
    assert not set(plan) & left_out


def test_a_plan_holds_the_declarations_that_it_uses_and_no_others() -> None:
    question = discreet.Proportions("smoker", epsilon=1)
    plan = question.plan(SCHEMA)
    others = discreet.Schema({**SCHEMA.columns, "hours": (0, 99)}, n=200, sizes=SCHEMA.sizes)
    assert question.plan(others) == plan
    for changed in (
        discreet.Schema({**SCHEMA.columns, "smoker": ["yes", "no"]}, n=200),
        discreet.Schema({**SCHEMA.columns, "smoker": discreet.Category(["no", "yes"], other="no")}, n=200),
        discreet.Schema(SCHEMA.columns, n=201),
        discreet.Schema(SCHEMA.columns),
        discreet.Schema(SCHEMA.columns, n=200, strict=False),
        discreet.Schema(SCHEMA.columns, n=200, person="who", per_person=1),
    ):
        assert question.plan(changed) != plan


@pytest.mark.parametrize(("kind", "example"), ROWS)
def test_text_forms_read_back(kind: str, example: dict[str, Any]) -> None:
    question = question_of(kind, example)
    written = {
        one.name: one.form.write(getattr(question, one.name))
        for one in question.parameters()
        if one.name in question.explicit_fields() and not one.python
    }
    assert type(question).from_text(written).plan(SCHEMA) == question.plan(SCHEMA)


@pytest.mark.parametrize(("kind", "example"), ROWS)
def test_a_price_needs_no_data_and_no_ledger(kind: str, example: dict[str, Any]) -> None:
    assert question_of(kind, example).request(SCHEMA).price().is_private


@pytest.mark.parametrize(("kind", "example"), ROWS)
def test_what_was_asked_is_said_by_labels(kind: str, example: dict[str, Any]) -> None:
    question = question_of(kind, example)
    assert {label for label, _ in question.describe()} <= {one.label for one in question.parameters()}
    assert question.python("data", schema="schema").startswith(f"discreet.{kind}(")


def test_the_size_is_asked_for_where_it_is_read_from_the_data() -> None:
    request = discreet.Proportions("v", epsilon=1).request(discreet.Schema({"v": ["a", "b"]}, n="public"))
    with pytest.raises(InvalidInputError, match="declare n"):
        request.price()
    assert request.price(10).epsilon == 1


def test_a_misspelt_name_finds_the_nearest() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'columns'"):
        question_of("proportions", {"column": "smoker", "epsilon": 1})
    with pytest.raises(InvalidInputError, match="did you mean 'proportions'"):
        question_of("proportion", {})
    with pytest.raises(InvalidInputError, match="formula is missing, such as income ~ age"):
        question_of("regress", {})
    with pytest.raises(InvalidInputError, match="did you mean 'smoker'"):
        discreet.Proportions("smokers", epsilon=1).request(SCHEMA)
    with pytest.raises(InvalidInputError, match="epsilon is missing"):
        discreet.Proportions("smoker").request(SCHEMA)


def test_price_and_answer_read_the_data_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    opened, count_levels = [], counts.count_levels

    def count(*arguments: Any, **options: Any) -> Any:
        opened.append(1)
        return count_levels(*arguments, **options)

    monkeypatch.setattr(counts, "count_levels", count)
    data, schema = {"v": ["a"] * 5 + ["b"] * 7}, discreet.Schema({"v": ["a", "b"]}, n="public")
    bound = BoundQuestion(discreet.Proportions("v", epsilon=1), schema, data)
    assert bound.guarantee.epsilon == 1
    assert bound.answer().n == 12
    assert len(opened) == 1
    study = discreet.Study(data, schema, epsilon=2, ledger=tmp_path / "ledger.db", dataset="d")
    question = {"id": "one", "columns": "v", "epsilon": 1}
    assert study.price([question]).fits
    study.answer(question)
    assert len(opened) == 2


def test_a_call_that_nobody_counts_warns_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(asking, "_warned_uncounted", False)
    with pytest.warns(PrivacyWarning, match="no ledger records the budget") as heard:
        answers = [discreet.proportions(["a", "b"], schema=("a", "b"), epsilon=1) for _ in range(2)]
    assert len(heard) == 1
    assert not any("ledger" in text for answer in answers for text in answer.warnings)
    monkeypatch.setattr(asking, "_warned_uncounted", False)
    with discreet.Ledger(tmp_path / "ledger.db") as ledger:
        ledger.create("d", epsilon=1, relation="add-remove")
        charge = discreet.Charge(ledger, "d", "q")
        discreet.proportions(["a", "b"], schema=("a", "b"), epsilon=1, charge=charge)
    assert asking._warned_uncounted is False


@pytest.mark.parametrize("delta", ["0.5", "0.01"])
@pytest.mark.filterwarnings("ignore:delta")
def test_a_large_delta_is_refused_with_and_without_n(delta: str) -> None:
    data = {"y": [1.0, 2.0] * 30, "x": [0.0, 1.0] * 30}
    for n in (None, 60, "public"):
        schema = discreet.Schema({"y": (0, 3), "x": (0, 2)}, n=n)
        for ask in (
            lambda schema=schema: discreet.regress(data, "y ~ x", schema=schema, epsilon=1, delta=delta),
            lambda schema=schema: discreet.mean(data, "y", schema=schema, epsilon=1, delta=delta),
        ):
            with pytest.raises(InvalidInputError, match=r"delta=0\.\d+ is (above|at least)"):
                ask()
            with discreet.acknowledge_large_delta():
                assert ask().guarantee.delta == float(delta)


VALUES = ["no"] * 130 + ["yes"] * 70
ALONE = discreet.Schema({"smoker": ["no", "yes"]}, n=200)


@pytest.mark.parametrize("columns", [(), ("smoker",)])
@pytest.mark.parametrize(
    "data",
    [VALUES, tuple(VALUES), np.array(VALUES), pd.Series(VALUES), pl.Series(VALUES), pa.array(VALUES)],
    ids=lambda data: f"{type(data).__module__.partition('.')[0]}-{type(data).__name__}",
)
def test_values_without_a_table_are_the_only_column(data: Any, columns: tuple[str, ...]) -> None:
    exact = discreet.proportions(data, *columns, schema=ALONE, epsilon=1000)  # no noise: e^-500
    assert exact.counts == (130, 70)
    assert exact.column == "smoker"


def test_counts_by_value_are_the_only_column_and_paths_are_none(tmp_path: Path) -> None:
    counts_by_value = discreet.proportions({"no": 130, "yes": 70}, schema=ALONE, epsilon=1000)
    assert counts_by_value.counts == (130, 70)
    files = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for file, value in zip(files, ("no", "yes"), strict=True):
        file.write_text("smoker\n" + f"{value}\n" * 100)
    assert discreet.proportions(files, schema=ALONE, epsilon=1000).counts == (100, 100)


def test_a_list_of_values_is_no_table_of_several_columns() -> None:
    with pytest.raises(InvalidInputError, match="these data are one column"):
        discreet.proportions(VALUES, "smoker", schema=SCHEMA, epsilon=1)


def test_a_table_of_counts_is_refused_as_before() -> None:
    with pytest.raises(discreet.errors.DiscreetError, match="count"):
        discreet.proportions(pd.Series(VALUES).value_counts(), schema=ALONE, epsilon=1)


def test_a_draw_takes_its_delta_from_the_study(tmp_path: Path) -> None:
    budget = {"epsilon": 3, "delta": "1e-5", "ledger": tmp_path / "ledger.db", "dataset": "d"}
    study = discreet.Study(VALUES, ALONE, **budget)
    assert str(study.draw("smoker", prior=(5, 5), epsilon=1).guarantee) == "ε = 1, δ = 1e-6 (replace-one)"
    (share,) = study.split([{"id": "draw", "kind": "draw", "column": "smoker", "prior": (5, 5)}]).shares
    assert share.question.delta == "1/1000000"
    assert not discreet.Draw("smoker", options={"order": 10}).needs_delta
    assert not discreet.Draw("smoker", method="direct").needs_delta
    with pytest.raises(InvalidInputError, match="'diffused' needs a target"):
        discreet.draw(VALUES, schema=ALONE)


@pytest.mark.parametrize(
    "question",
    [
        discreet.Mean("hours", epsilon=1),
        discreet.Mean("hours", by="sex", epsilon=1),
        discreet.Quantiles("hours", epsilon=1),
        discreet.Regress("hours ~ sex", epsilon=1, delta="1e-6"),
    ],
    ids=lambda question: f"{question.kind}-{getattr(question, 'by', None)}",
)
def test_a_document_that_is_read_equals_the_answer(question: Any, tmp_path: Path) -> None:
    schema = discreet.Schema({"hours": (0, 80), "sex": ["f", "m"]}, n=200)
    data = {"hours": [30.0, 40.0, 35.0, 45.0] * 50, "sex": ["f", "m"] * 100}
    answer, other = (discreet.ask(data, question, schema=schema) for _ in range(2))
    answer.save(tmp_path / "answer.json")
    again = discreet.load(tmp_path / "answer.json")
    assert again == answer
    assert answer != other


def test_what_is_no_question_is_refused_by_name(tmp_path: Path) -> None:
    study = discreet.Study(VALUES, ALONE, epsilon=1, ledger=tmp_path / "ledger.db", dataset="d")
    asks: list[Any] = [
        lambda given: discreet.plan(given, ALONE, epsilon=1),
        lambda given: discreet.ask(VALUES, given, schema=ALONE),
        study.ask,
        lambda given: study.plan(given, epsilon=1),
    ]
    for ask in asks:
        with pytest.raises(InvalidInputError, match=r"question must be .*Proportions\('smoker'\), not str"):
            ask("smoker")


def test_a_document_that_is_not_there_is_a_file_error(tmp_path: Path) -> None:
    with pytest.raises(discreet.errors.FileError, match=r"none\.json' cannot be read: No such file"):
        discreet.load(tmp_path / "none.json")


def test_what_is_missing_or_out_of_place_is_named() -> None:
    with pytest.raises(InvalidInputError, match="formula is missing, such as income ~ age"):
        discreet.regress({"y": [1]}, schema={"y": (0, 2)}, epsilon=1)
    with pytest.raises(InvalidInputError, match="low is missing"):
        discreet.Number(high=3)
    with pytest.raises(InvalidInputError, match="Mean takes only column by position"):
        discreet.Mean("age", "sex")
    question = discreet.Regress("y ~ x", epsilon=1)
    assert copy.copy(question) == pickle.loads(pickle.dumps(question)) == question
