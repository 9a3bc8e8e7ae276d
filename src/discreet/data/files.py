"""Files, opened by an embedded DuckDB: one, several, a folder of them, or those that match a pattern.

What a record counts as must depend on no other record. So every field of a CSV file is text, a number is
read from such a field by itself, and every value of a JSON or Excel file is read alone, by its own type. Of
the first line of a CSV file or sheet, which may be a record where the names were forgotten, a message shows
at most one field, and only if it is close to the column asked for.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from discreet.data.engines import EngineTable, Lookup, as_table, nearest, no_column, only
from discreet.data.levels import Levels
from discreet.data.paths import MALFORMED, Files, is_files, literal, quoted, start_of
from discreet.data.values import Coder
from discreet.data.withheld import MISSING_PACKAGE, OUT_OF_MEMORY, EngineError, connect
from discreet.errors import DataError, FileError, InvalidInput, TooLargeError

FEW_MB = 128
"""Memory in which the distinct values of a Parquet column are counted before anything else, or not at all."""


def sql(query: str, **tables: Any) -> Any:
    """The rows of a query as a DuckDB relation, to be counted like any other table.

    ``tables`` are the names that the query may use: pandas, Polars and Arrow tables, and Parquet, CSV, TSV or
    Excel files (a path, a folder, a list of paths, a :class:`Glob`); fields of CSV and Excel are text.
    Nothing is run before the relation is counted. Types that DuckDB infers from records, as for ``read_csv``
    in a query or a pandas column of objects, let one record change what the others count as: fix them
    beforehand.

    >>> relation = sql("SELECT 1 + i % 2 AS v FROM range(10) t(i) WHERE i < 7")
    >>> sorted(relation.fetchall())
    [(1,), (1,), (1,), (1,), (2,), (2,), (2,)]
    """
    import duckdb

    connection = connect()
    for name, table in tables.items():
        if is_files(table):
            files = Files.of(table)
            try:
                _plain_relation(connection, files).create_view(name)
            except OSError as error:
                raise FileError(f"{files.label} cannot be read: {error.strerror}") from None
        else:
            _register(connection, name, table)
    try:
        kinds = [statement.type.name for statement in connection.extract_statements(query)]
        if kinds != ["SELECT"]:
            raise InvalidInput("a query must be one SELECT: its rows are the records")
        return connection.sql(query)
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        # About the query and the schema, before any record is read; but the first line of a CSV file, whose
        # fields an engine proposes as columns, may be a record.
        loose = any(is_files(table) and Files.of(table).ending != ".parquet" for table in tables.values())
        why = f" ({type(error).__name__}; see the names of columns and tables)" if loose else f": {error}"
        raise InvalidInput(f"the query cannot be run{why}") from None
    except duckdb.Error as error:
        raise InvalidInput(f"the query cannot be run ({type(error).__name__}; details withheld)") from None


def _register(connection: Any, name: str, table: Any) -> None:
    import narwhals as nw

    native = table.collect() if type(table).__name__ == "LazyFrame" else table
    try:
        eager = nw.from_native(native, eager_only=True)
    except TypeError:
        raise InvalidInput(
            f"table {name!r} of type {type(table).__name__} cannot be queried here; give a pandas, Polars or "
            "Arrow table or a file, or count a relation of its own engine"
        ) from None
    connection.register(name, eager.to_native())


def _plain_relation(connection: Any, files: Files) -> Any:
    """Files as a query sees them: Parquet as it is, every field of CSV and Excel text under its own name."""
    for path in files.paths:
        start_of(path, files.ending)
    if files.ending == ".parquet":
        return files.relation(connection.read_parquet, binary_as_string=True, hive_partitioning=False)
    if files.ending == ".xlsx":
        names, rows = _sheets(connection, files)
        _distinct(files, [name for name in names if name])
        fields = {name.replace('"', '""'): i for i, name in enumerate(names) if name}
        return rows.project(
            ", ".join(f"json_extract_string(json, '/{i}') AS \"{name}\"" for name, i in fields.items())
        )
    if "csv" not in files.ending and "tsv" not in files.ending:
        raise InvalidInput(
            f"{files.label}: a query takes Parquet, CSV, TSV and Excel files; JSON is counted directly"
        )
    delimiter, names = _same_header(files)
    _distinct(files, names)
    return _read_csv(connection, files, delimiter, names)


def _distinct(files: Files, names: Sequence[str]) -> None:
    """Refuses columns that SQL cannot tell apart: it would take one of them for the other."""
    if len({name.lower() for name in names}) < len(names):
        raise FileError(
            f"{files.label}: two columns have one name, but for upper and lower case; rename one of them"
        )


@contextmanager
def opened(data: Any, coders: Mapping[str | None, Coder], person: str | None) -> Iterator[EngineTable]:
    """The declared columns of the files while they are open; failures name the files and no content."""
    import duckdb

    files = Files.of(data)
    wrong = f"{files.label} is not a well-formed {files.ending} file"
    if len(files.paths) > 1:
        wrong = f"{files.label}: one of them is not a well-formed {files.ending} file"
    try:
        with connect() as connection:
            yield _table(connection, files, coders, person)
    except EngineError as error:
        if error.kind == OUT_OF_MEMORY:
            raise TooLargeError(
                f"{files.label}: the count needs more memory than there is; give a DuckDB relation of a "
                "connection that may use the disk, or a Spark DataFrame"
            ) from None
        if error.kind in MISSING_PACKAGE:
            raise
        why = f": see line {error.line} ({MALFORMED})" if error.line else ""
        raise FileError(wrong + why) from None
    except (duckdb.Error, csv.Error, EOFError, zlib.error, gzip.BadGzipFile):
        raise FileError(wrong) from None
    except OSError as error:
        raise FileError(f"{files.label} cannot be read: {error.strerror}") from None


def _table(
    connection: Any, files: Files, coders: Mapping[str | None, Coder], person: str | None
) -> EngineTable:
    several = len(files.paths) > 1
    starts = {path: start_of(path, files.ending) for path in files.paths}
    if several:  # an empty part of a data set is no mistake; an empty file may be
        full = tuple(path for path, start in starts.items() if start)
        files = replace(files, paths=full or files.paths[:1])
    if files.ending == ".parquet":
        return _parquet_table(connection, files, coders, person)
    if files.ending == ".xlsx":
        names, rows = _sheets(connection, files)
        places = _positions(files, names, coders, person)
        return _typed_table(rows, [quoted(f"/{place}") for place in places], coders, person)
    if "csv" in files.ending or "tsv" in files.ending:
        return _csv_table(connection, files, coders, person)
    return _json_table(connection, files, starts, coders, person)


def _parquet_table(
    connection: Any, files: Files, coders: Mapping[str | None, Coder], person: str | None
) -> EngineTable:
    import narwhals as nw

    options = {"binary_as_string": True, "hive_partitioning": False}
    connection.execute("SET parquet_metadata_cache=true")  # each step of a query reads the footer again
    if len(files.paths) > 1:
        files = _same_schema(connection, files, [*coders, person], options)
    frame = nw.from_native(files.relation(connection.read_parquet, **options))
    few = person is None and all(isinstance(coder, Levels) for coder in coders.values())
    table = as_table(frame, coders, person, groups=few)

    def sparing(on: bool) -> None:
        connection.execute(f"SET memory_limit='{FEW_MB}MB'" if on else "RESET memory_limit")

    return replace(table, sparing=sparing if few else None)


def _same_schema(connection: Any, files: Files, columns: Sequence[str | None], options: Any) -> Files:
    """Without the parts that have no rows, whose columns often have no type, and the rest of one schema.

    DuckDB would turn a column into the type that it has in the first file, record by record.
    """
    names = ", ".join(quoted(literal(path)) for path in files.paths)
    found = connection.sql(f"SELECT file_name, num_rows FROM parquet_file_metadata([{names}])").fetchall()
    empty = {name for name, rows in found if rows == 0}
    full = [path for path in files.paths if str(path) not in empty]
    schema: dict[str, str] | None = None
    for path in full:
        one = connection.read_parquet(literal(path), **options)
        types = dict(zip(one.columns, map(str, one.types), strict=True))
        schema = types if schema is None else schema
        for column in columns if len(schema) > 1 else [*schema]:
            if column is not None and types.get(column) != schema.get(column):
                raise FileError(
                    f"{files.label}: column={column!r} is not of one type in all files; see {path.name!r}"
                )
    return replace(files, paths=tuple(full) or files.paths[:1])


def _csv_table(
    connection: Any, files: Files, coders: Mapping[str | None, Coder], person: str | None
) -> EngineTable:
    import narwhals as nw

    delimiter, names = _same_header(files)
    positions = _positions(files, names, coders, person)
    relation = _read_csv(connection, files, delimiter, [f"c{i}" for i in range(len(names))])
    selected: list[str] = []
    readings: list[Mapping[str, Any]] = []
    for i, (coder, position) in enumerate(zip(coders.values(), positions, strict=False)):
        field = f"c{position}"
        if isinstance(coder, Levels):
            selected.append(f"{field} AS v{i}_text, if({field} IS NULL, 'null', 'text') AS v{i}_kind")
            readings.append({"text": nw.String})
        else:
            selected.append(f"{_double(field)} AS v{i}_real")
            selected.append(
                f"CASE WHEN {field} IS NULL THEN 'null' WHEN v{i}_real IS NULL THEN 'text' "
                f"ELSE 'real' END AS v{i}_kind"
            )
            readings.append({"real": nw.Float64})
    if person is not None:
        selected.append(f"c{positions[-1]} AS person")
    return _loose_table(relation.project(", ".join(selected)), tuple(coders.values()), readings, person)


def _positions(
    files: Files, names: Sequence[str], coders: Mapping[str | None, Coder], person: str | None
) -> list[int]:
    """Where the columns are among the names of the first line."""
    if any(column not in names and coder.is_record(names) for column, coder in coders.items()):
        raise FileError(f"{files.label}: the first line looks like a record, not like column names")
    positions = []
    for column in [*coders, *([] if person is None else [person])]:
        if column is None:
            raise InvalidInput(
                "which column? The first line of the file must name the columns; "
                "give column=NAME (--column NAME)"
            )
        if column not in names:
            raise no_field(names, column)
        positions.append(names.index(only(names, column)))
    return positions


def no_field(names: Sequence[str], column: str) -> InvalidInput:
    return InvalidInput(
        f"column={column!r} does not exist; {nearest(names, column)}The first line, which must name the "
        f"columns, has {len(names)}; they are not shown because that line may be a record"
    )


def _same_header(files: Files) -> tuple[str, list[str]]:
    found: tuple[str, list[str]] = _agreed(
        files, {path: _csv_header(path, files.ending) for path in files.paths}
    )
    return found


def _agreed(files: Files, headers: Mapping[Path, Any]) -> Any:
    first = next(iter(headers.values()))
    for path, header in headers.items():
        if header != first:
            raise FileError(f"{files.label}: the first line of {path.name!r} differs from another file's")
    return first


def _read_csv(connection: Any, files: Files, delimiter: str, names: Sequence[str]) -> Any:
    """Everything is text and nothing is guessed, so that what a field means depends on no other record."""
    return files.relation(
        connection.read_csv,
        columns=dict.fromkeys(names, "VARCHAR"),
        auto_detect=False,
        header=True,
        delimiter=delimiter,
        compression="gzip" if files.ending.endswith(".gz") else "none",
    )


def _sheets(connection: Any, files: Files) -> tuple[list[str], Any]:
    """The names of the columns, and the rows as JSON arrays."""
    from discreet.data.excel import sheet_of

    found = {path: sheet_of(path, files.sheet) for path in files.paths}
    names = _agreed(files, {path: names for path, (names, _) in found.items()})
    if not any(names):
        raise FileError(f"{files.label}: the first row must name the columns")
    rows = [row for _, own in found.values() for row in own]
    return names, connection.sql("SELECT unnest($1::JSON[]) AS json", params=[rows])


def _double(text: str) -> str:
    """SQL: the number that a text is, alone and as anywhere else in the world; null where it is none."""
    numeral = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?|nan"
    bare = f"trim({text}, ' \t')"
    return f"CASE WHEN regexp_full_match({bare}, '{numeral}', 'i') THEN TRY_CAST({bare} AS DOUBLE) END"


def _json_table(
    connection: Any,
    files: Files,
    starts: Mapping[Path, bytes],
    coders: Mapping[str | None, Coder],
    person: str | None,
) -> EngineTable:
    """Each value is read alone, by its own type; one inferred from all records would let one change all."""

    records = None
    for shape in ("newline_delimited", "array", "unstructured"):
        own = [path for path in files.paths if _shape(files.ending, starts[path]) == shape]
        if own:
            names = ", ".join(quoted(literal(path)) for path in own)
            part = connection.sql(f"SELECT json FROM read_json_objects([{names}], format='{shape}')")
            records = part if records is None else records.union(part)
    assert records is not None
    if all(coder.total for coder in coders.values()):  # whether any record has a column is not to be told
        if None in coders:
            raise InvalidInput("which column? Give column=NAME (--column NAME)")
        columns = [str(column) for column in coders]
    else:
        columns = _json_columns(records, files, [*coders, *([] if person is None else [person])])
    return _typed_table(records, [_pointer(column) for column in columns], coders, person)


def _typed_table(
    records: Any, pointers: Sequence[str], coders: Mapping[str | None, Coder], person: str | None
) -> EngineTable:
    """A column for each place in JSON records, every value by its own type."""
    import narwhals as nw

    values, kinds, typed = [], [], []
    for i, at in enumerate(pointers):
        values.append(f"json_type(json, {at}) AS t{i}, json_extract_string(json, {at}) AS s{i}")
        if i == len(coders):
            # Text and whole numbers are keys, as on every engine; what is neither is as good as none.
            typed.append(f"""CASE WHEN t{i} = 'VARCHAR' THEN 'text:' || s{i}
                WHEN t{i} IN ('UBIGINT', 'BIGINT') THEN 'whole:' || s{i} END AS person""")
            kinds.append(f"t{i}, s{i}")
            continue
        kinds.append(f"""s{i}, CASE WHEN t{i} IS NULL OR t{i} = 'NULL' THEN 'null'
            WHEN t{i} IN ('OBJECT', 'ARRAY') THEN 'nested' WHEN t{i} = 'VARCHAR' THEN 'text'
            WHEN t{i} = 'BOOLEAN' THEN 'truth' WHEN NOT regexp_full_match(s{i}, '-?[0-9]+') THEN 'real'
            WHEN TRY_CAST(s{i} AS HUGEINT) IS NULL THEN 'huge' ELSE 'whole' END AS v{i}_kind""")
        typed.append(f"""v{i}_kind, s{i} AS v{i}_text,
            if(v{i}_kind = 'truth', TRY_CAST(s{i} AS BOOLEAN), NULL) AS v{i}_truth,
            if(v{i}_kind = 'whole', TRY_CAST(s{i} AS HUGEINT), NULL) AS v{i}_whole,
            if(v{i}_kind IN ('whole', 'real', 'huge'), TRY_CAST(s{i} AS DOUBLE), NULL) AS v{i}_real""")
    relation = records
    for step in (values, kinds, typed):
        relation = relation.project(", ".join(step))
    reading = {"text": nw.String, "truth": nw.Boolean, "whole": nw.Int128, "real": nw.Float64}
    return _loose_table(relation, tuple(coders.values()), [reading] * len(coders), person)


def _shape(ending: str, start: bytes) -> str:
    if ending != ".json":
        return "newline_delimited"
    return "array" if start[:1] == b"[" else "unstructured"


def _json_columns(records: Any, files: Files, columns: Sequence[str | None]) -> list[str]:
    """The named columns, once every entry is an object and some entry has each of them."""
    present = ", ".join(
        "count(*)" if column is None else f"count(json_type(json, {_pointer(column)}))" for column in columns
    )
    stray = "count(*) FILTER (json_type(json) != 'OBJECT')"
    ((total, strays, *found),) = records.aggregate(f"count(*), {stray}, {present}").fetchall()
    if strays:
        raise FileError(f"{files.label}: {strays} of {total} entries are not JSON objects, hence no records")
    keys = records.project("unnest(json_keys(json)) AS key, generate_subscripts(json_keys(json), 1) AS place")
    chosen = []
    for column, times in zip(columns, found, strict=True):
        if column is None:
            number, first = keys.aggregate("count(DISTINCT key), min(key)").fetchall()[0]
            column = first if number == 1 else None
        if total and (column is None or not times):
            common = keys.aggregate("key, count(*) AS records, min(place) AS place", "key")
            rows = common.filter(f"2 * records >= {total}").order("place, key").limit(21).fetchall()
            raise no_column([key for key, *_ in rows], column)
        chosen.append(column or "")
    return chosen


def _loose_table(
    relation: Any, coders: tuple[Coder, ...], readings: Sequence[Mapping[str, Any]], person: str | None
) -> EngineTable:
    """Columns of which each value has a kind of its own, ``v0_kind``, and a column for each type."""
    import narwhals as nw

    codes, lookups = [], {}
    frame = nw.from_native(relation)
    for i, (coder, reading) in enumerate(zip(coders, readings, strict=True)):
        kind, code = nw.col(f"v{i}_kind"), nw.lit(coder.stray)
        for name, column in coder.kinds.items():
            if column in reading:
                place = f"v{i}_{column}"
                found = Lookup.of(frame, place, coder, reading[column]())
                if found is not None:
                    lookups[place], value = found
                else:
                    value = coder.expression(nw.col(place), reading[column]())
                code = nw.when(kind == name).then(value).otherwise(code)
        codes.append(nw.when(kind == "null").then(nw.lit(coder.absent)).otherwise(code))
    texts = tuple(
        nw.when(nw.col(f"v{i}_kind") == "text").then(nw.col(f"v{i}_text")) if "text" in reading else None
        for i, reading in enumerate(readings)
    )
    return EngineTable(
        frame, coders, tuple(codes), texts, person and "person", lookups=tuple(lookups.values())
    )


def _pointer(column: str) -> str:
    return quoted("/" + column.replace("~", "~0").replace("/", "~1"))


def _csv_header(path: Path, ending: str) -> tuple[str, list[str]]:
    """Delimiter and column names, from the first line alone."""
    opener: Any = gzip.open if ending.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
        outside = re.sub(r'(\A|[,;\t|\n])"[^"]*(?:""[^"]*)*("|\Z)', r"\1", text.read(1 << 20))
        first = re.split(r"[\r\n]", outside, maxsplit=1)[0]
        delimiter = "\t" if "tsv" in ending else next((mark for mark in ",;\t|" if mark in first), ",")
        text.seek(0)
        names = next(csv.reader(text, delimiter=delimiter, strict=True), None)
    if names is None:
        raise DataError("the data are empty: there is no record to count")
    if not names or "\ufffd" in "".join(names):
        raise FileError(f"{str(path)!r}: the first line must name the columns, in UTF-8")
    return delimiter, names
