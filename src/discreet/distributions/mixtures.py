"""Mixtures of Beta, Gamma and normal distributions: posteriors from uncertain statistics."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.distributions.base import Distribution, IntervalKind, QuantileSearch
from discreet.distributions.beta_dirichlet import beta_cdf, beta_logpdf
from discreet.distributions.gamma import gamma_cdf, gamma_logpdf


@dataclass(frozen=True)
class Mixture(Distribution, ABC):
    """A mixture Σ_j weight_j · component_j; a subclass defines the components.

    Parameters
    ----------
    weight
        Weights of the components, which sum to 1.
    """

    weight: FloatArray

    @abstractmethod
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of every component.

        Returns
        -------
        means, variances : FloatArray
            One value for each component.
        """

    @abstractmethod
    def cdfs(self, theta: FloatArray) -> FloatArray:
        """Return the distribution function of every component.

        Parameters
        ----------
        theta
            Values, with a last axis of length 1.

        Returns
        -------
        FloatArray
            One value for each component along the last axis.
        """

    @abstractmethod
    def logpdfs(self, theta: FloatArray) -> FloatArray:
        """Return the log-density of every component.

        Parameters
        ----------
        theta
            Values, with a last axis of length 1.

        Returns
        -------
        FloatArray
            One value for each component along the last axis.
        """

    @abstractmethod
    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds between which the quantiles of the mixture lie.

        Parameters
        ----------
        probability
            Probabilities between 0 and 1.

        Returns
        -------
        low, high : FloatArray
            The bounds, one for each probability.
        """

    @abstractmethod
    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        """Draw once from each chosen component.

        Parameters
        ----------
        chosen
            Indices of components.
        rng
            The random number generator.

        Returns
        -------
        FloatArray
            One draw for each index.
        """

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """
        return float(self.weight @ self.moments()[0])

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """
        means, within = self.moments()
        return float(self.weight @ (within + (means - self.weight @ means) ** 2))

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the distribution function.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.
        """
        values = self.cdfs(np.asarray(theta, dtype=np.float64)[..., None])
        return np.asarray(values @ self.weight, dtype=np.float64)

    def pdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the density.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.
        """
        values = np.exp(self.logpdfs(np.asarray(theta, dtype=np.float64)[..., None]))
        return np.asarray(values @ self.weight, dtype=np.float64)

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the log-density.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.pdf(theta))

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        """Return quantiles, by Newton's method inside a shrinking bracket.

        Parameters
        ----------
        probability
            Probabilities between 0 and 1.

        Returns
        -------
        FloatArray
            One value for each entry of ``probability``.
        """
        from scipy.special import ndtri

        wanted = np.asarray(probability, dtype=np.float64)
        low, high = self.bracket(wanted)
        quantiles = np.asarray(np.where(wanted > 0, high, low), dtype=np.float64)
        inner = (wanted > 0) & (wanted < 1)
        low, high = np.maximum(low[inner], 1e-300), high[inner]
        start = np.clip(self.mean() + self.std() * ndtri(wanted[inner]), low, high)
        search = QuantileSearch(wanted[inner], start, low, high)
        while search.improve(self.cdf(search.x), self.pdf(search.x)):
            pass
        quantiles[inner] = search.x
        return quantiles

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draw values; the mixture is public, so this costs no privacy.

        Parameters
        ----------
        size
            Number of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        FloatArray
            The draws.
        """
        rng = np.random.default_rng(seed)
        return self.draw(rng.choice(len(self.weight), size, p=self.weight), rng)


