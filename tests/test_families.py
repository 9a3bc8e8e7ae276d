"""Families that lean on others: worst pairs by directed search, records, draws, what draws say."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import gammaln, polygamma

import shorthand
from discreet import posterior_sampler
from discreet._numerics.enclosures import above
from discreet._randomness.entropy import SeededEntropy
from discreet.distributions.beta_dirichlet import Beta
from discreet.distributions.gamma import Gamma
from discreet.errors import DataError, InvalidInputError
from discreet.posterior_sampling._public import plan_public
from discreet.posterior_sampling.families import defined
from discreet.posterior_sampling.families.categorical import (
    BetaFamily,
    BinomialFamily,
    DirichletFamily,
    GeometricFamily,
    MultinomialFamily,
    NegativeBinomialFamily,
)
from discreet.posterior_sampling.families.means import GaussianMean, NormalFamily
from discreet.posterior_sampling.families.rates import Exponential, GammaTimes, Poisson
from discreet.posterior_sampling.family import Family, renyi
from discreet.posterior_sampling.sample import Sample
from test_drawn import check

SCALINGS = [(1.0, 1.0), (0.3, 1.0), (1.0, 0.2)]


def dirichlet_renyi(first: np.ndarray, second: np.ndarray, order: float) -> float:
    """D_λ of two Dirichlet distributions of equal total, in floats."""
    mixed = order * first + (1 - order) * second
    if mixed.min() <= 0:
        return math.inf
    terms = gammaln(mixed) - order * gammaln(first) + (order - 1) * gammaln(second)
    return float(terms.sum()) / (order - 1)


@pytest.mark.parametrize("order", [1.1, 2.0, 6.0])
@pytest.mark.parametrize("prior", [(0.5, 0.5, 0.5), (0.5, 2.0, 0.7), (3.0, 1.0, 8.0, 0.6)])
def test_no_two_points_of_the_simplex_are_worse_than_corners(prior: tuple[float, ...], order: float) -> None:
    """A directed search from many starts over both records and the sum of the others."""
    k, n, r = len(prior), 4, 0.5 / order
    curve = MultinomialFamily(k, trials=1).curve(tuple(map(Fraction, prior)), n, Fraction(r))
    rng = np.random.default_rng(5)

    def simplex(x: np.ndarray) -> np.ndarray:
        weight = np.exp(x - x.max())
        return weight / weight.sum()

    def loss(x: np.ndarray) -> float:
        p, q, others = simplex(x[:k]), simplex(x[k : 2 * k]), (n - 1) * simplex(x[2 * k :])
        start = np.array(prior) + r * others
        return -dirichlet_renyi(start + r * p, start + r * q, order)

    found = [
        -optimize.minimize(loss, rng.normal(size=3 * k) * 3, method="Powell", bounds=[(-12, 12)] * 3 * k).fun
        for _ in range(6)
    ]
    assert max(found) <= curve.rdp(order) * (1 + 1e-9)
    assert max(found) >= 0.98 * curve.rdp(order)


def test_below_a_half_records_that_spread_are_worse_so_such_priors_are_refused() -> None:
    prior, order, r = np.full(3, 0.02), 1.05, 0.2
    corner, spread, other = np.eye(3)[0], np.array([0.5, 0.5, 0.0]), np.eye(3)[2]
    at_corner = dirichlet_renyi(prior + r * corner, prior + r * other, order)
    assert dirichlet_renyi(prior + r * spread, prior + r * other, order) > 1.02 * at_corner
    assert at_corner == pytest.approx(13.03, abs=0.005)
    with pytest.raises(InvalidInputError, match=r"at least 0\.5"):
        posterior_sampler("direct", "multinomial", prior=(0.4, 1, 1), n=10, dimension=3, trials=1)
    with pytest.raises(InvalidInputError, match=r"at least 0\.5"):
        MultinomialFamily(3, trials=1).curve((Fraction(1, 3),) * 3, 5, Fraction(1)).rdp(2)
    assert posterior_sampler("direct", "multinomial", prior=(0.4, 1), n=10, dimension=2, trials=1).r == 1


@pytest.mark.parametrize("shape", [0.2, 0.9, 1.0, 2.5, 40.0])
def test_failures_tell_less_the_more_of_them_there_are(shape: float) -> None:
    """Beta(A, B) against Beta(A, B + t): the whole trade-off between errors falls in B, for A below 1 too."""
    level = np.linspace(0.001, 0.97, 400)
    for t in (0.3, 3.0):
        curves = [
            stats.beta.cdf(stats.beta.ppf(level, b + t, shape), b, shape) for b in (0.1, 0.5, 1.0, 3.0, 20.0)
        ]
        for one, next_one in itertools.pairwise(curves):
            assert (one >= next_one - 1e-12).all()


@pytest.mark.parametrize("order", [1.2, 2.0, 4.0])
@pytest.mark.parametrize("prior", [(0.0, 1.0, 3.0, 9.0), (0.7, 0.2, 2.0, 5.0), (4.0, 3.0, 1.5, 20.0)])
def test_no_two_normal_datasets_exceed_the_bound(prior: tuple[float, ...], order: float) -> None:
    """A directed search over both records and all others; the bound is near what it finds."""
    family, n, r = NormalFamily((-1.0, 2.0)), 4, 0.3
    curve = family.curve(family.natural(prior), n, Fraction(r))
    start = np.array([float(x) for x in family.natural(prior)])

    def added(values: Any) -> np.ndarray:
        x = np.array(values)
        return start + r * np.array([n, x.sum(), (x**2).sum() / 2, n / 2])

    def rate(eta: np.ndarray) -> float:
        return float(eta[2] - eta[1] ** 2 / (2 * eta[0]))

    def loss(x: np.ndarray) -> float:
        first, second = added([x[0], *x[2:]]), added([x[1], *x[2:]])
        mixed = rate(order * first + (1 - order) * second)
        if mixed <= 0:
            return -1e9
        logs = order * math.log(rate(first)) - math.log(mixed) - (order - 1) * math.log(rate(second))
        return -first[3] * logs / (order - 1)

    rng = np.random.default_rng(3)
    bounds = [(-1.0, 2.0)] * (n + 1)
    found = max(
        -optimize.minimize(loss, rng.uniform(-1, 2, n + 1), method="Powell", bounds=bounds).fun
        for _ in range(8)
    )
    assert found <= curve.rdp(order) * (1 + 1e-9)
    assert curve.rdp(order) <= 1.6 * found or found == 1e9  # infinite


def test_normal_divergence_is_the_integral() -> None:
    """Over mean and precision, by Gauss's rule on both."""
    family = NormalFamily((-1.0, 2.0))
    start = family.natural((0.5, 1.0, 3.0, 9.0))
    etas = []
    for records in ((2.0, 0.0, 1.0), (-1.0, 0.0, 1.0)):
        own = family.contribution((sum(map(Fraction, records)), sum(Fraction(x) ** 2 for x in records)), 3)
        etas.append(tuple(a + b for a, b in zip(start, own, strict=True)))

    def log_density(eta: Any, mean: np.ndarray, precision: np.ndarray) -> np.ndarray:
        strength, height, square, shape = map(float, eta)
        rate = square - height**2 / (2 * strength)
        distribution = stats.gamma.logpdf(precision, shape, scale=1 / rate)
        return distribution + stats.norm.logpdf(mean, height / strength, 1 / np.sqrt(strength * precision))

    node, weight = np.polynomial.legendre.leggauss(400)
    precision = np.exp(-10 + 7 * (node + 1))[None, :]
    mean = (14 * node)[:, None] / np.sqrt(precision)
    area = 14 * weight[:, None] / np.sqrt(precision) * 7 * weight[None, :] * precision
    for order in (1.5, 2.0, 3.0):
        p, q = (log_density(eta, mean, precision) for eta in etas)
        wanted = math.log((np.exp(order * p + (1 - order) * q) * area).sum()) / (order - 1)
        value = renyi(family, (etas[0], etas[1]), Fraction(order))
        assert above(value) == pytest.approx(wanted, abs=1e-9)


