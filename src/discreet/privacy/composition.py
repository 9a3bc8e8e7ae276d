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
from typing import Literal

from discreet._typing import EpsilonLike
from discreet.declarations import Relation, as_epsilon, as_positive, as_relation, as_unit
from discreet.errors import BudgetExceededError, InvalidInput, NotPrivateError
from discreet.numerics.search import boundary
from discreet.privacy.composite_curves import Largest, composed
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
    epsilon: Fraction | None = Fraction(0)
    delta = Fraction(0)
    for part in parts:
        epsilon = (
            None if epsilon is None or part.exact_epsilon is None else epsilon + times * part.exact_epsilon
        )
        delta += times * part.exact_delta
    if epsilon is None or delta >= 1:
        epsilon, delta = None, Fraction(0)
    return Guarantee(
        epsilon,
        relation,
        delta,
        basis=f"composition of {times * len(parts)} outputs",
        assumptions=_assumptions(parts),
        curve=composed([(part.known, times) for part in parts]),
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
            raise InvalidInput(
                f"guarantees for {parts[0].protects} say nothing of whatever else a record may be within its "
                "part: compose(…) adds them up"
            )
        relation = Relation.WITHIN_GROUP
    if not all(part.is_private for part in parts):
        basis = "parallel composition with an output that has no guarantee"
        return Guarantee(None, relation, basis=basis, unit=unit)
    if len(parts) == 1:
        return parts[0]
    pairs = [part.exact_epsilon for part in parts]
    known = [epsilon for epsilon in pairs if epsilon is not None]
    complete = len(known) == len(pairs)
    curves = tuple(dict.fromkeys(part.known for part in parts))
    assumptions = _assumptions(parts)
    if relation is not Relation.ADD_REMOVE:
        assumptions += ("the part that each record belongs to is public and does not change",)
    return Guarantee(
        max(known) if complete else None,
        relation,
        max(part.exact_delta for part in parts) if complete else Fraction(0),
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
        self.delta = Fraction(0) if delta == 0 else as_epsilon(delta, "delta")
        if self.delta >= 1:
            raise InvalidInput(f"delta={delta!r} must be a probability below 1, such as 1e-6")
        if accounting not in ("sum", "renyi"):
            raise InvalidInput(f"accounting={accounting!r} must be 'sum' or 'renyi'")
        if accounting == "renyi" and not self.delta:
            raise InvalidInput("accounting='renyi' needs a delta above 0, such as 1e-6")
        self.relation = as_relation(relation)
        self.unit = as_unit(unit, self.relation)
        self.accounting = accounting
        self.history: list[Guarantee] = []
        self._sum = Fraction(0), Fraction(0)
        self._rdp = [0.0] * len(self.orders)

    def spend(self, guarantee: Guarantee) -> None:
        """Records one output that is about to be released; refused, with nothing recorded, above the cap."""
        if not isinstance(guarantee, Guarantee):
            raise InvalidInput(f"{type(guarantee).__name__} is not a Guarantee; give mechanism.guarantee")
        if not guarantee.is_private:
            raise NotPrivateError("the output has no privacy guarantee: no budget admits it")
        if guarantee.unit != self.unit or not guarantee.relation.implies(self.relation):
            own = Guarantee(Fraction(0), self.relation, unit=self.unit).protects
            raise InvalidInput(
                f"a guarantee for {guarantee.protects} cannot be spent from a budget for {own}"
            )
        total, rdp = self._after(guarantee)
        spent = self._epsilon(total, rdp)
        if spent > self.cap or total[1] > self.delta:
            asked = f"epsilon {float(spent):.6g}"
            asked += f" and delta {float(total[1]):.3g}" if self.accounting == "sum" and total[1] else ""
            raise BudgetExceededError(
                f"the cap is epsilon {float(self.cap):g} at delta {float(self.delta):g}; "
                f"{self.spent:.6g} is spent, and this would make it {asked}",
                cap=self.cap,
                spent=self.spent,
                asked=guarantee,
            )
        self._sum, self._rdp = total, rdp
        self.history.append(guarantee)

    def _after(self, guarantee: Guarantee) -> tuple[tuple[Fraction, Fraction], list[float]]:
        if self.accounting == "sum":
            epsilon = guarantee.exact_epsilon
            if epsilon is None:
                raise InvalidInput(
                    "the guarantee is a curve without a pair (epsilon, delta): choose one with "
                    "guarantee.to_dp(delta), or use accounting='renyi'"
                )
            return (self._sum[0] + epsilon, self._sum[1] + guarantee.exact_delta), self._rdp
        limit, curve = guarantee.max_order, guarantee.known
        rdp = [
            (spent + (curve.renyi(order) if order < limit else math.inf)) * (1 + 2.0**-52)
            for spent, order in zip(self._rdp, self.orders, strict=True)
        ]
        return self._sum, rdp

    def _epsilon(self, total: tuple[Fraction, Fraction], rdp: list[float]) -> Fraction | float:
        if self.accounting == "sum":
            return total[0]
        # Which order ends below the cap may depend on the outputs, so each takes an equal share of delta.
        share = math.log(self.delta / len(self.orders))
        return min(
            max(0.0, value + math.log1p(-1 / order) - (share + math.log(order)) / (order - 1)) * (1 + 1e-12)
            for value, order in zip(rdp, self.orders, strict=True)
        )

    @property
    def spent(self) -> float:
        """ε spent so far, at the cap's δ."""
        return float(self._epsilon(self._sum, self._rdp)) if self.history else 0.0

    @property
    def remaining(self) -> float:
        """The largest pure ε that would still fit, rounded down."""
        if self.accounting == "sum":
            return float(self.cap - self._sum[0])

        def fits(epsilon: Fraction) -> bool:
            return self._epsilon(*self._after(Guarantee(epsilon))) <= self.cap

        return float(boundary(fits, Fraction(0), self.cap, relative=0.0, steps=40))


def _common(guarantees: Iterable[Guarantee]) -> tuple[list[Guarantee], Relation, str | None]:
    """The guarantees, and the relation and unit for which all of them hold."""
    try:
        parts = list(guarantees)
    except TypeError:
        raise InvalidInput("guarantees must be a list of guarantees, such as [mechanism.guarantee]") from None
    if not parts:
        raise InvalidInput("there is nothing to compose: give at least one guarantee")
    for part in parts:
        if not isinstance(part, Guarantee):
            raise InvalidInput(f"{type(part).__name__} is not a Guarantee; give mechanism.guarantee")
    units = {part.unit for part in parts}
    relations = {part.relation for part in parts}
    for relation in sorted(relations):
        if len(units) == 1 and all(other.implies(relation) for other in relations):
            return parts, relation, units.pop()
    different = " and ".join(sorted({part.protects for part in parts}))
    records, people = Relation.REPLACE_ONE, Relation.REPLACE_PERSON
    hint = (
        ", or state all of them for the same people, with guarantee.for_unit(COLUMN, at_most=NUMBER)"
        if people in relations and relations <= {records, people}
        else ""
    )
    raise InvalidInput(
        f"the guarantees are for different relations or units ({different}) and cannot be composed: say what "
        f"each is for{hint}"
    )


def _assumptions(parts: list[Guarantee]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(assumption for part in parts for assumption in part.assumptions))
