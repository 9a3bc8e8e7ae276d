"""Noisy counts of other publishers: units, files, censoring, posteriors, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import discreet
from discreet._inference.add_remove import AddRemovePosterior, LogUniform
from discreet._inference.published import as_noise, noisy_counts
from discreet._numerics import noises
from discreet.errors import FileError, InvalidInputError, TooLargeError


def test_the_door_is_open():
    published = discreet.noisy_counts([61, 45], noise=("discrete-laplace", 10.0), total=100)
    assert published.likelihood().log_prob([0.5, 0.5]) < 0
    assert "publisher" in published.guarantee
    low, high = published.noise_aware(prior=1.0).interval(0.9)
    assert 0 < low[0] < 0.58 < high[0] < 1


@pytest.mark.parametrize(
    ("noise", "kind", "scale"),
    [
        (("discrete-laplace", 4), noises.DiscreteLaplace, 4.0),
        (("geometric", 0.5), noises.DiscreteLaplace, 2.0),
        (("discrete-laplace", {"epsilon": 0.5}), noises.DiscreteLaplace, 2.0),
        (("laplace", {"std": 3.0}), noises.Laplace, 3 / math.sqrt(2)),
        (("laplace", {"epsilon": 0.1}), noises.Laplace, 10.0),
        (("gaussian", 3.0), noises.GaussianNoise, 3.0),
        (("gaussian", {"variance": 9.0}), noises.GaussianNoise, 3.0),
        (("discrete-gaussian", {"std": 2.0}), noises.DiscreteGaussian, 2.0),
        (("lattice", {"epsilon": 0.5}), noises.LatticeNoise, 4.0),
    ],
)
def test_units(noise, kind, scale):
    made = as_noise(noise)
    assert type(made) is kind
    assert made.scale == pytest.approx(scale)


def test_the_variance_of_discrete_laplace_noise_is_that_of_its_distribution():
    b = as_noise(("discrete-laplace", {"variance": 7.3})).scale
    v = np.arange(-400, 401)
    assert (np.exp(noises.DiscreteLaplace(b).log_prob(v, np.zeros(801), b)) * v**2).sum() == pytest.approx(
        7.3
    )


def test_measurements_of_opendp_tell_their_noise():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    whole, real = (
        dp.vector_domain(dp.atom_domain(T="i32")),
        dp.vector_domain(dp.atom_domain(T=float, nan=False)),
    )
    for measurement, kind in [
        (dp.m.make_laplace(whole, dp.l1_distance(T="i32"), scale=4.0), noises.DiscreteLaplace),
        (dp.m.make_laplace(real, dp.l1_distance(T=float), scale=4.0), noises.Laplace),
        (dp.m.make_gaussian(whole, dp.l2_distance(T=float), scale=4.0), noises.DiscreteGaussian),
        (dp.m.make_gaussian(real, dp.l2_distance(T=float), scale=4.0), noises.GaussianNoise),
    ]:
        made = as_noise(measurement)
        assert type(made) is kind
        assert made.scale == pytest.approx(4.0, rel=1e-9)


def test_files_and_tables_with_a_column_of_scales(tmp_path):
    path = tmp_path / "measurements.csv"
    path.write_text("place,value,variance\nnorth,12,4\nsouth,-1,9\n", encoding="utf-8")
    options = {"noise": ("discrete-gaussian", {"variance": "variance"}), "column": "value", "levels": "place"}
    for source in (path, str(path), {"place": ["north", "south"], "value": [12, -1], "variance": [4, 9]}):
        published = noisy_counts(source, **options)
        assert published.levels == ("north", "south")
        np.testing.assert_allclose(published.noise.scale, [2, 3])
    assert noisy_counts({"a": 3, "b": 4}, ("geometric", 1.0)).levels == ("a", "b")
    with pytest.raises(FileError):
        noisy_counts(tmp_path / "absent.csv", **options)
    with pytest.raises(InvalidInputError, match="column 'weight'"):
        noisy_counts(path, **{**options, "column": "weight"})
    with pytest.raises(InvalidInputError, match="column="):
        noisy_counts(path, noise=("gaussian", 1.0))


def test_values_that_were_withheld_clamped_or_rounded():
    """Against plain sums: a withheld value is any below the threshold, a clamped one any beyond the end."""
    x = np.arange(200)
    prior = stats.poisson.logpmf(x, 6.0)

    def plain(z):
        return math.log(math.tanh(0.25)) - 0.5 * np.abs(z - x)

    below = logsumexp([plain(z) for z in range(-200, 10)], axis=0)
    made = noisy_counts([None, 12], ("geometric", 0.5), suppressed_below=10).likelihood()
    assert made.log_prob([6.0, 6.0]) == pytest.approx(logsumexp(prior + below) + logsumexp(prior + plain(12)))
    at_zero = logsumexp([plain(z) for z in range(-200, 1)], axis=0)
    made = noisy_counts([0, 12], ("geometric", 0.5), clamped=0).likelihood()
    assert made.log_prob([6.0, 6.0]) == pytest.approx(
        logsumexp(prior + at_zero) + logsumexp(prior + plain(12))
    )
    rounded = noisy_counts([3, 4], ("gaussian", 2.0), rounded=True)
    assert isinstance(rounded.noise, noises.RoundedGaussian)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([1.5, 2], {"noise": ("discrete-laplace", 1.0)}, "whole numbers"),
        ([1, 2], {"noise": ("discrete-laplace", 0)}, "scale=0"),
        ([1, 2], {"noise": ("geometric", -1)}, "epsilon=-1"),
        ([1, 2], {"noise": ("gaussian", {"epsilon": 1})}, "Gaussian"),
        ([1, 2], {"noise": ("gaussian", {"sigma": 1})}, "scale, std, variance"),
        ([1, 2], {"noise": ("cauchy", 1)}, "cauchy"),
        ([1, 2], {"noise": "gaussian"}, "pair"),
        ([1, 2], {"noise": ("gaussian", [1, 2, 3])}, "3 entries for 2"),
        ([1, 2], {"noise": ("gaussian", "scale")}, "is not a table"),
        ([1, 2], {"noise": ("lattice", 1.0), "total": 4}, "do not sum"),
        ([1, 2], {"noise": ("lattice", 1.0), "total": 3, "clamped": 0}, "clamping"),
        ([1, 2], {"noise": ("geometric", 1.0), "total": -3}, "total"),
        ([1, 2], {"noise": ("geometric", 1.0), "total": 3.5}, "total"),
        ([1, None], {"noise": ("geometric", 1.0)}, "suppressed_below"),
        ([1, 12], {"noise": ("geometric", 1.0), "suppressed_below": 10}, "below"),
        ([-1, 12], {"noise": ("geometric", 1.0), "clamped": 0}, "clamped"),
        ([5, 10], {"noise": ("gaussian", 1.0), "rounded": 5}, "rounded=5"),
        ([1, math.inf], {"noise": ("geometric", 1.0)}, "finite"),
        ([], {"noise": ("geometric", 1.0)}, "values"),
        ([1, 2], {"noise": ("geometric", 1.0), "levels": ["a"]}, "levels"),
    ],
)
def test_what_does_not_fit_is_refused(values, options, message):
    with pytest.raises(InvalidInputError, match=message):
        noisy_counts(values, **options)


def test_intervals_of_a_public_total_cover():
    """Two levels, n = 100, ε = 0.1, truths from the prior: 300 intervals at 90 %, α = 1e-9 both sides."""
    rng = np.random.default_rng(5)
    share = rng.random(300)
    x = rng.binomial(100, share)
    q = math.exp(-0.1)
    noise = rng.geometric(1 - q, (300, 2)) - rng.geometric(1 - q, (300, 2))
    z = np.stack([x, 100 - x], axis=1) + noise
    inside = plugged = 0
    for theta, row in zip(share, z, strict=True):
        low, high = noisy_counts(row, ("discrete-laplace", 10.0), total=100).noise_aware().interval(0.9)
        inside += low[0] <= theta <= high[0]
        a = np.maximum(row, 0) + 1.0
        low, high = stats.beta(a[0], a[1]).ppf([0.05, 0.95])
        plugged += low <= theta <= high
    low, high = stats.binom(300, 0.9).ppf([1e-9, 1 - 1e-9])
    assert low <= inside <= high
    assert plugged < 0.6 * 300


def test_an_unknown_total_against_a_plain_sum():
    """k = 2: p(θ | z) ∝ ∫ db/b Σ_x Π NB(xᵢ; αᵢ, b)·P(zᵢ | xᵢ)·Beta(θ | α + x), summed outright."""
    z, alphas, scale = np.array([7.0, 2.0]), (1.0, 2.0), 1.5
    distribution = AddRemovePosterior(
        z, alphas, noise=noises.DiscreteLaplace(scale), total_prior=LogUniform(0.1, 1e4)
    )
    x = np.arange(80)
    means = np.exp(np.linspace(math.log(0.1), math.log(1e4), 400))
    total = np.zeros((80, 80))
    for mean in means:
        q = mean / (mean + 3.0)
        cells = [
            gammaln(x + a)
            - gammaln(a)
            - gammaln(x + 1)
            + x * math.log(q)
            + a * math.log(1 - q)
            - np.abs(c - x) / scale
            for a, c in zip(alphas, z, strict=True)
        ]
        total += np.exp(cells[0])[:, None] * np.exp(cells[1])[None, :]
    total /= total.sum()
    expected = (total * (1 + x[:, None]) / (3 + x[:, None] + x[None, :])).sum()
    assert distribution.mean() == pytest.approx([expected, 1 - expected], abs=5e-4)
    counts, _ = distribution.sample_counts(20_000, np.random.default_rng(3))
    exact = (total * (x[:, None] + x[None, :])).sum()
    assert counts.sum(axis=1).mean() == pytest.approx(exact, abs=0.2)
    low, high = distribution.total.interval(0.9)
    assert low < exact < high


def test_an_unknown_total_of_many_cells_covers():
    """k = 60, n = 300: the total is inside its 90 % interval in 4 of 10 runs at least (α = 1e-6)."""
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(10):
        x = rng.multinomial(300, rng.dirichlet(np.ones(60)))
        q = math.exp(-0.5)
        z = x + rng.geometric(1 - q, 60) - rng.geometric(1 - q, 60)
        low, high = noisy_counts(z, ("discrete-laplace", 2.0)).noise_aware().total.interval(0.9)
        inside += low <= 300 <= high
    assert inside >= 4
    with pytest.raises(InvalidInputError, match="total"):
        AddRemovePosterior([1.0, 2.0], 1.0, noise=noises.LatticeNoise(1.0))


def posterior():
    return noisy_counts([60, 45], noise=("discrete-laplace", 2.0), total=100).noise_aware()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noisy_counts([1.5, 2], noise=("geometric", 1.0)), "fractions.*whole numbers"),
        (lambda: noisy_counts([1, 2], noise=("laplace", 0)), "scale=0 .* positive"),
        (lambda: noisy_counts([1, 2], noise=("gaussian", {"std": 0})), "std=0 .* positive"),
        (lambda: noisy_counts([1, 2], noise=("laplace", [1, 0])), r"scale=\[1, 0\] .* positive"),
        (lambda: noisy_counts([1, 2], noise=("lattice", 2.0), total=4), "do not sum to total=4"),
        (lambda: noisy_counts([1, 2], noise=("laplace", 2.0), total=-1), "total=-1 must not be negative"),
        (lambda: noisy_counts([1, 2], noise=("laplace", 2.0), total=2.5), "total=2.5 must be a whole"),
        (lambda: noisy_counts([1, 2], noise=("laplace", 2.0), clamped="zero"), "clamped='zero' must be"),
        (lambda: noisy_counts([1, 2], noise=("laplace", 2.0), clamped=(0, 1, 2)), "must be a number, or two"),
        (lambda: noisy_counts([1, 2], noise=("laplace", 2.0), suppressed_below="x"), "suppressed_below='x'"),
        (lambda: posterior().sample(10**12), "1e[+]12 draws of 2 numbers are more than memory holds"),
        (lambda: posterior().sample(-1), "size=-1 must not be negative"),
        (lambda: posterior().sample(1.5), "size=1.5 must be a whole number"),
        (lambda: posterior().interval(2), "level=2 must be between 0 and 1"),
        (lambda: posterior().interval("wide"), "level='wide' must be between 0 and 1"),
        (lambda: posterior().marginal("a"), "index='a' must be between 0 and 1"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_any_work(call, message):
    with pytest.raises((InvalidInputError, TooLargeError), match=message):
        call()


@pytest.mark.slow
def test_a_value_clamped_from_above_leaves_the_total_open():
    """The others' counts, of which little is known, must not drown the share of the one that is known."""
    wide = noisy_counts([1, 5], noise=("laplace", 2.0), clamped=(0, 5)).noise_aware()
    exact = noisy_counts([1, 5], noise=("laplace", 2.0)).noise_aware()
    assert 0.05 < wide.mean()[0] < exact.mean()[0]
    assert wide.total.mean() > exact.total.mean()
