"""The true counts behind lattice noise on many levels: exact marginals without convolutions.

π(x|z) ∝ Πᵢ Γ(αᵢ + xᵢ)/xᵢ! · e^{−ε|zᵢ − xᵢ|/2} on Σx = n. A tilt e^{θx} changes nothing under the constraint;
at the θ at which the unconstrained means sum to n, the sum of the other levels enters xᵢ's marginal through
its characteristic function,

    P(xᵢ = x | Σ = n) ∝ πᵢ(x)·P(S₋ᵢ = n − x),   P(S₋ᵢ = s) = (1/π) ∫₀^π Re[φ₋ᵢ(t) e^{−its}] dt,

which is negligible but for |t| below some eight standard deviations' inverse: few frequencies, for all levels
at once. φ₋ᵢ is what is left of the logarithm of φ when the level's own is subtracted, so nothing is divided.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.numerics.noisy_cells import Block, CellNoise, GeometricNoise, Tilted, TiltedCells

_LAST = 64  # so many levels are drawn together, given their sum, in a joint draw


class ManyLevels:
    """π(x|z) for independent noise, given that Σx = n: marginals of all levels, and joint draws."""

    def __init__(
        self, noisy: Sequence[int] | IntArray, prior: Sequence[float], n: int, noise: CellNoise
    ) -> None:
        self.n = n
        self.cells = TiltedCells.of(np.asarray(noisy, dtype=np.int64), np.asarray(prior), noise, float(n))

    @classmethod
    def lattice(cls, noisy: Sequence[int], prior: Sequence[float], n: int, epsilon: float) -> ManyLevels:
        """Given the noisy counts of the lattice mechanism, which matter between 0 and n only."""
        clipped = [min(max(z, 0), n) for z in noisy]
        return cls(clipped, prior, n, GeometricNoise(epsilon / 2))

    def check(self) -> None:
        """Raises ``TooLargeError`` where there are too many possible counts to weigh."""
        _ = self.tilted

    @cached_property
    def log_evidence(self) -> float:
        """log P(z), up to what does not depend on the prior: the tilt drops out where it is solved for."""
        at, strength = self.tilted, float(self.cells.count @ self.cells.prior)
        whole = float(self.cells.count @ at.log_size) - at.tilt * self.n
        return (
            whole + at.log_probability_of_sum(self.n) + math.lgamma(strength) - math.lgamma(strength + self.n)
        )

    @cached_property
    def tilted(self) -> Tilted:
        tilt = 0.0
        for _ in range(50):
            blocks = list(self.cells.blocks(tilt, tilt))
            found = self._solved(blocks, tilt)
            # Windows were cut for the old tilt: good enough if weights changed by e^{±5} at most.
            longest = max(block.log_weight.shape[1] for block in blocks)
            if abs(found - tilt) * longest < 5:
                return Tilted(self.cells, blocks, found)
            tilt = found
        return Tilted(self.cells, blocks, found)

    def _solved(self, blocks: list[Block], tilt: float) -> float:
        """The tilt at which the means sum to n, by Newton's method inside a bracket."""
        low, high = -math.inf, math.inf
        for _ in range(100):
            at = Tilted(self.cells, blocks, tilt)
            error, variance = at.total_mean - self.n, at.total_variance
            if abs(error) <= 1e-6 * math.sqrt(variance) + 1e-9 * self.n:
                break
            low, high = (low, tilt) if error > 0 else (tilt, high)
            step = tilt - error / variance if variance > 0 else math.nan
            if not low < step < high:
                step = (low + high) / 2 if math.isfinite(low + high) else tilt - math.copysign(1.0, error)
            largest = 20.0 / max(block.log_weight.shape[1] for block in blocks)
            tilt = min(max(step, tilt - largest), tilt + largest)
            if abs(tilt) > 700:
                break
        return tilt

    def blocks(self) -> Iterator[tuple[IntArray, FloatArray, FloatArray]]:
        """(rows, start, p): of the distinct cells ``rows``, P(x = start[r] + j | z) = p[r, j]."""
        at = self.tilted
        for block, mass in zip(at.blocks, at.masses, strict=True):
            p = mass * at.sum_of_others(block.rows, self.n - block.start, mass.shape[1], -1)
            yield block.rows, block.start, p / p.sum(axis=1, keepdims=True)

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """For each level (start, p): P(xᵢ = start + j) = p[j]."""
        distinct = self.distinct_marginals()
        return [distinct[i] for i in self.cells.inverse]

    def distinct_marginals(self) -> list[tuple[int, FloatArray]]:
        """The same for each distinct cell."""
        distinct: list[tuple[int, FloatArray]] = [(0, np.empty(0))] * len(self.cells)
        for rows, start, p in self.blocks():
            for row, first, mass in zip(rows, start, p, strict=True):
                distinct[row] = int(first), mass
        return distinct

    def medians(self) -> FloatArray:
        """Interpolated medians of the true counts, for each level."""
        return self._medians[self.cells.inverse]

    @cached_property
    def _medians(self) -> FloatArray:
        result = np.empty(len(self.cells))
        for rows, start, p in self.blocks():
            cumulative = np.cumsum(p, axis=1)
            at = (cumulative < 0.5).sum(axis=1)
            here = np.take_along_axis(p, at[:, None], axis=1)[:, 0]
            above = np.take_along_axis(cumulative, at[:, None], axis=1)[:, 0]
            result[rows] = np.maximum(start + at + 0.5 - (above - 0.5) / here, 0.0)
        return result

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Joint draws, shape (size, k), by floats from a seeded generator; k ≥ 2.

        All but the last levels are drawn from their tilted laws and kept with probability ∝ P(the last ones
        make up the rest); the last are then drawn given their sum.
        """
        from scipy.signal import fftconvolve

        at, inverse = self.tilted, self.cells.inverse
        laws: list[tuple[int, FloatArray]] = [(0, np.empty(0))] * len(self.cells)
        for block, mass in zip(at.blocks, at.masses, strict=True):
            for row, first, p in zip(block.rows, block.start, mass, strict=True):
                laws[row] = int(first), p
        order = np.argsort(at.variance[inverse], kind="stable")
        free, last = order[:-_LAST], order[-_LAST:]
        sums = [np.ones(1)]  # law of the sum of the last levels, of all but the first, …, of none
        for i in last[::-1]:
            sums.insert(0, np.maximum(fftconvolve(sums[0], laws[inverse[i]][1]), 0.0))
        lowest = sum(laws[inverse[i]][0] for i in last)
        distinct = [(row, free[inverse[free] == row]) for row in np.unique(inverse[free])]
        draws = np.empty((size, len(order)), dtype=np.int64)
        filled = 0
        while filled < size:
            batch = min(4 * (size - filled) + 8, max(8, (1 << 22) // len(order)))
            values = np.empty((batch, len(order)), dtype=np.int64)
            for row, columns in distinct:
                first, p = laws[row]
                values[:, columns] = first + _drawn(np.cumsum(p), (batch, len(columns)), rng)
            missing = self.n - lowest - values[:, free].sum(axis=1)
            weight = _at(sums[0], missing)
            kept = np.flatnonzero(rng.random(batch) * sums[0].max() < weight)[: size - filled]
            values, missing = values[kept], missing[kept]
            for i, rest in zip(last, sums[1:], strict=True):
                first, p = laws[inverse[i]]
                cumulative = np.cumsum(p * _at(rest, missing[:, None] - np.arange(len(p))), axis=1)
                chosen = (cumulative <= rng.random((len(kept), 1)) * cumulative[:, -1:]).sum(axis=1)
                values[:, i] = first + chosen
                missing -= chosen
            draws[filled : filled + len(kept)] = values
            filled += len(kept)
        return draws


def _at(mass: FloatArray, index: IntArray) -> FloatArray:
    inside = (index >= 0) & (index < len(mass))
    return np.where(inside, mass[np.where(inside, index, 0)], 0.0)


def _drawn(cumulative: FloatArray, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    return np.asarray(np.searchsorted(cumulative, rng.random(shape) * cumulative[-1], side="right"))
