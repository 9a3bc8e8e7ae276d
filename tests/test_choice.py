from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from discreet._randomness.entropy import SeededEntropy
from discreet._randomness.weights import IntegerSeparable, IntegerWeights, dyadic
from statistical.goodness import ALPHA, chi_square


class Scripted:
    """A source that hands out given values and notes the bounds that were asked for."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)
        self.bounds: list[int] = []

    def below(self, bound: int) -> int:
        value = self.values.pop(0)
        assert 0 <= value < bound
        self.bounds.append(bound)
        return value


def exact_weights(log_weights: np.ndarray) -> list[Fraction]:
    mantissa, exponent = dyadic(log_weights)
    return [Fraction(int(m)) * Fraction(2) ** int(e) for m, e in zip(mantissa, exponent, strict=True)]


def edges(weights: IntegerWeights, shares: list[Fraction]) -> None:
    """Of [0, total) × group × [0, 2⁵³) the draw maps to each candidate a part that is exactly its weight."""
    position, chances = 0, {}
    total = None
    while total is None or position < total:
        source = Scripted(position, 0, 0)
        weights.draw(source)
        total, size, scale = source.bounds
        assert scale == 2**53
        length = next(end for end in weights._bounds if end > position) - position
        for place in range(size):
            r = weights.draw(Scripted(position, place, 0))
            assert weights.draw(Scripted(position + length - 1, place, 0)) == r
            assert weights.draw(Scripted(position, place, 2**52 - 1)) == r
            kept = int(weights._mantissa[r])
            again = Scripted(position, place, kept, position, place, kept - 1)
            assert weights.draw(again) == r
            assert not again.values  # the first was thrown away
            assert r not in chances
            chances[r] = Fraction(length, size) * kept
        position += length
    assert sorted(chances) == list(range(len(shares)))
    unit = sum(chances.values()) / sum(shares)
    assert all(chances[r] == share * unit for r, share in enumerate(shares))


@given(st.lists(st.floats(-5000, 0), min_size=1, max_size=40))
def test_every_candidate_has_exactly_its_integer_weight(logs: list[float]) -> None:
    array = np.array(logs)
    edges(IntegerWeights(array), exact_weights(array))


@pytest.mark.parametrize("size", [511, 512, 513, 2000])
def test_large_groups(size: int) -> None:
    rng = np.random.default_rng(size)
    array = np.log(rng.uniform(0.5, 1, size)) + rng.choice([0.0, -3.0, -900.0], size)
    edges(IntegerWeights(array), exact_weights(array))


def test_underflow_keeps_every_candidate() -> None:
    """exp(−10⁴) is zero as a float; as an integer weight it is not (Ilvento 2020)."""
    weights = IntegerWeights(np.array([0.0, -1e4]))
    total = weights._bounds[-1]
    assert total.bit_length() > 14_000
    assert weights.draw(Scripted(total - 1, 0, 0)) == 1


@given(st.floats(-1e6, 1e6))
def test_dyadic_is_close(log_weight: float) -> None:
    mantissa, exponent = dyadic(log_weight)
    assert 2**52 <= int(mantissa) < 2**53
    back = np.log(float(mantissa)) + (int(exponent) - 52) * np.log(2)
    assert back == pytest.approx(log_weight, rel=1e-14, abs=1e-14)


def test_distribution_of_draws() -> None:
    weights = IntegerWeights(np.log(np.array([1.0, 2.0, 4.0, 5.0, 1e-9])))
    source = SeededEntropy(3)
    drawn = Counter(weights.draw(source) for _ in range(12_000))
    observed = np.array([drawn[r] for r in range(4)])
    statistic, freedom = chi_square(observed, 1000 * np.array([1.0, 2.0, 4.0, 5.0]))
    assert chi2.sf(statistic, freedom) > ALPHA


def test_compositions_are_weighed_and_drawn_where_their_windows_begin() -> None:
    """Windows that do not begin at zero: every composition as often as the product of its weights."""
    windows = [(3, [1, 2]), (-2, [3, 1, 1]), (5, [1, 1])]
    every = IntegerSeparable(windows, 8)
    inside = {
        (3 + a, -2 + b, 5 + c): x * y * z
        for a, x in enumerate((1, 2))
        for b, y in enumerate((3, 1, 1))
        for c, z in enumerate((1, 1))
        if 6 + a + b + c == 8
    }
    assert every.size == sum(inside.values())
    around = itertools.product(range(1, 7), range(-4, 2), range(3, 9))
    assert {b: every.weight(b) for b in around if sum(b) == 8 and every.weight(b)} == inside
    source = SeededEntropy(5)
    assert {every.draw(source) for _ in range(200)} == set(inside)
