"""Families of two or three parameters that you define: p(x | θ) = h(x)·exp(θ·S(x) − A(θ)), as ``defined.py``.

S(x) is kept in a body K, the hull of finitely many corners. With the covariance of θ, the second derivative
of C, and the largest variance that a move of one record can meet,

    Ψ(ρ) = r² · sup {(p−q)'Cov_χ(θ)(p−q): p, q corners, χ ∈ η₀/m + rnK + ρr(K − K)},

any two neighbours have D_λ ≤ Ψ(0)/2 + ∫₀^{λ−1} (1 − ρ/(λ−1)) Ψ(ρ) dρ. The supremum is bounded on simplices
that cover the set and are split where it matters: in one with centre c, mean m there, and corners χⱼ,
Cov_χ ≤ E_c[(θ−m)(θ−m)'e^{(χ−c)·(θ−m)}], convex in χ. C is self-concordant, because no log-concave law has a
skewness above 2: that bounds covariances beyond the simplices, and in those that are far from the worst. How
many simplices and laws there may be is fixed: where these do not suffice the bound is infinite. Expectations
are sums over nodes in floats, with a margin. Proof: ``proofs/posterior-sampling.md``. δ(ε) follows from the
Rényi curve.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.data import clipped_sum
from discreet.declarations import as_bounds
from discreet.errors import InvalidInput, TooLargeError
from discreet.posterior_sampling.families.defined import FormulaFamily
from discreet.posterior_sampling.family import Natural, RecordKind, numbers, sum_on_grid
from discreet.posterior_sampling.formulas import compiled, in_floats, outermost

_NODES = {
    2: ((37, 7.6, 2), (57, 8.6, 2), (113, 8.6, 2)),
    3: ((27, 7.15, 4), (33, 8.3, 3), (57, 8.6, 2)),
}
"""By the number of parameters: nodes on an axis, how far they go on a scale that is stretched at its ends,
and where the stretch begins: few, more, and many."""
_SLACK, _AGREE = 1 + 3e-3, 3e-3  # what every second node misses is added to what all of them tell
_DEEP = 30.0
_MOST_MOVES = {2: 32.0, 3: 1.0}
_MOST_CELLS, _MOST_VALUES = {2: 6000, 3: 4000}, 32
_CLOSE = {2: 1.12, 3: 1.4}  # cells are split whose bound is so much above what is attained
_LOOSE, _SHORT = 0.15, 0.1
_AT_ONCE = 50_000
_MOST_LAWS, _NEAR = 200, 1.5  # of three parameters: laws whose nodes serve others up to so far away


@dataclass(frozen=True)
class DefinedVector(FormulaFamily):
    """An exponential family with two or three parameters from its formulas; made by :meth:`Family.define`.

    ``statistic``: S(x), a formula for each parameter, of x, or of x1, x2, … for records of several numbers.
    ``cumulant``: A as a formula of t1, t2, …, finite on ``support`` (low and high for each) and convex.
    ``box``: low and high of each part of S, to which it is clipped, or ``values``: all values of S, of which
    the nearest counts.
    """

    cumulant: str
    statistic: tuple[str, ...]
    box: tuple[tuple[float, float], ...] | None = None
    values: tuple[tuple[float, ...], ...] | None = None
    support: tuple[tuple[float, float], ...] | None = None
    name: ClassVar[str] = "defined-vector"
    records: ClassVar[RecordKind] = "vectors"
    reads: ClassVar[tuple[str, ...]] = ()
    work: ClassVar[float] = 3.0
    scaled_to: ClassVar[float] = 1e-3
    assumed: ClassVar[tuple[str, ...]] = (
        "the declared log-partition function is convex on its support; the bound is computed from it "
        "numerically, with a margin of 3e-3",
    )

    def __post_init__(self) -> None:
        parts = self.statistic.split(",") if isinstance(self.statistic, str) else self.statistic
        self.keep(statistic=tuple(str(part).strip() for part in parts))
        if len(self.statistic) not in _NODES:
            raise InvalidInput(
                f"statistic={self.statistic!r} must be one formula, or two or three such as ('x', 'x**2'): "
                "more parameters are not supported; of parts that are independent define a family for each"
            )
        compiled(self.cumulant, self.parameters)
        for part in self.statistic:
            compiled(part, self.record_names)
        if (self.box is None) == (self.values is None):
            raise InvalidInput("S(x) needs a box (low and high of each part) or values (all there are)")
        if self.box is not None:
            ends = [as_bounds(pair, "S(x)") for pair in self._table("box", self.box, 2)]
            self.keep(box=tuple(ends))
        else:
            self.keep(values=self._table("values", self.values, len(self.statistic)))
            if len(self.corners) > _MOST_VALUES:
                raise InvalidInput(
                    f"S(x) has {len(self.corners)} values, more than {_MOST_VALUES}: join some"
                )
        support = (-math.inf, math.inf) * len(self.statistic) if self.support is None else self.support
        pairs = self._table("support", support, 2)
        if not all(low < high for low, high in pairs):
            raise InvalidInput(f"support={self.support!r} must be low < high for each parameter")
        self.keep(support=pairs)
        _ = self.normals

    def _table(self, name: str, given: Any, width: int) -> tuple[Any, ...]:
        """Rows of ``width`` numbers, however they are nested; for all but values one for each parameter."""
        try:
            rows = np.array(given, dtype=np.float64).reshape(-1, width)
        except (TypeError, ValueError):
            rows = np.zeros((0, width))
        wrong = ~np.isfinite(rows) if name == "values" else np.isnan(rows)
        if wrong.any() or len(rows) < 2 or (name != "values" and len(rows) != len(self.statistic)):
            number = "several" if name == "values" else len(self.statistic)
            raise InvalidInput(f"{name}={given!r} must be {number} times {width} numbers")
        return tuple(map(tuple, rows.tolist()))

    @property
    def parameters(self) -> tuple[str, ...]:  # type: ignore[override]
        """The natural parameters."""
        return tuple(f"t{i + 1}" for i in range(len(self.statistic)))

    @property
    def record_names(self) -> tuple[str, ...]:
        text = " ".join(self.statistic)
        several = [f"x{i}" for i in range(1, 10) if f"x{i}" in text]
        return tuple(f"x{i}" for i in range(1, int(several[-1][1:]) + 1)) if several else ("x",)

    @cached_property
    def corners(self) -> FloatArray:
        return np.array(list(itertools.product(*self.box)) if self.box is not None else self.values)

    @cached_property
    def moves(self) -> FloatArray:
        """Differences of two corners."""
        return np.array([p - q for p, q in itertools.permutations(self.corners, 2)])

    @cached_property
    def normals(self) -> FloatArray:
        """Directions across the faces of the hull, and the opposite ones."""
        from scipy.spatial import ConvexHull, QhullError

        widths = np.ptp(self.corners, axis=0)
        try:
            hull = ConvexHull(self.corners / np.where(widths > 0, widths, 1.0))
        except (QhullError, ValueError):
            raise InvalidInput(
                "the values of S(x) lie on one line or plane: the family is not minimal; leave out a part"
            ) from None
        across = hull.equations[:, :-1]
        return np.asarray(np.unique(np.round(np.concatenate([across, -across]), 12), axis=0) / widths)

    def totals(self, found: FloatArray) -> tuple[Fraction, ...]:
        """The sums within the box, or those of the values that are nearest."""
        if self.box is not None:
            columns = zip(found.T, self.box, strict=True)
            return tuple(sum_on_grid(clipped_sum(part, bounds=ends), ends) for part, ends in columns)
        widths = np.ptp(self.corners, axis=0)
        away = np.stack([np.abs((found - own) / widths).max(axis=1) for own in self.corners])
        counts = np.bincount(away.argmin(axis=0), minlength=len(self.corners)).tolist()
        return tuple(
            sum((count * Fraction(value) for count, value in zip(counts, axis, strict=True)), Fraction(0))
            for axis in self.corners.T.tolist()
        )

    def contribution(self, statistic: Any, n: int) -> Natural:
        sums = numbers(statistic)
        if len(sums) != len(self.statistic):
            raise InvalidInput(f"the statistic must be the sum of S(x), {len(self.statistic)} numbers")
        for normal in self.normals.tolist():
            across = [
                sum(Fraction(a) * Fraction(part) for a, part in zip(normal, point, strict=True))
                for point in (sums, *self.corners.tolist())
            ]
            if across[0] > n * max(across[1:]):
                raise InvalidInput("the statistic is outside of n times the declared values of S(x)")
        return *sums, Fraction(n)

    def normalisable(self, eta: Natural) -> bool:
        if not eta[-1] > 0:
            return False
        return bool(self.law_at(eta).seen[0])

    def order_limit(self, eta: Natural, n: int, r: Fraction) -> float:
        depths, largest = _variances(self, eta, n, r)
        return 1 + float(depths[-1] + 1 / math.sqrt(_SLACK * largest[-1]))

    def renyi_bound(self, eta: Natural, n: int, r: Fraction, order: float) -> float:
        depths, largest = _variances(self, eta, n, r)
        ends = np.minimum(depths, order - 1)
        parts = np.diff(ends - ends**2 / (2 * (order - 1))) if order > 1 else np.zeros_like(largest)
        met = parts > 0
        found = _SLACK * (largest[0] / 2 + (largest[met] * parts[met]).sum())
        if order - 1 > depths[-1]:
            moved = (order - 1 - depths[-1]) * math.sqrt(_SLACK * largest[-1])
            found += -(moved + math.log1p(-moved)) / (order - 1) if moved < 1 else math.inf
        return float(found)

    def law_at(self, eta: Natural) -> _Laws:
        """The law at η, with many nodes if more do not show it."""
        chi, nu = np.array([[float(part) for part in eta[:-1]]]), float(eta[-1])
        law = self.laws(chi, nu)
        return law if law.seen[0] else self.laws(chi, nu, level=2)

    def laws(self, chi: FloatArray, nu: float, start: FloatArray | None = None, level: int = 1) -> _Laws:
        """The law of θ at each χ, on nodes where it has its mass."""
        return _Laws(self, chi, nu, np.zeros_like(chi) if start is None else start, level)

    def place(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """θ from coordinates that have no ends, in units of a record, and the log of its derivative."""
        theta, slope = np.empty_like(u), np.zeros(u.shape[:-1])
        for i, (low, high) in enumerate(self.ends):
            one, unit = u[..., i], 1 / float(np.ptp(self.corners[:, i]))
            if math.isinf(low) and math.isinf(high):
                theta[..., i] = unit * one
            elif math.isinf(low) or math.isinf(high):
                with np.errstate(over="ignore"):
                    away = unit * np.exp(one)
                theta[..., i], slope = (high - away if math.isinf(low) else low + away), slope + one
            else:
                part = 1 / (1 + np.exp(-np.maximum(one, -700)))
                theta[..., i] = low + (high - low) * part
                slope = slope - np.logaddexp(0, one) - np.logaddexp(0, -one)
        return theta, slope

    def nodes(self, eta: Natural) -> tuple[FloatArray, FloatArray]:
        law = self.law_at(eta)
        if not law.seen[0]:
            raise InvalidInput("the posterior has no law that could be drawn from: take a stronger prior")
        return law.theta[0], np.exp(law.log_weights[0])

    def log_mass(self, chi: FloatArray, nu: float) -> float:
        return float(self.laws(chi, nu, level=2).log_masses[0])

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        *means, strength = prior
        said = ", ".join(f"{part} is {mean:g}" for part, mean in zip(self.statistic, means, strict=True))
        return (
            f"the natural parameters {', '.join(self.parameters)} of {', '.join(self.statistic)}",
            f"on average {said}, as much as {strength:g} records",
        )


class _Laws:
    """Laws of θ for some χ: Newton's steps to the mode, then nodes around it by its curvature.

    The nodes of a law serve other χ near by too: their weights are multiplied by e^{s·θ}.
    """

    @np.errstate(all="ignore")  # what is no number is not seen, and must not be told by a warning
    def __init__(
        self, family: DefinedVector, chi: FloatArray, nu: float, start: FloatArray, level: int
    ) -> None:
        self.chi, d = chi, chi.shape[1]
        number, reach, bend = _NODES[d][level]

        def heights(u: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta, slope = family.place(u)
            names = dict(zip(family.parameters, np.moveaxis(theta, -1, 0), strict=True))
            value = (theta @ chi[:, :, None])[..., 0] - nu * in_floats(family.cumulant, **names) + slope
            return theta, np.where(np.isfinite(value), value, -np.inf)

        self.modes, factor, found = _peaks(lambda u: heights(u)[1], start)
        one = np.linspace(-reach, reach, number)
        places = np.stack(np.meshgrid(*[one] * d, indexing="ij"), axis=-1).reshape(-1, d)
        index = np.stack(np.meshgrid(*[np.arange(number)] * d, indexing="ij"), axis=-1).reshape(-1, d)
        self.even = (index % 2 == 0).all(axis=1)
        away = bend * np.sinh(places / bend)
        self.theta, value = heights(self.modes[:, None] + away @ factor.transpose(0, 2, 1))
        self.edge = outermost(np.isfinite(value).reshape(len(chi), *[number] * d)).reshape(value.shape)
        value = value + np.log(np.cosh(places / bend)).sum(axis=1)
        top = value.max(axis=1, keepdims=True)
        total = np.exp(np.maximum(value - top, -1e4)).sum(axis=1, keepdims=True)
        self.log_weights = np.maximum(value - top, -1e4) - np.log(total)
        volume = np.log(np.abs(np.diagonal(factor, axis1=1, axis2=2))).sum(axis=1) + d * math.log(
            one[1] - one[0]
        )
        units = sum(
            -math.log(width)
            for width, ends in zip(np.ptp(family.corners, axis=0), family.ends, strict=True)
            if math.isinf(ends[0]) or math.isinf(ends[1])
        )
        self.log_masses = top[:, 0] + np.log(total[:, 0]) + volume + units
        weights = np.exp(self.log_weights)
        mean = weights[:, None] @ self.theta
        self.away = self.theta - mean
        squares = (self.away[..., :, None] * self.away[..., None, :]).reshape(*value.shape, d * d)
        self._terms = np.concatenate([np.ones((*value.shape, 1)), self.away, squares], axis=2)
        size = np.abs(chi * mean[:, 0]).sum(axis=1) + np.abs(top[:, 0])
        self.seen = found & np.isfinite(self.log_masses) & (size * np.finfo(np.float64).eps < 1e-8)
        self.covariances, self.seen = (part[:, 0] for part in self._at(chi[:, None])[3:])

    def _sums(self, points: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, Any]:
        """At some χ a logarithm, Σw, Σwθ and Σwθθ' over its exponential, by all and by every second node."""
        exponent = self.log_weights[:, None] + (points - self.chi[:, None]) @ self.away.transpose(0, 2, 1)
        largest = exponent.max(axis=2)
        deep = np.where(self.edge[:, None], exponent, -np.inf).max(axis=2) < largest - _DEEP
        weights = np.exp(exponent - largest[..., None])
        coarse = weights[:, :, self.even] @ self._terms[:, self.even]
        return largest, weights @ self._terms, 2 ** points.shape[2] * coarse, deep

    def _at(self, points: FloatArray) -> tuple[Any, ...]:
        """At χ near each law a logarithm, the mass over its exponential, mean, covariance, and if seen."""
        top, fine, coarse, deep = self._sums(points)
        mass, mean = fine[..., :1], fine[..., 1 : points.shape[2] + 1] / fine[..., :1]
        found, halved = (_about(sums, mean) / mass[..., None] for sums in (fine, coarse))
        missed = _apart(found, halved)
        return top, mass, mean, _raised(found, missed), deep & self.seen[:, None] & (missed < _AGREE)

    @np.errstate(all="ignore")
    def bounds(self, cells: FloatArray) -> tuple[FloatArray, FloatArray, Any]:
        """Matrices above all covariances in simplices near each law, those in the middles, and if seen."""
        laws, number, corners, d = cells.shape
        middles = cells.mean(axis=2)
        top, mass, mean, covariances, seen = self._at(middles)
        points, at = cells.reshape(laws, -1, d), np.arange(number * corners)
        if laws == 1:  # whose cells share corners
            shared, at = np.unique(points[0], axis=0, return_inverse=True)
            points = shared[None]
        corner = at.reshape(number, corners)
        tops, fine, coarse, deep = (np.asarray(part)[:, corner] for part in self._sums(points))
        scale = tops - top[..., None] - ((cells - middles[:, :, None]) * mean[:, :, None]).sum(axis=3)
        unit = (np.exp(np.minimum(scale, 600.0)) / mass)[..., None, None]
        found, halved = (_about(sums, mean[:, :, None]) * unit for sums in (fine, coarse))
        away = _apart(found, halved)
        sure = seen & np.all(deep & (away < _AGREE) & (scale < 600), axis=2)
        return np.where(sure[..., None, None, None], _raised(found, away), np.inf), covariances, seen


