"""The posterior of the coefficients given the noisy sums of all rounds: everything that is noisy is modelled.

In scaled coefficients w. A round at w_t published G̃_t = F_t(w_t) − F_t(w) + S + noise, F_t(w) the sum over
the records of the expected response times the row and S what chance adds in the responses, the same in every
round; the rows enter through their moments (:mod:`discreet.regression.newton.moments`), which the curvatures
show with an error E. So the mean of the rounds by precision is normal given w, with the covariance of S, of
the noise, and of E·δ, δ the distance of w from the points. That likelihood times the prior is maximised, and
where there are few coefficients importance sampling replaces the normal law at the maximum by the whole.
See ``proofs/regression.md`` for what is exact here and what is an approximation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from discreet._typing import FloatArray
from discreet.declarations import Relation
from discreet.regression.newton.design import Design
from discreet.regression.newton.models import EXCESSES, UNKNOWN_EXCESS, Link, ResponseModel
from discreet.regression.newton.moments import (
    RowMoments,
    clipped_moments,
    column_spreads,
    curve_of,
    moments_of,
    positive,
)
from discreet.regression.newton.sums import Round, RoundNoise, RoundSums, noise_for

_LEAST_STEPS, _MOST_STEPS = 10, 200
_STEPS = 12
_HALVINGS = 8
_ARRIVED = 1e-3
"""A step of fewer standard deviations is the last."""
_MOST_SAMPLED = 40
"""Coefficients up to which importance sampling is worth its while."""
_STAGES = (1000, 1000, 1000, 4000)
_TAILS = 8
"""Degrees of freedom of the proposal."""
_HARDLY = 8.0
"""Scales of the prior whose evidence is e⁻⁸ of another's are left out."""


@dataclass(frozen=True)
class CoefficientPrior:
    """What is declared of the coefficients, as a normal law; ``scales`` are factors of its deviations.

    With several factors the scale of the coefficients, all but that of constant columns (``fixed``), is
    unknown too, each factor as likely as the others, and is learned from what is released. ``spreads`` are
    deviations of the columns for which it is said: where they turn out otherwise, a coefficient times the
    deviation of its column has that law.
    """

    mean: FloatArray
    covariance: FloatArray
    scales: tuple[float, ...] = (1.0,)
    fixed: tuple[int, ...] = ()
    spreads: FloatArray | None = None

    @classmethod
    def weak(cls, design: Design, model: ResponseModel) -> CoefficientPrior:
        """Where nothing is declared: effects of the columns' deviations are normal with a common scale, which
        is learned; at the most predictors have the model's ``deviation``."""
        size, at = design.d * model.outputs, design.constant
        fixed = () if at is None else tuple(range(at, size, design.d))
        spreads = column_spreads(model.guess(design), design)
        deviations = model.deviation / (math.sqrt(max(design.d - (at is not None), 1)) * spreads)
        if at is not None:
            deviations[at :: design.d] = model.level_deviation / math.sqrt(design.second_moments[at, at])
        scales = (1.0, 1 / 2, 1 / 4, 1 / 8) if design.d > 1 else (1.0,)
        return cls(np.zeros(size), np.diag(deviations**2), scales, fixed, spreads)

    @cached_property
    def precision(self) -> FloatArray:
        """The inverse covariance at the scale 1."""
        return np.asarray(np.linalg.inv(self.covariance))

    def each(self, spreads: FloatArray) -> list[CoefficientPrior]:
        """The prior at each of its scales, given the deviations of the columns."""
        found = []
        for scale in self.scales:
            factor = scale * (np.ones(len(self.mean)) if self.spreads is None else self.spreads / spreads)
            factor[list(self.fixed)] = 1.0
            found.append(CoefficientPrior(self.mean, self.covariance * np.outer(factor, factor)))
        return found

    def log_density(self, points: FloatArray) -> FloatArray:
        """At each point, at the scale 1 and up to a constant."""
        gaps = points - self.mean
        squares = np.einsum("ij,ij->i", gaps @ self.precision, gaps)
        return np.asarray((np.linalg.slogdet(self.precision)[1] - squares) / 2)


