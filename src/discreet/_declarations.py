"""Declarations made before any data are opened: relations, domains and numbers, all checked here."""

from __future__ import annotations

import math
import numbers
import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

from discreet._typing import EpsilonLike, FloatArray
from discreet.errors import InvalidInputError


class Relation(StrEnum):
    """Which pairs of datasets a guarantee protects.

    ``replace-one``: the same number of records n (public), one record differs. ``replace-person``: one
    person, with all their records, is replaced by another person; the number of records that enter is public.
    ``within-group``: the group of every record is public; the other values of one record, or of one person,
    differ. ``replace-one`` and ``replace-person`` imply it, because they protect the group as well.
    ``add-remove``: one dataset is the other with one record more. ``replace-nearby``: the same number of
    records n (public), one record differs, and its two values are no farther apart than the unit says.
    Records farther apart may be distinguished, so it is weaker than ``replace-one``.

    Nothing else is implied: a record that moves from one person to another changes two people.
    """

    REPLACE_ONE = "replace-one"
    REPLACE_PERSON = "replace-person"
    WITHIN_GROUP = "within-group"
    ADD_REMOVE = "add-remove"
    REPLACE_NEARBY = "replace-nearby"

    def implies(self, other: Relation) -> bool:
        """Return whether a guarantee for this relation also holds for ``other``, with the same ε and δ.

        Parameters
        ----------
        other
            The other relation.

        Returns
        -------
        bool
            True if it does.
        """
        within = other is Relation.WITHIN_GROUP and self in (Relation.REPLACE_ONE, Relation.REPLACE_PERSON)
        return self is other or within

    @property
    def against(self) -> str:
        """What a guarantee for this relation protects against, in words."""
        return _RELATION_WORDS[self][0]

    @property
    def rest(self) -> str:
        """What an attacker is assumed to know, in words."""
        return _RELATION_WORDS[self][1]


_RELATION_WORDS = {
    "replace-one": ("the replacement of any one record", "every record but one"),
    "replace-person": ("the replacement of any one person", "everything but the records of one person"),
    "within-group": (
        "the replacement of what any one record says, given its public group",
        "the group of every record, and every record but one",
    ),
    "replace-nearby": (
        "the replacement of any one record by one no farther away than the unit says",
        "every record but one, and roughly the value of that one",
    ),
    "add-remove": ("learning whether any one record is there at all", "every record but one"),
}


def as_relation(relation: Any) -> Relation:
    return Relation(as_choice(relation, Relation, "relation"))


def as_unit(unit: Any, relation: Relation) -> str | None:
    """Return the column that identifies the protected people; None for records, or if none is named.

    For ``replace-nearby`` it is the largest protected distance: ``"within 5"``.
    """
    if unit is None:
        if relation is Relation.REPLACE_NEARBY:
            raise InvalidInputError(
                "relation='replace-nearby' needs a unit that says how near: unit='within 5'"
            )
        return None
    if relation not in (Relation.REPLACE_PERSON, Relation.WITHIN_GROUP, Relation.REPLACE_NEARBY):
        raise InvalidInputError(
            "names the column that identifies people, and needs relation='replace-person'", "unit", unit
        )
    if not isinstance(unit, str) or not 0 < len(unit) <= 1000:
        raise InvalidInputError("must be the name of the column that identifies people", "unit", unit)
    return unit


EXCLUDE = "exclude"


