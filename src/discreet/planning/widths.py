"""Which ε, or how many records, a wanted precision needs; and one budget for several questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor
from typing import Any

from discreet._registry import QUESTIONS
from discreet._text import aligned, amount
from discreet.declarations import as_epsilon
from discreet.errors import InvalidInput
from discreet.numerics.search import boundary
from discreet.planning.search import MAX_EPSILON, MAX_N
from discreet.questions.base import Question, question_of
from discreet.questions.widths import Width, as_within, rounded

LEAST_EPSILON = 0.004
"""Where the search for the ε of a question ends: less is noise alone, and takes long to account for."""


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
    return found if found < 1000 else ceil(rounded(found))


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
        header = (
            "question",
            "ε",
            *(("δ",) if any(one.delta for one in self.shares) else ()),
            "95 % interval",
            "without",
        )
        rows = []
        for one in self.shares:
            delta = ("–" if one.delta is None else amount(one.delta),) if "δ" in header else ()
            width = ("–", "–") if one.width is None else (str(one.width), one.width.bare)
            rows.append((one.name, f"{float(one.epsilon):g}", *delta, *width))
        left = self.epsilon - self.spent
        end = f"Together ε = {float(self.spent):g} of {float(self.epsilon):g}; {float(left):g} is left."
        return "\n".join([*aligned(header, rows), "", end])

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
    fixed: dict[str, Fraction] = {}
    weights: dict[str, Fraction] = {}
    plain = {}
    needing = [name for name, one in questions.items() if _needs_delta(one)]
    if needing and not delta:
        raise InvalidInput(
            f"question {needing[0]!r} needs a part of δ: give the budget a delta, such as 1e-5"
        )
    for name, given in questions.items():
        own = {
            key: value
            for key, value in given.items()
            if key not in ("within", "weight", "title", "id", "kind")
        }
        if name in needing:
            assert delta is not None
            own["delta"] = str(delta / len(needing))
        plain[name] = own
        if sum(key in given for key in ("within", "weight", "epsilon")) > 1:
            raise InvalidInput(f"question {name!r}: give one of epsilon, within and weight")
        if "epsilon" in given:
            fixed[name] = as_epsilon(given["epsilon"])
        elif "within" in given:
            put = _question(name, given, {**own, "epsilon": 1})
            try:
                fixed[name] = epsilon_within(
                    put, given["within"], n if put.declared_size in (None, 0) else None
                )
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
    for name, given in questions.items():
        part = fixed[name] if name in fixed else rounded(left * weights[name] / total, floor, 4)
        filled = {**plain[name], "epsilon": str(part)}
        put = _question(name, given, filled)
        width = put.expected_width(n) if n is not None or put.declared_size not in (None, 0) else None
        own_delta = None if filled.get("delta") is None else as_epsilon(filled["delta"], "delta")
        kept = {key: given[key] for key in ("id", "kind", "title") if key in given}
        shares.append(Share(name, part, own_delta, width, {**kept, **filled}))
    return Split(tuple(shares), epsilon)


def _question(name: str, given: Mapping[str, Any], own: Mapping[str, Any]) -> Question:
    kind = given.get("kind", "proportion")
    return question_of(kind, own, f"question {name!r} ({kind})")


def _needs_delta(given: Mapping[str, Any]) -> bool:
    """Whether a question cannot do without δ, and was given none."""
    kind = given.get("kind", "proportion")
    if "delta" in given or kind not in QUESTIONS:
        return False
    return any(one.name == "delta" and one.required for one in QUESTIONS[kind].parameters())
