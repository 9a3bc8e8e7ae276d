"""Shares and total from counts with independent noise, where the number of records is not known.

Rates λᵢ ~ Gamma(αᵢ, b) are the same as shares θ ~ Dir(α) and, independently, a total Λ ~ Gamma(Σα, b); the
true counts are xᵢ ~ Poisson(λᵢ), the noisy ones zᵢ = xᵢ + noise. Given b the levels separate:

    π(xᵢ | zᵢ, b) ∝ Γ(αᵢ + x)/x! · (1 + b)^{−x} · P(noise = zᵢ − x),   θ | x ~ Dir(α + x).

b is never fixed, which would say n to within 1/√Σα: the expected number of records Σα/b is log-uniform on a
declared range, or has the prior that matches the noise, and is integrated out by a sum over nodes. For the
share of one level the sum of the others enters through its moments, which are exact: cumulants add up, and a
Gauss rule for that sum has the same first moments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.distributions.beta_dirichlet import IntervalKind
from discreet.distributions.beta_rows import BetaPart, mean_and_deviation, quantiles
from discreet.distributions.mixtures import BetaMixture
from discreet.distributions.noise_aware import PrintedShares
from discreet.errors import InvalidInput, TooLargeError
from discreet.numerics.noisy_cells import Block, CellNoise, GeometricNoise, Tilted, TiltedCells

_STEP = 1.1  # nodes stand this many standard deviations apart: the sum is then an integral to seven digits
_NEGLIGIBLE = 16.0  # nodes whose log-weight is so far below the largest are left out: 1e-7
_EXACT = 24  # sums of the other levels below this are taken one by one
_MOST_NODES = 400


@dataclass(frozen=True)
class LogUniform:
    """A positive number whose logarithm is uniform between two bounds."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (0 < self.low < self.high < math.inf):
            raise InvalidInput(f"the range ({self.low!r}, {self.high!r}) must be two numbers, 0 < low < high")

    def log_density(self, log_total: float) -> float:
        """Of the logarithm, up to a constant."""
        return 0.0

    @classmethod
    def of(cls, pair: Sequence[float], name: str) -> LogUniform:
        """The law of a declared pair (low, high)."""
        try:
            low, high = map(float, pair)
            return cls(low, high)
        except (TypeError, ValueError, InvalidInput):
            raise InvalidInput(
                f"{name}={pair!r} must be two numbers, 0 < low < high, such as (100, 1e6)"
            ) from None


@dataclass(frozen=True)
class Matching(LogUniform):
    """A number on which noise of a public variance lies: p(Λ) ∝ 1/√(Λ + variance), Jeffreys' prior of it.

    Flat where the noise hides the number, and 1/√Λ where only the draw of the records does: so intervals
    hold about as often as they say at each number, and not only on average over the prior.
    """

    variance: float = 0.0

    def log_density(self, log_total: float) -> float:
        return log_total - 0.5 * float(np.logaddexp(log_total, math.log(max(self.variance, 1e-300))))


TOTALS = (1.0, 1e9)
"""Where the number of records is expected if nothing is declared."""
STRENGTH_PRIOR = LogUniform(1e-4, 10.0)
"""The parameter of a symmetric prior that is to be found from the release itself."""


