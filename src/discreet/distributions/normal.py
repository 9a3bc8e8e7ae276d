"""The normal distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_exact, as_numbers
from discreet._typing import FloatArray
from discreet.distributions.law import Law
from discreet.errors import InvalidInputError


def as_sigma(sigma: Any) -> float:
    """A known standard deviation."""
    try:
        number = float(as_exact(sigma, "sigma"))
    except InvalidInputError:
        number = math.nan
    if not 1e-150 < number < 1e150:
        raise InvalidInputError(
            "must be positive: the known standard deviation of one record", parameter="sigma", value=sigma
        )
    return number


@dataclass(frozen=True)
class Normal(Law):
    """N(mean, sd²) over one real number."""

    loc: float
    scale: float

    def __post_init__(self) -> None:
        for name in ("loc", "scale"):
            object.__setattr__(self, name, float(as_exact(getattr(self, name), name)))
        if not 1e-150 < self.scale < 1e150:
            raise InvalidInputError(
                "of a Normal must be positive: it is a standard deviation",
                parameter="scale",
                value=self.scale,
            )

    @property
    def parameters(self) -> tuple[float, float]:
        return self.loc, self.scale

    def update(self, total: float, n: int, sigma: float) -> Normal:
        """The posterior of a mean after n records with this total and known standard deviation ``sigma``."""
        as_sigma(sigma)
        precision = 1 / self.scale**2 + n / sigma**2
        centre = (self.loc / self.scale**2 + float(as_exact(total, "total")) / sigma**2) / precision
        return Normal(centre, 1 / math.sqrt(precision))

    def updated_with_public(self, data: Sequence[float], sigma: float) -> Normal:
        """The prior that knows public records too; they cost no privacy, and strengthen it."""
        values = as_numbers(data)
        if values.ndim != 1 or not np.isfinite(values).all():
            raise InvalidInputError("public data must be a sequence of finite numbers")
        return self.update(math.fsum(values), len(values), sigma)

    def mean(self) -> float:
        return self.loc

    def var(self) -> float:
        return self.scale**2

    def std(self) -> float:
        return self.scale

    def mode(self) -> float:
        return self.loc

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        away = (np.asarray(theta, dtype=np.float64) - self.loc) / self.scale
        return np.asarray(-away * away / 2 - math.log(self.scale * math.sqrt(2 * math.pi)), dtype=np.float64)

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        from scipy.special import ndtr

        away = (np.asarray(theta, dtype=np.float64) - self.loc) / self.scale
        return np.asarray(ndtr(away), dtype=np.float64)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        from scipy.special import ndtri

        return np.asarray(self.loc + self.scale * ndtri(probability), dtype=np.float64)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draws, in floats: for a distribution that may be known. Not a private release."""
        return np.random.default_rng(seed).normal(self.loc, self.scale, size)

    def to_scipy(self) -> Any:
        """The frozen ``scipy.stats.norm``."""
        from scipy import stats

        return stats.norm(self.loc, self.scale)
