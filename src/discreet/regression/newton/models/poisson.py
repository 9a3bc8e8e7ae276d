"""Counts, log link: r = λ − y and v = λ, with counts and rates cut off at the declared bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import Extremes, InSql, Link, Model, chosen, indexed


class Poisson(Model):
    """y ~ Poisson(e^{x·w}), counted up to ``most``; the predictor is cut off at log(most)."""

    family = "poisson"
    curved = True

    def __init__(self, most: int) -> None:
        self.most = most
        # Rates up to ``most`` in 28 bits, whatever the bound: the sums stay within 53 bits.
        self.residual_bits = 16 - max(0, most.bit_length() - 4)  # type: ignore[misc]
        self.weight_bits = 12 - max(0, most.bit_length() - 2)  # type: ignore[misc]
        if self.weight_bits < 2:
            raise InvalidInput(
                f"counts up to {most} are too large for a Poisson regression; declare at most 2048"
            )

    @classmethod
    def of(cls, design: Design) -> Poisson:
        return cls(design.response.coder.size - 1)

    def most_reach(self) -> int:
        return math.floor(max(math.log(self.most), 12.0) * 2**self.link_bits)

    def tables(self, predictors: FloatArray) -> tuple[FloatArray, ...]:
        rate = np.minimum(np.exp(np.minimum(predictors, 50.0)), self.most)
        return np.rint(rate * 2**self.residual_bits), np.rint(rate * 2**self.weight_bits)

    def extremes(self, link: Link) -> Extremes:
        rate, weight = link.tables
        residual = chosen([rate, self.most * 2.0**self.residual_bits - rate])
        return Extremes(residual**2, np.tile(weight**2, 2), np.zeros(1))

    def residuals(self, link: Link, predictor: FloatArray, response: Any) -> FloatArray:
        return indexed(link.tables[0], link, predictor) - response * 2.0**self.residual_bits

    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        return indexed(link.tables[1], link, predictor)

    def sql_columns(self, link: Link, divide: Any) -> InSql:
        return InSql((f"(u0_0 - y * {2**self.residual_bits})",), ("u0_1",))

    def curving(self, centre: float, variance: float) -> tuple[float, float, float]:
        rate = math.exp(min(centre + variance / 2, math.log(self.most)))
        return rate, rate, rate
