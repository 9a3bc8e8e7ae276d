"""Privacy curves: all that is known of a mechanism's loss, in the three currencies that compose or convert.

A curve bounds two functions for every pair of neighbouring datasets with output laws P, Q, in both orders:

* ``rdp(λ)`` ≥ D_λ(P‖Q), the Rényi divergence of order λ > 1, infinite from λ* = ``max_order`` on;
* ``delta_at(ε)`` ≥ sup_A P(A) − e^ε Q(A), the privacy profile: (ε, δ(ε))-differential privacy for every ε.

Composition adds the first and convolves the second (:mod:`discreet.privacy.composite_curves`). A curve
knows no mechanism: whoever has another law adds a subclass with a ``kind``, and everything works on it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._declarations import as_epsilon, as_float, as_rational, as_target_delta
from discreet._json import fields_as_json
from discreet._numerics.enclosures import Ball, above, ball, down, enclose, up
from discreet._numerics.search import RETREATS, boundary, certain, least
from discreet._registry import CURVES
from discreet._typing import EpsilonLike, FloatArray
from discreet.errors import InvalidInputError

_LARGEST_ORDER = 1e7
_DEEPEST = 40


class Curve(ABC):
    """What one output may reveal; see the module. A subclass that says no more bounds no Rényi divergence."""

    kind: ClassVar[str]

    @property
    def max_order(self) -> float:
        """λ*: the Rényi divergence may be infinite from this order on."""
        return 1.0

    def renyi(self, order: float) -> float:
        """An upper bound on the Rényi divergence of an order that has been checked."""
        return math.inf

    def profile(self, epsilon: float) -> float:
        """An upper bound on the δ of ``epsilon`` ≥ 0."""
        return self.rough_profile(epsilon)

    def rough_profile(self, epsilon: float) -> float:
        """About ``profile``, quickly: where to look, never what to report."""
        return float(self.profiles(np.array([epsilon]))[0])

    @abstractmethod
    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Upper bounds on the δ of many ε ≥ 0, in floats: the rounding is inside a margin that is added."""

    @property
    def end(self) -> float:
        """An ε from which on δ falls no more."""
        return math.inf

    @property
    def response(self) -> tuple[Fraction, Fraction] | None:
        """(ε, δ) of a curve of all (ε, δ)-private mechanisms: losses ±ε and, with mass δ, infinity."""
        return None

    @property
    def is_vectorised(self) -> bool:
        """Whether ``profiles`` costs about as much as ``profile``."""
        return True

    @property
    def work(self) -> float:
        """About how many seconds ``epsilon_at`` takes, before anything is computed."""
        return 0.1

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which :meth:`from_dict` builds the same curve: its kind and its fields."""
        return {"kind": self.kind, **fields_as_json(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Curve:
        """The curve that :meth:`to_dict` described; what is malformed or out of range is refused."""
        if _too_deep(content):
            raise InvalidInputError(f"a privacy curve is nested more than {_DEEPEST} deep")
        parameters = dict(content)
        kind = parameters.pop("kind")
        if not isinstance(kind, str) or kind not in CURVES:
            raise InvalidInputError(f"a privacy curve of kind {kind!r} is unknown; update discreet")
        family: type[Curve] = CURVES[kind]
        if is_dataclass(family) and set(parameters) != {part.name for part in fields(family)}:
            raise InvalidInputError(f"a privacy curve of kind {kind!r} has a part too many or too few")
        return family._build(parameters)

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Curve:
        return cls(**{name: _built(value) for name, value in parameters.items()})

    def zcdp(self) -> Fraction | None:
        """The ρ of zero-concentrated privacy, D_λ ≤ ρλ for every λ; None where there is none."""
        return None

    @property
    def gaussian_squared(self) -> Fraction | None:
        """μ² where the curve is that of N(0, 1) against N(μ, 1) (μ-GDP)."""
        return None

    def rdp(self, order: float) -> float:
        """ε(λ): an upper bound on the Rényi divergence of order λ ≥ 1, infinite from ``max_order`` on.

        Order 1 is the Kullback–Leibler divergence. Divergences grow with their order, so one just above is
        a bound on it, which is looser by about a thousandth.
        """
        order = as_order(order)
        if order == 1 and self.gaussian_squared is None:
            order = min(1 + 2**-10, (1 + self.max_order) / 2)
        return math.inf if order >= self.max_order else self.renyi(order)

    def delta_at(self, epsilon: float) -> float:
        """The smallest δ known for which the output is (ε, δ)-private."""
        epsilon = float(epsilon)
        if not (epsilon >= 0 and math.isfinite(epsilon)):
            raise InvalidInputError("must be a finite number, at least 0", parameter="epsilon", value=epsilon)
        return min(1.0, self.profile(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε known for which the output is (ε, δ)-private; infinite where none is.

        Found by bisection; the answer is the end of the bracket at which δ was seen to hold.
        """
        delta = as_delta(delta)

        def holds(epsilon: float) -> bool:
            return self.delta_at(epsilon) <= delta

        high = least(lambda e: self.rough_profile(e) <= delta)
        wider = (high * (1 + share) for share in RETREATS) if math.isfinite(high) else ()
        found = certain(holds, wider)
        return least(holds) if found is None else found

    def rdp_delta_at(self, epsilon: float) -> float:
        """The δ that follows from the Rényi curve alone (Canonne, Kamath and Steinke 2020, Prop. 12)."""

        def log_delta(order: float) -> float:
            above_one, rest = order - 1, order * math.log1p(-1 / order)
            return above_one * (self.renyi(order) - epsilon) - math.log(above_one) + rest

        # Not below what floats tell from 0: a bound of exactly 0 would be a claim of its own.
        least = min(0.0, max(_least_over_orders(log_delta, self.max_order), -690.0))
        return min(1.0, math.exp(least) * (1 + 1e-12))

    def rdp_epsilon_at(self, delta: float) -> float:
        """The ε that follows from the Rényi curve alone."""
        delta = as_delta(delta)
        if delta == 0:
            return math.inf

        def epsilon(order: float) -> float:
            return self.renyi(order) + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)

        return max(0.0, _least_over_orders(epsilon, self.max_order) * (1 + 1e-12))


