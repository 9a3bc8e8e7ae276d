"""Reading of Excel sheets as records.

Every cell is read on its own: numbers, text and booleans keep their type, a date becomes the text
``2024-05-31``, and an empty cell is missing. For a formula, the value saved with it is read. An empty row is
never a record: otherwise empty rows above other records would count and those below would not, so that other
records would decide.
"""

from __future__ import annotations

import json
import math
import warnings
import zipfile
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from discreet.errors import DiscreetError, FileError, TooLargeError, drop_exception_context, missing_extra

_MOST_BYTES = 1 << 30
_MOST_TAGS = 1 << 23
"""The largest number of XML tags in a sheet, about two million cells, to bound time and memory."""
_MOST_ROWS = 1 << 20  # of Excel itself; a file may claim any number, and each is gone through


@drop_exception_context
def sheet_of(path: Path, sheet: str | None) -> tuple[list[str], list[str]]:
    """Return the column names in the first row of a sheet, and every row below as a JSON array."""
    try:
        return _read(path, sheet)
    except DiscreetError:
        raise
    except (
        Exception
    ) as error:  # whatever a torn workbook makes of the libraries that read it; they quote cells
        if isinstance(error, OSError) and error.strerror:
            raise FileError(f"{str(path)!r} cannot be read: {error.strerror}") from None
        raise FileError(f"{str(path)!r} is not a well-formed .xlsx file") from None


def _read(path: Path, sheet: str | None) -> tuple[list[str], list[str]]:
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise missing_extra("openpyxl, which reads Excel files,", "excel") from None
    with zipfile.ZipFile(path) as archive:
        size = sum(entry.file_size for entry in archive.infolist())
        if size > _MOST_BYTES or _tags(archive) > _MOST_TAGS:
            raise _too_large(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they quote cells
        book = load_workbook(path, read_only=True, data_only=True)
        try:
            titles = [worksheet.title for worksheet in book.worksheets]
            if sheet is not None and sheet not in titles:
                listed = ", ".join(map(repr, titles))
                raise FileError(f"{str(path)!r} has no sheet {sheet!r}; its sheets are: {listed}")
            if not titles:
                raise FileError(f"{str(path)!r} has no sheet with cells")
            chosen = book[sheet or titles[0]]
            chosen.reset_dimensions()  # what a file says of its size is not always true
            rows = iter(chosen.iter_rows(values_only=True))
            names = ["" if value is None else str(_plain(value)) for value in next(rows, ())]
            while names and not names[-1]:
                names.pop()
            return names, _records(path, rows, len(names))
        finally:
            book.close()


def _records(path: Path, rows: Iterator[tuple[Any, ...]], width: int) -> list[str]:
    """Return the rows with a value in one of the first ``width`` columns, as JSON arrays."""
    records, size = [], 0
    for number, row in enumerate(rows, 2):
        if number > _MOST_ROWS:
            raise FileError(f"{str(path)!r} has a row beyond {_MOST_ROWS:,}, the last of an Excel sheet")
        values = [_plain(value) for value in row[:width]]
        if any(value is not None for value in values):
            records.append(json.dumps(values + [None] * (width - len(values))))
            size += len(records[-1])
        if size > _MOST_BYTES:
            raise _too_large(path)
    return records


def _tags(archive: zipfile.ZipFile) -> int:
    parts = map(archive.open, archive.infolist())
    return sum(block.count(b"<") for part in parts for block in iter(partial(part.read, 1 << 20), b""))


def _too_large(path: Path) -> TooLargeError:
    return TooLargeError(f"{str(path)!r} unpacks to over 1 GB or 2 million cells; save it as CSV or Parquet")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None  # no number of Excel's, and none of JSON
    if isinstance(value, float) and value.is_integer():
        return int(value)  # Excel has one kind of number
    return None if value == "" else value
