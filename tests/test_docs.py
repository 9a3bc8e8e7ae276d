"""The documentation works as written.

Every ```python block of README.md, docs/ and proofs/ is executed, and every ``$ discreet …`` line of a
```console block is run and must succeed. The blocks of one file share a namespace and an empty directory,
in order. A page that begins with ``<!-- needs: … -->`` runs among the slow tests, where its component is
started; without the component it is skipped with the reason, or fails where ``CI`` is set. The examples in
docstrings, which the reference shows, are run too.
"""

from __future__ import annotations

import contextlib
import doctest
import importlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import unittest.mock
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import discreet
from discreet._cli import EXIT_CODES, app, main
from discreet.mechanisms import MECHANISMS
from evidence import postgres
from evidence.components import need
from pace import now_or_slow

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), *sorted((ROOT / "proofs").glob("*.md"))]
NEEDS = re.compile(r"<!-- needs: (\w+) -->")
FENCE = re.compile(r"^([ ]*)```(\w*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


SOURCES = ROOT / "src"
EXAMPLES = [path for path in sorted(SOURCES.rglob("*.py")) if ">>> " in path.read_text("utf-8")]


@pytest.mark.parametrize(
    "path",
    now_or_slow(EXAMPLES, lambda path: path.stem not in ("public", "search")),
    ids=lambda path: path.stem,
)
def test_examples_in_docstrings(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = ".".join(path.relative_to(SOURCES).with_suffix("").parts).removesuffix(".__init__")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


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


def component(page: Path) -> str | None:
    """What a page needs besides Python packages."""
    found = NEEDS.match(page.read_text("utf-8"))
    return found.group(1) if found else None


def name_of(page: Path) -> str:
    return page.relative_to(DOCS if page.is_relative_to(DOCS) else ROOT).as_posix()


LONG = (
    "how-to/plan.md",
    "reference/command-line.md",
    "how-to/choose-epsilon.md",
    "how-to/posterior-draws.md",
)
PLAIN = [page for page in PAGES if component(page) is None and "```" in page.read_text("utf-8")]


@pytest.mark.parametrize("page", now_or_slow(PLAIN, lambda page: name_of(page) not in LONG), ids=name_of)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_page(page, tmp_path, monkeypatch)


@pytest.mark.slow
def test_pages_on_postgresql_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(postgres.missing())
    pages = [page for page in PAGES if component(page) == "postgresql"]
    assert pages
    with postgres.server() as server:
        monkeypatch.setenv("DISCREET_LEDGER", server.url)
        for page in pages:
            run_page(page, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # PySpark's own sockets
def test_pages_on_spark_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not importlib.util.find_spec("pyspark"):
        need("PySpark is not installed")
    if not (shutil.which("java") or os.environ.get("JAVA_HOME")):
        need("Java is not installed")
    pages = [page for page in PAGES if component(page) == "spark"]
    assert pages
    for page in pages:
        run_page(page, tmp_path, monkeypatch)


def test_every_component_has_its_test() -> None:
    assert {component(page) for page in PAGES} == {None, "postgresql", "spark"}


def run_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
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


def names_of_commands(group: Any) -> Iterator[str]:
    """Every command of the program; those of a group with its name, the plans of all kinds as one."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if name == "ledger":
            yield from (f"ledger {inner}" for inner in command.list_commands(context))
        else:
            yield name


def test_the_command_line_page_shows_every_command() -> None:
    page = (DOCS / "reference" / "command-line.md").read_text("utf-8")
    for code, meaning in EXIT_CODES.items():
        assert f"| {code} | {meaning} |" in page
    names = set(names_of_commands(typer.main.get_command(app)))
    assert {"proportions", "plan", "check", "ledger verify"} <= names
    missing = [name for name in names if not re.search(rf"^(\$ )?discreet {name}\b", page, re.MULTILINE)]
    assert not missing


# What the pages promise to hold.


def test_pages_are_short() -> None:
    """A page fits in five minutes; evidence and reference, which are looked up, may be longer."""
    words = {name_of(page): len(page.read_text("utf-8").split()) for page in DOCS.rglob("*.md")}
    long = ("evidence/", "reference/")
    assert not {name: count for name, count in words.items() if count > 900 and not name.startswith(long)}
    assert sum(count for name, count in words.items() if not name.startswith("reference/")) <= 45_000
    assert {path.name for path in DOCS.glob("*.md")} == {"index.md"}


def of_docs(name: str) -> Any:
    """A module beside the pages; its name begins with an underscore, so that the site leaves it out."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LISTED = re.compile(r"\.\. autosummary::\n(?:   :.*\n)*\n((?:   [\w.]+\n)+)")


def test_every_public_name_is_in_the_reference() -> None:
    pages = [page.read_text("utf-8") for page in sorted((DOCS / "reference").glob("*.md"))]
    listed = [name for text in pages for block in LISTED.findall(text) for name in block.split()]
    assert len(set(listed)) == len(listed)
    assert set(dir(discreet)) <= set(listed)
    for name in listed:
        module, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(f"discreet.{module}".rstrip(".")), last).__doc__, name


def test_every_mechanism_has_a_page_with_its_parts() -> None:
    folder = DOCS / "reference" / "mechanisms"
    overview = (folder / "index.md").read_text("utf-8")
    for name in (*MECHANISMS, "posterior-draws", "logistic"):
        text = (folder / f"{name}.md").read_text("utf-8")
        for part in ("**Guarantee.**", "**Use it**", "**Do not use it**", "```python", "../../../proofs/"):
            assert part in text, f"{name}: {part}"
        picture = DOCS / "images" / "mechanisms" / f"{name}.png"
        assert f"](../../images/mechanisms/{name}.png)" in text
        assert picture.stat().st_size < 60_000
        assert f"]({name}.md)" in overview
        assert len(text.splitlines()) <= 50, f"{name}: more than a screen"
    drawn = {f"{name}.png" for name in of_docs("_pictures").PICTURES}
    assert drawn == {path.name for path in (DOCS / "images" / "mechanisms").iterdir()}


def test_decision_tables_are_those_of_the_planner_in_part() -> None:
    decisions = of_docs("_decisions")
    page = "".join(path.read_text("utf-8") for path in decisions.PAGES)
    assert {name for _, name, _ in decisions.PART.findall(page)} == set(decisions.TABLES)
    assert decisions.meaning() in page
    assert decisions.widths((50,)).splitlines()[-1] in page


@pytest.mark.slow
def test_decision_tables_are_those_of_the_planner() -> None:
    decisions = of_docs("_decisions")
    for path in decisions.PAGES:
        assert decisions.filled(path.read_text("utf-8")) == path.read_text("utf-8")


SEEDED = [page for page in PAGES if "<!-- output of a seeded run -->" in page.read_text("utf-8")]


@pytest.mark.parametrize(
    "page", now_or_slow(SEEDED, lambda page: name_of(page) == "tutorials/survey.md"), ids=name_of
)
def test_the_output_of_a_page_is_that_of_a_seeded_run(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")
    text = page.read_text("utf-8")
    assert of_docs("_outputs").filled(text) == text, "run python docs/_outputs.py"


def test_the_gallery_shows_every_figure() -> None:
    folder = DOCS / "images" / "gallery"
    page = (DOCS / "tutorials" / "gallery.md").read_text("utf-8")
    shown = set(re.findall(r"images/gallery/([\w-]+\.svg)", page))
    assert shown == {path.name for path in folder.iterdir()}
    assert len(shown) >= 10
    assert sum(path.stat().st_size for path in folder.iterdir()) < 100_000


@pytest.mark.slow
def test_the_gallery_is_made_by_its_command(tmp_path: Path) -> None:
    gallery = of_docs("_gallery")
    gallery.FOLDER = tmp_path
    gallery.main()
    for path in (DOCS / "images" / "gallery").iterdir():
        assert (tmp_path / path.name).read_text("utf-8") == path.read_text("utf-8"), (
            "run python docs/_gallery.py"
        )


def test_the_drawing_of_the_house_is_that_of_its_imports() -> None:
    architecture = of_docs("_architecture")
    assert architecture.PICTURE.read_text("utf-8") == architecture.drawing(), (
        "run python docs/_architecture.py"
    )
    with pytest.raises(ValueError, match="a → b → a"):
        architecture.ranks({"a": {"b"}, "b": {"a"}})


def test_the_ways_name_what_is_there() -> None:
    page = (DOCS / "project" / "architecture.md").read_text("utf-8")
    packages = "|".join(of_docs("_architecture").packages())
    named = set(re.findall(rf"`((?:{packages})\.[\w.]+)`", page))
    assert len(named) > 30
    for name in named:
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            with contextlib.suppress(ModuleNotFoundError):
                found = importlib.import_module(".".join(["discreet", *parts[:cut]]))
                break
        for part in parts[cut:]:
            found = getattr(found, part)
