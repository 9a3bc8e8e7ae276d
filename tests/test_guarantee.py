"""Guarantees: their range, the relation and unit that they are for, and documents that try to break them."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest

from discreet._declarations import Relation, as_epsilon, as_rational
from discreet.errors import BudgetExceededError, InvalidInputError
from discreet.privacy.composite_curves import Composed, Group, Inexact, Largest, Tabulated
from discreet.privacy.composition import Odometer, compose, parallel
from discreet.privacy.curves import Approximate, Curve, Gaussian
from discreet.privacy.guarantee import Guarantee
from effort import processor_seconds

HALF = Guarantee(Fraction(1, 2))
PATIENT, VISIT = (HALF.for_unit(unit) for unit in ("patient", "visit"))
WITHIN = HALF.within_group("the region of every record is public")


# Range.


@pytest.mark.parametrize(
    "make",
    [
        lambda: Guarantee(Fraction(-5)),
        lambda: Guarantee(Fraction(1), exact_delta=Fraction(-1, 2)),
        lambda: Guarantee(Fraction(1), exact_delta=Fraction(3, 2)),
        lambda: Guarantee(float("nan")),  # type: ignore[arg-type]
        lambda: Guarantee(True),  # type: ignore[arg-type]
        lambda: Guarantee(Fraction(10) ** 400),
        lambda: Guarantee(Fraction(1), "replace-nobody"),  # type: ignore[arg-type]
        lambda: Guarantee(Fraction(1), unit="patient"),
        lambda: Guarantee(Fraction(1), Relation.REPLACE_PERSON, unit=""),
        lambda: Guarantee(Fraction(1), basis="theorem\nGuarantee: ε = 0"),
        lambda: Guarantee(Fraction(1), assumptions=("\x1b[2J",)),
        lambda: Approximate(Fraction(-3)),
        lambda: Approximate(Fraction(3), Fraction(2)),
        lambda: Gaussian(Fraction(-1)),
        lambda: Group(Gaussian(Fraction(1)), 0),
        lambda: Inexact(Gaussian(Fraction(1)), Fraction(-1, 10)),
        lambda: Largest(()),
        lambda: Composed(()),
        lambda: Composed(((Gaussian(Fraction(1)), -1),)),
        lambda: Tabulated((0.0, 1.0), (0.5, -0.5)),
        lambda: Tabulated((0.0, float("nan")), (0.5, 0.5)),
        lambda: Tabulated((1.0, 0.0), (0.5, 0.5)),
        lambda: Tabulated((), ()),
        lambda: Tabulated((0.0,), (0.5,), Fraction(-1)),
    ],
)
def test_nothing_is_constructed_outside_its_range(make: Any) -> None:
    with pytest.raises(InvalidInputError):
        make()


@pytest.mark.parametrize(
    "changed",
    [
        {"epsilon": "-3"},
        {"epsilon": "nan"},
        {"epsilon": float("inf")},
        {"delta": "-1/2"},
        {"delta": "2"},
        {"delta": "1e-99999999"},
        {"epsilon": "1e99999999"},
        {"epsilon": "1" * 10**6},
        {"epsilon": "1/0"},
        {"relation": "replace-everybody"},
        {"basis": 5},
        {"forged": 1},
        {"curve": {"kind": "gaussian", "mu_squared": "-4"}},
        {"curve": {"kind": "gaussian", "mu_squared": "1e-88888888"}},
        {"curve": {"kind": "gaussian", "mu_squared": "1", "forged": 0}},
        {"curve": {"kind": "gaussian"}},
        {"curve": {"kind": ["gaussian"], "mu_squared": "1"}},
        {"curve": {"kind": "group", "curve": {"kind": "gaussian", "mu_squared": "1"}, "size": -1}},
        {"curve": {"kind": "composed", "parts": [[{"kind": "gaussian", "mu_squared": "1"}, 1.5]]}},
    ],
    ids=lambda changed: str(changed)[:60],
)
def test_documents_outside_the_range_are_refused_at_once(changed: dict[str, Any]) -> None:
    with processor_seconds(1), pytest.raises((InvalidInputError, TypeError, KeyError)):
        Guarantee.from_dict({**HALF.to_dict(), **changed})


def test_an_odometer_takes_no_negative_charge() -> None:
    odometer = Odometer(epsilon=1)
    odometer.spend(Guarantee(Fraction(1)))
    with pytest.raises(InvalidInputError):
        odometer.spend(Guarantee(Fraction(-5)))
    with pytest.raises(BudgetExceededError):
        odometer.spend(Guarantee(Fraction(1)))


def test_numbers_are_bounded_before_they_are_computed() -> None:
    assert as_rational("1/3", "x") == Fraction(1, 3)
    assert as_rational("2.5e-300", "x") == Fraction(25, 10**301)
    for hostile in ("1." + "1" * 5000, "1" * 9000, "1e-0001000", "1e10000", "", "1/2/3", True, 0.5, None):
        with pytest.raises(InvalidInputError):
            as_rational(hostile, "x")
    with pytest.raises(InvalidInputError):
        as_epsilon("1." + "1" * 5000)


# Nesting and work.


def nested(depth: int) -> dict[str, Any]:
    content: dict[str, Any] = {"kind": "gaussian", "mu_squared": "1"}
    for _ in range(depth):
        content = {"kind": "largest", "curves": [content]}
    return content


def test_deep_nesting_is_refused_and_not_a_recursion_error() -> None:
    assert Curve.from_dict(nested(10)).delta_at(1) == Gaussian(Fraction(1)).delta_at(1)
    for depth in (400, 5000):
        with pytest.raises(InvalidInputError, match="nested"):
            Curve.from_dict(nested(depth))


@pytest.mark.parametrize(
    "curve",
    [
        Composed(((Approximate(Fraction(1, 10)), 10**9),)),
        Composed(((Gaussian(Fraction(1, 10)), 10**9), (Approximate(Fraction(1), Fraction(1, 10)), 10**300))),
        Composed(tuple((Approximate(Fraction(1, i)), 1) for i in range(1, 5000))),
        Composed(((Largest((Composed(((Approximate(Fraction(1)), 2),)), Gaussian(Fraction(1)))), 2),)),
        Inexact(Group(Composed(((Approximate(Fraction(1)), 2),)), 3), Fraction(1, 10**9)),
    ],
    ids=["many", "more", "long", "nested", "inexact"],
)
def test_the_text_of_any_curve_is_quick(curve: Curve) -> None:
    with processor_seconds(20):
        guarantee = Guarantee(None, curve=curve)
        assert str(guarantee)
        assert guarantee.meaning()


def test_a_composition_too_long_to_be_convolved_has_a_bound() -> None:
    many = compose([HALF], count=10**7)
    assert many.epsilon_at(1e-6) <= 5 * 10**6
    assert many.delta_at(10**7) == 0
    for count in (10**12, 10**30, 10**250):
        curve = Composed(((Approximate(Fraction(1, 10)), count), (Gaussian(Fraction(1)), 1)))
        assert curve.delta_at(1.0) == 1.0
        assert curve.epsilon_at(1e-6) >= 0.004 * count


# Units and relations.


def test_the_unit_is_in_words_and_documents() -> None:
    assert str(PATIENT) == "ε = 0.5 (replace-person, unit 'patient')"
    assert "identified by 'patient'" in PATIENT.meaning()
    assert "given the public group" in WITHIN.meaning()
    assert "unit" not in HALF.to_dict()
    for guarantee in (HALF, PATIENT, WITHIN, PATIENT.within_group("groups are public")):
        assert Guarantee.from_dict(guarantee.to_dict()) == guarantee


def test_a_declared_bound_prices_one_unit_in_another() -> None:
    ten = VISIT.for_unit("patient", at_most=10, note="a patient has at most ten visits")
    assert (ten.exact_epsilon, ten.unit, ten.relation) == (5, "patient", Relation.REPLACE_PERSON)
    assert compose([PATIENT, ten]).exact_epsilon == Fraction(11, 2)
    with pytest.raises(InvalidInputError):
        WITHIN.for_unit("patient")
    with pytest.raises(InvalidInputError):
        Guarantee(Fraction(1), Relation.ADD_REMOVE).within_group("public")


KINDS = (HALF, PATIENT, VISIT, WITHIN, PATIENT.within_group("g"), Guarantee(Fraction(1), Relation.ADD_REMOVE))
TAKES = {(0, 3), (1, 4)}
"""Which (charge, budget) of different kinds go together: replace-one and -person, each within its groups."""


@pytest.mark.parametrize(("i", "j"), [*itertools.product(range(len(KINDS)), repeat=2)])
def test_units_and_relations_mix_only_where_one_implies_the_other(i: int, j: int) -> None:
    charge, budget = KINDS[i], KINDS[j]
    odometer = Odometer(2, relation=budget.relation, unit=budget.unit)
    if i == j or (i, j) in TAKES:
        odometer.spend(charge)
        total = compose([charge, budget])
        assert (total.relation, total.unit) == (budget.relation, budget.unit)
    else:
        with pytest.raises(InvalidInputError, match="cannot be spent"):
            odometer.spend(charge)
    if i != j and (i, j) not in TAKES and (j, i) not in TAKES:
        for together in (compose, parallel):
            with pytest.raises(InvalidInputError, match="different"):
                together([charge, budget])


def test_disjoint_parts_are_protected_within_their_groups() -> None:
    assert parallel([HALF, HALF]).relation is Relation.WITHIN_GROUP
    assert parallel([HALF]).relation is Relation.REPLACE_ONE
    assert parallel([PATIENT, PATIENT]).unit == "patient"
    assert parallel([PATIENT, PATIENT]).assumptions[-1] == (
        "the part that all records of one 'patient' belong to is public and does not change"
    )
    assert parallel([KINDS[-1], KINDS[-1]]).relation is Relation.ADD_REMOVE
