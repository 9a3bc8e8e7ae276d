"""The posterior of the coefficients given the noisy sums of all rounds: everything that is noisy is modelled.

In scaled coefficients. The loss of the records has its minimum at ŵ and curvature H there; w given the
records is N(ŵ, σ²H⁻¹) times the prior (σ² = 1 but for the gaussian model). A round at w_t published G̃_t =
H̄_t(w_t − ŵ) + N(0, s_t²) and H̃_t = H_t + noise. The rounds are combined on ŵ, the sampling part H⁻¹ is
added once. See ``proofs/regression.md`` for what is exact here and what is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr, ndtri

from discreet._typing import FloatArray
from discreet.regression.newton.design import Design
from discreet.regression.newton.models import ResponseModel
from discreet.regression.newton.sums import Round, RoundSums

__all__ = ["CoefficientPrior", "Evidence", "NormalLaw", "Posterior", "evidence", "posterior", "unseen"]


_PASSES = 16
_THREE = tuple((t / 2 + 0.5, u / 2) for t, u in zip(*np.polynomial.legendre.leggauss(3), strict=True))
_NODES = 21
_DEVIATION = {"gaussian": 2.0, "binomial": 5.0, "multinomial": 5.0, "poisson": 3.0}
"""Of a scaled coefficient where no prior is declared: half the declared range moves the predictor so much."""


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


@dataclass(frozen=True)
class NormalLaw:
    """A normal law of the scaled coefficients."""

    mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True)
class CoefficientPrior(NormalLaw):
    """What is declared of the coefficients, as a normal law; ``scales`` are factors of its deviations.

    With several factors the scale of the coefficients, all but that of constant columns (``fixed``), is
    unknown too, each factor as likely as the others, and is learned from what is released.
    """

    scales: tuple[float, ...] = (1.0,)
    fixed: tuple[int, ...] = ()

    @classmethod
    def weak(cls, design: Design, model: ResponseModel) -> CoefficientPrior:
        """Where nothing is declared: normal with a common scale, which is learned."""
        length = design.norm / design.unit
        wide = _DEVIATION[model.family] * max(1.0, math.sqrt(design.d) / length)
        size = design.d * model.outputs
        fixed = tuple(at for at in range(size) if not design.columns[at % design.d].factors)
        scales = (1.0, 1 / 3, 1 / 9) if design.d > 1 else (1.0,)
        return cls(np.zeros(size), np.eye(size) * wide**2, scales, fixed)

    def precisions(self) -> list[FloatArray]:
        """The inverse covariance at each scale."""
        inverse = np.linalg.inv(self.covariance)
        found: list[FloatArray] = []
        for scale in self.scales:
            factor = np.full(len(self.mean), 1 / scale)
            factor[list(self.fixed)] = 1.0
            found.append(np.asarray(inverse * np.outer(factor, factor), dtype=np.float64))
        return found


@dataclass(frozen=True)
class Posterior:
    """A mixture of normal laws, over nodes of σ² for the gaussian model and of one law otherwise.

    ``noise_free`` is the covariance that remains if the noise were none: the share of the rest is privacy's.
    """

    weights: FloatArray
    parts: tuple[NormalLaw, ...]
    sigma_squared: FloatArray
    sigma_weights: FloatArray
    curvature: FloatArray
    noise_free: FloatArray
    records: float

    @property
    def mean(self) -> FloatArray:
        return np.asarray(sum(p * part.mean for p, part in zip(self.weights, self.parts, strict=True)))

    @property
    def covariance(self) -> FloatArray:
        mean = self.mean
        whole = np.zeros_like(self.parts[0].covariance)
        for weight, part in zip(self.weights, self.parts, strict=True):
            gap = part.mean - mean
            whole += weight * (part.covariance + np.outer(gap, gap))
        return whole

    def mapped(self, mixing: FloatArray, offset: FloatArray) -> Posterior:
        """The law of mixing @ w + offset; what is said of the records stays."""
        parts = tuple(
            NormalLaw(mixing @ part.mean + offset, mixing @ part.covariance @ mixing.T) for part in self.parts
        )
        return replace(self, parts=parts, noise_free=mixing @ self.noise_free @ mixing.T)

    def std(self) -> FloatArray:
        """Standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    def interval(self, level: float) -> tuple[FloatArray, FloatArray]:
        """Central intervals: the lower and the upper ends."""
        means = np.array([part.mean for part in self.parts])
        spreads = np.array([np.sqrt(np.diag(part.covariance)) for part in self.parts])
        low, high = (
            np.array(
                [mixture_quantile(self.weights, means[:, j], spreads[:, j], p) for j in range(means.shape[1])]
            )
            for p in ((1 - level) / 2, (1 + level) / 2)
        )
        return low, high


