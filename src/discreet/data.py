"""Records on any engine and a declared domain → exact integer counts of its levels.

Three ways in, one way out. Python values are counted here, one by one; columns and tables are counted where
they live through narwhals; files are opened by an embedded DuckDB and then are tables too. Each way yields a
:class:`Tally`, and one function decides what becomes of missing and undeclared values. Only aggregates leave
an engine, and no message quotes a record. Of the first line of a CSV file, which may be a record where the
names were forgotten, a message shows at most one field, and only if it is close to the column asked for.

When is a record equal to a level? The rule is the same on every engine:

* text, and anything not listed below, equals a level that prints the same: ``"1"`` equals ``"1"``, ``1``;
* a number equals a level that is, or reads as, the same number: ``1.0`` equals ``1``, ``"1"`` and ``True``;
* a truth value equals the levels True/False, 1/0 and, in any case, ``"true"``/``"false"``;
* null and NaN are missing and equal no level. In a CSV file an empty field is missing;
* what is nested (an array or object in a JSON file) equals no level.

Privacy needs more: what a record counts as must depend on no other record. So every field of a CSV file is
text, every value of a JSON file is read alone, by its own type, and a column of mixed Python objects is
counted object by object. Whoever makes a typed column of mixed values decides earlier, out of our hands:
``numpy.array([1.0, "q"])`` holds the text ``"1.0"``, a ``Counter`` holds 1 and True as one key, and a query
on an engine may infer a type from all records. Fix the type of such a column before looking at the records.
"""

from __future__ import annotations

import csv
import difflib
import gzip
import math
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import chain, repeat
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.core import DataError, Domain, FileError, InvalidInput, as_integer

if TYPE_CHECKING:
    import narwhals as nw

__all__ = ["FORMATS", "Tally", "count_levels"]

FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".json", ".jsonl", ".ndjson")

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_RANGES = {f"Int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64, 128)} | {
    f"UInt{b}": (0, 2**b - 1) for b in (8, 16, 32, 64, 128)
}
_WHITE = " \t\r\n\v\f\u00a0"


@dataclass(frozen=True)
class Tally:
    """Every record in exactly one place: a level, ``missing``, or ``unknown``.

    For hints, ``blank`` and ``case`` count the unknown records that differ from a level in nothing but the
    white space around them, or upper and lower case.
    """

    counts: tuple[int, ...]
    missing: int = 0
    unknown: int = 0
    blank: int = 0
    case: int = 0


def count_levels(data: Any, domain: Domain, *, column: str | None = None) -> tuple[int, ...]:
    """Exact counts of ``domain.levels``, in their order.

    ``data`` is a list, iterator, NumPy array, column or table of pandas, Polars, Arrow or DuckDB, the path of
    a file, or a mapping from value to count. Tables and files with several columns need ``column``, and CSV
    and TSV files always do.
    """
    return _settle(_tally(data, _Levels(domain), column), domain)


def _tally(data: Any, levels: _Levels, column: str | None) -> Tally:
    if isinstance(data, str | os.PathLike):
        return _count_file(Path(data), levels, column)
    table = _as_table(data)
    if table is not None:
        with _withheld_words():
            names = table.collect_schema().names()
        return _count_column(table, _choose(names, column), levels)
    if column is not None:
        raise InvalidInput(f"column={column!r} is for tables and files; these data are one column already")
    if isinstance(data, Mapping):
        return _count_values(data.keys(), levels, _weights(data))
    return _count_values(_as_values(data), levels)


def _settle(tally: Tally, domain: Domain) -> tuple[int, ...]:
    """Apply the declared mapping of missing and undeclared values, or say how many need one."""
    total = sum(tally.counts) + tally.missing + tally.unknown
    if total == 0:
        raise DataError("the data are empty: there is no record to count")
    counts = list(tally.counts)
    problems = []
    if domain.other is not None:
        counts[domain.levels.index(domain.other)] += tally.unknown
    elif tally.unknown:
        problems.append(f"{tally.unknown} of {total} records hold a value outside the declared levels")
        for hint, ground in ((tally.blank, "white space around it"), (tally.case, "upper and lower case")):
            if hint:
                problems.append(f"{hint} of these differ from a level only in {ground}")
        problems.append("declare every level, or map the rest to one: other=LEVEL (--other LEVEL)")
    if domain.missing is not None:
        counts[domain.levels.index(domain.missing)] += tally.missing
    elif tally.missing:
        problems.append(f"{tally.missing} of {total} records are missing")
        problems.append("map them to a level: missing=LEVEL (--missing LEVEL)")
    if problems:
        raise DataError("; ".join(problems))
    return tuple(counts)


