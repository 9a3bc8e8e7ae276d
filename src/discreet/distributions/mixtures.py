"""Mixtures of Betas and of Gammas: what is known of a share or a rate when its statistic is uncertain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.distributions.beta_dirichlet import beta_cdf, beta_logpdf
from discreet.distributions.gamma import gamma_cdf, gamma_logpdf
from discreet.distributions.law import IntervalKind, Law, solve_quantiles


@dataclass(frozen=True)
class Mixture(Law, ABC):
    """Σ_j weight_j · component_j. A subclass says what the components are."""

    weight: FloatArray

    @abstractmethod
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of every component."""

    @abstractmethod
    def cdfs(self, theta: FloatArray) -> FloatArray:
        """The distribution function of every component, along a last axis."""

    @abstractmethod
    def logpdfs(self, theta: FloatArray) -> FloatArray: ...

    @abstractmethod
    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Two numbers between which the quantile of the mixture lies."""

    @abstractmethod
    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        """One draw of each chosen component."""

    def mean(self) -> float:
        return float(self.weight @ self.moments()[0])

    def var(self) -> float:
        means, within = self.moments()
        return float(self.weight @ (within + (means - self.weight @ means) ** 2))

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        values = self.cdfs(np.asarray(theta, dtype=np.float64)[..., None])
        return np.asarray(values @ self.weight, dtype=np.float64)

    def pdf(self, theta: npt.ArrayLike) -> FloatArray:
        values = np.exp(self.logpdfs(np.asarray(theta, dtype=np.float64)[..., None]))
        return np.asarray(values @ self.weight, dtype=np.float64)

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(theta))

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        """Quantiles, by Newton's method kept inside a shrinking bracket."""
        from scipy.special import ndtri

        wanted = np.asarray(probability, dtype=np.float64)
        low, high = self.bracket(wanted)
        found = np.asarray(np.where(wanted > 0, high, low), dtype=np.float64)
        inner = (wanted > 0) & (wanted < 1)
        low, high = np.maximum(low[inner], 1e-300), high[inner]
        start = np.clip(self.mean() + self.std() * ndtri(wanted[inner]), low, high)
        found[inner] = solve_quantiles(lambda x: (self.cdf(x), self.pdf(x)), wanted[inner], start, low, high)
        return found

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws. What this law is made from is public, so they cost no privacy."""
        rng = np.random.default_rng(seed)
        return self.draw(rng.choice(len(self.weight), size, p=self.weight), rng)


@dataclass(frozen=True)
class BetaMixture(Mixture):
    """Σ_j weight_j Beta(a_j, total − a_j): a share whose count is uncertain."""

    a: FloatArray
    total: float | FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        mean = self.a / self.total
        return mean, mean * (1 - mean) / (self.total + 1)

    def cdfs(self, theta: FloatArray) -> FloatArray:
        return beta_cdf(self.a, self.total - self.a, theta)

    def logpdfs(self, theta: FloatArray) -> FloatArray:
        return beta_logpdf(self.a, self.total - self.a, theta)

    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.zeros(probability.shape), np.ones(probability.shape)

    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        return rng.beta(self.a[chosen], (self.total - self.a)[chosen])


@dataclass(frozen=True)
class GammaMixture(Mixture):
    """Σ_j weight_j Gamma(shape_j, rate_j): a rate whose sum of records is uncertain."""

    shape: FloatArray
    rate: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        mean = self.shape / self.rate
        return mean, mean / self.rate

    def cdfs(self, theta: FloatArray) -> FloatArray:
        return gamma_cdf(self.shape, self.rate, theta)

    def logpdfs(self, theta: FloatArray) -> FloatArray:
        return gamma_logpdf(self.shape, self.rate, theta)

    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        from scipy.special import gammaincinv

        quantiles = gammaincinv(self.shape, probability[..., None]) / self.rate
        return quantiles.min(axis=-1), quantiles.max(axis=-1)

    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        return rng.gamma(self.shape[chosen], 1 / self.rate[chosen])


@dataclass(frozen=True)
class Rescaled(Law):
    """The law of low + (high − low)·θ for θ with a law on [0, 1]."""

    law: Any
    low: float
    high: float

    def _unit(self, value: npt.ArrayLike) -> FloatArray:
        return (np.asarray(value, dtype=np.float64) - self.low) / (self.high - self.low)

    def _value(self, unit: Any) -> Any:
        return self.low + (self.high - self.low) * unit

    def mean(self) -> float:
        return float(self._value(self.law.mean()))

    def var(self) -> float:
        return self.std() * self.std()  # infinite, not an error, where bounds are as far apart as floats go

    def std(self) -> float:
        return float((self.high - self.low) * self.law.std())

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        return np.asarray(self.law.logpdf(self._unit(theta)) - np.log(self.high - self.low), dtype=np.float64)

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        return np.asarray(self.law.cdf(self._unit(theta)), dtype=np.float64)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        return np.asarray(self._value(self.law.ppf(probability)), dtype=np.float64)

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[float, float]:
        """A credible interval (low, high) of probability ``level``."""
        low, high = self.law.interval(level, kind)
        return float(self._value(low)), float(self._value(high))

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws. What this law is made from is public, so they cost no privacy."""
        return np.asarray(self._value(self.law.sample(size, seed)), dtype=np.float64)
