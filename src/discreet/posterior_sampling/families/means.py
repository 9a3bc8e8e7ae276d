"""Means: of bounded records with known variance, and of numbers with unknown mean and variance."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._data import ClippedSum
from discreet._declarations import as_bounds, as_exact, as_positive, as_total
from discreet._numerics.enclosures import Ball, ball
from discreet._randomness.cells import exact_cell, normal_cell, power_of_two
from discreet._randomness.entropy import Source
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.distributions.normal import Normal, as_sigma
from discreet.errors import InvalidInputError
from discreet.posterior_sampling.family import (
    Family,
    Given,
    Natural,
    NumberFamily,
    Pair,
    RecordKind,
    both_orders,
    keep,
    numbers,
    of_two,
    record_rows,
)
from discreet.privacy.curves import Curve, Gaussian


@dataclass(frozen=True)
class _MeanFamily(Family):
    """Normal means with known variance, and natural parameters η = (h, τ).

    Here τ is the precision, and h is the precision times the mean, on each of the d axes.

    The log-partition is C = Σhᵢ²/2τ − (d/2)·ln τ. A record x adds (x/σ², 1/σ²), so neighbours have equal
    precisions τ and means at a distance of at most r·w/(σ²τ), where w is the largest distance between two
    records. One draw is therefore μ-GDP, exactly, with μ² = r²w²/(σ⁴τ), and some pair of records attains it
    whatever the others are.
    """

    sigma: float
    parameter: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        super().__post_init__()
        keep(self, sigma=as_sigma(self.sigma))

    @abstractmethod
    def joint(self, axes: Iterable[Normal]) -> Any:
        """Return the distribution of θ from those of its axes.

        Parameters
        ----------
        axes : iterable of Normal
            The distribution of each axis.

        Returns
        -------
        object
        """

    @property
    @abstractmethod
    def move(self) -> Fraction:
        """The largest distance between two records."""

    @property
    def _unit(self) -> Fraction:
        return 1 / Fraction(self.sigma) ** 2

    def natural(self, distribution: Any) -> Natural:
        """Return the natural parameters exactly: precision times mean for each axis, then the precision.

        Parameters
        ----------
        distribution : object
            A prior or posterior of this family.

        Returns
        -------
        tuple of Fraction
        """
        axes = _axes(distribution)
        precision = 1 / Fraction(axes[0].scale) ** 2
        return *(Fraction(axis.loc) * precision for axis in axes), precision

    def from_natural(self, eta: Natural) -> Any:
        """Return the prior or posterior with natural parameters η.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        Normal, or a tuple of them
        """
        *heights, precision = eta
        return self.joint(Normal(float(height / precision), 1 / math.sqrt(precision)) for height in heights)

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        """Return the log-partition C(η), up to a constant.

        Parameters
        ----------
        eta : sequence of Ball
            The natural parameters, as enclosures.

        Returns
        -------
        Ball
        """
        *heights, precision = eta
        squares = sum((height * height for height in heights), start=ball(0))
        return squares / (2 * precision) - len(heights) * precision.log() / 2

    def normalisable(self, eta: Natural) -> bool:
        """Return whether the precision is positive.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        bool
        """
        return eta[-1] > 0

    def curve(self, eta: Natural, n: int, r: Fraction) -> Curve:
        """Return the privacy curve of one draw, over all datasets of n records.

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
        Curve
            That of a Gaussian mechanism, exactly.
        """
        return Gaussian((r * self._unit * self.move) ** 2 / (eta[-1] + r * n * self._unit))

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
        variance = 1 / (eta[-1] + r * n * self._unit)
        return power_of_two(math.sqrt(float(variance))) / 2**32

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
        *heights, precision = (float(value) for value in eta)
        centre = np.array(heights) / precision
        return centre + rng.standard_normal((size, len(heights))) / math.sqrt(precision)

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
        *heights, precision = eta
        return tuple(normal_cell(height / precision, precision, grid, source) for height in heights)

    def given_draws(self, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> Any:
        """Return the conjugate posterior of each axis given the draws.

        On each axis, the mean of the draws is normally distributed around a linear function of θ.

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
        Normal, or a tuple of them
        """

        def _update(prior: Normal, drawn: FloatArray) -> Normal:
            sigma, precision_before = self.sigma, prior.scale**-2.0
            precision = precision_before / m + r * n / sigma**2
            a, b = precision_before * prior.loc / m / precision, r * n / sigma**2 / precision
            variance = 1 / (len(drawn) * precision) + b**2 * sigma**2 / n
            total = precision_before + b**2 / variance
            centre = prior.loc * precision_before + b * (float(drawn.mean()) - a) / variance
            return Normal(centre / total, 1 / math.sqrt(total))

        return self.joint(map(_update, _axes(prior), draws.reshape(len(draws), -1).T))


def _axes(distribution: Any) -> tuple[Normal, ...]:
    return (distribution,) if isinstance(distribution, Normal) else distribution


@dataclass(frozen=True)
class GaussianMean(NumberFamily, _MeanFamily):
    """The mean of numbers with known standard deviation, clipped to declared bounds.

    Parameters
    ----------
    sigma : float
        The standard deviation of one record.
    bounds : tuple of float
        The bounds of one record.

    Examples
    --------
    >>> family = GaussianMean(sigma=2.0, bounds=(0, 10))
    >>> family.natural(family.prior((5, 1)))
    (Fraction(5, 1), Fraction(1, 1))
    >>> family.contribution(40, 8)
    (Fraction(10, 1), Fraction(2, 1))
    """

    bounds: tuple[float, float] = None  # type: ignore[assignment]
    nearby: float | None = field(default=None, init=False)
    name: ClassVar[str] = "gaussian"
    words: ClassVar[str] = "the mean of numbers with standard deviation {sigma:g}"

    def prior(self, parameters: Any) -> Normal:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        Normal

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.
        """
        return of_two(Normal, parameters, "(mean, standard deviation), such as (0, 1)")

    def _prior_in_words(self, prior: list[Any]) -> str:
        return f"mean {prior[0]:g}, standard deviation {prior[1]:g}"

    def joint(self, axes: Iterable[Normal]) -> Normal:
        """Return the distribution of θ from those of its axes.

        Parameters
        ----------
        axes : iterable of Normal
            The distribution of each axis.

        Returns
        -------
        Normal
        """
        (axis,) = axes
        return axis

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (Σx/σ², n/σ²).

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
        return self.total(statistic, n) * self._unit, n * self._unit


