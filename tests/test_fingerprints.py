"""Retries that are bound to their data: who is refused, what is kept, and that nothing of it is public."""

from __future__ import annotations

import os
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet.cli import main
from discreet.questions.asking import Fingerprints, _canonical

ASK: dict[str, Any] = {"levels": ("no", "yes"), "epsilon": 1, "dataset": "survey"}


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"
    with discreet.Ledger(path) as book:
        book.create("survey", epsilon=10)
    return path


def entries(ledger: Path) -> int:
    with discreet.Ledger(ledger) as book:
        return len(book.history("survey"))


def test_a_retry_with_other_data_is_refused_and_charges_nothing(ledger: Path, tmp_path: Path) -> None:
    answers = ["yes"] * 6 + ["no"] * 14
    with discreet.bind_retries(tmp_path / "kept"):
        first = discreet.release(answers, ledger=ledger, request_id="a", **ASK)
        assert discreet.release(answers[::-1], ledger=ledger, request_id="a", **ASK) == first
        with pytest.raises(discreet.RequestConflictError, match="not those of the first request"):
            discreet.release([*answers[1:], "no"], ledger=ledger, request_id="a", **ASK)
        discreet.release([*answers[1:], "no"], ledger=ledger, request_id="b", **ASK)
    assert entries(ledger) == 3
    assert discreet.release(["no"], ledger=ledger, request_id="a", **ASK) == first  # as ever, unbound


def test_what_was_charged_without_a_fingerprint_cannot_be_compared(ledger: Path, tmp_path: Path) -> None:
    discreet.release(["no"] * 9, ledger=ledger, request_id="a", **ASK)
    with (
        discreet.bind_retries(tmp_path / "kept"),
        pytest.raises(discreet.RequestConflictError, match="no fingerprint"),
    ):
        discreet.release(["no"] * 9, ledger=ledger, request_id="a", **ASK)


