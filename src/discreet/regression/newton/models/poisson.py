"""Counts, log link, kept within a public window around the rate: r = E clip(Y) − clip(y), 0 on average at the
truth."""

from __future__ import annotations

import math
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import betainc, gammainc, gammaincc, gammaln

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import (
    EXCESSES,
    UNKNOWN_EXCESS,
    Extremes,
    InSql,
    Link,
    ResponseModel,
    indexed,
)
from discreet.regression.newton.moments import ResponseCurve

if TYPE_CHECKING:
    from discreet.regression.newton.posterior import NormalLaw


class PoissonModel(ResponseModel):
    """y ~ Poisson(e^{x·w}), counted up to ``most``, in each round within ``clip`` of the rate at its point.

    With the window l ≤ Y ≤ h of a record's predictor, the mean of min(max(Y, l), h) has the slope
    λ·P(l ≤ Y < h) in the predictor: the weight of a record. The residual is 0 on average at the truth, for
    every window.
    """

    family = "poisson"
    curved = steep = squares = True
    deviation = 2.0
    level_deviation = 3.0

    def __init__(self, most: int) -> None:
        if not 2 <= most <= 2048:
            raise InvalidInput(
                f"counts up to {most}: declare a bound from 2 to 2048 for a Poisson regression"
            )
        self.most = most
        self.residual_bits = 16 - max(0, most.bit_length() - 4)  # type: ignore[misc]
        self.weight_bits = 12 - max(0, most.bit_length() - 2)  # type: ignore[misc]

    @classmethod
    def of(cls, design: Design) -> PoissonModel:
        return cls(design.response.coder.size - 1)

    def start(self, design: Design) -> FloatArray:
        """A rate of half the bound, so that no residual is above it."""
        point = np.zeros(design.d)
        if not design.columns[0].factors:
            point[0] = math.log(self.most / 2)
        return point

    def limit(self, clip: float | None) -> int:
        return self.most if clip is None else min(self.most, max(1, math.ceil(clip)))

    def clip(self, found: NormalLaw, cost: float) -> float | None:
        """Where a coefficient's error, of sampling, noise and clipping, is least, with room for unsure rates.

        Clipping moves coefficients where counts scatter more than Poisson ones, in one direction of all: by
        as much as they do for sure, or may while little is known of it.
        """
        moments = found.moments
        centre, variance = moments.predictors(found.mean[None, :])
        typical = moments.records * float(np.trace(moments.mean)) / len(found.mean)
        rate = math.exp(min(float(centre[0] + (variance[0] + found.unsure) / 2), math.log(self.most)))
        least = min(self.most, 1 + math.ceil(2 * math.sqrt(found.unsure) * rate))
        windows = np.unique(np.geomspace(least, self.most, 24).astype(int))
        worth = []
        more, unsure = found.excess
        excess = max(more - unsure / 2, min(unsure**2 / UNKNOWN_EXCESS, UNKNOWN_EXCESS))
        for window in windows.tolist():
            _, slope, scatter = self.curve(window).expected(centre, variance + found.unsure)[:, 0, 0]
            moved = np.interp(excess, EXCESSES, self.excesses(window, centre, variance + found.unsure)[0])
            missed = moments.records * typical * moved / len(found.mean)
            worth.append((scatter * typical + cost * (window + 0.5) ** 2 + missed) / max(slope, 1e-9) ** 2)
        return float(windows[int(np.argmin(worth))])

    def most_reach(self) -> int:
        return math.floor((math.log(self.most) + 4) * (1 << self.link_bits))

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        mean, weight, _, low, high = windowed(predictors, limit, self.most)
        return np.rint(mean * 2**self.residual_bits), np.rint(weight * 2**self.weight_bits), low, high

    def extremes(self, link: Link) -> Extremes:
        mean, weight, low, high = link.tables
        unit = 2.0**self.residual_bits
        residual = np.concatenate([mean - low * unit, high * unit - mean])
        return Extremes(residual**2, np.tile(weight**2, 2), residual**4)

    def residuals(self, link: Link, predictor: FloatArray, response: Any) -> FloatArray:
        mean, _, low, high = (indexed(table, link, predictor) for table in link.tables)
        return np.asarray(mean - np.clip(response, low, high) * 2.0**self.residual_bits)

    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        return indexed(link.tables[1], link, predictor)

    def sql_columns(self, link: Link, divide: Any) -> InSql:
        return InSql((f"(u0_0 - least(greatest(y, u0_2), u0_3) * {2**self.residual_bits})",), ("u0_1",))

    def curve(self, clip: float) -> ResponseCurve:
        return _curve(round(clip), self.most)

    def excesses(
        self, clip: float, centre: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """As if counts were negative binomial ones, with a variance of 1 + excess times their mean."""
        grid, first, second = _tails(self.most)
        # By the whole grid: windows jump from rate to rate, and a few nodes would depend on where.
        scale = max(math.sqrt(variance[0]), (grid[1] - grid[0]) / 4)
        chances = np.exp(-(((grid - np.clip(centre[0], grid[0], grid[-1])) / scale) ** 2) / 2)
        chances /= chances.sum()
        at, middle = np.arange(len(grid)), np.minimum(np.rint(np.exp(grid)), self.most)
        low = np.maximum(middle - clip, 0).astype(np.intp)
        high = np.minimum(middle + clip, self.most).astype(np.intp)
        mean = low + first[:, at, high] - first[:, at, low]
        square = low**2 + second[:, at, high] - second[:, at, low]
        residual = square - 2 * mean[0] * mean + mean[0] ** 2
        moved, scatter = (mean - mean[0]) ** 2 @ chances, residual @ chances
        return moved, np.maximum.accumulate(scatter) / max(float(scatter[0]), 1e-12)


def windowed(
    predictors: FloatArray, window: int, most: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Mean, slope and variance of min(max(Y, low), high) by predictor, and the ends of the window.

    Of min(Y, q): the mean λP(Y < q) + qP(Y > q), the slope λP(Y < q), the second moment λ²P(Y < q − 1) +
    λP(Y < q) + q²P(Y > q); a function of the clipped count is that at high less that at low, plus low's.
    """
    rate = np.exp(predictors)
    middle = np.minimum(np.rint(rate), most)
    low, high = np.maximum(middle - window, 0.0), np.minimum(middle + window, most)

    def parts(q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        below = np.where(q > 0, gammaincc(np.maximum(q, 1.0), rate), 0.0)
        equal = np.exp(q * predictors - rate - gammaln(q + 1))
        slope, above = rate * below, 1 - below - equal
        return slope + q * above, slope, rate**2 * below - rate * q * equal + slope + q**2 * above

    (mean, slope, square), (lower, start, lower_square) = parts(high), parts(low)
    mean = mean - lower + low
    return mean, slope - start, np.maximum(square - lower_square + low**2 - mean**2, 0.0), low, high


@lru_cache(maxsize=4)
def _tails(most: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """A grid of predictors; and Σ P(Y > k) and Σ (2k + 1)·P(Y > k) over k < q, by excess, predictor and q.

    E min(max(Y, l), h) is l plus the difference of the first sums at h and l, and its square's mean l² plus
    that of the second.
    """
    grid = np.linspace(-6.0, math.log(most) + 1, 129)
    rate, k = np.exp(grid)[:, None], np.arange(most)
    beyond = np.array(
        [betainc(k + 1, rate / e, e / (1 + e)) if e else gammainc(k + 1, rate) for e in EXCESSES]
    )
    first, second = (np.cumsum(beyond * weight, axis=2) for weight in (1, 2 * k + 1))
    padded = [(0, 0), (0, 0), (1, 0)]
    return grid, np.pad(first, padded), np.pad(second, padded)


@cache
def _curve(window: int, most: int) -> ResponseCurve:
    grid = np.linspace(-math.log(most) - 4, math.log(most) + 4, 801)
    _, slope, scatter, _, _ = windowed(grid, window, most)
    return ResponseCurve.of(grid, np.maximum(slope, 1e-6), np.maximum(scatter, 1e-6))