def test_normal_draws_have_the_joint_distribution() -> None:
    family = NormalFamily((-4.0, 4.0))
    eta = (Fraction(5), Fraction(3), Fraction(12), Fraction(4))
    source = SeededEntropy(11)
    draws = np.array([[float(x) for x in family.draw(eta, Fraction(1, 2**30), source)] for _ in range(600)])
    rate = 12 - 9 / 10
    mean, deviation = draws.T
    assert stats.kstest(rate / deviation**2, stats.gamma(4).cdf).pvalue > 1e-6
    standard = (mean - 0.6) * math.sqrt(5) / deviation
    assert stats.kstest(standard, stats.norm.cdf).pvalue > 1e-6
    assert abs(stats.spearmanr(standard, deviation).statistic) < 5.5 / math.sqrt(600)
    floats = family.simulate(eta, 20_000, np.random.default_rng(0))
    assert stats.ks_2samp(floats[:, 1], deviation).pvalue > 1e-6


RECORDS: list[tuple[str, dict[str, Any], Any, Any]] = [
    ("binomial", {"prior": (1, 1), "trials": 3}, [0, 3, 5, 1], Fraction(7)),
    ("geometric", {"prior": (1, 1), "bounds": (0, 5)}, [0, 3, 9, 1], Fraction(9)),
    ("negative-binomial", {"prior": (1, 1), "bounds": (1, 5), "successes": 2}, [0, 3, 9, 1], Fraction(10)),
    ("gamma", {"prior": (1, 1), "bounds": (0, 4), "shape": 2}, [0.5, 1, 9, 1], Fraction(13, 2)),
    ("multinomial", {"prior": (1, 1, 1), "dimension": 3, "trials": 2}, [[1, 1, 0], [0, 0, 2]] * 2, (2, 2, 4)),
    ("normal", {"prior": (0, 1, 1, 1), "bounds": (-1, 1)}, [-1, 0.5, 3, 0], (0.5, 2.25)),
]


