"""The posterior of weighted shares, from noisy weighted totals and noisy sums of squares.

Each unit (a record or a cluster) contributes a vector x ≥ 0 of k cells with Σx ≤ 1, in units of the largest
weight: its weight is added to the cell of its value or, for a mean, divided between the two bounds. Let S be
the sum of these vectors and M the sum of xxᵀ over units. The share of cell j is p = S_j/ΣS. Its linearised
variance (Hájek; Woodruff 1971) is D/(ΣS)² with D = M_jj − 2p Σ_l M_jl + p² ΣM. The true S and M are drawn
from the noise distribution subject to S ≥ 0 and 0 < D ≤ p(1 − p)ΣS. Given these, the population's share has a
Beta distribution with the effective sample size p(1 − p)(ΣS)²/D (Korn and Graubard 1998). For equal weights
this is the posterior of multinomial shares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, expit, log_ndtr, logit, ndtr, ndtri_exp

from discreet._inference.polya_tree import SMOOTH
from discreet._inference.quantiles import BinnedDistribution, Bins
from discreet._typing import FloatArray

_POOL, _TRIES, _TURNS = 4096, 512, 6


@dataclass(frozen=True)
class NoisyTotals:
    """Noisy totals of cells and sums of squares, in units of the most that one unit can contribute.

    ``squares`` contains the upper triangle of M, or only its diagonal if no unit is in two cells. The scales
    are standard deviations of Gaussian noise, or scales b of Laplace noise. ``freedom`` is the number of
    degrees of freedom of the variance estimate, if known.
    """

    totals: FloatArray
    squares: FloatArray
    total_scale: float
    square_scale: float
    gaussian: bool
    freedom: int | None = None

    @property
    def is_diagonal(self) -> bool:
        return len(self.squares) == len(self.totals)

    def whole(self, entries: FloatArray) -> FloatArray:
        """Return symmetric matrices from their upper triangles, which are on the last axis."""
        k = len(self.totals)
        rows, columns = np.triu_indices(k)
        whole = np.zeros((*entries.shape[:-1], k, k))
        whole[..., rows, columns] = whole[..., columns, rows] = entries
        return whole

    def of_cells(self, cells: list[int]) -> tuple[FloatArray, FloatArray]:
        """Return the totals of some cells, and their part of the matrix M."""
        matrix = np.diag(self.squares) if self.is_diagonal else self.whole(self.squares)
        return self.totals[cells], matrix[np.ix_(cells, cells)]

    def spread(self, entries: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the diagonal, row sums and sum of symmetric matrices, whose entries are on the last axis."""
        if self.is_diagonal:
            return entries, entries, entries.sum(axis=-1)
        whole = self.whole(entries)
        sums = whole.sum(axis=-1)
        return np.diagonal(whole, axis1=-2, axis2=-1), sums, sums.sum(axis=-1)


@dataclass(frozen=True)
class ShareDraws:
    """Draws of the shares, of their effective sample sizes, and of the totals; shape (draws, cells)."""

    shares: FloatArray
    sizes: FloatArray
    totals: FloatArray


def draw_shares(noisy: NoisyTotals, size: int, rng: np.random.Generator) -> ShareDraws:
    """Draw the population's shares from their posterior, given noisy totals and squares."""
    totals = _draw_totals(noisy, size, rng)
    whole = totals.sum(axis=1)
    p = np.clip(totals / whole[:, None], 1e-12, 1 - 1e-12)
    most = p * (1 - p) * whole[:, None]
    variance = _draw_variances(noisy, p, most, rng)
    if noisy.freedom is not None:
        variance = variance * (noisy.freedom / rng.chisquare(noisy.freedom, size))[:, None]
    sizes = np.minimum(most * whole[:, None] / variance, 2.0**53)
    draw = _draw_apart if noisy.is_diagonal else _draw_coupled
    shares = draw(noisy, p, sizes, rng)
    return ShareDraws(shares / shares.sum(axis=1, keepdims=True), sizes, totals)


