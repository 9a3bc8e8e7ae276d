"""Several questions about one dataset, under one budget: from Python, or from a file that can be run again.

A question is a mapping with an ``id``, a ``kind`` and the public parameters of the function that answers it;
the data and the budget belong to the study. The ids are request ids of the ledger, so that a study that was
interrupted goes on where it stopped: what was charged is returned, not charged again.
"""

from __future__ import annotations

import difflib
import inspect
import json
import re
import shutil
import tempfile
import tomllib
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from discreet.answers import Answer, Quote
from discreet.core import BudgetExceededError, FileError, InvalidInput, Relation, as_size
from discreet.documents import write_document
from discreet.glm.release import LogisticRelease
from discreet.guarantees import Guarantee
from discreet.ledger import Account, Budget, Ledger
from discreet.ledger.budgets import price_of
from discreet.proportions import ConditionalRelease, release, release_conditional, release_table
from discreet.queries import posterior_sample, statistical_query
from discreet.regression import release_logistic
from discreet.releases import Release
from discreet.sampling import Sample

__all__ = ["Study", "StudyPrice", "StudyResult", "load_answer", "read_study", "run_study"]

KINDS: dict[str, Callable[..., Any]] = {
    "proportion": release,
    "table": release_table,
    "conditional": release_conditional,
    "sample": posterior_sample,
    "query": statistical_query,
    "logistic": release_logistic,
}
_NOT_PUBLIC = {"data", "ledger", "dataset", "request_id", "acknowledge_not_private", "options"}
_ANSWERS: dict[str, Callable[[str], Any]] = {
    "discreet/release": Release.from_json,
    "discreet/sample": Sample.from_json,
    "discreet/conditional": ConditionalRelease.from_json,
    "discreet/logistic": LogisticRelease.from_json,
}
FORMAT = "discreet/study"
VERSION = 1


def load_answer(text: str) -> Any:
    """A release of any kind from its JSON document."""
    try:
        kind = json.loads(text)["format"]
    except (ValueError, TypeError, KeyError, RecursionError):
        kind = "discreet/release"  # whose reader says what is wrong
    return _ANSWERS.get(kind, Release.from_json)(text)


@dataclass(frozen=True)
class StudyPrice:
    """What questions would cost, before anything is spent. ``charged``: those that were charged already."""

    guarantees: Mapping[str, Guarantee]
    charged: tuple[str, ...]
    asked: Budget
    account: Account

    @property
    def fits(self) -> bool:
        return (self.account.spent + self.asked).fits(self.account.cap)

    def __str__(self) -> str:
        width = max(8, *(len(name) for name in self.guarantees)) if self.guarantees else 8
        lines = [
            f"{name:<{width}}  {'charged already' if name in self.charged else guarantee}"
            for name, guarantee in self.guarantees.items()
        ]
        verdict = "fits" if self.fits else "DOES NOT FIT"
        lines.append(f"Together {self.asked}; spent {self.account.spent} of {self.account.cap}: {verdict}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        return {
            "questions": {name: guarantee.to_dict() for name, guarantee in self.guarantees.items()},
            "charged": list(self.charged),
            "asked": self.asked.to_dict(),
            "spent": self.account.spent.to_dict(),
            "cap": self.account.cap.to_dict(),
            "fits": self.fits,
        }