@pytest.mark.parametrize(("family", "options", "records", "wanted"), RECORDS, ids=lambda x: str(x)[:20])
def test_records_are_read_drawn_from_and_written(
    family: str, options: Any, records: Any, wanted: Any
) -> None:
    sampler = posterior_sampler("diffused", family, n=4, epsilon=1, order=2, **options)
    statistic = sampler.statistic(records)
    np.testing.assert_allclose(np.array(statistic, dtype=float), np.array(wanted, dtype=float), atol=1e-4)
    sample = sampler.release(statistic, 2)
    again = Sample.from_json(sample.to_json())
    assert again == sample
    assert len(sample.names) == np.atleast_2d(sample.values).reshape(2, -1).shape[1]
    assert sample.family["name"] in str(sample.words().headline)
    if family != "normal":
        assert len(sample.table(0.9)) == len(sample.names)


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("binomial", {"prior": (1, 1), "trials": 0}, "at least 1"),
    ("geometric", {"prior": (1, 1), "bounds": (0, 1.5)}, "whole numbers"),
    ("gamma", {"prior": (1, 1), "bounds": (0, 1), "shape": -1}, "shape=-1"),
    ("multinomial", {"prior": (1, 1), "dimension": 3, "trials": 2}, "3 parameters"),
    ("multinomial", {"prior": (1, 1), "dimension": 1, "trials": 2}, "at least 2"),
    ("normal", {"prior": (0, 1, 1), "bounds": (0, 1)}, "strength, shape, rate"),
    ("normal", {"prior": 3, "bounds": (0, 1)}, "strength, shape, rate"),
    ("normal", {"prior": (0, 1, 1, 1)}, "bounds are missing"),
]


