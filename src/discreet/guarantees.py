"""What is promised about an output: (ε, δ), and where more is known the whole curve behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from discreet.core import Relation


@dataclass(frozen=True)
class Guarantee:
    """What is promised about the output of a mechanism, for one relation between datasets.

    ``exact_epsilon`` is the ε of (ε, δ)-differential privacy as a rational number, or None when there is no
    finite bound; ``epsilon`` is the same as a float. ``basis`` names the theorem or enumeration behind it.
    """

    exact_epsilon: Fraction | None
    relation: Relation = Relation.REPLACE_ONE
    exact_delta: Fraction = Fraction(0)
    basis: str = ""
    assumptions: tuple[str, ...] = ()

    @property
    def epsilon(self) -> float:
        return math.inf if self.exact_epsilon is None else float(self.exact_epsilon)

    @property
    def delta(self) -> float:
        return float(self.exact_delta)

    @property
    def is_private(self) -> bool:
        return self.exact_epsilon is not None and self.exact_delta < 1

    def __str__(self) -> str:
        if not self.is_private:
            return "no differential privacy guarantee"
        budget = f"ε = {self.epsilon:g}" + (f", δ = {self.delta:g}" if self.exact_delta else "")
        return f"{budget} ({self.relation})"

    def meaning(self) -> str:
        """The guarantee in plain words."""
        if not self.is_private:
            return "This output carries no privacy guarantee and must not be published as private."
        who = {
            Relation.REPLACE_ONE: "Replacing any one record by any other",
            Relation.ADD_REMOVE: "Adding or removing any one record",
        }[self.relation]
        exponent = self.epsilon
        factor = f"{math.exp(exponent):.4g}" if exponent < 700 else f"e^{exponent:g}"
        text = (
            f"{who[0].upper()}{who[1:]} changes the probability of any output by a factor of at most {factor}"
        )
        return text + (f", up to an additive {self.delta:g}." if self.exact_delta else ".")

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": None if self.exact_epsilon is None else str(self.exact_epsilon),
            "delta": str(self.exact_delta),
            "relation": str(self.relation),
            "basis": self.basis,
            "assumptions": list(self.assumptions),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Guarantee:
        epsilon = content["epsilon"]
        return cls(
            exact_epsilon=None if epsilon is None else Fraction(epsilon),
            relation=Relation(content["relation"]),
            exact_delta=Fraction(content["delta"]),
            basis=str(content["basis"]),
            assumptions=tuple(content["assumptions"]),
        )
