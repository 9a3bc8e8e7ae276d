"""Questions: a kind, the columns and the privacy budget, all of them public.

Each kind of question is a frozen dataclass in a file of its own. The schema (:mod:`discreet.schema`) declares
what is public about the data. The fields of a question are read by study files, command-line options, the
forms of the studio, the plans in a ledger and reports.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

from discreet._declarations import as_epsilon
from discreet._registry import QUESTIONS
from discreet._text import closest, nearest
from discreet._typing import EpsilonLike
from discreet.errors import InvalidInputError
from discreet.questions._request import Request
from discreet.questions._text import BUDGET, Parameter, optional
from discreet.schema import Category, Declaration, Number, Schema

PLAN_VERSION = 3
"""Version of the plans that a ledger stores; 0.1 wrote plans without a version, 0.2 wrote version 2."""
DECLARED_ELSEWHERE = {
    "bounds",
    "edges",
    "groups",
    "levels",
    *(field.name for declared in (Schema, Category, Number) for field in fields(declared)),
}
"""Names that belong in a schema, including their names in version 0.1."""
CHARGED_ELSEWHERE = {"dataset", "ledger", "request_id"}
LABELS = {"epsilon": "Privacy budget ε", "delta": "δ", "by": "By group"}
"""Labels of the fields that several questions have."""


@dataclass(frozen=True, kw_only=True)
class Question(Declaration, ABC):
    """The base class of questions; everything in a question is public.

    ``__post_init__`` of a kind raises InvalidInputError where its fields cannot be used together;
    :meth:`request` checks what depends on the schema. Neither reads data.

    Parameters
    ----------
    epsilon : number, optional
        The privacy budget, such as 0.5 or ``"1/2"``.
    delta : number, optional
        The δ of the guarantee, for questions that need one.

    Examples
    --------
    >>> from discreet import Mean, Schema
    >>> schema = Schema({"age": (0, 120), "sex": ["f", "m"]})
    >>> question = Mean("age", by="sex", epsilon="1/2")
    >>> question.exact_epsilon
    Fraction(1, 2)
    >>> question.columns_used(schema)
    ('age', 'sex')
    >>> question.arguments()
    ['--epsilon=1/2', '--by=sex', 'age']
    """

    kind: ClassVar[str]
    """The name of the kind in Python, study files, ledgers, forms and on the command line."""
    title: ClassVar[str]
    sentence: ClassVar[str]
    """What the answer contains, in one sentence, for ``--help`` and the studio."""

    epsilon: EpsilonLike | None = optional(
        BUDGET, "Privacy budget, such as 0.5 or 1/2.", example="0.5", kw_only=True
    )
    delta: EpsilonLike | None = optional(
        BUDGET, "The δ of the guarantee, such as 1e-6, where it needs one.", example="1e-6", kw_only=True
    )

    @abstractmethod
    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns that the question reads.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> from discreet import Proportions, Schema
        >>> Proportions("smoker", by="sex").columns_used(Schema({"smoker": [0, 1], "sex": ["f", "m"]}))
        ('smoker', 'sex')
        """

    @abstractmethod
    def request(self, schema: Schema) -> Request:
        """Return the question bound to a schema, with its fields checked; no data are opened.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        Request
            The request, which knows what to read from the data, the price, and how to answer.

        Raises
        ------
        InvalidInputError
            If the schema does not declare what the question needs.

        Examples
        --------
        >>> from discreet import Proportions, Schema
        >>> request = Proportions("smoker", epsilon=1).request(Schema({"smoker": ["no", "yes"]}))
        >>> request.price().epsilon
        1.0
        """

    @property
    def needs_delta(self) -> bool:
        """Whether the question cannot be asked without δ."""
        return False

    @cached_property
    def exact_epsilon(self) -> Fraction:
        """The privacy budget as an exact fraction."""
        return as_epsilon(self.epsilon)

    @classmethod
    def parameters(cls) -> tuple[Parameter, ...]:
        """Return a description of each field; required fields first, ε and δ last.

        Returns
        -------
        tuple of Parameter

        Examples
        --------
        >>> from discreet import Mean
        >>> [field.name for field in Mean.parameters()]
        ['column', 'by', 'epsilon', 'delta']
        """
        described_fields = []
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
            described_fields.append(described)
        return tuple(
            sorted(
                described_fields, key=lambda field: (not field.required, field.name in ("epsilon", "delta"))
            )
        )

    def explicit_fields(self) -> dict[str, Any]:
        """Return the fields that differ from their defaults.

        Returns
        -------
        dict
        """
        values = [(field, getattr(self, field.name)) for field in fields(self)]
        return {f.name: value for f, value in values if value is not f.default and value != f.default}

    def plan(self, schema: Schema) -> dict[str, Any]:
        """Return the question and the declared columns as JSON values, in a normal form.

        A ledger stores it. Two requests with the same id are a retry if their plans are equal.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        dict

        Examples
        --------
        >>> from discreet import Mean, Schema
        >>> plan = Mean("age", epsilon=0.5).plan(Schema({"age": (0, 120)}))
        >>> plan["question"], plan["epsilon"], plan["column"]
        ('mean', '1/2', 'age')
        """
        forms = {field.name: field.form for field in self.parameters()}
        normal = self.normalise(schema)
        asked = {
            name: normal[name] if name in normal else forms[name].plain(value)
            for name, value in self.explicit_fields().items()
        }
        design = filter(None, (schema.weight, schema.strata))
        declared = schema.select(*self.columns_used(schema), *design).to_dict()
        return {"question": self.kind, "plan": PLAN_VERSION, **asked, "schema": declared}

    def normalise(self, schema: Schema) -> dict[str, Any]:
        """Return the normal form of fields whose normal form depends on the schema.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        dict
        """
        return {}

    def describe(self) -> list[tuple[str, str]]:
        """Return the label and text of each field that differs from its default, for a reader.

        Returns
        -------
        list of (str, str)

        Examples
        --------
        >>> from discreet import Mean
        >>> Mean("age", epsilon=0.5).describe()
        [('Privacy budget ε', '0.5'), ('Column', 'age')]
        """
        described = {field.name: field for field in self.parameters()}
        explicit = self.explicit_fields()
        return [
            (described[name].label, described[name].form.describe(value)) for name, value in explicit.items()
        ]

    @classmethod
    def explain_unknown(cls, name: str) -> str:
        """Return the end of a message about a name that is not a field of this kind: where it belongs.

        Parameters
        ----------
        name : str
            The name.

        Returns
        -------
        str

        Examples
        --------
        >>> from discreet import Mean
        >>> Mean.explain_unknown("bounds")
        'belongs in the schema, which declares each column once for all questions'
        >>> Mean.explain_unknown("mechanism")
        'is unknown to mean; proportions takes it'
        >>> Mean.explain_unknown("epsilom")
        "is unknown; did you mean 'epsilon'?"
        """
        if name in DECLARED_ELSEWHERE:
            return "belongs in the schema, which declares each column once for all questions"
        if name in CHARGED_ELSEWHERE:
            return "belongs to the charge of a single call, or to a study, which charges every question"
        others = [kind for kind, other in QUESTIONS.items() if name in other.__dataclass_fields__]
        if others and not closest(name, cls.keywords()):
            return (
                f"is unknown to {cls.kind}; {', '.join(others)} {'takes' if len(others) == 1 else 'take'} it"
            )
        return super().explain_unknown(name)

    @classmethod
    def such_as(cls, name: str) -> str:
        """Return the end of a message about a missing field, which gives an example if there is one.

        Parameters
        ----------
        name : str
            The field.

        Returns
        -------
        str

        Examples
        --------
        >>> from discreet import Regress
        >>> Regress.such_as("formula")
        ', such as income ~ age + sex'
        """
        example = cls.__dataclass_fields__[name].metadata["parameter"].example
        return f", such as {example}" if example else ""

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Return a question from a mapping, such as a table of a study file or the keywords of a call.

        Parameters
        ----------
        values : mapping
            The fields by name.
        where : str
            Where the mapping was read, for messages.

        Returns
        -------
        Question

        Raises
        ------
        InvalidInputError
            If a name is unknown (the message suggests the nearest one) or a required field is missing.

        Examples
        --------
        >>> from discreet import Mean
        >>> Mean.of({"column": "age", "epsilon": 0.5}).column
        'age'
        >>> Mean.of({"colum": "age"})
        Traceback (most recent call last):
        ...
        discreet.errors.InvalidInputError: colum='age' is unknown; did you mean 'column'?
        """
        prefix = f"{where}: " if where else ""
        fields_by_name = {field.name: field for field in cls.parameters()}
        for name, field in fields_by_name.items():
            if field.required and name not in values:
                raise InvalidInputError(f"is missing{cls.such_as(name)}", f"{prefix}{name}")
        try:
            return cls(**values)
        except InvalidInputError as error:
            raise InvalidInputError(f"{prefix}{error}") from None

    @classmethod
    def from_text(cls, texts: Mapping[str, str]) -> Self:
        """Return a question from the texts of options or form fields; empty texts are left out.

        Parameters
        ----------
        texts : mapping
            The text of each field by name.

        Returns
        -------
        Question

        Raises
        ------
        InvalidInputError
            If a text cannot be read or a required field is missing.

        Examples
        --------
        >>> from discreet import Quantiles
        >>> Quantiles.from_text({"column": "hours", "probs": "0.1,0.9", "by": ""}).probs
        (0.1, 0.9)
        """
        values: dict[str, Any] = {}
        for field in cls.parameters():
            text = texts.get(field.name, "")
            if text.strip() and not field.python:
                values[field.name] = field.form.read(text, field.option)
            elif field.required:
                raise InvalidInputError(f"is missing{cls.such_as(field.name)}", field.name)
        return cls(**values)

    @classmethod
    def subject(cls) -> str | None:
        """Return the field that is passed by position: the columns, the column or the formula.

        Returns
        -------
        str or None

        Examples
        --------
        >>> from discreet import Regress
        >>> Regress.subject()
        'formula'
        """
        return next((field.name for field in fields(cls) if not field.kw_only), None)

    def python(self, data: str, **more: str) -> str:
        """Return this question as a call in Python.

        Parameters
        ----------
        data : str
            The expression for the data.
        **more : str
            Further keyword arguments, each as the text of an expression.

        Returns
        -------
        str

        Examples
        --------
        >>> from discreet import Mean
        >>> print(Mean("age", epsilon=0.5).python("'survey.csv'", schema="schema"))
        discreet.mean(
            'survey.csv',
            'age',
            epsilon=0.5,
            schema=schema,
        )
        """
        explicit, subject = self.explicit_fields(), self.subject()
        place = explicit.pop(subject, None) if subject is not None else None
        several = isinstance(place, tuple)
        first = [] if place is None else [repr(value) for value in (place if several else (place,))]
        arguments = [f"{name}={value!r}" for name, value in explicit.items()]
        arguments += [f"{name}={text}" for name, text in more.items()]
        return (
            f"discreet.{self.kind}(\n"
            + "".join(f"    {argument},\n" for argument in [data, *first, *arguments])
            + ")"
        )

    def arguments(self) -> list[str]:
        """Return this question as arguments of its command; the columns or the formula come last.

        Returns
        -------
        list of str
        """
        written = {field.name: field for field in self.parameters() if not field.python}
        texts = {k: written[k].form.write(v) for k, v in self.explicit_fields().items() if k in written}
        subject = self.subject()
        place = texts.pop(subject, None) if subject is not None else None
        last = [] if place is None else [place]
        if last and written[str(subject)].form.name == "names":
            last = list(getattr(self, str(subject)))
        options = [f"{written[name].option}={text}" for name, text in texts.items()]
        return [*options, *(["--"] if any(word.startswith("-") for word in last) else []), *last]


def check_question(question: Any) -> None:
    """Raise an error if a value is not a question, such as the name of a column.

    Parameters
    ----------
    question : object
        The value to check.

    Raises
    ------
    InvalidInputError
        If it is not a :class:`Question`.

    Examples
    --------
    >>> from discreet import Proportions
    >>> check_question(Proportions("smoker"))
    """
    if not isinstance(question, Question):
        raise InvalidInputError(
            "question must be a question such as discreet.Proportions('smoker'), "
            f"not {type(question).__name__}"
        )


def question_of(kind: Any, values: Mapping[str, Any], where: str = "") -> Question:
    """Return the question of a kind with the given fields.

    Parameters
    ----------
    kind : str
        The kind, such as ``"proportions"``.
    values : mapping
        The fields by name.
    where : str
        Where they were read, for messages.

    Returns
    -------
    Question

    Raises
    ------
    InvalidInputError
        If the kind or a field is unknown.

    Examples
    --------
    >>> question_of("mean", {"column": "age", "epsilon": 1}).exact_epsilon
    Fraction(1, 1)
    """
    if not isinstance(kind, str) or kind not in QUESTIONS:
        prefix = f"{where}: " if where else ""
        raise InvalidInputError(f"{prefix}kind {kind!r} is unknown{nearest(kind, QUESTIONS)}")
    question: Question = QUESTIONS[kind].of(values, where)
    return question
