"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. Where the
noise is independent over the categories, or the lattice's, π is separable and its marginals come from
convolutions; where it is not, π is enumerated. No sampling, no normal approximation. The plug-in posterior
Dir(α + released) takes the released counts for the truth, and its intervals are too narrow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.distributions.noise_aware import Enumerated, NoiseAware, TrueCounts
from discreet.errors import NotPrivateError, TooLargeError
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.lattice.decoding import true_counts
from discreet.mechanisms.lattice.mechanism import Lattice
from discreet.mechanisms.noisy_counts import NoisyCounts, clamped_floor_laplace_likelihood
from discreet.numerics.count_vectors import Separable, compositions, number_of_compositions
from discreet.numerics.log_gamma import log_rising

_MAX_ENUMERATED = 5_000


def noise_aware(mechanism: Mechanism, counts: Sequence[int], noisy: Sequence[int] | None) -> NoiseAware:
    """The posterior given what ``mechanism`` released: ``counts``, and ``noisy`` where it keeps them."""
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    law = _true_counts(mechanism, tuple(counts), noisy)
    return NoiseAware(mechanism.prior, mechanism.n, law)


def _true_counts(mechanism: Mechanism, counts: tuple[int, ...], noisy: Sequence[int] | None) -> TrueCounts:
    prior, n, k = mechanism.prior, mechanism.n, mechanism.k
    if isinstance(mechanism, Lattice) and noisy is not None:
        law = true_counts(tuple(noisy), prior, n, float(mechanism.epsilon))
        if law is None:
            raise TooLargeError(
                f"epsilon={mechanism.epsilon} spreads the true counts over too wide a range at n={n}"
            )
        return law
    if isinstance(mechanism, NoisyCounts):
        if n > 1_000_000:
            raise TooLargeError(f"the noise-aware posterior of {mechanism.name} works up to n = 10⁶, not {n}")
        x = np.arange(n + 1)
        log_weights = [log_rising(a, x) for a in prior]
        for i in range(mechanism.noisy_coordinates):
            log_weights[i] = log_weights[i] + clamped_floor_laplace_likelihood(
                counts[i], n, float(mechanism.rate)
            )
        return Separable.of(log_weights, n)
    if number_of_compositions(n, k) > _MAX_ENUMERATED:
        raise TooLargeError(
            f"the noise-aware posterior of {mechanism.name} enumerates all datasets; n={n}, k={k} has "
            f"{number_of_compositions(n, k):.3g}, more than {_MAX_ENUMERATED}; lattice has no such limit"
        )
    rows = compositions(n, k)
    log_weight = sum(log_rising(a, column) for a, column in zip(prior, rows.T, strict=True))
    return Enumerated(rows, np.asarray(log_weight) + _likelihood(mechanism, rows, counts))


def _likelihood(mechanism: Mechanism, rows: IntArray, released: tuple[int, ...]) -> FloatArray:
    """log P(released | x) for every dataset x."""
    together = mechanism.log_pmfs(rows)
    if together is not None:
        match = np.flatnonzero((together[0] == np.array(released)).all(axis=1))
        return together[1][:, match[0]]
    values = np.empty(len(rows))
    for i, row in enumerate(rows.tolist()):
        outputs, log_probability = mechanism.log_pmf(row)
        match = np.flatnonzero((outputs == np.array(released)).all(axis=1))
        values[i] = log_probability[match[0]] if len(match) else -np.inf
    return values
