"""Density evolution: the distribution of a noisy gradient chain in one or two dimensions, computed on a grid.

A step w ← f(w) + √(2η) ξ turns a density p into ∫ p(w) N(·; f(w), 2ηI) dw. Sums over a grid that is fine
against √(2η) stand for the integrals; for smooth densities their error falls faster than any power, and the
mass that leaves the grid is checked. The drift f is that of the package: its own gradient kernel.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from discreet.regression._chain import loss_gradient

FloatArray = npt.NDArray[np.float64]

__all__ = ["evolved", "hockey_stick", "worst_excess"]


def evolved(
    signed: FloatArray,
    *,
    weight: float,
    precision: float,
    step: float,
    steps: int,
    axes: tuple[FloatArray, ...],
) -> FloatArray:
    """Probabilities of the cells of the grid after ``steps`` steps from N(0, I/m)."""
    deviation = math.sqrt(2 * step)
    widths = [float(axis[1] - axis[0]) for axis in axes]
    assert all(width < 0.8 * deviation for width in widths), "the grid is too coarse for the noise"
    points = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(len(axes), -1)
    drift = (1 - step * precision) * points - step * weight * loss_gradient(signed, points)
    kernels = [
        np.exp(-((axis[:, None] - drift[i]) ** 2) / (4 * step)) * (width / math.sqrt(4 * math.pi * step))
        for i, (axis, width) in enumerate(zip(axes, widths, strict=True))
    ]
    start = [
        np.exp(-precision * axis**2 / 2) * width * math.sqrt(precision / (2 * math.pi))
        for axis, width in zip(axes, widths, strict=True)
    ]
    distribution = start[0] if len(axes) == 1 else np.outer(*start).ravel()
    for _ in range(steps):
        distribution = (
            kernels[0] @ distribution
            if len(axes) == 1
            else ((kernels[0] * distribution) @ kernels[1].T).ravel()
        )
    assert abs(distribution.sum() - 1) < 1e-9, f"the grid loses mass: {distribution.sum()}"
    return distribution


def hockey_stick(p: FloatArray, q: FloatArray, epsilon: float) -> float:
    """max over both orders of Σ (p − e^ε q)₊."""
    ratio = math.exp(epsilon)
    return max(float(np.maximum(p - ratio * q, 0).sum()), float(np.maximum(q - ratio * p, 0).sum()))


def worst_excess(p: FloatArray, q: FloatArray, bound: npt.ArrayLike, epsilons: npt.ArrayLike) -> float:
    """The largest δ(ε) of the pair divided by its bound, or by 10⁻⁷ where that is more than the bound."""
    return max(
        hockey_stick(p, q, float(epsilon)) / max(float(delta), 1e-7)
        for epsilon, delta in zip(np.asarray(epsilons), np.asarray(bound), strict=True)
    )
