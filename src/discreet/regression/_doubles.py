"""Gaussian and uniform numbers for the samplers: doubles, in bulk, from the operating system or from a seed.

Unlike :mod:`discreet._randomness.integers` these are floating-point numbers: a chain of ten thousand steps
over a hundred coefficients takes a million of them. What that means for the guarantee is in
``proofs/logistic.md``. Where noise is added once (output perturbation) it is made exactly instead, by
:func:`discreet._randomness.cells.normal_cell`.
"""

from __future__ import annotations

import os
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy, Source
from discreet._typing import FloatArray

_FULL = np.uint64(1 << 53)
_BELOW_ONE = 1 - 2.0**-53


class PrivateNoise:
    """Independent N(0, 1) and uniform (0, 1) numbers from the operating system's cryptographic generator.

    It keeps no state, so a forked process cannot repeat it. ``source`` gives the same randomness as integers.
    """

    private = True
    source: Source = OS_ENTROPY

    def _bits(self, shape: tuple[int, ...]) -> npt.NDArray[np.uint64]:
        number = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(os.urandom(8 * number), dtype=np.uint64).reshape(shape)

    def _sizes(self, words: npt.NDArray[np.uint64], further: int = 2) -> FloatArray:
        """Return (k + U)·2⁻⁶³ for the upper 63 bits k of each word, with 53 significant bits at every size.

        A k below 2⁵³ has fewer bits than a double. This happens to one word in a thousand; U is then drawn
        from further words, three at most. Multiples of 2⁻⁵³ alone would leave gaps between normal numbers,
        wider than 2⁻⁴⁰ beyond four standard deviations, and a gap reveals to which value noise was added.
        """
        whole = words >> np.uint64(1)
        sizes = whole.astype(np.float64)
        few = np.flatnonzero(whole < _FULL)
        if few.size:
            sizes.reshape(-1)[few] += self._sizes(self._bits((few.size,)), further - 1) if further else 0.5
        return sizes * 2.0**-63

    def normals(self, shape: tuple[int, ...]) -> FloatArray:
        """Return standard normal numbers, which reach 16 standard deviations.

        Each is ±Φ⁻¹(u/2) for a uniform u; the sign comes from the bit that u leaves unused.
        """
        words = self._bits(shape)
        below = ndtri(self._sizes(words) / 2)
        return np.asarray(np.where(words & np.uint64(1), -below, below), dtype=np.float64)

    def uniforms(self, shape: tuple[int, ...]) -> FloatArray:
        return np.minimum(self._sizes(self._bits(shape)), _BELOW_ONE)


class SeededNoise:
    """A reproducible stream for experiments. Not private: whoever knows the seed knows the noise."""

    private = False

    def __init__(self, seed: int | np.random.Generator) -> None:
        self._generator = np.random.default_rng(seed)

    @cached_property
    def source(self) -> Source:
        return SeededEntropy(int(self._generator.integers(2**62)))

    def normals(self, shape: tuple[int, ...]) -> FloatArray:
        return self._generator.standard_normal(shape)

    def uniforms(self, shape: tuple[int, ...]) -> FloatArray:
        return self._generator.random(shape)


DoubleNoise = PrivateNoise | SeededNoise