@dataclass(frozen=True)
class Domain:
    """The declared set of values that one record may take: public, never read from the data.

    ``other`` is the level that receives values outside ``levels``; ``missing`` the one that receives null and
    NaN. Where they are None such a record is an error. ``missing="exclude"`` leaves missing values out, for
    shares of those who answered; their number is then private.
    """

    levels: Sequence[Any]
    other: Any = None
    missing: Any = None
    k: int = field(init=False, repr=False, compare=False)
    excludes_missing: bool = field(init=False, repr=False, compare=False)
    """Whether missing values are left out."""

    def __post_init__(self) -> None:
        levels = self.levels
        if isinstance(levels, str | bytes | set | frozenset | Mapping) or not isinstance(levels, Iterable):
            raise InvalidInputError(
                "must be a sequence in a fixed order, such as ('no', 'yes')", "levels", levels
            )
        levels = tuple(levels)
        object.__setattr__(self, "levels", levels)
        if len(levels) < 2:
            raise InvalidInputError(
                f"has {len(levels)} level(s); a proportion needs at least two: "
                "declare every value that a record may take, not only those that occur",
                "levels",
                levels,
            )
        if any(level is None or (isinstance(level, float) and level != level) for level in levels):
            raise InvalidInputError(
                "holds a missing value; map missing values with missing=LEVEL instead", "levels", levels
            )
        printed: set[str] = set()
        stripped: set[str] = set()
        equal: set[Any] = set()
        plainly = {type(level) for level in levels} == {str} and len(set(map(str.strip, levels))) == len(
            levels
        )
        for level in () if plainly else levels:
            try:
                again = str(level) in printed or level in equal
                equal.add(level)
            except TypeError:
                raise InvalidInputError(f"level {level!r} must be text, a number or a truth value") from None
            if again:
                raise InvalidInputError(
                    f"names {level!r} twice; every level must be distinct", "levels", levels
                )
            if str(level).strip() in stripped:
                raise InvalidInputError(
                    f": {level!r} differs from another level only in white space; remove one",
                    "levels",
                    levels,
                )
            printed.add(str(level))
            stripped.add(str(level).strip())
        for name, target in (("other", self.other), ("missing", self.missing)):
            if target is not None and target not in levels and not (name == "missing" and target == EXCLUDE):
                raise InvalidInputError(
                    f"is not one of levels={levels!r}: add it there, or name one of them", name, target
                )
        if plainly:
            object.__setattr__(self, "texts", {level: i for i, level in enumerate(levels)})
        object.__setattr__(self, "k", len(levels))
        object.__setattr__(self, "excludes_missing", self.missing == EXCLUDE and EXCLUDE not in levels)

    @cached_property
    def texts(self) -> dict[Any, int]:
        """For records that are text: the position of the level that they equal."""
        return self._reading(_as_text)

    @cached_property
    def numbers(self) -> dict[Any, int]:
        """For records that are numbers: the position of the level that they equal.

        If two levels stand for the same number, such as ``"1"`` and ``"01"``, numbers match neither of them,
        whatever the records are.
        """
        return self._reading(_as_number)

    @cached_property
    def truths(self) -> dict[Any, int]:
        """For records that are truth values: the position of the level that they equal."""
        return self._reading(_as_truth)

    def _reading(self, read: Callable[[Any], Any]) -> dict[Any, int]:
        table: dict[Any, int] = {}
        twice = set()
        for position, level in enumerate(map(as_plain, self.levels)):
            value = read(level)
            if value is not None and table.setdefault(value, position) != position:
                twice.add(value)
        return {value: position for value, position in table.items() if value not in twice}


@dataclass(frozen=True)
class BinnedDomain(Domain):
    """The bins of a number as the levels of a domain: [e₀, e₁), [e₁, e₂), …, the last one closed.

    ``missing`` is ``"missing"`` where such values have a level of their own; ``outside`` whether numbers
    beyond the edges have one, too: else they are clipped. ``points`` are the positions of bins that contain
    a single value.
    """

    edges: tuple[float, ...] = ()
    outside: bool = False
    points: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, edges: Sequence[float], missing: str | None, outside: bool = False, points: Sequence[int] = ()
    ) -> BinnedDomain:
        """Build the domain of these edges; ``missing`` is None, ``"exclude"`` or ``"missing"``."""
        names = [f"[{a:.15g}, {b:.15g})" for a, b in pairwise(edges)]
        names[-1] = names[-1][:-1] + "]"
        for place in points:
            names[place] = f"{edges[place]:.15g}"
        extra_levels = [*(["outside"] if outside else []), *(["missing"] if missing == "missing" else [])]
        return cls((*names, *extra_levels), None, missing, tuple(edges), outside, tuple(points))


_NUMERAL = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)


