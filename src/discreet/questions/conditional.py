"""Shares of an outcome within groups that are public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from discreet.answers.conditional import ConditionalRelease
from discreet.answers.release import publish
from discreet.data import contingency
from discreet.declarations import Domain, as_integer
from discreet.errors import DataError, InvalidInput
from discreet.privacy.composition import parallel
from discreet.privacy.guarantee import Guarantee
from discreet.questions.base import Bound, optional, parameter
from discreet.questions.counts import CountQuestion, left_out
from discreet.questions.text import LEVELS, TEXT, WHOLES, plain


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
    missing: str | None = left_out()

    @cached_property
    def domain(self) -> Domain:
        """The levels of the outcome."""
        return self.domain_of(self.outcome, self.levels)

    @cached_property
    def group_domain(self) -> Domain:
        """The groups."""
        try:
            return self.domain_of(self.given, self.groups)
        except InvalidInput as error:
            said = str(error).replace("levels=", "groups=").replace("level(s); a proportion", "group(s); it")
            raise InvalidInput(said) from None

    def __post_init__(self) -> None:
        """Checks the rest, and that there is one size for each group."""
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
        """The public sizes of the groups, where they were declared; zeros where they are private."""
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
        """The counts of the outcome in each group."""
        declared = self.declared_size
        domains = {self.given: self.group_domain, self.outcome: self.domain}
        known = declared is not None and not self.hides_size and not self.group_domain.excludes_missing
        n = sum(declared) if known and declared is not None else None
        table = contingency(data, domains, n=n, private_size=self.hides_size, strict=self.strict)
        # Whoever is in no declared group is left out: the groups are public, or nobody learns of it.
        return [tuple(int(records) for records in row) for row in table[: self.group_domain.k]]

    def size_of(self, statistic: list[tuple[int, ...]]) -> tuple[int, ...]:
        """The sizes of the groups, which become public; zeros where they are private."""
        return tuple(0 if self.hides_size else sum(row) for row in statistic)

    def bind(self, size: Sequence[int]) -> Bound:
        """One mechanism for each group: a record is in one, so together they cost ε once."""
        hidden = self.hides_size
        built = [self.build(number, self.exact_epsilon) if number or hidden else None for number in size]
        note = f"the {self.given!r} of every record, and with it the size of every group, is public"

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
                    else publish(
                        one,
                        one.run(row),
                        self.domain,
                        assuming(one.guarantee),
                        total_prior=self.expected_total,
                        column=self.outcome,
                        strength=self.strength,
                    )
                    for one, row in zip(built, rows, strict=True)
                ),
                guarantee=guarantee,
            )

        return Bound(guarantee, make)
