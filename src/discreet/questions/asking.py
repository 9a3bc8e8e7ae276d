"""How a question is put to data: read once, priced, charged, answered."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from discreet.documents.answer import Answer, load_answer
from discreet.errors import PrivacyWarning
from discreet.ledger.charging import Charge, charged
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.questions.base import Bound, Question


class Asked:
    """A question put to data, which are read at most once for price and answer together."""

    def __init__(self, question: Question, data: Any) -> None:
        self.question, self.data = question, data

    @cached_property
    def _statistic(self) -> Any:
        return self.question.read(self.data)

    @cached_property
    def _bound(self) -> Bound:
        declared = self.question.declared_size
        return self.question.bind(self.size if declared is None else declared)

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
        for caution in self.question.cautions:
            warnings.warn(caution, PrivacyWarning, stacklevel=4)
        if charge is None:
            return self._make()
        receipt = charged(
            charge, self.question.plan(), lambda: (self.guarantee, lambda: self._make().to_json())
        )
        return replace(load_answer(receipt.result.decode()), receipt=receipt)


def answered(question: Question, data: Any, charge: Charge | None = None) -> Any:
    """The answer to a question; with ``charge`` it is paid for before it leaves."""
    return Asked(question, data).answer(charge)
