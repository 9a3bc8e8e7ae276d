"""A statement for the regulator: the record fits the registry's schema, and nobody's blank is filled."""

from __future__ import annotations

import dataclasses
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator
from typer.testing import CliRunner

import discreet
from discreet._cli import app
from discreet._documents.study import StudyResult
from discreet._reporting import statement
from discreet.ledger.budgets import Budget

ABOUT = {
    "data_curators": ['Office: for "statistics"'],
    "description": "Share of smokers\nand mean age",
    "intended_use": "Planning",
    "data_product_region": "Utopia",
    "publication_date": "2026-11-18",
    "registry_authors": ["A. Person"],
}


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> StudyResult:
    records = {
        "smoker": [random.Random(i).choice(["no", "yes"]) for i in range(200)],
        "age": [18 + i % 70 for i in range(200)],
    }
    schema = discreet.Schema({"smoker": ["no", "yes"], "age": (18, 95)}, n=200)
    ledger = tmp_path_factory.mktemp("ledger") / "ledger.db"
    study = discreet.Study(records, schema, ledger=str(ledger), dataset="survey", epsilon=3, delta="1e-6")
    study.proportions("smoker", epsilon=0.5)
    study.mean("age", epsilon=0.25)
    return study.result(title="Smoking survey")


def errors(record: Any) -> list[str]:
    checker = Draft7Validator(statement.SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [error.message for error in checker.iter_errors(record)]


def test_the_record_fits_the_schema_and_says_what_was_spent(result: StudyResult) -> None:
    record, missing = statement.registry_record(result, ABOUT)
    assert missing == []
    read = yaml.safe_load(statement.as_yaml(record))
    assert errors(read) == [] == list(statement.problems(read, statement.SCHEMA))
    told = read["deployment"]
    assert told["privacy_loss"]["privacy_parameters"] == {"epsilon": 0.75}
    assert read["url_slug"] == "smoking-survey-office-for-statistics--2026"  # as the registry makes it
    assert told["dp_variant"]["variant_name"] == "Pure DP"
    assert "n = 200" in told["dp_variant"]["unprotected_quantities"]
    assert told["basic"]["data_curators"] == ABOUT["data_curators"]
    assert told["basic"]["description"].split() == ABOUT["description"].split()  # type: ignore[attr-defined]


def test_no_text_adds_a_line_of_its_own(result: StudyResult) -> None:
    for end in ("\r", "\x85", "\u2028", "\x1b", "\n"):
        title = f"A\nB{end}status: Final"
        record, _ = statement.registry_record(dataclasses.replace(result, title=title), ABOUT)
        read = yaml.safe_load(statement.as_yaml(record))
        assert read["status"] == "Draft"
        assert read["deployment"]["basic"]["name"].strip() == title


@pytest.mark.parametrize("delta", ["1e-5", "1e-6", "2e-7", "1/300000"])
def test_small_numbers_are_numbers_of_yaml_and_not_below_what_was_spent(
    result: StudyResult, delta: str
) -> None:
    assert result.account is not None
    spent = Budget(epsilon=Fraction(3, 4), delta=Fraction(delta))
    account = dataclasses.replace(result.account, spent=spent, cap=spent)
    record, _ = statement.registry_record(dataclasses.replace(result, account=account), ABOUT)
    text = statement.as_yaml(record)
    assert errors(read := yaml.safe_load(text)) == []
    assert isinstance(read["deployment"]["privacy_loss"]["privacy_parameters"]["delta"], float)
    written = text.split("delta: ")[1].split()[0]
    assert 0 <= Fraction(written) / Fraction(delta) - 1 < 1e-15


def test_no_field_is_named_that_nobody_filled(result: StudyResult) -> None:
    record, missing = statement.registry_record(result, {})
    assert missing == [
        "data_curators",
        "description",
        "intended_use",
        "data_product_region",
        "publication_date",
        "registry_authors",
    ]
    filled = [name for part in record["deployment"].values() for name in part]
    assert "justification" not in filled
    assert not set(missing) & set(filled)
    assert all(value for part in record["deployment"].values() for value in part.values())


def test_the_tier_counts_what_is_filled(result: StudyResult) -> None:
    more = {**ABOUT, "data_source_type": "Static", "access_type": "Non-interactive"}
    assert statement.registry_record(result, ABOUT)[0]["tier"] == 1
    assert statement.registry_record(result, more)[0]["tier"] == 2
    most = {"actors": "-", "preprocessing_and_hyperparameter_tuning": "none", "justification": "-"}
    assert statement.registry_record(result, more | most)[0]["tier"] == 3


@pytest.mark.parametrize(
    ("changed", "value"),
    [
        ("publication_date", "1.1.2026"),
        ("data_curators", []),
        ("data_curators", "Office"),
        ("data_product_sector", "Fishing"),
        ("privacy_parameters", {"epsilon": "one"}),
        ("privacy_parameters", {"alpha": 1}),
        ("name", True),
    ],
)
def test_our_validator_refuses_what_the_schema_refuses(
    result: StudyResult, changed: str, value: object
) -> None:
    record, _ = statement.registry_record(result, ABOUT)
    part = next(
        part
        for part in statement.SCHEMA["properties"]["deployment"]["properties"].items()
        if changed in part[1]["properties"]
    )
    record["deployment"].setdefault(part[0], {})[changed] = value
    assert errors(record)
    assert list(statement.problems(record, statement.SCHEMA))
    with pytest.raises(discreet.errors.InvalidInputError, match="about"):
        statement.registry_record(result, {**ABOUT, changed: value})


def test_the_page_marks_what_a_person_must_answer(result: StudyResult) -> None:
    page = statement.review_page(result, {"review": {"choice": "The board <chose>."}})
    open_questions = page.count("To be filled in by a person.")
    assert f"Open questions: {open_questions}." in page
    assert open_questions == 5
    fields = {"intended_use": "Planning.", "actors": "The office", "access_type": "Non-interactive"}
    more = statement.review_page(result, fields)
    assert more.count("To be filled in by a person.") == open_questions - 2  # nobody answers for "choice"
    assert "Planning. <em>(stated by a person)</em>" in more
    assert "The board &lt;chose&gt;. <em>(stated by a person)</em>" in page
    assert "ε = 0.75" in page
    assert "the replacement of any one record" in page


def test_the_command_writes_the_page_first_and_the_record_when_it_can(
    result: StudyResult, tmp_path: Path
) -> None:
    (tmp_path / "study.json").write_text(result.to_json(), "utf-8")
    call = ["statement", str(tmp_path / "study.json"), "--out", str(tmp_path / "out")]
    first = CliRunner().invoke(app, call)
    assert first.exit_code == 0
    assert "data_curators" in first.stderr
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["review.html"]
    (tmp_path / "about.toml").write_text(
        "\n".join(f"{name} = {value!r}" for name, value in ABOUT.items() if name != "description")
        + '\ndescription = "Shares"\n',
        "utf-8",
    )
    second = CliRunner().invoke(app, [*call, "--about", str(tmp_path / "about.toml"), "--force"])
    assert second.exit_code == 0, second.stderr
    read = yaml.safe_load((tmp_path / "out" / "deployment.yaml").read_text("utf-8"))
    assert errors(read) == []


def test_an_unknown_field_is_named(result: StudyResult) -> None:
    with pytest.raises(discreet.errors.InvalidInputError, match="did you mean 'intended_use'"):
        statement.registry_record(result, {"intended_uses": "x"})
    with pytest.raises(discreet.errors.InvalidInputError, match="unknown field 'why'"):
        statement.review_page(result, {"review": {"why": "x"}})
