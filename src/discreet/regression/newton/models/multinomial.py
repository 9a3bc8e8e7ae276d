"""Several levels, softmax with the first as reference: r_k = p_k − y_k, curvature (diag p − pp') ⊗ xx'.

p_k = ⌊2¹⁶ e_k / Σe⌋ from a table of exponentials, whole numbers all the way. For the curvature its upper ten
bits q are used, and V = 2¹⁰ diag(q) − qq' is positive semidefinite in whole numbers: V's rows have
Σ_l V_kl = q_k (2¹⁰ − Σ q) ≥ 0 with all entries off the diagonal negative.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import Extremes, InSql, Link, ResponseModel, indexed

_TABLE_BITS = 30
_SHARE_BITS = 10


class MultinomialModel(ResponseModel):
    """P(level k) ∝ e^{x·w_k}, w₀ = 0."""

    family = "multinomial"
    descends = True
    weight_bits = 2 * _SHARE_BITS

    def __init__(self, classes: int) -> None:
        self.outputs = classes - 1

    @classmethod
    def of(cls, design: Design) -> MultinomialModel:
        return cls(design.response.coder.size)

    def most_reach(self) -> int:
        return 8 * (1 << self.link_bits)

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        # e^{±8} in whole numbers of at most 30 bits; the reference level has e⁰.
        return (np.rint(np.exp(predictors - 8) * 2**_TABLE_BITS),)

    @property
    def reference(self) -> int:
        return round(math.exp(-8.0) * (1 << _TABLE_BITS))

    def extremes(self, link: Link) -> Extremes:
        """Σ_k (p_k − y_k)² ≤ 2, and ‖diag q − qq'‖ ≤ ½ for shares q with Σq ≤ 1.

        The square of the latter is s₂ − 2s₃ + s₂² with s_j = Σq^j, and s₃ ≥ s₂² by Cauchy–Schwarz: at most
        s₂ − s₂² ≤ ¼.
        """
        residual, weight = 2.0 ** (2 * self.residual_bits + 1), 4.0 ** (self.weight_bits - 1)
        return Extremes(np.array([residual]), np.array([weight]), np.zeros(1))

    def shares(self, link: Link, predictors: FloatArray) -> FloatArray:
        """⌊2¹⁶ e_k/Σe⌋ of the classes after the first."""
        powers = indexed(link.tables[0], link, predictors).astype(np.int64)
        total = powers.sum(axis=1) + self.reference
        return np.asarray((powers << self.residual_bits) // total[:, None], dtype=np.float64)

    def residuals(self, link: Link, predictor: FloatArray, response: npt.NDArray[np.int64]) -> FloatArray:
        is_class = response[:, None] == np.arange(1, self.outputs + 1)[None, :]
        return np.asarray(self.shares(link, predictor) - is_class * 2.0**self.residual_bits)

    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        """q_k, from which V is made in pairs by the sums."""
        cut = 2.0 ** (self.residual_bits - _SHARE_BITS)
        return np.floor(self.shares(link, predictor) / cut)

    def pair(self, shares: FloatArray, k: int, other: int) -> FloatArray:
        own = shares[:, k] * 2.0**_SHARE_BITS if k == other else 0.0
        return np.asarray(own - shares[:, k] * shares[:, other], dtype=np.float64)

    def sql_columns(self, link: Link, divide: Any) -> InSql:
        outputs = range(self.outputs)
        total = " + ".join([f"u{k}_0" for k in outputs] + [str(self.reference)])
        shares = ", ".join(
            f"{divide(f'(u{k}_0 * {2**self.residual_bits})', 'total')} AS p{k}" for k in outputs
        )
        cut = 2 ** (self.residual_bits - _SHARE_BITS)
        tops = ", ".join(f"{divide(f'p{k}', cut)} AS q{k}" for k in outputs)
        residuals = tuple(
            f"(p{k} - CASE WHEN y = {k + 1} THEN {2**self.residual_bits} ELSE 0 END)" for k in outputs
        )
        weights = tuple(
            f"(q{k} * {2**_SHARE_BITS} - q{k} * q{k})" if k == other else f"(-q{k} * q{other})"
            for k in outputs
            for other in range(k, self.outputs)
        )
        return InSql(residuals, weights, (f"{total} AS total", shares, tops))

    def guess(self, design: Design) -> FloatArray:
        share = 1 / (self.outputs + 1)
        whole = np.kron(share * np.eye(self.outputs) - share**2, design.second_moments)
        return np.asarray(whole, dtype=np.float64)

    def typical_weight(self) -> float:
        return 0.8 / (self.outputs + 1)

    def most_weight(self) -> float:
        return 0.5
