"""What several outputs reveal together: composition, disjoint parts, and a running count against a cap.

Relations and units never mix: a promise about replacing a record says nothing about removing one, and one
about a visit nothing about a patient, or only with other numbers, so a mixture is refused. Only what implies
a promise within public groups may stand beside one: the whole is then within groups. Proofs and citations:
``proofs/accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

from discreet._declarations import Relation, as_epsilon, as_positive, as_relation, as_unit
from discreet._numerics.search import boundary
from discreet._typing import EpsilonLike
from discreet.errors import BudgetExceededError, InvalidInputError, NotPrivateError
from discreet.privacy.composite_curves import Largest, compose_curves
from discreet.privacy.curves import as_probability
from discreet.privacy.guarantee import Guarantee


def compose(guarantees: Iterable[Guarantee], count: int = 1) -> Guarantee:
    """The guarantee of all the outputs together, the whole list ``count`` times.

    An output may depend on earlier ones, but the guarantees are fixed beforehand (else: :class:`Odometer`).
    Pairs (ε, δ) add up, exactly. Behind them Rényi curves add up, Gaussian losses add their μ², and profiles
    are convolved, so that ``epsilon_at(delta)`` of the result can be far below the sum for many outputs.

    >>> half = Guarantee(Fraction(1, 2))
    >>> together = compose([half], count=100)
    >>> together.epsilon, round(together.epsilon_at(1e-6), 2)
    (50.0, 33.32)
    """
    times = as_positive(count, "count")
    parts, relation, unit = _common(guarantees)
    if not all(part.is_private for part in parts):
        return Guarantee(None, relation, basis="composition with an output that has no guarantee", unit=unit)
    if len(parts) == 1 and times == 1:
        return parts[0]
    epsilons, delta = _epsilons(parts), times * sum((part.exact_delta for part in parts), Fraction(0))
    finite = epsilons is not None and delta < 1
    return Guarantee(
        times * sum(epsilons, Fraction(0)) if epsilons is not None and finite else None,
        relation,
        delta if finite else Fraction(0),
        basis=f"composition of {times * len(parts)} outputs",
        assumptions=_assumptions(parts),
        curve=compose_curves([(part.known, times) for part in parts]),
        unit=unit,
    )


def parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """The guarantee of outputs about disjoint parts of the data, each from its part alone: the largest.

    With replace-one this holds when a record cannot change its part: the part of every record, and with it
    the size of every part, is public. So the relation of the result is within-group, and the assumption is
    recorded. Where the part is itself private, ask for add-remove guarantees: replacing a record then
    touches two parts.
    """
    parts, relation, unit = _common(guarantees)
    if len(parts) > 1 and relation is not Relation.ADD_REMOVE:
        if not relation.implies(Relation.WITHIN_GROUP):
            raise InvalidInputError(
                f"guarantees for {parts[0].protects} say nothing of whatever else a record may be within its "
                "part: compose(…) adds them up"
            )
        relation = Relation.WITHIN_GROUP
    if not all(part.is_private for part in parts):
        basis = "parallel composition with an output that has no guarantee"
        return Guarantee(None, relation, basis=basis, unit=unit)
    if len(parts) == 1:
        return parts[0]
    epsilons = _epsilons(parts)
    curves = tuple(dict.fromkeys(part.known for part in parts))
    assumptions = _assumptions(parts)
    if relation is not Relation.ADD_REMOVE:
        assumptions += ("the part that each record belongs to is public and does not change",)
    return Guarantee(
        None if epsilons is None else max(epsilons),
        relation,
        Fraction(0) if epsilons is None else max(part.exact_delta for part in parts),
        basis=f"parallel composition over {len(parts)} disjoint parts",
        assumptions=assumptions,
        curve=curves[0] if len(curves) == 1 else Largest(curves),
        unit=unit,
    )


class Odometer:
    """Adds up what is spent against a cap, where each next step may be chosen after seeing earlier outputs.

    ``accounting="sum"`` adds the pairs (ε, δ), exactly. ``accounting="renyi"`` adds Rényi curves at fixed
    orders and needs δ > 0: better for many small steps. Both are privacy filters, valid when mechanisms and
    budgets are chosen adaptively; the convolution of profiles behind :func:`compose` need not be then, and is
    not used here.

    >>> odometer = Odometer(epsilon=1)
    >>> odometer.spend(Guarantee(Fraction(1, 4)))
    >>> odometer.spent, odometer.remaining
    (0.25, 0.75)
    """

    orders = tuple(1 + 2.0**i for i in range(-2, 10))

    def __init__(
        self,
        epsilon: EpsilonLike,
        delta: EpsilonLike = 0,
        relation: Relation | str = Relation.REPLACE_ONE,
        accounting: Literal["sum", "renyi"] = "sum",
        unit: str | None = None,
    ) -> None:
        self.cap = as_epsilon(epsilon)
        self.delta = as_probability(delta)
        if accounting not in ("sum", "renyi"):
            raise InvalidInputError("must be 'sum' or 'renyi'", parameter="accounting", value=accounting)
        if accounting == "renyi" and not self.delta:
            raise InvalidInputError("accounting='renyi' needs a delta above 0, such as 1e-6")
        self.relation = as_relation(relation)
        self.unit = as_unit(unit, self.relation)
        self.accounting = accounting
        self.history: list[Guarantee] = []
        self._total: tuple[Any, ...] = (Fraction(0),) * 2
        """(ε, δ), or of ``accounting="renyi"`` the divergence of each order."""
        if accounting == "renyi":
            self._total = (0.0,) * len(self.orders)

    def spend(self, guarantee: Guarantee) -> None:
        """Records one output that is about to be released; refused, with nothing recorded, above the cap."""
        _check_guarantee(guarantee)
        if not guarantee.is_private:
            raise NotPrivateError("the output has no privacy guarantee: no budget admits it")
        if guarantee.unit != self.unit or not guarantee.relation.implies(self.relation):
            own = Guarantee(Fraction(0), self.relation, unit=self.unit).protects
            raise InvalidInputError(
                f"a guarantee for {guarantee.protects} cannot be spent from a budget for {own}"
            )
        total = self._after(guarantee)
        spent, delta = self._epsilon(total), total[1] if self.accounting == "sum" else 0
        if spent > self.cap or delta > self.delta:
            asked = f"epsilon {float(spent):.6g}" + (f" and delta {float(delta):.3g}" if delta else "")
            raise BudgetExceededError(
                f"the cap is epsilon {float(self.cap):g} at delta {float(self.delta):g}; "
                f"{self.spent:.6g} is spent, and this would make it {asked}",
                cap=self.cap,
                spent=self.spent,
                asked=guarantee,
            )
        self._total = total
        self.history.append(guarantee)

    def _after(self, guarantee: Guarantee) -> tuple[Any, ...]:
        if self.accounting == "renyi":
            limit, curve = guarantee.max_order, guarantee.known
            return tuple(
                (spent + (curve.renyi(order) if order < limit else math.inf)) * (1 + 2.0**-52)
                for spent, order in zip(self._total, self.orders, strict=True)
            )
        if guarantee.exact_epsilon is None:
            raise InvalidInputError(
                "the guarantee is a curve without a pair (epsilon, delta): choose one with "
                "guarantee.to_dp(delta), or use accounting='renyi'"
            )
        return self._total[0] + guarantee.exact_epsilon, self._total[1] + guarantee.exact_delta

    def _epsilon(self, total: tuple[Any, ...]) -> Fraction | float:
        if self.accounting == "sum":
            return Fraction(total[0])
        # Which order ends below the cap may depend on the outputs, so each takes an equal share of delta.
        share = math.log(self.delta / len(self.orders))
        bounds = (
            max(0.0, value + math.log1p(-1 / order) - (share + math.log(order)) / (order - 1)) * (1 + 1e-12)
            for value, order in zip(total, self.orders, strict=True)
        )
        return float(min(bounds))

    @property
    def spent(self) -> float:
        """ε spent so far, at the cap's δ."""
        return float(self._epsilon(self._total)) if self.history else 0.0

    @property
    def remaining(self) -> float:
        """The largest pure ε that would still fit, rounded down."""
        if self.accounting == "sum":
            return float(self.cap - self._total[0])

        def fits(epsilon: Fraction) -> bool:
            return self._epsilon(self._after(Guarantee(epsilon))) <= self.cap

        return float(boundary(fits, Fraction(0), self.cap, relative=0.0, steps=40))


