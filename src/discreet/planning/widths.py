"""How wide intervals of answers will be, before data are opened: which ε or n a width needs, and one budget
for several questions.

A question that is rehearsed is put to made-up records, with noise from a seed, and its intervals are
measured. Their variance is a/n + b/(nμ)²: sampling, and the noise of privacy, which the answer tells apart.
So one rehearsal says about where a wanted width is reached, and rehearsals there correct it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from discreet._html import card, paragraph, table
from discreet._registry import QUESTIONS
from discreet._text import aligned, amount
from discreet._typing import EpsilonLike
from discreet.declarations import as_epsilon, as_size
from discreet.documents.answer import as_probability
from discreet.errors import InvalidInput
from discreet.numerics.search import boundary
from discreet.questions.base import Question, question_of
from discreet.questions.widths import POINTS, RECORDS, Guess, Rehearsal, Width, as_within, rounded

MAX_EPSILON, MAX_N = Fraction(50), 10_000_000
"""Where searches for ε and for n end."""
LEAST_EPSILON = 0.004
"""Where the search for the ε of a question ends: less is noise alone, and takes long to account for."""
_REHEARSALS, _TRIES = 3, 6


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
        by, rows = self.found.scale, (tuple(row.values()) for row in self.table())
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
    guess: Guess,
    *,
    n: int | None,
    epsilon: EpsilonLike | None,
    within: Any = None,
    of: str | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> IntervalPlan:
    """The plan of a question of this kind; two of ``n``, ``epsilon`` and ``within`` are given."""
    if sum(value is None for value in (n, epsilon, within)) != 1:
        raise InvalidInput(
            "give two of n, epsilon and within: n and epsilon to see the widths, within with one of them to "
            "find the other"
        )
    if not 0 <= float(guess.correlation) < 1:
        raise InvalidInput(f"correlation={guess.correlation!r} must be from 0 to below 1, such as 0.3")
    if guess.spread is not None and not 0 < float(guess.spread) < 0.5:
        raise InvalidInput(
            f"spread={guess.spread!r} must be between 0 and 0.5: a deviation as a part of a range"
        )
    if guess.left_out is not None and not 0 <= float(guess.left_out) < 1:
        raise InvalidInput(f"left_out={guess.left_out!r} must be a share from 0 to below 1, such as 0.1")
    shares = {"correlation": guess.correlation, "left_out": guess.left_out}
    guess = guess._replace(**{name: float(share) for name, share in shares.items() if share is not None})
    probability = as_probability(level)

    def planned(size: int, budget: Fraction) -> IntervalPlan:
        question = question_of(kind, {**fields, "epsilon": str(budget)})
        seeds = range(seed, seed + _REHEARSALS)
        found = [question.rehearse(size, probability, one, guess) for one in seeds]
        return IntervalPlan(kind, size, budget, probability, Rehearsal.mean(found))

    size, budget = 10_000 if n is None else as_size(n), as_epsilon(1 if epsilon is None else epsilon)
    plan = planned(size, budget)
    if of is not None and of not in plan.names:
        raise InvalidInput(f"of={of!r} is none of what is planned: {', '.join(map(repr, plan.names))}")
    if within is None:
        return plan
    wanted, counted = as_within(within, plan.found.unit), plan.found.unit == RECORDS
    if n is None and counted:
        raise InvalidInput("numbers of records are as certain whatever n is: give n, to find epsilon")
    at = plan.names.index(of) if of is not None else 0 if counted else plan.found.widest
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


def expected_width(question: Question, size: Any = None, level: float = 0.95) -> Width:
    """The expected half-width of an answer's interval, or an error where this kind of question has none."""
    found = question.expected_width(size, level)
    if found is None:
        raise InvalidInput(
            f"no width can be planned for a question of kind {question.kind!r}; give epsilon or weight"
        )
    return found


def epsilon_within(question: Question, within: Any, size: Any = None, level: float = 0.95) -> Fraction:
    """The least ε, of three digits and rounded up, at which the interval is expected within ± ``within``."""

    def at(epsilon: float) -> Width:
        return expected_width(replace(question, epsilon=rounded(epsilon)), size, level)  # type: ignore[call-arg]

    high = 1.0
    wanted = as_within(within, at(high).unit)
    while (best := at(high)).half > wanted:
        if high >= MAX_EPSILON:
            raise InvalidInput(
                f"within={within!r} is not reached: even without privacy so many records give about {best}; "
                "more precision needs more records"
            )
        high = min(4 * high, float(MAX_EPSILON))
    low = high / 4
    while at(low).half <= wanted:
        low, high = low / 4, low
        if high < LEAST_EPSILON:
            return rounded(high)
    return rounded(boundary(lambda x: at(x).half <= wanted, high, low, relative=1e-3))


def size_within(question: Question, within: Any, level: float = 0.95) -> int:
    """The least number of records, to three digits, at which the interval is expected within ± ``within``."""
    wanted = as_within(within, expected_width(question, 1000, level).unit)
    high = 16
    while expected_width(question, high, level).half > wanted:
        high *= 4
        if high > MAX_N:
            raise InvalidInput(
                f"within={within!r} is not reached with {MAX_N:,} records; ask for less, or raise epsilon"
            )
    found = boundary(lambda n: expected_width(question, n, level).half <= wanted, high, 1)
    return found if found < 1000 else math.ceil(rounded(found))


