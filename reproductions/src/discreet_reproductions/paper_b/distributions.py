"""Exact distributions of the mechanisms of B for one dataset, in the readings that its text allows.

B defines its mechanisms by P(r) ∝ exp(−εH/(2S)) (2.1–2.3) and writes accuracy and tables with exp(−εH/S)
(3.3, 3.4); its Laplace noise has scale 2/ε and is on m − 1 counts (3.1) or on all m (3.4.1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.log_gamma import log_gamma_gap
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    smooth_sensitivity,
)
from discreet.mechanisms.independent import LSHist
from discreet_reproductions.arrays import FloatArray, IntArray

__all__ = [
    "RATES",
    "Counts",
    "Distribution",
    "Prior",
    "Sensitivity",
    "box",
    "distances",
    "draw_boxes",
    "drawn_box",
    "exponential",
    "floored_laplace",
    "sensitivity",
    "smoothing",
    "uniform_counts",
]

Counts = tuple[int, ...]
Prior = tuple[float, ...]
Sensitivity = Literal["global", "local", "smooth"]

RATES: Mapping[str, float] = {"ε/(2S)": 0.5, "ε/S": 1.0}
"""What εH/S is multiplied by: B's definitions of the mechanisms, and its accuracy formulas and tables."""


def smoothing(epsilon: float, delta: float, n: int, *, places: int | None = None) -> float:
    """β = ln(1 − ε/(2 ln(δ/(2(n + 1))))) of B 2.3; ``places`` takes the place of n + 1."""
    return math.log1p(-epsilon / (2 * math.log(delta / (2 * (n + 1 if places is None else places)))))


def sensitivity(kind: Sensitivity, counts: Counts, prior: Prior, epsilon: float, delta: float) -> float:
    """The global, local or β-smooth sensitivity of the Hellinger distance at these counts."""
    n = sum(counts)
    if kind == "global":
        return global_sensitivity(n, prior)
    if kind == "local":
        return local_sensitivity(counts, prior)
    return smooth_sensitivity(counts, prior, beta=smoothing(epsilon, delta, n))


@dataclass(frozen=True)
class Distribution:
    """Counts that can be released for one dataset: how likely, and how far from the true posterior."""

    counts: Counts
    outputs: IntArray
    probability: FloatArray
    distance: FloatArray

    @property
    def expected(self) -> float:
        """The expected Hellinger distance."""
        return float(self.probability @ self.distance)

    @property
    def l1(self) -> FloatArray:
        """The ℓ₁ distance of each released vector of counts (or of parameters: the prior cancels)."""
        return np.asarray(np.abs(self.outputs - np.array(self.counts)).sum(axis=1), dtype=np.float64)

    def draw(self, size: int, rng: np.random.Generator) -> IntArray:
        """Indices of ``size`` draws."""
        cumulative = np.cumsum(self.probability)
        return np.asarray(np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right"))


def distances(counts: Counts, prior: Prior, outputs: IntArray) -> FloatArray:
    """Hellinger distances from the posterior of ``counts`` to those of ``outputs``; totals may differ."""
    gap = np.zeros(len(outputs))
    for a, count, column in zip(prior, counts, outputs.T, strict=True):
        released = np.arange(int(column.max()) + 1, dtype=np.float64)
        gap += log_gamma_gap(a + count, a + released, count - released)[column]
    total = outputs.sum(axis=1)
    n = sum(counts)
    if (total != n).any():
        totals = np.arange(int(total.max()) + 1, dtype=np.float64)
        gap -= log_gamma_gap(sum(prior) + n, sum(prior) + totals, n - totals)[total]
    return np.asarray(np.sqrt(-np.expm1(-np.maximum(gap, 0.0))), dtype=np.float64)


def exponential(counts: Counts, prior: Prior, rate: float) -> Distribution:
    """P(b) ∝ exp(−rate·H) over all counts of the same size."""
    outputs = compositions(sum(counts), len(counts))
    distance = distances(counts, prior, outputs)
    weight = np.exp(-rate * distance)
    return Distribution(counts, outputs, weight / weight.sum(), distance)


def floored_laplace(
    counts: Counts, prior: Prior, epsilon: float, *, scale: float = 2.0, every: bool = False
) -> Distribution:
    """Counts + ⌊Laplace(scale/ε)⌋, clamped to [0, n].

    ``every``: noise on all m counts; else on the first m − 1, and the last takes what is left of n.
    """
    n, noisy = sum(counts), len(counts) if every else len(counts) - 1
    noise = LSHist(prior=(1.0, 1.0), n=n, epsilon=Fraction(epsilon / scale))
    distributions = [np.exp(noise.clipped_distribution(count, n)) for count in counts[:noisy]]
    outputs = np.indices((n + 1,) * noisy).reshape(noisy, -1).T
    probability = distributions[0]
    for distribution in distributions[1:]:
        probability = np.multiply.outer(probability, distribution).ravel()
    if not every:
        rest = np.maximum(n - outputs.sum(axis=1, keepdims=True), 0)
        outputs = np.concatenate([outputs, rest], axis=1)
    return Distribution(counts, outputs, probability, distances(counts, prior, outputs))


def uniform_counts(n: int, k: int) -> Counts:
    """n records spread over k categories as evenly as they go, the larger counts last."""
    return tuple((n + i) // k for i in range(k))


# Box plots: whiskers at the 5 % and 95 % quantiles, exact where the distribution is at hand.

_QUANTILES = {"low": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "high": 0.95}


def box(values: FloatArray, probability: FloatArray) -> dict[str, float]:
    """Mean and quantiles (5 %, 25 %, 50 %, 75 %, 95 %) of a discrete distribution, exactly."""
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(probability[order])
    places = np.searchsorted(cumulative, np.array(list(_QUANTILES.values())) * cumulative[-1])
    return {
        "mean": float(probability @ values),
        **dict(zip(_QUANTILES, values[order][places].tolist(), strict=True)),
    }


def drawn_box(values: FloatArray) -> dict[str, float]:
    """The same of draws."""
    quantiles = np.quantile(values, list(_QUANTILES.values()), method="inverted_cdf")
    return {"mean": float(values.mean()), **dict(zip(_QUANTILES, quantiles.tolist(), strict=True))}


def draw_boxes(
    axis: Any, boxes: Sequence[Mapping[str, Any]], positions: Sequence[float], width: float, colour: str
) -> None:
    """Boxes from stored statistics; the mean is a dot."""
    stats = [
        {"med": b["median"], "q1": b["q1"], "q3": b["q3"], "whislo": b["low"], "whishi": b["high"]}
        | {"mean": b["mean"], "fliers": []}
        for b in boxes
    ]
    axis.bxp(
        stats,
        positions=list(positions),
        widths=width,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": colour, "alpha": 0.55, "linewidth": 0.8},
        medianprops={"color": "black", "linewidth": 1.4},
        meanprops={"marker": "o", "markerfacecolor": "black", "markeredgecolor": "black", "markersize": 3},
        whiskerprops={"linewidth": 0.8},
        capprops={"linewidth": 0.8},
    )
