"""Records themselves, for a model that needs more than sums: the one way in which they leave an engine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from discreet.data.engines import as_frame, fetch, no_column
from discreet.data.files import sql
from discreet.data.paths import is_files
from discreet.errors import DataError, InvalidInput


def read_rows(data: Any, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """The records of some columns of a table or a file, in the order of ``columns``."""
    frame = as_frame(sql("SELECT * FROM records", records=data) if is_files(data) else data)
    if frame is None:
        raise InvalidInput("a regression needs a table or a file with the named columns")
    names = frame.collect_schema().names()
    for column in columns:
        if column not in names:
            raise no_column(names, column)
    rows = fetch(frame.select(*columns))
    if not rows:
        raise DataError("the data are empty: there is no record")
    return rows


def as_number(value: Any) -> float:
    """A record's number, also where a file holds it as text; NaN where there is none."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan
