"""What the released curvatures say of the rows, and what follows for sums at any other coefficients.

Rows are taken to be normal with the second moments M that the curvatures show. Given the predictor η = x·w
= c + sz, with z standard normal, a row has the mean m + uz and the covariance Σ − uu', u = Σw/s, m and Σ the
mean and the covariance of the rows. So for any function f E f(η)x = m·E f + u·E fz and E f(η)xx' = M·E f +
(um' + mu')·E fz + uu'·E f(z² − 1): means over one normal number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf

from discreet._typing import FloatArray

if TYPE_CHECKING:
    from discreet.regression.newton.design import Design
    from discreet.regression.newton.models import ResponseModel
    from discreet.regression.newton.posterior import Evidence

__all__ = ["ResponseCurve", "RowMoments", "clipped_moments", "moments_of"]

_PASSES = 3
_DIAGONAL, _ACROSS, _COMMON = 0.05, 0.008, 0.1
"""First guesses, as relative variances: of diagonal entries, of others, and of what others have in common."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_WEIGHTS = np.column_stack([_WEIGHTS, _WEIGHTS * _NODES, _WEIGHTS * (_NODES**2 - 1)]) / _WEIGHTS.sum()


@dataclass(frozen=True)
class ResponseCurve:
    """A record's expected response by its predictor, the slope of that, and the response's variance.

    In tables over an even grid. The response is what enters the sums: clipped, where a round clips it.
    """

    start: float
    step: float
    tables: FloatArray

    @classmethod
    def of(cls, predictors: FloatArray, slope: FloatArray, scatter: FloatArray) -> ResponseCurve:
        step = float(predictors[1] - predictors[0])
        mean = np.concatenate([[0.0], np.cumsum((slope[1:] + slope[:-1]) / 2) * step])
        return cls(float(predictors[0]), step, np.array([mean, slope, scatter]))

    def expected(self, centre: FloatArray, variance: FloatArray) -> FloatArray:
        """E f, E fz and E f(z² − 1), f the response, its slope, its variance: by f, mean and point."""
        eta = centre[:, None] + np.sqrt(variance)[:, None] * _NODES
        place = np.clip((eta - self.start) / self.step, 0, self.tables.shape[1] - 1.001)
        low = place.astype(np.intp)
        values = self.tables[:, low]
        values = values + (self.tables[:, low + 1] - values) * (place - low)
        return np.moveaxis(values @ _WEIGHTS, 2, 1)


