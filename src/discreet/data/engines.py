"""Tables where they live: codes, the bound on records per person, and sums, all inside the engine.

One way through narwhals for every engine. A table becomes a column of codes (see :class:`Coder`) and perhaps
one of person keys; these are grouped, capped and added up by the engine, and only the result is fetched.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from discreet.data.levels import WHITE, Levels
from discreet.data.paths import quoted
from discreet.data.values import Coder, Tally, alike, count_weighted, distinct, is_missing, wrong_type
from discreet.data.withheld import OUT_OF_MEMORY, EngineError, connect, fetch
from discreet.declarations import as_plain
from discreet.errors import DataError, InvalidInput, how_to_install

if TYPE_CHECKING:
    import narwhals as nw

_BETWEEN = "\x1f"  # the separator of units, of ASCII
_CHAIN = 8  # up to so many levels comparisons are faster than a join
_SQL_INTEGERS = {
    f"{sign}Int{bits}": f"{sign}{name}".upper()
    for bits, name in ((8, "tinyint"), (16, "smallint"), (32, "integer"), (64, "bigint"), (128, "hugeint"))
    for sign in ("", "U")
}
PERSON_TYPES = "a person key must be text or whole numbers"


@dataclass(frozen=True)
class EngineTable:
    """A table of which each wanted column has a declaration.

    ``codes`` holds an expression for each, ``texts`` the same column as text where it is text. ``person`` is
    the name of the key column. ``groups`` names raw columns to group by before anything else, where that is
    known to be cheap: the codes of a few distinct values cost less than those of all records. ``objects``
    are the columns, by position, of which pandas holds Python objects. ``lookups`` are joined before codes
    are taken. ``sparing`` turns a tight limit on the engine's memory on and off: where it is, ``groups`` is
    an attempt that may fail.
    """

    frame: nw.LazyFrame[Any]
    coders: tuple[Coder, ...]
    codes: tuple[nw.Expr, ...]
    texts: tuple[nw.Expr | None, ...]
    person: str | None = None
    groups: tuple[str, ...] = ()
    objects: Mapping[int, Any] = field(default_factory=dict)
    lookups: tuple[Lookup, ...] = ()
    sparing: Callable[[bool], None] | None = None

    def looked_up(self, frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
        """A frame with the column of places that each lookup adds."""
        for one in self.lookups:
            frame = frame.with_columns(**{one.key: one.value})
            frame = frame.join(one.levels, left_on=one.key, right_on="level", how="left")
            frame = frame.rename({"place": one.place})
        return frame


@dataclass(frozen=True)
class Lookup:
    """A table of levels in the engine of the records: a hash join finds the one that a record equals."""

    key: str
    value: nw.Expr
    place: str
    levels: nw.LazyFrame[Any]
    """Columns ``level`` and ``place``."""

    @classmethod
    def of(
        cls, frame: nw.LazyFrame[Any], name: str, coder: Coder, dtype: Any
    ) -> tuple[Lookup, nw.Expr] | None:
        """For a column ``name`` with many levels, and the code that follows; None where it would not pay."""
        import narwhals as nw

        if not isinstance(coder, Levels):
            return None
        value, missing, wanted, other = coder.reading(nw.col(name), dtype)
        kind = dtype if dtype.is_integer() else nw.Float64() if dtype.is_numeric() else nw.String()
        levels = _levels_table(frame, wanted, kind) if len(wanted) > _CHAIN else None
        if levels is None:
            return None
        place = nw.col(f"{name}_place")
        found = nw.when(place.is_null()).then(nw.lit(other)).otherwise(place)
        code = nw.when(missing).then(nw.lit(coder.absent)).otherwise(found)
        return cls(f"{name}_key", value, f"{name}_place", levels), code


def _levels_table(
    frame: nw.LazyFrame[Any], wanted: Mapping[Any, int], dtype: Any
) -> nw.LazyFrame[Any] | None:
    import narwhals as nw

    if frame.implementation.is_polars():
        listed = {"level": list(wanted), "place": list(wanted.values())}
        return nw.from_dict(listed, {"level": dtype, "place": nw.Int64()}, backend="polars").lazy()
    text = _BETWEEN.join(map(str, wanted))
    if not frame.implementation.is_duckdb() or "\0" in text or text.count(_BETWEEN) != len(wanted) - 1:
        return None
    # A relation of the same connection, which reads no record; one long text is quicker to parse than many.
    one = frame.to_native().limit(0).aggregate("count(*) AS one")
    typed = {"String": "VARCHAR", "Float64": "DOUBLE"}.get(str(dtype)) or _SQL_INTEGERS[str(dtype)]
    places = _BETWEEN.join(map(str, wanted.values()))
    columns = (("level", text, typed), ("place", places, "BIGINT"))
    texts = (
        f"unnest(string_split({quoted(text)}, '{_BETWEEN}'))::{kind} AS {name}"
        for name, text, kind in columns
    )
    table: nw.LazyFrame[Any] = nw.from_native(one.project(", ".join(texts)))
    return table


@dataclass(frozen=True)
class CellCounts:
    """Records by cell, a tuple with one code per column: all of them, and those that the bound keeps."""

    records: Mapping[tuple[int, ...], int]
    kept: Mapping[tuple[int, ...], int]


def count_cells(table: EngineTable, most: int | None) -> CellCounts:
    """How many records have each combination of codes, with at most ``most`` per person."""
    try:
        if table.sparing is not None:
            table.sparing(True)
        rows = fetch(_grouped(table, most))
    except EngineError as error:
        if error.kind != OUT_OF_MEMORY or table.sparing is None:
            raise
        table.sparing(False)  # too many distinct values: code every record, which takes no memory
        rows = fetch(_grouped(replace(table, groups=()), most))
    records: dict[tuple[int, ...], int] = {}
    kept: dict[tuple[int, ...], int] = {}
    for combined, *numbers in rows:
        code, cell = int(combined), []
        for coder in reversed(table.coders):
            code, part = divmod(code, coder.codes)
            cell.append(part)
        place = tuple(reversed(cell))
        records[place], kept[place] = int(numbers[0]), int(numbers[0 if most is None else 1])
    if most is not None:
        _check_people(rows)
    for index, coder in enumerate(table.coders):
        if not coder.total and any(place[index] == coder.untyped for place in records):
            raise wrong_type("Unknown")
    return CellCounts(records, kept)


@dataclass(frozen=True)
class Moments:
    """Records, and of those kept the number, Σ code and Σ code²; unknown and missing among all records."""

    records: int
    unknown: int
    missing: int
    kept: int
    first: int
    second: int


_SPLIT = 2**20


def sum_codes(table: EngineTable, most: int | None) -> Moments:
    """Σj and Σj² of one column's codes, whole numbers to the end.

    Squares are added up in two parts, below and above 2²⁰, which 64 bits hold for up to 2⁴³ records.
    """
    import narwhals as nw

    (coder,) = table.coders
    code, kept = nw.col("code"), nw.col("kept")
    parts = _grouped(table, most)
    if most is None:
        number = nw.col("records").cast(nw.Int64)
        parts = parts.select("code", records=number, kept=number, nobody=number * 0)
    parts = parts.with_columns(
        status=nw.when(code < coder.size).then(nw.lit(-1)).otherwise(code).cast(nw.Int64),
        place=nw.when(code < coder.size).then(code).otherwise(nw.lit(0)).cast(nw.Int64),
    )
    place = nw.col("place")
    parts = parts.with_columns(
        first=place * kept, high=(place * place) // _SPLIT * kept, low=(place * place) % _SPLIT * kept
    )
    names = ("records", "kept", "nobody", "first", "high", "low")
    rows = fetch(parts.group_by("status").agg(*(nw.col(name).sum() for name in names)))
    _check_people(rows)
    found = {int(row[0]): [int(number) for number in row[1:]] for row in rows}
    if not coder.total and coder.untyped in found:
        raise wrong_type("Unknown")
    _, kept_records, _, first, high, low = found.get(-1, [0] * 6)
    return Moments(
        records=sum(numbers[0] for numbers in found.values()),
        unknown=found.get(coder.size, [0])[0],
        missing=found.get(coder.size + 1, [0])[0],
        kept=kept_records,
        first=first,
        second=high * _SPLIT + low,
    )


def _grouped(table: EngineTable, most: int | None) -> nw.LazyFrame[Any]:
    """One row per combined code: code and records; with a bound, kept and nobody (of no person) as well."""
    import narwhals as nw

    frame, records = table.frame, nw.len()
    if table.groups:
        frame = frame.group_by(*table.groups).agg(nw.len().alias("records"))
        records = nw.col("records").sum()
    frame = table.looked_up(frame)
    combined, *others = (code.cast(nw.Int64) for code in table.codes)
    for coder, code in zip(table.coders[1:], others, strict=True):
        combined = combined * coder.codes + code
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
    before = nw.col("records").cum_sum().over("person", order_by="code") - nw.col("records")
    grouped = grouped.with_columns(room=most - before.cast(nw.Int64))
    room, size = nw.col("room"), nw.col("records")
    fits = nw.when(room >= size).then(size).otherwise(nw.when(room > 0).then(room).otherwise(nw.lit(0)))
    nobody = nw.when(nw.col("person").is_null()).then(size).otherwise(nw.lit(0))
    grouped = grouped.with_columns(kept=fits.cast(nw.Int64), nobody=nobody.cast(nw.Int64))
    return grouped.group_by("code").agg(*(nw.col(name).sum() for name in ("records", "kept", "nobody")))


def _check_people(rows: Sequence[Sequence[Any]]) -> None:
    """Columns 1 and 3 are all records and those whose person is missing."""
    nobody = sum(int(row[3]) for row in rows)
    if nobody:
        total = sum(int(row[1]) for row in rows)
        raise DataError(
            f"{nobody} of {total} records have no person key, so their contribution has no bound; "
            "drop them before counting"
        )


def near_misses(table: EngineTable, index: int, tally: Tally) -> Tally:
    """The tally with hints, from a second pass over the unknown text of one column."""
    import narwhals as nw

    coder, text = table.coders[index], table.texts[index]
    if tally.unknown and index in table.objects:
        again = count_weighted(distinct(table.objects[index]), coder)
        return replace(tally, blank=again.blank, case=again.case)
    if not (tally.unknown and text is not None and isinstance(coder, Levels)):
        return tally
    stripped = text.str.strip_chars(WHITE)
    unknown = table.looked_up(table.frame).filter(table.codes[index] == coder.stray)
    ((blank, near),) = fetch(
        unknown.select(
            blank=stripped.is_in(coder.near[0]).cast(nw.Int64).sum(),
            near=stripped.str.to_lowercase().is_in(coder.near[1]).cast(nw.Int64).sum(),
        )
    )
    return replace(tally, blank=int(blank or 0), case=int(near or 0) - int(blank or 0))


def as_frame(data: Any) -> nw.LazyFrame[Any] | None:
    """Any column or table as a narwhals lazy frame; None where the data are Python values."""
    if isinstance(data, Mapping | list | tuple | range | Iterator):
        return None
    import narwhals as nw

    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(data, arrow.Array | arrow.ChunkedArray):
        data = arrow.table({"value": data})
    elif arrow is not None and isinstance(data, arrow.RecordBatch):
        data = arrow.table(data)
    try:
        if arrow is not None and isinstance(data, arrow.Table):
            data = _arrow_in_duckdb(data)
        native = nw.from_native(data, allow_series=True, pass_through=True)
    except Exception:
        if type(data).__module__.startswith("pyspark."):
            raise DataError(
                "the Spark DataFrame cannot be read: is its session alive? PySpark 3.5 or newer is needed: "
                + how_to_install("spark")
            ) from None
        raise InvalidInput("the table cannot be read; are its column names unique?") from None
    if isinstance(native, nw.Series):
        native = native.alias("value").to_frame()
    return native.lazy() if isinstance(native, nw.DataFrame | nw.LazyFrame) else None


def _arrow_in_duckdb(table: Any) -> Any:
    """Arrow tables are read in place by DuckDB, which has the window that a bound per person needs."""
    if len(set(table.column_names)) != len(table.column_names):
        raise ValueError
    return connect().from_arrow(table)


def as_table(
    frame: nw.LazyFrame[Any], coders: Mapping[str | None, Coder], person: str | None, groups: bool = False
) -> EngineTable:
    """The declared columns of a frame; names of a table's columns are schema, hence public."""
    import narwhals as nw

    if frame.implementation.is_spark_like():
        # By position: Spark takes a dot in a name for a field, and upper case for lower.
        native = frame.to_native()
        names = list(native.columns)
        frame = nw.from_native(native.toDF(*(f"c{i}" for i in range(len(names)))))
        stand = {name: f"c{i}" for i, name in enumerate(names)}
    else:
        names = list(frame.collect_schema().names())
        stand = {name: name for name in names}
    columns = [choose(names, column) for column in coders]
    if person is not None:
        person = choose(names, person)
    if frame.implementation.is_pandas_like():
        return _pandas_table(frame, columns, tuple(coders.values()), person)
    wanted = {f"v{i}": nw.col(stand[name]) for i, name in enumerate(columns)}
    if person is not None:
        wanted["person"] = nw.col(stand[person])
    selected = frame.select(**wanted)
    if frame.implementation.is_duckdb():
        selected = _without_nan(selected)
    return typed_table(selected, tuple(coders.values()), person is not None, groups)


