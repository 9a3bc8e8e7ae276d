"""HTML for notebooks and reports: every text is escaped, nothing runs and nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# Translucent greys and inherited ink: right on a white page and on a black one.
_CARD = "border: 1px solid #8886; border-radius: 6px; padding: .7em 1em; max-width: 60em; line-height: 1.45"
_CELL = "padding: .25em .6em; border-bottom: 1px solid #8884; background: none"
_TABLE = (
    "border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .5em 0; "
    "color: inherit; font-size: inherit"
)


def paragraph(text: str, *, strong: bool = False, soft: bool = False) -> str:
    """A paragraph of plain text."""
    inside = f"<strong>{escape(text)}</strong>" if strong else escape(text)
    style = "margin: .3em 0" + ("; opacity: .75; font-size: .92em" if soft else "")
    return f'<p style="{style}">{inside}</p>'


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, styled: bool = True) -> str:
    """Plain texts under a header, numbers to the right; without ``styled`` the style sheet of the page
    applies."""
    head = _row('th scope="col"', header, styled)
    body = "".join(_row("td", row, styled) for row in rows)
    return f"<table{_style(_TABLE, styled)}><thead>{head}</thead><tbody>{body}</tbody></table>"


def facts(pairs: Iterable[tuple[str, str]], *, styled: bool = True) -> str:
    """A table of two columns, name and text, without a header."""
    body = "".join(
        "<tr>" + _cell('th scope="row"', name, "left", styled) + _cell("td", text, "left", styled) + "</tr>"
        for name, text in pairs
    )
    kind = "" if styled else ' class="facts"'
    return f"<table{kind}{_style(_TABLE, styled)}><tbody>{body}</tbody></table>"


def card(*parts: str) -> str:
    """A framed block for the output of a notebook cell, made of the parts above."""
    return f'<div style="{_CARD}">{"".join(parts)}</div>'


def _row(opening: str, texts: Sequence[str], styled: bool) -> str:
    cells = (_cell(opening, text, "right" if i else "left", styled) for i, text in enumerate(texts))
    return f"<tr>{''.join(cells)}</tr>"


def _cell(opening: str, text: str, align: str, styled: bool) -> str:
    return f"<{opening}{_style(f'{_CELL}; text-align: {align}', styled)}>{escape(text)}</{opening[:2]}>"


def _style(text: str, styled: bool) -> str:
    return f' style="{text}"' if styled else ""
