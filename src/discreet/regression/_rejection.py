"""Exact draws of logistic coefficients from the posterior, decided without floating-point numbers.

The posterior is e^{−U} with U(w) = ρL(w) + (m/2)‖w‖² and L(w) = Σ log(1 + e^{−v·w}) over signed rows v = y·x.
L is convex and so lies above its tangent at any z. Candidates come from N(−ρ∇L(z)/m, I/m) and are kept with
probability r = exp(−ρ[L(w) − L(z) − ∇L(z)·(w − z)]); those kept are draws from e^{−U}. All numbers are
treated as reals: a candidate is Φ⁻¹ of uniform bits, r is enclosed by ball arithmetic, and another uniform
number is compared with it. Bits are drawn and enclosures narrowed until the comparison is certain. The
multiple of the public grid nearest to the draw is published. Proof: ``proofs/logistic.md``, 2.

The running time depends on the data and is not published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.enclosures import Ball, ball
from discreet._randomness.bulk import enclosed_digits
from discreet._randomness.cells import Uniform
from discreet._randomness.entropy import Source
from discreet._typing import FloatArray
from discreet.errors import NotPrivateError
from discreet.regression._chain import DrawDesign, loss_gradient, one_thread

ROWS_PER_BLOCK = 64  # after so many a candidate may be dropped
_FIRST = 128  # bits of precision, of which a candidate's numbers have 64


def rejection(design: DrawDesign, signed: FloatArray, source: Source) -> FloatArray:
    """Return ``design.draws`` draws from e^{−U} over signed rows, shape (draws, d), on the public grid."""
    check_rows(signed, design.n, design.norm_squared)

    def _potential(w: FloatArray) -> tuple[float, FloatArray]:
        value = float(design.weight * np.logaddexp(0.0, -(signed @ w)).sum() + design.precision / 2 * w @ w)
        return value, design.weight * loss_gradient(signed, w) + design.precision * w

    with one_thread():
        z = near_mode(_potential, design.dimension)
    tangent = Tangent(signed, z, Fraction(design.weight), Fraction(design.precision))
    drawn = [tangent.draw(design.grid, source) for _ in range(design.draws)]
    return np.array([[float(value) for value in draw] for draw in drawn], dtype=np.float64)


def check_rows(rows: FloatArray, n: int, norm_squared: Fraction) -> None:
    """Refuse rows that are not n in number, or that exceed the norm bound, in rational arithmetic."""
    longest = Fraction(float(np.einsum("ij,ij->i", rows, rows).max()))
    # A sum of d squares in doubles is within d + 1 last places of the sum, in any order.
    if len(rows) != n or longest * (1 + (rows.shape[1] + 2) * Fraction(1, 2**52)) > norm_squared:
        raise NotPrivateError("rows must be the n rows of the design, clipped to its norm bound")


class Tangent:
    """The posterior and its tangent at z, as balls at the working precision."""

    def __init__(self, signed: FloatArray, z: FloatArray, weight: Fraction, precision: Fraction) -> None:
        from flint import arb_mat

        blocks = range(0, len(signed), ROWS_PER_BLOCK)
        self.rows = [arb_mat(signed[start : start + ROWS_PER_BLOCK].tolist()) for start in blocks]
        self.z = arb_mat([[value] for value in z.tolist()])
        self.weight, self.precision = weight, precision
        self._known: dict[int, list[tuple[Ball, Any]]] = {}

    def draw(self, grid: Fraction, source: Source) -> list[Fraction]:
        """Return one draw, rounded to the nearest multiple of the grid in each coordinate."""
        while True:
            w = Candidate(self, [Uniform(source) for _ in range(self.z.nrows())])
            if w.is_accepted(Uniform(source)):
                return [w.nearest(i, grid) for i in range(self.z.nrows())]

    def at_z(self) -> list[tuple[Ball, Any]]:
        """Return e^loss at z of the first 0, 1, 2, … blocks of rows, each with the gradient of that loss."""
        from flint import arb, arb_mat, ctx

        if ctx.prec not in self._known:
            product, gradient = arb(1), arb_mat(1, self.z.nrows())
            products = [(product, gradient)]
            for block, rows in enumerate(self.rows):
                scores = (rows * self.z).entries()
                product *= self.likelihood_ratio(block, scores)
                gradient = gradient + arb_mat([self.slopes(block, scores)]) * rows
                products.append((product, gradient))
            self._known[ctx.prec] = products
        return self._known[ctx.prec]

    def likelihood_ratio(self, block: int, scores: list[Ball]) -> Ball:
        """Return e^loss of a block's rows, Π(1 + e^{−t}) over their scores t."""
        from flint import arb

        product = arb(1)
        for t in scores:
            product *= 1 + (-t).exp()
        return product

    def slopes(self, block: int, scores: list[Ball]) -> list[Ball]:
        """Return the derivative of each row's loss with respect to its score."""
        odds = [(-t).exp() for t in scores]
        return [-ratio / (1 + ratio) for ratio in odds]

    def centre(self) -> Any:
        """The mean of the candidates, −ρ∇L(z)/m."""
        return self.at_z()[-1][1].transpose() * ball(-self.weight / self.precision)


