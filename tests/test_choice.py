from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.randomness.weights import IntegerWeights, dyadic


class Counting:
    """A source that walks through all values of a small bound."""

    def __init__(self, value: int) -> None:
        self.value = value

    def below(self, bound: int) -> int:
        assert self.value < bound
        return self.value


def exact_weights(log_weights: np.ndarray) -> list[Fraction]:
    mantissa, exponent = dyadic(log_weights)
    return [Fraction(int(m)) * Fraction(2) ** int(e) for m, e in zip(mantissa, exponent, strict=True)]


def edges(weights: IntegerWeights, shares: list[Fraction]) -> None:
    """The draw maps [0, total) onto the candidates in intervals of exactly their weight."""
    unit = Fraction(weights.total) / sum(shares)
    position = 0
    order = weights._order.tolist()
    for r in order:
        size = shares[r] * unit
        assert size.denominator == 1
        assert size >= 1
        assert weights.draw(Counting(position)) == r
        position += int(size)
        assert weights.draw(Counting(position - 1)) == r
    assert position == weights.total


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
    assert weights.draw(Counting(weights.total - 1)) == 1
    assert weights.total.bit_length() > 14_000


@given(st.floats(-1e6, 1e6))
def test_dyadic_is_close(log_weight: float) -> None:
    mantissa, exponent = dyadic(log_weight)
    assert 2**52 <= int(mantissa) < 2**53
    back = np.log(float(mantissa)) + (int(exponent) - 52) * np.log(2)
    assert back == pytest.approx(log_weight, rel=1e-14, abs=1e-14)


def test_law_over_all_values() -> None:
    """Small integers by hand: every value of the source counted once."""
    weights = IntegerWeights(np.log(np.array([1.0, 2.0, 4.0])))
    scale = weights.total // 7
    drawn = Counter(weights.draw(Counting(v * scale)) for v in range(7))
    assert drawn == {0: 1, 1: 2, 2: 4}
