"""Exact draws from P(b) ∝ exp(−t·H(b)) over all compositions b of n, without enumerating them.

H = √(1 − e^{−F}) and F(b) = Σᵢ fᵢ(bᵢ) is separable, so φ(F) = exp(−t√(1 − e^{−F})) is the weight to draw
from. φ is completely monotone in F, hence close to a mixture of few exponentials; each exponential e^{−λF} is
a product over the categories, and sums of products over compositions are coefficients of polynomials:

1. Choose nodes λ₀ = 0 < λ₁ = 1 < … and factors q_j with E(F) = Σ_j q_j e^{−λ_j F} ≥ φ(F), checked on a mesh.
2. Choose integers V_ij(b) ≥ 2^B e^{−λ_j fᵢ(b)} inside a window around the true count. Outside the window
   λ_j F > T, and a smaller λ covers the counts there: e^{−λ_j F} ≤ e^{−(λ_j − λ_i)F} e^{−λ_i F}.
3. Compute the exact normaliser of each node by multiplying integer polynomials, and draw a node and then a
   composition b with integers only.
4. Keep b with probability φ̃(b)/E(b), where φ̃ is the 53-bit value of φ at b and E(b) is an exact integer.

The output has exactly the distribution φ̃(b)/Σφ̃: rounding in steps 1 and 2 changes the number of attempts
only. Proof: ``proofs/envelope.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from discreet._numerics.count_vectors import number_of_compositions
from discreet._numerics.hellinger import from_gap
from discreet._numerics.log_gamma import stirling_remainder
from discreet._randomness.bulk import uniform_composition
from discreet._randomness.entropy import Source
from discreet._randomness.integers import categorical
from discreet._randomness.weights import IntegerSeparable, dyadic
from discreet._typing import FloatArray, IntArray
from discreet.errors import TooLargeError

Gap = Callable[[int, FloatArray], FloatArray]
"""gap(i, b) = fᵢ(b): zero at the true count of category i and increasing away from it."""

WIDEST_WINDOW = 1 << 20
MAX_WORK = 1 << 27
"""The most levels times counts in all windows: beyond it, multiplying polynomials takes minutes."""
_GIVEN_UP = 4.0
"""With narrow windows a draw takes at most e⁴ times as many attempts: λ = 0 covers what they leave out."""
_MARGIN = 1e-6  # by which the envelope is kept above φ: far more than its rounding errors
_SPARE_BITS = 8
_DEPTH = 10.0  # the largest λ times the gap of the nearest neighbour
_COVER = 14.0  # what a window leaves out is covered by a node of at most half its λ, at a cost of e^{−14}


def height(gap: npt.ArrayLike, rate: float) -> FloatArray:
    """Return log φ = −rate·√(1 − e^{−gap})."""
    return np.asarray(-rate * from_gap(gap), dtype=np.float64)


@dataclass
class _Node:
    """One exponential e^{−λF} of the envelope, with integer weights in windows; for λ = 0 all weights are
    1."""

    rate: float
    log_factor: float
    cut: float
    bits: int = 0
    distribution: IntegerSeparable | None = None
    size: int = 0
    """Σ_b Πᵢ V_i(bᵢ) over the windows, exactly."""

    def weight(self, b: Sequence[int]) -> int:
        return 1 if self.distribution is None else self.distribution.weight(b)


def needs_narrow_windows(
    n: int, k: int, prior_total: float, rates: tuple[float, float], nearest: float
) -> bool:
    """Return whether narrow windows are needed to bound the work for every dataset.

    Raise an error if even narrow windows are too wide. Only public numbers decide: ``rates`` and ``nearest``
    are bounds that hold for every dataset.
    """
    log_candidates = math.log(number_of_compositions(n, k))
    steepest = min(max(log_candidates, rates[0]), rates[1])  # where narrow windows are widest
    nodes, total = _node_positions(_DEPTH / nearest, k)[1:], n + prior_total
    if _is_bounded(n, k, total, _cuts(nodes, k) / nodes):
        return False
    nodes = _node_positions((_DEPTH + log_candidates) / nearest, k)[1:]
    farthest = max(0.0, 2 * (1 + min(rates[1], log_candidates) - _GIVEN_UP))
    gaps = np.minimum(np.maximum(_cuts(nodes, k), farthest) / nodes, _reach(steepest, log_candidates))
    if not gaps.any() or _is_bounded(n, k, total, gaps):
        return True
    raise TooLargeError(
        f"n={n}, k={k}: for some datasets of this size an exact draw would need windows of more than "
        f"{WIDEST_WINDOW} counts, or too many for its levels; the lattice mechanism draws exactly at any n"
    )


def _is_bounded(n: int, k: int, total: float, gaps: FloatArray) -> bool:
    widest, together = largest_windows(n, k, total, gaps)
    return bool(widest.max() <= WIDEST_WINDOW and k * together.sum() <= MAX_WORK)


def largest_windows(n: int, k: int, total: float, gaps: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Bound the number of counts within each gap: on one side of a count, and for all levels together.

    The bounds hold for all datasets of n records (``proofs/envelope.md``, 5). ``total`` is n plus the sum of
    the prior.
    """
    gaps = gaps * (1 + 1e-9)
    widest = np.minimum(n, 2 * gaps + np.sqrt(4 * gaps**2 + 8 * gaps * total)) + 2
    together = np.minimum(k * (n + 1.0), k * (3 + 4 * gaps) + 2 * np.sqrt(8 * gaps * k * total))
    return widest, together


