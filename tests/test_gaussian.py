"""The rounded Gaussian: bounds by ball arithmetic, candidates against enclosures on the same bits,
distribution."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import chi2

from discreet._numerics.enclosures import ball
from discreet._randomness import gaussian as module
from discreet._randomness.entropy import OSEntropy, SeededEntropy
from discreet._randomness.gaussian import rounded_gaussian, rounded_gaussians
from discreet.errors import InvalidInputError


class Scripted:
    """A source that hands out given numbers."""

    def __init__(self, *values: int) -> None:
        self.values = list(values)

    def below(self, bound: int) -> int:
        value = self.values.pop(0)
        assert 0 <= value < bound
        return value


def exactly(variance: Fraction, size: int) -> float:
    with ctx.workprec(256):
        unit = (2 * ball(variance)).sqrt()
        below, above = ((ball(Fraction(2 * size + s, 2)) / unit).erfc() for s in (-1, 1))
        return float((below - above).mid()) / 2


def test_the_tail_is_within_its_margin() -> None:
    generator = np.random.default_rng(5)
    points = np.concatenate([generator.uniform(0, 9.25, 300), np.arange(0, 296) / 32 + 1 / 64, [0.0]])
    points = points[points < 9.25]
    with ctx.workprec(256):
        for x, value in zip(points, module._tail(points), strict=True):
            exact = (ball(float(x)) / ball(2).sqrt()).erfc()
            assert abs(ball(float(value)) / exact - 1) < 4 * 2.0**-50
            # The argument's own rounding: four operations, each by a factor 1 ± 2⁻⁵³.
            moved = (ball(float(x)) * (1 + 4 * ball(2.0**-53)) / ball(2).sqrt()).erfc()
            rest = float(module.margin(np.array([x]))[0]) - 16 * 2.0**-50
            assert abs(moved / exact - 1) < rest


def test_taylor_terms_left_out_are_below_the_margin() -> None:
    """Lagrange: the next coefficient anywhere in the cell, by a ball that is the cell."""
    with ctx.workprec(256):
        for node in range(297):
            cell = arb(node / 32, 1 / 64)
            coefficient = abs(module.taylor(cell, module._TERMS + 1)[-1])
            least = (arb(node / 32 + 1 / 64) / arb(2).sqrt()).erfc()
            assert coefficient * arb(2) ** (-6 * module._TERMS) < least * 2.0**-50


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(2), Fraction(10**7, 3), Fraction(10**18)])
def test_candidates_agree_with_enclosures_on_the_same_bits(variance: Fraction) -> None:
    heads = module._words(200, SeededEntropy(11)) >> np.uint64(1)
    heads[:3] = 1, 5, 2**63 - 1
    sizes, certain = module._candidates(float(variance), heads)
    assert certain[10:].mean() > 0.9
    for head, size, sure in zip(heads.tolist(), sizes.tolist(), certain.tolist(), strict=True):
        if sure:  # whatever follows
            assert module._decide(variance, head, 0, Scripted(0, 1)) == size
            assert module._decide(variance, head, size + 7, Scripted(2**64 - 1)) == size


def test_a_cell_is_as_likely_as_the_formula_says() -> None:
    """The ends in U of each cell, found by bisection over 63 bits, are its probability to 2⁻⁶²."""
    variance = Fraction(9, 4)

    def size_at(head: int) -> int:
        return module._decide(variance, head, 2, Scripted(*[1 << 63] * 4))

    ends = []
    for size in range(4):
        low, high = 0, 2**63
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if size_at(middle) > size else (low, middle)
        ends.append(high)
    share = [(2**63 - ends[0]) / 2**63, *((a - b) / 2**64 for a, b in itertools.pairwise(ends))]
    assert share == pytest.approx([exactly(variance, size) for size in range(4)], rel=1e-13)


def test_draws_follow_the_distribution() -> None:
    variance, number = Fraction(7, 2), 40_000
    draws = np.array(rounded_gaussians(variance, number, SeededEntropy(2)))
    support = range(-7, 8)
    expected = [number * exactly(variance, v) for v in support]
    observed = [int((draws == v).sum()) for v in support]
    rest = number - sum(expected)
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    statistic += (number - sum(observed) - rest) ** 2 / rest
    assert statistic < chi2.isf(1e-9, len(expected))


def test_undecided_words_are_decided_by_further_bits() -> None:
    boundary = math.floor(float((ball(Fraction(1, 2)) / ball(2).sqrt()).erfc()) * 2**63)
    sizes = {
        rounded_gaussian(Fraction(1), Scripted(2 * (boundary + move), 1 << 63)) for move in (-1200, 1200)
    }
    assert sizes == {0, 1}
    heads = np.array([boundary], dtype=np.uint64)
    assert not module._candidates(1.0, heads)[1][0]
    assert rounded_gaussian(Fraction(1), Scripted(1, 3)) < -9  # U below 2⁻⁶³


def test_bulk_and_extremes() -> None:
    assert len(rounded_gaussians(10**9, 10_000, OSEntropy())) == 10_000
    assert rounded_gaussians(4, 0, OSEntropy()) == []
    assert set(rounded_gaussians(Fraction(1, 10**8), 50, SeededEntropy(1))) == {0}
    huge = rounded_gaussians(Fraction(10**60), 50, SeededEntropy(1))
    assert 10**29 < max(map(abs, huge)) < 10**31
    with pytest.raises(InvalidInputError, match="variance"):
        rounded_gaussians(0, 1, OSEntropy())


@pytest.mark.parametrize("variance", [Fraction(1, 4), Fraction(9, 4), Fraction(10**6, 7), Fraction(10**14)])
def test_words_at_the_ends_of_cells_are_certain_only_where_they_are_right(variance: Fraction) -> None:
    """Doubles name the wrong cell there; the true one comes from 60 digits."""
    with mpmath.workdps(60):
        unit = mpmath.sqrt(8 * mpmath.mpf(variance.numerator) / variance.denominator)
        spread = max(1, math.isqrt(math.ceil(variance)))
        sizes = sorted({0, 1, 2, spread // 3, spread, 2 * spread, 4 * spread})
        heads, true = [], []
        for size in sizes:
            end = int(mpmath.floor(mpmath.erfc((2 * size + 1) / unit) * 2**63))
            for move in (*range(-6, 7), *range(-3000, 3000, 97)):
                if move and 0 < end + move < 2**63:
                    heads.append(end + move)
                    true.append(size + (move < 0))  # a smaller U lies farther out
    found, certain = module._candidates(float(variance), np.array(heads, dtype=np.uint64))
    wrong = [(h, f, t) for h, f, t, sure in zip(heads, found, true, certain, strict=True) if sure and f != t]
    assert not wrong
    for head, size in list(zip(heads, true, strict=True))[::17]:
        assert module._decide(variance, head, size + 1, Scripted(0, 0)) == size
        assert module._decide(variance, head, max(0, size - 1), Scripted(2**64 - 1, 0)) == size


def test_undecided_words_take_fresh_bits() -> None:
    """The same 63 bits, which end at the end of a cell, and two continuations: two sizes."""
    with mpmath.workdps(60):
        end = mpmath.erfc(1 / mpmath.sqrt(8)) * 2**63
        head, rest = int(mpmath.floor(end)), int(mpmath.floor((end - mpmath.floor(end)) * 2**64))
    assert rounded_gaussian(Fraction(1), Scripted(2 * head, rest - 1)) == 1
    assert rounded_gaussian(Fraction(1), Scripted(2 * head, rest + 1)) == 0
