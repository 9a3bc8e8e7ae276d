"""Statements for a regulator about a study: a record for the public registry of deployments of differential
privacy, and a page for review.

Both are made from the document of a study. What the software cannot know is taken from ``about``, which a
person writes. Missing answers are left out of the record and marked on the page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from fractions import Fraction
from html import escape
from importlib.resources import files
from typing import Any

from discreet._declarations import Relation, people_bound
from discreet._documents.study import StudyResult
from discreet._html import table
from discreet._numerics.enclosures import up
from discreet._reporting.report import frame, heading_of, proof_title
from discreet._text import nearest
from discreet._version import __version__
from discreet.errors import InvalidInputError, TooLargeError
from discreet.privacy.composition import compose

SCHEMA: dict[str, Any] = json.loads(files("discreet._reporting").joinpath("registry.json").read_text("utf-8"))
"""The registry's schema, without its descriptions."""
_SECTIONS: dict[str, Any] = SCHEMA["properties"]["deployment"]["properties"]
_FIELDS = {name: section for section, part in _SECTIONS.items() for name in part["properties"]}
_TYPES: dict[str, Any] = {
    "string": str,
    "array": list,
    "object": dict,
    "integer": int,
    "number": (int, float),
}
_QUESTIONS = {
    "purpose": "What is published, for whom, and why is it needed?",
    "unit": "Unit of privacy: whose data are hidden?",
    "relation": "Which datasets cannot be told apart?",
    "parameters": "ε and δ of each release and of all together",
    "choice": "Who chose these values, and on what grounds?",
    "public": "What is public, and not protected?",
    "trust": "Who sees the records, and who is trusted with them?",
    "queries": "Who may ask, and may an answer decide the next question?",
    "collection": "How were the records collected, and which bias do they bring?",
    "mechanisms": "Which mechanisms, and why do their guarantees hold?",
    "composition": "How are losses added up, and what stops further releases?",
    "utility": "How accurate are the results?",
    "randomness": "Where do random numbers come from?",
    "floating_point": "Can floating-point arithmetic leak?",
    "timing": "Can time, memory or messages leak?",
    "access": "Who may read records, ledger and this program's files?",
    "threats": "Which threats are out of scope?",
    "evidence": "Which evidence can a third party check?",
}
"""Questions about a release, following NIST SP 800-226 (2025), by the key of ``about`` that answers them."""
_ALSO_IN = {
    "purpose": ("description", "intended_use"),
    "choice": ("justification",),
    "trust": ("actors",),
    "queries": ("access_type", "access_type_details"),
    "collection": ("data_source_type", "data_source_type_details"),
}
"""The fields of the registry that also answer questions of the review."""


def check_about(about: Mapping[str, Any]) -> None:
    """Refuse entries of ``about`` that are not fields of the registry, or have the wrong type."""
    review = about.get("review", {})
    if not isinstance(review, Mapping):
        raise InvalidInputError("about has review=..., which must be a table of questions and answers")
    unknown = [*(about.keys() - _FIELDS.keys() - {"review"}), *(review.keys() - _QUESTIONS.keys())]
    for name in sorted(unknown):
        known = list(_QUESTIONS) if name in review else list(_FIELDS)
        raise InvalidInputError(f"about has an unknown field {name!r}{nearest(name, known)}")
    for name, answer in review.items():
        if not isinstance(answer, str):
            raise InvalidInputError(f"about: {name} must be a text, not {type(answer).__name__}")
    for name, value in about.items():
        if name != "review":
            field = _SECTIONS[_FIELDS[name]]["properties"][name]
            for problem in problems(value, field, name):
                raise InvalidInputError(f"about: {problem}")


def problems(value: Any, schema: Mapping[str, Any], where: str = "record") -> Iterator[str]:
    """Yield the ways in which JSON values violate a schema, for the keywords that the registry uses."""
    kinds = schema.get("type", list(_TYPES))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if isinstance(value, bool) or not any(isinstance(value, _TYPES[kind]) for kind in kinds):
        yield f"{where} must be of type {' or '.join(kinds)}, not {type(value).__name__}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}={value!r} must be one of {', '.join(map(str, schema['enum']))}"
    if schema.get("format") == "date":
        try:
            date.fromisoformat(value)
        except ValueError:
            yield f"{where}={value!r} must be a day such as 2026-01-31"
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            yield f"{where} must not be empty"
        for index, item in enumerate(value):
            yield from problems(item, schema.get("items", {}), f"{where}[{index}]")
    if isinstance(value, dict) and "properties" in schema:
        yield from (f"{where} must have {name}" for name in schema.get("required", ()) if name not in value)
        for name, part in value.items():
            if name in schema["properties"]:
                yield from problems(part, schema["properties"][name], f"{where}.{name}")
            else:
                yield f"{where} has an unknown field {name}"


