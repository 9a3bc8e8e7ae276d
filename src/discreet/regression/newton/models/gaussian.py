"""Numbers with normal errors of unknown variance: r = x·w − y, clipped, and r²; the curvature is xx'."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._typing import FloatArray
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import Extremes, InSql, Link, ResponseModel
from discreet.regression.newton.moments import clipped_moments

if TYPE_CHECKING:
    from discreet.regression.newton.posterior import NormalLaw


class GaussianModel(ResponseModel):
    """y = x·w + N(0, σ²), y scaled to [−1, 1] by its bounds. Residuals are clipped to the round's
    ``clip``."""

    family = "gaussian"
    link_bits = 13
    residual_bits = 13
    weight_bits = 0
    squares = True

    @classmethod
    def of(cls, design: Design) -> GaussianModel:
        return cls()

    def widest(self, design: Design) -> float:
        """Predictors of evenly spread records then have a deviation of 1: no mean response has more."""
        return 1.0 / math.sqrt(max(float(np.trace(design.second_moments)) - 1.0, 1 / 3))

    def most_reach(self) -> int:
        return 64 << self.link_bits

    def limit(self, clip: float | None) -> int:
        return 0 if clip is None else max(1, math.ceil(clip * 2**self.residual_bits))

    def link(self, design: Design, point: FloatArray, clip: float | None = None) -> Link:
        found = super().link(design, point, clip)
        farthest = found.reach + 2**self.residual_bits  # |x·w| + |y|
        return replace(found, clip=min(found.clip or farthest, farthest))

    def clip_of(self, link: Link) -> float:
        return float(link.clip / 2**self.residual_bits)

    def clip(self, found: NormalLaw, cost: float) -> float | None:
        """Where a coefficient's variance, of sampling and noise, is least; no tighter than two deviations.

        The variance of residuals is taken at an upper end: what is not known of σ² and of the point is in it.
        """
        variance = math.exp(found.log_sigma[2]) + found.unsure
        typical = found.moments.records * float(np.trace(found.moments.mean)) / len(found.mean)
        ratios = np.linspace(2.0, 6.0, 41)
        clips = ratios * math.sqrt(variance)
        inside, moment, _ = zip(
            *(clipped_moments(np.array(variance), float(clip)) for clip in clips), strict=True
        )
        worth = (np.array(moment) * typical + cost * clips**2) / np.array(inside) ** 2
        return float(clips[int(np.argmin(worth))])

    def extremes(self, link: Link) -> Extremes:
        clip = np.array([float(link.clip)])
        return Extremes(clip**2, np.ones(1), clip**4)

    def residuals(self, link: Link, predictor: FloatArray, response: Any) -> FloatArray:
        raw = predictor - (response - 2.0**self.residual_bits)
        return np.asarray(np.clip(raw, -link.clip, link.clip))

    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        return None

    def sql_columns(self, link: Link, divide: Any) -> InSql:
        raw = f"(e0 - y + {2**self.residual_bits})"
        return InSql((f"least(greatest({raw}, {-link.clip}), {link.clip})",), ("1",))
