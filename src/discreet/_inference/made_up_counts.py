"""Simulated counts for a plan, and the width of a share's interval without privacy."""

from __future__ import annotations

import numpy as np

from discreet.distributions.beta_dirichlet import Beta


def imagined_counts(prior: tuple[float, ...], n: int, share: float) -> tuple[int, ...]:
    """Return counts of n records: ``share`` of them have the first level, the rest follow the prior mean."""
    first = round(share * n)
    ends = np.rint((n - first) * np.cumsum(prior[1:]) / sum(prior[1:])).astype(object)
    return (first, *(int(b) - int(a) for a, b in zip((0, *ends[:-1]), ends, strict=True)))


def width_without(prior: tuple[float, ...], n: int, *, share: float = 0.5, level: float = 0.95) -> float:
    """Return the width of the credible interval of a share if the counts were released without noise."""
    first, *_ = imagined_counts(prior, n, share)
    low, high = Beta(prior[0] + first, sum(prior[1:]) + n - first).interval(level)
    return float(high) - float(low)
