"""The base of every kind of answer.

A kind of answer supplies its numbers with intervals (``rows``), draws from its posterior (``draws``) and its
texts (``words``). Means, intervals, tables, plots and documents are computed from these, here and once, so
the terminal, the report, notebooks and the studio treat all kinds alike.
"""

from __future__ import annotations

import json
import math
import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from discreet._declarations import as_probability
from discreet._documents.base import checksum, format_of, read_versioned, write_document
from discreet._html import card, paragraph, table
from discreet._interop import bridge, inference_data
from discreet._json import fields_as_json
from discreet._registry import DOCUMENTS
from discreet._text import align_columns, printable, wrap_lines
from discreet._typing import FloatArray
from discreet._version import __version__
from discreet.errors import CorruptReleaseError, DiscreetError, FileError, InvalidInputError, TooLargeError
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.ledger import Receipt

T = TypeVar("T")
MAX_PRINTED_ROWS, _MAX_VALUES_BESIDE = 40, 8
"""How many rows of an answer are printed at most, and how many values of a group side by side."""
_SD_PER_INTERVAL_WIDTH = 0.25
"""About one standard deviation, as a part of the width of an interval."""
INTERVALS_NOTE = "The intervals account for sampling and for the noise of privacy."
"""What every answer with intervals says about them."""
NOISE_NOTE = "The column noise is the part of the variance that privacy adds."
"""What a reader needs to know beside a table with that column."""
VERSIONS = {"discreet": __version__, "python": platform.python_version(), "numpy": np.__version__}
"""The versions of the software that made an answer, for its document."""
FIRST = "0.1.0"
"""The version of discreet that had other samplers of logistic regression."""
LARGEST = 10**300
"""No count of a document is larger: it has a float."""


@dataclass(frozen=True)
class Row:
    """One number of an answer: its name, an estimate, and an interval where there is one.

    ``share`` says that the number is a proportion. ``count`` is the released count, where there is one.
    ``noise`` is the share of its variance that is due to the noise of privacy, where that is known. Rows of
    one ``name`` and several groups stand together in a drawing.
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
        """Return the numbers of the row, without those that it lacks."""
        counted = {} if self.count is None else {"count": self.count}
        noise = {} if self.noise is None else {"noise": self.noise}
        return {**counted, "mean": self.mean, "sd": self.sd, "low": self.low, "high": self.high, **noise}


def rows_of(
    names: Iterable[Any], *columns: Any, share: bool = False, count: Any = None, noise: Any = None
) -> list[Row]:
    """Return a row for each name, of columns of numbers: mean, sd, low and high.

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
    """Return the decimals that show two digits of the narrowest interval, multiplied by ``factor``."""
    widths = [row.high - row.low for row in rows if row.high is not None and row.low is not None]
    width = factor * min((width for width in widths if width > 0), default=1e-6)
    return min(most, max(least, math.ceil(-math.log10(max(width, 1e-12))) + 1))


def written(*values: float | None, digits: int) -> str:
    """Return an estimate, or the ends of an interval, as the text of one cell."""
    shown = ("–" if value is None or math.isnan(value) else number_text(value, digits) for value in values)
    return " to ".join(shown)


def with_interval(middle: float, low: float, high: float) -> str:
    """Return a number and its interval as text, with two digits of the width between its finite ends."""
    ends = [value for value in (low, middle, high) if math.isfinite(value)]
    ends = ends if len(ends) > 1 else [*ends, 0.0]
    digits = decimals([Row("", middle, None, min(ends), max(ends))])
    return f"{written(middle, digits=digits)} ({written(low, high, digits=digits)})"


def number_text(value: float, digits: int) -> str:
    """Return a number with these decimals and, where it is negative, a minus sign instead of a hyphen."""
    text = f"{value:.4g}" if abs(value) >= 1e9 or digits >= 12 else f"{value:,.{digits}f}"
    text = text.replace("inf", "∞")
    return text.replace("-", "−", 1) if text.startswith("-") else text


@dataclass(frozen=True)
class Series:
    """One density to draw, and beside it the plug-in density, the prior, or draws."""

    name: str
    law: Any
    plug_in: Any = None
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
    """Return rows of group after group as rows of outcome after outcome, each with its group."""
    width = len(rows) // len(groups)
    return tuple(
        replace(row, name=row.name.removeprefix(f"{group} · "), group=str(group))
        for outcome in range(width)
        for group, row in zip(groups, rows[outcome::width], strict=True)
    )


