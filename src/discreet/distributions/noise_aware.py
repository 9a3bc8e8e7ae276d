"""The posterior of proportions when the true counts are uncertain: a mixture of Dirichlets."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from discreet._interop import inference_data
from discreet._typing import FloatArray, IntArray
from discreet.distributions.beta_dirichlet import IntervalKind
from discreet.distributions.mixtures import BetaMixture
from discreet.errors import InvalidInput


class TrueCounts(Protocol):
    """A law over the true counts."""

    def marginals(self) -> list[tuple[int, FloatArray]]: ...
    def sample(self, size: int, rng: np.random.Generator) -> IntArray: ...


class NoiseAware:
    """The posterior of the proportions given a release, with the noise accounted for.

    Like the released posterior it has a scalar face for two levels (the first level's probability) and a
    vector face for more.
    """

    def __init__(self, prior: Sequence[float], n: int, counts: TrueCounts) -> None:
        self.prior = tuple(prior)
        self.n = n
        self.counts = counts
        """The law of the true counts given the release."""

    @property
    def k(self) -> int:
        return len(self.prior)

    @cached_property
    def _marginals(self) -> list[BetaMixture]:
        total = math.fsum(self.prior) + self.n
        result = []
        for a, (start, weight) in zip(self.prior, self.counts.marginals(), strict=True):
            kept = np.flatnonzero(weight > 1e-14 * weight.max())
            mass = weight[kept[0] : kept[-1] + 1]
            counts = float(start) + np.arange(kept[0], kept[-1] + 1)
            result.append(BetaMixture(mass / mass.sum(), a + counts, total))
        return result

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's proportion."""
        try:
            return self._marginals[index]
        except (IndexError, TypeError):
            raise InvalidInput(f"index={index!r} must be between 0 and {self.k - 1}") from None

    def _face(self, values: Sequence[float]) -> Any:
        return values[0] if self.k == 2 else np.array(values)

    def mean(self) -> Any:
        return self._face([m.mean() for m in self._marginals])

    def var(self) -> Any:
        return self._face([m.var() for m in self._marginals])

    def std(self) -> Any:
        return self._face([m.std() for m in self._marginals])

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[Any, Any]:
        """Credible interval(s): (low, high) of the first level for k = 2, arrays (low, high) for k > 2."""
        shown = self._marginals[:1] if self.k == 2 else self._marginals
        ends = [m.interval(level, kind) for m in shown]
        return self._face([low for low, _ in ends]), self._face([high for _, high in ends])

    def predictive(self) -> FloatArray:
        """The probability that the next record falls into each level."""
        return np.array([m.mean() for m in self._marginals])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the proportions, shape (size, k). The release is public, so this costs no privacy."""
        rng = np.random.default_rng(seed)
        shape = self.counts.sample(size, rng) + np.array(self.prior)
        draws = rng.standard_gamma(shape)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Draws as ArviZ inference data (needs the extra ``arviz``)."""
        return inference_data({"theta": self.sample(size, seed)[None]}, {"n": self.n})


class Enumerated:
    """A law over few datasets, listed."""

    def __init__(self, rows: IntArray, log_weight: FloatArray) -> None:
        self._rows = rows
        weight = np.exp(log_weight - log_weight.max())
        self._weight = weight / weight.sum()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        return [(0, np.asarray(np.bincount(c, self._weight), dtype=np.float64)) for c in self._rows.T]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        return np.asarray(self._rows[rng.choice(len(self._rows), size, p=self._weight)])
