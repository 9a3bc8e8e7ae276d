"""Record independence: what a record counts as depends on that record alone, and each record counts once.

All statistics here are sums over records, so for a table T and a record r it is S(T + r) = S(T) + S(r), by
every reader and engine; and where a person's records are bounded, S(T) is the sum over its people. S counts
as many records as there are. In strict runs, an error of T + r is one of T or of r alone.
"""

from __future__ import annotations

import csv
import datetime as dt
import importlib
import importlib.util
import json
import math
import random
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from discreet._data import clipped_sum, contingency, count_codes, count_levels, count_texts
from discreet._data.grids import Grid
from discreet._data.weighted import WeightedDesign
from discreet._declarations import Domain, Relation, steps_between
from discreet.errors import DiscreetError
from discreet.questions.survival import Survival, SurvivalCounts
from discreet.regression._newton.fit import Regression, regression
from discreet.regression._newton.records import read
from discreet.regression.means import MeanDesign
from discreet.schema import Category, Number, Schema
from shorthand import count_bins


class Absent:
    """A package that is not installed: :func:`leave_out_the_absent` says what is not asked then."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __bool__(self) -> bool:
        return False

    def __getattr__(self, attribute: str) -> Any:
        raise ImportError(f"{self._name} is not installed")


def installed(name: str) -> Any:
    return importlib.import_module(name) if importlib.util.find_spec(name) else Absent(name)


pd, pl, pa = map(installed, ("pandas", "polars", "pyarrow"))

# ---- hostile values ----------------------------------------------------------------------------------------


class Word(str):
    """Text of a class of its own."""


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


class Unequal:
    """Whoever compares or hashes it fails."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __str__(self) -> str:
        return "a"


