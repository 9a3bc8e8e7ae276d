"""Many more levels than records: only what stands out from the noise is published.

Every declared level gets two-sided geometric noise, as by ``geometric``, and is published, with its noisy
count, where that reaches a public threshold τ. Empty levels are not visited one by one: which of them reach
τ, and by how much, is drawn directly, with the same law. A tenth of ε is kept for the number of records that
all other levels have together, which gets noise of its own. ``proofs/sparse.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from discreet._declarations import Relation
from discreet._numerics.enclosures import Ball, ball, enclose
from discreet._numerics.search import first_true
from discreet._randomness.bulk import geometric, successes, two_sided_geometric
from discreet._randomness.entropy import OS_ENTROPY, Source
from discreet.errors import InvalidInputError, TooLargeError
from discreet.privacy.guarantee import Guarantee

_MOST_LEVELS = 10**18  # positions are 64-bit integers
_MOST_FALSE = 10**6
_MOST_RECORDS = 10**12  # thresholds above hide everything


class SparseOutput(NamedTuple):
    """What is published."""

    counts: dict[int, int]
    """The noisy counts that reach the threshold, by the position of their level, in order."""
    rest: int
    """The noisy number of records of all other levels together."""


@dataclass(frozen=True)
class Sparse:
    """ε-private for add-remove: noisy counts from τ on of k levels, and that of all others together.

    τ is the smallest that leaves at most ``expected_false`` empty levels among those published, on average,
    if all k were empty. It depends on ε, k and that number alone.
    """

    epsilon: Fraction
    k: int
    expected_false: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not 2 <= self.k <= _MOST_LEVELS:
            raise InvalidInputError(f"levels: {self.k:,} of them; there must be 2 to {_MOST_LEVELS:.0e}")
        if not 0 < self.expected_false <= _MOST_FALSE:
            raise InvalidInputError(
                f"expected_false={float(self.expected_false):g} must be above 0 and at most "
                f"{_MOST_FALSE:,}, such as 1"
            )

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, Relation.ADD_REMOVE, basis="theorem: proofs/sparse.md")

    @property
    def rest_epsilon(self) -> Fraction:
        """The part of ε for all other levels together."""
        return self.epsilon / 10

    @property
    def level_epsilon(self) -> Fraction:
        """The part of ε for the levels."""
        return self.epsilon - self.rest_epsilon

    def passing(self, threshold: int) -> Ball:
        """P(noise ≥ threshold) = q^τ/(1 + q), q = e^{−rate}, for a threshold of at least 1."""
        q = (-ball(self.level_epsilon)).exp()
        return q**threshold / (1 + q)

    @cached_property
    def threshold(self) -> int:
        """The smallest τ ≥ 1 for which k·P(noise ≥ τ) ≤ ``expected_false`` was seen to hold."""
        allowed = ball(self.expected_false / self.k)
        rate = float(self.level_epsilon)
        enough = math.log(self.k / self.expected_false) / rate if rate > 0 else math.inf
        if enough > _MOST_RECORDS:
            raise TooLargeError(
                f"epsilon={self.epsilon}: a level would need more than {_MOST_RECORDS:.0e} records to stand "
                "out"
            )
        return first_true(
            lambda t: t > 0 and bool(enclose(lambda: self.passing(t)) <= allowed), max(1, math.ceil(enough))
        )

    def standing_out(self, records: int) -> float:
        """The probability that a level of so many records is published."""
        rate, away = float(self.level_epsilon), records - self.threshold
        tail = math.exp(-rate * (away + 1 if away >= 0 else -away)) / (1 + math.exp(-rate))
        return 1 - tail if away >= 0 else tail

    def surely(self, probability: float = 0.95) -> int:
        """The least number of records with which a level is published so often."""
        return first_true(lambda n: n > 0 and self.standing_out(n) >= probability, self.threshold)

    def run(self, counts: Mapping[int, int], source: Source = OS_ENTROPY) -> SparseOutput:
        """What is published of levels by position; those that do not occur may be left out."""
        tau, rate = self.threshold, self.level_epsilon
        occupied = np.array(sorted(place for place, count in counts.items() if count), dtype=np.int64)
        noise = two_sided_geometric(len(occupied), rate, source).tolist()
        noisy = {place: counts[place] + int(v) for place, v in zip(occupied.tolist(), noise, strict=True)}
        found = {place: z for place, z in noisy.items() if z >= tau}
        ranks = successes(self.k - len(occupied), lambda: self.passing(tau), source)
        # Before the j-th level that occurs there are occupied[j] − j that do not.
        places = ranks + np.searchsorted(occupied - np.arange(len(occupied)), ranks, side="right")
        above = geometric(len(places), rate, source).tolist()
        found |= {place: tau + int(more) for place, more in zip(places.tolist(), above, strict=True)}
        rest = sum(count for place, count in counts.items() if place not in found)
        rest += int(two_sided_geometric(1, self.rest_epsilon, source)[0])
        return SparseOutput(dict(sorted(found.items())), rest)
