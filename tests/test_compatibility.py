"""What 0.1.0 wrote is read, shown, reported and verified; what it charged is never charged again."""

from __future__ import annotations

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
import shorthand
from discreet._cli import main
from discreet._declarations import Relation
from discreet._documents.answer import load_answer
from discreet.distributions.beta_dirichlet import beta_summaries
from discreet.errors import CorruptLedgerError, CorruptReleaseError, RequestConflictError

pytestmark = pytest.mark.filterwarnings("ignore:the number of records in each group")

WRITTEN = Path(__file__).parent / "fixtures" / "0.1.0"
EXPECTED: dict[str, Any] = json.loads((WRITTEN / "expected.json").read_text("utf-8"))
DOCUMENTS, GUARANTEES, COMMANDS = (EXPECTED[part] for part in ("documents", "guarantees", "commands"))
LEDGERS, STUDIES = EXPECTED["ledgers"], EXPECTED["studies"]
CHARGES = [(book, receipt) for book, about in LEDGERS.items() for receipt in about["receipts"]]
QUESTIONS = [(book, question) for book, about in LEDGERS.items() for question in about["questions"]]

Run = Callable[..., tuple[int, str, str]]


# Names that another version may change: one line each.

OPTIONS = {("--calibration", "exact"): ("--options", "calibration=exact")}


def load(text: str) -> Any:
    """An answer of any kind from its document."""
    return load_answer(text)


def rows(answer: Any, level: float) -> list[dict[str, Any]]:
    """The table of a release or of a sample, as 0.1.0 gave it."""
    table = [row.to_dict() for row in answer.shown_rows(level)]
    if answer.format == "discreet/sample":
        return [{"parameter": name, **row} for name, row in zip(answer.names, table, strict=True)]
    mean, _, low, high = beta_summaries(np.array(answer.plug_in.parameters), level)
    names = ("level", "plug_in_mean", "plug_in_low", "plug_in_high")
    numbers = zip(answer.levels, mean.tolist(), low.tolist(), high.tolist(), strict=True)
    whole = [row | dict(zip(names, own, strict=True)) for row, own in zip(table, numbers, strict=True)]
    return [{key: value for key, value in row.items() if key != "noise"} for row in whole]


def arguments(path: str) -> list[str]:
    """The command that wrote a file."""
    given = list(COMMANDS[path]["arguments"])
    for old, new in OPTIONS.items():
        for at in [i for i in range(len(given)) if tuple(given[i : i + 2]) == old]:
            given[at : at + 2] = new
    return given


def ask(question: Mapping[str, Any], data: Any, ledger: discreet.Ledger, **changed: Any) -> Any:
    """The question that was charged, asked again in today's words."""
    given: dict[str, Any] = {**question["arguments"], **changed}
    place = {"dataset": question["dataset"], "request_id": question["request_id"]}
    paid = {"ledger": ledger, **place}
    first = question["positional"][0] if question["positional"] else None
    if given.pop("relation", None) == "add-remove":
        given["hidden"] = True
    if "total_prior" in given:
        given["expected_n"] = given.pop("total_prior")
    verb = question["verb"]
    if verb == "release":
        options = {name: given.pop(name) for name in ("calibration", "expected_false") if name in given}
        return shorthand.shares(data, **given, **({"options": options} if options else {}), **paid)
    if verb == "release_table":
        return shorthand.table(data, first, **given, **paid)
    if verb == "release_conditional":
        return shorthand.groups(data, by=given.pop("given"), **given, **paid)
    if verb == "release_network":
        return shorthand.network(data, **given, **paid)
    if verb == "mean":
        return shorthand.mean(data, first, **given, **paid)
    if verb == "regress":
        kept = {name: value for name, value in given.items() if name not in ("aim", "norm")}
        return shorthand.regress(data, first, **kept, **paid)
    if verb == "posterior_sample":
        draws = {"draws": given.pop("size")} if "size" in given else {}
        return shorthand.draws(data, first, **given, **draws, **paid)
    if verb == "statistical_query":
        return shorthand.draws(data, None, **given, **paid)
    assert verb == "release_logistic"
    outcome = given.pop("target", None) or given.pop("outcome")
    features = given.pop("features")
    schema = discreet.Schema({outcome: given.pop("classes"), **features}, n=given.pop("n", "public"))
    options = {"options": {"sampler": given.pop("sampler")}} if "sampler" in given else {}
    formula, charge = f"{outcome} ~ {' + '.join(features)}", discreet.Charge(ledger, *place.values())
    return discreet.draw(data, formula, schema=schema, charge=charge, **given, **options)


