"""What the bridges to other libraries call: log P(z) and its slope at parameters, as plain arrays.

Cells stand alone (any shape, one number a cell) or share a public total (cells on the last axis). Where the
values are known beforehand, cells are looked up in tables; the exact sums stand behind.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.inference.likelihoods import tables
from discreet.inference.likelihoods.kinds import NoisyCells
from discreet.inference.likelihoods.models import Multinomial
from discreet.numerics.cells import Cells
from discreet.numerics.counts import BinomialLaw, PoissonLaw
from discreet.numerics.noises import Noise


def independent(noise: Noise) -> Noise:
    """The noise, if its cells are independent of each other."""
    if noise.together:
        raise InvalidInput(
            f"{noise.name} noise sums to zero over its cells, so no cell stands alone; "
            "use NoisyMultinomial with the public total"
        )
    return noise


def looked_up(xp: Any, noise: Noise, z: Any, parameter: Any, size: Any = None) -> tuple[Any, Any]:
    """log P(z) of every cell and its derivative by the rate, or by the probability where there is a size."""
    values, sizes = np.asarray(z, dtype=np.float64), None if size is None else np.asarray(size, dtype=float)
    cells = np.broadcast_shapes(values.shape, noise.scale.shape, () if sizes is None else sizes.shape)
    shape = np.broadcast_shapes(np.shape(parameter), cells)
    while noise.scale.ndim < len(cells) and cells[0] == 1:  # an axis of draws: cells are the same along it
        cells = cells[1:]
    cells = shape[len(shape) - len(cells) :]
    flat = (*shape[: len(shape) - len(cells)], math.prod(cells))

    def row(given: FloatArray) -> FloatArray:
        return np.broadcast_to(given.reshape(given.shape[max(given.ndim - len(cells), 0) :]), cells).ravel()

    values, sizes = row(values), None if sizes is None else row(sizes)
    made = tables.table(noise.over(cells), values, sizes)
    found = made.log_prob(xp, xp.broadcast_to(parameter, shape).reshape(flat))
    return found[0].reshape(shape), found[1].reshape(shape)


def summed(noise: Noise, z: Any, parameter: Any, size: Any = None) -> tuple[FloatArray, FloatArray]:
    """The same by the sums themselves."""
    arrays = [
        np.asarray(a, dtype=np.float64) for a in (z, parameter, noise.scale, 0 if size is None else size)
    ]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    values, p, scales, n = (np.array(np.broadcast_to(a, shape)).ravel() for a in arrays)
    law = PoissonLaw(p) if size is None else BinomialLaw(n, p, 1 - p)
    mean, spread = (p, p) if size is None else (n * p, p * (1 - p))
    log_prob, (excess,) = Cells(law, noise, values, scales).cumulants(1, np.zeros_like(p), mean)
    return log_prob.reshape(shape), (excess / np.maximum(spread, 1e-300)).reshape(shape)


def expandable(z: Any, total: int) -> bool:
    """Whether there are so many cells that an expansion is worth trying."""
    return total > 0 and np.shape(z)[-1] >= 32


def totals(xp: Any, noise: Noise, z: FloatArray, shares: Any, total: int, loop: Any) -> tuple[Any, Any, Any]:
    """log P(z) of one row of values with a public total, E[x | z], and the error to be expected of both."""
    made = tables.table(noise, z, total=total)
    value, means, error = tables.given_total(xp, made, total, shares, loop)
    return value - noise.log_normaliser(len(z)), means, error


def exact_totals(noise: Noise, z: Any, shares: Any, total: int) -> tuple[FloatArray, FloatArray]:
    """The same by inversion, for rows of values and of shares."""
    return _by_rows(z, shares, partial(_inverted, noise, total))


def fast_totals(noise: Noise, z: Any, shares: Any, total: int) -> tuple[FloatArray, FloatArray]:
    """The same by expansion where that is good enough, and by inversion where not."""

    def found(row: FloatArray, own: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, means, error = totals(np, noise, row, own, total, tables.until)
        if np.any(poor := ~(error <= tables.ENOUGH)):
            value[poor], means[poor] = _inverted(noise, total, row, own[poor])
        return value, means

    return _by_rows(z, shares, found if expandable(z, total) else partial(_inverted, noise, total))


def _inverted(noise: Noise, total: int, row: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    made = NoisyCells(row, noise, Multinomial(total))
    return made.log_prob(shares), made.expected_counts(shares)


def _by_rows(z: Any, shares: Any, function: Any) -> tuple[FloatArray, FloatArray]:
    """A function of one row of values and all shares that go with it."""
    z, shares = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(shares, dtype=np.float64))
    rows, flat = z.reshape(-1, z.shape[-1]), shares.reshape(-1, z.shape[-1])
    flat = flat / flat.sum(axis=1, keepdims=True)
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    value, means = np.empty(len(rows)), np.empty(rows.shape)
    for i, row in enumerate(distinct):
        own = np.flatnonzero(inverse.ravel() == i)
        value[own], means[own] = function(row, flat[own])
    return value.reshape(z.shape[:-1]), means.reshape(z.shape)
