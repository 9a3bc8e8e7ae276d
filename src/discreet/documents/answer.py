"""What may be published: one base for every kind of answer.

An answer describes itself as plain data: ``rows()`` are its numbers with intervals, ``words()`` what a
reader is told, ``figure()`` what is to be drawn, ``document()`` what is stored. Terminal, report, notebook
and studio iterate over these and know no kinds.
"""

from __future__ import annotations

import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy

from discreet._html import card, paragraph, table
from discreet._interop import bridge
from discreet._json import fields_as_json
from discreet._registry import DOCUMENTS
from discreet._text import aligned, printable, wrapped
from discreet._version import __version__
from discreet.declarations import as_float
from discreet.documents.base import checksum, format_of, read_versioned, write_document
from discreet.errors import CorruptReleaseError, DiscreetError, InvalidInput, TooLargeError
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.ledger import Receipt

VERSIONS = {"discreet": __version__, "python": platform.python_version(), "numpy": numpy.__version__}
"""What makes an answer, for its document."""
FIRST = "0.1.0"
"""The version of discreet that had other samplers of logistic regression."""
LARGEST = 10**300
"""No count of a document is larger: it has a float."""


@dataclass(frozen=True)
class Row:
    """One number that the answer is about: its name, an estimate, and an interval where there is one.

    ``share``: the number is a proportion. ``count`` and ``plug_in`` (mean, low, high) belong to released
    counts: what was released, and what would follow if that were exact.
    """

    name: str
    mean: float
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    share: bool = False
    count: int | None = None
    plug_in: tuple[float, float, float] | None = None

    @classmethod
    def of(cls, name: str, share: Mapping[str, Any]) -> Row:
        """The row of a share, from a mapping with its mean, sd, low and high."""
        mean, sd, low, high = (float(share[part]) for part in ("mean", "sd", "low", "high"))
        return cls(name, mean, sd, low, high, share=True)

    def to_dict(self, label: str = "name") -> dict[str, Any]:
        """The row as a mapping, without what it does not have."""
        found: dict[str, Any] = {label: self.name}
        if self.count is not None:
            found["count"] = self.count
        found |= {"mean": self.mean, "sd": self.sd, "low": self.low, "high": self.high}
        if self.plug_in is not None:
            names = ("plug_in_mean", "plug_in_low", "plug_in_high")
            found |= dict(zip(names, self.plug_in, strict=True))
        return found

    def written(self, value: float | None) -> str:
        """A number of this row, as text."""
        if value is None:
            return "–"
        return f"{value:.4f}" if self.share else f"{value:.6g}"


@dataclass(frozen=True)
class Series:
    """One density to draw: the law of a number, and beside it the plug-in law, the prior, or draws."""

    name: str
    law: Any
    plug_in: Any = None
    prior: Any = None
    draws: tuple[float, ...] = ()


@dataclass(frozen=True)
class Figure:
    """What is to be drawn: a line for each row, a density for each series, and a graph, layer by layer.

    ``graph`` names the nodes of each layer, and for each the nodes above it to which it has an arrow.
    """

    title: str
    rows: tuple[Row, ...]
    series: tuple[Series, ...] = ()
    graph: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...] = ()

    def places(self) -> dict[str, tuple[float, int]]:
        """Where the nodes of the graph stand: across, from 0 to 1, and in which layer."""
        found: dict[str, tuple[float, int]] = {}
        for depth, layer in enumerate(self.graph):
            ordered = sorted(layer, key=lambda node: [found[name][0] for name in node[1]] or [0.0])
            found |= {name: ((i + 0.5) / len(layer), depth) for i, (name, _) in enumerate(ordered)}
        return found

    def arrows(self) -> list[tuple[str, str]]:
        """From which node to which."""
        return [(one, name) for layer in self.graph for name, given in layer for one in given]


@dataclass(frozen=True)
class Table:
    """A table of texts beside the rows: draws, coefficients, cells."""

    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __str__(self) -> str:
        return "\n".join([*([self.caption] if self.caption else []), *aligned(self.header, self.cells)])

    def _repr_html_(self) -> str:
        return card(paragraph(self.caption, soft=True), table(self.header, self.cells))


