"""The exponential mechanism draws a candidate posterior; those closer to the true posterior are more likely.

Each mechanism draws the statistic b of a dataset of the same size with P(b|x) ∝ exp(−t(x)·D(x, b)). D is a
score: a distance between posteriors, or a table of numbers. t(x) is the strength, a public number, over a
sensitivity. Candidates are listed if they are few, and otherwise drawn through the separable envelope of the
Hellinger distance. Draws are exact for integer weights within ``log_error`` of the formula; the privacy that
this can cost is subtracted from ε before the strength is set. Proof: ``proofs/exponential.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from discreet._declarations import as_bounds, as_positive
from discreet._numerics.log_gamma import log_gamma_gap
from discreet._numerics.neighbours import (
    MAX_TRIPLES,
    ExponentialDistributions,
    exponential_distributions,
    fits,
    largest_change,
    log_normalisers,
)
from discreet._randomness.entropy import Source
from discreet._randomness.weights import IntegerWeights
from discreet._text import nearest
from discreet._typing import FloatArray, IntArray
from discreet.distributions.base import Distribution
from discreet.distributions.gamma import Gamma
from discreet.distributions.normal import Normal, as_sigma
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms._candidates import (
    SCORES,
    Candidates,
    DirichletCandidates,
    GaussianCandidates,
    PoissonCandidates,
    Totals,
)
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.hellinger._envelope import Envelope, height, needs_narrow_windows
from discreet.mechanisms.hellinger.sensitivity import global_sensitivity, log_w
from discreet.privacy.guarantee import Guarantee

MAX_ENUMERATED = 1_000_000
LARGEST_TABLE = 2_048
"""The most datasets for a score that is kept as a table of all distances."""
LARGEST_CALLABLE = 512
"""The most datasets for a score that is a function: it is called for each pair, and a document contains the
table. Also for the total variation of three or more levels, which needs an integral for each pair."""
MAX_LEVELS = 500
"""The bound on rounding errors (``log_error``) is proved for sums over up to this many levels."""
MAX_RELATIVE_SLACK = 1e-6
_MAX_RATE = 1e7  # a rate beyond which the true posterior is released almost surely: a larger one is no other
ROUNDING_ASSUMPTION = (
    "logarithms and exponentials of this platform are right to 4 units in the last place, the cost of which "
    "is inside epsilon (proofs/envelope.md)"
)

Calibration = Literal["theorem", "exact"]
Score = str | Callable[[tuple[int, ...], tuple[int, ...]], float | Fraction] | Sequence[Sequence[float]]


def log_error(rate: float) -> float:
    """Bound |log weight − exact log weight| by the relative errors of rate, distance and rounding.

    Parameters
    ----------
    rate
        The largest product of the rate t(x) and a distance.

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


