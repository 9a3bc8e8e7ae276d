"""A Bayesian network: the conditional tables of a declared graph, all for one ε."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from discreet._data import contingencies
from discreet._declarations import Domain, as_epsilon
from discreet._registry import SENTENCES
from discreet.answers.network import NetworkRelease, network_cost
from discreet.distributions._networks import largest_families, table_for_column
from discreet.errors import InvalidInputError
from discreet.questions._counts import TableCounts
from discreet.questions._request import PricedRequest, Request, refuse_weight
from discreet.questions._text import ARROWS, NUMBER, optional, parameter, plain
from discreet.questions.base import Question
from discreet.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PARTS = 1000  # shares of ε are whole numbers up to this, so that ε is split exactly


@dataclass(frozen=True)
class Network(Question):
    """Ask for P(column | its parents) for every column of a directed acyclic graph.

    Parameters
    ----------
    parents : mapping
        Each column with the columns that it depends on; a column without parents has an empty list, or
        appears only as a parent.
    epsilon : number
        The privacy budget of the whole network.
    prior : float, optional
        The parameter of the Dirichlet prior of every conditional distribution, one number for all values. The
        default is 1; for tables of more than 50 cells it is an unknown number, which is inferred.

    Examples
    --------
    >>> Network({"income": ["age", "sex"]}, epsilon=1).parents
    {'income': ('age', 'sex'), 'age': (), 'sex': ()}
    """

    kind: ClassVar[str] = "network"
    title: ClassVar[str] = "Network"
    sentence: ClassVar[str] = SENTENCES["network"]

    parents: Mapping[str, Sequence[str]] = parameter(
        ARROWS,
        "Each column with the columns that it depends on: income=age,sex; age=sex; sex=.",
        label="Columns and their parents",
        example="income=age,sex; age=sex",
    )
    prior: float | None = optional(
        NUMBER,
        "Dirichlet prior of every conditional distribution, one number for all values. By default 1; for "
        "tables of more than 50 cells an unknown number, which is inferred.",
        kw_only=True,
    )

    def __post_init__(self) -> None:
        if not isinstance(self.parents, Mapping) or not self.parents:
            raise InvalidInputError(
                "must map columns to their parents, such as "
                "{'income': ('sex',)}; "
                'in a study file parents = {income = ["sex"]}',
                "parents",
                self.parents,
            )
        graph: dict[str, tuple[str, ...]] = {}
        for column, declared in self.parents.items():
            parents = (declared,) if isinstance(declared, str) else declared
            if not isinstance(parents, Iterable) or not all(isinstance(name, str) for name in parents):
                raise InvalidInputError("must be names of columns", f"parents[{column!r}]", declared)
            parents = tuple(parents)
            if len(set(parents)) < len(parents):
                raise InvalidInputError(f"parents: {column!r} has a parent twice: {', '.join(parents)}")
            graph[column] = parents
        for parents in list(graph.values()):
            for name in parents:
                graph.setdefault(name, ())
        object.__setattr__(self, "parents", graph)

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the graph, in the order of the schema.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str
        """
        return tuple(name for name in schema.columns if name in self.parents)

    def normalise(self, schema: Schema) -> dict[str, Any]:
        """Return the graph with its columns in the order of the schema.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        dict
        """
        return {"parents": plain({name: self.parents[name] for name in self.columns_used(schema)})}

    def request(self, schema: Schema) -> Request:
        """Return the noisy tables of columns with their parents.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        NetworkTables

        Raises
        ------
        InvalidInputError
            If a column is not a category, or δ is given: the guarantee is pure ε.

        Examples
        --------
        >>> from discreet import Schema
        >>> schema = Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]})
        >>> tables = Network({"smoker": ["sex"]}, epsilon=1).request(schema)
        >>> tables.families, tables.k
        ([('sex', 'smoker')], 4)
        """
        refuse_weight(schema, "a network is learned from unweighted records: leave it out of the schema")
        for name in self.parents:
            schema.category(name, "parents")
        if self.delta is not None:
            raise InvalidInputError("delta= cannot be used with a network: its guarantee is pure ε")
        graph = {name: tuple(self.parents[name]) for name in self.columns_used(schema)}
        return NetworkTables(schema=schema, graph=graph, epsilon=as_epsilon(self.epsilon), prior=self.prior)


