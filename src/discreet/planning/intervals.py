"""How wide intervals of an answer will be, for public sizes, before data are opened.

The question is put to made-up records, with noise from a seed, and its intervals are measured. Their
variance is a/n + b/(nμ)²: sampling, and the noise of privacy, which the answer tells apart. So one rehearsal
says about where a wanted width is reached, and rehearsals there correct it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet._html import card, paragraph, table
from discreet._text import aligned
from discreet._typing import EpsilonLike
from discreet.declarations import as_epsilon, as_size
from discreet.documents.answer import as_probability
from discreet.errors import InvalidInput
from discreet.questions.base import question_of
from discreet.questions.widths import POINTS, RECORDS, Guess, Rehearsal, as_within, rounded

_REHEARSALS = 3
_TRIES = 6


@dataclass(frozen=True)
class IntervalPlan:
    """Expected half-widths of intervals at ``level``; made by :func:`discreet.plan`."""

    kind: str
    n: int
    exact_epsilon: Fraction
    level: float
    found: Rehearsal
    within: float | None = None
    """The half-width that ε or n was solved for."""

    @property
    def epsilon(self) -> float:
        return float(self.exact_epsilon)

    @property
    def names(self) -> tuple[str, ...]:
        return self.found.names

    @property
    def widths(self) -> tuple[float, ...]:
        """Half of each interval: the ± to expect."""
        return self.found.widths

    @property
    def shares(self) -> tuple[float, ...]:
        """The noise's part of each variance."""
        return self.found.shares

    def without(self) -> tuple[float, ...]:
        """The half-widths to expect without privacy."""
        pairs = zip(self.widths, self.shares, strict=True)
        return tuple(width * math.sqrt(1 - share) for width, share in pairs)

    def table(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        rows = zip(self.names, self.widths, self.without(), self.shares, strict=True)
        return [dict(zip(("name", "width", "without", "noise_share"), row, strict=True)) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "question": self.kind,
            "n": self.n,
            "epsilon": str(self.exact_epsilon),
            "level": self.level,
            "within": self.within,
            "unit": self.found.unit,
            "rows": self.table(),
            "split": [list(pair) for pair in self.found.split],
            "warnings": list(self.found.warnings),
        }

    def title(self) -> str:
        found = f"n = {self.n:,}, ε = {self.epsilon:g}"
        if self.within is None:
            return f"Plan for {found}"
        return f"To expect ± {self.found.scale * self.within:g}: {found}"

    def header(self) -> list[str]:
        unit = f"{self.found.unit} " if self.found.unit in (POINTS, RECORDS) else ""
        return ["", f"± {unit}at {100 * self.level:g} %", "without privacy", "noise's share"]

    def cells(self) -> list[list[str]]:
        rows = zip(self.names, self.widths, self.without(), self.shares, strict=True)
        by = self.found.scale
        return [
            [name, f"{by * width:.4g}", f"{by * alone:.4g}", f"{share:.0%}"]
            for name, width, alone, share in rows
        ]

    def notes(self) -> list[str]:
        """What the table means, and how the budget is divided."""
        return [
            f"Expected half-widths of intervals, from {self.found.assumed}.",
            *(f"Warning: {text}" for text in self.found.warnings),
            *(f"{what}: {share}." for what, share in self.found.split),
        ]

    def __str__(self) -> str:
        return "\n".join([self.title(), "", *aligned(self.header(), self.cells()), "", *self.notes()])

    def _repr_html_(self) -> str:
        notes = (paragraph(note, soft=True) for note in self.notes())
        return card(paragraph(self.title(), strong=True), table(self.header(), self.cells()), *notes)


def plan_intervals(
    kind: str,
    fields: Mapping[str, Any],
    *,
    n: int | None,
    epsilon: EpsilonLike | None,
    within: Any = None,
    of: str | None = None,
    typical: float | None = None,
    correlation: float = 0.0,
    spread: float | None = None,
    left_out: float | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> IntervalPlan:
    """The plan of a question of this kind; two of ``n``, ``epsilon`` and ``within`` are given."""
    if sum(value is None for value in (n, epsilon, within)) != 1:
        raise InvalidInput(
            "give two of n, epsilon and within: n and epsilon to see the widths, within with one of them to "
            "find the other"
        )
    if not 0 <= float(correlation) < 1:
        raise InvalidInput(f"correlation={correlation!r} must be from 0 to below 1, such as 0.3")
    if spread is not None and not 0 < float(spread) < 0.5:
        raise InvalidInput(f"spread={spread!r} must be between 0 and 0.5: a deviation as a part of a range")
    if left_out is not None and not 0 <= float(left_out) < 1:
        raise InvalidInput(f"left_out={left_out!r} must be a share from 0 to below 1, such as 0.1")
    probability = as_probability(level)

    def planned(size: int, budget: Fraction) -> IntervalPlan:
        question = question_of(kind, {**fields, "epsilon": str(budget)})
        guess = Guess(typical, float(correlation), spread, None if left_out is None else float(left_out))
        found = [
            question.rehearse(size, probability, seed + repetition, guess)
            for repetition in range(_REHEARSALS)
        ]
        return IntervalPlan(kind, size, budget, probability, Rehearsal.mean(found))

    size, budget = 10_000 if n is None else as_size(n), as_epsilon(1 if epsilon is None else epsilon)
    plan = planned(size, budget)
    at = _place(plan, of)
    if within is None:
        return plan
    wanted = as_within(within, plan.found.unit)
    if n is None and plan.found.unit == RECORDS:
        raise InvalidInput("numbers of records are as certain whatever n is: give n, to find epsilon")
    best: IntervalPlan | None = None
    for _ in range(_TRIES):
        plan = plan if (size, budget) == (plan.n, plan.exact_epsilon) else planned(size, budget)
        reached, share = plan.widths[at], plan.shares[at]
        if reached <= wanted and (best is None or (size, budget) < (best.n, best.exact_epsilon)):
            best = plan
        if 0.97 * wanted <= reached <= wanted:
            break
        sampling, noise, aim = (1 - share) * reached**2, share * reached**2, (0.985 * wanted) ** 2
        if n is None:  # sampling/x + noise/x² = aim at x times as many records
            x = (sampling + math.sqrt(sampling**2 + 4 * aim * noise)) / (2 * aim)
            size = min(max(2, math.ceil(size * x)), 10**12)
        elif sampling < aim:
            x = min(max(math.sqrt(noise / (aim - sampling)), 0.05), 20.0)
            budget = rounded(budget * Fraction(x))
        elif best is None:
            raise InvalidInput(
                f"within={within!r} cannot be reached with n={n}: without privacy the interval of "
                f"{plan.names[at]!r} is already ± {plan.found.scale * math.sqrt(sampling):.3g}"
                f"{' points' if plan.found.unit == POINTS else ''}"
            )
        else:
            break
    if best is None:
        raise InvalidInput(
            f"within={within!r} was not reached by the plans tried, the last at n={size}, "
            f"epsilon={float(budget):.3g}; give n and epsilon to see the widths there"
        )
    return replace(best, within=wanted)


def _place(found: IntervalPlan, of: str | None) -> int:
    if of is not None and of not in found.names:
        raise InvalidInput(f"of={of!r} is none of what is planned: {', '.join(map(repr, found.names))}")
    if of is None:
        return 0 if found.found.unit == RECORDS else found.found.widest
    return found.names.index(of)