class _Levels:
    """The declared levels as look-up tables, one per kind of record; each maps a value to a position."""

    def __init__(self, domain: Domain) -> None:
        self.levels = tuple(_plain(level) for level in domain.levels)
        self.hints = domain.other is None

    @cached_property
    def texts(self) -> dict[Any, int]:
        return self._table("text", lambda level: level if isinstance(level, str) else str(level))

    @cached_property
    def numbers(self) -> dict[Any, int]:
        def read(level: Any) -> Any:
            if isinstance(level, str) and _NUMBER.fullmatch(level):
                return float(level) if "." in level else int(level)
            return _number(level) if isinstance(level, Real | Decimal) else None

        return self._table("number", read)

    @cached_property
    def truths(self) -> dict[Any, int]:
        def read(level: Any) -> Any:
            if isinstance(level, str):
                return {"true": True, "false": False}.get(level.lower())
            return bool(level) if isinstance(level, Real | Decimal) and level in (0, 1) else None

        return self._table("truth value", read)

    @cached_property
    def near(self) -> tuple[list[str], list[str]]:
        """The levels without white space around them, and these in lower case."""
        stripped = [text.strip(_WHITE) for text in self.texts]
        return stripped, [text.lower() for text in stripped]

    def _table(self, kind: str, read: Any) -> dict[Any, int]:
        table: dict[Any, int] = {}
        for position, level in enumerate(self.levels):
            value = read(level)
            if value is not None and table.setdefault(value, position) != position:
                twin = self.levels[table[value]]
                raise InvalidInput(f"levels {twin!r} and {level!r} are the same {kind}; remove one of them")
        return table

    def find(self, value: Any) -> int | None:
        """The position of the level that a Python value equals."""
        if isinstance(value, bool):
            return self.truths.get(value)
        if isinstance(value, Real | Decimal):
            return self.numbers.get(_number(value))
        return self.texts.get(value if isinstance(value, str) else str(value))


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python value it stands for; anything else as it is."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def _number(value: Any) -> Any:
    """A number that compares by value; a decimal as the double next to it, as every engine has doubles."""
    if isinstance(value, float | Decimal):
        value = float(value)
        return value if math.isfinite(value) else None
    return value


def _as_values(data: Any) -> Iterable[Any]:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray):
        if data.ndim != 1:
            raise InvalidInput(f"data has {data.ndim} dimensions; give one column, such as array[:, 0]")
        if data.dtype.kind not in "biufUTO":
            raise _wrong_type(data.dtype.name)
        chunks = (data[start : start + 65536] for start in range(0, len(data), 65536))
        return chain.from_iterable(chunk.tolist() for chunk in chunks)
    # A set keeps equal records once, and the items of bytes are numbers.
    if isinstance(data, set | frozenset | bytes | bytearray | memoryview) or not isinstance(data, Iterable):
        raise InvalidInput(
            f"data of type {type(data).__name__} cannot be counted; give a list, array, column, table or "
            "file path with column=NAME, or a mapping from value to count"
        )
    return data


def _weights(counts: Mapping[Any, Any]) -> Iterator[int]:
    for count in counts.values():
        try:
            weight = as_integer(count, "count")
        except (InvalidInput, OverflowError):
            weight = -1
        if weight < 0:  # as_integer would have quoted the count, which is private
            raise InvalidInput("every count in a mapping must be a whole number, 0 or more") from None
        yield weight


def _count_values(values: Iterable[Any], levels: _Levels, weights: Iterable[int] = repeat(1)) -> Tally:
    counts = [0] * len(levels.levels)
    missing = unknown = blank = case = 0
    as_stripped, as_folded = map(frozenset, levels.near)
    # Keyed by type as well, because True == 1 == 1.0. Holds level values only, so a long tail costs nothing.
    seen: dict[Any, int] = {}
    for raw, weight in zip(values, weights, strict=False):
        try:
            counts[seen[type(raw), raw]] += weight
            continue
        except (KeyError, TypeError):
            value = _plain(raw)
        if _is_missing(value):
            missing += weight
            continue
        position = levels.find(value)
        if position is not None:
            with suppress(TypeError):  # not hashable
                seen[type(raw), raw] = position
            counts[position] += weight
            continue
        unknown += weight
        if isinstance(value, str):
            stripped = value.strip(_WHITE)
            if stripped in as_stripped:
                blank += weight
            elif stripped.lower() in as_folded:
                case += weight
    return Tally(tuple(counts), missing, unknown, blank, case)


def _is_missing(value: Any) -> bool:
    # pandas.NA answers every comparison with itself, so it is known by name: pandas need not be installed.
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value)


