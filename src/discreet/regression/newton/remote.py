"""The sums of a round as one SQL query over codes: 64-bit integers, exact totals, equal to those in process.

Tables over codes and over the grid of the predictor are joined by position; what is a straight line in the
codes is written as one. DuckDB and Spark divide whole numbers towards zero; what must be rounded down is made
positive first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet.regression.newton.design import Design
from discreet.regression.newton.models import Link, ResponseModel
from discreet.regression.newton.sums import RoundSums, undeclared

_MOST_TOTAL = "DECIMAL(28, 0)"


def sums_by_sql(
    model: ResponseModel, design: Design, link: Link, native: Any, dialect: str, curvature: bool, n: int
) -> RoundSums:
    """The sums by one query over a relation or DataFrame of n records with the codes k0, k1, …."""
    tables = _Tables(dialect, native, n)
    query = query_of(model, design, link, tables, curvature)
    if dialect == "duckdb":
        row = native.query("codes", query).fetchall()[0]
    else:
        row = tuple(native.sparkSession.sql(query, codes=native, **tables.frames).collect()[0])
    whole = [int(value or 0) for value in row]
    width = len(design.variables) + 1
    for variable, (unknown, missing) in zip(
        (*design.variables, design.response),
        zip(whole[:width], whole[width : 2 * width], strict=True),
        strict=True,
    ):
        if unknown or (missing and not variable.excluded):
            raise undeclared(variable.name, unknown > 0)
    rest = whole[2 * width + 1 :]
    d = design.d * model.outputs
    return RoundSums(tuple(rest[1 : d + 1]), tuple(rest[d + 1 :]), rest[0])


class _Tables:
    """Lookup tables, by name, in the way of each engine."""

    def __init__(self, dialect: str, native: Any, n: int) -> None:
        self.dialect, self.native, self.n = dialect, native, n
        self.frames: dict[str, Any] = {}

    def lookup(self, name: str, columns: Sequence[Sequence[int]]) -> str:
        """A table with its position ``at`` and columns t0, t1, … as a source in FROM."""
        if self.dialect == "duckdb":
            entries = ", ".join(
                f"unnest([{', '.join(map(str, column))}]::BIGINT[]) AS t{i}"
                for i, column in enumerate(columns)
            )
            return f"(SELECT unnest(range({len(columns[0])})) AS at, {entries}) AS {name}"
        session = self.native.sparkSession
        fields = ", ".join(f"t{i} LONG" for i in range(len(columns)))
        rows = [(at, *map(int, entries)) for at, entries in enumerate(zip(*columns, strict=True))]
        self.frames[name] = session.createDataFrame(rows, f"at LONG, {fields}")
        return f"{{{name}}} AS {name}"

    def divide(self, value: str, by: int | str) -> str:
        return f"({value} // {by})" if self.dialect == "duckdb" else f"({value} div {by})"

    def total(self, value: str) -> str:
        """The exact sum of 64-bit integers.

        Spark's sum of them wraps or fails where it is too large, and one of decimals takes ten times as long:
        the lower 32 bits and the rest are added up by themselves, and neither can overflow below 2³¹ records.
        """
        if self.dialect == "duckdb":
            return f"sum({value})"
        if self.n >> 31:
            return f"sum(CAST({value} AS {_MOST_TOTAL}))"
        low, high = f"sum({value} & {2**32 - 1})", f"sum(shiftright({value}, 32))"
        return f"CAST({high} AS {_MOST_TOTAL}) * {2**32} + CAST({low} AS {_MOST_TOTAL})"

    @property
    def codes(self) -> str:
        return "codes" if self.dialect == "duckdb" else "{codes}"

    @property
    def hint(self) -> str:
        return "" if self.dialect == "duckdb" else "/*+ BROADCAST({}) */ "


def query_of(model: ResponseModel, design: Design, link: Link, tables: _Tables, curvature: bool) -> str:
    """One SELECT with a single row: bad records by column, whether any record entered, and the sums."""
    variables = (*design.variables, design.response)
    bad = [
        f"count(CASE WHEN k{i} = {v.coder.size} OR k{i} > {v.coder.size + 1} THEN 1 END)"
        for i, v in enumerate(variables)
    ]
    bad += [f"count(CASE WHEN k{i} = {v.coder.size + 1} THEN 1 END)" for i, v in enumerate(variables)]
    valid = " AND ".join(f"k{i} < {v.coder.size}" for i, v in enumerate(variables))
    response = f"k{len(variables) - 1}"
    joins: list[str] = []
    hinted: list[str] = []

    def joined(name: str, source: str, key: str) -> None:
        joins.append(f"JOIN {source} ON {name}.at = {key}")
        hinted.append(name)

    entries = []
    by_variable: dict[int, list[tuple[int, ...]]] = {}
    for j, column in enumerate(design.columns):
        text = str(design.unit)
        for index, (v, table) in enumerate(column.factors):
            line = _line(table)
            if line is None:
                known = by_variable.setdefault(v, [])
                if table not in known:
                    known.append(table)
                piece = f"f{v}.t{known.index(table)}"
            else:
                piece = f"({line[0]} + {line[1]} * k{v})"
            text = piece if index == 0 else tables.divide(f"({text} * {piece})", design.unit)
        entries.append(f"{text} AS x{j}")
    for v, known in by_variable.items():
        joined(f"f{v}", tables.lookup(f"f{v}", known), f"k{v}")
    xs = [f"x{j}" for j in range(design.d)]
    hint = tables.hint.format(", ".join(hinted)) if hinted else ""
    rows = f"SELECT {hint}{', '.join(entries)}, {response} AS y FROM {tables.codes} {' '.join(joins)}"
    rows = f"{rows} WHERE {valid}"
    # Rows that are too long: s > √N from a correctly rounded square root, as in process.
    squares = " + ".join(f"{x} * {x}" for x in xs)
    rows = f"SELECT *, {squares} AS squares FROM ({rows}) AS a"
    length = "CAST(floor(sqrt(CAST(squares AS DOUBLE))) AS BIGINT) + 1"
    rows = f"SELECT {', '.join(xs)}, y, squares, {length} AS size FROM ({rows}) AS b"
    quotients = [tables.divide(f"({x} * {design.norm})", "size") for x in xs]
    too_long = f"squares > {design.norm**2}"
    short = [f"CASE WHEN {too_long} THEN {q} ELSE {x} END AS {x}" for x, q in zip(xs, quotients, strict=True)]
    rows = f"SELECT {', '.join(short)}, y FROM ({rows}) AS c"
    half, reach = 1 << (link.shift - 1), link.reach
    eta = []
    for k in range(model.outputs):
        point = link.point[k * design.d : (k + 1) * design.d]
        dot = " + ".join(f"{x} * {w}" for x, w in zip(xs, point, strict=True))
        limit = (reach + 1) << link.shift
        inside = f"least(greatest({dot}, {-limit}), {limit}) + {limit + half}"
        nearest = f"{tables.divide(f'({inside})', 1 << link.shift)} - {reach + 1}"
        eta.append(f"least(greatest({nearest}, {-reach}), {reach}) AS e{k}")
    rows = f"SELECT *, {', '.join(eta)} FROM ({rows}) AS d"
    made = model.sql_columns(link, tables.divide)
    looked = ""
    if link.tables:
        pieces = []
        for k in range(model.outputs):
            columns = [np.asarray(t, dtype=np.int64).tolist() for t in link.tables]
            if k == 0:
                source = tables.lookup("link0", columns)
            elif tables.dialect == "spark":
                source = f"{{link0}} AS link{k}"
            else:
                source = tables.lookup(f"link{k}", columns)
            pieces.append(f"JOIN {source} ON link{k}.at = e{k} + {reach}")
        looked = " ".join(pieces)
    hint = tables.hint.format(", ".join(f"link{k}" for k in range(model.outputs))) if link.tables else ""
    powers = [f"link{k}.t{i} AS u{k}_{i}" for k in range(model.outputs) for i in range(len(link.tables))]
    kept = [*xs, "y", *(f"e{k}" for k in range(model.outputs)), *powers]
    rows = f"SELECT {hint}{', '.join(kept)} FROM ({rows}) AS g {looked}"
    for step in made.steps:
        rows = f"SELECT *, {step} FROM ({rows}) AS h"
    total = ["count(*)", tables.total(f"({made.square})") if model.squares else "0"]
    size = design.d * model.outputs
    total += [tables.total(f"({made.residuals[k]} * {x})") for k in range(model.outputs) for x in xs]
    if curvature:
        for a in range(size):
            for b in range(a, size):
                (k, i), (other, j) = divmod(a, design.d), divmod(b, design.d)
                total.append(tables.total(f"({made.weight(k, other)} * x{i} * x{j})"))
    sums = ", ".join(f"{text} AS s{i}" for i, text in enumerate(total))
    bads = ", ".join(f"{text} AS b{i}" for i, text in enumerate(bad))
    checks, totals = f"SELECT {bads} FROM {tables.codes}", f"SELECT {sums} FROM ({rows}) AS i"
    return f"SELECT * FROM ({checks}) AS p CROSS JOIN ({totals}) AS q"


def _line(table: tuple[int, ...]) -> tuple[int, int] | None:
    """a, b with entry = a + b·code everywhere, if there are."""
    slope = table[1] - table[0]
    same = all(entry == table[0] + slope * code for code, entry in enumerate(table))
    return (table[0], slope) if same else None
