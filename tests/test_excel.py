"""Sheets of workbooks, wherever a CSV file is taken; the packages that read them are in the extra `excel`."""

from __future__ import annotations

import sys
import time
import warnings
import zipfile
from pathlib import Path
from typing import Any

import pytest

import shorthand
from discreet._cli import main
from discreet._data import (
    clipped_sum,
    contingency,
    count_codes,
    count_levels,
    count_texts,
    read_rows,
    sql,
)
from discreet._declarations import Domain
from discreet.errors import DiscreetError, FileError, InvalidInputError, TooLargeError
from shorthand import count_bins
from workbooks import workbook

SECRET = "Zyx7secret"
HEAD = ("id", "smoker", "age", "wave", "day")
ROWS = [
    (1, "no", 30, True, ("date", 45443)),
    (2, "yes", 41.5, False, ("date", 45443.5)),
    (3, None, None, True, None),
    (None,) * 5,
    (3, "1", 1.0, False, ("date", 1)),
]
SMOKER = Domain(("no", "yes", "1", "-"), missing="-")


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    pytest.importorskip("openpyxl")
    second = [("smoker",), ("yes",), ("yes",)]
    return workbook(tmp_path / "survey.xlsx", {"Wave 1": [HEAD, *ROWS, (None,) * 5], "Wave #2": second})


def test_cells_keep_their_types(survey: Path) -> None:
    assert count_levels(survey, SMOKER, column="smoker") == (1, 1, 1, 1)
    ages = clipped_sum(survey, column="age", bounds=(0, 100), steps=200, missing=0)
    assert (ages.n, float(ages.total)) == (4, 72.5)
    assert count_bins(survey, column="age", edges=(0, 40, 100), missing="level") == (2, 1, 1)
    waves = Domain((True, False, "-"), missing="-")
    assert count_levels(survey, waves, column="wave") == (2, 2, 0)
    days = Domain(("2024-05-31", "2024-05-31T12:00:00", "1900-01-01", "-"), missing="-")
    assert count_levels(survey, days, column="day") == (1, 1, 1, 1)
    assert contingency(survey, {"smoker": SMOKER, "wave": waves}).sum() == 4
    assert read_rows(survey, ["age", "smoker"])[1] == ("41.5", "yes")
    assert sql("SELECT count(smoker) FROM t", t=survey).fetchall() == [(3,)]


@pytest.mark.parametrize("columns", [1, 2])
def test_no_record_decides_whether_another_is_one(columns: int, tmp_path: Path) -> None:
    """Nine empty rows above a record: without it, or where it says nothing, the others count as before."""
    pytest.importorskip("openpyxl")
    head, blank = HEAD[:columns], (None,) * columns
    rows = [("no",) * columns, *[blank] * 9]
    lasts: list[list[Any]] = [[], [("yes",) * columns], [blank]]
    found = [
        count_levels(
            workbook(tmp_path / f"{i}.xlsx", {"a": [head, *rows, *last]}),
            Domain(("no", "yes", "-"), missing="-"),
            column=head[-1],
        )
        for i, last in enumerate(lasts)
    ]
    assert found == [(1, 0, 0), (1, 1, 0), (1, 0, 0)]


def _edited(path: Path, old: str, new: str, part: str = "xl/worksheets/sheet1.xml") -> Path:
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, text.replace(old, new) if name == part else text)
    return path


