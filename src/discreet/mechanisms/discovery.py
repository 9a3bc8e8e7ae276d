"""Levels that nobody can list: which of them to publish, and a noisy count of each, in one.

Every level that occurs gets two-sided geometric noise, cut off at ±t; it is published, with its noisy count,
where that exceeds t. A level without records then never is, and one of a single record with a probability of
at most δ. It is the optimal selection for one record per person (Desfontaines, Voss, Gipson and Mandayam
2022, "Differentially private partition selection"), and the counts come with it. ``proofs/discovery.md``.
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

_MOST = 10**7  # thresholds above hide everything


@dataclass(frozen=True)
class Discovery:
    """The selection for (ε, δ), which covers names and counts together; add-remove only."""

    epsilon: Fraction
    delta: Fraction

    def __post_init__(self) -> None:
        if not 0 < self.delta < 1:
            raise InvalidInputError(f"delta={float(self.delta):g} must be a probability above 0 and below 1")

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, Relation.ADD_REMOVE, self.delta, basis="theorem: proofs/discovery.md")

    def _last(self, threshold: int) -> Ball:
        """P(noise = threshold) = (1 − q)q^t/(1 + q − 2q^{t+1}), q = e^{−ε}: what the guarantee needs ≤ δ."""

        def compute() -> Ball:
            q = (-ball(self.epsilon)).exp()
            return (1 - q) * q**threshold / (1 + q - 2 * q ** (threshold + 1))

        return enclose(compute)

    @cached_property
    def threshold(self) -> int:
        """The smallest t for which P(noise = t) ≤ δ was seen to hold; floats only say where to look."""
        rate, delta = float(self.epsilon), float(self.delta)
        q, rest = math.exp(-rate), -math.expm1(-rate)
        seen = min(rate, delta) > 1e-300  # what is smaller may be 0 as a float
        guess = math.log1p(rest * (1 - delta) / ((1 + q) * delta)) / rate if seen else math.inf
        if guess > _MOST:
            raise TooLargeError(
                f"epsilon={self.epsilon}, delta={float(self.delta):g}: a level would need more than "
                f"{_MOST:,} records to be published"
            )
        allowed = ball(self.delta)
        return first_true(lambda t: t > 0 and bool(self._last(t) <= allowed), max(1, math.floor(guess)))

    def chance(self, records: int) -> float:
        """The probability that a level of so many records is published, rounded to a double."""
        return 0.0 if records <= 0 else float(self._chances[min(records, len(self._chances)) - 1])

    @cached_property
    def _chances(self) -> FloatArray:
        """Of levels of 1, 2, … records."""
        law = np.exp(-float(self.epsilon) * np.abs(np.arange(-self.threshold, self.threshold + 1)))
        return np.asarray(np.cumsum(law) / law.sum())

    def likely(self, chance: float) -> int:
        """The fewest records with which a level is published with at least this probability."""
        return int(np.argmax(self._chances >= chance - 1e-12)) + 1

    @cached_property
    def _sizes(self) -> FloatArray:
        """The law of |noise|, on 0, 1, …, t."""
        law = np.exp(-float(self.epsilon) * np.arange(self.threshold + 1))
        law[1:] *= 2
        return np.asarray(law / law.sum())

    def within(self, level: float) -> int:
        """The smallest w such that the noise is within ±w with this probability."""
        return int(np.argmax(np.cumsum(self._sizes) >= level - 1e-12))

    def simulate(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Noise from a seeded generator, for inference from what was published."""
        sizes = rng.choice(len(self._sizes), shape, p=self._sizes)
        return np.asarray(sizes * rng.choice((-1.0, 1.0), shape), dtype=np.float64)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt(float(self._sizes @ np.arange(self.threshold + 1.0) ** 2))

    def run(self, counts: Mapping[str, int], source: Source = OS_ENTROPY) -> dict[str, int]:
        """The published levels, in the order of their names, with noisy counts."""
        names = sorted(counts)
        noise = [0] * len(names)
        waiting = list(range(len(names)))
        while waiting:  # a draw beyond ±t is drawn again: what stays has the law of the noise cut off there
            drawn = two_sided_geometric(len(waiting), self.epsilon, source).tolist()
            for place, value in zip(waiting, drawn, strict=True):
                noise[place] = int(value)
            waiting = [place for place in waiting if abs(noise[place]) > self.threshold]
        noisy = {name: int(counts[name]) + noise[place] for place, name in enumerate(names)}
        return {name: value for name, value in noisy.items() if value > self.threshold}
