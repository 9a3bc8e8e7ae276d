"""What 0.2.0 wrote is read, shown, reported and verified; what it charged is never charged again."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import discreet
from discreet._cli import main
from discreet._documents.answer import load_answer
from discreet.errors import (
    CorruptReleaseError,
    GuaranteeMismatchError,
    InvalidInputError,
    RequestConflictError,
)
from test_compatibility import Run, ask, assert_agrees, refused, spent

pytestmark = pytest.mark.filterwarnings("ignore")  # cautions about what is asked again: they have tests

WRITTEN = Path(__file__).parent / "fixtures" / "0.2"
EXPECTED: dict[str, Any] = json.loads((WRITTEN / "expected.json").read_text("utf-8"))
DOCUMENTS, GUARANTEES, LEDGERS, STUDIES = (
    EXPECTED[part] for part in ("documents", "guarantees", "ledgers", "studies")
)
SIGNED = ["documents/release-lattice.json", "studies/all-kinds-results/study.json"]
CHARGES = [(book, receipt) for book, about in LEDGERS.items() for receipt in about["receipts"]]
QUESTIONS = [(book, question) for book, about in LEDGERS.items() for question in about["questions"]]


GONE = {"soft", "best", "near/mean-age"}
"""Requests, with their datasets where that is needed, whose kind is read and no longer made."""


def rows(answer: Any) -> list[list[Any]]:
    """The rows as 0.2 gave them: none of groups and of drawn coefficients, two of a mean."""
    if answer.format in ("discreet/conditional", "discreet/logistic"):
        return []
    found = [[row.name, row.mean, row.sd, row.low, row.high] for row in answer.shown_rows(0.9)]
    if answer.format == "discreet/mean":
        (mean,), (spread, *ends) = found, answer.deviation(0.9)
        name = answer.column
        return [[f"mean of {name}", *mean[1:]], [f"standard deviation of {name}", spread, None, *ends]]
    return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)

    def command(*arguments: str | Path) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return command


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], discreet.Ledger]]:
    """A copy of a ledger, opened."""
    books: list[discreet.Ledger] = []

    def copy(name: str) -> discreet.Ledger:
        target = tmp_path / f"{Path(name).name}.db"
        shutil.copyfile(WRITTEN / f"{name}.db", target)
        books.append(discreet.Ledger(target))
        return books[-1]

    yield copy
    for book in books:
        book.close()


# Documents.


def test_every_file_is_tested() -> None:
    written = {str(path.relative_to(WRITTEN)) for path in WRITTEN.rglob("*") if path.is_file()}
    tested = {"README.md", "expected.json", "survey.csv", "studies/survey.csv"}
    tested |= {*DOCUMENTS, *GUARANTEES, *STUDIES, *(f"{path}.sig" for path in SIGNED)}
    tested |= {name + ending for name in LEDGERS for ending in (".db", ".jsonl")}
    tested |= {study["ledger"] for study in STUDIES.values()}
    assert written == tested


def check_answer(answer: Any, about: Mapping[str, Any]) -> None:
    assert answer.format == about["format"]
    assert str(answer.guarantee) == about["guarantee"]["text"]
    if answer.format == "discreet/regression":  # the engine that made its estimates is gone
        assert answer.rows() == []
        assert "Only discreet 0.2, which wrote" in answer.warnings[0]
        assert load_answer(answer.to_json()).content() == answer.content()
        return
    if getattr(answer, "mechanism", "") == "optimal":  # the distribution of its noise is no longer known
        assert [name for name, *_ in rows(answer)] == [name for name, *_ in about["rows"]]
        return
    # Rows of a network are those of simulated draws, whose order is no promise; 0.2 left out of
    # the interval of a mean what its grid rounds.
    relative = {"discreet/network": 0.1, "discreet/mean": 1e-4, "discreet/means": 1e-4}
    assert_agrees(rows(answer), about["rows"], relative.get(answer.format, 1e-6))


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_reads_back_and_is_reported(path: str) -> None:
    text, about = (WRITTEN / path).read_text("utf-8"), DOCUMENTS[path]
    answer = load_answer(text)
    if about["format"] == "discreet/study":
        assert answer.title == about["title"]
        assert list(answer.answers) == list(about["answers"])
        for name, one in about["answers"].items():
            check_answer(answer.answers[name], one)
            assert answer.answers[name].receipt.hash == one["receipt"]
    else:
        check_answer(answer, about)
        assert_agrees(answer.guarantee.to_dict(), about["guarantee"]["dict"])
        assert answer.is_private is about["guarantee"]["private"]
        inner = text.replace(r"\"version\": 1", rf"\"version\": {answer.version}")
        again, written = json.loads(answer.to_json()), json.loads(inner)
        assert again["version"] == answer.version > written["version"]
        assert_agrees(again["release"], written["release"], relative=0)
    assert discreet.report(answer).lstrip().lower().startswith("<!doctype html")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_shown(path: str, run: Run) -> None:
    code, out, err = run("show", WRITTEN / path)
    assert (code, err) == (0, "")
    for about in DOCUMENTS[path].get("answers", {"": DOCUMENTS[path]}).values():
        private = about["guarantee"].get("private", True)
        assert (about["guarantee"]["text"] if private else "NOT PRIVATE") in " ".join(out.split())


@pytest.mark.parametrize("path", {about["format"]: path for path, about in DOCUMENTS.items()}.values())
def test_every_format_is_shown_as_json_and_refused_if_edited(path: str, run: Run) -> None:
    code, out, err = run("show", WRITTEN / path, "--json")
    assert (code, err) == (0, "")
    document = json.loads((WRITTEN / path).read_text("utf-8"))
    assert_agrees(json.loads(out), document)
    document["release"]["forged"] = 1
    with pytest.raises(CorruptReleaseError):
        load_answer(json.dumps(document))


@pytest.mark.parametrize("path", SIGNED)
def test_a_signed_document_is_shown(path: str, run: Run) -> None:
    """No version after 0.2 checks signatures, and says so."""
    for how, said in (((), ".sig': not checked."), (("--json",), '"signature": "not checked"')):
        code, out, err = run("show", WRITTEN / path, *how)
        assert (code, err) == (0, "")
        assert said in out


@pytest.mark.parametrize("path", GUARANTEES)
def test_a_guarantee_reads_back(path: str) -> None:
    content, about = json.loads((WRITTEN / path).read_text("utf-8")), GUARANTEES[path]
    guarantee = discreet.Guarantee.from_dict(content)
    assert (str(guarantee), guarantee.is_private) == (about["text"], about["private"])
    assert guarantee.meaning() == about["meaning"].replace("who has the same", "identified by")
    assert_agrees(guarantee.to_dict(), content)
    if "defined-vector" in path:  # its bound is no longer computed: the promise is what is known
        assert guarantee.epsilon_at(guarantee.exact_delta) == guarantee.epsilon
    elif guarantee.is_private:
        assert guarantee.epsilon_at("1e-6") == pytest.approx(about["epsilon_at_1e-6"], rel=1e-4)


# Ledgers.


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_verifies_and_is_shown(name: str, run: Run, opened: Any, tmp_path: Path) -> None:
    ledger, about = opened(name), LEDGERS[name]
    hashes, export = [receipt["hash"] for receipt in about["receipts"]], WRITTEN / f"{name}.jsonl"
    for found in (ledger.verify(expect=hashes), ledger.verify_export(export, expect=hashes)):
        assert (found.entries, found.head) == (about["entries"], about["head"])
    copy = tmp_path / f"{Path(name).name}.db"
    for place in (("--ledger", copy), ("--file", export)):
        code, out, err = run("ledger", "verify", *place)
        assert code == 0, err
        assert about["head"] in out
    for dataset, account in about["accounts"].items():
        assert_agrees(ledger.show(dataset).to_dict(), account)
        code, out, err = run("ledger", "history", dataset, "--ledger", copy)
        assert code == 0, err
        asked = [one["request_id"] for one in about["receipts"] if one["dataset"] == dataset]
        assert all(request in out for request in asked)


@pytest.mark.parametrize(
    ("name", "charge"), CHARGES, ids=[f"{book}-{c['dataset']}-{c['request_id']}" for book, c in CHARGES]
)
def test_a_receipt_reads_back(name: str, charge: dict[str, Any], opened: Any) -> None:
    ledger = opened(name)
    before = spent(ledger, charge["dataset"])
    kept = ledger.receipt(charge["dataset"], charge["request_id"])
    assert (kept.hash, kept.sequence) == (charge["hash"], charge["sequence"])
    assert hashlib.sha256(kept.result).hexdigest() == charge["result_sha256"]
    guarantee = discreet.Guarantee.from_dict(kept.guarantee)
    assert load_answer(kept.result.decode()).guarantee.protects == guarantee.protects
    where = {"request_id": charge["request_id"]}
    again = ledger.spend(
        charge["dataset"], guarantee, lambda: pytest.fail("computed again"), plan=charge["plan"], **where
    )
    assert again.repeated
    with pytest.raises(RequestConflictError):
        ledger.spend(charge["dataset"], guarantee, str, plan={"question": "other"}, **where)
    assert spent(ledger, charge["dataset"]) == before


@pytest.mark.parametrize(
    ("name", "question"),
    QUESTIONS,
    ids=[f"{book}-{q['dataset']}-{q['request_id']}" for book, q in QUESTIONS],
)
def test_a_request_is_never_charged_twice(name: str, question: dict[str, Any], opened: Any) -> None:
    ledger = opened(name)
    if GONE.isdisjoint({question["request_id"], "{dataset}/{request_id}".format(**question)}):
        refused(question, WRITTEN, ledger)
        return
    before = spent(ledger, question["dataset"])
    data = WRITTEN / "survey.csv" if question["data"] == "survey.csv" else question["data"]
    with pytest.raises(InvalidInputError, match="is unknown"):
        ask(question, data, ledger)
    assert spent(ledger, question["dataset"]) == before


def test_what_protects_near_records_does_not_mix(opened: Any) -> None:
    """An account of ``replace-nearby`` pays for nothing else, and no other account for it."""
    ledger = opened("ledgers/relations")
    near = discreet.Guarantee.from_dict(json.loads((WRITTEN / "guarantees/nearby.json").read_text("utf-8")))
    pure = discreet.Guarantee.from_dict(json.loads((WRITTEN / "guarantees/pure.json").read_text("utf-8")))
    for dataset, guarantee in (("near", pure), ("people", near), ("groups", near), ("hidden", near)):
        before = spent(ledger, dataset)
        with pytest.raises(GuaranteeMismatchError):
            ledger.spend(dataset, guarantee, str, plan={"question": "other"})
        assert spent(ledger, dataset) == before
    with pytest.raises(InvalidInputError, match="different relations"):
        discreet.compose([near, pure])
    with pytest.raises(InvalidInputError, match="within its part"):
        discreet.privacy.composition.parallel([near, near])


@pytest.mark.parametrize(
    "name", ["soft-categories", "correlated-vector", "defined-vector", "gaussian-nearby", "poisson-nearby"]
)
def test_a_family_that_is_no_longer_made_is_read_only(name: str) -> None:
    sample = load_answer((WRITTEN / f"documents/sample-{name}.json").read_text("utf-8"))
    assert ("not checked" in sample.summary()) is (name == "defined-vector")  # nobody can compute its cost
    with pytest.raises(InvalidInputError, match="no longer offered"):
        discreet.posterior_sampler("direct", sample.model, prior=sample.prior_distribution, n=10)


# Studies.


@pytest.mark.parametrize("path", STUDIES)
def test_a_study_is_not_charged_again(path: str, run: Run, tmp_path: Path) -> None:
    about = STUDIES[path]
    shutil.copytree(WRITTEN / "studies", tmp_path / "studies")
    code, _, err = run("run", tmp_path / path, "--out", tmp_path / "results")
    assert code == 2
    assert "needs a table [schema]" in err
    with discreet.Ledger(tmp_path / about["ledger"]) as book:
        found = book.verify()
        assert (found.entries, found.head) == (about["entries"], about["head"])
        assert_agrees(book.show(about["budget"]["dataset"]).to_dict(), about["budget"])
