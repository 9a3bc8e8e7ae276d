"""Conjugate families: what one record adds to a posterior, and how far apart two posteriors can be.

A family has coordinates η in which a record x adds its statistic S(x) to the prior's η₀; the density of the
posterior is exp(η·T(θ) − C(η)) with the log-partition C. Posterior sampling with scalings r, m ∈ (0, 1] draws
θ from η₀/m + r ΣS(x). Its privacy loss follows from C alone (Geumlek, Song and Chaudhuri 2017):

    D_λ(P‖Q) = [C(λη_P + (1−λ)η_Q) − λ C(η_P)] / (λ−1) + C(η_Q),

which is infinite where λη_P + (1−λ)η_Q is not normalisable. Which neighbouring pairs are worst is a theorem
of each family, stated in ``proofs/posterior-sampling.md`` and checked by enumeration.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar, cast

import numpy as np

from discreet._data import ClippedSum, clipped_sum, read_rows
from discreet._data.rows import as_number
from discreet._declarations import MOST_STEPS, Relation, as_bounds, as_exact, as_rational, as_size, as_total
from discreet._json import fields_as_json
from discreet._numerics.enclosures import Ball, above, ball, enclose
from discreet._numerics.search import boundary
from discreet._randomness.entropy import Source
from discreet._registry import FAMILIES
from discreet._typing import FloatArray
from discreet.distributions.base import Distribution
from discreet.errors import DataError, InvalidInputError, TooLargeError
from discreet.privacy.curves import Curve

Natural: TypeAlias = tuple[Fraction, ...]
Pair: TypeAlias = tuple[Natural, Natural]
Given: TypeAlias = Mapping[str, Any]
Kind = TypeVar("Kind")
RecordKind = Literal["numbers", "counts", "levels", "vectors"]

MARGIN = 1e-6
"""Relative margin on profiles computed in floats; measured errors are below a tenth of it, see the tests."""
LARGEST_PARAMETER = 1e12
ENCLOSED = (1e-2, 1e7)
"""The parameters between which enclosures take milliseconds; outside, floats with a margin are used."""
_LARGEST_ORDER, _NUMBER_OF_ORDERS = 1e6, 128


@dataclass(frozen=True)
class Family(ABC):
    """A likelihood with its conjugate prior; all of it is public, and bounds are declared by the user.

    Examples
    --------
    >>> from discreet.posterior_sampling.families.rates import Poisson
    >>> family = Poisson(bounds=(0, 20))
    >>> prior = family.prior((2, 1))
    >>> family.natural(prior)
    (Fraction(2, 1), Fraction(1, 1))
    >>> family.read([3, 4, 25], None, {})
    (Fraction(27, 1), 3)
    >>> family.contribution(27, 3)
    (Fraction(27, 1), Fraction(3, 1))
    """

    name: ClassVar[str]
    parameter: ClassVar[str] = "value"
    """The name of one number of θ."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """The names of the numbers of θ, where they differ."""
    is_share: ClassVar[bool] = False
    """Whether θ lies between 0 and 1, and is shown in percent."""
    records: ClassVar[RecordKind] = "numbers"
    reads: ClassVar[tuple[str, ...]] = ("missing",)
    """Options that say how records are read."""
    assumed: ClassVar[tuple[str, ...]] = ()
    """The assumptions of its guarantees."""
    work: ClassVar[float] = 0.1
    """The approximate time to compute a curve, in seconds."""
    words: ClassVar[str] = ""
    """A description of θ for a report, with names of fields in braces."""

    def __post_init__(self) -> None:  # noqa: B027
        """Check the declared options."""

    @abstractmethod
    def prior(self, parameters: Any) -> Any:
        """Return the prior, after checking its parameters.

        Parameters
        ----------
        parameters : object
            The parameters of the prior, or the prior itself.

        Returns
        -------
        object

        Raises
        ------
        InvalidInputError
            If they are not the parameters of such a prior.

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import BetaFamily
        >>> BetaFamily().prior((1, 2)).mean()
        0.3333333333333333
        """

    def describe_prior(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        """Return the model and its prior in words, for a report.

        Parameters
        ----------
        prior : list
            The parameters of the prior, as in a document.
        bounds : sequence of float, optional
            The bounds of a mean, as in a document.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> from discreet.posterior_sampling.families.rates import Poisson
        >>> Poisson(bounds=(0, 20)).describe_prior([2, 1], None)
        ('the mean number of events per record, clipped to 0 – 20', 'Gamma(2, 1): mean 2')
        """
        if not self.words:
            return f"the family {self.name}{clipped_words(bounds)}", self._prior_in_words(prior)
        model = self.words.format(**vars(self))
        return model + clipped_words(getattr(self, "bounds", None)), self._prior_in_words(prior)

    def _prior_in_words(self, prior: list[Any]) -> str:
        """Return a prior in words, for a report."""
        return ", ".join(map(str, prior))

    @abstractmethod
    def natural(self, distribution: Any) -> Natural:
        """Return the natural parameters η of a prior or posterior, exactly.

        Parameters
        ----------
        distribution : object
            A prior or posterior of this family.

        Returns
        -------
        tuple of Fraction

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import DirichletFamily
        >>> family = DirichletFamily()
        >>> family.natural(family.prior((1, 2, 3)))
        (Fraction(1, 1), Fraction(2, 1), Fraction(3, 1))
        """

    @abstractmethod
    def from_natural(self, eta: Natural) -> Any:
        """Return the prior or posterior with natural parameters η.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        object

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import BetaFamily
        >>> BetaFamily().from_natural((Fraction(3), Fraction(5))).parameters
        (3.0, 5.0)
        """

    def with_public_records(self, prior: Any, public: Any, column: str | None = None, **options: Any) -> Any:
        """Return the prior after public records, which are read and clipped as private ones are.

        Public records cost no privacy, and with such a prior a private record changes the posterior less.
        Never pass private records.

        Parameters
        ----------
        prior : object
            The prior without them, or its parameters.
        public : list, array, table or path
            The public records.
        column : str, optional
            The column that holds the records; None if the data are a single column.
        **options
            How the records are read, such as ``missing=0``.

        Returns
        -------
        object
            The prior, of the same kind.

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import BetaFamily
        >>> BetaFamily().with_public_records((1, 1), [0, 1, 1, 1]).parameters
        (4.0, 2.0)
        """
        statistic, number = self.read(public, column, options)
        prior_eta = self.natural(self.prior(prior))
        return self.from_natural(add_scaled(prior_eta, self.contribution(statistic, number)))

    def read(self, data: Any, column: str | None, options: Given, **people: Any) -> tuple[Any, int]:
        """Return the exact sufficient statistic of records, and the number of records.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.
        column : str, optional
            The column that holds the records; None if the data are a single column.
        options : mapping
            How the records are read; :attr:`reads` names what is allowed.
        **people
            ``person``, ``per_person`` and ``n``: how the records of one person are bounded.

        Returns
        -------
        tuple of (object, int)

        Raises
        ------
        InvalidInputError
            If an option is not one of :attr:`reads`.

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import DirichletFamily
        >>> DirichletFamily().read(["a", "b", "a"], None, {"levels": ("a", "b", "c")})
        ((2, 1, 0), 3)
        """
        for option in options:
            if option not in self.reads:
                takes = ", ".join(self.reads) or "none"
                raise InvalidInputError(
                    f"{option!r} is not an option for the records of {self.name!r}; it takes: {takes}"
                )
        return self._sufficient_statistic(data, column, options, people)

    @abstractmethod
    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Any, int]:
        """Return the sufficient statistic of the records, and how many there are."""

    @property
    def protects(self) -> tuple[Relation, str | None, tuple[str, ...]]:
        """The relation, the unit and the assumptions of its guarantees for one record."""
        nearby = getattr(self, "nearby", None)
        if nearby is None:
            return Relation.REPLACE_ONE, None, self.assumed
        far = f"{nearby:g}" if float(f"{nearby:g}") == nearby else repr(nearby)  # never rounded down
        told_apart = f"records that are more than {far} apart may be told apart"
        return Relation.REPLACE_NEARBY, f"within {far}", (*self.assumed, told_apart)

    @abstractmethod
    def contribution(self, statistic: Any, n: int) -> Natural:
        """Return ΣS(x) of n records from their sufficient statistic.

        Parameters
        ----------
        statistic : object
            The sufficient statistic of the records.
        n : int
            The number of records.

        Returns
        -------
        tuple of Fraction

        Raises
        ------
        InvalidInputError
            If the statistic is not in its range.
        """

    @abstractmethod
    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        """Return the log-partition C(η), up to a constant.

        Parameters
        ----------
        eta : sequence of Ball
            The natural parameters, as enclosures.

        Returns
        -------
        Ball
        """

    @abstractmethod
    def normalisable(self, eta: Natural) -> bool:
        """Return whether exp(η·T(θ)) has a finite integral.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        bool

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import BetaFamily
        >>> BetaFamily().normalisable((Fraction(1), Fraction(0)))
        False
        """

    @abstractmethod
    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """Draw exactly from the posterior, rounded to the middle of a cell of the grid.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        grid : Fraction
            The width of a cell.
        source : Source
            The source of random bits.

        Returns
        -------
        tuple of Fraction
        """

    @abstractmethod
    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        """Return the width of the cells that draws are rounded to, from public parameters.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        Fraction
            Far below the standard deviation of the posterior.
        """

    def value(self, draws: FloatArray) -> FloatArray:
        """Return draws as shown to users: a plain number for each draw where θ is one number.

        Parameters
        ----------
        draws : ndarray
            The published draws, one row each.

        Returns
        -------
        ndarray
        """
        return draws[:, 0] if draws.shape[1] == 1 else draws

    @abstractmethod
    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        """Draw from the posterior in floating point; these draws are not private.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        size : int
            The number of draws.
        rng : numpy.random.Generator
            The source of pseudo-random numbers.

        Returns
        -------
        ndarray of shape (size, dimension)

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import DirichletFamily
        >>> eta = (Fraction(2), Fraction(3), Fraction(5))
        >>> DirichletFamily().simulate(eta, 4, np.random.default_rng(0)).shape
        (4, 3)
        """

    def given_draws(self, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> Any:
        """Return the distribution of θ given draws from η₀/m + r ΣS(x).

        Parameters
        ----------
        prior : object
            The prior, as :meth:`prior` returns it.
        n : int
            The number of records.
        r : float
            The weight of a record, in (0, 1].
        m : float
            The divisor of the prior, in (0, 1].
        draws : ndarray
            The published draws, one row each.

        Returns
        -------
        object
            A distribution, or an object from which :meth:`marginals` makes distributions.
        """
        raise InvalidInputError(f"the posterior given draws cannot be computed for the family {self.name!r}")

    def slow_given_draws(self, n: int, number: int) -> bool:
        """Return whether intervals given draws take minutes to compute.

        Parameters
        ----------
        n : int
            The number of records.
        number : int
            The number of parameters.

        Returns
        -------
        bool
        """
        return False

    def marginals(self, distribution: Any) -> list[Distribution]:
        """Return the distribution of each number in θ, of a prior or given draws.

        Parameters
        ----------
        distribution : object
            A prior, or what :meth:`given_draws` returns.

        Returns
        -------
        list of Distribution
        """
        return [distribution]

    @abstractmethod
    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest D_λ for every λ.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        list of pairs of tuples
            Each pair in both orders.
        """

    def curve(self, eta: Natural, n: int, r: Fraction) -> Curve:
        """Return the privacy curve of one draw from η₀/m + r ΣS(x), over all datasets of n records.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        Curve

        Examples
        --------
        >>> from discreet.posterior_sampling.families.categorical import BetaFamily
        >>> curve = BetaFamily().curve((Fraction(6), Fraction(12)), 100, Fraction(1, 2))
        >>> bool(curve.renyi(2) < curve.renyi(10))
        True
        """
        return PosteriorCurve(self, eta, n, r)

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the options of the family as JSON values.

        Returns
        -------
        dict

        Examples
        --------
        >>> from discreet.posterior_sampling.families.rates import Poisson
        >>> Poisson(bounds=(0, 20)).to_dict()
        {'name': 'poisson', 'bounds': [0.0, 20.0]}
        """
        left_out = () if getattr(self, "nearby", None) is not None else ("nearby",)
        return {"name": self.name, **fields_as_json(self, *left_out)}

    @staticmethod
    def define(
        *,
        log_partition: str,
        bounds: Any,
        statistic: str = "x",
        means: tuple[float, float] | None = None,
        support: tuple[float, float] = (-math.inf, math.inf),
    ) -> Family:
        """Return an exponential family with one natural parameter, from its formulas.

        The likelihood is proportional to exp(t·S(x) − A(t)). The prior is (mean of S, number of records that
        it weighs as much as). Draws are exact draws of t; the Rényi curve is an upper bound, see
        :mod:`discreet.posterior_sampling.families.defined`.

        Parameters
        ----------
        log_partition : str
            The log-partition A(t) as a formula.
        bounds : tuple of float
            The bounds to which S(x) is clipped.
        statistic : str
            The statistic S(x) as a formula.
        means : tuple of float, optional
            The range of the mean of S; the bounds if it is left out.
        support : tuple of float
            The interval where A(t) is finite.

        Returns
        -------
        Family

        Raises
        ------
        InvalidInputError
            If a formula or a range cannot be used.

        Examples
        --------
        >>> logarithmic = Family.define(
        ...     log_partition="log(-log(1 - exp(t)))", bounds=(1, 20), means=(1, float("inf")),
        ...     support=(float("-inf"), 0),
        ... )
        >>> logarithmic.prior((3, 2))
        (3.0, 2.0)
        """
        return cast(Family, FAMILIES["defined"](bounds, log_partition, statistic, means, support))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Family:
        """Return the family that :meth:`to_dict` wrote.

        Parameters
        ----------
        content : mapping
            What :meth:`to_dict` returned.

        Returns
        -------
        Family

        Raises
        ------
        InvalidInputError
            If the content does not describe a family.

        Examples
        --------
        >>> Family.from_dict({"name": "poisson", "bounds": [0, 20]}).bounds
        (0.0, 20.0)
        """
        options = dict(content)
        family: type[Family] = FAMILIES.reader(options.pop("name"))
        nearby = options.pop("nearby", None)
        built = family(**{name: tuple(v) if isinstance(v, list) else v for name, v in options.items()})
        if nearby is not None:  # of 0.2, which could protect records against others near by alone
            low, high = cast(NumberFamily, built).record_bounds
            if not 0 < as_exact(nearby, "nearby") <= Fraction(high) - Fraction(low):
                raise InvalidInputError("must be positive, at most the width of the bounds", "nearby", nearby)
            keep(built, nearby=float(nearby))
        return built


@dataclass(frozen=True)
class NumberFamily(Family):
    """A family whose records are numbers within declared bounds, or within 0 and 1."""

    bounds_of: ClassVar[str] = "one record"
    """The quantity that the declared bounds limit, for messages."""
    least: ClassVar[float] = -math.inf
    """The least value that a bound may have."""

    def __post_init__(self) -> None:
        """Check the declared bounds."""
        super().__post_init__()
        if not hasattr(self, "bounds"):
            return
        low, high = bounds = as_bounds(self.bounds, self.bounds_of, self.least)
        whole = self.records == "counts"
        if whole and not (low.is_integer() and high.is_integer()):
            raise InvalidInputError("of counts must be whole numbers", "bounds", self.bounds)
        keep(self, bounds=bounds)

    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Any, int]:
        """Return the sum of the clipped numbers, and how many there are."""
        whole, bounds = self.records == "counts", self.record_bounds
        summed = clipped_sum(data, column=column, bounds=bounds, integers=whole, **options, **people)
        return self.of_grid(summed), summed.n

    @property
    def record_bounds(self) -> tuple[float, float]:
        """The declared bounds of one record that is a number."""
        return getattr(self, "bounds", (0.0, 1.0))

    @property
    def move(self) -> Fraction:
        """The most by which one record can change: the width of the bounds, or ``nearby`` if it is given.

        Rounding to the grid can add one step to the difference of two numbers.
        """
        low, high = map(Fraction, self.record_bounds)
        nearby = getattr(self, "nearby", None)
        if nearby is None:
            return high - low
        step = 0 if self.records == "counts" else (high - low) / MOST_STEPS
        return min(high - low, Fraction(nearby) + step)

    def of_grid(self, summed: ClippedSum) -> Any:
        """Return the sufficient statistic of numbers that were summed on a grid.

        Parameters
        ----------
        summed : ClippedSum
            The sums of the clipped numbers.

        Returns
        -------
        object
        """
        return sum_on_grid(summed, self.record_bounds)

    def total(self, statistic: Any, n: int) -> Fraction:
        """Return the sum of n numbers, after checking that it is within n times the bounds.

        Parameters
        ----------
        statistic : number
            The sum.
        n : int
            The number of records.

        Returns
        -------
        Fraction

        Raises
        ------
        InvalidInputError
            If the sum is outside n times the bounds.
        """
        low, high = (n * Fraction(bound) for bound in self.record_bounds)
        return as_total(statistic, low, high)

    def farthest(self, n: int) -> list[tuple[Any, Any]]:
        """Return statistics of neighbouring datasets, two of which are hardest to distinguish.

        All records are at the lower bound, and one of them moves as far as it can.

        Parameters
        ----------
        n : int
            The number of records.

        Returns
        -------
        list of pairs
        """
        lowest = n * Fraction(self.record_bounds[0])
        return [(lowest, lowest + self.move)]

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest Rényi divergence.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        list of pairs of tuples
        """
        return both_orders(self, eta, n, r, *self.farthest(n))


