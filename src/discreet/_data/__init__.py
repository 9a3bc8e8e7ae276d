"""Compute exact counts and sums from records of any table, file or database, under a public declaration.

Each record is coded as an integer that depends only on that record and the declaration: the position of a
level, a point of a grid between declared bounds, or a bin. Python values are coded here, one by one. Tables
are coded, grouped and summed by their own engine, through narwhals; files are opened by an embedded DuckDB.
Only aggregates leave an engine, and no message quotes a record.

Privacy requires that the code of a record depends on no other record. This cannot be ensured if a column of
mixed values was converted to one type beforehand: ``numpy.array([1.0, "q"])`` contains the text ``"1.0"``, a
``Counter`` counts 1 and True as one key, and a query may infer a type from all records. Fix the type of such
a column before looking at the records.
"""

from pathlib import Path
from typing import Any

from discreet._data import engines, files, rows, statistics
from discreet._data.files import FORMATS as FORMATS
from discreet._data.files import Glob as Glob
from discreet._data.grids import ClippedSum as ClippedSum
from discreet._data.guard import redact_errors
from discreet._data.statistics import Contribution as Contribution
from discreet._data.values import Tally as Tally
from discreet._data.values import is_database as is_database

# Whatever other packages call is guarded here, so that no message of an engine comes back.
as_frame = redact_errors(engines.as_frame)
as_table = redact_errors(engines.as_table)
count_cells = redact_errors(engines.count_cells)
of_columns = redact_errors(engines.of_columns)
sql = redact_errors(files.sql)
read_rows = redact_errors(rows.read_rows)
clipped_sum = redact_errors(statistics.clipped_sum)
contingencies = redact_errors(statistics.contingencies)
contingency = redact_errors(statistics.contingency)
count_levels = redact_errors(statistics.count_levels)
count_texts = redact_errors(rows.count_texts)
count_codes = redact_errors(rows.count_codes)


def source_label(data: Any) -> str | None:
    """Return the name of the data for plans and documents; of a database, without user and password."""
    if not is_database(data):
        return str(data) if isinstance(data, str | Path) else None
    from discreet._data.database import label_of

    return label_of(data)
