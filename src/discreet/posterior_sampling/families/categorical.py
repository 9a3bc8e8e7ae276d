"""Proportions: Beta and Dirichlet posteriors of categories, counts of items, shares of a whole, and failures.

For posteriors Dir(a + r eᵢ) and Dir(a + r eⱼ) everything depends on aᵢ and aⱼ only, through u = θᵢ/(θᵢ+θⱼ),
which is Beta(aᵢ + r, aⱼ) or Beta(aᵢ, aⱼ + r). Why the pairs below are the worst ones:

* *More prior weight helps.* With V ~ Beta(aᵢ+aⱼ+r, s) independent, u·V turns the pair of (aᵢ, aⱼ) into the
  pair of (aᵢ, aⱼ + s): every divergence decreases with aᵢ and aⱼ. So for k ≥ 3 the n − 1 other records are in
  other levels, and the two levels with the smallest priors are the worst.
* *For k = 2* the other records are in one of the two levels, x and n − 1 − x of them. D_λ is convex in x
  (ψ' is convex), so an end is worst. For the hockey-stick divergence the ends are compared with bounds on
  everything between them, which the first argument gives for whole ranges of x.
* *Numbers in [0, 1]*: Beta(a + t, N − a − t) has a monotone likelihood ratio in t, so records 0 and 1 are
  worse than any two others.
* *Records that are divided between levels*: neighbours are Dir(a + s·p) and Dir(a + s·q) for two points p, q
  of the simplex, s = r·items. D_λ is convex in q, and for a ≥ ½ in p as well, so two corners are the worst
  pair: the same as for categories, with steps of s. Below ½ it is not so (records divided between levels can
  then be worse), and such priors are refused. For three levels and more no such theorem is known for
  hockey-stick divergences: δ(ε) follows from the Rényi curve.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._data import count_levels
from discreet._declarations import Domain, as_counts, as_integer, as_positive, as_prior
from discreet._numerics.count_vectors import Separable
from discreet._numerics.enclosures import Ball, ball
from discreet._numerics.log_gamma import log_gamma_step, log_rising
from discreet._randomness.cells import exact_cell
from discreet._randomness.entropy import Source
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.distributions.beta_dirichlet import Beta, Dirichlet, dirichlet, prior_in_words
from discreet.distributions.mixtures import BetaMixture
from discreet.distributions.noise_aware import Enumerated, NoiseAware
from discreet.errors import DataError, InvalidInputError, TooLargeError
from discreet.posterior_sampling._given_draws import weighed_statistics
from discreet.posterior_sampling.family import (
    Family,
    Given,
    Natural,
    NumberFamily,
    Pair,
    ProfiledFamily,
    RecordKind,
    clipped_words,
    in_floats,
    keep,
    numbers,
    record_rows,
)

MAX_SHARES_N = 1_000_000
_QUICK_RECORD_LEVELS = 2_000_000
"""The product of records and levels up to which the intervals of shares take seconds."""
_CELL_WIDTH = Fraction(1, 2**40)
"""The width of the cells that shares are rounded to."""
_END_WIDTH_RECORDS = Fraction(1, 10**6)
"""Statistics within this many records of an end of their range are counted as the end itself."""
_MOST_RANGES = 4096
"""The most ranges of statistics into which a bound on the divergences is refined."""
_LARGEST_LOGIT = 600.0
"""Up to this logit a share is computed in doubles: e^{−600} still has all its digits."""


@dataclass(frozen=True)
class ShareFamily(ProfiledFamily):
    """Posteriors of shares, whose natural parameters η are the Dirichlet parameters a.

    The log-partition is C = ΣlnΓ(aᵢ) − lnΓ(Σa).

    One record adds ``items`` to the sum of a; moving it from one level to another is a step of r·``items``.
    """

    parameter: ClassVar[str] = "share"
    is_share: ClassVar[bool] = True
    whole: ClassVar[bool]
    """Whether a record adds whole numbers, or may be split between levels."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if hasattr(self, "trials"):
            keep(self, trials=as_positive(self.trials, "trials", ": the items of one record"))

    @property
    def items(self) -> int:
        """The number of items of one record, by which it increases the sum of the parameters."""
        return getattr(self, "trials", 1)

    def prior(self, parameters: Any) -> Beta | Dirichlet:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        Beta or Dirichlet

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.

        Examples
        --------
        >>> DirichletFamily().prior((1, 2, 3)).parameters
        (1.0, 2.0, 3.0)
        """
        return dirichlet(as_prior(getattr(parameters, "parameters", parameters)))

    def _prior_in_words(self, prior: list[Any]) -> str:
        return prior_in_words(prior)

    def natural(self, distribution: Beta | Dirichlet) -> Natural:
        """Return the parameters of the Dirichlet distribution, exactly.

        Parameters
        ----------
        distribution : object
            A prior or posterior of this family.

        Returns
        -------
        tuple of Fraction
        """
        return tuple(Fraction(value) for value in distribution.parameters)

    def from_natural(self, eta: Natural) -> Beta | Dirichlet:
        """Return the prior or posterior with natural parameters η.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        Beta or Dirichlet
        """
        return dirichlet([float(value) for value in eta])

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        """Return C(a) = ΣlnΓ(aᵢ) − lnΓ(Σa).

        Parameters
        ----------
        eta : sequence of Ball
            The natural parameters, as enclosures.

        Returns
        -------
        Ball
        """
        total: Ball = sum(eta, start=ball(0))
        return sum((value.lgamma() for value in eta), start=-total.lgamma())

    def normalisable(self, eta: Natural) -> bool:
        """Return whether all parameters are positive.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        bool
        """
        return all(value > 0 for value in eta)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        """Return 2⁻⁴⁰, a cell width that does not depend on the records.

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
        return _CELL_WIDTH

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
        return rng.dirichlet([float(value) for value in eta], size)

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """Draw shares exactly by stick-breaking.

        Each ratio θᵢ/(θᵢ + … + θ_k) has the distribution Beta(aᵢ, aᵢ₊₁ + … + a_k), and is rounded separately.

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
        proportions = []
        left = Fraction(1)
        for index in range(len(eta) - 1):
            part = beta_cell(eta[index], sum(eta[index + 1 :], Fraction(0)), grid, source)
            proportions.append(left * part)
            left *= 1 - part
        return *proportions, left

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest Rényi divergence.

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
        list of pairs of tuples
        """
        step = r * self.items
        if len(eta) > 2:
            first, second = sorted(eta)[:2]
            return _both_orders(first, second, step)
        return self._at_ends(eta, step * (n - 1), step)

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest hockey-stick divergence.

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
        list of pairs of tuples
        """
        if len(eta) > 2 or self.whole:
            return super().profile_pairs(eta, n, r)
        return self._at_ends(
            eta, max(Fraction(0), r * (self.items * (n - 1) - _END_WIDTH_RECORDS)), r * self.items
        )

    @staticmethod
    def _at_ends(eta: Natural, most: Fraction, step: Fraction) -> list[Pair]:
        """Return pairs for two levels: with all other records in the second level, and all in the first."""
        return _both_orders(eta[0], eta[1] + most, step) + _both_orders(eta[0] + most, eta[1], step)

    def elsewhere(self, eta: Natural, n: int, r: Fraction, epsilons: FloatArray) -> FloatArray | None:
        """Bound the divergences for two levels if the other n − 1 records are in both levels.

        The number x of them in the first level is covered by ranges low ≤ x ≤ high. In each, the pair with
        parameters (eta₁ + r·low, eta₂ + r·(n − 1 − high)) is worse than all others, because divergences
        decrease with prior weight. A range whose bound exceeds that of the ends is halved, as long as that
        can help.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].
        epsilons : ndarray
            The values of ε.

        Returns
        -------
        ndarray or None
            None if there are no such pairs.
        """
        most = float(self.items * (n - 1))
        if len(eta) > 2 or most < (2 if self.whole else 1):
            return None
        a, b, scale, step = float(eta[0]), float(eta[1]), float(r), float(r * self.items)
        smallest, gap = (1.0, 1.0) if self.whole else (float(_END_WIDTH_RECORDS), 0.0)
        starts = [smallest * 2.0**i for i in range(64) if smallest * 2.0**i <= most / 2]
        lows = np.array(sorted({*starts, *(most - start for start in starts)}))
        highs = np.append(lows[1:] - gap, lows[-1])
        pairs = self.profile_pairs(eta, n, r)
        at_ends = np.max([self.hockey_sticks(pair, epsilons) for pair in pairs], axis=0)
        bound = np.zeros_like(epsilons)
        for _ in range(40):
            values = np.maximum(
                _float_hockey_sticks(a + scale * lows, b + scale * (most - highs), step, epsilons),
                _float_hockey_sticks(b + scale * (most - highs), a + scale * lows, step, epsilons),
            )
            over = (values > at_ends[:, None]).any(axis=0) & (highs - lows >= smallest)
            if not over.any() or len(lows) > _MOST_RANGES:
                break
            bound = np.maximum(bound, values[:, ~over].max(axis=1, initial=0.0))
            middle = (lows[over] + highs[over]) / 2
            middle = np.floor(middle) if self.whole else middle
            lows = np.concatenate([lows[over], middle + gap])
            highs = np.concatenate([middle, highs[over]])
        return np.asarray(np.maximum(bound, values.max(axis=1)), dtype=np.float64)

    def given_draws(self, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> Any:
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
        NoiseAware
        """
        return shares_given(prior.parameters, self.items * n, r, m, draws)

    def slow_given_draws(self, n: int, number: int) -> bool:
        """Return whether intervals given draws take minutes to compute.

        Parameters
        ----------
        n : int
            The number of records.
        number : int
            The number of parameters.

        Returns
        -------
        bool
        """
        return self.items * n * number > _QUICK_RECORD_LEVELS

    def marginals(self, distribution: NoiseAware | Beta | Dirichlet) -> list[Distribution]:
        """Return the distribution of each number in θ.

        Parameters
        ----------
        distribution : object
            A prior, or what :meth:`given_draws` returns.

        Returns
        -------
        list of Distribution
        """
        number = distribution.k if isinstance(distribution, NoiseAware) else len(distribution.parameters)
        return [distribution.marginal(i) for i in range(number)]

    def tail(self, eta: Natural, end: Ball, above: bool) -> Ball:
        """Return the probability that logit(θᵢ/(θᵢ+θⱼ)) lies above, or below, a bound.

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
        rest = 1 / (1 + end.exp())  # T = logit(u), u = θᵢ/(θᵢ+θⱼ)
        return rest.beta_lower(ball(eta[1]), ball(eta[0]), regularized=1)

    def hockey_sticks(self, pair: Pair, epsilons: FloatArray) -> FloatArray:
        """Return the hockey-stick divergences of a pair in floating point, with a margin.

        Parameters
        ----------
        pair : tuple
            Two neighbouring posteriors, each as its natural parameters.
        epsilons : ndarray
            The values of ε.

        Returns
        -------
        ndarray
        """
        (p, b), (a, _) = pair
        return _float_hockey_sticks(np.array([float(a)]), np.array([float(b)]), float(p - a), epsilons)[:, 0]


def shares_given(prior: tuple[float, ...], n: int, r: float, m: float, draws: FloatArray) -> NoiseAware:
    """Return the distribution of shares given draws of them.

    The posterior π(counts | y) is a product over the levels. A level with prior parameter α, x records and
    the published shares y_j, one for each draw j, contributes the factor Γ(α+x)/x! · Π_j y_j^{r·x} / Γ(α/m +
    r·x).

    Parameters
    ----------
    prior : tuple of float
        The parameters α of the Dirichlet prior.
    n : int
        The number of records, times the items of each.
    r : float
        The weight of a record, in (0, 1].
    m : float
        The divisor of the prior, in (0, 1].
    draws : ndarray
        The published draws, one row each.

    Returns
    -------
    NoiseAware

    Raises
    ------
    TooLargeError
        If n is above 10⁶.

    Examples
    --------
    >>> distribution = shares_given((1.0, 1.0), 100, 1.0, 1.0, np.array([[0.3, 0.7]]))
    >>> round(float(distribution.marginal(0).mean()), 3)
    0.304
    """
    from scipy.special import gammaln

    if n > MAX_SHARES_N:
        raise TooLargeError(f"the posterior given draws of shares works up to n = 10⁶, not {n}")
    x = np.arange(n + 1)
    logs = np.log(np.maximum(draws, 1e-300)).sum(axis=0)  # a share below the least double is drawn as 0
    weights = [
        log_rising(a, x) + r * log_y * x - len(draws) * gammaln(a / m + r * x)
        for a, log_y in zip(prior, logs, strict=True)
    ]
    if len(prior) == 2:  # listed: no tilt has to find the sum, however steep many draws make the weights
        return NoiseAware(prior, n, Enumerated(np.stack([x, n - x], axis=1), weights[0] + weights[1][::-1]))
    return NoiseAware(prior, n, Separable.of(weights, n))


def _both_orders(first: Fraction, second: Fraction, r: Fraction) -> list[Pair]:
    return [((first + r, second), (first, second + r)), ((second + r, first), (second, first + r))]


def _float_hockey_sticks(a: FloatArray, b: FloatArray, r: float, epsilons: FloatArray) -> FloatArray:
    """Return hockey-stick divergences of Beta(a + r, b) from Beta(a, b + r); ε in rows, (a, b) in columns."""
    z = (epsilons[:, None] + log_gamma_step(a, r) - log_gamma_step(b, r)) / r
    largest = float(max(a.max(), b.max())) + r
    return in_floats(upper_tail(a + r, b, z), upper_tail(a, b + r, z), epsilons[:, None], largest)


def upper_tail(a: FloatArray, b: FloatArray, z: FloatArray) -> FloatArray:
    """Return P(u > 1/(1 + e^{−z})) for u ~ Beta(a, b), also where that bound rounds to 0 or 1.

    Near x = 0 the incomplete Beta function I_x(a, b) equals x^a/(a B(a, b))·(1 + O(x)), which for a small
    ``a`` is not close to 0 even if x is tiny.

    Parameters
    ----------
    a : ndarray
        The first parameters.
    b : ndarray
        The second parameters.
    z : ndarray
        The logits of the bounds.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> upper_tail(np.array([2.0]), np.array([2.0]), np.array([0.0]))
    array([0.5])
    """
    from scipy.special import betainc, betaincc, expit, gammaln

    a, b, z = np.broadcast_arrays(a, b, z)
    tail = np.empty(z.shape)
    high = z >= 0
    tail[high] = betainc(b[high], a[high], expit(-z[high]))
    tail[~high] = betaincc(a[~high], b[~high], expit(z[~high]))
    if (np.abs(z) > _LARGEST_LOGIT).any():
        near_one = np.exp(np.minimum(0.0, -b * z - gammaln(b + 1) + log_gamma_step(a, b)))
        near_zero = -np.expm1(np.minimum(0.0, a * z - gammaln(a + 1) + log_gamma_step(b, a)))
        tail = np.where(z > _LARGEST_LOGIT, near_one, np.where(z < -_LARGEST_LOGIT, near_zero, tail))
    return np.asarray(tail, dtype=np.float64)


def beta_cell(a: Fraction, b: Fraction, grid: Fraction, source: Source) -> Fraction:
    """Draw exactly from a Beta distribution, rounded to the middle of a cell of the grid.

    Parameters
    ----------
    a : Fraction
        The first parameter.
    b : Fraction
        The second parameter.
    grid : Fraction
        The width of a cell.
    source : Source
        The source of random bits.

    Returns
    -------
    Fraction
    """
    approximate = Beta(float(a), float(b))

    def _cdf(theta: Fraction) -> Ball:
        if theta <= 0 or theta >= 1:
            return ball(int(theta >= 1))
        return ball(theta).beta_lower(ball(a), ball(b), regularized=1)

    return exact_cell(_cdf, lambda u: float(approximate.ppf(u)), grid, source)


@dataclass(frozen=True)
class OneShare(ShareFamily):
    """A family with two levels, where θ is the share of the first and has a Beta(a, b) prior."""

    def prior(self, parameters: Any) -> Beta:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        Beta

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.
        """
        return Beta(*as_prior(getattr(parameters, "parameters", parameters), 2))

    def value(self, draws: FloatArray) -> FloatArray:
        """Return the share of the first level of each draw.

        Parameters
        ----------
        draws : ndarray
            The published draws, one row each.

        Returns
        -------
        ndarray
        """
        return draws[:, 0]

    def given_draws(self, prior: Beta, n: int, r: float, m: float, draws: FloatArray) -> BetaMixture:
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
        BetaMixture
        """
        share = draws.reshape(-1)
        both = np.stack([share, 1 - share], axis=1)
        return shares_given(prior.parameters, self.items * n, r, m, both).marginal(0)

    slow_given_draws, marginals = Family.slow_given_draws, Family.marginals


@dataclass(frozen=True)
class BetaFamily(OneShare, NumberFamily):
    """Records that are numbers in [0, 1], such as 0 and 1 for no and yes; Beta(a, b) prior over their mean.

    A record x adds (x, 1 − x) to (a, b). The statistic is the sum of the records, or the pair (sum, n − sum).
    """

    name: ClassVar[str] = "beta"
    whole: ClassVar[bool] = False

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (sum, n − sum).

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
        >>> BetaFamily().contribution(27, 100)
        (Fraction(27, 1), Fraction(73, 1))
        """
        parts = numbers(statistic)
        if parts and len(parts) != 2:
            raise InvalidInputError(
                "the statistic must be the sum of the records, or the pair (sum, n − sum)"
            )
        if parts and sum(parts) != n:
            raise InvalidInputError(f"the two parts of the statistic do not sum to n={n}")
        total = self.total(parts[0] if parts else statistic, n)
        return total, n - total

    def describe_prior(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        """Return the model and its prior in words, for a report.

        Parameters
        ----------
        prior : list
            The parameters of the prior, as in a document.
        bounds : sequence of float, optional
            The bounds of a mean, as in a document.

        Returns
        -------
        tuple of str
        """
        within = clipped_words(bounds) or " in [0, 1], or the share of yes"
        return f"the mean of numbers{within}", self._prior_in_words(prior)


@dataclass(frozen=True)
class DirichletFamily(ShareFamily):
    """Records in k declared levels; Dirichlet prior over their proportions. The statistic is the counts."""

    name: ClassVar[str] = "dirichlet"
    records: ClassVar[RecordKind] = "levels"
    reads: ClassVar[tuple[str, ...]] = ("levels", "other", "missing")
    whole: ClassVar[bool] = True
    words: ClassVar[str] = "the shares of the levels"

    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Any, int]:
        if "levels" not in options:
            raise InvalidInputError("levels are missing: declare every value that a record may take")
        counts = count_levels(data, Domain(**options), column=column, **people)
        return counts, sum(counts)

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the counts of the levels.

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
        >>> DirichletFamily().contribution((2, 1, 0), 3)
        (Fraction(2, 1), Fraction(1, 1), Fraction(0, 1))
        """
        values = tuple(statistic) if isinstance(statistic, Sequence | np.ndarray) else ()
        if len(values) < 2:
            raise InvalidInputError("the statistic must be the counts of the levels")
        return tuple(Fraction(count) for count in as_counts(values, len(values), n))


@dataclass(frozen=True)
class BinomialFamily(OneShare, NumberFamily):
    """Successes in ``trials`` trials per record, with probability θ; Beta(a, b) prior.

    A record x adds (x, trials − x) to (a, b). It is the Beta family with steps of ``trials``. In the worst
    case, by the monotone likelihood ratio, a record with no successes is replaced by one with only successes,
    and all other records are at one end.
    """

    trials: int
    name: ClassVar[str] = "binomial"
    records: ClassVar[RecordKind] = "counts"
    whole: ClassVar[bool] = True
    words: ClassVar[str] = "the share of successes in {trials} trials a record"

    @property
    def record_bounds(self) -> tuple[float, float]:
        return 0.0, float(self.trials)

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the numbers of successes and of failures.

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
        >>> BinomialFamily(trials=10).contribution(27, 5)
        (Fraction(27, 1), Fraction(23, 1))
        """
        total = self.total(statistic, n)
        return total, n * self.trials - total


