"""What the released curvatures say of the rows, and what follows for sums at any other coefficients.

Rows are taken to be normal with the second moments M that the curvatures show. Given the predictor η = x·w
= c + sz, with z standard normal, a row has the mean m + uz and the covariance Σ − uu', u = Σw/s, m and Σ the
mean and the covariance of the rows. So for any function f E f(η)x = m·E f + u·E fz and E f(η)xx' = M·E f +
(um' + mu')·E fz + uu'·E f(z² − 1): means over one normal number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import erf

from discreet._typing import FloatArray

if TYPE_CHECKING:
    from discreet.regression.newton.design import Design
    from discreet.regression.newton.models import ResponseModel
    from discreet.regression.newton.posterior import Evidence

_PASSES = 3
_SCATTERS = 12
_SHARES = (1 / 2, 1 / 4, 1 / 8, 1 / 16)
"""Of numbers that are learned together, those that scatter more than samples do."""
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
        values = np.diff(self.tables)[:, low]
        values *= place - low
        values += self.tables[:, low]
        return (values @ _WEIGHTS).transpose(0, 2, 1)


@dataclass(frozen=True)
class RowMoments:
    """Second moments of the rows, with a variance for what is not known of each entry."""

    mean: FloatArray
    variance: FloatArray
    records: float
    constant: int | None
    """The position of the constant column, whose second moment is public."""
    shown: FloatArray | None = None
    """The curvature at the last round's point over its weight, which normal rows would have otherwise."""
    blur: float = 0.0
    """The spectral norm of the noise on them, 2√(dv) for entries of variance v (Wigner), over their mean
    eigenvalue: above 1 there are directions in which the noise hides whether there is any curvature."""
    tied: FloatArray | None = None
    """By entry, how much of the error m̂ᵢeⱼ + eᵢm̂ⱼ it has, e that of the rows' mean; none if None."""
    alike: tuple[FloatArray, ...] = ()
    """Errors that are one number times a matrix: of what entries of a kind have in common."""

    @cached_property
    def centre(self) -> FloatArray:
        """The mean of the rows; without a constant column it is taken to be 0."""
        at = self.constant
        return np.zeros(len(self.mean)) if at is None else self.mean[at] / math.sqrt(self.mean[at, at])

    @cached_property
    def covariance(self) -> FloatArray:
        return self.mean - np.outer(self.centre, self.centre)

    @property
    def hidden(self) -> list[int]:
        """Columns whose variance has an error with a deviation of more than half of it, because noise is on
        their squares and on their means."""
        if self.constant is None:
            return []
        means = 4 * self.centre**2 * self.variance[self.constant] / self.mean[self.constant, self.constant]
        found = 2 * np.sqrt(np.diag(self.variance) + means) > np.diag(self.covariance)
        return [int(j) for j in np.flatnonzero(found) if j != self.constant]

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

    def weighted(self, points: FloatArray, means: FloatArray, turn: FloatArray | None = None) -> FloatArray:
        """n·E f(η)xx' of normal rows at each point, from the three means of f there; positive where f is.

        With T, a ``turn``, of the rows Tx.
        """
        along, centre, whole = self.along(points), self.centre, self.mean
        if turn is not None:
            along, centre, whole = along @ turn.T, turn @ centre, turn @ whole @ turn.T
        first, second, third = (one[:, None, None] for one in self.records * means)
        across = along[:, :, None] * (second * centre)
        found = third * along[:, :, None] * along[:, None, :]
        return np.asarray(found + first * whole + across + across.transpose(0, 2, 1))

    def unsure(self, moves: FloatArray) -> FloatArray:
        """The covariance of E·δ for each move δ, E the symmetric error of the moments.

        Entries are m·m' and a covariance, so that E = tied·(me' + em') + errors of their own, by entry: with
        the mean of the rows unsure their second moments are, and their covariance need not be. Nor does what
        all entries of a kind have alike make directions of little curvature unsure.
        """
        size, own = np.arange(len(self.mean)), self.variance - sum(one**2 for one in self.alike)
        ties = np.zeros((len(moves), *self.mean.shape))
        if self.tied is not None:
            unsure = np.maximum(own[self.constant] / self.mean[self.constant, self.constant], 0.0)
            own = own - self.tied**2 * shared(self.centre, unsure)
            ties = self.centre[:, None] * self.tied * moves[:, None, :]
            ties[:, size, size] += (self.centre * moves) @ self.tied
            ties *= np.sqrt(unsure)
        own = np.maximum(own, 0.0)
        ties = np.concatenate([ties, *((moves @ one)[:, :, None] for one in self.alike)], axis=2)
        found = ties @ ties.transpose(0, 2, 1)
        single = own * moves[:, :, None]
        single *= moves[:, None, :]
        single[:, size, size] = (moves**2) @ own
        found += single
        return np.asarray(found)


