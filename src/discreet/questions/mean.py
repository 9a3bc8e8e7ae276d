"""The mean of a bounded column, of all records or by group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from discreet._data.guard import redact_errors
from discreet._declarations import Relation, as_epsilon, as_target_delta
from discreet._randomness.entropy import SeededEntropy
from discreet._registry import SENTENCES
from discreet.errors import InvalidInputError
from discreet.questions._counts import sizes_caution
from discreet.questions._request import PricedRequest, Request, SumsRequest
from discreet.questions._text import TEXT, optional, parameter
from discreet.questions.base import Question
from discreet.questions.widths import Guess, PlannedWidth
from discreet.regression.means import MeanDesign
from discreet.schema import OWN_BIN, Schema


@dataclass(frozen=True)
class Mean(Question):
    """Ask for the mean of a column of numbers, with its standard deviation.

    Parameters
    ----------
    column : str
        A column that the schema declares as numbers.
    by : str, optional
        A column of groups; the mean is computed in each of them.
    epsilon, delta : number
        The privacy budget; without ``delta`` the guarantee is pure ε.

    Examples
    --------
    >>> Mean("age", by="region", epsilon=0.2).explicit_fields()
    {'epsilon': 0.2, 'column': 'age', 'by': 'region'}
    """

    kind: ClassVar[str] = "mean"
    title: ClassVar[str] = "Mean"
    sentence: ClassVar[str] = SENTENCES["mean"]

    column: str | None = parameter(TEXT, "The column of numbers.", example="age", default=None)
    by: str | None = optional(TEXT, "A column of groups: the mean in each.", example="region", kw_only=True)

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the column of numbers, and the column of groups if there is one.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str
        """
        return (schema.only() if self.column is None else self.column, *filter(None, [self.by]))

    def request(self, schema: Schema) -> Request:
        """Return the noisy sums that the mean is computed from.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        MeanSums, or WeightedRequest where the schema declares a weight

        Raises
        ------
        InvalidInputError
            If the column is not a number.

        Examples
        --------
        >>> from discreet import Schema
        >>> Mean("age", epsilon=0.5).request(Schema({"age": (0, 120)})).price().epsilon
        0.5
        """
        if schema.weight is not None:
            from discreet.questions._weighted import WeightedRequest

            return WeightedRequest(
                schema=schema,
                columns=self.columns_used(schema)[:1],
                mean=True,
                by=self.by,
                epsilon=as_epsilon(self.epsilon),
                delta=self.delta,
            )
        return MeanSums(schema=schema, question=self)


@dataclass(frozen=True, kw_only=True)
class MeanSums(SumsRequest):
    """The noisy sums from which a mean, or the means of groups, follow."""

    question: Mean

    def __post_init__(self) -> None:
        _ = self.design.grid, self.design.noise

    @property
    def relation(self) -> Relation:
        """The relation that the sums protect: within groups if the groups are public."""
        by, schema = self.question.by, self.schema
        public = by is not None and schema.category(by, "by").public and schema.person is None
        return Relation.WITHIN_GROUP if public and not self.hides_size else super().relation

    @property
    def sizes(self) -> Mapping[Any, int] | None:
        """The declared size of each group."""
        return None if self.question.by is None else (self.schema.sizes or {}).get(self.question.by)

    @property
    def cautions(self) -> tuple[str, ...]:  # type: ignore[override]
        """A warning that undeclared sizes of public groups are read from the data, and published."""
        design = self.design
        read = design.relation is Relation.WITHIN_GROUP and not design.excludes and self.sizes is None
        return (sizes_caution(str(design.by)),) if read else ()

    @cached_property
    def design(self) -> MeanDesign:
        """The sums to compute, with their grid and noise."""
        asked, schema = self.question, self.schema
        column = schema.only() if asked.column is None else asked.column
        number, missing, delta = schema.number(column), schema.missing(column), asked.delta
        if missing == OWN_BIN:
            raise InvalidInputError(
                f"column {column!r}: missing='bin' is for proportions; a mean needs 'exclude'"
            )
        groups = None if asked.by is None else schema.domain(asked.by, "by")
        return MeanDesign(
            column=None if schema.nameless else column,
            bounds=number.bounds,
            epsilon=as_epsilon(asked.epsilon),
            delta=None if delta is None else as_target_delta(delta, "leave delta out"),
            by=asked.by,
            groups=groups,
            missing=missing,
            n=schema.size,
            relation=self.relation,
            person=schema.person,
            per_person=schema.per_person,
            strict=schema.strict,
        )

    def read(self, data: Any) -> Any:
        """Return the exact sums of the records, for each group.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.

        Returns
        -------
        tuple
        """
        sums, total = redact_errors(self.design.sums)(data)
        within = self.design.relation is Relation.WITHIN_GROUP and not self.design.excludes
        if within and self.sizes is not None and any(sums[g][0] != size for g, size in self.sizes.items()):
            raise InvalidInputError(
                f"sizes of {self.design.by!r} are not the numbers of records in these groups: correct them, "
                "or leave them out to have them read and published"
            )
        return sums, total

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths of a mean of simulated records.

        The values lie around the middle of the bounds; their standard deviation is ``guess.typical`` or a
        quarter of the range.

        Parameters
        ----------
        n : int
            The number of records.
        level : float
            The probability of an interval, such as 0.95.
        seed : int
            Seed of the simulated records and noise.
        guess : Guess
            Assumptions about the records.

        Returns
        -------
        PlannedWidth

        Raises
        ------
        InvalidInputError
            If the bounds do not allow ``guess.typical`` as a standard deviation.

        Examples
        --------
        >>> from discreet import Schema
        >>> request = Mean("age", epsilon=1).request(Schema({"age": (0, 120)}))
        >>> planned = request.simulate(2000, 0.95, seed=0, guess=Guess())
        >>> planned.names, planned.unit
        (('mean of age',), 'age')
        """
        design = self.design
        notes = guess.notes(design.excludes)
        low, high = design.bounds
        deviation = guess.deviation(high - low)
        groups = [None] if design.groups is None else list(design.groups.levels)
        count = max(1, guess.number_answered(n, design.excludes) // len(groups))
        square = round(count * (deviation / (high - low) * design.noise.steps) ** 2)
        answer = design.answer(dict.fromkeys(groups, (count, 0, square)), n, SeededEntropy(seed))
        low_ends, high_ends = answer.interval(level)
        return PlannedWidth(
            (f"mean of {design.column or 'value'}",) if design.groups is None else tuple(map(str, groups)),
            tuple(((high_ends - low_ends) / 2).tolist()),
            tuple(max(0.0, 1 - deviation**2 / count / sd**2) for sd in answer.std().tolist()),
            notes,
            unit=design.column or "value",
        )

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
        return PricedRequest(self.design.guarantee, lambda sums: self.design.answer(*sums))
