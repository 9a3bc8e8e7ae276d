"""Records where they live: sums in process from codes, streamed by DuckDB, or inside Spark by SQL.

An engine turns each record into codes (:mod:`discreet.data`). In process these become integer rows, kept
where they fit in memory and else read again in every round; DuckDB hands them over in batches, so that a file
may be larger than memory. On Spark only sums leave the executors. The integers are the same everywhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._typing import IntArray
from discreet.data import as_frame, as_table
from discreet.data.files import opened
from discreet.data.grids import Grid
from discreet.data.paths import is_files
from discreet.data.withheld import withheld
from discreet.errors import DataError, InvalidInput
from discreet.regression.newton.design import Design
from discreet.regression.newton.models import Link, ResponseModel
from discreet.regression.newton.remote import sums_by_sql
from discreet.regression.newton.sums import RoundSums, RowBlock, exact_sums, records, undeclared

if TYPE_CHECKING:
    from discreet.data.engines import EngineTable as Table
    from discreet.data.values import Coder

_KEPT_BYTES = 1 << 27
_BATCH = 1 << 16
_SHORT = 1 << 13
"""Records of arrays that are put on their grids at a time, so that their rows stay in the cache."""


class RecordSource(ABC):
    """The records of a dataset, ready to be summed."""

    n: int
    """How many enter, those that are left out for a missing value included."""

    @abstractmethod
    def sums(self, model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        """The exact sums of a round."""


class InMemory(RecordSource):
    """Integer rows, made once."""

    def __init__(self, design: Design, blocks: Sequence[RowBlock], n: int) -> None:
        self.design, self.blocks, self.n = design, blocks, n

    def sums(self, model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        return exact_sums(model, self.design, link, self.blocks, curvature)


class Streamed(RecordSource):
    """Codes that are read again in every round, batch by batch."""

    def __init__(self, design: Design, batches: Callable[[], Iterator[list[IntArray]]], n: int) -> None:
        self.design, self.batches, self.n = design, batches, n

    @withheld
    def sums(self, model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        blocks = (records(self.design, codes) for codes in self.batches())
        return exact_sums(model, self.design, link, blocks, curvature)


class Remote(RecordSource):
    """Codes that stay on their engine, which adds up."""

    @withheld
    def __init__(self, design: Design, native: Any, dialect: str) -> None:
        self.design, self.native, self.dialect = design, native, dialect
        self.n = native.count() if dialect == "spark" else native.aggregate("count(*)").fetchall()[0][0]

    @withheld
    def sums(self, model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        return sums_by_sql(model, self.design, link, self.native, self.dialect, curvature, self.n)


@contextmanager
def read(
    design: Design,
    data: Any,
    person: str | None = None,
    per_person: int | None = None,
    pushdown: bool = False,
) -> Iterator[RecordSource]:
    """The records of any table or file while it is open. ``pushdown``: DuckDB adds up by SQL, as Spark
    does."""
    if isinstance(data, Mapping):
        data = _framed(data)
    if is_files(data):
        with opened(data, design.coders, person) as table:
            yield _of(design, table, per_person, pushdown)
        return
    frame = as_frame(data)
    if frame is None:
        raise InvalidInput("a regression needs a table or a file with the columns of the formula")
    yield _of(design, as_table(frame, design.coders, person), per_person, pushdown)


@withheld
def codes_of(design: Design, frame: Any) -> list[IntArray]:
    """The codes of a table's records, for the variables alone; an undeclared value is an error."""
    if isinstance(frame, Mapping):
        frame = _framed(frame)
    found = as_frame(frame)
    if found is None:
        raise InvalidInput("frame must be a table with the columns of the formula")
    coders: dict[str | None, Any] = {variable.name: variable.coder for variable in design.variables}
    if not coders:
        raise InvalidInput("the formula has no columns: there is nothing to predict from")
    table = as_table(found, coders, None)
    eager = table.frame.select(**{f"k{i}": code for i, code in enumerate(table.codes)}).collect()
    codes = [np.asarray(eager[f"k{i}"].to_numpy(), dtype=np.int64) for i in range(len(coders))]
    for variable, values in zip(design.variables, codes, strict=True):
        if (values >= variable.coder.size).any():
            raise undeclared(variable.name, bool((values == variable.coder.size).any()))
    return codes


def _framed(data: Mapping[str, Any]) -> Any:
    import pandas as pd

    try:
        return pd.DataFrame({name: list(values) for name, values in data.items()})
    except (TypeError, ValueError):
        raise InvalidInput("data must map column names to columns of one length") from None


