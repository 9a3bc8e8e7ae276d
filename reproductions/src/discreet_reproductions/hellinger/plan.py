"""Which mechanism, which ε, how many records: answered from public parameters, before any data is opened."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.special import gammaln

from discreet._declarations import (
    Relation,
    as_counts,
    as_epsilon,
    as_float,
    as_integer,
    as_prior,
    as_probability,
    as_relation,
    as_size,
)
from discreet._inference.made_up_counts import width_without
from discreet._numerics.search import boundary
from discreet.distributions.beta_dirichlet import dirichlet
from discreet.errors import DiscreetError, InvalidInputError, TooLargeError
from discreet.mechanisms import MECHANISMS, automatic
from discreet.planning.progress import track_progress
from discreet.posterior_sampling.families.categorical import DirichletFamily
from discreet.privacy.curves import largest_gaussian
from discreet_reproductions.arrays import EpsilonLike, FloatArray
from discreet_reproductions.hellinger.expected_error import (
    Chosen,
    PlanRow,
    Setting,
    label,
    mechanism_class,
    sample_sizes,
)
from discreet_reproductions.hellinger.optimal import Optimal, optimal_error

Choice: TypeAlias = str | tuple[str, Mapping[str, Any]]

MIN_EPSILON, MAX_EPSILON, MAX_N = Fraction(1, 10_000), Fraction(50), 10_000_000
"""Where the search for ε or n ends."""


# ---- what a plan says --------------------------------------------------------------------------------


@dataclass(frozen=True)
class PublicGain:
    """What public records, added to the prior, buy at the same n; made by ``plan(..., public=counts)``."""

    counts: tuple[int, ...]
    error_without: float
    """Least expected error at the plan's ε without the public records."""
    error_with: float
    epsilon_for_error: float | None
    """The ε that gives, with the public records, the error that the plan's ε gives without them."""
    draw_without: float
    """ε at δ = 10⁻⁶ of one draw from the posterior itself (:func:`discreet.posterior_sampler`, direct)."""
    draw_with: float

    def __str__(self) -> str:
        same = self.epsilon_for_error
        saved = "" if same is None else f", or the same error at ε = {same:.4g}"
        return (
            f"{sum(self.counts)} public records: expected error {self.error_with:.4f} instead of "
            f"{self.error_without:.4f}{saved}; one direct posterior draw ε = {self.draw_with:.4g} instead of "
            f"{self.draw_without:.4g} at δ = 1e-6"
        )