@dataclass(frozen=True)
class GaussianVector(_MeanFamily):
    """The mean of vectors with known standard deviation on every axis, clipped to a norm.

    The prior is a pair of the means of the axes and one standard deviation for all, such as ((0, 0), 1).

    Parameters
    ----------
    sigma : float
        The standard deviation of one record on each axis.
    radius : float
        The norm to which records are clipped.
    dimension : int
        The number of axes.

    Examples
    --------
    >>> family = GaussianVector(sigma=1.0, radius=3.0, dimension=2)
    >>> family.read([[3, 4], [0, 1]], None, {})[1]
    2
    """

    radius: float = None  # type: ignore[assignment]
    dimension: int = 2
    name: ClassVar[str] = "gaussian-vector"
    records: ClassVar[RecordKind] = "vectors"
    reads: ClassVar[tuple[str, ...]] = ()
    words: ClassVar[str] = (
        "the mean of vectors with standard deviation {sigma:g} on each axis, clipped to length {radius:g}"
    )

    def __post_init__(self) -> None:
        if self.radius is None:
            as_bounds(None, "the norm of one record")
        radius = float(as_exact(self.radius, "radius"))
        if not radius > 0:
            raise InvalidInputError(
                "must be positive: records are clipped to this norm", "radius", self.radius
            )
        as_positive(self.dimension, "dimension")
        keep(self, radius=radius)
        super().__post_init__()

    def prior(self, parameters: Any) -> tuple[Normal, ...]:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        tuple of Normal

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.
        """
        axes: tuple[Normal, ...] = parameters
        if not (isinstance(parameters, tuple) and all(isinstance(part, Normal) for part in parameters)):
            try:
                *means, scale = parameters
                if isinstance(scale, list):  # as a document has them, mean and deviation of each axis
                    return self.prior(tuple(Normal(*part) for part in parameters))
                (centre,) = means
            except (TypeError, ValueError):
                raise InvalidInputError(
                    f"must be ({self.dimension} means, standard deviation), such as ((0, 0), 1)",
                    "prior",
                    parameters,
                ) from None
            axes = tuple(Normal(mean, scale) for mean in centre)
        if len(axes) != self.dimension or len({axis.scale for axis in axes}) != 1:
            raise InvalidInputError(f"the prior must have {self.dimension} means and one standard deviation")
        return axes

    def _prior_in_words(self, prior: list[Any]) -> str:
        centre = ", ".join(f"{mean:g}" for mean, _ in prior)
        return f"mean ({centre}), standard deviation {prior[0][1]:g}"

    def joint(self, axes: Iterable[Normal]) -> tuple[Normal, ...]:
        """Return the distribution of θ from those of its axes.

        Parameters
        ----------
        axes : iterable of Normal
            The distribution of each axis.

        Returns
        -------
        tuple of Normal
        """
        return tuple(axes)

    @property
    def move(self) -> Fraction:
        return 2 * Fraction(self.radius)

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
        rest = (0,) * (self.dimension - 1)
        return both_orders(self, eta, n, r, ((self.radius, *rest), (-self.radius, *rest)))

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (Σx/σ² of each axis, n/σ²).

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
        values = numbers(statistic)
        if len(values) != self.dimension:
            raise InvalidInputError(f"the statistic must be the sum of the records, {self.dimension} numbers")
        if sum(value * value for value in values) > (n * Fraction(self.radius)) ** 2:
            raise InvalidInputError(
                f"the statistic has a norm above n·radius = {n * self.radius:g}: clip the records to "
                f"radius={self.radius:g} before they are summed"
            )
        return *(value * self._unit for value in values), n * self._unit

    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Any, int]:
        return sum_in_ball(record_rows(data, people, self.dimension), self.radius)

    def value(self, draws: FloatArray) -> FloatArray:
        """Return the draws, one row each.

        Parameters
        ----------
        draws : ndarray
            The published draws, one row each.

        Returns
        -------
        ndarray
        """
        return draws

    def marginals(self, distribution: tuple[Normal, ...]) -> list[Distribution]:
        """Return the distribution of each number in θ.

        Parameters
        ----------
        distribution : object
            A prior, or what :meth:`given_draws` returns.

        Returns
        -------
        list of Distribution
        """
        return list(distribution)


def sum_in_ball(rows: FloatArray, radius: float) -> tuple[tuple[Fraction, ...], int]:
    """Return the sum of rows that are clipped to a norm, and the number of rows.

    Clipped rows are rounded towards zero on a grid, so that no norm exceeds the radius.

    Parameters
    ----------
    rows : ndarray
        The records, one row each.
    radius : float
        The largest norm.

    Returns
    -------
    tuple of (tuple of Fraction, int)

    Examples
    --------
    >>> total, number = sum_in_ball(np.array([[0.5, 0.0], [30.0, 40.0]]), 1.0)
    >>> [round(float(part), 6) for part in total], number
    ([1.1, 0.8], 2)
    """
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
class NormalFamily(NumberFamily):
    """Mean and standard deviation of numbers clipped to declared bounds; normal-inverse-gamma prior.

    The prior is (mean c, strength κ, shape a, rate b): τ = 1/σ² ~ Gamma(a, b) and μ | τ ~ N(c, 1/(κτ)). The
    prior mean weighs as much as κ records, and the prior variance is about b/a. The statistic is (Σx, Σx²).
    The natural parameters are η = (κ, κc, b + κc²/2, a), to which a record x adds (1, x, x²/2, ½), and the
    log-partition is C = lnΓ(a) − a·ln b − ½·ln κ. Neighbours have the same κ and a, so D_λ depends on the two
    b and on the difference g of their second coordinates κc alone:

        D_λ = a/(λ−1)·[λ ln b_P − ln b_L − (λ−1) ln b_Q],   b_L = λ b_P − (λ−1) b_Q − λ(λ−1) g²/2κ.

    It grows with g², falls when both b grow by the same amount, grows with b_Q ≥ b_P, and is quasi-convex in
    b_P. Let b₀ be the prior's b, and b₁ the value of b if one record is as far from all the rest as the
    bounds allow. For b between b₀ and b₁ and g ≤ r·width, D_λ is largest at one of three corners. If the
    prior mean is an end of the bounds, they are attained; otherwise they are upper bounds. δ(ε) follows from
    the Rényi curve.
    """

    bounds: tuple[float, float]
    name: ClassVar[str] = "normal"
    parameters: ClassVar[tuple[str, ...]] = ("mean", "standard deviation")
    words: ClassVar[str] = "mean and standard deviation of numbers"

    def prior(self, parameters: Any) -> tuple[float, ...]:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        tuple of float

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.

        Examples
        --------
        >>> NormalFamily(bounds=(0, 10)).prior((5, 1, 2, 2))
        (5.0, 1.0, 2.0, 2.0)
        """
        values = tuple(map(float, numbers(parameters, "prior")))
        if len(values) != 4 or not min(values[1:]) > 0:
            raise InvalidInputError(
                "must be (mean, strength, shape, rate), the last three positive, such as (0, 1, 2, 2)",
                "prior",
                parameters,
            )
        return values

    def _prior_in_words(self, prior: list[Any]) -> str:
        centre, strength, shape, rate = prior
        return f"mean {centre:g}, with the weight of {strength:g} records; variance about {rate / shape:g}"

    def natural(self, distribution: tuple[float, ...]) -> Natural:
        """Return the natural parameters η of a prior or posterior, exactly.

        Parameters
        ----------
        distribution : object
            A prior or posterior of this family.

        Returns
        -------
        tuple of Fraction
        """
        centre, strength, shape, rate = map(Fraction, distribution)
        return strength, strength * centre, rate + strength * centre**2 / 2, shape

    def from_natural(self, eta: Natural) -> tuple[float, ...]:
        """Return the prior or posterior with natural parameters η.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        tuple of float
            Mean, strength, shape and rate.
        """
        return float(eta[1] / eta[0]), float(eta[0]), float(eta[3]), float(_rate(eta))

    def of_grid(self, summed: ClippedSum) -> tuple[Fraction, Fraction]:
        """Return the sufficient statistic (Σx, Σx²).

        Parameters
        ----------
        summed : ClippedSum
            The sums of the clipped numbers.

        Returns
        -------
        object
        """
        low, high = map(Fraction, self.bounds)
        step = (high - low) / summed.steps
        first, second = step * summed.grid_sum, step**2 * summed.grid_squares
        return summed.n * low + first, summed.n * low**2 + 2 * low * first + second

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (n, Σx, Σx²/2, n/2).

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
        >>> NormalFamily(bounds=(0, 10)).contribution((12, 50), 3)
        (Fraction(3, 1), Fraction(12, 1), Fraction(25, 1), Fraction(3, 2))
        """
        parts = numbers(statistic)
        if len(parts) != 2:
            raise InvalidInputError("the statistic must be (Σx, Σx²)")
        low, high = map(Fraction, self.bounds)
        total, squares = as_total(parts[0], n * low, n * high), parts[1]
        if not total**2 <= n * squares <= n * ((low + high) * total - n * low * high):
            raise InvalidInputError(
                "the statistic (Σx, Σx²) must be that of n records within the bounds; clip them first"
            )
        return Fraction(n), total, squares / 2, Fraction(n, 2)

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        """Return C(η) = lnΓ(a) − a·ln b − ½·ln κ.

        Parameters
        ----------
        eta : sequence of Ball
            The natural parameters, as enclosures.

        Returns
        -------
        Ball
        """
        strength, height, square, shape = eta
        rate = square - height * height / (2 * strength)
        return shape.lgamma() - shape * rate.log() - strength.log() / 2

    def normalisable(self, eta: Natural) -> bool:
        """Return whether strength, shape and rate are positive.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        bool
        """
        return eta[0] > 0 and eta[3] > 0 and _rate(eta) > 0

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
        low, high = map(Fraction, self.bounds)
        others, shape = eta[0] + r * (n - 1), eta[3] + r * n / 2
        strength = others + r
        centres = [(eta[1] + r * (n - 1) * end) / others for end in (low, high)]
        farthest = max(abs(end - centre) for end in (low, high) for centre in centres)
        least, move = _rate(eta), r * (high - low)
        most = least + r * others / (2 * strength) * farthest**2

        def _pair(first: Fraction, second: Fraction) -> Pair:
            moved = (strength, move, first + move**2 / (2 * strength), shape)
            return moved, (strength, Fraction(0), second, shape)

        return [_pair(least, least), _pair(most, least), _pair(least, most)]

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
        return power_of_two(math.sqrt(_rate(eta) / ((eta[3] + r * n / 2) * (eta[0] + r * n)))) / 2**32

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw mean and standard deviation in floating point; these draws are not private.

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
        deviation = rng.gamma(float(eta[3]), 1 / float(_rate(eta)), size) ** -0.5
        centre = float(eta[1] / eta[0]) + deviation * rng.standard_normal(size) / math.sqrt(eta[0])
        return np.stack([centre, deviation], axis=1)

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """Draw the standard deviation and then the mean, exactly.

        The cell of the standard deviation is so fine that it determines the cell of the mean, except with a
        probability below 2⁻⁵⁰; then an error is raised and nothing is drawn.

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
        from flint import arb
        from scipy.special import gammainccinv, ndtri

        strength, shape, rate, centre = eta[0], eta[3], _rate(eta), eta[1] / eta[0]

        def _below(deviation: Fraction) -> Ball:
            if deviation <= 0:
                return ball(0)
            return ball(rate / deviation**2).gamma_upper(ball(shape), regularized=1)

        def _guess(u: float) -> float:
            return math.sqrt(float(rate) / float(gammainccinv(float(shape), u)))

        fine = grid / 2**64 / math.ceil(float(grid) / math.sqrt(rate / shape))
        cell = exact_cell(_below, _guess, fine, source)

        def _left(theta: Fraction) -> Ball:
            deviation = ball(cell) + arb(0, 1) * ball(fine)
            return ((ball(centre - theta) * (ball(strength) / 2).sqrt() / deviation).erfc()) / 2

        def _near(u: float) -> float:
            return float(centre) + float(cell) / math.sqrt(strength) * float(ndtri(u))

        return exact_cell(_left, _near, grid, source), (cell // grid + Fraction(1, 2)) * grid


def _rate(eta: Natural) -> Fraction:
    """Return the rate b of the Gamma distribution with coordinates η."""
    return eta[2] - eta[1] ** 2 / (2 * eta[0])
