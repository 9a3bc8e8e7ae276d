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
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Literal

import numpy as np

from discreet._declarations import as_epsilon, as_float
from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet._numerics.log_gamma import log_gamma_gap
from discreet._numerics.neighbours import HellingerLaws, exponential_laws, fits, log_normalisers
from discreet._numerics.search import largest_scale
from discreet._randomness.entropy import Source
from discreet._randomness.weights import IntegerWeights
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms._outputs import Output
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.hellinger._envelope import Envelope, height, needs_narrow_windows
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    log_w,
    smooth_sensitivity,
)
from discreet.privacy.guarantee import Guarantee

MAX_ENUMERATED = 1_000_000
MAX_LEVELS = 500
"""The bound on rounding errors (``log_error``) is proved for sums over up to this many levels."""
MAX_RELATIVE_SLACK = 1e-6
ASSUMED = (
    "logarithms and exponentials of this platform are right to 4 units in the last place, the cost of which "
    "is inside epsilon (proofs/envelope.md)"
)

Calibration = Literal["theorem", "exact"]


def log_error(rate: float) -> float:
    """Bound on |log weight − exact log weight|: the relative error of rate and distance, and of rounding."""
    return 2.0**-44 * (rate + 1)


_USELESS = 1e7  # a rate beyond which the true posterior is released almost surely: a larger one is no other


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

    @cached_property
    def largest_sharpness(self) -> float:
        """No dataset of this size has a larger rate (up to the strength): the smallest count is ≤ n/k."""
        smallest_mean = (sum(self.prior) + self.n) / self.k
        return 1.0 / math.sqrt(-math.expm1(float(log_w(smallest_mean))))

    def slack_at(self, strength: float) -> float:
        """What rounding can add to the privacy loss at that strength."""
        return 4 * log_error(strength * self.largest_sharpness)

    @property
    def slack(self) -> float:
        """What rounding can add to the privacy loss; it is inside the reported ε."""
        return self.slack_at(self.strength)

    def enumerated_laws(self, sharpness: Callable[[tuple[int, ...]], float]) -> HellingerLaws:
        """The laws of all datasets, of any strength."""
        rows = _candidates(self.n, self.k)
        return HellingerLaws(self.prior, rows, np.array([sharpness(tuple(row)) for row in rows.tolist()]))

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
        rows, every = _candidates(self.n, self.k), np.arange(self.n + 1.0)
        gaps = sum(self.gap(counts, i, every)[column] for i, column in enumerate(rows.T))
        return rows, height(gaps, self.rate(counts))

    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        if self.number_of_outputs <= MAX_ENUMERATED:
            rows, weights = _enumerate(self, counts)
            return Output(tuple(int(x) for x in rows[weights.draw(source)]))
        return Output(self.envelope(counts).draw(source))

    @cached_property
    def narrow(self) -> bool:
        """Whether the sampler keeps its windows narrow; refuses what is too large for some dataset."""
        least = min(self.largest_sharpness, 1 / global_sensitivity(self.n, self.prior))
        rates = self.strength * least * (1 - 1e-9), self.strength * self.largest_sharpness * (1 + 1e-9)
        nearest = -2 * float(log_w(self.n + max(self.prior)))
        return needs_narrow_windows(self.n, self.k, sum(self.prior), rates, nearest * (1 - 1e-6))

    def check_size(self) -> None:
        if self.number_of_outputs > MAX_ENUMERATED:
            _ = self.narrow

    def envelope(self, counts: tuple[int, ...]) -> Envelope:
        """The sampler that does not enumerate, for any size of the candidate set."""
        return _envelope(self, counts)

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        self._check_outputs(self.number_of_outputs)
        rows, log_weight = self._log_weights(counts)
        return rows, log_weight - log_normalisers(log_weight)

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        if self.n > 5_000:
            return super().log_pmfs(rows)  # the tables are quadratic in n
        outputs = _candidates(self.n, self.k)
        rates = np.array([self.rate(tuple(row)) for row in rows.tolist()])
        return outputs, exponential_laws(candidate_distances(self.prior, outputs, rows), rates)

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        if self.number_of_outputs > MAX_ENUMERATED:
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
def _enumerate(mechanism: _Hellinger, counts: tuple[int, ...]) -> tuple[IntArray, IntegerWeights]:
    rows, log_weight = mechanism._log_weights(counts)
    return rows, IntegerWeights(log_weight)