def _reach(rate: float, log_candidates: float) -> float:
    """Return the gap at which log φ equals 4 − min(rate, log_candidates).

    Beyond it, the node λ = 0 covers φ with a total weight of e⁴ times a lower bound on Σφ. That bound is
    max(1, candidates·e^{−rate}).
    """
    distance = max(0.0, (min(rate, log_candidates) - _GIVEN_UP) / rate)
    return -math.log1p(-(distance**2))


def _cuts(nodes: FloatArray, k: int) -> FloatArray:
    """Return, for each node λ, the value of λ·gap at which its window ends.

    The node at λ/2, whose mass is 2^{(k−1)/2} times as large, covers the rest.
    """
    return np.where(nodes < 2, 2 * _COVER, 2 * max(_COVER, 7 + 0.35 * k))


class Envelope:
    """The distribution ∝ exp(−rate·H) around the counts whose gaps are given; ``draw`` is exact."""

    def __init__(
        self, counts: Sequence[int], gap: Gap, rate: float, nearest: float, narrow: bool = False
    ) -> None:
        """``nearest`` is a lower bound on F(b) over all compositions b other than the true counts.

        With ``narrow``, windows end where λ = 0 can cover the rest, at the cost of more attempts.
        """
        self.counts = tuple(counts)
        self.n, self.k = sum(counts), len(counts)
        self.gap, self.rate = gap, rate
        self.attempts = 0
        self._candidates = number_of_compositions(self.n, self.k)
        self._sides = [_Side(i, count, self.n, gap) for i, count in enumerate(self.counts)]
        log_candidates = math.log(self._candidates)
        self.narrow, self._reach = narrow, _reach(rate, log_candidates)
        if narrow and self._reach <= nearest:  # λ = 0 covers all but the true counts themselves
            self._nodes = [
                self._node(1.0, 2 * _MARGIN, 0.0),
                _Node(0.0, float(height(nearest, rate)) + 2 * _MARGIN, math.inf, size=self._candidates),
            ]
            return
        last = (_DEPTH + log_candidates if narrow else _DEPTH) / min(nearest, 40.0)
        rates, factors = _dominating_mixture(rate, nearest, last, self.k, log_candidates)
        self._nodes = self._build(rates, factors)

    def _build(self, rates: FloatArray, log_factors: FloatArray) -> list[_Node]:
        """Return nodes from the largest λ down; where that is cheap, a node's factor is moved to λ = 0."""
        factors = log_factors.copy()
        log_all = math.log(self._candidates)
        log_mass = max(0.0, log_all - self.rate)  # below log Σφ: φ is 1 once and nowhere below e^{−rate}
        nodes: list[_Node] = []
        cuts = _cuts(rates, self.k)
        for j in range(len(rates) - 1, 0, -1):
            if factors[j] + log_all < log_mass - math.log(256):
                factors[0] = np.logaddexp(factors[0], factors[j])
                continue
            lower = int(np.searchsorted(rates, rates[j] / 2, side="right")) - 1
            cut = float(cuts[j])
            if self.narrow:  # what goes to a smaller λ must be little where the windows of that end, too
                rest = factors[j] - rates[lower] * self._reach + min(self.rate, log_all) - _GIVEN_UP
                cut = max(cut, rest / (1 - rates[lower] / rates[j]))
                if cut >= rates[j] * self._reach:
                    lower, cut = 0, rates[j] * self._reach
            spill = -cut * (1 - rates[lower] / rates[j])
            factors[lower] = np.logaddexp(factors[lower], factors[j] + spill)
            node = self._node(float(rates[j]), float(factors[j]), cut)
            nodes.append(node)
            log_size = math.log(node.size) - self.k * node.bits * math.log(2)
            log_mass = max(log_mass, log_size + node.log_factor - 1)
        nodes.append(_Node(0.0, float(factors[0]), math.inf, size=self._candidates))
        return nodes

    def _node(self, rate: float, log_factor: float, cut: float) -> _Node:
        bits = math.ceil(cut / math.log(2)) + _SPARE_BITS
        windows = []
        for side in self._sides:
            low, gaps = side.within(cut / rate)
            values = np.exp(bits * math.log(2) - rate * gaps) * (1 + 2.0**-40)
            windows.append((low, [int(v) + 1 for v in values.tolist()]))
        distribution = IntegerSeparable(windows, self.n)
        return _Node(rate, log_factor, cut, bits, distribution, distribution.size)

    @cached_property
    def _scale(self) -> tuple[list[int], int]:
        """Integer factors of the nodes' weights, and the binary exponent of one unit of their products."""
        mantissa, exponent = dyadic(np.array([node.log_factor for node in self._nodes]))
        unit = int(exponent.min()) - self.k * max(node.bits for node in self._nodes)
        shifts = [int(e) - self.k * n.bits - unit for e, n in zip(exponent, self._nodes, strict=True)]
        return [(int(m) + 1) << shift for m, shift in zip(mantissa, shifts, strict=True)], unit - 52

    @cached_property
    def _masses(self) -> list[int]:
        return [factor * node.size for factor, node in zip(self._scale[0], self._nodes, strict=True)]

    def draw(self, source: Source) -> tuple[int, ...]:
        """Draw one composition with probability φ̃(b)/Σφ̃ exactly."""
        unit = self._scale[1]
        while True:
            self.attempts += 1
            distribution = self._nodes[categorical(self._masses, source)].distribution
            b = (
                uniform_composition(self.n, self.k, source)
                if distribution is None
                else distribution.draw(source)
            )
            bound = self._envelope_at(b) << 64
            gap = sum(side.at(x) for side, x in zip(self._sides, b, strict=True))
            mantissa, exponent = dyadic(height(gap, self.rate))
            shift = int(exponent) - 52 - unit + 64  # < 0 only where φ̃ is tiny
            value = int(mantissa) << max(shift, 0)
            if value > bound:
                raise AssertionError(
                    "the envelope lies below a weight: this is a bug in discreet, please report it"
                )
            if source.below(bound) < value and _coin(-shift, source):
                return b

    def _envelope_at(self, b: Sequence[int]) -> int:
        """Return the envelope at b, an exact integer."""
        return sum(factor * node.weight(b) for factor, node in zip(self._scale[0], self._nodes, strict=True))

    def simulate(self, size: int, rng: np.random.Generator) -> IntArray:
        """Return compositions drawn in floating point, shape (size, k); these draws are not private."""
        weight = np.array([float(mass / sum(self._masses)) for mass in self._masses])
        parts: list[IntArray] = []
        missing = size
        while missing > 0:
            numbers = rng.multinomial(int(missing * 1.3) + 16, weight / weight.sum()).tolist()
            chosen = [(node, number) for node, number in zip(self._nodes, numbers, strict=True) if number]
            proposed = np.concatenate([self._simulate(node, number, rng) for node, number in chosen])
            rng.shuffle(proposed)
            gaps = np.stack([self.gap(i, column.astype(np.float64)) for i, column in enumerate(proposed.T)])
            log_ratio = height(gaps.sum(axis=0), self.rate) - self._log_bound(gaps)
            accepted = rng.random(len(proposed)) < np.exp(log_ratio)
            parts.append(proposed[accepted][:missing])
            missing -= len(parts[-1])
        return np.concatenate(parts) if parts else np.empty((0, self.k), dtype=np.int64)

    def _simulate(self, node: _Node, size: int, rng: np.random.Generator) -> IntArray:
        if node.distribution is None:
            return rng.multinomial(np.full(size, self.n), rng.dirichlet(np.ones(self.k), size))
        return node.distribution.floats.sample(size, rng)

    def _log_bound(self, gaps: FloatArray) -> FloatArray:
        total = np.full(gaps.shape[1], -np.inf)
        for node in self._nodes:
            inside = (gaps * node.rate <= node.cut).all(axis=0) if node.rate else True
            term = np.where(inside, node.log_factor - node.rate * gaps.sum(axis=0), -np.inf)
            total = np.logaddexp(total, term)
        return total