@dataclass(frozen=True)
class PublicSetting:
    """All that is public before the data: design, model, prior, budget, relation.

    ``n`` is None where the number of records that enter is private: add/remove, or records left out.
    """

    design: Design
    model: ResponseModel
    prior: CoefficientPrior
    mu_squared: Fraction
    relation: Relation
    n: int | None
    per_person: int = 1
    declared: int | None = None
    """The number of records, where it was known before the data: rows are made for it."""

    def steps(self) -> int:
        """Steps of accelerated descent, from public numbers: (π/2)·√(nμ), times ½ to 2.

        Directions of a curvature above λ have settled after about π√(L/λ) steps, L = n·norm²/4 the largest
        there can be. Below λ = s/τ, s = 2·norm/μ the noise of all gradients together and τ the deviation of
        a coefficient, noise outweighs what a direction has to tell: the descent stops there, for rows and
        coefficients whose predictors have a deviation norm·τ of 2. On simulated columns (``steps`` in
        benchmarks/regression.py) half of that is better where nμ/d is below 35, and twice where it is above
        140 and columns say nearly the same. Never more than 200, so that passes do not grow with n: what has
        not settled then has a curvature below L/4000.
        """
        signal = (self.n or 1) * math.sqrt(self.mu_squared) / self.per_person
        share = signal / (70 * self.design.d * self.model.outputs)
        wanted = math.pi / 2 * math.sqrt(signal) * min(max(share, 0.5), 2.0)
        return max(_LEAST_STEPS, min(round(wanted), _MOST_STEPS))

    def cost(self, share: Fraction) -> float:
        """About the variance of the noise on a gradient of a round whose residuals are at most 1."""
        row = self.per_person * self.design.norm / self.design.unit
        return row**2 * (1 if self.relation is Relation.ADD_REMOVE else 4) / float(share * self.mu_squared)

    def unsure(self, share: Fraction) -> float:
        """About the variance of predictors after a round whose residuals are at most 1, of noise alone; 0
        where the number of records is private."""
        if self.n is None:
            return 0.0
        typical = float(np.trace(self.design.second_moments)) / self.design.d
        return self.design.d * self.cost(share) / (self.n**2 * typical)

    def noise(self, link: Link, share: Fraction, curvature: float, squares: float) -> RoundNoise:
        part, people = share * self.mu_squared, self.per_person
        return noise_for(self.model, self.design, link, part, self.relation, people, curvature, squares)


@dataclass(frozen=True)
class Evidence:
    """A round's released sums in real units: point, gradient, curvature and Σr², with variances of noise."""

    point: FloatArray
    gradient: FloatArray
    gradient_variance: float
    curvature: FloatArray | None = None
    curvature_variance: float = 0.0
    square: float = 0.0
    square_variance: float = 0.0
    clip: float = 0.0


def evidence(setting: PublicSetting, turn: Round, sums: RoundSums) -> Evidence:
    """What a round released, in real units."""
    model, design, noise = setting.model, setting.design, turn.noise
    one = float(design.unit * 2**model.residual_bits)
    two = float(design.unit**2 * 2**model.weight_bits)
    four = float(4**model.residual_bits)
    matrix = None
    if noise.curvature is not None:
        size = len(sums.gradient)
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = np.array(sums.curvature, dtype=np.float64) / two
        matrix = matrix + np.triu(matrix, 1).T
    return Evidence(
        turn.link.at,
        np.array(sums.gradient, dtype=np.float64) / one,
        float(noise.gradient) / one**2,
        matrix,
        float(noise.curvature or 0) / two**2,
        sums.square / four,
        float(noise.square or 0) / four**2,
        model.clip_of(turn.link),
    )


