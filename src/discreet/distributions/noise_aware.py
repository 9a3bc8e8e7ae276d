"""The posterior of proportions when the true counts are uncertain: a mixture of Dirichlets."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from discreet._interop import inference_data
from discreet._text import aligned
from discreet._typing import FloatArray, IntArray
from discreet.distributions.beta_dirichlet import IntervalKind
from discreet.distributions.beta_rows import BetaPart, mean_and_deviation, quantiles
from discreet.distributions.mixtures import BetaMixture
from discreet.errors import InvalidInput, TooLargeError


class TrueCounts(Protocol):
    """A law over the true counts."""

    def marginals(self) -> list[tuple[int, FloatArray]]: ...
    def sample(self, size: int, rng: np.random.Generator) -> IntArray: ...


class PrintedShares(ABC):
    """What prints itself as a table of shares, with the names of the levels where it was told them."""

    names: Sequence[Any] = ()

    @abstractmethod
    def intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Ends of the interval of each share."""

    @abstractmethod
    def predictive(self) -> FloatArray:
        """The mean of each share."""

    def __str__(self) -> str:
        means, (low, high) = self.predictive(), self.intervals(0.95)
        names = self.names or [f"level {i + 1}" for i in range(len(means))]
        rows = [
            (str(name), f"{mean:.4f}", f"{a:.4f} – {b:.4f}")
            for name, mean, a, b in zip(names, means, low, high, strict=True)
        ]
        return "\n".join(aligned(("noise-aware", "mean", "95 % interval"), rows))

    __repr__ = __str__


class NoiseAware(PrintedShares):
    """The posterior of the proportions given a release, with the noise accounted for.

    Like the released posterior it has a scalar face for two levels (the first level's probability) and a
    vector face for more.
    """

    def __init__(self, prior: Sequence[float], n: int, counts: TrueCounts) -> None:
        self.prior = tuple(prior)
        self.n = n
        self.counts = counts
        """The law of the true counts given the release."""

    @property
    def k(self) -> int:
        return len(self.prior)

    @cached_property
    def _marginals(self) -> list[tuple[int, FloatArray]]:
        return self.counts.marginals()

    @property
    def _total(self) -> float:
        return math.fsum(self.prior) + self.n

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's proportion."""
        try:
            start, weight = self._marginals[index]
        except (IndexError, TypeError):
            raise InvalidInput(f"index={index!r} must be between 0 and {self.k - 1}") from None
        kept = np.flatnonzero(weight > 1e-14 * weight.max())
        mass = weight[kept[0] : kept[-1] + 1]
        counts = float(start) + np.arange(kept[0], kept[-1] + 1)
        return BetaMixture(mass / mass.sum(), self.prior[index] + counts, self._total)

    @cached_property
    def _rows(self) -> tuple[list[tuple[IntArray, list[BetaPart]]], IntArray]:
        """Blocks of the distinct laws of a proportion, and which of them each level has."""
        distinct: dict[tuple[int, float], int] = {}
        laws: list[tuple[float, FloatArray]] = []
        inverse = np.empty(self.k, dtype=np.int64)
        for level, (a, (start, weight)) in enumerate(zip(self.prior, self._marginals, strict=True)):
            key = id(weight), a  # levels with one law share its array
            if key not in distinct:
                distinct[key] = len(laws)
                kept = np.flatnonzero(weight > 1e-14 * weight.max())
                if not len(kept):
                    raise TooLargeError("no true counts explain what was released")
                laws.append((a + float(start + int(kept[0])), weight[kept[0] : kept[-1] + 1]))
            inverse[level] = distinct[key]
        blocks = []
        order = np.argsort([len(weight) for _, weight in laws], kind="stable")
        while len(order):
            shortest = len(laws[order[0]][1])
            rows = np.array([row for row in order[:4096] if len(laws[row][1]) <= 2 * shortest])
            order = order[len(rows) :]
            mass = np.zeros((len(rows), len(laws[rows[-1]][1])))
            for i, row in enumerate(rows):
                mass[i, : len(laws[row][1])] = laws[row][1]
            first = np.array([laws[row][0] for row in rows])
            mass /= mass.sum(axis=1, keepdims=True)
            blocks.append((rows, [BetaPart(mass, first, self._total - first, -1)]))
        return blocks, inverse

    def _each(self, values: Callable[[list[BetaPart]], Sequence[FloatArray]]) -> FloatArray:
        """Two numbers for every level, from one computation for all of them."""
        blocks, inverse = self._rows
        result = np.empty((2, int(inverse.max()) + 1))
        for rows, parts in blocks:
            result[:, rows] = values(parts)
        return result[:, inverse]

    @cached_property
    def _moments(self) -> FloatArray:
        return self._each(mean_and_deviation)

    def _face(self, values: FloatArray) -> Any:
        return float(values[0]) if self.k == 2 else values

    def mean(self) -> Any:
        return self._face(self.predictive())

    def var(self) -> Any:
        return self._face(self.deviations() ** 2)

    def std(self) -> Any:
        return self._face(self.deviations())

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[Any, Any]:
        """Credible interval(s): (low, high) of the first level for k = 2, arrays (low, high) for k > 2."""
        if kind == "equal-tailed" and 0 < level < 1:
            low, high = self.intervals(level)
            return self._face(low), self._face(high)
        shown = range(1 if self.k == 2 else self.k)
        pairs = np.array([self.marginal(i).interval(level, kind) for i in shown])
        return self._face(pairs[:, 0]), self._face(pairs[:, 1])

    def intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed credible intervals of all shares, also where there are two."""
        low, high = self._each(lambda parts: quantiles(parts, (1 - level) / 2, (1 + level) / 2))
        return low, high

    def deviations(self) -> FloatArray:
        """Standard deviations of all shares, also where there are two."""
        return np.asarray(self._moments[1])

    def predictive(self) -> FloatArray:
        """The probability that the next record falls into each level."""
        return np.asarray(self._moments[0])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the proportions, shape (size, k). The release is public, so this costs no privacy."""
        rng = np.random.default_rng(seed)
        shape = self.counts.sample(size, rng) + np.array(self.prior)
        draws = rng.standard_gamma(shape)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Draws as ArviZ inference data (needs the extra ``arviz``)."""
        return inference_data({"theta": self.sample(size, seed)[None]}, {"n": self.n})


class Enumerated:
    """A law over few datasets, listed."""

    def __init__(self, rows: IntArray, log_weight: FloatArray) -> None:
        self._rows = rows
        weight = np.exp(log_weight - log_weight.max())
        self._weight = weight / weight.sum()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        return [(0, np.asarray(np.bincount(c, self._weight), dtype=np.float64)) for c in self._rows.T]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        return np.asarray(self._rows[rng.choice(len(self._rows), size, p=self._weight)])
