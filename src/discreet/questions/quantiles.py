"""Quantiles of a bounded column, several at once for one price, of all records or by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from discreet._registry import SENTENCES
from discreet.answers.quantiles import QuantileAnswer
from discreet.declarations import Domain
from discreet.errors import InvalidInput
from discreet.questions.base import Question, optional, parameter
from discreet.questions.counts import ColumnCounts, CountRequest, GroupCounts
from discreet.questions.request import PricedRequest, Request
from discreet.questions.text import SERIES, TEXT
from discreet.schema import Number, Schema

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Quantiles(Question):
    """Ask for quantiles of a column of numbers: several of them, and its distribution function, for one ε.

    Parameters
    ----------
    column : str
        A column that the schema declares as numbers; ``bins``, ``atoms`` and ``whole`` of its declaration say
        where it is counted.
    probs : sequence of float
        The probabilities, between 0 and 1: the quartiles unless others are given.
    by : str, optional
        A public column: the quantiles within each of its groups, all for one ε.
    epsilon : number
        The privacy budget.

    Examples
    --------
    >>> Quantiles("hours", (0.1, 0.5, 0.9), epsilon=0.3).probs
    (0.1, 0.5, 0.9)
    """

    kind: ClassVar[str] = "quantiles"
    title: ClassVar[str] = "Quantiles"
    sentence: ClassVar[str] = SENTENCES["quantiles"]

    column: str | None = parameter(TEXT, "The column of numbers.", example="hours", default=None)
    probs: Sequence[float] = parameter(
        SERIES, "The probabilities, between 0 and 1: 0.1,0.5,0.9.", label="Probabilities", default=QUARTILES
    )
    by: str | None = optional(
        TEXT, "A column of public groups: quantiles in each, for one ε.", example="region", kw_only=True
    )

    def __post_init__(self) -> None:
        try:
            given = (self.probs,) if isinstance(self.probs, int | float) else tuple(self.probs)
            probs = tuple(float(p) for p in given)
        except (TypeError, ValueError):
            probs = ()
        if not probs or not all(0 < p < 1 for p in probs):
            raise InvalidInput(f"probs={self.probs!r} must be between 0 and 1, such as (0.25, 0.5, 0.75)")
        object.__setattr__(self, "probs", probs)

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        return (schema.only() if self.column is None else self.column, *filter(None, [self.by]))

    def request(self, schema: Schema) -> Request:
        column = self.columns_used(schema)[0]
        number = schema.number(column)
        if self.delta is not None:
            raise InvalidInput("delta= does not go with quantiles: their guarantee is pure ε")
        known = {"schema": schema, "epsilon": self.exact_epsilon, "prior": 1.0}
        counts: CountRequest
        if self.by is None:
            counts = BinnedColumn(column=column, **known)  # type: ignore[arg-type]
        else:
            counts = BinnedGroups(outcome=column, by=self.by, **known)  # type: ignore[arg-type]
        return QuantileCounts(
            schema=schema, column=column, number=number, probs=tuple(self.probs), counts=counts
        )


@dataclass(frozen=True, kw_only=True)
class BinnedColumn(ColumnCounts):
    """Counts of a column in the bins of quantiles."""

    @cached_property
    def domain(self) -> Domain:
        return self.schema.number(self.column).domain(self.schema.missing(self.column), fine=True)


@dataclass(frozen=True, kw_only=True)
class BinnedGroups(GroupCounts):
    """Counts of a column in the bins of quantiles, in each group."""

    @cached_property
    def domain(self) -> Domain:
        return self.schema.number(self.outcome).domain(self.schema.missing(self.outcome), fine=True)


@dataclass(frozen=True, kw_only=True)
class QuantileCounts(Request):
    """Noisy counts of bins, from which quantiles are computed."""

    column: str
    number: Number
    probs: tuple[float, ...]
    counts: CountRequest

    @property
    def cautions(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.counts.cautions

    def read(self, data: Any) -> Any:
        return self.counts.read(data)

    def size_of(self, statistic: Any) -> Any:
        return self.counts.size_of(statistic)

    @property
    def declared_size(self) -> Any | None:
        return self.counts.declared_size

    def bind(self, size: Any) -> PricedRequest:
        priced = self.counts.bind(size)
        name, number = "value" if self.schema.nameless else self.column, self.number

        def make(statistic: Any) -> QuantileAnswer:
            counted: Any = priced.make(statistic)
            atoms = tuple(map(float, number.atoms))
            edges = tuple(map(float, number.edges(fine=True)))
            return QuantileAnswer(name, self.probs, edges, atoms, number.whole, counted, priced.guarantee)

        return PricedRequest(priced.guarantee, make)
