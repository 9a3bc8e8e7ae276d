"""What a declaration makes of one record; and records that are Python values, looked at one by one."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, ClassVar

from discreet.declarations import as_integer, as_plain
from discreet.errors import DataError, InvalidInput

if TYPE_CHECKING:
    import narwhals as nw


RANGES = {f"Int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64, 128)} | {
    f"UInt{b}": (0, 2**b - 1) for b in (8, 16, 32, 64, 128)
}
"""Lowest and highest value of the whole-number types of a column."""


@dataclass(frozen=True)
class Tally:
    """Every record in exactly one place: a level, ``missing``, or ``unknown``.

    A record that the declaration maps to a level is counted there. For hints, ``blank`` and ``case`` count
    the unknown records that differ from a level in nothing but the white space around them, or upper and
    lower case.
    """

    counts: tuple[int, ...]
    missing: int = 0
    unknown: int = 0
    blank: int = 0
    case: int = 0
    private_size: bool = False
    """Whether the number of records is private: then nothing that is said about them has a number."""

    @property
    def records(self) -> int:
        return sum(self.counts) + self.missing + self.unknown

    def some(self, number: int) -> str:
        """``number`` of the records, in words."""
        return "some records" if self.private_size else f"{number} of {self.records} records"


class Coder(ABC):
    """What is declared about one column: a whole number for each record, which depends on that record alone.

    Codes 0 … ``size`` − 1 are the declared places. ``stray`` is the code of a value outside the declaration
    and ``absent`` that of a missing one: places where these are mapped, ``size`` and ``size + 1`` where not.
    ``untyped`` marks a value of a type that no engine told us.
    """

    size: int
    stray: int
    absent: int
    drops_missing: bool = False
    """Whether missing values are left out, and no mistake."""
    kinds: ClassVar[Mapping[str, str]]
    """Of a value that brings its own type (JSON): kind → the column that holds it, or no entry: stray."""

    @property
    def untyped(self) -> int:
        return self.size + 2

    @property
    def codes(self) -> int:
        return self.size + 3

    @abstractmethod
    def find(self, value: Any) -> int:
        """The code of a Python value that is not missing."""

    @abstractmethod
    def expression(self, value: nw.Expr, dtype: Any) -> nw.Expr:
        """The code of a typed column inside an engine; a type that cannot be read is a :class:`DataError`."""

    @abstractmethod
    def is_record(self, names: Sequence[str]) -> bool:
        """Whether the first line of a CSV file looks like a record rather than column names."""

    @abstractmethod
    def problems(self, tally: Tally) -> list[str]:
        """How many records the declaration does not cover, and the way out."""

    def near_miss(self, value: Any) -> str | None:
        """``"blank"`` or ``"case"``: all that keeps a stray value from a declared one."""
        return None

    def code(self, value: Any) -> int:
        value = as_plain(value)
        return self.absent if is_missing(value) else self.find(value)


def is_missing(value: Any) -> bool:
    # pandas.NA answers every comparison with itself, so it is known by name: pandas need not be installed.
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return value.is_nan() if isinstance(value, Decimal) else isinstance(value, float) and math.isnan(value)


def wrong_type(name: str, use: str = "counted; turn it into text, numbers or truth values") -> DataError:
    # The bare name: the full type of a nested column may list keys that are data.
    return DataError(f"a column of type {name} cannot be {use}")


def count_values(data: Any, coder: Coder, private_size: bool = False) -> Tally:
    """Python values, or a mapping from value to count, one by one."""
    values, weights = (data, repeat(1)) if not isinstance(data, Mapping) else (data.keys(), _weights(data))
    return count_weighted(_as_values(values), coder, weights, private_size)


_PRINT_AS_THEY_COMPARE = (str, int, bool)


def count_weighted(
    values: Iterable[Any], coder: Coder, weights: Iterable[int], private_size: bool = False
) -> Tally:
    counts = [0] * coder.codes
    near = {"blank": 0, "case": 0}
    # Keyed by type as well, because True == 1 == 1.0, and only for types whose equal values print the same:
    # (1,) == (True,) would let one record decide what another counts as. Cut off, so that a long tail of
    # values costs nothing.
    seen: dict[Any, int] = {}
    for raw, weight in zip(values, weights, strict=False):
        kept = type(raw) in _PRINT_AS_THEY_COMPARE
        if kept and (type(raw), raw) in seen:
            counts[seen[type(raw), raw]] += weight
            continue
        value = raw if kept else as_plain(raw)
        code = coder.find(value) if kept else coder.code(value)
        counts[code] += weight
        if code < coder.size:
            if kept and len(seen) < 4096:
                seen[type(raw), raw] = code
        elif code == coder.stray and (miss := coder.near_miss(value)) is not None:
            near[miss] += weight
    return Tally(
        tuple(counts[: coder.size]),
        missing=counts[coder.size + 1],
        unknown=counts[coder.size],
        blank=near["blank"],
        case=near["case"],
        private_size=private_size,
    )


def _as_values(data: Any) -> Iterable[Any]:
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray):
        if data.ndim != 1:
            raise InvalidInput(f"data has {data.ndim} dimensions; give one column, such as array[:, 0]")
        if data.dtype.kind not in "biufUTO":
            raise wrong_type(data.dtype.name)
        chunks = (data[start : start + 65536] for start in range(0, len(data), 65536))
        return chain.from_iterable(chunk.tolist() for chunk in chunks)
    # A set keeps equal records once, and the items of bytes are numbers.
    if isinstance(data, set | frozenset | bytes | bytearray | memoryview) or not isinstance(data, Iterable):
        raise InvalidInput(
            f"data of type {type(data).__name__} cannot be counted; give a list, array, column, table or "
            "file path with column=NAME, or a mapping from value to count"
        )
    return data


def _weights(counts: Mapping[Any, Any]) -> Iterator[int]:
    for count in counts.values():
        try:
            weight = as_integer(count, "count")
        except (InvalidInput, OverflowError):
            weight = -1
        if weight < 0:  # as_integer would have quoted the count, which is private
            raise InvalidInput("every count in a mapping must be a whole number, 0 or more") from None
        yield weight
