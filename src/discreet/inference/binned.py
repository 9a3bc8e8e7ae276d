"""The distribution function and the quantiles of a number that was released in bins."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.declarations import as_plain
from discreet.documents.answer import Row, as_probability
from discreet.errors import InvalidInput
from discreet.inference.comparisons import Quantity

_BIN = re.compile(r"\[(\S+), (\S+)[\])]")


@dataclass(frozen=True)
class BinnedDistribution:
    """What noisy counts of bins tell of a distribution, whose values are taken to be even within each bin.

    ``draws`` are of the shares below each edge: sampling and the noise of privacy are both inside.
    """

    edges: FloatArray
    draws: FloatArray

    @classmethod
    def of(cls, levels: Sequence[Any], shares: FloatArray) -> BinnedDistribution:
        """From draws of the shares of bins, whose names hold their edges; other levels are left out."""
        found = [_BIN.fullmatch(str(as_plain(level))) for level in levels]
        bins = [i for i, one in enumerate(found) if one]
        ends = [(float(one[1]), float(one[2])) for one in found if one]
        if not bins:
            raise InvalidInput("this release has no bins: ask for a distribution with edges=(0, 18, 65, 120)")
        edges = np.array([ends[0][0], *(high for _, high in ends)])
        if not np.isfinite(edges).all():
            raise InvalidInput("a distribution needs finite edges: with an open bin its values have no place")
        own = shares[:, bins]
        below = np.cumsum(own / own.sum(axis=1, keepdims=True), axis=1)
        return cls(edges, np.column_stack([np.zeros(len(own)), below]))

    def cdf(self, values: npt.ArrayLike, level: float = 0.95) -> list[Row]:
        """The share at or below each value, with an interval."""
        points = np.atleast_1d(np.asarray(values, dtype=np.float64))
        found = np.array([np.interp(points, self.edges, draw) for draw in self.draws])
        return self._rows([f"share up to {x:g}" for x in points], found, level, share=True)

    def quantile(self, shares: npt.ArrayLike, level: float = 0.95) -> list[Row]:
        """The value below which each share lies, with an interval."""
        points = np.atleast_1d(np.asarray(shares, dtype=np.float64))
        if not ((points > 0) & (points < 1)).all():
            raise InvalidInput(f"shares={shares!r} must be between 0 and 1, such as (0.25, 0.5, 0.75)")
        found = np.array([np.interp(points, draw, self.edges) for draw in self.draws])
        return self._rows([f"{100 * p:g} % quantile" for p in points], found, level)

    @staticmethod
    def _rows(names: Sequence[str], draws: FloatArray, level: float, share: bool = False) -> list[Row]:
        found = Quantity(draws, tuple(names)).table(as_probability(level))
        return [Row(row["name"], row["mean"], row["sd"], row["low"], row["high"], share) for row in found]
