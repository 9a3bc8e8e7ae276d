"""What the commands share: exit codes, common options, reading standard input, writing files and tables."""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.errors import FileError, InvalidInput

OK, USAGE, DATA, FILE, CORRUPT, LOSS, REFUSED, LEDGER, INTERNAL = 0, 2, 3, 4, 5, 6, 7, 8, 70

EXIT_CODES = {
    OK: "done",
    USAGE: "wrong usage, or a parameter that cannot be used",
    DATA: "the data do not fit the declared levels",
    FILE: "a file cannot be read or written",
    CORRUPT: "a release or a ledger is corrupt or of an unknown version",
    LOSS: "the audit found a loss above the claim",
    REFUSED: "the ledger refused the charge: nothing was spent or released",
    LEDGER: "the ledger cannot be used: absent, locked, read-only, full or out of reach",
    INTERNAL: "internal error",
}

EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<3} {meaning}" for code, meaning in EXIT_CODES.items())


class Format(StrEnum):
    """What standard input holds."""

    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    JSON = "json"
    JSONL = "jsonl"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Interval = Annotated[float, typer.Option(help="Probability of the credible intervals.", metavar="P")]
Gamma = Annotated[float | None, typer.Option(help="Smoothness of ehds; 1 if not said.")]
Delta = Annotated[str | None, typer.Option(help="The delta of mbeta, such as 1e-6.")]
Calibration = Annotated[
    str | None, typer.Option(help="theorem, or exact: raise the rate of ehd, ehds or ehdl by enumeration.")
]
Prior = Annotated[str, typer.Option(help="Dirichlet prior, one number per level: 1,1,1.")]
Force = Annotated[bool, typer.Option("--force", help="Let new files replace old ones.")]
Records = Annotated[
    str, typer.Argument(help="A .csv, .tsv, .parquet, .json or .jsonl file; - is standard input.")
]
Size = Annotated[int | None, typer.Option("--n", help="Public number of records; checked against the data.")]
Piped = Annotated[Format | None, typer.Option(help="What standard input holds; csv if not said.")]
Dataset = Annotated[str | None, typer.Option(help="The dataset of the ledger that is charged.")]
RequestId = Annotated[
    str | None, typer.Option(help="Name of this request: a retry with it is not charged again.")
]
Out = Annotated[Path | None, typer.Option(help="Write the release to this new JSON file.")]
LedgerUrl = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        envvar="DISCREET_LEDGER",
        help="The ledger: sqlite:///ledger.db, a path, or postgresql://...",
    ),
]


def options(**given: Any) -> dict[str, Any]:
    """The options of a mechanism that were given; the mechanism refuses those that are not its own."""
    return {name: value for name, value in given.items() if value is not None}


def split(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if "" in parts:
        raise InvalidInput(f"{option} {text!r} has an empty entry; separate entries by single commas")
    return parts


def numbers(text: str, option: str) -> list[float]:
    parts = split(text, option)
    try:
        values = [float(part) for part in parts]
    except ValueError:
        raise InvalidInput(f"{option} {text!r} must be a number, or numbers separated by commas") from None
    if not values:
        raise InvalidInput(f"{option} is empty; give a number, such as 1")
    return values


@contextmanager
def source(file: str, format: Format | None, pattern: bool = False) -> Iterator[Any]:
    """The data file; standard input becomes one that only this user can read, and that is gone afterwards."""
    if pattern:
        from discreet.data import Glob

        if file == "-" or format is not None:
            raise InvalidInput("--glob is for a pattern of file names, not for standard input")
        yield Glob(file)
        return
    if file != "-":
        if format is not None:
            raise InvalidInput("--format is for standard input (-); a file says what it is by its ending")
        yield file
        return
    if sys.stdin.isatty():
        raise InvalidInput("- means standard input, but nothing is piped into it")
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        path = Path(folder, f"stdin.{format or Format.CSV}")
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path


@contextmanager
def new_file(path: Path | None, force: bool, option: str) -> Iterator[Callable[[str | bytes], None]]:
    """Opened before any budget is spent, and in place only when everything in the block has gone well."""
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


def print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2))


def picture(axes: Any, path: Path) -> bytes:
    """What matplotlib draws, in the format that the ending names."""
    kinds = axes.figure.canvas.get_supported_filetypes()
    kind = path.suffix.lower().lstrip(".")
    if kind not in kinds:
        raise FileError(f"--plot {str(path)!r}: the ending is none of .{', .'.join(sorted(kinds))}")
    buffer = io.BytesIO()
    axes.figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        lines = [header, *rows] if len(header) > 2 else rows
        widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            typer.echo(printable("  ".join(cells).rstrip()))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for index, title in enumerate(header):
        table.add_column(title, justify="right" if index and len(header) > 2 else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)


def printable(text: str, keep: str = "") -> str:
    """Without the control characters by which a level in a stranger's release could drive the terminal."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
