"""The exponential mechanisms of the Hellinger distance: EHD, EHDS, M_β, EHDL, and their exact calibrations.

Each draws the counts b of a dataset of the same size with P(b|x) ∝ exp(−t(x)·H(Dir(α+x), Dir(α+b))). They
differ in the rate t(x). Small candidate sets are enumerated and drawn by integer weights, large ones through
the separable envelope; both draw exactly from weights within ``log_error`` of the formula, and what that can
cost is taken off ε before the rate is set. Proofs: ``proofs/ehd.md``, ``ehds.md``, ``mbeta.md``, ``ehdl.md``,
``ehdl-calibrated.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Literal

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.declarations import as_epsilon
from discreet.errors import InvalidInput, TooLargeError
from discreet.mechanisms.base import Mechanism, Output
from discreet.mechanisms.hellinger.envelope import Envelope, height
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    log_w,
    smooth_sensitivity,
)
from discreet.numerics.count_vectors import compositions, number_of_compositions
from discreet.numerics.log_gamma import log_gamma_gap
from discreet.numerics.neighbours import HellingerLaws, candidate_distances, fits
from discreet.privacy.guarantee import Guarantee
from discreet.randomness.entropy import Source
from discreet.randomness.weights import IntegerWeights

MAX_ENUMERATED = 1_000_000
MAX_LEVELS = 500
"""The bound on rounding errors (``log_error``) is proved for sums over up to this many levels."""
MAX_RELATIVE_SLACK = 1e-6

Calibration = Literal["theorem", "exact"]


def log_error(rate: float) -> float:
    """Bound on |log weight − exact log weight|: the relative error of rate and distance, and of rounding."""
    return 2.0**-44 * (rate + 1)


@dataclass(frozen=True)
class _Hellinger(Mechanism):
    """P(b|x) ∝ exp(−strength · sharpness(x) · H)."""

    exchangeable: ClassVar[bool] = True

    @abstractmethod
    def sharpness(self, counts: tuple[int, ...]) -> float:
        """1/sensitivity at these counts."""

    @property
    @abstractmethod
    def strength(self) -> float:
        """What the sharpness is multiplied by to give the rate; a function of public parameters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > 2**53 or self.k > MAX_LEVELS:
            raise TooLargeError(
                f"n={self.n}, k={self.k}: {self.name} works up to n = 2**53 and {MAX_LEVELS} levels; lattice "
                "has neither limit"
            )

    @property
    def candidates(self) -> int:
        """How many posteriors can be released."""
        return number_of_compositions(self.n, self.k)

    @cached_property
    def largest_sharpness(self) -> float:
        """No dataset of this size has a larger rate (up to the strength): the smallest count is ≤ n/k."""
        smallest_mean = (sum(self.prior) + self.n) / self.k
        return 1.0 / math.sqrt(-math.expm1(float(log_w(smallest_mean))))

    @property
    def slack(self) -> float:
        """What rounding can add to the privacy loss; it is inside the reported ε."""
        return 4 * log_error(self.strength * self.largest_sharpness)

    def _less_slack(self, strength_per_epsilon: float) -> float:
        """The strength for ε, reduced such that theorem plus slack stay within ε."""
        epsilon = float(self.epsilon)
        slack = 4 * log_error(epsilon * strength_per_epsilon * self.largest_sharpness)
        self._check_slack(slack)
        return (epsilon - slack) * (1 - 2.0**-50) * strength_per_epsilon

    def _check_slack(self, slack: float) -> None:
        if slack > MAX_RELATIVE_SLACK * self.epsilon:
            raise TooLargeError(
                f"epsilon={self.epsilon}, n={self.n}: rounding would cost {slack:.3g} of the budget, more "
                "than one millionth; use the lattice mechanism, which has no rounding"
            )

    def rate(self, counts: tuple[int, ...]) -> float:
        return self.strength * self.sharpness(counts)

    @property
    def noise_scale(self) -> float:
        nearly_uniform = self.strength * self.largest_sharpness < 0.5
        return float(self.n) if nearly_uniform else 0.0

    def gap(self, counts: tuple[int, ...], i: int, b: FloatArray) -> FloatArray:
        """The share of category i in −log(1 − H²) between the posteriors of counts and b."""
        own = self.prior[i] + counts[i]
        return log_gamma_gap(own, self.prior[i] + b, float(counts[i]) - b)

    def _log_weights(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        rows = _candidates(self.n, self.k)
        total = np.zeros(len(rows))
        for i, column in enumerate(rows.T):
            total += self.gap(counts, i, np.arange(self.n + 1, dtype=np.float64))[column]
        return rows, height(total, self.rate(counts))

    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        if self.candidates <= MAX_ENUMERATED:
            rows, weights = _enumerated(self, counts)
            return Output(tuple(int(x) for x in rows[weights.draw(source)]))
        return Output(self.envelope(counts).draw(source))

    def envelope(self, counts: tuple[int, ...]) -> Envelope:
        """The sampler that does not enumerate, for any size of the candidate set."""
        return _envelope(self, counts)

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        self._check_outputs(self.candidates)
        rows, log_weight = self._log_weights(counts)
        peak = log_weight.max()
        return rows, log_weight - peak - math.log(np.exp(log_weight - peak).sum())

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray] | None:
        outputs = _candidates(self.n, self.k)
        if self.n > 5_000 or len(rows) * len(outputs) < 20_000:
            return None  # the tables are quadratic in n
        law = candidate_distances(self.prior, outputs, rows)
        law *= -np.array([self.rate(tuple(row)) for row in rows.tolist()])[:, None]
        for part in np.array_split(law, max(1, law.size >> 19)):
            peak = part.max(axis=1, keepdims=True)
            part -= peak + np.log(np.exp(part - peak).sum(axis=1, keepdims=True))
        return outputs, law

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        if self.candidates > MAX_ENUMERATED:
            return self.envelope(counts).simulate(size, rng)
        rows, log_weight = self._log_weights(counts)
        cumulative = np.cumsum(np.exp(log_weight - log_weight.max()))
        drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        return np.asarray(rows[drawn])


