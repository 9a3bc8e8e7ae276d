"""One small table on every engine, and what each statistic of it must be, worked out record by record."""

from __future__ import annotations

import itertools
import json
import math
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import discreet._data
from discreet._declarations import Domain
from shorthand import count_bins

Row = tuple[str | None, float | None, int | None, str]
"""Text, real number, whole number, person."""

NAMES = ("text", "real", "whole", "who")
SCHEMA = pa.schema(
    [("text", pa.string()), ("real", pa.float64()), ("whole", pa.int64()), ("who", pa.string())]
)


def arrow(rows: Sequence[Row]) -> pa.Table:
    return pa.table([[row[i] for row in rows] for i in range(4)], schema=SCHEMA)


def _relation(rows: Sequence[Row], _: Path) -> Any:
    connection = duckdb.connect(":memory:")
    connection.register("source", arrow(rows))
    return connection.sql("SELECT * FROM source")


def _parts(rows: Sequence[Row]) -> list[Sequence[Row]]:
    middle = len(rows) // 2
    return [rows[:middle], [], rows[middle:]]


def _parquet(rows: Sequence[Row], folder: Path) -> Path:
    pq.write_table(arrow(rows), folder / "t.parquet")
    return folder / "t.parquet"


def _parquet_folder(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / "_SUCCESS").write_text("")
    for i, part in enumerate(_parts(rows)):
        pq.write_table(arrow(part), folder / "parts" / f"{i}.parquet")
    return folder / "parts"


def _field(value: Any) -> str:
    return "" if value is None else f'"{value}"' if isinstance(value, str) else repr(value)


