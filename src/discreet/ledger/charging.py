"""A release that is charged: what every kind of release does with a ledger, in one place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

from discreet.errors import InvalidInput
from discreet.ledger.book import Ledger
from discreet.ledger.statements import Receipt
from discreet.privacy.guarantee import Guarantee

LedgerLike: TypeAlias = Ledger | str | os.PathLike[str]


def charged(
    ledger: LedgerLike,
    dataset: str | None,
    request_id: str | None,
    plan: Mapping[str, Any],
    prepare: Callable[[], tuple[Guarantee, Callable[[], str]]],
) -> Receipt:
    """The stored result of this request, or the result of a new one that has been charged.

    ``plan`` is what is asked, in public parameters: it alone decides whether a second request with the same
    id is a retry of the first. ``prepare`` gives the price and the function that makes the result; it is not
    called for a retry, which therefore opens no data.
    """
    if dataset is None:
        raise InvalidInput("dataset is missing: say which dataset of the ledger to charge")
    with _opened(ledger) as book:
        account = book.show(dataset)  # an unknown name is found before the data are opened
        receipt = None if request_id is None else book.recall(account.dataset, request_id, plan=plan)
        if receipt is None:
            begun = datetime.now(UTC)  # before the data are opened, which may take as long as the data say
            guarantee, make = prepare()
            receipt = book.spend(
                account.dataset, guarantee, make, plan=plan, request_id=request_id, begun=begun
            )
    return receipt


@contextmanager
def _opened(ledger: LedgerLike) -> Iterator[Ledger]:
    """The caller's ledger as it is; one that is given by its address is closed afterwards."""
    if not isinstance(ledger, str | os.PathLike):
        yield ledger
        return
    with Ledger(ledger) as book:
        yield book