def shared(centre: FloatArray, unsure: FloatArray) -> FloatArray:
    """Variances of cᵢeⱼ + eᵢcⱼ by entry, for independent e with these variances."""
    found = np.outer(centre**2, unsure)
    return np.asarray(found + found.T)


def column_spreads(moments: FloatArray, design: Design) -> FloatArray:
    """Deviations of the columns by coefficient, from second moments or a curvature; never below a seventh of
    the root mean square."""
    d, at, found = design.d, design.constant, []
    for start in range(0, len(moments), d):
        block = moments[start : start + d, start : start + d]
        squares = np.diag(block)
        if at is not None:
            squares, centre = squares / block[at, at], block[at] / block[at, at]
            squares = np.maximum(squares - centre**2, 0.02 * squares)
        found.append(np.sqrt(squares))
    return np.concatenate(found)


def moments_of(model: ResponseModel, design: Design, seen: Sequence[Evidence], records: float) -> RowMoments:
    """The moments given all rounds, starting from rows that are spread evenly over what is declared.

    Each round's curvature is divided by its mean weight, and what depends on the point is taken off, at the
    moments known so far, a few times. As rows are not normal, a quarter of that is an error, and what counts
    are weights as at the last point: so earlier rounds, which looked elsewhere, count for less.
    """
    guess, constant = model.guess(design), design.constant if model.outputs == 1 else None
    settled = design.settled.copy() if model.outputs == 1 else np.full_like(guess, np.nan)
    if constant is not None:
        settled[constant, constant] = guess[constant, constant]
    found = RowMoments(guess, np.outer(np.diag(guess), np.diag(guess)) / 4, records, constant)
    curved = [(one, one.curvature) for one in seen if one.curvature is not None]
    for _ in range((_PASSES if model.curved else 1) if curved else 0):
        total, precision = np.zeros_like(guess), np.zeros_like(guess)
        bends = [_bend(model, found, one) for one, _ in curved]
        for (one, curvature), (level, bend) in zip(curved, bends, strict=True):
            noise = one.curvature_variance / level**2 * (np.eye(len(guess)) + 1) / 2
            known = 1 / (noise + (bend - bends[-1][1]) ** 2 / 16)
            total += known * (curvature / level - bend)
            precision += known
        known = settled - bends[-1][1]  # what every record has alike, a curvature has at every point
        mean, variance, tied, alike = _entries(
            guess, total / precision, 1 / precision, known, constant, records
        )
        blur = 2 * math.sqrt(2 * float(np.triu(1 / precision, 1).sum()) / max(len(guess) - 1, 1))
        blur = blur * len(guess) / float(np.trace(mean))
        shown = positive(mean + bends[-1][1], variance)
        mean = positive(_unbent(shown, mean, bends[-1][1]), variance)
        found = RowMoments(mean, variance, records, constant, shown, blur, tied, alike)
    return found


def _unbent(shown: FloatArray, mean: FloatArray, bend: FloatArray) -> FloatArray:
    """The moments with as much of a curvature's bend taken off as leaves them positive."""
    least = np.linalg.eigvalsh(shown)[0] / 2
    for left in (0.0, 0.25, 0.5, 0.75):
        if np.linalg.eigvalsh(mean + left * bend)[0] >= least:
            return mean + left * bend
    return mean + bend


def _bend(model: ResponseModel, found: RowMoments, one: Evidence) -> tuple[float, FloatArray]:
    """The sum of weights at a round's point, and what a curvature there has, over it, besides M."""
    if not model.curved:
        return found.records, np.zeros_like(found.mean)
    point = one.point[None, :]
    means = curve_of(model, found, one)[0].expected(*found.predictors(point))[1]
    level = found.records * max(float(means[0, 0]), 1e-6)
    return level, found.weighted(point, means)[0] / level - found.mean


