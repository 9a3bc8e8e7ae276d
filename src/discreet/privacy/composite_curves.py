"""Curves built from other curves: the largest, groups of records, approximations, tables and compositions."""

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
_MAX_FINITE_LOSS = 700.0
_MAX_CONVOLVED_OUTPUTS = 2**22  # beyond, the grid is coarse against one loss, and Rényi orders may be ahead
_MAX_GRID_OUTPUTS = 10**11  # beyond, the convolution takes memory without a bound: orders only
_TAIL_DELTA = 1e-13  # where what is counted as an infinite loss may decide


def _as_count(value: int, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidInputError("must be a whole number, at least 1", name, value)


class _Derived(Curve):
    """A curve derived from others by a formula for exact and for floating-point profiles alike."""

    @property
    @abstractmethod
    def inner(self) -> tuple[Curve, ...]: ...

    @abstractmethod
    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        """Compute the profile from those of the inner curves.

        Parameters
        ----------
        profiles
            Function of an inner curve and values of ε that returns its δ.
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """

    def profile(self, epsilon: float) -> float:
        """Bound δ at one ε.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            An upper bound on δ(ε).
        """

        def _delta_of(curve: Curve, at: FloatArray) -> FloatArray:
            return np.array([curve.delta_at(float(at[0]))])

        return float(self.derive_profile(_delta_of, np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Bound δ at many values of ε.

        Parameters
        ----------
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """
        return self.derive_profile(lambda curve, at: curve.profiles(at), epsilons)

    @property
    def is_vectorised(self) -> bool:
        return all(curve.is_vectorised for curve in self.inner)

    @property
    def work(self) -> float:
        return sum(curve.work for curve in self.inner)


@dataclass(frozen=True)
class Largest(_Derived):
    """The pointwise largest of several curves, for disjoint parts of the data: each record is in only one.

    Parameters
    ----------
    curves
        The curves, at least one.

    Examples
    --------
    >>> Largest((Gaussian(Fraction(1)), Approximate(Fraction(2)))).delta_at(2) > 0
    True
    """

    curves: tuple[Curve, ...]
    kind: ClassVar[str] = "largest"

    def __post_init__(self) -> None:
        if not self.curves:
            raise InvalidInputError("curves must have at least one curve")

    @property
    def inner(self) -> tuple[Curve, ...]:
        return self.curves

    @property
    def max_order(self) -> float:
        return min(curve.max_order for curve in self.curves)

    def renyi(self, order: float) -> float:
        """Bound the Rényi divergence by the largest of the curves.

        Parameters
        ----------
        order
            Rényi order λ above 1.

        Returns
        -------
        float
            An upper bound on D_λ.
        """
        return max(curve.renyi(order) for curve in self.curves)

    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        """Take the largest δ of the curves at each ε.

        Parameters
        ----------
        profiles
            Function of an inner curve and values of ε that returns its δ.
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """
        return np.asarray(np.max([profiles(curve, epsilons) for curve in self.curves], axis=0))

    @property
    def end(self) -> float:
        return max(curve.end for curve in self.curves)

    def zcdp(self) -> Fraction | None:
        rates = [rate for curve in self.curves if (rate := curve.zcdp()) is not None]
        return max(rates) if len(rates) == len(self.curves) else None


@dataclass(frozen=True)
class _Around(_Derived):
    """A curve derived from one other: it has a profile but no bound on Rényi divergences."""

    curve: Curve

    @property
    def inner(self) -> tuple[Curve, ...]:
        return (self.curve,)


@dataclass(frozen=True)
class Group(_Around):
    """The curve for ``size`` records at once: δ_s(sε) ≤ δ(ε)·(e^{sε} − 1)/(e^ε − 1) (Vadhan 2017, 2.2).

    Parameters
    ----------
    curve
        The curve for one record.
    size
        Number of records s.

    Examples
    --------
    >>> Group(Approximate(Fraction(1, 2)), 3).epsilon_at(0)
    1.5
    """

    size: int
    kind: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        _as_count(self.size, "size")

    @property
    def end(self) -> float:
        single_end = self.curve.end
        return (
            self.size * single_end
            if single_end < math.inf and self.curve.delta_at(single_end) == 0
            else math.inf
        )

    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        """Compute the profile of the group from that of one record.

        Parameters
        ----------
        profiles
            Function of the inner curve and values of ε that returns its δ.
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """
        delta = profiles(self.curve, epsilons / self.size)
        small = np.clip(epsilons, 1e-9, _MAX_FINITE_LOSS)  # at 0 the ratio is the size; it grows
        ratio = np.expm1(small) / np.expm1(small / self.size) * (1 + 1e-12)
        grown = np.where(epsilons > _MAX_FINITE_LOSS, 1.0, np.minimum(1.0, delta * ratio))
        return np.asarray(np.where(delta == 0, 0.0, grown), dtype=np.float64)


def group_curve(curve: Curve, size: int) -> Curve:
    """Return the curve for ``size`` records at once.

    Parameters
    ----------
    curve
        The curve for one record.
    size
        Number of records s.

    Returns
    -------
    Curve
        The Gaussian curve with sμ in place of μ if the loss is Gaussian, and otherwise a :class:`Group`.

    Examples
    --------
    >>> group_curve(Gaussian(Fraction(1)), 3)
    Gaussian(mu_squared=Fraction(9, 1))
    """
    if size == 1:
        return curve
    square = curve.gaussian_squared
    return Group(curve, size) if square is None else Gaussian(size**2 * square)


@dataclass(frozen=True)
class Inexact(_Around):
    """The curve δ(ε) + (1 + e^ε)τ of outputs within total variation τ of outputs with ``curve``.

    Parameters
    ----------
    curve
        The curve of the exact outputs.
    tau
        Total variation distance τ, exactly.

    Notes
    -----
    P̂(A) ≤ P(A) + τ ≤ e^ε Q(A) + δ + τ ≤ e^ε (Q̂(A) + τ) + δ + τ. The sum rises again for large ε while the
    true profile does not, so its least value bounds δ at every larger ε. Rényi divergences have no bound.

    Examples
    --------
    >>> Inexact(Approximate(Fraction(1)), Fraction(1, 10**9)).delta_at(1) < 4e-9
    True
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
        """The ε beyond which the bound is constant, near the minimum of the sum; every choice is valid."""
        if not self.tau:
            return self.curve.end
        epsilons = np.linspace(0.0, min(_MAX_FINITE_LOSS, self.curve.end), 1 << 15)
        return float(epsilons[np.argmin(self._with_tau(self.curve.profiles(epsilons), epsilons))])

    def derive_profile(self, profiles: Profiles, epsilons: FloatArray) -> FloatArray:
        """Compute the profile from that of the exact outputs.

        Parameters
        ----------
        profiles
            Function of the inner curve and values of ε that returns its δ.
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """
        at = np.minimum(epsilons, self.end)
        return self._with_tau(profiles(self.curve, at), at)

    def _with_tau(self, delta: FloatArray, epsilon: FloatArray) -> FloatArray:
        added = (1 + np.exp(np.minimum(epsilon, _MAX_FINITE_LOSS))) * float(self.tau)
        return np.asarray(np.minimum(1.0, (delta + added) * (1 + 1e-14)), dtype=np.float64)


@dataclass(frozen=True)
class Tabulated(Curve):
    """A profile given at some values of ε, for example by an audit, and interpolated linearly in e^ε.

    Parameters
    ----------
    epsilons
        Increasing values of ε, the first of which is 0.
    deltas
        δ at each of them.
    pure
        An ε at which δ is 0, which bounds the Rényi divergences; None if there is none.

    Notes
    -----
    A profile is convex in e^ε, so a chord lies above it. Beyond the last ε, the last δ is the bound.

    Examples
    --------
    >>> table = Tabulated((0.0, 1.0), (0.5, 0.01))
    >>> round(table.delta_at(0.5), 3), round(table.delta_at(2), 3)
    (0.315, 0.01)
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
            raise InvalidInputError("epsilons must increase from 0 on, with one delta in [0, 1] for each")

    @property
    def max_order(self) -> float:
        return 1.0 if self.pure is None else math.inf

    def renyi(self, order: float) -> float:
        """Bound the Rényi divergence by that of the pure ε.

        Parameters
        ----------
        order
            Rényi order λ above 1.

        Returns
        -------
        float
            An upper bound on D_λ, infinite where no pure ε is known.
        """
        return math.inf if self.pure is None else Approximate(self.pure).renyi(order)

    @property
    def end(self) -> float:
        return self.epsilons[-1]

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Interpolate the table linearly in e^ε.

        Parameters
        ----------
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """
        ratios = np.exp(np.minimum(self.epsilons, _MAX_FINITE_LOSS))
        chords = np.interp(np.exp(np.minimum(epsilons, _MAX_FINITE_LOSS)), ratios, self.deltas) * (1 + 1e-12)
        if self.pure is not None:
            chords = np.where(epsilons >= up(self.pure), 0.0, chords)
        return np.asarray(np.minimum(chords, 1.0), dtype=np.float64)

    def zcdp(self) -> Fraction | None:
        return None if self.pure is None else Approximate(self.pure).zcdp()


@dataclass(frozen=True)
class Composed(Curve):
    """The curve of several outputs about the same data.

    Build it with :func:`compose_curves`, which merges equal curves, so that the order does not matter.

    Parameters
    ----------
    parts
        Distinct curves, each with the number of outputs that have it.

    Examples
    --------
    >>> composed = Composed(((Approximate(Fraction(1, 10)), 100),))
    >>> composed.epsilon_at(0), round(composed.epsilon_at(1e-6), 2)
    (10.0, 4.77)
    """

    parts: tuple[tuple[Curve, int], ...]
    kind: ClassVar[str] = "composed"
    is_vectorised = False

    def __post_init__(self) -> None:
        if not self.parts:
            raise InvalidInputError("parts must have at least one curve")
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
        """Add the Rényi divergences of the parts.

        Parameters
        ----------
        order
            Rényi order λ above 1.

        Returns
        -------
        float
            An upper bound on D_λ.
        """
        return math.fsum(count * curve.renyi(order) for curve, count in self.parts)

    @cached_property
    def _reach(self) -> float:
        return math.fsum(min(count * curve.end, 1e300) for curve, count in self.parts) * (1 + 1e-12)

    def profile(self, epsilon: float) -> float:
        """Take the least δ from basic composition, the Rényi divergences and the convolution of profiles.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            An upper bound on δ(ε).
        """
        delta = self.rough_profile(epsilon)
        if self._basic is not None and epsilon >= self._basic[0]:
            return delta
        if self.max_order > 1 and (delta <= _TAIL_DELTA or self._outputs > _MAX_CONVOLVED_OUTPUTS):
            delta = min(delta, self.rdp_delta_at(epsilon))  # the orders reach further into the tail
        # Never exactly 0 where the losses reach beyond ε: a bound that has underflowed is none.
        return max(delta, 1e-300) if epsilon < self._reach else delta

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Bound δ at many values of ε, one after the other.

        Parameters
        ----------
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """
        return np.array([self.profile(float(epsilon)) for epsilon in epsilons])

    def rough_profile(self, epsilon: float) -> float:
        """Bound δ by basic composition or the convolution of profiles.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            An upper bound on δ(ε).
        """
        if self._basic is not None and epsilon >= self._basic[0]:
            return up(self._basic[1])
        return self._composition.delta(epsilon) if self._outputs <= _MAX_GRID_OUTPUTS else 1.0

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest proven ε for which all the outputs together are (ε, δ)-differentially private.

        Parameters
        ----------
        delta
            δ, at least 0 and below 1.

        Returns
        -------
        float
            ε, infinite where there is none.
        """
        near = as_delta(delta) > _TAIL_DELTA and self._outputs <= _MAX_GRID_OUTPUTS
        epsilon = self._composition.epsilon(delta) if near else math.inf
        basic = self._basic
        if basic is not None and up(basic[1]) <= delta:
            epsilon = min(epsilon, up(basic[0]))
        if math.isfinite(epsilon) and (self._outputs <= _MAX_CONVOLVED_OUTPUTS or self.max_order <= 1):
            return epsilon
        by_orders = self.rdp_epsilon_at(delta) if self.max_order > 1 else math.inf
        return min(epsilon if math.isfinite(epsilon) else super().epsilon_at(delta), by_orders)

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
        rates = [count * rate for curve, count in self.parts if (rate := curve.zcdp()) is not None]
        return sum(rates, Fraction(0)) if len(rates) == len(self.parts) else None


def compose_curves(spent: Sequence[tuple[Curve, int]]) -> Curve:
    """Combine curves of outputs about the same data.

    Parameters
    ----------
    spent
        Curves, each with the number of outputs that have it.

    Returns
    -------
    Curve
        One curve in normal form: Gaussian losses add their μ², and equal curves are counted together.

    Examples
    --------
    >>> compose_curves([(Gaussian(Fraction(1)), 2), (Gaussian(Fraction(1, 2)), 1)])
    Gaussian(mu_squared=Fraction(5, 2))
    >>> half = Approximate(Fraction(1, 2))
    >>> compose_curves([(half, 1), (half, 2)]).parts[0][1]
    3
    """
    counts: dict[Curve, int] = {}
    squares = Fraction(0)

    def _add(curve: Curve, count: int) -> None:
        nonlocal squares
        if isinstance(curve, Composed):
            for part, times in curve.parts:
                _add(part, times * count)
        elif (square := curve.gaussian_squared) is not None:
            squares += count * square
        elif not (isinstance(curve, Approximate) and curve.epsilon == 0 and curve.delta == 0):
            counts[curve] = counts.get(curve, 0) + count

    for curve, count in spent:
        _add(curve, count)
    if squares:
        counts[Gaussian(squares)] = 1
    parts = sorted(counts.items(), key=lambda part: json.dumps(part[0].to_dict(), sort_keys=True))
    if not parts:
        return Gaussian(Fraction(0))
    return parts[0][0] if len(parts) == 1 and parts[0][1] == 1 else Composed(tuple(parts))
