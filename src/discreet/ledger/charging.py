"""A charge names the ledger and dataset that an answer is charged to; :func:`charge_once` charges it."""

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
        """Build the charge of a call.

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
            None without a ledger.

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


def charge_once(
    charge: Charge, plan: Mapping[str, Any], prepare: Callable[[], tuple[Guarantee, Callable[[], str]]]
) -> Receipt:
    """Return the stored result of this request, or charge for a new one.

    Parameters
    ----------
    charge
        The dataset that is charged.
    plan
        The public parameters of the question. They alone decide whether a second request with the same id is
        a retry of the first.
    prepare
        Function that returns the guarantee and the function that makes the result. It is not called for a
        retry, which therefore opens no data.

    Returns
    -------
    Receipt
        The receipt with the result.
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
    """Yield the caller's ledger as it is; open and close one that is given by its address."""
    if not isinstance(ledger, str | os.PathLike):
        yield ledger
        return
    with Ledger(ledger) as book:
        yield book
