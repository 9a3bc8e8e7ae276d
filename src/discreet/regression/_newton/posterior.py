"""The posterior of the coefficients given the noisy sums of all rounds and the public setting.

:func:`combine_rounds` turns the rounds into one, and :mod:`discreet.regression._newton.curvature` draws
coefficients with the curvature unknown. ``proofs/regression.md`` says what is exact and what is approximate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from discreet._declarations import Relation
from discreet._randomness.gaussian import rounded_gaussians
from discreet._typing import FloatArray
from discreet.regression._newton.coordinates import guess_rows
from discreet.regression._newton.curvature import (
    CurvatureDraws,
    LastRound,
    LatentCurvature,
    NormalComponents,
    clipped_moments,
    symmetric,
)
from discreet.regression._newton.design import WEIGHT_BITS, Design
from discreet.regression._newton.models import Link, ResponseModel
from discreet.regression._newton.sums import Round, RoundSums, noise_for

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

SURVEY_PART = Fraction(1, 20)
"""The part of μ² for the sums of survey weights."""
_LEAST_STEPS, _MOST_STEPS = 10, 200
_BEND = 0.1
"""The fraction of the change of curvature between two rounds that counts as an error in combining them."""
_FARTHEST = 1.5
"""The most that predictors may move from one round to the next, as a root mean square."""
_STRAIGHT, _TURNS = 0.01, 12
"""For :func:`_step`: the part of a linear score that is added, and the number of Newton steps."""
_UNKNOWN = 1e60
"""The variance of a sum without information."""


@dataclass(frozen=True)
class CoefficientPrior:
    """A normal prior of the coefficients; its ``weak`` part is for a response of unit variance."""

    mean: FloatArray
    declared: FloatArray
    """The covariance of coefficients with a declared prior; 0 for others."""
    weak: FloatArray
    """The covariance of coefficients without a declared prior; for Gaussian models, divided by the variance
    of the response."""
    learned: bool = False
    """Whether a common factor of at most 1 on all standard deviations but the intercepts' is estimated."""

    @classmethod
    def wide(cls, design: Design, model: ResponseModel, aim: str = "intervals") -> CoefficientPrior:
        """Return the default prior: independent normal coefficients around 0.

        Their standard deviations are the model's ``deviation`` for a column scaled to [−1, 1], and its
        ``level_deviation`` for a constant. For prediction they are smaller, and a common factor on
        them is estimated. In a Gaussian model for prediction, the standard deviation of the predictors of
        evenly spread records is then at most twice that of the response.
        """
        size, at, predicts = design.d * model.outputs, design.constant, aim == "prediction"
        deviations, level = np.full(size, model.deviation), model.level_deviation
        if predicts and model.normal:
            deviations = 2 / np.sqrt(max(design.d - 1, 1) * np.diag(design.second_moments))
            level = 0.5
        elif predicts:
            deviations = deviations / 4
        if at is not None:
            deviations[at :: design.d] = level
        return cls(np.zeros(size), np.zeros((size, size)), np.diag(deviations**2), predicts)

    def with_declared(
        self, back: FloatArray, offset: FloatArray, pairs: dict[int, tuple[float, float]]
    ) -> CoefficientPrior:
        """Return the prior with declared means and standard deviations of some coefficients.

        ``pairs`` declares them for β = inv(``back``) w + ``offset``.

        Declared coefficients, in the units of the columns, are independent of the others, which keep their
        prior.
        """
        mixing = np.linalg.inv(back)
        mean, weak = mixing @ self.mean + offset, mixing @ self.weak @ mixing.T
        declared = np.zeros_like(weak)
        for j, (centre, deviation) in pairs.items():
            mean[j], declared[j, j] = centre, deviation**2
            weak[j] = weak[:, j] = 0.0
        return CoefficientPrior(back @ (mean - offset), back @ declared @ back.T, back @ weak @ back.T)

    def stretch(self, factors: FloatArray) -> CoefficientPrior:
        """Return the prior with standard deviations multiplied by ``factors`` where nothing is declared."""
        return self if self.declared.any() else replace(self, weak=self.weak * np.outer(factors, factors))

    def covariance(self, variance: float = 1.0) -> FloatArray:
        """Return the prior covariance for a response with this variance."""
        return np.asarray(self.declared + variance * self.weak)


