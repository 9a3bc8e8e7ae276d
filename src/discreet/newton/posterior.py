"""The posterior of the coefficients given the noisy sums of all rounds: everything that is noisy is modelled.

In scaled coefficients. The loss of the records has its minimum at ŵ and curvature H there; w given the records
is N(ŵ, σ²H⁻¹) times the prior (σ² = 1 but for the gaussian model). A round at w_t published
G̃_t = H̄_t(w_t − ŵ) + N(0, s_t²) and H̃_t = H_t + noise. The rounds are combined on ŵ, the sampling part
H⁻¹ is added once. See ``proofs/regression.md`` for what is exact here and what is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from discreet.newton.design import Design
from discreet.newton.models import Model
from discreet.newton.sums import Round, Sums

__all__ = ["Evidence", "Normal", "Posterior", "evidence", "posterior"]

FloatArray = npt.NDArray[np.float64]

_PASSES = 12
_NODES = 21


@dataclass(frozen=True)
class Evidence:
    """A round's released sums in real units: point, gradient, curvature and Σr², with variances of noise."""

    point: FloatArray
    gradient: FloatArray
    gradient_variance: float
    curvature: FloatArray | None
    curvature_variance: float
    square: float
    square_variance: float
    clip: float


@dataclass(frozen=True)
class Normal:
    """A normal law of the scaled coefficients."""

    mean: FloatArray
    covariance: FloatArray


@dataclass(frozen=True)
class Posterior:
    """A mixture of normal laws, over nodes of σ² for the gaussian model and of one law otherwise.

    ``noise_free`` is the covariance that remains if the noise were none: the share of the rest is privacy's.
    """

    weights: FloatArray
    parts: tuple[Normal, ...]
    sigma_squared: FloatArray
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


def evidence(model: Model, design: Design, turn: Round, sums: Sums) -> Evidence:
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
    model: Model, design: Design, prior: Normal, seen: Sequence[Evidence], n: int | None
) -> Posterior:
    """The law of the scaled coefficients given all that was released."""
    size = design.d * model.outputs
    records = float(n) if n is not None else _records(model, seen)
    guess = _guess(model, design) * records
    curvatures, variances = _filtered(model, guess, seen)
    precision = np.linalg.inv(prior.covariance)
    at_prior = precision @ prior.mean
    gaussian = model.squares
    scatter = _spread(seen, records) if gaussian else 1.0
    mean, spread = prior.mean, prior.covariance  # of ŵ − what a round's error is multiplied with
    last = curvatures[-1]
    information = np.zeros((size, size))
    vector = np.zeros(size)
    for _ in range(_PASSES):
        information, vector = np.zeros((size, size)), np.zeros(size)
        for one, own, variance in zip(seen, curvatures, variances, strict=True):
            gap = mean - one.point
            second = spread + np.outer(gap, gap)
            between = (own + last) / 2
            error = one.gradient_variance * np.eye(size) + variance * second
            error[np.diag_indices(size)] += variance @ np.diag(second) - np.diag(variance * second)
            turned = (own - last) @ gap / 4
            error = error + np.outer(turned, turned)
            solved = np.linalg.solve(error, between)
            information += between @ solved
            vector += solved.T @ (between @ one.point - one.gradient)
        part = _one(information, vector, last / scatter, precision, at_prior)
        mean, spread = part.mean, part.covariance
        if gaussian:
            scatter = _scatter(seen, last, mean, spread, records, size)[0]
    nodes, weights = np.array([1.0]), np.array([1.0])
    if gaussian:
        nodes, weights = _nodes(*_scatter(seen, last, mean, spread, records, size), records, size)
    parts = tuple(_one(information, vector, last / node, precision, at_prior) for node in nodes)
    free = np.linalg.inv(last / float(weights @ nodes) + precision)
    return Posterior(weights, parts, nodes, last, free, records)


def _one(
    information: FloatArray, vector: FloatArray, curvature: FloatArray, precision: FloatArray, at_prior: FloatArray
) -> Normal:
    """ŵ has precision P and Pŵ = b; w given ŵ has precision H: together P(P+H)⁻¹H and H(P+H)⁻¹b."""
    solved = np.linalg.solve(information + curvature, np.column_stack([curvature, vector]))
    whole = information @ solved[:, :-1]
    whole = (whole + whole.T) / 2 + precision
    covariance = np.linalg.inv(whole)
    return Normal(covariance @ (curvature @ solved[:, -1] + at_prior), (covariance + covariance.T) / 2)