@withheld
def _of(design: Design, table: Table, per_person: int | None, pushdown: bool) -> RecordSource:
    import narwhals as nw

    names = [f"k{i}" for i in range(len(table.codes))]
    columns = {name: code.cast(nw.Int64) for name, code in zip(names, table.codes, strict=True)}
    if table.person is not None:
        columns["person"] = nw.col(table.person)
    engine = table.frame.implementation
    if engine.is_spark_like() or engine.is_duckdb():
        native: Any = table.frame.select(**columns).to_native()
        dialect = "duckdb" if engine.is_duckdb() else "spark"
        if per_person is not None:
            native = _bounded_by_sql(native, names, per_person, dialect)
        if dialect == "spark" or pushdown:
            return Remote(design, native, dialect)
        return _streamed(design, native)
    arrays, eager = _arrays(table, columns)
    if per_person is not None:
        codes = [_coded(coder, values) for coder, values in zip(table.coders, arrays, strict=True)]
        keep = _bounded(codes, eager["person"], per_person)
        arrays = [values[keep] for values in codes]
    return in_arrays(design, arrays)


def _arrays(table: Table, columns: Mapping[str, Any]) -> tuple[list[npt.NDArray[Any]], Any]:
    """The columns of a table in memory, as codes or as doubles, and a frame with the others.

    Doubles go on their grids batch by batch (:func:`_coded`): an expression for each of many columns would
    take longer than the fit, and more memory than the table.
    """
    import narwhals as nw

    raw = table.frame.collect()
    types = raw.schema  # once: it is made anew for every look
    quick = {
        f"k{i}": np.asarray(raw[f"v{i}"].to_numpy(), dtype=np.float64)
        for i, coder in enumerate(table.coders)
        if isinstance(coder, Grid) and not coder.integers and types.get(f"v{i}") == nw.Float64
    }
    eager = raw.select(**{name: code for name, code in columns.items() if name not in quick})
    return [
        quick[name] if name in quick else np.asarray(eager[name].to_numpy(), dtype=np.int64)
        for name in columns
        if name != "person"
    ], eager


def _coded(coder: Coder, values: npt.NDArray[Any]) -> IntArray:
    """Codes as they are, and doubles on their grid: the operations of :meth:`Grid.placed`, in its order."""
    if values.dtype != np.float64:
        return values
    assert isinstance(coder, Grid)
    place = np.clip(values, coder.low, coder.high)
    place -= coder.low
    place /= coder.width
    place *= coder.steps
    place += 0.5
    missing = np.isnan(place)
    if missing.any():
        place[missing] = coder.absent
    return np.asarray(place.astype(np.int64))  # no place is negative, so that this is the floor


@withheld
def in_arrays(design: Design, arrays: Sequence[npt.NDArray[Any]]) -> RecordSource:
    """Records in arrays, one for each variable and one for the response: doubles, or codes."""

    def batches() -> Iterator[list[IntArray]]:
        for start in range(0, max(len(arrays[-1]), 1), _SHORT):
            pieces = (values[start : start + _SHORT] for values in arrays)
            yield [_coded(coder, piece) for coder, piece in zip(design.coders.values(), pieces, strict=True)]

    source = Streamed(design, batches, len(arrays[-1]))
    if source.n * (2 * design.d + 8) > _KEPT_BYTES:
        return source
    return InMemory(design, [records(design, codes) for codes in batches()], source.n)


@withheld
def _streamed(design: Design, native: Any) -> RecordSource:
    def batches() -> Iterator[list[IntArray]]:
        for batch in native.to_arrow_reader(_BATCH):
            yield [np.asarray(column.to_numpy(), dtype=np.int64) for column in batch.columns]

    kept: list[RowBlock] | None = []
    number = size = 0
    for codes in batches():
        number += len(codes[0])
        if kept is not None:
            kept.append(records(design, codes))
            size += kept[-1].size
            kept = kept if size <= _KEPT_BYTES else None
    if kept is not None:
        return InMemory(design, kept, number)
    return Streamed(design, batches, number)


@withheld
def _bounded_by_sql(native: Any, names: Sequence[str], most: int, dialect: str) -> Any:
    """At most ``most`` records of each person: the first by their codes, whatever their order in the
    table."""
    listed = ", ".join(names)
    place = f"row_number() OVER (PARTITION BY person ORDER BY {listed}) AS place"
    ranked = f"SELECT {listed}, person, {place} FROM {{t}}"
    kept = f"SELECT {listed} FROM ({ranked}) WHERE place <= {most}"
    if dialect == "duckdb":
        nobody = native.query("t", "SELECT count(*) FROM t WHERE person IS NULL").fetchall()[0][0]
        bounded = native.query("t", kept.format(t="t"))
    else:
        nobody = native.filter("person IS NULL").count()
        bounded = native.sparkSession.sql(kept, t=native)
    _check_keys(nobody)
    return bounded


def _bounded(codes: Sequence[IntArray], people: Any, most: int) -> npt.NDArray[np.intp]:
    _check_keys(int(people.is_null().sum()))
    _, keys = np.unique(people.to_numpy(), return_inverse=True)
    order = np.lexsort((*reversed(codes), keys))
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(order)))
    place = np.arange(len(order)) - np.repeat(starts, lengths)
    return np.sort(order[place < most])


def _check_keys(nobody: int) -> None:
    if nobody:
        raise DataError(f"{nobody} records have no person key, so their contribution has no bound; drop them")
