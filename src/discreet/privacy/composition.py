"""The privacy loss of several outputs: composition, disjoint parts, and spending against a cap.

Guarantees for different relations or units cannot be combined, because they protect different things: a
guarantee for replacing a record says nothing about removing one, and a guarantee for a visit says nothing
about a patient. One exception: a guarantee within public groups can be combined with any guarantee that
implies one within groups, and the result is within groups.
Proofs and citations: ``proofs/accounting.md``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any, Literal

from discreet._declarations import Relation, as_choice, as_epsilon, as_positive, as_relation, as_unit
from discreet._numerics.search import boundary
from discreet._typing import EpsilonLike
from discreet.errors import BudgetExceededError, InvalidInputError, NotPrivateError
from discreet.privacy.composite_curves import Largest, compose_curves
from discreet.privacy.curves import as_probability
from discreet.privacy.guarantee import Guarantee


def compose(guarantees: Iterable[Guarantee], count: int = 1) -> Guarantee:
    """Compose the guarantees of outputs about the same data.

    Parameters
    ----------
    guarantees
        The guarantees, fixed before the first output. An output may depend on earlier ones; if the guarantees
        may too, use :class:`Odometer`.
    count
        The number of times that the whole list is released.

    Returns
    -------
    Guarantee
        The guarantee of all the outputs together. Pairs (ε, δ) add up, exactly. For the privacy curve, Rényi
        divergences are added, Gaussian losses add their μ², and profiles are convolved, so
        ``epsilon_at(delta)`` can be far below the sum for many outputs.

    Raises
    ------
    InvalidInputError
        If there is no guarantee, or they are for different relations or units.

    Examples
    --------
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
        curve=compose_curves([(part.effective_curve, times) for part in parts]),
        unit=unit,
    )


