"""The true counts of many cells given their noisy values: separately, or given their total.

Separately: log P(z) = log Σ_x P(x)·P(z | x) for each cell, and the mean of any function of x under the terms.

Given the total N (a multinomial, or noise that sums to zero): with every cell tilted by e^{sx},

    log Σ_{Σx = N} Πᵢ P(xᵢ)P(zᵢ | xᵢ) = Σᵢ log Aᵢ(s) − sN + log P_s(S = N),

exactly and for every s; s is chosen near the saddle point E_s[S] = N, where P_s(S = N) is large. That is
inverted from the characteristic functions of the cells at frequencies 2πj/M, so that P_s(S ≡ N mod M) is
found; M is chosen such that Chernoff's bound leaves less than 1e-19 of the mass at a distance of M. The
product of the characteristic functions is followed until it stays below 1e-18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray, IntArray
from discreet.errors import TooLargeError
from discreet.inference.likelihoods.counts import CountLaw
from discreet.inference.likelihoods.noises import Noise
from discreet.inference.likelihoods.summation import TAIL, Panels, Sums, climb, cut, descend, draw, evaluate

Complex = npt.NDArray[np.complex128]
Statistic = Callable[[FloatArray, IntArray], FloatArray]
"""g(x, which): a function of the true count of the cells numbered ``which``."""

_ALL = slice(None)
_GRADED_TAIL = TAIL + 20  # a heavy-tailed law may have its mass far from its largest term
_ALIAS = 45.0  # nats: what folds onto N from beyond a distance of M
_NEGLIGIBLE = 1e-18  # characteristic functions below this are taken for zero
_MAX_PERIOD = 2_000_000
_MAX_VALUES = 1 << 24
_MAX_SPECTRUM = 1 << 26
_POINTS_AT_ONCE = 1 << 19


@dataclass(frozen=True)
class Cells:
    """Laws of true counts, and what was published of them, one entry a cell."""

    law: CountLaw
    noise: Noise
    z: FloatArray
    scale: FloatArray

    def __len__(self) -> int:
        return len(self.z)

    def _relative(self, x: FloatArray, at: FloatArray, which: IntArray | slice = _ALL) -> FloatArray:
        """log of the term at x over that at another count."""
        law = self.law if which is _ALL else self.law.at(which)  # type: ignore[arg-type]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ratio = self.noise.relative(self.z[which], x, at, self.scale[which])
            return np.asarray(law.relative(x, at) + ratio)

    def terms(self, x: FloatArray, which: IntArray) -> FloatArray:
        """log P(x)·P(z | x), less :attr:`height`."""
        return self._relative(x, self.top[which], which)

    @cached_property
    def height(self) -> FloatArray:
        """log P(x)·P(z | x) at the top of each cell's window."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return self.law.log_prob(self.top) + self.noise.log_prob(self.z, self.top, self.scale)

    @cached_property
    def top(self) -> FloatArray:
        """The count with the largest term, or one near it."""
        upper, zero = self.law.upper, np.zeros(len(self))
        peak = np.clip(self.noise.peak(self.z, self.scale), zero, upper)
        mode = np.clip(self.law.mode, zero, upper)
        if self.law.pole is None:
            return climb(self._relative, mode, peak)
        a, log_q = self.law.pole

        def straight(x: FloatArray, at: FloatArray) -> FloatArray:  # concave where the law itself is not
            return np.asarray((x - at) * log_q + self.noise.relative(self.z, x, at, self.scale))

        concave = a >= 1
        top = climb(self._relative, np.where(concave, mode, peak), peak)
        flat = climb(straight, np.where(log_q <= 0, zero, np.where(np.isfinite(upper), upper, peak)), peak)
        return np.where(concave, top, flat)

    @cached_property
    def panels(self) -> Panels:
        """Where the terms are: a window around the largest, cut at the breaks of the noise."""
        upper, zero, top = self.law.upper, np.zeros(len(self)), self.top
        breaks = self.noise.breaks(self.z)
        if self.law.pole is None:
            low, high = (descend(self._relative, top, -TAIL, end) for end in (zero, upper))
            return _cut(low, breaks, high, graded=False)
        floor = np.fmax(0.0, self._relative(zero, top)) - _GRADED_TAIL
        high = descend(self._relative, top, floor, upper)
        low = np.where(self.law.pole[0] >= 1, descend(self._relative, top, floor, zero), zero)
        low = np.where(low < high - low, zero, low)
        return _cut(low, [*breaks, top + 1], high, graded=True)

    def blocks(self) -> Iterator[tuple[slice, Sums]]:
        """The sums, a bounded number of cells at a time."""
        for problems, block in self.panels.blocks():
            yield problems, evaluate(self.terms, block)

    def log_prob(self) -> FloatArray:
        """log P(z) of each cell."""
        result = self.height.copy()
        for rows, sums in self.blocks():
            result[rows] += sums.log_total
        return result

    def means(self, statistics: Sequence[Statistic]) -> list[FloatArray]:
        """E[g(x) | z] of each cell for each g."""
        result = [np.empty(len(self)) for _ in statistics]
        for rows, sums in self.blocks():
            for own, statistic in zip(result, statistics, strict=True):
                own[rows] = sums.mean(statistic(sums.x, sums.panels.problem[:, None]))
        return result

    def cumulants(self, orders: int, near: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log P(z), and the cumulants of the true count given z of orders 1, 2, …, shape (orders, cells).

        The first is less ``near + rest``: a whole number, and what is left of the mean before.
        """
        log_prob, moments = self.height.copy(), np.zeros((orders + 1, len(self)))
        for rows, sums in self.blocks():
            log_prob[rows] += sums.log_total
            x = sums.x - near[rows][sums.local][:, None]
            mean = sums.mean(x)
            moments[1, rows] = mean - rest[rows]
            gap = x - mean[sums.local][:, None]
            for order in range(2, orders + 1):
                moments[order, rows] = sums.mean(gap**order)
        cumulants = moments.copy()
        for order in range(4, orders + 1):
            for j in range(2, order - 1):
                cumulants[order] -= math.comb(order - 1, j - 1) * cumulants[j] * moments[order - j]
        return log_prob, cumulants[1:]

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """One true count for each cell given what was published."""
        return draw(self.terms, self.panels, rng)


def _cut(low: FloatArray, breaks: Sequence[FloatArray], high: FloatArray, graded: bool) -> Panels:
    inner = np.sort(np.clip(np.stack([low, *breaks, high + 1]), low, high + 1), axis=0)
    return cut(list(inner), graded)


@dataclass(frozen=True)
class Points:
    """The terms that matter of tilted cells, flat."""

    count: FloatArray
    weight: FloatArray
    which: IntArray
    first: IntArray
    centre: FloatArray
    """The whole number next to each cell's mean."""
    log_total: FloatArray

    @cached_property
    def x(self) -> FloatArray:
        """True counts less the centre of their cell."""
        return np.asarray(self.count - self.centre[self.which])

    @cached_property
    def offset(self) -> FloatArray:
        """The mean of each cell less its centre."""
        return self.sum(self.weight * self.x)

    @cached_property
    def variance(self) -> FloatArray:
        return self.sum(self.weight * (self.x - self.offset[self.which]) ** 2)

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Over the points of each cell."""
        return np.asarray(np.add.reduceat(values, self.first))


def _points(cells: Cells) -> Points:
    """Nodes and weights of all cells, those below 1e-22 of a cell's sum left out."""
    counts, weights, whiches, totals = [], [], [], []
    for _, sums in cells.blocks():
        kept = sums.weight > 1e-22
        counts.append(sums.x[kept])
        weights.append(sums.weight[kept])
        whiches.append(np.broadcast_to(sums.panels.problem[:, None], kept.shape)[kept])
        totals.append(sums.log_total)
    count, weight, which = np.concatenate(counts), np.concatenate(weights), np.concatenate(whiches)
    first = np.searchsorted(which, np.arange(len(cells)))
    centre = np.rint(np.add.reduceat(weight * count, first))
    return Points(count, weight, which, first, centre, cells.height + np.concatenate(totals))


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
        """s, Σ log Aᵢ(s) − sN, and the tilted cells: Newton's method, to a tenth of a deviation."""
        draws = len(self)
        s, low, high = np.zeros(draws), np.full(draws, -np.inf), np.full(draws, np.inf)
        for _ in range(200):
            law, constant = self.cells.law.tilted(np.repeat(s, self.width), float(self.total))
            tilted = Cells(law, self.cells.noise, self.cells.z, self.cells.scale)
            points = _points(tilted)
            gap = self._gap(points) + self._by_draw(points.offset)
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

    def _gap(self, points: Points) -> FloatArray:
        """Σ centre − N of each draw."""
        return np.asarray(self._by_draw(points.centre) - self.total)

    def _by_draw(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(values.reshape(len(self), self.width).sum(axis=1))

    @cached_property
    def _period(self) -> IntArray:
        """M, odd, such that at most e^{−45} of the mass of S lies at a distance of M or more from N."""
        points = self._saddle[3]
        deviation = np.sqrt(self._by_draw(points.variance))
        needed = np.full(len(self), 3.0)
        x = points.x - points.offset[points.which]
        for sign in (-1, 1):
            best = np.full(len(self), np.inf)
            for steep in (1.0, 2.0, 4.0, 7.0):
                delta = steep / np.maximum(deviation, 1e-3)
                power = np.minimum(sign * np.repeat(delta, self.width)[points.which] * x, 700)
                moment = self._by_draw(np.log(points.sum(points.weight * np.exp(power))))
                best = np.minimum(best, (moment + _ALIAS) / delta)
            needed = np.maximum(needed, best)
        off = np.abs(self._gap(points) + self._by_draw(points.offset))
        period = 2 * np.ceil((needed + off) / 2).astype(np.int64) + 1
        if period.max() > _MAX_PERIOD:
            raise TooLargeError(
                f"the sum of the true counts is spread over {period.max():.3g} values, more than "
                f"{_MAX_PERIOD:.0e}: a flat prior on a large total; use a smaller total or a tighter prior"
            )
        return np.asarray(period)

    def _waves(self) -> Iterator[tuple[FloatArray, Complex, Complex]]:
        """For j = 1, 2, …: 1 for draws that still need it, weight·e^{itx} of the points, and Π φ with phases.

        t = 2πj/M; the product is that of the characteristic functions of each draw's cells, shape (draws,
        width), as they stand: the caller multiplies.
        """
        points, period = self._saddle[3], self._period
        base = 2 * math.pi / period
        turn = np.exp(1j * np.repeat(base, self.width)[points.which] * points.x)
        phase = np.exp(1j * base * self._gap(points))
        wave, last = points.weight.astype(np.complex128), (period - 1) // 2
        turned = np.ones(len(self), dtype=np.complex128)
        quiet = np.zeros(len(self), dtype=np.int64)
        for j in range(1, int(last.max()) + 1):
            wave *= turn
            turned = turned * phase
            own = points.sum(wave).reshape(len(self), self.width)
            live = (j <= last) & (quiet < 3)
            yield np.where(live, turned, 0.0), wave, own
            small = np.abs(own.prod(axis=1)) < _NEGLIGIBLE
            quiet = np.where(quiet == 3, 3, np.where(small, quiet + 1, 0))
            if not np.any((j < last) & (quiet < 3)):
                return

    @cached_property
    def _by_fft(self) -> bool:
        """Whether some draw needs frequencies that wide panels do not resolve.

        A cell's characteristic function falls like 1/t² behind the kink of its noise, so the product of few
        cells carries weight at high frequencies: then every cell is listed at all whole numbers and
        transformed at once. With a dozen cells of like spread panels resolve what matters.
        """
        points, period = self._saddle[3], self._period
        variance = points.variance.reshape(len(self), self.width)
        alike = variance.sum(axis=1) ** 2 / np.maximum((variance**2).sum(axis=1), 1e-300)
        wide = self._saddle[2].panels.row.max() > 16
        return bool(wide and alike.min() < 12 and self.width * int(period.max()) <= _MAX_SPECTRUM)

    def _listed(self, draw: int) -> tuple[float, list[tuple[int, FloatArray]]]:
        """P_s(S = N) of one draw, and the law of each of its cells given that."""
        own = np.arange(draw * self.width, (draw + 1) * self.width)
        tilted, period = self._saddle[2], int(self._period[draw])
        laws = windows(Cells(tilted.law.at(own), tilted.noise, tilted.z[own], tilted.scale[own]))
        folded = np.zeros((self.width, period))
        for row, law in zip(folded, laws, strict=True):
            np.add.at(row, (law.low + np.arange(len(law.mass))) % period, law.mass)
        spectrum = np.fft.rfft(folded, axis=1)
        rest = np.fft.irfft(_others(spectrum.T).T, period, axis=1)
        result, hit = [], 0.0
        for row, law in zip(rest, laws, strict=True):
            x = law.low + np.arange(len(law.mass))
            mass = law.mass * np.maximum(row[(self.total - x) % period], 0.0)
            hit = float(mass.sum())
            result.append((law.low, mass / hit))
        return hit, result

    def log_prob(self) -> FloatArray:
        """log Σ over true counts of that total, of each draw."""
        if self._by_fft:
            return np.asarray(self._saddle[1] + np.log([self._listed(i)[0] for i in range(len(self))]))
        hit = np.ones(len(self))
        for phase, _, own in self._waves():
            hit += 2 * (own.prod(axis=1) * phase).real
        return np.asarray(self._saddle[1] + np.log(hit / self._period))

    def means(self, statistics: Sequence[Statistic]) -> list[FloatArray]:
        """E[g(xᵢ) | z, Σx = N] of each cell for each g."""
        if self._by_fft:
            result = [np.empty(len(self.cells)) for _ in statistics]
            for i in range(len(self)):
                for cell, (low, mass) in enumerate(self._listed(i)[1], start=i * self.width):
                    x = low + np.arange(len(mass), dtype=np.float64)
                    for mean, statistic in zip(result, statistics, strict=True):
                        mean[cell] = mass @ statistic(x, np.full(len(x), cell))
            return result
        points = self._saddle[3]
        values = [statistic(points.count, points.which) for statistic in statistics]
        # Differences from the mean under the tilt, so that small differences keep their digits.
        centres = [points.sum(points.weight * value) for value in values]
        values = [value - centre[points.which] for value, centre in zip(values, centres, strict=True)]
        hit, shifts = np.ones(len(self)), [np.zeros(len(points.first)) for _ in values]
        for phase, wave, own in self._waves():
            others = _others(own) * phase[:, None]
            hit += 2 * (others[:, 0] * own[:, 0]).real
            for shift, value in zip(shifts, values, strict=True):
                shift += 2 * (points.sum(wave * value) * others.ravel()).real
        share = np.repeat(hit, self.width)
        return [centre + shift / share for centre, shift in zip(centres, shifts, strict=True)]

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """For each cell of one draw (start, p): P(xᵢ = start + j | z, Σx = N) = p[j]."""
        if self._by_fft:
            return self._listed(0)[1]
        points, period = self._saddle[3], int(self._period[0])
        others = [np.ones(self.width, dtype=np.complex128)]
        others += [(_others(own) * phase[:, None])[0] for phase, _, own in self._waves()]
        spectrum = np.array(others)
        result = []
        for i, window in enumerate(windows(self._saddle[2])):
            # Σ_j others·e^{itx}: what the other cells say of xᵢ, on a circle of M values.
            rest = np.fft.irfft(spectrum[:, i], period)
            x = window.low + np.arange(len(window.mass))
            mass = window.mass * np.maximum(rest[(x - int(points.centre[i])) % period], 0.0)
            result.append((window.low, mass / mass.sum()))
        return result

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """``size`` vectors of true counts for each draw of the parameters, shape (draws, size, width)."""
        tilted = self._saddle[2]
        result = np.empty((len(self), size, self.width))
        for i in range(len(self)):
            own = np.arange(i * self.width, (i + 1) * self.width)
            one = Cells(tilted.law.at(own), tilted.noise, tilted.z[own], tilted.scale[own])
            result[i] = _Tree.of(windows(one)).draw(np.full(size, self.total, dtype=np.int64), rng)
        return result


@dataclass(frozen=True)
class _Tree:
    """The law of a sum of cells on {low, …}, with its two halves."""

    low: int
    mass: FloatArray
    halves: tuple[_Tree, _Tree] | None = None

    @classmethod
    def of(cls, level: list[_Tree]) -> _Tree:
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


def _others(own: Complex) -> Complex:
    """Products of all entries of a row but each one, without a division."""
    result = np.ones_like(own)
    result[:, 1:] *= np.cumprod(own[:, :-1], axis=1)
    result[:, :-1] *= np.cumprod(own[:, :0:-1], axis=1)[:, ::-1]
    return result


def windows(cells: Cells) -> list[_Tree]:
    """The law of every cell at all whole numbers of its window."""
    panels = cells.panels
    width = np.where(panels.row < 16, panels.row, np.ldexp(16.0, np.maximum(panels.row - 16, 0)))
    lows = np.minimum.reduceat(panels.start, panels.first)
    highs = np.maximum.reduceat(panels.start + width, panels.first)
    if (highs - lows).sum() > _MAX_VALUES:
        raise TooLargeError(
            f"the true counts may have {(highs - lows).sum():.3g} values, more than {_MAX_VALUES:.0e} that "
            "can be listed; use fewer cells, or expected_counts"
        )
    result = []
    ends = np.cumsum(highs - lows)
    for block in np.split(np.arange(len(lows)), np.flatnonzero(np.diff(ends // _POINTS_AT_ONCE)) + 1):
        length = (highs - lows)[block].astype(np.int64)
        which = np.repeat(block, length)
        before = np.cumsum(length) - length
        x = np.arange(len(which)) - np.repeat(before, length) + lows[which]
        log_mass = cells.terms(x.astype(np.float64), which)
        log_mass -= np.maximum.reduceat(log_mass, before)[which - block[0]]
        parts = np.split(np.exp(log_mass), before[1:])
        result += [_trimmed(int(low), mass) for low, mass in zip(lows[block], parts, strict=True)]
    return result
