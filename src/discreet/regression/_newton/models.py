"""The models: what one record adds to the sums at a public point, and bounds on it.

A record adds g = r·x, H = v·xx' and, for some models, r² to the sums; all are whole numbers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import erfinv, expit, gammaincc, gammaln, logit

from discreet._text import nearest
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError
from discreet.regression._newton.curvature import clipped_moments
from discreet.regression._newton.design import RESPONSE_BITS, WEIGHT_BITS, Design, shorten_rows

if TYPE_CHECKING:
    from discreet.regression._newton.posterior import NormalApproximation

POINT_BITS = 16
"""At the points of rounds, coefficients of scaled columns are multiples of 2⁻¹⁶."""
MIXING_BITS = 12
"""Matrices by which rows are multiplied have entries that are multiples of 2⁻¹²."""
MOST_MIXED = 30
"""The most columns for which rows are multiplied by a matrix."""
_MOST_CONDITION = 1e7
OUTER_BITS = 12
"""The number of bits of a squared residual in the sum Σ residual²·xx'."""
_FARTHEST = 2.0**28
"""The largest coefficient of a point, as a whole number, so that predictors stay below 2⁵³."""
_TABLE_BITS, _SHARE_BITS = 30, 10
MISFIT = 0.05
"""The part of the response's variance, given the columns, that the model may fail to explain."""
_SIGNAL = 100
_CELLS = 200
"""The number of intervals of the predictor in :meth:`BinomialModel.pairs`."""
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Link:
    """The public integers of a round: the point, the grid of its linear predictor, and tables over the grid.

    The predictor of a record is e = ⌊(x·w)/2^shift + ½⌋, clipped to [−reach, reach]; ``tables`` have an entry
    for each of these 2·reach + 1 values. ``clip`` bounds the residual.
    """

    point: tuple[int, ...]
    shift: int
    reach: int
    clip: int = 0
    tables: tuple[FloatArray, ...] = field(default=(), repr=False)
    outer_shift: int | None = None
    """The sum Σ residual²·xx' uses residual²/2^outer_shift, rounded; None if it is not taken. If it is, the
    curvature of a Gaussian model is that of the records whose residuals are not clipped."""
    mixing: tuple[int, ...] = ()
    """The square matrix M by which a record's row x becomes Mx/2^MIXING_BITS; empty if rows are unchanged. If
    the result is longer than the largest norm it is shortened, and its residual by the same factor."""

    @property
    def at(self) -> FloatArray:
        """The point, rounded to its grid."""
        return np.asarray(np.array(self.point, dtype=np.float64) / 2**POINT_BITS)

    def with_mixing(self, matrix: FloatArray, design: Design) -> Link:
        """Return this round with rows multiplied by ``matrix``, or unchanged if entries would be too large.

        Entries of the new rows are at most 2²⁴, so that squared lengths of 30 columns are below 2⁵³.
        """
        whole = np.rint(np.clip(matrix, -_FARTHEST, _FARTHEST) * 2.0**MIXING_BITS)
        wide = float((np.abs(whole) @ design.reach).max()) > 2.0 ** (24 + MIXING_BITS)
        if wide or design.d > MOST_MIXED or np.linalg.cond(whole) > _MOST_CONDITION:
            return self
        return replace(self, mixing=tuple(whole.astype(np.int64).ravel().tolist()))

    def matrix(self, size: int) -> FloatArray:
        """Return the matrix by which rows are multiplied, in real units; the identity if there is none."""
        if not self.mixing:
            return np.eye(size)
        return np.asarray(np.array(self.mixing, dtype=np.float64).reshape(size, size) / 2**MIXING_BITS)

    def mix(self, rows: FloatArray, residuals: FloatArray, norm: int) -> tuple[FloatArray, FloatArray]:
        """Return rows multiplied by ``mixing`` and shortened, and their residuals, as whole numbers."""
        if not self.mixing:
            return rows, residuals
        matrix = np.array(self.mixing, dtype=np.float64).reshape(rows.shape[1], -1)
        residuals = residuals.copy()
        return shorten_rows(np.trunc(rows @ (matrix.T / 2.0**MIXING_BITS)), norm, residuals), residuals

    def with_outer(self, most: int, bits: int = OUTER_BITS) -> Link:
        """Return this round with Σ residual²·xx' added, for residuals up to ``most``, in ``bits`` bits."""
        return replace(self, outer_shift=max(0, 2 * most.bit_length() - bits))

    def looked_up(self, predictor: FloatArray, *tables: int) -> list[FloatArray]:
        """Look up each predictor in the tables with these positions."""
        at = (predictor + self.reach).astype(np.intp)
        return [self.tables[table][at] for table in tables]


