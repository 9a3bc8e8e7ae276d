"""Contingency tables, clipped sums and bins: the same whole numbers from every engine as from an oracle."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import tables
from discreet._data import ClippedSum, Glob, clipped_sum, contingency, count_levels, sql
from discreet._data import engines as engines_module
from discreet._data import files as files_module
from discreet._data.grids import Grid
from discreet._declarations import Domain
from discreet.errors import DataError, FileError, InvalidInputError, TooLargeError
from shorthand import count_bins
from tables import EDGES, LEVELS, STATISTICS, STEPS, TABLES, Row, expected, measured

SECRET = "S3CRET-value-of-a-record"
MARK = 987654.321

TEXTS = st.sampled_from(["a", "b", "Ü", "A ", "zz", "nan", "1", None])
REALS = st.one_of(
    st.none(),
    st.sampled_from([0.0, -0.0, 1.5, 3.0, -2.0, 3.3, -1.5, math.nan, math.inf, -math.inf, 5e-324, 1e300]),
    st.floats(-4, 4),
    st.floats(allow_nan=True),
)
WHOLES = st.one_of(st.none(), st.integers(-4, 7), st.sampled_from([2**53 + 1, -(2**63), 2**63 - 1]))
ROWS = st.lists(st.tuples(TEXTS, REALS, WHOLES, st.sampled_from("pqrs")), min_size=1, max_size=25)


# Not shrunk: an example runs on every engine, and is small enough to read as it is.
def compare_engines(rows: list[Row], most: int | None, folder: Path) -> None:
    for engine, build in TABLES.items():
        table = build(rows, folder)
        for name in STATISTICS:
            assert measured(name, table, rows, most) == expected(name, rows, most), (engine, name)


PHASES = [Phase.explicit, Phase.generate]


@pytest.mark.slow
@settings(max_examples=3, deadline=None, derandomize=True, phases=PHASES)
@given(rows=ROWS, most=st.sampled_from([None, 1, 2, 3]))
def test_every_engine_agrees_with_the_oracle(
    rows: list[Row], most: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    compare_engines(rows, most, tmp_path_factory.mktemp("engines"))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True, phases=PHASES)
@given(rows=ROWS, most=st.sampled_from([None, 1, 2, 3]))
def test_every_engine_agrees_with_the_oracle_at_length(
    rows: list[Row], most: int | None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    compare_engines(rows, most, tmp_path_factory.mktemp("engines"))


def test_python_values_agree_with_the_oracle() -> None:
    values = [
        0.0,
        -7,
        1.5,
        None,
        math.nan,
        math.inf,
        -math.inf,
        Decimal("0.3"),
        Fraction(1, 3),
        True,
        10**400,
    ]
    numbers = [0.0, -7.0, 1.5, None, math.nan, math.inf, -math.inf, 0.3, 1 / 3, 1.0, math.inf]
    rows: list[Row] = [("a", x, 0, "p") for x in numbers]
    codes = [tables.grid_code(row) for row in rows]
    bins = [tables.bin_code(row) for row in rows]
    for data in (values, tuple(values), iter(values), np.array(values, dtype=object)):
        found = clipped_sum(data, bounds=tables.BOUNDS, steps=STEPS, missing=tables.FILL)
        assert (found.n, found.grid_sum, found.grid_squares) == (
            len(codes),
            sum(codes),
            sum(j * j for j in codes),
        )
    assert count_bins(values, edges=EDGES, outside="level", missing="level") == tables.histogram(bins, 5)
    assert clipped_sum({1: 10**30, 0.5: 2}, bounds=(0, 2), steps=4).total == 10**30 + 1
    array = np.array([0.5, 1.25, np.nan])
    assert count_bins(array, edges=(0, 1, 2), missing="level") == (1, 1, 1)


@given(
    x=st.floats(allow_nan=False),
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    steps=st.integers(1, 2**16),
)
def test_the_grid_point_is_the_nearest_and_lies_within(
    x: float, low: float, width: float, steps: int
) -> None:
    high = low + width
    found = clipped_sum([x], bounds=(low, high), steps=steps)
    exact = (Fraction(min(max(x, low), high)) - Fraction(low)) / (Fraction(high) - Fraction(low)) * steps
    assert 0 <= found.grid_sum <= steps
    assert abs(found.grid_sum - exact) <= Fraction(1, 2) + Fraction(steps, 10**9)
    assert found.bounds[0] <= found.total <= found.bounds[1]
    assert found.squares == found.total**2


def test_totals_are_exact_and_bounds_mean_what_they_print() -> None:
    found = clipped_sum([0.1, 0.7, 0.7, 5], bounds=(0.1, 0.7), steps=6)
    assert found == ClippedSum(4, 18, 108, (Fraction(1, 10), Fraction(7, 10)), 6)
    assert found.total == Fraction(22, 10)
    assert found.squares == Fraction(1, 100) + 3 * Fraction(49, 100)
    # In floats ten million times 0.1 is not a million, and not the same from front and back.
    many = clipped_sum({0.1: 10**7}, bounds=(0, 1), steps=10)
    assert many.total == 10**6


def test_squares_need_more_than_64_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """5·2³⁸ records at the top of 2¹⁶ steps: Σj² is 5·2⁷⁰, and every sum in the engine stays below 2⁶³."""
    frame = engines_module.as_frame(duckdb.sql("SELECT 1.0 AS v FROM range(5)"))
    assert frame is not None
    table = engines_module.as_table(frame, {"v": Grid((0, 1), None, False, None)}, None)
    few = engines_module._group_codes(table, None)
    many = few.with_columns(nw.col("records") * 2**38)
    monkeypatch.setattr(engines_module, "_group_codes", lambda *_: many)
    _, (_, first, second) = engines_module.sum_codes(table, None)
    assert first == 5 * 2**38 * 2**16
    assert second == 5 * 2**38 * 2**32


# Neighbours.

BASE: list[Row] = [("a", 0.5, 1, "p"), ("b", -9.0, 2, "p"), ("a", 2.0, 0, "q"), (None, None, None, "r")]
NASTY: list[Row] = [
    ("Ü", math.inf, 7, "p"),
    ("zz", -math.inf, -5, "q"),
    (None, math.nan, None, "s"),
    ("b", 5e-324, 2**62, "p"),
    ("nan", 1e300, 3, "r"),
]


def difference(a: Sequence[int], b: Sequence[int]) -> int:
    return sum(abs(x - y) for x, y in zip(a, b, strict=True))


VARIANTS = {"csv glob", "parquet folder", "jsonl list", "pandas arrow", "pandas nullable", "json"}


@pytest.mark.parametrize(
    "engine", [pytest.param(name, marks=pytest.mark.slow) if name in VARIANTS else name for name in TABLES]
)
def test_one_record_moves_a_statistic_by_at_most_its_bound(engine: str, tmp_path: Path) -> None:
    build = TABLES[engine]
    limits = {"clipped sum": (STEPS, STEPS**2), "clipped counts": (7, 49)}
    for name in STATISTICS:
        before = measured(name, build(BASE, tmp_path), BASE)
        moved = 0
        for place, row in enumerate(NASTY):
            rows = list(BASE)
            rows[place % len(BASE)] = row
            after = measured(name, build(rows, tmp_path), rows)
            if name in limits:
                assert after[0] == before[0]
                assert abs(after[1] - before[1]) <= limits[name][0]
                assert abs(after[2] - before[2]) <= limits[name][1]
            else:
                assert sum(after) == sum(before)
                assert difference(before, after) <= 2
            moved += before != after
        assert moved >= 3, name


@settings(max_examples=40, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
@given(
    others=st.lists(st.tuples(TEXTS, REALS, WHOLES, st.sampled_from("qrs")), max_size=12),
    one=st.lists(st.tuples(TEXTS, REALS, WHOLES, st.just("p")), min_size=1, max_size=6),
    two=st.lists(st.tuples(TEXTS, REALS, WHOLES, st.just("p")), min_size=1, max_size=6),
    most=st.integers(1, 4),
)
def test_one_person_moves_a_statistic_by_at_most_m_records(
    others: list[Row], one: list[Row], two: list[Row], most: int
) -> None:
    """All records of a person are replaced; the bound makes that at most m records, and the others stay."""
    build = TABLES["polars"]
    before, after = [*others, *one], [*two, *others]
    for name in ("levels", "contingency", "binned"):
        a, b = (measured(name, build(rows, Path()), rows, most) for rows in (before, after))
        assert difference(a, b) <= min(len(one), most) + min(len(two), most)
        if most == 1:
            assert sum(a) == sum(b) == len({row[3] for row in before})
    n, first, second = measured("clipped sum", build(before, Path()), before, most)
    m, third, fourth = measured("clipped sum", build(after, Path()), after, most)
    if n == m:
        assert abs(first - third) <= most * STEPS
        assert abs(second - fourth) <= most * STEPS**2


class TestContributions:
    ROWS: tuple[Row, ...] = (
        *[("b", 1.0, 1, "p")] * 3,
        ("a", 2.0, 0, "p"),
        ("Ü", 0.0, 2, "q"),
        (None, 3.0, 2, "q"),
    )

    @pytest.mark.parametrize("engine", TABLES)
    def test_the_smallest_codes_enter(self, engine: str, tmp_path: Path) -> None:
        for order in (self.ROWS, self.ROWS[::-1]):
            table = TABLES[engine](order, tmp_path)
            keys = {"column": "text", "person": "who"}
            assert count_levels(table, LEVELS, **keys, per_person=1) == (1, 1, 0, 0)
            assert count_levels(table, LEVELS, **keys, per_person=2, n=4) == (1, 2, 1, 0)
            assert count_levels(table, LEVELS, **keys, per_person=9, n=6) == (1, 4, 1, 0)

    def test_n_must_be_declared_where_it_depends_on_a_person(self) -> None:
        table = tables.arrow(self.ROWS)
        with pytest.raises(InvalidInputError, match=r"per_person=2 needs n=NUMBER.*With per_person=1"):
            count_levels(table, LEVELS, column="text", person="who", per_person=2)
        with pytest.raises(
            InvalidInputError, match=r"n=5 was declared.*a different number of records with at most 2"
        ):
            count_levels(table, LEVELS, column="text", person="who", per_person=2, n=5)
        with pytest.raises(InvalidInputError, match="n=5 was declared") as caught:
            contingency(table, {"text": LEVELS}, n=5)
        assert "6" not in str(caught.value)
        assert contingency(table, {"text": LEVELS}, n=6).tolist() == [1, 4, 1, 0]
        with pytest.raises(InvalidInputError, match="n=3 was declared"):
            clipped_sum(table, column="real", bounds=(0, 1), n=3)

    @pytest.mark.parametrize(
        ("options", "match"),
        [
            ({"person": "who"}, "go together"),
            ({"per_person": 1}, "go together"),
            ({"person": "who", "per_person": 0}, "at least 1"),
            ({"person": "who", "per_person": 1.5}, "whole number"),
            ({"person": "whom", "per_person": 1}, r"did you mean 'who'\?"),
            ({"person": "real", "per_person": 1}, "must be text or whole numbers"),
        ],
    )
    def test_refused(self, options: dict[str, Any], match: str) -> None:
        with pytest.raises((InvalidInputError, DataError), match=match):
            count_levels(tables.arrow(self.ROWS), LEVELS, column="text", **options)

    @pytest.mark.parametrize("engine", TABLES)
    def test_a_record_of_nobody_is_an_error(self, engine: str, tmp_path: Path) -> None:
        rows: list[Any] = [*self.ROWS, (SECRET, 1.0, 1, None), ("a", 1.0, 1, SECRET)]
        for name in STATISTICS:
            with pytest.raises(DataError, match="1 of 8 records have no person key") as caught:
                measured(name, TABLES[engine](rows, tmp_path), rows, 1)
            assert SECRET not in str(caught.value)

    def test_keys_of_every_type(self) -> None:
        values = ["a", "b", "b"]
        for keys in (
            pl.Series([1, 1, 2], dtype=pl.UInt8),
            pl.Series([2**62, 2**62, 1]),
            pl.Series(["x", "x", "y"], dtype=pl.Categorical),
        ):
            table = pl.DataFrame({"v": values, "k": keys})
            assert count_levels(table, Domain(("a", "b")), column="v", person="k", per_person=1) == (1, 1)
        for keys in (
            [1, 1, 2],
            ["x", "x", "y"],
            pd.Series(["x", "x", "y"], dtype=object),
            pd.Series([1, 1, "1"], dtype=object),
            pd.Series(["x", "x", "y"], dtype="category"),
        ):
            table = pd.DataFrame({"v": values, "k": keys})
            assert count_levels(table, Domain(("a", "b")), column="v", person="k", per_person=1) == (1, 1)
        for keys in ([1.5, 1.5, 2.0], [True, True, False], pd.Series([(1,), (1,), 2], dtype=object)):
            with pytest.raises(DataError, match="must be text or whole numbers"):
                count_levels(
                    pd.DataFrame({"v": values, "k": keys}),
                    Domain(("a", "b")),
                    column="v",
                    person="k",
                    per_person=1,
                )

    def test_problems_are_found_before_the_bound(self) -> None:
        rows: list[Row] = [("a", 1.0, 1, "p"), (SECRET, 1.0, 1, "p")]
        with pytest.raises(DataError, match="1 of 2 records hold a value outside") as caught:
            count_levels(tables.arrow(rows), Domain(("a", "b")), column="text", person="who", per_person=1)
        assert SECRET not in str(caught.value)

    def test_python_values_have_no_people(self) -> None:
        with pytest.raises(InvalidInputError, match="person='who' is for tables and files"):
            count_levels(["a"], LEVELS, person="who", per_person=1)


# Bad input.

BAD: dict[str, Callable[[Any], Any]] = {
    "levels": lambda t: count_levels(t, Domain(("a", "b")), column="text"),
    "contingency": lambda t: contingency(t, {"text": Domain(("a", "b")), "whole": Domain((0, 1))}),
    "clipped sum": lambda t: clipped_sum(t, column="real", bounds=(0, 1)),
    "clipped counts": lambda t: clipped_sum(t, column="real", bounds=(0, 10**4), integers=True, missing=0),
    "binned": lambda t: count_bins(t, column="real", edges=(0, 1, 2), missing="level"),
}


@pytest.mark.parametrize("engine", TABLES)
@pytest.mark.parametrize("name", BAD)
def test_uncovered_records_are_counted_not_shown(engine: str, name: str, tmp_path: Path) -> None:
    rows: list[Row] = [(SECRET, MARK, 987654, "p"), ("a", None, 0, "p"), (None, 0.5, None, "q")]
    with pytest.raises(DataError, match=r"1 of 3 records") as caught:
        BAD[name](TABLES[engine](rows, tmp_path))
    message = str(caught.value)
    assert not re.search(f"{SECRET}|98765", message)
    if name == "contingency":
        assert "column 'text': 1 of 3 records hold" in message
        assert "column 'whole': 1 of 3 records hold" in message


@pytest.mark.parametrize("engine", TABLES)
def test_no_rows(engine: str, tmp_path: Path) -> None:
    for name in STATISTICS:
        with pytest.raises(DataError, match="empty"):
            measured(name, TABLES[engine]([], tmp_path), [])
        with pytest.raises(DataError, match="empty"):
            measured(name, TABLES[engine]([], tmp_path), [], 1)


@pytest.mark.parametrize("engine", TABLES)
def test_unknown_columns(engine: str, tmp_path: Path) -> None:
    table = TABLES[engine](BASE, tmp_path)
    for call in (
        lambda: contingency(table, {"txt": LEVELS, "whole": tables.WHOLES}),
        lambda: clipped_sum(table, column="Text ", bounds=(0, 1)),
        lambda: count_bins(table, column="tex", edges=EDGES),
    ):
        with pytest.raises(InvalidInputError, match=r"does not exist; did you mean 'text'\?"):
            call()


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([SECRET]),
        pl.Series([[1.0]]),
        pl.Series([{SECRET: 1}]),
        pa.array([SECRET]),
        pd.Series([SECRET], dtype="string"),
        pd.Series(pd.to_datetime(["2024-01-01"])),
        duckdb.sql(f"SELECT '{SECRET}' AS v"),
        duckdb.sql("SELECT DATE '2024-01-01' AS v"),
        duckdb.sql("SELECT uuid() AS v"),
    ],
)
def test_columns_that_are_no_numbers(column: Any) -> None:
    for call in (
        lambda: clipped_sum(column, bounds=(0, 1)),
        lambda: count_bins(column, edges=(0, 1, 2), outside="clip", missing="level"),
    ):
        with pytest.raises(DataError, match=r"type \w+ cannot be") as caught:
            call()
        assert SECRET not in str(caught.value)


def test_values_that_are_no_numbers(tmp_path: Path) -> None:
    values = [1.0, SECRET, [1], {"a": 1}, 1j]
    for call in (clipped_sum, count_bins):
        options: Any = {"bounds": (0, 1)} if call is clipped_sum else {"edges": (0, 1, 2), "outside": "level"}
        for data in (values, pd.Series(values, dtype=object)):
            with pytest.raises(DataError, match="4 of 5 records hold a value that is not a number") as caught:
                call(data, **options)
            assert SECRET not in str(caught.value)
        path = tmp_path / "t.json"
        path.write_text(json.dumps([{"v": v} for v in values[:-1]]))
        with pytest.raises(DataError, match="3 of 4 records hold a value that is not a number"):
            call(path, column="v", **options)


NUMERALS = {
    "1": 1.0,
    " 1.5\t": 1.5,
    "-.5": -0.5,
    "+2.": 2.0,
    "1e3": 1e3,
    "1E-3": 1e-3,
    "inf": math.inf,
    "-Infinity": -math.inf,
    "1e999": math.inf,
    "-1e999": -math.inf,
    "1e-999": 0.0,
    "9007199254740993": 2.0**53,
    "0.1": 0.1,
}


@pytest.mark.slow
def test_numbers_in_csv_are_read_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for text, number in NUMERALS.items():
        path.write_text(f"v,w\n{text},x\n")
        for bounds in ((-7, 7), (0, 2.0**54), (0.1, 0.2)):
            assert clipped_sum(path, column="v", bounds=bounds) == clipped_sum([number], bounds=bounds), text
    for text in ("x", "1d", "0x10", "1_000", "1,5", "1 2", "--1", "e5", "true", "١"):
        path.write_text(f'v;w\n"{text}";x\n1;y\n')
        with pytest.raises(DataError, match="1 of 2 records hold a value that is not a number"):
            clipped_sum(path, column="v", bounds=(0, 1))
    path.write_text("v,w\nnan,x\nNaN,x\n,x\n1,x\n")
    assert count_bins(path, column="v", edges=(0, 1, 2), missing="level") == (0, 1, 3)


def test_a_first_line_of_numbers_is_a_record(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{MARK},2\n3,4\n")
    with pytest.raises(FileError, match="looks like a record") as caught:
        clipped_sum(tmp_path / "t.csv", column="v", bounds=(0, 1))
    assert "98765" not in str(caught.value)
    assert clipped_sum(tmp_path / "t.csv", column="2", bounds=(0, 4), integers=True).total == 4


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bounds": (1, 1)}, "smaller than the highest"),
        ({"bounds": (2, 1)}, "smaller than the highest"),
        ({"bounds": (0, math.inf)}, "must be finite"),
        ({"bounds": (0, math.nan)}, "must be finite"),
        ({"bounds": (0, 10**400)}, "must be finite"),
        ({"bounds": (-1.7e308, 1.7e308)}, "smaller than the highest"),
        ({"bounds": ("0", "1")}, "must be finite numbers"),
        ({"bounds": "01"}, "must be a pair"),
        ({"bounds": None}, "must be a pair"),
        ({"bounds": (0, 1, 2)}, "must be a pair"),
        ({"bounds": (0, 1), "steps": 0}, "must give 1 to 65536"),
        ({"bounds": (0, 1), "steps": 2**16 + 1}, "must give 1 to 65536"),
        ({"bounds": (0, 2**16 + 1), "integers": True}, "must give 1 to 65536"),
        ({"bounds": (0, 1.5), "integers": True}, "must be whole numbers"),
        ({"bounds": (2**60, 2**60 + 1024), "integers": True}, r"up to 2\*\*52"),
        ({"bounds": (0, 9), "integers": True, "steps": 9}, "cannot be used with integers=True"),
        ({"bounds": (0, 9), "integers": True, "missing": 0.5}, "within bounds"),
        ({"bounds": (0, 1), "missing": 2}, "within bounds"),
        ({"bounds": (0, 1), "missing": "x"}, "must be finite numbers"),
    ],
)
def test_bad_bounds(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        clipped_sum([1], **options)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"edges": (0, 1)}, "at least three"),
        ({"edges": (0, 1, 1)}, "increasing order"),
        ({"edges": (0, math.nan, 1)}, "increasing order"),
        ({"edges": (0, 2**53, 2**53 + 1)}, "increasing order"),
        ({"edges": "012"}, "must be numbers"),
        ({"edges": 3}, "must be numbers"),
        ({"edges": (0, "1", 2)}, "must be numbers"),
        ({"edges": (0, 1, 10**400)}, "must be numbers"),
        ({"edges": (0, 1, 2), "outside": "drop"}, "must be None, 'clip' or 'level'"),
        ({"edges": (0, 1, 2), "missing": "clip"}, "must be None, 'level' or 'exclude'"),
    ],
)
def test_bad_edges(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        count_bins([1], **options)


@pytest.mark.slow
def test_bins() -> None:
    values = [-1, 0, 0.5, 1, 1.9, 2, 2.1]
    assert count_bins(values[1:-1], edges=(0, 1, 2)) == (2, 3)
    assert count_bins(values, edges=(0, 1, 2), outside="clip") == (3, 4)
    assert count_bins(values, edges=(0, 1, 2), outside="level") == (2, 3, 2)
    assert count_bins([*values, None], edges=(-math.inf, 0, math.inf), missing="level") == (1, 6, 1)
    many = count_bins(pl.Series(range(1000)), edges=range(1001))
    assert many == (1,) * 999 + (1,)
    for table in (pl.Series(range(1000)), pd.Series(range(1000)), pa.array(range(1000))):
        assert count_bins(table, edges=range(0, 1001, 2)) == (2,) * 500


def test_bins_and_grids_of_whole_numbers_of_every_width() -> None:
    """Whole numbers far beyond the declaration keep their side of it, also where doubles are too coarse."""
    values = [-(2**63), -3, -2, -1, 0, 4, 5, 6, 2**53 + 1, 2**63 - 1]
    small = [value for value in values if 0 <= value < 256]
    for make in (pl.Series, pd.Series, pa.array, list):
        assert count_bins(make(values), edges=(-2, 0, 5), outside="level") == (2, 3, 5)
        assert count_bins(make(values), edges=(-2, 0, 5), outside="clip") == (4, 6)
        assert count_bins(make(values), edges=(-math.inf, -2.5, math.inf)) == (2, 8)
        assert clipped_sum(make(values), bounds=(-2.5, 5.5), steps=16).total == Fraction(35, 2)
    for column in (pl.Series(small, dtype=pl.UInt8), pa.array(small, pa.uint8()), np.array(small, np.uint8)):
        assert count_bins(column, edges=(-300, 1, 5, 300)) == (1, 1, 2)
        assert count_bins(column, edges=(-9, -5, -1), outside="level") == (0, 0, 4)
        assert count_bins(column, edges=(300, 400, 500), outside="clip") == (4, 0)
        assert clipped_sum(column, bounds=(-7, -5), integers=True).total == -20
        assert clipped_sum(column, bounds=(300, 305), integers=True).total == 1200


def test_many_levels() -> None:
    levels = tuple(f"L{i}" for i in range(500))
    values = [f"L{i * i % 500}" for i in range(5000)]
    expected_counts = tuple(values.count(level) for level in levels)
    for data in (pl.Series(values), pd.Series(values), pa.array(values), values):
        assert count_levels(data, Domain(levels)) == expected_counts


TRICKY = ("", "it's", "a;b", 'quo"te', "Ü", "ü", " x", "x,y", "%", "\\", "null", "NaN", "0", "1.50")
NUMBERS = (0, 1, -3, 0.1 + 0.2, 0.3, 1e300, 5e-324, 2**53, -(2**31), 7, 8, 9, 10)


@pytest.mark.parametrize(
    ("levels", "values"),
    [
        (TRICKY, [*TRICKY, *TRICKY[:5], None, "stray", "x", "\x1f"]),
        (NUMBERS, [*(float(x) for x in NUMBERS), -0.0, math.nan, None, 0.5, -math.inf, 0.30000000000000001]),
        (NUMBERS, [0, 1, -3, 7, 7, 10, None, 11, 2**53, 2**53 + 1]),
        (("a\x1fb", *TRICKY), ["a\x1fb", *TRICKY[:9], None]),
    ],
    ids=["text", "reals", "wholes", "separators"],
)
def test_levels_that_are_joined(levels: tuple[Any, ...], values: list[Any], tmp_path: Path) -> None:
    """More levels than a chain of comparisons is for: the same counts as from one record after the other."""
    domain = Domain((*levels, "rest", "none"), other="rest", missing="none")
    expected_counts = tuple(
        np.sum([count_levels([value], domain, private_size=True) for value in values], axis=0).tolist()
    )
    assert sum(expected_counts) == len(values)
    frame = pl.DataFrame({"v": values})
    frame.write_parquet(tmp_path / "v.parquet")
    relation = duckdb.connect().from_arrow(frame.to_arrow()) if values[0] is not None else None
    everywhere = [
        values,
        iter(values),
        frame,
        frame.lazy(),
        frame.to_arrow(),
        tmp_path / "v.parquet",
        relation,
    ]
    everywhere += [pd.Series(values, dtype=object), frame.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)]
    for data in everywhere:
        assert count_levels(data, domain) == expected_counts, type(data)
    if all(isinstance(value, str | None) for value in values):
        lines = [json.dumps({"v": value}) for value in values]
        (tmp_path / "v.jsonl").write_text("\n".join(lines))
        assert count_levels(tmp_path / "v.jsonl", domain, column="v") == expected_counts


@settings(deadline=None, derandomize=True)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [True, False, 1, 0, 1.0, 0.0, "1", "True", None, math.nan, Decimal(1), (1,), (True,)]
            ),
            st.integers(-3, 3),
        )
    )
)
def test_counting_many_at_once_is_counting_one_by_one(values: list[Any]) -> None:
    domain = Domain((True, 2, "1", "(1,)", -1, "rest", "none"), other="rest", missing="none")
    one_by_one = np.sum(
        [np.zeros(7, int), *(count_levels([value], domain, private_size=True) for value in values)], axis=0
    )
    for data in (values, iter(values), pd.Series(values, dtype=object)):
        assert count_levels(data, domain, private_size=True) == tuple(one_by_one.tolist())


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64", "float32", "bool"])
def test_counting_arrays(dtype: str) -> None:
    info = np.iinfo(dtype) if "int" in dtype else None
    ends = [0, 1] if info is None else [info.min, info.max, 0, 1]
    for values in (ends * 3, ends[-2:] * 4, [ends[0]] * 5, []):
        array = np.array(values, dtype=dtype)
        domain = Domain((*dict.fromkeys([*ends, 5]), "rest"), other="rest")
        counts = count_levels(array, domain, private_size=True)
        assert counts == count_levels(array.tolist(), domain, private_size=True)
        assert sum(counts) == len(values)


class TestContingency:
    def test_shape_and_order(self) -> None:
        table = pl.DataFrame({"a": ["x", "y", "y"], "b": [1, 2, 2], "c": [True, False, False]})
        domains = {"c": Domain((False, True)), "a": Domain(("x", "y", "z")), "b": Domain((1, 2))}
        counts = contingency(table, domains)
        assert counts.shape == (2, 3, 2)
        assert counts.dtype == np.int64
        assert counts.sum() == 3
        assert counts[1, 0, 0] == 1
        assert counts[0, 1, 1] == 2
        one = contingency(table, {"a": domains["a"]})
        assert one.tolist() == list(count_levels(table, domains["a"], column="a"))

    def test_refused(self) -> None:
        for domains in ({}, [Domain((0, 1))], None):
            with pytest.raises(InvalidInputError, match="must map each column to its Domain"):
                contingency(pl.DataFrame({"a": [1]}), domains)  # type: ignore[arg-type]
        for data in ([1, 2], {"a": 1}):
            with pytest.raises(InvalidInputError, match=r"needs a table or a file|is for tables and files"):
                contingency(data, {"a": Domain((0, 1))})
            with pytest.raises(InvalidInputError, match="needs a table or a file"):
                contingency(data, {"a": Domain((0, 1)), "b": Domain((0, 1))})
        wide = Domain(tuple(range(1001)))
        with pytest.raises(TooLargeError, match="1002001 cells"):
            contingency(pl.DataFrame({"a": [1], "b": [1]}), {"a": wide, "b": wide})


class TestSeveralFiles:
    def parquet(self, path: Path, values: list[Any], **more: list[Any]) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({**more, "v": values}), path)
        return path

    DOMAIN = Domain(("a", "b"))

    def test_folders_globs_and_lists(self, tmp_path: Path) -> None:
        folder = tmp_path / "f"
        one = self.parquet(folder / "a[1].parquet", ["a", "a"])
        two = self.parquet(folder / "deep" / "2.parquet", ["b"], id=[1])
        self.parquet(folder / "_tmp" / "3.parquet", ["b"])
        self.parquet(folder / ".hidden.parquet", ["b"])
        (folder / "README.txt").write_text("x")
        for data, counts in (
            (folder, (2, 1)),
            (str(folder), (2, 1)),
            ([one, two], (2, 1)),
            ((one,), (2, 0)),
            (Glob(f"{folder}/**/*.parquet"), (2, 2)),
            (Glob(f"{folder}/*.parquet"), (2, 0)),
            (one, (2, 0)),
        ):
            assert count_levels(data, self.DOMAIN, column="v") == counts, data

    def test_a_pattern_is_never_guessed(self, tmp_path: Path) -> None:
        self.parquet(tmp_path / "a1.parquet", ["a"])
        for name in (f"{tmp_path}/*.parquet", tmp_path / "a[1].parquet"):
            with pytest.raises(FileError, match="No such file"):
                count_levels(name, self.DOMAIN, column="v")
        with pytest.raises(FileError, match="no file matches"):
            count_levels(Glob(f"{tmp_path}/b*.parquet"), self.DOMAIN, column="v")

    def test_text_in_a_list_is_records(self, tmp_path: Path) -> None:
        assert count_levels(["a", str(self.parquet(tmp_path / "b", ["a"]))], Domain(("a", "b"), "b")) == (
            1,
            1,
        )

    def test_mixed_formats_and_schemas_are_refused(self, tmp_path: Path) -> None:
        one = self.parquet(tmp_path / "1.parquet", ["a"])
        (tmp_path / "2.csv").write_text("v\na\n")
        with pytest.raises(FileError, match="several formats"):
            count_levels(tmp_path, self.DOMAIN, column="v")
        two = self.parquet(tmp_path / "2.parquet", [1], id=[1])
        with pytest.raises(FileError, match=r"column='v' differs in type between files; see '2.parquet'"):
            count_levels([one, two], self.DOMAIN, column="v")
        three = tmp_path / "3.csv"
        three.write_text("w,v\n1,a\n")
        with pytest.raises(FileError, match=r"first line of '3.csv' differs"):
            count_levels([tmp_path / "2.csv", three], self.DOMAIN, column="v")

    def test_columns_in_another_order(self, tmp_path: Path) -> None:
        pq.write_table(pa.table({"v": ["a"], "w": ["b"]}), tmp_path / "1.parquet")
        pq.write_table(pa.table({"w": ["b"], "v": ["a"]}), tmp_path / "2.parquet")
        assert count_levels(tmp_path, self.DOMAIN, column="v") == (2, 0)
        assert count_levels(tmp_path, self.DOMAIN, column="w") == (0, 2)

    def test_empty_parts(self, tmp_path: Path) -> None:
        self.parquet(tmp_path / "1.parquet", ["a"])
        pq.write_table(pa.table({"v": pa.array([], pa.null())}), tmp_path / "0.parquet")
        assert count_levels(tmp_path, self.DOMAIN, column="v") == (1, 0)
        (tmp_path / "2.parquet").write_bytes(b"")
        with pytest.raises(FileError, match=r"2.parquet' is empty"):
            count_levels(tmp_path, self.DOMAIN, column="v")
        (tmp_path / "2.parquet").write_bytes(b"PAR1" + SECRET.encode())
        with pytest.raises(FileError, match=r"\(3 files\): one of them is not a well-formed") as caught:
            count_levels(tmp_path, self.DOMAIN, column="v")
        assert SECRET not in str(caught.value)
        for ending, full in (("csv", "v,w\na,b\n"), ("json", '[{"v": "a"}]'), ("jsonl", '{"v": "a"}\n')):
            folder = tmp_path / ending
            folder.mkdir()
            (folder / f"0.{ending}").write_text("")
            (folder / f"1.{ending}").write_text(full)
            (folder / f"2.{ending}").write_text(full)
            assert count_levels(folder, self.DOMAIN, column="v") == (2, 0)
            (folder / f"1.{ending}").write_text("")
            (folder / f"2.{ending}").write_text("")
            with pytest.raises(DataError, match="empty"):
                count_levels(folder, self.DOMAIN, column="v")

    def test_json_of_both_shapes(self, tmp_path: Path) -> None:
        (tmp_path / "1.json").write_text('[{"v": "a"}, {"v": "a"}]')
        (tmp_path / "2.json").write_text('{"v": "a"}\n{"v": "b"}')
        assert count_levels(tmp_path, self.DOMAIN, column="v") == (3, 1)


class TestSQL:
    def test_tables_and_files(self, tmp_path: Path) -> None:
        frame = pd.DataFrame({"v": ["a", "b", "b"], "age": [3, 40, 50]})
        frame.to_parquet(tmp_path / "t.parquet")
        frame.to_csv(tmp_path / "t.csv", index=False)
        for t in (
            frame,
            pl.DataFrame(frame),
            pl.LazyFrame(frame),
            pa.Table.from_pandas(frame),
            tmp_path / "t.parquet",
            tmp_path / "t.csv",
            Glob(f"{tmp_path}/*.csv"),
        ):
            relation = sql("SELECT v FROM t WHERE CAST(age AS INT) > 18", t=t)
            assert count_levels(relation, Domain(("a", "b"))) == (0, 2)
        joined = sql("SELECT x.v, y.age FROM x JOIN y USING (v)", x=frame, y=tmp_path / "t.csv")
        assert clipped_sum(sql("SELECT age FROM t", t=frame), bounds=(0, 45), integers=True).total == 88
        assert contingency(joined, {"v": Domain(("a", "b"))}).tolist() == [1, 4]

    def test_fields_of_csv_are_text(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_text("v\n01\n1\n")
        relation = sql("SELECT v FROM t", t=tmp_path / "t.csv")
        assert count_levels(relation, Domain(("01", "1"))) == (1, 1)

    @pytest.mark.parametrize(
        ("query", "match"),
        [
            ("SELEC v FROM t", "cannot be run"),
            ("SELECT w FROM t", "cannot be run"),
            ("SELECT v FROM u", "cannot be run"),
            ("CREATE TABLE x (i INT)", "must be one SELECT"),
            ("SELECT 1 AS v; SELECT 2 AS v", "must be one SELECT"),
            ("", "must be one SELECT"),
        ],
    )
    def test_bad_queries(self, query: str, match: str) -> None:
        with pytest.raises(InvalidInputError, match=match):
            sql(query, t=pl.DataFrame({"v": ["a"]}))

    def test_records_that_fail_are_not_quoted(self, tmp_path: Path) -> None:
        relation = sql("SELECT CAST(v AS INT) AS v FROM t", t=pl.DataFrame({"v": [SECRET]}))
        for call in (
            lambda: count_levels(relation, Domain((0, 1))),
            lambda: clipped_sum(relation, bounds=(0, 1)),
        ):
            with pytest.raises(DataError, match="nothing was counted") as caught:
                call()
            assert SECRET not in str(caught.value)

    def test_tables_of_other_engines_and_formats(self, tmp_path: Path) -> None:
        (tmp_path / "t.json").write_text('[{"v": 1}]')
        with pytest.raises(InvalidInputError, match="JSON is counted directly"):
            sql("SELECT 1", t=tmp_path / "t.json")
        for table in ([1], 3, duckdb.sql("SELECT 1 AS v")):
            with pytest.raises(InvalidInputError, match=r"table 't' of type .* cannot be queried"):
                sql("SELECT 1", t=table)


def test_a_column_of_many_distinct_values_needs_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grouping by raw values fails for want of memory; then each record is coded, with the same result."""
    path = tmp_path / "t.parquet"
    duckdb.sql(
        f"COPY (SELECT concat('value-number-', range) AS v FROM range(400000)) TO '{path}' (FORMAT parquet)"
    )
    domain = Domain(("value-number-7", "x"), other="x")
    plans = []
    original = engines_module._group_codes

    def grouped(table: Any, most: Any) -> Any:
        plans.append(bool(table.groups))
        return original(table, most)

    monkeypatch.setattr(engines_module, "_group_codes", grouped)
    assert count_levels(path, domain, column="v") == (1, 399999)
    assert plans == [True]
    monkeypatch.setattr(files_module, "FEW_MB", 16)
    assert count_levels(path, domain, column="v") == (1, 399999)
    assert plans == [True, True, False]


def test_a_long_count_prints_nothing() -> None:
    """DuckDB draws a bar on standard output for what takes long, which may be a pipe."""
    ((bar,),) = files_module.connect().sql("SELECT current_setting('enable_progress_bar')").fetchall()
    assert bar is False


def test_too_little_memory_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql(
        "COPY (SELECT concat('person-number-', range) AS p, 1 AS v FROM range(400000)) "
        f"TO '{path}' (FORMAT parquet)"
    )
    original = files_module.connect

    def small() -> Any:
        connection = original()
        connection.execute("SET memory_limit='16MB'")
        return connection

    monkeypatch.setattr(files_module, "connect", small)
    with pytest.raises(TooLargeError, match="does not fit into memory"):
        count_levels(path, Domain((0, 1)), column="v", person="p", per_person=1)


def test_an_old_or_broken_spark_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise ValueError(SECRET)

    spark = type("DataFrame", (), {"__module__": "pyspark.sql.dataframe"})()
    monkeypatch.setattr(nw, "from_native", refuse)
    with pytest.raises(DataError, match=r"pip install '\.\[spark\]'") as caught:
        count_levels(spark, Domain((0, 1)), column="v")
    assert SECRET not in str(caught.value)
