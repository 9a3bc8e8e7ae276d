"""Vectors whose components are correlated, with a known covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.distributions.law import Law
from discreet.distributions.normal import Normal
from discreet.errors import InvalidInput
from discreet.posterior_sampling.families.means import GaussianVector, sum_in_ball
from discreet.posterior_sampling.family import record_rows


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