@pytest.mark.parametrize(("family", "options", "words"), BAD, ids=str)
def test_wrong_declarations_are_refused(family: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        posterior_sampler("direct", family, n=4, **options)


@pytest.mark.parametrize(
    ("family", "records"),
    [
        (MultinomialFamily(3, trials=2), [[1, 1, 1]]),
        (MultinomialFamily(3, trials=2), [[0.5, 0.5, 1]]),
        (MultinomialFamily(3, trials=2), [[3, -1, 0]]),
        (MultinomialFamily(3, trials=2), [[1e300, 0, 0]]),
    ],
    ids=str,
)
def test_records_that_are_none_are_refused(family: Family, records: Any) -> None:
    with pytest.raises(DataError):
        family.read(records, None, {})


@pytest.mark.parametrize(
    ("family", "statistic"),
    [
        (NormalFamily((-1, 1)), (0, 3)),
        (NormalFamily((-1, 1)), (2, 1)),
        (NormalFamily((-1, 1)), 1),
        (MultinomialFamily(3, trials=2), (1, 1, 1)),
        (BinomialFamily(2), 5),
    ],
    ids=str,
)
def test_statistics_of_no_records_are_refused(family: Family, statistic: Any) -> None:
    with pytest.raises(InvalidInputError, match="the statistic"):
        family.contribution(statistic, 2)


@pytest.mark.parametrize(("r", "m"), SCALINGS)
def test_probability_of_failures_is_what_quadrature_gives(r: float, m: float) -> None:
    a, b, n, successes, draws = 1.5, 2.0, 4, 3, np.array([0.4, 0.55])
    s = np.arange(n * 60 + 1)
    drawn = np.prod(stats.beta.pdf(draws[:, None], a / m + r * n * successes, b / m + r * s), axis=0)
    distribution = NegativeBinomialFamily((0, 60), successes=successes).given_draws(
        Beta(a, b), n, r, m, draws
    )
    check(
        distribution,
        lambda t: stats.beta.pdf(t, a, b) * (stats.nbinom.pmf(s, n * successes, t) @ drawn),
        0.02,
        1 - 1e-9,
        1e-6,
    )


@pytest.mark.parametrize(("r", "m"), SCALINGS)
def test_share_of_successes_is_what_quadrature_gives(r: float, m: float) -> None:
    a, b, n, trials, draws = 0.7, 2.0, 3, 4, np.array([0.3])
    s = np.arange(n * trials + 1)
    drawn = stats.beta.pdf(draws[0], a / m + r * s, b / m + r * (n * trials - s))
    distribution = BinomialFamily(trials).given_draws(Beta(a, b), n, r, m, draws)
    density = lambda t: stats.beta.pdf(t, a, b) * (stats.binom.pmf(s, n * trials, t) @ drawn)  # noqa: E731
    check(distribution, density, 1e-12, 1 - 1e-9, 1e-5)


def test_a_record_of_known_shape_is_so_many_waiting_times() -> None:
    """Three records of shape 2 are six waiting times, in the draws and in what they say."""
    prior, draws, eta = Gamma(3.0, 0.8), np.array([2.0, 1.5]), (Fraction(3), Fraction(4, 5))
    pairs, times = GammaTimes((0, 2e4), shape=2), Exponential((0, 1e4))
    one, other = pairs.given_draws(prior, 3, 0.4, 1.0, draws), times.given_draws(prior, 6, 0.4, 1.0, draws)
    assert one.mean() == pytest.approx(other.mean(), rel=1e-9)
    assert one.interval(0.9) == pytest.approx(other.interval(0.9), rel=1e-6)
    whole = tuple(a + b for a, b in zip(eta, pairs.contribution(7, 3), strict=True))
    assert whole == tuple(a + b for a, b in zip(eta, times.contribution(7, 6), strict=True))


def test_one_trial_is_a_yes_or_no() -> None:
    eta, epsilon = (Fraction(2), Fraction(3)), 0.7
    single, level = (one.curve(eta, 9, Fraction(1, 2)) for one in (BinomialFamily(1), DirichletFamily()))
    assert single.delta_at(epsilon) == level.delta_at(epsilon)
    once, times = GeometricFamily((0, 3)), NegativeBinomialFamily((0, 3), successes=1)
    assert once.curve(eta, 9, Fraction(1)).rdp(2) == times.curve(eta, 9, Fraction(1)).rdp(2)


# Public records, and private ones that become public.


def test_public_records_are_read_as_private_ones_are() -> None:
    assert BetaFamily().with_public_records((1, 2), [0.25, 0.5, 7.0]) == Beta(1 + 1.75, 2 + 1.25)
    mean = GaussianMean(2.0, (0, 10))
    wanted = mean.prior((1, 3)).update(14, 2, 2.0).mean()
    assert mean.with_public_records((1, 3), [4.0, 99.0]).mean() == pytest.approx(wanted, rel=1e-4)
    levels = DirichletFamily().with_public_records((1, 1), ["a", "b", "b"], levels=["a", "b"])
    assert levels.parameters == (2, 3)
    normal = NormalFamily((-1.0, 3.0))
    both = normal.with_public_records(normal.with_public_records((0, 1, 2, 2), [1.0, 2.0]), [0.5])
    np.testing.assert_allclose(both, normal.with_public_records((0, 1, 2, 2), [1.0, 2.0, 0.5]), rtol=1e-12)


@pytest.mark.slow
def test_a_plan_says_how_many_public_records_are_enough() -> None:
    target: dict[str, Any] = {"epsilon": 1, "order": 5}
    found = plan_public("beta", prior=(1, 2), n=60, typical=[0, 0, 1], public=5, **target)
    assert found.enough is not None
    for whole, enough in ((found.enough, True), (found.enough - 1, False)):
        yes = whole // 3
        prior = (1.0 + yes, 2.0 + whole - yes)
        if enough:
            assert posterior_sampler("direct", "beta", prior=prior, n=60, **target).r == 1
        else:
            with pytest.raises(InvalidInputError, match="does not reach"):
                posterior_sampler("direct", "beta", prior=prior, n=60, **target)
    assert found.weight[0] < found.weight[1] < 1
    assert found.error is not None
    assert found.error[1] < found.error[0]
    assert found.worth is not None
    assert found.worth > 5  # they inform, and let private ones count for more
    assert f"{found.enough} " in f"{found} " or f": {found.enough}" in str(found)


def test_a_plan_of_a_mean_is_what_its_formula_says() -> None:
    """A Gaussian draw is direct from τ₀ + p/σ² + n/σ² ≥ (w/σ²μ)² on."""
    found = plan_public(
        "gaussian", prior=(0, 10), n=50, typical=[1.0, 3.0], sigma=2, bounds=(0, 4), epsilon=1, order=2
    )
    squared = Fraction(1)  # D₂ = μ² ≤ 1
    wanted = Fraction(16, 16) / squared - Fraction(1, 100) - Fraction(50, 4)
    assert found.enough == max(0, math.ceil(4 * wanted))
    unknown = plan_public(
        "normal", prior=(0, 1, 5, 90), n=9, typical=[0.0, 1.0], bounds=(0, 1), epsilon=1, order=2
    )
    assert unknown.error is None
    with pytest.raises(InvalidInputError, match="negative"):
        plan_public("beta", prior=(1, 1), n=9, typical=[0, 1], public=-1, epsilon=1, order=2)


def test_a_breach_leaves_the_others_a_better_guarantee() -> None:
    """The example of the paper's A.2: Beta(6, 12), n = 100, 40 leaked, 13 of them yes."""
    sampler = posterior_sampler("direct", "beta", prior=(6, 12), n=100)
    left = sampler.after_breach(13, 40)
    assert sampler.guarantee.rdp(2) == pytest.approx(0.191, abs=5e-4)
    assert left.rdp(2) == pytest.approx(0.064, abs=5e-4)
    assert left.rdp(2) == posterior_sampler("direct", "beta", prior=(19, 39), n=60).guarantee.rdp(2)
    assert "60" not in left.basis
    for yes in range(0, 41, 8):
        assert sampler.after_breach(yes, 40).rdp(2) <= sampler.guarantee.rdp(2) * (1 + 1e-12)
    scaled = posterior_sampler("diffused", "beta", prior=(1, 1), n=30, epsilon=1, order=3)
    assert scaled.after_breach(3, 9).rdp(3) < 1
    with pytest.raises(InvalidInputError, match="leaked=100"):
        sampler.after_breach(50, 100)
    people = posterior_sampler("direct", "beta", prior=(6, 12), n=100, per_person=2)
    with pytest.raises(InvalidInputError, match="single records"):
        people.after_breach(13, 40)


# Families that are defined by their formulas.


DEFINED: list[tuple[Any, Any, Any]] = [
    ({"log_partition": "log(1 + exp(t))", "bounds": (0, 1)}, BetaFamily(), (0.3, 12)),
    ({"log_partition": "exp(t)", "bounds": (0, 3), "means": (0, math.inf)}, Poisson((0, 3)), (2, 6)),
    (
        {"log_partition": "-log(-t)", "bounds": (0, 4), "means": (0, math.inf), "support": (-math.inf, 0)},
        Exponential((0, 4)),
        (2, 6),
    ),
    (
        {"log_partition": "t**2 / 2", "bounds": (-3, 3), "means": (-math.inf, math.inf)},
        GaussianMean(1.0, (-3, 3)),
        (0.5, 3),
    ),
]


def known(family: Any, eta: tuple[Fraction, Fraction]) -> tuple[Fraction, Fraction]:
    """The coordinates of the family that knows more, for (χ, ν)."""
    if family.name == "beta":
        return eta[0], eta[1] - eta[0]
    return (eta[1] + 1, eta[0]) if family.name == "exponential" else eta  # θ^ν dθ is a Gamma of ν + 1


@pytest.mark.parametrize(("formulas", "same", "prior"), DEFINED, ids=lambda x: str(x)[:24])
def test_a_defined_family_bounds_what_is_known_in_closed_form(formulas: Any, same: Any, prior: Any) -> None:
    family = Family.define(**formulas)
    eta = family.natural(family.prior(prior))
    for n, r in ((3, Fraction(1, 2)), (60, Fraction(1, 10))):
        mine, exact = family.curve(eta, n, r), same.curve(known(same, eta), n, r)
        assert mine.max_order == pytest.approx(exact.max_order, rel=1e-6)
        for order in (1.2, 2.0, 3.0):
            if order < 0.9 * exact.max_order:
                assert exact.rdp(order) <= mine.rdp(order) <= 1.25 * exact.rdp(order)
    again = Family.from_dict(family.to_dict())
    assert again == family


@pytest.mark.parametrize(("formulas", "same", "prior"), DEFINED, ids=lambda x: str(x)[:24])
def test_the_divergence_of_a_defined_family_is_enclosed(formulas: Any, same: Any, prior: Any) -> None:
    family = Family.define(**formulas)
    first = family.natural(family.prior(prior))
    pair = (first, (first[0] + Fraction(1, 3), first[1]))
    value = above(renyi(family, pair, Fraction(2)))
    other = above(renyi(same, tuple(known(same, eta) for eta in pair), Fraction(2)))
    assert value == pytest.approx(other, rel=1e-9)


@pytest.mark.slow
def test_a_defined_family_is_drawn_from_and_written() -> None:
    """Counts of the logarithmic distribution, which no conjugate family has in closed form."""
    family = Family.define(
        log_partition="log(-log(1 - exp(t)))", bounds=(1, 6), means=(1, math.inf), support=(-math.inf, 0)
    )
    sampler = posterior_sampler("diffused", family, prior=(2, 8), n=12, epsilon=1, order=2, grid="0.001")
    assert 0 < sampler.r <= 1
    assert sampler.guarantee.rdp(2) <= 1
    assert "numerically" in sampler.price(2).assumptions[0]
    sample = sampler.release(sampler.statistic([1, 1, 2, 9] * 3))
    assert sample.values[0] < 0
    assert Sample.from_json(sample.to_json()) == sample
    roots = Family.define(log_partition="exp(t)", statistic="sqrt(x)", bounds=(0, 3), means=(0, math.inf))
    assert float(roots.read([4.0, 100.0], None, {})[0]) == pytest.approx(5, abs=1e-4)


@pytest.mark.parametrize("sigma", [0.1, 0.003])
def test_a_distribution_far_from_zero_and_narrow_is_seen(sigma: float) -> None:
    """θ = mean/σ² is up to 10⁵ with a standard deviation of 1/σ√n, far below the steps of the first look."""
    family = Family.define(log_partition=f"{sigma**2!r} * t**2 / 2", bounds=(0, 1), means=(-1e9, 1e9))
    eta, same = family.natural(family.prior((0.5, 1))), GaussianMean(sigma, (0, 1))
    n = 100
    exact = same.curve((eta[0] / Fraction(sigma) ** 2, eta[1] / Fraction(sigma) ** 2), n, Fraction(1))
    assert exact.rdp(2) <= family.curve(eta, n, Fraction(1)).rdp(2)
    for mean, nu in itertools.product((0.1, 0.9), (101.0, 1e6)):
        chi = nu * mean
        (theta,), (log_weight,), _ = family.distributions(np.array([chi]), nu, 401)
        weight = np.exp(log_weight)
        centre = float((weight * theta).sum())
        assert centre == pytest.approx(chi / nu / sigma**2, rel=1e-6)
        spread = math.sqrt(float((weight * (theta - centre) ** 2).sum()))
        assert spread == pytest.approx(1 / sigma / math.sqrt(nu), rel=1e-6)
        drawn = family.draw((Fraction(chi), Fraction(nu)), Fraction(1, 2**20), SeededEntropy(1))
        assert abs(float(drawn[0]) - centre) < 10 * spread


def test_draws_far_from_zero_are_exact() -> None:
    family = Family.define(log_partition="0.01 * t**2 / 2", bounds=(0, 1), means=(-1e9, 1e9))
    sampler = posterior_sampler("direct", family, prior=(0.5, 1), n=100, grid="0.01")
    assert abs(sampler.draw(90)[0] - 90.5 / 1.01) < 12  # twelve standard deviations


@pytest.mark.parametrize("formula", ["t**2 + 0 * 9**9**9**9", "t**2 + 1 / 0"])
def test_a_formula_in_a_document_ends_in_an_error_and_not_in_endless_work(formula: str) -> None:
    family = Family.define(log_partition=formula, bounds=(0, 1), means=(-9, 9))
    with pytest.raises(InvalidInputError, match="cannot be computed"):
        family.curve(family.natural(family.prior((0.5, 1))), 5, Fraction(1)).rdp(2)


def test_functions_of_numbers_are_drawn_with_too() -> None:
    family = Family.define(log_partition="log(2) * t + t**2 / 2", bounds=(0, 1), means=(-9, 9))
    assert abs(posterior_sampler("direct", family, prior=(0.5, 1), n=5, grid="0.01").draw(2)[0]) < 9


def test_a_draw_of_which_nothing_is_known_is_refused_before_data_is_seen() -> None:
    family = Family.define(log_partition="1e-4 * t**2 / 2", bounds=(0, 1), means=(-1e9, 1e9))
    with pytest.raises(InvalidInputError, match="no bound is known on what a draw"):
        posterior_sampler("direct", family, prior=(0.5, 1), n=10_000)


@pytest.mark.parametrize(
    ("formulas", "words"),
    [
        ({"log_partition": "__import__('os')", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "t.real", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "log(", "bounds": (0, 1)}, "not a formula"),
        ({"log_partition": "t^2", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "exp(t, t)", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "exp + t", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "t(3)", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "'a' * 9999999999", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "t**9999999", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "-" * 900 + "t", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "t" + "+ t" * 900, "bounds": (0, 1)}, "1000 characters"),
        ({"log_partition": "x", "bounds": (0, 1)}, "use numbers"),
        ({"log_partition": "exp(t)", "bounds": (1, 0)}, "low < high"),
        ({"log_partition": "exp(t)", "bounds": (0, 1), "means": (2, 1)}, "means="),
    ],
    ids=str,
)
def test_formulas_that_are_none_are_refused(formulas: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        Family.define(**formulas)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_variance_is_bounded_at_both_ends_of_a_cell(sign: int) -> None:
    """θ of a Poisson distribution has variance ψ'(χ), which falls; that of its mirror image rises."""
    ends = sorted(sign * end for end in (0.0, 5.0))
    reach = (0.0, math.inf) if sign > 0 else (-math.inf, 0.0)
    family: Any = Family.define(log_partition=f"exp({sign}*t)", bounds=ends, means=reach)
    cells = np.sort(sign * np.array([0.5, 1.0, 2.0, 4.0, 8.0]))
    _, bound = defined._in_cells(family, cells, 3.0, 400)
    for at in (cells[:-1], cells[1:]):
        assert (bound >= polygamma(1, sign * at) * (1 - 1e-9)).all()


@pytest.mark.parametrize("order", [1.5, 2.0, 10.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_the_bound_is_no_less_than_the_integral(
    sign: int, order: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the variance is 1 beyond the records by s, and 0 elsewhere: ∫ G = (λt − s)²/(2(λ−1))."""
    family = Family.define(log_partition="t**2/2", bounds=(0, 1), means=(-math.inf, math.inf))
    eta, n, move = (Fraction(1), Fraction(2)), 4, 1.0
    beyond = 1 + (order - 1) * 0.75  # a point of the grid, so that nothing is lost to it
    edge = 1 + n - move + beyond if sign > 0 else 1 + move - beyond

    def largest(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        return np.where(right > edge + 1e-9 if sign > 0 else left < edge - 1e-9, 1.0, 0.0)

    monkeypatch.setattr(defined, "_variances", lambda *_: largest)
    wanted = (order * move - beyond) ** 2 / (2 * (order - 1))
    found = family.renyi_bound(eta, n, Fraction(1), order)
    assert found is not None
    assert wanted <= found <= wanted * (1 + 1e-5)


def test_a_variance_that_was_not_seen_has_no_bound() -> None:
    family: Any = Family.define(log_partition="t**2/2", bounds=(0, 1), means=(-math.inf, math.inf))
    largest = defined._variances(family, (Fraction(1), Fraction(2)), 4, Fraction(1))
    assert largest(np.array([1.0]), np.array([2.0]))[0] == pytest.approx(1 / 6, rel=0.2)
    for left, right in ((1.0, 1e3), (1e3, 1e3 + 1), (-1e3, 1.0), (-1e3 - 1, -1e3)):
        assert largest(np.array([left]), np.array([right]))[0] == math.inf
    rounded = defined._in_cells(family, np.array([1e11, 1e11 + 1e5]), 1e11, 400)[1]
    assert np.isinf(rounded).all()


def test_one_parameter_does_not_end_where_floats_overflow_either() -> None:
    """Years, not centred: long doubles overflow where 7 in a million of the variance is left."""
    bounds = []
    for year in (0, 2400):
        family: Any = Family.define(
            log_partition=f"log(exp({year}*t) + exp({year + 1}*t) + exp({year + 2}*t))",
            bounds=(year, year + 2),
        )
        cells = 4.0 * year + np.array([3.99, 4.01])
        bounds.append(float(defined._in_cells(family, cells, 4.0, 800)[1][0]))
    assert bounds[0] < 1.000001 * bounds[1]


def test_data_in_the_place_of_a_family_are_not_quoted() -> None:
    for secret in (np.array([[0.123456, 2.0]]), [0.123456]):
        with pytest.raises(InvalidInputError, match="family must be a name, not a") as refused:
            shorthand.draws([0.5], secret, prior=(1, 1), epsilon=1, delta="1e-6")
        assert "0.123456" not in str(refused.value)
