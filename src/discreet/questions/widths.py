"""Expected precision of answers: guesses about the records, and the resulting interval widths."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import median
from typing import Any, NamedTuple

from discreet._declarations import as_float
from discreet.errors import InvalidInputError
from discreet.schema import Declaration

POINTS = "points"
"""The unit of shares, whose widths are shown in percentage points."""
RECORDS = "records"
"""The unit of numbers of records."""
NOTABLE_RATIO = 1.25
"""The ratio of the largest to the least simulated width from which on a plan states both."""
DEFAULT_MISSING_RATE = 0.1
"""The default guess of the share of records without a value, where these are left out."""


@dataclass(frozen=True)
class Guess(Declaration):
    """Assumptions about the records that a plan simulates.

    Parameters
    ----------
    typical : float, optional
        For one record: the standard deviation of a number or of the errors of a Gaussian model, the share of
        a value or of a binomial model's second value, or the mean count of a Poisson model.
    correlation : float
        The correlation between the columns of a regression.
    spread : float, optional
        The standard deviation of numbers as a fraction of their range.
    left_out : float, optional
        The share of records without a value, where these are left out.
    shares : mapping, optional
        The shares of the values of a category by column: ``{"marital": (0.5, 0.3, 0.2)}``.

    Raises
    ------
    InvalidInputError
        If a value is outside its range.

    Examples
    --------
    >>> Guess(typical=0.3).missing_rate
    0.1
    >>> Guess(spread=0.7)
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidInputError: spread=0.7 must be between 0 and 0.5, as a fraction of the range
    """

    typical: float | None = None
    correlation: float = 0.0
    spread: float | None = None
    left_out: float | None = None
    shares: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.typical is not None and not math.isfinite(as_float(self.typical)):
            raise InvalidInputError("must be a number, such as 0.3", "typical", self.typical)
        if not 0 <= as_float(self.correlation) < 1:
            raise InvalidInputError(
                "must be at least 0 and below 1, such as 0.3", "correlation", self.correlation
            )
        if self.spread is not None and not 0 < as_float(self.spread) < 0.5:
            raise InvalidInputError(
                "must be between 0 and 0.5, as a fraction of the range", "spread", self.spread
            )
        if self.left_out is not None and not 0 <= as_float(self.left_out) < 1:
            raise InvalidInputError(
                "must be a share of at least 0 and below 1, such as 0.1", "left_out", self.left_out
            )
        for column, shares in self.shares.items():
            if not all(0 <= share <= 1 for share in shares) or not math.isclose(sum(shares), 1, abs_tol=1e-6):
                raise InvalidInputError(
                    f"shares of {column!r} must be between 0 and 1 and add up to 1: {shares!r}"
                )

    @property
    def missing_rate(self) -> float:
        """The share of records without a value."""
        return DEFAULT_MISSING_RATE if self.left_out is None else float(self.left_out)

    def number_answered(self, n: int, leaves_out: bool) -> int:
        """Return how many of n records have a value.

        Parameters
        ----------
        n : int
            The number of records.
        leaves_out : bool
            Whether records without a value are left out; otherwise all n count.

        Returns
        -------
        int

        Examples
        --------
        >>> Guess(left_out=0.2).number_answered(1000, leaves_out=True)
        800
        """
        return max(1, n - round(self.missing_rate * n)) if leaves_out else n

    def deviation(self, width: float) -> float:
        """Return the guessed standard deviation of values; by default a quarter of their range.

        Parameters
        ----------
        width : float
            The upper bound minus the lower.

        Returns
        -------
        float

        Raises
        ------
        InvalidInputError
            If the bounds do not allow such a standard deviation.

        Examples
        --------
        >>> Guess().deviation(80), Guess(typical=12).deviation(80)
        (20.0, 12.0)
        """
        deviation = width / 4 if self.typical is None else float(self.typical)
        if not 0 < deviation <= width / 2:
            raise InvalidInputError(
                "must be a standard deviation that the bounds allow", "typical", self.typical
            )
        return deviation

    def notes(self, leaves_out: bool, regression: bool = False) -> tuple[tuple[str, str], ...]:
        """Return the assumptions that matter for a question, in words.

        Parameters
        ----------
        leaves_out : bool
            Whether records without a value are left out.
        regression : bool
            Whether the question is a regression.

        Returns
        -------
        tuple of (str, str)

        Raises
        ------
        InvalidInputError
            If a guess was given that the question does not use.

        Examples
        --------
        >>> Guess(left_out=0.2).notes(leaves_out=True)
        (('Guessed share of records without a value', '20 %'),)
        """
        if self.left_out is not None and not leaves_out:
            raise InvalidInputError(
                "is about records without a value: declare missing='exclude' too", "left_out", self.left_out
            )
        if not regression and (self.correlation or self.spread is not None or self.shares):
            raise InvalidInputError(
                "correlation, spread and shares are guesses for a regression: leave them out here"
            )
        return (("Guessed share of records without a value", f"{100 * self.missing_rate:g} %"),) * leaves_out


class PlannedWidth(NamedTuple):
    """Expected half-widths of intervals, from simulated records.

    Parameters
    ----------
    names : tuple of str
        The name of the quantity that each interval is for.
    widths : tuple of float
        Half of the width of each interval.
    noise_shares : tuple of float
        The share of each variance that is due to the noise.
    notes : tuple of (str, str)
        The assumptions, as pairs of label and text.
    warnings : tuple of str
        Warnings about the simulated answer.
    unit : str
        The unit of the widths.
    assumed : str
        How the records were simulated.

    Examples
    --------
    >>> planned = PlannedWidth(("Intercept", "age"), (3.0, 0.2), (0.1, 0.4))
    >>> planned.names[planned.widest]
    'age'
    """

    names: tuple[str, ...]
    widths: tuple[float, ...]
    """The expected half-widths."""
    noise_shares: tuple[float, ...]
    """The share of each variance that is due to the noise."""
    notes: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()
    unit: str = "coefficients"
    assumed: str = "simulated records spread over the bounds"
    ranges: tuple[tuple[float, float], ...] = ()
    """The least and the largest half of each interval, where they differ by chance."""

    @property
    def scale(self) -> int:
        """The factor by which widths are multiplied for display."""
        return 100 if self.unit == POINTS else 1

    @property
    def widest(self) -> int:
        """The index of the widest interval, not counting the intercept."""
        return max(range(len(self.names)), key=lambda j: (self.names[j] != "Intercept", self.widths[j]))

    @staticmethod
    def typical(simulated: Sequence[PlannedWidth]) -> PlannedWidth:
        """Return the medians of several simulations, with a note where the widths vary by chance.

        Parameters
        ----------
        simulated : sequence of PlannedWidth
            The simulations.

        Returns
        -------
        PlannedWidth

        Examples
        --------
        >>> trials = [PlannedWidth(("age",), (half,), (0.5,)) for half in (3.0, 4.0, 9.0)]
        >>> PlannedWidth.typical(trials).widths, PlannedWidth.typical(trials).notes
        ((4.0,), (('Chance', 'in 3 simulated answers the half-width of age was between 3 and 9'),))
        """
        columns = list(zip(*(planned.widths for planned in simulated), strict=True))
        shares = zip(*(planned.noise_shares for planned in simulated), strict=True)
        ranges = tuple((min(column), max(column)) for column in columns)
        planned = simulated[0]._replace(
            widths=tuple(map(median, columns)),
            noise_shares=tuple(map(median, shares)),
            warnings=tuple(dict.fromkeys(text for planned in simulated for text in planned.warnings)),
        )
        if all(most <= NOTABLE_RATIO * least for least, most in ranges):
            return planned
        least, most = (f"{planned.scale * half:.3g}" for half in ranges[planned.widest])
        of = f"in {len(simulated)} simulated answers the half-width of {planned.names[planned.widest]}"
        note = ("Chance", f"{of} was between {least} and {most}")
        return planned._replace(ranges=ranges, notes=(*planned.notes, note))


def as_within(within: Any, unit: str) -> float:
    """Return a wanted half-width as a number.

    Parameters
    ----------
    within : number or str
        The half-width in the unit; for shares also a text such as ``"3 points"``.
    unit : str
        The unit of the answer: :data:`POINTS` for shares.

    Returns
    -------
    float

    Raises
    ------
    InvalidInputError
        If it is not a positive number, or is 50 points or more.

    Examples
    --------
    >>> as_within("3 points", POINTS)
    0.03
    >>> as_within(2.5, "years")
    2.5
    """
    text = str(within).strip().removeprefix("±").strip()
    parts = re.fullmatch(r"([0-9.eE+-]+)\s*(points?|%|pp)?", text)
    try:
        value = float(parts[1]) if parts else -1.0
    except ValueError:
        value = -1.0
    if parts and parts[2]:
        if unit != POINTS:
            raise InvalidInputError(f": points are for shares; give a number of {unit}", "within", within)
        value /= 100
    elif unit == POINTS and 1 <= value < 50:
        value /= 100  # as a share it would be more than all
    if not value > 0 or isinstance(within, bool):
        raise InvalidInputError(
            "must be a positive number, such as '3 points' for ± 3 points", "within", within
        )
    if unit == POINTS and value >= 0.5:
        raise InvalidInputError(
            ": for a share it must be below 50 points, such as '3 points', 3 or 0.03", "within", within
        )
    return value


def round_digits(
    value: float | Fraction, to: Callable[[Fraction], int] = math.ceil, digits: int = 3
) -> Fraction:
    """Round a positive number to a few significant digits.

    Parameters
    ----------
    value : float or Fraction
        The number.
    to : callable
        ``math.ceil`` rounds up, ``math.floor`` down.
    digits : int
        The number of significant digits.

    Returns
    -------
    Fraction

    Examples
    --------
    >>> round_digits(Fraction(1, 3)), round_digits(Fraction(1, 3), math.floor)
    (Fraction(167, 500), Fraction(333, 1000))
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) - digits + 1)
    return to(Fraction(value) / unit) * unit
