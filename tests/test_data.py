"""Every engine counts the same, and no message quotes a record."""

from __future__ import annotations

import datetime
import gzip
import json
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._data import count_levels
from discreet._declarations import Domain
from discreet.errors import DataError, FileError, InvalidInputError

SMOKER = Domain(("never", "former", "current"))
MAPPED = Domain(("never", "former", "current"), other="former", missing="current")
SECRET = "S3CRET-value-of-a-record"

Column = list[Any]
Builder = Callable[[Column, Path], tuple[Any, str | None]]


def _csv(values: Column, folder: Path, name: str = "t.csv", mark: str = ",") -> tuple[Path, str]:
    path = folder / name
    rows = "".join(f'{i}{mark}"{"" if v is None else v}"\n' for i, v in enumerate(values))
    content = f"id{mark}v\n{rows}".encode()
    path.write_bytes(gzip.compress(content) if name.lower().endswith(".gz") else content)
    return path, "v"


def _json(values: Column, folder: Path) -> tuple[Path, str]:
    path = folder / "t.json"
    path.write_text(json.dumps([{"id": i, "v": v} for i, v in enumerate(values)]))
    return path, "v"


def _jsonl(values: Column, folder: Path) -> tuple[Path, str]:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps({"v": v}) + "\n" for v in values))
    return path, "v"


def _parquet(values: Column, folder: Path) -> tuple[Path, str]:
    pq.write_table(pa.table({"id": range(len(values)), "v": values}), folder / "t.parquet")
    return folder / "t.parquet", "v"


def _relation(values: Column, folder: Path) -> tuple[Any, str]:
    connection = duckdb.connect(":memory:")
    connection.register("source", pa.table({"v": values}))
    return connection.sql("select v, 1 as one from source"), "v"


def _chunks(array: pa.Array) -> pa.ChunkedArray:
    return pa.chunked_array([array[:1], array[1:]])


PYTHON: dict[str, Builder] = {
    "list": lambda values, _: (values, None),
    "tuple": lambda values, _: (tuple(values), None),
    "iterator": lambda values, _: (iter(values), None),
    "numpy object": lambda values, _: (np.array(values, dtype=object), None),
    "mapping": lambda values, _: (Counter(values), None),
}
ENGINES: dict[str, Builder] = {
    "pandas series": lambda values, _: (pd.Series(values), None),
    "pandas object": lambda values, _: (pd.Series(values, dtype=object), None),
    "pandas table": lambda values, _: (pd.DataFrame({"v": values, "w": 1}), "v"),
    "polars series": lambda values, _: (pl.Series(values), None),
    "polars table": lambda values, _: (pl.DataFrame({"v": values, "w": values}), "v"),
    "polars lazy": lambda values, _: (pl.LazyFrame({"v": values, "w": values}), "v"),
    "arrow array": lambda values, _: (pa.array(values), None),
    "arrow chunked": lambda values, _: (_chunks(pa.array(values)), None),
    "arrow batch": lambda values, _: (pa.record_batch({"v": values}), "v"),
    "arrow table": lambda values, _: (pa.table({"v": values, "w": values}), "v"),
    "duckdb": _relation,
    "parquet": _parquet,
    "json": _json,
    "jsonl": _jsonl,
}
TEXT: dict[str, Builder] = {
    "pandas string": lambda values, _: (pd.Series(values, dtype="string"), None),
    "pandas category": lambda values, _: (pd.Series(values, dtype="category"), None),
    "polars categorical": lambda values, _: (pl.Series(values, dtype=pl.Categorical), None),
    "arrow dictionary": lambda values, _: (pa.array(values).dictionary_encode(), None),
    "arrow large": lambda values, _: (pa.array(values, pa.large_string()), None),
    "csv": _csv,
    "csv path as text": lambda values, folder: (str(_csv(values, folder)[0]), "v"),
    "csv.gz": lambda values, folder: _csv(values, folder, "T.CSV.GZ"),
    "csv semicolon": lambda values, folder: _csv(values, folder, "s.csv", ";"),
    "tsv": lambda values, folder: _csv(values, folder, "t.tsv", "\t"),
}
ALL = PYTHON | ENGINES | TEXT

RECORDS = ["never", "former", None, "never", "vaper", "Never", "current", " never", "never", None]


