"""``Category("discover")``: what is asked, charged, printed and refused."""

from __future__ import annotations

import json
import re
import warnings
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import discreet
import shorthand
from discreet._cli import app
from discreet._data import count_texts, read_rows
from discreet._documents.answer import load_answer
from discreet._documents.base import write_document
from discreet._reporting.report import report
from discreet.answers.selected import Discovered
from discreet.errors import (
    CorruptReleaseError,
    DataError,
    FileError,
    InvalidInputError,
    PrivacyWarning,
    TooLargeError,
)
from discreet.mechanisms.discovery import Discovery

WORDS = ["tea"] * 400 + ["coffee"] * 90 + [None] * 7 + [f"once-{i}" for i in range(50)]
ASKED: dict[str, Any] = {"levels": "discover", "epsilon": 1, "delta": "1e-6", "hidden": True}
pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")


def asked(data: Any, **options: Any) -> Discovered:
    found = shorthand.shares(data, **{**ASKED, **options})
    assert isinstance(found, Discovered)
    return found


def test_what_stands_out_is_published() -> None:
    found = asked(WORDS)
    assert found.levels == ("coffee", "tea")
    assert found.counts["tea"] == pytest.approx(400, abs=found.selection.threshold)
    assert str(found.guarantee) == "ε = 1, δ = 1e-6 (add-remove)"
    assert load_answer(found.to_json()) == found
    text = str(found)
    assert "Names of levels are data" in text
    assert "once-" not in text + found.to_json() + report(found)
    assert "a single record with at most δ = 1e-6" in report(found)
    low, high = next((row.low, row.high) for row in found.rows(0.9) if row.name == "tea")
    assert low is not None
    assert high is not None
    assert low < found.counts["tea"] < high
    with pytest.warns(PrivacyWarning, match="publishes values from the data"):
        shorthand.shares(WORDS, **ASKED)


def test_nothing_is_an_answer_too() -> None:
    for data in ([], [None, None], ["a", "b"]):
        found = asked(data)
        assert found.levels == ()
        assert load_answer(found.to_json()) == found
        assert "0 levels" in str(found)
        assert report(found)


def test_the_same_counts_everywhere(tmp_path: Path) -> None:
    import polars as pl

    values = ["a", "b", "a", None, "ä \U0001f600", ""]
    wanted = {"a": 2, "b": 1, "ä \U0001f600": 1, "": 1}
    frame = pd.DataFrame({"w": values, "n": [1, 2, 3, 4, 5, 6]})
    frame.to_parquet(tmp_path / "w.parquet")
    frame.to_csv(tmp_path / "w.csv", index=False)
    for data in (frame, pl.from_pandas(frame), pl.from_pandas(frame).lazy(), tmp_path / "w.parquet"):
        assert count_texts(data, "w") == wanted
    assert count_texts(values) == wanted
    assert count_texts({"a": 2, "b": 1, None: 4}) == {"a": 2, "b": 1}
    assert count_texts(tmp_path / "w.csv", "w") == {"a": 2, "b": 1, "ä \U0001f600": 1}
    assert count_texts(np.array([1, 2, 1])) == {"1": 2, "2": 1}
    assert count_texts([1, True, 1.0, [], {}, "1"]) == {"1": 3, "True": 1, "[]": 1, "{}": 1}
    (tmp_path / "none.csv").write_text("w\n")
    assert count_texts(tmp_path / "none.csv", "w") == {}
    with pytest.raises(InvalidInputError, match="does not exist"):
        count_texts(frame, "v")


def test_columns_without_a_name_are_no_hindrance(tmp_path: Path) -> None:
    """As in a file of pandas with its index."""
    path = tmp_path / "t.csv"
    path.write_text(",v,w,\n0,a,1,\n1,b,2,\n2,a,3,\n")
    assert count_texts(path, "v") == {"a": 2, "b": 1}
    assert read_rows(path, ["w", "v"]) == [("1", "a"), ("2", "b"), ("3", "a")]


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("secret")