@dataclass(frozen=True)
class ProfiledFamily(Family):
    """A family with a theorem about which pairs have the largest hockey-stick divergences, for every ε."""

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Return pairs of neighbouring posteriors, one of which has the largest hockey-stick divergence.

        Where no theorem identifies them, δ(ε) follows from the Rényi divergences.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        list of pairs of tuples
            Empty where no theorem identifies them.
        """
        return self.extreme_pairs(eta, n, r)

    def hockey_stick(self, pair: Pair, epsilon: Fraction) -> Ball:
        """Return an enclosure of the hockey-stick divergence sup_A P(A) − e^ε Q(A) of a pair.

        ln(p/q) = (η_P − η_Q)·T(θ) − C(η_P) + C(η_Q) is linear in one number T, so it is above ε on one side
        of a threshold.

        Parameters
        ----------
        pair : tuple
            Two neighbouring posteriors, each as its natural parameters.
        epsilon : Fraction
            The value of ε.

        Returns
        -------
        Ball
        """
        exact, move = ball(epsilon), _shift(pair)
        end = (exact + self._level(pair)) / ball(move)
        first, second = (self.tail(eta, end, move > 0) for eta in pair)
        return first - exact.exp() * second

    def hockey_sticks(self, pair: Pair, epsilons: FloatArray) -> FloatArray:
        """Return the hockey-stick divergences of a pair in floating point, with a margin.

        Parameters
        ----------
        pair : tuple
            Two neighbouring posteriors, each as its natural parameters.
        epsilons : ndarray
            The values of ε.

        Returns
        -------
        ndarray
        """
        move, level = _shift(pair), enclose(lambda: self._level(pair), relative=1e-15, absolute=1e-300)
        end = (epsilons + float(level.mid())) / float(move)
        first, second = (self.float_tail(eta, end, move > 0) for eta in pair)
        return in_floats(first, second, epsilons, float(max(map(self.size, pair))))

    def _level(self, pair: Pair) -> Ball:
        first, second = (self.log_partition([ball(x) for x in eta]) for eta in pair)
        return first - second

    def tail(self, eta: Natural, end: Ball, above: bool) -> Ball:
        """Return the probability that T(θ) lies above, or below, a bound.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        end : Ball
            The bound.
        above : bool
            Whether to return the upper tail.

        Returns
        -------
        Ball
            An enclosure of the probability; it is not finite where none can be computed.
        """
        raise NotImplementedError

    def float_tail(self, eta: Natural, end: FloatArray, above: bool) -> FloatArray:
        """Return the probability that T(θ) lies above, or below, each bound, in floating point.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        end : ndarray
            The bounds.
        above : bool
            Whether to return the upper tail.

        Returns
        -------
        ndarray
        """
        raise NotImplementedError

    def size(self, eta: Natural) -> Fraction:
        """Return the parameter on which the relative rounding error of floating-point tails depends.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.

        Returns
        -------
        Fraction
        """
        return max(eta)

    def elsewhere(self, eta: Natural, n: int, r: Fraction, epsilons: FloatArray) -> FloatArray | None:
        """Return upper bounds on the divergences of neighbours that the profile pairs do not bound.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].
        epsilons : ndarray
            The values of ε.

        Returns
        -------
        ndarray or None
            None if there are no such pairs.
        """
        return None

    def curve(self, eta: Natural, n: int, r: Fraction) -> Curve:
        """Return the privacy curve of one draw, over all datasets of n records.

        Parameters
        ----------
        eta : tuple of Fraction
            The natural parameters η of the prior or posterior.
        n : int
            The number of records.
        r : Fraction
            The weight of a record, in (0, 1].

        Returns
        -------
        ProfiledCurve
        """
        return ProfiledCurve(self, eta, n, r)


def both_orders(
    family: Family, eta: Natural, n: int, r: Fraction, *statistics: tuple[Any, Any]
) -> list[Pair]:
    """Return the posteriors of pairs of statistics, each pair in both orders.

    Parameters
    ----------
    family : Family
        The family.
    eta : tuple of Fraction
        The natural parameters η of the prior or posterior.
    n : int
        The number of records.
    r : Fraction
        The weight of a record, in (0, 1].
    *statistics : tuple
        Pairs of sufficient statistics of neighbouring datasets.

    Returns
    -------
    list of pairs of tuples
    """
    pairs = []
    for two in statistics:
        first, second = (add_scaled(eta, family.contribution(statistic, n), r) for statistic in two)
        pairs += [(first, second), (second, first)]
    return pairs


def keep(family: Family, **checked: Any) -> None:
    """Set checked fields of a frozen family.

    Parameters
    ----------
    family : Family
        The family.
    **checked
        The fields and their values.
    """
    for name, value in checked.items():
        object.__setattr__(family, name, value)


def start(family: Family, prior: Any, m: float) -> Natural:
    """Return η₀/m, the natural parameters of a prior divided by m.

    Parameters
    ----------
    family : Family
        The family.
    prior : object
        The prior, as :meth:`prior` returns it.
    m : float
        The divisor of the prior, in (0, 1].

    Returns
    -------
    tuple of Fraction

    Examples
    --------
    >>> from discreet.posterior_sampling.families.categorical import BetaFamily
    >>> start(BetaFamily(), BetaFamily().prior((1, 2)), 0.5)
    (Fraction(2, 1), Fraction(4, 1))
    """
    return tuple(value / Fraction(m) for value in family.natural(prior))


def public_prior(prior: Any) -> list[Any]:
    """Return the parameters of a prior as JSON values, which ``family.prior`` reads again.

    Parameters
    ----------
    prior : object
        The prior, as :meth:`prior` returns it.

    Returns
    -------
    list

    Examples
    --------
    >>> from discreet.posterior_sampling.families.categorical import BetaFamily
    >>> public_prior(BetaFamily().prior((1, 2)))
    [1.0, 2.0]
    """
    return [list(getattr(part, "parameters", ())) or part for part in getattr(prior, "parameters", prior)]


def of_two(kind: type[Kind], parameters: Any, expected: str) -> Kind:
    """Return a prior of the class ``kind``, which has two parameters.

    Parameters
    ----------
    kind : type
        The class of the prior.
    parameters : object
        The two parameters, or the prior itself.
    expected : str
        A description of the parameters, for the message.

    Returns
    -------
    object

    Raises
    ------
    InvalidInputError
        If there are not exactly two.
    """
    if isinstance(parameters, kind):
        return parameters
    try:
        first, second = parameters
    except (TypeError, ValueError):
        raise InvalidInputError(f"must be {expected}", "prior", parameters) from None
    return kind(first, second)  # type: ignore[call-arg]


def numbers(values: Any, name: str = "the statistic") -> Natural:
    """Return several numbers as fractions; an empty tuple if the values are not a sequence.

    Parameters
    ----------
    values : object
        The numbers.
    name : str
        Their name in messages.

    Returns
    -------
    tuple of Fraction

    Examples
    --------
    >>> numbers((0.5, 2))
    (Fraction(1, 2), Fraction(2, 1))
    >>> numbers(3)
    ()
    """
    try:
        return tuple(as_exact(value, name) for value in values)
    except TypeError:
        return ()


def sum_on_grid(summed: ClippedSum, bounds: tuple[float, float]) -> Fraction:
    """Return the sum of clipped numbers, from their sum on the grid and the bounds as doubles.

    Parameters
    ----------
    summed : ClippedSum
        The sums of the clipped numbers.
    bounds : tuple of float
        The bounds.

    Returns
    -------
    Fraction
    """
    low, high = map(Fraction, bounds)
    return summed.n * low + (high - low) * Fraction(summed.grid_sum, summed.steps)


def add_scaled(eta: Natural, more: Natural, scale: Fraction = Fraction(1)) -> Natural:
    """Return η + scale·more.

    Parameters
    ----------
    eta : tuple of Fraction
        The natural parameters η of the prior or posterior.
    more : tuple of Fraction
        The natural parameters to add.
    scale : Fraction
        The factor by which they are multiplied.

    Returns
    -------
    tuple of Fraction

    Raises
    ------
    InvalidInputError
        If the two have different lengths.

    Examples
    --------
    >>> add_scaled((Fraction(1), Fraction(2)), (Fraction(4), Fraction(6)), Fraction(1, 2))
    (Fraction(3, 1), Fraction(5, 1))
    """
    if len(more) != len(eta):
        raise InvalidInputError(f"the statistic has {len(more)} parts and the prior {len(eta)}")
    return tuple(value + scale * part for value, part in zip(eta, more, strict=True))


def clipped_words(bounds: Sequence[float] | None) -> str:
    """Describe how records are clipped, as the end of the sentence that describes the model.

    Parameters
    ----------
    bounds : sequence of float, optional
        The bounds.

    Returns
    -------
    str

    Examples
    --------
    >>> clipped_words((0, 120))
    ', clipped to 0 – 120'
    """
    return "" if bounds is None else f", clipped to {bounds[0]:g} – {bounds[1]:g}"


def _shift(pair: Pair) -> Fraction:
    """Return η_P − η_Q in the first coordinate in which they differ."""
    return next(p - q for p, q in zip(*pair, strict=True) if p != q)


def renyi(family: Family, pair: Pair, order: Fraction) -> Ball | None:
    """Return an enclosure of the Rényi divergence D_λ(P‖Q) of two posteriors of a family.

    Parameters
    ----------
    family : Family
        The family.
    pair : tuple
        Two neighbouring posteriors, each as its natural parameters.
    order : Fraction
        The order λ, above 1.

    Returns
    -------
    Ball or None
        None where it is infinite.

    Examples
    --------
    >>> from discreet.posterior_sampling.families.categorical import BetaFamily
    >>> pair = ((Fraction(7), Fraction(12)), (Fraction(6), Fraction(13)))
    >>> round(float(renyi(BetaFamily(), pair, Fraction(2)).mid()), 4)
    0.2412
    """
    mixed = _mix(pair, order)
    if not family.normalisable(mixed):
        return None

    def value() -> Ball:
        at_mixed, first, second = (family.log_partition(list(map(ball, eta))) for eta in (mixed, *pair))
        exact = ball(order)
        return (at_mixed - exact * first) / (exact - 1) + second

    return enclose(value, absolute=1e-300)


def _mix(pair: Pair, order: Fraction) -> Natural:
    """Return λη_P + (1−λ)η_Q for the pair (η_P, η_Q) and the order λ."""
    return tuple(order * p + (1 - order) * q for p, q in zip(*pair, strict=True))


@dataclass(frozen=True)
class PosteriorCurve(Curve):
    """The privacy loss of one posterior draw, from the family's worst pairs of neighbours.

    Parameters
    ----------
    family : Family
        The family.
    eta : tuple of Fraction
        The natural parameters η₀/m of the prior.
    n : int
        The number of records.
    r : Fraction
        The weight of a record, in (0, 1].

    Raises
    ------
    InvalidInputError
        If r is not positive.

    Examples
    --------
    >>> from discreet.posterior_sampling.families.categorical import BetaFamily
    >>> curve = PosteriorCurve(BetaFamily(), (Fraction(6), Fraction(12)), 100, Fraction(1, 2))
    >>> curve.max_order
    13.0
    >>> bool(0 < curve.profile(1.0) < curve.profile(0.5) < 1)
    True
    """

    family: Family
    eta: Natural
    n: int
    r: Fraction
    kind: ClassVar[str] = "posterior"

    def __post_init__(self) -> None:
        as_size(self.n)
        if not self.r > 0:
            raise InvalidInputError(f"r={self.r} must be positive")

    @property
    def work(self) -> float:
        return self.family.work

    @cached_property
    def max_order(self) -> float:
        return min(self._limit(pair) for pair in self.family.extreme_pairs(self.eta, self.n, self.r))

    def _limit(self, pair: Pair) -> float:
        """Return about the smallest order λ at which ``renyi`` is infinite.

        There and above, λη_P + (1−λ)η_Q is not normalisable for the pair (η_P, η_Q).
        """

        def _is_normalisable(order: Fraction) -> bool:
            return self.family.normalisable(_mix(pair, order))

        if _is_normalisable(Fraction(10) ** 9):
            return math.inf
        high = boundary(lambda order: not _is_normalisable(Fraction(order)), 1e9, 1.0, relative=1e-12)
        nearest = float(round(high)) if abs(high - round(high)) < 1e-9 * high else high
        return nearest if not _is_normalisable(Fraction(nearest)) else high

    def renyi(self, order: float) -> float:
        """Return the largest Rényi divergence of neighbouring posteriors.

        Parameters
        ----------
        order : float
            The Rényi order, above 1.

        Returns
        -------
        float
            The divergence; it is infinite for orders of :attr:`max_order` and above.
        """
        pairs = self.family.extreme_pairs(self.eta, self.n, self.r)
        values = [renyi(self.family, pair, Fraction(order)) for pair in pairs]
        return max(0.0, *(math.inf if value is None else above(value) for value in values))

    def profile(self, epsilon: float) -> float:
        """Return δ(ε) for one ε.

        Parameters
        ----------
        epsilon : float
            The value of ε.

        Returns
        -------
        float
        """
        return float(self.profiles(np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Return δ(ε) from the Rényi curve: the smallest of the bounds of several orders.

        Parameters
        ----------
        epsilons : ndarray
            The values of ε.

        Returns
        -------
        ndarray
        """
        above_one, at_zero = self._by_order
        log_delta = np.min(at_zero - epsilons[:, None] * above_one, axis=1, initial=0.0)
        return np.asarray(np.exp(np.maximum(log_delta, -690.0)) * (1 + 1e-12), dtype=np.float64)

    @cached_property
    def _by_order(self) -> tuple[FloatArray, FloatArray]:
        """A grid of orders λ, as λ − 1, and the logarithm of the bound on δ(0) that follows from each."""
        top = min(self.max_order - 1, _LARGEST_ORDER)
        if not top > 0:
            return np.zeros(0), np.zeros(0)
        above_one = top / (1 + np.exp(np.linspace(-12.0, 18.0, _NUMBER_OF_ORDERS)))  # dense near both ends
        losses = np.array([self.renyi(1 + float(value)) for value in above_one])
        rest = (above_one + 1) * np.log1p(-1 / (above_one + 1)) - np.log(above_one)
        return above_one, above_one * losses + rest

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> PosteriorCurve:
        eta = tuple(as_rational(value, "eta") for value in parameters["eta"])
        family = Family.from_dict(parameters["family"])
        curve = family.curve(eta, as_size(parameters["n"]), as_rational(parameters["r"], "r"))
        if not isinstance(curve, PosteriorCurve):
            raise InvalidInputError(f"the stored curve of {family.name!r} is not that of its parameters")
        return curve