def mixture_quantile(weights: FloatArray, means: FloatArray, spreads: FloatArray, level: float) -> float:
    """The quantile of a mixture of normal laws."""
    if len(weights) == 1:
        return float(means[0] + spreads[0] * ndtri(level))
    ends = means + spreads * ndtri(level)
    low, high = float(ends.min()), float(ends.max())
    if high - low < 1e-12 * (abs(low) + float(spreads.max())):
        return low
    return float(brentq(lambda x: float(weights @ ndtr((x - means) / spreads)) - level, low, high))


def evidence(model: ResponseModel, design: Design, turn: Round, sums: RoundSums) -> Evidence:
    """What a round released, in real units."""
    size = design.d * model.outputs
    one = float(design.unit * 2**model.residual_bits)
    two = float(design.unit**2 * 2**model.weight_bits)
    four = float(4**model.residual_bits)
    matrix = None
    if turn.noise.curvature is not None:
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = np.array(sums.curvature, dtype=np.float64) / two
        matrix = matrix + np.triu(matrix, 1).T
    noise = turn.noise
    return Evidence(
        model.at(turn.link),
        np.array(sums.gradient, dtype=np.float64) / one,
        float(noise.gradient) / one**2,
        matrix,
        0.0 if noise.curvature is None else float(noise.curvature) / two**2,
        sums.square / four,
        0.0 if noise.square is None else float(noise.square) / four**2,
        turn.link.clip / 2**model.residual_bits,
    )


def posterior(
    model: ResponseModel, design: Design, prior: CoefficientPrior, seen: Sequence[Evidence], n: int | None
) -> Posterior:
    """The law of the scaled coefficients given all that was released."""
    records = float(n) if n is not None else _records(model, seen)
    carried, variance = _filtered(model, design, seen, records)
    found = [
        _solved(model, seen, carried, records, variance, precision, prior.mean)
        for precision in prior.precisions()
    ]
    chances = _softmax(np.array([one.score for one in found]))
    parts, shares = [], []
    for one, chance in zip(found, chances, strict=True):
        for node, weight in zip(one.nodes, one.weights, strict=True):
            if chance > 1e-3:
                parts.append(_given(one.view, one.curvature, node, one.precision, prior.mean)[1])
                shares.append(weight * chance)
    best = found[int(np.argmax(chances))]
    free = np.asarray(np.linalg.inv(best.curvature / float(best.weights @ best.nodes) + best.precision))
    return Posterior(
        np.array(shares) / sum(shares), tuple(parts), best.nodes, best.weights, best.curvature, free, records
    )


def unseen(prior: CoefficientPrior, point: FloatArray, records: float) -> Posterior:
    """Where no curvature was published: the point that descent reached, no surer than the prior."""
    law = NormalLaw(point, prior.covariance)
    nothing = np.zeros_like(prior.covariance)
    one = np.ones(1)
    return Posterior(one, (law,), one, one, nothing, nothing, records)


@dataclass(frozen=True)
class _Solved:
    """What one scale of the prior makes of the rounds; ``score`` is log p(released | scale) up to a
    constant."""

    view: _View
    curvature: FloatArray
    nodes: FloatArray
    weights: FloatArray
    precision: FloatArray
    score: float


