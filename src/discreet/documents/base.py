"""JSON documents that may be published: a format, a version, a checksum over the content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from discreet.documents.reading import parse, writable
from discreet.errors import CorruptReleaseError

_LONG = 2**20
"""Documents beyond it stand on one line: nobody reads them by eye."""


def write_document(kind: str, version: int, content: Mapping[str, Any]) -> str:
    """The content as a JSON text that :func:`read_document` checks."""
    document = {"format": kind, "version": version, "checksum": checksum(content), "release": content}
    text = json.dumps(document, ensure_ascii=False)
    if len(text) < _LONG:
        text = json.dumps(document, indent=2, ensure_ascii=False)
    return writable(text + "\n")


def format_of(text: str) -> str:
    """The format that a document names; a text that is no document is refused."""
    return str(parse(text)["format"])


def read_document(text: str, kind: str, version: int) -> dict[str, Any]:
    """The content, written in ``version`` or an older one; an edited or unknown document is refused."""
    document = parse(text)
    if document["format"] != kind:
        raise CorruptReleaseError(f"this is not a release: its format is not {kind!r}")
    found = document.get("version")
    if type(found) is not int or not 1 <= found <= version:
        raise CorruptReleaseError(
            f"release version {found!r} is unknown; this program reads up to {version}: update discreet"
        )
    content = document.get("release")
    if not isinstance(content, dict) or document.get("checksum") != checksum(content):
        raise CorruptReleaseError("the release was edited or cut: its checksum does not match")
    return content


def checksum(content: Mapping[str, Any]) -> str:
    """Over the content in canonical form."""
    return "sha256:" + hashlib.sha256(canonical(content)).hexdigest()


def canonical(content: Mapping[str, Any]) -> bytes:
    """The same bytes however the content was laid out."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()