class _Side:
    """The gaps of one category around its true count, computed as far out as needed."""

    def __init__(self, i: int, count: int, n: int, gap: Gap) -> None:
        self._count = count
        self._limits = (count, n - count)  # how far down, how far up
        self._index, self._gap = i, gap
        self._out = [np.zeros(1), np.zeros(1)]  # gaps at distance 0, 1, … downwards and upwards

    def at(self, count: int) -> float:
        """Return the gap of one count: the same number whether or not it is in the cache."""
        side, distance = int(count > self._count), abs(count - self._count)
        gaps = self._out[side]
        if distance < len(gaps):
            return float(gaps[distance])
        return float(self._gap(self._index, np.array([float(count)]))[0])

    def within(self, reach: float) -> tuple[int, FloatArray]:
        """Return the first count whose gap is at most ``reach``, and the gaps from there to the last one."""
        lengths = []
        for side, direction in enumerate((-1, 1)):
            gaps, limit = self._out[side], self._limits[side] + 1
            while gaps[-1] <= reach and len(gaps) < limit:
                steps = np.arange(len(gaps), min(2 * len(gaps) + 64, limit), dtype=np.float64)
                more = self._gap(self._index, self._count + direction * steps)
                gaps = self._out[side] = np.concatenate([gaps, more])
            lengths.append(int(np.searchsorted(gaps, reach, side="right")))
        down, up = self._out[0][: lengths[0]], self._out[1][: lengths[1]]
        return self._count - lengths[0] + 1, np.concatenate([down[:0:-1], up])