@dataclass(frozen=True)
class Share:
    """What one question gets of a budget, and how precise it is then expected to be."""

    name: str
    epsilon: Fraction
    delta: Fraction | None
    width: Width | None
    question: Mapping[str, Any]
    """The question with its ε and δ filled in."""


@dataclass(frozen=True)
class Split:
    """One budget for several questions, fixed before any data are opened; made by ``Study.split``."""

    shares: tuple[Share, ...]
    epsilon: Fraction
    """Of the whole budget, or what was left of it."""

    @property
    def questions(self) -> list[Mapping[str, Any]]:
        """The questions with their ε, ready to be priced and answered."""
        return [one.question for one in self.shares]

    @property
    def spent(self) -> Fraction:
        """All of them together."""
        return sum((one.epsilon for one in self.shares), Fraction(0))

    def __str__(self) -> str:
        columns: dict[str, list[str]] = {"question": [one.name for one in self.shares]}
        columns["ε"] = [f"{float(one.epsilon):g}" for one in self.shares]
        if any(one.delta for one in self.shares):
            columns["δ"] = ["–" if one.delta is None else amount(one.delta) for one in self.shares]
        widths = [one.width for one in self.shares]
        columns["95 % interval"] = ["–" if width is None else str(width) for width in widths]
        columns["without"] = ["–" if width is None else width.bare for width in widths]
        left = self.epsilon - self.spent
        end = f"Together ε = {float(self.spent):g} of {float(self.epsilon):g}; {float(left):g} is left."
        return "\n".join([*aligned(list(columns), list(zip(*columns.values(), strict=True))), "", end])

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "epsilon": str(self.epsilon),
            "questions": [
                {
                    "id": one.name,
                    "epsilon": str(one.epsilon),
                    "delta": None if one.delta is None else str(one.delta),
                    "expected": None if one.width is None else one.width._asdict(),
                }
                for one in self.shares
            ],
        }


def split(
    questions: Mapping[str, Mapping[str, Any]],
    epsilon: Fraction,
    delta: Fraction | None = None,
    n: int | None = None,
) -> Split:
    """ε (and δ) of each question within one budget, from public parameters only.

    A question has ``epsilon`` already, or says ``within``, the precision that it needs, or a ``weight`` (1
    unless said) with which it shares what the others leave. δ is divided equally among those that need one.
    """
    needing = [name for name, one in questions.items() if _needs_delta(one)]
    if needing and not delta:
        raise InvalidInput(
            f"question {needing[0]!r} needs a part of δ: give the budget a delta, such as 1e-5"
        )
    fixed: dict[str, Fraction] = {}
    weights: dict[str, Fraction] = {}
    plain: dict[str, dict[str, Any]] = {}
    for name, given in questions.items():
        own = plain[name] = {key: value for key, value in given.items() if key not in ("within", "weight")}
        if delta is not None and name in needing:
            own["delta"] = str(delta / len(needing))
        if sum(key in given for key in ("within", "weight", "epsilon")) > 1:
            raise InvalidInput(f"question {name!r}: give one of epsilon, within and weight")
        if "epsilon" in given:
            fixed[name] = as_epsilon(given["epsilon"])
        elif "within" in given:
            put = _question(name, {**own, "epsilon": 1})
            try:
                fixed[name] = epsilon_within(put, given["within"], None if put.declared_size else n)
            except InvalidInput as error:
                raise InvalidInput(f"question {name!r}: {error}") from None
        else:
            weights[name] = as_epsilon(given.get("weight", 1), "weight")
    left = epsilon - sum(fixed.values(), Fraction(0))
    if left < 0 or (weights and left <= 0):
        asked = ", ".join(f"{name} ε = {float(value):g}" for name, value in fixed.items())
        raise InvalidInput(
            f"the budget ε = {float(epsilon):g} does not allow it: {asked}"
            f"{', and the others need some too' if weights else ''}; ask for wider intervals, for less, or "
            "have a larger budget"
        )
    total = sum(weights.values(), Fraction(0))
    shares = []
    for name, own in plain.items():
        part = fixed[name] if name in fixed else rounded(left * weights[name] / total, math.floor, 4)
        filled = {**own, "epsilon": str(part)}
        put = _question(name, filled)
        width = put.expected_width(n) if n is not None or put.declared_size else None
        own_delta = None if own.get("delta") is None else as_epsilon(own["delta"], "delta")
        shares.append(Share(name, part, own_delta, width, filled))
    return Split(tuple(shares), epsilon)


def _question(name: str, given: Mapping[str, Any]) -> Question:
    kind = given.get("kind", "proportion")
    own = {key: value for key, value in given.items() if key not in ("title", "id", "kind")}
    return question_of(kind, own, f"question {name!r} ({kind})")


def _needs_delta(given: Mapping[str, Any]) -> bool:
    """Whether a question cannot do without δ, and was given none."""
    kind = given.get("kind", "proportion")
    if "delta" in given or kind not in QUESTIONS:
        return False
    return any(one.name == "delta" and one.required for one in QUESTIONS[kind].parameters())
