"""Dirichlet distributions over proportions, and their two-level face, the Beta distribution."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_counts, as_prior
from discreet._numerics.log_gamma import stirling_remainder
from discreet._typing import FloatArray
from discreet.distributions.law import IntervalKind, Law, PlugInInterval
from discreet.errors import InvalidInputError

_NORMAL = 1e12  # above, a Beta is normal to 1e-6 of its standard deviation, and incomplete Betas lose digits


def beta_logpdf(a: npt.ArrayLike, b: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Log-density of Beta(a, b), elementwise.

    Large parameters by Stirling's formula around the mean m = a/N, N = a + b, where nothing cancels:
    −N·KL(m‖θ) + ½ ln(ab/2πN) − ln θ(1−θ) + remainders.
    """
    from scipy.special import betaln, xlog1py, xlogy

    a, b, theta = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (a, b, theta)))
    inside = (theta >= 0) & (theta <= 1)
    large = (np.minimum(a, b) >= 10) & (theta > 0) & (theta < 1)
    x = np.where(inside, theta, 0.5)
    value = xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b)
    if large.any():
        p, q, x = a[large], b[large], theta[large]
        total = p + q
        away = x - p / total
        kl = p * np.log1p(-away / x) + q * np.log1p(away / (1 - x))
        normal = np.minimum(p, q) > _NORMAL
        kl = np.where(normal, away * away * total * (total / p) * (total / q) / 2, kl)
        rest = stirling_remainder(total) - stirling_remainder(p) - stirling_remainder(q)
        value = np.asarray(value)
        value[large] = -kl + 0.5 * np.log(p * (q / total) / (2 * math.pi)) - np.log(x) - np.log1p(-x) + rest
    return np.asarray(np.where(inside, value, -np.inf), dtype=np.float64)


def beta_cdf(a: npt.ArrayLike, b: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Distribution function of Beta(a, b), elementwise; normal where the incomplete Beta loses its digits."""
    from scipy.special import betainc, ndtr

    a, b, theta = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (a, b, theta)))
    theta = np.clip(theta, 0.0, 1.0)
    if not (np.minimum(a, b) > _NORMAL).any():
        return np.asarray(betainc(a, b, theta), dtype=np.float64)
    mean = a / (a + b)
    spread = np.sqrt(mean * (b / (a + b)) / (a + b + 1))
    normal = ndtr((theta - mean) / spread)
    exact = betainc(np.minimum(a, _NORMAL), b, theta)
    return np.asarray(np.where(np.minimum(a, b) > _NORMAL, normal, exact), dtype=np.float64)


@dataclass(frozen=True, repr=False)
class _Conjugate(ABC):
    """What Beta and Dirichlet share: they are updated by counts, and may be plug-ins."""

    plug_in: bool = field(default=False, compare=False, kw_only=True)
    """Whether its parameters are noisy counts that it takes for exact: it prints so, and its intervals do."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[float, ...]: ...

    @abstractmethod
    def _like(self, parameters: Sequence[float]) -> Self: ...

    def update(self, counts: Iterable[Any]) -> Self:
        """The posterior after ``counts``, one per level."""
        known = self.parameters
        return self._like([a + c for a, c in zip(known, _counts(counts, len(known)), strict=True)])

    def updated_with_public(self, counts: Iterable[Any]) -> Self:
        """The prior that knows public records too: they cost no privacy, and private ones stand out less.

        ``counts`` are those of data that anyone may see, one per level. Never call it with private counts.
        """
        return self.update(counts)

    def marginal(self, index: int) -> Beta:
        """The law of one proportion, Beta(αᵢ, Σα − αᵢ); of a Beta index 0 is θ, index 1 is 1 − θ."""
        alpha = self.parameters
        try:
            own = alpha[index]
        except (IndexError, TypeError):
            raise InvalidInputError(
                f"must be between 0 and {len(alpha) - 1}", parameter="index", value=index
            ) from None
        position = index % len(alpha)
        return Beta(own, math.fsum(alpha[:position] + alpha[position + 1 :]), plug_in=self.plug_in)

    def __repr__(self) -> str:
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.name != "plug_in")
        law = f"{type(self).__name__}({', '.join(shown)})"
        if not self.plug_in:
            return law
        return (
            f"plug-in {law}: takes released counts for exact, its intervals are too narrow; see `posterior`"
        )


