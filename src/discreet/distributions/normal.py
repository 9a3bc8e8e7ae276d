"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_exact, as_numbers
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.errors import InvalidInputError


def as_sigma(sigma: Any) -> float:
    """Return a known standard deviation as a number.

    Parameters
    ----------
    sigma
        The standard deviation of one record.

    Returns
    -------
    float
        The same.

    Raises
    ------
    InvalidInputError
        If it is not positive.

    Examples
    --------
    >>> as_sigma(0.5)
    0.5
    """
    try:
        number = float(as_exact(sigma, "sigma"))
    except InvalidInputError:
        number = math.nan
    if not 1e-150 < number < 1e150:
        raise InvalidInputError(
            "must be positive: the known standard deviation of one record", "sigma", sigma
        )
    return number


@dataclass(frozen=True)
class Normal(Distribution):
    """The normal distribution N(loc, scale²).

    Parameters
    ----------
    loc
        Mean.
    scale
        Standard deviation.

    Examples
    --------
    >>> prior = Normal(0, 10)
    >>> posterior = prior.update(total=12, n=4, sigma=2)
    >>> round(posterior.loc, 4), round(posterior.scale, 4)
    (2.9703, 0.995)
    """

    loc: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("loc", "scale"):
            object.__setattr__(self, name, float(as_exact(getattr(self, name), name)))
        if not 1e-150 < self.scale < 1e150:
            raise InvalidInputError(
                "of a Normal must be positive: it is a standard deviation", "scale", self.scale
            )

    @property
    def parameters(self) -> tuple[float, float]:
        """The two parameters."""
        return self.loc, self.scale

    def update(self, total: float, n: int, sigma: float) -> Normal:
        """Return the posterior of a mean when the standard deviation of a record is known.

        Parameters
        ----------
        total
            Sum of the records.
        n
            Number of records.
        sigma
            Standard deviation of one record.

        Returns
        -------
        Normal
            The posterior.

        Examples
        --------
        >>> Normal(0, 1).update(total=3, n=1, sigma=1).loc
        1.5
        """
        as_sigma(sigma)
        precision = 1 / self.scale**2 + n / sigma**2
        centre = (self.loc / self.scale**2 + float(as_exact(total, "total")) / sigma**2) / precision
        return Normal(centre, 1 / math.sqrt(precision))

    def updated_with_public(self, data: Sequence[float], sigma: float) -> Normal:
        """Return the prior after public records, which cost no privacy.

        Parameters
        ----------
        data
            The public records.
        sigma
            Standard deviation of one record.

        Returns
        -------
        Normal
            The updated prior.

        Raises
        ------
        InvalidInputError
            If the data are not a sequence of finite numbers.

        Examples
        --------
        >>> Normal(0, 1).updated_with_public([3], sigma=1).loc
        1.5
        """
        values = as_numbers(data)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidInputError("public data must be a sequence of finite numbers")
        return self.update(math.fsum(values), len(values), sigma)

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """
        return self.loc

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """
        return self.scale**2

    def std(self) -> float:
        """Return the standard deviation.

        Returns
        -------
        float
            The standard deviation.
        """
        return self.scale

    def mode(self) -> float:
        """Return the most probable value.

        Returns
        -------
        float
            The mode.
        """
        return self.loc

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
        >>> Normal(0, 1).logpdf([0.25, 0.5]).round(4).tolist()
        [-0.9502, -1.0439]
        """
        away = (np.asarray(theta, dtype=np.float64) - self.loc) / self.scale
        return np.asarray(-away * away / 2 - math.log(self.scale * math.sqrt(2 * math.pi)), dtype=np.float64)

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
        >>> Normal(0, 1).cdf([0.25, 0.5]).round(4).tolist()
        [0.5987, 0.6915]
        """
        from scipy.special import ndtr

        away = (np.asarray(theta, dtype=np.float64) - self.loc) / self.scale
        return np.asarray(ndtr(away), dtype=np.float64)

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
        >>> Normal(0, 1).ppf([0.25, 0.5]).round(4).tolist()
        [-0.6745, 0.0]
        """
        from scipy.special import ndtri

        return np.asarray(self.loc + self.scale * ndtri(probability), dtype=np.float64)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draw values in floating point, from a public distribution; this is not a private release.

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
        >>> Normal(0, 1).sample(3, seed=1).shape
        (3,)
        """
        return np.random.default_rng(seed).normal(self.loc, self.scale, size)

    def to_scipy(self) -> Any:
        """Return the frozen ``scipy.stats.norm``.

        Returns
        -------
        scipy.stats distribution
            With the same parameters.
        """
        from scipy import stats

        return stats.norm(self.loc, self.scale)
