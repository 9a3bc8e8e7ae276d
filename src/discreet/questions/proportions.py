"""Private posteriors over proportions, from data: of one column, of a table of several, and within groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

from discreet._typing import EpsilonLike
from discreet.answers.release import Release, plain, publish
from discreet.data import Contribution, binned, contingency, count_levels
from discreet.declarations import Domain, Relation, as_epsilon, as_integer, as_prior, as_size
from discreet.documents.base import read_document, write_document
from discreet.errors import CorruptReleaseError, DataError, InvalidInput
from discreet.mechanisms import Mechanism, automatic, check_options
from discreet.mechanisms import mechanism as build_mechanism
from discreet.privacy.composition import parallel
from discreet.privacy.guarantee import Guarantee
from discreet.questions.answering import Prepared, answered

if TYPE_CHECKING:
    from discreet.inference.pooled import Pooled
    from discreet.ledger import Receipt
    from discreet.ledger.charging import LedgerLike

__all__ = ["ConditionalRelease", "release", "release_conditional", "release_table"]


@dataclass(frozen=True)
class _Terms:
    """How a question about counts is answered: all of it public, checked before any data is opened."""

    k: int
    epsilon: EpsilonLike
    prior: float | Sequence[float]
    mechanism: str
    options: Mapping[str, Any]
    n: int | None
    person: str | None = None
    per_person: int | None = None
    acknowledge_not_private: bool = False

    def __post_init__(self) -> None:
        as_prior(self.prior, self.k)
        check_options("lattice" if self.mechanism == "auto" else self.mechanism, self.options)
        Contribution.of(self.person, self.per_person, self.n)
        _ = self.budget, self.records, self.size

    @property
    def budget(self) -> Fraction:
        """ε of one person."""
        return as_epsilon(self.epsilon)

    @property
    def records(self) -> int:
        """How many records a person may have in the counts."""
        return 1 if self.per_person is None else as_integer(self.per_person, "per_person")

    @property
    def size(self) -> int | None:
        return None if self.n is None else as_size(self.n)

    def build(self, n: int) -> Mechanism:
        prior, budget = as_prior(self.prior, self.k), self.budget / self.records
        chosen = automatic(prior, n, budget) if self.mechanism == "auto" else self.mechanism
        return build_mechanism(chosen, prior=prior, n=n, epsilon=budget, **self.options)

    def guarantee(self, built: Mechanism) -> Guarantee:
        """That of a person: by group privacy where a person may have several records."""
        if self.person is None:
            return built.guarantee
        grouped = built.guarantee.group(self.records)
        assumptions = (*grouped.assumptions, Contribution.assumption(self.records, self.person))
        return replace(grouped, relation=Relation.REPLACE_PERSON, assumptions=assumptions)

    def reading(self) -> dict[str, Any]:
        return {"person": self.person, "per_person": self.per_person, "n": self.size}

    def plan(self, **question: Any) -> dict[str, Any]:
        """What is asked, in public parameters, which decide whether another request is a retry."""
        options = {
            name: value if isinstance(value, float | int) else str(value)
            for name, value in self.options.items()
        }
        plan = {
            **question,
            "prior": list(as_prior(self.prior, self.k)),
            "epsilon": str(self.budget),
            "mechanism": self.mechanism,
            "options": options,
            "n": self.size,
        }
        if self.person is not None:
            plan |= {"person": self.person, "per_person": self.records}
        return plan

    def prepare(
        self,
        count: Callable[[], tuple[int, ...]],
        domain: Domain,
        axes: Mapping[str, Sequence[Any]] | None = None,
    ) -> Prepared[Release]:
        """A declared n fixes mechanism and price before the data are opened; else the public n is read."""
        known = None if self.size is not None else count()
        built = self.build(as_size(self.size if known is None else sum(known)))
        guarantee = self.guarantee(built)

        def make() -> Release:
            counts = count() if known is None else known
            output = built.run(counts, acknowledge_not_private=self.acknowledge_not_private)
            return publish(built, output, domain, guarantee, axes)

        return guarantee, make


def release(
    data: Any,
    *,
    epsilon: EpsilonLike,
    levels: Sequence[Any] | None = None,
    edges: Sequence[float] | None = None,
    prior: float | Sequence[float] = 1.0,
    mechanism: str = "auto",
    n: int | None = None,
    column: str | None = None,
    other: Any = None,
    missing: Any = None,
    outside: str | None = None,
    person: str | None = None,
    per_person: int | None = None,
    acknowledge_not_private: bool = False,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Release:
    """One private posterior over the proportions of ``levels``; every call spends ``epsilon``.

    ``data``: a list, NumPy array, pandas / Polars / Arrow column, a table of these, DuckDB or PySpark or a
    file path with ``column``, or a mapping level → count. ``levels`` are declared, never read from the data;
    ``other`` and ``missing`` name the levels that receive values outside them and missing values. A numeric
    column takes ``edges`` of bins instead, with ``outside="clip"`` or ``"level"`` and ``missing="level"``.
    ``n`` is the public number of records: when it is given, the mechanism is fixed before the data is opened.
    ``mechanism="auto"`` is the one that :func:`discreet.plan` finds best for prior, n and ε. ``options`` go
    to the mechanism.

    ``person`` and ``per_person``: at most so many records of each person, by key column, enter, and ε is the
    guarantee of a person: the mechanism gets ε/per_person (:class:`discreet.data.Contribution`).

    With ``ledger`` (a :class:`discreet.Ledger` or its address) the budget of ``dataset`` there is charged, or
    the release refused. A retry with the same ``request_id`` and the same parameters returns the stored
    release, charges nothing and does not open the data.

    >>> r = release({"no": 70, "yes": 30}, levels=("no", "yes"), epsilon=1.0)
    >>> sum(r.counts), r.guarantee.epsilon, r.mechanism
    (100, 1.0, 'lattice')
    """
    if (levels is None) == (edges is None):
        raise InvalidInput(
            "declare the levels that a record may take, levels=('no', 'yes'), or for numbers the edges of "
            "bins, edges=(0, 18, 65, 120)"
        )
    if edges is None:
        if outside is not None:
            raise InvalidInput("outside= goes with edges=; for levels say other=LEVEL")
        assert levels is not None
        domain = Domain(levels, other, missing)
    else:
        if other is not None:
            raise InvalidInput("other= goes with levels=; for edges say outside='clip' or 'level'")
        domain = Domain(_bins(edges, outside, missing))
    terms = _Terms(
        domain.k, epsilon, prior, mechanism, options, n, person, per_person, acknowledge_not_private
    )

    def count() -> tuple[int, ...]:
        if edges is None:
            return count_levels(data, domain, column=column, **terms.reading())
        return binned(data, edges=edges, outside=outside, missing=missing, column=column, **terms.reading())

    plan = terms.plan(
        question="proportions",
        levels=[plain(level) for level in domain.levels],
        other=plain(domain.other),
        missing=plain(missing),
        column=column,
        **({} if edges is None else {"edges": [str(float(edge)) for edge in edges], "outside": outside}),
    )
    return answered(
        lambda: terms.prepare(count, domain), Release.from_json, plan, ledger, dataset, request_id
    )


def _bins(edges: Sequence[float], outside: str | None, missing: str | None) -> tuple[str, ...]:
    """Names of the bins: [0, 18), [18, 65), the last one closed."""
    try:
        numbers = [float(edge) for edge in edges]
    except (TypeError, ValueError):
        raise InvalidInput(f"edges={edges!r} must be numbers in increasing order") from None
    names = [f"[{a:.15g}, {b:.15g})" for a, b in pairwise(numbers)]
    if names:
        names[-1] = names[-1][:-1] + "]"
    extra = [name for name, value in (("outside", outside), ("missing", missing)) if value == "level"]
    return (*names, *extra)


def release_table(
    data: Any,
    columns: Mapping[str, Sequence[Any] | Domain],
    *,
    epsilon: EpsilonLike,
    prior: float | Sequence[float] = 1.0,
    mechanism: str = "auto",
    n: int | None = None,
    person: str | None = None,
    per_person: int | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Release:
    """One private posterior over the cells of a contingency table of several columns.

    ``columns`` maps each column to its levels, or to a :class:`discreet.Domain` that says where other and
    missing values go. The cells are the ``levels`` of the release, the last column fastest;
    ``release.margin("a")`` sums them up for free. The rest is as in :func:`release`.
    """
    domains = _domains(columns)
    axes = {name: tuple(domain.levels) for name, domain in domains.items()}
    cells = Domain(tuple(" · ".join(map(str, cell)) for cell in product(*axes.values())))
    terms = _Terms(cells.k, epsilon, prior, mechanism, options, n, person, per_person)

    def count() -> tuple[int, ...]:
        table = contingency(data, domains, **terms.reading())
        return tuple(int(records) for records in table.ravel())

    plan = terms.plan(question="table", columns=_described(domains))
    return answered(
        lambda: terms.prepare(count, cells, axes), Release.from_json, plan, ledger, dataset, request_id
    )


def _domains(columns: Mapping[str, Sequence[Any] | Domain]) -> dict[str, Domain]:
    if not isinstance(columns, Mapping) or len(columns) < 2:
        raise InvalidInput(
            "columns must map at least two columns to their levels, such as "
            "{'sex': ('f', 'm'), 'smoker': ('no', 'yes')}"
        )
    return {name: _domain(name, levels) for name, levels in columns.items()}


def _domain(name: str, levels: Any) -> Domain:
    """Levels, a Domain, or a mapping with levels, other and missing."""
    if isinstance(levels, Domain):
        return levels
    if not isinstance(levels, Mapping):
        return Domain(levels)
    if "levels" not in levels or not set(levels) <= {"levels", "other", "missing"}:
        raise InvalidInput(f"column {name!r} takes levels, other and missing")
    return Domain(**levels)


def _described(domains: Mapping[str, Domain]) -> list[dict[str, Any]]:
    """In their order, which is the order of the cells and so of the prior."""
    return [
        {
            "column": name,
            "levels": [plain(level) for level in domain.levels],
            "other": plain(domain.other),
            "missing": plain(domain.missing),
        }
        for name, domain in domains.items()
    ]


CONDITIONAL = "discreet/conditional"
VERSION = 1


@dataclass(frozen=True)
class ConditionalRelease:
    """P(outcome | group): one private posterior for each group, None for a group without records.

    ``sizes`` are the numbers of records in the groups, which are public; the posterior of an empty group is
    the prior.
    """

    outcome: str
    given: str
    groups: tuple[Any, ...]
    sizes: tuple[int, ...]
    releases: tuple[Release | None, ...]
    guarantee: Guarantee
    receipt: Receipt | None = field(default=None, compare=False, repr=False)

    def __getitem__(self, group: Any) -> Release | None:
        """The release of a group."""
        if group not in self.groups:
            raise InvalidInput(f"group {group!r} is not one of {self.groups!r}")
        return self.releases[self.groups.index(group)]

    def pooled(self, seed: int = 0) -> Pooled:
        """Every group's shares with strength shared between the groups: a further look at what is public.

        Shares of the groups are taken as draws from one Dirichlet law, which is integrated. Groups without
        records have the posterior of a new group. ``seed`` is that of the sampler for more than two levels.
        """
        from discreet.inference.pooled import pooled, released_groups

        parts = [None if one is None else (one.built, one.counts, one.noisy) for one in self.releases]
        levels = next(len(one.counts) for one in self.releases if one is not None)
        return pooled(released_groups(parts, self.sizes, levels), self.groups, seed=seed)

    def summary(self, interval: float = 0.95) -> str:
        """The releases for a reader, group by group."""
        parts = [f"P({self.outcome} | {self.given}). Guarantee: {self.guarantee}. {self.guarantee.meaning()}"]
        parts += [f"Assumed: {assumption}." for assumption in self.guarantee.assumptions]
        for group, size, one in zip(self.groups, self.sizes, self.releases, strict=True):
            head = f"{self.given} = {group} (n = {size})"
            body = "no records: the posterior is the prior" if one is None else one.summary(interval)
            parts += ["", head, body]
        return "\n".join(parts)

    def __str__(self) -> str:
        return self.summary()

    def to_json(self) -> str:
        """The releases as one JSON document with a checksum; :meth:`from_json` reads it back."""
        content = {
            "private": self.guarantee.is_private,
            "outcome": self.outcome,
            "given": self.given,
            "groups": [plain(group) for group in self.groups],
            "sizes": list(self.sizes),
            "releases": [None if one is None else one.to_json() for one in self.releases],
            "guarantee": self.guarantee.to_dict(),
        }
        return write_document(CONDITIONAL, VERSION, content)

    @classmethod
    def from_json(cls, text: str) -> ConditionalRelease:
        """Reads what :meth:`to_json` wrote; an edited or unknown document is refused."""
        content = read_document(text, CONDITIONAL, VERSION)
        try:
            return cls(
                outcome=str(content["outcome"]),
                given=str(content["given"]),
                groups=tuple(content["groups"]),
                sizes=tuple(int(size) for size in content["sizes"]),
                releases=tuple(
                    None if one is None else Release.from_json(one) for one in content["releases"]
                ),
                guarantee=Guarantee.from_dict(content["guarantee"]),
            )
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptReleaseError(f"the release lacks a part or has a malformed one: {error}") from None


def release_conditional(
    data: Any,
    *,
    outcome: str,
    given: str,
    levels: Sequence[Any] | Domain,
    groups: Sequence[Any] | Domain,
    epsilon: EpsilonLike,
    prior: float | Sequence[float] = 1.0,
    mechanism: str = "auto",
    sizes: Sequence[int] | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> ConditionalRelease:
    """P(outcome | group) as one posterior per group; together they cost ``epsilon``, not once per group.

    That is parallel composition: a record is in one group, so replacing what it says in column ``outcome``
    changes one posterior. It holds where the *group* of every record is public, for instance a region or a
    wave of a survey, and with it ``sizes``, the number of records in each group (read from the data where
    not declared). Where the group is itself private use :func:`release_table`. The rest is as in
    :func:`release`.
    """
    domains = _domains({given: groups, outcome: levels})
    names, k = domains[given].levels, domains[outcome].k
    if sizes is not None and len(sizes) != len(names):
        raise InvalidInput(f"sizes has {len(sizes)} entries for {len(names)} groups")
    declared = None if sizes is None else [as_integer(size, "sizes") for size in sizes]
    terms = _Terms(k, epsilon, prior, mechanism, options, None if declared is None else sum(declared))

    note = f"the {given!r} of every record, and with it the size of every group, is public"

    def assuming(guarantee: Guarantee) -> Guarantee:
        return replace(guarantee, assumptions=(*guarantee.assumptions, note))

    def count() -> list[tuple[int, ...]]:
        table = contingency(data, domains, n=terms.size)
        return [tuple(int(records) for records in row) for row in table]

    def prepare() -> Prepared[ConditionalRelease]:
        known = None if declared is not None else count()
        found = [sum(row) for row in known] if known is not None else declared or []
        built = [terms.build(size) if size else None for size in found]
        parts = [assuming(one.guarantee) for one in built if one is not None]
        if not parts:
            raise DataError("no group has a record")
        guarantee = replace(parallel(parts), assumptions=parts[0].assumptions)  # said once, by name

        def make() -> ConditionalRelease:
            rows = count() if known is None else known
            if [sum(row) for row in rows] != found:
                raise InvalidInput("sizes were declared but the groups have other numbers of records")
            releases = tuple(
                None if one is None else publish(one, one.run(row), domains[outcome], assuming(one.guarantee))
                for one, row in zip(built, rows, strict=True)
            )
            return ConditionalRelease(
                outcome, given, tuple(plain(name) for name in names), tuple(found), releases, guarantee
            )

        return guarantee, make

    plan = terms.plan(
        question="conditional", outcome=outcome, given=given, columns=_described(domains), sizes=declared
    )
    return answered(prepare, ConditionalRelease.from_json, plan, ledger, dataset, request_id)