@dataclass(frozen=True, repr=False)
class Beta(_Conjugate, Law):
    """Beta(a, b) over one probability θ: of the first of two levels. The second level has 1 − θ."""

    a: float
    b: float

    def __post_init__(self) -> None:
        a, b = as_prior((self.a, self.b), 2)
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)

    @property
    def parameters(self) -> tuple[float, float]:
        return self.a, self.b

    def _like(self, parameters: Sequence[float]) -> Beta:
        return Beta(*parameters, plug_in=self.plug_in)

    def mean(self) -> float:
        return self.a / (self.a + self.b)

    def var(self) -> float:
        total = self.a + self.b
        return (self.a / total) * (self.b / total) / (total + 1)

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[float, float]:
        """A credible interval (low, high) of probability ``level``; of a plug-in it says that it is one."""
        ends = super().interval(level, kind)
        return PlugInInterval(*ends) if self.plug_in else ends

    def mode(self) -> float:
        """The most probable θ; NaN where the density is unbounded at both ends or flat."""
        if self.a > 1 and self.b > 1:
            return (self.a - 1) / (self.a + self.b - 2)
        if self.a == self.b or (self.a < 1 and self.b < 1):
            return math.nan
        return 0.0 if self.a < self.b else 1.0

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        return beta_logpdf(self.a, self.b, theta)

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        return beta_cdf(self.a, self.b, theta)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        from scipy.special import betaincinv, ndtri

        if min(self.a, self.b) > _NORMAL:
            return np.asarray(np.clip(self.mean() + self.std() * ndtri(probability), 0, 1), dtype=np.float64)
        return np.asarray(betaincinv(self.a, self.b, probability), dtype=np.float64)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draws of θ. The parameters are public once released, so this costs no privacy."""
        return np.random.default_rng(seed).beta(self.a, self.b, size)

    def to_scipy(self) -> Any:
        """The frozen ``scipy.stats.beta``."""
        from scipy import stats

        return stats.beta(self.a, self.b)


def beta_summaries(alpha: FloatArray, level: float) -> tuple[FloatArray, ...]:
    """Mean, standard deviation and equal-tailed interval (low, high) of every share under Dir(α)."""
    from scipy.special import betaincinv

    # Of what comes before and after: a difference of sums would be 0 beside a very large parameter.
    before, after = np.cumsum(alpha), np.cumsum(alpha[::-1])[::-1]
    rest = np.concatenate(([0.0], before[:-1])) + np.concatenate((after[1:], [0.0]))
    mean = alpha / (alpha + rest)
    deviation = np.sqrt(mean * (1 - mean) / (alpha + rest + 1))
    low, high = (betaincinv(alpha, rest, p) for p in ((1 - level) / 2, (1 + level) / 2))
    return mean, deviation, low, high


@dataclass(frozen=True, repr=False)
class Dirichlet(_Conjugate):
    """Dir(α) over k ≥ 2 proportions that sum to 1. Vector results are in the order of the levels."""

    alpha: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_prior(self.alpha))

    @property
    def parameters(self) -> tuple[float, ...]:
        return self.alpha

    def _like(self, parameters: Sequence[float]) -> Dirichlet:
        return Dirichlet(tuple(parameters), plug_in=self.plug_in)

    @property
    def k(self) -> int:
        return len(self.alpha)

    def mean(self) -> FloatArray:
        alpha = np.array(self.alpha)
        return np.asarray(alpha / alpha.sum(), dtype=np.float64)

    def var(self) -> FloatArray:
        mean = self.mean()
        return np.asarray(mean * (1 - mean) / (sum(self.alpha) + 1), dtype=np.float64)

    def std(self) -> FloatArray:
        return np.sqrt(self.var())

    def mode(self) -> FloatArray:
        """The most probable vector; NaN when some parameter is at most 1 (no interior mode)."""
        alpha = np.array(self.alpha)
        if (alpha <= 1).any():
            return np.full(self.k, np.nan)
        return np.asarray((alpha - 1) / (alpha.sum() - self.k), dtype=np.float64)

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Log-density in the first k − 1 proportions; ``theta`` has k entries along its last axis."""
        from scipy.special import gammaln, xlogy

        theta = np.asarray(theta, dtype=np.float64)
        if theta.ndim == 0 or theta.shape[-1] != self.k:
            raise InvalidInputError(f"theta must have {self.k} proportions along its last axis")
        alpha = np.array(self.alpha)
        inside = (theta >= 0).all(axis=-1) & (np.abs(theta.sum(axis=-1) - 1) < 1e-9)
        safe = np.where(inside[..., None], theta, 1 / self.k)
        value = xlogy(alpha - 1, safe).sum(axis=-1) + gammaln(alpha.sum()) - gammaln(alpha).sum()
        return np.where(inside, value, -np.inf)

    def pdf(self, theta: npt.ArrayLike) -> FloatArray:
        return np.exp(self.logpdf(theta))

    def interval(
        self, level: float = 0.95, kind: IntervalKind = "equal-tailed"
    ) -> tuple[FloatArray, FloatArray]:
        """Credible intervals of the k proportions, each of probability ``level``: arrays (low, high).

        Those of a plug-in say that they are.
        """
        low, high = np.array([self.marginal(i).interval(level, kind) for i in range(self.k)]).T
        return PlugInInterval(low, high) if self.plug_in else (low, high)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draws of the proportions, shape (size, k). Costs no privacy once the parameters are released."""
        return np.random.default_rng(seed).dirichlet(self.alpha, size)

    def to_scipy(self) -> Any:
        """The frozen ``scipy.stats.dirichlet``."""
        from scipy import stats

        return stats.dirichlet(self.alpha)


def dirichlet(parameters: Sequence[float], *, plug_in: bool = False) -> Beta | Dirichlet:
    """Beta for two parameters, Dirichlet for more."""
    if len(parameters) == 2:
        return Beta(*parameters, plug_in=plug_in)
    return Dirichlet(tuple(parameters), plug_in=plug_in)


def _counts(counts: Iterable[Any], k: int) -> tuple[int, ...]:
    try:
        values = tuple(counts)
        total = sum(values)
    except TypeError:
        return as_counts(counts, k, 0)  # which says what is wrong
    return as_counts(values, k, total)


def prior_in_words(prior: Sequence[float]) -> str:
    """A Dirichlet prior, and what it weighs."""
    listed = ", ".join(f"{a:g}" for a in prior) if len(prior) <= 12 else f"{prior[0]:g}, …, {prior[-1]:g}"
    name = "Beta" if len(prior) == 2 else "Dirichlet"
    if set(prior) == {1.0}:
        return f"{name}({listed}): all shares were equally likely beforehand"
    return f"{name}({listed}): it weighs as much as {sum(prior):g} records"
