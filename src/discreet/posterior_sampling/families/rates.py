"""Rates: the Gamma distribution, and its Poisson and exponential likelihoods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._declarations import as_exact
from discreet._numerics.enclosures import Ball, ball
from discreet._numerics.log_gamma import log_rising
from discreet._randomness.cells import exact_cell, power_of_two
from discreet._randomness.entropy import Source
from discreet._typing import FloatArray
from discreet.distributions.gamma import Gamma
from discreet.distributions.mixtures import GammaMixture
from discreet.errors import InvalidInputError
from discreet.posterior_sampling._given_draws import weighed_statistics
from discreet.posterior_sampling.family import Natural, NumberFamily, ProfiledFamily, RecordKind, keep, of_two


@dataclass(frozen=True)
class _GammaFamily(ProfiledFamily, NumberFamily):
    """Gamma posteriors with natural parameters (shape, rate) and C = lnΓ(shape) − shape·ln(rate)."""

    bounds: tuple[float, float]
    nearby: float | None = field(default=None, init=False)
    parameter: ClassVar[str] = "rate"
    least: ClassVar[float] = 0

    def size(self, eta: Natural) -> Fraction:
        """Return the parameter on which the relative rounding error of floating-point tails depends.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        Fraction
        """
        return eta[0]

    def prior(self, parameters: Any) -> Gamma:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        Gamma

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.
        """
        return of_two(Gamma, parameters, "(shape, rate) of a Gamma, such as (2, 1)")

    def _prior_in_words(self, prior: list[Any]) -> str:
        return f"Gamma({prior[0]:g}, {prior[1]:g}): mean {prior[0] / prior[1]:g}"

    def natural(self, distribution: Gamma) -> Natural:
        """Return (shape, rate), exactly.

        Parameters
        ----------
        distribution : object
            A prior or posterior of this family.

        Returns
        -------
        tuple of Fraction
        """
        return Fraction(distribution.shape), Fraction(distribution.rate)

    def from_natural(self, eta: Natural) -> Gamma:
        """Return the prior or posterior with natural parameters η.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        Gamma
        """
        return Gamma(float(eta[0]), float(eta[1]))

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        """Return C(η) = lnΓ(shape) − shape·ln(rate).

        Parameters
        ----------
        eta : sequence of Ball
            The natural parameters, as enclosures.

        Returns
        -------
        Ball
        """
        shape, rate = eta
        return shape.lgamma() - shape * rate.log()

    def normalisable(self, eta: Natural) -> bool:
        """Return whether shape and rate are positive.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        bool
        """
        return eta[0] > 0 and eta[1] > 0

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw from the posterior in floating point; these draws are not private.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        size : int
            The number of draws.
        rng : numpy.random.Generator
            The source of pseudo-random numbers.

        Returns
        -------
        ndarray of shape (size, dimension)
        """
        return rng.gamma(float(eta[0]), 1 / float(eta[1]), (size, 1))

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """Draw exactly from the posterior, rounded to the middle of a cell of the grid.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        grid : Fraction
            The width of a cell.
        source : Source
            The source of random bits.

        Returns
        -------
        tuple of Fraction
        """
        shape, rate = eta
        approximate = Gamma(float(shape), float(rate))

        def _cdf(theta: Fraction) -> Ball:
            return ball(0) if theta <= 0 else 1 - ball(rate * theta).gamma_upper(ball(shape), regularized=1)

        return (exact_cell(_cdf, lambda u: float(approximate.ppf(u)), grid, source),)


@dataclass(frozen=True)
class Poisson(_GammaFamily):
    """Counts with rate θ, clipped to declared whole-number bounds, with a Gamma(shape, rate) prior.

    A record x adds (x, 1) to (shape, rate), so neighbours have equal rates, and shapes s and s + t. The
    divergences do not depend on the rate. They grow with t, because the likelihood ratio is monotone in θ^t,
    and fall with s, because adding the same independent Gamma variable to both can only make them more alike.
    So the worst pair has all other counts at the lower bound.
    """

    name: ClassVar[str] = "poisson"
    records: ClassVar[RecordKind] = "counts"
    bounds_of: ClassVar[str] = "a count"
    words: ClassVar[str] = "the mean number of events per record"

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (Σx, n).

        Parameters
        ----------
        statistic : object
            The sufficient statistic of the records.
        n : int
            The number of records.

        Returns
        -------
        tuple of Fraction

        Raises
        ------
        InvalidInputError
            If the statistic is not in its range.

        Examples
        --------
        >>> Poisson(bounds=(0, 20)).contribution(27, 3)
        (Fraction(27, 1), Fraction(3, 1))
        """
        return self.total(statistic, n), Fraction(n)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        """Return the width of the cells that draws are rounded to, from public parameters.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        Fraction
        """
        return power_of_two(1 / (eta[1] + r * n)) / 2**32

    def tail(self, eta: Natural, end: Ball, above: bool) -> Ball:
        """Return the probability that ln θ lies above, or below, a bound.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        end : Ball
            The bound.
        above : bool
            Whether to return the upper tail.

        Returns
        -------
        Ball
            An enclosure of the probability; it is not finite where none can be computed.
        """
        upper = (end.exp() * ball(eta[1])).gamma_upper(ball(eta[0]), regularized=1)  # T = ln θ
        return upper if above else 1 - upper

    def float_tail(self, eta: Natural, end: FloatArray, above: bool) -> FloatArray:
        """Return the probability that ln θ lies above, or below, each bound, in floating point.

        The lower tail of a Gamma(shape, 1) variable at a tiny x is x^shape/Γ(shape + 1)·(1 + O(x)), which is
        not small if ``shape`` is small.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        end : ndarray
            The bounds.
        above : bool
            Whether to return the upper tail.

        Returns
        -------
        ndarray
        """
        from scipy.special import gammainc, gammaincc, gammaln

        shape, log_x = float(eta[0]), end + math.log(eta[1])
        x = np.exp(np.clip(log_x, -700.0, 700.0))
        tiny = np.minimum(0.0, shape * log_x - gammaln(shape + 1))
        regular, limit = (gammaincc, -np.expm1(tiny)) if above else (gammainc, np.exp(tiny))
        return np.asarray(np.where(log_x < -600.0, limit, regular(shape, x)), dtype=np.float64)

    def given_draws(self, prior: Gamma, n: int, r: float, m: float, draws: FloatArray) -> GammaMixture:
        """Return the distribution of θ given the published draws.

        Parameters
        ----------
        prior : object
            The prior, as :meth:`prior` returns it.
        n : int
            The number of records.
        r : float
            The weight of a record, in (0, 1].
        m : float
            The divisor of the prior, in (0, 1].
        draws : ndarray
            The published draws, one row each.

        Returns
        -------
        GammaMixture
        """
        from scipy.special import gammaln

        shape, rate, drawn = prior.shape, prior.rate, draws.reshape(-1)
        low, high = (n * float(bound) for bound in self.bounds)
        log_y = float(np.log(drawn).sum()) + len(drawn) * math.log(rate / m + r * n)
        falling = math.log1p(rate / n)

        def _log_weight(s: FloatArray) -> FloatArray:
            log_draws = r * s * log_y - len(drawn) * gammaln(shape / m + r * s)
            return np.asarray(log_rising(shape, s) - s * falling + log_draws, dtype=np.float64)

        s, weight = weighed_statistics(_log_weight, low, high, whole=True)
        return GammaMixture(weight, shape + s, np.full(len(s), rate + n))


