"""Rigorous bounds on numbers by ball arithmetic (Arb, through python-flint).

A ball is an interval that contains the true value. A function of balls returns a ball that contains the true
result, whatever the rounding errors. :func:`enclose` increases the precision until the ball is narrow enough.
Callers then take the end of the ball that overstates a privacy loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeAlias

from discreet.errors import TooLargeError

Ball: TypeAlias = Any
"""An ``arb`` of python-flint, which has no type stubs."""

_MOST_BITS = 1 << 13


def ball(value: Fraction | float) -> Ball:
    """Return a number as a ball; a float stands for its exact binary value."""
    from flint import arb, fmpq

    fraction = Fraction(value)
    return arb(fmpq(fraction.numerator, fraction.denominator))


def enclose(compute: Callable[[], Ball], relative: float = 1e-12, absolute: float = 0.0) -> Ball:
    """Compute a ball of at most this relative or absolute radius, with as many bits as that takes.

    If even the highest precision cannot distinguish the value from zero, the ball contains zero.
    """
    from flint import ctx

    bits = 128
    while True:
        with ctx.workprec(bits):
            value = compute()
            radius = value.rad()
            if value.is_finite() and (radius <= abs(value.mid()) * relative or radius <= absolute):
                return value
        if bits >= _MOST_BITS:
            if value.is_finite():
                return value
            raise TooLargeError(f"a parameter is too extreme: {bits} bits are not enough to compute with it")
        bits *= 2


def above(value: Ball) -> float:
    """Return a double that is at least every number in the ball."""
    upper = float(value.upper())
    return math.nextafter(upper, math.inf) if math.isfinite(upper) else upper


def round_up(value: float, bits: int = 40) -> Fraction:
    """Return a rational number of few bits between ``value`` ≥ 0 and ``value``·(1 + 2^(1−bits))."""
    if value == 0:
        return Fraction(0)
    mantissa, exponent = math.frexp(value)
    return Fraction(math.ceil(Fraction(mantissa) * 2**bits)) * Fraction(2) ** (exponent - bits)


def up(value: Fraction) -> float:
    """Return the smallest double that is at least ``value``."""
    nearest = _nearest(value)
    return nearest if nearest == math.inf or Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def down(value: Fraction) -> float:
    """Return the largest double that is at most ``value``."""
    nearest = _nearest(value)
    if nearest == math.inf:
        return math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf
