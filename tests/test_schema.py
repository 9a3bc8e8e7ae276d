"""The schema: declared once, checked in one place, the same in Python, TOML and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from discreet import Category, Number, Schema, Weight
from discreet._data.codebook import misfits, schema_template
from discreet._declarations import Relation
from discreet.errors import FileError, InvalidInputError
from discreet.schema import as_schema

GROUP = Category(["x", "y"], public=True)
SMOKER = ["never", "former", "current"]
WHOLE = Schema(
    {
        "smoker": SMOKER,
        "sex": Category(["female", "male"], other="male", missing="exclude", label="sex at birth"),
        "region": Category(["north", "south"], public=True),
        "age": Number(18, 95, missing="exclude", bins=(18, 40, 65, 95), atoms=(40,), unit="years"),
        "hours": (0, 80.5),
        "code": Category(range(100, 1000)),
        "w": Weight(4, label="weight"),
    },
    n=3000,
    sizes={"north": 1400, "south": 1600},
    strata="region",
    cluster="code",
)


def test_a_list_is_a_category_and_a_pair_of_numbers_a_range() -> None:
    schema = Schema({"a": ["x", "y"], "b": ("x", "y"), "c": (0, 80), "d": [0, 80], "e": [True, False]})
    assert [type(one) for _, one in schema] == [Category, Category, Number, Number, Category]
    assert schema["c"] == Number(0, 80) == schema["d"]
    assert Schema({"a": Category([0, 1])})["a"] == Category((0, 1))


def test_it_reads_back_and_prints() -> None:
    assert Schema.from_toml(WHOLE.to_toml()) == WHOLE
    assert Schema.from_json(WHOLE.to_json()) == WHOLE
    assert Schema.from_dict(WHOLE.to_dict()) == WHOLE
    assert eval(repr(WHOLE)) == WHOLE
    assert hash(eval(repr(WHOLE))) == hash(WHOLE)
    assert all(len(line) <= 110 for line in str(WHOLE).splitlines())
    assert "\n" not in repr(WHOLE)


names = st.text(min_size=1, max_size=8).filter(lambda text: text.strip() == text)
values = st.lists(
    names | st.integers() | st.booleans(), min_size=2, max_size=5, unique_by=lambda v: str(v).strip()
)


@given(st.dictionaries(names, values, min_size=1, max_size=3))
def test_any_values_read_back(columns: dict[str, list[Any]]) -> None:
    try:
        schema = Schema({name: Category(given) for name, given in columns.items()})
    except InvalidInputError:
        return  # such as 1 and True, which are equal
    assert Schema.from_json(schema.to_json()) == schema
    assert Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("more", "relation"),
    [
        ({}, Relation.ADD_REMOVE),
        ({"n": 100}, Relation.REPLACE_ONE),
        ({"n": "public"}, Relation.REPLACE_ONE),
        ({"n": 100, "person": "who", "per_person": 2}, Relation.REPLACE_PERSON),
    ],
)
def test_the_relation_follows(more: dict[str, Any], relation: Relation) -> None:
    assert Schema({"a": ["x", "y"]}, **more).relation is relation


def test_a_public_column_makes_it_within_groups() -> None:
    columns = {"a": ["x", "y"], "g": Category(["u", "v"], public=True)}
    assert Schema(columns, n=9).relation is Relation.WITHIN_GROUP
    assert Schema(columns).relation is Relation.ADD_REMOVE


@pytest.mark.parametrize(
    ("columns", "more", "message"),
    [
        ({}, {}, "must map column names"),
        ({"a": "no,yes"}, {}, "column 'a': 'no,yes' must be a list of values"),
        ({"a": ["x"]}, {}, "column 'a'.*at least two"),
        ({"a": (5, 1)}, {}, "column 'a'.*low < high"),
        ({"a": (0, float("inf"))}, {}, "column 'a'.*finite"),
        (
            {"a": {"values": ["x", "y"], "lable": "A"}},
            {},
            "column 'a': lable='A' is unknown; did you mean 'label'",
        ),
        ({"a": {"low": 1}}, {}, "high is missing"),
        ({"a": {}}, {}, "must have values"),
        ({"a": ["x", "y"]}, {"n": 0}, "n=0 must be at least 1"),
        ({"a": ["x", "y"]}, {"n": "3000 people"}, "n='3000 people' must be a whole number"),
        ({"a": ["x", "y"]}, {"n": 5, "expected_n": (1, 9)}, "expected_n is for a private"),
        ({"a": ["x", "y"]}, {"person": "p"}, "go together"),
        ({"a": ["x", "y"]}, {"person": "p", "per_person": 1}, "needs n"),
        ({"a": ["x", "y"]}, {"person": "p", "per_person": 2, "n": "public"}, "needs a declared n"),
        ({"a": ["x", "y"]}, {"strata": "b"}, "strata='b' is not declared"),
        ({"a": ["x", "y"]}, {"strata": "a"}, "strata='a' must be declared as public"),
        ({"a": Weight(2), "b": Weight(3)}, {}, "only one column"),
        (
            {"a": Category(["x", "y"], public=True)},
            {"n": 5, "sizes": {"x": 2, "y": 4}},
            "add up to 6, but n=5",
        ),
        (
            {"a": Category(["x", "y"], public=True)},
            {"n": 5, "sizes": {"x": 5}},
            "must name each of its groups",
        ),
        ({"a": ["x", "y"]}, {"strict": "no"}, "strict='no' must be true or false"),
    ],
)
def test_mistakes_name_the_column_the_value_and_the_way_out(
    columns: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Schema(columns, **more)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Category(["x", "y"], other="z"), "other='z' is not one of"),
        (lambda: Category(["x", "y"], missing="z"), "missing='z' is not one of"),
        (lambda: Category(["x", None]), "holds a missing value"),
        (lambda: Category("discover", other="x"), "needs missing='exclude'"),
        (lambda: Category(range(3, 9, 2)), "in steps of 1"),
        (lambda: Number(0, 1, missing=7), "missing=7 must lie within the bounds 0 to 1"),
        (lambda: Number(0, 1, missing="none"), "must be a number, 'exclude' or 'bin'"),
        (lambda: Number(0, 1, bins=1), "bins=1 must be from 2"),
        (lambda: Number(0, 1, bins=(0, 2, 1)), "in increasing order"),
        (lambda: Number(0, 1, outside="drop"), "must be one of: clip, bin"),
        (lambda: Weight(0), "most=0 must be the largest possible weight"),
    ],
)
def test_mistakes_in_a_column(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make()


def test_a_number_has_a_documented_grid() -> None:
    assert Number(0, 10).edges() == tuple(range(11))
    assert len(Number(0, 120).edges(fine=True)) == 121
    assert len(Number(0, 1e6).edges(fine=True)) == 101
    assert Number(0, 10, bins=4).edges() == (0, 2.5, 5, 7.5, 10) == Number(0, 10, bins=4).edges(fine=True)


def test_one_column_stands_for_a_schema(tmp_path: Path) -> None:
    assert as_schema(("no", "yes")).nameless
    assert as_schema({"a": ["x", "y"]}) == Schema({"a": ["x", "y"]})
    (tmp_path / "schema.toml").write_text(WHOLE.to_toml())
    (tmp_path / "schema.json").write_text(WHOLE.to_json())
    assert as_schema(tmp_path / "schema.toml") == WHOLE == as_schema(str(tmp_path / "schema.json"))
    with pytest.raises(InvalidInputError, match="schema is missing"):
        as_schema(None)
    with pytest.raises(FileError, match=r"'nowhere.toml' cannot be read"):
        as_schema(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_text("n = ")
    with pytest.raises(InvalidInputError, match="not valid TOML"):
        as_schema(tmp_path / "broken.toml")


def test_a_template_names_columns_and_no_values(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"secret": ["zebra", "yak"], "two words": [1.5, 2.5]})
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    text = schema_template(tmp_path / "t.csv", "public")
    assert 'n = "public"' in text
    assert '"two words" = []' in text
    stored = schema_template(tmp_path / "t.parquet")
    assert '"two words" = []  # double' in stored
    for found in (text, stored):
        assert "zebra" not in found
        assert "1.5" not in found


def test_misfits_are_counted_by_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("v,x\na,1\nb,200\nz,\n,5\n")
    schema = Schema({"v": ["a", "b"], "x": (0, 100)})
    assert misfits(tmp_path / "t.csv", schema) == {"v": (1, 1, 4), "x": (1, 1, 4)}


@pytest.mark.parametrize(
    "text",
    [
        "[columns]\na = {low = 0, high = 1, bins = 1000000000}",
        "[columns]\na = {low = 0, high = 1, bins = 100001}",
        '[columns]\na = {low = 0, high = 9, bins = "0123"}',
        "[columns]\na = [0, 1e308]",
        "[columns]\na = [0, 5e-324]",
        "[columns]\na = [-1e101, 0]",
        'n = 5\n[columns]\na = {values = ["x", "y"], public = true}\n[sizes.a]\nx = -3\ny = 8',
    ],
)
def test_a_strangers_schema_is_bounded(text: str) -> None:
    """A billion bins took all memory, and bounds beyond what can be squared an error that is not ours."""
    with pytest.raises(InvalidInputError):
        Schema.from_toml(text)


@pytest.mark.parametrize(
    "text",
    [
        '{"n": 5, "n": 6, "columns": {"a": ["x", "y"]}}',
        '{"columns": {"a": ["x", "y"], "a": ["x", "z"]}}',
        '{"columns": {"a": [NaN, 1]}}',
        '{"n": 1e999, "columns": {"a": ["x", "y"]}}',
        "[" * 100_000,
    ],
)
def test_a_schema_in_json_has_one_meaning(text: str) -> None:
    with pytest.raises(InvalidInputError, match="not valid JSON"):
        Schema.from_json(text)
