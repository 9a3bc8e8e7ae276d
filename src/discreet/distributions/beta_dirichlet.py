"""Dirichlet distributions of proportions, and the Beta distribution for two levels."""

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
from discreet.distributions.base import Distribution, IntervalKind, PlugInInterval
from discreet.errors import InvalidInputError

_NORMAL_ABOVE = 1e12
"""Parameter above which a Beta is normal to 1e-6 of its standard deviation; incomplete Betas lose digits."""


def beta_logpdf(a: npt.ArrayLike, b: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Return the log-density of Beta(a, b), elementwise.

    Parameters
    ----------
    a, b
        Parameters.
    theta
        Where to evaluate it.

    Returns
    -------
    FloatArray
        The log-density; −∞ outside [0, 1].

    Notes
    -----
    Large parameters use Stirling's formula around the mean m = a/N, N = a + b, where nothing cancels:
    −N·KL(m‖θ) + ½ ln(ab/2πN) − ln θ(1−θ) + remainders.

    Examples
    --------
    >>> beta_logpdf(2, 2, [0.5, 2.0]).round(4).tolist()
    [0.4055, -inf]
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
        normal = np.minimum(p, q) > _NORMAL_ABOVE
        kl = np.where(normal, away * away * total * (total / p) * (total / q) / 2, kl)
        rest = stirling_remainder(total) - stirling_remainder(p) - stirling_remainder(q)
        value = np.asarray(value)
        value[large] = -kl + 0.5 * np.log(p * (q / total) / (2 * math.pi)) - np.log(x) - np.log1p(-x) + rest
    return np.asarray(np.where(inside, value, -np.inf), dtype=np.float64)


def beta_cdf(a: npt.ArrayLike, b: npt.ArrayLike, theta: npt.ArrayLike) -> FloatArray:
    """Return the distribution function of Beta(a, b), elementwise.

    Parameters
    ----------
    a, b
        Parameters. Above 10¹² the normal distribution is used, because the incomplete Beta loses accuracy.
    theta
        Where to evaluate it.

    Returns
    -------
    FloatArray
        Probabilities.

    Examples
    --------
    >>> beta_cdf(2, 2, [0.25, 0.5]).round(4).tolist()
    [0.1562, 0.5]
    """
    from scipy.special import betainc, ndtr

    a, b, theta = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (a, b, theta)))
    theta = np.clip(theta, 0.0, 1.0)
    if not (np.minimum(a, b) > _NORMAL_ABOVE).any():
        return np.asarray(betainc(a, b, theta), dtype=np.float64)
    mean = a / (a + b)
    spread = np.sqrt(mean * (b / (a + b)) / (a + b + 1))
    normal = ndtr((theta - mean) / spread)
    exact = betainc(np.minimum(a, _NORMAL_ABOVE), b, theta)
    return np.asarray(np.where(np.minimum(a, b) > _NORMAL_ABOVE, normal, exact), dtype=np.float64)


