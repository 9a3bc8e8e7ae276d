"""The distribution of the parameter given private posterior draws, with their randomness accounted for.

Let s be the statistic of the records. The draws y₁, …, y_J come from the distribution with natural parameters
η₀/m + r·s, whose density is q, so that

    p(θ | y) = ∫ π(s | y) p(θ | s) ds,    π(s | y) ∝ p(s) Π_j q(y_j | η₀/m + r·s),

where p(s) is the prior predictive distribution of the statistic, and p(θ | s) is the posterior with natural
parameters η₀ + s. The integral has a closed form for a Gaussian mean, and it separates over the levels for
shares. For rates, s is one number, and its weights are computed here. Records are meant after clipping. A
number in [0, 1] is modelled as a yes or a no, which gives the widest spread that such numbers can have.
Derivation: ``proofs/posterior-sampling.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from discreet._typing import FloatArray
from discreet.errors import InvalidInputError

_LOG_WEIGHT_DEPTH = 45.0
"""Statistics whose weight is below e^−45 of the largest are left out."""
_MOST_LISTED_STATISTICS, _SCANNED_STATISTICS, _QUADRATURE_NODES = 2_000, 4_000, 2_000
"""The most whole numbers that are listed, the points of a search, and the nodes of the midpoint rule."""


def weighed_statistics(
    log_weight: Callable[[FloatArray], FloatArray], low: float, high: float, *, whole: bool
) -> tuple[FloatArray, FloatArray]:
    """Return possible statistics with their probabilities: all whole numbers, or quadrature nodes.

    The range with non-negligible weight is searched from the ends inwards, in steps that are fine near both
    ends. The midpoint rule is then applied to an angle, as a function of which a weight such as (s − low)^−½
    at an end is smooth.
    """
    for _ in range(60):
        if whole and high - low <= _MOST_LISTED_STATISTICS:
            nodes = np.arange(math.ceil(low), math.floor(high) + 1, dtype=np.float64)
            return nodes, _normalise(log_weight(nodes))
        steps = np.geomspace(1e-15, 0.5, _SCANNED_STATISTICS)
        scanned = low + (high - low) * np.concatenate([steps, 1 - steps[-2::-1]])
        scanned = scanned[(scanned > low) & (scanned < high)]
        values = log_weight(scanned)
        relevant = np.flatnonzero(values > values.max() - _LOG_WEIGHT_DEPTH)
        if not len(relevant):
            return scanned, _normalise(values)
        first, last = relevant[0] - 1, relevant[-1] + 1
        inner = low if first < 0 else float(scanned[first])
        outer = high if last >= len(scanned) else float(scanned[last])
        if outer - inner > 0.5 * (high - low) and len(relevant) > 100:
            break
        if (inner, outer) == (low, high):
            break
        low, high = (float(math.floor(inner)), float(math.ceil(outer))) if whole else (inner, outer)
    listed = np.zeros(0)
    if whole:  # near an end a sum of weights like s^(a − 1), a < 1, is no integral
        listed = np.arange(math.ceil(low), math.ceil(low) + _MOST_LISTED_STATISTICS, dtype=np.float64)
        low, high = float(listed[-1]) + 0.5, math.floor(high) + 0.5
    angle = (np.arange(_QUADRATURE_NODES) + 0.5) * (math.pi / 2 / _QUADRATURE_NODES)
    nodes = low + (high - low) * np.sin(angle) ** 2
    step = np.log((high - low) * math.pi / 2 / _QUADRATURE_NODES * np.sin(2 * angle))
    statistics = np.concatenate([listed, nodes])
    return statistics, _normalise(log_weight(statistics) + np.concatenate([np.zeros(len(listed)), step]))


def _normalise(log_weights: FloatArray) -> FloatArray:
    if not math.isfinite(top := log_weights.max()):
        raise InvalidInputError("these draws cannot come from any records within the bounds")
    weight = np.exp(log_weights - top)
    return np.asarray(weight / weight.sum(), dtype=np.float64)
