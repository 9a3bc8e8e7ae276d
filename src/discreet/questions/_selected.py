"""Requests that publish only the values of a column whose noisy counts stand out, declared or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from discreet._data import count_codes, count_levels, count_texts
from discreet._declarations import EXCLUDE, as_epsilon, as_integer, as_probability, as_size, as_target_delta
from discreet._inference.sparse import expected_halves
from discreet._typing import EpsilonLike
from discreet.answers.release import plain
from discreet.answers.selected import EVERYTHING_ELSE, Discovered, SparseRelease
from discreet.errors import InvalidInputError
from discreet.mechanisms.discovery import Discovery
from discreet.mechanisms.sparse import Sparse
from discreet.questions._request import PricedRequest, Request
from discreet.questions.widths import RECORDS, Guess, PlannedWidth

_TYPICAL_SHARE, _MOST_SIMULATED = 0.01, 1000
"""The default share of a value that stands out, and the number of such values that are simulated."""


@dataclass(frozen=True, kw_only=True)
class SelectedRequest(Request):
    """A request for values of one column, where the number of records is private."""

    column: str
    epsilon: Fraction

    def __post_init__(self) -> None:
        if not self.hides_size:
            raise InvalidInputError(
                "the published values reveal who is in the data: leave n out of the schema, so that it "
                "is private"
            )

    @property
    def name(self) -> str | None:
        """The column, as reports name it."""
        return None if self.schema.nameless else self.column

    @property
    def declared_size(self) -> int:
        return 0

    def size_of(self, statistic: Any) -> int:
        return 0


@dataclass(frozen=True, kw_only=True)
class DiscoveredValues(SelectedRequest):
    """The undeclared values of a column that stand out, with (ε, δ): their names are read from the data."""

    delta: EpsilonLike | None
    cautions: ClassVar[tuple[str, ...]] = (
        "values='discover' publishes values from the data; with probability at most δ these include one that "
        "only a single record has; declare the values if they can be listed",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta is None:
            raise InvalidInputError(
                "values='discover' needs delta, such as 1e-6: which values exist reveals who is "
                "in the data, and pure ε cannot hide that"
            )
        _ = self.discovery.threshold

    @cached_property
    def discovery(self) -> Discovery:
        """The mechanism that selects values."""
        assert self.delta is not None
        return Discovery(self.epsilon, as_target_delta(self.delta, "declare the values"))

    def read(self, data: Any) -> Any:
        return count_texts(data, self.name)

    def bind(self, size: int) -> PricedRequest:
        mechanism = self.discovery
        return PricedRequest(
            mechanism.guarantee,
            lambda counts: Discovered(mechanism.run(counts), mechanism, mechanism.guarantee, self.name),
        )


@dataclass(frozen=True, kw_only=True)
class SparseCounts(SelectedRequest):
    """The declared values of a column that stand out, and all others together: for very many values."""

    expected_false: EpsilonLike

    @cached_property
    def codes(self) -> range | None:
        """The range of codes, if values are declared as one."""
        values = self.schema.category(self.column).values
        return values if isinstance(values, range) else None

    @cached_property
    def other_code(self) -> int | None:
        """The code that undeclared values count as."""
        other, codes = self.schema.category(self.column).other, self.codes
        code = None if other is None else as_integer(other, "other")
        if code is not None and codes is not None and code not in codes:
            raise InvalidInputError(f"is not one of the codes {codes!r}", "other", other)
        return code

    @cached_property
    def sparse(self) -> Sparse:
        """The mechanism that selects values."""
        count = self.schema.domain(self.column).k if self.codes is None else len(self.codes)
        return Sparse(self.epsilon, count, as_epsilon(self.expected_false, "expected_false"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.codes is not None:
            missing = self.schema.missing(self.column)
            if missing not in (None, EXCLUDE):
                raise InvalidInputError("must be 'exclude' for a column of codes", "missing", missing)
            _ = self.other_code
        _ = self.sparse.threshold

    def read(self, data: Any) -> dict[int, int]:
        strict = self.schema.strict
        if self.codes is not None:
            return count_codes(data, self.codes, self.name, other=self.other_code, strict=strict)
        domain = self.schema.domain(self.column)
        return dict(enumerate(count_levels(data, domain, column=self.name, private_size=True, strict=strict)))

    def bind(self, size: int) -> PricedRequest:
        mechanism = self.sparse
        names: Sequence[Any] = self.schema.domain(self.column).levels if self.codes is None else self.codes

        def make(counts: dict[int, int]) -> SparseRelease:
            selected, rest = mechanism.run(counts)
            levels = tuple(plain(names[place]) for place in selected)
            parts = mechanism.k, mechanism.epsilon, mechanism.guarantee, mechanism.expected_false, self.name
            return SparseRelease(levels, tuple(selected.values()), rest, *parts)

        return PricedRequest(mechanism.guarantee, make)

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths for a value whose share of the records is ``guess.typical``."""
        mechanism, left = self.sparse, self.schema.missing(self.column) == EXCLUDE
        notes = guess.notes(left)
        share = as_probability(_TYPICAL_SHARE if guess.typical is None else guess.typical, "typical", "0.5")
        records = max(1, round(share * guess.number_answered(as_size(n), left)))
        values = min(max(1, round(1 / share)), _MOST_SIMULATED)
        return PlannedWidth(
            (f"a value of {records:,} records", EVERYTHING_ELSE, "all records"),
            expected_halves(mechanism, records, values, level, seed),
            (1.0,) * 3,
            (
                ("Smallest noisy count that is published", f"{mechanism.threshold:,}"),
                (
                    "Records of a value that is published with probability 0.05, 0.5 and 0.95",
                    "{:,}, {:,} and {:,}".format(*map(mechanism.records_needed, (0.05, 0.5, 0.95))),
                ),
                (
                    f"Probability that a value of {records:,} records is published",
                    f"{mechanism.publication_probability(records):.3g}",
                ),
                *notes,
            ),
            unit=RECORDS,
            assumed=f"values of {records:,} records each, {100 * share:g} % of all{' with a value' * left}",
        )