def _draw_apart(noisy: NoisyTotals, p: FloatArray, sizes: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw shares from a Dirichlet, then rescale each logit to the cell's own effective sample size."""
    k, spread = p.shape[1], p * (1 - p)
    together = (spread.sum(axis=1) / (spread / sizes).sum(axis=1))[:, None]
    alike = rng.standard_gamma(together * p + 1)
    alike = np.clip(alike / alike.sum(axis=1, keepdims=True), 1e-300, 1 - 1e-16)
    middle, stretch = (together * p + 1) / (together + k), np.sqrt((together + k) / (sizes + k))
    return np.asarray(expit(logit(middle) + (logit(alike) - logit(middle)) * stretch))


def _draw_coupled(
    noisy: NoisyTotals, p: FloatArray, sizes: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw Beta variables with the correlations implied by M, or those of a Dirichlet under much noise."""
    k, middle = p.shape[1], p.mean(axis=0)
    apart = np.eye(k) - middle[:, None]
    values, vectors = np.linalg.eigh(apart @ noisy.whole(noisy.squares) @ apart.T)
    likeness = vectors * np.maximum(values, 0) @ vectors.T
    likeness += k * noisy.square_scale * (np.diag(middle) - np.outer(middle, middle))
    values, vectors = np.linalg.eigh(likeness)
    normal = rng.normal(size=p.shape) @ (vectors * np.sqrt(np.maximum(values, 0))).T
    chance = ndtr(normal / np.sqrt(np.diagonal(likeness)))
    return np.asarray(betaincinv(sizes * p + 1, sizes * (1 - p) + k - 1, chance))


class WeightedDistribution(BinnedDistribution):
    """The posterior of a population's distribution, from noisy weighted totals of bins and sums of squares.

    The cumulative share F at each edge has a standard deviation sd, from its linearised variance plus that of
    the noise. A draw of the distribution function is F + z·sd for a standard normal z (or Student's t),
    made monotone from below for z > 0 and from above for z < 0. Its quantiles are therefore the ends of
    Woodruff's intervals (1952). Since one z would serve for all p, draws of several quantiles are reordered
    to have the correlations of the cumulative shares.
    """

    def __init__(self, bins: Bins, noisy: NoisyTotals, cells: list[int]) -> None:
        self.bins, self.noisy, self._drawn = bins, noisy, {}
        order, *_ = bins.ordered
        (totals, squares), unit = noisy.of_cells([cells[i] for i in order]), 1.0 if noisy.gaussian else 2.0
        least = 3 * noisy.total_scale * np.sqrt(unit * len(totals))
        whole = max(float(totals.sum()), least)
        self._below = np.append(np.clip(np.cumsum(totals[:-1]) / whole, 0, 1), 1.0)
        apart = np.tri(len(totals)) - self._below[:, None]
        variance = np.clip(
            ((apart @ squares) * apart).sum(axis=1), 0, self._below * (1 - self._below) * whole
        )
        variance += unit * noisy.total_scale**2 * (apart**2).sum(axis=1)
        self._deviation = np.sqrt(variance) / whole
        likeness = apart @ (squares + unit * noisy.total_scale**2 * np.eye(len(totals))) @ apart.T
        size = np.sqrt(np.maximum(np.diag(likeness), 1e-12))
        self._likeness = likeness / np.outer(size, size)

    def _draw_shares(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.int8]]:
        z = rng.standard_t(self.noisy.freedom or 1e9, (size, 1))
        moved = self._below + z * self._deviation
        up, down = np.maximum.accumulate(moved, 1), np.minimum.accumulate(moved[:, ::-1], 1)[:, ::-1]
        below = np.clip(np.where(z > 0, up, down), 0, 1)
        share = np.empty_like(below)
        share[:, self.bins.ordered[0]] = np.diff(below, prepend=0.0)
        return share, np.full(below.shape, len(SMOOTH) // 2, dtype=np.int8)

    def _pair(
        self, values: FloatArray, points: FloatArray, inverse: bool, rng: np.random.Generator
    ) -> FloatArray:
        at = np.searchsorted(self._below if inverse else self.bins.ordered[2], points)
        at = np.minimum(at, len(self._below) - 2)
        likeness, middle = self._likeness[np.ix_(at, at)], np.zeros(len(at))
        luck = rng.multivariate_normal(middle, likeness, len(values), "ignore", method="eigh")
        paired = np.take_along_axis(np.sort(values, axis=0), luck.argsort(axis=0).argsort(axis=0), axis=0)
        rising = np.argsort(points)
        paired[:, rising] = np.sort(paired[:, rising], axis=1)
        return paired


def draw_positive(
    value: FloatArray, scale: float, gaussian: bool, tilt: float, chance: FloatArray
) -> FloatArray:
    """Return the quantiles, at ``chance``, of the density ∝ noise(value − x)·e^{−tilt·x} on x ≥ 0."""
    if gaussian:
        middle = value - scale**2 * tilt
        far = ndtri_exp(np.log(1 - chance) + log_ndtr(middle / scale))
        return np.asarray(np.maximum(middle - scale * far, 0.0))
    # Below the value the density is e^{rate·x}, above it falls as e^{−fall·x}.
    rate, fall, peak = 1 / scale - tilt, 1 / scale + tilt, np.maximum(value, 0.0)
    rate = rate if abs(rate) > 1e-9 / scale else 1e-9 / scale
    ahead = np.expm1(np.clip(-rate * peak, -700, 700))
    below = -ahead / rate
    share = below / (below + 1 / fall)
    inner = np.clip(chance / np.maximum(share, 1e-300), 1e-300, 1)
    if rate > 0:
        left = peak + np.log1p(ahead * (1 - inner)) / rate
    else:
        left = np.log1p(inner * np.expm1(rate * peak)) / rate
    right = peak - np.log(np.clip((1 - chance) / (1 - share), 1e-300, 1)) / fall
    return np.asarray(np.where(chance < share, left, right))


def _draw_totals(noisy: NoisyTotals, size: int, rng: np.random.Generator) -> FloatArray:
    """Draw the true totals S ≥ 0 given the noisy ones, under uniform priors of the shares and of the sum.

    This prior has density (ΣS)^{1−k} for the totals, which is approximated by e^{−τ ΣS} with τ = (k−1)/ΣS.
    """
    k = len(noisy.totals)
    chance = rng.random((size, k)) * (1 - 2e-16) + 1e-16
    tilt, totals = 0.0, np.empty(0)
    for _ in range(_TURNS if k > 1 else 1):
        totals = draw_positive(noisy.totals, noisy.total_scale, noisy.gaussian, tilt, chance)
        tilt = (k - 1) / float(totals.sum(axis=1).mean())
    return np.asarray(np.maximum(totals, 1e-9 * noisy.total_scale))


def _draw_variances(
    noisy: NoisyTotals, p: FloatArray, most: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw the linearised variances D given the noisy squares, within 0 < D ≤ ``most``.

    The prior of the standard deviations √D is uniform.
    """
    entries = len(noisy.squares)
    distribution = rng.normal if noisy.gaussian else rng.laplace
    pool = noisy.spread(distribution(0.0, noisy.square_scale, (_POOL, entries)))
    seen = noisy.spread(noisy.squares)
    drawn = np.empty_like(p)
    tries = int(np.clip(_TRIES // p.shape[1], 16, 64))
    place = rng.integers(_POOL, size=(len(p), tries))
    luck = rng.gumbel(size=place.shape)
    for j in range(1 if p.shape[1] == 2 else p.shape[1]):
        share = p[:, j, None]
        d = (seen[0][j] - pool[0][place, j]) - 2 * share * (seen[1][j] - pool[1][place, j])
        d += share**2 * (seen[2] - pool[2][place])
        bound = most[:, j, None]
        allowed = (d > 1e-9 * bound) & (d <= bound)
        score = np.where(allowed, luck - np.log(np.where(allowed, d, 1.0)) / 2, -np.inf)
        best = score.argmax(axis=1)
        rows = np.arange(len(p))
        other = bound[:, 0] * rng.uniform(1e-3, 1, len(p)) ** 2
        drawn[:, j] = np.where(allowed[rows, best], d[rows, best], other)
    if p.shape[1] == 2:
        drawn[:, 1] = drawn[:, 0]
    return drawn
