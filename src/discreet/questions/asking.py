"""How a question is put to data: read once, priced, charged, answered; and asked again.

A retry returns the stored document and opens no data. Somebody who would rather hear that the data have
changed keeps a file of fingerprints. It never leaves the curator: it holds the key, and depends on the data.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._text import amount
from discreet.declarations import as_size
from discreet.documents.answer import Answer, load_answer
from discreet.errors import FileError, InvalidInput, PrivacyWarning, RequestConflictError, warn
from discreet.ledger.charging import Charge, charged
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.questions.base import Bound, Question


LARGE_EPSILON = 10
_KEY = 32
_large_delta: ContextVar[bool] = ContextVar("large_delta", default=False)
_kept: ContextVar[Fingerprints | None] = ContextVar("fingerprints", default=None)


@contextmanager
def acknowledge_large_delta() -> Iterator[None]:
    """Within it a δ of 1/n or more is not refused: you know that it may give a record away."""
    before = _large_delta.set(True)
    try:
        yield
    finally:
        _large_delta.reset(before)


@contextmanager
def bind_retries(path: str | os.PathLike[str]) -> Iterator[None]:
    """Within it a request id that is repeated must be about the same data, as far as the question reads them.

    ``path`` holds a random key and the fingerprints; it is made if it is not there, for its owner alone, and
    refused if others can read it. It holds for the thread that it is entered in. Keep it with the data and
    out of sight: it and what a retry is told depend on them. Not for ``strict=False``, whose promise is that
    nothing does, nor for regressions, which read the data while they are answered.
    """
    before = _kept.set(Fingerprints(Path(path)))
    try:
        yield
    finally:
        _kept.reset(before)


def cautions(question: Question) -> tuple[str, ...]:
    """What the curator should know before it is asked, as far as the declaration tells."""
    epsilon = getattr(question, "epsilon", None)
    if epsilon is None or Fraction(epsilon) <= LARGE_EPSILON:  # it was checked when the question was made
        return question.cautions
    large = amount(Fraction(epsilon))
    return (
        *question.cautions,
        f"ε = {large} promises next to nothing: what anybody believes about a person may change by a factor "
        f"of e^{large}; below 5 is a promise that people can use",
    )


class Asked:
    """A question put to data, which are read at most once for price and answer together."""

    def __init__(self, question: Question, data: Any) -> None:
        self.question, self.data = question, data

    @cached_property
    def _statistic(self) -> Any:
        return self.question.read(self.data)

    def put_to(self, data: Any) -> Asked:
        """The same, where it reads while it answers put to data that are open now."""
        return Asked(self.question, data) if self._statistic is self.data else self

    @cached_property
    def _bound(self) -> Bound:
        declared = self.question.declared_size
        size = self.size if declared is None else declared
        bound = self.question.bind(size)
        n = sum(size) if isinstance(size, tuple) else size
        if not n and getattr(self.question, "n", None) is not None:
            n = as_size(self.question.n)  # type: ignore[attr-defined]
        check_delta(bound.guarantee, n)
        return bound

    @property
    def size(self) -> Any:
        """The public size that the data show, which are read for it."""
        return self.question.size_of(self._statistic)

    @property
    def guarantee(self) -> Guarantee:
        """The price: fixed before the data are opened where the size was declared."""
        return self._bound.guarantee

    def _make(self) -> Answer:
        bound = self._bound  # the price first: it may need no data
        return bound.make(self._statistic)

    def answer(self, charge: Charge | None = None) -> Any:
        """The answer, charged before it leaves where there is something to charge."""
        for caution in cautions(self.question):
            warn(caution, PrivacyWarning)
        if charge is None:
            return self._make()
        kept, request = self._bound_to_data(charge), (charge.dataset, charge.request_id or "")

        def make() -> str:
            if kept is None:
                return self._make().to_json()
            statistic = self._fingerprinted
            result = self._make().to_json()
            kept.keep((*request, result), statistic)
            return result

        receipt = charged(charge, self.question.plan(), lambda: (self.guarantee, make))
        if kept is not None and receipt.repeated:
            kept.check((*request, receipt.result.decode()), self._fingerprinted)
        return replace(load_answer(receipt.result.decode()), receipt=receipt)

    @property
    def _fingerprinted(self) -> Any:
        if self._statistic is self.data and not isinstance(self.data, tuple):  # a tuple may be counts
            raise InvalidInput(
                "bind_retries: this question reads the data while it is answered, and has no counts or sums "
                "whose fingerprint could be kept"
            )
        return self._statistic

    def _bound_to_data(self, charge: Charge) -> Fingerprints | None:
        """The fingerprints that a retry is compared with, where somebody asked for it."""
        kept = _kept.get()
        if kept is None or charge.request_id is None:
            return None
        if not getattr(self.question, "strict", True):
            raise InvalidInput(
                "strict=False does not go with bind_retries, which refuses a retry by what the data hold"
            )
        return kept


def check_delta(guarantee: Guarantee, n: Any) -> None:
    """Refuses δ ≥ 1/n for a public n, unless somebody takes it upon themselves."""
    delta = guarantee.exact_delta
    if guarantee.is_private and isinstance(n, int) and delta * n >= 1 and not _large_delta.get():
        raise InvalidInput(
            f"delta={amount(delta)} is at least 1/n = {amount(Fraction(1, n))}: publishing one record chosen "
            "at random would satisfy it. Choose delta far below 1/n, or acknowledge it: with "
            "discreet.acknowledge_large_delta(): … (--acknowledge-large-delta)"
        )


def answered(question: Question, data: Any, charge: Charge | None = None) -> Any:
    """The answer to a question; with ``charge`` it is paid for before it leaves."""
    return Asked(question, data).answer(charge)


class Fingerprints:
    """A file: the key in its first line, then one line for each answer, of its digest and a fingerprint.

    An answer is a dataset, a request id and the result: few records give the same result more than once. The
    last line of an answer counts, since those before it were not charged; of two requests at the same moment
    under one id, about different data and with the same result, either may be the last.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            if not os.path.lexists(path):
                _make(path)
        except OSError as error:
            raise FileError(f"the file of fingerprints cannot be made: {error.strerror}") from None
        self._key = self._read()[0]
        if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise FileError(f"the file of fingerprints can be read by others: chmod 600 {path.name}")

    def keep(self, answer: tuple[str, ...], statistic: Any) -> None:
        """Kept before the charge: an answer that is never charged leaves a line that is never looked for.

        Not longer than a page, at the end of a file that must be there; a line that a crash has torn ends
        where the next one begins.
        """
        try:
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND), "wb") as file:
                file.write(b"\n%s %s" % (_digest(answer), self._fingerprint(statistic)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise FileError(f"the file of fingerprints cannot be written: {error.strerror}") from None

    def check(self, answer: tuple[str, ...], statistic: Any) -> None:
        """Refuses a retry whose data are not those of the answer."""
        wanted = _digest(answer)
        found = [own for answered, own in self._read()[1] if answered == wanted]
        if not found:
            raise RequestConflictError(
                "this request is charged already, and no fingerprint of its data is in the file that "
                "bind_retries names: nobody can say whether these are the same. Repeat it without "
                "bind_retries for the stored result"
            )
        if not hmac.compare_digest(found[-1], self._fingerprint(statistic)):
            raise RequestConflictError(
                "the data are not those of the first request with this id. Its result can be had without "
                "bind_retries; a question about the data as they are now needs an id of its own"
            )

    def _fingerprint(self, statistic: Any) -> bytes:
        return hmac.new(self._key, _canonical(statistic), "sha256").hexdigest().encode()

    def _read(self) -> tuple[bytes, list[list[bytes]]]:
        """The key, and the lines that are whole."""
        try:
            first, *others = self.path.read_bytes().split(b"\n")
            key = bytes.fromhex(first.decode())
        except OSError as error:
            raise FileError(f"the file of fingerprints cannot be read: {error.strerror}") from None
        except ValueError:
            key = b""
        if len(key) != _KEY:
            raise FileError("the file that bind_retries names does not begin with a key: it is another file")
        return key, [parts for line in others if len(parts := line.split()) == 2]


def _make(path: Path) -> None:
    """A file with a key and nothing else, for its owner alone; if somebody else is quicker, theirs.

    It has its name only when the key is in it, so that nobody finds half of it.
    """
    made = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(_KEY))
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(made, path)
    finally:
        made.unlink(missing_ok=True)


def _digest(answer: tuple[str, ...]) -> bytes:
    return hashlib.sha256(_canonical(answer)).hexdigest().encode()


def _canonical(value: Any) -> bytes:
    """The same bytes for the same value, and others for any other."""
    match value:
        case np.ndarray() if value.dtype.hasobject:  # their bytes would be addresses
            return _canonical(("objects", value.shape, value.tolist()))
        case np.ndarray():
            return _canonical(("array", value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()))
        case np.generic():
            return _canonical(value.item())
        case bytes():
            return b"%d:%s" % (len(value), value)
        case None | bool() | int() | float() | str() | Fraction():
            return _canonical(f"{type(value).__name__} {value!r}".encode())
        case Mapping():
            return _canonical(sorted((_canonical(k), _canonical(v)) for k, v in value.items()))
        case list() | tuple():
            return b"(%d:%s)" % (len(value), b"".join(map(_canonical, value)))
        case _ if is_dataclass(value):
            return _canonical([type(value).__name__, *(getattr(value, one.name) for one in fields(value))])
    raise InvalidInput(f"bind_retries: no fingerprint can be made of a {type(value).__name__}")