def _as_table(data: Any) -> nw.LazyFrame[Any] | None:
    """Any column or table as a narwhals lazy frame; None where the data are Python values."""
    if isinstance(data, Mapping | list | tuple | range | Iterator):
        return None
    import narwhals as nw

    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(data, arrow.Array):
        data = arrow.chunked_array([data])
    elif arrow is not None and isinstance(data, arrow.RecordBatch):
        data = arrow.table(data)
    try:
        native = nw.from_native(data, allow_series=True, pass_through=True)
    except Exception:
        raise InvalidInput("the table cannot be read; are its column names unique?") from None
    if isinstance(native, nw.Series):
        native = native.alias("value").to_frame()
    return native.lazy() if isinstance(native, nw.DataFrame | nw.LazyFrame) else None


def _choose(names: Sequence[Any], column: str | None) -> Any:
    """The one column to count; the names of a table's columns are schema, hence public."""
    if column is None and len(names) == 1:
        return names[0]
    if column is None or column not in names:
        raise _no_column(names, column)
    return _only(names, column)


def _only(names: Sequence[Any], column: str) -> str:
    if list(names).count(column) > 1:
        raise InvalidInput(f"column={column!r} is the name of more than one column; rename them")
    return column


def _no_column(names: Sequence[Any], column: str | None) -> InvalidInput:
    listing = ", ".join(map(repr, names[:20])) + (", …" if len(names) > 20 else "")
    if column is None:
        return InvalidInput(f"which column? Give column=NAME (--column NAME), one of: {listing}")
    return InvalidInput(f"column={column!r} does not exist; {_near(names, column)}The columns are: {listing}")


def _near(names: Sequence[Any], column: str) -> str:
    folded = {str(name).strip().lower(): name for name in names}
    near = difflib.get_close_matches(str(column).strip().lower(), folded, n=1)
    return f"did you mean {folded[near[0]]!r}? " if near else ""


def _wrong_type(name: str) -> DataError:
    # The bare name: the full type of a nested column may list keys that are data.
    return DataError(f"a column of type {name} cannot be counted; turn it into text, numbers or truth values")


def _count_column(table: nw.LazyFrame[Any], name: Any, levels: _Levels) -> Tally:
    """One grouped pass inside the engine; a second one only to word the hint of an error."""
    import narwhals as nw

    native = nw.to_native(table)
    if table.implementation.is_pandas_like():
        kind = native[name].dtype
        if str(kind) == "object":
            return _count_values(native[name], levels)
        if hasattr(kind, "categories"):
            return _count_categories(native[name], levels)
        if hasattr(getattr(kind, "pyarrow_dtype", None), "index_type"):
            plain = native[name].astype(type(kind)(kind.pyarrow_dtype.value_type))
            table = nw.from_native(plain.to_frame(name)).lazy()
    elif table.implementation.is_pyarrow() and hasattr(native[name].type, "index_type"):
        plain = native[name].cast(native[name].type.value_type)
        table = nw.from_native(type(native).from_arrays([plain], names=[name])).lazy()
    dtype = table.collect_schema()[name]
    value = nw.col(name)
    missing = value.is_null()
    wanted: dict[Any, int] = {}
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        value, wanted = value.cast(nw.String), levels.texts
    elif dtype == nw.Boolean:
        wanted = levels.truths
    elif dtype.is_integer():
        low, high = _RANGES[str(dtype)]  # a literal out of the column's range is an error on some engines
        wanted = {int(x): i for x, i in levels.numbers.items() if low <= x <= high and x == int(x)}
    elif dtype.is_numeric():
        value = value.cast(nw.Float64)
        missing = missing | value.is_nan()
        wanted = {float(x): i for x, i in levels.numbers.items() if abs(x) < 2**1023 and x == float(x)}
    elif dtype != nw.Unknown:  # which is the type of a column of nulls
        raise _wrong_type(type(dtype).__name__)

    known, unknown, absent = 0, 1, 2
    if wanted:
        # The filler is a level rather than null, because null would turn pandas integers into floats.
        matches = value.is_in(list(wanted))
        place = nw.when(matches).then(nw.lit(known)).otherwise(nw.lit(unknown))
        key = nw.when(matches).then(value).otherwise(nw.lit(next(iter(wanted))))
    else:
        place, key = nw.lit(unknown), missing
    marked = table.select(place=nw.when(missing).then(nw.lit(absent)).otherwise(place), key=key)
    counts, totals = [0] * len(levels.levels), [0, 0, 0]
    for row_place, row_key, records in _rows(marked.group_by("place", "key").agg(nw.len().alias("records"))):
        totals[row_place] += int(records)
        if row_place == known:
            counts[wanted[row_key]] += int(records)
    tally = Tally(tuple(counts), missing=totals[absent], unknown=totals[unknown])
    if tally.unknown and dtype == nw.Unknown:
        raise _wrong_type(type(dtype).__name__)
    if not (tally.unknown and levels.hints and wanted is levels.texts):
        return tally
    stripped = value.str.strip_chars(_WHITE)
    blank, near = _rows(
        table.filter(~missing & ~value.is_in(list(wanted))).select(
            blank=stripped.is_in(levels.near[0]).sum(),
            near=stripped.str.to_lowercase().is_in(levels.near[1]).sum(),
        )
    )[0]
    return replace(tally, blank=int(blank), case=int(near) - int(blank))


