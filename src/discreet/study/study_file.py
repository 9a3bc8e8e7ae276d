"""A study in a file that can be run again, its result, and every kind of answer read back from JSON."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from discreet.answers.release import Release
from discreet.declarations import Relation
from discreet.documents.base import read_document, write_document
from discreet.errors import BudgetExceededError, CorruptReleaseError, FileError, InvalidInput
from discreet.ledger import Account, Budget, Receipt
from discreet.posterior_sampling.sample import Sample
from discreet.questions.answering import Answer
from discreet.questions.proportions import ConditionalRelease
from discreet.regression.release import LogisticRelease
from discreet.study.study import Study, as_budget, checked_question, nearest

__all__ = ["StudyDocument", "StudyFile", "StudyResult", "load_answer", "read_study", "run_study"]

FORMAT = "discreet/study"
VERSION = 1
_HEAD = ("title", "data", "ledger", "dataset", "n", "relation")


@dataclass(frozen=True)
class StudyFile:
    """What a study file declares; made by :func:`read_study`."""

    title: str
    data: Path
    budget: Budget
    ledger: str
    dataset: str
    n: int | None
    relation: str
    source: str
    questions: tuple[Mapping[str, Any], ...]

    def open(self) -> Study:
        """The study that the file declares; nothing is written before its first question."""
        return Study(
            self.data,
            budget=self.budget,
            ledger=self.ledger,
            dataset=self.dataset,
            n=self.n,
            relation=self.relation,
            label=self.source,
        )


def read_study(path: str | Path) -> StudyFile:
    """A study file (TOML), checked: every question, before anything is opened or spent.

    Paths in it are relative to the file.
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{str(path)!r} is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{str(path)!r} is not valid TOML: {error}") from None
    unknown = set(content) - {"study", "budget", "question"}
    if unknown:
        raise InvalidInput(
            f"{str(path)!r}: [{sorted(unknown)[0]}] is unknown; a study has [study], [budget], [[question]]"
        )
    head = content.get("study")
    if not isinstance(head, dict) or "data" not in head:
        raise InvalidInput(f'{str(path)!r} needs a table [study] with data = "FILE"')
    for key in head:
        if key not in _HEAD:
            raise InvalidInput(f"[study]: {key!r} is unknown{nearest(key, _HEAD)}")
    if not isinstance(content.get("budget"), dict):
        raise InvalidInput(f"{str(path)!r} needs a table [budget] with epsilon = 1, and delta if you like")
    questions = _as_json(content.get("question"))
    if not isinstance(questions, list) or not questions:
        raise InvalidInput(f"{str(path)!r} has no question: add a table [[question]]")
    seen: set[str] = set()
    for index, question in enumerate(questions, 1):
        name, _, _ = checked_question(question, f"question {index}")
        if name in seen:
            raise InvalidInput(f"question id {name!r} is used twice")
        seen.add(name)
    own = path.with_suffix(".ledger.db").name
    ledger = str(head.get("ledger") or os.environ.get("DISCREET_LEDGER") or own)
    if "ledger" not in head and "DISCREET_LEDGER" in os.environ:
        pass  # an address of its own, not relative to the file
    elif "://" not in ledger:
        ledger = str(path.parent / ledger)
    elif ledger.startswith("sqlite:///") and not ledger.startswith("sqlite:////"):
        ledger = f"sqlite:///{path.parent / ledger.removeprefix('sqlite:///')}"
    return StudyFile(
        title=str(head.get("title", path.stem)),
        data=path.parent / str(head["data"]),
        budget=as_budget(content["budget"]),
        ledger=ledger,
        dataset=str(head.get("dataset", path.stem)),
        n=head.get("n"),
        relation=str(head.get("relation", Relation.REPLACE_ONE)),
        source=str(head["data"]),
        questions=tuple(questions),
    )


