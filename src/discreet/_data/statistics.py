"""Exact counts and sums of records from any table, file or database, under a public declaration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from operator import lt
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from discreet._data.engines import EngineTable, count_cells, near_misses, pandas_values, sum_codes
from discreet._data.files import open_columns
from discreet._data.grids import Bins, ClippedSum, Grid
from discreet._data.levels import Levels
from discreet._data.values import Coder, Tally, count_values, count_weighted
from discreet._declarations import EXCLUDE, BinnedDomain, Domain, as_integer, as_positive
from discreet.errors import DataError, InvalidInputError, TooLargeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_CELLS = 10**6


class RecordBound(TypedDict, total=False):
    """The bound on the records of one person: see :class:`Contribution`."""

    person: str | None
    per_person: int | None
    n: int | None
    private_size: bool
    strict: bool


def count_levels(
    data: Any, domain: Domain, *, column: str | None = None, **bound: Unpack[RecordBound]
) -> tuple[int, ...]:
    """Return exact counts of ``domain.levels``, in their order.

    ``data`` is a list, iterator, NumPy array, column or table of pandas, Polars, Arrow, DuckDB or PySpark, a
    mapping from value to count (nothing else is interpreted as counts), or files: a path, a folder, a list of
    :class:`~pathlib.Path`, or a :class:`Glob`. ``column`` is required for tables and files with several
    columns, and for all CSV and TSV files.

    ``person`` is the key column of people, ``per_person`` the largest number of records counted for each;
    see :class:`Contribution` for what that protects. ``n`` is the public number of records; an error is
    raised if the data have another number. With ``private_size`` the number of records is private: an empty
    dataset is valid, and no error reveals the number. If missing values are left out and n is public, their
    number is the last count. With ``strict=False`` an invalid value counts as missing, so no record raises an
    error if the domain declares how missing values count.
    """
    _check_name(data)
    contribution = Contribution(**bound)
    return contribution.check_total(_count(data, contribution.levels(domain), column, contribution))


def _check_name(data: Any) -> None:
    """Raise an error for a Series with the name that ``value_counts()`` gives: it may contain counts."""
    if getattr(data, "ndim", 0) == 1 and hasattr(data, "index") and hasattr(data, "to_dict"):
        name = getattr(data, "name", None)
        if isinstance(name, str) and name in ("count", "proportion"):
            raise InvalidInputError(
                f"data is a Series named {name!r}, as value_counts() makes: give counts as a mapping, "
                "data.to_dict(), and a column of records as a list, data.tolist(), or in its table with "
                f"column={name!r}"
            )


def contingency(data: Any, domains: Mapping[str, Domain], **bound: Unpack[RecordBound]) -> NDArray[np.int64]:
    """Return the exact contingency table of several columns: an array with an axis for each, in their order.

    ``data`` is a table or file with the columns that ``domains`` names; each domain decides about missing and
    undeclared values of its own column. Where missing values of a column are left out and n is public, they
    are counted in the last entry of its axis. For the rest see :func:`count_levels`.
    """
    if not isinstance(domains, Mapping) or not domains:
        raise InvalidInputError("domains must map each column to its Domain, such as {'smoker': Domain(...)}")
    return contingencies(data, domains, [tuple(domains)], **bound)[0]


def contingencies(
    data: Any, domains: Mapping[str, Domain], tables: Sequence[Sequence[str]], **bound: Unpack[RecordBound]
) -> list[NDArray[np.int64]]:
    """Return several exact contingency tables, each of some of the columns, in one pass over the data.

    All are margins of the table of all columns (of which only non-empty cells are stored). So they agree with
    each other, even if the records of a person are bounded or missing values are left out.
    """
    import numpy as np

    contribution = Contribution(**bound)
    coders: dict[str | None, Coder] = {
        column: contribution.levels(domain) for column, domain in domains.items()
    }
    whole = [coder.size for coder in coders.values()]
    places = [[list(domains).index(column) for column in table] for table in tables]
    shapes = [tuple(whole[place] for place in table) for table in places]
    largest = max(map(prod, shapes))
    if largest > MOST_CELLS:
        raise TooLargeError(
            f"the table would have {largest} cells, and at most {MOST_CELLS} are counted: use fewer columns"
        )
    with open_columns(data, coders, contribution.person) as table:
        if table is None:
            raise InvalidInputError("a contingency table needs a table or a file with the named columns")
        cells = counted_cells(table, contribution, [f"column {column!r}: " for column in coders])
    # Those that are left out are beyond the last place.
    present = {cell: records for cell, records in cells.items() if all(map(lt, cell, whole))}
    codes = np.array(list(present), dtype=np.int64).reshape(len(present), len(whole))
    records = np.fromiter(present.values(), dtype=np.int64, count=len(present))
    counted = []
    for place, shape in zip(places, shapes, strict=True):
        counts = np.zeros(shape, dtype=np.int64)
        np.add.at(counts, tuple(codes[:, place].T), records)
        counted.append(counts)
    contribution.check_total((int(records.sum()),))
    return counted


def clipped_sum(
    data: Any,
    *,
    bounds: tuple[Any, Any],
    steps: int | None = None,
    integers: bool = False,
    missing: Any = None,
    column: str | None = None,
    person: str | None = None,
    per_person: int | None = None,
    n: int | None = None,
    strict: bool = True,
) -> ClippedSum:
    """Return the exact sum, and sum of squares, of numbers clipped to the declared ``bounds``.

    Each record is rounded to a grid of ``steps`` equal steps between the bounds (65536 by default), and
    integers are summed. So the result is the same on every engine, and one record changes it by no more than
    the bounds imply. With ``integers`` records must be whole numbers, such as counts, and steps are 1. ±∞ is
    clipped. Null and NaN count as ``missing``, a value within the bounds; without it they are an error.
    Bounds must be declared and are never read from the data. With ``strict=False`` a value that is not a
    number counts as missing. Other parameters are as in :func:`count_levels`. Text is converted to numbers in
    CSV and TSV files only.
    """
    bound = Contribution(person, per_person, n, strict=strict)
    grid = Grid(bounds, steps, integers, missing).accepting(not strict)
    with open_columns(data, {column: grid}, person) as table:
        if table is None:
            bound.check_one_column()
            places = [(j, count) for j, count in enumerate(count_values(data, grid)) if count]
            number, first, second = (sum(j**power * count for j, count in places) for power in range(3))
        else:
            tally, (number, first, second) = sum_codes(table, bound.per_person)
            tally.complete_counts(grid)
    bound.check_total((number,))
    return ClippedSum(number, first, second, grid.bounds, grid.steps)


@dataclass(frozen=True)
class Contribution:
    """The bound of at most m = ``per_person`` records for each person, and its effect on guarantees.

    Of a person with more records, those with the smallest codes are used (the first levels, the lowest
    numbers). This choice depends on that person's records alone. It is not a random sample: if people have
    many records and m is small, the first levels are over-represented.

    *m = 1.* Exactly one record of each person is used, so the number of records is the number of people.
    Replacing one person, with all their records, replaces one record. So a replace-one guarantee of ε for
    records is also one of ε for people, and the number of people is public.

    *m > 1.* Replacing one person replaces at most m records, if both people have equally many that are used.
    Then, by group privacy, a replace-one guarantee of ε for records is one of m·ε for people. The number n of
    records after the bound is public. Because it depends on how many records people have, it must not be read
    from the data: ``n`` must be declared, and the guarantee is for data with exactly that number.
    """

    person: str | None = None
    per_person: int | None = None
    n: int | None = None
    private_size: bool = False
    strict: bool = True

    def __post_init__(self) -> None:
        if (self.person is None) != (self.per_person is None):
            raise InvalidInputError(
                "person=COLUMN and per_person=NUMBER must go together: the column that identifies people, "
                "and how many records of one person are used"
            )
        for name, whole in (("per_person", as_positive), ("n", as_integer)):
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, whole(value, name))
        if self.per_person is not None and self.per_person > 1 and self.n is None:
            raise InvalidInputError(
                "needs n=NUMBER, the public number of records after the "
                "bound: read from the data, it would reveal how many records a person has. With per_person=1 "
                "it is the number of people and need not be declared",
                "per_person",
                self.per_person,
            )

    def levels(self, domain: Domain) -> Coder:
        """Return the coder of a column; if n is public, it also counts missing values that are left out."""
        coder: Coder = Levels(domain, keeps_missing=not self.private_size)
        if isinstance(domain, BinnedDomain):
            has_missing_bin = domain.missing == "missing" or (
                domain.excludes_missing and not self.private_size
            )
            left_out = EXCLUDE if domain.excludes_missing else None
            coder = Bins(
                domain.edges, "level" if domain.outside else "clip", "level" if has_missing_bin else left_out
            )
        return coder if self.strict else coder.accepting()

    def check_one_column(self) -> None:
        if self.person is not None:
            raise InvalidInputError(
                "is for tables and files; these data are one column", "person", self.person
            )

    def check_total(self, counts: tuple[int, ...]) -> tuple[int, ...]:
        if self.n is not None and sum(counts) != self.n:
            after = "" if self.per_person is None else f" with at most {self.per_person} per person"
            raise InvalidInputError(
                f"n={self.n} was declared but the data have a different number of records{after}"
            )
        return counts


def _count(data: Any, coder: Coder, column: str | None, bound: Contribution) -> tuple[int, ...]:
    pandas = type(data).__module__.partition(".")[0] == "pandas"
    if pandas and isinstance(coder, Levels) and bound.person is None:
        pairs = pandas_values(data, column)
        if pairs is not None:
            return count_weighted(pairs, coder, bound.private_size).complete_counts(coder)
    with open_columns(data, {column: coder}, bound.person) as table:
        if table is None:
            bound.check_one_column()
            return count_values(data, coder, bound.private_size)
        cells = counted_cells(table, bound, [""])
    return tuple(cells.get((place,), 0) for place in range(coder.size))


def counted_cells(
    table: EngineTable, bound: Contribution, where: Sequence[str]
) -> Mapping[tuple[int, ...], int]:
    """Return the number of records of each cell under the bound; raise an error if a record is invalid."""
    cells = count_cells(table, bound.per_person)
    problems = []
    for index, coder in enumerate(table.coders):
        counts = [0] * coder.codes
        for cell, records in cells.records.items():
            counts[cell[index]] += records
        tally = near_misses(table, index, Tally.of(counts, coder, bound.private_size))
        if messages := tally.problems(coder):
            problems.append(where[index] + "; ".join(messages))
    if problems:
        raise DataError("; ".join(problems))
    return cells.kept
