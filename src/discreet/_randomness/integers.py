"""Exact samplers in integer arithmetic, without floating point.

A rate p/q is given by its integers ``p`` and ``q``. The samplers follow Canonne, Kamath and
Steinke, "The Discrete Gaussian for Differential Privacy" (2020), section 5. Proofs: ``proofs/samplers.md``.
"""

from __future__ import annotations

from collections.abc import Sequence

from discreet._randomness.entropy import Source
from discreet.errors import InvalidInputError


def bernoulli_exp(p: int, q: int, source: Source) -> bool:
    """Return True with probability exp(−p/q) exactly (0 ≤ p ≤ q, q ≥ 1)."""
    # The first K ≥ 1 whose Bernoulli(p/(qK)) fails is odd with that probability.
    index = 1
    while source.below(q * index) < p:
        index += 1
    return index % 2 == 1


def geometric(p: int, q: int, source: Source) -> int:
    """Draw G ≥ 0 with P(G = g) = (1 − e^{−p/q}) e^{−(p/q) g} exactly (p, q ≥ 1)."""
    while True:
        low = source.below(q)
        if bernoulli_exp(low, q, source):
            break
    high = 0
    while bernoulli_exp(1, 1, source):
        high += 1
    # low + q·high is geometric with ratio e^{−1/q}; its quotient by p has ratio e^{−p/q}.
    return (low + q * high) // p


def discrete_laplace(p: int, q: int, source: Source) -> int:
    """Draw X exactly from the two-sided geometric distribution of rate p/q.

    Its probabilities are P(X = x) = tanh(p/2q) e^{−(p/q)|x|} for integers x.
    """
    while True:
        negative = source.below(2)
        magnitude = geometric(p, q, source)
        if magnitude or not negative:
            return -magnitude if negative else magnitude


def floor_laplace(p: int, q: int, source: Source) -> int:
    """Draw ⌊Y⌋ for Y ~ Laplace(0, q/p), exactly.

    It is G or −1 − G with equal probability, where G is geometric with rate p/q. So P(x) = ½ (1 − e^{−p/q})
    e^{−(p/q) x} for x ≥ 0 and ½ (1 − e^{−p/q}) e^{−(p/q)(−1−x)} for x < 0.
    """
    magnitude = geometric(p, q, source)
    return -1 - magnitude if source.below(2) else magnitude


def categorical(weights: Sequence[int], source: Source) -> int:
    """Draw an index i with probability weights[i] / Σ weights, exactly.

    The weights are non-negative integers, not all of them 0.
    """
    total = 0
    for weight in weights:
        if weight < 0:
            raise InvalidInputError("weights must not be negative")
        total += int(weight)
    if total == 0:
        raise InvalidInputError("weights must not all be zero")
    remaining = source.below(total)
    for index, weight in enumerate(weights):
        remaining -= int(weight)
        if remaining < 0:
            return index
    raise AssertionError("unreachable: the weights sum to total")
