"""Families that are no longer offered, kept so that documents of version 0.2 can be read and shown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._numerics.enclosures import Ball
from discreet._randomness.entropy import Source
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.distributions.normal import Normal
from discreet.errors import InvalidInputError
from discreet.posterior_sampling.families.categorical import DividedFamily
from discreet.posterior_sampling.families.means import GaussianVector
from discreet.posterior_sampling.family import Family, Natural, Pair, PosteriorCurve, RecordKind


@dataclass(frozen=True)
class SoftCategories(DividedFamily):
    """Records that were points of the simplex, the shares of ``dimension`` levels, with a Dirichlet prior."""

    name: ClassVar[str] = "soft-categories"
    whole: ClassVar[bool] = False
    unit: ClassVar[int] = 2**32
    words: ClassVar[str] = "the mean share of each level in a record"

    def in_units(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        raise not_made(self)


@dataclass(frozen=True)
class CorrelatedVector(GaussianVector):
    """The mean of vectors with known ``covariance``, clipped to a ``radius`` in standard deviations.

    With the triangular factor L of the covariance, L⁻¹x are uncorrelated records with standard deviation 1,
    on which the model is that of :class:`GaussianVector`; a draw φ of their mean was published as Lφ.
    """

    sigma: float = 1.0
    dimension: int = 0
    covariance: tuple[tuple[float, ...], ...] = ()
    name: ClassVar[str] = "correlated-vector"
    words: ClassVar[str] = "the mean of correlated vectors, clipped to {radius:g} standard deviations"

    @cached_property
    def _factor(self) -> FloatArray:
        return np.asarray(np.linalg.cholesky(np.array(self.covariance)), dtype=np.float64)

    def _sufficient_statistic(self, *_: Any) -> tuple[Any, int]:
        raise not_made(self)

    def _prior_in_words(self, prior: list[Any]) -> str:
        centre = ", ".join(f"{mean:g}" for mean in self._factor @ [mean for mean, _ in prior])
        return f"mean ({centre}), {prior[0][1]:g} times the spread of a record"

    def value(self, draws: FloatArray) -> FloatArray:
        return np.asarray(draws @ self._factor.T, dtype=np.float64)

    def given_draws(
        self, prior: Any, n: int, r: float, m: float, draws: FloatArray
    ) -> CorrelatedDistribution:
        """Return the distribution of φ: independent numbers with a common standard deviation."""
        uncorrelated = np.asarray(np.linalg.solve(self._factor, draws.T).T, dtype=np.float64)
        return CorrelatedDistribution(super().given_draws(prior, n, r, m, uncorrelated), self._factor)

    def marginals(self, distribution: tuple[Normal, ...]) -> list[Distribution]:
        centre = self._factor @ [part.loc for part in distribution]
        scales = distribution[0].scale * np.sqrt(np.diag(self.covariance))
        return [Normal(float(c), float(s)) for c, s in zip(centre, scales, strict=True)]


class CorrelatedDistribution(tuple[Normal, ...]):
    """The distribution of θ = ``factor`` φ for independent numbers φ with a common standard deviation."""

    factor: FloatArray

    def __new__(cls, parts: tuple[Normal, ...], factor: FloatArray) -> CorrelatedDistribution:
        distribution = super().__new__(cls, parts)
        distribution.factor = factor
        return distribution

    def sample(self, size: int, seed: int | None) -> FloatArray:
        """Draw θ jointly."""
        free = np.random.default_rng(seed).standard_normal((size, len(self)))
        return np.asarray(([part.loc for part in self] + self[0].scale * free) @ self.factor.T)


@dataclass(frozen=True)
class DefinedVector(Family):
    """Two or three natural parameters from formulas. Only the pair (ε, δ) of its guarantee is known.

    Version 0.2 computed a bound on its Rényi divergences; this version does not, so only the pair (ε, δ) that
    a document states is known.
    """

    cumulant: str
    statistic: tuple[str, ...]
    box: Any = None
    values: Any = None
    support: Any = None
    name: ClassVar[str] = "defined-vector"
    records: ClassVar[RecordKind] = "vectors"
    reads: ClassVar[tuple[str, ...]] = ()
    work: ClassVar[float] = math.inf

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"t{i + 1}" for i in range(len(self.statistic)))

    def prior(self, parameters: Any) -> tuple[float, ...]:
        return tuple(map(float, parameters))

    def natural(self, distribution: Any) -> Natural:
        *means, strength = map(Fraction, distribution)
        return *(mean * strength for mean in means), strength

    def from_natural(self, eta: Natural) -> Any:
        raise not_made(self)

    def contribution(self, statistic: Any, n: int) -> Natural:
        raise not_made(self)

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        raise not_made(self)

    def normalisable(self, eta: Natural) -> bool:
        return eta[-1] > 0

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        raise not_made(self)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        raise not_made(self)

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        raise not_made(self)

    def _sufficient_statistic(self, *_: Any) -> tuple[Any, int]:
        raise not_made(self)

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        raise not_made(self)

    def curve(self, eta: Natural, n: int, r: Fraction) -> UnknownCurve:
        return UnknownCurve(self, eta, n, r)


@dataclass(frozen=True)
class UnknownCurve(PosteriorCurve):
    """A curve about which nothing is known: δ may be 1."""

    max_order: ClassVar[float] = 1.0

    def renyi(self, order: float) -> float:
        return math.inf


def not_made(family: Family) -> InvalidInputError:
    """Return the error to raise when someone makes a new request with a withdrawn family."""
    return InvalidInputError(f"family {family.name!r} is no longer offered; only its documents are read")
