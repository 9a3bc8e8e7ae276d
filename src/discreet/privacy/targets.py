"""What a posterior draw is to reach: (ε, δ), or Rényi privacy of one order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet._typing import EpsilonLike
from discreet.declarations import as_epsilon, as_target_delta
from discreet.numerics.enclosures import down
from discreet.privacy.curves import Curve, as_order, largest_gaussian


@dataclass(frozen=True)
class Target:
    """ε at δ, or at a Rényi order."""

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
