"""Many levels: marginals by characteristic functions against convolutions, and quantiles of many mixtures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import betainc, gammaln
from scipy.stats import chi2

import discreet
import shorthand
from discreet._inference.add_remove import LogUniform
from discreet._inference.noise_aware import MixedShares, noise_aware
from discreet._numerics.cells import Cells, GivenTotal
from discreet._numerics.count_vectors import Separable, compositions
from discreet._numerics.counts import RisingDistribution
from discreet._numerics.log_gamma import log_rising
from discreet._numerics.noises import DiscreteLaplace, LatticeNoise, RoundedGaussian
from discreet.answers.release import Release
from discreet.distributions._beta_rows import BetaPart, mean_and_deviation, quantiles
from discreet.distributions.mixtures import BetaMixture
from discreet.distributions.noise_aware import NoiseAware
from statistical.goodness import ALPHA, chi_square


def noisy_counts(k: int, n: int, epsilon: float, prior: Any, seed: int) -> Any:
    """Counts from the prior predictive with about the noise of the lattice, summing to n."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n, rng.dirichlet(np.broadcast_to(prior, k)))
    noise = rng.geometric(-math.expm1(-epsilon / 2), (2, k))
    v = noise[0] - noise[1]
    v[: abs(int(v.sum()))] -= int(np.sign(v.sum()))
    v[-1] -= int(v.sum())
    return counts + v


def lattice(z: Any, prior: Any, n: int, epsilon: float) -> GivenTotal:
    return GivenTotal(z, LatticeNoise(2 / epsilon), prior, n)


def total_variation(a: tuple[int, Any], b: tuple[int, Any]) -> float:
    low = min(a[0], b[0])
    high = max(a[0] + len(a[1]), b[0] + len(b[1]))
    both = np.zeros((2, high - low))
    for row, (start, p) in zip(both, (a, b), strict=True):
        row[start - low : start - low + len(p)] = p
    return float(np.abs(both[0] - both[1]).sum() / 2)


CASES = [
    (3, 50, 1.0, 1.0),
    (10, 1000, 0.5, 0.5),
    (30, 300, 0.5, 0.05),
    (40, 20, 0.1, 1.0),
    (60, 100_000, 1.0, 30.0),
    (80, 40, 2.0, 0.01),
    (100, 2000, 0.2, 1.0),
    (25, 10**9, 1.0, 1.0),
]


@pytest.mark.parametrize(("k", "n", "epsilon", "prior"), CASES)
def test_marginals_agree_with_convolutions(k: int, n: int, epsilon: float, prior: float) -> None:
    z = noisy_counts(k, n, epsilon, prior, 3)
    ours = lattice(z.tolist(), (prior,) * k, n, epsilon).marginals()
    exact = convolved(z.tolist(), (prior,) * k, n, epsilon).marginals()
    assert max(map(total_variation, ours, exact)) < 1e-10


def convolved(z: Any, prior: Any, n: int, epsilon: float) -> Separable:
    """The same distribution by convolutions of windows, which hold all but e^−45 of it."""
    excess = max(sum(z) - n, n - sum(z), sum(max(-c, 0) for c in z))
    reach = excess + math.ceil((2 * (45 + 4 * len(z)) + 4 * sum(prior)) / epsilon)
    windows = [(max(c - reach, 0), min(c + reach, n)) for c in (min(max(c, 0), n) for c in z)]
    logs = []
    for (low, high), c, a in zip(windows, z, prior, strict=True):
        steps = np.arange(high - low + 1)
        logs.append(log_rising(a, float(low) + steps) - 0.5 * epsilon * np.abs(steps + float(low - c)))
    return Separable.of(logs, n, [low for low, _ in windows])


def test_marginals_with_different_priors() -> None:
    rng = np.random.default_rng(1)
    prior = tuple(rng.choice([0.1, 1.0, 7.0, 200.0], 30).tolist())
    z = noisy_counts(30, 5000, 0.3, prior, 4)
    distribution = lattice(z.tolist(), prior, 5000, 0.3)
    x = np.arange(5001.0)
    logs = [log_rising(a, x) - 0.15 * np.abs(c - x) for a, c in zip(prior, z, strict=True)]
    exact = Separable.of(logs, 5000).marginals()
    assert max(map(total_variation, distribution.marginals(), exact)) < 1e-10


