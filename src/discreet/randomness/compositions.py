"""Exact draws of compositions: integer weights, integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet.numerics.count_vectors import Separable
from discreet.randomness.entropy import Source
from discreet.randomness.integers import categorical


class IntegerSeparable:
    """Q(b) ∝ Πᵢ Wᵢ(bᵢ) on {Σb = total} with integer weights, normalised and drawn in integers only.

    ``windows`` holds (first count, weights from there on) for each coordinate; weights are positive. Sums of
    products over compositions are coefficients of products of polynomials, which are exact.
    """

    def __init__(self, windows: Sequence[tuple[int, Sequence[int]]], total: int) -> None:
        self.windows = windows
        self.total = total
        self._root = _product_tree(windows, total)
        _, left, right = _split(self._root, total)
        self.size = sum(x * y for x, y in zip(left, right, strict=True))
        """Σ_b Πᵢ Wᵢ(bᵢ), exactly."""

    def weight(self, b: Sequence[int]) -> int:
        """Πᵢ Wᵢ(bᵢ); zero outside the windows."""
        product = 1
        for (low, values), x in zip(self.windows, b, strict=True):
            if not low <= x < low + len(values):
                return 0
            product *= values[x - low]
        return product

    def draw(self, source: Source) -> tuple[int, ...]:
        """One composition with probability weight(b)/size exactly."""
        return _descend(self._root, self.total, source)

    def as_floats(self) -> Separable:
        """The same law in floating point: marginals, means, fast seeded samples."""
        logs = [np.log(np.array(values, dtype=np.float64)) for _, values in self.windows]
        return Separable.of(logs, self.total, [low for low, _ in self.windows])


@dataclass(frozen=True)
class _Tree:
    low: int
    poly: Any
    left: _Tree | None = None
    right: _Tree | None = None

    @property
    def high(self) -> int:
        return self.low + int(self.poly.degree())

    @cached_property
    def values(self) -> list[int]:
        return [int(c) for c in self.poly.coeffs()]


def _product_tree(windows: Sequence[tuple[int, Sequence[int]]], total: int) -> _Tree:
    """All partial products in a balanced tree; of the root only one coefficient is ever asked."""
    from flint import fmpz_poly

    length = total - sum(low for low, _ in windows) + 1  # no partial sum exceeds its least value by more
    level = [_Tree(low, fmpz_poly(list(values[:length]))) for low, values in windows]
    while len(level) > 2:
        pairs = zip(level[::2], level[1::2], strict=False)
        merged = [_Tree(a.low + b.low, a.poly.mul_low(b.poly, length), a, b) for a, b in pairs]
        level = merged + level[2 * len(merged) :]
    return _Tree(level[0].low + level[1].low, None, level[0], level[1])


def _split(tree: _Tree, total: int) -> tuple[int, list[int], list[int]]:
    """The possible sums of the left half when both halves sum to ``total``, with the weights of both."""
    assert tree.left is not None
    assert tree.right is not None
    first = max(tree.left.low, total - tree.right.high)
    final = min(tree.left.high, total - tree.right.low)
    left = tree.left.values[first - tree.left.low : final - tree.left.low + 1]
    start = total - final - tree.right.low
    right = tree.right.values[start : start + len(left)]
    return first, left, right[::-1]


def _descend(tree: _Tree, total: int, source: Source) -> tuple[int, ...]:
    """A composition with probability ∝ the product of its weights, exactly: sums first, then their parts."""
    if tree.left is None or tree.right is None:
        return (total,)
    first, left, right = _split(tree, total)
    products = [x * y for x, y in zip(left, right, strict=True)]
    below = first + categorical(products, source)
    return _descend(tree.left, below, source) + _descend(tree.right, total - below, source)
