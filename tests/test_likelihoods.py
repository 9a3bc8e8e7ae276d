"""Likelihoods of noisy counts against plain sums over all true counts, and 200 bits at the extremes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp

from discreet._inference._likelihoods.kinds import Listed, RandomisedResponse, likelihood, likelihood_of
from discreet._inference._likelihoods.models import (
    Binomial,
    DirichletMultinomial,
    Multinomial,
    NegativeBinomial,
    PoissonCells,
)
from discreet._numerics import noises
from discreet._numerics.cells import GivenTotal
from discreet._numerics.count_vectors import Separable
from discreet._numerics.log_gamma import log_rising
from discreet._numerics.summation import gauss_rule
from discreet.errors import InvalidInputError, NotPrivateError, TooLargeError
from discreet.mechanisms import mechanism

TOTAL = 12
ALL = np.array([c for c in itertools.product(range(TOTAL + 1), repeat=3) if sum(c) == TOTAL])
REACH = 400  # counts of models without a total are summed up to here


def dlaplace(b):
    return lambda z, x: math.log(math.tanh(0.5 / b)) - np.abs(z - x) / b


def dgauss(s):
    v = np.arange(-2000, 2001)
    normaliser = logsumexp(-0.5 * (v / s) ** 2)
    return lambda z, x: -0.5 * ((z - x) / s) ** 2 - normaliser


def rounded(distribution):
    def log_prob(z, x):
        with np.errstate(divide="ignore"):
            return np.log(distribution.sf(np.abs(z - x) - 0.5) - distribution.sf(np.abs(z - x) + 0.5))

    return log_prob


def floor_laplace(b):
    def log_prob(z, x):
        v = z - x
        return np.log(0.5 * (1 - math.exp(-1 / b))) - np.where(v >= 0, v, -1 - v) / b

    return log_prob


def clamped(plain, low, high, integer=True):
    """Sums of the plain distribution over everything that is clamped to an end."""

    def log_prob(z, x):
        u = np.arange(-3000, low + 1) if z <= low else np.arange(high, 3000)
        if low < z < high:
            return plain(z, x)
        return logsumexp(plain(u[:, None], np.asarray(x)[None, :]), axis=0)

    return log_prob


NOISES = {
    "discrete-laplace": (noises.DiscreteLaplace(1.7), dlaplace(1.7), [3, -4, 14]),
    "discrete-laplace-sharp": (noises.DiscreteLaplace(0.1), dlaplace(0.1), [3, 0, 9]),
    "discrete-gaussian": (noises.DiscreteGaussian(2.3), dgauss(2.3), [3, -4, 14]),
    "discrete-gaussian-sharp": (noises.DiscreteGaussian(0.3), dgauss(0.3), [3, 0, 9]),
    "rounded-gaussian": (noises.RoundedGaussian(2.3), rounded(stats.norm(0, 2.3)), [3, -4, 14]),
    "rounded-gaussian-sharp": (noises.RoundedGaussian(0.4), rounded(stats.norm(0, 0.4)), [3, 0, 9]),
    "rounded-laplace": (noises.RoundedLaplace(2.3), rounded(stats.laplace(0, 2.3)), [3, -4, 14]),
    "floor-laplace": (noises.FloorLaplace(1.3), floor_laplace(1.3), [3, -4, 14]),
    "clamped-floor-laplace": (
        noises.Clamped(noises.FloorLaplace(1.3), 0, TOTAL),
        clamped(floor_laplace(1.3), 0, TOTAL),
        [3, 0, 12],
    ),
    "clamped-discrete-laplace": (
        noises.Clamped(noises.DiscreteLaplace(1.3), 0, TOTAL),
        clamped(dlaplace(1.3), 0, TOTAL),
        [3, 0, 12],
    ),
    "clamped-discrete-gaussian": (
        noises.Clamped(noises.DiscreteGaussian(2.3), 0, TOTAL),
        clamped(dgauss(2.3), 0, TOTAL),
        [3, 0, 12],
    ),
    "clamped-rounded-gaussian": (
        noises.Clamped(noises.RoundedGaussian(2.3), 0),
        lambda z, x: stats.norm(0, 2.3).logcdf(0.5 - x) if z == 0 else rounded(stats.norm(0, 2.3))(z, x),
        [3, 0, 14],
    ),
    "laplace": (noises.Laplace(2.3), lambda z, x: stats.laplace(0, 2.3).logpdf(z - x), [3.3, -4.2, 13.0]),
    "gaussian": (noises.GaussianNoise(2.3), lambda z, x: stats.norm(0, 2.3).logpdf(z - x), [3.3, -4.2, 13.0]),
    "clamped-laplace": (
        noises.Clamped(noises.Laplace(2.3), 0),
        lambda z, x: stats.laplace(0, 2.3).logcdf(-x) if z == 0 else stats.laplace(0, 2.3).logpdf(z - x),
        [3.3, 0.0, 13.0],
    ),
    "per-cell": (noises.DiscreteLaplace([0.5, 2.0, 7.0]), None, [3, -4, 14]),
    "lattice": (noises.LatticeNoise(3.1), lambda z, x: -np.abs(z - x) / 3.1, [3, -4, 13]),
}
MODELS = {
    "Poisson": (PoissonCells(), ([4.0, 0.3, 9.0],)),
    "Binomial": (Binomial([6, 12, 9]), ([0.4, 0.03, 0.9],)),
    "negative-binomial": (NegativeBinomial(), ([4.0, 0.3, 9.0], [0.4, 2.0, 11.0])),
    "Multinomial": (Multinomial(TOTAL), ([0.3, 0.05, 0.65],)),
    "Dirichlet-multinomial": (DirichletMultinomial(TOTAL), ([0.3, 1.0, 2.5],)),
    "Dirichlet-multinomial-sparse": (DirichletMultinomial(TOTAL), ([0.1, 0.2, 0.05],)),
}


def log_prior(model, parameters, i, x):
    """log P(x) of cell i, for the models with separate cells."""
    first = parameters[0][i]
    if isinstance(model, PoissonCells):
        return stats.poisson.logpmf(x, first)
    if isinstance(model, Binomial):
        return stats.binom.logpmf(x, model.sizes[i], first)
    r = parameters[1][i]
    return stats.nbinom.logpmf(x, r, r / (r + first))


def log_lattice_normaliser(b, k):
    v = np.arange(-400, 401)
    mass = np.exp(-np.abs(v) / b)
    total = mass
    for _ in range(k - 1):
        total = np.convolve(total, mass)
    return math.log(total[len(total) // 2])


def oracle(name, model, parameters):
    """(log P(z), E[x | z], gradient by finite differences of nothing: E of the score) by plain sums."""
    noise, distribution, z = NOISES[name]
    distributions = [distribution] * 3 if distribution else [dlaplace(b) for b in noise.scale]
    together = name == "lattice"
    if model.total is None and not together:
        value, means, draws = 0.0, [], []
        for i in range(3):
            x = np.arange(REACH)
            terms = log_prior(model, parameters, i, x) + distributions[i](z[i], x)
            value += logsumexp(terms)
            weight = np.exp(terms - logsumexp(terms))
            means.append(weight @ x)
            draws.append((x, weight))
        return value, np.array(means), draws
    x = ALL
    terms = sum(distributions[i](z[i], x[:, i]) for i in range(3))
    if isinstance(model, Multinomial):
        terms = terms + stats.multinomial.logpmf(x, TOTAL, parameters[0])
    elif isinstance(model, DirichletMultinomial):
        terms = terms + stats.dirichlet_multinomial.logpmf(x, parameters[0], TOTAL)
    else:
        terms = terms + sum(log_prior(model, parameters, i, x[:, i]) for i in range(3))
    if together:
        terms = terms - log_lattice_normaliser(3.1, 3)
    value = logsumexp(terms)
    weight = np.exp(terms - value)
    return value, weight @ x, [(x[:, i], weight) for i in range(3)]


def score_oracle(model, parameters, draws):
    """E[∂ log P(x)] with the derivatives of each model written out."""
    p = [np.array(v) for v in parameters]
    mean = lambda f: np.array([w @ f(x, i) for i, (x, w) in enumerate(draws)])  # noqa: E731
    if isinstance(model, PoissonCells):
        return [mean(lambda x, i: x - p[0][i])]
    if isinstance(model, Binomial):
        return [mean(lambda x, i: x - model.sizes[i] * p[0][i])]
    if isinstance(model, Multinomial):
        return [mean(lambda x, i: x - TOTAL * p[0][i])]
    if isinstance(model, DirichletMultinomial):
        s = p[0].sum()
        return [
            mean(
                lambda x, i: (
                    p[0][i] * (digamma(x + p[0][i]) - digamma(p[0][i]) - digamma(TOTAL + s) + digamma(s))
                )
            )
        ]
    m, r = p
    return [
        mean(lambda x, i: (x - m[i]) * r[i] / (r[i] + m[i])),
        mean(
            lambda x, i: (
                r[i]
                * (
                    digamma(x + r[i])
                    - digamma(r[i])
                    + np.log(r[i] / (r[i] + m[i]))
                    + (m[i] - x) / (r[i] + m[i])
                )
            )
        ),
    ]


@pytest.mark.parametrize("model_name", MODELS)
@pytest.mark.parametrize("noise_name", NOISES)
def test_every_noise_and_model_against_all_true_counts(noise_name, model_name):
    model, parameters = MODELS[model_name]
    noise, _, z = NOISES[noise_name]
    made = likelihood(z, noise, model)
    value, mean, draws = oracle(noise_name, model, parameters)
    assert made.log_prob(*parameters) == pytest.approx(value, rel=1e-10, abs=1e-10)
    np.testing.assert_allclose(made.expected_counts(*parameters), mean, rtol=1e-10, atol=1e-10)
    scores = made.score(*parameters)
    scores = scores if isinstance(scores, tuple) else (scores,)
    for score, expected in zip(scores, score_oracle(model, parameters, draws), strict=True):
        np.testing.assert_allclose(score, expected, rtol=1e-8, atol=1e-10)


def test_per_cell_draws_keep_their_axes():
    made = likelihood([3, -4, 14], noises.DiscreteLaplace(2.0), total=TOTAL)
    shares = np.random.default_rng(1).dirichlet([1, 1, 1], size=(2, 5))
    assert made.log_prob(shares).shape == (2, 5)
    assert made.score(shares).shape == made.expected_counts(shares).shape == (2, 5, 3)
    assert made.log_prob(shares)[1, 3] == pytest.approx(made.log_prob(shares[1, 3]), rel=1e-13)
    np.testing.assert_allclose(made.expected_counts(shares).sum(axis=-1), TOTAL, rtol=1e-13)
    assert made.sample_counts(shares, size=4, seed=1).shape == (2, 5, 4, 3)
    assert made.sample_counts(shares[0, 0], seed=1).shape == (3,)


@pytest.mark.parametrize("name", [n for n in NOISES if "clamped" not in n and "per-cell" not in n])
def test_probabilities_sum_to_one(name):
    noise = NOISES[name][0]
    if name == "lattice":
        z = np.array([(a, b, 3 - a - b) for a in range(-45, 49) for b in range(-45, 49)])
        values = [likelihood(row, noise, total=3).log_prob([0.2, 0.3, 0.5]) for row in z[::997]]
        assert max(values) < 0  # the whole sum is that of the oracle, whose normaliser is enumerated
        return
    z = np.arange(-150, 200) if noise.integer else np.arange(-60, 90, 0.01)
    cells = noise_cells(noise, z, 4.0)
    step = 1.0 if noise.integer else 0.01
    assert np.exp(cells).sum() * step == pytest.approx(1.0, abs=1e-11 if noise.integer else 1e-5)


def noise_cells(noise, z, rate):
    """log P(z | rate) of each value as a cell of its own."""
    made = likelihood(z, noise)
    return made._cells((np.full((1, len(z)), rate),)).log_prob()


def test_a_gauss_rule_sums_polynomials_exactly():
    for points in (16, 32, 64, 4096):
        x, w = gauss_rule(points)
        exact = sum(((v - points / 2) / points) ** 14 * (v / points) ** 2 for v in range(points))
        assert w @ (((x - points / 2) / points) ** 14 * (x / points) ** 2) == pytest.approx(exact, rel=1e-12)


# Extremes: z from −10⁶ to 10⁹, rates from 10⁻⁶ to 10⁹, every ε, against 240 bits.


def poisson_laplace(z, rate, b):
    """MATH §10's closed form in enclosures, and a plain sum where the incomplete gammas give up."""
    from flint import arb

    rate, e = arb(rate), 1 / arb(b)
    q, scale = (-e).exp(), (e / 2).tanh().log()
    if z < 0:
        return scale + e * z + rate * (q - 1)
    upper = (rate / q).gamma_upper(arb(z + 1), regularized=1)
    lower = (rate * q).gamma_lower(arb(z + 1), regularized=1)
    value = (rate * (1 / q - 1) - e * z).exp() * upper + (e * z + rate * (q - 1)).exp() * lower
    value = scale + value.log()
    if value.is_finite() and float(value.rad()) < 1e-13 * max(1e-5, abs(float(value.mid()))):
        return value
    up, down = rate / q, rate * q
    mode = max(0, min(max(z, int(float(down.mid()))), int(min(float(up.mid()), 1e18))))
    total = term = arb(1)
    x = mode
    while not ((r := (up if x < z else down) / (x + 1)) < 1 and term / (1 - r) < arb(2) ** -80 * total):
        term, x = term * r, x + 1
        total += term
    term, x = arb(1), mode
    while x > 0 and not (
        (r := arb(x) / (up if x - 1 < z else down)) < 1 and term / (1 - r) < arb(2) ** -80 * total
    ):
        term, x = term * r, x - 1
        total += term
    return scale + mode * rate.log() - rate - arb(mode + 1).lgamma() - e * abs(z - mode) + total.log()