@dataclass(frozen=True)
class Words:
    """What a reader is told.

    ``name`` is how the answer is cited, ``facts`` say what was asked of which data and how, ``notes`` how
    these figures are to be taken, ``reading`` explains such figures in general, ``warnings`` are reasons
    for doubt.
    """

    headline: str
    name: str
    facts: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of an answer with parts; ``otherwise`` is said where there is no answer."""

    heading: str
    answer: Answer | None
    otherwise: str = ""


@dataclass(frozen=True, kw_only=True)
class Charged:
    """Something that a ledger may have charged for."""

    receipt: Receipt | None = field(default=None, compare=False, repr=False)
    """What the ledger charged for it, where one did. Not a part of the release: the JSON does not hold it."""


class Answer(Charged, ABC):
    """Something that may be published, with its guarantee; subclasses are frozen dataclasses.

    A subclass names its ``format``, reads what its document contains (``from_content``), and describes
    itself. Another package's is registered by ``@DOCUMENTS.register``.
    """

    format: ClassVar[str]
    version: ClassVar[int] = 2
    """Of the format: documents up to this version are read, later ones refused.

    In version 1, of discreet 0.1.0 and 0.2.0, guarantees list less than they assume.
    """
    label: ClassVar[str] = "name"
    """What the rows are: levels, parameters."""
    drawer: ClassVar[str] = "intervals"
    """Which function of :mod:`discreet.plots` draws it."""

    if_any: ClassVar[tuple[str, ...]] = ()
    """Fields that a document leaves out where they are None."""

    guarantee: Guarantee

    # What a kind of answer says.

    def content(self) -> dict[str, Any]:
        """JSON values from which :meth:`from_content` makes the same answer: its fields."""
        left_out = (name for name in self.if_any if getattr(self, name) is None)
        return fields_as_json(self, "receipt", *left_out)

    @classmethod
    @abstractmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """The answer of a document's content; KeyError, TypeError or ValueError where it is malformed."""

    @abstractmethod
    def cost(self) -> Guarantee:
        """Compute what everything in the document costs, from the parameters that the document publishes.

        Noise, sensitivities and sizes decide it, never the guarantee that the document claims: that is
        compared with it when the document is read, and refused where it says more. Parameters that cannot
        be, or whose cost is not known, are a ValueError.
        """

    @abstractmethod
    def rows(self, interval: float = 0.95) -> list[Row]:
        """The numbers of the answer; empty where there are none, or none that can be computed quickly."""

    @abstractmethod
    def words(self) -> Words:
        """What a reader is told."""

    def figure(self, interval: float = 0.95) -> Figure | None:
        """What is to be drawn; None where there is nothing."""
        rows = self.rows(interval)
        return Figure(self.words().name, tuple(rows)) if rows else None

    def tables(self) -> tuple[Table, ...]:
        """Further tables."""
        return ()

    def parts(self) -> tuple[Part, ...]:
        """The answers of which this one consists, where it does."""
        return ()

    # What follows from it.

    @property
    def is_private(self) -> bool:
        return self.guarantee.is_private

    @property
    def heading(self) -> str:
        """What its rows are, at the head of a table."""
        return self.label

    def document(self) -> dict[str, Any]:
        """The document as a mapping: format, version, checksum and content."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def checksum(self) -> str:
        return checksum(json.loads(json.dumps(self.content())))

    def to_json(self) -> str:
        """The answer as a JSON document with a checksum; :meth:`from_json` reads it back."""
        return write_document(self.format, self.version, self.content())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what :meth:`to_json` wrote; an edited, malformed or newer document is refused."""
        written_in, content = read_versioned(text, cls.format, cls.version)
        try:
            read = cls.from_content(content)
            written = read.content()
            if unknown := set(content) - set(written):
                raise ValueError(f"it has a part {min(unknown)[:60]!r} that it cannot have")
            if written_in > 1 and set(written) != set(content):
                raise ValueError(f"it lacks {min(set(written) - set(content))!r}")
            named, made = getattr(read, "column", None), getattr(read, "versions", {})
            if not isinstance(named, str | None) or not isinstance(made, dict):
                raise ValueError("column or versions is malformed")
            if "private" in written and content["private"] is not written["private"]:
                raise ValueError("it is stamped otherwise than its guarantee says")
            read.check_parts()
            return (read.upgraded() if written_in == 1 else read).covered(complete=written_in == 1)
        except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
            said = printable(str(error))[:300]
            raise CorruptReleaseError(f"the release lacks a part or has a malformed one: {said}") from None

    def upgraded(self) -> Self:
        """Return an answer of format version 1 with its guarantee as it is written now."""
        return self

    def covered(self, complete: bool = False) -> Self:
        """Return the answer if its guarantee says no more than what it publishes costs.

        Basis and assumptions must be those of the cost too. Where ``complete`` is true, what is lacking is
        added, so that no reader of an older document is told less than is assumed.
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
            raise ValueError("its guarantee rests on something else than it says")
        whole.check_covers(cost)
        return self if whole == claimed else replace(self, guarantee=whole)  # type: ignore[call-arg]

    def check_parts(self) -> None:
        """Refuses a document whose parts, each well formed, do not belong together."""
        self.words()
        self.parts()

    def table(self, interval: float = 0.95) -> list[dict[str, Any]]:
        """The rows as mappings, ready for a data frame."""
        return [row.to_dict(self.label) for row in self.rows(as_probability(interval))]

    def to_frame(self, interval: float = 0.95) -> Any:
        import pandas

        return pandas.DataFrame(self.table(interval))

    def plot(self, ax: Any = None, *, interval: float = 0.95) -> Any:
        """The answer as a picture, with the extra ``plots``; the axes of matplotlib are given back."""
        return getattr(bridge("plots"), self.drawer)(self, ax, interval=as_probability(interval))

    def told(self, interval: float = 0.95, *, guarantee: bool = True) -> Iterator[tuple[str, Any]]:
        """What a page shows, one after the other: a :class:`Table` as "table", else how a text is meant."""
        try:
            words, rows, tables, parts = self.words(), self.rows(interval), self.tables(), self.parts()
        except (ArithmeticError, ValueError, IndexError) as error:
            if isinstance(error, DiscreetError):
                raise
            raise TooLargeError("numbers of this release are too extreme to be computed with") from None
        yield "strong", words.headline
        if guarantee:
            yield "text", f"Guarantee: {self.guarantee}. {self.guarantee.meaning()}"
            yield from (("text", f"Assumed: {assumption}.") for assumption in self.guarantee.assumptions)
        yield from (("strong", f"Warning: {text}") for text in words.warnings)
        if rows:
            header, cells = self.cells(rows, interval)
            yield "table", Table(header, tuple(cells))
        yield from (("table", extra) for extra in tables)
        if rows or tables or parts:
            yield from (("note", note) for note in words.notes)
        for part in parts:
            yield "part", part.heading
            if part.answer is None:
                yield "text", part.otherwise
            else:
                yield from part.answer.told(interval, guarantee=False)

    def summary(self, interval: float = 0.95) -> str:
        """The answer for a reader, as plain text."""
        lines: list[str] = []
        before = ""
        for kind, what in self.told(as_probability(interval)):
            if kind in ("table", "part") or (kind == "note" != before):
                lines.append("")
            lines += [str(what)] if kind == "table" else wrapped(printable(what))
            before = kind
        return "\n".join(lines)

    def cells(self, rows: Sequence[Row], interval: float) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """Header and cells of the table of rows: only columns of which some row has something."""
        columns = [(self.heading, [row.name for row in rows])]
        if any(row.count is not None for row in rows):
            columns.append(("count", ["–" if row.count is None else str(row.count) for row in rows]))
        columns.append(("mean", [row.written(row.mean) for row in rows]))
        if any(row.low is not None for row in rows):
            ends = [f"{row.written(row.low)} – {row.written(row.high)}" for row in rows]
            columns.append((f"{100 * interval:g} % interval", ends))
        if any(row.plug_in is not None for row in rows):
            parts = [(row, row.plug_in or (None, None, None)) for row in rows]
            ends = [f"{row.written(low)} – {row.written(high)}" for row, (_, low, high) in parts]
            columns.append(("plug-in", ends))
        header, cells = zip(*columns, strict=True)
        return header, list(zip(*cells, strict=True))

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return card(
            *(
                table(what.header, what.cells)
                if kind == "table"
                else paragraph(what, strong=kind in ("strong", "part"), soft=kind == "note")
                for kind, what in self.told()
            )
        )


def as_probability(value: float, name: str = "interval", example: str = "0.95") -> float:
    """A probability, between 0 and 1."""
    if not 0 < (number := as_float(value)) < 1:
        raise InvalidInput(f"{name}={value!r} must be between 0 and 1, such as {example}")
    return number


def as_count(value: Any, name: str, low: int = 0, high: int = LARGEST) -> int:
    """A whole number of a document, within bounds: no float, and no text."""
    if type(value) is not int or not low <= value <= high:
        raise InvalidInput(f"{name} must be a whole number from {float(low):g} to {float(high):g}")
    return value


def load_answer(text: str) -> Any:
    """An answer of any kind from its JSON document."""
    kind = format_of(text)
    if kind not in DOCUMENTS:
        raise CorruptReleaseError(
            "this is not a release: its format is not one that this program knows; update discreet if it was "
            "written by a newer version"
        )
    return DOCUMENTS[kind].from_json(text)