def as_plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value it stands for, and anything else as it is."""
    numpy = sys.modules.get("numpy")
    return value.item() if numpy is not None and isinstance(value, numpy.generic) else value


def comparable(value: Any) -> Any:
    """Return a number that compares by value; a decimal as the nearest double, as in all engines."""
    if isinstance(value, float | Decimal):
        value = float(value)
        return value if math.isfinite(value) else None
    return value


def _as_text(level: Any) -> str:
    return level if isinstance(level, str) else str(level)


def _as_number(level: Any) -> Any:
    if isinstance(level, str) and len(level) <= 400 and _NUMERAL.fullmatch(level):
        return float(level) if "." in level else int(level)
    return comparable(level) if isinstance(level, numbers.Real | Decimal) else None


def _as_truth(level: Any) -> bool | None:
    if isinstance(level, str):
        return {"true": True, "false": False}.get(level.lower())
    return bool(level) if isinstance(level, numbers.Real | Decimal) and level in (0, 1) else None


def as_epsilon(value: EpsilonLike | None, name: str = "epsilon") -> Fraction:
    """Return the privacy budget as an exact rational; a float means its printed decimal: 0.1 is 1/10."""
    if value is None:
        raise InvalidInputError("is missing: give the privacy budget, such as 0.5", name)
    if isinstance(value, bool) or not isinstance(value, numbers.Real | Decimal | str):
        raise InvalidInputError(
            "must be a number, a string such as '0.8' or '4/5', or a Fraction", name, value
        )
    exact: Fraction | None = None
    try:
        if isinstance(value, str) and value.strip("+- ").lower() in ("nan", "inf", "infinity"):
            approximate = math.nan
        elif isinstance(value, str):
            first, *rest = (_exact(part.strip(" ")) for part in value.split("/"))
            if len(rest) > 1:
                raise ValueError
            exact = first / rest[0] if rest else first
            approximate = float(exact)
        else:
            approximate = float(value)
    except (ValueError, ZeroDivisionError):
        raise InvalidInputError("is not a number; write it like 0.8 or 4/5", name, value) from None
    except OverflowError:
        approximate = math.inf
    if math.isnan(approximate) or math.isinf(approximate):
        raise InvalidInputError("must be finite; a usual choice is between 0.1 and 3", name, value)
    if approximate <= 0:
        raise InvalidInputError("must be positive; a usual choice is between 0.1 and 3", name, value)
    if approximate < 1e-300 and name == "epsilon":  # noise has its reciprocal as scale
        raise InvalidInputError("must be at least 1e-300; a usual choice is between 0.1 and 3", name, value)
    if exact is not None:
        return exact
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    if isinstance(value, Decimal):
        return Fraction(value)
    return Fraction(str(value))  # the decimal that it prints as, also for a float of half the length


_MAX_NUMBER_CHARACTERS = 8192
_EXACT = re.compile(r"[+-]?(?:[0-9]+/[0-9]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?)")
_MAX_BITS = 1000
"""Binary places before or after the point: numbers are 0, or from 1e-300 to 1e300 in absolute value."""


def _exact(text: str) -> Fraction:
    """Parse a number of ASCII digits, with at most three digits of exponent and without underscores.

    Its length is checked first: the text ``"1e-99999999"`` stands for a number of a hundred million digits.
    """
    if len(text) > _MAX_NUMBER_CHARACTERS or not _EXACT.fullmatch(text):
        raise ValueError
    return Fraction(text)


def as_rational(
    value: Any, name: str, low: int | None = None, high: int | None = None, tiny: bool = False
) -> Fraction:
    """Parse an exact number from a document, within bounds; all exact numbers are parsed here.

    Parameters
    ----------
    value
        Text such as ``"1/3"`` or ``"2.5e-6"``, a whole number, or a fraction.
    name
        Name of the parameter in the message.
    low, high
        The least and the largest value that is allowed.
    tiny
        Whether numbers below 1e-300 are allowed: they are 0 as doubles, and occur only in sums of budgets.

    Returns
    -------
    Fraction
        The number.

    Raises
    ------
    InvalidInputError
        If it is not an exact number, or outside of the bounds.
    """
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | Fraction):
            raise TypeError
        number = _exact(value) if isinstance(value, str) else Fraction(value)
    except (TypeError, ValueError, ZeroDivisionError):
        raise InvalidInputError("must be an exact number such as '1/3' or '0.25'", name, value) from None
    size = number.numerator.bit_length() - number.denominator.bit_length()
    if size > _MAX_BITS:
        raise InvalidInputError(f"{name} must be a number below 1e300")
    if number and size < -_MAX_BITS and not (tiny or isinstance(value, Fraction)):
        raise InvalidInputError(f"{name} must be 0, or at least 1e-300 in absolute value")
    if (low is not None and number < low) or (high is not None and number > high):
        limits = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InvalidInputError(f"{name} must be {limits}")
    return number


def as_real(value: Any, name: str, low: float = -1e300, high: float = 1e300) -> float:
    """Return a number of a document, which must be a JSON number and not text, as a double within bounds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInputError("must be a number", name, value)
    if not low <= value <= high:
        raise InvalidInputError(f"{name} must be a number from {low:g} to {high:g}")
    return float(value)


