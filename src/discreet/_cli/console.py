"""What the commands share: exit codes, common options, reading standard input, writing files and tables."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from discreet._text import nearest, wrap_lines
from discreet._text import printable as printable
from discreet.errors import FileError, InvalidInputError

if TYPE_CHECKING:
    from discreet._documents.answer import Answer

OK, USAGE, DATA, FILE, CORRUPT, LOSS, REFUSED, LEDGER, INTERNAL = 0, 2, 3, 4, 5, 6, 7, 8, 70

EXIT_CODES = {
    OK: "done",
    USAGE: "wrong usage, or a parameter that cannot be used",
    DATA: "the data do not fit the schema",
    FILE: "a file cannot be read or written",
    CORRUPT: "a release or a ledger is corrupt or of an unknown version",
    LOSS: "the audit found a loss above the claim",
    REFUSED: "the ledger refused the charge: nothing was spent or released",
    LEDGER: "the ledger cannot be used: missing, locked, read-only, full, unreachable",
    INTERNAL: "internal error",
}

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<3} {meaning}" for code, meaning in EXIT_CODES.items())


def add_commands(app: typer.Typer, **commands: Callable[..., None]) -> None:
    """Add commands to a program by their names."""
    for name, command in commands.items():
        app.command(name, epilog=EPILOG)(command)


class CommandGroup(TyperGroup):
    """A group of commands whose help shows whole sentences."""

    def sentences(self, context: Any) -> list[tuple[str, str]]:
        """Return every command with its description."""
        commands = ((name, self.get_command(context, name)) for name in self.list_commands(context))
        return [(name, command.get_short_help_str(1000)) for name, command in commands if command is not None]

    def format_commands(self, context: Any, formatter: Any) -> None:
        """Write the commands with whole sentences, wrapped between words."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text.rstrip(".")) for name, text in self.sentences(context)])

    def resolve_command(self, context: Any, arguments: list[str]) -> Any:
        """Return the command of this name, or fail and suggest the nearest name."""
        name, commands = arguments[0], self.list_commands(context)
        if name not in commands and not name.startswith("-") and not context.resilient_parsing:
            raise InvalidInputError(
                f"{context.command_path} has no command {name!r}{nearest(name, commands)}"
            )
        return super().resolve_command(context, arguments)


class Format(StrEnum):
    """The format of the data on standard input."""

    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    JSON = "json"
    JSONL = "jsonl"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Level = Annotated[float, typer.Option(help="Probability of the credible intervals.", metavar="P")]
Delta = Annotated[str | None, typer.Option(help="The delta of (epsilon, delta), such as 1e-6.", metavar="D")]
MechanismOptions = Annotated[
    str, typer.Option(help="Options of the mechanism: calibration=exact; gamma=2.", metavar="'NAME=X; ...'")
]
Prior = Annotated[str, typer.Option(help="Dirichlet prior, one number per level: 1,1,1.", metavar="P")]
Force = Annotated[bool, typer.Option("--force", help="Let new files replace old ones.")]
Records = Annotated[
    str,
    typer.Argument(
        help="A .csv, .tsv, .parquet, .json, .jsonl or .xlsx file, or a table of a database, such as "
        "postgresql://user@host/base#table; - is standard input.",
        metavar="FILE",
    ),
]
Pattern = Annotated[
    bool, typer.Option("--glob", help="FILE is a pattern for several files, such as 'visits/*.csv'.")
]
Piped = Annotated[
    Format | None, typer.Option(help="Format of standard input; csv by default.", metavar="|".join(Format))
]
Dataset = Annotated[str | None, typer.Option(help="The dataset in the ledger to charge.", metavar="NAME")]
RequestId = Annotated[
    str | None, typer.Option(help="Name of this request: a retry with it is not charged again.", metavar="ID")
]
LargeDelta = Annotated[
    bool,
    typer.Option(
        "--acknowledge-large-delta", help="Allow a delta of 1/n or more, which may reveal a record."
    ),
]
Out = Annotated[Path | None, typer.Option(help="Write the release to this new JSON file.", metavar="FILE")]
LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DISCREET_LEDGER",
        metavar="URL",
        help="The ledger: sqlite:///ledger.db, a path, or postgresql://...",
    ),
]


@contextmanager
def source(file: str, format: Format | None, pattern: bool = False) -> Iterator[Any]:
    """Yield the data file; standard input is copied to a file that only this user can read, then removed."""
    if pattern:
        from discreet._data import Glob

        if file == "-" or format is not None:
            raise InvalidInputError("--glob is for a pattern of file names, not for standard input")
        yield Glob(file)
        return
    if file != "-":
        if format is not None:
            raise InvalidInputError(
                "--format is for standard input (-); the format of a file follows from its extension"
            )
        yield file
        return
    if sys.stdin.isatty():
        raise InvalidInputError("- means standard input, but nothing is piped into it")
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        path = Path(folder, f"stdin.{format or Format.CSV}")
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path