def test_the_file_is_its_owners_and_the_ledger_has_nothing_of_it(ledger: Path, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with discreet.bind_retries(path):
        release = discreet.release(["no"] * 9, ledger=ledger, request_id="a", **ASK)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    key, line = path.read_text().split("\n")
    _, mark = line.split()
    public = ledger.read_bytes() + release.to_json().encode()
    for secret in (key, mark):
        assert secret.encode() not in public
        assert bytes.fromhex(secret) not in public
    with discreet.bind_retries(tmp_path / "other"):  # another key makes another mark of the same counts
        discreet.release(["no"] * 9, ledger=ledger, request_id="b", **ASK)
    assert mark not in (tmp_path / "other").read_text()


def test_answers_that_are_equal_by_chance_have_data_of_their_own(ledger: Path, tmp_path: Path) -> None:
    """Nine records have few results: most of these requests share theirs with one about other data."""
    few = {**ASK, "dataset": "few"}
    data = [["no"] * 9, ["no"] * 8 + ["yes"]]
    with discreet.bind_retries(tmp_path / "kept"), discreet.Ledger(ledger) as book:
        book.create("few", epsilon=40)
        made = [
            discreet.release(data[i % 2], ledger=book, request_id=str(i), **few).to_json() for i in range(40)
        ]
        assert set(made[::2]) & set(made[1::2])
        for i in range(40):
            assert discreet.release(data[i % 2], ledger=book, request_id=str(i), **few).to_json() == made[i]
            with pytest.raises(discreet.RequestConflictError, match="not those of the first request"):
                discreet.release(data[1 - i % 2], ledger=book, request_id=str(i), **few)


def test_a_line_that_was_never_charged_or_is_torn_is_passed_over(ledger: Path, tmp_path: Path) -> None:
    kept = Fingerprints(tmp_path / "kept")
    kept.keep(("survey", "a", "result"), (1, 2))  # and the program was killed
    with kept.path.open("ab") as file:
        file.write(b"\n" + b"0" * 64)
    kept.keep(("survey", "a", "result"), (2, 1))
    kept.check(("survey", "a", "result"), (2, 1))
    for answer, statistic in ((("survey", "a", "result"), (1, 2)), (("survey", "b", "result"), (2, 1))):
        with pytest.raises(discreet.RequestConflictError):
            kept.check(answer, statistic)


def test_nothing_is_charged_if_no_fingerprint_can_be_kept(ledger: Path, tmp_path: Path) -> None:
    path = tmp_path / "kept"
    with discreet.bind_retries(path):
        path.unlink()
        with pytest.raises(discreet.FileError, match="cannot be written"):
            discreet.release(["no"] * 9, ledger=ledger, request_id="a", **ASK)
    assert not path.exists()
    assert entries(ledger) == 1


def test_a_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    Fingerprints(path)
    path.chmod(0o640)
    with pytest.raises(discreet.FileError, match="can be read by others: chmod 600 kept"):
        Fingerprints(path)


def test_all_who_come_at_once_find_one_whole_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two see that there is no file, and each makes one: the second takes the first's, which is whole."""
    path = tmp_path / "kept"
    first = Fingerprints(path)
    monkeypatch.setattr(os.path, "lexists", lambda _: False)
    second = Fingerprints(path)
    second.keep(("survey", "a", "result"), 1)
    first.check(("survey", "a", "result"), 1)
    assert os.listdir(tmp_path) == ["kept"]


def test_total_mode_and_what_is_read_while_it_is_answered_are_refused(ledger: Path, tmp_path: Path) -> None:
    with discreet.bind_retries(tmp_path / "kept"):
        with pytest.raises(discreet.InvalidInput, match="strict=False does not go with bind_retries"):
            discreet.release(["no"], ledger=ledger, request_id="a", strict=False, **ASK)
        with pytest.raises(discreet.InvalidInput, match="reads the data while"):
            discreet.regress(
                "y ~ x",
                {"y": [0.0, 1.0] * 20, "x": [0.5, 0.2] * 20},
                bounds={"x": (0, 1), "y": (0, 1)},
                epsilon=1,
                delta="1e-6",
                ledger=_with_delta(ledger),
                dataset="delta",
                request_id="r",
            )
    assert entries(ledger) == 1


def _with_delta(ledger: Path) -> Path:
    with discreet.Ledger(ledger) as book:
        book.create("delta", epsilon=10, delta="1/100")
    return ledger


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("smoker\nyes\n")
    with pytest.raises(discreet.FileError, match="does not begin with a key"), discreet.bind_retries(path):
        pass
    assert path.read_text() == "smoker\nyes\n"
    with (
        pytest.raises(discreet.FileError, match="cannot be made"),
        discreet.bind_retries(tmp_path / "no" / "x"),
    ):
        pass


def test_different_values_have_different_bytes() -> None:
    values = [
        (1, 2), (12,), ("1", 2), ((1,), 2), (1, (2,)), [], [[]], "", "1", 1, 1.0, Fraction(1), True, None,
        {"a": 1}, {"a": "1"}, {"b": 1}, np.array([1, 2]), np.array([[1, 2]]), np.array([1.0, 2.0]), b"1",
        (1, 2, 3), "a1", ("a", "1"),
    ]  # fmt: skip
    assert len({_canonical(value) for value in values}) == len(values)
    assert _canonical((1, 2)) == _canonical((np.int64(1), 2))
    large = [np.array([2**70 + i], dtype=object) for i in (0, 0, 1)]
    assert _canonical(large[0]) == _canonical(large[1]) != _canonical(large[2])
    with pytest.raises(discreet.InvalidInput, match="no fingerprint can be made of a object"):
        _canonical(object())


def test_the_command_line_has_it(ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, kept = tmp_path / "survey.csv", tmp_path / "kept"
    words = ["release", str(data), "--column", "smoker", "--levels", "no,yes", "--epsilon", "1"]
    words += [
        "--ledger",
        str(ledger),
        "--dataset",
        "survey",
        "--request-id",
        "q",
        "--bind-retries",
        str(kept),
    ]
    for last, code in (("yes", 0), ("yes", 0), ("no", 7)):
        data.write_text("smoker\n" + "no\nyes\n" * 9 + f"no\n{last}\n")
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == code
    assert "not those of the first request" in capsys.readouterr().err
