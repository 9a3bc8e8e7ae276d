"""Releases from the studio: priced, charged and stored by the same functions as on the command line."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from discreet.answers import Quote
from discreet.core import InvalidInput, RequestConflictError
from discreet.guarantees import Guarantee
from discreet.ledger import Ledger, Receipt
from discreet.ledger.statements import Account, Price
from discreet.proportions import release
from discreet.releases import Release
from discreet.studio.questions import ReleaseQuestion
from discreet.studio.sources import Source, Sources, opened

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


class Desk:
    """Where releases are made. Those without a ledger are remembered here, so that a repeat is the same."""

    def __init__(self, ledger: Ledger | None, sources: Sources) -> None:
        self.ledger, self.sources = ledger, sources
        self._kept: OrderedDict[str, tuple[str, Release]] = OrderedDict()
        self._busy = threading.Lock()
        self._shown: OrderedDict[str, Release] = OrderedDict()

    def price(self, question: ReleaseQuestion) -> Offer:
        """The guarantee and its price, without making or charging anything."""
        check_request(question)
        arguments = question.arguments()
        self._check_dataset(question)
        ledger = self.ledger
        earlier = None if ledger is None else self._entry(question.dataset, question.request)

        def recall(plan: Mapping[str, Any]) -> Receipt | None:
            assert ledger is not None
            return ledger.recall(question.dataset, question.request, plan=plan)

        quote = Quote(None if earlier is None else recall)
        with opened(self.sources.find(question.source)) as data:
            found: Any = release(data, **arguments, ledger=quote)  # type: ignore[arg-type]
        guarantee: Guarantee = found
        price = None if ledger is None else ledger.price(question.dataset, guarantee)
        return Offer(guarantee, price, quote.charged or question.request in self._kept)

    def release(self, question: ReleaseQuestion, acknowledged: bool) -> Release:
        """The release, charged before it leaves; the same request again gives the same one for nothing."""
        check_request(question)
        arguments = question.arguments()
        self._check_dataset(question)
        source = self.sources.find(question.source)
        if self.ledger is None:
            if not acknowledged:
                raise InvalidInput(
                    "without a ledger nothing counts what is spent: tick the box that you know this, or "
                    "start the studio with --ledger URL. Nothing was released"
                )
            return self._uncharged(question, arguments, source)
        with opened(source) as data:
            return release(
                data, **arguments, ledger=self.ledger, dataset=question.dataset, request_id=question.request
            )

    def _uncharged(self, question: ReleaseQuestion, arguments: dict[str, Any], source: Source) -> Release:
        asked = json.dumps(arguments, sort_keys=True)
        with self._busy:  # a double click waits here and then finds the first one's result
            if question.request in self._kept:
                before, result = self._kept[question.request]
                if before != asked:
                    raise RequestConflictError(
                        "this form was released already otherwise; a new question needs another form"
                    )
                return result
            with opened(source) as data:
                result = release(data, **arguments)
            self._kept[question.request] = asked, result
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
            return result

    def _check_dataset(self, question: ReleaseQuestion) -> None:
        if self.ledger is None:
            if question.dataset:
                raise InvalidInput("a dataset is charged in a ledger; start the studio with --ledger URL")
            return
        if not question.dataset:
            raise InvalidInput("say which dataset of the ledger to charge")
        self.ledger.show(question.dataset)

    def find(self, dataset: str, request: str) -> Release | None:
        """A release that was made before, from the ledger or from here."""
        if self.ledger is None:
            kept = self._kept.get(request)
            return None if kept is None else kept[1]
        entry = self._entry(dataset, request)
        if entry is None:
            return None
        if entry.hash in self._shown:  # a noise-aware posterior can take seconds: once for page and report
            return self._shown[entry.hash]
        receipt = Receipt(
            dataset=entry.dataset,
            sequence=entry.sequence,
            request_id=request,
            plan_hash=entry.plan_hash or "",
            guarantee=entry.guarantee or {},
            charged=entry.charged,
            spent=entry.spent,
            cap=entry.cap,
            result=entry.result or b"",
            repeated=False,
            hash=entry.hash,
        )
        found = replace(Release.from_json(receipt.result.decode()), receipt=receipt)
        self._shown[entry.hash] = found
        while len(self._shown) > MAX_SHOWN:
            self._shown.popitem(last=False)
        return found

    def _entry(self, dataset: str, request: str) -> Any:
        assert self.ledger is not None
        entries = (e for e in self.ledger.history(dataset) if e.kind == "charge" and e.request_id == request)
        return next(entries, None)

    def accounts(self) -> list[Account]:
        if self.ledger is None:
            return []
        return [self.ledger.show(name) for name in self.ledger.datasets()]
