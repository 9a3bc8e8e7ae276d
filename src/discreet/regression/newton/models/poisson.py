"""Counts, log link, cut off at a public number q: r = E min(Y, q) − min(y, q), which is 0 on average at the
truth."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gammaincc

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import Extremes, InSql, Link, ResponseModel, chosen, indexed

if TYPE_CHECKING:
    from discreet.regression.newton.posterior import Posterior


class PoissonModel(ResponseModel):
    """y ~ Poisson(e^{x·w}), counted up to ``most`` and in later rounds up to q, where hardly any record is.

    E min(Y, q) = Σ_{k<q} P(Y > k) has the slope λ·P(Y < q) in the predictor: the weight of a record.
    """

    family = "poisson"
    curved = True

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
        return self.most if clip is None else min(self.most, max(2, math.ceil(clip)))

    def clip(self, found: Posterior) -> float | None:
        """Above the counts of all but records with rates far above most."""
        mean = found.mean
        moments = found.curvature / max(found.curvature[0, 0], 1e-12)
        spread = float(mean @ moments @ mean) - float(moments[0] @ mean) ** 2
        unsure = float(np.sum(moments * found.covariance))
        rate = math.exp(min(float(moments[0] @ mean) + 2 * math.sqrt(max(spread, 0) + unsure), 8.0))
        return rate + 4 * math.sqrt(rate) + 2

    def most_reach(self) -> int:
        return math.floor((math.log(self.most) + 4) * (1 << self.link_bits))

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        rate = np.exp(predictors)
        below = gammaincc(limit, rate)  # P(Y < q)
        mean = rate * below + limit * (1 - gammaincc(limit + 1, rate))
        weight = rate * below
        return np.rint(mean * 2**self.residual_bits), np.rint(weight * 2**self.weight_bits)

    def extremes(self, link: Link) -> Extremes:
        mean, weight = link.tables
        residual = chosen([mean, link.clip * 2.0**self.residual_bits - mean])
        return Extremes(residual**2, np.tile(weight**2, 2), np.zeros(1))

    def residuals(self, link: Link, predictor: FloatArray, response: Any) -> FloatArray:
        kept = np.minimum(response, link.clip)
        return np.asarray(indexed(link.tables[0], link, predictor) - kept * 2.0**self.residual_bits)

    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        return indexed(link.tables[1], link, predictor)

    def sql_columns(self, link: Link, divide: Any) -> InSql:
        return InSql((f"(u0_0 - least(y, {link.clip}) * {2**self.residual_bits})",), ("u0_1",))

    def curving(self, centre: float, variance: float) -> tuple[float, float, float]:
        rate = math.exp(min(centre + variance / 2, math.log(2 * self.most)))
        return rate, rate, rate
