from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from discreet import Beta, Dirichlet
from discreet.errors import InvalidInputError

shapes = st.floats(0.2, 500)


@given(shapes, shapes, st.floats(0.01, 0.99))
def test_beta_against_scipy(a: float, b: float, theta: float) -> None:
    ours, theirs = Beta(a, b), stats.beta(a, b)
    assert ours.mean() == pytest.approx(theirs.mean(), rel=1e-12)
    assert ours.var() == pytest.approx(theirs.var(), rel=1e-9)
    assert float(ours.logpdf(theta)) == pytest.approx(theirs.logpdf(theta), rel=1e-9, abs=1e-9)
    assert float(ours.cdf(theta)) == pytest.approx(theirs.cdf(theta), abs=1e-12)
    np.testing.assert_allclose(ours.interval(0.9), theirs.interval(0.9), rtol=1e-9)
    assert ours.to_scipy().mean() == theirs.mean()


@given(st.floats(1.1, 200), st.floats(1.1, 200), st.sampled_from([0.5, 0.9, 0.99]))
def test_highest_density_interval(a: float, b: float, level: float) -> None:
    beta = Beta(a, b)
    low, high = beta.interval(level, "highest-density")
    assert float(beta.cdf(high) - beta.cdf(low)) == pytest.approx(level, abs=1e-9)
    equal_low, equal_high = beta.interval(level)
    assert high - low <= equal_high - equal_low + 1e-12
    assert low <= beta.mode() <= high
    if low > 1e-4 and high < 1 - 1e-4:  # an interior interval ends at equal densities
        assert float(beta.logpdf(low)) == pytest.approx(float(beta.logpdf(high)), abs=1e-3)


def test_highest_density_at_the_edge() -> None:
    assert Beta(1, 5).interval(0.9, "highest-density")[0] == 0
    assert Beta(5, 1).interval(0.9, "highest-density")[1] == 1


def test_modes() -> None:
    assert Beta(3, 2).mode() == pytest.approx(2 / 3)
    assert Beta(0.5, 2).mode() == 0
    assert Beta(2, 0.5).mode() == 1
    assert math.isnan(Beta(1, 1).mode())
    assert math.isnan(Beta(0.5, 0.5).mode())
    np.testing.assert_allclose(Dirichlet((2, 3, 4)).mode(), [1 / 6, 2 / 6, 3 / 6])
    assert np.isnan(Dirichlet((1, 3, 4)).mode()).all()


@given(st.lists(shapes, min_size=2, max_size=5))
def test_dirichlet_against_scipy(alpha: list[float]) -> None:
    ours, theirs = Dirichlet(tuple(alpha)), stats.dirichlet(alpha)
    np.testing.assert_allclose(ours.mean(), theirs.mean())
    np.testing.assert_allclose(ours.var(), theirs.var())
    theta = np.full(len(alpha), 1 / len(alpha))
    assert float(ours.logpdf(theta)) == pytest.approx(theirs.logpdf(theta), rel=1e-9, abs=1e-8)
    low, high = ours.interval(0.8)
    for i in range(len(alpha)):
        marginal = stats.beta(alpha[i], sum(alpha) - alpha[i])
        np.testing.assert_allclose((low[i], high[i]), marginal.interval(0.8), rtol=1e-8)


def test_density_outside_the_simplex_is_zero() -> None:
    assert Beta(2, 2).pdf(1.5) == 0
    assert Dirichlet((1, 1, 1)).pdf((0.5, 0.6, -0.1)) == 0
    assert Dirichlet((1, 1, 1)).pdf((0.5, 0.6, 0.2)) == 0
    assert Dirichlet((1, 1, 1)).pdf((0.2, 0.3, 0.5)) == pytest.approx(2)


def test_update_and_samples() -> None:
    assert Beta(1, 1).update((3, 4)) == Beta(4, 5)
    assert Dirichlet((1, 2, 3)).update((3, 0, 1)) == Dirichlet((4, 2, 4))
    draws = Dirichlet((4, 2, 4)).sample(50_000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), [0.4, 0.2, 0.4], atol=0.01)
    assert Beta(4, 2).sample(10, seed=1).shape == (10,)
    assert Dirichlet((4, 2, 4)).marginal(-1) == Beta(4, 6)


@pytest.mark.parametrize("a", [12.0, 1e6, 1e9, 1e11, 1e15, 1e20])
def test_density_of_large_parameters(a: float) -> None:
    from flint import arb, ctx

    ctx.prec = 400
    beta = Beta(a, 3 * a)
    for step in (-2.0, 0.0, 1.5):
        theta = float(0.25 + step * beta.std())
        x = arb(theta)
        exact = (arb(a) - 1) * x.log() + (3 * arb(a) - 1) * (1 - x).log()
        exact += (4 * arb(a)).lgamma() - arb(a).lgamma() - (3 * arb(a)).lgamma()
        assert float(beta.logpdf(theta)) == pytest.approx(float(exact), abs=2e-4)


def test_huge_counts() -> None:
    posterior = Beta(1, 1).update((10**24, 3 * 10**24))
    assert posterior.mean() == pytest.approx(0.25)
    low, high = posterior.interval()
    assert low <= 0.25 <= high
    assert high - low == pytest.approx(2 * 1.959964 * posterior.std(), rel=1e-5)
    assert float(posterior.cdf(0.25)) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("level", [0, 1, -0.5, 95, math.nan])
def test_bad_level(level: float) -> None:
    with pytest.raises(InvalidInputError, match="level"):
        Beta(1, 1).interval(level)


def test_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="kind"):
        Beta(1, 1).interval(0.9, "hpd")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="index"):
        Dirichlet((1, 1, 1)).marginal(3)
    with pytest.raises(InvalidInputError, match="prior"):
        Dirichlet((1, 0, 1))
    with pytest.raises(InvalidInputError, match="negative"):
        Beta(1, 1).update((-1, 4))
    with pytest.raises(InvalidInputError, match="theta"):
        Dirichlet((1, 1, 1)).pdf((0.5, 0.5))
