"""Text fields of forms: read from an address, and turned into checked numbers.

Every question is a frozen dataclass whose fields are the fields of its form, so that an address says all of
it. The limits are such that one request is answered within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Self
from urllib.parse import urlencode

from discreet.declarations import as_epsilon, as_prior, as_size
from discreet.errors import InvalidInput, TooLargeError
from discreet.questions.text import SERIES, WHOLE

MAX_TEXT = 4000
MIN_EPSILON, MAX_EPSILON = Fraction(1, 1000), Fraction(20)
LARGEST = 1e9
"""Of the numbers of a mean."""
MIN_PRIOR, MAX_PRIOR = 1e-3, 1e6
MIN_DELTA = Fraction(1, 10**15)
"""Of δ·n."""


@dataclass(frozen=True)
class Fields:
    """Text fields of a form, as they stand in the address."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> Self:
        """The fields that the form has; what else an address holds is ignored."""
        known = {field.name: given[field.name] for field in fields(cls) if field.name in given}
        for name, value in known.items():
            if len(value) > MAX_TEXT:
                raise TooLargeError(f"{name} has {len(value)} characters; at most {MAX_TEXT} are read")
        return cls(**known)

    def query(self, **changes: str) -> str:
        """The address of this question, without the fields that are as they are anyway."""
        shown = replace(self, **changes)
        usual = type(self)()
        pairs = [(field.name, getattr(shown, field.name)) for field in fields(self)]
        return urlencode([(name, value) for name, value in pairs if value != getattr(usual, name)])


def read_numbers(text: str, name: str) -> list[float]:
    return list(SERIES.read(text, name))


def read_prior(text: str, k: int) -> tuple[float, ...]:
    values = read_numbers(text, "prior")
    prior = as_prior(values[0] if len(values) == 1 else values, k)
    if max(prior) > MAX_PRIOR or min(prior) < MIN_PRIOR:
        raise TooLargeError(
            f"prior={text!r}: here a parameter may be between {MIN_PRIOR:g} and {MAX_PRIOR:,.0f}"
        )
    return prior


def read_whole(text: str, name: str, most: int) -> int:
    whole: int = WHOLE.read(text, name)
    if name == "n":
        as_size(whole)
    elif whole < 1:
        raise InvalidInput(f"{name}={text!r} must be at least 1")
    if whole > most:
        raise TooLargeError(
            f"{name}={whole:,} is more than the {most:,} for which this page answers in seconds; the "
            "command line and Python have no such limit"
        )
    return whole


def read_epsilon(text: str) -> Fraction:
    if len(text) > 40:
        raise InvalidInput("epsilon must be a number such as 0.5 or 1/2")
    epsilon = as_epsilon(text.strip())
    if not MIN_EPSILON <= epsilon <= MAX_EPSILON:
        raise TooLargeError(
            f"epsilon={text!r}: here ε may be between {float(MIN_EPSILON):g} and {float(MAX_EPSILON):g}"
        )
    return epsilon


def read_delta(text: str, n: int) -> Fraction:
    if len(text) > 40:
        raise InvalidInput("delta must be a number such as 1e-6")
    try:
        delta = as_epsilon(text.strip(), "delta")
    except InvalidInput:
        raise InvalidInput(f"delta={text!r} must be a positive number far below 1/n, such as 1e-6") from None
    if not MIN_DELTA <= delta * n < 1:
        raise InvalidInput(f"delta={text!r} must be below 1/n, though not by fifteen digits, such as 1e-6")
    return delta


def read_bounds(text: str) -> tuple[float, float]:
    values = read_numbers(text, "bounds")
    if len(values) != 2 or not -LARGEST <= values[0] < values[1] <= LARGEST:
        raise InvalidInput(
            f"bounds={text!r} must be two numbers, the smaller first, such as 0, 120, up to {LARGEST:.0e}"
        )
    return values[0], values[1]


def read_sigma(text: str) -> float:
    values = read_numbers(text, "sigma")
    if len(values) != 1 or not 1 / LARGEST <= values[0] <= LARGEST:
        raise InvalidInput(f"sigma={text!r} must be one positive number")
    return values[0]


def read_normal(text: str) -> tuple[float, float]:
    """Mean and standard deviation of a normal prior."""
    values = read_numbers(text, "prior mean, sd")
    if len(values) != 2 or not abs(values[0]) <= LARGEST or not 1 / LARGEST <= values[1] <= LARGEST:
        raise InvalidInput("the prior of a mean is two numbers: its mean and its standard deviation")
    return values[0], values[1]