@dataclass(frozen=True)
class NormalLaw:
    """A normal law of the scaled coefficients; the rows' moments; mean, deviation, upper end of log σ²."""

    mean: FloatArray
    covariance: FloatArray
    moments: RowMoments
    log_sigma: tuple[float, float, float]
    evidence: float = 0.0
    """log p(released), up to a constant."""
    excess: tuple[float, float] = (0.0, 0.0)
    """As in :class:`Posterior`."""

    @property
    def unsure(self) -> float:
        """The variance over rows of what is not known of a predictor."""
        return max(float(np.sum(self.moments.mean * self.covariance)), 0.0)


@dataclass(frozen=True)
class Posterior:
    """Weighted draws of the coefficients, and of σ² for the gaussian model.

    ``noise_free`` is the covariance that remains if the noise were none: the share of the rest is privacy's.
    ``effective`` is the share of draws that count.
    """

    draws: FloatArray
    weights: FloatArray
    sigma_squared: FloatArray
    moments: RowMoments | None
    noise_free: FloatArray
    effective: float = 1.0
    excess: tuple[float, float] = (0.0, 0.0)
    """How much more responses scatter than the model has it, over that, and the deviation of its error."""

    @property
    def mean(self) -> FloatArray:
        return np.asarray(self.weights @ self.draws)

    @property
    def covariance(self) -> FloatArray:
        gaps = self.draws - self.mean
        return np.asarray((gaps * self.weights[:, None]).T @ gaps)

    def std(self) -> FloatArray:
        """Standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Central intervals: the lower and the upper ends."""
        low, high = self.quantiles(self.draws, ((1 - level) / 2, (1 + level) / 2))
        return low, high

    def quantiles(self, values: FloatArray, levels: Sequence[float]) -> tuple[FloatArray, ...]:
        """Quantiles of columns of values that go with the draws."""
        order = np.argsort(values, axis=0)
        total = np.cumsum(self.weights[order], axis=0) - self.weights[order] / 2
        ordered = np.take_along_axis(values, order, axis=0)
        columns = range(values.shape[1])
        found = np.array([np.interp(levels, total[:, j], ordered[:, j]) for j in columns])
        return tuple(found.T)

    def mapped(self, mixing: FloatArray, offset: FloatArray) -> Posterior:
        """The law of mixing @ w + offset."""
        draws = self.draws @ mixing.T + offset
        return replace(self, draws=draws, noise_free=mixing @ self.noise_free @ mixing.T)


def unseen(prior: CoefficientPrior, point: FloatArray) -> Posterior:
    """Where no curvature was published: the point that descent reached, no surer than the prior."""
    draws = np.random.default_rng(0).normal(size=(1000, len(point)))
    draws = np.concatenate([draws, -draws]) @ np.linalg.cholesky(prior.covariance).T
    even = np.full(len(draws), 1 / len(draws))
    return Posterior(point + draws, even, np.ones(len(draws)), None, np.zeros_like(prior.covariance))


@dataclass(frozen=True)
class _Combined:
    """The rounds as one, at each of some points w: what is left of the gradients, the part of its covariance
    that is of chance, and δ, the way to the rounds times the mean slope on it.

    ``slope`` of what is left, and ``level``, of δ, are those at the first of the points.
    """

    left: FloatArray
    slope: FloatArray
    sampling: FloatArray
    ways: FloatArray
    level: float


