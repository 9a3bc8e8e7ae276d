"""JSON documents that may be published: a format, a version, a checksum over the content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from discreet._json import MAX_BYTES, Unreadable, read_json
from discreet._text import nearest, printable
from discreet.errors import CorruptReleaseError, TooLargeError

_MAX_INDENTED_CHARACTERS = 2**20
"""Longer documents are written on one line instead of indented."""


def write_document(kind: str, version: int, content: Mapping[str, Any]) -> str:
    """Return the content as a JSON text that :func:`read_document` checks."""
    document = {"format": kind, "version": version, "checksum": checksum(content), "release": content}
    text = json.dumps(document, ensure_ascii=False)
    if len(text) < _MAX_INDENTED_CHARACTERS:
        text = json.dumps(document, indent=2, ensure_ascii=False)
    return writable(text + "\n")


def format_of(text: str) -> str:
    """Return the format that a document names; refuse a text that is not a document."""
    return str(parse(text)["format"])


def read_document(text: str, kind: str, version: int) -> dict[str, Any]:
    """Return the content, written in ``version`` or an older one; refuse an edited or unknown document."""
    return read_versioned(text, kind, version)[1]


def read_versioned(text: str, kind: str, version: int) -> tuple[int, dict[str, Any]]:
    """Return the version in which a document was written, and its content."""
    document = parse(text)
    if document["format"] != kind:
        raise CorruptReleaseError(f"this is not a release: its format is not {kind!r}")
    written = document.get("version")
    if type(written) is not int or not 1 <= written <= version:
        raise CorruptReleaseError(
            f"release version {written!r} is unknown; this program reads up to {version}: update discreet"
        )
    content = document.get("release")
    if not isinstance(content, dict) or document.get("checksum") != checksum(content):
        raise CorruptReleaseError("the release was edited or cut: its checksum does not match")
    return written, content


def checksum(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 checksum of the content in canonical form."""
    return "sha256:" + hashlib.sha256(canonical(content)).hexdigest()


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return the content as bytes that do not depend on order or spacing."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


PARTS = ("format", "version", "checksum", "release")


def parse(text: str | bytes) -> dict[str, Any]:
    """Return the four parts of a document of any kind, not yet checked against each other."""
    if not isinstance(text, str | bytes):
        raise CorruptReleaseError("this is not a release: a document is text")
    try:
        document = read_json(text)
    except Unreadable as reason:
        raise CorruptReleaseError(f"this is not a release: {reason}") from None
    if not isinstance(document, dict) or "format" not in document:
        raise CorruptReleaseError("this is not a release: it has no format")
    only(document, PARTS)
    return document


def read_text(path: Path) -> str:
    """Return the text of a document's file; refuse a file that is longer than a document may be."""
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise CorruptReleaseError(f"{str(path)!r} is not a release: it is longer than {MAX_BYTES >> 20} MB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CorruptReleaseError(f"{str(path)!r} is not a release: it is not text in UTF-8") from None


def only(content: Mapping[str, Any], allowed: Collection[str], what: str = "the release") -> None:
    """Refuse a document with parts that are not ``allowed``, because nothing would check them."""
    for name in content:
        if name not in allowed:
            raise CorruptReleaseError(
                f"{what} has an unexpected part {printable(name)[:60]!r}{nearest(name[:60], allowed)}"
            )


def writable(text: str) -> str:
    """Return the text of a new document, or refuse one that is too long to be read again."""
    if len(text.encode()) > MAX_BYTES:
        raise TooLargeError(
            f"the document would have {len(text.encode()) / 2**20:.0f} MB, more than the "
            f"{MAX_BYTES / 2**20:g} MB that can be read: ask for fewer levels or draws"
        )
    return text
