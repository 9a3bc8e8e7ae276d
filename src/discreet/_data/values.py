"""The base of all coders, which turn records into integers, and the counting of Python values."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, repeat
from numbers import Rational, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

from discreet._declarations import as_integer, as_plain
from discreet.errors import DataError, InvalidInputError

if TYPE_CHECKING:
    import narwhals as nw

RANGES = {f"Int{b}": (-(2 ** (b - 1)), 2 ** (b - 1) - 1) for b in (8, 16, 32, 64, 128)}
RANGES |= {f"U{name}": (0, 2 * high + 1) for name, (_, high) in RANGES.items()}
"""The smallest and largest value of each integer type of a column."""
_RECORDS_AT_ONCE = 1 << 16


def is_database(data: Any) -> bool:
    """Return whether ``data`` names a database table: text with ``://``, or a pair (engine, table)."""
    if isinstance(data, str):
        return "://" in data
    return isinstance(data, tuple) and len(data) == 2 and type(data[0]).__module__.startswith("sqlalchemy.")


def words(of: Any) -> Any:
    """Return the module for building expressions: narwhals, or its equivalent if ``of`` is of a database."""
    import narwhals

    return getattr(of, "words", narwhals)


class Coder(ABC):
    """The coding of one column: an integer for each record, which depends on that record alone.

    Codes 0, …, ``size`` − 1 stand for declared levels, bins or grid points. Undeclared values have the code
    ``invalid_code``, and missing values ``missing_code``: a declared code if they count as a level, otherwise
    ``size`` and ``size + 1``. ``untyped_code`` marks a value whose type the engine does not know.
    """

    size: int
    invalid_code: int
    missing_code: int
    drops_missing: bool = False
    """Whether missing values are left out; otherwise they are an error, unless they count as a level."""
    total: bool = False
    """Whether no value is invalid; see :meth:`accepting`."""
    kinds: ClassVar[Mapping[str, str]]
    """For JSON, where each value has its own type: the column for each kind; other kinds are invalid."""
    invalid_reason: ClassVar[str]
    hint: ClassVar[str]
    missing_hint: ClassVar[str]
    """For messages: what is wrong with invalid records, what to do about them, and about missing ones."""

    @property
    def untyped_code(self) -> int:
        return self.invalid_code if self.total else self.size + 2

    @property
    def codes(self) -> int:
        return self.size + 3

    def accepting(self, total: bool = True) -> Self:
        """Return a coder that counts undeclared values as missing."""
        if total:
            self.invalid_code = self.invalid_code if self.invalid_code < self.size else self.missing_code
            self.total = True
        return self

    @abstractmethod
    def find(self, value: Any) -> int:
        """Return the code of a Python value that is not missing."""

    @abstractmethod
    def expression(self, value: nw.Expr, dtype: Any) -> Any:
        """Return an expression for the codes of a typed column; other types raise a :class:`DataError`."""

    @abstractmethod
    def is_record(self, names: Sequence[str]) -> bool:
        """Return whether the first line of a CSV file looks like a record rather than column names."""

    def near_miss(self, value: Any) -> str | None:
        """Classify an undeclared value that is nearly a level.

        Returns ``"blank"`` if it differs only by white space, ``"case"`` if only by case, otherwise None.
        """
        return None

    def code(self, value: Any) -> int:
        """Return the code of any Python value; a value that cannot be compared is invalid."""
        value = as_plain(value)
        if is_missing(value):
            return self.missing_code
        try:
            return self.find(value)
        except Exception:  # of an object of any making
            return self.invalid_code


@dataclass(frozen=True)
class Tally:
    """Numbers of records: ``counts`` by declared code, and of ``missing`` and invalid (``unknown``) values.

    ``blank`` and ``case`` are the numbers of invalid values that differ from a level only by surrounding
    white space, or by upper and lower case. With ``private_size`` no message states a number of records.
    """

    counts: tuple[int, ...]
    missing: int = 0
    unknown: int = 0
    blank: int = 0
    case: int = 0
    private_size: bool = False

    @classmethod
    def of(
        cls, codes: Sequence[int], coder: Coder, private_size: bool, blank: int = 0, case: int = 0
    ) -> Self:
        """Build a tally from the number of records of each code."""
        size = coder.size
        return cls(tuple(codes[:size]), codes[size + 1], codes[size], blank, case, private_size)

    def problems(self, coder: Coder) -> list[str]:
        """Describe invalid and missing records, and what to do about them, as parts of a message."""
        missing = 0 if coder.drops_missing else self.missing
        records = sum(self.counts) + missing + self.unknown
        if not (records or self.missing or self.private_size):  # those that are left out are there
            raise DataError("the data are empty: there is no record to count")

        def some(number: int) -> str:
            return "some records" if self.private_size else f"{number} of {records} records"

        problems = []
        if self.unknown:
            problems.append(f"{some(self.unknown)} hold {coder.invalid_reason}")
            hints = ((self.blank, "white space around it"), (self.case, "upper and lower case"))
            for number, ground in hints:
                if number:
                    few = "some" if self.private_size else number
                    problems.append(f"{few} of these differ from a level only by {ground}")
            problems.append(coder.hint)
        if missing:
            problems.append(f"{some(missing)} are missing; {coder.missing_hint}")
        return problems

    def complete_counts(self, coder: Coder) -> tuple[int, ...]:
        """Return the counts; raise an error if there are invalid or missing records."""
        if problems := self.problems(coder):
            raise DataError("; ".join(problems))
        return self.counts