class _Target(ABC):
    """The density of (w, log σ²) given the rounds; σ² is 1 but for the gaussian model."""

    def __init__(
        self, model: ResponseModel, prior: CoefficientPrior, seen: Sequence[Evidence], moments: RowMoments
    ) -> None:
        self.model, self.prior, self.seen, self.moments = model, prior, seen, moments
        self.shares, self.noise = np.ones(len(seen)) / len(seen), 0.0
        self.vague: FloatArray | None = None
        self.excess = 0.0, 0.0

    @abstractmethod
    def combined(self, points: FloatArray, log_sigma: FloatArray) -> _Combined:
        """All rounds as one at each of some points."""

    @abstractmethod
    def look(self, point: FloatArray, log_sigma: float) -> None:
        """Fix the weights of the rounds: their slopes at a point over the variances of their errors."""

    def doubt(self, found: _Combined, covariance: FloatArray) -> None:
        """Fix the covariance of E·δ at its mean over a law of the coefficients, δ their way to the rounds.

        At each w by itself it grows with δ², and far coefficients are hardly refuted but by the prior, which
        is wide where none is declared: whatever was released, another curvature would explain it.
        """
        ways = np.vstack([found.ways[:1], found.level * np.linalg.cholesky(covariance).T])
        self.vague = self.moments.unsure(self.moments.records * ways).sum(axis=0)

    def covariance(self, found: _Combined) -> FloatArray:
        """Of what is left: of chance, of what is not known of the curvature, and of noise."""
        vague = self.moments.unsure(self.moments.records * found.ways) if self.vague is None else self.vague
        return np.asarray(found.sampling + vague + self.noise * np.eye(len(self.moments.mean)))

    def weigh(self, slopes: Sequence[float], errors: Sequence[float]) -> None:
        shares = np.array(slopes) / np.array(errors)
        self.shares = shares / shares.sum()
        self.noise = float(self.shares**2 @ np.array(errors))

    def squares(self, points: FloatArray, log_sigma: FloatArray) -> FloatArray:
        """log p of what is released besides gradients and curvatures, and of σ before."""
        return np.zeros(len(points))

    def sigma(self, point: FloatArray) -> tuple[float, float, float]:
        """Mean, deviation and upper end (95 %) of log σ² given w, from the squares alone."""
        return 0.0, 0.0, 0.0

    def log_density(self, points: FloatArray, log_sigma: FloatArray) -> FloatArray:
        """Up to a constant."""
        found = self.combined(points, log_sigma)
        root = np.linalg.cholesky(self.covariance(found))
        scaled = np.empty_like(found.left)
        for i in range(scaled.shape[1]):  # forward, all points at once: solve knows no triangles
            before = np.einsum("ij,ij->i", root[:, i, :i], scaled[:, :i])
            scaled[:, i] = (found.left[:, i] - before) / root[:, i, i]
        log = -np.sum(np.log(np.diagonal(root, axis1=1, axis2=2)), axis=1) - np.sum(scaled**2, axis=1) / 2
        log = log + self.prior.log_density(points) + self.squares(points, log_sigma)
        return np.asarray(np.where(log_sigma > 1.0, -np.inf, log))

    def maximum(self) -> NormalLaw:
        """Gauss–Newton, with the errors' covariance where a step starts; predictors move by one at most, and
        those of counts by less where that is worse, as beyond the largest, where nothing has a slope."""
        point = self.seen[-1].point
        for _ in range(_STEPS):
            sigma = self.sigma(point)
            self.look(point, sigma[0])
            found = self.combined(point[None, :], np.array(sigma[:1]))
            prior, slope = self.prior.precision, found.slope
            solved = np.linalg.solve(self.covariance(found)[0], slope)
            precision = slope @ solved + prior
            covariance = np.linalg.inv(precision)
            move = covariance @ (-solved.T @ found.left[0] - prior @ (point - self.prior.mean))
            far = math.sqrt(max(float(move @ self.moments.mean @ move), 0.0))
            step = move * min(1.0, 1.0 / max(far, 1e-12))
            for _ in range(_HALVINGS if self.model.steep else 0):
                here, there = self.log_density(np.array([point, point + step]), np.array(sigma[:1] * 2))
                if there > here - 1:
                    break
                step = step / 2
            point = point + step
            if float(move @ precision @ move) < _ARRIVED**2:
                break
        log = float(self.log_density(point[None, :], np.array(sigma[:1]))[0])
        log += float(np.linalg.slogdet(covariance)[1]) / 2
        return NormalLaw(point, (covariance + covariance.T) / 2, self.moments, sigma, log, self.excess)


