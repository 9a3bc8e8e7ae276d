"""Posterior draws of the coefficients of Poisson and linear models, by the exact sampler.

The loss of a record is A(x·w) − y·(x·w) with A' the mean function, clipped to the declared bounds of the
response: it is convex and B·c-Lipschitz, where B is the width of the bounds and c the norm bound of the rows.
So the draw is μ-GDP with μ = 2ρBc/√m, as for logistic regression, where B = 1. Proof: ``proofs/logistic.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np

from discreet._declarations import as_bounds, as_choice, as_positive, as_real
from discreet._numerics.enclosures import Ball, ball
from discreet._randomness.entropy import OS_ENTROPY, Source
from discreet._typing import EpsilonLike, FloatArray
from discreet.errors import InvalidInputError, TooLargeError
from discreet.privacy.curves import Gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression._chain import EXACT_BASIS, checked_target, guarantee_of, scalings
from discreet.regression._rejection import ROWS_PER_BLOCK, Tangent, check_rows, near_mode
from discreet.regression.release import clip_rows

MAX_SECONDS = 600.0


@dataclass(frozen=True)
class CoefficientDraws:
    """Exact draws from the posterior of the coefficients of a Poisson or linear model.

    Parameters
    ----------
    family : {"poisson", "gaussian"}
        ``poisson``: rates e^{x·w}, at most the upper bound. ``gaussian``: means x·w, clipped to the bounds,
        of a response in units of its standard deviation.
    n, columns : int
        The public number of records, and the number of coefficients.
    bounds : pair of numbers
        The bounds of the response, to which it is clipped; ``(0, largest count)`` for ``poisson``.
    epsilon, delta, order
        The target: ε with δ, or ε of order ``order`` (Rényi).
    norm_bound : float
        The Euclidean norm to which longer rows are shortened.
    prior_precision : float
        Precision m of the prior N(0, I/m).
    method : {"diffused", "concentrated", "direct"}
        How the target is met: ``diffused`` lowers the weight ρ of each record, ``concentrated`` raises m,
        ``direct`` changes neither.
    draws : int
        The number of draws that the guarantee covers.

    Raises
    ------
    InvalidInputError
        If a parameter is out of range.
    TooLargeError
        If the exact sampler might be slow on some data.

    Notes
    -----
    The posterior density is proportional to e^{−U(w)} with U(w) = ρ Σ [A(xᵢ·w) − yᵢ xᵢ·w] + (m/2)‖w‖². Each
    coefficient is rounded to a public grid.

    Examples
    --------
    >>> model = CoefficientDraws("poisson", n=200, columns=1, bounds=(0, 4), epsilon=2, delta="1e-6")
    >>> model.guarantee.epsilon, model.weight < 1
    (2.0, True)
    >>> model.draw([[1.0]] * 200, [1, 3] * 100).shape
    (1, 1)
    """

    family: Literal["poisson", "gaussian"]
    n: int
    columns: int
    bounds: tuple[float, float]
    epsilon: EpsilonLike
    delta: EpsilonLike | None = None
    order: float | None = None
    norm_bound: float = 1.0
    prior_precision: float = 1.0
    method: str = "diffused"
    draws: int = 1

    def __post_init__(self) -> None:
        for name in ("n", "columns", "draws"):
            as_positive(getattr(self, name), name)
        low, high = as_bounds(self.bounds, "bounds")
        if as_choice(self.family, ("poisson", "gaussian"), "family") == "poisson" and low != 0:
            raise InvalidInputError(
                "must be (0, largest count) for family='poisson'", parameter="bounds", value=self.bounds
            )
        object.__setattr__(self, "bounds", (float(low), float(high)))
        object.__setattr__(self, "norm_bound", as_real(self.norm_bound, "norm_bound", 1e-100, 1e100))
        if not self.seconds <= MAX_SECONDS:
            raise TooLargeError(
                f"n={self.n}, columns={self.columns}: the exact sampler might take {self.seconds:.1g} "
                "seconds. A smaller epsilon, a larger prior_precision or narrower bounds make it quicker; "
                "regress has no such limit"
            )

    @property
    def lipschitz_squared(self) -> Fraction:
        """(B·c)², the squared bound on what one record adds to the gradient of the loss."""
        low, high = map(Fraction, self.bounds)
        return ((high - low) * Fraction(self.norm_bound)) ** 2

    @cached_property
    def _scalings(self) -> tuple[float, float, Guarantee]:
        target = checked_target(self.epsilon, self.delta, self.order, self.n)
        bound = self.lipschitz_squared
        weight, precision = scalings(
            self.method, target, target.mu_squared / self.draws, bound, self.prior_precision
        )
        curve = Gaussian(self.draws * 4 * Fraction(weight) ** 2 * bound / Fraction(precision))
        return weight, precision, guarantee_of(target, curve, EXACT_BASIS, ())

    @property
    def weight(self) -> float:
        """ρ, the weight of a record in the posterior."""
        return self._scalings[0]

    @property
    def precision(self) -> float:
        """The precision m of the prior."""
        return self._scalings[1]

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all draws together."""
        return self._scalings[2]

    @property
    def grid(self) -> Fraction:
        """The step of the grid of coefficients: at most 2⁻³⁰ of the prior's standard deviation."""
        return Fraction(2) ** (math.floor(-math.log2(self.precision) / 2) - 30)

    @property
    def acceptance(self) -> float:
        """A lower bound, for all data, on the probability that a candidate is accepted."""
        steepest = self.bounds[1] if self.family == "poisson" else 1.0
        ratio = self.weight * self.n * steepest * self.norm_bound**2 / (self.precision * self.columns)
        return math.exp(max(-700.0, -self.columns / 2 * math.log1p(ratio)))

    @property
    def seconds(self) -> float:
        """Predicted time to make all draws, in seconds, on the slowest possible data."""
        return self.draws * self.n * (4e-6 + 3e-7 * self.columns) / self.acceptance

    def draw(self, rows: Iterable[Any], response: Iterable[Any]) -> FloatArray:
        """Draw coefficients from the posterior of these records.

        Parameters
        ----------
        rows : array of shape (n, columns)
            The predictors; longer rows are shortened to ``norm_bound``.
        response : array of shape (n,)
            Values, clipped to ``bounds``.

        Returns
        -------
        array of shape (draws, columns)

        Raises
        ------
        InvalidInputError
            If there are not n rows of finite numbers, with a response each.
        """
        return self._draw(rows, response, OS_ENTROPY)

    def _draw(self, rows: Iterable[Any], response: Iterable[Any], source: Source) -> FloatArray:
        x, y = np.asarray(rows, dtype=np.float64), np.asarray(response, dtype=np.float64)
        if x.shape != (self.n, self.columns) or y.shape != (self.n,):
            raise InvalidInputError(
                f"rows must be a matrix of n={self.n} rows and {self.columns} columns, with a response each"
            )
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise InvalidInputError("rows and response must be finite numbers")
        x, y = clip_rows(x, self.norm_bound), np.clip(y, *self.bounds)
        check_rows(x, self.n, Fraction(self.norm_bound) ** 2)
        tangent = ClippedMean(self, x, y)
        drawn = [tangent.draw(self.grid, source) for _ in range(self.draws)]
        return np.array([[float(value) for value in row] for row in drawn])


