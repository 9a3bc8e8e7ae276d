"""Conjugate families for the exponential mechanism: candidates, neighbours, distances, sensitivities.

The candidates are the posteriors of all datasets of n records, each named by its sufficient statistic: the
counts of k levels (Dirichlet), or the total of n bounded whole numbers (Poisson with a Gamma prior; a normal
mean with values rounded to a grid). So the statistics are the datasets too, and a score is a square table.
Sensitivities are those of ``proofs/exponential.md``.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from discreet._declarations import as_counts, as_exact
from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.hellinger import candidate_distances, from_gap
from discreet._numerics.log_gamma import log_gamma_gap, log_predictive, log_rising
from discreet._numerics.neighbours import neighbouring_rows
from discreet._typing import FloatArray, IntArray
from discreet.distributions.base import Distribution
from discreet.distributions.beta_dirichlet import dirichlet
from discreet.distributions.gamma import Gamma
from discreet.distributions.mixtures import GammaMixture, NormalMixture
from discreet.distributions.normal import Normal
from discreet.errors import InvalidInputError
from discreet.mechanisms.hellinger.sensitivity import global_sensitivity

SCORES = ("hellinger", "kl", "total-variation", "l1")
MELLIN_STEP = 0.1
"""Step of the trapezoidal rule in the total variation of Dirichlets; its error is 2e^(−π/step) < 10⁻¹³."""


@dataclass(frozen=True)
class Candidates(ABC):
    """The posteriors of all datasets of n records; ``rows`` contains their sufficient statistics."""

    prior: tuple[float, ...]
    n: int
    columns: ClassVar[int] = 1

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of candidates."""

    @property
    @abstractmethod
    def rows(self) -> IntArray: ...

    @property
    @abstractmethod
    def pairs(self) -> IntArray:
        """Indices of all pairs of neighbours, each pair once."""

    @abstractmethod
    def check(self, statistic: Iterable[Any]) -> tuple[int, ...]:
        """Return the statistic; raise an error if no dataset has it."""

    @abstractmethod
    def distances(self, score: str, sources: IntArray | None = None) -> FloatArray:
        """Return the distance from every source (all candidates if None) to every candidate."""

    @abstractmethod
    def sensitivity(self, score: str) -> float:
        """Return the largest change of the distance to any candidate that one record can cause."""

    @abstractmethod
    def posterior(self, statistic: tuple[int, ...]) -> Any:
        """Return the posterior of a statistic as if it were exact."""

    @abstractmethod
    def log_predictive(self, rows: IntArray) -> FloatArray:
        """Return the log-probability of statistics before any data, up to a constant."""


