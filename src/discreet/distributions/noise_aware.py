"""The posterior of shares when the true counts are uncertain: level by level a mixture of Betas."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from discreet._interop import inference_data
from discreet._text import align_columns
from discreet._typing import FloatArray, IntArray
from discreet.distributions._beta_rows import (
    BetaPart,
    mean_and_deviation,
    pad_rows,
    quantiles,
    spread_of_means,
)
from discreet.distributions.law import IntervalKind, as_draws, tails
from discreet.distributions.mixtures import BetaMixture
from discreet.errors import InvalidInputError, TooLargeError

_ENTRIES = 1 << 21  # of mixtures that are computed together


class TrueCounts(Protocol):
    """A law over the true counts."""

    def marginals(self) -> list[tuple[int, FloatArray]]: ...
    def sample(self, size: int, rng: np.random.Generator) -> IntArray: ...


class UncertainShares(ABC):
    """θ | x ~ Dir(α + x) with the true counts x uncertain, and perhaps α.

    Arrays have an entry for each level. It prints as a table, with the names of the levels where it knows
    them.
    """

    names: Sequence[Any] = ()
    n: int | None = None
    """The number of records, where that is public."""
    k: int
    """The number of levels."""

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

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """Of what the posterior is a mixture over, beside the true counts."""

    @abstractmethod
    def counts_given(self, node: int, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draws of the true counts in one part of that mixture, and the prior parameters that go with it."""

    def sample_counts(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draws of the true counts, shape (size, k), and the prior parameters that go with each."""
        if len(self.weights) == 1:
            return self.counts_given(0, size, rng)
        chosen = rng.choice(len(self.weights), size, p=self.weights / self.weights.sum())
        counts, alpha = np.empty((size, self.k), dtype=np.int64), np.empty((size, self.k))
        for node in np.unique(chosen):
            draws = np.flatnonzero(chosen == node)
            counts[draws], alpha[draws] = self.counts_given(int(node), len(draws), rng)
        return counts, alpha

    def _each(self, values: Callable[[list[BetaPart]], Sequence[FloatArray]], numbers: int) -> FloatArray:
        """Some numbers for every level, from one computation for each distinct law."""
        widths = self.widths
        order = np.argsort(widths, kind="stable")
        result = np.empty((numbers, len(widths)))
        while len(order):
            # Laws of like width together, so that little is padded.
            widest = 2 * int(widths[order[0]])
            most = max(1, _ENTRIES // (widest * 4 * len(self.weights)))  # some Betas to a node
            rows = order[: min(most, int(np.searchsorted(widths[order], widest, side="right")))]
            order = order[len(rows) :]
            result[:, rows] = values(self.parts(rows))
        return result[:, self.inverse]

    @cached_property
    def _moments(self) -> FloatArray:
        return self._each(mean_and_deviation, 2)

    def mean(self) -> FloatArray:
        """Return the posterior means of all shares: the probability that the next record has each value."""
        return np.asarray(self._moments[0])

    def std(self) -> FloatArray:
        """Return the posterior standard deviations of all shares."""
        return np.asarray(self._moments[1])

    def var(self) -> FloatArray:
        """Return the posterior variances of all shares."""
        return self.std() ** 2

    def noise_share(self) -> FloatArray:
        """Return the part of each share's variance that is there because the true counts are not known.

        By the law of total variance: Var(θ) = E[Var(θ | counts)] + Var(E[θ | counts]).
        """
        spread, variance = self._each(spread_of_means, 1)[0], self.var()
        return np.asarray(np.clip(spread / np.where(variance > 0, variance, 1.0), 0.0, 1.0))

    def interval(
        self, level: float = 0.95, kind: IntervalKind = "equal-tailed"
    ) -> tuple[FloatArray, FloatArray]:
        """Return credible intervals of all shares.

        Parameters
        ----------
        level : float
            The probability of each.
        kind : {"equal-tailed", "highest-density"}
            Which of them.

        Returns
        -------
        lower, upper : arrays
        """
        if kind == "equal-tailed":
            ends = tails(level)
            low, high = self._each(lambda parts: quantiles(parts, *ends), 2)
        else:
            low, high = np.array([self.marginal(i).interval(level, kind) for i in range(self.k)]).T
        return low, high

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's share."""
        if not isinstance(index, int | np.integer) or not -self.k <= index < self.k:
            raise InvalidInputError(f"must be between 0 and {self.k - 1}", parameter="index", value=index)
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
        means, (low, high) = self.mean(), self.interval(0.95)
        names = self.names or [f"level {i + 1}" for i in range(len(means))]
        rows = [
            (str(name), f"{mean:.4f}", f"{a:.4f} to {b:.4f}")
            for name, mean, a, b in zip(names, means, low, high, strict=True)
        ]
        return "\n".join(align_columns(("noise-aware", "estimate", "95 % interval"), rows))

    def __repr__(self) -> str:
        size = "n private" if self.n is None else f"n = {self.n}"
        return f"<{type(self).__name__}: shares of {self.k} levels, {size}>"


class Node(NamedTuple):
    """One part of a mixture: its weight, the prior of each level, the number of records, their law."""

    weight: float
    prior: FloatArray
    n: int
    counts: TrueCounts


class NoiseAware(UncertainShares):
    """The posterior of the shares given a release, with the noise accounted for; the number n is public.

    A subclass mixes several nodes, whose levels have distinct laws where those of the first have.
    """

    def __init__(self, prior: Sequence[float], n: int, counts: TrueCounts) -> None:
        self.n: int = n
        self.k = len(prior)
        self.nodes = [Node(1.0, np.array(prior, dtype=np.float64), n, counts)]

    @cached_property
    def _marginals(self) -> list[list[tuple[int, FloatArray]]]:
        return [node.counts.marginals() for node in self.nodes]

    @cached_property
    def _distinct(self) -> tuple[IntArray, IntArray]:
        """A level that has each of the distinct laws, and which of them each level has."""
        laws, seen = self._marginals[0], dict[tuple[int, float], int]()
        # Levels with one law share its array.
        keys = zip((id(mass) for _, mass in laws), self.nodes[0].prior.tolist(), strict=True)
        inverse = np.array([seen.setdefault(key, len(seen)) for key in keys])
        first = np.unique(inverse, return_index=True)[1]
        if not all(laws[level][1].max() > 0 for level in first):
            raise TooLargeError("no true counts explain what was released")
        return first, inverse

    @property
    def inverse(self) -> IntArray:
        return self._distinct[1]

    @property
    def widths(self) -> IntArray:
        return np.array([len(self._marginals[0][level][1]) for level in self._distinct[0]])

    @property
    def weights(self) -> FloatArray:
        return np.array([node.weight for node in self.nodes])

    def parts(self, rows: IntArray) -> list[BetaPart]:
        levels, result = self._distinct[0][rows], []
        for node, marginals in zip(self.nodes, self._marginals, strict=True):
            first = node.prior[levels] + np.array([float(marginals[level][0]) for level in levels])
            mass = node.weight * pad_rows([marginals[level][1] for level in levels])
            result.append(BetaPart.of(mass, first, node.prior.sum() + node.n - first, -1))
        return result

    def counts_given(self, node: int, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        return self.nodes[node].counts.sample(size, rng), self.nodes[node].prior


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
