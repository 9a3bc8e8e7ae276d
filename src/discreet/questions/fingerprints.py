"""Retries bound to their data, for curators who ask for it: a keyed fingerprint of what was read from them.

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
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import FileError, InvalidInput, RequestConflictError

_KEY = 32
_kept: ContextVar[Fingerprints | None] = ContextVar("fingerprints", default=None)


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


def fingerprints() -> Fingerprints | None:
    """Those of the :func:`bind_retries` around this call, if there is one."""
    return _kept.get()


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