@dataclass(frozen=True)
class PublicSetting:
    """Everything that is public before the data are read: design, model, prior, budget, relation.

    ``n`` is None where the number of records that are used is private: under add-remove, or if some are left
    out.
    """

    design: Design
    model: ResponseModel
    prior: CoefficientPrior
    mu_squared: Fraction
    relation: Relation
    n: int | None
    per_person: int = 1
    declared: int | None = None
    """The number of records, if it was known before the data were read: rows are designed for it."""
    robust: bool = False
    """Whether rounds release the sampling covariance of the score, as errors may have unequal variances."""
    survey: tuple[int, ...] = ()
    """The noisy sums of survey weights, once they are released: see :class:`RoundSums`."""

    @property
    def weighted(self) -> bool:
        """Whether records have survey weights."""
        return self.design.weight is not None

    @property
    def survey_noise(self) -> tuple[Fraction, ...]:
        """The variances of the noise on the sums of survey weights: see ``proofs/weights.md``."""
        steps = 1 << WEIGHT_BITS
        sizes = (1, steps, steps) if self.n is not None else (1, steps, steps, 1)
        least = len(sizes) * Fraction(self.per_person) ** 2 / (self.mu_squared * SURVEY_PART)
        return tuple(math.ceil(least) * Fraction(size) ** 2 for size in sizes)

    @property
    def rounds_squared(self) -> Fraction:
        """The part of μ² that the rounds spend."""
        return self.mu_squared * (1 - SURVEY_PART) if self.weighted else self.mu_squared

    def with_survey(self, exact: Sequence[int], source: Source) -> PublicSetting:
        """Return the setting with noisy sums of the weights."""
        pairs = zip(exact, self.survey_noise, strict=False)  # a public number of records has no noise
        noisy = tuple(value + rounded_gaussians(variance, 1, source)[0] for value, variance in pairs)
        return replace(self, survey=noisy)

    @property
    def weights(self) -> tuple[float, float]:
        """The sum of the weights in units of the largest, and the weighted mean weight."""
        if not self.weighted:
            return float(self.n or 0), 1.0
        steps, survey = float(1 << WEIGHT_BITS), self.survey
        records = float(self.n if self.n is not None else max(survey[3], 1))
        deviation = math.sqrt(self.survey_noise[1]) / steps
        total = min(max(survey[1] / steps, deviation, 1.0), max(records, 1.0))
        return total, min(max(survey[2] / steps / total, total / records), 1.0)

    def steps(self) -> int:
        """The number of steps of accelerated descent, from public numbers: (π/2)·√(nμ), times ½ to 2.

        Directions of curvature above λ converge after about π√(L/λ) steps, where L = n·norm²/4 is the largest
        possible curvature. Below λ = s/τ, where s = 2·norm/μ is the noise of all gradients together and τ the
        standard deviation of a coefficient, noise exceeds the information about a direction, so the descent
        stops there; predictors are assumed to have a standard deviation norm·τ of 2. On simulated columns
        (``steps`` in benchmarks/regression.py) half as many steps are better where nμ/d is below 35, and
        twice as many where it is above 140 and columns are nearly collinear. There are at most 200 steps, so
        that passes do not grow with n: directions that have not converged then have a curvature below L/4000.
        """
        signal = (self.n or 1) * math.sqrt(self.mu_squared) / self.per_person
        share = signal / (70 * self.design.d * self.model.outputs)
        wanted = math.pi / 2 * math.sqrt(signal) * min(max(share, 0.5), 2.0)
        return max(_LEAST_STEPS, min(round(wanted), _MOST_STEPS))

    def cost(self, share: Fraction) -> float:
        """Return the approximate noise variance of a round's gradient, for residuals of at most 1."""
        row = self.per_person * self.design.norm / self.design.unit
        return row**2 * (1 if self.relation is Relation.ADD_REMOVE else 4) / float(share * self.mu_squared)

    def round(self, link: Link, share: Fraction, curved: bool = True) -> Round:
        """Return a round with its noise, for a share of μ²; a step of descent has the gradient alone."""
        part, people = share * self.rounds_squared, self.per_person
        curvature = 0.3 if curved else 0.0
        squares = (0.1 if self.model.normal else 0.02) if curved and self.model.squares else 0.0
        noise = noise_for(self.model, self.design, link, part, self.relation, people, curvature, squares)
        return Round(link, noise, part)


