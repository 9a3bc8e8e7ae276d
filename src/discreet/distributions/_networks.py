"""Draws of the conditional tables of a Bayesian network, and probabilities by elimination."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from scipy import sparse

from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError, TooLargeError

_MAX_PRODUCT_NUMBERS = 1 << 27  # numbers in one product of tables: a gigabyte

Factor = tuple[tuple[str, ...], FloatArray]


def layers(parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Arrange the columns in layers, each after the last of its parents; raise an error for a cycle."""
    result: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(parents):
        layer = [column for column in parents if column not in placed and placed.issuperset(parents[column])]
        if not layer:
            raise InvalidInputError(f"parents has a cycle: {_cycle(parents, placed)}")
        result.append(layer)
        placed.update(layer)
    return result


def _cycle(parents: Mapping[str, Sequence[str]], placed: set[str]) -> str:
    """Describe a cycle, by following unplaced parents: every column that is not placed has one."""
    way = [next(column for column in parents if column not in placed)]
    while way[-1] not in way[:-1]:
        way.append(next(parent for parent in parents[way[-1]] if parent not in placed))
    return " → ".join(reversed(way[way.index(way[-1]) :]))


def largest_families(parents: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Return each column after its parents, without families that another one contains."""
    families = [(*parents[column], column) for layer in layers(parents) for column in layer]
    return [family for family in families if not any({*family} < {*other} for other in families)]


def table_for_column(
    parents: Mapping[str, Sequence[str]], families: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Choose the smallest table that contains each column and its parents."""

    def cells(table: int) -> int:
        return math.prod(sizes[column] for column in families[table])

    return {
        column: min(
            (t for t, family in enumerate(families) if {*column_parents, column} <= {*family}), key=cells
        )
        for column, column_parents in parents.items()
    }


@dataclass(frozen=True, eq=False)
class NetworkDraws:
    """Draws of all conditional tables, as arrays of shape (draws, levels of each parent…, levels)."""

    parents: Mapping[str, tuple[str, ...]]
    levels: Mapping[str, tuple[Any, ...]]
    tables: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(next(iter(self.tables.values())))

    @cached_property
    def order(self) -> list[str]:
        """The columns, parents before their children."""
        return [column for layer in layers(self.parents) for column in layer]

    def joint(self, columns: Sequence[str], evidence: Mapping[str, IntArray]) -> FloatArray:
        """Return P(columns, evidence) for every draw, of shape (draws, levels of each column…).

        ``evidence`` maps columns to the indices of their possible levels. Only these columns, the requested
        columns, and the ancestors of both matter; all others sum to 1 and are left out. Of the columns that
        matter, those that are not requested are summed out one by one, each time the column that gives the
        smallest product of tables.
        """
        needed = self._ancestors({*columns, *evidence})
        factors: list[Factor] = [((), np.ones(len(self)))]
        factors += [self._restrict(column, evidence) for column in self.order if column in needed]
        sizes = {column: len(evidence.get(column, self.levels[column])) for column in needed}
        left = needed - set(columns)
        while left:
            chosen = min(
                left,
                key=lambda candidate: (_product_size(factors, candidate, sizes), self.order.index(candidate)),
            )
            left.remove(chosen)
            touched = [factor for factor in factors if chosen in factor[0]]
            others = [factor for factor in factors if chosen not in factor[0]]
            names = tuple(dict.fromkeys(n for axes, _ in touched for n in axes if n != chosen))
            factors = [*others, (names, self._product(touched, names, sizes))]
        return self._product(factors, tuple(columns), sizes)

    def _ancestors(self, columns: set[str]) -> set[str]:
        ancestors: set[str] = set()
        rest = list(columns)
        while rest:
            column = rest.pop()
            if column not in ancestors:
                ancestors.add(column)
                rest += self.parents[column]
        return ancestors

    def _restrict(self, column: str, evidence: Mapping[str, IntArray]) -> Factor:
        names, table = (*self.parents[column], column), self.tables[column]
        for axis, name in enumerate(names, start=1):
            if name in evidence:
                table = np.take(table, evidence[name], axis=axis)
        return names, table

    def _product(
        self, factors: Sequence[Factor], names: tuple[str, ...], sizes: dict[str, int]
    ) -> FloatArray:
        here = dict.fromkeys(name for axes, _ in factors for name in axes)
        size = len(self) * math.prod(sizes[name] for name in here)
        if size > _MAX_PRODUCT_NUMBERS:
            raise TooLargeError(
                f"the answer needs a table of {size:.2g} numbers; ask for fewer draws (size=), or about "
                "columns that are closer in the network"
            )
        place = {name: i for i, name in enumerate(here, start=1)}
        operands: list[Any] = []
        for axes, table in factors:
            operands += [table, [0, *(place[name] for name in axes)]]
        return np.asarray(np.einsum(*operands, [0, *(place[name] for name in names)]), dtype=np.float64)

    def records(self, m: int, rng: np.random.Generator) -> Iterator[dict[str, IntArray]]:
        """Yield m records from the network of each draw, as indices of levels."""
        for draw in range(len(self)):
            places: dict[str, IntArray] = {}
            for column in self.order:
                rows = self.tables[column][draw][tuple(places[parent] for parent in self.parents[column])]
                steps = np.cumsum(np.broadcast_to(rows, (m, rows.shape[-1])), axis=1)
                uniform = rng.random((m, 1)) * steps[:, -1:]
                places[column] = np.asarray((uniform >= steps[:, :-1]).sum(axis=1), dtype=np.int64)
            yield places


def _product_size(factors: Sequence[Factor], column: str, sizes: Mapping[str, int]) -> int:
    names = {name for axes, _ in factors if column in axes for name in axes}
    return math.prod(sizes[name] for name in names)


_CONSISTENCY_ROUNDS = 3


def make_consistent(tables: Sequence[FloatArray], axes: Sequence[tuple[str, ...]]) -> list[FloatArray]:
    """Adjust draws (draws, levels…) of each table's counts so that the margins that tables share agree."""
    flat = [table.reshape(len(table), -1) for table in tables]
    shapes = [table.shape[1:] for table in tables]
    parts = _constraints(shapes, axes)
    size = parts[0].shape[0]
    if not size:
        return [np.asarray(table, dtype=np.float64) for table in tables]
    spreads = [_spread(x) for x in flat]
    distribution = np.zeros((size, size))
    for a, (s, tied) in zip(parts, spreads, strict=True):
        distribution += (a.multiply(s) @ a.T).toarray()
        distribution -= np.outer(a @ s, a @ s) / s.sum() if tied else 0.0
    inverse = np.linalg.pinv(distribution, rcond=1e-9, hermitian=True)
    means = [np.maximum(x.mean(axis=0), 0.5) for x in flat]
    for _ in range(_CONSISTENCY_ROUNDS):
        pull = sum(x @ a.T for x, a in zip(flat, parts, strict=True)) @ inverse
        for i, (a, (s, tied)) in enumerate(zip(parts, spreads, strict=True)):
            move = pull @ a
            move = move - (move @ s)[:, None] / s.sum() if tied else move
            moved = flat[i] * np.exp(np.clip(-move * s / means[i], -1.0, 1.0))
            rescale = flat[i].sum(axis=1, keepdims=True) / np.maximum(moved.sum(axis=1, keepdims=True), 1e-9)
            flat[i] = moved * rescale if tied else moved
    return [x.reshape(len(x), *shape) for x, shape in zip(flat, shapes, strict=True)]


def resample(log_weight: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Draw ``size`` indices by weights, which are tempered where a few draws would dominate."""
    power = 1.0
    while True:
        weight = np.exp(power * (log_weight - log_weight.max()))
        if weight.sum() ** 2 / (weight**2).sum() >= len(weight) / 20:
            return np.asarray(rng.choice(len(weight), size, p=weight / weight.sum()), dtype=np.int64)
        power *= 0.8


def _constraints(shapes: Sequence[tuple[int, ...]], axes: Sequence[tuple[str, ...]]) -> list[Any]:
    """Return for each table the sparse matrix (constraints, cells) of the equations that shared margins
    agree."""
    cells = [math.prod(shape) for shape in shapes]
    blocks: list[list[Any]] = [[sparse.csr_array((0, number))] for number in cells]
    for columns in sorted({tuple(sorted({*first} & {*second})) for first, second in combinations(axes, 2)}):
        holders = [t for t, names in enumerate(axes) if set(columns) <= {*names}]
        margins = {t: _margin(shapes[t], axes[t], columns) for t in holders}
        for first, second in pairwise(holders):
            for t, number in enumerate(cells):
                margin = margins.get(t) if t in (first, second) else None
                none = sparse.csr_array((margins[first].shape[0], number))
                blocks[t].append(none if margin is None else margin if t == first else -margin)
    return [sparse.vstack(parts, format="csr") for parts in blocks]


def _margin(shape: tuple[int, ...], axes: tuple[str, ...], columns: Sequence[str]) -> Any:
    """Return the sparse matrix that sums a table's cells over all but these columns."""
    at = [axes.index(column) for column in columns]
    places, sizes = np.indices(shape).reshape(len(shape), -1)[at], [shape[i] for i in at]
    cells = math.prod(shape)
    rows = np.ravel_multi_index(tuple(places), tuple(sizes)) if at else np.zeros(cells, dtype=np.int64)
    return sparse.csr_array((np.ones(cells), (rows, np.arange(cells))), shape=(math.prod(sizes), cells))


def _spread(x: FloatArray) -> tuple[FloatArray, bool]:
    """Return a number s for each cell, and whether the total of the cells is fixed.

    The variances of the draws are s − s²/Σs if the total is fixed, and otherwise s.
    """
    variance = x.var(axis=0) + 1e-9
    tied = bool(np.ptp(x.sum(axis=1)) < 0.5)
    s = variance.copy()
    for _ in range(100 if tied else 0):
        s = variance / np.maximum(1 - s / s.sum(), 0.02)
    return s, tied