def _solved(
    model: ResponseModel,
    seen: Sequence[Evidence],
    carried: Carried,
    records: float,
    variance: FloatArray,
    precision: FloatArray,
    centre: FloatArray,
) -> _Solved:
    """Errors depend on how far the minimum is from each point, and it on them: a few passes settle both."""
    size = len(centre)
    mean, spread, wide = seen[-1].point, np.zeros((size, size)), np.zeros((size, size))
    sigma, nodes, weights = 1.0, np.array([1.0]), np.array([1.0])
    if model.squares:
        sigma = max(seen[-1].square, math.sqrt(seen[-1].square_variance), 1e-9) / records
    unsure = 0.0
    last = carried.to(mean)
    view = _View(mean, np.zeros(size), last, np.eye(size), np.eye(size), np.zeros(size))
    for _ in range(_PASSES):
        misfits = (
            [_misfit(one, last, mean, wide) for one in seen] if model.squares else [(0.0, 0.0)] * len(seen)
        )
        if model.squares:
            nodes, weights = _scatter(seen, misfits, records, size)
            sigma = float(weights @ nodes)
        total, point, gradient, blurred = 0.0, np.zeros(size), np.zeros(size), 0.0
        for one, (misfit, _) in zip(seen, misfits, strict=True):
            gap = one.point - mean
            bent = (carried.along(one.point, mean, unsure) - last) @ gap  # what a straight line leaves out
            slope, blur = 1.0, 0.0
            if model.squares:
                wide_by = sigma + misfit / records
                slope, moment = clipped_moments(wide_by, one.clip)
                blur = max(moment / slope**2 - wide_by, 0.0)
            precise = 1 / (one.gradient_variance / slope**2 + float(bent @ bent) / size / 16)
            total += precise
            point = point + precise * one.point
            gradient = gradient + precise * (one.gradient / slope - bent)
            blurred += precise * blur
        point, gradient = point / total, gradient / total
        gap = mean - point
        second = spread + np.outer(gap, gap)
        error = variance * second
        error[np.diag_indices(size)] += variance @ np.diag(second) - np.diag(error) + 1 / total
        error += blurred / total * last
        inverse = np.asarray(np.linalg.inv(error), dtype=np.float64)
        left = gradient + last @ gap
        fit = float(left @ inverse @ left + np.sum(inverse * (last @ spread @ last))) / size
        pull = max(0.0, 1 - fit) * (variance @ (1 / np.diag(error)))
        view = _View(point, gradient, last, error, inverse, pull)
        minimum, law = _given(view, last, sigma, precision, centre)
        move = minimum.mean - mean
        if model.curved:  # half a step, and not far at once: predictors move by a quarter at most
            far = math.sqrt(max(float(move @ carried.moments @ move), 0.0))
            move = move / 2 * min(1.0, 0.5 / max(far, 1e-12))
        mean, spread, wide = mean + move, minimum.covariance, law.covariance
        unsure = max(float(np.sum(carried.moments * wide)), 0.0)
        last = carried.to(mean, unsure)
    return _Solved(
        view, view.slope, nodes, weights, precision, _score(view, view.slope / sigma, precision, centre)
    )


@dataclass(frozen=True)
class _View:
    """All rounds as one: G̃ = H(w̄ − ŵ) + error, at the mean of their points by precision.

    With one curvature for all rounds the likelihood of ŵ depends on them through these means only. The
    error grows with the distance from w̄, because the curvature is in error. Where the gradient is nearer
    to what H says than the error allows, the distance is likely less: ``pull`` is the precision of that,
    the slope of −½ log det of the error.
    """

    point: FloatArray
    gradient: FloatArray
    slope: FloatArray
    error: FloatArray
    inverse: FloatArray
    pull: FloatArray


