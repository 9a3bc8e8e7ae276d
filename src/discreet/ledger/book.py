"""The ledger: it charges a request and stores its result in one transaction, before returning the result."""

from __future__ import annotations

import difflib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from discreet._declarations import Relation, as_positive, as_relation, as_unit
from discreet._json import MAX_BYTES, fields_as_json
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
from discreet.ledger._chain import Entry, Scope, State, as_canonical, plan_digest, scope_after
from discreet.ledger._store import ENTRIES, ConnectionLost, Store
from discreet.ledger.budgets import Budget, price_of
from discreet.privacy.composition import compose
from discreet.privacy.guarantee import Guarantee


def _step(label: str) -> None:
    """Mark a point where a crash would matter; tests replace this function to kill the process there."""


@dataclass(frozen=True)
class Receipt:
    """The receipt of a charge, with the stored result.

    Parameters
    ----------
    dataset
        The dataset that was charged.
    sequence
        Row of the entry in the ledger.
    request_id
        Id of the request.
    plan_hash
        Hash of the plan.
    guarantee
        The guarantee, as JSON values.
    charged
        The price.
    spent, cap
        The state of the dataset right after the charge.
    result
        The stored result.
    repeated
        Whether the request had been charged before; ``result`` is then what was stored.
    hash
        Hash of the entry. Keep it elsewhere: it reveals whether the ledger is later restored to an older
        state.
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
        """Build the receipt of a charge.

        Parameters
        ----------
        entry
            The entry of the ledger.
        repeated
            Whether the request had been charged before.

        Returns
        -------
        Receipt
            The receipt.
        """
        values = {field.name: getattr(entry, field.name) for field in fields(cls) if field.name != "repeated"}
        return cls(**values, repeated=repeated)

    def __str__(self) -> str:
        verb = "Charged earlier, not again" if self.repeated else "Charged"
        return (
            f"{verb}: {self.charged} to {self.dataset} (row {self.sequence}); "
            f"spent {self.spent} of {self.cap}; request id {self.request_id}; hash {self.hash}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the result as JSON values.

        Returns
        -------
        dict
            JSON values.
        """
        return fields_as_json(self, "result")


@dataclass(frozen=True)
class Account:
    """The state of one dataset of a ledger.

    Parameters
    ----------
    dataset
        Name of the dataset.
    relation
        Relation between neighbouring datasets that the budget protects.
    cap, spent
        The cap, and what has been spent.
    entries
        Number of entries about this dataset.
    head
        Hash of the newest of them.
    unit
        Column that identifies the people whom the budget protects; None for records, and for people until a
        charge names one.

    Examples
    --------
    >>> cap = Budget.cap(epsilon=1)
    >>> account = Account("survey", "replace-one", cap, cap.zero(), 1, "0" * 64)
    >>> print(account)
    survey: ε = 1 left of ε = 1; spent ε = 0 (replace-one)
    >>> Account.from_dict(account.to_dict()) == account
    True
    """

    dataset: str
    relation: str
    cap: Budget
    spent: Budget
    entries: int
    head: str
    unit: str | None = None

    @property
    def scope(self) -> Scope:
        """The relation, and the column that identifies people."""
        return Relation(self.relation), self.unit

    @property
    def remaining(self) -> Budget:
        """The budget that is left."""
        return self.cap - self.spent

    def __str__(self) -> str:
        whom = self.relation if self.unit is None else f"{self.relation} by {self.unit}"
        return f"{self.dataset}: {self.remaining} left of {self.cap}; spent {self.spent} ({whom})"

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Account:
        """Build an account from what :meth:`to_dict` returned.

        Parameters
        ----------
        content
            The JSON values.

        Returns
        -------
        Account
            The account.
        """
        dataset, relation, head = (str(content[name]) for name in ("dataset", "relation", "head"))
        cap, spent = (Budget.from_dict(content[name]) for name in ("cap", "spent"))
        entries, unit = as_positive(content["entries"], "entries"), content.get("unit")
        read = cls(dataset, relation, cap, spent, entries, head, unit)
        _ = read.scope
        if cap.unit != spent.unit or not spent.fits(cap):
            raise ValueError("its account is malformed")
        return read

    def to_dict(self) -> dict[str, Any]:
        """Return the account as JSON values, with what remains.

        Returns
        -------
        dict
            JSON values.
        """
        left_out = ("unit",) if self.unit is None else ()
        return {**fields_as_json(self, *left_out), "remaining": self.remaining.to_dict()}


