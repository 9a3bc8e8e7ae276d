"""The exact sums of a round and their noise: whole numbers from the records to the release.

The arithmetic uses doubles that hold whole numbers below 2⁵³, so BLAS adds them exactly in any order; blocks
of records are short enough for that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import Relation
from discreet._randomness.gaussian import rounded_gaussians
from discreet._typing import FloatArray, IntArray
from discreet.errors import ContributionError, DataError
from discreet.regression._newton.design import WEIGHT_BITS, Design, Variable
from discreet.regression._newton.models import OUTER_BITS, Link, ResponseModel

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

_EXACT_BITS = 53
_OUTER_RATIO = 4
"""The ratio of the noise variance of Σ residual²·xx' to that of the gradient, if the largest gradient is
1."""


@dataclass(frozen=True)
class RoundNoise:
    """Variances of the noise on a round's sums, in their integer units; None where a sum is not released.

    Off-diagonal entries of a matrix get half of its variance, because they count twice in its norm.
    """

    gradient: Fraction
    curvature: Fraction | None
    square: Fraction | None
    outer: Fraction | None = None


@dataclass(frozen=True)
class Round:
    """The public facts of a round: its point, its noise, and its part of μ²."""

    link: Link
    noise: RoundNoise
    mu_squared: Fraction


@dataclass(frozen=True)
class RoundSums:
    """The sums of a round as whole numbers.

    They are the gradient in the coefficients, the upper triangle of the curvature, Σ residual², and the
    upper triangle of Σ residual²·xx' where the link asks for it.
    """

    gradient: tuple[int, ...]
    curvature: tuple[int, ...]
    square: int
    outer: tuple[int, ...] = ()
    survey: tuple[int, ...] = ()
    """With survey weights: how many were cut, the sum of all, the sum of their squares, and the number of
    records."""

    def __add__(self, other: RoundSums) -> RoundSums:
        vectors = ("gradient", "curvature", "outer", "survey")
        parts = {name: tuple(map(add, getattr(self, name), getattr(other, name))) for name in vectors}
        return RoundSums(**parts, square=self.square + other.square)


def noise_for(
    model: ResponseModel,
    design: Design,
    link: Link,
    mu_squared: Fraction,
    relation: Relation,
    per_person: int = 1,
    curvature_share: float = 1 / 6,
    square_share: float = 0.0,
) -> RoundNoise:
    """Return the noise of a μ-GDP round, chosen to be small for gradient and curvature together.

    One record's sums, divided by the standard deviations of the noise, have a squared norm of at most r²N/s²
    + v²N²/s_H² + r⁴/s_q², where N is the largest squared norm of a row. Two records differ by at most
    2(2r²N/s² + v²N²/s_H² + r⁴/s_q²) at the worst (r, v), and by less for linear models: see
    ``proofs/regression.md``. ``model.extremes`` lists what r and v can be at once. With s_H² = κs² this is
    F(κ)/s², and κ minimises log F(κ) + share·log κ.
    """
    most, rows = _extremes(model, design, link, relation), float(design.norm) ** 2
    residuals, weights, squares = most
    longest = float(residuals.max()) * rows
    outer_ratio = None
    if link.outer_shift is not None:
        outer_ratio = Fraction(math.ceil(longest) * _OUTER_RATIO, 4**link.outer_shift)

    # Ratios are powers of √2 from public numbers only; any ratio is correct, the best is only better.
    ratio = square_ratio = None
    scale = longest * (1 if relation is Relation.ADD_REMOVE else 2)
    if square_share:
        square_ratio = Fraction(2.0 ** round(math.log2(float(squares.max()) / (scale * square_share))))
    if curvature_share:
        start = math.log2(float(weights.max()) * rows**2 / scale)
        ratios = [2.0 ** (round(2 * start) / 2 + step / 2) for step in range(-10, 24)]
        some = tuple(values[::61] for values in most)
        worth = [
            math.log(_reach(model, rows, some, relation, r, square_ratio, outer_ratio, link.outer_shift))
            + curvature_share * math.log(r)
            for r in ratios
        ]
        best = ratios[int(np.argmin(worth))]
        ratio = Fraction(best).limit_denominator(1 << 30) if best < 1e9 else Fraction(round(best))
    chosen = ratio, square_ratio, outer_ratio
    reached = _above(_reach(model, rows, most, relation, *chosen, link.outer_shift))
    reached *= Fraction(per_person) ** 2
    variance = Fraction(math.ceil(reached / mu_squared))
    return RoundNoise(variance, *(None if factor is None else variance * factor for factor in chosen))


def exposure(
    model: ResponseModel,
    design: Design,
    link: Link,
    relation: Relation,
    curvature_ratio: Fraction | None,
    square_ratio: Fraction | None,
    outer_ratio: Fraction | None = None,
) -> Fraction:
    """Compute, rounded up, the privacy loss μ² of one record if the noise on the gradient has variance 1.

    Each ratio is the noise variance of another sum to that of the gradient; None if it is not released.
    """
    rows, ratios = float(design.norm) ** 2, (curvature_ratio, square_ratio, outer_ratio)
    most = _extremes(model, design, link, relation)
    return _above(_reach(model, rows, most, relation, *ratios, link.outer_shift))


def _above(reach: float) -> Fraction:
    """Return a fraction that is certainly above a number computed in doubles."""
    return Fraction(reach * (1 + 1e-9))


def _extremes(model: ResponseModel, design: Design, link: Link, relation: Relation) -> tuple[FloatArray, ...]:
    """Return the model's bounds for adding one record, or for replacing it by another."""
    single = relation is Relation.ADD_REMOVE or link.outer_shift is not None
    return model.extremes(link) if single else model.pairs(link, design)