@dataclass(frozen=True)
class DividedFamily(ShareFamily):
    """The base of families whose records are divided between ``dimension`` levels."""

    dimension: int
    records: ClassVar[RecordKind] = "vectors"
    reads: ClassVar[tuple[str, ...]] = ()
    unit: ClassVar[int]
    """The number of units of an item; records are whole multiples of a unit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, dimension=as_integer(self.dimension, "dimension"))
        if self.dimension < 2:
            raise InvalidInputError("must be at least 2", "dimension", self.dimension)

    def prior(self, parameters: Any) -> Beta | Dirichlet:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        Beta or Dirichlet

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.
        """
        distribution = super().prior(parameters)
        if len(distribution.parameters) != self.dimension:
            raise InvalidInputError(f"the prior must have {self.dimension} parameters, one for each level")
        self.extreme_pairs(self.natural(distribution), 1, Fraction(1))
        return distribution

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest Rényi divergence.

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
        list of pairs of tuples
        """
        if len(eta) > 2 and min(eta) < Fraction(1, 2):
            raise InvalidInputError(
                f"a prior parameter of {float(min(eta)):g}: records that are divided between three levels "
                "or more need at least 0.5 for each, below which the worst pair of records is not known"
            )
        return super().extreme_pairs(eta, n, r)

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest hockey-stick divergence.

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
        list of pairs of tuples
            Empty for three levels or more.
        """
        return super().profile_pairs(eta, n, r) if len(eta) == 2 else []

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records for each level.

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
        """
        parts = numbers(statistic)
        if len(parts) != self.dimension or min(parts) < 0 or sum(parts) != self.items * n:
            raise InvalidInputError(
                f"the statistic must be the sums of the records for {self.dimension} levels, "
                f"{self.items * n} in all"
            )
        return parts

    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Any, int]:
        rows = record_rows(data, people, self.dimension)
        if (rows < 0).any():
            raise DataError("a record has a negative component")
        units = self.in_units(rows)
        if (units.sum(axis=1) != self.items * self.unit).any():
            raise DataError(f"the components of a record do not add up to {self.items}")
        return tuple(Fraction(int(part), self.unit) for part in units.astype(object).sum(axis=0)), len(rows)

    @abstractmethod
    def in_units(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        """Return each record as whole multiples of the unit.

        Parameters
        ----------
        rows : ndarray
            The records, one row each.

        Returns
        -------
        ndarray of int
        """


@dataclass(frozen=True)
class MultinomialFamily(DividedFamily):
    """Counts of ``trials`` items in ``dimension`` levels per record; Dirichlet prior over their shares.

    A record adds its counts to the parameters. The statistic is the sum of the counts.
    """

    trials: int
    name: ClassVar[str] = "multinomial"
    whole: ClassVar[bool] = True
    unit: ClassVar[int] = 1
    words: ClassVar[str] = "the shares of the levels among {trials} items a record"

    def in_units(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        """Return the counts of each record.

        Parameters
        ----------
        rows : ndarray
            The records, one row each.

        Returns
        -------
        ndarray of int
        """
        few = np.minimum(rows, self.trials + 1.0)
        counts = few.astype(np.int64)
        if (counts != few).any():
            raise DataError("a record has a count that is not a whole number")
        return counts


@dataclass(frozen=True)
class _Failures(OneShare, NumberFamily):
    """Failures before a known number of successes, clipped to declared bounds, with a Beta prior.

    The success probability θ has the prior Beta(a, b), and a record x adds (successes, x) to (a, b). So
    neighbours are Beta(A, B) and Beta(A, B + t), whose densities have a ratio proportional to w^t with w = 1
    − θ. The larger B is, the less dispersed −ln w is, so the divergences decrease with B; they grow with t.
    The worst pair has all other records at the lower bound.
    """

    bounds: tuple[float, float]
    parameter: ClassVar[str] = "probability"
    records: ClassVar[RecordKind] = "counts"
    whole: ClassVar[bool] = True
    bounds_of: ClassVar[str] = "a number of failures"
    least: ClassVar[float] = 0

    @property
    def required_successes(self) -> int:
        """The number of successes at which a record stops counting failures."""
        return getattr(self, "successes", 1)

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the numbers of successes and of failures.

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
        >>> GeometricFamily(bounds=(0, 50)).contribution(40, 10)
        (Fraction(10, 1), Fraction(40, 1))
        """
        return Fraction(n * self.required_successes), self.total(statistic, n)

    extreme_pairs = NumberFamily.extreme_pairs
    profile_pairs, elsewhere = ProfiledFamily.profile_pairs, ProfiledFamily.elsewhere
    hockey_sticks = ProfiledFamily.hockey_sticks

    def tail(self, eta: Natural, end: Ball, above: bool) -> Ball:
        """Return the probability that ln(1 − θ) lies above, or below, a bound.

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
        if not end < 0:  # T = ln w, w = 1 − θ < 1
            return ball(0) if above and end >= 0 else end / ball(0)
        a, b = map(ball, eta)
        if above:
            return (-end.expm1()).beta_lower(a, b, regularized=1)
        return end.exp().beta_lower(b, a, regularized=1)

    def float_tail(self, eta: Natural, end: FloatArray, above: bool) -> FloatArray:
        """Return the probability that ln(1 − θ) lies above, or below, each bound, in floats.

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
        a, b = (np.array(float(part)) for part in eta)
        inside = np.minimum(end, -1e-300)
        z = inside - np.log(-np.expm1(inside))  # logit of w
        return np.where(end < 0, upper_tail(b, a, z), 0.0) if above else upper_tail(a, b, -z)

    def given_draws(self, prior: Beta, n: int, r: float, m: float, draws: FloatArray) -> BetaMixture:
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
        BetaMixture
        """
        (a, b), drawn, trials = prior.parameters, draws.reshape(-1), n * self.required_successes
        low, high = (n * float(bound) for bound in self.bounds)
        log_rest = float(np.log1p(-drawn).sum())
        shape = a / m + r * trials

        def _log_weight(s: FloatArray) -> FloatArray:
            # The predictive distribution Γ(trials+s)Γ(b+s)/(s! Γ(a+b+trials+s)), and Beta draws given s.
            predictive = log_rising(trials, s) - log_gamma_step(b + s, a + trials)
            log_draws = r * s * log_rest + len(drawn) * log_gamma_step(b / m + r * s, shape)
            return np.asarray(predictive + log_draws, dtype=np.float64)

        s, weight = weighed_statistics(_log_weight, low, high, whole=True)
        return BetaMixture(weight, np.full(len(s), a + trials), a + b + trials + s)

    def describe_prior(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        """Return the model and its prior in words, for a report.

        Parameters
        ----------
        prior : list
            The parameters of the prior, as in a document.
        bounds : sequence of float, optional
            The bounds of a mean, as in a document.

        Returns
        -------
        tuple of str
        """
        often = "success" if self.required_successes == 1 else f"{self.required_successes} successes"
        model = f"the probability of success, from the failures before {often}{clipped_words(self.bounds)}"
        return model, self._prior_in_words(prior)


@dataclass(frozen=True)
class GeometricFamily(_Failures):
    """Failures before the first success, clipped to declared whole bounds; Beta(a, b) prior of θ."""

    name: ClassVar[str] = "geometric"


@dataclass(frozen=True)
class NegativeBinomialFamily(_Failures):
    """Failures before ``successes`` successes, clipped to declared whole bounds; Beta(a, b) prior."""

    successes: int = 1
    name: ClassVar[str] = "negative-binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, successes=as_positive(self.successes, "successes"))