TEXTS: tuple[Any, ...] = (
    *("a", "A", "e", "E", "é", "É", "e\u0301", "ß", "ss", "ẞ", "i", "I", "İ", "ı", "ﬁ", "fi", "z", "", " "),
    *(
        "a ",
        " a",
        "a\u00a0",
        "1",
        "01",
        "1.0",
        "2",
        "true",
        "True",
        "TRUE",
        "nan",
        "NaN",
        "NULL",
        "NA",
        "inf",
    ),
    *(
        "2020-01-01",
        "0x1",
        "1e3",
        "-0",
        "\ufeffa",
        "\u200b",
        "日本",
        "\U0001f600",
        "x" * 300,
        "9007199254740993",
    ),
    *("exclude", "a\nb", 'a"b', "a,b", "'", "l7", None),
)
NUL = ("\0", "a\0")
REALS = (
    *(0.0, -0.0, 0.5, 1.0, 2.0, 1.5, 3.0, 9.99, -1.0, 1e300, -1e300, 5e-324, 2.0**53, 2.0**63, 2.0**64),
    *(math.nan, math.inf, -math.inf, 0.1, 1 / 3, None),
)
WHOLES = (0, 1, 2, 3, -1, 7, 10, 127, -128, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), None)
UNSIGNED = (*(one for one in WHOLES if one is None or one >= 0), 2**63, 2**63 + 1, 2**64 - 1)
TRUTHS = (True, False, None)
DECIMALS = tuple(
    None if one is None else Decimal(one) for one in ("0.50", "1.00", "2.00", "-3.25", "99.99", None)
)
DATES = (dt.date(2020, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), None)
JSONS: tuple[Any, ...] = (
    *(one for one in TEXTS),
    *(
        0,
        1,
        2,
        -1,
        1.0,
        0.5,
        2**53,
        2**53 + 1,
        2**64,
        10**40,
        1e300,
        True,
        False,
        None,
        [],
        [1],
        {},
        {"a": 1},
    ),
)
OBJECTS: tuple[Any, ...] = (
    *TEXTS,
    *NUL,
    *REALS,
    *WHOLES,
    *UNSIGNED,
    *TRUTHS,
    *DECIMALS,
    *DATES,
    *(1j, complex(1, 0), complex("nan"), b"a", b"1", b"\xff", bytearray(b"a"), 2**80, -(2**80), 10**400),
    *(Decimal("sNaN"), Decimal("NaN"), Decimal("1e400"), Decimal("Infinity"), Decimal(1), Fraction(1, 3)),
    *(Fraction(1), Fraction(10**400), Fraction(1, 10**400), "\ud800", "a\udfff", Word("a"), Word("1")),
    *((pd.NA, pd.NaT, pd.Timestamp("2020-01-01"), pd.Period("2020"), pd.Interval(0, 1)) if pd else ()),
    *((pd.Timedelta(1),) if pd else ()),
    *(np.float32(0.1), np.float64("nan"), np.float16(1), np.longdouble(1), np.longdouble("nan"), np.int8(1)),
    *(np.uint64(2**63 + 1), np.bool_(True), np.str_("a"), np.bytes_(b"a"), np.complex128(1)),
    *(np.datetime64("2020-01-01"), np.datetime64("NaT", "D"), np.timedelta64(1, "D"), np.array([1, 2])),
    *(dt.datetime(2020, 1, 1), dt.time(1), dt.timedelta(1), [1], (1,), (True,), {"a": 1}, {1}, range(3), ...),
    *(Unprintable(), Unequal(), object, len, np.ma.masked),
)  # fmt: skip
LEVELS: dict[str, tuple[Any, ...]] = {
    "letters": ("a", "A", "e", "E", "é", "É", "e\u0301", "ß"),
    "texts": (
        "a",
        "A",
        "e",
        "E",
        "é",
        "É",
        "e\u0301",
        "ß",
        "ss",
        "i",
        "I",
        "İ",
        "ı",
        "ﬁ",
        "1",
        "true",
        "日本",
    ),
    "wholes": (0, 1, 2, -1, 2**53, 2**53 + 1),
    "numbers": (0, 1, 2, 3, -1, 0.5, 1.5, 2**53, 2**53 + 1, 2**63, 2**64 - 1, 127, 1e300),
    "truths": (True, False),
    "mixed": ("a", 1, 0, "True", "false", "é", "2020-01-01", 0.5, "nan", "NA", "01"),
    "hundred": ("a", "A", "é", "e\u0301", "1", *(f"l{i}" for i in range(100))),
}

# ---- readers -----------------------------------------------------------------------------------------------

Columns = Mapping[str, Sequence[Any]]
Kinds = Mapping[str, str]


@dataclass(frozen=True)
class Reader:
    """``kinds``: types that a column may have, each with the values that it may hold."""

    kinds: Mapping[str, Sequence[Any]]
    make: Callable[[Path, Columns, Kinds], Any]
    several: bool = True
    """Whether there may be more than one column."""
    weight: int = 4