@dataclass(frozen=True)
class ProfiledCurve(PosteriorCurve):
    """The privacy loss of one posterior draw, with the exact δ(ε) of a :class:`ProfiledFamily`.

    Parameters
    ----------
    family : ProfiledFamily
        The family.
    eta : tuple of Fraction
        The natural parameters η₀/m of the prior.
    n : int
        The number of records.
    r : Fraction
        The weight of a record, in (0, 1].
    """

    family: ProfiledFamily

    def profile(self, epsilon: float) -> float:
        """Return the largest hockey-stick divergence of neighbouring posteriors.

        Parameters
        ----------
        epsilon : float
            The value of ε.

        Returns
        -------
        float
        """
        pairs = self.family.profile_pairs(self.eta, self.n, self.r)
        if not pairs:
            return super().profile(epsilon)

        def _divergence(pair: Pair) -> float:
            parameters = [float(x) for eta in pair for x in eta]
            if min(parameters) < ENCLOSED[0] or max(parameters) > ENCLOSED[1]:
                return float(self.family.hockey_sticks(pair, np.array([epsilon]))[0])
            return above(enclose(lambda: self.family.hockey_stick(pair, Fraction(epsilon)), absolute=1e-300))

        worst = np.array([max(map(_divergence, pairs))])
        return max(0.0, float(self._or_elsewhere(worst, np.array([epsilon]))[0]))

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """Return the largest hockey-stick divergences of neighbouring posteriors for several ε.

        Parameters
        ----------
        epsilons : ndarray
            The values of ε.

        Returns
        -------
        ndarray
        """
        pairs = self.family.profile_pairs(self.eta, self.n, self.r)
        if not pairs:
            return super().profiles(epsilons)
        worst = np.max([self.family.hockey_sticks(pair, epsilons) for pair in pairs], axis=0)
        return self._or_elsewhere(worst, epsilons)

    def _or_elsewhere(self, worst: FloatArray, epsilons: FloatArray) -> FloatArray:
        """Return the largest of ``worst``, from the profile pairs, and the bounds on all other pairs."""
        some = epsilons
        if len(epsilons) > 513:  # interpolate in e^ε: chords lie above a convex curve
            some = np.linspace(float(epsilons.min()), min(float(epsilons.max()), 700.0), 513)
        others = self.family.elsewhere(self.eta, self.n, self.r, some)
        if others is not None and some is not epsilons:
            others = np.interp(np.exp(np.minimum(epsilons, 700.0)), np.exp(some), others) * (1 + 1e-12)
        return np.asarray(worst if others is None else np.maximum(worst, others), dtype=np.float64)