@dataclass(frozen=True)
class Evidence:
    """A round's released sums in real units: point, score, curvature and Σr², with noise variances."""

    point: FloatArray
    score: FloatArray
    variance: float
    curvature: FloatArray | None = None
    curvature_variance: float = 0.0
    square: float = 0.0
    square_variance: float = 0.0
    clip: float = 0.0
    outer: FloatArray | None = None
    outer_variance: float = 0.0
    mixed: FloatArray | None = None
    """The matrix M of which rows Mx were summed, or None for the identity; ``point`` is in the coordinates of
    x."""

    @property
    def mixing(self) -> FloatArray:
        return np.eye(len(self.point)) if self.mixed is None else self.mixed

    @property
    def coordinates(self) -> FloatArray:
        """The inverse of :attr:`mixing`."""
        return np.asarray(np.linalg.inv(self.mixing))


def evidence(setting: PublicSetting, turn: Round, sums: RoundSums) -> Evidence:
    """Return the released sums of a round in real units, with their noise variances."""
    model, design, noise = setting.model, setting.design, turn.noise
    gradient_unit = float(design.unit * 2**model.residual_bits)
    two = float(design.unit**2 * 2**model.weight_bits)
    four = float(4**model.residual_bits)
    outer_unit = float(design.unit**2) * four / 2 ** (turn.link.outer_shift or 0)

    def matrix(entries: Sequence[int], unit: float) -> FloatArray | None:
        values = np.array(entries, dtype=np.float64) / unit
        return symmetric(values, len(sums.gradient)) if entries else None

    return Evidence(
        turn.link.at,
        -np.array(sums.gradient, dtype=np.float64) / gradient_unit,
        float(noise.gradient) / gradient_unit**2,
        matrix(sums.curvature, two),
        float(noise.curvature or 0) / two**2,
        sums.square / four,
        float(noise.square or 0) / four**2,
        model.clip_of(turn.link),
        matrix(sums.outer, outer_unit),
        float(noise.outer or 0) / outer_unit**2,
        turn.link.matrix(len(sums.gradient)),
    )


@dataclass(frozen=True)
class Posterior:
    """Weighted draws of the coefficients, and of the dispersion: σ² of a Gaussian model.

    ``noise_free`` is the covariance that would remain without noise; the rest is due to privacy.
    """

    draws: FloatArray
    weights: FloatArray
    dispersion: FloatArray
    noise_free: FloatArray
    prior: FloatArray
    """The prior covariance."""
    slope: FloatArray = field(default_factory=lambda: np.ones(1))
    """The mean slope of the responses in each draw."""
    records: float = 0.0
    bent: float = 0.0
    """A bound on the bias of the mean from a score that is not linear, in posterior standard deviations: half
    the change of the predictors since the last round, times that of the coefficients in those units."""
    exact: tuple[FloatArray, FloatArray] | None = None
    """Mean and covariance, if they are known more precisely than from draws."""
    components: NormalComponents | None = None
    """The components of the mixture from which draws were made, for a normal prior."""

    @property
    def mean(self) -> FloatArray:
        return np.asarray(self.weights @ self.draws) if self.exact is None else self.exact[0]

    @property
    def covariance(self) -> FloatArray:
        if self.exact is not None:
            return self.exact[1]
        gaps = self.draws - self.mean
        return np.asarray((gaps * self.weights[:, None]).T @ gaps)

    def choose(self, number: int, seed: int | None) -> FloatArray:
        """Choose among the draws by their weights, with replacement."""
        return self.draws[np.random.default_rng(seed).choice(len(self.draws), number, p=self.weights)]

    def std(self) -> FloatArray:
        """The standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Return the lower and upper ends of central intervals."""
        low, high = self.quantiles(self.draws, ((1 - level) / 2, (1 + level) / 2))
        return low, high

    def quantiles(self, values: FloatArray, levels: Sequence[float]) -> tuple[FloatArray, ...]:
        """Return weighted quantiles of columns of values, one value for each draw."""
        order = np.argsort(values, axis=0)
        total = np.cumsum(self.weights[order], axis=0) - self.weights[order] / 2
        ordered = np.take_along_axis(values, order, axis=0)
        columns = range(values.shape[1])
        quantiles = np.array([np.interp(levels, total[:, j], ordered[:, j]) for j in columns])
        return tuple(quantiles.T)

    def transform(self, mixing: FloatArray, offset: FloatArray) -> Posterior:
        """Return the posterior of mixing @ w + offset."""
        draws = self.draws @ mixing.T + offset
        exact = mixing @ self.mean + offset, mixing @ self.covariance @ mixing.T
        free, prior = (mixing @ matrix @ mixing.T for matrix in (self.noise_free, self.prior))
        return replace(self, draws=draws, noise_free=free, prior=prior, exact=exact)

    def move(self, step: FloatArray) -> Posterior:
        """Return the posterior shifted by (I − SΛ⁻¹)·step, with posterior and prior covariances S and Λ."""
        step = step - self.covariance @ np.linalg.solve(self.prior, step)
        parts = self.components and self.components._replace(means=self.components.means + step)
        exact = self.mean + step, self.covariance
        return replace(self, draws=self.draws + step, exact=exact, components=parts)

    def find_undecided(self) -> list[int]:
        """Return the indices of coefficients about which the prior says more than the data.

        The prior's part of the posterior covariance S is SΛ⁻¹S, with Λ the prior covariance. For these
        coefficients it is more than half of the variance.
        """
        covariance = self.covariance
        share = np.einsum("ij,ji->i", covariance, np.linalg.solve(self.prior, covariance))
        return [int(j) for j in np.flatnonzero(share > np.diag(covariance) / 2)]


