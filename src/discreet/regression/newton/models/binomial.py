"""Two levels, logit link: r = p − y and v = p(1 − p), from one table; a large residual has a small weight."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.special import expit

from discreet._typing import FloatArray
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import Extremes, InSql, Link, ResponseModel, indexed
from discreet.regression.newton.moments import ResponseCurve

_GRID = np.linspace(-16, 16, 641)
_CURVE = ResponseCurve.of(_GRID, expit(_GRID) * expit(-_GRID), expit(_GRID) * expit(-_GRID))


@cache
def _tables() -> tuple[FloatArray, FloatArray]:
    """For all predictors there are: the many steps of a descent need parts of them."""
    most = 12 << ResponseModel.link_bits
    chance = expit(np.arange(-most, most + 1) / 2**ResponseModel.link_bits)
    whole = chance * 2**ResponseModel.residual_bits, chance * (1 - chance) * 2**ResponseModel.weight_bits
    return np.rint(whole[0]), np.rint(whole[1])


class BinomialModel(ResponseModel):
    """P(second level) = 1/(1 + e^{−x·w})."""

    family = "binomial"
    descends = True
    curved = True

    @classmethod
    def of(cls, design: Design) -> BinomialModel:
        return cls()

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        every = _tables()
        outside = (len(every[0]) - len(predictors)) // 2
        return tuple(table[outside : len(table) - outside] for table in every)

    def extremes(self, link: Link) -> Extremes:
        chance, weight = link.tables
        residual = np.concatenate([chance, 2**self.residual_bits - chance])
        return Extremes(residual**2, np.tile(weight**2, 2), np.zeros(1))

    def residuals(self, link: Link, predictor: FloatArray, response: Any) -> FloatArray:
        return np.asarray(indexed(link.tables[0], link, predictor) - response * 2.0**self.residual_bits)

    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        return indexed(link.tables[1], link, predictor)

    def sql_columns(self, link: Link, divide: Any) -> InSql:
        return InSql((f"(u0_0 - y * {2**self.residual_bits})",), ("u0_1",))

    def curve(self, clip: float) -> ResponseCurve:
        return _CURVE

    def typical_weight(self) -> float:
        return 0.2

    def most_weight(self) -> float:
        return 0.25