RATES = [1e-6, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e9]


SCALES = [1e6, 1e3, 10.0, 1.0, 0.1, 0.02]


@pytest.mark.parametrize(
    ("z", "scale"),
    [
        *itertools.product([-(10**6), -1000, -1, 0, 7, 300], SCALES),
        (10**9, 1.0),
        *(
            pytest.param(z, scale, marks=pytest.mark.slow)
            for z, scale in itertools.product([10**6, 10**9], SCALES)
            if (z, scale) != (10**9, 1.0)
        ),
    ],
)
def test_extremes_against_240_bits(z, scale):
    from flint import ctx

    cells = likelihood([z] * len(RATES), noises.DiscreteLaplace(scale))
    made = cells._cells((np.array([RATES]),)).log_prob()
    expected = cells.expected_counts(RATES)
    before = ctx.prec
    ctx.prec = 240
    try:
        for rate, value, mean in zip(RATES, made, expected, strict=True):
            if abs(z - rate) < 1e-3 * rate and rate > 1e6 and scale > 1:
                continue  # sums of 10⁵ terms; the next test has some of them
            exact = poisson_laplace(z, rate, scale)
            assert value == pytest.approx(float(exact.mid()), rel=1e-9), rate
            # x·P(x) = λ·P(x − 1), so E[x | z] = λ·P(z − 1)/P(z) under noise that does not know x.
            ratio = (poisson_laplace(z - 1, rate, scale) - exact).exp() * rate
            assert mean == pytest.approx(float(ratio.mid()), rel=1e-8), rate
    finally:
        ctx.prec = before
    score = cells.score(RATES)
    assert np.isfinite(score).all()
    assert np.all(score >= -np.array(RATES))