@dataclass(frozen=True)
class Plan:
    """The mechanisms that fit public parameters, with the error to expect of each; made by :func:`plan`."""

    prior: tuple[float, ...]
    n: int
    exact_epsilon: Fraction
    rows: tuple[PlanRow, ...]
    limit: float | None
    """Least expected error of any ε-private mechanism from data to posteriors of n records, where the linear
    program can be solved; else None."""
    level: float = 0.95
    error: float | None = None
    """The target that ε or n was solved for."""
    within: float | None = None
    """The same, where it was the half-width of an interval."""
    share: float = 0.5
    """The share whose interval is planned."""
    public: PublicGain | None = None
    """What public records buy, where such were given; they are in ``prior`` already."""
    relation: str = "replace-one"
    delta: Fraction | None = None
    gaussian_from: int | None = None
    """From so many tables on, which overlap and share (ε, δ), ``gaussian`` has the smaller noise."""

    @property
    def epsilon(self) -> float:
        return float(self.exact_epsilon)

    @property
    def best(self) -> str | None:
        """Name of the private mechanism with the least expected error; None if no row promises ε."""
        return None if self.best_row is None else self.best_row.name

    @cached_property
    def best_row(self) -> PlanRow | None:
        return best_of(self.rows)

    def row(self, name: str, **options: Any) -> PlanRow:
        """The row of a mechanism, the first of that name unless options say which."""
        for row in self.rows:
            if row.name == name and (not options or dict(row.options) == options):
                return row
        listed = ", ".join(row.label for row in self.rows)
        raise InvalidInputError(f"{label(name, options)!r} is not in this plan; it has: {listed}")

    def table(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        names = ("expected", "standard_error", "median", "q95", "kl", "l1", "width", "width_without")
        return [
            {
                "mechanism": row.name,
                "options": {key: str(value) for key, value in row.options.items()},
                **{name: None if math.isnan(value := getattr(row, name)) else value for name in names},
                "method": row.method,
                "private": row.comparable,
            }
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "prior": list(self.prior),
            "n": self.n,
            "epsilon": str(self.exact_epsilon),
            **({} if self.relation == "replace-one" else {"relation": self.relation}),
            **({} if self.delta is None else {"delta": str(self.delta), "gaussian_from": self.gaussian_from}),
            "error": self.error,
            "within": self.within,
            "share": self.share,
            "level": self.level,
            "best": self.best,
            "limit": self.limit,
            "public": None if self.public is None else asdict(self.public),
            "mechanisms": self.table(),
        }

    def header(self) -> list[str]:
        return ["mechanism", "± points", "error", "how"]

    def cells(self) -> list[list[str]]:
        """The table as text, one list per row, in the order of :meth:`header`."""
        rows = []
        for row in self.rows:
            error = f"{row.expected:.4f}" + (f" ± {row.standard_error:.4f}" if row.standard_error else "")
            rows.append([row.label + ("" if row.comparable else " *"), _points(row.width), error, row.method])
        limit = [] if self.limit is None else [["limit", "–", f"{self.limit:.4f}", "linear program"]]
        return rows + limit

    def title(self) -> str:
        asked = "Plan for " if self.error is None else f"Expected error ≤ {self.error:g}: "
        if self.within is not None:
            asked = f"Within ± {_points(2 * self.within)} points: "
        prior = ", ".join(f"{a:g}" for a in self.prior)
        budget = f"ε = {self.epsilon:g}" + ("" if self.delta is None else f", δ = {float(self.delta):g}")
        hidden = "" if self.relation == "replace-one" else f", {self.relation}: n is private"
        return f"{asked}n = {self.n} records{hidden}, {budget}, prior ({prior})"

    def notes(self) -> list[str]:
        """What the table means, and what it recommends."""
        lines, best = [], self.best_row
        if best is not None and not math.isnan(best.width):
            lines.append(
                f"A share of {100 * self.share:g} % will have a {100 * self.level:g} % interval of about "
                f"± {_points(best.width)} percentage points, the noise of privacy included "
                f"(± {_points(best.width_without)} without privacy)."
            )
        lines.append(
            "Errors are Hellinger distances (0 to 1) between the released and the true posterior, on "
            "average over data sets that the prior expects."
        )
        if any(not row.comparable for row in self.rows):
            lines.append(f"* does not promise ε = {self.epsilon:g} with δ = 0; for comparison.")
        if self.delta is not None:
            several = "more than 10,000" if self.gaussian_from is None else f"{self.gaussian_from:,}"
            lines.append(
                f"Of several tables that overlap and share this budget, gaussian has the smaller noise from "
                f"{several} on."
            )
        if self.limit is not None:
            lines.append("The limit is the least error that any mechanism of this ε can have.")
        if best is not None:
            lines.append(f"Best: {best.label}.")
        if self.public is not None:
            lines.append(f"{self.public}.")
        return lines

    def __str__(self) -> str:
        cells = [self.header(), *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = []
        for row in cells:
            middle = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]).rstrip())
        notes = (wrapped for note in self.notes() for wrapped in textwrap.wrap(note, 80))
        return "\n".join([*textwrap.wrap(self.title(), 80), "", *lines, "", *notes])


def _points(width: float) -> str:
    """Half of a width of a share, in percentage points."""
    return "–" if math.isnan(width) else f"{50 * width:#.3g}"


def best_of(rows: Iterable[PlanRow]) -> PlanRow | None:
    """The least expected error among equally private rows; what noise cannot tell apart by their order."""
    rows = [row for row in rows if row.comparable]
    if not rows:
        return None
    least = min(rows, key=lambda row: row.expected)
    ties = [
        row
        for row in rows
        if row.expected - least.expected <= 1e-9 + 2 * math.hypot(row.standard_error, least.standard_error)
    ]
    order = [
        *MECHANISMS,
        Optimal.name,
    ]  # of equal expected error the earlier one is recommended
    return min(ties, key=lambda row: order.index(row.name))


# ---- what is compared ----------------------------------------------------------------------------------


def _choices(mechanisms: Iterable[Choice] | str | None) -> Chosen | None:
    if mechanisms is None:
        return None
    listed: Chosen = []
    for choice in [mechanisms] if isinstance(mechanisms, str) else mechanisms:
        name, options = (choice, {}) if isinstance(choice, str) else (choice[0], dict(choice[1]))
        listed.append((mechanism_class(name, options).name, options))
    if not listed:
        raise InvalidInputError("mechanisms is empty; name at least one, or leave it out")
    return listed