def _built(value: Any) -> Any:
    """A part of a curve: curves, and lists of parts, as what they stand for."""
    if isinstance(value, list):
        return tuple(map(_built, value))
    return Curve.from_dict(value) if isinstance(value, Mapping) else value


def _too_deep(content: Any) -> bool:
    """Whether lists and mappings stand more than ``_DEEPEST`` deep in each other; without recursion."""
    level = [content]
    for _ in range(_DEEPEST):
        level = [
            part
            for one in level
            if isinstance(one, Mapping | list)
            for part in (one.values() if isinstance(one, Mapping) else one)
        ]
        if not level:
            return False
    return True


def as_order(order: float) -> float:
    """A Rényi order λ: a number from 1 on; 1 is that of Kullback–Leibler privacy."""
    if not 1 <= (value := as_float(order)) < math.inf:
        raise InvalidInputError(
            "must be a finite number, at least 1, such as 10", parameter="order", value=order
        )
    return value


def as_delta(delta: Any, name: str = "delta") -> float:
    if not 0 <= (value := as_float(delta)) < 1:
        raise InvalidInputError("must be a probability below 1, such as 1e-6", parameter=name, value=delta)
    return value


def as_probability(delta: EpsilonLike) -> Fraction:
    """δ as an exact number below 1; 0 is one."""
    exact = Fraction(0) if delta == 0 else as_epsilon(delta, "delta")
    if exact >= 1:
        raise InvalidInputError("must be a probability below 1, such as 1e-6", parameter="delta", value=delta)
    return exact


