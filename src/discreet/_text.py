"""Helpers for text: the nearest known word, numbers of any size, and text that is safe to print."""

from __future__ import annotations

import difflib
import math
import re
import textwrap
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any


def nearest(word: Any, choices: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the nearest choice, or all of them."""
    words = [str(choice) for choice in choices]
    near = closest(word, words)
    return f"; did you mean {near[0]!r}?" if near else f"; known are: {', '.join(sorted(words))}"


def closest(word: Any, words: Sequence[str]) -> list[str]:
    """Return the known word nearest to ``word``, in a list that is empty if none is near."""
    return difflib.get_close_matches(str(word).lower(), words, n=1)


def about(number: float) -> str:
    """Return a number with three digits, even a whole one that is too large for a float."""
    if isinstance(number, int) and number >= 10**300:
        return f"about 10^{math.log10(number):.0f}"
    return f"{number:.3g}"


def printable(text: str, keep: str = "") -> str:
    """Escape control characters, with which text in a release could control a terminal."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def amount(value: Fraction | float) -> str:
    """Return ε or δ as text, in the same way everywhere: 0.5, 1e-6."""
    return re.sub(r"e([+-])0*", r"e\1", f"{float(value):.6g}").replace("e+", "e")


def wrap_lines(text: str, width: int = 80) -> list[str]:
    """Wrap each line of a text; no word is broken."""
    options = {"break_long_words": False, "break_on_hyphens": False}
    lines = (textwrap.wrap(line, width, **options) for line in text.split("\n"))  # type: ignore[arg-type]
    return [part for line in lines for part in line or [""]]


def align_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a plain table: the first column to the left, the others to the right."""
    lines = [[printable(cell) for cell in line] for line in [header, *rows]]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    return [
        "  ".join(
            [line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))]
        )
        for line in lines
    ]
