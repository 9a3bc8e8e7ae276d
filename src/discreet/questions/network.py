"""The conditional tables of a declared Bayesian network."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from discreet._text import nearest
from discreet._typing import EpsilonLike
from discreet.answers.network import NetworkRelease
from discreet.data import contingencies
from discreet.declarations import Domain, as_epsilon
from discreet.distributions.networks import homes, largest_families
from discreet.errors import InvalidInput
from discreet.privacy.composition import compose
from discreet.questions.base import Bound, PeopleQuestion, optional, parameter, same
from discreet.questions.counts import CountQuestion, domain_of
from discreet.questions.table import CrossTable
from discreet.questions.text import ARROWS, BUDGET, DOMAINS, NUMBER, TextForm, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PARTS = 1000  # of the largest share; shares are whole numbers of such parts, so that ε is split exactly


class FamilyTable(CrossTable):
    """The table of a column and its parents; of one column where it has none."""

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """As they were declared, and checked."""
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
    epsilon: EpsilonLike = parameter(
        BUDGET, "Privacy budget of the whole network.", label="Privacy budget ε", example="1"
    )
    prior: float | None = optional(
        NUMBER,
        "Dirichlet prior of every conditional distribution, one number for all levels. Left out: 1, and for "
        "tables of more than 50 cells an unknown number, which is inferred.",
    )
    relation: str = same(CountQuestion, "relation")
    total_prior: Sequence[float] | None = same(CountQuestion, "total_prior")

    def __post_init__(self) -> None:
        """Checks the graph and its levels, then every table as a question of its own."""
        _ = self.tables

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The declared levels of each column."""
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
        common = {name: getattr(self, name) for name in ("prior", "relation", "total_prior")}
        common |= {name: getattr(self, name) for name in ("n", "person", "per_person", "strict")}
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
        """The number of cells of all tables."""
        return sum(table.k for table in self.tables)

    def plain(self, name: str, value: Any, form: TextForm) -> Any:
        """The graph with every column; levels in their order, which is that of the cells."""
        if name == "parents":
            return {column: list(own) for column, own in self.graph.items()}
        if name == "levels":
            return [{"column": column, **plain(domain)} for column, domain in self.domains.items()]
        return super().plain(name, value, form)

    def read(self, data: Any) -> list[NDArray[np.int64]]:
        """The counts of every table, from one pass."""
        return contingencies(data, self.domains, self.families, **self.tables[0].reading)

    @property
    def declared_size(self) -> int | None:
        """The public number of records, where it was declared; 0 where it is private."""
        return self.tables[0].declared_size

    def size_of(self, statistic: list[NDArray[np.int64]]) -> int:
        """The number of records; 0 where it is private."""
        return self.tables[0].size_of(tuple(map(int, statistic[0].ravel())))

    def bind(self, size: int) -> Bound:
        """Every table by a mechanism of its own: what they lose adds up to ε."""
        bound = [table.bind(size) for table in self.tables]
        together = compose([one.guarantee for one in bound])
        guarantee = replace(together, basis=f"theorem: proofs/network.md, {len(bound)} tables")

        def make(counts: list[NDArray[np.int64]]) -> NetworkRelease:
            rows = [table.flat(own) for table, own in zip(self.tables, counts, strict=True)]
            releases = tuple(one.make(row) for one, row in zip(bound, rows, strict=True))
            return NetworkRelease(self.graph, releases, guarantee)  # type: ignore[arg-type]

        return Bound(guarantee, make)
