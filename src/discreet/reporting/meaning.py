"""What a guarantee means for a person, in the same words everywhere."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

from discreet.errors import TooLargeError
from discreet.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Meaning:
    """What somebody can gain who knows everything but one record."""

    right: int
    """How often, in 100 times, they guess right between two equally plausible versions; rounded up."""
    factor: float | None
    """By how much odds can change; None where ε is not stated."""
    rest: str
    """What they know."""

    @property
    def sentence(self) -> str:
        """The promise in plain words."""
        return (
            f"Suppose somebody knows {self.rest} and cannot decide between two equally plausible versions of "
            "what is left. Without this release they would guess right 50 times in 100; with it, at most "
            f"{self.right} times in 100."
        )

    @property
    def unlucky(self) -> str:
        """Why the table of suspicions says more than the sentence, where it does: δ makes them differ."""
        if self.factor is None or 100 * self.factor / (1 + self.factor) <= self.right:
            return ""
        return (
            "The table is for the outcome of the noise that would tell most, which is rare; "
            f"{self.right} times in 100 is over all outcomes."
        )

    @property
    def suspicions(self) -> tuple[tuple[float, float], ...]:
        """(probability before, largest probability afterwards)."""
        if self.factor is None:
            return ()
        odds = {before: self.factor * before / (1 - before) for before in (0.01, 0.1, 0.5, 0.9)}
        return tuple((before, after / (1 + after)) for before, after in odds.items())


def meaning(guarantee: Guarantee) -> Meaning | None:
    """None where nothing is promised, or where the figures would take too long.

    δ(0) is the total variation between neighbours; the best guess of two equally likely ones is right with
    probability (1 + δ(0))/2. Rounded up: a promise may say too much of the attacker, never too little.
    """
    if not guarantee.is_private:
        return None
    with suppress(TooLargeError):
        right = math.ceil(50 * (1 + guarantee.delta_at(0)) - 1e-9)
        known = guarantee.exact_epsilon is not None and guarantee.epsilon < 700
        return Meaning(right, math.exp(guarantee.epsilon) if known else None, guarantee.relation.rest)
    return None
