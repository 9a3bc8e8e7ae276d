"""Sums of e^{f(x)} over whole numbers x, many at once, at a cost that does not grow with their range.

Each sum (called a *problem*) runs over a *window*, the range of x whose terms are not negligible. A window is
cut into *panels* of N = 16·2^j consecutive whole numbers, short enough that e^f is smooth on each. A panel is
summed by a Gauss rule with sixteen nodes, for the counting measure on N points: it is exact for polynomials
of degree 31, equals the plain sum for N = 16, and tends to Gauss–Legendre for N → ∞. So windows of up to a
few hundred points are plain sums, and the widest ones take about a thousand nodes.

Truncation error: f is concave, or decreasing at the end of a window. Where f has fallen by ``TAIL`` nats from
its largest value, the terms beyond are at most a fraction e^{−TAIL} of the sum (by comparison with the
geometric series through the two points).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray, IntArray

Terms = Callable[[FloatArray, IntArray], FloatArray]
"""f(x, which): logarithms of the terms at x; ``which`` holds problem indices and broadcasts against x."""

TAIL = 42.0
"""A window ends where log-terms are this far (in nats) below the largest: e^{−42} = 6e-19."""

_NODES_OF_A_PANEL = 16
_MOST_PANELS = 24  # a range is cut into 12 to 24 panels of equal width
_PANELS_AT_ONCE = 1 << 16  # panels evaluated together


def gauss_rule(points: int) -> tuple[FloatArray, FloatArray]:
    """Return nodes x_j and weights w_j with Σ_{x=0}^{points−1} g(x) = Σ_j w_j g(x_j) for degrees up to 31."""
    order = np.arange(1, _NODES_OF_A_PANEL)
    off = np.sqrt(order**2 * (1 - (order / points) ** 2) / (4 * (4.0 * order**2 - 1)))
    values, vectors = np.linalg.eigh(np.diag(off, 1) + np.diag(off, -1))
    return (points - 1) / 2 + points * values, points * vectors[0] ** 2


def _tables(levels: int = 50) -> tuple[FloatArray, FloatArray]:
    """Return nodes and log-weights of all rules, one row each.

    Row r < 16 sums r consecutive points (row 0 sums sixteen); row 16 + j is the rule for 16·2^j points.
    """
    nodes, log_weights = (
        np.empty((_NODES_OF_A_PANEL + levels, _NODES_OF_A_PANEL)),
        np.full((_NODES_OF_A_PANEL + levels, _NODES_OF_A_PANEL), -np.inf),
    )
    for r in range(_NODES_OF_A_PANEL):
        count = r or _NODES_OF_A_PANEL
        nodes[r] = np.minimum(np.arange(_NODES_OF_A_PANEL), count - 1)
        log_weights[r, :count] = 0.0
    nodes[_NODES_OF_A_PANEL], log_weights[_NODES_OF_A_PANEL] = nodes[0], log_weights[0]
    for j in range(1, levels):
        x, w = gauss_rule(_NODES_OF_A_PANEL << j)
        nodes[_NODES_OF_A_PANEL + j], log_weights[_NODES_OF_A_PANEL + j] = x, np.log(w)
    return nodes, log_weights


_X, _LOG_W = _tables()


@dataclass(frozen=True)
class Panels:
    """Panels of all problems, sorted by problem; each problem has at least one.

    For each panel, ``problem`` is the index of its problem, ``start`` its first number, and ``row`` its
    summation rule (see ``_tables``).
    """

    problem: IntArray
    start: FloatArray
    row: IntArray
    first: IntArray
    """Index of the first panel of each problem."""

    @property
    def nodes(self) -> FloatArray:
        """The nodes of the panels, shape (panels, 16)."""
        return np.asarray(self.start[:, None] + _X[self.row])

    def blocks(self) -> Iterator[tuple[slice, Panels]]:
        """Yield blocks of consecutive problems, to bound memory: the slice of problems, and their panels."""
        ends = np.append(self.first[1:], len(self.problem))
        low = 0
        while low < len(self.first):
            high = int(np.searchsorted(ends, self.first[low] + _PANELS_AT_ONCE, side="right"))
            high = max(high, low + 1)
            rows = slice(int(self.first[low]), int(ends[high - 1]))
            yield (
                slice(low, high),
                Panels(
                    self.problem[rows], self.start[rows], self.row[rows], self.first[low:high] - rows.start
                ),
            )
            low = high


@dataclass(frozen=True)
class Sums:
    """Terms of several sums, evaluated at the nodes of their panels, with totals, means and cumulants."""

    panels: Panels
    x: FloatArray
    """Nodes, shape (panels, 16)."""
    log_term: FloatArray
    """Logarithms of the terms at the nodes, plus the log-weights of the nodes."""
    around: FloatArray
    """A whole number for each problem: the origin for tilts and moments."""

    @classmethod
    def of(cls, panels: Panels, x: FloatArray, log_term: FloatArray, around: FloatArray) -> Sums:
        """Build the sums from the log-terms at the nodes ``x``, without weights."""
        return cls(panels, x, log_term + _LOG_W[panels.row], around)

    @cached_property
    def local(self) -> IntArray:
        """For each panel, the position of its problem within this block."""
        return np.repeat(np.arange(len(self)), np.diff(np.append(self.panels.first, len(self.x))))

    def __len__(self) -> int:
        return len(self.panels.first)

    @cached_property
    def away(self) -> FloatArray:
        """The nodes minus :attr:`around`."""
        return np.asarray(self.x - self.around[self.local][:, None])

    @cached_property
    def _normalise(self) -> tuple[FloatArray, FloatArray]:
        peak = np.maximum.reduceat(self.log_term.ravel(), _NODES_OF_A_PANEL * self.panels.first)
        shift = np.where(np.isfinite(peak), peak, 0.0)
        weight = np.exp(self.log_term - shift[self.local][:, None])
        total = self.sum(weight)
        with np.errstate(divide="ignore"):
            log_total = shift + np.log(total)
        weight /= np.where(total > 0, total, 1.0)[self.local][:, None]
        return weight, log_total

    @property
    def weight(self) -> FloatArray:
        """The weight of each node, normalised to sum to 1 within each problem."""
        return self._normalise[0]

    @property
    def log_total(self) -> FloatArray:
        """log Σ e^f of each problem."""
        return self._normalise[1]

    def sum(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Add up values over the nodes of each problem.

        A product with ones is not used: BLAS divides even small complex products among threads, which on a
        busy machine takes a thousand times as long.
        """
        return np.asarray(np.add.reduceat(np.einsum("ij->i", values), self.panels.first))

    def mean(self, values: FloatArray) -> FloatArray:
        """Return Σ weight · values for each problem; values of the shape of ``x``."""
        return self.sum(self.weight * values)

    @cached_property
    def offset(self) -> FloatArray:
        """E[x] − ``around`` for each problem."""
        return self.mean(self.away)

    @cached_property
    def variance(self) -> FloatArray:
        return self.mean((self.away - self.offset[self.local][:, None]) ** 2)

    def cumulants(self, orders: int) -> FloatArray:
        """Return the cumulants of x − ``around`` of orders 1, 2, …, shape (orders, problems)."""
        gap = self.away - self.offset[self.local][:, None]
        moments, power = [np.ones(len(self)), np.zeros(len(self))], self.weight * gap
        for _ in range(2, orders + 1):
            power = power * gap
            moments.append(self.sum(power))
        cumulants = np.stack([self.offset, *moments[2:]])
        for order in range(4, orders + 1):
            for j in range(2, order - 1):
                cumulants[order - 1] -= math.comb(order - 1, j - 1) * cumulants[j - 1] * moments[order - j]
        return cumulants[:orders]

    def tilt(self, s: FloatArray) -> Sums:
        """Return the sums of terms e^{f + s(x − around)}, with one s for each problem."""
        return Sums(self.panels, self.x, self.log_term + s[self.local][:, None] * self.away, self.around)

    @property
    def starts(self) -> FloatArray:
        """The first whole number of each problem's window."""
        return self.panels.start[self.panels.first]

    @cached_property
    def _bounds(self) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Offsets of the problems among the nodes that are not padding, and the mask of these nodes."""
        real = np.isfinite(_LOG_W[self.panels.row])
        return np.append(0, np.cumsum(real.sum(axis=1)))[np.append(self.panels.first, len(real))], real

    @property
    def lengths(self) -> IntArray:
        """The number of nodes of each problem."""
        return np.diff(self._bounds[0])

    def distributions(self, weight: FloatArray | None = None) -> list[FloatArray]:
        """Return the probabilities of consecutive whole numbers, one array for each problem.

        Every whole number must be a node. The probabilities are proportional to ``weight``, by default the
        weights of the nodes.
        """
        begin, real = self._bounds
        mass = (self.weight if weight is None else weight)[real]
        masses = [mass[start:end] for start, end in pairwise(begin)]
        return [distribution / distribution.sum() for distribution in masses]

    def rows(self, which: IntArray) -> FloatArray:
        """Return the probabilities for the problems ``which``, one row each, padded with zeros."""
        begin, real = self._bounds
        index = begin[which][:, None] + np.arange(int(self.lengths[which].max()))
        inside = index < begin[which + 1][:, None]
        return np.where(inside, self.weight[real][np.where(inside, index, 0)], 0.0)


def cut(edges: Sequence[FloatArray], graded: bool = False, whole: bool = False) -> Panels:
    """Return panels that cover [edges[0], edges[-1]) for every problem; no panel contains an inner edge.

    ``edges`` holds non-decreasing arrays of whole numbers, with an entry for each problem. With ``graded``,
    panels start with sixteen points at every edge and at most double in length away from it, which resolves
    a singularity just outside and any rate of decay. With ``whole`` every whole number is a node.
    """
    problems = len(edges[0])
    lows, highs = list(edges[:-1]), list(edges[1:])
    if graded:
        middles = [
            np.where(high - low <= _MOST_PANELS * _NODES_OF_A_PANEL, high, low + np.floor((high - low) / 2))
            for low, high in zip(lows, highs, strict=True)
        ]
        lows = [v for low, middle in zip(lows, middles, strict=True) for v in (low, middle)]
        highs = [v for middle, high in zip(middles, highs, strict=True) for v in (middle, high)]
    low = np.stack(lows, axis=1).ravel()  # by problem, then by segment
    length = np.stack(highs, axis=1).ravel() - low
    backwards = graded & (np.arange(len(low)) % 2 == 1)
    longest = np.maximum(length / (_MOST_PANELS * _NODES_OF_A_PANEL), 1.0)
    level = np.zeros(len(low), dtype=np.int64) if whole else np.ceil(np.log2(longest)).astype(np.int64)
    depth = int(level.max(initial=0))
    sixteens, partial = np.divmod(length, _NODES_OF_A_PANEL)
    counts = np.zeros((len(low), depth + 2), dtype=np.int64)  # column 0: what is left of sixteen
    counts[:, 0] = partial > 0
    for j in range(depth + 1):
        same = level == j
        counts[same, j + 1] = sixteens[same] // 2**j
        smaller = level > j
        counts[smaller, j + 1] = (sixteens[smaller] // 2**j) % 2
        if graded:
            counts[smaller, j + 1] += 2 if j == 0 else 1
    if graded:
        above_zero = level > 0
        counts[above_zero, level[above_zero] + 1] -= 1
    widths = (
        np.broadcast_to(np.append(0, _NODES_OF_A_PANEL << np.arange(depth + 1)), counts.shape)
        .copy()
        .astype(float)
    )
    widths[:, 0] = partial
    per_segment = counts.sum(axis=1)
    segment = np.repeat(np.arange(len(low)), per_segment)
    column = np.repeat(np.tile(np.arange(depth + 2), len(low)), counts.ravel())
    width = widths[segment, column]
    until = np.cumsum(width)
    before = (
        until - width - np.repeat(np.append(0.0, until)[np.cumsum(per_segment) - per_segment], per_segment)
    )
    start = np.where(
        backwards[segment], low[segment] + length[segment] - before - width, low[segment] + before
    )
    row = np.where(column == 0, partial[segment].astype(np.int64), _NODES_OF_A_PANEL + column - 1)
    problem = segment // (len(low) // max(problems, 1)) if problems else segment
    first = np.searchsorted(problem, np.arange(problems))
    return Panels(problem, start, row, first)


def draw(terms: Terms, panels: Panels, rng: np.random.Generator) -> FloatArray:
    """Draw one whole number for each problem, with probability proportional to its term."""
    result = np.empty(len(panels.first))
    for problems, block in panels.blocks():
        x = block.nodes
        sums = Sums.of(block, x, terms(x, block.problem[:, None]), np.zeros(len(block.first)))
        shares = np.cumsum(sums.weight.sum(axis=1))
        before = np.append(0.0, shares)[block.first]
        last = np.append(block.first[1:], len(block.problem)) - 1
        target = before + rng.random(len(block.first)) * (shares[last] - before)
        chosen = np.clip(np.searchsorted(shares, target), block.first, last)
        result[problems] = _within(terms, block, chosen, rng)
    return result


def _within(terms: Terms, block: Panels, chosen: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw a whole number in each chosen panel: halve it until sixteen points are left, then draw one."""
    problem, start, row = block.problem[chosen], block.start[chosen].copy(), block.row[chosen].copy()
    while np.any(wide := row > _NODES_OF_A_PANEL):
        half = row[wide] - 1
        width = np.ldexp(float(_NODES_OF_A_PANEL), half - _NODES_OF_A_PANEL)
        x = start[wide][:, None, None] + np.stack([0 * width, width], 1)[:, :, None] + _X[half][:, None, :]
        f = terms(x, problem[wide][:, None, None]) + _LOG_W[half][:, None, :]
        mass = np.exp(f - f.max(axis=(1, 2), keepdims=True)).sum(axis=2)
        upper = rng.random(len(half)) * mass.sum(axis=1) >= mass[:, 0]
        start[wide] += np.where(upper, width, 0.0)
        row[wide] = half
    f = terms(start[:, None] + _X[row], problem[:, None]) + _LOG_W[row]
    cumulative = np.cumsum(np.exp(f - f.max(axis=1, keepdims=True)), axis=1)
    target = rng.random(len(start)) * cumulative[:, -1]
    return np.asarray(start + _X[row, (cumulative <= target[:, None]).sum(axis=1)])


def log_tail(f: Callable[[FloatArray], FloatArray], start: FloatArray) -> FloatArray:
    """Return log Σ_{j ≥ 0} e^{f(start + j)} for each ``start``, for f decreasing and concave.

    ``f`` is called with arrays that have one more axis than ``start``, for the values of j.
    """
    total = f(start[..., None])[..., 0]
    offset, level = 1.0, 0
    while True:
        row = _NODES_OF_A_PANEL + level
        values = f(start[..., None] + offset + _X[row]) + _LOG_W[row]
        peak = values.max(axis=-1)
        safe = np.where(np.isfinite(peak), peak, 0.0)
        with np.errstate(divide="ignore"):
            part = safe + np.log(np.exp(values - safe[..., None]).sum(axis=-1))
        total = np.logaddexp(total, part)
        if np.all(values[..., -1] <= total - TAIL - 6) or level > 45:
            return np.asarray(total)
        offset += math.ldexp(_NODES_OF_A_PANEL, level)
        level += 1 if offset > _NODES_OF_A_PANEL + 1 else 0
