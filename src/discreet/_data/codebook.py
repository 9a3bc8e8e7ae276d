"""Help for the curator: a schema template from column names, and counts of records that violate a schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from discreet._data.engines import as_frame, count_cells
from discreet._data.files import open_columns, sql
from discreet._data.grids import Bins
from discreet._data.levels import Levels
from discreet._data.values import Coder, is_database
from discreet._declarations import Domain
from discreet.errors import InvalidInputError
from discreet.schema import Category, Number, Schema

_NUMERIC = ("int", "float", "double", "decimal", "numeric", "real", "hugeint", "uint")


def column_types(file: str | Path) -> list[tuple[str, str | None]]:
    """Return the names of a file's columns, with their types where the format stores them.

    Parameters
    ----------
    file : path
        A Parquet, CSV, TSV or Excel file, or a table of a database. Types of CSV, Excel and SQLite are not
        guessed from values.
    """
    if is_database(file):
        frame: Any = as_frame(file)
        return list(frame.types.items())
    if str(file).lower().endswith((".json", ".jsonl", ".ndjson")):
        raise InvalidInputError(
            "a JSON file has no list of columns: write the schema by hand, or convert it to Parquet"
        )
    relation = sql("SELECT * FROM data", data=Path(file))
    stored = str(file).lower().endswith(".parquet")
    kinds = [str(kind).lower() if stored else None for kind in relation.types]
    return list(zip(map(str, relation.columns), kinds, strict=True))


def schema_template(file: str | Path, n: str | None = None) -> str:
    """Return the text of a schema file with the names of columns and empty declarations to fill in.

    Parameters
    ----------
    file : path
        The data, of which only the names and stored types of columns are read.
    n : str, optional
        The public number of records, or ``"public"``.
    """
    return template_text(column_types(file), n)


def template_text(columns: Iterable[tuple[str, str | None]], n: str | None = None) -> str:
    """Return the text of a schema file with empty declarations of these columns.

    Parameters
    ----------
    columns : iterable of pairs
        The name of each column, and its type if it is known.
    n : str, optional
        The public number of records, or ``"public"``.
    """
    lines = [
        "# Declare what is publicly known about each column, never what the data show.",
        "# A column that stays [] is not declared. Survey weights at most 4 are {weight = 4}.",
        '# n = 3000  # the public number of records; "public" reads and publishes it; left '
        "out, it stays private",
    ]
    if n is not None:
        lines[-1] = f"n = {n}" if n.isdigit() else f"n = {json.dumps(n)}"
    lines += ["", "[columns]"]
    for name, kind in columns:
        key = (
            name
            if name.isascii() and name.replace("_", "").isalnum()
            else json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
        )
        if kind is None:
            lines.append(f"{key} = []  # values of a category, or [low, high] of a number")
        elif kind.startswith(_NUMERIC):
            lines.append(f"{key} = []  # {kind}: [low, high], or {{values = [...]}}")
        elif kind in ("boolean", "bool"):
            lines.append(f"{key} = [false, true]  # boolean")
        else:
            lines.append(f"{key} = []  # {kind}: values")
    return "\n".join([*lines, ""])


def misfits(data: Any, schema: Schema) -> dict[str, tuple[int, int, int]]:
    """Return, for each column, the numbers of missing values, of invalid values, and of all records.

    Parameters
    ----------
    data : table or path
        The records.
    schema : Schema
        The declaration of their columns.

    Notes
    -----
    The result is private: it is for the curator alone.
    """
    counts = {}
    for name, column in schema:
        coder: Coder
        if isinstance(column, Number):
            low, high = column.bounds
            coder, inside = Bins((low, (low + high) / 2, high), "level", None), 2
        elif isinstance(column, Category) and not column.discovers:
            coder = Levels(Domain(column.values))
            inside = coder.size
        else:
            continue
        with open_columns(data, {None if schema.nameless else name: coder}, None) as table:
            if table is None:
                raise InvalidInputError("check takes a table or a file")
            cells = count_cells(table, None).kept
        missing = sum(records for (code,), records in cells.items() if code == coder.size + 1)
        total = sum(cells.values())
        declared = sum(records for (code,), records in cells.items() if code < inside)
        counts[name] = (missing, total - missing - declared, total)
    return counts