@pytest.mark.slow
def test_extremes_where_the_sum_is_long():
    from flint import ctx

    before = ctx.prec
    ctx.prec = 240
    try:
        for z, rate, scale in [(10**9, 1e9, 10.0), (10**9, 1e9, 1e6), (10**6, 1e6, 1e3), (10**6, 1e9, 1e6)]:
            made, exact = likelihood([z], noises.DiscreteLaplace(scale)), poisson_laplace(z, rate, scale)
            assert made.log_prob([rate]) == pytest.approx(float(exact.mid()), rel=1e-10)
            ratio = (poisson_laplace(z - 1, rate, scale) - exact).exp() * rate
            assert made.expected_counts([rate])[0] == pytest.approx(float(ratio.mid()), rel=1e-8)
    finally:
        ctx.prec = before


def test_the_score_is_the_derivative_at_the_extremes():
    from flint import arb, ctx

    before = ctx.prec
    ctx.prec = 240
    try:
        for z, rate, scale in itertools.product([-50, 3, 1000], [1e-6, 5.0, 1e5], [0.1, 2.0, 100.0]):
            h = arb(2) ** -70
            up, down = (poisson_laplace(z, arb(rate) * (1 + s * h), scale) for s in (1, -1))
            exact = float(((up - down) / (2 * h)).mid())
            score = likelihood([z], noises.DiscreteLaplace(scale)).score([rate])[0]
            assert score == pytest.approx(exact, rel=1e-8, abs=1e-12 * max(rate, 1))
    finally:
        ctx.prec = before