def curve_of(model: ResponseModel, found: RowMoments, one: Evidence) -> tuple[ResponseCurve, float]:
    """The curve of a round's response times a factor, and the factor's variance.

    Rows are not normal, and their mean weight at the round's point, which the constant column's entry of the
    curvature shows, is not that of normal ones. Beforehand the ratio has the deviation ¼, or 0 where every
    record has the same predictor.
    """
    curve, at = model.curve(one.clip), found.constant
    centre, variance = found.predictors(one.point[None, :])
    if at is None or one.curvature is None or variance[0] < 1e-9:
        return curve, 0.0
    level = max(float(curve.expected(centre, variance)[1, 0, 0]), 1e-6) * found.records * found.mean[at, at]
    gain = 1 / (1 + 16 * one.curvature_variance / level**2)
    factor = max(1 + gain * (float(one.curvature[at, at]) / level - 1), 0.1)
    return replace(curve, tables=curve.tables * factor), (1 - gain) / 16


def _entries(
    guess: FloatArray,
    found: FloatArray,
    noise: FloatArray,
    settled: FloatArray,
    constant: int | None,
    records: float,
) -> tuple[FloatArray, FloatArray, FloatArray | None, tuple[FloatArray, ...]]:
    """Means and variances of the entries given noisy ones, each kind learned together, and what ties them.

    Squares of columns relative to the guess; then means of columns, relative to their squares; then products,
    of which those of uncorrelated columns with these means and the guess's correlations are expected.
    """
    mean, variance = np.where(np.isnan(settled), guess, settled), np.zeros_like(guess)
    tied, alike = np.zeros_like(guess), []
    before = (
        np.zeros(len(guess)) if constant is None else guess[constant] / math.sqrt(guess[constant, constant])
    )

    def learn(rows: Any, columns: Any, base: FloatArray, scale: FloatArray, own: Any = 0.0) -> None:
        unknown = np.isnan(settled[rows, columns])
        rows, columns = rows[unknown], columns[unknown]
        if not rows.size:
            return
        base, scale, own = (np.broadcast_to(one, unknown.shape)[unknown] for one in (base, scale, own))
        seen, unsure = (found[rows, columns] - base) / scale, noise[rows, columns] / scale**2
        moved, left, kept, common = learned(seen, unsure, own / scale**2, records)
        alike.append(np.zeros_like(guess))
        for one, other in ((rows, columns), (columns, rows)):
            mean[one, other] = base + scale * moved
            variance[one, other] = scale**2 * left
            tied[one, other] = kept
            alike[-1][one, other] = scale * common

    every = np.arange(len(guess))
    learn(every, every, np.diag(guess), np.diag(guess))
    mean[every, every] = np.maximum(np.diag(mean), 0.02 * np.diag(guess))
    squares, centre, own = np.diag(mean), np.zeros(len(guess)), np.zeros(len(guess))
    if constant is not None:
        others = every[every != constant]
        learn(np.full_like(others, constant), others, guess[constant, others], np.sqrt(squares[others]))
        centre, own = mean[constant] / math.sqrt(squares[constant]), variance[constant] / squares[constant]
        centre = np.clip(centre, -0.98 * np.sqrt(squares), 0.98 * np.sqrt(squares))
        centre[constant] = math.sqrt(squares[constant])
    spread = np.sqrt(np.maximum(squares - centre**2, 0.02 * squares))
    stretch = np.sqrt(squares / np.diag(guess))
    base = (guess - np.outer(before, before)) * np.outer(stretch, stretch) + np.outer(centre, centre)
    rows, columns = np.triu_indices(len(guess), 1)
    rows, columns = (one[(rows != constant) & (columns != constant)] for one in (rows, columns))
    own = shared(centre, own)[rows, columns]
    learn(rows, columns, base[rows, columns], spread[rows] * spread[columns], own)
    tied[every, every] = 0.0
    if constant is not None:
        tied[constant] = tied[:, constant] = variance[constant] > 0
        for one in alike:
            means = one[constant] / math.sqrt(squares[constant])
            one[constant] = one[:, constant] = 0.0
            one += tied * (np.outer(means, centre) + np.outer(centre, means))
    mean = mean + variance * np.minimum(variance / noise, 1) * gathering(mean, variance)
    return mean, variance, None if constant is None else tied, tuple(alike)


