"""Conjugate families: what one record adds to a posterior, and how far apart two posteriors can be.

A family has coordinates η in which a record x adds its statistic S(x) to the prior's η₀; the density of the
posterior is exp(η·T(θ) − C(η)) with the log-partition C. Posterior sampling with scalings r, m ∈ (0, 1] draws
θ from η₀/m + r ΣS(x). Its privacy loss follows from C alone (Geumlek, Song and Chaudhuri 2017):

    D_λ(P‖Q) = [C(λη_P + (1−λ)η_Q) − λ C(η_P)] / (λ−1) + C(η_Q),

infinite where the mixed point leaves the normalisable set. Which neighbouring pairs are worst is a theorem of
each family, stated in ``proofs/posterior-sampling.md`` and checked by enumeration.
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
from discreet._data.grids import MOST_STEPS
from discreet._data.rows import as_number
from discreet._declarations import Relation, as_bounds, as_exact, as_rational, as_size, as_total
from discreet._json import fields_as_json
from discreet._numerics.enclosures import Ball, above, ball, enclose
from discreet._numerics.search import boundary
from discreet._randomness.entropy import Source
from discreet._registry import FAMILIES
from discreet._typing import FloatArray
from discreet.distributions.law import Law
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
"""Parameters whose distribution functions are enclosed in milliseconds; beyond, floats with the margin."""
_LARGEST_ORDER, _ORDERS = 1e6, 128


@dataclass(frozen=True)
class Family(ABC):
    """A likelihood with its conjugate prior. Everything here is public; bounds are declared, never read."""

    name: ClassVar[str]
    parameter: ClassVar[str] = "value"
    """What one number of θ is, in a word."""
    parameters: ClassVar[tuple[str, ...]] = ()
    """Their words where they differ."""
    is_share: ClassVar[bool] = False
    """Whether θ is between 0 and 1, and read in percent."""
    records: ClassVar[RecordKind] = "numbers"
    reads: ClassVar[tuple[str, ...]] = ("missing",)
    """Options that say how records are read."""
    assumed: ClassVar[tuple[str, ...]] = ()
    """What its guarantees take on trust."""
    work: ClassVar[float] = 0.1
    """About how many seconds a curve takes."""
    words: ClassVar[str] = ""
    """What θ is in a report, with names of fields in braces."""

    def __post_init__(self) -> None:  # noqa: B027
        """Checks what is declared."""

    @abstractmethod
    def prior(self, parameters: Any) -> Any:
        """The prior from its parameters, or the prior itself, checked."""

    def describe_prior(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        """The model and its prior in words for a report; ``prior`` and ``bounds`` as in a document."""
        if not self.words:
            return f"the family {self.name}{clipped_words(bounds)}", self._prior_in_words(prior)
        model = self.words.format(**vars(self))
        return model + clipped_words(getattr(self, "bounds", None)), self._prior_in_words(prior)

    def _prior_in_words(self, prior: list[Any]) -> str:
        """A prior as in a document, for a report."""
        return ", ".join(map(str, prior))

    @abstractmethod
    def natural(self, distribution: Any) -> Natural:
        """η of a prior or posterior, exactly."""

    @abstractmethod
    def from_natural(self, eta: Natural) -> Any:
        """The prior or posterior with coordinates η."""

    def with_public_records(self, prior: Any, public: Any, column: str | None = None, **options: Any) -> Any:
        """The prior that knows public records too, read and clipped as private ones are.

        They cost no privacy, and private ones stand out less from such a prior. Never call it with
        private records.
        """
        statistic, number = self.read(public, column, options)
        own = self.natural(self.prior(prior))
        return self.from_natural(add_scaled(own, self.contribution(statistic, number)))

    def read(self, data: Any, column: str | None, options: Given, **people: Any) -> tuple[Any, int]:
        """The exact sufficient statistic of records, and how many there are.

        ``people``: ``person``, ``per_person`` and ``n`` of :class:`discreet._data.Contribution`.
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
        """The statistic of what the family takes for records, and how many there are."""

    @property
    def protects(self) -> tuple[Relation, str | None, tuple[str, ...]]:
        """The relation and unit of its guarantees for one record, and what they take on trust."""
        nearby = getattr(self, "nearby", None)
        if nearby is None:
            return Relation.REPLACE_ONE, None, self.assumed
        far = f"{nearby:g}" if float(f"{nearby:g}") == nearby else repr(nearby)  # no nearer than is said
        told_apart = f"records that are more than {far} apart may be told apart"
        return Relation.REPLACE_NEARBY, f"within {far}", (*self.assumed, told_apart)

    @abstractmethod
    def contribution(self, statistic: Any, n: int) -> Natural:
        """ΣS(x) of n records from their sufficient statistic, which must lie in its range."""

    @abstractmethod
    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        """C(η) up to a constant."""

    @abstractmethod
    def normalisable(self, eta: Natural) -> bool:
        """Whether exp(η·T(θ)) has a finite integral."""

    @abstractmethod
    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """One exact draw, on the middle of a cell of the grid."""

    @abstractmethod
    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        """A cell width from public parameters (η₀/m, n, r), far below the spread of the posterior."""

    def value(self, draws: FloatArray) -> FloatArray:
        """Draws as people read them: one number each where θ is one number."""
        return draws[:, 0] if draws.shape[1] == 1 else draws

    @abstractmethod
    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        """Draws in floats, shape (size, dimension): not private."""

    def given_draws(self, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> Any:
        """What is known of θ after draws from η₀/m + r ΣS(x): a law, or what ``marginals`` takes apart."""
        raise InvalidInputError(f"no posterior given draws is known for the family {self.name!r}")

    def slow_given_draws(self, n: int, number: int) -> bool:
        """Whether intervals of ``number`` parameters given draws take minutes."""
        return False

    def marginals(self, law: Any) -> list[Law]:
        """The law of each number in θ, of a prior or of what is known after draws."""
        return [law]

    @abstractmethod
    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Neighbouring posteriors, each in both orders, of which one has the largest D_λ, for every λ."""

    def curve(self, eta: Natural, n: int, r: Fraction) -> Curve:
        """The privacy curve of one draw from η₀/m + r ΣS(x) over all datasets of n records."""
        return PosteriorCurve(self, eta, n, r)

    def to_dict(self) -> dict[str, Any]:
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
        """Any exponential family with one natural parameter, from its formulas.

        The likelihood is proportional to exp(t·S(x) − A(t)): ``statistic`` is S as a formula of x,
        ``bounds`` those to which S(x) is clipped, ``log_partition`` is A as a formula of t and ``support``
        where it is finite; ``means``, between which numbers the mean of S can be (``bounds`` if not given).
        The prior is (mean of S, as how many records it counts). Draws are of t, exact; the Rényi curve is a
        bound: see :mod:`discreet.posterior_sampling.families.defined`.

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
        options = dict(content)
        family: type[Family] = FAMILIES.reader(options.pop("name"))
        nearby = options.pop("nearby", None)
        found = family(**{name: tuple(v) if isinstance(v, list) else v for name, v in options.items()})
        if nearby is not None:  # of 0.2, which could protect records against others near by alone
            low, high = cast(NumberFamily, found).record_bounds
            if not 0 < as_exact(nearby, "nearby") <= Fraction(high) - Fraction(low):
                raise InvalidInputError(
                    "must be positive, at most the width of the bounds", parameter="nearby", value=nearby
                )
            keep(found, nearby=float(nearby))
        return found


@dataclass(frozen=True)
class NumberFamily(Family):
    """Records that are numbers within bounds, which are declared, or 0 and 1."""

    bounds_of: ClassVar[str] = "one record"
    """What declared bounds are those of, and the least that they may be."""
    least: ClassVar[float] = -math.inf

    def __post_init__(self) -> None:
        """Checks declared bounds."""
        super().__post_init__()
        if not hasattr(self, "bounds"):
            return
        low, high = bounds = as_bounds(self.bounds, self.bounds_of, self.least)
        whole = self.records == "counts"
        if whole and not (low.is_integer() and high.is_integer()):
            raise InvalidInputError("of counts must be whole numbers", parameter="bounds", value=self.bounds)
        keep(self, bounds=bounds)

    def _sufficient_statistic(
        self, data: Any, column: str | None, options: Given, people: Given
    ) -> tuple[Any, int]:
        """The statistic of what the family takes for records: numbers, clipped and summed on a grid."""
        whole, bounds = self.records == "counts", self.record_bounds
        summed = clipped_sum(data, column=column, bounds=bounds, integers=whole, **options, **people)
        return self.of_grid(summed), summed.n

    @property
    def record_bounds(self) -> tuple[float, float]:
        """The declared bounds of one record that is a number."""
        return getattr(self, "bounds", (0.0, 1.0))

    @property
    def move(self) -> Fraction:
        """How far one record can move: the width of the bounds, or what counts as near by.

        On the grid of the records two numbers may be a step farther apart than they are.
        """
        low, high = map(Fraction, self.record_bounds)
        nearby = getattr(self, "nearby", None)
        if nearby is None:
            return high - low
        step = 0 if self.records == "counts" else (high - low) / MOST_STEPS
        return min(high - low, Fraction(nearby) + step)

    def of_grid(self, summed: ClippedSum) -> Any:
        """The statistic of numbers on a grid."""
        return sum_on_grid(summed, self.record_bounds)

    def total(self, statistic: Any, n: int) -> Fraction:
        """The sum of n numbers, which must lie in its range."""
        low, high = (n * Fraction(bound) for bound in self.record_bounds)
        return as_total(statistic, low, high)

    def farthest(self, n: int) -> list[tuple[Any, Any]]:
        """Statistics of datasets that differ in one record, of which two are hardest to keep apart.

        Of numbers: all are at the lower bound, and one of them moves as far as it can.
        """
        lowest = n * Fraction(self.record_bounds[0])
        return [(lowest, lowest + self.move)]

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        return both_orders(self, eta, n, r, *self.farthest(n))


@dataclass(frozen=True)
class ProfiledFamily(Family):
    """A family of which it is known which pairs have the largest hockey-stick divergences, for every ε."""

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        """Pairs of which one has the largest hockey-stick divergence, for every ε.

        None where no theorem says which they are: then δ(ε) follows from the Rényi divergences.
        """
        return self.extreme_pairs(eta, n, r)

    def hockey_stick(self, pair: Pair, epsilon: Fraction) -> Ball:
        """sup_A P(A) − e^ε Q(A) for the posteriors of a pair, as a ball.

        ln(p/q) = (η_P − η_Q)·T(θ) − C(η_P) + C(η_Q) is linear in one number T: above ε at one side of an end.
        """
        exact, move = ball(epsilon), _shift(pair)
        end = (exact + self._level(pair)) / ball(move)
        first, second = (self.tail(eta, end, move > 0) for eta in pair)
        return first - exact.exp() * second

    def hockey_sticks(self, pair: Pair, epsilons: FloatArray) -> FloatArray:
        """The same in floats for many ε."""
        move, level = _shift(pair), enclose(lambda: self._level(pair), relative=1e-15, absolute=1e-300)
        end = (epsilons + float(level.mid())) / float(move)
        first, second = (self.float_tail(eta, end, move > 0) for eta in pair)
        return in_floats(first, second, epsilons, float(max(map(self.size, pair))))

    def _level(self, pair: Pair) -> Ball:
        first, second = (self.log_partition([ball(x) for x in eta]) for eta in pair)
        return first - second

    def tail(self, eta: Natural, end: Ball, above: bool) -> Ball:
        """How probable T(θ) above or below an end is, where pairs have profiles; not finite: undecided."""
        raise NotImplementedError

    def float_tail(self, eta: Natural, end: FloatArray, above: bool) -> FloatArray:
        """The same in floats."""
        raise NotImplementedError

    def size(self, eta: Natural) -> Fraction:
        """The parameter by which tails in floats lose digits."""
        return max(eta)

    def elsewhere(self, eta: Natural, n: int, r: Fraction, epsilons: FloatArray) -> FloatArray | None:
        """Upper bounds on the divergence of the pairs that the profile pairs do not cover; None: no such."""
        return None

    def curve(self, eta: Natural, n: int, r: Fraction) -> Curve:
        return ProfiledCurve(self, eta, n, r)


def both_orders(
    family: Family, eta: Natural, n: int, r: Fraction, *statistics: tuple[Any, Any]
) -> list[Pair]:
    """The posteriors of pairs of statistics, each in both orders."""
    pairs = []
    for two in statistics:
        first, second = (add_scaled(eta, family.contribution(own, n), r) for own in two)
        pairs += [(first, second), (second, first)]
    return pairs


def keep(family: Family, **checked: Any) -> None:
    """Set fields as they are once they are checked."""
    for name, value in checked.items():
        object.__setattr__(family, name, value)


def start(family: Family, prior: Any, m: float) -> Natural:
    """η₀/m."""
    return tuple(value / Fraction(m) for value in family.natural(prior))


def public_prior(prior: Any) -> list[Any]:
    """The parameters of a prior as JSON values, which ``family.prior`` reads again."""
    return [list(getattr(part, "parameters", ())) or part for part in getattr(prior, "parameters", prior)]


def of_two(kind: type[Kind], parameters: Any, said: str) -> Kind:
    """The prior of this kind from its two parameters, or itself; ``said`` is what they are."""
    if isinstance(parameters, kind):
        return parameters
    try:
        first, second = parameters
    except (TypeError, ValueError):
        raise InvalidInputError(f"must be {said}", parameter="prior", value=parameters) from None
    return kind(first, second)  # type: ignore[call-arg]


def numbers(values: Any, name: str = "the statistic") -> Natural:
    """Several numbers exactly; none where that is not what is given."""
    try:
        return tuple(as_exact(value, name) for value in values)
    except TypeError:
        return ()


def sum_on_grid(summed: ClippedSum, bounds: tuple[float, float]) -> Fraction:
    """A sum by its bounds, which are the doubles themselves: ``data`` reads 0.1 as one tenth."""
    low, high = map(Fraction, bounds)
    return summed.n * low + (high - low) * Fraction(summed.grid_sum, summed.steps)


def add_scaled(eta: Natural, more: Natural, scale: Fraction = Fraction(1)) -> Natural:
    """η + scale·more."""
    if len(more) != len(eta):
        raise InvalidInputError(f"the statistic has {len(more)} parts and the prior {len(eta)}")
    return tuple(own + scale * part for own, part in zip(eta, more, strict=True))


def clipped_words(bounds: Sequence[float] | None) -> str:
    """How records are kept within bounds, after the words for the model."""
    return "" if bounds is None else f", clipped to {bounds[0]:g} – {bounds[1]:g}"


def _shift(pair: Pair) -> Fraction:
    """η_P − η_Q in the first coordinate that differs."""
    return next(p - q for p, q in zip(*pair, strict=True) if p != q)


def renyi(family: Family, pair: Pair, order: Fraction) -> Ball | None:
    """D_λ(P‖Q) of two posteriors of a family; None where it is infinite."""
    mixed = _mix(pair, order)
    if not family.normalisable(mixed):
        return None

    def value() -> Ball:
        at_mixed, first, second = (family.log_partition(list(map(ball, eta))) for eta in (mixed, *pair))
        exact = ball(order)
        return (at_mixed - exact * first) / (exact - 1) + second

    return enclose(value, absolute=1e-300)


def _mix(pair: Pair, order: Fraction) -> Natural:
    """λη_P + (1−λ)η_Q."""
    return tuple(order * p + (1 - order) * q for p, q in zip(*pair, strict=True))


@dataclass(frozen=True)
class PosteriorCurve(Curve):
    """The loss of one posterior draw, from the family's worst pairs: Rényi curve and exact profile."""

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
        """About the order at which λη_P + (1−λ)η_Q leaves the normalisable set; ``renyi`` is ∞ there."""

        def inside(order: Fraction) -> bool:
            return self.family.normalisable(_mix(pair, order))

        if inside(Fraction(10) ** 9):
            return math.inf
        high = boundary(lambda order: not inside(Fraction(order)), 1e9, 1.0, relative=1e-12)
        nearest = float(round(high)) if abs(high - round(high)) < 1e-9 * high else high
        return nearest if not inside(Fraction(nearest)) else high

    def renyi(self, order: float) -> float:
        pairs = self.family.extreme_pairs(self.eta, self.n, self.r)
        values = [renyi(self.family, pair, Fraction(order)) for pair in pairs]
        return max(0.0, *(math.inf if value is None else above(value) for value in values))

    def profile(self, epsilon: float) -> float:
        return float(self.profiles(np.array([epsilon]))[0])

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        """δ(ε) from the Rényi curve: that of the best order tried, each of which is a bound."""
        above_one, at_zero = self._by_order
        log_delta = np.min(at_zero - epsilons[:, None] * above_one, axis=1, initial=0.0)
        return np.asarray(np.exp(np.maximum(log_delta, -690.0)) * (1 + 1e-12), dtype=np.float64)

    @cached_property
    def _by_order(self) -> tuple[FloatArray, FloatArray]:
        """λ − 1 for some orders, and ln δ(0) by each of them."""
        top = min(self.max_order - 1, _LARGEST_ORDER)
        if not top > 0:
            return np.zeros(0), np.zeros(0)
        above_one = top / (1 + np.exp(np.linspace(-12.0, 18.0, _ORDERS)))  # dense near both ends
        losses = np.array([self.renyi(1 + float(value)) for value in above_one])
        rest = (above_one + 1) * np.log1p(-1 / (above_one + 1)) - np.log(above_one)
        return above_one, above_one * losses + rest

    @classmethod
    def _build(cls, parameters: Mapping[str, Any]) -> PosteriorCurve:
        eta = tuple(as_rational(value, "eta") for value in parameters["eta"])
        family = Family.from_dict(parameters["family"])
        made = family.curve(eta, as_size(parameters["n"]), as_rational(parameters["r"], "r"))
        if not isinstance(made, PosteriorCurve):
            raise InvalidInputError(f"the curve of {family.name!r} is another one")
        return made


@dataclass(frozen=True)
class ProfiledCurve(PosteriorCurve):
    """The exact profile too, from the pairs of a :class:`ProfiledFamily`."""

    family: ProfiledFamily

    def profile(self, epsilon: float) -> float:
        pairs = self.family.profile_pairs(self.eta, self.n, self.r)
        if not pairs:
            return super().profile(epsilon)

        def value(pair: Pair) -> float:
            parameters = [float(x) for eta in pair for x in eta]
            if min(parameters) < ENCLOSED[0] or max(parameters) > ENCLOSED[1]:
                return float(self.family.hockey_sticks(pair, np.array([epsilon]))[0])
            return above(enclose(lambda: self.family.hockey_stick(pair, Fraction(epsilon)), absolute=1e-300))

        worst = np.array([max(map(value, pairs))])
        return max(0.0, float(self._or_elsewhere(worst, np.array([epsilon]))[0]))

    def profiles(self, epsilons: FloatArray) -> FloatArray:
        pairs = self.family.profile_pairs(self.eta, self.n, self.r)
        if not pairs:
            return super().profiles(epsilons)
        worst = np.max([self.family.hockey_sticks(pair, epsilons) for pair in pairs], axis=0)
        return self._or_elsewhere(worst, epsilons)

    def _or_elsewhere(self, worst: FloatArray, epsilons: FloatArray) -> FloatArray:
        """The largest divergences of the profile pairs, or of others where these are larger."""
        some = epsilons
        if len(epsilons) > 513:  # between some of them the chords in e^ε, which lie above a convex curve
            some = np.linspace(float(epsilons.min()), min(float(epsilons.max()), 700.0), 513)
        others = self.family.elsewhere(self.eta, self.n, self.r, some)
        if others is not None and some is not epsilons:
            others = np.interp(np.exp(np.minimum(epsilons, 700.0)), np.exp(some), others) * (1 + 1e-12)
        return np.asarray(worst if others is None else np.maximum(worst, others), dtype=np.float64)


def record_rows(data: Any, people: Mapping[str, Any], number: int, column: str | None = None) -> FloatArray:
    """Records that are ``number`` numbers each, as rows of finite doubles; one each may be a column."""
    if any(value is not None for value in people.values()):
        raise InvalidInputError("person= is for a column of numbers; here give one row for each person")
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
        raise DataError("a record has a component that is missing or infinite; map it before")
    return rows


def in_floats(first: FloatArray, second: FloatArray, epsilons: FloatArray, largest: float) -> FloatArray:
    """P(A) − e^ε Q(A) with a margin above the rounding of its terms, for parameters up to ``largest``."""
    if largest > LARGEST_PARAMETER:
        raise TooLargeError(
            f"a posterior with a parameter of {largest:.3g} is beyond {LARGEST_PARAMETER:.0e}, up to "
            "which the exact profile is computed; the Rényi curve is available at any size"
        )
    margin = MARGIN * (1 + largest / 1e9)
    with np.errstate(over="ignore", invalid="ignore"):
        other = np.where(second > 0, np.exp(np.minimum(epsilons, 700.0)) * second, 0.0)
    return np.asarray(np.maximum(first - other, 0.0) * (1 + margin) + 1e-12 * first, dtype=np.float64)
