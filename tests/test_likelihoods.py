"""Likelihoods of noisy counts against plain sums over all true counts, and 200 bits at the extremes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp

from discreet.errors import InvalidInput, TooLargeError
from discreet.inference.likelihoods import noises
from discreet.inference.likelihoods.likelihood import Likelihood, Listed, RandomisedResponse, likelihood
from discreet.inference.likelihoods.models import (
    Binomial,
    DirichletMultinomial,
    Multinomial,
    NegativeBinomial,
    Poisson,
)
from discreet.inference.likelihoods.summation import gauss_rule

TOTAL = 12
ALL = np.array([c for c in itertools.product(range(TOTAL + 1), repeat=3) if sum(c) == TOTAL])
REACH = 400  # counts of models without a total are summed up to here


def dlaplace(b):
    return lambda z, x: math.log(math.tanh(0.5 / b)) - np.abs(z - x) / b


def dgauss(s):
    v = np.arange(-2000, 2001)
    normaliser = logsumexp(-0.5 * (v / s) ** 2)
    return lambda z, x: -0.5 * ((z - x) / s) ** 2 - normaliser


def rounded(law):
    def log_prob(z, x):
        with np.errstate(divide="ignore"):
            return np.log(law.sf(np.abs(z - x) - 0.5) - law.sf(np.abs(z - x) + 0.5))

    return log_prob


def floor_laplace(b):
    def log_prob(z, x):
        v = z - x
        return np.log(0.5 * (1 - math.exp(-1 / b))) - np.where(v >= 0, v, -1 - v) / b

    return log_prob


def clamped(plain, low, high, integer=True):
    """Sums of the plain law over everything that is clamped to an end."""

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
    "gaussian": (noises.Gaussian(2.3), lambda z, x: stats.norm(0, 2.3).logpdf(z - x), [3.3, -4.2, 13.0]),
    "clamped-laplace": (
        noises.Clamped(noises.Laplace(2.3), 0),
        lambda z, x: stats.laplace(0, 2.3).logcdf(-x) if z == 0 else stats.laplace(0, 2.3).logpdf(z - x),
        [3.3, 0.0, 13.0],
    ),
    "per-cell": (noises.DiscreteLaplace([0.5, 2.0, 7.0]), None, [3, -4, 14]),
    "lattice": (noises.LatticeNoise(3.1), lambda z, x: -np.abs(z - x) / 3.1, [3, -4, 13]),
}
MODELS = {
    "Poisson": (Poisson(), ([4.0, 0.3, 9.0],)),
    "Binomial": (Binomial([6, 12, 9]), ([0.4, 0.03, 0.9],)),
    "negative-binomial": (NegativeBinomial(), ([4.0, 0.3, 9.0], [0.4, 2.0, 11.0])),
    "Multinomial": (Multinomial(TOTAL), ([0.3, 0.05, 0.65],)),
    "Dirichlet-multinomial": (DirichletMultinomial(TOTAL), ([0.3, 1.0, 2.5],)),
    "Dirichlet-multinomial-sparse": (DirichletMultinomial(TOTAL), ([0.1, 0.2, 0.05],)),
}


def log_prior(model, parameters, i, x):
    """log P(x) of cell i, for the models with separate cells."""
    first = parameters[0][i]
    if isinstance(model, Poisson):
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
    noise, law, z = NOISES[name]
    laws = [law] * 3 if law else [dlaplace(b) for b in noise.scale]
    together = name == "lattice"
    if model.total is None and not together:
        value, means, draws = 0.0, [], []
        for i in range(3):
            x = np.arange(REACH)
            terms = log_prior(model, parameters, i, x) + laws[i](z[i], x)
            value += logsumexp(terms)
            weight = np.exp(terms - logsumexp(terms))
            means.append(weight @ x)
            draws.append((x, weight))
        return value, np.array(means), draws
    x = ALL
    terms = sum(laws[i](z[i], x[:, i]) for i in range(3))
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
    if isinstance(model, Poisson):
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
