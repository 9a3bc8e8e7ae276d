"""The mean of a bounded column with unknown variance, from noisy sums, with intervals that know of the noise.

A value is put on a grid of M steps and centred: u ∈ {−M/2, …, M/2}. Released are Σu, Σu² and, where the
number of values is private, their count, each with exact integer noise. With pure ε the noises are discrete
Laplace of rates ε/M, ε/M² and ε/4: one record more or less, or another, moves Σu + Σu²/M + count·M/4 by at
most M in total. With (ε, δ) they are rounded Gaussians with deviations s = M/μ, sM/√11 and 4s/M: the second
moment and the count cost nothing beside the sum. Proof: ``proofs/regression.md``, *Means*.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._typing import EpsilonLike, FloatArray
from discreet.data.engines import as_frame, as_table, count_cells
from discreet.data.files import opened
from discreet.data.grids import Grid
from discreet.data.levels import Levels
from discreet.data.paths import is_files
from discreet.declarations import Domain, Relation, as_epsilon, as_integer, as_target_delta
from discreet.errors import DataError, InvalidInput
from discreet.privacy.curves import Gaussian, largest_gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.randomness.entropy import OS_ENTROPY
from discreet.randomness.gaussian import rounded_gaussian
from discreet.randomness.integers import discrete_laplace
from discreet.regression.newton.design import EXCLUDE
from discreet.regression.newton.fit import as_level, mixture_quantile
from discreet.regression.newton.sums import undeclared

if TYPE_CHECKING:
    from discreet.randomness.entropy import Source

__all__ = ["Mean", "MeanNoise", "NoisySums", "column_sums", "mean", "posterior_of_mean"]

STEPS = 1 << 12
_MEANS, _SPREADS, _COUNTS = 161, 81, 41


@dataclass(frozen=True)
class MeanNoise:
    """The noise on (Σu, Σu², count) for a grid of ``steps``; ``people`` multiplies what one unit moves."""

    epsilon: Fraction
    mu_squared: Fraction | None
    steps: int = STEPS
    people: int = 1

    def draw(self, source: Source) -> tuple[int, int, int]:
        if self.mu_squared is None:
            rates = [self.epsilon / self.people / part for part in (self.steps, self.steps**2, 4)]
            first, second, third = (discrete_laplace(r.numerator, r.denominator, source) for r in rates)
            return first, second, third
        first, second, third = (rounded_gaussian(variance, source) for variance in self.variances())
        return first, second, third

    def variances(self) -> tuple[Fraction, Fraction, Fraction]:
        """Of the Gaussian noises: s², s²M²/11 and 16s²/M², s = M/μ."""
        assert self.mu_squared is not None
        one = Fraction(self.people**2 * self.steps**2) / self.mu_squared
        return one, one * self.steps**2 / 11, 16 * one / self.steps**2

    def scales(self) -> tuple[float, float, float]:
        """Standard deviations, or scales of the Laplace laws."""
        if self.mu_squared is None:
            one = self.people * self.steps / float(self.epsilon)
            return one, one * self.steps, one * 4 / self.steps
        first, second, third = (math.sqrt(variance) for variance in self.variances())
        return first, second, third

    def log_density(self, distance: FloatArray, scale: float) -> FloatArray:
        """log p of a noise, up to a constant."""
        if self.mu_squared is None:
            return -np.abs(distance) / scale
        return -((distance / scale) ** 2) / 2


@dataclass(frozen=True)
class NoisySums:
    """Σu, Σu² and the count with their noise; ``n`` is the count where it is public."""

    first: int
    second: int
    count: int
    n: int | None
    noise: MeanNoise


@dataclass(frozen=True)
class Mean:
    """The posterior of a population's mean, and of its standard deviation, given noisy sums."""

    column: str
    bounds: tuple[float, float]
    weights: FloatArray
    means: FloatArray
    spreads: FloatArray
    deviations: tuple[FloatArray, FloatArray]
    guarantee: Guarantee
    released: NoisySums

    def mean(self) -> float:
        return float(self.weights @ self.means)

    def std(self) -> float:
        return math.sqrt(float(self.weights @ (self.spreads**2 + (self.means - self.mean()) ** 2)))

    def interval(self, level: float = 0.9) -> tuple[float, float]:
        """A central interval of the mean."""
        tail = (1 - as_level(level)) / 2
        low, high = (mixture_quantile(self.weights, self.means, self.spreads, p) for p in (tail, 1 - tail))
        return low, high

    def deviation(self, level: float = 0.9) -> tuple[float, float, float]:
        """The population's standard deviation: posterior mean and a central interval."""
        values, chances = self.deviations
        total = np.cumsum(chances) - chances / 2
        tail = (1 - as_level(level)) / 2
        low, high = np.interp([tail, 1 - tail], total, values)
        return float(values @ chances), float(low), float(high)


