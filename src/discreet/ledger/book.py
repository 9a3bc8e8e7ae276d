"""The ledger itself: compare, charge, store and chain in one transaction; only then does the result leave."""

from __future__ import annotations

import difflib
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from discreet._declarations import Relation, as_relation, as_unit
from discreet._json import LONGEST, fields_as_json
from discreet._typing import EpsilonLike, Result
from discreet.errors import (
    BudgetExceededError,
    CorruptLedgerError,
    FileError,
    InvalidInputError,
    LedgerError,
    PrivacyWarning,
    RequestConflictError,
    TooLargeError,
    UnknownDatasetError,
    warn,
)
from discreet.ledger import _chain as chain
from discreet.ledger._chain import Entry, Scope, as_canonical, digest, scope_after
from discreet.ledger._store import ENTRIES, Store
from discreet.ledger.budgets import Budget, price_of
from discreet.privacy.guarantee import Guarantee


def _step(label: str) -> None:
    """Called wherever a crash would matter; the tests put something here that kills the process."""


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
        dataset, relation, head = (str(content[name]) for name in ("dataset", "relation", "head"))
        cap, spent = (Budget.from_dict(content[name]) for name in ("cap", "spent"))
        return cls(dataset, relation, cap, spent, int(content["entries"]), head, content.get("unit"))

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


