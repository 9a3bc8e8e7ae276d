"""Exact draws from a log-concave law: the envelope, its candidates, and the cell that is drawn."""

from __future__ import annotations

import itertools
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


def normal(theta: Any) -> tuple[Any, list[Any]]:
    """Two correlated normal numbers: −(a² + ab + b²)/2."""
    a, b = theta
    return -(a * a + a * b + b * b) / 2, [-(2 * a + b) / 2, -(a + 2 * b) / 2]


@pytest.mark.parametrize("depth", [24, 4])
def test_exact_draws_have_the_law(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With depth 4 many of the draws come from beyond the boxes."""
    monkeypatch.setattr(log_concave, "_DEPTH", depth)
    if depth == 4:
        monkeypatch.setattr(log_concave, "_BOXES", 40)
        monkeypatch.setattr(log_concave, "_FIRST_REACH", Fraction(2))
    made = LogConcave(normal, np.array([0.2, -0.1]), np.array([[1.0, 0.0], [-0.5, 0.9]]))
    source, grid = SeededEntropy(5), Fraction(1, 2)
    drawn = np.array([[float(part) for part in made.draw(grid, source)] for _ in range(1500)])
    exact = stats.norm(0, math.sqrt(4 / 3))
    for axis in (drawn[:, 0], drawn[:, 1]):
        edges = np.append(np.append(-INF, np.arange(-4, 5) / 2), INF)
        observed = np.histogram(axis, edges)[0]
        statistic, freedom = chi_square(observed, 1500 * np.diff(exact.cdf(edges)))
        assert stats.chi2.sf(statistic, freedom) > ALPHA
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(-0.5, abs=0.15)
    share = made.weights[-1] / sum(made.weights)
    assert share > 0.01 if depth == 4 else share < 1e-6


def test_the_envelope_is_above_the_density() -> None:
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    rng = np.random.default_rng(2)
    for box, weight in zip(made._boxes[::20], made.weights[::20], strict=False):
        for _ in range(5):
            z = [float(c) + float(w) * rng.uniform(-1, 1) for c, w in zip(box.centre, box.half, strict=True)]
            assert float(normal([ball(part) for part in z])[0].exp()) * float(box.volume) <= weight / 2**80


def test_candidates_beyond_the_boxes_have_their_density(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of 1/density over those in a ring is its area."""
    monkeypatch.setattr(log_concave, "_DEPTH", 4)
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    source, inverse = SeededEntropy(9), []
    for _ in range(2000):
        z, density = made._beyond(source)()
        rho = max(abs(float(part)) for part in z) / float(made._reach)
        assert rho > 1
        inverse.append(1 / float(density) if rho < 2 else 0.0)
    area = 3 * (2 * float(made._reach)) ** 2
    error = float(np.std(inverse)) / math.sqrt(len(inverse))
    assert abs(float(np.mean(inverse)) - area) < 6 * error < 0.2 * area


def test_candidates_fill_their_box_and_all_faces() -> None:
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    box, source = made._boxes[7], SeededEntropy(4)
    for bits, side in ((0, -1), (-1, 1)):
        z, _ = made._in_box(box, _Bits(bits))()
        for part, centre, half in zip(z, box.centre, box.half, strict=True):
            assert abs(float(part - ball(centre + side * half))) < 1e-10
    far = [[float(part) for part in made._beyond(source)()[0]] for _ in range(800)]
    faces = [(int(np.abs(z).argmax()), z[int(np.abs(z).argmax())] > 0) for z in far]
    assert all(
        abs(faces.count(face) - 200) < 6 * math.sqrt(150) for face in itertools.product((0, 1), (0, 1))
    )


class _Bits:
    """All bits alike."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def below(self, bound: int) -> int:
        return self.bits % bound


def test_a_box_across_the_edge_of_the_support_keeps_its_mass() -> None:
    def half(theta: Any) -> Any:
        return None if theta[0] > 1 else normal(theta)

    made = LogConcave(half, np.zeros(2), np.eye(2))
    across, beyond = (
        made._with_better_bound([Fraction(13, 10), Fraction(0)], [Fraction(width, 10), Fraction(1)])
        for width in (5, 2)
    )
    assert across is not None
    assert beyond is None
    source = SeededEntropy(6)
    drawn = [float(made.draw(Fraction(1, 4), source)[0]) for _ in range(600)]
    share = 1 - stats.norm(0, math.sqrt(4 / 3)).cdf(0.5) / stats.norm(0, math.sqrt(4 / 3)).cdf(1)
    assert max(drawn) < 1
    assert stats.binomtest(sum(x > 0.5 for x in drawn), 600, share).pvalue > ALPHA


def test_no_double_decides_about_a_cell() -> None:
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    source, grid = SeededEntropy(8), Fraction(1, 2**90)
    cells = [int(part / grid - Fraction(1, 2)) for _ in range(10) for part in made.draw(grid, source)]
    assert 2 <= sum(cell % 2 for cell in cells) <= 18


def test_an_exponent_that_is_not_concave_is_noticed() -> None:
    def hollow(theta: Any) -> tuple[Any, list[Any]]:
        a, b = theta
        value, slopes = normal(theta)
        ring = (-(a * a + b * b) * 4).exp()
        return value - 3 * ring, [slope + 24 * x * ring for slope, x in zip(slopes, theta, strict=True)]

    made = LogConcave(hollow, np.zeros(2), np.eye(2))
    source = SeededEntropy(3)
    with pytest.raises(InvalidInputError, match="not concave"):
        [made.draw(Fraction(1, 4), source) for _ in range(200)]
