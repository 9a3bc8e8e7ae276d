"""Coding of numbers as integers: points of a grid between declared bounds, or bins between declared edges.

A floating-point sum depends on the order of its terms, and so on the engine, and one record can change it by
more than the bounds imply (Casacuberta, Shoemate, Vadhan and Wagaman 2022, "Widespread underestimation of
sensitivity in differentially private libraries and how to fix it"). So each record is first rounded to a grid
of equally spaced points, on its own, in IEEE doubles; only integers are summed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, cast

from discreet._data.values import RANGES, Coder, words, wrong_type
from discreet._declarations import EXCLUDE, MOST_STEPS, as_integer, as_plain, steps_between
from discreet.errors import InvalidInputError

if TYPE_CHECKING:
    import narwhals as nw


@dataclass(frozen=True)
class ClippedSum:
    """The sum and sum of squares of n records, clipped to ``bounds`` and rounded to a grid with ``steps``.

    ``grid_sum`` and ``grid_squares`` are Σj and Σj² of the grid points j ∈ {0, …, steps}. They are integers,
    the same on every engine, and noise is added to them. Replacing m records changes them by at most m·steps
    and m·steps². ``bounds`` are exact: a float means its printed decimal, so 0.1 is 1/10.
    """

    n: int
    grid_sum: int
    grid_squares: int
    bounds: tuple[Fraction, Fraction]
    steps: int

    @property
    def step(self) -> Fraction:
        return (self.bounds[1] - self.bounds[0]) / self.steps

    @property
    def total(self) -> Fraction:
        """The exact sum of the rounded values lo + step·j; one record changes it by at most hi − lo."""
        return self.n * self.bounds[0] + self.step * self.grid_sum

    @property
    def squares(self) -> Fraction:
        """The sum of the squares (lo + step·j)² of the rounded values, exactly."""
        low, step = self.bounds[0], self.step
        return self.n * low**2 + 2 * low * step * self.grid_sum + step**2 * self.grid_squares


class Numbers(Coder):
    """The base of :class:`Grid` and :class:`Bins`: coders of numbers, for which text is invalid."""

    kinds: ClassVar = {"truth": "truth", "whole": "real", "huge": "real", "real": "real"}

    reach: tuple[float, float]
    """The smallest and the largest declared number that is finite."""

    def find(self, value: Any) -> int:
        if not isinstance(value, Real | Decimal):
            return self.invalid_code
        try:
            return self.place(float(value))
        except OverflowError:
            return self.place(math.inf if cast("Any", value) > 0 else -math.inf)

    @abstractmethod
    def place(self, number: float) -> int:
        """Return the code of a double that is not NaN."""

    @abstractmethod
    def locate(self, number: nw.Expr) -> Any:
        """Return an expression for the code of a number; its result for null and NaN is not used."""

    def expression(self, value: nw.Expr, dtype: Any) -> Any:
        nw = words(value)
        if dtype == nw.Unknown:  # which is also the type of a column of nulls
            return (
                nw.when(value.is_null()).then(nw.lit(self.missing_code)).otherwise(nw.lit(self.untyped_code))
            )
        if dtype == nw.Boolean:
            value = value.cast(nw.Int64)
        elif dtype.is_integer():
            # Engines differ in how they turn whole numbers of more than 53 bits into doubles, and some
            # refuse: what lies beyond all that is declared is moved just beyond it.
            lowest, highest = RANGES[str(dtype)]
            low = min(math.floor(self.reach[0]) - 1, highest)
            high = max(math.ceil(self.reach[1]) + 1, lowest)
            if low > lowest:
                value = nw.when(value < low).then(nw.lit(low)).otherwise(value)
            if high < highest:
                value = nw.when(value > high).then(nw.lit(high)).otherwise(value)
        elif not dtype.is_numeric():
            raise wrong_type(type(dtype).__name__, "summed or binned; turn it into numbers")
        number = value.cast(nw.Float64)
        missing = number.is_null() | number.is_nan()
        return nw.when(missing).then(nw.lit(self.missing_code)).otherwise(self.locate(number).cast(nw.Int64))

    def is_record(self, names: Sequence[str]) -> bool:
        return any(map(_is_number, names))


class Grid(Numbers):
    """The codes j = ⌊(clip(x) − lo)/(hi − lo)·steps + ½⌋ of numbers x, computed in IEEE doubles.

    Each operation is correctly rounded and hence monotone: j(x) ≤ j(y) if x ≤ y, and lo and hi have the codes
    0 and ``steps``. An infinite x is clipped. With ``integers``, x must be a whole number or ±∞, and j is
    clip(x) − lo.
    """

    invalid_reason = "a value that is not a number, or not a whole number with integers=True"
    hint = "repair or drop them before counting"
    missing_hint = "declare what they count as: missing=VALUE, within the bounds"

    def __init__(self, bounds: Any, steps: int | None, integers: bool, missing: Any) -> None:
        if isinstance(bounds, str | bytes) or not isinstance(bounds, Sequence) or len(bounds) != 2:
            raise InvalidInputError("must be a pair (lowest, highest) of public numbers", "bounds", bounds)
        low, high = (_exact(bound, "bounds", bounds) for bound in bounds)
        self.low, self.high = float(low), float(high)
        self.width = self.high - self.low
        if not 0 < self.width < math.inf:
            raise InvalidInputError(": the lowest value must be smaller than the highest", "bounds", bounds)
        self.bounds = (low, high)
        self.reach = (self.low, self.high)
        self.integers = integers
        if integers:
            if low.denominator != 1 or high.denominator != 1 or max(abs(low), abs(high)) > 2**52:
                raise InvalidInputError(
                    "must be whole numbers up to 2**52 for integers=True", "bounds", bounds
                )
            if steps is not None:
                raise InvalidInputError(
                    "cannot be used with integers=True, where each step is 1", "steps", steps
                )
            self.steps = int(high - low)
        else:
            self.steps = MOST_STEPS if steps is None else as_integer(steps, "steps")
        if not 1 <= self.steps <= MOST_STEPS:
            what = f"bounds={bounds!r}" if integers else f"steps={steps!r}"
            raise InvalidInputError(f"{what} must give 1 to {MOST_STEPS} steps")
        self.size = self.steps + 1
        self.invalid_code = self.size
        self.missing_code = self.size + 1
        if missing is not None:
            value = _exact(missing, "missing", missing)
            if not low <= value <= high or (integers and value.denominator != 1):
                raise InvalidInputError(f"must be a value within bounds={bounds!r}", "missing", missing)
            self.missing_code = self.place(float(value))

    def place(self, number: float) -> int:
        clipped = min(max(number, self.low), self.high)
        if not self.integers:
            return math.floor((clipped - self.low) / self.width * self.steps + 0.5)
        return int(clipped - self.low) if clipped == math.floor(clipped) else self.invalid_code

    def locate(self, number: nw.Expr) -> Any:
        nw = words(number)
        # Missing records as lo, because some engines fail on the whole number nearest to NaN.
        unusable = number.is_null() | number.is_nan() | (number < self.low)
        below = nw.when(unusable).then(nw.lit(self.low)).otherwise(number)
        clipped = nw.when(below > self.high).then(nw.lit(self.high)).otherwise(below)
        if not self.integers:
            return ((clipped - self.low) / self.width * self.steps + 0.5).floor()
        whole = clipped.floor()
        return nw.when(clipped == whole).then(whole - self.low).otherwise(nw.lit(float(self.invalid_code)))


class WeightGrid(Grid):
    """Codes of weights between 0 and the declared largest; larger weights have a code of their own."""

    invalid_reason = "an invalid weight: a negative number, or not a number"
    hint = "repair them before the survey is analysed"
    missing_hint = "every record needs a weight; with strict=False those without one are left out"

    def __init__(self, most: float, steps: int | None = None) -> None:
        super().__init__((0, most), steps or steps_between(0, most), False, None)
        self.size = self.steps + 2
        self.invalid_code, self.missing_code = self.size, self.size + 1

    def place(self, number: float) -> int:
        if number < 0:
            return self.invalid_code
        return self.steps + 1 if number > self.high else super().place(number)

    def locate(self, number: nw.Expr) -> Any:
        nw = words(number)
        above, below = nw.lit(float(self.steps + 1)), nw.lit(float(self.invalid_code))
        inside = nw.when(number > self.high).then(above).otherwise(super().locate(number))
        return nw.when(number < 0).then(below).otherwise(inside)


class Bins(Numbers):
    """The codes i of the bins e_i ≤ x < e_{i+1}; the last bin also contains its upper edge."""

    invalid_reason = "a value that is not a number, or is outside the declared edges"
    hint = "widen the edges, to ±inf at most, or say outside='clip' or outside='level'"
    missing_hint = "count them as a level of their own: missing='level'"

    def __init__(self, edges: Any, outside: str | None, missing: str | None) -> None:
        if isinstance(edges, str | bytes | set | frozenset) or not isinstance(edges, Iterable):
            raise InvalidInputError(
                "must be numbers in increasing order, such as (0, 18, 65, 120)", "edges", edges
            )
        edges = tuple(map(as_plain, edges))
        try:
            if any(isinstance(edge, bool) or not isinstance(edge, Real | Decimal) for edge in edges):
                raise TypeError
            self.edges = tuple(map(float, edges))
        except (TypeError, OverflowError):
            raise InvalidInputError("must be numbers, each a finite double or ±inf", "edges", edges) from None
        # As doubles, since that is what records are compared with; NaN is no edge.
        if len(edges) < 3 or not all(a < b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise InvalidInputError("must be at least three numbers in increasing order", "edges", edges)
        if outside not in (None, "clip", "level"):
            raise InvalidInputError("must be None, 'clip' or 'level'", "outside", outside)
        if missing not in (None, "level", EXCLUDE):
            raise InvalidInputError("must be None, 'level' or 'exclude'", "missing", missing)
        self.drops_missing = missing == EXCLUDE
        finite = [edge for edge in self.edges if math.isfinite(edge)]
        self.reach = (finite[0], finite[-1])
        self.clip = outside == "clip"
        self.bins = len(edges) - 1
        self.size = self.bins + (outside == "level") + (missing == "level")
        self.invalid_code = self.size  # text and the like is a mistake, and no level
        self.own_outside = outside == "level"
        self.missing_code = self.size - 1 if missing == "level" else self.size + 1

    def place(self, number: float) -> int:
        if not self.clip and not self.edges[0] <= number <= self.edges[-1]:
            return self.bins if self.own_outside else self.invalid_code
        return sum(number >= edge for edge in self.edges[1:-1])

    def locate(self, number: nw.Expr) -> Any:
        nw = words(number)

        def search(first: int, last: int) -> Any:
            """Return an expression for the bin among first, …, last, by bisection, to keep it shallow."""
            if first == last:
                return nw.lit(first)
            middle = (first + last + 1) // 2
            upper = number >= self.edges[middle]
            return nw.when(upper).then(search(middle, last)).otherwise(search(first, middle - 1))

        inner = search(0, self.bins - 1)
        if self.clip:
            return inner
        out = (number < self.edges[0]) | (number > self.edges[-1])
        return (
            nw.when(out).then(nw.lit(self.bins if self.own_outside else self.invalid_code)).otherwise(inner)
        )


def _is_number(text: str) -> bool:
    """Return whether a field of a CSV file is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _exact(number: Any, name: str, shown: Any) -> Fraction:
    """Return a declared number as an exact fraction: a float means its printed decimal, so 0.1 is 1/10."""
    number = as_plain(number)
    if isinstance(number, bool) or not isinstance(number, Real | Decimal):
        raise InvalidInputError("must be finite numbers, declared and public", name, shown)
    try:
        if math.isfinite(number):
            return Fraction(str(number) if isinstance(number, float) else cast("Any", number))
    except OverflowError:
        pass
    raise InvalidInputError("must be finite doubles; no bound is read from the data", name, shown)