@dataclass(frozen=True, repr=False)
class _Conjugate(ABC):
    """The base of Beta and Dirichlet: updating by counts, and marking plug-in posteriors."""

    plug_in: bool = field(default=False, compare=False, kw_only=True)
    """Whether it treats noisy counts as exact: it says so when printed, and its intervals omit the noise."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[float, ...]: ...

    @abstractmethod
    def _like(self, parameters: Sequence[float]) -> Self: ...

    def update(self, counts: Iterable[Any]) -> Self:
        """Return the posterior after observing counts.

        Parameters
        ----------
        counts
            Number of records with each level.

        Returns
        -------
        Beta or Dirichlet
            The posterior.

        Raises
        ------
        InvalidInputError
            If the counts are not whole numbers of at least 0, one for each level.

        Examples
        --------
        >>> Beta(1, 1).update([3, 7])
        Beta(a=4.0, b=8.0)
        >>> Dirichlet((1, 1, 1)).update([2, 0, 5]).alpha
        (3.0, 1.0, 6.0)
        """
        prior = self.parameters
        return self._like([a + c for a, c in zip(prior, _counts(counts, len(prior)), strict=True)])

    def updated_with_public(self, counts: Iterable[Any]) -> Self:
        """Return the prior after public records, which cost no privacy.

        Parameters
        ----------
        counts
            Counts of data that anyone may see, one for each level. Never pass private counts.

        Returns
        -------
        Beta or Dirichlet
            The updated prior. It also lowers the sensitivity of the posterior to private records.

        Examples
        --------
        >>> Beta(1, 1).updated_with_public([30, 70])
        Beta(a=31.0, b=71.0)
        """
        return self.update(counts)

    def marginal(self, index: int) -> Beta:
        """Return the distribution of one proportion, Beta(αᵢ, Σα − αᵢ).

        Parameters
        ----------
        index
            Index of the level. For a Beta, 0 is θ and 1 is 1 − θ.

        Returns
        -------
        Beta
            The marginal.

        Raises
        ------
        InvalidInputError
            If there is no such level.

        Examples
        --------
        >>> Dirichlet((1, 2, 3)).marginal(2)
        Beta(a=3.0, b=3.0)
        """
        alpha = self.parameters
        try:
            first = alpha[index]
        except (IndexError, TypeError):
            raise InvalidInputError(f"must be between 0 and {len(alpha) - 1}", "index", index) from None
        position = index % len(alpha)
        return Beta(first, math.fsum(alpha[:position] + alpha[position + 1 :]), plug_in=self.plug_in)

    def __repr__(self) -> str:
        shown = (
            f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.name != "plug_in"
        )
        distribution = f"{type(self).__name__}({', '.join(shown)})"
        if not self.plug_in:
            return distribution
        return (
            f"plug-in {distribution}: treats released counts as exact, so its intervals are too narrow; "
            "see `posterior`"
        )


@dataclass(frozen=True, repr=False)
class Beta(_Conjugate, Distribution):
    """The Beta distribution of a probability θ of the first of two levels; the second has 1 − θ.

    Parameters
    ----------
    a, b
        Parameters.
    plug_in
        Whether the parameters contain noisy counts taken as exact, so that intervals are too narrow.

    Examples
    --------
    >>> posterior = Beta(1, 1).update([3, 7])
    >>> posterior.mean(), round(posterior.std(), 4), posterior.mode()
    (0.3333333333333333, 0.1307, 0.3)
    >>> [round(end, 4) for end in posterior.interval(0.9, "highest-density")]
    [0.1175, 0.5416]
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        a, b = as_prior((self.a, self.b), 2)
        object.__setattr__(self, "a", a)
        object.__setattr__(self, "b", b)

    @property
    def parameters(self) -> tuple[float, float]:
        """The parameters (a, b)."""
        return self.a, self.b

    def _like(self, parameters: Sequence[float]) -> Beta:
        return Beta(*parameters, plug_in=self.plug_in)

    def mean(self) -> float:
        """Return the mean.

        Returns
        -------
        float
            The mean.
        """
        return self.a / (self.a + self.b)

    def var(self) -> float:
        """Return the variance.

        Returns
        -------
        float
            The variance.
        """
        total = self.a + self.b
        return (self.a / total) * (self.b / total) / (total + 1)

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[float, float]:
        """Return a credible interval; that of a plug-in posterior is a ``PlugInInterval`` and is too narrow.

        Parameters
        ----------
        level
            Probability of the interval.
        kind
            ``equal-tailed`` leaves the same probability on both sides; ``highest-density`` is the shortest.

        Returns
        -------
        low, high : float
            The ends.

        Examples
        --------
        >>> low, high = Beta(3, 9).interval(0.9)
        >>> round(low, 4), round(high, 4)
        (0.0788, 0.4701)
        """
        ends = super().interval(level, kind)
        return PlugInInterval(*ends) if self.plug_in else ends

    def mode(self) -> float:
        """Return the most probable θ; NaN where the density is unbounded at both ends or flat.

        Returns
        -------
        float
            The mode.
        """
        if self.a > 1 and self.b > 1:
            return (self.a - 1) / (self.a + self.b - 2)
        if self.a == self.b or (self.a < 1 and self.b < 1):
            return math.nan
        return 0.0 if self.a < self.b else 1.0

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the log-density.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.

        Examples
        --------
        >>> Beta(2, 3).logpdf([0.25, 0.5]).round(4).tolist()
        [0.5232, 0.4055]
        """
        return beta_logpdf(self.a, self.b, theta)

    def cdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the distribution function.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each entry of ``theta``.

        Examples
        --------
        >>> Beta(2, 3).cdf([0.25, 0.5]).round(4).tolist()
        [0.2617, 0.6875]
        """
        return beta_cdf(self.a, self.b, theta)

    def ppf(self, probability: npt.ArrayLike) -> FloatArray:
        """Return quantiles.

        Parameters
        ----------
        probability
            Probabilities between 0 and 1.

        Returns
        -------
        FloatArray
            One value for each entry of ``probability``.

        Examples
        --------
        >>> Beta(2, 3).ppf([0.25, 0.5]).round(4).tolist()
        [0.243, 0.3857]
        """
        from scipy.special import betaincinv, ndtri

        if min(self.a, self.b) > _NORMAL_ABOVE:
            return np.asarray(np.clip(self.mean() + self.std() * ndtri(probability), 0, 1), dtype=np.float64)
        return np.asarray(betaincinv(self.a, self.b, probability), dtype=np.float64)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draw θ; released parameters are public, so this costs no privacy.

        Parameters
        ----------
        size
            Number or shape of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        FloatArray
            The draws.

        Examples
        --------
        >>> Beta(2, 3).sample(3, seed=1).shape
        (3,)
        """
        return np.random.default_rng(seed).beta(self.a, self.b, size)

    def to_scipy(self) -> Any:
        """Return the frozen ``scipy.stats.beta``.

        Returns
        -------
        scipy.stats distribution
            With the same parameters.
        """
        from scipy import stats

        return stats.beta(self.a, self.b)


def beta_summaries(alpha: FloatArray, level: float) -> tuple[FloatArray, ...]:
    """Return the mean, the standard deviation and the interval of every share under Dir(α).

    Parameters
    ----------
    alpha
        Parameters.
    level
        Probability of the equal-tailed intervals.

    Returns
    -------
    mean, sd, low, high : FloatArray
        One value for each share.

    Examples
    --------
    >>> mean, sd, low, high = beta_summaries(np.array([2.0, 3.0, 5.0]), 0.9)
    >>> mean.tolist(), low.round(4).tolist()
    ([0.2, 0.3, 0.5], [0.041, 0.0977, 0.2514])
    """
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
    """The Dirichlet distribution of k ≥ 2 proportions that sum to 1.

    Parameters
    ----------
    alpha
        Parameters, in the order of the levels.
    plug_in
        Whether the parameters contain noisy counts taken as exact, so that intervals are too narrow.

    Examples
    --------
    >>> posterior = Dirichlet((1, 1, 1)).update([2, 0, 5])
    >>> posterior.mean().tolist()
    [0.3, 0.1, 0.6]
    >>> posterior.interval(0.9)[0].round(4).tolist()
    [0.0977, 0.0057, 0.3449]
    """

    alpha: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "alpha", as_prior(self.alpha))

    @property
    def parameters(self) -> tuple[float, ...]:
        """The parameters α."""
        return self.alpha

    def _like(self, parameters: Sequence[float]) -> Dirichlet:
        return Dirichlet(tuple(parameters), plug_in=self.plug_in)

    @property
    def k(self) -> int:
        """The number of proportions."""
        return len(self.alpha)

    def mean(self) -> FloatArray:
        """Return the means of the proportions.

        Returns
        -------
        FloatArray
            One for each level.
        """
        alpha = np.array(self.alpha)
        return np.asarray(alpha / alpha.sum(), dtype=np.float64)

    def var(self) -> FloatArray:
        """Return the variances of the proportions.

        Returns
        -------
        FloatArray
            One for each level.
        """
        mean = self.mean()
        return np.asarray(mean * (1 - mean) / (sum(self.alpha) + 1), dtype=np.float64)

    def std(self) -> FloatArray:
        """Return the standard deviations of the proportions.

        Returns
        -------
        FloatArray
            One for each level.
        """
        return np.sqrt(self.var())

    def mode(self) -> FloatArray:
        """Return the most probable vector; NaN when some parameter is at most 1 (no interior mode).

        Returns
        -------
        FloatArray
            The mode.
        """
        alpha = np.array(self.alpha)
        if (alpha <= 1).any():
            return np.full(self.k, np.nan)
        return np.asarray((alpha - 1) / (alpha.sum() - self.k), dtype=np.float64)

    def logpdf(self, theta: npt.ArrayLike) -> FloatArray:
        """Return the log-density in the first k − 1 proportions.

        Parameters
        ----------
        theta
            Proportions, k entries along the last axis.

        Returns
        -------
        FloatArray
            One value for each vector; −∞ where it does not sum to 1.

        Raises
        ------
        InvalidInputError
            If the last axis does not have k entries.

        Examples
        --------
        >>> float(Dirichlet((1, 1, 1)).logpdf([0.2, 0.3, 0.5]).round(4))
        0.6931
        """
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
        """Return the density.

        Parameters
        ----------
        theta
            Values of the parameter.

        Returns
        -------
        FloatArray
            One value for each vector of proportions.
        """
        return np.exp(self.logpdf(theta))

    def interval(
        self, level: float = 0.95, kind: IntervalKind = "equal-tailed"
    ) -> tuple[FloatArray, FloatArray]:
        """Return credible intervals; those of a plug-in posterior are a ``PlugInInterval`` and too narrow.

        Parameters
        ----------
        level
            Probability of each interval.
        kind
            ``equal-tailed`` leaves the same probability on both sides; ``highest-density`` is the shortest.

        Returns
        -------
        low, high : FloatArray
            The ends, for each level.

        Examples
        --------
        >>> low, high = Dirichlet((2, 3, 5)).interval()
        >>> high.round(4).tolist()
        [0.4825, 0.6001, 0.788]
        """
        low, high = np.array([self.marginal(i).interval(level, kind) for i in range(self.k)]).T
        return PlugInInterval(low, high) if self.plug_in else (low, high)

    def sample(self, size: int | tuple[int, ...] = 1, seed: int | None = None) -> FloatArray:
        """Draw proportions; released parameters are public, so this costs no privacy.

        Parameters
        ----------
        size
            Number or shape of draws.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        FloatArray
            Draws of shape (size, k).

        Examples
        --------
        >>> Dirichlet((2, 3, 5)).sample(4, seed=1).shape
        (4, 3)
        """
        return np.random.default_rng(seed).dirichlet(self.alpha, size)

    def to_scipy(self) -> Any:
        """Return the frozen ``scipy.stats.dirichlet``.

        Returns
        -------
        scipy.stats distribution
            With the same parameters.
        """
        from scipy import stats

        return stats.dirichlet(self.alpha)


def dirichlet(parameters: Sequence[float], *, plug_in: bool = False) -> Beta | Dirichlet:
    """Return a Beta for two parameters, a Dirichlet for more.

    Parameters
    ----------
    parameters
        One for each level.
    plug_in
        Whether they contain noisy counts taken as exact.

    Returns
    -------
    Beta or Dirichlet
        The distribution.

    Examples
    --------
    >>> dirichlet([1, 2])
    Beta(a=1.0, b=2.0)
    >>> dirichlet([1, 2, 3])
    Dirichlet(alpha=(1.0, 2.0, 3.0))
    """
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
    """Describe a Dirichlet prior and its weight.

    Parameters
    ----------
    prior
        Its parameters.

    Returns
    -------
    str
        The description.

    Examples
    --------
    >>> prior_in_words([1, 1])
    'Beta(1, 1): all shares were equally likely beforehand'
    >>> prior_in_words([2, 3, 5])
    'Dirichlet(2, 3, 5): it weighs as much as 10 records'
    """
    listed = ", ".join(f"{a:g}" for a in prior) if len(prior) <= 12 else f"{prior[0]:g}, …, {prior[-1]:g}"
    name = "Beta" if len(prior) == 2 else "Dirichlet"
    if set(prior) == {1.0}:
        return f"{name}({listed}): all shares were equally likely beforehand"
    return f"{name}({listed}): it weighs as much as {sum(prior):g} records"
