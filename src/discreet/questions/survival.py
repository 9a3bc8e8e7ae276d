"""Survival curves from times and events, of all records or by group, for the price of one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from discreet._declarations import Domain
from discreet._inference.quantiles import Bins, check_bins
from discreet._registry import SENTENCES
from discreet.answers.release import Release
from discreet.answers.survival import SurvivalAnswer
from discreet.errors import InvalidInputError
from discreet.questions._counts import DerivedRequest, TableCounts
from discreet.questions._request import Request, refuse_weight
from discreet.questions._text import SERIES, TEXT, optional, parameter
from discreet.questions.base import Question
from discreet.questions.widths import POINTS, Guess, PlannedWidth
from discreet.schema import OWN_BIN, Schema

_BINS_WITHOUT_N = 20


@dataclass(frozen=True)
class Survival(Question):
    """Ask for the survival curve of a time to an event, where some records are censored.

    Parameters
    ----------
    time : str
        A column of numbers: the time of the event, or of the last observation without it.
    event : str
        A column of two values; the last one declared is the event, the first means censored.
    by : str, optional
        A column of groups; there is a curve for each group. The sizes of the groups stay private.
    bins : int or sequence of float, optional
        The bins of time: their number or their edges. By default those that the schema declares, otherwise
        equal bins whose number depends on n and ε.
    epsilon : number
        The privacy budget.

    Examples
    --------
    >>> Survival("days", "status", by="arm", epsilon=1).explicit_fields()
    {'epsilon': 1, 'time': 'days', 'event': 'status', 'by': 'arm'}
    """

    kind: ClassVar[str] = "survival"
    title: ClassVar[str] = "Survival"
    sentence: ClassVar[str] = SENTENCES["survival"]

    time: str = parameter(TEXT, "The column of times.", example="days")
    event: str = parameter(TEXT, "The column that says whether the event happened.", example="status")
    by: str | None = optional(TEXT, "A column of groups: a curve for each.", example="arm", kw_only=True)
    bins: int | Sequence[float] | None = optional(
        SERIES, "The number of time bins, or their edges.", example="0,90,180,365", kw_only=True
    )

    def __post_init__(self) -> None:
        if self.bins is None:
            return
        try:
            bins = tuple(map(float, self.bins if isinstance(self.bins, Sequence) else (self.bins,)))
        except (TypeError, ValueError):
            bins = ()
        if not bins or (len(bins) == 1 and (bins[0] < 2 or bins[0] % 1)) or len(bins) == 2:
            raise InvalidInputError(
                "must be a number of bins, 2 or more, or at least three edges", "bins", self.bins
            )
        object.__setattr__(self, "bins", bins)

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of groups, time and event.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str
        """
        return (*filter(None, [self.by]), self.time, self.event)

    def request(self, schema: Schema) -> Request:
        """Return the noisy counts that the curves are computed from.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        SurvivalCounts

        Raises
        ------
        InvalidInputError
            If the time may be negative or is not a number, the event does not have two values, or δ is given.

        Examples
        --------
        >>> from discreet import Schema
        >>> schema = Schema({"days": (0, 1000), "status": ["alive", "dead"]}, n=500)
        >>> Survival("days", "status", epsilon=1).request(schema).price().epsilon
        1.0
        """
        refuse_weight(schema, "survival curves are not weighted yet: leave it out of the schema")
        if self.delta is not None:
            raise InvalidInputError("delta= cannot be used with survival: its guarantee is pure ε")
        number = schema.number(self.time, "time")
        if number.low < 0:
            raise InvalidInputError("must be a column of numbers from 0 on", "time", self.time)
        if OWN_BIN in (number.outside, number.missing):
            raise InvalidInputError(
                "has a bin of its own for missing or outside values: survival needs missing='exclude' and "
                "outside='clip'",
                "time",
                self.time,
            )
        if len(schema.category(self.event, "event").values) != 2:
            raise InvalidInputError(
                "must be a column of two values: censored first, then the event", "event", self.event
            )
        counts = SurvivalTable(
            schema=schema,
            epsilon=self.exact_epsilon,
            prior=1.0,
            columns=self.columns_used(schema),
            bins=_time_bins(self, schema),
        )
        return SurvivalCounts(schema=schema, question=self, counts=counts)


def _time_bins(question: Survival, schema: Schema) -> Bins:
    """Return the bins of time, from public values only."""
    number = schema.number(question.time, "time")
    bins = question.bins if question.bins is not None else number.bins
    if isinstance(bins, tuple) and len(bins) == 1:
        bins = int(bins[0])
    groups = 1 if question.by is None else len(schema.category(question.by, "by").values)
    if bins is None and isinstance(schema.size, int):
        each = schema.size / (2 * groups)  # events and censored records of a group are counted apart
        chosen = Bins.over(number.bounds, each, float(question.exact_epsilon), (), number.whole)
    else:
        edges = replace(number, bins=bins or _BINS_WITHOUT_N).edges()
        chosen = Bins(tuple(map(float, edges)), (), number.whole)
    if len(chosen) != len(chosen.edges) - 1 or len(chosen) < 2:
        raise InvalidInputError("must leave a whole number in each bin", "bins", chosen.edges)
    check_bins(len(chosen) * groups)
    return chosen


@dataclass(frozen=True, kw_only=True)
class SurvivalTable(TableCounts):
    """Counts of the cells of groups, time bins and event."""

    bins: Bins

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The values of each column, of which time has its bins."""
        *by, time, event = self.columns
        number = replace(self.schema.number(time), bins=self.bins.edges, atoms=())
        return {
            **{name: self.schema.category(name, "by").domain for name in by},
            time: number.domain(self.schema.missing(time)),
            event: self.schema.domain(event, "event"),
        }


@dataclass(frozen=True, kw_only=True)
class SurvivalCounts(DerivedRequest):
    """Noisy counts of time bins, from which survival curves are computed."""

    question: Survival
    counts: SurvivalTable

    def answer(self, counted: Release) -> SurvivalAnswer:
        """Return the curves computed from noisy counts.

        Parameters
        ----------
        counted : Release
            The noisy counts.

        Returns
        -------
        SurvivalAnswer
        """
        bins, asked = self.counts.bins, self.question
        return SurvivalAnswer(asked.time, asked.by, bins.edges, bins.whole, counted, counted.guarantee)

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths of curves of simulated records: times spread evenly, half of them events.

        Parameters
        ----------
        n : int
            The number of records.
        level : float
            The probability of an interval, such as 0.95.
        seed : int
            Seed of the noise.
        guess : Guess
            Assumptions about the records.

        Returns
        -------
        PlannedWidth
        """
        domain = self.counts.domain
        answered = guess.number_answered(n, domain.excludes_missing)
        counts = tuple(map(int, np.diff(np.arange(domain.k + 1) * answered // domain.k)))
        counts += (n - answered,) if self.counts.leaves_out else ()
        answer = self.answer(self.counts.simulate_release(counts, n, seed, self.counts.axes))
        low, high = answer.interval(level)
        mean = answer.mean()
        groups = len(answer.groups)
        sampling = mean * (1 - mean) / max(1.0, answered / groups)
        noise = np.clip(1 - sampling / np.maximum(answer.std() ** 2, 1e-300), 0, 1)
        return PlannedWidth(
            answer.names,
            tuple(map(float, (high - low) / 2)),
            tuple(map(float, noise)),
            guess.notes(domain.excludes_missing),
            unit=POINTS,
            assumed="simulated records with times spread evenly, half of them events",
        )
