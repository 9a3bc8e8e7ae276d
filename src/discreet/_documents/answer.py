"""The base of every kind of answer.

A kind of answer supplies its numbers with intervals (``_rows``), draws from its posterior (``draws``) and its
texts (``words``). Means, intervals, tables, plots and documents are computed from these, here and once, so
the terminal, the report, notebooks and the studio treat all kinds alike.
"""

from __future__ import annotations

import json
import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet._declarations import as_probability, in_present_words
from discreet._documents.base import checksum, format_of, read_versioned, write_document
from discreet._documents.parts import MAX_PRINTED_ROWS, NOISE_NOTE, Figure, Row, Table, Words, columns_of
from discreet._html import card, paragraph, table
from discreet._interop import bridge, inference_data
from discreet._json import fields_as_json
from discreet._registry import DOCUMENTS
from discreet._text import printable, wrap_lines
from discreet._typing import FloatArray
from discreet.errors import (
    CorruptReleaseError,
    DiscreetError,
    FileError,
    InvalidInputError,
    NotPrivateError,
    TooLargeError,
)
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.ledger import Receipt


@dataclass(frozen=True)
class Labels:
    """The labels and units of the columns of a schema."""

    names: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Mapping[str, Any]) -> Labels:
        """Return the labels of the columns that a schema, or its document, declares."""
        parts = {
            name: column if isinstance(column, Mapping) else getattr(column, "__dict__", {})
            for name, column in columns.items()
        }
        return cls(
            {name: str(column.get("label") or name) for name, column in parts.items()},
            {name: str(column["unit"]) for name, column in parts.items() if column.get("unit")},
        )

    def column(self, name: str) -> str:
        """Return the label of a column, with its unit; the name where there is none."""
        unit = self.units.get(name)
        return self.names.get(name, name) + (f" ({unit})" if unit else "")

    def prose(self, text: str) -> str:
        """Return a title or sentence in which columns have their labels; a formula keeps their names."""
        text = re.sub(r"\bC\(([^()]*)\)", r"\1", text)
        shown = {} if " ~ " in text else {name: self.column(name) for name in self.names}
        names = sorted((name for name, label in shown.items() if label != name), key=len, reverse=True)
        pattern = rf"(?<![\w-])({'|'.join(map(re.escape, names))})(?![\w-])"
        return re.sub(pattern, lambda match: shown[match[1]], text) if names else text

    def heading(self, text: str) -> str:
        """Return the heading of a table: the labels of columns, with dots between them."""
        return " · ".join(map(self.column, text.split(" · ")))

    def term(self, text: str) -> str:
        """Return a row's name with labels: of a column, a value of a category, or a product of these."""
        parts = []
        for part in text.split(" × "):
            column, colon, value = part.partition(": ")
            parts.append(f"{self.names[column]}: {value}" if colon and column in self.names else part)
        labelled = " × ".join(map(self.column, parts))
        return self.prose(text) if labelled == text else labelled

    def figure(self, figure: Figure) -> Figure:
        """Return a figure with its title and axis in the words of the schema."""
        return replace(figure, title=self.prose(figure.title), axis=self.column(figure.axis))

    def table(self, table: Table) -> Table:
        """Return a table with its caption and header in the words of the schema."""
        header = tuple(map(self.term, table.header))
        return replace(table, header=header, caption=self.prose(table.caption))


@contextmanager
def computing() -> Iterator[None]:
    """Turn floating-point failures on the numbers of a document into an error of this package."""
    try:
        yield
    except (ArithmeticError, ValueError, IndexError) as error:
        if isinstance(error, DiscreetError):
            raise
        raise TooLargeError("this release holds numbers too extreme to compute with") from None


@dataclass(frozen=True)
class Page:
    """The content of a page about an answer, the same for the report and the studio."""

    words: Words
    heading: str
    rows: tuple[Row, ...]
    columns: Mapping[str, Sequence[str]]
    """Additional columns of the table of rows, such as odds ratios."""
    screen: Table | None
    """The table as it is printed, unless other tables show its numbers."""
    tables: tuple[Table, ...]
    figure: Figure | None
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Charged:
    """The base of answers, for which a ledger may have a receipt."""

    receipt: Receipt | None = field(default=None, compare=False, repr=False)
    """The ledger's receipt, if the answer was charged. It is not part of the release, nor of its JSON."""

    def with_receipt(self, receipt: Receipt | None) -> Self:
        """Return the answer with its receipt; results that were computed already are kept.

        Parameters
        ----------
        receipt : Receipt or None
            The ledger's receipt for the charge.

        Returns
        -------
        Answer
        """
        charged = copy(self)
        object.__setattr__(charged, "receipt", receipt)
        return charged