class AddRemovePosterior(PrintedShares):
    """The posterior of shares and total, given noisy counts; see the module.

    For two levels the shares have a scalar face, as every posterior here has: that of the first level.
    ``prior`` is a parameter for each level, one number for all, or a :class:`LogUniform`: then it is one
    unknown number for all levels and is integrated out, which suits many levels of which most may be empty.
    """

    def __init__(
        self,
        noisy: Sequence[int] | IntArray,
        prior: float | Sequence[float] | FloatArray | LogUniform = STRENGTH_PRIOR,
        *,
        epsilon: float | None = None,
        noise: CellNoise | None = None,
        total_prior: LogUniform | None = None,
    ) -> None:
        if (epsilon is None) == (noise is None):
            raise InvalidInput("give either epsilon= of geometric noise or noise=")
        try:
            self.noisy = np.asarray(noisy, dtype=np.int64)
        except OverflowError:
            raise TooLargeError("shares and total are inferred from noisy counts up to 2**63") from None
        self.noise = noise if noise is not None else GeometricNoise(float(epsilon or 0))
        self.prior = prior
        self.total_prior = total_prior or Matching(*TOTALS, variance=len(self.noisy) * self.noise.variance)
        self._cells = TiltedCells.of(self.noisy, np.ones(1), self.noise)

    @property
    def k(self) -> int:
        return len(self.noisy)

    @cached_property
    def _given(self) -> list[tuple[float, _Given]]:
        """The posterior given each parameter of the prior, with its weight."""
        if not isinstance(self.prior, LogUniform):
            alpha = np.broadcast_to(np.asarray(self.prior, dtype=np.float64), self.noisy.shape)
            return [(1.0, _Given(TiltedCells.of(self.noisy, alpha, self.noise), self.total_prior))]
        known: dict[float, _Given] = {}

        def log_evidence(at: float) -> float:
            if at not in known:
                alpha = np.full(len(self._cells), math.exp(at))
                cells = TiltedCells(
                    self._cells.noisy, alpha, self._cells.count, self._cells.inverse, self.noise
                )
                known[at] = _Given(cells, self.total_prior)
            return known[at].log_evidence

        nodes, _ = integrate(log_evidence, math.log(self.prior.low), math.log(self.prior.high))
        return [(weight, known[at]) for at, weight in nodes]

    @cached_property
    def total(self) -> TotalPosterior:
        """The posterior of the number of records."""
        return TotalPosterior([(w * v, at) for w, given in self._given for v, at in given.nodes])

    def _rows(self) -> Iterator[tuple[IntArray, list[BetaPart]]]:
        """Distinct cells and the mixture of Betas that each one's share follows."""
        # All priors share the cells but for their α, so that a row means the same in each.
        first = self._given[0][1].cells
        step = max(1, (1 << 21) // (64 * len(self._given) * 16))
        for start in range(0, len(first), step):
            rows = np.arange(start, min(start + step, len(first)))
            yield rows, [part for w, given in self._given for part in given.parts(rows, w)]

    @property
    def _inverse(self) -> IntArray:
        return self._given[0][1].cells.inverse

    @cached_property
    def _moments(self) -> tuple[FloatArray, FloatArray]:
        size = len(self._given[0][1].cells)
        mean, deviation = np.empty(size), np.empty(size)
        for rows, parts in self._rows():
            mean[rows], deviation[rows] = mean_and_deviation(parts)
        return mean[self._inverse], deviation[self._inverse]

    def _face(self, values: FloatArray) -> Any:
        return float(values[0]) if self.k == 2 else values

    def mean(self) -> Any:
        """Posterior means of the shares."""
        return self._face(self._moments[0])

    def std(self) -> Any:
        """Posterior standard deviations of the shares."""
        return self._face(self._moments[1])

    def var(self) -> Any:
        """Posterior variances of the shares."""
        return self._face(self._moments[1] ** 2)

    def deviations(self) -> FloatArray:
        """Standard deviations of all shares, also where there are two."""
        return self._moments[1]

    def predictive(self) -> FloatArray:
        """The probability that the next record falls into each level."""
        return self._moments[0]

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[Any, Any]:
        """Credible intervals of the shares: (low, high), arrays where there are more than two levels."""
        if kind == "equal-tailed":
            low, high = self.intervals(level)
        else:
            shown = range(1 if self.k == 2 else self.k)
            low, high = np.array([self.marginal(i).interval(level, kind) for i in shown]).T
        return self._face(low), self._face(high)

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's share."""
        if not isinstance(index, int | np.integer) or not -self.k <= index < self.k:
            raise InvalidInput(f"index={index!r} must be between 0 and {self.k - 1}")
        row = np.array([self._inverse[index]])
        parts = [part for w, given in self._given for part in given.parts(row, w)]
        weight = np.concatenate([part.mass[0] for part in parts])
        a = np.concatenate([part.a[0] + np.arange(part.mass.shape[1]) for part in parts])
        total = np.concatenate([np.broadcast_to(part.s[0], part.mass.shape[1]) for part in parts]) + a
        kept = weight > 1e-12 * weight.max()
        return BetaMixture(weight[kept] / weight[kept].sum(), a[kept], total[kept])

    def intervals(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Equal-tailed credible intervals of all shares, also where there are two."""
        if not 0 < level < 1:
            raise InvalidInput(f"level={level!r} must be a probability between 0 and 1, such as 0.95")
        size = len(self._given[0][1].cells)
        low, high = np.empty(size), np.empty(size)
        for rows, parts in self._rows():
            low[rows], high[rows] = quantiles(parts, (1 - level) / 2, (1 + level) / 2)
        return low[self._inverse], high[self._inverse]

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the shares, shape (size, k). The release is public, so this costs no privacy."""
        counts, alpha = self.sample_counts(size, np.random.default_rng(seed))
        draws = np.random.default_rng(None if seed is None else [seed, 1]).standard_gamma(counts + alpha)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)

    def sample_counts(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        """Draws of the true counts, shape (size, k), and of the prior parameters that go with each."""
        nodes = [(w * v, given, at) for w, given in self._given for v, at in given.nodes]
        weight = np.array([w for w, _, _ in nodes])
        chosen = rng.choice(len(nodes), size, p=weight / weight.sum())
        counts = np.empty((size, self.k), dtype=np.int64)
        alpha = np.empty((size, self.k))
        for node in np.unique(chosen):
            draws = np.flatnonzero(chosen == node)
            _, given, at = nodes[node]
            alpha[draws] = given.cells.prior[given.cells.inverse]
            for block in given.blocks:
                mass, _ = block.tilted(at.tilt)
                for row, start, p in zip(block.rows, block.start, mass, strict=True):
                    columns = np.flatnonzero(given.cells.inverse == row)
                    uniform = rng.random((len(draws), len(columns)))
                    values = np.searchsorted(np.cumsum(p), uniform * p.sum(), side="right")
                    counts[np.ix_(draws, columns)] = int(start) + values
        return counts, alpha


@dataclass(frozen=True)
class _Node:
    """Everything that is kept of one b: the tilt −log(1 + b), and cumulants of each distinct cell's count."""

    tilt: float
    cumulants: FloatArray
    """Shape (order, cells)."""
    total: FloatArray
    """Cumulants of the number of records."""
    tilted: Tilted

    def others(
        self, rows: IntArray, rest: FloatArray
    ) -> tuple[FloatArray | None, list[tuple[FloatArray, FloatArray]]]:
        """What stands for the sum of the true counts of all levels but one of each row.

        A Gauss rule for its moments, values and weights; where it may be so small that the Betas change from
        one value to the next, the probabilities of small values and a rule for what is left.
        """
        cumulants = self.total[:, None] - self.cumulants[:, rows]
        mean, deviation = cumulants[0], np.sqrt(np.maximum(cumulants[1], 1e-300))
        scale = float(np.max(deviation / (rest + mean)))
        number = 2 if scale < 0.02 else 3 if scale < 0.1 else 5
        moments = _moments(cumulants[: 2 * number - 1])
        if number < 5 or float((mean - 12 * deviation).min()) > _EXACT:
            return None, gauss_rule(moments, mean, deviation)
        small = self.tilted.small_sums_of_others(rows, _EXACT)
        away = (np.arange(_EXACT) - mean[:, None]) / deviation[:, None]
        left = np.maximum(1 - small.sum(axis=1), 1e-12)
        inner = [m - np.einsum("rj,rj->r", small, away**j) for j, m in enumerate(moments)]
        centre = inner[1] / left
        spread = np.sqrt(np.maximum(inner[2] / left - centre**2, 1e-12))
        centred = [
            sum(math.comb(j, i) * inner[i] * (-centre) ** (j - i) for i in range(j + 1)) / left / spread**j
            for j in range(len(inner))
        ]
        # Next to nothing is left beyond the small values: its moments are rounding errors, any law will do.
        nothing = left < 1e-6
        normal = [math.prod(range(1, j, 2)) * (1 - j % 2) for j in range(len(inner))]
        centred = [np.where(nothing, usual, m) for usual, m in zip(normal, centred, strict=True)]
        centre, spread = np.where(nothing, 0.0, centre), np.where(nothing, 1.0, spread)
        rule = gauss_rule(centred, mean + centre * deviation, spread * deviation)
        return small, [(np.maximum(value, _EXACT - 1.0), left * weight) for value, weight in rule]


class _Given:
    """The posterior given the prior's parameters, with b integrated out."""

    def __init__(self, cells: TiltedCells, total_prior: LogUniform) -> None:
        self.cells = cells
        self.strength = float(cells.count @ cells.prior)
        self._total_prior = total_prior
        self._low, self._high = math.log(total_prior.low), math.log(total_prior.high)
        self._seen: dict[float, tuple[float, float]] = {}
        self._blocks: tuple[float, float, list[Block]] | None = None
        self._log_weights, self.log_evidence = integrate(
            lambda s: self._log_likelihood(s)[0],
            self._low,
            self._high,
            start=self._fixed_point(),
            scale=math.sqrt(1 / self.strength + 1 / (1 + max(0, int(cells.count @ cells.noisy)))),
        )

    def _tilt(self, log_total: float) -> float:
        """−log(1 + b) for b = Σα/e^{log_total}."""
        return -float(np.logaddexp(0.0, math.log(self.strength) - log_total))

    def _at(self, tilt: float) -> Tilted:
        # Windows that serve for a range of tilts are kept until a tilt leaves it.
        if self._blocks is None or not self._blocks[0] <= tilt <= self._blocks[1]:
            margin = 0.15 * abs(tilt)
            low, high = (tilt - margin, tilt + margin) if self._blocks is None else self._blocks[:2]
            low, high = min(low, tilt - margin), min(max(high, tilt + margin), 0.0)
            self._blocks = low, high, list(self.cells.blocks(low, high))
        return Tilted(self.cells, self._blocks[2], tilt)

    def _log_likelihood(self, log_total: float) -> tuple[float, float]:
        """log p(z | b) for b = Σα/e^{log_total}, and the expected number of records given z and b."""
        if log_total not in self._seen:
            at = self._at(self._tilt(log_total))
            # Σα·log(b/(1 + b)), without cancellation
            ratio = -float(np.logaddexp(0.0, log_total - math.log(self.strength)))
            value = float(self.cells.count @ at.log_size) + self.strength * ratio
            value += self._total_prior.log_density(log_total)
            self._seen[log_total] = value, at.total_mean
        return self._seen[log_total]

    def _fixed_point(self) -> float:
        """Where the likelihood is largest: there the expected number of records given z and b is Σα/b."""
        low, high = self._low, self._high
        at = min(max(math.log(max(1, int(self.cells.count @ self.cells.noisy))), low), high)
        for _ in range(60):
            gap = math.log(max(self._log_likelihood(at)[1], 1e-300)) - at
            low, high = (at, high) if gap > 0 else (low, at)
            if abs(gap) < 1e-3 / math.sqrt(self.strength + 1) or high - low < 1e-6:
                break
            step = at + 1.5 * gap
            at = step if low < step < high else (low + high) / 2
        return at

    @property
    def blocks(self) -> list[Block]:
        assert self._blocks is not None
        return self._blocks[2]

    @cached_property
    def nodes(self) -> list[tuple[float, _Node]]:
        """(weight, node) for each b that matters."""
        result = []
        for log_total, weight in self._log_weights:
            at = self._at(self._tilt(log_total))
            cumulants = _cumulants(at)
            result.append((weight, _Node(at.tilt, cumulants, cumulants @ self.cells.count, at)))
        return result

    def parts(self, rows: IntArray, weight: float) -> list[BetaPart]:
        """The mixture of Betas of the shares of some distinct cells."""
        prior = self.cells.prior[rows]
        rest = self.strength - prior
        result, few = [], []
        for share, node in self.nodes:
            mass, start = _gathered(node.tilted, rows)
            mass *= weight * share
            small, rule = node.others(rows, rest)
            if small is not None:
                few.append((mass, start, small))
            result += [BetaPart(mass * v[:, None], prior + start, rest + others, 0) for others, v in rule]
        if few:  # small sums are the same numbers at every node: one part for each
            first = np.min([start for _, start, _ in few], axis=0)
            width = max(int((start - first).max()) + mass.shape[1] for mass, start, _ in few)
            total = np.zeros((_EXACT, len(rows), width))
            for mass, start, small in few:
                place = (start - first).astype(np.int64)[:, None] + np.arange(mass.shape[1])
                own = np.zeros((len(rows), width))
                np.put_along_axis(own, place, mass, axis=1)
                total += small.T[:, :, None] * own
            result += [BetaPart(own, prior + first, rest + j, 0) for j, own in enumerate(total)]
        return result


def _gathered(at: Tilted, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """The laws of some cells in one array, from where they begin to matter to where they cease to."""
    place = np.full(len(at.cells), -1)
    place[rows] = np.arange(len(rows))
    pieces: list[tuple[IntArray, FloatArray]] = []
    start = np.empty(len(rows))
    for block, mass in zip(at.blocks, at.masses, strict=True):
        inside = np.flatnonzero(place[block.rows] >= 0)
        if not len(inside):
            continue
        p = mass[inside]
        kept = p > 1e-11 * p.max(axis=1, keepdims=True)
        first = kept.argmax(axis=1)
        length = int((p.shape[1] - kept[:, ::-1].argmax(axis=1) - first).max())
        index = first[:, None] + np.arange(length)
        inner = np.take_along_axis(p, np.minimum(index, p.shape[1] - 1), axis=1)
        pieces.append((place[block.rows[inside]], np.where(index < p.shape[1], inner, 0.0)))
        start[pieces[-1][0]] = block.start[inside] + first
    result = np.zeros((len(rows), max(p.shape[1] for _, p in pieces)))
    for where, p in pieces:
        result[where, : p.shape[1]] = p
    return result / result.sum(axis=1, keepdims=True), start


def _cumulants(at: Tilted, order: int = 9) -> FloatArray:
    """The first cumulants of each distinct cell's count."""
    result = np.empty((order, len(at.cells)))
    for block, mass in zip(at.blocks, at.masses, strict=True):
        own = at.mean[block.rows] - block.start
        away = np.arange(mass.shape[1]) - own[:, None]
        moments, power = [np.ones(len(own)), np.zeros(len(own))], away
        for _ in range(2, order + 1):
            power = power * away
            moments.append(np.einsum("rj,rj->r", mass, power))
        for j in range(1, order + 1):
            # κⱼ = mⱼ − Σ_{i<j} C(j−1, i−1) κᵢ m_{j−i}, of the centred count
            value = moments[j].copy()
            for i in range(2, j):
                value -= math.comb(j - 1, i - 1) * result[i - 1, block.rows] * moments[j - i]
            result[j - 1, block.rows] = value if j > 1 else 0.0
        result[0, block.rows] = at.mean[block.rows]
    return result


def _moments(cumulants: FloatArray) -> list[FloatArray]:
    """Moments of standardised laws from their cumulants, column by column."""
    deviation = np.sqrt(np.maximum(cumulants[1], 1e-300))
    kappa = [cumulants[j] / deviation ** (j + 1) for j in range(len(cumulants))]
    moments = [np.ones_like(deviation), np.zeros_like(deviation)]
    for j in range(2, len(cumulants) + 1):
        value = kappa[j - 1].copy()
        for i in range(2, j):
            value += math.comb(j - 1, i - 1) * kappa[i - 1] * moments[j - i]
        moments.append(value)
    return moments


def gauss_rule(
    moments: list[FloatArray], mean: FloatArray, deviation: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Nodes and weights that have the moments of laws with this mean, deviation and standardised moments."""
    number = len(moments) // 2
    hankel, shifted = (
        np.stack([np.stack([moments[i + j + more] for j in range(number)], -1) for i in range(number)], -2)
        for more in (0, 1)
    )
    # With H = LLᵀ the Jacobi matrix is L⁻¹ H' L⁻ᵀ: its eigenvalues are the nodes (Golub and Welsch 1969). A
    # law on fewer points, or rounding, can leave H singular: the diagonal is raised until it is not.
    for ridge in (0.0, 1e-13, 1e-10, 1e-7, 1e-4, 1e-2, 1.0):
        try:
            lower = np.linalg.cholesky(hankel + ridge * hankel[..., -1:, -1:] * np.eye(number))
            break
        except np.linalg.LinAlgError:
            continue
    inverse = np.linalg.inv(lower)
    nodes, vectors = np.linalg.eigh(inverse @ shifted @ np.swapaxes(inverse, -1, -2))
    weights = vectors[..., 0, :] ** 2
    return [(np.maximum(mean + deviation * nodes[..., j], 0.0), weights[..., j]) for j in range(number)]


def integrate(
    log_density: Callable[[float], float],
    low: float,
    high: float,
    start: float | None = None,
    scale: float | None = None,
) -> tuple[list[tuple[float, float]], float]:
    """∫ e^{log_density} on [low, high]: nodes with weights that sum to 1, and the logarithm of the integral.

    Equal steps are exact to many digits where the density dies out on both sides; where it is cut off by an
    end of the range, Gauss's nodes for the stretch that matters take their place.
    """
    if start is None or scale is None:
        coarse = np.linspace(low, high, 8)
        start = float(coarse[int(np.argmax([log_density(float(s)) for s in coarse]))])
        scale = (high - low) / 7
    start, deviation = _peak(log_density, low, high, start, scale)
    step = _STEP * deviation
    values = {start: log_density(start)}
    ends = [low, high]
    for side, direction in enumerate((-1, 1)):
        s = start + direction * step
        while low <= s <= high and len(values) < _MOST_NODES:
            values[s] = log_density(s)
            if values[s] < max(values.values()) - _NEGLIGIBLE:
                ends[side] = s
                break
            s += direction * step
    nodes, widths = np.array(sorted(values)), np.full(len(values), step)
    if ends[0] == low or ends[1] == high:
        unit, widths = np.polynomial.legendre.leggauss(math.ceil((ends[1] - ends[0]) / step) + 6)
        nodes = ends[0] + (ends[1] - ends[0]) * (unit + 1) / 2
        widths = widths * (ends[1] - ends[0]) / 2
    logs = np.array([log_density(float(s)) for s in nodes]) + np.log(widths)
    top = float(logs.max())
    weights = np.exp(logs - top)
    total = float(weights.sum())
    kept = np.flatnonzero(logs > top - _NEGLIGIBLE)
    return [(float(nodes[i]), float(weights[i] / weights[kept].sum())) for i in kept], top + math.log(total)


def _peak(
    log_density: Callable[[float], float], low: float, high: float, start: float, scale: float
) -> tuple[float, float]:
    """About the mode of a smooth density and its standard deviation, from parabolas through three points."""
    deviation = min(scale, (high - low) / 4)
    for _ in range(40):
        left, right = max(low, start - deviation), min(high, start + deviation)
        y = [log_density(s) for s in (left, start, right)]
        if y[0] > y[1] and y[0] >= y[2] and left > low:
            start, deviation = left, 1.5 * deviation
            continue
        if y[2] > y[1] and right < high:
            start, deviation = right, 1.5 * deviation
            continue
        if left == low or right == high:  # against an end: half a parabola says how fast it falls
            fall = max(y[1] - min(y[0], y[2]), 0.0)
            if fall > 4:
                deviation /= 2
                continue
            return start, min(deviation / max(math.sqrt(2 * fall), 0.5), (high - low) / 8)
        curvature = (2 * y[1] - y[0] - y[2]) / deviation**2
        if curvature * deviation**2 > 4:  # too coarse to see its shape
            deviation /= 2
            continue
        if curvature * deviation**2 < 0.2:
            if deviation >= (high - low) / 8:
                return start, (high - low) / 8
            deviation = min(2 * deviation, (high - low) / 8)
            continue
        start = min(max(start + 0.5 * deviation * (y[2] - y[0]) / (2 * y[1] - y[0] - y[2]), low), high)
        return start, 1 / math.sqrt(curvature)
    return start, deviation


class TotalPosterior:
    """The law of the number of records: a mixture over nodes, each a sum of independent counts."""

    def __init__(self, nodes: list[tuple[float, _Node]]) -> None:
        self._nodes = [(weight, node) for weight, node in nodes if weight > 1e-9]
        self._scale = math.fsum(weight for weight, _ in self._nodes)

    def mean(self) -> float:
        return math.fsum(w * float(node.total[0]) for w, node in self._nodes) / self._scale

    def var(self) -> float:
        mean = self.mean()
        within = math.fsum(
            w * (float(node.total[1]) + (float(node.total[0]) - mean) ** 2) for w, node in self._nodes
        )
        return within / self._scale

    def std(self) -> float:
        return math.sqrt(self.var())

    @cached_property
    def _law(self) -> tuple[IntArray, FloatArray]:
        """Equally spaced possible totals and their probabilities."""
        from scipy.fft import next_fast_len

        means = [float(node.total[0]) for _, node in self._nodes]
        spread = max(math.sqrt(float(node.total[1])) for _, node in self._nodes) + 1
        low, high = max(0, math.floor(min(means) - 12 * spread)), math.ceil(max(means) + 12 * spread)
        stride = max(1, (high - low) // 20_000)
        # As long as the windows too, of which the Fourier transforms are then fast.
        least = max(node.tilted.width for _, node in self._nodes) if stride == 1 else 0
        size = next_fast_len(max((high - low) // stride + 1, least), real=True)
        phase = -2j * math.pi / (size * stride) * np.arange(size // 2 + 1)
        spectrum = np.zeros(len(phase), dtype=np.complex128)
        for weight, node in self._nodes:
            moved = np.exp(phase * (node.tilted.total_mean - low))
            spectrum += weight * node.tilted.characteristic(size, stride).conj() * moved
        density = np.maximum(np.fft.irfft(spectrum, size), 0.0)
        return low + stride * np.arange(size), density / density.sum()

    def interval(self, level: float = 0.95) -> tuple[int, int]:
        """An equal-tailed credible interval."""
        if not 0 < level < 1:
            raise InvalidInput(f"level={level!r} must be a probability between 0 and 1, such as 0.95")
        totals, p = self._law
        cumulative = np.cumsum(p)
        low, high = np.searchsorted(cumulative, [(1 - level) / 2, (1 + level) / 2])
        return int(totals[low]), int(totals[min(int(high), len(totals) - 1)])