@pytest.mark.parametrize("engine", ALL)
class TestEveryEngine:
    def test_declared_levels_only(self, engine: str, tmp_path: Path) -> None:
        data, column = ALL[engine](["never", "former", "never", "never"], tmp_path)
        counts = count_levels(data, SMOKER, column=column)
        assert counts == (3, 1, 0)
        assert all(type(count) is int for count in counts)

    def test_other_and_missing_are_mapped(self, engine: str, tmp_path: Path) -> None:
        data, column = ALL[engine](RECORDS, tmp_path)
        assert count_levels(data, MAPPED, column=column) == (3, 1 + 3, 1 + 2)

    def test_unmapped_records_are_counted_not_shown(self, engine: str, tmp_path: Path) -> None:
        data, column = ALL[engine]([*RECORDS, SECRET], tmp_path)
        with pytest.raises(DataError) as caught:
            count_levels(data, SMOKER, column=column)
        message = str(caught.value)
        assert "4 of 11 records hold a value outside the declared levels" in message
        assert "other=VALUE" in message
        assert "2 of 11 records are missing" in message
        assert "missing=VALUE" in message
        assert "1 of these differ from a level only by white space" in message
        assert "1 of these differ from a level only by upper and lower case" in message
        assert not any(value in message for value in (SECRET, "vaper", "Never", " never"))


@pytest.mark.slow
@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    values=st.lists(
        st.sampled_from(["a", "b", "B ", "", "é", "1", "nan", "null", None]), min_size=1, max_size=40
    )
)
def test_engines_agree_with_a_plain_counter(values: Column, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("engines")
    domain = Domain(("a", "b", "é", 1, "rest", "none"), other="rest", missing="none")

    def expected(records: Column) -> tuple[int, ...]:
        tally = Counter(records)
        known = [tally["a"], tally["b"], tally["é"], tally["1"]]
        return (*known, len(records) - sum(known) - tally[None], tally[None])

    for name, build in ALL.items():
        data, column = build(values, folder)
        as_file = [value or None for value in values] if "csv" in name or "tsv" in name else values
        assert count_levels(data, domain, column=column) == expected(as_file), name


NUMERIC: dict[str, Callable[[Column], Any]] = {
    "list": list,
    "numpy object": lambda values: np.array(values, dtype=object),
    "numpy float": lambda values: np.array(values, dtype=float),
    "pandas float": lambda values: pd.Series(values, dtype="float64"),
    "pandas Int64": lambda values: pd.array(values, dtype="Int64"),
    "pandas Int64 series": lambda values: pd.Series(values, dtype="Int64"),
    "polars int": lambda values: pl.Series(values, dtype=pl.Int8),
    "polars unsigned": lambda values: pl.Series(values, dtype=pl.UInt64),
    "polars float": lambda values: pl.Series(values, dtype=pl.Float32),
    "polars decimal": lambda values: pl.Series(values, dtype=pl.Decimal(10, 2)),
    "arrow int": lambda values: pa.array(values, pa.int16()),
    "arrow unsigned": lambda values: pa.array(values, pa.uint64()),
    "arrow float": lambda values: pa.array(values, pa.float32()),
    "arrow decimal": lambda values: pa.array([v if v is None else Decimal(v) for v in values]),
    "decimals": lambda values: [v if v is None else Decimal(v) for v in values],
    "fractions": lambda values: [v if v is None else Fraction(v) for v in values],
    "floats with nan": lambda values: [float("nan") if v is None else float(v) for v in values],
    "polars nan": lambda values: pl.Series([float("nan") if v is None else float(v) for v in values]),
    "arrow nan": lambda values: pa.array([float("nan") if v is None else float(v) for v in values]),
    "duckdb hugeint": lambda values: duckdb.connect().sql(
        "select unnest([" + ",".join("null" if v is None else str(v) for v in values) + "]::hugeint[]) as v"
    ),
}


@pytest.mark.parametrize("engine", NUMERIC)
@pytest.mark.parametrize(
    "levels", [(0, 1, 2), ("0", "1", "2"), (0.0, 1.0, 2.0), ("0", "1.0", "2"), (0, "1", 2)]
)
def test_numbers_are_compared_by_value(engine: str, levels: tuple[Any, ...]) -> None:
    data = NUMERIC[engine]([0, 1, 1, None, 7, 2, 1])
    domain = Domain(levels, other=levels[0], missing=levels[2])
    assert count_levels(data, domain) == (2, 3, 2)


@pytest.mark.parametrize("engine", [*ENGINES, "list", "numpy object"])
@pytest.mark.parametrize("levels", [(False, True), (0, 1), ("false", "true"), ("False", "True")])
def test_truth_values(engine: str, levels: tuple[Any, ...], tmp_path: Path) -> None:
    data, column = (ENGINES | PYTHON)[engine]([True, None, False, True], tmp_path)
    assert count_levels(data, Domain(levels, missing=levels[0]), column=column) == (2, 2)


CATEGORICAL: dict[str, Callable[[Column], Any]] = {
    "pandas": lambda values: pd.Series(values, dtype="category"),
    "pandas objects": lambda values: pd.Series(pd.Categorical(pd.Series(values, dtype=object))),
    "pandas arrow": lambda values: pd.Series(
        pd.array(values, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.array(values).type)))
    ),
    "arrow": lambda values: pa.array(values).dictionary_encode(),
    "duckdb": lambda values: duckdb.from_arrow(pa.table({"v": pa.array(values).dictionary_encode()})),
    "polars": lambda values: pl.from_arrow(pa.array(values).dictionary_encode()),
}