def _given(
    view: _View, curvature: FloatArray, sigma: float, precision: FloatArray, centre: FloatArray
) -> tuple[NormalLaw, NormalLaw]:
    """The laws of the penalised minimum u and of the coefficients w, for one σ² and one prior N(centre, Λ⁻¹).

    G̃ + σ²Λ(w̄ − centre) = (H + σ²Λ)(w̄ − u) + error, u ~ N(centre, Λ⁻¹ − σ²(H + σ²Λ)⁻¹) before it is seen,
    and w given the records is N(u, σ²(H + σ²Λ)⁻¹). With H known this is the same as a prior times a
    likelihood of ŵ; with H in error it matters that u, unlike ŵ, stays where the prior is in directions
    that are not seen.
    """
    size = len(centre)
    gap = view.point - centre
    slope = view.slope + sigma * precision
    solved = view.inverse @ slope
    whole = slope.T @ solved + np.diag(view.pull)
    vector = solved.T @ (view.slope @ gap - view.gradient) + view.pull * gap
    sampling = sigma * np.linalg.inv(curvature + sigma * precision)
    values, vectors = np.linalg.eigh(np.linalg.inv(precision) - sampling)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    covariance = root @ np.linalg.solve(np.eye(size) + root.T @ whole @ root, root.T)
    covariance = (covariance + covariance.T) / 2
    mean = centre + covariance @ vector
    return NormalLaw(mean, covariance), NormalLaw(mean, covariance + sampling)


def _score(view: _View, curvature: FloatArray, precision: FloatArray, centre: FloatArray) -> float:
    """log p(released | prior) up to a constant: ŵ ~ N(centre, S), S = H⁻¹ + Λ⁻¹, and G̃ is normal given ŵ."""
    before = np.linalg.inv(curvature) + np.linalg.inv(precision)
    whole = view.error + view.slope @ before @ view.slope
    left = view.gradient - view.slope @ (view.point - centre)
    return -float(np.linalg.slogdet(whole)[1] + left @ np.linalg.solve(whole, left)) / 2


def _softmax(scores: FloatArray) -> FloatArray:
    chances = np.exp(scores - scores.max())
    return np.asarray(chances / chances.sum())


@dataclass(frozen=True)
class Carried:
    """The curvature at one point, carried to others as if rows were normal with the second moments it shows.

    For x ~ N(m, Σ) and predictors η = x·w, E f(η)xx' = a(Σ + mm') + b(Σw m' + m w'Σ) + c Σww'Σ with a, b, c
    the means of f and its first two derivatives (Stein). What is used is the change between points only.
    """

    model: ResponseModel
    moments: FloatArray
    records: float
    constant: int | None
    """The position of the constant column, whose second moment is public."""

    @classmethod
    def of(
        cls, model: ResponseModel, design: Design, curvature: FloatArray, point: FloatArray, records: float
    ) -> Carried:
        if not model.curved:
            return cls(model, curvature / records, records, design.constant)
        at = design.constant
        moments = design.second_moments
        for _ in range(10):
            level, change = _stein(model, moments, point, at)
            new = _positive((curvature / records - change) / level)
            if at is not None:  # or a small moment would make itself smaller: predictors that vary less
                new = new * (design.second_moments[at, at] / new[at, at])
            moments = (moments + new) / 2
        whole = cls(model, moments, records, at)
        share = float(np.trace(curvature)) / float(np.trace(whole.at(point)))
        return cls(model, moments, records * min(max(share, 0.5), 2.0), at)

    def to(self, point: FloatArray, unsure: float = 0.0) -> FloatArray:
        """The curvature at a point that is known up to a variance ``unsure`` of the predictors."""
        if not self.model.curved:
            return self.moments * self.records
        return _positive(self.at(point, unsure))

    def at(self, point: FloatArray, unsure: float = 0.0) -> FloatArray:
        """The same, perhaps not positive."""
        level, change = _stein(self.model, self.moments, point, self.constant, unsure)
        return self.records * (level * self.moments + change)

    def along(self, start: FloatArray, end: FloatArray, unsure: float) -> FloatArray:
        """The mean of the curvature between a point and one that is known up to ``unsure``."""
        if not self.model.curved:
            return self.to(end)
        found = [u * self.at(start + t * (end - start), t * t * unsure) for t, u in _THREE]
        return np.asarray(sum(found))


