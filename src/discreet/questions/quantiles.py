"""Quantiles of a bounded column, several at once for one price, of all records or by group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from discreet._declarations import as_epsilon
from discreet._inference.quantiles import MOST_PROBS, check_bins
from discreet._registry import SENTENCES
from discreet.answers.quantiles import QuantileAnswer
from discreet.errors import InvalidInputError, TooLargeError
from discreet.questions._counts import ColumnCounts, CountRequest, DerivedRequest, GroupCounts
from discreet.questions._request import Request
from discreet.questions._text import SERIES, TEXT, optional, parameter
from discreet.questions._weighted import WeightedRequest
from discreet.questions.base import Question
from discreet.questions.widths import Guess, PlannedWidth
from discreet.schema import Number, Schema

QUARTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Quantiles(Question):
    """Ask for quantiles of a column of numbers: several of them, and its distribution function, for one ε.

    Parameters
    ----------
    column : str
        A column that the schema declares as numbers; ``bins``, ``atoms`` and ``whole`` of its declaration
        define the cells in which it is counted.
    probs : sequence of float
        The probabilities, between 0 and 1; by default those of the quartiles.
    by : str, optional
        A public column of groups; the quantiles are computed within each group, all for one ε.
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
            values = (self.probs,) if isinstance(self.probs, int | float) else tuple(self.probs)
            probs = tuple(float(p) for p in values)
        except (TypeError, ValueError):
            probs = ()
        if not probs or not all(0 < p < 1 for p in probs):
            raise InvalidInputError("must be between 0 and 1, such as 0.25, 0.5, 0.75", "probs", self.probs)
        if len(probs) > MOST_PROBS:
            raise TooLargeError(f"at most {MOST_PROBS} quantiles are computed together, not {len(probs):,}")
        object.__setattr__(self, "probs", probs)

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
        """Return the noisy counts of bins that the quantiles are computed from.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        QuantileCounts

        Raises
        ------
        InvalidInputError
            If the column is not a number, or δ is given: the guarantee is pure ε.

        Examples
        --------
        >>> from discreet import Schema
        >>> request = Quantiles("hours", epsilon=0.3).request(Schema({"hours": (0, 80)}))
        >>> request.probs, request.price().epsilon
        ((0.25, 0.5, 0.75), 0.3)
        """
        column = self.columns_used(schema)[0]
        number = schema.number(column)
        if self.delta is not None:
            raise InvalidInputError("delta= cannot be used with quantiles: their guarantee is pure ε")
        check_bins(len(number.edges(fine=True)) + len(number.atoms))
        arguments = {"schema": schema, "epsilon": as_epsilon(self.epsilon), "fine": True}
        counts: Request
        if schema.weight is not None:
            counts = WeightedRequest(columns=(column,), mean=False, by=self.by, **arguments)  # type: ignore[arg-type]
        elif self.by is None:
            counts = ColumnCounts(column=column, prior=1.0, **arguments)  # type: ignore[arg-type]
        else:
            counts = GroupCounts(outcome=column, by=self.by, prior=1.0, **arguments)  # type: ignore[arg-type]
        about = {"column": column, "by": self.by, "number": number, "probs": tuple(self.probs)}
        return QuantileCounts(schema=schema, counts=counts, **about)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class QuantileCounts(DerivedRequest):
    """Noisy counts of bins, from which quantiles are computed."""

    column: str
    by: str | None
    number: Number
    probs: tuple[float, ...]

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths of quantiles of simulated records.

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
        """
        counted, number = self.counts, self.number
        domain = self.schema.domain(self.column, fine=True)
        notes = guess.notes(domain.excludes_missing)
        edges = np.array(number.edges(fine=True), dtype=float)
        middle, width = (edges[0] + edges[-1]) / 2, edges[-1] - edges[0]
        deviation = guess.deviation(float(width))
        leaves_out = isinstance(counted, CountRequest) and counted.leaves_out
        groups = 1 if self.by is None else self.schema.domain(self.by).k
        size = max(1, n // groups)
        answered = guess.number_answered(size, domain.excludes_missing)
        below = ndtr((edges[1:-1] - middle) / deviation)
        inside = np.diff(np.rint(answered * np.concatenate(([0.0], below, [1.0]))).astype(int))
        counts = (*map(int, inside), *(0,) * (domain.k - len(inside)))
        counts += (size - answered,) if leaves_out else ()
        answer = self.answer(counted.simulate_release(counts, size, seed))
        low, high = answer.interval(level)
        probs = np.array(self.probs)
        density = np.exp(-(ndtri(probs) ** 2) / 2) / np.sqrt(2 * np.pi) / deviation
        sampling = probs * (1 - probs) / answered / density**2
        half = (np.asarray(high) - low) / 2
        noise = np.clip(1 - np.resize(sampling, half.shape) / (half / ndtri((1 + level) / 2)) ** 2, 0, 1)
        return PlannedWidth(
            answer.names, tuple(map(float, half)), tuple(map(float, noise)), notes, unit=self.column
        )

    def answer(self, counted: Any) -> QuantileAnswer:
        """Return the quantiles computed from noisy counts.

        Parameters
        ----------
        counted : Release, ConditionalRelease or Weighted
            The noisy counts, or weighted totals.

        Returns
        -------
        QuantileAnswer
        """
        number = self.number
        return QuantileAnswer(
            "value" if self.schema.nameless else self.column,
            self.probs,
            tuple(map(float, number.edges(fine=True))),
            tuple(map(float, number.atoms)),
            number.whole,
            counted,
            counted.guarantee,
        )
