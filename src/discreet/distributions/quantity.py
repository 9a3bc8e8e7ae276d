"""Numbers known through posterior draws: the results of comparisons, regressions and networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._text import align_columns
from discreet._typing import FloatArray
from discreet.distributions.base import tails


@dataclass(frozen=True, eq=False, repr=False)
class Quantity:
    """Posterior draws of one number, or of one for each name.

    Parameters
    ----------
    draws
        Array of shape (draws,) or (draws, names).
    names
        The names of the numbers.

    Examples
    --------
    >>> difference = Quantity(np.array([0.1, 0.2, 0.3, -0.1]))
    >>> float(difference.mean().round(4)), float(difference.probability())
    (0.125, 0.75)
    >>> print(Quantity(np.array([[1.0, 2.0], [3.0, 2.5]]), ("urban", "rural")))
    name   estimate   95 % interval
    urban         2    1.05 to 2.95
    rural      2.25  2.013 to 2.487
    """

    draws: FloatArray
    names: tuple[Any, ...] = ()

    def mean(self) -> Any:
        """Return the posterior mean.

        Returns
        -------
        float or array
            One for each name.
        """
        return self.draws.mean(axis=0)[()]

    def std(self) -> Any:
        """Return the posterior standard deviation.

        Returns
        -------
        float or array
            One for each name.
        """
        return self.draws.std(axis=0)[()]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Return an equal-tailed credible interval.

        Parameters
        ----------
        level
            Probability of the interval.

        Returns
        -------
        low, high : float or array
            The ends, for each name.

        Examples
        --------
        >>> low, high = Quantity(np.linspace(0, 1, 101)).interval(0.9)
        >>> round(float(low), 2), round(float(high), 2)
        (0.05, 0.95)
        """
        low, high = np.quantile(self.draws, tails(level), axis=0)
        return low[()], high[()]

    def probability(self, above: float = 0.0) -> Any:
        """Return the posterior probability that the number is above a value.

        Parameters
        ----------
        above
            The value.

        Returns
        -------
        float or array
            One for each name.

        Examples
        --------
        >>> float(Quantity(np.array([1.0, 2.0, 3.0, 4.0])).probability(above=1.5))
        0.75
        """
        return (self.draws > above).mean(axis=0)[()]

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the estimates as rows.

        Parameters
        ----------
        level
            Probability of the intervals.

        Returns
        -------
        list of dict
            Name, mean, standard deviation and ends of the interval, one row for each name.

        Examples
        --------
        >>> Quantity(np.array([[1.0], [3.0]]), ("urban",)).table()[0]["mean"]
        2.0
        """
        values = (self.mean(), self.std(), *self.interval(level))
        columns = [np.atleast_1d(value).ravel().tolist() for value in values]
        names = self.names or ("",)
        keys = ("name", "mean", "sd", "low", "high")
        return [dict(zip(keys, row, strict=True)) for row in zip(names, *columns, strict=True)]

    def __str__(self) -> str:
        return estimates_table(self.table())

    def __repr__(self) -> str:
        return f"<Quantity: {len(self.names) or 1} numbers from {len(self.draws)} draws>"


def estimates_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of estimates as a text table, with the interval in one column.

    Parameters
    ----------
    rows
        Mappings with ``mean``, ``low`` and ``high``; other keys name the row.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> print(estimates_table([{"name": "urban", "mean": 0.31, "sd": 0.01, "low": 0.29, "high": 0.33}]))
    name   estimate  95 % interval
    urban      0.31   0.29 to 0.33
    """
    names = [key for key in rows[0] if key not in ("mean", "sd", "low", "high") and rows[0][key] != ""]
    lines = [
        (*(str(row[name]) for name in names), f"{row['mean']:.4g}", f"{row['low']:.4g} to {row['high']:.4g}")
        for row in rows
    ]
    return "\n".join(align_columns((*names, "estimate", "95 % interval"), lines))
