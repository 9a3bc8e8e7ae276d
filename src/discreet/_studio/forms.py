"""The release form: built from the fields of a question, and read back as that question within limits.

The fields follow from the text form of each parameter (:class:`discreet.questions._text.TextForm`) and from
the columns of the schema; no kind of question is named here. Limits keep answers of the studio within
seconds; the command line and Python have no such limits.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import permutations
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from discreet._declarations import as_epsilon
from discreet._registry import QUESTIONS
from discreet._studio.schemas import MAX_N, NO_LIMIT, KeptSchema, Schemas, check_numbers
from discreet.errors import DiscreetError, InvalidInputError, TooLargeError, short_repr
from discreet.mechanisms import automatic
from discreet.questions._counts import CountRequest
from discreet.questions._request import Request
from discreet.questions._selected import SelectedRequest
from discreet.questions._text import Parameter
from discreet.questions.base import Question
from discreet.questions.network import NetworkTables
from discreet.schema import Category, Number, Schema

OWN = ("source", "schema", "kind", "dataset", "label", "request")
RESERVED = (*OWN, "n", "within", "of", "guess", "q", "csrf", "acknowledged")
"""Names of fields that pages add to those of a question."""
MAX_LABEL, MAX_TEXT = 200, 4000
"""The most characters of the label, and of any field."""
MIN_EPSILON, MAX_EPSILON = Fraction(1, 1000), Fraction(20)
MIN_PRIOR, MAX_PRIOR = 1e-3, 1e6
MIN_DELTA = Fraction(1, 10**15)
"""The smallest allowed product of δ and the number of records."""
MAX_CELLS = 200
"""The most combinations of the values of all columns that a question reads."""
MAX_COLUMNS, MAX_NUMBERS, MAX_WHOLE = 20, 100, 10**6
"""The most columns that a question names and numbers in one field, and the largest whole number."""
MAX_OPTION = {"draws": 100, "order": 10_000}
MAX_RATIO = 1e12
"""The largest ratio of two numbers of a question; doubles do not resolve finer differences."""
MAX_CHOSEN_LEVELS, MAX_CHOSEN_N = 20, 1_000_000
"""Limits within which every mechanism chosen by name answers in seconds."""
FIRST_EPSILON, FIRST_DELTA = "0.5", "1e-6"


def kinds() -> dict[str, type[Question]]:
    """Return the kinds of question that a form can ask: no required field needs Python."""
    return {
        kind: cls
        for kind, cls in QUESTIONS.items()
        if not any(parameter.required and parameter.python for parameter in cls.parameters())
    }


def written(cls: type[Question]) -> list[Parameter]:
    """Return the parameters that a form shows, those of this kind of question first."""
    particular = vars(cls).get("__annotations__", {})
    return sorted(
        (parameter for parameter in cls.parameters() if not parameter.python),
        key=lambda parameter: parameter.name not in particular,
    )


def slot(name: str) -> str:
    """Return the name of a parameter's field, changed if the form has another field of that name."""
    return f"{name}_" if name in RESERVED else name


@lru_cache(maxsize=500)
def first_texts(kind: str, schema: Schema) -> Mapping[str, str] | None:
    """Return fields for a first question of this kind that the schema allows; None if there is none."""
    cls = kinds()[kind]
    parameters = {parameter.name: parameter for parameter in written(cls)}
    subject = parameters.get(cls.subject() or "")
    for place in _places(subject, list(schema.columns)[:8]):
        texts = {} if subject is None else {subject.name: place}
        for more in ({}, {"delta": FIRST_DELTA}):
            try:
                cls.from_text({**texts, "epsilon": FIRST_EPSILON, **more}).request(schema)
                return {**texts, **more}
            except DiscreetError:
                continue
    return None


def _places(subject: Parameter | None, names: Sequence[str]) -> Iterator[str]:
    """Yield the possible texts of the field that names columns."""
    if subject is None:
        yield ""
    elif subject.form.name == "domains":
        yield from (f"{a}={b}" for a, b in permutations(names, 2))
    elif _is_formula(subject):
        yield from (f"{a} ~ {b}" for a, b in permutations(names, 2))
    else:
        yield from names


def _is_formula(parameter: Parameter) -> bool:
    return "~" in parameter.example


def can_be_planned(kind: str, schema: Schema) -> bool:
    """Return whether the width of an answer of this kind can be planned under the schema."""
    texts = first_texts(kind, schema)
    if texts is None:
        return True
    question = kinds()[kind].from_text({**texts, "epsilon": FIRST_EPSILON})
    return type(question.request(schema)).simulate is not Request.simulate


