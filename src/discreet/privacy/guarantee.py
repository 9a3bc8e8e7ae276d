"""What is promised about an output: (ε, δ), and where more is known the whole curve behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from discreet._declarations import (
    Relation,
    as_epsilon,
    as_positive,
    as_rational,
    as_relation,
    as_unit,
    people_bound,
)
from discreet._html import card, paragraph
from discreet._numerics.enclosures import down, round_up, up
from discreet._text import amount
from discreet._typing import EpsilonLike
from discreet.errors import InvalidInputError, TooLargeError
from discreet.privacy.composite_curves import Group, group_curve
from discreet.privacy.curves import Approximate, Curve, as_probability

_PATIENCE = 6.0
"""Seconds that a text about a guarantee may take: it may be of a stranger's document."""
_ROUNDING = 1 - Fraction(1, 10**9)
"""By which a Gaussian loss that was computed elsewhere may be below the one computed here."""
_LARGEST = 10**300


def _within(number: object, high: int) -> bool:
    """Whether it is an exact number from 0 to ``high`` already."""
    return type(number) is Fraction and 0 <= number <= high


def _is_above(curve: Curve, other: Curve) -> bool:
    """Whether a curve is seen at once to be no lower than another: by μ, or by a pair (ε, δ)."""
    square, least = curve.gaussian_squared, other.gaussian_squared
    if square is not None and least is not None:
        return square >= least * _ROUNDING
    pair, lower = curve.response, other.response
    return pair is not None and lower is not None and pair[0] >= lower[0] and pair[1] >= lower[1]


@dataclass(frozen=True)
class Guarantee:
    """What is promised about the output of a mechanism, for one relation between datasets.

    ``exact_epsilon`` is the ε of (ε, δ)-differential privacy as a rational number, or None when there is no
    finite bound or none was chosen; ``epsilon`` is the same as a float. ``curve`` is what is known beyond one
    pair: Rényi divergences and δ for every ε. ``basis`` names the theorem or enumeration behind it.
    ``unit`` is the column that tells people apart where people are protected; None for records.
    """

    exact_epsilon: Fraction | None
    relation: Relation = Relation.REPLACE_ONE
    exact_delta: Fraction = Fraction(0)
    basis: str = ""
    assumptions: tuple[str, ...] = ()
    curve: Curve | None = None
    unit: str | None = None
    is_private: bool = field(init=False, repr=False, compare=False)
    """Whether anything is promised at all."""

    def __post_init__(self) -> None:
        if self.exact_epsilon is not None and not _within(self.exact_epsilon, _LARGEST):
            object.__setattr__(self, "exact_epsilon", as_rational(self.exact_epsilon, "epsilon", 0))
        if not _within(self.exact_delta, 1):
            object.__setattr__(self, "exact_delta", as_rational(self.exact_delta, "delta", 0, 1))
        if not isinstance(self.relation, Relation):
            object.__setattr__(self, "relation", as_relation(self.relation))
        if self.unit is not None or self.relation is not Relation.REPLACE_ONE:
            as_unit(self.unit, self.relation)
        finite = self.exact_epsilon is not None and self.exact_delta < 1
        object.__setattr__(self, "is_private", finite or self.curve is not None)
        for text in (self.basis, *self.assumptions):
            if not (isinstance(text, str) and text.isprintable()):
                raise InvalidInputError("basis and assumptions must be text without control characters")

    @property
    def epsilon(self) -> float:
        return math.inf if self.exact_epsilon is None else float(self.exact_epsilon)

    @property
    def delta(self) -> float:
        return float(self.exact_delta)

    @cached_property
    def known(self) -> Curve:
        """The curve, or where there is none all that the pair (ε, δ) says."""
        if self.curve is not None:
            return self.curve
        if self.exact_epsilon is None:
            raise InvalidInputError("there is no differential privacy guarantee to convert")
        return Approximate(self.exact_epsilon, self.exact_delta)

    def rdp(self, order: float) -> float:
        """ε(λ): an upper bound on the Rényi divergence of order λ > 1; infinite where none is known."""
        return self.known.rdp(order)

    @property
    def max_order(self) -> float:
        """λ*: the Rényi divergence is, or may be, infinite from this order on."""
        return self.known.max_order

    def delta_at(self, epsilon: EpsilonLike) -> float:
        """The smallest δ known for which the output is (ε, δ)-private."""
        exact = Fraction(0) if epsilon == 0 else as_epsilon(epsilon)
        delta = self.known.delta_at(down(exact))
        if self.exact_epsilon is not None and exact >= self.exact_epsilon:
            return min(up(self.exact_delta), delta)
        return delta

    def epsilon_at(self, delta: EpsilonLike) -> float:
        """The smallest ε known for which the output is (ε, δ)-private; infinite where none is."""
        exact = as_probability(delta)
        known = self.known.epsilon_at(down(exact))
        if self.exact_epsilon is not None and exact >= self.exact_delta:
            return min(up(self.exact_epsilon), known)
        return known

    def to_dp(self, delta: EpsilonLike) -> Guarantee:
        """The same promise as one pair (ε, δ), with the smallest ε known, rounded up; the curve is kept."""
        own, exact = self.exact_epsilon, as_probability(delta)
        if own is not None and exact == self.exact_delta and self.curve is None:
            return self
        epsilon = self.epsilon_at(exact)
        if own is not None and exact >= self.exact_delta and up(own) <= epsilon:
            return replace(self, exact_delta=exact, curve=self.known)  # the pair itself is the best known
        if math.isinf(epsilon):
            reached = f"the smallest delta reached is about {self.delta_at(1000):.3g}"
            raise InvalidInputError(f"delta={float(exact):g}: there is no finite epsilon; {reached}")
        return replace(self, exact_epsilon=round_up(epsilon), exact_delta=exact, curve=self.known)

    def zcdp(self) -> Fraction | None:
        """The ρ of ρ-zCDP, exactly: ε²/2 for pure ε, μ²/2 for μ-GDP; None where there is none."""
        return self.known.zcdp() if self.is_private else None

    @property
    def mu(self) -> float | None:
        """The μ of Gaussian differential privacy, where the loss is that of a Gaussian."""
        square = None if self.curve is None else self.curve.gaussian_squared
        return None if square is None else math.sqrt(square)

    def group(self, size: int) -> Guarantee:
        """What holds for ``size`` records together: sε where pure, sμ where Gaussian."""
        members = as_positive(size, "size")
        if members == 1 or not self.is_private:
            return self
        pair: dict[str, Any] = {}
        if self.exact_epsilon is not None:
            epsilon, delta = members * self.exact_epsilon, self.exact_delta
            if delta:
                grown = Group(Approximate(self.exact_epsilon, delta), members).delta_at(float(epsilon))
                delta = min(Fraction(1), round_up(grown))
            pair = {"exact_epsilon": epsilon, "exact_delta": delta}
        curve = None if self.curve is None else group_curve(self.curve, members)
        basis = f"group privacy for {members} records; {self.basis}"
        return replace(self, basis=basis, curve=curve, **pair)

    def for_unit(self, unit: str | None, at_most: int = 1, note: str = "") -> Guarantee:
        """The promise for a person, whoever has the same key in the column ``unit``, by group privacy.

        ``at_most`` is how many of what is protected now, records or people by another key, one person has:
        a declared bound, which ``note`` says in words. That holds for two people who have equally many.
        """
        grown = self.group(at_most)
        if self.relation not in (Relation.REPLACE_ONE, Relation.REPLACE_PERSON):
            raise InvalidInputError(f"a guarantee for {self.relation} says nothing about a whole person")
        whom = "the records" if self.unit is None else f"those with the same {self.unit!r}"
        said = note or f"a person is who has the same {unit!r}, and has at most {at_most} of {whom}"
        return replace(
            grown, relation=Relation.REPLACE_PERSON, unit=unit, assumptions=(*self.assumptions, said)
        )

    def within_group(self, note: str) -> Guarantee:
        """The same for what one record, or person, says given its public group; ``note`` names the group."""
        if not self.relation.implies(Relation.WITHIN_GROUP):
            raise InvalidInputError(
                f"a guarantee for {self.relation} implies none for {Relation.WITHIN_GROUP}"
            )
        assumptions = tuple(dict.fromkeys((*self.assumptions, note)))
        return replace(self, relation=Relation.WITHIN_GROUP, assumptions=assumptions)

    @property
    def protects(self) -> str:
        """The relation, with the unit where there is one: ``replace-person, unit 'patient'``."""
        return str(self.relation) if self.unit is None else f"{self.relation}, unit {self.unit!r}"

    def check_covers(self, cost: Guarantee) -> None:
        """Refuse to promise more than ``cost``, which was computed from what is published.

        Parameters
        ----------
        cost
            What holds for a record, or for the same people. For people the bound among the assumptions says
            how many records each has, and group privacy what that costs.

        Raises
        ------
        InvalidInputError
            If the relation or the unit does not follow from that of ``cost``; if a curve is given that is
            not its own, nor that of a larger Gaussian loss; or if the pair (ε, δ) is below its profile.
        """
        if not self.is_private:
            return
        if not cost.is_private:
            raise InvalidInputError(f"it claims {self}, and what it publishes has no guarantee")
        cost = cost.stated_for(self)
        own, known = self.curve, cost.known
        if own is not None and own not in (known, cost.curve) and not _is_above(own, known):
            raise InvalidInputError("it claims another privacy curve than what it publishes has")
        if self.exact_epsilon is None or self._is_dominated_by(cost):
            return
        if known.work > _PATIENCE or cost.delta_at(self.exact_epsilon or 0) > self.delta * (1 + 1e-9):
            raise InvalidInputError(f"it claims {self}, and what it publishes costs more")

    def _is_dominated_by(self, cost: Guarantee) -> bool:
        """Whether the pair (ε, δ) is, part by part, no less than that of ``cost``."""
        epsilon, least = self.exact_epsilon, cost.exact_epsilon
        if epsilon is None or least is None:
            return False
        return least <= epsilon and cost.exact_delta <= self.exact_delta

    def stated_for(self, claim: Guarantee) -> Guarantee:
        """What holds for those whom ``claim`` protects: if people, with no more records than it says."""
        if self.unit == claim.unit and self.relation.implies(claim.relation):
            return self
        most = people_bound(claim.assumptions, claim.unit)
        people = claim.relation in (Relation.REPLACE_PERSON, Relation.WITHIN_GROUP)
        if self.unit is None and people and most:
            single = self.relation is Relation.REPLACE_ONE
            if single or self.relation is claim.relation is Relation.WITHIN_GROUP:
                return replace(self.group(most), relation=claim.relation, unit=claim.unit)
        raise InvalidInputError(
            f"it claims {claim.protects}, and what it publishes is for {self.protects}"
            + (" and names no bound on the records of a person" if people and most is None else "")
        )

    def to_dp_event(self) -> Any:
        """The ``dp_accounting.DpEvent`` with this loss, where that library has a form for it."""
        from discreet.privacy.interop import dp_event

        return dp_event(self.known)

    def __str__(self) -> str:
        if not self.is_private:
            return "no differential privacy guarantee"
        if self.exact_epsilon is None:
            finite = math.isfinite(self.max_order)
            limit = f"finite below order {self.max_order:g}" if finite else "all orders"
            return f"a Rényi curve, {limit}; ε = {self._at_a_millionth():.4g} at δ = 1e-6 ({self.protects})"
        budget = f"ε = {self.epsilon:g}" + (f", δ = {amount(self.delta)}" if self.exact_delta else "")
        return f"{budget} ({self.protects})"

    def _at_a_millionth(self) -> float:
        """ε at δ = 10⁻⁶; from the Rényi curve where the exact profile is too large or takes too long."""
        try:
            if self.known.work <= _PATIENCE:
                return self.epsilon_at(1e-6)
        except TooLargeError:
            pass
        return self.known.rdp_epsilon_at(1e-6) if self.known.work <= 5 * _PATIENCE else math.inf

    def _repr_html_(self) -> str:
        """The guarantee and its meaning, for a notebook."""
        basis = [paragraph(f"Basis: {self.basis}", soft=True)] if self.basis else []
        assumed = [paragraph(f"Assumed: {assumption}", soft=True) for assumption in self.assumptions]
        return card(paragraph(str(self), strong=True), paragraph(self.meaning()), *basis, *assumed)

    def meaning(self) -> str:
        """The guarantee in plain words."""
        if not self.is_private:
            return "This output carries no privacy guarantee and must not be published as private."
        key = "" if self.unit is None else f" (who has the same {self.unit!r})"
        one = "record" if self.unit is None else f"person{key}"
        who = {
            Relation.REPLACE_ONE: "Replacing any one record by any other",
            Relation.REPLACE_PERSON: f"Replacing any one person{key}, with all their records, by any other "
            "person",
            Relation.WITHIN_GROUP: f"Replacing what any one {one} says, given the public group,",
            Relation.ADD_REMOVE: "Whether any one record is there at all",
            Relation.REPLACE_NEARBY: f"Replacing any one record by another {self.unit or 'near by'}",
        }[self.relation]
        if self.exact_epsilon is None:
            epsilon = self._at_a_millionth()
            if math.isinf(epsilon) and self.known.work > _PATIENCE:
                return f"{who} changes the probabilities of outputs as its curve says, which is long."
            exact, delta = Fraction(1), Fraction(1, 10**6)
            if math.isinf(epsilon):
                delta = min(exact, round_up(self.delta_at(1)))
            else:
                exact = round_up(epsilon)
            return replace(self, exact_epsilon=exact, exact_delta=delta, curve=None).meaning()
        exponent = self.epsilon
        factor = f"{math.exp(exponent):.4g}" if exponent < 700 else f"e^{exponent:g}"
        text = f"{who} changes the probability of any output by a factor of at most {factor}"
        return text + (f", up to an additive {amount(self.delta)}." if self.exact_delta else ".")

    def to_dict(self) -> dict[str, Any]:
        return {
            "epsilon": None if self.exact_epsilon is None else str(self.exact_epsilon),
            "delta": str(self.exact_delta),
            "relation": str(self.relation),
            **({} if self.unit is None else {"unit": self.unit}),
            "basis": self.basis,
            "assumptions": list(self.assumptions),
            **({} if self.curve is None else {"curve": self.curve.to_dict()}),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Guarantee:
        known = {"epsilon", "delta", "relation", "unit", "basis", "assumptions", "curve"}
        if extra := set(content) - known:
            raise InvalidInputError(f"a guarantee has no part {min(map(str, extra))!r}; update discreet")
        return cls(
            exact_epsilon=content["epsilon"],
            relation=content["relation"],
            exact_delta=content["delta"],
            basis=content["basis"],
            assumptions=tuple(content["assumptions"]),
            curve=Curve.from_dict(content["curve"]) if "curve" in content else None,
            unit=content.get("unit"),
        )