@pytest.mark.parametrize("engine", CATEGORICAL)
@pytest.mark.parametrize(
    ("values", "levels", "expected"),
    [
        ([1.0] * 5, (0, 1), (0, 5)),
        ([1.0] * 5, ("1", "x"), (5, 0)),
        ([1, 2, None], ("1.0", 3), (2, 1)),
        ([True] * 5, ("true", "false"), (5, 0)),
        ([True, False, None], (0, 1), (1, 2)),
        (["1", "1.0", None], (1, "x"), (1, 2)),
    ],
)
def test_categories_count_as_what_they_are(
    engine: str, values: Column, levels: tuple[Any, ...], expected: tuple[int, ...]
) -> None:
    if expected == (1, 2):
        domain = Domain(levels, other=levels[1], missing=levels[1])
    else:
        domain = Domain(levels, other=levels[0] if 3 not in levels else 3, missing=levels[0])
    assert count_levels(CATEGORICAL[engine](values), domain) == expected


def test_categories_of_dates_are_refused_as_dates_are() -> None:
    with pytest.raises(DataError, match="cannot be counted"):
        count_levels(pd.Series(pd.to_datetime(["2024-01-01"])).astype("category"), MAPPED)


NASTY: Column = [
    *(
        "q",
        "",
        " ",
        " 1",
        "1",
        "1.0",
        "true",
        "True",
        "x",
        "nan",
        "null",
        "NA",
        "2024-01-01",
        "é",
        "a\nb",
        ",",
    ),
    *(0, 1, -1, 2**31, 2**53, 2**53 + 1, 2**63, 2**64, -(2**70), 10**40),
    *(0.0, 1.0, 1.5, -0.0, 0.1, 1e20, 1e300, float("inf"), float("nan"), True, False, None),
]
NESTED: Column = [[], [1], ["1"], {}, {"a": 1}, {"v": 1}]
BASES: Column = [1.0, 1, "1", True, "true", "x", 2**53 + 1, 2**64, 0.1, "2024-01-01", None]
NUMBERED = Domain((1, 2**53 + 1, "0.1", "x", "none"), other="x", missing="none")
TRUTHFUL = Domain(("true", "false", 2**64, "x", "none"), other="x", missing="none")

# Here each value keeps its type, or all are text. Elsewhere the column has one type, which whoever makes the
# column chooses, and which a value of another type would change for all records before they reach us.
UNTYPED = {"list", "tuple", "iterator", "numpy object", "pandas object", "json", "jsonl"} | {
    name for name in TEXT if "csv" in name or "tsv" in name
}


def _keeps_type(engine: str, base: Any, value: Any) -> bool:
    if engine in UNTYPED:
        return True
    if engine == "mapping":  # a dict has one key for True, 1 and 1.0, of the type that came first
        return type(value) is type(base) or isinstance(value, str) != isinstance(base, str)
    if engine in TEXT:
        return isinstance(base, str) and isinstance(value, str | None)
    if base is None:  # a column of nulls has a type of its own
        return value is None
    if type(base) is int and value is None and engine.startswith("pandas"):
        return False  # pandas turns whole numbers next to a null into doubles
    # The default whole number of an engine has 64 bits, and a larger one makes the column another type.
    fits = all(type(x) is not int or abs(x) < 2**63 for x in (base, value))
    return fits and (value is None or type(value) is type(base))


FILES = {"json", "jsonl", "csv", "tsv"}  # slow to open: every value once, in turns over the bases


DISTINCT = {"list", "polars series", "csv"}  # one of each way to read; the others are slow


@pytest.mark.parametrize(
    "engine",
    [
        engine if engine in DISTINCT else pytest.param(engine, marks=pytest.mark.slow)
        for engine in sorted(set(ALL) - {"csv path as text", "csv.gz", "csv semicolon"})
    ],
)
def test_one_record_changes_the_counts_by_at_most_one(engine: str, tmp_path: Path) -> None:
    values = NASTY + (NESTED if "json" in engine or engine == "list" else [])
    pairs = 0
    for turn, base in enumerate(BASES):
        if not _keeps_type(engine, base, base):
            continue
        domain = TRUTHFUL if base in ("true", 2**64) or base is True else NUMBERED
        records = [base] * 4
        data, column = ALL[engine](records, tmp_path)
        before = count_levels(data, domain, column=column)
        for value in values[turn :: len(BASES)] if engine in FILES else values:
            if not _keeps_type(engine, base, value):
                continue
            for changed in ([value, *records[1:]], [*records[:-1], value]):
                data, column = ALL[engine](changed, tmp_path)
                after = count_levels(data, domain, column=column)
                assert sum(after) == sum(before) == 4
                assert sum(abs(a - b) for a, b in zip(before, after, strict=True)) <= 2, (base, value)
                pairs += 1
    assert pairs > 60


def test_one_json_record_does_not_change_the_others(tmp_path: Path) -> None:
    for base in (1.0, True, 2**53 + 1):
        domain = Domain((base, "x"), other="x")
        for build in (_json, _jsonl):
            path, column = build([base] * 100, tmp_path)
            assert count_levels(path, domain, column=column) == (100, 0)
            for value in ("q", 0.5, {"a": 1}):
                path, column = build([base] * 99 + [value], tmp_path)
                assert count_levels(path, domain, column=column) == (99, 1)


def test_true_is_not_the_text_one() -> None:
    domain = Domain(("1", "rest"), other="rest")
    records = [1, True, "1", 1.0, "True", "1.0"]
    assert count_levels(records, domain) == (3, 3)
    assert count_levels(list(reversed(records)), domain) == (3, 3)


def test_numbers_in_text_levels_never_collide() -> None:
    same_number = Domain(("1", "1.0", "2"))
    assert count_levels(["1", "1.0", "1.0"], same_number) == (1, 2, 0)
    # What a record counts as, or that it has no place, follows from the declaration and that record alone.
    for data in ([1.0, 2], pl.Series([1, 2]), pd.Series([1, 2])):
        with pytest.raises(DataError, match="1 of 2 records hold a value outside"):
            count_levels(data, same_number)
        mapped = Domain(("1", "01", "2", "rest"), other="rest")
        assert count_levels(data, mapped) == (0, 0, 1, 1)
    truths = Domain(("true", "TRUE", "no"), other="no")
    assert count_levels(["true", "TRUE", True], truths) == (1, 1, 1)


@pytest.mark.parametrize("make", [list, pd.Series, pl.Series, pa.array, np.array])
def test_integers_beyond_the_doubles_stay_exact(make: Callable[[Column], Any]) -> None:
    big = 2**53
    assert count_levels(make([big, big + 1, big + 1]), Domain((big, big + 1))) == (1, 2)
    assert count_levels(make([big, big]), Domain((big, 10**40))) == (2, 0)


def test_a_column_that_no_level_can_match_is_all_unknown() -> None:
    for data in ([5, 6], pl.Series([5, 6]), pd.Series([5, 6]), pl.Series([5.5, 6])):
        assert count_levels(data, Domain(("a", "b"), other="b")) == (0, 2)
        with pytest.raises(DataError, match="2 of 2 records hold a value outside"):
            count_levels(data, SMOKER)


def test_unhashable_and_odd_values_are_unknown() -> None:
    odd = [["never"], {"never": 1}, {1}, b"never", object(), np.zeros(2), 1j, float("inf"), ("a",)]
    assert count_levels([*odd, "never"], MAPPED) == (1, len(odd), 0)


def test_every_kind_of_missing_value() -> None:
    missing = [
        None,
        float("nan"),
        np.nan,
        np.float32("nan"),
        pd.NA,
        pd.NaT,
        Decimal("nan"),
        Decimal("snan"),
        np.ma.masked,
    ]
    assert count_levels([*missing, "never"], MAPPED) == (1, 0, len(missing))
    masked = np.ma.array([0, 1, 1], mask=[False, False, True])
    assert count_levels(masked, Domain((0, 1), missing=0)) == (2, 1)


