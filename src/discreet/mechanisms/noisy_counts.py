"""Independent noise on counts: LSZhang, LSDim and LSHist.

The noise is ⌊Laplace⌋, drawn exactly; released counts are clamped to [0, n]. Proofs: ``proofs/lszhang.md``,
``proofs/lsdim.md``, ``proofs/lshist.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.mechanisms.base import Mechanism, log1mexp
from discreet.mechanisms.outputs import CountNoise, Output
from discreet.privacy.guarantee import Guarantee
from discreet.randomness.entropy import Source
from discreet.randomness.integers import floor_laplace


@dataclass(frozen=True)
class NoisyCounts(Mechanism):
    """Counts + ⌊Laplace(1/rate)⌋, clamped; the last count is noisy too, or what is left of n."""

    releases_total: ClassVar[bool]
    """Whether the last coordinate is computed from the others instead of receiving noise of its own."""

    @classmethod
    def compared(cls, n: int, k: int, quick: bool) -> list[dict[str, Any]]:
        return [{}]

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """1/scale of the Laplace noise."""

    @property
    def noise_scale(self) -> float:
        return 1 / float(self.rate)

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        from discreet.numerics.noises import Clamped, FloorLaplace, Partly

        noise = Clamped(FloorLaplace(self.noise_scale), 0, self.n)
        published = np.arange(self.k) < self.noisy_coordinates
        return CountNoise(counts, noise if published.all() else Partly(noise, published))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, basis=f"theorem: proofs/{self.name}.md")

    @property
    def noisy_coordinates(self) -> int:
        """How many counts receive noise of their own; they come first."""
        return self.k - 1 if self.releases_total else self.k

    @property
    def number_of_outputs(self) -> int:
        return int((self.n + 1) ** self.noisy_coordinates)

    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        p, q = self.rate.numerator, self.rate.denominator
        released = [
            min(max(count + floor_laplace(p, q, source), 0), self.n)
            for count in counts[: self.noisy_coordinates]
        ]
        if self.releases_total:
            released.append(max(self.n - sum(released), 0))
        return Output(tuple(released))

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        self._check_outputs(self.number_of_outputs)
        marginals = [
            clamped_floor_laplace(count, self.n, float(self.rate))
            for count in counts[: self.noisy_coordinates]
        ]
        values = [np.arange(self.n + 1)] * len(marginals)
        outputs = np.stack([axis.ravel() for axis in np.meshgrid(*values, indexing="ij")], axis=1)
        log_probability = sum(axis.ravel() for axis in np.meshgrid(*marginals, indexing="ij"))
        return self._with_total(outputs), np.asarray(log_probability, dtype=np.float64)

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        true = np.array(counts[: self.noisy_coordinates], dtype=np.float64)
        noisy = rng.laplace(0.0, float(1 / self.rate), (size, len(true)))
        noisy += true
        np.floor(noisy, out=noisy)
        np.clip(noisy, 0, self.n, out=noisy)
        return self._with_total(noisy.astype(np.int64))

    def _with_total(self, released: IntArray) -> IntArray:
        if not self.releases_total:
            return released
        rest = np.maximum(self.n - released.sum(axis=1, keepdims=True), 0)
        return np.concatenate([released, rest], axis=1)


@dataclass(frozen=True)
class LSZhang(NoisyCounts):
    """⌊Laplace(2/ε)⌋ noise on all k counts, each clamped to [0, n]; the total is not kept."""

    name: ClassVar[str] = "lszhang"
    words: ClassVar[str] = "A random whole number was added to the count of every level."
    exchangeable: ClassVar[bool] = True
    releases_total: ClassVar[bool] = False

    @property
    def rate(self) -> Fraction:
        return self.epsilon / 2


@dataclass(frozen=True)
class LSDim(NoisyCounts):
    """⌊Laplace(k/ε)⌋ noise on the first k − 1 counts; the last is what is left of n."""

    name: ClassVar[str] = "lsdim"
    words: ClassVar[str] = (
        "A random whole number, larger the more levels there are, was added to the count of every level but "
        "the last, which is the rest."
    )
    releases_total: ClassVar[bool] = True

    @property
    def rate(self) -> Fraction:
        return self.epsilon / self.k


@dataclass(frozen=True)
class LSHist(NoisyCounts):
    """⌊Laplace(1/ε)⌋ noise (2/ε when k ≥ 3) on the first k − 1 counts; the last is what is left of n."""

    name: ClassVar[str] = "lshist"
    words: ClassVar[str] = (
        "A random whole number was added to the count of every level but the last, which is the rest."
    )
    releases_total: ClassVar[bool] = True

    @property
    def rate(self) -> Fraction:
        return self.epsilon if self.k == 2 else self.epsilon / 2


def clamped_floor_laplace(count: int, n: int, rate: float) -> FloatArray:
    """Log-law on {0, …, n} of count + ⌊Laplace(1/rate)⌋ clamped to [0, n]."""
    shift = np.arange(n + 1) - count
    steps = np.where(shift >= 0, shift, -1 - shift)
    log_probability = math.log(0.5) + log1mexp(rate) - rate * steps
    # Everything at or beyond an end is clamped onto it: the end takes the whole tail.
    log_probability[n] = math.log(0.5) - rate * (n - count)
    log_probability[0] = math.log(0.5) - rate * (count - 1) if count else math.log1p(-0.5 * math.exp(-rate))
    return np.asarray(log_probability, dtype=np.float64)
