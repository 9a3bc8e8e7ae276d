"""Posteriors of the conditional tables of a Bayesian network, and the queries that they answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln

from discreet._declarations import EXCLUDE, as_positive
from discreet._documents.answer import Answer
from discreet._documents.parts import INTERVALS_NOTE, Figure, Row, Table, Words
from discreet._interop import inference_data
from discreet._text import nearest
from discreet._typing import FloatArray, IntArray
from discreet.answers.release import Release
from discreet.distributions._networks import (
    NetworkDraws,
    largest_families,
    layers,
    make_consistent,
    resample,
    table_for_column,
)
from discreet.distributions.quantity import Quantity
from discreet.errors import InvalidInputError
from discreet.privacy.composition import compose
from discreet.privacy.guarantee import Guarantee

NETWORKS_DRAWN = 2000
"""The default number of posterior draws of the network."""
_MAX_PRINTED_CELLS = 60  # cells of the largest conditional table that is printed
_READING = (
    "A network states how each column depends on its parents, given which it is independent of the columns "
    "before it. Shares are computed in many networks drawn from the posterior, and the interval contains 95 "
    "% of the results. The arrows are assumed to be right: if they are wrong, shares of columns that are far "
    "apart may be off by more than the interval shows."
)


def network_cost(tables: Sequence[Guarantee]) -> Guarantee:
    """Return the guarantee of all tables of a network together.

    Parameters
    ----------
    tables : sequence of Guarantee
        The guarantee of each table.

    Returns
    -------
    Guarantee
    """
    return replace(compose(tables), basis=f"theorem: proofs/network.md, {len(tables)} tables")


@dataclass(frozen=True, repr=False)
class NetworkRelease(Answer):
    """A private Bayesian network: P(column | its parents) for every column, from noisy tables.

    Draws of whole networks (:meth:`networks`), any conditional share (:meth:`probability`,
    :meth:`distribution`) and synthetic records (:meth:`sample_records`) are computed from the released
    tables and cost no further privacy.

    Attributes
    ----------
    parents : mapping
        A mapping from each column to the columns on which it depends.
    releases : tuple of Release
        The tables of columns with their parents, each with its part of ε.
    guarantee : Guarantee
        The guarantee of all tables together.

    Examples
    --------
    >>> import discreet
    >>> schema = discreet.Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]}, n=400)
    >>> data = {"sex": ["f", "m"] * 200, "smoker": ["no"] * 300 + ["yes"] * 100}
    >>> graph = {"sex": [], "smoker": ["sex"]}
    >>> answer = discreet.network(data, graph, schema=schema, epsilon=1)
    >>> answer.names
    (('sex', 'f'), ('sex', 'm'), ('smoker', 'no'), ('smoker', 'yes'))
    >>> answer.probability({"smoker": "yes"}, given={"sex": "f"}, size=500).draws.shape
    (500,)
    """

    format: ClassVar[str] = "discreet/network"
    label: ClassVar[str] = "column: value"
    variable: ClassVar[str] = "share"

    parents: Mapping[str, tuple[str, ...]]
    releases: tuple[Release, ...]
    guarantee: Guarantee

    @cached_property
    def levels(self) -> dict[str, tuple[Any, ...]]:
        values_of = {
            name: tuple(values) for release in self.releases for name, values in (release.axes or {}).items()
        }
        return {column: values_of[column] for column in self.parents}

    @property
    def n(self) -> int | None:
        return self.releases[0].n

    @property
    def versions(self) -> Mapping[str, str]:
        return self.releases[0].versions

    # ---- what can be asked: further looks at what is public, all of them free ----

    def networks(self, size: int = NETWORKS_DRAWN, seed: int | None = 0) -> NetworkDraws:
        """Draw all conditional tables from their posterior given everything that was released.

        The true counts of each table are drawn exactly given its published counts, and reconciled where
        tables share columns. Each conditional distribution is then drawn given these counts.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        NetworkDraws
        """
        number, rng = as_positive(size, "size"), np.random.default_rng(seed)
        axes = [tuple(release.axes or {}) for release in self.releases]
        sizes = {column: len(values) for column, values in self.levels.items()}
        drawn = [self._counts(release, number, rng) for release in self.releases]
        counts = [table for table, _ in drawn]
        # Where n is public, those who did not answer are left out of the tables of that column alone.
        if self.n is None or not any(release.missing == EXCLUDE for release in self.releases):
            counts = make_consistent(counts, axes)
        tables = {}
        for column, home in table_for_column(self.parents, axes, sizes).items():
            columns, wanted = axes[home], (*self.parents[column], column)
            dropped = tuple(1 + i for i, name in enumerate(columns) if name not in wanted)
            used = [name for name in columns if name in wanted]
            margin = counts[home].sum(axis=dropped).transpose(0, *(1 + used.index(name) for name in wanted))
            prior = drawn[home][1].reshape(-1, *(1 for _ in wanted))
            gamma = rng.standard_gamma(margin + prior) + 1e-300
            tables[column] = gamma / gamma.sum(axis=-1, keepdims=True)
        return NetworkDraws(self.parents, self.levels, tables)

    def _counts(self, release: Release, size: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Draw the true counts of one table, shape (size, values…), and the prior of its distributions.

        The prior of a table is symmetric over all its cells, the combinations of parents included. The
        network's prior is symmetric for each conditional distribution only, so draws are resampled with the
        ratio of the two as weights: Γ(α + N)/Γ(kα + N) for each combination with N records. A prior that is
        inferred from the table itself needs no correction.
        """
        number = size if release.strength else 2 * size
        counts, parameters = release.posterior.sample_counts(number, rng)
        prior = np.broadcast_to(parameters, counts.shape)[:, 0]
        shaped = counts.reshape(len(counts), *(len(values) for values in (release.axes or {}).values()))
        if release.strength is None:
            alpha, totals = prior[0], shaped.sum(axis=-1).reshape(len(shaped), -1)
            log_weight = gammaln(alpha + totals) - gammaln(shaped.shape[-1] * alpha + totals)
            chosen = resample(log_weight.sum(axis=1), size, rng)
            shaped, prior = shaped[chosen], prior[chosen]
        return shaped.astype(np.float64), prior

    @cached_property
    def _draw(self) -> NetworkDraws:
        return self.networks()

    def _chosen(self, size: int, seed: int | None) -> NetworkDraws:
        return self._draw if (size, seed) == (NETWORKS_DRAWN, 0) else self.networks(size, seed)

    def _known_places(self, given: Mapping[str, Any] | None, name: str) -> dict[str, IntArray]:
        """Return the positions of the values that each column may have: one value, or several in a list."""
        if given is not None and not isinstance(given, Mapping):
            raise InvalidInputError("must map columns to levels, such as {'sex': 'f'}", name, given)
        places = {}
        for column, levels in (given or {}).items():
            wanted = list(levels) if isinstance(levels, list | tuple | set | frozenset) else [levels]
            values = self._levels_of(column)
            for level in wanted:
                if level not in values:
                    raise InvalidInputError(
                        f"{name}: {level!r} is not a value of {column!r}"
                        f"{nearest(str(level), map(str, values))}"
                    )
            if not wanted:
                raise InvalidInputError(
                    f"{name}: the list of values of {column!r} is empty; name at least one"
                )
            places[column] = np.array(sorted({values.index(level) for level in wanted}))
        return places

    def _levels_of(self, column: str) -> tuple[Any, ...]:
        if column not in self.levels:
            raise InvalidInputError(
                f"{column!r} is not a column of this network{nearest(str(column), self.levels)}"
            )
        return self.levels[column]

    def probability(
        self,
        event: Mapping[str, Any],
        given: Mapping[str, Any] | None = None,
        size: int = NETWORKS_DRAWN,
        seed: int | None = 0,
    ) -> Quantity:
        """Compute P(event | given) with its interval.

        The other columns are eliminated exactly in each draw of the network.

        Parameters
        ----------
        event : mapping
            Columns with a value, or with a list of values, such as ``{"income": "high"}``.
        given : mapping, optional
            The condition, in the same form.
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        Quantity

        Raises
        ------
        InvalidInputError
            If a column or value is not in the network, or ``event`` is empty.
        """
        condition, asked = self._known_places(given, "given"), self._known_places(event, "event")
        if not asked:
            raise InvalidInputError("event is empty: name a column and its level, such as {'income': 'high'}")
        both = {**condition, **asked}
        for column in condition.keys() & asked.keys():
            both[column] = np.intersect1d(condition[column], asked[column])
        drawn = self._chosen(size, seed)
        if any(not len(places) for places in both.values()):
            return Quantity(np.zeros(len(drawn)))
        return Quantity(drawn.joint((), both) / drawn.joint((), condition))

    def distribution(
        self,
        column: str,
        given: Mapping[str, Any] | None = None,
        size: int = NETWORKS_DRAWN,
        seed: int | None = 0,
    ) -> Quantity:
        """Compute the shares of all values of a column, among the records that satisfy a condition.

        Parameters
        ----------
        column : str
            A column of the network.
        given : mapping, optional
            The condition, such as ``{"sex": "f"}``.
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        Quantity
            One share for each value of the column.

        Raises
        ------
        InvalidInputError
            If a column or value is not in the network, or ``given`` names ``column``.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]}, n=400)
        >>> data = {"sex": ["f", "m"] * 200, "smoker": ["no"] * 300 + ["yes"] * 100}
        >>> answer = discreet.network(data, {"sex": [], "smoker": ["sex"]}, schema=schema, epsilon=1)
        >>> answer.distribution("smoker", given={"sex": "f"}).names
        ('no', 'yes')
        """
        names, condition = self._levels_of(column), self._known_places(given, "given")
        if column in condition:
            raise InvalidInputError(f"given must not name {column!r}, the column of the distribution")
        joint = self._chosen(size, seed).joint((column,), condition)
        return Quantity(joint / joint.sum(axis=1, keepdims=True), names)

    def conditional(self, column: str) -> Quantity:
        """Return the table of a column given its parents.

        Parameters
        ----------
        column : str
            A column of the network.

        Returns
        -------
        Quantity
            Its names are tuples: a value of each parent, then a value of the column.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]}, n=400)
        >>> data = {"sex": ["f", "m"] * 200, "smoker": ["no"] * 300 + ["yes"] * 100}
        >>> answer = discreet.network(data, {"sex": [], "smoker": ["sex"]}, schema=schema, epsilon=1)
        >>> answer.conditional("smoker").names
        (('f', 'no'), ('f', 'yes'), ('m', 'no'), ('m', 'yes'))
        """
        axes = [self._levels_of(name) for name in (*self.parents.get(column, ()), column)]
        drawn = self._draw.tables[column]
        return Quantity(drawn.reshape(len(drawn), -1), tuple(product(*axes)))

    def sample_records(self, m: int, draws: int = 1, seed: int | None = None) -> Any:
        """Draw synthetic records, which belong to no real person.

        Repeat an analysis for each value of the column ``draw`` to see how much its result varies.

        Parameters
        ----------
        m : int
            The number of records from each network.
        draws : int
            The number of networks, drawn from the posterior.
        seed : int, optional
            The same seed gives the same records.

        Returns
        -------
        pandas.DataFrame
            The records, with a column ``draw`` if there are several networks.

        Examples
        --------
        >>> import discreet
        >>> schema = discreet.Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]}, n=400)
        >>> data = {"sex": ["f", "m"] * 200, "smoker": ["no"] * 300 + ["yes"] * 100}
        >>> answer = discreet.network(data, {"sex": [], "smoker": ["sex"]}, schema=schema, epsilon=1)
        >>> answer.sample_records(10, draws=3, seed=1).shape
        (30, 3)
        """
        import pandas

        number, times = as_positive(m, "m"), as_positive(draws, "draws")
        rng = np.random.default_rng(seed)
        networks = self.networks(times, int(rng.integers(2**63)))
        frames = []
        for i, places in enumerate(networks.records(number, rng)):
            values = {c: np.array(self.levels[c], dtype=object)[places[c]] for c in self.parents}
            frames.append(pandas.DataFrame(({"draw": i} if times > 1 else {}) | values))
        return pandas.concat(frames, ignore_index=True)

    # ---- what it says of itself ----

    @property
    def axes_of_names(self) -> Mapping[str, Sequence[Any]]:
        return {"column": tuple(self.parents), "value": ()}

    @property
    def names(self) -> tuple[Any, ...]:
        """A pair for each share: the column, and the value."""
        return tuple((column, value) for column in self.parents for value in self.levels[column])

    def _rows(self, level: float) -> list[Row]:
        """Return the share of each value of every column, with its interval."""
        return [
            Row.of(f"{column}: {row['name']}", row)
            for column in self.parents
            for row in self.distribution(column).table(level)
        ]

    def draws(self, size: int = NETWORKS_DRAWN, seed: int | None = None) -> FloatArray:
        """Draw the shares of the values of every column, column after column.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        array of shape (size, len(names))
        """
        drawn = self.networks(size, seed)
        return np.concatenate([drawn.joint((column,), {}) for column in self.parents], axis=1)

    def to_arviz(self, size: int = NETWORKS_DRAWN, seed: int | None = None) -> Any:
        """Return draws of the shares as ArviZ inference data, a variable for each column.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        arviz.InferenceData
        """
        drawn = self.networks(size, seed)
        shares = {column: drawn.joint((column,), {})[None] for column in self.parents}
        return inference_data(shares, self._attributes())

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for release in self.releases for text in release.warnings))

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Return the graph, with the shares of every column, as a figure."""
        graph = tuple(tuple((name, self.parents[name]) for name in layer) for layer in layers(self.parents))
        return Figure(self.words().name, tuple(rows), graph=graph)

    def tables(self) -> tuple[Table, ...]:
        """Return the conditional table of each column that has parents, unless it is too large to print."""
        tables = [
            (column, parents, self.conditional(column)) for column, parents in self.parents.items() if parents
        ]
        return tuple(self._table(*table) for table in tables if len(table[-1].names) <= _MAX_PRINTED_CELLS)

    def _table(self, column: str, given: Sequence[str], table: Quantity) -> Table:
        (low, high), mean, step = table.interval(0.95), table.mean(), len(self.levels[column])
        cells = [
            f"{100 * m:.1f} ({100 * a:.1f} to {100 * b:.1f})" for m, a, b in zip(mean, low, high, strict=True)
        ]
        lines = [
            (", ".join(map(str, table.names[at][:-1])), *cells[at : at + step])
            for at in range(0, len(cells), step)
        ]
        header = (", ".join(given), *map(str, self.levels[column]))
        caption = f"{column} given {', '.join(given)}: percent, with 95 % intervals"
        return Table(header, tuple(lines), caption)

    def words(self) -> Words:
        arrows = [f"{column} ← {', '.join(parents)}" for column, parents in self.parents.items() if parents]
        alone = [column for column, parents in self.parents.items() if not parents]
        tables = "; ".join(
            f"{' × '.join(release.axes or {})} ({len(release.levels)} cells): ε = {release.epsilon:.3g}"
            for release in self.releases
        )
        size = "their number is private" if self.n is None else f"{self.n:,} (public)"
        first = self.releases[0].words()
        facts = (
            ("Arrows", "; ".join(arrows) or "none"),
            ("Without parents", ", ".join(alone)),
            ("Records", f"{size}; no record is in this document"),
            ("Tables", tables),
            *(fact for fact in first.facts if fact[0] == "Mechanism"),
        )
        source = "a private number of records" if self.n is None else f"n = {self.n} records"
        return Words(
            headline=f"Private Bayesian network of {len(self.parents)} columns from {source}",
            name=f"Bayesian network of {len(self.parents)} columns",
            facts=facts,
            notes=("Shares follow from the whole network.", INTERVALS_NOTE),
            reading=(_READING,),
        )

    def content(self) -> dict[str, Any]:
        return {"private": self.guarantee.is_private, **super().content()}

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the network from the content of its document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        NetworkRelease

        Raises
        ------
        ValueError
            If its tables do not match its graph.
        """
        parents = {str(column): tuple(map(str, above)) for column, above in content["parents"].items()}
        if len(content["releases"]) != len(largest_families(parents)):
            raise ValueError("its tables do not match its graph")
        releases = tuple(Release.from_json(document) for document in content["releases"])
        return cls(parents, releases, Guarantee.from_dict(content["guarantee"]))

    def check_parts(self) -> None:
        """Refuse a document whose tables do not fit the graph, or disagree about the values of a column."""
        if [tuple(release.axes or {}) for release in self.releases] != largest_families(self.parents):
            raise ValueError("its tables do not match its graph")
        if any(
            tuple(values) != self.levels[name]
            for release in self.releases
            for name, values in (release.axes or {}).items()
        ):
            raise ValueError("its tables list different levels for one column")
        super().check_parts()

    def cost(self) -> Guarantee:
        """Return the guarantee of all tables together, by composition."""
        for release in self.releases:
            if release.guarantee.protects != self.guarantee.protects:
                raise ValueError("its relation differs from that of its tables")
        return network_cost([release.guarantee for release in self.releases])
