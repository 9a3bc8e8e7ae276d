"""Privacy curves: bounds on a mechanism's privacy loss that compose and convert.

A curve bounds two functions for every pair of neighbouring datasets with output distributions P and Q, in
both orders:

* ``rdp(λ)`` ≥ D_λ(P‖Q), the Rényi divergence of order λ > 1, which may be infinite for λ ≥ ``max_order``;
* ``delta_at(ε)`` ≥ sup_A P(A) − e^ε Q(A), the privacy profile: (ε, δ(ε))-differential privacy for every ε.

Composition adds the first and convolves the second (:mod:`discreet.privacy.composite_curves`). A curve does
not depend on a mechanism: a subclass with a new ``kind`` works everywhere a curve is accepted.
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
from discreet.errors import InvalidInputError, PrivacyWarning, warn

_LARGEST_ORDER = 1e7
_MAX_NESTING = 40


class Curve(ABC):
    """Upper bounds on the privacy loss of one output.

    Subclasses define :meth:`profiles`. One that defines no :meth:`renyi` bounds no Rényi divergence.

    Examples
    --------
    >>> curve = Gaussian(Fraction(1, 4))
    >>> round(curve.rdp(2), 6), round(curve.epsilon_at(1e-6), 4)
    (0.25, 2.2541)
    >>> Curve.from_dict(curve.to_dict()) == curve
    True
    """

    kind: ClassVar[str]

    @property
    def max_order(self) -> float:
        """The smallest order λ* at which the Rényi divergence may be infinite."""
        return 1.0

    def renyi(self, order: float) -> float:
        """Bound the Rényi divergence of one order.

        Parameters
        ----------
        order
            Rényi order λ, already checked to be above 1 and below ``max_order``.

        Returns
        -------
        float
            An upper bound on D_λ.
        """
        return math.inf

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
        return self.rough_profile(epsilon)

    def rough_profile(self, epsilon: float) -> float:
        """Approximate :meth:`profile` quickly, only to locate a solution.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            The approximate δ(ε).
        """
        return float(self.profiles(np.array([epsilon]))[0])

    @abstractmethod
    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Bound δ at many values of ε, in floating point with a margin for rounding.

        Parameters
        ----------
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.
        """

    @property
    def end(self) -> float:
        """An ε beyond which δ no longer decreases."""
        return math.inf

    @property
    def response(self) -> tuple[Fraction, Fraction] | None:
        """The pair (ε, δ) if the curve is that of all (ε, δ)-private mechanisms, otherwise None.

        The losses of such a curve are ±ε and, with mass δ, infinity.
        """
        return None

    @property
    def is_vectorised(self) -> bool:
        """Whether :meth:`profiles` costs about as much as :meth:`profile`."""
        return True

    @property
    def work(self) -> float:
        """Predicted seconds that :meth:`epsilon_at` takes."""
        return 0.1

    def to_dict(self) -> dict[str, Any]:
        """Return the kind and the fields as JSON values, from which :meth:`from_dict` builds the same curve.

        Returns
        -------
        dict
            JSON values.

        Examples
        --------
        >>> Approximate(Fraction(1)).to_dict()
        {'kind': 'approximate', 'epsilon': '1', 'delta': '0'}
        """
        return {"kind": self.kind, **fields_as_json(self)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Curve:
        """Build a curve from what :meth:`to_dict` returned.

        Parameters
        ----------
        content
            The JSON values of a curve.

        Returns
        -------
        Curve
            The curve.

        Raises
        ------
        InvalidInputError
            If the content is nested too deeply, its kind is unknown, or its fields are wrong or out of range.

        Examples
        --------
        >>> Curve.from_dict({"kind": "approximate", "epsilon": "1/2", "delta": "0"})
        Approximate(epsilon=Fraction(1, 2), delta=Fraction(0, 1))
        """
        if _too_deep(content):
            raise InvalidInputError(
                f"a privacy curve must not be nested more than {_MAX_NESTING} levels deep"
            )
        parameters = dict(content)
        kind = parameters.pop("kind")
        if not isinstance(kind, str) or kind not in CURVES:
            raise InvalidInputError(f"a privacy curve of kind {kind!r} is unknown; update discreet")
        family: type[Curve] = CURVES[kind]
        if is_dataclass(family) and set(parameters) != {part.name for part in fields(family)}:
            raise InvalidInputError(
                f"a privacy curve of kind {kind!r} must have exactly the fields "
                f"{', '.join(part.name for part in fields(family))}"
            )
        return family._build(parameters)

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> Curve:
        return cls(**{name: _built(value) for name, value in parameters.items()})

    def zcdp(self) -> Fraction | None:
        """Return the ρ of zero-concentrated differential privacy, D_λ ≤ ρλ for every λ.

        Returns
        -------
        Fraction or None
            ρ, exactly; None where there is none.

        Examples
        --------
        >>> Gaussian(Fraction(1, 4)).zcdp()
        Fraction(1, 8)
        >>> Approximate(Fraction(1), Fraction(1, 10**6)).zcdp() is None
        True
        """
        return None

    @property
    def gaussian_squared(self) -> Fraction | None:
        """μ² where the curve is that of N(0, 1) against N(μ, 1) (μ-GDP)."""
        return None

    def rdp(self, order: float) -> float:
        """Bound the Rényi divergence of an order λ ≥ 1.

        Parameters
        ----------
        order
            Rényi order λ. Order 1 is the Kullback–Leibler divergence, bounded by that of an order just above
            1, which is looser by about a thousandth.

        Returns
        -------
        float
            An upper bound on D_λ, which is infinite for orders of ``max_order`` and above.

        Raises
        ------
        InvalidInputError
            If the order is below 1 or not finite.

        Examples
        --------
        >>> round(Gaussian(Fraction(1)).rdp(8), 6)
        4.0
        >>> Approximate(Fraction(1), Fraction(1, 10**6)).rdp(8)
        inf
        """
        order = as_order(order)
        if order == 1 and self.gaussian_squared is None:
            order = min(1 + 2**-10, (1 + self.max_order) / 2)
        return math.inf if order >= self.max_order else self.renyi(order)

    def delta_at(self, epsilon: float) -> float:
        """Return the smallest proven δ for which the output is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon
            ε, a finite number of at least 0.

        Returns
        -------
        float
            δ, at most 1.

        Raises
        ------
        InvalidInputError
            If ``epsilon`` is negative or not finite.

        Examples
        --------
        >>> round(Gaussian(Fraction(1)).delta_at(1), 4)
        0.1269
        >>> Approximate(Fraction(1)).delta_at(1)
        0.0
        """
        epsilon = float(epsilon)
        if not (epsilon >= 0 and math.isfinite(epsilon)):
            raise InvalidInputError("must be a finite number, at least 0", "epsilon", epsilon)
        return min(1.0, self.profile(epsilon))

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest proven ε for which the output is (ε, δ)-differentially private.

        Parameters
        ----------
        delta
            δ, at least 0 and below 1.

        Returns
        -------
        float
            ε, infinite where there is none. It is found by bisection, and δ is verified at the returned
            value.

        Raises
        ------
        InvalidInputError
            If ``delta`` is not a probability below 1.

        Examples
        --------
        >>> round(Gaussian(Fraction(1)).epsilon_at(1e-6), 4)
        4.8866
        >>> Gaussian(Fraction(1)).epsilon_at(0)
        inf
        """
        delta = as_delta(delta)

        def _holds(epsilon: float) -> bool:
            return self.delta_at(epsilon) <= delta

        high = least(lambda e: self.rough_profile(e) <= delta)
        wider = (high * (1 + share) for share in RETREATS) if math.isfinite(high) else ()
        verified = certain(_holds, wider)
        return least(_holds) if verified is None else verified

    def rdp_delta_at(self, epsilon: float) -> float:
        """Return the δ that follows from the Rényi divergences alone.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            δ, at most 1.

        Notes
        -----
        Canonne, Kamath and Steinke (2020), Proposition 12.

        Examples
        --------
        >>> curve = Gaussian(Fraction(1))
        >>> curve.delta_at(2) < curve.rdp_delta_at(2)
        True
        """

        def _log_delta(order: float) -> float:
            above_one, rest = order - 1, order * math.log1p(-1 / order)
            return above_one * (self.renyi(order) - epsilon) - math.log(above_one) + rest

        # Not below what floats tell from 0: a bound of exactly 0 would be a claim of its own.
        least = min(0.0, max(_least_over_orders(_log_delta, self.max_order), -690.0))
        return min(1.0, math.exp(least) * (1 + 1e-12))

    def rdp_epsilon_at(self, delta: float) -> float:
        """Return the ε that follows from the Rényi divergences alone.

        Parameters
        ----------
        delta
            δ, at least 0 and below 1.

        Returns
        -------
        float
            ε, infinite where there is none.

        Examples
        --------
        >>> round(Gaussian(Fraction(1)).rdp_epsilon_at(1e-6), 3)
        5.222
        """
        delta = as_delta(delta)
        if delta == 0:
            return math.inf

        def _epsilon(order: float) -> float:
            return (
                self.renyi(order) + math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
            )

        return max(0.0, _least_over_orders(_epsilon, self.max_order) * (1 + 1e-12))


def _built(value: Any) -> Any:
    """Build the parts of a curve from JSON values, including nested curves and lists."""
    if isinstance(value, list):
        return tuple(map(_built, value))
    return Curve.from_dict(value) if isinstance(value, Mapping) else value


def _too_deep(content: Any) -> bool:
    """Return whether lists and mappings are nested more than ``_MAX_NESTING`` deep, without recursion."""
    level = [content]
    for _ in range(_MAX_NESTING):
        level = [
            part
            for container in level
            if isinstance(container, Mapping | list)
            for part in (container.values() if isinstance(container, Mapping) else container)
        ]
        if not level:
            return False
    return True


def as_order(order: float) -> float:
    """Return a Rényi order as a number.

    Parameters
    ----------
    order
        λ, a finite number of at least 1; order 1 is the Kullback–Leibler divergence.

    Returns
    -------
    float
        The order.

    Raises
    ------
    InvalidInputError
        If the order is below 1 or not finite.

    Examples
    --------
    >>> as_order(2)
    2.0
    """
    if not 1 <= (value := as_float(order)) < math.inf:
        raise InvalidInputError("must be a finite number, at least 1, such as 10", "order", order)
    return value


def as_delta(delta: Any, name: str = "delta") -> float:
    """Return δ as a number.

    Parameters
    ----------
    delta
        A probability below 1.
    name
        Name of the parameter in the message.

    Returns
    -------
    float
        δ.

    Raises
    ------
    InvalidInputError
        If it is not at least 0 and below 1.

    Examples
    --------
    >>> as_delta(1e-6)
    1e-06
    """
    if not 0 <= (value := as_float(delta)) < 1:
        raise InvalidInputError("must be a probability below 1, such as 1e-6", name, delta)
    return value


def as_probability(delta: EpsilonLike) -> Fraction:
    """Return δ as an exact number.

    Parameters
    ----------
    delta
        A probability below 1, 0 included.

    Returns
    -------
    Fraction
        δ, exactly.

    Raises
    ------
    InvalidInputError
        If it is not at least 0 and below 1.

    Examples
    --------
    >>> as_probability("1e-6")
    Fraction(1, 1000000)
    """
    exact = Fraction(0) if delta == 0 else as_epsilon(delta, "delta")
    if exact >= 1:
        raise InvalidInputError("must be a probability below 1, such as 1e-6", "delta", delta)
    return exact


@dataclass(frozen=True)
class Approximate(Curve):
    """The curve of every mechanism that is (ε, δ)-differentially private.

    Its profile is that of the least private such mechanism (Kairouz, Oh and Viswanath 2015): it reveals
    everything with probability δ, and otherwise is randomised response. Compositions of this curve are valid
    for every mechanism with this ε and δ.

    Parameters
    ----------
    epsilon
        ε, exactly.
    delta
        δ, exactly.

    Examples
    --------
    >>> pure = Approximate(Fraction(1))
    >>> pure.rdp(2) < 1, pure.zcdp(), pure.epsilon_at(0)
    (True, Fraction(1, 2), 1.0)
    >>> round(pure.epsilon_at(0.1), 4)
    0.8529
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
        """Bound the Rényi divergence by that of randomised response.

        Parameters
        ----------
        order
            Rényi order λ above 1.

        Returns
        -------
        float
            ln[(e^{λε} + e^{(1−λ)ε}) / (1 + e^ε)] / (λ − 1), rounded up, and at most ε.
        """
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
        """Bound δ at many values of ε.

        Parameters
        ----------
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.

        Examples
        --------
        >>> Approximate(Fraction(1)).profiles(np.array([0.0, 0.5, 1.0])).round(4).tolist()
        [0.4621, 0.2876, 0.0]
        """
        exact_epsilon, delta = up(self.epsilon), up(self.delta)
        rest = -np.expm1(np.minimum(epsilons - exact_epsilon, 0.0)) / (1 + math.exp(-exact_epsilon))
        return np.asarray((delta + (1 - delta) * rest) * np.where(rest > 0, 1 + 1e-13, 1.0), dtype=np.float64)

    def zcdp(self) -> Fraction | None:
        return None if self.delta else self.epsilon * self.epsilon / 2


def gaussian_hockey_stick(mu_squared: Fraction, epsilon: Fraction | float) -> Ball:
    """Enclose the smallest δ for which the pair N(μ, 1), N(0, 1) is (ε, δ)-indistinguishable.

    Parameters
    ----------
    mu_squared
        μ², exactly.
    epsilon
        ε.

    Returns
    -------
    Ball
        Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), an enclosure at the present working precision.

    Notes
    -----
    Balle and Wang (2018), Theorem 8.

    Examples
    --------
    >>> round(float(gaussian_hockey_stick(Fraction(1), 1).mid()), 6)
    0.126937
    """
    mu, exact, root = ball(mu_squared).sqrt(), ball(epsilon), ball(2).sqrt()
    far, near = (exact / mu + sign * mu / 2 for sign in (1, -1))
    return ((near / root).erfc() - exact.exp() * (far / root).erfc()) / 2


@dataclass(frozen=True)
class Gaussian(Curve):
    """The curve of μ-Gaussian differential privacy: N(0, 1) against N(μ, 1).

    Parameters
    ----------
    mu_squared
        μ², exactly.

    Examples
    --------
    >>> curve = Gaussian(Fraction(1, 4))
    >>> curve.mu, curve.zcdp(), curve.max_order
    (0.5, Fraction(1, 8), inf)
    >>> round(curve.epsilon_at(1e-6), 4)
    2.2541
    """

    mu_squared: Fraction
    kind: ClassVar[str] = "gaussian"
    max_order = math.inf

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu_squared", as_rational(self.mu_squared, "mu_squared", 0))

    @property
    def mu(self) -> float:
        """The μ of Gaussian differential privacy."""
        return math.sqrt(self.mu_squared)

    @property
    def gaussian_squared(self) -> Fraction | None:
        return self.mu_squared

    def zcdp(self) -> Fraction | None:
        return self.mu_squared / 2

    def renyi(self, order: float) -> float:
        """Bound the Rényi divergence, λμ²/2.

        Parameters
        ----------
        order
            Rényi order λ above 1.

        Returns
        -------
        float
            λμ²/2, rounded up.
        """
        return order * float(self.mu_squared) / 2 * (1 + 1e-15)

    def profile(self, epsilon: float) -> float:
        """Bound δ at one ε with an enclosure of the exact formula.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            An upper bound on Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ).
        """
        if not self.mu_squared:
            return 0.0
        rough = self.rough_profile(epsilon)
        if rough == 0.0 and epsilon > 40 * self.mu + float(self.mu_squared):
            return 1e-300  # far in the tail: below e^{−700}
        return above(enclose(lambda: gaussian_hockey_stick(self.mu_squared, epsilon), absolute=1e-300))

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Bound δ at many values of ε, in floating point with a margin for rounding.

        Parameters
        ----------
        epsilons
            Values of ε, at least 0.

        Returns
        -------
        FloatArray
            An upper bound on δ for each ε.

        Examples
        --------
        >>> Gaussian(Fraction(1)).profiles(np.array([0.0, 1.0])).round(4).tolist()
        [0.3829, 0.1269]
        """
        from scipy.special import log_ndtr

        if not self.mu_squared:
            return np.zeros_like(epsilons)
        mu = self.mu
        first = log_ndtr(mu / 2 - epsilons / mu)
        second = epsilons + log_ndtr(-mu / 2 - epsilons / mu)
        value = np.exp(first) * (-np.expm1(np.minimum(0.0, second - first)) * (1 + 1e-9) + 1e-12)
        return np.asarray(value, dtype=np.float64)


def largest_gaussian(epsilon: Fraction, delta: Fraction) -> Fraction:
    """Find nearly the largest Gaussian loss that is (ε, δ)-differentially private.

    Parameters
    ----------
    epsilon
        ε, exactly.
    delta
        δ, exactly.

    Returns
    -------
    Fraction
        μ², verified with enclosures to satisfy the target.

    Raises
    ------
    InvalidInputError
        If no Gaussian loss meets the target.

    Examples
    --------
    >>> square = largest_gaussian(Fraction(1), Fraction(1, 10**6))
    >>> round(math.sqrt(square), 4), Gaussian(square).delta_at(1) <= 1e-6
    (0.2367, True)
    """
    at = down(epsilon)

    def _seems_private(log_square: float) -> bool:
        return Gaussian(Fraction(math.exp(log_square))).rough_profile(at) <= float(delta)

    rough = math.exp(boundary(_seems_private, -120.0, 60.0, relative=0.0, absolute=1e-12))
    squares = (Fraction(rough * (1 - share)) for share in (*RETREATS, 0.5))
    mu_squared = certain(lambda square: Fraction(Gaussian(square).delta_at(at)) <= delta, squares)
    if mu_squared is None:
        target = f"epsilon={float(epsilon):g}, delta={float(delta):g}"
        raise InvalidInputError(f"{target}: no Gaussian loss meets the target")
    return mu_squared


@dataclass(frozen=True)
class Target:
    """The guarantee that a posterior draw must reach: ε at δ, or at a Rényi order.

    Parameters
    ----------
    epsilon
        ε, exactly.
    delta
        δ, exactly.
    order
        Rényi order λ; where it is given, δ is not used.

    Examples
    --------
    >>> target = Target(Fraction(1), Fraction(1, 10**6))
    >>> print(target)
    epsilon = 1 at delta = 1e-06
    >>> target.is_met_by(Gaussian(target.mu_squared))
    True
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    order: float | None = None

    @classmethod
    def of(
        cls, epsilon: EpsilonLike, delta: EpsilonLike | None, order: float | None, n: int, instead: str
    ) -> Target:
        """Build a target from a user's parameters.

        Parameters
        ----------
        epsilon
            ε.
        delta
            δ, or None where ``order`` is given.
        order
            Rényi order λ, or None where ``delta`` is given.
        n
            Number of records; δ of 1/n or more raises a warning.
        instead
            What the error message suggests if there is neither δ nor order.

        Returns
        -------
        Target
            The target.

        Examples
        --------
        >>> print(Target.of("1/2", None, 8, 1000, "use an order"))
        epsilon = 0.5 at order = 8
        """
        budget = as_epsilon(epsilon)
        if order is not None:
            return cls(budget, order=as_order(order))
        assert delta is not None
        probability = as_target_delta(delta, instead)
        if probability * n >= 1:
            warn(
                f"delta={float(probability):g} is at least 1/n = {1 / n:.3g}: publishing a record chosen at "
                "random would satisfy such a guarantee; choose delta well below 1/n",
                PrivacyWarning,
            )
        return cls(budget, probability)

    @cached_property
    def mu_squared(self) -> Fraction:
        """Nearly the largest μ² of a Gaussian loss that meets the target."""
        if self.order is not None:
            return 2 * self.epsilon / Fraction(self.order) * (1 - Fraction(1, 10**13))
        return largest_gaussian(self.epsilon, self.delta)

    def is_met_by(self, curve: Curve, rough: bool = False) -> bool:
        """Return whether a curve meets the target.

        Parameters
        ----------
        curve
            The curve of the output.
        rough
            Whether to use the fast approximation of the profile, which proves nothing.

        Returns
        -------
        bool
            Whether the curve meets the target.

        Examples
        --------
        >>> Target(Fraction(1), order=4).is_met_by(Gaussian(Fraction(1, 4)))
        True
        >>> Target(Fraction(1), order=10).is_met_by(Gaussian(Fraction(1, 4)))
        False
        """
        if self.order is not None:
            value = curve.rdp(self.order)
            return math.isfinite(value) and Fraction(value) <= self.epsilon
        at = down(self.epsilon)
        return Fraction(curve.rough_profile(at) if rough else curve.delta_at(at)) <= self.delta

    def describe_loss(self, curve: Curve) -> str:
        """Describe the loss of a curve in the terms of the target.

        Parameters
        ----------
        curve
            The curve of the output.

        Returns
        -------
        str
            δ at the target's ε, or ε at the target's order.

        Examples
        --------
        >>> Target(Fraction(1), order=4).describe_loss(Gaussian(Fraction(1, 4)))
        'epsilon = 0.5 at order 4'
        """
        if self.order is None:
            return f"delta = {curve.delta_at(down(self.epsilon)):.4g} at epsilon = {float(self.epsilon):g}"
        if self.order >= curve.max_order:
            return f"finite values below order {curve.max_order:.6g} only"
        return f"epsilon = {curve.rdp(self.order):.4g} at order {self.order:g}"

    def to_dict(self) -> dict[str, Any]:
        """Return the target as JSON values."""
        at = {"delta": str(self.delta)} if self.order is None else {"order": self.order}
        return {"epsilon": str(self.epsilon), **at}

    def __str__(self) -> str:
        more = f"delta = {float(self.delta):g}" if self.order is None else f"order = {self.order:g}"
        return f"epsilon = {float(self.epsilon):g} at {more}"


def _least_over_orders(value: Callable[[float], float], max_order: float) -> float:
    """Return nearly the least bound over all orders; each is valid, so the search need not be exact."""
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