class DirichletCandidates(Candidates):
    """Counts of k levels with a Dirichlet prior; neighbours differ by moving one record to another level."""

    @cached_property
    def columns(self) -> int:  # type: ignore[override]
        return len(self.prior)

    @property
    def size(self) -> int:
        return number_of_compositions(self.n, self.columns)

    @property
    def rows(self) -> IntArray:
        return _compositions(self.n, self.columns)

    @property
    def pairs(self) -> IntArray:
        return neighbouring_rows(self.rows)

    def check(self, statistic: Iterable[Any]) -> tuple[int, ...]:
        return as_counts(statistic, self.columns, self.n)

    def distances(self, score: str, sources: IntArray | None = None) -> FloatArray:
        sources = self.rows if sources is None else sources
        if score == "hellinger":
            return candidate_distances(self.prior, self.rows, sources)
        if score == "total-variation":
            return self._beta_variation(sources) if self.columns == 2 else self._total_variation()
        distance = np.zeros((len(sources), self.size))
        counts = np.arange(self.n + 1.0)
        for alpha, column, target in zip(self.prior, sources.T, self.rows.T, strict=True):
            if score == "l1":
                distance += 0.5 * np.abs(column[:, None] - target)
            else:
                distance += _gamma_divergence(alpha + counts[column][:, None], alpha + counts)[:, target]
        return np.maximum(distance, 0.0)

    def _beta_variation(self, sources: IntArray) -> FloatArray:
        """Return the total variation between Beta posteriors with the same total of parameters.

        Their densities cross once, where θ^d (1−θ)^{−d} equals the ratio of the normalising constants; d is
        the difference of the first parameters.
        """
        from scipy.special import betainc, betaln, expit

        a, b = ((self.prior + rows)[:, :, None] for rows in (sources, self.rows))
        first, second = (a[:, 0], a[:, 1]), (b[:, 0].T, b[:, 1].T)
        moved = second[0] - first[0]
        steepness = (betaln(*second) - betaln(*first)) / np.where(moved == 0, 1.0, moved)
        above, below = expit(steepness), expit(-steepness)  # the crossing, and one minus it
        low = np.abs(betainc(*first, above) - betainc(*second, above))
        high = np.abs(betainc(*first[::-1], below) - betainc(*second[::-1], below))
        return np.where(moved == 0, 0.0, np.where(above < 0.5, low, high))

    def _total_variation(self) -> FloatArray:
        """Return the total variation 1 − ∫ min(p, q) between all pairs of candidates p and q.

        It is 1 − (1/2π)∫ M(½+iτ)/(¼+τ²) dτ with M(s) = ∫ p^(1−s) q^s. M is a product over levels, because
        all candidates have the same total. The sum for a pair ends when M is small.
        """
        from scipy.special import gammaln, loggamma

        first, second = np.triu_indices(self.size, 1)
        distance, active = np.zeros((self.size, self.size)), np.arange(len(first))
        overlap = np.zeros(len(first))
        for node in itertools.count():
            s = 0.5 + 1j * MELLIN_STEP * node
            log_m = np.zeros(len(active), dtype=np.complex128)
            for alpha, column in zip(self.prior, self.rows.T, strict=True):
                a = alpha + np.arange(self.n + 1.0)
                x, b = a[:, None], a
                level = loggamma((1 - s) * x + s * b) - (1 - s) * gammaln(x) - s * gammaln(b)
                log_m += level[column[first[active]], column[second[active]]]
            term = np.exp(log_m) * (MELLIN_STEP / math.pi / abs(s) ** 2)
            overlap[active] += term.real / (2 if node == 0 else 1)
            active = active[np.abs(term) > 1e-18]
            if not len(active):
                break
        distance[first, second] = distance[second, first] = 1 - overlap
        return distance

    def sensitivity(self, score: str) -> float:
        if score == "l1":
            return 1.0
        if score == "hellinger":
            return global_sensitivity(self.n, self.prior)
        alpha = np.array(self.prior)
        if score == "kl":
            return max(
                _divergence_step(self.n, a, b, len(alpha) == 2)
                for i, a in enumerate(alpha)
                for j, b in enumerate(alpha)
                if i != j
            )
        if len(alpha) > 2:
            return float(step_variation(*np.sort(alpha)[:2]))
        return float(step_variation(alpha, alpha[::-1] + (self.n - 1)).max())

    def posterior(self, statistic: tuple[int, ...]) -> Any:
        return dirichlet([a + count for a, count in zip(self.prior, statistic, strict=True)])

    def log_predictive(self, rows: IntArray) -> FloatArray:
        return log_predictive(self.prior, rows)