@lru_cache(maxsize=2)
def _envelope(mechanism: _Hellinger, counts: tuple[int, ...]) -> Envelope:
    def gap(i: int, b: FloatArray) -> FloatArray:
        return mechanism.gap(counts, i, b)

    down = [float(gap(i, np.array([c - 1.0]))[0]) if c else math.inf for i, c in enumerate(counts)]
    up = [float(gap(i, np.array([c + 1.0]))[0]) for i, c in enumerate(counts)]
    nearest = min(d + u for i, d in enumerate(down) for j, u in enumerate(up) if i != j)
    return Envelope(counts, gap, mechanism.rate(counts), nearest * (1 - 1e-9), mechanism.narrow)


@dataclass(frozen=True)
class _Calibrated(_Hellinger):
    """A shape whose strength a theorem gives, or an enumeration of all datasets (calibration="exact")."""

    calibration: Calibration = "theorem"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration not in ("theorem", "exact"):
            raise InvalidInputError(
                "must be 'theorem' or 'exact'", parameter="calibration", value=self.calibration
            )

    @property
    @abstractmethod
    def theorem(self) -> float:
        """The strength per ε that is private."""

    @cached_property
    def strength(self) -> float:
        """By the theorem: reduced such that its loss and the slack stay within ε."""
        if self.calibration == "exact":
            return _calibrated_strength(self)
        slack = self.affordable_slack(float(self.epsilon) * self.theorem)
        return (float(self.epsilon) - slack) * (1 - 2.0**-50) * self.theorem

    def affordable_slack(self, strength: float) -> float:
        """What rounding can cost at that strength; refuses where that is too much."""
        slack = self.slack_at(strength)
        if slack > MAX_RELATIVE_SLACK * self.epsilon:
            raise TooLargeError(
                f"epsilon={self.epsilon}, n={self.n}: rounding would cost {slack:.3g} of the budget, more "
                "than one millionth; use the lattice mechanism, which has no rounding"
            )
        return slack

    @property
    def guarantee(self) -> Guarantee:
        page = f"proofs/{self.name}.md"
        proof = "theorem" if self.calibration == "theorem" else "enumeration of all pairs of datasets"
        basis = f"{proof}: {page}; rounding adds at most {self.slack:.1e}, inside ε"
        return Guarantee(self.epsilon, basis=basis, assumptions=(ASSUMED,))


@dataclass(frozen=True)
class EHD(_Calibrated):
    """Exponential mechanism of the Hellinger distance with its global sensitivity."""

    name: ClassVar[str] = "ehd"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the true "
        "one."
    )
    sensitivity: Literal["tight", "paper"] = "tight"

    def __post_init__(self) -> None:
        super().__post_init__()
        global_sensitivity(self.n, self.prior, self.sensitivity)  # refuses what would not be private

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return self.largest_sharpness

    @cached_property
    def largest_sharpness(self) -> float:
        return 1.0 / global_sensitivity(self.n, self.prior, self.sensitivity)

    @property
    def theorem(self) -> float:
        return 0.5


