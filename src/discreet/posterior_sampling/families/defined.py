"""A family that you define: p(x | θ) = h(x)·exp(θ·S(x) − A(θ)) with one natural parameter θ.

Geumlek, Song and Chaudhuri (2017), A.1: η = (χ, ν), a record adds (S(x), 1), and the posterior has density
exp(χθ − νA(θ) − C(η)). C has no closed form here. Neighbours differ by at most t = r(hi − lo) in χ, and

    D_λ = ∫ G(s)·Var_{χ+s}(θ) ds,   G(s) = s up to t, then (λt − s)/(λ−1) up to λt, ∫ G = λt²/2,

for η_P = χ + t, η_Q = χ (their Lemma 1 without the loss), and its mirror image for the other order. A
variance between two χ is bounded cell by cell: with the law at the middle c of a cell, its mean m and
N(χ) = E_c[(θ−m)²e^{(χ−c)(θ−m)}], convex in χ, Jensen's inequality gives Var_χ ≤ N(χ) ≤ the larger of N at the
two ends. Expectations are sums over nodes in floats, with a margin: ``proofs/posterior-sampling.md``.
δ(ε) follows from the Rényi curve. Draws are exact: integrals by ball arithmetic, with bounds on the tails.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.data import clipped_sum
from discreet.declarations import as_bounds, as_exact
from discreet.errors import DataError, InvalidInput
from discreet.numerics.enclosures import Ball, ball
from discreet.posterior_sampling.family import Family, Natural, Pair, record_rows
from discreet.posterior_sampling.formulas import compiled, in_balls, in_floats, outermost
from discreet.randomness.cells import exact_cell, power_of_two
from discreet.randomness.entropy import Source

_CELLS, _NODES, _ROUNDS, _ZOOMS = 256, 400, 5, 12
_SLACK = 1 + 1e-6
_MOST_ORDERS = 64.0


@dataclass(frozen=True)
class DefinedFamily(Family):
    """A one-parameter exponential family from its formulas; made by :meth:`Family.define`.

    ``statistic``: S(x) as a formula of x; ``bounds``: its declared bounds, to which it is clipped.
    ``cumulant``: A as a formula of t, finite on ``support`` and convex, as every log-partition function is.
    ``means``: between which numbers the mean of S can be, those of ``bounds`` if not given. The prior is
    (mean, strength): what S is on average, and as how many records that counts.
    """

    bounds: tuple[float, float]
    cumulant: str
    statistic: str = "x"
    means: tuple[float, float] | None = None
    support: tuple[float, float] = (-math.inf, math.inf)
    name: ClassVar[str] = "defined"
    parameter: ClassVar[str] = "natural parameter"
    assumed: ClassVar[tuple[str, ...]] = (
        "the declared log-partition function is convex on its support; the bound is computed from it "
        "numerically, with a margin of 1e-6",
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_bounds(self.bounds, "S(x)"))
        ends = {"means": self.means or self.bounds, "support": self.support}
        for name, pair in ends.items():
            low, high = (float(end) for end in pair)
            if not low < high:
                raise InvalidInput(f"{name}={pair!r} must be (low, high) with low < high")
            object.__setattr__(self, name, (low, high))
        compiled(self.statistic, ("x",))
        compiled(self.cumulant, ("t",))

    def prior(self, parameters: Any) -> tuple[float, float]:
        try:
            mean, strength = (float(as_exact(value, "prior")) for value in parameters)
        except (TypeError, ValueError):
            mean = strength = math.nan
        low, high = self.means or self.bounds
        if not (strength > 0 and low < mean < high):
            raise InvalidInput(
                f"prior={parameters!r} must be (mean, strength) with a mean inside {low:g} – {high:g} and a "
                "positive strength, such as (0.5, 2)"
            )
        return mean, strength

    def public_prior(self, prior: tuple[float, float]) -> list[Any]:
        return list(prior)

    def natural(self, distribution: tuple[float, float]) -> Natural:
        mean, strength = map(Fraction, distribution)
        return mean * strength, strength

    def from_natural(self, eta: Natural) -> tuple[float, float]:
        return float(eta[0] / eta[1]), float(eta[1])

    def gathered(
        self, data: Any, column: str | None, options: Mapping[str, Any], people: Mapping[str, Any]
    ) -> tuple[Any, int]:
        values = in_floats(self.statistic, x=record_rows(data, people, 1, column)[:, 0])
        if np.isnan(values).any():
            raise DataError("S(x) must be a number for every record; for at least one it is not")
        summed = clipped_sum(values, bounds=self.bounds, **options)
        return self.of_grid(summed), summed.n

    def contribution(self, statistic: Any, n: int) -> Natural:
        return self.total(statistic, n), Fraction(n)

    def normalisable(self, eta: Natural) -> bool:
        low, high = self.means or self.bounds
        return eta[1] > 0 and low < eta[0] / eta[1] < high

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Neighbours at the two ends, in both orders: what tells up to which order anything is finite."""
        low, high = (eta[0] + r * n * Fraction(end) for end in self.bounds)
        move, strength = r * (Fraction(self.bounds[1]) - Fraction(self.bounds[0])), eta[1] + r * n
        pairs = [((at, strength), (at + move, strength)) for at in (low, high - move)]
        return [*pairs, *((second, first) for first, second in pairs)]

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        return []

    def renyi_bound(self, eta: Natural, n: int, r: Fraction, order: float) -> float:
        largest = _variances(self, eta, n, r)
        move = float(r) * (self.bounds[1] - self.bounds[0])
        low, high = (float(eta[0]) + float(r) * n * end for end in self.bounds)
        ends = 1 / (1 + np.exp(-np.linspace(-12.0, 12.0, _CELLS + 1)))
        at = low + max(0.0, high - move - low) * (ends - ends[0]) / (ends[-1] - ends[0])
        s = np.append(np.linspace(0, 1, 17), order - (order - 1) * np.linspace(1, 0, 33)[1:] ** 2) * move
        below = np.where(s <= move, s**2 / 2, order * move**2 / 2 - (order * move - s) ** 2 / (2 * order - 2))
        up = largest(at[:-1, None] + s[:-1], at[1:, None] + s[1:])
        down = largest(at[:-1, None] + move - s[1:], at[1:, None] + move - s[:-1])
        return _SLACK * max(float((side * np.diff(below)).sum(axis=1).max()) for side in (up, down))

    def reach(self, chi: float, nu: float, depth: float) -> tuple[float, float, float]:
        """Left and right of where exp(χθ − νA) matters, and the largest exponent seen."""
        (theta,), (log_weight,) = self.laws(np.array([chi]), nu, _NODES)
        weight, heights = np.exp(log_weight), chi * theta - nu * self.cumulants(theta)
        top = float(theta[log_weight.argmax()])
        spread = math.sqrt(float((weight * (theta - top) ** 2).sum()))
        best = float(heights[np.isfinite(heights)].max(initial=-math.inf))

        def depth_at(at: float) -> float:
            found = best - (chi * at - nu * float(self.cumulants(at)))
            return found if math.isfinite(found) else math.inf

        def outward(sign: int) -> float:
            near, at, step, end = top, top, spread / 4, self.support[sign > 0]
            for _ in range(2000):
                if depth_at(at) > depth:
                    break
                inside = abs(end - at) > 2 * step
                near = at
                at, step = (at + sign * step, 1.3 * step) if inside else ((at + end) / 2, step)
            else:
                raise InvalidInput(f"cumulant={self.cumulant!r} gives no law: check support and means")
            # A law that ends slowly at one side takes steps that are far too long for the other.
            while depth_at(at) > 2 * depth and (near + at) / 2 not in (near, at):
                middle = (near + at) / 2
                near, at = (near, middle) if depth_at(middle) > depth else (middle, at)
            return at

        return outward(-1), outward(1), best

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        return _mass(self, eta).log() + ball(_cuts(self, eta)[2])

    def cumulants(self, theta: Any) -> FloatArray:
        """A, in long doubles: exp(t) overflows late where log(1 + exp(t)) is asked for."""
        return in_floats(self.cumulant, t=np.asarray(theta, np.longdouble)).astype(np.longdouble)

    def laws(self, chi: FloatArray, nu: float, number: int) -> tuple[FloatArray, FloatArray]:
        """Nodes of θ for each χ, where its law has its mass, and their log-probabilities: a row each.

        The exponent is concave, so what lies within 60 of its maximum is one interval. Nodes that are too
        far apart to see it are at both sides of it, and the next ones lie between those.
        """
        low, high = self.support

        def place(u: FloatArray) -> tuple[FloatArray, FloatArray]:
            if math.isinf(low) and math.isinf(high):
                return np.sinh(u), np.log(np.cosh(u))
            if math.isinf(low) or math.isinf(high):
                return (high - np.exp(u) if math.isinf(low) else low + np.exp(u)), u
            part = 1 / (1 + np.exp(-u))
            return low + (high - low) * part, np.log(part * (1 - part))

        def heights(u: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta, slope = place(u)
            value = chi[:, None] * theta - nu * self.cumulants(theta) + slope
            return theta, np.where(np.isfinite(value), value, -np.inf)

        u, rows = np.linspace(-22.0, 22.0, 4001)[None], np.arange(len(chi))
        for _ in range(_ZOOMS):
            value = heights(u)[1]
            kept = value > value.max(axis=1, keepdims=True) - 60
            left, right = kept.argmax(axis=1) - 1, kept.shape[1] - kept[:, ::-1].argmax(axis=1)
            left, right = np.maximum(left, 0), np.minimum(right, kept.shape[1] - 1)
            u = np.broadcast_to(u, kept.shape)
            first, last = u[rows, left][:, None], u[rows, right][:, None]
            if (right - left >= 6).all():
                break
            u = first + (last - first) * np.linspace(0, 1, 61)
        u = first + (last - first) * np.linspace(0, 1, number)
        theta, value = heights(u)
        with np.errstate(invalid="ignore"):
            value = np.maximum(value - value.max(axis=1, keepdims=True), -1e4).astype(np.float64)
        total = np.exp(value).sum(axis=1, keepdims=True)
        return np.broadcast_to(theta, u.shape), value - np.log(total)

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        (theta,), (log_weight,) = self.laws(np.array([float(eta[0])]), float(eta[1]), 20_001)
        places = np.argsort(theta)
        below = np.cumsum(np.exp(log_weight[places]))

        whole: dict[int, Ball] = {}  # by the precision in force

        def cdf(end: Fraction) -> Ball:
            from flint import ctx

            balls = [ball(part) for part in eta]
            if ctx.prec not in whole:
                whole[ctx.prec] = _mass(self, balls)
            return _mass(self, balls, end) / whole[ctx.prec]

        return (exact_cell(cdf, lambda u: float(np.interp(u, below, theta[places])), grid, source),)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        return power_of_two(2 / ((self.bounds[1] - self.bounds[0]) * math.sqrt(eta[1] + r * n))) / 2**32

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        (theta,), (log_weight,) = self.laws(np.array([float(eta[0])]), float(eta[1]), 20_001)
        return rng.choice(theta, size, p=np.exp(log_weight))[:, None]


def _cuts(family: DefinedFamily, eta: Sequence[Ball]) -> tuple[float, float, float]:
    from flint import ctx

    chi, nu = (float(part.mid()) for part in eta)
    return family.reach(chi, nu, 0.7 * ctx.prec + 10)


def _mass(family: DefinedFamily, eta: Sequence[Ball], end: Fraction | None = None) -> Ball:
    """∫ exp(χθ − νA(θ) − shift) dθ over the support, or up to ``end``: an enclosure.

    The exponent is concave, so that beyond a cut it falls at least as fast as just before.
    """
    from flint import acb, arb

    left, right, shift = _cuts(family, eta)
    chi, nu, best = *eta, ball(shift)

    def density(theta: Any, analytic: bool) -> Any:
        return (chi * theta - nu * in_balls(family.cumulant, analytic, t=theta) - best).exp()

    def beyond(cut: float, end: float, inner: float) -> Ball:
        first, second = (density(arb(at), False) for at in (inner, cut))
        fall = (first / second).log() / abs(arb(cut) - arb(inner))
        if not fall > 0:
            raise InvalidInput(f"cumulant={family.cumulant!r} is not convex: no log-partition function")
        most = (second / fall).upper() if math.isinf(end) else (second * abs(arb(end) - arb(cut))).upper()
        return arb(most / 2, most / 2)

    inner = (0.9 * left + 0.1 * right, 0.1 * left + 0.9 * right)
    tails = [beyond(cut, end, at) for cut, end, at in zip((left, right), family.support, inner, strict=True)]
    if end is not None and end <= left:
        return tails[0]
    whole = end is None or end >= right
    upper = acb(arb(right)) if whole else acb(ball(end or Fraction(0)))
    inside = acb.integral(density, acb(arb(left)), upper).real
    return inside + tails[0] + (tails[1] if whole else 0)


@lru_cache(maxsize=256)
def _variances(family: DefinedFamily, eta: Natural, n: int, r: Fraction) -> Callable[..., FloatArray]:
    """A bound on the variance of θ between two χ, from cells that are dense towards where the law ends."""
    low, high = (float(eta[0]) + float(r) * n * end for end in family.bounds)
    nu, move = float(eta[1]) + float(r) * n, float(r) * (family.bounds[1] - family.bounds[0])
    first, last = (nu * end for end in family.means or family.bounds)
    first, last = max(first, low - _MOST_ORDERS * move), min(last, high + _MOST_ORDERS * move)
    cells = first + (last - first) / (1 + np.exp(-np.linspace(-7.0, 7.0, _CELLS + 1)))
    for _ in range(_ROUNDS):
        variance, bound = _in_cells(family, cells, nu, _NODES)
        wide = bound > 1.1 * variance
        if not wide.any() or len(cells) > 8 * _CELLS:
            break
        cells = np.sort(np.append(cells, ((cells[1:] + cells[:-1]) / 2)[wide]))
    bound, again = (_in_cells(family, cells, nu, nodes)[1] for nodes in (_NODES, 2 * _NODES))
    levels = [np.where(np.isclose(again, bound, rtol=_SLACK - 1, atol=0), again, np.inf)]
    while 2 ** len(levels) <= len(bound):  # the largest of 1, 2, 4, … cells from each on
        last_level, half = levels[-1], 2 ** (len(levels) - 1)
        levels.append(np.maximum(last_level, np.append(last_level[half:], np.full(half, np.inf))))
    table = np.stack(levels)

    def largest(left: FloatArray, right: FloatArray) -> FloatArray:
        start = np.clip(np.searchsorted(cells, left, "right") - 1, 0, len(bound) - 1)
        stop = np.clip(np.searchsorted(cells, right, "left"), start + 1, len(bound))
        level = np.log2(stop - start).astype(int)
        found = np.maximum(table[level, start], table[level, stop - 2**level])
        return np.where((left < cells[0]) | (right > cells[-1]), np.inf, found)

    return largest


def _in_cells(
    family: DefinedFamily, cells: FloatArray, nu: float, nodes: int
) -> tuple[FloatArray, FloatArray]:
    """The variance of θ in the middle of each cell, and a bound on it in the whole cell."""
    middles = (cells[1:] + cells[:-1]) / 2
    theta, log_weight = family.laws(middles, nu, nodes)
    # Exponents of which rounding left nothing to go by, or nodes too far apart, say nothing of a variance.
    some = theta[:, nodes // 2]
    size = np.abs(middles * some) + nu * np.abs(family.cumulants(some))
    precise = np.finfo(np.float64 if "lgamma" in family.cumulant else np.longdouble).eps
    seen = (size * precise < 1e-9) & (log_weight.max(axis=1) < math.log(0.25))
    away = theta - (np.exp(log_weight) * theta).sum(axis=1, keepdims=True)
    tilt = np.diff(cells)[:, None] / 2 * away
    squares = log_weight + 2 * np.log(np.maximum(np.abs(away), 1e-300))
    bounds, ends = [], outermost(log_weight > -9e3)
    for sign in (-1, 1):
        value = squares + sign * tilt
        largest = value.max(axis=1)
        cut = np.where(ends, value, -np.inf).max(axis=1) > largest - 25  # the nodes do not reach far enough
        found = np.exp(value - largest[:, None]).sum(axis=1) * np.exp(np.minimum(largest, 700.0))
        bounds.append(np.where(cut | ~seen, np.inf, found))
    return np.exp(squares).sum(axis=1), np.maximum(*bounds)