@pytest.mark.parametrize("noise", [noises.DiscreteGaussian, noises.RoundedGaussian, noises.GaussianNoise])
@pytest.mark.parametrize("scale", [0.5, 40.0, 3e4])
def test_gaussian_noise_far_and_wide(noise, scale):
    """Against plain sums over a long window, at distances where the distribution is only its tail."""
    for z, rate in [(-3000, 20.0), (0, 1e4), (50_000, 40_000.0), (200, 1e-3)]:
        x = np.arange(0.0, 100_000)
        v = z - x
        if noise is noises.RoundedGaussian:
            near, far = (stats.norm.logsf((np.abs(v) + t) / scale) for t in (-0.5, 0.5))
            distribution = near + np.log1p(-np.exp(np.minimum(far - near, -1e-300)))
            if scale > 1000:  # the two tails differ by less than their digits
                distribution = stats.norm.logpdf(v, 0, scale) + ((v / scale) ** 2 - 1) / (24 * scale**2)
        elif noise is noises.DiscreteGaussian:
            steps = np.arange(-300_000, 300_001)
            distribution = -0.5 * (v / scale) ** 2 - logsumexp(-0.5 * (steps / scale) ** 2)
        else:
            distribution = stats.norm.logpdf(v, 0, scale)
        exact = logsumexp(distribution + x * math.log(rate) - rate - gammaln(x + 1))
        # The plain sum itself loses digits: log x! near 10⁶.
        assert likelihood([z], noise(scale)).log_prob([rate]) == pytest.approx(exact, rel=2e-9)


