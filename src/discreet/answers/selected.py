"""Values selected privately by their noisy counts: discovered in the data, or among many declared values."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from discreet._declarations import as_rational
from discreet._documents.answer import Answer
from discreet._documents.parts import LARGEST, VERSIONS, Row, Words, rows_of
from discreet._json import fields_as_json
from discreet._text import amount
from discreet._typing import FloatArray
from discreet.mechanisms.discovery import Discovery
from discreet.mechanisms.sparse import Sparse
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet._inference.sparse import SparsePosterior

EVERYTHING_ELSE, ALL_RECORDS = "everything else", "all records"
_FALSE_LEVELS_NOTE = (
    "If levels are few and about equally large, an empty one that stands out by chance looks like one of "
    "them, and the interval of all records covers less often than stated; a smaller expected_false, such as "
    "0.01, avoids that."
)


class Selected(Answer):
    """Values whose noisy counts are above a threshold that follows from the noise."""

    label: ClassVar[str] = "value"
    variable: ClassVar[str] = "records"
    column: str | None

    @property
    @abstractmethod
    def selected_by(self) -> Discovery | Sparse:
        """The mechanism that selected the values, with the parameters of the document."""

    def cost(self) -> Guarantee:
        """Return the guarantee of the selection with these parameters."""
        return self.selected_by.guarantee

    @property
    @abstractmethod
    def threshold(self) -> int:
        """The threshold above which noisy counts are published."""

    @property
    def heading(self) -> str:
        return self.column or self.label

    @property
    def _of(self) -> str:
        return f" of {self.column}" if self.column else ""

    @property
    def _facts(self) -> tuple[tuple[str, str], ...]:
        return (("Column", self.column),) if self.column else ()

    def content(self) -> dict[str, Any]:
        return {**super().content(), "threshold": self.threshold}


def _private(content: Mapping[str, Any]) -> Guarantee:
    guarantee = Guarantee.from_dict(content["guarantee"])
    if not guarantee.is_private:
        raise ValueError("selected levels must have a privacy guarantee")
    return guarantee


@dataclass(frozen=True, repr=False)
class Discovered(Selected):
    """Values found in the data, each with a noisy number of records.

    How many other values there are, and how many records have them, is not released.

    Examples
    --------
    >>> from fractions import Fraction
    >>> selection = Discovery(Fraction(1), Fraction("1e-6"))
    >>> answer = Discovered({"aspirin": 5012, "ibuprofen": 804}, selection, selection.guarantee, "drug")
    >>> answer.names
    ('aspirin', 'ibuprofen')
    >>> answer.mean().tolist()
    [5012.0, 804.0]
    """

    format: ClassVar[str] = "discreet/discovered"

    counts: Mapping[str, int]
    """The noisy count of each level, all above the threshold."""
    selection: Discovery
    """The mechanism that selected them, with its noise and threshold."""
    guarantee: Guarantee
    column: str | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: VERSIONS)

    @property
    def selected_by(self) -> Discovery:
        return self.selection

    def content(self) -> dict[str, Any]:
        return {**super().content(), "selection": fields_as_json(self.selection)}

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(self.counts)

    @property
    def threshold(self) -> int:
        return self.selection.threshold

    @property
    def names(self) -> tuple[str, ...]:
        return self.levels

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the number of records of each value: its noisy count minus the noise.

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
        noisy = np.array(list(self.counts.values()), dtype=np.float64)
        return noisy - self.selection.simulate((size, len(noisy)), np.random.default_rng(seed))

    def _rows(self, level: float) -> list[Row]:
        """Return the number of records of each value, with its interval under a flat prior."""
        away, sd = self.selection.noise_bound(level), self.selection.deviation
        return [Row(name, float(z), sd, float(z - away), float(z + away)) for name, z in self.counts.items()]

    def words(self) -> Words:
        """Describe the published and the unpublished values, and the meaning of δ here."""
        number, chosen, of = len(self.counts), self.selection, self._of
        plural = "" if number == 1 else "s"
        half, most = chosen.records_needed(0.5), chosen.records_needed(0.99)
        return Words(
            headline=f"{number:,} level{plural}{of} found in the data, with noisy numbers of records",
            name=f"Levels{of} that were found in the data",
            facts=(
                *self._facts,
                (
                    "Levels",
                    "not declared: read from the data, and published if the noisy count is above "
                    f"{chosen.threshold:,}",
                ),
                (
                    "What is published",
                    f"a level of {half:,} records with a probability of one half, of {most:,} with 99 %; of "
                    f"a single record with at most δ = {amount(chosen.delta)}; a level without records never",
                ),
                ("Missing values", "left out"),
            ),
            notes=(
                "Names of levels are data. The name of a level that only one record has is published with a "
                "probability of at most δ: choose δ as the probability of such an accident that you accept.",
                "Other levels may exist; how many, and with how many records, is not known.",
            ),
            reading=(
                "The number of records of a level is inferred from its noisy count, under a prior by which "
                "all numbers are equally likely.",
            ),
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        # Version 0.2.0 did not say the noise: it is that of the guarantee, on which the threshold depends.
        """Read the answer from the content of its document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        Discovered

        Raises
        ------
        ValueError
            If the noise, the threshold, the counts or the order of the values are malformed.
        """
        budget, counts = content.get("selection", content["guarantee"]), content["counts"]
        selection = Discovery(*(as_rational(budget.get(name), name, 0) for name in ("epsilon", "delta")))
        answer = cls(counts, selection, _private(content), content["column"], content["versions"])
        if "selection" in content and budget != answer.content()["selection"]:
            raise ValueError("the noise is malformed")
        threshold = answer.threshold
        if content["threshold"] != threshold:
            raise ValueError("the threshold does not match the noise")
        if any(type(z) is not int or not threshold < z <= LARGEST for z in counts.values()):
            raise ValueError("counts must be whole numbers above the threshold")
        if list(counts) != sorted(counts):
            raise ValueError("levels must be in the order of their names")
        return answer


@dataclass(frozen=True, repr=False)
class SparseRelease(Selected):
    """The values whose noisy counts reach a public threshold, and the noisy number of all other records."""

    format: ClassVar[str] = "discreet/sparse"

    levels: tuple[Any, ...]
    """The published levels, in the order in which they were declared."""
    counts: tuple[int, ...]
    """Their noisy counts."""
    everything_else: int
    """The noisy number of records of all levels that are not published."""
    k: int
    """How many levels were declared."""
    epsilon: Fraction
    """The mechanism that made the noise."""
    guarantee: Guarantee
    expected_false: Fraction = Fraction(1)
    column: str | None = None
    versions: Mapping[str, str] = field(default_factory=lambda: VERSIONS)

    @cached_property
    def mechanism(self) -> Sparse:
        return Sparse(self.epsilon, self.k, self.expected_false)

    @property
    def selected_by(self) -> Sparse:
        return self.mechanism

    @property
    def threshold(self) -> int:
        """The smallest noisy count that is published."""
        return self.mechanism.threshold

    @cached_property
    def posterior(self) -> SparsePosterior:
        """The posterior of the numbers of records with each published value, with any other, and in total."""
        from discreet._inference.sparse import SparsePosterior

        return SparsePosterior(self.counts, self.everything_else, self.mechanism)

    @property
    def names(self) -> tuple[Any, ...]:
        """The published values, everything else, and all records."""
        return (*self.levels, EVERYTHING_ELSE, ALL_RECORDS)

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw the numbers of records; those of different values are drawn as if they were independent.

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
        parts = self.posterior.sample(size, seed)
        return np.asarray(np.maximum(np.column_stack([parts, parts.sum(axis=1)]), 0.0))

    def _rows(self, level: float) -> list[Row]:
        """Return the number of records with each published value, with any other value, and in total."""
        posterior = self.posterior
        names = [*map(str, self.levels), EVERYTHING_ELSE]
        parts = posterior.mean(), posterior.std(), *posterior.interval(level)
        rows = rows_of(names, *parts, count=(*self.counts, self.everything_else))
        low, high = posterior.total.interval(level)
        return [
            *rows,
            Row(ALL_RECORDS, posterior.total.mean(), posterior.total.std(), float(low), float(high)),
        ]

    def words(self) -> Words:
        """Describe the published and the unpublished values, and the assumptions."""
        mechanism, of = self.mechanism, self._of
        return Words(
            headline=f"{len(self.levels):,} of {self.k:,} declared levels{of} stand out from the noise",
            name=f"Levels{of} that stand out, and everything else",
            facts=(
                *self._facts,
                ("Declared levels", f"{self.k:,}"),
                (
                    "What is published",
                    f"every level whose noisy count is {mechanism.threshold:,} or more, and the noisy "
                    "number of records of all others together",
                ),
                ("Empty levels among them", f"at most {amount(self.expected_false)} on average, by chance"),
                (
                    "Noise",
                    "a random whole number was added to every count, independently: of rate "
                    f"{amount(mechanism.level_epsilon)} for a level and {amount(mechanism.rest_epsilon)} for "
                    "everything else",
                ),
            ),
            notes=(
                "The figures are numbers of records. A level with a count near the threshold may have no "
                "records: its interval then begins at 0.",
                "“Everything else” is all other declared levels together; each of them may have records.",
                *((_FALSE_LEVELS_NOTE,) if 10 * self.expected_false >= 1 else ()),
            ),
            reading=(
                "The model of a level: it is empty with an unknown probability, and otherwise has x records "
                "with a probability proportional to a power of x. Both are inferred from the levels that "
                "were published and those that were not. The number of records of everything else was "
                "counted with noise of its own.",
            ),
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read the release from the content of its document.

        Parameters
        ----------
        content : mapping
            JSON values, as :meth:`content` returns them.

        Returns
        -------
        SparseRelease

        Raises
        ------
        ValueError
            If the threshold, the counts or the values are malformed.
        """
        answer = cls(
            levels=tuple(content["levels"]),
            counts=tuple(content["counts"]),
            everything_else=content["everything_else"],
            k=content["k"],
            epsilon=as_rational(content.get("epsilon", content["guarantee"]["epsilon"]), "epsilon", 0),
            guarantee=_private(content),
            expected_false=as_rational(content["expected_false"], "expected_false", 0),
            column=content["column"],
            versions=content["versions"],
        )
        numbers = (*answer.counts, answer.everything_else, answer.k)
        if any(type(z) is not int or abs(z) > LARGEST for z in numbers):
            raise ValueError("counts must be whole numbers")
        if content["threshold"] != answer.threshold or any(z < answer.threshold for z in answer.counts):
            raise ValueError("the threshold does not match the noise, or a count is below it")
        distinct = {*map(str, answer.levels)}
        if not len(distinct) == len(answer.levels) == len(answer.counts) <= answer.k:
            raise ValueError("there must be a count for each level, and each level must occur once")
        if any(not isinstance(level, str | int | float) for level in answer.levels):
            raise ValueError("a level must be text, a number or a truth value")
        return answer