@dataclass(frozen=True)
class Totals(Candidates):
    """The totals of n whole numbers from 0 to ``steps``; one record changes a total by at most ``steps``."""

    steps: int

    @property
    def size(self) -> int:
        return self.n * self.steps + 1

    @property
    def rows(self) -> IntArray:
        return np.arange(self.size)[:, None]

    @property
    def pairs(self) -> IntArray:
        first, moved = np.divmod(np.arange((self.size - 1) * self.steps), self.steps)
        pairs = np.stack([first, first + moved + 1], axis=1)
        return pairs[pairs[:, 1] < self.size]

    def check(self, statistic: Iterable[Any]) -> tuple[int, ...]:
        try:
            return as_counts([*statistic, 0], 2)[:1] if self._is_total(statistic) else self._refuse()
        except (TypeError, InvalidInputError):
            return self._refuse()

    def _is_total(self, statistic: Any) -> bool:
        values = list(statistic)
        return len(values) == 1 and 0 <= values[0] < self.size

    def _refuse(self) -> tuple[int, ...]:
        raise InvalidInputError(
            f"the statistic must be (total,): one whole number from 0 to {self.size - 1}, as statistic() "
            "makes it of records"
        ) from None

    @abstractmethod
    def _between(self, score: str, first: FloatArray, second: FloatArray) -> FloatArray:
        """Return the distance between the posteriors of two totals."""

    @abstractmethod
    def mixture(self, weight: FloatArray) -> Distribution:
        """Return the mixture of the posteriors of all totals."""

    def distances(self, score: str, sources: IntArray | None = None) -> FloatArray:
        totals = self.rows[:, 0].astype(np.float64)
        first = totals if sources is None else sources[:, 0].astype(np.float64)
        if score == "l1":
            return np.abs(first[:, None] - totals) / self.steps
        return self._between(score, first[:, None], totals)

    def sensitivity(self, score: str) -> float:
        if score == "l1":
            return 1.0
        if score == "hellinger":  # it grows with the distance of totals, and is largest at the lowest
            return float(self._between(score, np.zeros(1), np.full(1, float(self.steps)))[0])
        totals = np.arange(float(self.size))
        if score == "total-variation":  # a metric that grows with the distance of totals
            return float(self._between(score, totals[: -self.steps], totals[self.steps :]).max())
        ends = self._between(score, totals[:, None], totals[[0, -1]])  # affine in the candidate
        first, second = self.pairs.T
        return float(np.abs(ends[first] - ends[second]).max())


class PoissonCandidates(Totals):
    """Counts of at most ``steps`` with a Gamma(shape, rate) prior of their mean."""

    def _between(self, score: str, first: FloatArray, second: FloatArray) -> FloatArray:
        from scipy.special import gammainc, gammaincc, gammaln

        a, b = self.prior[0] + first, self.prior[0] + second
        if score == "hellinger":
            return from_gap(log_gamma_gap(a, b, first - second))
        if score == "kl":
            return np.maximum(_gamma_divergence(a, b), 0.0)
        moved = second - first
        crossing = np.exp((gammaln(b) - gammaln(a)) / np.where(moved == 0, 1.0, moved))
        low = np.abs(gammainc(a, crossing) - gammainc(b, crossing))
        high = np.abs(gammaincc(a, crossing) - gammaincc(b, crossing))
        return np.where(moved == 0, 0.0, np.where(crossing < np.minimum(a, b), low, high))

    def posterior(self, statistic: tuple[int, ...]) -> Gamma:
        return Gamma(*self.prior).update(statistic[0], self.n)

    def log_predictive(self, rows: IntArray) -> FloatArray:
        total = rows[:, 0].astype(np.float64)
        return np.asarray(log_rising(self.prior[0], total) - total * math.log1p(self.prior[1] / self.n))

    def mixture(self, weight: FloatArray) -> Distribution:
        shape = self.prior[0] + np.arange(float(self.size))
        return GammaMixture(weight, shape, np.full(self.size, self.prior[1] + self.n))

    def statistic(self, records: Iterable[Any]) -> tuple[int, ...]:
        """Return the total of whole numbers, each clipped to the bounds."""
        return (sum(min(max(round(as_exact(x, "records")), 0), self.steps) for x in records),)


