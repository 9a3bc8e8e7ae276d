"""Survival curves of one or several groups, from noisy counts of time bins."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from discreet._declarations import as_reals
from discreet._documents.answer import Answer, load_answer
from discreet._documents.parts import (
    INTERVALS_NOTE,
    Band,
    Figure,
    Row,
    Table,
    Words,
    beside,
    rows_of,
    with_interval,
)
from discreet._inference.quantiles import Bins, check_bins
from discreet._inference.survival import SurvivalDraws, SurvivalPosterior
from discreet._typing import FloatArray
from discreet.answers.release import Release
from discreet.errors import InvalidInputError
from discreet.privacy.guarantee import Guarantee

_READING = (
    "The curve is the share of the population whose event happens after each time, as Kaplan and Meier "
    "estimate it where some records are censored; censoring must be independent of the time of the event."
)
_MAX_SHOWN_TIMES = 8


def _with_interval(row: Row | None) -> str:
    return "–" if row is None else with_interval(row.mean, row.low or 0.0, row.high or 0.0)


class LogRank(NamedTuple):
    """The log-rank test of equal survival in all groups."""

    statistic: float
    freedom: int
    p_value: float


@dataclass(frozen=True, repr=False)
class SurvivalAnswer(Answer):
    """Private survival curves with intervals, computed from noisy counts of public time bins.

    Attributes
    ----------
    time : str
        The column of times.
    by : str or None
        The column of groups.
    edges : tuple of float
        The edges of the bins of time.
    whole : bool
        Whether times are whole numbers.
    counted : Release
        The noisy counts of the cells: group, time bin, censored or event.
    guarantee : Guarantee
        The guarantee of the counts.

    Examples
    --------
    >>> import discreet
    >>> people = {"days": [100 + i % 700 for i in range(500)], "status": ["alive", "dead"] * 250}
    >>> schema = discreet.Schema({"days": (0, 1000), "status": ["alive", "dead"]}, n=500)
    >>> curve = discreet.survival(people, "days", "status", schema=schema, bins=10, epsilon=1)
    >>> curve.names[:2]
    ('beyond 100', 'beyond 200')
    """

    format: ClassVar[str] = "discreet/survival"
    tables_hold_rows: ClassVar[bool] = True
    label: ClassVar[str] = "survival"

    time: str
    by: str | None
    edges: tuple[float, ...]
    whole: bool
    counted: Release
    guarantee: Guarantee

    @property
    def bins(self) -> Bins:
        """The bins of time."""
        return Bins(self.edges, (), self.whole)

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups; an empty text where there are none."""
        return ("",) if self.by is None else tuple(map(str, (self.counted.axes or {})[self.by]))

    @property
    def times(self) -> tuple[float, ...]:
        """The times at which the curve is given: the ends of all bins but the last."""
        return tuple(self._usual.times.tolist())

    @cached_property
    def posterior(self) -> SurvivalPosterior:
        """The posterior of the curves."""
        values, known = self.counted.noisy_cells()
        shape = (len(self.groups), len(self.bins), 2)
        cells = int(np.prod(shape))
        counts = values[:cells].reshape(shape)
        return SurvivalPosterior(self.bins, counts, apart=values[cells:].tolist(), **known)

    @property
    def _usual(self) -> SurvivalDraws:
        return self.posterior.usual

    def _rows_between(self, low: FloatArray, high: FloatArray) -> list[Row]:
        curves, within = self._usual.curves, [f"{group} · " if group else "" for group in self.groups]
        names = (f"{group}beyond {time:.3g}" for group in within for time in self._usual.times)
        return rows_of(names, curves.mean(axis=0), curves.std(axis=0), low, high, share=True)

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Return the curves as a figure, with pointwise intervals."""
        draws = self._usual
        parts = (draws.curves.mean(axis=0), *draws.interval(draws.curves, level))
        x = (self.edges[0], *self.times)
        bands = tuple(
            Band(group, x, *((1.0, *map(float, part[g])) for part in parts))
            for g, group in enumerate(self.groups)
        )
        return Figure(self.words().name, (), bands=bands, axis=self.time)

    def _rows(self, level: float) -> list[Row]:
        """Return the curve at the end of each bin but the last, with pointwise intervals."""
        return self._rows_between(*self._usual.interval(self._usual.curves, level))

    def band(self, level: float = 0.95) -> list[Row]:
        """Return rows with simultaneous bands, each of which contains the whole curve of its group.

        Parameters
        ----------
        level : float
            The probability that a band contains the whole curve.

        Returns
        -------
        list of Row

        Examples
        --------
        >>> import discreet
        >>> people = {"days": [100 + i % 700 for i in range(500)], "status": ["alive", "dead"] * 250}
        >>> schema = discreet.Schema({"days": (0, 1000), "status": ["alive", "dead"]}, n=500)
        >>> curve = discreet.survival(people, "days", "status", schema=schema, bins=10, epsilon=1)
        >>> curve.band(0.9)[0].low <= curve.rows(0.9)[0].low
        True
        """
        return self._by_level(self._band, level)

    def _band(self, level: float) -> list[Row]:
        return self._rows_between(*self._usual.band(level))

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the curves from their posterior, group after group.

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
        return self.posterior.draws(size, seed).curves.reshape(size, -1)

    def median(self, level: float = 0.95) -> list[Row]:
        """Return the median time to the event of each group, and its interval.

        The estimate is the median of the posterior; an end is infinite where the curve may not fall to one
        half before the last bin.

        Parameters
        ----------
        level : float
            The probability of each interval.

        Returns
        -------
        list of Row
        """
        drawn = self._usual.quantile(0.5)
        low, high = self._usual.interval(drawn, level)
        middle = np.quantile(drawn, 0.5, axis=0, method="inverted_cdf")
        numbers = zip(self.groups, middle, low, high, strict=True)
        return [Row(group or "all", float(m), None, float(a), float(b)) for group, m, a, b in numbers]

    def restricted_mean(self, until: float | None = None, level: float = 0.95) -> list[Row]:
        """Return the mean time up to ``until`` of each group, then the differences from the first group.

        Parameters
        ----------
        until : float, optional
            The time at which the mean is cut off; by default the start of the last bin.
        level : float
            The probability of each interval.

        Returns
        -------
        list of Row

        Raises
        ------
        InvalidInputError
            If ``until`` is not above the first edge, or is beyond the start of the last bin.
        """
        drawn = self._usual.restricted_mean(until)
        names = [group or "all" for group in self.groups]
        return self._compare(drawn, names, level)

    def difference(self, time: float, level: float = 0.95) -> list[Row]:
        """Return the share that survives beyond a time in each group, then the differences from the first.

        Parameters
        ----------
        time : float
            A time of the curve.
        level : float
            The probability of each interval.

        Returns
        -------
        list of Row

        Raises
        ------
        InvalidInputError
            If the curve has no such time.
        """
        place = np.flatnonzero(np.isclose(self._usual.times, time))
        if not len(place):
            times = ", ".join(f"{t:g}" for t in self._usual.times)
            raise InvalidInputError(f"must be one of: {times}", "time", time)
        names = [group or "all" for group in self.groups]
        return self._compare(self._usual.curves[..., place[0]], names, level)

    def _compare(self, drawn: FloatArray, names: list[str], level: float) -> list[Row]:
        """Return rows for the draws of each group, then for the differences from the first group."""
        names = names + [f"{name} − {names[0]}" for name in names[1:]]
        drawn = np.concatenate([drawn, drawn[:, 1:] - drawn[:, :1]], axis=1)
        return rows_of(names, drawn.mean(axis=0), drawn.std(axis=0), *self._usual.interval(drawn, level))

    def log_rank(self) -> LogRank:
        """Return the log-rank test of equal survival in all groups, which accounts for the noise.

        Returns
        -------
        LogRank

        Raises
        ------
        InvalidInputError
            If there is only one group.
        """
        if len(self.groups) < 2:
            raise InvalidInputError("log_rank compares groups: ask for survival with by=COLUMN")
        return LogRank(*self.posterior.log_rank())

    def tables(self) -> tuple[Table, ...]:
        """Return the curve at some of its times, medians and restricted means for the report.

        Returns
        -------
        tuple of Table
        """
        width, step = len(self.times), -(-len(self.times) // _MAX_SHOWN_TIMES)
        shown = [row for i, row in enumerate(self.rows()) if i % width % step == step - 1]
        caption = "Share whose event happens after each time, in percent, with 95 % intervals"
        medians = {row.name: row for row in self.median()}
        numbers = tuple(
            (mean.name, *(_with_interval(row) for row in (medians.get(mean.name), mean)))
            for mean in self.restricted_mean()
        )
        until = f"mean time up to {self._usual.edges[-1]:.3g}"
        table = Table((self.by or "group", "median time", until), numbers, "Times, with 95 % intervals")
        return beside(self.time, shown, self.groups, caption), table

    @property
    def heading(self) -> str:
        return self.time

    def words(self) -> Words:
        first = self.counted.words()
        by = "" if self.by is None else f" by {self.by}"
        facts = (("Time bins", f"{len(self.edges) - 1} from {self.edges[0]:g} to {self.edges[-1]:g}"),)
        return Words(
            headline=f"Private survival curve of {self.time}{by}",
            name=f"Survival by {self.time}{by}",
            facts=(*facts, *(fact for fact in first.facts if fact[0] in ("Records", "Mechanism"))),
            notes=(INTERVALS_NOTE,),
            reading=(_READING,),
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the curves from the content of their document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        SurvivalAnswer

        Raises
        ------
        ValueError
            If the counts are not a release of proportions.
        """
        counted = load_answer(json.dumps(content["counted"]))
        if not isinstance(counted, Release) or not isinstance(content["whole"], bool):
            raise ValueError("its counts are not a release of proportions")
        by = content["by"]
        return cls(
            time=str(content["time"]),
            by=None if by is None else str(by),
            edges=tuple(as_reals(content["edges"], "edges").tolist()),
            whole=content["whole"],
            counted=counted,
            guarantee=Guarantee.from_dict(content["guarantee"]),
        )

    def content(self) -> dict[str, Any]:
        return {
            "time": self.time,
            "by": self.by,
            "edges": list(self.edges),
            "whole": self.whole,
            "counted": self.counted.document(),
            "guarantee": self.guarantee.to_dict(),
        }

    def check_parts(self) -> None:
        """Refuse a document whose counts do not fit its bins."""
        super().check_parts()
        axes = self.counted.axes or {}
        names = [name for name in (self.by, self.time) if name is not None]
        if list(axes)[:-1] != names or len(axes[self.time]) != len(self.bins):
            raise ValueError("the counts do not match the bins")
        if len(list(axes.values())[-1]) != 2:
            raise ValueError("the event must have two values")
        check_bins(len(self.groups) * len(self.bins))

    def cost(self) -> Guarantee:
        """Return the cost of the counts, from which the curves are computed."""
        return self.counted.cost()
