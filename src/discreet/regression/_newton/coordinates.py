"""Coordinates in which rows are spread almost equally in all directions, which makes noise matter less.

The released sums of earlier rounds show roughly where rows z lie. A later round uses other coordinates, Lz,
in which most rows are within the largest norm. Longer rows are shortened to it, and their residuals by the
same factor: each record has a weight that depends only on its own row, which leaves the estimating equation
unbiased (Mallows). ``proofs/regression.md`` has the bound.
"""

from __future__ import annotations

import numpy as np

from discreet._typing import FloatArray
from discreet.regression._newton.design import Design
from discreet.regression._newton.models import MISFIT

_GUESSED = 512
"""The number of simulated records on which coordinates are compared."""
_WITHIN = (0.15, 0.3, 0.5, 0.7, 0.85, 0.95, 1.0)
"""The shares of records left unshortened: coordinates are tried for each."""
_GAIN = 0.2
"""Coordinates change only if a coefficient's log variance falls by at least this, on average."""


def choose(
    design: Design,
    moments: FloatArray,
    weight: float,
    dispersion: float,
    noise: float,
    kept: tuple[FloatArray, float],
    records: float,
) -> FloatArray:
    """Return the coordinates L of the next round: those in ``kept``, or better ones.

    All inputs are public. ``moments`` are the second moments of rows; a row x adds ``weight``·xx' to the
    curvature. ``noise`` is the variance of the noise on an entry of the score, divided by the number of
    records. ``kept`` has the present coordinates, and that variance when earlier rounds in the same
    coordinates are averaged in. Each new axis is the residual of a column regressed on the columns before it,
    divided by the root of its fourth moment over its second: large for a column that is rarely different
    from 0.
    """
    rows, norm = guess_rows(design, moments), design.norm / design.unit

    def variance(matrix: FloatArray, noise: float) -> float:
        """Return the log determinant of the coefficients' covariance if rows are multiplied by ``matrix``."""
        lengths = np.einsum("ij,ij->i", rows @ matrix.T, rows @ matrix.T)
        shares = np.minimum(1.0, norm**2 / np.maximum(lengths, 1e-300))
        curvature = weight * (rows * shares[:, None]).T @ rows / len(rows)
        curvature = curvature + 1e-9 * weight * np.diag(np.diag(moments))
        back = np.linalg.inv(matrix)
        lost = rows * (1 - shares)[:, None]
        missed = records * weight * MISFIT / design.d * lost.T @ lost / len(rows)
        chance = dispersion * (curvature + missed) + noise * back @ back.T
        return float(np.linalg.slogdet(chance)[1] - 2 * np.linalg.slogdet(curvature)[1])

    lower = np.linalg.cholesky(moments)
    apart = np.linalg.inv(lower / np.diag(lower))
    parts = (rows @ apart.T) ** 2
    axes = np.maximum((parts**2).mean(axis=0), 1e-18) / np.maximum(parts.mean(axis=0), 1e-12)
    radii = np.quantile((parts / axes).sum(axis=1), _WITHIN)
    tried = [apart * (norm / np.sqrt(axes * radius))[:, None] for radius in radii]
    worth = [variance(matrix, noise) for matrix in tried]
    best = int(np.argmin(worth))
    return tried[best] if worth[best] < variance(*kept) - _GAIN * design.d else kept[0]


def guess_rows(design: Design, moments: FloatArray) -> FloatArray:
    """Return simulated rows with these second moments: normal numbers, and levels independent of them.

    Numbers whose moments do not determine their distribution, as with splines, are spread evenly.
    """
    generator, at, unit = np.random.default_rng(0), design.constant or 0, design.unit
    codes = [generator.integers(0, variable.coder.size, _GUESSED) for variable in design.variables]
    alone = [(j, *factors[0]) for j, factors in enumerate(design.tables) if len(factors) == 1]
    rising: dict[int, tuple[int, FloatArray]] = {}
    for v, variable in enumerate(design.variables):
        own = [(j, table / unit) for j, place, table in alone if place == v]
        if variable.numeric:
            if own and (np.diff(own[0][1]) >= 0).all():
                rising[v] = own[0]
        elif own:
            tables = np.array([table for _, table in own])
            even = np.full(variable.coder.size, 1 / variable.coder.size)
            missed = moments[at, [j for j, _ in own]] - tables @ even
            system = np.vstack([tables, np.ones(len(even))])
            shares = even + np.linalg.lstsq(system, np.append(missed, 0.0), rcond=None)[0]
            total = np.cumsum(np.maximum(shares, 1e-3))
            codes[v] = np.searchsorted(total[:-1] / total[-1], generator.random(_GUESSED))
    chosen = [j for j, _ in rising.values()]
    mean = moments[at, chosen]
    values, vectors = np.linalg.eigh(moments[np.ix_(chosen, chosen)] - np.outer(mean, mean))
    normal = generator.normal(size=(_GUESSED, len(chosen))) * np.sqrt(np.maximum(values, 1e-8))
    for (v, (_, table)), value in zip(rising.items(), (mean + normal @ vectors.T).T, strict=True):
        codes[v] = np.searchsorted(table[:-1], value)
    return design.rows(codes, _GUESSED) / unit