def parallel(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Return the guarantee of outputs about disjoint parts of the data: the largest of theirs.

    Parameters
    ----------
    guarantees
        One guarantee for each part, of an output computed from that part alone.

    Returns
    -------
    Guarantee
        The largest of them. For replace-one guarantees the relation is within-group, and it assumes that the
        part of each record, and so the size of each part, is public and does not change. If the part of a
        record is private, use add-remove guarantees: replacing a record affects two parts.

    Raises
    ------
    InvalidInputError
        If there is no guarantee, or they are for different relations or units.

    Examples
    --------
    >>> both = parallel([Guarantee(Fraction(1, 2)), Guarantee(Fraction(1))])
    >>> both.epsilon, str(both.relation)
    (1.0, 'within-group')
    """
    parts, relation, unit = _common(guarantees)
    if len(parts) > 1 and relation is not Relation.ADD_REMOVE:
        if not relation.implies(Relation.WITHIN_GROUP):
            raise InvalidInputError(
                f"guarantees for {parts[0].protects} do not cover every change of a record within its "
                "part, so they cannot be taken in parallel; compose(…) adds them up"
            )
        relation = Relation.WITHIN_GROUP
    if not all(part.is_private for part in parts):
        basis = "parallel composition with an output that has no guarantee"
        return Guarantee(None, relation, basis=basis, unit=unit)
    if len(parts) == 1:
        return parts[0]
    epsilons = _epsilons(parts)
    curves = tuple(dict.fromkeys(part.effective_curve for part in parts))
    assumptions = _assumptions(parts)
    if relation is not Relation.ADD_REMOVE:
        whose = "each record belongs to" if unit is None else f"all records of one {unit!r} belong to"
        assumptions += (f"the part that {whose} is public and does not change",)
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
    """A running count of privacy loss against a cap, for steps chosen after seeing earlier outputs.

    Parameters
    ----------
    epsilon, delta
        The cap.
    relation
        Relation between neighbouring datasets that is protected.
    accounting
        ``"sum"`` adds the pairs (ε, δ), exactly. ``"renyi"`` adds Rényi divergences at fixed orders; it needs
        δ > 0 and is better for many small steps.
    unit
        Column that identifies people where people are protected; None for records.

    Notes
    -----
    Both ways of accounting are privacy filters, valid when mechanisms and budgets are chosen
    adaptively. The convolution of profiles that :func:`compose` uses need not be valid then, and is not used
    here.

    Examples
    --------
    >>> odometer = Odometer(epsilon=1)
    >>> odometer.spend(Guarantee(Fraction(1, 4)))
    >>> odometer.spent, odometer.remaining
    (0.25, 0.75)
    >>> many = Odometer(epsilon=1, delta="1e-6", accounting="renyi")
    >>> for _ in range(100):
    ...     many.spend(Guarantee(Fraction(1, 100)))
    >>> round(many.spent, 2)
    0.48
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
        if as_choice(accounting, ("sum", "renyi"), "accounting") == "renyi" and not self.delta:
            raise InvalidInputError("accounting='renyi' needs a delta above 0, such as 1e-6")
        self.relation = as_relation(relation)
        self.unit = as_unit(unit, self.relation)
        self.accounting = accounting
        self.history: list[Guarantee] = []
        self._total: tuple[Any, ...] = (Fraction(0),) * 2
        """The loss so far: (ε, δ), or for ``accounting="renyi"`` the divergence of each order."""
        if accounting == "renyi":
            self._total = (0.0,) * len(self.orders)

    def spend(self, guarantee: Guarantee) -> None:
        """Record one output that is about to be released.

        Parameters
        ----------
        guarantee
            Its guarantee.

        Raises
        ------
        BudgetExceededError
            If the cap would be exceeded; nothing is recorded then.
        NotPrivateError
            If the output has no guarantee.
        InvalidInputError
            If the guarantee is for another relation or unit.

        Examples
        --------
        >>> odometer = Odometer(epsilon=1)
        >>> odometer.spend(Guarantee(Fraction(3, 4)))
        >>> odometer.spent, odometer.remaining
        (0.75, 0.25)
        """
        _check_guarantee(guarantee)
        if not guarantee.is_private:
            raise NotPrivateError("the output has no privacy guarantee, so it cannot be charged to a budget")
        if guarantee.unit != self.unit or not guarantee.relation.implies(self.relation):
            protected = Guarantee(Fraction(0), self.relation, unit=self.unit).protects
            raise InvalidInputError(
                f"a guarantee for {guarantee.protects} cannot be spent from a budget for {protected}"
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
            limit, curve = guarantee.max_order, guarantee.effective_curve
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
        share = math.log(self.delta) - math.log(len(self.orders))
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

        def _fits(epsilon: Fraction) -> bool:
            return self._epsilon(self._after(Guarantee(epsilon))) <= self.cap

        return float(boundary(_fits, Fraction(0), self.cap, relative=0.0, steps=40))


def _check_guarantee(guarantee: object) -> None:
    if not isinstance(guarantee, Guarantee):
        raise InvalidInputError(
            f"guarantees must be Guarantee objects, not {type(guarantee).__name__}; pass mechanism.guarantee"
        )


def _common(guarantees: Iterable[Guarantee]) -> tuple[list[Guarantee], Relation, str | None]:
    """Return the guarantees, and the relation and unit that all of them cover."""
    try:
        parts = list(guarantees)
    except TypeError:
        raise InvalidInputError(
            "guarantees must be a list of guarantees, such as [mechanism.guarantee]"
        ) from None
    if not parts:
        raise InvalidInputError("guarantees must not be empty; give at least one guarantee")
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
        hint = ", or for the same people, with guarantee.for_unit(COLUMN, at_most=NUMBER)"
    raise InvalidInputError(
        f"the guarantees are for different relations or units ({different}) and cannot be composed: state "
        f"all for the same relation{hint}"
    )


def _epsilons(parts: list[Guarantee]) -> list[Fraction] | None:
    """Return the ε of all the parts; None where one of them has none."""
    epsilons = [part.exact_epsilon for part in parts if part.exact_epsilon is not None]
    return epsilons if len(epsilons) == len(parts) else None


def _assumptions(parts: list[Guarantee]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(assumption for part in parts for assumption in part.assumptions))