@dataclass(frozen=True)
class Approximate(Curve):
    """All that (ε, δ)-differential privacy says: with probability δ anything, else randomised response.

    Its profile is that of the least private such mechanism (Kairouz, Oh and Viswanath 2015), so what is
    composed from it holds for every mechanism with this ε and δ.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    kind: ClassVar[str] = "approximate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", as_rational(self.epsilon, "epsilon", 0))
        object.__setattr__(self, "delta", as_rational(self.delta, "delta", 0, 1))

    @property
    def max_order(self) -> float:
        return 1.0 if self.delta else math.inf

    def renyi(self, order: float) -> float:
        # Randomised response: ln[(e^{λε} + e^{(1−λ)ε}) / (1 + e^ε)] / (λ−1), from its largest term.
        epsilon = up(self.epsilon)
        value = order * epsilon + _log1p_exp((1 - 2 * order) * epsilon) - epsilon - _log1p_exp(-epsilon)
        slack = 1e-15 * (1 + order * epsilon) / (order - 1)
        return min(math.nextafter(epsilon, math.inf), max(0.0, value / (order - 1)) + slack)

    @property
    def end(self) -> float:
        return up(self.epsilon)

    @property
    def response(self) -> tuple[Fraction, Fraction]:
        return self.epsilon, self.delta

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        own, delta = up(self.epsilon), up(self.delta)
        rest = -np.expm1(np.minimum(epsilons - own, 0.0)) / (1 + math.exp(-own))
        return np.asarray((delta + (1 - delta) * rest) * np.where(rest > 0, 1 + 1e-13, 1.0), dtype=np.float64)

    def zcdp(self) -> Fraction | None:
        return None if self.delta else self.epsilon * self.epsilon / 2


def gaussian_hockey_stick(mu_squared: Fraction, epsilon: Fraction | float) -> Ball:
    """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ): what tells N(μ, 1) from N(0, 1) (Balle and Wang 2018)."""
    mu, exact, root = ball(mu_squared).sqrt(), ball(epsilon), ball(2).sqrt()
    far, near = (exact / mu + sign * mu / 2 for sign in (1, -1))
    return ((near / root).erfc() - exact.exp() * (far / root).erfc()) / 2


@dataclass(frozen=True)
class Gaussian(Curve):
    """μ-GDP: as hard to tell apart as N(0, 1) and N(μ, 1); held exactly through μ²."""

    mu_squared: Fraction
    kind: ClassVar[str] = "gaussian"
    max_order = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", as_rational(self.mu_squared, "mu_squared", 0))

    @property
    def mu(self) -> float:
        return math.sqrt(self.mu_squared)

    @property
    def gaussian_squared(self) -> Fraction | None:
        return self.mu_squared

    def zcdp(self) -> Fraction | None:
        return self.mu_squared / 2

    def renyi(self, order: float) -> float:
        return order * float(self.mu_squared) / 2 * (1 + 1e-15)

    def profile(self, epsilon: float) -> float:
        if not self.mu_squared:
            return 0.0
        rough = self.rough_profile(epsilon)
        if rough == 0.0 and epsilon > 40 * self.mu + float(self.mu_squared):
            return 1e-300  # far in the tail: below e^{−700}
        return above(enclose(lambda: gaussian_hockey_stick(self.mu_squared, epsilon), absolute=1e-300))

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        from scipy.special import log_ndtr

        if not self.mu_squared:
            return np.zeros_like(epsilons)
        mu = self.mu
        first = log_ndtr(mu / 2 - epsilons / mu)
        second = epsilons + log_ndtr(-mu / 2 - epsilons / mu)
        value = np.exp(first) * (-np.expm1(np.minimum(0.0, second - first)) * (1 + 1e-9) + 1e-12)
        return np.asarray(value, dtype=np.float64)


def largest_gaussian(epsilon: Fraction, delta: Fraction) -> Fraction:
    """About the largest μ² with Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) ≤ δ, seen to hold with enclosures."""
    at = down(epsilon)

    def seems(log_square: float) -> bool:
        return Gaussian(Fraction(math.exp(log_square))).rough_profile(at) <= float(delta)

    rough = math.exp(boundary(seems, -120.0, 60.0, relative=0.0, absolute=1e-12))
    squares = (Fraction(rough * (1 - share)) for share in (*RETREATS, 0.5))
    found = certain(lambda square: Fraction(Gaussian(square).delta_at(at)) <= delta, squares)
    if found is None:
        target = f"epsilon={float(epsilon):g}, delta={float(delta):g}"
        raise InvalidInputError(f"{target}: no Gaussian loss meets the target")
    return found


@dataclass(frozen=True)
class Target:
    """What a posterior draw is to reach: ε at δ, or at a Rényi order."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    order: float | None = None

    @classmethod
    def of(
        cls, epsilon: EpsilonLike, delta: EpsilonLike | None, order: float | None, n: int, instead: str
    ) -> Target:
        """Of ``delta`` and ``order`` one is given; ``instead`` says what can be had without δ."""
        budget = as_epsilon(epsilon)
        if order is not None:
            return cls(budget, order=as_order(order))
        assert delta is not None
        return cls(budget, as_target_delta(delta, n, instead))

    @cached_property
    def mu_squared(self) -> Fraction:
        """The largest μ² of a Gaussian loss that meets it."""
        if self.order is not None:
            return 2 * self.epsilon / Fraction(self.order) * (1 - Fraction(1, 10**13))
        return largest_gaussian(self.epsilon, self.delta)

    def met(self, curve: Curve, rough: bool = False) -> bool:
        """Whether a curve is seen to meet it, or seems to."""
        if self.order is not None:
            value = curve.rdp(self.order)
            return math.isfinite(value) and Fraction(value) <= self.epsilon
        at = down(self.epsilon)
        return Fraction(curve.rough_profile(at) if rough else curve.delta_at(at)) <= self.delta

    def reached(self, curve: Curve) -> str:
        """What a curve gives, in the words of the target."""
        if self.order is None:
            return f"delta = {curve.delta_at(down(self.epsilon)):.4g} at epsilon = {float(self.epsilon):g}"
        if self.order >= curve.max_order:
            return f"finite values below order {curve.max_order:.6g} only"
        return f"epsilon = {curve.rdp(self.order):.4g} at order {self.order:g}"

    def to_dict(self) -> dict[str, Any]:
        """The target as JSON values."""
        at = {"delta": str(self.delta)} if self.order is None else {"order": self.order}
        return {"epsilon": str(self.epsilon), **at}

    def __str__(self) -> str:
        more = f"delta = {float(self.delta):g}" if self.order is None else f"order = {self.order:g}"
        return f"epsilon = {float(self.epsilon):g} at {more}"


def _least_over_orders(value: Callable[[float], float], max_order: float) -> float:
    """About the least value over the orders; each is a valid bound, so the search need not be perfect."""
    if max_order <= 1:
        return math.inf
    top = math.log(min(max_order - 1, _LARGEST_ORDER) * (1 - 1e-9))
    points = [top - 0.35 * i for i in range(70) if 1 + math.exp(top - 0.35 * i) > 1]
    if not points:
        return math.inf
    values = [value(1 + math.exp(point)) for point in points]
    at = min(range(len(values)), key=values.__getitem__)
    low, high = points[min(at + 1, len(points) - 1)], points[max(at - 1, 0)]
    golden = (math.sqrt(5) - 1) / 2
    best = values[at]
    for _ in range(30):
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = value(1 + math.exp(left)), value(1 + math.exp(right))
        best = min(best, at_left, at_right)
        low, high = (low, right) if at_left < at_right else (left, high)
    return best


def _log1p_exp(x: float) -> float:
    return math.log1p(math.exp(x)) if x < 0 else x + math.log1p(math.exp(-x))
