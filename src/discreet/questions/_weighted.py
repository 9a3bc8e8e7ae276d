"""Requests answered by weighted sums, where the schema declares a column of survey weights."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from discreet._data.grids import Grid
from discreet._data.weighted import WeightedDesign, WeightedSums
from discreet._declarations import (
    EXCLUDE,
    Domain,
    Relation,
    as_plain,
    as_probability,
    as_target_delta,
    steps_between,
)
from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy, Source
from discreet._typing import EpsilonLike
from discreet.answers.weighted import MOST_CELLS, Design, SumsNoise, Weighted, answer_from_sums, guarantee_of
from discreet.errors import DataError, InvalidInputError
from discreet.privacy.curves import largest_gaussian
from discreet.questions._request import PricedRequest, SumsRequest
from discreet.questions.widths import POINTS, Guess, PlannedWidth
from discreet.schema import OWN_BIN, Weight

_TYPICAL = Fraction(1, 4)
"""The mean weight in a plan, as a part of the largest; simulated weights are uniform up to twice that."""


@dataclass(frozen=True, kw_only=True)
class WeightedRequest(SumsRequest):
    """Weighted proportions of columns, or the weighted mean of a column, perhaps by group.

    Parameters
    ----------
    columns : tuple of str
        The columns whose cells are counted, or the one whose mean is taken.
    mean : bool
        Whether a mean is requested, not proportions.
    by : str, optional
        The column of groups, which may be private.
    epsilon : Fraction
        The privacy budget.
    delta : optional
        The δ of Gaussian noise; without it, Laplace noise gives pure ε.
    fine : bool
        Whether the cells of a column of numbers are the bins of quantiles.
    """

    columns: tuple[str, ...]
    mean: bool
    by: str | None
    epsilon: Fraction
    delta: EpsilonLike | None = None
    fine: bool = False

    def __post_init__(self) -> None:
        schema = self.schema
        if schema.cluster is not None and schema.cluster != schema.person:
            raise InvalidInputError(
                "must be the column of person= too: the variance between clusters needs the total of each "
                "cluster squared, which has a bound only where the cluster is what is protected; say "
                f"person={schema.cluster!r} and per_person=, the most records of a cluster",
                "cluster",
                schema.cluster,
            )
        if schema.strata is not None and schema.hides_size:
            raise InvalidInputError(
                "needs a public number of records, because estimates depend on the size of each stratum: "
                "declare n",
                "strata",
                schema.strata,
            )
        if schema.strata is not None and schema.person is not None and schema.cluster is None:
            raise InvalidInputError(
                "cannot be used with person= alone: name that column as cluster= too", "strata", schema.strata
            )
        used = (*self.columns, *filter(None, [self.by]))
        if schema.weight in used or len(set(used)) < len(used):
            raise InvalidInputError(f"{', '.join(used)} must differ from each other and from the weight")
        cells, simple = self.design.cells, self.design.is_diagonal
        if cells > (most := MOST_CELLS[simple]):
            design = "weights" if simple else "strata or clusters"
            raise InvalidInputError(
                f"{cells} cells of {', '.join(self.columns)} are too many: with {design} at most {most}; "
                "declare fewer bins= of a number, or ask for fewer columns"
            )
        _ = self.noise

    @cached_property
    def design(self) -> WeightedDesign:
        """The sums to compute, and their grids."""
        schema, outcomes = self.schema, dict[str, Domain | Grid]()
        for name in self.columns:
            if not self.mean:
                outcomes[name] = schema.domain(name, fine=self.fine)
                continue
            number, missing = schema.number(name), schema.missing(name)
            if missing == OWN_BIN:
                raise InvalidInputError(
                    f"column {name!r}: missing='bin' is for proportions; a mean needs 'exclude'"
                )
            left_out = missing == EXCLUDE
            steps = steps_between(*number.bounds)
            grid = Grid(number.bounds, steps, False, None if left_out else missing)
            grid.drops_missing = left_out
            outcomes[name] = grid.accepting(not schema.strict)
        bound: Any = {"person": schema.person, "per_person": schema.per_person, "n": schema.size}
        return WeightedDesign(
            weight=str(schema.weight),
            most=float(self._weight.most),
            outcomes=outcomes,
            by=None if self.by is None else (self.by, schema.domain(self.by, "by")),
            strata=None if schema.strata is None else (schema.strata, schema.domain(schema.strata, "strata")),
            clusters=schema.cluster is not None,
            bound={**({"private_size": True} if schema.hides_size else bound), "strict": schema.strict},
        )

    @property
    def _weight(self) -> Weight:
        column = self.schema.column(str(self.schema.weight))
        assert isinstance(column, Weight)
        return column

    @cached_property
    def noise(self) -> SumsNoise:
        """The noise on the sums."""
        delta = None if self.delta is None else as_target_delta(self.delta, "leave delta out")
        design = self.design
        return SumsNoise(
            epsilon=self.epsilon,
            mu_squared=None if delta is None else largest_gaussian(self.epsilon, delta),
            steps=steps_between(0, design.most),
            parts=design.grid.steps if design.grid else 1,
            people=self.schema.per_person or 1,
            cells=design.cells,
            groups=1 if design.by is None else design.by[1].k,
            diagonal=design.is_diagonal,
            clusters=design.clusters,
            strata=design.strata is not None,
            replaces=not self.hides_size,
        )

    @property
    def relation(self) -> Relation:
        """The relation that the sums protect.

        Groups may be private, since replacing a record affects at most two of them.
        """
        return guarantee_of(self.noise, self._described(None)).relation

    def _described(self, sums: WeightedSums | None) -> Design:
        """Return the public design, with the sizes that are public."""
        schema, public = self.schema, sums is not None and not self.hides_size
        return Design(
            self.design.weight,
            self.design.most,
            schema.strata,
            schema.person,
            sums.records if public and sums else None,
            sums.units if public and sums else None,
            sums.strata if public and sums else 1,
        )

    def read(self, data: Any) -> WeightedSums:
        """Return the exact weighted sums of the records.

        Parameters
        ----------
        data : table, mapping or path
            The records.

        Returns
        -------
        WeightedSums
        """
        return self.design.sums(data)

    def answer(self, sums: WeightedSums, source: Source = OS_ENTROPY) -> Weighted:
        """Return the answer computed from noisy sums; with a seeded source it is not private."""
        if not sums.records and not self.hides_size:
            raise DataError("the data are empty: there is no record")
        described = self._described(sums)
        design = self.design
        groups = {} if design.by is None else {design.by[0]: tuple(map(as_plain, design.by[1].levels))}
        column = self.columns[0]
        if self.mean:
            axes = groups or {"column": (column,)}
        else:
            axes = groups | {
                name: tuple(map(as_plain, d.levels))
                for name, d in design.outcomes.items()
                if isinstance(d, Domain)
            }
        parts = {
            "axes": axes,
            "column": column if self.mean else None,
            "bounds": (design.grid.low, design.grid.high) if design.grid else None,
            "by": self.by,
        }
        promised = self._promised(described)
        return answer_from_sums(sums, self.noise, parts, described, promised, source)

    def _promised(self, described: Design) -> Any:
        delta = Fraction(0) if self.delta is None else as_target_delta(self.delta, "leave delta out")
        return guarantee_of(self.noise, described, delta)

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths for simulated records.

        Their weights are spread evenly from 0 to half of the largest weight.

        Parameters
        ----------
        n : int
            The number of records.
        level : float
            The probability of an interval, such as 0.95.
        seed : int
            Seed of the simulated noise.
        guess : Guess
            The share of the first value or, for a mean, the standard deviation of a record.

        Returns
        -------
        PlannedWidth
        """
        design, noise = self.design, self.noise
        notes = guess.notes(self._excludes)
        units = max(2, n // (noise.people if noise.clusters else 1) // noise.groups)
        answered = guess.number_answered(units, self._excludes)
        if design.grid is not None:
            low, high = design.grid.low, design.grid.high
            deviation = guess.deviation(high - low)
            means, spread = np.array([0.5, 0.5]), (deviation / (high - low)) ** 2
            products = answered * np.array([0.25 + spread, 0.25 - spread, 0.25 + spread])
        else:
            share = as_probability(0.5 if guess.typical is None else guess.typical, "typical", "0.5")
            means = np.array([share, *[(1 - share) / (noise.cells - 1)] * (noise.cells - 1)])
            products = None
        answer = self.simulate_release(answered * means, n, seed, products, units)
        low_ends, high_ends = answer.interval(level)
        shown = slice(None) if self.mean else slice(0, None, noise.cells)
        rows = answer.rows(level)[shown]
        return PlannedWidth(
            tuple(row.name for row in rows),
            tuple(((high_ends - low_ends) / 2)[shown].tolist()),
            tuple(float(row.noise or 0.0) for row in rows),
            notes,
            unit=self.columns[0] if self.mean else POINTS,
            assumed="simulated records whose weights are spread evenly up to half of the largest",
        )

    def simulate_release(
        self, counts: Any, n: int, seed: int, products: Any = None, units: int | None = None
    ) -> Weighted:
        """Return an answer about simulated records, from their counts in cells and seeded noise, for plans.

        Parameters
        ----------
        counts : array_like
            The number of records in each cell of each group.
        n : int
            The number of records.
        seed : int
            Seed of the noise.
        products : array_like, optional
            Sums of products of pairs of cells; each record is in one cell without them.
        units : int, optional
            The number of records or clusters in a group; by default the number of records.

        Returns
        -------
        Weighted
        """
        noise, typical, unit = self.noise, float(_TYPICAL), float(self.noise.unit)
        if products is None:
            products = np.array([counts[j] if j == other else 0.0 for j, other in self.design.pairs])
        totals = tuple(int(v) for v in typical * unit * np.asarray(counts))
        squares = tuple(int(v) for v in typical**2 * (4 / 3) * unit**2 * products)
        sums = WeightedSums(
            totals=(totals,) * noise.groups,
            squares=(squares,) * noise.groups,
            cut=0,
            records=n,
            squared=int(n * typical**2 * (4 / 3) * noise.steps**2),
            units=(units or n) * noise.groups,
            strata=1,
        )
        return self.answer(sums, SeededEntropy(seed))

    @property
    def _excludes(self) -> bool:
        return any(self.schema.missing(name) == EXCLUDE for name in self.columns)

    def bind(self, size: int) -> PricedRequest:
        """Return the guarantee, and the function that makes the answer.

        Parameters
        ----------
        size : int
            Not used: the price does not depend on the number of records.

        Returns
        -------
        PricedRequest
        """
        return PricedRequest(self._promised(self._described(None)), self.answer)