def _count_categories(column: Any, levels: _Levels) -> Tally:
    """A categorical column of pandas: its categories may be numbers or truth values, and count as these."""
    categories = column.dtype.categories
    if categories.dtype.kind in "mM":
        raise _wrong_type(f"category of {categories.dtype.name}")
    records = {int(code): int(count) for code, count in column.cat.codes.value_counts().items()}
    values = [None if code < 0 else categories[code] for code in records]
    return _count_values(values, levels, records.values())


def _rows(aggregate: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    native = aggregate.to_native()
    with _withheld_words():
        # DuckDB hands over rows itself: narwhals would go through pyarrow, which need not be installed.
        return list(native.fetchall()) if hasattr(native, "fetchall") else aggregate.collect().rows()


class _EngineError(DataError):
    line: str | None = None


@contextmanager
def _withheld_words() -> Iterator[None]:
    """An engine's error without its message, which often quotes the offending record."""
    try:
        yield
    except Exception as error:
        bare = _EngineError(f"the engine cannot read the data ({type(error).__name__}; details withheld)")
        line = re.match(r"[\w ]*: CSV Error on Line: (\d+)", str(error))
        bare.line = line[1] if line else None
        raise bare from None


def _count_file(path: Path, levels: _Levels, column: str | None) -> Tally:
    ending = next((e for e in sorted(FORMATS, key=len, reverse=True) if path.name.lower().endswith(e)), None)
    if ending is None:
        raise FileError(f"{str(path)!r}: the ending is none of {' '.join(FORMATS)}")
    import duckdb

    # Extensions are never fetched: what is needed is built in, and data work must not reach for the network.
    settings: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    wrong = f"{str(path)!r} is not a well-formed {ending} file"
    try:
        with duckdb.connect(":memory:", config=settings) as connection:
            return _count_opened(connection, path, ending, column, levels)
    except _EngineError as error:
        why = f": see line {error.line} (number of fields, quotes, or not UTF-8)" if error.line else ""
        raise FileError(wrong + why) from None
    except (duckdb.Error, csv.Error, EOFError, zlib.error, gzip.BadGzipFile):
        raise FileError(wrong) from None
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror}") from None


def _count_opened(connection: Any, path: Path, ending: str, column: str | None, levels: _Levels) -> Tally:
    import narwhals as nw

    # DuckDB reads * ? [ in a path as a pattern and would open other files than the one named.
    literal = re.sub(r"([*?\[])", r"[\1]", str(path))
    with path.open("rb") as file:
        magic = file.read(4096)
    if (magic[:4] == b"PAR1") != (ending == ".parquet"):
        raise FileError(f"{str(path)!r} is {'' if magic[:4] == b'PAR1' else 'not '}a Parquet file")
    if ending == ".parquet":
        relation = connection.read_parquet(literal, binary_as_string=True, hive_partitioning=False)
        return _count_column(nw.from_native(relation), _choose(relation.columns, column), levels)
    if not ending.endswith(".gz") and (b"\0" in magic or magic.startswith((b"\x1f\x8b", b"PK\3\4"))):
        raise FileError(f"{str(path)!r} is a binary file, not {ending} text in UTF-8")
    if "csv" in ending or "tsv" in ending:
        delimiter, names = _csv_header(path, ending)
        if column not in names and not levels.texts.keys().isdisjoint(names):
            raise FileError(f"{str(path)!r}: the first line looks like a record, not like column names")
        if column is None:
            raise InvalidInput(
                "which column? The first line of the file must name the columns; "
                "give column=NAME (--column NAME)"
            )
        if column not in names:
            raise InvalidInput(
                f"column={column!r} does not exist; {_near(names, column)}The first line, which must name "
                f"the columns, has {len(names)}; they are not shown because that line may be a record"
            )
        position = names.index(_only(names, column))
        # Everything is text and nothing is guessed, so that what a field means depends on no other record.
        fields = {f"c{i}": "VARCHAR" for i in range(len(names))}
        packing = "gzip" if ending.endswith(".gz") else "none"
        relation = connection.read_csv(
            literal, columns=fields, auto_detect=False, header=True, delimiter=delimiter, compression=packing
        )
        return _count_column(nw.from_native(relation), f"c{position}", levels)
    if magic.strip() and magic.lstrip()[:1] not in (b"[", b"{"):
        raise FileError(f"{str(path)!r} is not JSON: neither an array of records nor one record a line")
    shape = "newline_delimited"
    if ending == ".json":
        shape = "array" if magic.lstrip()[:1] == b"[" else "unstructured"
    records = connection.sql(f"SELECT json FROM read_json_objects({_quoted(literal)}, format='{shape}')")
    return _count_json(records, path, column, levels)


