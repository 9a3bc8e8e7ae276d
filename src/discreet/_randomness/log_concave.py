"""Exact draws from a law with density e^h in a few dimensions, h concave, on a grid.

Rejection from an envelope that is constant on boxes around the centre and exponential beyond. A concave h
lies below its tangents, so on a box with centre c and half widths w it is at most h(c) + Σ|∂ᵢh(c)|wᵢ.
Beyond the outermost box, on whose faces h ≤ h(0) − t, it is at most h(0) − t·ρ at ρ times a point of a face,
because it is concave on the line from the centre. Weights are integers; a point is as many random bits as it
takes, and whether it is kept is decided by enclosures: no floating-point number decides. The output is the
cell of the grid that holds the point, exactly as if a real number had been drawn and rounded.
Proof: ``proofs/posterior-sampling.md``.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, product
from math import ceil, prod
from typing import TypeAlias

from discreet._numerics.enclosures import Ball, above, ball
from discreet._randomness.bulk import enclosed_digits
from discreet._randomness.cells import Uniform
from discreet._randomness.entropy import Source
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError

_FIRST = 128  # bits of precision to begin with
_DEPTH = 24  # by how much h falls to the faces of the outermost box
_SCALE = 1 << 80
_FIRST_REACH = Fraction(8)
_BOXES = 400

Point: TypeAlias = list[Fraction]
Proposal: TypeAlias = Callable[[], tuple[list[Ball], Ball]]
"""z and the density that it was drawn from, at the precision that is worked with: the same z every time."""


@dataclass(frozen=True)
class _Box:
    """Where z is within ``half`` of ``centre``, a bound on e^h there, and the tangent that gives it."""

    centre: Point
    half: Point
    most: float
    tangent: tuple[Point, Ball, list[Ball]] | None

    @property
    def volume(self) -> Fraction:
        return prod((2 * part for part in self.half), start=Fraction(1))

    @property
    def changes(self) -> list[float]:
        """By how much h changes along each axis, about."""
        slopes = [1.0] * len(self.half) if self.tangent is None else [abs(float(g)) for g in self.tangent[2]]
        return [slope * float(w) + float(w) ** 2 / 2 for slope, w in zip(slopes, self.half, strict=True)]

    def __lt__(self, other: _Box) -> bool:
        return self.centre < other.centre


class LogConcave:
    """The law of θ = centre + M z with log-density h, which ``exponent`` gives with its gradient, in balls.

    ``exponent`` returns None where θ, a ball on every axis, lies outside of the support for certain. The
    centre should be near the mode and M M' near the covariance; they only decide how long it takes.
    """

    def __init__(
        self,
        exponent: Callable[[Sequence[Ball]], tuple[Ball, Sequence[Ball]] | None],
        centre: FloatArray,
        scale: FloatArray,
    ) -> None:
        from flint import ctx

        self._exponent = exponent
        self._centre = [Fraction(value) for value in centre.tolist()]
        self._scale = [[Fraction(value) for value in row] for row in scale.tolist()]
        self._d = len(self._centre)
        with ctx.workprec(_FIRST):
            here = self._at([ball(0)] * self._d)
            if here is None or not here[0].is_finite():
                raise InvalidInputError(
                    "the law has no density at its centre: check the formula and the support"
                )
            self._reference = Fraction(float(here[0].mid()))
            self._reach = self._outermost(here[0])
            self._boxes = self._partition()
            rate = _DEPTH - self._d + 1
            beyond = (here[0] - ball(self._reference) - _DEPTH).exp() * self._d / rate
            most = above(beyond * ball((2 * self._reach) ** self._d))
        self._rate = rate
        masses = [Fraction(box.most) * box.volume for box in self._boxes] + [Fraction(most)]
        self.weights = [ceil(mass * _SCALE) for mass in masses]
        self._totals = list(accumulate(self.weights))

    def _theta(self, z: Sequence[Ball]) -> list[Ball]:
        return [ball(offset) + _dot(row, z) for offset, row in zip(self._centre, self._scale, strict=True)]

    def _at(self, z: Sequence[Ball]) -> tuple[Ball, list[Ball]] | None:
        """Return h and its gradient in z."""
        evaluation = self._exponent(self._theta(z))
        if evaluation is None:
            return None
        value, slopes = evaluation
        return value, [_dot(column, slopes) for column in zip(*self._scale, strict=True)]

    def _with_better_bound(self, centre: Point, half: Point, within: _Box | None = None) -> _Box | None:
        """Return a box with the better bound of its own tangent and that of the box around it.

        None where there is no mass.
        """
        from flint import arb

        whole = [ball(c) + arb(0, 1) * ball(w) for c, w in zip(centre, half, strict=True)]
        if self._exponent(self._theta(whole)) is None:
            return None
        evaluation = self._at([ball(c) for c in centre])
        finite = evaluation is not None and all(part.is_finite() for part in (evaluation[0], *evaluation[1]))
        tangents = [(centre, *evaluation)] if evaluation is not None and finite else []
        if within is not None and within.tangent is not None:
            tangents.append(within.tangent)
        best = _Box(centre, half, float("inf"), None)
        for tangent in tangents:
            at, height, slopes = tangent
            for slope, c, w, t in zip(slopes, centre, half, at, strict=True):
                height = height + slope * ball(c - t) + abs(slope) * ball(w)
            most = above((height - ball(self._reference)).exp())
            if most < best.most:
                best = _Box(centre, half, most, tangent)
        return best

    def _outermost(self, top: Ball) -> Fraction:
        """Half the width of a box on whose faces h is lower than at the centre by the depth."""
        least = float((top - ball(self._reference) - _DEPTH).exp().lower())

        def low(centre: Point, half: Point, splits: int, within: _Box | None = None) -> bool:
            box = self._with_better_bound(centre, half, within)
            if box is None or box.most <= least:
                return True
            if not splits:
                return False
            axis = max(range(self._d), key=lambda i: (half[i] > 0) * box.changes[i])
            return all(low(*part, splits - 1, box) for part in _halves(centre, half, axis))

        reach = _FIRST_REACH
        while reach < 2**14:
            sides = product(range(self._d), (-reach, reach))
            if all(low(*_face(self._d, axis, end, reach), 8 * (self._d - 1)) for axis, end in sides):
                return reach
            reach *= 2
        raise InvalidInputError(
            "the law has tails that are too long for an exact draw: take a stronger prior"
        )

    def _partition(self) -> list[_Box]:
        """Boxes, split where their mass and the change of h in them are largest."""
        whole = self._with_better_bound([Fraction(0)] * self._d, [self._reach] * self._d)
        heap: list[tuple[float, _Box]] = [] if whole is None else [(0.0, whole)]
        while 0 < len(heap) < _BOXES:
            box = heapq.heappop(heap)[1]
            axis = max(range(self._d), key=lambda i: box.changes[i])
            for centre, half in _halves(box.centre, box.half, axis):
                part = self._with_better_bound(centre, half, box)
                if part is not None:
                    excess = part.most * float(part.volume) * sum(part.changes)
                    heapq.heappush(heap, (-excess, part))
        return [box for _, box in heap]

    def draw(self, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """The middle of the cell of the grid, on every axis, that holds a draw."""
        while True:
            number = bisect_right(self._totals, source.below(self._totals[-1]))
            inside = number < len(self._boxes)
            point = self._in_box(self._boxes[number], source) if inside else self._beyond(source)
            if Uniform(source).below(partial(self._share, point, self.weights[number]), _FIRST):
                return tuple(self._cell(point, axis, grid) for axis in range(self._d))

    def _share(self, point: Proposal, weight: int) -> Ball:
        """Return the density divided by the envelope."""
        z, density = point()
        evaluation = self._at(z)
        if evaluation is None:
            return ball(0)
        ratio = (evaluation[0] - ball(self._reference)).exp() * _SCALE / (weight * density)
        if ratio > 1:
            raise InvalidInputError("the exponent is not concave: no log-partition function")
        return ratio

    def _cell(self, point: Proposal, axis: int, grid: Fraction) -> Fraction:
        number = enclosed_digits(lambda: self._theta(point()[0])[axis] / ball(grid), 0, _FIRST)
        return (number + Fraction(1, 2)) * grid

    def _in_box(self, box: _Box, source: Source) -> Proposal:
        uniform = [Uniform(source) for _ in range(self._d)]

        def point() -> tuple[list[Ball], Ball]:
            """z uniform in the box, and its density."""
            ends = zip(box.centre, box.half, uniform, strict=True)
            return [ball(c) + ball(w) * (2 * u.number() - 1) for c, w, u in ends], 1 / ball(box.volume)

        return point

    def _beyond(self, source: Source) -> Proposal:
        axis, positive = divmod(source.below(2 * self._d), 2)
        uniform = [Uniform(source) for _ in range(self._d)]

        def point() -> tuple[list[Ball], Ball]:
            """ρ times a uniform point of a face, ρ − 1 exponential, and its density."""
            far = -uniform[axis].number().log() / self._rate
            out = (1 + far) * ball(self._reach)
            z = [out * (2 * u.number() - 1) for u in uniform]
            z[axis] = out if positive else -out
            density = (-self._rate * far).exp() / (1 + far) ** (self._d - 1) * self._rate / self._d
            return z, density / ball((2 * self._reach) ** self._d)

        return point


def _dot(exact: Sequence[Fraction], balls: Sequence[Ball]) -> Ball:
    return sum((ball(m) * part for m, part in zip(exact, balls, strict=True)), start=ball(0))


def _halves(centre: Point, half: Point, axis: int) -> list[tuple[Point, Point]]:
    """A box cut in two across an axis."""
    width = half[axis] / 2
    shorter = [*half[:axis], width, *half[axis + 1 :]]
    return [([*centre[:axis], centre[axis] + s * width, *centre[axis + 1 :]], shorter) for s in (-1, 1)]


def _face(d: int, axis: int, end: Fraction, reach: Fraction) -> tuple[Point, Point]:
    centre, half = [Fraction(0)] * d, [reach] * d
    centre[axis], half[axis] = end, Fraction(0)
    return centre, half
