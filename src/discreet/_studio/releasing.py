"""Releases from the studio: priced, charged and stored by the same functions as on the command line."""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import warnings
from collections import OrderedDict
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from discreet._documents.answer import Answer, load_answer
from discreet._studio.forms import ReleaseForm, check_size
from discreet._studio.sources import Sources, open_source
from discreet.errors import FileError, InvalidInputError, NoiseWarning, PrivacyWarning, RequestConflictError
from discreet.ledger import Account, Ledger, Price
from discreet.ledger.charging import Charge
from discreet.privacy.guarantee import Guarantee
from discreet.questions._asking import BoundQuestion, cautions

MAX_KEPT, MAX_SHOWN = 200, 20
MAX_READ = 8
"""The number of requests whose data are kept between price and release."""
_DIGITS = 8


def new_request(source: str) -> str:
    """Return a new id for one form; it ends with a digest of the file, which the plan does not name."""
    return f"studio-{secrets.token_hex(16)}-{_mark(source)}"


def _mark(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()[:_DIGITS]


def check_request(form: ReleaseForm) -> None:
    """Refuse a request id that this studio did not make, or made for another file."""
    has_prefix = form.request.startswith("studio-") and form.request.isascii()
    if not (has_prefix and len(form.request) == len("studio-") + 32 + 1 + _DIGITS):
        raise InvalidInputError("the request id does not come from this form; open the form again")
    if not form.request.endswith("-" + _mark(form.source)):
        raise RequestConflictError("the request id belongs to another file; open the form of this file again")


@dataclass(frozen=True)
class Offer:
    """The price of a release; ``price`` is None without a ledger."""

    guarantee: Guarantee
    price: Price | None
    charged_before: bool = False
    size: Any = None
    warnings: tuple[str, ...] = ()


_heard: ContextVar[dict[str, None] | None] = ContextVar("heard", default=None)


def hear_warnings() -> None:
    """Send warnings to the page of the request that caused them, and not to the terminal."""
    for category in (PrivacyWarning, NoiseWarning):
        warnings.simplefilter("always", category)
    warnings.showwarning = _hear


def _hear(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    heard = _heard.get()
    if heard is not None and issubclass(category, PrivacyWarning | NoiseWarning):
        heard[str(message)] = None


@dataclass
class _Request:
    """The state of one request. Its lock makes a second click wait for the result of the first."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    label: str = ""
    bound: BoundQuestion | None = None
    plan: str = ""
    answer: Answer | None = None
    """The answer of a release without a ledger, kept so that a repetition returns the same."""

    def stored_answer(self, form: ReleaseForm) -> Answer | None:
        """Return the answer, if there is one; refuse another question under the same id."""
        if self.answer is not None and self.plan != _plan(form):
            raise RequestConflictError(
                "this form has already been released with other values; open a new form for a new question"
            )
        return self.answer


def _plan(form: ReleaseForm) -> str:
    return json.dumps(form.plan(), sort_keys=True)


class Releases:
    """Prices and makes releases; data read for the price are kept for the release."""

    def __init__(self, ledger: Ledger | None, sources: Sources) -> None:
        self.ledger, self.sources = ledger, sources
        self._requests: OrderedDict[str, _Request] = OrderedDict()
        self._shown: OrderedDict[str, Answer] = OrderedDict()
        self._busy = threading.Lock()

    def price(self, form: ReleaseForm) -> Offer:
        """Return the guarantee and its price; nothing is made or charged."""
        earlier_request, charge = self._check(form)
        if charge is not None and (earlier := charge.recall(form.plan())) is not None:
            guarantee = Guarantee.from_dict(earlier.guarantee)
            return Offer(guarantee, self._price(form, guarantee), charged_before=True)
        if charge is None and (answer := earlier_request.stored_answer(form)) is not None:
            return Offer(answer.guarantee, None, charged_before=True)
        heard: dict[str, None] = dict.fromkeys(cautions(form.question, form.checked_request))
        _heard.set(heard)
        earlier_request.bound = bound = self._read(form)
        with self._busy:
            for old in [one for one in self._requests.values() if one.bound is not None][:-MAX_READ]:
                old.bound = None
        size = bound.size if form.checked_request.declared_size is None else None
        return Offer(bound.guarantee, self._price(form, bound.guarantee), size=size, warnings=tuple(heard))

    def _price(self, form: ReleaseForm, guarantee: Guarantee) -> Price | None:
        return None if self.ledger is None else self.ledger.price(form.dataset, guarantee)

    def release(self, form: ReleaseForm, acknowledged: bool) -> Answer:
        """Return the release, which is charged first; a repeated request returns the same at no cost."""
        earlier_request, charge = self._check(form)
        if charge is None and not acknowledged:
            raise InvalidInputError(
                "without a ledger nothing records what is spent: tick the box to confirm it, or "
                "start the studio with --ledger URL. Nothing was released"
            )
        with earlier_request.lock:
            if (same := earlier_request.stored_answer(form)) is not None:
                return same
            bound = earlier_request.bound
            if bound is None or (bound.question, bound.schema) != (form.question, form.declared_schema):
                earlier = None if charge is None else charge.recall(form.plan())
                bound = self._read(form) if earlier is None else None
            answer: Answer
            if bound is None:
                answer = BoundQuestion(form.question, form.declared_schema, None).answer(charge)
            else:
                with form.fields_named(), open_source(self.sources.find(form.source)) as data:
                    answer = bound.put_to(data).answer(charge)
            earlier_request.bound, earlier_request.label = None, form.label
            if charge is None:
                earlier_request.plan, earlier_request.answer = _plan(form), answer
            elif answer.receipt is not None:  # with the labels of the schema, which the ledger does not keep
                self._keep_shown(answer.receipt.hash, answer)
            return answer

    def _read(self, form: ReleaseForm) -> BoundQuestion:
        """Return the question bound to the data, after reading them and checking their size."""
        with form.fields_named(), open_source(self.sources.find(form.source)) as data:
            bound = BoundQuestion(form.question, form.declared_schema, data)
            declared = bound.request.declared_size
            if declared not in (None, bound.size):
                raise InvalidInputError(
                    "the data have a different number of records than the schema declares; correct it "
                    "there, or "
                    'say n = "public" to have it read and published'
                )
            check_size(form.question, bound.request, bound.size)
            _ = bound.guarantee
        return bound

    def _check(self, form: ReleaseForm) -> tuple[_Request, Charge | None]:
        """Return the request and its charge, after all checks that need no data."""
        check_request(form)
        asked, charge = form.checked_request, None
        if self.ledger is not None:
            if not form.dataset:
                raise InvalidInputError("say which dataset of the ledger to charge")
            self.ledger.show(form.dataset)
            if asked.declared_size is not None:
                with form.fields_named():
                    price = asked.price()
                self.ledger.price(form.dataset, price)
            charge = Charge(self.ledger, form.dataset, form.request)
        elif form.dataset:
            raise InvalidInputError("a dataset is charged in a ledger; start the studio with --ledger URL")
        with self._busy:
            earlier_request = self._requests.setdefault(form.request, _Request())
            _keep(self._requests, form.request, MAX_KEPT)
        return earlier_request, charge

    def label(self, request: str) -> str:
        """Return the heading of a release of this studio."""
        return self._requests.get(request, _Request()).label

    def find(self, dataset: str, request: str) -> Answer | None:
        """Return a release that was made before, from the ledger or from this studio."""
        if self.ledger is None:
            return self._requests.get(request, _Request()).answer
        receipt = self.ledger.receipt(dataset, request)
        if receipt is None:
            return None
        answer_shown = self._shown.get(receipt.hash)
        if answer_shown is None:  # a noise-aware posterior can take seconds: once for page and report
            answer = load_answer(receipt.result.decode("utf-8", "replace"))
            if not isinstance(answer, Answer):
                raise FileError("this page shows single answers; `discreet show` shows that document")
            answer_shown = self._keep_shown(receipt.hash, answer.with_receipt(receipt))
        return answer_shown

    def _keep_shown(self, name: str, answer: Answer) -> Answer:
        self._shown[name] = answer
        _keep(self._shown, name, MAX_SHOWN)
        return answer

    def accounts(self) -> list[Account]:
        """The budgets of the ledger."""
        return [] if self.ledger is None else [self.ledger.show(name) for name in self.ledger.datasets()]


def _keep(cache: OrderedDict[str, Any], newest: str, most: int) -> None:
    """Mark an entry as the newest, and drop the oldest ones beyond ``most``."""
    cache.move_to_end(newest)
    while len(cache) > most:
        cache.popitem(last=False)