@dataclass(frozen=True)
class Price:
    """What a request would cost, and whether it fits under the cap now; nothing is spent.

    Parameters
    ----------
    dataset
        Name of the dataset.
    asked
        The price.
    spent, cap
        The state of the dataset.

    Examples
    --------
    >>> half, cap = Budget.cap(epsilon="1/2"), Budget.cap(epsilon=1)
    >>> Price("survey", half, half, cap).fits
    True
    """

    dataset: str
    asked: Budget
    spent: Budget
    cap: Budget

    @property
    def fits(self) -> bool:
        """Whether the price fits under the cap."""
        return (self.spent + self.asked).fits(self.cap)

    def to_dict(self) -> dict[str, Any]:
        """Return the price as JSON values.

        Returns
        -------
        dict
            JSON values.
        """
        return {**fields_as_json(self), "fits": self.fits}


@dataclass(frozen=True)
class Verification:
    """The result of verifying a ledger without finding an error.

    Parameters
    ----------
    entries
        Number of entries.
    head
        Hash of the last one.
    notes
        Remarks about the ledger that are not errors.
    """

    entries: int
    head: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the verification as JSON values.

        Returns
        -------
        dict
            JSON values.
        """
        return fields_as_json(self)


class Ledger:
    """A database of privacy budgets that survives crashes, retries and concurrent use.

    Parameters
    ----------
    url
        ``"sqlite:///ledger.db"``, a plain path, or ``"postgresql://user@host/database"``.
    timeout
        Seconds to wait for a lock, or for a server that restarts.

    Examples
    --------
    >>> import tempfile
    >>> from fractions import Fraction
    >>> ledger = Ledger(tempfile.mkdtemp() + "/ledger.db")
    >>> ledger.create("survey", epsilon=1).cap
    Budget(epsilon=Fraction(1, 1), delta=None, zcdp=None)
    >>> receipt = ledger.spend("survey", Guarantee(Fraction(1, 3)), lambda: "42", plan={"question": "age"})
    >>> receipt.result, str(ledger.show("survey").remaining)
    (b'42', 'ε = 2/3 (≈ 0.666667)')
    >>> again = ledger.recall("survey", receipt.request_id, plan={"question": "age"})
    >>> again.result, again.repeated
    (b'42', True)
    >>> [entry.kind for entry in ledger.history("survey")], ledger.verify().entries
    (['create', 'charge'], 2)
    >>> ledger.price("survey", Guarantee(Fraction(1))).fits
    False
    >>> ledger.close()
    """

    def __init__(self, url: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        if not 0 < timeout < 10**6:
            raise InvalidInputError("must be a positive number of seconds", "timeout", timeout)
        self._store = Store(url, timeout)

    def __repr__(self) -> str:
        return f"Ledger({self._store.name!r})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        self._store.close()

    def _run(
        self, work: Callable[[sa.Connection], Result], *, write: bool = False, create: bool = False
    ) -> Result:
        """Run ``work`` in one transaction, and return its value after the commit.

        If the connection is lost, even during COMMIT, it is run again, so ``work`` must begin by checking
        whether it was done already. On PostgreSQL that check waits for the lock, which the lost attempt holds
        until the server has committed or rolled back: its answer is final.
        """
        deadline = time.monotonic() + self._store.timeout
        pause = 0.02
        while True:
            try:
                with self._store.attempt(write, create) as connection:
                    value = work(connection)
                return value  # noqa: RET504 (the transaction commits first)
            except ConnectionLost as lost:
                if time.monotonic() + pause > deadline:
                    raise lost.args[0] from None
            time.sleep(pause)
            pause = min(2 * pause, 1.0)

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
        """Create a dataset with its cap, and the database if there is none.

        Parameters
        ----------
        dataset
            Name of the dataset.
        epsilon, delta, zcdp
            The cap: pure ε, ε and δ, or ρ of zCDP.
        relation
            Relation between neighbouring datasets that every charge must be for, or imply.
        unit
            Column that identifies people. Where people are protected and none is given, the first charge
            fixes it.

        Returns
        -------
        Account
            The state of the new dataset.

        Raises
        ------
        InvalidInputError
            If the dataset exists already, or a value is out of range.

        Examples
        --------
        >>> import tempfile
        >>> with Ledger(tempfile.mkdtemp() + "/ledger.db") as ledger:
        ...     print(ledger.create("visits", zcdp="0.5", relation="replace-person", unit="patient"))
        visits: ρ = 0.5 left of ρ = 0.5; spent ρ = 0 (replace-person by patient)
        """
        name = _as_name(dataset, "dataset")
        cap = Budget.cap(epsilon, delta, zcdp)
        related = as_relation(relation)
        if related is Relation.REPLACE_NEARBY:
            raise InvalidInputError(
                "is no longer offered; ledgers that hold it can still be read", "relation", str(related)
            )
        scope, zero = (related, as_unit(unit, related)), cap.zero()
        attempts: set[str] = set()

        def _insert(connection: sa.Connection) -> None:
            there = _first_entry(connection, _NEWEST, of_dataset=name)
            if there is None:
                attempts.add(_append(connection, name, "create", State(scope, cap, zero, zero)).hash)
            elif there.hash not in attempts:
                raise InvalidInputError(
                    f"exists already with the cap {there.cap}; use set_cap to change that", "dataset", name
                )

        self._run(_insert, write=True, create=True)
        return self.show(name)

    def set_cap(
        self,
        dataset: str,
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        zcdp: EpsilonLike | None = None,
    ) -> Account:
        """Change the cap of a dataset; the change is an entry of the ledger.

        Parameters
        ----------
        dataset
            Name of the dataset.
        epsilon, delta, zcdp
            The new cap, in the same unit and not below what is spent.

        Returns
        -------
        Account
            The state of the dataset.

        Raises
        ------
        BudgetExceededError
            If more is spent already.
        InvalidInputError
            If the cap is in another unit.

        Examples
        --------
        >>> import tempfile
        >>> with Ledger(tempfile.mkdtemp() + "/ledger.db") as ledger:
        ...     account = ledger.create("survey", epsilon=1)
        ...     print(ledger.set_cap("survey", epsilon=2))
        survey: ε = 2 left of ε = 2; spent ε = 0 (replace-one)
        """
        cap = Budget.cap(epsilon, delta, zcdp)

        def _change_cap(connection: sa.Connection) -> None:
            last = _state(connection, dataset)
            if cap.unit != last.cap.unit:
                raise InvalidInputError(
                    f"the cap of dataset={dataset!r} is in {last.cap.unit} and cannot change to {cap.unit}: "
                    "create another dataset; the same people then have two budgets, which add up"
                )
            if not last.spent.fits(cap):
                message = f"the cap of dataset={dataset!r} cannot be {cap}: {last.spent} is spent already"
                raise BudgetExceededError(message, cap, last.spent, cap.zero())
            if cap != last.cap:
                _append(connection, dataset, "cap", State(last.scope, cap, cap.zero(), last.spent))

        self._run(_change_cap, write=True)
        return self.show(dataset)

    def datasets(self) -> list[str]:
        """Return the names of all datasets, in the order of their creation.

        Returns
        -------
        list of str
            The names.
        """
        return list(self._run(lambda connection: connection.scalars(_CREATED).all()))

    def show(self, dataset: str) -> Account:
        """Return the cap, the spent and the remaining budget of a dataset.

        Parameters
        ----------
        dataset
            Name of the dataset.

        Returns
        -------
        Account
            Its state.

        Raises
        ------
        UnknownDatasetError
            If the ledger has no such dataset.
        """
        count = sa.select(sa.func.count()).where(ENTRIES.c.dataset == dataset)
        last, entries = self._read(dataset, lambda connection, last: (last, connection.scalar(count) or 0))
        relation, unit = last.scope
        return Account(dataset, str(relation), last.cap, last.spent, entries, last.hash, unit)

    def together(self, dataset: str) -> Guarantee | None:
        """Compose the guarantees of all charges to a dataset by their exact curves.

        Parameters
        ----------
        dataset
            Name of the dataset.

        Returns
        -------
        Guarantee or None
            What all results together satisfy; ``epsilon_at(delta)`` is often far below the sum of prices that
            the cap limits. This is valid if the prices were fixed before the first result; if they were
            chosen after seeing results, only the sum is. None without a charge, or where the charges are for
            different relations or units.

        Examples
        --------
        >>> from fractions import Fraction
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder, Ledger(f"{folder}/ledger.db") as ledger:
        ...     _ = ledger.create("survey", epsilon=5, delta="1e-6")
        ...     for _ in range(30):
        ...         _ = ledger.spend("survey", Guarantee(Fraction(1, 10)), lambda: "", plan={})
        ...     print(ledger.show("survey").spent, round(ledger.together("survey").epsilon_at(1e-6), 2))
        ε = 3, δ = 0 2.35
        """
        guarantees = [
            Guarantee.from_dict(entry.guarantee) for entry in self.history(dataset) if entry.guarantee
        ]
        try:
            return compose(guarantees)
        except InvalidInputError:
            return None

    def history(self, dataset: str) -> list[Entry]:
        """Return all entries of a dataset, oldest first.

        Parameters
        ----------
        dataset
            Name of the dataset.

        Returns
        -------
        list of Entry
            The entries.
        """
        return self._read(dataset, lambda connection, _: list(_all_entries(connection, dataset)))

    def receipt(self, dataset: str, request_id: str) -> Receipt | None:
        """Return the receipt of a request by its id alone, to show it; :meth:`recall` is for a retry.

        Parameters
        ----------
        dataset
            Name of the dataset.
        request_id
            Id of the request.

        Returns
        -------
        Receipt or None
            The receipt, if there is one.
        """
        if not request_id.isprintable():  # no such id was ever charged, and a database may choke on it
            return None
        asked = {"of_dataset": dataset, "of_request": request_id}
        entry = self._read(dataset, lambda connection, _: _first_entry(connection, _REQUEST, **asked))
        return None if entry is None else Receipt.of(entry, repeated=False)

    def receipt_of(self, document: str | bytes) -> Receipt | None:
        """Return the receipt of the charge whose result is this document, byte for byte.

        Parameters
        ----------
        document
            Text or bytes of a release.

        Returns
        -------
        Receipt or None
            The receipt, if there is one.
        """
        if not isinstance(document, str | bytes):
            raise InvalidInputError("document must be the text or the bytes of a release")
        query = _ALL.where(ENTRIES.c.result == _as_bytes(document)).limit(1)
        entry = self._run(lambda connection: _first_entry(connection, query))
        return None if entry is None else Receipt.of(entry, repeated=False)

    def _read(self, dataset: str, work: Callable[[sa.Connection, Entry], Result]) -> Result:
        """Run ``work`` in one transaction with the newest entry of a dataset, which must exist."""
        return self._run(lambda connection: work(connection, _state(connection, dataset)))

    # Spending.

    def price(self, dataset: str, *guarantees: Guarantee | Budget) -> Price:
        """Price guarantees together, without spending or reserving anything.

        Parameters
        ----------
        dataset
            Name of the dataset.
        *guarantees
            The guarantees, or their prices.

        Returns
        -------
        Price
            What they cost, and whether that fits.

        Raises
        ------
        InvalidInputError
            If there is no guarantee.
        GuaranteeMismatchError
            If a guarantee has no price in the unit of the cap, or is for another relation.
        """
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
        """Return the receipt and result of a request that was charged already; opens no data.

        Parameters
        ----------
        dataset
            Name of the dataset.
        request_id
            Id of the request.
        plan
            The public parameters of the question.

        Returns
        -------
        Receipt or None
            The receipt, if there is one.

        Raises
        ------
        RequestConflictError
            If the id belongs to another plan.
        """
        name, plan_hash = _as_name(request_id, "request_id"), plan_digest(plan)
        entry = self._read(dataset, lambda connection, _: _find(connection, dataset, name, plan_hash))
        return None if entry is None else Receipt.of(entry, repeated=True)

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
        """Charge a guarantee to a dataset, then return the result of ``compute``.

        Nothing is returned before the charge and the result are committed together. When
        ``compute`` raises, nothing is charged.

        Parameters
        ----------
        dataset
            Name of the dataset.
        guarantee
            The guarantee of the result.
        compute
            Function that makes the result. It runs outside of any transaction, after a check that the charge
            can fit.
        plan
            The public parameters of the question.
        request_id
            Id of the request. The same id with the same plan returns the stored result and charges nothing;
            with another plan it is refused. Without one a random id is made, which is in the receipt and in
            the ``request_id`` of a :class:`discreet.errors.LedgerError`.
        begun
            When the request was made. The ledger keeps this hour and not the end of the computation, whose
            duration may depend on the data.

        Returns
        -------
        Receipt
            The receipt with the result.

        Raises
        ------
        BudgetExceededError
            If the charge does not fit under the cap.
        RequestConflictError
            If the id belongs to another plan.
        LedgerError
            If the ledger cannot be used.

        Examples
        --------
        >>> import tempfile
        >>> from fractions import Fraction
        >>> third = Guarantee(Fraction(1, 3))
        >>> with Ledger(tempfile.mkdtemp() + "/ledger.db") as ledger:
        ...     account = ledger.create("survey", epsilon=1)
        ...     first = ledger.spend("survey", third, lambda: "42", plan={"question": "age"}, request_id="a")
        ...     again = ledger.spend("survey", third, lambda: "43", plan={"question": "age"}, request_id="a")
        >>> again.result, again.repeated, str(again.spent)
        (b'42', True, 'ε = 1/3 (≈ 0.333333)')
        """
        begun = datetime.now(UTC) if begun is None else begun
        name = secrets.token_hex(16) if request_id is None else _as_name(request_id, "request_id")
        plan_hash = plan_digest(plan)
        terms = guarantee.to_dict()
        as_canonical(terms, "guarantee")
        asked_for = {"request_id": name, "plan_hash": plan_hash, "plan": dict(plan), "guarantee": terms}
        attempts: set[str] = set()

        def _earlier_receipt(connection: sa.Connection, last: Entry) -> Receipt | None:
            """Return the receipt of this request if it was charged already."""
            charged_entry = _find(connection, dataset, name, plan_hash)
            if charged_entry is None:
                return None
            if price_of(guarantee, last.cap.unit) != charged_entry.charged:
                raise _conflict(charged_entry)
            return Receipt.of(charged_entry, repeated=charged_entry.hash not in attempts)

        def _check(connection: sa.Connection, last: Entry) -> Receipt | None:
            receipt = _earlier_receipt(connection, last)
            if receipt is None:
                _warn_of_assumptions(connection, last, _charged(last, guarantee))
            return receipt

        def _charge(connection: sa.Connection) -> Receipt:
            _step("locked")
            last = _state(connection, dataset)
            if (receipt := _earlier_receipt(connection, last)) is not None:
                return receipt
            _step("compared")
            state = _charged(last, guarantee)
            more = {**asked_for, "result": result}
            entry = _append(connection, dataset, "charge", state, begun, **more)
            attempts.add(entry.hash)
            _step("inserted")
            return Receipt.of(entry, repeated=False)

        if (stored := self._read(dataset, _check)) is not None:
            return stored
        _step("checked")
        result = _as_bytes(compute())
        _step("computed")
        try:
            receipt = self._run(_charge, write=True)
        except LedgerError as error:
            error.request_id = name
            advice = f"No result was returned; try again with request_id={name!r}, which charges at most once"
            error.args = (f"{error.args[0]}. {advice}",)
            raise
        _step("committed")
        return receipt

    # Soundness.

    def verify(self, *, expect: str | Iterable[str] = ()) -> Verification:
        """Recompute every hash and every sum.

        Parameters
        ----------
        expect
            Hashes of receipts whose entries must be there. A ledger restored from an older copy is consistent
            in itself; these hashes reveal it.

        Returns
        -------
        Verification
            Number of entries, hash of the last, and remarks.

        Raises
        ------
        CorruptLedgerError
            At the first row that does not fit, or if an expected entry is missing.
        """
        wanted = frozenset([expect] if isinstance(expect, str) else expect)
        return self._run(lambda connection: _verification(_all_entries(connection), wanted))

    def export(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Verification:
        """Verify the ledger and write it to a new file, one line of canonical JSON per entry.

        Parameters
        ----------
        path
            The file.
        overwrite
            Whether to overwrite an existing file.

        Returns
        -------
        Verification
            The verification of the file.

        Raises
        ------
        FileError
            If the file exists or cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with Ledger(folder + "/ledger.db") as ledger:
        ...     account = ledger.create("survey", epsilon=1)
        ...     exported = ledger.export(folder + "/ledger.jsonl")
        >>> Ledger.verify_export(folder + "/ledger.jsonl", expect=account.head) == exported
        True
        """
        target = Path(path)
        if target.exists() and not overwrite:
            raise FileError(
                f"path={str(target)!r} exists already; choose another name, or overwrite it (--force)"
            )
        draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")

        def _write(connection: sa.Connection) -> None:
            with draft.open("wb") as file:
                file.writelines(chain.export_lines(chain.check_chain(_all_entries(connection))))
                file.flush()
                os.fsync(file.fileno())

        try:
            self._run(_write)
            verification = self.verify_export(draft)
            os.replace(draft, target)
        except OSError as error:
            raise FileError(f"path={str(target)!r} cannot be written: {error.strerror}") from None
        finally:
            draft.unlink(missing_ok=True)
        return verification

    @staticmethod
    def verify_export(path: str | os.PathLike[str], *, expect: str | Iterable[str] = ()) -> Verification:
        """Verify an exported file; every byte is checked.

        Parameters
        ----------
        path
            The file.
        expect
            Hashes of receipts whose entries must be there.

        Returns
        -------
        Verification
            Number of entries, hash of the last, and remarks.

        Raises
        ------
        CorruptLedgerError
            At the first row that does not fit, or if an expected entry is missing.
        FileError
            If the file cannot be read.
        """
        try:
            with Path(path).open("rb") as file:
                lines = iter(lambda: file.readline(chain.MAX_LINE_BYTES), b"")
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


def _first_entry(connection: sa.Connection, query: sa.Select[Any], **values: str) -> Entry | None:
    row = connection.execute(query, values).mappings().first()
    return None if row is None else Entry.from_row(row)


def _all_entries(connection: sa.Connection, dataset: str | None = None) -> Iterator[Entry]:
    query = _ALL if dataset is None else _ALL.where(ENTRIES.c.dataset == dataset)
    return map(Entry.from_row, connection.execute(query.execution_options(yield_per=500)).mappings())


def _state(connection: sa.Connection, dataset: str) -> Entry:
    """Return the newest entry of the dataset, which holds its cap and what is spent."""
    if isinstance(dataset, str) and (entry := _first_entry(connection, _NEWEST, of_dataset=dataset)):
        return entry
    near = difflib.get_close_matches(str(dataset), connection.scalars(_CREATED).all(), n=1, cutoff=0.5)
    create = "create it first: discreet ledger create NAME --epsilon E"
    hint = f"did you mean {near[0]!r}?" if near else create
    raise UnknownDatasetError(f"dataset={dataset!r} is not in the ledger; {hint}")


def _find(connection: sa.Connection, dataset: str, request_id: str, plan_hash: str) -> Entry | None:
    """Return the charge of an earlier request with this id, which must have had the same plan and price."""
    entry = _first_entry(connection, _REQUEST, of_dataset=dataset, of_request=request_id)
    if entry is not None and entry.plan_hash != plan_hash:
        raise _conflict(entry)
    return entry


def _conflict(entry: Entry) -> RequestConflictError:
    return RequestConflictError(
        f"request_id={entry.request_id!r} of dataset={entry.dataset!r} belongs to another plan or price "
        f"(row {entry.sequence}); a retry must ask for exactly the same, a new question needs a new id"
    )


def _warn_of_assumptions(connection: sa.Connection, last: Entry, state: State) -> None:
    """Warn of assumptions about earlier charges whose guarantees do not state whom they protect."""
    earlier = f"earlier charges to dataset={last.dataset!r}"
    relation, unit = state.scope
    if state.scope != last.scope and last.spent != last.cap.zero():
        warn(
            f"{earlier} do not name the column that identifies people; they are assumed to be for the unit "
            f"{unit!r}, like this one",
            PrivacyWarning,
        )
    elif relation is Relation.REPLACE_ONE and last.is_old:
        kinds = [(entry.plan or {}).get("question") for entry in _all_entries(connection, last.dataset)]
        if number := kinds.count("conditional"):
            warn(
                f"{number} {earlier} are conditional releases of discreet 0.1.0: their guarantees are "
                "within-group only, and the ledger counts them as replace-one",
                PrivacyWarning,
            )


def _charged(last: Entry, guarantee: Guarantee) -> State:
    """Return the state of a dataset after a charge, which must fit under its cap."""
    state = last.after(guarantee)
    if not state.spent.fits(last.cap):
        raise BudgetExceededError(
            f"dataset={last.dataset!r} has too little budget left: cap {last.cap}; spent {last.spent}; asked "
            f"{state.charged}; left {last.cap - last.spent}. Nothing was charged; ask for less, or raise the "
            "cap",
            last.cap,
            last.spent,
            state.charged,
        )
    return state


def _append(
    connection: sa.Connection,
    dataset: str,
    kind: str,
    state: State,
    begun: datetime | None = None,
    **more: Any,
) -> Entry:
    """Insert the next entry of the chain; the caller holds the lock."""
    head = _first_entry(connection, _HEAD)
    now = datetime.now(UTC)
    hour, latest = _hour((begun or now).astimezone(UTC).isoformat()), _hour(now.isoformat())
    number, previous = 1, chain.ROOT
    if head is not None:  # a request that took longer than a later one stands after it, not before
        hour = max(hour, min(_hour(head.time), latest))
        number, previous = head.sequence + 1, head.hash
    scope, cap, charged, spent = state
    relation = ":".join(filter(None, scope))
    entry = Entry(number, dataset, kind, relation, cap, charged, spent, hour, previous, **more).with_hash()
    connection.execute(ENTRIES.insert(), entry.row())
    return entry


def _hour(time: str) -> str:
    """Truncate an ISO time in UTC to the hour: anything finer would tell how long a computation took."""
    return f"{time[:13]}:00+00:00"


def _verification(entries: Iterable[Entry], expect: Iterable[str]) -> Verification:
    missing = set(expect)
    count, head, latest, notes = 0, chain.ROOT, "", []
    for entry in chain.check_chain(entries):
        missing.discard(entry.hash)
        if latest and _hour(entry.time) < _hour(latest):
            notes.append(f"row {entry.sequence}: the clock had been set back, but the rows are in order")
        count, head, latest = entry.sequence, entry.hash, max(latest, entry.time)
    if missing:
        raise CorruptLedgerError(
            f"the entry with the hash {min(missing)} is not among the {count} of this ledger: it was "
            "restored from an older copy, or this is another ledger"
        )
    return Verification(count, head, tuple(notes))


# ---- parameters ----------------------------------------------------------------------------------------


def _as_name(value: str, name: str) -> str:
    if isinstance(value, str) and 0 < len(value) <= 200 and value == value.strip() and value.isprintable():
        return value
    raise InvalidInputError(
        "must be text of 1 to 200 printable characters without white space at its ends", name, value
    )


def _as_bytes(result: bytes | str) -> bytes:
    if not isinstance(result, bytes | str):
        raise InvalidInputError("compute must return bytes or text; nothing was charged")
    content = result.encode() if isinstance(result, str) else result
    if len(content) > MAX_BYTES:
        raise TooLargeError(
            f"the result has more than {MAX_BYTES >> 20} MB, the most that a ledger stores; ask for fewer "
            "levels or draws"
        )
    return content
