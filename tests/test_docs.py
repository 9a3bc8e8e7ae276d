"""The documentation works as written.

Every ```python block of README.md and docs/*.md is executed, and every ``$ discreet …`` line of a ```console
block is run and must succeed. The blocks of one file share a namespace and an empty directory, in order.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from discreet.cli import EXIT_CODES, main

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = "from discreet.cli import main; main()"
FENCE = re.compile(r"^([ ]*)```(\w*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> Iterator[tuple[str, int, str]]:
    """(language, line number of the first line, content) of every fenced block."""
    for match in FENCE.finditer(text):
        indent, language, content = match.groups()
        lines = [line.removeprefix(indent) for line in content.splitlines(keepends=True)]
        yield language, text.count("\n", 0, match.start(3)) + 1, "".join(lines)


def commands(content: str) -> Iterator[list[str]]:
    """The ``$ discreet …`` commands of a console block; a backslash continues a line."""
    for line in content.replace("\\\n", " ").splitlines():
        if line.startswith("$ discreet"):
            yield shlex.split(line.removeprefix("$ "), comments=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = page.read_text("utf-8")
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for language, line, content in blocks(text):
        if language == "python":
            code = compile("\n" * (line - 1) + content, str(page), "exec")
            exec(code, namespace)
        elif language == "console":
            for command in commands(content):
                run_command(command, f"{page.name}:{line}")


def run_command(words: list[str], where: str) -> None:
    given: str | None = None
    target: str | None = None
    if ">" in words[:-1]:
        target = words[words.index(">") + 1]
        words = words[: words.index(">")]
    if "<" in words[:-1]:
        given = Path(words[words.index("<") + 1]).read_text("utf-8")
        words = words[: words.index("<")]
    printed, said = io.StringIO(), io.StringIO()
    piped = io.TextIOWrapper(io.BytesIO((given or "").encode()), encoding="utf-8")
    with (
        unittest.mock.patch("sys.stdin", piped),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(said),
        pytest.raises(SystemExit) as stopped,
    ):
        main(words[1:])
    assert not stopped.value.code, (
        f"{where}: {shlex.join(words)} exited {stopped.value.code}\n{said.getvalue()}"
    )
    if target is not None:
        Path(target).write_text(printed.getvalue(), "utf-8")


def test_the_reader_of_blocks_misses_nothing() -> None:
    text = (
        "a\n```python\nx = 1\n```\n- item\n\n  ```console\n  $ discreet show \\\n    r.json\n  out\n  ```\n"
    )
    (python, first, code), (console, second, shell) = blocks(text)
    assert (python, first, code) == ("python", 3, "x = 1\n")
    assert (console, second) == ("console", 8)
    assert list(commands(shell)) == [["discreet", "show", "r.json"]]
    for page in PAGES:
        opened = re.findall(r"^[ ]*```(?=\w)", page.read_text("utf-8"), re.MULTILINE)
        assert len(opened) == sum(language != "" for language, _, _ in blocks(page.read_text("utf-8")))


def test_the_command_line_page_is_complete() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in page
    of_ledger = ("create", "show", "history", "price", "cap", "verify", "export")
    for command in (
        *((name,) for name in ("release", "show", "plan", "audit", "mechanisms", "version")),
        *(("ledger", name) for name in of_ledger),
    ):
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *command, "--help"], capture_output=True, text=True, check=True
        )
        options = set(re.findall(r"(?<![\w`-])--[a-z][a-z-]*", run.stdout))
        assert {"--json", "--help"} <= options
        missing = {option for option in options if f"`{option}" not in page}
        assert not missing, f"docs/cli.md lacks {sorted(missing)} of discreet {' '.join(command)}"
