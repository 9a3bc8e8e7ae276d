"""Small things about words: the nearest known one, and text that is safe to print."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def nearest(word: Any, known: Iterable[str]) -> str:
    """What to say after "is unknown": the nearest known word, or all of them."""
    words = [str(one) for one in known]
    near = difflib.get_close_matches(str(word).lower(), words, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are: {', '.join(sorted(words))}"


def printable(text: str, keep: str = "") -> str:
    """Without the control characters by which a level in a stranger's release could drive the terminal."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
