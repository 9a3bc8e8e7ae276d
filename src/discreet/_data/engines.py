"""Counting inside the engine of a table: pandas, Polars, DuckDB, Spark or a database.

All engines are used through narwhals. The engine computes a column of codes (see :class:`Coder`), groups the
records by code and perhaps by person, bounds the records of each person, and adds up. Only the result is
fetched.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet._data.levels import WHITE, Levels
from discreet._data.values import (
    Coder,
    Tally,
    alike,
    count_weighted,
    distinct,
    is_database,
    is_missing,
    wrong_type,
)
from discreet._data.withheld import OUT_OF_MEMORY, EngineError, connect, fetch, ours
from discreet._declarations import as_plain
from discreet.errors import DataError, EngineFailure, InvalidInputError, TooLargeError, how_to_install

if TYPE_CHECKING:
    import narwhals as nw

_SEPARATOR = "\x1f"  # the unit separator of ASCII
_MOST_COMPARED_LEVELS = 8  # up to this many levels comparisons are faster than a join
_SQUARE_SPLIT = 2**20
PERSON_TYPES = "a person key must be text or whole numbers"


Lookup = Callable[["nw.LazyFrame[Any]"], "nw.LazyFrame[Any]"]


@dataclass(frozen=True)
class EngineTable:
    """A table with expressions for the codes of its declared columns.

    ``codes`` has an expression for each column, and ``texts`` the column as text, or None if it is not text.
    ``person`` is the name of the column of person keys. With ``groups`` records are first grouped by their
    raw values, which is faster if there are few distinct values. ``objects`` contains, by position, columns
    that were coded beforehand. ``lookups`` are joins that add a column of level positions and keep the number
    of rows. ``sparing`` sets or lifts a tight memory limit of the engine, under which grouping may fail.
    """

    raw: nw.LazyFrame[Any]
    coders: tuple[Coder, ...]
    codes: tuple[nw.Expr, ...]
    texts: tuple[nw.Expr | None, ...]
    person: str | None = None
    groups: bool = False
    objects: Mapping[int, Any] = field(default_factory=dict)
    lookups: Sequence[Lookup] = ()
    sparing: Callable[[bool], None] | None = None

    @cached_property
    def words(self) -> Any:
        """The module of expressions: narwhals, or its equivalent for a database."""
        import narwhals

        return getattr(self.raw, "words", narwhals)

    @cached_property
    def frame(self) -> nw.LazyFrame[Any]:
        """The records, with the columns of level positions that ``lookups`` add."""
        return self.looked_up(self.raw)

    def looked_up(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """Return the frame with the column that each lookup adds."""
        for lookup in self.lookups:
            frame = lookup(frame)
        return frame


def _lookup(frame: Any, name: str, value: nw.Expr, wanted: Mapping[Any, int], dtype: Any) -> Lookup | None:
    """Return a hash join that adds the positions of levels as a column, or None if comparisons are faster.

    A record must not match two levels, or it would count twice. So text is compared by its bytes
    (:func:`compared_exactly`), the join in Polars fails if a level occurs twice, and DuckDB uses a scalar
    subquery, which has one value for each row.
    """
    import narwhals as nw

    if len(wanted) <= _MOST_COMPARED_LEVELS:
        return None
    if hasattr(frame, "words"):
        if not (dtype.is_integer() or (dtype == nw.String and "\0" not in "".join(wanted))):
            return None
        whole = dtype.is_integer()
        return lambda records: records.with_places(f"{name}_place", value, wanted, whole)  # type: ignore[attr-defined]
    key, place = f"{name}_key", f"{name}_place"
    if frame.implementation.is_polars():
        kind = dtype if dtype.is_integer() else nw.Float64() if dtype.is_numeric() else nw.String()
        listed = {key: list(wanted), place: list(wanted.values())}
        levels = nw.from_dict(listed, {key: kind, place: nw.Int64()}, backend="polars").lazy().to_native()

        def _join(records: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
            native = records.with_columns(**{key: value}).to_native()
            return _lazy(native.join(levels, on=key, how="left", validate="m:1"))

        return _join
    text = _SEPARATOR.join(map(str, wanted))
    if not frame.implementation.is_duckdb() or "\0" in text or text.count(_SEPARATOR) != len(wanted) - 1:
        return None
    # A table that reads no record; one long text is quicker to parse than many.
    native = frame.to_native()
    whole = native.types[native.columns.index(name)]
    typed = whole if dtype.is_integer() else "DOUBLE" if dtype.is_numeric() else "VARCHAR"
    places = _SEPARATOR.join(map(str, wanted.values()))
    table = ", ".join(
        f"unnest(string_split({quote_sql(texts)}, '{_SEPARATOR}'))::{kind} AS {label}"
        for label, texts, kind in (("level", text, typed), ("place", places, "BIGINT"))
    )
    columns = f"*, (SELECT place FROM (SELECT {table}) WHERE level = {key}) AS {place}"

    def single(records: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        return _lazy(records.with_columns(**{key: value}).to_native().project(columns))

    return single


def _lazy(native: Any) -> nw.LazyFrame[Any]:
    import narwhals as nw

    frame: nw.LazyFrame[Any] = nw.from_native(native).lazy()
    return frame


def quote_sql(text: str) -> str:
    """Return text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    """Return the name of a column as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class CellCounts:
    """Numbers of records by cell (a tuple of codes): all, and those ``kept`` under the bound per person."""

    records: Mapping[tuple[int, ...], int]
    kept: Mapping[tuple[int, ...], int]


def count_cells(table: EngineTable, most: int | None) -> CellCounts:
    """Count the records of each combination of codes, with at most ``most`` per person."""
    import numpy as np

    try:
        if table.sparing is not None:
            table.sparing(True)
        rows = fetch(_group_codes(table, most))
    except EngineError as error:
        if error.kind != OUT_OF_MEMORY or table.sparing is None:
            raise
        table.sparing(False)  # too many distinct values: code every record, which takes no memory
        rows = fetch(_group_codes(replace(table, groups=False), most))
    if most is not None:
        _check_people(rows)
    combined = np.array([int(row[0]) for row in rows], dtype=np.int64)
    places = np.unravel_index(combined, [coder.codes for coder in table.coders])
    for coder, codes in zip(table.coders, places, strict=True):
        if not coder.total and (codes == coder.untyped_code).any():
            raise wrong_type("Unknown")
    cells = list(zip(*(codes.tolist() for codes in places), strict=True))
    records, within_bound = ([int(row[i]) for row in rows] for i in (1, 1 if most is None else 2))
    return CellCounts(dict(zip(cells, records, strict=True)), dict(zip(cells, within_bound, strict=True)))


def sum_codes(table: EngineTable, most: int | None) -> tuple[Tally, tuple[int, int, int]]:
    """Count the records of a column, and return the number, Σj and Σj² of the codes j under the bound.

    Squares are added up in two parts (j² divided by 2²⁰, and the remainder), so that 64 bits suffice for up
    to 2⁴³ records.
    """
    nw = table.words
    (coder,) = table.coders
    parts, code, number = _group_codes(table, most), nw.col("code"), nw.col("records").cast(nw.Int64)
    if most is None:
        parts = parts.select("code", records=number, kept=number, nobody=number * 0)
    inside, number_kept = code < coder.size, nw.col("kept")
    place = nw.when(inside).then(code).otherwise(nw.lit(0)).cast(nw.Int64)
    status = nw.when(inside).then(nw.lit(-1)).otherwise(code).cast(nw.Int64)
    sums = {
        "first": place * number_kept,
        "high": (place * place) // _SQUARE_SPLIT * number_kept,
        "low": (place * place) % _SQUARE_SPLIT * number_kept,
    }
    names = ("records", "kept", "nobody", *sums)
    parts = parts.with_columns(status=status, **sums)
    rows = fetch(parts.group_by("status").agg(*(nw.col(name).sum() for name in names)))
    _check_people(rows)
    sums_by_status = {int(row[0]): [int(value) for value in row[1:]] for row in rows}
    if not coder.total and coder.untyped_code in sums_by_status:
        raise wrong_type("Unknown")
    records, entered, _, first, high, low = sums_by_status.get(-1, [0] * 6)
    unknown, missing = (sums_by_status.get(coder.size + i, [0])[0] for i in (0, 1))
    return Tally((records,), missing, unknown), (entered, first, high * _SQUARE_SPLIT + low)


def cells_of_people(table: EngineTable, most: int) -> dict[Any, dict[tuple[int, ...], int]]:
    """Count the records of each person by combination of codes, with at most ``most`` per person."""
    import numpy as np

    rows = fetch(_group_codes(table, most, apart=True))
    _check_people(rows)
    combined = np.array([int(row[0]) for row in rows], dtype=np.int64)
    places = np.unravel_index(combined, [coder.codes for coder in table.coders])
    people: dict[Any, dict[tuple[int, ...], int]] = {}
    for row, cell in zip(rows, zip(*(codes.tolist() for codes in places), strict=True), strict=True):
        if int(row[2]):
            people.setdefault(row[4], {})[cell] = int(row[2])
    return people


def _group_codes(table: EngineTable, most: int | None, apart: bool = False) -> nw.LazyFrame[Any]:
    """Return a frame with the number of records of each combination of codes.

    The codes of all columns are combined into one number. With a bound per person there are also the numbers
    of records that are kept, and that have no person key. With ``apart`` there is a row for each person and
    code, with the person's key.
    """
    nw = table.words
    frame, records = table.frame, nw.len()
    if table.groups:
        raw = [f"v{i}" for i in range(len(table.coders))]
        frame = table.looked_up(table.raw.group_by(*raw).agg(nw.len().alias("records")))
        records = nw.col("records").sum()
    combined, *others = (code.cast(nw.Int64) for code in table.codes)
    cells = 1
    for coder, code in zip(table.coders[1:], others, strict=True):
        combined = combined * coder.codes + code
        cells *= coder.codes
    if others and cells * table.coders[0].codes >= 2**63:
        raise TooLargeError(
            "the columns have 2**63 combinations or more: take fewer columns, or fewer levels"
        )
    columns = {"code": combined}
    number = nw.col("records").cast(nw.Int64)  # unsigned, of 32 bits, on Polars
    if table.groups:
        columns["records"] = number
    if table.person is None:
        return frame.select(**columns).group_by("code").agg(records.alias("records"))
    # Within a person records go in the order of their codes: an order of that person's own records alone,
    # and the same on every engine. Of equal codes it does not matter which is kept.
    columns["person"] = nw.col(table.person)
    grouped = frame.select(**columns).group_by("person", "code").agg(records.alias("records"))
    grouped = grouped.with_columns(records=number)
    upto = nw.col("records").cum_sum()
    if grouped.implementation.is_pandas_like():
        # Without copy on write (pandas 2) an ordered window is put back in place while it is still read.
        grouped = grouped.collect().sort("code").with_columns(upto=upto.over("person")).lazy()
    else:
        grouped = grouped.with_columns(upto=upto.over("person", order_by="code"))
    grouped = grouped.with_columns(room=most - (nw.col("upto") - nw.col("records")).cast(nw.Int64))
    room, size = nw.col("room"), nw.col("records")
    fits = nw.when(room >= size).then(size).otherwise(nw.when(room > 0).then(room).otherwise(nw.lit(0)))
    nobody = nw.when(nw.col("person").is_null()).then(size).otherwise(nw.lit(0))
    grouped = grouped.with_columns(kept=fits.cast(nw.Int64), nobody=nobody.cast(nw.Int64))
    if apart:
        return grouped.select("code", "records", "kept", "nobody", "person")
    return grouped.group_by("code").agg(*(nw.col(name).sum() for name in ("records", "kept", "nobody")))


def _check_people(rows: Sequence[Sequence[Any]]) -> None:
    """Raise an error if some records have no person key.

    Column 1 of ``rows`` has the number of records, column 3 the number without a key.
    """
    nobody = sum(int(row[3]) for row in rows)
    if nobody:
        total = sum(int(row[1]) for row in rows)
        raise DataError(
            f"{nobody} of {total} records have no person key, so their contribution has no bound; "
            "drop them before counting"
        )


def near_misses(table: EngineTable, index: int, tally: Tally) -> Tally:
    """Count invalid values that differ from a level only by white space or case, in a second pass."""
    nw = table.words
    coder, text = table.coders[index], table.texts[index]
    if tally.unknown and index in table.objects:
        again = count_weighted(distinct(table.objects[index]), coder)
        return replace(tally, blank=again.blank, case=again.case)
    if not (tally.unknown and text is not None and isinstance(coder, Levels)):
        return tally
    stripped = text.str.strip_chars(WHITE)
    unknown = table.frame.filter(table.codes[index] == coder.invalid_code)
    ((blank, near),) = fetch(
        unknown.select(
            blank=stripped.is_in(coder.near[0]).cast(nw.Int64).sum(),
            near=stripped.str.to_lowercase().is_in(coder.near[1]).cast(nw.Int64).sum(),
        )
    )
    return replace(tally, blank=int(blank or 0), case=int(near or 0) - int(blank or 0))


def as_frame(data: Any, name: str | None = None) -> nw.LazyFrame[Any] | None:
    """Return a table, or a column under this name, as a narwhals lazy frame; None for Python values."""
    if isinstance(data, str | tuple) and is_database(data):
        from discreet._data.database import open_database

        return open_database(data)  # type: ignore[return-value]
    if isinstance(data, Mapping | list | tuple | range | Iterator):
        return None
    import narwhals as nw

    try:
        if (arrow := sys.modules.get("pyarrow")) is not None:
            data = _arrow_in_duckdb(data, arrow, name or "value")
        native = nw.from_native(data, allow_series=True, pass_through=True)
    except Exception as error:
        if isinstance(failure := ours(error), EngineFailure):
            raise failure from None
        if type(data).__module__.startswith("pyspark."):
            raise DataError(
                "the Spark DataFrame cannot be read: is its session alive? PySpark 3.5 or newer is needed: "
                + how_to_install("spark")
            ) from None
        raise InvalidInputError("the table cannot be read; are its column names unique?") from None
    if isinstance(native, nw.Series):
        native = native.alias(name or "value").to_frame()
    if not isinstance(native, nw.DataFrame | nw.LazyFrame):
        return None
    _check_engine(native.implementation)
    return native.lazy()


def _check_engine(engine: nw.Implementation) -> None:
    """Raise an error for an engine for which comparisons of text and numbers have not been tested."""
    known = engine.is_pandas_like() or engine.is_polars() or engine.is_duckdb() or engine.is_pyspark()
    if not (known or engine.is_pyspark_connect()):
        raise InvalidInputError(
            f"a table of {engine.name.title()} cannot be counted: load it into Polars; for an Ibis "
            "table pass its query, (engine, ibis.to_sql(table))"
        )


def of_columns(columns: Mapping[Any, Any]) -> nw.LazyFrame[Any]:
    """Return columns of Python values as a table of objects; NumPy arrays keep their type.

    No type is inferred, because it would depend on all records: a single complex number would make all others
    missing.
    """
    import numpy as np
    import pandas as pd

    series = {}
    for name, values in columns.items():
        if isinstance(values, str | bytes | Mapping | set | frozenset) or not isinstance(values, Iterable):
            raise InvalidInputError(f"column {name!r} must be a list or an array of values")
        typed = type(values) is np.ndarray and values.dtype.kind in "biufU"
        if getattr(values, "ndim", 1) != 1:
            raise InvalidInputError(f"column {name!r} must have one dimension")
        column = values if typed else list(values)
        series[name] = pd.Series(column, dtype=None if typed else object)
    if len(set(map(len, series.values()))) > 1:
        raise InvalidInputError("data must map column names to columns of one length")
    return _lazy(pd.DataFrame(series))


def _arrow_in_duckdb(data: Any, arrow: Any, name: str) -> Any:
    """Open Arrow data in DuckDB without a copy; a bound per person needs DuckDB's window functions."""
    if isinstance(data, arrow.Array | arrow.ChunkedArray):
        data = {name: data}
    elif not isinstance(data, arrow.Table | arrow.RecordBatch):
        return data
    table = arrow.table(data)
    if len(set(table.column_names)) != len(table.column_names):
        raise ValueError
    return connect().from_arrow(table)


