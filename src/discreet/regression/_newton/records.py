"""Sums over records where they are stored: in memory, streamed by DuckDB, or inside Spark by SQL.

An engine turns each record into codes (:mod:`discreet._data`). In memory these become integer rows, kept
where they fit and otherwise read again in every round. DuckDB streams them in batches, so a file may be
larger than memory. On Spark one query over 64-bit integers computes exact totals, and only sums leave the
executors. The integers are the same everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._data import as_frame, as_table, of_columns
from discreet._data.files import is_files, opened
from discreet._data.grids import Grid
from discreet._data.guard import redact_errors
from discreet._data.withheld import connections, failed, fetch, may_be_repeated
from discreet._typing import IntArray
from discreet.errors import DataError, EngineFailure, InvalidInputError
from discreet.regression._newton.design import WEIGHT_BITS, Design
from discreet.regression._newton.models import MIXING_BITS, Link, ResponseModel
from discreet.regression._newton.sums import (
    RoundSums,
    RowBlock,
    check_bound,
    exact_sums,
    locate,
    records,
    undeclared_error,
)

if TYPE_CHECKING:
    from discreet._data.engines import EngineTable as Table
    from discreet._data.values import Coder

_KEPT_BYTES = 1 << 27
_BATCH = 1 << 16
_SHORT = 1 << 13
"""Records of arrays that are put on their grids at a time, so that their rows stay in the cache."""


@dataclass(frozen=True)
class RecordSource:
    """The records of a dataset, ready to be summed."""

    n: int
    """How many enter, those that are left out for a missing value included."""
    sums: Callable[[ResponseModel, Link, bool], RoundSums]
    """The exact sums of a round, with curvature or without."""
    blocks: Sequence[RowBlock] | None = None
    """Their rows, where these are kept in memory."""


@contextmanager
def read(
    design: Design,
    data: Any,
    person: str | None = None,
    per_person: int | None = None,
    pushdown: bool = False,
) -> Iterator[RecordSource]:
    """Read the records of any open table or file; with ``pushdown`` DuckDB sums by SQL, as Spark does.

    Files, and tables in memory that DuckDB reads, are opened once more if DuckDB fails, also in a later
    round. The sums of one round come from one connection.
    """
    with ExitStack() as stack:

        @redact_errors
        def start() -> RecordSource:
            stack.close()
            return _of(design, stack.enter_context(_open(design, data, person)), per_person, pushdown)

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
    codes = [_codes(coder, values) for coder, values in zip(table.coders, arrays, strict=True)]
    locate([replace(variable, excluded=False) for variable in design.variables], codes)
    return codes


def _as_frame(data: Any, needed: str) -> Any:
    frame = of_columns(data) if isinstance(data, Mapping) else as_frame(data)
    if frame is None:
        raise InvalidInputError(f"{needed} with the columns of the formula")
    return frame


@redact_errors
def _of(design: Design, table: Table, per_person: int | None, pushdown: bool) -> RecordSource:
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
            return _stream(design, native.batches)
        if engine.is_duckdb() and not pushdown:
            return _stream(design, lambda: _arrow_batches(native))
        number = int(fetch(frame.select(nw.len()))[0][0])
        return RecordSource(number, redact_errors(_SqlSums(design, native, engine.is_spark_like(), number)))
    arrays, eager = _arrays(table, columns)
    if per_person is not None:
        codes = [_codes(coder, values) for coder, values in zip(table.coders, arrays, strict=True)]
        keep = _bound_records(codes, eager["person"], per_person)
        arrays = [values[keep] for values in codes]
    return in_arrays(design, arrays)


def _arrays(table: Table, columns: Mapping[str, Any]) -> tuple[list[npt.NDArray[Any]], Any]:
    """Return the columns of a table in memory as codes or doubles, and a frame with the others.

    Doubles are placed on their grids batch by batch (:func:`_codes`): one expression for each of many columns
    would take longer than the fit, and more memory than the table.
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


def _codes(coder: Coder, values: npt.NDArray[Any]) -> IntArray:
    """Return codes unchanged, and doubles placed on their grid in the order of :meth:`Grid.placed`."""
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


