"""How a question is put to data: read once, priced, charged, answered; and asked again.

A retry returns the stored document and opens no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet._text import amount
from discreet.declarations import as_size
from discreet.documents.answer import Answer, load_answer
from discreet.errors import InvalidInput, PrivacyWarning, warn
from discreet.ledger.charging import Charge, charged
from discreet.privacy.guarantee import Guarantee

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
        n = sum(size) if isinstance(size, tuple) else size
        if not n and getattr(self.question, "n", None) is not None:
            n = as_size(self.question.n)  # type: ignore[attr-defined]
        check_delta(bound.guarantee, n)
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
        bound = self._bound  # the price first: it may need no data
        return bound.make(self._statistic)

    def answer(self, charge: Charge | None = None) -> Any:
        """The answer, charged before it leaves where there is something to charge."""
        for caution in cautions(self.question):
            warn(caution, PrivacyWarning)
        if charge is None:
            return self._make()
        receipt = charged(
            charge, self.question.plan(), lambda: (self.guarantee, lambda: self._make().to_json())
        )
        return replace(load_answer(receipt.result.decode()), receipt=receipt)


def check_delta(guarantee: Guarantee, n: Any) -> None:
    """Refuses δ ≥ 1/n for a public n, unless somebody takes it upon themselves."""
    delta = guarantee.exact_delta
    if guarantee.is_private and isinstance(n, int) and delta * n >= 1 and not _large_delta.get():
        raise InvalidInput(
            f"delta={amount(delta)} is at least 1/n = {amount(Fraction(1, n))}: publishing one record chosen "
            "at random would satisfy it. Choose delta far below 1/n, or acknowledge it: with "
            "discreet.acknowledge_large_delta(): … (--acknowledge-large-delta)"
        )


def answered(question: Question, data: Any, charge: Charge | None = None) -> Any:
    """The answer to a question; with ``charge`` it is paid for before it leaves."""
    return Asked(question, data).answer(charge)
