"""Distributions of a true count: Poisson, binomial and negative binomial, also for real x.

Log-probabilities are written with deviances (Loader 2000): x log λ − λ − log x! loses nine digits at 10⁹, but
−D(x, λ) − s(x) none, with ``s(x) = log Γ(x+1) − x log x + x`` and ``D(x, m) = x log(x/m) + m − x``. Ratios
P(x)/P(at) are computed directly, because where P is tiny a difference of logarithms loses digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from discreet._numerics.log_gamma import log_factorial_excess
from discreet._typing import FloatArray, IntArray

_LARGEST_DIRECT_COUNT = 1e4
"""Up to this count, a difference of log-Gamma functions loses at most 11 digits."""
_LARGEST_DIRECT_FACTORIAL = 300.0
"""Up to this count, a difference of log-factorials loses at most 12 digits."""


def deviance(x: FloatArray, mean: FloatArray) -> FloatArray:
    """Return x log(x/mean) + mean − x, without cancellation where x is near the mean."""
    gap = x - mean
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = gap / mean
        near = np.abs(ratio) < 0.5
        log_ratio = np.where(near, np.log1p(np.where(near, ratio, 0.0)), np.log(x) - np.log(mean))
        return np.asarray(np.where(x == 0, mean, x * log_ratio - gap))


def log_factorial_ratio(x: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return (f, m) with log(Γ(x+1)/Γ(at+1)) = f + (x − at)·m, where m = log(at).

    The large part (x − at)·m is not added, so that the caller can cancel it first.
    """
    if max(x.max(initial=0.0), at.max(initial=0.0)) < _LARGEST_DIRECT_FACTORIAL:
        from scipy.special import gammaln

        return np.asarray(gammaln(x + 1) - gammaln(at + 1)), np.zeros_like(at)
    here = np.where(at > 0, at, 1.0)  # 0! = 1!
    ratio = log_factorial_excess(x) - log_factorial_excess(here) + deviance(x, here)
    return np.asarray(ratio), np.log(here)


def _log_rising(a: FloatArray, x: FloatArray) -> FloatArray:
    from scipy.special import gammaln

    return np.asarray(gammaln(x + a) - gammaln(x + 1))


@dataclass(frozen=True)
class CountDistribution(ABC):
    """Probabilities or unnormalised weights P(x) of the count of each cell; fields have an entry per cell."""

    @abstractmethod
    def log_prob(self, x: FloatArray) -> FloatArray: ...

    @abstractmethod
    def relative(self, x: FloatArray, at: FloatArray) -> FloatArray:
        """Return log(P(x)/P(at)), accurate even where P is tiny."""

    @property
    @abstractmethod
    def mode(self) -> FloatArray:
        """A whole number at which log P is largest."""

    @property
    def upper(self) -> FloatArray:
        """The largest possible count."""
        return np.full_like(self.mode, np.inf)

    @property
    def singularity(self) -> tuple[FloatArray, FloatArray] | None:
        """The pair (a, log q) if P(x) ∝ Γ(a+x)/x!·qˣ, otherwise None.

        Such a log P has a singularity just below 0, which wide panels would not resolve.
        """
        return None

    @abstractmethod
    def tilt(self, s: FloatArray, limit: float) -> tuple[CountDistribution, FloatArray]:
        """Return the tilted distribution L, and c, with P(x)e^{sx} = e^c L(x) for all x ≤ ``limit``."""

    def at(self, which: IntArray) -> Self:
        """Return the distributions of the cells with the indices ``which``."""
        return replace(self, **{f.name: getattr(self, f.name)[which] for f in fields(self)})


@dataclass(frozen=True)
class PoissonDistribution(CountDistribution):
    rate: FloatArray

    def log_prob(self, x: FloatArray) -> FloatArray:
        return -deviance(x, self.rate) - log_factorial_excess(x)

    def relative(self, x: FloatArray, at: FloatArray) -> FloatArray:
        ratio, centre = log_factorial_ratio(x, at)
        return np.asarray((x - at) * (np.log(np.maximum(self.rate, 1e-300)) - centre) - ratio)

    @property
    def mode(self) -> FloatArray:
        return np.floor(self.rate)

    def tilt(self, s: FloatArray, limit: float) -> tuple[PoissonDistribution, FloatArray]:
        return PoissonDistribution(self.rate * np.exp(s)), self.rate * np.expm1(s)


