"""A contingency table of several columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.data import contingency
from discreet.declarations import EXCLUDE, Domain
from discreet.errors import InvalidInput
from discreet.questions.base import parameter
from discreet.questions.counts import WholeCountQuestion, left_out
from discreet.questions.text import DOMAINS, TextForm, plain

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


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
    missing: str | None = left_out()

    @cached_property
    def domains(self) -> dict[str, Domain]:
        """The declared levels of each column."""
        if not isinstance(self.columns, Mapping) or len(self.columns) < 2:
            raise InvalidInput(
                "columns must map at least two columns to their levels, such as "
                "{'sex': ('f', 'm'), 'smoker': ('no', 'yes')}"
            )
        return {name: self.domain_of(name, levels) for name, levels in self.columns.items()}

    @property
    def axes(self) -> Mapping[str, Sequence[Any]]:
        """The levels of each column."""
        return {name: tuple(domain.levels) for name, domain in self.domains.items()}

    @cached_property
    def domain(self) -> Domain:
        """The cells, the last column fastest; records that some column leaves out are in none."""
        left_out = EXCLUDE if any(one.excludes_missing for one in self.domains.values()) else None
        cells = tuple(" · ".join(map(str, cell)) for cell in product(*self.axes.values()))
        return Domain(cells, missing=left_out)

    def plain(self, name: str, value: Any, form: TextForm) -> Any:
        """Columns in their order, which is that of the cells."""
        if name != "columns":
            return super().plain(name, value, form)
        return [{"column": column, **plain(domain)} for column, domain in self.domains.items()]

    def read(self, data: Any) -> tuple[int, ...]:
        """The counts of the cells, and of the records that are left out where they are counted."""
        return self.flat(contingency(data, self.domains, **self.reading))

    def flat(self, table: NDArray[np.int64]) -> tuple[int, ...]:
        """The counts of an array with an axis for each column, which may have a last place for those left
        out."""
        cells = table[tuple(slice(one.k) for one in self.domains.values())]
        rest = (int(table.sum() - cells.sum()),) if self.leaves_out else ()
        return (*map(int, cells.ravel()), *rest)