def unseen(prior: CoefficientPrior, point: FloatArray) -> Posterior:
    """Return a posterior around ``point``, as wide as the prior: descent releases no curvature."""
    covariance = prior.covariance()
    draws = np.random.default_rng(0).normal(size=(1000, len(point)))
    draws = np.concatenate([draws, -draws]) @ np.linalg.cholesky(covariance).T
    even = np.full(len(draws), 1 / len(draws))
    return Posterior(point + draws, even, np.ones(len(draws)), np.zeros_like(covariance), covariance)


@dataclass(frozen=True)
class NormalApproximation:
    """A quick normal approximation of the posterior, from which the next round is designed."""

    mean: FloatArray
    covariance: FloatArray
    curvature: FloatArray
    level: float
    """The sum of the records' weights."""
    records: float
    dispersion: float
    upper_dispersion: float
    spread: FloatArray
    """The second moments of rows, weighted as the curvature is."""

    @property
    def predictor_variance(self) -> float:
        """The posterior variance of the linear predictor, averaged over records."""
        return max(float(np.sum(self.curvature * self.covariance)) / self.level, 0.0)

    @property
    def predictors(self) -> tuple[float, float]:
        """Mean and variance of the predictors over records, weighted as the curvature is."""
        return _predictors(self.curvature, self.level, self.mean)


def _predictors(curvature: FloatArray, level: float, point: FloatArray) -> tuple[float, float]:
    centre = float(curvature[0] @ point) / level
    return centre, max(float(point @ curvature @ point) / level - centre**2, 1e-9)


def latent(setting: PublicSetting, seen: Sequence[Evidence]) -> LatentCurvature:
    """Return the posterior given all rounds, combined into one."""
    known = setting.n is not None or setting.weighted
    records, tilt = setting.weights if known else (_records(setting, seen), 1.0)
    model, prior = setting.model, setting.prior
    variance = 1.0
    if model.normal:
        first = seen[0]
        top = max(first.square, 0.0) + 2 * math.sqrt(first.square_variance)
        variance = min(1.0, top / max(records, 1.0))
    prior = prior.stretch(_stretches(setting, seen[-1]))
    distribution = prior.mean, prior.covariance(variance)
    counted, joint = setting.n is not None, combine_rounds(setting, seen, records)
    return LatentCurvature(
        model, setting.design, joint, distribution, records, counted, prior.learned, seen[-1].mixing, tilt
    )


