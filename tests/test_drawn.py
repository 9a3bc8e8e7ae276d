"""The posterior of a parameter given private posterior draws: against quadrature, and calibrated."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import gammaln, logsumexp

import discreet
import shorthand
from discreet._documents.base import write_document
from discreet._numerics.count_vectors import compositions
from discreet.distributions.gamma import Gamma
from discreet.distributions.mixtures import BetaMixture, GammaMixture, Mixture, Rescaled
from discreet.distributions.normal import Normal
from discreet.errors import TooLargeError
from discreet.posterior_sampling._given_draws import weighed_statistics
from discreet.posterior_sampling.families.categorical import BetaFamily, DirichletFamily
from discreet.posterior_sampling.families.means import GaussianMean, GaussianVector
from discreet.posterior_sampling.families.rates import Exponential, Poisson
from discreet.posterior_sampling.family import Family
from discreet.posterior_sampling.sample import Sample

SCALINGS = [(1.0, 1.0), (0.3, 1.0), (1.0, 0.2)]


def distribution_by_quadrature(density: Any, low: float, high: float) -> tuple[float, Any]:
    """Mean and distribution function of an unnormalised density, one integral at a time."""
    nodes = np.linspace(low, high, 12)

    def integral(function: Any, end: float = high) -> float:
        ends = [x for x in nodes if x < end] + [end]
        parts = itertools.pairwise(ends)
        return sum(quad(function, a, b, epsabs=0, epsrel=1e-10)[0] for a, b in parts)

    total = integral(density)
    return integral(lambda t: t * density(t)) / total, lambda x: integral(density, x) / total


def check(distribution: Any, density: Any, low: float, high: float, tolerance: float = 1e-7) -> None:
    mean, cdf = distribution_by_quadrature(density, low, high)
    assert distribution.mean() == pytest.approx(mean, rel=tolerance)
    for p in (0.05, 0.5, 0.95):
        assert cdf(float(distribution.ppf(p))) == pytest.approx(p, abs=10 * tolerance)
    inner = float(distribution.ppf(0.4))
    around = 1e-4 * (high - low)
    slope = float(distribution.cdf(inner + around) - distribution.cdf(inner - around)) / (2 * around)
    assert float(distribution.pdf(inner)) == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(("r", "m"), SCALINGS)
def test_mean_is_what_quadrature_gives(r: float, m: float) -> None:
    prior, n, sigma, draws = Normal(1.0, 2.0), 7, 3.0, np.array([2.5, 1.0])
    distribution = GaussianMean(sigma, (-9, 9)).given_draws(prior, n, r, m, draws)
    own = 1 / (m * 4) + r * n / 9

    theta = np.linspace(-9, 11, 201)[:, None]
    total = n * theta + np.linspace(-60, 60, 301)
    drawn = stats.norm.pdf(draws, ((1 / (m * 4) + r * total / 9) / own)[..., None], own**-0.5).prod(axis=-1)
    given = (drawn * stats.norm.pdf(total, n * theta, sigma * n**0.5)).sum(axis=-1)
    weight = given * stats.norm.pdf(theta[:, 0], 1.0, 2.0)
    weight /= weight.sum()
    assert distribution.mean() == pytest.approx(float(weight @ theta[:, 0]), rel=1e-6)
    assert distribution.var() == pytest.approx(
        float(weight @ (theta[:, 0] - distribution.mean()) ** 2), rel=1e-5
    )


@pytest.mark.parametrize(("r", "m"), SCALINGS)
@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 3.0)])
def test_share_is_what_quadrature_gives(prior: tuple[float, float], r: float, m: float) -> None:
    n, draws = 9, np.array([0.3, 0.45])
    a, b = prior
    s = np.arange(n + 1)
    drawn = np.prod(stats.beta.pdf(draws[:, None], a / m + r * s, b / m + r * (n - s)), axis=0)
    distribution = BetaFamily().given_draws(BetaFamily().prior(prior), n, r, m, draws)
    check(
        distribution,
        lambda t: stats.beta.pdf(t, a, b) * (stats.binom.pmf(s, n, t) @ drawn),
        1e-9,
        1 - 1e-9,
        1e-6,
    )


def test_shares_are_what_enumeration_gives() -> None:
    prior, n, r, m = (0.7, 1.0, 2.5), 6, 0.4, 1.0
    draws = np.array([[0.2, 0.5, 0.3], [0.1, 0.3, 0.6]])
    family = DirichletFamily()
    distribution = family.given_draws(family.prior(prior), n, r, m, draws)
    counts = compositions(n, 3)
    predictive = stats.dirichlet_multinomial(np.array(prior), n).pmf(counts)
    drawn = [np.prod([stats.dirichlet.pdf(y, np.array(prior) / m + r * x) for y in draws]) for x in counts]
    weight = predictive * drawn / (predictive @ drawn)
    assert distribution.mean() == pytest.approx(
        (np.array(prior) + weight @ counts) / (sum(prior) + n), rel=1e-10
    )
    for i in range(3):
        start, mass = distribution.nodes[0].counts.marginals()[i]
        exact = np.bincount(counts[:, i], weight, minlength=n + 1)[start : start + len(mass)]
        np.testing.assert_allclose(mass, exact, atol=1e-12)


@pytest.mark.parametrize(("r", "m"), SCALINGS)
@pytest.mark.parametrize("shape", [0.6, 4.0])
def test_rate_of_counts_is_what_quadrature_gives(shape: float, r: float, m: float) -> None:
    n, rate, draws = 5, 0.8, np.array([2.0])
    s = np.arange(n * 40 + 1)
    drawn = stats.gamma.pdf(draws[0], shape / m + r * s, scale=1 / (rate / m + r * n))
    distribution = Poisson((0, 40)).given_draws(Gamma(shape, rate), n, r, m, draws)
    check(
        distribution,
        lambda t: stats.gamma.pdf(t, shape, scale=1 / rate) * (stats.poisson.pmf(s, n * t) @ drawn),
        1e-9,
        25,
    )


@pytest.mark.parametrize(("r", "m"), SCALINGS)
def test_rate_of_times_is_what_quadrature_gives(r: float, m: float) -> None:
    n, shape, rate, draws = 5, 3.0, 0.8, np.array([2.0, 1.5])
    s = np.exp(np.linspace(-9, 8, 4001))  # a trapezoid rule in log s

    def drawn(total: np.ndarray) -> np.ndarray:
        scale = 1 / (rate / m + r * total)
        return np.prod([stats.gamma.pdf(y, shape / m + r * n, scale=scale) for y in draws], axis=0)

    weight = drawn(s) * s
    distribution = Exponential((0, 1e4)).given_draws(Gamma(shape, rate), n, r, m, draws)
    check(
        distribution,
        lambda t: stats.gamma.pdf(t, shape, scale=1 / rate) * (stats.gamma.pdf(s, n, scale=1 / t) @ weight),
        1e-3, 30, 1e-6,
    )  # fmt: skip


def test_vector_is_a_mean_on_each_axis() -> None:
    draws = np.array([[0.4, -0.2], [0.5, 0.1]])
    prior = (Normal(0.0, 1.0), Normal(0.5, 1.0))
    distribution = GaussianVector(1.0, 3.0).given_draws(prior, 20, 0.5, 1.0, draws)
    for axis in (0, 1):
        alone = GaussianMean(1.0, (-3, 3)).given_draws(prior[axis], 20, 0.5, 1.0, draws[:, axis])
        assert distribution[axis] == alone


@pytest.mark.parametrize("whole", [True, False])
def test_weights_of_wide_ranges(whole: bool) -> None:
    """A narrow peak in a range of 10¹⁰, and one at the end of it where the weight is singular."""
    nodes, weight = weighed_statistics(lambda s: -0.5 * ((s - 3e7) / 800) ** 2, 0.0, 1e10, whole=whole)
    assert float(weight @ nodes) == pytest.approx(3e7, rel=1e-9)
    assert float(weight @ (nodes - 3e7) ** 2) == pytest.approx(800**2, rel=1e-6)
    nodes, weight = weighed_statistics(lambda s: -0.5 * np.log(s + 0.5) - s / 1e6, 0.0, 1e10, whole=whole)
    assert float(weight @ nodes) == pytest.approx(5e5, rel=3e-3)


def mixtures() -> list[Mixture]:
    weight = np.array([0.3, 0.7])
    return [
        BetaMixture(weight, np.array([2.0, 30.0]), 40.0),
        GammaMixture(weight, np.array([0.4, 90.0]), np.array([2.0, 5.0])),
    ]


def test_bounds_as_far_apart_as_floats_go_have_a_deviation() -> None:
    """A document may declare them: it is shown, with an infinite variance."""
    wide = Rescaled(mixtures()[0], 0.0, 1e300)
    assert wide.std() == pytest.approx(1e300 * mixtures()[0].std())
    assert wide.var() == np.inf


@pytest.mark.parametrize(
    "distribution", [*mixtures(), Rescaled(mixtures()[0], -3.0, 5.0)], ids=["beta", "gamma", "rescaled"]
)
def test_mixtures_agree_with_themselves(distribution: Any) -> None:
    p = np.array([0.0, 1e-6, 0.05, 0.31, 0.7, 1 - 1e-6])
    theta = distribution.ppf(p)
    np.testing.assert_allclose(distribution.cdf(theta), p, atol=1e-9)
    low, high = distribution.interval(0.9)
    draws = distribution.sample(40_000, seed=3)
    # Six standard errors each: a false alarm in 10⁹.
    assert abs(draws.mean() - distribution.mean()) < 6 * distribution.std() / 200
    assert abs(np.mean((low < draws) & (draws < high)) - 0.9) < 6 * 0.3 / 200
    assert distribution.std() == pytest.approx(draws.std(), rel=0.05)
    total = quad(
        lambda x: float(distribution.pdf(x)),
        *distribution.ppf([1e-9, 1 - 1e-9]),
        limit=400,
        points=distribution.ppf([0.2, 0.31, 0.6]),
    )
    assert total[0] == pytest.approx(1, abs=1e-5)


def by_enumeration(
    a: float, b: float, n: int, r: float, m: float, draws: list[float], low: int, high: int
) -> GammaMixture:
    """The posterior of a rate of counts from all sums of the records, one by one."""
    s = np.arange(n * low, n * high + 1, dtype=np.float64)
    log = gammaln(a + s) - gammaln(s + 1) - s * np.log1p(b / n)
    shape, rate = a / m + r * s, b / m + r * n
    for y in draws:
        log = log + shape * np.log(rate) + (shape - 1) * np.log(y) - rate * y - gammaln(shape)
    return GammaMixture(np.exp(log - logsumexp(log)), a + s, np.full(len(s), b + n))


def same(distribution: Any, exact: Any, tolerance: float = 1e-6) -> None:
    assert distribution.mean() == pytest.approx(exact.mean(), rel=tolerance)
    assert distribution.std() == pytest.approx(exact.std(), rel=tolerance)
    for p in (0.025, 0.5, 0.975):
        assert float(exact.cdf(distribution.ppf(p))) == pytest.approx(p, abs=tolerance)


@pytest.mark.parametrize(
    ("draws", "low"), [([2.0, 0.7, 1.5], 0), ([1.0], 1)], ids=["several draws", "lower bound"]
)
def test_rate_of_counts_is_what_enumeration_gives(draws: list[float], low: int) -> None:
    distribution = Poisson((low, 30)).given_draws(Gamma(3.0, 0.8), 20, 0.3, 1.0, np.array(draws))
    same(distribution, by_enumeration(3.0, 0.8, 20, 0.3, 1.0, draws, low, 30))


@pytest.mark.parametrize("shape", [0.05, 0.5])
def test_many_records_of_little_weight_and_a_small_prior(shape: float) -> None:
    draws = [1e-4]
    distribution = Poisson((0, 10)).given_draws(Gamma(shape, 1.0), 40_000, 3e-4, 1.0, np.array(draws))
    same(distribution, by_enumeration(shape, 1.0, 40_000, 3e-4, 1.0, draws, 0, 10))


def test_waiting_times_with_a_lower_bound() -> None:
    a, b, n, r, y = 3.0, 1.0, 50, 0.3, 2.0
    distribution = Exponential((0.6, 20)).given_draws(Gamma(a, b), n, r, 1.0, np.array([y]))

    def weight(s: float) -> float:
        rate = b + r * s
        return float(
            np.exp((n - 1) * np.log(s / 30) - (a + n) * np.log((b + s) / 31) - r * s * y)
        ) * rate ** (a + r * n)

    total = quad(weight, 30, 1000, points=[40, 80, 200], limit=200)[0]
    mean = quad(lambda s: weight(s) * (a + n) / (b + s), 30, 1000, points=[40, 80, 200], limit=200)[0] / total
    assert distribution.mean() == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize(
    "distribution",
    [
        GammaMixture(np.array([0.9, 0.1]), np.array([0.02, 40.0]), np.array([1.0, 2.0])),
        BetaMixture(np.array([0.9, 0.1]), np.array([0.02, 6.0]), 10.0),
    ],
    ids=["gamma", "beta"],
)
def test_tiny_quantiles_are_quantiles(distribution: Any) -> None:
    low, high = distribution.interval(0.9)
    assert float(distribution.cdf(low)) == pytest.approx(0.05, rel=1e-6)
    assert float(distribution.cdf(high)) == pytest.approx(0.95, rel=1e-6)


def test_ends_of_a_mixture_are_found_at_once(recwarn: pytest.WarningsRecorder) -> None:
    distribution = GammaMixture(np.array([0.3, 0.7]), np.array([0.4, 90.0]), np.array([2.0, 5.0]))
    assert distribution.ppf(np.array([0.0, 1.0])).tolist() == [0.0, np.inf]
    low, high = distribution.interval(0.9, "highest-density")
    assert float(distribution.cdf(high) - distribution.cdf(low)) == pytest.approx(0.9, abs=1e-9)
    assert not recwarn.list


def test_many_draws_near_an_end() -> None:
    prior, n, r, draws = (0.02, 0.02), 10, 0.01, np.full(20_000, 2.0**-41)
    distribution = BetaFamily().given_draws(BetaFamily().prior(prior), n, r, 1.0, draws)
    x = np.arange(n + 1)
    log = sum(gammaln(a + c) - gammaln(1 + c) for a, c in zip(prior, (x, n - x), strict=True))
    drawn = stats.beta.logpdf(draws[0], prior[0] + r * x, prior[1] + r * (n - x))
    weight = np.exp(log + len(draws) * drawn - logsumexp(log + len(draws) * drawn))
    assert distribution.mean() == pytest.approx(float(weight @ (prior[0] + x)) / (sum(prior) + n), rel=1e-9)


def made(family: Family, prior: list[float], draws: list[float], **more: Any) -> Sample:
    built = discreet.posterior_sampler("direct", family, prior=prior, n=12)
    return Sample(
        "concentrated",
        family.to_dict(),
        prior,
        12,
        0.25,
        0.5,
        Fraction(1, 2**40),
        {},
        draws,
        built.guarantee,
        **more,
    )


@pytest.mark.parametrize(
    ("family", "prior", "draws"),
    [(GaussianMean(2.0, (-9, 9)), [1.0, 2.0], [2.5, 1.0]), (BetaFamily(), [2.0, 5.0], [0.3, 0.45])],
    ids=["mean", "share"],
)
def test_a_sample_hands_everything_to_its_distribution(
    family: Family, prior: list[float], draws: list[float]
) -> None:
    distribution = family.given_draws(family.prior(prior), 12, 0.25, 0.5, np.array(draws))
    expected = distribution
    found = made(family, prior, draws).posterior
    assert (found.mean(), found.std()) == pytest.approx((expected.mean(), expected.std()), rel=1e-12)
    scaled = made(family, prior, draws, bounds=(10.0, 30.0)).posterior if family.name == "beta" else None
    if scaled is not None:
        assert scaled.mean() == pytest.approx(10 + 20 * expected.mean())


def test_a_query_is_nearer_to_its_side() -> None:
    """A share above ½ is not told as one below it: a false alarm below 1e-9 at this n."""
    answer = shorthand.draws([90.0] * 2000, None, bounds=(0, 100), epsilon=5, delta="1e-6", prior=(5, 5))
    assert answer.table()[0]["mean"] > 60


def test_axes_of_a_vector_are_drawn_apart() -> None:
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    sampler = discreet.posterior_sampler(
        "direct", "gaussian-vector", prior=((0, 0), 1), n=50, sigma=1, radius=3, dimension=2
    )
    theta = sampler.release((0, 0)).to_arviz(500, seed=1).posterior["theta"].values[0]
    # Independent axes: |correlation| above 0.3 at 500 draws has a probability below 1e-11.
    assert abs(np.corrcoef(theta.T)[0, 1]) < 0.3


def test_a_coarse_grid_is_not_passed_over() -> None:
    fine, coarse = (
        discreet.posterior_sampler(
            "direct", "gaussian", prior=(1, 2), n=40, sigma=1, bounds=(-9, 11), grid=grid
        ).release(40)
        for grid in (None, 4)
    )
    assert isinstance(fine.posterior, Normal)
    with pytest.raises(TooLargeError, match="coarse"):
        _ = coarse.posterior
    assert "Guarantee" in str(coarse)


CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "gaussian": ((1, 2), {"sigma": 1.0, "bounds": (-40, 40)}, lambda rng, t, n: rng.normal(t, 1, n).sum()),
    "poisson": ((3, 1), {"bounds": (0, 60)}, lambda rng, t, n: rng.poisson(t, n).sum()),
    "exponential": ((4, 3), {"bounds": (0, 200)}, lambda rng, t, n: rng.exponential(1 / t, n).sum()),
    "beta": ((2, 1), {}, lambda rng, t, n: rng.binomial(n, t)),
}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["diffused", "concentrated"])
@pytest.mark.parametrize("name", CASES)
def test_intervals_are_calibrated(name: str, sampler: str) -> None:
    """θ from the prior, records from the model, a draw from the sampler: P(θ ≤ · | draw) is uniform.

    Kolmogorov's test at 1e-9 for each of 8 cases. The distribution that takes the draw's own posterior for
    the truth fails it: the test has the power to see noise that is left out.
    """
    prior, options, records = CASES[name]
    n, trials = 40, 1500
    built = discreet.posterior_sampler(sampler, name, prior=prior, n=n, epsilon=1, order=3, **options)
    rng = np.random.default_rng(20_000 + len(name) + len(sampler))
    start = built.family.prior(prior)
    ranks, naive = np.empty(trials), np.empty(trials)
    for i in range(trials):
        theta = float(start.sample(1, seed=int(rng.integers(2**63)))[0])
        statistic = records(rng, theta, n)
        draw = built.simulate(statistic, seed=int(rng.integers(2**63)))
        distribution = built.family.given_draws(start, n, built.r, built.m, draw)
        ranks[i] = distribution.cdf(theta)
        value = float(draw[0])
        if name == "beta":
            wrong: Any = stats.beta(prior[0] + n * value, prior[1] + n * (1 - value))
        elif name == "gaussian":
            wrong = start.update(n * value, n, 1.0)
        elif name == "poisson":
            wrong = start.update(n * value, n)
        else:
            wrong = start.update(n / value, n, "exponential")
        naive[i] = wrong.cdf(theta)
    assert stats.kstest(ranks, "uniform").pvalue > 1e-9
    assert stats.kstest(naive, "uniform").pvalue < 1e-9


def drawn(family: str = "gaussian") -> Sample:
    if family == "dirichlet":
        data = ["a"] * 30 + ["<b>"] * 20 + ["c"] * 10
        return shorthand.draws(
            data, "dirichlet", prior=(1, 1, 1), levels=("a", "<b>", "c"), epsilon=1, delta="1e-4"
        )
    return shorthand.draws(
        [3.0, 5.0] * 40, "gaussian", prior=(0, 10), sigma=2, bounds=(0, 9), epsilon=2, delta="1e-6"
    )


def test_a_sample_says_what_is_known() -> None:
    sample = drawn()
    (row,) = sample.table(0.9)
    distribution = sample.posterior
    assert (row["parameter"], row["mean"], row["sd"]) == ("mean", distribution.mean(), distribution.std())
    assert (row["low"], row["high"]) == distribution.interval(0.9)
    assert f"{row['low']:.2f} to {row['high']:.2f}" in sample.summary(0.9)
    assert sample.prior_marginals() == [Normal(0, 10)]
    several = drawn("dirichlet")
    assert [row["parameter"] for row in several.table()] == ["a", "<b>", "c"]
    assert sum(row["mean"] for row in several.table()) == pytest.approx(1)
    assert "&lt;b&gt;" in several._repr_html_()
    assert "<b>" not in several._repr_html_()
    assert [distribution.mean() for distribution in several.prior_marginals()] == pytest.approx([1 / 3] * 3)


def test_levels_survive_and_old_documents_are_read() -> None:
    sample = drawn("dirichlet")
    assert Sample.from_json(sample.to_json()).levels == ("a", "<b>", "c")
    content = json.loads(sample.to_json())["release"]
    del content["levels"]
    old = write_document("discreet/sample", 1, content)
    assert Sample.from_json(old).names == ("share 1", "share 2", "share 3")


def test_a_query_is_in_its_units() -> None:
    answer = shorthand.draws([20.0, 60.0] * 100, None, bounds=(10, 110), epsilon=2, delta="1e-6")
    (row,) = answer.table()
    assert row["parameter"] == "mean"
    assert 10 < row["low"] < row["mean"] < row["high"] < 110
    assert answer.prior_marginals()[0].mean() == pytest.approx(60)


def test_beyond_its_size_the_draw_is_still_shown() -> None:
    built = discreet.posterior_sampler("direct", "beta", prior=(50, 50), n=2_000_000)
    sample = built.release(900_000)
    with pytest.raises(TooLargeError, match="10⁶"):
        sample.table()
    assert "Guarantee" in str(sample)
    assert "Guarantee" in sample._repr_html_()


def test_draws_for_arviz() -> None:
    arviz = pytest.importorskip("arviz", reason="ArviZ is not installed")
    assert arviz
    assert drawn().to_arviz(50, seed=1).posterior["theta"].shape == (1, 50, 1)
    assert drawn("dirichlet").to_arviz(50, seed=1).posterior["theta"].shape == (1, 50, 3)


def test_a_plot_shows_distribution_prior_and_draw() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    sample = drawn()
    axes = discreet.plots.posterior(sample, level=0.9)
    distribution, before, ticks = axes.get_lines()
    x, y = distribution.get_data()
    np.testing.assert_allclose(y, sample.posterior.pdf(x))
    np.testing.assert_allclose(before.get_ydata(), Normal(0, 10).pdf(x))
    assert list(ticks.get_xdata()) == sample.values.tolist()
