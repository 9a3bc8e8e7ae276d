"""What people meet first: messages that name the field and the way out, and never a value of the data."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet
import shorthand
from discreet._cli import main
from discreet._registry import QUESTIONS
from discreet.errors import DiscreetError, InvalidInputError, PrivacyWarning

LEVELS = ("no", "yes")
COLUMN = ["no"] * 50 + ["yes"] * 50
SECRET = "zebrafish-7351"
FRAME = pd.DataFrame({"y": COLUMN, "g": ["f"] * 100, "x": [SECRET] * 100})
UNIT = discreet.Schema({"y": LEVELS, "x": (0, 1)}, n=100)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda: discreet.proportions([0, 1], schema=(0, 1), epsilon=1),
            "declare a category with these values",
        ),
        (
            lambda: shorthand.groups(FRAME, outcome="y", by="g", levels=LEVELS, groups=("f",), epsilon=1),
            r"levels=\('f',\) has 1 level",
        ),
        (lambda: shorthand.shares(COLUMN, levels=LEVELS, other="other", epsilon=1), "add it there"),
        (
            lambda: discreet.draw(FRAME, "y ~ x", schema={"y": LEVELS, "x": (0, 1)}, epsilon=1, delta="1e-6"),
            "declare n",
        ),
        (
            lambda: discreet.draw(FRAME, "y ~ x", schema=UNIT, epsilon=1, delta="1e-6"),
            "column 'x'",
        ),
        (
            lambda: discreet.regress("y ~ x", FRAME, schema=UNIT, epsilon=1, delta="1e-6"),
            "not DataFrame",
        ),
        (lambda: discreet.mean("x", FRAME, schema=UNIT, epsilon=1), "not a DataFrame"),
        (lambda: discreet.proportions("x", [SECRET], schema=UNIT, epsilon=1), "not a list"),
        (lambda: shorthand.shares("survey.xls", column="y", levels=LEVELS, epsilon=1), "save it as .xlsx"),
        (lambda: shorthand.shares("latin.csv", column="y", levels=LEVELS, epsilon=1), "iconv"),
        (lambda: shorthand.shares("na.csv", column="y", levels=LEVELS, epsilon=1), "NA is a text"),
        (lambda: shorthand.mean("comma.csv", column="y", bounds=(0, 9), epsilon=1), "a decimal point"),
        (
            lambda: shorthand.draws(
                [1.0] * 50, "gaussian", prior=(0, 1), sigma=1, bounds=(0, 2), epsilon=1, delta="0.05"
            ),
            "at least 1/n",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")
def test_messages_of_the_trial(
    ask: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("survey.xls").write_bytes(b"PK")
    Path("latin.csv").write_bytes("y\nn\xf6\nyes\n".encode("latin-1"))
    Path("na.csv").write_text("y\nno\nyes\nNA\n")
    Path("comma.csv").write_text('y;x\n"3,5";1\n"4,5";2\n')
    with pytest.raises(DiscreetError, match=message) as caught:
        ask()
    assert SECRET not in str(caught.value)


def test_counts_are_a_mapping_and_never_guessed() -> None:
    counts = pd.Series(COLUMN).value_counts()
    for given in (counts, pd.Series(COLUMN).value_counts(normalize=True), pd.Series([1, 2], name="count")):
        with pytest.raises(InvalidInputError, match="give counts as a mapping"):
            shorthand.shares(given, levels=LEVELS, epsilon=1)
    assert shorthand.shares(counts.to_dict(), levels=LEVELS, epsilon=1).n == 100
    assert shorthand.shares(counts.to_frame(), levels=(*set(counts), 0), epsilon=1).n == len(counts)


def test_a_large_epsilon_is_cautioned_against() -> None:
    with pytest.warns(PrivacyWarning, match="protects very little"):
        shorthand.shares(COLUMN, levels=LEVELS, epsilon=12)


@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")
def test_a_large_delta_is_acknowledged_or_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [1.0, 2.0] * 50, "x": [0.0, 1.0] * 50})
    given: dict[str, Any] = {"bounds": {"y": (0, 3), "x": (0, 1)}, "epsilon": 1, "n": 100}
    with pytest.raises(InvalidInputError, match="at least 1/n"):
        shorthand.regress(frame, "y ~ x", delta="0.01", **given)
    with discreet.acknowledge_large_delta():
        assert shorthand.regress(frame, "y ~ x", delta="0.01", **given).guarantee.delta == 0.01
    with pytest.raises(InvalidInputError, match="anything may be published"):
        shorthand.regress(frame, "y ~ x", delta="0.009", **given)
    assert shorthand.regress(frame, "y ~ x", delta="0.001", **given).guarantee.delta == 0.001


PEOPLE = {"smoker": COLUMN, "sex": ["f", "m"] * 50, "age": [30.0, 40.0] * 50, "name": [SECRET] * 100}
SCHEMA = discreet.Schema({"smoker": LEVELS, "sex": ["f", "m"], "age": (18, 95), "name": (0, 1)}, n=100)
PYTHON = re.compile(
    r"[=:] ?[({]|\{'|\('|\[…|\b(Category|Number|Weight|Schema)\(|\b(True|False|None)\b|[a-z]='"
)


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("proportions", {"columns": "smoker", "bounds": [0, 1]}, "bounds=.* belongs in the schema"),
        ("proportions", {"columns": "smoker", "levels": ["no"]}, "levels=.* belongs in the schema"),
        (
            "regress",
            {"formula": "age ~ sex", "missing": "exclude"},
            "missing='exclude' belongs in the schema",
        ),
        ("mean", {"column": "age", "n": 100}, "n=100 belongs in the schema"),
        ("mean", {"column": "age", "mechanism": "lattice"}, "unknown to mean; proportions takes it"),
        ("mean", {"column": "age", "ledger": "x.db"}, "ledger='x.db' belongs to the charge"),
        ("mean", {"column": "age", "epsilom": 1}, "epsilom=1 is unknown; did you mean 'epsilon'"),
        ("mean", {"column": "age", "epsilon": None}, "epsilon is missing"),
        ("mean", {"column": "age", "epsilon": (1, "1e-6")}, r"epsilon=.*1, '1e-6'.* must be a number"),
        ("mean", {"column": "smoker"}, "column='smoker' is declared as a category"),
        ("mean", {"column": "name"}, "column 'name': a column of type String cannot be summed"),
        ("regress", {"formula": 3, "delta": "1e-6"}, "formula must be a text such as income ~ age"),
        ("regress", {"formula": "age", "delta": "1e-6"}, "formula='age' must have one ~"),
        ("regress", {"formula": "age ~ sex"}, "delta is missing"),
        ("regress", {"formula": "age ~ sex", "delta": 0.5}, "delta=0.5 is at least 1/n"),
    ],
)
@pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")
def test_mistakes_in_python_and_in_a_study(
    kind: str, given: dict[str, Any], message: str, tmp_path: Path
) -> None:
    asked = {"epsilon": 1, **given}
    table = pd.DataFrame(PEOPLE)
    subject = QUESTIONS[kind].subject()
    place, rest = asked[subject], {name: value for name, value in asked.items() if name != subject}
    with pytest.raises(DiscreetError, match=message):
        getattr(discreet, kind)(table, place, schema=SCHEMA, **rest)
    study = discreet.Study(table, SCHEMA, epsilon=2, ledger=tmp_path / "ledger.db", dataset="people")
    with pytest.raises(DiscreetError, match=message):
        getattr(study, kind)(place, **rest)
    with pytest.raises(DiscreetError, match=message):
        study.answer({"id": "one", "kind": kind, **asked})


def test_mistakes_in_declarations() -> None:
    for make, message in (
        (lambda: discreet.Schema({"age": (0, 1)}, N=3), "N=3 is unknown; did you mean 'n'"),
        (lambda: discreet.Number(0, 1, bin=3), "bin=3 is unknown; did you mean 'bins'"),
        (lambda: discreet.Mean("age", epsilom=1), "did you mean 'epsilon'"),
        (lambda: discreet.Study(PEOPLE, SCHEMA, epsilom=1), "epsilom=1 is unknown to a study; did you mean"),
        (lambda: discreet.Study(PEOPLE, SCHEMA, epsilon=(1, "1e-6")), "epsilon=.* must be one number"),
        (lambda: discreet.Study(PEOPLE, epsilon=1), "schema is missing"),
        (lambda: discreet.mean(PEOPLE, "age", epsilon=1), "schema is missing"),
        (lambda: discreet.mean(PEOPLE, "age", schema=SCHEMA, epsilon=1, charge="x.db"), "charge='x.db' must"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            make()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("proportions smoker --bounds 0,1", "--bounds belongs in the schema"),
        ("proportions smoker --epsilom 1", "--epsilom is unknown; did you mean 'epsilon'"),
        ("proportions smoker", "--epsilon is missing: give the privacy budget, such as 0.5"),
        ("proportions smoker --by sex --epsilon 1", "--by sex is private"),
        ("mean smoker --epsilon 1", "column 'smoker' is declared as a category"),
        (
            "mean name --epsilon 1",
            "column 'name': a column of type String|no number where a number is declared",
        ),
        ("mean age --epsilon 1,1e-6", "--epsilon 1,1e-6 is not a number; write it like 0.8 or 4/5"),
        ("mean --epsilon 1", "column: say which column"),
        ("mean --column age --epsilon 1", "--column is not an option: give the column as an argument"),
        ("mean age --mechanism lattice --epsilon 1", "--mechanism is unknown to mean; proportions takes it"),
        (
            "quantiles age --probs 10,50 --epsilon 1",
            "--probs 10,50 must be between 0 and 1, such as 0.25, 0.5",
        ),
        ("regress 'age ~ sex' --missing exclude --epsilon 1", "--missing belongs in the schema"),
        ("regress 'age ~ sex' --epsilon 1", "--delta is missing"),
        ("regress 'age ~ sex' --epsilon 1 --delta .5", "--delta .5 is at least 1/n"),
        ("regress age --epsilon 1 --delta 1e-6", "formula 'age' must have one ~"),
        ("regress 'smoker ~ age' --epsilon 1 --delta 1e-6", "must be declared as numbers, or needs another"),
        ("regress 'age ~ sex' --family binomial --epsilon 1 --delta 1e-6", "must be declared as a category"),
        ("draw smoker --epsilon 1", "add delta, such as 1e-6"),
        ("draw 'age ~ sex' --epsilon 1 --delta 1e-6", "declare it as a category"),
        ("survival age --epsilon 1", "--event is missing, such as status"),
        ("network smoker=income --epsilon 1", "'income' is not declared"),
    ],
)
def test_the_command_line_answers_without_python(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pd.DataFrame(PEOPLE).to_csv(tmp_path / "people.csv", index=False)
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml())
    kind, *words = shlex.split(arguments)
    with pytest.raises(SystemExit) as left:
        main([kind, str(tmp_path / "people.csv"), str(tmp_path / "schema.toml"), *words])
    told = capsys.readouterr().err
    assert left.value.code in (2, 3)
    assert re.search(message, told), told
    assert not PYTHON.search(told), told
    assert SECRET not in told


def test_python_is_recognised() -> None:
    for text in ("Category([0, 1])", "schema={'a': 1}", "bounds=(0, 1)", "public=True", "delta='1e-6'"):
        assert PYTHON.search(text)
