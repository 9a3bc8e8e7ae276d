"""The likelihood of what one of our own mechanisms published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._text import about
from discreet.errors import NotPrivateError, TooLargeError
from discreet.inference.likelihoods.kinds import Likelihood, Listed, NoisyCells
from discreet.inference.likelihoods.models import Multinomial, PoissonCells
from discreet.mechanisms.base import MAX_ENUMERATED_DATASETS, Mechanism
from discreet.numerics.count_vectors import compositions, number_of_compositions


def likelihood_of(mechanism: Mechanism, counts: Sequence[int], noisy: Sequence[int] | None) -> Likelihood:
    """log P(published | shares) for n public: of noisy counts where there are some, else the listed law.

    Where n is private the counts are PoissonCells, and the parameters are rates: shares times the expected n.
    """
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    n, k = mechanism.n, mechanism.k
    model = Multinomial(n) if n else PoissonCells()
    carried = mechanism.count_noise(tuple(counts), None if noisy is None else tuple(noisy))
    if carried is not None:
        return NoisyCells(np.array(carried.values, dtype=np.float64), carried.noise, model)
    datasets = number_of_compositions(n, k)
    if datasets > MAX_ENUMERATED_DATASETS:
        raise TooLargeError(
            f"{mechanism.name} publishes no noisy counts, so its likelihood lists all datasets: n={n}, k={k} "
            f"has {about(datasets)}, more than {MAX_ENUMERATED_DATASETS}; lattice and the mechanisms that "
            "publish noisy counts have no such limit"
        )
    rows = compositions(n, k)
    return Listed(rows, mechanism.log_likelihood(rows, counts), model)
