"""Posteriors of the numbers of records of levels in a sparse release, with the noise accounted for.

Model: a level is empty with an unknown probability 1 − π. Otherwise it has x records with probability
x^{−s}/Σ y^{−s}, where the sum over y ends at the largest published count, although x may be larger. The prior
of π is log-uniform from 1/(100 k) to 1, and that of the slope s is uniform from 0 to 3. Both are integrated
out: a published count just above the threshold may be noise on an empty level, and the other counts determine
how likely that is. The likelihood includes the event that unpublished levels stayed below the threshold. The
total of all unpublished levels is not inferred from this model, because it has a noisy count of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from discreet._randomness.entropy import SeededEntropy
from discreet._typing import FloatArray
from discreet.distributions.base import RecordNumber, tails
from discreet.errors import TooLargeError
from discreet.mechanisms.sparse import Sparse

_POWER_LAW_SLOPES = np.linspace(0.0, 3.0, 13)
_NOISE_REACH_NATS = 40.0  # noise beyond it is left out
_MOST_LISTED_COUNTS = 1 << 24  # most true counts that are listed; with wider noise every h-th is
_QUADRATURE_NODES = 200
_DRAWN = 100


def number_near(noisy: int, rate: float, nodes: int = 20_000) -> RecordNumber:
    """Return the distribution of a number of records, given that number plus two-sided geometric noise."""
    share, ratio = (np.arange(nodes) + 0.5) / nodes, 1 + math.exp(-rate)
    below = np.ceil(np.log(share * ratio) / rate)
    noise = np.where(below < 0, below, np.ceil(-np.log((1 - share) * ratio) / rate) - 1)
    return RecordNumber(noisy + noise)


def expected_halves(
    mechanism: Sparse, records: int, levels: int, level: float, seed: int
) -> tuple[float, float, float]:
    """Simulate a release, and return half-widths of intervals for a plan.

    They are for a level with ``records`` records (the mean over levels), for all other records together, and
    for the total. The interval of an unpublished level runs from 0 to the number of records that would be
    published with probability ``level``.
    """
    drawn = mechanism.run(dict.fromkeys(range(min(levels, mechanism.k)), records), SeededEntropy(seed))
    posterior = SparsePosterior(tuple(drawn.counts.values()), drawn.rest, mechanism)
    low, high = posterior.interval(level)
    halves = (high - low) / 2
    seen = [place < levels for place in drawn.counts]
    hidden = [mechanism.records_needed(level) / 2] * (min(levels, mechanism.k) - sum(seen))
    first, last = posterior.total.interval(level)
    return float(np.mean([*halves[:-1][seen], *hidden])), float(halves[-1]), (last - first) / 2


class _Levels(NamedTuple):
    """For each distinct noisy count: possible true counts with probabilities, mean, standard deviation."""

    values: FloatArray
    probability: FloatArray
    mean: FloatArray
    deviation: FloatArray


class SparsePosterior:
    """The posterior of the number of records: of each published level, of the other levels, and in total."""

    def __init__(self, noisy: Sequence[int], rest: int, mechanism: Sparse) -> None:
        if max(map(abs, (*noisy, rest))) >= 2**53:
            raise TooLargeError("numbers of records can be inferred from noisy counts up to 2**53 only")
        self._distinct, self._inverse = np.unique(np.array(noisy, dtype=np.float64), return_inverse=True)
        self._mechanism = mechanism
        self.everything_else = number_near(rest, float(mechanism.rest_epsilon))

    def sample(self, size: int, seed: int | None = None) -> FloatArray:
        """Draw the number of records of each published level, then of all other levels, independently."""
        rng, levels = np.random.default_rng(seed), self._levels
        drawn = np.empty((size, len(self._inverse) + 1))
        for place, row in enumerate(self._inverse):
            reached = np.cumsum(levels.probability[row])
            at = np.searchsorted(reached, rng.random(size) * reached[-1], side="right")
            drawn[:, place] = levels.values[row][np.minimum(at, len(reached) - 1)]
        drawn[:, -1] = rng.choice(self.everything_else.values, size)
        return drawn

    @property
    def total(self) -> RecordNumber:
        """The posterior of the number of all records, from draws.

        Only the levels with the largest standard deviations are drawn one by one; the sum of the others is
        drawn from a normal distribution.
        """
        rng, levels = np.random.default_rng(0), self._levels
        values = rng.permutation(self.everything_else.values)
        order = np.argsort(-levels.deviation[self._inverse], kind="stable")
        for row in self._inverse[order[:_DRAWN]]:
            reached = np.cumsum(levels.probability[row])
            at = np.searchsorted(reached, rng.random(len(values)) * reached[-1], side="right")
            values = values + levels.values[row][np.minimum(at, len(reached) - 1)]
        others = self._inverse[order[_DRAWN:]]
        deviation = math.sqrt((levels.deviation[others] ** 2).sum())
        return RecordNumber(values + rng.normal(levels.mean[others].sum(), deviation, len(values)))

    def mean(self) -> FloatArray:
        """Return the posterior means: of each published level, then of all other levels together."""
        return np.append(self._levels.mean[self._inverse], self.everything_else.mean())

    def std(self) -> FloatArray:
        """Return the posterior standard deviations, in the order of :meth:`mean`."""
        return np.append(self._levels.deviation[self._inverse], self.everything_else.std())

    def empty(self) -> FloatArray:
        """Return the posterior probability that a published level has no records, for each of them."""
        return np.asarray(self._levels.probability[self._inverse, 0])

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of credible intervals, in the order of :meth:`mean`."""
        reached, rest = np.cumsum(self._levels.probability, axis=1), self.everything_else.interval(level)
        ends = []
        for end, rest_end in zip(tails(level), rest, strict=True):
            at = np.argmax(reached >= end - 1e-12, axis=1)[:, None]
            ends.append(np.append(np.take_along_axis(self._levels.values, at, 1)[self._inverse, 0], rest_end))
        return ends[0], ends[1]

    @cached_property
    def _levels(self) -> _Levels:
        z, rate = self._distinct, float(self._mechanism.level_epsilon)
        if not len(z):
            return _Levels(np.zeros((0, 1)), np.zeros((0, 1)), z, z)
        reach = math.ceil(_NOISE_REACH_NATS / rate)
        step = -(-reach // min(2000, max(200, _MOST_LISTED_COUNTS // len(z))))
        x = z[:, None] + step * np.arange(-(reach // step), reach // step + 1)
        near = np.where(x >= 1, np.exp(-rate * np.abs(x - z[:, None])), 0.0) * step
        log_x = np.log(np.maximum(x, 1.0))
        powers = np.stack([(near * np.exp(-s * log_x)).sum(axis=1) for s in _POWER_LAW_SLOPES])
        distribution = np.zeros_like(x)
        for s, power, filled in zip(
            _POWER_LAW_SLOPES, powers, self._nonempty_probabilities(powers), strict=True
        ):
            distribution += (filled / power)[:, None] * near * np.exp(-s * log_x)
        values = np.concatenate([np.zeros((len(z), 1)), x], axis=1)
        probability = np.concatenate([1 - distribution.sum(axis=1, keepdims=True), distribution], axis=1)
        mean = (probability * values).sum(axis=1)
        spread = (probability * (values - mean[:, None]) ** 2).sum(axis=1)
        return _Levels(values, probability, mean, np.sqrt(np.maximum(spread, 0.0)))

    def _nonempty_probabilities(self, powers: FloatArray) -> FloatArray:
        """Return P(s | release)·P(level is not empty | s, z) for each slope s and distinct noisy count z.

        ``powers`` are Σ_x x^{−s} e^{−rate·|z − x|}. The constant of the noise distribution is left out.
        """
        z, mechanism = self._distinct, self._mechanism
        times, rate, tau = (
            np.bincount(self._inverse),
            float(mechanism.level_epsilon),
            float(mechanism.threshold),
        )
        edges = np.unique(np.floor(np.geomspace(1, z[-1] + 1, 20_000)))
        middle, size = (edges[:-1] + edges[1:] - 1) / 2, np.diff(edges)
        tail = np.exp(-rate * np.abs(tau - middle)) / (1 + math.exp(-rate))
        reaching = np.where(middle <= tau, tail, 1 - tail * math.exp(-rate))
        false, empty = math.exp(-rate * tau) / (1 + math.exp(-rate)), np.exp(-rate * z)[:, None]
        log_evidence, filled = np.empty(len(_POWER_LAW_SLOPES)), np.empty(powers.shape)
        for row, (s, power) in enumerate(zip(_POWER_LAW_SLOPES, powers, strict=True)):
            slab = size * middle**-s
            share, true = (power / slab.sum())[:, None], float(slab @ reaching / slab.sum())
            nodes = np.linspace(math.log(0.01 / mechanism.k), -1e-9, _QUADRATURE_NODES)
            for last in (False, False, True):  # everywhere, then where it matters
                pi = np.exp(nodes)
                hidden = (mechanism.k - times.sum()) * np.log1p(-((1 - pi) * false + pi * true))
                value = times @ np.log((1 - pi) * empty + pi * share) + hidden
                if not last:
                    relevant = np.flatnonzero(value > value.max() - 25)
                    nodes = np.linspace(
                        nodes[max(relevant[0] - 1, 0)],
                        nodes[min(relevant[-1] + 1, _QUADRATURE_NODES - 1)],
                        _QUADRATURE_NODES,
                    )
            value[[0, -1]] -= math.log(2)  # of a trapezium
            log_evidence[row] = logsumexp(value) + math.log(nodes[1] - nodes[0])
            weight = np.exp(value - logsumexp(value))
            filled[row] = (pi * share / (pi * share + (1 - pi) * empty)) @ weight
        return np.asarray(filled * np.exp(log_evidence - logsumexp(log_evidence))[:, None])
