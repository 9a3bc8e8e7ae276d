"""Several questions about one dataset, under one budget; also from a file that can be run again.

A question is a mapping with an ``id``, a ``kind`` and its public parameters; the data and the budget belong
to the study. The ids are request ids of the ledger, so that a study that was interrupted goes on where it
stopped: what was charged is returned, not charged again.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import tomllib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from discreet._registry import QUESTIONS
from discreet._text import nearest
from discreet.answers.conditional import ConditionalRelease
from discreet.answers.network import NetworkRelease
from discreet.answers.release import Release
from discreet.declarations import Relation, as_relation, as_size, check_hidden_size
from discreet.documents.study import StudyResult
from discreet.errors import (
    BudgetExceededError,
    DataError,
    FileError,
    InvalidInput,
    MissingLedgerError,
    UnknownDatasetError,
)
from discreet.ledger import Account, Budget, Ledger, Receipt
from discreet.ledger.budgets import price_of
from discreet.ledger.chain import scope_after
from discreet.ledger.charging import Charge
from discreet.planning.widths import Split, split
from discreet.posterior_sampling.sample import Sample
from discreet.privacy.guarantee import Guarantee
from discreet.questions.asking import Asked
from discreet.questions.base import Question, question_of
from discreet.questions.text import plain
from discreet.regression.release import LogisticRelease
from discreet.reporting.report import report

_HEAD = ("title", "data", "ledger", "dataset", "n", "relation", "strict")


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
    created with this budget by the first question, or must have it; without one the budget lasts as long as
    this object. Whoever joins a budget that is in a ledger leaves ``budget`` and ``relation`` out. ``n``: the
    public number of records, passed on to every question. ``relation``: what the budget protects,
    ``"replace-one"`` unless said, ``"replace-person"`` where all questions have ``person`` and
    ``per_person``; ``"add-remove"``, where the number of records is private, is passed on to every question
    about counts, and ``strict=False``, with which no record is an error, to every question.

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
        budget: Any = None,
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        n: int | None = None,
        relation: Relation | str | None = None,
        strict: bool = True,
        label: str | None = None,
    ) -> None:
        self.data = table
        self.n = None if n is None else as_size(n)
        if ledger is None:
            if budget is None:
                raise InvalidInput(
                    "budget is missing, such as budget=1; or join one: ledger=ADDRESS, dataset=NAME"
                )
            self.dataset = "study" if dataset is None else dataset
            folder = tempfile.mkdtemp(prefix="discreet-")
            weakref.finalize(self, _remove, folder, os.getpid())
            ledger = Path(folder) / "ledger.db"
        elif dataset is None:
            raise InvalidInput("dataset is missing: say which dataset of the ledger these data are")
        else:
            self.dataset = dataset
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        if budget is None:
            joined = self.ledger.show(self.dataset)
            budget, relation = joined.cap, relation or joined.relation
        self.budget = as_budget(budget)
        self.relation = as_relation(relation or Relation.REPLACE_ONE)
        if self.relation is Relation.ADD_REMOVE:
            check_hidden_size(self.n, None)
        self.shared = shared_parameters(self.relation, strict)
        # Part of every plan: an answer about other data must not be taken for that of these.
        self.label = str(table) if label is None and isinstance(table, str | Path) else label
        self._priced: dict[str, Asked] = {}
        self._answered: dict[str, tuple[Mapping[str, Any], Any]] = {}
        self._check(self.account())

    def _check(self, known: Account) -> None:
        if known.cap != self.budget:
            raise InvalidInput(
                f"budget={self.budget} but the ledger's cap for {self.dataset!r} is {known.cap}: leave "
                "the budget out to join it, or change the cap with ledger.set_cap (discreet ledger cap)"
            )
        if known.relation != self.relation:
            raise InvalidInput(
                f"the ledger keeps {self.dataset!r} for {known.relation}, this study is for {self.relation}"
            )

    def account(self) -> Account:
        """Cap, spent and remaining budget; those of the beginning while the dataset is not in the ledger."""
        try:
            return self.ledger.show(self.dataset)
        except (UnknownDatasetError, MissingLedgerError):
            return Account(self.dataset, str(self.relation), self.budget, self.budget.zero(), 0, "")

    # Questions by kind.

    def release(self, **question: Any) -> Release:
        """Proportions of a column: :func:`discreet.release`."""
        return self.ask("proportion", **question)  # type: ignore[no-any-return]

    def table(self, columns: Mapping[str, Any], **question: Any) -> Release:
        """A contingency table: :func:`discreet.release_table`."""
        return self.ask("table", columns=columns, **question)  # type: ignore[no-any-return]

    def conditional(self, **question: Any) -> ConditionalRelease:
        """P(outcome | group): :func:`discreet.release_conditional`."""
        return self.ask("conditional", **question)  # type: ignore[no-any-return]

    def network(self, **question: Any) -> NetworkRelease:
        """The tables of a declared network: :func:`discreet.release_network`."""
        return self.ask("network", **question)  # type: ignore[no-any-return]

    def sample(self, family: Any, **question: Any) -> Sample:
        """Draws from a posterior: :func:`discreet.posterior_sample`."""
        return self.ask("sample", family=family, **question)  # type: ignore[no-any-return]

    def query(self, **question: Any) -> Sample:
        """A private mean: :func:`discreet.statistical_query`."""
        return self.ask("query", **question)  # type: ignore[no-any-return]

    def logistic(self, **question: Any) -> LogisticRelease:
        """Logistic regression of one column on others: :func:`discreet.release_logistic`."""
        return self.ask("logistic", **question)  # type: ignore[no-any-return]

    def mean(self, column: str | None = None, **question: Any) -> Any:
        """The mean of a bounded column: :func:`discreet.mean`."""
        return self.ask("mean", column=column, **question)

    def regress(self, formula: str, **question: Any) -> Any:
        """A regression with intervals: :func:`discreet.regress`."""
        return self.ask("regress", formula=formula, **question)

    def ask(
        self, kind: str, *, request_id: str | None = None, title: str | None = None, **parameters: Any
    ) -> Any:
        """A question of any kind that is registered, with its parameters; ``title`` is for the report."""
        where = f"a question of kind {kind!r}"
        question = self._declared(question_of(kind, _under(self.shared, kind, parameters), where))
        return self._answer(Asked(question, self.data), request_id, title)

    # Questions with an id.

    def split(self, questions: Iterable[Mapping[str, Any]]) -> Split:
        """ε of each question within the budget of this study, before any data are opened.

        A question says how precise it must be, ``within="3 points"``, or has a ``weight`` (1 unless said)
        with which it shares what the others leave, or has its ``epsilon`` already. ``split.questions`` are
        the questions with their ε, for :meth:`price` and :meth:`answer`.

        >>> study = Study("survey.csv", budget=1, n=2000)
        >>> ask = {"column": "smoker", "levels": ["no", "yes"]}
        >>> print(study.split([{"id": "a", **ask, "within": "2.4 points"}, {"id": "b", **ask}]))
        question      ε  95 % interval  without
        a         0.143  ± 2.40 points   ± 2.19
        b         0.857  ± 2.20 points   ± 2.19
        <BLANKLINE>
        Together ε = 1 of 1; 0 is left.
        """
        if self.budget.epsilon is None:
            raise InvalidInput("split divides a budget of ε, or of ε and δ; this one is in ρ (zCDP)")
        named = {
            name: _under(self.shared, given.get("kind", "proportion"), given)
            for name, given in by_id(questions)
        }
        return split(named, self.budget.epsilon, self.budget.delta, self.n)

    def check(self, questions: Iterable[Mapping[str, Any]]) -> None:
        """Reads what the questions need of the data, so that a mistake is found before anything is charged.

        Every question whose column, type or levels do not fit is named, in words without any value. What
        was read is kept for the answer. Whether an error comes depends on the data: it is for the curator.
        """
        found = []
        for name, question, earlier in self._each(questions):
            try:
                _ = self._asked(name, question).size if earlier is None else None
            except (DataError, InvalidInput) as error:
                found.append((type(error), f"question {name!r}: {error}"))
        if found:
            raise found[0][0]("\n".join([*(text for _, text in found), "nothing was charged"])) from None

    def price(self, questions: Iterable[Mapping[str, Any]]) -> StudyPrice:
        """What the questions cost together, and whether that fits; nothing is spent or written.

        A question that was charged already is not counted again; one that was changed since is refused, and
        one whose guarantee is for another relation or unit than the budget's. Sizes that are not declared
        are counted in the data: they are public. What was read is kept for the answer.
        """
        guarantees: dict[str, Guarantee] = {}
        charged = []
        account = self.account()
        asked, scope = account.cap.zero(), (Relation(account.relation), account.unit)
        for name, question, earlier in self._each(questions):
            if earlier is not None:
                guarantees[name] = Guarantee.from_dict(earlier.guarantee)
                charged.append(name)
                continue
            put = self._asked(name, question)
            guarantees[name] = put.guarantee
            scope = scope_after(self.dataset, scope, put.guarantee)
            asked += price_of(put.guarantee, account.cap.unit)
        return StudyPrice(guarantees, tuple(charged), asked, account)

    def _each(self, questions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Question, Receipt | None]]:
        """Id and question of each, and its receipt where it was charged already."""
        begun = self.account().entries
        for name, given in by_id(questions):
            question = self._declared(checked_question(given, self.shared))
            yield name, question, self._charge(name).recall(question.plan()) if begun else None

    def answer(self, question: Mapping[str, Any]) -> Any:
        """The answer of a question with an ``id``; asked again, the stored answer."""
        name, checked = question_id(question, "question"), checked_question(question, self.shared)
        answer = self._answer(self._asked(name, self._declared(checked)), name, question.get("title"))
        self._priced.pop(name, None)
        return answer

    def _asked(self, name: str, question: Question) -> Asked:
        """The question put to the data, with what pricing has read already."""
        known = self._priced.get(name)
        if known is None or known.question != question:
            known = self._priced[name] = Asked(question, self.data)
        return known

    def _declared(self, question: Question) -> Question:
        """With the number of records that the study declares."""
        if self.n is None or getattr(question, "n", self.n) is not None:
            return question
        return replace(question, n=self.n)  # type: ignore[call-arg]

    def _charge(self, request_id: str | None) -> Charge:
        return Charge(self.ledger, self.dataset, request_id, self.label)

    def result(self, title: str | None = None) -> StudyResult:
        """Everything that was answered by this object, as one document."""
        questions = {name: question for name, (question, _) in self._answered.items()}
        answers = {name: answer for name, (_, answer) in self._answered.items()}
        return StudyResult(title or self.dataset, self.dataset, questions, answers, self.account())

    def report(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """The report of everything that was answered, as one HTML page; written to ``path`` where given."""
        return report(self.result(title), path=path)

    def _answer(self, asked: Asked, request_id: str | None, title: str | None = None) -> Any:
        if not self.account().entries:
            with suppress(InvalidInput):  # somebody else was quicker: what they made is checked
                self.ledger.create(self.dataset, relation=self.relation, **asdict(self.budget))
            self._check(self.account())
        answer = asked.answer(self._charge(request_id))
        stated = {key: plain(value) for key, value in asked.question.stated().items()}
        asked_for = {"kind": asked.question.kind, **({} if title is None else {"title": title}), **stated}
        self._answered[answer.receipt.request_id] = asked_for, answer
        return answer


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked child that ends
        shutil.rmtree(folder, ignore_errors=True)


def as_budget(budget: Any) -> Budget:
    """A budget from ε, or from a mapping with epsilon and delta, or zcdp."""
    if isinstance(budget, Budget):
        return budget
    if isinstance(budget, Mapping):
        unknown = set(budget) - {"epsilon", "delta", "zcdp"}
        if unknown:
            raise InvalidInput(f"budget has {sorted(unknown)[0]!r}; it takes epsilon, delta, zcdp")
        return Budget.cap(**budget)
    return Budget.cap(epsilon=budget)


def shared_parameters(relation: Relation, strict: Any) -> dict[str, Any]:
    """What a study passes on to its questions."""
    if not isinstance(strict, bool):
        raise InvalidInput(f"strict={strict!r} must be true or false")
    hidden = {"relation": str(relation)} if relation is Relation.ADD_REMOVE else {}
    return hidden if strict else {**hidden, "strict": False}


def _under(shared: Mapping[str, Any], kind: Any, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    """Parameters that say what the study does, unless they say otherwise themselves."""
    if not isinstance(kind, str) or kind not in QUESTIONS:
        return parameters
    known = {field.name for field in fields(QUESTIONS[kind])}
    if not known >= {"strict"} & set(shared):
        raise InvalidInput(
            f"kind {kind!r} cannot be asked with strict=False: an undeclared value stops it; 'regress' can"
        )
    return {**{name: value for name, value in shared.items() if name in known}, **parameters}


def checked_question(question: Mapping[str, Any], shared: Mapping[str, Any]) -> Question:
    """The question of a mapping with an id; ``shared`` is what the study passes on.

    A misspelt key is an error that names the nearest one.
    """
    parameters = {key: value for key, value in question.items() if key not in ("id", "title")}
    kind = parameters.pop("kind", "proportion")
    return question_of(kind, _under(shared, kind, parameters), f"question {question['id']!r} ({kind})")


def by_id(questions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The questions with their ids, of which none is there twice."""
    seen = set()
    for index, question in enumerate(questions, 1):
        name = question_id(question, f"question {index}")
        if name in seen:
            raise InvalidInput(f"question id {name!r} is used twice")
        seen.add(name)
        yield name, question


def question_id(question: Mapping[str, Any], where: str) -> str:
    """The id of a question, which is that of its charge."""
    if not isinstance(question, Mapping):
        raise InvalidInput(f"{where} must be a mapping with id, kind and parameters")
    name = question.get("id")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name):
        raise InvalidInput(f'{where} needs an id of letters, digits, dots and dashes: id = "smokers"')
    return name


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
