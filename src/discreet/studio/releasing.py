"""Releases from the studio: priced, charged and stored by the same functions as on the command line."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from discreet.answers.release import Release
from discreet.data import clipped_sum
from discreet.declarations import Relation
from discreet.errors import FileError, GuaranteeMismatchError, InvalidInput, RequestConflictError
from discreet.ledger import Ledger, Receipt
from discreet.ledger.statements import Account, Price
from discreet.posterior_sampling.sample import Sample
from discreet.privacy.guarantee import Guarantee
from discreet.questions.answering import Quote
from discreet.questions.draws import posterior_sample
from discreet.questions.proportions import release
from discreet.studio.release_questions import FAMILIES, ReleaseQuestion
from discreet.studio.sources import Source, Sources, opened
from discreet.study.study_file import load_answer

Found: TypeAlias = Release | Sample

MAX_KEPT = 200
MAX_SHOWN = 20
_DIGITS = 8


def new_request(source: str) -> str:
    """A fresh id for one form. Its end names the file, since the ledger's plan does not know the file."""
    return f"studio-{secrets.token_hex(16)}-{_mark(source)}"


def _mark(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:_DIGITS]


def check_request(question: ReleaseQuestion) -> None:
    known = question.request.startswith("studio-") and question.request.isascii()
    if not (known and len(question.request) == len("studio-") + 32 + 1 + _DIGITS):
        raise InvalidInput("the request id is not one that this form made; open the form again")
    if not question.request.endswith("-" + _mark(question.source)):
        raise RequestConflictError("the request id belongs to another file; open the form of this file again")


@dataclass(frozen=True)
class Offer:
    """What a release would cost. ``price`` is None where no ledger accounts for it."""

    guarantee: Guarantee
    price: Price | None
    charged_before: bool


def ask(question: ReleaseQuestion, data: Any, **charge: Any) -> Any:
    """The question put to the public function that the command line calls too."""
    if question.is_drawn:
        return posterior_sample(data, question.family, **question.arguments(), **charge)
    return release(data, **question.arguments(), **charge)


def is_shown(answer: Any) -> bool:
    """Whether there is a page for it: posteriors of shares, and draws of a mean or a rate."""
    if isinstance(answer, Sample):
        return answer.family["name"] in FAMILIES.values()
    return isinstance(answer, Release)


class Desk:
    """Where releases are made. Those without a ledger are remembered here, so that a repeat is the same."""

    def __init__(self, ledger: Ledger | None, sources: Sources) -> None:
        self.ledger, self.sources = ledger, sources
        self._kept: OrderedDict[str, tuple[str, Found]] = OrderedDict()
        self._busy = threading.Lock()
        self._shown: OrderedDict[str, Found] = OrderedDict()

    def settled(self, question: ReleaseQuestion) -> ReleaseQuestion:
        """The question with the public number of records, counted where a draw was asked for without it.

        The draw is calibrated to n, and δ is compared with 1/n; so n is in what is confirmed and copied.
        """
        if not question.is_drawn or question.n.strip():
            return question
        check_request(question)
        question.check()
        self._check_dataset(question)
        with opened(self.sources.find(question.source)) as data:
            whole = question.kind == "rate"
            found = clipped_sum(data, column=question.column or None, integers=whole, **question.summing)
        return replace(question, n=str(found.n))

    def price(self, question: ReleaseQuestion) -> Offer:
        """The guarantee and its price, without making or charging anything."""
        check_request(question)
        question.arguments()
        self._check_dataset(question)
        ledger = self.ledger
        earlier = None if ledger is None else ledger.receipt(question.dataset, question.request)

        def recall(plan: Mapping[str, Any]) -> Receipt | None:
            assert ledger is not None
            return ledger.recall(question.dataset, question.request, plan=plan)

        quote = Quote(None if earlier is None else recall)
        with opened(self.sources.find(question.source)) as data:
            guarantee: Guarantee = ask(question, data, ledger=quote)
        price = None if ledger is None else ledger.price(question.dataset, guarantee)
        return Offer(guarantee, price, quote.charged or question.request in self._kept)

    def release(self, question: ReleaseQuestion, acknowledged: bool) -> Found:
        """The release, charged before it leaves; the same request again gives the same one for nothing."""
        check_request(question)
        question.arguments()
        self._check_dataset(question)
        source = self.sources.find(question.source)
        if self.ledger is None:
            if not acknowledged:
                raise InvalidInput(
                    "without a ledger nothing counts what is spent: tick the box that you know this, or "
                    "start the studio with --ledger URL. Nothing was released"
                )
            return self._uncharged(question, source)
        charge = {"ledger": self.ledger, "dataset": question.dataset, "request_id": question.request}
        with opened(source) as data:
            made: Found = ask(question, data, **charge)
        return made

    def _uncharged(self, question: ReleaseQuestion, source: Source) -> Found:
        asked = json.dumps([question.kind, question.arguments()], sort_keys=True)
        with self._busy:  # a double click waits here and then finds the first one's result
            if question.request in self._kept:
                before, result = self._kept[question.request]
                if before != asked:
                    raise RequestConflictError(
                        "this form was released already otherwise; a new question needs another form"
                    )
                return result
            with opened(source) as data:
                made: Found = ask(question, data)
            self._kept[question.request] = asked, made
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return made

    def _check_dataset(self, question: ReleaseQuestion) -> None:
        if self.ledger is None:
            if question.dataset:
                raise InvalidInput("a dataset is charged in a ledger; start the studio with --ledger URL")
            return
        if not question.dataset:
            raise InvalidInput("say which dataset of the ledger to charge")
        self._check_account(question, self.ledger.show(question.dataset))

    @staticmethod
    def suits(question: ReleaseQuestion, account: Account) -> bool:
        """Whether the question has a price in this account at all."""
        counted = account.relation == question.relation
        return counted and not (question.is_drawn and account.cap.unit == "epsilon")

    def _check_account(self, question: ReleaseQuestion, account: Account) -> None:
        """Said before the data are opened: the ledger would say it too, when the guarantee is known."""
        if self.suits(question, account):
            return
        name = account.dataset
        if account.relation != question.relation:
            protects = {Relation.REPLACE_ONE: "one record", Relation.REPLACE_PERSON: "one person"}
            raise GuaranteeMismatchError(
                f"this question protects {protects[question.relation]} ({question.relation}), and the budget "
                f"of dataset={name!r} counts {account.relation}: relations do not mix. Choose a dataset that "
                f"was made with --relation {question.relation}. Nothing was charged"
            )
        raise GuaranteeMismatchError(
            f"a posterior draw has δ > 0, and the budget of dataset={name!r} is in ε alone. Choose a dataset "
            "that was made with --epsilon and --delta. Nothing was charged"
        )

    def find(self, dataset: str, request: str) -> Found | None:
        """A release that was made before, from the ledger or from here."""
        if self.ledger is None:
            kept = self._kept.get(request)
            return None if kept is None else kept[1]
        receipt = self.ledger.receipt(dataset, request)
        if receipt is None:
            return None
        if receipt.hash in self._shown:  # a noise-aware posterior can take seconds: once for page and report
            return self._shown[receipt.hash]
        answer = load_answer(receipt.result.decode())
        if not is_shown(answer):
            raise FileError("this page does not show that kind of release; `discreet show` does")
        found: Found = replace(answer, receipt=receipt)
        self._shown[receipt.hash] = found
        while len(self._shown) > MAX_SHOWN:
            self._shown.popitem(last=False)
        return found

    def accounts(self) -> list[Account]:
        if self.ledger is None:
            return []
        return [self.ledger.show(name) for name in self.ledger.datasets()]
