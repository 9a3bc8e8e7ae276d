"""The logistic loss of many rows at once: one gradient, written once for NumPy and for JAX.

A record (x, y) with y = ±1 enters only as its *signed row* v = y·x: its loss is ℓ(w) = log(1 + e^{−v·w}),
with gradient −σ(−v·w)·v. Columns of ``weights`` are chains, which share every pass over the rows.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInput, missing_extra

__all__ = [
    "BACKENDS",
    "JaxKernel",
    "Kernel",
    "NumpyKernel",
    "hessian",
    "kernel",
    "loss",
    "loss_gradient",
    "mode",
    "one_thread",
]


_BLOCK = 1 << 17  # numbers of a block of rows: a megabyte, which stays in the cache between its two uses


def loss_gradient(xp: Any, signed: Any, weights: Any) -> Any:
    """∇ Σᵢ log(1 + e^{−vᵢ·w}) for each column w of ``weights``; ``xp`` is numpy or jax.numpy.

    −σ(−t) = ½ tanh(t/2) − ½, which overflows nowhere.
    """
    return signed.T @ (0.5 * xp.tanh(0.5 * (signed @ weights)) - 0.5)


def loss(signed: FloatArray, weights: FloatArray) -> FloatArray:
    """Σᵢ log(1 + e^{−vᵢ·w}) for each column."""
    return np.asarray(np.logaddexp(0.0, -(signed @ weights)).sum(axis=0), dtype=np.float64)


class Kernel(Protocol):
    """Noisy gradient steps on U(w) = ρ Σ ℓ + (m/2)‖w‖² over fixed rows."""

    def gradient(self, weights: FloatArray) -> FloatArray:
        """:func:`loss_gradient` at ``weights``, shape (d, chains)."""
        ...

    def advance(
        self, weights: FloatArray, normals: FloatArray, weight: float, precision: float, step: float
    ) -> FloatArray:
        """As many steps w ← w − η∇U(w) + √(2η) ξ as ``normals`` holds, shape (steps, d, chains)."""
        ...


class NumpyKernel:
    """Double precision on the processor; the rows pass through the cache in blocks."""

    def __init__(self, signed: FloatArray) -> None:
        self.signed = np.ascontiguousarray(signed, dtype=np.float64)

    def gradient(self, weights: FloatArray) -> FloatArray:
        rows, columns = self.signed.shape
        block = max(256, _BLOCK // max(columns, weights.shape[1]))
        total = np.zeros_like(weights)
        for start in range(0, rows, block):
            total += loss_gradient(np, self.signed[start : start + block], weights)
        return total

    def advance(
        self, weights: FloatArray, normals: FloatArray, weight: float, precision: float, step: float
    ) -> FloatArray:
        keep, move, shake = 1 - step * precision, step * weight, (2 * step) ** 0.5
        for noise in normals:
            weights = keep * weights - move * self.gradient(weights) + shake * noise
        return weights


class JaxKernel:
    """The same in JAX, in double precision, on whatever device JAX has; a block of steps is one call."""

    def __init__(self, signed: FloatArray) -> None:
        try:
            jax = import_module("jax")
        except ImportError:
            raise missing_extra("JAX", "gpu") from None
        self._jax = jax
        with self._double():
            self._signed = jax.device_put(jax.numpy.asarray(signed, dtype=jax.numpy.float64))
            self._gradient = jax.jit(lambda rows, weights: loss_gradient(jax.numpy, rows, weights))
            self._advance = jax.jit(self._scan)

    def _double(self) -> Any:
        # The context manager moved from jax.experimental to jax itself.
        home = self._jax if hasattr(self._jax, "enable_x64") else import_module("jax.experimental")
        return home.enable_x64(True)

    def _scan(self, rows: Any, weights: Any, normals: Any, keep: Any, move: Any, shake: Any) -> Any:
        def one(state: Any, noise: Any) -> tuple[Any, None]:
            return keep * state - move * loss_gradient(self._jax.numpy, rows, state) + shake * noise, None

        return self._jax.lax.scan(one, weights, normals)[0]

    def gradient(self, weights: FloatArray) -> FloatArray:
        with self._double():
            return np.asarray(self._gradient(self._signed, weights), dtype=np.float64)

    def advance(
        self, weights: FloatArray, normals: FloatArray, weight: float, precision: float, step: float
    ) -> FloatArray:
        keep, move, shake = 1 - step * precision, step * weight, (2 * step) ** 0.5
        with self._double():
            moved = self._advance(self._signed, weights, normals, keep, move, shake)
            return np.asarray(moved, dtype=np.float64)


BACKENDS: dict[str, type[NumpyKernel] | type[JaxKernel]] = {"numpy": NumpyKernel, "jax": JaxKernel}


def kernel(backend: str, signed: FloatArray) -> Kernel:
    if backend not in BACKENDS:
        raise InvalidInput(f"backend={backend!r} must be one of {', '.join(map(repr, BACKENDS))}")
    return BACKENDS[backend](signed)


def one_thread() -> AbstractContextManager[Any]:
    """BLAS with one thread: products of this size are faster so, and the order of additions is fixed."""
    try:
        limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(1)
    except ImportError:
        return nullcontext()
    return limits


def mode(signed: FloatArray, weight: float, precision: float, tolerance: float) -> tuple[FloatArray, float]:
    """(w, ‖∇U(w)‖) near the minimum of U by damped Newton steps, until the gradient is below ``tolerance``.

    U is m-strongly convex, so w is within ‖∇U(w)‖/m of the minimum. Where rounding stops the descent first,
    the gradient that is returned says so.
    """
    w = np.zeros(signed.shape[1])

    def value(point: FloatArray) -> float:
        return float(weight * loss(signed, point[:, None])[0] + precision / 2 * point @ point)

    def gradient_at(point: FloatArray) -> FloatArray:
        return np.asarray(weight * loss_gradient(np, signed, point) + precision * point, dtype=np.float64)

    current, gradient = value(w), gradient_at(w)
    for _ in range(200):
        if np.linalg.norm(gradient) <= tolerance:
            break
        direction = np.linalg.solve(hessian(signed, w, weight, precision), -gradient)
        slope, size = float(gradient @ direction), 1.0
        while (found := value(w + size * direction)) > current + 1e-4 * size * slope and size > 1e-10:
            size /= 2
        candidate = gradient_at(w + size * direction)
        if found >= current and np.linalg.norm(candidate) >= np.linalg.norm(gradient):
            break
        w, current, gradient = w + size * direction, found, candidate
    return w, float(np.linalg.norm(gradient))


def hessian(signed: FloatArray, w: FloatArray, weight: float, precision: float) -> FloatArray:
    """∇²U(w) = ρ Σ σ(v·w)σ(−v·w) v vᵀ + m I."""
    curvature = weight / (4 * np.cosh(np.clip(0.5 * (signed @ w), -350, 350)) ** 2)
    inside = (signed * curvature[:, None]).T @ signed
    return np.asarray(inside + precision * np.eye(signed.shape[1]), dtype=np.float64)