def _reach(
    model: ResponseModel,
    rows: float,
    extremes: tuple[FloatArray, ...],
    relation: Relation,
    curvature_ratio: Any,
    square_ratio: Any,
    outer_ratio: Any,
    outer_shift: int | None,
) -> float:
    """Bound the squared norm of a record's contribution, in units of the noise variance of the gradient.

    For a pair of records it is the difference of their contributions. In a linear model, two records whose
    gradients are far apart have residuals of opposite signs and equal curvatures, so both are bounded
    jointly.
    """
    residuals, weights, squares = extremes
    longest, joint = residuals * rows, model.normal and relation is not Relation.ADD_REMOVE
    curvature, outer, more = np.zeros((3, len(longest)))
    if curvature_ratio is not None:
        curvature = weights * rows**2 / float(curvature_ratio)
    if outer_ratio is not None and outer_shift is not None:
        exact = longest * 2.0**-outer_shift
        outer = exact**2 / float(outer_ratio)
        more = more + 2 * (exact + rows) * rows / float(outer_ratio)  # what rounding adds
    if square_ratio is not None and not (joint and square_ratio * rows >= 2 * residuals.max()):
        more = more + squares / float(square_ratio)
    elif square_ratio is not None and joint:  # the squares of weighted records are rounded
        more = more + 3 * residuals.max() * model.rounds_squares / float(square_ratio)
    if relation is Relation.ADD_REMOVE:
        return float((longest + curvature + outer + more).max())
    if not joint:
        return 2 * float((2 * longest + curvature + outer + more).max())
    shared = np.maximum(curvature + outer, longest / 2)
    apart = longest + shared + longest**2 / (4 * shared)
    if outer_shift is not None:  # one of them is clipped, and has no curvature
        shared = np.maximum(outer, longest / 2)
        apart = np.maximum(apart, longest + shared + longest**2 / (4 * shared) + curvature / 2)
    return 2 * float((apart + more).max())


def round_cost(model: ResponseModel, design: Design, turn: Round, relation: Relation) -> Fraction:
    """Compute a round's μ² for one record, from the noise stated in the release.

    Raises
    ------
    ValueError
        If a variance is not positive, or the noise is not that of its part of μ².
    """
    gradient, variances = turn.noise.gradient, astuple(turn.noise)
    if min(variance for variance in variances if variance is not None) <= 0:
        raise ValueError("the variance of a round's noise must be positive")
    ratios = [None if variance is None else variance / gradient for variance in variances[1:]]
    return exposure(model, design, turn.link, relation, *ratios) / gradient


def possible(model: ResponseModel, design: Design, turn: Round, sums: RoundSums, records: int) -> bool:
    """Return whether ``records`` records can have these sums if no noise exceeds 64 standard deviations."""
    each = round_cost(model, design, turn, Relation.ADD_REMOVE)
    most = (64 + records * (math.isqrt(math.ceil(each)) + 1)) ** 2
    published = (sums.gradient, sums.curvature, (sums.square,), sums.outer)
    return all(
        value**2 <= most * variance
        for values, variance in zip(published, astuple(turn.noise), strict=True)
        if variance is not None
        for value in values
    )