@dataclass(frozen=True)
class ScoredMechanism(Mechanism):
    """A mechanism that draws b with P(b|x) ∝ exp(−strength · sharpness(x) · distance(x, b)).

    A subclass has a ``strength``, and a ``sharpness`` or a ``largest_sharpness`` for all counts. The distance
    is the Hellinger distance unless the subclass has another score.
    """

    exchangeable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n > 2**53 or self.k > MAX_LEVELS:
            raise TooLargeError(
                f"n={self.n}, k={self.k}: {self.name} works up to n = 2**53 and {MAX_LEVELS} levels; lattice "
                "has neither limit"
            )

    @property
    @abstractmethod
    def strength(self) -> float:
        """The public factor by which the sharpness is multiplied to give the rate t(x)."""

    def sharpness(self, counts: tuple[int, ...]) -> float:
        """Return one over the sensitivity at these counts.

        Parameters
        ----------
        counts
            The count of each level, or the statistic of the family.

        Returns
        -------
        float
            The sharpness: one over the sensitivity.
        """
        return self.largest_sharpness

    @cached_property
    def largest_sharpness(self) -> float:
        """A bound on the sharpness of every dataset of this size: the smallest count is at most n/k."""
        smallest_mean = (sum(self.prior) + self.n) / self.k
        return 1.0 / math.sqrt(-math.expm1(float(log_w(smallest_mean))))

    @property
    def largest_distance(self) -> float:
        """A bound on the size of every distance."""
        return 1.0

    @cached_property
    def candidates(self) -> Candidates:
        """The posteriors that can be released: those of all datasets of n records."""
        return DirichletCandidates(self.prior, self.n)

    def distances(self, sources: IntArray | None = None) -> FloatArray:
        """Return the distance from every source to every candidate.

        Parameters
        ----------
        sources
            Datasets, one in each row; all of them if None.

        Returns
        -------
        FloatArray
            A row for each source, a column for each candidate.
        """
        return self.candidates.distances("hellinger", sources)

    @property
    def number_of_outputs(self) -> int:
        return self.candidates.size

    @property
    def can_enumerate(self) -> bool:
        """Whether all (dataset, neighbour, outcome) triples can be enumerated."""
        return fits(self.k, self.number_of_outputs)

    def slack_at(self, strength: float) -> float:
        """Bound the privacy loss that rounding can add at a strength.

        Parameters
        ----------
        strength
            The factor by which the sharpness is multiplied to give the rate.

        Returns
        -------
        float
            The bound.
        """
        return 4 * log_error(strength * self.largest_sharpness * self.largest_distance)

    @property
    def slack(self) -> float:
        """A bound on what rounding can add to the privacy loss; it is included in the reported ε."""
        return self.slack_at(self.strength)

    def enumerated_distributions(
        self, sharpness: Callable[[tuple[int, ...]], float]
    ) -> ExponentialDistributions:
        """Return the output distributions of all datasets, for any strength and this sharpness.

        Parameters
        ----------
        sharpness
            A function from counts to 1/sensitivity.

        Returns
        -------
        ExponentialDistributions
            The distributions, and the largest loss between neighbours.
        """
        rates = np.array([sharpness(tuple(row)) for row in self.candidates.rows.tolist()])
        return ExponentialDistributions(self.candidates.pairs, self.distances(), rates)

    def rate(self, counts: tuple[int, ...]) -> float:
        """Return the rate t(x) of a dataset: strength · sharpness.

        Parameters
        ----------
        counts
            The count of each level, or the statistic of the family.

        Returns
        -------
        float
            The rate.
        """
        return self.strength * self.sharpness(counts)

    @property
    def noise_scale(self) -> float:
        nearly_uniform = self.strength * self.largest_sharpness * self.largest_distance < 0.5
        return float(self.n) if nearly_uniform else 0.0

    def _as_counts(self, counts: Iterable[Any]) -> tuple[int, ...]:
        return self.candidates.check(counts)

    @property
    def _is_separable(self) -> bool:
        """Whether the score is the Hellinger distance between Dirichlets, whose gaps are sums over levels."""
        return True

    @property
    def _is_large(self) -> bool:
        return self.number_of_outputs > MAX_ENUMERATED

    def gap(self, counts: tuple[int, ...], i: int, b: FloatArray) -> FloatArray:
        """Return the contribution of one level to −log(1 − H²) between the posteriors of two datasets.

        Parameters
        ----------
        counts
            The counts of the first dataset.
        i
            The level.
        b
            The counts of the level in the second dataset.

        Returns
        -------
        FloatArray
            The contribution, for each entry of ``b``.
        """
        parameter = self.prior[i] + counts[i]
        return log_gamma_gap(parameter, self.prior[i] + b, float(counts[i]) - b)

    def _log_weights(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        rows, rate = self.candidates.rows, self.rate(counts)
        if not self._is_separable:
            return rows, -rate * self.distances(np.array([counts]))[0]
        possible = np.arange(self.n + 1.0)
        gaps = sum(self.gap(counts, i, possible)[column] for i, column in enumerate(rows.T))
        return rows, height(gaps, rate)

    @cached_property
    def narrow(self) -> bool:
        """Whether the envelope needs narrow windows; TooLargeError if some dataset needs too many."""
        least = min(self.largest_sharpness, 1 / global_sensitivity(self.n, self.prior))
        rates = self.strength * least * (1 - 1e-9), self.strength * self.largest_sharpness * (1 + 1e-9)
        nearest = -2 * float(log_w(self.n + max(self.prior)))
        return needs_narrow_windows(self.n, self.k, sum(self.prior), rates, nearest * (1 - 1e-6))

    def envelope(self, counts: tuple[int, ...]) -> Envelope:
        """Return the sampler that does not list candidates.

        Parameters
        ----------
        counts
            The count of each level.

        Returns
        -------
        Envelope
            The sampler for these counts.
        """
        return _envelope(self, counts)

    def check_size(self) -> None:
        """Raise TooLargeError if no draw is possible with these public sizes, whatever the data."""
        if self._is_large and self._is_separable:
            _ = self.narrow
        elif self._is_large:
            raise TooLargeError(
                f"n={self.n}: {self.name} with this score lists all candidates, and there are more than "
                f"{MAX_ENUMERATED:,}. ehds and lattice have no such limit"
            )

    def _output(self, counts: tuple[int, ...], source: Source) -> tuple[int, ...]:
        if self._is_large:
            return self.envelope(counts).draw(source)
        rows, weights = _enumerate(self, counts)
        return tuple(int(x) for x in rows[weights.draw(source)])

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        self._check_outputs(self.number_of_outputs)
        rows, log_weight = self._log_weights(counts)
        return rows, log_weight - log_normalisers(log_weight)

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Return all outputs, and the log-probability of each for every dataset of ``rows``.

        Parameters
        ----------
        rows
            Datasets, one in each row.

        Returns
        -------
        tuple of arrays
            Outputs, and log-probabilities with a row for each dataset.
        """
        if self.n > 5_000:
            return super().log_pmfs(rows)  # the tables are quadratic in n
        rates = np.array([self.rate(tuple(row)) for row in rows.tolist()])
        return self.candidates.rows, exponential_distributions(self.distances(rows), rates)

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        if self._is_large:
            return self.envelope(counts).simulate(size, rng)
        rows, log_weight = self._log_weights(counts)
        cumulative = np.cumsum(np.exp(log_weight - log_weight.max()))
        drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        return np.asarray(rows[drawn])


@lru_cache(maxsize=4)
def _enumerate(mechanism: ScoredMechanism, counts: tuple[int, ...]) -> tuple[IntArray, IntegerWeights]:
    rows, log_weight = mechanism._log_weights(counts)
    return rows, IntegerWeights(log_weight)


@lru_cache(maxsize=2)
def _envelope(mechanism: ScoredMechanism, counts: tuple[int, ...]) -> Envelope:
    def _gap(i: int, b: FloatArray) -> FloatArray:
        return mechanism.gap(counts, i, b)

    down = [float(_gap(i, np.array([c - 1.0]))[0]) if c else math.inf for i, c in enumerate(counts)]
    up = [float(_gap(i, np.array([c + 1.0]))[0]) for i, c in enumerate(counts)]
    nearest = min(d + u for i, d in enumerate(down) for j, u in enumerate(up) if i != j)
    return Envelope(counts, _gap, mechanism.rate(counts), nearest * (1 - 1e-9), mechanism.narrow)


@dataclass(frozen=True)
class Calibrated(ScoredMechanism):
    """A scored mechanism whose strength is set to meet ε, by a theorem or by enumerating all datasets."""

    calibration: Calibration = "theorem"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.calibration not in ("theorem", "exact"):
            raise InvalidInputError("must be 'theorem' or 'exact'", "calibration", self.calibration)

    @property
    def theorem(self) -> float:
        """The strength per unit of ε that a theorem allows: ½ if all datasets have the same sharpness."""
        return 0.5

    @cached_property
    def strength(self) -> float:
        """The strength at which the loss and the rounding slack together stay within ε."""
        if self.calibration == "exact":
            return _calibrated_strength(self)
        slack = self.affordable_slack(float(self.epsilon) * self.theorem)
        return (float(self.epsilon) - slack) * (1 - 2.0**-50) * self.theorem

    def affordable_slack(self, strength: float) -> float:
        """Bound the privacy loss from rounding at a strength; refuse more than a millionth of the budget.

        Parameters
        ----------
        strength
            The factor by which the sharpness is multiplied to give the rate.

        Returns
        -------
        float
            The bound.

        Raises
        ------
        TooLargeError
            If the bound exceeds a millionth of ε.
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


@lru_cache(maxsize=64)
def _calibrated_strength(mechanism: Calibrated) -> float:
    """Return the largest strength whose enumerated loss, rounding included, is verified to be at most ε."""
    if not mechanism.can_enumerate:
        raise TooLargeError(
            f"calibration='exact' enumerates all pairs of datasets; n={mechanism.n}, k={mechanism.k} has too "
            "many (k = 2 works up to n = 5000, k ≥ 3 up to 10⁸ triples); calibration='theorem' has no limit"
        )
    distributions = mechanism.enumerated_distributions(mechanism.sharpness)
    epsilon = float(mechanism.epsilon)
    mechanism.affordable_slack(0.5 * epsilon)

    def _excess(strength: float) -> float:
        """Return the enumerated loss, including rounding, minus ε."""
        return (
            distributions.worst_loss(strength)
            + mechanism.slack_at(strength)
            + 1e-11 * (1 + epsilon)
            - epsilon
        )

    low, high = 0.0, epsilon / 2  # interpolating, for every value costs an enumeration
    while (over := _excess(high)) <= 0:
        low, high = high, 1.5 * high
        if high * mechanism.largest_sharpness * mechanism.largest_distance > _MAX_RATE:
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


@dataclass(frozen=True)
class Exponential(Calibrated):
    """The exponential mechanism with any score, over the posteriors of a conjugate family.

    Parameters
    ----------
    prior
        Parameters of the prior: of a Dirichlet, one for each level; shape and rate of a Gamma
        (``family="poisson"``); mean and standard deviation of a normal (``family="gaussian"``). A ``Gamma``
        or ``Normal`` determines the family.
    n
        Number of records.
    epsilon
        Privacy budget ε.
    calibration
        ``theorem``, or ``exact`` to enumerate all pairs of datasets.
    score
        The distance between the true posterior and a candidate: ``hellinger``, ``kl`` (of the candidate from
        the true one), ``total-variation``, ``l1`` (the number of records that would have to change), or a
        function ``score(statistic, candidate)`` that returns a number, smaller for more likely candidates. A
        function is called once for each pair of statistics, when the mechanism is made; from then on its
        values, rounded to floats, are the score.
    family
        ``dirichlet``, ``poisson`` or ``gaussian``.
    bounds
        The bounds of a record, for ``poisson`` and ``gaussian``.
    steps
        Steps of the grid between the bounds to which records are rounded, for ``gaussian``.
    sigma
        Known standard deviation of a record, for ``gaussian``.

    Raises
    ------
    InvalidInputError
        If the score is unknown, has no closed form, is not finite or does not depend on the data.
    TooLargeError
        If the score needs a table and there are too many datasets.

    Notes
    -----
    P(b|x) ∝ exp(−strength·D(x, b)/Δ), where Δ is the most by which one record changes D. A score other than
    ``hellinger`` and ``l1`` is kept as a table of all distances, and Δ is at least what this table shows, so
    that the guarantee does not rest on how exactly distances are computed.

    Examples
    --------
    >>> m = Exponential(prior=(1, 1), n=4, epsilon=2, score="kl")
    >>> _, log_probability = m.log_pmf((1, 3))
    >>> np.exp(log_probability).round(3).tolist()
    [0.227, 0.257, 0.233, 0.176, 0.107]
    >>> rates = Exponential(prior=Gamma(2, 1), n=3, epsilon=2, score="total-variation", bounds=(0, 4))
    >>> total = rates.statistic([1, 0, 7])
    >>> total, rates.plug_in(total)
    ((5,), Gamma(shape=7.0, rate=4.0))
    """

    name: ClassVar[str] = "exponential"
    exchangeable: ClassVar[bool] = False
    words: ClassVar[str] = (
        "One posterior was drawn at random from all possible ones; those with a better score were more "
        "likely."
    )
    score: Score = "hellinger"
    family: Literal["dirichlet", "poisson", "gaussian"] = "dirichlet"
    bounds: tuple[float, float] | None = None
    steps: int | None = None
    sigma: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if callable(self.score):
            object.__setattr__(self, "score", self._tabulate(self.score))
        elif isinstance(self.score, str):
            if self.score not in SCORES:
                raise InvalidInputError(
                    f"is neither a known score nor a function{nearest(self.score, SCORES)}",
                    "score",
                    self.score,
                )
        else:
            object.__setattr__(self, "score", self._as_table(self.score))
        if self._has_table:
            self._check_table()

    def _check_prior(self) -> None:
        for distribution, family in ((Gamma, "poisson"), (Normal, "gaussian")):
            if isinstance(self.prior, distribution):
                object.__setattr__(self, "family", family)
                object.__setattr__(self, "prior", self.prior.parameters)
        if self.family not in ("dirichlet", "poisson", "gaussian"):
            raise InvalidInputError("must be 'dirichlet', 'poisson' or 'gaussian'", "family", self.family)
        if self.family == "dirichlet":
            self._refuse("bounds", "steps", "sigma")
            super()._check_prior()
            return
        if not isinstance(self.prior, Sequence) or len(self.prior) != 2:
            raise InvalidInputError(f": family={self.family!r} takes two parameters", "prior", self.prior)
        prior = Gamma(*self.prior) if self.family == "poisson" else Normal(*self.prior)
        object.__setattr__(self, "prior", prior.parameters)
        low, high = as_bounds(self.bounds, "bounds")
        if self.family == "poisson":
            self._refuse("steps", "sigma")
            if low != 0 or high != int(high):
                raise InvalidInputError(
                    "must be (0, largest count) for family='poisson'", "bounds", self.bounds
                )
        else:
            object.__setattr__(self, "sigma", as_sigma(self.sigma))
            object.__setattr__(self, "steps", as_positive(10 if self.steps is None else self.steps, "steps"))
        object.__setattr__(self, "bounds", (float(low), float(high)))

    def _refuse(self, *names: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise InvalidInputError(
                    f"is not an option of family={self.family!r}", name, getattr(self, name)
                )

    @cached_property
    def k(self) -> int:
        """The number of released numbers: the levels, or 1 for a total."""
        return len(self.prior) if self.family == "dirichlet" else 1

    @cached_property
    def candidates(self) -> Candidates:
        if self.bounds is None:
            return DirichletCandidates(self.prior, self.n)
        if self.sigma is None:
            return PoissonCandidates(self.prior, self.n, int(self.bounds[1]))
        return GaussianCandidates(self.prior, self.n, self.steps or 1, self.bounds, self.sigma)

    @property
    def can_enumerate(self) -> bool:
        if self.family == "dirichlet":
            return super().can_enumerate
        return 2 * len(self.candidates.pairs) * self.number_of_outputs <= MAX_TRIPLES

    @property
    def _is_separable(self) -> bool:
        return self.score == "hellinger" and self.family == "dirichlet"

    @property
    def _has_table(self) -> bool:
        return self.score not in ("hellinger", "l1")

    def _most_datasets(self, most: int) -> int:
        if (size := self.candidates.size) > most:
            raise TooLargeError(
                f"n={self.n}: this score needs a table of all pairs of datasets: at most {most:,} datasets, "
                f"not {size:,}. Take score='hellinger' or 'l1', or fewer records, levels or steps"
            )
        return size

    def _tabulate(self, score: Callable[..., Any]) -> tuple[tuple[float, ...], ...]:
        self._most_datasets(LARGEST_CALLABLE)
        rows = [tuple(row) for row in self.candidates.rows.tolist()]
        return self._as_table([[score(x, b) for b in rows] for x in rows])

    def _as_table(self, values: Any) -> tuple[tuple[float, ...], ...]:
        size = self._most_datasets(LARGEST_CALLABLE)
        try:
            table = tuple(tuple(float(Fraction(value)) for value in row) for row in values)
        except (TypeError, ValueError, OverflowError):
            raise InvalidInputError("score must return finite numbers: int, Fraction or float") from None
        if {len(row) for row in table} != {size} or len(table) != size:
            raise InvalidInputError(f"score must be a table of {size} rows and columns, one for each dataset")
        return table

    @cached_property
    def table(self) -> FloatArray:
        """The score of every dataset and candidate, where the score is kept as a table."""
        integral = self.score == "total-variation" and self.k > 2
        self._most_datasets(LARGEST_CALLABLE if integral else LARGEST_TABLE)
        table = np.array(self.score) if not isinstance(self.score, str) else self._named_distances()
        table.flags.writeable = False
        return table

    def _named_distances(self) -> FloatArray:
        assert isinstance(self.score, str)
        return self.candidates.distances(self.score)

    def _check_table(self) -> None:
        if not np.isfinite(self.table).all():
            raise InvalidInputError(
                f"score={self.score!r}: a distance between two candidates is too large to be computed"
            )
        if not largest_change(self.candidates.pairs, self.table) > 0:
            raise InvalidInputError("score must depend on the data: this one is the same for all datasets")

    def distances(self, sources: IntArray | None = None) -> FloatArray:
        """Return the distance from every source to every candidate, from the table where there is one.

        Parameters
        ----------
        sources
            Datasets, one in each row; all of them if None.

        Returns
        -------
        FloatArray
            A row for each source, a column for each candidate.
        """
        if not self._has_table:
            assert isinstance(self.score, str)
            return self.candidates.distances(self.score, sources)
        if sources is None:
            return self.table.copy()
        return self.table[[self._row[tuple(row)] for row in sources.tolist()]]

    @cached_property
    def _row(self) -> dict[tuple[int, ...], int]:
        return {tuple(row): i for i, row in enumerate(self.candidates.rows.tolist())}

    @cached_property
    def score_sensitivity(self) -> float:
        """The sensitivity Δ: the most by which one record changes the distance to any candidate."""
        known = self.candidates.sensitivity(self.score) if isinstance(self.score, str) else 0.0
        if not self._has_table:
            return known
        return max(known, largest_change(self.candidates.pairs, self.table)) * (1 + 2.0**-50)

    @cached_property
    def largest_sharpness(self) -> float:
        return 1.0 / self.score_sensitivity

    @cached_property
    def largest_distance(self) -> float:
        if self._has_table:
            return float(np.abs(self.table).max())
        return 1.0 if self.score == "hellinger" else float(self.n)

    def statistic(self, records: Iterable[Any]) -> tuple[int, ...]:
        """Return the statistic of records, for ``draw``: their total in steps, each clipped to the bounds.

        Parameters
        ----------
        records
            The values of n records.

        Returns
        -------
        tuple of int
            The statistic, a tuple of one number.

        Raises
        ------
        InvalidInputError
            If the family is ``dirichlet``, whose statistic is the counts, or there are not n records.

        Examples
        --------
        >>> m = Exponential(prior=Normal(0, 1), n=2, epsilon=1, bounds=(-1, 1), steps=4, sigma=1)
        >>> m.statistic([0.4, -3])
        (3,)
        """
        if not isinstance(self.candidates, PoissonCandidates | GaussianCandidates):
            raise InvalidInputError("family='dirichlet': the statistic is the counts of the levels")
        values = list(records)
        if len(values) != self.n:
            raise InvalidInputError(f"there must be n={self.n} records")
        return self.candidates.statistic(values)

    def plug_in(self, released: tuple[int, ...]) -> Any:
        """Return the posterior that was released, which does not account for the noise.

        Parameters
        ----------
        released
            What ``draw`` returned.

        Returns
        -------
        Beta, Dirichlet, Gamma or Normal
            The posterior.
        """
        return self.candidates.posterior(self._as_counts(released))

    def posterior(self, released: tuple[int, ...]) -> Distribution:
        """Return the posterior of the rate or mean given a released total, which accounts for the noise.

        Parameters
        ----------
        released
            What ``draw`` returned.

        Returns
        -------
        Distribution
            A mixture of the posteriors of all totals, each weighted by its probability given the output.

        Raises
        ------
        InvalidInputError
            If the family is ``dirichlet``; the answer to a question of proportions has a posterior.

        Notes
        -----
        The model assumes that records are Poisson or normal, and that bounds and grid do not change them.

        Examples
        --------
        >>> m = Exponential(prior=Gamma(2, 1), n=20, epsilon=2, score="l1", bounds=(0, 10))
        >>> wide, narrow = m.posterior((60,)), m.plug_in((60,))
        >>> wide.std() > narrow.std()
        True
        """
        candidates = self.candidates
        if not isinstance(candidates, Totals):
            raise InvalidInputError("family='dirichlet': ask for proportions, whose answer has a posterior")
        self._as_counts(released)
        rows = candidates.rows
        log_weight = self.log_pmfs(rows)[1][:, released[0]] + candidates.log_predictive(rows)
        weight = np.exp(log_weight - log_weight.max())
        return candidates.mixture(weight / weight.sum())
