"""Selection of levels that cannot be listed beforehand, each published with a noisy count.

Every level that occurs gets two-sided geometric noise, truncated at ±t; it is published, with its noisy
count, where that exceeds t. A level without records is never published, and one with a single record is
published with probability at most δ. This is the optimal selection for one record per person (Desfontaines,
Voss, Gipson and Mandayam 2022, "Differentially private partition selection"). ``proofs/discovery.md``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from discreet._declarations import Relation
from discreet._numerics.enclosures import Ball, ball, enclose
from discreet._numerics.search import first_true
from discreet._randomness.bulk import two_sided_geometric
from discreet._randomness.entropy import OS_ENTROPY, Source
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError, TooLargeError
from discreet.privacy.guarantee import Guarantee

_MAX_THRESHOLD_RECORDS = 10**7  # thresholds above hide everything


@dataclass(frozen=True)
class Discovery:
    """The selection of levels under add-remove; (ε, δ) covers their names and counts together.

    Parameters
    ----------
    epsilon
        ε, exactly.
    delta
        δ, exactly.

    Examples
    --------
    >>> selection = Discovery(Fraction(1), Fraction(1, 10**6))
    >>> selection.threshold, selection.records_needed(0.5)
    (14, 15)
    >>> selection.publication_probability(1) <= 1e-6, selection.publication_probability(100)
    (True, 1.0)
    """

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidInputError(f"delta={float(self.delta):g} must be a probability above 0 and below 1")

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of names and counts together."""
        return Guarantee(self.epsilon, Relation.ADD_REMOVE, self.delta, basis="theorem: proofs/discovery.md")

    def _last(self, threshold: int) -> Ball:
        """Return an enclosure of P(noise = t) for t = ``threshold``, which must be at most δ.

        The probability is (1 − q)q^t/(1 + q − 2q^{t+1}) with q = e^{−ε}.
        """

        def compute() -> Ball:
            q = (-ball(self.epsilon)).exp()
            return (1 - q) * q**threshold / (1 + q - 2 * q ** (threshold + 1))

        return enclose(compute)

    @cached_property
    def threshold(self) -> int:
        """The smallest t for which P(noise = t) ≤ δ is proved; floating point only locates it."""
        rate, delta = float(self.epsilon), float(self.delta)
        q, rest = math.exp(-rate), -math.expm1(-rate)
        seen = min(rate, delta) > 1e-300  # what is smaller may be 0 as a float
        guess = math.log1p(rest * (1 - delta) / ((1 + q) * delta)) / rate if seen else math.inf
        if guess > _MAX_THRESHOLD_RECORDS:
            raise TooLargeError(
                f"epsilon={self.epsilon}, delta={float(self.delta):g}: a level would need more than "
                f"{_MAX_THRESHOLD_RECORDS:,} records to be published"
            )
        allowed = ball(self.delta)
        return first_true(lambda t: t > 0 and bool(self._last(t) <= allowed), max(1, math.floor(guess)))

    def publication_probability(self, records: int) -> float:
        """Return the probability that a level is published.

        Parameters
        ----------
        records
            Number of records of the level.

        Returns
        -------
        float
            The probability, in floating point.

        Examples
        --------
        >>> selection = Discovery(Fraction(1), Fraction(1, 10**6))
        >>> selection.publication_probability(0), round(selection.publication_probability(14), 4)
        (0.0, 0.2689)
        """
        return 0.0 if records <= 0 else float(self._chances[min(records, len(self._chances)) - 1])

    @cached_property
    def _chances(self) -> FloatArray:
        """The probabilities that levels with 1, 2, … records are published."""
        distribution = np.exp(-float(self.epsilon) * np.abs(np.arange(-self.threshold, self.threshold + 1)))
        return np.asarray(np.cumsum(distribution) / distribution.sum())

    def records_needed(self, probability: float) -> int:
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
        >>> Discovery(Fraction(1), Fraction(1, 10**6)).records_needed(0.99)
        19
        """
        return int(np.argmax(self._chances >= probability - 1e-12)) + 1

    @cached_property
    def _sizes(self) -> FloatArray:
        """The probabilities of |noise| = 0, 1, …, t."""
        distribution = np.exp(-float(self.epsilon) * np.arange(self.threshold + 1))
        distribution[1:] *= 2
        return np.asarray(distribution / distribution.sum())

    def noise_bound(self, level: float) -> int:
        """Return the smallest w such that the noise is within ±w with this probability.

        Parameters
        ----------
        level
            The probability.

        Returns
        -------
        int
            The bound w.

        Examples
        --------
        >>> Discovery(Fraction(1), Fraction(1, 10**6)).noise_bound(0.95)
        3
        """
        return int(np.argmax(np.cumsum(self._sizes) >= level - 1e-12))

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Simulate noise with a seeded generator, for inference from what was published.

        Parameters
        ----------
        shape
            Shape of the result.
        rng
            The random number generator.

        Returns
        -------
        FloatArray
            The noise.
        """
        sizes = rng.choice(len(self._sizes), shape, p=self._sizes)
        return np.asarray(sizes * rng.choice((-1.0, 1.0), shape), dtype=np.float64)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt(float(self._sizes @ np.arange(self.threshold + 1.0) ** 2))

    def run(self, counts: Mapping[str, int], source: Source = OS_ENTROPY) -> dict[str, int]:
        """Draw the published levels, in the order of their names, with noisy counts.

        Parameters
        ----------
        counts
            Number of records of each level.
        source
            Source of randomness.

        Returns
        -------
        dict of str to int
            Noisy counts above the threshold.

        Examples
        --------
        >>> selection = Discovery(Fraction(1), Fraction(1, 10**6))
        >>> list(selection.run({"rare": 0, "common": 1000}))
        ['common']
        """
        names = sorted(counts)
        noise = [0] * len(names)
        waiting = list(range(len(names)))
        # a draw beyond ±t is drawn again: what stays has the distribution of the noise cut off there
        while waiting:
            drawn = two_sided_geometric(len(waiting), self.epsilon, source).tolist()
            for place, value in zip(waiting, drawn, strict=True):
                noise[place] = int(value)
            waiting = [place for place in waiting if abs(noise[place]) > self.threshold]
        noisy = {name: int(counts[name]) + noise[place] for place, name in enumerate(names)}
        return {name: value for name, value in noisy.items() if value > self.threshold}
