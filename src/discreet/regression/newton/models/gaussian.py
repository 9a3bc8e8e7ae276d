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
    squares = normal = True
    deviation = 1.0  # no mean response is further from the middle of its bounds
    level_deviation = 3**-0.5  # as if spread evenly over them

    @classmethod
    def of(cls, design: Design) -> GaussianModel:
        return cls()

    def most_reach(self) -> int:
        return 64 << self.link_bits

    def limit(self, clip: float | None) -> int:
        return 0 if clip is None else max(1, math.ceil(clip * 2**self.residual_bits))

    def link(self, design: Design, point: FloatArray, clip: float | None = None) -> Link:
        found = super().link(design, point, clip)
        farthest = found.reach + 2**self.residual_bits  # |x·w| + |y|
        return replace(found, clip=min(found.clip or farthest, farthest))

    def clip_of(self, link: Link) -> float:
        """Infinite where nothing is: no residual is beyond the reach of predictor and response together."""
        unit = 2**self.residual_bits
        return math.inf if link.clip >= link.reach + unit else link.clip / unit

    def clip(self, found: NormalLaw, cost: float) -> float | None:
        """Where a coefficient's error, of sampling, noise and clipping, is least; at least two deviations.

        The variance of residuals is taken at an upper end: what is not known of σ² and of the point is in it.
        Clipping moves coefficients where errors are not normal: a quarter of what it takes from residuals
        with double exponential tails counts as an error, in one direction of all.
        """
        variance = math.exp(found.log_sigma[2]) + found.unsure
        records = found.moments.records
        typical = records * float(np.trace(found.moments.mean)) / len(found.mean)
        ratios = np.linspace(2.0, 6.0, 41)
        clips = ratios * math.sqrt(variance)
        inside, moment, _ = zip(
            *(clipped_moments(np.array(variance), float(clip)) for clip in clips), strict=True
        )
        taken = np.exp(-math.sqrt(2) * ratios) * math.sqrt(variance / 2)
        missed = records * typical * (taken / 4) ** 2 / len(found.mean)
        worth = (np.array(moment) * typical + cost * clips**2 + missed) / np.array(inside) ** 2
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