class Estimates(ABC):
    """Numbers with intervals: the base of answers, and of estimates computed from several answers.

    A kind supplies ``_rows`` and :meth:`draws`; everything else is computed from them.
    """

    label: ClassVar[str] = "name"
    """The kind of a row: a value, a coefficient, a parameter."""
    variable: ClassVar[str] = "estimate"
    """The name of the numbers in ArviZ."""
    plot_kind: ClassVar[str] = "intervals"
    """Which function of :mod:`discreet.plots` draws it."""
    column_labels: ClassVar[Labels] = Labels()
    """The labels of the schema, which displays use. They are not part of the answer, nor of its JSON."""

    # What a kind says.

    @abstractmethod
    def _rows(self, level: float) -> list[Row]:
        """Compute the numbers with their intervals, in the order of ``names``."""

    def _rows_without_noise(self, level: float) -> list[Row]:
        """Compute rows that ignore the noise, for displays where it cannot be accounted for; may be empty."""
        return []

    def _figure(self, rows: Sequence[Row], level: float) -> Figure | None:
        """Return the figure that shows these rows."""
        return Figure(self.words().name, tuple(rows)) if rows else None

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

    def with_labels(self, columns: Mapping[str, Any]) -> Self:
        """Return the answer, displayed with the labels of the columns of a schema."""
        labelled = copy(self)
        object.__setattr__(labelled, "column_labels", Labels.of(columns))
        return labelled

    def _row_label(self, name: str) -> str:
        """Return the label of a row in displays: values as they are, columns by their labels."""
        is_value = any(column in self.column_labels.names for column in self.heading.split(" · "))
        return name if is_value else self.column_labels.term(self._in_words(name))

    def _in_words(self, name: str) -> str:
        """Return the name of a row in words, with the names of columns."""
        return name

    def _by_level(self, of: Callable[[float], list[Row]], level: float) -> list[Row]:
        """Compute rows once for each level, and keep them: print, plot and report need the same ones."""
        results = self.__dict__.setdefault(f"_kept{of.__name__}", {})
        if level not in results:
            with computing():
                results[level] = of(as_probability(level))
        return list(results[level])

    def rows(self, level: float = 0.95) -> list[Row]:
        """Return the numbers with their intervals, in the order of ``names``.

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
            If the noise cannot be accounted for.
        """
        return self._by_level(self._rows, level)

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
        """Sentences that explain these numbers."""
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
        """Return the figure of the answer, as data that plots and pages draw.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        Figure or None
            None where there is nothing to draw.
        """
        figure = self._figure(self.shown_rows(level), level)
        return None if figure is None else self.column_labels.figure(figure)

    def plot(self, ax: Any = None, *, level: float = 0.95) -> Any:
        """Draw the answer with matplotlib (the extra ``plots``).

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; by default a new figure.
        level : float
            The probability of the intervals.

        Returns
        -------
        matplotlib axes
        """
        return getattr(bridge("plots"), self.plot_kind)(self, ax, level=as_probability(level))

    # How it is printed.

    def shown_rows(self, level: float = 0.95) -> list[Row]:
        """Return the rows for displays; they ignore the noise where it cannot be accounted for.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        list of Row
        """
        try:
            rows = self.rows(level)
        except (NotPrivateError, TooLargeError):
            if not (rows := self._by_level(self._rows_without_noise, level)):
                raise
        return [replace(row, name=self._row_label(row.name)) for row in rows]

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
        """Return a table of the first rows, which says how many rows are left out."""
        shown = rows[:MAX_PRINTED_ROWS]
        columns = columns_of(shown, level) | self.more_columns(shown, level)
        body = zip((row.name for row in shown), *columns.values(), strict=True)
        more = len(rows) - len(shown)
        below = f"… and {more:,} more: to_frame(), or --json on the command line, shows all" if more else ""
        return Table((self.column_labels.heading(self.heading), *columns), tuple(body), below=below)

    def describe(self, level: float = 0.95) -> Iterator[tuple[str, Any]]:
        """Yield the parts of a page in order: ("table", Table), or ("strong", "note" or "text", sentence)."""
        yield "strong", self.column_labels.prose(self.words().headline)
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