def _csv(rows: Sequence[Row], path: Path) -> Path:
    lines = [",".join(NAMES), *(",".join(map(_field, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def _csv_glob(rows: Sequence[Row], folder: Path) -> discreet._data.Glob:
    for i, part in enumerate(_parts(rows)):
        _csv(part, folder / f"part-{i}.csv")
    return discreet._data.Glob(str(folder / "part-*.csv"))


def _plain(value: Any) -> Any:
    """What JSON has: no NaN, and of infinity at least the sign."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else math.copysign(1e308, value)
    return value


def _objects(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [dict(zip(NAMES, map(_plain, row), strict=True)) for row in rows]


def _json(rows: Sequence[Row], folder: Path) -> Path:
    (folder / "t.json").write_text(json.dumps(_objects(rows)))
    return folder / "t.json"


def _jsonl(rows: Sequence[Row], folder: Path) -> list[Path]:
    paths = []
    for i, part in enumerate(_parts(rows)):
        paths.append(folder / f"part-{i}.jsonl")
        paths[-1].write_text("".join(json.dumps(row) + "\n" for row in _objects(part)))
    return paths


def _sqlite(rows: Sequence[Row], folder: Path) -> str:
    path = folder / f"{id(rows)}.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (text TEXT COLLATE NOCASE, real REAL, whole INTEGER, who TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        connection.commit()
    return f"sqlite:///{path}#t"


NULLABLE = {"text": "string", "real": "Float64", "whole": "Int64", "who": "category"}

TABLES: dict[str, Callable[[Sequence[Row], Path], Any]] = {
    "pandas": lambda rows, _: arrow(rows).to_pandas(),
    "pandas nullable": lambda rows, _: pd.DataFrame(
        {name: pd.array([row[i] for row in rows], dtype=NULLABLE[name]) for i, name in enumerate(NAMES)}
    ),
    "pandas arrow": lambda rows, _: arrow(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda rows, _: pd.DataFrame(list(rows), columns=NAMES, dtype=object),
    "polars": lambda rows, _: pl.DataFrame(arrow(rows)),
    "polars lazy": lambda rows, _: pl.DataFrame(arrow(rows)).lazy(),
    "arrow": lambda rows, _: arrow(rows),
    "duckdb": _relation,
    "sql": lambda rows, _: discreet._data.sql("SELECT * FROM t WHERE true", t=arrow(rows)),
    "parquet": _parquet,
    "parquet folder": _parquet_folder,
    "csv": lambda rows, folder: _csv(rows, folder / "t.csv"),
    "csv glob": _csv_glob,
    "json": _json,
    "jsonl list": _jsonl,
    "sqlite": _sqlite,
}

# The declarations, each with an oracle that codes one record.

LEVELS = Domain(("a", "b", "Ü", "rest"), other="rest", missing="b")
WHOLES = Domain((0, 1, "2", "else"), other="else", missing=1)
BOUNDS, STEPS, FILL = (-1.5, 3.3), 1000, 0.25
EDGES = (-2.0, 0.0, 1.5, 3.0)


def absent(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def text_code(row: Row) -> int:
    return 1 if row[0] is None else {"a": 0, "b": 1, "Ü": 2}.get(row[0], 3)


def cell_code(row: Row) -> int:
    whole = 1 if row[2] is None else row[2] if row[2] in (0, 1, 2) else 3
    return 4 * text_code(row) + whole


def grid_code(row: Row) -> int:
    x = FILL if absent(row[1]) else row[1]
    assert x is not None
    low, high = BOUNDS
    clipped = low if x < low else high if x > high else x
    return math.floor((clipped - low) / (high - low) * STEPS + 0.5)


def count_code(row: Row) -> int:
    return 2 if row[2] is None else min(max(row[2], -2), 5) + 2


def bin_code(row: Row) -> int:
    if absent(row[1]):
        return 4
    assert row[1] is not None
    for i, (low, high) in enumerate(itertools.pairwise(EDGES)):
        if low <= row[1] < high or (row[1] == high == EDGES[-1]):
            return i
    return 3


def kept(rows: Sequence[Row], code: Callable[[Row], int], most: int | None) -> list[int]:
    """Codes of the records that enter: of each person the ``most`` smallest."""
    people = defaultdict(list)
    for i, row in enumerate(rows):
        people[row[3] if most is not None else i].append(code(row))
    return [c for codes in people.values() for c in sorted(codes)[:most]]


def histogram(codes: Sequence[int], size: int) -> tuple[int, ...]:
    return tuple(codes.count(i) for i in range(size))


Statistic = tuple[Callable[..., Any], Callable[[Row], int], Callable[[list[int]], Any]]


def _moments(codes: list[int]) -> tuple[int, int, int]:
    return len(codes), sum(codes), sum(c * c for c in codes)


def _sums(result: discreet._data.ClippedSum) -> tuple[int, int, int]:
    return result.n, result.grid_sum, result.grid_squares


STATISTICS: dict[str, Statistic] = {
    "levels": (
        lambda t, **k: discreet._data.count_levels(t, LEVELS, column="text", **k),
        text_code,
        lambda codes: histogram(codes, 4),
    ),
    "contingency": (
        lambda t, **k: tuple(
            discreet._data.contingency(t, {"text": LEVELS, "whole": WHOLES}, **k).ravel().tolist()
        ),
        cell_code,
        lambda codes: histogram(codes, 16),
    ),
    "clipped sum": (
        lambda t, **k: _sums(
            discreet._data.clipped_sum(t, column="real", bounds=BOUNDS, steps=STEPS, missing=FILL, **k)
        ),
        grid_code,
        _moments,
    ),
    "clipped counts": (
        lambda t, **k: _sums(
            discreet._data.clipped_sum(t, column="whole", bounds=(-2, 5), integers=True, missing=0, **k)
        ),
        count_code,
        _moments,
    ),
    "binned": (
        lambda t, **k: count_bins(t, column="real", edges=EDGES, outside="level", missing="level", **k),
        bin_code,
        lambda codes: histogram(codes, 5),
    ),
}


def expected(name: str, rows: Sequence[Row], most: int | None = None) -> Any:
    _, code, gather = STATISTICS[name]
    return gather(kept(rows, code, most))


def measured(name: str, table: Any, rows: Sequence[Row], most: int | None = None) -> Any:
    call, code, _ = STATISTICS[name]
    if most is None:
        return call(table)
    n = None if most == 1 else len(kept(rows, code, most))
    return call(table, person="who", per_person=most, n=n)