def test_hostile_workbooks_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row far below, entities of entities, a file of another machine, more than there is room for."""
    pytest.importorskip("openpyxl")

    def made(old: str, new: str) -> Path:
        return _edited(workbook(tmp_path / "t.xlsx", {"a": [("smoker",), ("no",), ("yes",)]}), old, new)

    def refused(path: Path, message: str) -> None:
        with pytest.raises((FileError, TooLargeError), match=message) as caught:
            count_levels(path, SMOKER, column="smoker")
        assert "yes" not in str(caught.value)

    monkeypatch.setattr("discreet._data.excel._MOST_ROWS", 1000)  # of 2²⁰, which take a second
    refused(made('<row r="3"', f'<row r="{10**6}"'), "a row beyond 1,000")
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    laughs = f'<!DOCTYPE w [<!ENTITY e0 "yes">{entities}]><worksheet'
    path = _edited(made(">yes<", ">&e11;<"), "<worksheet", laughs)
    refused(path, "not a well-formed")
    outside = '<!DOCTYPE w [<!ENTITY e SYSTEM "file:///etc/hostname">]><worksheet'
    refused(_edited(made(">yes<", ">&e;<"), "<worksheet", outside), "not a well-formed")
    monkeypatch.setattr("discreet._data.excel._MOST_BYTES", 10_000)
    refused(made("</sheetData>", " " * 10_000 + "</sheetData>"), "unpacks to over")
    wide = tmp_path / "wide.xlsx"
    head = tuple(f"c{i}" for i in range(26))
    workbook(wide, {"a": [head, *[(None,) * 25 + (1,)] * 8]})
    count_levels(wide, Domain((1, 2)), column="c25")
    workbook(wide, {"a": [head, *[(None,) * 25 + (1,)] * 80]})
    monkeypatch.setattr("discreet._data.excel._MOST_BYTES", 12_500)
    refused(wide, "unpacks to over")


def test_a_small_file_of_many_cells_is_refused_at_once(tmp_path: Path) -> None:
    """24 kB took a minute or 860 MB: rows, cells, styles or texts, repeated a million times."""
    pytest.importorskip("openpyxl")
    sheet, styles, types = "xl/worksheets/sheet1.xml", "xl/styles.xml", "[Content_Types].xml"
    for old, new, part in (
        ("</sheetData>", "<row/>", sheet),
        ("</cellXfs>", "<xf/>", styles),
        ("</Types>", "<a/>", types),
    ):
        path = workbook(tmp_path / "bomb.xlsx", {"a": [("smoker",), ("yes",)]})
        bomb = _edited(path, old, new * 9_000_000 + old, part)
        assert bomb.stat().st_size < 300_000
        began = time.process_time()
        with pytest.raises(TooLargeError, match="2 million cells"):
            count_levels(bomb, SMOKER, column="smoker")
        assert time.process_time() - began < 2


def test_columns_of_one_name_are_not_taken_for_each_other(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    for names in (("a", "a"), ("a", "A")):
        book = workbook(tmp_path / "t.xlsx", {"a": [names, ("no", "yes")]})
        text = tmp_path / "t.csv"
        text.write_text(f"{','.join(names)}\nno,yes\n")
        for path in (book, text):
            for read in (
                lambda path: read_rows(path, ["a"]),
                lambda path: count_texts(path, "a"),
                lambda path: sql("SELECT a FROM t", t=path),
            ):
                with pytest.raises(FileError, match="two column names differ only"):
                    read(path)


def test_a_number_is_the_code_that_it_prints_as(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = workbook(tmp_path / "t.xlsx", {"a": [("a",), ("3",), ("03",), ("3.0",), (3,), (3.5,), (None,)]})
    _edited(path, "<v>3</v>", "<v>3.0E0</v>")
    assert count_levels(path, Domain(("3", "o"), other="o"), column="a") == (2, 3)
    assert count_codes(path, range(2, 10**9), "a", strict=False) == {1: 2}


def test_of_a_formula_the_saved_value_counts(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = workbook(tmp_path / "t.xlsx", {"a": [("id", "a"), (1, 7), (2, 8)]})
    _edited(path, "<v>7</v>", "<f>3+4</f><v>7</v>")
    _edited(path, "<v>8</v>", "<f>4+4</f>")
    assert count_levels(path, Domain(("7", "-"), missing="-"), column="a") == (1, 1)


def test_what_a_workbook_says_of_itself_is_not_believed(survey: Path, tmp_path: Path) -> None:
    """Which sheet was open last, and how far one reaches."""
    _edited(
        survey, "<sheets>", '<bookViews><workbookView activeTab="1"/></bookViews><sheets>', "xl/workbook.xml"
    )
    assert count_levels(survey, SMOKER, column="smoker") == (1, 1, 1, 1)
    _edited(survey, "<sheetData>", '<dimension ref="A1:B2"/><sheetData>')
    assert count_levels(survey, SMOKER, column="smoker") == (1, 1, 1, 1)


def test_an_empty_text_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = workbook(tmp_path / "t.xlsx", {"a": [("id", "a"), (1, ""), (2, "x"), (3, None), ("", "")]})
    assert count_levels(path, Domain(("x", "-"), missing="-"), column="a") == (1, 2)


def test_people_are_told_apart_by_numbers(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = workbook(tmp_path / "t.xlsx", {"a": [HEAD[:2], (1, "no"), (1, "no"), (2, "yes")]})
    assert count_levels(path, SMOKER, column="smoker", person="id", per_person=1) == (1, 1, 0, 0)


def test_a_sheet_by_its_name(survey: Path) -> None:
    assert count_levels(f"{survey}#Wave #2", Domain(("no", "yes")), column="smoker") == (0, 2)
    with pytest.raises(FileError, match=r"no sheet 'Wave 3'; its sheets are: 'Wave 1', 'Wave #2'"):
        count_levels(f"{survey}#Wave 3", SMOKER, column="smoker")


def test_everything_that_takes_a_file_takes_a_sheet(
    survey: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = shorthand.shares(
        "survey.xlsx", column="smoker", levels=("no", "yes", "1"), missing="exclude", epsilon=1
    )
    assert found.n == 4
    columns = '[schema.columns]\nsmoker = ["no", "yes"]\nage = {low = 0, high = 100, missing = "exclude"}\n'
    Path("study.toml").write_text(
        '[study]\ndata = "survey.xlsx#Wave #2"\nepsilon = 1\n[schema]\n' + columns + "[[question]]\n"
        'id = "a"\ncolumns = ["smoker"]\nepsilon = "0.5"\n'
    )
    Path("schema.toml").write_text(columns)
    for command in (
        ["run", "study.toml", "--out", "results"],
        ["proportions", "survey.xlsx#Wave #2", "schema.toml", "smoker", "--epsilon", "1"],
        ["mean", "survey.xlsx", "schema.toml", "age", "--epsilon", "1"],
        ["schema", "survey.xlsx#Wave #2"],
    ):
        with pytest.raises(SystemExit) as done:
            main(command)
        assert not done.value.code, capsys.readouterr().err


def test_a_column_is_asked_for_by_name(survey: Path) -> None:
    with pytest.raises(InvalidInputError, match="column is missing"):
        count_levels(survey, SMOKER)
    with pytest.raises(InvalidInputError, match="did you mean 'smoker'"):
        count_levels(survey, SMOKER, column="smokers")


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "t.xlsx", {"a": [HEAD, *ROWS]})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        InvalidInputError, match=r"openpyxl, which reads Excel files, is not installed: pip.*excel"
    ):
        count_levels(path, SMOKER, column="smoker")


def test_what_is_no_workbook(tmp_path: Path) -> None:
    old = tmp_path / "old.xls"
    old.write_bytes(b"\xd0\xcf\x11\xe0")
    locked = tmp_path / "locked.xlsx"
    locked.write_bytes(b"\xd0\xcf\x11\xe0")
    text = tmp_path / "text.xlsx"
    text.write_text(f"smoker\n{SECRET}\n")
    cases: dict[Any, str] = {
        old: "save it as .xlsx",
        locked: "has a password",
        text: "not an .xlsx file",
        f"{tmp_path}/none.xlsx#a": "No such file",
    }
    for data, message in cases.items():
        with pytest.raises(FileError, match=message) as caught:
            count_levels(data, SMOKER, column="smoker")
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize("kind", ["torn", "no number", "no sheet", "no names", "other files", "cut"])
def test_malformed_workbooks(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    torn = f'<row r="9"><c r="A9" t="n"><v>{SECRET}</v></c></ro' if kind == "torn" else ""
    names = (None, None) if kind == "no names" else HEAD
    workbook(path, {} if kind == "no sheet" else {"a": [names, *ROWS]}, torn)
    data: Any = path
    if kind == "no number":  # Python quotes what it cannot read
        _edited(path, "<v>41.5</v>", f"<v>{SECRET}</v>")
    if kind == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    if kind == "other files":
        data = [path, workbook(tmp_path / "u.xlsx", {"a": [("other",), (SECRET,)]})]
    with pytest.raises(DiscreetError) as caught:
        count_levels(data, SMOKER, column="smoker")
    assert isinstance(caught.value, FileError)
    assert SECRET not in str(caught.value)


def test_no_warning_of_a_cell(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = workbook(tmp_path / "t.xlsx", {"a": [("smoker",), (("date", 98765432123),)]})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        with pytest.raises(DiscreetError):
            count_levels(path, Domain(("no", "yes")), column="smoker")
    assert not said
