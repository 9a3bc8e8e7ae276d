from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet._numerics.log_gamma import log_gamma_gap, stirling_remainder
from discreet.errors import InvalidInputError


def exact_gap(a: float, b: float) -> float:
    ctx.prec = 400
    x, y = arb(a), arb(b)
    return float((x.lgamma() + y.lgamma()) / 2 - ((x + y) / 2).lgamma())


parameters = st.floats(min_value=-3, max_value=14).map(lambda e: 10.0**e)


@given(parameters, st.floats(min_value=-6, max_value=9))
def test_gap_against_enclosures(a: float, relative: float) -> None:
    b = a * (1 + 10.0**relative)
    truth = exact_gap(a, b)
    assert float(log_gamma_gap(a, b)) == pytest.approx(truth, rel=1e-12)


@pytest.mark.parametrize("a", [1.0, 12.5, 1e4, 1e8, 1e12, 1e15])
def test_one_record_step_keeps_its_digits(a: float) -> None:
    assert float(log_gamma_gap(a, a + 1)) == pytest.approx(exact_gap(a, a + 1), rel=1e-11)


def test_stirling_remainder_is_continuous_at_the_switch() -> None:
    below, above = stirling_remainder([np.nextafter(10, 0), 10.0])
    assert below == pytest.approx(above, abs=1e-14)


def test_published_values() -> None:
    # the tables of the notes on private Bayesian inference, section 3.4.1
    for b, value in {(6, 4): 0.233629480709, (7, 3): 0.457635865026, (8, 2): 0.662174391701}.items():
        assert discreet.hellinger((5, 5), b) == pytest.approx(value, abs=1e-12)
    assert discreet.hellinger((5, 5), (9, 1)) == pytest.approx(0.83737258593, abs=1e-11)
    assert discreet.hellinger((21, 21, 21), (22, 20, 21)) == pytest.approx(0.110122822057, abs=1e-12)


def test_against_numerical_integration() -> None:
    from scipy.integrate import quad

    a, b = discreet.Beta(2.5, 4), discreet.Beta(6, 3)  # totals differ: the general form
    affinity, _ = quad(lambda t: math.sqrt(a.pdf(t) * b.pdf(t)), 0, 1, epsabs=1e-13)
    assert discreet.hellinger((2.5, 4), (6, 3)) == pytest.approx(math.sqrt(1 - affinity), abs=1e-10)


dirichlets = st.lists(st.floats(0.01, 1e6), min_size=3, max_size=3)


@given(dirichlets, dirichlets, dirichlets)
def test_metric(a: list[float], b: list[float], c: list[float]) -> None:
    ab, bc, ac = discreet.hellinger(a, b), discreet.hellinger(b, c), discreet.hellinger(a, c)
    assert 0 <= ab <= 1
    assert ab == pytest.approx(discreet.hellinger(b, a), abs=1e-12)
    assert discreet.hellinger(a, a) == 0
    assert ac <= ab + bc + 1e-7


def test_vectorised_over_leading_axes() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 5.0]])
    table = discreet.hellinger(a[:, None], a[None])
    assert table.shape == (3, 3)
    assert table[1, 2] == discreet.hellinger(a[1], a[2])
    assert isinstance(discreet.hellinger(a[1], a[2]), float)


@pytest.mark.parametrize(
    ("a", "b"), [((1, 2), (1, 2, 3)), ((0, 1), (1, 1)), ((1, math.nan), (1, 1)), (3, 4), ((1,), (1,))]
)
def test_bad_input(a: object, b: object) -> None:
    with pytest.raises(InvalidInputError):
        discreet.hellinger(a, b)


def test_gaps_between_arguments_far_apart() -> None:
    """The stated 2⁻⁴⁵ for counts that differ by anything, up to 10³⁰, against balls of 600 bits."""
    before, ctx.prec = ctx.prec, 600
    rng = np.random.default_rng(0)
    try:
        for _ in range(2000):
            a, b = 10 ** rng.uniform(-3, 30, size=2)
            if abs(a - b) < 1:
                b = a + 1
            x, z = arb(float(a)), arb(float(b))
            truth = (x.lgamma() + z.lgamma()) / 2 - ((x + z) / 2).lgamma()
            found = float(log_gamma_gap(a, b))
            assert abs(float((arb(found) - truth) / truth)) < 2**-45, (a, b)
    finally:
        ctx.prec = before