_JSON_KINDS = {"text": "VARCHAR", "truth": "BOOLEAN", "whole": "HUGEINT", "huge": "VARCHAR", "real": "DOUBLE"}


def _count_json(records: Any, path: Path, column: str | None, levels: _Levels) -> Tally:
    """Each value is read alone, by its own type; one inferred from all records would let one change all."""
    import narwhals as nw

    # Unlike the names of a table, keys come from the records. A message lists those that half of them have.
    keys = records.project("json_keys(json) AS k").project(
        "unnest(k) AS key, generate_subscripts(k, 1) AS place"
    )
    if column is None:
        number, first = keys.aggregate("count(DISTINCT key), min(key)").fetchall()[0]
        column = first if number == 1 else None
    pointer = _quoted("/" + (column or "").replace("~", "~0").replace("/", "~1"))
    values = records.project(
        f"json_type(json) AS record, json_type(json, {pointer}) AS type, "
        f"json_extract_string(json, {pointer}) AS value"
    ).project("""
        CASE WHEN record != 'OBJECT' THEN 'stray'
        WHEN type IS NULL THEN 'absent' WHEN type = 'NULL' THEN 'null'
        WHEN type IN ('OBJECT', 'ARRAY') THEN 'nested' WHEN type = 'VARCHAR' THEN 'text'
        WHEN type = 'BOOLEAN' THEN 'truth' WHEN NOT regexp_full_match(value, '-?[0-9]+') THEN 'real'
        WHEN TRY_CAST(value AS HUGEINT) IS NULL THEN 'huge' ELSE 'whole' END AS kind, value""")
    kinds = dict(values.aggregate("kind, count(*)", "kind").fetchall())
    total = sum(kinds.values())
    if kinds.get("stray"):
        raise FileError(
            f"{str(path)!r}: {kinds['stray']} of {total} entries are not JSON objects, hence no records"
        )
    if total and (column is None or kinds.get("absent") == total):
        common = keys.aggregate("key, count(*) AS records, min(place) AS place", "key")
        rows = common.filter(f"2 * records >= {total}").order("place, key").limit(21).fetchall()
        raise _no_column([key for key, *_ in rows], column)
    missing = kinds.pop("absent", 0) + kinds.pop("null", 0)
    parts = [Tally((0,) * len(levels.levels), missing=missing, unknown=kinds.pop("nested", 0))]
    for kind in kinds:
        part = values.filter(f"kind = '{kind}'").project(f"TRY_CAST(value AS {_JSON_KINDS[kind]}) AS value")
        parts.append(_count_column(nw.from_native(part), "value", levels))
    counts = tuple(map(sum, zip(*(part.counts for part in parts), strict=True)))
    return Tally(
        counts, *(sum(getattr(p, f) for p in parts) for f in ("missing", "unknown", "blank", "case"))
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _csv_header(path: Path, ending: str) -> tuple[str, list[str]]:
    """Delimiter and column names, from the first line alone."""
    opener: Any = gzip.open if ending.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
        outside = re.sub(r'(\A|[,;\t|\n])"[^"]*(?:""[^"]*)*("|\Z)', r"\1", text.read(1 << 20))
        first = re.split(r"[\r\n]", outside, maxsplit=1)[0]
        delimiter = "\t" if "tsv" in ending else next((mark for mark in ",;\t|" if mark in first), ",")
        text.seek(0)
        names = next(csv.reader(text, delimiter=delimiter, strict=True), None)
    if names is None:
        raise DataError("the data are empty: there is no record to count")
    if not names or "\ufffd" in "".join(names):
        raise FileError(f"{str(path)!r}: the first line must name the columns, in UTF-8")
    return delimiter, names
