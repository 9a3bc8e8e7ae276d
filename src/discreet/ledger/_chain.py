"""Entries, the hash chain through them, and the rules that a sequence of entries must obey.

No database is used here: the same rules check the tables and an exported file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from discreet._declarations import Relation
from discreet._json import fields_as_json, read_json
from discreet.errors import CorruptLedgerError, DiscreetError, GuaranteeMismatchError, InvalidInputError
from discreet.ledger.budgets import Budget, price_of
from discreet.privacy.guarantee import Guarantee

FORMAT_VERSION = 1
ROOT = "0" * 64
"""The previous hash of the first entry."""
MAX_LINE_BYTES = 256 * 2**20
"""The most bytes in one line of an export, which contains a whole result."""
Scope: TypeAlias = tuple[Relation, str | None]
"""The scope of a dataset: the relation, and the column that identifies people."""


def canonical(value: Any) -> str:
    """Return the canonical text of a JSON value, for hashes and exports: sorted keys, no white space,
    ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError


def as_canonical(value: Mapping[str, Any], name: str) -> str:
    if not isinstance(value, Mapping):
        raise InvalidInputError(f"{name} must be a mapping of public parameters, such as {{'n': 100}}")
    try:
        return canonical(dict(value))
    except (TypeError, ValueError, RecursionError):
        raise InvalidInputError(
            f"{name} must hold finite numbers, text, truth values, lists, mappings"
        ) from None


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class State(NamedTuple):
    """The relation, cap and spending of a dataset, as an entry records them."""

    scope: Scope
    cap: Budget
    charged: Budget
    spent: Budget


def plan_digest(plan: Mapping[str, Any]) -> str:
    """Return the hash of a plan, by which a retry is recognised."""
    return digest(as_canonical(plan, "plan"))


@dataclass(frozen=True)
class Entry:
    """One line of the ledger; never changed and never removed.

    ``kind`` is ``create`` (a dataset begins), ``cap`` (its cap changes) or ``charge``. ``cap`` and ``spent``
    are those of the dataset after this entry, so the newest entry of a dataset is its whole state.
    ``sequence`` counts all entries of the ledger and orders them; ``time`` is the hour in which the request
    was made (discreet 0.1.0 wrote the microsecond of the charge). ``relation`` ends with the unit, as in
    ``replace-person:patient``, once that is known. ``hash`` covers everything else, ``previous`` (the hash of
    the entry before) included.
    """

    sequence: int
    dataset: str
    kind: str
    relation: str
    cap: Budget
    charged: Budget
    spent: Budget
    time: str
    previous: str
    request_id: str | None = None
    plan_hash: str | None = None
    plan: Mapping[str, Any] | None = None
    guarantee: Mapping[str, Any] | None = None
    result: bytes | None = None
    hash: str = ""

    @property
    def scope(self) -> Scope:
        """The relation and the unit (the column that identifies people) that hold from this entry onwards."""
        relation, _, unit = self.relation.partition(":")
        return Relation(relation), unit or None

    def after(self, guarantee: Guarantee) -> State:
        """Return the state of the dataset after a charge."""
        scope = scope_after(self.dataset, self.scope, guarantee)
        charged = price_of(guarantee, self.cap.unit)
        return State(scope, self.cap, charged, self.spent + charged)

    @property
    def is_old(self) -> bool:
        """Whether discreet 0.1.0 wrote it, whose guarantees name neither the unit nor groups."""
        return "." in self.time

    def with_hash(self) -> Entry:
        """Return the same entry with its hash."""
        return replace(self, hash=digest(canonical(self._content())))

    def to_dict(self) -> dict[str, Any]:
        return {**self._content(), "hash": self.hash}

    def _content(self) -> dict[str, Any]:
        content = fields_as_json(self, "hash")
        if self.result is not None:
            content["result"] = base64.b64encode(self.result).decode()
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Entry:
        """Build an entry from what :meth:`to_dict` returned; the result may be bytes already."""
        amounts = {name: Budget.from_dict(content[name]) for name in _AMOUNTS}
        result = content["result"]
        if isinstance(result, str):
            result = base64.b64decode(result, validate=True)
        return cls(**{**content, **amounts, "result": result})

    def row(self) -> dict[str, Any]:
        """Return the entry as columns: nested values as canonical text, the result as bytes."""
        values: dict[str, Any] = {**self.to_dict(), "result": self.result}
        return {**values, **{name: canonical(values[name]) for name in _NESTED if values[name] is not None}}

    @classmethod
    def from_row(cls, row: Mapping[Any, Any]) -> Entry:
        """Build an entry from what :meth:`row` returned, and check its hash: a damaged row is never used."""

        def read() -> Entry | None:
            nested = {name: read_json(row[name]) for name in _NESTED if row[name] is not None}
            entry = cls.from_dict({**row, **nested})
            return entry if entry.with_hash().hash == entry.hash and entry.row() == dict(row) else None

        return _sound(read, row.get("sequence"), "its content does not match its hash")


