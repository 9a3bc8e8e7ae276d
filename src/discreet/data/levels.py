"""The declared levels of a column, and when a record equals one of them.

The rule is the same on every engine:

* text, and anything not listed below, equals a level that prints the same: ``"1"`` equals ``"1"``, ``1``;
* a number equals a level that is, or reads as, the same number: ``1.0`` equals ``1``, ``"1"`` and ``True``;
* a truth value equals the levels True/False, 1/0 and, in any case, ``"true"``/``"false"``;
* where two levels read as the same number or truth value (``"1"``, ``"01"``), such a record equals neither;
* null and NaN are missing and equal no level. In a CSV file an empty field is missing;
* what is nested (an array or object in a JSON file) equals no level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.data.values import RANGES, Coder, Tally, wrong_type
from discreet.declarations import Domain, comparable

if TYPE_CHECKING:
    import narwhals as nw

WHITE = " \t\r\n\v\f\u00a0"

_CHAIN = 64


class Levels(Coder):
    """A :class:`Domain` as a coder: the code of a record is the position of its level."""

    kinds: ClassVar = {"text": "text", "truth": "truth", "whole": "whole", "huge": "text", "real": "real"}

    def __init__(self, domain: Domain) -> None:
        self.domain = domain
        self.size = domain.k
        self.stray = self.size if domain.other is None else domain.levels.index(domain.other)
        self.drops_missing = domain.excludes_missing
        nowhere = domain.missing is None or self.drops_missing
        self.absent = self.size + 1 if nowhere else domain.levels.index(domain.missing)

    @property
    def texts(self) -> dict[Any, int]:
        return self.domain.texts

    @property
    def numbers(self) -> dict[Any, int]:
        return self.domain.numbers

    @property
    def truths(self) -> dict[Any, int]:
        return self.domain.truths

    @cached_property
    def near(self) -> tuple[list[str], list[str]]:
        """The levels without white space around them, and these in lower case."""
        stripped = [text.strip(WHITE) for text in self.texts]
        return stripped, [text.lower() for text in stripped]

    def find(self, value: Any) -> int:
        if type(value) is str:
            return self.domain.texts.get(value, self.stray)
        if isinstance(value, bool):
            return self.truths.get(value, self.stray)
        if isinstance(value, Real | Decimal):
            return self.numbers.get(comparable(value), self.stray)
        return self.texts.get(value if isinstance(value, str) else str(value), self.stray)

    def near_miss(self, value: Any) -> str | None:
        if not isinstance(value, str):
            return None
        stripped = value.strip(WHITE)
        if stripped in self.near[0]:
            return "blank"
        return "case" if stripped.lower() in self.near[1] else None

    def expression(self, value: nw.Expr, dtype: Any) -> nw.Expr:
        import narwhals as nw

        missing = value.is_null()
        other = self.stray
        wanted: dict[Any, int] = {}
        if dtype == nw.String:
            wanted = self.texts
        elif dtype in (nw.Categorical, nw.Enum):
            value, wanted = value.cast(nw.String), self.texts
        elif dtype == nw.Boolean:
            wanted = self.truths
        elif dtype.is_integer():
            low, high = RANGES[str(dtype)]  # a literal out of the column's range is an error on some engines
            wanted = {int(x): i for x, i in self.numbers.items() if low <= x <= high and x == int(x)}
        elif dtype.is_numeric():
            value = value.cast(nw.Float64)
            missing = missing | value.is_nan()
            wanted = {float(x): i for x, i in self.numbers.items() if abs(x) < 2**1023 and x == float(x)}
        elif dtype == nw.Unknown:  # which is also the type of a column of nulls
            other = self.untyped
        else:
            raise wrong_type(type(dtype).__name__)
        found = _find(value, list(wanted.items()), other)
        return nw.when(missing).then(nw.lit(self.absent)).otherwise(found)

    def is_record(self, names: Sequence[str]) -> bool:
        return not self.texts.keys().isdisjoint(names)

    def problems(self, tally: Tally) -> list[str]:
        problems = []
        if tally.unknown:
            problems.append(f"{tally.some(tally.unknown)} hold a value outside the declared levels")
            for hint, ground in (
                (tally.blank, "white space around it"),
                (tally.case, "upper and lower case"),
            ):
                if hint:
                    few = "some" if tally.private_size else hint
                    problems.append(f"{few} of these differ from a level only in {ground}")
            problems.append("declare every level, or map the rest to one: other=LEVEL (--other LEVEL)")
        if tally.missing:
            problems.append(f"{tally.some(tally.missing)} are missing")
            problems.append("map them to a level: missing=LEVEL (--missing LEVEL)")
        return problems


def _find(value: nw.Expr, wanted: list[tuple[Any, int]], other: int) -> nw.Expr:
    """A chain of comparisons; of many values first which block, so that no chain is deep."""
    import narwhals as nw

    found = nw.lit(other)
    if len(wanted) <= _CHAIN:
        for level, position in reversed(wanted):
            found = nw.when(value == level).then(nw.lit(position)).otherwise(found)
        return found
    block = math.isqrt(len(wanted)) + 1
    for start in range(0, len(wanted), block):
        part = wanted[start : start + block]
        inside = value.is_in([level for level, _ in part])
        found = nw.when(inside).then(_find(value, part, other)).otherwise(found)
    return found
