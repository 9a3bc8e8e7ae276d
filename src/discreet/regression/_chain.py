"""Draws of logistic coefficients by noisy gradient steps, private whether or not they have converged.

The posterior is e^{−U}, U(w) = ρ Σ ℓ(w; xᵢ, yᵢ) + (m/2)‖w‖², with rows clipped to ‖x‖ ≤ c. A record (x, y)
with y = ±1 enters only as its *signed row* v = y·x: ℓ(w) = log(1 + e^{−v·w}). Replacing one changes ∇U by at
most Δ = 2ρc. Start from w₀ ~ N(0, I/m) and take T steps w ← w − η∇U(w) + √(2η) ξ with η ≤ 2/(m + M), where M
= m + ρnc²/4. For **any** T the result is μ_T-GDP with μ_T² = (Δ²/m)(1 − ηm/2)(1 − k^T)/(1 + k^T) and k = 1 −
ηm (Bok, Su and Altschuler 2024).

``diffused`` lowers ρ, ``concentrated`` raises m, until Δ²/m, the squared loss of a draw from the posterior
itself, meets the target; ``direct`` leaves both unchanged. All of this is decided before the rows are read:
``proofs/logistic.md``.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from discreet._declarations import as_choice, as_float, as_positive
from discreet._numerics.enclosures import above, ball, down, enclose, round_up, up
from discreet._typing import EpsilonLike, FloatArray
from discreet.errors import InvalidInputError, NoiseWarning, NotPrivateError, warn
from discreet.privacy.curves import Curve, Gaussian, Target
from discreet.privacy.guarantee import Guarantee
from discreet.regression._doubles import DoubleNoise

METHODS = ("diffused", "concentrated", "direct")
SAMPLERS = ("auto", "rejection", "langevin")
EXACT_BASIS = "exact posterior draw, rounded to a grid (Gopi, Lee and Liu 2022; proofs/logistic.md)"
CHAIN_BASIS = "noisy gradient steps of any length (Bok, Su and Altschuler 2024; proofs/logistic.md)"
FLOATS = (
    "double-precision arithmetic and Gaussian noise stand for real numbers (proofs/logistic.md); the output "
    "is rounded to a declared grid"
)
_HORIZON = 5  # T·η·m: a start that is off decays to e⁻⁵ along the directions in which the data say nothing
_MOST_STEPS = 500_000
_LEAST_DELTA = Fraction(1, 10**18)  # of noise in doubles: far above what its cut tails can cost
_SOON = 1.0  # second that rejection may take, at the floor of its acceptance, to be chosen
_PATIENT = 600.0  # and to be asked for
_MOST_ENTRIES = 20_000_000  # of rows as numbers of any precision: 1 GB
_NORMALS = 1 << 19  # made at a time: 4 MB
_CACHED = 1 << 17  # numbers of a block of rows: a megabyte, which stays in the cache between its two uses


def checked_target(
    epsilon: EpsilonLike | None, delta: EpsilonLike | None, order: float | None, n: int
) -> Target:
    """Return the privacy target of a regression by draws, after checking it."""
    if epsilon is None or (delta is None) == (order is None):
        raise InvalidInputError(
            f"epsilon={epsilon!r}, delta={delta!r}, order={order!r}: a target is epsilon with delta, "
            "such as epsilon=1, delta=1e-6, or epsilon with order (Rényi privacy), such as order=10"
        )
    return Target.of(epsilon, delta, order, n, "release counts, which can be purely epsilon-private")


@dataclass(frozen=True)
class DrawDesign:
    """The public design: all that the sampler uses besides the rows, and the guarantee of all draws."""

    method: str
    sampler: str
    n: int
    dimension: int
    norm_squared: Fraction
    """c², the largest squared norm of a row, including its constant column."""
    precision: float
    """m, the precision of the prior that is used."""
    weight: float
    """ρ, the weight of one record in the posterior."""
    draws: int
    models: int
    guarantee: Guarantee
    target: Target
    step: float = 0.0
    steps: int = 0
    """The number of gradient steps of each chain; 0 for rejection sampling."""

    @property
    def sensitivity_squared(self) -> Fraction:
        """Δ² = 4ρ²c², the squared bound on how much one record changes the gradient."""
        return 4 * Fraction(self.weight) ** 2 * self.norm_squared

    @property
    def grid(self) -> Fraction:
        """The step of the grid to which coefficients are rounded: a power of two near 2⁻³⁰ of the prior's
        standard deviation.

        Possible values of the noise in double precision are at most 2⁻⁴⁶ standard deviations apart, so each
        grid cell contains many.
        """
        return Fraction(2) ** (math.floor(-math.log2(self.precision) / 2) - 30)

    @property
    def reach(self) -> float:
        """The largest distance of the posterior mode from the prior mean.

        It is ρnc/√m, in prior standard deviations.
        """
        return self.weight * self.n * math.sqrt(self.norm_squared / Fraction(self.precision))

    @property
    def seconds(self) -> float:
        """The expected time of rejection sampling, in seconds, for the slowest possible data."""
        floor = acceptance_floor(self.weight, self.precision, self.n, self.dimension, self.norm_squared)
        rows = self.n / max(1.0, -math.log(max(floor, 1e-300)))  # the others do not matter any more
        candidate = 5e-5 * (1 + self.dimension) + rows * (2e-6 + 6e-8 * self.dimension)
        before = self.n * (4e-6 + 3e-7 * self.dimension)
        return self.models * (self.draws * candidate / max(floor, 1e-300) + before)

    def on_grid(self, drawn: FloatArray) -> FloatArray:
        """Return coefficients rounded to the public grid."""
        cell = float(self.grid)
        return np.asarray(np.rint(drawn / cell) * cell, dtype=np.float64)


def draw_design(
    *,
    method: str,
    n: int,
    dimension: int,
    norm_squared: Fraction,
    prior_precision: float,
    epsilon: EpsilonLike | None,
    delta: EpsilonLike | None = None,
    order: float | None = None,
    draws: int = 1,
    models: int = 1,
    steps: int | None = None,
    sampler: str = "langevin",
    assumptions: tuple[str, ...] = (),
) -> DrawDesign:
    """Return the design under which ``draws`` draws of each of ``models`` models meet the target together.

    μ² is split equally: each draw may have μ²/(draws·models). ρ and m are those of an exact draw, so that
    ``order`` gives ρ = √(εm/(2c²λ)) as in the paper; the chain's μ_T is a little smaller. ``sampler="auto"``
    draws exactly, by rejection, if that is quick for all possible data.
    """
    as_choice(sampler, SAMPLERS, "sampler")
    target = checked_target(epsilon, delta, order, n)
    count = as_positive(draws, "draws") * models
    if target.order is None and sampler != "rejection":
        least_delta(target.delta)
    weight, precision = scalings(method, target, target.mu_squared / count, norm_squared, prior_precision)
    exact = Gaussian(count * 4 * Fraction(weight) ** 2 * norm_squared / Fraction(precision))
    design = DrawDesign(
        method=method,
        sampler="rejection",
        n=n,
        dimension=dimension,
        norm_squared=norm_squared,
        precision=precision,
        weight=weight,
        draws=draws,
        models=models,
        guarantee=guarantee_of(target, exact, EXACT_BASIS, assumptions),
        target=target,
    )
    if sampler == "rejection":
        if steps is not None:
            raise InvalidInputError(
                "is the length of a chain; sampler='rejection' has no chain", parameter="steps", value=steps
            )
        if design.seconds > _PATIENT or n * dimension > _MOST_ENTRIES:
            raise InvalidInputError(
                f"sampler='rejection' might take {design.seconds:.1g} seconds with {n} records and "
                f"{dimension} coefficients; 'langevin' takes the same time for all data. A smaller epsilon "
                "or a larger prior_precision makes rejection quicker"
            )
    elif sampler == "langevin" or steps is not None or design.seconds > _SOON:
        design = _noisy_gradient_chain(design, steps, assumptions)
    if design.reach < 1:
        warn(
            f"with {target} the posterior is the prior: whatever the {n} records say, they move its mode by "
            f"at most {design.reach:.2g} of the prior's standard deviations. A larger epsilon or more "
            "records would change that",
            NoiseWarning,
        )
    return design


def _noisy_gradient_chain(design: DrawDesign, steps: int | None, assumptions: tuple[str, ...]) -> DrawDesign:
    """Return the design for noisy gradient descent, with its step and number of steps."""
    precision = Fraction(design.precision)
    curvature = precision + Fraction(design.weight) * design.n * design.norm_squared / 4
    # Larger steps would widen the distribution, by 1/(1 − ηM/2) along the steepest direction, for nothing.
    step = down(min(1 / (2 * curvature), 1 / (50 * precision)))
    if steps is None:
        length = math.ceil(_HORIZON / (step * design.precision))
        check_length(length, design.weight, design.precision)
    else:
        length = as_positive(steps, "steps")
    chain_cost = chain_mu_squared(design.sensitivity_squared, precision, Fraction(step), length)
    curve = Gaussian(design.draws * design.models * chain_cost)
    promise = guarantee_of(design.target, curve, CHAIN_BASIS, (*assumptions, FLOATS))
    return replace(design, sampler="langevin", guarantee=promise, step=step, steps=length)


def chain_mu_squared(delta_squared: Fraction, precision: Fraction, step: Fraction, steps: int) -> Fraction:
    """Return an upper bound on μ_T² of T noisy gradient steps, for 0 < η ≤ 2/(m + M); see the module."""

    def value() -> Any:
        shrunk = ball(1 - step * precision) ** steps
        whole = ball(delta_squared / precision * (1 - step * precision / 2))
        return whole * (1 - shrunk) / (1 + shrunk)

    return min(round_up(above(enclose(value))), delta_squared / precision)


def acceptance_floor(
    weight: float, precision: float, n: int, dimension: int, norm_squared: Fraction
) -> float:
    """Return a lower bound, for all data, on the acceptance rate of rejection sampling around the mode.

    The rate is at least det(I + ρX'X/(4m))^{−1/2}, which is at least (1 + ρnc²/(4md))^{−d/2}, because the
    trace of X'X is at most nc². ρ is ``weight``, m ``precision``, d ``dimension`` and c² ``norm_squared``.
    """
    ratio = weight * n * float(norm_squared) / (4 * precision * dimension)
    return math.exp(-dimension / 2 * math.log1p(ratio))


def guarantee_of(target: Target, curve: Curve, basis: str, assumptions: tuple[str, ...]) -> Guarantee:
    """Return the guarantee of a curve that meets its target."""
    if not target.is_met_by(curve):
        raise AssertionError("the calibrated loss does not meet its target")
    epsilon = None if target.order is not None else target.epsilon
    return Guarantee(epsilon, exact_delta=target.delta, basis=basis, assumptions=assumptions, curve=curve)


def scalings(
    method: str, target: Target, square: Fraction, norm_squared: Fraction, prior_precision: float
) -> tuple[float, float]:
    """Return the weight ρ of a record and the prior precision m, such that 4ρ²c²/m ≤ ``square``."""
    as_choice(method, METHODS, "method")
    precision = as_precision(prior_precision)
    needed = 4 * norm_squared / square
    if needed <= Fraction(precision):
        return 1.0, precision
    if method == "diffused":
        weight = _root_down(square * Fraction(precision) / (4 * norm_squared))
        if weight == 0 or weight * float(norm_squared) == 0:
            raise InvalidInputError(
                "is too small to be computed with", parameter="prior_precision", value=precision
            )
        return weight, precision
    reached = up(needed)
    if method == "concentrated":
        return 1.0, reached
    raise InvalidInputError(
        f"is too weak for {target} when every record counts in full: "
        f"prior_precision={reached:.6g} reaches it. method='concentrated' raises it to that, and "
        "method='diffused' keeps it and lets each record count for less",
        parameter="prior_precision",
        value=precision,
    )


def check_length(length: int, weight: float, precision: float) -> None:
    """Refuse a chain that is too long, and name the prior precision that makes it short enough."""
    if length <= _MOST_STEPS:
        return
    # The length grows as ρ/m, and ρ as √m where it was lowered to meet the target.
    enough = precision * 1.01 * (length / _MOST_STEPS) ** (2 if weight < 1 else 1)
    number = f"{length:,}" if length < 10**9 else f"{float(length):.1e}"
    raise InvalidInputError(
        f"prior_precision={precision:g} is too weak: the chain would take {number} steps, more than "
        f"{_MOST_STEPS:,}. prior_precision={enough:.3g} needs fewer; steps= gives a "
        "shorter chain, which is just as private but has not converged"
    )


def langevin(design: DrawDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
    """Run ``design.draws`` chains of T full-batch steps; return their ends on the grid, shape (draws, d).

    The number of operations and their order are the same for all data.
    """
    longest = float(np.einsum("ij,ij->i", signed, signed).max())
    if len(signed) != design.n or longest > float(design.norm_squared) * (1 + 1e-9):
        raise NotPrivateError("rows must be the n rows of the design, clipped to its norm bound")
    rows = np.ascontiguousarray(signed, dtype=np.float64)
    size = (design.dimension, design.draws)
    weights = noise.normals(size) / math.sqrt(design.precision)
    keep, move, shake = (
        1 - design.step * design.precision,
        design.step * design.weight,
        math.sqrt(2 * design.step),
    )
    block = max(1, min(design.steps, _NORMALS // (size[0] * size[1])))
    with one_thread():
        for start in range(0, design.steps, block):
            number = min(block, design.steps - start)
            for normals in noise.normals((number, *size)):
                weights = keep * weights - move * loss_gradient(rows, weights) + shake * normals
    return design.on_grid(weights.T)


def loss_gradient(signed: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ∇ Σᵢ log(1 + e^{−vᵢ·w}) for each column w of ``weights``, block by block of rows.

    The vᵢ are the rows of ``signed``. The derivative of log(1 + e^{−t}) is computed as ½ tanh(t/2) − ½, which
    never overflows.
    """
    block = max(256, _CACHED // max(signed.shape[1], weights[0].size))
    total = np.zeros_like(weights)
    for start in range(0, len(signed), block):
        part = signed[start : start + block]
        total += part.T @ (0.5 * np.tanh(0.5 * (part @ weights)) - 0.5)
    return total


def one_thread() -> AbstractContextManager[Any]:
    """Run BLAS with one thread: faster for products of this size, and the order of additions is fixed."""
    try:
        limits: AbstractContextManager[Any] = import_module("threadpoolctl").threadpool_limits(1)
    except ImportError:
        return nullcontext()
    return limits


def least_delta(delta: Fraction) -> Fraction:
    """Return δ, or raise an error if it is too small for noise in double precision."""
    if delta < _LEAST_DELTA:
        raise InvalidInputError(
            f"delta={float(delta):g} is below {float(_LEAST_DELTA):g}: the noise is made in double "
            "precision, which guarantees nothing about rarer events"
        )
    return delta


def as_precision(value: Any) -> float:
    if not 0 < (number := as_float(value)) < math.inf:
        raise InvalidInputError(
            "must be a positive number: the prior N(0, I/prior_precision) is what "
            "bounds the influence of a record",
            parameter="prior_precision",
            value=value,
        )
    return number


def _root_down(value: Fraction) -> float:
    root = math.sqrt(value)
    while Fraction(root) ** 2 > value:
        root = math.nextafter(root, 0.0)
    return root
