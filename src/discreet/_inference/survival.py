"""Survival curves of one or several groups, from noisy counts of events and censored records.

A record's cell is its group, the bin of its time, and whether the event happened then or the record was
censored. The shares of a group's cells have two trees of :mod:`~discreet._inference.polya_tree`, one for
events and one for censored records. With p₁ and p₀ the shares of a bin and r the share still at risk at its
start, the share of survivors is multiplied by

    ((r − p₁ − p₀)/r)^{p₁/(p₁ + p₀)},

which is exact where events and censoring are proportional within the bin. A bin that holds one whole number
has the factor of Kaplan and Meier, 1 − p₁/r. The curve ends at the start of the last bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

from discreet._inference.add_remove import LogUniform
from discreet._inference.quantiles import DRAWS, Bins, trees_together
from discreet._numerics.noises import Noise
from discreet._typing import FloatArray
from discreet.distributions.base import as_draws, tails
from discreet.errors import InvalidInputError

_SMALLEST = 1e-300


class SurvivalPosterior:
    """The posterior of survival curves given noisy counts.

    Parameters
    ----------
    bins
        The bins of time, without atoms.
    counts
        Noisy counts, shape (groups, bins, 2): censored records, then events.
    noise, n, apart, total_prior
        As for :class:`~discreet._inference.quantiles.BinnedDistribution`.
    """

    def __init__(
        self,
        bins: Bins,
        counts: npt.ArrayLike,
        noise: Noise,
        *,
        n: int | None = None,
        apart: Sequence[float] = (),
        total_prior: LogUniform | None = None,
    ) -> None:
        cells = np.asarray(counts, dtype=np.float64)
        self.bins, (groups, k, _) = bins, cells.shape
        # Events and censored records of a group are neighbours in time, so each has a tree of its own. Both
        # may begin and end abruptly, with entry and with the study.
        z = np.append(cells.transpose(0, 2, 1).ravel(), np.asarray(apart, dtype=np.float64))
        ranges = [range(k * i, k * (i + 1)) for i in range(2 * groups)]
        ranges += [range(i, i + 1) for i in range(2 * groups * k, len(z))]
        self.groups = groups
        self._cells, self._noise, self._n = cells, noise, n
        self._distribution = trees_together(z, ranges, noise, n, total_prior, False)

    def draws(self, size: int = DRAWS, seed: int | None = 0) -> SurvivalDraws:
        """Draw the curves of all groups together."""
        rng = np.random.default_rng(seed)
        parts = self._distribution.draw(as_draws(size, 2 * self.groups * len(self.bins)), rng)[
            : 2 * self.groups
        ]
        shares = np.stack([share[:, None] * cells for share, cells, _ in parts], axis=1)
        shares = shares.reshape(size, self.groups, 2, -1)
        return SurvivalDraws(self.bins, shares[:, :, 1], shares[:, :, 0])

    @cached_property
    def usual(self) -> SurvivalDraws:
        """The draws from which estimates and intervals are computed."""
        return self.draws()

    def log_rank(self) -> tuple[float, int, float]:
        """Return the log-rank statistic of equal hazards, its degrees of freedom and p-value.

        Observed minus expected events of a group are linear in the noisy counts, with weights from the pooled
        hazard and the groups' parts of the time at risk. The variance is therefore the sampling variance plus
        that of the noise; no prior pulls the groups together.
        """
        drawn, (groups, k, _) = self.usual, self._cells.shape
        shares = np.stack([drawn.censored.mean(axis=0), drawn.events.mean(axis=0)], axis=-1)
        at_risk_in = np.triu(np.ones((k, k)), 1) + np.eye(k) / 2  # of records that end in a bin: half of it
        exposure = shares.sum(axis=-1) @ at_risk_in.T
        total = np.maximum(exposure.sum(axis=0), _SMALLEST)
        hazard = shares[..., 1].sum(axis=0) / total
        weight = np.eye(groups)[1:, :, None] - (exposure / total)[1:, None]  # (groups less one, groups, bins)
        weight[..., -1] = 0.0
        cells = np.stack([-(weight * hazard) @ at_risk_in] * 2, axis=-1)
        cells[..., 1] += weight
        cells = cells.reshape(groups - 1, -1)
        p = shares.ravel()
        excess = cells @ self._cells.ravel()
        records = max(float(self._cells.sum()), 1.0) if self._n is None else self._n
        centred = cells - cells.mean(axis=1, keepdims=True) if self._noise.together else cells
        expected = cells @ p if self._n is not None else np.zeros(groups - 1)
        covariance = records * ((cells * p) @ cells.T - np.outer(expected, expected))
        covariance += float(np.max(self._noise.variance)) * centred @ centred.T
        statistic = float(excess @ np.linalg.solve(covariance, excess))
        return statistic, groups - 1, float(chdtrc(groups - 1, statistic))


@dataclass(frozen=True, eq=False)
class SurvivalDraws:
    """Draws of the shares of events and of censored records, each of shape (draws, groups, bins)."""

    bins: Bins
    events: FloatArray
    censored: FloatArray

    @cached_property
    def edges(self) -> FloatArray:
        """The starts of the bins; for whole numbers, the curve there is the share of times at or above
        them.
        """
        return np.array([low for low, _ in self.bins.intervals])

    @property
    def times(self) -> FloatArray:
        """The times at which the curve is reported: all edges but the first, where it is 1."""
        return self.edges[1:] - (1 if self.bins.whole else 0)

    @cached_property
    def at_risk(self) -> FloatArray:
        """The share of all records at risk at the start of each bin."""
        both = self.events + self.censored
        return np.maximum(np.cumsum(both[..., ::-1], axis=-1)[..., ::-1], _SMALLEST)

    @cached_property
    def hazard(self) -> FloatArray:
        """The integrated hazard of each bin but the last."""
        p1, p0, r = (part[..., :-1] for part in (self.events, self.censored, self.at_risk))
        left = self.at_risk[..., 1:] / r
        hazard = -np.log(np.maximum(left, _SMALLEST)) * p1 / np.maximum(p1 + p0, _SMALLEST)
        if self.bins.whole:
            single = np.diff(self.edges) == 1
            hazard = np.where(single, -np.log1p(-np.minimum(p1 / r, 1 - 1e-15)), hazard)
        return np.asarray(hazard)

    @cached_property
    def curves(self) -> FloatArray:
        """The shares that survive beyond each of ``times``, (draws, groups, times)."""
        return np.exp(-np.cumsum(self.hazard, axis=-1))

    def band(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return bands that hold the whole curve of a group with this probability, (groups, times).

        Pointwise equal-tailed intervals are widened until the wanted share of draws lies within all of them,
        so no scale has to be chosen.
        """
        curves, size = np.sort(self.curves, axis=0), len(self.curves)
        order = np.argsort(np.argsort(self.curves, axis=0), axis=0)
        depth = np.minimum(order, size - 1 - order).min(axis=-1)  # (draws, groups)
        tail = np.floor(np.quantile(depth, 1 - level, axis=0)).astype(int)
        groups = np.arange(len(tail))
        return curves[tail, groups], curves[size - 1 - tail, groups]

    def quantile(self, prob: float = 0.5) -> FloatArray:
        """Return the first time at which a share ``prob`` has had the event; infinite beyond the last
        edge.
        """
        ends = np.concatenate([np.ones((*self.curves.shape[:2], 1)), self.curves], axis=-1)
        wanted = 1 - prob
        place = (ends > wanted).sum(axis=-1)
        last = ends.shape[-1] - 1
        upper = np.minimum(place, last)
        lower = np.maximum(upper - 1, 0)
        above, below = (np.take_along_axis(ends, i[..., None], -1)[..., 0] for i in (lower, upper))
        along = np.clip((above - wanted) / np.maximum(above - below, _SMALLEST), 0, 1)
        time = self.edges[lower] + along * (self.edges[upper] - self.edges[lower])
        if self.bins.whole:
            time = np.maximum(np.ceil(time) - 1, self.edges[0])
        return np.asarray(np.where(place > last, np.inf, time))

    def restricted_mean(self, until: float | None = None) -> FloatArray:
        """Return the mean of time up to ``until``, by default the last of ``times``; (draws, groups)."""
        edges = self.edges
        end = edges[-1] if until is None else float(until)
        if not edges[0] < end <= edges[-1]:
            raise InvalidInputError(f"must be above {edges[0]:g} and at most {edges[-1]:g}", "until", until)
        ends = np.concatenate([np.ones((*self.curves.shape[:2], 1)), self.curves], axis=-1)
        part = np.clip((end - edges[:-1]) / np.diff(edges), 0, 1)
        left = ends[..., :-1]
        right = left + part * (ends[..., 1:] - left)
        area = part * np.diff(edges) * (left + right) / 2
        step = (right - left) / 2 if self.bins.whole else 0.0  # sums over whole numbers are no areas
        return np.asarray(edges[0] + (area + step).sum(axis=-1))

    @staticmethod
    def interval(draws: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
        """Return equal-tailed intervals whose ends are draws."""
        low, high = np.quantile(draws, tails(level), axis=0, method="inverted_cdf")
        return low, high
