"""Between the records and the noise: each record counts once, for no more than declared, by itself alone."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import discreet
import independence
import shorthand
from discreet._data import contingency, count_levels, count_texts, sql
from discreet._declarations import Domain
from discreet.errors import ContributionError, InvalidInputError
from discreet.regression._checks import checked_labels
from discreet.regression._newton import design as designs
from discreet.regression._newton.fit import Regression, regression
from discreet.regression._newton.records import read
from shorthand import mean_request, regress_request

# ---- no row is longer than the noise is made for -----------------------------------------------------------

PEOPLE = {"y": [0.0, 3.0, 10.0], "x": [0.0, 10.0, 2.5], "g": ["a", "b", "c"]}


def question(formula: str, norm: float | None, **more: Any) -> Regression:
    used = {name for name in "xg" if name in formula.partition("~")[2]}
    bounds = {name: (0, 10) for name in ("y", "x") if name == "y" or name in used}
    levels = {"g": ("a", "b", "c")} if "g" in used else {}
    return regression(formula, bounds=bounds, levels=levels, norm=norm, epsilon=1, delta="1e-6", **more)


def sums_of(asked: Regression, data: Any) -> Any:
    with read(asked.design, data) as records:
        link = asked.model.link(asked.design, asked.model.start(asked.design))
        return records.n, records.sums(asked.model, link, True), link


@pytest.mark.parametrize("norm", [0.01, 0.3, None])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ x + 0", "y ~ g", "y ~ x * g"])
def test_one_record_moves_the_sums_by_no_more_than_the_noise_is_made_for(
    formula: str, norm: float | None
) -> None:
    """An intercept alone was not shortened: its squared distance was 2.9e7 times what is allowed."""
    asked = question(formula, norm)
    for row in range(3):
        one = pd.DataFrame({name: values[row : row + 1] for name, values in PEOPLE.items()})
        relation = duckdb.connect().from_df(one)
        found = [sums_of(asked, data) for data in (one, relation)]
        assert found[0] == found[1]
        _, sums, link = found[0]
        residuals, weights, squares = asked.model.extremes(link)
        rows = asked.design.norm**2
        assert sum(value**2 for value in sums.gradient) <= residuals.max() * rows
        triangle = np.zeros((asked.design.d,) * 2, dtype=object)
        triangle[np.triu_indices(asked.design.d)] = sums.curvature
        whole = triangle + triangle.T - np.diag(np.diag(triangle))
        assert (whole**2).sum() <= weights.max() * rows**2
        assert sums.square**2 <= squares.max()


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
@pytest.mark.parametrize("streamed", [False, True])
def test_a_row_that_is_too_long_stops_the_release(
    monkeypatch: pytest.MonkeyPatch, formula: str, streamed: bool
) -> None:
    """Whatever makes it so: the length of every row is compared with the bound when it is summed."""
    asked = question(formula, 0.3)
    data: Any = pd.DataFrame(PEOPLE)
    if streamed:
        data = duckdb.connect().from_df(data)
    sums_of(asked, data)
    monkeypatch.setattr(designs, "shorten_rows", lambda rows, norm: rows)
    with pytest.raises(ContributionError, match="nothing was released"):
        sums_of(asked, data)


# ---- counts are never guessed ------------------------------------------------------------------------------


def test_records_are_not_taken_for_counts_whatever_they_are() -> None:
    """A Series called count whose index happened to be levels: these five were released as 912 people."""
    values = [900, 5, 1, 2, 4]
    for index in (range(5), [1, 2, 4, 5, 900]):
        column = pd.Series(values, index=index, name="count")
        with pytest.raises(InvalidInputError, match="give counts as a mapping"):
            shorthand.shares(column, levels=(1, 2, 4, 5, 900), epsilon=1)
        for data in (column.tolist(), column.rename("people"), column.to_frame()):
            assert shorthand.shares(data, levels=(1, 2, 4, 5, 900), epsilon=1).n == 5
    with pytest.raises(InvalidInputError):  # its name alone decides
        shorthand.shares(pd.Series(["x"] * 9, name="count"), levels=("a", "b"), epsilon=1, strict=False)


def test_a_path_among_values_is_a_record() -> None:
    """Where the first record of a list was a path, the list was taken for files."""
    schema = discreet.Schema({"v": discreet.Category(["a", "b"], missing="exclude")}, strict=False)
    path = Path("a.csv")
    for records in ([path, "a", "b"], ["a", path, "b"], ["a", "b", path]):
        assert discreet.proportions(records, schema=schema, epsilon=100).counts == (1, 1)


# ---- text is compared as bytes -----------------------------------------------------------------------------

MANY = ("e", "E", "é", "É", "e\u0301", *"abcdfgh")  # composed and decomposed
FEW = MANY[:5]
COLLATIONS = ("nocase", "noaccent", "nocase.noaccent", "nfc", "de", "")


def collated(records: Any, collation: str, default: str = "", **columns: Any) -> duckdb.DuckDBPyRelation:
    """A table of a DuckDB that compares text by a collation, of the column or by default."""
    connection = duckdb.connect()
    declared = f" COLLATE {collation}" if collation else ""
    connection.execute(f"CREATE TABLE t (v VARCHAR{declared}, person VARCHAR{declared}, x DOUBLE)")
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(one, one, 1.0) for one in records])
    if default:
        connection.execute(f"SET default_collation = '{default}'")
    return connection.table("t")


@pytest.mark.parametrize("levels", [MANY, FEW], ids=["many levels", "few"])
@pytest.mark.parametrize("collation", COLLATIONS)
@pytest.mark.parametrize("default", ["", "nocase", "noaccent"])
def test_a_collation_makes_no_two_texts_equal(collation: str, default: str, levels: tuple[str, ...]) -> None:
    """Of 100 records of 'e' 100 were counted in each of four levels: one record cost 4ε."""
    relation = collated(["e"] * 100, collation, default)
    wanted = (100, *[0] * (len(levels) - 1))
    assert count_levels(relation, Domain(levels), column="v") == wanted
    assert count_levels(relation, Domain(levels), column="v", person="person", per_person=2, n=2)[0] == 2
    groups = contingency(relation, {"v": Domain(levels), "person": Domain(levels)})
    assert groups.sum() == groups[0, 0] == 100
    by = mean_request(column="x", bounds=(0, 2), by="v", levels=levels, epsilon=1)
    cells, number = by.read(relation)
    assert number == 100
    assert [own[0] for own in cells.values()] == list(wanted)
    asked = regression("x ~ v", bounds={"x": (0, 2)}, levels={"v": levels}, epsilon=1, delta="1e-6")
    plain = collated(["e"] * 100, "")
    assert sums_of(asked, relation) == sums_of(asked, plain)
    assert count_texts(relation, "v") == {"e": 100}
    people = collated(["e", "E", "é"], collation, default)
    assert count_levels(people, Domain(levels), column="v", person="person", per_person=1)[:3] == (1, 1, 1)
    assert count_texts(people, "v") == {"e": 1, "E": 1, "é": 1}


def test_a_lookup_returns_as_many_rows_as_it_got() -> None:
    """Even where a level stood twice in its table: Polars fails, and DuckDB takes one of them."""
    import narwhals as nw
    import polars as pl

    from discreet._data.engines import _lookup

    class Twice(dict[str, int]):
        def __iter__(self) -> Any:
            yield from [*super().__iter__(), "a"]

        def __len__(self) -> int:
            return super().__len__() + 1

        def values(self) -> Any:
            return [*super().values(), 99]

    wanted = Twice({level: i for i, level in enumerate(MANY)})
    for table in (pl.LazyFrame({"v": ["a", "b"]}), duckdb.sql("SELECT unnest(['a', 'b']) AS v")):
        frame = nw.from_native(table).lazy()
        found = _lookup(frame, "v", nw.col("v"), wanted, nw.String())
        assert found is not None
        fetched: Any = found(frame).to_native()
        run = fetched.collect if isinstance(fetched, pl.LazyFrame) else fetched.fetchall
        with pytest.raises((pl.exceptions.ComputeError, duckdb.Error)):
            run()


# ---- no type is inferred from Python values ----------------------------------------------------------------


def mean_of(data: Any, **more: Any) -> Any:
    return mean_request(**{"bounds": (0, 10), "epsilon": 1, "strict": False, **more}).read(data)


@pytest.mark.parametrize("strange", [1j, None, "x", math.nan, 2**80, b"3", pd.NA, pd.NaT, [1], {"a": 1}])
def test_a_value_changes_nothing_about_the_others(strange: Any) -> None:
    """One complex number made the other hundred missing."""
    alone = mean_of([3.0] * 100)[0][None]
    own = mean_of([strange])[0][None]
    together = mean_of([3.0] * 100 + [strange])[0][None]
    assert together == tuple(a + b for a, b in zip(alone, own, strict=True))
    table = {"x": [3.0] * 100 + [strange], "y": [1] * 101}
    assert mean_of(table, column="x")[0][None] == together
    asked = regress_request(
        formula="y ~ x", bounds={"x": (0, 10), "y": (0, 2)}, epsilon=1, delta="1e-6", strict=False
    )
    parts = [{"x": [3.0] * 100, "y": [1] * 100}, {"x": [strange], "y": [1]}]
    whole, *apart = (sums_of(asked.regression, data)[1] for data in (table, *parts))
    assert whole.gradient == tuple(map(sum, zip(*(one.gradient for one in apart), strict=True)))
    assert whole.curvature == tuple(map(sum, zip(*(one.curvature for one in apart), strict=True)))


@pytest.mark.parametrize("strange", [None, 0.5, math.nan, 2**53, 2.0**53])
def test_whole_numbers_beyond_doubles_keep_their_level(strange: Any) -> None:
    """With levels above 2**53 one None or 0.5 moved all others to another level."""
    levels = (2**53, 2**53 + 1)
    domain = Domain(levels, missing="exclude")
    records = [2**53 + 1] * 20 + [strange]
    assert mean_of({"x": [1] * 21, "g": records}, column="x", by="g", levels=levels)[0][levels[1]][0] == 20
    column = pd.Series(records, dtype=object)
    for data in (records, column, column.to_frame(), np.array(records, dtype=object)):
        assert count_levels(data, domain, strict=False)[1] == 20
    asked = regress_request(
        "y ~ g", bounds={"y": (0, 2)}, levels={"g": levels}, epsilon=1, delta="1e-6", strict=False
    )
    data = {"y": [1] * 21, "g": records}
    both = {"y": [1] * 20, "g": records[:20]}
    one, other = (sums_of(asked.regression, given)[1] for given in (data, both))
    moved = tuple(a - b for a, b in zip(one.curvature, other.curvature, strict=True))
    assert sum(moved[:1]) in (0, asked.regression.design.unit**2)  # one record more, or none
    query = sql("SELECT g FROM t", t=pd.DataFrame({"g": column}))
    assert count_levels(query, domain, strict=False)[1] == 20


def test_labels_of_a_list_are_looked_up_one_by_one() -> None:
    """One label 2.0**53 made all others that number."""
    classes = (2**53, 2**53 + 1)
    for last in (2**53, 2.0**53):
        _, index = checked_labels([2**53 + 1] * 9 + [last], 10, classes, several=False)
        assert index.tolist() == [1] * 9 + [0]


# ---- what a record counts as depends on that record alone --------------------------------------------------

TABLES = {"list": 600, "mapping of columns": 200, "NumPy": 400, "pandas": 100, "Polars": 200, "DuckDB": 100,
          "SQLite": 60}  # fmt: skip


@pytest.mark.parametrize("reader", independence.READERS)
def test_records_are_independent(reader: str, tmp_path: Path) -> None:
    """The long version is ``python -m tests.evidence records``."""
    found, wrong = independence.run(reader, tmp_path, TABLES.get(reader, 12), independence.only(reader))
    assert not wrong
    assert found["answered"] > found["tables"] / 4
