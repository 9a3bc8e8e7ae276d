"""Levels that were found in the data, privately, with noisy counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

from discreet._text import amount
from discreet.declarations import Relation, as_rational
from discreet.documents.answer import LARGEST, VERSIONS, Answer, Row, Words, as_probability
from discreet.mechanisms.discovery import Discovery
from discreet.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Discovered(Answer):
    """The levels that stand out, by name, each with a noisy number of records.

    What is not here is unknown: how many other levels there are, and how many records these have.
    """

    format: ClassVar[str] = "discreet/discovered"
    label: ClassVar[str] = "level"

    counts: Mapping[str, int]
    """Noisy counts by level, all above the threshold."""
    guarantee: Guarantee
    column: str | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: VERSIONS)

    @cached_property
    def selection(self) -> Discovery:
        """How levels were selected."""
        assert self.guarantee.exact_epsilon is not None
        return Discovery(self.guarantee.exact_epsilon, self.guarantee.exact_delta)

    @property
    def levels(self) -> tuple[str, ...]:
        """The published levels, by name."""
        return tuple(self.counts)

    @property
    def heading(self) -> str:
        return self.column or self.label

    def rows(self, interval: float = 0.95) -> list[Row]:
        """The number of records of each level: any is as likely beforehand as any other."""
        away, sd = self.selection.within(as_probability(interval)), self.selection.deviation
        return [Row(name, float(z), sd, float(z - away), float(z + away)) for name, z in self.counts.items()]

    def words(self) -> Words:
        """What was published, what was not, and what δ means here."""
        found, chosen = len(self.counts), self.selection
        of, plural = f" of {self.column}" if self.column else "", "" if found == 1 else "s"
        half, most = chosen.likely(0.5), chosen.likely(0.99)
        return Words(
            headline=f"{found:,} level{plural}{of} found in the data, with noisy numbers of records",
            name=f"Levels{of} that were found in the data",
            facts=(
                *([("Column", self.column)] if self.column else []),
                (
                    "Levels",
                    "not declared: read from the data, and published where a noisy count is above "
                    f"{chosen.threshold:,}",
                ),
                (
                    "What is published",
                    f"a level of {half:,} records with a probability of one half, of {most:,} with 99 %; of "
                    f"a single record with at most δ = {amount(chosen.delta)}; of none never",
                ),
                ("Missing values", "left out"),
            ),
            notes=(
                "Names of levels are data. With a probability of at most δ the name of a level that a single "
                "record has is published: choose δ as you would the probability of such an accident.",
                "Levels that are not here may exist: how many, and with how many records, is not known.",
            ),
            reading=(
                "The number of records of a level is its noisy count, give or take the noise; every number "
                "was taken to be as likely beforehand as any other.",
            ),
        )

    def content(self) -> dict[str, Any]:
        """JSON values."""
        return {**super().content(), "threshold": self.selection.threshold}

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Reads :meth:`content`."""
        guarantee, counts = Guarantee.from_dict(content["guarantee"]), content["counts"]
        if not guarantee.exact_epsilon or not isinstance(counts, dict):
            raise ValueError("levels and their guarantee are malformed")
        if guarantee.relation is not Relation.ADD_REMOVE:
            raise ValueError(f"levels are found for add-remove, not for {guarantee.relation}")
        as_rational(guarantee.exact_delta, "delta", 0, 1)
        found = cls(counts, guarantee, content["column"], content["versions"])
        threshold = found.selection.threshold
        if content["threshold"] != threshold:
            raise ValueError("the threshold is not that of the guarantee")
        if any(type(z) is not int or not threshold < z <= LARGEST for z in counts.values()):
            raise ValueError("counts must be whole numbers above the threshold")
        if list(counts) != sorted(counts):
            raise ValueError("levels must be in the order of their names")
        return found
