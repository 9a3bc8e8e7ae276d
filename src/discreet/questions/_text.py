"""The text form of the values of questions, in options, forms and reports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from discreet._declarations import as_epsilon
from discreet._json import as_json
from discreet._registry import QUESTIONS
from discreet._text import amount
from discreet.errors import InvalidInputError


def number_text(value: float) -> str:
    """Return the shortest usual text of a number that reads back exactly."""
    short = f"{value:.15g}"
    return short if float(short) == value else repr(value)


def plain(value: Any) -> Any:
    """Return a value as JSON; values that JSON does not have become text."""
    if hasattr(value, "item") and not isinstance(value, Mapping | Sequence):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def words(value: Any) -> str:
    """Return a value in words, for a reader."""
    if isinstance(value, Mapping):
        return "; ".join(f"{key} ({words(item)})" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number_text(value) if isinstance(value, float) else str(value)


def entries(text: str, name: str) -> list[str]:
    """Return the entries of a text, separated by commas or by lines."""
    if "\n" in text.strip():
        return [line.strip() for line in text.splitlines() if line.strip()]
    parts = [part.strip() for part in text.split(",")]
    if "" in parts:
        raise InvalidInputError(f"{name} {text!r} has an empty entry; separate entries by single commas")
    return parts


def _numbers(text: str, name: str) -> tuple[float, ...]:
    parts = entries(text, name)
    try:
        return tuple(float(part) for part in parts)
    except ValueError:
        raise InvalidInputError(f"{name} {text!r} must be a number, or numbers separated by commas") from None


def _number(text: str, name: str) -> float:
    return _numbers_of_length(1, "one number", text, name)[0]


def _pair(text: str, name: str) -> tuple[float, ...]:
    return _numbers_of_length(2, "two numbers, the smaller first, such as 0,120", text, name)


def _numbers_of_length(length: int, expected: str, text: str, name: str) -> tuple[float, ...]:
    values = _numbers(text, name)
    if len(values) != length:
        raise InvalidInputError(f"{name} {text!r} must be {expected}")
    return values


def _one_or_more(text: str, name: str) -> float | tuple[float, ...]:
    values = _numbers(text, name)
    return values[0] if len(values) == 1 else values


def _whole(text: str, name: str) -> int:
    if not re.fullmatch(r"[0-9]{1,30}|[0-9]{1,3}(,[0-9]{3}){1,9}", text.strip()):
        raise InvalidInputError(f"{name} {text!r} must be a whole number")
    return int(text.strip().replace(",", ""))


def _wholes(text: str, name: str) -> tuple[int, ...]:
    return tuple(_whole(part, name) for part in entries(text, name))


def _flag(text: str, name: str) -> bool:
    if text.strip().lower() not in ("yes", "no", "true", "false"):
        raise InvalidInputError(f"{name} {text!r} must be yes or no")
    return text.strip().lower() in ("yes", "true")


def _mapping_text(text: str, name: str) -> dict[str, str]:
    """Read ``name=…; name=…``, or one on each line."""
    texts: dict[str, str] = {}
    for part in re.split(r"[;\n]", text):
        if part.strip():
            key, equals, value = part.partition("=")
            if not equals or not key.strip() or key.strip() in texts:
                raise InvalidInputError(f"{name} {text!r} must be name=…, several separated by semicolons")
            texts[key.strip()] = value.strip()
    return texts


def _arrows(text: str, name: str) -> dict[str, tuple[str, ...]]:
    """Read names with their parents, of which there may be none."""
    named = _mapping_text(text, name)
    return {column: tuple(entries(parents, name)) if parents else () for column, parents in named.items()}


def _limits(text: str, name: str) -> dict[str, tuple[float, ...]]:
    return {column: _pair(ends, f"{name}, {column}") for column, ends in _mapping_text(text, name).items()}


def _options(text: str, name: str) -> dict[str, Any]:
    """Read options with their values, as numbers where possible and otherwise as text."""
    options: dict[str, Any] = {}
    for option, value in _mapping_text(text, name).items():
        try:
            options[option] = _one_or_more(value, name)
        except InvalidInputError:
            options[option] = value
    return options


def _written(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={_written(item)}" for key, item in value.items())
    if isinstance(value, str) or not isinstance(value, Iterable):
        return number_text(value) if isinstance(value, float) else str(value)
    return ",".join(map(_written, value))


def _plain_numbers(value: Any) -> Any:
    """Return plain numbers, one number if all are equal."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        numbers = [float(item) for item in value]
        return numbers[0] if len(set(numbers)) == 1 else numbers
    return float(value)


def _exact(value: Any) -> str:
    return str(Fraction(0) if value == 0 else as_epsilon(value))


