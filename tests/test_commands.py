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

import numpy as np
import pytest
from typer.main import get_command

import discreet
from discreet._cli import app, main
from discreet._documents.answer import Answer, load_answer
from discreet._documents.parts import Row, Table, Words
from discreet._registry import DOCUMENTS, FAMILIES, MECHANISMS, QUESTIONS, SENTENCES
from discreet.mechanisms.independent import LSHist
from discreet.posterior_sampling.families.rates import Poisson
from discreet.privacy.guarantee import Guarantee
from discreet.questions._request import PricedRequest, Request
from discreet.questions._text import FLAG, NAMES, TEXT, WHOLE, optional, parameter, plan_in_words
from discreet.questions.base import Question
from discreet.schema import Schema

WRITTEN = Path(__file__).parent / "fixtures" / "0.1.0"
LEDGER = ("--ledger", "l.db", "--dataset", "survey")
COLUMNS = """[columns]
sex = ["f", "m"]
smoker = ["no", "yes, daily"]
age = [0, 120]
region = ["north", "south"]
"""
SCHEMA = f"n = 240\n{COLUMNS}"
SCHEMAS = {
    "within groups": "sizes = {region = {north = 180, south = 60}}\n"
    + SCHEMA.replace('["north", "south"]', '{values = ["north", "south"], public = true}'),
    "draw of a person": f'person = "id"\nper_person = 2\n{SCHEMA}',
}
"""Those that differ from the plain one."""

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
    Path("schema.toml").write_text(SCHEMA)

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


@dataclass(frozen=True, repr=False)
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

    def _rows(self, level: float) -> list[Row]:
        return [Row(self.column, self.value, low=self.value - 1, high=self.value + 1)]

    def draws(self, size: int = 4000, seed: int | None = None) -> Any:
        return np.full((size, 1), float(self.value))

    @property
    def warnings(self) -> tuple[str, ...]:
        return ("Doubt it.",)

    def words(self) -> Words:
        return Words("A total of a test", f"Total of {self.column}", notes=("A note.",))

    def tables(self) -> tuple[Table, ...]:
        return (Table(("what", "how"), (("a cell", "another"),), "A caption:"),)


@dataclass(frozen=True, kw_only=True)
class Totalled(Request):
    question: Totalling

    @property
    def declared_size(self) -> int | None:
        return self.question.at_most

    def read(self, data: Any) -> int:
        asked = self.question
        with Path(data).open(encoding="utf-8", newline="") as file:
            return sum(row[asked.column] in asked.marks for row in csv.DictReader(file))

    def size_of(self, statistic: int) -> int:
        return statistic

    def bind(self, size: int) -> PricedRequest:
        asked, price = self.question, self.question.exact_epsilon
        promise = Guarantee(price)
        return PricedRequest(
            promise, lambda found: Total(asked.column, found * (1 + asked.doubled), price, promise)
        )


@dataclass(frozen=True)
class Totalling(Question):
    kind: ClassVar[str] = "total"
    title: ClassVar[str] = "Total of a test"
    sentence: ClassVar[str] = "Say how many records hold one of the marks, whatever that takes."

    column: str = parameter(TEXT, "The column.", example="smoker")
    marks: tuple[str, ...] = parameter(NAMES, "What is counted.", example="a,b", kw_only=True)
    at_most: int | None = optional(WHOLE, "A bound.", kw_only=True)
    doubled: bool = parameter(FLAG, "Count twice.", default=False, kw_only=True)
    twist: str = parameter(
        TEXT, "How it is twisted.", default="left", choices=("left", "right"), kw_only=True
    )

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        return (self.column,)

    def request(self, schema: Schema) -> Request:
        _ = self.exact_epsilon, schema.category(self.column)
        return Totalled(schema=schema, question=self)


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
    "values": ("proportions", "smoker", "--epsilon", "1"),
    "table": ("proportions", "sex", "region", "--epsilon", "1", "--mechanism", "lshist"),
    "within groups": ("proportions", "sex", "--by", "region", "--epsilon", "1"),
    "network": ("network", "sex=region", "--epsilon", "1"),
    "draw": (
        *("draw", "age", "--family", "gaussian", "--options", "sigma=20; draws=2", "--prior", "40,30"),
        *(*TARGET, "--method", "concentrated"),
    ),
    "draw of a person": ("draw", "age", *TARGET),
    "draw of coefficients": ("draw", "smoker ~ age", *TARGET),
    "mean": ("mean", "age", "--by", "sex", "--epsilon", "1"),
    "quantiles": ("quantiles", "age", "--probs", "0.1, 0.5", "--epsilon", "1"),
    "survival": ("survival", "age", "--event", "sex", "--bins", "10", "--epsilon", "1"),
    "regress": ("regress", "age ~ sex", *TARGET),
}


