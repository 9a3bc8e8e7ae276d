"""Draws of the conditional tables of a Bayesian network, and what follows from each, by elimination."""

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

_MOST_NUMBERS = 1 << 27  # numbers in one product of tables: a gigabyte

Factor = tuple[tuple[str, ...], FloatArray]


def layers(parents: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """The columns, each in the layer after the last of its parents; a cycle is an error that names one."""
    found: list[list[str]] = []
    placed: set[str] = set()
    while len(placed) < len(parents):
        layer = [column for column in parents if column not in placed and placed.issuperset(parents[column])]
        if not layer:
            raise InvalidInputError(f"parents has a cycle: {_cycle(parents, placed)}")
        found.append(layer)
        placed.update(layer)
    return found


def _cycle(parents: Mapping[str, Sequence[str]], placed: set[str]) -> str:
    """Every column that is not placed has a parent that is not: going back leads round."""
    way = [next(column for column in parents if column not in placed)]
    while way[-1] not in way[:-1]:
        way.append(next(parent for parent in parents[way[-1]] if parent not in placed))
    return " → ".join(reversed(way[way.index(way[-1]) :]))


def largest_families(parents: Mapping[str, Sequence[str]]) -> list[tuple[str, ...]]:
    """Each column after its parents, but for families that another one contains: its table has them."""
    families = [(*parents[column], column) for layer in layers(parents) for column in layer]
    return [own for own in families if not any({*own} < {*other} for other in families)]


def homes(
    parents: Mapping[str, Sequence[str]], families: Sequence[tuple[str, ...]], sizes: Mapping[str, int]
) -> dict[str, int]:
    """Which table each column's conditional table is read off: the one with the fewest cells that has it."""

    def cells(table: int) -> int:
        return math.prod(sizes[column] for column in families[table])

    return {
        column: min((t for t, own in enumerate(families) if {*given, column} <= {*own}), key=cells)
        for column, given in parents.items()
    }


@dataclass(frozen=True, eq=False)
class NetworkDraws:
    """Draws of all conditional tables: of a column, an array (draws, levels of each parent…, own levels)."""

    parents: Mapping[str, tuple[str, ...]]
    levels: Mapping[str, tuple[Any, ...]]
    tables: Mapping[str, FloatArray]

    def __len__(self) -> int:
        return len(next(iter(self.tables.values())))

    @cached_property
    def order(self) -> list[str]:
        """Parents before their children."""
        return [column for layer in layers(self.parents) for column in layer]

    def joint(self, columns: Sequence[str], known: Mapping[str, IntArray]) -> FloatArray:
        """P(columns, known) for every draw: shape (draws, levels of each column…).

        ``known`` maps columns to the places of the levels that are admitted. Columns that are neither asked
        for, nor known, nor ancestors of such, sum to 1 and are left out; of the others the one whose product
        of tables is smallest is summed out next.
        """
        needed = self._ancestors({*columns, *known})
        factors: list[Factor] = [((), np.ones(len(self)))]
        factors += [self._restrict(column, known) for column in self.order if column in needed]
        sizes = {column: len(known.get(column, self.levels[column])) for column in needed}
        left = needed - set(columns)
        while left:
            chosen = min(left, key=lambda one: (_product_size(factors, one, sizes), self.order.index(one)))
            left.remove(chosen)
            touched = [factor for factor in factors if chosen in factor[0]]
            others = [factor for factor in factors if chosen not in factor[0]]
            names = tuple(dict.fromkeys(n for own, _ in touched for n in own if n != chosen))
            factors = [*others, (names, self._product(touched, names, sizes))]
        return self._product(factors, tuple(columns), sizes)

    def _ancestors(self, columns: set[str]) -> set[str]:
        found: set[str] = set()
        rest = list(columns)
        while rest:
            column = rest.pop()
            if column not in found:
                found.add(column)
                rest += self.parents[column]
        return found

    def _restrict(self, column: str, known: Mapping[str, IntArray]) -> Factor:
        names, table = (*self.parents[column], column), self.tables[column]
        for axis, name in enumerate(names, start=1):
            if name in known:
                table = np.take(table, known[name], axis=axis)
        return names, table

    def _product(
        self, factors: Sequence[Factor], names: tuple[str, ...], sizes: dict[str, int]
    ) -> FloatArray:
        here = dict.fromkeys(name for own, _ in factors for name in own)
        size = len(self) * math.prod(sizes[name] for name in here)
        if size > _MOST_NUMBERS:
            raise TooLargeError(
                f"a product of tables with {size:.2g} numbers is needed; ask with fewer draws (size=), or "
                "about columns that are closer to each other"
            )
        place = {name: i for i, name in enumerate(here, start=1)}
        operands: list[Any] = []
        for own, table in factors:
            operands += [table, [0, *(place[name] for name in own)]]
        return np.asarray(np.einsum(*operands, [0, *(place[name] for name in names)]), dtype=np.float64)

    def records(self, m: int, rng: np.random.Generator) -> Iterator[dict[str, IntArray]]:
        """For every draw m records from that network, as places of levels."""
        for draw in range(len(self)):
            found: dict[str, IntArray] = {}
            for column in self.order:
                rows = self.tables[column][draw][tuple(found[parent] for parent in self.parents[column])]
                steps = np.cumsum(np.broadcast_to(rows, (m, rows.shape[-1])), axis=1)
                uniform = rng.random((m, 1)) * steps[:, -1:]
                found[column] = np.asarray((uniform >= steps[:, :-1]).sum(axis=1), dtype=np.int64)
            yield found


def _product_size(factors: Sequence[Factor], column: str, sizes: Mapping[str, int]) -> int:
    names = {name for own, _ in factors if column in own for name in own}
    return math.prod(sizes[name] for name in names)


_ROUNDS = 3


def agreeing(tables: Sequence[FloatArray], axes: Sequence[tuple[str, ...]]) -> list[FloatArray]:
    """Draws (draws, levels…) of each table's counts, moved so that what the tables share agrees."""
    flat = [table.reshape(len(table), -1) for table in tables]
    shapes = [table.shape[1:] for table in tables]
    parts = _constraints(shapes, axes)
    size = parts[0].shape[0]
    if not size:
        return [np.asarray(table, dtype=np.float64) for table in tables]
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


def resample(log_weight: FloatArray, size: int, rng: np.random.Generator) -> IntArray:
    """Places of ``size`` draws chosen by their weights; flatter ones where a few would have them all."""
    power = 1.0
    while True:
        weight = np.exp(power * (log_weight - log_weight.max()))
        if weight.sum() ** 2 / (weight**2).sum() >= len(weight) / 20:
            return np.asarray(rng.choice(len(weight), size, p=weight / weight.sum()), dtype=np.int64)
        power *= 0.8


def _constraints(shapes: Sequence[tuple[int, ...]], axes: Sequence[tuple[str, ...]]) -> list[Any]:
    """That margins which two tables share are the same: each table's sparse matrix (constraints, cells)."""
    cells = [math.prod(shape) for shape in shapes]
    found: list[list[Any]] = [[sparse.csr_array((0, number))] for number in cells]
    for columns in sorted({tuple(sorted({*one} & {*other})) for one, other in combinations(axes, 2)}):
        holders = [t for t, own in enumerate(axes) if set(columns) <= {*own}]
        margins = {t: _margin(shapes[t], axes[t], columns) for t in holders}
        for one, other in pairwise(holders):
            for t, number in enumerate(cells):
                own = margins.get(t) if t in (one, other) else None
                none = sparse.csr_array((margins[one].shape[0], number))
                found[t].append(none if own is None else own if t == one else -own)
    return [sparse.vstack(parts, format="csr") for parts in found]


def _margin(shape: tuple[int, ...], axes: tuple[str, ...], columns: Sequence[str]) -> Any:
    """The sparse matrix that sums a table's cells over all but these columns."""
    at = [axes.index(column) for column in columns]
    places, sizes = np.indices(shape).reshape(len(shape), -1)[at], [shape[i] for i in at]
    cells = math.prod(shape)
    rows = np.ravel_multi_index(tuple(places), tuple(sizes)) if at else np.zeros(cells, dtype=np.int64)
    return sparse.csr_array((np.ones(cells), (rows, np.arange(cells))), shape=(math.prod(sizes), cells))


def _spread(x: FloatArray) -> tuple[FloatArray, bool]:
    """s, and whether the total is fixed; then s − s²/Σs are the variances of the draws."""
    variance = x.var(axis=0) + 1e-9
    tied = bool(np.ptp(x.sum(axis=1)) < 0.5)
    s = variance.copy()
    for _ in range(100 if tied else 0):
        s = variance / np.maximum(1 - s / s.sum(), 0.02)
    return s, tied