def _stein(
    model: ResponseModel, moments: FloatArray, point: FloatArray, constant: int | None, unsure: float = 0.0
) -> tuple[float, FloatArray]:
    """a, and the rest, of the curvature per record at a point; without a constant column rows have mean 0."""
    mean = np.zeros(len(point))
    if constant is not None:
        mean = moments[constant] / math.sqrt(max(moments[constant, constant], 1e-12))
    covariance = moments - np.outer(mean, mean)
    along = covariance @ point
    centre = float(np.clip(mean @ point, -30, 30))
    variance = float(np.clip(point @ along + unsure, 0.0, 100.0))
    level, first, second = model.curving(centre, variance)
    across = np.outer(along, mean)
    return level, first * (across + across.T) + second * np.outer(along, along)


def _guess(model: ResponseModel, design: Design, point: FloatArray) -> FloatArray:
    """The curvature per record, were the records spread evenly over what is declared."""
    moments = design.second_moments
    if model.outputs > 1:
        share = 1 / (model.outputs + 1)
        return np.asarray(np.kron(share * np.eye(model.outputs) - share**2, moments), dtype=np.float64)
    return Carried(model, moments, 1.0, design.constant).to(point)


def _records(model: ResponseModel, seen: Sequence[Evidence]) -> float:
    """About how many records there are, where that is private: from the constant column of the curvature."""
    one = next(one for one in seen if one.curvature is not None)
    assert one.curvature is not None
    top = max(float(np.diag(one.curvature).max()), math.sqrt(one.curvature_variance), 1.0)
    level = model.curving(float(one.point[0]), 0.0)[0] if model.curved else model.typical_weight()
    return top / level


def _filtered(
    model: ResponseModel, design: Design, seen: Sequence[Evidence], records: float
) -> tuple[Carried, FloatArray]:
    """The curvature given all rounds, ready to be carried, and the variances of its entries.

    It starts from the guess, with an uncertainty that the first curvature tells (empirical Bayes), is
    carried from point to point, and may change on the way a tenth as much as the predictors moved.
    """
    variance: FloatArray | None = None
    place = seen[0].point
    for one in seen:
        noise = one.curvature_variance * (np.eye(len(place)) + 1) / 2
        if variance is None and one.curvature is not None:
            place = one.point
            mean, variance = _shrinkage(records * _guess(model, design, place), one.curvature, noise)
        if variance is None:
            place = one.point
            continue
        moved = one.point - place
        if model.curved and moved.any():
            relative = min(1.0, float(moved @ mean @ moved) / float(np.trace(mean)) * len(mean))
            before = float(np.trace(mean))
            mean = Carried.of(model, design, mean, place, records).to(one.point)
            change = float(np.trace(mean)) / before
            variance = variance * change**2 + relative * np.outer(np.diag(mean), np.diag(mean)) / 100
        if one.curvature is not None:
            gain = variance / (variance + noise)
            mean = mean + gain * (one.curvature - mean)
            variance = variance * (1 - gain)
        place = one.point
    if variance is None:  # no round had a curvature: the guess, as uncertain as it is large
        mean = records * _guess(model, design, place)
        variance = np.outer(np.diag(mean), np.diag(mean)) / 4
    mean = _positive(mean, variance)
    return Carried.of(model, design, mean, place, records), variance