# ---- the envelope: few exponentials above φ ------------------------------------------------------------


def _log_density(rate: float, node: FloatArray) -> FloatArray:
    """Return the log of the mixing weight of e^{−λF} in φ per unit of λ ≥ 1, by Debye's expansion of K.

    With t = ``rate``, the result is ½ ln(2t/π) + λ ln(t/2) − lnΓ(λ+1) + ln K_{λ−½}(t), arranged so that
    nothing cancels for large λ.
    """
    order = node - 0.5
    z = rate / order
    rest = z * z / (1 + np.sqrt(1 + z * z))
    main = order * (np.log1p(0.5 * rest) - rest) + order * np.log1p(-0.5 / node) - 0.5 * np.log(node)
    main += 0.5 * (1 - math.log(2)) + 0.5 * math.log(rate) - 0.5 * np.log(2 * math.pi * node)
    main -= stirling_remainder(node)
    bessel = 0.5 * np.log(math.pi / (2 * order)) - 0.25 * np.log1p(z * z)
    return np.asarray(0.5 * math.log(2 * rate / math.pi) + bessel + main, dtype=np.float64)


def _node_positions(last: float, k: int) -> FloatArray:
    """Return the nodes λ: 0, whole numbers, then a geometric series up to ``last``."""
    spacing = 1 + 1.6 / math.sqrt(k)
    whole = np.arange(1, math.ceil(1 / (spacing - 1)) + 1, dtype=np.float64)  # φ mixes whole λ only
    steps = np.arange(1, math.log(max(2.0, last) / whole[-1]) / math.log(spacing) + 1)
    return np.concatenate([[0.0], whole, whole[-1] * spacing**steps])


