"""What a model of the response supplies: integer residuals and weights of a record, and their bounds."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.regression.newton.design import Design
from discreet.regression.newton.moments import ResponseCurve

if TYPE_CHECKING:
    from discreet.regression.newton.posterior import NormalLaw

POINT_BITS = 16
"""Coefficients of a round's point are multiples of 2⁻¹⁶ on the scaled columns."""


EXCESSES = np.array([0.0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4])
"""Variances of a response over that of the model, less 1."""
UNKNOWN_EXCESS = 0.3
"""Before anything is seen it is as likely as not to be nearer to 0 than this: a Cauchy law."""
_FARTHEST = 2.0**28
"""No coefficient of a point is larger, so that predictors stay below 2⁵³."""


@dataclass(frozen=True)
class Link:
    """One round's public integers: the point, the grid of its linear predictor, and tables over that grid.

    The predictor of a record is e = ⌊(x·w)/2^shift + ½⌋, moved into [−reach, reach]; ``tables`` have an entry
    for each of these 2·reach + 1 values. ``clip`` bounds the residual.
    """

    point: tuple[int, ...]
    shift: int
    reach: int
    clip: int = 0
    tables: tuple[FloatArray, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Extremes:
    """Squares that one record can reach at once, entry by entry: of residual, weight and squared residual.

    In the integers of the sums, for a row of length 1: the entries cover every predictor and response.
    """

    residual: FloatArray
    weight: FloatArray
    square: FloatArray


@dataclass(frozen=True)
class InSql:
    """Expressions of whole numbers; ``steps`` are columns to be added first, in order."""

    residuals: tuple[str, ...]
    weights: tuple[str, ...]
    steps: tuple[str, ...] = ()

    @property
    def square(self) -> str:
        return f"({self.residuals[0]}) * ({self.residuals[0]})"

    def weight(self, k: int, other: int) -> str:
        """The weight of a pair of outputs, k ≤ other, in the order of an upper triangle."""
        outputs = len(self.residuals)
        return self.weights[k * outputs - k * (k - 1) // 2 + other - k]


class ResponseModel(ABC):
    """A record's contribution at a point: g = r·x, H = v·xx' and perhaps r², all of them whole numbers."""

    family: ClassVar[str]
    link_bits: ClassVar[int] = 12
    """The predictor is known in steps of 2^−link_bits."""
    residual_bits: ClassVar[int] = 16
    weight_bits: ClassVar[int] = 12
    squares: ClassVar[bool] = False
    """Whether the sum of squared residuals is wanted."""
    normal: ClassVar[bool] = False
    """Whether errors are normal, with an unknown variance σ²."""
    outputs: int = 1
    """Coefficient vectors: one less than the classes of a multinomial response, else one."""

    @classmethod
    @abstractmethod
    def of(cls, design: Design) -> ResponseModel: ...

    def link(self, design: Design, point: FloatArray, clip: float | None = None) -> Link:
        """The public integers of a round at a point, which is rounded to the grid."""
        whole = np.clip(np.rint(np.asarray(point, dtype=np.float64) * 2**POINT_BITS), -_FARTHEST, _FARTHEST)
        shift = design.bits + POINT_BITS - self.link_bits
        blocks = np.abs(whole).reshape(self.outputs, design.d)
        by_entry = float((blocks @ design.reach).max())
        by_length = design.norm * float(np.sqrt((blocks**2).sum(axis=1)).max())
        reach = max(1, math.floor(min(by_entry, by_length) * (1 + 1e-12) / 2**shift + 0.5) + 1)
        reach = min(reach, self.most_reach())
        values = np.arange(-reach, reach + 1) / 2**self.link_bits
        limit = self.limit(clip)
        return Link(tuple(int(w) for w in whole), shift, reach, limit, self.tables(values, limit))

    @staticmethod
    def at(link: Link) -> FloatArray:
        """The point, exactly as rounded."""
        return np.asarray(np.array(link.point, dtype=np.float64) / 2**POINT_BITS)

    def most_reach(self) -> int:
        """The predictor is cut off here, in steps."""
        return 12 << self.link_bits

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        """Integers (as doubles) by predictor."""
        return ()

    def limit(self, clip: float | None) -> int:
        """Where residuals or responses are cut off in a round, as a whole number; 0 where they are not."""
        return 0

    def clip(self, found: NormalLaw, cost: float) -> float | None:
        """Where to cut off in the next round, from what was released so far.

        ``cost`` is the variance of the noise on a gradient whose residuals are at most 1.
        """
        return None

    def clip_of(self, link: Link) -> float:
        """Where a round cut off, in the units of residuals."""
        return float(link.clip)

    def start(self, design: Design) -> FloatArray:
        """Where the first round looks."""
        return np.zeros(design.d * self.outputs)

    descends: ClassVar[bool] = False
    """Whether the curvature has a bound, :meth:`most_weight`, so that steps of a fixed size are safe."""

    @abstractmethod
    def extremes(self, link: Link) -> Extremes:
        """What one record can reach; every case is listed."""

    @abstractmethod
    def residuals(self, link: Link, predictor: FloatArray, response: npt.NDArray[np.int64]) -> FloatArray:
        """Whole numbers r by record, so that the gradient of the loss is r·x/2^residual_bits."""

    @abstractmethod
    def weights(self, link: Link, predictor: FloatArray) -> FloatArray | None:
        """Whole numbers v by record; None where all are 2^weight_bits."""

    @abstractmethod
    def sql_columns(self, link: Link, divide: Callable[[str, int | str], str]) -> InSql:
        """Residuals and weights as expressions of the predictors e0, e1, …, the response y and the table
        entries u0_0 (predictor 0, table 0), …."""

    curved: ClassVar[bool] = False
    """Whether the curvature changes with the point as :meth:`curve` tells."""

    steep: ClassVar[bool] = False
    """Whether weights change so much on the way between points that what normal rows miss there is more than
    the noise on a curvature: then far coefficients are the less sure, the farther."""

    def curve(self, clip: float) -> ResponseCurve:
        """The expected response by predictor, of curved models; a straight line else."""
        line = np.array([-64.0, 64.0])
        return ResponseCurve.of(line, np.ones(2), np.ones(2))

    def excesses(
        self, clip: float, centre: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Of responses that scatter more than the model has it, by each of :data:`EXCESSES`: how far their
        mean is from the model's, squared, and their mean squared residual over the model's. For records whose
        predictors are normal.
        """
        return np.zeros(len(EXCESSES)), 1 + EXCESSES

    def guess(self, design: Design) -> FloatArray:
        """The curvature per record, over its weight if that varies, for rows spread over the bounds."""
        return design.second_moments

    deviation: ClassVar[float] = 3.0
    """Of the predictors of all records, at the most, where no prior is declared."""
    level_deviation: ClassVar[float] = 5.0
    """Of an intercept where no prior is declared."""

    def most_weight(self) -> float:
        """The largest curvature of one record with a row of length 1."""
        return 1.0

    def typical_weight(self) -> float:
        """A guess of the mean weight where nothing is known yet."""
        return 1.0


def indexed(table: FloatArray, link: Link, predictor: FloatArray) -> FloatArray:
    return np.asarray(table[(predictor + link.reach).astype(np.intp)], dtype=np.float64)