def _stretches(setting: PublicSetting, last: Evidence) -> FloatArray:
    """Return factors for the prior's standard deviations: those of evenly spread columns over the actual.

    A prior for the effect of a column over its typical range is equally weak for narrow columns. The noise on
    the curvature counts as variation of the column, so that no factor is large by chance.
    """
    at, size = setting.design.constant, len(last.point)
    if at is None or setting.model.outputs > 1:
        return np.ones(size)
    assert last.curvature is not None
    back = last.coordinates
    curvature = back @ last.curvature @ back.T
    noise = math.sqrt(last.curvature_variance) * (back**2).sum(axis=1)
    level = max(float(curvature[at, at]), float(noise[at]), 1.0)
    moments = setting.design.second_moments
    even = np.diag(moments) - moments[at] ** 2
    found = np.diag(curvature) / level - (curvature[at] / level) ** 2
    found = np.maximum(found, 0.0) + noise / level + 1e-6
    return np.asarray(np.sqrt(np.maximum(even / found, 1.0)))


def combine_rounds(setting: PublicSetting, seen: Sequence[Evidence], records: float) -> LastRound:
    """Combine all rounds into one with the curvature of the last.

    A round at w' has the score g'. At the last point w the score would be g' − ĀΔ, where Δ = w − w' and Ā is
    the mean curvature between the two. With Ā = (A' + A)/2, g' − A'Δ/2 is the score at w − Δ/2 of a response
    that is linear with the last curvature A; a Gaussian response is linear, and A' = A. Noise on A' counts as
    noise, and so does a part of the difference of the two curvatures. The mean of such scores, weighted by
    precision, is a score at the mean of their points, and their differences are evidence about A. A first
    round at a constant point determines the score at every constant point.
    """
    model, last, at = setting.model, seen[-1], setting.design.constant
    mixing, back = last.mixing, last.coordinates
    first = len(seen) == 1
    seen = [replace(one, point=back.T @ one.point) for one in seen if np.array_equal(one.mixing, mixing)]
    last = seen[-1]
    if at is None and not model.normal:  # only a constant column tells where predictors lie
        last = replace(last, square_variance=_UNKNOWN if model.squares else 0.0)
    elif first and model.outputs == 1 and not model.normal:
        last = _move_to_mean(setting, last, at or 0, records)
        seen = [last]
    assert last.curvature is not None
    points, scores, errors = [], [], []
    straight = model.normal and last.outer is not None
    curvature, curvature_precision = last.curvature / last.curvature_variance, 1 / last.curvature_variance
    for earlier in seen[:-1]:
        assert earlier.curvature is not None
        if model.normal and last.outer is None:
            points.append(earlier.point)
            scores.append(earlier.score)
            errors.append(earlier.variance)
            curvature = curvature + earlier.curvature / earlier.curvature_variance
            curvature_precision += 1 / earlier.curvature_variance
            continue
        way = last.point - earlier.point
        part = 1.0 if straight else 0.5  # a clipped round is straight by its own curvature
        moved, missed = earlier.curvature @ way * part, (earlier.curvature - last.curvature) @ way
        points.append(last.point - way * (1 - part))
        scores.append(earlier.score - moved)
        size = len(way)
        noise = earlier.curvature_variance * float(way @ way) * part**2 / 2 * (1 + 1 / size)
        errors.append(earlier.variance + noise + _BEND**2 * float(missed @ missed) / size)
    slope = ratio = 1.0
    if model.normal and math.isfinite(last.clip) and last.outer is None:
        summed = records if at is None else min(float(back[at] @ last.curvature @ back[at]), records)
        left = max(last.square, math.sqrt(last.square_variance)) / max(summed, 1.0)
        slope = float(clipped_moments(np.array(left), last.clip)[0])
    elif model.squares and at is not None and last.clip < model.most:
        plain = back @ last.curvature @ back.T
        level = max(float(plain[at, at]), 1.0)
        ratio = model.scatter(last.clip, *_predictors(plain, level, mixing.T @ last.point))
    points, scores = [*points, last.point], [*scores, last.score / slope]
    precisions = 1 / np.array([*errors, last.variance / slope**2])
    shares = precisions / precisions.sum()
    if straight:  # clipped records have no slope: each round has the curvature of its own score
        curvature = sum(share * piece.curvature for share, piece in zip(shares, seen, strict=True))
        curvature_precision = 1 / float(shares**2 @ [piece.curvature_variance for piece in seen])
        curvature = curvature * curvature_precision
    point, score = shares @ np.array(points), shares @ np.array(scores)
    others = [
        (point - round_point, round_score - score, precision)
        for round_point, round_score, precision in zip(points, scores, precisions.tolist(), strict=True)
    ]
    return LastRound(
        point,
        score,
        1 / float(precisions.sum()),
        curvature / curvature_precision,
        1 / curvature_precision,
        last.square,
        last.square_variance,
        last.point,
        last.clip,
        ratio,
        last.outer,
        last.outer_variance,
        tuple(others) if len(seen) > 1 else (),
    )


