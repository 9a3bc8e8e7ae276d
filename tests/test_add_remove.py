"""The posterior with an unknown number of records, against sums over all true counts and all nodes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, gammaln

from discreet._inference.add_remove import AddRemovePosterior, LogUniform, gauss_rule
from discreet._numerics.noises import DiscreteLaplace, RoundedGaussian
from discreet.errors import InvalidInputError, TooLargeError

RANGE = LogUniform(1.0, 1e4)


def brute_force(z: Any, prior: Any, noise: Any, level: int, thetas: Any) -> tuple[Any, Any]:
    """The distribution function of one share at ``thetas``, and the distribution of the number of records."""
    alpha = np.asarray(prior, dtype=float)
    x = np.arange(max(z) + 90)
    logs = [
        gammaln(a + x) - gammaln(x + 1) - gammaln(a) + noise.log_prob(v, x, noise.scale)
        for a, v in zip(alpha, z, strict=True)
    ]
    logs = [np.asarray(log) for log in logs]
    strength = alpha.sum()
    nodes, widths = np.polynomial.legendre.leggauss(400)
    s = math.log(RANGE.low) + (nodes + 1) / 2 * math.log(RANGE.high / RANGE.low)
    weights, cdfs, totals = [], [], []
    for at in s:
        b = strength / math.exp(at)
        distributions = [np.exp(log - x * math.log1p(b)) for log in logs]
        weights.append(
            math.prod(distribution.sum() for distribution in distributions) * (b / (1 + b)) ** strength
        )
        distributions = [distribution / distribution.sum() for distribution in distributions]
        others = np.ones(1)
        for i, distribution in enumerate(distributions):
            others = np.convolve(others, distribution) if i != level else others
        here, rest = np.flatnonzero(distributions[level] > 1e-11), np.flatnonzero(others > 1e-11)
        joint = np.outer(distributions[level][here], others[rest])
        a, c = alpha[level] + x[here][:, None], strength - alpha[level] + rest[None]
        cdfs.append([float((joint * betainc(a, c, theta)).sum()) for theta in thetas])
        totals.append(np.convolve(distributions[level], others))
    share = np.array(weights) * widths
    share /= share.sum()
    return share @ np.array(cdfs), share @ np.array(totals)


@pytest.mark.parametrize(
    ("z", "prior", "noise"),
    [
        ((7, -2), (1.0, 1.0), DiscreteLaplace(1 / 0.5)),
        ((30, 12), (0.5, 2.0), DiscreteLaplace(1 / 0.3)),
        ((7, 3, -1), (1.0, 1.0, 1.0), DiscreteLaplace(1 / 1.0)),
        ((40, 0, -3), (0.1, 0.1, 0.1), DiscreteLaplace(1 / 1.0)),
        ((25, 9), (1.0, 1.0), RoundedGaussian(5.0)),
        ((-5, -9), (1.0, 1.0), DiscreteLaplace(1 / 0.5)),
    ],
)
def test_against_all_true_counts(z: Any, prior: Any, noise: Any) -> None:
    posterior = AddRemovePosterior(z, prior, noise=noise, total_prior=RANGE)
    low, high = posterior.interval(0.9)
    for level in range(len(z)):
        marginal = posterior.marginal(level).interval(0.9)
        assert marginal == pytest.approx((low[level], high[level]), rel=1e-5, abs=1e-9)
        cdf, total = brute_force(z, prior, noise, level, [low[level], high[level]])
        assert cdf == pytest.approx([0.05, 0.95], abs=2e-4)
    counts = np.arange(len(total))
    assert posterior.total.mean() == pytest.approx(float(total @ counts), rel=1e-3, abs=1e-3)
    spread = math.sqrt(float(total @ counts**2) - float(total @ counts) ** 2)
    assert posterior.total.std() == pytest.approx(spread, rel=1e-2)
    ends = np.searchsorted(np.cumsum(total), [0.05, 0.95])
    assert np.abs(np.array(posterior.total.interval(0.9)) - ends).max() <= 1


def test_moments_agree_with_draws() -> None:
    z = np.array([12, 3, 0, -2, 40, 7])
    posterior = AddRemovePosterior(z, 0.7, noise=DiscreteLaplace(1 / 0.8))
    draws = posterior.sample(40_000, seed=1)
    error = posterior.std() / math.sqrt(len(draws))
    assert (np.abs(draws.mean(axis=0) - posterior.mean()) < 7 * error).all()
    assert draws.std(axis=0) == pytest.approx(posterior.std(), rel=0.05)
    counts, _ = posterior.sample_counts(20_000, np.random.default_rng(2))
    total = counts.sum(axis=1)
    assert abs(total.mean() - posterior.total.mean()) < 7 * posterior.total.std() / math.sqrt(20_000)
    assert total.std() == pytest.approx(posterior.total.std(), rel=0.05)


def coverage(k: int, n: int, epsilon: float, repetitions: int, seed: int) -> tuple[float, float]:
    rng = np.random.default_rng(seed)
    shares = totals = 0.0
    for _ in range(repetitions):
        theta = rng.dirichlet(np.ones(k))
        noise = rng.geometric(-math.expm1(-epsilon), (2, k))
        z = rng.multinomial(n, theta) + noise[0] - noise[1]
        posterior = AddRemovePosterior(z, 1.0, noise=DiscreteLaplace(1 / epsilon))
        low, high = posterior.interval(0.9)
        shares += float(((low <= theta) & (theta <= high)).mean())
        first, last = posterior.total.interval(0.9)
        totals += first <= n <= last
    return shares / repetitions, totals / repetitions


def test_intervals_hold_what_they_say() -> None:
    """About 4,000 intervals of shares; six standard errors."""
    shares, totals = coverage(100, 300, 0.5, 40, 1)
    assert shares == pytest.approx(0.9, abs=6 * 0.3 / math.sqrt(4000))
    assert totals > 0.6


def test_a_strength_that_is_integrated_out_finds_empty_levels() -> None:
    """1,000 levels of which 20 occur: the means keep an ℓ₁ error of 0.04 with prior 1."""
    rng = np.random.default_rng(3)
    theta = np.zeros(1000)
    theta[:20] = rng.dirichlet(np.ones(20))
    noise = rng.geometric(-math.expm1(-1.0), (2, 1000))
    counts = rng.multinomial(10_000, theta)
    z = counts + noise[0] - noise[1]
    fixed = AddRemovePosterior(z, 1.0, noise=DiscreteLaplace(1.0))
    free = AddRemovePosterior(z, noise=DiscreteLaplace(1.0))
    assert np.abs(fixed.mean() - counts / 10_000).sum() > 0.03
    assert np.abs(free.mean() - counts / 10_000).sum() < 0.01
    low, high = free.total.interval(0.99)
    assert low <= 10_000 <= high


def test_equal_cells_are_equal_and_many_cells_are_fast() -> None:
    rng = np.random.default_rng(4)
    z = np.tile(rng.integers(-3, 30, 100), 1000)
    posterior = AddRemovePosterior(z, 1.0, noise=DiscreteLaplace(1.0))
    low, high = posterior.interval(0.9)
    assert (low[:100] == low[100:200]).all()
    assert (low < high).all()
    assert posterior.mean().sum() == pytest.approx(1.0, abs=1e-6)


def test_gauss_rules_have_the_moments() -> None:
    """Of an exponential distribution: moments 1, 1, 2, 6, 24, …; standardised about the mean."""
    central = [1.0, 0.0, 1.0, 2.0, 9.0, 44.0, 265.0, 1854.0, 14833.0, 133496.0]
    nodes = gauss_rule([np.array([m]) for m in central], np.array([1.0]), np.array([1.0]))
    raw = [sum(float(w[0]) * float(v[0]) ** j for v, w in nodes) for j in range(10)]
    assert raw == pytest.approx([math.factorial(j) for j in range(10)], rel=1e-6)


def test_wrong_things_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="low < high"):
        LogUniform(2.0, 1.0)
    with pytest.raises(InvalidInputError, match="level"):
        AddRemovePosterior([1, 2], 1.0, noise=DiscreteLaplace(1.0)).interval(1.5)


def test_noise_that_drowns_everything_is_refused_at_once() -> None:
    """It would take time in proportion to the noise; the release itself prints its plug-in, and says so."""
    from discreet._inference.add_remove import AddRemovePosterior

    with pytest.raises(TooLargeError, match="moves a count by about 1,414,214"):
        AddRemovePosterior((40, 60), 1.0, noise=DiscreteLaplace(1e6))
    AddRemovePosterior((40, 60), 1.0, noise=DiscreteLaplace(1e4))
