"""Reading of single records, for models that need more than counts and sums. Only this module does so."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from discreet._data.engines import as_frame, choose, compared_exactly, no_column, pandas_values
from discreet._data.files import Files, is_files, no_field, sql
from discreet._data.values import is_missing, value_counts, value_text, wrong_type
from discreet._data.withheld import fetch
from discreet._declarations import as_plain
from discreet.errors import DataError, InvalidInputError

_CODE = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
Chooser = Callable[[Sequence[str], str | None], str]


@contextmanager
def _open_frame(data: Any, name: str | None = None) -> Iterator[tuple[Any, Chooser]]:
    """Yield the open table or files (None for Python values), and the function that selects a column."""
    if not is_files(data):
        yield as_frame(data, name), choose
        return
    files = Files.of(data)
    unknown = no_column if files.ending == ".parquet" else no_field
    with files.named_in_errors():
        frame = as_frame(sql("SELECT * FROM records", records=data))
        yield frame, lambda names, column: choose(names, column, unknown)


def read_rows(data: Any, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return the records of some columns of a table or a file, in the order of ``columns``."""
    import narwhals as nw

    with _open_frame(data) as (frame, chosen):
        if frame is None:
            raise InvalidInputError("a regression needs a table or a file with the named columns")
        schema = frame.collect_schema()
        wanted = [chosen(schema.names(), column) for column in columns]
        if hasattr(frame, "words"):
            frame = frame.values(wanted)
        else:
            frame = frame.select(*(_readable(nw.col(name), schema[name]) for name in wanted))
        rows = fetch(frame)
    if not rows:
        raise DataError("the data are empty: there is no record")
    return [tuple(map(_plain, row)) for row in rows]


def count_texts(data: Any, column: str | None = None) -> dict[str, int]:
    """Count the records of each value, as text and without missing values, for levels that are not declared.

    The text of a record depends on that record alone. Any value is valid.
    """
    if is_files(data):
        files = Files.of(data)
        if "json" in files.ending:
            raise InvalidInputError(
                f"{files.label}: levels are found in Parquet, CSV, TSV and Excel files; read JSON into a "
                "table first"
            )
        if column is None and files.ending != ".parquet":
            raise InvalidInputError("column is missing: give column=NAME")
    counts: dict[str, int] = {}
    with _open_frame(data, column) as (frame, chosen):
        if frame is None:
            counted = value_counts(data)
        else:
            counted = _values(frame, chosen(frame.collect_schema().names(), column))
        for value, records in counted:
            plain = as_plain(value)
            if not is_missing(plain):
                text = value_text(plain)
                counts[text] = counts.get(text, 0) + records
    return counts


def count_codes(
    data: Any, codes: range, column: str | None = None, *, other: int | None = None, strict: bool = True
) -> dict[int, int]:
    """Count the records with each whole number of a long range; return counts by position in the range.

    A value is a whole number, or its text without leading zeros. Missing values are left out. Any other value
    counts as ``other``; if that is None it raises an error, or is left out if not ``strict``.
    """
    counts: dict[int, int] = {}
    for text, records in count_texts(data, column).items():
        code = int(text) if _CODE.fullmatch(text) else None
        if code is None or code not in codes:
            code = other
        if code is not None:
            counts[codes.index(code)] = counts.get(codes.index(code), 0) + records
        elif strict and records:
            raise DataError(
                "some records hold a value outside the declared codes: declare all codes, map the rest to "
                "one (other=), or leave them out (strict=False)"
            )
    return counts


def _values(frame: Any, name: str) -> Iterable[tuple[Any, int]]:
    """Return the distinct values of a column with their frequencies."""
    import narwhals as nw

    if hasattr(frame, "words"):
        return fetch(frame.values([name]).group_by("v0").agg(frame.words.len().alias("records")))
    dtype = frame.collect_schema()[name]
    if frame.implementation.is_pandas_like():
        counted = pandas_values(frame.to_native(), name)
        if counted is None:
            raise wrong_type(type(dtype).__name__)
        return counted
    value = compared_exactly(frame.select(value=_readable(nw.col(name), dtype)))
    return fetch(value.group_by("value").agg(nw.len().alias("records")))


def _readable(value: Any, dtype: Any) -> Any:
    """Return a column of numbers, text or booleans; other types, such as dates, are an error.

    Types that narwhals does not know are converted to text.
    """
    import narwhals as nw

    if dtype == nw.Unknown:
        return value.cast(nw.String)
    if dtype.is_numeric() or dtype in (nw.String, nw.Categorical, nw.Enum, nw.Boolean, nw.Object):
        return value
    raise wrong_type(type(dtype).__name__)


def _plain(value: Any) -> Any:
    """Return numbers, text and None unchanged, and any other value as text."""
    value = as_plain(value)
    return value if value is None or isinstance(value, str | float | int | Decimal) else value_text(value)


def as_number(value: Any) -> float:
    """Return a value as a float, also if it is text; NaN if it is not a number."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan
