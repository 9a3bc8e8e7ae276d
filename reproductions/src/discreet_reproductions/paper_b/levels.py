"""B, Lemma 2.3 for many levels: priors at which M_β is not (ε, δ)-private at its defined rate.

The prior is α = (a, …, a, B) with B ≫ a ≫ n². Distances then tend to those of Euclid between the first k − 1
counts, up to the scale 1/√(8a), because −ln BC tends to Σ(cᵢ − bᵢ)²/(8αᵢ). A step between two of these levels
is √2 long, a step to or from the last one 1. So the data x = (0, …, 0, n) have the local sensitivity 1, and
their neighbours x′ = (1, 0, …, 0, n − 1) have √2: the rates of the two distributions differ by max(1,
√2e^{−β})/√2, and with many levels most of the mass lies far out, where that matters.

Both distributions are the same for all candidates of one type (the first count and the partition that the
other small counts form), so that the exact δ(ε) of the pair needs no enumeration of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from discreet._numerics.log_gamma import log_gamma_gap
from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.paper_b.distributions import smoothing
from discreet_reproductions.report import Row

__all__ = ["WITNESSES", "exact_delta", "limit_delta", "measure"]

WITNESSES = (
    (13, 16, 13.47, 6.14e-7),
    (16, 20, 14.23, 1.46e-6),
    (20, 40, 16.0, 1.52e-8),
    (100, 300, 8.0, 1.69e-4),
)
"""k, n, ε and δ."""
PRIOR = 1e12, 1e24
"""a and B of the exact distribution."""


def limit_delta(k: int, n: int, epsilon: float, delta: float) -> float:
    """δ(ε) between x and x′ in the limit."""
    from scipy.special import logsumexp

    # All but e^{−30} of the mass: there are C(n + k − 1, k − 1) candidates, and the best has weight 1.
    candidates = math.lgamma(n + k) - math.lgamma(n + 1) - math.lgamma(k)
    most = min(n * n, math.ceil((2 * math.sqrt(2) * (candidates + 30) / epsilon) ** 2))
    table = np.zeros((n + 1, most + 1))
    table[0, 0] = 1
    for _ in range(k - 2):
        longer = table.copy()
        for value in range(1, min(n, math.isqrt(most)) + 1):
            longer[value:, value * value :] += table[: n + 1 - value, : most + 1 - value * value]
        table = longer
    number = np.cumsum(table, axis=0)
    squares, first = np.arange(most + 1), np.arange(n + 1)[:, None]
    with np.errstate(divide="ignore"):
        times = np.log(number[n - first[:, 0]])
    smooth = max(1, math.sqrt(2) * math.exp(-smoothing(epsilon, delta, n)))
    distributions = [
        -epsilon * np.sqrt(squares + (first - moved) ** 2) / (2 * scale)
        for moved, scale in ((0, smooth), (1, math.sqrt(2)))
    ]
    return _hockey_stick(
        [distribution - logsumexp(distribution + times) for distribution in distributions], times, epsilon
    )


def exact_delta(
    k: int,
    n: int,
    epsilon: float,
    delta: float,
    prior: tuple[float, float] = PRIOR,
    budget: float | None = None,
) -> float:
    """δ(ε) between x and x′ for the prior (a, …, a, B), over all candidates, by their types.

    The distribution is that of the budget, which is ε where none is given.
    """
    budget = epsilon if budget is None else budget
    from scipy.special import logsumexp

    small, large = prior
    counts = np.arange(n + 1, dtype=np.float64)

    def gaps(a: float, at: int) -> FloatArray:
        return np.asarray(log_gamma_gap(a + at, a + counts, at - counts), dtype=np.float64)

    none, one, whole, less = gaps(small, 0), gaps(small, 1), gaps(large, n), gaps(large, n - 1)
    kinds = np.array(
        [
            (sum(parts), math.fsum(none[part] for part in parts), _arrangements(parts, k - 2))
            for parts in _partitions(n, k - 2, n)
        ]
    )
    total, apart, ways = kinds[:, 0].astype(int), kinds[:, 1], kinds[:, 2]
    times, forward, back = [], [], []
    for value in range(n + 1):
        here = total <= n - value
        last = n - value - total[here]
        times.append(ways[here])
        forward.append(none[value] + apart[here] + whole[last])
        back.append(one[value] + apart[here] + less[last])
    weights, alphas = np.concatenate(times), (small,) * (k - 1) + (large,)
    distributions = []
    for counts_of, gap in (((0,) * (k - 1) + (n,), forward), ((1,) + (0,) * (k - 2) + (n - 1,), back)):
        smooth = smooth_sensitivity(counts_of, alphas, beta=smoothing(budget, delta, n))
        distribution = -budget * np.sqrt(-np.expm1(-np.concatenate(gap))) / (2 * smooth)
        distributions.append(distribution - logsumexp(distribution + weights))
    return _hockey_stick(distributions, weights, epsilon)


def _hockey_stick(distributions: Sequence[FloatArray], times: FloatArray, epsilon: float) -> float:
    """The larger of both orders; ``times``: the logarithm of how many candidates have these probabilities."""
    found = []
    for here, there in (distributions, distributions[::-1]):
        above = np.maximum(here - there - epsilon, 0.0)
        found.append(float((np.exp(here + times) * -np.expm1(-above)).sum()))
    return max(found)


def _partitions(total: int, parts: int, largest: int) -> Iterator[tuple[int, ...]]:
    """All partitions of numbers up to ``total`` into at most so many parts, the largest first."""
    yield ()
    if parts:
        for first in range(1, min(total, largest) + 1):
            for rest in _partitions(total - first, parts - 1, first):
                yield (first, *rest)


def _arrangements(parts: tuple[int, ...], places: int) -> float:
    """The logarithm of the number of ways to put these parts on the places, zeros on the others."""
    same = [parts.count(value) for value in set(parts)]
    return math.lgamma(places + 1) - sum(math.lgamma(m + 1) for m in (*same, places - len(parts)))


def measure(k: int, n: int, epsilon: float, delta: float) -> list[Row]:
    """One row: δ(ε) over δ in the limit and, where there are few types, for the prior itself."""
    row = {"k": k, "n": n, "epsilon": epsilon, "delta": delta, "limit": limit_delta(k, n, epsilon, delta)}
    return [row | {"exact": exact_delta(k, n, epsilon, delta) if n <= 40 else ""}]