def as_reals(values: Any, name: str) -> Any:
    """Return numbers of a document, in lists that may be nested, as an array of doubles."""
    import numpy as np

    def check_numbers(value: Any) -> Any:
        return [check_numbers(part) for part in value] if isinstance(value, list) else as_real(value, name)

    return np.array(check_numbers(values), dtype=np.float64)


def people_assumption(at_most: int, unit: str | None = None) -> str:
    """State the assumption of a guarantee for people: who is a person, and with how many records at most.

    :func:`people_bound` reads the number back.
    """
    who = "people have a key" if unit is None else f"{_IDENTIFIED}{unit!r}"
    return who + (_ONE_EACH if at_most == 1 else _SEVERAL_EACH.format(at_most))


def in_present_words(assumptions: Iterable[str]) -> list[str]:
    """Return assumptions in their present wording; 0.1 and 0.2 described people in other words."""
    return [text.replace("a person is who has the same ", _IDENTIFIED) for text in assumptions]


_IDENTIFIED = "people are identified by the column "
_ONE_EACH = "; the number of people is public"
_SEVERAL_EACH = "; a person enters with at most {} records, whose total number is public"
_AT_MOST = re.compile(re.escape(_SEVERAL_EACH).replace(r"\{\}", "([1-9][0-9]{0,17})"))


def people_bound(assumptions: Iterable[str], unit: str | None = None) -> int | None:
    """Return the number that :func:`people_assumption` states; None where nothing does.

    Documents of 0.1.0 name the column of people only there, so without a ``unit`` any column is accepted.
    """
    whom = _IDENTIFIED if unit is None else f"{_IDENTIFIED}{unit!r}"
    for text in in_present_words(assumptions):
        who, mark, rest = text.rpartition("; ")
        if who != whom and not (unit is None and (who == "people have a key" or who.startswith(whom))):
            continue
        if mark + rest == _ONE_EACH:
            return 1
        if match := _AT_MOST.fullmatch(mark + rest):
            return int(match[1])
    return None


def group_assumption(column: str) -> str:
    """Return the assumption that the group of every record is public."""
    return f"the {column!r} of every record, and with it the size of every group, is public"


def as_target_delta(delta: EpsilonLike, instead: str) -> Fraction:
    """Return the target δ, above 0 and below 1; ``instead`` names an alternative that needs none."""
    if delta in (0, "0"):
        raise InvalidInputError(
            "delta=0 cannot be reached: the ratio of two densities has no bound; give a delta such as 1e-6, "
            f"or {instead}"
        )
    try:
        probability = as_epsilon(delta, "delta")
    except InvalidInputError:
        probability = Fraction(1)
    if probability >= 1:
        raise InvalidInputError("must be a probability above 0 and below 1, such as 1e-6", "delta", delta)
    return probability


