"""Privacy curves: all that is known of a mechanism's loss, in the three currencies that compose or convert.

A curve bounds two functions for every pair of neighbouring datasets with output laws P, Q, in both orders:

* ``rdp(λ)`` ≥ D_λ(P‖Q), the Rényi divergence of order λ > 1, infinite from λ* = ``max_order`` on;
* ``delta_at(ε)`` ≥ sup_A P(A) − e^ε Q(A), the privacy profile: (ε, δ(ε))-differential privacy for every ε.

Composition adds the first and convolves the second (:mod:`discreet.convolution`). A curve knows no mechanism:
whoever has another law adds a subclass with a ``kind``, and everything in here works on it.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet.convolution import FloatArray, Losses, Profile, composed_delta, grid
from discreet.core import InvalidInput
from discreet.rigorous import above, ball, enclose, up

_LARGEST_ORDER = 1e7
_INFINITE_LOSS = 700.0


class Curve(ABC):
    """What one output may reveal; see the module."""

    kind: ClassVar[str]
    kinds: ClassVar[dict[str, type[Curve]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "kind" in vars(cls):
            Curve.kinds[cls.kind] = cls

    @property
    def max_order(self) -> float:
        """λ*: the Rényi divergence may be infinite from this order on."""
        return math.inf

    @abstractmethod
    def renyi(self, order: float) -> float:
        """An upper bound on the Rényi divergence of an order that has been checked."""

    @abstractmethod
    def profile(self, epsilon: float) -> float:
        """An upper bound on the δ of ``epsilon`` ≥ 0."""

    def rough_profile(self, epsilon: float) -> float:
        """About ``profile``, quickly: where to look, never what to report."""
        return float(self.profiles(np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Upper bounds on the δ of many ε ≥ 0, in floats: the rounding is inside a margin that is added."""
        return np.array([self.profile(float(epsilon)) for epsilon in epsilons])

    @property
    def end(self) -> float:
        """An ε from which on δ falls no more."""
        return math.inf

    def to_dict(self) -> dict[str, Any]:
        """JSON values from which :meth:`from_dict` builds the same curve."""
        return {"kind": self.kind, **self._parameters()}

    @abstractmethod
    def _parameters(self) -> dict[str, Any]: ...

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Curve:
        parameters = dict(content)
        kind = parameters.pop("kind")
        if kind not in Curve.kinds:
            raise InvalidInput(f"a privacy curve of kind {kind!r} is unknown; update discreet")
        return Curve.kinds[kind]._build(parameters)

    @classmethod
    @abstractmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Curve: ...

    def zcdp(self) -> Fraction | None:
        """The ρ of zero-concentrated privacy, D_λ ≤ ρλ for every λ; None where there is none."""
        return None

    @property
    def gaussian_squared(self) -> Fraction | None:
        """μ² where the curve is that of N(0, 1) against N(μ, 1) (μ-GDP)."""
        return None

    def rdp(self, order: float) -> float:
        """ε(λ): an upper bound on the Rényi divergence of order λ > 1, infinite from ``max_order`` on."""
        order = as_order(order)
        return math.inf if order >= self.max_order else self.renyi(order)

    def delta_at(self, epsilon: float) -> float:
        """The smallest δ known for which the output is (ε, δ)-private."""
        epsilon = float(epsilon)
        if not (epsilon >= 0 and math.isfinite(epsilon)):
            raise InvalidInput(f"epsilon={epsilon!r} must be a finite number, at least 0")
        return min(1.0, self.profile(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε known for which the output is (ε, δ)-private; infinite where none is.

        Found by bisection; the answer is the end of the bracket at which δ was seen to hold.
        """
        delta = as_delta(delta)

        def holds(epsilon: float) -> bool:
            return self.delta_at(epsilon) <= delta

        high = _least(lambda e: self.rough_profile(e) <= delta)
        for widening in (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
            if math.isfinite(high) and holds(high * (1 + widening)):
                return high * (1 + widening)
        return _least(holds)

    def rdp_delta_at(self, epsilon: float) -> float:
        """The δ that follows from the Rényi curve alone (Canonne, Kamath and Steinke 2020, Prop. 12)."""

        def log_delta(order: float) -> float:
            above_one = order - 1
            return above_one * (self.renyi(order) - epsilon) - math.log(above_one) + order * _log1m(1 / order)

        # Not below what floats tell from 0: a bound of exactly 0 would be a claim of its own.
        least = min(0.0, max(_least_over_orders(log_delta, self.max_order), -690.0))
        return min(1.0, math.exp(least) * (1 + 1e-12))

    def rdp_epsilon_at(self, delta: float) -> float:
        """The ε that follows from the Rényi curve alone."""
        delta = as_delta(delta)
        if delta == 0:
            return math.inf

        def epsilon(order: float) -> float:
            return self.renyi(order) + _log1m(1 / order) - math.log(delta * order) / (order - 1)

        return max(0.0, _least_over_orders(epsilon, self.max_order) * (1 + 1e-12))


def as_order(order: float) -> float:
    """A Rényi order λ: a number above 1."""
    try:
        value = float(order)
    except (TypeError, ValueError):
        value = math.nan
    if not (value > 1 and math.isfinite(value)):
        raise InvalidInput(f"order={order!r} must be a finite number above 1, such as 10")
    return value


def as_delta(delta: Any, name: str = "delta") -> float:
    try:
        value = float(delta)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value < 1:
        raise InvalidInput(f"{name}={delta!r} must be a probability below 1, such as 1e-6")
    return value


@dataclass(frozen=True)
class Approximate(Curve):
    """All that (ε, δ)-differential privacy says: with probability δ anything, else randomised response.

    Its profile is that of the least private such mechanism (Kairouz, Oh and Viswanath 2015), so what is
    composed from it holds for every mechanism with this ε and δ.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    kind: ClassVar[str] = "approximate"

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

    def profile(self, epsilon: float) -> float:
        return float(self.profiles(np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        own, delta = up(self.epsilon), up(self.delta)
        rest = -np.expm1(np.minimum(epsilons - own, 0.0)) / (1 + math.exp(-own))
        return np.asarray((delta + (1 - delta) * rest) * np.where(rest > 0, 1 + 1e-13, 1.0), dtype=np.float64)

    def zcdp(self) -> Fraction | None:
        return None if self.delta else self.epsilon * self.epsilon / 2

    def _parameters(self) -> dict[str, Any]:
        return {"epsilon": str(self.epsilon), "delta": str(self.delta)}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Approximate:
        return cls(Fraction(parameters["epsilon"]), Fraction(parameters["delta"]))


@dataclass(frozen=True)
class Gaussian(Curve):
    """μ-GDP: as hard to tell apart as N(0, 1) and N(μ, 1); held exactly through μ²."""

    mu_squared: Fraction
    kind: ClassVar[str] = "gaussian"

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
        """Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) (Balle and Wang 2018)."""
        if not self.mu_squared:
            return 0.0
        rough = self.rough_profile(epsilon)
        if rough == 0.0 and epsilon > 40 * self.mu + float(self.mu_squared):
            return 1e-300  # far in the tail: below e^{−700}

        def value() -> Any:
            mu = ball(self.mu_squared).sqrt()
            far, near = (ball(epsilon) / mu + sign * mu / 2 for sign in (1, -1))
            root = ball(2).sqrt()
            return ((near / root).erfc() - ball(epsilon).exp() * (far / root).erfc()) / 2

        return above(enclose(value, absolute=1e-300))

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        from scipy.special import log_ndtr

        if not self.mu_squared:
            return np.zeros_like(epsilons)
        mu = self.mu
        first = log_ndtr(mu / 2 - epsilons / mu)
        second = epsilons + log_ndtr(-mu / 2 - epsilons / mu)
        value = np.exp(first) * (-np.expm1(np.minimum(0.0, second - first)) * (1 + 1e-9) + 1e-12)
        return np.asarray(value, dtype=np.float64)

    def _parameters(self) -> dict[str, Any]:
        return {"mu_squared": str(self.mu_squared)}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Gaussian:
        return cls(Fraction(parameters["mu_squared"]))


@dataclass(frozen=True)
class Largest(Curve):
    """The larger of several curves, at every order and every ε: parts of which one record touches one."""

    curves: tuple[Curve, ...]
    kind: ClassVar[str] = "largest"

    @property
    def max_order(self) -> float:
        return min(curve.max_order for curve in self.curves)

    def renyi(self, order: float) -> float:
        return max(curve.renyi(order) for curve in self.curves)

    def profile(self, epsilon: float) -> float:
        return max(curve.delta_at(epsilon) for curve in self.curves)

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        return np.asarray(np.max([curve.profiles(epsilons) for curve in self.curves], axis=0))

    @property
    def end(self) -> float:
        return max(curve.end for curve in self.curves)

    def zcdp(self) -> Fraction | None:
        rates = [curve.zcdp() for curve in self.curves]
        known = [rate for rate in rates if rate is not None]
        return max(known) if len(known) == len(rates) else None

    def _parameters(self) -> dict[str, Any]:
        return {"curves": [curve.to_dict() for curve in self.curves]}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Largest:
        return cls(tuple(Curve.from_dict(part) for part in parameters["curves"]))


@dataclass(frozen=True)
class Group(Curve):
    """What holds for ``size`` records at once: δ_s(sε) ≤ δ(ε)·(e^{sε} − 1)/(e^ε − 1) (Vadhan 2017, 2.2)."""

    curve: Curve
    size: int
    kind: ClassVar[str] = "group"

    @property
    def max_order(self) -> float:
        return 1.0  # no useful bound on the Rényi divergences; the profile carries the guarantee

    def renyi(self, order: float) -> float:
        return math.inf

    @property
    def end(self) -> float:
        return self.size * self.curve.end if self.curve.delta_at(self.curve.end) == 0 else math.inf

    def profile(self, epsilon: float) -> float:
        return float(
            self._grown(np.array([self.curve.delta_at(epsilon / self.size)]), np.array([epsilon]))[0]
        )

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        return self._grown(self.curve.profiles(epsilons / self.size), epsilons)

    def _grown(self, delta: FloatArray, epsilon: FloatArray) -> FloatArray:
        small = np.minimum(np.maximum(epsilon, 1e-9), _INFINITE_LOSS)  # at 0 the ratio is the size; it grows
        ratio = np.expm1(small) / np.expm1(small / self.size) * (1 + 1e-12)
        grown = np.where(epsilon > _INFINITE_LOSS, 1.0, np.minimum(1.0, delta * ratio))
        return np.asarray(np.where(delta == 0, 0.0, grown), dtype=np.float64)

    def _parameters(self) -> dict[str, Any]:
        return {"curve": self.curve.to_dict(), "size": self.size}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Group:
        return cls(Curve.from_dict(parameters["curve"]), int(parameters["size"]))


@dataclass(frozen=True)
class Inexact(Curve):
    """Output laws within total variation τ of laws that have ``curve``: δ(ε) + (1 + e^ε)τ.

    P̂(A) ≤ P(A) + τ ≤ e^ε Q(A) + δ + τ ≤ e^ε (Q̂(A) + τ) + δ + τ. The sum rises again for large ε while the
    true profile does not, so from its least value on that value holds. Rényi divergences have no bound.
    """

    curve: Curve
    tau: Fraction
    kind: ClassVar[str] = "inexact"

    @property
    def max_order(self) -> float:
        return 1.0

    def renyi(self, order: float) -> float:
        return math.inf

    @cached_property
    def end(self) -> float:
        """About where the sum is least; any ε may stand here, because the sum is a bound at each."""
        if not self.tau:
            return self.curve.end
        epsilons = np.linspace(0.0, min(_INFINITE_LOSS, self.curve.end), 1 << 15)
        return float(epsilons[np.argmin(self._with_tau(self.curve.profiles(epsilons), epsilons))])

    def profile(self, epsilon: float) -> float:
        at = min(epsilon, self.end)
        return float(self._with_tau(np.array([self.curve.delta_at(at)]), np.array([at]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        at = np.minimum(epsilons, self.end)
        return self._with_tau(self.curve.profiles(at), at)

    def _with_tau(self, delta: FloatArray, epsilon: FloatArray) -> FloatArray:
        added = (1 + np.exp(np.minimum(epsilon, _INFINITE_LOSS))) * float(self.tau)
        return np.asarray(np.minimum(1.0, (delta + added) * (1 + 1e-14)), dtype=np.float64)

    def _parameters(self) -> dict[str, Any]:
        return {"curve": self.curve.to_dict(), "tau": str(self.tau)}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Inexact:
        return cls(Curve.from_dict(parameters["curve"]), Fraction(parameters["tau"]))


@dataclass(frozen=True)
class Tabulated(Curve):
    """A profile that is known at some ε, such as that of an audit; between them its chords in e^ε.

    A profile is convex in e^ε, so a chord lies above it; beyond the last ε the last δ holds. ``pure``: an ε
    at which δ is 0, if there is one, which bounds the Rényi divergences.
    """

    epsilons: tuple[float, ...]
    deltas: tuple[float, ...]
    pure: Fraction | None = None
    kind: ClassVar[str] = "tabulated"

    @property
    def max_order(self) -> float:
        return 1.0 if self.pure is None else math.inf

    def renyi(self, order: float) -> float:
        return math.inf if self.pure is None else Approximate(self.pure).renyi(order)

    @property
    def end(self) -> float:
        return self.epsilons[-1]

    def profile(self, epsilon: float) -> float:
        return float(self.profiles(np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        known = np.exp(np.minimum(self.epsilons, _INFINITE_LOSS))
        chords = np.interp(np.exp(np.minimum(epsilons, _INFINITE_LOSS)), known, self.deltas) * (1 + 1e-12)
        if self.pure is not None:
            chords = np.where(epsilons >= up(self.pure), 0.0, chords)
        return np.asarray(np.minimum(chords, 1.0), dtype=np.float64)

    def zcdp(self) -> Fraction | None:
        return None if self.pure is None else self.pure * self.pure / 2

    def _parameters(self) -> dict[str, Any]:
        pure = None if self.pure is None else str(self.pure)
        return {"epsilons": list(self.epsilons), "deltas": list(self.deltas), "pure": pure}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Tabulated:
        pure = parameters["pure"]
        epsilons, deltas = (tuple(float(x) for x in parameters[name]) for name in ("epsilons", "deltas"))
        return cls(epsilons, deltas, None if pure is None else Fraction(pure))


@dataclass(frozen=True)
class Composed(Curve):
    """Several outputs of the same data: ``parts`` are distinct curves with how often each was spent.

    Made by :func:`composed`, which keeps one normal form, so that the order of spending does not matter.
    """

    parts: tuple[tuple[Curve, int], ...]
    kind: ClassVar[str] = "composed"

    @property
    def max_order(self) -> float:
        return min(curve.max_order for curve, _ in self.parts)

    def renyi(self, order: float) -> float:
        return math.fsum(count * curve.renyi(order) for curve, count in self.parts)

    def profile(self, epsilon: float) -> float:
        """The least of what basic composition, the Rényi curve and the convolution of profiles give."""
        basic = self._basic
        if basic is not None and epsilon >= basic[0]:
            return up(basic[1])
        best = self.rdp_delta_at(epsilon) if self.max_order > 1 else 1.0
        return min(best, composed_delta(*self._losses, epsilon))

    def rough_profile(self, epsilon: float) -> float:
        basic = self._basic
        if basic is not None and epsilon >= basic[0]:
            return up(basic[1])
        return composed_delta(*self._losses, epsilon)

    def epsilon_at(self, delta: float) -> float:
        by_orders = self.rdp_epsilon_at(delta) if self.max_order > 1 else math.inf
        return min(super().epsilon_at(delta), by_orders)

    @cached_property
    def _basic(self) -> tuple[Fraction, Fraction] | None:
        pairs = [(curve, count) for curve, count in self.parts if isinstance(curve, Approximate)]
        if len(pairs) < len(self.parts):
            return None
        epsilon = sum((count * curve.epsilon for curve, count in pairs), Fraction(0))
        return epsilon, sum((count * curve.delta for curve, count in pairs), Fraction(0))

    @cached_property
    def _losses(self) -> tuple[list[tuple[Losses, int]], float]:
        return grid([(Profile(curve.profiles, curve.end), count) for curve, count in self.parts])

    def zcdp(self) -> Fraction | None:
        total = Fraction(0)
        for curve, count in self.parts:
            rate = curve.zcdp()
            if rate is None:
                return None
            total += count * rate
        return total

    def _parameters(self) -> dict[str, Any]:
        return {"parts": [[curve.to_dict(), count] for curve, count in self.parts]}

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Composed:
        return cls(tuple((Curve.from_dict(part), int(count)) for part, count in parameters["parts"]))


def composed(spent: Sequence[tuple[Curve, int]]) -> Curve:
    """One curve for all that was spent: Gaussians as one Gaussian, equal curves counted together."""
    counts: dict[Curve, int] = {}
    squares = Fraction(0)

    def add(curve: Curve, count: int) -> None:
        nonlocal squares
        if isinstance(curve, Composed):
            for part, times in curve.parts:
                add(part, times * count)
        elif (square := curve.gaussian_squared) is not None:
            squares += count * square
        elif not (isinstance(curve, Approximate) and curve.epsilon == 0 and curve.delta == 0):
            counts[curve] = counts.get(curve, 0) + count

    for curve, count in spent:
        add(curve, count)
    if squares:
        counts[Gaussian(squares)] = 1
    parts = sorted(counts.items(), key=lambda part: json.dumps(part[0].to_dict(), sort_keys=True))
    if not parts:
        return Gaussian(Fraction(0))
    return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else Composed(tuple(parts))


def _least(holds: Callable[[float], bool]) -> float:
    """The least ε ≥ 0, to 10 digits and on the side where it holds, of a condition that stays true."""
    if holds(0.0):
        return 0.0
    high = 1.0
    while not holds(high):
        high *= 2
        if high > 1e9:
            return math.inf
    low = 0.0 if high == 1.0 else high / 2
    while high - low > 1e-10 * high:
        middle = (low + high) / 2
        if holds(middle):
            high = middle
        else:
            low = middle
        if high < 1e-300:
            break
    return high


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
        if at_left < at_right:
            high = right
        else:
            low = left
    return best


def _log1m(x: float) -> float:
    return math.log1p(-x)


def _log1p_exp(x: float) -> float:
    return math.log1p(math.exp(x)) if x < 0 else x + math.log1p(math.exp(-x))