def _near(family: DefinedVector, chi: FloatArray, nu: float) -> _Laws | None:
    """The law at one χ, if few or more nodes show it."""
    made = (family.laws(chi[None], nu, level=level) for level in (0, 1))
    return next((law for law in made if law.seen[0]), None)


def _about(sums: FloatArray, mean: FloatArray) -> FloatArray:
    """Σw(θ−m)(θ−m)' from Σw, Σwθ and Σwθθ'."""
    d = mean.shape[-1]
    first, second = sums[..., 1 : d + 1], sums[..., d + 1 :].reshape(*sums.shape[:-1], d, d)
    cross = mean[..., :, None] * first[..., None, :]
    whole = sums[..., :1, None] * mean[..., :, None] * mean[..., None, :]
    return np.asarray(second - cross - np.swapaxes(cross, -1, -2) + whole)


def _raised(found: FloatArray, missed: FloatArray) -> FloatArray:
    """Matrices and what nodes may have missed of them."""
    return np.asarray(found * (1 + np.minimum(missed, _AGREE)[..., None, None]))


def _apart(fine: FloatArray, coarse: FloatArray) -> FloatArray:
    """A bound on |v'Cv/v'Fv − 1| over directions v, for pairs of matrices; infinite where it is not known."""
    with np.errstate(all="ignore"):
        unit = np.sqrt(np.diagonal(fine, axis1=-2, axis2=-1))
        scale = unit[..., :, None] * unit[..., None, :]
        fine, coarse = fine / scale, coarse / scale
        values, vectors = np.linalg.eigh(np.where(np.isfinite(fine), fine, 0.0))
        half = vectors / np.sqrt(values)[..., None, :]
        away = np.abs(np.swapaxes(half, -1, -2) @ (coarse - fine) @ half).sum(axis=-1).max(axis=-1)
    return np.asarray(np.where(np.isfinite(away) & (values[..., 0] > 1e-12), away, np.inf))