@dataclass(frozen=True)
class Figure:
    """What to draw: a line for each row, a density for each series, a graph, or curves with bands.

    ``graph`` holds the layers of the graph: for each node its name and its parents in the layers above.
    """

    title: str
    rows: tuple[Row, ...]
    series: tuple[Series, ...] = ()
    graph: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()
    bands: tuple[Band, ...] = ()
    axis: str = ""

    def places(self) -> dict[str, tuple[float, int]]:
        """Return the position of each node: across, from 0 to 1, and the number of its layer."""
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

    Of two values it shows the share of the last; of three, all shares with intervals; of more, the estimates.
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
    """Return rows of group after group as a table with a column for each group: estimate and interval."""
    factor = 100 if all(row.share for row in rows) else 1
    digits = decimals(rows, factor, 1 if factor > 1 else 0)
    body: dict[str, list[str]] = {}
    for row in by_outcome(rows, groups):
        mean, low, high = (None if part is None else factor * part for part in (row.mean, row.low, row.high))
        text = f"{written(mean, digits=digits)} ({written(low, high, digits=digits)})"
        body.setdefault(row.name, []).append(text)
    cells = tuple((name, *texts) for name, texts in body.items())
    return Table((heading, *(str(group) or "estimate" for group in groups)), cells, caption)


@dataclass(frozen=True, kw_only=True)
class Charged:
    """The base of what a ledger may have charged for."""

    receipt: Receipt | None = field(default=None, compare=False, repr=False)
    """The ledger's receipt, if the answer was charged. It is not part of the release, nor of its JSON."""


def cache_by_level(method: Callable[[Any, float], Sequence[T]]) -> Callable[..., list[T]]:
    """Cache what a method returns for each level, because print, plot and report ask again."""

    @wraps(method)
    def by_level(self: Any, level: float = 0.95) -> list[T]:
        results = self.__dict__.setdefault(f"_kept_{method.__name__}", {})
        asked = as_probability(level)
        if asked not in results:
            results[asked] = method(self, asked)
        return list(results[asked])

    return by_level


