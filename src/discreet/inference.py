"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. Where the
noise is independent over the categories, or the lattice's, π is separable and its marginals come from
convolutions; where it is not, π is enumerated. No sampling, no normal approximation. The plug-in posterior
Dir(α + released) takes the released counts for the truth, and its intervals are too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from discreet.bridges import inference_data
from discreet.compositions import Separable, compositions, number_of_compositions
from discreet.core import InvalidInput, NotPrivateError, TooLargeError
from discreet.decoding import log_rising, true_counts
from discreet.families.dirichlet import IntervalKind
from discreet.families.mixtures import BetaMixture
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.counts import NoisyCounts, clamped_floor_laplace_likelihood
from discreet.mechanisms.lattice import Lattice

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_MAX_ENUMERATED = 5_000


class TrueCounts(Protocol):
    """A law over the true counts."""

    def marginals(self) -> list[tuple[int, FloatArray]]: ...
    def sample(self, size: int, rng: np.random.Generator) -> IntArray: ...


class NoiseAware:
    """The posterior of the proportions given a release, with the noise accounted for.

    Like the released posterior it has a scalar face for two levels (the first level's probability) and a
    vector face for more.
    """

    def __init__(self, prior: Sequence[float], n: int, counts: TrueCounts) -> None:
        self.prior = tuple(prior)
        self.n = n
        self.counts = counts
        """The law of the true counts given the release."""

    @property
    def k(self) -> int:
        return len(self.prior)

    @cached_property
    def _marginals(self) -> list[BetaMixture]:
        total = math.fsum(self.prior) + self.n
        result = []
        for a, (start, weight) in zip(self.prior, self.counts.marginals(), strict=True):
            kept = np.flatnonzero(weight > 1e-14 * weight.max())
            mass = weight[kept[0] : kept[-1] + 1]
            counts = float(start) + np.arange(kept[0], kept[-1] + 1)
            result.append(BetaMixture(mass / mass.sum(), a + counts, total))
        return result

    def marginal(self, index: int) -> BetaMixture:
        """The law of one level's proportion."""
        try:
            return self._marginals[index]
        except (IndexError, TypeError):
            raise InvalidInput(f"index={index!r} must be between 0 and {self.k - 1}") from None

    def _face(self, values: Sequence[float]) -> Any:
        return values[0] if self.k == 2 else np.array(values)

    def mean(self) -> Any:
        return self._face([m.mean() for m in self._marginals])

    def var(self) -> Any:
        return self._face([m.var() for m in self._marginals])

    def std(self) -> Any:
        return self._face([m.std() for m in self._marginals])

    def interval(self, level: float = 0.95, kind: IntervalKind = "equal-tailed") -> tuple[Any, Any]:
        """Credible interval(s): (low, high) of the first level for k = 2, arrays (low, high) for k > 2."""
        shown = self._marginals[:1] if self.k == 2 else self._marginals
        ends = [m.interval(level, kind) for m in shown]
        return self._face([low for low, _ in ends]), self._face([high for _, high in ends])

    def predictive(self) -> FloatArray:
        """The probability that the next record falls into each level."""
        return np.array([m.mean() for m in self._marginals])

    def sample(self, size: int = 1, seed: int | None = None) -> FloatArray:
        """Draws of the proportions, shape (size, k). The release is public, so this costs no privacy."""
        rng = np.random.default_rng(seed)
        shape = self.counts.sample(size, rng) + np.array(self.prior)
        draws = rng.standard_gamma(shape)
        return np.asarray(draws / draws.sum(axis=1, keepdims=True), dtype=np.float64)

    def to_arviz(self, size: int = 4000, seed: int | None = None) -> Any:
        """Draws as ArviZ inference data (needs ``pip install arviz``)."""
        return inference_data({"theta": self.sample(size, seed)[None]}, {"n": self.n})


class Enumerated:
    """A law over few datasets, listed."""

    def __init__(self, rows: IntArray, log_weight: FloatArray) -> None:
        self._rows = rows
        weight = np.exp(log_weight - log_weight.max())
        self._weight = weight / weight.sum()

    def marginals(self) -> list[tuple[int, FloatArray]]:
        return [(0, np.asarray(np.bincount(c, self._weight), dtype=np.float64)) for c in self._rows.T]

    def sample(self, size: int, rng: np.random.Generator) -> IntArray:
        return np.asarray(self._rows[rng.choice(len(self._rows), size, p=self._weight)])


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
