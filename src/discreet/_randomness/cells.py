"""Exact draws from continuous distributions, rounded to a grid: inversion with rigorous enclosures."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from discreet._numerics.enclosures import Ball, ball
from discreet._numerics.search import first_true
from discreet._randomness.entropy import Source
from discreet.errors import TooLargeError

_MAX_PRECISION_BITS = 1 << 15


class Uniform:
    """A uniform real number on (0, 1), whose bits are drawn when they are needed."""

    def __init__(self, source: Source, first_bits: int | None = None, bits: int = 64) -> None:
        """Draw the first ``bits`` bits, or take ``first_bits`` if they were drawn before."""
        self._source, self._bits = source, bits
        self._first_bits = source.below(1 << bits) if first_bits is None else first_bits

    def __float__(self) -> float:
        """Return an approximation; no exact decision depends on it."""
        return (self._first_bits + 0.5) / float(1 << self._bits)

    def more(self) -> None:
        """Draw 64 more bits."""
        self._first_bits, self._bits = (self._first_bits << 64) | self._source.below(1 << 64), self._bits + 64

    def ends(self) -> tuple[Ball, Ball]:
        """Return bounds on the number, from the bits drawn so far."""
        from flint import arb, fmpq

        scale = fmpq(1, 1 << self._bits)
        return arb(self._first_bits * scale), arb((self._first_bits + 1) * scale)

    def number(self) -> Ball:
        """Return a ball around the number, as narrow as the working precision allows; draw bits as needed."""
        from flint import ctx

        while self._bits < ctx.prec - 64:
            self.more()
        low, high = self.ends()
        return low.union(high)

    def normal(self) -> Ball:
        """Return a ball around Φ⁻¹ of the number, which is standard normal."""
        return -((2 * self.number()).erfcinv()) * ball(2).sqrt()

    def below(self, value: Callable[[], Ball], precision: int = 192) -> bool:
        """Return whether the number is less than the one that ``value`` encloses.

        Precision is increased until the comparison is certain.
        """
        from flint import ctx

        while precision <= _MAX_PRECISION_BITS:
            with ctx.workprec(precision):
                number = value()
                low, high = self.ends()
                if number <= low:
                    return False
                if number >= high:
                    return True
                narrow = number.is_finite() and number.rad() < (high - low) / 256
            if narrow:
                self.more()
            else:
                precision *= 2
        raise TooLargeError("the posterior is too extreme for an exact draw: a parameter is tiny or huge")


def exact_cell(
    cdf: Callable[[Fraction], Ball], guess: Callable[[float], float], grid: Fraction, source: Source
) -> Fraction:
    """Draw from the distribution ``cdf``; return the middle of the cell [j·grid, (j+1)·grid) of the draw.

    A uniform number U is compared with enclosures of ``cdf`` at the ends of cells, with more bits until the
    comparison is certain. So the output has exactly the distribution of a continuous draw that is rounded
    afterwards. ``guess``, an approximate quantile function, only determines where the search starts.
    """
    uniform = Uniform(source)

    def is_below(end: int) -> bool:
        """Return whether U < cdf(end·grid)."""
        return uniform.below(lambda: cdf(end * grid))

    start = guess(float(uniform))
    cell = math.floor(Fraction(start) / grid) if math.isfinite(start) else 0
    return (first_true(is_below, cell + 1) - Fraction(1, 2)) * grid


def power_of_two(value: Fraction | float) -> Fraction:
    """Return the largest power of two that is at most ``value`` > 0."""
    exact = Fraction(value)
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    power -= Fraction(2) ** power > exact
    return Fraction(2) ** power


def normal_cell(centre: Fraction, precision: Fraction, grid: Fraction, source: Source) -> Fraction:
    """Draw from N(centre, 1/precision), rounded to the middle of a grid cell; see :func:`exact_cell`."""
    approximate = NormalDist(float(centre), 1 / math.sqrt(precision))

    def cdf(theta: Fraction) -> Ball:
        return ((ball(centre - theta) * (ball(precision) / 2).sqrt()).erfc()) / 2

    return exact_cell(cdf, lambda u: approximate.inv_cdf(u), grid, source)