@dataclass(frozen=True)
class Input:
    """One field of a form, for the template."""

    of: Parameter
    name: str
    value: str
    widget: str
    """``area``, ``select`` or ``line``."""
    required: bool = False
    placeholder: str = ""
    mode: str = ""
    choices: tuple[str, ...] = ()
    columns: str = ""
    """What happens here when a column is chosen: it replaces the ``name``, is added to the ``names``, is
    inserted into the ``formula``, or begins one of the ``lines``."""
    rare: bool = False
    """Whether it is optional and has no example, and is shown apart."""

    @classmethod
    def from_parameter(cls, parameter: Parameter, value: str, required: bool) -> Self:
        """Return the field of a parameter."""
        form, usual = (
            parameter.form.name,
            "" if parameter.default in (None, ()) else parameter.form.write(parameter.default),
        )
        choices = ("no", "yes") if form == "flag" else parameter.choices
        if choices and not required and usual not in choices:
            choices = ("", *choices)
        area = form in ("levels", "domains", "limits")
        example = f"such as {parameter.example}" if parameter.example else ""
        if area:
            example = re.sub(r",\s*" if form == "levels" else r";\s*", "\n", parameter.example)
        columns = {"names": "names", "domains": "lines", "limits": "lines"}.get(form, "")
        if form == "text" and not choices:
            columns = "formula" if _is_formula(parameter) else "name"
        return cls(
            of=parameter,
            name=slot(parameter.name),
            value=value or (usual if choices else ""),
            widget="select" if choices else "area" if area else "line",
            required=required,
            placeholder=usual or example,
            mode={"whole": "numeric", "number": "decimal", "budget": "decimal"}.get(form, ""),
            choices=choices,
            columns=columns,
            rare=not required and not parameter.example,
        )


