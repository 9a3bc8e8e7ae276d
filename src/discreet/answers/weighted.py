"""Weighted proportions and means of a survey, from noisy weighted totals and sums of their squares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet._declarations import (
    Relation,
    as_bounds,
    as_positive,
    as_rational,
    as_real,
    group_assumption,
    people_assumption,
    steps_between,
)
from discreet._documents.answer import Answer
from discreet._documents.parts import LARGEST, VERSIONS, Row, Words, as_count
from discreet._documents.weights import DRAWS, SurveyWeights, WeighsRecords
from discreet._inference.weighted import NoisyTotals, ShareDraws, draw_shares
from discreet._json import fields_as_json
from discreet._randomness.entropy import SeededEntropy
from discreet._randomness.gaussian import rounded_gaussian
from discreet._randomness.integers import discrete_laplace
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError
from discreet.privacy.curves import Gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression._pooled import PooledEstimates, Subject, drawn_mixture, pool_shares

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source
    from discreet.regression._pooled import Covariates

BASIS = "exact integer noise on weighted sums over a grid (proofs/weights.md)"
MOST_CELLS = {True: 200, False: 30}
"""The most cells of a group: if only squares are released (True), or products as well (False)."""
_SQUARES = {False: Fraction(1, 5), True: Fraction(1, 3)}
_EXTRA = Fraction(1, 20)
"""Parts of the privacy budget: of all squares, without and with strata, and of each further sum. The totals
get the rest."""
_HIDDEN = 3
"""Shares within this many standard deviations of the noise from 0 or 1 may be 0 or 1."""
_READING = (
    "These are weighted estimates: each record stands for as many people as its weight says. The intervals "
    "account for the sampling design that was declared and for the noise of privacy. The weights are used "
    "as given: if they were calibrated to other people's records, the guarantee does not cover that step."
)


@dataclass(frozen=True)
class SumsNoise:
    """Noise on weighted sums, in steps of the grids: see ``proofs/weights.md``.

    Parameters
    ----------
    epsilon : Fraction
        The ε that the noise must reach.
    mu_squared : Fraction, optional
        μ² of Gaussian noise; Laplace noise if None.
    steps, parts : int
        Number of steps in the grid of weights, and number of parts into which a mean divides a weight.
    people : int
        The largest number of records of one person or cluster.
    cells, groups : int
        Number of cells in a group, and of groups.
    diagonal, clusters, strata, replaces : bool
        Whether squares are released without products; whether units are clusters; whether squares are taken
        around the means of strata; whether a unit is replaced, rather than added or removed.
    """

    epsilon: Fraction
    mu_squared: Fraction | None
    steps: int
    parts: int
    people: int
    cells: int
    groups: int
    diagonal: bool
    clusters: bool
    strata: bool
    replaces: bool

    @property
    def entries(self) -> int:
        """The number of sums of squares and products in a group."""
        return self.cells if self.diagonal else self.cells * (self.cells + 1) // 2

    @property
    def unit(self) -> int:
        """The most that one unit of the design adds to the totals."""
        return self.steps * self.parts * (self.people if self.clusters else 1)

    @property
    def further(self) -> dict[str, int]:
        """The further sums by name, each with the most that one record adds to it."""
        sums = {"cut": 1}
        if not self.replaces:
            sums["records"] = 1
        if self.clusters or self.strata:
            sums["squared"] = self.steps**2
        return sums

    @cached_property
    def moved(self) -> dict[str, tuple[int, Fraction]]:
        """For each kind of sum, the largest L1 and squared L2 distance between neighbouring datasets."""
        times = 2 if self.replaces else 1
        total = self.people * self.steps * self.parts
        square = self.unit**2 * (1 if self.clusters else self.people)
        moved = {
            "totals": (times * total, Fraction(times * total**2)),
            "squares": (times * square, Fraction(times * square**2)),
        }
        if self.strata:  # a mean of the stratum is taken off, and rounded
            rounding = self.entries * self.groups
            moved["squares"] = 4 * square + rounding, Fraction((2 * square + rounding) ** 2)
        for name, most in self.further.items():
            moved[name] = self.people * most, Fraction((self.people * most) ** 2)
        return moved

    def part(self, name: str) -> Fraction:
        """Return the part of the budget (of ε, or of μ²) that a kind of sum gets.

        Parameters
        ----------
        name : str
            The kind of sum: ``"totals"``, ``"squares"`` or one of ``further``.

        Returns
        -------
        Fraction
        """
        if name == "totals":
            return 1 - _SQUARES[self.strata] - _EXTRA * len(self.further)
        return _SQUARES[self.strata] if name == "squares" else _EXTRA

    def size(self, name: str) -> Fraction:
        """Return the scale of Laplace noise on a kind of sum, or the variance of Gaussian noise.

        Parameters
        ----------
        name : str
            The kind of sum: ``"totals"``, ``"squares"`` or one of ``further``.

        Returns
        -------
        Fraction
        """
        straight, squared = self.moved[name]
        if self.mu_squared is None:
            return straight / (self.epsilon * self.part(name))
        return squared / (self.mu_squared * self.part(name))

    def scale(self, name: str) -> float:
        """Return the scale of Laplace noise on a kind of sum, or the standard deviation of Gaussian noise.

        Parameters
        ----------
        name : str
            The kind of sum: ``"totals"``, ``"squares"`` or one of ``further``.

        Returns
        -------
        float
        """
        size = self.size(name)
        return float(size) if self.mu_squared is None else math.sqrt(size)

    def deviation(self, name: str) -> float:
        """Return the standard deviation of the noise on a kind of sum.

        Parameters
        ----------
        name : str
            The kind of sum: ``"totals"``, ``"squares"`` or one of ``further``.

        Returns
        -------
        float
        """
        return self.scale(name) * (math.sqrt(2) if self.mu_squared is None else 1)

    def add_to(self, sums: Sequence[int], name: str, source: Source) -> tuple[int, ...]:
        """Add noise to sums of one kind.

        Parameters
        ----------
        sums : sequence of int
            The exact sums.
        name : str
            The kind of sum: ``"totals"``, ``"squares"`` or one of ``further``.
        source : Source
            The source of randomness.

        Returns
        -------
        tuple of int
        """
        size = self.size(name)
        if self.mu_squared is None:
            rate = 1 / size
            return tuple(v + discrete_laplace(rate.numerator, rate.denominator, source) for v in sums)
        return tuple(value + rounded_gaussian(size, source) for value in sums)


@dataclass(frozen=True)
class Design:
    """The public sampling design, with the column that identifies people.

    Parameters
    ----------
    weight : str
        The column of weights.
    most : float
        The largest weight; larger ones are cut to it.
    strata, person : str, optional
        The columns of the strata and of the people who are protected.
    n, units, strata_count : int, optional
        Number of records, of units of the design (records or clusters), and of strata that have any; None if
        n is private.
    """

    weight: str
    most: float
    strata: str | None
    person: str | None
    n: int | None
    units: int | None
    strata_count: int

    @property
    def freedom(self) -> int | None:
        """Degrees of freedom of the variance."""
        return None if self.units is None else max(1, self.units - self.strata_count)


def guarantee_of(noise: SumsNoise, design: Design, delta: Fraction = Fraction(0)) -> Guarantee:
    """Return the guarantee of noise on weighted sums.

    For Gaussian noise it states a pair (ε, δ) only if ``delta`` is above 0.

    Parameters
    ----------
    noise : SumsNoise
        The noise.
    design : Design
        The sampling design.
    delta : Fraction
        The δ of the pair; 0 for the curve alone.

    Returns
    -------
    Guarantee
    """
    relation = Relation.ADD_REMOVE if not noise.replaces else Relation.REPLACE_ONE
    assumptions: tuple[str, ...] = ()
    if design.person is not None:
        relation = Relation.REPLACE_PERSON
        assumptions = (people_assumption(noise.people, design.person),)
    if noise.strata:
        relation = Relation.WITHIN_GROUP
        assumptions = (*assumptions, group_assumption(str(design.strata)))
    squared = noise.mu_squared
    return Guarantee(
        noise.epsilon if squared is None or delta else None,
        relation,
        delta,
        BASIS,
        assumptions,
        curve=None if squared is None else Gaussian(squared),
        unit=design.person,
    )


@dataclass(frozen=True, repr=False)
class Weighted(WeighsRecords, Answer):
    """Weighted shares, or means, with design-based intervals.

    Attributes
    ----------
    axes : mapping
        The values of each column of the result: groups first, then the values whose shares are estimated.
    column, bounds : optional
        For a mean: the column, and the bounds of one record.
    by : str, optional
        The column of groups.
    design : Design
        Weights, strata and clusters.
    noise : SumsNoise
        The noise on the sums.
    totals, squares : tuple of tuples
        The noisy sums of each group.
    further : mapping
        Further noisy sums: the number of weights that were cut, the number of records if it is private, and
        the sum of squared weights.
    guarantee : Guarantee
        The guarantee of the sums.

    Examples
    --------
    >>> import discreet
    >>> people = {"smoker": ["no", "no", "yes", "no"] * 500, "weight": [1, 2, 1, 0.5] * 500}
    >>> schema = discreet.Schema({"smoker": ["no", "yes"], "weight": discreet.Weight(2)}, n=2000)
    >>> smokers = discreet.proportions(people, "smoker", schema=schema, epsilon=1)
    >>> smokers.names
    ('no', 'yes')
    """

    format: ClassVar[str] = "discreet/weighted"
    label: ClassVar[str] = "value"

    axes: Mapping[str, tuple[Any, ...]]
    column: str | None
    bounds: tuple[float, float] | None
    by: str | None
    design: Design
    noise: SumsNoise
    totals: tuple[tuple[int, ...], ...]
    squares: tuple[tuple[int, ...], ...]
    further: Mapping[str, int]
    guarantee: Guarantee
    versions: Mapping[str, str] = field(default_factory=dict)

    @property
    def n(self) -> int | None:
        """The number of records, where it is public."""
        return self.design.n

    @property
    def axes_of_names(self) -> Mapping[str, Sequence[Any]]:
        return self.axes

    @property
    def names(self) -> tuple[Any, ...]:
        """The name of each estimate: a value, a cell, a group, or a pair of these."""
        (first, *more) = self.axes.values()
        return tuple(product(first, *more)) if more else first

    @property
    def heading(self) -> str:
        return " · ".join(self.axes)

    @property
    def noisy_totals(self) -> list[NoisyTotals]:
        """The noisy sums of each group, in multiples of the most that one unit of the design can add."""
        noise = self.noise
        return [
            NoisyTotals(
                np.array([float(v) for v in totals]) / noise.unit,
                np.array([float(v) for v in squares]) / float(noise.unit) ** 2,
                noise.scale("totals") / noise.unit,
                noise.scale("squares") / float(noise.unit) ** 2,
                noise.mu_squared is not None,
                self.design.freedom,
            )
            for totals, squares in zip(self.totals, self.squares, strict=True)
        ]

    def _drawn(self, size: int, seed: int | None) -> list[ShareDraws]:
        """Draw shares of each group."""
        rng = np.random.default_rng(seed)
        return [draw_shares(noisy, size, rng) for noisy in self.noisy_totals]

    @cached_property
    def _usual(self) -> list[ShareDraws]:
        return self._drawn(DRAWS, 0)

    def _numbers(self, drawn: list[ShareDraws], seed: int | None) -> FloatArray:
        if self.bounds is None:
            return np.concatenate([part.shares for part in drawn], axis=1)
        shares = np.stack([part.shares[:, 1] for part in drawn], axis=1)
        rounding = np.random.default_rng(seed).uniform(-0.5, 0.5, shares.shape) / self.noise.parts
        low, high = self.bounds
        return low + (high - low) * np.clip(shares + rounding, 0, 1)

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the population's shares or means, in the order of ``names``.

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
        return self._numbers(self._drawn(as_positive(size, "size"), seed), seed)

    def _rows(self, level: float) -> list[Row]:
        """Return each share or mean with its interval."""
        draws = self._numbers(self._usual, 0)
        tail = (1 - level) / 2
        low, high = np.quantile(draws, [tail, 1 - tail], axis=0)
        variances = draws.var(axis=0)
        width = 1.0 if self.bounds is None else self.bounds[1] - self.bounds[0]
        names = [" · ".join(map(str, n)) if isinstance(n, tuple) else str(n) for n in self.names]
        numbers = zip(names, draws.mean(axis=0), variances, low, high, self._sampling, strict=True)
        return [
            Row(
                name,
                float(mean),
                math.sqrt(variance),
                float(left),
                float(right),
                share=self.bounds is None,
                noise=float(np.clip(1 - width**2 * sampling / variance, 0, 1)),
            )
            for name, mean, variance, left, right, sampling in numbers
        ]

    @property
    def _sampling(self) -> list[float]:
        """The variance of each share that is due to sampling."""
        found: list[float] = []
        for part in self._usual:
            p = part.totals / part.totals.sum(axis=1, keepdims=True)
            variance = (p * (1 - p) / (part.sizes + 1)).mean(axis=0)
            found += variance.tolist() if self.bounds is None else [float(variance[1])]
        return found

    def pool(self, covariates: Covariates | None = None, value: Any = None, seed: int = 0) -> PooledEstimates:
        """Return each group's mean, or share of a value, under a hierarchical model, at no further cost.

        The groups' numbers are draws from one normal distribution, whose mean and standard deviation are
        integrated out: the model of Fay and Herriot for small areas.

        Parameters
        ----------
        covariates : mapping, optional
            Public numbers of the groups, by name and group: the centre is then a line of these.
        value : object, optional
            For shares, the value whose share is pooled; by default the last one.
        seed : int
            The seed of the draws.

        Returns
        -------
        PooledEstimates
            Its ``slopes()`` are those of the covariates.

        Raises
        ------
        InvalidInputError
            If there are no groups, or more than one column besides them.

        Examples
        --------
        >>> import discreet
        >>> people = {"ill": ["no", "no", "yes", "no"] * 500, "area": list("abcd") * 500, "w": [1.5] * 2000}
        >>> columns = {"ill": ["no", "yes"], "area": list("abcd"), "w": discreet.Weight(2)}
        >>> ill = discreet.proportions(people, "ill", by="area", schema=columns, epsilon=1)
        >>> ill.pool().names
        ('a', 'b', 'c', 'd')
        """
        if self.by is None or len(self.axes) > 2:
            raise InvalidInputError("pool needs groups, from by=COLUMN, and one column besides them")
        if self.bounds is None:
            drawn, ones = np.stack([part.shares for part in self._usual], axis=1), np.ones(self.noise.cells)
            return pool_shares(drawn, ones, self.axes, value, covariates, seed, self.rows())
        (groups,) = self.axes.values()
        mixtures = [drawn_mixture(mean, (1.0, 1.0)) for mean in self._numbers(self._usual, 0).T]
        low, high = self.bounds
        each = self.effective_size()[0] / len(groups)  # records of a group that count, about
        within = min(0.5, math.sqrt(float(np.median(self._sampling)) * each)) * (high - low)
        subject = Subject(tuple(groups), self.by, f"Means of {self.column}", self.bounds)
        return PooledEstimates(subject, mixtures, within, covariates, seed)

    @cached_property
    def survey_weights(self) -> SurveyWeights:
        """The noisy sums of the weights."""
        noise, counted = self.noise, (float(self.n or 0), 0.0)
        whole = np.sum([part.totals.sum(axis=1) for part in self._usual], axis=0)
        whole = whole * (noise.unit / noise.parts / noise.steps)  # in units of the largest weight
        if "squared" in noise.further:
            seen, deviation = float(self.further["squared"]), noise.deviation("squared")
            seen, deviation = seen / noise.steps**2, deviation / noise.steps**2
        else:
            twice = np.array([1.0 if j == other else 2.0 for j, other in self._pairs] * len(self.squares))
            seen = float(twice @ np.array([float(v) for row in self.squares for v in row])) / noise.unit**2
            deviation = noise.deviation("squares") * math.sqrt(twice @ twice) / noise.unit**2
        if self.n is None:
            counted = float(self.further["records"]), noise.deviation("records")
        return SurveyWeights(
            column=self.design.weight,
            most=self.design.most,
            n=self.n,
            cut=float(self.further["cut"]),
            cut_scale=noise.scale("cut"),
            gaussian=noise.mu_squared is not None,
            totals=whole,
            counted=counted,
            squared=seen,
            deviation=deviation,
        )

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        cells = range(self.noise.cells)
        return [(j, other) for j in cells for other in cells[j:] if j == other or not self.noise.diagonal]

    @property
    def warnings(self) -> tuple[str, ...]:
        found = [*self.survey_weights.warnings]
        sides = [min(x, (sum(g) - x) / math.sqrt(max(len(g) - 1, 1))) for g in self.totals for x in g]
        shares = zip(self.rows(), sides, strict=True) if self.bounds is None else ()
        hidden = [row.name for row, least in shares if least < _HIDDEN * self.noise.deviation("totals")]
        if hidden:
            found.append(
                f"noise makes these shares hard to tell from 0 or 1: {', '.join(hidden)}; the end of each "
                "interval nearer to 0 or 1 depends on the uniform prior, so rely on the other end only"
            )
        return tuple(found)

    def words(self) -> Words:
        """Describe the estimates and the design."""
        design, subject = self.design, self.column or " · ".join(list(self.axes)[self.by is not None :])
        what = "mean of" if self.column else "proportions of"
        by = f" by {self.by}" if self.by else ""
        n = "a private number of records" if self.n is None else f"n = {self.n:,} records"
        facts = [("Weights", f"{design.weight}, cut at {design.most:g}"), ("Records", n)]
        if self.bounds is not None:
            facts.append(("Bounds of one record", f"{self.bounds[0]:g} to {self.bounds[1]:g}"))
        if design.strata:
            facts.append(("Strata", f"{design.strata}, {design.strata_count} with records"))
        if self.noise.clusters:
            facts.append(("Clusters", f"{design.person}, {design.units:,} with records"))
        return Words(
            headline=f"Private weighted {what} {subject}{by}, from {n}",
            name=f"Weighted {what} {subject}{by}",
            facts=tuple(facts),
            notes=(self.survey_weights.note,),
            reading=(_READING,),
        )

    def content(self) -> dict[str, Any]:
        """Return the noisy sums, from which everything follows, as JSON values."""
        return {
            "private": self.guarantee.is_private,
            "axes": {name: list(values) for name, values in self.axes.items()},
            "column": self.column,
            "bounds": None if self.bounds is None else list(self.bounds),
            "by": self.by,
            "design": fields_as_json(self.design),
            "noise": fields_as_json(self.noise),
            "totals": [list(row) for row in self.totals],
            "squares": [list(row) for row in self.squares],
            "further": dict(self.further),
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Return the answer that :meth:`content` describes.

        Parameters
        ----------
        content : mapping
            What :meth:`content` returns, perhaps read from JSON.

        Returns
        -------
        Weighted
        """
        fields, made, bounds = content["noise"], content["design"], content["bounds"]
        squared = fields["mu_squared"]
        flags = {name: fields[name] for name in ("diagonal", "clusters", "strata", "replaces")}
        noise = SumsNoise(
            as_rational(fields["epsilon"], "epsilon", 0),
            None if squared is None else as_rational(squared, "mu_squared", 0),
            as_count(fields["steps"], "steps", 1, 2**20),
            as_count(fields["parts"], "parts", 1, 2**20),
            as_count(fields["people"], "people", 1, 2**53),
            as_count(fields["cells"], "cells", 2, 10**6),
            as_count(fields["groups"], "groups", 1, 10**6),
            **flags,
        )
        design = Design(
            str(made["weight"]),
            as_real(made["most"], "most"),
            made["strata"],
            made["person"],
            None if made["n"] is None else as_count(made["n"], "n", 1, 2**53),
            None if made["units"] is None else as_count(made["units"], "units", 1),
            as_count(made["strata_count"], "strata_count", 1),
        )
        named = all(isinstance(value, bool) for value in flags.values()) and all(
            isinstance(value, str | None) for value in (design.strata, design.person, content["by"])
        )
        if not named or fields != fields_as_json(noise) or noise.epsilon == 0 or noise.mu_squared == 0:
            raise ValueError("the noise or the design is malformed")
        return cls(
            axes={str(name): tuple(values) for name, values in content["axes"].items()},
            column=content["column"],
            bounds=None
            if bounds is None
            else as_bounds([as_real(v, "bounds") for v in bounds], "one record"),
            by=content["by"],
            design=design,
            noise=noise,
            totals=_sums(content["totals"]),
            squares=_sums(content["squares"]),
            further={str(name): as_count(v, name, -LARGEST) for name, v in content["further"].items()},
            guarantee=Guarantee.from_dict(content["guarantee"]),
            versions=dict(content["versions"]),
        )

    def check_parts(self) -> None:
        """Refuse a document whose parts contradict each other."""
        noise, design = self.noise, self.design
        cells = math.prod(len(values) for name, values in self.axes.items() if name != self.by)
        groups = 1 if self.by is None else len(self.axes[self.by])
        means = self.column is not None
        shapes = {len(row) for row in self.totals}, {len(row) for row in self.squares}
        wanted = noise.groups == groups == len(self.totals) == len(self.squares)
        if (
            not wanted
            or shapes != ({noise.cells}, {noise.entries})
            or noise.cells != (2 if means else cells)
            or means is (self.bounds is None)
            or noise.parts != (steps_between(*self.bounds) if self.bounds else 1)
            or not design.most > 0
            or noise.steps != steps_between(0, design.most)
            or noise.diagonal is not (not means and not noise.clusters and not noise.strata)
            or set(self.further) != set(noise.further)
            or noise.strata is not (design.strata is not None)
            or (design.person is None and (noise.clusters or noise.people > 1))
            or (design.n is None) is noise.replaces
            or not (noise.replaces or (design.person is None and design.strata is None))
            or (design.units is None) is not (design.n is None)
            or (design.units != design.n and not noise.clusters)
            or (design.strata_count != 1 and design.strata is None)
        ):
            raise ValueError("its sums do not match its noise or its design")
        if self.is_private and noise.epsilon != self.guarantee.exact_epsilon:
            raise ValueError("its epsilon does not match its noise")
        super().check_parts()

    def cost(self) -> Guarantee:
        """Return the guarantee that follows from the noise on the sums."""
        return guarantee_of(self.noise, self.design)


def answer_from_sums(
    sums: Any,
    noise: SumsNoise,
    parts: Mapping[str, Any],
    design: Design,
    promised: Guarantee,
    source: Source,
) -> Weighted:
    """Add noise to exact weighted sums; with a seeded source the answer is not private.

    Parameters
    ----------
    sums : WeightedSums
        The exact sums.
    noise : SumsNoise
        The noise.
    parts : mapping
        The other fields of the answer.
    design : Design
        The sampling design.
    promised : Guarantee
        The guarantee of the answer.
    source : Source
        The source of randomness.

    Returns
    -------
    Weighted
    """
    private = type(source) is not SeededEntropy
    return Weighted(
        **parts,
        design=design,
        noise=noise,
        totals=tuple(noise.add_to(row, "totals", source) for row in sums.totals),
        squares=tuple(noise.add_to(row, "squares", source) for row in sums.squares),
        further={name: noise.add_to([getattr(sums, name)], name, source)[0] for name in noise.further},
        guarantee=promised if private else Guarantee(None, basis="a simulation: not private"),
        versions=VERSIONS,
    )


def _sums(rows: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(as_count(value, "sums", -LARGEST) for value in row) for row in rows)
