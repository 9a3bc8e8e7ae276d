"""Levels that stand out from the noise, of many more than there are records, and everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from discreet._text import amount
from discreet.declarations import Relation, as_rational
from discreet.documents.answer import LARGEST, VERSIONS, Answer, Row, Words
from discreet.mechanisms.sparse import Sparse
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.inference.sparse import SparsePosterior

EVERYTHING_ELSE = "everything else"


@dataclass(frozen=True)
class SparseRelease(Answer):
    """The levels whose noisy counts reach a public threshold, and the noisy number of all other records."""

    format: ClassVar[str] = "discreet/sparse"
    label: ClassVar[str] = "level"

    levels: tuple[Any, ...]
    """The published levels, in the order in which they were declared."""
    counts: tuple[int, ...]
    """Their noisy counts."""
    everything_else: int
    """The noisy number of records of all levels that are not published."""
    k: int
    """How many levels were declared."""
    guarantee: Guarantee
    expected_false: Fraction = Fraction(1)
    column: str | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: VERSIONS)

    @cached_property
    def mechanism(self) -> Sparse:
        """How levels were selected and noise was drawn."""
        assert self.guarantee.exact_epsilon is not None
        return Sparse(self.guarantee.exact_epsilon, self.k, self.expected_false)

    @property
    def threshold(self) -> int:
        """The least noisy count that was published."""
        return self.mechanism.threshold

    @property
    def heading(self) -> str:
        return self.column or self.label

    @cached_property
    def _noise_aware(self) -> SparsePosterior:
        from discreet.inference.sparse import SparsePosterior

        return SparsePosterior(self.counts, self.everything_else, self.mechanism)

    def noise_aware(self) -> SparsePosterior:
        """The numbers of records of the published levels, of everything else, and of all: free."""
        return self._noise_aware

    def rows(self, interval: float = 0.95) -> list[Row]:
        """The number of records of each published level, of everything else, and of all."""
        found = self._noise_aware
        names = [*map(str, self.levels), EVERYTHING_ELSE]
        parts = found.mean(), found.std(), *found.interval(interval)
        noisy = (*self.counts, self.everything_else)
        rows = [
            Row(name, mean, sd, low, high, count=z)
            for name, z, mean, sd, low, high in zip(names, noisy, *(x.tolist() for x in parts), strict=True)
        ]
        low, high = found.total.interval(interval)
        return [*rows, Row("all records", found.total.mean(), found.total.std(), float(low), float(high))]

    def words(self) -> Words:
        """What was published, what was not, and what is assumed."""
        made, of = self.mechanism, f" of {self.column}" if self.column else ""
        return Words(
            headline=f"{len(self.levels):,} of {self.k:,} declared levels{of} stand out from the noise",
            name=f"Levels{of} that stand out, and everything else",
            facts=(
                *([("Column", self.column)] if self.column else []),
                ("Declared levels", f"{self.k:,}"),
                (
                    "What is published",
                    f"every level whose noisy count is {made.threshold:,} or more, and the noisy number of "
                    "records of all others together",
                ),
                ("Empty levels among them", f"at most {amount(self.expected_false)} on average, by chance"),
                (
                    "Noise",
                    "a random whole number was added to every count, independently: of rate "
                    f"{amount(made.level_epsilon)} for a level and {amount(made.rest_epsilon)} for "
                    "everything else",
                ),
            ),
            notes=(
                "The figures are numbers of records. A level with a count near the threshold may have none: "
                "where its interval begins at 0 that is likely enough to be said.",
                "Everything else is all declared levels that are not here, together: each of them may have "
                "records.",
                *self._doubts(),
            ),
            reading=(
                "What was assumed of a level: it is empty with an unknown probability, or has x records in "
                "proportion to a power of x, and both are inferred from what was published and what was not. "
                "The number of records of everything else was counted with noise, not inferred from these.",
            ),
        )

    def _doubts(self) -> tuple[str, ...]:
        """Where the interval of all records was seen to hold less often than it says."""
        if 10 * self.expected_false < 1:
            return ()
        return (
            "Where levels are few and about equally large, an empty one that stands out by chance is taken "
            "for one of them, and the interval of all records holds less often than it says; a smaller "
            "expected_false, such as 0.01, avoids that.",
        )

    def content(self) -> dict[str, Any]:
        """JSON values."""
        return {**super().content(), "threshold": self.threshold}

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Reads :meth:`content`."""
        guarantee = Guarantee.from_dict(content["guarantee"])
        if not guarantee.exact_epsilon or guarantee.exact_delta:
            raise ValueError("the guarantee is malformed")
        if guarantee.relation is not Relation.ADD_REMOVE:
            raise ValueError(f"this is for add-remove, not for {guarantee.relation}")
        found = cls(
            levels=tuple(content["levels"]),
            counts=tuple(content["counts"]),
            everything_else=content["everything_else"],
            k=content["k"],
            guarantee=guarantee,
            expected_false=as_rational(content["expected_false"], "expected_false"),
            column=content["column"],
            versions=content["versions"],
        )
        if any(
            type(z) is not int or abs(z) > LARGEST for z in (*found.counts, found.everything_else, found.k)
        ):
            raise ValueError("counts must be whole numbers")
        if content["threshold"] != found.threshold or any(z < found.threshold for z in found.counts):
            raise ValueError("the threshold is not that of the guarantee, or a count is below it")
        if (
            len({*map(str, found.levels)}) != len(found.levels)
            or not len(found.counts) == len(found.levels) <= found.k
        ):
            raise ValueError("levels and counts differ in number, or a level is there twice")
        if any(not isinstance(level, str | int | float) for level in found.levels):
            raise ValueError("a level must be text, a number or a truth value")
        return found
