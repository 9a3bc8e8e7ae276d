"""One number, or several, known by draws: what comparisons of groups and coefficients return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._text import align_columns
from discreet._typing import FloatArray
from discreet.distributions.law import tails


@dataclass(frozen=True, eq=False, repr=False)
class Quantity:
    """Draws of one number, or of one for each entry of ``names``."""

    draws: FloatArray
    names: tuple[Any, ...] = ()

    def mean(self) -> Any:
        return self.draws.mean(axis=0)[()]

    def std(self) -> Any:
        return self.draws.std(axis=0)[()]

    def interval(self, level: float = 0.95) -> tuple[Any, Any]:
        """Equal tails."""
        low, high = np.quantile(self.draws, tails(level), axis=0)
        return low[()], high[()]

    def probability(self, above: float = 0.0) -> Any:
        """The posterior probability that it is above a number."""
        return (self.draws > above).mean(axis=0)[()]

    def table(self, level: float = 0.95) -> list[dict[str, Any]]:
        """A mapping for each name."""
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
    """Return rows of estimates as a text table, the interval in one column."""
    names = [key for key in rows[0] if key not in ("mean", "sd", "low", "high") and rows[0][key] != ""]
    lines = [
        (*(str(row[name]) for name in names), f"{row['mean']:.4g}", f"{row['low']:.4g} to {row['high']:.4g}")
        for row in rows
    ]
    return "\n".join(align_columns((*names, "estimate", "95 % interval"), lines))