def as_table(
    frame: Any,
    coders: Mapping[str | None, Coder],
    person: str | None,
    *,
    groups: bool = False,
    ordered: bool = False,
) -> EngineTable:
    """Return the declared columns of a frame; names of columns are part of the schema, hence public.

    ``ordered``: the codes must be in the order of the records, so no join is used.
    """
    import narwhals as nw

    spark = frame.implementation.is_spark_like()
    names = list(frame.to_native().columns if spark else frame.collect_schema().names())
    chosen = {f"v{i}": choose(names, column) for i, column in enumerate(coders)}
    if person is not None:
        chosen["person"] = choose(names, person)
    if hasattr(frame, "words"):
        return typed_table(frame.typed(chosen), tuple(coders.values()))
    if frame.implementation.is_pandas_like():
        return _pandas_table(frame.to_native(), chosen, tuple(coders.values()))
    if spark:
        # By position: Spark takes a dot in a name for a field, and upper case for lower.
        frame = nw.from_native(frame.to_native().toDF(*(f"c{i}" for i in range(len(names)))))
        chosen = {label: f"c{names.index(name)}" for label, name in chosen.items()}
    selected = frame.select(**{label: nw.col(name) for label, name in chosen.items()})
    return typed_table(selected, tuple(coders.values()), groups=groups, ordered=ordered)


