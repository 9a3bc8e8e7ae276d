"""The schemas of a studio: declared on its page and kept while it runs, with the last one for each file.

An address names a schema by a digest of its text, so that a price and its release are under the same one.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from discreet._declarations import EXCLUDE
from discreet.errors import DiscreetError, FileError, InvalidInputError, TooLargeError
from discreet.questions._text import number_text, words
from discreet.schema import OWN_BIN, PUBLIC, Column, Number, Schema, Weight

MAX_SCHEMA_TEXT = 50_000
"""The most characters of a schema; checked before it is parsed."""
MAX_DOTS = 2000
"""The most dots in one line: parsing time grows with the square of the parts of a dotted key."""
MAX_DECLARED, MAX_VALUES, MAX_BINS = 200, 1000, 100
"""The most columns of a schema, values of a column, and bins of a number."""
MAX_NAME = 200
"""The most characters of the name of a column, of a value and of a label."""
MAX_N, MAX_PER_PERSON = 10**12, 1000
LARGEST_NUMBER, SMALLEST = 1e15, 1e-9
"""The largest and, except for 0, the smallest number of a schema or question, in absolute value."""
MAX_KEPT = 300
"""The number of schemas that a studio keeps, those used last."""
MAX_LISTED, _SHOWN_VALUES = 20, 12

EXAMPLE = """\
# An invented survey, to try the pages with.
n = 3000

