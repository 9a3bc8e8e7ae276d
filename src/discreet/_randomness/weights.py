"""Exact draws with integer weights: of one of very many candidates, or of a count vector with a given total.

Weights of very different size are stored as integers m_r · 2^(e_r − e_min), with m_r of 53 bits. Both m_r and
e_r come from a floating-point logarithm of the weight, and no weight becomes zero. The draw itself compares
integers only, so it is exact for these weights; rounding of the logarithm only changes the weights, by a
bounded factor.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._numerics.count_vectors import Separable
from discreet._randomness.entropy import Source
from discreet._randomness.integers import categorical
from discreet._typing import FloatArray, IntArray


def dyadic(log_weight: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """Return integers (m, e) with m in [2⁵², 2⁵³) and m · 2^(e − 52) = exp(log_weight) up to rounding."""
    binary = np.asarray(log_weight, dtype=np.float64) / math.log(2)
    exponent = np.floor(binary)
    mantissa = np.exp2(binary - exponent + 52)
    # exp2 of a fraction just below 1 may round up to the next power of two
    return np.clip(mantissa, 2**52, 2**53 - 1).astype(np.int64), exponent.astype(np.int64)


class IntegerWeights:
    """Integer weights m·2^e of the indices 0, …, R − 1, grouped by e."""

    def __init__(self, log_weights: FloatArray) -> None:
        self._mantissa, exponent = dyadic(log_weights)
        self._order = np.argsort(-exponent, kind="stable")
        ordered = exponent[self._order]
        starts = np.unique(-ordered, return_index=True)[1]
        shifts = (ordered[starts] - exponent.min()).tolist()
        self._groups = list(pairwise([*starts.tolist(), len(ordered)]))
        sizes = ((stop - start) << shift for (start, stop), shift in zip(self._groups, shifts, strict=True))
        self._bounds = list(accumulate(sizes))

    def draw(self, source: Source) -> int:
        """Draw an index r with a probability exactly proportional to its weight.

        An index is drawn as if all m_r were 2⁵³, and accepted with probability m_r/2⁵³, which is at least a
        half.
        """
        while True:
            group = bisect_right(self._bounds, source.below(self._bounds[-1]))
            start, stop = self._groups[group]
            index = int(self._order[start + source.below(stop - start)])
            if source.below(1 << 53) < self._mantissa[index]:
                return index


class IntegerSeparable:
    """The distribution Q(b) ∝ Πᵢ Wᵢ(bᵢ) on {Σb = total} with integer weights, in integer arithmetic.

    ``windows`` contains, for each coordinate, the first count with a positive weight, and the weights of it
    and the following counts. Sums over all b are coefficients of products of polynomials, which are computed
    exactly.
    """

    def __init__(self, windows: Sequence[tuple[int, Sequence[int]]], total: int) -> None:
        self.windows = windows
        self.total = total
        self._root = _product_tree(windows, total)
        _, left, right = _split(self._root, total)
        self.size = sum(x * y for x, y in zip(left, right, strict=True))
        """The normalising constant Σ_b Πᵢ Wᵢ(bᵢ), exactly."""

    def weight(self, b: Sequence[int]) -> int:
        """Return Πᵢ Wᵢ(bᵢ); zero outside the windows."""
        product = 1
        for (low, values), x in zip(self.windows, b, strict=True):
            if not low <= x < low + len(values):
                return 0
            product *= values[x - low]
        return product

    def draw(self, source: Source) -> tuple[int, ...]:
        """Draw a vector b of counts with probability weight(b)/size exactly."""
        return _descend(self._root, self.total, source)

    @cached_property
    def floats(self) -> Separable:
        """Return the distribution in floating point, for marginals, means and fast seeded draws."""
        logs = [np.log(np.array(values, dtype=np.float64)) for _, values in self.windows]
        return Separable.of(logs, self.total, [low for low, _ in self.windows])


@dataclass(frozen=True)
class _Tree:
    """A binary tree of polynomials: a leaf has the weights of one coordinate, a node the product of two."""

    low: int
    poly: Any
    parts: tuple[_Tree, ...] = ()

    @property
    def high(self) -> int:
        return self.low + int(self.poly.degree())

    @cached_property
    def values(self) -> list[int]:
        return [int(c) for c in self.poly.coeffs()]


def _product_tree(windows: Sequence[tuple[int, Sequence[int]]], total: int) -> _Tree:
    """Return the balanced tree of products of polynomials up to ``total``, without that of the root."""
    from flint import fmpz_poly

    length = total - sum(low for low, _ in windows) + 1  # no partial sum exceeds its least value by more
    level = [_Tree(low, fmpz_poly(list(values[:length]))) for low, values in windows]
    while len(level) > 2:
        pairs = zip(level[::2], level[1::2], strict=False)
        merged = [_Tree(a.low + b.low, a.poly.mul_low(b.poly, length), (a, b)) for a, b in pairs]
        level = merged + level[2 * len(merged) :]
    return _Tree(level[0].low + level[1].low, None, (level[0], level[1]))


def _split(tree: _Tree, total: int) -> tuple[int, list[int], list[int]]:
    """Return the possible sums of the left half, if both halves sum to ``total``, and the weights of both.

    The result is the smallest such sum, and two lists of weights, one entry for each sum.
    """
    left_tree, right_tree = tree.parts
    first, final = max(left_tree.low, total - right_tree.high), min(left_tree.high, total - right_tree.low)
    left = left_tree.values[first - left_tree.low : final - left_tree.low + 1]
    start = total - final - right_tree.low
    right = right_tree.values[start : start + len(left)]
    return first, left, right[::-1]


def _descend(tree: _Tree, total: int, source: Source) -> tuple[int, ...]:
    """Draw the coordinates of a tree given their sum, exactly: the sum of each half, then recursively."""
    if not tree.parts:
        return (total,)
    first, left, right = _split(tree, total)
    products = [x * y for x, y in zip(left, right, strict=True)]
    below = first + categorical(products, source)
    left_tree, right_tree = tree.parts
    return _descend(left_tree, below, source) + _descend(right_tree, total - below, source)
