"""The exact sums of a round, and the noise that goes on them: whole numbers from the records to the release.

In process the arithmetic is that of doubles that hold whole numbers below 2⁵³, so that BLAS adds them up
exactly, in any order; every block of records is short enough for that. Elsewhere it is SQL over 64-bit
integers (:mod:`discreet.regression._newton.records`). Both give the same integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import Relation
from discreet._randomness.gaussian import rounded_gaussians
from discreet._typing import FloatArray, IntArray
from discreet.errors import ContributionError, DataError
from discreet.regression._newton.design import Design, Variable
from discreet.regression._newton.models import Link, ResponseModel

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

_EXACT_BITS = 53


@dataclass(frozen=True)
class RoundNoise:
    """Variances of the noise on a round's sums, in their integers; None where that sum is not taken.

    Off the diagonal the curvature gets half of ``curvature``: these entries count twice in its norm.
    """

    gradient: Fraction
    curvature: Fraction | None
    square: Fraction | None


@dataclass(frozen=True)
class Round:
    """A round, public: where it looks, its noise, and its part of μ²."""

    link: Link
    noise: RoundNoise
    mu_squared: Fraction


@dataclass(frozen=True)
class RoundSums:
    """Whole numbers: the gradient by coefficient, the upper triangle of the curvature, Σ residual²."""

    gradient: tuple[int, ...]
    curvature: tuple[int, ...]
    square: int


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
    """The noise with which a round at ``link`` is μ-private, least for the gradient and the curvature
    together.

    One record's sums, divided by the deviations of the noise, have a squared length of at most r²N/s² +
    v²N²/s_H² + r⁴/s_q², N the longest squared row. Two records differ by at most 2(2r²N/s² + v²N²/s_H² +
    r⁴/s_q²) at the worst (r, v): see ``proofs/regression.md``. ``model.extremes`` lists what r and v can be
    at once. With s_H² = κs² the whole is F(κ)/s², and κ is chosen where log F(κ) + share·log κ is least.
    """
    residuals, weights, squares = model.extremes(link)
    rows = float(design.norm) ** 2
    twice = relation is not Relation.ADD_REMOVE
    gradient = residuals * rows * (2 if twice else 1)
    curvature = weights * rows**2
    largest = float(gradient.max())

    def whole(ratio: float, square_ratio: float, stride: int = 1) -> float:
        parts = gradient[::stride]
        if curvature_share:
            parts = parts + curvature[::stride] / ratio
        if square_share:
            parts = parts + squares[::stride] / square_ratio
        return float(parts.max())

    # Ratios are powers of √2 from public numbers only; any ratio is correct, the best is only better.
    ratio = square_ratio = 1.0
    if square_share:
        square_ratio = 2.0 ** round(math.log2(float(squares.max()) / (largest * square_share)))
    if curvature_share:
        start = math.log2(float(curvature.max()) / largest)
        ratios = [2.0 ** (round(2 * start) / 2 + step / 2) for step in range(-10, 24)]
        worth = [math.log(whole(r, square_ratio, 61)) + curvature_share * math.log(r) for r in ratios]
        ratio = ratios[int(np.argmin(worth))]
    exact = Fraction(ratio).limit_denominator(1 << 30) if ratio < 1e9 else Fraction(round(ratio))
    ratios_chosen = exact if curvature_share else None, Fraction(square_ratio) if square_share else None
    reached = exposure(model, design, link, relation, *ratios_chosen) * Fraction(per_person) ** 2
    variance = Fraction(math.ceil(reached / mu_squared))
    return RoundNoise(variance, *(None if factor is None else variance * factor for factor in ratios_chosen))


def exposure(
    model: ResponseModel,
    design: Design,
    link: Link,
    relation: Relation,
    curvature_ratio: Fraction | None,
    square_ratio: Fraction | None,
) -> Fraction:
    """Compute μ² of one record where the noise on the gradient has variance 1, rounded up.

    The ratios are variances of the other sums' noise to that of the gradient; None where a sum is not taken.
    """
    residuals, weights, squares = model.extremes(link)
    rows, twice = float(design.norm) ** 2, 1 if relation is Relation.ADD_REMOVE else 2
    parts = residuals * (rows * twice)
    if curvature_ratio is not None:
        parts = parts + weights * rows**2 / float(curvature_ratio)
    if square_ratio is not None:
        parts = parts + squares / float(square_ratio)
    return Fraction(float(parts.max()) * (1 + 1e-9) * twice)


def round_cost(model: ResponseModel, design: Design, turn: Round, relation: Relation) -> Fraction:
    """Compute μ² of a round for one record, from the noise that it says it has.

    Raises
    ------
    ValueError
        If a variance is not positive, or the noise is another than what its part of μ² asks for.
    """
    noise = turn.noise
    variances = [
        variance for variance in (noise.gradient, noise.curvature, noise.square) if variance is not None
    ]
    if min(variances) <= 0:
        raise ValueError("the variance of a round's noise must be positive")
    curvature, square = (
        None if variance is None else variance / noise.gradient
        for variance in (noise.curvature, noise.square)
    )
    return exposure(model, design, turn.link, relation, curvature, square) / noise.gradient


@dataclass(frozen=True)
class RowBlock:
    """Records as integer rows and responses."""

    rows: npt.NDArray[Any]
    response: IntArray

    @property
    def size(self) -> int:
        """In bytes."""
        return int(self.rows.nbytes + self.response.nbytes)


def records(design: Design, codes: Sequence[IntArray]) -> RowBlock:
    """Rows and responses of records by their codes; an undeclared value is an error, or leaves them out."""
    keep = locate((*design.variables, design.response), codes)
    if keep is not None:
        codes = [values[keep] for values in codes]
    rows = np.asarray(design.rows(codes[:-1], len(codes[-1])), dtype=np.int16)  # none is longer than 2¹⁴
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.int64)
    check_bound(int(squares.max(initial=0)), design.norm**2)
    # The response is copied, or it would keep the engine's whole batch in memory.
    return RowBlock(rows, np.array(codes[-1]))


def check_bound(largest: int, bound: int) -> None:
    """What a record adds, as it is about to be summed, against what the noise is made for."""
    if largest > bound:
        raise ContributionError(
            "a record would contribute more than the noise covers, so nothing was released: this is a "
            "bug in discreet, please report it (SECURITY.md)"
        )


def locate(variables: Sequence[Variable], codes: Sequence[IntArray]) -> Any:
    """Which records have a declared value of every variable; None where all have."""
    keep: Any = None
    for variable, values in zip(variables, codes, strict=True):
        out = values >= variable.coder.size
        if not out.any():
            continue
        if not (variable.excluded and (values[out] == variable.coder.size + 1).all()):
            raise undeclared_error(variable.name, bool((values == variable.coder.size).any()))
        keep = ~out if keep is None else keep & ~out
    return keep


def undeclared_error(name: str, unknown: bool, wayout: str | None = None) -> DataError:
    """Records without a place; not how many, which is private where the number of records is."""
    if unknown:
        return DataError(
            f"column {name!r}: some records hold a value that is not declared, or no number where one is "
            "asked for (with a decimal point, not a comma); add the level, or declare other=LEVEL"
        )
    wayout = f"say missing={{{name!r}: 'exclude'}}, or a value or level" if wayout is None else wayout
    return DataError(f"column {name!r}: some records are missing; {wayout}")


def exact_sums(
    model: ResponseModel, design: Design, link: Link, blocks: Iterable[RowBlock], curvature: bool = True
) -> RoundSums:
    """The sums of all records, exactly; in pieces in which no sum reaches 2⁵³."""
    size, square = design.d * model.outputs, 0
    upper = np.triu_indices(size if curvature else 0)
    gradient, triangle = np.zeros(size, dtype=object), np.zeros(len(upper[0]), dtype=object)
    point = np.array(link.point, dtype=np.float64).reshape(model.outputs, design.d)
    residual, weight, squared = (math.isqrt(math.ceil(extreme.max())) for extreme in model.extremes(link))
    largest = max(residual * design.norm, weight * design.norm**2, squared) + 1  # of any one record
    step = 1 << max(0, _EXACT_BITS - largest.bit_length())
    for block in blocks:
        for start in range(0, len(block.response), step):
            rows = np.asarray(block.rows[start : start + step], dtype=np.float64)
            response = block.response[start : start + step]
            raw = rows @ point.T
            predictor = np.clip(np.floor(raw * 2.0**-link.shift + 0.5), -link.reach, link.reach)
            residuals = model.residuals(link, predictor, response)
            check_bound(int(np.abs(residuals).max(initial=0)), residual)
            gradient += (residuals.T @ rows).ravel().astype(np.int64)
            if model.squares:
                square += int(np.vdot(residuals, residuals))
            if curvature:
                triangle += _curvature(model, link, rows, predictor, weight)[upper].astype(np.int64)
    return RoundSums(tuple(gradient.tolist()), tuple(triangle.tolist()), square)


def _curvature(
    model: ResponseModel, link: Link, rows: FloatArray, predictor: FloatArray, heaviest: int
) -> FloatArray:
    """The curvature, of which only the upper triangle is filled; no weight is above ``heaviest``."""
    (_, d), m = rows.shape, model.outputs
    whole = np.zeros((m, d, m, d))
    pairs = combinations_with_replacement(range(m), 2)
    for (k, other), weights in zip(pairs, model.weights(link, predictor), strict=True):
        if weights is not None:
            check_bound(int(np.abs(weights).max(initial=0)), heaviest)
        whole[k, :, other] = rows.T @ (rows if weights is None else rows * weights[:, None])
    return whole.reshape(m * d, m * d)


def add_noise(sums: RoundSums, noise: RoundNoise, source: Source) -> RoundSums:
    """The sums with rounded-Gaussian noise on each; what is not noised is not there."""
    gradient = rounded_gaussians(noise.gradient, len(sums.gradient), source)
    triangle: list[int] = []
    if noise.curvature is not None:
        size, number = len(sums.gradient), len(sums.curvature)
        straight = iter(rounded_gaussians(noise.curvature, size, source))
        across = iter(rounded_gaussians(noise.curvature / 2, number - size, source))
        pairs = zip(sums.curvature, combinations_with_replacement(range(size), 2), strict=True)
        triangle = [entry + next(straight if i == j else across) for entry, (i, j) in pairs]
    square = sums.square + rounded_gaussians(noise.square, 1, source)[0] if noise.square is not None else 0
    return RoundSums(
        tuple(a + b for a, b in zip(sums.gradient, gradient, strict=True)), tuple(triangle), square
    )
