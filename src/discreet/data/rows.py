"""Records themselves, for a model that needs more than sums: the one way in which they leave an engine."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from discreet.data.engines import as_frame, choose, no_column
from discreet.data.files import no_field, sql
from discreet.data.paths import MALFORMED, Files, is_files
from discreet.data.values import distinct, is_missing
from discreet.data.withheld import EngineError, fetch
from discreet.declarations import as_plain
from discreet.errors import DataError, FileError, InvalidInput


def read_rows(data: Any, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The records of some columns of a table or a file, in the order of ``columns``."""
    if is_files(data):
        files = Files.of(data)
        unknown = no_column if files.ending == ".parquet" else no_field
        try:
            rows = _rows(sql("SELECT * FROM records", records=data), columns, unknown)
        except EngineError as error:
            where = f": see line {error.line} ({MALFORMED})" if error.line else ""
            raise FileError(f"{files.label} is not a well-formed {files.ending} file{where}") from None
    else:
        rows = _rows(data, columns, no_column)
    if not rows:
        raise DataError("the data are empty: there is no record")
    return rows


def count_texts(data: Any, column: str | None = None) -> dict[str, int]:
    """How many records print as each text, missing ones left out: for levels that nobody declared.

    What a record counts as depends on that record alone. None is an error, whatever it holds.
    """
    if is_files(data):
        files = Files.of(data)
        data = sql("SELECT * FROM records", records=data)
        if column is None and files.ending != ".parquet":
            raise InvalidInput("which column? Give column=NAME (--column NAME)")
    frame = as_frame(data)
    if frame is None or frame.implementation.is_pandas_like():
        if frame is not None:
            data = frame.to_native()[choose(frame.collect_schema().names(), column)].tolist()
        counted = zip(data, data.values(), strict=True) if isinstance(data, Mapping) else distinct(data)
    else:
        import narwhals as nw

        name = choose(frame.collect_schema().names(), column)
        grouped = frame.select(value=nw.col(name)).group_by("value").agg(nw.len().alias("records"))
        counted = iter(fetch(grouped))
    found: dict[str, int] = {}
    for value, records in counted:
        plain = as_plain(value)
        if not is_missing(plain):
            found[str(plain)] = found.get(str(plain), 0) + int(records)
    return found


def _rows(
    data: Any, columns: Sequence[str], unknown: Callable[[Sequence[str], str], InvalidInput]
) -> list[tuple[Any, ...]]:
    frame = as_frame(data)
    if frame is None:
        raise InvalidInput("a regression needs a table or a file with the named columns")
    names = frame.collect_schema().names()
    for column in columns:
        if column not in names:
            raise unknown(names, column)
    return [tuple(map(_plain, row)) for row in fetch(frame.select(*columns))]


def _plain(value: Any) -> Any:
    """Numbers, text and nothing as they are; whatever else a column holds as the text that it prints as."""
    value = as_plain(value)
    return value if value is None or isinstance(value, str | float | int | Decimal) else str(value)


def as_number(value: Any) -> float:
    """A record's number, also where a file holds it as text; NaN where there is none."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan
