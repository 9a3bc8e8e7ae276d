"""The posterior of shares when the true counts are uncertain: a mixture of Betas for each level."""

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
from discreet.distributions.base import IntervalKind, as_draws, tails
from discreet.distributions.mixtures import BetaMixture
from discreet.errors import InvalidInputError, TooLargeError

_MAX_BATCH_ENTRIES = 1 << 21  # of mixtures that are computed together


class TrueCounts(Protocol):
    """The distribution of the true counts."""

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """Return, for each level, its smallest possible count and the probabilities of consecutive counts."""

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw the true counts.

        Parameters
        ----------
        size
            Number of draws.
        rng
            The random number generator.

        Returns
        -------
        IntArray
            Draws of shape (size, k).
        """


class UncertainShares(ABC):
    """The posterior of shares θ | x ~ Dir(α + x) whose true counts x, and perhaps α, are uncertain.

    Arrays have an entry for each level. It prints as a table, with the names of the levels where they are
    known.
    """

    names: Sequence[Any] = ()
    n: int | None = None
    """The number of records, where that is public."""
    k: int
    """The number of levels."""

    @property
    @abstractmethod
    def inverse(self) -> IntArray:
        """For each level, the index of its share's distribution among the distinct ones."""

    @property
    @abstractmethod
    def widths(self) -> IntArray:
        """Number of possible counts in each distinct distribution."""

    @abstractmethod
    def parts(self, rows: IntArray) -> list[BetaPart]:
        """Return the distinct distributions with these indices.

        Parameters
        ----------
        rows
            Their indices.

        Returns
        -------
        list of BetaPart
            One part for each component of the mixture.
        """

    @property
    @abstractmethod
    def weights(self) -> FloatArray:
        """Weights of the mixture over priors and totals; each component is a mixture over true counts."""

    @abstractmethod
    def counts_given(self, node: int, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw the true counts in one component of the mixture.

        Parameters
        ----------
        node
            Index of the component.
        size
            Number of draws.
        rng
            The random number generator.

        Returns
        -------
        counts : IntArray
            Draws of shape (size, k).
        prior : FloatArray
            Prior parameters of the component.
        """

    def sample_counts(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw the true counts, with the prior parameters that go with each draw.

        Parameters
        ----------
        size
            Number of draws.
        rng
            The random number generator.

        Returns
        -------
        counts : IntArray
            Draws of shape (size, k).
        prior : FloatArray
            Prior parameters, the same for all draws or one row each.
        """
        if len(self.weights) == 1:
            return self.counts_given(0, size, rng)
        chosen = rng.choice(len(self.weights), size, p=self.weights / self.weights.sum())
        counts, alpha = np.empty((size, self.k), dtype=np.int64), np.empty((size, self.k))
        for node in np.unique(chosen):
            draws = np.flatnonzero(chosen == node)
            counts[draws], alpha[draws] = self.counts_given(int(node), len(draws), rng)
        return counts, alpha

    def _each(self, values: Callable[[list[BetaPart]], Sequence[FloatArray]], numbers: int) -> FloatArray:
        """Compute some numbers for every level, once for each distinct distribution."""
        widths = self.widths
        order = np.argsort(widths, kind="stable")
        result = np.empty((numbers, len(widths)))
        while len(order):
            # Distributions of like width together, so that little is padded.
            widest = 2 * int(widths[order[0]])
            most = max(1, _MAX_BATCH_ENTRIES // (widest * 4 * len(self.weights)))  # some Betas to a node
            rows = order[: min(most, int(np.searchsorted(widths[order], widest, side="right")))]
            order = order[len(rows) :]
            result[:, rows] = values(self.parts(rows))
        return result[:, self.inverse]

    @cached_property
    def _moments(self) -> FloatArray:
        return self._each(mean_and_deviation, 2)

    def mean(self) -> FloatArray:
        """Return the posterior means of all shares: the probability that the next record has each level.

        Returns
        -------
        FloatArray
            One for each level.
        """
        return np.asarray(self._moments[0])

    def std(self) -> FloatArray:
        """Return the posterior standard deviations of all shares."""
        return np.asarray(self._moments[1])

    def var(self) -> FloatArray:
        """Return the posterior variances of all shares."""
        return self.std() ** 2

    def noise_share(self) -> FloatArray:
        """Return the fraction of each share's variance that the uncertainty of the true counts causes.

        Returns
        -------
        FloatArray
            One for each level, between 0 and 1.

        Notes
        -----
        By the law of total variance, Var(θ) = E[Var(θ | counts)] + Var(E[θ | counts]).
        """
        spread, variance = self._each(spread_of_means, 1)[0], self.var()
        return np.asarray(np.clip(spread / np.where(variance > 0, variance, 1.0), 0.0, 1.0))

    def interval(
        self, level: float = 0.95, kind: IntervalKind = "equal-tailed"
    ) -> tuple[FloatArray, FloatArray]:
        """Return credible intervals of all shares.

        Parameters
        ----------
        level
            Probability of each interval.
        kind
            ``equal-tailed`` leaves the same probability on both sides; ``highest-density`` is the shortest.

        Returns
        -------
        low, high : FloatArray
            The ends, for each level.
        """
        if kind == "equal-tailed":
            ends = tails(level)
            low, high = self._each(lambda parts: quantiles(parts, *ends), 2)
        else:
            low, high = np.array([self.marginal(i).interval(level, kind) for i in range(self.k)]).T
        return low, high

    def summaries(self, level: float = 0.95) -> tuple[FloatArray, ...]:
        """Return mean, standard deviation, both ends of an interval, and share of noise of all shares.

        Parameters
        ----------
        level
            Probability of each interval.

        Returns
        -------
        tuple of FloatArray
            Each with a number for each level.
        """
        return (self.mean(), self.std(), *self.interval(level), self.noise_share())

    def marginal(self, index: int) -> BetaMixture:
        """Return the posterior of one level's share.

        Parameters
        ----------
        index
            Index of the level.

        Returns
        -------
        BetaMixture
            The posterior.

        Raises
        ------
        InvalidInputError
            If there is no such level.
        """
        if not isinstance(index, int | np.integer) or not -self.k <= index < self.k:
            raise InvalidInputError(f"must be between 0 and {self.k - 1}", "index", index)
        weight, a, s = np.concatenate([part.flat() for part in self.parts(self.inverse[[index]])], axis=1)
        is_large = weight > 1e-14 * weight.max()
        return BetaMixture(weight[is_large] / weight[is_large].sum(), a[is_large], (a + s)[is_large])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draw shares; the release is public, so this costs no privacy.

        Parameters
        ----------
        size
            Number of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        FloatArray
            Draws of shape (size, k).
        """
        rng = np.random.default_rng(seed)
        counts, alpha = self.sample_counts(as_draws(size, self.k), rng)
        draws = rng.standard_gamma(counts + alpha)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Return draws as ArviZ inference data (needs the extra ``arviz``).

        Parameters
        ----------
        size
            Number of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        arviz.InferenceData
            The draws, as ``theta``.
        """
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
    """One component of a mixture: its weight, the prior, the number of records, and the true counts."""

    weight: float
    prior: FloatArray
    n: int
    counts: TrueCounts


class NoiseAware(UncertainShares):
    """The posterior of shares given a noisy release of counts, when the number of records is public.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    counts
        Distribution of the true counts.

    Notes
    -----
    A subclass may mix several nodes; two levels that share a distribution in the first node must share one in
    every node.

    Examples
    --------
    >>> counts = Enumerated(np.array([[3, 7], [4, 6]]), np.log([0.5, 0.5]))
    >>> posterior = NoiseAware([1, 1], 10, counts)
    >>> posterior.mean().round(4).tolist(), posterior.noise_share().round(4).tolist()
    ([0.375, 0.625], [0.0884, 0.0884])
    >>> print(posterior)
    noise-aware  estimate     95 % interval
    level 1        0.3750  0.1279 to 0.6636
    level 2        0.6250  0.3364 to 0.8721
    >>> posterior.marginal(0).ppf([0.5]).round(4).tolist()
    [0.3675]
    >>> posterior.sample(5, seed=1).shape
    (5, 2)
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
        """One level for each distinct distribution, and the distribution that each level has."""
        distributions, seen = self._marginals[0], dict[tuple[int, float], int]()
        # Levels with one distribution share its array.
        keys = zip((id(mass) for _, mass in distributions), self.nodes[0].prior.tolist(), strict=True)
        inverse = np.array([seen.setdefault(key, len(seen)) for key in keys])
        first = np.unique(inverse, return_index=True)[1]
        if not all(distributions[level][1].max() > 0 for level in first):
            raise TooLargeError("no true counts are compatible with the released ones")
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
        """Return the distinct distributions with these indices.

        Parameters
        ----------
        rows
            Their indices.

        Returns
        -------
        list of BetaPart
            One part for each node.
        """
        levels, result = self._distinct[0][rows], []
        for node, marginals in zip(self.nodes, self._marginals, strict=True):
            first = node.prior[levels] + np.array([float(marginals[level][0]) for level in levels])
            mass = node.weight * pad_rows([marginals[level][1] for level in levels])
            result.append(BetaPart.of(mass, first, node.prior.sum() + node.n - first, -1))
        return result

    def counts_given(self, node: int, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draw the true counts in one node.

        Parameters
        ----------
        node
            Index of the node.
        size
            Number of draws.
        rng
            The random number generator.

        Returns
        -------
        counts : IntArray
            Draws of shape (size, k).
        prior : FloatArray
            Prior parameters of the node.
        """
        return self.nodes[node].counts.sample(size, rng), self.nodes[node].prior


class Enumerated:
    """A distribution over a short list of datasets.

    Parameters
    ----------
    rows
        The counts of each dataset, one row each.
    log_weight
        Logarithms of their weights, up to a constant.

    Examples
    --------
    >>> counts = Enumerated(np.array([[3, 7], [4, 6]]), np.log([0.25, 0.75]))
    >>> first, probability = counts.marginals()[0]
    >>> first, probability.round(4).tolist()
    (0, [0.0, 0.0, 0.0, 0.25, 0.75])
    """

    def __init__(self, rows: IntArray, log_weight: FloatArray) -> None:
        if not np.isfinite(top := log_weight.max()):
            raise TooLargeError("no counts of this many records are compatible with the published ones")
        self._rows = rows
        weight = np.exp(log_weight - top)
        self._weight = weight / weight.sum()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """Return, for each level, its smallest possible count and the probabilities of consecutive counts."""
        return [(0, np.asarray(np.bincount(c, self._weight), dtype=np.float64)) for c in self._rows.T]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw datasets.

        Parameters
        ----------
        size
            Number of draws.
        rng
            The random number generator.

        Returns
        -------
        IntArray
            Draws of shape (size, k).
        """
        return np.asarray(self._rows[rng.choice(len(self._rows), size, p=self._weight)])
