"""The lattice mechanism: noise on the lattice of counts that sum to n, then optimal decoding.

The noisy counts are z = c + v, where c are the true counts, Σv = 0 and P(v) ∝ exp(−ε‖v‖₁/2). The released
counts are decoded from z. Privacy is proved in ``proofs/lattice.md``. For two levels the expected Hellinger
error equals the optimum of the linear program over all ε-differentially private mechanisms in every case
compared (``tests/test_decoding.py``).

Given z the true counts x have the distribution π(x|z) ∝ DirMult(x; α, n) · exp(−ε ‖z − x‖₁ / 2), and the
decoder returns the counts s that minimise E_π[H(Dir(α + x), Dir(α + s))]. This is post-processing of a
private output: it costs no budget, may use floats, and depends on z only through clip(z, 0, n).

The decoder uses one of three rules. If candidates are few, it takes the exact minimiser over all of them. For
two levels it takes the exact minimiser in a window around the noisy count, or the median of π if ε is below
about 0.003. Otherwise it takes interpolated medians of the exact marginals of π, rounded to sum n. Where both
can be computed, the expected error of the medians is within 2 % of the exact minimiser's for priors of ½ and
more; for sparse priors at small ε it is not: for α = 0.1 and ε = 0.02 it is a quarter larger. Measured in
``tests/test_decoding.py``.
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
from discreet.mechanisms._outputs import CountNoise, PublishedLoss
from discreet.mechanisms.base import Mechanism
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet._numerics.cells import GivenTotal
    from discreet._numerics.noises import LatticeNoise

MAX_CANDIDATES = 2048
"""The most candidate posteriors that are all compared to find the minimiser."""
MAX_WINDOW = 1 << 15
"""For two levels the minimiser is exact up to this many counts of non-negligible probability (ε down to about
0.003); beyond that, the median of π is released."""
_MAX_WEIGHED_COUNTS = 1 << 18
"""For more levels, roughly the most counts of one level whose probabilities are computed."""

_TIE_FACTOR = 1 + 1e-10  # costs within this factor count as equal, so that every caller breaks ties alike
_NEGLIGIBLE_NATS = 45.0  # log-weights this far below the largest are left out
_TAIL_NATS = 36.0  # e^{−36} < 3e-16: what is left beyond this many nats is below the stated tail of 1e-15
_MAX_CLASSES = 2_000_000
_MAX_DECODING_WORK = 1e11
_MAX_DECODING_SECONDS = 120.0  # of decoding for the distributions of all datasets


class Lattice(Mechanism):
    """Counts plus noise of total zero, decoded to the posterior of least expected Hellinger error.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.

    Examples
    --------
    >>> m = Lattice(prior=(1, 1, 1), n=60, epsilon=1)
    >>> print(m.guarantee)
    ε = 1 (replace-one)
    >>> m.decode((22, -3, 41))
    (20, 0, 40)
    """

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
        """The distribution of the noise, in floating point, for inference and plans."""
        from discreet._numerics.noises import LatticeNoise

        return LatticeNoise(2 / float(self.epsilon))

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        """Return the noisy counts in a release with the distribution of their noise.

        Parameters
        ----------
        counts
            Released counts.
        noisy
            Noisy counts.

        Returns
        -------
        CountNoise or None
            None without noisy counts.
        """
        return None if noisy is None else CountNoise(noisy, self.noise)

    @property
    def decoder(self) -> Decoder:
        """The function from noisy to released counts, for these public parameters."""
        return decoder(self.prior, self.n, self.epsilon)

    def _noisy(self, counts: tuple[int, ...], source: Source) -> tuple[int, ...]:
        noise = np.asarray(lattice_noise(self.k, self.epsilon, source)).tolist()
        return tuple(map(add, counts, noise))

    def decode(self, noisy: tuple[int, ...]) -> tuple[int, ...]:
        """Return the counts of the posterior that is closest, in expectation, to the true one.

        Parameters
        ----------
        noisy
            Noisy counts.

        Returns
        -------
        tuple of int
            Released counts, which sum to n.

        Examples
        --------
        >>> Lattice(prior=(1, 1), n=10, epsilon=1).decode((12, -2))
        (10, 0)
        """
        return self.decoder.decode(noisy)

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        return self.decoder.decode_many(self.simulate_noise(size, rng) + np.array(counts, dtype=np.int64))

    def simulate_noise(self, size: int, rng: np.random.Generator) -> IntArray:
        """Simulate lattice noise in floating point with a seeded generator: not private.

        Parameters
        ----------
        size
            Number of draws.
        rng
            The random number generator.

        Returns
        -------
        IntArray
            Noise of shape (size, k), each row with sum 0.

        Examples
        --------
        >>> m = Lattice(prior=(1, 1, 1), n=60, epsilon=1)
        >>> set(m.simulate_noise(5, np.random.default_rng(1)).sum(axis=1).tolist())
        {0}
        """
        return np.asarray(self.noise.draw(np.zeros((size, self.k)), rng), dtype=np.int64)

    def log_noise_normaliser(self) -> float:
        """Return log Σ_v exp(−ε‖v‖₁/2) over the lattice, for any k and ε.

        Returns
        -------
        float
            The logarithm.

        Examples
        --------
        >>> m = Lattice(prior=(1, 1), n=60, epsilon=1)
        >>> round(m.log_noise_normaliser(), 6) == round(-math.log(math.tanh(0.5)), 6)
        True
        """
        return self.noise.log_normaliser(self.k)

    def published_loss(self) -> PublishedLoss:
        """Return the privacy loss of the noisy counts, of which the released ones are a function.

        Returns
        -------
        PublishedLoss
            The exact loss.

        Notes
        -----
        The log-ratio of the probabilities of c + v under a dataset c and under a neighbour c + e_j − e_i is
        ε, 0 or −ε, and ε exactly when v_i ≥ 0 ≥ v_j (``proofs/lattice.md``). Hence δ(e) = P(v_i ≥ 0 ≥ v_j)·(1
        − e^{e−ε}) for e ≤ ε. With q = e^{−ε/2}, Σ_{a ≥ 0 ≥ b, a+b = s} q^{a−b} = q^{|s|}/(1−q²): the weight
        of one coordinate instead of two, so the probability is that of k − 1 coordinates summing to zero over
        that of k, divided by (1 + q)².

        Examples
        --------
        >>> loss = Lattice(prior=(1, 1, 1), n=60, epsilon=1).published_loss()
        >>> loss.epsilon, round(loss.delta(0.5), 4)
        (1.0, 0.2065)
        """
        from discreet._numerics.noises import log_chance_of_zero

        epsilon = float(self.epsilon)
        ratio = log_chance_of_zero(epsilon / 4, self.k - 1) - log_chance_of_zero(epsilon / 4, self.k)
        chance = math.exp(ratio - 2 * math.log1p(math.exp(-epsilon / 2)))

        def _delta(e: float) -> float:
            return max(0.0, chance * -math.expm1(e - epsilon)) if e < epsilon else 0.0

        counts = (self.n,) + (0,) * (self.k - 1)
        return PublishedLoss(epsilon, _delta, (counts, (self.n - 1, 1) + (0,) * (self.k - 2), counts))

    def true_counts(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> TrueCounts:
        """Return the posterior of the true counts given a release.

        Parameters
        ----------
        counts
            Released counts.
        noisy
            Noisy counts, where they are known.

        Returns
        -------
        TrueCounts
            The posterior.

        Raises
        ------
        TooLargeError
            If too many counts are possible.

        Examples
        --------
        >>> counts = Lattice(prior=(1, 1), n=10, epsilon=1).true_counts((9, 1), (12, -2))
        >>> [round(float(median), 2) for median in counts.medians()]
        [9.71, 0.29]
        """
        if noisy is None:
            return super().true_counts(counts)
        distribution = self.decoder.true_counts(noisy)
        if distribution is None:
            raise TooLargeError(
                f"epsilon={self.epsilon} spreads the true counts over too wide a range at n={self.n}; "
                "increase epsilon"
            )
        return distribution

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        noisy, log_probability = self._clipped_distribution(counts)
        outputs, order, starts = self._decode_sorted(noisy)
        return outputs, np.logaddexp.reduceat(log_probability[order], starts)

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the exact output distributions of many datasets.

        Parameters
        ----------
        rows
            The counts of each dataset, one row each.

        Returns
        -------
        outputs : IntArray
            All possible outputs, shape (R, k).
        log_probability : FloatArray
            A row of log-probabilities for each dataset.
        """
        # The distribution of the clipped noisy counts t is base(t)·exp(−ε‖t − x‖₁/2): one dataset gives the
        # base.
        corner = (self.n,) + (0,) * (self.k - 1)
        noisy, base = self._clipped_distribution(corner, whole=True)
        half = float(self.epsilon) / 2
        base = base + half * np.abs(noisy - np.array(corner)).sum(axis=1)
        outputs, order, starts = self._decode_sorted(noisy)
        noisy, base = noisy[order], base[order]
        distribution = np.empty((len(rows), len(outputs)))
        for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * len(noisy) >> 20)):
            log_distribution = np.broadcast_to(base, (len(part), len(base))).copy()
            for x, z in zip(rows[part].T, noisy.T, strict=True):
                log_distribution -= half * np.abs(x[:, None] - z)
            distribution[part] = np.logaddexp.reduceat(log_distribution, starts, axis=1)
        return outputs, distribution

    def _decode_sorted(self, noisy: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Decode and sort noisy counts; return the outputs, the order, and where each output begins in it."""
        released = self.decoder.decode_many(noisy)
        order = np.lexsort(released.T[::-1])
        ordered = released[order]
        starts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
        return ordered[starts], order, starts

    def _clipped_distribution(
        self, counts: tuple[int, ...], whole: bool = False
    ) -> tuple[IntArray, FloatArray]:
        """Return the distribution of noisy counts clipped to [0, n]; ``whole`` keeps negligible outcomes."""
        distribution = self._clipped_pair if self.k == 2 else self._clipped_classes
        return distribution(counts, whole)

    def _clipped_pair(self, counts: tuple[int, ...], whole: bool = False) -> tuple[IntArray, FloatArray]:
        """Return the distribution of the noisy counts clipped to [0, n] for k = 2; ends include tails."""
        count, n, rate = counts[0], self.n, float(self.epsilon)
        if n > 2**62:
            raise TooLargeError(f"log_pmf works up to n = 2**62, not {n}; draw works at any n")
        reach = n if whole or self.decoder.exhaustive else math.ceil(_TAIL_NATS / rate)
        low, high = max(0, count - reach), min(n, count + reach)
        seconds = (high - low) * decoding_seconds(self) if whole else 0.0
        if high - low > 50_000 or seconds > _MAX_DECODING_SECONDS:
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
        """Return the distribution of the noisy counts clipped to [0, n] for k ≥ 3.

        P(clip(z) = t) is a sum in closed form over all z with clip(z) = t, where coordinates with t = 0 may
        be smaller, and those with t = n larger. If a and b coordinates are at 0 and n, the total excesses L
        below 0 and U above n satisfy L − U = Σt − n.
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
            rows = np.flatnonzero(log_probability > -_TAIL_NATS - math.log(classes))
        if len(rows) * work > _MAX_DECODING_WORK:
            raise TooLargeError(
                f"log_pmf of lattice with n={self.n}, k={self.k}, epsilon={self.epsilon} needs {len(rows)} "
                f"decodings among {len(self.decoder.candidates)} candidates; use draw or simulate"
            )
        return grid[rows], log_probability[rows]


def _log_ways(total: IntArray, parts: int) -> FloatArray:
    """Return the log of the number of ordered sums of ``parts`` non-negative integers that give ``total``."""
    from scipy.special import gammaln

    if parts == 0:
        return np.where(total == 0, 0.0, -np.inf)
    safe = np.maximum(total, 0)
    ways = gammaln(safe + parts) - gammaln(safe + 1) - math.lgamma(parts)
    return np.where(total >= 0, ways, -np.inf)


def _log_excess(a: int, b: int, reach: int, rate: float) -> FloatArray:
    """Return log Σ_{L − U = d} ways(L, a) ways(U, b) e^{−rate (L + U)} for d = −reach, …, reach.

    Here ways(L, a) is the number of ordered sums of ``a`` non-negative integers that give L.
    """
    longest = reach + math.ceil((_TAIL_NATS + 10 + 4 * (a + b)) / rate)
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
    """Return the decoder of these public parameters, shared by all callers.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.

    Returns
    -------
    Decoder
        The decoder; its tables are built on first use.
    """
    return Decoder(prior, n, epsilon)


class Decoder:
    """A map from noisy counts to released counts, which caches its results.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.

    Examples
    --------
    >>> small = Decoder((1.0, 1.0), 10, Fraction(1))
    >>> small.exhaustive, small.decode((12, -2))
    (True, (10, 0))
    """

    def __init__(self, prior: tuple[float, ...], n: int, epsilon: Fraction) -> None:
        self.prior = prior
        self.n = n
        self.epsilon = float(epsilon)
        self._decode_sorted: dict[tuple[int, ...], tuple[int, ...]] = {}

    @cached_property
    def exhaustive(self) -> bool:
        """Whether all candidates are compared."""
        return number_of_compositions(self.n, len(self.prior)) <= MAX_CANDIDATES

    def decode(self, noisy: Sequence[int]) -> tuple[int, ...]:
        """Decode one vector of noisy counts.

        Parameters
        ----------
        noisy
            Noisy counts.

        Returns
        -------
        tuple of int
            Released counts.

        Examples
        --------
        >>> Decoder((1.0, 1.0, 1.0), 30, Fraction(1)).decode((11, 25, -6))
        (8, 22, 0)
        """
        clipped = tuple(min(max(int(z), 0), self.n) for z in noisy)
        released = self._decode_sorted.get(clipped)
        if released is None:
            if len(self._decode_sorted) > 100_000:
                self._decode_sorted.clear()
            released = self._decode_sorted[clipped] = self._decode(clipped)
        return released

    def decode_many(self, noisy: IntArray) -> IntArray:
        """Decode rows of noisy counts, each distinct row once.

        Parameters
        ----------
        noisy
            Noisy counts, one row each.

        Returns
        -------
        IntArray
            Released counts, one row each.

        Examples
        --------
        >>> Decoder((1.0, 1.0), 10, Fraction(1)).decode_many(np.array([[12, -2], [5, 5]])).tolist()
        [[10, 0], [5, 5]]
        """
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
        """All vectors of counts that sum to n."""
        return compositions(self.n, len(self.prior))

    @cached_property
    def _log_prior(self) -> FloatArray:
        return log_predictive(self.prior, self.candidates)

    @cached_property
    def distances(self) -> FloatArray:
        """Hellinger distances between all pairs of candidate posteriors."""
        return candidate_distances(self.prior, self.candidates)

    def _best(self, clipped: IntArray) -> IntArray:
        """Return the index of the best candidate for each row; ties go to the lexicographically first."""
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
        """Return the count of the first level that minimises the expected distance, for k = 2 and any n.

        Parameters
        ----------
        z
            Noisy count of the first level.

        Returns
        -------
        int
            Released count of the first level.

        Examples
        --------
        >>> Decoder((1.0, 1.0), 10**6, Fraction(1)).by_pair(3)
        3
        """
        grid = self._support_of_pair(z)
        size = len(grid)
        log_weight = self._pair_log_weight(grid, z)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        if grid.step > 1:
            return grid[int(np.searchsorted(np.cumsum(weight), 0.5))]
        distance = PairWindow(self.prior, self.n, grid[0], size)
        index = np.arange(size)

        def _costs(s: IntArray) -> FloatArray:
            parts = np.array_split(s, max(1, len(s) * size >> 18))
            return np.concatenate([distance(part[:, None], index) @ weight for part in parts])

        # H is a metric, so |cost(s) − cost(s')| ≤ H(s, s'): between two evaluated points the cost stays above
        # the larger end minus their distance, and intervals that cannot hold the minimum are dropped.
        step = 1
        while size // step > 256:
            step *= 4
        points = np.unique(np.append(index[::step], size - 1))
        cost = _costs(points)
        while step > 1:
            left, right = points[:-1], points[1:]
            floor = np.maximum(cost[:-1], cost[1:]) - distance(left, right)
            open_ = np.flatnonzero((floor <= cost.min() * _TIE_FACTOR) & (right - left > 1))
            step //= 4
            inner = [np.arange(left[i] + step, right[i], step) for i in open_]
            if not inner:
                break
            fresh = np.concatenate(inner)
            order = np.argsort(np.concatenate([points, fresh]), kind="stable")
            points = np.concatenate([points, fresh])[order]
            cost = np.concatenate([cost, _costs(fresh)])[order]
        return grid[int(points[int(_first_minimum(cost))])]

    def _pair_log_weight(self, grid: Sequence[int], z: int) -> FloatArray:
        first = np.array([float(x) for x in grid])
        second = np.array([float(self.n - x) for x in grid])
        away = np.array([float(abs(x - z)) for x in grid])
        first_prior, second_prior = self.prior
        return log_rising(first_prior, first) + log_rising(second_prior, second) - self.epsilon * away

    def _support_of_pair(self, z: int) -> range:
        """Return equally spaced counts that hold nearly all the mass of π(·|z).

        The spacing is 1 unless that gives too many counts.

        A coarse grid finds where the log-weight is near its maximum, and the next grid covers only that
        range.
        """
        low, high = 0, self.n
        while high - low >= MAX_WINDOW:
            stride = -(-(high - low) // 4096)
            grid = sorted({*range(low, high, stride), high, min(max(z, low), high)})
            log_weight = self._pair_log_weight(grid, z)
            near = np.flatnonzero(log_weight >= log_weight.max() - _NEGLIGIBLE_NATS)
            new_low = grid[max(int(near[0]) - 1, 0)]
            new_high = grid[min(int(near[-1]) + 1, len(grid) - 1)]
            if (new_high - new_low) * 2 > high - low:
                return range(new_low, new_high + 1, -(-(new_high - new_low + 1) // 4096))
            low, high = new_low, new_high
        whole = range(low, high + 1)
        log_weight = self._pair_log_weight(whole, z)
        near = np.flatnonzero(log_weight >= log_weight.max() - _NEGLIGIBLE_NATS)
        return whole[int(near[0]) : int(near[-1]) + 1]

    def true_counts(self, noisy: Sequence[int]) -> GivenTotal | None:
        """Return π(x|z), the posterior of the true counts.

        Parameters
        ----------
        noisy
            Noisy counts.

        Returns
        -------
        GivenTotal or None
            None where too many counts are possible.
        """
        from discreet._numerics.cells import GivenTotal
        from discreet._numerics.noises import LatticeNoise

        if self.n >= 2**53:
            return None
        # Noisy counts matter between 0 and n only: so more of them are alike.
        clipped = [min(max(z, 0), self.n) for z in noisy]
        distribution = GivenTotal(clipped, LatticeNoise(2 / self.epsilon), self.prior, self.n)
        try:
            distribution.check()
        except TooLargeError:
            return None
        return distribution

    def by_medians(self, clipped: tuple[int, ...]) -> tuple[int, ...]:
        """Return interpolated medians of the marginals of π, rounded to sum n.

        Parameters
        ----------
        clipped
            Noisy counts, clipped to [0, n].

        Returns
        -------
        tuple of int
            Released counts.

        Examples
        --------
        >>> Decoder((1.0, 1.0, 1.0), 1000, Fraction(1)).by_medians((300, 500, 210))
        (297, 496, 207)
        """
        distribution = self.true_counts(clipped)
        if distribution is None:
            return round_to_total(clipped, [0.0] * len(clipped), self.n)
        nearest = np.floor(distribution.medians())
        above = (distribution.medians() - nearest).tolist()
        return round_to_total(nearest.astype(np.int64).tolist(), above, self.n)


def decoding_seconds(m: Lattice) -> float:
    """Predict how long it takes to decode one vector of noisy counts on an ordinary machine.

    Parameters
    ----------
    m
        The mechanism.

    Returns
    -------
    float
        Seconds.
    """
    epsilon = float(m.epsilon)
    if m.decoder.exhaustive:
        return 2e-5 + 2e-10 * number_of_compositions(m.n, m.k) ** 2
    if m.k == 2:
        return 3e-3 + 3e-6 * min(m.n, 90 / epsilon, MAX_WINDOW)
    reach = (2 * (45 + 4 * m.k) + 4 * sum(m.prior)) / epsilon
    return m.k * (2e-4 + 1e-6 * min(m.n, 2 * reach, _MAX_WEIGHED_COUNTS))


def _first_minimum(cost: FloatArray) -> IntArray:
    return np.asarray(np.argmax(cost <= cost.min(axis=-1, keepdims=True) * _TIE_FACTOR, axis=-1))


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
    """Round numbers to non-negative integers with a given sum, by largest remainders.

    Parameters
    ----------
    starts, values
        The integer part and the remainder of each number, which are first scaled to sum to n.
    n
        The required total.

    Returns
    -------
    tuple of int
        The integers.

    Examples
    --------
    >>> round_to_total((3, 4), (0.6, 0.2), 8)
    (4, 4)
    """
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
