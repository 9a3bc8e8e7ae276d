"""Fill in the output that pages show: every block is run in order, with noise from a seed.

``python docs/_outputs.py`` writes it anew. A block is followed by a line ``<!-- output of a seeded run -->``
and by what it printed. A seeded run is not private: the private path takes no seed, so this replaces the
system's generator.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from discreet._randomness import entropy

FOLDER = Path(__file__).resolve().parent / "tutorials"
SEED = 2026
MARK = "<!-- output of a seeded run -->"
BLOCK = re.compile(rf"```python\n(.*?)```\n(?:\n({MARK}\n```text\n).*?(```\n))?", re.DOTALL)


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """Replace the operating system's generator by a seeded one."""
    source, system = entropy.SeededEntropy(SEED), entropy.secrets
    entropy.secrets = SimpleNamespace(randbelow=source.below, token_bytes=source.bytes)  # type: ignore[assignment]
    try:
        yield
    finally:
        entropy.secrets = system


def filled(text: str) -> str:
    """Return a page with the output of its blocks."""
    space: dict[str, Any] = {"__name__": "__main__"}

    def output(block: re.Match[str]) -> str:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(block[1], "page", "exec"), space)
        whole = block[0]
        if not block[2]:
            return whole
        return f"{whole[: block.start(2) - block.start()]}{block[2]}{shown.getvalue()}{block[3]}"

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, seeded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            return BLOCK.sub(output, text)
        finally:
            os.chdir(here)


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "agg")
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text("utf-8")
        if MARK in text:
            page.write_text(filled(text), "utf-8")