def compared_exactly(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Return columns that are compared in the same way on every engine: text by its bytes, NaN as null.

    DuckDB and Spark may compare text by a collation of the column or the session, under which *e*, *E* and
    *é* are equal. For a Parquet column, DuckDB may evaluate isnan from the stored minimum and maximum, which
    ignore NaN; then the code of a NaN would depend on other records. Inside nullif it does not do so.
    """
    import narwhals as nw

    native: Any = frame.to_native()
    if frame.implementation.is_duckdb():
        columns = []
        for name, kind in frame.collect_schema().items():
            column = identifier(name)
            if kind.is_float():
                column = f"CASE WHEN isnan(nullif({column}, 1)) THEN NULL ELSE {column} END AS {column}"
            elif kind in (nw.String, nw.Categorical, nw.Enum):
                column = f"{column}::VARCHAR COLLATE C AS {column}"
            columns.append(column)
        return _lazy(native.project(", ".join(columns)))
    if frame.implementation.is_spark_like():
        from pyspark.sql import functions, types

        if hasattr(functions, "collate"):  # from Spark 4 on there are collations
            text = [field.name for field in native.schema if isinstance(field.dataType, types.StringType)]
            exact = {name: functions.collate(functions.col(name), "UTF8_BINARY") for name in text}
            return _lazy(native.withColumns(exact) if exact else native)
    return frame


def typed_table(
    frame: nw.LazyFrame[Any],
    coders: tuple[Coder, ...],
    *,
    groups: bool = False,
    ordered: bool = False,
    objects: Mapping[int, Any] | None = None,
) -> EngineTable:
    """Build a table from a frame with the columns v0, v1, …, and perhaps ``person``.

    If the values of v0 can have different types, ``v0_kind`` names the type of each, and there is a column
    for each type; likewise for v1, …. The columns whose positions are in ``objects`` contain codes already.
    """
    import narwhals

    nw: Any = getattr(frame, "words", narwhals)
    frame = compared_exactly(frame)
    schema = frame.collect_schema()
    if "person" in schema:
        dtype = schema["person"]
        if dtype in (nw.Categorical, nw.Enum):
            frame = frame.with_columns(nw.col("person").cast(nw.String))
        elif not (dtype == nw.String or dtype.is_integer()):
            raise wrong_type(type(dtype).__name__, f"the key of a person: {PERSON_TYPES}")
    lookups: list[Lookup] = []

    def code_of(name: str, coder: Coder) -> Any:
        if ordered or not isinstance(coder, Levels):
            return coder.expression(nw.col(name), schema[name])
        value, missing, wanted, other = coder.reading(nw.col(name), schema[name])
        lookup = _lookup(frame, name, value, wanted, schema[name])
        if lookup is None:
            return coder.expression(nw.col(name), schema[name])
        lookups.append(lookup)
        place = nw.col(f"{name}_place")
        code = nw.when(place.is_null()).then(nw.lit(other)).otherwise(place)
        return nw.when(missing).then(nw.lit(coder.missing_code)).otherwise(code)

    codes: list[Any] = []
    texts: list[Any] = []
    for i, coder in enumerate(coders):
        name, kind = f"v{i}", nw.col(f"v{i}_kind")
        text = None
        if objects and i in objects:
            code = nw.col(name)
        elif name in schema:
            code = code_of(name, coder)
            if schema[name] in (nw.String, nw.Categorical, nw.Enum):
                text = nw.col(name).cast(nw.String)
        else:
            code = nw.lit(coder.invalid_code)
            for column in dict.fromkeys(coder.kinds.values()):
                if f"{name}_{column}" in schema:
                    held = kind.is_in([value for value, its in coder.kinds.items() if its == column])
                    code = nw.when(held).then(code_of(f"{name}_{column}", coder)).otherwise(code)
            code = nw.when(kind == "null").then(nw.lit(coder.missing_code)).otherwise(code)
            if f"{name}_text" in schema:
                text = nw.when(kind == "text").then(nw.col(f"{name}_text"))
        codes.append(code)
        texts.append(text)
    person = "person" if "person" in schema else None
    return EngineTable(frame, coders, tuple(codes), tuple(texts), person, groups, objects or {}, lookups)


def _pandas_table(native: Any, chosen: Mapping[str, Any], coders: tuple[Coder, ...]) -> EngineTable:
    """Build a table from pandas columns; columns of levels or Python objects are coded here, others later."""
    import narwhals as nw

    columns, objects = {}, {}
    for i, (coder, (label, name)) in enumerate(zip(coders, chosen.items(), strict=False)):
        series = _decode_dictionary(native[name])
        codes = _pandas_codes(series, coder)
        columns[label] = series.array if codes is None else codes
        if codes is not None:
            objects[i] = series
    if "person" in chosen:
        columns["person"] = _people(native[chosen["person"]])
    return typed_table(nw.from_native(type(native)(columns, copy=False)).lazy(), coders, objects=objects)


def _pandas_codes(series: Any, coder: Coder) -> Any:
    """Return the codes of a pandas column; None if an expression will compute them.

    Objects are coded one by one, levels once for each distinct value. Categories keep their own type, which
    may be numbers or booleans.
    """
    import numpy as np

    levels, categories = isinstance(coder, Levels), getattr(series.dtype, "categories", None)
    if categories is not None:
        if categories.dtype.kind in "mM":
            raise wrong_type(f"category of {categories.dtype.name}")
    elif str(series.dtype) == "object":
        values = series.tolist()
        code_of_value = {value: coder.code(value) for value in set(values)} if alike(values) else None
        code_stream = (
            map(coder.code, values) if code_of_value is None else map(code_of_value.__getitem__, values)
        )
        return np.fromiter(code_stream, dtype=np.int64, count=len(values))
    elif not (levels and _has_plain_type(series)):
        return None
    places, values = series.factorize()
    codes = [*map(coder.code, values.tolist()), coder.missing_code]  # −1, the last, is missing
    return np.array(codes, dtype=np.int64)[np.asarray(places)]


def _has_plain_type(series: Any) -> bool:
    import narwhals as nw

    dtype = nw.from_native(series, series_only=True).dtype
    return dtype.is_numeric() or dtype in (nw.String, nw.Boolean)


def pandas_values(data: Any, column: str | None) -> Iterable[tuple[Any, int]] | None:
    """Count the values of a pandas column with pandas; None if the records must be coded one by one."""
    frame = as_frame(data, column)
    if frame is None or not frame.implementation.is_pandas_like():
        return None
    series = _decode_dictionary(frame.to_native()[choose(frame.collect_schema().names(), column)])
    if str(series.dtype) == "object":  # pandas would infer a type from all of them
        return distinct(series.tolist())
    if not hasattr(series.dtype, "categories"):
        if not _has_plain_type(series):
            return None
    elif series.dtype.categories.dtype.kind in "mM":
        return None
    counted = series.value_counts(sort=False, dropna=False)
    return zip(counted.index.tolist(), counted.tolist(), strict=True)


def _decode_dictionary(series: Any) -> Any:
    """Return a dictionary-encoded Arrow column of pandas as its plain type, and other columns unchanged."""
    arrow: Any = getattr(series.dtype, "pyarrow_dtype", None)
    if not hasattr(arrow, "index_type"):
        return series
    return series.astype(type(series.dtype)(arrow.value_type))


def _people(series: Any) -> Any:
    """Return person keys; Python objects (text or integers) are replaced by numbers."""
    import numpy as np

    if hasattr(series.dtype, "categories"):
        series = series.astype(series.dtype.categories.dtype)
    if str(series.dtype) != "object":
        return _decode_dictionary(series).array
    numbers: dict[Any, int] = {}
    keys = []
    for raw in series:
        value = as_plain(raw)
        if not (is_missing(value) or (isinstance(value, str | int) and not isinstance(value, bool))):
            raise wrong_type("object", f"the key of a person: {PERSON_TYPES}")
        keys.append(None if is_missing(value) else numbers.setdefault(value, len(numbers)))
    if None in keys:
        return [None if key is None else str(key) for key in keys]
    return np.array(keys, dtype=np.int64)


def choose(
    names: Sequence[Any],
    column: str | None,
    unknown: Callable[[Sequence[Any], str], InvalidInputError] | None = None,
) -> Any:
    """Return the column with this name, or the only one; ``unknown`` builds the error if there is none."""
    if column is None and len(names) == 1:
        return names[0]
    if column is None or column not in names:
        raise no_column(names, column) if column is None or unknown is None else unknown(names, column)
    if list(names).count(column) > 1:
        raise InvalidInputError("is the name of more than one column; rename them", "column", column)
    return column


def no_column(names: Sequence[Any], column: str | None) -> InvalidInputError:
    listing = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if column is None:
        return InvalidInputError(f"column is missing; name one of: {listing}")
    return InvalidInputError(
        f"does not exist; {nearest(names, column)}The columns are: {listing}", "column", column
    )


def nearest(names: Sequence[Any], column: str) -> str:
    folded = {str(name).strip().lower(): name for name in names}
    near = difflib.get_close_matches(str(column).strip().lower(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}? " if near else ""
