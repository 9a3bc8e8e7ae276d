"""The release form: made from the fields that a question has, read back as that question.

No kind of question is named here: what a form shows follows from how each field is written
(:class:`discreet.questions.text.TextForm`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self
from urllib.parse import urlencode

from discreet._registry import QUESTIONS
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.questions.base import Parameter, Question
from discreet.studio.limits import MAX_TEXT, check_field, check_question

OWN = ("source", "kind", "dataset", "label", "request")
MAX_LABEL = 200


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

    name: str
    label: str
    help: str
    value: str
    required: bool
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
    def of(cls, one: Parameter, value: str) -> Self:
        """The field of a parameter."""
        form, usual = one.form.name, "" if one.default is None else one.form.write(one.default)
        choices = ("no", "yes") if form == "flag" else one.choices
        if choices and not one.required and usual not in choices:
            choices = ("", *choices)
        area = form in ("levels", "domains", "limits")
        example = re.sub(r",\s*" if form == "levels" else r";\s*", "\n", one.example) if area else one.example
        shown = f"such as {one.example}" if one.example and not area else example
        return cls(
            name=slot(one.name),
            label=one.label,
            help=one.help,
            value=value or (usual if choices else ""),
            required=one.required,
            widget="select" if choices else "area" if area else "line",
            placeholder=usual or shown,
            mode={"whole": "numeric", "number": "decimal", "budget": "decimal"}.get(form, ""),
            choices=choices,
            columns="name"
            if form == "text" and not choices
            else "lines"
            if area and form != "levels"
            else "",
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

    def query(self, **changes: str) -> str:
        """The address of this form."""
        return urlencode(replace(self, **changes).items())  # type: ignore[arg-type]

    def inputs(self) -> list[Input]:
        """The fields of the question, as they are filled in."""
        return [Input.of(one, self.texts.get(one.name, "")) for one in written(self.asks)]

    def tabs(self) -> Iterator[tuple[bool, str, str]]:
        """For each kind of question whether it is this one, its title and the query of its form.

        What is asked for in the same words there is taken along.
        """
        here = {one.name: one for one in written(self.asks)}
        for kind, cls in kinds().items():
            shared = {one.name for one in written(cls) if _alike(one, here.get(one.name))}
            texts = {name: text for name, text in self.texts.items() if name in shared}
            query = replace(self, kind=kind, request="", texts=texts).query()
            yield cls is self.asks, cls.title, query

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

    def python(self, file: str, charge: Mapping[str, str], table: str | None = None) -> str:
        """The question as a program; ``table`` is one of a DuckDB file."""
        head, data = "import discreet\n\n", repr(file)
        if table is not None:
            rows = 'SELECT * FROM "' + table.replace('"', '""') + '"'
            head = "import discreet\nimport duckdb\n\n"
            head += f"book = duckdb.connect({file!r}, read_only=True)\ndata = book.sql({rows!r})\n"
            data = "data"
        return f"{head}r = {self.question.python(data, **charge)}\nprint(r.summary())\n"

    def command(self, file: str, charge: Mapping[str, str]) -> str:
        """The question as a command."""
        paid = [f"--{name.replace('_', '-')}={value}" for name, value in charge.items()]
        return (
            shlex.join(
                ["discreet", self.asks.command or self.asks.kind, file, *self.question.arguments(), *paid]
            )
            + "\n"
        )


def _alike(one: Parameter, other: Parameter | None) -> bool:
    return other is not None and (one.form, one.example, one.choices) == (
        other.form,
        other.example,
        other.choices,
    )


def _labelled(text: str, cls: type[Question]) -> str:
    """A message about options as one about the fields of the form."""
    options = {one.option: one.label for one in cls.parameters()}
    names = {one.name: one.label for one in cls.parameters()}
    text = re.sub(r" \(--[^)]*\)", "", text)  # the same for the command line
    text = re.sub(r"--[a-z][a-z-]*", lambda found: options.get(found[0], found[0]), text)
    text = re.sub(r"\b([a-z_]+)=(?=\S)", lambda found: f"{names.get(found[1], found[1])}=", text)
    return text.replace("=False", "=no").replace("=True", "=yes")