def refused(question: Mapping[str, Any], folder: Path, ledger: discreet.Ledger) -> None:
    """Asked again it is another plan today: a conflict of its id, never a second charge."""
    data = folder / question["data"] if isinstance(question["data"], str) else question["data"]
    before = spent(ledger, question["dataset"])
    for changed in ({}, {"epsilon": "1/1000"}):
        with pytest.raises(RequestConflictError):
            ask(question, data, ledger, **changed)
        assert spent(ledger, question["dataset"]) == before


# Helpers.


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


def assert_agrees(found: Any, expected: Any, relative: float = 1e-9, where: str = "") -> None:
    """Everything that was expected is there, numbers to ``relative``; more may be there."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            assert key in found, f"{where}/{key}"
            if key == "assumptions":  # what 0.1.0 assumed too, and did not list
                assert set(value) <= set(found[key]), where
                continue
            assert_agrees(found[key], value, relative, f"{where}/{key}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for index, (one, value) in enumerate(zip(found, expected, strict=True)):
            assert_agrees(one, value, relative, f"{where}/{index}")
    elif isinstance(expected, float):
        assert float(found) == pytest.approx(expected, rel=relative, abs=1e-9), where
    else:
        assert type(found) is type(expected), where
        assert found == expected, where


def as_list(value: Any) -> Any:
    return None if value is None else list(value)


def release_values(answer: Any) -> dict[str, Any]:
    axes = answer.axes
    return {
        "table": rows(answer, 0.9),
        "levels": list(answer.levels),
        "counts": list(answer.counts),
        "noisy": as_list(answer.noisy),
        "n": answer.n,
        "prior": list(answer.prior),
        "mechanism": answer.mechanism,
        "posterior": list(answer.plug_in.parameters),
        "axes": None if axes is None else {name: list(levels) for name, levels in axes.items()},
        "margins": None if axes is None else margins(answer),
    }


def margins(answer: Any) -> dict[str, list[float]]:
    """Sums of the posterior's parameters over each axis, as 0.1.0 gave them."""
    cells = np.array(answer.plug_in.parameters).reshape([len(levels) for levels in answer.axes.values()])
    others = [tuple(a for a in range(cells.ndim) if a != i) for i in range(cells.ndim)]
    return {name: cells.sum(axis=axis).tolist() for name, axis in zip(answer.axes, others, strict=True)}


def as_now(text: str, kind: str = "") -> str:
    """What 0.1.0 wrote of a guarantee, as it is written now: δ = 1e-6 and not 1e-06.

    Its conditional releases claimed replace-one, where groups are public: they are read as within-group.
    """
    relation = "within-group" if kind == "ConditionalRelease" else "replace-one"
    return text.replace("e-0", "e-").replace("replace-one", relation)