@dataclass(frozen=True)
class BinomialDistribution(CountDistribution):
    size: FloatArray
    prob: FloatArray
    complement: FloatArray
    """1 − prob, stored separately so that it keeps its digits where prob is near 1."""

    def log_prob(self, x: FloatArray) -> FloatArray:
        n, rest = np.broadcast_to(self.size, x.shape), self.size - x
        rest = np.maximum(rest, 0.0)
        value = log_factorial_excess(n.copy()) - log_factorial_excess(x) - log_factorial_excess(rest)
        value -= deviance(x, n * self.prob) + deviance(rest, n * self.complement)
        return np.asarray(np.where(x <= self.size, value, -np.inf))

    def relative(self, x: FloatArray, at: FloatArray) -> FloatArray:
        ratio, centre = log_factorial_ratio(x, at)
        other, opposite = log_factorial_ratio(np.maximum(self.size - x, 0.0), self.size - at)
        slope = (np.log(self.prob) - centre) - (np.log(self.complement) - opposite)
        with np.errstate(invalid="ignore"):
            linear = np.where(x == at, 0.0, (x - at) * slope)
        return np.asarray(np.where(x <= self.size, linear - ratio - other, -np.inf))

    @property
    def mode(self) -> FloatArray:
        return np.minimum(np.floor((self.size + 1) * self.prob), self.size)

    @property
    def upper(self) -> FloatArray:
        return self.size

    def tilt(self, s: FloatArray, limit: float) -> tuple[BinomialDistribution, FloatArray]:
        raised = self.prob * np.exp(s)
        total = self.complement + raised
        log_total = np.log1p(self.prob * np.expm1(s))
        return BinomialDistribution(self.size, raised / total, self.complement / total), self.size * log_total


@dataclass(frozen=True)
class RisingDistribution(CountDistribution):
    """The weights e^c·Γ(a+x)/(Γ(a)x!)·qˣ of the counts x = 0, …, ``limit``.

    q may be 1 or more where the noise keeps the sum over x finite. Such cells given their total are
    Dirichlet-multinomial; the negative binomial is the normalised case.
    """

    a: FloatArray
    log_q: FloatArray
    limit: FloatArray
    constant: FloatArray

    @classmethod
    def of(cls, a: FloatArray, limit: float) -> RisingDistribution:
        """Return the weights Γ(a+x)/(Γ(a)x!) for 0 ≤ x ≤ limit."""
        zero = np.zeros_like(a)
        return cls(a, zero, np.full_like(a, limit), zero)

    @classmethod
    def negative_binomial(cls, mean: FloatArray, dispersion: FloatArray) -> RisingDistribution:
        """Return negative binomial distributions with variance mean + mean²/dispersion."""
        with np.errstate(divide="ignore"):
            log_q = -np.log1p(dispersion / mean)
        return cls(
            dispersion, log_q, np.full_like(dispersion, np.inf), -dispersion * np.log1p(mean / dispersion)
        )

    def log_prob(self, x: FloatArray) -> FloatArray:
        a = np.broadcast_to(self.a, x.shape).copy()
        value = log_factorial_excess(x + a) - log_factorial_excess(a) - log_factorial_excess(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            value += np.where(x > 0, x * np.log1p(a / x), 0.0) + a * np.log1p(x / a) + np.log(a / (x + a))
        return np.asarray(np.where(x <= self.limit, value + x * self.log_q + self.constant, -np.inf))

    def relative(self, x: FloatArray, at: FloatArray) -> FloatArray:
        if max(x.max(initial=0.0), at.max(initial=0.0)) + self.a.max(initial=0.0) < _LARGEST_DIRECT_COUNT:
            value = _log_rising(self.a, x) - _log_rising(self.a, at) + (x - at) * self.log_q
            return np.asarray(np.where(x <= self.limit, value, -np.inf))
        ratio, centre = log_factorial_ratio(x, at)
        rising, above = log_factorial_ratio(x + self.a, at + self.a)
        value = rising - ratio - np.log((x + self.a) / (at + self.a))
        value += (x - at) * (self.log_q + (above - centre))
        return np.asarray(np.where(x <= self.limit, value, -np.inf))

    @property
    def mode(self) -> FloatArray:
        with np.errstate(over="ignore", divide="ignore"):
            odds = 1 / np.expm1(-np.minimum(self.log_q, -1e-300))
        inner = np.floor(np.clip((self.a - 1) * odds, 0.0, self.limit))
        return np.where(self.log_q < 0, inner, self.limit)

    @property
    def upper(self) -> FloatArray:
        return self.limit

    @property
    def singularity(self) -> tuple[FloatArray, FloatArray]:
        return self.a, self.log_q

    def tilt(self, s: FloatArray, limit: float) -> tuple[RisingDistribution, FloatArray]:
        zero = np.zeros_like(self.a)
        return RisingDistribution(self.a, self.log_q + s, np.minimum(self.limit, limit), zero), self.constant