@redact_errors
def in_arrays(design: Design, arrays: Sequence[npt.NDArray[Any]]) -> RecordSource:
    """Return records held in arrays of doubles or codes, one for each variable and the response."""
    n = len(arrays[-1])

    def batches() -> Iterator[list[IntArray]]:
        for start in range(0, max(n, 1), _SHORT):
            pieces = (values[start : start + _SHORT] for values in arrays)
            yield [_codes(coder, piece) for coder, piece in zip(design.coders.values(), pieces, strict=True)]

    if n * (2 * design.d + 8) > _KEPT_BYTES:
        return _in_process(design, n, batches)
    return _in_process(design, n, batches, [records(design, codes) for codes in batches()])


@redact_errors
def _stream(design: Design, batches: Callable[[], Iterator[list[IntArray]]]) -> RecordSource:
    blocks: list[RowBlock] | None = []
    number = size = 0
    for codes in batches():
        number += len(codes[0])
        if blocks is not None:
            blocks.append(records(design, codes))
            size += blocks[-1].size
            blocks = blocks if size <= _KEPT_BYTES else None
    return _in_process(design, number, batches, blocks)


def _arrow_batches(native: Any) -> Iterator[list[IntArray]]:
    for batch in native.to_arrow_reader(_BATCH):
        yield [np.asarray(column.to_numpy(), dtype=np.int64) for column in batch.columns]


