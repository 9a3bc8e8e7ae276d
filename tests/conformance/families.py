"""One row per family: a small model and all the records that matter; every row goes through one set of tests.

``records`` are values of one record, the extremes among them; datasets of n of them are enumerated as
multisets. ``density`` is an independent log-density of the posterior in terms of (statistic, n, r, m).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import betaln, digamma, expit, logit, polygamma

from discreet.posterior_sampling.families.categorical import (
    BetaFamily,
    BinomialFamily,
    DirichletFamily,
    GeometricFamily,
    MultinomialFamily,
    NegativeBinomialFamily,
    ShareFamily,
)
from discreet.posterior_sampling.families.means import GaussianMean, GaussianVector, NormalFamily
from discreet.posterior_sampling.families.rates import Exponential, GammaTimes, Poisson
from discreet.posterior_sampling.family import Family, Natural, ProfiledFamily


@dataclass(frozen=True)
class Row:
    family: Family
    prior: Any
    records: tuple[Any, ...]
    scipy: Callable[[Natural], Any]
    """The posterior with these coordinates as a frozen distribution of SciPy, one-dimensional."""
    sizes: tuple[int, ...] = (1, 2, 3, 6)

    def __str__(self) -> str:
        return f"{self.family.name}-{len(self.records)}"

    @property
    def bounded(self) -> bool:
        """Whether the curve is a bound, from variances on the way, and no pair's own."""
        return self.family.name.startswith("defined")

    @property
    def of_shares(self) -> bool:
        """Whether the posterior is a Beta or a Dirichlet distribution."""
        return isinstance(self.family, ShareFamily)

    def profiled(self, eta: Natural) -> bool:
        """Whether the profile is that of pairs, and does not follow from the Rényi divergences."""
        family = self.family
        return isinstance(family, ProfiledFamily) and bool(family.profile_pairs(eta, 3, Fraction(1)))

    def start(self, m: Fraction) -> Natural:
        return tuple(value / m for value in self.family.natural(self.family.prior(self.prior)))

    def statistic(self, dataset: tuple[Any, ...]) -> Any:
        """Of a multiset of records: counts for levels, else a sum."""
        if self.family.records == "levels":
            return [dataset.count(level) for level in self.records]
        if self.family.records == "vectors":
            return [sum(x[axis] for x in dataset) for axis in range(len(self.records[0]))]
        if self.family.name == "normal":
            return sum(dataset), sum(x * x for x in dataset)
        return sum(dataset)

    def eta(self, dataset: tuple[Any, ...], r: Fraction, m: Fraction) -> Natural:
        added = self.family.contribution(self.statistic(dataset), len(dataset))
        return tuple(own + r * more for own, more in zip(self.start(m), added, strict=True))

    def neighbours(self, n: int, r: Fraction, m: Fraction) -> Iterator[tuple[Natural, Natural]]:
        """Every ordered pair of posteriors whose datasets differ in one record."""
        for rest in itertools.combinations_with_replacement(self.records, n - 1):
            for one, other in itertools.permutations(self.records, 2):
                yield self.eta((*rest, one), r, m), self.eta((*rest, other), r, m)


def _beta(eta: Natural) -> Any:
    return stats.beta(float(eta[0]), float(eta[1]))


def _gamma(eta: Natural) -> Any:
    return stats.gamma(float(eta[0]), scale=1 / float(eta[1]))


def _normal(eta: Natural) -> Any:
    return stats.norm(float(eta[0] / eta[-1]), float(eta[-1]) ** -0.5)


def _logit(eta: Natural) -> Any:
    """The natural parameter of a Bernoulli distribution."""
    return LogitBeta(float(eta[0]), float(eta[1] - eta[0]))