@dataclass(frozen=True)
class EHDS(_Calibrated):
    """Exponential mechanism of the Hellinger distance with its γ-smooth sensitivity."""

    name: ClassVar[str] = "ehds"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the true "
        "one, and more sharply where one record matters less."
    )
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < (gamma := as_float(self.gamma)) < math.inf:
            raise InvalidInputError(
                "must be positive and finite; 1 is a usual choice", parameter="gamma", value=self.gamma
            )
        object.__setattr__(self, "gamma", gamma)

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / smooth_sensitivity(counts, self.prior, gamma=self.gamma)

    @property
    def theorem(self) -> float:
        return 0.5 / (1 + self.gamma)


@dataclass(frozen=True)
class EHDLCalibrated(_Calibrated):
    """Local-sensitivity shape with a strength found by enumerating all datasets: private, unlike ehdl."""

    name: ClassVar[str] = "ehdl-calibrated"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the true "
        "one; how sharply was set by going through all possible datasets."
    )
    calibration: Calibration = "exact"

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / local_sensitivity(counts, self.prior)

    @property
    def theorem(self) -> float:
        raise InvalidInputError(
            "calibration='theorem': no theorem makes this shape private; it needs 'exact'"
        )


@dataclass(frozen=True)
class EHDL(_Hellinger):
    """The same with the local sensitivity: NOT private, for comparison only."""

    name: ClassVar[str] = "ehdl"
    words: ClassVar[str] = "One posterior was drawn at random in a way that is not private."

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
    """Exponential mechanism with β-smooth sensitivity, calibrated to the (ε, δ) that is asked for.

    With its budget b, P(x'|x) ∝ exp(−b·H/(2·S_β)), β = ln(1 + b / (2 ln(2(n+1)/δ))). Where an audit of all
    datasets or a theorem promises (ε, δ) at b = ε, that is the law; else the largest b at which one does.
    ``calibration="exact"`` takes the largest b of all, above ε too, at which an audit shows (ε, δ): the
    definition leaves about half of ε unused.
    """

    name: ClassVar[str] = "mbeta"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the true "
        "one; how sharply was set such that the guarantee is what was asked for."
    )
    delta: Fraction = Fraction(0)
    calibration: Literal["definition", "exact"] = "definition"

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            delta = as_epsilon(self.delta, "delta")
        except InvalidInputError:
            delta = Fraction(0)
        if not 0 < delta < 1:
            raise InvalidInputError(
                "must be a number between 0 and 1, such as 1e-6", parameter="delta", value=self.delta
            )
        object.__setattr__(self, "delta", delta)
        if self.calibration not in ("definition", "exact"):
            raise InvalidInputError(
                "must be 'definition' or 'exact'", parameter="calibration", value=self.calibration
            )

    @property
    def budget(self) -> float:
        """ε, or the part of it at which the promise holds; with exact calibration the largest such number."""
        return self._calibrate[0]

    @property
    def guarantee(self) -> Guarantee:
        return replace(self._calibrate[1], assumptions=(ASSUMED,))

    @property
    def beta(self) -> float:
        return self._beta(self.budget)

    @property
    def strength(self) -> float:
        return self.budget / 2

    def sharpness(self, counts: tuple[int, ...]) -> float:
        return 1.0 / smooth_sensitivity(counts, self.prior, beta=self.beta)

    def _beta(self, budget: float) -> float:
        """ln(1 − b / (2 ln(δ / (2(n+1)))))."""
        return math.log1p(budget / (2 * (math.log(2 * (self.n + 1)) - _log(self.delta))))

    @cached_property
    def _calibrate(self) -> tuple[float, Guarantee]:
        fitting, whole = fits(self.k, self.number_of_outputs), float(self.epsilon)
        exact = self.calibration == "exact"
        if exact and not fitting:
            raise TooLargeError(
                f"calibration='exact' enumerates all pairs of datasets; n={self.n}, k={self.k} has too many"
            )
        promise = self._by_audit if fitting else self._by_theorem
        most = whole * (64 if exact else 1)
        budget = largest_scale(lambda b: promise(b) is not None, most=most, least=whole * 2.0**-30)
        if not budget or (found := promise(budget)) is None:
            raise TooLargeError(
                f"epsilon={self.epsilon}, delta={float(self.delta):g}, n={self.n}, k={self.k}: mbeta cannot "
                "promise that within its rounding; use the lattice mechanism, which has none"
            )
        return budget, found

    def _by_audit(self, budget: float) -> Guarantee | None:
        """What an enumeration of all pairs of datasets shows, if it is within (ε, δ)."""
        beta, slack = self._beta(budget), self.slack_at(budget / 2)
        laws = self.enumerated_laws(lambda row: 1.0 / smooth_sensitivity(row, self.prior, beta=beta))
        loss = laws.worst_loss(budget / 2) + slack
        if loss <= self.epsilon:
            return Guarantee(
                self.epsilon, basis=f"audit of all pairs of datasets: exact loss {loss:.6g}, δ = 0"
            )
        delta = laws.worst_delta(budget / 2, float(self.epsilon)) + 2 * slack + 1e-12
        if delta > self.delta:
            return None
        at = f"δ({float(self.epsilon):g}) = {delta:.4g}"
        basis = f"audit of all pairs of datasets: {at}, within the asked {float(self.delta):g}"
        return Guarantee(self.epsilon, exact_delta=min(_rounded_up(delta), self.delta), basis=basis)

    def _by_theorem(self, budget: float) -> Guarantee | None:
        """What the two theorems of proofs/mbeta.md promise, pure or with a δ, if it is within (ε, δ)."""
        page = "theorem: proofs/mbeta.md (too large for an audit of all datasets)"
        slack, growth = self.slack_at(budget / 2), math.expm1(self._beta(budget))
        if _rounded_up(budget * (1 + growth * self.largest_sharpness) + slack) <= self.epsilon:
            return Guarantee(self.epsilon, basis=page)
        delta = (self.delta - _rounded_up(2 * slack)) / (1 + Fraction(1, 10**6))
        if delta <= self.delta / 2:  # rounding would take too much of it
            return None
        reach = 2 * growth * (math.log(self.number_of_outputs) - _log(delta)) / budget
        rest = math.log1p(float(delta) * math.exp(-budget * (1 + reach) / 2))
        if _rounded_up(budget * (1 + reach / 2) + rest + slack) > self.epsilon:
            return None
        return Guarantee(self.epsilon, exact_delta=self.delta, basis=page)


