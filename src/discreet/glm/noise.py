"""Gaussian and uniform numbers for the samplers: doubles, in bulk, from the operating system or from a seed.

Unlike :mod:`discreet.randomness` these are floating-point numbers: a chain of ten thousand steps over a
hundred coefficients takes a million of them. What that means for the guarantee is in ``proofs/logistic.md``.
"""

from __future__ import annotations

import os
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

__all__ = ["Noise", "PrivateNoise", "SeededNoise"]

FloatArray = npt.NDArray[np.float64]


class Noise(Protocol):
    """Anything that yields independent normal and uniform doubles; ``private`` says whether unpredictably."""

    private: bool

    def normals(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent N(0, 1)."""
        ...

    def uniforms(self, shape: tuple[int, ...]) -> FloatArray:
        """Independent, uniform on (0, 1)."""
        ...


class PrivateNoise:
    """From the operating system's cryptographic generator; no state, so a forked child cannot repeat it."""

    private = True

    def _bits(self, shape: tuple[int, ...]) -> npt.NDArray[np.uint64]:
        number = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(os.urandom(8 * number), dtype=np.uint64).reshape(shape)

    def normals(self, shape: tuple[int, ...]) -> FloatArray:
        """−Φ⁻¹(u/2) with a sign: the tail keeps its relative precision, down to 2⁻⁵⁴ (8.2 deviations)."""
        bits = self._bits(shape)
        half = ((bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-53
        sign = np.where(bits & np.uint64(1), 1.0, -1.0)
        return np.asarray(sign * ndtri(half), dtype=np.float64)

    def uniforms(self, shape: tuple[int, ...]) -> FloatArray:
        return np.asarray(
            ((self._bits(shape) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52, dtype=np.float64
        )


class SeededNoise:
    """A reproducible stream for experiments. Not private: whoever knows the seed knows the noise."""

    private = False

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)

    def normals(self, shape: tuple[int, ...]) -> FloatArray:
        return self._generator.standard_normal(shape)

    def uniforms(self, shape: tuple[int, ...]) -> FloatArray:
        return self._generator.random(shape)
