"""A real local Spark: the same whole numbers as from the engines in this process, to the last bit.

One session for all tests. Without PySpark or Java they are skipped and say so, except where ``CI`` is set.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import random
import shutil
import subprocess
import sys
import textwrap
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import independence
import shorthand
from discreet._data import clipped_sum, contingency, count_levels, count_texts
from discreet._declarations import Domain
from discreet.errors import DataError, InvalidInputError
from evidence.components import need
from shorthand import count_bins, mean_request
from tables import STATISTICS, STEPS, TABLES, Row, expected, measured

pytestmark = [
    pytest.mark.slow,
    # PySpark warns about pandas 3, which it does not need for anything here.
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

SECRET = "S3CRET-value-of-a-record"
SPARK_SCHEMA = "text string, real double, whole bigint, who string"


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    lacks = [
        what
        for what, there in (
            ("PySpark (pip install '.[spark]')", importlib.util.find_spec("pyspark")),
            ("Java 17", shutil.which("java") or os.environ.get("JAVA_HOME")),
        )
        if not there
    ]
    need(f"no real Spark here: {' and '.join(lacks)} not found" if lacks else None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = start()
    yield session
    session.stop()


def start() -> Any:
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.ansi.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("discreet")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def generated(seed: int, size: int) -> list[Row]:
    rng = random.Random(seed)
    reals = [0.0, -0.0, 1.5, 3.0, -2.0, 5e-324, 1e300, None, math.nan, math.inf, -math.inf]
    rows: list[Row] = []
    for _ in range(size):
        real = rng.choice(reals) if rng.random() < 0.4 else rng.uniform(-4, 4)
        rows.append(
            (
                rng.choice(["a", "b", "Ü", "A ", " a", "zz", "nan", "1", None]),
                real,
                rng.choice([None, *range(-4, 8), 2**53 + 1, 2**63 - 1]),
                rng.choice("pqrstuvwxyz"),
            )
        )
    return rows


def frame(spark: Any, rows: Sequence[Row], partitions: int = 3) -> Any:
    return spark.createDataFrame(list(rows), SPARK_SCHEMA).repartition(partitions)


def test_spark_and_every_engine_agree_to_the_last_bit(spark: Any, tmp_path: Path) -> None:
    compared = records = 0
    for seed, size in ((1, 1), (3, 500)):
        rows = generated(seed, size)
        table = frame(spark, rows, partitions=min(size, 7)).cache()
        for most in (None, 2):
            for name in STATISTICS:
                truth = expected(name, rows, most)
                assert measured(name, table, rows, most) == truth, (seed, name, most)
                for engine, build in TABLES.items():
                    assert measured(name, build(rows, tmp_path), rows, most) == truth, (engine, name, most)
                    compared += 1
        records += size
    print(f"engines: {len(TABLES)} and Spark, {records} records, {compared} statistics equal bit for bit")


def test_one_record_moves_a_statistic_by_at_most_its_bound(spark: Any) -> None:
    base = generated(5, 12)
    before = {name: measured(name, frame(spark, base), base) for name in STATISTICS}
    limits = {"clipped sum": (STEPS, STEPS**2), "clipped counts": (7, 49)}
    pairs = 0
    for place, row in enumerate(generated(6, 5)):
        rows = list(base)
        rows[place] = row
        table = frame(spark, rows, 2)
        for name, was in before.items():
            now = measured(name, table, rows)
            if name in limits:
                assert was[0] == now[0]
                assert abs(was[1] - now[1]) <= limits[name][0]
                assert abs(was[2] - now[2]) <= limits[name][1]
            else:
                assert sum(abs(a - b) for a, b in zip(was, now, strict=True)) <= 2
            pairs += 1
    print(f"Spark: {pairs} pairs of neighbours, none further apart than one record")


def test_types_of_spark(spark: Any) -> None:
    import decimal

    rows = [
        (1, 1, 1, 1, 1.5, 1.5, decimal.Decimal("1.50"), True),
        (None,) * 8,
        (2, 2, 2, 2, 2.5, 2.5, None, False),
    ]
    names = "b tinyint, s smallint, i int, l bigint, f float, d double, n decimal(10,2), t boolean"
    table = spark.createDataFrame(rows, names)
    for column in "bsil":
        assert count_levels(table, Domain((1, 2, "none"), missing="none"), column=column) == (1, 1, 1)
        assert clipped_sum(table, column=column, bounds=(0, 9), integers=True, missing=0).total == 3
    for column in "fdn":
        assert count_levels(table, Domain((1.5, 2.5, "none"), missing="none"), column=column)[0] == 1
        assert count_bins(table, column=column, edges=(0, 2, 3), missing="level")[0] == 1
    assert count_levels(table, Domain((True, False), missing=False), column="t") == (1, 2)
    assert contingency(table, {"t": Domain((1, 0), missing=0), "i": Domain((1, 2), missing=2)}).tolist() == [
        [1, 0],
        [0, 2],
    ]


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE_CI_AI", "UNICODE_RTRIM"])
def test_spark_compares_text_as_bytes_whatever_the_collation(spark: Any, collation: str) -> None:
    """Levels that were found carried the spelling of one record, with a probability near 1 instead of δ."""
    plain = spark.createDataFrame(
        [("e", 1.0)] * 90 + [("E", 1.0), ("é", 1.0), ("e ", 1.0)], "v string, x double"
    )
    table = plain.selectExpr(f"collate(v, '{collation}') AS v", f"collate(v, '{collation}') AS who", "x")
    assert count_texts(table, "v") == {"e": 90, "E": 1, "é": 1, "e ": 1}
    levels = ("e", "E", "é", "É", "other")
    domain = Domain(levels, other="other")
    assert count_levels(table, domain, column="v") == (90, 1, 1, 0, 1)
    assert count_levels(table, domain, column="v", person="who", per_person=1) == (1, 1, 1, 0, 1)
    by = mean_request(column="x", bounds=(0, 2), by="v", levels=domain, epsilon=1)
    assert [own[0] for own in by.read(table)[0].values()] == [90, 1, 1, 0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = shorthand.shares(table, column="v", levels="discover", epsilon=1, delta="1e-9", hidden=True)
    assert [row.name for row in found.rows()] == ["e"]


def test_records_of_spark_are_independent(spark: Any, tmp_path: Path) -> None:
    """As of every other reader: see :mod:`independence`."""
    from pyspark.sql import functions

    collations = ("UTF8_LCASE", "UNICODE_CI_AI") if hasattr(functions, "collate") else ()
    kinds: dict[str, Any] = {name: f"string collate {name}" for name in collations}
    kinds |= {"string": "string", "whole": "bigint", "real": "double", "truth": "boolean", "date": "date"}
    values: dict[str, Any] = dict.fromkeys((*collations, "string"), independence.TEXTS)
    values |= {"whole": independence.WHOLES, "real": independence.REALS, "truth": independence.TRUTHS}
    values["date"] = independence.DATES

    def made(folder: Path, columns: Any, chosen: Any) -> Any:
        types = ", ".join(f"{name} {kinds[chosen[name]]}" for name in columns)
        return spark.createDataFrame(list(zip(*columns.values(), strict=True)), types)

    readers = {"Spark": independence.Reader(values, made)}
    found, wrong = independence.run("Spark", tmp_path, 24, readers)
    assert not wrong
    assert found["answered"] > found["tables"] / 4


class Logged(logging.Handler):
    """What PySpark logs about the errors that it raises."""

    def __init__(self) -> None:
        from pyspark.logger import PySparkLogger

        super().__init__()
        self.messages: list[str] = []
        PySparkLogger.getLogger("SQLQueryContextLogger").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def test_wrong_types_names_and_records_without_quoting(spark: Any, capfd: pytest.CaptureFixture[str]) -> None:
    import datetime

    nested = spark.createDataFrame(
        [([1], {SECRET: 1}, datetime.date(2024, 1, 1), b"x", SECRET)],
        "a array<int>, m map<string,int>, d date, y binary, s string",
    )
    for column in "amdy":
        for call in (
            lambda column=column: count_levels(nested, Domain((0, 1), other=0), column=column),
            lambda column=column: clipped_sum(nested, column=column, bounds=(0, 1)),
        ):
            with pytest.raises(DataError, match=r"type \w+ cannot be"):
                call()
    with pytest.raises(DataError, match="type String cannot be summed"):
        clipped_sum(nested, column="s", bounds=(0, 1))
    with pytest.raises(DataError, match="1 of 1 records hold a value outside") as caught:
        count_levels(nested, Domain(("a", "b")), column="s")
    assert SECRET not in str(caught.value)
    failing = nested.selectExpr("cast(s as int) as v")  # an error under ANSI, which quotes the record
    logged = Logged()  # PySpark writes a log of its own
    with pytest.raises(DataError, match="nothing was counted") as caught:
        count_levels(failing, Domain((0, 1)), column="v")
    assert SECRET not in str(caught.value)
    assert not logged.messages
    with pytest.raises(Exception, match=SECRET):
        failing.collect()
    assert SECRET in "".join(logged.messages)
    with pytest.raises(InvalidInputError, match=r"did you mean 's'\?"):
        count_levels(nested, Domain(("a", "b")), column="S")
    dotted = spark.createDataFrame([("a",)], "`x.y` string")
    assert count_levels(dotted, Domain(("a", "b")), column="x.y") == (1, 0)


def test_empty_partitions_and_no_rows(spark: Any) -> None:
    rows = generated(7, 3)
    table = frame(spark, rows, partitions=8)
    assert table.rdd.getNumPartitions() == 8
    assert measured("levels", table, rows) == expected("levels", rows)
    for empty in (table.filter("false"), frame(spark, [], 1)):
        for name in STATISTICS:
            with pytest.raises(DataError, match="empty"):
                measured(name, empty, [])


def test_files_that_spark_wrote(spark: Any, tmp_path: Path) -> None:
    rows = generated(8, 60)
    frame(spark, rows, 4).filter("who != 'p'").write.parquet(str(tmp_path / "out"))
    kept = [row for row in rows if row[3] != "p"]
    for name in STATISTICS:
        assert measured(name, tmp_path / "out", kept, 1) == expected(name, kept, 1)


def test_only_aggregates_leave_spark(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand records, and no more rows fetched than there are codes."""
    from pyspark.sql.classic.dataframe import DataFrame

    fetched: list[int] = []
    original = DataFrame.collect

    def collect(self: Any) -> Any:
        rows = original(self)
        fetched.append(len(rows))
        return rows

    for name in ("toPandas", "toArrow", "toLocalIterator", "take", "head"):
        monkeypatch.setattr(DataFrame, name, None)
    monkeypatch.setattr(DataFrame, "collect", collect)
    table = spark.range(10_000).selectExpr(
        "id % 3 as v", "id * 1.0D / 7 as x", "concat('p', id % 4000) as who"
    )
    levels = Domain((0, 1, "rest"), other="rest")
    assert sum(count_levels(table, levels, column="v")) == 10_000
    assert sum(count_levels(table, levels, column="v", person="who", per_person=1)) == 4000
    assert clipped_sum(table, column="x", bounds=(0, 1000)).n == 10_000
    assert count_bins(table, column="x", edges=(0, 5, 1e9)) == (35, 9965)
    assert contingency(table, {"v": levels}).sum() == 10_000
    print(f"rows that left Spark, per statistic of 10000 records: {fetched}")
    assert max(fetched) <= 3