# Given the total: against convolutions, and draws against their distribution.


@pytest.mark.parametrize(
    ("k", "n", "b"),
    [(2, 100, 4.0), (3, 5000, 20.0), (8, 9000, 90.0), (20, 9000, 60.0), (40, 300, 4.0), (300, 3000, 40.0)],
)
def test_lattice_noise_against_convolutions(k, n, b):
    rng = np.random.default_rng(k)
    shares = rng.dirichlet(np.ones(k), size=2)
    v = np.rint(rng.laplace(0, b, k))
    v[0] -= v.sum()
    z = rng.multinomial(n, shares[0]) + v
    made = likelihood(z, noises.LatticeNoise(b), total=n)
    x = np.arange(n + 1)
    for theta in shares:
        distribution = Separable.of(
            [x * math.log(n * t) - gammaln(x + 1) - np.abs(x - c) / b for t, c in zip(theta, z, strict=True)],
            n,
        )
        exact = distribution.log_normaliser - n * math.log(n) + gammaln(n + 1) - made.noise.log_normaliser(k)
        assert made.log_prob(theta) == pytest.approx(exact, rel=1e-11)
        np.testing.assert_allclose(made.expected_counts(theta), distribution.mean(), rtol=1e-9, atol=1e-10)
    posterior = GivenTotal(z, noises.LatticeNoise(b), np.full(k, 0.7), n)
    exact = Separable.of([log_rising(0.7, x) - np.abs(x - c) / b for c in z], n).marginals()
    for (low, mass), (start, expected) in zip(posterior.marginals(), exact, strict=True):
        both = np.zeros((2, n + 1))
        both[0, low : low + len(mass)], both[1, start : start + len(expected)] = mass, expected
        np.testing.assert_allclose(both[0], both[1], atol=1e-13)


