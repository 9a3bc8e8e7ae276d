"""Exact draws from a log-concave distribution: the envelope, its candidates, and the cell that is drawn."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from discreet._numerics.enclosures import ball
from discreet._randomness import log_concave
from discreet._randomness.entropy import SeededEntropy
from discreet._randomness.log_concave import LogConcave
from discreet.errors import InvalidInputError
from statistical.goodness import ALPHA, chi_square

INF = math.inf


def normal(theta: Any) -> tuple[Any, Any]:
    """A normal number of variance 2."""
    return -(theta * theta) / 4, -theta / 2


@pytest.mark.parametrize("depth", [24, 4])
def test_exact_draws_have_the_distribution(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With depth 4 many of the draws come from beyond the pieces."""
    monkeypatch.setattr(log_concave, "_DEPTH", depth)
    if depth == 4:
        monkeypatch.setattr(log_concave, "_PIECES", 40)
        monkeypatch.setattr(log_concave, "_FIRST_REACH", Fraction(2))
    made = LogConcave(normal, 0.2, 0.9)
    source, grid = SeededEntropy(5), Fraction(1, 2)
    drawn = np.array([float(made.draw(grid, source)) for _ in range(3000)])
    edges = np.append(np.append(-INF, np.arange(-5, 6) / 2), INF)
    observed = np.histogram(drawn, edges)[0]
    statistic, freedom = chi_square(observed, 3000 * np.diff(stats.norm(0, math.sqrt(2)).cdf(edges)))
    assert stats.chi2.sf(statistic, freedom) > ALPHA
    share = made.weights[-1] / sum(made.weights)
    assert share > 0.01 if depth == 4 else share < 1e-6


def test_the_envelope_is_above_the_density() -> None:
    made = LogConcave(normal, 0.0, 1.0)
    rng = np.random.default_rng(2)
    for piece, weight in zip(made._pieces[::20], made.weights[::20], strict=False):
        for _ in range(5):
            z = float(piece.centre) + float(piece.half) * rng.uniform(-1, 1)
            assert float(normal(ball(z))[0].exp()) * float(2 * piece.half) <= weight / 2**80


def test_candidates_beyond_the_pieces_have_their_density(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of 1/density over those in a range is its length."""
    monkeypatch.setattr(log_concave, "_DEPTH", 4)
    made = LogConcave(normal, 0.0, 1.0)
    source, inverse = SeededEntropy(9), []
    for _ in range(2000):
        z, density = made._beyond(source)()
        rho = abs(float(z)) / float(made._reach)
        assert rho > 1
        inverse.append(1 / float(density) if rho < 2 else 0.0)
    length = 2 * float(made._reach)
    error = float(np.std(inverse)) / math.sqrt(len(inverse))
    assert abs(float(np.mean(inverse)) - length) < 6 * error < 0.4 * length


def test_candidates_fill_their_piece_and_both_sides() -> None:
    made = LogConcave(normal, 0.0, 1.0)
    piece, source = made._pieces[7], SeededEntropy(4)
    for bits, side in ((0, -1), (-1, 1)):
        z, _ = made._in_piece(piece, _Bits(bits))()
        assert abs(float(z - ball(piece.centre + side * piece.half))) < 1e-10
    right = sum(float(made._beyond(source)()[0]) > 0 for _ in range(800))
    assert abs(right - 400) < 6 * math.sqrt(200)


class _Bits:
    """All bits alike."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def below(self, bound: int) -> int:
        return self.bits % bound


def test_a_piece_across_the_edge_of_the_support_keeps_its_mass() -> None:
    def half(theta: Any) -> Any:
        return None if theta > 1 else normal(theta)

    made = LogConcave(half, 0.0, 1.0)
    across, beyond = (made._with_better_bound(Fraction(13, 10), Fraction(width, 10)) for width in (5, 2))
    assert across is not None
    assert beyond is None
    source = SeededEntropy(6)
    drawn = [float(made.draw(Fraction(1, 4), source)) for _ in range(600)]
    distribution = stats.norm(0, math.sqrt(2))
    assert max(drawn) < 1
    share = 1 - distribution.cdf(0.5) / distribution.cdf(1)
    assert stats.binomtest(sum(x > 0.5 for x in drawn), 600, share).pvalue > ALPHA


def test_no_double_decides_about_a_cell() -> None:
    made = LogConcave(normal, 0.0, 1.0)
    source, grid = SeededEntropy(8), Fraction(1, 2**90)
    cells = [int(made.draw(grid, source) / grid - Fraction(1, 2)) for _ in range(20)]
    assert 2 <= sum(cell % 2 for cell in cells) <= 18


def test_an_exponent_that_is_not_concave_is_noticed() -> None:
    def hollow(theta: Any) -> tuple[Any, Any]:
        value, slope = normal(theta)
        pit = (-(theta * theta) * 4).exp()
        return value - 3 * pit, slope + 24 * theta * pit

    made = LogConcave(hollow, 0.0, 1.0)
    source = SeededEntropy(3)
    with pytest.raises(InvalidInputError, match="not concave"):
        [made.draw(Fraction(1, 4), source) for _ in range(200)]
