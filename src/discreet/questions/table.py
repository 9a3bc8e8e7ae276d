"""A contingency table of several columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar

from discreet._typing import EpsilonLike
from discreet.answers.release import Release
from discreet.data import contingency
from discreet.declarations import Domain
from discreet.errors import InvalidInput
from discreet.ledger.charging import Charge, LedgerLike
from discreet.questions.base import parameter
from discreet.questions.counts import WholeCountQuestion, domain_of
from discreet.questions.text import DOMAINS, TextForm, plain

__all__ = ["CrossTable", "release_table"]


@dataclass(frozen=True, kw_only=True)
class CrossTable(WholeCountQuestion):
    """The shares of the cells of several columns together."""

    kind: ClassVar[str] = "table"
    verb: ClassVar[str] = "release_table"
    title: ClassVar[str] = "Table"
    sentence: ClassVar[str] = "Release a private posterior of the cells of a table of several columns."

    columns: Mapping[str, Sequence[Any] | Domain] = parameter(
        DOMAINS,
        "Each column with its levels: sex=f,m; smoker=no,yes. Declared, never read from the data.",
        label="Columns and their levels",
        example="sex=f,m; smoker=no,yes",
    )

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The declared levels of each column."""
        if not isinstance(self.columns, Mapping) or len(self.columns) < 2:
            raise InvalidInput(
                "columns must map at least two columns to their levels, such as "
                "{'sex': ('f', 'm'), 'smoker': ('no', 'yes')}"
            )
        return {name: domain_of(name, levels) for name, levels in self.columns.items()}

    @property
    def declared_domains(self) -> tuple[Domain, ...]:
        """Those of all columns."""
        return tuple(self.domains.values())

    @property
    def axes(self) -> Mapping[str, Sequence[Any]]:
        """The levels of each column."""
        return {name: tuple(domain.levels) for name, domain in self.domains.items()}

    @cached_property
    def domain(self) -> Domain:
        """The cells, the last column fastest."""
        return Domain(tuple(" · ".join(map(str, cell)) for cell in product(*self.axes.values())))

    def plain(self, name: str, value: Any, form: TextForm) -> Any:
        """Columns in their order, which is that of the cells."""
        if name != "columns":
            return super().plain(name, value, form)
        return [{"column": column, **plain(domain)} for column, domain in self.domains.items()]

    def read(self, data: Any) -> tuple[int, ...]:
        """The counts of the cells."""
        return tuple(int(records) for records in contingency(data, self.domains, **self.reading).ravel())


def release_table(
    data: Any,
    columns: Mapping[str, Sequence[Any] | Domain],
    *,
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    prior: float | Sequence[float] = 1.0,
    mechanism: str = "auto",
    n: int | None = None,
    person: str | None = None,
    per_person: int | None = None,
    relation: str = "replace-one",
    total_prior: Sequence[float] | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Release:
    """One private posterior over the cells of a contingency table of several columns.

    ``columns`` maps each column to its levels, or to a :class:`discreet.Domain` that says where other and
    missing values go. The cells are the ``levels`` of the release, the last column fastest;
    ``release.margin("a")`` sums them up for free. The rest is as in :func:`discreet.release`.
    """
    question = CrossTable(
        columns=columns,
        epsilon=epsilon,
        delta=delta,
        prior=prior,
        mechanism=mechanism,
        n=n,
        person=person,
        per_person=per_person,
        relation=relation,
        total_prior=total_prior,
        options=options or None,
    )
    answer: Release = question.ask(data, Charge.of(ledger, dataset, request_id))
    return answer
