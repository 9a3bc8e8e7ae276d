"""The mean of a bounded column with unknown variance, from noisy sums, with noise-aware intervals.

A value is rounded to a grid of M steps (:func:`steps_between`) and centred: u ∈ {−M/2, …, M/2}. The release
has Σu, Σu² and, where the number of values is private, their count, each with exact integer noise. Under pure
ε the noise is discrete Laplace with rates ε/M, ε/M² and ε/4: adding, removing or replacing one record changes
Σu + Σu²/M + count·M/4 by at most M in total. Under (ε, δ) the noise is rounded Gaussian with standard
deviations s = M/μ, sM/√11 and 4s/M: the second moment and the count then cost nothing in addition to the sum.
Proof: ``proofs/regression.md``, *Means*.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet._data.engines import count_cells
from discreet._data.files import open_columns
from discreet._data.grids import Grid
from discreet._data.levels import Levels
from discreet._data.values import distinct
from discreet._declarations import (
    EXCLUDE,
    MOST_STEPS,
    Domain,
    Relation,
    as_bounds,
    as_plain,
    as_positive,
    as_rational,
    as_real,
    group_assumption,
    people_assumption,
    people_bound,
    steps_between,
)
from discreet._documents.answer import Answer
from discreet._documents.parts import INTERVALS_NOTE, LARGEST, VERSIONS, Row, Words, as_count, with_interval
from discreet._interop import Bridged
from discreet._json import fields_as_json
from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy
from discreet._randomness.gaussian import rounded_gaussian
from discreet._randomness.integers import discrete_laplace
from discreet._typing import FloatArray
from discreet.distributions.base import tails
from discreet.distributions.mixture_likelihood import MixtureLikelihood
from discreet.distributions.mixtures import NormalMixture
from discreet.distributions.quantity import Quantity
from discreet.errors import DataError, InvalidInputError
from discreet.privacy.curves import Gaussian, largest_gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression._newton.fit import as_level
from discreet.regression._newton.sums import undeclared_error
from discreet.regression._pooled import Covariates, PooledEstimates, Subject, group_mixture

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

_READING = (
    "The mean is that of the population from which the records come, with values clipped to the declared "
    "bounds. The interval contains it with the stated probability."
)

BASIS = "exact integer noise on sums over a grid (proofs/regression.md)"
_ROUNDING = 1 / 12
"""The variance of the mean due to rounding to the grid, in squared steps. Equal records are rounded alike, so
more records do not make it smaller."""
_AT_BOUND = 0.02
"""The share of the range within which a mean counts as being at a bound."""
_CLIPPED = (
    "nearly all records of {column} lie at the {name} bound, {bound:g}, or beyond it, where they were "
    "clipped; if that is not what the values mean, the declared bounds do not fit them"
)
_MEANS, _SPREADS, _COUNTS = 161, 81, 41


@dataclass(frozen=True)
class MeanNoise:
    """Noise on (Σu, Σu², count) of a column on a grid.

    Parameters
    ----------
    epsilon : Fraction
        The ε that the noise must reach.
    mu_squared : Fraction, optional
        μ² of Gaussian noise; Laplace noise if None.
    steps : int
        The number of steps of the grid.
    people : int
        The largest number of records of a person; 1 where records are protected.
    """

    epsilon: Fraction
    mu_squared: Fraction | None
    steps: int = MOST_STEPS
    people: int = 1

    def draw(self, source: Source) -> list[int]:
        """Draw the noise of Σu, Σu² and the count.

        Parameters
        ----------
        source : Source
            The source of randomness.

        Returns
        -------
        list of int
        """
        if self.mu_squared is None:
            rates = [self.epsilon / self.people / part for part in (self.steps, self.steps**2, 4)]
            return [discrete_laplace(rate.numerator, rate.denominator, source) for rate in rates]
        return [rounded_gaussian(variance, source) for variance in self.variances()]

    def variances(self) -> tuple[Fraction, Fraction, Fraction]:
        """Return the variances of Gaussian noise: s², s²M²/11 and 16s²/M², where s = M/μ."""
        assert self.mu_squared is not None
        variance = Fraction(self.people**2 * self.steps**2) / self.mu_squared
        return variance, variance * self.steps**2 / 11, 16 * variance / self.steps**2

    def scales(self) -> list[float]:
        """Return the scale of the noise of each sum: its standard deviation, or Laplace scale."""
        if self.mu_squared is None:
            scale = self.people * self.steps / float(self.epsilon)
            return [scale, scale * self.steps, scale * 4 / self.steps]
        return [math.sqrt(variance) for variance in self.variances()]

    def cost(self, hides_size: bool, moved: int = 1) -> Guarantee:
        """Compute the guarantee of sums with this noise.

        Parameters
        ----------
        hides_size : bool
            Whether the number of records is private.
        moved : int
            The number of groups whose sums one record changes.

        Returns
        -------
        Guarantee
        """
        relation = Relation.ADD_REMOVE if hides_size else Relation.REPLACE_ONE
        if self.mu_squared is None:
            return Guarantee(self.epsilon * Fraction(moved, self.people), relation, basis=BASIS)
        curve = Gaussian(moved * self.mu_squared / self.people**2)
        return Guarantee(None, relation, basis=BASIS, curve=curve)

    def log_density(self, distance: FloatArray, scale: float) -> FloatArray:
        """Return the logarithm of the noise's density, up to a constant.

        Parameters
        ----------
        distance : array
            Values of the noise.
        scale : float
            An element of :meth:`scales`.

        Returns
        -------
        array
        """
        if self.mu_squared is None:
            return -np.abs(distance) / scale
        return -((distance / scale) ** 2) / 2


@dataclass(frozen=True)
class NoisySums:
    """Σu, Σu² and the count with their noise.

    Parameters
    ----------
    first, second, count : int
        The noisy sums.
    n : int, optional
        The count, where it is public.
    noise : MeanNoise
        The distribution of the noise.
    """

    first: int
    second: int
    count: int
    n: int | None
    noise: MeanNoise


@dataclass(frozen=True, repr=False)
class Mean(Bridged, Answer):
    """The posterior of a population's mean, and of its standard deviation, given noisy sums."""

    format: ClassVar[str] = "discreet/mean"
    label: ClassVar[str] = "column"
    variable: ClassVar[str] = "mean"

    column: str
    bounds: tuple[float, float]
    distribution: NormalMixture = field(compare=False)  # these two follow from the released sums
    deviations: tuple[FloatArray, FloatArray] = field(compare=False)
    guarantee: Guarantee
    released: NoisySums
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int | None:
        """The number of records, where it is public."""
        return self.released.n

    @property
    def names(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def _rows(self, level: float) -> list[Row]:
        """Return the posterior mean with its interval."""
        variance = self.distribution.var()
        noise = max(0.0, 1 - float(self.distribution.weight @ self.distribution.scale**2) / variance)
        low, high = np.clip(self.distribution.ppf(tails(level)), *self.bounds).tolist()
        return [Row(self.column, self.distribution.mean(), math.sqrt(variance), low, high, noise=noise)]

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the population's mean from its posterior, within the bounds.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        array of shape (size, 1)
        """
        return np.clip(self.distribution.sample(as_positive(size, "size"), seed), *self.bounds)[:, None]

    def likelihood(self) -> MixtureLikelihood:
        """Return the likelihood log P(published | mean), for a model of your own.

        The records' number, mean and standard deviation are integrated out, as in the posterior.

        Returns
        -------
        MixtureLikelihood
            With ``log_prob`` and ``gradient``, of the mean in the units of the column.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"age": (18, 95)}, n=2000)
        >>> age = discreet.mean([30, 50] * 1000, "age", schema=schema, epsilon=1)
        >>> likelihood = age.likelihood()
        >>> bool(likelihood.log_prob(40.0) > likelihood.log_prob(60.0))
        True
        """
        distribution, precisions = self.distribution, self.distribution.scale[:, None, None] ** -2
        return MixtureLikelihood.of_normals(
            self.names, distribution.weight, distribution.loc[:, None], precisions
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        mean, error, spread = (
            self.distribution.mean(),
            math.sqrt(self.distribution.var()),
            self.deviation()[0],
        )
        near = _AT_BOUND * (self.bounds[1] - self.bounds[0])
        for name, bound in zip(("lower", "upper"), self.bounds, strict=True):
            away = abs(mean - bound)
            if max(away, error) < near and away < max(4 * error, spread / 4):
                return (_CLIPPED.format(column=self.column, name=name, bound=bound),)
        return ()

    @property
    def notes(self) -> tuple[str, ...]:
        return (
            f"Standard deviation of one record: {with_interval(*self.deviation())}.",
            *self.words().notes,
        )

    def words(self) -> Words:
        """Describe the estimate and how to read it."""
        low, high = self.bounds
        n = self.released.n
        records = "a private number of records" if n is None else f"n = {n:,} records"
        return Words(
            headline=f"Private mean of {self.column}, from {records}, clipped to [{low:g}, {high:g}]",
            name=f"Mean of {self.column}",
            facts=(
                ("Column", self.column),
                ("Bounds of one record", f"{low:g} to {high:g}"),
                ("Records", records),
            ),
            notes=(INTERVALS_NOTE,),
            reading=(_READING,),
        )

    def content(self) -> dict[str, Any]:
        """Return as JSON values the noisy sums that determine the posterior."""
        sums = self.released
        return {
            "column": self.column,
            "bounds": list(self.bounds),
            "sums": [sums.first, sums.second, sums.count],
            "n": sums.n,
            "noise": fields_as_json(sums.noise),
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Mean:
        """Return the answer that :meth:`content` describes.

        Parameters
        ----------
        content : mapping
            What :meth:`content` returns, perhaps read from JSON.

        Returns
        -------
        Mean
        """
        fields, (low, high) = content["noise"], content["bounds"]
        squared = fields["mu_squared"]
        noise = MeanNoise(
            as_rational(fields["epsilon"], "epsilon", 0),
            None if squared is None else as_rational(squared, "mu_squared", 0),
            as_count(fields["steps"], "steps", 1, 2**20),
            as_count(fields["people"], "people", 1, 2**53),
        )
        if fields != fields_as_json(noise) or noise.epsilon == 0 or noise.mu_squared == 0:
            raise ValueError("the noise is malformed")
        low, high = as_bounds([as_real(end, "bounds") for end in (low, high)], "one record")
        first, second, count = (as_count(value, "sums", -LARGEST) for value in content["sums"])
        n = None if content["n"] is None else as_count(content["n"], "n", 1, 2**53)
        sums = NoisySums(first, second, count, n, noise)
        guarantee = Guarantee.from_dict(content["guarantee"])
        answer = posterior_of_mean(sums, str(content["column"]), (low, high), guarantee)
        return replace(answer, versions=dict(content["versions"]))

    def cost(self) -> Guarantee:
        """Return the guarantee that follows from the noise on the sums."""
        hides = self.guarantee.relation is Relation.ADD_REMOVE
        if hides and self.released.n is not None:
            raise ValueError("it claims that n is private, but it states n")
        return self.released.noise.cost(hides)

    def check_parts(self) -> None:
        """Check that the noise fits the guarantee, and that the sums have a posterior."""
        super().check_parts()
        parts = (self.distribution.weight, self.distribution.loc, self.distribution.scale, *self.deviations)
        if not all(len(part) and np.isfinite(part).all() for part in parts):
            raise ValueError("no estimate can be computed from its sums")
        if self.is_private and self.released.noise.epsilon != self.guarantee.exact_epsilon:
            raise ValueError("its epsilon does not match its noise")

    def upgrade(self) -> Mean:
        """Return this answer with the bound on records per person in its guarantee, which 0.2 left out."""
        return replace(self, guarantee=with_people(self.guarantee, self.released.noise.people))

    def deviation(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return the population's standard deviation and an interval.

        Parameters
        ----------
        level : float
            The probability of the interval.

        Returns
        -------
        tuple of float
            The posterior mean, and the ends of the interval.
        """
        values, chances = self.deviations
        total = np.cumsum(chances) - chances / 2
        tail = (1 - as_level(level)) / 2
        low, high = np.interp([tail, 1 - tail], total, values)
        return float(values @ chances), float(low), float(high)


