"""The lattice mechanism: noise on the lattice of counts that sum to n, then optimal decoding.

z = c + v with Σv = 0 and P(v) ∝ exp(−ε‖v‖₁/2); the released counts are the decoded z. Privacy is proved in
``proofs/lattice.md``. For two levels the expected Hellinger error equals the optimum of the linear program
over all ε-differentially private mechanisms in every case compared (``tests/test_decoding.py``).
"""

from __future__ import annotations

import math
from functools import cached_property
from operator import add
from typing import Any, ClassVar

import numpy as np

from discreet._text import about
from discreet._typing import FloatArray, IntArray
from discreet.distributions.noise_aware import TrueCounts
from discreet.errors import TooLargeError
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.lattice.decoding import MAX_MARGINAL, MAX_WINDOW, Decoder, decoder, true_counts
from discreet.mechanisms.outputs import CountNoise, Output, PublishedLoss
from discreet.numerics.count_vectors import number_of_compositions
from discreet.privacy.guarantee import Guarantee
from discreet.randomness.bulk import lattice_noise
from discreet.randomness.entropy import Source

_TAIL = 36.0  # e^{−36} < 3e-16: what is left beyond this many nats is below the stated tail of 1e-15
QUICK_SECONDS = 0.15  # of decoding in a quick plan
_MAX_CLASSES = 2_000_000
_MAX_DECODING_WORK = 1e11
_MAX_SECONDS = 120.0  # of decoding for the laws of all datasets


