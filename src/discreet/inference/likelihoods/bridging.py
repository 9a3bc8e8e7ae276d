"""What the bridges to other libraries call: plain functions of arrays, and simulated releases.

Cells stand alone here (``cell_log_prob``, ``cell_means``: any shape, one number a cell) or share a public
total (``total_log_prob``, ``total_means``: cells on the last axis). Simulation is for predictive checks: it
uses NumPy's generators and floating point, and must never make a release.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.inference.likelihoods.cells import Cells
from discreet.inference.likelihoods.counts import BinomialLaw, PoissonLaw
from discreet.inference.likelihoods.kinds import NoisyCells
from discreet.inference.likelihoods.models import Multinomial
from discreet.inference.likelihoods.noises import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    FloorLaplace,
    Gaussian,
    Laplace,
    LatticeNoise,
    Noise,
    Partly,
    RoundedGaussian,
    RoundedLaplace,
)


def independent(noise: Noise) -> Noise:
    """The noise, if its cells are independent of each other."""
    if noise.together:
        raise InvalidInput(
            f"{noise.name} noise sums to zero over its cells, so no cell stands alone; "
            "use NoisyMultinomial with the public total"
        )
    return noise


def _cells(noise: Noise, z: Any, mean: Any, size: Any) -> tuple[tuple[int, ...], Cells]:
    arrays = [np.asarray(a, dtype=np.float64) for a in (z, mean, noise.scale, 0.0 if size is None else size)]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    values, means, scales, sizes = (np.array(np.broadcast_to(a, shape)).ravel() for a in arrays)
    law = PoissonLaw(means) if size is None else BinomialLaw(sizes, means, 1 - means)
    return shape, Cells(law, noise, values, scales)


def cell_log_prob(noise: Noise, z: Any, mean: Any, size: Any = None) -> FloatArray:
    """log P(z) of every cell: Poisson of rate ``mean``, or binomial of ``size`` with probability ``mean``."""
    shape, cells = _cells(noise, z, mean, size)
    return cells.log_prob().reshape(shape)


def cell_means(noise: Noise, z: Any, mean: Any, size: Any = None) -> FloatArray:
    """E[x | z] of every cell."""
    shape, cells = _cells(noise, z, mean, size)
    return cells.means([lambda x, which: x])[0].reshape(shape)


def _by_values(noise: Noise, z: Any, shares: Any, total: int, what: str) -> FloatArray:
    """A method of the likelihood of each row of values, at that row's shares."""
    z, shares = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(shares, dtype=np.float64))
    rows, flat = z.reshape(-1, z.shape[-1]), shares.reshape(-1, z.shape[-1])
    flat = flat / flat.sum(axis=1, keepdims=True)
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    parts: list[Any] = [None] * len(rows)
    for i, values in enumerate(distinct):
        own = np.flatnonzero(inverse.ravel() == i)
        found = getattr(NoisyCells(values, noise, Multinomial(total)), what)(flat[own])
        for row, value in zip(own, found, strict=True):
            parts[row] = value
    return np.array(parts).reshape(z.shape[:-1] if what == "log_prob" else z.shape)


def total_log_prob(noise: Noise, z: Any, shares: Any, total: int) -> FloatArray:
    """log P(z) of a multinomial of a public total; leading axes are draws."""
    return _by_values(noise, z, shares, total, "log_prob")


def total_means(noise: Noise, z: Any, shares: Any, total: int) -> FloatArray:
    """E[x | z] of a multinomial of a public total."""
    return _by_values(noise, z, shares, total, "expected_counts")


def simulated(noise: Noise, counts: Any, rng: np.random.Generator) -> FloatArray:
    """Values as they would be published of true counts, for predictive checks only."""
    x = np.asarray(counts, dtype=np.float64)
    if isinstance(noise, Clamped):
        return np.clip(simulated(noise.noise, x, rng), noise.lower, noise.upper)
    if isinstance(noise, Partly):
        return np.where(noise.published, simulated(noise.noise, x, rng), 0.0)
    scale, shape = noise.scale, np.broadcast_shapes(x.shape, noise.scale.shape)
    if isinstance(noise, LatticeNoise):
        return x + _sum_zero(float(scale), x.shape, rng)
    if isinstance(noise, DiscreteLaplace):
        stop = -np.expm1(-1 / scale)
        return np.asarray(x + rng.geometric(stop, shape) - rng.geometric(stop, shape))
    if isinstance(noise, DiscreteGaussian):
        return x + _discrete_gaussian(np.broadcast_to(scale, shape), rng)
    if isinstance(noise, Gaussian | RoundedGaussian):
        noisy = x + rng.normal(0.0, scale, shape)
    elif isinstance(noise, Laplace | RoundedLaplace | FloorLaplace):
        noisy = x + rng.laplace(0.0, scale, shape)
    else:
        raise InvalidInput(f"{noise.name} noise cannot be simulated")
    if isinstance(noise, FloorLaplace):
        return np.floor(noisy)
    return np.rint(noisy) if noise.integer else noisy


def _sum_zero(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Lattice noise: A − B for two uniform compositions of one m, P(m) ∝ C(m+k−1, k−1)²·e^{−2m/b}."""
    k, rows = shape[-1], int(np.prod(shape[:-1]))
    logs: list[float] = []
    log_q, m, value = -2 / scale, 0, 0.0
    while not logs or value > max(logs) - 40 or value >= logs[-1]:
        logs.append(value)
        m += 1
        value += log_q + 2 * np.log((m + k - 1) / m)
    weight = np.exp(np.array(logs) - max(logs))
    sizes = rng.choice(len(weight), rows, p=weight / weight.sum())
    parts = [rng.multinomial(sizes, rng.dirichlet(np.ones(k), rows)) for _ in range(2)]
    return np.asarray((parts[0] - parts[1]).reshape(shape), dtype=np.float64)


def _discrete_gaussian(scale: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rejection from two-sided geometric noise of a like spread (Canonne, Kamath and Steinke 2020)."""
    t = np.floor(scale.ravel()) + 1
    sigma, found = scale.ravel(), np.full(scale.size, np.nan)
    while (left := np.flatnonzero(np.isnan(found))).size:
        stop = -np.expm1(-1 / t[left])
        v = rng.geometric(stop) - rng.geometric(stop)
        keep = rng.random(left.size) < np.exp(
            -0.5 * ((np.abs(v) - sigma[left] ** 2 / t[left]) / sigma[left]) ** 2
        )
        found[left[keep]] = v[keep]
    return found.reshape(scale.shape)
