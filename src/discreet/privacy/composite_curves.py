"""Curves made of other curves: of parts, of groups, of approximations, of tables, and of several outputs."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import ClassVar, TypeAlias

import numpy as np

from discreet._declarations import as_rational
from discreet._numerics.enclosures import up
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError
from discreet.privacy._convolution import Composition
from discreet.privacy.curves import Approximate, Curve, Gaussian, as_delta

Profiles: TypeAlias = Callable[[Curve, FloatArray], FloatArray]
_INFINITE_LOSS = 700.0
_MOST_CONVOLVED = 2**22  # beyond, the grid is coarse against one loss, and Rényi orders may be ahead
_MOST_OUTPUTS = 10**11  # beyond, the convolution takes memory without a bound: orders only
_TINY = 1e-13  # where what is counted as an infinite loss may decide


def _as_count(value: int, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError("must be a whole number, at least 1", parameter=name, value=value)


class _Derived(Curve):
    """A curve made of others in the same way whether their profiles are sure or in floats."""

    @property
    @abstractmethod
    def inner(self) -> tuple[Curve, ...]: ...

    @abstractmethod
    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        """The profile by those of the inner curves."""

    def profile(self, epsilon: float) -> float:
        def sure(curve: Curve, at: FloatArray) -> FloatArray:
            return np.array([curve.delta_at(float(at[0]))])

        return float(self.derive_profile(sure, np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        return self.derive_profile(lambda curve, at: curve.profiles(at), epsilons)

    @property
    def is_vectorised(self) -> bool:
        return all(curve.is_vectorised for curve in self.inner)

    @property
    def work(self) -> float:
        return sum(curve.work for curve in self.inner)


@dataclass(frozen=True)
class Largest(_Derived):
    """The larger of several curves, at every order and every ε: parts of which one record touches one."""

    curves: tuple[Curve, ...]
    kind: ClassVar[str] = "largest"

    def __post_init__(self) -> None:
        if not self.curves:
            raise InvalidInputError("the largest of no curves is no curve")

    @property
    def inner(self) -> tuple[Curve, ...]:
        return self.curves

    @property
    def max_order(self) -> float:
        return min(curve.max_order for curve in self.curves)

    def renyi(self, order: float) -> float:
        return max(curve.renyi(order) for curve in self.curves)

    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        return np.asarray(np.max([profiles(curve, epsilons) for curve in self.curves], axis=0))

    @property
    def end(self) -> float:
        return max(curve.end for curve in self.curves)

    def zcdp(self) -> Fraction | None:
        known = [rate for curve in self.curves if (rate := curve.zcdp()) is not None]
        return max(known) if len(known) == len(self.curves) else None


@dataclass(frozen=True)
class _Around(_Derived):
    """What another curve becomes: its profile carries the guarantee, and no order is bounded."""

    curve: Curve

    @property
    def inner(self) -> tuple[Curve, ...]:
        return (self.curve,)


@dataclass(frozen=True)
class Group(_Around):
    """What holds for ``size`` records at once: δ_s(sε) ≤ δ(ε)·(e^{sε} − 1)/(e^ε − 1) (Vadhan 2017, 2.2)."""

    size: int
    kind: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        _as_count(self.size, "size")

    @property
    def end(self) -> float:
        own = self.curve.end
        return self.size * own if own < math.inf and self.curve.delta_at(own) == 0 else math.inf

    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        delta = profiles(self.curve, epsilons / self.size)
        small = np.clip(epsilons, 1e-9, _INFINITE_LOSS)  # at 0 the ratio is the size; it grows
        ratio = np.expm1(small) / np.expm1(small / self.size) * (1 + 1e-12)
        grown = np.where(epsilons > _INFINITE_LOSS, 1.0, np.minimum(1.0, delta * ratio))
        return np.asarray(np.where(delta == 0, 0.0, grown), dtype=np.float64)


def group_curve(curve: Curve, size: int) -> Curve:
    """The loss of ``size`` records at once: sμ where it is Gaussian, else by group privacy."""
    if size == 1:
        return curve
    square = curve.gaussian_squared
    return Group(curve, size) if square is None else Gaussian(size**2 * square)


@dataclass(frozen=True)
class Inexact(_Around):
    """Output laws within total variation τ of laws that have ``curve``: δ(ε) + (1 + e^ε)τ.

    P̂(A) ≤ P(A) + τ ≤ e^ε Q(A) + δ + τ ≤ e^ε (Q̂(A) + τ) + δ + τ. The sum rises again for large ε while the
    true profile does not, so from its least value on that value holds. Rényi divergences have no bound.
    """

    tau: Fraction
    kind: ClassVar[str] = "inexact"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", as_rational(self.tau, "tau", 0, 1))

    @property
    def work(self) -> float:
        return self.curve.work * (2 if self.curve.is_vectorised else 500)

    @cached_property
    def end(self) -> float:
        """About where the sum is least; any ε may stand here, because the sum is a bound at each."""
        if not self.tau:
            return self.curve.end
        epsilons = np.linspace(0.0, min(_INFINITE_LOSS, self.curve.end), 1 << 15)
        return float(epsilons[np.argmin(self._with_tau(self.curve.profiles(epsilons), epsilons))])

    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        at = np.minimum(epsilons, self.end)
        return self._with_tau(profiles(self.curve, at), at)

    def _with_tau(self, delta: FloatArray, epsilon: FloatArray) -> FloatArray:
        added = (1 + np.exp(np.minimum(epsilon, _INFINITE_LOSS))) * float(self.tau)
        return np.asarray(np.minimum(1.0, (delta + added) * (1 + 1e-14)), dtype=np.float64)


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

    def __post_init__(self) -> None:
        for name in ("epsilons", "deltas"):
            object.__setattr__(self, name, tuple(float(value) for value in getattr(self, name)))
        if self.pure is not None:
            object.__setattr__(self, "pure", as_rational(self.pure, "pure", 0))
        increasing = all(a < b for a, b in pairwise(self.epsilons))
        if not (
            0 < len(self.epsilons) == len(self.deltas)
            and increasing
            and 0 <= self.epsilons[0] <= self.epsilons[-1] < math.inf
            and all(0 <= delta <= 1 for delta in self.deltas)
        ):
            raise InvalidInputError(
                "a table of a profile needs increasing epsilons from 0 on, and deltas in [0, 1]"
            )

    @property
    def max_order(self) -> float:
        return 1.0 if self.pure is None else math.inf

    def renyi(self, order: float) -> float:
        return math.inf if self.pure is None else Approximate(self.pure).renyi(order)

    @property
    def end(self) -> float:
        return self.epsilons[-1]

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        known = np.exp(np.minimum(self.epsilons, _INFINITE_LOSS))
        chords = np.interp(np.exp(np.minimum(epsilons, _INFINITE_LOSS)), known, self.deltas) * (1 + 1e-12)
        if self.pure is not None:
            chords = np.where(epsilons >= up(self.pure), 0.0, chords)
        return np.asarray(np.minimum(chords, 1.0), dtype=np.float64)

    def zcdp(self) -> Fraction | None:
        return None if self.pure is None else Approximate(self.pure).zcdp()


@dataclass(frozen=True)
class Composed(Curve):
    """Several outputs of the same data: ``parts`` are distinct curves with how often each was spent.

    Made by :func:`composed`, which keeps one normal form, so that the order of spending does not matter.
    """

    parts: tuple[tuple[Curve, int], ...]
    kind: ClassVar[str] = "composed"
    vectorised = False

    def __post_init__(self) -> None:
        if not self.parts:
            raise InvalidInputError("a composition of no curves is no curve")
        for _, count in self.parts:
            _as_count(count, "count")

    @property
    def work(self) -> float:
        each = (
            5e-4 if curve.response else 0.1 if curve.is_vectorised else 100 * curve.work
            for curve, _ in self.parts
        )
        return 0.1 + sum(each)

    @property
    def _outputs(self) -> int:
        return sum(count for _, count in self.parts)

    @property
    def max_order(self) -> float:
        return min(curve.max_order for curve, _ in self.parts)

    def renyi(self, order: float) -> float:
        return math.fsum(count * curve.renyi(order) for curve, count in self.parts)

    @cached_property
    def _reach(self) -> float:
        return math.fsum(min(count * curve.end, 1e300) for curve, count in self.parts) * (1 + 1e-12)

    def profile(self, epsilon: float) -> float:
        """The least of what basic composition, the Rényi curve and the convolution of profiles give."""
        found = self.rough_profile(epsilon)
        if self._basic is not None and epsilon >= self._basic[0]:
            return found
        if self.max_order > 1 and (found <= _TINY or self._outputs > _MOST_CONVOLVED):
            found = min(found, self.rdp_delta_at(epsilon))  # the orders reach further into the tail
        # Never exactly 0 where the losses reach beyond ε: a bound that has underflowed is none.
        return max(found, 1e-300) if epsilon < self._reach else found

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        return np.array([self.profile(float(epsilon)) for epsilon in epsilons])

    def rough_profile(self, epsilon: float) -> float:
        if self._basic is not None and epsilon >= self._basic[0]:
            return up(self._basic[1])
        return self._composition.delta(epsilon) if self._outputs <= _MOST_OUTPUTS else 1.0

    def epsilon_at(self, delta: float) -> float:
        near = as_delta(delta) > _TINY and self._outputs <= _MOST_OUTPUTS
        found = self._composition.epsilon(delta) if near else math.inf
        basic = self._basic
        if basic is not None and up(basic[1]) <= delta:
            found = min(found, up(basic[0]))
        if math.isfinite(found) and (self._outputs <= _MOST_CONVOLVED or self.max_order <= 1):
            return found
        by_orders = self.rdp_epsilon_at(delta) if self.max_order > 1 else math.inf
        return min(found if math.isfinite(found) else super().epsilon_at(delta), by_orders)

    @cached_property
    def _basic(self) -> tuple[Fraction, Fraction] | None:
        pairs = [(curve, count) for curve, count in self.parts if isinstance(curve, Approximate)]
        if len(pairs) < len(self.parts):
            return None
        epsilon = sum((count * curve.epsilon for curve, count in pairs), Fraction(0))
        return epsilon, sum((count * curve.delta for curve, count in pairs), Fraction(0))

    @cached_property
    def _composition(self) -> Composition:
        return Composition(self.parts)

    def zcdp(self) -> Fraction | None:
        known = [count * rate for curve, count in self.parts if (rate := curve.zcdp()) is not None]
        return sum(known, Fraction(0)) if len(known) == len(self.parts) else None


def compose_curves(spent: Sequence[tuple[Curve, int]]) -> Curve:
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
