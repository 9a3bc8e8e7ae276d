from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import discreet
import shorthand
from discreet._declarations import Domain, Relation, as_counts, as_epsilon, as_integer, as_prior
from discreet.errors import DataError, DiscreetError, InvalidInputError
from discreet.privacy.guarantee import Guarantee


@pytest.mark.parametrize(
    ("given", "held"),
    [
        (0.8, Fraction(4, 5)),
        ("0.8", Fraction(4, 5)),
        ("4/5", Fraction(4, 5)),
        ("1e-3", Fraction(1, 1000)),
        ("1.5/2", Fraction(3, 4)),
        (np.float32(0.1), Fraction(1, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        (Decimal("0.1"), Fraction(1, 10)),
        (1, Fraction(1)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(2), Fraction(2)),
        (10**4, Fraction(10**4)),
    ],
)
def test_epsilon_is_an_exact_rational(given: object, held: Fraction) -> None:
    assert as_epsilon(given) == held  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bad",
    [
        0,
        -1,
        0.0,
        math.nan,
        math.inf,
        -math.inf,
        "nan",
        "inf",
        "0",
        "-1/2",
        "4/0",
        "1/2/3",
        "",
        "a",
        None,
        True,
    ],
)
def test_bad_epsilon(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="epsilon"):
        discreet.mechanism("lshist", prior=(1, 1), n=10, epsilon=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["1e-999999999", "1e999999999"])
def test_absurd_exponents_are_refused_at_once(bad: str) -> None:
    with pytest.raises(InvalidInputError):
        as_epsilon(bad)


@pytest.mark.parametrize("bad", [(1,), (), (1, 0), (1, -1), (1, math.nan), (1, math.inf), (1, "a"), 1.0])
def test_bad_prior(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="prior="):
        discreet.mechanism("lattice", prior=bad, n=10, epsilon=1)  # type: ignore[arg-type]


def test_prior_of_wrong_length() -> None:
    with pytest.raises(InvalidInputError, match="3 parameters for 2 levels"):
        shorthand.shares([0, 1], levels=(0, 1), epsilon=1, prior=(1, 1, 1))
    assert as_prior(0.5, 3) == (0.5, 0.5, 0.5)


@pytest.mark.parametrize("bad", [0, -3, 1.5, "ten", None, True])
def test_bad_n(bad: object) -> None:
    with pytest.raises(InvalidInputError, match="n"):
        discreet.mechanism("lattice", prior=(1, 1), n=bad, epsilon=1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ((-1, 11), "negative"),
        ((4.5, 5.5), "whole numbers"),
        ((4, 5), "sum"),
        ((4, 3, 3), "3 entries for 2"),
        ({"a": 4, "b": 6}, "mapping"),
        (10, "sequence"),
        (("4", "6"), "whole"),
    ],
)
def test_bad_counts(bad: object, says: str) -> None:
    m = discreet.mechanism("lattice", prior=(1, 1), n=10, epsilon=1)
    for call in (m.draw, m.log_pmf, m.simulate):
        with pytest.raises(InvalidInputError, match=says):
            call(bad)  # type: ignore[operator]


def test_counts_stay_exact() -> None:
    n = 10**30 + 1
    assert as_counts((10**30, 1), 2, n) == (10**30, 1)
    assert as_counts(np.array([3, 4]), 2, 7) == (3, 4)
    assert as_counts((3.0, 4.0), 2, 7) == (3, 4)
    with pytest.raises(InvalidInputError, match="too large to be exact"):
        as_integer(1e30, "counts")


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        (("a",), "at least two"),
        ((), "at least two"),
        (("a", "b", "a"), "twice"),
        (("a", " a"), "white space"),
        ((1, True), "twice"),
        ((1, 1.0), "twice"),
        ((["a"], "b"), "must be text"),
        (("a", None), "missing"),
        (("a", math.nan), "missing"),
        ("ab", "sequence"),
    ],
)
def test_bad_levels(levels: tuple[object, ...], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        Domain(levels)


def test_bad_mapping_targets() -> None:
    with pytest.raises(InvalidInputError, match="other="):
        Domain(("a", "b"), other="c")
    with pytest.raises(InvalidInputError, match="missing="):
        Domain(("a", "b"), missing="c")


def test_guarantee() -> None:
    pure = Guarantee(Fraction(4, 5))
    assert (pure.epsilon, pure.delta, pure.relation) == (0.8, 0.0, "replace-one")
    assert pure.is_private
    assert "2.226" in pure.meaning()
    approximate = Guarantee(Fraction(1), Relation.ADD_REMOVE, Fraction(1, 1000), "theorem", ("exact draw",))
    assert Guarantee.from_dict(approximate.to_dict()) == approximate
    assert "0.001" in approximate.meaning()
    assert "Whether any one record is there at all" in approximate.meaning()
    nothing = Guarantee(None)
    assert nothing.epsilon == math.inf
    assert not nothing.is_private
    assert "no" in str(nothing)
    assert Guarantee.from_dict(nothing.to_dict()) == nothing
    assert Guarantee(Fraction(5000)).meaning()


def test_errors_are_value_errors_where_people_expect_them() -> None:
    assert issubclass(InvalidInputError, ValueError)
    assert issubclass(DataError, ValueError)
    assert issubclass(InvalidInputError, DiscreetError)
