"""Means: the normal distribution, and the mean of bounded records with known variance."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.declarations import as_bounds, as_exact, as_positive
from discreet.distributions.law import Law
from discreet.distributions.normal import Normal, as_sigma
from discreet.errors import InvalidInput
from discreet.numerics.enclosures import Ball, ball
from discreet.posterior_sampling.family import (
    Family,
    Natural,
    Pair,
    RecordKind,
    as_nearby,
    clipped_words,
    largest_move,
    of_two,
    record_rows,
)
from discreet.privacy.curves import Curve, Gaussian, gaussian_hockey_stick
from discreet.randomness.cells import normal_cell, power_of_two
from discreet.randomness.entropy import Source


@dataclass(frozen=True)
class _MeanFamily(Family):
    """Coordinates η = (precision·mean of each axis …, precision); C = Σhᵢ²/2τ − (d/2)·ln τ.

    A record x adds (x/σ², 1/σ²), so neighbours have equal precisions τ and means at a distance of at most
    r·w/(σ²τ), w the largest distance between two records. One draw is therefore μ-GDP, exactly, with
    μ² = r²w²/(σ⁴τ), and the pair at that distance is attained whatever the other records are.
    """

    sigma: float
    parameter: ClassVar[str] = "mean"

    @abstractmethod
    def _width_squared(self) -> Fraction:
        """w²."""

    @property
    def _unit(self) -> Fraction:
        return 1 / Fraction(self.sigma) ** 2

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        *heights, precision = eta
        squares = sum((height * height for height in heights), start=ball(0))
        return squares / (2 * precision) - len(heights) * precision.log() / 2

    def normalisable(self, eta: Natural) -> bool:
        return eta[-1] > 0

    def curve(self, eta: Natural, n: int, r: Fraction) -> Curve:
        precision = eta[-1] + r * n * self._unit
        return Gaussian((r * self._unit) ** 2 * self._width_squared() / precision)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        variance = 1 / (eta[-1] + r * n * self._unit)
        return power_of_two(math.sqrt(float(variance))) / 2**32

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        *heights, precision = (float(value) for value in eta)
        centre = np.array(heights) / precision
        return centre + rng.standard_normal((size, len(heights))) / math.sqrt(precision)

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        *heights, precision = eta
        return tuple(normal_cell(height / precision, precision, grid, source) for height in heights)

    def _given(self, prior: Normal, n: int, r: float, m: float, draws: FloatArray) -> Normal:
        """The mean of the draws is normal around a + b·θ, so the posterior is conjugate."""
        sigma, own = self.sigma, prior.scale**-2.0
        precision = own / m + r * n / sigma**2
        a, b = own * prior.loc / m / precision, r * n / sigma**2 / precision
        variance = 1 / (len(draws) * precision) + b**2 * sigma**2 / n
        total = own + b**2 / variance
        centre = prior.loc * own + b * (float(draws.mean()) - a) / variance
        return Normal(centre / total, 1 / math.sqrt(total))

    def hockey_stick(self, pair: Pair, epsilon: Fraction) -> Ball:
        return gaussian_hockey_stick(_mu_squared(pair), epsilon)

    def hockey_sticks(self, pair: Pair, epsilons: FloatArray) -> FloatArray:
        return Gaussian(_mu_squared(pair)).profiles(epsilons)


def _mu_squared(pair: Pair) -> Fraction:
    """Of two normal laws with one precision τ: τ times the squared distance of their means."""
    (*first, precision), (*second, _) = pair
    return sum(((p - q) ** 2 for p, q in zip(first, second, strict=True)), Fraction(0)) / precision


@dataclass(frozen=True)
class GaussianMean(_MeanFamily):
    """The mean of numbers with known standard deviation ``sigma``, clipped to declared bounds.

    ``nearby``: protect records against others that are no farther away, and not against all; see
    ``docs/posterior-sampling.md``.
    """

    bounds: tuple[float, float] = None  # type: ignore[assignment]
    nearby: float | None = field(default=None, kw_only=True)
    name: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_bounds(self.bounds, "one record"))
        object.__setattr__(self, "nearby", as_nearby(self.nearby, self.bounds, whole=False))
        object.__setattr__(self, "sigma", as_sigma(self.sigma))

    def prior(self, parameters: Any) -> Normal:
        found: Normal = of_two(Normal, parameters, "(mean, standard deviation), such as (0, 1)")
        return found

    def natural(self, distribution: Normal) -> Natural:
        precision = 1 / Fraction(distribution.scale) ** 2
        return Fraction(distribution.loc) * precision, precision

    def from_natural(self, eta: Natural) -> Normal:
        return Normal(float(eta[0] / eta[1]), 1 / math.sqrt(eta[1]))

    def _width_squared(self) -> Fraction:
        return largest_move(self.bounds, self.nearby) ** 2

    def contribution(self, statistic: Any, n: int) -> Natural:
        return self.total(statistic, n) * self._unit, n * self._unit

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        unit = r * self._unit
        low, precision = eta[0] + n * Fraction(self.bounds[0]) * unit, eta[1] + n * unit
        first, second = (low, precision), (low + largest_move(self.bounds, self.nearby) * unit, precision)
        return [(first, second), (second, first)]

    def given_draws(self, prior: Normal, n: int, r: float, m: float, draws: FloatArray) -> Normal:
        return self._given(prior, n, r, m, draws.reshape(-1))

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        model = f"the mean of numbers with standard deviation {self.sigma:g}{clipped_words(self.bounds)}"
        return model, f"mean {prior[0]:g}, standard deviation {prior[1]:g}"


@dataclass(frozen=True)
class GaussianVector(_MeanFamily):
    """The mean of vectors with known standard deviation ``sigma`` on every axis, clipped to norm ``radius``.

    The prior is (mean of each axis, one standard deviation), such as ((0, 0), 1).
    """

    radius: float = None  # type: ignore[assignment]
    dimension: int = 2
    name: ClassVar[str] = "gaussian-vector"
    records: ClassVar[RecordKind] = "vectors"
    reads: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.radius is None:
            as_bounds(None, "the norm of one record")
        radius = float(as_exact(self.radius, "radius"))
        if not radius > 0:
            raise InvalidInput(f"radius={self.radius!r} must be positive: records are clipped to this norm")
        as_positive(self.dimension, "dimension")
        object.__setattr__(self, "radius", radius)
        object.__setattr__(self, "sigma", as_sigma(self.sigma))

    def prior(self, parameters: Any) -> tuple[Normal, ...]:
        if isinstance(parameters, tuple) and all(isinstance(part, Normal) for part in parameters):
            marginals = parameters
        else:
            try:
                means, scale = parameters
                marginals = tuple(Normal(mean, scale) for mean in means)
            except (TypeError, ValueError) as error:
                if isinstance(error, InvalidInput):
                    raise
                raise InvalidInput(
                    f"prior={parameters!r} must be (means, standard deviation), such as ((0, 0), 1)"
                ) from None
        if len(marginals) != self.dimension or len({marginal.scale for marginal in marginals}) != 1:
            raise InvalidInput(f"the prior must have {self.dimension} means and one standard deviation")
        return marginals

    def natural(self, distribution: tuple[Normal, ...]) -> Natural:
        precision = 1 / Fraction(distribution[0].scale) ** 2
        return *(Fraction(marginal.loc) * precision for marginal in distribution), precision

    def from_natural(self, eta: Natural) -> tuple[Normal, ...]:
        *heights, precision = eta
        return tuple(Normal(float(height / precision), 1 / math.sqrt(precision)) for height in heights)

    def _width_squared(self) -> Fraction:
        return (2 * Fraction(self.radius)) ** 2

    def contribution(self, statistic: Any, n: int) -> Natural:
        try:
            values = [as_exact(value, "the statistic") for value in statistic]
        except TypeError:
            values = []
        if len(values) != self.dimension:
            raise InvalidInput(f"the statistic must be the sum of the records, {self.dimension} numbers")
        if sum(value * value for value in values) > (n * Fraction(self.radius)) ** 2:
            raise InvalidInput(
                f"the statistic has a norm above n·radius = {n * self.radius:g}: clip the records to "
                f"radius={self.radius:g} before they are summed"
            )
        return *(value * self._unit for value in values), n * self._unit

    def gathered(
        self, data: Any, column: str | None, options: Mapping[str, Any], people: Mapping[str, Any]
    ) -> tuple[Any, int]:
        return sum_in_ball(record_rows(data, people, self.dimension), self.radius)

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        step = r * Fraction(self.radius) * self._unit
        rest, precision = eta[1:-1], eta[-1] + r * n * self._unit
        first, second = ((eta[0] + sign * step, *rest, precision) for sign in (1, -1))
        return [(first, second), (second, first)]

    def value(self, draws: FloatArray) -> FloatArray:
        return draws

    def public_prior(self, prior: tuple[Normal, ...]) -> list[Any]:
        return [list(part.parameters) for part in prior]

    def prior_from_json(self, parameters: list[Any]) -> tuple[Normal, ...]:
        return tuple(Normal(*part) for part in parameters)

    def given_draws(
        self, prior: tuple[Normal, ...], n: int, r: float, m: float, draws: FloatArray
    ) -> tuple[Normal, ...]:
        axes = zip(prior, draws.T, strict=True)
        return tuple(self._given(own, n, r, m, values) for own, values in axes)

    def marginals(self, law: tuple[Normal, ...]) -> list[Law]:
        return list(law)

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        model = f"the mean of vectors with standard deviation {self.sigma:g} on each axis, clipped to length "
        centre = ", ".join(f"{mean:g}" for mean, _ in prior)
        return f"{model}{self.radius:g}", f"mean ({centre}), standard deviation {prior[0][1]:g}"


def sum_in_ball(rows: FloatArray, radius: float) -> tuple[tuple[Fraction, ...], int]:
    """Rows clipped to the norm and rounded towards zero on a grid, so that no norm exceeds the radius."""
    # In units of the largest component, so that no square overflows or vanishes.
    size = np.abs(rows).max(axis=1, keepdims=True)
    direction = rows / np.where(size > 0, size, 1.0)
    length = np.linalg.norm(direction, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        inside = np.minimum(size / radius * length, 1 - 1e-12) / np.where(length > 0, length, 1.0)
    steps = np.trunc(direction * inside * 2.0**32).astype(np.int64)
    unit = Fraction(radius) / 2**32
    return tuple(int(total) * unit for total in steps.astype(object).sum(axis=0)), len(rows)


@dataclass(frozen=True)
class CorrelatedVector(GaussianVector):
    """The mean of vectors with known ``covariance``, clipped to so many standard deviations, ``radius``.

    With the triangular factor L of the covariance, the records L⁻¹x are uncorrelated with standard deviation
    1, and the model is that of :class:`GaussianVector` on them: they are clipped to norm ``radius``
    (x'Σ⁻¹x ≤ radius²) and summed, and a draw φ of their mean is published as Lφ. The prior is (means, scale):
    the covariance of the mean is scale² times that of a record, the form that is conjugate.
    """

    sigma: float = 1.0
    dimension: int = 0
    covariance: tuple[tuple[float, ...], ...] = ()
    name: ClassVar[str] = "correlated-vector"

    def __post_init__(self) -> None:
        try:
            matrix = np.array(self.covariance, dtype=np.float64)
            np.linalg.cholesky(matrix)
        except (ValueError, TypeError, np.linalg.LinAlgError):
            matrix = np.zeros((1, 0))
        if not matrix.size or not np.array_equal(matrix, matrix.T) or not np.isfinite(matrix).all():
            raise InvalidInput(
                f"covariance={self.covariance!r} must be a symmetric, positive definite matrix: that of one "
                "record"
            )
        object.__setattr__(self, "covariance", tuple(map(tuple, matrix.tolist())))
        if self.dimension not in (0, len(matrix)) or self.sigma != 1:
            raise InvalidInput("sigma and dimension follow from the covariance: leave them out")
        object.__setattr__(self, "dimension", len(matrix))
        super().__post_init__()

    @cached_property
    def _factor(self) -> FloatArray:
        return np.asarray(np.linalg.cholesky(np.array(self.covariance)), dtype=np.float64)

    def _uncorrelated(self, rows: FloatArray) -> FloatArray:
        return np.asarray(np.linalg.solve(self._factor, rows.T).T, dtype=np.float64)

    def prior(self, parameters: Any) -> tuple[Normal, ...]:
        """The prior of φ = L⁻¹·mean, from (means, scale)."""
        if isinstance(parameters, tuple) and all(isinstance(part, Normal) for part in parameters):
            return super().prior(parameters)
        try:
            means, scale = parameters
            centre = self._uncorrelated(np.array([means], dtype=np.float64))[0]
        except (TypeError, ValueError):
            raise InvalidInput(
                f"prior={parameters!r} must be ({self.dimension} means, scale), such as ((0, 0), 1)"
            ) from None
        return super().prior((centre.tolist(), scale))

    def gathered(
        self, data: Any, column: str | None, options: Mapping[str, Any], people: Mapping[str, Any]
    ) -> tuple[Any, int]:
        rows = record_rows(data, people, self.dimension)
        return sum_in_ball(np.clip(self._uncorrelated(rows), -1e300, 1e300), self.radius)

    def value(self, draws: FloatArray) -> FloatArray:
        return np.asarray(draws @ self._factor.T, dtype=np.float64)

    def given_draws(
        self, prior: tuple[Normal, ...], n: int, r: float, m: float, draws: FloatArray
    ) -> tuple[Normal, ...]:
        """The law of φ: independent numbers with one standard deviation."""
        return super().given_draws(prior, n, r, m, self._uncorrelated(draws))

    def marginals(self, law: tuple[Normal, ...]) -> list[Law]:
        centre = self._factor @ [part.loc for part in law]
        scales = law[0].scale * np.sqrt(np.diag(self.covariance))
        return [Normal(float(c), float(s)) for c, s in zip(centre, scales, strict=True)]

    def sample(self, law: tuple[Normal, ...], size: int, seed: int | None) -> FloatArray:
        free = np.random.default_rng(seed).standard_normal((size, self.dimension))
        return self.value([part.loc for part in law] + law[0].scale * free)

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        model = f"the mean of correlated vectors, clipped to {self.radius:g} standard deviations"
        centre = ", ".join(f"{mean:g}" for mean in self._factor @ [mean for mean, _ in prior])
        return model, f"mean ({centre}), {prior[0][1]:g} times the spread of a record"
