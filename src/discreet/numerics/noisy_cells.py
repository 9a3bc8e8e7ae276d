"""What noisy counts say about the true ones, cell by cell, for very many cells at once.

A cell has a noisy count z and a prior parameter α, and its true count x the weight

    w(x) = Γ(α + x)/(Γ(α) x!) · P(noise = z − x) · e^{θx},   x = 0, 1, …

with a tilt θ that the model chooses: it carries the total. Cells with the same z and α have the same weights,
so only distinct cells are computed, with a count of how often they occur. Each has its own window of x,
outside of which less than e^{−45} of its largest weight is left out; windows of similar length form an array.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray, IntArray
from discreet.errors import TooLargeError
from discreet.numerics.log_gamma import log_rising

_NEGLIGIBLE = 45.0
_MOST_ENTRIES = 1 << 27
_BLOCK = 1 << 20
_FEW = 64  # up to so many cells small sums are convolved


class CellNoise(Protocol):
    """A symmetric, log-concave law on the integers."""

    @property
    def variance(self) -> float: ...

    def log_pmf(self, v: FloatArray) -> FloatArray: ...

    def shift(self, tilt: float) -> float:
        """How far e^{tilt·v} moves its peak."""
        ...


@dataclass(frozen=True)
class GeometricNoise:
    """P(v) = tanh(rate/2)·e^{−rate·|v|}."""

    rate: float

    @property
    def variance(self) -> float:
        return 2 * math.exp(-self.rate) / math.expm1(-self.rate) ** 2

    def log_pmf(self, v: FloatArray) -> FloatArray:
        return math.log(math.tanh(self.rate / 2)) - self.rate * np.abs(v)

    def shift(self, tilt: float) -> float:
        return 0.0


@dataclass(frozen=True)
class RoundedGaussianNoise:
    """P(v) = Φ((v + ½)/σ) − Φ((v − ½)/σ)."""

    sigma: float

    @property
    def variance(self) -> float:
        return self.sigma**2 + 1 / 12

    def log_pmf(self, v: FloatArray) -> FloatArray:
        from scipy.special import log_ndtr

        away = np.abs(v)
        near, far = log_ndtr((0.5 - away) / self.sigma), log_ndtr((-0.5 - away) / self.sigma)
        return np.asarray(near + np.log(-np.expm1(far - near)), dtype=np.float64)

    def shift(self, tilt: float) -> float:
        return tilt * self.sigma**2


@dataclass(frozen=True)
class Block:
    """Cells with windows of one length: row r of ``log_weight`` is about x = start[r], start[r] + 1, …"""

    rows: IntArray
    start: FloatArray
    log_weight: FloatArray

    def tilted(self, tilt: float) -> tuple[FloatArray, FloatArray]:
        """Normalised weights e^{tilt·x}·w(x), and the logarithms of what they were divided by."""
        exponent = self.log_weight + tilt * np.arange(self.log_weight.shape[1])
        top = exponent.max(axis=1, keepdims=True)
        mass = np.exp(np.subtract(exponent, top, out=exponent), out=exponent)
        size = mass.sum(axis=1, keepdims=True)
        mass /= size
        return mass, np.asarray(top[:, 0] + np.log(size[:, 0]) + tilt * self.start)


@dataclass(frozen=True)
class TiltedCells:
    """Distinct cells: ``noisy`` z and ``prior`` α of each, and how many there are of it."""

    noisy: IntArray
    prior: FloatArray
    count: IntArray
    inverse: IntArray
    """Which distinct cell each of the k cells is."""
    noise: CellNoise
    upper: float = math.inf
    """The largest true count that is possible."""

    @classmethod
    def of(cls, noisy: IntArray, prior: FloatArray, noise: CellNoise, upper: float = math.inf) -> TiltedCells:
        z = np.asarray(noisy, dtype=np.int64)
        alpha = np.broadcast_to(np.asarray(prior, dtype=np.float64), z.shape)
        _, code = np.unique(alpha, return_inverse=True)
        order = np.lexsort((z, code))
        new = np.append(True, (np.diff(z[order]) != 0) | (np.diff(code[order]) != 0))
        inverse = np.empty(len(z), dtype=np.int64)
        inverse[order] = np.cumsum(new) - 1
        first = order[new]
        return cls(z[first], alpha[first], np.bincount(inverse), inverse, noise, upper)

    def __len__(self) -> int:
        return len(self.noisy)

    @property
    def k(self) -> int:
        return len(self.inverse)

    def log_weight(self, x: FloatArray, rows: IntArray) -> FloatArray:
        """log w(x) without the tilt; a row of x for each of ``rows``."""
        alpha, z = self.prior[rows], self.noisy[rows].astype(np.float64)
        if x.ndim == 2:
            alpha, z = alpha[:, None], z[:, None]
        return log_choices(alpha, x) + self.noise.log_pmf(z - x)

    def windows(self, low: float, high: float) -> tuple[IntArray, IntArray]:
        """First and last x of each cell that matter for some tilt between ``low`` and ``high``."""
        return self._edge(low, -1), self._edge(high, 1)

    def _edge(self, tilt: float, direction: int) -> IntArray:
        """How far weights of the tilt stay above e^{−45} of the largest one, to the left or to the right."""
        every = np.arange(len(self))
        peak = self._peak(tilt)
        top = self.log_weight(peak, every) + tilt * peak
        at_zero = self.log_weight(np.zeros(len(self)), every)
        top = np.maximum(top, at_zero)
        if direction < 0:
            peak = np.where(at_zero < top - _NEGLIGIBLE, peak, 0.0)
        reach, step = peak.copy(), np.ones(len(self))
        open_ = every
        while len(open_):
            x = np.clip(reach[open_] + direction * step[open_], 0.0, self.upper)
            inside = self.log_weight(x, open_) + tilt * x >= top[open_] - _NEGLIGIBLE
            # Doubled steps find the order of magnitude: a window may be twice too wide, never too short.
            reach[open_] = x
            step[open_] *= 2
            moving = inside & (x > 0 if direction < 0 else x < self.upper)
            open_ = open_[moving]
            if len(open_) and step[open_].max() > 1e15:
                raise TooLargeError("the noise is too large for the true counts to be weighed one by one")
        return reach.astype(np.int64)

    def _peak(self, tilt: float) -> FloatArray:
        """About where the weight is largest, the spike at 0 of priors below 1 aside."""
        z = self.noisy.astype(np.float64)
        centre = np.clip(np.round(z + self.noise.shift(tilt)), 0.0, self.upper)
        rows = np.flatnonzero(self.prior > 1)
        if not len(rows):
            return centre
        # A prior above 1 is log-concave like the noise, so the steps of log w fall: bisect for their sign.
        low, high = np.zeros(len(rows)), np.maximum(centre[rows], 1.0)

        def rises(x: FloatArray) -> npt.NDArray[np.bool_]:
            step = np.log((self.prior[rows] + x) / (1 + x)) + tilt
            step += self.noise.log_pmf(z[rows] - x - 1) - self.noise.log_pmf(z[rows] - x)
            return np.asarray((step > 0) & (x < self.upper))

        while (up := rises(high)).any() and high.max() < 1e15:
            high = np.where(up, 2 * high, high)
        while (high - low > 1).any():
            middle = np.floor((low + high) / 2)
            up = rises(middle)
            low, high = np.where(up, middle, low), np.where(up, high, middle)
        centre[rows] = np.minimum(np.where(rises(low), high, low), self.upper)
        return centre

    def blocks(self, low: float, high: float) -> Iterator[Block]:
        """All cells, a block at a time, with windows for the tilts between ``low`` and ``high``."""
        first, last = self.windows(low, high)
        width = last - first + 1
        if float(width.sum()) > _MOST_ENTRIES:
            raise TooLargeError(
                f"the noise spreads {len(self)} different counts over {float(width.sum()):.3g} possible "
                f"values, more than {_MOST_ENTRIES:.3g}"
            )
        order = np.argsort(width, kind="stable")
        start = 0
        while start < len(order):
            # Rows in order of width: a block ends where its widest row is twice as wide as its narrowest.
            end = int(np.searchsorted(width[order], 2 * width[order[start]], side="right"))
            end = min(end, start + max(1, _BLOCK // int(width[order[end - 1]])))
            rows = order[start:end]
            start = end
            x = first[rows, None].astype(np.float64) + np.arange(int(width[rows[-1]]))
            log_weight = self.log_weight(x, rows)
            if math.isfinite(self.upper):
                log_weight[x > self.upper] = -np.inf
            yield Block(rows, first[rows].astype(np.float64), log_weight)


def log_choices(alpha: FloatArray, x: FloatArray) -> FloatArray:
    """lnΓ(α + x) − lnΓ(α) − ln x!, elementwise."""
    from scipy.special import gammaln

    large = float(x.max(initial=0.0)) > 1e4
    rising = log_rising(alpha, x) if large else gammaln(alpha + x) - gammaln(x + 1)
    return np.asarray(rising - gammaln(alpha), dtype=np.float64)


class Tilted:
    """Independent cells at one tilt: their laws, moments and the characteristic function of their sum."""

    def __init__(self, cells: TiltedCells, blocks: list[Block], tilt: float) -> None:
        self.cells = cells
        self.blocks = blocks
        self.tilt = tilt
        self.log_size = np.empty(len(cells))
        """log Σ_x w(x) e^{θx} of each distinct cell."""
        self.mean = np.empty(len(cells))
        self.variance = np.empty(len(cells))
        self.masses: list[FloatArray] = []
        for block in blocks:
            mass, self.log_size[block.rows] = block.tilted(tilt)
            steps = np.arange(mass.shape[1], dtype=np.float64)
            own = mass @ steps
            self.mean[block.rows] = block.start + own
            self.variance[block.rows] = np.maximum(mass @ steps**2 - own**2, 0.0)
            self.masses.append(mass)

    @cached_property
    def total_mean(self) -> float:
        return float(self.cells.count @ self.mean)

    @cached_property
    def total_variance(self) -> float:
        return float(self.cells.count @ self.variance)

    @property
    def width(self) -> int:
        return max(int(mass.shape[1]) for mass in self.masses)

    def log_characteristic(self, frequencies: FloatArray) -> npt.NDArray[np.complex128]:
        """log E[e^{it(x − mean)}] of each distinct cell, shape (cells, frequencies)."""
        result = np.empty((len(self.cells), len(frequencies)), dtype=np.complex128)
        for block, mass in zip(self.blocks, self.masses, strict=True):
            angle = np.outer(np.arange(mass.shape[1]), frequencies)
            values = mass @ np.cos(angle) + 1j * (mass @ np.sin(angle))
            values *= np.exp(-1j * np.outer(self.mean[block.rows] - block.start, frequencies))
            result[block.rows] = values
        with np.errstate(divide="ignore"):
            return np.log(result)

    @cached_property
    def last_frequency(self) -> float:
        """Beyond it the characteristic function of the sum is negligible; π: nowhere."""
        deviation = math.sqrt(self.total_variance)
        last = min(math.pi, 8 / deviation if deviation > 0 else math.pi)
        while last < math.pi:
            own = self.log_characteristic(np.array([last])).real[:, 0]
            if float(self.cells.count @ own - own.min()) < -32.0:  # with any one cell left out
                break
            last = min(math.pi, 1.25 * last)
        return last

    def characteristic(self, size: int, stride: int) -> npt.NDArray[np.complex128]:
        """E[e^{it(Σ − mean)}] at the frequencies t = 2πj/(size·stride), j ≤ size/2."""
        frequencies = np.asarray(2 * math.pi / (size * stride) * np.arange(size // 2 + 1))
        if stride == 1 and self.width <= size and len(self.cells) * size <= _BLOCK:
            logs = np.zeros(len(frequencies), dtype=np.complex128)
            with np.errstate(divide="ignore"):
                for block, mass in zip(self.blocks, self.masses, strict=True):
                    logs += self.cells.count[block.rows] @ np.log(np.fft.rfft(mass, size).conj())
                    start = float(self.cells.count[block.rows] @ block.start)
                    logs += 1j * frequencies * start
            return np.asarray(np.exp(logs - 1j * frequencies * self.total_mean))
        result = np.zeros(len(frequencies), dtype=np.complex128)
        near = frequencies[frequencies <= self.last_frequency * (1 + 1e-9)]
        result[: len(near)] = np.exp(self.cells.count @ self.log_characteristic(near))
        return result

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, npt.NDArray[np.complex128], npt.NDArray[np.complex128]]:
        """Where the characteristic function matters, spaced so that its period is long enough; its logs."""
        period = 2.0 * self.width + 20.0 * math.sqrt(self.total_variance) + 64.0
        number = math.ceil(self.last_frequency * period / (2 * math.pi))
        # On the whole circle, up to π, the sum over them is exact.
        frequencies = np.asarray(self.last_frequency * (np.arange(number) + 0.5) / number)
        own = self.log_characteristic(frequencies)
        return frequencies, own, self.cells.count @ own

    def sum_of_others(self, rows: IntArray, offset: FloatArray, number: int, direction: int) -> FloatArray:
        """P(sum of all cells but one of row r = offset[r] + direction·j) for j < number; up to rounding."""
        frequencies, own, whole = self._spectrum
        with np.errstate(invalid="ignore"):
            exponent = whole - own[rows]  # in logarithms, so that nothing is divided by what is almost 0
        exponent = np.where(np.isnan(exponent), -np.inf, exponent)
        away = offset - (self.total_mean - self.mean[rows])
        rest = np.exp(exponent - 1j * np.outer(away, frequencies))
        angle = direction * np.outer(frequencies, np.arange(number))
        density = rest.real @ np.cos(angle) + rest.imag @ np.sin(angle)
        return np.asarray(np.maximum(density, 0.0) * (2 * frequencies[0] / math.pi))

    def small_sums_of_others(self, rows: IntArray, number: int) -> FloatArray:
        """P(sum of all cells but one of row r = j) for j < number."""
        if self.cells.k > _FEW:
            return self.sum_of_others(rows, np.zeros(len(rows)), number, 1)
        law = np.zeros((len(self.cells), number))
        for block, mass in zip(self.blocks, self.masses, strict=True):
            for row, start, p in zip(block.rows, block.start.astype(np.int64), mass, strict=True):
                law[row, start : start + len(p)] = p[: max(0, number - start)]
        every = law[self.cells.inverse]
        before = [np.eye(1, number)[0]]
        after = [before[0]]
        for own, mirrored in zip(every, every[::-1], strict=True):
            before.append(np.convolve(before[-1], own)[:number])
            after.append(np.convolve(after[-1], mirrored)[:number])
        result = np.empty((len(rows), number))
        for i, row in enumerate(rows):
            one = int(np.argmax(self.cells.inverse == row))
            result[i] = np.convolve(before[one], after[len(every) - 1 - one])[:number]
        return result

    def log_probability_of_sum(self, total: float) -> float:
        """log P(Σ = total)."""
        frequencies, _, whole = self._spectrum
        values = np.exp(whole - 1j * frequencies * (total - self.total_mean)).real
        return math.log(max(float(values.sum()) * 2 * float(frequencies[0]) / math.pi, 1e-300))