def _move_to_mean(setting: PublicSetting, first: Evidence, at: int, records: float) -> Evidence:
    """Return a first round moved from its constant point to the intercept that fits the mean response."""
    model = setting.model
    assert first.curvature is not None
    mean, weight = model.at_constant(float(first.point[at]))
    sure = 3 * math.sqrt(first.variance) / records
    predictor, here = model.constant(mean + float(first.score[at]) / records, min(sure, mean / 2), records)
    moved, _ = model.at_constant(predictor)
    sums = first.curvature[at] / weight
    sums[at] = records
    point = first.point.copy()
    point[at] = predictor
    return replace(
        first,
        point=point,
        score=first.score + (mean - moved) * sums,
        variance=first.variance + ((mean - moved) / weight) ** 2 * first.curvature_variance / 2,
        curvature=first.curvature * here / weight,
        curvature_variance=first.curvature_variance * (here / weight) ** 2,
        square_variance=0.0,
    )


def normal_approximation(setting: PublicSetting, seen: Sequence[Evidence]) -> NormalApproximation:
    """Approximate the posterior so far by a normal distribution, to design the next round."""
    joint = latent(setting, seen)
    state, level = joint.estimate()
    vectors, plain = state.vectors[0], joint.mixing
    point = joint.seen.point @ plain
    curvature = joint.unmixed((vectors * state.values[0]) @ vectors.T)
    upper = 1.0
    move, dispersion = plain.T @ vectors @ state.mean[0], float(state.dispersion[0])
    sizes, ways = joint.positive(0.5)
    spread = joint.unmixed((ways * sizes) @ ways.T) / level
    if setting.model.normal:
        upper = min(dispersion * math.exp(2 * joint.log_dispersion[1]), 1.0)
    else:  # a step of Newton's method is good as far as the curvature is, and too far does more harm
        steps = move, _step(setting, seen[-1].mixing, spread, point, move)
        squares = [float(step @ curvature @ step) / level for step in steps]
        move = steps[int(np.argmin(squares))] * min(1.0, _FARTHEST / max(math.sqrt(min(squares)), 1e-6))
        if len(seen) == 1:
            move = move * setting.model.first_step(setting.design, point, move)
    vectors = plain.T @ vectors
    covariance = vectors @ state.covariance[0] @ vectors.T
    return NormalApproximation(
        point + move, covariance, curvature, level, joint.records, dispersion, upper, spread
    )


def posterior(setting: PublicSetting, seen: Sequence[Evidence]) -> Posterior:
    """Return the posterior of the scaled coefficients given all releases, as draws with a fixed seed."""
    joint = latent(setting, seen)
    drawn = joint.sample()
    dispersion = float(drawn.weights @ drawn.dispersion)
    slope = np.ones(len(drawn.level))
    if not setting.model.normal:
        slope = drawn.level / joint.records * _unweighted(setting, seen[-1], drawn)
    chance = joint.seen.ratio * dispersion * drawn.curvature if drawn.outer is None else drawn.outer
    chance = chance + joint.rounding * drawn.curvature
    prior: FloatArray = joint.unmixed(joint.precision)
    precision = drawn.curvature @ np.linalg.solve(chance, drawn.curvature) + prior
    distribution = Posterior(
        drawn.draws,
        drawn.weights,
        drawn.dispersion,
        np.asarray(np.linalg.inv(precision)),
        np.asarray(np.linalg.inv(prior)),
        slope,
        joint.records,
        exact=(drawn.mean, drawn.covariance),
        components=None if joint.learned else drawn.components,
    )
    if setting.model.normal:
        return distribution
    level, at = float(drawn.weights @ drawn.level), setting.design.constant
    if at == 0 and setting.model.outputs == 1:
        distribution = distribution.move(
            -_bend(setting, distribution, drawn.curvature, distribution.mean - seen[-1].point)
        )
    gap = distribution.mean - seen[-1].point
    far = math.sqrt(float(gap @ drawn.curvature @ gap) / level)
    sure = math.sqrt(max(float(gap @ np.linalg.solve(distribution.covariance, gap)), 0.0) / len(gap))
    return replace(distribution, bent=far * sure / 2)


