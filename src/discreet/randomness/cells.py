"""Exact draws of continuous laws on a grid: the cell that holds the draw, by inversion with enclosures."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from statistics import NormalDist

from discreet.errors import TooLargeError
from discreet.numerics.enclosures import Ball, ball
from discreet.numerics.search import boundary
from discreet.randomness.entropy import Source


def exact_cell(
    cdf: Callable[[Fraction], Ball], guess: Callable[[float], float], grid: Fraction, source: Source
) -> Fraction:
    """The middle of the grid cell [j·grid, (j+1)·grid) that holds a draw with distribution function ``cdf``.

    Inversion of a uniform number U whose bits are drawn as they are needed: U is compared with enclosures of
    the distribution function at cell ends, with more bits until the comparison is certain, so that the output
    has exactly the law of a continuous draw that was rounded afterwards. ``guess`` (an approximate quantile)
    only says where to look first.
    """
    from flint import arb, ctx, fmpq

    bits, known = 64, source.below(1 << 64)
    most_bits = 1 << 14

    def is_below(end: int) -> bool:
        """U < cdf(end·grid)."""
        nonlocal bits, known
        precision = 192
        while True:
            with ctx.workprec(precision):
                value = cdf(end * grid)
                scale = fmpq(1, 1 << bits)
                if value.is_finite():
                    if value <= arb(known * scale):
                        return False
                    if value >= arb((known + 1) * scale):
                        return True
                    narrow = value.rad() < arb(scale / 256)
                else:
                    narrow = False
            if precision > most_bits:
                raise TooLargeError(
                    "the posterior is too extreme for an exact draw: a parameter is tiny or huge"
                )
            if narrow:
                known, bits = (known << 64) | source.below(1 << 64), bits + 64
            else:
                precision *= 2

    start = guess((known + 0.5) / 2.0**64)
    cell = math.floor(Fraction(start) / grid) if math.isfinite(start) else 0
    stride = 1
    if is_below(cell):
        high = cell
        while is_below(high - stride):
            high -= stride
            stride *= 2
        low = high - stride
    else:
        low = cell
        while not is_below(low + stride):
            low += stride
            stride *= 2
        high = low + stride
    high = boundary(is_below, high, low)  # U ≥ cdf((high − 1)·grid) and U < cdf(high·grid)
    return (high - Fraction(1, 2)) * grid


def power_of_two(value: Fraction | float) -> Fraction:
    """The largest power of two that is at most ``value`` > 0."""
    exact = Fraction(value)
    power = exact.numerator.bit_length() - exact.denominator.bit_length()
    power -= Fraction(2) ** power > exact
    return Fraction(2) ** power


def normal_cell(centre: Fraction, precision: Fraction, grid: Fraction, source: Source) -> Fraction:
    """The middle of the grid cell that holds a draw from N(centre, 1/precision); see :func:`exact_cell`."""
    approximate = NormalDist(float(centre), 1 / math.sqrt(precision))

    def cdf(theta: Fraction) -> Ball:
        return ((ball(centre - theta) * (ball(precision) / 2).sqrt()).erfc()) / 2

    return exact_cell(cdf, lambda u: approximate.inv_cdf(u), grid, source)
