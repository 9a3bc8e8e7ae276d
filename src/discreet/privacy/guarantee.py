"""The privacy guarantee of an output: (ε, δ), with the whole privacy curve where it is known."""

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

_MAX_SECONDS = 6.0
"""The time limit, in seconds, for describing a guarantee: it may come from an untrusted document."""
_ROUNDING_FACTOR = 1 - Fraction(1, 10**9)
"""The least ratio of a stored Gaussian μ² to the recomputed one that passes, to allow for rounding."""
_MAX_EPSILON = 10**300


def _within(number: object, high: int) -> bool:
    """Return whether a number is a Fraction from 0 to ``high``."""
    return type(number) is Fraction and 0 <= number <= high


def _is_above(curve: Curve, other: Curve) -> bool:
    """Return whether comparing μ, or pairs (ε, δ), shows that ``curve`` is nowhere below ``other``."""
    square, least = curve.gaussian_squared, other.gaussian_squared
    if square is not None and least is not None:
        return square >= least * _ROUNDING_FACTOR
    pair, lower = curve.response, other.response
    return pair is not None and lower is not None and pair[0] >= lower[0] and pair[1] >= lower[1]


@dataclass(frozen=True)
class Guarantee:
    """The privacy guarantee of a mechanism's output, for one relation between datasets.

    Parameters
    ----------
    exact_epsilon
        ε of (ε, δ)-differential privacy as a rational number; None when there is no finite bound, or none was
        chosen. ``epsilon`` is the same as a float.
    relation
        Relation between neighbouring datasets.
    exact_delta
        δ as a rational number.
    basis
        The theorem or enumeration behind the guarantee.
    assumptions
        The assumptions under which it holds.
    curve
        Bounds on Rényi divergences and on δ for every ε, where more than the pair is known.
    unit
        Column that identifies people where people are protected; None for records.

    Examples
    --------
    >>> guarantee = Guarantee(Fraction(1, 2))
    >>> print(guarantee)
    ε = 0.5 (replace-one)
    >>> print(guarantee.meaning())
    Replacing any one record by any other changes the probability of any output by a factor of at most 1.649.
    >>> guarantee.zcdp(), guarantee.group(3).epsilon
    (Fraction(1, 8), 1.5)
    >>> Guarantee.from_dict(guarantee.to_dict()) == guarantee
    True
    """

    exact_epsilon: Fraction | None
    relation: Relation = Relation.REPLACE_ONE
    exact_delta: Fraction = Fraction(0)
    basis: str = ""
    assumptions: tuple[str, ...] = ()
    curve: Curve | None = None
    unit: str | None = None
    is_private: bool = field(init=False, repr=False, compare=False)
    """Whether there is a guarantee at all."""

    def __post_init__(self) -> None:
        if self.exact_epsilon is not None and not _within(self.exact_epsilon, _MAX_EPSILON):
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
                raise InvalidInputError(
                    "basis and assumptions must be text without control characters; remove them"
                )

    @property
    def epsilon(self) -> float:
        """ε as a float; infinite where no finite bound is stated."""
        return math.inf if self.exact_epsilon is None else float(self.exact_epsilon)

    @property
    def delta(self) -> float:
        """δ as a float."""
        return float(self.exact_delta)

    @cached_property
    def effective_curve(self) -> Curve:
        """The privacy curve; where there is none, the curve of every mechanism with the pair (ε, δ)."""
        if self.curve is not None:
            return self.curve
        if self.exact_epsilon is None:
            raise InvalidInputError("there is no differential privacy guarantee to convert")
        return Approximate(self.exact_epsilon, self.exact_delta)

    def rdp(self, order: float) -> float:
        """Bound the Rényi divergence of an order λ ≥ 1.

        Parameters
        ----------
        order
            Rényi order λ.

        Returns
        -------
        float
            An upper bound on D_λ, infinite where none is known.

        Examples
        --------
        >>> round(Guarantee(Fraction(1)).rdp(2), 4)
        0.7353
        """
        return self.effective_curve.rdp(order)

    @property
    def max_order(self) -> float:
        """The smallest order λ* at which the Rényi divergence is, or may be, infinite."""
        return self.effective_curve.max_order

    def delta_at(self, epsilon: EpsilonLike) -> float:
        """Return the smallest proven δ for which the output is (ε, δ)-differentially private.

        Parameters
        ----------
        epsilon
            ε, at least 0.

        Returns
        -------
        float
            δ.

        Examples
        --------
        >>> Guarantee(Fraction(1)).delta_at(1), round(Guarantee(Fraction(1)).delta_at("1/2"), 4)
        (0.0, 0.2876)
        """
        exact = Fraction(0) if epsilon == 0 else as_epsilon(epsilon)
        delta = self.effective_curve.delta_at(down(exact))
        if self.exact_epsilon is not None and exact >= self.exact_epsilon:
            return min(up(self.exact_delta), delta)
        return delta

    def epsilon_at(self, delta: EpsilonLike) -> float:
        """Return the smallest proven ε for which the output is (ε, δ)-differentially private.

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
        >>> Guarantee(Fraction(1)).epsilon_at(0), round(Guarantee(Fraction(1)).epsilon_at(0.1), 4)
        (1.0, 0.8529)
        """
        exact = as_probability(delta)
        epsilon = self.effective_curve.epsilon_at(down(exact))
        if self.exact_epsilon is not None and exact >= self.exact_delta:
            return min(up(self.exact_epsilon), epsilon)
        return epsilon

    def to_dp(self, delta: EpsilonLike) -> Guarantee:
        """State the guarantee as one pair (ε, δ), and keep its curve.

        Parameters
        ----------
        delta
            δ of the pair.

        Returns
        -------
        Guarantee
            The same guarantee with the smallest proven ε, rounded up.

        Raises
        ------
        InvalidInputError
            If there is no finite ε at this δ.

        Examples
        --------
        >>> from discreet.privacy.curves import Gaussian
        >>> guarantee = Guarantee(None, curve=Gaussian(Fraction(1)))
        >>> print(guarantee.to_dp("1e-6"))
        ε = 4.88655, δ = 1e-6 (replace-one)
        """
        pure, exact = self.exact_epsilon, as_probability(delta)
        if pure is not None and exact == self.exact_delta and self.curve is None:
            return self
        epsilon = self.epsilon_at(exact)
        if pure is not None and exact >= self.exact_delta and up(pure) <= epsilon:
            return replace(
                self, exact_delta=exact, curve=self.effective_curve
            )  # the pair itself is the best known
        if math.isinf(epsilon):
            reached = f"the smallest delta reached is about {self.delta_at(1000):.3g}"
            raise InvalidInputError(f"delta={float(exact):g}: there is no finite epsilon; {reached}")
        return replace(self, exact_epsilon=round_up(epsilon), exact_delta=exact, curve=self.effective_curve)

    def zcdp(self) -> Fraction | None:
        """Return the ρ of zero-concentrated differential privacy, exactly.

        Returns
        -------
        Fraction or None
            ε²/2 for pure ε, μ²/2 for μ-GDP; None where there is none.

        Examples
        --------
        >>> Guarantee(Fraction(1)).zcdp()
        Fraction(1, 2)
        """
        return self.effective_curve.zcdp() if self.is_private else None

    @property
    def mu(self) -> float | None:
        """The μ of Gaussian differential privacy, where the loss is that of a Gaussian."""
        square = None if self.curve is None else self.curve.gaussian_squared
        return None if square is None else math.sqrt(square)

    def group(self, size: int) -> Guarantee:
        """Return the guarantee for several records at once.

        Parameters
        ----------
        size
            Number of records s.

        Returns
        -------
        Guarantee
            The guarantee with sε in place of ε if it is pure, and with sμ in place of μ if the loss is
            Gaussian.

        Examples
        --------
        >>> print(Guarantee(Fraction(1, 2)).group(4))
        ε = 2 (replace-one)
        """
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
        """Restate the guarantee for a whole person, by group privacy.

        Parameters
        ----------
        unit
            Column with the key of a person.
        at_most
            Declared bound on the number of records of one person. If the guarantee already protects people
            under another key, it bounds the number of those keys of one person. The result covers replacing a
            person by another with as many records.
        note
            The bound in words, for the assumptions.

        Returns
        -------
        Guarantee
            The guarantee for people.

        Raises
        ------
        InvalidInputError
            If the relation says nothing about a whole person.

        Examples
        --------
        >>> print(Guarantee(Fraction(1, 2)).for_unit("patient", at_most=3))
        ε = 1.5 (replace-person, unit 'patient')
        """
        grown = self.group(at_most)
        if self.relation not in (Relation.REPLACE_ONE, Relation.REPLACE_PERSON):
            raise InvalidInputError(f"a guarantee for {self.relation} says nothing about a whole person")
        whom = "the records" if self.unit is None else f"those with the same {self.unit!r}"
        assumption = note or f"a person, identified by {unit!r}, has at most {at_most} of {whom}"
        return replace(
            grown, relation=Relation.REPLACE_PERSON, unit=unit, assumptions=(*self.assumptions, assumption)
        )

    def within_group(self, note: str) -> Guarantee:
        """Restate the guarantee for changes that leave the public group of a record, or person, unchanged.

        Parameters
        ----------
        note
            The assumption to record: which group is public.

        Returns
        -------
        Guarantee
            The guarantee within groups.

        Raises
        ------
        InvalidInputError
            If the relation does not imply a guarantee within groups.

        Examples
        --------
        >>> print(Guarantee(Fraction(1)).within_group("the region of each record is public"))
        ε = 1 (within-group)
        """
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
        """Raise an error if this claims more privacy than ``cost``, computed from the published values.

        Parameters
        ----------
        cost
            The guarantee for one record, or for the same people. If people are protected, the assumptions
            bound the number of records of each, and group privacy gives the cost.

        Raises
        ------
        InvalidInputError
            If the relation or the unit does not follow from that of ``cost``; if the curve is neither that of
            ``cost`` nor that of a larger Gaussian loss; or if the pair (ε, δ) is below its profile.
        """
        if not self.is_private:
            return
        if not cost.is_private:
            raise InvalidInputError(f"it claims {self}, but what it publishes has no guarantee")
        cost = cost.stated_for(self)
        claimed, actual = self.curve, cost.effective_curve
        if claimed is not None and claimed not in (actual, cost.curve) and not _is_above(claimed, actual):
            raise InvalidInputError("the claimed privacy curve is not that of the published output")
        if self.exact_epsilon is None or self._is_dominated_by(cost):
            return
        if actual.work > _MAX_SECONDS or cost.delta_at(self.exact_epsilon or 0) > self.delta * (1 + 1e-9):
            raise InvalidInputError(f"it claims {self}, but what it publishes costs more")

    def _is_dominated_by(self, cost: Guarantee) -> bool:
        """Return whether ε and δ are both at least those of ``cost``."""
        epsilon, least = self.exact_epsilon, cost.exact_epsilon
        if epsilon is None or least is None:
            return False
        return least <= epsilon and cost.exact_delta <= self.exact_delta

    def stated_for(self, claim: Guarantee) -> Guarantee:
        """Restate the guarantee for the relation and unit of another one.

        Parameters
        ----------
        claim
            The other guarantee. If it protects people, its assumptions bound the records of a person.

        Returns
        -------
        Guarantee
            This guarantee for the relation and unit of ``claim``.

        Raises
        ------
        InvalidInputError
            If the restated guarantee does not follow from this one.
        """
        if self.unit == claim.unit and self.relation.implies(claim.relation):
            return self
        most = people_bound(claim.assumptions, claim.unit)
        people = claim.relation in (Relation.REPLACE_PERSON, Relation.WITHIN_GROUP)
        if self.unit is None and people and most:
            single = self.relation is Relation.REPLACE_ONE
            if single or self.relation is claim.relation is Relation.WITHIN_GROUP:
                return replace(self.group(most), relation=claim.relation, unit=claim.unit)
        raise InvalidInputError(
            f"it claims {claim.protects}, but what it publishes is for {self.protects}"
            + (" and names no bound on the records of a person" if people and most is None else "")
        )

    def to_dp_event(self) -> Any:
        """Return the ``dp_accounting.DpEvent`` with this loss, where that library has a form for it."""
        from discreet.privacy.interop import dp_event

        return dp_event(self.effective_curve)

    def __str__(self) -> str:
        if not self.is_private:
            return "no differential privacy guarantee"
        if self.exact_epsilon is None:
            finite = math.isfinite(self.max_order)
            limit = f"finite below order {self.max_order:g}" if finite else "all orders"
            return f"a Rényi curve, {limit}; ε = {self.quick_epsilon_at():.4g} at δ = 1e-6 ({self.protects})"
        budget = f"ε = {self.epsilon:g}" + (f", δ = {amount(self.delta)}" if self.exact_delta else "")
        return f"{budget} ({self.protects})"

    def quick_epsilon_at(self, delta: float = 1e-6) -> float:
        """Return ε at δ, from Rényi divergences if the exact profile takes too long; ∞ if both take too long.

        Parameters
        ----------
        delta
            δ, above 0.

        Returns
        -------
        float
            The ε.
        """
        try:
            if self.effective_curve.work <= _MAX_SECONDS:
                return self.epsilon_at(delta)
        except TooLargeError:
            pass
        return (
            self.effective_curve.rdp_epsilon_at(delta)
            if self.effective_curve.work <= 5 * _MAX_SECONDS
            else math.inf
        )

    def _repr_html_(self) -> str:
        """Return the guarantee and its meaning as HTML, for a notebook."""
        basis = [paragraph(f"Basis: {self.basis}", soft=True)] if self.basis else []
        assumed = [paragraph(f"Assumed: {assumption}", soft=True) for assumption in self.assumptions]
        return card(paragraph(str(self), strong=True), paragraph(self.meaning()), *basis, *assumed)

    def meaning(self) -> str:
        """Explain the guarantee in plain words.

        Returns
        -------
        str
            One sentence.

        Examples
        --------
        >>> Guarantee(Fraction(1), exact_delta=Fraction(1, 10**6)).meaning()[:38]
        'Replacing any one record by any other '
        """
        if not self.is_private:
            return "This output carries no privacy guarantee and must not be published as private."
        key = "" if self.unit is None else f" (identified by {self.unit!r})"
        protected = "record" if self.unit is None else f"person{key}"
        who = {
            Relation.REPLACE_ONE: "Replacing any one record by any other",
            Relation.REPLACE_PERSON: f"Replacing any one person{key}, with all their records, by any other "
            "person",
            Relation.WITHIN_GROUP: f"Replacing what any one {protected} says, given the public group,",
            Relation.ADD_REMOVE: "Whether any one record is there at all",
            Relation.REPLACE_NEARBY: f"Replacing any one record by another {self.unit or 'near by'}",
        }[self.relation]
        if self.exact_epsilon is None:
            epsilon = self.quick_epsilon_at()
            if math.isinf(epsilon) and self.effective_curve.work > _MAX_SECONDS:
                return (
                    f"{who} changes the probabilities of outputs as its privacy curve states (not printed)."
                )
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
        """Return the guarantee as JSON values, exact numbers as text.

        Returns
        -------
        dict
            JSON values.

        Examples
        --------
        >>> Guarantee(Fraction(1, 2)).to_dict()["epsilon"]
        '1/2'
        """
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
        """Build a guarantee from what :meth:`to_dict` returned.

        Parameters
        ----------
        content
            The JSON values.

        Returns
        -------
        Guarantee
            The guarantee.

        Raises
        ------
        InvalidInputError
            If a field is unknown or out of range.

        Examples
        --------
        >>> print(Guarantee.from_dict(Guarantee(Fraction(1, 2)).to_dict()))
        ε = 0.5 (replace-one)
        """
        fields = {"epsilon", "delta", "relation", "unit", "basis", "assumptions", "curve"}
        if extra := set(content) - fields:
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