def mean(
    data: Any,
    column: str | None = None,
    *,
    bounds: tuple[float, float],
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    by: str | None = None,
    levels: Sequence[Any] | Domain | None = None,
    missing: Any = None,
    n: int | None = None,
    relation: str = "replace-one",
    person: str | None = None,
    per_person: int | None = None,
    source: Source = OS_ENTROPY,
) -> Any:
    """The private mean of a column of numbers between declared ``bounds``, with its standard deviation.

    Pure ε without ``delta``, else (ε, δ). ``by`` names a column of groups with declared ``levels``: then
    the answer is a mapping from level to mean. ``missing``: ``"exclude"`` for the mean among those who
    answered, or a value.
    """
    if (person is None) != (per_person is None):
        raise InvalidInput("person=COLUMN and per_person=NUMBER go together")
    if (by is None) != (levels is None):
        raise InvalidInput("by=COLUMN and levels=(…) go together: the groups are declared")
    kind = Relation(relation)
    budget = as_epsilon(epsilon)
    probability = (
        None if delta is None else as_target_delta(delta, n or 1, "leave delta out for pure epsilon")
    )
    grid = Grid(bounds, STEPS, False, None if missing == EXCLUDE else missing)
    groups = levels if levels is None or isinstance(levels, Domain) else Domain(levels)
    # One record that moves to another group leaves one and enters another: two changes of one record.
    people = (1 if per_person is None else as_integer(per_person, "per_person")) * (
        2 if groups is not None and kind is not Relation.ADD_REMOVE else 1
    )
    mu_squared = None if probability is None else largest_gaussian(budget, probability)
    if groups is not None and mu_squared is not None and kind is not Relation.ADD_REMOVE:
        people = people // 2
        mu_squared = mu_squared / 2  # the two changes are on different coordinates: squares add
    noise = MeanNoise(budget, mu_squared, STEPS, people)
    cells, total = column_sums(data, column, grid, by, groups, missing == EXCLUDE, person, per_person)
    if n is not None and kind is not Relation.ADD_REMOVE and total != n:
        raise InvalidInput(f"n={n} was declared but the data have another number of records")
    public = groups is None and missing != EXCLUDE and kind is not Relation.ADD_REMOVE
    curve = None if mu_squared is None else Gaussian(largest_gaussian(budget, probability or Fraction(0)))
    guarantee = Guarantee(
        budget,
        Relation.REPLACE_PERSON if person is not None and kind is not Relation.ADD_REMOVE else kind,
        probability or Fraction(0),
        "exact integer noise on sums over a grid",
        curve=curve,
    )
    found = {}
    for name, (count, first, second) in cells.items():
        drawn = noise.draw(source)
        sums = NoisySums(
            first + drawn[0],
            second + drawn[1],
            count + drawn[2] if not public else 0,
            total if public else None,
            noise,
        )
        found[name] = posterior_of_mean(sums, column or "value", (grid.low, grid.high), guarantee)
    return found if groups is not None else found[None]