class Study:
    """Questions about one table, charged to one budget.

    ``table`` is anything that :func:`discreet.release` takes. ``budget`` is ε, or a mapping with ``epsilon``
    and ``delta``, or ``zcdp``. ``ledger``: a :class:`discreet.Ledger` or its address, in which ``dataset`` is
    created with this budget, or must have it; without one the budget lasts as long as this object. ``n``:
    the public number of records, passed on to every question.

    >>> study = Study({"no": 70, "yes": 30}, budget=1)
    >>> study.release(levels=("no", "yes"), epsilon="0.4").epsilon
    0.4
    >>> str(study.account().remaining)
    'ε = 0.6'
    """

    def __init__(
        self,
        table: Any,
        *,
        budget: Any,
        ledger: Ledger | str | Path | None = None,
        dataset: str = "study",
        n: int | None = None,
    ) -> None:
        self.data = table
        self.dataset = dataset
        self.n = None if n is None else as_size(n)
        cap = _as_budget(budget)
        if ledger is None:
            folder = tempfile.mkdtemp(prefix="discreet-")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            ledger = Path(folder) / "ledger.db"
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        self._open(cap)

    def _open(self, cap: Budget) -> None:
        """Creates the dataset, or finds it with the same cap."""
        try:
            self.ledger.create(self.dataset, **_given(cap))
        except InvalidInput:  # it exists
            known = self.account()
            if known.cap != cap:
                raise InvalidInput(
                    f"budget={cap} but the ledger's cap for {self.dataset!r} is {known.cap}: give that, "
                    "or change the cap with ledger.set_cap (discreet ledger cap)"
                ) from None
            if known.relation != Relation.REPLACE_ONE:
                raise InvalidInput(f"the ledger keeps {self.dataset!r} for {known.relation}") from None

    def account(self) -> Account:
        """Cap, spent and remaining budget."""
        return self.ledger.show(self.dataset)

    def release(self, **question: Any) -> Release:
        """Proportions of a column: :func:`discreet.release`."""
        return self._answer("proportion", question)  # type: ignore[no-any-return]

    def table(self, columns: Mapping[str, Any], **question: Any) -> Release:
        """A contingency table: :func:`discreet.release_table`."""
        return self._answer("table", {"columns": columns, **question})  # type: ignore[no-any-return]

    def conditional(self, **question: Any) -> ConditionalRelease:
        """P(outcome | group): :func:`discreet.release_conditional`."""
        return self._answer("conditional", question)  # type: ignore[no-any-return]

    def posterior_sample(self, family: Any, **question: Any) -> Sample:
        """Draws from a posterior: :func:`discreet.posterior_sample`."""
        return self._answer("sample", {"family": family, **question})  # type: ignore[no-any-return]

    def statistical_query(self, **question: Any) -> Sample:
        """A private mean: :func:`discreet.statistical_query`."""
        return self._answer("query", question)  # type: ignore[no-any-return]

    def logistic(self, **question: Any) -> LogisticRelease:
        """Logistic regression of one column on others: :func:`discreet.release_logistic`."""
        return self._answer("logistic", question)  # type: ignore[no-any-return]

    def price(self, questions: Iterable[Mapping[str, Any]]) -> StudyPrice:
        """What the questions cost together, and whether that fits; nothing is spent.

        A question without a declared n has it counted in the data, since n is public and the price may
        depend on it; nothing else is read.
        """
        guarantees: dict[str, Guarantee] = {}
        charged = []
        account = self.account()
        asked = account.cap.zero()
        for index, given in enumerate(questions, 1):
            name, kind, question = _checked(given, f"question {index}")
            if name in guarantees:
                raise InvalidInput(f"question id {name!r} is used twice")
            guarantees[name] = self._ask(kind, question, Quote(), None)
            if self._is_charged(name):
                charged.append(name)
            else:
                asked += price_of(guarantees[name], account.cap.unit)
        return StudyPrice(guarantees, tuple(charged), asked, account)

    def answer(self, question: Mapping[str, Any]) -> Any:
        """The answer of a question with an ``id``; asked again, the stored answer."""
        name, kind, parameters = _checked(question, "question")
        return self._ask(kind, parameters, self.ledger, name)

    def _is_charged(self, name: str) -> bool:
        return any(entry.request_id == name for entry in self.ledger.history(self.dataset))

    def _answer(self, kind: str, question: dict[str, Any]) -> Any:
        request_id = question.pop("request_id", None)
        return self._ask(kind, question, self.ledger, request_id)

    def _ask(self, kind: str, question: Mapping[str, Any], ledger: Any, request_id: str | None) -> Any:
        parameters = dict(question)
        if self.n is not None and "n" in inspect.signature(KINDS[kind]).parameters:
            parameters.setdefault("n", self.n)
        return KINDS[kind](
            self.data, **parameters, ledger=ledger, dataset=self.dataset, request_id=request_id
        )


def _as_budget(budget: Any) -> Budget:
    if isinstance(budget, Budget):
        return budget
    if isinstance(budget, Mapping):
        unknown = set(budget) - {"epsilon", "delta", "zcdp"}
        if unknown:
            raise InvalidInput(f"budget has {sorted(unknown)[0]!r}; it takes epsilon, delta, zcdp")
        return Budget.cap(**budget)
    return Budget.cap(epsilon=budget)