def _peaks(heights: Any, start: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Where functions are largest, a factor of their inverse curvature, and whether they were found."""
    number, d = start.shape
    step, u = 1e-3, start.copy()
    axes = np.eye(d) * step
    pairs = list(itertools.combinations(range(d), 2))
    stencil = [np.zeros(d), *axes, *-axes]
    stencil += [sign * (axes[i] + axes[j]) for i, j in pairs for sign in (1, -1)]
    sizes = np.array([0.0, 1e-4, 1e-2, 0.1, 0.25, 0.5, 1.0])
    for _ in range(60):
        f = heights(u[:, None] + np.array(stencil))
        with np.errstate(all="ignore"):
            slope = (f[:, 1 : d + 1] - f[:, d + 1 : 2 * d + 1]) / (2 * step)
            curved = np.zeros((number, d, d))
            sides = f[:, 1 : d + 1] + f[:, d + 1 : 2 * d + 1]
            curved[:, range(d), range(d)] = (2 * f[:, :1] - sides) / step**2
            for k, (i, j) in enumerate(pairs):
                both = f[:, 2 * d + 1 + 2 * k] + f[:, 2 * d + 2 + 2 * k]
                curved[:, i, j] = curved[:, j, i] = (sides[:, i] + sides[:, j] - both - 2 * f[:, 0]) / (
                    2 * step**2
                )
        known = np.isfinite(curved).all(axis=(1, 2)) & np.isfinite(slope).all(axis=1)
        curved[~known], slope[~known] = np.eye(d), 0.0
        with np.errstate(all="ignore"):
            values, vectors = np.linalg.eigh(curved)
            values = np.maximum(values, 1e-9 * np.maximum(values[:, -1:], 1e-6))
            along = np.einsum("bij,bj,bkj,bk->bi", vectors, 1 / values, vectors, slope)
            along *= np.minimum(1.0, 20 / np.maximum(np.abs(along).max(axis=1, keepdims=True), 1e-300))
        tried = u[:, None] + sizes[:, None] * along[:, None]
        best = heights(tried).argmax(axis=1)
        u = tried[np.arange(number), best]
        if (np.einsum("bi,bi->b", along, slope) < 1e-4).all():
            break
    settled = known & (np.einsum("bi,bi->b", along, slope) < 1e-2)
    inverse = np.einsum("bij,bj,bkj->bik", vectors, 1 / values, vectors)
    return u, np.linalg.cholesky(inverse), settled


@lru_cache(maxsize=256)
def _variances(family: DefinedVector, eta: Natural, n: int, r: Fraction) -> tuple[FloatArray, FloatArray]:
    """Ψ: ends of ranges of ρ, the last one where it is no longer bounded, and its value in each of them."""
    from scipy.spatial import ConvexHull, QhullError

    start, nu, share = np.array([float(part) for part in eta[:-1]]), float(eta[-1] + r * n), float(r)
    d = len(start)
    ends, widest = start + share * n * family.corners, np.ptp(family.corners, axis=0)
    most = (family.normals @ family.corners.T).max(axis=1)
    widths = most + np.max(family.normals @ -family.corners.T, axis=1)

    def hull(depth: float) -> FloatArray:
        points = (ends[:, None] + depth * share * family.moves).reshape(-1, d)
        unit = np.ptp(points, axis=0)
        try:
            return np.asarray(points[ConvexHull(points / unit).vertices])
        except QhullError:
            raise TooLargeError(
                f"r={share:.3g} moves the posterior by too little for its bound to be computed: "
                "ask for more ε or a prior that counts as fewer records"
            ) from None

    def depths(points: FloatArray) -> FloatArray:
        """From which ρ on a set of points is touched: no less is said than is true."""
        across = (points - start) @ family.normals.T - share * n * most
        return np.asarray(np.maximum((across / (share * widths)).min(axis=-2).max(axis=-1), 0.0))

    def largest(matrices: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            squares = np.einsum("ki,...ij,kj->...k", family.moves, matrices, family.moves)
        return np.asarray(share**2 * np.where(np.isnan(squares), np.inf, squares).max(axis=-1))

    def above(corners: FloatArray) -> FloatArray:
        """Of what bounds each corner of a cell, the largest: it bounds the cell."""
        return np.asarray(largest(corners).max(axis=1, initial=0.0))

    def each(cells: FloatArray, begin: FloatArray) -> tuple[FloatArray, ...]:
        """A bound in each cell, the value in its middle (0: not seen), the covariance there, and the mode."""
        middles = cells.mean(axis=1)
        bound, own, modes = np.full(len(cells), np.inf), np.zeros(len(cells)), np.zeros_like(middles)
        metric = np.tile(np.diag(widest**-2.0), (len(cells), 1, 1))
        for level in (0, 1):
            short = _lengths(cells, metric).max(axis=1, initial=0.0) < 1
            left = np.flatnonzero(np.isinf(bound) & ((own == 0) | short))
            few = max(1, _AT_ONCE // _NODES[d][level][0] ** d)
            for part in (left[first : first + few] for first in range(0, len(left), few)):
                law = family.laws(middles[part], nu, begin[part], level)
                bound[part] = above(law.bounds(cells[part][:, None])[0][:, 0])
                own[part] = np.where(law.seen, largest(law.covariances), 0.0)
                bound[part] = np.minimum(bound[part], _rough(cells[part], own[part], law.covariances))
                metric[part[law.seen]], modes[part[law.seen]] = law.covariances[law.seen], law.modes[law.seen]
        return bound, own, metric, modes

    laws: list[_Laws] = []

    def near(cells: FloatArray, begin: FloatArray) -> tuple[FloatArray, ...]:
        """The same, with nodes that cells share."""
        middles = cells.mean(axis=1)
        bound, own = np.full(len(cells), np.inf), np.zeros(len(cells))
        metric = np.tile(np.diag(widest**-2.0), (len(cells), 1, 1))
        left, place = np.argsort(depths(cells)), 0
        while len(left):
            if place == len(laws):
                made = _near(family, middles[left[0]], nu) if place < _MOST_LAWS else None
                if made is None:
                    left = left[1:]
                    continue
                laws.append(made)
            law, place = laws[place], place + 1
            steps = (middles[left] - law.chi[0])[:, None]
            inside = left[_squares(steps, law.covariances)[:, 0] < _NEAR**2]
            parts = 1 + len(inside) * law.theta.shape[1] // (10 * _AT_ONCE)
            for part in np.array_split(inside, parts) if len(inside) else ():
                matrices, found, seen = (one[0] for one in law.bounds(cells[part][None]))
                own[part] = np.where(seen, largest(found), 0.0)
                bound[part] = np.minimum(above(matrices), _rough(cells[part], own[part], found))
                metric[part[seen]] = found[seen]
            left = left[own[left] == 0]
        return bound, own, metric, begin

    looked = each if d == 2 else near

    def values_at(points: FloatArray) -> FloatArray:
        return looked(points[:, None], np.zeros_like(points))[1]

    def known(depth: float) -> bool:
        return bool((values_at(hull(depth)) > 0).all())

    if not known(0.0):
        return np.array([0.0, 0.0]), np.array([math.inf])
    far = _MOST_MOVES[d]
    end, beyond = (far, 0.0) if known(far) else (0.0, far)
    while beyond - end > 0.02 * end + 1e-3:
        middle = (end + beyond) / 2
        end, beyond = (middle, beyond) if known(middle) else (end, middle)
    if end == 0.0:
        return np.array([0.0, 0.0]), np.array([math.inf])

    levels = np.unique(np.concatenate([hull(depth) for depth in end * np.linspace(0, 1, 17) ** 2]), axis=0)
    seen_at, seen = depths(levels[:, None]), values_at(levels)
    outer = hull(end)
    waiting = _cover(outer)
    modes = np.zeros((len(waiting), d))
    done_at, done = np.zeros(0), np.zeros(0)
    while len(waiting):
        bound, own, metric, modes = looked(waiting, modes)
        middles = waiting.mean(axis=1)
        seen_at, seen = np.append(seen_at, depths(middles[:, None])), np.append(seen, own)
        order = np.argsort(seen_at)
        attained = np.maximum.accumulate(seen[order])
        touched = depths(waiting)
        found = attained[np.maximum(np.searchsorted(seen_at[order], touched, "right") - 1, 0)]
        wide = bound > (_CLOSE[d] + _LOOSE * touched) * found
        blind = np.isinf(bound) & ((own == 0) | (_lengths(waiting, metric).max(axis=1) < _SHORT))
        if len(done) + len(waiting) > _MOST_CELLS[d]:
            blind |= np.isinf(bound)
            wide[:] = False
        end = min(end, float(touched[blind].min(initial=end)))
        wide &= touched < end
        done_at, done = np.append(done_at, touched[~wide]), np.append(done, bound[~wide])
        waiting, modes = _split(waiting[wide], metric[wide]), np.repeat(modes[wide], 2, axis=0)
    inner = done_at < end
    if not inner.any():
        return np.array([0.0, 0.0]), np.array([math.inf])
    done_at, done = done_at[inner], done[inner]
    order = np.lexsort((-done, done_at))
    values = np.maximum.accumulate(done[order])
    rises = np.append(True, np.diff(values) > 0)
    return np.append(done_at[order][rises], end), values[rises]


def _rough(cells: FloatArray, own: FloatArray, metric: FloatArray) -> FloatArray:
    """A bound in cells by what is known in their middles (0: nothing), for C is self-concordant."""
    moved = np.sqrt(_squares(cells - cells.mean(axis=1)[:, None], metric).max(axis=1))
    with np.errstate(all="ignore"):
        return np.asarray(np.where((own > 0) & (moved < 1), own / (1 - moved) ** 2, np.inf))


def _cover(points: FloatArray) -> FloatArray:
    """Simplices that fill the hull of some points: their volumes add up to its volume."""
    from scipy.spatial import ConvexHull, Delaunay

    unit = points / np.ptp(points, axis=0)
    parts = Delaunay(unit).simplices
    volumes = np.abs(np.linalg.det(unit[parts[:, 1:]] - unit[parts[:, :1]])) / math.factorial(points.shape[1])
    if not math.isclose(volumes.sum(), ConvexHull(unit).volume, rel_tol=1e-9):
        raise TooLargeError("the values of S(x) are too many, or too close together, to be covered")
    return np.asarray(points[parts])


def _edges(cells: FloatArray) -> FloatArray:
    return np.array(list(itertools.combinations(range(cells.shape[1]), 2)), dtype=int).reshape(-1, 2)


def _lengths(cells: FloatArray, metric: FloatArray) -> FloatArray:
    """The squared lengths of the edges of simplices."""
    first, second = _edges(cells).T
    return _squares(cells[:, first] - cells[:, second], metric)


def _squares(steps: FloatArray, metric: FloatArray) -> FloatArray:
    return np.asarray(((steps @ metric) * steps).sum(axis=-1))


def _split(cells: FloatArray, metric: FloatArray) -> FloatArray:
    """Simplices cut in two across their longest edge."""
    if not len(cells):
        return cells
    longest = _edges(cells)[_lengths(cells, metric).argmax(axis=1)]
    rows = np.arange(len(cells))
    middles = (cells[rows, longest[:, 0]] + cells[rows, longest[:, 1]]) / 2
    parts = np.stack([cells, cells], axis=1)
    for side in (0, 1):
        parts[rows, side, longest[:, side]] = middles
    return parts.reshape(-1, *cells.shape[1:])
