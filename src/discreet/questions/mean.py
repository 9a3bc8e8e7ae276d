"""The mean of a bounded column, of all records or by group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from discreet._declarations import Relation, as_target_delta
from discreet._documents.answer import Answer
from discreet._randomness.entropy import SeededEntropy
from discreet._registry import SENTENCES
from discreet.errors import InvalidInputError
from discreet.privacy.guarantee import Guarantee
from discreet.questions._asking import check_delta
from discreet.questions._request import PricedRequest, Request
from discreet.questions._text import TEXT
from discreet.questions.base import Question, optional, parameter
from discreet.questions.widths import NO_GUESS, Guess, PlannedWidth
from discreet.regression.means import MeanDesign
from discreet.schema import OWN_BIN, Schema


@dataclass(frozen=True, kw_only=True)
class SumsRequest(Request):
    """A request that noisy sums answer: its price does not depend on the number of records."""

    @property
    def declared_size(self) -> int:
        return 0

    def size_of(self, statistic: Any) -> int:
        return 0

    @property
    def relation(self) -> Relation:
        """Which pairs the sums protect."""
        return Relation.ADD_REMOVE if self.schema.hides_size else Relation.REPLACE_ONE

    def priced(self, guarantee: Guarantee, make: Callable[[Any], Answer]) -> PricedRequest:
        """A number of records that was not declared is known with the answer: only then is δ compared."""

        def checked(statistic: Any) -> Answer:
            answer = make(statistic)
            check_delta(guarantee, getattr(answer, "n", None))
            return answer

        return PricedRequest(guarantee, checked)


@dataclass(frozen=True)
class Mean(Question):
    """Ask for the mean of a column of numbers, with its standard deviation.

    Parameters
    ----------
    column : str
        A column that the schema declares as numbers.
    by : str, optional
        A column of groups: the mean in each of them.
    epsilon, delta : number
        The privacy budget; pure ε without δ.

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
        return (schema.only() if self.column is None else self.column, *filter(None, [self.by]))

    def request(self, schema: Schema) -> Request:
        if schema.weight is not None:
            raise InvalidInputError(
                f"column {schema.weight!r} is a weight: weighted means are not answered yet"
            )
        return MeanSums(schema=schema, question=self)


@dataclass(frozen=True, kw_only=True)
class MeanSums(SumsRequest):
    """The noisy sums from which a mean, or the means of groups, follow."""

    question: Mean

    def __post_init__(self) -> None:
        _ = self.design.grid, self.design.noise

    @cached_property
    def design(self) -> MeanDesign:
        """What is summed, on which grid, with which noise."""
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
            epsilon=asked.exact_epsilon,
            delta=None if delta is None else as_target_delta(delta, schema.size or 1, "leave delta out"),
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
        return self.design.sums(data)

    def simulate(self, n: int, level: float, seed: int, guess: Guess = NO_GUESS) -> PlannedWidth:
        """Values around the middle, whose deviation is ``typical`` or a quarter of the range."""
        design = self.design
        notes = guess.notes(design.excludes)
        low, high = design.bounds
        deviation = (high - low) / 4 if guess.typical is None else float(guess.typical)
        if not 0 < deviation <= (high - low) / 2:
            raise InvalidInputError(
                "must be a standard deviation that the bounds allow", parameter="typical", value=guess.typical
            )
        groups = [None] if design.groups is None else list(design.groups.levels)
        count = max(1, guess.number_answered(n, design.excludes) // len(groups))
        square = round(count * (deviation / (high - low) * design.noise.steps) ** 2)
        made = design.answer(dict.fromkeys(groups, (count, 0, square)), n, SeededEntropy(seed))
        low_ends, high_ends = made.interval(level)
        return PlannedWidth(
            (f"mean of {design.column or 'value'}",) if design.groups is None else tuple(map(str, groups)),
            tuple(((high_ends - low_ends) / 2).tolist()),
            tuple(max(0.0, 1 - deviation**2 / count / sd**2) for sd in made.std().tolist()),
            notes,
            unit=design.column or "value",
        )

    def bind(self, size: int) -> PricedRequest:
        return self.priced(self.design.guarantee, lambda sums: self.design.answer(*sums))