class Estimates(ABC):
    """Numbers with intervals: the base of answers, and of what is computed from several answers.

    A kind supplies :meth:`rows` and :meth:`draws`; everything else is computed from them.
    """

    label: ClassVar[str] = "name"
    """The kind of a row: a value, a coefficient, a parameter."""
    variable: ClassVar[str] = "estimate"
    """The name of the numbers in ArviZ."""
    plot_kind: ClassVar[str] = "intervals"
    """Which function of :mod:`discreet.plots` draws it."""

    # What a kind says.

    @abstractmethod
    def rows(self, level: float = 0.95) -> list[Row]:
        """Compute the numbers with their intervals, in the order of ``names``.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        list of Row

        Raises
        ------
        TooLargeError, NotPrivateError
            Where there is no account of the noise.
        """

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw from the posterior of the numbers; this costs no privacy.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        array of shape (size, len(names))

        Raises
        ------
        InvalidInputError
            If this kind of answer has no draws.
        """
        raise InvalidInputError(f"a {type(self).__name__} has no draws: use its estimates and intervals")

    @abstractmethod
    def words(self) -> Words:
        """Return the texts for a reader."""

    @property
    def axes_of_names(self) -> Mapping[str, Sequence[Any]]:
        """The columns that name a row, with their values: one, or several for tables and groups."""
        return {self.heading: self.names}

    # What follows from it.

    @property
    def names(self) -> tuple[Any, ...]:
        """The names of the numbers: values, cells, groups or coefficients."""
        return tuple(row.name for row in self.rows())

    @property
    def heading(self) -> str:
        """The heading of the column of names in a table."""
        return self.label

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons to doubt the intervals, as far as released values show them."""
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that explain these figures."""
        return self.words().notes

    def mean(self) -> FloatArray:
        """Return the posterior means, in the order of ``names``: the noise of privacy is accounted for."""
        return np.array([row.mean for row in self.rows()])

    def std(self) -> FloatArray:
        """Return the posterior standard deviations, in the order of ``names``; NaN where none is known."""
        return np.array([math.nan if row.sd is None else row.sd for row in self.rows()])

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return equal-tailed credible intervals, which account for sampling and for the noise of privacy.

        Parameters
        ----------
        level : float
            The probability of each interval.

        Returns
        -------
        lower, upper : arrays
            In the order of ``names``; NaN where none is known.
        """
        rows = self.rows(level)
        lower, upper = ([getattr(row, end) for row in rows] for end in ("low", "high"))
        return np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return a mapping for each number: its name, ``mean``, ``sd``, ``low``, ``high`` and ``noise``.

        Parameters
        ----------
        level : float
            The probability of the intervals ``low`` to ``high``.

        Returns
        -------
        list of dict
        """
        return self._mappings(self.rows(level))

    def _mappings(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        keys = tuple(self.axes_of_names)
        names = [(name,) for name in self.names] if len(keys) == 1 else self.names
        return [
            {**dict(zip(keys, name, strict=True)), **row.to_dict()}
            for name, row in zip(names, rows, strict=bool(rows))
        ]

    def to_frame(self, level: float = 0.95) -> Any:
        """Return the table as a pandas data frame.

        Parameters
        ----------
        level : float
            The probability of the intervals ``low`` to ``high``.

        Returns
        -------
        pandas.DataFrame
        """
        import pandas

        return pandas.DataFrame(self.table(level))

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Return draws from the posterior as ArviZ inference data (needs the extra ``arviz``).

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        arviz.InferenceData
        """
        axes = self.axes_of_names
        drawn = self.draws(size, seed).reshape(1, size, *map(len, axes.values()))
        return inference_data({self.variable: drawn}, self._attributes(), axes)

    def _attributes(self) -> dict[str, Any]:
        """Return the attributes of the inference data."""
        return {}

    def figure(self, level: float = 0.95) -> Figure | None:
        """Return what to draw.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        Figure or None
            None where there is nothing to draw.
        """
        rows = self.shown_rows(level)
        return Figure(self.words().name, tuple(rows)) if rows else None

    def plot(self, ax: Any = None, *, level: float = 0.95) -> Any:
        """Draw the answer with matplotlib (the extra ``plots``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; a new figure without.
        level : float
            The probability of the intervals.

        Returns
        -------
        matplotlib axes
        """
        return getattr(bridge("plots"), self.plot_kind)(self, ax, level=as_probability(level))

    # How it is printed.

    def shown_rows(self, level: float = 0.95) -> list[Row]:
        """Return the rows for displays, which show less where the noise cannot be accounted for.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        list of Row
        """
        return self.rows(level)

    def more_columns(self, rows: Sequence[Row], level: float) -> dict[str, list[str]]:
        """Return further columns of the printed table, such as odds ratios."""
        return {}

    def screen(self, level: float = 0.95) -> Table | None:
        """Return the printed table: estimate, standard deviation, interval and the share of noise.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        Table or None
        """
        rows = self.shown_rows(level)
        return self.screen_of(rows, level) if rows else None

    def screen_of(self, rows: Sequence[Row], level: float) -> Table:
        """Return the table of the first of these rows, with the number of the rows that are left out."""
        shown = rows[:MAX_PRINTED_ROWS]
        columns = columns_of(shown, level) | self.more_columns(shown, level)
        body = zip((row.name for row in shown), *columns.values(), strict=True)
        more = len(rows) - len(shown)
        below = f"… and {more:,} more: to_frame(), or --json on the command line, has all" if more else ""
        return Table((self.heading, *columns), tuple(body), below=below)

    def describe(self, level: float = 0.95) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a page in order: ("table", Table), or ("strong", "note" or "text", sentence)."""
        yield "strong", self.words().headline
        yield from (("strong", f"Warning: {text}") for text in self.warnings)
        if (table := self.screen(level)) is not None:
            yield "table", table
            if "noise" in table.header:
                yield "note", NOISE_NOTE
        yield from (("note", note) for note in self.notes)

    def summary(self, level: float = 0.95) -> str:
        """Return the answer for a reader, as plain text: one table, and what to know about it.

        Parameters
        ----------
        level : float
            The probability of the intervals.
        """
        lines: list[str] = []
        before = ""
        for kind, what in self.describe(level):
            if kind == "table" or before == "table":
                lines.append("")
            lines += [str(what)] if kind == "table" else wrap_lines(printable(what))
            before = kind
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(self.words().name)}>"

    def _repr_html_(self) -> str:
        return card(
            *(
                table(what.header, what.cells) + (paragraph(what.below, soft=True) if what.below else "")
                if kind == "table"
                else paragraph(what, strong=kind == "strong", soft=kind == "note")
                for kind, what in self.describe()
            )
        )


def columns_of(rows: Sequence[Row], level: float) -> dict[str, list[str]]:
    """Return the columns of a printed table, without those that no row has."""
    common = decimals(rows, least=3, most=6) if all(row.share for row in rows) else None
    digits = [decimals([row], _SD_PER_INTERVAL_WIDTH) if common is None else common for row in rows]
    both = list(zip(rows, digits, strict=True))
    columns = {"estimate": [written(row.mean, digits=d) for row, d in both]}
    if any(row.sd is not None for row in rows):
        columns["sd"] = [written(row.sd, digits=d) for row, d in both]
    if any(row.low is not None for row in rows):
        columns[f"{100 * level:g} % interval"] = [written(row.low, row.high, digits=d) for row, d in both]
    if any(row.noise is not None for row in rows):
        columns["noise"] = ["–" if row.noise is None else f"{row.noise:.0%}" for row in rows]
    return columns


class Answer(Charged, Estimates):
    """The base of what may be published, with its guarantee; subclasses are frozen dataclasses.

    A subclass names its ``format``, reads the content of its document (``from_content``), and describes
    itself. Another package registers its own with ``@DOCUMENTS.register``.
    """

    format: ClassVar[str]
    version: ClassVar[int] = 2
    """The version of the format: documents up to this version are read, later ones refused.

    In version 1, of discreet 0.1.0 and 0.2.0, guarantees list less than they assume.
    """
    omit_if_none: ClassVar[tuple[str, ...]] = ()
    """Fields that a document leaves out where they are None."""

    guarantee: Guarantee

    # What a kind of answer says.

    def content(self) -> dict[str, Any]:
        """Return the fields as JSON values, from which :meth:`from_content` makes the same answer."""
        left_out = (name for name in self.omit_if_none if getattr(self, name) is None)
        return fields_as_json(self, "receipt", *left_out)

    @classmethod
    @abstractmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the answer from the content of its document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        Answer

        Raises
        ------
        KeyError, TypeError, ValueError
            If the content is malformed.
        """

    @abstractmethod
    def cost(self) -> Guarantee:
        """Compute what everything in the document costs, from the parameters that the document publishes.

        Noise, sensitivities and sizes decide the cost, never the claimed guarantee: a document that claims a
        stronger guarantee than its cost is refused when it is read.

        Returns
        -------
        Guarantee

        Raises
        ------
        ValueError
            If the parameters are impossible, or their cost is not known.
        """

    @property
    def tables_hold_rows(self) -> bool:
        """Whether :meth:`tables` show the numbers of the rows, so that a report need not repeat them."""
        return False

    def tables(self) -> tuple[Table, ...]:
        """Return further tables for the report."""
        return ()

    def likelihood(self) -> Any:
        """Return the likelihood log P(published | parameters), for a model of your own.

        Returns
        -------
        Likelihood
            With ``log_prob``, its gradient, and draws of the true counts.

        Raises
        ------
        InvalidInputError
            If this kind of answer has no likelihood.
        """
        raise InvalidInputError(
            f"a {type(self).__name__} has no likelihood of its own; proportions, the mean of a group and "
            "regressions have one, and draws() are from the posterior given what was published"
        )

    # What follows from it.

    @property
    def is_private(self) -> bool:
        return self.guarantee.is_private

    def document(self) -> dict[str, Any]:
        """Return the document as a mapping: format, version, checksum and content."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def checksum(self) -> str:
        return checksum(json.loads(json.dumps(self.content())))

    def to_json(self) -> str:
        """Return the answer as a JSON document with a checksum; :meth:`from_json` reads it."""
        return write_document(self.format, self.version, self.content())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a document that :meth:`to_json` wrote.

        Parameters
        ----------
        text : str
            The JSON document.

        Returns
        -------
        Answer

        Raises
        ------
        CorruptReleaseError
            If the document is edited, malformed, or newer than this version of discreet.
        """
        written_in, content = read_versioned(text, cls.format, cls.version)
        try:
            read = cls.from_content(content)
            written = read.content()
            if unknown := set(content) - set(written):
                raise ValueError(f"it has an unexpected part {min(unknown)[:60]!r}")
            if written_in > 1 and set(written) != set(content):
                raise ValueError(f"it lacks {min(set(written) - set(content))!r}")
            named, versions = getattr(read, "column", None), getattr(read, "versions", {})
            if not isinstance(named, str | None) or not isinstance(versions, dict):
                raise ValueError("column or versions is malformed")
            if "private" in written and content["private"] is not written["private"]:
                raise ValueError("its stamp contradicts its guarantee")
            read.check_parts()
            return (read.upgrade() if written_in == 1 else read).check_guarantee(complete=written_in == 1)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            reason = printable(str(error))[:300]
            raise CorruptReleaseError(f"a part of the release is missing or malformed: {reason}") from None

    def upgrade(self) -> Self:
        """Return an answer of format version 1 with its guarantee as it is written now."""
        return self

    def check_guarantee(self, complete: bool = False) -> Self:
        """Return the answer if its guarantee claims no more than the document costs.

        Its basis and assumptions must be those of the cost too. With ``complete``, missing assumptions are
        added, so that a reader of an older document sees all of them.
        """
        if not self.guarantee.is_private:
            return self
        claimed = self.guarantee
        single = self.cost()
        cost = single.stated_for(claimed)
        lacking = [text for text in cost.assumptions if text not in claimed.assumptions]
        whole = replace(claimed, assumptions=(*claimed.assumptions, *lacking))
        if claimed.basis not in (single.basis, cost.basis):
            whole = replace(whole, basis=cost.basis)
        if whole != claimed and not complete:
            raise ValueError("its guarantee states a basis or assumptions that its parameters do not have")
        whole.check_covers(cost)
        return self if whole == claimed else replace(self, guarantee=whole)  # type: ignore[call-arg]

    def check_parts(self) -> None:
        """Refuse a document whose parts, each well formed, do not belong together."""
        self.words()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the JSON document to a file; :func:`discreet.load` reads it.

        Parameters
        ----------
        path : path
            A file of this name is replaced.
        """
        try:
            Path(path).write_text(self.to_json(), encoding="utf-8")
        except (OSError, TypeError) as error:
            raise FileError(f"path={path!r} cannot be written: {getattr(error, 'strerror', error)}") from None

    def _attributes(self) -> dict[str, Any]:
        return {"guarantee": str(self.guarantee) if self.is_private else "none: not private"}

    def describe(self, level: float = 0.95) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a page; where nothing can be estimated, the table shows the released numbers."""
        try:
            shown = list(super().describe(level))
            if not self.shown_rows(level):
                shown += [("table", released) for released in self.tables()[:1]]
        except (ArithmeticError, ValueError, IndexError) as error:
            if isinstance(error, DiscreetError):
                raise
            raise TooLargeError("this release holds numbers too extreme to compute with") from None
        yield from shown
        yield "text", f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}"
        yield from (("text", f"Assumed: {assumption}.") for assumption in self.guarantee.assumptions)

    def shown_table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the rows of displays as mappings; empty where nothing can be estimated."""
        return self._mappings(self.shown_rows(level))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(self.words().name)}, {self.guarantee}>"


def as_count(value: Any, name: str, low: int = 0, high: int = LARGEST) -> int:
    """Return a whole number of a document, or refuse a float, a text or a number out of bounds."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidInputError(f"{name} must be a whole number from {float(low):g} to {float(high):g}")
    return value


def load_answer(text: str) -> Any:
    """Read an answer of any kind from its JSON document."""
    kind = format_of(text)
    if kind not in DOCUMENTS:
        raise CorruptReleaseError(
            "this is not a release: its format is not one that this program knows; update discreet if it was "
            "written by a newer version"
        )
    return DOCUMENTS[kind].from_json(text)