def assert_values(answer: Any, about: Mapping[str, Any]) -> None:
    """The answer holds what 0.1.0 found in its document."""
    kind, expected = about["kind"], dict(about["values"])
    if kind == "StudyDocument":
        assert answer.title == expected["title"]
        assert list(answer.answers) == list(expected["answers"])
        for name, one in expected["answers"].items():
            assert_values(answer.answers[name], one)
        return
    assert type(answer).__name__ == kind
    assert str(answer.guarantee) == as_now(about["guarantee"]["text"], kind)
    assert answer.guarantee.is_private is about["guarantee"]["private"]
    promised = dict(about["guarantee"]["dict"])
    promised["relation"] = as_now(promised["relation"], kind)
    assert_agrees(answer.guarantee.to_dict(), promised)
    if "receipt" in about:
        assert_agrees(answer.receipt.to_dict(), about["receipt"])
    if kind == "Release":
        aware = expected.pop("noise_aware")
        # its distribution is that of a linear program, which is solved elsewhere
        if answer.mechanism == "optimal":
            aware = False
            del expected["table"]
        assert_agrees(release_values(answer), expected)
        if aware:  # else the table is that of the plug-in posterior
            noise_aware = answer.posterior
            means = [noise_aware.marginal(i).mean() for i in range(len(answer.levels))]
            assert_agrees(means, [row["mean"] for row in expected["table"]])
    elif kind == "ConditionalRelease":
        assert_agrees(list(answer.groups), expected["groups"])
        assert_agrees(list(answer.sizes), expected["sizes"])
        for one, values in zip(answer.releases, expected["releases"], strict=True):
            assert (one is None) == (values is None)
            if one is not None:
                assert_agrees(release_values(one), {k: v for k, v in values.items() if k != "noise_aware"})
    elif kind == "Sample":
        table = expected.pop("table")
        assert_agrees(answer.values.tolist(), expected.pop("values"))
        assert_agrees(dict(answer.family), expected.pop("family"))
        assert_agrees({name: getattr(answer, name) for name in expected}, expected)
        if table is not None:  # else the grid was too coarse for 0.1.0
            assert_agrees(rows(answer, 0.9), table)
    else:
        assert kind == "LogisticRelease"
        probe = np.array(expected.pop("probe"))
        assert_agrees(answer.probabilities(probe, scaled=True).tolist(), expected.pop("probabilities"))
        for name in ("coefficients", "intercepts"):
            assert_agrees(getattr(answer, name).tolist(), expected.pop(name))
        for name in ("classes", "features"):
            assert_agrees(as_list(getattr(answer, name)), expected.pop(name))
        assert_agrees({name: getattr(answer, name) for name in expected}, expected)


def spent(ledger: discreet.Ledger, dataset: str) -> Any:
    account = ledger.show(dataset).to_dict()
    return account["spent"], account["entries"]


# Documents.


def test_every_file_is_tested() -> None:
    written = {str(path.relative_to(WRITTEN)) for path in WRITTEN.rglob("*") if path.is_file()}
    known = {"README.md", "expected.json", "survey.csv", "studies/survey.csv"}
    known |= {*DOCUMENTS, *GUARANTEES, *COMMANDS, *STUDIES}
    known |= {name + ending for name in LEDGERS for ending in (".db", ".jsonl")}
    known |= {study["ledger"] for study in STUDIES.values()}
    known |= {"studies/people-results/report.html"}  # how a report looked; nothing reads it
    assert written == known


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_reads_back_and_is_reported(path: str) -> None:
    answer = load((WRITTEN / path).read_text("utf-8"))
    assert_values(answer, DOCUMENTS[path])
    assert discreet.report(answer).lstrip().lower().startswith("<!doctype html")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_a_document_is_shown(path: str, run: Run) -> None:
    code, out, err = run("show", WRITTEN / path)
    assert (code, err) == (0, "")
    answers = list(DOCUMENTS[path]["values"].get("answers", {}).values()) or [DOCUMENTS[path]]
    for about in answers:
        private = about["guarantee"]["private"] and about["values"].get("private", True)
        promised = as_now(about["guarantee"]["text"], about["kind"])
        assert (promised if private else "NOT PRIVATE") in " ".join(out.split())


@pytest.mark.parametrize("path", {about["kind"]: path for path, about in DOCUMENTS.items()}.values())
def test_every_kind_is_shown_as_json_and_reported(path: str, run: Run, tmp_path: Path) -> None:
    code, out, err = run("show", WRITTEN / path, "--json")
    assert (code, err) == (0, "")
    assert DOCUMENTS[path]["checksum"] in json.dumps(json.loads(out))
    code, _, err = run("report", WRITTEN / path, "--out", tmp_path / "report.html")
    assert code == 0, err
    page = (tmp_path / "report.html").read_text("utf-8")
    assert page.lstrip().lower().startswith("<!doctype html")


@pytest.mark.parametrize("path", DOCUMENTS)
def test_an_edited_document_is_refused(path: str) -> None:
    document = json.loads((WRITTEN / path).read_text("utf-8"))
    document["release"]["forged"] = 1
    with pytest.raises(CorruptReleaseError):
        load(json.dumps(document))


@pytest.mark.parametrize("path", [path for path, about in DOCUMENTS.items() if "charged" in about])
def test_a_report_finds_the_receipt(path: str, run: Run, opened: Any, tmp_path: Path) -> None:
    charged = DOCUMENTS[path]["charged"]
    opened(charged["ledger"].removesuffix(".db"))
    copy = tmp_path / Path(charged["ledger"]).name
    code, _, err = run("report", WRITTEN / path, "--out", tmp_path / "r.html", "--ledger", copy)
    assert code == 0, err
    assert charged["hash"] in (tmp_path / "r.html").read_text("utf-8")


