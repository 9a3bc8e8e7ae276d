"""Small things about words: the nearest known one, numbers of any size, and text that is safe to print."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any


def nearest(word: Any, known: Iterable[str]) -> str:
    """What to say after "is unknown": the nearest known word, or all of them."""
    words = [str(one) for one in known]
    near = difflib.get_close_matches(str(word).lower(), words, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are: {', '.join(sorted(words))}"


def about(number: float) -> str:
    """A number in three digits, also a whole one that no double can hold."""
    if isinstance(number, int) and number >= 10**300:
        return f"about 10^{math.log10(number):.0f}"
    return f"{number:.3g}"


def printable(text: str, keep: str = "") -> str:
    """Without the control characters by which a level in a stranger's release could drive the terminal."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
