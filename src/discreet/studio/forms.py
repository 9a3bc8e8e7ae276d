"""The release form: made from the fields that a question has, read back as that question within limits.

No kind of question is named here: what a form shows, and what it may hold so that the studio answers within
seconds, follows from how each field is written (:class:`discreet.questions.text.TextForm`). The command line
and Python do not have these limits.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Self
from urllib.parse import urlencode

from discreet._registry import QUESTIONS
from discreet.declarations import as_epsilon
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.mechanisms import automatic
from discreet.questions.base import Parameter, Question

OWN = ("source", "kind", "dataset", "label", "request")
MAX_LABEL, MAX_TEXT = 200, 4000
"""Characters of the label, and of any field."""
MIN_EPSILON, MAX_EPSILON = Fraction(1, 1000), Fraction(20)
MIN_PRIOR, MAX_PRIOR = 1e-3, 1e6
MIN_DELTA = Fraction(1, 10**15)
"""Of δ·n."""
MAX_SHARES = 100
"""Shares of one question, and twice as many in all its groups together."""
MAX_COLUMNS = 20
MAX_WHOLE, MOST = 10**6, {"n": 10**12, "per_person": 1000, "draws": 100}
LARGEST_NUMBER, SMALLEST, MAX_RATIO = 1e15, 1e-9, 1e12
"""Of the numbers of a question, and of two of them: doubles do not tell finer ones apart."""
MAX_CHOSEN_LEVELS, MAX_CHOSEN_N = 20, 1_000_000
"""For a mechanism that is chosen by name: up to here every one of them answers in seconds."""


def kinds() -> dict[str, type[Question]]:
    """Every question that can be asked with a form: nothing that it needs must be written in Python."""
    return {
        kind: cls
        for kind, cls in QUESTIONS.items()
        if not any(one.required and one.python for one in cls.parameters())
    }


def written(cls: type[Question]) -> list[Parameter]:
    """The parameters that can be written, what is particular to this kind of question first."""
    own = vars(cls).get("__annotations__", {})
    return sorted((one for one in cls.parameters() if not one.python), key=lambda one: one.name not in own)


def slot(name: str) -> str:
    """The name of a parameter in a form, which has fields of its own."""
    return f"{name}_" if name in OWN else name


@dataclass(frozen=True)
class Input:
    """One field of a form, for the template."""

    of: Parameter
    name: str
    value: str
    widget: str
    """``area``, ``select`` or ``line``."""
    placeholder: str = ""
    mode: str = ""
    choices: tuple[str, ...] = ()
    columns: str = ""
    """How a name of a column is put here: as the ``name``, or as the beginning of one of the ``lines``."""
    chips: bool = False
    """Levels, which are edited one by one."""
    rare: bool = False
    """Optional, and without an example: it stands apart."""

    @classmethod
    def made(cls, one: Parameter, value: str) -> Self:
        """The field of a parameter."""
        form, usual = one.form.name, "" if one.default is None else one.form.write(one.default)
        choices = ("no", "yes") if form == "flag" else one.choices
        if choices and not one.required and usual not in choices:
            choices = ("", *choices)
        area = form in ("levels", "domains", "limits")
        example = f"such as {one.example}" if one.example else ""
        if area:
            example = re.sub(r",\s*" if form == "levels" else r";\s*", "\n", one.example)
        named = "name" if form == "text" and not choices else ""
        return cls(
            of=one,
            name=slot(one.name),
            value=value or (usual if choices else ""),
            widget="select" if choices else "area" if area else "line",
            placeholder=usual or example,
            mode={"whole": "numeric", "number": "decimal", "budget": "decimal"}.get(form, ""),
            choices=choices,
            columns="lines" if form in ("domains", "limits") else named,
            chips=form == "levels",
            rare=not one.required and not one.example,
        )


@dataclass(frozen=True)
class ReleaseForm:
    """What is asked of which data, and what pays for it, all as text. ``request`` is the id of the charge."""

    source: str = ""
    kind: str = ""
    dataset: str = ""
    label: str = ""
    request: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    """The fields of the question by their names."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """The fields that the form has; what else was sent is ignored."""
        own = {name: given[name] for name in OWN if name in given}
        for name, text in given.items():
            if len(text) > MAX_TEXT:
                raise TooLargeError(f"{name[:40]} has {len(text)} characters; at most {MAX_TEXT} are read")
        if len(own.get("label", "")) > MAX_LABEL:
            raise InvalidInput(f"label: at most {MAX_LABEL} characters")
        form = cls(**own)  # type: ignore[arg-type]
        texts = {one.name: given.get(slot(one.name), "") for one in written(form.asks)}
        return replace(form, texts={name: text for name, text in texts.items() if text.strip()})

    @property
    def asks(self) -> type[Question]:
        """The kind of question; the first that there is, if none was chosen."""
        known = kinds()
        if self.kind and self.kind not in known:
            _ = QUESTIONS[self.kind]  # says which there are
            raise InvalidInput(f"a question of kind {self.kind!r} is asked in Python")
        return known[self.kind] if self.kind else next(iter(known.values()))

    def items(self) -> list[tuple[str, str]]:
        """Names and values of all fields that are filled in."""
        own = [(name, getattr(self, name)) for name in OWN]
        return [(name, text) for name, text in own if text] + [(slot(k), v) for k, v in self.texts.items()]

    def address(self, path: str = "/release", **changes: str) -> str:
        """The address of this form, or of another page that is given it."""
        query = urlencode(replace(self, **changes).items())  # type: ignore[arg-type]
        return f"{path}?{query}" if query else path

    def inputs(self) -> list[Input]:
        """The fields of the question, as they are filled in."""
        return [Input.made(one, self.texts.get(one.name, "")) for one in written(self.asks)]

    def tabs(self) -> Iterator[tuple[bool, str, str]]:
        """For each kind of question whether it is this one, its title and the address of its form.

        What is asked for in the same words there is taken along.
        """
        here = {one.name: one for one in written(self.asks)}
        for kind, cls in kinds().items():
            shared = {one.name for one in written(cls) if _alike(one, here.get(one.name))}
            texts = {name: text for name, text in self.texts.items() if name in shared}
            yield cls is self.asks, cls.title, replace(self, texts=texts).address(kind=kind, request="")

    @cached_property
    def question(self) -> Question:
        """The question, within the limits of this page; looks at no data."""
        with self.fields_named():
            for one in written(self.asks):
                if one.name in self.texts:
                    check_field(one, one.form.read(self.texts[one.name], one.option))
            found = self.asks.from_text(self.texts)
            check_question(found)
            return found

    @contextmanager
    def fields_named(self) -> Iterator[None]:
        """Errors within it speak of the fields of the form, not of parameters and options."""
        try:
            yield
        except DiscreetError as error:
            error.args = tuple(_labelled(str(part), self.asks) for part in error.args)
            raise

    def as_python(self, file: str, charge: Mapping[str, str], table: str | None = None) -> str:
        """The question as a program; ``table`` is one of a DuckDB file."""
        head, data = "import discreet\n\n", repr(file)
        if table is not None:
            rows = 'SELECT * FROM "' + table.replace('"', '""') + '"'
            head = "import discreet\nimport duckdb\n\n"
            head += f"book = duckdb.connect({file!r}, read_only=True)\ndata = book.sql({rows!r})\n"
            data = "data"
        return f"{head}r = {self.question.python(data, **charge)}\nprint(r.summary())\n"

    def as_command(self, file: str, charge: Mapping[str, str]) -> str:
        """The question as a command."""
        paid = [f"--{name.replace('_', '-')}={value}" for name, value in charge.items()]
        asked = self.asks.command or self.asks.kind
        return shlex.join(["discreet", asked, file, *self.question.arguments(), *paid]) + "\n"


def _alike(one: Parameter, other: Parameter | None) -> bool:
    return other is not None and all(
        getattr(one, name) == getattr(other, name) for name in ("form", "example", "choices")
    )


def _labelled(text: str, cls: type[Question]) -> str:
    """A message about options as one about the fields of the form."""
    options = {one.option: one.label for one in cls.parameters()}
    names = {one.name: one.label for one in cls.parameters()}
    text = re.sub(r" \(--[^)]*\)", "", text)  # the same for the command line
    text = re.sub(r"--[a-z][a-z-]*", lambda found: options.get(found[0], found[0]), text)
    text = re.sub(r"\b([a-z_]+)=(?=\S)", lambda found: f"{names.get(found[1], found[1])}=", text)
    return text.replace("=False", "=no").replace("=True", "=yes")


# ---- limits --------------------------------------------------------------------------------------------


def check_field(one: Parameter, value: Any) -> None:
    """One field, by how it is written; before the question is built, which may be large."""
    form, size, most = one.form.name, 0, 0
    if one.choices and value not in one.choices:
        raise InvalidInput(f"{one.label} must be one of: {', '.join(one.choices)}")
    if form == "levels" and not isinstance(value, range):
        size, most = len(value), MAX_SHARES
    elif form == "domains":
        size, most = math.prod(len(levels) for levels in value.values()), MAX_SHARES
    elif form in ("limits", "options"):
        size, most = len(value), MAX_COLUMNS
    elif form == "numbers":
        size, most = len(list(_numbers(value))), MAX_SHARES + 1
    elif form == "whole":
        size, most = value, MOST.get(one.name, MAX_WHOLE)
    if size > most:
        raise TooLargeError(f"{one.label}: at most {most:,} here; the command line has no such limit")
    if form == "budget":
        if len(str(value)) > 40:
            raise InvalidInput(f"{one.label} must be a number such as 0.5 or 1/2")
        as_epsilon(value, one.name)
    elif form not in ("text", "level", "levels", "domains", "whole"):
        for number in _numbers(value):
            if not (number == 0 or SMALLEST <= abs(number) <= LARGEST_NUMBER):
                raise InvalidInput(
                    f"{one.label}: here a number is finite, and 0 or between {SMALLEST:g} and "
                    f"{LARGEST_NUMBER:g} apart from its sign"
                )


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        for item in value:
            yield from _numbers(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)


def check_question(question: Question) -> None:
    """What the fields say together, before any data are opened."""
    if hasattr(question, "epsilon"):
        if question.epsilon is None:
            raise InvalidInput("epsilon is missing: say how much of the budget this release may spend")
        epsilon, records = check_epsilon(question.epsilon), getattr(question, "per_person", None) or 1
        if epsilon / records < MIN_EPSILON:
            raise TooLargeError(
                f"ε = {float(epsilon):g} for a person with {records} records leaves less than "
                f"{float(MIN_EPSILON):g} for each: take fewer records per person, or a larger ε"
            )
    if getattr(question, "selection", None) is not None:  # what is published decides how long it takes
        return
    shares = getattr(question, "k", None)
    if shares is None:
        numbers = (_numbers(getattr(question, name, ())) for name in ("prior", "bounds", "sigma"))
        sizes = [abs(number) for several in numbers for number in several]
        if max(sizes, default=0) > MAX_RATIO * min(filter(None, sizes), default=1):
            raise TooLargeError("the numbers are too far apart: doubles do not tell finer ones apart")
    else:
        listed = {one.name for one in question.parameters() if one.form.name == "levels"} - {"levels"}
        groups = math.prod(len(value) for name, value in question.stated().items() if name in listed)
        if shares > MAX_SHARES or shares * groups > 2 * MAX_SHARES:
            raise TooLargeError(
                f"at most {MAX_SHARES} shares here, and {2 * MAX_SHARES} in all groups together; the command "
                "line has no such limit"
            )
        check_prior(getattr(question, "exact_prior", (1.0,)))
    if question.declared_size is not None:
        check_size(question, question.declared_size)


def check_prior(prior: Sequence[float], label: str = "Prior") -> None:
    """A prior for which a page answers in seconds."""
    if max(prior) > MAX_PRIOR or min(prior) < MIN_PRIOR:
        raise TooLargeError(f"{label}: here a parameter may be between {MIN_PRIOR:g} and {MAX_PRIOR:,.0f}")


def check_epsilon(given: Any) -> Fraction:
    """An ε for which a page answers in seconds."""
    if len(str(given)) > 40:
        raise InvalidInput("epsilon must be a number such as 0.5 or 1/2")
    epsilon = as_epsilon(given)
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise TooLargeError(
            f"epsilon={given!r}: here ε may be between {float(MIN_EPSILON):g} and {float(MAX_EPSILON):g}"
        )
    return epsilon


def check_size(question: Question, size: Any) -> None:
    """What depends on the public number of records."""
    n = sum(size) if isinstance(size, tuple) else size
    if not isinstance(n, int) or n < 1:
        return  # said by the question itself
    if n > MOST["n"]:
        raise TooLargeError(f"n={n:,}: at most {MOST['n']:,} records here")
    delta = getattr(question, "delta", None)
    if delta is not None and not MIN_DELTA <= as_epsilon(delta, "delta") * n < 1:
        raise InvalidInput(f"delta={delta!r} must be below 1/n, though not by fifteen digits, such as 1e-6")
    chosen, shares = getattr(question, "mechanism", "auto"), getattr(question, "k", 1)
    usual = chosen in ("auto", automatic())
    if not usual and (shares > MAX_CHOSEN_LEVELS or n > MAX_CHOSEN_N):
        raise TooLargeError(
            f"{chosen} takes up to {MAX_CHOSEN_LEVELS} levels and {MAX_CHOSEN_N:,} records here; lattice has "
            "no such limit"
        )
