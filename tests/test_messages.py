"""What people meet first: messages that name the field and the way out, and never a value of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet
import shorthand
from discreet.errors import DiscreetError, InvalidInputError, PrivacyWarning

LEVELS = ("no", "yes")
COLUMN = ["no"] * 50 + ["yes"] * 50
SECRET = "zebrafish-7351"
FRAME = pd.DataFrame({"y": COLUMN, "g": ["f"] * 100, "x": [SECRET] * 100})
UNIT = discreet.Schema({"y": LEVELS, "x": (0, 1)}, n=100)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: discreet.proportions([0, 1], schema=(0, 1), epsilon=1), r"Category\(\[0, 1\]\)"),
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
            "not a DataFrame",
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