@lru_cache(maxsize=4)
def _candidates(n: int, k: int) -> IntArray:
    rows = compositions(n, k)
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=4)
def _enumerated(mechanism: _Hellinger, counts: tuple[int, ...]) -> tuple[IntArray, IntegerWeights]:
    rows, log_weight = mechanism._log_weights(counts)
    return rows, IntegerWeights(log_weight)


@lru_cache(maxsize=2)
def _envelope(mechanism: _Hellinger, counts: tuple[int, ...]) -> Envelope:
    def gap(i: int, b: FloatArray) -> FloatArray:
        return mechanism.gap(counts, i, b)

    down = [float(gap(i, np.array([c - 1.0]))[0]) if c else math.inf for i, c in enumerate(counts)]
    up = [float(gap(i, np.array([c + 1.0]))[0]) for i, c in enumerate(counts)]
    nearest = min(d + u for i, d in enumerate(down) for j, u in enumerate(up) if i != j)
    return Envelope(counts, gap, mechanism.rate(counts), nearest * (1 - 1e-9))


@dataclass(frozen=True)
class _Calibrated(_Hellinger):
    """A shape whose strength a theorem gives, or an enumeration of all datasets (calibration="exact")."""

    calibration: Calibration = "theorem"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration not in ("theorem", "exact"):
            raise InvalidInput(f"calibration={self.calibration!r} must be 'theorem' or 'exact'")

    @abstractmethod
    def _strength_by_theorem(self) -> float: ...

    @cached_property
    def strength(self) -> float:
        if self.calibration == "theorem":
            return self._strength_by_theorem()
        return _calibrated_strength(self)

    @property
    def guarantee(self) -> Guarantee:
        page = f"proofs/{self.name}.md"
        proof = "theorem" if self.calibration == "theorem" else "enumeration of all pairs of datasets"
        return Guarantee(
            self.epsilon, basis=f"{proof}: {page}; rounding adds at most {self.slack:.1e}, inside ε"
        )


