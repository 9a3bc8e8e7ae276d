"""Two ways to draw from e^{−U} itself, U(w) = ρ Σ log(1 + e^{−v·w}) + (m/2)‖w‖², over signed rows v = y·x.

An exact draw is μ-GDP with μ² = Δ²/m (Gopi, Lee and Liu 2022), and so is ŵ + N(0, I/m) for the minimiser ŵ; a
distribution within τ of it in total variation adds (1 + e^ε)τ to δ(ε). The package itself takes noisy
gradient steps (:mod:`discreet.regression._chain`), whose running time is the same for all data. These return
draws and nothing else: acceptance rates, iterates and counts of attempts depend on the data and are never
reported.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet._declarations import as_positive
from discreet._numerics.enclosures import round_up
from discreet._numerics.search import boundary
from discreet.errors import DiscreetError, InvalidInputError, NotPrivateError
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Curve, Gaussian, Target, largest_gaussian
from discreet.regression._chain import (
    FLOATS,
    DrawDesign,
    acceptance_floor,
    check_length,
    checked_target,
    guarantee_of,
    least_delta,
    loss_gradient,
    one_thread,
    scalings,
)
from discreet.regression._doubles import DoubleNoise
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.logistic.modes import hessian, loss, mode

__all__ = ["ExactDesign", "draw", "exact_design"]

EXACT_NOISE = (
    "the noise is exact, rounded to a declared grid; the minimiser is computed in double precision, and what "
    "rounding can move it is bounded and paid for (proofs/logistic.md)"
)
_HOPELESS = 1e-14  # such a floor of the acceptance says that rejection may take for ever
_TAU_SHARE = 1000  # the total variation of the proximal sampler takes this part of δ
_CELLS = 1 << 21  # entries of rows × candidates at a time
_MOST_CELLS = 1 << 33  # entries without a kept candidate: minutes


@dataclass(frozen=True)
class ExactDesign(DrawDesign):
    """A design whose distribution is that of the posterior, within τ, perhaps on a ball."""

    tau: Fraction = Fraction(0)
    radius: float = math.inf


def exact_design(
    *,
    method: str,
    sampler: str,
    n: int,
    dimension: int,
    norm_squared: Fraction,
    prior_precision: float,
    epsilon: Any,
    delta: Any = None,
    order: float | None = None,
    draws: int = 1,
    models: int = 1,
    assumptions: tuple[str, ...] = (),
) -> ExactDesign:
    """``sampler``: ``"rejection"``, ``"proximal"``, or ``"output perturbation"``, which has the same μ."""
    target = checked_target(epsilon, delta, order, n)
    count = as_positive(draws, "draws") * models
    if sampler != "output perturbation" and target.order is None:
        least_delta(target.delta)
    usable, variation = shares(target, sampler)
    weight, precision = scalings(method, target, usable / count, norm_squared, prior_precision)
    whole = 4 * Fraction(weight) ** 2 * norm_squared / Fraction(precision)
    step, length, tau, assumed = 0.0, 0, Fraction(0), FLOATS
    curve: Curve = Gaussian(count * whole)
    if sampler == "output perturbation":
        basis, assumed = "output perturbation of the posterior mode (proofs/logistic.md)", EXACT_NOISE
    elif sampler == "rejection":
        warn_of_waiting(weight, precision, n, dimension, norm_squared)
        basis = "exact posterior draw (Gopi, Lee and Liu 2022; proofs/logistic.md)"
    else:
        step = proximal_step(weight, n, norm_squared)
        length, tau = proximal_length(dimension, precision, step, variation / count)
        check_length(length, weight, precision)
        basis = "proximal sampler with a certified total variation (proofs/logistic.md)"
        curve = Inexact(curve, count * tau)
    return ExactDesign(
        method=method,
        sampler=sampler,
        n=n,
        dimension=dimension,
        norm_squared=norm_squared,
        precision=precision,
        weight=weight,
        draws=draws,
        models=models,
        guarantee=guarantee_of(target, curve, basis, (*assumptions, assumed)),
        target=target,
        step=step,
        steps=length,
        tau=tau,
    )


def shares(target: Target, sampler: str) -> tuple[Fraction, Fraction]:
    """(μ², τ) that all draws together may have: the proximal sampler keeps a part of δ for its τ."""
    if sampler != "proximal":
        return target.mu_squared, Fraction(0)
    if target.order is not None:
        raise InvalidInputError(
            "sampler='proximal' has a total variation error and so no Rényi guarantee: give delta "
            "instead of order, or take sampler='langevin'"
        )
    near = target.delta / _TAU_SHARE
    return largest_gaussian(target.epsilon, target.delta - near), allowed_variation(target.epsilon, near)


def warn_of_waiting(weight: float, precision: float, n: int, dimension: int, norm_squared: Fraction) -> None:
    """A warning when public sizes let rejection, which was asked for, keep next to none of its candidates."""
    floor = acceptance_floor(weight, precision, n, dimension, norm_squared)
    if floor < _HOPELESS:
        warnings.warn(
            f"sampler='rejection' may take very long: with {n} records and {dimension} coefficients all that "
            f"is certain is that {floor:.1g} of its candidates are kept. It gives up at last; 'langevin' "
            "takes the same time for all data",
            RuntimeWarning,
            stacklevel=2,
        )


def proximal_step(weight: float, n: int, norm_squared: Fraction) -> float:
    """η with 1/η = ρnc²/4: the inner rejection then accepts with probability e^{−1/2} or more."""
    return 4 / (weight * n * float(norm_squared))


def allowed_variation(epsilon: Fraction, delta: Fraction) -> Fraction:
    """τ with (1 + e^ε)τ ≤ ``delta``."""
    if epsilon > 300:
        raise InvalidInputError(
            f"epsilon={float(epsilon):g} is beyond the proximal sampler, whose error costs e^epsilon; use "
            "another sampler"
        )
    return delta / (1 + round_up(math.exp(float(epsilon)) * (1 + 1e-12)))


def proximal_length(
    dimension: int, precision: float, step: float, tau: Fraction, distance: float | None = None
) -> tuple[int, Fraction]:
    """(K + 1, τ): steps after which the total variation is at most ½ W/√η (1 + mη)^{−K} = τ ≤ ``tau``.

    W bounds the distance (in W₂) of the start from the target distribution: √(d/m) from the mode, if not
    given. A hundredth is added for a mode that is found to rounding.
    """
    start = math.sqrt(dimension / precision) if distance is None else distance
    rate = math.log1p(precision * step)
    front = math.log(0.505 * start / math.sqrt(step))
    length = max(0, math.ceil((front - math.log(tau)) / rate * (1 + 1e-12))) + 1
    return length + 1, round_up(math.exp(front - length * rate) * (1 + 1e-9))


def draw(made: ExactDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
    """``made.draws`` draws with the sampler of the design, rounded to its grid."""
    longest = float(np.einsum("ij,ij->i", signed, signed).max())
    if len(signed) != made.n or longest > float(made.norm_squared) * (1 + 1e-9):
        raise NotPrivateError("rows must be the n rows of the design, clipped to its norm bound")
    with one_thread():
        drawn = (rejection if made.sampler == "rejection" else proximal)(made, signed, noise)
    return made.on_grid(drawn)


def rejection(made: ExactDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
    """Exact draws: the log-likelihood lies below its tangent at z, so N(−ρ∇L(z)/m, I/m) is an envelope.

    A candidate w is kept with probability exp(−ρ[L(w) − L(z) − ∇L(z)·(w − z)]). Any z is correct; the mode is
    the best. How long it takes depends on the data. On a ball candidates are narrower: see :func:`_narrowed`.
    """
    column = _mode_in_ball(made, signed)[:, None]
    gradient, at_z = loss_gradient(signed, column), loss(signed, column)
    push = -made.weight * gradient
    narrow = _narrowed(push, made.precision, made.radius)
    batch = max(1, min(4 * made.draws + 64, _CELLS // len(signed)))
    kept: list[FloatArray] = []
    found = 0
    vain = 0
    while found < made.draws:
        vain = _counted(vain, batch, signed)
        w = push / narrow + noise.normals((made.dimension, batch)) / np.sqrt(narrow)
        above_tangent = loss(signed, w) - at_z - gradient[:, 0] @ (w - column)
        accepted = np.log(noise.uniforms((batch,))) <= -made.weight * above_tangent + _in_ball(
            w, narrow - made.precision, made.radius
        )
        kept.append(w[:, accepted].T)
        found += int(accepted.sum())
        vain = 0 if accepted.any() else vain
    return np.concatenate(kept)[: made.draws]


def proximal(made: ExactDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
    """y = x + √η ξ, then x' from exp(−U(x') − ‖x' − y‖²/2η) by tangent rejection, K + 1 times from the mode.

    The inner draw is exact, so the distribution after K + 1 steps is within ``made.tau`` of the target in
    total variation whatever the data. How long a step takes depends on the data.
    """
    start, size = mode(signed, made.weight, made.precision, _tolerance(made))
    if size > 1e-3 * math.sqrt(made.precision * made.dimension):
        raise DiscreetError("the mode of the posterior was not found; scale the rows, or use 'langevin'")
    length = float(np.linalg.norm(start))
    if length > made.radius:
        start *= made.radius / length
    total = made.precision + 1 / made.step
    inverse = np.asarray(np.linalg.inv(hessian(signed, start, made.weight, total)), dtype=np.float64)
    x = np.repeat(start[:, None], made.draws, axis=1)
    for _ in range(made.steps):
        y = x + math.sqrt(made.step) * noise.normals(x.shape)
        x = _inner(made, signed, noise, y, inverse, total)
    return np.asarray(x.T, dtype=np.float64)


def _inner(
    made: ExactDesign,
    signed: FloatArray,
    noise: DoubleNoise,
    y: FloatArray,
    inverse: FloatArray,
    total: float,
) -> FloatArray:
    """A column x' ∝ exp(−U(x') − ‖x' − y‖²/2η) for each column y."""
    pull = y / made.step
    z = inverse @ pull
    for _ in range(3):  # a few steps to near the inner mode; any z would be correct
        z = z - inverse @ (made.weight * loss_gradient(signed, z) + total * z - pull)
    z = z * np.minimum(1.0, made.radius / np.maximum(np.linalg.norm(z, axis=0), 1e-300))
    gradient, at_z = loss_gradient(signed, z), loss(signed, z)
    push = pull - made.weight * gradient
    narrow = _narrowed(push, total, made.radius)
    result = np.empty_like(y)
    waiting = np.arange(y.shape[1])
    tries, vain = 1, 0
    while waiting.size:
        vain = _counted(vain, tries * waiting.size, signed)
        tries = max(1, min(2 * tries, _CELLS // (len(signed) * waiting.size)))
        columns = np.repeat(waiting, tries)
        w = push[:, columns] / narrow[columns]
        w += noise.normals(w.shape) / np.sqrt(narrow[columns])
        tangent = np.einsum("ij,ij->j", gradient[:, columns], w - z[:, columns])
        above_tangent = loss(signed, w) - at_z[columns] - tangent
        accepted = np.log(noise.uniforms((columns.size,))) <= -made.weight * above_tangent + _in_ball(
            w, narrow[columns] - total, made.radius
        )
        by_column = accepted.reshape(waiting.size, tries)
        done = by_column.any(axis=1)
        first = np.flatnonzero(done) * tries + by_column[done].argmax(axis=1)
        result[:, waiting[done]] = w[:, first]
        vain = 0 if done.any() else vain
        waiting = waiting[~done]
    return result


def _narrowed(push: FloatArray, precision: float, radius: float) -> FloatArray:
    """κ ≥ m, for each column h of ``push``, such that N(h/κ, I/κ) lies about within the ball.

    e^{h·w − m‖w‖²/2} ≤ e^{h·w − κ‖w‖²/2} · e^{(κ−m)R²/2} for ‖w‖ ≤ R. The κ that makes E‖w‖² = R² keeps a
    share of about 1/(R√κ), where candidates of precision m would next to never fall into a ball that is
    small, or that the data point out of.
    """
    if radius == math.inf:
        return np.full(push.shape[1], precision)
    d, length = len(push), np.linalg.norm(push, axis=0)
    narrow = (d + np.hypot(d, 2 * radius * length)) / (2 * radius**2)
    return np.asarray(np.maximum(precision, narrow), dtype=np.float64)


def _in_ball(w: FloatArray, more: FloatArray, radius: float) -> FloatArray | float:
    """What :func:`_narrowed` gave away, as a logarithm: −(κ − m)(R² − ‖w‖²)/2 in the ball, −∞ outside."""
    if radius == math.inf:
        return 0.0
    length = np.linalg.norm(w, axis=0)
    inside = -more * (radius - length) * (radius + length) / 2
    return np.where(length <= radius, inside, -math.inf)


def _tolerance(made: ExactDesign) -> float:
    return 1e-9 * math.sqrt(made.precision)


def _mode_in_ball(made: ExactDesign, signed: FloatArray) -> FloatArray:
    """Near the minimum of U in the ball: a mode with a larger precision where the mode itself is outside."""
    z, _ = mode(signed, made.weight, made.precision, _tolerance(made))
    length = float(np.linalg.norm(z))
    if length <= made.radius:
        return z
    z = z * (made.radius / length)
    # At precision κ the mode is at most ρnc/κ long: at the upper end it is inside.
    low = math.log(made.precision)
    high = math.log(made.weight * made.n * math.sqrt(made.norm_squared) / made.radius)

    def inside(log_precision: float) -> bool:
        nonlocal z
        found, _ = mode(signed, made.weight, math.exp(log_precision), _tolerance(made))
        if np.linalg.norm(found) > made.radius:
            return False
        z = found
        return True

    boundary(inside, high, low, relative=0.0, steps=12)
    return z


def _counted(vain: int, candidates: int, signed: FloatArray) -> int:
    """Entries of rows × candidates that were looked at in vain; gives up when they are too many."""
    vain += candidates * sum(signed.shape)
    if vain > _MOST_CELLS:
        raise DiscreetError(
            "the sampler kept none of very many candidates and was stopped; use sampler='langevin', or "
            "'proximal' where there is none. That it was stopped depends on the data: do not publish it"
        )
    return vain
