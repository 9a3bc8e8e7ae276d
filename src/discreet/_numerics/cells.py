"""Posteriors of the true counts x of cells given noisy counts z: of each cell alone, or given their total.

Of each cell alone (:class:`Cells`): log P(z) = log Σ_x P(x)·P(z | x), and posterior means of functions of x.

Given the total N (:class:`Constrained`), for a multinomial or noise that sums to zero. If every cell is
tilted by e^{sx}, with the constants Aᵢ(s) = Σ_x P(x)P(zᵢ | x)e^{sx}, then exactly and for every s

    log Σ_{Σx = N} Πᵢ P(xᵢ)P(zᵢ | xᵢ) = Σᵢ log Aᵢ(s) − sN + log P_s(S = N),

where S = Σx and P_s is its probability under the tilt. s is chosen near the saddle point E_s[S] = N, where
P_s(S = N) is large. P_s(S = N) is computed from characteristic functions if there are many cells, and by
convolution if there are few. The *window* of a cell is the range of counts with non-negligible probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._numerics.count_vectors import Saddle, Separable, Window
from discreet._numerics.counts import CountDistribution, RisingDistribution
from discreet._numerics.noises import Noise
from discreet._numerics.summation import TAIL, Panels, Sums, cut, draw
from discreet._typing import FloatArray, IntArray
from discreet.errors import TooLargeError

Complex = npt.NDArray[np.complex128]
Statistic = Callable[[FloatArray, IntArray], FloatArray]
"""g(x, which): a function of the true counts x of the cells with the indices ``which``."""

Ratio = Callable[[FloatArray, FloatArray], FloatArray]
"""A function of (x, at) that returns f(x) − f(at), elementwise."""

_ALL = slice(None)
_GRADED_TAIL = TAIL + 20  # a distribution that is not log-concave may have its mass far from its largest term
_LARGEST_TILT_NATS = 5.0  # a window is reused for tilts that change its weights by up to this
_ALIAS_NATS = 45.0  # how far below the largest term the aliased terms are
_NEGLIGIBLE_TRANSFORM = 1e-18  # characteristic functions below this are taken for zero
_LARGEST_PERIOD = 2_000_000
_MOST_LISTED_COUNTS = 1 << 27
_MOST_CONVOLVED_COUNTS = 1 << 26
_MOST_FOLDED_COUNTS = 1 << 25
_FEW_CELLS = 16  # up to this many cells are transformed at all frequencies at once


def distinct(*columns: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Find the distinct rows of some columns, as ``numpy.unique`` does.

    Returns the index of each distinct row's first occurrence, the inverse indices, and the frequencies.
    """
    order = np.lexsort(columns)
    new = np.append(True, np.any([np.diff(column[order]) != 0 for column in columns], axis=0))
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(new) - 1
    return order[new], inverse, np.bincount(inverse).astype(np.float64)


def climb(relative: Ratio, start: FloatArray, end: FloatArray) -> FloatArray:
    """Return the whole number between ``start`` and ``end`` at which a concave f is largest, by bisection."""
    direction = np.sign(end - start)
    low, high = np.zeros(len(start)), np.abs(end - start)  # the answer is in [low, high]
    while np.any(low < high):
        middle = low + np.floor((high - low) / 2)  # their sum may be beyond the doubles that are exact
        here = start + direction * middle
        with np.errstate(invalid="ignore"):
            rises = (relative(here + direction, here) > 0) & (middle < high)
        low, high = np.where(rises, middle + 1, low), np.where(rises, high, middle)
    return np.asarray(start + direction * low)