@dataclass(frozen=True)
class Exponential(_GammaFamily):
    """Waiting times with rate θ, clipped to declared bounds, with a Gamma(shape, rate) prior.

    A record x adds (``events``, x) to (shape, rate), so neighbours have equal shapes and rates β < β'. The
    divergences depend only on β'/β, and grow with it because the likelihood ratio e^{−θ(β'−β)} is monotone in
    θ. So the worst pair has all other times at the lower bound.
    """

    name: ClassVar[str] = "exponential"
    bounds_of: ClassVar[str] = "a waiting time"
    words: ClassVar[str] = "the rate of waiting times"

    @property
    def events(self) -> Fraction:
        """The number of events of rate θ that occur in the waiting time recorded as one record."""
        return Fraction(1)

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (number of events, Σx).

        Parameters
        ----------
        statistic : object
            The sufficient statistic of the records.
        n : int
            The number of records.

        Returns
        -------
        tuple of Fraction

        Raises
        ------
        InvalidInputError
            If the statistic is not in its range.

        Examples
        --------
        >>> Exponential(bounds=(0, 10)).contribution(12, 4)
        (Fraction(4, 1), Fraction(12, 1))
        """
        return n * self.events, self.total(statistic, n)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        """Return the width of the cells that draws are rounded to, from public parameters.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        Fraction
        """
        shape, rate = eta[0] + r * n * self.events, eta[1] + r * n * Fraction(self.bounds[1])
        return power_of_two(shape / rate) / 2**32

    def tail(self, eta: Natural, end: Ball, above: bool) -> Ball:
        """Return the probability that −θ lies above, or below, a bound.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        end : Ball
            The bound.
        above : bool
            Whether to return the upper tail.

        Returns
        -------
        Ball
            An enclosure of the probability; it is not finite where none can be computed.
        """
        if above and not end < 0:  # T = −θ
            return ball(0) if end >= 0 else end / end
        upper = (-end * ball(eta[1])).gamma_upper(ball(eta[0]), regularized=1)
        return 1 - upper if above else upper

    def float_tail(self, eta: Natural, end: FloatArray, above: bool) -> FloatArray:
        """Return the probability that −θ lies above, or below, each bound, in floating point.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        end : ndarray
            The bounds.
        above : bool
            Whether to return the upper tail.

        Returns
        -------
        ndarray
        """
        from scipy.special import gammainc, gammaincc

        tail = gammainc if above else gammaincc
        return np.asarray(tail(float(eta[0]), np.maximum(-end, 0.0) * float(eta[1])), dtype=np.float64)

    def given_draws(self, prior: Gamma, n: int, r: float, m: float, draws: FloatArray) -> GammaMixture:
        """Return the distribution of θ given the published draws.

        Parameters
        ----------
        prior : object
            The prior, as :meth:`prior` returns it.
        n : int
            The number of records.
        r : float
            The weight of a record, in (0, 1].
        m : float
            The divisor of the prior, in (0, 1].
        draws : ndarray
            The published draws, one row each.

        Returns
        -------
        GammaMixture
        """
        shape, rate, number = prior.shape, prior.rate, draws.size
        low, high = (n * float(bound) for bound in self.bounds)
        total, events = r * float(draws.sum()), n * float(self.events)

        def _log_weight(s: FloatArray) -> FloatArray:
            # Differences to s·(…) cancel for many records, so s^{n−1}/(b+s)^{a+n} is written in b/s.
            predictive = -(shape + events) * np.log1p(rate / s) - (shape + 1) * np.log(s)
            drawn = number * (shape / m + r * events) * np.log(rate / m + r * s) - s * total
            return np.asarray(predictive + drawn, dtype=np.float64)

        s, weight = weighed_statistics(_log_weight, low, high, whole=False)
        return GammaMixture(weight, np.full(len(s), shape + events), rate + s)


@dataclass(frozen=True)
class GammaTimes(Exponential):
    """Gamma(``shape``, θ) records with known shape, clipped to declared bounds; Gamma prior of θ.

    It is the exponential family with ``shape`` events in each record, which adds (shape, x) to (shape, rate).
    """

    shape: float
    name: ClassVar[str] = "gamma"
    words: ClassVar[str] = "the rate of Gamma records with known shape"

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = float(as_exact(self.shape, "shape"))
        if not 1e-6 <= shape <= 1e6:
            raise InvalidInputError(
                "must be between 1e-6 and 1e6: it is the shape of one record", "shape", self.shape
            )
        keep(self, shape=shape)

    @property
    def events(self) -> Fraction:
        return Fraction(self.shape)