def column_sums(
    data: Any,
    column: str | None,
    grid: Grid,
    by: str | None,
    groups: Domain | None,
    exclude: bool,
    person: str | None,
    per_person: int | None,
) -> tuple[dict[Any, tuple[int, int, int]], int]:
    """By group the exact (count, Σu, Σu²), and the number of all records, from a table or a file."""
    coders: dict[str | None, Any] = {column: grid}
    if groups is not None:
        coders[by] = Levels(groups)
    if is_files(data):
        with opened(data, coders, person) as table:
            cells = count_cells(table, per_person).kept
    else:
        if isinstance(data, Mapping | list | tuple):
            import pandas as pd

            data = pd.DataFrame(data if isinstance(data, Mapping) else {"value": list(data)})
        frame = as_frame(data)
        if frame is None:
            raise InvalidInput("data must be a table, a column or a file")
        cells = count_cells(as_table(frame, coders, person), per_person).kept
    names: tuple[Any, ...] = (None,) if groups is None else tuple(groups.levels)
    sums = {name: [0, 0, 0] for name in names}
    total, half = 0, grid.steps // 2
    for place, records in cells.items():
        total += records
        if groups is not None and place[1] >= groups.k:
            raise undeclared(str(by), records, 0)
        if place[0] >= grid.size:
            if not (exclude and place[0] == grid.size + 1):
                raise undeclared(
                    column or "value", *((records, 0) if place[0] == grid.size else (0, records))
                )
            continue
        u, own = place[0] - half, sums[names[place[1] if groups is not None else 0]]
        own[0] += records
        own[1] += records * u
        own[2] += records * u * u
    if not total:
        raise DataError("the data are empty: there is no record")
    return {name: (own[0], own[1], own[2]) for name, own in sums.items()}, total


def posterior_of_mean(
    sums: NoisySums, column: str, bounds: tuple[float, float], guarantee: Guarantee
) -> Mean:
    """Quadrature over the records' own count, mean and variance; the population's mean is normal around
    theirs.

    Before they are seen, mean and standard deviation are uniform over what the bounds allow.
    """
    noise, half = sums.noise, sums.noise.steps / 2
    scales = noise.scales()
    if sums.n is not None:
        counts, chances = np.array([float(sums.n)]), np.zeros(1)
    else:
        reach = 12 * scales[2]
        counts = np.unique(np.rint(np.linspace(sums.count - reach, sums.count + reach, _COUNTS)))
        counts = counts[counts >= 1] if (counts >= 1).any() else np.array([1.0])
        chances = noise.log_density(sums.count - counts, scales[2])
    rows = []
    for count, chance in zip(counts, chances, strict=True):
        middle, wide = sums.first / count, min(14 * scales[0] / count, 2 * half)
        centres = np.linspace(max(-half, middle - wide), min(half, middle + wide), _MEANS)
        if middle - wide > half or middle + wide < -half:
            centres = np.linspace(-half, half, _MEANS)
        top = np.sqrt(np.maximum(half**2 - centres**2, 1e-9))
        shares = (np.arange(_SPREADS) + 0.5) / _SPREADS
        guess = sums.second / count - centres**2
        noise_of_it = 14 * scales[1] / count
        low = np.sqrt(np.clip(guess - noise_of_it, 0.0, (0.99 * top) ** 2))
        high = np.sqrt(np.clip(guess + noise_of_it, (low + 0.01 * top) ** 2, top**2))
        deviations = low[:, None] + (high - low)[:, None] * shares[None, :]
        score = noise.log_density(sums.first - count * centres, scales[0])[:, None]
        score = score + noise.log_density(
            sums.second - count * (deviations**2 + centres[:, None] ** 2), scales[1]
        )
        score = score + np.log((high - low)[:, None] * (centres[1] - centres[0])) + chance
        rows.append((count, centres, deviations, score))
    largest = max(float(score.max()) for *_, score in rows)
    step = (bounds[1] - bounds[0]) / noise.steps
    origin = (bounds[0] + bounds[1]) / 2
    weights, means, spreads, values, mass = [], [], [], [], []
    for count, centres, deviations, score in rows:
        chance = np.exp(score - largest)
        own = chance.sum(axis=1)
        kept = own > 1e-14
        second = (chance * deviations**2).sum(axis=1)[kept] / own[kept]
        weights.append(own[kept])
        means.append(origin + step * centres[kept])
        spreads.append(step * np.sqrt(np.maximum(second, 1e-6) / count))
        values.append(step * deviations.ravel())
        mass.append(chance.ravel())
    flat = np.concatenate(weights)
    order = np.argsort(np.concatenate(values))
    deviation, shares = np.concatenate(values)[order], np.concatenate(mass)[order]
    edges = np.linspace(0, len(order), 400).astype(int)
    parts = [slice(a, b) for a, b in pairwise(edges) if b > a and shares[a:b].sum() > 0]
    held = np.array([shares[part].sum() for part in parts])
    typical = np.array([deviation[part] @ shares[part] for part in parts]) / held
    return Mean(
        column,
        bounds,
        flat / flat.sum(),
        np.concatenate(means),
        np.concatenate(spreads),
        (typical, held / held.sum()),
        guarantee,
        sums,
    )
