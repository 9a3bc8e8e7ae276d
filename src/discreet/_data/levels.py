"""The declared levels of a column, and when a record equals one of them.

The rule is the same on every engine:

* text, and any type not listed below, equals a level with the same text: ``"1"`` equals ``"1"`` and ``1``;
* a number equals a level with the same numeric value: ``1.0`` equals ``1``, ``"1"`` and ``True``;
* a boolean equals the levels True/False, 1/0 and ``"true"``/``"false"`` in upper or lower case;
* if two levels have the same numeric or boolean value (``"1"``, ``"01"``), such a record equals neither;
* null and NaN are missing and equal no level. In a CSV file an empty field is missing;
* a nested value (an array or object in a JSON file) equals no level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from discreet._data.values import RANGES, Coder, value_text, words, wrong_type
from discreet._declarations import Domain, comparable

if TYPE_CHECKING:
    import narwhals as nw

WHITE = " \t\r\n\v\f\u00a0"
_MOST_CHAINED_LEVELS = 64


class Levels(Coder):
    """The coder for a :class:`Domain`: the code of a record is the position of its level.

    With ``keeps_missing``, missing values that are left out are counted under a code of their own, the last.
    """

    kinds: ClassVar = {"text": "text", "truth": "truth", "whole": "whole", "huge": "text", "real": "real"}
    invalid_reason = "a value outside the declared levels"
    hint = (
        "declare every value, or the value that all others count as: other=VALUE; in a CSV file NA is a "
        "text, and an empty field is missing"
    )
    missing_hint = (
        "declare the value that they count as: missing=VALUE, or leave them out: missing='exclude', or for "
        "all columns strict=False"
    )

    def __init__(self, domain: Domain, keeps_missing: bool = False) -> None:
        self.domain = domain
        counts_missing = domain.excludes_missing and keeps_missing
        self.size = domain.k + counts_missing
        self.invalid_code = self.size if domain.other is None else domain.levels.index(domain.other)
        self.drops_missing = domain.excludes_missing and not counts_missing
        if counts_missing:
            self.missing_code = domain.k
        elif domain.missing is None or self.drops_missing:
            self.missing_code = self.size + 1
        else:
            self.missing_code = domain.levels.index(domain.missing)

    @cached_property
    def near(self) -> tuple[list[str], list[str]]:
        """The levels without surrounding white space, and the same in lower case."""
        stripped = [text.strip(WHITE) for text in self.domain.texts]
        return stripped, [text.lower() for text in stripped]

    def find(self, value: Any) -> int:
        if type(value) is str:
            return self.domain.texts.get(value, self.invalid_code)
        if isinstance(value, bool):
            return self.domain.truths.get(value, self.invalid_code)
        if isinstance(value, Real | Decimal):
            return self.domain.numbers.get(comparable(value), self.invalid_code)
        return self.domain.texts.get(
            value if isinstance(value, str) else value_text(value), self.invalid_code
        )

    def near_miss(self, value: Any) -> str | None:
        if not isinstance(value, str):
            return None
        stripped = value.strip(WHITE)
        if stripped in self.near[0]:
            return "blank"
        return "case" if stripped.lower() in self.near[1] else None

    def reading(self, value: nw.Expr, dtype: Any) -> tuple[nw.Expr, nw.Expr, dict[Any, int], int]:
        """Return how a typed column is coded, as a tuple of four.

        The four are the expression to compare with levels, an expression that says whether it is missing, a
        mapping from each level to its code, and the code of all other values.
        """
        nw = words(value)
        numbers = self.domain.numbers
        if dtype in (nw.String, nw.Categorical, nw.Enum):
            text = value if dtype == nw.String else value.cast(nw.String)
            return text, value.is_null(), self.domain.texts, self.invalid_code
        if dtype == nw.Boolean:
            return value, value.is_null(), self.domain.truths, self.invalid_code
        if dtype.is_integer():
            low, high = RANGES[str(dtype)]  # a literal out of the column's range is an error on some engines
            wanted = {int(x): i for x, i in numbers.items() if low <= x <= high and x == int(x)}
            return value, value.is_null(), wanted, self.invalid_code
        if dtype.is_numeric():
            real = value.cast(nw.Float64)
            reals = {
                float(x): i for x, i in self.domain.numbers.items() if abs(x) < 2**1023 and x == float(x)
            }
            return real, value.is_null() | real.is_nan(), reals, self.invalid_code
        if dtype == nw.Unknown:  # which is also the type of a column of nulls
            return value, value.is_null(), {}, self.untyped_code
        raise wrong_type(type(dtype).__name__)

    def expression(self, value: nw.Expr, dtype: Any) -> Any:
        nw = words(value)
        compared, missing, wanted, other = self.reading(value, dtype)
        code = _find(compared, list(wanted.items()), other)
        return nw.when(missing).then(nw.lit(self.missing_code)).otherwise(code)

    def is_record(self, names: Sequence[str]) -> bool:
        return not self.domain.texts.keys().isdisjoint(names)


def _find(value: nw.Expr, wanted: list[tuple[Any, int]], other: int) -> Any:
    """Build an expression of comparisons; many values are compared in blocks, to keep chains short."""
    nw = words(value)
    code = nw.lit(other)
    if len(wanted) <= _MOST_CHAINED_LEVELS:
        for level, position in reversed(wanted):
            code = nw.when(value == level).then(nw.lit(position)).otherwise(code)
        return code
    block = math.isqrt(len(wanted)) + 1
    for start in range(0, len(wanted), block):
        part = wanted[start : start + block]
        inside = value.is_in([level for level, _ in part])
        code = nw.when(inside).then(_find(value, part, other)).otherwise(code)
    return code
