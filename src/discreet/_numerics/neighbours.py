"""All pairs of neighbouring datasets of n records over k levels, and the losses of distributions over
them."""

from __future__ import annotations

import itertools
import math

import numpy as np

from discreet._numerics.hellinger import candidate_distances
from discreet._typing import FloatArray, IntArray

MAX_TRIPLES = 100_000_000


def largest_change(pairs: IntArray, values: FloatArray) -> float:
    """Return max |values[x, b] − values[y, b]| over pairs of rows (x, y) and columns b."""
    parts = np.array_split(pairs, max(1, len(pairs) * values.shape[1] >> 21))
    return max(float(np.abs(values[part[:, 0]] - values[part[:, 1]]).max()) for part in parts if len(part))


def fits(k: int, candidates: int) -> bool:
    """Return whether all triples (dataset, neighbour, outcome) can be enumerated for k levels."""
    return candidates <= 5_001 if k == 2 else candidates**2 * k * (k - 1) <= MAX_TRIPLES


def neighbouring_rows(rows: IntArray) -> IntArray:
    """Return the index pairs (x, y), x < y, of count vectors that differ by moving one record.

    ``rows`` must be in lexicographic order, as from :func:`discreet._numerics.count_vectors.compositions`.
    """
    n, k = int(rows[0].sum()), rows.shape[1]
    ways = np.array([[math.comb(m + later, later) for m in range(n + 1)] for later in range(k - 1, 0, -1)])
    pairs = []
    for i, j in itertools.combinations(range(k), 2):
        source = np.flatnonzero(rows[:, i] > 0)
        moved = rows[source].copy()
        moved[:, i] -= 1
        moved[:, j] += 1
        # Before a row stand, for every level, those that agree up to there and have fewer records in it.
        left = n - np.cumsum(moved, axis=1) + moved
        level = np.arange(k - 1)
        rank = (ways[level, left[:, :-1]] - ways[level, left[:, 1:]]).sum(axis=1)
        pairs.append(np.stack([rank, source], axis=1))
    return np.concatenate(pairs)


def log_normalisers(log_weights: FloatArray) -> FloatArray:
    """Return log Σ_b e^{weight} along the last axis."""
    peak = log_weights.max(axis=-1, keepdims=True)
    return np.asarray(peak[..., 0] + np.log(np.exp(log_weights - peak).sum(axis=-1)), dtype=np.float64)


def exponential_distributions(distance: FloatArray, rates: FloatArray) -> FloatArray:
    """Return log P(b|x) for P(b|x) ∝ exp(−rate(x)·H(x, b)), a row for each x; overwrites ``distance``."""
    distance *= -rates[:, None]
    for part in np.array_split(distance, max(1, distance.size >> 19)):
        part -= log_normalisers(part)[:, None]
    return distance


class ExponentialDistributions:
    """Output distributions P(b|x) ∝ exp(−strength·sharpness(x)·distance(x, b)) of all datasets x.

    b runs over all candidates. ``pairs`` holds the indices of neighbouring datasets; ``distance`` is
    overwritten.
    """

    def __init__(self, pairs: IntArray, distance: FloatArray, sharpness: FloatArray) -> None:
        self.pairs = pairs
        self._exponent = distance
        self._exponent *= sharpness[:, None]

    @property
    def triples(self) -> int:
        return 2 * len(self.pairs) * len(self._exponent)

    def _log_normalisers(self, strength: float) -> FloatArray:
        parts = np.array_split(self._exponent, max(1, self._exponent.size >> 21))
        return np.concatenate([log_normalisers(-strength * rows) for rows in parts])

    def worst_loss(self, strength: float) -> float:
        """Return max |log P(b|x) − log P(b|x')| over neighbours and outcomes."""
        size = self._log_normalisers(strength)
        worst = 0.0
        for part in self._parts():
            x, y = part.T
            loss = self._exponent[y] - self._exponent[x]
            loss *= strength
            loss += (size[y] - size[x])[:, None]
            worst = max(worst, float(loss.max()), -float(loss.min()))
        return worst

    def worst_delta(self, strength: float, epsilon: float) -> float:
        """Return max Σ_b (P(b|x) − e^ε P(b|x'))₊ over all neighbours x and x', in both orders."""
        size = self._log_normalisers(strength)
        factor = math.exp(epsilon)
        worst = 0.0
        for part in self._parts():
            first, second = (
                np.exp(-strength * self._exponent[side] - size[side][:, None]) for side in part.T
            )
            for p, q in ((first, second), (second, first)):
                worst = max(worst, float(np.maximum(p - factor * q, 0.0).sum(axis=1).max()))
        return worst

    def _parts(self) -> list[IntArray]:
        return np.array_split(self.pairs, max(1, len(self.pairs) * len(self._exponent) >> 21))


class HellingerDistributions(ExponentialDistributions):
    """Output distributions of the exponential mechanism whose score is the Hellinger distance."""

    def __init__(self, prior: tuple[float, ...], rows: IntArray, sharpness: FloatArray) -> None:
        super().__init__(neighbouring_rows(rows), candidate_distances(prior, rows), sharpness)