@dataclass(frozen=True)
class TextForm:
    """The conversions of a value between Python, text and JSON.

    ``read`` takes a text and the parameter's name, ``write`` returns a text, and ``plain`` a JSON value.

    Equal values have equal JSON forms, so that 1, 1.0 and "1" are one request in a ledger. ``name`` says
    which kind of field a form shows.
    """

    name: str
    read: Callable[[str, str], Any] = lambda text, _: text.strip()
    write: Callable[[Any], str] = str
    plain: Callable[[Any], Any] = plain

    def describe(self, value: Any) -> str:
        """Return a value in words, for a reader."""
        if self.name == "budget" and value:
            return amount(as_epsilon(value))
        return f"{value:,}" if self.name == "whole" and isinstance(value, int) else words(value)


TEXT = TextForm("text")
BUDGET = TextForm("budget", plain=_exact)
NUMBER = TextForm("number", _number, number_text, float)
WHOLE = TextForm("whole", _whole, plain=int)
NUMBERS = TextForm("numbers", _one_or_more, _written, _plain_numbers)
SERIES = TextForm("numbers", _numbers, _written, lambda value: as_json(tuple(map(float, value))))
WHOLES = TextForm("numbers", _wholes, _written, lambda value: [int(item) for item in value])
NAMES = TextForm("names", lambda text, name: tuple(entries(text, name)), _written)
ARROWS = TextForm("domains", _arrows, _written)
LIMITS = TextForm("limits", _limits, _written)
OPTIONS = TextForm("options", _options, _written)
FLAG = TextForm("flag", _flag, words, bool)


@dataclass(frozen=True)
class Parameter:
    """The meaning of one field of a question, for forms, options and reports.

    Parameters
    ----------
    form : TextForm
        How the value is read from text and written.
    help : str
        One sentence for ``--help`` and forms.
    label : str
        The name that a reader sees.
    example : str
        A value as it is written in text.
    python : bool
        Whether the value cannot be written as text, so that only Python accepts it.
    name : str
        The name of the field.
    required : bool
        Whether the field has no default.
    default : optional
        The value of a field that is left out.
    choices : tuple of str
        The values that are allowed, if they are limited.

    Examples
    --------
    >>> from discreet.questions.proportions import Proportions
    >>> columns = Proportions.parameters()[0]
    >>> columns.name, columns.label, columns.option
    ('columns', 'Columns', '--columns')
    """

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
        """The name of the option on the command line."""
        return "--" + self.name.replace("_", "-")


def parameter(
    form: TextForm,
    help: str,
    *,
    default: Any = MISSING,
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
        The default value; without one the field is required.
    choices : tuple of str, or a function that returns it
        The values that are allowed.
    kw_only : bool
        Whether it can be passed by name only.
    **details
        ``label``, ``example`` and ``python`` of :class:`Parameter`.
    """
    metadata = {"parameter": Parameter(form, help, **details), "choices": choices}
    return field(default=default, metadata=metadata, kw_only=kw_only)


optional = partial(parameter, default=None)
"""Declare an optional field, whose default is None."""


_ELSEWHERE = ("question", "plan", "epsilon", "delta", "target")  # the title, and the price in exact numbers


def plan_in_words(plan: Mapping[str, Any]) -> str:
    """Describe a plan in one line: a title, and the label and text of each parameter besides the price.

    A plan of 0.1.0, or of an unknown question, is described by the names of its fields.
    """
    kind = str(plan.get("question", "question"))
    title, labels = kind.capitalize(), {}
    if kind in QUESTIONS and "plan" in plan:
        title = QUESTIONS[kind].title
        labels = {field.name: field.label for field in QUESTIONS[kind].parameters()}
    parts = []
    for name in [*(name for name in labels if name in plan), *(name for name in plan if name not in labels)]:
        label, text = labels.get(name, name.replace("_", " ").capitalize()), _value_text(plan[name])
        if text and name not in _ELSEWHERE:
            parts.append(f"{label[:1].lower()}{label[1:]}: {text}")
    return f"{title} – {'; '.join(parts)}" if parts else title


def _value_text(value: Any) -> str:
    """Return a value in words, without empty parts; the levels of a column follow its name."""
    if isinstance(value, Mapping):
        stated = {key: item for key, item in value.items() if _value_text(item)}
        column = stated.pop("column", None)
        if column is not None and set(stated) == {"levels"}:
            return f"{column} ({_value_text(stated['levels'])})"
        inside = ", ".join(f"{key} ({_value_text(item)})" for key, item in stated.items())
        return inside if column is None else f"{column} ({inside})"
    if isinstance(value, list | tuple):
        return ", ".join(_value_text(item) for item in value)
    return "" if value is None else words(value)
