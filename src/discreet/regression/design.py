"""All that is decided before the data are looked at: data weight, prior, sampler, chain, and the guarantee.

The posterior is e^{−U}, U(w) = ρ Σ ℓ(w; xᵢ, yᵢ) + (m/2)‖w‖², with rows clipped to ‖x‖ ≤ c. Replacing a record
changes ∇U by at most Δ = 2ρc. With n public:

* an exact draw is μ-GDP with μ² = Δ²/m (Gopi, Lee and Liu 2022), and so is ŵ + N(0, I/m) for the minimiser ŵ;
* T steps w ← w − η∇U(w) + √(2η) ξ from w₀ ~ N(0, I/m), η ≤ 2/(m + M), M = m + ρnc²/4, are μ_T-GDP with
  μ_T² = (Δ²/m)(1 − ηm/2)(1 − k^T)/(1 + k^T), k = 1 − ηm, for **any** T (Bok, Su and Altschuler 2024);
* a law within τ of an exact draw in total variation adds (1 + e^ε)τ to δ(ε).

``diffuse`` lowers ρ, ``concentrated`` raises m, ``direct`` takes both as given. See ``proofs/logistic.md``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet._typing import EpsilonLike
from discreet.declarations import as_epsilon, as_integer, as_target_delta
from discreet.errors import InvalidInput, NoiseWarning
from discreet.numerics.enclosures import above, ball, enclose, round_up
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Curve, Gaussian, as_order, largest_gaussian
from discreet.privacy.guarantee import Guarantee

__all__ = [
    "EXACT_NOISE",
    "FLOATS",
    "METHODS",
    "SAMPLERS",
    "DrawDesign",
    "Target",
    "chain_mu_squared",
    "design",
]

METHODS = ("diffuse", "concentrated", "direct")
SAMPLERS = ("auto", "langevin", "rejection", "proximal")

FLOATS = (
    "double-precision arithmetic and Gaussian noise stand for real numbers (proofs/logistic.md); the output "
    "is rounded to a declared grid"
)
EXACT_NOISE = (
    "the noise is exact, rounded to a declared grid; the minimiser is computed in double precision, and what "
    "rounding can move it is bounded and paid for (proofs/logistic.md)"
)
_HORIZON = 5  # T·η·m: a start that is off decays to e⁻⁵ along the directions in which the data say nothing
_MOST_STEPS = 500_000
_LEAST_ACCEPTANCE = 0.01
_HOPELESS = 1e-14  # such a floor of the acceptance says that rejection may take for ever
_LEAST_DELTA = Fraction(1, 10**18)  # of noise in doubles: far above what its cut tails can cost
_TAU_SHARE = 1000  # the total variation of the proximal sampler takes this part of δ


@dataclass(frozen=True)
class Target:
    """(ε, δ), or Rényi privacy of one order, with the largest μ² of a Gaussian loss that meets it."""

    epsilon: Fraction
    delta: Fraction
    order: float | None
    mu_squared: Fraction

    @classmethod
    def checked(
        cls, epsilon: EpsilonLike | None, delta: EpsilonLike | None, order: float | None, n: int
    ) -> Target:
        if epsilon is None or (delta is None) == (order is None):
            raise InvalidInput(
                f"epsilon={epsilon!r}, delta={delta!r}, order={order!r}: a target is epsilon with delta, "
                "such as epsilon=1, delta=1e-6, or epsilon with order (Rényi privacy), such as order=10"
            )
        budget = as_epsilon(epsilon)
        if order is not None:
            value = as_order(order)
            return cls(budget, Fraction(0), value, 2 * budget / Fraction(value) * (1 - Fraction(1, 10**13)))
        probability = as_delta(delta, n, "use OPSLogisticRegression, which draws from a bounded domain")
        return cls(budget, probability, None, largest_gaussian(budget, probability))

    def met(self, curve: Curve) -> bool:
        if self.order is not None:
            return Fraction(curve.rdp(self.order)) <= self.epsilon
        return Fraction(curve.delta_at(_down(self.epsilon))) <= self.delta

    def to_dict(self) -> dict[str, Any]:
        if self.order is not None:
            return {"epsilon": str(self.epsilon), "order": self.order}
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    def __str__(self) -> str:
        other = f"order = {self.order:g}" if self.order is not None else f"delta = {float(self.delta):g}"
        return f"epsilon = {float(self.epsilon):g} at {other}"


def chain_mu_squared(delta_squared: Fraction, precision: Fraction, step: Fraction, steps: int) -> Fraction:
    """An upper bound on μ_T² of T noisy gradient steps; see the module. Needs 0 < η ≤ 2/(m + M)."""

    def value() -> Any:
        shrunk = ball(1 - step * precision) ** steps
        whole = ball(delta_squared / precision * (1 - step * precision / 2))
        return whole * (1 - shrunk) / (1 + shrunk)

    return min(round_up(above(enclose(value))), delta_squared / precision)


@dataclass(frozen=True)
class DrawDesign:
    """What the sampler may know besides the rows, and what is promised about all the draws together."""

    method: str
    sampler: str
    n: int
    dimension: int
    norm_squared: Fraction
    """c², of a row with its constant column."""
    precision: float
    """m: of the prior that is used."""
    weight: float
    """ρ: of one record in the posterior."""
    draws: int
    models: int
    guarantee: Guarantee
    target: Target
    step: float = 0.0
    steps: int = 0
    tau: Fraction = Fraction(0)
    radius: float = math.inf

    @property
    def sensitivity_squared(self) -> Fraction:
        """Δ² = 4ρ²c²."""
        return 4 * Fraction(self.weight) ** 2 * self.norm_squared

    @property
    def curvature(self) -> float:
        """M = m + ρnc²/4."""
        return self.precision + self.weight * self.n * float(self.norm_squared) / 4

    @property
    def grid(self) -> Fraction:
        """Coefficients are rounded to multiples of this: a power of two, 2⁻³⁰ of the prior's deviation.

        Noise in doubles has a value every 2⁻⁴⁶ of a deviation, or closer, so each cell holds many.
        """
        return Fraction(2) ** (math.floor(-math.log2(self.precision) / 2) - 30)

    @property
    def reach(self) -> float:
        """The posterior mode is at most this many deviations of the prior from its centre: ρnc/√m."""
        return self.weight * self.n * math.sqrt(self.norm_squared / Fraction(self.precision))


def design(
    *,
    method: str,
    sampler: str,
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
    step_size: float | None = None,
    perturbed: bool = False,
    assumptions: tuple[str, ...] = (),
) -> DrawDesign:
    """The design that meets the target with all ``draws`` of all ``models`` together, and its guarantee.

    μ² is split equally: each chain may have μ²/(draws·models). ρ and m are those of an exact draw for every
    sampler, so that ``order`` gives ρ = √(εm/(2c²λ)) as in the paper; the chain's μ_T is a little smaller.
    ``perturbed`` is for output perturbation, which has the μ of an exact draw; ``sampler`` is then not used.
    """
    _check_name("method", method, METHODS)
    _check_name("sampler", sampler, SAMPLERS)
    target = Target.checked(epsilon, delta, order, n)
    count = as_draws(draws) * models
    if not perturbed and target.order is None:
        least_delta(target.delta)
    usable, variation = shares(target, sampler)
    square = usable / count
    weight, precision = _scalings(method, target, square, norm_squared, as_precision(prior_precision))
    sizes = (weight, precision, n, dimension, norm_squared)
    if sampler == "auto" and (steps is not None or step_size is not None):
        sampler = "langevin"
    elif sampler == "rejection" and not perturbed:
        warn_of_waiting(*sizes)
    sampler = _chosen(sampler, *sizes)
    whole = 4 * Fraction(weight) ** 2 * norm_squared / Fraction(precision)
    curvature = Fraction(precision) + Fraction(weight) * n * norm_squared / 4
    step, length, tau = 0.0, 0, Fraction(0)
    if sampler == "langevin":
        step = as_step(step_size, precision, curvature)
        length = _settling(step, precision) if steps is None else as_steps(steps)
        check_length(length, steps, weight, precision)
        each = chain_mu_squared(whole * Fraction(precision), Fraction(precision), Fraction(step), length)
        basis = "noisy gradient steps of any length (Bok, Su and Altschuler 2024; proofs/logistic.md)"
        curve: Curve = Gaussian(count * each)
    elif steps is not None or step_size is not None:
        raise InvalidInput(f"steps and step_size belong to sampler='langevin'; this is {sampler!r}")
    elif perturbed:
        sampler = "output perturbation"
        basis = "output perturbation of the posterior mode (proofs/logistic.md)"
        curve = Gaussian(count * whole)
    elif sampler == "rejection":
        basis = "exact posterior draw (Gopi, Lee and Liu 2022; proofs/logistic.md)"
        curve = Gaussian(count * whole)
    else:
        step = proximal_step(weight, n, norm_squared)
        length, tau = proximal_length(dimension, precision, step, variation / count)
        check_length(length, steps, weight, precision)
        basis = "proximal sampler with a certified total variation (proofs/logistic.md)"
        curve = Inexact(Gaussian(count * whole), count * tau)
    if not target.met(curve):
        raise AssertionError("the calibrated loss does not meet its target")
    made = DrawDesign(
        method=method,
        sampler=sampler,
        n=n,
        dimension=dimension,
        norm_squared=norm_squared,
        precision=precision,
        weight=weight,
        draws=draws,
        models=models,
        guarantee=guarantee_of(target, curve, basis, (*assumptions, EXACT_NOISE if perturbed else FLOATS)),
        target=target,
        step=step,
        steps=length,
        tau=tau,
    )
    warn_of_noise(made)
    return made


def guarantee_of(target: Target, curve: Curve, basis: str, assumptions: tuple[str, ...]) -> Guarantee:
    return Guarantee(
        None if target.order is not None else target.epsilon,
        exact_delta=target.delta,
        basis=basis,
        assumptions=assumptions,
        curve=curve,
    )


def shares(target: Target, sampler: str) -> tuple[Fraction, Fraction]:
    """(μ², τ) that all draws together may have: the proximal sampler keeps a part of δ for its τ."""
    _check_name("sampler", sampler, SAMPLERS)
    if sampler != "proximal":
        return target.mu_squared, Fraction(0)
    if target.order is not None:
        raise InvalidInput(
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


def warn_of_noise(made: DrawDesign) -> None:
    """A warning with the figure when no data could move the posterior away from the prior."""
    if made.reach < 1:
        warnings.warn(
            f"with {made.target} the posterior is the prior: whatever the {made.n} records say, they move "
            f"its mode by at most {made.reach:.2g} of the prior's standard deviations. A larger epsilon or "
            "more records would change that",
            NoiseWarning,
            stacklevel=2,
        )


def _scalings(
    method: str, target: Target, square: Fraction, norm_squared: Fraction, precision: float
) -> tuple[float, float]:
    """(ρ, m) with 4ρ²c²/m ≤ ``square``."""
    needed = 4 * norm_squared / square
    if needed <= Fraction(precision):
        return 1.0, precision
    if method == "diffuse":
        weight = _root_down(square * Fraction(precision) / (4 * norm_squared))
        if weight == 0 or weight * float(norm_squared) == 0:
            raise InvalidInput(f"prior_precision={precision!r} is too small to be computed with")
        return weight, precision
    reached = _up(needed)
    if method == "concentrated":
        return 1.0, reached
    raise InvalidInput(
        f"prior_precision={precision!r} is too weak for {target} when every record counts in full: "
        f"prior_precision={reached:.6g} reaches it. method='concentrated' raises it to that, and "
        "method='diffuse' keeps it and lets each record count for less"
    )


def _chosen(
    sampler: str, weight: float, precision: float, n: int, dimension: int, norm_squared: Fraction
) -> str:
    if sampler != "auto":
        return sampler
    floor = acceptance_floor(weight, precision, n, dimension, norm_squared)
    return "rejection" if floor >= _LEAST_ACCEPTANCE else "langevin"


def acceptance_floor(
    weight: float, precision: float, n: int, dimension: int, norm_squared: Fraction
) -> float:
    """A lower bound, whatever the data, on the acceptance of rejection from the mode.

    det(I + ρX'X/(4m))^{−1/2}, at least (1 + ρnc²/(4md))^{−d/2} because the trace of X'X is at most nc².
    """
    ratio = weight * n * float(norm_squared) / (4 * precision * dimension)
    return math.exp(-dimension / 2 * math.log1p(ratio))


def proximal_step(weight: float, n: int, norm_squared: Fraction) -> float:
    """η with 1/η = ρnc²/4: the inner rejection then accepts with probability e^{−1/2} or more."""
    return 4 / (weight * n * float(norm_squared))


def allowed_variation(epsilon: Fraction, delta: Fraction) -> Fraction:
    """τ with (1 + e^ε)τ ≤ ``delta``."""
    if epsilon > 300:
        raise InvalidInput(
            f"epsilon={float(epsilon):g} is beyond the proximal sampler, whose error costs e^epsilon; use "
            "another sampler"
        )
    return delta / (1 + round_up(math.exp(float(epsilon)) * (1 + 1e-12)))


def proximal_length(
    dimension: int, precision: float, step: float, tau: Fraction, distance: float | None = None
) -> tuple[int, Fraction]:
    """(K + 1, τ): steps after which the total variation is at most ½ W/√η (1 + mη)^{−K} = τ ≤ ``tau``.

    W bounds the distance (in W₂) of the start from the target law: √(d/m) from the mode, if not given. A
    hundredth is added for a mode that is found to rounding.
    """
    start = math.sqrt(dimension / precision) if distance is None else distance
    rate = math.log1p(precision * step)
    front = math.log(0.505 * start / math.sqrt(step))
    length = max(0, math.ceil((front - math.log(tau)) / rate * (1 + 1e-12))) + 1
    return length + 1, round_up(math.exp(front - length * rate) * (1 + 1e-9))


def _settling(step: float, precision: float) -> int:
    return math.ceil(_HORIZON / (step * precision))


def check_length(length: int, steps: int | None, weight: float, precision: float) -> None:
    """A chain whose length was not asked for has to end; says which prior makes it short enough."""
    if steps is not None or length <= _MOST_STEPS:
        return
    # The length grows as ρ/m, and ρ as √m where it was lowered to meet the target.
    enough = precision * 1.01 * (length / _MOST_STEPS) ** (2 if weight < 1 else 1)
    number = f"{length:,}" if length < 10**9 else f"{float(length):.1e}"
    raise InvalidInput(
        f"prior_precision={precision:g} is too weak: the chain would take {number} steps, more than "
        f"{_MOST_STEPS:,}. prior_precision={enough:.3g} reaches the target within them; steps= gives a "
        "shorter chain, which is private all the same but has not settled"
    )


def as_step(step_size: float | None, precision: float, curvature: Fraction) -> float:
    """η: 1/(2M) or 1/(50m) if not given, and never above 2/(m + M), where the steps would stop contracting.

    Larger steps would widen the law: by 1/(1 − ηM/2) along the steepest direction, for privacy not asked for.
    """
    most = 2 / (Fraction(precision) + curvature)
    if step_size is None:
        return _down(min(1 / (2 * curvature), 1 / (50 * Fraction(precision))))
    if isinstance(step_size, str | bool) or not math.isfinite(step_size) or step_size <= 0:
        raise InvalidInput(f"step_size={step_size!r} must be a positive number, fixed beforehand")
    if Fraction(step_size) > most:
        raise InvalidInput(
            f"step_size={step_size!r} is above 2/(m + M) = {float(most):.6g}, to which the proof is limited"
        )
    return float(step_size)


def as_delta(delta: EpsilonLike | None, n: int, instead: str) -> Fraction:
    """A target δ, with messages that speak of a probability."""
    if delta == 0 or delta == "0":
        return as_target_delta(0, n, instead)
    try:
        given = as_epsilon(delta, "delta")  # type: ignore[arg-type]
    except InvalidInput:
        given = Fraction(1)
    if given >= 1:
        raise InvalidInput(f"delta={delta!r} must be a probability above 0 and below 1, such as 1e-6")
    return as_target_delta(given, n, instead)


def least_delta(delta: Fraction) -> Fraction:
    """δ, unless it is too small for noise in doubles."""
    if delta < _LEAST_DELTA:
        raise InvalidInput(
            f"delta={float(delta):g} is below {float(_LEAST_DELTA):g}: the noise is made in double "
            "precision, and nothing is promised about events that are rarer"
        )
    return delta


def as_steps(steps: Any) -> int:
    number = as_integer(steps, "steps")
    if number < 1:
        raise InvalidInput(f"steps={steps!r} must be at least 1")
    return number


def as_draws(draws: Any) -> int:
    number = as_integer(draws, "draws")
    if number < 1:
        raise InvalidInput(f"draws={draws!r} must be at least 1")
    return number


def as_precision(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise InvalidInput(
            f"prior_precision={value!r} must be a positive number: the prior N(0, I/prior_precision) is what "
            "bounds the influence of a record"
        )
    return number


def _check_name(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInput(f"{name}={value!r} must be one of {', '.join(map(repr, known))}")


def _down(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def _up(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _root_down(value: Fraction) -> float:
    root = math.sqrt(value)
    while Fraction(root) ** 2 > value:
        root = math.nextafter(root, 0.0)
    return root
