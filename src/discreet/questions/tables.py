"""Questions about several columns: a contingency table, shares within public groups, a declared network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from discreet._text import nearest
from discreet._typing import EpsilonLike
from discreet.answers.conditional import ConditionalRelease, group_assumption
from discreet.answers.network import NetworkRelease, network_cost
from discreet.data import contingencies, contingency
from discreet.declarations import EXCLUDE, Domain, as_epsilon, as_integer
from discreet.distributions.networks import homes, largest_families
from discreet.errors import DataError, InvalidInput
from discreet.privacy.composition import parallel
from discreet.privacy.guarantee import Guarantee
from discreet.questions.base import Bound, PeopleQuestion, optional, parameter, same
from discreet.questions.counts import CountQuestion, WholeCountQuestion, domain_of
from discreet.questions.text import ARROWS, BUDGET, DOMAINS, LEVELS, NUMBER, TEXT, WHOLES, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PARTS = 1000  # of the largest share; shares are whole numbers of such parts, so that ε is split exactly


@dataclass(frozen=True, kw_only=True)
class CrossTable(WholeCountQuestion):
    """The shares of the cells of several columns together."""

    kind: ClassVar[str] = "table"
    verb: ClassVar[str] = "release_table"
    title: ClassVar[str] = "Table"
    sentence: ClassVar[str] = "Release a private posterior of the cells of a table of several columns."

    columns: Mapping[str, Sequence[Any] | Domain] = parameter(
        DOMAINS,
        "Each column with its levels: sex=f,m; smoker=no,yes. Declared, never read from the data.",
        label="Columns and their levels",
        example="sex=f,m; smoker=no,yes",
    )
    missing: str | None = optional(
        TEXT,
        "exclude leaves out records without a value in one of the columns, unless its levels say where they "
        "go; whose these are stays private.",
        choices=(EXCLUDE,),
    )

    @cached_property
    def domains(self) -> dict[str, Domain]:
        if not isinstance(self.columns, Mapping) or len(self.columns) < 2:
            raise InvalidInput(
                "columns must map at least two columns to their levels, such as "
                "{'sex': ('f', 'm'), 'smoker': ('no', 'yes')}"
            )
        return {name: self.domain_of(name, levels) for name, levels in self.columns.items()}

    @property
    def axes(self) -> Mapping[str, Sequence[Any]]:
        return {name: tuple(domain.levels) for name, domain in self.domains.items()}

    @cached_property
    def domain(self) -> Domain:
        """The cells, the last column fastest; records that some column leaves out are in none."""
        left_out = EXCLUDE if any(one.excludes_missing for one in self.domains.values()) else None
        cells = tuple(" · ".join(map(str, cell)) for cell in product(*self.axes.values()))
        return Domain(cells, missing=left_out)

    def normalised(self) -> dict[str, Any]:
        return {"columns": _in_order(self.domains)}

    def read(self, data: Any) -> tuple[int, ...]:
        return self.flat(contingency(data, self.domains, **self.reading))

    def flat(self, table: NDArray[np.int64]) -> tuple[int, ...]:
        """The counts of an array with an axis for each column, which may have a last place for those left
        out."""
        cells = table[tuple(slice(one.k) for one in self.domains.values())]
        rest = (int(table.sum() - cells.sum()),) if self.leaves_out else ()
        return (*map(int, cells.ravel()), *rest)


@dataclass(frozen=True, kw_only=True)
class Conditional(CountQuestion):
    """P(outcome | group), one posterior for each group."""

    kind: ClassVar[str] = "conditional"
    verb: ClassVar[str] = "release_conditional"
    title: ClassVar[str] = "Groups"
    sentence: ClassVar[str] = "Release a private posterior of an outcome's shares for each public group."

    outcome: str = parameter(TEXT, "The column whose shares are asked for.", example="smoker")
    given: str = parameter(
        TEXT,
        "The column of the groups, which is public for every record.",
        label="Groups by column",
        example="region",
    )
    levels: Sequence[Any] | Domain = parameter(
        LEVELS, "All values of the outcome: no,yes.", label="Levels of the outcome", example="no,yes"
    )
    groups: Sequence[Any] | Domain = parameter(
        LEVELS, "All groups: north,south.", label="Groups", example="north,south"
    )
    sizes: Sequence[int] | None = optional(
        WHOLES,
        "Public number of records in each group; checked against the data.",
        label="Records in each group",
    )
    missing: str | None = same(CrossTable, "missing")

    @cached_property
    def domain(self) -> Domain:
        """The levels of the outcome."""
        return self.domain_of(self.outcome, self.levels)

    @cached_property
    def group_domain(self) -> Domain:
        try:
            return self.domain_of(self.given, self.groups)
        except InvalidInput as error:
            said = str(error).replace("levels=", "groups=").replace("level(s); a proportion", "group(s); it")
            raise InvalidInput(said) from None

    def __post_init__(self) -> None:
        if self.outcome == self.given:
            raise InvalidInput(f"outcome={self.outcome!r} and given={self.given!r} must be two columns")
        names = self.group_domain.levels
        super().__post_init__()
        if self.sizes is not None and len(self.sizes) != len(names):
            raise InvalidInput(f"sizes has {len(self.sizes)} entries for {len(names)} groups")
        if self.sizes is not None and self.hides_size:
            raise InvalidInput(
                "the sizes of the groups are private under add-remove: leave sizes out, or say "
                "relation='replace-one'"
            )
        _ = self.declared_size

    @property
    def declared_size(self) -> tuple[int, ...] | None:
        """Of each group; zeros where they are private."""
        if self.hides_size:
            return (0,) * len(self.group_domain.levels)
        return None if self.sizes is None else tuple(as_integer(size, "sizes") for size in self.sizes)

    def _planned_size(self, size: Any) -> int:
        """Of the smallest group; groups of equal size where only the number of all records is known."""
        known = size if size is not None else self.declared_size
        if isinstance(known, tuple | list) and any(known):
            return super()._planned_size(min(filter(None, known)))
        return super()._planned_size(
            known and max(1, as_integer(known, "n") // len(self.group_domain.levels))
        )

    @property
    def cautions(self) -> tuple[str, ...]:  # type: ignore[override]
        """Sizes that were not declared are read from the data, and published."""
        if self.sizes is not None or self.hides_size:
            return ()
        return (
            "the number of records in each group is read from the data and published as it is: declare "
            "sizes= from what is publicly known, or release a table if the groups are private",
        )

    def read(self, data: Any) -> list[tuple[int, ...]]:
        declared = self.declared_size
        domains = {self.given: self.group_domain, self.outcome: self.domain}
        known = declared is not None and not self.hides_size and not self.group_domain.excludes_missing
        n = sum(declared) if known and declared is not None else None
        table = contingency(data, domains, n=n, private_size=self.hides_size, strict=self.strict)
        # Whoever is in no declared group is left out: the groups are public, or nobody learns of it.
        return [tuple(int(records) for records in row) for row in table[: self.group_domain.k]]

    def size_of(self, statistic: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(0 if self.hides_size else sum(row) for row in statistic)

    def bind(self, size: Sequence[int]) -> Bound:
        """One mechanism for each group: a record is in one, so together they cost ε once."""
        hidden = self.hides_size
        built = [self.build(number, self.exact_epsilon) if number or hidden else None for number in size]
        note = group_assumption(self.given)

        def assuming(guarantee: Guarantee) -> Guarantee:
            return guarantee if hidden else guarantee.within_group(note)

        parts = [assuming(one.guarantee) for one in built if one is not None]
        if not parts:
            raise DataError("no group has a record")
        guarantee = replace(parallel(parts), assumptions=parts[0].assumptions)  # said once, by name

        def make(rows: list[tuple[int, ...]]) -> ConditionalRelease:
            if not hidden and [sum(row) for row in rows] != list(size):
                raise InvalidInput(
                    f"sizes={size!r} are not the numbers of records in these groups: correct them, or leave "
                    "sizes out to have them read and published"
                )
            return ConditionalRelease(
                outcome=self.outcome,
                given=self.given,
                groups=tuple(plain(list(self.group_domain.levels))),
                sizes=None if hidden else tuple(size),
                releases=tuple(
                    None
                    if one is None
                    else self.released(one, row, assuming(one.guarantee), column=self.outcome)
                    for one, row in zip(built, rows, strict=True)
                ),
                guarantee=guarantee,
            )

        return Bound(guarantee, make)


class FamilyTable(CrossTable):
    """The table of a column and its parents; of one column where it has none."""

    @cached_property
    def domains(self) -> dict[str, Domain]:
        return dict(self.columns)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class Network(PeopleQuestion):
    """P(column | its parents) for every column of a directed acyclic graph."""

    kind: ClassVar[str] = "network"
    verb: ClassVar[str] = "release_network"
    title: ClassVar[str] = "Network"
    sentence: ClassVar[str] = (
        "Release private posteriors of the conditional tables of a declared Bayesian network."
    )

    parents: Mapping[str, Sequence[str]] = parameter(
        ARROWS,
        "Each column with those that it depends on: income=age,sex; age=sex. Others may be left out.",
        label="Columns and their parents",
        example="income=age,sex; age=sex",
    )
    levels: Mapping[str, Sequence[Any] | Domain] = parameter(
        DOMAINS,
        "Each column with its levels: sex=f,m; age=young,old; income=low,high. Never read from the data.",
        label="Columns and their levels",
        example="sex=f,m; age=young,old; income=low,high",
    )
    epsilon: EpsilonLike = parameter(BUDGET, "Privacy budget of the whole network.", example="1")
    prior: float | None = optional(
        NUMBER,
        "Dirichlet prior of every conditional distribution, one number for all levels. Left out: 1, and for "
        "tables of more than 50 cells an unknown number, which is inferred.",
    )
    relation: str = same(CountQuestion, "relation")
    total_prior: Sequence[float] | None = same(CountQuestion, "total_prior")

    def __post_init__(self) -> None:
        _ = self.tables

    @cached_property
    def domains(self) -> dict[str, Domain]:
        if not isinstance(self.levels, Mapping) or not self.levels:
            raise InvalidInput(
                f"levels={self.levels!r} must map every column of the network to its levels, such as "
                "{'sex': ('f', 'm')}; in a study file levels = {sex = [\"f\", \"m\"]}"
            )
        found = {name: domain_of(name, levels) for name, levels in self.levels.items()}
        return {name: replace(one, missing=self.place_of_missing(one.missing)) for name, one in found.items()}

    @cached_property
    def graph(self) -> dict[str, tuple[str, ...]]:
        """The parents of every column, in the order in which levels were declared."""
        if not isinstance(self.parents, Mapping):
            raise InvalidInput(
                f"parents={self.parents!r} must map columns to their parents, such as {{'income': ('sex',)}}"
                '; in a study file parents = {income = ["sex"]}'
            )
        found: dict[str, tuple[str, ...]] = dict.fromkeys(self.domains, ())
        for column, given in self.parents.items():
            own = (given,) if isinstance(given, str) else tuple(given)
            for name in (column, *own):
                if name not in found:
                    raise InvalidInput(
                        f"parents: column {name!r} has no levels{nearest(str(name), found)}; declare them: "
                        f"levels={{{name!r}: (…)}}"
                    )
            if len(set(own)) < len(own):
                raise InvalidInput(f"parents: {column!r} has a parent twice: {', '.join(own)}")
            found[column] = own
        return found

    @cached_property
    def families(self) -> list[tuple[str, ...]]:
        """The columns of each table that is released."""
        return largest_families(self.graph)

    @cached_property
    def shares(self) -> list[int]:
        """In which proportion the tables share ε: proofs/network.md, from the numbers of levels alone.

        The noise of a table with K cells adds about K·d/(2n²)·8/ε² to the expected log-loss of a record, d
        the free parameters that are read off it. Σ c/ε² with Σ ε fixed is least for ε ∝ c^⅓.
        """
        sizes = {column: domain.k for column, domain in self.domains.items()}
        cells = [math.prod(sizes[column] for column in family) for family in self.families]
        free = [0] * len(cells)
        for column, home in homes(self.graph, self.families, sizes).items():
            rows = math.prod(sizes[parent] for parent in self.graph[column])
            free[home] += rows * (sizes[column] - 1)
        weights = [(k * max(d, 1)) ** (1 / 3) for k, d in zip(cells, free, strict=True)]
        return [max(1, round(_PARTS * weight / max(weights))) for weight in weights]

    @cached_property
    def tables(self) -> list[CrossTable]:
        """A question for each table; what each may spend adds up to ε exactly."""
        epsilon, parts = as_epsilon(self.epsilon), sum(self.shares)
        inherited = ("prior", "relation", "total_prior", "n", "person", "per_person", "strict")
        common = {name: getattr(self, name) for name in inherited}
        return [
            FamilyTable(
                columns={column: self.domains[column] for column in family},
                epsilon=epsilon * Fraction(share, parts),
                **common,
            )
            for family, share in zip(self.families, self.shares, strict=True)
        ]

    @property
    def k(self) -> int:
        return sum(table.k for table in self.tables)

    def normalised(self) -> dict[str, Any]:
        return {"parents": plain(self.graph), "levels": _in_order(self.domains)}

    def read(self, data: Any) -> list[NDArray[np.int64]]:
        return contingencies(data, self.domains, self.families, **self.tables[0].reading)

    @property
    def declared_size(self) -> Any | None:
        return self.tables[0].declared_size

    def size_of(self, statistic: list[NDArray[np.int64]]) -> int:
        return self.tables[0].size_of(tuple(map(int, statistic[0].ravel())))

    def bind(self, size: int) -> Bound:
        """Every table by a mechanism of its own: what they lose adds up to ε."""
        bound = [table.bind(size) for table in self.tables]
        guarantee = network_cost([one.guarantee for one in bound])

        def make(counts: list[NDArray[np.int64]]) -> NetworkRelease:
            rows = [table.flat(own) for table, own in zip(self.tables, counts, strict=True)]
            releases = tuple(one.make(row) for one, row in zip(bound, rows, strict=True))
            return NetworkRelease(self.graph, releases, guarantee)  # type: ignore[arg-type]

        return Bound(guarantee, make)


def _in_order(domains: Mapping[str, Domain]) -> list[dict[str, Any]]:
    """Columns with their levels as a plan has them: their order is that of the cells."""
    return [{"column": column, **plain(domain)} for column, domain in domains.items()]
