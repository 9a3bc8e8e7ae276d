"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. Where the
noise is independent over the categories, or the lattice's, π is separable and its marginals come from
convolutions; where it is not, π is enumerated. No sampling, no normal approximation. The plug-in posterior
Dir(α + released) takes the released counts for the truth, and its intervals are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.distributions.beta_rows import BetaPart
from discreet.distributions.mixtures import BetaMixture
from discreet.distributions.noise_aware import NoiseAware, TrueCounts
from discreet.errors import NotPrivateError
from discreet.inference.add_remove import AddRemovePosterior, LogUniform, integrate
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.independent import IndependentNoise
from discreet.mechanisms.lattice.many_levels import ManyLevels

_TOGETHER = 256  # laws whose intervals are found together


def noise_aware(
    mechanism: Mechanism,
    counts: Sequence[int],
    noisy: Sequence[int] | None,
    total_prior: LogUniform | None = None,
    strength: LogUniform | None = None,
) -> NoiseAware | AddRemovePosterior:
    """The posterior given what ``mechanism`` released: ``counts``, and ``noisy`` where it keeps them.

    Where n is private it is inferred too, from ``total_prior`` or what noise of this size suggests.
    ``strength``: the prior is symmetric with one unknown parameter in that range, instead of the mechanism's.
    """
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    if isinstance(mechanism, IndependentNoise) and not mechanism.n and noisy is not None:
        prior = mechanism.prior if strength is None else strength
        return AddRemovePosterior(noisy, prior, noise=mechanism.noise, total_prior=total_prior)
    law = mechanism.true_counts(tuple(counts), None if noisy is None else tuple(noisy))
    if strength is not None and isinstance(law, ManyLevels):
        return UnknownStrength(mechanism, tuple(counts), noisy, strength)
    return NoiseAware(mechanism.prior, mechanism.n, law)


class UnknownStrength(NoiseAware):
    """The prior is symmetric with one unknown parameter, its logarithm uniform: a mixture over it."""

    def __init__(
        self, mechanism: Mechanism, counts: tuple[int, ...], noisy: Sequence[int] | None, strength: LogUniform
    ) -> None:
        known: dict[float, ManyLevels] = {}

        def log_evidence(at: float) -> float:
            if at not in known:
                given = replace(mechanism, prior=(math.exp(at),) * mechanism.k)
                law = given.true_counts(counts, None if noisy is None else tuple(noisy))
                assert isinstance(law, ManyLevels)
                known[at] = law
            return known[at].log_evidence

        nodes, _ = integrate(log_evidence, math.log(strength.low), math.log(strength.high))
        self.nodes = [(weight, math.exp(at), known[at]) for at, weight in nodes]
        """Weight, parameter and law of the true counts for each."""
        expected = math.fsum(weight * a for weight, a, _ in self.nodes)
        super().__init__((expected,) * mechanism.k, mechanism.n, _Mixed(self.nodes))

    def _part(self, node: int, laws: list[tuple[int, FloatArray]]) -> BetaPart:
        weight, a, _ = self.nodes[node]
        width = max(len(p) for _, p in laws)
        mass = np.zeros((len(laws), width))
        for row, (_, p) in zip(mass, laws, strict=True):
            row[: len(p)] = weight * p
        first = a + np.array([float(start) for start, _ in laws])
        return BetaPart(mass, first, self.k * a + self.n - first, -1)

    @cached_property
    def _every(self) -> list[list[tuple[int, FloatArray]]]:
        """The laws of all counts at each node."""
        return [[_trimmed(one) for one in law.distinct_marginals()] for _, _, law in self.nodes]

    @cached_property
    def _rows(self) -> tuple[list[tuple[IntArray, list[BetaPart]]], IntArray]:
        # All nodes share the cells but for their prior, so that a row means the same in each.
        order = np.argsort([len(p) for _, p in self._every[0]], kind="stable")
        blocks = []
        for start in range(0, len(order), _TOGETHER):
            rows = order[start : start + _TOGETHER]
            parts = [self._part(i, [laws[row] for row in rows]) for i, laws in enumerate(self._every)]
            blocks.append((rows, parts))
        return blocks, self.nodes[0][2].cells.inverse

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's proportion."""
        row = int(self.nodes[0][2].cells.inverse[index])
        parts = [self._part(i, [laws[row]]) for i, laws in enumerate(self._every)]
        weight = np.concatenate([part.mass[0] for part in parts])
        a = np.concatenate([part.a[0] + np.arange(part.mass.shape[1]) for part in parts])
        total = np.concatenate([np.full(part.mass.shape[1], part.a[0] + part.s[0]) for part in parts])
        kept = weight > 1e-12 * weight.max()
        return BetaMixture(weight[kept] / weight[kept].sum(), a[kept], total[kept])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the proportions, shape (size, k)."""
        rng = np.random.default_rng(seed)
        times = rng.multinomial(size, [weight for weight, _, _ in self.nodes])
        shapes = [
            law.sample(int(number), rng) + a
            for number, (_, a, law) in zip(times, self.nodes, strict=True)
            if number
        ]
        draws = rng.standard_gamma(rng.permutation(np.concatenate(shapes)))
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)


class _Mixed(TrueCounts):
    """The law of the true counts whatever the parameter of the prior is."""

    def __init__(self, nodes: list[tuple[float, float, ManyLevels]]) -> None:
        self._nodes = nodes

    def marginals(self) -> list[tuple[int, FloatArray]]:
        result = []
        for laws in zip(*(law.marginals() for _, _, law in self._nodes), strict=True):
            low = min(start for start, _ in laws)
            mass = np.zeros(max(start - low + len(p) for start, p in laws))
            for (weight, _, _), (start, p) in zip(self._nodes, laws, strict=True):
                mass[start - low : start - low + len(p)] += weight * p
            result.append((low, mass))
        return result

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        times = rng.multinomial(size, [weight for weight, _, _ in self._nodes])
        draws = [law.sample(int(m), rng) for m, (_, _, law) in zip(times, self._nodes, strict=True) if m]
        return np.asarray(rng.permutation(np.concatenate(draws)))


def _trimmed(law: tuple[int, FloatArray]) -> tuple[int, FloatArray]:
    start, p = law
    kept = np.flatnonzero(p > 1e-12 * p.max())
    return start + int(kept[0]), p[kept[0] : kept[-1] + 1]
