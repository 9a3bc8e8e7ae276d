"""The bound on the langevin chain against the distribution of the chain itself, on a grid, and the faults it
finds."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from discreet.privacy.curves import Gaussian
from discreet.regression._chain import chain_mu_squared
from glm_density import FloatArray, evolved, worst_excess

EPSILONS = np.linspace(0, 3, 13)


def bound(
    weight: float, norm: float, precision: float, step: float, steps: int, share: float = 1
) -> FloatArray:
    """δ(ε) at EPSILONS; ``share`` < 1 plants a fault: Δ times that share."""
    delta_squared = 4 * Fraction(weight) ** 2 * Fraction(norm) ** 2 * Fraction(share) ** 2
    square = chain_mu_squared(delta_squared, Fraction(precision), Fraction(step), steps)
    return np.array([Gaussian(square).delta_at(float(epsilon)) for epsilon in EPSILONS])


def largest_step(rows: list[FloatArray], weight: float, precision: float) -> float:
    """2/(m + M) for the rows of both datasets."""
    curvature = max(np.linalg.norm(signed.T @ signed, 2) for signed in rows) * weight / 4
    return float(2 / (2 * precision + curvature))


LINE = {
    "opposite": (np.array([[1.0], [0.4], [-0.3]]), np.array([[-1.0], [0.4], [-0.3]])),
    "saturated": (
        np.array([[1.0]] + [[-0.3]] * 60),
        np.array([[-0.2]] + [[-0.3]] * 60),
    ),
    "alone": (np.array([[1.0]]), np.array([[-1.0]])),
}


@pytest.mark.parametrize("steps", [1, 2, 5, 25])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", sorted(LINE))
def test_one_dimension(name: str, share: float, steps: int) -> None:
    pair = list(LINE[name])
    weight, precision = 0.6, 0.5
    step = share * largest_step(pair, weight, precision)
    axis = np.linspace(-28, 16, 1201)
    settings: dict[str, Any] = {"weight": weight, "precision": precision, "step": step, "steps": steps}
    p, q = (evolved(signed, **settings, axes=(axis,)) for signed in pair)
    found = worst_excess(p, q, bound(weight, 1.0, precision, step, steps), EPSILONS)
    assert found <= 1, f"δ of the chain is {found:.4f} of its bound"


def plane(others: int, pull: float = 0.1) -> list[FloatArray]:
    """Others hold w near (−W, 0), where the loss of (a, ±b) is saturated and its gradient (a, ±b) itself.

    One coordinate cannot show it: there the gradients of two records differ by at most 1.06 of the norm
    bound, and Δ = 2c needs rows that are opposite in one direction and alike in another.
    """
    rest = np.tile([-pull, 0.0], (others, 1))
    return [np.vstack([[[0.3, sign * np.sqrt(1 - 0.09)]], rest]) for sign in (1, -1)]


def plane_ratio(step: float, steps: int, share: float = 1, points: int = 90) -> float:
    pair = plane(2400)
    weight, precision = 0.25, 1.0
    assert step <= largest_step(pair, weight, precision)
    axes = (np.linspace(-26, 7, points), np.linspace(-8, 8, points))
    settings: dict[str, Any] = {"weight": weight, "precision": precision, "step": step, "steps": steps}
    p, q = (evolved(signed, **settings, axes=axes) for signed in pair)
    return worst_excess(p, q, bound(weight, 1.0, precision, step, steps, share), EPSILONS)


@pytest.mark.parametrize(
    ("step", "steps"),
    [
        (0.3, 1),
        (0.3, 4),
        pytest.param(0.3, 25, marks=pytest.mark.slow),
        pytest.param(0.5, 20, marks=pytest.mark.slow),
    ],
)
def test_two_dimensions(step: float, steps: int) -> None:
    found = plane_ratio(step, steps)
    assert found <= 1, f"δ of the chain is {found:.4f} of its bound"


def test_the_bound_is_nearly_attained_and_a_halved_sensitivity_is_found() -> None:
    """The same pair reaches most of the bound, so a Δ of half the size (c in place of 2c) is exceeded."""
    assert 0.4 < plane_ratio(0.3, 25) <= 1
    assert plane_ratio(0.3, 25, share=0.5) > 10


def test_a_step_size_from_the_data_is_found() -> None:
    """η = 1/(2M) with M from the rows at hand: μ is small, but the spread of the noise tells them apart."""
    weight, precision, norm = 0.001, 1.0, 20.0
    pair = [np.array([[norm], [norm]]), np.array([[norm], [0.0]])]
    axis = np.linspace(-9, 9, 1201)
    fixed = 1 / (2 * (precision + weight * 2 * norm**2 / 4))

    def ratio(steps: list[float], number: int) -> float:
        distributions = [
            evolved(signed, weight=weight, precision=precision, step=step, steps=number, axes=(axis,))
            for signed, step in zip(pair, steps, strict=True)
        ]
        return worst_excess(*distributions, bound(weight, norm, precision, max(steps), number), EPSILONS)

    own = [1 / (2 * (precision + weight * float((signed**2).sum()) / 4)) for signed in pair]
    assert own[0] != own[1]
    for number in (1, 3, 20):
        assert ratio([fixed, fixed], number) <= 1
        assert ratio(own, number) > 1.5
