"""Exact draws of Poisson and linear coefficients: their distribution, and its promise over all pairs of
neighbours."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from discreet._randomness.entropy import SeededEntropy
from discreet.errors import InvalidInputError, TooLargeError
from discreet.regression.glm import ClippedMean, CoefficientDraws
from statistical.goodness import ALPHA, combined_p, fit

FloatArray = npt.NDArray[np.float64]
BOUNDS = {"poisson": (0.0, 3.0), "gaussian": (-1.0, 2.0)}
GRID = 0.25
CELLS = np.arange(-64, 65)


def model(family: str, n: int, **options: Any) -> CoefficientDraws:
    asked = {"columns": 1, "bounds": BOUNDS[family], "epsilon": 3, "delta": "1e-4", **options}
    return CoefficientDraws(family, n=n, **asked)  # type: ignore[arg-type]


def loss(family: str, t: FloatArray, y: float) -> FloatArray:
    """∫₀ᵗ (clipped mean − y), by the definition and not by the formulas of the source."""
    low, high = BOUNDS[family]
    if family == "poisson":
        knot = math.log(high)
        inside = np.exp(np.minimum(t, knot)) - 1
        return inside + high * np.maximum(t - knot, 0) - y * t
    inside = np.clip(t, low, high)
    return inside**2 / 2 + high * np.maximum(t - high, 0) + low * np.minimum(t - low, 0) - y * t


def distribution(m: CoefficientDraws, rows: list[float], response: list[float]) -> FloatArray:
    """P(nearest multiple of the grid) by Gauss's rule with 24 nodes in every cell, in one dimension."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    w = CELLS[:, None] * GRID + nodes * GRID / 2
    energy = m.precision / 2 * w**2
    for x, y in zip(rows, response, strict=True):
        energy = energy + m.weight * loss(m.family, w * x, y)
    density = np.exp(energy.min() - energy) @ weights
    return np.asarray(density / density.sum())


@pytest.mark.parametrize("family", BOUNDS)
def test_draws_follow_the_distribution(family: str) -> None:
    m = model(family, 5, epsilon=400, prior_precision=0.3)
    high = BOUNDS[family][1]  # of most responses, so that scores beyond the clipped mean are likely
    rows, response = [1.0, -0.2, 0.9, 0.3, 1.0], [high, 1.0, high, 0.5, high]
    tangent = ClippedMean(m, np.array(rows)[:, None] * (1 - 1e-12), np.array(response))
    source = SeededEntropy(11)
    drawn = [(int(tangent.draw(Fraction(GRID), source)[0] / Fraction(GRID)),) for _ in range(4000)]
    assert m.weight > 0.5, "the data have to matter"
    assert combined_p([fit(drawn, CELLS[:, None], distribution(m, rows, response))]) >= ALPHA
    wrong = distribution(m, rows, [high, high, 1.0, 0.5, high])
    assert combined_p([fit(drawn, CELLS[:, None], wrong)]) < ALPHA


@pytest.mark.parametrize("method", ["diffused", "concentrated"])
@pytest.mark.parametrize("family", BOUNDS)
def test_the_promise_holds_for_all_pairs(family: str, method: str) -> None:
    """All datasets of two records on a grid: δ(ε) of every pair of neighbours is at most the curve's."""
    m = model(family, 2, method=method)
    low, high = BOUNDS[family]
    records = list(itertools.product((-1.0, 0.0, 1.0), (low, (low + high) / 2, high)))
    distributions = {
        pair: distribution(m, [x for x, _ in pair], [y for _, y in pair])
        for pair in itertools.combinations_with_replacement(records, 2)
    }
    curve = m.guarantee.effective_curve
    assert curve is not None
    closest = 0.0
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        promised = float(curve.delta_at(epsilon))
        for first, second in itertools.permutations(distributions, 2):
            if (Counter(first) & Counter(second)).total() == 0:
                continue
            lost = float(
                np.maximum(distributions[first] - math.exp(epsilon) * distributions[second], 0).sum()
            )
            assert lost <= promised + 1e-12
            closest = max(closest, lost / promised)
    assert closest > 0.3, "the bound is not far from what is lost"


@pytest.mark.parametrize("family", BOUNDS)
def test_the_loss_is_lipschitz_by_the_width_of_the_response(family: str) -> None:
    """C, theorems 16 and 17: ‖∇ℓ‖ ≤ B·c, and the scalings are those of 4ρ²B²c²/m."""
    low, high = BOUNDS[family]
    t = np.linspace(-9, 9, 20001)
    steepest = max(float(np.abs(np.diff(loss(family, t, y)) / np.diff(t)).max()) for y in (low, high))
    assert steepest == pytest.approx(high - low, rel=1e-2)
    m = model(family, 50, norm_bound=2)
    assert m.lipschitz_squared == (2 * Fraction(high - low)) ** 2
    mu_squared = 4 * Fraction(m.weight) ** 2 * m.lipschitz_squared / Fraction(m.precision)
    assert float(m.guarantee.effective_curve.delta_at(3.0)) <= 1e-4  # type: ignore[union-attr]
    assert float(mu_squared) == pytest.approx(float(m.guarantee.effective_curve.mu_squared))  # type: ignore[union-attr]


def test_rows_and_responses_are_clipped() -> None:
    m = model("poisson", 3, columns=2)
    inside = m._draw([[0.6, 0.8], [1, 0], [0, 1]], [3, 0, 1], SeededEntropy(1))
    outside = m._draw([[60, 80], [1, 0], [0, 7]], [99, -5, 1], SeededEntropy(1))
    np.testing.assert_allclose(inside, outside, atol=1e-9)
    assert m.draw([[0, 0]] * 3, [0, 1, 2]).shape == (1, 2)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"family": "gamma"}, "must be one of: poisson, gaussian"),
        ({"bounds": (1, 3)}, "largest count"),
        ({"columns": 0}, "columns"),
        ({"norm_bound": -1}, "norm_bound"),
        ({"method": "none"}, "must be one of"),
        ({"delta": None}, "target"),
    ],
)
def test_bad_parameters(options: dict[str, Any], says: str) -> None:
    asked = {"family": "poisson", "columns": 1, "bounds": (0, 3), "epsilon": 1, "delta": "1e-6", **options}
    with pytest.raises(InvalidInputError, match=says):
        CoefficientDraws(n=9, **asked)


def test_sizes_that_are_not_quick_are_refused() -> None:
    with pytest.raises(TooLargeError, match="might take"):
        model("gaussian", 10**6, columns=40, epsilon=50, delta="1e-9")


@pytest.mark.parametrize("rows", [[[1.0]], [[1.0, 2.0]] * 3, [[math.nan]] * 3])
def test_bad_rows_are_refused(rows: Any) -> None:
    with pytest.raises(InvalidInputError, match="rows"):
        model("poisson", 3).draw(rows, [1, 2, 3])
