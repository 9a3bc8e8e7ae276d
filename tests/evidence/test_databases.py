"""A real local PostgreSQL: the same whole numbers as from the engines in this process, in one pass.

Without a server or its driver these are skipped and say so, except where ``CI`` is set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa

import discreet
import independence
from discreet._data import clipped_sum, contingency, count_levels, count_texts
from discreet._declarations import Domain
from discreet.errors import DataError, InvalidInputError
from discreet.regression._newton.records import read
from evidence import postgres
from evidence.components import need
from evidence.test_engines import generated
from shorthand import count_bins, mean_request, regress_request
from tables import STATISTICS, TABLES, Row, expected, measured

pytestmark = pytest.mark.slow
SECRET = "S3CRET-value-of-a-record"
POSTGRES = {
    "text": "text", "C": 'text COLLATE "C"', "nocase": "text COLLATE nocase", "char": "char(400)",
    "varchar": "varchar(400)", "name": "citizen", "enum": "level", "whole": "bigint", "small": "smallint",
    "real": "double precision", "single": "real", "numeric": "numeric", "truth": "boolean", "date": "date",
    "bytes": "bytea", "domain": "amount",
}  # fmt: skip
TEXTS = tuple(one for one in independence.TEXTS)
ENUM = [one for one in independence.some(TEXTS) if len(one.encode()) < 64]
NUMERICS = (
    *independence.DECIMALS, *map(Decimal, ("NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400")),
    *map(Decimal, ("0.1", "1.0", "9007199254740993", "2e-324", "1.7976931348623157e308", "1.8e308")),
)  # fmt: skip
VALUES: dict[str, Sequence[Any]] = {
    **{kind: TEXTS for kind, type_ in POSTGRES.items() if "text" in type_ or "char" in type_},
    "name": [None, *(one for one in independence.some(TEXTS) if len(one.encode()) < 64)],
    "enum": [None, *ENUM], "whole": independence.WHOLES, "small": (0, 1, 2, -1, 127, None),
    "real": independence.REALS, "single": (0.0, 0.1, 1.0, 2.0, 1e-45, 3e38, math.nan, math.inf, None),
    "numeric": NUMERICS, "truth": independence.TRUTHS, "date": independence.DATES,
    "bytes": (b"a", b"\xff", None), "domain": independence.REALS,
}  # fmt: skip


@pytest.fixture(scope="module")
def engine() -> Iterator[sa.Engine]:
    need(postgres.missing())
    with postgres.server() as server:
        engine = sa.create_engine(
            server.url.replace("postgresql:", "postgresql+psycopg:"), poolclass=sa.NullPool
        )
        levels = ", ".join("'" + one.replace("'", "''") + "'" for one in ENUM)
        with engine.begin() as connection:
            for statement in (
                "CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level1', deterministic = false)",
                f"CREATE TYPE level AS ENUM ({levels})",
                "CREATE DOMAIN amount AS double precision",
                "CREATE DOMAIN citizen AS name",
            ):
                connection.exec_driver_sql(statement)
        yield engine


def filled(engine: sa.Engine, declared: str, rows: Sequence[Sequence[Any]]) -> tuple[sa.Engine, str]:
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql(f"CREATE TABLE t ({declared})")
        marks = ", ".join(["%s"] * len(rows[0])) if rows else ""
        if rows:
            connection.exec_driver_sql(f"INSERT INTO t VALUES ({marks})", [tuple(row) for row in rows])
    return engine, "t"


def table(engine: sa.Engine, rows: Sequence[Row]) -> tuple[sa.Engine, str]:
    return filled(engine, "text text COLLATE nocase, real double precision, whole bigint, who text", rows)


def test_postgresql_and_every_engine_agree_to_the_last_bit(engine: sa.Engine, tmp_path: Path) -> None:
    compared = 0
    for seed, size in ((1, 1), (3, 500), (4, 0)):
        rows = generated(seed, size)
        there = table(engine, rows)
        for most in (None, 2) if size else ():
            for name in STATISTICS:
                truth = expected(name, rows, most)
                assert measured(name, there, rows, most) == truth, (seed, name, most)
                assert measured(name, TABLES["duckdb"](rows, tmp_path), rows, most) == truth
                compared += 1
        if not size:
            for name in STATISTICS:
                with pytest.raises(DataError, match="empty"):
                    measured(name, there, rows)
    print(f"PostgreSQL and DuckDB: {compared} statistics equal bit for bit")


def test_records_are_independent_in_postgresql(engine: sa.Engine, tmp_path: Path) -> None:
    def make(folder: Path, columns: independence.Columns, kinds: independence.Kinds) -> Any:
        declared = ", ".join(f'"{name}" {POSTGRES[kinds[name]]}' for name in columns)
        return filled(engine, declared, list(zip(*columns.values(), strict=True)))

    readers = {"PostgreSQL": independence.Reader(VALUES, make)}
    found, wrong = independence.run("postgresql", tmp_path, 400, readers)
    print(f"PostgreSQL: {dict(found)}")
    assert not wrong
    assert found["answered"] > found["tables"] / 4


def test_one_pass_and_only_aggregates(engine: sa.Engine) -> None:
    """Of ten thousand records no more rows leave than there are codes, by one statement a statistic."""
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS t")
        connection.exec_driver_sql(
            "CREATE TABLE t AS SELECT mod(i, 3)::text AS v, i / 7.0::float8 AS x, 'p' || mod(i, 4000) AS who "
            "FROM generate_series(0, 9999) i"
        )
    seen: list[int] = []

    @sa.event.listens_for(engine, "after_cursor_execute")
    def count(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if "q." in statement and "pg_typeof" not in statement:
            seen.append(cursor.rowcount)

    levels, there = Domain(("0", "1", "rest"), other="rest"), (engine, "t")
    assert sum(count_levels(there, levels, column="v")) == 10_000
    assert sum(count_levels(there, levels, column="v", person="who", per_person=1)) == 4000
    assert clipped_sum(there, column="x", bounds=(0, 1000)).n == 10_000
    assert count_bins(there, column="x", edges=(0, 5, 1e9)) == (35, 9965)
    assert contingency(there, {"v": levels}).sum() == 10_000
    sa.event.remove(engine, "after_cursor_execute", count)
    print(f"rows that left PostgreSQL, per statistic of 10000 records: {seen}")
    assert len(seen) == 5
    assert max(seen) <= 3


def test_answers_of_a_study(engine: sa.Engine, tmp_path: Path) -> None:
    rows = [("yes" if i % 4 else "no", i % 10, f"p{i // 2}") for i in range(400)]
    there = filled(engine, "a char(9), b numeric(5, 2), who citizen", rows)
    here = duckdb_of(rows)
    for asked in (mean_request(column="b", by="a", levels=("no", "yes"), bounds=(0, 10), epsilon=1),):
        assert asked.read(there) == asked.read(here)
    fit = regress_request(
        "b ~ a", bounds={"b": (0, 10)}, levels={"a": ("no", "yes")}, epsilon=1, delta="1e-6"
    )
    sums = [independence_sums(fit.regression, data) for data in (there, here)]
    assert sums[0] == sums[1]
    address = f"{engine.url.render_as_string(hide_password=False)}?application_name={SECRET}#t"
    schema = discreet.Schema({"a": ["no", "yes"]}, n="public", person="who", per_person=1)
    study = discreet.Study(address, schema, epsilon=50, ledger=tmp_path / "ledger.db", dataset="t")
    answer = study.proportions("a", epsilon=50)
    assert answer.n == 200
    answer.save(tmp_path / "answer.json")
    for path in ("answer.json", "ledger.db"):
        assert SECRET.encode() not in (tmp_path / path).read_bytes()


def duckdb_of(rows: Sequence[Sequence[Any]]) -> Any:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (a VARCHAR, b DECIMAL(5, 2), who VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    return connection.table("t")


def independence_sums(asked: Any, data: Any) -> Any:
    with read(asked.design, data) as records:
        return records.n, records.sums(
            asked.model, asked.model.link(asked.design, asked.model.start(asked.design)), True
        )


def test_types_that_are_not_counted_and_records_that_stop_a_query(engine: sa.Engine) -> None:
    declared = "a text, d date, j json, l text[], m money"
    there = filled(engine, declared, [(SECRET, "2020-01-01", None, None, None)])
    for column, kind in (("d", "date"), ("j", "json"), ("l", "_text"), ("m", "money")):
        with pytest.raises(DataError, match=f"column of type {kind} cannot"):
            count_levels(there, Domain(("a", "b")), column=column)
    with pytest.raises(DataError, match="details withheld") as caught:
        count_levels((engine, "SELECT a::int AS a FROM t"), Domain((0, 1)), column="a")
    assert SECRET not in str(caught.value)
    kinds = {"u": "UndefinedTable", "SELECT x FROM t": "UndefinedColumn", "SELECT a FROM": "SyntaxError"}
    for query, kind in {**kinds, "SELECT a, a FROM t": "unique"}.items():
        with pytest.raises(InvalidInputError, match=kind):
            count_levels((engine, query), Domain((0, 1)), column="a")
    with pytest.raises(InvalidInputError, match="cannot be opened"):
        count_levels(
            (engine, "WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x"), Domain((0, 1)), column="a"
        )
    assert count_texts(there, "a") == {SECRET: 1}
