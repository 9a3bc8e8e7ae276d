"""Exact weighted totals and sums of squares of records, as integers.

A weight is clipped to the declared maximum and rounded to a grid. A record adds its weight to the cell of its
value. For the mean of a column, the weight is divided between the lower and the upper bound, in proportion to
the nearness of the value. What a record adds depends on that record and the declaration alone: weights are
not normalised by their sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement
from math import prod
from typing import Any

from discreet._data.engines import cells_of_people
from discreet._data.files import open_columns
from discreet._data.grids import Grid, WeightGrid
from discreet._data.guard import redact_errors
from discreet._data.statistics import Contribution, RecordBound, counted_cells
from discreet._data.values import Coder
from discreet._declarations import Domain
from discreet.errors import InvalidInputError


@dataclass(frozen=True)
class WeightedSums:
    """Exact weighted sums over the records. All are private, except the number of records if n is public.

    Attributes
    ----------
    totals : tuple of tuples
        The total of each cell, for each group, in steps of the grids of weights and of values.
    squares : tuple of tuples
        For each group, the upper triangle (or only the diagonal) of the matrix Σxxᵀ, where x is what a unit
        adds to each cell. With strata, stratum means are subtracted from x.
    cut, records, squared : int
        Number of weights above the declared maximum, number of records, and sum of squared weights.
    units, strata : int
        Number of units (records or clusters), and number of strata with at least one unit.
    """

    totals: tuple[tuple[int, ...], ...]
    squares: tuple[tuple[int, ...], ...]
    cut: int
    records: int
    squared: int
    units: int
    strata: int


@dataclass(frozen=True)
class WeightedDesign:
    """The columns of a weighted estimate, and how they are coded; all of it is public.

    Parameters
    ----------
    weight, most
        The column of weights, and the declared maximum, to which larger weights are clipped.
    outcomes
        Columns with their domains; or one column with a grid, for its mean.
    by, strata
        A column and its values, or None.
    clusters
        Whether the records of each person of ``bound`` form a cluster.
    bound
        The column that identifies people, and the largest number of records of each, as in
        :class:`Contribution`.
    """

    weight: str
    most: float
    outcomes: Mapping[str, Domain | Grid]
    by: tuple[str, Domain] | None
    strata: tuple[str, Domain] | None
    clusters: bool
    bound: RecordBound

    @cached_property
    def grid(self) -> Grid | None:
        """The grid of the column whose mean is taken; None for categories."""
        first = next(iter(self.outcomes.values()))
        return first if isinstance(first, Grid) else None

    @cached_property
    def cells(self) -> int:
        """The number of cells."""
        return 2 if self.grid else prod(d.k for d in self.outcomes.values() if isinstance(d, Domain))

    @property
    def is_diagonal(self) -> bool:
        """Whether only squares are summed: no unit is in two cells, and no mean is subtracted."""
        return self.grid is None and not self.clusters and self.strata is None

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of cells (i, j) for which the products x_i·x_j are summed."""
        if self.is_diagonal:
            return [(cell, cell) for cell in range(self.cells)]
        return list(combinations_with_replacement(range(self.cells), 2))

    @redact_errors
    def sums(self, data: Any) -> WeightedSums:
        """Compute the sums over the records of ``data``."""
        contribution = Contribution(**self.bound)
        weights = WeightGrid(self.most).accepting(not contribution.strict)
        weights.drops_missing = weights.total
        # Strata come first, so that of a cluster records of its lowest stratum enter, whatever they say.
        columns = {**dict(filter(None, [self.strata])), self.weight: weights, **self.outcomes}
        columns.update(filter(None, [self.by]))
        coders: dict[str | None, Coder] = {
            name: contribution.levels(what) if isinstance(what, Domain) else what
            for name, what in columns.items()
        }
        with open_columns(data, coders, contribution.person, columns=True) as table:
            if table is None:
                raise InvalidInputError("weights need a table or a file with the named columns")
            cells = counted_cells(table, contribution, [f"column {name!r}: " for name in coders])
            people = cells_of_people(table, contribution.per_person or 1) if self.clusters else None
        contribution.check_total((sum(cells.values()),))
        names = [str(name) for name in coders]
        units: Iterable[tuple[list[tuple[tuple[int, ...], int]], int]] = (
            [([(cell, 1)], records) for cell, records in cells.items()]
            if people is None
            else [(list(kept.items()), 1) for kept in people.values()]
        )
        return self._add(units, names, weights)

    def _add(
        self,
        units: Iterable[tuple[list[tuple[tuple[int, ...], int]], int]],
        names: Sequence[str],
        weights: WeightGrid,
    ) -> WeightedSums:
        groups = 1 if self.by is None else self.by[1].k
        totals = [[0] * self.cells for _ in range(groups)]
        squares = [[0] * len(self.pairs) for _ in range(groups)]
        within: dict[int, tuple[list[int], list[list[int]]]] = {}
        cut = records = squared = number = 0
        for members, times in units:
            added: dict[int, dict[int, int]] = {}
            number += times
            for codes, count in members:
                record = dict(zip(names, codes, strict=True))
                weight = record[self.weight]
                steps = min(weight, weights.steps) if weight < weights.size else 0
                cut += times * count * (weight == weights.steps + 1)
                records += times * count
                squared += times * count * steps * steps
                for group, cell, share in self._places(record):
                    unit = added.setdefault(group, {})
                    unit[cell] = unit.get(cell, 0) + count * steps * share
            stratum = None
            if self.strata is not None:
                stratum = min(codes[0] for codes, _ in members)
                sizes, sums = within.setdefault(stratum, ([0], [[0] * self.cells for _ in range(groups)]))
                sizes[0] += times
            for group, unit in added.items():
                for cell, value in unit.items():
                    totals[group][cell] += times * value
                    if stratum is not None:
                        sums[group][cell] += times * value
                for place, (j, other) in enumerate(self.pairs):
                    if j in unit and other in unit:
                        squares[group][place] += times * unit[j] * unit[other]
        for (size,), sums in within.values():
            for group, row in enumerate(sums):
                for place, (j, other) in enumerate(self.pairs):
                    squares[group][place] -= row[j] * row[other] // size
        return WeightedSums(
            tuple(map(tuple, totals)),
            tuple(map(tuple, squares)),
            cut,
            records,
            squared,
            number,
            max(1, len(within)),
        )

    def _places(self, record: Mapping[str, int]) -> Iterator[tuple[int, int, int]]:
        """Yield (group, cell, parts of the weight) for each cell to which a record adds; none if left out."""
        group = 0
        if self.by is not None:
            group = record[self.by[0]]
            if group >= self.by[1].k:
                return
        if (grid := self.grid) is not None:
            if (code := record[next(iter(self.outcomes))]) < grid.size:
                yield group, 0, grid.steps - code
                yield group, 1, code
            return
        cell = 0
        for name, domain in self.outcomes.items():
            if record[name] >= domain.k:  # type: ignore[union-attr]
                return
            cell = cell * domain.k + record[name]  # type: ignore[union-attr]
        yield group, cell, 1
