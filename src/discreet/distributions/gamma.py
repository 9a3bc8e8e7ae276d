"""The Gamma distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_exact, as_numbers, as_size
from discreet._typing import FloatArray
from discreet.distributions.law import Law
from discreet.errors import InvalidInputError


def gamma_logpdf(shape: npt.ArrayLike, rate: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Log-density of Gamma(shape, rate), elementwise."""
    from scipy.special import gammaln, xlogy

    shape, rate, theta = (np.asarray(v, dtype=np.float64) for v in (shape, rate, theta))
    x = np.where(theta >= 0, theta, 1.0) * rate
    value = xlogy(shape - 1, x) - x + np.log(rate) - gammaln(shape)
    return np.asarray(np.where(theta >= 0, value, -np.inf), dtype=np.float64)


def gamma_cdf(shape: npt.ArrayLike, rate: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Distribution function of Gamma(shape, rate), elementwise."""
    from scipy.special import gammainc

    return np.asarray(gammainc(shape, rate * np.maximum(theta, 0.0)), dtype=np.float64)


@dataclass(frozen=True)
class Gamma(Law):
    """Gamma(shape, rate) over a rate θ > 0; its mean is shape/rate."""

    shape: float
    rate: float

    def __post_init__(self) -> None:
        for name in ("shape", "rate"):
            value = float(as_exact(getattr(self, name), name))
            if not 0 < value <= 1e300:
                raise InvalidInputError(
                    "of a Gamma must be positive, at most 1e300", parameter=name, value=getattr(self, name)
                )
            object.__setattr__(self, name, value)

    @property
    def parameters(self) -> tuple[float, float]:
        return self.shape, self.rate

    def update(self, total: float, n: int, likelihood: str = "poisson") -> Gamma:
        """The posterior after n records with this total: counts (``poisson``) or waiting times."""
        size, added = as_size(n), float(as_exact(total, "total"))
        if added < 0:
            raise InvalidInputError("total must not be negative: it is a sum of counts or of waiting times")
        if likelihood == "poisson":
            return Gamma(self.shape + added, self.rate + size)
        if likelihood == "exponential":
            return Gamma(self.shape + size, self.rate + added)
        raise InvalidInputError(
            "must be 'poisson' or 'exponential'", parameter="likelihood", value=likelihood
        )

    def updated_with_public(self, data: Sequence[float], likelihood: str = "poisson") -> Gamma:
        """The prior that knows public records too; they cost no privacy, and strengthen it."""
        values = as_numbers(data)
        if values.ndim != 1 or not (np.isfinite(values) & (values >= 0)).all():
            raise InvalidInputError("public data must be a sequence of finite numbers, at least 0")
        return self.update(math.fsum(values), len(values), likelihood) if len(values) else self

    def mean(self) -> float:
        return self.shape / self.rate

    def var(self) -> float:
        return self.shape / self.rate / self.rate

    def mode(self) -> float:
        return max(0.0, self.shape - 1) / self.rate

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        return gamma_logpdf(self.shape, self.rate, theta)

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        return gamma_cdf(self.shape, self.rate, theta)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        from scipy.special import gammaincinv

        return np.asarray(gammaincinv(self.shape, probability) / self.rate, dtype=np.float64)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draws of θ, in floats: for a distribution that may be known. Not a private release."""
        return np.random.default_rng(seed).gamma(self.shape, 1 / self.rate, size)

    def to_scipy(self) -> Any:
        """The frozen ``scipy.stats.gamma``."""
        from scipy import stats

        return stats.gamma(self.shape, scale=1 / self.rate)