def _guess(model: Model, design: Design) -> FloatArray:
    """The curvature per record, were the records spread evenly over what is declared."""
    moments = design.second_moments
    if model.outputs == 1:
        return moments * model.typical_weight()
    share = 1 / (model.outputs + 1)
    return np.kron(share * np.eye(model.outputs) - share**2, moments)


def _records(model: Model, seen: Sequence[Evidence]) -> float:
    """About how many records there are, where that is not public: from the largest entry of the curvature."""
    found = [one for one in seen if one.curvature is not None]
    top = max(float(np.diag(one.curvature).max()) for one in found)  # type: ignore[arg-type]
    return max(top, math.sqrt(found[-1].curvature_variance), 1.0) / model.typical_weight()


def _filtered(
    model: Model, guess: FloatArray, seen: Sequence[Evidence]
) -> tuple[list[FloatArray], list[FloatArray]]:
    """Curvature at each round given all rounds up to it, entry by entry, with the variances that remain.

    It starts from the guess, as uncertain as it is large, and may change between rounds as much as the
    predictors moved.
    """
    diagonal = np.sqrt(np.diag(guess))
    loose = np.outer(diagonal, diagonal) ** 2
    mean, variance = guess, loose
    means, variances = [], []
    place: FloatArray | None = None
    for one in seen:
        if place is not None and not model.squares:
            moved = one.point - place
            relative = min(1.0, float(moved @ mean @ moved) / float(np.trace(mean)) * len(mean))
            variance = variance + relative * loose / 4
        if one.curvature is not None:
            noise = one.curvature_variance * (np.eye(len(mean)) / 2 + 0.5)
            gain = variance / (variance + noise)
            mean = mean + gain * (one.curvature - mean)
            variance = variance * (1 - gain)
        place = one.point
        means.append(_positive(mean, variance))
        variances.append(variance)
    return means, variances


def _positive(matrix: FloatArray, variance: FloatArray) -> FloatArray:
    """The nearest matrix whose eigenvalues are not below a part of the noise of one entry."""
    values, vectors = np.linalg.eigh(matrix)
    floor = max(0.2 * math.sqrt(float(variance.mean())), 1e-9 * float(values[-1]), 1e-12)
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T)


def _spread(seen: Sequence[Evidence], records: float) -> float:
    return max(seen[-1].square, math.sqrt(seen[-1].square_variance), 1e-9) / records


def _scatter(
    seen: Sequence[Evidence], curvature: FloatArray, mean: FloatArray, spread: FloatArray, records: float, size: int
) -> tuple[float, float]:
    """σ² as far as the sums of squared residuals tell: estimate, and variance of its noise."""
    total = weight = 0.0
    for one in seen:
        gap = one.point - mean
        misfit = float(gap @ curvature @ gap) + float(np.sum(curvature * spread))
        known = one.square_variance + 2 * float(np.sum((curvature @ spread) ** 2))
        known += 4 * float(gap @ curvature @ spread @ curvature @ gap)
        total += (one.square - misfit) / known
        weight += 1 / known
    freedom = max(records - size, 1.0)
    value, variance = total / weight / freedom, 1 / weight / freedom**2
    return max(value, 0.1 * math.sqrt(variance), 1e-8), variance


def _nodes(value: float, variance: float, records: float, size: int) -> tuple[FloatArray, FloatArray]:
    """Nodes of σ² on a logarithmic scale, with weights: p(σ²) ∝ 1/σ², times the normal law of its estimate."""
    freedom = max(records - size, 1.0)
    wide = math.sqrt(variance / value**2 + 2 / freedom)
    logs = np.log(value) + np.linspace(-5, 5, _NODES) * min(wide, 1.0)
    nodes = np.exp(logs)
    total = variance + 2 * nodes**2 / freedom
    score = -((value - nodes) ** 2) / (2 * total) - 0.5 * np.log(total)
    weights = np.exp(score - score.max())
    return nodes, weights / weights.sum()