@dataclass(frozen=True)
class EHD(_Calibrated):
    """Exponential mechanism of the Hellinger distance with its global sensitivity."""

    name: ClassVar[str] = "ehd"
    sensitivity: Literal["tight", "paper"] = "tight"

    def __post_init__(self) -> None:
        super().__post_init__()
        global_sensitivity(self.n, self.prior, self.sensitivity)  # refuses what would not be private

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return self.largest_sharpness

    @cached_property
    def largest_sharpness(self) -> float:
        return 1.0 / global_sensitivity(self.n, self.prior, self.sensitivity)

    def _strength_by_theorem(self) -> float:
        return self._less_slack(0.5)


@dataclass(frozen=True)
class EHDS(_Calibrated):
    """Exponential mechanism of the Hellinger distance with its γ-smooth sensitivity."""

    name: ClassVar[str] = "ehds"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            gamma = float(self.gamma)
        except (TypeError, ValueError):
            gamma = math.nan
        if isinstance(self.gamma, bool) or not (math.isfinite(gamma) and gamma > 0):
            raise InvalidInput(f"gamma={self.gamma!r} must be positive and finite; 1 is a usual choice")
        object.__setattr__(self, "gamma", gamma)

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / smooth_sensitivity(counts, self.prior, gamma=self.gamma)

    def _strength_by_theorem(self) -> float:
        return self._less_slack(0.5 / (1 + self.gamma))


@dataclass(frozen=True)
class EHDLCalibrated(_Calibrated):
    """Local-sensitivity shape with a strength found by enumerating all datasets: private, unlike ehdl."""

    name: ClassVar[str] = "ehdl-calibrated"
    calibration: Calibration = "exact"

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / local_sensitivity(counts, self.prior)

    def _strength_by_theorem(self) -> float:
        raise InvalidInput("calibration='theorem': no theorem makes this shape private; it needs 'exact'")


@dataclass(frozen=True)
class EHDL(_Hellinger):
    """The same with the local sensitivity: NOT private, for comparison only."""

    name: ClassVar[str] = "ehdl"

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(None, basis="not private: proofs/ehdl.md has a witness")

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / local_sensitivity(counts, self.prior)

    @property
    def strength(self) -> float:
        return float(self.epsilon) / 2


