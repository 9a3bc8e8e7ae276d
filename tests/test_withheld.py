"""No record leaves in an engine's words: every question × engine × malformed input, searched for a mark."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import discreet
import shorthand
from discreet._cli import main
from discreet._data import Glob, clipped_sum, contingency, count_levels, read_rows, sql
from discreet._declarations import Domain
from discreet.errors import DataError, DiscreetError
from shorthand import count_bins
from workbooks import workbook

MARK = "Zyx7secret"
GOOD = "smoker,age,person\n" + "no,30,1\nyes,40,2\n" * 20
LEVELS = ("no", "yes")
SCHEMA = discreet.Schema({"smoker": LEVELS, "age": (0, 100)}, n="public")
WEIGHTED = discreet.Schema({"age": (0, 100), "person": discreet.Weight(2)}, n="public")

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::discreet.errors.{name}")
    for name in ("NoiseWarning", "PrivacyWarning")
]

# Malformed data: each fails inside its engine, in whose words the record with the mark is.


def _csv(text: str, name: str = "t.csv") -> Callable[[Path], Any]:
    def write(folder: Path) -> Any:
        (folder / name).write_text(text)
        return folder / name

    return write


def _lazy(folder: Path) -> Any:
    frame = pl.LazyFrame({"smoker": ["no", "yes"], "age": ["30", MARK], "person": [1, 2]})
    return frame.with_columns(pl.col("age").cast(pl.Int64))


def _lazy_function(folder: Path) -> Any:
    def fail(value: Any) -> Any:
        raise ValueError(f"no such age: {MARK}")

    frame = pl.LazyFrame({"smoker": ["no", "yes"], "age": [30, 40], "person": [1, 2]})
    return frame.with_columns(pl.col("age").map_elements(fail, return_dtype=pl.Int64))


def _relation(folder: Path) -> Any:
    return duckdb.sql(
        "SELECT s AS smoker, CAST(a AS INTEGER) AS age, i AS person "
        f"FROM (VALUES ('no', '30', 1), ('yes', '{MARK}', 2)) t(s, a, i)"
    )


def _query(folder: Path) -> Any:
    table = pa.table({"s": ["no", "yes"], "a": ["30", MARK]})
    return sql("SELECT s AS smoker, CAST(a AS INTEGER) AS age, 1 AS person FROM t", t=table)


class _Strange:
    def __str__(self) -> str:
        raise RuntimeError(MARK)

    __repr__ = __str__

    def __float__(self) -> float:
        raise RuntimeError(MARK)

    def __hash__(self) -> int:
        raise RuntimeError(MARK)


def _objects(folder: Path) -> Any:
    values = [_Strange(), _Strange()]
    return pd.DataFrame({"smoker": values, "age": values, "person": values})


def _parquet(folder: Path) -> Any:
    path = folder / "t.parquet"
    pl.DataFrame(
        {"smoker": ["no", MARK] * 500, "age": [1.0, 2.0] * 500, "person": [1, 2] * 500}
    ).write_parquet(path, compression="uncompressed")
    content = bytearray(path.read_bytes())
    middle = content.index(MARK.encode())
    content[middle - 40 : middle - 8] = bytes(32)
    path.write_bytes(content)
    return path


def _sheet(folder: Path) -> Any:
    rows = [("smoker", "age", "person"), ("no", 30, 1), ("yes", 40, 2)]
    torn = f'<row r="4"><c r="A4" t="n"><v>{MARK}</v></c></ro'
    return workbook(folder / "t.xlsx", {"sheet": rows}, torn)


MALFORMED: dict[str, Callable[[Path], Any]] = {
    "too many fields": _csv(GOOD + f"no,{MARK},3,4,5\n"),
    "an open quote": _csv(GOOD + f'no,"{MARK},3\n'),
    "a tab in a tsv": _csv(GOOD.replace(",", "\t") + f"no\t{MARK}\t1\t\t\n", "t.tsv"),
    "a record for a header": _csv(f"{MARK},yes,3\n" + GOOD),
    "a cut line of json": _csv('{"smoker": "no", "age": 1, "person": 1}\n{"smoker": "' + MARK, "t.jsonl"),
    "json that is none": _csv('[{"smoker": "no"}, ' + MARK + "]", "t.json"),
    "a torn parquet": _parquet,
    "a torn workbook": _sheet,
    "a failing cast in polars": _lazy,
    "a failing function in polars": _lazy_function,
    "a failing cast in duckdb": _relation,
    "a failing cast in a query": _query,
    "objects that fail": _objects,
}
FILES = [name for name in MALFORMED if not name.startswith(("a failing", "objects"))]


def _questions(data: Any) -> dict[str, Callable[[], Any]]:
    gaussian = {"family": "gaussian", "sigma": 20, "prior": (50, 30), "bounds": (0, 100)}
    return {
        "count": lambda: count_levels(data, Domain(LEVELS), column="smoker"),
        "count per person": lambda: count_levels(
            data, Domain(LEVELS), column="smoker", person="person", per_person=1
        ),
        "bins": lambda: count_bins(data, edges=(0, 50, 100), column="age"),
        "sum": lambda: clipped_sum(data, bounds=(0, 100), column="age"),
        "contingency": lambda: contingency(data, {"smoker": Domain(LEVELS), "person": Domain((1, 2))}),
        "rows": lambda: read_rows(data, ["smoker", "age"]),
        "rows of no column": lambda: read_rows(data, ["smokers"]),
        "sql": lambda: count_levels(sql("SELECT smokers FROM t", t=data), Domain(LEVELS)),
        "proportion": lambda: shorthand.shares(data, levels=LEVELS, column="smoker", epsilon=1),
        "binned": lambda: shorthand.shares(data, edges=(0, 50, 100), column="age", epsilon=1),
        "table": lambda: shorthand.table(data, {"smoker": LEVELS, "person": (1, 2)}, epsilon=1),
        "conditional": lambda: shorthand.groups(
            data, outcome="smoker", by="person", levels=LEVELS, groups=(1, 2), epsilon=1
        ),
        "sample": lambda: shorthand.draws(data, **gaussian, column="age", epsilon=1, delta=1e-6),
        "bounded mean": lambda: shorthand.draws(
            data, None, bounds=(0, 100), column="age", prior=(5, 5), epsilon=1, delta=1e-6
        ),
        "coefficients": lambda: discreet.draw(data, "smoker ~ age", schema=SCHEMA, epsilon=1, delta=1e-6),
        "quantiles": lambda: discreet.quantiles(data, "age", schema=SCHEMA, epsilon=1),
        "weighted": lambda: discreet.mean(data, "age", schema=WEIGHTED, epsilon=1),
        "survival": lambda: discreet.survival(data, "age", "smoker", schema=SCHEMA, epsilon=1),
        "regression": lambda: discreet.regress(data, "age ~ smoker", schema=SCHEMA, epsilon=1, delta=1e-6),
    }


def everything_of(error: BaseException) -> Iterator[str]:
    """All that an exception says or drags behind it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield from (str(one), repr(one.args), *getattr(one, "__notes__", ()))
        yield "".join(traceback.format_exception(one))
        waiting += [one.__cause__, one.__context__]