def gathering(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """The slope of log p(M | squares), by entry, of the law ∏λ / ∏|λ − λ'| before anything is seen.

    Products that may be anything, each by itself, have eigenvalues that repel each other, ∏|λ − λ'|; and so
    does noise drive those of M apart: the least that is found is too small, and where it is, coefficients
    look less sure than they are. This law has no repulsion (Yang and Berger 1994); ∏λ makes gradients Mw,
    which are what is seen, as likely as each other. To first order products move by variance times slope.
    Squares of columns are seen by themselves, and stay. Eigenvalues closer than their noise count as one.
    """
    values, vectors = np.linalg.eigh(positive(mean, variance))
    noise = float(np.triu(variance, 1).sum()) / max(math.comb(len(mean), 2), 1) + 1e-300
    gaps = values[:, None] - values
    slopes = values / (values**2 + 2 * noise) - np.sum(gaps / (gaps**2 + 4 * noise), axis=1)
    found = (vectors * slopes) @ vectors.T
    return np.asarray(2 * (found - np.diag(np.diag(found))))


class Learned(NamedTuple):
    """Means and variances of numbers; ``kept`` is how much of an error of what was expected of each is left
    in it, ``common`` the deviation of the error that all have alike."""

    mean: FloatArray
    variance: FloatArray
    kept: FloatArray
    common: FloatArray


def learned(values: FloatArray, noise: FloatArray, own: FloatArray, records: float) -> Learned:
    """Numbers about a common one, given values with noise.

    Before they are seen the common number has the deviation ½. Numbers scatter about it with 1/√n, as samples
    of n records do, and that is all with probability ½; otherwise a share of them, each of ``_SHARES`` as
    likely, has a deviation that is log-uniform up to ½. ``own`` are variances that they have besides. The
    common number is found by EM, and its likelihood taken to be normal there.
    """
    least = min(1 / math.sqrt(max(records, 1.0)), 0.25)
    scatter, share = np.meshgrid(np.geomspace(least, 0.5, _SCATTERS), _SHARES)
    before = np.array([np.full_like(scatter, least), scatter]).reshape(2, -1, 1) ** 2 + own
    known, chances = 1 / (before + noise), np.array([1 - share, share]).reshape(2, -1, 1)
    gains, precision = before * known, known[1]
    for _ in range(_PASSES):
        total = precision.sum(axis=1) + 4
        common = precision @ values / total
        gaps = values - common[:, None]
        logs = np.log(chances) + (np.log(known) - known * gaps**2) / 2
        each = np.logaddexp(*logs)
        of = np.exp(logs - each)
        precision = np.sum(of * known, axis=0)
    total = precision.sum(axis=1)[:, None] + 4
    likely = each.sum(axis=1) - 2 * common**2 - np.log(total[:, 0]) / 2
    likely[0] += math.log(len(likely))  # the scatter of samples is one of two ways
    chance = np.exp(likely - likely.max())
    chance /= chance.sum()
    gain = np.sum(of * gains, axis=0)
    means = common[:, None] + gain * gaps
    alike = (1 - gain) ** 2 / total
    inside = np.sum(of * (before * (1 - gains) + ((gains - gain) * gaps) ** 2), axis=0) + alike
    mean = chance @ means
    return Learned(
        mean, chance @ (inside + (means - mean) ** 2), chance @ (1 - gain), np.sqrt(chance @ alike)
    )


def positive(matrix: Any, variance: FloatArray | None = None) -> FloatArray:
    """The nearest matrix whose eigenvalues are not below a part of the noise of one entry."""
    values, vectors = np.linalg.eigh(matrix)
    noise = 0.0 if variance is None else 0.2 * math.sqrt(float(variance.mean()))
    floor = max(noise, 1e-3 * float(np.abs(values).mean()), 1e-12)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def clipped_moments(variance: FloatArray, clip: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """P(|r| < clip), the slope of E clip(r), and second and fourth moments of clip(r), of a normal r."""
    k = np.minimum(clip / np.sqrt(variance), 40.0)  # beyond it nothing is clipped
    inside = erf(k / math.sqrt(2))
    density = np.exp(-k * k / 2) / math.sqrt(2 * math.pi)
    second = inside - 2 * k * density + k**2 * (1 - inside)
    fourth = 3 * inside - 2 * density * (k**3 + 3 * k) + k**4 * (1 - inside)
    return inside, variance * second, variance**2 * fourth