@dataclass(frozen=True)
class GaussianCandidates(Totals):
    """Values on a grid of ``steps`` + 1 points with a N(mean, sd²) prior of their mean and known sigma."""

    bounds: tuple[float, float]
    sigma: float

    @property
    def _value(self) -> float:
        return (self.bounds[1] - self.bounds[0]) / self.steps

    def _sum(self, total: Any) -> Any:
        return self.n * self.bounds[0] + total * self._value

    def _between(self, score: str, first: FloatArray, second: FloatArray) -> FloatArray:
        from scipy.special import erf

        scale = self.posterior((0,)).scale  # one for all
        apart = np.abs(first - second) * (scale * self._value / self.sigma**2)
        if score == "hellinger":
            return from_gap(apart**2 / 8)
        return np.asarray(apart**2 / 2 if score == "kl" else erf(apart / math.sqrt(8)))

    def posterior(self, statistic: tuple[int, ...]) -> Normal:
        return Normal(*self.prior).update(self._sum(statistic[0]), self.n, self.sigma)

    def log_predictive(self, rows: IntArray) -> FloatArray:
        mean, scale = self.prior
        variance = (self.n * scale) ** 2 + self.n * self.sigma**2
        return np.asarray(-((self._sum(rows[:, 0]) - self.n * mean) ** 2) / (2 * variance))

    def mixture(self, weight: FloatArray) -> Distribution:
        first, second = self.posterior((0,)), self.posterior((1,))
        loc = first.loc + (second.loc - first.loc) * np.arange(float(self.size))
        return NormalMixture(weight, loc, np.full(self.size, first.scale))

    def statistic(self, records: Iterable[Any]) -> tuple[int, ...]:
        """Return the total in steps of the grid, each value clipped to the bounds and rounded."""
        low, high = map(Fraction, self.bounds)
        clipped = (min(max(as_exact(x, "records"), low), high) for x in records)
        return (sum(round((x - low) * self.steps / (high - low)) for x in clipped),)


def step_variation(t: Any, s: Any) -> FloatArray:
    """Return the total variation between the posteriors before and after one record is replaced.

    It equals s^s t^t/(s+t)^{s+t} · Γ(s+t+1)/(Γ(s+1)Γ(t+1)).

    ``t`` is the parameter aᵢ of the level that the record leaves, minus 1, and ``s`` is the parameter aⱼ of
    the level that it joins.
    """
    from scipy.special import betaln

    t, s = np.asarray(t, dtype=np.float64), np.asarray(s, dtype=np.float64)
    log_power = -s * np.log1p(t / s) - t * np.log1p(s / t)
    return np.asarray(np.exp(log_power - betaln(s + 1, t + 1) - np.log1p(s + t)))


def _gamma_divergence(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return lnΓ(b) − lnΓ(a) + (a − b)ψ(a), the term of one level in KL(Dir(a), Dir(b)).

    It is also the divergence between two Gamma distributions with the same rate.
    """
    from scipy.special import digamma, gammaln

    return np.asarray(gammaln(b) - gammaln(a) + (a - b) * digamma(a))


def _divergence_step(n: int, alpha: float, beta: float, two_levels: bool) -> float:
    """Return the largest change of the KL divergence when one of n records moves to another level.

    ``alpha`` is the prior parameter of the level that it leaves, and ``beta`` that of the level that it
    joins.
    """
    from scipy.special import digamma

    def _left(t: Any) -> Any:  # decreases: best where the level had this record only
        return np.log(t) - digamma(t + 1) + (alpha + n) / t

    def _joined(s: Any) -> Any:  # increases, then decreases
        return digamma(s + 1) - np.log(s) - beta / s

    if two_levels:
        others = np.arange(float(n))
        return float((_left(alpha + others) + _joined(beta + (n - 1.0) - others)).max())
    low, high = 0, n - 1
    while low < high:  # the last count up to which one more record in the level raises it
        middle = (low + high) // 2
        s = beta + middle
        if (1 + beta / s) / (s + 1) > math.log1p(1 / s):
            low = middle + 1
        else:
            high = middle
    return float(_left(alpha) + max(_joined(beta + low), _joined(beta + max(low - 1, 0))))


@lru_cache(maxsize=4)
def _compositions(n: int, k: int) -> IntArray:
    rows = compositions(n, k)
    rows.flags.writeable = False
    return rows
