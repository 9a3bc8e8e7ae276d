"""What a question may hold so that the studio answers it within seconds: by its fields, not by its kind.

The command line and Python do not have these limits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from discreet.declarations import as_epsilon
from discreet.errors import InvalidInput, TooLargeError
from discreet.mechanisms import automatic
from discreet.questions.base import Parameter, Question

MAX_TEXT = 4000
"""Characters of one field."""
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
    _check_budget(question)
    if getattr(question, "selection", None) is not None:  # what is published decides how long it takes
        return
    fields = {one.name: one for one in question.parameters()}
    shares = getattr(question, "k", None)
    if shares is None:
        sizes = [
            abs(x) for name in ("prior", "bounds", "sigma") for x in _numbers(getattr(question, name, ()))
        ]
        if max(sizes, default=0) > MAX_RATIO * min(filter(None, sizes), default=1):
            raise TooLargeError("the numbers are too far apart: doubles do not tell finer ones apart")
    else:
        groups = [
            len(value)
            for name, value in question.stated().items()
            if fields[name].form.name == "levels" and name != "levels"
        ]
        if shares > MAX_SHARES or shares * math.prod(groups) > 2 * MAX_SHARES:
            raise TooLargeError(
                f"at most {MAX_SHARES} shares here, and {2 * MAX_SHARES} in all groups together; the command "
                "line has no such limit"
            )
        prior = getattr(question, "exact_prior", (1.0,))
        if max(prior) > MAX_PRIOR or min(prior) < MIN_PRIOR:
            raise TooLargeError(f"Prior: here a parameter may be between {MIN_PRIOR:g} and {MAX_PRIOR:,.0f}")
    if question.declared_size is not None:
        check_size(question, question.declared_size)


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


def _check_budget(question: Question) -> None:
    if not hasattr(question, "epsilon"):
        return
    if question.epsilon is None:
        raise InvalidInput("epsilon is missing: say how much of the budget this release may spend")
    epsilon, records = check_epsilon(question.epsilon), getattr(question, "per_person", None) or 1
    if epsilon / records < MIN_EPSILON:
        raise TooLargeError(
            f"ε = {float(epsilon):g} for a person with {records} records leaves less than "
            f"{float(MIN_EPSILON):g} for each: take fewer records per person, or a larger ε"
        )


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
