"""Estimates of groups under a hierarchical model: θ_g ~ N(x_gᵀβ, τ²), with β and τ integrated out.

This is the model of Fay and Herriot (1979), for means and for shares. The release gives the likelihood of θ_g
as a mixture of normal densities Σ wᵢ N(θ_g; mᵢ, sᵢ²), so everything is in closed form given β and τ. These
are integrated out numerically, over a grid of τ and, at each τ, points of β around its mode. Without
covariates β is one number, the centre of the groups.

Prior: β is uniform where all centres are within the bounds. The correlation of two records of one group,
τ²/(τ² + σ²), is uniform; σ is the standard deviation of records within groups.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from discreet._declarations import as_positive
from discreet._documents.answer import Estimates
from discreet._documents.parts import Figure, Row, Words, rows_of, with_interval
from discreet._typing import FloatArray
from discreet.distributions.base import tails
from discreet.errors import InvalidInputError

Covariates = Mapping[str, Mapping[Any, float]]
"""A public number of each group, by name of the covariate and by group."""

_COMPONENTS = 64
"""The most normal components of a group's likelihood; neighbours are merged."""
_CENTRES, _SPREADS, _REACH = 81, 64, 8.0
"""The numbers of grid points of a centre and of τ; those of a centre reach ±8 standard deviations."""
_POINTS, _WIDER = 256, 1.3
"""The number of points of β with covariates, drawn around its mode, and their spread relative to its
posterior."""
_NEGLIGIBLE = 25.0
"""A τ whose log posterior, with normal likelihoods, is this far below the largest is left out."""
_DRAWS = 20_000
_DOUBT = (
    "the prior decides about them, and intervals may cover less often than stated: ask about fewer values"
)


class GroupMixture(NamedTuple):
    """The likelihood of a group's estimate: weights, means and variances of normal components."""

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


def drawn_mixture(draws: FloatArray, prior: tuple[float, float]) -> GroupMixture:
    """Return the likelihood of a share from its posterior draws, with their Beta prior divided out."""
    share = np.clip(draws, 1e-9, 1 - 1e-9)
    log = (1 - prior[0]) * np.log(share) + (1 - prior[1]) * np.log1p(-share)
    weights = np.exp(log - logsumexp(log))
    centre = float(weights @ draws)
    spread = 0.1 * math.sqrt(max(float(weights @ (draws - centre) ** 2), 1e-18))
    return group_mixture(weights, draws, np.full(len(draws), spread))


class Subject(NamedTuple):
    """The estimated quantity, and the columns and bounds that describe it."""

    groups: tuple[Any, ...]
    by: str
    what: str
    bounds: tuple[float, float]
    is_share: bool = False
    doubts: tuple[str, ...] = ()