@dataclass(frozen=True)
class RowMoments:
    """Second moments of the rows, with a variance for what is not known of each entry."""

    mean: FloatArray
    variance: FloatArray
    records: float
    constant: int | None
    """The position of the constant column, whose second moment is public."""
    blur: float = 0.0
    """The spectral norm of the noise on them, 2√(dv) for entries of variance v (Wigner), over their mean
    eigenvalue: above 1 there are directions in which the noise hides whether there is any curvature."""

    @cached_property
    def centre(self) -> FloatArray:
        """The mean of the rows; without a constant column it is taken to be 0."""
        at = self.constant
        return np.zeros(len(self.mean)) if at is None else self.mean[at] / math.sqrt(self.mean[at, at])

    @cached_property
    def covariance(self) -> FloatArray:
        return self.mean - np.outer(self.centre, self.centre)

    def predictors(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and variances over the rows of the predictors at each of some points."""
        variance = np.einsum("ij,ij->i", points @ self.covariance, points)
        return np.clip(points @ self.centre, -40.0, 40.0), np.clip(variance, 1e-12, 200.0)

    def along(self, points: FloatArray) -> FloatArray:
        """u by point."""
        moved = points @ self.covariance
        return np.asarray(moved / np.sqrt(np.maximum(np.einsum("ij,ij->i", moved, points), 1e-12))[:, None])

    def sums(self, points: FloatArray, means: FloatArray) -> FloatArray:
        """n·E f(η)x at each point, from the three means of f there."""
        return np.asarray(
            self.records * (np.outer(means[0], self.centre) + means[1][:, None] * self.along(points))
        )

    def weighted(self, points: FloatArray, means: FloatArray) -> FloatArray:
        """n·E f(η)xx' at each point, from the three means of f there; positive where f is."""
        along = self.along(points)
        across = np.einsum("i,ij,k->ijk", means[1], along, self.centre)
        whole = means[0][:, None, None] * self.mean + across + across.transpose(0, 2, 1)
        return np.asarray(self.records * (whole + np.einsum("i,ij,ik->ijk", means[2], along, along)))

    def unsure(self, moves: FloatArray) -> FloatArray:
        """The covariance of E·δ for each move δ, E the symmetric error of the moments."""
        found = self.variance * moves[:, :, None] * moves[:, None, :]
        size = np.arange(len(self.mean))
        found[:, size, size] = (moves**2) @ self.variance
        return np.asarray(found)


def moments_of(model: ResponseModel, design: Design, seen: Sequence[Evidence], records: float) -> RowMoments:
    """The moments given all rounds, starting from rows that are spread evenly over what is declared.

    Each round's curvature is divided by its mean weight; what depends on the point is taken off at the
    moments known so far, a few times. How far the guess is off is told by all of them (empirical Bayes).
    """
    guess, constant = model.guess(design), design.constant if model.outputs == 1 else None
    found = RowMoments(guess, np.outer(np.diag(guess), np.diag(guess)) / 4, records, constant)
    curved = [(one, one.curvature) for one in seen if one.curvature is not None]
    for _ in range(_PASSES if model.curved else 1):
        total, precision = np.zeros_like(guess), 0.0
        for one, curvature in curved:
            level, change = 1.0, np.zeros_like(guess)
            if model.curved:
                point = one.point[None, :]
                means = model.curve(one.clip).expected(*found.predictors(point))[1]
                level = max(float(means[0, 0]), 1e-6)
                change = found.weighted(point, means)[0] - records * level * found.mean
            known = (records * level) ** 2 / one.curvature_variance
            total += known * (curvature - change) / (records * level)
            precision += known
        if not curved:
            return found
        noise = (np.eye(len(guess)) + 1) / 2 / precision
        centre, variance = _shrinkage(guess, total / precision, noise, constant)
        gain = variance / (variance + noise)
        centre, variance = centre + gain * (total / precision - centre), variance * (1 - gain)
        size = len(guess)
        blur = 2 * math.sqrt(size / 2 / precision) / (float(np.trace(centre)) / size)
        found = RowMoments(positive(centre, variance), variance, records, constant, blur)
    return found


def _shrinkage(
    guess: FloatArray, found: FloatArray, noise: FloatArray, constant: int | None
) -> tuple[FloatArray, FloatArray]:
    """A normal law for the entries before they are seen: centre and variances, from how they scatter.

    Diagonal entries are about the guess times a common factor; others about the guess, moved by a common
    correlation, and by another one for the means of columns. How far they are off is estimated from all
    entries together, with an allowance for that estimate's own error.
    """
    size = len(guess)
    free = np.array([at for at in range(size) if at != constant], dtype=np.intp)
    centre, variance = guess.copy(), np.zeros_like(guess)
    if not free.size:
        return centre, variance
    own = np.diag(guess)[free]
    ratio, ratio_noise = np.diag(found)[free] / own, np.diag(noise)[free] / own**2
    trust = 1 / (1 + ratio_noise)
    factor = float(np.clip((ratio @ trust + 1) / (trust.sum() + 1), 0.05, 4.0))
    spread = _excess(ratio - factor, ratio_noise, _DIAGONAL * factor**2, 2.0)
    centre[np.ix_(free, free)] *= factor
    scale = np.sqrt(np.outer(np.diag(centre), np.diag(centre)))
    rows, columns = np.triu_indices(len(free), 1)
    pairs = [(free[rows], free[columns])]
    if constant is not None:
        pairs.append((np.full(len(free), constant), free))
    for rows, columns in pairs:
        values, unsure = ((found - centre) / scale)[rows, columns], (noise / scale**2)[rows, columns]
        known = 1 / (_ACROSS + unsure)
        common = float(values @ known / (known.sum() + 1 / _COMMON))
        apart = _excess(values - common, unsure, _ACROSS, 4.0)
        for one, other in ((rows, columns), (columns, rows)):
            centre[one, other] += common * scale[one, other]
            variance[one, other] = apart * scale[one, other] ** 2
    variance[free, free] = spread * own**2
    return centre, variance


def _excess(values: FloatArray, noise: FloatArray, first: float, weight: float) -> float:
    """Variance of values beyond their noise, shrunk to a first guess that counts as ``weight`` of them."""
    total = float(np.sum((values**2 - noise) / (1 + noise / first) ** 2))
    number = float(np.sum(1 / (1 + noise / first) ** 2))
    return max((total + weight * first) / (number + weight), 0.02 * first)


def positive(matrix: Any, variance: FloatArray | None = None) -> FloatArray:
    """The nearest matrix whose eigenvalues are not below a part of the noise of one entry."""
    values, vectors = np.linalg.eigh(matrix)
    noise = 0.0 if variance is None else 0.2 * math.sqrt(float(variance.mean()))
    floor = max(noise, 1e-3 * float(np.abs(values).mean()), 1e-12)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def clipped_moments(variance: FloatArray, clip: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P(|r| < clip), the slope of E clip(r), and second and fourth moments of clip(r), of a normal r."""
    k = clip / np.sqrt(variance)
    inside = erf(k / math.sqrt(2))
    density = np.exp(-k * k / 2) / math.sqrt(2 * math.pi)
    second = inside - 2 * k * density + k**2 * (1 - inside)
    fourth = 3 * inside - 2 * density * (k**3 + 3 * k) + k**4 * (1 - inside)
    return inside, variance * second, variance**2 * fourth
