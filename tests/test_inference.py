from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import beta as scipy_beta

import discreet
import shorthand
from conformance.oracle import datasets
from discreet._declarations import Domain
from discreet._inference.noise_aware import noise_aware
from discreet._numerics.noises import Clamped, FloorLaplace
from discreet.answers.release import publish
from discreet.distributions.mixtures import BetaMixture
from discreet.errors import InvalidInputError, NotPrivateError, TooLargeError

SETTINGS = [
    ("lattice", (1.0, 1.0), 14, {}),
    ("lattice", (0.4, 2.0, 1.0), 9, {}),
    ("lshist", (1.0, 3.0), 14, {}),
    ("lshist", (1.0, 1.0, 0.5), 8, {}),
    ("lsdim", (1.0, 1.0, 0.5), 8, {}),
    ("lszhang", (2.0, 1.0, 1.0), 8, {}),
    ("ehd", (1.0, 1.0), 14, {}),
    ("ehds", (0.5, 1.0, 2.0), 7, {}),
    ("ehdl-calibrated", (1.0, 1.0), 14, {}),
    ("mbeta", (1.0, 1.0), 14, {"delta": "1/1000"}),
]


@pytest.mark.parametrize(("name", "prior", "n", "options"), SETTINGS)
def test_against_the_definition(name, prior, n, options) -> None:  # type: ignore[no-untyped-def]
    """Σ_x π(x|output) Dir(α + x) with π by Bayes' rule over all datasets."""
    m = discreet.mechanism(name, prior=prior, n=n, epsilon=1.5, **options)
    points = np.array(datasets(n, len(prior)))
    predictive = (gammaln(points + np.array(prior)) - gammaln(points + 1.0)).sum(axis=1)
    for counts in (points[0], points[len(points) // 2], points[-1]):
        output = m.run(counts)
        aware = noise_aware(m, output.counts, output.noisy)
        log_weight = predictive.copy()
        for i, x in enumerate(points):
            if output.noisy is not None:
                log_weight[i] -= 0.75 * np.abs(np.array(output.noisy) - x).sum()
            else:
                outputs, log_probability = m.log_pmf(x)
                log_weight[i] += log_probability[(outputs == np.array(output.counts)).all(axis=1)][0]
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        total = sum(prior) + n
        for i, a in enumerate(prior):
            alpha = a + points[:, i]
            marginal = aware.marginal(i)
            assert marginal.mean() == pytest.approx(float(weight @ alpha) / total, abs=1e-12)
            second = float(weight @ (alpha * (alpha + 1))) / (total * (total + 1))
            assert marginal.var() == pytest.approx(second - marginal.mean() ** 2, abs=1e-12)
            for theta in (0.1, 0.4, 0.9):
                expected = float(weight @ scipy_beta.cdf(theta, alpha, total - alpha))
                assert float(marginal.cdf(theta)) == pytest.approx(expected, abs=1e-11)
                density = float(weight @ scipy_beta.pdf(theta, alpha, total - alpha))
                assert float(marginal.pdf(theta)) == pytest.approx(density, rel=1e-9)
        np.testing.assert_allclose(aware.mean().sum(), 1.0, atol=1e-10)


def test_faces() -> None:
    two = shorthand.shares({"a": 60, "b": 40}, levels=("a", "b"), epsilon=1).posterior
    assert two.mean().shape == (2,)
    low, high = two.interval(0.9)
    assert (low < two.mean()).all()
    assert (two.mean() < high).all()
    assert high[1] == pytest.approx(1 - low[0])
    first = two.marginal(0)
    assert float(first.cdf(high[0]) - first.cdf(low[0])) == pytest.approx(0.9, abs=1e-9)
    assert two.std() == pytest.approx(np.sqrt(two.var()))
    shortest = two.interval(0.9, "highest-density")
    assert (shortest[1] - shortest[0] <= high - low + 1e-12).all()
    three = shorthand.shares({"a": 60, "b": 40, "c": 9}, levels=("a", "b", "c"), epsilon=1).posterior
    assert three.mean().shape == (3,)
    assert three.interval(0.9)[0].shape == (3,)
    assert (three.interval(0.9)[0] < three.interval(0.9)[1]).all()
    draws = three.sample(20_000, seed=1)
    assert draws.shape == (20_000, 3)
    np.testing.assert_allclose(draws.mean(axis=0), three.mean(), atol=0.01)
    np.testing.assert_allclose(draws.std(axis=0), three.std(), rtol=0.05)


def test_wider_than_the_plug_in_and_equal_without_noise() -> None:
    m = discreet.mechanism("lattice", prior=(1, 1), n=100, epsilon="0.1")
    r = publish(m, m.run((60, 40)), Domain(("a", "b")))
    (low, high), plug_in = r.interval(0.9), r.plug_in.interval(0.9)
    assert high[0] - low[0] > 1.3 * (plug_in[1] - plug_in[0])
    assert (r.posterior.noise_share() > 0.4).all()
    sharp = discreet.mechanism("lattice", prior=(1, 1), n=100, epsilon=60)
    r = publish(sharp, sharp.run((60, 40)), Domain(("a", "b")))
    np.testing.assert_allclose(np.array(r.interval(0.9))[:, 0], r.plug_in.interval(0.9), atol=1e-9)
    np.testing.assert_allclose(r.posterior.noise_share(), 0, atol=1e-6)


@pytest.mark.parametrize("kind", ["equal-tailed", "highest-density"])
def test_mixture_quantiles(kind: str) -> None:
    mixture = BetaMixture(np.array([0.5, 0.5]), np.array([2.0, 30.0]), 40.0)  # two humps
    p = np.array([1e-6, 0.05, 0.5, 0.7, 1 - 1e-6])
    np.testing.assert_allclose(mixture.cdf(mixture.ppf(p)), p, atol=1e-9)
    low, high = mixture.interval(0.9, kind)  # type: ignore[arg-type]
    assert float(mixture.cdf(high) - mixture.cdf(low)) == pytest.approx(0.9, abs=1e-8)


@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("rate", [0.05, 1.0, 20.0])
def test_likelihood_is_the_distribution_read_the_other_way(n: int, rate: float) -> None:
    def below(y: float) -> mpmath.mpf:
        """P(Laplace(1/rate) < y)."""
        tail = mpmath.exp(-rate * abs(y)) / 2
        return tail if y < 0 else 1 - tail

    def clamped(count: int, z: int) -> mpmath.mpf:
        """P(count + ⌊Laplace(1/rate)⌋, clamped to [0, n], is z)."""
        up = below(z - count + 1) if z < n else mpmath.mpf(1)
        return mpmath.log(up - (below(z - count) if z else 0))

    with mpmath.workdps(150):
        distribution = np.array([[float(clamped(c, z)) for z in range(n + 1)] for c in range(n + 1)])
    x = np.arange(n + 1.0)
    for released in range(n + 1):
        found = Clamped(FloorLaplace(1 / rate), 0, n).log_prob(
            np.array(float(released)), x, np.array(1 / rate)
        )
        np.testing.assert_allclose(found, distribution[:, released], rtol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(100_000, 2), (10_000, 10), (10**12, 3)])
def test_large_sizes(n: int, k: int) -> None:
    m = discreet.mechanism("lattice", prior=(1.0,) * k, n=n, epsilon="0.5")
    counts = [n // k] * k
    counts[0] += n - sum(counts)
    output = m.run(counts)
    aware = noise_aware(m, output.counts, output.noisy)
    np.testing.assert_allclose(aware.mean(), 1 / k, atol=0.02)


def test_bad_input() -> None:
    data = {"a": 30, "b": 20}
    stamped = shorthand.shares(
        data, levels=("a", "b"), epsilon=1, mechanism="ehdl", options={"acknowledge_not_private": True}
    )
    with pytest.raises(NotPrivateError, match="not private"):
        _ = stamped.posterior
    assert "leave out the noise" in " ".join(stamped.summary().split())
    r = shorthand.shares(data, levels=("a", "b"), epsilon=1)
    for level in (0, 1, 2):
        with pytest.raises(InvalidInputError, match="level"):
            r.posterior.interval(level)
    with pytest.raises(InvalidInputError, match="kind"):
        r.posterior.interval(0.9, "hpd")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="index"):
        r.posterior.marginal(2)
    big = discreet.mechanism("ehd", prior=(1, 1, 1), n=200, epsilon=1)
    with pytest.raises(TooLargeError, match=r"2\.03e\+04"):
        noise_aware(big, (100, 50, 50), None)


def test_coverage_of_ninety_percent_intervals() -> None:
    """True θ from the prior: 1,000 intervals each, at n = 100 and ε = 0.1 where the plug-in fails badly."""
    rng = np.random.default_rng(4)
    m = discreet.mechanism("lattice", prior=(1, 1), n=100, epsilon="0.1")
    covered = plug_in = 0
    for _ in range(1000):
        theta = rng.beta(1, 1)
        x = int(rng.binomial(100, theta))
        noisy = m.simulate_noise(1, rng)[0] + np.array([x, 100 - x])  # type: ignore[attr-defined]
        released = m.decoder.decode(noisy.tolist())  # type: ignore[attr-defined]
        chance = float(noise_aware(m, released, noisy.tolist()).marginal(0).cdf(theta))
        covered += 0.05 <= chance <= 0.95
        naive = float(discreet.Beta(1 + released[0], 1 + released[1]).cdf(theta))
        plug_in += 0.05 <= naive <= 0.95
    # 900 ± 6.1 standard deviations: a false alarm in a thousand million
    assert abs(covered - 900) <= 58
    assert plug_in < 700


def test_arviz_export() -> None:
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed")
    r = shorthand.shares({"a": 60, "b": 40, "c": 9}, levels=("a", "b", "c"), epsilon=1)
    exported = r.posterior.to_arviz(size=500, seed=1)
    assert arviz.summary(exported, kind="stats").shape[0] == 3