class PooledEstimates(Estimates):
    """The posterior of an estimate of every group under a hierarchical model, which accounts for the noise.

    Attributes
    ----------
    groups : tuple
        The groups.
    """

    def __init__(
        self,
        subject: Subject,
        mixtures: Sequence[GroupMixture],
        within: float,
        covariates: Covariates | None = None,
        seed: int = 0,
    ) -> None:
        self.subject, self.groups = subject, subject.groups
        self._mixtures, self._within, self._seed = mixtures, within, seed
        self._covariates = tuple(covariates or ())
        self._design, self._scales = _design(subject.groups, covariates or {})

    @property
    def names(self) -> tuple[Any, ...]:
        """The groups."""
        return self.groups

    @property
    def heading(self) -> str:
        return self.subject.by

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return β and τ at each node, and the posterior probabilities of the nodes."""
        coordinate = (np.arange(_SPREADS) + 0.5) / _SPREADS
        correlation = coordinate**3  # finer where groups are alike
        spreads = self._within * np.sqrt(correlation / (1 - correlation))
        x, k = self._design, self._design.shape[1]
        steps, density = np.linspace(-_REACH, _REACH, _CENTRES)[:, None], np.zeros(_CENTRES)
        if k > 1:
            half = np.random.default_rng(self._seed).normal(size=(_POINTS // 2, k))
            steps = _WIDER * np.concatenate([half, -half])
            density = -((steps / _WIDER) ** 2).sum(axis=1) / 2
        means = np.array([group.weights @ group.means for group in self._mixtures])
        variances = np.array([group.weights @ (group.variances + group.means**2) for group in self._mixtures])
        precisions = 1 / (np.maximum(variances - means**2, 1e-300) + spreads[:, None] ** 2)
        spread = np.linalg.inv(np.einsum("gi,tg,gj->tij", x, precisions, x))
        middle = np.einsum("tij,gj,tg,g->ti", spread, x, precisions, means)
        root = np.linalg.cholesky(spread)
        volume = 2 * np.log(coordinate) + np.linalg.slogdet(root)[1]
        likely = volume + (np.log(precisions) - precisions * (means - middle @ x.T) ** 2).sum(axis=1) / 2
        kept = likely > likely.max() - _NEGLIGIBLE
        spreads, middle, root, volume = spreads[kept], middle[kept], root[kept], volume[kept]
        beta = middle[:, None] + np.einsum("tij,sj->tsi", root, steps)
        centres = beta @ x.T
        inside = ((centres >= self.subject.bounds[0]) & (centres <= self.subject.bounds[1])).all(axis=2)
        log = volume[:, None] - density
        log = np.where(inside, log, -np.inf).ravel()
        beta, tau = beta.reshape(-1, k), np.repeat(spreads, len(steps))
        if not np.any(np.isfinite(log)):
            raise InvalidInputError("the groups cannot be pooled: no regression stays within the bounds")
        for row, group in zip(x, self._mixtures, strict=True):
            log = log + logsumexp(_log_shares(group, beta @ row, tau), axis=1)
        weights = np.exp(log - log.max())
        return beta, tau, weights / weights.sum()

    def _draw(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return draws of the groups' estimates, of β and of τ."""
        beta, tau, weights = self._nodes
        used, at = np.unique(rng.choice(len(tau), size, p=weights), return_inverse=True)
        variance, columns = tau[used][at] ** 2, []
        for row, group in zip(self._design, self._mixtures, strict=True):
            log = _log_shares(group, beta[used] @ row, tau[used])
            shares = np.cumsum(np.exp(log - logsumexp(log, axis=1, keepdims=True)), axis=1)
            component = (shares[at] < rng.random(size)[:, None]).sum(axis=1).clip(max=len(group.means) - 1)
            mean, noise, centre = group.means[component], group.variances[component], (beta[used] @ row)[at]
            middle = (variance * mean + noise * centre) / (variance + noise)
            columns.append(rng.normal(middle, np.sqrt(variance * noise / (variance + noise))))
        return np.clip(np.stack(columns, axis=1), *self.subject.bounds), beta[used][at], np.sqrt(variance)

    @cached_property
    def _joint_draws(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self._draw(_DRAWS, np.random.default_rng(self._seed))

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        return self._draw(as_positive(size, "size"), np.random.default_rng(seed))[0]

    def _rows(self, level: float) -> list[Row]:
        """Return the estimate of each group."""
        return self._summary(self.groups, self._joint_draws[0], level, self.subject.is_share)

    def slopes(self, level: float = 0.95) -> list[Row]:
        """Return the slope of the groups' centre in each covariate, in the covariate's unit."""
        return self._by_level(self._slopes, level)

    def _slopes(self, level: float) -> list[Row]:
        return self._summary(self._covariates, self._joint_draws[1][:, 1:] / self._scales, level)

    @staticmethod
    def _summary(names: Sequence[Any], drawn: FloatArray, level: float, share: bool = False) -> list[Row]:
        low, high = np.quantile(drawn, tails(level), axis=0)
        return rows_of(names, drawn.mean(axis=0), drawn.std(axis=0), low, high, share=share)

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.subject.doubts

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Return the intervals of the groups as a figure, ordered by estimate."""
        ordered = tuple(sorted(rows, key=lambda row: row.mean))
        return Figure(f"{self.subject.what} within each {self.subject.by}", ordered)

    @property
    def between(self) -> tuple[float, float, float]:
        """τ, the standard deviation of the groups around their centres: its median and 90 % interval."""
        median, low, high = np.quantile(self._joint_draws[2], [0.5, 0.05, 0.95]).tolist()
        return median, low, high

    def words(self) -> Words:
        """Describe the pooled estimates, and how much the groups differ."""
        (median, low, high), subject = self.between, self.subject
        centre = " around a linear function of their covariates" if self._covariates else ""
        notes: tuple[str, ...] = (
            f"The groups' estimates are modelled as draws from one normal distribution{centre}; its "
            f"standard deviation is about {median:.3g} (90 % interval {low:.3g} to {high:.3g}).",
        )
        if self._covariates:
            slopes = (f"{r.name} {with_interval(r.mean, r.low or 0.0, r.high or 0.0)}" for r in self.slopes())
            notes += (f"Change of the centre per unit of a covariate: {'; '.join(slopes)}.",)
        return Words(
            headline=f"{subject.what} within {len(self.groups)} groups (hierarchical model)",
            name=f"{subject.what} within {len(self.groups)} pooled groups",
            notes=notes,
        )

    def __repr__(self) -> str:
        return f"<PooledEstimates: {self.subject.what} within {len(self.groups)} groups>"


def pool_shares(
    draws: FloatArray,
    prior: Sequence[float] | FloatArray,
    axes: Mapping[str, Sequence[Any]],
    value: Any,
    covariates: Covariates | None,
    seed: int,
    rows: Sequence[Row],
    empty: Sequence[bool] | None = None,
    turned: bool = False,
) -> PooledEstimates:
    """Pool the shares of one value, given posterior draws under a Dirichlet prior.

    ``draws`` has shape (draws, groups, values), in the order of the two ``axes``: groups and values.
    ``value`` is the last value by default; groups that are ``empty`` have no information. ``rows`` are those
    of the answer, group after group, or value after value if ``turned``.
    """
    (by, groups), (column, values) = axes.items()
    value = values[-1] if value is None else value
    if value not in values:
        raise InvalidInputError(
            f"must be one of: {', '.join(map(str, values))}", parameter="value", value=value
        )
    at = list(values).index(value)
    drawn, own = draws[:, :, at], float(prior[at])
    nothing = GroupMixture(np.ones(1), np.full(1, 0.5), np.full(1, 1e6))
    mixtures = [
        nothing if without else drawn_mixture(share, (own, float(sum(prior)) - own))
        for share, without in zip(drawn.T, empty or [False] * len(groups), strict=True)
    ]
    means, deviations = draws.mean(axis=0), draws.std(axis=0)
    noise = np.reshape([row.noise or 0 for row in rows], means.shape, order="F" if turned else "C")
    near = ((means < 2 * deviations) & (noise > 0.5)).mean(axis=0) > 0.5  # in most groups, by noise
    moved = near[at] or np.median(means[:, near].sum(axis=1) - deviations[:, at]) > 0
    names = ", ".join(str(v) for v, is_near in zip(values, near, strict=True) if is_near)
    doubts = (f"in most groups these values are hidden by noise: {names}; {_DOUBT}",) if moved else ()
    within = math.sqrt(float(np.median((means * (1 - means))[:, at])))
    subject = Subject(tuple(groups), by, f"Share of {value} in {column}", (0.0, 1.0), True, doubts)
    return PooledEstimates(subject, mixtures, within, covariates, seed)


def _design(groups: Sequence[Any], covariates: Covariates) -> tuple[FloatArray, FloatArray]:
    """Return a row for each group (1 and its standardised covariates), and the scales of the covariates."""
    if not isinstance(covariates, Mapping) or not all(isinstance(v, Mapping) for v in covariates.values()):
        raise InvalidInputError(
            "must map names to numbers by group, such as {'income': {'north': 31, 'south': 28}}",
            parameter="covariates",
            value=covariates,
        )
    columns, scales = [np.ones(len(groups))], []
    for name, by_group in covariates.items():
        lacking = [group for group in groups if group not in by_group]
        if lacking:
            raise InvalidInputError(f"covariates: {name!r} has no number for the group {lacking[0]!r}")
        try:
            values = np.array([float(by_group[group]) for group in groups])
        except (TypeError, ValueError):
            values = np.full(len(groups), np.nan)
        if not np.all(np.isfinite(values)):
            raise InvalidInputError(f"covariates: {name!r} must have a finite number for each group")
        scales.append(float(values.std()) or 1.0)
        columns.append((values - values.mean()) / scales[-1])
    design = np.stack(columns, axis=1)
    if np.linalg.matrix_rank(design) < len(columns) or (covariates and len(groups) < len(columns) + 1):
        raise InvalidInputError(
            f"covariates: {len(covariates)} must not be constant or linearly dependent, and need more than "
            f"{len(columns)} groups; there are {len(groups)}"
        )
    return design, np.array(scales)


def _log_shares(group: GroupMixture, centre: FloatArray, tau: FloatArray) -> FloatArray:
    """Return the log weight of each component at each node, log wᵢ N(centre; mᵢ, sᵢ² + τ²).

    θ is integrated out.
    """
    variance = group.variances + tau[:, None] ** 2
    gaps = centre[:, None] - group.means
    return np.asarray(np.log(group.weights) - (gaps**2 / variance + np.log(variance)) / 2)