def test_every_kind_is_tried() -> None:
    assert {command for command, *_ in KINDS.values()} == set(QUESTIONS)


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_from_file_to_report(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    command, *rest = KINDS[name]
    Path("schema.toml").write_text(SCHEMAS.get(name, SCHEMA))
    asked = (command, "survey.csv", "schema.toml", *rest)
    protects = {"draw of a person": ("replace-person", "--unit", "id"), "within groups": ("within-group",)}
    relation = ("--relation", *protects.get(name, ("replace-one",)))
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
    assert run("report", "a.json", "./a.json", "--out", "b.html")[0] == 2  # one heading for two
    Path("b.json").write_text(Path("a.json").read_text())
    assert run("report", "a.json", "b.json", "--out", "b.html")[0] == 0
    assert all(f"<h2>{name}</h2>" in Path("b.html").read_text() for name in "ab")
    history = run("ledger", "history", "survey", "--ledger", "l.db")[1].splitlines()
    assert QUESTIONS[command].title in history[-1]
    os.rename("moved.csv", "survey.csv")
    assert run(*asked, *LEDGER, "--request-id", "q", "--epsilon", "1/2")[0] == 7
    assert run(*asked, *LEDGER, "--request-id", "other", "--nothing")[0] == 2
    assert run("ledger", "verify", "--ledger", "l.db")[0] == 0
    assert run("ledger", "price", "survey", "--epsilon", "1/100", "--ledger", "l.db")[0] == 0


def test_every_field_is_an_option_and_nothing_else(thrown_away: None) -> None:
    commands = get_command(app)
    common = {"--glob", "--format", "--ledger", "--dataset", "--request-id", "--out", "--force", "--json"}
    common |= {"--acknowledge-large-delta"}
    for kind in QUESTIONS:
        question = QUESTIONS[kind]
        command = commands.get_command(None, kind)
        options = {name: one for one in command.params for name in one.opts if name.startswith("-")}
        written = [one for one in question.parameters() if not one.python]
        fields = {one.option: one for one in written if one.name != question.subject()}
        assert set(options) == {*fields, *common}, kind
        arguments = [one.name for one in command.params if not one.opts[0].startswith("-")]
        assert arguments == ["file", "schema", question.subject()]
        for name, one in fields.items():
            assert one.help in options[name].help
            assert ("[required]" in options[name].help) == one.required


def test_the_table_of_sentences_is_that_of_the_questions() -> None:
    assert {kind: one.sentence for kind, one in QUESTIONS.items()} == SENTENCES


def test_a_question_of_ones_own(thrown_away: None, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    code, text, _ = run("--help")
    assert (code, bool(re.search("total +Say how many", text))) == (0, True)
    code, text, _ = run("total", "--help")
    assert "--twist left|right" in text
    assert "--doubled" in text
    run("ledger", "create", "survey", "--epsilon", "1", "--ledger", "l.db")
    asked = ("total", "survey.csv", "schema.toml", "smoker", "--epsilon", "1/2", "--marks", "no")
    code, printed, said = run(*asked, "--doubled", *LEDGER, "--request-id", "t", "--out", "t.json")
    assert code == 0, said
    for part in ("A total of a test", "Doubt it.", "320"):
        assert part in printed
    assert run("report", "t.json", "--out", "t.html")[0] == 0
    for part in ("A caption:", "another", "A note."):
        assert part in Path("t.html").read_text("utf-8")
    assert run("show", "t.json")[1] == printed
    code, again, said = run(*asked, "--doubled", *LEDGER, "--request-id", "t", "--json")
    assert (code, json.loads(again)["release"]["value"]) == (0, 320)
    assert json.loads(said)["receipt"]["repeated"] is True
    assert run(*asked, *LEDGER, "--request-id", "t")[0] == 7
    for bad, message in (
        (("--twist", "rihgt"), "did you mean 'right'"),
        (("--at-most", "few"), "--at-most 'few' must be a whole number"),
        (("--marks", ""), "--marks is empty"),
    ):
        code, _, said = run(*asked, *bad)
        assert (code, message in said) == (2, True), said
    assert run("total", "survey.csv", "schema.toml", "smoker")[0] == 2
    assert "Total of a test" in run("ledger", "history", "survey", "--ledger", "l.db")[1]


def test_a_field_that_every_command_has_is_refused(run: Run) -> None:
    @QUESTIONS.register
    @dataclass(frozen=True)
    class Clash(Totalling):
        kind: ClassVar[str] = "clash"
        out: str = parameter(TEXT, "Where to.", default="", kw_only=True)

    try:
        code, _, said = run("clash", "survey.csv")
        assert (code, "every command has --out" in said) == (2, True)
    finally:
        QUESTIONS.unregister("clash")


def test_a_mechanism_and_a_family_of_ones_own(thrown_away: None, run: Run) -> None:
    assert "copied" in run("mechanisms")[1]
    asked = ("proportions", "survey.csv", "schema.toml", "sex", "--epsilon", "1/4")
    run("ledger", "create", "survey", "--epsilon", "2", "--delta", "1e-5", "--ledger", "l.db")
    code, printed, said = run(*asked, "--mechanism", "copied", *LEDGER, "--out", "c.json")
    assert (code, "mechanism copied" in printed) == (0, True), said
    assert run("show", "c.json")[1] == printed
    assert run("report", "c.json", "--out", "c.html")[0] == 0
    assert run("audit", "copied", "--prior", "1,1", "--n", "10", "--epsilon", "1")[0] == 0
    drawn = ("draw", "survey.csv", "schema.toml", "age", "--family", "visits", "--prior", "2,1")
    code, printed, said = run(*drawn, *TARGET, *LEDGER, "--out", "v.json")
    assert (code, "visits" in printed) == (0, True), said
    assert run("show", "v.json")[1] == printed
    assert run("report", "v.json", "--out", "v.html")[0] == 0


def test_an_unknown_command_names_the_nearest(run: Run) -> None:
    code, _, said = run("proportoins", "survey.csv")
    assert (code, "did you mean 'proportions'?" in said) == (2, True)
    code, _, said = run("ledger", "shwo")
    assert (code, "did you mean 'show'?" in said) == (2, True)


# Eighty columns.


def test_help_fits_and_is_not_cut(run: Run, thrown_away: None) -> None:
    group = get_command(app)
    names = [(), *((name,) for name in group.list_commands(None)), ("ledger", "history"), ("ledger", "price")]
    names += [("plan", kind) for kind in QUESTIONS]
    for command in names:
        if command == ("reproduce",):
            continue
        code, text, _ = run(*command, "--help")
        assert code == 0
        assert max(map(len, text.splitlines())) <= 80, command
        assert not re.search(r"\w\.\.\.", text.replace("NAME...", "")), command
    whole = " ".join(run("--help")[1].split())
    for sentence in SENTENCES.values():
        assert sentence.rstrip(".") in whole


def test_plan_fits_and_speaks_of_what_it_shows(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    become_terminal(monkeypatch)
    plan = ("plan", "proportions", "schema.toml", "smoker")
    text = run(*plan, "--epsilon", "1/2")[1]
    assert max(map(len, text.splitlines())) <= 80
    assert "± points" in text
    assert "no data were opened" in " ".join(text.split())
    assert "To expect ± 9: n = 240" in run(*plan, "--within", "9 points")[1]


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
    for kind, what in answer.describe():
        if kind == "table":
            assert all(word in shown for name in what.header for word in name.split())
            assert all(word in shown for row in what.cells for cell in row for word in cell.split())
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
    release = ("proportions", "survey.csv", "schema.toml", "sex", "--epsilon", "1/2", *LEDGER)
    assert run(*release, "--request-id", "sex", "--options", "")[0] == 2
    assert run(*release, "--request-id", "sex")[0] == 0
    mean = ("mean", "survey.csv", "schema.toml", "age", "--by", "sex", "--epsilon", "1", *LEDGER)
    assert run(*mean, "--request-id", "cells")[0] == 0
    history = ("ledger", "history", "survey", *book)
    header, created, sex, cells = run(*history)[1].splitlines()
    assert header.split("  ")[-1] == "what was asked"
    assert "Created: cap ε = 2, replace-one" in created
    assert "Proportions – columns: sex" in sex
    assert "ε = 0.5  ε = 0.5" in sex
    assert "ε = 1    ε = 1.5" in cells
    assert "Mean – column: age; by group: sex" in cells
    assert run(*history, "--kind", "mean")[1].splitlines()[1].split() == cells.split()
    assert len(run(*history, "--kind", "proportions", "--kind", "create")[1].splitlines()) == 3
    assert run(*history, "--kind", "maen")[0] == 2
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
        "By hand – nested: a (yes)"
    )
    assert plan_in_words({"question": "bytes"}) == "Bytes"
    asked = discreet.Proportions("x", epsilon=Fraction(1, 3))
    plan = asked.plan(Schema({"x": ("a", "b"), "y": (0, 1)}, n=7))
    told = plan_in_words({**plan, "data": "x.csv"})
    assert told == "Proportions – columns: x; schema: n (7), columns (x (a, b)); data: x.csv"


def test_python_m_discreet() -> None:
    words = [sys.executable, "-m", "discreet", "version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout.startswith("discreet ")
