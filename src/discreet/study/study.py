"""Several questions about one dataset, under one budget.

A question is a mapping with an ``id``, a ``kind`` and the public parameters of the function that answers it;
the data and the budget belong to the study. The ids are request ids of the ledger, so that a study that was
interrupted goes on where it stopped: what was charged is returned, not charged again.
"""

from __future__ import annotations

import difflib
import inspect
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.answers.release import Release
from discreet.declarations import Relation, as_size
from discreet.errors import InvalidInput, MissingLedgerError, UnknownDatasetError
from discreet.ledger import Account, Budget, Ledger, Receipt
from discreet.ledger.budgets import price_of
from discreet.posterior_sampling.sample import Sample
from discreet.privacy.guarantee import Guarantee
from discreet.questions.answering import Quote
from discreet.questions.draws import posterior_sample, statistical_query
from discreet.questions.logistic import release_logistic
from discreet.questions.proportions import ConditionalRelease, release, release_conditional, release_table
from discreet.regression.release import LogisticRelease

__all__ = ["Study", "StudyPrice"]

KINDS: dict[str, Callable[..., Any]] = {
    "proportion": release,
    "table": release_table,
    "conditional": release_conditional,
    "sample": posterior_sample,
    "query": statistical_query,
    "logistic": release_logistic,
}
_NOT_PUBLIC = {"data", "ledger", "dataset", "request_id", "acknowledge_not_private", "options"}


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
    this object. ``n``: the public number of records, passed on to every question. ``relation``: what the
    budget protects, ``"replace-person"`` where all questions have ``person`` and ``per_person``.

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
        dataset: str | None = None,
        n: int | None = None,
        relation: Relation | str = Relation.REPLACE_ONE,
        label: str | None = None,
    ) -> None:
        self.data = table
        self.n = None if n is None else as_size(n)
        self.budget = as_budget(budget)
        try:
            self.relation = Relation(relation)
        except ValueError:
            raise InvalidInput(f"relation={relation!r} is none of {', '.join(Relation)}") from None
        if ledger is None:
            self.dataset = "study" if dataset is None else dataset
            folder = tempfile.mkdtemp(prefix="discreet-")
            weakref.finalize(self, _remove, folder, os.getpid())
            ledger = Path(folder) / "ledger.db"
        elif dataset is None:
            raise InvalidInput("dataset is missing: say which dataset of the ledger these data are")
        else:
            self.dataset = dataset
        self.ledger = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        # Part of every plan: an answer about other data must not be taken for that of these.
        self.label = str(table) if label is None and isinstance(table, str | Path) else label
        self._check(self.account())

    def _check(self, known: Account) -> None:
        if known.cap != self.budget:
            raise InvalidInput(
                f"budget={self.budget} but the ledger's cap for {self.dataset!r} is {known.cap}: give that, "
                "or change the cap with ledger.set_cap (discreet ledger cap)"
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
        """What the questions cost together, and whether that fits; nothing is spent or written.

        A question that was charged already is not counted again, and one that was changed since is refused.
        Where n, or the sizes of groups, are not declared they are counted in the data: they are public, and
        the price may depend on them.
        """
        guarantees: dict[str, Guarantee] = {}
        charged = []
        account = self.account()
        asked = account.cap.zero()
        for index, given in enumerate(questions, 1):
            name, kind, question = checked_question(given, f"question {index}")
            if name in guarantees:
                raise InvalidInput(f"question id {name!r} is used twice")
            quote = Quote(self._recall(name) if account.entries else None)
            guarantees[name] = self._ask(kind, question, quote, None)
            if quote.charged:
                charged.append(name)
            else:
                asked += price_of(guarantees[name], account.cap.unit)
        return StudyPrice(guarantees, tuple(charged), asked, account)

    def _recall(self, name: str) -> Callable[[Mapping[str, Any]], Receipt | None]:
        return lambda plan: self.ledger.recall(self.dataset, name, plan=self._labelled(plan))

    def answer(self, question: Mapping[str, Any]) -> Any:
        """The answer of a question with an ``id``; asked again, the stored answer."""
        name, kind, parameters = checked_question(question, "question")
        return self._charge(kind, parameters, name)

    def _answer(self, kind: str, question: dict[str, Any]) -> Any:
        request_id = question.pop("request_id", None)
        check_parameters(kind, question, f"a question of kind {kind!r}")
        return self._charge(kind, question, request_id)

    def _charge(self, kind: str, question: Mapping[str, Any], request_id: str | None) -> Any:
        if not self.account().entries:
            with suppress(InvalidInput):  # somebody else was quicker: what they made is checked
                self.ledger.create(self.dataset, relation=self.relation, **_given(self.budget))
            self._check(self.account())
        return self._ask(kind, question, _Labelled(self), request_id)

    def _labelled(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        return dict(plan) if self.label is None else {**plan, "data": self.label}

    def _ask(self, kind: str, question: Mapping[str, Any], ledger: Any, request_id: str | None) -> Any:
        parameters = dict(question)
        if self.n is not None and "n" in inspect.signature(KINDS[kind]).parameters:
            parameters.setdefault("n", self.n)
        return KINDS[kind](
            self.data, **parameters, ledger=ledger, dataset=self.dataset, request_id=request_id
        )


class _Labelled:
    """The ledger of a study, in whose plans the data have their label."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def show(self, dataset: str) -> Account:
        return self.study.ledger.show(dataset)

    def recall(self, dataset: str, request_id: str, *, plan: Mapping[str, Any]) -> Receipt | None:
        return self.study.ledger.recall(dataset, request_id, plan=self.study._labelled(plan))

    def spend(
        self, dataset: str, guarantee: Guarantee, compute: Any, *, plan: Any, **request: Any
    ) -> Receipt:
        labelled = self.study._labelled(plan)
        return self.study.ledger.spend(dataset, guarantee, compute, plan=labelled, **request)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # and not a forked child that ends
        shutil.rmtree(folder, ignore_errors=True)


def as_budget(budget: Any) -> Budget:
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


def checked_question(question: Mapping[str, Any], where: str) -> tuple[str, str, dict[str, Any]]:
    """Id, kind and parameters of a question; a misspelt key is an error that names the nearest one."""
    if not isinstance(question, Mapping):
        raise InvalidInput(f"{where} must be a mapping with id, kind and parameters")
    parameters = {key: value for key, value in question.items() if key != "title"}  # that is for the report
    name = parameters.pop("id", None)
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name):
        raise InvalidInput(f'{where} needs an id of letters, digits, dots and dashes: id = "smokers"')
    kind = parameters.pop("kind", "proportion")
    if not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"question {name!r}: kind {kind!r} is unknown{nearest(kind, KINDS)}")
    check_parameters(kind, parameters, f"question {name!r} ({kind})")
    return name, kind, parameters


def check_parameters(kind: str, parameters: Mapping[str, Any], where: str) -> None:
    """All that the function needs is there, and nothing that it does not know."""
    signature = inspect.signature(KINDS[kind]).parameters
    known = set(signature) - _NOT_PUBLIC
    if "options" in signature:  # of mechanisms and of families
        known |= {"gamma", "delta", "calibration", "sigma", "bounds", "radius", "dimension"}
    for key in parameters:
        if key not in known:
            raise InvalidInput(f"{where}: {key!r} is unknown{nearest(key, known)}")
    for key in known & set(signature):
        if signature[key].default is inspect.Parameter.empty and key not in parameters:
            raise InvalidInput(f"{where} lacks {key}")


def nearest(word: Any, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(word).lower(), list(known), n=1)
    listed = ", ".join(sorted(known))
    return f"; did you mean {near[0]!r}?" if near else f"; known are: {listed}"