@contextmanager
def new_file(path: Path | None, force: bool, option: str) -> Iterator[Callable[[str | bytes], None]]:
    """Open a file before any budget is spent, and put it in place only if the block succeeds."""
    if path is None:
        yield lambda content: None
        return
    if path.is_dir():
        raise FileError(f"{option} {str(path)!r} is a folder; give the name of a new file")
    if path.exists() and not force:
        raise FileError(f"{option} {str(path)!r} exists already; choose another name or add --force")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    held: list[str | bytes] = []
    try:
        with file_problems(option, path, "written"):
            draft.touch(exist_ok=False)
        yield held.append
        with file_problems(option, path, "written"):
            with draft.open("wb") as file:
                file.writelines(part if isinstance(part, bytes) else part.encode() for part in held)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def file_problems(name: str, path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{name} {str(path)!r} cannot be {verb}: {error.strerror}") from None


def note(text: str) -> None:
    """Print a remark on standard error, wrapped between words at a terminal."""
    shown = printable(text)
    typer.echo("\n".join(wrap_lines(shown)) if sys.stderr.isatty() else shown, err=True)


def print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2))


def print_found(document: dict[str, Any], as_json: bool, *paragraphs: str) -> None:
    """Print one JSON document, or the same content as text."""
    if as_json:
        print_json(document)
    else:
        print_text(*paragraphs)


def picture(axes: Any, path: Path) -> bytes:
    """Return a matplotlib figure as bytes, in the format of the file's ending."""
    kinds = axes.figure.canvas.get_supported_filetypes()
    kind = path.suffix.lower().lstrip(".")
    if kind not in kinds:
        raise FileError(f"--plot {str(path)!r}: its extension must be one of .{', .'.join(sorted(kinds))}")
    buffer = io.BytesIO()
    axes.figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, wrap: int = -1) -> None:
    """Print a table with a header; in a pipe, a table of two columns is printed without its header."""
    if not sys.stdout.isatty():
        lines = [header, *rows] if len(header) > 2 else rows
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            typer.echo(printable("  ".join(cells).rstrip()))
        return
    from rich.console import Console

    console = Console()
    wrapped = range(len(header))[wrap]
    columns = zip(header, *rows, strict=True)
    needed = sum(_column_width(cells, index == wrapped) for index, cells in enumerate(columns))
    if needed + 3 * len(header) + 1 <= console.width:
        console.print(_frame(header, rows, wrapped))
        return
    for row in rows:
        console.print(_frame(["", ""], list(zip(header, row, strict=True)), 1))


def _column_width(cells: Sequence[str], wrapped: bool) -> int:
    """Return the width of a column; one that may be wrapped breaks no word and stays wide enough to read."""
    from rich.cells import cell_len

    whole = max(cell_len(printable(cell)) for cell in cells)
    words = (word for cell in cells for word in printable(cell).split())
    return max(min(whole, 20), *map(cell_len, words), 0) if wrapped else whole


def _frame(header: Sequence[str], rows: Sequence[Sequence[str]], wrap: int) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_header=any(header))
    for index, title in enumerate(header):
        left = index in (0, wrap) or len(header) == 2
        table.add_column(
            Text(printable(title)),
            justify="left" if left else "right",
            overflow="fold",
            no_wrap=index != wrap,
        )
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def print_text(*paragraphs: str) -> None:
    """Print paragraphs, wrapped between words at a terminal."""
    for paragraph in paragraphs:
        text = printable(paragraph, keep="\n")
        if not sys.stdout.isatty():
            typer.echo(text)
            continue
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(text, overflow="fold"))


def print_answers(result: Any, level: float = 0.95) -> None:
    """Print an answer, or each answer of a study under its name."""
    for name, answer in answers_of(result).items():
        if name:
            print_text(name)
        print_answer(answer, level)
        if name:
            typer.echo()


def answers_of(result: Any) -> Mapping[str, Answer]:
    """Return the answers of a document by name; a single answer has the name ""."""
    from discreet._documents.answer import Answer

    return {"": result} if isinstance(result, Answer) else result.answers


def print_answer(answer: Answer, level: float = 0.95) -> None:
    """Print an answer as it describes itself."""
    if not sys.stdout.isatty():
        print_text(answer.summary(level))
        return
    for kind, what in answer.describe(level):
        if kind == "table":
            print_text(*([what.caption] if what.caption else []))
            print_table(what.header, what.cells, wrap=0)
            print_text(*([what.below] if what.below else []))
        else:
            print_text(what)
