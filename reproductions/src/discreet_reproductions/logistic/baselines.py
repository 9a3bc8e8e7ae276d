"""What the private estimator is compared with, behind the same face."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from discreet._declarations import as_epsilon, as_positive, as_target_delta
from discreet._randomness.cells import normal_cell
from discreet._randomness.entropy import OS_ENTROPY
from discreet.errors import DiscreetError, InvalidInputError
from discreet.privacy.curves import Approximate, Target
from discreet.privacy.guarantee import Guarantee
from discreet.regression._chain import (
    FLOATS,
    DrawDesign,
    acceptance_floor,
    as_precision,
    check_length,
    least_delta,
    loss_gradient,
    one_thread,
)
from discreet.regression._checks import positive
from discreet.regression._doubles import DoubleNoise
from discreet.regression.estimators import DrawingEstimator
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.logistic.exact import (
    ExactDesign,
    allowed_variation,
    draw,
    exact_design,
    proximal_length,
    proximal_step,
    warn_of_waiting,
)
from discreet_reproductions.logistic.modes import mode
from discreet_reproductions.logistic.reference import reference_draws

__all__ = ["OPSLogisticRegression", "OutputPerturbationLogisticRegression", "ReferenceLogisticPosterior"]

_BLOCK = 256  # rows whose gradients are added in floats before they are added exactly


class OutputPerturbationLogisticRegression(DrawingEstimator):
    """The posterior mode plus N(0, I/m): the same μ as a posterior draw, from a minimiser instead of a chain.

    Replacing a record moves the minimiser by at most Δ/m. The noise is exact: no floating-point number is in
    it, only in the minimiser, whose distance from the true one is bounded and paid for. Parameters as in
    :class:`~discreet.PrivateLogisticRegression`.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        order: float | None = None,
        method: str = "diffused",
        prior_precision: float = 1.0,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        draws: int = 1,
        n: int | None = None,
        classes: Any = None,
        multi_class: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.method = method
        self.prior_precision = prior_precision
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.n = n
        self.classes = classes
        self.multi_class = multi_class
        self.random_state = random_state

    def design_for(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> ExactDesign:
        # A minimiser whose gradient is at most tΔ is within tΔ/m of the true one: Δ grows by 1 + 2t.
        grown = 1 + 2 * found_share(n)
        return exact_design(
            method=self.method,
            sampler="output perturbation",
            n=n,
            dimension=width,
            norm_squared=squared * grown**2,
            prior_precision=self.prior_precision,
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.order,
            draws=as_positive(self.draws, "draws"),
            models=models,
            assumptions=assumptions,
        )

    def draws_of(self, design: DrawDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
        share = float(found_share(design.n))
        most = share / (1 + 2 * share) * math.sqrt(design.sensitivity_squared) * (1 - 1e-12)
        with one_thread():
            found, _ = mode(signed, design.weight, design.precision, most / 4)
            gradient = gradient_bound(signed, found, design)
        if not gradient <= most:
            raise DiscreetError(
                "the minimum was not found to the accuracy that the guarantee needs; use a larger "
                "prior_precision"
            )
        if not noise.private:  # the same distribution in floats, fast enough for experiments
            shift = noise.normals((design.draws, design.dimension)) / math.sqrt(design.precision)
            return design.on_grid(found + shift)
        precision, half = Fraction(design.precision), design.grid / 2
        centres = [Fraction(value) for value in found.tolist()]
        # A cell is half open from its end; shifted by half of it, its middle is a multiple of the grid.
        return np.array(
            [
                [
                    float(normal_cell(centre + half, precision, design.grid, OS_ENTROPY) - half)
                    for centre in centres
                ]
                for _ in range(design.draws)
            ],
            dtype=np.float64,
        )


def found_share(n: int) -> Fraction:
    """t: the minimiser is found until its gradient is surely at most tΔ; a millionth up to 10⁶ rows."""
    return max(Fraction(1, 10**6), Fraction(n, 10**12))


def gradient_bound(signed: FloatArray, w: FloatArray, made: DrawDesign) -> float:
    """An upper bound on ‖∇U(w)‖ that counts rounding: sums in any order, tanh right to 4 last places.

    With u = 2⁻⁵³ a product v·w is off by at most d·u·c‖w‖, so a term −σ(−v·w)v by (d·c‖w‖/4 + 8)u·c; the sum
    of a block of b rows by b·u of its b·c, and blocks are added exactly. All of it counts twice.
    """
    (n, d), c = signed.shape, math.sqrt(made.norm_squared)
    parts = [loss_gradient(signed[start : start + _BLOCK], w) for start in range(0, n, _BLOCK)]
    total = np.array([math.fsum(column) for column in zip(*(part.tolist() for part in parts), strict=True)])
    length, size = float(np.linalg.norm(w)), made.weight * n * c
    error = (d * c * length / 4 + 8 + _BLOCK) * size + (d + 4) * (size + made.precision * length)
    found = float(np.linalg.norm(made.weight * total + made.precision * w))
    return found + float(2 * 2.0**-53 * error)


class OPSLogisticRegression(DrawingEstimator):
    """One posterior sample (Wang, Fienberg and Smola 2015): purely ε-private on a ball ‖w‖ ≤ ``radius``.

    On the ball the loss of a record varies by at most c·radius, so a draw in which each record counts for
    ρ = ε/(2·c·radius) is ε-private. It takes an exact draw: ``sampler="rejection"``. The proximal sampler,
    chosen when rejection would take too long, is within a total variation that makes it (ε, ``delta``).
    ``radius`` is 2√(d/m) if not given.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = 1e-9,
        radius: float | None = None,
        sampler: str = "auto",
        prior_precision: float = 1.0,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        draws: int = 1,
        n: int | None = None,
        classes: Any = None,
        multi_class: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.sampler = sampler
        self.prior_precision = prior_precision
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.n = n
        self.classes = classes
        self.multi_class = multi_class
        self.random_state = random_state

    def design_for(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign:
        if self.epsilon is None:
            raise InvalidInputError("epsilon is missing: a usual choice is between 0.1 and 3")
        budget, precision = as_epsilon(self.epsilon), as_precision(self.prior_precision)
        radius = ops_radius(self.radius, width, precision)
        count = as_positive(self.draws, "draws") * models
        weight = ops_weight(budget / count, squared, radius)
        sampler = self.sampler
        sizes = (weight, max(precision, width / radius**2), n, width, squared)  # candidates fill the ball
        if sampler == "auto":
            quick = acceptance_floor(*sizes) >= 0.01
            sampler = "rejection" if quick else "proximal"
        elif sampler == "rejection":
            warn_of_waiting(*sizes)
        if sampler not in ("rejection", "proximal"):
            raise InvalidInputError(f"sampler={sampler!r} must be 'auto', 'rejection' or 'proximal'")
        step, steps, tau = 0.0, 0, Fraction(0)
        delta = self._checked_delta(sampler, n)
        if sampler == "proximal":
            step = proximal_step(weight, n, squared)
            allowed = allowed_variation(budget, delta) / count
            steps, tau = proximal_length(width, precision, step, allowed, 2 * radius)
            check_length(steps, weight, precision)
        guarantee = Guarantee(
            budget,
            exact_delta=delta,
            basis="one posterior sample on a ball (Wang, Fienberg and Smola 2015; proofs/logistic.md)",
            assumptions=(*assumptions, FLOATS),
            curve=Approximate(budget, delta),
        )
        return ExactDesign(
            method="ops",
            sampler=sampler,
            n=n,
            dimension=width,
            norm_squared=squared,
            precision=precision,
            weight=weight,
            draws=as_positive(self.draws, "draws"),
            models=models,
            guarantee=guarantee,
            target=Target(budget, delta),
            step=step,
            steps=steps,
            tau=tau,
            radius=radius,
        )

    def draws_of(self, design: Any, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
        return draw(design, signed, noise)

    def _checked_delta(self, sampler: str, n: int) -> Fraction:
        """That of the proximal sampler; the other draws from the distribution itself and has none."""
        if self.delta is None or self.delta == 0:
            if sampler == "proximal":
                raise InvalidInputError(
                    f"delta={self.delta!r}: the total variation of sampler='proximal' needs a delta above 0, "
                    "such as 1e-9; sampler='rejection' needs none"
                )
            return Fraction(0)
        delta = least_delta(as_target_delta(self.delta, "use sampler='rejection'"))
        return delta if sampler == "proximal" else Fraction(0)

    def settings_of(self, made: Any) -> dict[str, Any]:
        return {**super().settings_of(made), "radius": made.radius}


def ops_radius(radius: float | None, width: int, precision: float) -> float:
    """The declared radius, or twice the length that a draw from the prior has about."""
    return 2 * math.sqrt(width / precision) if radius is None else positive(radius, "radius")


def ops_weight(epsilon: Fraction, squared: Fraction, radius: float) -> float:
    """ρ = ε/(2cR), at most 1, rounded down."""
    return min(1.0, float(epsilon) / (2 * math.sqrt(squared) * radius) * (1 - 1e-12))


class ReferenceLogisticPosterior(DrawingEstimator):
    """The posterior itself, by long chains: **not private**, for comparison only.

    Metropolis-adjusted Langevin steps in the metric of the mode, ``chains`` chains, every tenth state kept
    after a hundred. ``release_`` is stamped not private and ``guarantee_`` promises nothing.
    """

    def __init__(
        self,
        *,
        prior_precision: float = 1.0,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        draws: int = 1000,
        chains: int = 4,
        n: int | None = None,
        classes: Any = None,
        multi_class: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.prior_precision = prior_precision
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.chains = chains
        self.n = n
        self.classes = classes
        self.multi_class = multi_class
        self.random_state = random_state

    promises = False

    def design_for(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign:
        draws, chains = as_positive(self.draws, "draws"), as_positive(self.chains, "chains")
        if draws % chains:
            raise InvalidInputError(f"draws={draws} must be a multiple of chains={chains}")
        return DrawDesign(
            method="reference",
            sampler="metropolis-adjusted langevin",
            n=n,
            dimension=width,
            norm_squared=squared,
            precision=as_precision(self.prior_precision),
            weight=1.0,
            draws=draws,
            models=models,
            guarantee=Guarantee(None, basis="not private: the posterior itself"),
            target=Target(Fraction(0)),
        )

    def draws_of(self, made: DrawDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
        kept = made.draws // self.chains
        with one_thread():
            return reference_draws(
                signed, made.weight, made.precision, noise, chains=self.chains, warm_up=100, kept=kept
            ).reshape(made.draws, made.dimension)

    def settings_of(self, made: DrawDesign) -> dict[str, Any]:
        return {**super().settings_of(made), "target": None, "grid": None}
