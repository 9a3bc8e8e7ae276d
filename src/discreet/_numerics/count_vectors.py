"""Distributions of count vectors with a given total: Q(b) ∝ Πᵢ Wᵢ(bᵢ) on {b ≥ 0, Σb = total}.

The normalising constant, the marginals and draws come from convolving the k weight vectors. The weights are
first tilted to Wᵢ(b) e^{θb}, which does not change Q, with θ such that the mean without the constraint is the
total. Entries with a negligible share of the tilted probability are dropped. The property ``truncation``
bounds the effect:

    total variation error ≤ 2 · Σᵢ (dropped tilted probability of i) / P_θ(Σb = total).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError

_MOST_DIRECT_PRODUCTS = 1 << 21  # up to this many np.convolve beats the FFT, and stays positive
_DROPPED_MASS = 1e-22  # share of the tilted mass below which an entry at the edge of a long window is dropped
_SHORT_WINDOWS = 4096  # windows with at most this many entries in all are not shortened
_COORDINATES_GIVEN_SUM = 64  # the last coordinates, which are drawn given their sum


def number_of_compositions(n: int, k: int) -> int:
    """Return the number of k-tuples of non-negative integers with sum n."""
    return math.comb(n + k - 1, k - 1)


def compositions(n: int, k: int) -> IntArray:
    """Return all k-tuples of non-negative integers that sum to n, in lexicographic order, one row each."""
    rows = np.zeros((1, 0), dtype=np.int64)
    left = np.array([n], dtype=np.int64)
    for _ in range(k - 1):
        repeats = left + 1
        starts = np.cumsum(repeats) - repeats
        values = np.arange(int(repeats.sum()), dtype=np.int64) - np.repeat(starts, repeats)
        rows = np.concatenate([np.repeat(rows, repeats, axis=0), values[:, None]], axis=1)
        left = np.repeat(left, repeats) - values
    return np.concatenate([rows, left[:, None]], axis=1)


@dataclass(frozen=True)
class Window:
    """A function of integers: ``mass[j]`` at ``low`` + j, and 0 elsewhere; mostly probabilities."""

    low: int
    mass: FloatArray

    @property
    def high(self) -> int:
        return self.low + len(self.mass) - 1

    def restrict(self, low: int, high: int) -> Window:
        low, high = max(low, self.low), min(high, self.high)
        if low > high:
            return Window(low, np.zeros(1))
        return Window(low, self.mass[low - self.low : high - self.low + 1])

    def at(self, index: IntArray) -> FloatArray:
        inside = (index >= self.low) & (index <= self.high)
        return np.where(inside, self.mass[np.where(inside, index - self.low, 0)], 0.0)


@dataclass(frozen=True)
class Separable:
    """The distribution Q(b) ∝ Πᵢ Wᵢ(bᵢ) on {Σb = total}; build it with :meth:`of`."""

    offsets: tuple[int, ...]
    total: int
    """The required sum, after the offsets are subtracted: Σᵢ (bᵢ − offsetᵢ) = total."""
    tilted: tuple[Window, ...]
    dropped: float
    log_scale: float

    @classmethod
    def of(
        cls, log_weights: Sequence[FloatArray], total: int, offsets: Sequence[int] | None = None
    ) -> Separable:
        """Build the distribution from log Wᵢ(offsetᵢ + j), j = 0, 1, …, for each coordinate i.

        Log-weights may be −∞, and offsets may be integers of any size.
        """
        starts = tuple(int(offset) for offset in (offsets or [0] * len(log_weights)))
        left = int(total) - sum(starts)
        arrays = [np.asarray(weights, dtype=np.float64)[: max(left, 0) + 1] for weights in log_weights]
        if left < 0 or any(len(a) == 0 for a in arrays) or left > sum(len(a) - 1 for a in arrays):
            raise InvalidInputError(f"no counts within the ranges of the weights sum to total={total}")
        theta = _saddle_point(arrays, left)
        if sum(map(len, arrays)) > _SHORT_WINDOWS:
            distribution = cls._tilt(arrays, left, starts, theta, _DROPPED_MASS)
            if distribution._hit > 0 and distribution.truncation < 1e-10:
                return distribution
        distribution = cls._tilt(arrays, left, starts, theta, 0.0)
        if distribution._hit <= 0:
            raise InvalidInputError(f"total={total} has no weight within the range of floating point numbers")
        return distribution

    @classmethod
    def _tilt(
        cls, arrays: Sequence[FloatArray], left: int, starts: tuple[int, ...], theta: float, drop: float
    ) -> Separable:
        windows, dropped, log_scale = [], 0.0, -theta * left
        for array in arrays:
            exponent = array + theta * np.arange(len(array))
            peak = float(exponent.max())
            mass = np.exp(exponent - peak)
            size = float(mass.sum())
            log_scale += peak + math.log(size)
            mass /= size
            positive = np.flatnonzero(mass > drop)
            low, high = int(positive[0]), int(positive[-1])
            dropped += float(mass[:low].sum() + mass[high + 1 :].sum())
            windows.append(Window(low, mass[low : high + 1]))
        return cls(starts, left, tuple(windows), dropped, log_scale)

    @property
    def k(self) -> int:
        return len(self.tilted)

    def _suffixes(self, order: Sequence[int], last: int) -> list[Window]:
        """Return the distributions of partial sums of the last coordinates in this order.

        The first is the sum of the last ``last`` coordinates, the next of one fewer, and so on; the final one
        is the empty sum, which is 0.
        """
        tables = [Window(0, np.ones(1))]
        low, high = (sum(getattr(w, end) for w in self.tilted) for end in ("low", "high"))
        after_low = after_high = 0
        for i in reversed(order[-last:]):
            window = self.tilted[i]
            after_low, after_high = after_low + window.low, after_high + window.high
            before_low, before_high = low - after_low, high - after_high
            table = _convolve(window, tables[0])
            tables.insert(0, table.restrict(self.total - before_high, self.total - before_low))
        return tables

    @cached_property
    def _suffix(self) -> list[Window]:
        """For each i = 0, …, k, the distribution of the sum of the coordinates i, …, k − 1."""
        return self._suffixes(range(self.k), self.k)

    @cached_property
    def _hit(self) -> float:
        return float(self._suffix[0].at(np.array([self.total]))[0])

    @property
    def log_normaliser(self) -> float:
        """log Σ_b Πᵢ Wᵢ(bᵢ)."""
        return self.log_scale + math.log(self._hit)

    @property
    def truncation(self) -> float:
        """A bound on the total variation distance to the distribution without dropped entries."""
        return 2 * self.dropped / self._hit

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """Return (start, p) for each coordinate, with P(bᵢ = start + j) = p[j]."""
        result = []
        before = Window(0, np.ones(1))
        for i, window in enumerate(self.tilted):
            rest = _convolve(before, self._suffix[i + 1])
            index = self.total - np.arange(window.low, window.high + 1)
            mass = window.mass * rest.at(index)
            result.append((self.offsets[i] + window.low, mass / mass.sum()))
            before = _convolve(before, window).restrict(0, self.total)
        return result

    def mean(self) -> list[float]:
        """Return E[bᵢ] for each coordinate."""
        return [start + float(p @ np.arange(len(p))) for start, p in self.marginals()]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw vectors in floating point, shape (size, k): for planning, not private.

        All but the last few coordinates are drawn from their tilted distributions and accepted with a
        probability ∝ P(the last few sum to the remainder). The last few are then drawn given their sum.
        """
        order, suffix = list(range(self.k)), self._suffix if self.k <= _COORDINATES_GIVEN_SUM else None
        if suffix is None:
            order.sort(key=lambda i: len(self.tilted[i].mass))
            suffix = self._suffixes(order, _COORDINATES_GIVEN_SUM)
        free, last = order[:-_COORDINATES_GIVEN_SUM], order[-_COORDINATES_GIVEN_SUM:]
        alike: dict[int, list[int]] = {}
        for i in free:
            alike.setdefault(id(self.tilted[i]), []).append(i)
        draws = np.empty((size, self.k), dtype=np.int64)
        widest = max(self.k, max(len(w.mass) for w in self.tilted))
        filled = 0
        while filled < size:
            batch = min((4 if free else 1) * (size - filled), max(8, (1 << 22) // widest))
            values = np.empty((batch, self.k), dtype=np.int64)
            left = np.full(batch, self.total, dtype=np.int64)
            for columns in alike.values():
                window = self.tilted[columns[0]]
                cumulative = np.cumsum(window.mass)
                uniform = rng.random((batch, len(columns))) * cumulative[-1]
                values[:, columns] = window.low + np.searchsorted(cumulative, uniform, side="right")
                left -= values[:, columns].sum(axis=1)
            if free:
                accepted = np.flatnonzero(rng.random(batch) * suffix[0].mass.max() < suffix[0].at(left))
                values, left = values[accepted], left[accepted]
            values, left = values[: size - filled], left[: size - filled]
            for i, rest in zip(last, suffix[1:], strict=True):
                window = self.tilted[i]
                possible = np.arange(window.low, window.high + 1)
                cumulative = np.cumsum(window.mass * rest.at(left[:, None] - possible), axis=1)
                uniform = rng.random((len(left), 1)) * cumulative[:, -1:]
                values[:, i] = window.low + (cumulative <= uniform).sum(axis=1)
                left -= values[:, i]
            draws[filled : filled + len(left)] = values
            filled += len(left)
        return np.asarray(draws + np.array(self.offsets))


def _convolve(a: Window, b: Window) -> Window:
    if len(a.mass) * len(b.mass) <= _MOST_DIRECT_PRODUCTS:
        return Window(a.low + b.low, np.convolve(a.mass, b.mass))
    length = len(a.mass) + len(b.mass) - 1
    padded = 1 << (length - 1).bit_length()
    spectrum = np.fft.rfft(a.mass, padded) * np.fft.rfft(b.mass, padded)
    return Window(a.low + b.low, np.maximum(np.fft.irfft(spectrum, padded)[:length], 0.0))


def _saddle_point(arrays: Sequence[FloatArray], total: int) -> float:
    """Return θ such that the sum of independent bᵢ with weights Wᵢ(b)e^{θb} has a mean near ``total``."""
    saddle = Saddle(1, 0.25)
    while True:
        mean, variance = -float(total), 0.0
        for array in arrays:
            index = np.arange(len(array))
            exponent = array + saddle.s * index
            mass = np.exp(exponent - exponent.max())
            mass /= mass.sum()
            cell_mean = float(mass @ index)
            mean += cell_mean
            variance += float(mass @ (index - cell_mean) ** 2)
        if not saddle.improve(np.array([mean]), np.array([variance])):
            return float(np.clip(saddle.s, -700.0, 700.0)[0])


class Saddle:
    """A search for tilts ``s`` at which means, which increase with s, are near 0.

    It uses Newton's method inside a bracket, until every mean is within ``share`` standard deviations of 0 or
    |s| > 700.
    """

    def __init__(self, size: int, share: float) -> None:
        self.s, self._share, self._left = np.zeros(size), share, 200
        self._low, self._high = np.full(size, -np.inf), np.full(size, np.inf)

    def improve(self, mean: FloatArray, variance: FloatArray) -> bool:
        """Update ``s``, given the means there and their slopes, the variances; return False when finished."""
        s = self.s
        missed = np.abs(mean) > self._share * np.sqrt(variance) + 1e-9
        self._left -= 1
        if not missed.any() or np.all(np.abs(s[missed]) > 700) or self._left < 0:
            return False
        low, high = np.where(mean < 0, s, self._low), np.where(mean > 0, s, self._high)
        room = 2 + 2 * np.abs(s)
        with np.errstate(divide="ignore", invalid="ignore"):
            step, middle = np.clip(s - mean / variance, s - room, s + room), (low + high) / 2
        middle = np.where(np.isfinite(middle), middle, s - np.sign(mean) * (1 + np.abs(s)))
        self.s = np.where(missed, np.where((step > low) & (step < high), step, middle), s)
        self._low, self._high = low, high
        return True
