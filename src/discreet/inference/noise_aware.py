"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. Where the
noise is independent over the categories, or the lattice's, π is separable and its marginals come from
convolutions; where it is not, π is enumerated. No sampling, no normal approximation. The plug-in posterior
Dir(α + released) takes the released counts for the truth, and its intervals are too narrow.

What else is unknown is integrated: the one parameter of a symmetric prior; and, where some of the n records
were left out and only a noisy number of these was published, how many were not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from discreet._typing import FloatArray, IntArray
from discreet.distributions.beta_rows import BetaPart
from discreet.distributions.mixtures import BetaMixture
from discreet.distributions.noise_aware import NoiseAware, TrueCounts
from discreet.errors import NotPrivateError
from discreet.inference.add_remove import AddRemovePosterior, LogUniform, TotalPosterior, integrate
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.independent import IndependentNoise
from discreet.mechanisms.lattice.many_levels import ManyLevels
from discreet.numerics.noisy_cells import CellNoise, GeometricNoise, TiltedCells

_TOGETHER = 256  # laws whose intervals are found together
_NEGLIGIBLE = 16.0  # numbers whose log-weight is so far below the largest are left out: 1e-7


def noise_aware(
    mechanism: Mechanism,
    counts: Sequence[int],
    noisy: Sequence[int] | None,
    total_prior: LogUniform | None = None,
    strength: LogUniform | None = None,
    leaves_out: bool = False,
) -> NoiseAware | AddRemovePosterior:
    """The posterior given what ``mechanism`` released: ``counts``, and ``noisy`` where it keeps them.

    Where n is private it is inferred too, from ``total_prior`` or what noise of this size suggests.
    ``strength``: the prior is symmetric with one unknown parameter in that range, instead of the mechanism's.
    ``leaves_out``: the last count is of records that were left out, and the shares are those of the others.
    """
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"{mechanism.name} is not private, so its output is no private release to infer from"
        )
    if isinstance(mechanism, IndependentNoise) and not mechanism.n and noisy is not None:
        prior = mechanism.prior if strength is None else strength
        return AddRemovePosterior(noisy, prior, noise=mechanism.noise, total_prior=total_prior)
    if leaves_out and noisy is not None:
        return MixedShares.given(mechanism, noisy, strength, True)
    law = mechanism.true_counts(tuple(counts), None if noisy is None else tuple(noisy))
    if strength is not None and isinstance(law, ManyLevels) and noisy is not None:
        return MixedShares.given(mechanism, noisy, strength, False)
    return NoiseAware(mechanism.prior, mechanism.n, law)


@dataclass(frozen=True)
class _Node:
    """One possibility of what is unknown beside the true counts, with the law of these given it."""

    log_weight: float
    n: int
    """How many records were not left out."""
    cells: TiltedCells
    marginals: list[tuple[int, FloatArray]]
    """Of each distinct cell (start, p): P(x = start + j) = p[j]."""

    @cached_property
    def joint(self) -> ManyLevels:
        """For joint draws of the true counts."""
        return _law(self.cells, self.n)


def _law(cells: TiltedCells, n: int) -> ManyLevels:
    prior: Any = cells.prior[cells.inverse]
    return ManyLevels(cells.noisy[cells.inverse], prior, n, cells.noise)