def record_rows(data: Any, people: Mapping[str, Any], number: int, column: str | None = None) -> FloatArray:
    """Return records of several numbers each, as rows of finite doubles.

    Parameters
    ----------
    data : array, or a table for one column
        The records.
    people : mapping
        Must be empty: these records cannot be bounded per person.
    number : int
        The number of components of a record.
    column : str, optional
        The column that holds the records; None if the data are a single column.

    Returns
    -------
    ndarray of shape (records, number)

    Raises
    ------
    InvalidInputError
        If a record has a different number of components, or ``person`` is given.
    DataError
        If the data are not an array of numbers, or a component is missing or infinite.

    Examples
    --------
    >>> record_rows([[1, 2], [3, 4]], {}, 2).shape
    (2, 2)
    """
    if any(value is not None for value in people.values()):
        raise InvalidInputError("person= is for one column of numbers; give one row for each person")
    if column is not None and number == 1:
        data = [as_number(value) for (value,) in read_rows(data, [column])]
    try:
        rows = np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        rows = np.zeros(0)
    if number == 1 and rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or not len(rows):
        raise DataError("vectors must be an array of numbers with a row for each record")
    if rows.shape[1] != number:
        raise InvalidInputError(f"a record must have {number} numbers, not {rows.shape[1]}")
    if not np.isfinite(rows).all():
        raise DataError("a record has a component that is missing or infinite; replace it by a number first")
    return rows


def in_floats(first: FloatArray, second: FloatArray, epsilons: FloatArray, largest: float) -> FloatArray:
    """Return P(A) − e^ε Q(A) for each ε, plus a margin that exceeds the rounding errors of its terms.

    Parameters
    ----------
    first : ndarray
        P(A).
    second : ndarray
        Q(A).
    epsilons : ndarray
        The values of ε.
    largest : float
        The largest parameter of the two posteriors.

    Returns
    -------
    ndarray

    Raises
    ------
    TooLargeError
        If the largest parameter is above :data:`LARGEST_PARAMETER`.
    """
    if largest > LARGEST_PARAMETER:
        raise TooLargeError(
            f"a posterior with a parameter of {largest:.3g} is beyond {LARGEST_PARAMETER:.0e}, up to "
            "which the exact profile is computed; the Rényi curve is available at any size"
        )
    margin = MARGIN * (1 + largest / 1e9)
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.where(second > 0, np.exp(np.minimum(epsilons, 700.0)) * second, 0.0)
    return np.asarray(np.maximum(first - other, 0.0) * (1 + margin) + 1e-12 * first, dtype=np.float64)