class Answer(Charged, Estimates):
    """The base of all answers, which carry their guarantee and may be published.

    Subclasses are frozen dataclasses.

    A subclass names its ``format``, reads the content of its document (``from_content``), and describes
    itself. Another package registers its own with ``@DOCUMENTS.register``.
    """

    format: ClassVar[str]
    version: ClassVar[int] = 2
    """The version of the format: documents up to this version are read, later ones refused.

    In version 1, of discreet 0.1.0 and 0.2.0, guarantees do not list all their assumptions.
    """
    tables_hold_rows: ClassVar[bool] = False
    """Whether the further :meth:`tables`, if there are any, already show the numbers of the rows."""
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

    def page(self, level: float = 0.95) -> Page:
        """Return the content of a page about the answer.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        Page
        """
        rows, tables = self.shown_rows(level), self.tables()
        return Page(
            words=self.words(),
            heading=self.column_labels.heading(self.heading),
            rows=tuple(rows),
            columns=self.more_columns(rows, level),
            screen=None if tables and self.tables_hold_rows else self.screen(level),
            tables=tuple(map(self.column_labels.table, tables)),
            figure=self.figure(level),
            warnings=tuple(map(self.column_labels.prose, self.warnings)),
            notes=tuple(map(self.column_labels.prose, self.notes)),
        )

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
                raise ValueError(f"it has no part {min(set(written) - set(content))!r}")
            named, versions = getattr(read, "column", None), getattr(read, "versions", {})
            if not isinstance(named, str | None) or not isinstance(versions, dict):
                raise ValueError("column or versions is malformed")
            if "private" in written and content["private"] is not written["private"]:
                raise ValueError("its field 'private' contradicts its guarantee")
            read.check_parts()
            return (read.upgrade() if written_in == 1 else read).check_guarantee(complete=written_in == 1)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            reason = printable(str(error))[:300]
            raise CorruptReleaseError(f"a part of the release is missing or malformed: {reason}") from None

    def upgrade(self) -> Self:
        """Return an answer that was read from format version 1, with its guarantee as written today."""
        return self

    def check_guarantee(self, complete: bool = False) -> Self:
        """Return the answer if its guarantee claims no more than the document costs.

        Its basis and assumptions must also be those of the cost. With ``complete``, missing assumptions are
        added, so that a reader of an older document sees all of them.
        """
        if not self.guarantee.is_private:
            return self
        claimed = self.guarantee
        single = self.cost()
        cost = single.stated_for(claimed)
        stated = in_present_words(claimed.assumptions)
        lacking = [text for text in cost.assumptions if text not in stated]
        whole = replace(claimed, assumptions=(*claimed.assumptions, *lacking))
        if claimed.basis not in (single.basis, cost.basis):
            whole = replace(whole, basis=cost.basis)
        if whole != claimed and not complete:
            raise ValueError("its guarantee states a basis or assumptions that its parameters do not have")
        whole.check_covers(cost)
        return self if whole == claimed else replace(self, guarantee=whole)  # type: ignore[call-arg]

    def check_parts(self) -> None:
        """Refuse a document whose parts contradict each other."""
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
        with computing():
            shown = list(super().describe(level))
            if not self.shown_rows(level):
                shown += [("table", released) for released in self.tables()[:1]]
        yield from shown
        yield "text", f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}"
        yield from (("text", f"Assumed: {assumption}.") for assumption in self.guarantee.assumptions)

    def shown_table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the rows of displays as mappings; empty where nothing can be estimated."""
        return self._mappings(self.shown_rows(level))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {printable(self.words().name)}, {self.guarantee}>"


def load_answer(text: str) -> Any:
    """Read an answer of any kind from its JSON document."""
    kind = format_of(text)
    if kind not in DOCUMENTS:
        raise CorruptReleaseError(
            "this is not a release: its format is not one that this program knows; update discreet if it was "
            "written by a newer version"
        )
    return DOCUMENTS[kind].from_json(text)