def chosen_mechanisms(mechanisms: Iterable[Choice] | str | None, prior: tuple[float, ...], n: int) -> Chosen:
    """What to compare: what was asked for, or what a plan compares by default and works at this size."""
    return _choices(mechanisms) or Setting(prior, n).default


def _rows(chosen: Chosen | None, setting: Setting, epsilon: Fraction) -> tuple[PlanRow, ...]:
    """A row per mechanism; of the default ones those that work at this size."""
    rows = []
    for name, options in track_progress(setting.default if chosen is None else chosen, "mechanisms compared"):
        try:
            rows.append(setting.row(setting.built(name, epsilon, options), options))
        except (InvalidInputError, TooLargeError):
            if chosen is not None or name == automatic(setting.relation):
                raise
    return tuple(rows)


# ---- the plan ------------------------------------------------------------------------------------------


def plan(
    *,
    prior: Any,
    n: int | None = None,
    epsilon: EpsilonLike | None = None,
    delta: EpsilonLike | None = None,
    relation: str = "replace-one",
    within: float | None = None,
    error: float | None = None,
    mechanisms: Iterable[Choice] | str | None = None,
    public: Sequence[float] | None = None,
    level: float = 0.95,
    share: float = 0.5,
    seed: int = 0,
    quick: bool = False,
) -> Plan:
    """How near the released posterior will be to the true one, by mechanism; or which ε or n that needs.

    Give two of ``n``, ``epsilon`` and a target: ``error``, an expected Hellinger error, or ``within``, half
    of the interval of a share. With n and ε the plan compares the mechanisms. With n and a target it also
    finds the smallest ε, to four digits and rounded up, at which the best mechanism reaches it; with ε and a
    target the smallest n from which on it does (with very few records the posterior is close to the prior
    and any mechanism has a small error, which is not what is asked).

    ``relation="add-remove"`` plans for a private number of records, of which n is a guess. With ``delta`` the
    plan compares ``gaussian`` too, and says from how many overlapping tables on, which share (ε, δ), it is
    ahead. ``mechanisms``: names, or pairs (name, options). ``public``: counts of public records that enter
    the prior (``prior.updated_with_public``); the plan then says what they buy. ``level``: of the intervals,
    which are those of a ``share`` of a half, the widest, unless you say another. The same ``seed`` gives the
    same plan. ``quick``: expected errors only, of the lattice and count mechanisms, in about 0.3 seconds.

    >>> p = plan(prior=(1, 1), n=20, epsilon=0.8)
    >>> p.best, round(p.row("lattice").expected, 4), round(p.limit, 4)
    ('lattice', 0.1884, 0.1884)
    >>> plan(prior=(1, 1), epsilon=1, within=0.03).n
    1071
    """
    parameters, chosen, number = as_prior(prior), _choices(mechanisms), as_integer(seed, "seed")
    if not 0 < level < 1:
        raise InvalidInputError(f"level={level!r} must be a probability between 0 and 1, such as 0.95")
    if number < 0:
        raise InvalidInputError(f"seed={seed!r} must not be negative")
    if sum(value is None for value in (n, epsilon, error, within)) != 2:
        raise InvalidInputError(
            "give two of n, epsilon and within (or error): n and epsilon to compare the mechanisms, n and "
            "within to find epsilon, epsilon and within to find n"
        )
    size = None if n is None else as_size(n)
    budget = None if epsilon is None else as_epsilon(epsilon)
    if error is not None and not 0 < as_float(error) < 1:
        raise InvalidInputError(
            f"error={error!r} must be between 0 and 1: it is a Hellinger distance, 0 for the true posterior"
        )
    target = None if error is None else as_float(error)
    half = None if within is None else as_probability(within, "within", "0.03")
    more = parameters if public is None else dirichlet(parameters).updated_with_public(public).parameters
    setting = Setting(
        more,
        size or 1,
        level=float(level),
        share=as_probability(share, "share", "0.5"),
        seed=number,
        quick=quick,
        relation=as_relation(relation),
        delta=None if delta is None else as_epsilon(delta, "delta"),
    )
    search = _Search(setting, chosen, target, half)
    if size is not None:
        found = search.with_epsilon(size) if budget is None else search.compare(size, budget)
    else:
        assert budget is not None
        found = search.with_size(budget)
    if public is None or found.best_row is None:
        return found
    alone = _Search(replace(setting, prior=parameters, quick=True), chosen)
    return replace(found, public=_public_gain(found, found.best_row.expected, alone, public))