def registry_record(result: StudyResult, about: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the record of a study, and the names of the required fields that are empty."""
    check_about(about)
    filled = {**_known(result), **{name: value for name, value in about.items() if name != "review"}}
    deployment: dict[str, dict[str, Any]] = {}
    for name, section in _FIELDS.items():  # the order of the schema
        if filled.get(name):
            deployment.setdefault(section, {})[name] = filled[name]
    required = [name for part in _SECTIONS.values() for name in part.get("required", ())]
    tier = 1
    for level in (2, 3):
        wanted = [
            name
            for part in _SECTIONS.values()
            for name, field in part["properties"].items()
            if field.get("tier") == level and not name.endswith("_details")
        ]
        if tier == level - 1 and all(filled.get(name) for name in wanted):
            tier = level
    record = {"url_slug": _slug(filled), "status": "Draft", "tier": tier, "deployment": deployment}
    return record, [name for name in required if not filled.get(name)]


def _slug(filled: Mapping[str, Any]) -> str:
    """Return the name of a record as ``scripts/update_slug.py`` of the registry makes it."""
    parts = filled["name"], "-".join(filled.get("data_curators", ())), filled.get("publication_date", "")[:4]
    return "_".join(re.sub(r"\W+", "_", part.lower()) for part in parts).replace("_", "-")


def as_yaml(record: Mapping[str, Any], indent: str = "") -> str:
    """Return nested mappings and lists of texts and numbers as YAML, texts in quotes or as blocks."""
    lines = []
    for name, value in record.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{name}:\n{as_yaml(value, indent + '  ')}")
        elif isinstance(value, list):
            items = "".join(f"{indent}  - {_quoted(item)}\n" for item in value)
            lines.append(f"{indent}{name}:\n{items}")
        elif isinstance(value, str) and "\n" in value and value.replace("\n", "").isprintable():
            block = "".join(f"{indent}  {line.strip()}\n" for line in value.strip().split("\n"))
            lines.append(f"{indent}{name}: |\n{block}")
        else:
            lines.append(f"{indent}{name}: {_quoted(value)}\n")
    return "".join(lines)


def _quoted(value: Any) -> str:
    """Return a value as YAML on one line; numbers have a decimal point."""
    text = json.dumps(value, ensure_ascii=not str(value).isprintable())
    return text.replace("e", ".0e") if isinstance(value, float) and "." not in text else text


def _at_least(value: Fraction) -> float:
    """Return a double close to ``value`` whose printed decimal is not below ``value``."""
    near = float(value)
    return near if Fraction(repr(near)) >= value else up(value)


def review_page(result: StudyResult, about: Mapping[str, Any], day: date | None = None) -> str:
    """Return the page for a disclosure review: each question with its answer and who gave it."""
    check_about(about)
    known, written = _answers(result), dict(about.get("review", {}))
    for key, names in _ALSO_IN.items():
        given = [str(about[name]).rstrip(".") for name in names if about.get(name)]
        if given:
            written.setdefault(key, ". ".join(given) + ".")
    rows, open_questions = [], 0
    for key, question in _QUESTIONS.items():
        parts = [f"<p>{escape(text)}</p>" for text in known.get(key, ())]
        if key in written:
            parts.append(f"<p>{escape(written[key])} <em>(stated by a person)</em></p>")
        elif key not in known:
            parts.append("<p><strong>To be filled in by a person.</strong></p>")
            open_questions += 1
        if key == "parameters":
            parts.append(table(("Release", "Guarantee"), _releases(result), styled=False))
        rows.append(f"<section><h2>{escape(question)}</h2>{''.join(parts)}</section>")
    when = day or date.today()
    lead = (
        f"Dataset: {result.dataset}. Made on {when.day} {when:%B %Y} by discreet {__version__} from the "
        "document of the study, following the questions of NIST SP 800-226. Open questions: "
        f"{open_questions}."
    )
    return frame(f"Disclosure review: {result.title}", lead, "\n".join(rows))


def _releases(result: StudyResult) -> list[tuple[str, str]]:
    return [
        (heading_of(name, result.questions[name], answer), str(answer.guarantee))
        for name, answer in result.answers.items()
    ]


def _together(result: StudyResult) -> str | None:
    """Return the joint guarantee by the answers' exact curves, at the δ of the budget or at 10⁻⁶."""
    delta = Fraction(1, 10**6) if result.account is None else result.account.cap.delta or Fraction(1, 10**6)
    try:
        epsilon = compose([a.guarantee for a in result.answers.values()]).quick_epsilon_at(float(delta))
    except (InvalidInputError, TooLargeError):
        return None
    return f"ε = {epsilon:.4g} at δ = {float(delta):g}"


def _public(result: StudyResult) -> list[str]:
    """Return what the schema declares as public."""
    schema = dict(result.schema or {})
    columns = dict(schema.get("columns") or {})
    size = schema.get("n")
    known = f", n = {size}" if isinstance(size, int) else ""
    found = [f"The number of records{known}." if size is not None else ""]
    found.append("The numbers of records of declared groups." if schema.get("sizes") else "")
    public = [name for name, part in columns.items() if isinstance(part, Mapping) and part.get("public")]
    found.append(f"The group of each record by {', '.join(public)}." if public else "")
    found.append("Names, values and bounds of columns, priors and privacy parameters, which were declared.")
    return [text for text in found if text]


def _known(result: StudyResult) -> dict[str, Any]:
    """Return the fields of the registry that follow from the document of a study."""
    answers, account = list(result.answers.values()), result.account
    if account is None or not answers:
        raise InvalidInputError("a statement needs a study with answers that were charged to a ledger")
    spent = account.spent
    variant = (
        "Zero-concentrated DP" if spent.unit == "zcdp" else "Approximate DP" if spent.delta else "Pure DP"
    )
    parameters = {
        name: _at_least(value)
        for name, value in (("epsilon", spent.epsilon), ("delta", spent.delta), ("rho", spent.zcdp))
        if value
    }
    columns = dict((result.schema or {}).get("columns") or {})
    relation = Relation(account.relation)
    texts = {key: " ".join(value) for key, value in _answers(result).items()}
    return {
        "name": result.title,
        "data_product_type": "Summary statistics",
        "variant_name": variant,
        "data_domain": f"Tables with the columns {', '.join(columns)}, each with declared values or bounds."
        if columns
        else None,
        "unprotected_quantities": " ".join(_public(result)),
        "privacy_unit": _unit(result),
        "privacy_unit_details": f"The guarantee protects against {relation.against} ({relation}).",
        "privacy_parameters": parameters,
        "privacy_parameters_details": "\n".join(
            f"- {name}: {guarantee}" for name, guarantee in _releases(result)
        ),
        "model_name": "Central",
        "release_type": "One release" if len(answers) == 1 else "Many releases",
        "post_processing": "Posteriors, intervals and figures are computed from noisy values alone.",
        "composition": texts["composition"],
        "mechanisms": f"{texts['mechanisms']} {texts['randomness']} {texts['floating_point']}",
    }


def _unit(result: StudyResult) -> str:
    account = result.account
    if account is not None and account.unit is not None:
        bounds = [
            people_bound(one.guarantee.assumptions, one.guarantee.unit) for one in result.answers.values()
        ]
        most = max((bound for bound in bounds if bound is not None), default=None)
        limit = f", of whom at most {most} records count" if most else ""
        return f"A person, identified by the column {account.unit}{limit}"
    return "A record; if a person has several records, each is protected separately"


def _answers(result: StudyResult) -> dict[str, Sequence[str]]:
    """Return the answers to questions of a review that the software knows."""
    answers, account = list(result.answers.values()), result.account
    if account is None:
        raise InvalidInputError("a statement needs a study with answers that were charged to a ledger")
    relation, tight = Relation(account.relation), _together(result)
    bases = dict.fromkeys(proof_title(a.guarantee.basis) for a in answers if a.guarantee.basis)
    assumed = dict.fromkeys(text for answer in answers for text in answer.guarantee.assumptions)
    warned = [f"{name}: {text}" for name, answer in result.answers.items() for text in answer.warnings]
    return {
        "unit": [f"{_unit(result)}."],
        "relation": [f"The guarantee protects against {relation.against} ({relation})."]
        + [f"Assumed: {text}." for text in assumed],
        "parameters": [
            f"Everything that was charged for this dataset: {account.spent}, of a budget of {account.cap}."
        ]
        + ([] if tight is None else [f"The answers below together, by their exact curves: {tight}."]),
        "public": _public(result),
        "mechanisms": [f"{text[0].upper()}{text[1:]}." for text in bases] or ["See each release below."],
        "composition": [
            f"Prices add up in a ledger, which refuses a release that would exceed {account.cap}; each price "
            "was written before its result was returned."
        ],
        "utility": [
            "Each result carries an interval that accounts for sampling and for the noise of privacy.",
            *warned,
        ],
        "randomness": ["Noise is drawn as exact integers from the random numbers of the operating system."],
        "floating_point": [
            "Statistics and noise are integers and fractions. Where a real number is needed, it is rounded "
            "towards more noise, at a cost that is inside ε."
        ],
        "timing": [
            "Error messages quote no record. The time that an answer takes may depend on the data: only the "
            "curator should be able to measure it."
        ],
        "threats": [
            "Outside the guarantee: whoever can read records, memory or disk of the curator's machine; other "
            "publications about the same people; conclusions about everybody in a population."
        ],
        "evidence": [
            "The document of the study has a checksum of each answer and the receipts of the ledger, whose "
            f"newest entry has the hash {account.head}; `discreet ledger verify --expect HASH` checks it."
        ],
    }