class _Curved(_Target):
    """A response whose mean is a curve of the predictor.

    Rows are taken for normal ones on the way between points only: at the last round's point the curvature is
    the one that is shown. It is that of normal rows N plus ``rest``, per mean weight, and TNT', T the
    ``turn``.
    """

    def __init__(
        self, model: ResponseModel, prior: CoefficientPrior, seen: Sequence[Evidence], moments: RowMoments
    ) -> None:
        super().__init__(model, prior, seen, moments)
        self.curves, self.unsure = zip(*(curve_of(model, moments, one) for one in seen), strict=True)
        self.points = np.array([one.point for one in seen])
        at = moments.predictors(self.points)
        means = [curve.expected(*at)[:, :, t] for t, curve in enumerate(self.curves)]
        self.slopes = np.array([one[1, 0] for one in means])
        sums = [moments.sums(self.points[t : t + 1], one[0][:, None])[0] for t, one in enumerate(means)]
        self.starts = np.array([one.gradient for one in seen]) - np.array(sums)
        normal = moments.weighted(self.points[-1:], means[-1][1][:, None])[0]
        shown = normal if moments.shown is None else moments.records * self.slopes[-1] * moments.shown
        self.rest = (shown - normal) / self.slopes[-1]
        self.turn = np.linalg.cholesky(shown) @ np.linalg.inv(np.linalg.cholesky(positive(normal)))

    def look(self, point: FloatArray, log_sigma: float) -> None:
        """A quarter of what a straight line leaves out on the way counts as error: rows are not normal; and
        so does what is not known of the mean weight."""
        moments, here = self.moments, point[None, :]
        slopes, errors, tables = [], [], []
        at = moments.predictors(here)
        expected = [curve.expected(*at) for curve in self.curves]
        excesses = [self.model.excesses(one.clip, *at) for one in self.seen]
        self.excess = self._excess(point, expected, [ratios for _, ratios in excesses])
        excess = max(self.excess[0] - self.excess[1] / 2, 0.0)
        every = zip(
            self.seen, self.curves, self.starts, self.unsure, self.slopes, expected, excesses, strict=True
        )
        for one, curve, start, unsure, first, means, (moved, ratios) in every:
            straight = moments.weighted(here, means[1])[0] @ (one.point - point)
            bent = one.gradient - start - moments.sums(here, means[0])[0] - straight
            bent = bent + (first - means[1, 0, 0]) / 2 * (self.rest @ (one.point - point))
            slopes.append(float(means[1, 0, 0]))
            wrong = float(bent @ bent) / 16 + unsure * float(straight @ straight)
            size = moments.records**2 * float(np.trace(moments.mean)) / len(point)
            wrong += size * float(np.interp(excess, EXCESSES, moved))
            errors.append(one.gradient_variance + wrong / len(point))
            tables.append(curve.tables * np.array([[1.0], [1.0], [np.interp(excess, EXCESSES, ratios)]]))
        self.weigh(slopes, errors)
        self.curve = replace(self.curves[0], tables=np.tensordot(self.shares, np.array(tables), 1))

    def _excess(
        self, point: FloatArray, expected: Sequence[FloatArray], ratios: Sequence[FloatArray]
    ) -> tuple[float, float]:
        """How much more responses scatter than the model has it, from the squares of all rounds.

        A round's squares have besides what is left between its point and the truth; that, and what is not
        known of the mean weight, count as error. The records' own part, with the fourth moments of negative
        binomial counts, is common to all rounds, and so is a fiftieth of what is expected: rows are not
        normal.
        """
        n, excess = self.moments.records, np.linspace(-1.0, EXCESSES[-1], 1481)
        total, precision, chance = np.zeros(len(excess)), 1e-9, np.zeros(len(excess))
        every = zip(self.seen, self.slopes, self.unsure, expected, ratios, strict=True)
        for one, first, unsure, means, ratio in every:
            if not one.square_variance:
                continue
            gap, slope, scatter = one.point - point, (first + means[1, 0, 0]) / 2, max(means[2, 0, 0], 1e-9)
            misfit = slope**2 * max(float(gap @ self.moments.mean @ gap), 0.0) / scatter
            known = one.square_variance / (n * scatter) ** 2 + misfit**2 + unsure
            less = np.minimum(excess, 0.0)
            second = np.interp(excess, EXCESSES, ratio) + less * (ratio[1] - 1) / EXCESSES[1]
            second = np.maximum(second, 0.0)
            fourth = second**2 * (2 + (1 + 6 * (excess - less)) / scatter)
            fourth = np.minimum(fourth, second * (one.clip + 0.5) ** 2 / scatter)
            total += (one.square / (n * scatter) - misfit - second) / known
            chance += np.sqrt(fourth / n + (0.02 * second) ** 2) / known
            precision += 1 / known
        spread = 1 / precision + (chance / precision) ** 2
        logs = -((total / precision) ** 2) / spread / 2 - np.log(spread) / 2
        logs -= np.log1p((excess / UNKNOWN_EXCESS) ** 2)
        chances = np.exp(logs - logs.max())
        chances /= chances.sum()
        mean = float(chances @ excess)
        return mean, math.sqrt(float(chances @ (excess - mean) ** 2))

    def combined(self, points: FloatArray, log_sigma: FloatArray) -> _Combined:
        moments = self.moments
        means = self.curve.expected(*moments.predictors(points))
        left = self.shares @ self.starts + moments.sums(points, means[0])
        first = self.shares * self.slopes
        ways = first @ self.points - first.sum() * points
        ways = (ways + means[1, 0][:, None] * (self.shares @ self.points - points)) / 2
        slope = moments.weighted(points[:1], means[1][:, :1])[0] + means[1, 0, 0] * self.rest
        sampling = moments.weighted(points, means[2], self.turn)
        level = float(first.sum() + means[1, 0, 0]) / 2
        return _Combined(left - ways @ self.rest, slope, sampling, ways, level)


