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
"""The most bits of an exact number, about 3,900 decimal digits: Python prints at most 4,300."""


@dataclass(frozen=True)
class Budget:
    """An amount of privacy budget: pure ε; (ε, δ) under basic composition; or ρ of zCDP.

    A cap, what is spent, and the price of a request are budgets of the same unit. The parts that the unit
    does not have are None.

    Parameters
    ----------
    epsilon, delta, zcdp
        The parts, exactly.

    Examples
    --------
    >>> half = Budget(epsilon=Fraction(1, 2))
    >>> str(half + half), half.fits(Budget(epsilon=Fraction(1)))
    ('ε = 1', True)
    >>> Budget.cap(epsilon=1, delta="1e-6").unit
    'epsilon+delta'
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
        """Build the cap of a dataset: ε, or ε and δ, or ρ.

        Parameters
        ----------
        epsilon
            ε, alone or with ``delta``.
        delta
            δ, below 1.
        zcdp
            ρ of zero-concentrated differential privacy, alone.

        Returns
        -------
        Budget
            The cap.

        Raises
        ------
        InvalidInputError
            If the combination is not one of these three, or a value is out of range.

        Examples
        --------
        >>> print(Budget.cap(epsilon="1/2"))
        ε = 0.5
        >>> print(Budget.cap(zcdp="0.5"))
        ρ = 0.5
        """
        if (epsilon is None) == (zcdp is None) or (zcdp is not None and delta is not None):
            raise InvalidInputError(
                "a cap is epsilon (pure), epsilon and delta, or zcdp: give one of these three, "
                "such as epsilon=1, or epsilon=1 with delta='1e-6', or zcdp='0.5'"
            )
        amounts = {"epsilon": epsilon, "delta": delta, "zcdp": zcdp}
        cap = cls(**{name: as_epsilon(value, name) for name, value in amounts.items() if value is not None})
        if cap.delta is not None and cap.delta >= 1:
            raise InvalidInputError("must be below 1; a usual choice is far below 1/n: 1e-6", "delta", delta)
        return cap

    @property
    def unit(self) -> str:
        """The parts that the budget has, joined by ``+``: ``epsilon``, ``epsilon+delta`` or ``zcdp``."""
        return "+".join(self._parts())

    def zero(self) -> Budget:
        """Return the zero budget of the same unit.

        Returns
        -------
        Budget
            The zero budget.

        Examples
        --------
        >>> print(Budget.cap(epsilon=1, delta="1e-6").zero())
        ε = 0, δ = 0
        """
        return self - self

    def fits(self, cap: Budget) -> bool:
        """Return whether every part is at most that of the cap, compared exactly.

        Parameters
        ----------
        cap
            A budget of the same unit.

        Returns
        -------
        bool
            Whether it fits.

        Examples
        --------
        >>> third = Budget(epsilon=Fraction(1, 3))
        >>> (third + third + third).fits(Budget(epsilon=Fraction(1)))
        True
        """
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
        """Return the exact numbers as text.

        Returns
        -------
        dict
            The parts by their names.

        Raises
        ------
        InvalidInputError
            If a number has too many digits to be written.

        Examples
        --------
        >>> Budget(epsilon=Fraction(1, 2)).to_dict()
        {'epsilon': '1/2'}
        """
        for name, value in self._parts().items():
            if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
                raise InvalidInputError(
                    f"the exact sum of {name} has more than 3,900 digits, because the denominators of the "
                    "requests have little in common; round the budget of each request up to a few decimals"
                )
        return {name: str(value) for name, value in self._parts().items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> Budget:
        """Build a budget from what :meth:`to_dict` returned.

        Parameters
        ----------
        content
            Exact numbers as text, by the names of the parts.

        Returns
        -------
        Budget
            The budget.

        Examples
        --------
        >>> Budget.from_dict({"epsilon": "1/2"})
        Budget(epsilon=Fraction(1, 2), delta=None, zcdp=None)
        """
        return cls(**{name: as_rational(value, name, 0, tiny=True) for name, value in content.items()})

    def _parts(self) -> dict[str, Fraction]:
        return {f.name: value for f in fields(self) if (value := getattr(self, f.name)) is not None}


def readable(value: Fraction) -> str:
    """Format an exact number for people.

    Parameters
    ----------
    value
        The number.

    Returns
    -------
    str
        A decimal number if a short one is exact, and otherwise p/q with its size.

    Examples
    --------
    >>> readable(Fraction(1, 8)), readable(Fraction(1, 3))
    ('0.125', '1/3 (≈ 0.333333)')
    """
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
    """Price a guarantee in the unit of a cap.

    Parameters
    ----------
    guarantee
        The guarantee, or its price already.
    unit
        ``"epsilon"``: ε, if δ = 0. ``"epsilon+delta"``: both. ``"zcdp"``: the guarantee's ρ or, if δ = 0,
        ε²/2 (Bun and Steinke 2016, Proposition 1.4), whichever is less.

    Returns
    -------
    Budget
        The price.

    Raises
    ------
    NotPrivateError
        If the output has no guarantee.
    GuaranteeMismatchError
        If the guarantee has no price in this unit.

    Examples
    --------
    >>> print(price_of(Guarantee(Fraction(1)), "zcdp"))
    ρ = 0.5
    >>> print(price_of(Guarantee(Fraction(1)), "epsilon+delta"))
    ε = 1, δ = 0
    """
    if isinstance(guarantee, Guarantee):
        epsilon, delta = guarantee.exact_epsilon, guarantee.exact_delta
        if unit == "zcdp":
            offers = [] if (rho := guarantee.zcdp()) is None else [rho]
            if epsilon is not None and delta == 0:
                offers.append(epsilon * epsilon / 2)
            if offers:
                return Budget(zcdp=min(offers))
        elif epsilon is not None and (delta == 0 if unit == "epsilon" else delta < 1):
            return Budget(epsilon, None if unit == "epsilon" else delta)
        if not guarantee.is_private:
            raise NotPrivateError(
                "the output carries no differential privacy guarantee, so it has no price and cannot be "
                "charged to a ledger"
            )
    elif guarantee.unit == unit:
        return guarantee
    kind, hint = _UNITS[unit]
    raise GuaranteeMismatchError(
        f"{guarantee} has no price under this dataset's cap: the cap is in {kind}; {hint}, or create a "
        "dataset with another unit for such questions: the same people then have two budgets, which add up"
    )


_CHOOSE_ANOTHER_MECHANISM = "choose another mechanism"
_UNITS = {
    "epsilon": (
        "pure ε, which needs a guarantee with δ = 0",
        "ask without δ, which is possible for shares and means",
    ),
    "epsilon+delta": (
        "(ε, δ), which needs a guarantee with a finite ε (`guarantee.to_dp(delta)` gives one)",
        _CHOOSE_ANOTHER_MECHANISM,
    ),
    "zcdp": ("ρ of zCDP, which needs pure ε (priced as ε²/2) or a ρ of its own", _CHOOSE_ANOTHER_MECHANISM),
}
"""For each unit of a cap, its description, and what to do if a guarantee has no price in it."""
