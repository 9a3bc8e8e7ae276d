"""The law of the true counts given noisy ones, under a Dirichlet prior and a public total."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from discreet._numerics.cells import Cells, Constrained, distinct
from discreet._numerics.counts import RisingLaw
from discreet._numerics.noises import Noise
from discreet._typing import FloatArray, IntArray


class GivenTotal:
    """π(x | z) ∝ DirMult(x; α, n)·P(z | x). Levels with the same value and prior are computed once."""

    def __init__(self, values: Sequence[float] | FloatArray, noise: Noise, prior: Sequence[float], n: int):
        self._values, self._noise = values, noise
        z, alpha = np.asarray(values, dtype=np.float64), np.asarray(prior, dtype=np.float64)
        scale = noise.scales(len(z))
        first, self.inverse, times = distinct(z, scale, alpha)
        """``inverse`` says which of the distinct levels each level is."""
        self.n, self.strength = n, math.fsum(alpha)
        self.prior = alpha[first]
        """Of each distinct level."""
        cells = Cells(RisingLaw.of(alpha[first], n), noise, z[first], scale[first])
        self._law = Constrained(cells, times, n, whole=True)

    def under(self, prior: Sequence[float]) -> GivenTotal:
        """The same under another prior."""
        return GivenTotal(self._values, self._noise, prior, self.n)

    def with_total(self, n: int) -> GivenTotal:
        """The same for another total."""
        return GivenTotal(self._values, self._noise, self.prior[self.inverse].tolist(), n)

    def check(self) -> None:
        """Raise TooLargeError where too many counts are possible."""
        self._law.check()

    @cached_property
    def log_evidence(self) -> float:
        """log P(z), up to what does not depend on the prior."""
        prior = math.lgamma(self.strength) - math.lgamma(self.strength + self.n)
        return float(self._law.log_prob()[0]) + prior

    @property
    def nodes(self) -> list[tuple[float, GivenTotal]]:
        """Itself, as a mixture of one."""
        return [(1.0, self)]

    @cached_property
    def distinct_marginals(self) -> list[tuple[int, FloatArray]]:
        """For each distinct level (start, p): P(xᵢ = start + j | z) = p[j]."""
        return self._law.laws()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        """The same for each level."""
        return [self.distinct_marginals[i] for i in self.inverse]

    def medians(self) -> FloatArray:
        """Return interpolated medians of the true counts, for each level."""
        medians = [start + interpolated_median(p) for start, p in self.distinct_marginals]
        return np.maximum(medians, 0.0)[self.inverse]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        """Draw true counts jointly, of shape (size, k)."""
        draws = np.empty((size, len(self.inverse)), dtype=np.int64)
        draws[:, np.argsort(self.inverse, kind="stable")] = self._law.draw(size, rng)[0]
        return draws


def interpolated_median(mass: FloatArray) -> float:
    """Return the median of a distribution on 0, 1, …, with each mass spread evenly over a unit interval."""
    cumulative = np.cumsum(mass)
    at = int(np.searchsorted(cumulative, 0.5))
    below = float(cumulative[at - 1]) if at else 0.0
    return at - 0.5 + (0.5 - below) / float(mass[at])
