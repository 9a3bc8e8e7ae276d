"""A question: which columns are asked about, how, and for how much; all of it public.

A kind of question is a frozen dataclass in a file of its own. What is public about the data is in the schema
(:mod:`discreet.schema`); the fields of a question say what is asked of which columns. From these fields come
the study file, the options of the command line, the forms of the studio, the plan in the ledger and the part
"what was asked" of a report.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Self

from discreet._declarations import as_epsilon
from discreet._registry import QUESTIONS
from discreet._text import nearest
from discreet._typing import EpsilonLike
from discreet.errors import InvalidInputError
from discreet.questions._request import Request
from discreet.questions._text import BUDGET, TextForm
from discreet.schema import Schema

PLAN_VERSION = 3
"""Of the plans that a ledger stores; 0.1 wrote plans without a version, 0.2 version 2."""
LABELS = {"epsilon": "Privacy budget ε", "delta": "δ", "by": "By group"}
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
    kw_only: bool = False,
    **details: Any,
) -> Any:
    """Declare a field of a question: how its value is written, and what it means.

    Parameters
    ----------
    form : TextForm
        How the value is read from text and written.
    help : str
        One sentence for ``--help`` and forms.
    default : optional
        Required without one.
    choices : tuple of str, or a function that returns it
        The values that are allowed.
    kw_only : bool
        Whether it is given by its name only.
    **details
        ``label``, ``example`` and ``python`` of :class:`Parameter`.
    """
    metadata = {"parameter": Parameter(form, help, **details), "choices": choices}
    return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)


optional = partial(parameter, default=None)
"""A field that may be left out: it is None then."""


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """What is asked of which columns, all of it public.

    ``__post_init__`` of a kind raises InvalidInputError where its fields cannot be used together; what a
    schema decides is checked by :meth:`request`. Neither looks at data.
    """

    kind: ClassVar[str]
    """Its name in Python, study files, ledgers, forms and on the command line."""
    title: ClassVar[str]
    sentence: ClassVar[str]
    """What it gives, for ``--help`` and the studio."""

    epsilon: EpsilonLike | None = optional(  # noqa: RUF009
        BUDGET, "Privacy budget, such as 0.5 or 1/2.", example="0.5", kw_only=True
    )
    delta: EpsilonLike | None = optional(  # noqa: RUF009
        BUDGET, "The δ of the guarantee, such as 1e-6, where it needs one.", example="1e-6", kw_only=True
    )

    @abstractmethod
    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that the question reads."""

    @abstractmethod
    def request(self, schema: Schema) -> Request:
        """Return the question put under a schema, checked; no data are opened."""

    @property
    def needs_delta(self) -> bool:
        """Whether the question cannot be asked without δ."""
        return False

    @property
    def exact_epsilon(self) -> Fraction:
        """The privacy budget as an exact fraction."""
        if self.epsilon is None:
            raise InvalidInputError(
                "is missing: say how much of the budget this question may spend", parameter="epsilon"
            )
        return as_epsilon(self.epsilon)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return the meaning of every field, in their order; required ones first."""
        known = []
        for field in fields(cls):
            meaning, choices = field.metadata["parameter"], field.metadata["choices"]
            required = field.default is dataclasses.MISSING
            described = replace(
                meaning,
                name=field.name,
                label=meaning.label or LABELS.get(field.name) or field.name.replace("_", " ").capitalize(),
                required=required,
                default=None if required else field.default,
                choices=choices() if callable(choices) else choices,
            )
            known.append(described)
        return tuple(sorted(known, key=lambda one: (not one.required, one.name in ("epsilon", "delta"))))

    def explicit_fields(self) -> dict[str, Any]:
        """Return the fields that are not at their default, as they were given."""
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        return {f.name: value for f, value in values if value is not f.default and value != f.default}

    def plan(self, schema: Schema) -> dict[str, Any]:
        """Return what is asked, normalised: it alone decides whether the same request id is a retry."""
        forms = {one.name: one.form for one in self.parameters()}
        normal = self.normalise(schema)
        asked = {
            name: normal[name] if name in normal else forms[name].plain(value)
            for name, value in self.explicit_fields().items()
        }
        declared = schema.select(*self.columns_used(schema), *filter(None, [schema.weight])).to_dict()
        return {"question": self.kind, "plan": PLAN_VERSION, **asked, "schema": declared}

    def normalise(self, schema: Schema) -> dict[str, Any]:
        """Return the values in a plan of those fields that their form alone does not normalise."""
        return {}

    def describe(self) -> list[tuple[str, str]]:
        """Return what was asked, for a reader: label and text of every field that is not at its default."""
        known = {one.name: one for one in self.parameters()}
        given = self.explicit_fields()
        return [(known[name].label, known[name].form.describe(value)) for name, value in given.items()]

    @classmethod
    def of(cls, given: Mapping[str, Any], where: str = "") -> Self:
        """Return the question of a mapping, such as a table of a study file or the keywords of a call.

        A misspelt name is an error that names the nearest one.
        """
        prefix = f"{where}: " if where else ""
        known = {one.name: one for one in cls.parameters()}
        for key in given:
            if key not in known:
                raise InvalidInputError(f"{prefix}{key!r} is unknown{nearest(key, known)}")
        for name, one in known.items():
            if one.required and name not in given:
                raise InvalidInputError(f"is missing{_such_as(one)}", parameter=f"{prefix}{name}")
        try:
            return cls(**given)
        except InvalidInputError as error:
            raise InvalidInputError(f"{prefix}{error}") from None

    @classmethod
    def from_text(cls, given: Mapping[str, str]) -> Self:
        """Return the question of texts, as options and form fields are: empty ones are left out."""
        values: dict[str, Any] = {}
        for one in cls.parameters():
            text = given.get(one.name, "")
            if text.strip() and not one.python:
                values[one.name] = one.form.read(text, one.option)
            elif one.required:
                raise InvalidInputError(f"is missing{_such_as(one, one.option)}", parameter=one.name)
        return cls(**values)

    @classmethod
    def subject(cls) -> str | None:
        """Return the field that is given by its place: columns, a column or a formula."""
        return next((field.name for field in fields(cls) if not field.kw_only), None)

    def python(self, data: str, **more: str) -> str:
        """Return this question as a call of Python."""
        given, subject = self.explicit_fields(), self.subject()
        place = given.pop(subject, None) if subject is not None else None
        several = isinstance(place, tuple)
        first = [] if place is None else [repr(value) for value in (place if several else (place,))]
        arguments = [f"{name}={value!r}" for name, value in given.items()]
        arguments += [f"{name}={text}" for name, text in more.items()]
        return (
            f"discreet.{self.kind}(\n" + "".join(f"    {one},\n" for one in [data, *first, *arguments]) + ")"
        )

    def arguments(self) -> list[str]:
        """Return this question as arguments of its command; what is given by its place comes last."""
        written = {one.name: one for one in self.parameters() if not one.python}
        texts = {k: written[k].form.write(v) for k, v in self.explicit_fields().items() if k in written}
        subject = self.subject()
        place = texts.pop(subject, None) if subject is not None else None
        last = [] if place is None else [place]
        if last and written[str(subject)].form.name == "names":
            last = list(getattr(self, str(subject)))
        options = [f"{written[name].option}={text}" for name, text in texts.items()]
        return [*options, *(["--"] if any(word.startswith("-") for word in last) else []), *last]


def _such_as(one: Parameter, option: str = "") -> str:
    return f", such as {option} {one.example}".replace("  ", " ") if one.example else ""


def check_question(given: Any) -> None:
    """Refuse what is not a question, such as the name of a column."""
    if not isinstance(given, Question):
        raise InvalidInputError(
            "question must be a question such as discreet.Proportions('smoker'), "
            f"not a {type(given).__name__}"
        )


def question_of(kind: Any, given: Mapping[str, Any], where: str = "") -> Question:
    """Return the question of this kind with these parameters."""
    if not isinstance(kind, str) or kind not in QUESTIONS:
        prefix = f"{where}: " if where else ""
        raise InvalidInputError(f"{prefix}kind {kind!r} is unknown{nearest(kind, QUESTIONS)}")
    question: Question = QUESTIONS[kind].of(given, where)
    return question


def check_names(given: Any, parameter: str = "columns") -> tuple[str, ...]:
    """Return names of columns, from one name or several."""
    names = (given,) if isinstance(given, str) else tuple(given or ())
    if not all(isinstance(name, str) and name for name in names):
        # By its type, not its value, which may be the data.
        wrong = next(name for name in names if not (isinstance(name, str) and name))
        shown = (
            "an empty text" if isinstance(wrong, str) else f"a {type(wrong).__name__}"
        )  # it may be the data
        raise InvalidInputError(f"{parameter} must be names of columns, such as 'smoker', not {shown}")
    if len(set(names)) < len(names):
        raise InvalidInputError("names a column twice", parameter=parameter, value=given)
    return names
