"""Counts of many more levels than records: only those that stand out from the noise are published.

Every declared level gets two-sided geometric noise, as by ``geometric``, and is published, with its noisy
count, where that reaches a public threshold τ. Empty levels are not visited one by one: which of them reach
τ, and by how much, is drawn directly, with the same distribution. A tenth of ε pays for the noisy number of
records of all other levels together. ``proofs/sparse.md``.
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

_MAX_LEVELS = 10**18  # positions are 64-bit integers
_MAX_EXPECTED_FALSE = 10**6
_MAX_THRESHOLD_RECORDS = 10**12  # thresholds above hide everything


class SparseOutput(NamedTuple):
    """The published counts of single levels and of all others together."""

    counts: dict[int, int]
    """The noisy counts that reach the threshold, by the position of their level, in order."""
    rest: int
    """The noisy number of records of all other levels together."""


@dataclass(frozen=True)
class Sparse:
    """Noisy counts of the levels that reach τ, and of all others together: ε-private under add-remove.

    Parameters
    ----------
    epsilon
        ε, exactly.
    k
        Number of declared levels.
    expected_false
        Bound on the expected number of empty levels among those published, if all k were empty. The threshold
        τ is the smallest that keeps it, and depends on ε, k and this number alone.

    Examples
    --------
    >>> sparse = Sparse(Fraction(1), 10**9)
    >>> sparse.threshold, sparse.records_needed(0.95)
    (23, 25)
    """

    epsilon: Fraction
    k: int
    expected_false: Fraction = Fraction(1)

    def __post_init__(self) -> None:
        if not 2 <= self.k <= _MAX_LEVELS:
            raise InvalidInputError(f"k={self.k} must be between 2 and {_MAX_LEVELS:.0e}")
        if not 0 < self.expected_false <= _MAX_EXPECTED_FALSE:
            raise InvalidInputError(
                f"expected_false={float(self.expected_false):g} must be above 0 and at most "
                f"{_MAX_EXPECTED_FALSE:,}, such as 1"
            )

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of everything that is published."""
        return Guarantee(self.epsilon, Relation.ADD_REMOVE, basis="theorem: proofs/sparse.md")

    @property
    def rest_epsilon(self) -> Fraction:
        """The part of ε for the noisy count of all unpublished levels together."""
        return self.epsilon / 10

    @property
    def level_epsilon(self) -> Fraction:
        """The part of ε for the noisy counts of the levels."""
        return self.epsilon - self.rest_epsilon

    def exceedance(self, threshold: int) -> Ball:
        """Enclose P(noise ≥ τ) = q^τ/(1 + q), where q = e^{−rate}.

        Parameters
        ----------
        threshold
            τ, at least 1.

        Returns
        -------
        Ball
            The probability.

        Examples
        --------
        >>> round(float(Sparse(Fraction(1), 100).exceedance(5).mid()), 5)
        0.0079
        """
        q = (-ball(self.level_epsilon)).exp()
        return q**threshold / (1 + q)

    @cached_property
    def threshold(self) -> int:
        """The smallest τ ≥ 1 for which k·P(noise ≥ τ) ≤ ``expected_false`` is proved."""
        allowed = ball(self.expected_false / self.k)
        rate = float(self.level_epsilon)
        enough = math.log(self.k / self.expected_false) / rate if rate > 0 else math.inf
        if enough > _MAX_THRESHOLD_RECORDS:
            raise TooLargeError(
                f"epsilon={self.epsilon} is too small: a level would need more than "
                f"{_MAX_THRESHOLD_RECORDS:.0e} records to stand out; increase epsilon"
            )
        return first_true(
            lambda t: t > 0 and bool(enclose(lambda: self.exceedance(t)) <= allowed),
            max(1, math.ceil(enough)),
        )

    def publication_probability(self, records: int) -> float:
        """Return the probability that a level is published.

        Parameters
        ----------
        records
            Number of records of the level.

        Returns
        -------
        float
            The probability.

        Examples
        --------
        >>> sparse = Sparse(Fraction(1), 10**9)
        >>> round(sparse.publication_probability(30), 4)
        0.9995
        """
        rate, away = float(self.level_epsilon), records - self.threshold
        tail = math.exp(-rate * (away + 1 if away >= 0 else -away)) / (1 + math.exp(-rate))
        return 1 - tail if away >= 0 else tail

    def records_needed(self, probability: float = 0.95) -> int:
        """Return the fewest records with which a level is published with at least this probability.

        Parameters
        ----------
        probability
            The probability.

        Returns
        -------
        int
            Number of records.

        Examples
        --------
        >>> Sparse(Fraction(1), 1000).records_needed(0.99)
        12
        """
        return first_true(lambda n: n > 0 and self.publication_probability(n) >= probability, self.threshold)

    def run(self, counts: Mapping[int, int], source: Source = OS_ENTROPY) -> SparseOutput:
        """Draw the published counts.

        Parameters
        ----------
        counts
            The number of records of each level, by its position; empty levels may be left out.
        source
            Source of randomness.

        Returns
        -------
        SparseOutput
            The noisy counts that reach the threshold, and the noisy count of all other levels together.

        Examples
        --------
        >>> output = Sparse(Fraction(10), 1000, Fraction(1, 10**6)).run({7: 10000})
        >>> 7 in output.counts
        True
        """
        tau, rate = self.threshold, self.level_epsilon
        occupied = np.array(sorted(place for place, count in counts.items() if count), dtype=np.int64)
        noise = two_sided_geometric(len(occupied), rate, source).tolist()
        noisy = {place: counts[place] + int(v) for place, v in zip(occupied.tolist(), noise, strict=True)}
        published = {place: z for place, z in noisy.items() if z >= tau}
        ranks = successes(self.k - len(occupied), lambda: self.exceedance(tau), source)
        # Before the j-th level that occurs there are occupied[j] − j that do not.
        places = ranks + np.searchsorted(occupied - np.arange(len(occupied)), ranks, side="right")
        above = geometric(len(places), rate, source).tolist()
        published |= {place: tau + int(more) for place, more in zip(places.tolist(), above, strict=True)}
        rest = sum(count for place, count in counts.items() if place not in published)
        rest += int(two_sided_geometric(1, self.rest_epsilon, source)[0])
        return SparseOutput(dict(sorted(published.items())), rest)
