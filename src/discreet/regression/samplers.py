"""Three ways to draw from e^{−U}, U(w) = ρ Σ log(1 + e^{−v·w}) + (m/2)‖w‖², over signed rows v = y·x.

Each returns an array of shape (draws, d). They return nothing else: acceptance rates, iterates and counts of
attempts depend on the data and are never reported.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import DiscreetError, NotPrivateError
from discreet.numerics.search import boundary
from discreet.regression.design import DrawDesign
from discreet.regression.doubles import DoubleNoise
from discreet.regression.kernel import hessian, kernel, loss, loss_gradient, mode, one_thread

__all__ = ["draw", "langevin", "on_grid", "proximal", "rejection"]

Advance = Callable[[int], object]

_NOISE = 1 << 19  # normals made at a time: 4 MB
_CELLS = 1 << 21  # entries of rows × candidates at a time
_MOST_CELLS = 1 << 33  # entries without a kept candidate: minutes


def draw(
    made: DrawDesign,
    signed: FloatArray,
    noise: DoubleNoise,
    backend: str = "numpy",
    advance: Advance = lambda steps: None,
) -> FloatArray:
    """``made.draws`` draws with the sampler of the design, rounded to its grid."""
    longest = float(np.einsum("ij,ij->i", signed, signed).max())
    if len(signed) != made.n or longest > float(made.norm_squared) * (1 + 1e-9):
        raise NotPrivateError("the rows are not those of the design: n of them, clipped to its norm bound")
    with one_thread():
        if made.sampler == "langevin":
            drawn = langevin(made, signed, noise, backend, advance)
        elif made.sampler == "rejection":
            drawn = rejection(made, signed, noise)
        else:
            drawn = proximal(made, signed, noise, advance)
    return on_grid(drawn, made)


def on_grid(drawn: FloatArray, made: DrawDesign) -> FloatArray:
    """Rounded to multiples of the public grid."""
    cell = float(made.grid)
    return np.asarray(np.rint(drawn / cell) * cell, dtype=np.float64)


def langevin(
    made: DrawDesign,
    signed: FloatArray,
    noise: DoubleNoise,
    backend: str = "numpy",
    advance: Advance = lambda steps: None,
) -> FloatArray:
    """T full-batch steps w ← w − η∇U(w) + √(2η) ξ from w₀ ~ N(0, I/m): private whatever T is.

    The number of operations and their order are the same for all data.
    """
    rows = kernel(backend, signed)
    size = (made.dimension, made.draws)
    weights = noise.normals(size) / math.sqrt(made.precision)
    block = max(1, min(made.steps, _NOISE // (size[0] * size[1])))
    for start in range(0, made.steps, block):
        number = min(block, made.steps - start)
        normals = noise.normals((number, *size))
        weights = rows.advance(weights, normals, made.weight, made.precision, made.step)
        advance(number)
    return np.asarray(weights.T, dtype=np.float64)


def rejection(made: DrawDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
    """Exact draws: the log-likelihood lies below its tangent at z, so N(−ρ∇L(z)/m, I/m) is an envelope.

    A candidate w is kept with probability exp(−ρ[L(w) − L(z) − ∇L(z)·(w − z)]). Any z is correct; the mode is
    the best. How long it takes depends on the data. On a ball candidates are narrower: see :func:`_narrowed`.
    """
    column = _mode_in_ball(made, signed)[:, None]
    gradient, at_z = loss_gradient(np, signed, column), loss(signed, column)
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


def proximal(
    made: DrawDesign, signed: FloatArray, noise: DoubleNoise, advance: Advance = lambda steps: None
) -> FloatArray:
    """y = x + √η ξ, then x' from exp(−U(x') − ‖x' − y‖²/2η) by tangent rejection, K + 1 times from the mode.

    The inner draw is exact, so the law after K + 1 steps is within ``made.tau`` of the target in total
    variation whatever the data. How long a step takes depends on the data.
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
        advance(1)
    return np.asarray(x.T, dtype=np.float64)


def _inner(
    made: DrawDesign, signed: FloatArray, noise: DoubleNoise, y: FloatArray, inverse: FloatArray, total: float
) -> FloatArray:
    """A column x' ∝ exp(−U(x') − ‖x' − y‖²/2η) for each column y."""
    pull = y / made.step
    z = inverse @ pull
    for _ in range(3):  # a few steps to near the inner mode; any z would be correct
        z = z - inverse @ (made.weight * loss_gradient(np, signed, z) + total * z - pull)
    z = z * np.minimum(1.0, made.radius / np.maximum(np.linalg.norm(z, axis=0), 1e-300))
    gradient, at_z = loss_gradient(np, signed, z), loss(signed, z)
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


def _tolerance(made: DrawDesign) -> float:
    return 1e-9 * math.sqrt(made.precision)


def _mode_in_ball(made: DrawDesign, signed: FloatArray) -> FloatArray:
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