def _in_process(
    design: Design,
    n: int,
    batches: Callable[[], Iterator[list[IntArray]]],
    in_memory: Sequence[RowBlock] | None = None,
) -> RecordSource:
    """Return a source that sums in memory: rows are kept, or rebuilt from codes in every round."""

    @redact_errors
    def sums(model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        round_blocks = (records(design, codes) for codes in batches()) if in_memory is None else in_memory
        return exact_sums(model, design, link, round_blocks, curvature)

    return RecordSource(n, sums, in_memory)


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


@dataclass(frozen=True)
class _SqlSums:
    """The sums of a round as one query over a relation or DataFrame with codes k0, k1, ….

    Tables over codes and over the predictor's grid are joined by position; a function that is linear in the
    codes is written as one. DuckDB and Spark round quotients towards zero, so a quotient that must be rounded
    down is made non-negative first.
    """

    design: Design
    native: Any
    spark: bool
    n: int
    frames: dict[str, Any] = field(default_factory=dict)
    """Tables of the query in Spark; DuckDB has them in its text."""

    def __call__(self, model: ResponseModel, link: Link, curvature: bool) -> RoundSums:
        design, variables = self.design, self.design.inputs
        self.frames.pop("link", None)  # the others are the same in every round
        query = self.query(model, link, curvature)
        if self.spark:
            row = tuple(self.native.sparkSession.sql(query, codes=self.native, **self.frames).collect()[0])
        else:
            row = self.native.query("codes", query.format(codes="codes")).fetchall()[0]
        whole = [int(value or 0) for value in row]
        for i, variable in enumerate(variables):
            unknown, missing = whole[i], whole[len(variables) + i]
            if unknown or (missing and not variable.excluded):
                raise undeclared_error(variable.name, unknown > 0)
        valid, entered, longest, residual, square, *rest = whole[2 * len(variables) :]
        check_bound(abs(entered - valid), 0)  # each record finds one entry of every table
        check_bound(longest, design.norm**2)
        check_bound(residual, math.isqrt(math.ceil(model.extremes(link)[0].max())))
        size = design.d * model.outputs
        end = size + (size * (size + 1) // 2 if curvature else 0)
        last = len(rest) - (0 if design.weight is None else 4)
        return RoundSums(
            tuple(rest[:size]), tuple(rest[size:end]), square, tuple(rest[end:last]), tuple(rest[last:])
        )

    def divide(self, value: str, by: int | str) -> str:
        return f"({value} {'div' if self.spark else '//'} {by})"

    def total(self, value: str) -> str:
        """Return the exact sum of 64-bit integers.

        Spark's own sum wraps or fails on overflow, and one of decimals takes several times as long. Here the
        lower 32 bits and the rest are summed apart; neither overflows below 2³¹ records.
        """
        if not self.spark:
            return f"sum({value})"
        if self.n >> 31:
            return f"sum(CAST({value} AS DECIMAL(38, 0)))"
        value = f"CAST({value} AS BIGINT)"  # Spark shifts numbers of 32 bits by 32 places not at all
        low, high = f"sum({value} & {2**32 - 1})", f"sum(shiftright({value}, 32))"
        return f"CAST({high} AS DECIMAL(28, 0)) * {2**32} + CAST({low} AS DECIMAL(28, 0))"

    def lookup(self, alias: str, name: str, columns: Sequence[Sequence[int]], key: str) -> str:
        """Return a join by position with a table of columns t0, t1, …."""
        if not self.spark:
            entries = [
                f"unnest([{', '.join(map(str, column))}]::BIGINT[]) AS t{i}"
                for i, column in enumerate(columns)
            ]
            source = f"(SELECT unnest(range({len(columns[0])})) AS at, {', '.join(entries)})"
        else:
            source = f"{{{name}}}"
            if name not in self.frames:
                types = ", ".join(["at LONG", *(f"t{i} LONG" for i in range(len(columns)))])
                rows = list(zip(range(len(columns[0])), *columns, strict=True))
                self.frames[name] = self.native.sparkSession.createDataFrame(rows, types)
        return f"JOIN {source} AS {alias} ON {alias}.at = {key}"

    def shorten(self, rows: str, columns: Sequence[str], others: Sequence[str], kept: Sequence[str]) -> str:
        """Shorten rows that are too long, s > √N from a correctly rounded square root, as in process."""
        norm = self.design.norm
        rows = _select(["*", f"{' + '.join(f'{x} * {x}' for x in columns)} AS squares"], rows)
        length = "CAST(floor(sqrt(CAST(squares AS DOUBLE))) AS BIGINT) + 1"
        rows = _select(["*", f"{length} AS size"], rows)
        short = {x: self.divide(f"({x} * {norm})", "size") for x in (*columns, *others)}
        cases = [
            f"CASE WHEN squares > {norm**2} THEN {less} ELSE {x} END AS {x}" for x, less in short.items()
        ]
        return _select([*cases, *kept], rows)

    def query(self, model: ResponseModel, link: Link, curvature: bool) -> str:
        """Return one SELECT with a single row: undeclared and missing values by column, and the sums."""
        design = self.design
        sizes = [variable.coder.size for variable in design.inputs]
        wrong = [f"k{i} = {size} OR k{i} > {size + 1}" for i, size in enumerate(sizes)]
        wrong += [f"k{i} = {size + 1}" for i, size in enumerate(sizes)]
        counts = [f"count(CASE WHEN {test} THEN 1 END) AS b{i}" for i, test in enumerate(wrong)]
        entries: list[str] = []
        looked: dict[int, dict[tuple[int, ...], int]] = {}
        for j, column in enumerate(design.columns):
            entry = str(design.unit)
            for index, (v, table) in enumerate(column.factors):
                start, slope = table[0], table[1] - table[0]
                piece = f"({start} + {slope} * k{v})"
                if any(at != start + slope * code for code, at in enumerate(table)):
                    tables_of_variable = looked.setdefault(v, {})
                    piece = f"f{v}.t{tables_of_variable.setdefault(table, len(tables_of_variable))}"
                entry = self.divide(f"({entry} * {piece})", design.unit) if index else piece
            entries.append(f"{entry} AS x{j}")
        joins = {
            f"f{v}": self.lookup(f"f{v}", f"f{v}", list(tables_of_variable), f"k{v}")
            for v, tables_of_variable in looked.items()
        }
        valid = " AND ".join(f"k{i} < {size}" for i, size in enumerate(sizes))
        counts.append(f"count(CASE WHEN {valid} THEN 1 END) AS valid")
        entries.append(f"k{len(design.variables)} AS y")
        most, weight = 1 << WEIGHT_BITS, f"k{len(design.variables) + 1}"
        if design.weight is not None:
            entries += [f"least({weight}, {most}) AS w", f"{weight} AS uncut"]
        kept = ["y"] if design.weight is None else ["y", "w", "uncut"]
        rows = f"{_select(entries, joins=joins)} WHERE {valid}"
        xs = [f"x{j}" for j in range(design.d)]
        rows = self.shorten(rows, xs, (), kept)
        half, reach, limit = 1 << (link.shift - 1), link.reach, (link.reach + 1) << link.shift
        predictors = []
        for k in range(model.outputs):
            point = link.point[k * design.d : (k + 1) * design.d]
            dot = " + ".join(f"{x} * {w}" for x, w in zip(xs, point, strict=True))
            inside = f"(least(greatest({dot}, {-limit}), {limit}) + {limit + half})"
            nearest = f"{self.divide(inside, 1 << link.shift)} - {reach + 1}"
            predictors.append(f"least(greatest({nearest}, {-reach}), {reach}) AS e{k}")
        rows = _select(["*", *predictors], rows)
        if link.tables:
            tables = [np.asarray(table, dtype=np.int64).tolist() for table in link.tables]
            joins = {
                f"l{k}": self.lookup(f"l{k}", "link", tables, f"e{k} + {reach}") for k in range(model.outputs)
            }
            looked_up = [f"l{k}.t{i} AS u{k}_{i}" for k in range(model.outputs) for i in range(len(tables))]
            rows = _select(["r.*", *looked_up], rows, joins)
        sql = model.sql_columns(link, self.divide)
        for step in sql.steps:
            rows = _select(["*", step], rows)
        residuals, weights = sql.residuals, sql.weights
        if link.mixing:
            rows = _select(["*", f"{residuals[0]} AS r0", f"{weights[0, 0]} AS v0"], rows)
            parts = [link.mixing[j * design.d : (j + 1) * design.d] for j in range(design.d)]
            dots = [" + ".join(f"{x} * {m}" for x, m in zip(xs, part, strict=True)) for part in parts]
            xs = [f"z{j}" for j in range(design.d)]
            mixed = [
                f"{self.divide(f'({dot})', 2**MIXING_BITS)} AS {x}" for x, dot in zip(xs, dots, strict=True)
            ]
            kept = ["v0", *kept[1:]]
            rows = self.shorten(_select(["r0", *kept, *mixed], rows), xs, ("r0",), kept)
            residuals, weights = ["r0"], {(0, 0): "v0"}
        largest = [" + ".join(f"{x} * {x}" for x in xs)]
        largest.append(f"greatest({', '.join(f'abs({residual})' for residual in [*residuals, '0'])})")
        square = f"{residuals[0]} * {residuals[0]}"
        if design.weight is not None:
            square = self.divide(f"({square} * w)", most)
            residuals = [self.divide(f"({residual} * w)", most) for residual in residuals]
            weights = {
                pair: self.divide(f"({value} * w + {most >> 1})", most) for pair, value in weights.items()
            }
        totals = [square if model.squares else "0"]
        totals += [f"{residual} * {x}" for residual in residuals for x in xs]
        if curvature:
            pairs = combinations_with_replacement(product(range(model.outputs), xs), 2)
            totals += [f"{weights[k, other]} * {x} * {z}" for (k, x), (other, z) in pairs]
        if (shift := link.outer_shift) is not None:
            squared = f"({residuals[0]} * {residuals[0]} + {1 << shift >> 1})"
            weight = self.divide(squared, 1 << shift)
            totals += [f"{weight} * {x} * {z}" for x, z in combinations_with_replacement(xs, 2)]
        if design.weight is not None:
            cut = f"CASE WHEN uncut > {most} THEN 1 ELSE 0 END"
            totals += [cut, "w", self.divide("(w * w)", most), "1"]
        exact = ["count(*) AS entered", *(f"max({size}) AS m{i}" for i, size in enumerate(largest))]
        exact += [f"{self.total(f'({term})')} AS s{i}" for i, term in enumerate(totals)]
        return f"SELECT * FROM ({_select(counts)}) AS p CROSS JOIN ({_select(exact, rows)}) AS q"


def _select(columns: Iterable[str], rows: str = "", joins: Mapping[str, str] | None = None) -> str:
    """Return a SELECT over rows or codes; a hint makes Spark send joined tables to the records."""
    hint = f"/*+ BROADCAST({', '.join(joins)}) */ " if joins else ""
    source = f"({rows})" if rows else "{codes}"
    return f"SELECT {hint}{', '.join(columns)} FROM {source} AS r {' '.join((joins or {}).values())}"
