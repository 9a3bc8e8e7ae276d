"""Hellinger distance between Dirichlet distributions, stable from parameters of 10⁻³ to 10³⁰.

With f(a, b) = ½(lnΓ(a) + lnΓ(b)) − lnΓ((a+b)/2) ≥ 0 the Bhattacharyya coefficient of Dir(a) and Dir(b) is
exp(−F), F = Σᵢ f(aᵢ, bᵢ) − f(Σa, Σb), and H = √(1 − exp(−F)). When Σa = Σb the last term is zero and F is
separable over the categories.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet._numerics.log_gamma import log_gamma_gap, reduced_log_gamma, stirling_remainder
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError


def from_gap(gap: npt.ArrayLike) -> FloatArray:
    """Return H = √(1 − e^{−F}), accurate for small F; a negative F, from rounding, counts as 0."""
    return np.asarray(np.sqrt(-np.expm1(-np.maximum(gap, 0.0))), dtype=np.float64)


def hellinger(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray | float:
    """Return the Hellinger distance between Dir(a) and Dir(b), in [0, 1].

    Parameters
    ----------
    a, b
        Dirichlet parameters along the last axis; the leading axes are broadcast.

    Returns
    -------
    float or array
        The distance; two plain vectors give a float.

    Examples
    --------
    >>> round(hellinger((5, 5), (6, 4)), 12)
    0.233629480709
    """
    a = np.asarray(a, dtype=np.float64)
    b = np.asarray(b, dtype=np.float64)
    for name, value in (("a", a), ("b", b)):
        if value.ndim == 0 or value.shape[-1] < 2:
            raise InvalidInputError(f"{name} must hold at least two Dirichlet parameters along its last axis")
        if not (np.isfinite(value).all() and (value > 0).all()):
            raise InvalidInputError(f"{name} must hold positive, finite Dirichlet parameters")
    if a.shape[-1] != b.shape[-1]:
        raise InvalidInputError(f"a has {a.shape[-1]} parameters and b has {b.shape[-1]}")
    gap = log_gamma_gap(a, b).sum(axis=-1) - log_gamma_gap(a.sum(axis=-1), b.sum(axis=-1))
    distance = from_gap(gap)
    return float(distance) if distance.ndim == 0 else distance


def gap_table(a: float, n: int) -> FloatArray:
    """Return f(a + c, a + b) for all counts 0 ≤ c, b ≤ n, shape (n + 1, n + 1).

    This equals ``log_gamma_gap``, but is faster: parts that depend on c + b alone come from a table.
    """
    counts = np.arange(n + 1, dtype=np.float64)
    table = np.empty((n + 1, n + 1))
    edge = min(n + 1, 10)  # where the arguments may be small
    table[:edge] = log_gamma_gap(a + counts[:edge, None], a + counts, counts[:edge, None] - counts)
    table[:, :edge] = table[:edge].T
    middle = a + 0.5 * np.arange(2 * n + 1)
    half_remainder, shared = 0.5 * stirling_remainder(a + counts), stirling_remainder(middle)
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
        gap = 0.5 * leading + half_remainder[rows][:, None] + half_remainder[columns] - shared[total]
        table[rows[0] : rows[-1] + 1, edge:] = np.maximum(gap, 0.0)
    return table


def candidate_distances(
    prior: tuple[float, ...], rows: IntArray, sources: IntArray | None = None
) -> FloatArray:
    """Return the Hellinger distances from the posteriors of ``sources`` to those of ``rows``.

    Both arrays contain vectors of counts, one row each, whose totals may differ. ``sources`` defaults to
    ``rows``.
    """
    sources = rows if sources is None else sources
    distance: FloatArray = np.zeros((len(sources), len(rows)))
    blocks = np.array_split(np.arange(len(sources)), max(1, distance.size >> 18))
    most = int(max(rows.max(), sources.max()))
    for a in sorted(set(prior)):
        table = gap_table(a, most)
        for source_totals, column, target in zip(prior, sources.T, rows.T, strict=True):
            if source_totals == a:
                for block in blocks:
                    distance[block] += table[column[block]][:, target]
    totals, source_totals = rows.sum(axis=1), sources.sum(axis=1)
    if (totals != source_totals[0]).any() or (source_totals != source_totals[0]).any():
        whole = sum(prior)
        for block in blocks:
            apart = source_totals[block].astype(np.float64)[:, None] - totals
            distance[block] -= log_gamma_gap(whole + source_totals[block][:, None], whole + totals, apart)
        np.maximum(distance, 0.0, out=distance)
    for block in blocks:
        distance[block] = from_gap(distance[block])
    return distance


class PairWindow:
    """Hellinger distances between posteriors of two levels, whose first counts are at least ``first``.

    Calling it with i and j, both in 0, …, size − 1, gives the distance between the posteriors of the counts
    (first + i, n − first − i) and (first + j, n − first − j). The gap F is ½(g(i) + g(j)) − g((i+j)/2) for a
    function g that is tabulated at multiples of ½.
    """

    def __init__(self, prior: tuple[float, ...], n: int, first: int, size: int) -> None:
        half_steps = np.arange(2 * size - 1, dtype=np.float64) / 2
        self._shared = reduced_log_gamma(prior[0] + first, half_steps)
        self._shared += reduced_log_gamma(prior[1] + (n - first - size + 1), half_steps)[::-1]
        self._own = 0.5 * self._shared[::2]

    def __call__(self, i: IntArray, j: IntArray) -> FloatArray:
        return from_gap(self._own[i] + self._own[j] - self._shared[i + j])
