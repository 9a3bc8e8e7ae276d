"""The parts of an answer for readers: rows, tables, drawings and texts, and how numbers are written."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from discreet._html import card, paragraph, table
from discreet._text import align_columns
from discreet._version import __version__
from discreet.errors import InvalidInputError

MAX_PRINTED_ROWS, _MAX_VALUES_BESIDE = 40, 8
"""How many rows of an answer are printed at most, and how many values of a group side by side."""
_SD_PER_INTERVAL_WIDTH = 0.25
"""The standard deviation divided by the width of a 95 % interval, roughly."""
INTERVALS_NOTE = "The intervals account for sampling and for the noise of privacy."
"""What every answer with intervals says about them."""
NOISE_NOTE = "The column noise is the part of the variance that privacy adds."
"""What a reader needs to know beside a table with that column."""
VERSIONS = {"discreet": __version__, "python": platform.python_version(), "numpy": np.__version__}
"""The versions of the software that made an answer, for its document."""
FIRST = "0.1.0"
"""The last version of discreet that drew logistic coefficients with another sampler."""
LARGEST = 10**300
"""The largest count in a document, so that every count fits in a double."""


@dataclass(frozen=True)
class Row:
    """One number of an answer: its name, an estimate, and an interval where there is one.

    ``share`` says that the number is a proportion. ``count`` is the released count, where there is one.
    ``noise`` is the share of its variance that is due to the noise of privacy, where that is known. Rows of
    one ``name`` and several groups are drawn side by side.
    """

    name: str
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    share: bool = False
    count: int | None = None
    noise: float | None = None
    group: str = ""

    @classmethod
    def of(cls, name: str, share: Mapping[str, Any], group: str = "") -> Row:
        """Return the row of a share, from a mapping with its mean, sd, low and high."""
        mean, sd, low, high = (float(share[part]) for part in ("mean", "sd", "low", "high"))
        return cls(name, mean, sd, low, high, share=True, group=group)

    @property
    def label(self) -> str:
        """The name with the group, where there is one."""
        return f"{self.name} ({self.group})" if self.group else self.name

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers that the row has, by name."""
        counted = {} if self.count is None else {"count": self.count}
        noise = {} if self.noise is None else {"noise": self.noise}
        return {**counted, "mean": self.mean, "sd": self.sd, "low": self.low, "high": self.high, **noise}


def rows_of(
    names: Iterable[Any], *columns: Any, share: bool = False, count: Any = None, noise: Any = None
) -> list[Row]:
    """Return a row for each name, from columns of numbers: mean, standard deviation, low and high.

    Examples
    --------
    >>> [row.high for row in rows_of(("a", "b"), [1.0, 2.0], [0.5, 0.5], [0.0, 1.0], [2.0, 3.0])]
    [2.0, 3.0]
    """
    numbers = (np.ravel(column).tolist() for column in columns)
    rows = [Row(str(name), *row, share=share) for name, *row in zip(names, *numbers, strict=True)]  # type: ignore[misc]
    for name, more in (("count", count), ("noise", noise)):
        if more is not None:
            rows = [replace(row, **{name: value}) for row, value in zip(rows, more, strict=True)]
    return rows


def decimals(rows: Sequence[Row], factor: float = 1.0, least: int = 0, most: int = 12) -> int:
    """Return the number of decimals that shows two significant digits of the narrowest interval's width.

    The width is multiplied by ``factor`` first; the result is between ``least`` and ``most``.
    """
    widths = [row.high - row.low for row in rows if row.high is not None and row.low is not None]
    width = factor * min((width for width in widths if width > 0), default=1e-6)
    return min(most, max(least, math.ceil(-math.log10(max(width, 1e-12))) + 1))


def written(*values: float | None, digits: int) -> str:
    """Return an estimate, or the ends of an interval, as the text of one cell."""
    shown = ("–" if value is None or math.isnan(value) else number_text(value, digits) for value in values)
    return " to ".join(shown)


def with_interval(middle: float, low: float, high: float) -> str:
    """Return a number and its interval as text, with two significant digits of the interval's width."""
    ends = [value for value in (low, middle, high) if math.isfinite(value)]
    ends = ends if len(ends) > 1 else [*ends, 0.0]
    digits = decimals([Row("", middle, None, min(ends), max(ends))])
    return f"{written(middle, digits=digits)} ({written(low, high, digits=digits)})"


def number_text(value: float, digits: int) -> str:
    """Return a number as text with ``digits`` decimals; a negative one has a minus sign, not a hyphen."""
    text = f"{value:.4g}" if abs(value) >= 1e9 or digits >= 12 else f"{value:,.{digits}f}"
    text = text.replace("inf", "∞")
    return text.replace("-", "−", 1) if text.startswith("-") else text


@dataclass(frozen=True)
class Series:
    """One density to draw, with the prior or the released draws for comparison."""

    name: str
    distribution: Any
    prior: Any = None
    draws: tuple[float, ...] = ()


