"""The likelihood of what one of our own mechanisms published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.errors import NotPrivateError, TooLargeError
from discreet.inference.likelihoods.kinds import Likelihood, Listed, NoisyCells
from discreet.inference.likelihoods.models import Multinomial
from discreet.inference.likelihoods.noises import Clamped, FloorLaplace, LatticeNoise, Partly
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.lattice.mechanism import Lattice
from discreet.mechanisms.noisy_counts import NoisyCounts
from discreet.numerics.count_vectors import compositions, number_of_compositions

MAX_LISTED_DATASETS = 5_000


def likelihood_of(mechanism: Mechanism, counts: Sequence[int], noisy: Sequence[int] | None) -> Likelihood:
    """log P(published | shares) for n public: noisy counts where there are some, else the listed law."""
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    model, n, k = Multinomial(mechanism.n), mechanism.n, mechanism.k
    if isinstance(mechanism, Lattice) and noisy is not None:
        return NoisyCells(
            np.array(noisy, dtype=np.float64), LatticeNoise(float(2 / mechanism.epsilon)), model
        )
    if isinstance(mechanism, NoisyCounts):
        noise = Clamped(FloorLaplace(float(1 / mechanism.rate)), 0, n)
        published = np.arange(k) < mechanism.noisy_coordinates
        values = np.array(counts, dtype=np.float64)
        return NoisyCells(values, noise if published.all() else Partly(noise, published), model)
    datasets = number_of_compositions(n, k)
    if datasets > MAX_LISTED_DATASETS:
        raise TooLargeError(
            f"{mechanism.name} publishes no noisy counts, so its likelihood lists all datasets: n={n}, k={k} "
            f"has {datasets:.3g}, more than {MAX_LISTED_DATASETS}; lattice, lszhang, lsdim and lshist have "
            "no such limit"
        )
    rows = compositions(n, k)
    return Listed(rows, log_likelihood(mechanism, rows, counts), model)


def log_likelihood(mechanism: Mechanism, rows: IntArray, released: Sequence[int]) -> FloatArray:
    """log P(released | x) for every dataset x."""
    together = mechanism.log_pmfs(rows)
    if together is not None:
        return together[1][:, np.flatnonzero((together[0] == np.array(released)).all(axis=1))[0]]
    values = np.full(len(rows), -np.inf)
    for i, row in enumerate(rows.tolist()):
        outputs, log_probability = mechanism.log_pmf(row)
        match = np.flatnonzero((outputs == np.array(released)).all(axis=1))
        if len(match):
            values[i] = log_probability[match[0]]
    return values
