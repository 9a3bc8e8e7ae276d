"""The error to expect of one mechanism, over its noise and over datasets from the prior predictive.

The error is the Hellinger distance between the posterior that a mechanism releases and the true one; datasets
follow the Dirichlet-multinomial distribution DirMult(α, n). Where all datasets and outputs can be listed the
figures are exact; else datasets are drawn with a seeded generator, and the standard error, clustered by
dataset, is stated.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet._declarations import Relation
from discreet._inference.made_up_counts import imagined_counts, width_without
from discreet._inference.noise_aware import noise_aware
from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.hellinger import candidate_distances, hellinger
from discreet._numerics.log_gamma import entropy_curve, log_predictive, stirling_remainder
from discreet.errors import NotPrivateError, TooLargeError
from discreet.mechanisms import MECHANISMS, automatic, check_options
from discreet.mechanisms.base import MAX_SIMULATED_N, Mechanism, simulated_output
from discreet.mechanisms.exponential import MAX_ENUMERATED
from discreet.mechanisms.independent import IndependentNoise
from discreet.mechanisms.lattice import Lattice, decoding_seconds
from discreet_reproductions.arrays import FloatArray, IntArray

Chosen: TypeAlias = list[tuple[str, dict[str, Any]]]

_CELLS, _QUICK_CELLS = 2_000_000, 200_000  # (dataset, output) pairs that are listed rather than drawn


WIDTH_DRAWS = 8
"""Widths hardly depend on the noise that was drawn: so few draws give the mean to about one percent."""


def expected_width(
    mechanism: Mechanism, n: int, *, share: float = 0.5, level: float = 0.95, seed: int = 0
) -> float | None:
    """Return the expected width of the interval of a share; None where the noise has no account."""
    if n > MAX_SIMULATED_N:
        raise TooLargeError(f"n={n}: plans are simulated up to n = 2**53")
    counts = imagined_counts(mechanism.prior, n, share)
    widths = []
    for draw in range(WIDTH_DRAWS):
        try:
            output = simulated_output(mechanism, counts, 1000 * seed + draw)
            low, high = noise_aware(mechanism, output.counts, output.noisy).marginal(0).interval(level)
        except (NotPrivateError, TooLargeError):
            return None
        widths.append(float(high) - float(low))
    return float(np.mean(widths))


@dataclass(frozen=True)
class PlanRow:
    """What to expect of one mechanism; errors are Hellinger distances to the true posterior.

    What was not asked for, or cannot be computed, is not a number.
    """

    name: str
    options: Mapping[str, Any]
    expected: float
    standard_error: float = 0.0
    """Of ``expected``; 0 when it is exact."""
    median: float = math.nan
    q95: float = math.nan
    kl: float = math.nan
    """Expected Kullback–Leibler divergence of the released posterior from the true one, in nats."""
    l1: float = math.nan
    """Expected ℓ₁ distance between the posterior means."""
    width: float = math.nan
    """Expected width of the interval of one share, the noise accounted for."""
    width_without: float = math.nan
    """The same without privacy."""
    method: str = "exact"
    """``exact``, or ``simulated (N datasets)``."""
    comparable: bool = True
    """Whether it promises the planned ε (and δ, else 0), as one that is compared at equal privacy must."""

    @property
    def label(self) -> str:
        return label(self.name, self.options)


def label(name: str, options: Mapping[str, Any]) -> str:
    """A mechanism with its options, for people."""
    said = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{name} ({said})" if said else name


@dataclass(frozen=True, eq=False)
class Setting:
    """Everything about (prior, n) that several mechanisms share, and which figures are wanted.

    ``quick``: fewer draws and expected errors only, as with ``only_expected``; ``widths``: intervals too.
    """

    prior: tuple[float, ...]
    n: int
    _: KW_ONLY
    level: float = 0.95
    share: float = 0.5
    seed: int = 0
    quick: bool = False
    only_expected: bool = False
    widths: bool = False
    relation: Relation = Relation.REPLACE_ONE
    delta: Fraction | None = None
    _distances: list[tuple[IntArray, FloatArray]] = field(default_factory=list, init=False, repr=False)

    @property
    def k(self) -> int:
        return len(self.prior)

    @property
    def brief(self) -> bool:
        """Whether expected errors are enough."""
        return self.quick or self.only_expected

    @property
    def default(self) -> Chosen:
        """What a plan compares unless told otherwise: name and options, as each mechanism says."""
        pure = [
            (name, options)
            for name, cls in MECHANISMS.items()
            if self.relation in cls.relations
            for options in compared(name, self.n, self.k, self.brief)
        ]
        with_delta = {} if self.delta is None else {"delta": self.delta}
        return [*pure, (automatic(self.relation, with_delta), with_delta)] if with_delta else pure

    def built(self, name: str, epsilon: Fraction, options: Mapping[str, Any]) -> Mechanism:
        """A mechanism for the planned records; where their number is private it is not told."""
        size = {} if self.relation is Relation.ADD_REMOVE else {"n": self.n}
        return mechanism_class(name, options)(prior=self.prior, epsilon=epsilon, **size, **options)

    @cached_property
    def rows(self) -> IntArray:
        return compositions(self.n, self.k)

    @cached_property
    def weight(self) -> FloatArray:
        """Prior predictive probabilities of all datasets."""
        log_weight = log_predictive(self.prior, self.rows)
        weight = np.exp(log_weight - log_weight.max())
        return np.asarray(weight / weight.sum(), dtype=np.float64)

    def distances(self, outputs: IntArray) -> FloatArray:
        """Hellinger distances from all datasets to all outputs, kept for the next mechanism that asks."""
        for known, distance in self._distances:
            if known.shape == outputs.shape and np.array_equal(known, outputs):
                return distance
        distance = candidate_distances(self.prior, outputs, self.rows)
        self._distances[:] = [*self._distances[-1:], (outputs, distance)]
        return distance

    def drawn(self, size: int) -> IntArray:
        """The first ``size`` datasets of one stream from the prior predictive."""
        rng = np.random.default_rng([self.seed, 0])
        parts = []
        for start in range(0, size, 64):  # blocks, such that a longer stream begins with the shorter one
            theta = rng.dirichlet(self.prior, 64)
            parts.append(rng.multinomial(self.n, theta)[: size - start])
        return np.concatenate(parts)

    def row(self, m: Mechanism, options: Mapping[str, Any]) -> PlanRow:
        figures, method = self._figures(m)
        if self.widths or not self.brief:
            figures["width"] = self.width(m)
            figures["width_without"] = width_without(self.prior, self.n, share=self.share, level=self.level)
        claim = m.guarantee
        known = claim.exact_epsilon is not None and claim.exact_epsilon <= m.epsilon
        comparable = known and claim.exact_delta <= (self.delta or 0) and claim.relation is self.relation
        return PlanRow(m.name, options, method=method, comparable=comparable, **figures)

    def width(self, m: Mechanism) -> float:
        """The expected width of a noise-aware interval; not a number where there is none."""
        found = expected_width(m, self.n, share=self.share, level=self.level, seed=self.seed)
        return math.nan if found is None else found

    def _figures(self, m: Mechanism) -> tuple[dict[str, float], str]:
        if number_of_compositions(self.n, self.k) * distribution_size(m) <= (
            _QUICK_CELLS if self.quick else _CELLS
        ):
            try:
                return self._exact(m), "exact"
            except TooLargeError:  # the distribution of the lattice mechanism at a tiny ε
                pass
        return self._simulated(m)

    def _exact(self, m: Mechanism) -> dict[str, float]:
        outputs, distribution = m.log_pmfs(self.rows)
        np.exp(distribution, out=distribution)
        distance = self.distances(outputs)
        weighted = self.weight[:, None] * distribution
        figures = {"expected": float((weighted * distance).sum())}
        if not self.brief:
            figures["median"], figures["q95"] = _weighted_quantiles(distance, weighted, (0.5, 0.95))
            figures["kl"], figures["l1"] = (
                self._exact_kl(outputs, distribution),
                self._exact_l1(outputs, weighted),
            )
        return figures

    def _exact_kl(self, outputs: IntArray, distribution: FloatArray) -> float:
        """Σ_x w(x) Σ_r P(r|x) KL(Dir(α+x) ‖ Dir(α+r)), from the means of what depends on r."""
        from scipy.special import gammaln, psi

        prior = np.array(self.prior)
        released, true = outputs + prior, self.rows + prior
        size, total = released.sum(axis=1), float(true[0].sum())
        of_released = distribution @ (gammaln(released).sum(axis=1) - gammaln(size))
        of_true = gammaln(true).sum(axis=1) - gammaln(total)
        slope = psi(true) - psi(total)
        moved = ((distribution @ released - true) * slope).sum(axis=1)
        return max(float(self.weight @ (of_released - of_true - moved)), 0.0)

    def _exact_l1(self, outputs: IntArray, weighted: FloatArray) -> float:
        released, true = (rows + np.array(self.prior) for rows in (outputs, self.rows))
        released /= released.sum(axis=1, keepdims=True)
        true /= true.sum(axis=1, keepdims=True)
        return sum(
            float((weighted * np.abs(true[:, i][:, None] - released[:, i])).sum()) for i in range(self.k)
        )

    def _simulated(self, m: Mechanism) -> tuple[dict[str, float], str]:
        number, each = sample_sizes(m, self.quick)
        rng = np.random.default_rng([self.seed, 1, zlib.crc32(m.name.encode())])
        method = f"simulated ({number} datasets)"
        known = self._with_control(m, number if self.brief else number // 2, rng)
        if known is None or not self.brief:
            number -= 0 if known is None else number // 2
            true = self.drawn(number)
            drawn = self.simulate(m, true, each, rng)
            error = self.errors(true, drawn)
            means = error.reshape(number, each).mean(axis=1)
            known = known or (float(means.mean()), float(means.std(ddof=1)) / math.sqrt(number))
        figures = dict(zip(("expected", "standard_error"), known, strict=True))
        if not self.brief:
            a, b = np.repeat(true, each, axis=0) + np.array(self.prior), drawn + np.array(self.prior)
            shares = a / a.sum(axis=1, keepdims=True), b / b.sum(axis=1, keepdims=True)
            figures["median"], figures["q95"] = map(
                float, np.quantile(error, (0.5, 0.95), method="inverted_cdf")
            )
            figures["kl"] = float(kl_divergence(a, b).mean())
            figures["l1"] = float(np.abs(shares[0] - shares[1]).sum(axis=1).mean())
        return figures, method

    def errors(self, true: IntArray, released: IntArray) -> FloatArray:
        """Hellinger errors of several outputs for each row of true counts."""
        prior = np.array(self.prior)
        each = len(released) // len(true)
        return np.asarray(hellinger(released + prior, np.repeat(true, each, axis=0) + prior))

    def _with_control(
        self, m: Mechanism, number: int, rng: np.random.Generator
    ) -> tuple[float, float] | None:
        """The mean error and its standard error, from outputs whose last step takes long, for few of many.

        Noisy counts cost nothing, decoding them does. So ``plain``, the error without decoding, is computed
        for many, and of these some are decoded, drawn with probabilities p ∝ plain + its mean: the rare
        outputs for which decoding matters most are among them, and the standard error knows of them.
        E[error] = E[b·plain] + E[(error − b·plain)/p]/many.
        """
        true = self.drawn(2000 if self.quick else 10_000)
        if m.n > MAX_SIMULATED_N or not isinstance(m, Lattice):
            return None
        cheap = noisy_counts(m, true, rng)
        plain = self.errors(true, cheap)
        chance = plain + plain.mean() + 1e-12
        chosen = rng.choice(len(true), number, p=chance / chance.sum())
        weight = chance.mean() / chance[chosen]
        error, own = self.errors(true[chosen], m.decoder.decode_many(cheap[chosen])), plain[chosen]
        b = 0.0
        if number >= 32 and (spread := float(np.cov(own, aweights=weight))) > 0:  # fewer do not tell b
            b = min(max(float(np.cov(error, own, aweights=weight)[0, 1]) / spread, 0.0), 1.0)
        rest = weight * (error - b * own)
        expected = float(rest.mean() + b * plain.mean())
        among = max(float((weight * error**2).mean()) - expected**2, 0.0) / len(true)
        return min(max(expected, 0.0), 1.0), math.sqrt(float(rest.var(ddof=1)) / number + among)

    def simulate(self, m: Mechanism, true: IntArray, each: int, rng: np.random.Generator) -> IntArray:
        """``each`` outputs for every row of true counts."""
        if m.n > MAX_SIMULATED_N:
            raise TooLargeError(f"n={m.n}: plans are simulated up to n = 2**53; draw works at any n")
        if isinstance(m, Lattice):
            return m.decoder.decode_many(noisy_counts(m, np.repeat(true, each, axis=0), rng))
        return np.concatenate([m.simulate(x, each, int(rng.integers(2**63))) for x in true.tolist()])


# ---- what a plan knows of each mechanism -----------------------------------------------------------------

_ALWAYS = ("lattice", "lshist", "lsdim", "lszhang", "geometric")
_NEVER = ("ehdl", "mbeta", "gaussian", "optimal", "exponential")
"""Not private; with a delta; shown as the limit; and ``ehd`` again, unless its score is another."""
_EXPONENTIAL = ("ehds", "ehd", "ehdl-calibrated", "mbeta", "ehdl")
_SLOW = 0.25  # seconds per dataset from which a mechanism is left out of the default table
_CALIBRATED_CANDIDATES = 300  # exact calibrations are in the default table up to this size


def mechanism_class(name: str, options: Mapping[str, Any]) -> type[Mechanism]:
    """The class of a mechanism by its name, the optimal one included."""
    from discreet_reproductions.hellinger.optimal import Optimal

    return Optimal if name == Optimal.name else check_options(name, options)


def compared(name: str, n: int, k: int, quick: bool) -> list[dict[str, Any]]:
    """The options with which a plan lists a mechanism unless told otherwise; empty: not at all."""
    if name in _NEVER:
        return []
    few = number_of_compositions(n, k) <= _CALIBRATED_CANDIDATES
    if name in _EXPONENTIAL:
        if quick or seconds_per_dataset(n, k) > _SLOW or (name == "ehdl-calibrated" and not few):
            return []
        return [{}, {"calibration": "exact"}] if name == "ehd" and few else [{}]
    return [{}] if name in _ALWAYS or not quick else []


def seconds_per_dataset(n: int, k: int) -> float:
    """About how long an exponential mechanism takes until it can draw for one dataset."""
    candidates = number_of_compositions(n, k)
    if candidates <= MAX_ENUMERATED:
        return 1e-3 + 4e-8 * candidates
    return 0.04 + 8e-4 * k * k + (0.3 if n > 10**8 else 0.0)


def distribution_size(m: Mechanism) -> int | float:
    """How many terms the exact distribution of one dataset has; infinite where it cannot be listed."""
    if isinstance(m, IndependentNoise):
        return m.number_of_outputs if m.n else math.inf
    if isinstance(m, Lattice):  # classes of noisy counts that are decoded one by one
        if not m.decoder.exhaustive:
            return math.inf
        return m.n + 1 if m.k == 2 else (m.n + 1) ** m.k
    return m.number_of_outputs


def sample_sizes(m: Mechanism, quick: bool) -> tuple[int, int]:
    """The number of datasets that are simulated, and of draws for each, from public parameters."""
    if isinstance(m, Lattice):
        seconds, most = (0.15, 400) if quick else (0.6, 4000)
        number = int(min(max(seconds / decoding_seconds(m), 12), most))
        unit = 1 << (number.bit_length() - 2)  # few different sizes, so that a change of ε rarely changes it
        return number // unit * unit, 1
    if m.name in _EXPONENTIAL:
        return int(min(max((0.15 if quick else 0.8) / seconds_per_dataset(m.n, m.k), 8), 400)), 20
    return (200, 5) if quick else (1000, 10)


def noisy_counts(m: Lattice, true: IntArray, rng: np.random.Generator) -> IntArray:
    """What a lattice mechanism decodes, one for each row of true counts."""
    return np.asarray(np.clip(true + m.simulate_noise(len(true), rng), 0, m.n))


def _weighted_quantiles(
    values: FloatArray, weights: FloatArray, probabilities: Sequence[float]
) -> list[float]:
    """Smallest value v with P(value ≤ v) ≥ p for each p, for values in [0, 1] without sorting them all."""
    bins = np.minimum((values * 4096).astype(np.int64), 4095).ravel()
    values, weights = values.ravel(), weights.ravel()
    mass = np.bincount(bins, weights, minlength=4096)
    cumulative = np.cumsum(mass)
    result = []
    for p in probabilities:
        wanted = (p - 1e-12) * cumulative[-1]
        at = int(np.searchsorted(cumulative, wanted))
        inside = np.flatnonzero(bins == at)
        inside = inside[np.argsort(values[inside], kind="stable")]
        below = cumulative[at] - mass[at] + np.cumsum(weights[inside])
        result.append(float(values[inside[min(int(np.searchsorted(below, wanted)), len(inside) - 1)]]))
    return result


def kl_divergence(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """KL(Dir(a) ‖ Dir(b)) in nats along the last axis, stable for large parameters.

    With g(a, b) = lnΓ(b) − lnΓ(a) − (b − a)ψ(a) it is Σᵢ g(aᵢ, bᵢ) − g(Σa, Σb).
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    return np.asarray(np.maximum(_bregman(a, b).sum(axis=-1) - _bregman(a.sum(axis=-1), b.sum(axis=-1)), 0.0))


def _bregman(a: FloatArray, b: FloatArray) -> FloatArray:
    """lnΓ(b) − lnΓ(a) − (b − a)ψ(a) ≥ 0; for a ≥ 10 the leading terms of Stirling's formula cancelled."""
    from scipy.special import gammaln, psi

    small = a < 10
    t = np.where(small, 10.0, a)
    d = np.where(small, 0.0, b - a)
    y = d / t
    log = np.log1p(y)
    curve = entropy_curve(y)
    u = 1.0 / (t * t)
    slope = -u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u * (1 / 132)))))
    remainder = stirling_remainder(t + d) - stirling_remainder(t) - d * slope
    large = t * curve + 0.5 * (y - log) + remainder
    own = np.where(small, a, 1.0)
    direct = gammaln(np.where(small, b, 1.0)) - gammaln(own) - (np.where(small, b, 1.0) - own) * psi(own)
    return np.asarray(np.where(small, direct, large), dtype=np.float64)
