"""Posteriors of an outcome within groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet.answers.release import Release, tables_within
from discreet.declarations import Relation
from discreet.documents.answer import Answer, Figure, Part, Row, Table, Words, as_count
from discreet.errors import InvalidInput, TooLargeError
from discreet.privacy.composition import parallel
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.inference.comparisons import Shares
    from discreet.inference.pooled import Pooled

_FEW, _MANY = 3, 400  # groups from which on strength is shared in displays, and cells for which that is quick


def group_assumption(given: str) -> str:
    """What is public of groups whose sizes are."""
    return f"the {given!r} of every record, and with it the size of every group, is public"


@dataclass(frozen=True)
class ConditionalRelease(Answer):
    """P(outcome | group): one private posterior for each group, None for a group without records.

    ``sizes`` are the numbers of records in the groups, which are public; the posterior of an empty group is
    the prior. None where they are private.
    """

    format: ClassVar[str] = "discreet/conditional"
    label: ClassVar[str] = "level"

    outcome: str
    given: str
    groups: tuple[Any, ...]
    sizes: tuple[int, ...] | None
    releases: tuple[Release | None, ...]
    guarantee: Guarantee

    def __getitem__(self, group: Any) -> Release | None:
        if group not in self.groups:
            raise InvalidInput(f"group {group!r} is not one of {self.groups!r}")
        return self.releases[self.groups.index(group)]

    def pooled(self, seed: int = 0) -> Pooled:
        """Every group's shares with strength shared between the groups: a further look at what is public.

        Shares of the groups are taken as draws from one Dirichlet law, which is integrated. Groups without
        records have the posterior of a new group. ``seed`` is that of the sampler for more than two levels.
        """
        from discreet.inference.pooled import pooled, released_groups

        if self.sizes is None:
            raise InvalidInput("pooled needs the sizes of the groups, which are private under add-remove")
        if any(one.leaves_out for one in self._known):
            raise InvalidInput(
                "pooled needs how many of each group have a value, which missing='exclude' keeps private"
            )

        parts = [None if one is None else (one.built, one.counts, one.noisy) for one in self.releases]
        levels = len(self._known[0].counts)
        return pooled(released_groups(parts, self.sizes, levels), self.groups, seed=seed)

    def shares(self, size: int = 4000, seed: int | None = 0) -> Shares:
        """The shares within each group, noise-aware: with ``difference``, ``ratio``, ``odds_ratio``.

        A group without records has draws of the prior.
        """
        from discreet.inference.comparisons import Shares

        rng = np.random.default_rng(seed)
        if not self._known:
            raise InvalidInput("no group has records, so there are no shares to compare")
        known = self._known[0]
        draws = [
            rng.dirichlet(known.prior, size)
            if one is None
            else one.noise_aware().sample(size, int(rng.integers(2**63)))
            for one in self.releases
        ]
        return Shares(np.stack(draws, axis=1), self.outcome, self.given, self.groups, known.levels)

    def to_frame(self, interval: float = 0.95) -> Any:
        """The rows of all groups as a pandas data frame."""
        import pandas

        rows = [
            {self.given: group, **row}
            for group, one in zip(self.groups, self.releases, strict=True)
            if one is not None
            for row in one.table(interval)
        ]
        return pandas.DataFrame(rows).rename(columns={"level": self.outcome})

    @cached_property
    def _known(self) -> list[Release]:
        """Of the groups that have records."""
        return [one for one in self.releases if one is not None]

    @property
    def versions(self) -> Mapping[str, str]:
        return self._known[0].versions if self._known else {}

    def rows(self, interval: float = 0.95) -> list[Row]:
        """Empty: the rows are those of the parts."""
        return []

    @cached_property
    def _shown(self) -> Pooled | None:
        """The pooled groups, where there are enough of them and it takes no more than a moment."""
        if self.sizes is None or len(self.groups) < _FEW or not self._known:
            return None
        levels = len(self._known[0].counts)
        if levels > 2 and len(self.groups) * levels > _MANY:
            return None
        try:
            return self.pooled()
        except (InvalidInput, TooLargeError):
            return None

    def figure(self, interval: float = 0.95) -> Figure | None:
        """A caterpillar of the pooled groups; the parts have their own figures."""
        return None if self._shown is None else self._shown.figure(interval)

    def tables(self) -> tuple[Table, ...]:
        """The shares of few groups side by side, or more groups with strength shared between them."""
        if self._shown is None:
            if not self._known or not 1 < len(self.groups) <= _FEW:
                return ()
            aware = all(one.noise_aware_or_none() is not None for one in self._known)
            return tables_within(self.shares()) if aware else ()
        rows = self._shown.figure(0.95).rows
        cells = tuple((row.name, *map(row.written, (row.mean, row.low, row.high))) for row in rows)
        levels = self._known[0].levels
        first = str(levels[0]) if len(levels) == 2 else "level"
        head = (self.given, f"share of {first}", "low 95 %", "high 95 %")
        return (Table(head, cells, "Groups that share strength: shares as draws from one unknown law"),)

    def parts(self) -> tuple[Part, ...]:
        """The release of each group."""
        sizes = ["private"] * len(self.groups) if self.sizes is None else [f"= {n}" for n in self.sizes]
        return tuple(
            Part(f"{self.given} = {group} (n {size})", one, "No records: the posterior is the prior.")
            for group, size, one in zip(self.groups, sizes, self.releases, strict=True)
        )

    def words(self) -> Words:
        sizes = "the number in each group is private"
        if self.sizes is not None:
            sizes = "; ".join(f"{group}: {size}" for group, size in zip(self.groups, self.sizes, strict=True))
        facts = (("Question", f"shares of {self.outcome}, given {self.given}"), ("Records", sizes))
        first = self._known[0].words() if self._known else Words("", "")
        return Words(
            headline=f"P({self.outcome} | {self.given})",
            name=f"Posteriors of {self.outcome} given {self.given}",
            facts=(*facts, *(one for one in first.facts if one[0] not in ("Column", "Records"))),
            reading=first.reading,
        )

    def content(self) -> dict[str, Any]:
        return {"private": self.guarantee.is_private, **super().content()}

    def check_parts(self) -> None:
        """No less is claimed than the groups' releases cost; each record is in one of them."""
        super().check_parts()
        if self.sizes is not None and self.sizes != tuple(one.n if one else 0 for one in self.releases):
            raise ValueError("the sizes of the groups are not those of their releases")
        if not self._known or len({one.levels for one in self._known}) > 1:
            raise ValueError("no group has a release, or their levels differ")
        hidden = self.guarantee.relation is Relation.ADD_REMOVE
        if self.guarantee.is_private and (self.sizes is None) is not hidden:
            raise ValueError(
                "it claims a relation under which sizes of groups are private, or publishes none"
            )

    def cost(self) -> Guarantee:
        """That of the dearest group: each record is in one of them. Who is in which is public, or hidden."""
        together = parallel([one.cost() for one in self._known])
        if together.relation is Relation.ADD_REMOVE:
            return together
        inside = replace(together, assumptions=self._known[0].cost().assumptions)  # said once, by name
        return inside.within_group(group_assumption(self.given))

    def upgraded(self) -> Self:
        """Return it as within-group: version 0.1.0 wrote replace-one where the groups are public."""
        if self.guarantee.relation is not Relation.REPLACE_ONE:
            return self
        return replace(self, guarantee=self.guarantee.within_group(group_assumption(self.given)))

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        sizes = content["sizes"]
        parts = [content["groups"], content["releases"], *([] if sizes is None else [sizes])]
        if len(set(map(len, parts))) != 1:
            raise ValueError("there must be a release for each group")
        return cls(
            outcome=str(content["outcome"]),
            given=str(content["given"]),
            groups=tuple(content["groups"]),
            sizes=None if sizes is None else tuple(as_count(size, "sizes") for size in sizes),
            releases=tuple(None if one is None else Release.from_json(one) for one in content["releases"]),
            guarantee=Guarantee.from_dict(content["guarantee"]),
        )
