"""What a ledger tells: the receipt of a charge, the state of an account, a price, a verification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from discreet._json import fields_as_json
from discreet.ledger.budgets import Budget
from discreet.ledger.chain import Entry


@dataclass(frozen=True)
class Receipt:
    """What a charge did, and its result. ``hash``, kept elsewhere, later shows a rollback of the ledger.

    ``spent`` and ``cap`` are those right after the charge. ``repeated``: the request had been charged before,
    and ``result`` is what was stored then.
    """

    dataset: str
    sequence: int
    request_id: str
    plan_hash: str
    guarantee: Mapping[str, Any]
    charged: Budget
    spent: Budget
    cap: Budget
    result: bytes
    repeated: bool
    hash: str

    @classmethod
    def of(cls, entry: Entry, *, repeated: bool) -> Receipt:
        """The receipt of a charge."""
        own = {one.name: getattr(entry, one.name) for one in fields(cls) if one.name != "repeated"}
        return cls(**own, repeated=repeated)

    def __str__(self) -> str:
        verb = "Charged earlier, not again" if self.repeated else "Charged"
        return (
            f"{verb}: {self.charged} to {self.dataset} (row {self.sequence}); "
            f"spent {self.spent} of {self.cap}; request id {self.request_id}; hash {self.hash}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything but the result."""
        return fields_as_json(self, "result")


@dataclass(frozen=True)
class Account:
    """The state of one dataset. ``entries`` counts its entries, ``head`` is the hash of the newest.

    ``unit`` is the column that tells apart the people whom the budget protects; None for records, and for
    people as long as no charge has named one.
    """

    dataset: str
    relation: str
    cap: Budget
    spent: Budget
    entries: int
    head: str
    unit: str | None = None

    @property
    def remaining(self) -> Budget:
        """What is left."""
        return self.cap - self.spent

    def __str__(self) -> str:
        whom = self.relation if self.unit is None else f"{self.relation} by {self.unit}"
        return f"{self.dataset}: {self.remaining} left of {self.cap}; spent {self.spent} ({whom})"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Account:
        """Reads :meth:`to_dict`."""
        return cls(
            dataset=str(content["dataset"]),
            relation=str(content["relation"]),
            cap=Budget.from_dict(content["cap"]),
            spent=Budget.from_dict(content["spent"]),
            entries=int(content["entries"]),
            head=str(content["head"]),
        )

    def to_dict(self) -> dict[str, Any]:
        left_out = ("unit",) if self.unit is None else ()
        return {**fields_as_json(self, *left_out), "remaining": self.remaining.to_dict()}


@dataclass(frozen=True)
class Price:
    """What something would cost, and whether it fits under the cap at this moment. Nothing was spent."""

    dataset: str
    asked: Budget
    spent: Budget
    cap: Budget

    @property
    def fits(self) -> bool:
        return (self.spent + self.asked).fits(self.cap)

    def to_dict(self) -> dict[str, Any]:
        return {**fields_as_json(self), "fits": self.fits}


@dataclass(frozen=True)
class Verification:
    """A sound ledger: how many entries, the hash of the last, and remarks that are no errors."""

    entries: int
    head: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return fields_as_json(self)
