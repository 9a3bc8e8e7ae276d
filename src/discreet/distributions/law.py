"""The law of one number: what every posterior of this package has in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_integer
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError, TooLargeError

_MOST_DRAWN = 1 << 29  # numbers in one answer: 4 GiB

IntervalKind = Literal["equal-tailed", "highest-density"]


class PlugInInterval(NamedTuple):
    """Ends of an interval, or of one for each level, that leaves out the noise of privacy: too narrow."""

    low: Any
    high: Any


class Law(Protocol):
    """A law of one number. Who derives from it says what has no default."""

    def mean(self) -> float: ...
    def var(self) -> float: ...
    def logpdf(self, theta: npt.ArrayLike) -> FloatArray: ...
    def cdf(self, theta: npt.ArrayLike) -> FloatArray: ...
    def ppf(self, probability: npt.ArrayLike) -> FloatArray: ...
    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray: ...

    def std(self) -> float:
        return math.sqrt(self.var())

    def pdf(self, theta: npt.ArrayLike) -> FloatArray:
        return np.asarray(np.exp(self.logpdf(theta)), dtype=np.float64)

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[float, float]:
        """A credible interval (low, high) of probability ``level``.

        ``equal-tailed`` leaves the same probability on both sides; ``highest-density`` is the shortest.
        """
        ends = tails(level)
        if kind not in get_args(IntervalKind):
            raise InvalidInputError(
                "must be 'equal-tailed' or 'highest-density'", parameter="kind", value=kind
            )
        if kind == "highest-density":
            ends = _shortest(self.ppf, level)
        low, high = self.ppf(np.array(ends))
        return float(low), float(high)


class RecordNumber:
    """An uncertain number of records: possible values and their probabilities; values below 0 stand for 0."""

    def __init__(self, values: FloatArray, probability: FloatArray | None = None) -> None:
        order = np.argsort(values)
        weight = np.ones(len(values)) if probability is None else probability[order]
        self.values, self.probability = values[order], weight / weight.sum()

    def mean(self) -> float:
        return float(np.maximum(self.values, 0.0) @ self.probability)

    def var(self) -> float:
        return float((np.maximum(self.values, 0.0) - self.mean()) ** 2 @ self.probability)

    def std(self) -> float:
        return math.sqrt(self.var())

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """An equal-tailed credible interval."""
        at = np.searchsorted(np.cumsum(self.probability), np.array(tails(level)) - 1e-12)
        low, high = self.values[np.minimum(at, len(self.values) - 1)]
        return max(0, round(float(low))), max(0, round(float(high)))


def tails(level: float) -> tuple[float, float]:
    """The probabilities below the ends of an equal-tailed interval."""
    if not (isinstance(level, float | int | np.number) and 0 < level < 1):
        raise InvalidInputError(
            "must be a probability between 0 and 1, such as 0.95", parameter="level", value=level
        )
    return (1 - level) / 2, (1 + level) / 2


def as_draws(size: int, numbers: int) -> int:
    """How many draws of so many numbers are asked for, where memory holds them."""
    draws = as_integer(size, "size")
    if draws < 0:
        raise InvalidInputError("must not be negative", parameter="size", value=size)
    if draws * numbers > _MOST_DRAWN:
        raise TooLargeError(
            f"{draws:.3g} draws of {numbers} numbers are more than memory holds; ask for at most "
            f"{_MOST_DRAWN // numbers} at a time"
        )
    return draws


def solve_quantiles(
    at: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    probability: FloatArray | float,
    start: FloatArray,
    low: FloatArray,
    high: FloatArray,
) -> FloatArray:
    """Quantiles by Newton's method inside a bracket; ``at`` gives the distribution function and density."""
    x, wanted = start, np.broadcast_to(probability, start.shape)
    for _ in range(100):
        cdf, pdf = at(x)
        error = cdf - wanted
        low, high = np.where(error < 0, x, low), np.where(error > 0, x, high)
        rest = np.maximum(1 - cdf, 1e-300)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            # log F is nearly linear in log x on the left, and log(1 − F) in x on the right.
            left = x * np.exp(-np.log(np.maximum(cdf, 1e-300) / wanted) * cdf / (x * pdf))
            step = np.where(wanted < 0.5, left, x + np.log(rest / (1 - wanted)) * rest / pdf)
        # A quantile may be 1e-30 where another is 1: the middle is that of the logarithms.
        middle = np.where(high > 4 * low, np.sqrt(low) * np.sqrt(high), 0.5 * (low + high))
        move = np.where((step > low) & (step < high), step, middle)
        going = (np.abs(error) > 1e-13) & (np.abs(move - x) > 1e-12 * x)
        x = np.where(going, move, x)
        if not going.any():
            break
    return np.asarray(x, dtype=np.float64)


def _shortest(quantile: Callable[[FloatArray], FloatArray], level: float) -> tuple[float, float]:
    """The probabilities below the ends of the shortest interval: of a unimodal density, where it is high."""
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