class ResponseModel(ABC):
    """The model of a response. Predictors and residuals have a column for each of the ``outputs``."""

    family: ClassVar[str]
    ratio: ClassVar[str | None] = None
    """The name of e to the power of a coefficient, such as odds ratio."""
    link_bits: ClassVar[int] = 12
    """The predictor is rounded to steps of 2^−link_bits."""
    residual_bits: int = 16
    weight_bits: int = 12
    outer_bits: int = OUTER_BITS
    rounds_squares: bool = False
    """Whether squared residuals are rounded, as those of weighted records are."""
    squares: ClassVar[bool] = False
    """Whether the sum of squared residuals is released."""
    normal: ClassVar[bool] = False
    """Whether errors are normal, with an unknown variance σ²."""
    descends: ClassVar[bool] = False
    """Whether the curvature has a bound, ``most_weight``, so that steps of a fixed size are safe."""
    most_weight: ClassVar[float] = 1.0
    """The largest curvature of one record with a row of length 1."""
    typical_weight: float = 1.0
    """The mean weight of a record that is assumed before the first round."""
    deviation: ClassVar[float] = 6.0
    """The default prior standard deviation of the coefficient of a column between −1 and 1; for Gaussian
    models, in units of the standard deviation of the response."""
    level_deviation: ClassVar[float] = 6.0
    """The default prior standard deviation of an intercept."""
    farthest: float = 12.0
    """The largest absolute value of the predictor, where it is cut off."""
    outputs: int = 1
    """The number of coefficient vectors: one less than the classes of a multinomial response, otherwise
    one."""

    def __init__(self, codes: int) -> None:
        self.most = codes - 1

    def rounds(self, signal: float | None) -> tuple[Fraction, ...]:
        """Return the share of μ² for each round, each four times the one before.

        The last round gives most of the information, including that on the curvature. ``signal`` is nμ
        divided by the number of coefficients, with μ the loss of one record; None where n is private. More
        rounds are better only if noise is small: two up to a signal of 100, one more for each factor of ten.
        """
        number = 3 if signal is None else 2 + math.ceil(math.log10(max(signal, _SIGNAL) / _SIGNAL))
        number = min(number, 5)
        return tuple(Fraction(3 * 4**turn, 4**number - 1) for turn in range(number))

    def reach(self, design: Design, point: FloatArray) -> int:
        """Return the largest absolute predictor of any record at a point, in grid steps."""
        blocks = np.abs(point).reshape(self.outputs, design.d)
        by_entry = float((blocks @ design.reach).max())
        by_length = design.norm * float(np.sqrt((blocks**2).sum(axis=1)).max())
        most = min(by_entry, by_length) * (1 + 1e-12) / (1 << self.shift(design))
        return min(max(1, math.floor(most + 0.5) + 1), math.floor(self.farthest * (1 << self.link_bits)))

    def shift(self, design: Design) -> int:
        return design.bits + POINT_BITS - self.link_bits

    def link(
        self, design: Design, point: FloatArray, clip: float | None = None, robust: bool = False
    ) -> Link:
        """Return the public integers of a round at a point, rounded to the grid."""
        whole = np.clip(np.rint(np.asarray(point, dtype=np.float64) * 2**POINT_BITS), -_FARTHEST, _FARTHEST)
        reach = self.reach(design, whole)
        link = self._link(design, tuple(int(w) for w in whole), reach, self.limit(clip, reach))
        return self.bounded_link(link, robust)

    def link_at(
        self,
        design: Design,
        point: tuple[int, ...],
        limit: int,
        mixing: tuple[int, ...] = (),
        robust: bool = False,
    ) -> Link:
        """Return the public integers of a round from a document's point and clipping bound."""
        reach = self.reach(design, np.array(point, dtype=np.float64))
        most = self.limit(None, reach)
        if not min(most, 1) <= limit <= most or max(map(abs, point)) > _FARTHEST:
            raise InvalidInputError("the point of a round, or its clipping bound, is out of range")
        link = self.bounded_link(self._link(design, point, reach, limit), robust)
        if not mixing:
            return link
        if len(mixing) != design.d**2 or self.outputs > 1 or design.constant is None:
            raise InvalidInputError("the coordinates of a round do not fit its question")
        matrix = np.array(mixing, dtype=np.float64).reshape(design.d, design.d)
        mixed = link.with_mixing(matrix / 2**MIXING_BITS, design)
        if mixed.mixing != mixing:
            raise InvalidInputError("the coordinates of a round are out of range")
        return mixed

    def _link(self, design: Design, point: tuple[int, ...], reach: int, limit: int) -> Link:
        tables = self.tables(np.arange(-reach, reach + 1) / 2**self.link_bits, limit)
        return Link(point, self.shift(design), reach, limit, tables)

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        """Return tables, with an entry for each predictor, of residuals and weights as whole doubles."""
        return ()

    def limit(self, clip: float | None, reach: int) -> int:
        """Return the clipping bound of residuals or responses in a round, as a whole number.

        It is 0 if nothing is clipped.
        """
        return 0

    def clip(self, distribution: NormalApproximation, cost: float) -> float | None:
        """Return the clipping bound of the next round, from the sums released so far.

        ``cost`` is the variance of the noise on a gradient whose residuals are at most 1.
        """
        return None

    def first_step(self, design: Design, point: FloatArray, move: FloatArray) -> float:
        """Return the fraction of the first Newton step to take, from a point with equal predictors."""
        return 1.0

    def linearise_at(
        self, design: Design, distribution: NormalApproximation, cost: float
    ) -> tuple[FloatArray, float | None]:
        """Return the point at which to expand the next round, and its clipping bound."""
        return distribution.mean, self.clip(distribution, cost)

    def clip_of(self, link: Link) -> float:
        """Return the clipping bound of a round in the units of residuals."""
        return float(link.clip)

    def start(self, design: Design) -> FloatArray:
        """Return the point at which to expand the first round."""
        return np.zeros(design.d * self.outputs)

    def bounded_link(self, link: Link, robust: bool) -> Link:
        """Return the round, with Σ residual²·xx' where errors are robust."""
        if not robust:
            return link
        return link.with_outer(math.isqrt(math.ceil(self.extremes(link)[0].max())), self.outer_bits)

    @abstractmethod
    def extremes(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds on residual², weight² and residual⁴ of one record, in integer units.

        Each has an entry for every predictor and response that a record may have.
        """

    def pairs(self, link: Link, design: Design) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return bounds on how much two records' contributions differ, for rows of the largest norm.

        Entries bound a quarter of the squared distance of the scores, and half those of the curvatures and of
        the squared residuals. :meth:`extremes` has such bounds, because two records never differ by more.
        """
        return self.extremes(link)

    @abstractmethod
    def residuals(self, link: Link, predictor: FloatArray, response: IntArray) -> FloatArray:
        """Return residuals r of each record and output as whole numbers; the gradient is
        r·x/2^residual_bits."""

    def weights(self, link: Link, predictor: FloatArray) -> Iterator[FloatArray | None]:
        """Return the weights v of records for each pair of outputs k ≤ l; None where all are 2^weight_bits.

        A model with one output reads them from the second table.
        """
        yield link.looked_up(predictor[:, 0], 1)[0]

    @abstractmethod
    def mean(self, predictor: FloatArray) -> FloatArray:
        """Return the mean response; for several outputs, the probabilities of all classes."""

    def slope(self, predictor: FloatArray) -> FloatArray:
        """Return the slope of the mean response, for one output."""
        return np.asarray((self.mean(predictor + 1e-4) - self.mean(predictor - 1e-4)) / 2e-4)

    def at_constant(self, predictor: float) -> tuple[float, float]:
        """Return the mean response and its slope at one predictor."""
        return predictor, self.typical_weight

    def constant(self, mean: float, sure: float, records: float) -> tuple[float, float]:
        """Return the predictor with this mean response, and the slope there.

        A mean within ``sure`` of an end of its range is first moved inwards.
        """
        return mean, self.typical_weight

    def scatter(self, clip: float, centre: float, variance: float) -> float:
        """Return the variance of clipped responses divided by their mean's slope, for normal predictors."""
        return 1.0


class GaussianModel(ResponseModel):
    """The linear model y = x·w + N(0, σ²), with y scaled to [−1, 1].

    The residual r = x·w − y is clipped, r² is summed too, and the curvature is xx'.
    """

    family = "gaussian"
    link_bits = residual_bits = RESPONSE_BITS
    weight_bits = 0
    squares = normal = True
    deviation = 4.0
    level_deviation = 4.0
    farthest = 64.0

    def limit(self, clip: float | None, reach: int) -> int:
        beyond = reach + (1 << self.residual_bits)  # |x·w| + |y|
        return beyond if clip is None else min(beyond, max(1, math.ceil(clip * 2**self.residual_bits)))

    def rounds(self, signal: float | None) -> tuple[Fraction, ...]:
        """Return the shares; the score is linear, so early rounds only determine the last clipping bound."""
        return Fraction(1, 5), Fraction(1, 5), Fraction(3, 5)

    def clip_of(self, link: Link) -> float:
        """Return the clipping bound; infinite where residuals cannot exceed it."""
        unit = 2**self.residual_bits
        return math.inf if link.clip >= link.reach + unit else link.clip / unit

    def clip(self, distribution: NormalApproximation, cost: float) -> float | None:
        """Return the bound that minimises a coefficient's error from sampling, noise and clipping.

        The residual variance is an upper estimate, which covers the uncertainty of σ² and of the point.
        Clipping biases coefficients where errors are not normal: a quarter of the bias for double-exponential
        residuals counts as an error.
        """
        variance = distribution.upper_dispersion + distribution.predictor_variance
        typical = float(np.trace(distribution.curvature)) / len(distribution.mean)
        ratios = np.linspace(2.5, 8.0, 56)
        clips = ratios * math.sqrt(variance)
        inside, moment, _ = clipped_moments(np.array(variance), clips)
        taken = np.exp(-math.sqrt(2) * ratios) * math.sqrt(variance / 2)
        missed = distribution.records * typical * (taken / 4) ** 2 / len(distribution.mean)
        worth = (moment * typical + cost * clips**2 + missed) / inside**2
        return float(clips[int(np.argmin(worth))])

    def linearise_at(
        self, design: Design, distribution: NormalApproximation, cost: float
    ) -> tuple[FloatArray, float | None]:
        """Return the next point and clipping bound; the first point and None if clipping would be useless.

        That happens if predictors are so uncertain that the bound would not be tighter than the declared
        bounds of the response. At the first point no residual exceeds 1.
        """
        point, clip = super().linearise_at(design, distribution, cost)
        return (self.start(design), None) if clip is not None and clip >= 1 else (point, clip)

    def extremes(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        clip = np.array([float(link.clip)])
        return clip**2, np.array([4.0**self.weight_bits]), clip**4

    def residuals(self, link: Link, predictor: FloatArray, response: IntArray) -> FloatArray:
        raw = predictor - (response[:, None] - 2.0**self.residual_bits)
        return np.asarray(np.clip(raw, -link.clip, link.clip))

    def weights(self, link: Link, predictor: FloatArray) -> Iterator[FloatArray | None]:
        yield None

    def mean(self, predictor: FloatArray) -> FloatArray:
        return predictor


class BinomialModel(ResponseModel):
    """The logistic model: the second level has probability p = 1/(1 + e^{−x·w}).

    The residual is r = p − y and the weight is v = p(1 − p), so a large residual has a small weight.
    """

    family = "binomial"
    ratio = "odds ratio"
    descends = True
    most_weight = 0.25
    typical_weight = 0.2

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        whole = _binomial_tables()
        outside = (len(whole[0]) - len(predictors)) // 2
        return tuple(table[outside : len(table) - outside] for table in whole)

    def extremes(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        chance, weight = link.tables
        residual = np.concatenate([chance, 2**self.residual_bits - chance])
        return residual**2, np.tile(weight**2, 2), np.zeros(1)

    def pairs(self, link: Link, design: Design) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Bound how much two records' contributions differ, using the distance of their rows.

        Records with residuals a and −b have scores no farther apart than ((a + b)²N − ab·D²)^½, where D is
        the distance of their rows. D is at least the distance of their predictors divided by the length of
        the point, so two large residuals of opposite signs belong to rows that are far apart. Predictors
        are grouped into cells, and each pair of cells has one entry, from the ends of the two.

        If rows are multiplied by a matrix, the point is transformed to match. A shortened row counts as one
        whose predictor is nearer to 0 by the same factor, where residual and weight are at least as large.
        Rounding errors are subtracted from the distance.
        """
        starts = np.unique(np.linspace(0, 2 * link.reach, _CELLS + 1).astype(int))[:-1]
        ends = np.append(starts[1:], 2 * link.reach + 1)
        (chance, weight), unit = link.tables, 2.0**self.residual_bits
        most, least = chance[ends - 1], chance[starts]  # chances rise
        gap = starts[:, None] - ends  # less than a step is lost by rounding
        point, lost = np.array(link.point, dtype=np.float64), 0.0
        if link.mixing:
            mixing, plain = link.matrix(design.d), point
            point = np.asarray(np.linalg.solve(mixing.T, plain))
            missed = float(np.linalg.norm(mixing.T @ point - plain)) + 1e-6 * float(np.linalg.norm(plain))
            lost = 4 * math.sqrt(design.d) + 2 * missed * design.norm / max(
                float(np.linalg.norm(point)), 1e-9
            )
            gap, most, least = gap - 2, most + 1, least - 1
        length = max(float(np.linalg.norm(point)) * (1 + 1e-9), 1e-9)
        apart = (np.maximum(gap, 0) * 2.0**link.shift / length - lost) / design.norm
        apart = np.clip(apart, 0.0, 2.0) ** 2
        product = np.maximum(least[:, None], 0) * np.maximum(unit - most, 0)
        squares = (most[:, None] + (unit - least)) ** 2 - product * apart
        weights = np.maximum.reduceat(weight**2, starts)
        return squares.ravel() / 4, ((weights[:, None] + weights) / 2).ravel(), np.zeros(1)

    def residuals(self, link: Link, predictor: FloatArray, response: IntArray) -> FloatArray:
        return np.asarray(link.looked_up(predictor, 0)[0] - response[:, None] * 2.0**self.residual_bits)

    def mean(self, predictor: FloatArray) -> FloatArray:
        return np.asarray(expit(predictor))

    def at_constant(self, predictor: float) -> tuple[float, float]:
        chance = float(expit(predictor))
        return chance, chance * (1 - chance)

    def constant(self, mean: float, sure: float, records: float) -> tuple[float, float]:
        least = max(sure, 0.5 / records)
        chance = min(max(mean, least), 1 - least)
        return float(logit(chance)), chance * (1 - chance)


@cache
def _binomial_tables() -> tuple[FloatArray, FloatArray]:
    """Return the tables of residual and weight for all predictors; each round uses their middle part."""
    model = BinomialModel
    most = math.floor(model.farthest * 2**model.link_bits)
    chance = expit(np.arange(most + 1) / 2**model.link_bits)
    upper, weight = (
        np.rint(chance * 2**model.residual_bits),
        np.rint(chance * (1 - chance) * 2**model.weight_bits),
    )
    lower = 2**model.residual_bits - upper[:0:-1]
    return np.concatenate([lower, upper]), np.concatenate([weight[:0:-1], weight])


class MultinomialModel(ResponseModel):
    """The multinomial model: level k has a probability p_k ∝ e^{x·w_k}, with w₀ = 0.

    The residuals are r_k = p_k − y_k, and the curvature is (diag p − pp') ⊗ xx'.

    p_k = ⌊2¹⁶ e_k / Σe⌋ comes from a table of exponentials in whole numbers. The curvature uses its upper ten
    bits q. V = 2¹⁰ diag(q) − qq' is positive semidefinite in whole numbers: its rows sum to Σ_l V_kl = q_k
    (2¹⁰ − Σ q) ≥ 0, and all entries off the diagonal are negative.
    """

    family = "multinomial"
    ratio = "odds ratio"
    descends = True
    weight_bits = 2 * _SHARE_BITS
    most_weight = 0.5
    farthest = 8.0  # e^{±8} in whole numbers of at most 30 bits; the reference level has e⁰
    reference = round(math.exp(-farthest) * (1 << _TABLE_BITS))

    def __init__(self, codes: int) -> None:
        super().__init__(codes)
        self.outputs = self.most
        self.typical_weight = 0.8 / codes

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        return (np.rint(np.exp(predictors - self.farthest) * 2**_TABLE_BITS),)

    def extremes(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the bounds Σ_k (p_k − y_k)² ≤ 2, and ‖diag q − qq'‖ ≤ ½ for shares q with Σq ≤ 1.

        The square of the latter is s₂ − 2s₃ + s₂² with s_j = Σq^j, and s₃ ≥ s₂² by Cauchy–Schwarz: at most
        s₂ − s₂² ≤ ¼.
        """
        residual, weight = 2.0 ** (2 * self.residual_bits + 1), 4.0 ** (self.weight_bits - 1)
        return np.array([residual]), np.array([weight]), np.zeros(1)

    def shares(self, link: Link, predictor: FloatArray) -> FloatArray:
        """Return ⌊2¹⁶ e_k/Σe⌋, the probabilities of the classes after the first in units of 2⁻¹⁶."""
        powers = link.looked_up(predictor, 0)[0].astype(np.int64)
        total = powers.sum(axis=1) + self.reference
        return np.asarray((powers << self.residual_bits) // total[:, None], dtype=np.float64)

    def residuals(self, link: Link, predictor: FloatArray, response: IntArray) -> FloatArray:
        is_class = response[:, None] == np.arange(1, self.outputs + 1)[None, :]
        return np.asarray(self.shares(link, predictor) - is_class * 2.0**self.residual_bits)

    def weights(self, link: Link, predictor: FloatArray) -> Iterator[FloatArray | None]:
        shares = np.floor(self.shares(link, predictor) / 2.0 ** (self.residual_bits - _SHARE_BITS)).T
        for k, share in enumerate(shares):
            yield share * 2.0**_SHARE_BITS - share * share
            yield from (-share * other for other in shares[k + 1 :])

    def mean(self, predictor: FloatArray) -> FloatArray:
        powers = np.exp(np.clip(np.column_stack([np.zeros(len(predictor)), predictor]), -300, 300))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


class PoissonModel(ResponseModel):
    """The Poisson model: a count y has the rate e^{x·w}, and is bounded by ``most``.

    Each round clips counts to at most ``clip`` on either side of their expected rate.

    The residual is r = E clip(Y) − clip(y), where clip(Y) = min(max(Y, l), h) and the ends l, h depend on the
    record's predictor. The record's weight is the slope of E clip(Y) in the predictor, λ·P(l ≤ Y < h). At the
    true coefficients the mean residual is 0 whatever l and h are.
    """

    family = "poisson"
    ratio = "rate ratio"
    squares = True
    deviation = 4.0

    def __init__(self, codes: int) -> None:
        super().__init__(codes)
        if not 2 <= self.most <= 2048:
            raise InvalidInputError(
                f"counts up to {self.most}: declare a bound from 2 to 2048 for a Poisson regression"
            )
        self.farthest = math.log(self.most) + 4
        self.residual_bits = 16 - max(0, self.most.bit_length() - 4)
        self.weight_bits = 12 - max(0, self.most.bit_length() - 2)

    def rounds(self, signal: float | None) -> tuple[Fraction, ...]:
        """Return the shares, which are more equal than by default, since the start is far from the
        solution."""
        return tuple(Fraction(share, 100) for share in (3, 5, 8, 14, 20, 50))

    def start(self, design: Design) -> FloatArray:
        """Return the point with a rate of half the bound everywhere, so that no residual exceeds it."""
        point = np.zeros(design.d)
        if not design.columns[0].factors:
            point[0] = math.log(self.most / 2)
        return point

    def first_step(self, design: Design, point: FloatArray, move: FloatArray) -> float:
        """Return the largest fraction of the step that keeps every possible rate within the largest count.

        Where rates differ by orders of magnitude, a full Newton step overshoots, and each later round lowers
        the linear predictor by only one.
        """
        at, unit = design.constant, 2.0**design.bits
        if at is None or self.outputs > 1:
            return 1.0
        rest = np.delete(np.abs(move), at)
        along = float(rest @ np.delete(design.reach, at))
        across = math.sqrt(max(float(design.norm) ** 2 - float(design.reach[at]) ** 2, 0.0))
        constant = float(design.reach[at]) / unit
        most = constant * float(move[at]) + min(along, across * math.sqrt(float(rest @ rest))) / unit
        room = math.log(self.most) - constant * float(point[at])
        return min(1.0, max(room, 0.0) / most) if most > 0 else 1.0

    def limit(self, clip: float | None, reach: int) -> int:
        return self.most if clip is None else min(self.most, max(1, math.ceil(clip)))

    def clip(self, distribution: NormalApproximation, cost: float) -> float | None:
        """Return the bound that minimises a coefficient's error from sampling and noise.

        It is at least three standard deviations of a count at the larger rates, with a margin for their
        uncertainty.
        """
        centre, variance = distribution.predictors
        variance += distribution.predictor_variance
        rate = math.exp(min(centre + 1.5 * math.sqrt(variance), math.log(self.most)))
        dispersion = max(distribution.dispersion, 1.0)
        least = 1 + math.ceil(
            3 * math.sqrt(dispersion * rate) + 2 * math.sqrt(distribution.predictor_variance) * rate
        )
        typical = (
            distribution.records
            * float(np.trace(distribution.curvature))
            / distribution.level
            / len(distribution.mean)
        )
        windows = np.unique(np.geomspace(min(self.most, least), self.most, 24).astype(int))
        slope, scatter, lost = np.array([self.expected_moments(one, centre, variance) for one in windows]).T
        chance = dispersion * (scatter + distribution.records * MISFIT * lost / len(distribution.mean))
        worth = (chance * typical + cost * (windows + 0.5) ** 2) / slope**2
        return float(windows[int(np.argmin(worth))])

    def expected_moments(self, window: float, centre: float, variance: float) -> tuple[float, float, float]:
        """Return three averages over records with normal predictors, for clipped counts.

        They are the slope, the variance, and (rate − slope)² divided by the mean rate, for counts clipped to
        ``window`` on either side of the rate.
        """
        nodes = np.clip(centre + math.sqrt(variance) * _NODES, -40.0, self.farthest)
        _, slope, scatter, _, _ = window_moments(nodes, window, self.most)
        rate = np.exp(nodes)
        lost = float((rate - slope) ** 2 @ _WEIGHTS) / float(rate @ _WEIGHTS)
        return max(float(slope @ _WEIGHTS), 1e-9), float(scatter @ _WEIGHTS), lost

    def scatter(self, clip: float, centre: float, variance: float) -> float:
        slope, scatter, _ = self.expected_moments(clip, centre, variance)
        return min(max(scatter / slope, 0.1), 1.0)

    def at_constant(self, predictor: float) -> tuple[float, float]:
        rate = math.exp(min(max(predictor, -self.farthest), self.farthest))
        return rate, rate

    def constant(self, mean: float, sure: float, records: float) -> tuple[float, float]:
        rate = min(max(mean, sure, 0.5 / records), float(self.most))
        return math.log(rate), rate

    def tables(self, predictors: FloatArray, limit: int) -> tuple[FloatArray, ...]:
        mean, weight, _, low, high = window_moments(predictors, limit, self.most)
        return np.rint(mean * 2**self.residual_bits), np.rint(weight * 2**self.weight_bits), low, high

    def extremes(self, link: Link) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, weight, low, high = link.tables
        unit = 2.0**self.residual_bits
        residual = np.concatenate([mean - low * unit, high * unit - mean])
        return residual**2, np.tile(weight**2, 2), residual**4

    def residuals(self, link: Link, predictor: FloatArray, response: IntArray) -> FloatArray:
        mean, low, high = link.looked_up(predictor, 0, 2, 3)
        return np.asarray(mean - np.clip(response[:, None], low, high) * 2.0**self.residual_bits)

    def mean(self, predictor: FloatArray) -> FloatArray:
        return np.exp(predictor)


def window_moments(
    predictors: FloatArray, window: Any, most: int
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean, slope and variance of min(max(Y, low), high) for each predictor, then low and high.

    The ends are at most ``window`` from the rate, and between 0 and ``most``.

    min(Y, q) has mean λP(Y < q) + qP(Y > q), slope λP(Y < q), and second moment λ²P(Y < q − 1) + λP(Y < q) +
    q²P(Y > q). The clipped count is min(Y, high) − min(Y, low) + low.
    """
    rate = np.exp(predictors)
    middle = np.minimum(np.rint(rate), most)
    if window < most:
        # No slope is above that of a rate whose three deviations are the window: a few records with far
        # larger rates would else decide how much noise all need.
        share = np.minimum((window / 3) ** 2 / np.maximum(rate, 1e-300), 1 - 1e-12)
        room = np.floor(np.sqrt(2 * rate) * erfinv(share))
        window = np.where(rate > (window / 3) ** 2, np.minimum(window, room), window)  # small rates keep it
    low, high = np.maximum(middle - window, 0.0), np.minimum(middle + window, most)

    def parts(q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        below = np.where(q > 0, gammaincc(np.maximum(q, 1.0), rate), 0.0)
        equal = np.exp(q * predictors - rate - gammaln(q + 1))
        slope, above = rate * below, 1 - below - equal
        return slope + q * above, slope, rate**2 * below - rate * q * equal + slope + q**2 * above

    (mean, slope, square), (lower, start, lower_square) = parts(high), parts(low)
    mean = mean - lower + low
    return mean, slope - start, np.maximum(square - lower_square + low**2 - mean**2, 0.0), low, high


MODELS: dict[str, type[ResponseModel]] = {
    model.family: model for model in (GaussianModel, BinomialModel, MultinomialModel, PoissonModel)
}


def model_of(family: Any, design: Design) -> ResponseModel:
    """Return the model of a family for the response of a design."""
    if family not in MODELS:
        raise InvalidInputError(f"is unknown{nearest(family, MODELS)}", parameter="family", value=family)
    model = MODELS[family](design.response.coder.size)
    if design.weight is not None:  # squares of small weights are small
        model.outer_bits, model.rounds_squares = OUTER_BITS + 8, True
        model.weight_bits = WEIGHT_BITS if model.normal else model.weight_bits
    return model