@dataclass(frozen=True, kw_only=True)
class NetworkTables(Request):
    """The tables of columns with their parents, counted in one pass; ε is divided among them by size."""

    graph: Mapping[str, tuple[str, ...]]
    epsilon: Fraction
    prior: float | None = None

    def __post_init__(self) -> None:
        _ = self.tables

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The values of each column."""
        return {name: self.schema.domain(name, "parents") for name in self.graph}

    @cached_property
    def families(self) -> list[tuple[str, ...]]:
        """The columns of each table that is released."""
        return largest_families(self.graph)

    @cached_property
    def shares(self) -> list[int]:
        """The proportions in which the tables share ε: ``proofs/network.md``, from the numbers of levels.

        The noise of a table with K cells adds about K·d/(2n²)·8/ε² to the expected log-loss of a record,
        where d is the number of free parameters estimated from the table. If c is this factor of 1/ε² for
        each table and the sum of all ε is fixed, Σ c/ε² is least for ε ∝ c^⅓.
        """
        sizes = {column: domain.k for column, domain in self.domains.items()}
        cells = [math.prod(sizes[column] for column in family) for family in self.families]
        free = [0] * len(cells)
        for column, home in table_for_column(self.graph, self.families, sizes).items():
            rows = math.prod(sizes[parent] for parent in self.graph[column])
            free[home] += rows * (sizes[column] - 1)
        weights = [(k * max(d, 1)) ** (1 / 3) for k, d in zip(cells, free, strict=True)]
        return [max(1, round(_PARTS * weight / max(weights))) for weight in weights]

    @cached_property
    def tables(self) -> list[TableCounts]:
        """A request for each table; their budgets add up to ε exactly."""
        parts = sum(self.shares)
        return [
            TableCounts(
                schema=self.schema,
                columns=family,
                epsilon=self.epsilon * Fraction(share, parts),
                prior=self.prior,
            )
            for family, share in zip(self.families, self.shares, strict=True)
        ]

    @property
    def k(self) -> int:
        """The number of cells of all tables."""
        return sum(table.k for table in self.tables)

    def read(self, data: Any) -> list[NDArray[np.int64]]:
        """Return the exact counts of each table.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.

        Returns
        -------
        list of ndarray
        """
        return contingencies(data, self.domains, self.families, **self.tables[0].reading)

    @property
    def declared_size(self) -> Any | None:
        return self.tables[0].declared_size

    def size_of(self, statistic: list[NDArray[np.int64]]) -> int:
        """Return the number of records, or 0 where it is private.

        Parameters
        ----------
        statistic : list of ndarray
            What :meth:`read` returned.

        Returns
        -------
        int
        """
        return self.tables[0].size_of(tuple(map(int, statistic[0].ravel())))

    def bind(self, size: int) -> PricedRequest:
        """Return the guarantee of all tables together, and the function that releases them.

        Each table has a mechanism of its own; their budgets add up to ε.

        Parameters
        ----------
        size : int
            The public number of records.

        Returns
        -------
        PricedRequest
        """
        priced = [table.bind(size) for table in self.tables]
        guarantee = network_cost([table.guarantee for table in priced])

        def _make(counts: list[NDArray[np.int64]]) -> NetworkRelease:
            rows = [table.flatten(counted) for table, counted in zip(self.tables, counts, strict=True)]
            releases = tuple(table.make(row) for table, row in zip(priced, rows, strict=True))
            return NetworkRelease(self.graph, releases, guarantee)  # type: ignore[arg-type]

        return PricedRequest(guarantee, _make)
