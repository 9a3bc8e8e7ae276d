"""The command line: what it prints where, what it leaves on disk, and with which code it exits."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import discreet
import shorthand
from discreet._cli import EXIT_CODES, main
from discreet.answers.release import Release

SECRET = "S3CRET-value-of-a-record"
BOX = set("─│┌┐└┘━┃┏┓┗┛╭╮╰╯═║")


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def discreet_(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    rows = ["never"] * 60 + ["former"] * 30 + ["current"] * 10
    Path("survey.csv").write_text("id,smoker\n" + "".join(f"{i},{row}\n" for i, row in enumerate(rows)))
    declare(SMOKERS)

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        captured = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), captured.out, captured.err)

    return run


SMOKERS = 'n = 100\n[columns]\nsmoker = ["never", "former", "current"]\n'
SURVEY = ("proportions", "survey.csv", "schema.toml", "smoker", "--epsilon", "1")
FILES = ["schema.toml", "survey.csv"]


def declare(text: str) -> None:
    """Write the schema of the next commands."""
    Path("schema.toml").write_text(text)


class TestRelease:
    def test_from_csv_to_file_to_screen(self, discreet_: Any) -> None:
        done = discreet_(*SURVEY, "--prior", "1", "--mechanism", "auto", "--out", "release.json")
        assert (done.code, done.err) == (0, "Saved to release.json\n")
        saved = Release.from_json(Path("release.json").read_text())
        assert saved.levels == ("never", "former", "current")
        assert (saved.n, saved.guarantee.epsilon, saved.mechanism) == (100, 1.0, "lattice")
        assert done.out == saved.summary() + "\n"
        shown = discreet_("show", "release.json")
        assert (shown.code, shown.out, shown.err) == (0, done.out, "")
        assert sorted(os.listdir()) == ["release.json", *FILES]

    def test_json_is_the_release_itself(self, discreet_: Any) -> None:
        done = discreet_(*SURVEY, "--json", "--out", "release.json")
        assert (done.code, done.err) == (0, "")
        assert json.loads(done.out) == json.loads(Path("release.json").read_text())
        assert sum(Release.from_json(done.out).counts) == 100

    def test_without_out_it_says_that_nothing_is_saved(self, discreet_: Any) -> None:
        done = discreet_(*SURVEY)
        assert done.code == 0
        assert "--out FILE" in done.err
        assert sorted(os.listdir()) == FILES

    def test_every_parameter_arrives(self, discreet_: Any) -> None:
        Path("t.csv").write_text('v\n"a, b"\n"a, b"\nx\n\n')
        declare('n = 4\n[columns]\nv = {values = ["c", "d", "a, b"], other = "c", missing = "d"}\n')
        done = discreet_(
            *("proportions", "t.csv", "schema.toml", "v", "--epsilon", "1/3", "--json"),
            *("--prior", "0.5,1,2", "--mechanism", "lshist"),
        )
        assert done.code == 0
        release = Release.from_json(done.out)
        assert release.levels == ("c", "d", "a, b")
        assert (release.prior, release.n, release.mechanism) == ((0.5, 1.0, 2.0), 4, "lshist")
        assert str(release.guarantee.exact_epsilon) == "1/3"

    def test_an_existing_file_is_kept_unless_forced(self, discreet_: Any) -> None:
        Path("release.json").write_text("precious")
        refused = discreet_(*SURVEY, "--out", "release.json")
        assert refused.code == 4
        assert "--force" in refused.err
        assert refused.out == ""
        assert Path("release.json").read_text() == "precious"
        assert discreet_(*SURVEY, "--out", "release.json", "--force").code == 0
        assert discreet_("show", "release.json").code == 0

    def test_an_unwritable_place_is_found_before_the_data_is_opened(
        self, discreet_: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(
            "discreet.questions._asking.BoundQuestion.answer",
            lambda *_: pytest.fail("the data were opened"),
        )
        for place in ("none/release.json", "."):
            failed = discreet_(*SURVEY, "--out", place)
            assert failed.code == 4
            assert "Traceback" not in failed.err

    def test_a_full_disk_leaves_nothing_and_prints_nothing(
        self, discreet_: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "fsync", full)
        failed = discreet_(*SURVEY, "--out", "release.json")
        assert failed.code == 4
        assert "No space left" in failed.err
        assert failed.out == ""
        assert sorted(os.listdir()) == FILES

    @pytest.mark.parametrize("kind", ["csv", "tsv", "parquet", "json", "jsonl", None])
    def test_standard_input(self, kind: str | None, discreet_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        table, buffer = pl.DataFrame({"id": [1, 2], "v": ["no", "yes"]}), io.BytesIO()
        write: dict[str | None, Any] = {
            "parquet": table.write_parquet,
            "json": table.write_json,
            "jsonl": table.write_ndjson,
            "tsv": lambda file: table.write_csv(file, separator="\t"),
        }
        write.get(kind, table.write_csv)(buffer)
        buffer.seek(0)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(buffer))
        declare('n = "public"\n[columns]\nv = ["no", "yes"]\n')
        command = ("proportions", "-", "schema.toml", "v", "--epsilon", "9", "--json")
        done = discreet_(*command, *(("--format", kind) if kind else ()))
        assert done.code == 0, done.err
        assert Release.from_json(done.out).n == 2

    def test_noise_above_every_count_is_a_warning(self, discreet_: Any) -> None:
        noisy = (*SURVEY[:-1], "0.001", "--out", "r.json")
        done = discreet_(*noisy)
        assert done.code == 0
        assert done.err.startswith("warning: epsilon=")
        assert done.err.count("\n") == 2
        done = discreet_(*noisy, "--force", "--json")
        assert json.loads(done.err)["warning"]["type"] == "NoiseWarning"


BAD = {
    "epsilon 0": (("--epsilon", "0"), 2, "must be positive"),
    "no epsilon": (("--prior", "1"), 2, "epsilon is missing"),
    "epsilon negative": (("--epsilon", "-1"), 2, "must be positive"),
    "epsilon nan": (("--epsilon", "nan"), 2, "must be finite"),
    "epsilon infinite": (("--epsilon", "inf"), 2, "must be finite"),
    "epsilon text": (("--epsilon", "much"), 2, "is not a number"),
    "prior 0": (("--prior", "0"), 2, "must be positive"),
    "prior length": (("--prior", "1,1"), 2, "2 parameters for 3 levels"),
    "prior text": (("--prior", "flat"), 2, "--prior 'flat' must be a number"),
    "prior empty": (("--prior", " "), 2, "--prior is empty; give a value, or leave it out"),
    "prior gap": (("--prior", "1,,1"), 2, "empty entry"),
    "by": (("--by", "smokr"), 2, "did you mean 'smoker'"),
    "by itself": (("--by", "smoker"), 2, "a column other than"),
    "option of the mechanism": (("--options", "gama=2"), 2, "gama"),
    "options": (("--options", "gamma"), 2, "must be name="),
    "mechanism": (("--mechanism", "latice"), 2, "did you mean 'lattice'"),
    "column": (("smokr",), 2, "did you mean 'smoker'"),
    "column twice": (("smoker",), 2, "twice"),
    "format of a file": (("--format", "csv"), 2, "--format is for standard input"),
    "unknown option": (("--epsilonn", "1"), 2, "--epsilonn"),
}
BAD_SCHEMAS = {
    "one value": ('[columns]\nsmoker = ["never"]\n', 2, "at least two"),
    "same value twice": ('[columns]\nsmoker = ["never", "never"]\n', 2, "twice"),
    "apart by white space": ('[columns]\nsmoker = ["never", " never"]\n', 2, "only in white space"),
    "other is no value": (
        '[columns]\nsmoker = {values = ["never", "former"], other = "pipe"}\n',
        2,
        "other='pipe' is not one of",
    ),
    "outside": (
        '[columns]\nsmoker = {low = 0, high = 1, outside = "clipp"}\n',
        2,
        "must be one of: clip, bin",
    ),
    "a key of a column": ('[columns]\nsmoker = {valuse = ["a", "b"]}\n', 2, "must have values="),
    "n": (SMOKERS.replace("100", "99"), 2, "n=99"),
    "n text": (SMOKERS.replace("100", '"many"'), 2, "n 'many'"),
    "a key": ("m" + SMOKERS, 2, "did you mean 'n'"),
    "no columns": ("n = 100\n", 2, "needs a table of columns"),
    "no schema": ("never,former", 2, "not valid TOML"),
    "person": ('person = "id"\n' + SMOKERS, 2, "go together"),
    "undeclared value": (SMOKERS.replace(', "current"', ""), 3, "10 of 100 records hold a value outside"),
}


def check_refused(arguments: tuple[str, ...], code: int, message: str, discreet_: Any) -> None:
    failed = discreet_(*arguments, "--out", "release.json")
    assert failed.code == code
    assert failed.out == ""
    assert failed.err.startswith("error: ")
    assert message in failed.err
    assert "Traceback" not in failed.err
    assert sorted(os.listdir()) == FILES
    as_json = discreet_(*arguments, "--json")
    assert as_json.code == code
    assert as_json.out == ""
    error = json.loads(as_json.err)["error"]
    assert set(error) == {"type", "message"}
    assert message in error["message"]


@pytest.mark.parametrize("case", BAD)
def test_bad_parameters(case: str, discreet_: Any) -> None:
    options, code, message = BAD[case]
    arguments = SURVEY[:-2] if case == "no epsilon" or "--epsilon" in options else SURVEY
    check_refused((*arguments, *options), code, message, discreet_)


@pytest.mark.parametrize("case", BAD_SCHEMAS)
def test_bad_schemas(case: str, discreet_: Any) -> None:
    text, code, message = BAD_SCHEMAS[case]
    declare(text)
    check_refused(SURVEY, code, message, discreet_)


BAD_FILES = {
    "white space": (
        "t.csv",
        f"v\nnever\n never \n{SECRET}\n",
        3,
        "some of these differ from a level only by white",
    ),
    "missing": ("t.csv", f"v,w\nnever,1\n,{SECRET}\n", 3, "missing="),
    "no header": ("t.csv", f"{SECRET},never\nx,former\n", 4, "looks like a record"),
    "ragged": ("t.csv", f"v\nnever\nnever,{SECRET}\n", 4, "see line 3"),
    "text as parquet": ("t.parquet", f"v\n{SECRET}\n", 4, "not a Parquet file"),
    "broken json": ("t.json", f'[{{"v": "{SECRET}"}}, {SECRET}]', 4, "not a well-formed .json file"),
    "ending": ("t.ods", SECRET, 4, "the name must end in one of"),
    "text as Excel": ("t.xlsx", SECRET, 4, "is not an .xlsx file"),
    "nested": ("t.json", json.dumps([{"v": {SECRET: [1]}}]), 3, "outside the declared levels"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_not_quoted(case: str, discreet_: Any) -> None:
    name, content, code, message = BAD_FILES[case]
    Path(name).write_text(content)
    declare(SMOKERS.replace("n = 100", "").replace("smoker", "v"))  # how many misfit is private, too
    for column in (("v",), ()):
        failed = discreet_(
            "proportions", name, "schema.toml", *column, "--epsilon", "1", "--out", "release.json"
        )
        assert failed.code == code, failed.err
        assert message in failed.err
        assert SECRET not in failed.err + failed.out
        assert not Path("release.json").exists()


def test_no_records_are_an_error_where_their_number_is_public(discreet_: Any) -> None:
    Path("survey.csv").write_text("id,smoker\n")
    declare(SMOKERS.replace("100", '"public"'))
    failed = discreet_(*SURVEY)
    assert (failed.code, "empty" in failed.err) == (3, True)


def test_files_that_are_not_there(discreet_: Any) -> None:
    assert discreet_("proportions", "none.csv", "schema.toml", "--epsilon", "1").code == 4
    assert discreet_("proportions", "survey.csv", "none.toml", "--epsilon", "1").code == 4
    assert discreet_("show", "none.json").code == 4


class TestSchema:
    def test_a_template_names_columns_and_looks_at_no_value(self, discreet_: Any) -> None:
        template = discreet_("schema", "survey.csv", "--n", "100")
        assert (template.code, template.err) == (0, "")
        assert "smoker" in template.out
        assert "former" not in template.out
        saved = discreet_("schema", "survey.csv", "--n", "100", "--out", "template.toml")
        assert saved.code == 0
        assert "not from the data" in saved.err
        assert Path("template.toml").read_text() == template.out
        assert discreet_("schema", "survey.csv", "--out", "template.toml").code == 4
        unfilled = discreet_("proportions", "survey.csv", "template.toml", "smoker", "--epsilon", "1")
        assert unfilled.code == 2
        declare(template.out.replace("smoker = []", 'smoker = ["never", "former", "current"]'))
        assert discreet_(*SURVEY).code == 0

    def test_check_speaks_at_a_terminal_only(self, discreet_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        declare(SMOKERS.replace(', "current"', ""))
        piped = discreet_("check", "survey.csv", "schema.toml")
        assert (piped.code, piped.out) == (2, "")
        assert "private counts, to a terminal only" in piped.err
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        told = discreet_("check", "survey.csv", "schema.toml")
        assert told.code == 0
        assert "10" in told.out
        assert "These numbers are private" in told.out
        assert sorted(os.listdir()) == FILES


class TestShow:
    @pytest.fixture
    def saved(self, discreet_: Any) -> Path:
        assert discreet_(*SURVEY, "--out", "release.json").code == 0
        return Path("release.json")

    def test_json(self, saved: Path, discreet_: Any) -> None:
        shown = json.loads(discreet_("show", "release.json", "--level", "0.5", "--json").out)
        release = Release.from_json(saved.read_text())
        assert shown["level"] == 0.5
        assert shown["table"] == release.table(0.5)
        assert shown["release"]["counts"] == list(release.counts)

    @pytest.mark.parametrize("level", ["0", "1", "95", "nan"])
    def test_levels_outside_0_1(self, level: str, saved: Path, discreet_: Any) -> None:
        failed = discreet_("show", "release.json", "--level", level)
        assert failed.code == 2
        assert "between 0 and 1" in failed.err

    def test_corrupt_releases(self, saved: Path, discreet_: Any) -> None:
        text = saved.read_text()
        for content in (
            text.replace("never", "nevre").encode(),
            text.replace('"version": 2', '"version": 99').encode(),
            text[: len(text) // 2].encode(),
            b"",
            b"[]",
            b"\xff\xfe\x00",
            b"PAR1",
        ):
            saved.write_bytes(content)
            failed = discreet_("show", "release.json")
            assert failed.code == 5, content
            assert failed.err.startswith("error: ")
            assert (
                json.loads(discreet_("show", "release.json", "--json").err)["error"]["type"]
                == "CorruptReleaseError"
            )

    def test_a_level_cannot_drive_the_terminal(self, discreet_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        hostile = "\x1b[2J[bold]x\x07"
        release = shorthand.shares({"a": 5, hostile: 5}, levels=("a", hostile), epsilon=1)
        Path("release.json").write_text(release.to_json())
        for terminal in (False, True):
            monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
            monkeypatch.setenv("TERM", "dumb")
            out = discreet_("show", "release.json").out
            assert hostile not in out
            assert "\x07" not in out
            assert "\\x1b[2J[bold]x\\x07" in out


PLAN = ("plan", "proportions", "schema.toml", "smoker")


class TestPlan:
    def test_it_prints_the_plan(self, discreet_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = discreet.plan(discreet.Proportions("smoker", epsilon="0.8"), "schema.toml")
        done = discreet_(*PLAN, "--epsilon", "0.8")
        assert (done.code, done.out, done.err) == (0, f"{expected}\n", "")
        document = json.loads(discreet_(*PLAN, "--epsilon", "0.8", "--json").out)
        assert document == json.loads(json.dumps(expected.to_dict()))
        os.remove("survey.csv")  # no data are opened
        assert discreet_(*PLAN, "--epsilon", "0.8").out == done.out

    def test_it_finds_epsilon_and_n(self, discreet_: Any) -> None:
        question = discreet.Proportions("smoker")
        document = json.loads(discreet_(*PLAN, "--within", "12 points", "--json").out)
        assert document["epsilon"] == discreet.plan(question, "schema.toml", within=0.12).to_dict()["epsilon"]
        declare(SMOKERS.replace("n = 100", ""))
        found = discreet_(*PLAN, "--epsilon", "2", "--within", "0.05", "--json")
        expected = discreet.plan(discreet.Proportions("smoker", epsilon=2), "schema.toml", within=0.05)
        assert json.loads(found.out)["n"] == expected.n

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "a plan needs epsilon, or the wanted half-width"),
            (("--epsilon", "1", "--within", "0.1"), "give two of n, epsilon and within"),
            (("--within", "0"), "must be a positive number"),
            (("--epsilon", "0"), "must be positive"),
            (("--epsilon", "1", "--level", "2"), "between 0 and 1"),
            (("--within", "0.1", "--of", "never"), "must be one of"),
            (("--epsilon", "1", "--guess", "typcal=0.3"), "did you mean 'typical'"),
        ],
    )
    def test_bad_input(self, arguments: tuple[str, ...], message: str, discreet_: Any) -> None:
        failed = discreet_(*PLAN, *arguments)
        assert (failed.code, failed.out) == (2, "")
        assert message in failed.err


class TestAudit:
    def test_the_verdict(self, discreet_: Any) -> None:
        command = (
            "audit",
            "ehds",
            "--prior",
            "1,1",
            "--n",
            "30",
            "--epsilon",
            "0.8",
            "--options",
            "gamma=0.5",
        )
        done = discreet_(*command)
        m = discreet.mechanism("ehds", prior=(1, 1), n=30, epsilon="0.8", gamma=0.5)
        audit = discreet.audit(m)
        assert (done.code, done.out, done.err) == (0, f"{audit}\n", "")
        document = json.loads(discreet_(*command, "--json").out)
        assert document["holds"] is True
        assert document["epsilon"] == audit.epsilon
        assert document["slack"] == audit.slack
        assert document["claimed"]["epsilon"] == "4/5"
        assert document["worst"]["counts"] == list(audit.worst.counts)
        assert document["triples"] == audit.triples

    def test_the_options_arrive(self, discreet_: Any) -> None:
        command = ("audit", "ehd", "--prior", "1,1", "--n", "20", "--epsilon", "0.8", "--json")
        loss = json.loads(discreet_(*command, "--options", "calibration=exact").out)["epsilon"]
        assert 0.79 < loss <= 0.8
        assert "'delta' is not an option" in discreet_(*command, "--delta", "1e-3").err

    def test_without_a_claim(self, discreet_: Any) -> None:
        command = ("audit", "ehdl", "--prior", "0.1,0.1", "--n", "200", "--epsilon", "0.8")
        done = discreet_(*command)
        assert done.code == 0
        assert "no guarantee is claimed" in done.out
        document = json.loads(discreet_(*command, "--json").out)
        assert document["claimed"] is None
        assert document["holds"] is None
        assert document["epsilon"] == pytest.approx(0.8214, abs=1e-4)

    def test_the_curve_as_table_and_picture(self, discreet_: Any) -> None:
        command = ("audit", "lshist", "--prior", "1,1", "--n", "10", "--epsilon", "1/2")
        done = discreet_(*command, "--csv", "curve.csv", "--plot", "curve.svg")
        assert (done.code, done.err) == (0, "Saved to curve.csv\nSaved to curve.svg\n")
        header, *rows = Path("curve.csv").read_text().splitlines()
        assert header == "epsilon,delta"
        values = [tuple(map(float, row.split(","))) for row in rows]
        assert [delta for _, delta in values] == sorted((delta for _, delta in values), reverse=True)
        assert "<svg" in Path("curve.svg").read_text()
        assert discreet_(*command, "--csv", "curve.csv").code == 4
        assert discreet_(*command, "--csv", "curve.csv", "--force").code == 0

    def test_a_false_claim_has_its_own_exit_code(
        self, discreet_: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real = discreet.audit
        careless = discreet.mechanism("lshist", prior=(1, 1), n=10, epsilon="0.51")
        claim = discreet.Guarantee(Fraction(1, 2))
        monkeypatch.setattr("discreet.audit", lambda m: dataclasses.replace(real(careless), claimed=claim))
        for options in ((), ("--json",)):
            done = discreet_("audit", "lshist", "--prior", "1,1", "--n", "10", "--epsilon", "1/2", *options)
            assert done.code == 6
            assert "FALSE" in done.out or json.loads(done.out)["holds"] is False

    def test_too_large(self, discreet_: Any) -> None:
        failed = discreet_("audit", "lshist", "--prior", "1,1,1,1,1", "--n", "1000", "--epsilon", "1")
        assert failed.code == 2
        assert "triples" in failed.err


class TestLedger:
    LEDGER = ("--ledger", "sqlite:///l.db")

    @pytest.fixture
    def made(self, discreet_: Any) -> Any:
        done = discreet_("ledger", "create", "survey", "--epsilon", "1", *self.LEDGER)
        assert done.code == 0, done.err
        return discreet_

    def test_from_cap_to_refusal(self, made: Any) -> None:
        charge = (*SURVEY[:-1], "1/2", *self.LEDGER, "--dataset", "survey")
        for i in range(2):
            done = made(*charge, "--out", f"r{i}.json", "--request-id", f"q{i}")
            assert done.code == 0, done.err
            assert "Charged: ε = 0.5 to survey" in done.err
            assert f"request id q{i}" in done.err
        before = sorted(os.listdir())
        refused = made(*charge, "--out", "r2.json")
        assert (refused.code, refused.out) == (7, "")
        assert "cap ε = 1; spent ε = 1; asked ε = 0.5; left ε = 0" in refused.err
        assert sorted(os.listdir()) == before

    def test_a_retry_prints_the_stored_release_without_the_data(self, made: Any) -> None:
        charge = (*SURVEY, *self.LEDGER, "--dataset", "survey", "--request-id", "q1")
        first = made(*charge, "--json")
        receipt = json.loads(first.err)["receipt"]
        assert (receipt["charged"], receipt["repeated"]) == ({"epsilon": "1"}, False)
        os.remove("survey.csv")
        again = made(*charge, "--json", "--out", "r.json")
        assert (again.code, again.out) == (0, first.out)
        assert json.loads(again.err)["receipt"]["repeated"] is True
        assert json.loads(Path("r.json").read_text()) == json.loads(first.out)
        other = made(*charge, "--mechanism", "lshist")
        assert (other.code, other.out) == (7, "")
        assert "another plan" in other.err

    def test_a_file_that_cannot_be_written_after_the_charge_costs_no_result(
        self, made: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        charge = (*SURVEY, *self.LEDGER, "--dataset", "survey", "--request-id", "q1")
        with monkeypatch.context() as disk:
            disk.setattr(os, "fsync", full)
            failed = made(*charge, "--out", "r.json")
        assert failed.code == 4
        assert "request id q1" in failed.err
        assert made(*charge, "--out", "r.json").code == 0

    def test_show_history_price_cap(self, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        assert made(*SURVEY, *self.LEDGER, "--dataset", "survey", "--request-id", "q1").code == 0
        monkeypatch.setenv("DISCREET_LEDGER", "l.db")
        assert json.loads(made("ledger", "show", "survey", "--json").out)["remaining"] == {"epsilon": "0"}
        assert json.loads(made("ledger", "show", "--json").out)["datasets"][0]["dataset"] == "survey"
        assert "remaining  ε = 0" in made("ledger", "show", "survey").out
        header, row = made("ledger", "show").out.splitlines()
        assert header.split() == ["dataset", "cap", "spent", "remaining", "entries"]
        assert row == "survey   ε = 1  ε = 1  ε = 0      2"
        kinds = [
            entry["kind"]
            for entry in json.loads(made("ledger", "history", "survey", "--json").out)["entries"]
        ]
        assert kinds == ["create", "charge"]
        assert "q1" in made("ledger", "history", "survey").out
        priced = made("ledger", "price", "survey", "--epsilon", "0.1", "--json")
        assert (priced.code, json.loads(priced.out)["fits"]) == (7, False)
        assert made("ledger", "cap", "survey", "--epsilon", "3/2").code == 0
        priced = made("ledger", "price", "survey", "--epsilon", "0.1")
        assert priced.code == 0
        assert "fits   yes" in priced.out
        assert made("ledger", "cap", "survey", "--epsilon", "0.1").code == 7
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        for command in (("show",), ("show", "survey"), ("history", "survey")):
            assert BOX & set(made("ledger", *command).out)

    def test_other_units(self, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DISCREET_LEDGER", "l.db")
        assert made("ledger", "create", "z", "--zcdp", "1/8", "--relation", "add-remove").code == 0
        assert made("ledger", "price", "z", "--epsilon", "1/2").code == 0
        assert made("ledger", "price", "z", "--zcdp", "1/8").code == 0
        assert made("ledger", "price", "z", "--zcdp", "1/7").code == 7
        mixed = made("ledger", "price", "z", "--epsilon", "1", "--delta", "1e-6")
        assert mixed.code == 7
        assert "no price" in mixed.err
        assert made("ledger", "create", "d", "--epsilon", "1", "--delta", "1e-6").code == 0
        assert made("ledger", "price", "d", "--epsilon", "1", "--delta", "1e-6").code == 0

    def test_verify_and_export(self, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DISCREET_LEDGER", "l.db")
        assert made("ledger", "export", "l.jsonl").code == 0
        assert made("ledger", "export", "l.jsonl").code == 4
        assert json.loads(made("ledger", "export", "l.jsonl", "--force", "--json").out)["entries"] == 1
        head = json.loads(made("ledger", "verify", "--json").out)["head"]
        assert made("ledger", "verify", "--expect", head).out == f"intact: 1 entries, head {head}\n"
        assert made("ledger", "verify", "--expect", "0" * 64).code == 5
        monkeypatch.delenv("DISCREET_LEDGER")
        assert made("ledger", "verify", "--file", "l.jsonl").code == 0
        Path("l.jsonl").write_text(Path("l.jsonl").read_text().replace("survey", "surwey"))
        damaged = made("ledger", "verify", "--file", "l.jsonl")
        assert damaged.code == 5
        assert "row 1" in damaged.err

    @pytest.mark.parametrize(
        ("command", "code", "message"),
        [
            (("ledger", "show"), 2, "no ledger is named"),
            (("ledger", "show", "--ledger", "none.db"), 8, "there is no ledger"),
            (("ledger", "show", "surwey", *LEDGER), 2, "did you mean 'survey'"),
            (("ledger", "create", "survey", "--epsilon", "1", *LEDGER), 2, "exists already"),
            (("ledger", "create", "b", *LEDGER), 2, "give one of these three"),
            (("ledger", "create", "b", "--epsilon", "1", "--relation", "swap", *LEDGER), 2, "--relation"),
            (("ledger", "create", "b", "--epsilon", "1", "--ledger", "mysql://h/d"), 2, "PostgreSQL"),
            ((*SURVEY, *LEDGER), 2, "--dataset NAME"),
            ((*SURVEY, "--dataset", "survey"), 2, "--ledger"),
            ((*SURVEY, "--request-id", "q"), 2, "--dataset"),
            ((*SURVEY, "--dataset", "surwey", *LEDGER), 2, "did you mean 'survey'"),
            ((*SURVEY, "--dataset", "survey", "--ledger", "none.db"), 8, "there is no ledger"),
        ],
    )
    def test_bad_input(self, command: tuple[str, ...], code: int, message: str, made: Any) -> None:
        before = sorted(os.listdir())
        failed = made(*command)
        assert (failed.code, failed.out) == (code, "")
        assert failed.err.startswith("error: ")
        assert message in failed.err
        assert sorted(os.listdir()) == before
        assert set(json.loads(made(*command, "--json").err)["error"]) == {"type", "message"}

    def test_an_environment_with_a_ledger_does_not_release_past_it(
        self, made: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DISCREET_LEDGER", "l.db")
        refused = made(*SURVEY)
        assert (refused.code, refused.out) == (2, "")
        assert "--dataset NAME" in refused.err


class TestOutput:
    def test_plain_when_piped_and_a_table_on_a_terminal(
        self, discreet_: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commands: tuple[tuple[str, ...], ...] = (SURVEY, ("mechanisms",), ("--help",), ("mean", "--help"))
        for command in commands:
            piped = discreet_(*command)
            assert piped.code == 0
            assert "\x1b" not in piped.out + piped.err
            assert not BOX & set(piped.out + piped.err)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        for command in commands[:2]:
            assert BOX & set(discreet_(*command).out)

    def test_mechanisms(self, discreet_: Any) -> None:
        listed = json.loads(discreet_("mechanisms", "--json").out)["mechanisms"]
        assert {"auto", "lszhang", "lsdim", "lshist", "lattice"} <= {row["name"] for row in listed}
        assert all(row["description"] for row in listed)
        text = discreet_("mechanisms").out
        assert all(row["name"] in text and row["description"] in text for row in listed)

    def test_version(self, discreet_: Any) -> None:
        expected = f"discreet {discreet.__version__}\n"
        assert discreet_("--version").out == discreet_("version").out == expected
        assert json.loads(discreet_("version", "--json").out) == {"version": discreet.__version__}

    def test_help_tells_the_exit_codes(self, discreet_: Any) -> None:
        for command in (
            (),
            *((name,) for name in ("proportions", "show", "audit", "version", "ledger", "schema")),
            ("mechanisms",),
            ("plan", "mean"),
            *(("ledger", name) for name in ("create", "show", "history", "price", "cap", "verify", "export")),
        ):
            text = discreet_(*command, "--help").out
            assert all(f"{code} " in text and meaning in text for code, meaning in EXIT_CODES.items())
        assert discreet_().out == discreet_("--help").out
        assert discreet_("ledger").out == discreet_("ledger", "--help").out

    def test_unforeseen_errors_show_no_message(self, discreet_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError(SECRET)

        monkeypatch.setattr("discreet.questions._asking.BoundQuestion.answer", broken)
        failed = discreet_(*SURVEY, "--out", "release.json")
        assert failed.code == 70
        assert "internal error (RuntimeError)" in failed.err
        assert SECRET not in failed.err
        assert sorted(os.listdir()) == FILES

    def test_interruption(self, discreet_: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr("discreet.questions._asking.BoundQuestion.answer", interrupted)
        failed = discreet_(*SURVEY, "--out", "release.json")
        assert failed.code == 130
        assert sorted(os.listdir()) == FILES


class TestProcess:
    """What only a process of its own can show."""

    def test_help_loads_nothing_heavy(self) -> None:
        program = """
