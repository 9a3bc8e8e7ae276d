"""What people meet first: messages that name the field and the way out, and never a value of the data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet

LEVELS = ("no", "yes")
COLUMN = ["no"] * 50 + ["yes"] * 50
SECRET = "zebrafish-7351"
FRAME = pd.DataFrame({"y": COLUMN, "g": ["f"] * 100, "x": [SECRET] * 100})


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: discreet.release(COLUMN, levels=LEVELS, edges=(0, 1), epsilon=1), "not both"),
        (
            lambda: discreet.release_conditional(
                FRAME, outcome="y", given="g", levels=LEVELS, groups=("f",), epsilon=1
            ),
            r"groups=\('f',\) has 1 group",
        ),
        (lambda: discreet.release(COLUMN, levels=LEVELS, other="other", epsilon=1), "add it there"),
        (
            lambda: discreet.release_logistic(
                FRAME, outcome="y", classes=LEVELS, features={"x": (0, 1)}, epsilon=1, delta="1e-6"
            ),
            "column 'x'",
        ),
        (lambda: discreet.regress(FRAME, "y ~ x", epsilon=1, delta="1e-6"), "not a DataFrame"),
        (lambda: discreet.release("survey.xls", column="y", levels=LEVELS, epsilon=1), "save it as .xlsx"),
        (lambda: discreet.release("latin.csv", column="y", levels=LEVELS, epsilon=1), "iconv"),
        (lambda: discreet.release("na.csv", column="y", levels=LEVELS, epsilon=1), "NA is a text"),
        (lambda: discreet.mean("comma.csv", column="y", bounds=(0, 9), epsilon=1), "a decimal point"),
        (
            lambda: discreet.posterior_sample(
                [1.0] * 50, "gaussian", prior=(0, 1), sigma=1, bounds=(0, 2), epsilon=1, delta="0.05"
            ),
            "at least 1/n",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
def test_messages_of_the_trial(
    ask: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("survey.xls").write_bytes(b"PK")
    Path("latin.csv").write_bytes("y\nn\xf6\nyes\n".encode("latin-1"))
    Path("na.csv").write_text("y\nno\nyes\nNA\n")
    Path("comma.csv").write_text('y;x\n"3,5";1\n"4,5";2\n')
    with pytest.raises(discreet.DiscreetError, match=message) as caught:
        ask()
    assert SECRET not in str(caught.value)


def test_counts_are_a_mapping_and_never_guessed() -> None:
    counts = pd.Series(COLUMN).value_counts()
    for given in (counts, pd.Series(COLUMN).value_counts(normalize=True), pd.Series([1, 2], name="count")):
        with pytest.raises(discreet.InvalidInput, match="give counts as a mapping"):
            discreet.release(given, levels=LEVELS, epsilon=1)
    assert discreet.release(counts.to_dict(), levels=LEVELS, epsilon=1).n == 100
    assert discreet.release(counts.to_frame(), levels=(*set(counts), 0), epsilon=1).n == len(counts)


def test_a_large_epsilon_is_cautioned_against() -> None:
    with pytest.warns(discreet.PrivacyWarning, match="next to nothing"):
        discreet.release(COLUMN, levels=LEVELS, epsilon=12)


@pytest.mark.filterwarnings("ignore::discreet.PrivacyWarning")
def test_a_large_delta_is_acknowledged_or_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [1.0, 2.0] * 50, "x": [0.0, 1.0] * 50})
    given: dict[str, Any] = {"bounds": {"y": (0, 3), "x": (0, 1)}, "epsilon": 1, "n": 100}
    with pytest.raises(discreet.InvalidInput, match="at least 1/n"):
        discreet.regress("y ~ x", frame, delta="0.01", **given)
    with discreet.acknowledge_large_delta():
        assert discreet.regress("y ~ x", frame, delta="0.01", **given).guarantee.delta == 0.01
    assert discreet.regress("y ~ x", frame, delta="0.009", **given).guarantee.delta == 0.009