@pytest.mark.parametrize("kind", MALFORMED)
def test_no_error_quotes_a_record(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = MALFORMED[kind](tmp_path)
    failed = {}
    for name, ask in _questions(data).items():
        try:
            ask()
        except DiscreetError as error:
            failed[name] = "".join(everything_of(error))
    assert len(failed) > 3
    assert [name for name, text in failed.items() if MARK in text] == []
    captured = capfd.readouterr()
    assert MARK not in captured.out + captured.err


@pytest.mark.parametrize("kind", FILES)
def test_no_command_quotes_a_record(kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data = MALFORMED[kind](tmp_path)
    for column in ("smoker", "age", "smokers"):
        declared = discreet.Schema(dict.fromkeys(("smoker", "age", "smokers"), LEVELS), n="public")
        (tmp_path / "schema.toml").write_text(declared.to_toml())
        with pytest.raises(SystemExit) as stopped:
            main(["proportions", str(data), str(tmp_path / "schema.toml"), column, "--epsilon", "1"])
        captured = capfd.readouterr()
        assert stopped.value.code in (0, 1, 2, 3, 4, 5)
        assert MARK not in captured.out + captured.err


def test_several_files_and_folders_say_no_more(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "b.csv").write_text(GOOD + f"no,{MARK},3,4,5\n")
    for data in (tmp_path, Glob(str(tmp_path / "*.csv")), [tmp_path / "a.csv", tmp_path / "b.csv"]):
        for ask in _questions(data).values():
            with pytest.raises(DiscreetError) as caught:
                ask()
            assert not any(MARK in text for text in everything_of(caught.value))


def test_whatever_is_raised_leaves_without_what_it_says() -> None:
    from discreet._data.guard import redact_errors

    class PanicException(BaseException):
        pass

    @redact_errors
    def fails(error: BaseException) -> None:
        raise error from ValueError(MARK)

    for error in (RuntimeError(MARK), PanicException(MARK), DataError("ours")):
        with pytest.raises(DiscreetError) as caught:
            fails(error)
        assert not any(MARK in text for text in everything_of(caught.value))
    with pytest.raises(KeyboardInterrupt):
        fails(KeyboardInterrupt())


def test_rows_and_counts_from_python_leave_nothing_behind() -> None:
    rows = np.array([["1", MARK], ["2", "3"]], dtype=object)
    built = discreet.mechanism("lattice", prior=(1, 1), n=40, epsilon=1)
    estimator = discreet.PrivateLogisticRegression(epsilon=1, delta=1e-6, norm_bound=1, n=2, classes=[0, 1])

    def failing(record: Any) -> float:
        raise RuntimeError(MARK)

    def records() -> Iterator[str]:
        yield "no"
        raise RuntimeError(MARK)

    for ask in (
        lambda: estimator.fit(rows, [0, 1]),
        lambda: estimator.fit(pd.DataFrame(rows), [0, 1]),
        lambda: estimator.fit([[0.1], [0.2]], np.array([MARK, 0], dtype=object)),
        lambda: built.draw([MARK, 2]),
        lambda: shorthand.shares(records(), levels=LEVELS, epsilon=1),
        lambda: shorthand.shares({"no": MARK}, levels=LEVELS, epsilon=1),
    ):
        with pytest.raises(DiscreetError) as caught:
            ask()
        assert not any(MARK in text for text in everything_of(caught.value))