@pytest.mark.parametrize(
    "nulls", [pl.Series([None, None]), pa.array([None, None]), pd.Series([None, None]), [None, None]]
)
def test_a_column_of_nulls(nulls: Any) -> None:
    assert count_levels(nulls, MAPPED) == (0, 0, 2)


def test_levels_and_records_of_numpy_and_dates() -> None:
    assert count_levels(
        [np.str_("a"), np.int8(3), np.bool_(True)], Domain((np.str_("a"), np.int64(3), True))
    ) == (1, 1, 1)
    days = Domain((datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)))
    assert count_levels([datetime.date(2024, 1, 2)], days) == (0, 1)


class TestMappings:
    def test_counts_up_to_10_to_the_30_are_exact(self) -> None:
        counts = {"never": 10**30 + 1, "former": np.int64(5), "current": 7.0}
        assert count_levels(counts, SMOKER) == (10**30 + 1, 5, 7)

    def test_keys_outside_the_levels_are_unknown_records(self) -> None:
        counts = {"never": 1, "vaper": 10**29, None: 3, "pipe": 0}
        assert count_levels(counts, MAPPED) == (1, 10**29, 3)
        with pytest.raises(DataError, match=f"{10**29} of {10**29 + 4} records hold a value outside"):
            count_levels(counts, SMOKER)

    @pytest.mark.parametrize(
        "bad", [-987654, 987654.5, "987654", True, None, float("nan"), float("inf"), 987654e300]
    )
    def test_bad_counts_are_not_quoted(self, bad: Any) -> None:
        with pytest.raises(InvalidInputError, match="whole number") as caught:
            count_levels({"never": 1, "former": bad}, SMOKER)
        assert "987654" not in str(caught.value)

    def test_empty(self) -> None:
        for counts in ({}, {"never": 0}):
            with pytest.raises(DataError, match="empty"):
                count_levels(counts, SMOKER)


class TestRefusedData:
    @pytest.mark.parametrize(
        "data",
        [
            [],
            (),
            iter([]),
            np.array([], dtype=float),
            pd.Series([], dtype=str),
            pl.Series([], dtype=pl.String),
        ],
    )
    def test_empty(self, data: Any) -> None:
        with pytest.raises(DataError, match="empty"):
            count_levels(data, MAPPED)

    def test_empty_tables(self) -> None:
        for table in (
            pl.LazyFrame({"v": []}),
            pa.table({"v": pa.array([], pa.string())}),
            duckdb.sql("select 1 v limit 0"),
        ):
            with pytest.raises(DataError, match="empty"):
                count_levels(table, MAPPED, column="v")

    @pytest.mark.parametrize("data", [3, None, b"never", {"never"}, object(), pl.col("v")])
    def test_not_data(self, data: Any) -> None:
        with pytest.raises(InvalidInputError):
            count_levels(data, SMOKER)

    def test_arrays_with_another_number_of_dimensions(self) -> None:
        for array in (np.zeros((2, 2)), np.array(1)):
            with pytest.raises(InvalidInputError, match="dimensions"):
                count_levels(array, Domain((0, 1)))

    @pytest.mark.parametrize(
        "data",
        [
            pl.Series([[1], [2]]),
            pl.Series([{SECRET: 1}]),
            pa.array([{SECRET: 1}]),
            pd.Series(pd.to_datetime(["2024-01-01"])),
            pl.Series([datetime.date(2024, 1, 1)]),
            np.array(["2024-01-01"], dtype="datetime64[ns]"),
            np.array([(1, 2)], dtype=[(SECRET, int), ("b", int)]),
            pl.Series([b"x"]),
        ],
    )
    def test_nested_and_other_types(self, data: Any) -> None:
        with pytest.raises(DataError, match="cannot be counted") as caught:
            count_levels(data, MAPPED)
        assert SECRET not in str(caught.value)

    def test_an_engine_that_fails_does_not_quote_data(self, tmp_path: Path) -> None:
        (tmp_path / "bad.csv").write_text(f"v\n1\n{SECRET}\n")
        lazy = pl.scan_csv(tmp_path / "bad.csv", schema={"v": pl.Int64})
        relation = duckdb.sql(f"select cast(v as int) as v from (select '{SECRET}' as v)")
        for table in (lazy, relation):
            with pytest.raises(DataError, match="engine cannot read") as caught:
                count_levels(table, Domain((0, 1)))
            assert SECRET not in str(caught.value)
            assert caught.value.__suppress_context__

    def test_the_same_column_name_twice(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInputError, match="unique"):
            count_levels(pd.DataFrame([[1, 2]], columns=["v", "v"]), Domain((0, 1)), column="v")
        (tmp_path / "t.csv").write_text("v,v\n0,1\n")
        with pytest.raises(InvalidInputError, match="more than one column"):
            count_levels(tmp_path / "t.csv", Domain((0, 1)), column="v")