@dataclass(frozen=True)
class MBeta(_Hellinger):
    """Exponential mechanism with β-smooth sensitivity; an audit of all datasets certifies its (ε, δ)."""

    name: ClassVar[str] = "mbeta"
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            delta = as_epsilon(self.delta, "delta")
        except InvalidInput:
            delta = Fraction(0)
        if not 0 < delta < 1:
            raise InvalidInput(f"delta={self.delta!r} must be a number between 0 and 1, such as 1e-6")
        object.__setattr__(self, "delta", delta)

    @property
    def beta(self) -> float:
        """ln(1 − ε / (2 ln(δ / (2(n+1)))))."""
        return math.log1p(float(self.epsilon) / (2 * (math.log(2 * (self.n + 1)) - _log(self.delta))))

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / smooth_sensitivity(counts, self.prior, beta=self.beta)

    @property
    def strength(self) -> float:
        return float(self.epsilon) / 2

    @cached_property
    def guarantee(self) -> Guarantee:
        if fits(self.k, self.candidates):
            laws = _laws(self)
            loss = laws.worst_loss(self.strength) + self.slack
            if loss <= self.epsilon:
                return Guarantee(
                    self.epsilon, basis=f"audit of all pairs of datasets: exact loss {loss:.6g}, δ = 0"
                )
            delta = laws.worst_delta(self.strength, float(self.epsilon)) + 2 * self.slack + 1e-12
            verdict = "within" if delta <= self.delta else "above"
            return Guarantee(
                self.epsilon,
                exact_delta=_rounded_up(delta),
                basis=f"audit of all pairs of datasets: δ({float(self.epsilon):g}) = {delta:.4g}, "
                f"{verdict} the asked {float(self.delta):g}",
            )
        return min(self._guarantees_by_theorem(), key=lambda guarantee: guarantee.epsilon)

    def _guarantees_by_theorem(self) -> tuple[Guarantee, Guarantee]:
        """The two theorems of proofs/mbeta.md: pure, and with the δ that was asked for."""
        epsilon, page = (
            float(self.epsilon),
            "theorem: proofs/mbeta.md (too large for an audit of all datasets)",
        )
        pure = epsilon * (1 + math.expm1(self.beta) * self.largest_sharpness) + self.slack
        reach = 2 * math.expm1(self.beta) * (math.log(self.candidates) - _log(self.delta)) / epsilon
        rest = math.log1p(float(self.delta) * math.exp(-epsilon * (1 + reach) / 2))
        approximate = epsilon * (1 + reach / 2) + rest + self.slack
        delta = self.delta * (1 + Fraction(1, 10**6)) + _rounded_up(2 * self.slack)
        return (
            Guarantee(_rounded_up(pure), basis=page),
            Guarantee(_rounded_up(approximate), exact_delta=delta, basis=page),
        )


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _rounded_up(value: float) -> Fraction:
    """A short decimal fraction that is not below ``value``."""
    digits = max(0, 5 - math.floor(math.log10(value)))
    return Fraction(math.ceil(Fraction(value) * 10**digits), 10**digits)


@lru_cache(maxsize=2)
def _laws(mechanism: _Hellinger) -> HellingerLaws:
    rows = _candidates(mechanism.n, mechanism.k)
    sharpness = np.array([mechanism.sharpness(tuple(row)) for row in rows.tolist()])
    return HellingerLaws(mechanism.prior, rows, sharpness)


@lru_cache(maxsize=64)
def _calibrated_strength(mechanism: _Calibrated) -> float:
    """The largest strength whose enumerated loss, rounding included, is at most ε; checked on that side."""
    if not fits(mechanism.k, mechanism.candidates):
        raise TooLargeError(
            f"calibration='exact' enumerates all pairs of datasets; n={mechanism.n}, k={mechanism.k} has too "
            "many (k = 2 works up to n = 5000, k ≥ 3 up to 10⁸ triples); calibration='theorem' has no limit"
        )
    laws = _laws(mechanism)
    epsilon = float(mechanism.epsilon)
    mechanism._check_slack(4 * log_error(0.5 * epsilon * mechanism.largest_sharpness))

    def excess(strength: float) -> float:
        """Enumerated loss with everything that rounding can add, less ε."""
        slack = 4 * log_error(strength * mechanism.largest_sharpness) + 1e-11 * (1 + epsilon)
        return laws.worst_loss(strength) + slack - epsilon

    low, high = 0.0, epsilon / 2
    while (over := excess(high)) <= 0:
        low, high = high, 1.5 * high
        if strength_is_useless(high * mechanism.largest_sharpness):
            return low
    under = excess(low) if low else -epsilon
    while high - low > 1e-9 * high and under < -5e-4 * epsilon:
        middle = low - under * (high - low) / (over - under) if over < epsilon else (low + high) / 2
        middle = min(max(middle, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        value = excess(middle)
        if value <= 0:
            low, under = middle, value
        else:
            high, over = middle, value
    return low


def strength_is_useless(rate: float) -> bool:
    """Beyond this rate the true posterior is released almost surely, and a larger rate changes nothing."""
    return rate > 1e7