import sys
from discreet._cli import main
try:
    main(["--help"])
except SystemExit as stop:
    assert stop.code == 0
heavy = {"numpy", "scipy", "narwhals", "duckdb", "rich", "pandas", "polars", "pyarrow", "sqlalchemy"}
heavy &= set(sys.modules)
assert not heavy, heavy
"""
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    def test_a_reader_that_leaves_is_no_error(self) -> None:
        program = f"{sys.executable} -m discreet._cli mechanisms --json"
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", f"{program} | true"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")

    def test_shell_completion(self) -> None:
        words = {"_DISCREET_COMPLETE": "complete_bash", "COMP_WORDS": "discreet mech", "COMP_CWORD": "1"}
        program = "from discreet._cli import main; main()"
        command = [sys.executable, "-c", program]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, **words}, check=True
        )
        assert done.stdout.strip() == "mechanisms"

    def test_a_terminal_without_greek(self, tmp_path: Path) -> None:
        path = tmp_path / "release.json"
        path.write_text(
            shorthand.shares({"a": 5, "é": 5}, levels=("a", "é"), epsilon=1).to_json(), encoding="utf-8"
        )
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        for option in ((), ("--json",)):
            command = [sys.executable, "-m", "discreet._cli", "show", str(path), *option]
            done = subprocess.run(command, capture_output=True, env=environment, check=True)
            assert done.stderr == b""
            assert not option or json.loads(done.stdout)["release"]["levels"] == ["a", "é"]


# Posterior draws.


def test_draw_from_a_file_and_show(discreet_: Any) -> None:
    Path("ages.csv").write_text("age\n" + "23\n64\n41\n" * 30)
    declare("n = 90\n[columns]\nage = [0, 100]\n")
    rest = ("draw", "ages.csv", "schema.toml", "age", "--family", "gaussian", "--prior", "50,30")
    target = ("--epsilon", "1", "--delta", "1e-6")
    done = discreet_(*rest, *target, "--options", "sigma=20", "--out", "mean.json")
    assert (done.code, done.err) == (0, "Saved to mean.json\n")
    assert "diffused gaussian" in done.out
    assert discreet_("show", "mean.json").out == done.out
    shown = json.loads(discreet_("show", "mean.json", "--json", "--level", "0.5").out)
    assert shown["format"] == "discreet/sample"
    assert len(shown["table"]) == 1
    assert "50 % interval" in discreet_("show", "mean.json", "--level", "0.5").out
    printed = json.loads(discreet_(*rest, *target, "--json", "--options", "sigma=20; draws=2").out)
    assert len(printed["release"]["draws"]) == 2
    aimless = discreet_(*rest, *target[:2], "--options", "sigma=20")
    assert aimless.code == 2
    assert "is not a target" in aimless.err
    assert "sigma" in discreet_(*rest, *target).err
    declare("[columns]\nage = [0, 100]\n")
    assert "declare n" in discreet_(*rest, *target, "--options", "sigma=20").err
    Path("mean.json").write_text(Path("mean.json").read_text().replace('"n": 90', '"n": 91'))
    assert discreet_("show", "mean.json").code == 5


def test_draw_charges_the_ledger(discreet_: Any) -> None:
    Path("visits.csv").write_text("visits\n" + "1\n0\n4\n" * 30)
    declare("n = 90\n[columns]\nvisits = [0, 20]\n")
    made = discreet_("ledger", "create", "clinic", "--epsilon", "1", "--delta", "1e-5", "--ledger", "l.db")
    assert made.code == 0
    arguments = ("draw", "visits.csv", "schema.toml", "visits", "--family", "poisson", "--prior", "2,1",
                 "--epsilon", "0.6", "--delta", "1e-6",
                 "--dataset", "clinic", "--ledger", "l.db", "--request-id")  # fmt: skip
    first = discreet_(*arguments, "a")
    assert first.code == 0
    assert discreet_(*arguments, "a").out == first.out
    refused = discreet_(*arguments, "b", "--out", "nothing.json")
    assert refused.code == 7
    assert not Path("nothing.json").exists()