@dataclass(frozen=True)
class RowBlock:
    """Records as integer rows and responses."""

    rows: npt.NDArray[Any]
    response: IntArray
    weight: IntArray | None = None

    @property
    def size(self) -> int:
        """The size in bytes."""
        return int(self.rows.nbytes + self.response.nbytes * (1 if self.weight is None else 2))


def records(design: Design, codes: Sequence[IntArray]) -> RowBlock:
    """Return rows and responses of records from codes; undeclared values are an error or leave a record
    out.
    """
    keep = locate((*design.variables, design.response, *filter(None, [design.weight])), codes)
    if keep is not None:
        codes = [values[keep] for values in codes]
    weight = None
    if design.weight is not None:
        codes, weight = codes[:-1], np.array(codes[-1])
    rows = np.asarray(design.rows(codes[:-1], len(codes[-1])), dtype=np.int16)  # none is longer than 2¹⁴
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.int64)
    check_bound(int(squares.max(initial=0)), design.norm**2)
    # The response is copied, or it would keep the engine's whole batch in memory.
    return RowBlock(rows, np.array(codes[-1]), weight)


def check_bound(largest: int, bound: int) -> None:
    """Raise an error if a record's contribution exceeds the bound for which the noise was computed."""
    if largest > bound:
        raise ContributionError(
            "a record would contribute more than the noise allows for, so nothing was released: this is a "
            "bug in discreet, please report it (SECURITY.md)"
        )


def locate(variables: Sequence[Variable], codes: Sequence[IntArray]) -> Any:
    """Return a mask of the records with a declared value of every variable; None if all have one."""
    keep: Any = None
    for variable, values in zip(variables, codes, strict=True):
        out = values >= variable.coder.size
        if not out.any():
            continue
        if not (variable.excluded and (values[out] == variable.coder.size + 1).all()):
            raise undeclared_error(variable.name, bool((values == variable.coder.size).any()))
        keep = ~out if keep is None else keep & ~out
    return keep


def undeclared_error(name: str, unknown: bool, hint: str | None = None) -> DataError:
    """Return the error for undeclared values; it never says how many, which may be private."""
    if unknown:
        return DataError(
            "some records hold a value that is not declared, or no number where a number is declared (with "
            "a decimal point, not a comma); declare the value, or the one that others count as",
            name,
        )
    hint = "declare missing as 'exclude', or as the value that they count as" if hint is None else hint
    return DataError(f"some records are missing; {hint}", name)


def exact_sums(
    model: ResponseModel, design: Design, link: Link, blocks: Iterable[RowBlock], curvature: bool = True
) -> RoundSums:
    """Return the exact sums of all records, in pieces in which no sum reaches 2⁵³."""
    size, square, shift = design.d * model.outputs, 0, link.outer_shift
    upper = np.triu_indices(size if curvature else 0)
    gradient, triangle = np.zeros(size, dtype=object), np.zeros(len(upper[0]), dtype=object)
    outer_upper = np.triu_indices(0 if shift is None else size)
    outer = np.zeros(len(outer_upper[0]), dtype=object)
    point = np.array(link.point, dtype=np.float64).reshape(model.outputs, design.d)
    residual, weight, squared = (math.isqrt(math.ceil(extreme.max())) for extreme in model.extremes(link))
    outer_most = 0 if shift is None else (residual**2 >> shift) + 1
    largest = max(residual * design.norm, max(weight, 1 << OUTER_BITS) * design.norm**2, squared) + 1
    step = 1 << max(0, _EXACT_BITS - largest.bit_length())
    survey = np.zeros(0 if design.weight is None else 4, dtype=object)
    for block in blocks:
        if block.weight is not None:
            survey += survey_sums(block.weight)
        for start in range(0, len(block.response), step):
            rows = np.asarray(block.rows[start : start + step], dtype=np.float64)
            response = block.response[start : start + step]
            raw = rows @ point.T
            predictor = np.clip(np.floor(raw * 2.0**-link.shift + 0.5), -link.reach, link.reach)
            residuals = model.residuals(link, predictor, response)
            check_bound(int(np.abs(residuals).max(initial=0)), residual)
            inside = np.abs(residuals[:, 0]) < link.clip if model.normal and shift is not None else None
            if link.mixing:
                rows, residuals = link.mix(rows, residuals, design.norm)
                check_bound(int(np.einsum("ij,ij->i", rows, rows).max(initial=0)), design.norm**2)
            part, squares = None, residuals[:, 0] ** 2
            if block.weight is not None:
                part = np.minimum(block.weight[start : start + step], 1 << WEIGHT_BITS).astype(np.float64)
                squares = np.floor(squares * part / 2**WEIGHT_BITS)
                residuals = np.trunc(residuals * part[:, None] / 2**WEIGHT_BITS)
            gradient += (residuals.T @ rows).ravel().astype(np.int64)
            if model.squares:
                square += int(squares.sum())
            if curvature:
                weighed = _weights(model, link, predictor, inside, part)
                triangle += _curvature(model, rows, weighed, weight)[upper].astype(np.int64)
            if shift is not None:
                weights = np.floor((residuals**2 + (1 << shift >> 1)) / (1 << shift))
                check_bound(int(weights.max(initial=0)), outer_most)
                high = np.floor(weights / 2**OUTER_BITS)  # in two parts, each exact
                for piece, unit in ((weights - high * 2**OUTER_BITS, 1), (high, 1 << OUTER_BITS)):
                    outer += (rows.T @ (rows * piece))[outer_upper].astype(np.int64) * unit
    return RoundSums(
        tuple(gradient.tolist()),
        tuple(triangle.tolist()),
        square,
        tuple(outer.tolist()),
        tuple(map(int, survey)),
    )