class TestColumns:
    TABLE = pl.DataFrame({"smoker": ["never"], "age": [3]})

    def test_the_nearest_name_is_suggested(self) -> None:
        with pytest.raises(InvalidInputError, match=r"did you mean 'smoker'\?.*'smoker', 'age'"):
            count_levels(self.TABLE, SMOKER, column="Smokr")
        with pytest.raises(InvalidInputError, match=r"does not exist; The columns are: 'smoker', 'age'"):
            count_levels(self.TABLE, SMOKER, column="xyzzy")

    def test_which_column(self) -> None:
        with pytest.raises(InvalidInputError, match=r"name one of: 'smoker', 'age'"):
            count_levels(self.TABLE, SMOKER)
        assert count_levels(self.TABLE.select("smoker"), SMOKER) == (1, 0, 0)

    def test_long_lists_of_columns_are_cut(self) -> None:
        wide = pl.DataFrame({f"c{i}": [1] for i in range(100)})
        with pytest.raises(InvalidInputError, match=r"'c19', …$"):
            count_levels(wide, SMOKER)

    def test_one_column_is_found_by_any_name_and_has_no_persons(self) -> None:
        series = (pl.Series("x", ["never"]), pd.Series(["never"]), pa.array(["never"]))
        for data in (["never"], np.array(["never"]), {"never": 1}, *series):
            assert count_levels(data, SMOKER, column="smoker") == (1, 0, 0)
            with pytest.raises(InvalidInputError, match=r"'id' (is for tables|does not exist)"):
                count_levels(data, SMOKER, column="smoker", person="id", per_person=1)


