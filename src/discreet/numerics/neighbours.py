"""All pairs of neighbouring datasets of n records over k levels, and the losses of laws over them."""

from __future__ import annotations

import itertools
import math

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.numerics.log_gamma import log_gamma_gap, stirling_remainder

MAX_TRIPLES = 100_000_000


def fits(k: int, candidates: int) -> bool:
    """Whether all (dataset, neighbour, outcome) triples of that many candidates can be enumerated."""
    return candidates <= 5_001 if k == 2 else candidates**2 * k * (k - 1) <= MAX_TRIPLES


def neighbouring_rows(rows: IntArray) -> IntArray:
    """Index pairs (x, y), x < y, of compositions that differ by moving one record; rows are in lexicographic
    order, as :func:`discreet.numerics.count_vectors.compositions` gives them."""
    n, k = int(rows[0].sum()), rows.shape[1]
    if (n + 1) ** (k - 1) >= 2**62:
        return _neighbouring_rows_by_name(rows)
    key = _keys(rows, n)
    found = []
    for i in range(k):
        for j in range(i + 1, k):
            source = np.flatnonzero(rows[:, i] > 0)
            moved = rows[source].copy()
            moved[:, i] -= 1
            moved[:, j] += 1
            found.append(np.stack([np.searchsorted(key, _keys(moved, n)), source], axis=1))
    return np.concatenate(found)


def _neighbouring_rows_by_name(rows: IntArray) -> IntArray:
    """The same for levels so many that a row has no 62-bit number."""
    index = {row: i for i, row in enumerate(map(tuple, rows.tolist()))}
    found = []
    for row, source in index.items():
        for i, j in itertools.combinations(range(len(row)), 2):
            if row[i]:
                moved = list(row)
                moved[i] -= 1
                moved[j] += 1
                found.append((index[tuple(moved)], source))
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _keys(rows: IntArray, n: int) -> IntArray:
    key = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T[:-1]:
        key = key * (n + 1) + column
    return key


def gap_table(a: float, n: int) -> FloatArray:
    """f(a + c, a + b) for all counts c, b ≤ n: ``log_gamma_gap`` with what depends on c + b looked up."""
    counts = np.arange(n + 1, dtype=np.float64)
    table = np.empty((n + 1, n + 1))
    edge = min(n + 1, 10)  # where the arguments may be small
    table[:edge] = log_gamma_gap(a + counts[:edge, None], a + counts, counts[:edge, None] - counts)
    table[:, :edge] = table[:edge].T
    middle = a + 0.5 * np.arange(2 * n + 1)
    own, shared = 0.5 * stirling_remainder(a + counts), stirling_remainder(middle)
    log_own = np.log(a + counts)
    columns = np.arange(edge, n + 1)
    for rows in np.array_split(columns, max(1, table.size >> 18)) if len(columns) else []:
        total = rows[:, None] + columns
        m = middle[total]
        y = (rows[:, None] - columns) / (2.0 * m)
        far = np.abs(y) >= 0.5
        log_square = np.log1p(-np.where(far, 0.0, y * y))
        slope = 2.0 * np.arctanh(np.where(far, 0.0, y))
        if far.any():
            logs = log_own[rows][:, None], log_own[columns]
            log_square = np.where(far, logs[0] + logs[1] - 2.0 * np.log(m), log_square)
            slope = np.where(far, logs[0] - logs[1], slope)
        leading = m * (y * slope + log_square) - 0.5 * log_square
        gap = 0.5 * leading + own[rows][:, None] + own[columns] - shared[total]
        table[rows[0] : rows[-1] + 1, edge:] = np.maximum(gap, 0.0)
    return table


def candidate_distances(
    prior: tuple[float, ...], rows: IntArray, given: IntArray | None = None
) -> FloatArray:
    """Hellinger distances from the posteriors of ``given`` (all ``rows`` if None) to those of ``rows``."""
    given = rows if given is None else given
    distance: FloatArray = np.zeros((len(given), len(rows)))
    blocks = np.array_split(np.arange(len(given)), max(1, distance.size >> 18))
    for a in sorted(set(prior)):
        table = gap_table(a, int(rows[0].sum()))
        for own, column, target in zip(prior, given.T, rows.T, strict=True):
            if own == a:
                for block in blocks:
                    distance[block] += table[column[block]][:, target]
    np.negative(distance, out=distance)
    np.expm1(distance, out=distance)
    np.negative(distance, out=distance)
    return np.sqrt(distance, out=distance)


class HellingerLaws:
    """P(b|x) ∝ exp(−strength·sharpness(x)·H(x, b)) for all datasets x and candidates b at once."""

    def __init__(self, prior: tuple[float, ...], rows: IntArray, sharpness: FloatArray) -> None:
        self.pairs = neighbouring_rows(rows)
        distance = candidate_distances(prior, rows)
        distance *= sharpness[:, None]
        self._exponent = distance

    @property
    def triples(self) -> int:
        return 2 * len(self.pairs) * len(self._exponent)

    def _log_normalisers(self, strength: float) -> FloatArray:
        parts = []
        for rows in np.array_split(self._exponent, max(1, self._exponent.size >> 21)):
            exponent = -strength * rows
            peak = exponent.max(axis=1)
            parts.append(peak + np.log(np.exp(exponent - peak[:, None]).sum(axis=1)))
        return np.concatenate(parts)

    def worst_loss(self, strength: float) -> float:
        """max |log P(b|x) − log P(b|x')| over neighbours and outcomes."""
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
        """max Σ_b (P(b|x) − e^ε P(b|x'))₊ over neighbours, both ways."""
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