def _public_gain(found: Plan, error: float, alone: _Search, counts: Sequence[float]) -> PublicGain:
    error_alone = alone.value(found.n, found.exact_epsilon, alone.chosen)
    with_public = Setting(found.prior, found.n, level=found.level, seed=alone.setting.seed, quick=True)
    try:
        same = _Search(with_public, alone.chosen, error_alone)
        epsilon: float | None = same.with_epsilon(found.n).epsilon
    except InvalidInputError:  # not reached within the limits of the search
        epsilon = None
    draws = [
        DirichletFamily().curve(tuple(map(Fraction, prior)), found.n, Fraction(1)).epsilon_at(1e-6)
        for prior in (alone.setting.prior, found.prior)
    ]
    return PublicGain(tuple(int(count) for count in counts), error_alone, error, epsilon, *draws)


@dataclass(frozen=True)
class _Search:
    """What a plan compares, in a setting whose n varies, and the error or half-width that is wanted."""

    setting: Setting
    chosen: Chosen | None
    error: float | None = None
    within: float | None = None
    known: dict[tuple[int, Fraction, bool], float] = field(default_factory=dict)

    def compare(self, n: int, epsilon: Fraction) -> Plan:
        own = replace(self.setting, n=n, widths=self.within is not None)
        rows, limit, tables = _rows(self.chosen, own, epsilon), None, None
        if own.delta is not None:
            tables = gaussian_from(epsilon, own.delta, own.k, own.relation)
        elif not own.quick and own.relation is Relation.REPLACE_ONE:
            with suppress(DiscreetError):  # too large, or not solved
                limit = optimal_error(prior=own.prior, n=n, epsilon=epsilon)
        promised: dict[str, Any] = {"relation": str(own.relation), "delta": own.delta}
        wanted = own.level, self.error, self.within, own.share
        return Plan(own.prior, n, epsilon, rows, limit, *wanted, **promised, gaussian_from=tables)

    @property
    def target(self) -> float:
        """What is to be reached: a half-width or an error."""
        wanted = self.error if self.within is None else self.within
        assert wanted is not None
        return wanted

    def value(self, n: int, epsilon: Fraction, chosen: Chosen | None) -> float:
        """What is compared with the target, of the best mechanism among ``chosen`` or of the quick ones."""
        key = (n, epsilon, chosen is self.chosen)
        if key not in self.known:
            setting = replace(self.setting, n=n, only_expected=True)
            if self.within is not None:
                made = (setting.built(name, epsilon, own) for name, own in chosen or self._usual)
                self.known[key] = min(setting.width(m) / 2 for m in made)
            elif (best := best_of(_rows(chosen, setting, epsilon))) is not None:
                self.known[key] = best.expected
            else:
                raise InvalidInputError(
                    "none of the mechanisms promises epsilon with delta = 0; add one, such as lattice"
                )
        return self.known[key]

    @property
    def _usual(self) -> Chosen:
        """What "auto" takes."""
        own = {} if self.setting.delta is None else {"delta": self.setting.delta}
        return [(automatic(self.setting.relation, own), own)]

    def with_epsilon(self, n: int) -> Plan:
        """The plan at the smallest ε that reaches the target."""
        setting, last = self.setting, _EPSILONS.last
        least = width_without(setting.prior, n, share=setting.share, level=setting.level) / 2
        if self.within is not None and self.within <= least:
            raise InvalidInputError(
                f"within: n={n} records give ± {100 * least:.3g} points even without privacy; more precision "
                "needs more records"
            )

        def bracket(value: Callable[[int], float]) -> tuple[int, int]:
            high = _index_of(1.0)
            while value(high) > self.target:  # by decades, up or down from 1
                if high == last:
                    raise self._missed(f"n={n}: the best at epsilon = {float(MAX_EPSILON):g}", value(high))
                high = min(high + 9000, last)
            low = max(high - 9000, 0)
            while low and value(low) <= self.target:
                low, high = max(low - 9000, 0), low
            return low, high

        return self._first(_EPSILONS, lambda index: (n, _epsilon_at(index)), bracket)

    def with_size(self, epsilon: Fraction) -> Plan:
        """The plan at the smallest n from which on the target is reached."""
        sizes = [2**i for i in range(MAX_N.bit_length()) if 2**i < MAX_N] + [MAX_N]

        def bracket(value: Callable[[int], float]) -> tuple[int, int]:
            low, before = 0, 0.0  # without records there is no error
            for size in sizes:
                at = value(size)
                if at > self.target:
                    low = size
                elif at <= before:
                    break  # past the rise that small n can have
                before = at
            if low == MAX_N:
                raise self._missed(f"epsilon={float(epsilon):g}: the best at n = {MAX_N}", at)
            return max(low, 1), min(size for size in sizes if size > low)

        return self._first(_SIZES, lambda n: (n, epsilon), bracket)

    def _missed(self, where: str, best: float) -> InvalidInputError:
        wanted = "error" if self.within is None else "within"
        return InvalidInputError(f"{wanted}={self.target:g} is not reached with {where} is {best:.4g}")

    def _first(
        self,
        grid: _Grid,
        at: Callable[[int], tuple[int, Fraction]],
        bracket: Callable[[Callable[[int], float]], tuple[int, int]],
    ) -> Plan:
        """The plan at the smallest index that reaches the target."""

        def search(chosen: Chosen | None) -> int:
            def value(index: int) -> float:
                return self.value(*at(index), chosen)

            return _first_below(*bracket(value), value, self.target, grid)

        def reached(index: int) -> bool:
            return self.value(*at(index), self.chosen) <= self.target

        index = search(self.chosen or self._usual)
        if self.chosen is None and (not reached(index) or (index > grid.first and reached(index - 1))):
            index = search(None)  # another mechanism than what "auto" takes
        while True:
            found = self.compare(*at(index))
            best = found.best_row
            value = math.nan if best is None else best.expected if self.within is None else best.width / 2
            if index >= grid.last or value <= self.target:
                return found
            index = min(index + max(1, grid.digits(index) // 500), grid.last)


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
        each = boundary(lambda e: spent(tables, e) <= float(delta), low, high, relative=1e-14)
        return tables * one < pure / each**2

    last = 1
    while not ahead(last):
        if last >= 10_000:
            return None
        last *= 2
    return boundary(ahead, last, last // 2)


class _Grid(NamedTuple):
    """Numbers that are searched by their index: the number there, and the index of a number, rounded."""

    number: Callable[[int], Fraction | int]
    nearest: Callable[[float], int]
    digits: Callable[[int], int]
    """The number at an index by its first digits."""
    first: int
    last: int


def _epsilon_at(index: int) -> Fraction:
    """The numbers of four significant digits from MIN_EPSILON on, in order."""
    decade, step = divmod(index, 9000)
    return MIN_EPSILON * Fraction((1000 + step) * 10**decade, 1000)


def _index_of(epsilon: Fraction | float) -> int:
    decade, left = 0, Fraction(epsilon) / MIN_EPSILON
    while left >= 10:
        decade, left = decade + 1, left / 10
    return 9000 * decade + math.floor(1000 * left) - 1000


_EPSILONS = _Grid(_epsilon_at, _index_of, lambda index: 1000 + index % 9000, 0, _index_of(MAX_EPSILON))
_SIZES = _Grid(int, round, int, 1, MAX_N)


def _first_below(low: int, high: int, value: Callable[[int], float], target: float, grid: _Grid) -> int:
    """Smallest index in [low, high] whose value is at most ``target``; values fall, value(high) is below.

    Interpolates log value over the log of the number between the ends of the bracket, and halves it when
    that is slow.
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
        a, b = math.log(grid.number(low)), math.log(grid.number(high))
        middle = min(max(grid.nearest(math.exp(a + share * (b - a))), low + 1), high - 1)
        at = value(middle)
        if at <= target:
            high, below = middle, at
        else:
            low, above = middle, at
        slow = not slow and high - low > width // 2
    return high


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
    m = mechanism_class(name, options)(prior=prior, n=n, epsilon=as_epsilon(epsilon), **options)
    setting = Setting(prior, n, seed=seed)
    if counts is not None:
        true = np.array([as_counts(counts, m.k, n)], dtype=np.int64)
        return setting.errors(true, m.simulate(true[0], size, seed))
    number = min(sample_sizes(m, quick=False)[0], size)
    true = setting.drawn(number)
    drawn = setting.simulate(m, true, -(-size // number), np.random.default_rng([seed, 1]))
    return setting.errors(true, drawn)