class _Straight(_Target):
    """A response whose mean is the predictor, with residuals clipped if ``normal``: σ² unknown then."""

    def clipping(
        self, one: Evidence, points: FloatArray, log_sigma: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """The slope of a clipped residual's mean, the variance left given a row, its moments 2 and 4."""
        if not self.model.normal:
            one_each = np.ones(len(points))
            return one_each, one_each, one_each, one_each
        gaps = one.point - points
        misfit = np.einsum("ij,ij->i", gaps @ self.moments.mean, gaps)
        level, second, fourth = clipped_moments(np.exp(log_sigma) + misfit, one.clip)
        return level, np.maximum(second - level**2 * misfit, 1e-12), second, fourth

    def look(self, point: FloatArray, log_sigma: float) -> None:
        slopes = [float(self.clipping(one, point[None, :], np.array([log_sigma]))[0][0]) for one in self.seen]
        self.weigh(slopes, [one.gradient_variance for one in self.seen])

    def combined(self, points: FloatArray, log_sigma: FloatArray) -> _Combined:
        ways, whole = np.zeros_like(points), self.moments.records * self.moments.mean
        left, level, scatter = np.zeros_like(points), np.zeros(len(points)), np.zeros(len(points))
        for share, one in zip(self.shares, self.seen, strict=True):
            own, spread, _, _ = self.clipping(one, points, log_sigma)
            way = share * own[:, None] * (one.point - points)
            ways, left = ways + way, left + share * one.gradient - way @ whole
            level, scatter = level + share * own, scatter + share * spread
        return _Combined(left, level[0] * whole, scatter[:, None, None] * whole, ways, float(level[0]))

    def squares(self, points: FloatArray, log_sigma: FloatArray) -> FloatArray:
        """log p(Σr² of all rounds | w, σ²), and a uniform law of σ: the records' part is common to all."""
        if not self.model.normal:
            return np.zeros(len(points))
        n = self.moments.records
        total, precision, chance = (np.zeros(len(points)) for _ in range(3))
        for one in self.seen:
            gaps = (one.point - points) ** 2
            unsure = np.einsum("ij,ij->i", gaps @ self.moments.variance, gaps)
            known = one.square_variance + 2 * n**2 * unsure
            *_, second, fourth = self.clipping(one, points, log_sigma)
            total += (one.square - n * second) / known
            precision += 1 / known
            chance += np.sqrt(n * np.maximum(fourth - second**2, 0.0)) / known
        spread = 1 / precision + (chance / precision) ** 2
        return np.asarray(-((total / precision) ** 2) / spread / 2 - np.log(spread) / 2 + log_sigma / 2)

    def sigma(self, point: FloatArray) -> tuple[float, float, float]:
        if not self.model.normal:
            return 0.0, 0.0, 0.0
        low, high = math.log(1e-7), 0.0
        for _ in range(3):  # each time where the weight is
            logs = np.linspace(low, high, 80)
            score = self.squares(np.tile(point, (len(logs), 1)), logs)
            kept, step = logs[score > score.max() - 15], logs[1] - logs[0]
            low, high = kept[0] - step, min(kept[-1] + step, 0.0)
        chance = np.exp(score - score.max())
        chance = chance / chance.sum()
        mean, upper = float(chance @ logs), float(np.interp(0.95, np.cumsum(chance), logs))
        return mean, max(math.sqrt(float(chance @ (logs - mean) ** 2)), 1e-4), upper


def targets_of(setting: PublicSetting, seen: Sequence[Evidence]) -> list[_Target]:
    """The density of the coefficients for each scale of the prior."""
    model, design = setting.model, setting.design
    records = float(setting.n) if setting.n is not None else _records(model, seen)
    if model.curved and design.constant is None:
        # Only a constant column tells where predictors lie, and so what the squares are without excess.
        seen = [replace(one, square_variance=0.0) for one in seen]
    moments = moments_of(model, design, seen, records)
    kind = _Curved if model.curved else _Straight
    spreads = column_spreads(moments.mean, design)
    return [kind(model, one, seen, moments) for one in setting.prior.each(spreads)]


def maximum(setting: PublicSetting, seen: Sequence[Evidence]) -> NormalLaw:
    """The normal law at the maximum of the posterior, where the next round looks; of all scales together."""
    laws = [target.maximum() for target in targets_of(setting, seen)]
    chances = _weights(np.array([law.evidence for law in laws]), 0.0)
    best = laws[int(np.argmax(chances))]
    mean = np.asarray(chances @ np.array([law.mean for law in laws]))
    gaps = np.array([law.mean - mean for law in laws])
    inside = np.tensordot(chances, np.array([law.covariance for law in laws]), 1)
    return replace(best, mean=mean, covariance=inside + (gaps * chances[:, None]).T @ gaps)


def posterior(setting: PublicSetting, seen: Sequence[Evidence]) -> Posterior:
    """The law of the scaled coefficients given all that was released, by draws from a fixed seed."""
    every = [(target, target.maximum()) for target in targets_of(setting, seen)]
    most = max(law.evidence for _, law in every)
    prior = setting.prior
    averaged = prior.spreads is not None and not setting.model.steep and len(prior.mean) <= _MOST_SAMPLED
    found = [_sampled(target, law, averaged) for target, law in every if law.evidence > most - _HARDLY]
    chances = _weights(np.array([one.evidence for one in found]), 0.0)
    draws = np.concatenate([one.draws for one in found])
    log_sigma = np.concatenate([one.log_sigma for one in found])
    weights = np.concatenate([chance * one.weights for chance, one in zip(chances, found, strict=True)])
    target = found[int(np.argmax(chances))].target
    seen_as = target.combined((weights @ draws)[None, :], np.array([weights @ log_sigma]))
    exact = seen_as.slope @ np.linalg.solve(seen_as.sampling[0], seen_as.slope)
    free = np.asarray(np.linalg.inv(exact + target.prior.precision), dtype=np.float64)
    effective = float(chances @ [one.effective for one in found])
    return Posterior(draws, weights, np.exp(log_sigma), target.moments, free, effective, target.excess)


class _Sampled(NamedTuple):
    """Draws at one scale of the prior, with weights; ``effective`` is the share of them that count."""

    target: _Target
    draws: FloatArray
    log_sigma: FloatArray
    weights: FloatArray
    effective: float
    evidence: float


def _sampled(target: _Target, law: NormalLaw, averaged: bool) -> _Sampled:
    """Draws with weights, from Student laws that are moved to where the weights are, stage by stage.

    ``averaged``: what is not known of the curvature counts at its mean over the law so far.
    """
    generator = np.random.default_rng(0)
    size = len(law.mean)
    free = size + (law.log_sigma[1] > 0)
    mean = np.append(law.mean, law.log_sigma[0])
    covariance = np.zeros((size + 1, size + 1))
    covariance[:size, :size] = law.covariance
    covariance[size, size] = law.log_sigma[1] ** 2
    for number in _STAGES if size <= _MOST_SAMPLED else _STAGES[-1:]:
        if averaged:
            target.doubt(target.combined(mean[None, :size], mean[size:]), covariance[:size, :size])
        root = np.linalg.cholesky(covariance[:free, :free])
        half = generator.normal(size=(number // 2, free))
        if size <= _MOST_SAMPLED:
            half *= np.sqrt(_TAILS / generator.chisquare(_TAILS, (number // 2, 1)))
        unit = np.concatenate([half, -half])
        draws = np.zeros((number, size + 1)) + mean
        draws[:, :free] += unit @ root.T
        if size > _MOST_SAMPLED:
            even = np.full(number, 1 / number)
            return _Sampled(target, draws[:, :size], draws[:, size], even, 1.0, law.evidence)
        logs = (_TAILS + free) / 2 * np.log1p(np.sum(unit**2, axis=1) / _TAILS)
        logs += target.log_density(draws[:, :size], draws[:, size]) + np.sum(np.log(np.diag(root)))
        weights = _weights(logs, 0.0 if number == _STAGES[-1] else 0.2)
        mean = weights @ draws
        gaps = draws - mean
        covariance = (gaps * weights[:, None]).T @ gaps
    effective = float(1 / np.sum(weights**2) / number)
    evidence = float(logsumexp(logs)) - math.log(number)
    return _Sampled(target, draws[:, :size], draws[:, size], weights, effective, evidence)


def _weights(logs: FloatArray, least: float) -> FloatArray:
    """Normalised weights, of logs that are flattened until the share ``least`` of them counts."""
    power = 1.0
    while True:
        weights = np.exp(power * (logs - logs.max()))
        weights /= weights.sum()
        if 1 / np.sum(weights**2) >= least * len(logs) or power < 1e-3:
            return np.asarray(weights)
        power *= 0.7


def _records(model: ResponseModel, seen: Sequence[Evidence]) -> float:
    """About how many records there are, where that is private: from the largest entry of the curvature."""
    one = next(one for one in seen if one.curvature is not None)
    assert one.curvature is not None
    top = max(float(np.diag(one.curvature).max()), math.sqrt(one.curvature_variance), 1.0)
    level = model.typical_weight
    if model.curved:
        level = float(model.curve(one.clip).expected(one.point[:1], np.zeros(1))[1, 0, 0])
    return top / level