class ClippedMean(Tangent):
    """The posterior of a model and its tangent near the mode."""

    def __init__(self, model: CoefficientDraws, rows: FloatArray, response: FloatArray) -> None:
        self._model, self._response = model, response
        z = _near_mode(model, rows, response)
        super().__init__(rows, z, Fraction(model.weight), Fraction(model.precision))

    def likelihood_ratio(self, block: int, scores: list[Ball]) -> Ball:
        """Return exp(Σ potential − score · response) of a block of records.

        Parameters
        ----------
        block
            The index of the block of records.
        scores
            The linear predictor of each record of the block.

        Returns
        -------
        Ball
            An enclosure of the value.
        """
        return sum((self._potential(t) - t * y for t, y in self._with_response(block, scores)), ball(0)).exp()

    def slopes(self, block: int, scores: list[Ball]) -> list[Ball]:
        """Return the clipped mean minus the response, for each record of a block.

        Parameters
        ----------
        block
            The index of the block of records.
        scores
            The linear predictor of each record of the block.

        Returns
        -------
        list of Ball
            Enclosures of the slopes.
        """
        return [self._mean(t) - y for t, y in self._with_response(block, scores)]

    def _with_response(self, block: int, scores: list[Ball]) -> Iterable[tuple[Ball, Ball]]:
        part = self._response[block * ROWS_PER_BLOCK : (block + 1) * ROWS_PER_BLOCK].tolist()
        return zip(scores, (ball(Fraction(y)) for y in part), strict=True)

    def _mean(self, score: Ball) -> Ball:
        low, high = (ball(Fraction(end)) for end in self._model.bounds)
        if self._model.family == "poisson":
            return score.min(high.log()).exp()
        return score.max(low).min(high)

    def _potential(self, score: Ball) -> Ball:
        """Return A(t), the integral of the mean function."""
        mean = self._mean(score)
        if self._model.family == "gaussian":
            return score * mean - mean * mean / 2
        high = ball(Fraction(self._model.bounds[1]))
        return mean + high * (score - high.log()).max(ball(0))


def _near_mode(model: CoefficientDraws, rows: FloatArray, response: FloatArray) -> FloatArray:
    """Return a point near the posterior mode; it affects the time of a draw, not its distribution."""
    low, high = model.bounds

    def _value(w: FloatArray) -> tuple[float, FloatArray]:
        t = rows @ w
        if model.family == "poisson":
            mean = np.exp(np.minimum(t, math.log(high)))
            potential = mean + high * np.maximum(t - math.log(high), 0.0)
        else:
            mean = np.clip(t, low, high)
            potential = t * mean - mean**2 / 2
        value = model.weight * float((potential - response * t).sum()) + model.precision / 2 * float(w @ w)
        return value, model.weight * (rows.T @ (mean - response)) + model.precision * w

    return near_mode(_value, model.columns)
