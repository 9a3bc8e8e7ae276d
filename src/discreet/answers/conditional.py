"""Posteriors of an outcome within groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet._declarations import Relation, as_positive, group_assumption
from discreet._documents.answer import Answer
from discreet._documents.parts import Figure, Row, Table, Words, as_count, by_outcome, groups_table, rows_of
from discreet._typing import FloatArray
from discreet.answers.release import Release
from discreet.distributions.beta_dirichlet import beta_summaries, dirichlet
from discreet.errors import InvalidInputError
from discreet.privacy.composition import parallel
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet._inference.comparisons import Shares
    from discreet._inference.pooled import Pooled
    from discreet.distributions.quantity import Quantity
    from discreet.regression._pooled import Covariates, PooledEstimates

_MOST_COMPARED_GROUPS = 3


@dataclass(frozen=True, repr=False)
class ConditionalRelease(Answer):
    """Private shares of an outcome within public or private groups: P(outcome | group).

    Attributes
    ----------
    outcome : str
        The column whose shares were released.
    given : str
        The column of the groups.
    groups : tuple
        The values of ``given``.
    sizes : tuple of int or None
        The public number of records in each group; None where these numbers are private.
    releases : tuple of Release or None
        One release for each group; None for a group without records, whose posterior is the prior.
    guarantee : Guarantee
        The guarantee of all groups together.

    Examples
    --------
    >>> import discreet
    >>> columns = {"smoker": ["no", "yes"], "region": discreet.Category(["north", "south"], public=True)}
    >>> schema = discreet.Schema(columns, n=400, sizes={"region": {"north": 200, "south": 200}})
    >>> data = {"smoker": ["no", "yes"] * 200, "region": ["north"] * 200 + ["south"] * 200}
    >>> groups = discreet.proportions(data, "smoker", by="region", schema=schema, epsilon=1)
    >>> groups.names
    (('north', 'no'), ('north', 'yes'), ('south', 'no'), ('south', 'yes'))
    >>> groups["north"].n
    200
    """

    format: ClassVar[str] = "discreet/conditional"
    tables_hold_rows: ClassVar[bool] = True
    label: ClassVar[str] = "value"
    variable: ClassVar[str] = "share"

    outcome: str
    given: str
    groups: tuple[Any, ...]
    sizes: tuple[int, ...] | None
    releases: tuple[Release | None, ...]
    guarantee: Guarantee

    def __getitem__(self, group: Any) -> Release | None:
        if group not in self.groups:
            raise InvalidInputError(f"group {group!r} is not one of {self.groups!r}")
        return self.releases[self.groups.index(group)]

    def pool(
        self, covariates: Covariates | None = None, value: Any = None, seed: int = 0
    ) -> Pooled | PooledEstimates:
        """Return the shares of all groups under a hierarchical model; this costs no further privacy.

        The shares of the groups are modelled as draws from one Dirichlet distribution, whose parameters are
        integrated out; with covariates, the share of one value is a draw from a normal distribution around a
        line. A group without records has the posterior of a new group.

        Parameters
        ----------
        covariates : mapping, optional
            Public numbers of the groups, by name and group: the centre of the groups is then a line of these
            (Fay and Herriot).
        value : object, optional
            With covariates, the value whose share is pooled; by default the last one.
        seed : int
            The seed of the sampler, which runs if there are more than two values.

        Returns
        -------
        Pooled or PooledEstimates

        Raises
        ------
        InvalidInputError
            If the sizes of the groups, or the numbers of records that have a value, are private.

        Examples
        --------
        >>> import discreet
        >>> columns = {"smoker": ["no", "yes"], "region": discreet.Category(["north", "south"], public=True)}
        >>> schema = discreet.Schema(columns, n=400, sizes={"region": {"north": 200, "south": 200}})
        >>> data = {"smoker": ["no", "yes"] * 200, "region": ["north"] * 200 + ["south"] * 200}
        >>> groups = discreet.proportions(data, "smoker", by="region", schema=schema, epsilon=1)
        >>> groups.pool().names == groups.names
        True
        """
        from discreet._inference.pooled import pool_groups, released_groups
        from discreet.regression._pooled import pool_shares

        if covariates is not None:
            empty, axes = [release is None for release in self.releases], self.axes_of_names
            drawn, prior = self._shares.draws, self._first.prior
            return pool_shares(drawn, prior, axes, value, covariates, seed, self.rows(), empty)
        if self.sizes is None:
            raise InvalidInputError("pool needs the sizes of the groups, which are private under add-remove")
        if any(release.leaves_out for release in self._nonempty):
            raise InvalidInputError(
                "pool needs the number of records with a value in each group, which missing='exclude' keeps "
                "private"
            )

        parts = [
            None if release is None else (release.built, release.counts, release.noisy)
            for release in self.releases
        ]
        levels = len(self._nonempty[0].counts)
        return pool_groups(
            released_groups(parts, self.sizes, levels),
            self.groups,
            self._nonempty[0].levels,
            seed=seed,
            outcome=self.outcome,
            given=self.given,
        )

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the shares of all groups, group after group; a group without records has draws of the prior.

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
        rng = np.random.default_rng(seed)
        drawn = [
            rng.dirichlet(self._first.prior, as_positive(size, "size"))
            if release is None
            else release.draws(size, int(rng.integers(2**63)))
            for release in self.releases
        ]
        return np.concatenate(drawn, axis=1)

    def shares(self, size: int = 4000, seed: int | None = 0) -> Shares:
        """Return draws of the shares within each group, for comparisons between groups.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            The same seed gives the same draws.

        Returns
        -------
        Shares
            With ``difference``, ``ratio`` and ``odds_ratio``. A group without records has draws of the prior.

        Examples
        --------
        >>> import discreet
        >>> columns = {"smoker": ["no", "yes"], "region": discreet.Category(["north", "south"], public=True)}
        >>> schema = discreet.Schema(columns, n=400, sizes={"region": {"north": 200, "south": 200}})
        >>> data = {"smoker": ["no", "yes"] * 200, "region": ["north"] * 200 + ["south"] * 200}
        >>> groups = discreet.proportions(data, "smoker", by="region", schema=schema, epsilon=1)
        >>> groups.shares(size=500).draws.shape
        (500, 2, 2)
        """
        from discreet._inference.comparisons import Shares

        draws = self.draws(size, seed).reshape(size, len(self.groups), -1)
        return Shares(draws, self.outcome, self.given, self.groups, self._first.levels)

    @cached_property
    def _shares(self) -> Shares:
        return self.shares()

    def difference(self, value: Any, between: Sequence[Any]) -> Quantity:
        """Return the share of a value in one group minus its share in another.

        Parameters
        ----------
        value
            A value of the outcome.
        between : pair
            Two groups: the share in the second is subtracted from the share in the first.

        Returns
        -------
        Quantity
            With ``mean``, ``std``, ``interval`` and the ``probability`` that it is above 0.

        Examples
        --------
        >>> import discreet
        >>> columns = {"smoker": ["no", "yes"], "region": discreet.Category(["north", "south"], public=True)}
        >>> schema = discreet.Schema(columns, n=4000, sizes={"region": {"north": 2000, "south": 2000}})
        >>> data = {"smoker": ["no"] * 2100 + ["yes"] * 1900, "region": ["north"] * 2000 + ["south"] * 2000}
        >>> groups = discreet.proportions(data, "smoker", by="region", schema=schema, epsilon=1)
        >>> bool(groups.difference("yes", ("south", "north")).mean() > 0.5)
        True
        """
        return self._shares.difference(value, between)

    def ratio(self, value: Any, between: Sequence[Any]) -> Quantity:
        """Return the share of a value in one group divided by its share in another.

        Parameters
        ----------
        value
            A value of the outcome.
        between : pair
            Two groups: the share in the first is divided by the share in the second.

        Returns
        -------
        Quantity
        """
        return self._shares.ratio(value, between)

    def differences(self, level: float = 0.95) -> Table:
        """Return the differences of all other groups from the first, in percentage points, as a table.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        Table

        Examples
        --------
        >>> import discreet
        >>> columns = {"smoker": ["no", "yes"], "region": discreet.Category(["north", "south"], public=True)}
        >>> schema = discreet.Schema(columns, n=400, sizes={"region": {"north": 200, "south": 200}})
        >>> data = {"smoker": ["no", "yes"] * 200, "region": ["north"] * 200 + ["south"] * 200}
        >>> groups = discreet.proportions(data, "smoker", by="region", schema=schema, epsilon=1)
        >>> len(groups.differences().cells)  # one for each value
        2
        """
        return self._shares.differences(level)

    @property
    def posterior(self) -> dict[Any, Any]:
        """The posterior of the shares of each group; the prior for a group without records."""
        prior = dirichlet(self._first.prior)
        return {
            group: prior if release is None else release.posterior
            for group, release in zip(self.groups, self.releases, strict=True)
        }

    @property
    def plug_in(self) -> dict[Any, Any]:
        """The posterior of each group with released counts taken as exact; it is too narrow."""
        prior = dirichlet(self._first.prior)
        return {
            group: prior if release is None else release.plug_in
            for group, release in zip(self.groups, self.releases, strict=True)
        }

    @property
    def _first(self) -> Release:
        if not self._nonempty:
            raise InvalidInputError("no group has records, so there are no shares")
        return self._nonempty[0]

    @cached_property
    def _nonempty(self) -> list[Release]:
        """The releases of the groups that have records."""
        return [release for release in self.releases if release is not None]

    @property
    def versions(self) -> Mapping[str, str]:
        return self._nonempty[0].versions if self._nonempty else {}

    @property
    def axes_of_names(self) -> Mapping[str, Sequence[Any]]:
        return {self.given: self.groups, self.outcome: self._first.levels}

    @property
    def names(self) -> tuple[Any, ...]:
        """A pair for each share: the group, and the value."""
        return tuple(product(self.groups, self._first.levels))

    @property
    def heading(self) -> str:
        return f"{self.given} · {self.outcome}"

    def _rows(self, level: float) -> list[Row]:
        """Return the share of each value within each group, with its interval."""
        return self._name(
            [self._prior_rows(level) if release is None else release.rows(level) for release in self.releases]
        )

    def _rows_without_noise(self, level: float) -> list[Row]:
        """Return the rows for displays; those of some groups come from the plug-in posterior."""
        return self._name(
            [
                self._prior_rows(level) if release is None else release.shown_rows(level)
                for release in self.releases
            ]
        )

    def _prior_rows(self, level: float) -> list[Row]:
        return rows_of(self._first.levels, *beta_summaries(np.asarray(self._first.prior), level), share=True)

    def _name(self, groups: Sequence[Sequence[Row]]) -> list[Row]:
        return [
            replace(row, name=f"{group} · {row.name}")
            for group, rows in zip(self.groups, groups, strict=True)
            for row in rows
        ]

    def screen(self, level: float = 0.95) -> Table:
        """Return the printed table, a row for each group.

        It shows the share of the last of two values, or all shares side by side.

        Parameters
        ----------
        level : float
            The probability of the intervals.

        Returns
        -------
        Table
        """
        sizes = None if self.sizes is None else [f"{size:,}" for size in self.sizes]
        rows = self.shown_rows(level)
        table = groups_table(self.given, self.groups, self._first.levels, rows, level, sizes)
        return self.column_labels.table(table)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(text for release in self._nonempty for text in release.warnings))

    @property
    def notes(self) -> tuple[str, ...]:
        empty = [
            str(group) for group, release in zip(self.groups, self.releases, strict=True) if release is None
        ]
        note = (f"No records, so the posterior is the prior: {', '.join(empty)}.",) if empty else ()
        if not self._nonempty:
            return note
        return (self._first.notes[0], *note)

    def _figure(self, rows: Sequence[Row], level: float) -> Figure | None:
        """Return the intervals to draw, grouped by value; None if no group has records."""
        figure = super()._figure(rows, level) if self._nonempty else None
        if figure is None or len(figure.rows) != len(self.names):
            return figure
        return replace(figure, rows=by_outcome(figure.rows, self.groups))

    def tables(self) -> tuple[Table, ...]:
        """Return the shares of all groups side by side, and for few groups their differences."""
        if len(self.groups) < 2 or any(release.posterior_or_none() is None for release in self._nonempty):
            return ()
        return self._shares.tables(len(self.groups) <= _MOST_COMPARED_GROUPS)

    def words(self) -> Words:
        sizes = "the number in each group is private"
        if self.sizes is not None:
            sizes = "; ".join(
                f"{group}: {size:,}" for group, size in zip(self.groups, self.sizes, strict=True)
            )
        facts = (("Question", f"shares of {self.outcome}, given {self.given}"), ("Records", sizes))
        first = self._nonempty[0].words() if self._nonempty else Words("", "")
        return Words(
            headline=f"Private shares of {self.outcome} within each {self.given}",
            name=f"Shares of {self.outcome} within each {self.given}",
            facts=(*facts, *(fact for fact in first.facts if fact[0] not in ("Column", "Records"))),
            reading=first.reading,
        )

    def content(self) -> dict[str, Any]:
        return {"private": self.guarantee.is_private, **super().content()}

    def check_parts(self) -> None:
        """Refuse a document whose groups disagree about sizes, values or the relation."""
        super().check_parts()
        if self.sizes is not None and self.sizes != tuple(
            release.n if release else 0 for release in self.releases
        ):
            raise ValueError("the group sizes differ from those of their releases")
        if not self._nonempty or len({release.levels for release in self._nonempty}) > 1:
            raise ValueError("no group has a release, or their levels differ")
        hidden = self.guarantee.relation is Relation.ADD_REMOVE
        if self.guarantee.is_private and (self.sizes is None) is not hidden:
            raise ValueError(
                "it must have group sizes unless its relation is add-remove, which makes them private"
            )

    def cost(self) -> Guarantee:
        """Return the largest cost of any group: each record is in only one group."""
        together = parallel([release.cost() for release in self._nonempty])
        if together.relation is Relation.ADD_REMOVE:
            return together
        inside = replace(together, assumptions=self._nonempty[0].cost().assumptions)  # said once, by name
        return inside.within_group(group_assumption(self.given))

    def upgrade(self) -> Self:
        """Return the release with a within-group guarantee where version 0.1.0 stated replace-one."""
        if self.guarantee.relation is not Relation.REPLACE_ONE:
            return self
        return replace(self, guarantee=self.guarantee.within_group(group_assumption(self.given)))

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the release from the content of its document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        ConditionalRelease

        Raises
        ------
        ValueError
            If the numbers of groups, sizes and releases differ.
        """
        sizes = content["sizes"]
        parts = [content["groups"], content["releases"], *([] if sizes is None else [sizes])]
        if len(set(map(len, parts))) != 1:
            raise ValueError("there must be a release for each group")
        return cls(
            outcome=str(content["outcome"]),
            given=str(content["given"]),
            groups=tuple(content["groups"]),
            sizes=None if sizes is None else tuple(as_count(size, "sizes") for size in sizes),
            releases=tuple(
                None if document is None else Release.from_json(document) for document in content["releases"]
            ),
            guarantee=Guarantee.from_dict(content["guarantee"]),
        )