STRANGE: tuple[Any, ...] = (
    1, 1.0, True, "1", 0.0, -0.0, 2.5, 10**20, 1e20, 10**5000, None, float("nan"), float("inf"), [1], {},
    b"1",
    Decimal("1.0"), Decimal("sNaN"), "\ud800", Unprintable(), "A", "a",
)  # fmt: skip


@pytest.mark.parametrize("how", [list, lambda values: pd.Series(values, dtype=object)])
def test_what_a_record_counts_as_depends_on_no_other(how: Any) -> None:
    for one in STRANGE:
        (own,) = count_texts([one]) or [None]
        for rest in ([1], [1.0, 1], [True, 1.0], ["a", 0.0, -0.0], [1e20, 10**20, None]):
            alone = count_texts(how(rest))
            for together in ([one, *rest], [*rest, one]):
                found = count_texts(how(together))
                changed = {name: found[name] - alone.get(name, 0) for name in found}
                assert {name for name, more in changed.items() if more} == {own} - {None}
                assert changed.get(own or "", 1) == 1


def test_engines_that_take_values_as_equal_keep_them_apart(tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    connection = duckdb.connect()
    connection.execute("CREATE TABLE t (w VARCHAR COLLATE NOCASE)")
    connection.execute("INSERT INTO t VALUES ('Tea'), ('tea'), ('tea'), (NULL)")
    assert count_texts(connection.table("t"), "w") == {"Tea": 1, "tea": 2}
    for values in ([-0.0, 0.0], [0.0, -0.0]):
        assert count_texts(np.array(values)) == count_texts(pl.Series(values)) == {"0": 2}
    assert count_texts(pd.DataFrame({"w": [1, 2, None]})) == {"1": 1, "2": 1}  # floats, to pandas
    with pytest.raises(InvalidInputError, match="every count in a mapping"):
        count_texts({"a": -5})
    with pytest.raises(InvalidInputError, match="Parquet, CSV"):
        count_texts(tmp_path / "w.json", "w")


def test_no_value_of_a_column_is_an_error_that_another_is_not() -> None:
    """Dates beyond year 9999 and long spans were errors one by one: their types are refused, as elsewhere."""
    import duckdb
    import polars as pl

    days = pl.Series([0, 10**7, None], dtype=pl.Int32)
    for kind in (pl.Date, pl.Datetime("ms"), pl.Duration("ms")):
        for column in (days.cast(pl.Int64).cast(kind), days[:1].cast(pl.Int64).cast(kind)):
            with pytest.raises(DataError, match="cannot be counted; turn it into text"):
                count_texts(column)
            with pytest.raises(DataError, match="cannot be counted; turn it into text"):
                read_rows(column.to_frame("v"), ["v"])
    for value in ("DATE '2020-01-01'", "NULL::TIMESTAMPTZ", "INTERVAL 100000000 MONTH", "[1]"):
        with pytest.raises(DataError, match="cannot be counted"):
            count_texts(duckdb.sql(f"SELECT {value} AS v"))
    assert count_texts(duckdb.sql("SELECT '101'::BIT AS v UNION ALL SELECT NULL")) == {"101": 1}
    assert count_texts(pl.Series([None, None])) == {}
    with pytest.raises(DataError, match="type Datetime"):
        count_texts(pd.DataFrame({"v": pd.to_datetime(["2020-01-01"])}))
    unprintable = pd.DataFrame({"v": pd.Series([Unprintable(), 1], dtype=object)})
    assert read_rows(unprintable, ["v"]) == [("<Unprintable>",), (1,)]


def test_errors_of_files_show_no_record(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_text("secret,x\na,1\nb,2,3\n")
    with pytest.raises(FileError, match="see line 3"):
        count_texts(path, "x")
    with pytest.raises(InvalidInputError, match="does not exist") as raised:
        count_texts(path, "w")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n": 5}, "leave n out of the schema"),
        ({"n": "public"}, "leave n out of the schema"),
        ({"delta": None}, "needs delta"),
        ({"values": "discovery"}, "must be a sequence"),
        ({"other": "x"}, "needs missing='exclude'"),
        ({"missing": "x"}, "needs missing='exclude'"),
        ({"public": True}, "needs missing='exclude'"),
        ({"prior": 2}, "prior cannot be used"),
        ({"mechanism": "geometric"}, "mechanism cannot be used"),
        ({"options": {"expected_false": 1}}, "options cannot be used"),
        ({"person": "p", "per_person": 1}, "needs n"),
        ({"delta": 1}, "delta"),
        ({"epsilon": "1e-9", "delta": "1e-12"}, "records to be published"),
    ],
)
def test_what_does_not_go_together_is_said_before_data_are_opened(
    options: dict[str, Any], match: str
) -> None:
    given = {"values": "discover", "epsilon": 1, "delta": "1e-6", **options}
    column = {name: given.pop(name) for name in ("values", "other", "missing", "public") if name in given}
    about = {name: given.pop(name) for name in ("n", "person", "per_person") if name in given}
    with pytest.raises((InvalidInputError, TooLargeError), match=match):
        discreet.Proportions("w", **given).request(
            discreet.Schema({"w": discreet.Category(**column)}, **about)
        )


