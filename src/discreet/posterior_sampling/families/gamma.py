"""Waiting times until several events, or any positive numbers with a Gamma law of known shape."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from discreet.declarations import as_exact
from discreet.errors import InvalidInput
from discreet.posterior_sampling.families.rates import Exponential


@dataclass(frozen=True)
class GammaTimes(Exponential):
    """Gamma(``shape``, θ) records with known shape, clipped to declared bounds; Gamma prior of θ.

    The exponential family with ``shape`` events a record: it adds (shape, x) to (shape, rate).
    """

    shape: float
    name: ClassVar[str] = "gamma"
    _what: ClassVar[str] = "the rate of Gamma records with known shape"

    def __post_init__(self) -> None:
        super().__post_init__()
        shape = float(as_exact(self.shape, "shape"))
        if not 1e-6 <= shape <= 1e6:
            raise InvalidInput(f"shape={self.shape!r} must be between 1e-6 and 1e6: that of one record")
        object.__setattr__(self, "shape", shape)

    @property
    def events(self) -> Fraction:
        return Fraction(self.shape)