class LogitBeta:
    """ln(p/(1 − p)) for p ~ Beta(a, b): the defined family of Bernoulli records in closed form."""

    def __init__(self, a: float, b: float) -> None:
        self.distribution = stats.beta(a, b)

    def support(self) -> tuple[float, float]:
        return -np.inf, np.inf

    def mean(self) -> float:
        return float(digamma(self.distribution.args[0]) - digamma(self.distribution.args[1]))

    def std(self) -> float:
        return float(
            np.sqrt(polygamma(1, self.distribution.args[0]) + polygamma(1, self.distribution.args[1]))
        )

    def logpdf(self, t: Any) -> Any:
        a, b = self.distribution.args
        return -a * np.logaddexp(0, -t) - b * np.logaddexp(0, t) - betaln(a, b)

    def pdf(self, t: Any) -> Any:
        return np.exp(self.logpdf(t))

    def cdf(self, t: Any) -> Any:
        return self.distribution.cdf(expit(t))

    def sf(self, t: Any) -> Any:
        return self.distribution.sf(expit(t))

    def ppf(self, u: Any) -> Any:
        return logit(self.distribution.ppf(u))


def _student(eta: Natural) -> Any:
    """The mean, where the variance is unknown."""
    strength, height, square, shape = map(float, eta)
    rate = square - height**2 / (2 * strength)
    return stats.t(2 * shape, height / strength, (rate / (shape * strength)) ** 0.5)


HALF = Fraction(1, 2)
PAIRS_OF_THREE = ((2, 0, 0), (0, 2, 0), (0, 0, 2), (1, 1, 0), (1, 0, 1), (0, 1, 1))
BERNOULLI = Family.define(log_partition="log(1 + exp(t))", bounds=(0, 1))
ROWS = [
    Row(BetaFamily(), (2.5, 4.0), (Fraction(0), Fraction(1, 3), HALF, Fraction(1)), _beta),
    Row(DirichletFamily(), (2.0, 3.5), (0, 1), _beta, sizes=(1, 2, 3, 10, 30)),
    Row(DirichletFamily(), (2.0, 3.0, 1.5), (0, 1, 2), _beta, sizes=(1, 2, 3, 10)),
    Row(DirichletFamily(), (2.0, 3.0, 1.5, 4.0), (0, 1, 2, 3), _beta, sizes=(1, 2, 5)),
    Row(GaussianMean(1.5, (-1.0, 3.0)), (0.5, 2.0), (-1, 0, HALF, 3), _normal),
    Row(GaussianVector(1.5, 2.0, 2), ((0, 1), 2.0), ((2, 0), (-2, 0), (0, 2), (1, 1)), _normal),
    Row(Poisson((0, 3)), (4.0, 0.5), (0, 1, 2, 3), _gamma),
    Row(Poisson((1, 3)), (4.0, 0.5), (1, 2, 3), _gamma),
    Row(Exponential((0.0, 2.0)), (3.0, 6.0), (0, HALF, 2), _gamma),
    Row(Exponential((1.0, 3.0)), (3.0, 2.0), (1, 2, 3), _gamma),
    Row(GammaTimes((0.5, 3.0), shape=2.5), (3.0, 2.0), (HALF, 1, 3), _gamma),
    Row(BinomialFamily(3), (4.0, 5.0), (0, 1, 2, 3), _beta, sizes=(1, 2, 3, 6)),
    Row(GeometricFamily((0, 4)), (2.0, 5.0), (0, 1, 2, 4), _beta, sizes=(1, 2, 3, 6)),
    Row(GeometricFamily((1, 3)), (0.25, 3.0), (1, 2, 3), _beta, sizes=(1, 2, 3)),
    Row(NegativeBinomialFamily((0, 2), successes=3), (2.0, 3.0), (0, 1, 2), _beta, sizes=(1, 2, 3, 6)),
    Row(MultinomialFamily(2, trials=2), (4.0, 3.0), ((0, 2), (1, 1), (2, 0)), _beta, sizes=(1, 2, 3, 6)),
    Row(MultinomialFamily(3, trials=2), (3.0, 4.0, 3.5), PAIRS_OF_THREE, _beta, sizes=(1, 2, 3)),
    Row(NormalFamily((-1.0, 2.0)), (-1.0, 0.5, 2.0, 4.0), (-1, -HALF, 0, HALF, 1, 2), _student, (1, 2, 3)),
    Row(BERNOULLI, (0.4, 5.0), (Fraction(0), HALF, Fraction(1)), _logit, sizes=(1, 3)),
]