class Lattice(Mechanism):
    """Counts plus lattice noise of total zero, decoded to the posterior of least expected Hellinger error."""

    name: ClassVar[str] = "lattice"
    words: ClassVar[str] = (
        "Random whole numbers that sum to zero were added to the counts of the levels, so that the total "
        "stayed n. The most fitting counts were then read out of the noisy ones."
    )
    keeps_noisy: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True

    @classmethod
    def compared(cls, n: int, k: int, quick: bool) -> list[dict[str, Any]]:
        return [{}]

    @cached_property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, basis="theorem: proofs/lattice.md")

    @property
    def noise_scale(self) -> float:
        return (1 if self.k == 2 else 2) / float(self.epsilon)

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        from discreet.numerics.noises import LatticeNoise

        return None if noisy is None else CountNoise(noisy, LatticeNoise(2 / float(self.epsilon)))

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
        if self.k == 2:
            first = _two_sided_geometric(float(self.epsilon), (size,), rng)
            return np.stack([first, -first], axis=1)
        rate = float(self.epsilon) / 2
        noise = np.empty((size, self.k), dtype=np.int64)
        filled = 0
        while filled < size:
            # Source that stay in the cache; about one proposal in 2√k is accepted.
            block = min(int((size - filled) * 2.1 * math.sqrt(self.k)) + 16, 32_768)
            proposals = _two_sided_geometric(rate, (self.k - 1, block), rng)
            last = -proposals.sum(axis=0)
            accepted = np.flatnonzero(rng.random(block) < np.exp(-rate * np.abs(last)))[: size - filled]
            rows = slice(filled, filled + len(accepted))
            noise[rows, :-1] = proposals[:, accepted].T
            noise[rows, -1] = last[accepted]
            filled += len(accepted)
        return noise

    def simulate_rows(self, true: IntArray, each: int, rng: np.random.Generator) -> IntArray:
        return self.finished(self.simulate_cheaply(np.repeat(true, each, axis=0), rng))

    def finished(self, cheap: IntArray) -> IntArray:
        """Decoded together, every distinct vector once."""
        return self.decoder.decode_many(cheap)

    def simulate_cheaply(self, true: IntArray, rng: np.random.Generator) -> IntArray:
        return np.asarray(np.clip(true + self.simulate_noise(len(true), rng), 0, self.n))

    @property
    def seconds_per_dataset(self) -> float:
        """What the decoder takes for one vector of noisy counts."""
        epsilon = float(self.epsilon)
        if self.decoder.exhaustive:
            return 2e-5 + 2e-10 * number_of_compositions(self.n, self.k) ** 2
        if self.k == 2:
            return 3e-3 + 3e-6 * min(self.n, 90 / epsilon, MAX_WINDOW)
        reach = (2 * (45 + 4 * self.k) + 4 * sum(self.prior)) / epsilon
        return self.k * (2e-4 + 1e-6 * min(self.n, 2 * reach, MAX_MARGINAL))

    def sample_sizes(self, quick: bool) -> tuple[int, int]:
        seconds, most = (QUICK_SECONDS, 400) if quick else (0.6, 4000)
        number = int(min(max(seconds / self.seconds_per_dataset, 12), most))
        unit = 1 << (number.bit_length() - 2)  # few different sizes, so that a change of ε rarely changes it
        return number // unit * unit, 1

    def log_noise_normaliser(self) -> float:
        """log Σ_v exp(−ε‖v‖₁/2) over the lattice, for any k and ε."""
        from discreet.numerics.noises import LatticeNoise

        return LatticeNoise(2 / float(self.epsilon)).log_normaliser(self.k)

    def published_loss(self) -> PublishedLoss:
        """Of the noisy counts, of which the released ones are a function (``proofs/lattice.md``).

        c + v against c + e_j − e_i + v: the log-ratio is ε, 0 or −ε, and ε exactly when v_i ≥ 0 ≥ v_j. Hence
        δ(e) = P(v_i ≥ 0 ≥ v_j)·(1 − e^{e−ε}) for e ≤ ε. With q = e^{−ε/2}, Σ_{a ≥ 0 ≥ b, a+b = s} q^{a−b} =
        q^{|s|}/(1−q²): the weight of one coordinate instead of two, so that the probability is that of
        k − 1 coordinates summing to zero over that of k, divided by (1 + q)².
        """
        from discreet.numerics.noises import log_chance_of_zero

        epsilon = float(self.epsilon)
        ratio = log_chance_of_zero(epsilon / 4, self.k - 1) - log_chance_of_zero(epsilon / 4, self.k)
        chance = math.exp(ratio - 2 * math.log1p(math.exp(-epsilon / 2)))

        def delta(e: float) -> float:
            return max(0.0, chance * -math.expm1(e - epsilon)) if e < epsilon else 0.0

        counts = (self.n,) + (0,) * (self.k - 1)
        return PublishedLoss(epsilon, delta, (counts, (self.n - 1, 1) + (0,) * (self.k - 2), counts))

    @property
    def law_size(self) -> int | float:
        """Classes of noisy counts that are decoded one by one."""
        if not self.decoder.exhaustive:
            return math.inf
        return self.n + 1 if self.k == 2 else (self.n + 1) ** self.k

    def true_counts(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> TrueCounts:
        if noisy is None:
            return super().true_counts(counts)
        law = true_counts(noisy, self.prior, self.n, float(self.epsilon))
        if law is None:
            raise TooLargeError(
                f"epsilon={self.epsilon} spreads the true counts over too wide a range at n={self.n}"
            )
        return law

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        noisy, log_probability = self._clipped(counts)
        outputs, order, starts = self._decoded(noisy)
        return outputs, np.logaddexp.reduceat(log_probability[order], starts)

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        # The law of the clipped noisy counts t is base(t)·exp(−ε‖t − x‖₁/2): one dataset gives the base.
        corner = (self.n,) + (0,) * (self.k - 1)
        noisy, base = self._clipped(corner, whole=True)
        half = float(self.epsilon) / 2
        base = base + half * np.abs(noisy - np.array(corner)).sum(axis=1)
        outputs, order, starts = self._decoded(noisy)
        noisy, base = noisy[order], base[order]
        law = np.empty((len(rows), len(outputs)))
        for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * len(noisy) >> 20)):
            log_law = np.broadcast_to(base, (len(part), len(base))).copy()
            for x, z in zip(rows[part].T, noisy.T, strict=True):
                log_law -= half * np.abs(x[:, None] - z)
            law[part] = np.logaddexp.reduceat(log_law, starts, axis=1)
        return outputs, law

    def _decoded(self, noisy: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """What noisy counts are decoded to, in order; the order, and where each output begins in it."""
        released = self.decoder.decode_many(noisy)
        order = np.lexsort(released.T[::-1])
        ordered = released[order]
        starts = np.flatnonzero(np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1)))
        return ordered[starts], order, starts

    def _clipped(self, counts: tuple[int, ...], whole: bool = False) -> tuple[IntArray, FloatArray]:
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
        seconds = (high - low) * self.seconds_per_dataset if whole else 0.0
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


def _two_sided_geometric(rate: float, shape: tuple[int, ...], rng: np.random.Generator) -> IntArray:
    # The floor of an exponential variable is geometric; a difference of two is two-sided.
    draws = rng.standard_exponential((2, *shape))
    draws /= rate
    np.floor(draws, out=draws)
    difference: IntArray = (draws[0] - draws[1]).astype(np.int64)
    return difference
