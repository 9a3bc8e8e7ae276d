"""How a question is put to data: read once, priced, charged, answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet._text import amount
from discreet.documents.answer import Answer, load_answer
from discreet.errors import InvalidInput, PrivacyWarning, warn
from discreet.ledger.charging import Charge, charged
from discreet.privacy.guarantee import Guarantee
from discreet.questions.fingerprints import Fingerprints, fingerprints

if TYPE_CHECKING:
    from discreet.questions.base import Bound, Question


LARGE_EPSILON = 10
_large_delta: ContextVar[bool] = ContextVar("large_delta", default=False)


@contextmanager
def acknowledge_large_delta() -> Iterator[None]:
    """Within it a δ of 1/n or more is not refused: you know that it may give a record away."""
    before = _large_delta.set(True)
    try:
        yield
    finally:
        _large_delta.reset(before)


def cautions(question: Question) -> tuple[str, ...]:
    """What the curator should know before it is asked, as far as the declaration tells."""
    epsilon = getattr(question, "epsilon", None)
    if epsilon is None or Fraction(epsilon) <= LARGE_EPSILON:  # it was checked when the question was made
        return question.cautions
    large = amount(Fraction(epsilon))
    return (
        *question.cautions,
        f"ε = {large} promises next to nothing: what anybody believes about a person may change by a factor "
        f"of e^{large}; below 5 is a promise that people can use",
    )


class Asked:
    """A question put to data, which are read at most once for price and answer together."""

    def __init__(self, question: Question, data: Any) -> None:
        self.question, self.data = question, data

    @cached_property
    def _statistic(self) -> Any:
        return self.question.read(self.data)

    def put_to(self, data: Any) -> Asked:
        """The same, where it reads while it answers put to data that are open now."""
        return Asked(self.question, data) if self._statistic is self.data else self

    @cached_property
    def _bound(self) -> Bound:
        declared = self.question.declared_size
        size = self.size if declared is None else declared
        bound = self.question.bind(size)
        n = sum(size) if isinstance(size, tuple) else size or getattr(self.question, "n", None) or 0
        delta = bound.guarantee.exact_delta
        if bound.guarantee.is_private and isinstance(n, int) and delta * n >= 1 and not _large_delta.get():
            raise InvalidInput(
                f"delta={amount(delta)} is at least 1/n = {amount(1 / n)}: publishing one record chosen at "
                "random would satisfy it. Choose delta far below 1/n, or acknowledge it: with "
                "discreet.acknowledge_large_delta(): … (--acknowledge-large-delta)"
            )
        return bound

    @property
    def size(self) -> Any:
        """The public size that the data show, which are read for it."""
        return self.question.size_of(self._statistic)

    @property
    def guarantee(self) -> Guarantee:
        """The price: fixed before the data are opened where the size was declared."""
        return self._bound.guarantee

    def _make(self) -> Answer:
        bound = self._bound
        return bound.make(self._statistic)

    def answer(self, charge: Charge | None = None) -> Any:
        """The answer, charged before it leaves where there is something to charge."""
        for caution in cautions(self.question):
            warn(caution, PrivacyWarning)
        if charge is None:
            return self._make()
        kept, request = self._bound_to_data(charge), (charge.dataset, charge.request_id or "")

        def make() -> str:
            if kept is None:
                return self._make().to_json()
            statistic = self._fingerprinted
            result = self._make().to_json()
            kept.keep((*request, result), statistic)
            return result

        receipt = charged(charge, self.question.plan(), lambda: (self.guarantee, make))
        if kept is not None and receipt.repeated:
            kept.check((*request, receipt.result.decode()), self._fingerprinted)
        return replace(load_answer(receipt.result.decode()), receipt=receipt)

    @property
    def _fingerprinted(self) -> Any:
        if self._statistic is self.data and not isinstance(self.data, tuple):  # a tuple may be counts
            raise InvalidInput(
                "bind_retries: this question reads the data while it is answered, and has no counts or sums "
                "whose fingerprint could be kept"
            )
        return self._statistic

    def _bound_to_data(self, charge: Charge) -> Fingerprints | None:
        """The fingerprints that a retry is compared with, where somebody asked for it."""
        kept = fingerprints()
        if kept is None or charge.request_id is None:
            return None
        if not getattr(self.question, "strict", True):
            raise InvalidInput(
                "strict=False does not go with bind_retries, which refuses a retry by what the data hold"
            )
        return kept


def answered(question: Question, data: Any, charge: Charge | None = None) -> Any:
    """The answer to a question; with ``charge`` it is paid for before it leaves."""
    return Asked(question, data).answer(charge)
