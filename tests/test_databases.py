"""Tables of a database: SQLite here; PostgreSQL in the slow tests, by the same code."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd
import pytest
import sqlalchemy as sa

import discreet
import independence
from discreet._data import (
    clipped_sum,
    contingency,
    count_levels,
    count_texts,
    database,
    engines,
)
from discreet._data.codebook import misfits, schema_template
from discreet._data.values import words
from discreet._declarations import Domain
from discreet.errors import DataError, FileError, InvalidInputError
from discreet.study.study import read_study
from shorthand import count_bins

SECRET = "S3CRET"
ROWS = [("a", 0.5, 1), ("A", 2.0, 2), ("é", None, 3), ("l7", math.inf, 4), ("a", -0.0, 1), (None, 3.0, 2)]


def stored(path: Path, rows: Sequence[Sequence[Any]] = ROWS, declared: str = "a TEXT, b REAL, who") -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE t ({declared})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
        connection.commit()
    return f"sqlite:///{path}#t"


NUMBERS = ("sum", "bins", "bins of quantiles", "mean", "means by group", "regression", "weighted mean")


@pytest.mark.parametrize("question", [*independence.ONE, *independence.TWO])
def test_every_question_is_answered_as_from_a_table_in_memory(question: str, tmp_path: Path) -> None:
    texts, numbers = [row[0] for row in ROWS], [0.5, 1.0, 2.0, None, math.inf, 1.5]
    columns: dict[str, list[Any]] = {"a": texts, "b": [row[1] for row in ROWS]}
    if question in NUMBERS:
        columns = {"a": numbers, "b": [0.5, 1.0, 0.0, 2.0, 1.0, None]}
    elif question in ("survival", "weighted shares"):
        columns = {"a": numbers, "b": texts}
    elif question == "sum of whole numbers":
        columns["a"] = [0.0, 1.0, 2.0, None, math.inf, 5.0]
    there = stored(tmp_path / "t.db", list(zip(*columns.values(), strict=True)), "a, b")
    ask = {**independence.ONE, **independence.TWO}[question]
    more = {"column": "a"} if question in independence.ONE else {}
    here = pd.DataFrame(columns)
    assert ask(there, False, **more) == ask(here, False, **more)


def test_a_table_a_query_and_a_pair_are_the_same_data(tmp_path: Path) -> None:
    address = stored(tmp_path / "t.db")
    whole = count_levels(address, Domain(("a", "rest"), other="rest", missing="rest"), column="a")
    assert whole == (2, 4)
    engine, name = (
        sa.create_engine(address.partition("#")[0], poolclass=sa.NullPool),
        sa.table("t", sa.column("a")),
    )
    query = "SELECT a AS ':x', 5 % 3 FROM t WHERE b IS NOT 7; "
    declared = sa.Table("t", sa.MetaData(), sa.Column("a", sa.Text))
    for data, column in (
        (address.replace("#t", f"#{query}"), ":x"),
        ((engine, "t"), "a"),
        ((engine, "main.t"), "a"),
        ((engine, query), ":x"),
        ((engine, declared), "a"),
        ((engine, sa.select(name)), "a"),
    ):
        assert count_levels(data, Domain(("a", "rest"), other="rest", missing="rest"), column=column) == whole


def test_a_study_of_a_database(tmp_path: Path) -> None:
    rows = [("yes" if i % 4 else "no", i % 10, f"p{i // 2}") for i in range(400)]
    address = stored(tmp_path / "t.db", rows)
    schema = discreet.Schema({"a": ["no", "yes"], "b": discreet.Number(0, 10)}, n=400)
    study = discreet.Study(
        address, schema, epsilon=90, delta="1e-5", ledger=tmp_path / "ledger.db", dataset="t"
    )
    assert abs(study.proportions("a", epsilon=20).mean()[1] - 0.75) < 0.01
    assert abs(study.mean("b", epsilon=30).mean()[0] - 4.5) < 0.1
    fit = study.regress("b ~ a", epsilon=40, delta="1e-6")
    assert abs(fit.mean()[1] - 2 / 3) < 0.5
    people = discreet.Schema({"a": ["no", "yes"]}, n="public", person="who", per_person=1)
    engine = sa.create_engine(f"sqlite:///{tmp_path / 't.db'}", poolclass=sa.NullPool)
    by_person = discreet.Study(
        (engine, "t"), people, epsilon=50, ledger=tmp_path / "ledger.db", dataset="people"
    )
    assert by_person.proportions("a", epsilon=50).n == 200
    (tmp_path / "study.toml").write_text(
        '[study]\ndata = "sqlite:///t.db#t"\nepsilon = 9\n[schema]\nn = 400\n[schema.columns]\n'
        'a = ["no", "yes"]\n[[question]]\nid = "a"\nkind = "proportions"\ncolumns = ["a"]\nepsilon = 9\n'
    )
    declared = read_study(tmp_path / "study.toml")
    assert discreet.run_study(tmp_path / "study.toml").answers["a"].n == 400
    assert declared.arguments["label"] == "sqlite:///t.db#t"
    with pytest.raises(InvalidInputError, match="dataset is missing"):
        discreet.Study(address, schema, epsilon=1, ledger=tmp_path / "ledger.db")


def test_only_aggregates_leave_in_one_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(f"l{i % 3}", float(i), i // 4) for i in range(4000)]
    address = stored(tmp_path / "t.db", rows)
    fetched: list[int] = []
    original = database.Frame.rows

    def counted(self: Any) -> Any:
        found = original(self)
        fetched.append(len(found))
        return found

    monkeypatch.setattr(database.Frame, "rows", counted)
    monkeypatch.setattr(database.Frame, "batches", None)
    levels = Domain(("l0", "l1", "rest"), other="rest")
    assert sum(count_levels(address, levels, column="a")) == 4000
    assert sum(count_levels(address, levels, column="a", person="who", per_person=1)) == 1000
    assert clipped_sum(address, column="b", bounds=(0, 1000)).n == 4000
    assert count_bins(address, column="b", edges=(0, 5, 1e9)) == (5, 3995)
    assert contingency(address, {"a": levels}).sum() == 4000
    assert fetched == [3, 3, 1, 2, 3]


def test_a_lookup_in_a_database_returns_as_many_rows_as_it_got(tmp_path: Path) -> None:
    """Also by a collation in which two levels are one."""
    address = stored(
        tmp_path / "t.db", [("a", 1, 1), ("A", 1, 1), ("b", 1, 1)], "a TEXT COLLATE NOCASE, b, who"
    )
    frame: Any = engines.as_frame(address)
    value = words(frame).col("a")
    found = frame.with_places("place", value, {"a": 0, "A": 1}, False)
    assert sorted(found.select("a", "place").rows()) == [("A", 1), ("a", 0), ("b", None)]
    whole = stored(tmp_path / "u.db", [(1,), (2,)], "a INTEGER")
    numbers: Any = engines.as_frame(whole)
    twice = numbers.with_places("place", words(numbers).col("a"), {"1": 4, "01": 3}, True)
    assert sorted(twice.select("a", "place").rows()) == [(1, 3), (2, None)]
    levels = ("a", "A", *(f"l{i}" for i in range(20)), "b")
    assert count_levels(address, Domain(levels), column="a") == (1, 1, *[0] * 20, 1)


def test_keys_of_people_keep_their_type(tmp_path: Path) -> None:
    address = stored(tmp_path / "t.db", [("a", 1), ("a", "1"), ("a", 1)], "a, who")
    assert count_levels(address, Domain(("a", "b")), column="a", person="who", per_person=1) == (2, 0)
    without = stored(tmp_path / "u.db", [("a", 1.5), ("a", None)], "a, who")
    with pytest.raises(DataError, match="2 of 2 records have no person key"):
        count_levels(without, Domain(("a", "b")), column="a", person="who", per_person=1)


def test_a_file_is_opened_for_reading(tmp_path: Path) -> None:
    frame: Any = engines.as_frame(stored(tmp_path / "t.db"))
    with frame.engine.connect() as connection, pytest.raises(sa.exc.OperationalError, match="readonly"):
        connection.exec_driver_sql("DELETE FROM t")


def test_levels_that_no_record_can_have(tmp_path: Path) -> None:
    address = stored(tmp_path / "t.db", [("a",), ("b\0",)], "a TEXT")
    few = ("a", "\ud800", "b\0", 'x"\\')
    for levels in (few, (*few, *(f"l{i}" for i in range(20)))):
        assert count_levels(address, Domain(levels), column="a")[:4] == (1, 0, 1, 0)


def test_text_that_is_not_utf8_stops_nothing(tmp_path: Path) -> None:
    address = stored(tmp_path / "t.db", [("a",), (b"\xff",), (b"a",), (7,)], "a")
    assert independence.discovered(address, False, column="a") == {"a": 2, "\\xff": 1, "7": 1}


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_text_is_the_same_however_a_file_stores_it(encoding: str, tmp_path: Path) -> None:
    """Of UTF-16 every value that was found had a NUL behind each letter."""
    texts = ("a", "A", "é", 'x"y', "x\\y", "x\ny", "\u2028", "\U0001f600")
    path = tmp_path / "t.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA encoding = '{encoding}'")
        connection.execute("CREATE TABLE t (a TEXT COLLATE NOCASE)")
        connection.executemany("INSERT INTO t VALUES (?)", [(text,) for text in texts])
        connection.commit()
    address = f"sqlite:///{path}#t"
    assert count_texts(address, "a") == dict.fromkeys(texts, 1)
    many = (*texts, *(f"l{i}" for i in range(9)))
    assert count_levels(address, Domain(many), column="a") == (*[1] * len(texts), *[0] * 9)


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ("sqlite:///{0}/none.db#t", FileError, "there is no such file"),
        ("sqlite:///{0}/t.db", InvalidInputError, "no table"),
        ("sqlite:///{0}/t.db#u", InvalidInputError, "OperationalError; details withheld"),
        ("sqlite:///{0}/t.db#SELECT S3CRET FROM t", InvalidInputError, "details withheld"),
        ("postgresql://u:S3CRET@127.0.0.1:1/d?sslpassword=S3CRET#t", InvalidInputError, "cannot be opened"),
        ("mysql://u:S3CRET@127.0.0.1/d#t", InvalidInputError, "'mysql' is not a supported database"),
        ("s3://S3CRET/t.parquet#t", InvalidInputError, "'s3' is not a supported database"),
        ("postgresql://u:S3CRET@h:port/d#t", InvalidInputError, "not the address"),
    ],
)
def test_errors_show_no_password(data: str, error: type[Exception], said: str, tmp_path: Path) -> None:
    stored(tmp_path / "t.db")
    with pytest.raises(error, match=said) as caught:
        count_levels(data.format(tmp_path), Domain(("a", "b")), column="a")
    assert SECRET not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert not (tmp_path / "none.db").exists()


def test_a_record_that_stops_a_query_is_not_quoted(tmp_path: Path) -> None:
    address = stored(tmp_path / "t.db", [(SECRET,)], "a").replace("#t", "#SELECT json(a) AS a FROM t")
    with pytest.raises(DataError, match="OperationalError; details withheld") as caught:
        count_levels(address, Domain(("a", "b")), column="a")
    assert SECRET not in str(caught.value)


def test_plans_and_documents_hold_no_password(tmp_path: Path) -> None:
    address = "postgresql://user:S3CRET@host:5433/base?sslpassword=S3CRET#SELECT a FROM t"
    study = discreet.Study(address, discreet.Schema({"a": ["x", "y"]}, n=9), epsilon=1)
    assert study.label == "postgresql://host:5433/base#SELECT a FROM t"
    assert SECRET not in repr(study) + str(study)
    engine = sa.create_engine(address.partition("#")[0].replace("postgresql:", "postgresql+psycopg:"))
    assert (
        discreet.Study((engine, "t"), {"a": ["x", "y"]}, epsilon=1).label == "postgresql://host:5433/base#t"
    )


def test_engines_that_nobody_tried_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="a table of Ibis cannot be counted"):
        engines._check_engine(nw.Implementation.IBIS)
    for known in ("PANDAS", "POLARS", "DUCKDB", "PYSPARK", "PYSPARK_CONNECT"):
        engines._check_engine(nw.Implementation[known])


def test_a_template_and_a_check_of_a_database(tmp_path: Path) -> None:
    address = stored(tmp_path / "t.db")
    assert "who = []" in schema_template(address, "6")
    assert misfits(address, discreet.Schema({"a": ["a", "A"]}, n=6)) == {"a": (1, 2, 6)}