@dataclass(frozen=True, repr=False)
class Means(Answer):
    """Private means of one column within groups."""

    format: ClassVar[str] = "discreet/means"
    label: ClassVar[str] = "group"
    variable: ClassVar[str] = "mean"

    by: str
    groups: tuple[Any, ...]
    means: tuple[Mean, ...]
    guarantee: Guarantee

    def __getitem__(self, group: Any) -> Mean:
        """Return the mean of a group."""
        if group not in self.groups:
            raise InvalidInputError(f"group {group!r} is not one of {self.groups!r}")
        return self.means[self.groups.index(group)]

    @property
    def versions(self) -> Mapping[str, str]:
        """The versions of the software that made the answer."""
        return self.means[0].versions

    @property
    def names(self) -> tuple[Any, ...]:
        """The groups."""
        return self.groups

    @property
    def heading(self) -> str:
        return self.by

    def _rows(self, level: float) -> list[Row]:
        """Return the mean of each group with its interval."""
        pairs = zip(self.groups, self.means, strict=True)
        return [replace(mean.rows(level)[0], name=str(name)) for name, mean in pairs]

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the means of all groups.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        array of shape (size, len(names))
        """
        seeds = np.random.default_rng(seed).integers(2**63, size=len(self.means)).tolist()
        drawn = [mean.draws(size, seed) for mean, seed in zip(self.means, seeds, strict=True)]
        return np.concatenate(drawn, axis=1)

    def difference(self, between: Sequence[Any]) -> Quantity:
        """Compare the means of two groups: the first minus the second.

        Parameters
        ----------
        between : pair
            Two groups.

        Returns
        -------
        Quantity
            With ``mean``, ``std``, ``interval`` and ``probability`` that it is above 0.
        """
        return Quantity(np.subtract(*self._pair(between)))

    def ratio(self, between: Sequence[Any]) -> Quantity:
        """Compare the means of two groups: the first divided by the second.

        Parameters
        ----------
        between : pair
            Two groups.

        Returns
        -------
        Quantity
            As for :meth:`difference`.
        """
        return Quantity(np.divide(*self._pair(between)))

    def pool(self, covariates: Covariates | None = None, seed: int = 0) -> PooledEstimates:
        """Return the means of all groups under a hierarchical model; this costs no further privacy.

        The means of the groups are modelled as draws from one normal distribution, whose mean and standard
        deviation are integrated out. The correlation of two records of one group has a uniform prior.

        Parameters
        ----------
        covariates : mapping, optional
            Public numbers of the groups, by name and group: the groups' centre is then a linear function of
            these (Fay and Herriot).
        seed : int
            The seed of the draws.

        Returns
        -------
        PooledEstimates
            Its ``slopes()`` are those of the covariates.

        Raises
        ------
        InvalidInputError
            If a covariate has no number for a group, or there are too few groups for the covariates.

        Examples
        --------
        >>> import discreet
        >>> columns = {"age": (18, 95), "region": ["north", "south", "west"]}
        >>> data = {"age": [30, 50, 40] * 500, "region": ["north", "south", "west"] * 500}
        >>> ages = discreet.mean(data, "age", by="region", schema=columns, epsilon=1)
        >>> ages.pool().names
        ('north', 'south', 'west')
        """
        groups = [
            group_mixture(mean.distribution.weight, mean.distribution.loc, mean.distribution.scale)
            for mean in self.means
        ]
        within = float(np.median([mean.deviation()[0] for mean in self.means]))
        first = self.means[0]
        subject = Subject(self.groups, self.by, f"Means of {first.column}", first.bounds)
        return PooledEstimates(subject, groups, within, covariates, seed)

    def _pair(self, between: Sequence[Any]) -> list[FloatArray]:
        if len(between) != 2:
            raise InvalidInputError(
                "must name two groups, as in between=('A', 'B')", parameter="between", value=between
            )
        return [self[group].draws(seed=seed)[:, 0] for seed, group in enumerate(between)]

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for mean in self.means for text in mean.warnings))

    def words(self) -> Words:
        """Describe the estimates and their groups."""
        inner, sizes = self.means[0].words(), [mean.released.n for mean in self.means]
        pairs = zip(self.groups, sizes, strict=True)
        records = "; ".join(f"{group}: {n:,}" for group, n in pairs) if all(sizes) else "private numbers"
        return Words(
            headline=f"Private means of {self.means[0].column} by {self.by}",
            name=f"Means of {self.means[0].column} by {self.by}",
            facts=(("Groups", ", ".join(map(str, self.groups))), *inner.facts[:2], ("Records", records)),
            notes=inner.notes,
            reading=inner.reading,
        )

    def content(self) -> dict[str, Any]:
        """Return the means of the groups as JSON values."""
        return {**super().content(), "means": [mean.content() for mean in self.means]}

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Means:
        """Return the answer that :meth:`content` describes.

        Parameters
        ----------
        content : mapping
            What :meth:`content` returns, perhaps read from JSON.

        Returns
        -------
        Means
        """
        groups = tuple(content["groups"])
        if not groups or len(content["means"]) != len(groups) or len(set(map(str, groups))) < len(groups):
            raise ValueError("each group must have exactly one mean")
        means = tuple(Mean.from_content(mean) for mean in content["means"])
        return cls(str(content["by"]), groups, means, Guarantee.from_dict(content["guarantee"]))

    def check_parts(self) -> None:
        """Check that groups share column, bounds, noise and guarantee, and state sizes only if public."""
        super().check_parts()
        alike = {(mean.column, mean.bounds, mean.released.noise) for mean in self.means}
        within = self.guarantee.relation is Relation.WITHIN_GROUP
        if len(alike) > 1 or (not within and any(mean.released.n is not None for mean in self.means)):
            raise ValueError("the groups differ in column, bounds or noise")
        for mean in self.means:
            if mean.guarantee != self.guarantee:
                raise ValueError("the guarantee of a group differs from that of the whole")
            mean.check_parts()

    def cost(self) -> Guarantee:
        """Return the guarantee of the means of all groups.

        A record that moves to another group changes the sums of two groups; an added record changes those of
        one. Where groups are public no record moves, and the guarantee is within groups.
        """
        noise = self.means[0].released.noise
        if self.guarantee.relation is Relation.WITHIN_GROUP:
            return noise.cost(hides_size=False).within_group(group_assumption(self.by))
        hides = self.guarantee.relation is Relation.ADD_REMOVE
        return noise.cost(hides, 1 if hides else 2)

    def upgrade(self) -> Means:
        """Return this answer with the bound on records per person in its guarantee, which 0.2 left out."""
        noise = self.means[0].released.noise
        most = noise.people if noise.mu_squared is not None else max(1, noise.people // 2)
        guarantee = with_people(self.guarantee, most)
        return replace(
            self, guarantee=guarantee, means=tuple(replace(m, guarantee=guarantee) for m in self.means)
        )


def with_people(guarantee: Guarantee, most: int) -> Guarantee:
    """Add the bound on the records of a person, which version 0.2.0 left out of guarantees for people.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee; it is returned unchanged if it has the bound, or is not for people.
    most : int
        The largest number of records of a person.

    Returns
    -------
    Guarantee
    """
    if guarantee.relation is not Relation.REPLACE_PERSON or people_bound(
        guarantee.assumptions, guarantee.unit
    ):
        return guarantee
    return replace(guarantee, assumptions=(people_assumption(most, guarantee.unit),))


@dataclass(frozen=True)
class MeanDesign:
    """Public design of a private mean: see :func:`discreet.mean` for the fields."""

    column: str | None
    bounds: tuple[float, float]
    epsilon: Fraction
    delta: Fraction | None
    by: str | None
    groups: Domain | None
    missing: Any
    n: int | None
    relation: Relation
    person: str | None
    per_person: int | None
    strict: bool = True

    @property
    def excludes(self) -> bool:
        """Whether records without an answer are left out."""
        return bool(self.missing == EXCLUDE)

    @cached_property
    def grid(self) -> Grid:
        """The public grid of the column."""
        missing = None if self.excludes else self.missing
        return Grid(self.bounds, steps_between(*self.bounds), False, missing).accepting(not self.strict)

    @property
    def _most(self) -> int:
        """The largest number of records of one person."""
        return 1 if self.per_person is None else self.per_person

    @cached_property
    def noise(self) -> MeanNoise:
        """The noise on the sums.

        A record that moves to another group changes two groups, which counts as two changes of one record.
        Within public groups no record moves.
        """
        people = self._most
        squared = None if self.delta is None else largest_gaussian(self.epsilon, self.delta)
        if self.groups is not None and self.relation not in (Relation.ADD_REMOVE, Relation.WITHIN_GROUP):
            if squared is None:
                people *= 2
            else:
                squared /= 2  # the two changes are on different coordinates: squares add
        return MeanNoise(self.epsilon, squared, self.grid.steps, people)

    @cached_property
    def guarantee(self) -> Guarantee:
        """The guarantee of all sums together."""
        people, most = self.person is not None and self.relation is not Relation.ADD_REMOVE, self._most
        within = self.relation is Relation.WITHIN_GROUP
        assumed = (people_assumption(most, self.person),) if people else ()
        return Guarantee(
            self.epsilon,
            Relation.REPLACE_PERSON if people else self.relation,
            self.delta or Fraction(0),
            BASIS,
            (group_assumption(str(self.by)),) if within else assumed,
            curve=None if self.delta is None else Gaussian(largest_gaussian(self.epsilon, self.delta)),
            unit=self.person if people else None,
        )

    def sums(self, data: Any) -> tuple[dict[Any, tuple[int, int, int]], int]:
        """Compute the exact sums of each group: these are private.

        Parameters
        ----------
        data : table, file or sequence
            The records; a plain sequence of values if neither groups nor people are named.

        Returns
        -------
        tuple
            For each group the exact (count, Σu, Σu²), and the number of all records.
        """
        coders: dict[str | None, Any] = {self.column: self.grid}
        names: tuple[Any, ...] = (None,)
        if self.groups is not None:
            coders[self.by] = Levels(self.groups).accepting(self.grid.total)
            names = tuple(self.groups.levels)
        with open_columns(data, coders, self.person, columns=True) as table:
            if table is not None:
                cells = count_cells(table, self.per_person).kept
            elif self.groups is None and self.person is None:
                cells = Counter()
                for value, records in distinct(data):
                    cells[self.grid.code(value),] += records
            else:
                raise InvalidInputError("data must be a table or a file with the named columns")
        sums = {name: [0, 0, 0] for name in names}
        for (code, *group), records in cells.items():
            if group and group[0] >= len(names):
                if not self.grid.total:
                    raise undeclared_error(str(self.by), unknown=True)
            elif code < self.grid.size:
                u, group_sums = code - self.grid.steps // 2, sums[names[group[0] if group else 0]]
                group_sums[0] += records
                group_sums[1] += records * u
                group_sums[2] += records * u * u
            elif not (self.excludes and code == self.grid.size + 1):
                hint = "say missing='exclude', or a number"
                raise undeclared_error(self.column or "value", code == self.grid.size, hint)
        total = sum(cells.values())
        if self.relation is not Relation.ADD_REMOVE:
            if not total:
                raise DataError("the data are empty: there is no record")
            if self.n is not None and total != self.n:
                raise InvalidInputError(
                    f"n={self.n} was declared but the data have a different number of records"
                )
        return {name: (count, first, second) for name, (count, first, second) in sums.items()}, total

    def answer(
        self, cells: Mapping[Any, tuple[int, int, int]], total: int, source: Source = OS_ENTROPY
    ) -> Any:
        """Add noise to the sums and compute the posterior.

        Parameters
        ----------
        cells : mapping
            For each group the exact (count, Σu, Σu²).
        total : int
            The number of all records.
        source : Source
            The source of randomness; a seeded one is for simulations, and its answer is not private.

        Returns
        -------
        Mean or Means
            Means where there are groups.
        """
        within = self.relation is Relation.WITHIN_GROUP
        whole = self.groups is None and self.relation is not Relation.ADD_REMOVE
        public = (whole or within) and not self.excludes
        private = type(source) is not SeededEntropy
        promised = self.guarantee if private else Guarantee(None, basis="a simulation: not private")
        means = []
        for count, first, second in cells.values():
            drawn = self.noise.draw(source)
            size = (count if within else total) or None if public else None
            noisy = 0 if size else count + drawn[2]
            sums = NoisySums(first + drawn[0], second + drawn[1], noisy, size, self.noise)
            distribution = posterior_of_mean(
                sums, self.column or "value", (self.grid.low, self.grid.high), promised
            )
            means.append(replace(distribution, versions=VERSIONS))
        if self.groups is None:
            return means[0]
        names = tuple(as_plain(level) for level in self.groups.levels)
        return Means(str(self.by), names, tuple(means), promised)


def posterior_of_mean(
    sums: NoisySums, column: str, bounds: tuple[float, float], guarantee: Guarantee
) -> Mean:
    """Compute the posterior of a population's mean by quadrature.

    The quadrature runs over the count, mean and variance of the records; the population's mean is normal
    around the records' mean, and the variance of rounding to the grid is added. The prior of mean and
    standard deviation is uniform over all values that the bounds allow.

    Parameters
    ----------
    sums : NoisySums
        The noisy sums.
    column : str
        The name of the column.
    bounds : tuple of float
        The declared bounds of one record.
    guarantee : Guarantee
        The guarantee of the sums.

    Returns
    -------
    Mean
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
    # Axes: counts, means, deviations.
    middle, wide = sums.first / counts, np.minimum(14 * scales[0] / counts, 2 * half)
    outside = (middle - wide > half) | (middle + wide < -half)
    left = np.where(outside, -half, np.maximum(-half, middle - wide))
    right = np.where(outside, half, np.minimum(half, middle + wide))
    centres = np.linspace(left, right, _MEANS, axis=1)
    each = np.broadcast_to(counts[:, None], centres.shape)
    top = np.sqrt(np.maximum(half**2 - centres**2, 1e-9))
    guess, noise_of_it = sums.second / each - centres**2, 14 * scales[1] / each
    low = np.sqrt(np.clip(guess - noise_of_it, 0.0, (0.99 * top) ** 2))
    high = np.sqrt(np.clip(guess + noise_of_it, (low + 0.01 * top) ** 2, top**2))
    shares = (np.arange(_SPREADS) + 0.5) / _SPREADS
    deviations = low[..., None] + (high - low)[..., None] * shares
    squares = each[..., None] * (deviations**2 + centres[..., None] ** 2)
    score = noise.log_density(sums.first - each * centres, scales[0])[..., None]
    score = score + noise.log_density(sums.second - squares, scales[1])
    cell = (high - low) * (centres[:, 1] - centres[:, 0])[:, None]
    score = score + np.log(cell)[..., None] + chances[:, None, None]
    chance = np.exp(score - score.max())
    mass_by_mean = chance.sum(axis=2)
    likely = mass_by_mean > 1e-14
    second = (chance * deviations**2).sum(axis=2)[likely] / mass_by_mean[likely]
    step = (bounds[1] - bounds[0]) / noise.steps
    values, mass = step * deviations.ravel(), chance.ravel()
    order = np.argsort(values)
    deviation, shares = values[order], mass[order]
    edges = np.linspace(0, len(order), 400).astype(int)
    parts = [slice(a, b) for a, b in pairwise(edges) if b > a and shares[a:b].sum() > 0]
    held = np.array([shares[part].sum() for part in parts])
    typical = np.array([deviation[part] @ shares[part] for part in parts]) / held
    return Mean(
        column,
        bounds,
        NormalMixture(
            mass_by_mean[likely] / mass_by_mean[likely].sum(),
            (bounds[0] + bounds[1]) / 2 + step * centres[likely],
            step * np.sqrt(second / each[likely] + _ROUNDING),
        ),
        (typical, held / held.sum()),
        guarantee,
        sums,
    )