def _sums(cells: TiltedCells, numbers: IntArray) -> list[_Node]:
    """The law of the true counts given each of some possible sums, and log P(noisy | sum).

    One tilt serves for all sums: log P(noisy | N) = log N!Γ(A)/Γ(A + N) + Σ log size − θN + log P_θ(S = N),
    A the sum of the prior's parameters, holds for any θ.
    """
    law = _law(cells, int(cells.upper))
    law.n = max(int(numbers[len(numbers) // 2]), min(math.ceil(math.sqrt(cells.noise.variance)), law.n))
    at, span = law.tilted, int(numbers[-1] - numbers[0])
    found: list[dict[int, tuple[int, FloatArray]]] = [{} for _ in numbers]
    chance = np.zeros(len(numbers))
    for block, mass in zip(at.blocks, at.masses, strict=True):
        width = mass.shape[1]
        others = at.sum_of_others(block.rows, numbers[-1] - block.start, width + span, -1)
        for place, number in enumerate(numbers):
            first = int(numbers[-1] - number)
            p = mass * others[:, first : first + width]
            whole = p.sum(axis=1)
            chance[place] = whole[0]
            for row, start, own, size in zip(block.rows, block.start, p, whole, strict=True):
                found[place][int(row)] = _trimmed((int(start), own / size)) if size > 0 else (0, own)
    strength = float(cells.count @ cells.prior)
    whole_size = float(cells.count @ at.log_size) + math.lgamma(strength)
    with np.errstate(divide="ignore"):
        logs = whole_size - at.tilt * numbers + np.log(chance) + gammaln(numbers + 1.0)
    logs -= gammaln(strength + numbers)
    return [
        _Node(float(log), int(number), cells, [laws[row] for row in range(len(cells))])
        for log, number, laws in zip(logs, numbers, found, strict=True)
        if math.isfinite(log)
    ]


class MixedShares(NoiseAware):
    """A mixture over what is unknown beside the true counts: the parameter of the prior, or how many records
    were not left out. ``total`` is what is known of that number."""

    def __init__(self, nodes: Sequence[_Node], n: int) -> None:
        logs = np.array([node.log_weight for node in nodes])
        kept = [node for node, log in zip(nodes, logs, strict=True) if log > logs.max() - _NEGLIGIBLE]
        weights = np.exp([node.log_weight - logs.max() for node in kept])
        self.nodes = list(zip((weights / weights.sum()).tolist(), kept, strict=True))
        """Weight, and the law of the true counts, for each."""
        expected = sum(weight * node.cells.prior[node.cells.inverse] for weight, node in self.nodes)
        super().__init__(tuple(np.asarray(expected).tolist()), n, _Mixed(self.nodes))

    @classmethod
    def given(
        cls, mechanism: Mechanism, noisy: Sequence[int], strength: LogUniform | None, leaves_out: bool
    ) -> MixedShares:
        """The posterior given noisy counts, of which the last may be that of the records left out."""
        noise, n = mechanism.noise, mechanism.n
        assert noise is not None
        values = np.asarray(noisy, dtype=np.int64)
        if isinstance(noise, GeometricNoise):  # without memory: how far beyond 0 or n makes no difference
            values = np.clip(values, 0, n)
        kept, numbers = (values[:-1], _numbers(n, int(values[-1]), noise)) if leaves_out else (values, [n])
        numbers = np.asarray(numbers)

        def mixed(prior: Sequence[float]) -> list[_Node]:
            nodes = _sums(TiltedCells.of(kept, np.asarray(prior), noise, float(n)), numbers)
            if not leaves_out:
                return nodes
            away = noise.log_pmf(np.array([values[-1] - n + node.n for node in nodes], dtype=np.float64))
            return [
                replace(node, log_weight=node.log_weight + float(more))
                for node, more in zip(nodes, away, strict=True)
            ]

        if strength is None:
            return cls(mixed(mechanism.prior[: len(kept)]), n)
        known: dict[float, list[_Node]] = {}

        def log_evidence(at: float) -> float:
            if at not in known:
                known[at] = mixed((math.exp(at),) * len(kept))
            return float(np.logaddexp.reduce([node.log_weight for node in known[at]]))

        outer, _ = integrate(log_evidence, math.log(strength.low), math.log(strength.high))
        weighed = [
            replace(node, log_weight=math.log(weight) + node.log_weight - log_evidence(at))
            for at, weight in outer
            for node in known[at]
            if weight > 0
        ]
        return cls(weighed, n)

    @property
    def total(self) -> CountedTotal:
        """What is known of the number of records that were not left out."""
        weights: dict[int, float] = {}
        for weight, node in self.nodes:
            weights[node.n] = weights.get(node.n, 0.0) + weight
        return CountedTotal(dict(sorted(weights.items())))

    def _part(self, node: int, rows: Sequence[int] | IntArray) -> BetaPart:
        weight, given = self.nodes[node]
        laws = [given.marginals[row] for row in rows]
        mass = np.zeros((len(laws), max(len(p) for _, p in laws)))
        for own, (_, p) in zip(mass, laws, strict=True):
            own[: len(p)] = weight * p
        first = given.cells.prior[rows] + np.array([float(start) for start, _ in laws])
        return BetaPart(mass, first, float(given.cells.count @ given.cells.prior) + given.n - first, -1)

    @cached_property
    def _rows(self) -> tuple[list[tuple[IntArray, list[BetaPart]]], IntArray]:
        # All nodes share the cells but for their prior and sum, so that a row means the same in each.
        first = self.nodes[0][1]
        order = np.argsort([len(p) for _, p in first.marginals], kind="stable")
        blocks = []
        for start in range(0, len(order), _TOGETHER):
            rows = order[start : start + _TOGETHER]
            blocks.append((rows, [self._part(i, rows) for i in range(len(self.nodes))]))
        return blocks, first.cells.inverse

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's proportion."""
        row = [int(self.nodes[0][1].cells.inverse[index])]
        parts = [self._part(i, row) for i in range(len(self.nodes))]
        weight = np.concatenate([part.mass[0] for part in parts])
        a = np.concatenate([part.a[0] + np.arange(part.mass.shape[1]) for part in parts])
        total = np.concatenate([np.full(part.mass.shape[1], part.a[0] + part.s[0]) for part in parts])
        kept = weight > 1e-12 * weight.max()
        return BetaMixture(weight[kept] / weight[kept].sum(), a[kept], total[kept])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the proportions, shape (size, k)."""
        rng = np.random.default_rng(seed)
        draws = rng.standard_gamma(_drawn(self.nodes, size, rng, 1))
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)


class CountedTotal(TotalPosterior):
    """The law of a number of records that is known by its probabilities at equal steps."""

    def __init__(self, weights: Mapping[int, float]) -> None:
        steps, logs = np.array(list(weights)), np.log(np.maximum(list(weights.values()), 1e-300))
        totals = np.arange(steps[0], steps[-1] + 1)
        density = np.exp(np.interp(totals, steps, logs))
        self._law = totals, density / density.sum()

    def mean(self) -> float:
        return float(self._law[0] @ self._law[1])

    def var(self) -> float:
        return float((self._law[0] - self.mean()) ** 2 @ self._law[1])


class _Mixed(TrueCounts):
    """The law of the true counts whatever else is unknown."""

    def __init__(self, nodes: Sequence[tuple[float, _Node]]) -> None:
        self._nodes = nodes

    def marginals(self) -> list[tuple[int, FloatArray]]:
        distinct = []
        for laws in zip(*(node.marginals for _, node in self._nodes), strict=True):
            low = min(start for start, _ in laws)
            mass = np.zeros(max(start - low + len(p) for start, p in laws))
            for (weight, _), (start, p) in zip(self._nodes, laws, strict=True):
                mass[start - low : start - low + len(p)] += weight * p
            distinct.append((low, mass))
        return [distinct[row] for row in self._nodes[0][1].cells.inverse]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        return np.asarray(_drawn(self._nodes, size, rng, 0).astype(np.int64))


def _drawn(
    nodes: Sequence[tuple[float, _Node]], size: int, rng: np.random.Generator, prior: int
) -> FloatArray:
    """True counts, and ``prior`` times the parameters of the prior that go with them."""
    times = rng.multinomial(size, [weight for weight, _ in nodes])
    draws = [
        node.joint.sample(int(number), rng) + prior * node.cells.prior[node.cells.inverse]
        for number, (_, node) in zip(times, nodes, strict=True)
        if number
    ]
    return np.asarray(rng.permutation(np.concatenate(draws)), dtype=np.float64)


def _numbers(n: int, left_out: int, noise: CellNoise) -> IntArray:
    """Equally spaced possible numbers of records that were not left out, given how many noisily were."""
    reach = math.ceil(12 * math.sqrt(noise.variance)) + 1
    middle = min(max(n - left_out, 0), n)
    low, high = max(0, middle - reach), min(n, middle + reach)
    step = max(1, min(reach // 36, (high - low) // 40))
    return np.arange(low, high + 1, step)


def _trimmed(law: tuple[int, FloatArray]) -> tuple[int, FloatArray]:
    start, p = law
    kept = np.flatnonzero(p > 1e-12 * p.max())
    return start + int(kept[0]), p[kept[0] : kept[-1] + 1]