def test_draws_follow_the_marginals_and_sum_to_n() -> None:
    k, n = 90, 200
    z = noisy_counts(k, n, 1.0, 0.3, 5)
    distribution = lattice(z.tolist(), (0.3,) * k, n, 1.0)
    draws = distribution.sample(6000, np.random.default_rng(0))
    assert (draws.sum(axis=1) == n).all()
    statistics = []
    for level in (0, 17, 60, int(np.argmax(z)), int(np.argmin(z))):
        start, p = distribution.marginals()[level]
        observed = np.bincount(draws[:, level] - start, minlength=len(p))
        statistics.append(chi2.sf(*chi_square(observed, 6000 * p)))
    assert min(statistics) > ALPHA / 5


def test_medians_are_those_of_the_marginals() -> None:
    z = noisy_counts(50, 3000, 0.5, 1.0, 6)
    distribution = lattice(z.tolist(), (1.0,) * 50, 3000, 0.5)
    for median, (start, p) in zip(distribution.medians(), distribution.marginals(), strict=True):
        below = p[: max(0, int(np.floor(median + 0.5)) - start)].sum()
        at = int(np.floor(median + 0.5)) - start
        assert below <= 0.5 + 1e-9
        assert below + p[at] >= 0.5 - 1e-9


@pytest.mark.parametrize("sigma", [-1, 0])
def test_quantiles_of_many_mixtures(sigma: int) -> None:
    rng = np.random.default_rng(2)
    a = np.concatenate([rng.uniform(0.01, 1, 4), rng.uniform(1, 50, 4), rng.uniform(100, 1e6, 4)])
    mass = rng.dirichlet(np.full(40, 0.3), len(a))
    s = np.full(len(a), 2e6) - a if sigma else rng.uniform(1, 1000, len(a))
    parts = [BetaPart(mass * 0.3, a, s, sigma), BetaPart(mass[:, ::-1] * 0.7, a, s + 3, sigma)]
    mean, deviation = mean_and_deviation(parts)
    for p in (1e-6, 0.05, 0.5, 0.95, 0.9999):
        (found,) = quantiles(parts, p)
        for row in range(len(a)):
            steps = np.arange(40)
            total = 0.0
            for part, weight in zip(parts, (0.3, 0.7), strict=True):
                from discreet.distributions.beta_dirichlet import beta_cdf

                own = beta_cdf(a[row] + steps, part.s[row] + sigma * steps, found[row])
                total += float(part.mass[row] @ own)
                assert part.mass[row].sum() == pytest.approx(weight)
            assert total == pytest.approx(p, rel=1e-6)
    assert (deviation > 0).all()
    assert ((mean > 0) & (mean < 1)).all()


def test_noise_aware_intervals_are_those_of_each_mixture() -> None:
    z = noisy_counts(40, 400, 0.5, 0.2, 7)
    aware = NoiseAware((0.2,) * 40, 400, lattice(z.tolist(), (0.2,) * 40, 400, 0.5))
    low, high = aware.interval(0.9)
    for level in range(0, 40, 5):
        one = aware.marginal(level)
        assert isinstance(one, BetaMixture)
        assert (low[level], high[level]) == pytest.approx(one.interval(0.9), rel=1e-6)
        assert aware.mean()[level] == pytest.approx(one.mean(), rel=1e-12)
        assert aware.std()[level] == pytest.approx(one.std(), rel=1e-9)


@pytest.mark.parametrize("noise", [DiscreteLaplace(1.4), RoundedGaussian(2.5), RoundedGaussian(0.2)])
def test_noise_distributions_sum_to_one(noise: Any) -> None:
    v = np.arange(-200.0, 201.0)
    distribution = np.exp(noise.log_prob(v, np.zeros(1), noise.scale))
    assert distribution.sum() == pytest.approx(1.0, abs=1e-12)
    if noise.scale > 1:
        assert (distribution * v**2).sum() == pytest.approx(float(noise.variance), rel=1e-9)


