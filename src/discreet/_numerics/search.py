"""Find the point where a monotone condition changes between true and false.

Calibration uses this for the largest scale, the smallest ε or the smallest n that meets a guarantee. The
condition is always checked at the returned number itself. Where a fast approximate condition guides the
search, a rigorous one confirms the result (:func:`certain`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, TypeVar

Number = TypeVar("Number", int, float, Fraction)

RETREATS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
"""Relative reductions of an approximate answer, tried in order until a rigorous check confirms one."""


def boundary(
    holds: Callable[[Number], bool],
    good: Number,
    bad: Number,
    *,
    relative: float = 1e-10,
    absolute: float = 0.0,
    steps: int = 4000,
) -> Number:
    """Find by bisection where a condition changes between ``good`` (true) and ``bad`` (false).

    Returns the end of the final bracket at which ``holds`` is true. The bracket is halved at most ``steps``
    times: for integers until its ends are neighbours, otherwise until it is no wider than ``absolute``, or
    than ``relative`` times its larger end.
    """
    whole = isinstance(good, int) and isinstance(bad, int)
    for _ in range(steps):
        width = abs(good - bad)
        if width <= (1 if whole else max(relative * max(abs(good), abs(bad)), absolute)):
            break
        middle: Any = (good + bad) // 2 if whole else (good + bad) / 2
        if middle in (good, bad):
            break
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good


def first_true(holds: Callable[[int], bool], start: int) -> int:
    """Return the smallest integer that meets a condition met by all larger ones, searching from ``start``."""
    good, bad, stride = start, start - 1, 1
    while holds(bad):
        good, bad, stride = bad, bad - stride, 2 * stride
    while not holds(good):
        good, bad, stride = good + stride, good, 2 * stride
    return boundary(holds, good, bad)


def least(
    holds: Callable[[float], bool], *, start: float = 1.0, most: float = 1e9, relative: float = 1e-10
) -> float:
    """Return the least x ≥ 0 that meets a condition met by all larger x, or ∞ if it is above ``most``."""
    if holds(0.0):
        return 0.0
    high = start
    while not holds(high):
        high *= 2
        if high > most:
            return math.inf
    low = 0.0 if high == start else high / 2
    return boundary(holds, high, low, relative=relative, absolute=1e-300)


def certain(sure: Callable[[Number], bool], values: Iterable[Number]) -> Number | None:
    """Return the first value, in the given order, for which ``sure`` is true; None if there is none."""
    return next((value for value in values if sure(value)), None)


def largest_scale(
    holds: Callable[[float], bool], *, most: float = 1.0, least: float = 2.0**-60, relative: float = 1e-9
) -> float:
    """Return the largest scale in (0, most] up to which a condition is true; 0 if it never is."""
    low = most
    while not holds(low):
        low /= 2
        if low < least:
            return 0.0
    return low if low == most else boundary(holds, low, 2 * low, relative=relative)
