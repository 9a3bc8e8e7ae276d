"""Which mechanism, which ε, how many records: answered from public parameters, before any data is opened.

The error of a mechanism is the Hellinger distance between the posterior that it releases and the true one,
on average over its noise and over datasets drawn from the prior predictive, the Dirichlet-multinomial law
DirMult(α, n). Where all datasets and outputs can be listed the figures are exact; else datasets are drawn
with a seeded generator, and the standard error, clustered by dataset, is stated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, TypeAlias, overload

import numpy as np
from scipy.special import gammaln

from discreet._typing import EpsilonLike, FloatArray
from discreet.declarations import (
    Relation,
    as_counts,
    as_epsilon,
    as_float,
    as_integer,
    as_prior,
    as_relation,
    as_size,
)
from discreet.distributions.beta_dirichlet import dirichlet
from discreet.documents.answer import as_probability
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.inference.expected_width import width_without
from discreet.mechanisms import MECHANISMS, automatic, check_options
from discreet.mechanisms.optimal import optimal_error
from discreet.planning.expected_error import Chosen, PlanRow, Setting, default_mechanisms
from discreet.planning.intervals import IntervalPlan, plan_intervals
from discreet.planning.plan import Plan, PublicGain, best_of
from discreet.planning.progress import watched
from discreet.posterior_sampling.families.categorical import DirichletFamily
from discreet.privacy.curves import largest_gaussian
from discreet.questions.widths import POINTS, as_within

Choice: TypeAlias = str | tuple[str, Mapping[str, Any]]

MIN_EPSILON, MAX_EPSILON = Fraction(1, 10_000), Fraction(50)
MAX_N = 10_000_000
"""Where the search for ε and for n ends."""


# ---- what is compared ----------------------------------------------------------------------------------


def _choices(mechanisms: Iterable[Choice] | str | None) -> Chosen | None:
    if mechanisms is None:
        return None
    listed: Chosen = []
    for choice in [mechanisms] if isinstance(mechanisms, str) else mechanisms:
        name, options = (choice, {}) if isinstance(choice, str) else (choice[0], dict(choice[1]))
        listed.append((check_options(name, options).name, options))
    if not listed:
        raise InvalidInput("mechanisms is empty; name at least one, or leave it out")
    return listed


def _rows(chosen: Chosen | None, setting: Setting, epsilon: Fraction) -> tuple[PlanRow, ...]:
    """A row per mechanism; of the default ones those that work at this size."""
    rows = []
    for name, options in watched(setting.default if chosen is None else chosen, "mechanisms compared"):
        try:
            rows.append(setting.row(setting.built(name, epsilon, options), options))
        except (InvalidInput, TooLargeError):
            if chosen is not None or name == automatic(setting.relation):
                raise
    return tuple(rows)


# ---- the plan ------------------------------------------------------------------------------------------


@overload
def plan(kind: None = None, **parameters: Any) -> Plan: ...


@overload
def plan(kind: str, **parameters: Any) -> IntervalPlan: ...


def plan(
    kind: str | None = None,
    *,
    prior: Any = None,
    n: int | None = None,
    epsilon: EpsilonLike | None = None,
    delta: EpsilonLike | None = None,
    relation: str = "replace-one",
    within: float | str | None = None,
    error: float | None = None,
    mechanisms: Iterable[Choice] | str | None = None,
    public: Sequence[float] | None = None,
    level: float = 0.95,
    share: float = 0.5,
    seed: int = 0,
    quick: bool = False,
    of: str | None = None,
    typical: float | None = None,
    correlation: float = 0.0,
    spread: float | None = None,
    left_out: float | None = None,
    **fields: Any,
) -> Plan | IntervalPlan:
    """How precise a release will be, from public parameters only; or which ε or n a precision needs.

    Give two of ``n``, ``epsilon`` and a target. ``within="3 points"`` (or 0.03) asks that the interval of a
    share be ± 3 percentage points, the noise of privacy included; ``error`` asks for an expected Hellinger
    error. With n and ε the plan compares the mechanisms. With n and a target it also finds the smallest ε,
    to four digits and rounded up, at which the best mechanism reaches it; with ε and a target the smallest
    n from which on it does (with very few records the posterior is close to the prior and any mechanism has
    a small error, which is not what is asked). The search looks at ``mechanisms`` where they are given.

    ``relation="add-remove"`` plans for a private number of records, of which n is a guess. With ``delta``
    the plan compares ``gaussian`` too, and says from how many tables on it is ahead that overlap and share
    the budget (ε, δ).

    ``mechanisms``: names, or pairs (name, options). ``public``: counts of public records, one per level, that
    enter the prior (``prior.updated_with_public``); the plan then also says what they buy. ``level``: of the
    credible intervals whose width is compared; they are those of a ``share`` of a half, the widest, unless
    you say another. ``seed``: of the simulations; the same seed gives the same
    plan. ``quick``: expected errors only, of the lattice and count mechanisms unless ``mechanisms`` says
    otherwise, in about 0.3 seconds.

    ``plan("regress", …)``, ``plan("mean", …)`` and for counts ``plan("proportion", …)``, ``"table"`` and
    ``"conditional"`` say how wide intervals will be: an :class:`IntervalPlan`. They take the fields of
    :func:`discreet.regress`, :func:`discreet.mean`, :func:`discreet.release` and so on, and two of n, ε and
    ``within``, the ± wanted of the coefficient ``of`` (the widest but the intercept, if not said).
    ``left_out`` is the guessed share of records without a value where ``missing="exclude"`` leaves them out
    (0.1 if not said). With ``expected_false`` the plan is about numbers of records, and says from how many on
    a level stands out.
    ``typical`` is guessed of one record: the standard deviation of a number or of a gaussian model's errors,
    the share of a binomial model's second level, the mean count of a Poisson model, the share of a level
    (0.5; 0.01 of those that stand out). ``correlation`` is
    guessed of the columns, and ``spread`` of numbers: their standard deviation as a part of the range between
    their bounds (0.29, spread evenly, if not said; often 0.15). These plans are about made-up records and
    depend on nothing else.

    >>> p = plan(prior=(1, 1), n=20, epsilon=0.8)
    >>> p.best, round(p.row("lattice").expected, 4), round(p.limit, 4)
    ('lattice', 0.1884, 0.1884)
    >>> plan(prior=(1, 1), epsilon=1, within="3 points").n
    1071
    """
    if kind is not None:
        if error is not None or mechanisms is not None or public is not None:
            raise InvalidInput(f"error, mechanisms and public are not of a plan of {kind!r}; within is")
        given = {**fields, **({} if prior is None else {"prior": prior})}
        given |= {} if delta is None else {"delta": delta}
        given |= {} if relation == "replace-one" else {"relation": relation}
        guessed: dict[str, Any] = {"typical": typical, "correlation": correlation, "spread": spread}
        guessed["left_out"] = left_out
        wanted: dict[str, Any] = {"n": n, "epsilon": epsilon, "within": within, "of": of}
        return plan_intervals(kind, given, level=level, seed=seed, **wanted, **guessed)
    if fields or of is not None or typical is not None:
        name = next(iter(fields), "of")
        raise InvalidInput(
            f"{name!r} belongs to plan('regress', …), plan('mean', …) or plan('proportion', …): say which"
        )
    if prior is None:
        raise InvalidInput("prior is missing, such as prior=(1, 1); or say plan('regress', …)")
    parameters = as_prior(prior)
    chosen = _choices(mechanisms)
    if not 0 < level < 1:
        raise InvalidInput(f"level={level!r} must be a probability between 0 and 1, such as 0.95")
    number = as_integer(seed, "seed")
    if number < 0:
        raise InvalidInput(f"seed={seed!r} must not be negative")
    if sum(value is None for value in (n, epsilon, error, within)) != 2:
        raise InvalidInput(
            "give two of n, epsilon and within (or error): n and epsilon to compare the mechanisms, n and "
            "within to find epsilon, epsilon and within to find n"
        )
    size = None if n is None else as_size(n)
    budget = None if epsilon is None else as_epsilon(epsilon)
    target = None if error is None else _as_error(error)
    half = None if within is None else as_within(within, POINTS)
    alone = parameters
    if public is not None:
        parameters = dirichlet(parameters).updated_with_public(public).parameters
    kind_of = as_relation(relation)
    allowed = None if delta is None else as_epsilon(delta, "delta")
    own: dict[str, Any] = {"relation": kind_of, "delta": allowed}
    aims = target, half, as_probability(share, "share", "0.5")
    ask = _Question(parameters, chosen, float(level), number, quick, *aims, **own)
    if size is None:
        assert budget is not None
        found = ask.with_size(budget)
    else:
        found = ask.with_epsilon(size) if budget is None else ask.compare(size, budget)
    if public is None or found.best_row is None:
        return found
    without = _Question(alone, chosen, float(level), number, quick=True, **own)
    return replace(found, public=_public_gain(found, found.best_row.expected, without, public))


def _public_gain(found: Plan, error: float, without: _Question, counts: Sequence[float]) -> PublicGain:
    error_without = without.error(found.n, found.exact_epsilon, without.chosen)
    try:
        same = _Question(found.prior, without.chosen, found.level, without.seed, True, error_without)
        epsilon: float | None = same.with_epsilon(found.n).epsilon
    except InvalidInput:  # not reached within the limits of the search
        epsilon = None
    draws = [
        DirichletFamily().curve(tuple(map(Fraction, prior)), found.n, Fraction(1)).epsilon_at(1e-6)
        for prior in (without.prior, found.prior)
    ]
    return PublicGain(tuple(int(count) for count in counts), error_without, error, epsilon, *draws)


def _as_error(error: Any) -> float:
    if not 0 < (value := as_float(error)) < 1:
        raise InvalidInput(
            f"error={error!r} must be between 0 and 1: it is a Hellinger distance, 0 for the true posterior"
        )
    return value


@dataclass(frozen=True)
class _Question:
    prior: tuple[float, ...]
    chosen: Chosen | None
    level: float
    seed: int
    quick: bool
    error_wanted: float | None = None
    within: float | None = None
    share: float = 0.5
    relation: Relation = Relation.REPLACE_ONE
    delta: Fraction | None = None
    known: dict[tuple[int, Fraction, bool], float] = field(default_factory=dict)

    def compare(self, n: int, epsilon: Fraction) -> Plan:
        setting = self._setting(n, quick=self.quick, widths=self.within is not None)
        rows = _rows(self.chosen, setting, epsilon)
        limit = None
        if not self.quick and self.relation is Relation.REPLACE_ONE and self.delta is None:
            try:
                limit = optimal_error(prior=self.prior, n=n, epsilon=epsilon)
            except DiscreetError:  # too large, or not solved
                limit = None
        wanted = self.error_wanted, self.within
        tables = (
            None if self.delta is None else gaussian_from(epsilon, self.delta, len(self.prior), self.relation)
        )
        promised: dict[str, Any] = {"relation": str(self.relation), "delta": self.delta}
        promised["gaussian_from"] = tables
        return Plan(self.prior, n, epsilon, rows, limit, self.level, *wanted, self.share, **promised)

    def _setting(self, n: int, **how: Any) -> Setting:
        own: dict[str, Any] = {"relation": self.relation, "delta": self.delta}
        return Setting(self.prior, n, level=self.level, share=self.share, seed=self.seed, **own, **how)

    @property
    def _usual(self) -> Chosen:
        """What "auto" takes."""
        own = {} if self.delta is None else {"delta": self.delta}
        return [(automatic(self.relation, own), own)]

    @property
    def target(self) -> float:
        """What is to be reached: a half-width or an error."""
        wanted = self.error_wanted if self.within is None else self.within
        assert wanted is not None
        return wanted

    def value(self, n: int, epsilon: Fraction, chosen: Chosen | None) -> float:
        """What is compared with the target, of the best mechanism."""
        if self.within is None:
            return self.error(n, epsilon, chosen)
        key = (n, epsilon, chosen is self.chosen)
        if key not in self.known:
            setting = self._setting(n)
            names = self._usual if chosen is None else chosen
            made = [setting.built(name, epsilon, own) for name, own in names]
            self.known[key] = min(setting.width(m) / 2 for m in made)
        return self.known[key]

    def _reached(self, found: Plan) -> bool:
        best = found.best_row
        return best is not None and (best.expected if self.within is None else best.width / 2) <= self.target

    def error(self, n: int, epsilon: Fraction, chosen: Chosen | None) -> float:
        """Expected error of the best mechanism among ``chosen``, or the quick ones."""
        key = (n, epsilon, chosen is self.chosen)
        if key not in self.known:
            setting = self._setting(n, quick=self.quick, only_expected=True)
            best = best_of(_rows(chosen, setting, epsilon))
            if best is None:
                raise InvalidInput(
                    "none of the mechanisms promises epsilon with delta = 0; add one, such as lattice"
                )
            self.known[key] = best.expected
        return self.known[key]

    def _smallest(self, search: Callable[[Chosen | None], int], reached: Callable[[int], bool]) -> int:
        """Smallest index that reaches the target: for what "auto" takes, then checked for all mechanisms."""
        if self.chosen is None:
            found = search(self._usual)
            if reached(found) and (found == 0 or not reached(found - 1)):
                return found
        return search(self.chosen)

    @property
    def _wanted(self) -> str:
        return f"{'error' if self.within is None else 'within'}={self.target:g}"

    def with_epsilon(self, n: int) -> Plan:
        """The plan at the smallest ε that reaches the target."""
        target, last = self.target, _index_of(MAX_EPSILON)
        least = width_without(self.prior, n, share=self.share, level=self.level) / 2
        if self.within is not None and target <= least:
            raise InvalidInput(
                f"within: n={n} records give ± {100 * least:.3g} points even without privacy; more precision "
                "needs more records"
            )

        def search(chosen: Chosen | None) -> int:
            def value(index: int) -> float:
                return self.value(n, _epsilon_at(index), chosen)

            high = _index_of(Fraction(1))
            while value(high) > target:  # by decades, up or down from 1
                if high == last:
                    raise InvalidInput(
                        f"{self._wanted} is not reached with n={n}: the best at epsilon = "
                        f"{float(MAX_EPSILON):g} is {value(high):.4g}"
                    )
                high = min(high + 9000, last)
            low = max(high - 9000, 0)
            while low and value(low) <= target:
                low, high = max(low - 9000, 0), low
            return _first_below(
                low, high, value, target, lambda i: float(_epsilon_at(i)), lambda x: _index_of(Fraction(x))
            )

        index = self._smallest(search, lambda i: self.value(n, _epsilon_at(i), self.chosen) <= target)
        while True:
            found = self.compare(n, _epsilon_at(index))
            if index >= last or self._reached(found):
                return found
            index = min(index + max(1, (1000 + index % 9000) // 500), last)

    def with_size(self, epsilon: Fraction) -> Plan:
        """The plan at the smallest n from which on the target is reached."""
        target = self.target
        sizes = [2**i for i in range(MAX_N.bit_length()) if 2**i < MAX_N] + [MAX_N]

        def search(chosen: Chosen | None) -> int:
            low, before = 0, 0.0  # without records there is no error
            for size in sizes:
                value = self.value(size, epsilon, chosen)
                if value > target:
                    low = size
                elif value <= before:
                    break  # past the rise that small n can have
                before = value
            if low == MAX_N:
                raise InvalidInput(
                    f"{self._wanted} is not reached with epsilon={float(epsilon):g}: the best at "
                    f"n = {MAX_N} is {value:.4g}"
                )
            if not low:
                return 1
            high = min(size for size in sizes if size > low)
            return _first_below(low, high, lambda i: self.value(i, epsilon, chosen), target, float, round)

        n = self._smallest(search, lambda i: i > 0 and self.value(i, epsilon, self.chosen) <= target)
        while True:
            found = self.compare(n, epsilon)
            if n >= MAX_N or self._reached(found):
                return found
            n = min(n + max(1, n // 500), MAX_N)


def gaussian_from(epsilon: Fraction, delta: Fraction, k: int, relation: Relation) -> int | None:
    """From how many overlapping tables on, which share (ε, δ), gaussian noise is smaller than geometric.

    T pure releases of e together have δ(ε) = Σ C(T, i)·[e^{(T−i)e} − e^{ε + ie}]₊/(1 + e^e)^T at worst, each
    as randomised response (Kairouz, Oh and Viswanath 2015): e is the largest for which that is within δ. T
    gaussian ones have T times the variance of one. Where n is public the k counts are known to sum to it:
    σ²(1 − 1/k) is left of independent variances, and of Laplace noise of rate e/2 that sums to zero, by the
    integrals of (1 + t²)^{−m}, (8(k² − ¼)/(k(k + 1)) − 6(k − ½)/k)·4/e². None: not up to 10,000 tables.
    """
    hidden = relation is Relation.ADD_REMOVE
    one = (1 if hidden else 2 * (1 - 1 / k)) / float(largest_gaussian(epsilon, delta))
    pure = 2.0 if hidden else 4 * (8 * (k * k - 0.25) / (k * (k + 1)) - 6 * (k - 0.5) / k)

    def spent(tables: int, each: float) -> float:
        i = np.arange(tables + 1.0)
        loss, log_ways = (
            (tables - 2 * i) * each,
            gammaln(tables + 1) - gammaln(i + 1) - gammaln(tables - i + 1),
        )
        chance = np.exp(log_ways + (tables - i) * each - tables * np.logaddexp(0.0, each))
        return float((chance * -np.expm1(np.minimum(float(epsilon) - loss, 0.0))).sum())

    def ahead(tables: int) -> bool:
        low, high = float(epsilon) / tables, float(epsilon)
        for _ in range(50):
            middle = (low + high) / 2
            low, high = (middle, high) if spent(tables, middle) <= float(delta) else (low, middle)
        return tables * one < pure / low**2

    last = 1
    while not ahead(last):
        if last >= 10_000:
            return None
        last *= 2
    first = last // 2
    while last - first > 1:
        middle = (first + last) // 2
        first, last = (first, middle) if ahead(middle) else (middle, last)
    return last


def _epsilon_at(index: int) -> Fraction:
    """The numbers of four significant digits from MIN_EPSILON on, in order."""
    decade, step = divmod(index, 9000)
    return MIN_EPSILON * Fraction((1000 + step) * 10**decade, 1000)


def _index_of(epsilon: Fraction) -> int:
    decade, left = 0, epsilon / MIN_EPSILON
    while left >= 10:
        decade, left = decade + 1, left / 10
    return 9000 * decade + math.floor(1000 * left) - 1000


def _first_below(
    low: int,
    high: int,
    value: Callable[[int], float],
    target: float,
    place: Callable[[int], float],
    index: Callable[[float], int],
) -> int:
    """Smallest index in [low, high] whose value is at most ``target``; values fall, value(high) is below.

    Interpolates log value over log place(index) between the ends of the bracket, and halves it when that is
    slow. ``index`` is the inverse of ``place``, rounded.
    """
    if (above := value(low)) <= target:
        return low
    below = value(high)
    slow = False
    while high - low > 1:
        width = high - low
        share = 0.5
        if above > target > below > 0:
            share = math.log(above / target) / math.log(above / below)
        if slow:
            share = 0.5 * (share + (0.0 if share > 0.5 else 1.0))  # towards the far end
        a, b = math.log(place(low)), math.log(place(high))
        middle = min(max(index(math.exp(a + share * (b - a))), low + 1), high - 1)
        at = value(middle)
        if at <= target:
            high, below = middle, at
        else:
            low, above = middle, at
        slow = not slow and high - low > width // 2
    return high


# ---- for releases and plots ----------------------------------------------------------------------------


def chosen_mechanisms(mechanisms: Iterable[Choice] | str | None, prior: tuple[float, ...], n: int) -> Chosen:
    """What to compare: what was asked for, or what a plan compares by default and works at this size."""
    return _choices(mechanisms) or default_mechanisms(prior, n)


def simulated_errors(
    name: str,
    options: Mapping[str, Any],
    prior: tuple[float, ...],
    n: int,
    epsilon: EpsilonLike,
    *,
    size: int = 1000,
    seed: int = 0,
    counts: Iterable[Any] | None = None,
) -> FloatArray:
    """About ``size`` Hellinger errors of a mechanism at ``counts``, or at prior predictive datasets."""
    m = MECHANISMS[name](prior=prior, n=n, epsilon=as_epsilon(epsilon), **options)
    setting = Setting(prior, n, seed=seed)
    if counts is not None:
        true = np.array([as_counts(counts, m.k, n)], dtype=np.int64)
        return setting._errors(true, m.simulate(true[0], size, seed))
    number = min(m.sample_sizes(quick=False)[0], size)
    true = setting.drawn(number)
    drawn = setting.simulate(m, true, -(-size // number), np.random.default_rng([seed, 1]))
    return setting._errors(true, drawn)
