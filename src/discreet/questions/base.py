"""A question: what is asked, in public parameters, and how it is priced, charged and answered.

A kind of question is a frozen dataclass in a file of its own. Its fields say what they mean
(:func:`parameter`), and from them come the study file, the options of the command line, the forms of the
studio, the plan in the ledger and the part "what was asked" of a report.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

from discreet._registry import QUESTIONS
from discreet._text import nearest
from discreet.declarations import EXCLUDE, as_size
from discreet.documents.answer import Answer
from discreet.errors import InvalidInput
from discreet.ledger.charging import Charge
from discreet.privacy.guarantee import Guarantee
from discreet.questions.asking import answered
from discreet.questions.text import FLAG, OPTIONS, TEXT, WHOLE, TextForm
from discreet.questions.widths import NO_GUESS, Guess, Rehearsal, Width

PLAN_VERSION = 2
"""Of the plans that a ledger stores; 0.1.0 wrote plans without a version."""
LABELS = {
    "epsilon": "Privacy budget ε",
    "delta": "δ",
    "n": "Number of records n",
    "bounds": "Bounds of one record",
    "missing": "Missing values",
    "other": "Other values",
}
"""Of the words that several questions have."""


@dataclass(frozen=True)
class Parameter:
    """What a field of a question means. ``python``: it cannot be written as text, so only Python has it."""

    form: TextForm
    help: str
    label: str = ""
    example: str = ""
    python: bool = False
    name: str = ""
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()

    @property
    def option(self) -> str:
        """Its name on the command line."""
        return "--" + self.name.replace("_", "-")


def parameter(
    form: TextForm,
    help: str,
    *,
    default: Any = dataclasses.MISSING,
    choices: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
    **meant: Any,
) -> Any:
    """A field of a question: how its value is written, and what it means; required without a default.

    ``meant``: label, example and python of :class:`Parameter`.
    """
    metadata = {"parameter": Parameter(form, help, **meant), "choices": choices}
    return dataclasses.field(default=default, metadata=metadata)


optional = partial(parameter, default=None)
"""A field that may be left out: it is None then."""


def same(question: type[Any], name: str) -> Any:
    """A field as another question has it."""
    known = {one.name: one for one in fields(question)}[name]
    return dataclasses.field(default=known.default, metadata=known.metadata)


class Bound(NamedTuple):
    """A question whose public size is known: its guarantee, and what makes the answer of a statistic."""

    guarantee: Guarantee
    make: Callable[[Any], Answer]


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What is asked of data, all of it public.

    ``__post_init__`` of a kind raises InvalidInput where the declaration cannot be used; it looks at no data.
    """

    kind: ClassVar[str]
    """Its name in study files, ledgers and forms."""
    command: ClassVar[str] = ""
    """Its name on the command line, where that is another one."""
    verb: ClassVar[str]
    """The function of :mod:`discreet` that asks it."""
    title: ClassVar[str]
    sentence: ClassVar[str]
    """What it gives, for ``--help`` and the studio."""
    cautions: ClassVar[tuple[str, ...]] = ()
    """What the curator should know before it is asked, as far as the declaration tells."""
    only_in_calls: ClassVar[frozenset[str]] = frozenset()
    """Fields that only a call in Python may set, no study."""

    # What a kind of question says.

    @abstractmethod
    def read(self, data: Any) -> Any:
        """The exact statistic of the data, which is private."""

    @abstractmethod
    def size_of(self, statistic: Any) -> Any:
        """The public size that a statistic shows: the number of records, or of each group."""

    @property
    def declared_size(self) -> Any | None:
        """The public size, where it was declared: the price is then fixed before data are opened."""
        n = getattr(self, "n", None)
        return None if n is None else as_size(n)

    @abstractmethod
    def bind(self, size: Any) -> Bound:
        """The guarantee for data of this public size, and what makes the answer."""

    def expected_width(self, size: Any = None, level: float = 0.95) -> Width | None:
        """How wide the interval of one number is expected to be, noise included, for a public size.

        For plans: it opens no data. None where this kind of question has no such figure.
        """
        return None

    def rehearse(self, n: int, level: float, seed: int, guess: Guess = NO_GUESS) -> Rehearsal:
        """An answer about n made-up records with seeded noise, where this kind can be rehearsed."""
        raise InvalidInput(f"a question of kind {self.kind!r} is not planned so; 'regress' and 'mean' are")

    # What follows from it.

    def price(self, size: Any = None) -> Guarantee:
        """What asking costs, for data of this public size (if not declared); opens no data."""
        known = self.declared_size if size is None else size
        if known is None:
            raise InvalidInput("the price depends on the public number of records: declare it, or give size")
        return self.bind(known).guarantee

    def ask(self, data: Any, charge: Charge | None = None) -> Any:
        """The answer; with ``charge`` it is paid for before it leaves, and a retry returns the stored one."""
        return answered(self, data, charge)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """The meaning of every field, in their order; required ones first."""
        found = []
        for field in fields(cls):
            meant, choices = field.metadata["parameter"], field.metadata["choices"]
            required = field.default is dataclasses.MISSING
            known = replace(
                meant,
                name=field.name,
                label=meant.label or LABELS.get(field.name) or field.name.replace("_", " ").capitalize(),
                required=required,
                default=None if required else field.default,
                choices=choices() if callable(choices) else choices,
            )
            found.append(known)
        return tuple(sorted(found, key=lambda one: not one.required))

    def stated(self) -> dict[str, Any]:
        """The fields that are not at their default, as they were given."""
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        return {
            field.name: value
            for field, value in values
            if value is not field.default and value != field.default
        }

    def plan(self) -> dict[str, Any]:
        """What is asked, normalised: it alone decides whether another request with the same id is a retry."""
        forms, own = {one.name: one.form for one in self.parameters()}, self.normalised()
        found = {
            name: own[name] if name in own else forms[name].plain(value)
            for name, value in self.stated().items()
        }
        return {"question": self.kind, "plan": PLAN_VERSION, **found}

    def normalised(self) -> dict[str, Any]:
        """The values in a plan of those fields that their form alone does not normalise."""
        return {}

    def described(self) -> list[tuple[str, str]]:
        """What was asked, for a reader: the label and text of every field that is not at its default."""
        known = {one.name: one for one in self.parameters()}
        return [(known[name].label, known[name].form.told(value)) for name, value in self.stated().items()]

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str = "") -> Self:
        """The question of a mapping, such as a table of a study file or the keywords of a call.

        Options of the chosen mechanism or family may stand among the parameters. A misspelt name is an error
        that names the nearest one.
        """
        prefix = f"{where}: " if where else ""
        known = {one.name: one for one in cls.parameters() if one.name not in cls.only_in_calls}
        nested = [name for name, one in known.items() if one.form is OPTIONS]
        direct = {key: value for key, value in given.items() if key in known}
        others = {key: value for key, value in given.items() if key not in known}
        possible = cls.options_of(direct) if nested else set()
        for key in others:
            if key not in possible:
                raise InvalidInput(
                    f"{prefix}{key!r} is unknown{nearest(key, {*known, *possible} - {*nested})}"
                )
        if others:
            direct[nested[0]] = {**(direct.get(nested[0]) or {}), **others}
        for name, one in known.items():
            if one.required and name not in direct:
                raise InvalidInput(f"{prefix.removesuffix(': ') or cls.kind} lacks {name}")
        return cls(**direct)

    @classmethod
    def options_of(cls, given: Mapping[str, Any]) -> set[str]:
        """The names of the options that the chosen mechanism or family has."""
        return set()

    @classmethod
    def from_text(cls, given: Mapping[str, str | tuple[str, ...]]) -> Self:
        """The question of texts, as options and form fields are: empty ones are left out.

        Levels may be given one by one; they are then taken literally.
        """
        values: dict[str, Any] = {}
        for one in cls.parameters():
            text = given.get(one.name, "")
            if not isinstance(text, str):
                values[one.name] = text
            elif text.strip() and not one.python:
                values[one.name] = one.form.read(text, one.option)
            elif one.required:
                example = f", such as {one.option} {one.example}" if one.example else ""
                raise InvalidInput(f"{one.option} is missing{example}")
        return cls(**values)

    def python(self, data: str, **charge: str) -> str:
        """This question as a call of Python."""
        given = self.stated()
        for name in [one.name for one in self.parameters() if one.form is OPTIONS]:
            given |= given.pop(name, None) or {}
        lines = "".join(f"    {name}={value!r},\n" for name, value in {**given, **charge}.items())
        return f"discreet.{self.verb}(\n    {data},\n{lines})"

    def arguments(self) -> list[str]:
        """This question as options of its command."""
        written = {one.name: one for one in self.parameters() if not one.python}
        return [
            f"{written[k].option}={written[k].form.write(v)}"
            for k, v in self.stated().items()
            if k in written
        ]


