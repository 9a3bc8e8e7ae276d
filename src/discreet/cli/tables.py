"""Tables and answers: framed and wrapped between words on a terminal, plain in a pipe; nothing is cut."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from discreet._text import printable as printable

if TYPE_CHECKING:
    from discreet.documents.answer import Answer


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], *, wrap: int = -1) -> None:
    """A table with names of columns; of two columns only the rows are printed in a pipe.

    On a terminal the cells of column ``wrap`` may take several lines; where the table is too wide all the
    same, each row becomes a block.
    """
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
    needed = sum(_needed(cells, index == wrapped) for index, cells in enumerate(columns))
    if needed + 3 * len(header) + 1 <= console.width:
        console.print(_framed(header, rows, wrapped))
        return
    for row in rows:
        console.print(_framed(["", ""], list(zip(header, row, strict=True)), 1))


def _needed(cells: Sequence[str], wrapped: bool) -> int:
    """The width of a column; one that may be wrapped breaks no word and does not become a ribbon."""
    from rich.cells import cell_len

    whole = max(cell_len(printable(cell)) for cell in cells)
    words = (word for cell in cells for word in printable(cell).split())
    return max(min(whole, 20), *map(cell_len, words), 0) if wrapped else whole


def _framed(header: Sequence[str], rows: Sequence[Sequence[str]], wrap: int) -> Any:
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
    """Paragraphs; on a terminal their lines end between words."""
    for paragraph in paragraphs:
        text = printable(paragraph, keep="\n")
        if not sys.stdout.isatty():
            typer.echo(text)
            continue
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(text, overflow="fold"))


def print_answers(result: Any, interval: float = 0.95) -> None:
    """An answer, or each of a document that has several, under its name."""
    for name, answer in answers_of(result).items():
        if name:
            print_text(name)
        print_answer(answer, interval)
        if name:
            typer.echo()


def answers_of(result: Any) -> Mapping[str, Answer]:
    """The answers of a document by name; an answer by itself has none."""
    from discreet.documents.answer import Answer

    return {"": result} if isinstance(result, Answer) else result.answers


def print_answer(answer: Answer, interval: float = 0.95) -> None:
    """An answer by what it says of itself."""
    if not sys.stdout.isatty():
        print_text(answer.summary(interval))
        return
    for kind, what in answer.told(interval):
        if kind == "table":
            print_text(*([what.caption] if what.caption else []))
            print_table(what.header, what.cells, wrap=0)
        else:
            print_text(*([""] if kind == "part" else []), what)
