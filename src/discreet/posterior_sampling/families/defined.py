"""Families that users define by formulas: p(x | θ) = h(x)·exp(θ·S(x) − A(θ)) with natural parameters θ.

Geumlek, Song and Chaudhuri (2017), A.1: η = (χ, ν), a record adds (S(x), 1), and the posterior has density
exp(χ·θ − νA(θ) − C(η)). C has no closed form here. With one parameter neighbours differ by at most
t = r(hi − lo) in χ, and

    D_λ = ∫ G(s)·Var_{χ+s}(θ) ds,   G(s) = s up to t, then (λt − s)/(λ−1) up to λt, ∫ G = λt²/2,

for η_P = χ + t, η_Q = χ (their Lemma 1 without the loss), and its mirror image for the other order. A
variance between two χ is bounded cell by cell: with the distribution at the middle c of a cell, its mean m
and N(χ) = E_c[(θ−m)²e^{(χ−c)(θ−m)}], convex in χ, Jensen's inequality gives Var_χ ≤ N(χ) ≤ the larger of N at
the two ends. Expectations are sums over nodes in floats, with a margin: ``proofs/posterior-sampling.md``.
δ(ε) follows from the Rényi curve. Draws are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet._data import clipped_sum
from discreet._numerics.enclosures import Ball, ball
from discreet._randomness.cells import power_of_two
from discreet._randomness.entropy import Source
from discreet._randomness.log_concave import LogConcave
from discreet._typing import FloatArray
from discreet.errors import DataError, InvalidInputError
from discreet.posterior_sampling._formulas import compile_formula, in_balls, in_floats
from discreet.posterior_sampling.family import (
    Given,
    Natural,
    NumberFamily,
    PosteriorCurve,
    keep,
    numbers,
    record_rows,
    sum_on_grid,
)

_CHI_CELLS, _THETA_NODES, _MOST_REFINEMENTS, _MOST_ZOOMS = 256, 400, 5, 12
"""The number of cells of χ, of nodes of θ in each, and the most refinements of the cells and the nodes."""
_MARGIN_FACTOR = 1 + 1e-6
"""Factor on Rényi bounds that covers the errors of sums in floats."""
_LARGEST_ORDER = 64.0
"""The largest Rényi order for which bounds are computed."""


@lru_cache(maxsize=4096)
def _log_mass(family: DefinedFamily, chi: float, nu: float) -> float:
    return float(family.distributions(np.array([chi]), nu, 20_001)[2][0])


@lru_cache(maxsize=8)
def _exact(family: DefinedFamily, eta: Natural) -> LogConcave:
    theta, weights = family.nodes(eta)
    spread = math.sqrt(float(np.cov(theta, aweights=weights, ddof=0)))
    return LogConcave(lambda at: family.exponent(eta, at), float(weights @ theta), spread)


@dataclass(frozen=True)
class DefinedFamily(NumberFamily):
    """A one-parameter exponential family given by formulas; it is built by :meth:`Family.define`.

    The prior is a pair (mean of S, strength), and weighs as much as ``strength`` records.

    Parameters
    ----------
    bounds : tuple of float
        The declared bounds, to which S(x) is clipped.
    cumulant : str
        The log-partition A(t) as a formula; finite on the support, and convex.
    statistic : str
        The statistic S(x) as a formula.
    means : tuple of float, optional
        The range of the mean of S; the bounds if it is left out.
    support : tuple of float
        The interval where A(t) is finite.

    Raises
    ------
    InvalidInputError
        If a formula cannot be read, or a range is not (low, high) with low < high.

    Examples
    --------
    >>> family = DefinedFamily(bounds=(0, 1), cumulant="log(1 + exp(t))")
    >>> family.prior((0.5, 2))
    (0.5, 2.0)
    >>> family.natural((0.5, 2.0))
    (Fraction(1, 1), Fraction(2, 1))
    """

    bounds: tuple[float, float]
    cumulant: str
    statistic: str = "x"
    means: tuple[float, float] | None = None
    support: tuple[float, float] = (-math.inf, math.inf)
    name: ClassVar[str] = "defined"
    parameter: ClassVar[str] = "natural parameter"
    bounds_of: ClassVar[str] = "S(x)"
    assumed: ClassVar[tuple[str, ...]] = (
        "the declared log-partition function is convex on its support; the bound is computed from it "
        "numerically, with a margin of 1e-6",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, pair in (("means", self.means or self.bounds), ("support", self.support)):
            low, high = (float(end) for end in pair)
            if not low < high:
                raise InvalidInputError("must be (low, high) with low < high", name, pair)
            keep(self, **{name: (low, high)})
        compile_formula(self.statistic, ("x",))
        compile_formula(self.cumulant, ("t",))

    def prior(self, parameters: Any) -> tuple[float, ...]:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        tuple of float
            The mean of S(x), and the strength.

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.
        """
        values = tuple(map(float, numbers(parameters, "prior")))
        if len(values) != 2 or not values[1] > 0:
            raise InvalidInputError(
                "must be the mean of S(x) and a positive strength, its weight in numbers of records",
                "prior",
                parameters,
            )
        if not self.normalisable(self.natural(values)):
            low, high = self.means or self.bounds
            raise InvalidInputError(
                f"cannot be normalised: the mean of S(x) must lie inside {low:g} – {high:g}, and A must be "
                "finite on the support (if exp overflows there, subtract a constant from S)",
                "prior",
                parameters,
            )
        return values

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
        mean, strength = map(Fraction, distribution)
        return mean * strength, strength

    def from_natural(self, eta: Natural) -> tuple[float, ...]:
        """Return the prior or posterior with natural parameters η.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        tuple of float
            The mean of S(x), and the strength.
        """
        return float(eta[0] / eta[1]), float(eta[1])

    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Fraction, int]:
        (x,) = record_rows(data, people, 1, column).T
        statistics = np.broadcast_to(in_floats(self.statistic, x=x), x.shape).astype(np.float64)
        if np.isnan(statistics).any():
            raise DataError("S(x) must be a number for every record; for at least one it is not")
        return sum_on_grid(clipped_sum(statistics, bounds=self.bounds), self.bounds), len(x)

    def farthest(self, n: int) -> list[tuple[Fraction, Fraction]]:
        """Return the statistics of some of the worst pairs: all records at one end, and one of them moved.

        Parameters
        ----------
        n : int
            The number of records.

        Returns
        -------
        list of pairs of Fraction
        """
        low, high = (n * Fraction(end) for end in self.bounds)
        return [(low, low + self.move), (high, high - self.move)]

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
        from flint import arb

        log_mass = _log_mass(self, *(float(part.mid()) for part in eta))
        return arb(log_mass, 1e-13 * (1 + abs(log_mass)))

    def exponent(self, eta: Natural, theta: Ball) -> tuple[Ball, Ball] | None:
        """Return the exponent χθ − νA(θ), where (χ, ν) is ``eta``, and its derivative with respect to θ.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        theta : Ball
            θ, as an enclosure.

        Returns
        -------
        tuple or None
            None where θ is certainly outside the support.
        """
        from flint import arb, arb_series, ctx

        low, high = self.support
        if (math.isfinite(low) and theta < low) or (math.isfinite(high) and theta > high):
            return None
        (chi, nu), saved_cap = map(ball, eta), ctx.cap
        ctx.cap = 2
        try:
            series = arb_series(in_balls(self.cumulant, t=arb_series([theta, 1])))
        except ValueError:  # division by an enclosure of zero: the box is too large to bound A
            series = arb_series([arb("nan"), arb("nan")])
        finally:
            ctx.cap = saved_cap
        return chi * theta - nu * series[0], chi - nu * series[1]

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
        return (_exact(self, eta).draw(grid, source),)

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
        width = self.bounds[1] - self.bounds[0]
        return power_of_two(2 / (width * math.sqrt(eta[-1] + r * n))) / 2**32

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw from quadrature nodes of the posterior, in floating point; these draws are not private.

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
        ndarray of shape (size, 1)
        """
        theta, weights = self.nodes(eta)
        return np.asarray(theta[rng.choice(len(theta), size, p=weights)][:, None])

    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return the sum of the records' statistics, (ΣS(x), n).

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
        return self.total(statistic, n), Fraction(n)

    def normalisable(self, eta: Natural) -> bool:
        """Return whether the mean of S lies strictly inside its range.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        bool
        """
        low, high = self.means or self.bounds
        return eta[1] > 0 and low < eta[0] / eta[1] < high

    def renyi_bound(self, eta: Natural, n: int, r: Fraction, order: float) -> float:
        """Return an upper bound on the Rényi divergence of neighbouring posteriors.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].
        order : float
            The Rényi order, above 1.

        Returns
        -------
        float

        Examples
        --------
        >>> family = DefinedFamily(bounds=(0, 1), cumulant="log(1 + exp(t))")
        >>> bool(0 < family.renyi_bound((Fraction(5), Fraction(10)), 20, Fraction(1), 2.0) < 1)
        True
        """
        largest = _variances(self, eta, n, r)
        move = float(r) * (self.bounds[1] - self.bounds[0])
        low, high = (float(eta[0]) + float(r) * n * end for end in self.bounds)
        ends = 1 / (1 + np.exp(-np.linspace(-12.0, 12.0, _CHI_CELLS + 1)))
        at = low + max(0.0, high - move - low) * (ends - ends[0]) / (ends[-1] - ends[0])
        s = np.append(np.linspace(0, 1, 17), order - (order - 1) * np.linspace(1, 0, 33)[1:] ** 2) * move
        below = np.where(s <= move, s**2 / 2, order * move**2 / 2 - (order * move - s) ** 2 / (2 * order - 2))
        up = largest(at[:-1, None] + s[:-1], at[1:, None] + s[1:])
        down = largest(at[:-1, None] + move - s[1:], at[1:, None] + move - s[:-1])
        return _MARGIN_FACTOR * max(float((side * np.diff(below)).sum(axis=1).max()) for side in (up, down))

    def curve(self, eta: Natural, n: int, r: Fraction) -> BoundedCurve:
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
        BoundedCurve
        """
        return BoundedCurve(self, eta, n, r)

    def cumulants(self, theta: Any) -> FloatArray:
        """Return A(θ) in long doubles, in which exp overflows later than in doubles.

        Parameters
        ----------
        theta : array_like
            Values of θ.

        Returns
        -------
        ndarray
        """
        return in_floats(self.cumulant, t=np.asarray(theta, np.longdouble)).astype(np.longdouble)

    def distributions(
        self, chi: FloatArray, nu: float, number: int
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return nodes of θ for each χ, their log-probabilities and the log-partition.

        The exponent is concave, so the points where it is within 60 of its maximum form one interval, which
        is located first. If few nodes fall into it, the search is repeated between the nodes around it.

        Parameters
        ----------
        chi : ndarray
            The natural parameters that multiply θ.
        nu : float
            The natural parameter that multiplies A(θ).
        number : int
            The number of nodes.

        Returns
        -------
        tuple of ndarray
        """
        low, high = self.support

        def _place(u: FloatArray) -> tuple[FloatArray, FloatArray]:
            if math.isinf(low) and math.isinf(high):
                return np.sinh(u), np.log(np.cosh(u))
            if math.isinf(low) or math.isinf(high):
                return (high - np.exp(u) if math.isinf(low) else low + np.exp(u)), u
            part = 1 / (1 + np.exp(-u))
            return low + (high - low) * part, np.log(part * (1 - part))

        def _heights(u: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta, slope = _place(u)
            value = chi[:, None] * theta - nu * self.cumulants(theta) + slope
            return theta, np.where(np.isfinite(value), value, -np.inf)

        u, rows = np.linspace(-22.0, 22.0, 4001)[None], np.arange(len(chi))
        for _ in range(_MOST_ZOOMS):
            value = _heights(u)[1]
            relevant = value > value.max(axis=1, keepdims=True) - 60
            left, right = relevant.argmax(axis=1) - 1, relevant.shape[1] - relevant[:, ::-1].argmax(axis=1)
            left, right = np.maximum(left, 0), np.minimum(right, relevant.shape[1] - 1)
            u = np.broadcast_to(u, relevant.shape)
            first, last = u[rows, left][:, None], u[rows, right][:, None]
            if (right - left >= 6).all():
                break
            u = first + (last - first) * np.linspace(0, 1, 61)
        u = first + (last - first) * np.linspace(0, 1, number)
        theta, value = _heights(u)
        top = value.max(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            value = np.maximum(value - top, -1e4).astype(np.float64)
        total = np.log(np.exp(value).sum(axis=1, keepdims=True))
        mass = (top + total)[:, 0] + np.log((last - first)[:, 0] / (number - 1))
        return np.broadcast_to(theta, u.shape), value - total, mass

    def nodes(self, eta: Natural) -> tuple[FloatArray, FloatArray]:
        """Return nodes of θ that cover the posterior, and their probabilities.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        tuple of ndarray
        """
        (theta,), (log_weight,), _ = self.distributions(np.array([float(eta[0])]), float(eta[1]), 20_001)
        return theta, np.exp(log_weight)


@dataclass(frozen=True)
class BoundedCurve(PosteriorCurve):
    """An upper bound on the Rényi divergences of neighbours, where no theorem identifies the worst pair."""

    family: DefinedFamily

    def renyi(self, order: float) -> float:
        """Return an upper bound on the Rényi divergence of one order.

        Parameters
        ----------
        order : float
            The Rényi order, above 1.

        Returns
        -------
        float
        """
        return self.family.renyi_bound(self.eta, self.n, self.r, order)


@lru_cache(maxsize=256)
def _variances(family: DefinedFamily, eta: Natural, n: int, r: Fraction) -> Callable[..., FloatArray]:
    """Return a function of two values of χ that bounds the variance of θ for all χ between them."""
    low, high = (float(eta[0]) + float(r) * n * end for end in family.bounds)
    nu, move = float(eta[1]) + float(r) * n, float(r) * (family.bounds[1] - family.bounds[0])
    first, last = (nu * end for end in family.means or family.bounds)
    first, last = max(first, low - _LARGEST_ORDER * move), min(last, high + _LARGEST_ORDER * move)
    cells = first + (last - first) / (1 + np.exp(-np.linspace(-7.0, 7.0, _CHI_CELLS + 1)))
    for _ in range(_MOST_REFINEMENTS):
        variance, bound = _in_cells(family, cells, nu, _THETA_NODES)
        wide = bound > 1.1 * variance
        if not wide.any() or len(cells) > 8 * _CHI_CELLS:
            break
        cells = np.sort(np.append(cells, ((cells[1:] + cells[:-1]) / 2)[wide]))
    bound, again = (_in_cells(family, cells, nu, nodes)[1] for nodes in (_THETA_NODES, 2 * _THETA_NODES))
    sure = np.where(np.isclose(again, bound, rtol=_MARGIN_FACTOR - 1, atol=0), again, np.inf)

    def _largest(left: FloatArray, right: FloatArray) -> FloatArray:
        start = np.clip(np.searchsorted(cells, left, "right") - 1, 0, len(sure) - 1)
        stop = np.clip(np.searchsorted(cells, right, "left"), start + 1, len(sure))
        ranges = np.stack([start, stop], axis=-1)
        bounds = np.maximum.reduceat(np.append(sure, np.inf), ranges.ravel())[::2].reshape(left.shape)
        return np.where((left < cells[0]) | (right > cells[-1]), np.inf, bounds)

    return _largest


def _in_cells(
    family: DefinedFamily, cells: FloatArray, nu: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    """Return the variance of θ in the middle of each cell, and a bound on it in the whole cell."""
    middles = (cells[1:] + cells[:-1]) / 2
    theta, log_weight, _ = family.distributions(middles, nu, nodes)
    # Exponents of which rounding left nothing to go by, or nodes too far apart, say nothing of a variance.
    some = theta[:, nodes // 2]
    size = np.abs(middles * some) + nu * np.abs(family.cumulants(some))
    precise = np.finfo(np.float64 if "lgamma" in family.cumulant else np.longdouble).eps
    seen = (size * precise < 1e-9) & (log_weight.max(axis=1) < math.log(0.25))
    away = theta - (np.exp(log_weight) * theta).sum(axis=1, keepdims=True)
    tilt = np.diff(cells)[:, None] / 2 * away
    squares = log_weight + 2 * np.log(np.maximum(np.abs(away), 1e-300))
    known = np.pad(log_weight > -9e3, ((0, 0), (1, 1)))
    bounds, ends = [], ~(known[:, :-2] & known[:, 2:])
    for sign in (-1, 1):
        value = squares + sign * tilt
        largest = value.max(axis=1)
        cut = np.where(ends, value, -np.inf).max(axis=1) > largest - 25  # the nodes do not cover the tails
        second_moment = np.exp(value - largest[:, None]).sum(axis=1) * np.exp(np.minimum(largest, 700.0))
        bounds.append(np.where(cut | ~seen, np.inf, second_moment))
    return np.exp(squares).sum(axis=1), np.maximum(*bounds)