def test_it_is_charged_and_repeated(tmp_path: Path) -> None:
    ledger = discreet.Ledger(tmp_path / "l.db")
    ledger.create("d", epsilon=2, delta="1e-5", relation="add-remove")
    charge: dict[str, Any] = {"ledger": ledger, "dataset": "d", "request_id": "q"}
    one = asked(WORDS, **charge)
    again = asked(["other"] * 500, **charge)
    assert again == one
    assert str(ledger.show("d").spent) == "ε = 1, δ = 1e-6"
    question = discreet.Proportions(epsilon=1, delta="1e-6")
    assert question.request(discreet.Schema({"w": discreet.Category("discover")})).price() == one.guarantee


def test_command_line_and_study(tmp_path: Path) -> None:
    path, out = tmp_path / "words.csv", tmp_path / "out.json"
    path.write_text("w\n" + "\n".join(word or "" for word in WORDS) + "\n")
    schema = tmp_path / "schema.toml"
    schema.write_text('[columns]\nw = "discover"\n')
    options = ["--epsilon", "1", "--delta", "1e-6", "--out", str(out)]
    run = CliRunner().invoke(app, ["proportions", str(path), str(schema), "w", *options])
    assert run.exit_code == 0, run.output
    assert "coffee" in run.output
    assert "once-" not in run.output
    shown = CliRunner().invoke(app, ["show", str(out)])
    assert "Names of levels are data" in re.sub(r"\s+", " ", shown.output)
    study = tmp_path / "s.toml"
    study.write_text(
        '[study]\ndata = "words.csv"\nepsilon = 1\ndelta = 1e-6\n[schema.columns]\nw = "discover"\n'
        '[[question]]\nid = "words"\ncolumns = "w"\nepsilon = 1\ndelta = 1e-6\n'
    )
    run = CliRunner().invoke(app, ["run", str(study), "--json"])
    assert run.exit_code == 0, run.output
    kept = json.loads((tmp_path / "s-results" / "study.json").read_text())
    assert "coffee" in json.dumps(kept)


def test_nothing_but_what_was_published_depends_on_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Discovery, "run", lambda self, counts: {"tea": 99})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        pages = {(one := asked(data)).to_json() + str(one) + report(one) for data in (WORDS, WORDS[1:], [])}
    assert len(pages) == 1
    assert len({str(one.message) for one in said}) == 1


def test_an_edited_document_is_refused() -> None:
    content = asked(WORDS).content()
    for change in (
        {"counts": {"x": 3}},
        {"threshold": 2},
        {"counts": {"b": 99, "a": 99}},
        {"counts": {"a": 99.5}},
        {"column": 3},
    ):
        with pytest.raises((ValueError, CorruptReleaseError)):
            Discovered.from_json(write_document(Discovered.format, Discovered.version, {**content, **change}))
