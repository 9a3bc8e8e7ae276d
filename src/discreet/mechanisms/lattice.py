"""The lattice mechanism: noise on the lattice of counts that sum to n, then optimal decoding.

z = c + v with Σv = 0 and P(v) ∝ exp(−ε‖v‖₁/2); the released counts are the decoded z. Privacy is proved in
``proofs/lattice.md``. For two levels the expected Hellinger error equals the optimum of the linear program
over all ε-differentially private mechanisms in every case compared (``tests/test_decoding.py``).

Given z the true counts x have the law π(x|z) ∝ DirMult(x; α, n) · exp(−ε ‖z − x‖₁ / 2), and the decoder
returns the counts s that minimise E_π[H(Dir(α + x), Dir(α + s))]. This is post-processing of a private
output: it costs no budget, may use floats, and depends on z only through clip(z, 0, n).

Three rules, by size: the exact minimiser over all candidates while they are few; for two levels the exact
minimiser in a window around the noisy count (ε down to about 0.003, then the median of π); otherwise
interpolated medians of the exact marginals of π, rounded to sum n. Where both can be computed, the expected
error of the medians is within 2 % of the exact minimiser's for priors of ½ and more; for sparse priors at
small ε it is not (α = 0.1, ε = 0.02: a quarter above). Measured in ``tests/test_decoding.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from operator import add
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.hellinger import PairWindow, candidate_distances
from discreet._numerics.log_gamma import log_predictive, log_rising
from discreet._randomness.bulk import lattice_noise
from discreet._randomness.entropy import Source
from discreet._text import about
from discreet._typing import FloatArray, IntArray
from discreet.distributions.noise_aware import TrueCounts
from discreet.errors import TooLargeError
from discreet.mechanisms._outputs import CountNoise, Output, PublishedLoss
from discreet.mechanisms.base import Mechanism
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet._numerics.noises import LatticeNoise
    from discreet.distributions._given_total import GivenTotal

MAX_CANDIDATES = 2048
"""Up to this many candidate posteriors the minimiser is found among all of them."""
MAX_WINDOW = 1 << 15
"""Two levels: up to this many counts of non-negligible probability (ε down to about 0.003) the minimiser is
exact; beyond, the median of π is released."""
_MOST_WEIGHED = 1 << 18
"""More levels: about so many counts of a level are weighed at most."""

_TIE = 1 + 1e-10  # costs within this factor count as equal, so that every caller breaks ties alike
_NEGLIGIBLE = 45.0  # log-weights this far below the largest are left out
_TAIL = 36.0  # e^{−36} < 3e-16: what is left beyond this many nats is below the stated tail of 1e-15
_MAX_CLASSES = 2_000_000
_MAX_DECODING_WORK = 1e11
_MAX_SECONDS = 120.0  # of decoding for the laws of all datasets


class Lattice(Mechanism):
    """Counts plus lattice noise of total zero, decoded to the posterior of least expected Hellinger error."""

    name: ClassVar[str] = "lattice"
    words: ClassVar[str] = (
        "Random whole numbers that sum to zero were added to the counts of the levels, so that the total "
        "stayed n. The counts with the same total that fit the noisy ones best were released."
    )
    keeps_noisy: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, basis="theorem: proofs/lattice.md")

    @property
    def noise_scale(self) -> float:
        return (1 if self.k == 2 else 2) / float(self.epsilon)

    @cached_property
    def noise(self) -> LatticeNoise:
        """The law of the noise, in floats: for inference and plans."""
        from discreet._numerics.noises import LatticeNoise

        return LatticeNoise(2 / float(self.epsilon))

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        return None if noisy is None else CountNoise(noisy, self.noise)

    @property
    def decoder(self) -> Decoder:
        return decoder(self.prior, self.n, self.epsilon)

    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        noise = np.asarray(lattice_noise(self.k, self.epsilon, source)).tolist()
        noisy = tuple(map(add, counts, noise))
        return Output(None, noisy, self.decode)

    def decode(self, noisy: tuple[int, ...]) -> tuple[int, ...]:
        """The counts of the posterior that is closest, in expectation, to the true one."""
        return self.decoder.decode(noisy)

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        return self.decoder.decode_many(self.simulate_noise(size, rng) + np.array(counts, dtype=np.int64))

    def simulate_noise(self, size: int, rng: np.random.Generator) -> IntArray:
        """Lattice noise by floats from a seeded generator, shape (size, k). Not private."""
        return np.asarray(self.noise.draw(np.zeros((size, self.k)), rng), dtype=np.int64)

    def log_noise_normaliser(self) -> float:
        """log Σ_v exp(−ε‖v‖₁/2) over the lattice, for any k and ε."""
        return self.noise.log_normaliser(self.k)

    def published_loss(self) -> PublishedLoss:
        """Of the noisy counts, of which the released ones are a function (``proofs/lattice.md``).

        c + v against c + e_j − e_i + v: the log-ratio is ε, 0 or −ε, and ε exactly when v_i ≥ 0 ≥ v_j. Hence
        δ(e) = P(v_i ≥ 0 ≥ v_j)·(1 − e^{e−ε}) for e ≤ ε. With q = e^{−ε/2}, Σ_{a ≥ 0 ≥ b, a+b = s} q^{a−b} =
        q^{|s|}/(1−q²): the weight of one coordinate instead of two, so that the probability is that of
        k − 1 coordinates summing to zero over that of k, divided by (1 + q)².
        """
        from discreet._numerics.noises import log_chance_of_zero

        epsilon = float(self.epsilon)
        ratio = log_chance_of_zero(epsilon / 4, self.k - 1) - log_chance_of_zero(epsilon / 4, self.k)
        chance = math.exp(ratio - 2 * math.log1p(math.exp(-epsilon / 2)))

        def delta(e: float) -> float:
            return max(0.0, chance * -math.expm1(e - epsilon)) if e < epsilon else 0.0

        counts = (self.n,) + (0,) * (self.k - 1)
        return PublishedLoss(epsilon, delta, (counts, (self.n - 1, 1) + (0,) * (self.k - 2), counts))

    def true_counts(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> TrueCounts:
        if noisy is None:
            return super().true_counts(counts)
        law = self.decoder.true_counts(noisy)
        if law is None:
            raise TooLargeError(
                f"epsilon={self.epsilon} spreads the true counts over too wide a range at n={self.n}"
            )
        return law

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        noisy, log_probability = self._clipped_distribution(counts)
        outputs, order, starts = self._decode_sorted(noisy)
        return outputs, np.logaddexp.reduceat(log_probability[order], starts)

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        # The law of the clipped noisy counts t is base(t)·exp(−ε‖t − x‖₁/2): one dataset gives the base.
        corner = (self.n,) + (0,) * (self.k - 1)
        noisy, base = self._clipped_distribution(corner, whole=True)
        half = float(self.epsilon) / 2
        base = base + half * np.abs(noisy - np.array(corner)).sum(axis=1)
        outputs, order, starts = self._decode_sorted(noisy)
        noisy, base = noisy[order], base[order]
        law = np.empty((len(rows), len(outputs)))
        for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * len(noisy) >> 20)):
            log_law = np.broadcast_to(base, (len(part), len(base))).copy()
            for x, z in zip(rows[part].T, noisy.T, strict=True):
                log_law -= half * np.abs(x[:, None] - z)
            law[part] = np.logaddexp.reduceat(log_law, starts, axis=1)
        return outputs, law

    def _decode_sorted(self, noisy: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """What noisy counts are decoded to, in order; the order, and where each output begins in it."""
        released = self.decoder.decode_many(noisy)
        order = np.lexsort(released.T[::-1])
        ordered = released[order]
        starts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
        return ordered[starts], order, starts

    def _clipped_distribution(
        self, counts: tuple[int, ...], whole: bool = False
    ) -> tuple[IntArray, FloatArray]:
        """The law of the noisy counts clipped to [0, n]; ``whole``: with every tail, however unlikely."""
        law = self._clipped_pair if self.k == 2 else self._clipped_classes
        return law(counts, whole)

    def _clipped_pair(self, counts: tuple[int, ...], whole: bool = False) -> tuple[IntArray, FloatArray]:
        """The law of the noisy counts clipped to [0, n], k = 2; both ends take their whole tail."""
        count, n, rate = counts[0], self.n, float(self.epsilon)
        if n > 2**62:
            raise TooLargeError(f"log_pmf works up to n = 2**62, not {n}; draw works at any n")
        reach = n if whole or self.decoder.exhaustive else math.ceil(_TAIL / rate)
        low, high = max(0, count - reach), min(n, count + reach)
        seconds = (high - low) * decoding_seconds(self) if whole else 0.0
        if high - low > 50_000 or seconds > _MAX_SECONDS:
            raise TooLargeError(
                f"log_pmf of lattice with n={n}, epsilon={self.epsilon} needs {high - low + 1} decodings; "
                "draw and simulate work at this size"
            )
        first = np.arange(low, high + 1)
        log_probability = math.log(math.tanh(rate / 2)) - rate * np.abs(first - count)
        tail = -math.log1p(math.exp(-rate))  # P(v ≥ g) = e^{−rate·g} / (1 + e^{−rate}) for g ≥ 0
        if high == n:
            log_probability[-1] = tail - rate * (n - count)
        if low == 0:
            log_probability[0] = tail - rate * count
        return np.stack([first, n - first], axis=1), log_probability

    def _clipped_classes(self, counts: tuple[int, ...], whole: bool = False) -> tuple[IntArray, FloatArray]:
        """The law of the noisy counts clipped to [0, n] coordinatewise, k ≥ 3, tails in closed form.

        A class t stands for all z with clip(z) = t: coordinates with t = 0 (or n) take any value below
        (above). With a low and b high ends, the excesses L below and U above satisfy L − U = Σt − n.
        """
        classes = (self.n + 1) ** self.k
        if classes > _MAX_CLASSES or not self.decoder.exhaustive:
            raise TooLargeError(
                f"log_pmf of lattice with n={self.n}, k={self.k} has {about(classes)} classes of noisy "
                "counts, more than can be decoded one by one; draw and simulate work at this size"
            )
        rate = float(self.epsilon) / 2
        if rate < 1e-5:
            raise TooLargeError(
                f"log_pmf of lattice with k={self.k} works down to epsilon = 2e-5, not {self.epsilon}; "
                "draw and simulate work at any epsilon"
            )
        grid = np.indices((self.n + 1,) * self.k).reshape(self.k, -1).T
        lows, highs = (grid == 0).sum(axis=1), (grid == self.n).sum(axis=1)
        surplus = grid.sum(axis=1) - self.n
        log_weight = -rate * np.abs(grid - np.array(counts)).sum(axis=1)
        excess = np.full(len(grid), -np.inf)
        for a in range(self.k + 1):
            for b in range(self.k + 1 - a):
                rows = np.flatnonzero((lows == a) & (highs == b))
                if len(rows):
                    table = _log_excess(a, b, self.k * self.n, rate)
                    excess[rows] = table[surplus[rows] + self.k * self.n]
        log_probability = log_weight + excess - self.log_noise_normaliser()
        rows = np.flatnonzero(np.isfinite(log_probability))
        work = float(len(self.decoder.candidates)) ** 2
        if len(rows) * work > _MAX_DECODING_WORK and not whole:  # leave out what is below the stated tail
            rows = np.flatnonzero(log_probability > -_TAIL - math.log(classes))
        if len(rows) * work > _MAX_DECODING_WORK:
            raise TooLargeError(
                f"log_pmf of lattice with n={self.n}, k={self.k}, epsilon={self.epsilon} needs {len(rows)} "
                f"decodings among {len(self.decoder.candidates)} candidates; use draw or simulate"
            )
        return grid[rows], log_probability[rows]


def _log_ways(total: IntArray, parts: int) -> FloatArray:
    """log of the number of ways to write ``total`` as an ordered sum of ``parts`` non-negative integers."""
    from scipy.special import gammaln

    if parts == 0:
        return np.where(total == 0, 0.0, -np.inf)
    safe = np.maximum(total, 0)
    ways = gammaln(safe + parts) - gammaln(safe + 1) - math.lgamma(parts)
    return np.where(total >= 0, ways, -np.inf)


def _log_excess(a: int, b: int, reach: int, rate: float) -> FloatArray:
    """log Σ_{L − U = d} ways(L, a) ways(U, b) e^{−rate (L + U)} for d = −reach, …, reach."""
    longest = reach + math.ceil((_TAIL + 10 + 4 * (a + b)) / rate)
    steps = np.arange(longest + 1)
    below, above = _log_ways(steps, a) - rate * steps, _log_ways(steps, b) - rate * steps
    table = np.empty(2 * reach + 1)
    for d in range(-reach, reach + 1):
        x = below[max(d, 0) : longest + 1 + min(d, 0)]
        y = above[max(-d, 0) : longest + 1 - max(d, 0)]
        terms = x + y
        peak = terms.max()
        table[d + reach] = peak + math.log(np.exp(terms - peak).sum()) if np.isfinite(peak) else -np.inf
    return table


@lru_cache(maxsize=4)
def decoder(prior: tuple[float, ...], n: int, epsilon: Fraction) -> Decoder:
    """The decoder of these public parameters; its tables are built on first use and shared."""
    return Decoder(prior, n, epsilon)


class Decoder:
    """Maps noisy counts to the released counts, with a memory of what it has decoded."""

    def __init__(self, prior: tuple[float, ...], n: int, epsilon: Fraction) -> None:
        self.prior = prior
        self.n = n
        self.epsilon = float(epsilon)
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    @cached_property
    def exhaustive(self) -> bool:
        """Whether all candidates are compared."""
        return number_of_compositions(self.n, len(self.prior)) <= MAX_CANDIDATES

    def decode(self, noisy: Sequence[int]) -> tuple[int, ...]:
        """The released counts for one vector of noisy counts."""
        clipped = tuple(min(max(int(z), 0), self.n) for z in noisy)
        known = self._known.get(clipped)
        if known is None:
            if len(self._known) > 100_000:
                self._known.clear()
            known = self._known[clipped] = self._decode(clipped)
        return known

    def decode_many(self, noisy: IntArray) -> IntArray:
        """Rows of noisy counts to rows of released counts; each distinct row is decoded once."""
        clipped = np.clip(noisy, 0, self.n)
        distinct, inverse = _distinct_rows(clipped, self.n)
        if self.exhaustive:
            decoded = self.candidates[self._best(distinct)]
        else:
            decoded = np.array([self.decode(row) for row in distinct.tolist()], dtype=np.int64)
        return np.asarray(decoded.reshape(-1, len(self.prior))[inverse], dtype=np.int64)

    def _decode(self, clipped: tuple[int, ...]) -> tuple[int, ...]:
        if self.exhaustive and (len(self.prior) > 2 or self.n <= 256):
            best = self._best(np.array([clipped], dtype=np.int64))[0]
            return tuple(int(c) for c in self.candidates[best])
        if len(self.prior) == 2:  # the same minimiser, without tables of all candidates
            first = self.by_pair(clipped[0])
            return first, self.n - first
        return self.by_medians(clipped)

    @cached_property
    def candidates(self) -> IntArray:
        return compositions(self.n, len(self.prior))

    @cached_property
    def _log_prior(self) -> FloatArray:
        return log_predictive(self.prior, self.candidates)

    @cached_property
    def distances(self) -> FloatArray:
        """Hellinger distances between all pairs of candidate posteriors."""
        return candidate_distances(self.prior, self.candidates)

    def _best(self, clipped: IntArray) -> IntArray:
        """Index of the best candidate for each row; ties go to the first in lexicographic order."""
        result = np.empty(len(clipped), dtype=np.int64)
        half = 0.5 * self.epsilon
        tables = [half * np.abs(np.arange(self.n + 1)[:, None] - column) for column in self.candidates.T]
        for start in range(0, len(clipped), 1024):
            rows = clipped[start : start + 1024]
            log_weight = np.broadcast_to(self._log_prior, (len(rows), len(self.candidates))).copy()
            for table, column in zip(tables, rows.T, strict=True):
                log_weight -= table[column]
            log_weight -= log_weight.max(axis=1, keepdims=True)
            weight = np.exp(log_weight, out=log_weight)
            weight /= weight.sum(axis=1, keepdims=True)
            cost = weight @ self.distances
            result[start : start + 1024] = _first_minimum(cost)
        return result

    def by_pair(self, z: int) -> int:
        """The count s of the first level that minimises the expected distance; k = 2, any n."""
        grid = self._support_of_pair(z)
        size = len(grid)
        log_weight = self._pair_log_weight(grid, z)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        if grid.step > 1:
            return grid[int(np.searchsorted(np.cumsum(weight), 0.5))]
        distance = PairWindow(self.prior, self.n, grid[0], size)
        index = np.arange(size)

        def costs(s: IntArray) -> FloatArray:
            parts = np.array_split(s, max(1, len(s) * size >> 18))
            return np.concatenate([distance(part[:, None], index) @ weight for part in parts])

        # H is a metric, so |cost(s) − cost(s')| ≤ H(s, s'): between two evaluated points the cost stays above
        # the larger end minus their distance, and intervals that cannot hold the minimum are dropped.
        step = 1
        while size // step > 256:
            step *= 4
        points = np.unique(np.append(index[::step], size - 1))
        cost = costs(points)
        while step > 1:
            left, right = points[:-1], points[1:]
            floor = np.maximum(cost[:-1], cost[1:]) - distance(left, right)
            open_ = np.flatnonzero((floor <= cost.min() * _TIE) & (right - left > 1))
            step //= 4
            inner = [np.arange(left[i] + step, right[i], step) for i in open_]
            if not inner:
                break
            fresh = np.concatenate(inner)
            order = np.argsort(np.concatenate([points, fresh]), kind="stable")
            points = np.concatenate([points, fresh])[order]
            cost = np.concatenate([cost, costs(fresh)])[order]
        return grid[int(points[int(_first_minimum(cost))])]

    def _pair_log_weight(self, grid: Sequence[int], z: int) -> FloatArray:
        first = np.array([float(x) for x in grid])
        second = np.array([float(self.n - x) for x in grid])
        away = np.array([float(abs(x - z)) for x in grid])
        one, other = self.prior
        return log_rising(one, first) + log_rising(other, second) - self.epsilon * away

    def _support_of_pair(self, z: int) -> range:
        """Equally spaced counts that hold all but a negligible part of π(·|z); spaced by 1 unless too many.

        Zooms: a coarse grid finds where the log-weight comes within reach of its maximum, and the next grid
        covers only that stretch.
        """
        low, high = 0, self.n
        while high - low >= MAX_WINDOW:
            stride = -(-(high - low) // 4096)
            grid = sorted({*range(low, high, stride), high, min(max(z, low), high)})
            log_weight = self._pair_log_weight(grid, z)
            near = np.flatnonzero(log_weight >= log_weight.max() - _NEGLIGIBLE)
            new_low = grid[max(int(near[0]) - 1, 0)]
            new_high = grid[min(int(near[-1]) + 1, len(grid) - 1)]
            if (new_high - new_low) * 2 > high - low:
                return range(new_low, new_high + 1, -(-(new_high - new_low + 1) // 4096))
            low, high = new_low, new_high
        whole = range(low, high + 1)
        log_weight = self._pair_log_weight(whole, z)
        near = np.flatnonzero(log_weight >= log_weight.max() - _NEGLIGIBLE)
        return whole[int(near[0]) : int(near[-1]) + 1]

    def true_counts(self, noisy: Sequence[int]) -> GivenTotal | None:
        """π(x|z), or None where there are too many possible counts to weigh."""
        from discreet._numerics.noises import LatticeNoise
        from discreet.distributions._given_total import GivenTotal

        if self.n >= 2**53:
            return None
        # Noisy counts matter between 0 and n only: so more of them are alike.
        clipped = [min(max(z, 0), self.n) for z in noisy]
        law = GivenTotal(clipped, LatticeNoise(2 / self.epsilon), self.prior, self.n)
        try:
            law.check()
        except TooLargeError:
            return None
        return law

    def by_medians(self, clipped: tuple[int, ...]) -> tuple[int, ...]:
        """Interpolated medians of the marginals of π, rounded to sum n."""
        law = self.true_counts(clipped)
        if law is None:
            return round_to_total(clipped, [0.0] * len(clipped), self.n)
        nearest = np.floor(law.medians())
        above = (law.medians() - nearest).tolist()
        return round_to_total(nearest.astype(np.int64).tolist(), above, self.n)


def decoding_seconds(m: Lattice) -> float:
    """About how long it takes to decode one vector of noisy counts; measured on an ordinary machine."""
    epsilon = float(m.epsilon)
    if m.decoder.exhaustive:
        return 2e-5 + 2e-10 * number_of_compositions(m.n, m.k) ** 2
    if m.k == 2:
        return 3e-3 + 3e-6 * min(m.n, 90 / epsilon, MAX_WINDOW)
    reach = (2 * (45 + 4 * m.k) + 4 * sum(m.prior)) / epsilon
    return m.k * (2e-4 + 1e-6 * min(m.n, 2 * reach, _MOST_WEIGHED))


def _first_minimum(cost: FloatArray) -> IntArray:
    return np.asarray(np.argmax(cost <= cost.min(axis=-1, keepdims=True) * _TIE, axis=-1))


def _distinct_rows(rows: IntArray, n: int) -> tuple[IntArray, IntArray]:
    base = n + 1
    if base ** rows.shape[1] < 2**62:
        key = rows[:, 0].copy()
        for column in rows.T[1:]:
            key = key * base + column
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return rows[first], inverse
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    return distinct, inverse.ravel()


def round_to_total(starts: Sequence[int], values: Sequence[float], n: int) -> tuple[int, ...]:
    """Non-negative ints near starts + values, scaled to sum n, rounded by largest remainders."""
    sizes = np.array([float(start) + value for start, value in zip(starts, values, strict=True)])
    if sizes.sum() <= 0:
        sizes = np.ones(len(sizes))
    gap = float(n - sum(starts)) - math.fsum(values)
    scaled = np.array(values) + gap * (sizes / sizes.sum())
    floors = np.floor(scaled)
    counts = [max(start + int(floor), 0) for start, floor in zip(starts, floors, strict=True)]
    by_remainder = np.argsort(floors - scaled, kind="stable").tolist()
    left = n - sum(counts)
    for i in by_remainder if left >= 0 else by_remainder[::-1]:
        if left == 0:
            break
        move = max(1 if 0 < left <= len(counts) else left, -counts[i])
        counts[i] += move
        left -= move
    return tuple(counts)
