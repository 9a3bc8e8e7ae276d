"""Exact draws, rounded to a grid, from a density e^h on the real line with h concave.

This is rejection sampling. The envelope is constant on intervals around the centre, and exponential beyond
them. A concave h lies below its tangents, so on an interval with centre c and half width w it is at most h(c)
+ |h′(c)|w. At the ends of the outermost interval h ≤ h(0) − t; so by concavity h ≤ h(0) − t·ρ at ρ ≥ 1 times
an end. The weights of the pieces are integers, a proposed point has as many random bits as needed, and
acceptance is decided by rigorous enclosures, never by floating-point numbers. The output is the grid cell of
the accepted point, exactly as if a real number had been drawn and then rounded. Proof:
``proofs/posterior-sampling.md``.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate
from math import ceil
from typing import TypeAlias

from discreet._numerics.enclosures import Ball, above, ball
from discreet._randomness.bulk import enclosed_digits
from discreet._randomness.cells import Uniform
from discreet._randomness.entropy import Source
from discreet.errors import InvalidInputError

_FIRST = 128  # bits of precision to begin with
_DEPTH = 24  # by how much h falls to the ends of the outermost interval
_SCALE = 1 << 80
_FIRST_REACH = Fraction(8)
_PIECES = 400

Proposal: TypeAlias = Callable[[], tuple[Ball, Ball]]
"""Returns balls around a proposed z and the envelope's density there, at the current working precision."""


@dataclass(frozen=True)
class _Piece:
    """A piece of the envelope: the interval of z within ``half`` of ``centre``, and a bound on e^h there."""

    centre: Fraction
    half: Fraction
    most: float
    tangent: tuple[Fraction, Ball, Ball] | None

    @property
    def excess(self) -> float:
        """Return roughly the mass of the piece times the change of h in it; large values are halved first."""
        slope = 1.0 if self.tangent is None else abs(float(self.tangent[2]))
        width = float(self.half)
        return self.most * 2 * width * (slope * width + width**2 / 2)

    def __lt__(self, other: _Piece) -> bool:
        return self.centre < other.centre


class LogConcave:
    """The distribution of θ = centre + scale·z with a concave log-density h.

    ``exponent`` returns h and its slope at θ, as balls, or None if θ is certainly outside the support. The
    centre should be near the mode, and the scale near the standard deviation; they only affect the speed.
    """

    def __init__(
        self, exponent: Callable[[Ball], tuple[Ball, Ball] | None], centre: float, scale: float
    ) -> None:
        from flint import ctx

        self._exponent = exponent
        self._centre, self._scale = Fraction(centre), Fraction(scale)
        with ctx.workprec(_FIRST):
            here = self._at(ball(0))
            if here is None or not here[0].is_finite():
                raise InvalidInputError(
                    "the density is zero at the centre of the distribution: check the formula and the support"
                )
            self._reference = Fraction(float(here[0].mid()))
            at_ends = (here[0] - ball(self._reference) - _DEPTH).exp()
            self._reach = self._outermost(float(at_ends.lower()))
            self._pieces = self._partition()
            most = above(at_ends / _DEPTH * ball(2 * self._reach))
        masses = [Fraction(piece.most) * 2 * piece.half for piece in self._pieces] + [Fraction(most)]
        self.weights = [ceil(mass * _SCALE) for mass in masses]
        self._totals = list(accumulate(self.weights))

    def _theta(self, z: Ball) -> Ball:
        return ball(self._centre) + ball(self._scale) * z

    def _at(self, z: Ball) -> tuple[Ball, Ball] | None:
        """Return h and its derivative with respect to z, or None outside the support."""
        evaluation = self._exponent(self._theta(z))
        return None if evaluation is None else (evaluation[0], evaluation[1] * ball(self._scale))

    def _with_better_bound(
        self, centre: Fraction, half: Fraction, within: _Piece | None = None
    ) -> _Piece | None:
        """Return a piece bounded by its own tangent or by the piece ``within``, whichever bound is smaller.

        Returns None if the density is zero there.
        """
        from flint import arb

        if self._exponent(self._theta(ball(centre) + arb(0, 1) * ball(half))) is None:
            return None
        here = self._at(ball(centre))
        tangents = [] if within is None or within.tangent is None else [within.tangent]
        if here is not None and here[0].is_finite() and here[1].is_finite():
            tangents.append((centre, *here))
        best = _Piece(centre, half, float("inf"), None)
        for tangent in tangents:
            at, height, slope = tangent
            height = height + slope * ball(centre - at) + abs(slope) * ball(half)
            most = above((height - ball(self._reference)).exp())
            if most < best.most:
                best = _Piece(centre, half, most, tangent)
        return best

    def _outermost(self, least: float) -> Fraction:
        """Return the half width of an interval around 0 at whose ends the density is at most ``least``."""
        reach = _FIRST_REACH
        while reach < 2**14:
            ends = (self._with_better_bound(end, Fraction(0)) for end in (-reach, reach))
            if all(end is None or end.most <= least for end in ends):
                return reach
            reach *= 2
        raise InvalidInputError(
            "the tails of the posterior are too heavy for an exact draw: use a stronger prior"
        )

    def _partition(self) -> list[_Piece]:
        """Return the pieces of the envelope; those with the largest ``excess`` are halved repeatedly."""
        whole = self._with_better_bound(Fraction(0), self._reach)
        heap: list[tuple[float, _Piece]] = [] if whole is None else [(0.0, whole)]
        while 0 < len(heap) < _PIECES:
            piece = heapq.heappop(heap)[1]
            half = piece.half / 2
            for centre in (piece.centre - half, piece.centre + half):
                part = self._with_better_bound(centre, half, piece)
                if part is not None:
                    heapq.heappush(heap, (-part.excess, part))
        return [piece for _, piece in heap]

    def draw(self, grid: Fraction, source: Source) -> Fraction:
        """Draw θ, rounded to the middle of a grid cell."""
        while True:
            number = bisect_right(self._totals, source.below(self._totals[-1]))
            inside = number < len(self._pieces)
            point = self._in_piece(self._pieces[number], source) if inside else self._beyond(source)
            if Uniform(source).below(partial(self._share, point, self.weights[number]), _FIRST):
                cell = enclosed_digits(lambda: self._theta(point()[0]) / ball(grid), 0, _FIRST)  # noqa: B023
                return (cell + Fraction(1, 2)) * grid

    def _share(self, point: Proposal, weight: int) -> Ball:
        """Return the acceptance probability of a proposed point: density divided by envelope."""
        z, density = point()
        evaluation = self._at(z)
        if evaluation is None:
            return ball(0)
        ratio = (evaluation[0] - ball(self._reference)).exp() * _SCALE / (weight * density)
        if ratio > 1:
            raise InvalidInputError("the exponent is not concave: check the formula of A(t)")
        return ratio

    def _in_piece(self, piece: _Piece, source: Source) -> Proposal:
        """Propose z, uniform in the piece."""
        uniform = Uniform(source)
        density = 1 / (2 * piece.half)
        return lambda: (
            ball(piece.centre) + ball(piece.half) * (2 * uniform.number() - 1),
            ball(density),
        )

    def _beyond(self, source: Source) -> Proposal:
        """Propose z beyond the outermost interval: ρ times one of its ends, with ρ − 1 exponential."""
        side, uniform = 2 * source.below(2) - 1, Uniform(source)

        def point() -> tuple[Ball, Ball]:
            far = -uniform.number().log() / _DEPTH
            z = side * (1 + far) * ball(self._reach)
            return z, (-_DEPTH * far).exp() * _DEPTH / ball(2 * self._reach)

        return point