_AMOUNTS = ("cap", "charged", "spent")
_NESTED = (*_AMOUNTS, "plan", "guarantee")


def _sound(read: Callable[[], Entry | None], row: Any, otherwise: str) -> Entry:
    """Return the value read from a row, or raise an error that names the row."""
    try:
        entry = read()
    except (
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        InvalidInputError,
    ):
        entry = None
    if entry is None:
        raise broken(row, otherwise)
    return entry


def broken(row: Any, why: str) -> CorruptLedgerError:
    number = row if isinstance(row, int) else None
    return CorruptLedgerError(
        f"the chain is broken at row {'?' if number is None else number}: {why}. The ledger was edited or "
        "damaged; make no release from it and compare it with an export",
        row=number,
    )


def check_chain(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the entries; raise at the first that breaks the chain or the arithmetic of its dataset."""
    previous, expected = ROOT, 1
    state: dict[str, Entry] = {}
    requests: set[tuple[str, str]] = set()
    for entry in entries:
        if entry.sequence != expected:
            raise broken(expected, f"the row is missing, the next one is row {entry.sequence}")
        if entry.with_hash().hash != entry.hash:
            raise broken(expected, "its content does not match its hash")
        if entry.previous != previous:
            raise broken(expected, "it does not continue the row before it")
        if wrong := _breach(entry, state.get(entry.dataset), requests):
            raise broken(expected, wrong)
        state[entry.dataset] = entry
        if entry.request_id is not None:
            requests.add((entry.dataset, entry.request_id))
        previous, expected = entry.hash, expected + 1
        yield entry


def _breach(entry: Entry, last: Entry | None, requests: set[tuple[str, str]]) -> str | None:
    """Return the rule that the entry breaks, given the newest entry of its dataset; None if it is sound."""
    if not entry.cap.unit or {entry.charged.unit, entry.spent.unit} != {entry.cap.unit}:
        return "its amounts are in different units"
    if entry.relation.partition(":")[0] not in list(Relation):
        return "its relation is unknown"
    if (last is None) != (entry.kind == "create"):
        return "its dataset was created twice, or never"
    if last is None:
        return "a new dataset has spent something" if entry.spent != entry.cap.zero() else None
    named = entry.kind == "charge" and last.scope == (Relation.REPLACE_PERSON, None)
    if entry.cap.unit != last.cap.unit or (
        entry.relation != last.relation and not (named and entry.scope[0] is Relation.REPLACE_PERSON)
    ):
        return "it changes the relation or the unit of its dataset"
    if entry.spent != last.spent + entry.charged or not entry.spent.fits(entry.cap):
        return "the spending does not add up, or exceeds the cap"
    if entry.kind == "cap":
        return "a change of cap has charged something" if entry.charged != entry.cap.zero() else None
    if entry.kind != "charge" or entry.cap != last.cap:
        return "its kind is unknown, or a charge has changed the cap"
    if entry.request_id is None or entry.result is None or entry.plan is None or entry.guarantee is None:
        return "a part of the charge is missing"
    if (entry.dataset, entry.request_id) in requests:
        return "its request was charged already"
    if entry.plan_hash != digest(canonical(entry.plan)):
        return "its plan does not match its plan hash"
    try:
        guarantee = Guarantee.from_dict(entry.guarantee)
        price = price_of(guarantee, entry.cap.unit)
    except (DiscreetError, KeyError, TypeError, ValueError, ArithmeticError):
        return "its guarantee cannot be read, or has no price"
    if not covers(entry.scope, guarantee):
        return "its guarantee is for another relation or unit"
    if entry.charged != price:
        return "the amount charged differs from that of its guarantee"
    if not _is_paid(entry):
        return "the price of its stored document differs from the charge"
    return None


def _is_paid(entry: Entry) -> bool:
    """Return whether a stored document costs what was charged; in zCDP it may cost less.

    Other results have no guarantee of their own, and pass.
    """
    content = _document(entry.result or b"")
    if content is None:
        return True
    try:
        guarantee = Guarantee.from_dict(content["guarantee"])
        price = price_of(guarantee, entry.cap.unit)
        paid = price.fits(entry.charged) if price.unit == "zcdp" else price == entry.charged
        return paid and covers(entry.scope, guarantee)
    except (DiscreetError, KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return False


def _document(result: bytes) -> Mapping[str, Any] | None:
    """Return the document that a result publishes, if it is one."""
    if not result.lstrip().startswith(b"{"):
        return None
    try:
        document = read_json(result)
    except ValueError:
        return None
    content = document.get("release")
    return content if "format" in document and isinstance(content, Mapping) else None


def covers(scope: Scope, guarantee: Guarantee) -> bool:
    """Return whether a budget for this relation and unit accepts the guarantee as it is."""
    relation, unit = scope
    return guarantee.relation.implies(relation) and guarantee.unit == unit


def scope_after(dataset: str, scope: Scope, guarantee: Guarantee) -> Scope:
    """Return the relation and unit of a dataset after a charge; refuse a guarantee for others.

    Where people are protected and no unit is known yet, the first guarantee that names one decides.
    """
    if covers(scope, guarantee):
        return scope
    (relation, unit), protected = scope, guarantee.relation
    of_people = relation is Relation.REPLACE_PERSON
    if of_people and unit is None and protected is relation:
        return protected, guarantee.unit
    counted = str(relation) if unit is None else f"{relation}, unit {unit!r}"
    if of_people and protected in (Relation.REPLACE_ONE, Relation.REPLACE_PERSON):
        hint = (
            "convert it to the people of this dataset by a declared bound, "
            f"guarantee.for_unit({unit or 'COLUMN'!r}, at_most=NUMBER), or create another dataset for it"
        )
    else:
        hint = (
            f"it needs a dataset of its own, created with relation={str(protected)!r}; the same people "
            "then have two budgets, which add up"
        )
    raise GuaranteeMismatchError(
        f"the guarantee is for {guarantee.protects} and dataset={dataset!r} counts {counted}: relations "
        f"and units do not mix; {hint}"
    )


def export_lines(entries: Iterable[Entry]) -> Iterator[bytes]:
    """Yield a header, a line for each entry, and the digest of all of them; each line is canonical JSON."""
    whole = hashlib.sha256(_HEADER)
    yield _HEADER
    count = 0
    for count, entry in enumerate(entries, 1):  # noqa: B007 (the last count is used below)
        line = _line(entry.to_dict())
        whole.update(line)
        yield line
    yield _line({"digest": whole.hexdigest(), "entries": count})


def _line(content: Mapping[str, Any]) -> bytes:
    return canonical(content).encode() + b"\n"


_HEADER = _line({"format": "discreet/ledger", "version": FORMAT_VERSION})


def read_export(lines: Iterable[bytes]) -> Iterator[Entry]:
    """Yield the entries of an export; a line that differs from what :func:`export_lines` writes is
    refused."""
    whole = hashlib.sha256(_HEADER)
    source = iter(lines)
    if next(source, b"") != _HEADER:
        raise CorruptLedgerError(
            f"line 1 is not the header of a ledger export of version {FORMAT_VERSION}: the file was edited, "
            "is something else, or comes from another version of discreet"
        )
    count = 0
    line = next(source, b"")
    for following in source:
        count += 1
        yield _sound(partial(_parse, line), count, "it is not in the canonical form of an export")
        whole.update(line)
        line = following
    if line != _line({"digest": whole.hexdigest(), "entries": count}):
        raise CorruptLedgerError(
            f"the last line is not the digest of the {count} entries before it: the file was edited or cut"
        )


def _parse(line: bytes) -> Entry | None:
    entry = Entry.from_dict(read_json(line, MAX_LINE_BYTES))
    return entry if _line(entry.to_dict()) == line else None
