"""The one way in which the text of a document becomes values: bounded, unambiguous, with no part unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from discreet._json import LONGEST, Unreadable, read_json
from discreet._text import nearest, printable
from discreet.errors import CorruptReleaseError, TooLargeError

PARTS = ("format", "version", "checksum", "release")


def parse(text: str | bytes) -> dict[str, Any]:
    """The four parts of a document of any kind, not yet checked against each other."""
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
    """The text of a document's file, of which no more is read than a document may have."""
    with path.open("rb") as file:
        content = file.read(LONGEST + 1)
    if len(content) > LONGEST:
        raise CorruptReleaseError(f"{str(path)!r} is not a release: it is longer than {LONGEST >> 20} MB")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise CorruptReleaseError(f"{str(path)!r} is not a release: it is not text in UTF-8") from None


def only(content: Mapping[str, Any], known: Collection[str], what: str = "the release") -> None:
    """Refuses parts that no version has written: a reader must not be shown what nobody checks."""
    for name in content:
        if name not in known:
            raise CorruptReleaseError(
                f"{what} has a part {printable(name)[:60]!r} that it cannot have{nearest(name[:60], known)}"
            )


def writable(text: str) -> str:
    """The text of a new document, once it is certain that it can be read again."""
    if len(text.encode()) > LONGEST:
        raise TooLargeError(
            f"the document would have {len(text.encode()) / 2**20:.0f} MB, and none is read beyond "
            f"{LONGEST / 2**20:g}: ask for fewer levels or draws"
        )
    return text
