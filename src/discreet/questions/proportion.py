"""Proportions of the levels of one column, or of bins of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from discreet._typing import EpsilonLike
from discreet.answers.release import plain
from discreet.answers.selected import EVERYTHING_ELSE, Discovered, SparseRelease
from discreet.data import binned, count_codes, count_levels, count_texts
from discreet.declarations import EXCLUDE, Domain, as_epsilon, as_integer, as_size, as_target_delta
from discreet.documents.answer import as_probability
from discreet.errors import InvalidInput
from discreet.inference.sparse import expected_halves
from discreet.mechanisms.discovery import Discovery
from discreet.mechanisms.sparse import Sparse
from discreet.questions.base import Bound, optional, parameter
from discreet.questions.counts import WholeCountQuestion
from discreet.questions.text import BUDGET, FLAG, LEVEL, LEVELS, SERIES, TEXT, codes_of
from discreet.questions.widths import NO_GUESS, RECORDS, Guess, Rehearsal, Width

DISCOVER = "discover"
_MOST_LISTED = 10**6
_TYPICAL, _MOST_IMAGINED = 0.01, 1000
"""The share of a level that stands out, unless another is guessed, and how many such levels are made up."""
_NAMES_ARE_DATA = (
    "levels='discover' publishes names of levels from the data: with a probability of at most δ one that a "
    "single record has; declare the levels where they can be listed",
)


@dataclass(frozen=True, kw_only=True)
class Proportion(WholeCountQuestion):
    """The shares of declared levels, or of bins between declared edges."""

    kind: ClassVar[str] = "proportion"
    command: ClassVar[str] = "release"
    verb: ClassVar[str] = "release"
    title: ClassVar[str] = "Proportions"
    sentence: ClassVar[str] = "Release a private posterior of the proportions of a column's levels."

    only_in_calls: ClassVar[frozenset[str]] = frozenset({"acknowledge_not_private"})

    column: str | None = optional(TEXT, "The column to count; CSV and TSV always need it.", example="smoker")
    levels: Sequence[Any] | None = optional(
        LEVELS,
        "All values a record may take: never,former,current; or codes from one whole number to another: "
        "0..999. Declared, never read from the data; or discover, with add-remove and delta, for those that "
        "nobody can list.",
        example="never,former,current",
    )
    edges: Sequence[float] | None = optional(
        SERIES,
        "For numbers, edges of bins instead of levels: 0,18,65,120.",
        label="Edges of bins",
        example="0,18,65,120",
    )
    other: Any = optional(LEVEL, "Level that receives values outside the levels.")
    missing: Any = optional(
        LEVEL,
        "Level that receives missing values; with edges: level, for one of their own; exclude, for shares of "
        "those who answered, of whom it stays private who they are.",
    )
    outside: str | None = optional(
        TEXT,
        "Numbers outside the edges: clip, or level for one of their own.",
        label="Numbers outside the edges",
        choices=("clip", "level"),
    )
    expected_false: EpsilonLike | None = optional(
        BUDGET,
        "For many more levels than records, with add-remove: publish only levels that stand out from the "
        "noise, and all others together. So many empty ones may be among them on average, such as 1.",
        label="Only what stands out: empty levels among it",
    )
    acknowledge_not_private: bool = parameter(
        FLAG, "Publish a comparison that has no guarantee.", default=False, python=True
    )

    @cached_property
    def discovers(self) -> bool:
        """Whether levels are to be found in the data, privately."""
        return isinstance(self.levels, str) or (
            isinstance(self.levels, tuple | list) and tuple(self.levels) == (DISCOVER,)
        )

    @cached_property
    def discovery(self) -> Discovery:
        if self.levels not in (DISCOVER, (DISCOVER,)):
            raise InvalidInput(
                f"levels={self.levels!r} must be a sequence, such as ('no', 'yes'), or 'discover'"
            )
        if not self.hides_size or self.delta is None:
            raise InvalidInput(
                "levels='discover' needs relation='add-remove' and delta=, such as 1e-6: which levels exist "
                "tells who is there, and no pure ε hides that"
            )
        self._check_alone("levels='discover'", {"delta", "missing"})
        if self.missing not in (None, EXCLUDE):
            raise InvalidInput(f"missing={self.missing!r}: levels='discover' leaves missing values out")
        return Discovery(self.exact_epsilon, as_target_delta(self.delta, 1, "declare the levels"))

    @cached_property
    def sparse(self) -> Sparse | None:
        """The selection of levels that stand out, where only these are published."""
        if self.expected_false is None:
            return None
        if not self.hides_size:
            raise InvalidInput(
                "expected_false= needs relation='add-remove': the number of records is private"
            )
        self._check_alone("expected_false=", {"missing", "other", "expected_false"})
        k = self.domain.k if self._codes is None else self._codes.stop - self._codes.start
        return Sparse(self.exact_epsilon, k, as_epsilon(self.expected_false, "expected_false"))

    @cached_property
    def _codes(self) -> range | None:
        """Codes that are not listed."""
        if self.expected_false is None or not isinstance(self.levels, range):
            return None
        if self.levels.step != 1 or self.levels.stop - self.levels.start < 2:
            raise InvalidInput(f"levels={self.levels!r} must be a range of two codes or more in steps of 1")
        if self.missing not in (None, EXCLUDE):
            raise InvalidInput(f"missing={self.missing!r}: of codes missing values are left out")
        if self._other_code is not None and self._other_code not in self.levels:
            raise InvalidInput(f"other={self.other!r} is not one of the codes {self.levels!r}")
        return self.levels

    @property
    def _other_code(self) -> int | None:
        try:
            given = int(self.other) if isinstance(self.other, str) else self.other
            return None if given is None else as_integer(given, "other")
        except (InvalidInput, TypeError, ValueError):
            raise InvalidInput(f"other={self.other!r} must be one of the codes {self.levels!r}") from None

    def _check_alone(self, what: str, more: set[str]) -> None:
        taken = {"column", "levels", "epsilon", "relation", "strict"} | more
        if extra := sorted(set(self.stated()) - taken):
            raise InvalidInput(f"{extra[0]}= does not go with {what}")

    @cached_property
    def domain(self) -> Domain:
        if self.discovers:
            raise InvalidInput("levels='discover': which levels there will be is not known beforehand")
        if self.levels is not None and self.edges is not None:
            raise InvalidInput("give levels for categories or edges for numbers, not both")
        if self.levels is None and self.edges is None:
            raise InvalidInput(
                "declare the levels that a record may take, levels=('no', 'yes'), or for numbers the edges "
                "of bins, edges=(0, 18, 65, 120)"
            )
        if self.edges is None:
            if self.outside is not None:
                raise InvalidInput("outside= goes with edges=; for levels say other=LEVEL")
            assert self.levels is not None
            if isinstance(self.levels, range) and abs(self.levels.stop - self.levels.start) > _MOST_LISTED:
                raise InvalidInput(
                    f"levels={self.levels!r} are too many to be listed: with relation='add-remove' and "
                    "expected_false=1 only those that stand out are published"
                )
            missing = self.missing if self.strict else self.place_of_missing(self.missing)
            return Domain(self.levels, self.other, missing)
        if self.other is not None:
            raise InvalidInput("other= goes with levels=; for edges say outside='clip' or 'level'")
        left_out = EXCLUDE if self.place_of_missing(self.missing) == EXCLUDE else None
        return Domain(_bins(self.edges, self.outside, self.missing), missing=left_out)

    def __post_init__(self) -> None:
        if isinstance(self.levels, str) and (codes := codes_of(self.levels)) is not None:
            object.__setattr__(self, "levels", codes)
        if self.discovers:
            _ = self.discovery.threshold
            object.__setattr__(self, "levels", (DISCOVER,))
            object.__setattr__(self, "cautions", _NAMES_ARE_DATA)
        elif self.sparse is not None:
            _ = self.sparse.threshold
        if self.selection is None:
            _ = self.domain
            super().__post_init__()

    @cached_property
    def selection(self) -> Bound | None:  # type: ignore[override]
        """The selection of levels, where not all of them are published."""
        if self.discovers:
            found = self.discovery
            return Bound(
                found.guarantee,
                lambda counts: Discovered(found.run(counts), found, found.guarantee, self.column),
            )
        if (made := self.sparse) is None:
            return None
        names: Sequence[Any] = self.domain.levels if self._codes is None else self._codes

        def make(counts: dict[int, int]) -> SparseRelease:
            found, rest = made.run(counts)
            levels = tuple(plain(names[place]) for place in found)
            parts = made.k, made.epsilon, made.guarantee, made.expected_false, self.column
            return SparseRelease(levels, tuple(found.values()), rest, *parts)

        return Bound(made.guarantee, make)

    def rehearse(self, n: int, level: float, seed: int, guess: Guess = NO_GUESS) -> Rehearsal:
        """A share; or the records of a level with ``typical`` of them, where only some are published."""
        if (made := self.sparse) is None:
            return super().rehearse(n, level, seed, guess)
        told = guess.told(left := self.missing == EXCLUDE)
        share = as_probability(_TYPICAL if guess.typical is None else guess.typical, "typical", "0.5")
        records = max(1, round(share * guess.answered(as_size(n), left)))
        levels = min(max(1, round(1 / share)), _MOST_IMAGINED)
        halves = expected_halves(made, records, levels, level, seed)
        return Rehearsal(
            (f"a level of {records:,} records", EVERYTHING_ELSE, "all records"),
            halves,
            (1.0,) * 3,
            (
                ("A level is published if its noisy count is at least", f"{made.threshold:,}"),
                (
                    "It stands out with a probability of at least 0.05, 0.5 and 0.95 if it has",
                    "{:,}, {:,} and {:,} records".format(*map(made.surely, (0.05, 0.5, 0.95))),
                ),
                (f"One of {records:,} records does so with", f"{made.standing_out(records):.3g}"),
                *told,
            ),
            unit=RECORDS,
            assumed=f"levels of {records:,} records each, {100 * share:g} % of all{' with a value' * left}",
        )

    def expected_width(self, size: Any = None, level: float = 0.95) -> Width:
        """Of a share; or, where only what stands out is published, of the records of one level."""
        if self.discovers:
            raise InvalidInput("where names of levels come from the data there is no width to plan")
        if self.sparse is None:
            return super().expected_width(size, level)
        found = self.rehearse(self._planned_size(size), level, seed=0)
        told = "; ".join(f"{what[:1].lower()}{what[1:]} {amount}" for what, amount in found.split)
        return found.width(0, RECORDS, f"{found.assumed}: {told}")

    def read(self, data: Any) -> Any:
        if self.discovers:
            return count_texts(data, self.column)
        if self._codes is not None:
            return count_codes(data, self._codes, self.column, other=self._other_code, strict=self.strict)
        if self.sparse is not None:
            return dict(enumerate(self._read(data)))
        return self._read(data)

    def _read(self, data: Any) -> tuple[int, ...]:
        if self.edges is None:
            return count_levels(data, self.domain, column=self.column, **self.reading)
        missing = self.place_of_missing(self.missing)
        return binned(
            data, edges=self.edges, outside=self.outside, missing=missing, column=self.column, **self.reading
        )


def _bins(edges: Sequence[float], outside: str | None, missing: str | None) -> tuple[str, ...]:
    """Names of the bins: [0, 18), [18, 65), the last one closed."""
    try:
        numbers = [float(edge) for edge in edges]
    except (TypeError, ValueError):
        raise InvalidInput(f"edges={edges!r} must be numbers in increasing order") from None
    names = [f"[{a:.15g}, {b:.15g})" for a, b in pairwise(numbers)]
    if names:
        names[-1] = names[-1][:-1] + "]"
    extra = [name for name, value in (("outside", outside), ("missing", missing)) if value == "level"]
    return (*names, *extra)