def survey_sums(weight: IntArray) -> IntArray:
    """Return four sums of survey weights, in steps of their grid.

    They are the number of weights that were cut, the sum of the weights, the sum of their squares, and the
    number of records.
    """
    part = np.minimum(weight, 1 << WEIGHT_BITS)
    squares = (part * part) >> WEIGHT_BITS
    return np.array([(weight > 1 << WEIGHT_BITS).sum(), part.sum(), squares.sum(), len(weight)])


def _weights(
    model: ResponseModel,
    link: Link,
    predictor: FloatArray,
    inside: npt.NDArray[np.bool_] | None,
    part: FloatArray | None,
) -> Iterator[FloatArray | None]:
    """Return each record's weight in the curvature, times ``part``; 0 unless it is ``inside``."""
    for weights in model.weights(link, predictor):
        if inside is not None:
            weights = np.where(inside, 2.0**model.weight_bits, 0.0)
        if part is not None and weights is not None:
            weights = np.asarray(np.floor(weights * part / 2**WEIGHT_BITS + 0.5), dtype=np.float64)
        yield weights


def _curvature(
    model: ResponseModel, rows: FloatArray, weighed: Iterable[FloatArray | None], heaviest: int
) -> FloatArray:
    """Return the curvature's upper triangle; no weight is above ``heaviest``."""
    (_, d), m = rows.shape, model.outputs
    whole = np.zeros((m, d, m, d))
    pairs = combinations_with_replacement(range(m), 2)
    for (k, other), weights in zip(pairs, weighed, strict=True):
        if weights is not None:
            check_bound(int(np.abs(weights).max(initial=0)), heaviest)
        whole[k, :, other] = rows.T @ (rows if weights is None else rows * weights[:, None])
    return whole.reshape(m * d, m * d)


def add_noise(sums: RoundSums, noise: RoundNoise, source: Source) -> RoundSums:
    """Add rounded-Gaussian noise to the sums; those without noise are dropped."""
    gradient = rounded_gaussians(noise.gradient, len(sums.gradient), source)
    size = len(gradient)

    def noisy_triangle(entries: Sequence[int], variance: Fraction | None) -> tuple[int, ...]:
        if variance is None:
            return ()
        straight = iter(rounded_gaussians(variance, size, source))
        across = iter(rounded_gaussians(variance / 2, len(entries) - size, source))
        pairs = zip(entries, combinations_with_replacement(range(size), 2), strict=True)
        return tuple(entry + next(straight if i == j else across) for entry, (i, j) in pairs)

    triangle = noisy_triangle(sums.curvature, noise.curvature)
    square = sums.square + rounded_gaussians(noise.square, 1, source)[0] if noise.square is not None else 0
    return RoundSums(
        tuple(a + b for a, b in zip(sums.gradient, gradient, strict=True)),
        triangle,
        square,
        noisy_triangle(sums.outer, noise.outer),
    )
