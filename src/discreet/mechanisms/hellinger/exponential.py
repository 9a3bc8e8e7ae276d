"""Exponential mechanisms of the Hellinger distance: EHD, EHDS, M_β, EHDL, and their exact calibrations.

Each is the exponential mechanism of :mod:`discreet.mechanisms.exponential` with the score H(Dir(α+x),
Dir(α+b)), and has a sensitivity of its own. Proofs: ``proofs/ehd.md``, ``ehds.md``, ``mbeta.md``,
``ehdl.md``, ``ehdl-calibrated.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Literal

from discreet._declarations import as_epsilon, as_float
from discreet._numerics.search import largest_scale
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms.exponential import ROUNDING_ASSUMPTION, Calibrated, Calibration, ScoredMechanism
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    smooth_sensitivity,
)
from discreet.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class EHD(Calibrated):
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
    >>> [round(math.exp(value), 3) for value in log_probability]
    [0.172, 0.468, 0.203, 0.101, 0.056]
    """

    name: ClassVar[str] = "ehd"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones; those closer to the true one were more "
        "likely."
    )
    sensitivity: Literal["tight", "paper"] = "tight"

    def __post_init__(self) -> None:
        super().__post_init__()
        global_sensitivity(self.n, self.prior, self.sensitivity)  # refuses what would not be private

    @cached_property
    def largest_sharpness(self) -> float:
        return 1.0 / global_sensitivity(self.n, self.prior, self.sensitivity)


@dataclass(frozen=True)
class EHDS(Calibrated):
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
        "One posterior was drawn at random from all possible ones; those closer to the true one were more "
        "likely, especially if a single record has little effect."
    )
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < (gamma := as_float(self.gamma)) < math.inf:
            raise InvalidInputError("must be positive and finite; 1 is a usual choice", "gamma", self.gamma)
        object.__setattr__(self, "gamma", gamma)

    def sharpness(self, counts: tuple[int, ...]) -> float:
        """Return one over the γ-smooth sensitivity.

        Parameters
        ----------
        counts
            The count of each level, or the statistic of the family.

        Returns
        -------
        float
            The sharpness: one over the sensitivity.
        """
        return 1.0 / smooth_sensitivity(counts, self.prior, gamma=self.gamma)

    @property
    def theorem(self) -> float:
        return 0.5 / (1 + self.gamma)


@dataclass(frozen=True)
class EHDL(ScoredMechanism):
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
        """Return one over the local sensitivity.

        Parameters
        ----------
        counts
            The count of each level, or the statistic of the family.

        Returns
        -------
        float
            The sharpness: one over the sensitivity.
        """
        return 1.0 / local_sensitivity(counts, self.prior)

    @property
    def strength(self) -> float:
        return float(self.epsilon) / 2


@dataclass(frozen=True)
class EHDLCalibrated(Calibrated, EHDL):
    """The local-sensitivity mechanism, calibrated by enumerating all datasets: private, unlike EHDL.

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
        "One posterior was drawn at random from all possible ones; those closer to the true one were more "
        "likely, to a degree set by enumerating all possible datasets."
    )
    calibration: Calibration = "exact"

    @property
    def theorem(self) -> float:
        raise InvalidInputError(
            "calibration='theorem': no theorem proves this mechanism private; use 'exact'"
        )


@dataclass(frozen=True)
class MBeta(ScoredMechanism):
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
        ``definition`` uses the budget b = ε where an audit of all datasets or a theorem shows (ε, δ),
        otherwise the largest b at which one does. ``exact`` uses the largest b, which may exceed ε, at which
        an audit shows (ε, δ): the definition leaves about half of ε unused.

    Notes
    -----
    The mechanism draws x' with P(x'|x) ∝ exp(−b·H/(2·S_β)), where H is the Hellinger distance,
    S_β is the β-smooth sensitivity at x, and β = ln(1 + b / (2 ln(2(n+1)/δ))).

    Examples
    --------
    >>> m = MBeta(prior=(1, 1), n=4, epsilon=2, delta="1e-6")
    >>> m.budget, m.guarantee.epsilon
    (2.0, 2.0)
    """

    name: ClassVar[str] = "mbeta"
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones; those closer to the true one were more "
        "likely, to a degree that gives the requested guarantee."
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
            raise InvalidInputError("must be a number between 0 and 1, such as 1e-6", "delta", self.delta)
        object.__setattr__(self, "delta", delta)
        if self.calibration not in ("definition", "exact"):
            raise InvalidInputError("must be 'definition' or 'exact'", "calibration", self.calibration)

    @property
    def budget(self) -> float:
        """The budget b: ε, or the largest number at which the mechanism is (ε, δ)-private."""
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
        """Return one over the β-smooth sensitivity.

        Parameters
        ----------
        counts
            The count of each level, or the statistic of the family.

        Returns
        -------
        float
            The sharpness: one over the sensitivity.
        """
        return 1.0 / smooth_sensitivity(counts, self.prior, beta=self.beta)

    def _beta(self, budget: float) -> float:
        """Return β for a budget b: ln(1 − b / (2 ln(δ / (2(n+1)))))."""
        return math.log1p(budget / (2 * (math.log(2 * (self.n + 1)) - _log(self.delta))))

    @cached_property
    def _calibrate(self) -> tuple[float, Guarantee]:
        fitting, whole = self.can_enumerate, float(self.epsilon)
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
                "guarantee this within its rounding error; use the lattice mechanism, which has none"
            )
        return budget, guarantee

    def _by_audit(self, budget: float) -> Guarantee | None:
        """Return the guarantee proved by enumerating all pairs of datasets; None if it exceeds (ε, δ)."""
        beta, slack = self._beta(budget), self.slack_at(budget / 2)
        distributions = self.enumerated_distributions(
            lambda row: 1.0 / smooth_sensitivity(row, self.prior, beta=beta)
        )
        loss = distributions.worst_loss(budget / 2) + slack
        if loss <= self.epsilon:
            return Guarantee(
                self.epsilon, basis=f"audit of all pairs of datasets: exact loss {loss:.6g}, δ = 0"
            )
        delta = distributions.worst_delta(budget / 2, float(self.epsilon)) + 2 * slack + 1e-12
        if delta > self.delta:
            return None
        at = f"δ({float(self.epsilon):g}) = {delta:.4g}"
        basis = f"audit of all pairs of datasets: {at}, within the asked {float(self.delta):g}"
        return Guarantee(self.epsilon, exact_delta=min(_rounded_up(delta), self.delta), basis=basis)

    def _by_theorem(self, budget: float) -> Guarantee | None:
        """Return the guarantee by the two theorems of proofs/mbeta.md; None if it is not within (ε, δ)."""
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
