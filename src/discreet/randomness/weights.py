"""An exact draw from weights that are too many and too different in size for a list of integers.

The weight of candidate r is the integer m_r · 2^(e_r − e_min), m_r of 53 bits, with e_r and m_r taken from a
floating-point logarithm; whatever the logarithm, the integer is never zero. The draw itself compares integers
only: it is exact for these weights, and what the logarithm's rounding costs is a statement about the weights.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray, IntArray
from discreet.randomness.entropy import Source

_BLOCK = 512  # as many 53-bit integers as an int64 can sum


def dyadic(log_weight: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Integers (m, e) with m in [2⁵², 2⁵³) and m · 2^(e − 52) = exp(log_weight) up to rounding."""
    binary = np.asarray(log_weight, dtype=np.float64) / math.log(2)
    exponent = np.floor(binary)
    mantissa = np.exp2(binary - exponent + 52)
    # exp2 of a fraction just below 1 may round up to the next power of two
    return np.clip(mantissa, 2**52, 2**53 - 1).astype(np.int64), exponent.astype(np.int64)


class IntegerWeights:
    """Candidates 0, 1, …, R − 1 with integer weights; candidates of equal exponent are kept together."""

    def __init__(self, log_weights: FloatArray) -> None:
        mantissa, exponent = dyadic(log_weights)
        self._order = np.argsort(-exponent, kind="stable")
        self._mantissa = mantissa[self._order]
        exponents, starts = np.unique(-exponent[self._order], return_index=True)
        self._starts = [*starts.tolist(), len(mantissa)]
        self._shifts = [int(-e - exponent.min()) for e in exponents]
        high = np.add.reduceat(self._mantissa >> 26, starts).tolist()
        low = np.add.reduceat(self._mantissa & (2**26 - 1), starts).tolist()
        self._sums = [(above << 26) + below for above, below in zip(high, low, strict=True)]
        self.total = sum(s << shift for s, shift in zip(self._sums, self._shifts, strict=True))

    def draw(self, source: Source) -> int:
        """Index r with probability weight_r / total exactly."""
        left = source.below(self.total)
        for group, (size, shift) in enumerate(zip(self._sums, self._shifts, strict=True)):
            if left < size << shift:
                return self._within(group, left >> shift)
            left -= size << shift
        raise AssertionError("unreachable: the groups sum to total")

    def _within(self, group: int, left: int) -> int:
        start, stop = self._starts[group], self._starts[group + 1]
        while stop - start > _BLOCK:  # halves, each summed exactly
            middle = (start + stop) // 2
            size = self._exact_sum(start, middle)
            if left < size:
                stop = middle
            else:
                start, left = middle, left - size
        cumulative = np.cumsum(self._mantissa[start:stop])
        return int(self._order[start + int(np.searchsorted(cumulative, left, side="right"))])

    def _exact_sum(self, start: int, stop: int) -> int:
        part = self._mantissa[start:stop]
        return (int((part >> 26).sum()) << 26) + int((part & (2**26 - 1)).sum())
