"""Group means under a hierarchical model: θ_g ~ N(μ, τ²), with μ and τ integrated by quadrature.

The release gives the likelihood of θ_g as a mixture of normal densities Σ wᵢ N(θ_g; mᵢ, sᵢ²), so everything
is in closed form given μ and τ. Prior: μ is uniform within the bounds. The correlation of two records of one
group, τ²/(τ² + σ²), is uniform; σ is the deviation of records within groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.special import logsumexp

from discreet._declarations import as_positive
from discreet._documents.answer import Estimates, Row, Words, cache_by_level, rows_of
from discreet._typing import FloatArray
from discreet.distributions.law import tails

_COMPONENTS = 128
"""The most components of a group's mixture: neighbours are merged."""
_CENTRES, _SPREADS, _REACH = 81, 64, 8.0
"""Nodes of μ and of τ, and how far from the middle the former reach, in standard deviations."""
_DRAWS = 20_000


class GroupMixture(NamedTuple):
    """The likelihood of a group's mean: weights, means and variances of normal components."""

    weights: FloatArray
    means: FloatArray
    variances: FloatArray


def group_mixture(weights: FloatArray, means: FloatArray, spreads: FloatArray) -> GroupMixture:
    """Merge the components of a mixture within bins of their means, keeping the moments of each bin."""
    edges = np.linspace(means.min(), means.max(), _COMPONENTS + 1)[1:-1]
    at = np.searchsorted(edges, means)
    total, first, second = (
        np.bincount(at, weights * values, _COMPONENTS)
        for values in (np.ones_like(means), means, means**2 + spreads**2)
    )
    filled = total > 0
    centres = first[filled] / total[filled]
    variances = np.maximum(second[filled] / total[filled] - centres**2, float(spreads.min()) ** 2)
    return GroupMixture(np.asarray(total[filled], dtype=np.float64), centres, variances)


class PooledMeans(Estimates):
    """The posterior of every group's mean under a hierarchical model, with the noise accounted for."""

    variable: ClassVar[str] = "mean"

    def __init__(
        self,
        groups: Sequence[Any],
        by: str,
        column: str,
        bounds: tuple[float, float],
        mixtures: Sequence[GroupMixture],
        within: float,
        seed: int = 0,
    ) -> None:
        self.groups, self.by, self.column, self.bounds = tuple(groups), by, column, bounds
        self._mixtures, self._within, self._seed = mixtures, within, seed

    @property
    def names(self) -> tuple[Any, ...]:
        """The groups."""
        return self.groups

    @property
    def heading(self) -> str:
        return self.by

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray]:
        """(μ, τ) on a grid, and the posterior probability of each."""
        coordinate = (np.arange(_SPREADS) + 0.5) / _SPREADS
        correlation = coordinate**3  # finer where groups are alike
        spreads = self._within * np.sqrt(correlation / (1 - correlation))
        means = np.array([group.weights @ group.means for group in self._mixtures])
        variances = np.array([group.weights @ (group.variances + group.means**2) for group in self._mixtures])
        precisions = 1 / (np.maximum(variances - means**2, 1e-300) + spreads[:, None] ** 2)
        total = precisions.sum(axis=1)
        steps = np.linspace(-_REACH, _REACH, _CENTRES)
        centres = (precisions @ means / total)[:, None] + steps / np.sqrt(total)[:, None]
        inside = (centres >= self.bounds[0]) & (centres <= self.bounds[1])
        log = np.broadcast_to(np.log(coordinate**2 / np.sqrt(total))[:, None], centres.shape)
        log = np.where(inside, log, -np.inf).ravel()
        nodes = np.stack([centres, np.broadcast_to(spreads[:, None], centres.shape)], axis=2).reshape(-1, 2)
        for group in self._mixtures:
            log = log + logsumexp(_log_shares(group, nodes), axis=1)
        weights = np.exp(log - log.max())
        return nodes, weights / weights.sum()

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draws of the groups' means, and of τ."""
        nodes, weights = self._nodes
        used, at = np.unique(rng.choice(len(nodes), size, p=weights), return_inverse=True)
        centre, variance = nodes[used][at, 0], nodes[used][at, 1] ** 2
        columns = []
        for group in self._mixtures:
            log = _log_shares(group, nodes[used])
            shares = np.cumsum(np.exp(log - logsumexp(log, axis=1, keepdims=True)), axis=1)
            component = (shares[at] < rng.random(size)[:, None]).sum(axis=1).clip(max=len(group.means) - 1)
            mean, noise = group.means[component], group.variances[component]
            middle = (variance * mean + noise * centre) / (variance + noise)
            columns.append(rng.normal(middle, np.sqrt(variance * noise / (variance + noise))))
        return np.clip(np.stack(columns, axis=1), *self.bounds), np.sqrt(variance)

    @cached_property
    def _joint_draws(self) -> tuple[FloatArray, FloatArray]:
        return self._draw(_DRAWS, np.random.default_rng(self._seed))

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        return self._draw(as_positive(size, "size"), np.random.default_rng(seed))[0]

    @cache_by_level
    def rows(self, level: float = 0.95) -> list[Row]:
        """The mean of each group."""
        drawn = self._joint_draws[0]
        numbers = (drawn.mean(axis=0), drawn.std(axis=0), *np.quantile(drawn, tails(level), axis=0))
        return rows_of(self.groups, *numbers)

    @property
    def between(self) -> tuple[float, float, float]:
        """τ, the standard deviation of the groups' means: its median and 90 % interval."""
        median, low, high = np.quantile(self._joint_draws[1], [0.5, 0.05, 0.95]).tolist()
        return median, low, high

    def words(self) -> Words:
        """Describe what was pooled, and how much the groups differ."""
        median, low, high = self.between
        name = f"Means of {self.column} within {len(self.groups)} pooled groups"
        return Words(
            headline=f"Means of {self.column} within {len(self.groups)} groups, a hierarchical model",
            name=name,
            notes=(
                "The groups' means are taken as draws from one normal distribution, whose standard deviation "
                f"is about {median:.3g} (90 % interval {low:.3g} to {high:.3g}).",
            ),
        )

    def __repr__(self) -> str:
        return f"<PooledMeans: {self.column} within {len(self.groups)} groups>"


def _log_shares(group: GroupMixture, nodes: FloatArray) -> FloatArray:
    """Return log wᵢ N(μ; mᵢ, sᵢ² + τ²) at each (μ, τ): the weight of each component with θ integrated out."""
    variance = group.variances + nodes[:, 1:] ** 2
    gaps = nodes[:, :1] - group.means
    return np.asarray(np.log(group.weights) - (gaps**2 / variance + np.log(variance)) / 2)