# Guarantees, plans, audits.


@pytest.mark.parametrize("path", GUARANTEES)
def test_a_guarantee_reads_back(path: str) -> None:
    content, expected = json.loads((WRITTEN / path).read_text("utf-8")), GUARANTEES[path]
    guarantee = discreet.Guarantee.from_dict(content)
    assert (str(guarantee), guarantee.is_private) == (as_now(expected["text"]), expected["private"])
    assert_agrees(guarantee.to_dict(), content)
    if not guarantee.is_private:
        return
    found = {
        "rdp_2": lambda: guarantee.rdp(2),
        "delta_at_1": lambda: guarantee.delta_at(1),
        "epsilon_at_1e-6": lambda: guarantee.epsilon_at(1e-6),
        "max_order": lambda: guarantee.max_order,
    }
    for name, compute in found.items():
        if expected[name] is not None:
            assert compute() == pytest.approx(float(expected[name]), rel=1e-4, abs=1e-12), name
    zcdp = guarantee.zcdp()
    assert (None if zcdp is None else str(zcdp)) == expected["zcdp"]


@pytest.mark.parametrize("path", [path for path in COMMANDS if "audit" in path])
def test_an_audit_finds_the_same(path: str, run: Run) -> None:
    code, out, err = run(*arguments(path))
    assert code == COMMANDS[path]["code"], err
    expected = json.loads((WRITTEN / path).read_text("utf-8"))
    if expected["mechanism"] == "lattice":  # 0.1.0 left out the noisy counts, which are published
        del expected["worst"], expected["triples"]
    elif expected["mechanism"] == "lshist":  # several outcomes lose as much, and rounding decides
        del expected["worst"]["outcome"]
    assert_agrees(json.loads(out), expected)


@pytest.mark.parametrize("path", [path for path in COMMANDS if "plan" in path])
def test_a_plan_of_then_is_refused_and_its_document_is_not_one(path: str, run: Run) -> None:
    """Plans are made from a question and a schema today; what they printed was never a release."""
    code, _, err = run(*arguments(path))
    assert code == 2, err
    assert run("show", WRITTEN / path)[0] == 5


# Ledgers.


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_verifies(name: str, opened: Any, tmp_path: Path) -> None:
    ledger, expected = opened(name), LEDGERS[name]
    hashes = [receipt["hash"] for receipt in expected["receipts"]]
    export = WRITTEN / f"{name}.jsonl"
    for found in (ledger.verify(expect=hashes), ledger.verify_export(export, expect=hashes)):
        assert (found.entries, found.head) == (expected["entries"], expected["head"])
    for dataset, account in expected["accounts"].items():
        assert_agrees(ledger.show(dataset).to_dict(), account)
    assert ledger.export(tmp_path / "again.jsonl").head == expected["head"]
    assert ledger.verify_export(tmp_path / "again.jsonl", expect=hashes).entries == expected["entries"]


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_at_the_command_line(name: str, run: Run, opened: Any, tmp_path: Path) -> None:
    opened(name)
    copy, export, expected = tmp_path / f"{Path(name).name}.db", WRITTEN / f"{name}.jsonl", LEDGERS[name]
    for place in (("--ledger", copy), ("--file", export)):
        code, out, _ = run("ledger", "verify", *place)
        assert code == 0
        assert expected["head"] in out
    entries = [json.loads(line) for line in export.read_text("utf-8").splitlines()[1:-1]]
    for dataset, account in expected["accounts"].items():
        code, out, _ = run("ledger", "show", dataset, "--ledger", copy, "--json")
        assert code == 0
        assert_agrees(json.loads(out), account)
        code, out, _ = run("ledger", "history", dataset, "--ledger", copy, "--json")
        assert code == 0
        own = [{k: v for k, v in e.items() if k != "result"} for e in entries if e["dataset"] == dataset]
        assert_agrees(json.loads(out)["entries"], own)
        code, out, _ = run("ledger", "history", dataset, "--ledger", copy)
        assert code == 0
        assert all(entry["request_id"] in out for entry in own if entry["request_id"])