def descend(relative: Ratio, start: FloatArray, floor: FloatArray | float, end: FloatArray) -> FloatArray:
    """Return a whole number between ``start`` and ``end`` beyond which f < f(start) + floor; else ``end``.

    It is found approximately, to a sixteenth of the distance; ``end`` may be infinite.
    """
    direction = np.where(end >= start, 1.0, -1.0)
    most = np.abs(end - start)
    inside, step = np.zeros(len(start)), np.minimum(1.0, most)
    while True:
        above = relative(start + direction * step, start) >= floor
        going = above & (step < most)
        if not going.any():
            break
        inside = np.where(going, step, inside)
        step = np.where(going, np.minimum(2 * step, most), step)
    outside = step
    for _ in range(4):  # within a sixteenth of the distance
        middle = np.floor((inside + outside) / 2)
        above = relative(start + direction * middle, start) >= floor
        inside, outside = np.where(above, middle, inside), np.where(above, outside, middle)
        outside = np.maximum(outside, inside)
    return np.asarray(start + direction * np.where(outside >= most, most, outside))


@dataclass(frozen=True)
class Cells:
    """The posteriors P(x | z) ∝ P(x)·P(z | x) of the true counts of cells, each cell alone.

    ``distribution`` is the prior P(x); ``z`` holds the noisy counts and ``scale`` the scales of the noise.
    The terms of a cell are the products P(x)·P(z | x).
    """

    distribution: CountDistribution
    noise: Noise
    z: FloatArray
    scale: FloatArray

    def __len__(self) -> int:
        return len(self.z)

    def _relative(self, x: FloatArray, at: FloatArray, which: IntArray | slice = _ALL) -> FloatArray:
        """Return the log-ratio of the terms at two counts, ``x`` and ``at``."""
        distribution = self.distribution if which is _ALL else self.distribution.at(which)  # type: ignore[arg-type]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            ratio = self.noise.relative(self.z[which], x, at, self.scale[which])
            return np.asarray(distribution.relative(x, at) + ratio)

    def terms(self, x: FloatArray, which: IntArray) -> FloatArray:
        """Return log(P(x)·P(z | x)) − :attr:`height`."""
        return self._relative(x, self.top[which], which)

    @cached_property
    def height(self) -> FloatArray:
        """log(P(x)·P(z | x)) at x = :attr:`top`, for each cell."""
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            return self.distribution.log_prob(self.top) + self.noise.log_prob(self.z, self.top, self.scale)

    @cached_property
    def top(self) -> FloatArray:
        """The posterior mode of each cell's true count, or a count near it."""
        upper, zero = self.distribution.upper, np.zeros(len(self))
        peak = np.clip(self.noise.peak(self.z, self.scale), zero, upper)
        mode = np.clip(self.distribution.mode, zero, upper)
        if self.distribution.singularity is None:
            return climb(self._relative, mode, peak)
        a, log_q = self.distribution.singularity

        # concave where the distribution itself is not
        def straight(x: FloatArray, at: FloatArray) -> FloatArray:
            return np.asarray((x - at) * log_q + self.noise.relative(self.z, x, at, self.scale))

        concave = a >= 1
        top = climb(self._relative, np.where(concave, mode, peak), peak)
        if concave.all():
            return top
        flat = climb(straight, np.where(log_q <= 0, zero, np.where(np.isfinite(upper), upper, peak)), peak)
        return np.where(concave, top, flat)

    @cached_property
    def _floor(self) -> FloatArray | float:
        """Return the log-ratio to the largest term below which other terms are negligible."""
        if self.distribution.singularity is None:
            return -TAIL
        tail = np.where(self.distribution.singularity[0] < 1, _GRADED_TAIL, TAIL)
        return np.fmax(0.0, self._relative(np.zeros(len(self)), self.top)) - tail

    @cached_property
    def first(self) -> FloatArray:
        """The first count of each cell's window, approximately."""
        zero = np.zeros(len(self))
        low = descend(self._relative, self.top, self._floor, zero)
        if self.distribution.singularity is None:
            return low
        # Below 1 the distribution rises again towards 0, where it may matter.
        matters = self._relative(zero, self.top) >= self._floor
        return np.where((self.distribution.singularity[0] < 1) & matters, zero, low)

    @cached_property
    def last(self) -> FloatArray:
        """The last count of each cell's window, approximately."""
        return descend(self._relative, self.top, self._floor, self.distribution.upper)

    @property
    def extent(self) -> FloatArray:
        """The number of counts in each cell's window."""
        return np.asarray(self.last - self.first + 1)

    @cached_property
    def panels(self) -> Panels:
        """The panels that cover the windows; none contains a kink of the noise."""
        breaks, low, high = self.noise.breaks(self.z), self.first, self.last
        graded = self.distribution.singularity is not None
        if graded:
            breaks = [*breaks, self.top + 1]
            low = np.where(low < high - low, 0.0, low)  # nearer to the singularity than panels resolve
        edges = np.sort(np.clip(np.stack([low, *breaks, high + 1]), low, high + 1), axis=0)
        return cut(list(edges), graded)

    def _evaluate(self, panels: Panels, around: FloatArray) -> Sums:
        """Evaluate the terms at the nodes of some panels."""
        x = panels.nodes
        return Sums.of(panels, x, self.terms(x, panels.problem[:, None]), around)

    def all_terms(self, whole: bool) -> Sums:
        """Return all terms in the windows, at the nodes of panels or (``whole``) at every count."""
        if not whole:
            return self._evaluate(self.panels, self.top)
        return self.between(self.first, self.last)

    def between(self, low: FloatArray, high: FloatArray) -> Sums:
        """Return the terms at every whole number from ``low`` to ``high`` of each cell."""
        if (size := float((high - low + 1).sum())) > _MOST_LISTED_COUNTS:
            raise TooLargeError(
                f"the noise spreads {len(self)} different counts over {size:.3g} possible values, more than "
                f"{_MOST_LISTED_COUNTS:.3g}"
            )
        return self._evaluate(cut([low, high + 1], whole=True), self.top)

    def blocks(self) -> Iterator[tuple[slice, Sums]]:
        """Yield the sums of the cells in blocks, to bound memory."""
        for problems, block in self.panels.blocks():
            yield problems, self._evaluate(block, self.top[problems])

    def log_prob(self) -> FloatArray:
        """Return log P(z) of each cell."""
        result = self.height.copy()
        for rows, sums in self.blocks():
            result[rows] += sums.log_total
        return result

    def means(self, statistics: Sequence[Statistic]) -> list[FloatArray]:
        """Return E[g(x) | z] of each cell for each g."""
        result = [np.empty(len(self)) for _ in statistics]
        for rows, sums in self.blocks():
            for means, statistic in zip(result, statistics, strict=True):
                means[rows] = sums.mean(statistic(sums.x, sums.panels.problem[:, None]))
        return result

    def cumulants(self, orders: int, near: FloatArray, rest: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log P(z), and the cumulants of x given z of orders 1, 2, …, shape (orders, cells).

        The prior mean is subtracted from the first cumulant. It is given as a whole number ``near`` and a
        remainder ``rest``, so that large counts lose no digits.
        """
        log_prob, cumulants = self.height.copy(), np.empty((orders, len(self)))
        for rows, sums in self.blocks():
            log_prob[rows] += sums.log_total
            cumulants[:, rows] = sums.cumulants(orders)
        cumulants[0] += (self.top - near) - rest
        return log_prob, cumulants

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw one true count for each cell given the published values."""
        return draw(self.terms, self.panels, rng)


@dataclass(frozen=True, eq=False)
class SumOfCells:
    """The distribution of the sum S of independent cells, for several rows of ``width`` cells each.

    In each row the i-th cell occurs ``times[i]`` times. P(S ≡ v mod M) is computed from the characteristic
    functions of the cells at the frequencies 2πj/M. M is so large that by Chernoff's bound less than e^{−45}
    of the probability lies M or more away from v. Frequencies are added until the product of the
    characteristic functions stays below 1e-18.
    """

    sums: Sums
    times: FloatArray

    @property
    def width(self) -> int:
        return len(self.times)

    def __len__(self) -> int:
        return len(self.sums) // self.width

    def by_row(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return Σ times · values over the cells of each row."""
        return np.asarray(values.reshape(len(self), self.width) @ self.times)

    @cached_property
    def around(self) -> FloatArray:
        """The origin of the moments of each row's sum, a whole number."""
        return self.by_row(self.sums.around)

    @cached_property
    def variance(self) -> FloatArray:
        return self.by_row(self.sums.variance)

    def period(self, off: FloatArray) -> IntArray:
        """Return an odd M, for each row, for values at a distance of up to ``off`` from the mean of the sum.

        The probability that the sum is M or more away from such a value is negligible.
        """
        sums, deviation = self.sums, np.sqrt(self.variance)
        needed = np.full(len(self), 3.0)
        x = sums.away - sums.offset[sums.local][:, None]
        for sign in (-1, 1):
            best = np.full(len(self), np.inf)
            for steep in (2.0, 6.0):
                delta = steep / np.maximum(deviation, 1e-3)
                power = np.minimum(sign * np.repeat(delta, self.width)[sums.local][:, None] * x, 700)
                moment = self.by_row(np.log(sums.mean(np.exp(power))))
                best = np.minimum(best, (moment + _ALIAS_NATS) / delta)
            needed = np.maximum(needed, best)
        return 2 * np.ceil((needed + off) / 2).astype(np.int64) + 1

    def waves(self, period: IntArray) -> Iterator[tuple[Complex, npt.NDArray[np.bool_], Complex]]:
        """Yield, for each frequency t = 2πj/M, j = 1, 2, …, a tuple of three arrays.

        They are weight·e^{it(x − around)} at the nodes; for each row, whether this j is still needed (False
        beyond the row's M, or once its sum has converged); and the sums of the first array over each cell.
        """
        sums = self.sums
        turn = np.exp(1j * np.repeat(2 * math.pi / period, self.width)[sums.local][:, None] * sums.away)
        wave, last = sums.weight.astype(np.complex128), (period - 1) // 2
        quiet = np.zeros(len(self), dtype=np.int64)
        for j in range(1, int(last.max()) + 1):
            wave *= turn
            transforms = sums.sum(wave).reshape(len(self), self.width)
            yield wave, (j <= last) & (quiet < 3), transforms
            quiet = np.where(
                quiet == 3,
                3,
                np.where(np.abs(self.product(transforms)) < _NEGLIGIBLE_TRANSFORM, quiet + 1, 0),
            )
            if not np.any((j < last) & (quiet < 3)):
                return

    def product(self, transforms: Complex) -> Complex:
        """Return the characteristic function of each row's sum, from those of the cells."""
        return np.asarray(self._powers(transforms).prod(axis=1))

    def _powers(self, transforms: Complex) -> Complex:
        return transforms if self._single else transforms**self.times

    @cached_property
    def _single(self) -> bool:
        return bool(np.all(self.times == 1))

    def others(self, transforms: Complex) -> Complex:
        """Return, for each cell, the characteristic function of the sum without one copy of that cell.

        It is computed without a division, from products of the cells before and after.
        """
        powers = self._powers(transforms)
        result = np.ones_like(transforms) if self._single else transforms ** (self.times - 1)
        result[:, 1:] *= np.cumprod(powers[:, :-1], axis=1)
        result[:, :-1] *= np.cumprod(powers[:, :0:-1], axis=1)[:, ::-1]
        return result

    def transform(self, period: int) -> Complex:
        """Return E[e^{it(x − around)}] for the cells of one row at t = 2πj/M, shape (number of j, cells).

        If there are few cells, many j are needed, and every whole number must be a node.
        """
        if self.width > _FEW_CELLS or self.width * period > _MOST_FOLDED_COUNTS:
            return np.array([transforms[0] for _, _, transforms in self.waves(np.array([period]))])
        place = self.sums.local[:, None] * period + self.sums.away.astype(np.int64) % period
        folded = np.bincount(place.ravel(), self.sums.weight.ravel(), self.width * period)
        return np.fft.rfft(folded.reshape(self.width, period), axis=1).conj().T[1:]

    def small_sums_of_others(self, number: int) -> FloatArray:
        """Return, for each cell of one row, P(sum of all other cells = j), shape (width, number).

        Here j runs from 0 to ``number`` − 1, and only one copy of the cell is left out.
        """
        mean = self.around + self.by_row(self.sums.offset)
        period = int(self.period(np.abs(mean) + number)[0])
        others = self.others(self.transform(period))
        angle = 2j * math.pi / period * np.arange(1, len(others) + 1)
        others *= np.exp(np.outer(angle, self.around[0] - self.sums.around))
        spectrum = others.T @ np.exp(-np.outer(angle, np.arange(number)))
        return np.asarray(np.maximum((1 + 2 * spectrum.real) / period, 0.0))


@dataclass(frozen=True, eq=False)
class Constrained:
    """Posteriors of the true counts of cells whose sum is ``total``, for several rows of cells.

    There may be a row for each draw of parameters. The i-th cell of a row occurs ``times[i]`` times. With
    ``whole`` all counts of the windows are listed; :meth:`distributions` needs this.
    """

    cells: Cells
    times: FloatArray
    total: int
    whole: bool = False

    def __len__(self) -> int:
        return len(self.cells) // len(self.times)

    @cached_property
    def _saddle(self) -> tuple[Cells, FloatArray, SumOfCells]:
        """The tilted cells, Σ log Aᵢ(s) − sN for each row, and the sums of the cells.

        The tilt s makes the mean of each sum equal to N to within a tenth of its standard deviation.
        """
        rows, width = len(self), len(self.times)
        cells, constant, cut_at = self.cells, np.zeros(len(self.cells)), np.zeros(rows)
        listed = cells.all_terms(self.whole)
        saddle = Saddle(rows, 0.1)
        while True:
            moved = saddle.s - cut_at
            if np.any(np.abs(moved) * cells.extent.reshape(rows, width).max(axis=1) > _LARGEST_TILT_NATS):
                distribution, constant = self.cells.distribution.tilt(
                    np.repeat(saddle.s, width), float(self.total)
                )
                cells, cut_at, moved = (
                    replace(self.cells, distribution=distribution),
                    saddle.s,
                    np.zeros(rows),
                )
                listed = cells.all_terms(self.whole)
            sums = SumOfCells(listed.tilt(np.repeat(moved, width)), self.times)
            off = sums.around - self.total + sums.by_row(sums.sums.offset)
            if not saddle.improve(off, sums.variance):
                break
        log_scale = sums.by_row(constant + cells.height + sums.sums.log_total)
        log_scale += moved * (sums.around - self.total) - cut_at * self.total
        return cells, log_scale, sums

    @cached_property
    def _period(self) -> IntArray:
        sums = self._saddle[2]
        period = sums.period(np.abs(sums.around - self.total + sums.by_row(sums.sums.offset)))
        if period.max() > _LARGEST_PERIOD:
            raise TooLargeError(
                f"the sum of the true counts is spread over {period.max():.3g} values, more than "
                f"{_LARGEST_PERIOD:.0e}; use a smaller total or a tighter prior"
            )
        return period

    @cached_property
    def _convolve(self) -> list[Separable] | None:
        """The exact distribution of each row, by convolution; None where panels are accurate enough.

        Laplace noise has a kink, so the characteristic function of a cell falls only like 1/t². The product
        of a few such functions is not negligible at high frequencies, which wide panels do not resolve. Then
        all counts are listed and convolved. For a dozen cells of similar spread, panels suffice.
        """
        cells, _, sums = self._saddle
        variance = sums.sums.variance.reshape(len(self), -1)
        alike = sums.variance**2 / np.maximum(variance**2 @ self.times, 1e-300)
        most = float((cells.extent.reshape(len(self), -1) @ self.times).max())
        few = self.times.sum() <= 256 and most <= _MOST_CONVOLVED_COUNTS and alike.min() < 12
        return self._separable if few and (self.whole or cells.panels.row.max() > 16) else None

    def check(self) -> None:
        """Raise ``TooLargeError`` if there are too many possible counts to sum over."""
        if self._convolve is None:
            _ = self._period

    @cached_property
    def whole_terms(self) -> Sums:
        """Return the terms of the tilted cells at every whole number."""
        cells, _, sums = self._saddle
        return sums.sums if self.whole else replace(self, cells=cells, whole=True).whole_terms

    @property
    def _separable(self) -> list[Separable]:
        """The joint distribution of each row's true counts given their total."""
        listed, width = self.whole_terms, len(self.times)
        windows = [
            Window(int(low), distribution)
            for low, distribution in zip(listed.starts, listed.distributions(), strict=True)
        ]
        result = []
        for row in range(len(self)):
            row_windows = zip(windows[row * width : (row + 1) * width], self.times, strict=True)
            repeated = tuple(window for window, times in row_windows for _ in range(int(times)))
            result.append(Separable((0,) * len(repeated), self.total, repeated, 0.0, 0.0))
        return result

    def log_prob(self) -> FloatArray:
        """Return log Σ_{Σx = N} Πᵢ P(xᵢ)P(zᵢ | xᵢ) for each row."""
        _, log_scale, sums = self._saddle
        if self._convolve is not None:
            return np.asarray(log_scale + [distribution.log_normaliser for distribution in self._convolve])
        hit, phase, turned = np.ones(len(self)), self._phase, np.ones(len(self), dtype=np.complex128)
        for _, live, transforms in sums.waves(self._period):
            turned = turned * phase
            hit += 2 * (sums.product(transforms) * turned).real * live
        return np.asarray(log_scale + np.log(np.maximum(hit / self._period, 1e-300)))

    @property
    def _phase(self) -> Complex:
        return np.asarray(np.exp(2j * math.pi / self._period * (self._saddle[2].around - self.total)))

    @cached_property
    def _joint(self) -> FloatArray:
        """Return M·P_s(xᵢ = x and S = N) at every node x of every cell."""
        sums = self._saddle[2]
        joint = sums.sums.weight.copy()
        turned, phase, local = np.ones(len(self), dtype=np.complex128), self._phase, sums.sums.local
        for wave, live, transforms in sums.waves(self._period):
            turned = turned * phase
            others = 2 * sums.others(transforms) * (turned * live)[:, None]
            joint += (others.ravel()[local][:, None] * wave).real
        return joint

    def means(self, statistics: Sequence[Statistic]) -> list[FloatArray]:
        """Return E[g(xᵢ) | z, Σx = N] of each cell for each g."""
        if self._convolve is not None:
            means = [np.empty(len(self.cells)) for _ in statistics]
            distributions = (distribution for row in self._convolve for distribution in row.marginals())
            for i, (low, p) in enumerate(distributions):
                x, which = low + np.arange(float(len(p))), np.full(len(p), i)
                for mean, statistic in zip(means, statistics, strict=True):
                    mean[i] = p @ statistic(x, which)
            return means
        sums = self._saddle[2].sums
        share = self._joint / sums.sum(self._joint)[sums.local][:, None]
        result = []
        for statistic in statistics:
            values = statistic(sums.x, sums.panels.problem[:, None])
            # Differences from the mean under the tilt, so that small differences keep their digits.
            centre = sums.mean(values)
            result.append(centre + sums.sum(share * (values - centre[sums.local][:, None])))
        return result

    def distributions(self) -> list[tuple[int, FloatArray]]:
        """Return (start, p) for each cell of a single row: P(xᵢ = start + j | z, Σx = N) = p[j].

        Needs ``whole``.
        """
        if self._convolve is not None:
            marginals = self._convolve[0].marginals()
            return [marginals[int(first)] for first in np.cumsum(self.times) - self.times]
        sums = self._saddle[2].sums
        distributions = sums.distributions(np.maximum(self._joint, 0.0))
        return [
            (int(start), distribution) for start, distribution in zip(sums.starts, distributions, strict=True)
        ]

    def draw(self, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw ``size`` vectors of true counts for each row, shape (rows, size, cells)."""
        return np.stack([distribution.sample(size, rng) for distribution in self._separable])


class GivenTotal:
    """The posterior of the true counts x of all levels when their total n is public.

    π(x | z) ∝ DirMult(x; α, n)·P(z | x). Levels with the same noisy count, scale and prior are computed once.
    """

    def __init__(self, values: Sequence[float] | FloatArray, noise: Noise, prior: Sequence[float], n: int):
        self._values, self._noise = values, noise
        z, alpha = np.asarray(values, dtype=np.float64), np.asarray(prior, dtype=np.float64)
        scale = noise.scales(len(z))
        first, self.inverse, times = distinct(z, scale, alpha)
        """For each level, the index of its distinct level (same noisy count, scale and prior)."""
        self.n, self.strength = n, math.fsum(alpha)
        self.prior = alpha[first]
        """The prior parameter of each distinct level."""
        cells = Cells(RisingDistribution.of(alpha[first], n), noise, z[first], scale[first])
        self._distribution = Constrained(cells, times, n, whole=True)

    def under(self, prior: Sequence[float]) -> GivenTotal:
        """Return the same distribution under another prior."""
        return GivenTotal(self._values, self._noise, prior, self.n)

    def with_total(self, n: int) -> GivenTotal:
        """Return the same distribution for another total."""
        return GivenTotal(self._values, self._noise, self.prior[self.inverse].tolist(), n)

    def check(self) -> None:
        """Raise ``TooLargeError`` if too many true counts are possible."""
        self._distribution.check()

    @cached_property
    def log_evidence(self) -> float:
        """log P(z), up to a constant that does not depend on the prior."""
        prior = math.lgamma(self.strength) - math.lgamma(self.strength + self.n)
        return float(self._distribution.log_prob()[0]) + prior

    @property
    def nodes(self) -> list[tuple[float, GivenTotal]]:
        """This distribution as a mixture with one component, of weight 1."""
        return [(1.0, self)]

    @cached_property
    def distinct_marginals(self) -> list[tuple[int, FloatArray]]:
        """(start, p) for each distinct level, with p[j] = P(xᵢ = start + j | z)."""
        return self._distribution.distributions()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """Return (start, p) for each level, with p[j] = P(xᵢ = start + j | z)."""
        return [self.distinct_marginals[i] for i in self.inverse]

    def medians(self) -> FloatArray:
        """Return interpolated medians of the true counts, for each level."""
        medians = [start + interpolated_median(p) for start, p in self.distinct_marginals]
        return np.maximum(medians, 0.0)[self.inverse]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw true counts jointly, of shape (size, k)."""
        draws = np.empty((size, len(self.inverse)), dtype=np.int64)
        draws[:, np.argsort(self.inverse, kind="stable")] = self._distribution.draw(size, rng)[0]
        return draws


def interpolated_median(mass: FloatArray) -> float:
    """Return the median of a distribution on 0, 1, …, with each mass spread evenly over a unit interval."""
    cumulative = np.cumsum(mass)
    at = int(np.searchsorted(cumulative, 0.5))
    below = float(cumulative[at - 1]) if at else 0.0
    return at - 0.5 + (0.5 - below) / float(mass[at])
