"""Amounts of privacy budget as exact rationals, and the price of a guarantee in the unit of a cap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from fractions import Fraction

from discreet._declarations import as_epsilon, as_rational
from discreet._text import amount
from discreet._typing import EpsilonLike
from discreet.errors import GuaranteeMismatchError, InvalidInputError, NotPrivateError
from discreet.privacy.guarantee import Guarantee

MAX_BITS = 13_000
"""About 3,900 decimal digits: Python writes no integer of more than 4,300 as text."""


@dataclass(frozen=True)
class Budget:
    """An amount in one of three units: pure ε; (ε, δ) under basic composition; ρ of zCDP.

    A cap, what is spent, and the price of a request are all budgets of the same unit. The parts that the unit
    does not have are None.
    """

    epsilon: Fraction | None = None
    delta: Fraction | None = None
    zcdp: Fraction | None = None

    def __post_init__(self) -> None:
        for name, value in self._parts().items():
            object.__setattr__(self, name, as_rational(value, name, 0, tiny=True))

    @classmethod
    def cap(
        cls,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        zcdp: EpsilonLike | None = None,
    ) -> Budget:
        """The cap that a person asks for: ε, or ε and δ, or ρ."""
        if (epsilon is None) == (zcdp is None) or (zcdp is not None and delta is not None):
            raise InvalidInputError(
                "a cap is epsilon (pure), epsilon and delta, or zcdp: give one of these three, "
                "such as epsilon=1, or epsilon=1 with delta='1e-6', or zcdp='0.5'"
            )
        given = {"epsilon": epsilon, "delta": delta, "zcdp": zcdp}
        cap = cls(**{name: as_epsilon(value, name) for name, value in given.items() if value is not None})
        if cap.delta is not None and cap.delta >= 1:
            raise InvalidInputError(
                "must be below 1; a usual choice is far below 1/n: 1e-6", parameter="delta", value=delta
            )
        return cap

    @property
    def unit(self) -> str:
        return "+".join(self._parts())

    def zero(self) -> Budget:
        return self - self

    def fits(self, cap: Budget) -> bool:
        """No part is above its part of the cap; compared exactly."""
        return all(value <= getattr(cap, name) for name, value in self._parts().items())

    def __add__(self, other: Budget) -> Budget:
        return Budget(**{name: value + getattr(other, name) for name, value in self._parts().items()})

    def __sub__(self, other: Budget) -> Budget:
        return Budget(**{name: value - getattr(other, name) for name, value in self._parts().items()})

    def __str__(self) -> str:
        symbols = {"epsilon": "ε", "delta": "δ", "zcdp": "ρ"}
        parts = (f"{symbols[name]} = {readable(value)}" for name, value in self._parts().items())
        return ", ".join(parts).replace("= ≈", "≈")

    def to_dict(self) -> dict[str, str]:
        """Exact numbers as text, such as ``{"epsilon": "1/2"}``."""
        for name, value in self._parts().items():
            if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
                raise InvalidInputError(
                    f"the exact sum of {name} has more than 3,900 digits, because the denominators of the "
                    "requests have little in common; round the budget of each request up to a few decimals"
                )
        return {name: str(value) for name, value in self._parts().items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> Budget:
        return cls(**{name: as_rational(value, name, 0, tiny=True) for name, value in content.items()})

    def _parts(self) -> dict[str, Fraction]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


def readable(value: Fraction) -> str:
    """The exact number: a decimal where a short one is exact, else p/q with its size."""
    scaled = value * 10**12
    if scaled.denominator == 1 and scaled.numerator < 10**24:
        if 0 < value < Fraction(1, 10**4) and Fraction(amount(value)) == value:
            return amount(value)
        text = f"{Decimal(scaled.numerator).scaleb(-12).normalize():f}"
        return text if len(text) <= 10 or not value else f"{float(value):.12g}"
    exact = str(value) if max(value.numerator.bit_length(), value.denominator.bit_length()) <= 64 else ""
    size = f"{float(value):.6g}" if value < 10**300 else "very large"
    return f"{exact} (≈ {size})" if exact else f"≈ {size}"


def price_of(guarantee: Guarantee | Budget, unit: str) -> Budget:
    """What the guarantee costs in the unit of a cap.

    Pure: ε, if δ = 0. (ε, δ): both, which add up under basic composition. zCDP: ε²/2 if δ = 0 (Bun and
    Steinke 2016, Proposition 1.4), or the guarantee's own ρ, whichever is less.
    """
    if isinstance(guarantee, Guarantee):
        epsilon, delta = guarantee.exact_epsilon, guarantee.exact_delta
        if unit == "zcdp":
            offers = [] if (own := guarantee.zcdp()) is None else [own]
            if epsilon is not None and delta == 0:
                offers.append(epsilon * epsilon / 2)
            if offers:
                return Budget(zcdp=min(offers))
        elif epsilon is not None and (delta == 0 if unit == "epsilon" else delta < 1):
            return Budget(epsilon, None if unit == "epsilon" else delta)
        if not guarantee.is_private:
            raise NotPrivateError(
                "the output carries no differential privacy guarantee, so it has no price and no ledger "
                "admits it"
            )
    elif guarantee.unit == unit:
        return guarantee
    kind, hint = _UNITS[unit]
    raise GuaranteeMismatchError(
        f"{guarantee} has no price under this dataset's cap: the cap is in {kind}; {hint}, or create a "
        "dataset with another unit for such questions: the same people then have two budgets, which add up"
    )


_OTHER = "choose another mechanism"
_UNITS = {
    "epsilon": (
        "pure ε, which only guarantees with δ = 0 have",
        "ask without δ, as shares and means can be asked",
    ),
    "epsilon+delta": (
        "(ε, δ), which guarantees with a finite ε have, or get by `guarantee.to_dp(delta)`",
        _OTHER,
    ),
    "zcdp": ("ρ of zCDP, which pure ε (as ε²/2) and concentrated guarantees have", _OTHER),
}
"""What the cap of a unit is in, and what to do with a guarantee that has no price in it."""