def _shrinkage(guess: FloatArray, found: FloatArray, noise: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A normal law for the entries before they are seen: centre and variances, from how they scatter.

    Diagonal entries are about the guess times a common factor; others about the guess's correlation. How far
    they are off is estimated from all entries together, with an allowance for that estimate's own error.
    """
    size = len(guess)
    ratio, ratio_noise = np.diag(found) / np.diag(guess), np.diag(noise) / np.diag(guess) ** 2
    factor = float(np.clip(np.sum(ratio / (1 + ratio_noise)) / np.sum(1 / (1 + ratio_noise)), 0.05, 4.0))
    spread = _excess(ratio - factor, ratio_noise, 0.5 * factor**2, 2.0)
    diagonal = np.diag(guess) * factor
    scale = np.sqrt(np.outer(diagonal, diagonal))
    centre = guess * factor
    upper = np.triu_indices(size, 1)
    variance = np.zeros_like(guess)
    if size > 1:
        off = ((found - centre) / scale)[upper]
        apart = _excess(off, (noise / scale**2)[upper], 0.1, 4.0)
        variance[upper] = (apart * scale**2)[upper]
        variance += variance.T
    variance[np.diag_indices(size)] = spread * np.diag(guess) ** 2
    return centre, variance


def _excess(values: FloatArray, noise: FloatArray, first: float, weight: float) -> float:
    """Variance of values beyond their noise, shrunk to a first guess that counts as ``weight`` of them."""
    total = float(np.sum((values**2 - noise) / (1 + noise / first) ** 2))
    number = float(np.sum(1 / (1 + noise / first) ** 2))
    return max((total + weight * first) / (number + weight), 0.02 * first)


def _positive(matrix: Any, variance: FloatArray | None = None) -> FloatArray:
    """The nearest matrix whose eigenvalues are not below a part of the noise of one entry."""
    values, vectors = np.linalg.eigh(matrix)
    noise = 0.0 if variance is None else 0.2 * math.sqrt(float(variance.mean()))
    floor = max(noise, 1e-3 * float(np.abs(values).mean()), 1e-12)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def clipped_moments(variance: float, clip: float) -> tuple[float, float]:
    """P(|r| < clip) and E min(r², clip²) of a normal r: the slope of E clip(r), and its second moment."""
    k = clip / math.sqrt(variance)
    inside = math.erf(k / math.sqrt(2))
    density = math.exp(-k * k / 2) / math.sqrt(2 * math.pi)
    return inside, variance * (inside - 2 * k * density + k * k * (1 - inside))


def _misfit(
    one: Evidence, curvature: FloatArray, mean: FloatArray, spread: FloatArray
) -> tuple[float, float]:
    """Mean and variance of (w_t − ŵ)'H(w_t − ŵ)."""
    gap = one.point - mean
    reach = curvature @ spread
    size = float(gap @ curvature @ gap + np.trace(reach))
    return max(size, 0.0), float(2 * np.sum(reach * reach.T) + 4 * gap @ curvature @ spread @ curvature @ gap)


def _scatter(
    seen: Sequence[Evidence], misfits: Sequence[tuple[float, float]], records: float, size: int
) -> tuple[FloatArray, FloatArray]:
    """Nodes of σ² with weights, p(σ²) ∝ 1/σ² before: from the noisy sums of squared, clipped residuals.

    The records' own part of these sums is the same in every round: a common variance 2nσ⁴.
    """
    top = 1.5 * max(one.square + 4 * math.sqrt(one.square_variance + 1) for one in seen) / records
    logs = np.linspace(math.log(1e-7), math.log(max(top, 1e-6)), 400)
    freedom = max(records - size, 1.0)
    score = np.zeros(len(logs))
    for at, node in enumerate(np.exp(logs)):
        total = precision = 0.0
        for one, (misfit, unsure) in zip(seen, misfits, strict=True):
            _, moment = clipped_moments(node + misfit / records, one.clip)
            known = one.square_variance + unsure
            total += (one.square - freedom * moment) / known
            precision += 1 / known
        spread = 1 / precision + 2 * freedom * node**2
        score[at] = -((total / precision) ** 2) / (2 * spread) - 0.5 * math.log(spread)
    chance = np.exp(score - score.max())
    cumulative = np.cumsum(chance) / chance.sum()
    levels = (np.arange(_NODES) + 0.5) / _NODES
    nodes = np.exp(np.interp(levels, cumulative, logs))
    return nodes, np.full(_NODES, 1 / _NODES)