def some(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(one for one in values if one is not None)


def numpy_array(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    values = list(columns["a"])
    if kinds["a"] == "O":
        made = np.empty(len(values), dtype=object)
        for i, value in enumerate(values):
            made[i] = value
        return made
    return np.array(values, dtype=kinds["a"])


def arrays(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    return {name: numpy_array(folder, {"a": values}, {"a": kinds[name]}) for name, values in columns.items()}


def pandas_column(values: Sequence[Any], kind: str) -> Any:
    if kind == "category":
        return pd.Series(pd.Categorical(list(values), categories=list(some(TEXTS))))
    if kind == "numbers as category":
        return pd.Series(pd.Categorical(list(values), categories=[0, 1, 2, 3, 2**53, 2**53 + 1]))
    if kind == "dictionary":
        typed = pa.array(list(values), pa.string()).dictionary_encode()
        return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([typed])))
    if kind.startswith("arrow "):
        return pd.Series(list(values), dtype=pd.ArrowDtype(ARROW[kind[6:]]))
    if kind in ("Int64", "UInt64"):  # of numbers alone pandas would make doubles on the way
        return pd.Series(pd.array([*values, None], dtype=kind)[:-1])
    if kind == "str":  # as pandas 3 has text by default
        return pd.Series(list(values), dtype=pd.StringDtype(na_value=np.nan))
    return pd.Series(list(values), dtype=kind)


def pandas_frame(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    return pd.DataFrame({name: pandas_column(values, kinds[name]) for name, values in columns.items()})


def polars_frame(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    return pl.DataFrame(
        {name: pl.Series(name, list(values), dtype=POLARS[kinds[name]]) for name, values in columns.items()}
    )


def arrow_table(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    made = {}
    for name, values in columns.items():
        if kinds[name] == "dictionary":
            made[name] = pa.array(list(values), pa.string()).dictionary_encode()
        else:
            made[name] = pa.array(list(values), ARROW[kinds[name]])
    return pa.table(made)


def duckdb_table(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    connection = opened_duckdb()
    declared = ", ".join(f'"{name}" {DUCKDB[kinds[name]]}' for name in columns)
    connection.execute("RESET default_collation")
    connection.execute(f"CREATE OR REPLACE TABLE t ({declared})")
    rows = list(zip(*columns.values(), strict=True))
    connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
    for name in columns:
        if kinds[name].startswith("default "):
            connection.execute(f"SET default_collation = '{kinds[name][8:]}'")
    return connection.table("t")


@cache
def opened_duckdb() -> Any:
    return duckdb.connect(config={"threads": 1})


def sqlite_table(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    """A value of any type in a column of any: SQLite turns some into others as they come in, one by one."""
    path = folder / "t.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        declared = ", ".join(f'"{name}" {SQLITE[kinds[name]]}' for name in columns)
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute(f"CREATE TABLE t ({declared})")
        rows = list(zip(*columns.values(), strict=True))
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        connection.commit()
    return f"sqlite:///{path}#t"


def csv_file(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    path = folder / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def json_lines(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    path = folder / "t.jsonl"
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def parquet_file(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    import pyarrow.parquet

    pyarrow.parquet.write_table(arrow_table(folder, columns, kinds), folder / "t.parquet")
    return folder / "t.parquet"


def excel_file(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.active
    assert sheet is not None
    sheet.append(["row", *columns])
    for i, row in enumerate(zip(*columns.values(), strict=True)):  # a row without any value is no record
        sheet.append([i, *row])
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


ARROW: dict[str, Any] = {} if not pa else {
    "string": pa.string(), "large": pa.large_string(), "int64": pa.int64(), "uint64": pa.uint64(),
    "double": pa.float64(), "bool": pa.bool_(), "date": pa.date32(), "decimal": pa.decimal128(10, 2),
    "null": pa.null(), "binary": pa.binary(), "view": pa.string_view(),
}  # fmt: skip
ARROW_VALUES: dict[str, Sequence[Any]] = {
    "string": (*TEXTS, *NUL), "large": (*TEXTS, *NUL), "dictionary": TEXTS, "int64": WHOLES,
    "uint64": UNSIGNED, "double": REALS, "bool": TRUTHS, "date": DATES, "decimal": DECIMALS, "null": (None,),
    "binary": (b"a", b"\xff", None),
}  # fmt: skip
POLARS: dict[str, Any] = {} if not pl else {
    "String": pl.String(), "Categorical": pl.Categorical(), "Enum": pl.Enum(list(some(TEXTS))),
    "Int64": pl.Int64(), "UInt64": pl.UInt64(), "Int128": pl.Int128(), "Float64": pl.Float64(),
    "Boolean": pl.Boolean(), "Date": pl.Date(), "Decimal": pl.Decimal(10, 2), "Null": pl.Null(),
    "Binary": pl.Binary(), "Object": pl.Object(),
}  # fmt: skip
POLARS_VALUES: dict[str, Sequence[Any]] = {
    "String": (*TEXTS, *NUL), "Categorical": TEXTS, "Enum": TEXTS, "Int64": WHOLES, "UInt64": UNSIGNED,
    "Int128": (*WHOLES, 2**80), "Float64": REALS, "Boolean": TRUTHS, "Date": DATES, "Decimal": DECIMALS,
    "Null": (None,), "Binary": (b"a", b"\xff", None), "Object": ("a", 1, None),
}  # fmt: skip
DUCKDB: dict[str, str] = {
    "text": "VARCHAR", "nocase": "VARCHAR COLLATE nocase", "noaccent": "VARCHAR COLLATE noaccent",
    "both": "VARCHAR COLLATE nocase.noaccent", "nfc": "VARCHAR COLLATE nfc", "de": "VARCHAR COLLATE de",
    "default nocase": "VARCHAR", "default noaccent": "VARCHAR", "default icu_noaccent": "VARCHAR",
    "enum": "ENUM(" + ", ".join("'" + one.replace("'", "''") + "'" for one in some(TEXTS)) + ")",
    "whole": "BIGINT", "unsigned": "UBIGINT", "huge": "HUGEINT", "real": "DOUBLE", "truth": "BOOLEAN",
    "date": "DATE", "decimal": "DECIMAL(10, 2)", "bytes": "BLOB",
}  # fmt: skip
DUCKDB_VALUES: dict[str, Sequence[Any]] = {
    **{kind: TEXTS for kind, type_ in DUCKDB.items() if "VARCHAR" in type_ or kind == "enum"},
    "whole": WHOLES, "unsigned": UNSIGNED, "huge": (*WHOLES, 2**80), "real": REALS, "truth": TRUTHS,
    "date": DATES, "decimal": DECIMALS, "bytes": (b"a", b"\xff", None),
}  # fmt: skip
SQLITE: dict[str, str] = {
    "text": "TEXT", "nocase": "TEXT COLLATE NOCASE", "rtrim": "VARCHAR(9) COLLATE RTRIM", "none": "",
    "whole": "INTEGER", "real": "REAL", "numeric": "NUMERIC(10, 2)", "boolean": "BOOLEAN", "blob": "BLOB",
}  # fmt: skip
SQLITE_ITEMS = (*TEXTS, *NUL, *REALS, *WHOLES, b"a", b"\xff", b"")
SQLITE_VALUES: dict[str, Sequence[Any]] = {
    **dict.fromkeys(SQLITE, SQLITE_ITEMS), "text": TEXTS, "nocase": TEXTS, "real": REALS,
}  # fmt: skip
NUMPY_VALUES: dict[str, Sequence[Any]] = {
    "O": OBJECTS, "int64": some(WHOLES), "uint64": some(UNSIGNED), "float64": some(REALS),
    "float32": (0.0, 0.1, 1.0, 2.0, math.nan, math.inf), "bool": some(TRUTHS), "U300": some(TEXTS),
    "int8": (0, 1, 2, -1, 127, -128),
}  # fmt: skip
PANDAS_VALUES: dict[str, Sequence[Any]] = {
    "object": OBJECTS, "int64": some(WHOLES), "Int64": WHOLES, "uint64": some(UNSIGNED), "UInt64": UNSIGNED,
    "float64": some(REALS), "Float64": REALS, "bool": some(TRUTHS), "boolean": TRUTHS, "string": TEXTS,
    "str": TEXTS, "category": TEXTS, "numbers as category": (0, 1, 2**53 + 1, None), "dictionary": TEXTS,
    "datetime64[ns]": (pd.Timestamp("2020-01-01"), pd.NaT) if pd else (None,),
    **{f"arrow {kind}": values for kind, values in ARROW_VALUES.items() if kind != "dictionary"},
}  # fmt: skip
CELLS = (*some(TEXTS), 0, 1, 2.5, True, dt.date(2020, 1, 1), None)


def in_list(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    return list(columns["a"])


def in_iterator(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    return iter(list(columns["a"]))


def in_mapping(folder: Path, columns: Columns, kinds: Kinds) -> Any:
    return dict(columns)


def first(make: Callable[[Path, Columns, Kinds], Any]) -> Callable[[Path, Columns, Kinds], Any]:
    """A column instead of a table of one."""
    return lambda folder, columns, kinds: make(folder, columns, kinds)["a"]


READERS: dict[str, Reader] = {
    "list": Reader({"any": OBJECTS}, in_list, several=False, weight=20),
    "iterator": Reader({"any": OBJECTS}, in_iterator, several=False, weight=6),
    "mapping of columns": Reader({"any": OBJECTS}, in_mapping, weight=12),
    "NumPy": Reader(NUMPY_VALUES, numpy_array, several=False, weight=14),
    "mapping of arrays": Reader(NUMPY_VALUES, arrays, weight=8),
    "pandas": Reader(PANDAS_VALUES, pandas_frame, weight=12),
    "column of pandas": Reader(PANDAS_VALUES, first(pandas_frame), several=False, weight=4),
    "Polars": Reader(POLARS_VALUES, polars_frame, weight=16),
    "column of Polars": Reader(POLARS_VALUES, first(polars_frame), several=False, weight=6),
    "Arrow": Reader(ARROW_VALUES, arrow_table, weight=2),
    "column of Arrow": Reader(ARROW_VALUES, first(arrow_table), several=False, weight=1),
    "DuckDB": Reader(DUCKDB_VALUES, duckdb_table, weight=5),
    "SQLite": Reader(SQLITE_VALUES, sqlite_table, weight=2),
    "CSV": Reader({"field": (*TEXTS, *NUL)}, csv_file, weight=1),
    "JSON lines": Reader({"any": (*JSONS, *NUL, "\ud800", "a\udfff")}, json_lines, weight=1),
    "Parquet": Reader(ARROW_VALUES, parquet_file, weight=1),
    "Excel": Reader({"cell": CELLS}, excel_file, weight=1),
}

# ---- questions ---------------------------------------------------------------------------------------------

Sums = Counter[Any]
WHO = ("a", "A", "é", "e\u0301", "e", "1", "01", "a ", "ß")


def numbered(values: Any) -> Sums:
    return Counter({i: int(value) for i, value in enumerate(np.ravel(np.asarray(values, dtype=object)))})


def levels(name: str) -> Callable[..., Sums]:
    def count(data: Any, strict: bool, **column: Any) -> Sums:
        domain = Domain(LEVELS[name], missing="exclude")
        return numbered(count_levels(data, domain, strict=strict, **column))

    return count


def bins(data: Any, strict: bool, **column: Any) -> Sums:
    given = {"edges": (-1, 0, 1, 2, 1e9), "outside": None if strict else "clip", "missing": "level"}
    return numbered(count_bins(data, strict=strict, **given, **column))


def total(data: Any, strict: bool, **column: Any) -> Sums:
    found = clipped_sum(data, bounds=(-1, 3), steps=1000, missing=0, strict=strict, **column)
    return numbered((found.n, found.grid_sum, found.grid_squares))


def whole_total(data: Any, strict: bool, **column: Any) -> Sums:
    found = clipped_sum(data, bounds=(0, 9), integers=True, missing=0, strict=strict, **column)
    return numbered((found.n, found.grid_sum, found.grid_squares))


def discovered(data: Any, strict: bool, **column: Any) -> Sums:
    return Counter(count_texts(data, **column))


def coded(data: Any, strict: bool, **column: Any) -> Sums:
    return Counter(count_codes(data, range(-5, 2**40), strict=False, **column))


def binned(data: Any, strict: bool, **column: Any) -> Sums:
    """As quantiles are."""
    domain = Number(-1, 3, bins=4, atoms=(0, 1), missing="exclude").domain("exclude", fine=True)
    return numbered(count_levels(data, domain, strict=strict, **column))


def table(data: Any, strict: bool, **bound: Any) -> Sums:
    domains = {
        "a": Domain(LEVELS["texts"], missing="exclude"),
        "b": Domain(LEVELS["numbers"], missing="exclude"),
    }
    return numbered(contingency(data, domains, strict=strict, **bound))


@cache
def survival_design(strict: bool) -> SurvivalCounts:
    event = Category(("a", "1"), missing="exclude")
    schema = Schema({"a": Number(0, 3, missing="exclude"), "b": event}, strict=strict)
    made = Survival("a", "b", bins=(0, 1, 2, 3), epsilon=1).request(schema)
    assert isinstance(made, SurvivalCounts)
    return made


def survival(data: Any, strict: bool) -> Sums:
    return numbered(survival_design(strict).read(data))


@cache
def weighted_design(of_mean: bool, strict: bool, **bound: Any) -> WeightedDesign:
    outcome: Domain | Grid = Domain(LEVELS["mixed"], missing="exclude")
    if of_mean:
        outcome = Grid((-1, 3), steps_between(-1, 3), False, None).accepting(not strict)
        outcome.drops_missing = True
    given: Any = bound or {"private_size": True}
    design = ("a", 2.0, {"b": outcome}, None, None, bool(bound))
    return WeightedDesign(*design, bound={**given, "strict": strict})


def weighted(of_mean: bool) -> Callable[..., Sums]:
    """Each record, or each person, adds to the totals and to the sums of squares."""

    def sums(data: Any, strict: bool, **bound: Any) -> Sums:
        found = weighted_design(of_mean, strict, **bound).sums(data)
        rows = (*found.totals, *found.squares)
        return numbered(
            (found.records, found.cut, found.squared, found.units, *(v for row in rows for v in row))
        )

    return sums


@cache
def mean_design(column: str | None, by: str | None, strict: bool) -> MeanDesign:
    groups = None if by is None else Domain(LEVELS["mixed"])
    about = {"n": None, "relation": Relation.ADD_REMOVE, "person": None, "per_person": None, "strict": strict}
    return MeanDesign(column, (-1.0, 3.0), Fraction(1), None, by, groups, "exclude", **about)  # type: ignore[arg-type]


def mean(data: Any, strict: bool, **column: Any) -> Sums:
    found, number = mean_design(column.get("column"), None, strict).sums(data)
    return numbered((number, *found[None]))


def means_by(data: Any, strict: bool, **bound: Any) -> Sums:
    design = mean_design("a", "b", strict)
    if bound:
        design = replace(design, relation=Relation.REPLACE_ONE, **bound)
    found, number = design.sums(data)
    return numbered((number, *(one for own in found.values() for one in own)))


@cache
def regressed(formula: str, strict: bool) -> Regression:
    given: dict[str, Any] = {"epsilon": 1, "delta": "1e-6", "missing": {"a": "exclude", "b": "exclude"}}
    numeric = formula == "b ~ a"
    given["bounds"] = {"b": (-1, 3)} | ({"a": (0, 2)} if numeric else {})
    given["levels"] = {} if numeric else {"a": LEVELS["letters"] if "C" not in formula else LEVELS["texts"]}
    made = regression("b ~ a", **given)
    for coder in made.design.coders.values():
        coder.accepting(not strict)
    return made


def regress(name: str) -> Callable[..., Sums]:
    def sums(data: Any, strict: bool, n: int | None = None, **bound: Any) -> Sums:
        asked = regressed(name, strict)
        with read(asked.design, data, **bound) as records:
            link = asked.model.link(asked.design, asked.model.start(asked.design))
            found = records.sums(asked.model, link, True)
            return numbered((records.n, found.square, *found.gradient, *found.curvature))

    return sums


ONE: dict[str, Callable[..., Sums]] = {
    **{f"shares of {name}": levels(name) for name in LEVELS},
    "bins": bins,
    "bins of quantiles": binned,
    "sum": total,
    "sum of whole numbers": whole_total,
    "discovery": discovered,
    "codes": coded,
    "mean": mean,
}
TWO: dict[str, Callable[..., Sums]] = {
    "table": table,
    "survival": survival,
    "weighted shares": weighted(of_mean=False),
    "weighted mean": weighted(of_mean=True),
    "means by group": means_by,
    "regression": regress("b ~ a"),
    "regression on few levels": regress("levels"),
    "regression on levels": regress("levels C"),
}
ROWS = ("shares", "bins", "table")
BOUNDED = tuple(name for name in (*ONE, *TWO) if name not in ("discovery", "codes", "mean", "survival"))
"""Questions with a bound on the records of a person."""
TOTALS: dict[str, Callable[[Sums], int]] = {
    name: Counter.total if name.startswith(ROWS) else (lambda sums: sums[0]) for name in (*BOUNDED, "mean")
}
"""How many records an answer is of."""
PERSON_KINDS = ("object", "String", "string", "nocase", "field", "any", "cell", "O")
MIXED_KEYS = ("object", "any", "O")

BARE = "an error that is not ours:"

# ---- the test ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """A table and a record of which another question's answer, or error, than expected came."""

    reader: str
    kinds: Mapping[str, str]
    question: str
    strict: bool
    records: Mapping[str, Sequence[Any]]
    found: str


def trial(
    rng: random.Random, folder: Path, readers: Mapping[str, Reader], records: int = 4
) -> Iterator[str | Difference]:
    """One question of a table to which records come, one by one: what became of each, or a difference.

    A record that is refused does not stay, and what one counts as alone is asked once.
    """
    (name,) = rng.choices(list(readers), [reader.weight for reader in readers.values()])
    reader = readers[name]
    if name.startswith("mapping"):  # which is one of counts to other questions
        tables = ("table", "survival")
        questions = {"mean": mean, **{name: ask for name, ask in TWO.items() if name not in tables}}
    else:
        questions = {**ONE, **TWO} if reader.several and rng.random() < 0.4 else ONE
    asked = rng.choice(list(questions))
    if name == "JSON lines" and asked in ("discovery", "codes"):  # these take tables and fields
        asked = "mean"
    names = ["a", "b"] if asked in TWO else ["a"]
    kinds = {column: rng.choice(list(reader.kinds)) for column in names}
    strict, more = rng.random() < 0.3, {"column": "a"} if reader.several and names == ["a"] else {}
    pools = {column: reader.kinds[kind] for column, kind in kinds.items()}
    few = {column: rng.sample(list(pool), min(4, len(pool))) for column, pool in pools.items()}

    def record() -> dict[str, Any]:
        return {column: rng.choice(pool) for column, pool in (few if rng.random() < 0.5 else pools).items()}

    def ask(rows: Sequence[Mapping[str, Any]], **bound: Any) -> Sums | str:
        data = reader.make(folder, {column: [row[column] for row in rows] for column in rows[0]}, kinds)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = questions[asked](data, strict, **more, **bound)
        except DiscreetError as error:
            return type(error).__name__
        except Exception as error:
            return f"{BARE} {type(error).__name__}: {error}"
        once = bound.get("n", len(rows))
        return found if asked not in TOTALS or TOTALS[asked](found) == once else "a record counts twice"

    def judged(rows: Sequence[Mapping[str, Any]], said: str, otherwise: str) -> str | Difference:
        columns = {column: [row[column] for row in rows] for column in rows[0]}
        return Difference(name, kinds, asked, strict, columns, said) if said else otherwise

    base = [record() for _ in range(rng.choice((1, 1, 2, 3, 5, 9)))]
    if reader.several and asked in BOUNDED and rng.random() < 0.25:
        strict, most = False, rng.choice((1, 2))
        kinds["who"] = next(kind for kind in PERSON_KINDS if kind in reader.kinds)
        keys = (*WHO, *((1, 2**53, 2**53 + 1) if kinds["who"] in MIXED_KEYS else ()))
        base = [{**row, "who": rng.choice(keys)} for row in base]
        people = [own for who in keys if (own := [row for row in base if row["who"] == who])]
        sizes = [min(most, len(own)) for own in people]
        together, *parts = (
            ask(rows, person="who", per_person=most, n=n)
            for rows, n in zip([base, *people], [sum(sizes), *sizes], strict=True)
        )
        held = "InvalidInputError" not in (
            together,
            *parts,
        )  # a different number of records than the bound leaves
        yield judged(
            base, compared(together, parts, strict=True) if held else "the bound is not held", "people"
        )
        return
    before, alone = ask(base), dict[tuple[int, ...], Sums | str]()
    for _ in range(records):
        extra, place = record(), rng.randrange(len(base) + 1)
        if (which := tuple(map(id, extra.values()))) not in alone:
            alone[which] = ask([extra])
        more_records = [*base[:place], extra, *base[place:]]
        together = ask(more_records)
        said = compared(together, [before, alone[which]], strict)
        yield judged(more_records, said, "refused" if isinstance(together, str) else "answered")
        if not isinstance(together, str):
            base, before = more_records, together


def compared(together: Sums | str, parts: Sequence[Sums | str], strict: bool = False) -> str:
    """What is wrong, or nothing: errors of all alike, or in strict runs of one; else sums add up."""
    errors = [part for part in parts if isinstance(part, str)]
    for one in (together, *errors):
        if isinstance(one, str) and one.startswith(BARE):
            return one
    if (twice := "a record counts twice") in (together, *errors):
        return twice
    if isinstance(together, str):
        fine = bool(errors) if strict else len(errors) == len(parts)
        return "" if fine else f"{together} of all, of its parts {errors}"
    if errors:
        return f"of parts {errors}, of all none"
    added: Sums = Counter()
    for part in parts:
        for key, value in part.items():  # type: ignore[union-attr]
            added[key] += value
    changed = {key for key in {*added, *together} if added[key] != together[key]}
    return f"{len(changed)} sums do not add up" if changed else ""


def run(
    seed: object, folder: Path, tables: int, readers: Mapping[str, Reader] = READERS, records: int = 4
) -> tuple[Counter[str], list[Difference]]:
    """So many tables, each T with one record more, at random."""
    rng, found, wrong = random.Random(f"independence {seed}"), Counter[str](tables=0, differences=0), []
    begun = time.process_time()
    while found["tables"] < tables:
        for outcome in trial(rng, folder, readers, records):
            found["tables"] += 1
            took, begun = int(1000 * (time.process_time() - begun)), time.process_time()
            found["slowest, in ms"] = max(found["slowest, in ms"], took)
            if isinstance(outcome, Difference):
                found["differences"] += 1
                wrong.append(outcome)
            else:
                found[outcome] += 1
    return found, wrong


def leave_out_the_absent(folder: Path) -> list[str]:
    """Readers, types and questions whose engine is not installed leave the tables above; a line for each."""
    absent = []
    for name, reader in list(READERS.items()):
        why = {}
        for kind, values in reader.kinds.items():
            try:
                reader.make(folder, {"a": values[:1]}, {"a": kind})
            except (ImportError, LookupError, duckdb.Error) as error:
                why[kind] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        READERS[name] = replace(
            reader, kinds={kind: own for kind, own in reader.kinds.items() if kind not in why}
        )
        if not READERS[name].kinds:
            del READERS[name]
            absent.append(f"{name}: {next(iter(why.values()))}")
        else:
            absent += [f"{name}, {kind}: {said}" for kind, said in why.items()]
    if not (pd and installed("formulaic")):
        absent += [f"{name}: needs pandas and formulaic" for name in TWO if name.startswith("regression")]
        for name in [name for name in TWO if name.startswith("regression")]:
            del TWO[name]
    return absent


def only(*names: str) -> dict[str, Reader]:
    return {name: READERS[name] for name in names}