[columns]
smoker = ["never", "former", "current"]
sex = ["female", "male"]
age = {low = 18, high = 95, unit = "years"}
hours = {low = 0, high = 80, label = "Hours of work a week", missing = "exclude"}
region = {values = ["north", "south"], public = true}
"""


class ColumnRow(NamedTuple):
    """The declaration of a column, as displayed."""

    name: str
    kind: str
    declared: str
    rules: str
    is_public: bool


@dataclass(frozen=True)
class KeptSchema:
    """A schema with its text as it was written. ``name`` says what it is for."""

    identifier: str
    name: str
    text: str
    schema: Schema

    @property
    def title(self) -> str:
        """Its name, with the number of its columns and of records."""
        count = len(self.schema.columns)
        return f"{self.name} ({count} {'column' if count == 1 else 'columns'}, {size_text(self.schema)})"

    def rows(self) -> list[ColumnRow]:
        """The declarations of all columns, as displayed."""
        return [describe_column(name, column) for name, column in self.schema]

    def facts(self) -> list[tuple[str, str]]:
        """Facts about all records, as pairs of name and text."""
        schema = self.schema
        facts = [
            ("Number of records", size_text(schema)),
            ("Protected", f"{schema.relation.against} ({schema.relation})"),
        ]
        if schema.expected_n is not None:
            low, high = (number_text(float(end)) for end in schema.expected_n)
            facts.append(("Expected number of records", f"{low} to {high}"))
        if schema.person is not None:
            facts.append(
                ("Persons", f"named by {schema.person}, at most {schema.per_person} records of each")
            )
        for column, counts in (schema.sizes or {}).items():
            shown = ", ".join(f"{group} {count:,}" for group, count in counts.items())
            facts.append((f"Group sizes of {column}", shown[:500]))
        if schema.strata is not None:
            facts.append(("Strata", schema.strata))
        if schema.cluster is not None:
            facts.append(("Primary sampling units", schema.cluster))
        if not schema.strict:
            facts.append(("Undeclared and missing values", "left out"))
        return facts


def size_text(schema: Schema) -> str:
    """Return what a schema says about the number of records."""
    if schema.n is None:
        return "n private"
    return "n read and published" if schema.n == PUBLIC else f"n = {schema.n:,}"


def describe_column(name: str, column: Column) -> ColumnRow:
    """Return the declaration of a column, as displayed."""
    if isinstance(column, Weight):
        return ColumnRow(name, "weight", f"at most {number_text(float(column.most))}", "", False)
    missing = "missing: an error"
    if column.missing == EXCLUDE:
        missing = "missing: left out"
    elif column.missing is not None:
        has_bin = isinstance(column, Number) and column.missing == OWN_BIN
        missing = "missing: a bin of their own" if has_bin else f"missing: counted as {column.missing}"
    if isinstance(column, Number):
        declared = f"{number_text(column.bounds[0])} to {number_text(column.bounds[1])}"
        outside = "outside: a bin of their own" if column.outside == OWN_BIN else "outside: clipped"
        bins = f"; {len(column.edges()) - 1} bins" if column.bins is not None else ""
        return ColumnRow(
            name,
            "number",
            f"{declared} {column.unit or ''}".strip() + bins,
            f"{missing}; {outside}",
            column.public,
        )
    if column.discovers:
        return ColumnRow(name, "category", "values found in the data, privately", missing, column.public)
    values = column.values
    if isinstance(values, range):
        declared = f"codes {values[0]} to {values[-1]}"
    else:
        declared = ", ".join(words(value) for value in values[:_SHOWN_VALUES])
        declared += f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
    other = "an error" if column.other is None else f"counted as {column.other}"
    return ColumnRow(name, "category", declared, f"{missing}; others: {other}", column.public)


def read_schema(text: str) -> Schema:
    """Return the schema of a text within the limits of this page; its length is checked first."""
    if len(text) > MAX_SCHEMA_TEXT:
        raise TooLargeError(
            f"the schema has {len(text):,} characters; at most {MAX_SCHEMA_TEXT:,} are read here: leave out "
            "columns that are not asked about"
        )
    if not text.strip():
        raise InvalidInputError(
            'the schema is empty: declare at least one column, such as smoker = ["no", "yes"]'
        )
    if any(line.count(".") > MAX_DOTS for line in text.splitlines()):
        raise TooLargeError(f"the schema has more than {MAX_DOTS:,} dots in one line; break it into several")
    try:
        declared = Schema.from_json(text) if text.lstrip().startswith("{") else Schema.from_toml(text)
        check_schema(declared)
    except (RecursionError, OverflowError, ValueError) as error:
        if isinstance(error, DiscreetError):
            raise
        raise InvalidInputError("the schema has a number or a table that is too large to be read") from None
    return declared


def check_schema(schema: Schema) -> None:
    """Raise an error for a schema that is too large for a page to answer within seconds."""
    if len(schema.columns) > MAX_DECLARED:
        raise TooLargeError(f"columns: at most {MAX_DECLARED} here; {NO_LIMIT}")
    if isinstance(schema.n, int) and schema.n > MAX_N:
        raise TooLargeError(f"n: at most {MAX_N:,} records here")
    if (schema.per_person or 1) > MAX_PER_PERSON:
        raise TooLargeError(f"per_person: at most {MAX_PER_PERSON:,} here; {NO_LIMIT}")
    check_numbers(schema.expected_n or (), "expected_n")
    for name, column in schema:
        texts = [name, column.label or ""]
        if isinstance(column, Number):
            edges = column.bins if isinstance(column.bins, tuple) else ()
            bins = column.bins if isinstance(column.bins, int) else len(edges) - 1
            if max(bins, len(column.atoms)) > MAX_BINS:
                raise TooLargeError(f"column {name[:MAX_NAME]!r}: at most {MAX_BINS} bins here; {NO_LIMIT}")
            replacement = () if isinstance(column.missing, str | None) else (float(column.missing),)
            check_numbers(
                (*column.bounds, *edges, *column.atoms, *replacement), f"column {name[:MAX_NAME]!r}"
            )
            texts.append(column.unit or "")
        elif isinstance(column, Weight):
            check_numbers((float(column.most),), f"column {name[:MAX_NAME]!r}")
        elif isinstance(column.values, tuple):
            if len(column.values) > MAX_VALUES:
                raise TooLargeError(
                    f"column {name[:MAX_NAME]!r}: at most {MAX_VALUES:,} values here; {NO_LIMIT}"
                )
            texts += map(str, column.values)
        if any(len(str(text)) > MAX_NAME for text in texts):
            raise TooLargeError(
                f"column {name[:40]!r}: a name, value or label has more than {MAX_NAME} characters"
            )


NO_LIMIT = "the command line has no such limit"


def check_numbers(numbers: Iterable[float], label: str) -> None:
    """Refuse numbers that are too large, too small or too far apart for doubles."""
    for number in numbers:
        if not (number == 0 or SMALLEST <= abs(number) <= LARGEST_NUMBER):
            raise InvalidInputError(
                f"{label}: a number must be finite, and 0 or between {SMALLEST:g} and "
                f"{LARGEST_NUMBER:g} in absolute value"
            )


class Schemas:
    """The schemas that may be chosen while a studio runs."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, KeptSchema] = OrderedDict()
        self._of_source: OrderedDict[str, str] = OrderedDict()
        self._busy = threading.Lock()
        self.example = self._make(EXAMPLE, "Example")

    def keep(self, text: str, name: str, source: str = "") -> KeptSchema:
        """Read a schema and keep it, for a source if one is named."""
        schema = self._make(text.replace("\r\n", "\n"), name)
        with self._busy:
            self._kept[schema.identifier] = schema
            self._kept.move_to_end(schema.identifier)
            if source:
                self._of_source[source] = schema.identifier
                self._of_source.move_to_end(source)
            for cache in (self._kept, self._of_source):
                while len(cache) > MAX_KEPT:
                    cache.popitem(last=False)
        return schema

    @staticmethod
    def _make(text: str, name: str) -> KeptSchema:
        schema = read_schema(text)
        shown = "".join(c for c in name if c.isprintable())[-80:] or "Schema"
        digest = hashlib.sha256(f"{shown}\0{text}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return KeptSchema(digest, shown, text, schema)

    def list_recent(self) -> list[KeptSchema]:
        """Return the schemas used last, one of each name, and the example."""
        with self._busy:
            by_name = {schema.name: schema for schema in self._kept.values()}
            latest = sorted(by_name.values(), key=list(self._kept.values()).index, reverse=True)
        return [*latest[:MAX_LISTED], self.example]

    def find(self, identifier: str) -> KeptSchema:
        """Return the schema that an address names."""
        if identifier == self.example.identifier:
            return self.example
        with self._busy:
            if identifier in self._kept:
                self._kept.move_to_end(identifier)
                return self._kept[identifier]
        raise FileError(
            "this schema was not found: schemas are forgotten when the studio stops; declare it again"
        )

    def of_source(self, source: str) -> KeptSchema | None:
        """Return the schema that was declared last for a source of data."""
        identifier = self._of_source.get(source)
        return None if identifier is None else self._kept.get(identifier)
