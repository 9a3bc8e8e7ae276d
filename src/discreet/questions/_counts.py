"""Requests answered by noisy counts: of a column, of bins, of a table, or within public groups."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtri

from discreet._data import contingency, count_levels
from discreet._declarations import (
    EXCLUDE,
    Domain,
    as_prior,
    as_probability,
    as_size,
    group_assumption,
    people_assumption,
)
from discreet._documents.answer import Answer
from discreet._inference.add_remove import STRENGTH_PRIOR, LogUniform
from discreet._inference.made_up_counts import imagined_counts, width_without
from discreet._registry import MECHANISMS
from discreet._text import nearest
from discreet._typing import EpsilonLike
from discreet.answers.conditional import ConditionalRelease
from discreet.answers.release import Release, publish
from discreet.errors import DataError, InvalidInputError, NotPrivateError, TooLargeError
from discreet.mechanisms import Mechanism, automatic, check_options
from discreet.mechanisms import mechanism as build_mechanism
from discreet.mechanisms.base import simulated_output
from discreet.privacy.composition import parallel
from discreet.privacy.guarantee import Guarantee
from discreet.questions._request import PricedRequest, Request
from discreet.questions._text import plain
from discreet.questions.widths import POINTS, Guess, PlannedWidth

if TYPE_CHECKING:
    from numpy.typing import NDArray

MANY_LEVELS = 50
"""The number of levels above which the parameter of the prior is inferred unless it is declared."""
_MARGIN_DRAWS = 1000
"""The number of draws for the standard deviation of a margin in a plan, accurate to about two percent."""


@dataclass(frozen=True, kw_only=True)
class CountRequest(Request):
    """Counts with the noise of a mechanism.

    Parameters
    ----------
    epsilon : Fraction
        The privacy budget.
    delta, prior, mechanism, options
        As in :class:`discreet.Proportions`.
    """

    epsilon: Fraction
    delta: EpsilonLike | None = None
    prior: float | Sequence[float] | None = None
    mechanism: str = "auto"
    options: Mapping[str, Any] | None = None
    fine: bool = False
    """Whether numbers are counted in the bins of quantiles."""

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The values that are counted."""

    @property
    def k(self) -> int:
        """The number of values that are counted."""
        return self.domain.k

    @cached_property
    def exact_prior(self) -> tuple[float, ...]:
        """The parameters of the Dirichlet prior."""
        return (1.0,) * self.k if self.prior is None else as_prior(self.prior, self.k)

    @property
    def strength(self) -> LogUniform | None:
        """The range of the parameter of the prior if it is inferred, as for many levels; otherwise None."""
        return STRENGTH_PRIOR if self.prior is None and self.k > MANY_LEVELS else None

    @property
    def _options(self) -> dict[str, Any]:
        options = {k: v for k, v in (self.options or {}).items() if k != "acknowledge_not_private"}
        return options if self.delta is None else {**options, "delta": self.delta}

    @property
    def _chosen(self) -> str:
        if self.mechanism != "auto":
            return self.mechanism
        return automatic(relation=self.relation, options=self._options)

    @property
    def leaves_out(self) -> bool:
        """Whether records without a value are counted, privately, besides the levels; n includes them."""
        return self.domain.excludes_missing and not self.hides_size

    @property
    def expected_total(self) -> LogUniform | None:
        """The declared range of the number of records, if that is private."""
        expected_n = self.schema.expected_n
        return None if expected_n is None else LogUniform.of(expected_n, "expected_n")

    def __post_init__(self) -> None:
        _ = self.exact_prior, self.expected_total
        chosen = self._chosen
        mechanism_class = check_options(chosen, self._options)
        if self.relation not in mechanism_class.relations:
            suitable = ", ".join(
                name for name, candidate in MECHANISMS.items() if self.relation in candidate.relations
            )
            n = "a private n" if self.hides_size else "a public n"
            raise InvalidInputError(f"cannot be used with {n}; these can: {suitable}", "mechanism", chosen)
        if self.leaves_out and not mechanism_class.leaves_out:
            suitable = ", ".join(name for name, candidate in MECHANISMS.items() if candidate.leaves_out)
            raise InvalidInputError(
                f"cannot leave out missing values where n is public; these can: {suitable}",
                "mechanism",
                chosen,
            )

    def _parts(self, n: int, epsilon: Fraction) -> tuple[str, dict[str, Any]]:
        size = {} if self.hides_size else {"n": n}
        prior = (*self.exact_prior, 1.0) if self.leaves_out else self.exact_prior
        return self._chosen, {"prior": prior, "epsilon": epsilon, **size, **self._options}

    def build(self, n: int, epsilon: Fraction) -> Mechanism:
        """Return the mechanism for n records; if n is private, for any number of records."""
        name, arguments = self._parts(n, epsilon)
        built = build_mechanism(name, **arguments)
        built.check_size()
        return built

    def release(
        self,
        built: Mechanism,
        counts: tuple[int, ...],
        guarantee: Guarantee,
        axes: Mapping[str, Sequence[Any]] | None = None,
        column: str | None = None,
    ) -> Release:
        """Return the release of noisy counts, with all public parameters."""
        acknowledged = bool((self.options or {}).get("acknowledge_not_private", False))
        output = built.run(counts, acknowledge_not_private=acknowledged)
        return publish(
            built, output, self.domain, guarantee, axes, self.expected_total, column, self.strength
        )

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the planned width for a value whose share is ``guess.typical``, by default a half.

        A share ``guess.left_out`` of the records is assumed to have no value.
        """
        notes, n = guess.notes(self.domain.excludes_missing), self.planned_size(n)
        share = as_probability(0.5 if guess.typical is None else guess.typical, "typical", "0.5")
        answered = guess.number_answered(n, self.domain.excludes_missing)
        counts = imagined_counts(self.exact_prior, answered, share)
        release = self.simulate_release((*counts, *((n - answered,) if self.leaves_out else ())), n, seed)
        try:
            low, high = release.posterior.marginal(0).interval(level)
        except (NotPrivateError, TooLargeError):
            raise TooLargeError(
                f"the noise of {release.mechanism} cannot be accounted for at n={n}; "
                "mechanism='lattice' has no such limit"
            ) from None
        without = width_without(self.exact_prior, answered, share=share, level=level)
        noise = max(0.0, 1 - (without / (high - low)) ** 2)
        name = f"a share of {100 * share:g} %"
        half = float(high - low) / 2
        return PlannedWidth((name,), (half,), (float(noise),), notes, unit=POINTS, assumed="simulated counts")

    def _mechanism_for_plan(self, n: int) -> Mechanism:
        """Return the mechanism for n records, without warnings about its use."""
        name, arguments = self._parts(n, self.epsilon / (self.schema.per_person or 1))
        return check_options(name, arguments)(**arguments)

    def simulate_release(
        self,
        counts: tuple[int, ...],
        n: int,
        seed: int,
        axes: Mapping[str, Sequence[Any]] | None = None,
    ) -> Release:
        """Return a release of made-up counts with seeded noise, for plans; not private."""
        built = self._mechanism_for_plan(n)
        output = simulated_output(built, counts, seed)
        publication = self.expected_total, None, self.strength
        return publish(built, output, self.domain, built.guarantee, axes, *publication)

    def planned_size(self, n: Any) -> int:
        """Return the number of records to simulate for a plan."""
        return as_size(n)


@dataclass(frozen=True, kw_only=True)
class WholeCountRequest(CountRequest):
    """Counts of all records; one person may have several."""

    axes: ClassVar[Mapping[str, Sequence[Any]] | None] = None
    """For a table, the levels of each column."""
    name: ClassVar[str | None] = None
    """The column that is counted, if there is only one."""

    @cached_property
    def reading(self) -> dict[str, Any]:
        """The arguments that bound the records of each person while they are counted."""
        schema = self.schema
        bound = {"person": schema.person, "per_person": schema.per_person, "n": self.declared_size}
        return {**({"private_size": True} if self.hides_size else bound), "strict": schema.strict}

    @property
    def declared_size(self) -> int | None:
        """The declared number of records; 0 if it is private, None if it is not declared."""
        return 0 if self.hides_size else self.schema.size

    def size_of(self, statistic: tuple[int, ...]) -> int:
        return 0 if self.hides_size else sum(statistic)

    def bind(self, size: int) -> PricedRequest:
        """Return the guarantee and the mechanism for all records.

        If one person may have several records, the guarantee follows from group privacy.
        """
        records = self.schema.per_person or 1
        built = self.build(size, self.epsilon / records)
        guarantee = built.guarantee
        if self.schema.person is not None:
            note = people_assumption(records, self.schema.person)
            guarantee = guarantee.for_unit(self.schema.person, records, note)
        axes, name = self.axes, self.name
        return PricedRequest(guarantee, lambda counts: self.release(built, counts, guarantee, axes, name))


@dataclass(frozen=True, kw_only=True)
class ColumnCounts(WholeCountRequest):
    """Counts of the values of one column, or of the bins of its numbers."""

    column: str

    @property
    def name(self) -> str | None:  # type: ignore[override]
        return None if self.schema.nameless else self.column

    @cached_property
    def domain(self) -> Domain:
        return self.schema.domain(self.column, fine=self.fine)

    def read(self, data: Any) -> tuple[int, ...]:
        return count_levels(data, self.domain, column=self.name, **self.reading)


@dataclass(frozen=True, kw_only=True)
class TableCounts(WholeCountRequest):
    """Counts of the cells of several columns together."""

    columns: tuple[str, ...]

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The values of each column."""
        return {name: self.schema.domain(name) for name in self.columns}

    @property
    def axes(self) -> Mapping[str, Sequence[Any]]:  # type: ignore[override]
        return {name: tuple(domain.levels) for name, domain in self.domains.items()}

    @cached_property
    def domain(self) -> Domain:
        """The cells of the table, with the last column varying fastest.

        A record that some column leaves out is in no cell.
        """
        left_out = EXCLUDE if any(domain.excludes_missing for domain in self.domains.values()) else None
        cells = tuple(" · ".join(map(str, cell)) for cell in product(*self.axes.values()))
        return Domain(cells, missing=left_out)

    def read(self, data: Any) -> tuple[int, ...]:
        return self.flatten(contingency(data, self.domains, **self.reading))

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the planned widths for independent columns.

        The first value of each column has the share ``guess.typical``, by default a half.
        """
        notes, n = guess.notes(self.domain.excludes_missing), self.planned_size(n)
        share = as_probability(0.5 if guess.typical is None else guess.typical, "typical", "0.5")
        answered = guess.number_answered(n, self.domain.excludes_missing)
        cells = np.ones(())
        for domain in self.domains.values():
            rest = (1 - share) / (domain.k - 1) if domain.k > 1 else 0.0
            cells = np.multiply.outer(cells, [share if domain.k > 1 else 1.0, *[rest] * (domain.k - 1)])
        ends = np.rint(answered * np.cumsum(cells)).astype(int)
        counts = (*map(int, np.diff(ends, prepend=0)), *((n - answered,) if self.leaves_out else ()))
        release = self.simulate_release(counts, n, seed, self.axes)
        draws = [release.margin(name, size=_MARGIN_DRAWS, seed=seed).draws[:, 0] for name in self.columns]
        draws.append(release.margin(*self.columns, size=_MARGIN_DRAWS, seed=seed).draws[:, 0])
        deviations = np.std(draws, axis=1)
        shares = np.array(
            [*(share if domain.k > 1 else 1.0 for domain in self.domains.values()), cells.flat[0]]
        )
        sampling = shares * (1 - shares) / answered
        return PlannedWidth(
            (*self.columns, " · ".join(self.columns)),
            tuple(map(float, ndtri((1 + level) / 2) * deviations)),
            tuple(map(float, np.clip(1 - sampling / deviations**2, 0, 1))),
            notes,
            unit=POINTS,
            assumed=f"simulated counts in which the first value of each column has {100 * share:g} %",
        )

    def flatten(self, table: NDArray[np.int64]) -> tuple[int, ...]:
        """Return the counts of cells from an array with an axis for each column.

        The last entry of an axis may count missing values.
        """
        cells = table[tuple(slice(domain.k) for domain in self.domains.values())]
        rest = (int(table.sum() - cells.sum()),) if self.leaves_out else ()
        return (*map(int, cells.ravel()), *rest)


@dataclass(frozen=True, kw_only=True)
class DerivedRequest(Request):
    """The base of requests whose answers are computed from noisy counts, at the cost of these."""

    counts: Any

    @abstractmethod
    def answer(self, counted: Any) -> Answer:
        """Return the answer that is computed from the released counts."""

    @property
    def cautions(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.counts.cautions)

    def read(self, data: Any) -> Any:
        """Return the exact counts, which are private."""
        return self.counts.read(data)

    def size_of(self, statistic: Any) -> Any:
        """Return the public size of the counted data: the number of records, in all or in each group."""
        return self.counts.size_of(statistic)

    @property
    def declared_size(self) -> Any | None:
        return self.counts.declared_size

    def bind(self, size: Any) -> PricedRequest:
        """Return the guarantee for data of this public size, and the function that makes the answer."""
        priced = self.counts.bind(size)
        return PricedRequest(priced.guarantee, lambda statistic: self.answer(priced.make(statistic)))


@dataclass(frozen=True, kw_only=True)
class GroupCounts(CountRequest):
    """Counts of an outcome in each group, with one mechanism for each group.

    Because the groups are disjoint, all of them together cost ε once.
    """

    outcome: str
    by: str

    @cached_property
    def domain(self) -> Domain:
        """The values of the outcome."""
        return self.schema.domain(self.outcome, fine=self.fine)

    @cached_property
    def groups(self) -> Domain:
        """The groups."""
        return self.schema.domain(self.by, "by")

    def __post_init__(self) -> None:
        if self.outcome == self.by:
            raise InvalidInputError(f"must be a column other than {self.outcome!r}", "by", self.by)
        groups = self.schema.category(self.by, "by")
        if not groups.public and not self.hides_size:
            raise InvalidInputError(
                "is private, and with a public n a replaced record may change its group: ask for the table "
                f"of {self.outcome!r} and {self.by!r}, or declare the column as public",
                "by",
                self.by,
            )
        if self.schema.person is not None:
            raise InvalidInputError(
                "by cannot be used with person: reduce the data to one record per person first, or ask for "
                "a table"
            )
        _ = self.groups
        super().__post_init__()

    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The declared size of each group."""
        declared = (self.schema.sizes or {}).get(self.by)
        return None if declared is None else tuple(declared[group] for group in self.groups.levels)

    @property
    def declared_size(self) -> tuple[int, ...] | None:
        """The declared size of each group; zeros if sizes are private."""
        return (0,) * self.groups.k if self.hides_size else self.sizes

    def planned_size(self, n: Any) -> int:
        """Return the size of the smallest group.

        If only the total is known, all groups are assumed to have the same size.
        """
        if self.sizes is not None and any(self.sizes):
            return min(filter(None, self.sizes))
        return max(1, as_size(n) // self.groups.k)

    @property
    def cautions(self) -> tuple[str, ...]:  # type: ignore[override]
        """A warning that group sizes that are not declared are read from the data, and published."""
        known = self.sizes is not None or self.hides_size
        return () if known else (sizes_caution(self.by),)

    def read(self, data: Any) -> list[tuple[int, ...]]:
        hidden = self.hides_size
        sizes_are_public = self.sizes is not None and not self.groups.excludes_missing
        n = (
            sum(self.sizes or ())
            if sizes_are_public
            else None
            if self.groups.excludes_missing
            else self.schema.size
        )
        domains = {self.by: self.groups, self.outcome: self.domain}
        table = contingency(data, domains, n=n, private_size=hidden, strict=self.schema.strict)
        # Whoever is in no declared group is left out: the groups are public, or nobody learns of it.
        return [tuple(int(records) for records in row) for row in table[: self.groups.k]]

    def size_of(self, statistic: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(0 if self.hides_size else sum(row) for row in statistic)

    def bind(self, size: Sequence[int]) -> PricedRequest:
        hidden = self.hides_size
        built = [self.build(number, self.epsilon) if number or hidden else None for number in size]
        note = group_assumption(self.by)

        def assuming(guarantee: Guarantee) -> Guarantee:
            return guarantee if hidden else guarantee.within_group(note)

        parts = [assuming(mechanism.guarantee) for mechanism in built if mechanism is not None]
        if not parts:
            raise DataError("no group has a record")
        guarantee = replace(parallel(parts), assumptions=parts[0].assumptions)  # said once, by name

        def make(rows: list[tuple[int, ...]]) -> ConditionalRelease:
            if not hidden and [sum(row) for row in rows] != list(size):
                raise InvalidInputError(
                    f"sizes of {self.by!r} are not the numbers of records in these groups: correct them, or "
                    "leave them out to have them read and published"
                )
            return ConditionalRelease(
                outcome=self.outcome,
                given=self.by,
                groups=tuple(plain(list(self.groups.levels))),
                sizes=None if hidden else tuple(size),
                releases=tuple(
                    None
                    if mechanism is None
                    else self.release(mechanism, row, assuming(mechanism.guarantee), column=self.outcome)
                    for mechanism, row in zip(built, rows, strict=True)
                ),
                guarantee=guarantee,
            )

        return PricedRequest(guarantee, make)


def sizes_caution(by: str) -> str:
    """Return the warning about group sizes that were not declared."""
    return (
        f"the number of records in each group of {by!r} is read from the data and published exactly: "
        "declare sizes= in the schema from what is publicly known, or ask for a table if groups are private"
    )


def mechanism_options(mechanism: str) -> set[str]:
    """Return the names of the options that a mechanism has, or all of them for ``"auto"``."""
    classes = [MECHANISMS[name] for name in ([mechanism] if mechanism in MECHANISMS else MECHANISMS)]
    names = {field.name for mechanism_class in classes for field in fields(mechanism_class) if field.init}
    return (names | {"calibration", "acknowledge_not_private"}) - {"prior", "n", "epsilon", "delta"}


def check_mechanism(mechanism: Any) -> None:
    """Refuse a mechanism that is not known."""
    if mechanism != "auto" and mechanism not in MECHANISMS:
        known = nearest(str(mechanism), ("auto", *MECHANISMS))
        raise InvalidInputError(f"is unknown{known}", "mechanism", mechanism)
