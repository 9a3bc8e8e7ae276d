"""From a question to a document that may leave: priced, made, and charged where there is a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from discreet.errors import InvalidInput
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.ledger import Receipt
    from discreet.ledger.charging import LedgerLike


class Answer(Protocol):
    """What a question gives: public, with its guarantee, and a JSON document that reads back as itself."""

    @property
    def guarantee(self) -> Guarantee: ...

    def to_json(self) -> str: ...


A = TypeVar("A", bound=Any)
Prepared = tuple[Guarantee, Callable[[], A]]


class Quote:
    """Given as the ledger of a question: nothing is made or charged, the question returns its guarantee.

    ``recall`` looks up what was charged for the same plan already, before any data is opened.
    """

    def __init__(self, recall: Callable[[Mapping[str, Any]], Receipt | None] | None = None) -> None:
        self.recall = recall
        self.charged = False


def answered(
    prepare: Callable[[], Prepared[A]],
    read: Callable[[str], A],
    plan: Mapping[str, Any],
    ledger: LedgerLike | Quote | None,
    dataset: str | None,
    request_id: str | None,
) -> A:
    """The answer; with a ledger it is charged before it leaves, and a retry returns the stored one.

    ``prepare`` gives the price and the function that opens the data and makes the answer. ``plan`` is what is
    asked, in public parameters: it alone decides whether a second request is a retry of the first. ``read``
    turns a stored document into the answer.
    """
    if ledger is None:
        if dataset is not None or request_id is not None:
            raise InvalidInput("dataset and request_id belong to a ledger: pass ledger= as well")
        _, make = prepare()
        return make()
    if isinstance(ledger, Quote):
        earlier = None if ledger.recall is None else ledger.recall(plan)
        ledger.charged = earlier is not None
        return prepare()[0] if earlier is None else Guarantee.from_dict(earlier.guarantee)  # type: ignore[return-value]
    from discreet.ledger.charging import charged

    def priced() -> tuple[Guarantee, Callable[[], str]]:
        guarantee, make = prepare()
        return guarantee, lambda: make().to_json()

    receipt = charged(ledger, dataset, request_id, plan, priced)
    return replace(read(receipt.result.decode()), receipt=receipt)