def _without_nan(frame: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    """Columns of a DuckDB relation with null for NaN.

    Of a Parquet column it takes isnan for false from the smallest and the largest number, which leave NaN
    out, so that what a NaN counts as would depend on the other records. That does not reach behind nullif.
    """
    import narwhals as nw

    schema = frame.collect_schema()
    columns = (
        f"CASE WHEN isnan(nullif({name}, 1)) THEN NULL ELSE {name} END AS {name}" if kind.is_float() else name
        for name, kind in schema.items()
    )
    if not any(kind.is_float() for kind in schema.values()):
        return frame
    found: nw.LazyFrame[Any] = nw.from_native(frame.to_native().project(", ".join(columns)))
    return found


def typed_table(
    frame: nw.LazyFrame[Any],
    coders: tuple[Coder, ...],
    person: bool,
    groups: bool = False,
    objects: Mapping[int, Any] | None = None,
) -> EngineTable:
    """A frame of typed columns v0, v1, …, and ``person``; those of ``objects`` are codes already."""
    import narwhals as nw

    schema = frame.collect_schema()
    if person:
        dtype = schema["person"]
        if dtype in (nw.Categorical, nw.Enum):
            frame = frame.with_columns(nw.col("person").cast(nw.String))
        elif not (dtype == nw.String or dtype.is_integer()):
            raise wrong_type(type(dtype).__name__, f"the key of a person: {PERSON_TYPES}")
    names = tuple(f"v{i}" for i in range(len(coders)))
    codes, lookups = [], []
    for i, (name, coder) in enumerate(zip(names, coders, strict=True)):
        found = None if i in (objects or {}) else Lookup.of(frame, name, coder, schema[name])
        if found is not None:
            lookups.append(found[0])
            codes.append(found[1])
        else:
            known = i in (objects or {})
            codes.append(nw.col(name) if known else coder.expression(nw.col(name), schema[name]))
    text = (nw.String, nw.Categorical, nw.Enum)
    texts = tuple(nw.col(name).cast(nw.String) if schema[name] in text else None for name in names)
    person_name = "person" if person else None
    groups_by = names if groups else ()
    return EngineTable(
        frame, coders, tuple(codes), texts, person_name, groups_by, objects or {}, tuple(lookups)
    )


def _pandas_table(
    frame: nw.LazyFrame[Any], columns: Sequence[Any], coders: tuple[Coder, ...], person: Any
) -> EngineTable:
    """Columns of Python objects are read object by object, categories as what they are."""
    import narwhals as nw
    import numpy as np

    native = frame.to_native()
    given, objects = {}, {}
    for i, (name, coder) in enumerate(zip(columns, coders, strict=True)):
        series = native[name]
        if str(series.dtype) == "object":
            objects[i] = series
            given[f"v{i}"] = np.array([coder.code(value) for value in series], dtype=np.int64)
        elif hasattr(series.dtype, "categories"):
            objects[i] = series
            given[f"v{i}"] = _category_codes(series, coder)
        else:
            given[f"v{i}"] = _decoded(series).array
    if person is not None:
        given["person"] = _people(native[person])
    whole = nw.from_native(type(native)(given, copy=False)).lazy()
    groups = person is None and all(isinstance(coder, Levels) for coder in coders)
    return typed_table(whole, coders, person is not None, groups, objects)


def pandas_values(data: Any, column: str | None) -> Iterable[tuple[Any, int]] | None:
    """Of one column of pandas: values with how often they occur, as pandas counts them; None: count codes."""
    import narwhals as nw

    frame = as_frame(data)
    if frame is None or not frame.implementation.is_pandas_like():
        return None
    series = frame.to_native()[choose(frame.collect_schema().names(), column)]
    if str(series.dtype) == "object":
        values = series.tolist()
        if not alike(values):
            return distinct(values)
    elif hasattr(series.dtype, "categories"):
        if series.dtype.categories.dtype.kind in "mM":
            return None
    else:
        dtype = nw.from_native(_decoded(series), series_only=True).dtype
        if not (dtype.is_numeric() or dtype in (nw.String, nw.Boolean)):
            return None
    counted = _decoded(series).value_counts(sort=False, dropna=False)
    return zip(counted.index.tolist(), counted.tolist(), strict=True)


def _decoded(series: Any) -> Any:
    """A dictionary column of Arrow in pandas as its plain type; others as they are."""
    arrow: Any = getattr(series.dtype, "pyarrow_dtype", None)
    if not hasattr(arrow, "index_type"):
        return series
    return series.astype(type(series.dtype)(arrow.value_type))


def _category_codes(series: Any, coder: Coder) -> Any:
    """Categories of pandas may be numbers or truth values, and count as these."""
    import numpy as np

    categories = series.dtype.categories
    if categories.dtype.kind in "mM":
        raise wrong_type(f"category of {categories.dtype.name}")
    codes = [*(coder.code(category) for category in categories), coder.absent]  # −1, the last, is missing
    return np.array(codes, dtype=np.int64)[series.cat.codes.to_numpy()]


def _people(series: Any) -> Any:
    """Person keys; objects as the number of their first occurrence, where all are text or whole numbers."""
    import numpy as np

    if hasattr(series.dtype, "categories"):
        series = series.astype(series.dtype.categories.dtype)
    if str(series.dtype) != "object":
        return _decoded(series).array
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


def choose(names: Sequence[Any], column: str | None) -> Any:
    """The one column that is meant."""
    if column is None and len(names) == 1:
        return names[0]
    if column is None or column not in names:
        raise no_column(names, column)
    return only(names, column)


def only(names: Sequence[Any], column: str) -> str:
    if list(names).count(column) > 1:
        raise InvalidInput(f"column={column!r} is the name of more than one column; rename them")
    return column


def no_column(names: Sequence[Any], column: str | None) -> InvalidInput:
    listing = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if column is None:
        return InvalidInput(f"which column? Give column=NAME (--column NAME), one of: {listing}")
    return InvalidInput(
        f"column={column!r} does not exist; {nearest(names, column)}The columns are: {listing}"
    )


def nearest(names: Sequence[Any], column: str) -> str:
    folded = {str(name).strip().lower(): name for name in names}
    near = difflib.get_close_matches(str(column).strip().lower(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}? " if near else ""
