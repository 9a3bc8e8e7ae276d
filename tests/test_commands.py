"""Commands made from questions: every kind from the command line, also one that only this test knows."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
from typer.main import get_command

import discreet
from discreet._registry import COMMANDS, DOCUMENTS, FAMILIES, MECHANISMS, QUESTIONS
from discreet.cli import app, main
from discreet.declarations import as_epsilon
from discreet.documents.answer import Answer, Part, Row, Table, Words, load_answer
from discreet.mechanisms.independent import LSHist
from discreet.posterior_sampling.families.rates import Poisson
from discreet.privacy.guarantee import Guarantee
from discreet.questions.base import Bound, Question, parameter
from discreet.questions.text import BUDGET, FLAG, LEVELS, TEXT, WHOLE, plan_in_words

WRITTEN = Path(__file__).parent / "fixtures" / "0.1.0"
LEDGER = ("--ledger", "l.db", "--dataset", "survey")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    lines = ["id,sex,smoker,age,region"]
    for i in range(240):
        smoker = ("no", "no", "yes, daily")[i % 3]
        lines.append(f'{i // 2},{"fm"[i % 2]},"{smoker}",{20 + i % 60},{("north", "south")[i % 4 == 0]}')
    Path("survey.csv").write_text("\n".join(lines) + "\n")

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return command


def become_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output is a terminal of 80 columns from now on."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "50")
    monkeypatch.setenv("TERM", "dumb")


# A question, a mechanism and a family that only this test knows.


@dataclass(frozen=True)
class Total(Answer):
    format: ClassVar[str] = "test/total"

    column: str
    value: int
    noise: Fraction
    guarantee: Guarantee

    def cost(self) -> Guarantee:
        return Guarantee(self.noise)

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        guarantee = Guarantee.from_dict(content["guarantee"])
        return cls(str(content["column"]), int(content["value"]), Fraction(content["noise"]), guarantee)

    def rows(self, interval: float = 0.95) -> list[Row]:
        return [Row(self.column, self.value, low=self.value - 1, high=self.value + 1)]

    def words(self) -> Words:
        return Words(
            "A total of a test", f"Total of {self.column}", notes=("A note.",), warnings=("Doubt it.",)
        )

    def tables(self) -> tuple[Table, ...]:
        return (Table(("what", "how"), (("a cell", "another"),), "A caption:"),)

    def parts(self) -> tuple[Part, ...]:
        return (Part("A part without records", None, "Nothing is known of it."),)


@dataclass(frozen=True, kw_only=True)
class Totalling(Question):
    kind: ClassVar[str] = "totalling"
    command: ClassVar[str] = "total"
    verb: ClassVar[str] = "total"
    title: ClassVar[str] = "Total of a test"
    sentence: ClassVar[str] = "Say how many records hold one of the marks, whatever that takes."

    column: str = parameter(TEXT, "The column.", example="smoker")
    epsilon: Any = parameter(BUDGET, "The price.", example="1/2")
    marks: tuple[str, ...] = parameter(LEVELS, "What is counted.", example="a,b")
    at_most: int | None = parameter(WHOLE, "A bound.", default=None)
    doubled: bool = parameter(FLAG, "Count twice.", default=False)
    twist: str = parameter(TEXT, "How it is twisted.", default="left", choices=("left", "right"))

    def __post_init__(self) -> None:
        as_epsilon(self.epsilon)

    def read(self, data: Any) -> int:
        with Path(data).open(encoding="utf-8", newline="") as file:
            return sum(row[self.column] in self.marks for row in csv.DictReader(file))

    def size_of(self, statistic: int) -> int:
        return statistic

    @property
    def declared_size(self) -> int | None:
        return self.at_most

    def bind(self, size: int) -> Bound:
        price = as_epsilon(self.epsilon)
        promise = Guarantee(price)
        return Bound(promise, lambda found: Total(self.column, found * (1 + self.doubled), price, promise))


@dataclass(frozen=True)
class Copied(LSHist):
    name: ClassVar[str] = "copied"
    words: ClassVar[str] = "does what lshist does, under another name"


@dataclass(frozen=True)
class Visits(Poisson):
    name: ClassVar[str] = "visits"


THROWN_AWAY = (
    (DOCUMENTS, Total.format, Total),
    (QUESTIONS, Totalling.kind, Totalling),
    (MECHANISMS, Copied.name, Copied),
    (FAMILIES, Visits.name, Visits),
)


@pytest.fixture
def thrown_away() -> Iterator[None]:
    for registry, _, thing in THROWN_AWAY:
        registry.register(thing)
    yield
    for registry, kind, _ in THROWN_AWAY:
        registry.unregister(kind)


TARGET = ("--epsilon", "1", "--delta", "1e-6")
KINDS: dict[str, tuple[str, ...]] = {
    "release": ("--column", "smoker", "--levels", "no", "--level", "yes, daily", "--epsilon", "1"),
    "table": ("--columns", "sex=f,m; region=north,south", "--epsilon", "1", "--mechanism", "lshist"),
    "conditional": (
        *("--outcome", "sex", "--given", "region", "--levels", "f,m", "--group", "north", "--group", "south"),
        *("--epsilon", "1", "--sizes", "180,60"),
    ),
    "network": (
        *("--levels", "sex=f,m; region=north,south", "--parents", "sex=region", "--epsilon", "1"),
        *("--n", "240"),
    ),
    "sample": (
        *("--family", "gaussian", "--column", "age", "--bounds", "0,120", "--sigma", "20"),
        *("--prior", "40,30", *TARGET, "--draws", "2", "--method", "concentrated"),
    ),
    "query": (
        *("--column", "age", "--bounds", "0,120", *TARGET),
        *("--person", "id", "--per-person", "2", "--n", "240"),
    ),
    "logistic": (
        *("--outcome", "smoker", "--class", "no", "--class", "yes, daily"),
        *("--features", "age=0,120", *TARGET),
    ),
    "mean": ("--column", "age", "--bounds", "0,120", "--epsilon", "1", "--by", "sex", "--levels", "f,m"),
    "regress": (
        *("--formula", "age ~ C(sex)", "--bounds", "age=0,120", "--levels", "sex=f,m", *TARGET),
        *("--n", "240"),
    ),
}


def test_every_kind_is_tried() -> None:
    assert set(KINDS) == {command for command, _ in COMMANDS.values()}


@pytest.mark.parametrize("command", KINDS)
def test_every_kind_from_file_to_report(command: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    asked = (command, "survey.csv", *KINDS[command])
    protects = {"query": ("replace-person", "--unit", "id"), "conditional": ("within-group",)}
    relation = ("--relation", *protects.get(command, ("replace-one",)))
    assert (
        run("ledger", "create", "survey", "--epsilon", "2", "--delta", "1e-5", *relation, "--ledger", "l.db")[
            0
        ]
        == 0
    )
    charge = (*asked, *LEDGER, "--request-id", "q")
    code, printed, said = run(*charge, "--out", "a.json")
    assert code == 0, said
    assert "Charged: ε = 1" in said
    assert said.endswith("Saved to a.json\n")
    answer = load_answer(Path("a.json").read_text())
    assert answer.words().headline.split()[0] in printed
    code, shown, _ = run("show", "a.json")
    assert (code, shown) == (0, printed)
    assert max(map(len, shown.splitlines())) <= 80

    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    os.rename("survey.csv", "moved.csv")
    code, stored, said = run(*charge, "--json")  # a retry opens no data
    assert code == 0, said
    assert json.loads(stored) == json.loads(Path("a.json").read_text())
    assert json.loads(said)["receipt"]["repeated"] is True
    assert run("show", "a.json")[1] == answer.summary() + "\n"
    table = json.loads(run("show", "a.json", "--json")[1])["table"]
    assert table or answer.tables()
    assert run("report", "a.json", "--out", "a.html", "--ledger", "l.db")[0] == 0
    assert "<html" in Path("a.html").read_text()
    history = run("ledger", "history", "survey", "--ledger", "l.db")[1].splitlines()
    assert QUESTIONS[next(kind for kind in COMMANDS if COMMANDS[kind][0] == command)].title in history[-1]
    os.rename("moved.csv", "survey.csv")
    assert run(*asked, *LEDGER, "--request-id", "q", "--epsilon", "1/2")[0] == 7
    assert run(*asked, *LEDGER, "--request-id", "other", "--nothing")[0] == 2
    assert run("ledger", "verify", "--ledger", "l.db")[0] == 0
    assert run("ledger", "price", "survey", "--epsilon", "1/100", "--ledger", "l.db")[0] == 0


def test_every_field_is_an_option_and_nothing_else(thrown_away: None) -> None:
    commands = get_command(app)
    common = {"--glob", "--format", "--ledger", "--dataset", "--request-id", "--out", "--force", "--json"}
    common |= {"--acknowledge-large-delta"}
    single = {"--levels": "--level", "--groups": "--group", "--classes": "--class", "--marks": "--mark"}
    for kind in QUESTIONS:
        question = QUESTIONS[kind]
        command = commands.get_command(None, question.command or kind)
        options = {name: one for one in command.params for name in one.opts if name.startswith("-")}
        fields = {one.option: one for one in question.parameters() if not one.python}
        literal = {single[name] for name, one in fields.items() if one.form is LEVELS}
        assert set(options) == {*fields, *literal, *common}, kind
        for name, one in fields.items():
            assert one.help in options[name].help
            assert ("[required]" in options[name].help) == one.required


def test_the_table_of_commands_is_that_of_the_questions() -> None:
    assert {kind: (one.command or kind, one.sentence) for kind, one in QUESTIONS.items()} == COMMANDS


def test_a_question_of_ones_own(thrown_away: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    code, text, _ = run("--help")
    assert (code, "total         Say how many" in text) == (0, True)
    code, text, _ = run("total", "--help")
    assert "--twist left|right" in text
    assert "--doubled" in text
    run("ledger", "create", "survey", "--epsilon", "1", "--ledger", "l.db")
    asked = ("total", "survey.csv", "--column", "smoker", "--epsilon", "1/2", "--mark", "yes, daily")
    code, printed, said = run(*asked, "--doubled", *LEDGER, "--request-id", "t", "--out", "t.json")
    assert code == 0, said
    for part in ("A total of a test", "Doubt it.", "160", "A caption:", "another", "Nothing is known of it."):
        assert part in printed
    assert run("show", "t.json")[1] == printed
    code, again, said = run(*asked, "--doubled", *LEDGER, "--request-id", "t", "--json")
    assert (code, json.loads(again)["release"]["value"]) == (0, 160)
    assert json.loads(said)["receipt"]["repeated"] is True
    assert run(*asked, *LEDGER, "--request-id", "t")[0] == 7
    for bad, message in (
        (("--twist", "rihgt"), "did you mean 'right'"),
        (("--at-most", "few"), "--at-most 'few' must be a whole number"),
        (("--column", ""), "--column is empty"),
    ):
        code, _, said = run(*asked, *bad)
        assert (code, message in said) == (2, True), said
    assert run("total", "survey.csv", "--column", "smoker")[0] == 2
    assert "Total of a test" in run("ledger", "history", "survey", "--ledger", "l.db")[1]


def test_a_field_that_every_command_has_is_refused(run: Run) -> None:
    @QUESTIONS.register
    @dataclass(frozen=True, kw_only=True)
    class Clash(Totalling):
        kind: ClassVar[str] = "clash"
        command: ClassVar[str] = "clash"
        out: str = parameter(TEXT, "Where to.", default="")

    try:
        code, _, said = run("clash", "survey.csv")
        assert (code, "every command has --out" in said) == (2, True)
    finally:
        QUESTIONS.unregister("clash")


def test_a_mechanism_and_a_family_of_ones_own(thrown_away: None, run: Run) -> None:
    assert "copied" in run("mechanisms")[1]
    asked = ("release", "survey.csv", "--column", "sex", "--levels", "f,m", "--epsilon", "1/4")
    run("ledger", "create", "survey", "--epsilon", "2", "--delta", "1e-5", "--ledger", "l.db")
    code, printed, said = run(*asked, "--mechanism", "copied", *LEDGER, "--out", "c.json")
    assert (code, "mechanism copied" in printed) == (0, True), said
    assert run("show", "c.json")[1] == printed
    assert run("report", "c.json", "--out", "c.html")[0] == 0
    assert run("audit", "copied", "--prior", "1,1", "--n", "10", "--epsilon", "1")[0] == 0
    drawn = (
        "sample",
        "survey.csv",
        "--column",
        "age",
        "--family",
        "visits",
        "--bounds",
        "0,100",
        "--prior",
        "2,1",
    )
    code, printed, said = run(*drawn, *TARGET, *LEDGER, "--out", "v.json")
    assert (code, "visits" in printed) == (0, True), said
    assert run("show", "v.json")[1] == printed
    assert run("report", "v.json", "--out", "v.html")[0] == 0


def test_an_unknown_command_names_the_nearest(run: Run) -> None:
    code, _, said = run("relaese", "survey.csv")
    assert (code, "did you mean 'release'?" in said) == (2, True)
    code, _, said = run("ledger", "shwo")
    assert (code, "did you mean 'show'?" in said) == (2, True)


# Eighty columns.


def test_help_fits_and_is_not_cut(run: Run, thrown_away: None) -> None:
    group = get_command(app)
    names = [(), *((name,) for name in group.list_commands(None)), ("ledger", "history"), ("ledger", "price")]
    for command in names:
        if command == ("reproduce",):
            continue
        code, text, _ = run(*command, "--help")
        assert code == 0
        assert max(map(len, text.splitlines())) <= 80, command
        assert not re.search(r"\w\.\.\.", text.replace("NAME...", "")), command
    whole = " ".join(run("--help")[1].split())
    for _, sentence in COMMANDS.values():
        assert sentence.rstrip(".") in whole


DOCUMENTS_0_1_0 = (
    "release-unicode",
    "release-many-levels",
    "release-table",
    "release-conditional",
    "logistic-two",
    "logistic-three",
    "sample-dirichlet-draws",
)


@pytest.mark.parametrize("name", DOCUMENTS_0_1_0)
def test_what_0_1_0_wrote_fits_a_terminal(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    from rich.cells import cell_len

    path = WRITTEN / "documents" / f"{name}.json"
    code, text, _ = run("show", path)
    assert code == 0
    assert max(map(cell_len, text.splitlines())) <= 80
    answer = load_answer(path.read_text("utf-8"))
    shown = " ".join(text.split())
    for table in answer.tables():
        assert all(name in shown for name in table.header)
        assert all(cell in shown for row in table.cells for cell in row)
    code, document, _ = run("show", path, "--json")
    assert json.loads(document)["format"] == json.loads(path.read_text("utf-8"))["format"]


# The history of a ledger.


@pytest.mark.parametrize("name", ["pure", "approximate", "zcdp", "relations"])
def test_the_history_of_0_1_0_is_told_in_words(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    book = WRITTEN / "ledgers" / f"{name}.db"
    Path("l.db").write_bytes(book.read_bytes())
    with discreet.Ledger("l.db") as ledger:
        for dataset in ledger.datasets():
            code, text, _ = run("ledger", "history", dataset, "--ledger", "l.db")
            assert code == 0
            assert max(map(len, text.splitlines())) <= 80
            for entry in ledger.history(dataset):
                words = set(plan_in_words(entry.plan or {}).split()) if entry.plan else {"cap"}
                assert words | set((entry.request_id or "").split()) <= set(text.split())


def test_history_says_what_was_asked_and_can_be_filtered_and_exported(run: Run) -> None:
    book = ("--ledger", "l.db")
    assert run("ledger", "create", "survey", "--epsilon", "2", *book)[0] == 0
    release = ("release", "survey.csv", "--column", "sex", "--levels", "f,m", "--epsilon", "1/2", *LEDGER)
    assert run(*release, "--request-id", "sex", "--options", "")[0] == 2
    assert run(*release, "--request-id", "sex")[0] == 0
    assert run("table", "survey.csv", *KINDS["table"], *LEDGER, "--request-id", "cells")[0] == 0
    history = ("ledger", "history", "survey", *book)
    header, created, sex, cells = run(*history)[1].splitlines()
    assert header.split("  ")[-1] == "what was asked"
    assert "Created: cap ε = 2, replace-one" in created
    assert "Proportions – column: sex; levels: f, m" in sex
    assert "ε = 0.5  ε = 0.5" in sex
    assert "ε = 1    ε = 1.5" in cells
    assert "Table – columns and their levels: sex (f, m), region (north, south); mechanism: lshist" in cells
    assert run(*history, "--kind", "table")[1].splitlines()[1].split() == cells.split()
    assert len(run(*history, "--kind", "proportion", "--kind", "create")[1].splitlines()) == 3
    assert run(*history, "--kind", "tabel")[0] == 2
    assert len(run(*history, "--since", "2020-01-01", "--until", "2999-12-31")[1].splitlines()) == 4
    assert run(*history, "--since", "2999-01-01")[1:] == ("", "no entries\n")
    assert run(*history, "--until", "2020-01-01T12:00")[1:] == ("", "no entries\n")
    assert run(*history, "--since", "yesterday")[0] == 2
    listed = json.loads(run(*history, "--kind", "charge", "--json")[1])["entries"]
    assert [entry["request_id"] for entry in listed] == ["sex", "cells"]
    assert run(*history, "--csv", "h.csv")[2] == "Saved to h.csv\n"
    rows = list(csv.DictReader(io.StringIO(Path("h.csv").read_text("utf-8"))))
    assert [row["request"] for row in rows] == ["–", "sex", "cells"]
    assert rows[1]["hash"] == listed[0]["hash"]
    assert run(*history, "--csv", "h.csv")[0] == 4


def test_plans_of_any_kind_have_words() -> None:
    assert plan_in_words({"question": "by hand", "nested": {"a": True, "b": None}, "parts": []}) == (
        "By hand – nested: a yes"
    )
    assert plan_in_words({"question": "bytes"}) == "Bytes"
    asked = QUESTIONS["proportion"](column="x", levels=("a", "b"), epsilon=Fraction(1, 3), n=7)
    assert plan_in_words({**asked.plan(), "data": "x.csv"}) == (
        "Proportions – number of records n: 7; column: x; levels: a, b; data: x.csv"
    )


def test_python_m_discreet() -> None:
    words = [sys.executable, "-m", "discreet", "version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.startswith("discreet ")