@dataclass(frozen=True)
class Band:
    """A curve with its band: for each x the estimate and the ends of its interval."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def by_outcome(rows: Sequence[Row], groups: Sequence[Any]) -> tuple[Row, ...]:
    """Reorder rows from group by group to outcome by outcome, with the group in each row."""
    width = len(rows) // len(groups)
    return tuple(
        replace(row, name=row.name.removeprefix(f"{group} · "), group=str(group))
        for outcome in range(width)
        for group, row in zip(groups, rows[outcome::width], strict=True)
    )


@dataclass(frozen=True)
class Figure:
    """The content of a figure: a line for each row, a density for each series, a graph, or curves with bands.

    ``graph`` holds the layers of the graph: for each node its name and its parents in the layers above.
    """

    title: str
    rows: tuple[Row, ...]
    series: tuple[Series, ...] = ()
    graph: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()
    bands: tuple[Band, ...] = ()
    axis: str = ""

    def places(self) -> dict[str, tuple[float, int]]:
        """Return for each node its horizontal position, from 0 to 1, and the number of its layer."""
        places: dict[str, tuple[float, int]] = {}
        for depth, layer in enumerate(self.graph):
            ordered = sorted(layer, key=lambda node: [places[name][0] for name in node[1]] or [0.0])
            places |= {name: ((i + 0.5) / len(layer), depth) for i, (name, _) in enumerate(ordered)}
        return places

    def arrows(self) -> list[tuple[str, str]]:
        """Return the arrows as pairs of nodes, from parent to child."""
        return [(parent, name) for layer in self.graph for name, parents in layer for parent in parents]


@dataclass(frozen=True)
class Table:
    """A table of texts, with a caption and a line below it."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    caption: str = ""
    below: str = ""

    def __str__(self) -> str:
        above, below = ([text] if text else [] for text in (self.caption, self.below))
        return "\n".join([*above, *align_columns(self.header, self.cells), *below])

    def _repr_html_(self) -> str:
        return card(
            paragraph(self.caption, soft=True),
            table(self.header, self.cells),
            *([paragraph(self.below, soft=True)] if self.below else []),
        )


@dataclass(frozen=True)
class Words:
    """The texts of an answer for a reader.

    ``name`` is how the answer is cited, ``facts`` describe the question, the data and the method, ``notes``
    explain these figures, and ``reading`` explains figures of this kind in general.
    """

    headline: str
    name: str
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()


def groups_table(
    given: str,
    groups: Sequence[Any],
    values: Sequence[Any],
    rows: Sequence[Row],
    level: float,
    sizes: Sequence[str] | None = None,
) -> Table:
    """Return a table with a row for each group; ``rows`` has all values of a group, group after group.

    With two values it shows the share of the last; with three, all with intervals; with more, no intervals.
    """
    each, shown, wide = len(values), min(len(groups), MAX_PRINTED_ROWS), min(len(values), _MAX_VALUES_BESIDE)
    columns: dict[str, list[str]] = {} if sizes is None else {"n": list(sizes[:shown])}
    within = f"{100 * level:g} % interval"
    if each == 2:
        columns |= columns_of(rows[1 : 2 * shown : 2], level)
        caption = f"Share of {values[1]} within each {given}"
    else:
        for i, value in enumerate(values[:wide]):
            column = rows[i : each * shown : each]
            columns[str(value)] = [
                written(row.mean, digits=3)
                + (f" ({written(row.low, row.high, digits=3)})" if each < 4 else "")
                for row in column
            ]
        caption = f"Shares within each {given}" + (f", with {within}s" if each < 4 else "")
    left_out = [f"{len(groups) - shown:,} more groups"] if len(groups) > shown else []
    left_out += [f"{each - wide:,} more values"] if each > wide else []
    left_out += [f"the {within}s"] if each > 3 else []
    below = f"… to_frame() has {' and '.join(left_out)}" if left_out else ""
    body = zip(map(str, groups[:shown]), *columns.values(), strict=True)
    return Table((given, *columns), tuple(body), caption, below)


def beside(heading: str, rows: Sequence[Row], groups: Sequence[Any], caption: str) -> Table:
    """Return a table of estimates and intervals with a column for each group.

    ``rows`` holds all values of the first group, then all values of the second, and so on.
    """
    factor = 100 if all(row.share for row in rows) else 1
    digits = decimals(rows, factor, 1 if factor > 1 else 0)
    body: dict[str, list[str]] = {}
    for row in by_outcome(rows, groups):
        mean, low, high = (None if part is None else factor * part for part in (row.mean, row.low, row.high))
        text = f"{written(mean, digits=digits)} ({written(low, high, digits=digits)})"
        body.setdefault(row.name, []).append(text)
    cells = tuple((name, *texts) for name, texts in body.items())
    return Table((heading, *(str(group) or "estimate" for group in groups)), cells, caption)


def columns_of(rows: Sequence[Row], level: float) -> dict[str, list[str]]:
    """Return the columns of a printed table that at least one row has."""
    common = decimals(rows, least=3, most=6) if all(row.share for row in rows) else None
    digits = [decimals([row], _SD_PER_INTERVAL_WIDTH) if common is None else common for row in rows]
    both = list(zip(rows, digits, strict=True))
    columns = {"estimate": [written(row.mean, digits=d) for row, d in both]}
    if any(row.sd is not None for row in rows):
        columns["sd"] = [written(row.sd, digits=d) for row, d in both]
    if any(row.low is not None for row in rows):
        columns[f"{100 * level:g} % interval"] = [written(row.low, row.high, digits=d) for row, d in both]
    if any(row.noise is not None for row in rows):
        columns["noise"] = ["–" if row.noise is None else f"{100 * row.noise:.0f} %" for row in rows]
    return columns


def as_count(value: Any, name: str, low: int = 0, high: int = LARGEST) -> int:
    """Return a whole number of a document, or refuse a float, a text or a number out of bounds."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidInputError(f"{name} must be a whole number from {float(low):g} to {float(high):g}")
    return value
