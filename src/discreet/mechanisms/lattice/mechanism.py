"""The lattice mechanism: noise on the lattice of counts that sum to n, then optimal decoding.

z = c + v with Σv = 0 and P(v) ∝ exp(−ε‖v‖₁/2); the released counts are the decoded z. Privacy is proved in
``proofs/lattice.md``. For two levels the expected Hellinger error equals the optimum of the linear program
over all ε-differentially private mechanisms in every case compared (``tests/test_decoding.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.errors import TooLargeError
from discreet.mechanisms.base import Mechanism, Output, as_float
from discreet.mechanisms.lattice.decoding import Decoder, decoder
from discreet.privacy.guarantee import Guarantee
from discreet.randomness.entropy import Source
from discreet.randomness.integers import lattice_noise

_TAIL = 36.0  # e^{−36} < 3e-16: what is left beyond this many nats is below the stated tail of 1e-15
_MAX_CLASSES = 2_000_000
_MAX_DECODING_WORK = 1e11


@dataclass(frozen=True)
class Lattice(Mechanism):
    """Counts plus lattice noise of total zero, decoded to the posterior of least expected Hellinger error."""

    name: ClassVar[str] = "lattice"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, basis="theorem: proofs/lattice.md")

    @property
    def noise_scale(self) -> float:
        return as_float((1 if self.k == 2 else 2) / self.epsilon)

    @property
    def decoder(self) -> Decoder:
        return decoder(self.prior, self.n, self.epsilon)

    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        noise = lattice_noise(self.k, self.epsilon, source)
        noisy = tuple(count + v for count, v in zip(counts, noise, strict=True))
        return Output(self.decoder.decode(noisy), noisy)

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
            # Blocks that stay in the cache; about one proposal in 2√k is accepted.
            block = min(int((size - filled) * 2.1 * math.sqrt(self.k)) + 16, 32_768)
            proposals = _two_sided_geometric(rate, (self.k - 1, block), rng)
            last = -proposals.sum(axis=0)
            accepted = np.flatnonzero(rng.random(block) < np.exp(-rate * np.abs(last)))[: size - filled]
            rows = slice(filled, filled + len(accepted))
            noise[rows, :-1] = proposals[:, accepted].T
            noise[rows, -1] = last[accepted]
            filled += len(accepted)
        return noise

    def log_noise_normaliser(self) -> float:
        """log Σ_v exp(−ε‖v‖₁/2) over the lattice: a positive and b negative coordinates of equal weight m."""
        rate = float(self.epsilon) / 2
        if self.k == 2:
            return -math.log(math.tanh(rate))
        largest = max(2, math.ceil((50 + 2 * self.k) / rate) + 4 * self.k)
        m = np.arange(1, largest + 1)
        total = 1.0
        for a in range(1, self.k):
            for b in range(1, self.k - a + 1):
                ways = math.comb(self.k, a) * math.comb(self.k - a, b)
                total += ways * float(np.exp(_log_ways(m - a, a) + _log_ways(m - b, b) - 2 * rate * m).sum())
        return math.log(total)

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        noisy, log_probability = self._clipped_pair(counts) if self.k == 2 else self._clipped_classes(counts)
        released = self.decoder.decode_many(noisy)
        outputs, inverse = np.unique(released, axis=0, return_inverse=True)
        probability = np.bincount(inverse.ravel(), weights=np.exp(log_probability), minlength=len(outputs))
        with np.errstate(divide="ignore"):
            return outputs, np.log(probability)

    def _clipped_pair(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        """The law of the noisy counts clipped to [0, n], k = 2; both ends take their whole tail."""
        count, n, rate = counts[0], self.n, float(self.epsilon)
        if n > 2**62:
            raise TooLargeError(f"log_pmf works up to n = 2**62, not {n}; draw works at any n")
        reach = n if self.decoder.exhaustive else math.ceil(_TAIL / rate)
        low, high = max(0, count - reach), min(n, count + reach)
        if high - low > 50_000:
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

    def _clipped_classes(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        """The law of the noisy counts clipped to [0, n] coordinatewise, k ≥ 3, tails in closed form.

        A class t stands for all z with clip(z) = t: coordinates with t = 0 (or n) take any value below
        (above). With a low and b high ends, the excesses L below and U above satisfy L − U = Σt − n.
        """
        classes = (self.n + 1) ** self.k
        if classes > _MAX_CLASSES or not self.decoder.exhaustive:
            raise TooLargeError(
                f"log_pmf of lattice with n={self.n}, k={self.k} has {classes:.3g} classes of noisy counts, "
                f"more than can be decoded one by one; draw and simulate work at this size"
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
        if len(rows) * work > _MAX_DECODING_WORK:  # leave out what is below the stated tail
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