class Candidate:
    """A candidate w = −ρ∇L(z)/m + ξ/√m with independent standard normal ξ: the same at every precision."""

    def __init__(self, tangent: Tangent, normals: Sequence[Uniform]) -> None:
        self._tangent, self._normals = tangent, normals
        self._known: dict[int, tuple[Any, list[Ball]]] = {}

    def point(self) -> tuple[Any, list[Ball]]:
        """Return w, and e^loss at w of the first 0, 1, 2, … blocks together, as far as was needed."""
        from flint import arb, arb_mat, ctx

        if ctx.prec not in self._known:
            scale = ball(self._tangent.precision).rsqrt()
            shift = arb_mat([[normal.normal() * scale] for normal in self._normals])
            self._known[ctx.prec] = self._tangent.centre() + shift, [arb(1)]
        return self._known[ctx.prec]

    def share(self, blocks: int) -> Ball:
        """Return exp(−ρ[L(w) − L(z) − ∇L(z)·(w − z)]) with L summed over the first ``blocks`` blocks."""
        tangent, (w, products) = self._tangent, self.point()
        for block in range(len(products) - 1, blocks):
            scores = (tangent.rows[block] * w).entries()
            products.append(products[-1] * tangent.likelihood_ratio(block, scores))
        at_z, gradient = tangent.at_z()[blocks]
        above = (products[blocks] / at_z).log() - (gradient * (w - tangent.z))[0, 0]
        return (-ball(tangent.weight) * above).exp()

    def is_accepted(self, level: Uniform) -> bool:
        """Return whether the uniform number is below r; as all terms are non-negative, a few blocks may
        suffice."""
        blocks = range(1, len(self._tangent.rows) + 1)
        return all(level.below(partial(self.share, number), _FIRST) for number in blocks)

    def nearest(self, coordinate: int, grid: Fraction) -> Fraction:
        """Return the multiple of the grid nearest to the coordinate."""

        def place() -> Ball:
            return self.point()[0][coordinate, 0] / ball(grid) + ball(Fraction(1, 2))

        return grid * enclosed_digits(place, 0, _FIRST)


def near_mode(potential: Callable[[FloatArray], tuple[float, FloatArray]], dimension: int) -> FloatArray:
    """Return a point near the minimum of a convex function, given as a function with its gradient.

    The point only affects the acceptance rate: the tangent at any point bounds the likelihood.
    """
    from scipy.optimize import minimize

    options = {"ftol": 1e-14, "gtol": 1e-9, "maxiter": 1000}
    result = minimize(potential, np.zeros(dimension), jac=True, method="L-BFGS-B", options=options)
    return np.asarray(result.x, dtype=np.float64)
