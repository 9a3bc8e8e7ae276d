"""Comparisons of shares within a table, from joint posterior draws of its cells. They cost no privacy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from discreet._documents.parts import Table
from discreet._typing import FloatArray
from discreet.distributions.quantity import Quantity, estimates_table
from discreet.errors import InvalidInputError


@dataclass(frozen=True, eq=False, repr=False)
class Shares:
    """Joint draws of the shares of ``levels`` within each group: shape (draws, groups, levels)."""

    draws: FloatArray
    outcome: str
    given: str | None
    groups: tuple[Any, ...]
    levels: tuple[Any, ...]

    def _at(self, level: Any, group: Any) -> FloatArray:
        alone = group is None and self.given is None
        g = 0 if alone else _index(self.groups, group, f"level of {self.given}")
        return np.asarray(self.draws[:, g, _index(self.levels, level, f"level of {self.outcome}")])

    def _pair(self, level: Any, between: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
        pair = tuple(between)
        if len(pair) != 2:
            raise InvalidInputError("must name two groups, as in between=('A', 'B')", "between", between)
        if self.given is None:
            raise InvalidInputError("a comparison between groups needs shares(..., given=...)")
        return self._at(level, pair[0]), self._at(level, pair[1])

    def share(self, level: Any, group: Any = None) -> Quantity:
        """Return the share of a value, within a group where there are groups.

        Parameters
        ----------
        level
            The value whose share is meant.
        group
            The group; None where there are none.

        Returns
        -------
        Quantity
            The quantity, with its mean, interval and draws.
        """
        return Quantity(self._at(level, group))

    def difference(self, level: Any, between: Sequence[Any]) -> Quantity:
        """Return the share of a value in the first group minus that in the second.

        Parameters
        ----------
        level
            The value whose share is meant.
        between
            Two groups.

        Returns
        -------
        Quantity
            The quantity, with its mean, interval and draws.
        """
        return Quantity(np.subtract(*self._pair(level, between)))

    def ratio(self, level: Any, between: Sequence[Any]) -> Quantity:
        """Return the share of a value in the first group divided by that in the second.

        Parameters
        ----------
        level
            The value whose share is meant.
        between
            Two groups.

        Returns
        -------
        Quantity
            The quantity, with its mean, interval and draws.
        """
        return Quantity(np.divide(*self._pair(level, between)))

    def odds_ratio(self, level: Any, between: Sequence[Any]) -> Quantity:
        """Return the odds of a value in the first group divided by those in the second.

        Parameters
        ----------
        level
            The value whose share is meant.
        between
            Two groups.

        Returns
        -------
        Quantity
            The quantity, with its mean, interval and draws.
        """
        a, b = self._pair(level, between)
        return Quantity(a / (1 - a) / (b / (1 - b)))

    def probability(self, level: Any, between: Sequence[Any]) -> float:
        """Return the posterior probability that the share is larger in the first group than in the second.

        Parameters
        ----------
        level
            The value whose share is meant.
        between
            Two groups.

        Returns
        -------
        float
            The probability.
        """
        return float(self.difference(level, between).probability())

    def mean(self) -> FloatArray:
        """The mean shares, of shape (groups, levels)."""
        return np.asarray(self.draws.mean(axis=0))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return equal-tailed credible intervals.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        tuple of arrays
            Low and high ends, each of shape (groups, values).
        """
        return Quantity(self.draws).interval(level)

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the shares as rows.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        list of dict
            One for each group and value.
        """
        places = [
            {**({} if self.given is None else {self.given: group}), self.outcome: level}
            for group in self.groups
            for level in self.levels
        ]
        rows = Quantity(self.draws, tuple(places)).table(level)
        return [{**row.pop("name"), **row} for row in rows]

    def side_by_side(self, level: float = 0.95) -> Table:
        """Return the shares in percent with intervals, with groups side by side.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        Table
            A row for each value.
        """
        numbers = zip(self.mean(), *self.interval(level), strict=True)
        percent = [
            [f"{100 * m:.1f} ({100 * a:.1f} to {100 * b:.1f})" for m, a, b in zip(*rows, strict=True)]
            for rows in numbers
        ]
        caption = (
            f"Shares of {self.outcome} within each {self.given}: percent, with {100 * level:g} % intervals"
        )
        return self._laid_out([str(group) for group in self.groups], percent, str(self.given), caption)

    def differences(self, level: float = 0.95) -> Table:
        """Return the differences of each group's shares from those of the first group, in percentage points.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        Table
            A row for each value and group.
        """
        first, *others = self.groups
        points = [
            [_points(self.difference(value, (other, first)), level) for value in self.levels]
            for other in others
        ]
        caption = f"Differences in percentage points, with {100 * level:g} % intervals"
        return self._laid_out([f"{other} − {first}" for other in others], points, "", caption)

    def tables(self, compared: bool, level: float = 0.95) -> tuple[Table, ...]:
        """Return a table of shares and one of differences; for two groups, both in one table.

        Parameters
        ----------
        compared
            Whether to show the differences.
        level
            The probability of the interval.

        Returns
        -------
        tuple of Table
        """
        shares = self.side_by_side(level)
        if not compared:
            return (shares,)
        differences = self.differences(level)
        if len(self.groups) > 2:
            return shares, differences
        cells = ((*row, points) for row, (_, points) in zip(shares.cells, differences.cells, strict=True))
        caption = f"{shares.caption}, and their differences in percentage points"
        return (Table((*shares.header, differences.header[1]), tuple(cells), caption),)

    def _laid_out(
        self, names: Sequence[str], cells: Sequence[Sequence[str]], given: str, caption: str
    ) -> Table:
        """Return a table with a column for each group, or with a row for each value if they are many."""
        values = [str(value) for value in self.levels]
        if len(names) > len(values):
            return Table((given, *values), tuple((n, *c) for n, c in zip(names, cells, strict=True)), caption)
        heads = [f"{given}: {name}" for name in names] if given else names
        return Table((self.outcome, *heads), tuple(zip(values, *cells, strict=True)), caption)

    def __str__(self) -> str:
        return estimates_table(self.table())

    def __repr__(self) -> str:
        within = "" if self.given is None else f" within each {self.given}"
        return f"<Shares: of {self.outcome}{within}, from {len(self.draws)} draws>"


def _points(difference: Quantity, level: float) -> str:
    mean, low, high = (
        f"{round(100 * value, 1) + 0.0:+.1f}".replace("-", "−")
        for value in (difference.mean(), *difference.interval(level))
    )
    return f"{mean} ({low} to {high})"


class JointDraws:
    """Joint draws of the cells of a table with named axes."""

    def __init__(self, draws: FloatArray, axes: Mapping[str, Sequence[Any]]) -> None:
        self.axes = {name: tuple(levels) for name, levels in axes.items()}
        self.draws = draws.reshape(len(draws), *(len(levels) for levels in self.axes.values()))

    def margin(self, *columns: str) -> FloatArray:
        """Return draws of the marginal table of the named columns; its axes are in their order."""
        if not columns or len(set(columns)) < len(columns):
            raise InvalidInputError("name each column once")
        names = list(self.axes)
        at = [1 + _index(names, column, "column of this table") for column in columns]
        first = np.moveaxis(self.draws, at, range(1, 1 + len(at)))
        return np.asarray(first.sum(axis=tuple(range(1 + len(at), first.ndim))))

    def shares(self, outcome: str, given: str | None = None) -> Shares:
        """Return the shares of ``outcome``, within each level of ``given`` if that is named."""
        if given is None:
            draws = self.margin(outcome)[:, None, :]
            return Shares(draws, outcome, None, ("all",), self.axes[outcome])
        joint = self.margin(given, outcome)
        draws = joint / joint.sum(axis=2, keepdims=True)
        return Shares(draws, outcome, given, self.axes[given], self.axes[outcome])


@dataclass(frozen=True)
class Independence:
    """The log Bayes factor of dependence against independence of two columns."""

    log_bayes_factor: float
    error: float
    """Monte Carlo standard error of the log Bayes factor."""

    @cached_property
    def bayes_factor(self) -> float:
        """The Bayes factor P(published | dependent) / P(published | independent)."""
        return math.exp(min(self.log_bayes_factor, 700.0))


def independence(counts: FloatArray, prior: FloatArray, shape: tuple[int, int]) -> Independence:
    """Estimate the Bayes factor from draws of the true counts x given the release z, under dependence.

    P(z | independent)/P(z | dependent) = E[P(x | independent)/P(x | dependent) | z, dependent]. Under
    dependence the cells have the given Dirichlet prior; under independence the row and column shares have
    Dirichlet priors, whose parameters are the row and column sums of ``prior``.
    """
    x, alpha = counts.reshape(-1, *shape), prior.reshape(shape)

    def log_marginal(n: FloatArray, a: FloatArray) -> FloatArray:
        axes = tuple(range(1, n.ndim))
        total = gammaln(a.sum()) - gammaln(a.sum() + n.sum(axis=axes))
        return np.asarray(total + (gammaln(a + n) - gammaln(a)).sum(axis=axes))

    rows = log_marginal(x.sum(axis=2), alpha.sum(axis=1))
    columns = log_marginal(x.sum(axis=1), alpha.sum(axis=0))
    ratio = rows + columns - log_marginal(x, alpha)
    top = ratio.max()
    weight = np.exp(ratio - top)
    error = float(weight.std() / weight.mean() / math.sqrt(len(weight)))
    return Independence(-float(top + math.log(weight.mean())), error)


def _index(known: Sequence[Any], name: Any, what: str) -> int:
    if name not in known:
        raise InvalidInputError(
            f"{name!r} is not a known {what}; choose one of: {', '.join(map(str, known))}"
        )
    return list(known).index(name)