def as_prior(prior: float | Sequence[float], k: int | None = None) -> tuple[float, ...]:
    """Return Dirichlet prior parameters: k positive reals; one number stands for all k when k is known."""
    if isinstance(prior, numbers.Real):
        if k is None:
            raise InvalidInputError(
                "must be a sequence with one parameter per level, such as (1, 1)", "prior", prior
            )
        values: list[Any] = [prior] * k
    else:
        try:
            values = list(prior)  # type: ignore[arg-type]
        except TypeError:
            raise InvalidInputError(
                "must be a positive number or a sequence of them", "prior", prior
            ) from None
    try:
        if any(isinstance(value, str | bytes) for value in values):
            raise TypeError
        parameters = tuple(map(float, values))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError("must contain numbers only", "prior", prior) from None
    if k is not None and len(parameters) != k:
        raise InvalidInputError(f"has {len(parameters)} parameters for {k} levels", "prior", prior)
    if len(parameters) < 2:
        raise InvalidInputError(
            f"has {len(parameters)} parameter(s); at least two levels are needed", "prior", prior
        )
    different = set(parameters)  # often one, of a million
    if not all(0 < parameter < math.inf for parameter in different):
        raise InvalidInputError("must be positive and finite; 1 is uniform, 0.5 is Jeffreys'", "prior", prior)
    if max(different) > 1e100:
        raise InvalidInputError(": a parameter must be at most 1e100", "prior", prior)
    return parameters


def as_integer(value: Any, name: str) -> int:
    """Return an exact Python int from any integer type, or from a float that is whole."""
    if isinstance(value, bool):
        raise InvalidInputError("must be a whole number", name, value)
    try:
        return operator.index(value)
    except TypeError:
        pass
    if isinstance(value, numbers.Real) and math.isfinite(number := float(value)) and number.is_integer():
        if abs(number) > 2**53:
            raise InvalidInputError("is a float too large to be exact; give an int", name, value)
        return int(number)
    raise InvalidInputError("must be a whole number", name, value)


