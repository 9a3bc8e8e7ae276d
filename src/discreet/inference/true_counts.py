"""The true counts and shares given noisy counts, under a Dirichlet prior: the total known, or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInput, TooLargeError
from discreet.inference.likelihoods.cells import Cells, Constrained, windows
from discreet.inference.likelihoods.counts import RisingLaw
from discreet.inference.likelihoods.noises import Noise
from discreet.numerics.count_vectors import Separable
from discreet.numerics.log_gamma import log_rising

_DRAWS = 20_000
_SHORT = 4096  # up to this many cells × counts all weights are listed


@dataclass(frozen=True, eq=False)
class GivenTotal:
    """π(x | z) ∝ DirMult(x; α, n)·P(z | x): the law of the true counts, the total n public."""

    values: FloatArray
    noise: Noise
    prior: Sequence[float]
    n: int

    @cached_property
    def _law(self) -> Constrained | Separable:
        alphas = np.asarray(self.prior, dtype=np.float64)
        if len(alphas) * self.n <= _SHORT:
            x = np.arange(self.n + 1)
            scales = self.noise.scales(len(alphas))
            return Separable.of(
                [
                    log_rising(a, x) + self.noise.log_prob(np.array(z), x.astype(np.float64), np.array(scale))
                    for a, z, scale in zip(self.prior, self.values, scales, strict=True)
                ],
                self.n,
            )
        law = RisingLaw.of(alphas, self.n)
        k = len(alphas)
        return Constrained(Cells(law, self.noise, self.values, self.noise.scales(k)), k, self.n)

    @cached_property
    def _marginals(self) -> list[tuple[int, FloatArray]]:
        return self._law.marginals()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """For each cell (start, p): P(xᵢ = start + j | z) = p[j]."""
        return self._marginals

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draws of the true counts, shape (size, k)."""
        if isinstance(self._law, Separable):
            return self._law.sample(size, rng)
        return np.asarray(self._law.draw(size, rng)[0].astype(np.int64))


@dataclass(frozen=True, eq=False)
class UnknownTotal:
    """Shares θ ~ Dir(α) of a total that is not public, given noise on every cell.

    With Λ ~ Gamma(Σα, b) the cells separate: xᵢ is negative binomial with mean αᵢ/b. b is integrated over
    db/b, which is p(Λ) ∝ 1/Λ on ``total_range``; fixing b would say what the total is.
    """

    values: FloatArray
    noise: Noise
    prior: Sequence[float]
    total_range: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        if self.noise.together:
            raise InvalidInput("noise of sum zero tells the total: say total=…")
        low, high = self._range
        if not 0 < low < high < math.inf:
            raise InvalidInput(f"total_range={self.total_range!r} must be two positive numbers in order")

    @property
    def k(self) -> int:
        return len(self.values)

    @property
    def _range(self) -> tuple[float, float]:
        if self.total_range is not None:
            return self.total_range
        return 1.0, 1e3 * (np.abs(self.values).sum() + 10 * self.noise.scales(self.k).sum() + 1)

    def _cells(self, mean_total: FloatArray) -> Cells:
        alphas = np.asarray(self.prior, dtype=np.float64)
        means = (mean_total[:, None] * (alphas / alphas.sum())).ravel()
        m = len(mean_total)
        scales = np.tile(self.noise.scales(self.k), m)
        law = RisingLaw.negative_binomial(means, np.tile(alphas, m))
        return Cells(law, self.noise, np.tile(self.values, m), scales)

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """Means of the total, and the share of the posterior at each: a grid that closes in on its mass."""
        low, high = (math.log(end) for end in self._range)
        for _ in range(12):
            grid = np.linspace(low, high, 33)
            log_weight = self._cells(np.exp(grid)).log_prob().reshape(-1, self.k).sum(axis=1)
            kept = np.flatnonzero(log_weight > log_weight.max() - 20)
            first, last = max(int(kept[0]) - 1, 0), min(int(kept[-1]) + 1, 32)
            if last - first >= 20:
                break
            low, high = float(grid[first]), float(grid[last])
        weight = np.exp(log_weight - log_weight.max())
        weight[[0, -1]] *= 0.5
        kept = np.flatnonzero(weight > 1e-7 * weight.max())
        return np.exp(grid[kept]), weight[kept] / weight[kept].sum()

    def sample_counts(self, size: int, seed: int | None = None) -> IntArray:
        """Draws of the true counts, shape (size, k)."""
        if size * self.k > 1 << 28:
            raise TooLargeError(f"size={size} draws of {self.k} cells do not fit into memory; ask for fewer")
        rng = np.random.default_rng(seed)
        means, weights = self._nodes
        counts = np.empty((size, self.k), dtype=np.int64)
        start = 0
        for mean, number in zip(means, rng.multinomial(size, weights), strict=True):
            if number == 0:
                continue
            for i, window in enumerate(windows(self._cells(np.array([mean])))):
                target = rng.random(int(number))
                chosen = np.searchsorted(np.cumsum(window.mass), target * window.mass.sum(), side="right")
                counts[start : start + number, i] = window.low + np.minimum(chosen, len(window.mass) - 1)
            start += number
        return np.asarray(rng.permutation(counts))

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the shares, shape (size, k). What was published is public, so this costs no privacy."""
        counts = self.sample_counts(size, seed)
        rng = np.random.default_rng(None if seed is None else seed + 1)
        draws = rng.standard_gamma(counts + np.asarray(self.prior))
        return np.asarray(draws / draws.sum(axis=1, keepdims=True))

    @cached_property
    def _draws(self) -> tuple[FloatArray, IntArray]:
        size = max(1000, min(_DRAWS, (1 << 24) // self.k))
        return self.sample(size, seed=0), self.sample_counts(size, seed=0).sum(axis=1)

    def _face(self, values: FloatArray) -> Any:
        return float(values[0]) if self.k == 2 else values

    def mean(self) -> Any:
        """The expected share of the first of two levels, or of all levels."""
        return self._face(self._draws[0].mean(axis=0))

    def std(self) -> Any:
        """The standard deviation of the same."""
        return self._face(self._draws[0].std(axis=0))

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal-tailed credible interval(s), from 20,000 draws (fewer for more than 800 levels)."""
        low, high = np.quantile(self._draws[0], _tails(level), axis=0)
        return self._face(low), self._face(high)

    def total_interval(self, level: float = 0.95) -> tuple[float, float]:
        """Equal-tailed credible interval of the number of records."""
        low, high = np.quantile(self._draws[1], _tails(level))
        return float(low), float(high)


def _tails(level: float) -> tuple[float, float]:
    if not 0 < level < 1:
        raise InvalidInput(f"level={level!r} must be between 0 and 1, such as 0.9")
    return (1 - level) / 2, (1 + level) / 2