def _check_guarantee(given: object) -> None:
    if not isinstance(given, Guarantee):
        raise InvalidInputError(f"{type(given).__name__} is not a Guarantee; give mechanism.guarantee")


def _common(guarantees: Iterable[Guarantee]) -> tuple[list[Guarantee], Relation, str | None]:
    """The guarantees, and the relation and unit for which all of them hold."""
    try:
        parts = list(guarantees)
    except TypeError:
        raise InvalidInputError(
            "guarantees must be a list of guarantees, such as [mechanism.guarantee]"
        ) from None
    if not parts:
        raise InvalidInputError("there is nothing to compose: give at least one guarantee")
    for part in parts:
        _check_guarantee(part)
    units = {part.unit for part in parts}
    relations = {part.relation for part in parts}
    for relation in sorted(relations):
        if len(units) == 1 and all(other.implies(relation) for other in relations):
            return parts, relation, units.pop()
    different = " and ".join(sorted({part.protects for part in parts}))
    hint = ""
    if Relation.REPLACE_PERSON in relations and relations <= {Relation.REPLACE_ONE, Relation.REPLACE_PERSON}:
        hint = ", or state all of them for the same people, with guarantee.for_unit(COLUMN, at_most=NUMBER)"
    raise InvalidInputError(
        f"the guarantees are for different relations or units ({different}) and cannot be composed: say what "
        f"each is for{hint}"
    )


def _epsilons(parts: list[Guarantee]) -> list[Fraction] | None:
    """The ε of all the parts; None where one of them has none."""
    known = [part.exact_epsilon for part in parts if part.exact_epsilon is not None]
    return known if len(known) == len(parts) else None


def _assumptions(parts: list[Guarantee]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(assumption for part in parts for assumption in part.assumptions))