def _given(cap: Budget) -> dict[str, Any]:
    parts = {"epsilon": cap.epsilon, "delta": cap.delta, "zcdp": cap.zcdp}
    return {name: value for name, value in parts.items() if value is not None}


def _checked(question: Mapping[str, Any], where: str) -> tuple[str, str, dict[str, Any]]:
    """Id, kind and parameters of a question; a misspelt key is an error that names the nearest one."""
    if not isinstance(question, Mapping):
        raise InvalidInput(f"{where} must be a mapping with id, kind and parameters")
    parameters = {
        key: value for key, value in question.items() if key != "title"
    }  # a title is for the report
    name = parameters.pop("id", None)
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name):
        raise InvalidInput(f'{where} needs an id of letters, digits, dots and dashes, such as id = "smokers"')
    kind = parameters.pop("kind", "proportion")
    if kind not in KINDS:
        raise InvalidInput(f"question {name!r}: kind {kind!r} is unknown{_nearest(kind, KINDS)}")
    known = set(inspect.signature(KINDS[kind]).parameters) - _NOT_PUBLIC
    open_ended = any(
        p.kind is inspect.Parameter.VAR_KEYWORD for p in inspect.signature(KINDS[kind]).parameters.values()
    )
    extra = (
        {"gamma", "delta", "calibration", "sigma", "bounds", "radius", "dimension"} if open_ended else set()
    )
    for key in parameters:
        if key not in known | extra:
            raise InvalidInput(
                f"question {name!r} ({kind}): {key!r} is unknown{_nearest(key, known | extra)}"
            )
    return name, kind, parameters


def _nearest(word: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(word).lower(), list(known), n=1)
    listed = ", ".join(sorted(known))
    return f"; did you mean {near[0]!r}?" if near else f"; known are: {listed}"


# A study in a file.


@dataclass(frozen=True)
class StudyFile:
    """What a study file declares; made by :func:`read_study`."""

    title: str
    data: Path
    budget: Budget
    ledger: str
    dataset: str
    n: int | None
    questions: tuple[Mapping[str, Any], ...]

    @cached_property
    def ids(self) -> list[str]:
        return [str(question["id"]) for question in self.questions]


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
        if key not in ("title", "data", "ledger", "dataset", "n"):
            raise InvalidInput(
                f"[study]: {key!r} is unknown{_nearest(key, ('title', 'data', 'ledger', 'dataset', 'n'))}"
            )
    if not isinstance(content.get("budget"), dict):
        raise InvalidInput(f"{str(path)!r} needs a table [budget] with epsilon = 1, and delta if you like")
    questions = content.get("question")
    if not isinstance(questions, list) or not questions:
        raise InvalidInput(f"{str(path)!r} has no question: add a table [[question]]")
    seen: set[str] = set()
    for index, question in enumerate(questions, 1):
        name, _, _ = _checked(question, f"question {index}")
        if name in seen:
            raise InvalidInput(f"question id {name!r} is used twice")
        seen.add(name)
    ledger = str(head.get("ledger", path.with_suffix(".ledger.db").name))
    if "://" not in ledger:
        ledger = str(path.parent / ledger)
    elif ledger.startswith("sqlite:///") and not ledger.startswith("sqlite:////"):
        ledger = f"sqlite:///{path.parent / ledger.removeprefix('sqlite:///')}"
    return StudyFile(
        title=str(head.get("title", path.stem)),
        data=path.parent / str(head["data"]),
        budget=_as_budget(content["budget"]),
        ledger=ledger,
        dataset=str(head.get("dataset", path.stem)),
        n=head.get("n"),
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
                    "receipt": answer.receipt.to_dict(),
                    "answer": json.loads(answer.to_json()),
                }
                for name, answer in self.answers.items()
            ],
        }
        return write_document(FORMAT, VERSION, content)


def _as_json(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool | list | dict | None) else str(value)


def run_study(path: str | Path, *, progress: Callable[[str, bool], None] | None = None) -> StudyResult:
    """Runs a study file from where it stopped; what does not fit is refused before anything is spent.

    ``progress`` is told the id of each question once it is answered, and whether it was answered earlier.
    """
    declared = read_study(path)
    study = Study(
        declared.data, budget=declared.budget, ledger=declared.ledger, dataset=declared.dataset, n=declared.n
    )
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
