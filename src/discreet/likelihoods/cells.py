"""The true counts of many cells given their noisy values: separately, or given their total.

Separately: log P(z) = log Σ_x P(x)·P(z | x) for each cell, and the mean of any function of x under the terms.

Given the total N (a multinomial, or noise that sums to zero): with every cell tilted by e^{sx},

    log Σ_{Σx = N} Πᵢ P(xᵢ)P(zᵢ | xᵢ) = Σᵢ log Aᵢ(s) − sN + log P_s(S = N),

exactly and for every s; s is chosen near the saddle point E_s[S] = N, where P_s(S = N) is large. It is inverted
from the characteristic functions of the cells at frequencies 2πj/M, so that P_s(S ≡ N mod M) is what is
found; M is chosen such that Chernoff's bound leaves less than 1e-19 of the mass at a distance of M. The product
of the characteristic functions is followed until it stays below 1e-18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.core import TooLargeError
from discreet.likelihoods.counts import CountLaw
from discreet.likelihoods.noises import Noise
from discreet.likelihoods.summation import TAIL, Panels, Sums, climb, cut, descend, draw, evaluate

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Statistic = Callable[[FloatArray, IntArray], FloatArray]
"""g(x, which): a function of the true count of the cells numbered ``which``."""

_GRADED_TAIL = TAIL + 20  # a heavy-tailed law may have its mass far from its largest term
_ALIAS = 45.0  # nats: what folds onto N from beyond a distance of M
_NEGLIGIBLE = 1e-18  # characteristic functions below this are taken for zero
_MAX_FREQUENCIES = 2_000_000
_MAX_TREE = 1 << 24


@dataclass(frozen=True)
class Cells:
    """Laws of true counts, and what was published of them, one entry a cell."""

    law: CountLaw
    noise: Noise
    z: FloatArray
    scale: FloatArray

    def __len__(self) -> int:
        return len(self.z)

    def terms(self, x: FloatArray, which: IntArray) -> FloatArray:
        """log P(x) + log P(z | x)."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            prior = self.law.at(which).log_prob(x)
            return np.asarray(prior + self.noise.log_prob(self.z[which], x, self.scale[which]))

    def _all(self, x: FloatArray) -> FloatArray:
        return self.terms(x, np.arange(len(self)))

    @cached_property
    def panels(self) -> Panels:
        """Where the terms are: a window around the largest, cut at the breaks of the noise."""
        upper, zero = self.law.upper, np.zeros(len(self))
        peak = np.clip(self.noise.peak(self.z, self.scale), zero, upper)
        mode = np.clip(self.law.mode, zero, upper)
        breaks = self.noise.breaks(self.z)
        if not self.law.graded:
            top = climb(self._all, mode, peak)
            floor = self._all(top) - TAIL
            low, high = descend(self._all, top, floor, zero), descend(self._all, top, floor, upper)
            return _cut(low, breaks, high, graded=False)
        a, log_q = self.law.shape

        def straight(x: FloatArray) -> FloatArray:  # concave where the law itself is not
            return np.asarray(x * log_q + self.noise.log_prob(self.z, x, self.scale))

        concave = a >= 1
        top = climb(self._all, np.where(concave, mode, peak), peak)
        flat = climb(straight, np.where(log_q <= 0, zero, np.where(np.isfinite(upper), upper, peak)), peak)
        top = np.where(concave, top, flat)
        floor = np.fmax(self._all(top), self._all(zero)) - _GRADED_TAIL
        high = descend(self._all, top, floor, upper)
        low = np.where(concave, descend(self._all, top, floor, zero), zero)
        low = np.where(low < high - low, zero, low)
        return _cut(low, [*breaks, top + 1], high, graded=True)

    def blocks(self) -> Iterator[tuple[slice, Sums]]:
        """The sums, a bounded number of cells at a time."""
        for problems, block in self.panels.blocks():
            yield problems, evaluate(self.terms, block)

    def log_prob(self) -> FloatArray:
        """log P(z) of each cell."""
        result = np.empty(len(self))
        for rows, sums in self.blocks():
            result[rows] = sums.log_total
        return result

    def means(self, statistics: Sequence[Statistic]) -> list[FloatArray]:
        """E[g(x) | z] of each cell for each g."""
        result = [np.empty(len(self)) for _ in statistics]
        for rows, sums in self.blocks():
            for own, statistic in zip(result, statistics, strict=True):
                own[rows] = sums.mean(statistic(sums.x, sums.panels.problem[:, None]))
        return result

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One true count for each cell given what was published."""
        return draw(self.terms, self.panels, rng)


def _cut(low: FloatArray, breaks: Sequence[FloatArray], high: FloatArray, graded: bool) -> Panels:
    inner = np.sort(np.clip(np.stack([low, *breaks, high + 1]), low, high + 1), axis=0)
    return cut(list(inner), graded)


@dataclass(frozen=True)
class Points:
    """The terms that matter of tilted cells, flat: whole draws of ``cells`` cells each."""

    x: FloatArray
    """True count less the cell's mean."""
    weight: FloatArray
    which: IntArray
    first: IntArray
    mean: FloatArray
    variance: FloatArray
    log_total: FloatArray
    count: FloatArray

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(np.add.reduceat(values, self.first))