def as_float(value: Any) -> float:
    """Return a number as a double; NaN, which compares with nothing, for anything else."""
    try:
        return math.nan if isinstance(value, bool | str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def as_probability(value: Any, name: str = "level", example: str = "0.95") -> float:
    """Return a probability, or refuse a number that is not between 0 and 1."""
    if not 0 < (number := as_float(value)) < 1:
        raise InvalidInputError(f"must be between 0 and 1, such as {example}", name, value)
    return number


def as_choice(value: Any, choices: Iterable[Any], name: str) -> Any:
    """Return a value that is one of the choices."""
    if value not in (listed := list(choices)):
        choose = ", ".join(map(str, listed))
        raise InvalidInputError(f"must be one of: {choose}", name, value)
    return value


def as_positive(value: Any, name: str, why: str = "") -> int:
    """Return a whole number of at least 1; the message of the error ends with ``why``."""
    number = as_integer(value, name)
    if not 0 < number < 1 << _MAX_BITS:
        raise InvalidInputError(
            f"must be at least 1{why}" if number < 1 else "must be below 1e300", name, value
        )
    return number


def as_size(n: Any) -> int:
    """Return a number of records."""
    return as_positive(n, "n", ": there are no data to protect")


def as_counts(counts: Iterable[Any], k: int, n: int | None = None) -> tuple[int, ...]:
    """Return the counts of k levels as exact ints, after checking that none is negative and the sum is n."""
    if isinstance(counts, Mapping):
        raise InvalidInputError("counts must be a sequence in the order of the levels, not a mapping")
    # Here and below an error is raised where none is being handled: what quoted a private number would hang
    # behind it as its context, and be logged with it.
    values = _whole_numbers(counts)
    if values is None:
        raise InvalidInputError(f"counts must be a sequence of {k} whole numbers, one per level")
    if len(values) != k:
        raise InvalidInputError(f"counts has {len(values)} entries for {k} levels")
    if any(value < 0 for value in values):
        raise InvalidInputError("counts must not be negative")
    if n is not None and sum(values) != n:
        raise InvalidInputError(f"counts do not sum to the declared n={n}")
    return values


def _whole_numbers(counts: Iterable[Any]) -> tuple[int, ...] | None:
    try:
        if (
            getattr(getattr(counts, "dtype", None), "kind", "") in ("i", "u")
            and getattr(counts, "ndim", 0) == 1
        ):
            return tuple(counts.tolist())  # type: ignore[attr-defined]
        return tuple([c if type(c) is int else as_integer(c, "counts") for c in counts])
    except (InvalidInputError, TypeError):
        return None


def as_exact(value: Any, name: str) -> Fraction:
    """Return a finite real number as an exact rational (a float: its exact binary value)."""
    if isinstance(value, bool) or value is None:
        raise InvalidInputError(f"{name} must be a number")
    exact = _rational_value(value)
    if exact is None:
        raise InvalidInputError(f"{name} must be a finite number")
    return exact


def _rational_value(value: Any) -> Fraction | None:
    try:
        return None if isinstance(value, str) else Fraction(as_plain(value))
    except (TypeError, ValueError, OverflowError):
        return None


def as_numbers(data: Any) -> FloatArray:
    """Return public records as an array of doubles."""
    import numpy as np

    try:
        return np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError("public data must be a sequence of numbers") from None


_LARGEST_BOUND = 1e100
"""Squares of bounded values, and of their differences, are doubles."""


def as_bounds(
    bounds: Any, what: str, smallest: float = -math.inf, name: str = "bounds"
) -> tuple[float, float]:
    """Return declared bounds (low, high) of one record, low < high."""
    if bounds is None:
        raise InvalidInputError(
            f"bounds are missing: declare them for {what}, bounds=(low, high), from what is publicly known; "
            "they are never read from the data, because the extremes of the data would be released with them"
        )
    try:
        if any(isinstance(bound, str | bytes) for bound in bounds):
            raise TypeError
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError("must be two numbers (low, high)", name, bounds) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InvalidInputError("must be finite: noise cannot hide a record without bounds", name, bounds)
    if not low < high:
        raise InvalidInputError("must be (low, high) with low < high", name, bounds)
    if max(-low, high) > _LARGEST_BOUND or high - low < 1 / _LARGEST_BOUND:
        raise InvalidInputError(
            f"must lie within ±{_LARGEST_BOUND:g}, and {1 / _LARGEST_BOUND:g} or more apart", name, bounds
        )
    if low < smallest:
        raise InvalidInputError(f"for {what}: the lower bound must be at least {smallest:g}", name, bounds)
    return low, high


def as_total(statistic: Any, low: Fraction, high: Fraction) -> Fraction:
    """Return a sum of records that must lie between the declared bounds; the message does not quote it."""
    total = as_exact(statistic, "the statistic")
    if not low <= total <= high:
        raise InvalidInputError(
            f"the statistic lies outside [{float(low):g}, {float(high):g}], which is n times the bounds of "
            "one record: clip the records to the declared bounds before they are summed"
        )
    return total


MOST_STEPS = 2**16


def steps_between(low: float, high: float) -> int:
    """Return the number of steps of the grid between declared bounds.

    The step is the smallest of 1, 2 and 5 times a power of ten, of which both bounds are multiples, with an
    even number of at most 65,536 steps: values with no more decimals than the bounds lie on the grid, and are
    summed exactly. Bounds that allow none get 65,536 steps.

    Parameters
    ----------
    low, high : float
        The bounds; a float means its printed decimal, so 0.1 is 1/10.

    Returns
    -------
    int

    Examples
    --------
    >>> steps_between(0, 10)  # steps of 0.0002
    50000
    """
    ends = [Fraction(str(end)) for end in (low, high)]
    width = ends[1] - ends[0]
    power = math.floor(math.log10(width / MOST_STEPS))
    for step in (digit * Fraction(10) ** (power + k) for k in range(6) for digit in (1, 2, 5)):
        steps = width / step
        if steps <= MOST_STEPS and steps % 2 == 0 and all((end / step).denominator == 1 for end in ends):
            return int(steps)
    return MOST_STEPS
