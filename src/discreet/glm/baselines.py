"""What the private estimator is compared with, behind the same face."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from discreet.bridges import inference_data
from discreet.core import DiscreetError, InvalidInput, as_epsilon
from discreet.curves import Approximate
from discreet.glm.checks import FloatArray, positive
from discreet.glm.design import (
    FLOATS,
    Design,
    Target,
    acceptance_floor,
    allowed_variation,
    as_draws,
    as_precision,
    check_length,
    design,
    proximal_length,
    proximal_step,
    warn_of_noise,
)
from discreet.glm.estimator import LogisticEstimator
from discreet.glm.kernel import mode, one_thread
from discreet.glm.noise import Noise
from discreet.glm.reference import reference_draws
from discreet.glm.samplers import Advance, on_grid
from discreet.guarantees import Guarantee

__all__ = ["OPSLogisticRegression", "OutputPerturbationLogisticRegression", "ReferenceLogisticPosterior"]

_FOUND = Fraction(1, 10**6)  # the minimiser is found until its gradient is this part of Δ


class OutputPerturbationLogisticRegression(LogisticEstimator):
    """The posterior mode plus N(0, I/m): the same μ as a posterior draw, from a minimiser instead of a chain.

    Replacing a record moves the minimiser by at most Δ/m. Parameters as in
    :class:`~discreet.PrivateLogisticRegression`.
    """

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        order: float | None = None,
        method: str = "diffuse",
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

    def _design(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> Design:
        # A minimiser whose gradient is at most tΔ is within tΔ/m of the true one: Δ grows by 1 + 2t.
        made = design(
            method=self.method,
            sampler="rejection",
            n=n,
            dimension=width,
            norm_squared=squared * (1 + 2 * _FOUND) ** 2,
            prior_precision=self.prior_precision,
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.order,
            draws=as_draws(self.draws),
            models=models,
            assumptions=assumptions,
        )
        basis = "output perturbation of the posterior mode (proofs/logistic.md)"
        return replace(made, sampler="output perturbation", guarantee=replace(made.guarantee, basis=basis))

    def _draw(self, made: Design, signed: FloatArray, noise: Noise, advance: Advance) -> FloatArray:
        most = float(_FOUND) * 2 * made.weight * math.sqrt(made.norm_squared) / (1 + 2 * float(_FOUND))
        with one_thread():
            found, gradient = mode(signed, made.weight, made.precision, most / 2)
        if gradient > most:
            raise DiscreetError(
                "the minimum was not found to the accuracy that the guarantee needs; use a larger "
                "prior_precision"
            )
        shift = noise.normals((made.draws, made.dimension)) / math.sqrt(made.precision)
        return on_grid(found + shift, made)


class OPSLogisticRegression(LogisticEstimator):
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

    def _design(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> Design:
        if self.epsilon is None:
            raise InvalidInput("epsilon is missing: a usual choice is between 0.1 and 3")
        budget, precision = as_epsilon(self.epsilon), as_precision(self.prior_precision)
        radius = ops_radius(self.radius, width, precision)
        count = as_draws(self.draws) * models
        weight = ops_weight(budget / count, squared, radius)
        sampler = self.sampler
        if sampler == "auto":
            quick = acceptance_floor(weight, precision, n, width, squared) >= 0.01
            sampler = "rejection" if quick else "proximal"
        if sampler not in ("rejection", "proximal"):
            raise InvalidInput(f"sampler={sampler!r} must be 'auto', 'rejection' or 'proximal'")
        step, steps, tau, delta = 0.0, 0, Fraction(0), Fraction(0)
        if sampler == "proximal":
            delta = as_epsilon(self.delta, "delta")
            step = proximal_step(weight, n, squared)
            allowed = allowed_variation(budget, delta) / count
            steps, tau = proximal_length(width, precision, step, allowed, 2 * radius)
            check_length(steps, None, weight, precision)
        guarantee = Guarantee(
            budget,
            exact_delta=delta,
            basis="one posterior sample on a ball (Wang, Fienberg and Smola 2015; proofs/logistic.md)",
            assumptions=(*assumptions, FLOATS),
            curve=Approximate(budget, delta),
        )
        made = Design(
            method="ops",
            sampler=sampler,
            n=n,
            dimension=width,
            norm_squared=squared,
            precision=precision,
            weight=weight,
            draws=as_draws(self.draws),
            models=models,
            guarantee=guarantee,
            target=Target(budget, delta, None, Fraction(0)),
            step=step,
            steps=steps,
            tau=tau,
            radius=radius,
        )
        warn_of_noise(made)
        return made

    def _settings(self, made: Design) -> dict[str, Any]:
        return {**super()._settings(made), "radius": made.radius}


def ops_radius(radius: float | None, width: int, precision: float) -> float:
    """The declared radius, or twice the length that a draw from the prior has about."""
    return 2 * math.sqrt(width / precision) if radius is None else positive(radius, "radius")


def ops_weight(epsilon: Fraction, squared: Fraction, radius: float) -> float:
    """ρ = ε/(2cR), at most 1, rounded down."""
    return min(1.0, float(epsilon) / (2 * math.sqrt(squared) * radius) * (1 - 1e-12))


class ReferenceLogisticPosterior(LogisticEstimator):
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

    def _design(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> Design:
        draws, chains = as_draws(self.draws), as_draws(self.chains)
        if draws % chains:
            raise InvalidInput(f"draws={draws} must be a multiple of chains={chains}")
        return Design(
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
            target=Target(Fraction(0), Fraction(0), None, Fraction(0)),
        )

    def _draw(self, made: Design, signed: FloatArray, noise: Noise, advance: Advance) -> FloatArray:
        kept = made.draws // self.chains
        with one_thread():
            return reference_draws(
                signed, made.weight, made.precision, noise, chains=self.chains, warm_up=100, kept=kept
            ).reshape(made.draws, made.dimension)

    def _settings(self, made: Design) -> dict[str, Any]:
        return {**super()._settings(made), "target": None, "grid": None}

    def to_arviz(self) -> Any:
        """The chains as ArviZ inference data, for its diagnostics."""
        shape = (self.chains, -1)
        draws = {
            "coef": self.coef_draws_.reshape(*shape, *self.coef_draws_.shape[1:]),
            "intercept": self.release_.intercepts.reshape(*shape, self.release_.intercepts.shape[1]),
        }
        return inference_data(draws, {"guarantee": "none: not private"})
