"""The posterior of shares when the true counts are uncertain: level by level a mixture of Betas."""

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
from discreet.distributions.beta_rows import BetaPart, mean_and_deviation, padded, quantiles
from discreet.distributions.law import IntervalKind, as_draws, tails
from discreet.distributions.mixtures import BetaMixture
from discreet.errors import InvalidInput, TooLargeError

_ENTRIES = 1 << 21  # of mixtures that are computed together


class TrueCounts(Protocol):
    """A law over the true counts."""

    def marginals(self) -> list[tuple[int, FloatArray]]: ...
    def sample(self, size: int, rng: np.random.Generator) -> IntArray: ...


class UncertainShares(ABC):
    """θ | x ~ Dir(α + x) with the true counts x uncertain, and perhaps α.

    Like every posterior here it has a scalar face for two levels (the first level's share) and a vector face
    for more. It prints itself as a table, with the names of the levels where it was told them.
    """

    names: Sequence[Any] = ()
    n: int | None = None
    """The number of records, where that is public."""
    depth: int = 1
    """About how many Betas stand for one count of a level."""

    @property
    @abstractmethod
    def inverse(self) -> IntArray:
        """Which of the distinct laws of a share each level has."""

    @property
    @abstractmethod
    def widths(self) -> IntArray:
        """How many counts each distinct law goes over."""

    @abstractmethod
    def parts(self, rows: IntArray) -> list[BetaPart]:
        """Some of the distinct laws."""

    @abstractmethod
    def sample_counts(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draws of the true counts, shape (size, k), and the prior parameters that go with each."""

    @property
    @abstractmethod
    def k(self) -> int:
        """The number of levels."""

    def _each(self, values: Callable[[list[BetaPart]], Sequence[FloatArray]]) -> FloatArray:
        """Two numbers for every level, from one computation for each distinct law."""
        widths = self.widths
        order = np.argsort(widths, kind="stable")
        result = np.empty((2, len(widths)))
        while len(order):
            # Laws of like width together, so that little is padded.
            widest = 2 * int(widths[order[0]])
            most = max(1, _ENTRIES // (widest * self.depth))
            rows = order[: min(most, int(np.searchsorted(widths[order], widest, side="right")))]
            order = order[len(rows) :]
            result[:, rows] = values(self.parts(rows))
        return result[:, self.inverse]

    @cached_property
    def _moments(self) -> FloatArray:
        return self._each(mean_and_deviation)

    def _face(self, values: FloatArray) -> Any:
        return float(values[0]) if self.k == 2 else values

    def mean(self) -> Any:
        """Posterior means of the shares."""
        return self._face(self.predictive())

    def std(self) -> Any:
        """Posterior standard deviations of the shares."""
        return self._face(self.deviations())

    def var(self) -> Any:
        """Posterior variances of the shares."""
        return self._face(self.deviations() ** 2)

    def predictive(self) -> FloatArray:
        """The probability that the next record falls into each level: all means, also where there are two."""
        return np.asarray(self._moments[0])

    def deviations(self) -> FloatArray:
        """Standard deviations of all shares, also where there are two."""
        return np.asarray(self._moments[1])

    def intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed credible intervals of all shares, also where there are two."""
        ends = tails(level)
        low, high = self._each(lambda parts: quantiles(parts, *ends))
        return low, high

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[Any, Any]:
        """Credible interval(s): (low, high) of the first level for k = 2, arrays (low, high) for k > 2."""
        if kind == "equal-tailed":
            low, high = self.intervals(level)
        else:
            shown = range(1 if self.k == 2 else self.k)
            low, high = np.array([self.marginal(i).interval(level, kind) for i in shown]).T
        return self._face(low), self._face(high)

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's share."""
        if not isinstance(index, int | np.integer) or not -self.k <= index < self.k:
            raise InvalidInput(f"index={index!r} must be between 0 and {self.k - 1}")
        weight, a, s = np.concatenate([part.flat() for part in self.parts(self.inverse[[index]])], axis=1)
        kept = weight > 1e-14 * weight.max()
        return BetaMixture(weight[kept] / weight[kept].sum(), a[kept], (a + s)[kept])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the shares, shape (size, k). The release is public, so this costs no privacy."""
        rng = np.random.default_rng(seed)
        counts, alpha = self.sample_counts(as_draws(size, self.k), rng)
        draws = rng.standard_gamma(counts + alpha)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Draws as ArviZ inference data (needs the extra ``arviz``)."""
        attributes = {} if self.n is None else {"n": self.n}
        return inference_data({"theta": self.sample(size, seed)[None]}, attributes)

    def __str__(self) -> str:
        means, (low, high) = self.predictive(), self.intervals(0.95)
        names = self.names or [f"level {i + 1}" for i in range(len(means))]
        rows = [
            (str(name), f"{mean:.4f}", f"{a:.4f} – {b:.4f}")
            for name, mean, a, b in zip(names, means, low, high, strict=True)
        ]
        return "\n".join(aligned(("noise-aware", "mean", "95 % interval"), rows))

    __repr__ = __str__


class NoiseAware(UncertainShares):
    """The posterior of the shares given a release, with the noise accounted for; the number n is public."""

    def __init__(self, prior: Sequence[float], n: int, counts: TrueCounts) -> None:
        self.prior = tuple(prior)
        self.n: int = n
        self.counts = counts
        """The law of the true counts given the release."""

    @cached_property
    def _laws(self) -> tuple[list[tuple[float, int, FloatArray]], IntArray]:
        """The distinct laws, each with its prior and first count, and which of them each level has."""
        seen: dict[tuple[int, float], int] = {}
        laws: list[tuple[float, int, FloatArray]] = []
        inverse = []
        for a, (start, mass) in zip(self.prior, self.counts.marginals(), strict=True):
            key = id(mass), a  # levels with one law share its array
            if key not in seen:
                seen[key] = len(laws)
                if not mass.max() > 0:
                    raise TooLargeError("no true counts explain what was released")
                laws.append((a, start, mass))
            inverse.append(seen[key])
        return laws, np.array(inverse)

    @property
    def k(self) -> int:
        return len(self.prior)

    @property
    def inverse(self) -> IntArray:
        return self._laws[1]

    @property
    def widths(self) -> IntArray:
        return np.array([len(mass) for _, _, mass in self._laws[0]])

    def parts(self, rows: IntArray) -> list[BetaPart]:
        chosen = [self._laws[0][row] for row in rows]
        first = np.array([a + float(start) for a, start, _ in chosen])
        mass = padded([mass for _, _, mass in chosen])
        return [BetaPart.of(mass, first, math.fsum(self.prior) + self.n - first, -1)]

    def sample_counts(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        return self.counts.sample(size, rng), np.array(self.prior)


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
