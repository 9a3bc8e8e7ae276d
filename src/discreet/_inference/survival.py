"""Survival curves of one or several groups, from noisy counts of events and censored records.

Records are counted by group, by the bin of their time, and by whether they had the event then or were
censored. In each group, the shares of events in the bins have a Pólya tree prior (see
:mod:`~discreet._inference.polya_tree`), and those of censored records another one. Let p₁ and p₀ be the
shares of events and of censored records in a bin, and r the share still at risk at its start. In this bin
the survival curve is multiplied by

    ((r − p₁ − p₀)/r)^{p₁/(p₁ + p₀)},

which is exact if events and censoring occur in a constant ratio within the bin. For a bin of a single whole
number the factor is 1 − p₁/r, as in the Kaplan–Meier estimate. The curve ends at the start of the last bin.
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
        Noisy counts of shape (groups, bins, 2); on the last axis censored records, then events.
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
        """Draw the survival curves of all groups jointly."""
        rng = np.random.default_rng(seed)
        parts = self._distribution.draw(as_draws(size, 2 * self.groups * len(self.bins)), rng)[
            : 2 * self.groups
        ]
        shares = np.stack([share[:, None] * cells for share, cells, _ in parts], axis=1)
        shares = shares.reshape(size, self.groups, 2, -1)
        return SurvivalDraws(self.bins, shares[:, :, 1], shares[:, :, 0])

    @cached_property
    def usual(self) -> SurvivalDraws:
        """The default draws, from which estimates and intervals are computed."""
        return self.draws()

    def log_rank(self) -> tuple[float, int, float]:
        """Test whether all groups have the same hazard: return the log-rank statistic, its df and p-value.

        Observed minus expected events of a group are linear in the noisy counts; the weights come from the
        pooled hazard and each group's part of the time at risk. So their variance is the sampling variance
        plus that of the noise. The prior does not enter.
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
        """The lower ends of the bins.

        For whole numbers, the curve at an edge is the share of times that are equal to it or larger.
        """
        return np.array([low for low, _ in self.bins.intervals])

    @property
    def times(self) -> FloatArray:
        """The times at which the curve is reported: all edges but the first (for whole numbers, minus 1)."""
        return self.edges[1:] - (1 if self.bins.whole else 0)

    @cached_property
    def at_risk(self) -> FloatArray:
        """The share of all records that are at risk at the start of each bin, (draws, groups, bins)."""
        both = self.events + self.censored
        return np.maximum(np.cumsum(both[..., ::-1], axis=-1)[..., ::-1], _SMALLEST)

    @cached_property
    def hazard(self) -> FloatArray:
        """The hazard integrated over each bin but the last, (draws, groups, bins − 1)."""
        p1, p0, r = (part[..., :-1] for part in (self.events, self.censored, self.at_risk))
        left = self.at_risk[..., 1:] / r
        hazard = -np.log(np.maximum(left, _SMALLEST)) * p1 / np.maximum(p1 + p0, _SMALLEST)
        if self.bins.whole:
            single = np.diff(self.edges) == 1
            hazard = np.where(single, -np.log1p(-np.minimum(p1 / r, 1 - 1e-15)), hazard)
        return np.asarray(hazard)

    @cached_property
    def curves(self) -> FloatArray:
        """The survival probability beyond each of ``times``, (draws, groups, times)."""
        return np.exp(-np.cumsum(self.hazard, axis=-1))

    def band(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the ends of simultaneous credible bands, each of shape (groups, times).

        A band contains the whole curve of a group with probability ``level``. Pointwise equal-tailed
        intervals are widened until this share of the drawn curves lies within all of them.
        """
        curves, size = np.sort(self.curves, axis=0), len(self.curves)
        order = np.argsort(np.argsort(self.curves, axis=0), axis=0)
        depth = np.minimum(order, size - 1 - order).min(axis=-1)  # (draws, groups)
        tail = np.floor(np.quantile(depth, 1 - level, axis=0)).astype(int)
        groups = np.arange(len(tail))
        return curves[tail, groups], curves[size - 1 - tail, groups]

    def quantile(self, prob: float = 0.5) -> FloatArray:
        """Return draws of the first time by which a share ``prob`` has had the event, (draws, groups).

        It is infinite if the curve ends before that.
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
        """Return draws of E[min(time, ``until``)], (draws, groups); ``until`` defaults to the last edge."""
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
        """Return equal-tailed credible intervals from draws, whose ends are drawn values."""
        low, high = np.quantile(draws, tails(level), axis=0, method="inverted_cdf")
        return low, high
