"""Proportions of the levels of one column, or of bins of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

from discreet._typing import EpsilonLike
from discreet.answers.release import Release
from discreet.data import binned, count_levels
from discreet.declarations import EXCLUDE, Domain
from discreet.errors import InvalidInput
from discreet.ledger.charging import Charge, LedgerLike
from discreet.questions.base import parameter
from discreet.questions.counts import WholeCountQuestion
from discreet.questions.text import FLAG, LEVEL, LEVELS, SERIES, TEXT

__all__ = ["Proportion", "release"]


@dataclass(frozen=True, kw_only=True)
class Proportion(WholeCountQuestion):
    """The shares of declared levels, or of bins between declared edges."""

    kind: ClassVar[str] = "proportion"
    command: ClassVar[str] = "release"
    verb: ClassVar[str] = "release"
    title: ClassVar[str] = "Proportions"
    sentence: ClassVar[str] = "Release a private posterior of the proportions of a column's levels."

    only_in_calls: ClassVar[frozenset[str]] = frozenset({"acknowledge_not_private"})

    column: str | None = parameter(
        TEXT, "The column to count; CSV and TSV always need it.", example="smoker", default=None
    )
    levels: Sequence[Any] | None = parameter(
        LEVELS,
        "All values a record may take: never,former,current. Declared, never read from the data.",
        example="never,former,current",
        default=None,
    )
    edges: Sequence[float] | None = parameter(
        SERIES,
        "For numbers, edges of bins instead of levels: 0,18,65,120.",
        label="Edges of bins",
        example="0,18,65,120",
        default=None,
    )
    other: Any = parameter(
        LEVEL, "Level that receives values outside the levels.", label="Other values", default=None
    )
    missing: Any = parameter(
        LEVEL,
        "Level that receives missing values; with edges: level, for one of their own; with "
        "add-remove also exclude, for shares of those who answered.",
        label="Missing values",
        default=None,
    )
    outside: str | None = parameter(
        TEXT,
        "Numbers outside the edges: clip, or level for one of their own.",
        label="Numbers outside the edges",
        default=None,
        choices=("clip", "level"),
    )
    acknowledge_not_private: bool = parameter(
        FLAG, "Publish a comparison that has no guarantee.", default=False, python=True
    )

    @cached_property
    def domain(self) -> Domain:
        """The declared levels, or the bins."""
        if (self.levels is None) == (self.edges is None):
            raise InvalidInput(
                "declare the levels that a record may take, levels=('no', 'yes'), or for numbers the edges "
                "of bins, edges=(0, 18, 65, 120)"
            )
        if self.edges is None:
            if self.outside is not None:
                raise InvalidInput("outside= goes with edges=; for levels say other=LEVEL")
            assert self.levels is not None
            return Domain(self.levels, self.other, self.missing)
        if self.other is not None:
            raise InvalidInput("other= goes with levels=; for edges say outside='clip' or 'level'")
        left_out = EXCLUDE if self.missing == EXCLUDE else None
        return Domain(_bins(self.edges, self.outside, self.missing), missing=left_out)

    def read(self, data: Any) -> tuple[int, ...]:
        """The counts of the levels or bins."""
        if self.edges is None:
            return count_levels(data, self.domain, column=self.column, **self.reading)
        given = {"edges": self.edges, "outside": self.outside, "missing": self.missing}
        return binned(data, **given, column=self.column, **self.reading)


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


def release(
    data: Any,
    *,
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    levels: Sequence[Any] | None = None,
    edges: Sequence[float] | None = None,
    prior: float | Sequence[float] = 1.0,
    mechanism: str = "auto",
    n: int | None = None,
    column: str | None = None,
    other: Any = None,
    missing: Any = None,
    outside: str | None = None,
    person: str | None = None,
    per_person: int | None = None,
    relation: str = "replace-one",
    total_prior: Sequence[float] | None = None,
    acknowledge_not_private: bool = False,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Release:
    """One private posterior over the proportions of ``levels``; every call spends ``epsilon``.

    ``data``: a list, NumPy array, pandas / Polars / Arrow column, a table of these, DuckDB or PySpark or a
    file path with ``column``, or a mapping level → count. ``levels`` are declared, never read from the data;
    ``other`` and ``missing`` name the levels that receive values outside them and missing values. A numeric
    column takes ``edges`` of bins instead, with ``outside="clip"`` or ``"level"`` and ``missing="level"``.
    ``missing="exclude"``, with add-remove, leaves missing values out: shares are of those who answered.
    ``n`` is the public number of records: when it is given, the mechanism is fixed before the data is opened.
    ``mechanism="auto"`` is a rule on public parameters. ``options`` go to the mechanism.

    ``person`` and ``per_person``: at most so many records of each person, by key column, enter, and ε is the
    guarantee of a person: the mechanism gets ε/per_person (:class:`discreet.data.Contribution`).

    ``relation="add-remove"`` protects whether a record is there at all: n is private and never published, and
    the dataset may be empty. ``release.noise_aware().total`` is then what is known of it, ``total_prior`` a
    range (low, high) in which it is expected: 1 to 10⁹ where none is given.

    With ``ledger`` (a :class:`discreet.Ledger` or its address) the budget of ``dataset`` there is charged, or
    the release refused. A retry with the same ``request_id`` and the same parameters returns the stored
    release, charges nothing and does not open the data.

    >>> r = release({"no": 70, "yes": 30}, levels=("no", "yes"), epsilon=1.0)
    >>> sum(r.counts), r.guarantee.epsilon, r.mechanism
    (100, 1.0, 'lattice')
    """
    question = Proportion(
        epsilon=epsilon,
        delta=delta,
        levels=levels,
        edges=edges,
        prior=prior,
        mechanism=mechanism,
        n=n,
        column=column,
        other=other,
        missing=missing,
        outside=outside,
        person=person,
        per_person=per_person,
        relation=relation,
        total_prior=total_prior,
        acknowledge_not_private=acknowledge_not_private,
        options=options or None,
    )
    answer: Release = question.ask(data, Charge.of(ledger, dataset, request_id))
    return answer
