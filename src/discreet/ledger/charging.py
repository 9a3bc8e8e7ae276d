"""A charge: which ledger pays, under which name; and the one place where an answer is paid for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from discreet.errors import InvalidInputError
from discreet.ledger.book import Ledger, Receipt
from discreet.privacy.guarantee import Guarantee

LedgerLike: TypeAlias = Ledger | str | os.PathLike[str]


@dataclass(frozen=True)
class Charge:
    """Who pays: a dataset of a ledger, under a request id. ``label`` names the data in the plan, if given."""

    ledger: LedgerLike
    dataset: str
    request_id: str | None = None
    label: str | None = None

    @classmethod
    def of(cls, ledger: LedgerLike | None, dataset: str | None, request_id: str | None) -> Charge | None:
        """The charge of a call; None without a ledger."""
        if ledger is None:
            if dataset is not None or request_id is not None:
                raise InvalidInputError("dataset and request_id belong to a ledger: pass ledger= as well")
            return None
        if dataset is None:
            raise InvalidInputError("dataset is missing: say which dataset of the ledger to charge")
        return cls(ledger, dataset, request_id)

    def plan(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """The plan as the ledger stores it."""
        return dict(plan) if self.label is None else {**plan, "data": self.label}

    def recall(self, plan: Mapping[str, Any]) -> Receipt | None:
        """What was charged for the same plan under this id already."""
        if self.request_id is None:
            return None
        with _open(self.ledger) as book:
            return book.recall(self.dataset, self.request_id, plan=self.plan(plan))


def charged(
    charge: Charge, plan: Mapping[str, Any], prepare: Callable[[], tuple[Guarantee, Callable[[], str]]]
) -> Receipt:
    """The stored result of this request, or the result of a new one that has been charged.

    ``plan`` is what is asked, in public parameters: it alone decides whether a second request with the same
    id is a retry of the first. ``prepare`` gives the price and the function that makes the result; it is not
    called for a retry, which therefore opens no data.
    """
    labelled = charge.plan(plan)
    with _open(charge.ledger) as book:
        account = book.show(charge.dataset)  # an unknown name is found before the data are opened
        if charge.request_id is not None:
            earlier = book.recall(account.dataset, charge.request_id, plan=labelled)
            if earlier is not None:
                return earlier
        begun = datetime.now(UTC)  # before the data are opened, which may take as long as the data say
        guarantee, make = prepare()
        name = charge.request_id
        return book.spend(account.dataset, guarantee, make, plan=labelled, request_id=name, begun=begun)


@contextmanager
def _open(ledger: LedgerLike) -> Iterator[Ledger]:
    """The caller's ledger as it is; one that is given by its address is closed afterwards."""
    if not isinstance(ledger, str | os.PathLike):
        yield ledger
        return
    with Ledger(ledger) as book:
        yield book
