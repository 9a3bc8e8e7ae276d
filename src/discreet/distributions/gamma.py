"""The Gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_choice, as_exact, as_numbers, as_size
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.errors import InvalidInputError


def gamma_logpdf(shape: npt.ArrayLike, rate: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Return the log-density of Gamma(shape, rate), elementwise.

    Parameters
    ----------
    shape, rate
        Parameters.
    theta
        Where to evaluate it.

    Returns
    -------
    FloatArray
        The log-density; −∞ below 0.

    Examples
    --------
    >>> gamma_logpdf(1, 2, [0.0, 1.0]).round(4).tolist()
    [0.6931, -1.3069]
    """
    from scipy.special import gammaln, xlogy

    shape, rate, theta = (np.asarray(v, dtype=np.float64) for v in (shape, rate, theta))
    x = np.where(theta >= 0, theta, 1.0) * rate
    value = xlogy(shape - 1, x) - x + np.log(rate) - gammaln(shape)
    return np.asarray(np.where(theta >= 0, value, -np.inf), dtype=np.float64)


def gamma_cdf(shape: npt.ArrayLike, rate: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Return the distribution function of Gamma(shape, rate), elementwise.

    Parameters
    ----------
    shape, rate
        Parameters.
    theta
        Where to evaluate it.

    Returns
    -------
    FloatArray
        Probabilities.

    Examples
    --------
    >>> gamma_cdf(1, 2, np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.8647]
    """
    from scipy.special import gammainc

    return np.asarray(gammainc(shape, rate * np.maximum(theta, 0.0)), dtype=np.float64)


@dataclass(frozen=True)
class Gamma(Distribution):
    """The Gamma distribution of a rate θ > 0, with mean shape/rate.

    Parameters
    ----------
    shape, rate
        Parameters.

    Examples
    --------
    >>> posterior = Gamma(1, 1).update(total=30, n=9)
    >>> posterior, posterior.mean()
    (Gamma(shape=31.0, rate=10.0), 3.1)
    """

    shape: float
    rate: float

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            value = float(as_exact(getattr(self, name), name))
            if not 0 < value <= 1e300:
                raise InvalidInputError(
                    "of a Gamma must be positive, at most 1e300", name, getattr(self, name)
                )
            object.__setattr__(self, name, value)

    @property
    def parameters(self) -> tuple[float, float]:
        """The two parameters."""
        return self.shape, self.rate

    def update(self, total: float, n: int, likelihood: str = "poisson") -> Gamma:
        """Return the posterior after n records with this total.

        Parameters
        ----------
        total
            Sum of the records.
        n
            Number of records.
        likelihood
            ``poisson`` for counts, ``exponential`` for waiting times.

        Returns
        -------
        Gamma
            The posterior.

        Raises
        ------
        InvalidInputError
            If ``total`` is negative or the likelihood is unknown.

        Examples
        --------
        >>> Gamma(1, 1).update(total=5, n=2)
        Gamma(shape=6.0, rate=3.0)
        >>> Gamma(1, 1).update(total=5, n=2, likelihood="exponential")
        Gamma(shape=3.0, rate=6.0)
        """
        size, added = as_size(n), float(as_exact(total, "total"))
        if added < 0:
            raise InvalidInputError("total must not be negative: it is a sum of counts or of waiting times")
        if as_choice(likelihood, ("poisson", "exponential"), "likelihood") == "poisson":
            return Gamma(self.shape + added, self.rate + size)
        return Gamma(self.shape + size, self.rate + added)

    def updated_with_public(self, data: Sequence[float], likelihood: str = "poisson") -> Gamma:
        """Return the prior after public records, which cost no privacy.

        Parameters
        ----------
        data
            The public records.
        likelihood
            ``poisson`` for counts, ``exponential`` for waiting times.

        Returns
        -------
        Gamma
            The updated prior.

        Raises
        ------
        InvalidInputError
            If the data are not finite numbers of at least 0.

        Examples
        --------
        >>> Gamma(1, 1).updated_with_public([2, 3])
        Gamma(shape=6.0, rate=3.0)
        """
        values = as_numbers(data)
        if values.ndim != 1 or not (np.isfinite(values) & (values >= 0)).all():
            raise InvalidInputError("public data must be a sequence of finite numbers, at least 0")
        return self.update(math.fsum(values), len(values), likelihood) if len(values) else self

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """
        return self.shape / self.rate

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """
        return self.shape / self.rate / self.rate

    def mode(self) -> float:
        """Return the most probable value.

        Returns
        -------
        float
            The mode.
        """
        return max(0.0, self.shape - 1) / self.rate

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

        Examples
        --------
        >>> Gamma(2, 4).logpdf([0.25, 0.5]).round(4).tolist()
        [0.3863, 0.0794]
        """
        return gamma_logpdf(self.shape, self.rate, theta)

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

        Examples
        --------
        >>> Gamma(2, 4).cdf([0.25, 0.5]).round(4).tolist()
        [0.2642, 0.594]
        """
        return gamma_cdf(self.shape, self.rate, theta)

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

        Examples
        --------
        >>> Gamma(2, 4).ppf([0.25, 0.5]).round(4).tolist()
        [0.2403, 0.4196]
        """
        from scipy.special import gammaincinv

        return np.asarray(gammaincinv(self.shape, probability) / self.rate, dtype=np.float64)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draw θ in floating point, from a public distribution; this is not a private release.

        Parameters
        ----------
        size
            Number or shape of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        FloatArray
            The draws.

        Examples
        --------
        >>> Gamma(2, 4).sample(3, seed=1).shape
        (3,)
        """
        return np.random.default_rng(seed).gamma(self.shape, 1 / self.rate, size)

    def to_scipy(self) -> Any:
        """Return the frozen ``scipy.stats.gamma``.

        Returns
        -------
        scipy.stats distribution
            With the same parameters.
        """
        from scipy import stats

        return stats.gamma(self.shape, scale=1 / self.rate)