@dataclass(frozen=True)
class ReleaseForm:
    """A question, its data and its budget, all as text; ``request`` is the id of the charge."""

    source: str = ""
    schema: str = ""
    kind: str = ""
    dataset: str = ""
    label: str = ""
    request: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The fields of the question by their names."""
    kept_schema: KeptSchema | None = None
    """The schema that is named."""

    @classmethod
    def read(cls, given: Mapping[str, str], schemas: Schemas | None = None) -> Self:
        """Read the fields of the form; ignore anything else that was sent."""
        fields = {name: given[name] for name in OWN if name in given}
        for name, text in given.items():
            if len(text) > MAX_TEXT:
                raise TooLargeError(f"{name[:40]} has {len(text)} characters; at most {MAX_TEXT} are read")
        if len(fields.get("label", "")) > MAX_LABEL:
            raise InvalidInputError(f"label: at most {MAX_LABEL} characters")
        kept_schema = schemas.find(fields["schema"]) if schemas is not None and fields.get("schema") else None
        form = cls(**fields, kept_schema=kept_schema)  # type: ignore[arg-type]
        texts = {parameter.name: given.get(slot(parameter.name), "") for parameter in written(form.asks)}
        return replace(form, texts={name: text for name, text in texts.items() if text.strip()})

    @property
    def asks(self) -> type[Question]:
        """The kind of question; the first kind if none was chosen."""
        allowed = kinds()
        if self.kind and self.kind not in allowed:
            _ = QUESTIONS[self.kind]  # says which there are
            raise InvalidInputError(f"a question of kind {self.kind!r} can be asked only in Python")
        return allowed[self.kind] if self.kind else next(iter(allowed.values()))

    @property
    def declared_schema(self) -> Schema:
        """What is public about the data."""
        if self.kept_schema is None:
            raise InvalidInputError("the schema is missing: declare what is public about the data first")
        return self.kept_schema.schema

    def items(self) -> list[tuple[str, str]]:
        """Names and values of all fields that are filled in."""
        values = [(name, getattr(self, name)) for name in OWN]
        return [(name, text) for name, text in values if text] + [(slot(k), v) for k, v in self.texts.items()]

    def address(self, path: str = "/release", **changes: str) -> str:
        """Return the address of this form, or of another page with its fields."""
        query = urlencode(replace(self, **changes).items())  # type: ignore[arg-type]
        return f"{path}?{query}" if query else path

    def inputs(self) -> list[Input]:
        """The fields of the question, as they are filled in."""
        parameters = written(self.asks)
        return [
            Input.from_parameter(parameter, self.texts.get(parameter.name, ""), self._needs(parameter))
            for parameter in parameters
        ]

    def _needs(self, parameter: Parameter) -> bool:
        """Return whether a field is required: the budget always, columns unless there is only one."""
        if parameter.required or parameter.name == "epsilon":
            return True
        if parameter.name == self.asks.subject():
            return self.kept_schema is None or len(self.declared_schema.columns) > 1
        return parameter.name == "delta" and self._needs_delta

    @cached_property
    def _needs_delta(self) -> bool:
        texts = self.texts or (
            first_texts(self.asks.kind, self.declared_schema) if self.kept_schema is not None else None
        )
        try:
            return self.asks.from_text({**(texts or {}), "epsilon": FIRST_EPSILON}).needs_delta
        except DiscreetError:
            return False

    def tabs(self) -> Iterator[tuple[bool, str, str]]:
        """Yield for each kind of question whether it is this one, its title and the address of its form.

        Fields that both kinds have keep their texts.
        """
        here = {parameter.name: parameter for parameter in written(self.asks)}
        for kind, cls in kinds().items():
            shared = {
                parameter.name for parameter in written(cls) if _alike(parameter, here.get(parameter.name))
            }
            texts = {name: text for name, text in self.texts.items() if name in shared}
            yield cls is self.asks, cls.title, replace(self, texts=texts).address(kind=kind, request="")

    @cached_property
    def question(self) -> Question:
        """The question, within the limits of this page; looks at no data."""
        with self.fields_named():
            for parameter in written(self.asks):
                if parameter.name in self.texts:
                    with at_fault(slot(parameter.name)):
                        check_field(
                            parameter, parameter.form.read(self.texts[parameter.name], parameter.label)
                        )
            return self.asks.from_text(self.texts)

    @cached_property
    def checked_request(self) -> Request:
        """The question under its schema, within the limits of this page; looks at no data."""
        with self.fields_named():
            return check_question(self.question, self.declared_schema)

    def plan(self) -> dict[str, Any]:
        """The plan of the question, as a ledger stores it."""
        return self.question.plan(self.declared_schema)

    @contextmanager
    def fields_named(self) -> Iterator[None]:
        """Make errors within the block name fields of the form instead of parameters."""
        try:
            yield
        except InvalidInputError as error:
            labels = {parameter.name: parameter.label for parameter in self.asks.parameters()}
            if error.parameter in labels:
                shown = f" {short_repr(error.value)}" if error.has_value else ""
                error.args = (error.describe(labels[error.parameter] + shown),)
                error.parameter = slot(error.parameter)
            raise

    def as_python(self, file: str, charge: Mapping[str, str], table: str | None = None) -> str:
        """Return the question as a Python program; ``table`` is a table of a DuckDB file."""
        head, data = "import discreet\n\n", repr(file)
        if table is not None:
            rows = 'SELECT * FROM "' + table.replace('"', '""') + '"'
            head = "import discreet\nimport duckdb\n\n"
            head += f"book = duckdb.connect({file!r}, read_only=True)\ndata = book.sql({rows!r})\n"
            data = "data"
        more = {"schema": "schema"}
        if charge:
            more["charge"] = f"discreet.Charge({', '.join(map(repr, charge.values()))})"
        call = self.question.python(data, **more)
        return f"{head}{schema_as_python(self.declared_schema)}answer = {call}\nprint(answer)\n"

    def as_command(self, file: str, charge: Mapping[str, str]) -> str:
        """Return the question as a command; its schema is saved as schema.toml."""
        paid = [f"--{name.replace('_', '-')}={value}" for name, value in charge.items()]
        words = ["discreet", self.asks.kind, file, "schema.toml", *paid, *self.question.arguments()]
        return shlex.join(words) + "\n"


def schema_as_python(schema: Schema) -> str:
    """Return a schema as a line of a program, with the text of its file."""
    lines = "".join(f"    {line!r}\n" for line in schema.to_toml().splitlines(keepends=True))
    return f"schema = discreet.Schema.from_toml(\n{lines})\n"


def _alike(parameter: Parameter, other: Parameter | None) -> bool:
    return other is not None and all(
        getattr(parameter, name) == getattr(other, name) for name in ("form", "example", "choices")
    )


@contextmanager
def at_fault(name: str) -> Iterator[None]:
    """Report errors in the block at this field of the form."""
    try:
        yield
    except DiscreetError as error:
        error.parameter = name
        raise


# ---- limits --------------------------------------------------------------------------------------------


def check_field(parameter: Parameter, value: Any) -> None:
    """Check one field, before the question is built, which may be large."""
    form, size, most = parameter.form.name, 0, 0
    if parameter.choices and value not in parameter.choices:
        raise InvalidInputError(f"{parameter.label} must be one of: {', '.join(parameter.choices)}")
    if form in ("names", "levels", "domains", "limits", "options", "rules"):
        size, most = len(value), MAX_COLUMNS
    elif form == "numbers":
        size, most = len(list(_numbers(value))), MAX_NUMBERS
    elif form == "whole":
        size, most = value, MAX_WHOLE
    if size > most:
        raise TooLargeError(f"{parameter.label}: at most {most:,} here; {NO_LIMIT}")
    if form == "budget":
        if len(str(value)) > 40:
            raise InvalidInputError(f"{parameter.label} must be a number such as 0.5 or 1/2")
        as_epsilon(value, parameter.name)
    elif form not in ("text", "names", "levels", "domains", "whole"):
        check_numbers(_numbers(value), parameter.label)
    if form == "options":
        for name, most in MAX_OPTION.items():
            if any(number > most for number in _numbers(value.get(name, 0))):
                raise TooLargeError(f"{parameter.label}: {name} at most {most:,} here; {NO_LIMIT}")


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def check_question(question: Question, schema: Schema) -> Request:
    """Return the question under its schema, checked against the limits of this page; no data are opened."""
    if question.epsilon is None:
        raise InvalidInputError("is missing: say how much of the budget this release may spend", "epsilon")
    epsilon, records = check_epsilon(question.epsilon), schema.per_person or 1
    if epsilon / records < MIN_EPSILON:
        raise TooLargeError(
            f"ε = {float(epsilon):g} for a person with {records} records leaves less than "
            f"{float(MIN_EPSILON):g} for each: take fewer records per person, or a larger ε"
        )
    place = question.subject() or "column"
    used = [schema.column(name, place) for name in question.columns_used(schema)]
    if len(used) > MAX_COLUMNS:
        raise TooLargeError(f"a question may read at most {MAX_COLUMNS} columns here; {NO_LIMIT}")
    listed = (len(column.values) for column in used if isinstance(column, Category) and not column.discovers)
    cells = math.prod(listed)
    request = question.request(schema)
    if cells > MAX_CELLS and not isinstance(request, SelectedRequest):  # of which few values are published
        raise TooLargeError(
            f"the columns of this question have {cells:,} combinations of values, and at most {MAX_CELLS} "
            f"are counted here; {NO_LIMIT}"
        )
    counted = request.tables if isinstance(request, NetworkTables) else [request]
    for part in counted:
        if isinstance(part, CountRequest):
            check_prior(part.exact_prior)
    if not isinstance(request, CountRequest | NetworkTables):
        fields = (
            value for name, value in question.explicit_fields().items() if name not in ("epsilon", "delta")
        )
        bounds = (column.bounds for column in used if isinstance(column, Number))
        sizes = [abs(number) for several in (*fields, *bounds) for number in _numbers(several)]
        if max(sizes, default=0) > MAX_RATIO * min(filter(None, sizes), default=1):
            raise TooLargeError(
                "the numbers differ too much in size to be computed in double precision; rescale them"
            )
    if schema.size is not None:
        check_size(question, request, schema.size)
    return request


@dataclass(frozen=True)
class Asked:
    """The fields of a page without a question, all as text, and its address."""

    path: ClassVar[str]

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """Read the fields of the form; ignore anything else in the address."""
        values = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        if any(len(text) > MAX_TEXT for text in values.values()):
            raise TooLargeError(f"a field has more than {MAX_TEXT} characters")
        return cls(**values)

    def address(self) -> str:
        """Return the address of this question, without the fields that have their defaults."""
        usual = asdict(type(self)())
        query = urlencode([(name, text) for name, text in asdict(self).items() if text != usual[name]])
        return f"{self.path}?{query}" if query else self.path


def check_prior(prior: Sequence[float], label: str = "Prior") -> None:
    """Raise an error for a prior with which a page would not answer within seconds."""
    if max(prior) > MAX_PRIOR or min(prior) < MIN_PRIOR:
        raise TooLargeError(f"{label}: a parameter must be between {MIN_PRIOR:g} and {MAX_PRIOR:,.0f}")


def check_epsilon(given: Any) -> Fraction:
    """Return ε, or raise an error if a page would not answer within seconds."""
    if len(str(given)) > 40:
        raise InvalidInputError("must be a number such as 0.5 or 1/2", "epsilon")
    epsilon = as_epsilon(given)
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise InvalidInputError(
            f": ε must be between {float(MIN_EPSILON):g} and {float(MAX_EPSILON):g}", "epsilon", given
        )
    return epsilon


def check_size(question: Question, request: Request, size: Any) -> None:
    """Check the limits that depend on the public number of records."""
    n = sum(size) if isinstance(size, tuple) else size
    if not isinstance(n, int) or n < 1:
        return  # said by the question itself
    if n > MAX_N:
        raise TooLargeError(f"n={n:,}: at most {MAX_N:,} records here")
    delta = question.delta
    if delta is not None and not MIN_DELTA <= as_epsilon(delta, "delta") * n < 1:
        raise InvalidInputError("must be below 1/n and at least 1e-15/n, such as 1e-6", "delta", delta)
    if not isinstance(request, CountRequest) or request.mechanism in ("auto", automatic()):
        return
    if request.k > MAX_CHOSEN_LEVELS or n > MAX_CHOSEN_N:
        raise TooLargeError(
            f"mechanism: {request.mechanism} takes up to {MAX_CHOSEN_LEVELS} values and {MAX_CHOSEN_N:,} "
            "records here; lattice has no such limit"
        )
