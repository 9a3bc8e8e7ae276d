"""True counts of several tables of the same records: their shared margins agree.

Draws of each table's counts, given what was published of that table alone, are independent of each other;
given everything that was published they agree wherever two tables have columns in common. Of normal draws x
with covariance G and constraints Ax = 0, the draws x − GA'(AGA')⁺Ax have the conditional law. Counts are not
negative, so each is moved by a factor instead: exp(−move/mean), which is the same for a count that is large
against its uncertainty, and what tilting does to one that is near zero. Three rounds lead to agreement.
Counts of a table with a public total are independent but for that total: G = diag(s) − ss'/Σs, so that only
variances are taken from the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy import sparse

from discreet._typing import FloatArray, IntArray

_ROUNDS = 3


def agreeing(tables: Sequence[FloatArray], axes: Sequence[tuple[str, ...]]) -> list[FloatArray]:
    """Draws (draws, levels…) of each table's counts, moved so that what the tables share agrees."""
    flat = [table.reshape(len(table), -1) for table in tables]
    shapes = [table.shape[1:] for table in tables]
    constraints = _constraints(shapes, axes)
    size = sum(number for *_, number in constraints)
    if not size:
        return [np.asarray(table, dtype=np.float64) for table in tables]
    parts = [_rows(t, shapes[t], axes[t], constraints, size) for t in range(len(tables))]
    spreads = [_spread(x) for x in flat]
    law = np.zeros((size, size))
    for a, (s, tied) in zip(parts, spreads, strict=True):
        law += (a.multiply(s) @ a.T).toarray()
        law -= np.outer(a @ s, a @ s) / s.sum() if tied else 0.0
    inverse = np.linalg.pinv(law, rcond=1e-9, hermitian=True)
    means = [np.maximum(x.mean(axis=0), 0.5) for x in flat]
    for _ in range(_ROUNDS):
        pull = sum(x @ a.T for x, a in zip(flat, parts, strict=True)) @ inverse
        for i, (a, (s, tied)) in enumerate(zip(parts, spreads, strict=True)):
            move = pull @ a
            move = move - (move @ s)[:, None] / s.sum() if tied else move
            moved = flat[i] * np.exp(np.clip(-move * s / means[i], -1.0, 1.0))
            kept = flat[i].sum(axis=1, keepdims=True) / np.maximum(moved.sum(axis=1, keepdims=True), 1e-9)
            flat[i] = moved * kept if tied else moved
    return [x.reshape(len(x), *shape) for x, shape in zip(flat, shapes, strict=True)]


def resampled(log_weight: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Places of ``size`` draws chosen by their weights; flatter ones where a few would have them all."""
    power = 1.0
    while True:
        weight = np.exp(power * (log_weight - log_weight.max()))
        if weight.sum() ** 2 / (weight**2).sum() >= len(weight) / 20:
            return np.asarray(rng.choice(len(weight), size, p=weight / weight.sum()), dtype=np.int64)
        power *= 0.8


def _constraints(
    shapes: Sequence[tuple[int, ...]], axes: Sequence[tuple[str, ...]]
) -> list[tuple[tuple[str, ...], int, int, int]]:
    """(columns, table, another table, number of cells): these margins are the same."""
    shared = {tuple(sorted({*one} & {*other})) for one, other in combinations(axes, 2)}
    found = []
    for columns in sorted(shared):
        holders = [t for t, own in enumerate(axes) if set(columns) <= {*own}]
        levels = dict(zip(axes[holders[0]], shapes[holders[0]], strict=True))
        number = int(np.prod([levels[column] for column in columns], dtype=np.int64))
        found += [(columns, one, other, number) for one, other in pairwise(holders)]
    return found


def _rows(t: int, shape: tuple[int, ...], axes: tuple[str, ...], constraints: Any, size: int) -> Any:
    """This table's part of the constraints: a sparse matrix (constraints, cells) of 1, −1 and 0."""
    places = dict(zip(axes, np.indices(shape).reshape(len(shape), -1), strict=True))
    cells = int(np.prod(shape))
    rows: list[IntArray] = []
    signs: list[FloatArray] = []
    start = 0
    for columns, one, other, number in constraints:
        if t in (one, other):
            at = np.zeros(cells, dtype=np.int64)
            for column in columns:
                at = at * shape[axes.index(column)] + places[column]
            rows.append(start + at)
            signs.append(np.full(cells, 1.0 if t == one else -1.0))
        start += number
    if not rows:
        return sparse.csr_array((size, cells))
    columns = np.tile(np.arange(cells), len(rows))
    return sparse.csr_array((np.concatenate(signs), (np.concatenate(rows), columns)), shape=(size, cells))


def _spread(x: FloatArray) -> tuple[FloatArray, bool]:
    """s, and whether the total is fixed; then s − s²/Σs are the variances of the draws."""
    variance = x.var(axis=0) + 1e-9
    tied = bool(np.ptp(x.sum(axis=1)) < 0.5)
    s = variance.copy()
    for _ in range(100 if tied else 0):
        s = variance / np.maximum(1 - s / s.sum(), 0.02)
    return s, tied