@dataclass(frozen=True)
class BetaMixture(Mixture):
    """The mixture Σ_j weight_j Beta(a_j, total − a_j): a share whose count is uncertain.

    Parameters
    ----------
    weight
        Weights of the components, which sum to 1.
    a
        First parameter of each Beta.
    total
        Sum of both parameters of each Beta: one number for all, or one for each.

    Examples
    --------
    >>> mixture = BetaMixture(np.array([0.5, 0.5]), np.array([2.0, 4.0]), 10.0)
    >>> round(mixture.mean(), 4), round(mixture.std(), 4)
    (0.3, 0.1679)
    >>> mixture.ppf([0.025, 0.975]).round(4).tolist()
    [0.0409, 0.6568]
    >>> float(mixture.cdf(0.3).round(4))
    0.5372
    """

    a: FloatArray
    total: float | FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of every component.

        Returns
        -------
        means, variances : FloatArray
            One value for each component.
        """
        mean = self.a / self.total
        return mean, mean * (1 - mean) / (self.total + 1)

    def cdfs(self, theta: FloatArray) -> FloatArray:
        """Return the distribution function of every component.

        Parameters
        ----------
        theta
            Values, with a last axis of length 1.

        Returns
        -------
        FloatArray
            One value for each component along the last axis.
        """
        return beta_cdf(self.a, self.total - self.a, theta)

    def logpdfs(self, theta: FloatArray) -> FloatArray:
        """Return the log-density of every component.

        Parameters
        ----------
        theta
            Values, with a last axis of length 1.

        Returns
        -------
        FloatArray
            One value for each component along the last axis.
        """
        return beta_logpdf(self.a, self.total - self.a, theta)

    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds between which the quantiles of the mixture lie.

        Parameters
        ----------
        probability
            Probabilities between 0 and 1.

        Returns
        -------
        low, high : FloatArray
            The bounds, one for each probability.
        """
        return np.zeros(probability.shape), np.ones(probability.shape)

    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        """Draw once from each chosen component.

        Parameters
        ----------
        chosen
            Indices of components.
        rng
            The random number generator.

        Returns
        -------
        FloatArray
            One draw for each index.
        """
        return rng.beta(self.a[chosen], (self.total - self.a)[chosen])


@dataclass(frozen=True)
class GammaMixture(Mixture):
    """The mixture Σ_j weight_j Gamma(shape_j, rate_j): a rate whose sum of records is uncertain.

    Parameters
    ----------
    weight
        Weights of the components, which sum to 1.
    shape, rate
        Parameters of each Gamma.

    Examples
    --------
    >>> mixture = GammaMixture(np.array([0.5, 0.5]), np.array([2.0, 4.0]), np.array([1.0, 1.0]))
    >>> mixture.mean(), mixture.var()
    (3.0, 4.0)
    >>> mixture.ppf([0.025, 0.975]).round(4).tolist()
    [0.3534, 7.8596]
    """

    shape: FloatArray
    rate: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return the mean and the variance of every component.

        Returns
        -------
        means, variances : FloatArray
            One value for each component.
        """
        mean = self.shape / self.rate
        return mean, mean / self.rate

    def cdfs(self, theta: FloatArray) -> FloatArray:
        """Return the distribution function of every component.

        Parameters
        ----------
        theta
            Values, with a last axis of length 1.

        Returns
        -------
        FloatArray
            One value for each component along the last axis.
        """
        return gamma_cdf(self.shape, self.rate, theta)

    def logpdfs(self, theta: FloatArray) -> FloatArray:
        """Return the log-density of every component.

        Parameters
        ----------
        theta
            Values, with a last axis of length 1.

        Returns
        -------
        FloatArray
            One value for each component along the last axis.
        """
        return gamma_logpdf(self.shape, self.rate, theta)

    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds between which the quantiles of the mixture lie.

        Parameters
        ----------
        probability
            Probabilities between 0 and 1.

        Returns
        -------
        low, high : FloatArray
            The bounds, one for each probability.
        """
        from scipy.special import gammaincinv

        quantiles = gammaincinv(self.shape, probability[..., None]) / self.rate
        return quantiles.min(axis=-1), quantiles.max(axis=-1)

    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        """Draw once from each chosen component.

        Parameters
        ----------
        chosen
            Indices of components.
        rng
            The random number generator.

        Returns
        -------
        FloatArray
            One draw for each index.
        """
        return rng.gamma(self.shape[chosen], 1 / self.rate[chosen])


