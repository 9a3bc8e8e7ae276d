"""Two levels exactly: the datasets of n records, their distances, and the distributions of the mechanisms of
A.

A posterior is Beta(α₁ + x, α₂ + n − x). As t grows, P[H < t] changes only where t passes the distance of a
candidate, so that finitely many values of t stand for all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet.mechanisms.independent import LSHist
from discreet_reproductions.arrays import FloatArray

__all__ = ["ANSWERS", "CONSTANT", "PAPER_GS", "SAME", "Pair", "Prior", "noisy_counts", "prior_words"]

Prior = tuple[float, float]

PAPER_GS = math.sqrt(1 - math.pi / 4)
SAME = 1e-10
"""Distances closer than this are one: they are equal by symmetry, and differ in rounding only."""
CONSTANT = 4.0
"""A bound that one constant up to this repairs everywhere on the grid "holds up to constants"."""


class Pair:
    """All datasets of n records over two levels: distances, local sensitivities, and the events {H < t}."""

    def __init__(self, prior: Prior, n: int, nearest: int | None = None) -> None:
        self.prior, self.n = prior, n
        self.distance = candidate_distances(prior, compositions(n, 2))
        x = np.arange(n + 1)
        down = np.where(x > 0, self.distance[x, np.maximum(x - 1, 0)], 0.0)
        up = np.where(x < n, self.distance[x, np.minimum(x + 1, n)], 0.0)
        self.local = np.maximum(down, up)
        kept = n + 1 if nearest is None else min(n + 1, nearest)
        order = np.argsort(self.distance, axis=1, kind="stable")
        self._order = order[:, :kept]
        self.reached = np.take_along_axis(self.distance, self._order, axis=1)
        beyond = np.take_along_axis(self.distance, order[:, 1 : kept + 1], axis=1)
        if beyond.shape[1] < kept:  # nothing lies beyond the last candidate
            beyond = np.concatenate([beyond, np.full((n + 1, 1), np.inf)], axis=1)
        self.beyond = beyond
        """Column j is the event that holds the j + 1 nearest candidates: t in (reached, beyond]."""
        self.is_event = self.beyond - self.reached > SAME
        shift = self._order - x[:, None]
        up_steps, down_steps = (np.maximum.accumulate(side, axis=1) for side in (shift, -shift))
        self.steps = {
            "up": np.maximum(up_steps, 0),
            "down": np.maximum(down_steps, 0),
            "largest": np.maximum(up_steps, down_steps),
            "both sides": np.minimum(up_steps, down_steps),
        }

    def lshist(self, epsilon: float) -> FloatArray:
        """P(released count | x)."""
        return noisy_counts(self.n, epsilon)

    def exponential(self, epsilon: float, sensitivity: float | FloatArray) -> FloatArray:
        """P(b|x) ∝ exp(−ε·H/(2·sensitivity))."""
        rate = epsilon / (2 * np.broadcast_to(np.asarray(sensitivity, dtype=np.float64), self.local.shape))
        weight = np.exp(-rate[:, None] * self.distance)
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))

    def within(self, distribution: FloatArray) -> FloatArray:
        """P[H < t] of the events."""
        return np.cumsum(np.take_along_axis(distribution, self._order, axis=1), axis=1)


def noisy_counts(n: int, rate: float) -> FloatArray:
    """P(released count | x) for all x: the noise shifted to x, with the tails on the ends."""
    mechanism = LSHist(prior=(1.0, 1.0), n=2 * n, epsilon=Fraction(rate))
    noise = np.exp(mechanism.clipped_distribution(n, 2 * n))  # of shifts −n, …, n
    distribution = np.lib.stride_tricks.sliding_window_view(noise, n + 1)[::-1].copy()
    distribution[:, 0] = np.cumsum(noise)[: n + 1][::-1]
    distribution[:, n] = np.cumsum(noise[::-1])[: n + 1]
    return distribution


ANSWERS = {"yes": "holds", "partly": "up to a constant", "no": "fails"}


def prior_words(prior: Sequence[float]) -> str:
    return f"({', '.join(f'{a:g}' for a in prior)})"
