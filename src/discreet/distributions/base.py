"""The distribution of one number: what every posterior of this package has in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_choice, as_integer, as_probability
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError, TooLargeError

_MAX_DRAWN_NUMBERS = 1 << 29  # numbers in one answer: 4 GiB

IntervalKind = Literal["equal-tailed", "highest-density"]


class PlugInInterval(NamedTuple):
    """The ends of one or several intervals that ignore the noise of privacy and are therefore too narrow."""

    low: Any
    high: Any


class Distribution(Protocol):
    """The distribution of one number. A subclass defines the methods without a default."""

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """

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

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draw values.

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

    def std(self) -> float:
        """Return the standard deviation.

        Returns
        -------
        float
            The standard deviation.
        """
        return math.sqrt(self.var())

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
        return np.asarray(np.exp(self.logpdf(theta)), dtype=np.float64)

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

        Raises
        ------
        InvalidInputError
            If ``level`` or ``kind`` is not valid.
        """
        ends = tails(level)
        if as_choice(kind, get_args(IntervalKind), "kind") == "highest-density":
            ends = _shortest(self.ppf, level)
        low, high = self.ppf(np.array(ends))
        return float(low), float(high)


class RecordNumber:
    """An uncertain number of records.

    Parameters
    ----------
    values
        Possible values; negative ones count as 0.
    probability
        Their probabilities, up to a factor; equal if None.

    Examples
    --------
    >>> number = RecordNumber(np.array([9.0, 10.0, 11.0]), np.array([0.25, 0.5, 0.25]))
    >>> number.mean(), number.interval(0.9)
    (10.0, (9, 11))
    """

    def __init__(self, values: FloatArray, probability: FloatArray | None = None) -> None:
        order = np.argsort(values)
        weight = np.ones(len(values)) if probability is None else probability[order]
        self.values, self.probability = values[order], weight / weight.sum()

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """
        return float(np.maximum(self.values, 0.0) @ self.probability)

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """
        return float((np.maximum(self.values, 0.0) - self.mean()) ** 2 @ self.probability)

    def std(self) -> float:
        """Return the standard deviation.

        Returns
        -------
        float
            The standard deviation.
        """
        return math.sqrt(self.var())

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """Return an equal-tailed credible interval.

        Parameters
        ----------
        level
            Probability of the interval.

        Returns
        -------
        low, high : int
            The ends.
        """
        at = np.searchsorted(np.cumsum(self.probability), np.array(tails(level)) - 1e-12)
        low, high = self.values[np.minimum(at, len(self.values) - 1)]
        return max(0, round(float(low))), max(0, round(float(high)))


def tails(level: float) -> tuple[float, float]:
    """Return the probabilities below the ends of an equal-tailed interval.

    Parameters
    ----------
    level
        Probability of the interval.

    Returns
    -------
    low, high : float
        The probabilities.

    Raises
    ------
    InvalidInputError
        If ``level`` is not between 0 and 1.

    Examples
    --------
    >>> tails(0.5)
    (0.25, 0.75)
    """
    probability = as_probability(level)
    return (1 - probability) / 2, (1 + probability) / 2


def as_draws(size: int, numbers: int) -> int:
    """Check a number of draws, and return it.

    Parameters
    ----------
    size
        Number of draws.
    numbers
        The number of values in each draw.

    Returns
    -------
    int
        The number of draws.

    Raises
    ------
    InvalidInputError
        If ``size`` is negative or not a whole number.
    TooLargeError
        If the draws would not fit into memory.

    Examples
    --------
    >>> as_draws(1000, 3)
    1000
    """
    draws = as_integer(size, "size")
    if draws < 0:
        raise InvalidInputError("must not be negative", "size", size)
    if draws * numbers > _MAX_DRAWN_NUMBERS:
        raise TooLargeError(
            f"{draws:.3g} draws of {numbers} numbers are more than memory holds; ask for at most "
            f"{_MAX_DRAWN_NUMBERS // numbers} at a time"
        )
    return draws


class QuantileSearch:
    """A search for quantiles ``x`` by Newton's method inside a bracket.

    Parameters
    ----------
    probability
        Probabilities strictly between 0 and 1.
    start
        The starting values.
    low, high
        The ends of the bracket, which are positive.
    """

    def __init__(
        self, probability: FloatArray | float, start: FloatArray, low: FloatArray, high: FloatArray
    ) -> None:
        self.x, self._low, self._high, self._left = start, low, high, 100
        self._wanted = np.broadcast_to(probability, start.shape)

    def improve(self, cdf: FloatArray, pdf: FloatArray) -> bool:
        """Update ``x``, given the distribution function and the density there.

        Parameters
        ----------
        cdf, pdf
            One value for each entry of ``x``.

        Returns
        -------
        bool
            Whether ``x`` moved, in which case the search must go on.
        """
        x, wanted, error = self.x, self._wanted, cdf - self._wanted
        low = self._low = np.where(error < 0, x, self._low)
        high = self._high = np.where(error > 0, x, self._high)
        rest = np.maximum(1 - cdf, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log F is nearly linear in log x on the left, and log(1 − F) in x on the right.
            left = x * np.exp(-np.log(np.maximum(cdf, 1e-300) / wanted) * cdf / (x * pdf))
            step = np.where(wanted < 0.5, left, x + np.log(rest / (1 - wanted)) * rest / pdf)
        # A quantile may be 1e-30 where another is 1: the middle is that of the logarithms.
        middle = np.where(high > 4 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
        move = np.where((step > low) & (step < high), step, middle)
        going = (np.abs(error) > 1e-13) & (np.abs(move - x) > 1e-12 * x)
        self.x = np.where(going, move, x)
        self._left -= 1
        return bool(going.any()) and self._left > 0


def _shortest(quantile: Callable[[FloatArray], FloatArray], level: float) -> tuple[float, float]:
    """Return the probabilities below the ends of the shortest interval."""
    low, high = 0.0, 1.0 - level
    best = low
    for _ in range(12):  # a grid that narrows 16-fold each time, for any number of local minima
        starts = np.linspace(low, high, 65)
        widths = quantile(np.minimum(starts + level, 1.0)) - quantile(starts)
        best, step = float(starts[np.argmin(widths)]), float(starts[1] - starts[0])
        low, high = max(0.0, best - 2 * step), min(1.0 - level, best + 2 * step)
        if step < 1e-8:  # there the width is flat to its last digits
            break
    return best, min(best + level, 1.0)