def test_release_of_a_spark_table(spark: Any) -> None:
    table = spark.range(1000).selectExpr("if(id % 4 = 0, 'yes', 'no') as v")
    result = shorthand.shares(table, column="v", levels=("no", "yes"), epsilon=50, n=1000)
    assert abs(result.counts[1] - 250) <= 5


DYING = """
    import os, signal, sys, threading, time, warnings
    warnings.simplefilter("ignore")
    sys.path.insert(0, {tests!r})
    from evidence.test_engines import start
    from discreet._declarations import Domain
    from discreet.errors import DiscreetError
    from discreet._data import count_levels
    session = start()
    java = session.sparkContext._gateway.proc.pid
    table = session.range(4_000_000_000, numPartitions=64).selectExpr("cast(id % 2 as string) as v")
    threading.Timer(2, os.kill, (java, signal.SIGKILL)).start()
    begin = time.monotonic()
    try:
        print("COUNTED", count_levels(table, Domain(("0", "1")), column="v"))
    except DiscreetError as error:
        print("REFUSED", error)
    try:
        print("COUNTED", count_levels(table, Domain(("0", "1")), column="v"))
    except DiscreetError as error:
        print("REFUSED", error)
    sys.stdout.flush()
    os._exit(0)
"""


def test_a_session_that_dies_in_the_middle_counts_nothing(spark: Any) -> None:
    """The Java process is killed two seconds into a count; then the dead session is asked again."""
    begin = time.monotonic()
    program = textwrap.dedent(DYING).format(tests=str(Path(__file__).resolve().parent.parent))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    lines = [line for line in run.stdout.splitlines() if line.startswith(("COUNTED", "REFUSED"))]
    assert len(lines) == 2, run.stderr[-2000:]
    for line in lines:
        assert "nothing was counted" in line
        assert line.startswith("REFUSED")
    print(f"a Spark that was killed while counting: {lines[0]!r}, {time.monotonic() - begin:.1f} s in all")
