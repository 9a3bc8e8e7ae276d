"""Rounding of enclosures, sums over whole numbers and log-Gamma functions, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from discreet._numerics import summation
from discreet._numerics.enclosures import above, ball, down, enclose, up
from discreet._numerics.log_gamma import entropy_curve
from discreet.distributions.beta_dirichlet import beta_cdf

RATIONALS = [Fraction(a, b) for a in (1, 2, 10, 10**30 + 1) for b in (3, 7, 49, 10**17 + 3)]


@pytest.mark.parametrize("value", RATIONALS)
def test_doubles_lie_on_the_side_that_they_promise(value: Fraction) -> None:
    assert Fraction(down(value)) < value < Fraction(up(value))
    assert math.nextafter(down(value), math.inf) == up(value)
    assert Fraction(above(enclose(lambda: ball(value)))) > value


def test_the_double_above_a_ball_is_above_all_of_it() -> None:
    from flint import arb

    wide = arb(1, 0.25)
    assert above(wide) > 1.25


@pytest.mark.parametrize("points", [32, 64, 1 << 20])
def test_gauss_rules_sum_polynomials(points: int) -> None:
    nodes, weights = summation.gauss_rule(points)
    assert weights.sum() == pytest.approx(points, rel=1e-13)
    assert (weights * nodes).sum() == pytest.approx(points * (points - 1) / 2, rel=1e-13)
    assert (weights * nodes**2).sum() == pytest.approx(
        (points - 1) * points * (2 * points - 1) / 6, rel=1e-12
    )


def binomial(n: int, p: float, around: float) -> summation.Sums:
    """Terms of a binomial distribution; moments are about a whole number that is not its mean."""
    from scipy.stats import binom

    panels = summation.cut([np.array([0.0]), np.array([n + 1.0])], whole=True)
    x = panels.nodes
    return summation.Sums.of(panels, x, binom.logpmf(np.minimum(x, n), n, p), np.array([around]))


def test_moments_about_any_point_are_those_of_the_distribution() -> None:
    n, p, around = 37, 0.3, 5.0
    q, sums = 1 - p, binomial(n, p, around)
    variance = n * p * q
    assert sums.offset == pytest.approx(n * p - around)
    assert sums.variance == pytest.approx(variance)
    fourth = variance * (1 - 6 * p * q)
    expected = [n * p - around, variance, variance * (q - p), fourth]
    assert sums.cumulants(4)[:, 0] == pytest.approx(expected)


def test_draws_take_every_whole_number_as_often_as_its_term_says() -> None:
    """Uniforms that run through [0, 1) in equal steps, so that nothing here is left to chance."""

    class Steps:
        def random(self, size: int) -> Any:
            return (np.arange(size) + 0.5) / size

    chances = np.array([0.125, 0.5, 0.25, 0.125])
    many = 4000
    edges = [np.zeros(many), np.full(many, 4.0)]
    terms = lambda x, which: np.log(chances)[x.astype(int)] + 0 * which  # noqa: E731
    steps: Any = Steps()
    drawn = summation.draw(terms, summation.cut(edges), steps)
    assert np.bincount(drawn.astype(int), minlength=4).tolist() == (many * chances).tolist()


def test_the_entropy_curve_has_all_its_digits() -> None:
    y = np.array([-0.9, -0.06, -0.049, -1e-3, -1e-9, 1e-12, 1e-5, 0.01, 0.0499, 0.0501, 3.0])
    with mpmath.workdps(50):
        exact = [float((1 + mpmath.mpf(v)) * mpmath.log1p(mpmath.mpf(v)) - mpmath.mpf(v)) for v in y.tolist()]
    assert entropy_curve(y) == pytest.approx(exact, rel=2e-14)


def test_huge_betas_have_the_deviation_of_both_parameters() -> None:
    a, b = 9e13, 1e13
    mean, sd = a / (a + b), math.sqrt(a * b / (a + b) ** 2 / (a + b + 1))
    assert beta_cdf(a, b, [mean - 2 * sd, mean, mean + sd]) == pytest.approx(
        [0.02275, 0.5, 0.84134], abs=1e-4
    )
