"""Exponential mechanisms of the Hellinger distance: EHD, EHDS, M_β, EHDL, and their exact calibrations.

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
ROUNDING_ASSUMPTION = (
    "logarithms and exponentials of this platform are right to 4 units in the last place, the cost of which "
    "is inside epsilon (proofs/envelope.md)"
)

Calibration = Literal["theorem", "exact"]


def log_error(rate: float) -> float:
    """Bound |log weight − exact log weight| by the relative errors of rate, distance and rounding.

    Parameters
    ----------
    rate
        The rate t(x).

    Returns
    -------
    float
        The bound.

    Examples
    --------
    >>> log_error(10.0) < 1e-12
    True
    """
    return 2.0**-44 * (rate + 1)


_MAX_RATE = 1e7  # a rate beyond which the true posterior is released almost surely: a larger one is no other


@dataclass(frozen=True)
class _Hellinger(Mechanism):
    """An exponential mechanism P(b|x) ∝ exp(−strength · sharpness(x) · H)."""

    exchangeable: ClassVar[bool] = True

    @abstractmethod
    def sharpness(self, counts: tuple[int, ...]) -> float:
        """Return 1/sensitivity at these counts.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            The sharpness.
        """

    @property
    @abstractmethod
    def strength(self) -> float:
        """The factor between sharpness and rate; a function of public parameters."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > 2**53 or self.k > MAX_LEVELS:
            raise TooLargeError(
                f"n={self.n}, k={self.k}: {self.name} works up to n = 2**53 and {MAX_LEVELS} levels; lattice "
                "has neither limit"
            )

    @cached_property
    def largest_sharpness(self) -> float:
        """A bound on the sharpness of every dataset of this size: the smallest count is at most n/k."""
        smallest_mean = (sum(self.prior) + self.n) / self.k
        return 1.0 / math.sqrt(-math.expm1(float(log_w(smallest_mean))))

    def slack_at(self, strength: float) -> float:
        """Bound what rounding can add to the privacy loss.

        Parameters
        ----------
        strength
            The strength.

        Returns
        -------
        float
            The bound.
        """
        return 4 * log_error(strength * self.largest_sharpness)

    @property
    def slack(self) -> float:
        """A bound on what rounding can add to the privacy loss; it is included in the reported ε."""
        return self.slack_at(self.strength)

    def enumerated_laws(self, sharpness: Callable[[tuple[int, ...]], float]) -> HellingerLaws:
        """Return the output distributions of all datasets, for any strength.

        Parameters
        ----------
        sharpness
            Function of counts that returns the sharpness.

        Returns
        -------
        HellingerLaws
            The distributions.
        """
        rows = _candidates(self.n, self.k)
        return HellingerLaws(self.prior, rows, np.array([sharpness(tuple(row)) for row in rows.tolist()]))

    def rate(self, counts: tuple[int, ...]) -> float:
        """Return the rate t(x) of a dataset.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            strength · sharpness.
        """
        return self.strength * self.sharpness(counts)

    @property
    def noise_scale(self) -> float:
        nearly_uniform = self.strength * self.largest_sharpness < 0.5
        return float(self.n) if nearly_uniform else 0.0

    def gap(self, counts: tuple[int, ...], i: int, b: FloatArray) -> FloatArray:
        """Return the part of one level in −log(1 − H²) between two posteriors.

        Parameters
        ----------
        counts
            The counts of the first.
        i
            Index of the level.
        b
            Counts of this level in the second.

        Returns
        -------
        FloatArray
            One value for each entry of ``b``.
        """
        parameter = self.prior[i] + counts[i]
        return log_gamma_gap(parameter, self.prior[i] + b, float(counts[i]) - b)

    def _log_weights(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        rows, possible = _candidates(self.n, self.k), np.arange(self.n + 1.0)
        gaps = sum(self.gap(counts, i, possible)[column] for i, column in enumerate(rows.T))
        return rows, height(gaps, self.rate(counts))

    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        if self.number_of_outputs <= MAX_ENUMERATED:
            rows, weights = _enumerate(self, counts)
            return Output(tuple(int(x) for x in rows[weights.draw(source)]))
        return Output(self.envelope(counts).draw(source))

    @cached_property
    def narrow(self) -> bool:
        """Whether the sampler needs narrow windows; raises where it is too large for some dataset."""
        least = min(self.largest_sharpness, 1 / global_sensitivity(self.n, self.prior))
        rates = self.strength * least * (1 - 1e-9), self.strength * self.largest_sharpness * (1 + 1e-9)
        nearest = -2 * float(log_w(self.n + max(self.prior)))
        return needs_narrow_windows(self.n, self.k, sum(self.prior), rates, nearest * (1 - 1e-6))

    def check_size(self) -> None:
        """Raise TooLargeError where no draw is possible at these public sizes, whatever the data."""
        if self.number_of_outputs > MAX_ENUMERATED:
            _ = self.narrow

    def envelope(self, counts: tuple[int, ...]) -> Envelope:
        """Return the sampler that does not enumerate candidates.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        Envelope
            The sampler.
        """
        return _envelope(self, counts)

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        self._check_outputs(self.number_of_outputs)
        rows, log_weight = self._log_weights(counts)
        return rows, log_weight - log_normalisers(log_weight)

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the exact output distributions of many datasets.

        Parameters
        ----------
        rows
            The counts of each dataset, one row each.

        Returns
        -------
        outputs : IntArray
            All possible outputs, shape (R, k).
        log_probability : FloatArray
            A row of log-probabilities for each dataset.
        """
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
    def _gap(i: int, b: FloatArray) -> FloatArray:
        return mechanism.gap(counts, i, b)

    down = [float(_gap(i, np.array([c - 1.0]))[0]) if c else math.inf for i, c in enumerate(counts)]
    up = [float(_gap(i, np.array([c + 1.0]))[0]) for i, c in enumerate(counts)]
    nearest = min(d + u for i, d in enumerate(down) for j, u in enumerate(up) if i != j)
    return Envelope(counts, _gap, mechanism.rate(counts), nearest * (1 - 1e-9), mechanism.narrow)


@dataclass(frozen=True)
class _Calibrated(_Hellinger):
    """A mechanism whose strength comes from a theorem, or from enumerating all datasets."""

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
        """The private strength per unit of ε."""

    @cached_property
    def strength(self) -> float:
        """The strength at which the loss and the rounding slack together stay within ε."""
        if self.calibration == "exact":
            return _calibrated_strength(self)
        slack = self.affordable_slack(float(self.epsilon) * self.theorem)
        return (float(self.epsilon) - slack) * (1 - 2.0**-50) * self.theorem

    def affordable_slack(self, strength: float) -> float:
        """Bound what rounding can cost at a strength.

        Parameters
        ----------
        strength
            The strength.

        Returns
        -------
        float
            The bound.

        Raises
        ------
        TooLargeError
            If it is more than a millionth of the budget.
        """
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
        return Guarantee(self.epsilon, basis=basis, assumptions=(ROUNDING_ASSUMPTION,))


@dataclass(frozen=True)
class EHD(_Calibrated):
    """The exponential mechanism of the Hellinger distance with its global sensitivity.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.
    calibration
        ``theorem``, or ``exact`` to enumerate all pairs of datasets.
    sensitivity
        ``tight``, or ``paper`` for the constant of the papers.

    Examples
    --------
    >>> m = EHD(prior=(1, 1), n=4, epsilon=2)
    >>> outputs, log_probability = m.log_pmf((1, 3))
    >>> np.exp(log_probability).round(3).tolist()
    [0.172, 0.468, 0.203, 0.101, 0.056]
    """

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
        """Return 1/global sensitivity, the same for all counts.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            The sharpness.
        """
        return self.largest_sharpness

    @cached_property
    def largest_sharpness(self) -> float:
        return 1.0 / global_sensitivity(self.n, self.prior, self.sensitivity)

    @property
    def theorem(self) -> float:
        return 0.5


@dataclass(frozen=True)
class EHDS(_Calibrated):
    """The exponential mechanism of the Hellinger distance with its γ-smooth sensitivity.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.
    calibration
        ``theorem``, or ``exact`` to enumerate all pairs of datasets.
    gamma
        Smoothness γ.

    Examples
    --------
    >>> m = EHDS(prior=(1, 1), n=4, epsilon=2)
    >>> m.sharpness((2, 2)) > m.sharpness((0, 4))
    True
    """

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
        """Return 1/γ-smooth sensitivity.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            The sharpness.
        """
        return 1.0 / smooth_sensitivity(counts, self.prior, gamma=self.gamma)

    @property
    def theorem(self) -> float:
        return 0.5 / (1 + self.gamma)


@dataclass(frozen=True)
class EHDLCalibrated(_Calibrated):
    """The local-sensitivity shape with a strength found by enumerating all datasets: private, unlike ehdl.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.
    calibration
        Only ``exact``.

    Examples
    --------
    >>> m = EHDLCalibrated(prior=(1, 1), n=4, epsilon=2)
    >>> m.guarantee.epsilon, m.strength > 0
    (2.0, True)
    """

    name: ClassVar[str] = "ehdl-calibrated"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones, the likelier the nearer it is to the true "
        "one; how sharply was set by going through all possible datasets."
    )
    calibration: Calibration = "exact"

    def sharpness(self, counts: tuple[int, ...]) -> float:
        """Return 1/local sensitivity.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            The sharpness.
        """
        return 1.0 / local_sensitivity(counts, self.prior)

    @property
    def theorem(self) -> float:
        raise InvalidInputError(
            "calibration='theorem': no theorem makes this shape private; it needs 'exact'"
        )


@dataclass(frozen=True)
class EHDL(_Hellinger):
    """The exponential mechanism with the local sensitivity: NOT private, for comparison only.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Nominal ε.

    Examples
    --------
    >>> EHDL(prior=(1, 1), n=4, epsilon=2).guarantee.is_private
    False
    """

    name: ClassVar[str] = "ehdl"
    words: ClassVar[str] = "One posterior was drawn at random in a way that is not private."

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(None, basis="not private: proofs/ehdl.md has a witness")

    def sharpness(self, counts: tuple[int, ...]) -> float:
        """Return 1/local sensitivity.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            The sharpness.
        """
        return 1.0 / local_sensitivity(counts, self.prior)

    @property
    def strength(self) -> float:
        return float(self.epsilon) / 2


@dataclass(frozen=True)
class MBeta(_Hellinger):
    """The exponential mechanism with β-smooth sensitivity, calibrated to the requested (ε, δ).

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.
    delta
        δ.
    calibration
        ``definition`` uses the budget b = ε where an audit of all datasets or a theorem shows (ε, δ), else
        the largest b at which one does. ``exact`` uses the largest b of all, above ε too, at which an audit
        shows (ε, δ): the definition leaves about half of ε unused.

    Notes
    -----
    P(x'|x) ∝ exp(−b·H/(2·S_β)), β = ln(1 + b / (2 ln(2(n+1)/δ))).

    Examples
    --------
    >>> m = MBeta(prior=(1, 1), n=4, epsilon=2, delta="1e-6")
    >>> m.budget, m.guarantee.epsilon
    (2.0, 2.0)
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
        """The budget b: ε, or the largest number at which (ε, δ) holds."""
        return self._calibrate[0]

    @property
    def guarantee(self) -> Guarantee:
        return replace(self._calibrate[1], assumptions=(ROUNDING_ASSUMPTION,))

    @property
    def beta(self) -> float:
        """The smoothness β."""
        return self._beta(self.budget)

    @property
    def strength(self) -> float:
        return self.budget / 2

    def sharpness(self, counts: tuple[int, ...]) -> float:
        """Return 1/β-smooth sensitivity.

        Parameters
        ----------
        counts
            The counts.

        Returns
        -------
        float
            The sharpness.
        """
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
        if not budget or (guarantee := promise(budget)) is None:
            raise TooLargeError(
                f"epsilon={self.epsilon}, delta={float(self.delta):g}, n={self.n}, k={self.k}: mbeta cannot "
                "promise that within its rounding; use the lattice mechanism, which has none"
            )
        return budget, guarantee

    def _by_audit(self, budget: float) -> Guarantee | None:
        """Return the guarantee that an enumeration of all pairs of datasets shows, if within (ε, δ)."""
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
        """Return the guarantee of the two theorems of proofs/mbeta.md, if within (ε, δ)."""
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
    """Return a short decimal fraction that is not below ``value``."""
    digits = max(0, 5 - math.floor(math.log10(value)))
    return Fraction(math.ceil(Fraction(value) * 10**digits), 10**digits)


@lru_cache(maxsize=64)
def _calibrated_strength(mechanism: _Calibrated) -> float:
    """Return the largest strength whose enumerated loss, rounding included, is verified to be at most ε."""
    if not fits(mechanism.k, mechanism.number_of_outputs):
        raise TooLargeError(
            f"calibration='exact' enumerates all pairs of datasets; n={mechanism.n}, k={mechanism.k} has too "
            "many (k = 2 works up to n = 5000, k ≥ 3 up to 10⁸ triples); calibration='theorem' has no limit"
        )
    laws = mechanism.enumerated_laws(mechanism.sharpness)
    epsilon = float(mechanism.epsilon)
    mechanism.affordable_slack(0.5 * epsilon)

    def _excess(strength: float) -> float:
        """Return the enumerated loss with everything that rounding can add, less ε."""
        return laws.worst_loss(strength) + mechanism.slack_at(strength) + 1e-11 * (1 + epsilon) - epsilon

    low, high = 0.0, epsilon / 2  # interpolating, for every value costs an enumeration
    while (over := _excess(high)) <= 0:
        low, high = high, 1.5 * high
        if high * mechanism.largest_sharpness > _MAX_RATE:
            return low
    under = _excess(low) if low else -epsilon
    while high - low > 1e-9 * high and under < -5e-4 * epsilon:
        middle = low - under * (high - low) / (over - under) if over < epsilon else (low + high) / 2
        middle = min(max(middle, low + 0.01 * (high - low)), high - 0.01 * (high - low))
        value = _excess(middle)
        if value <= 0:
            low, under = middle, value
        else:
            high, over = middle, value
    return low