def _points(cells: Cells) -> Points:
    """Nodes and weights of all cells, those below 1e-22 of a cell's sum left out."""
    xs, weights, whiches, totals = [], [], [], []
    for _, sums in cells.blocks():
        kept = sums.weight > 1e-22
        xs.append(sums.x[kept])
        weights.append(sums.weight[kept])
        whiches.append(np.broadcast_to(sums.panels.problem[:, None], kept.shape)[kept])
        totals.append(sums.log_total)
    count, weight, which = np.concatenate(xs), np.concatenate(weights), np.concatenate(whiches)
    first = np.searchsorted(which, np.arange(len(cells)))
    mean = np.add.reduceat(weight * count, first)
    x = count - mean[which]
    shift = np.add.reduceat(weight * x, first)  # the rounding of a mean near 10⁹
    mean, x = mean + shift, x - shift[which]
    variance = np.add.reduceat(weight * x * x, first)
    return Points(x, weight, which, first, mean, variance, np.concatenate(totals), count)


@dataclass(frozen=True)
class Constrained:
    """Draws of parameters × ``width`` cells, with the true counts of each draw summing to ``total``."""

    cells: Cells
    width: int
    total: int

    def __len__(self) -> int:
        return len(self.cells) // self.width

    @cached_property
    def _saddle(self) -> tuple[FloatArray, FloatArray, Cells, Points]:
        """s, Σ log Aᵢ(s) − sN, and the tilted cells: Newton's method in a bracket, to a tenth of a deviation."""
        draws = len(self)
        s, low, high = np.zeros(draws), np.full(draws, -np.inf), np.full(draws, np.inf)
        for _ in range(200):
            law, constant = self.cells.law.tilted(np.repeat(s, self.width), float(self.total))
            tilted = Cells(law, self.cells.noise, self.cells.z, self.cells.scale)
            points = _points(tilted)
            gap = self._by_draw(points.mean) - self.total
            variance = self._by_draw(points.variance)
            missed = np.abs(gap) > 0.1 * np.sqrt(variance) + 1e-9
            if not missed.any():
                break
            high, low = np.where(gap > 0, s, high), np.where(gap < 0, s, low)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.clip(s - gap / variance, s - 2 - np.abs(s), s + 2 + np.abs(s))
            bad = ~((step > low) & (step < high))
            outward = np.where(gap > 0, s - 1 - np.abs(s), s + 1 + np.abs(s))
            middle = np.where(np.isfinite(low) & np.isfinite(high), (low + high) / 2, outward)
            s = np.where(missed, np.where(bad, middle, step), s)
            if np.all(np.abs(s[missed]) > 700):  # the total is an end of the range
                break
        log_scale = self._by_draw(points.log_total + constant) - s * self.total
        return s, log_scale, tilted, points

    def _by_draw(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(values.reshape(len(self), self.width).sum(axis=1))

    def _period(self, points: Points) -> IntArray:
        """M, odd, such that at most e^{−45} of the mass of S lies at a distance of M or more."""
        deviation = np.sqrt(self._by_draw(points.variance))
        needed = np.full(len(self), 3.0)
        for sign in (-1, 1):
            best = np.full(len(self), np.inf)
            for steep in (1.0, 2.0, 4.0, 7.0):
                delta = steep / np.maximum(deviation, 1e-3)
                moment = points.sum(
                    points.weight * np.exp(np.minimum(sign * np.repeat(delta, self.width)[points.which] * points.x, 700))
                )
                best = np.minimum(best, (self._by_draw(np.log(moment)) + _ALIAS) / delta)
            needed = np.maximum(needed, best)
        gap = np.abs(self._by_draw(points.mean) - self.total)
        return 2 * np.ceil((needed + gap) / 2).astype(np.int64) + 1

    def solve(self, statistics: Sequence[Statistic]) -> tuple[FloatArray, list[FloatArray]]:
        """log Σ over counts of that total of each draw, and E[g(xᵢ) | z, Σx = N] of each cell."""
        s, log_scale, _, points = self._saddle
        period = self._period(points)
        if period.max() > _MAX_FREQUENCIES:
            raise TooLargeError(
                f"the sum of the true counts is spread over {period.max():.3g} values, more than "
                f"{_MAX_FREQUENCIES:.0e}: this happens with a flat prior and a large total; use a smaller total"
            )
        base = 2 * math.pi / period
        gap = self._by_draw(points.mean) - self.total
        turn = np.exp(1j * np.repeat(base, self.width)[points.which] * points.x)
        values = [statistic(points.count, points.which) for statistic in statistics]
        # Differences from the mean under the tilt, so that small differences keep their digits.
        centres = [points.sum(points.weight * value) for value in values]
        values = [value - centre[points.which] for value, centre in zip(values, centres, strict=True)]
        hit = np.ones(len(self))
        shifts = [np.zeros(len(points.mean)) for _ in values]
        wave = points.weight.astype(np.complex128)
        quiet = np.zeros(len(self), dtype=np.int64)
        for j in range(1, int(period.max() - 1) // 2 + 1):
            wave *= turn
            own = points.sum(wave).reshape(len(self), self.width)
            phase = np.exp(1j * j * base * gap)
            before = np.cumprod(own, axis=1)
            live = (j <= (period - 1) // 2) & (quiet < 3)
            product = before[:, -1]
            hit += np.where(live, 2 * (product * phase).real, 0.0)
            if values:
                after = np.cumprod(own[:, ::-1], axis=1)[:, ::-1]
                others = np.ones_like(own)
                others[:, 1:] *= before[:, :-1]
                others[:, :-1] *= after[:, 1:]
                others *= np.where(live, phase, 0.0)[:, None]
                for shift, value in zip(shifts, values, strict=True):
                    shift += 2 * (points.sum(wave * value) * others.ravel()).real
            quiet = np.where(quiet == 3, 3, np.where(np.abs(product) < _NEGLIGIBLE, quiet + 1, 0))
            if not np.any((j < (period - 1) // 2) & (quiet < 3)):
                break
        result = [
            centre + shift / np.repeat(hit, self.width) for centre, shift in zip(centres, shifts, strict=True)
        ]
        return log_scale + np.log(hit / period), result

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """``size`` vectors of true counts for each draw of the parameters, shape (draws, size, width)."""
        tilted = self._saddle[2]
        result = np.empty((len(self), size, self.width))
        for i in range(len(self)):
            own = np.arange(i * self.width, (i + 1) * self.width)
            one = Cells(tilted.law.at(own), tilted.noise, tilted.z[own], tilted.scale[own])
            result[i] = _Tree.of(one).draw(np.full(size, self.total, dtype=np.int64), rng)
        return result


@dataclass(frozen=True)
class _Tree:
    """The law of a sum of cells on {low, …}, with its two halves."""

    low: int
    mass: FloatArray
    halves: tuple[_Tree, _Tree] | None = None

    @classmethod
    def of(cls, cells: Cells) -> _Tree:
        panels = cells.panels
        width = np.where(panels.row < 16, panels.row, np.ldexp(16.0, np.maximum(panels.row - 16, 0)))
        lows = np.minimum.reduceat(panels.start, panels.first)
        highs = np.maximum.reduceat(panels.start + width, panels.first)
        if (highs - lows).sum() > _MAX_TREE:
            raise TooLargeError(
                f"drawing true counts needs {(highs - lows).sum():.3g} of their values, more than "
                f"{_MAX_TREE:.0e}; use fewer cells, or expected_counts"
            )
        level = []
        for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
            log_mass = cells.terms(np.arange(low, high), np.array([i]))
            level.append(_trimmed(int(low), np.exp(log_mass - log_mass.max())))
        while len(level) > 1:
            pairs = list(zip(level[::2], level[1::2], strict=False))
            level = [cls._joined(a, b) for a, b in pairs] + level[2 * len(pairs) :]
        return level[0]

    @classmethod
    def _joined(cls, a: _Tree, b: _Tree) -> _Tree:
        if min(len(a.mass), len(b.mass)) < 256:
            mass = np.convolve(a.mass, b.mass)
        else:
            length = len(a.mass) + len(b.mass) - 1
            spectrum = np.fft.rfft(a.mass, length) * np.fft.rfft(b.mass, length)
            mass = np.maximum(np.fft.irfft(spectrum, length), 0.0)
        joined = _trimmed(a.low + b.low, mass)
        return cls(joined.low, joined.mass, (a, b))

    def draw(self, totals: IntArray, rng: np.random.Generator) -> FloatArray:
        if self.halves is None:
            return totals[:, None].astype(np.float64)
        left, right = self.halves
        first = np.empty(len(totals), dtype=np.int64)
        distinct, inverse = np.unique(totals, return_inverse=True)
        for i, total in enumerate(distinct):
            low = max(left.low, total - right.low - len(right.mass) + 1)
            high = min(left.low + len(left.mass) - 1, total - right.low)
            mirror = right.mass[total - high - right.low : total - low - right.low + 1][::-1]
            cumulative = np.cumsum(left.mass[low - left.low : high - left.low + 1] * mirror)
            rows = np.flatnonzero(inverse == i)
            target = rng.random(len(rows)) * cumulative[-1]
            first[rows] = low + np.searchsorted(cumulative, target, side="right")
        return np.concatenate([left.draw(first, rng), right.draw(totals - first, rng)], axis=1)


def _trimmed(low: int, mass: FloatArray) -> _Tree:
    kept = np.flatnonzero(mass > 1e-25 * mass.max())
    mass = mass[kept[0] : kept[-1] + 1]
    return _Tree(low + int(kept[0]), mass / mass.sum())