def _unweighted(setting: PublicSetting, last: Evidence, drawn: CurvatureDraws) -> float:
    """Return the ratio of the response's mean slope to the mean in which shortened rows count for less.

    It is 1 unless rows are multiplied by a matrix, and is computed from simulated records.
    """
    model = setting.model
    if np.array_equal(last.mixing, np.eye(len(last.point))):
        return 1.0
    level = float(drawn.weights @ drawn.level)
    rows, shares = _guess(setting, last.mixing, drawn.curvature / level)
    slopes = model.slope(rows @ drawn.mean)
    return float(slopes.mean() / (slopes * shares).mean())


def _guess(setting: PublicSetting, mixing: FloatArray, moments: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return simulated records, and the factors by which their rows are shortened."""
    rows = guess_rows(setting.design, moments)
    lengths = np.einsum("ij,ij->i", rows @ mixing.T, rows @ mixing.T)
    longest = (setting.design.norm / setting.design.unit) ** 2
    return rows, np.minimum(1.0, longest / np.maximum(lengths, 1e-300))


def _step(
    setting: PublicSetting, mixing: FloatArray, moments: FloatArray, point: FloatArray, move: FloatArray
) -> FloatArray:
    """Return the step that changes the score as much as ``move`` would if the score were linear.

    It is computed on simulated records by Newton's method. A hundredth of the linear score is added, so that
    there is a solution whatever the noise.
    """
    design, model = setting.design, setting.model
    if design.constant is None or model.outputs > 1:
        return move
    rows, shares = _guess(setting, mixing, moments)
    start = rows @ point
    mean, weighted = model.mean(start), rows * shares[:, None]
    straight = (weighted * model.slope(start)[:, None]).T @ rows
    some = _STRAIGHT * straight + 1e-9 * np.trace(straight) * np.eye(design.d)
    wanted, step = (straight + some) @ move, move / max(1.0, float(np.abs(rows @ move).max()))
    for _ in range(_TURNS):
        reached = start + rows @ step
        missed = wanted - weighted.T @ (model.mean(reached) - mean) - some @ step
        turn = np.linalg.solve((weighted * model.slope(reached)[:, None]).T @ rows + some, missed)
        step = step + turn / max(1.0, float(np.abs(rows @ turn).max()))
    return np.asarray(step)


def _bend(
    setting: PublicSetting, distribution: Posterior, curvature: FloatArray, gap: FloatArray
) -> FloatArray:
    """Return the second-order error of an intercept when the score is treated as linear.

    Predictors that move by t add v'·t²/2 to a record's part of the score, where v' is the slope of its weight
    v. If t² is unrelated to the columns, this looks as if all predictors had moved by half of v'/v times the
    mean of t².
    """
    level = float(curvature[0, 0])
    centre, _ = _predictors(curvature, level, distribution.mean)
    (_, low), (_, high) = (setting.model.at_constant(centre + step) for step in (-0.5, 0.5))
    first = np.zeros_like(gap)
    first[0] = (high - low) / (high + low) * float(gap @ curvature @ gap) / level
    return first


def _records(setting: PublicSetting, seen: Sequence[Evidence]) -> float:
    """Estimate a private number of records from the largest entry of the curvature."""
    curved = next(curved for curved in seen if curved.curvature is not None)
    assert curved.curvature is not None
    at, model = setting.design.constant, setting.model
    top = float(np.diag(curved.curvature).max() if at is None else curved.curvature[at, at])
    weight = model.typical_weight
    if at is not None and model.outputs == 1:
        weight = model.at_constant(float(curved.point[at]))[1]
    return max(top, math.sqrt(curved.curvature_variance), 1.0) / weight