def test_the_lattice_normaliser_of_many_cells():
    """k = 5: enumerated. k large and the noise wide: P(Σv = 0) is that of a normal sum, to 1/k."""
    assert noises.LatticeNoise(3.1).log_normaliser(5) == pytest.approx(
        log_lattice_normaliser(3.1, 5), rel=1e-13
    )
    k, b = 100_000, 500.0
    variance = 1 / (math.cosh(1 / b) - 1)
    near = -k * math.log(math.tanh(0.5 / b)) - 0.5 * math.log(2 * math.pi * k * variance)
    assert noises.LatticeNoise(b).log_normaliser(k) == pytest.approx(near, abs=1e-5)


def chi_square(draws, distribution):
    """The p-value of counts of whole numbers under {value: probability}, rare values together."""
    values = [v for v, p in distribution.items() if p * len(draws) >= 8]
    seen = np.array([np.sum(draws == v) for v in values])
    expected = np.array([distribution[v] for v in values]) * len(draws)
    seen, expected = (
        np.append(seen, len(draws) - seen.sum()),
        np.append(expected, len(draws) - expected.sum()),
    )
    return stats.chi2.sf(((seen - expected) ** 2 / np.maximum(expected, 1e-9)).sum(), len(values))


def test_draws_of_true_counts_have_their_distribution():
    """Separate cells, one of them summed in wide panels, and counts of a total. False alarm: 1e-8 each."""
    made = likelihood([40_000, 3], noises.DiscreteLaplace(3000.0), PoissonCells())
    draws = made.sample_counts([40_500.0, 4.0], size=20_000, seed=2)
    x = np.arange(38_000, 43_000)
    mass = np.exp(stats.poisson.logpmf(x, 40_500.0) - np.abs(x - 40_000) / 3000)
    cdf = np.cumsum(mass / mass.sum())
    assert (
        stats.kstest(
            cdf[draws[:, 0] - 38_000] - mass[draws[:, 0] - 38_000] / mass.sum() / 2, "uniform"
        ).pvalue
        > 1e-8
    )
    small = np.exp(stats.poisson.logpmf(np.arange(60), 4.0) - np.abs(np.arange(60) - 3) / 3000)
    assert chi_square(draws[:, 1], dict(enumerate(small / small.sum()))) > 1e-8
    model, parameters = MODELS["Multinomial"]
    made = likelihood(NOISES["lattice"][2], noises.LatticeNoise(3.1), model)
    draws = made.sample_counts(*parameters, size=20_000, seed=3)
    assert np.all(draws.sum(axis=1) == TOTAL)
    terms = stats.multinomial.logpmf(ALL, TOTAL, parameters[0]) - np.abs(ALL - [3, -4, 13]).sum(axis=1) / 3.1
    mass = np.exp(terms - logsumexp(terms))
    codes = {int(row @ [1, 100, 10_000]): float(p) for row, p in zip(ALL, mass, strict=True)}
    assert chi_square(draws @ [1, 100, 10_000], codes) > 1e-8