@dataclass(frozen=True, kw_only=True)
class TotalQuestion(Question):
    """A question that can be asked so that no record is an error."""

    strict: bool = parameter(
        FLAG,
        "Whether a value that is not declared stops the answer. If not it counts as missing, and missing "
        "values that are not declared are left out: no error, and no exit code, then depends on a record.",
        label="Stop at undeclared values",
        default=True,
    )

    def place_of_missing(self, missing: Any) -> Any:
        """What was declared for missing values; if nothing, and not strict: they are left out."""
        return EXCLUDE if missing is None and not self.strict else missing

    def check_total(self) -> None:
        """Without ``strict``, refuses what may fail at a record."""
        if not self.strict and getattr(self, "person", None) is not None:
            raise InvalidInput(
                "strict=False does not go with person=: a record without a key of its person has no place; "
                "bring the data to one record per person first"
            )


@dataclass(frozen=True, kw_only=True)
class PeopleQuestion(TotalQuestion):
    """A question about all records, of which a person may have several."""

    n: int | None = optional(WHOLE, "Public number of records; checked against the data.")
    person: str | None = optional(
        TEXT,
        "Column that says whose record it is, where a person may have several: ε is then a person's.",
        label="Column that names a person",
    )
    per_person: int | None = optional(
        WHOLE,
        "At most so many records of each person enter; of more the lowest values.",
        label="Records per person, at most",
    )


def question_of(kind: str, given: Mapping[str, Any], where: str = "") -> Question:
    """The question of this kind with these parameters."""
    if not isinstance(kind, str) or kind not in QUESTIONS:
        prefix = f"{where}: " if where else ""
        raise InvalidInput(f"{prefix}kind {kind!r} is unknown{nearest(kind, QUESTIONS)}")
    question: Question = QUESTIONS[kind].of(given, where)
    return question
