"""How precise an answer is expected to be, in the unit in which people think of it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from discreet.errors import InvalidInput

POINTS = "points"
"""The unit of shares, of which widths are shown in percentage points."""
RECORDS = "records"
"""The unit of numbers of records."""
LEFT_OUT = 0.1
"""The share of records without a value that is guessed where these are left out, unless another is said."""


class Width(NamedTuple):
    """The expected half-width of an interval that accounts for the noise: ± so much."""

    half: float
    without: float | None
    """The same without privacy, where it is known."""
    unit: str = POINTS
    """``"points"``: a share, whose half-width is a fraction of 1. Else the name of a column."""
    assumed: str = ""
    """What was made up for the plan."""

    @property
    def scale(self) -> int:
        return 100 if self.unit == POINTS else 1

    def __str__(self) -> str:
        return f"± {self.scale * self.half:#.3g} {self.of}"

    @property
    def bare(self) -> str:
        """The same without privacy, as a text."""
        return "–" if self.without is None else f"± {self.scale * self.without:#.3g}"

    @property
    def of(self) -> str:
        """The unit in words."""
        return self.unit if self.unit in (POINTS, RECORDS) else f"in the unit of {self.unit}"


class Guess(NamedTuple):
    """What is guessed of the records of a rehearsal."""

    typical: float | None = None
    """Of one record: its standard deviation, its share, or its mean, as the question has it."""
    correlation: float = 0.0
    """Of the columns."""
    spread: float | None = None
    """Of numbers: their standard deviation as a part of their range."""
    left_out: float | None = None
    """The share of records without a value, where these are left out."""

    @property
    def lacking(self) -> float:
        return LEFT_OUT if self.left_out is None else self.left_out

    def answered(self, n: int, leaves_out: bool) -> int:
        """How many of n records are not left out."""
        return max(1, n - round(self.lacking * n)) if leaves_out else n

    def told(self, leaves_out: bool, columns: bool = False) -> tuple[tuple[str, str], ...]:
        """The guess in words, where it matters; an error where one was made that does not."""
        if self.left_out is not None and not leaves_out:
            raise InvalidInput(
                f"left_out={self.left_out!r} is about records without a value: say missing='exclude' too"
            )
        if not columns and (self.correlation or self.spread is not None):
            raise InvalidInput("correlation and spread are guesses about the columns of a regression")
        return (("Guessed share of records without a value", f"{100 * self.lacking:g}%"),) * leaves_out


NO_GUESS = Guess()


class Rehearsal(NamedTuple):
    """What an answer about made-up records tells beforehand, by name: half-widths, and the noise's shares."""

    names: tuple[str, ...]
    widths: tuple[float, ...]
    shares: tuple[float, ...]
    split: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    unit: str = "coefficients"
    assumed: str = "made-up records spread over the bounds"

    @property
    def scale(self) -> int:
        """What widths are multiplied by to be shown."""
        return 100 if self.unit == POINTS else 1

    @property
    def widest(self) -> int:
        """The place of the widest but the intercept."""
        return max(range(len(self.names)), key=lambda j: (self.names[j] != "Intercept", self.widths[j]))

    def width(self, at: int, unit: str, assumed: str) -> Width:
        """One of them, in its unit."""
        half = self.widths[at]
        return Width(half, half * math.sqrt(1 - self.shares[at]), unit, assumed)

    @staticmethod
    def mean(found: Sequence[Rehearsal]) -> Rehearsal:
        """The mean of several: of squared widths, and of shares."""
        squares = [[width**2 for width in one.widths] for one in found]
        return found[0]._replace(
            widths=tuple(math.sqrt(sum(column) / len(found)) for column in zip(*squares, strict=True)),
            shares=tuple(sum(column) / len(found) for column in zip(*(f.shares for f in found), strict=True)),
            warnings=tuple(dict.fromkeys(text for one in found for text in one.warnings)),
        )


def as_within(within: Any, unit: str) -> float:
    """A wanted half-width: a number in the unit, or for shares a text such as ``"3 points"``."""
    text = str(within).strip().removeprefix("±").strip()
    found = re.fullmatch(r"([0-9.eE+-]+)\s*(points?|%|pp)?", text)
    try:
        value = float(found[1]) if found else -1.0
    except ValueError:
        value = -1.0
    if found and found[2]:
        if unit != POINTS:
            raise InvalidInput(f"within={within!r}: points are for shares; here it is a number of {unit}")
        value /= 100
    elif unit == POINTS and 1 <= value < 50:
        value /= 100  # as a share it would be more than all
    if not value > 0 or isinstance(within, bool):
        raise InvalidInput(f"within={within!r} must be a positive number, such as '3 points' for ± 3 points")
    if unit == POINTS and value >= 0.5:
        raise InvalidInput(f"within={within!r} of a share must be below 50 points: '3 points', or 3, or 0.03")
    return value


def rounded(value: float | Fraction, to: Callable[[Fraction], int] = math.ceil, digits: int = 3) -> Fraction:
    """To a few significant digits, up or down."""
    unit = Fraction(10) ** (math.floor(math.log10(value)) - digits + 1)
    return to(Fraction(value) / unit) * unit
