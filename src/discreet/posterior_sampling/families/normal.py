"""Numbers with unknown mean and unknown variance: the normal-inverse-gamma family.

With precision τ = 1/σ² the prior is τ ~ Gamma(a, b), μ | τ ~ N(c, 1/(κτ)). Coordinates
η = (κ, κc, b + κc²/2, a), to which a record x adds (1, x, x²/2, ½), and C = lnΓ(a) − a·ln b − ½·ln κ.
Neighbours have the same κ and a, so D_λ depends on the two b and on the difference g of their second
coordinates alone:

    D_λ = a/(λ−1)·[λ ln b_P − ln b_L − (λ−1) ln b_Q],   b_L = λ b_P − (λ−1) b_Q − λ(λ−1) g²/2κ.

It grows with g², falls when both b grow by the same amount, grows with b_Q ≥ b_P, and is quasi-convex in
b_P. So with b between b₀ (the prior's) and b₁ (one record as far from all the rest as the bounds allow) and
g ≤ r·width it is largest at one of three corners. They are attained where the prior mean is an end of the
bounds, and else a bound. δ(ε) follows from the Rényi curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.data import ClippedSum
from discreet.declarations import as_bounds, as_exact, as_total
from discreet.errors import InvalidInput
from discreet.numerics.enclosures import Ball, ball
from discreet.posterior_sampling.family import Family, Natural, Pair, clipped_words
from discreet.randomness.cells import exact_cell, power_of_two
from discreet.randomness.entropy import Source


@dataclass(frozen=True)
class NormalFamily(Family):
    """Mean and standard deviation of numbers that are clipped to declared bounds.

    The prior is (mean, strength κ, shape a, rate b): the mean weighs as much as κ records, and the variance
    is about b/a. The statistic is (Σx, Σx²).
    """

    bounds: tuple[float, float]
    name: ClassVar[str] = "normal"
    parameters: ClassVar[tuple[str, ...]] = ("mean", "standard deviation")

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_bounds(self.bounds, "one record"))

    def prior(self, parameters: Any) -> tuple[float, ...]:
        try:
            values = tuple(float(as_exact(value, "prior")) for value in parameters)
        except TypeError:
            values = ()
        if len(values) != 4 or not min(values[1:]) > 0:
            raise InvalidInput(
                f"prior={parameters!r} must be (mean, strength, shape, rate), the last three positive, "
                "such as (0, 1, 2, 2)"
            )
        return values

    def public_prior(self, prior: tuple[float, ...]) -> list[Any]:
        return list(prior)

    def natural(self, distribution: tuple[float, ...]) -> Natural:
        centre, strength, shape, rate = map(Fraction, distribution)
        return strength, strength * centre, rate + strength * centre**2 / 2, shape

    def from_natural(self, eta: Natural) -> tuple[float, ...]:
        return float(eta[1] / eta[0]), float(eta[0]), float(eta[3]), float(_rate(eta))

    def of_grid(self, summed: ClippedSum) -> tuple[Fraction, Fraction]:
        low, high = map(Fraction, self.bounds)
        step = (high - low) / summed.steps
        first, second = step * summed.grid_sum, step**2 * summed.grid_squares
        return summed.n * low + first, summed.n * low**2 + 2 * low * first + second

    def contribution(self, statistic: Any, n: int) -> Natural:
        try:
            total, squares = statistic
        except (TypeError, ValueError):
            raise InvalidInput("the statistic must be (Σx, Σx²)") from None
        low, high = map(Fraction, self.bounds)
        total, squares = as_total(total, n * low, n * high), as_exact(squares, "the statistic")
        if not total**2 <= n * squares <= n * ((low + high) * total - n * low * high):
            raise InvalidInput("the statistic (Σx, Σx²) is that of no records within the bounds")
        return Fraction(n), total, squares / 2, Fraction(n, 2)

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        strength, height, square, shape = eta
        rate = square - height * height / (2 * strength)
        return shape.lgamma() - shape * rate.log() - strength.log() / 2

    def normalisable(self, eta: Natural) -> bool:
        return eta[0] > 0 and eta[3] > 0 and _rate(eta) > 0

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        low, high = map(Fraction, self.bounds)
        others, shape = eta[0] + r * (n - 1), eta[3] + r * n / 2
        strength = others + r
        centres = [(eta[1] + r * (n - 1) * end) / others for end in (low, high)]
        farthest = max(abs(end - centre) for end in (low, high) for centre in centres)
        least, move = _rate(eta), r * (high - low)
        most = least + r * others / (2 * strength) * farthest**2

        def pair(first: Fraction, second: Fraction) -> Pair:
            moved = (strength, move, first + move**2 / (2 * strength), shape)
            return moved, (strength, Fraction(0), second, shape)

        return [pair(least, least), pair(most, least), pair(least, most)]

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        return []

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        return power_of_two(math.sqrt(_rate(eta) / ((eta[3] + r * n / 2) * (eta[0] + r * n)))) / 2**32

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        deviation = rng.gamma(float(eta[3]), 1 / float(_rate(eta)), size) ** -0.5
        centre = float(eta[1] / eta[0]) + deviation * rng.standard_normal(size) / math.sqrt(eta[0])
        return np.stack([centre, deviation], axis=1)

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """The standard deviation in a cell so fine that it decides the cell of the mean given it.

        It would not with probability below 2⁻⁵⁰; then there is an error, and no draw.
        """
        from flint import arb, fmpq
        from scipy.special import gammainccinv, ndtri

        strength, shape, rate, centre = eta[0], eta[3], _rate(eta), eta[1] / eta[0]

        def below(deviation: Fraction) -> Ball:
            if deviation <= 0:
                return ball(0)
            return ball(rate / deviation**2).gamma_upper(ball(shape), regularized=1)

        def guess(u: float) -> float:
            return math.sqrt(float(rate) / float(gammainccinv(float(shape), u)))

        fine = grid / 2**64 / math.ceil(float(grid) / math.sqrt(rate / shape))
        found = exact_cell(below, guess, fine, source)
        middle, radius = (fmpq(value.numerator, value.denominator) for value in (found, fine))

        def left(theta: Fraction) -> Ball:
            deviation = arb(middle) + arb(0, 1) * arb(radius)
            return ((ball(centre - theta) * (ball(strength) / 2).sqrt() / deviation).erfc()) / 2

        def near(u: float) -> float:
            return float(centre) + float(found) / math.sqrt(strength) * float(ndtri(u))

        return exact_cell(left, near, grid, source), (found // grid + Fraction(1, 2)) * grid

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        centre, strength, shape, rate = prior
        said = f"mean {centre:g}, as much as {strength:g} records; variance about {rate / shape:g}"
        return f"mean and standard deviation of numbers{clipped_words(self.bounds)}", said


def _rate(eta: Natural) -> Fraction:
    """b of the coordinates."""
    return eta[2] - eta[1] ** 2 / (2 * eta[0])