@pytest.mark.parametrize("tilt", [-1.5, -0.4, 0.0, 0.2])
def test_windows_leave_out_nothing_that_matters(tilt: float) -> None:
    z = np.array([-40.0, -3.0, 0.0, 1.0, 7.0, 60.0, 900.0])
    x = np.arange(6000.0)
    for prior in (0.01, 1.0, 5.0, 300.0):
        for noise in (DiscreteLaplace(2.0), RoundedGaussian(4.0)):
            distribution, _ = RisingDistribution.of(np.full(len(z), prior), 6000.0).tilt(
                np.full(len(z), tilt), 6000.0
            )
            cells = Cells(distribution, noise, z, noise.scales(len(z)))
            for row, value in enumerate(z):
                weight = log_rising(prior, x) + noise.log_prob(value, x, noise.scale) + tilt * x
                near = np.flatnonzero(weight > weight.max() - 40)
                assert cells.first[row] <= near[0]
                assert cells.last[row] >= near[-1]


def test_an_unknown_prior_against_all_datasets() -> None:
    """log a uniform: every a of a fine grid, every dataset of 8 records."""
    n, k, strength = 8, 3, LogUniform(0.05, 20.0)
    z = (9, 1, -2)
    m = discreet.mechanism("gaussian", prior=(1.0,) * k, n=n, mu="0.9")
    rows = compositions(n, k)
    distribution = RoundedGaussian(float(m.noise_scale))
    noise = distribution.log_prob(np.array(z), rows.astype(float), distribution.scale).sum(axis=1)
    nodes, widths = np.polynomial.legendre.leggauss(60)
    middle, half = math.log(strength.low * strength.high) / 2, math.log(strength.high / strength.low) / 2
    logs, means, cdfs = [], [], []
    for node, width in zip(nodes, widths, strict=True):
        a = math.exp(middle + half * node)
        prior = (gammaln(a + rows) - gammaln(a) - gammaln(rows + 1)).sum(axis=1)
        weight = prior + noise + math.lgamma(k * a) - math.lgamma(k * a + n)
        logs.append(np.logaddexp.reduce(weight) + math.log(width))
        weight = np.exp(weight - np.logaddexp.reduce(weight))
        means.append(weight @ ((a + rows) / (k * a + n)))
        cdfs.append(weight @ betainc(a + rows, (k - 1) * a + n - rows, 0.4))
    share = np.exp(np.array(logs) - np.logaddexp.reduce(logs))
    found = noise_aware(m, (), z, strength=strength)
    assert isinstance(found, MixedShares)
    np.testing.assert_allclose(found.mean(), share @ np.array(means), rtol=1e-4)
    assert [found.marginal(i).cdf(0.4) for i in range(k)] == pytest.approx(share @ np.array(cdfs), abs=1e-4)
    low, high = found.interval(0.8)
    assert found.marginal(0).interval(0.8) == pytest.approx((low[0], high[0]), rel=1e-5)
    draws = found.sample(20_000, seed=0)
    np.testing.assert_allclose(draws.mean(axis=0), found.mean(), atol=0.01)
    counts, alpha = found.sample_counts(10, np.random.default_rng(0))
    assert (counts.sum(axis=1) == n).all()
    assert ((alpha > strength.low) & (alpha < strength.high)).all()


@pytest.mark.parametrize("hidden", [False, True])
def test_mostly_empty_levels_do_not_lose_by_default(hidden: bool) -> None:
    """1,000 levels of which 20 occur: the prior's strength is inferred, and the release says so."""
    rng = np.random.default_rng(0)
    true = np.zeros(1000, dtype=int)
    true[rng.choice(1000, 20, replace=False)] = rng.multinomial(10_000, rng.dirichlet(np.ones(20)))
    counts = dict(enumerate(true.tolist()))

    def error(**options: Any) -> float:
        released = shorthand.shares(counts, levels=range(1000), epsilon=1, hidden=hidden, **options)
        assert Release.from_json(released.to_json()) == released
        assert (released.strength is None) == ("prior" in options)
        return float(np.abs(released.posterior.mean() - true / true.sum()).sum())

    assert error() < 0.03 < 0.1 < error(prior=1)
    words = dict(shorthand.shares(counts, levels=range(1000), epsilon=1, hidden=hidden).words().facts)
    assert "one unknown parameter for all levels between 0.0001 and 10" in words["Prior"]
