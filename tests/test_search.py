"""The one search against brute force, and that what it returns was seen to hold."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from discreet._numerics.search import RETREATS, boundary, certain, largest_scale, least


@pytest.mark.parametrize("edge", [-7, 0, 1, 2, 99, 10**30])
@pytest.mark.parametrize("downwards", [True, False])
def test_whole_numbers_to_the_last(edge: int, downwards: bool) -> None:
    far = 10**31 * (1 if downwards else -1)

    def holds(value: int) -> bool:
        return value >= edge if downwards else value <= edge

    assert boundary(holds, far, -far) == edge


@pytest.mark.parametrize("edge", [1e-300, 1e-9, 0.3, 1.0, 77.0, 1e8])
def test_floats_on_the_side_that_was_seen(edge: float) -> None:
    seen: list[float] = []

    def holds(value: float) -> bool:
        if value >= edge:
            seen.append(value)
        return value >= edge

    found = least(holds)
    assert found in seen
    assert edge <= found <= edge * (1 + 2e-10) + 1e-299
    assert least(lambda value: value > 1e10) == math.inf
    assert least(lambda value: True) == 0


def test_fractions_stay_exact() -> None:
    found = boundary(lambda x: x * x <= 2, Fraction(1), Fraction(2), relative=0.0, steps=40)
    assert found * found <= 2 < (found + Fraction(1, 2**39)) ** 2


@pytest.mark.parametrize("edge", [1.5, 1.0, 0.999, 0.25, 1e-12, 2.0**-59])
def test_the_largest_scale(edge: float) -> None:
    found = largest_scale(lambda scale: scale <= edge)
    assert min(edge, 1.0) * (1 - 2e-9) <= found <= min(edge, 1.0)
    assert largest_scale(lambda scale: False) == 0


def test_the_sure_condition_has_the_last_word() -> None:
    rough = least(lambda x: x >= 1)
    found = certain(lambda x: x >= 1 + 1e-9, (rough * (1 + share) for share in RETREATS))
    assert found is not None
    assert 1 + 1e-9 <= found <= 1 + 1e-7
    assert certain(lambda x: False, [1.0, 2.0]) is None
