"""A study in a file that can be run again."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet._text import nearest
from discreet.declarations import Relation, as_relation
from discreet.documents.study import StudyResult
from discreet.errors import BudgetExceededError, FileError, InvalidInput
from discreet.ledger import Ledger
from discreet.planning.widths import Split
from discreet.questions.text import plain
from discreet.study.study import Study, as_budget, by_id, checked_question, shared_parameters

_HEAD = ("title", "data", "ledger", "dataset", "n", "relation", "strict")


@dataclass(frozen=True)
class StudyFile:
    """What a study file declares; made by :func:`read_study`."""

    title: str
    questions: tuple[Mapping[str, Any], ...]
    arguments: Mapping[str, Any]
    """Of its :class:`Study`."""
    split: Split | None = None
    """How the budget was divided, where questions left that open."""

    def open(self) -> Study:
        """The study that the file declares; nothing is written before its first question."""
        return Study(**self.arguments)


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
    questions = plain(content.get("question"))
    if not isinstance(questions, list) or not questions:
        raise InvalidInput(f"{str(path)!r} has no question: add a table [[question]]")
    own = path.with_suffix(".ledger.db").name
    ledger = str(head.get("ledger") or os.environ.get("DISCREET_LEDGER") or own)
    if "ledger" not in head and "DISCREET_LEDGER" in os.environ:
        pass  # an address of its own, not relative to the file
    elif "://" not in ledger:
        ledger = str(path.parent / ledger)
    elif ledger.startswith("sqlite:///") and not ledger.startswith("sqlite:////"):
        ledger = f"sqlite:///{path.parent / ledger.removeprefix('sqlite:///')}"
    dataset, relation = str(head.get("dataset", path.stem)), head.get("relation")
    if isinstance(content.get("budget"), dict):
        budget = as_budget(content["budget"])
    elif "budget" in content or "dataset" not in head:
        raise InvalidInput(
            f"{str(path)!r} needs a table [budget] with epsilon = 1, and delta if you like; or, to join a "
            'budget that is in a ledger, dataset = "NAME" in [study]'
        )
    else:
        joined = Ledger(ledger).show(dataset)
        budget, relation = joined.cap, relation or joined.relation
    arguments = {
        "table": path.parent / str(head["data"]),
        "budget": budget,
        "relation": as_relation(relation or Relation.REPLACE_ONE),
        "n": head.get("n"),
        "strict": head.get("strict", True),
    }
    shared, divided = shared_parameters(arguments["relation"], arguments["strict"]), None
    if any(
        "epsilon" not in one and {"within", "weight"} & set(one) for one in questions if isinstance(one, dict)
    ):
        divided = Study(**arguments).split(questions)
        questions = plain(divided.questions)
    for _, question in by_id(questions):
        checked_question(question, shared)
    arguments |= {"ledger": ledger, "dataset": dataset, "label": str(head["data"])}
    return StudyFile(str(head.get("title", path.stem)), tuple(questions), arguments, divided)


def run_study(
    path: str | Path | StudyFile,
    *,
    progress: Callable[[str, bool], None] | None = None,
    check: bool = True,
    keep: Callable[[StudyResult], None] | None = None,
) -> StudyResult:
    """Runs a study file from where it stopped; what does not fit is refused before anything is spent.

    ``progress`` is told the id of each question once it is answered, and whether it was answered earlier.
    ``check``: look whether the data fit every question before the first charge (:meth:`Study.check`).
    ``keep`` gets what was answered, also when an error ends the run.
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
    if check:
        study.check(declared.questions)
    answers: dict[str, Any] = {}

    def result() -> StudyResult:
        asked = {str(one["id"]): plain(one) for one in declared.questions if one["id"] in answers}
        return StudyResult(declared.title, study.dataset, asked, answers, study.account())

    try:
        for question in declared.questions:
            name = str(question["id"])
            answers[name] = study.answer(question)
            if progress is not None:
                progress(name, answers[name].receipt.repeated)
    finally:
        if keep is not None and answers:
            keep(result())
    return result()
