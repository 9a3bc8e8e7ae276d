"""A charge names the ledger and dataset that an answer is charged to."""

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
    """The dataset of a ledger that is charged for an answer.

    Parameters
    ----------
    ledger
        The ledger, or its address.
    dataset
        Name of the dataset in the ledger.
    request_id
        Id of the request. A retry with the same id and question is not charged again.
    label
        Name of the data in the stored plan.

    Examples
    --------
    >>> Charge("ledger.db", "survey").plan({"question": "mean"})
    {'question': 'mean'}
    >>> Charge("ledger.db", "survey", label="wave 1").plan({"question": "mean"})
    {'question': 'mean', 'data': 'wave 1'}
    """

    ledger: LedgerLike
    dataset: str
    request_id: str | None = None
    label: str | None = None

    @classmethod
    def of(cls, ledger: LedgerLike | None, dataset: str | None, request_id: str | None) -> Charge | None:
        """Build the charge from the ledger arguments of a release.

        Parameters
        ----------
        ledger
            The ledger, its address, or None.
        dataset
            Name of the dataset in the ledger.
        request_id
            Id of the request.

        Returns
        -------
        Charge or None
            None if no ledger is given.

        Raises
        ------
        InvalidInputError
            If a dataset or request id is given without a ledger, or a ledger without a dataset.

        Examples
        --------
        >>> Charge.of("ledger.db", "survey", None)
        Charge(ledger='ledger.db', dataset='survey', request_id=None, label=None)
        >>> Charge.of(None, None, None) is None
        True
        """
        if ledger is None:
            if dataset is not None or request_id is not None:
                raise InvalidInputError("dataset and request_id belong to a ledger: pass ledger= as well")
            return None
        if dataset is None:
            raise InvalidInputError("dataset is missing: say which dataset of the ledger to charge")
        return cls(ledger, dataset, request_id)

    def plan(self, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Return the plan as the ledger stores it.

        Parameters
        ----------
        plan
            The public parameters of the question.

        Returns
        -------
        dict
            The plan, with the label of the data if there is one.
        """
        return dict(plan) if self.label is None else {**plan, "data": self.label}

    def recall(self, plan: Mapping[str, Any]) -> Receipt | None:
        """Look up an earlier charge for the same plan under this request id.

        Parameters
        ----------
        plan
            The public parameters of the question.

        Returns
        -------
        Receipt or None
            Its receipt, if there is one.

        Raises
        ------
        RequestConflictError
            If the id belongs to another plan.
        """
        if self.request_id is None:
            return None
        with _open(self.ledger) as book:
            return book.recall(self.dataset, self.request_id, plan=self.plan(plan))

    @contextmanager
    def pay(self, plan: Mapping[str, Any]) -> Iterator[Payment]:
        """Open the ledger for one request, whose dataset must exist; nothing is charged yet.

        Parameters
        ----------
        plan
            The public parameters of the question. They alone decide whether a second request with the same
            id is a retry of the first.

        Yields
        ------
        Payment
            With the receipt of the request, if it was charged earlier.
        """
        with _open(self.ledger) as book:
            account = book.show(self.dataset)  # an unknown name is found before the data are opened
            labelled, name, earlier = self.plan(plan), self.request_id, None
            if name is not None:
                earlier = book.recall(account.dataset, name, plan=labelled)
            begun = datetime.now(UTC)  # before the data are opened, which may take as long as the data say
            yield Payment(book, account.dataset, labelled, name, begun, earlier)


@dataclass(frozen=True)
class Payment:
    """A request whose ledger is open, and its receipt, if it was charged earlier."""

    book: Ledger
    dataset: str
    plan: Mapping[str, Any]
    request_id: str | None
    begun: datetime
    earlier: Receipt | None

    def spend(self, guarantee: Guarantee, compute: Callable[[], str]) -> Receipt:
        """Charge for what ``compute`` returns, before it is returned.

        Parameters
        ----------
        guarantee
            The guarantee of the result.
        compute
            Function that makes the result.

        Returns
        -------
        Receipt
            The receipt with the result.
        """
        asked = {"plan": self.plan, "request_id": self.request_id, "begun": self.begun}
        return self.book.spend(self.dataset, guarantee, compute, **asked)  # type: ignore[arg-type]


@contextmanager
def _open(ledger: LedgerLike) -> Iterator[Ledger]:
    """Yield the caller's ledger as it is; open and close one that is given by its address."""
    if not isinstance(ledger, str | os.PathLike):
        yield ledger
        return
    with Ledger(ledger) as book:
        yield book
