"""Sheets of workbooks, wherever a CSV file is taken; the packages that read them are in the extra `excel`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet.cli import main
from discreet.data import binned, clipped_sum, contingency, count_levels, read_rows, sql
from discreet.declarations import Domain
from discreet.errors import DiscreetError, FileError, InvalidInput
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
    assert count_levels(survey, SMOKER, column="smoker") == (1, 1, 1, 2)
    ages = clipped_sum(survey, column="age", bounds=(0, 100), steps=200, missing=0)
    assert (ages.n, float(ages.total)) == (5, 72.5)
    assert binned(survey, column="age", edges=(0, 40, 100), missing="level") == (2, 1, 2)
    waves = Domain((True, False, "-"), missing="-")
    assert count_levels(survey, waves, column="wave") == (2, 2, 1)
    days = Domain(("2024-05-31", "2024-05-31T12:00:00", "1900-01-01", "-"), missing="-")
    assert count_levels(survey, days, column="day") == (1, 1, 1, 2)
    assert contingency(survey, {"smoker": SMOKER, "wave": waves}).sum() == 5
    assert read_rows(survey, ["age", "smoker"])[1] == ("41.5", "yes")
    assert sql("SELECT count(smoker) FROM t", t=survey).fetchall() == [(3,)]


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
    found = discreet.release(
        "survey.xlsx", column="smoker", levels=("no", "yes", "1"), missing="exclude", epsilon=1
    )
    assert found.n == 5
    Path("study.toml").write_text(
        '[study]\ndata = "survey.xlsx#Wave #2"\n[budget]\nepsilon = 1\n[[question]]\nid = "a"\n'
        'column = "smoker"\nlevels = ["no", "yes"]\nepsilon = "0.5"\n'
    )
    for command in (
        ["run", "study.toml", "--out", "results"],
        ["release", "survey.xlsx#Wave #2", "--column", "smoker", "--levels", "no,yes", "--epsilon", "1"],
        [
            "mean",
            "survey.xlsx",
            "--column",
            "age",
            "--bounds",
            "0,100",
            "--missing",
            "exclude",
            "--epsilon",
            "1",
        ],
    ):
        with pytest.raises(SystemExit) as done:
            main(command)
        assert not done.value.code, capsys.readouterr().err


def test_a_column_is_asked_for_by_name(survey: Path) -> None:
    with pytest.raises(InvalidInput, match="which column"):
        count_levels(survey, SMOKER)
    with pytest.raises(InvalidInput, match="did you mean 'smoker'"):
        count_levels(survey, SMOKER, column="smokers")


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "t.xlsx", {"a": [HEAD, *ROWS]})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        InvalidInput, match=r"openpyxl, which reads Excel files, is not installed: pip.*excel"
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


@pytest.mark.parametrize("kind", ["torn", "no sheet", "no names", "other files", "cut"])
def test_malformed_workbooks(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    torn = f'<row r="9"><c r="A9" t="n"><v>{SECRET}</v></c></ro' if kind == "torn" else ""
    names = (None, None) if kind == "no names" else HEAD
    workbook(path, {} if kind == "no sheet" else {"a": [names, *ROWS]}, torn)
    data: Any = path
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
        with pytest.raises(DiscreetError):
            count_levels(path, Domain(("no", "yes")), column="smoker")
    assert not said