@pytest.mark.parametrize("name", LEDGERS)
def test_an_edited_export_is_refused(name: str, tmp_path: Path) -> None:
    text = (WRITTEN / f"{name}.jsonl").read_bytes()
    (tmp_path / "edited.jsonl").write_bytes(text.replace(b'"kind":"charge"', b'"kind":"create"', 1))
    with pytest.raises(CorruptLedgerError):
        discreet.Ledger.verify_export(tmp_path / "edited.jsonl")


@pytest.mark.parametrize("name", LEDGERS)
def test_a_ledger_goes_on(name: str, opened: Any) -> None:
    ledger, expected = opened(name), LEDGERS[name]
    ledger.create("new", epsilon=1)
    data = {"no": 7, "yes": 3}
    shorthand.shares(data, levels=("no", "yes"), epsilon=1, ledger=ledger, dataset="new", request_id="new")
    assert ledger.verify(expect=expected["head"]).entries == expected["entries"] + 2


@pytest.mark.parametrize(
    ("name", "charge"), CHARGES, ids=[f"{book}-{c['dataset']}-{c['request_id']}" for book, c in CHARGES]
)
def test_a_receipt_reads_back(name: str, charge: dict[str, Any], opened: Any) -> None:
    ledger = opened(name)
    before = spent(ledger, charge["dataset"])
    kept = ledger.receipt(charge["dataset"], charge["request_id"])
    content = {**kept.to_dict(), "plan": charge["plan"]}
    assert_agrees(content, {key: value for key, value in charge.items() if key != "result_sha256"})
    # The same plan again, as whoever keeps their own plans asks: nothing is computed or charged.
    guarantee = discreet.Guarantee.from_dict(kept.guarantee)
    again = ledger.spend(
        charge["dataset"],
        guarantee,
        lambda: pytest.fail("it was computed again"),
        plan=charge["plan"],
        request_id=charge["request_id"],
    )
    assert again.repeated
    assert hashlib.sha256(again.result).hexdigest() == charge["result_sha256"]
    with pytest.raises(RequestConflictError):
        ledger.spend(
            charge["dataset"], guarantee, str, plan={"question": "other"}, request_id=charge["request_id"]
        )
    assert spent(ledger, charge["dataset"]) == before


@pytest.mark.parametrize(
    ("name", "question"),
    QUESTIONS,
    ids=[f"{book}-{q['dataset']}-{q['request_id']}" for book, q in QUESTIONS],
)
def test_a_request_is_never_charged_twice(name: str, question: dict[str, Any], opened: Any) -> None:
    refused(question, WRITTEN, opened(name))


@pytest.mark.parametrize("name", LEDGERS)
def test_the_first_charge_after_the_upgrade_says_what_was_assumed(name: str, opened: Any) -> None:
    """Charges of 0.1.0 name no unit, and conditional releases count as replace-one there."""
    ledger, small = opened(name), Fraction(1, 1000)
    for dataset, account in LEDGERS[name]["accounts"].items():
        relation = account["relation"]
        guarantee = discreet.Guarantee(small, Relation(relation))
        if relation == "replace-person":
            guarantee = discreet.Guarantee(small).for_unit("person")
        charges = [charge for book, charge in CHARGES if book == name and charge["dataset"] == dataset]
        conditional = any(charge["plan"].get("question") == "conditional" for charge in charges)
        unnamed = relation == "replace-person" and bool(charges)
        if not ledger.price(dataset, guarantee).fits:
            continue
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
            for _ in range(2):
                ledger.spend(dataset, guarantee, lambda: "", plan={"question": "new"})
        assert len(heard) == (conditional or unnamed), dataset  # the first one only
    ledger.verify(expect=LEDGERS[name]["head"])


# Studies.


@pytest.mark.parametrize("path", STUDIES)
def test_a_study_is_not_charged_again(path: str, run: Run, tmp_path: Path) -> None:
    expected = STUDIES[path]
    shutil.copytree(WRITTEN / "studies", tmp_path / "studies")
    copy, ledger = tmp_path / path, tmp_path / expected["ledger"]
    code, _, err = run("run", copy, "--out", tmp_path / "results")
    assert code == 2
    assert "needs a table [schema]" in err
    with discreet.Ledger(ledger) as book:
        assert book.verify().entries == expected["entries"]
        assert_agrees(book.show(expected["budget"]["dataset"]).to_dict(), expected["budget"])
        assert book.verify().head == expected["head"]