@dataclass(frozen=True)
class NormalMixture(Mixture):
    """The mixture Σ_j weight_j N(loc_j, scale_j²): a mean whose sum of records is uncertain.

    Parameters
    ----------
    weight
        Weights of the components, which sum to 1.
    loc, scale
        Mean and standard deviation of each normal distribution.

    Examples
    --------
    >>> mixture = NormalMixture(np.array([0.5, 0.5]), np.array([-1.0, 1.0]), np.array([1.0, 1.0]))
    >>> mixture.mean(), mixture.var()
    (0.0, 2.0)
    >>> mixture.ppf([0.025, 0.975]).round(4).tolist()
    [-2.6461, 2.6461]
    """

    loc: FloatArray
    scale: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        return self.loc, self.scale**2

    def cdfs(self, theta: FloatArray) -> FloatArray:
        """Return the distribution function of each component.

        Parameters
        ----------
        theta
            Values, which are broadcast against the components.

        Returns
        -------
        FloatArray
            The probabilities.
        """
        from scipy.special import ndtr

        return np.asarray(ndtr((theta - self.loc) / self.scale))

    def logpdfs(self, theta: FloatArray) -> FloatArray:
        """Return the log-density of each component.

        Parameters
        ----------
        theta
            Values, which are broadcast against the components.

        Returns
        -------
        FloatArray
            The log-densities.
        """
        standard = (theta - self.loc) / self.scale
        return np.asarray(-0.5 * standard**2 - np.log(self.scale) - 0.5 * math.log(2 * math.pi))

    def bracket(self, probability: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return bounds between which each quantile of the mixture lies.

        Parameters
        ----------
        probability
            Probabilities.

        Returns
        -------
        tuple of arrays
            The smallest and the largest quantile of the components.
        """
        from scipy.special import ndtri

        quantiles = self.loc + self.scale * ndtri(probability[..., None])
        return quantiles.min(axis=-1), quantiles.max(axis=-1)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        """Return quantiles, by bisection.

        Parameters
        ----------
        probability
            Probabilities.

        Returns
        -------
        FloatArray
            The quantiles.
        """
        wanted = np.asarray(probability, dtype=np.float64)
        low, high = self.bracket(wanted)
        with np.errstate(invalid="ignore"):  # the quantiles of 0 and 1 are infinite
            while (np.nextafter(low, high) < high).any() and not (
                high - low <= 1e-13 * self.scale.max()
            ).all():
                middle = 0.5 * (low + high)
                below = self.cdf(middle) < wanted
                low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(high)

    def draw(self, chosen: npt.NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
        """Draw one value of each chosen component.

        Parameters
        ----------
        chosen
            Indices of components.
        rng
            The generator.

        Returns
        -------
        FloatArray
            The values.
        """
        return rng.normal(self.loc[chosen], self.scale[chosen])


@dataclass(frozen=True)
class Rescaled(Distribution):
    """The distribution of low + (high − low)·θ for θ on [0, 1].

    Parameters
    ----------
    distribution
        The distribution of θ.
    low, high
        The bounds.

    Examples
    --------
    >>> from discreet.distributions.beta_dirichlet import Beta
    >>> age = Rescaled(Beta(2, 2), 20, 60)
    >>> age.mean(), [round(end, 2) for end in age.interval(0.9)]
    (40.0, [25.41, 54.59])
    """

    distribution: Any
    low: float
    high: float

    def _unit(self, value: npt.ArrayLike) -> FloatArray:
        return (np.asarray(value, dtype=np.float64) - self.low) / (self.high - self.low)

    def _value(self, unit: Any) -> Any:
        return self.low + (self.high - self.low) * unit

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """
        return float(self._value(self.distribution.mean()))

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """
        return self.std() * self.std()  # infinite, not an error, where bounds are as far apart as floats go

    def std(self) -> float:
        """Return the standard deviation.

        Returns
        -------
        float
            The standard deviation.
        """
        return float((self.high - self.low) * self.distribution.std())

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the log-density.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.
        """
        return np.asarray(
            self.distribution.logpdf(self._unit(theta)) - np.log(self.high - self.low), dtype=np.float64
        )

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the distribution function.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.
        """
        return np.asarray(self.distribution.cdf(self._unit(theta)), dtype=np.float64)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        """Return quantiles.

        Parameters
        ----------
        probability
            Probabilities between 0 and 1.

        Returns
        -------
        FloatArray
            One value for each entry of ``probability``.
        """
        return np.asarray(self._value(self.distribution.ppf(probability)), dtype=np.float64)

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[float, float]:
        """Return a credible interval.

        Parameters
        ----------
        level
            Probability of the interval.
        kind
            ``equal-tailed`` leaves the same probability on both sides; ``highest-density`` is the shortest.

        Returns
        -------
        low, high : float
            The ends.
        """
        low, high = self.distribution.interval(level, kind)
        return float(self._value(low)), float(self._value(high))

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draw values; the distribution is public, so this costs no privacy.

        Parameters
        ----------
        size
            Number of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        FloatArray
            The draws.
        """
        return np.asarray(self._value(self.distribution.sample(size, seed)), dtype=np.float64)