@dataclass(frozen=True)
class StudyResult:
    """The answers of a study with what the ledger says of each."""

    title: str
    dataset: str
    questions: Mapping[str, Mapping[str, Any]]
    answers: Mapping[str, Any]
    account: Account

    def to_json(self) -> str:
        """All answers in one JSON document."""
        content = {
            "title": self.title,
            "dataset": self.dataset,
            "budget": self.account.to_dict(),
            "answers": [
                {
                    "id": name,
                    "question": {key: _as_json(value) for key, value in self.questions[name].items()},
                    "receipt": {
                        key: value
                        for key, value in answer.receipt.to_dict().items()
                        if key not in ("guarantee", "repeated")  # in the answer; and not the same next time
                    },
                    "answer": json.loads(answer.to_json()),
                }
                for name, answer in self.answers.items()
            ],
        }
        return write_document(FORMAT, VERSION, content)


def _as_json(value: Any) -> Any:
    """What TOML can hold as JSON values: dates and times become their text."""
    if isinstance(value, Mapping):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


@dataclass(frozen=True)
class StudyDocument:
    """The answers of a study as read from its JSON document."""

    title: str
    answers: Mapping[str, Any]
    questions: Mapping[str, Mapping[str, Any]]

    @classmethod
    def from_json(cls, text: str) -> StudyDocument:
        """Reads what :meth:`StudyResult.to_json` wrote; an edited or unknown document is refused."""
        content = read_document(text, FORMAT, VERSION)
        try:
            entries = content["answers"]
            return cls(
                title=str(content["title"]),
                answers={entry["id"]: _with_receipt(entry) for entry in entries},
                questions={entry["id"]: entry["question"] for entry in entries},
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptReleaseError(f"the study lacks a part or has a malformed one: {error}") from None

    def __str__(self) -> str:
        return "\n\n".join([self.title, *(f"{name}\n{answer}" for name, answer in self.answers.items())])


def _with_receipt(entry: Mapping[str, Any]) -> Any:
    answer = load_answer(json.dumps(entry["answer"]))
    kept: dict[str, Any] = dict(entry["receipt"])
    kept |= {name: Budget.from_dict(kept[name]) for name in ("charged", "spent", "cap")}
    kept |= {"guarantee": answer.guarantee.to_dict(), "result": answer.to_json().encode(), "repeated": False}
    return replace(answer, receipt=Receipt(**kept))


def run_study(
    path: str | Path | StudyFile, *, progress: Callable[[str, bool], None] | None = None
) -> StudyResult:
    """Runs a study file from where it stopped; what does not fit is refused before anything is spent.

    ``progress`` is told the id of each question once it is answered, and whether it was answered earlier.
    """
    declared = path if isinstance(path, StudyFile) else read_study(path)
    study = declared.open()
    price = study.price(declared.questions)
    if not price.fits:
        raise BudgetExceededError(
            f"the questions do not fit into the budget, and nothing was spent.\n{price}",
            cap=price.account.cap,
            spent=price.account.spent,
            asked=price.asked,
        )
    answers: dict[str, Answer] = {}
    for question in declared.questions:
        answer = study.answer(question)
        answers[str(question["id"])] = answer
        if progress is not None:
            progress(str(question["id"]), answer.receipt.repeated)
    by_id = {str(question["id"]): question for question in declared.questions}
    return StudyResult(declared.title, declared.dataset, by_id, answers, study.account())


_ANSWERS: dict[str, Callable[[str], Any]] = {
    "discreet/release": Release.from_json,
    "discreet/sample": Sample.from_json,
    "discreet/conditional": ConditionalRelease.from_json,
    "discreet/logistic": LogisticRelease.from_json,
    FORMAT: StudyDocument.from_json,
}


def load_answer(text: str) -> Any:
    """A release of any kind from its JSON document."""
    try:
        kind = json.loads(text)["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        kind = "discreet/release"  # whose reader says what is wrong
    return _ANSWERS.get(kind, Release.from_json)(text)