def _dominating_mixture(
    rate: float, nearest: float, last: float, k: int, log_candidates: float
) -> tuple[FloatArray, FloatArray]:
    """Return nodes λ_j and the logarithms of factors q_j whose mixture of exponentials exceeds φ.

    That is, Σ_j q_j e^{−λ_j F} ≥ (1 + margin) φ(F) at F = 0 and at all F ≥ ``nearest``.

    The factors start as a trapezoidal rule for the mixture that φ is, and are raised where the mesh finds
    the sum too small. On a mesh cell log E is above its tangent and log φ below its chord, both being convex.
    """
    # What is less likely than e^{−40} over all candidates together is left to λ = 0, at a cost of e^{−40}.
    floor = min(rate, log_candidates + 40.0)
    nearest = min(nearest, 40.0)
    mesh = [nearest]
    while mesh[-1] < 45.0 and (floor == rate or height(mesh[-1], rate) > -floor):
        here = mesh[-1]
        mesh.append(here * (1 + 0.2 / math.sqrt(1 + rate * math.sqrt(-math.expm1(-here)))))
    ends = np.array(mesh)
    nodes = _node_positions(last, k)
    positive = nodes[1:]
    factors = np.concatenate([[-floor], _log_density(rate, positive) + np.log(np.gradient(nodes)[1:])])
    factors[0] += 2 * _MARGIN
    # The last node stands for everything beyond it: e^{−λF} decreases in λ, and all factors sum to φ(0) = 1.
    factors[-1] = math.log(max(1.0 - float(np.exp(factors[:-1]).sum()), 1e-3))
    if len(ends) == 1:  # beyond its nearest neighbour everything is left to λ = 0
        ends = np.array([ends[0], ends[0] * 1.01])
    middle, half = 0.5 * (ends[1:] + ends[:-1]), 0.5 * (ends[1:] - ends[:-1])
    low, high = height(ends[:-1], rate), height(ends[1:], rate)
    for _ in range(60):
        terms = factors - nodes * middle[:, None]
        peak = terms.max(axis=1, keepdims=True)
        weight = np.exp(terms - peak)
        log_sum = peak[:, 0] + np.log(weight.sum(axis=1))
        slope = -(weight @ nodes) / weight.sum(axis=1)
        deficit = np.maximum(low - (log_sum - slope * half), high - (log_sum + slope * half)) + _MARGIN
        if deficit.max() <= 0:
            break
        main = terms.argmax(axis=1)
        for j in np.unique(main[deficit > 0]):
            factors[j] += deficit[main == j].max() + 1e-9
    else:
        factors += max(0.0, float(deficit.max())) + 1e-9
    short = math.expm1(_MARGIN) + 1.0 - float(np.exp(factors).sum())
    if short > 0:
        factors[-1] = np.logaddexp(factors[-1], math.log(short))
    return nodes, factors


def _coin(times: int, source: Source) -> bool:
    """Return True with probability 2^(−times), always for times ≤ 0; stop at the first bit that is set."""
    while times > 0:
        if source.below(1 << min(times, 64)):
            return False
        times -= 64
    return True