class TestFiles:
    def write(self, folder: Path, name: str, content: bytes | str) -> Path:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder / name

    def refused(self, path: Path, match: str) -> None:
        with pytest.raises(FileError, match=match) as caught:
            count_levels(path, SMOKER, column="v")
        assert SECRET not in str(caught.value)
        assert path.name in str(caught.value)

    def test_missing_file_folder_and_ending(self, tmp_path: Path) -> None:
        self.refused(tmp_path / "none.csv", "No such file")
        (tmp_path / "folder.csv").mkdir()
        self.refused(tmp_path / "folder.csv", "directory")
        self.refused(self.write(tmp_path, "t.ods", "v\nnever\n"), r"the name must end in one of \.csv")

    @pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "csv.gz"])
    def test_parquet_under_another_ending(self, ending: str, tmp_path: Path) -> None:
        parquet, _ = _parquet([SECRET], tmp_path)
        self.refused(parquet.rename(tmp_path / f"t.{ending}"), "is a Parquet file")

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("t.parquet", f"v\n{SECRET}\n"),
            ("t.parquet", b"PAR1" + SECRET.encode() + b"PAR1"),
            ("t.csv", gzip.compress(SECRET.encode(), mtime=0)),
            ("t.csv", b"PK\x03\x04" + SECRET.encode()),
            ("t.csv", f"v\n{SECRET}\n".encode("utf-16")),
            ("t.csv", b"v\xe9\n" + SECRET.encode()),
            ("t.csv", "\nv\n"),
            ("t.csv.gz", f"v\n{SECRET}\n"),
            ("t.csv.gz", gzip.compress(b"v\nnever\n" * 9999, mtime=0)[:-20]),
            ("t.json", f"v\n{SECRET}\n"),
            ("t.json", f'[{{"v": "{SECRET}"}}, {{"v": {SECRET}}}]'),
            ("t.json", f'[{{"v": "{SECRET}"}}, {{"v": "{SECRET}'),
            ("t.jsonl", f'{{"v": "never"}}\n{SECRET}\n'),
        ],
    )
    def test_not_what_the_ending_says(self, name: str, content: bytes | str, tmp_path: Path) -> None:
        self.refused(
            self.write(tmp_path, name, content),
            r" is not a | is a binary file|first line must name|is not JSON",
        )

    @pytest.mark.parametrize(
        "line", [f"1,never,{SECRET}", SECRET, f'1,"{SECRET}', b"1,\xe9" + SECRET.encode()]
    )
    def test_a_bad_csv_line_is_located_not_quoted(self, line: bytes | str, tmp_path: Path) -> None:
        content = b"id,v\n1,never\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n"
        self.refused(self.write(tmp_path, "t.csv", content), "see line 3")

    def test_a_first_line_that_is_a_record(self, tmp_path: Path) -> None:
        for content in ("never\nformer\n", f"{SECRET},never\n1,former\n"):
            with pytest.raises(FileError, match="looks like a record") as caught:
                count_levels(self.write(tmp_path, "t.csv", content), SMOKER)
            assert SECRET not in str(caught.value)
        one_hot = self.write(tmp_path, "t.csv", "never,former\n1,0\n0,1\n")
        assert count_levels(one_hot, SMOKER.__class__(("0", "1")), column="never") == (1, 1)

    @pytest.mark.parametrize("content", ["", "v\n"])
    def test_empty_csv(self, content: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="empty"):
            count_levels(self.write(tmp_path, "t.csv", content), SMOKER, column="v")

    @pytest.mark.parametrize("content", ["", "[]", "\n"])
    def test_empty_json(self, content: str, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="empty"):
            count_levels(self.write(tmp_path, "t.json", content), SMOKER, column="v")

    def test_csv_dialects(self, tmp_path: Path) -> None:
        for content in (
            b"id,v\r\n1,never\r\n2,former\r\n",
            b"\xef\xbb\xbfv,id\nnever,1\nformer,2",
            b'id,"v"\n"1,5","never"\n2,former\n\n',
            b"v\nnever\nformer\n",
            b"id;v\n1,5;never\n2;former\n",
            b"V,v,id\nx,never,1\ny,former,2\n",
            b'"a, b";v\n1;never\n2;former\n',
            b'v;"a, ""b"", c"\nnever;1\nformer;2\n',
            b'"two,\nlines"|v\n1|never\n2|former\n',
        ):
            assert count_levels(self.write(tmp_path, "t.csv", content), SMOKER, column="v") == (1, 1, 0)

    def test_csv_is_text(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "t.csv", "v\n01\n1\n2024-01-01\ntrue\nNA\n")
        texts = Domain(("01", "1", "2024-01-01", "true", "NA"))
        assert count_levels(path, texts, column="v") == (1, 1, 1, 1, 1)
        assert count_levels(path, Domain((1, "x"), other="x"), column="v") == (1, 4)

    @pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
    def test_csv_always_needs_a_column(self, name: str, tmp_path: Path) -> None:
        for content in (f"{SECRET}\nnever\n", f"{SECRET}\t{SECRET},{SECRET}\nnever\tnever,x\n"):
            path = self.write(tmp_path, name, content)
            with pytest.raises(InvalidInputError, match=r"first line .* must name the columns") as one:
                count_levels(path, SMOKER)
            with pytest.raises(
                InvalidInputError, match=r"does not exist; The first line.* has \d;.*record"
            ) as two:
                count_levels(path, SMOKER, column="v")
            assert SECRET not in f"{one.value}{two.value}"

    def test_csv_names_are_shown_only_when_near(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "t.csv", f"{SECRET},smoker\n1,never\n")
        with pytest.raises(InvalidInputError, match=r"did you mean 'smoker'\?.* has 2;") as caught:
            count_levels(path, SMOKER, column="Smokr")
        assert SECRET not in str(caught.value)

    def test_json_text_stays_text(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "t.json", '[{"v": "2024-01-01"}, {"v": "2024-01-02"}, {}]')
        assert count_levels(path, Domain(("2024-01-01", "2024-01-02"), missing="2024-01-01")) == (2, 1)

    def test_json_values_are_read_one_by_one(self, tmp_path: Path) -> None:
        big = 2**53
        values = [
            "01",
            1,
            1.0,
            "1",
            True,
            "a",
            "true",
            None,
            [1],
            {"a": "a"},
            big + 1,
            float(big),
            10**40,
            1e40,
        ]
        levels = ("1", "a", big, big + 1, 10**40, "rest", "none")
        path, _ = _json(values, tmp_path)
        domain = Domain(levels, other="rest", missing="none")
        plain = [None if isinstance(value, dict) else value for value in values]
        assert count_levels(path, domain, column="v") == (3, 1, 1, 1, 1, 6, 1)
        assert count_levels(plain, domain) == (3, 1, 1, 1, 1, 5, 2)

    def test_nested_json_is_unknown(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, "t.json", json.dumps([{"v": {SECRET: 1}}, {"v": [SECRET]}]))
        with pytest.raises(DataError, match="2 of 2 records hold a value outside") as caught:
            count_levels(path, SMOKER, column="v")
        assert SECRET not in str(caught.value)

    @pytest.mark.parametrize("name", ["v", "a/b~c", "it's", "0", "$.x", "*", "é", "V v"])
    def test_json_keys(self, name: str, tmp_path: Path) -> None:
        rows = [{name: "never", name + "2": "x"}, {name: "former"}, {name + "2": "never"}]
        for ending, text in (("json", json.dumps(rows)), ("jsonl", "\n".join(map(json.dumps, rows)))):
            path = self.write(tmp_path, f"t.{ending}", text)
            assert count_levels(path, MAPPED, column=name) == (1, 1, 1)
        path = self.write(tmp_path, "t.json", json.dumps({name: "never"}, indent=2))
        assert count_levels(path, SMOKER) == (1, 0, 0)

    def test_json_columns(self, tmp_path: Path) -> None:
        rows = [{"smoker": "never", "age": 3}, {"age": 4, "smoker": "former"}, {SECRET: 1, "age": "x"}]
        path = self.write(tmp_path, "t.json", json.dumps(rows))
        for column, match in (
            (None, "column is missing"),
            ("Smokr", r"did you mean 'smoker'\?"),
            ("q", "not exist"),
        ):
            with pytest.raises(InvalidInputError, match=f"{match}.*: 'age', 'smoker'$") as caught:
                count_levels(path, SMOKER, column=column)
            assert SECRET not in str(caught.value)
        for rows in ([{"v": 1}, {"v": 2}, {"w": 3}], [{}, {}]):
            with pytest.raises(InvalidInputError, match="column is missing"):
                count_levels(self.write(tmp_path, "t.json", json.dumps(rows)), SMOKER)

    def test_json_entries_that_are_no_records(self, tmp_path: Path) -> None:
        for name, text in (("t.json", f'[{{"v": 1}}, "{SECRET}"]'), ("t.jsonl", f'[{{"v": "{SECRET}"}}]')):
            self.refused(self.write(tmp_path, name, text), "entries are not JSON objects")

    def test_the_named_file_is_read_and_no_other(self, tmp_path: Path) -> None:
        for name in ("a1.csv", "a2.csv", "ab.csv"):
            self.write(tmp_path, name, "v\nformer\n")
        for name in ("a[1-2].csv", "a*.csv", "a?.csv", "it's.csv", "a b.csv", "v=never.csv"):
            path = self.write(tmp_path, name, "v\nnever\n")
            assert count_levels(path, SMOKER, column="v") == (1, 0, 0)
            path = self.write(tmp_path, name.replace("csv", "jsonl"), '{"v": "never"}\n')
            assert count_levels(path, SMOKER) == (1, 0, 0)

    def test_folder_names_are_not_columns(self, tmp_path: Path) -> None:
        (tmp_path / "v=former").mkdir()
        path, _ = _parquet(["never"], tmp_path / "v=former")
        assert count_levels(path, SMOKER, column="v") == (1, 0, 0)


def test_no_data_frame_library_is_needed(tmp_path: Path) -> None:
    path, _ = _csv(["never", "former", None], tmp_path)
    _parquet(["never", "former", None], tmp_path)
    program = f"""
        import sys
        for name in ("pandas", "polars", "pyarrow"):
            sys.modules[name] = None
        from discreet._declarations import Domain
        from discreet._data import count_levels
        import numpy
        domain = Domain(("never", "former"), missing="former")
        assert count_levels({str(path)!r}, domain, column="v") == (1, 2)
        assert count_levels({str(path.with_suffix(".parquet"))!r}, domain, column="v") == (1, 2)
        assert count_levels(numpy.array(["never", "former"]), domain) == (1, 1)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)


def test_many_levels_are_compared_in_blocks_where_no_join_can_be_made() -> None:
    """A level with a separator in it keeps DuckDB from a join; each of the levels is still found."""
    levels = (*(f"l{i}" for i in range(100)), "a\x1fb")
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (v VARCHAR)")
    connection.executemany("INSERT INTO t VALUES (?)", [(level,) for level in (*levels, "l1", "other")])
    counts = count_levels(connection.table("t"), Domain((*levels, "rest"), other="rest"), column="v")
    assert counts == (1, 2, *[1] * 100)
