"""Proportions: shares of the values of a column, of bins, of cells of a table, or within public groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from discreet._declarations import as_epsilon
from discreet._registry import MECHANISMS, SENTENCES
from discreet._text import nearest
from discreet.errors import InvalidInputError
from discreet.questions._counts import (
    ColumnCounts,
    GroupCounts,
    TableCounts,
    check_mechanism,
    mechanism_options,
)
from discreet.questions._request import Request
from discreet.questions._selected import DiscoveredValues, SparseCounts
from discreet.questions._text import NAMES, NUMBERS, OPTIONS, TEXT, optional, parameter
from discreet.questions.base import Question
from discreet.schema import Category, Number, Schema

EXPECTED_FALSE = "expected_false"
"""The option that publishes only values that stand out: its value bounds the expected number of empty
ones."""


@dataclass(frozen=True)
class Proportions(Question):
    """Ask for the shares of the values of a column, or of the cells of several columns.

    Parameters
    ----------
    columns : str or sequence of str
        One column, or several for the cells of their table; for a number, the shares of its bins.
    by : str, optional
        A public column of groups; the shares are computed within each group, all for one ε.
    epsilon, delta : number
        The privacy budget; δ for mechanisms that have one.
    prior : float or sequence of float, optional
        The parameters of the Dirichlet prior: one number for all values, or one for each value. The default
        is 1; with more than 50 values it is one unknown number for all values, which is inferred.
    mechanism : str
        ``"auto"`` chooses by a rule on public parameters; see :func:`discreet.mechanism` for the others.
    options : mapping, optional
        Options of the mechanism; ``expected_false=1`` publishes only values that stand out, for many more
        values than records.

    Examples
    --------
    >>> Proportions("smoker", epsilon=0.5).explicit_fields()
    {'epsilon': 0.5, 'columns': ('smoker',)}
    """

    kind: ClassVar[str] = "proportions"
    title: ClassVar[str] = "Proportions"
    sentence: ClassVar[str] = SENTENCES["proportions"]

    columns: str | Sequence[str] = parameter(
        NAMES,
        "The column, or several columns for the cells of their table: smoker,sex.",
        label="Columns",
        example="smoker",
        default=(),
    )
    by: str | None = optional(
        TEXT,
        "A column of public groups: shares within each group, for one ε.",
        example="region",
        kw_only=True,
    )
    prior: float | Sequence[float] | None = optional(
        NUMBERS,
        "Dirichlet prior: one number for all values, or one each: 1,2,1. By default 1; with more than 50 "
        "values one unknown number for all, which is inferred.",
        kw_only=True,
    )
    mechanism: str = parameter(
        TEXT,
        "How noise is added to the counts; auto chooses by a rule from public values alone.",
        default="auto",
        choices=lambda: ("auto", *MECHANISMS),
        kw_only=True,
    )
    options: Mapping[str, Any] | None = optional(
        OPTIONS, "Options of the mechanism: calibration=exact; expected_false=1.", kw_only=True
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", _names(self.columns))
        check_mechanism(self.mechanism)
        for name in self.options or {}:
            if name not in (allowed := {*mechanism_options(self.mechanism), EXPECTED_FALSE}):
                raise InvalidInputError(f": {name!r} is unknown{nearest(name, allowed)}", "options")

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the counted columns, and the column of groups if there is one.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str
        """
        named = self.columns or (schema.only("columns"),)
        return (*named, *filter(None, [self.by]))

    def request(self, schema: Schema) -> Request:
        """Return the noisy counts that the proportions are computed from.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        Request

        Raises
        ------
        InvalidInputError
            If the fields cannot be used together under this schema.

        Examples
        --------
        >>> from discreet import Schema
        >>> schema = Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]})
        >>> Proportions(["smoker", "sex"], epsilon=1).request(schema).domain.levels
        ('no · f', 'no · m', 'yes · f', 'yes · m')
        """
        *_, first = names = tuple(self.columns) or (schema.only("columns"),)
        epsilon = as_epsilon(self.epsilon)
        if schema.weight is not None:
            from discreet.questions._weighted import WeightedRequest

            self._check_alone(f"the weight {schema.weight!r} in the schema", {"by", "delta"})
            return WeightedRequest(
                schema=schema, columns=names, mean=False, by=self.by, epsilon=epsilon, delta=self.delta
            )
        arguments = {
            "schema": schema,
            "epsilon": epsilon,
            "delta": self.delta,
            "prior": self.prior,
            "mechanism": self.mechanism,
            "options": self.options,
        }
        expected_false = (self.options or {}).get(EXPECTED_FALSE)
        single = self.by is None and len(names) == 1
        if expected_false is not None and not (single and isinstance(schema.column(first), Category)):
            raise InvalidInputError("options: 'expected_false' can be used with one category only")
        if self.by is not None:
            if len(names) > 1:
                raise InvalidInputError(
                    "by can be used with one column only; for several columns, ask for their table without it"
                )
            return GroupCounts(outcome=first, by=self.by, **arguments)  # type: ignore[arg-type]
        if len(names) > 1:
            return TableCounts(columns=names, **arguments)  # type: ignore[arg-type]
        declared = schema.column(first, "columns")
        if isinstance(declared, Number):
            if declared.bins is None and declared.bounds == (0, 1):
                raise InvalidInputError(
                    "is declared as numbers from 0 to 1: for the two values 0 and 1 declare a category with "
                    "these values; for shares of bins declare the bins",
                    "columns",
                    first,
                )
            return ColumnCounts(column=first, **arguments)  # type: ignore[arg-type]
        if isinstance(declared, Category) and declared.discovers:
            self._check_alone("values='discover'", {"delta"})
            return DiscoveredValues(schema=schema, column=first, epsilon=epsilon, delta=self.delta)
        if expected_false is not None:
            self._check_alone("expected_false", {"options"})
            return SparseCounts(schema=schema, column=first, epsilon=epsilon, expected_false=expected_false)
        return ColumnCounts(column=first, **arguments)  # type: ignore[arg-type]

    def _check_alone(self, what: str, more: set[str]) -> None:
        if extra := sorted(set(self.explicit_fields()) - {"columns", "epsilon"} - more):
            raise InvalidInputError(f"{extra[0]} cannot be used with {what}")


def _names(columns: Any) -> tuple[str, ...]:
    """Return names of columns as a tuple, from one name or several."""
    names = (columns,) if isinstance(columns, str) else tuple(columns or ())
    if not all(isinstance(name, str) and name for name in names):
        wrong = next(name for name in names if not (isinstance(name, str) and name))
        # Not its value, which may be private.
        shown = "an empty text" if isinstance(wrong, str) else f"a {type(wrong).__name__}"
        raise InvalidInputError(f"columns must be names of columns, such as 'smoker', 'sex', not {shown}")
    if len(set(names)) < len(names):
        raise InvalidInputError("names a column twice", "columns", columns)
    return names