class Ledger:
    """Budgets that survive crashes, retries and colleagues.

    ``url``: ``"sqlite:///ledger.db"``, a plain path, or ``"postgresql://user@host/database"``. ``timeout`` is
    how many seconds to wait for a lock or for a server that restarts.

    >>> import tempfile
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> ledger.create("survey", epsilon=1).cap
    Budget(epsilon=Fraction(1, 1), delta=None, zcdp=None)
    >>> from fractions import Fraction
    >>> receipt = ledger.spend("survey", Guarantee(Fraction(1, 3)), lambda: "42", plan={"question": "age"})
    >>> receipt.result, str(ledger.show("survey").remaining)
    (b'42', 'ε = 2/3 (≈ 0.666667)')
    >>> ledger.close()
    """

    def __init__(self, url: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        if not 0 < timeout < 10**6:
            raise InvalidInputError(
                "must be a positive number of seconds", parameter="timeout", value=timeout
            )
        self._store = Store(url, timeout)

    def __repr__(self) -> str:
        return f"Ledger({self._store.name!r})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the idle connections. The ledger can still be used; it opens new ones."""
        self._store.close()

    # Datasets and their caps.

    def create(
        self,
        dataset: str,
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        zcdp: EpsilonLike | None = None,
        relation: Relation | str = Relation.REPLACE_ONE,
        unit: str | None = None,
    ) -> Account:
        """A new dataset with its cap: pure ε, ε and δ, or zCDP. Makes the database if there is none.

        Every charge must be for ``relation``, or for one that implies it, and for ``unit``, the column that
        tells people apart. Where people are protected and none is given, the first charge fixes it.
        """
        name = _as_name(dataset, "dataset")
        cap = Budget.cap(epsilon, delta, zcdp)
        related = as_relation(relation)
        if related is Relation.REPLACE_NEARBY:
            raise InvalidInputError(
                "relation='replace-nearby' is no longer made: ledgers that hold it are read"
            )
        scope = related, as_unit(unit, related)
        attempts: set[str] = set()

        def work(connection: sa.Connection) -> None:
            there = _one(connection, _NEWEST, of_dataset=name)
            if there is None:
                attempts.add(_append(connection, name, "create", scope, cap, cap.zero(), cap.zero()).hash)
            elif there.hash not in attempts:
                raise InvalidInputError(
                    f"exists already with the cap {there.cap}; use set_cap to change that",
                    parameter="dataset",
                    value=name,
                )

        self._store.run(work, write=True, create=True)
        return self.show(name)

    def set_cap(
        self,
        dataset: str,
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        zcdp: EpsilonLike | None = None,
    ) -> Account:
        """Another cap in the same unit, not below what is spent. The change is an entry of the ledger."""
        cap = Budget.cap(epsilon, delta, zcdp)

        def work(connection: sa.Connection) -> None:
            last = _state(connection, dataset)
            if cap.unit != last.cap.unit:
                raise InvalidInputError(
                    f"the cap of dataset={dataset!r} is in {last.cap.unit} and cannot change to {cap.unit}: "
                    "create another dataset; the same people then have two budgets, which add up"
                )
            if not last.spent.fits(cap):
                said = f"the cap of dataset={dataset!r} cannot be {cap}: {last.spent} is spent already"
                raise BudgetExceededError(said, cap, last.spent, cap.zero())
            if cap != last.cap:
                _append(connection, dataset, "cap", last.scope, cap, cap.zero(), last.spent)

        self._store.run(work, write=True)
        return self.show(dataset)

    def datasets(self) -> list[str]:
        """The names of all datasets, in the order of their creation."""
        return list(self._store.run(lambda connection: connection.scalars(_CREATED).all()))

    def show(self, dataset: str) -> Account:
        """Cap, spent and remaining budget of a dataset."""
        count = sa.select(sa.func.count()).where(ENTRIES.c.dataset == dataset)
        last, entries = self._read(dataset, lambda connection, last: (last, connection.scalar(count) or 0))
        relation, unit = last.scope
        return Account(dataset, str(relation), last.cap, last.spent, entries, last.hash, unit)

    def history(self, dataset: str) -> list[Entry]:
        """All entries of a dataset, oldest first."""
        return self._read(dataset, lambda connection, _: list(_every(connection, dataset)))

    def receipt(self, dataset: str, request_id: str) -> Receipt | None:
        """The receipt of a request by its id alone, for whoever shows it; :meth:`recall` is for a retry."""
        if not request_id.isprintable():  # no such id was ever charged, and a database may choke on it
            return None
        asked = {"of_dataset": dataset, "of_request": request_id}
        found = self._read(dataset, lambda connection, _: _one(connection, _REQUEST, **asked))
        return None if found is None else Receipt.of(found, repeated=False)

    def receipt_of(self, document: str | bytes) -> Receipt | None:
        """The receipt of the charge whose result is this document, to the byte; None if there is none."""
        if not isinstance(document, str | bytes):
            raise InvalidInputError("document must be the text or the bytes of a release")
        query = _ALL.where(ENTRIES.c.result == _as_bytes(document)).limit(1)
        found = self._store.run(lambda connection: _one(connection, query))
        return None if found is None else Receipt.of(found, repeated=False)

    def _read(self, dataset: str, work: Callable[[sa.Connection, Entry], Result]) -> Result:
        """``work`` in one transaction, given the newest entry of a dataset, which there must be."""
        return self._store.run(lambda connection: work(connection, _state(connection, dataset)))

    # Spending.

    def price(self, dataset: str, *guarantees: Guarantee | Budget) -> Price:
        """What the guarantees would cost together, and whether that fits. Spends and promises nothing."""
        if not guarantees:
            raise InvalidInputError("guarantees are missing: price needs at least one")
        last = self._read(dataset, lambda _, last: last)
        asked, scope = last.cap.zero(), last.scope
        for guarantee in guarantees:
            if isinstance(guarantee, Guarantee):
                scope = scope_after(dataset, scope, guarantee)
            asked += price_of(guarantee, last.cap.unit)
        return Price(dataset, asked, last.spent, last.cap)

    def recall(self, dataset: str, request_id: str, *, plan: Mapping[str, Any]) -> Receipt | None:
        """The receipt and result of a request that was charged already, or None. Opens no data."""
        name, plan_hash = _as_name(request_id, "request_id"), digest(as_canonical(plan, "plan"))
        found = self._read(dataset, lambda connection, _: _find(connection, dataset, name, plan_hash))
        return None if found is None else Receipt.of(found, repeated=True)

    def spend(
        self,
        dataset: str,
        guarantee: Guarantee,
        compute: Callable[[], bytes | str],
        *,
        plan: Mapping[str, Any],
        request_id: str | None = None,
        begun: datetime | None = None,
    ) -> Receipt:
        """Charges the guarantee to the dataset and returns the result of ``compute``, in this order.

        ``plan`` holds the public parameters that say what is asked. ``compute`` runs outside of any
        transaction, after a first look whether the charge can fit; nothing of what it returns leaves before
        the charge and the result are committed together. When ``compute`` raises, nothing is charged.

        The same ``request_id`` with the same plan returns the stored result and charges nothing; with another
        plan it is refused. Without an id a random one is made: it is in the receipt, and in the
        ``request_id`` of a :class:`discreet.errors.LedgerError`.

        ``begun`` is when the request was made: the ledger keeps its hour, and not when the computation was
        done, because how long that took may depend on the data.
        """
        begun = datetime.now(UTC) if begun is None else begun
        name = secrets.token_hex(16) if request_id is None else _as_name(request_id, "request_id")
        plan_hash = digest(as_canonical(plan, "plan"))
        terms = guarantee.to_dict()
        as_canonical(terms, "guarantee")
        asked_for = {"request_id": name, "plan_hash": plan_hash, "plan": dict(plan), "guarantee": terms}
        attempts: set[str] = set()

        def earlier(connection: sa.Connection, last: Entry) -> Receipt | None:
            """The receipt of this request, if it was charged already; else it must fit."""
            found = _find(connection, dataset, name, plan_hash)
            if found is None:
                _check_affordable(last, guarantee)
                return None
            if price_of(guarantee, last.cap.unit) != found.charged:
                raise _conflict(found)
            return Receipt.of(found, repeated=found.hash not in attempts)

        def look(connection: sa.Connection, last: Entry) -> Receipt | None:
            found = earlier(connection, last)
            if found is None:
                _warn_of_assumptions(connection, last, guarantee)
            return found

        def charge(connection: sa.Connection) -> Receipt:
            _step("locked")
            last = _state(connection, dataset)
            if (found := earlier(connection, last)) is not None:
                return found
            _step("compared")
            scope = scope_after(dataset, last.scope, guarantee)
            asked = price_of(guarantee, last.cap.unit)
            spent, more = last.spent + asked, {**asked_for, "result": result}
            entry = _append(connection, dataset, "charge", scope, last.cap, asked, spent, begun, **more)
            attempts.add(entry.hash)
            _step("inserted")
            return Receipt.of(entry, repeated=False)

        if (found := self._read(dataset, look)) is not None:
            return found
        _step("checked")
        result = _as_bytes(compute())
        _step("computed")
        try:
            receipt = self._store.run(charge, write=True)
        except LedgerError as error:
            error.request_id = name
            advice = f"No result has left; try again with request_id={name!r}, which charges at most once"
            error.args = (f"{error.args[0]}. {advice}",)
            raise
        _step("committed")
        return receipt

    # Soundness.

    def verify(self, *, expect: str | Iterable[str] = ()) -> Verification:
        """Recomputes every hash and sum; raises :class:`.CorruptLedgerError` at the first bad row.

        A ledger that was put back to an older copy is sound in itself. ``expect``, the hash of a receipt or
        several, says which entries must still be there.
        """
        wanted = frozenset([expect] if isinstance(expect, str) else expect)
        return self._store.run(lambda connection: _verification(_every(connection), wanted))

    def export(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Verification:
        """Verifies the ledger and writes it to a new file, one line of canonical JSON per entry."""
        target = Path(path)
        if target.exists() and not overwrite:
            raise FileError(
                f"path={str(target)!r} exists already; choose another name, or overwrite it (--force)"
            )
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")

        def work(connection: sa.Connection) -> None:
            with draft.open("wb") as file:
                file.writelines(chain.export_lines(chain.checked(_every(connection))))
                file.flush()
                os.fsync(file.fileno())

        try:
            self._store.run(work)
            found = self.verify_export(draft)
            os.replace(draft, target)
        except OSError as error:
            raise FileError(f"path={str(target)!r} cannot be written: {error.strerror}") from None
        finally:
            draft.unlink(missing_ok=True)
        return found

    @staticmethod
    def verify_export(path: str | os.PathLike[str], *, expect: str | Iterable[str] = ()) -> Verification:
        """:meth:`verify` for an exported file, of which every single byte is checked."""
        try:
            with Path(path).open("rb") as file:
                lines = iter(lambda: file.readline(chain.LONGEST_LINE), b"")
                return _verification(
                    chain.read_export(lines), [expect] if isinstance(expect, str) else expect
                )
        except OSError as error:
            raise FileError(f"path={os.fspath(path)!r} cannot be read: {error.strerror}") from None


# ---- inside a transaction ------------------------------------------------------------------------------


_HEAD = sa.select(ENTRIES).order_by(ENTRIES.c.sequence.desc()).limit(1)
_NEWEST = _HEAD.where(ENTRIES.c.dataset == sa.bindparam("of_dataset"))
_REQUEST = sa.select(ENTRIES).where(
    ENTRIES.c.dataset == sa.bindparam("of_dataset"), ENTRIES.c.request_id == sa.bindparam("of_request")
)
_ALL = sa.select(ENTRIES).order_by(ENTRIES.c.sequence)
_CREATED = sa.select(ENTRIES.c.dataset).where(ENTRIES.c.kind == "create").order_by(ENTRIES.c.sequence)


def _one(connection: sa.Connection, query: sa.Select[Any], **values: str) -> Entry | None:
    row = connection.execute(query, values).mappings().first()
    return None if row is None else Entry.from_row(row)


def _every(connection: sa.Connection, dataset: str | None = None) -> Iterator[Entry]:
    query = _ALL if dataset is None else _ALL.where(ENTRIES.c.dataset == dataset)
    return map(Entry.from_row, connection.execute(query.execution_options(yield_per=500)).mappings())


def _state(connection: sa.Connection, dataset: str) -> Entry:
    """The newest entry of the dataset, which holds its cap and what is spent."""
    if isinstance(dataset, str) and (found := _one(connection, _NEWEST, of_dataset=dataset)):
        return found
    near = difflib.get_close_matches(str(dataset), connection.scalars(_CREATED).all(), n=1, cutoff=0.5)
    create = "create it first: discreet ledger create NAME --epsilon E"
    hint = f"did you mean {near[0]!r}?" if near else create
    raise UnknownDatasetError(f"dataset={dataset!r} is not in the ledger; {hint}")


def _find(connection: sa.Connection, dataset: str, request_id: str, plan_hash: str) -> Entry | None:
    """The charge of an earlier request with this id, which must have asked for the same."""
    entry = _one(connection, _REQUEST, of_dataset=dataset, of_request=request_id)
    if entry is not None and entry.plan_hash != plan_hash:
        raise _conflict(entry)
    return entry


def _conflict(entry: Entry) -> RequestConflictError:
    return RequestConflictError(
        f"request_id={entry.request_id!r} of dataset={entry.dataset!r} belongs to another plan or price "
        f"(row {entry.sequence}); a retry must ask for exactly the same, a new question needs a new id"
    )


def _warn_of_assumptions(connection: sa.Connection, last: Entry, guarantee: Guarantee) -> None:
    """Says what the earlier charges of a dataset are taken for, where they do not say it themselves."""
    earlier = f"earlier charges to dataset={last.dataset!r}"
    if scope_after(last.dataset, last.scope, guarantee) != last.scope and last.spent != last.cap.zero():
        warn(
            f"{earlier} do not name the column that tells people apart; they are taken to be for the unit "
            f"{guarantee.unit!r}, as this one",
            PrivacyWarning,
        )
    elif last.scope[0] is Relation.REPLACE_ONE and last.is_old:
        kinds = [(entry.plan or {}).get("question") for entry in _every(connection, last.dataset)]
        if number := kinds.count("conditional"):
            warn(
                f"{number} {earlier} are conditional releases of discreet 0.1.0: they hold within public "
                "groups only, and count here as if they held for replace-one",
                PrivacyWarning,
            )


def _check_affordable(last: Entry, guarantee: Guarantee) -> None:
    scope_after(last.dataset, last.scope, guarantee)
    asked = price_of(guarantee, last.cap.unit)
    if not (last.spent + asked).fits(last.cap):
        raise BudgetExceededError(
            f"dataset={last.dataset!r} cannot afford it: cap {last.cap}; spent {last.spent}; asked {asked}; "
            f"left {last.cap - last.spent}. Nothing was charged; ask for less, or raise the cap",
            last.cap,
            last.spent,
            asked,
        )


def _append(
    connection: sa.Connection,
    dataset: str,
    kind: str,
    scope: Scope,
    cap: Budget,
    charged: Budget,
    spent: Budget,
    begun: datetime | None = None,
    **more: Any,
) -> Entry:
    """The next entry of the chain, inserted; the caller holds the lock."""
    head = _one(connection, _HEAD)
    now = datetime.now(UTC)
    hour, latest = _hour((begun or now).astimezone(UTC).isoformat()), _hour(now.isoformat())
    number, previous = 1, chain.ROOT
    if head is not None:  # a request that took longer than a later one stands after it, not before
        hour = max(hour, min(_hour(head.time), latest))
        number, previous = head.sequence + 1, head.hash
    relation = ":".join(filter(None, scope))
    entry = Entry(number, dataset, kind, relation, cap, charged, spent, hour, previous, **more).with_hash()
    connection.execute(ENTRIES.insert(), entry.row())
    return entry


def _hour(time: str) -> str:
    """An ISO time in UTC down to the hour: anything finer would tell how long a computation took."""
    return f"{time[:13]}:00+00:00"


def _verification(entries: Iterable[Entry], expect: Iterable[str]) -> Verification:
    missing = set(expect)
    count, head, latest, notes = 0, chain.ROOT, "", []
    for entry in chain.checked(entries):
        missing.discard(entry.hash)
        if latest and _hour(entry.time) < _hour(latest):
            notes.append(
                f"row {entry.sequence}: the clock had been set back; the rows are in order all the same"
            )
        count, head, latest = entry.sequence, entry.hash, max(latest, entry.time)
    if missing:
        raise CorruptLedgerError(
            f"the entry with the hash {min(missing)} is not among the {count} of this ledger: it was put "
            "back to an older copy, or this is another ledger"
        )
    return Verification(count, head, tuple(notes))


# ---- parameters ----------------------------------------------------------------------------------------


def _as_name(value: str, name: str) -> str:
    if isinstance(value, str) and 0 < len(value) <= 200 and value == value.strip() and value.isprintable():
        return value
    raise InvalidInputError(
        "must be text of 1 to 200 printable characters without white space at its ends",
        parameter=name,
        value=value,
    )


def _as_bytes(result: bytes | str) -> bytes:
    if not isinstance(result, bytes | str):
        raise InvalidInputError("compute must return bytes or text; nothing was charged")
    content = result.encode() if isinstance(result, str) else result
    if len(content) > LONGEST:
        raise TooLargeError(f"the result has more than {LONGEST >> 20} MB, which no ledger keeps")
    return content
