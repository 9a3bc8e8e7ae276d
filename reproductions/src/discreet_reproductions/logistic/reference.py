"""Non-private draws from a posterior by Metropolis-adjusted Langevin steps: references and experiments."""

from __future__ import annotations

import math

import numpy as np

from discreet.regression._chain import loss_gradient
from discreet.regression._doubles import DoubleNoise
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.logistic.modes import hessian, loss, mode

__all__ = ["reference_draws"]


_THIN = 10


def reference_draws(
    signed: FloatArray,
    weight: float,
    precision: float,
    noise: DoubleNoise,
    *,
    chains: int,
    warm_up: int,
    kept: int = 1,
    radius: float = math.inf,
) -> FloatArray:
    """States of ``chains`` chains, shape (chains, kept, d), every tenth after ``warm_up`` steps. Not private.

    Steps are taken in u where w = ŵ + L⁻ᵀ u, LLᵀ the Hessian at the mode ŵ, so that e^{−U} is near N(0, I);
    a start from the Gaussian of the mode is then close to the target already.
    """
    found, _ = mode(signed, weight, precision, 1e-9 * math.sqrt(precision))
    length = float(np.linalg.norm(found))
    center = found if length < radius else found * (0.9 * radius / length)
    whiten = np.linalg.inv(np.linalg.cholesky(hessian(signed, center, weight, precision))).T
    dimension = len(found)
    step = 2.0 * dimension ** (-1 / 3)

    def measured(u: FloatArray) -> tuple[FloatArray, FloatArray]:
        w = center[:, None] + whiten @ u
        value = weight * loss(signed, w) + precision / 2 * (w * w).sum(axis=0)
        value = np.where(np.linalg.norm(w, axis=0) <= radius, value, math.inf)
        slope = whiten.T @ (weight * loss_gradient(signed, w) + precision * w)
        return value, slope

    u = noise.normals((dimension, chains))
    if radius < math.inf:  # begin inside the ball
        lengths = np.linalg.norm(center[:, None] + whiten @ u, axis=0)
        u = u * np.where(lengths <= radius, 1.0, 0.0)
    value, slope = measured(u)
    states = []
    for index in range(1, warm_up + _THIN * (kept - 1) + 1):
        proposal = u - step / 2 * slope + math.sqrt(step) * noise.normals(u.shape)
        found_value, found_slope = measured(proposal)
        forward = ((proposal - u + step / 2 * slope) ** 2).sum(axis=0)
        backward = ((u - proposal + step / 2 * found_slope) ** 2).sum(axis=0)
        log_ratio = value - found_value + (forward - backward) / (2 * step)
        taken = np.log(noise.uniforms((chains,))) <= log_ratio
        u, slope = np.where(taken, proposal, u), np.where(taken, found_slope, slope)
        value = np.where(taken, found_value, value)
        if index >= warm_up and (index - warm_up) % _THIN == 0:
            states.append((center[:, None] + whiten @ u).T)
    return np.stack(states, axis=1)
