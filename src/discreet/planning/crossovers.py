"""From which n on LSHist beats EHD: computed exactly, beside the bounds of paper A."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache

from discreet._typing import EpsilonLike
from discreet.declarations import as_epsilon, as_prior
from discreet.mechanisms.hellinger.exponential import EHD
from discreet.mechanisms.noisy_counts import LSHist
from discreet.planning.expected_error import Setting

_CROSSOVER_MAX_N = 1000


@dataclass(frozen=True)
class Crossover:
    """From which n on LSHist beats EHD, as computed, and the bounds of paper A, Corollaries 4.5.1 to 4.5.3.

    The bounds are for "as accurate as one step", k = 1, and constant 1 for the O(·) of the corollaries.
    """

    first: int | None
    """Smallest n at which LSHist has the smaller expected error."""
    above: int | None
    """Smallest n from which on it has; n = 1 can be an exception of its own."""
    bound_lshist_better_above: float
    bound_ehd_better_below: float
    bound_good_set_above: float

    def __str__(self) -> str:
        found = f"none up to {_CROSSOVER_MAX_N}" if self.above is None else f"{self.above}"
        return (
            f"LSHist beats EHD from n = {found} on (computed); bounds of the paper: above "
            f"{self.bound_lshist_better_above:.4g} (Cor. 4.5.1) or {self.bound_good_set_above:.4g} (4.5.3), "
            f"EHD better below {self.bound_ehd_better_below:.4g} (4.5.2)"
        )


def crossover(prior: Sequence[float], epsilon: EpsilonLike) -> Crossover:
    """From which n on LSHist has a smaller expected error than EHD, two levels, by exact computation."""
    parameters, budget = as_prior(prior, 2), as_epsilon(epsilon)
    return _crossover(parameters, budget)


@lru_cache(maxsize=64)
def _crossover(prior: tuple[float, ...], epsilon: Fraction) -> Crossover:
    @cache
    def better(n: int) -> bool:
        setting = Setting(prior, n, only_expected=True)
        lshist, ehd = (
            setting._exact(cls(prior=prior, n=n, epsilon=epsilon))["expected"] for cls in (LSHist, EHD)
        )
        return lshist < ehd

    high = 4
    while not better(high) and high < _CROSSOVER_MAX_N:
        high = min(2 * high, _CROSSOVER_MAX_N)
    above = None
    if better(high):
        low = 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if better(middle) else (middle, high)
        above = 1 if high == 2 and better(1) else high
    first = next((n for n in range(1, (above or 1) + 1) if better(n)), None)
    q = math.exp(-float(epsilon))
    good = math.exp(float(epsilon) / (2 * math.sqrt(1 - math.pi / 4)))
    return Crossover(
        first,
        above,
        bound_lshist_better_above=3 / (q * (1 - q)),
        bound_ehd_better_below=(2 * q + 1) / (1 - 0.5 * (q + q * q)),
        bound_good_set_above=3 * good / (1 - q),
    )
