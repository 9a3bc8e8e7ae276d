"""The mode of a logistic posterior and the curvature there, for references and baselines."""

from __future__ import annotations

import numpy as np

from discreet.regression._chain import loss_gradient
from discreet_reproductions.arrays import FloatArray

__all__ = ["hessian", "loss", "mode"]


def loss(signed: FloatArray, weights: FloatArray) -> FloatArray:
    """Σᵢ log(1 + e^{−vᵢ·w}) for each column."""
    return np.asarray(np.logaddexp(0.0, -(signed @ weights)).sum(axis=0), dtype=np.float64)


def mode(signed: FloatArray, weight: float, precision: float, tolerance: float) -> tuple[FloatArray, float]:
    """(w, ‖∇U(w)‖) near the minimum of U by damped Newton steps, until the gradient is below ``tolerance``.

    U is m-strongly convex, so w is within ‖∇U(w)‖/m of the minimum. Where rounding stops the descent first,
    the gradient that is returned says so.
    """
    w = np.zeros(signed.shape[1])

    def value(point: FloatArray) -> float:
        return float(weight * loss(signed, point[:, None])[0] + precision / 2 * point @ point)

    def gradient_at(point: FloatArray) -> FloatArray:
        return np.asarray(weight * loss_gradient(signed, point) + precision * point, dtype=np.float64)

    current, gradient = value(w), gradient_at(w)
    for _ in range(200):
        if np.linalg.norm(gradient) <= tolerance:
            break
        direction = np.linalg.solve(hessian(signed, w, weight, precision), -gradient)
        slope, size = float(gradient @ direction), 1.0
        while (trial := value(w + size * direction)) > current + 1e-4 * size * slope and size > 1e-10:
            size /= 2
        candidate = gradient_at(w + size * direction)
        if trial >= current and np.linalg.norm(candidate) >= np.linalg.norm(gradient):
            break
        w, current, gradient = w + size * direction, trial, candidate
    return w, float(np.linalg.norm(gradient))


def hessian(signed: FloatArray, w: FloatArray, weight: float, precision: float) -> FloatArray:
    """∇²U(w) = ρ Σ σ(v·w)σ(−v·w) v vᵀ + m I."""
    curvature = weight / (4 * np.cosh(np.clip(0.5 * (signed @ w), -350, 350)) ** 2)
    inside = (signed * curvature[:, None]).T @ signed
    return np.asarray(inside + precision * np.eye(signed.shape[1]), dtype=np.float64)