# Outputs that are no noisy counts.


@pytest.mark.parametrize("model", [Multinomial(4), PoissonCells()])
def test_randomised_response_against_all_true_counts(model):
    k, keep, z = 3, 0.6, np.array([1, 0, 3])
    parameter = np.array([0.2, 0.3, 0.5]) if model.total else np.array([0.7, 2.0, 1.3])
    rows = np.array([c for c in itertools.product(range(5), repeat=k) if sum(c) == 4])
    moves = np.full((k, k), (1 - keep) / 2) + (keep - (1 - keep) / 2) * np.eye(k)
    log_weight = []
    for row in rows:
        distribution = {(0, 0, 0): 1.0}
        for i, j in enumerate(row):
            for _ in range(j):
                step = {}
                for got, p in distribution.items():
                    for to in range(k):
                        new = tuple(g + (t == to) for t, g in enumerate(got))
                        step[new] = step.get(new, 0.0) + p * moves[i, to]
                distribution = step
        log_weight.append(math.log(distribution.get(tuple(z), 0.0) or 1e-300))
    listed = Listed(rows, np.array(log_weight), model)
    made = RandomisedResponse(z.astype(float), keep, model)
    assert made.log_prob(parameter) == pytest.approx(listed.log_prob(parameter), rel=1e-11)
    np.testing.assert_allclose(made.expected_counts(parameter), listed.expected_counts(parameter), rtol=1e-11)
    np.testing.assert_allclose(made.score(parameter), listed.score(parameter), rtol=1e-9, atol=1e-12)
    draws = made.sample_counts(parameter, size=4000, seed=1)
    assert np.all(draws.sum(axis=1) == 4)
    np.testing.assert_allclose(draws.mean(axis=0), made.expected_counts(parameter), atol=0.15)


@pytest.mark.parametrize("name", ["lattice", "lszhang", "lsdim", "lshist", "ehd", "ehds", "mbeta"])
def test_every_mechanism_has_a_likelihood(name):
    n, shares = 5, np.array([[0.2, 0.8], [0.55, 0.45]])
    options = {"delta": 0.01} if name == "mbeta" else {}
    own = mechanism(name, prior=(1.0, 1.0), n=n, epsilon=0.8, **options)
    released, noisy = (2, 3), ((7, -2) if name == "lattice" else None)
    made = likelihood_of(own, released, noisy)
    rows = np.array([(x, n - x) for x in range(n + 1)])
    if noisy is not None:
        terms = math.log(math.tanh(0.4)) - 0.8 * np.abs(7 - rows[:, 0])
    else:
        terms = []
        for row in rows:
            outputs, log_probability = own.log_pmf(row)
            match = (outputs == np.array(released)).all(axis=1)
            terms.append(logsumexp(log_probability[match]) if match.any() else -np.inf)
    for theta in shares:
        exact = logsumexp(np.array(terms) + stats.multinomial.logpmf(rows, n, theta))
        assert made.log_prob(theta) == pytest.approx(exact, rel=1e-10)


def test_three_levels_with_noise_on_two():
    own = mechanism("lsdim", prior=(1.0,) * 3, n=4, epsilon=0.8)
    rows = np.array([c for c in itertools.product(range(5), repeat=3) if sum(c) == 4])
    released, theta = (1, 0, 3), np.array([0.2, 0.3, 0.5])
    terms = []
    for row in rows:
        outputs, log_probability = own.log_pmf(row)
        terms.append(logsumexp(log_probability[(outputs == np.array(released)).all(axis=1)]))
    exact = logsumexp(np.array(terms) + stats.multinomial.logpmf(rows, 4, theta))
    assert likelihood_of(own, released, None).log_prob(theta) == pytest.approx(exact, rel=1e-10)


