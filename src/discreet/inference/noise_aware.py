"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. Where the
noise is independent over the categories, or the lattice's, π is separable and its marginals come from
convolutions; where it is not, π is enumerated. No sampling, no normal approximation. The plug-in posterior
Dir(α + released) takes the released counts for the truth, and its intervals are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.distributions.beta_rows import BetaPart, padded
from discreet.distributions.given_total import GivenTotal
from discreet.distributions.noise_aware import NoiseAware, UncertainShares
from discreet.errors import NotPrivateError
from discreet.inference.add_remove import AddRemovePosterior, LogUniform, integrate
from discreet.mechanisms.base import Mechanism


def noise_aware(
    mechanism: Mechanism,
    counts: Sequence[int],
    noisy: Sequence[int] | None,
    total_prior: LogUniform | None = None,
    strength: LogUniform | None = None,
) -> UncertainShares:
    """The posterior given what ``mechanism`` released: ``counts``, and ``noisy`` where it keeps them.

    Where n is private it is inferred too, from ``total_prior`` or what noise of this size suggests.
    ``strength``: the prior is symmetric with one unknown parameter in that range, instead of the mechanism's.
    """
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    kept = None if noisy is None else tuple(noisy)
    carried = mechanism.count_noise(tuple(counts), kept)
    if not mechanism.n and carried is not None:
        prior = mechanism.prior if strength is None else strength
        return AddRemovePosterior(carried.values, prior, noise=carried.noise, total_prior=total_prior)
    law = mechanism.true_counts(tuple(counts), kept)
    if strength is not None and isinstance(law, GivenTotal):
        return UnknownStrength(law, strength)
    return NoiseAware(mechanism.prior, mechanism.n, law)


class UnknownStrength(UncertainShares):
    """The prior is symmetric with one unknown parameter, its logarithm uniform: a mixture over it."""

    def __init__(self, law: GivenTotal, strength: LogUniform) -> None:
        known: dict[float, GivenTotal] = {}
        self.n: int = law.n

        def log_evidence(at: float) -> float:
            if at not in known:
                known[at] = law.under([math.exp(at)] * len(law.inverse))
            return known[at].log_evidence

        nodes, _ = integrate(log_evidence, math.log(strength.low), math.log(strength.high))
        self.nodes = [(weight, math.exp(at), known[at]) for at, weight in nodes]
        """Weight, parameter and law of the true counts for each."""
        self.depth = len(nodes)

    @property
    def k(self) -> int:
        return len(self.inverse)

    @property
    def inverse(self) -> IntArray:
        # All nodes share the levels but for their prior, so that a row means the same in each.
        return self.nodes[0][2].inverse

    @property
    def widths(self) -> IntArray:
        return np.array([len(p) for _, p in self.nodes[0][2].distinct_marginals])

    def parts(self, rows: IntArray) -> list[BetaPart]:
        result = []
        for weight, a, law in self.nodes:
            chosen = [law.distinct_marginals[row] for row in rows]
            first = a + np.array([float(start) for start, _ in chosen])
            mass = weight * padded([p for _, p in chosen])
            result.append(BetaPart.of(mass, first, self.k * a + self.n - first, -1))
        return result

    def sample_counts(self, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        node = rng.choice(len(self.nodes), size, p=[weight for weight, _, _ in self.nodes])
        counts, alpha = np.empty((size, self.k), dtype=np.int64), np.empty((size, 1))
        for chosen in np.unique(node):
            _, a, law = self.nodes[chosen]
            draws = np.flatnonzero(node == chosen)
            counts[draws], alpha[draws] = law.sample(len(draws), rng), a
        return counts, alpha
