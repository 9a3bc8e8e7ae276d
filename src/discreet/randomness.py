"""Exact integer samplers: every output law is a formula, every decision an integer comparison, no floats.

Each sampler takes its uniform integers from a *source*. :class:`OSEntropy` asks the operating system for
every one of them and keeps no state, so a forked child cannot repeat its parent. :class:`SeededEntropy` is
reproducible and of another type, which the private path refuses.

Rates are given as integers ``p, q`` and mean the exact rational p/q. The Bernoulli(exp(−p/q)), geometric and
discrete Laplace samplers follow Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential
Privacy" (2020), section 5. Proofs: ``proofs/samplers.md``.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, final

from discreet.core import InvalidInput, NotPrivateError


class Source(Protocol):
    """Anything that yields independent uniform integers."""

    def below(self, bound: int) -> int:
        """Uniform on {0, …, bound − 1}."""
        ...


@final
class OSEntropy:
    """Uniform integers from the operating system's cryptographic generator; holds no state at all."""

    __slots__ = ()

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)


@final
class SeededEntropy:
    """A reproducible stream (SHAKE-256 in counter mode) for tests and experiments. Not private."""

    def __init__(self, seed: int) -> None:
        self._key = f"discreet seeded stream {int(seed)}".encode()
        self._block = 0
        self._pool = 0
        self._bits = 0

    def _take(self, bits: int) -> int:
        while self._bits < bits:
            block = hashlib.shake_256(self._key + b"/%d" % self._block).digest(512)
            self._pool |= int.from_bytes(block, "little") << self._bits
            self._bits += 4096
            self._block += 1
        value = self._pool & ((1 << bits) - 1)
        self._pool >>= bits
        self._bits -= bits
        return value

    def below(self, bound: int) -> int:
        if bound <= 0:
            raise ValueError("bound must be positive")
        bits = (bound - 1).bit_length()
        while True:
            value = self._take(bits)
            if value < bound:
                return value


OS_ENTROPY = OSEntropy()


def private_source(entropy: Any = None) -> OSEntropy:
    """The source of a private draw: the operating system's, and nothing that could be replayed."""
    if entropy is None or type(entropy) is OSEntropy:
        return OS_ENTROPY
    raise NotPrivateError(
        f"entropy={type(entropy).__name__} object: a private draw takes its randomness from the operating "
        "system only, because whoever knows a seed can subtract the noise. Leave the argument out; for a "
        "reproducible, non-private experiment use simulate(counts, size=…, seed=…)"
    )


def bernoulli(p: int, q: int, source: Source) -> bool:
    """True with probability p/q exactly (0 ≤ p ≤ q, q ≥ 1)."""
    return source.below(q) < p


def bernoulli_exp(p: int, q: int, source: Source) -> bool:
    """True with probability exp(−p/q) exactly (p ≥ 0, q ≥ 1)."""
    while p > q:
        if not _bernoulli_exp_unit(1, 1, source):
            return False
        p -= q
    return _bernoulli_exp_unit(p, q, source)


def _bernoulli_exp_unit(p: int, q: int, source: Source) -> bool:
    # For p/q ≤ 1: the first K ≥ 1 whose Bernoulli(p/(qK)) fails is odd with probability exp(−p/q).
    index = 1
    while source.below(q * index) < p:
        index += 1
    return index % 2 == 1


def geometric(p: int, q: int, source: Source) -> int:
    """G ≥ 0 with P(G = g) = (1 − e^{−p/q}) e^{−(p/q) g} exactly (p, q ≥ 1)."""
    while True:
        low = source.below(q)
        if _bernoulli_exp_unit(low, q, source):
            break
    high = 0
    while _bernoulli_exp_unit(1, 1, source):
        high += 1
    # low + q·high is geometric with ratio e^{−1/q}; its quotient by p has ratio e^{−p/q}.
    return (low + q * high) // p


def discrete_laplace(p: int, q: int, source: Source) -> int:
    """X in ℤ with P(X = x) = tanh(p/2q) e^{−(p/q)|x|} exactly: the two-sided geometric law of rate p/q."""
    while True:
        negative = source.below(2)
        magnitude = geometric(p, q, source)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def floor_laplace(p: int, q: int, source: Source) -> int:
    """⌊Y⌋ for Y ~ Laplace(0, q/p), exactly: a fair coin gives G or −1 − G, G geometric of rate p/q.

    P(x) = ½ (1 − e^{−p/q}) e^{−(p/q) x} for x ≥ 0 and ½ (1 − e^{−p/q}) e^{−(p/q)(−1−x)} for x < 0.
    """
    magnitude = geometric(p, q, source)
    return -1 - magnitude if source.below(2) else magnitude


def lattice_noise(k: int, epsilon: Fraction, source: Source) -> tuple[int, ...]:
    """v in ℤᵏ with Σv = 0 and P(v) ∝ exp(−ε ‖v‖₁ / 2) exactly.

    k − 1 discrete Laplace values of rate ε/2 are proposed and accepted with probability exp(−ε|Σ|/2), the
    factor of the last coordinate. For k = 2 that is one discrete Laplace value of rate ε.
    """
    if k == 2:
        first = discrete_laplace(epsilon.numerator, epsilon.denominator, source)
        return first, -first
    p, q = epsilon.numerator, 2 * epsilon.denominator
    while True:
        values = [discrete_laplace(p, q, source) for _ in range(k - 1)]
        total = sum(values)
        if bernoulli_exp(p * abs(total), q, source):
            return *values, -total


def categorical(weights: Sequence[int], source: Source) -> int:
    """Index i with probability weights[i] / Σ weights exactly; weights are non-negative ints, not all 0."""
    total = 0
    for weight in weights:
        if weight < 0:
            raise InvalidInput("weights must not be negative")
        total += int(weight)
    if total == 0:
        raise InvalidInput("weights must not all be zero")
    remaining = source.below(total)
    for index, weight in enumerate(weights):
        remaining -= int(weight)
        if remaining < 0:
            return index
    raise AssertionError("unreachable: the weights sum to total")
