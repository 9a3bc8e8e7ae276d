"""Questions as data: fields, plans, prices, texts; and the verbs of Python beside them."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from fractions import Fraction
from typing import Any

import pytest

import discreet
from discreet._registry import QUESTIONS
from discreet.questions.asking import Asked
from discreet.questions.base import question_of
from discreet.questions.text import OPTIONS

EXAMPLES: dict[str, dict[str, Any]] = {
    "proportion": {"levels": ("no", "yes"), "epsilon": "1/2", "n": 30, "mechanism": "ehds", "gamma": 2.0},
    "table": {"columns": {"sex": ("f", "m"), "smoker": ("no", "yes")}, "epsilon": 1, "n": 40},
    "conditional": {
        "outcome": "smoker", "given": "sex", "levels": ("no", "yes"), "groups": ("f", "m"), "sizes": (20, 0),
        "epsilon": 1,
    },
    "network": {"parents": {"b": ("a",), "c": ()},
                "levels": {"a": ("0", "1"), "b": ("x", "y"), "c": ("u", "v")}, "epsilon": 1, "n": 60},
    "sample": {"family": "gaussian", "prior": (50, 30), "bounds": (0, 120), "sigma": 20, "epsilon": 1,
               "delta": "1e-6", "n": 100},
    "query": {"bounds": (0, 10), "epsilon": 1, "delta": "1e-6", "n": 100, "draws": 2},
    "logistic": {"outcome": "y", "classes": ("a", "b"), "features": {"x": (0, 1), "z": (0, 10)}, "epsilon": 1,
                 "delta": "1e-6", "n": 200},
    "mean": {"column": "age", "bounds": (0, 120), "epsilon": "1/2", "by": "sex", "levels": ("f", "m"),
             "n": 50},
    "regress": {"formula": "y ~ x", "family": "binomial", "bounds": {"x": (0, 1)},
                "levels": {"y": ("a", "b")},
                "epsilon": 1, "delta": "1e-6", "n": 200, "missing": {"x": "exclude"}},
}  # fmt: skip
CHARGE = {"ledger", "dataset", "request_id"}


def test_every_kind_has_an_example() -> None:
    assert set(EXAMPLES) <= set(QUESTIONS)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_verb_takes_exactly_the_fields(kind: str) -> None:
    made = QUESTIONS[kind]
    signature = inspect.signature(getattr(discreet, made.verb)).parameters
    taken = {name for name, one in signature.items() if one.kind is not inspect.Parameter.VAR_KEYWORD}
    nested = {one.name for one in made.parameters() if one.form is OPTIONS}
    assert taken - {"data"} - CHARGE == {field.name for field in fields(made)} - nested
    assert bool(nested) == any(one.kind is inspect.Parameter.VAR_KEYWORD for one in signature.values())
    for field in fields(made):
        if field.name in signature and field.name not in nested:
            default = signature[field.name].default
            required = default is inspect.Parameter.empty
            assert required or default == field.default, field.name


@pytest.mark.parametrize("kind", EXAMPLES)
def test_fields_say_what_they_mean(kind: str) -> None:
    made = QUESTIONS[kind]
    assert made.title
    assert made.sentence.endswith(".")
    for one in made.parameters():
        assert one.help.endswith((".", "1e-6.")), one.name
        assert one.label[0].isupper() or not one.label[0].isalpha() or one.label[0] in "δε"


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_plan_is_plain_normalised_and_leaves_defaults_out(kind: str) -> None:
    question = question_of(kind, EXAMPLES[kind])
    plan = question.plan()
    assert json.loads(json.dumps(plan)) == plan
    assert plan["question"] == kind
    assert plan["plan"] == 2
    again = dict(EXAMPLES[kind])
    for epsilon in (
        again["epsilon"],
        Fraction(str(again["epsilon"])),
        float(Fraction(str(again["epsilon"]))),
    ):
        assert question_of(kind, {**again, "epsilon": epsilon}).plan() == plan
    changed = question_of(kind, {**again, "epsilon": "0.25"})
    assert changed.plan() != plan
    assert not set(plan) & {one.name for one in question.parameters() if one.name not in question.stated()}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_text_forms_read_back(kind: str) -> None:
    question = question_of(kind, EXAMPLES[kind])
    written = {
        one.name: one.form.write(getattr(question, one.name))
        for one in question.parameters()
        if one.name in question.stated() and not one.python
    }
    assert type(question).from_text(written).plan() == question.plan()


@pytest.mark.parametrize("kind", EXAMPLES)
def test_a_price_needs_no_data_and_no_ledger(kind: str) -> None:
    guarantee = question_of(kind, EXAMPLES[kind]).price()
    assert guarantee.is_private


@pytest.mark.parametrize("kind", EXAMPLES)
def test_what_was_asked_is_said_by_labels(kind: str) -> None:
    question = question_of(kind, EXAMPLES[kind])
    assert {label for label, _ in question.described()} <= {one.label for one in question.parameters()}
    assert question.python("data").startswith(f"discreet.{question.verb}(")


def test_the_size_is_asked_for_where_it_is_not_declared() -> None:
    question = question_of("proportion", {"levels": ("a", "b"), "epsilon": 1})
    with pytest.raises(discreet.InvalidInput, match="number of records"):
        question.price()
    assert question.price(10).epsilon == 1


def test_a_misspelt_name_finds_the_nearest() -> None:
    with pytest.raises(discreet.InvalidInput, match="did you mean 'levels'"):
        question_of("proportion", {"level": ("a", "b"), "epsilon": 1})
    with pytest.raises(discreet.InvalidInput, match="did you mean 'table'"):
        question_of("tabel", {})
    with pytest.raises(discreet.InvalidInput, match="lacks epsilon"):
        question_of("proportion", {"levels": ("a", "b")})


def test_price_and_answer_read_the_data_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet.questions import proportion

    opened, real = [], proportion.count_levels

    def count(*arguments: Any, **options: Any) -> Any:
        opened.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(proportion, "count_levels", count)
    asked = Asked(question_of("proportion", {"levels": ("a", "b"), "epsilon": 1}), ["a"] * 5 + ["b"] * 7)
    assert asked.guarantee.epsilon == 1
    assert asked.answer().n == 12
    assert len(opened) == 1
    study = discreet.Study(["a"] * 5 + ["b"] * 7, budget=2)
    question = {"id": "one", "levels": ("a", "b"), "epsilon": 1}
    assert study.price([question]).fits
    study.answer(question)
    assert len(opened) == 2