def _log(value: Fraction) -> float:
    return math.log(value.numerator) - math.log(value.denominator)


def _rounded_up(value: float) -> Fraction:
    """A short decimal fraction that is not below ``value``."""
    digits = max(0, 5 - math.floor(math.log10(value)))
    return Fraction(math.ceil(Fraction(value) * 10**digits), 10**digits)


@lru_cache(maxsize=64)
def _calibrated_strength(mechanism: _Calibrated) -> float:
    """The largest strength whose enumerated loss, rounding included, is at most ε; checked on that side."""
    if not fits(mechanism.k, mechanism.number_of_outputs):
        raise TooLargeError(
            f"calibration='exact' enumerates all pairs of datasets; n={mechanism.n}, k={mechanism.k} has too "
            "many (k = 2 works up to n = 5000, k ≥ 3 up to 10⁸ triples); calibration='theorem' has no limit"
        )
    laws = mechanism.enumerated_laws(mechanism.sharpness)
    epsilon = float(mechanism.epsilon)
    mechanism.affordable_slack(0.5 * epsilon)

    def excess(strength: float) -> float:
        """Enumerated loss with everything that rounding can add, less ε."""
        return laws.worst_loss(strength) + mechanism.slack_at(strength) + 1e-11 * (1 + epsilon) - epsilon

    low, high = 0.0, epsilon / 2  # interpolating, for every value costs an enumeration
    while (over := excess(high)) <= 0:
        low, high = high, 1.5 * high
        if high * mechanism.largest_sharpness > _USELESS:
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