def test_listed_distributions_have_a_size():
    with pytest.raises(TooLargeError, match="5000"):
        likelihood_of(mechanism("ehd", prior=(1.0,) * 3, n=200, epsilon=0.8), (50, 50, 100), None)
    with pytest.raises(NotPrivateError):
        likelihood_of(mechanism("ehdl", prior=(1.0, 1.0), n=5, epsilon=0.8), (2, 3), None)


# Bad input.


@pytest.mark.parametrize(
    ("values", "noise", "total", "message"),
    [
        ([1.5, 2.0], noises.DiscreteLaplace(1.0), None, "whole numbers"),
        ([1, 2], noises.LatticeNoise(1.0), 4, "do not sum"),
        ([1, 2], noises.DiscreteLaplace(1.0), -1, "total=-1"),
        ([1, 2], noises.DiscreteLaplace(1.0), 2.5, "total=2.5"),
        ([1, 2], noises.DiscreteLaplace([1.0, 2.0, 3.0]), 3, "3 entries for 2"),
        ([[1, 2]], noises.DiscreteLaplace(1.0), 3, "values"),
        ([1, math.nan], noises.DiscreteLaplace(1.0), 3, "values"),
        (["a", "b"], noises.DiscreteLaplace(1.0), 3, "values"),
        ([-1, 4], noises.Clamped(noises.DiscreteLaplace(1.0), 0, 3), 3, "clamped"),
        ([1, 2], 1.5, 3, "keep=1.5"),
        ([1, 3], 0.5, 3, "do not sum"),
    ],
)
def test_values_that_do_not_fit_are_refused(values, noise, total, message):
    with pytest.raises(InvalidInputError, match=message):
        likelihood(values, noise, total=total)


@pytest.mark.parametrize("scale", [0, -1.0, math.inf, math.nan, "wide", [[1.0]], [1.0, 0.0]])
def test_scales_that_are_none_are_refused(scale):
    with pytest.raises(InvalidInputError, match="scale"):
        noises.DiscreteLaplace(scale)


def test_parameters_that_do_not_fit_are_refused():
    made = likelihood([1, 2], noises.DiscreteLaplace(1.0), total=3)
    for shares, message in [
        ([0.5, 0.6], "sum to 1"),
        ([0.5], "sum to 1"),
        ([0.2, 0.3, 0.5], "must have length 2"),
        ([-0.5, 1.5], "negative"),
        ([math.nan, 1.0], "finite"),
        (0.5, "must have length 2"),
        (["a", "b"], "numbers"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            made.log_prob(shares)
    with pytest.raises(InvalidInputError, match="shares"):
        made.log_prob([0.5, 0.5], [1.0, 1.0])
    with pytest.raises(TooLargeError, match="draws"):
        made.sample_counts([0.5, 0.5], size=10**12)
    with pytest.raises(TooLargeError, match="draws"):
        made.log_prob(np.broadcast_to(0.5, (10**12, 2)))
    with pytest.raises(InvalidInputError, match="size"):
        made.sample_counts([0.5, 0.5], size=-1)
    with pytest.raises(InvalidInputError, match="probs"):
        likelihood([1, 2], noises.DiscreteLaplace(1.0), Binomial([3, 4])).log_prob([0.5, 1.5])
    with pytest.raises(InvalidInputError, match="sizes"):
        Binomial([3.5])
    with pytest.raises(InvalidInputError, match="Dirichlet-multinomial"):
        RandomisedResponse(np.array([1.0, 2.0]), 0.5, DirichletMultinomial(3))
