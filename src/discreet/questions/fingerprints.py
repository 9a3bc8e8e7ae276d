"""Retries bound to their data, for curators who ask for it: a keyed fingerprint of what was read from them.

A retry returns the stored document and opens no data, so that nothing it says depends on them. Somebody who
would rather hear that the data have changed keeps a file of fingerprints beside them. It never leaves the
curator: the key is in it, and whether a retry is refused depends on the data.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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

    ``path`` holds a random key and the fingerprints; it is made if it is not there, for its owner alone.
    Keep it with the data and out of sight: it and what a retry is told depend on them. Not for
    ``strict=False``, whose promise is that nothing does, nor for regressions, which read the data while they
    are answered.
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
    """A file: the key in its first line, then one line for each result, of its digest and a fingerprint."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(secrets.token_hex(_KEY) + "\n")
        except FileExistsError:
            pass
        except OSError as error:
            raise FileError(f"the file of fingerprints cannot be made: {error.strerror}") from None
        self._key = self._read()[0]

    def keep(self, result: bytes, statistic: Any) -> None:
        """Kept before the charge: a result that is never charged leaves a line that is never looked for."""
        with self.path.open("ab") as file:  # one write of less than a page, at the end
            file.write(b"%s %s\n" % (_digest(result), self._fingerprint(statistic)))

    def check(self, result: bytes, statistic: Any) -> None:
        """Refuses a retry whose data are not those of the result."""
        wanted = _digest(result)
        found = [line.split()[1] for line in self._read()[1] if line.startswith(wanted)]
        if not found:
            raise RequestConflictError(
                "this request is charged already, and no fingerprint of its data is in the file that "
                "bind_retries names: nobody can say whether these are the same. Repeat it without "
                "bind_retries for the stored result"
            )
        if not hmac.compare_digest(found[0], self._fingerprint(statistic)):
            raise RequestConflictError(
                "the data are not those of the first request with this id. Its result can be had without "
                "bind_retries; a question about the data as they are now needs an id of its own"
            )

    def _fingerprint(self, statistic: Any) -> bytes:
        return hmac.new(self._key, _canonical(statistic), "sha256").hexdigest().encode()

    def _read(self) -> tuple[bytes, list[bytes]]:
        try:
            first, *others = self.path.read_bytes().split(b"\n")
            key = bytes.fromhex(first.decode())
        except OSError as error:
            raise FileError(f"the file of fingerprints cannot be read: {error.strerror}") from None
        except ValueError:
            key = b""
        if len(key) != _KEY:
            raise FileError("the file that bind_retries names does not begin with a key: it is another file")
        return key, others


def _digest(result: bytes) -> bytes:
    return hashlib.sha256(result).hexdigest().encode()


def _canonical(value: Any) -> bytes:
    """The same bytes for the same value, and others for any other."""
    match value:
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
            return _canonical([getattr(value, one.name) for one in fields(value)])
    raise InvalidInput(f"bind_retries: no fingerprint can be made of a {type(value).__name__}")