def is_missing(value: Any) -> bool:
    # pandas.NA answers every comparison with itself, so it is known by name: pandas need not be installed.
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, float):
        return math.isnan(value)
    if isinstance(value, Decimal):
        return value.is_nan()
    # NumPy's longdouble is no float of Python's.
    return isinstance(value, Real) and not isinstance(value, Rational) and bool(value != value)


def value_text(value: Any) -> str:
    """Return the text of a value, or the name of its type if it has none; it depends on that value alone.

    Equal numbers have the same text, whatever their type. Otherwise it could depend on other records: engines
    and Python group 1 and 1.0, or 0.0 and -0.0, under whichever came first, and pandas turns integers into
    floats if a value is missing.
    """
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return str(value).encode("utf-8", "backslashreplace").decode()
    except Exception:  # a whole number of too many digits, or an object of any making
        return f"<{type(value).__name__}>"


def wrong_type(name: str, use: str = "counted; turn it into text, numbers or truth values") -> DataError:
    # The bare name: the full type of a nested column may list keys that are data.
    return DataError(f"a column of type {name} cannot be {use}")


def count_values(data: Any, coder: Coder, private_size: bool = False) -> tuple[int, ...]:
    """Count Python values, or a mapping from value to count; raise an error if some are invalid."""
    return count_weighted(value_counts(data), coder, private_size).complete_counts(coder)


def count_weighted(pairs: Iterable[tuple[Any, int]], coder: Coder, private_size: bool = False) -> Tally:
    """Count values from pairs (value, number of records)."""
    counts = [0] * coder.codes
    near = {"blank": 0, "case": 0}
    for value, weight in pairs:
        code = coder.find(value) if type(value) is str else coder.code(value)
        counts[code] += weight
        if (
            code == coder.invalid_code == coder.size
            and (miss := coder.near_miss(as_plain(value))) is not None
        ):
            near[miss] += weight
    return Tally.of(counts, coder, private_size, **near)


def value_counts(data: Any) -> Iterable[tuple[Any, int]]:
    """Return pairs (value, count) from Python values or a mapping from value to count."""
    return zip(data, _weights(data), strict=True) if isinstance(data, Mapping) else distinct(data)


def _weights(counts: Mapping[Any, Any]) -> Iterator[int]:
    for count in counts.values():
        try:
            weight = as_integer(count, "count")
        except (InvalidInputError, OverflowError):
            weight = -1
        if weight < 0:  # as_integer would have quoted the count, which is private
            raise InvalidInputError("every count in a mapping must be a whole number, 0 or more") from None
        yield weight


def alike(values: Iterable[Any]) -> bool:
    """Return whether the types of the values guarantee that equal ones have the same code.

    True == 1 and (1,) == (True,), for example, have different codes.
    """
    types = set(map(type, values))
    return types <= {str, int, float, type(None)} or types <= {str, bool, type(None)}


def distinct(data: Any) -> Iterator[tuple[Any, int]]:
    """Yield pairs (value, count), for blocks of records, to bound memory."""
    numpy = sys.modules.get("numpy")
    array = data if numpy is not None and isinstance(data, numpy.ndarray) else None
    if array is not None and array.ndim != 1:
        raise InvalidInputError(f"data has {array.ndim} dimensions; give one column, such as array[:, 0]")
    if array is not None and array.dtype.kind not in "biufUTO":
        raise wrong_type(array.dtype.name)
    # A set keeps equal records once, and the items of bytes are numbers.
    if isinstance(data, set | frozenset | bytes | bytearray | memoryview) or not isinstance(data, Iterable):
        raise InvalidInputError(
            f"data of type {type(data).__name__} cannot be counted; give a list, array, column, table or "
            "file path with column=NAME, or a mapping from value to count"
        )
    if array is not None and array.dtype.kind in "biuf" and not hasattr(array, "mask"):
        for start in range(0, len(array), 16 * _RECORDS_AT_ONCE):
            yield from _distinct_numbers(array[start : start + 16 * _RECORDS_AT_ONCE])
        return
    for part in _parts(data):
        yield from Counter(part).items() if alike(part) else zip(part, repeat(1))


def _parts(data: Any) -> Iterator[list[Any]]:
    if isinstance(data, list) or hasattr(data, "tolist"):
        for start in range(0, len(data), _RECORDS_AT_ONCE):
            part = data[start : start + _RECORDS_AT_ONCE]
            yield part if isinstance(part, list) else part.tolist()
        return
    records = iter(data)
    while part := list(islice(records, _RECORDS_AT_ONCE)):
        yield part


def _distinct_numbers(part: Any) -> Iterable[tuple[Any, int]]:
    import numpy as np

    low, high = (int(part.min()), int(part.max())) if part.dtype.kind in "iu" else (0, 2**63)
    if high - low <= 4 * len(part) + 1024 and high < 2**63:
        counts = np.bincount(part.astype(np.int64, copy=False) - low)
        values = np.flatnonzero(counts)
        return zip((values + low).tolist(), counts[values].tolist(), strict=True)
    values, counts = np.unique(part, return_counts=True)
    return zip(values.tolist(), counts.tolist(), strict=True)
