"""Sums over records where they are stored: in memory, streamed by DuckDB, or on the workers of Spark.

An engine turns each record into codes (:mod:`discreet._data`). In memory these become integer rows, which are
kept if they fit and otherwise computed again in every round. DuckDB streams them in batches, so a file may be
larger than memory. On Spark each worker sums its own part, and only sums leave it. The same function sums
everywhere.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._data import as_frame, as_table, of_columns
from discreet._data.files import is_files, opened
from discreet._data.grids import Grid
from discreet._data.guard import redact_errors
from discreet._data.withheld import bare, connections, failed, fetch, may_be_repeated
from discreet._typing import IntArray
from discreet.errors import DataError, DiscreetError, EngineFailure, InvalidInputError
from discreet.regression._newton.design import Design
from discreet.regression._newton.models import Link, ResponseModel
from discreet.regression._newton.sums import (
    RoundSums,
    RowBlock,
    exact_sums,
    locate,
    records,
)

if TYPE_CHECKING:
    from discreet._data.engines import EngineTable as Table
    from discreet._data.values import Coder

_KEPT_BYTES = 1 << 27
_BATCH = 1 << 16
_SHORT = 1 << 13
"""The number of records that are rounded to their grids at a time, so that rows stay in the cache."""


@dataclass(frozen=True)
class RecordSource:
    """The records of a dataset, ready to be summed."""

    n: int
    """The number of records, including those that are left out for a missing value."""
    sums: Callable[[ResponseModel, Link, bool], RoundSums]
    """The function that computes the exact sums of a round, with curvature or without."""
    blocks: Sequence[RowBlock] | None = None
    """The rows of the records, if they are kept in memory."""


@contextmanager
def read(
    design: Design,
    data: Any,
    person: str | None = None,
    per_person: int | None = None,
) -> Iterator[RecordSource]:
    """Read the records of any open table or file.

    Files, and tables in memory that DuckDB reads, are opened once more if DuckDB fails in any round. The sums
    of one round come from one connection.
    """
    with ExitStack() as stack:

        @redact_errors
        def start() -> RecordSource:
            stack.close()
            return _of(design, stack.enter_context(_open(design, data, person)), per_person)

        before = connections()
        source = start()
        is_ours = connections() > before

        def sums(model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
            nonlocal source
            try:
                return source.sums(model, link, curvature)
            except EngineFailure as failure:
                if not (is_ours and may_be_repeated(failure)):
                    raise
            reopened = start()
            if reopened.n != source.n:
                raise DataError("the data have changed while they were read; ask again")
            source = reopened
            try:
                return source.sums(model, link, curvature)
            except EngineFailure as failure:
                raise failed(failure.engine, failure.kind, twice=True) from None

        yield replace(source, sums=sums)


@contextmanager
def _open(design: Design, data: Any, person: str | None) -> Iterator[Table]:
    if is_files(data):
        with opened(data, design.coders, person) as table:
            yield table
    else:
        frame = _as_frame(data, "a regression needs a table or a file")
        yield as_table(frame, design.coders, person)


@redact_errors
def codes_of(design: Design, frame: Any) -> list[IntArray]:
    """Return the codes of a table's records for the variables of the model; undeclared values are an
    error.
    """
    coders: dict[str | None, Any] = {variable.name: variable.coder for variable in design.variables}
    checked = _as_frame(frame, "frame must be a table")
    if not coders:
        raise InvalidInputError("the formula has no columns: there is nothing to predict from")
    table = as_table(checked, coders, None, ordered=True)
    arrays, _ = _arrays(table, {f"k{i}": code for i, code in enumerate(table.codes)})
    codes = [place_codes(coder, values) for coder, values in zip(table.coders, arrays, strict=True)]
    locate([replace(variable, excluded=False) for variable in design.variables], codes)
    return codes


def _as_frame(data: Any, needed: str) -> Any:
    frame = of_columns(data) if isinstance(data, Mapping) else as_frame(data)
    if frame is None:
        raise InvalidInputError(f"{needed} with the columns of the formula")
    return frame


@redact_errors
def _of(design: Design, table: Table, per_person: int | None) -> RecordSource:
    import narwhals

    nw = getattr(table.raw, "words", narwhals)
    names = [f"k{i}" for i in range(len(table.codes))]
    columns = {name: code.cast(nw.Int64) for name, code in zip(names, table.codes, strict=True)}
    if table.person is not None:
        columns["person"] = nw.col(table.person)
    engine, in_database = table.frame.implementation, hasattr(table.raw, "words")
    if engine.is_spark_like() or engine.is_duckdb() or in_database:
        frame = table.frame.select(**columns)
        if per_person is not None:
            _check_keys(fetch(frame.filter(nw.col("person").is_null()).select(nw.len()))[0][0])
            # The first by their codes, whatever their order in the table.
            place = nw.col("k0").cum_count().over("person", order_by=names)
            frame = frame.with_columns(place=place).filter(nw.col("place") <= per_person)
        native: Any = frame.select(*names).to_native()
        if in_database:
            return _in_process(design, native.batches)
        if engine.is_duckdb():
            return _in_process(design, lambda: _arrow_batches(native.to_arrow_reader(_BATCH)))
        return RecordSource(int(fetch(frame.select(nw.len()))[0][0]), _on_spark(design, native))
    arrays, eager = _arrays(table, columns)
    if per_person is not None:
        codes = [place_codes(coder, values) for coder, values in zip(table.coders, arrays, strict=True)]
        keep = _bound_records(codes, eager["person"], per_person)
        arrays = [values[keep] for values in codes]
    return in_arrays(design, arrays)


def _arrays(table: Table, columns: Mapping[str, Any]) -> tuple[list[npt.NDArray[Any]], Any]:
    """Return the columns of a table in memory as codes or doubles, and a frame with the others.

    Doubles are rounded to their grids batch by batch (:func:`place_codes`): one expression for each of many
    columns would take longer than the fit, and more memory than the table.
    """
    import narwhals as nw

    raw = table.frame.collect()
    types = raw.schema  # once: it is made anew for every look
    quick = {
        f"k{i}": np.asarray(raw[f"v{i}"].to_numpy(), dtype=np.float64)
        for i, coder in enumerate(table.coders)
        if type(coder) is Grid and not coder.integers and types.get(f"v{i}") == nw.Float64
    }
    eager = raw.select(**{name: code for name, code in columns.items() if name not in quick})
    return [
        quick[name] if name in quick else np.asarray(eager[name].to_numpy(), dtype=np.int64)
        for name in columns
        if name != "person"
    ], eager


def place_codes(coder: Coder, values: npt.NDArray[Any]) -> IntArray:
    """Return codes unchanged, and doubles rounded to their grid by the operations of :meth:`Grid.placed`."""
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
        place[missing] = coder.missing_code
    return np.asarray(place.astype(np.int64))  # no place is negative, so that this is the floor


def in_arrays(design: Design, arrays: Sequence[npt.NDArray[Any]]) -> RecordSource:
    """Return records held in arrays of doubles or codes, one for each variable and the response."""

    def batches() -> Iterator[list[IntArray]]:
        for start in range(0, max(len(arrays[-1]), 1), _SHORT):
            pieces = (values[start : start + _SHORT] for values in arrays)
            yield [
                place_codes(coder, piece) for coder, piece in zip(design.coders.values(), pieces, strict=True)
            ]

    return _in_process(design, batches)


def _arrow_batches(batches: Iterable[Any]) -> Iterator[list[IntArray]]:
    for batch in batches:
        yield [np.asarray(column.to_numpy(), dtype=np.int64) for column in batch.columns]


@redact_errors
def _in_process(design: Design, batches: Callable[[], Iterator[list[IntArray]]]) -> RecordSource:
    """Return a source that sums in memory: rows are kept, or rebuilt from codes in every round."""
    kept: list[RowBlock] | None = []
    number = size = 0
    for codes in batches():
        number += len(codes[0])
        if kept is not None:
            kept.append(records(design, codes))
            size += kept[-1].size
            kept = kept if size <= _KEPT_BYTES else None

    @redact_errors
    def sums(model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        blocks = (records(design, codes) for codes in batches()) if kept is None else kept
        return exact_sums(model, design, link, blocks, curvature)

    return RecordSource(number, sums, kept)


def _on_spark(design: Design, native: Any) -> Callable[[ResponseModel, Link, bool], RoundSums]:
    """Return a function that sums on Spark, each worker over its own records; workers need this package."""

    @redact_errors
    def sums(model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        def part(batches: Iterable[Any]) -> Iterator[Any]:
            pyarrow = import_module("pyarrow")

            blocks = (records(design, codes) for codes in _arrow_batches(batches))
            try:
                found: Any = exact_sums(model, design, link, blocks, curvature)
            except DiscreetError as error:  # Spark would quote the records that it was given
                found = bare(error)
            yield pyarrow.RecordBatch.from_pydict({"part": [pickle.dumps(found)]})

        parts = [pickle.loads(row[0]) for row in native.mapInArrow(part, "part binary").collect()]
        for error in parts:
            if isinstance(error, DiscreetError):
                raise error
        return sum(parts, exact_sums(model, design, link, (), curvature))

    return sums


def _bound_records(codes: Sequence[IntArray], people: Any, most: int) -> npt.NDArray[np.intp]:
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
