"""Opening of data files with an embedded DuckDB: one file, several, a folder, or those that match a pattern.

The code of a record must depend on no other record. So every field of a CSV file is read as text, which is
converted to a number on its own, and every value of a JSON or Excel file is read by its own type. If column
names were forgotten, the first line of a CSV file or sheet is a record. So a message quotes at most one of
its fields, and only if it resembles the requested name.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import os
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path
from typing import Any

from discreet._data.engines import (
    EngineTable,
    as_frame,
    as_table,
    choose,
    identifier,
    nearest,
    no_column,
    of_columns,
    quote_sql,
    typed_table,
)
from discreet._data.levels import Levels
from discreet._data.values import Coder, is_database, is_missing, value_text
from discreet._data.withheld import MISSING_PACKAGE, OUT_OF_MEMORY, EngineError, connect, failed, ours
from discreet._declarations import as_plain
from discreet.errors import (
    DataError,
    DiscreetError,
    EngineFailure,
    FileError,
    InvalidInputError,
    TooLargeError,
)

FORMATS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".json", ".jsonl", ".ndjson", ".xlsx")
LONGEST_LINE = 1 << 26
"""The largest length of a line of a CSV or JSON file, in bytes."""
FEW_MB = 128
"""Memory limit in MB for grouping a Parquet column by its values; beyond it, records are coded one by one."""
_MALFORMED = (
    "number of fields, quotes, or not UTF-8; a Latin-1 file is converted by: "
    "iconv -f latin1 -t utf-8 IN > OUT"
)
_PARQUET = {"binary_as_string": False, "hive_partitioning": False}


@dataclass(frozen=True)
class Glob:
    """All files that match a pattern, as in ``Glob("visits/2024-*.parquet")``; ``**`` matches any folders.

    A plain path is never taken as a pattern: ``"a[1].csv"`` means the file of that name.
    """

    pattern: str


def is_files(data: Any) -> bool:
    """Return whether ``data`` names files. A list must contain Path objects: text in a list is records."""
    if isinstance(data, list | tuple):
        return bool(data) and all(isinstance(item, os.PathLike) for item in data)
    return isinstance(data, str | os.PathLike | Glob) and not is_database(data)


@dataclass(frozen=True)
class Files:
    label: str
    paths: tuple[Path, ...]
    ending: str
    sheet: str | None = None
    """The name of the Excel sheet, if given, as in ``survey.xlsx#Wave 2``."""
    strict: bool = False
    """Whether an invalid record is an error. CSV files are then read in parallel, which fails for some
    well-formed files, and an entry that is not JSON is an error."""

    @classmethod
    def of(cls, data: Any) -> Files:
        sheet = None
        if isinstance(data, Glob):
            label = repr(str(data.pattern))
            matches = [Path(name) for name in sorted(glob(str(data.pattern), recursive=True))]
            paths = [path for path in matches if not path.is_dir()]
            if not paths:
                raise FileError(f"no file matches {label}")
        elif isinstance(data, list | tuple):
            label, paths = repr([str(path) for path in data[:3]]), list(map(Path, data))
        else:
            label, path = repr(str(data)), Path(data)
            named = re.fullmatch(r"(.+?\.xlsx)#(.+)", str(path), re.IGNORECASE | re.DOTALL)
            if named is not None and not path.exists():
                path, sheet = Path(named[1]), named[2]
            paths = [path]
            if path.is_dir():
                paths = sorted(part for part in path.rglob("*") if _is_part(part, path))
                if not paths:
                    raise FileError(f"{label} is a directory without data files ({' '.join(FORMATS)})")
        if len(paths) > 1:
            label += f" ({len(paths)} files)"
            if len({path.resolve() for path in paths}) < len(paths):
                raise FileError(
                    f"{label}: one file is listed twice under different names; list each file once"
                )
        endings = {_ending(path) for path in paths}
        if len(endings) > 1:
            raise FileError(f"{label}: the files have several formats; choose one, such as Glob('*.parquet')")
        return cls(label, tuple(paths), endings.pop(), sheet)

    @contextmanager
    def named_in_errors(self) -> Iterator[None]:
        """Add the names of the files to errors in a ``with`` block, without quoting their content."""
        import duckdb

        try:
            yield
        except (EngineError, EngineFailure, duckdb.Error) as error:
            raise self._explain(ours(error)) from None
        except (csv.Error, EOFError, zlib.error, gzip.BadGzipFile):
            raise self._malformed_error() from None
        except OSError as error:
            raise FileError(f"{self.label} cannot be read: {error.strerror}") from None

    def _explain(self, failure: DiscreetError) -> DiscreetError:
        """Return an error like ``failure`` that names these files."""
        if isinstance(failure, EngineFailure):
            # Text that is not UTF-8 makes some versions of DuckDB fail by an error of their own.
            line = next(filter(None, map(self._line_not_utf8, self.paths)), None)
            if line is None:
                return failed(failure.engine, failure.kind, self.label, twice=failure.twice)
            return self._malformed_error(line)
        assert isinstance(failure, EngineError)
        if failure.kind == OUT_OF_MEMORY:
            return TooLargeError(
                f"{self.label}: the count does not fit into memory; give a DuckDB relation whose "
                "connection may use the disk, or a Spark DataFrame"
            )
        return failure if failure.kind in MISSING_PACKAGE else self._malformed_error(failure.line)

    def _malformed_error(self, line: int | None = None) -> FileError:
        several = ": one of them" if len(self.paths) > 1 else ""
        why = "" if line is None else f": see line {line} ({_MALFORMED})"
        return FileError(f"{self.label}{several} is not a well-formed {self.ending} file{why}")

    def _line_not_utf8(self, path: Path) -> int | None:
        """Return the number of the first line that is not valid UTF-8; None if there is none."""
        if self.ending in (".parquet", ".xlsx"):
            return None
        decoder, line = codecs.getincrementaldecoder("utf-8")(), 1
        opener: Any = gzip.open if self.ending.endswith(".gz") else open
        with opener(path, "rb") as file:
            while piece := file.read(1 << 20):
                try:
                    decoder.decode(piece)
                except UnicodeDecodeError as error:
                    return line + error.object[: error.start].count(b"\n")
                line += piece.count(b"\n")
        return None

    def starts(self) -> dict[Path, bytes]:
        """The first bytes of each file, after a check that they fit its extension."""
        return {path: _start_of(path, self.ending, self.strict) for path in self.paths}

    @property
    def is_text(self) -> bool:
        """Whether the fields of the files are text."""
        return "csv" in self.ending or "tsv" in self.ending

    def sql_list(self) -> str:
        """Return the paths as an SQL list."""
        return "[" + ", ".join(quote_sql(_literal(path)) for path in self.paths) + "]"

    def parquet(self, connection: Any) -> Any:
        """Return Parquet files as a relation; bytes are read as text, and are missing if not valid UTF-8."""
        relation = connection.read_parquet([_literal(path) for path in self.paths], **_PARQUET)
        if not any(str(kind) == "BLOB" for kind in relation.types):
            return relation
        columns = zip(map(identifier, relation.columns), map(str, relation.types), strict=True)
        texts = (f"TRY(decode({name})) AS {name}" if kind == "BLOB" else name for name, kind in columns)
        return relation.project(", ".join(texts))

    def fields(self, connection: Any) -> tuple[list[str], Any]:
        """Return the column names of CSV files, and a relation with the columns as c0, c1, ….

        All fields are text: no type is inferred, so that the value of a field depends on no other record.
        """
        whole = {"max_line_size": LONGEST_LINE, "buffer_size": 2 * LONGEST_LINE, "parallel": False}
        delimiter, names = self.common_header([_csv_header(path, self.ending) for path in self.paths])
        return names, connection.read_csv(
            [_literal(path) for path in self.paths],
            columns={f"c{i}": "VARCHAR" for i in range(len(names))},
            auto_detect=False,
            header=True,
            delimiter=delimiter,
            compression="gzip" if self.ending.endswith(".gz") else "none",
            **({} if self.strict else whole),
        )

    def sheets(self, connection: Any) -> tuple[list[str], Any]:
        """Return the column names of workbooks, and their rows as JSON arrays."""
        from discreet._data.excel import sheet_of

        sheets = [sheet_of(path, self.sheet) for path in self.paths]
        names: list[str] = self.common_header([names for names, _ in sheets])
        if not any(names):
            raise FileError(f"{self.label}: the first row must name the columns")
        rows = [row for _, sheet_rows in sheets for row in sheet_rows]
        return names, connection.sql("SELECT unnest($1::JSON[]) AS json", params=[rows])

    def common_header(self, headers: Sequence[Any]) -> Any:
        """Return the header that all files share."""
        for path, header in zip(self.paths, headers, strict=True):
            if header != headers[0]:
                raise FileError(f"{self.label}: the first line of {path.name!r} differs from another file's")
        return headers[0]


def _is_part(path: Path, folder: Path) -> bool:
    """Return whether a file in a folder is data: by convention, names that start with a dot or _ are not."""
    is_visible = not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return is_visible and path.name.lower().endswith(FORMATS) and path.is_file()


def _ending(path: Path) -> str:
    for ending in sorted(FORMATS, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    hint = ""
    if str(path).lower().endswith((".xls", ".xlsm", ".xlsb", ".ods")):
        hint = "; save it as .xlsx, or the sheet as CSV"
    raise FileError(f"{str(path)!r}: the name must end in one of {' '.join(FORMATS)}{hint}")


def _literal(path: Path) -> str:
    # DuckDB reads * ? [ in a path as a pattern and would open other files than the one named.
    return re.sub(r"([*?\[])", r"[\1]", str(path))


def _start_of(path: Path, ending: str, strict: bool) -> bytes:
    with path.open("rb") as file:
        start = file.read(4096)
    if (start[:4] == b"PAR1") != (ending == ".parquet"):
        if not path.stat().st_size and ending == ".parquet":
            raise FileError(f"{str(path)!r} is empty, so it is not a Parquet file")
        raise FileError(f"{str(path)!r} is {'' if start[:4] == b'PAR1' else 'not '}a Parquet file")
    if ending == ".xlsx" and not start.startswith(b"PK\3\4"):
        locked = start.startswith(b"\xd0\xcf\x11\xe0")
        hint = ": it is an old .xls file or has a password; save it as .xlsx without one" if locked else ""
        raise FileError(f"{str(path)!r} is not an .xlsx file{hint}")
    packed = ending.endswith(".gz") or ending in (".parquet", ".xlsx")
    zeros = strict and b"\0" in start  # which may be one in a record
    if not packed and (zeros or start.startswith((b"\x1f\x8b", b"PK\3\4"))):
        raise FileError(f"{str(path)!r} is a binary file, not {ending} text in UTF-8")
    if ending in (".json", ".jsonl", ".ndjson"):
        start = start.lstrip()
        if strict and start and start[:1] not in (b"[", b"{"):
            raise FileError(f"{str(path)!r} is not JSON: neither an array of records nor one record a line")
    return start


def _csv_header(path: Path, ending: str) -> tuple[str, list[str]]:
    """Return the delimiter and the column names, from the first line alone."""
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


def sql(query: str, **tables: Any) -> Any:
    """Return the rows of a query as a DuckDB relation, which can be counted like any other table.

    ``tables`` gives the names that the query may use: pandas, Polars and Arrow tables, and Parquet, CSV, TSV
    or Excel files (a path, a folder, a list of paths, or a :class:`Glob`). Fields of CSV and Excel files, and
    pandas columns of objects, are text. The query runs when the relation is counted. If DuckDB infers types
    from records, as ``read_csv`` does in a query, one record can change how others are counted: declare the
    types in the query.

    >>> relation = sql("SELECT 1 + i % 2 AS v FROM range(10) t(i) WHERE i < 7")
    >>> sorted(relation.fetchall())
    [(1,), (1,), (1,), (1,), (2,), (2,), (2,)]
    """
    import duckdb

    connection = connect()
    loose = False
    for name, table in tables.items():
        if is_files(table):
            files = Files.of(table)
            loose |= files.ending != ".parquet"
            try:
                _plain_relation(connection, files).create_view(name)
            except OSError as error:
                raise FileError(f"{files.label} cannot be read: {error.strerror}") from None
        else:
            _register(connection, name, table)
    try:
        kinds = [statement.type.name for statement in connection.extract_statements(query)]
        if kinds != ["SELECT"]:
            raise InvalidInputError("a query must be one SELECT: its rows are the records")
        return connection.sql(query)
    except (duckdb.ParserException, duckdb.BinderException, duckdb.CatalogException) as error:
        # About the query and the schema, before any record is read; but the first line of a CSV file, whose
        # fields an engine proposes as columns, may be a record.
        why = f" ({type(error).__name__}; see the names of columns and tables)" if loose else f": {error}"
        raise InvalidInputError(f"the query cannot be run{why}") from None
    except duckdb.Error as error:
        if isinstance(failure := ours(error), EngineFailure):
            raise failure from None
        raise InvalidInputError(
            f"the query cannot be run ({type(error).__name__}; details withheld)"
        ) from None


def _register(connection: Any, name: str, table: Any) -> None:
    import narwhals as nw

    native = table.collect() if type(table).__name__ == "LazyFrame" else table
    try:
        eager = nw.from_native(native, eager_only=True)
    except TypeError:
        raise InvalidInputError(
            f"table {name!r} of type {type(table).__name__} cannot be queried here; give a pandas, Polars or "
            "Arrow table or a file, or count a relation of its own engine"
        ) from None
    native = eager.to_native()
    if eager.implementation.is_pandas_like():
        # DuckDB would infer a type from all objects of a column: each is the text that it prints as.
        objects = [name for name in native.columns if str(native[name].dtype) == "object"]
        texts = {name: list(map(_as_text, native[name].tolist())) for name in objects}
        native = native.assign(**{name: type(native[name])(column, index=native.index, dtype="string")
                                  for name, column in texts.items()})  # fmt: skip
    connection.register(name, native)


def _as_text(value: Any) -> str | None:
    value = as_plain(value)
    return None if is_missing(value) else value_text(value)


def _plain_relation(connection: Any, files: Files) -> Any:
    """Return files as a relation: Parquet as it is, CSV and Excel with all fields as text."""
    files.starts()
    if files.ending == ".parquet":
        return files.parquet(connection)
    if files.ending == ".xlsx":
        columns, rows = files.sheets(connection)
        field = "json_extract_string(json, '/{}')"
    elif files.is_text:
        columns, rows = files.fields(connection)
        field = "c{}"
    else:
        raise InvalidInputError(
            f"{files.label}: a query takes Parquet, CSV, TSV and Excel files; JSON is counted directly"
        )
    names = [name for name in columns if name]
    if len({name.lower() for name in names}) < len(names):  # SQL would take one of them for the other
        raise FileError(
            f"{files.label}: two column names differ only in upper and lower case; rename one of them"
        )
    projection = (f"{field.format(i)} AS {identifier(name)}" for i, name in enumerate(columns) if name)
    return rows.project(", ".join(projection))


@contextmanager
def open_columns(
    data: Any, coders: Mapping[str | None, Coder], person: str | None, *, columns: bool = False
) -> Iterator[EngineTable | None]:
    """Open the declared columns of a table or of files; yield None for Python values.

    With ``columns`` a mapping contains columns, rather than counts of values.
    """
    if is_files(data):
        with opened(data, coders, person) as table:
            yield table
    else:
        by_name = columns and isinstance(data, Mapping)
        frame = of_columns(data) if by_name else as_frame(data, next(iter(coders)))
        yield None if frame is None else as_table(frame, coders, person)


@contextmanager
def opened(data: Any, coders: Mapping[str | None, Coder], person: str | None) -> Iterator[EngineTable]:
    """Open the declared columns of files; errors name the files but do not quote their content."""
    strict = not all(coder.total for coder in coders.values())
    files = replace(Files.of(data), strict=strict)
    if files.ending == ".json" and not strict:
        raise InvalidInputError(
            f"{files.label}: strict=False cannot be used with .json files, which one record can make "
            "unreadable: write them with one record a line, as .jsonl"
        )
    with files.named_in_errors(), connect() as connection:
        starts = files.starts()
        if len(starts) > 1:  # an empty part of a dataset is no mistake; an empty file may be
            full = tuple(path for path, start in starts.items() if start)
            files = replace(files, paths=full or files.paths[:1])
        if files.ending == ".parquet":
            yield _parquet_table(connection, files, coders, person)
        elif files.ending == ".xlsx":
            names, rows = files.sheets(connection)
            places = _positions(files, names, coders, person)
            yield _json_table(rows, [quote_sql(f"/{place}") for place in places], coders)
        elif files.is_text:
            yield _csv_table(connection, files, coders, person)
        else:
            records = _json_records(connection, files, starts)
            columns = _json_columns(records, files, coders, person)
            yield _json_table(records, list(map(_pointer, columns)), coders)


def _parquet_table(
    connection: Any, files: Files, coders: Mapping[str | None, Coder], person: str | None
) -> EngineTable:
    import narwhals as nw

    connection.execute("SET parquet_metadata_cache=true")  # each step of a query reads the footer again
    if len(files.paths) > 1:
        files = _same_schema(connection, files, [*coders, person])
    few = person is None and all(isinstance(coder, Levels) for coder in coders.values())
    table = as_table(nw.from_native(files.parquet(connection)), coders, person, groups=few)

    def sparing(on: bool) -> None:
        connection.execute(f"SET memory_limit='{FEW_MB}MB'" if on else "RESET memory_limit")

    return replace(table, sparing=sparing if few else None)


def _same_schema(connection: Any, files: Files, columns: Sequence[str | None]) -> Files:
    """Return the Parquet files that have rows, after checking that the columns have the same types in all.

    Files without rows are left out because their columns often have no type. Without the check, DuckDB would
    convert each column to its type in the first file.
    """
    metadata = connection.sql(f"SELECT file_name, num_rows FROM parquet_file_metadata({files.sql_list()})")
    empty = {name for name, rows in metadata.fetchall() if rows == 0}
    full = tuple(path for path in files.paths if str(path) not in empty)
    schemas = []
    for path in full:
        relation = connection.read_parquet(_literal(path), **_PARQUET)
        schemas.append(dict(zip(relation.columns, map(str, relation.types), strict=True)))
        for column in columns if len(schemas[0]) > 1 else [*schemas[0]]:
            if column is not None and schemas[-1].get(column) != schemas[0].get(column):
                raise FileError(
                    f"{files.label}: column={column!r} differs in type between files; see {path.name!r}"
                )
    return replace(files, paths=full or files.paths[:1])


def _csv_table(
    connection: Any, files: Files, coders: Mapping[str | None, Coder], person: str | None
) -> EngineTable:
    import narwhals as nw

    names, relation = files.fields(connection)
    fields = [f"c{place}" for place in _positions(files, names, coders, person)]
    selected = [f"{fields[-1]} AS person"] if person is not None else []
    for i, (coder, text) in enumerate(zip(coders.values(), fields, strict=False)):
        if isinstance(coder, Levels):
            selected.append(f"{text} AS v{i}")
            continue
        # The number that a text is, alone and as anywhere else in the world; null where it is none.
        numeral = "[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)(e[+-]?[0-9]+)?|[+-]?inf(inity)?|nan"
        bare = f"trim({text}, ' \t')"
        selected.append(f"""CASE WHEN regexp_full_match({bare}, '{numeral}', 'i')
            THEN TRY_CAST({bare} AS DOUBLE) END AS v{i}_real, CASE WHEN {text} IS NULL THEN 'null'
            WHEN v{i}_real IS NULL THEN 'text' ELSE 'real' END AS v{i}_kind""")
    frame = nw.from_native(relation.project(", ".join(selected)))
    return typed_table(frame, tuple(coders.values()))


def _positions(
    files: Files, names: Sequence[str], coders: Mapping[str | None, Coder], person: str | None
) -> list[int]:
    """Return the positions of the declared columns among the names in the first line."""
    if any(column not in names and coder.is_record(names) for column, coder in coders.items()):
        raise FileError(f"{files.label}: the first line looks like a record, not like column names")
    if None in coders:
        raise InvalidInputError(
            "column is missing: the first line of the file must name the columns; give one of them"
        )
    columns = [*coders, *([] if person is None else [person])]
    return [names.index(choose(names, column, no_field)) for column in columns]


def no_field(names: Sequence[str], column: str) -> InvalidInputError:
    return InvalidInputError(
        f"does not exist; {nearest(names, column)}The first line, which must name the "
        f"columns, has {len(names)}; they are withheld because that line may be a record",
        "column",
        column,
    )


def _json_records(connection: Any, files: Files, starts: Mapping[Path, bytes]) -> Any:
    shapes: dict[str, list[Path]] = {}
    for path in files.paths:
        loose = "array" if starts[path][:1] == b"[" else "unstructured"
        shapes.setdefault(loose if files.ending == ".json" else "newline_delimited", []).append(path)
    read = f"maximum_object_size={LONGEST_LINE}{'' if files.strict else ', ignore_errors=true'}"
    parts = [
        f"SELECT json FROM read_json_objects({replace(files, paths=tuple(paths)).sql_list()}, "
        f"format='{shape}', {read})"
        for shape, paths in shapes.items()
    ]
    return connection.sql(" UNION ALL ".join(parts))


def _json_columns(
    records: Any, files: Files, coders: Mapping[str | None, Coder], person: str | None
) -> list[str]:
    """Return the names of the columns, after checking that every entry is an object and each name occurs."""
    wanted = [*coders, *([] if person is None else [person])]
    if all(coder.total for coder in coders.values()):  # whether any record has a column is not to be told
        if None in coders:
            raise InvalidInputError("column is missing: give column=NAME")
        return list(map(str, wanted))
    present = ", ".join(
        "count(*)" if column is None else f"count(json_type(json, {_pointer(column)}))" for column in wanted
    )
    not_objects = "count(*) FILTER (json_type(json) != 'OBJECT')"
    ((total, wrong, *occurrences),) = records.aggregate(f"count(*), {not_objects}, {present}").fetchall()
    if wrong:
        raise FileError(
            f"{files.label}: {wrong} of {total} entries are not JSON objects, so they are not records"
        )
    keys = records.project("unnest(json_keys(json)) AS key, generate_subscripts(json_keys(json), 1) AS place")
    chosen = []
    for column, times in zip(wanted, occurrences, strict=True):
        if column is None:
            number, first = keys.aggregate("count(DISTINCT key), min(key)").fetchall()[0]
            column = first if number == 1 else None
        if total and (column is None or not times):
            common = keys.aggregate("key, count(*) AS records, min(place) AS place", "key")
            rows = common.filter(f"2 * records >= {total}").order("place, key").limit(21).fetchall()
            raise no_column([key for key, *_ in rows], column)
        chosen.append(column or "")
    return chosen


def _pointer(column: str) -> str:
    return quote_sql("/" + column.replace("~", "~0").replace("/", "~1"))


def _json_table(records: Any, pointers: Sequence[str], coders: Mapping[str | None, Coder]) -> EngineTable:
    """Return a table with a column for each named field of JSON records, and perhaps the person's key.

    Each value is read by its own type: a type inferred from all records would depend on other records.
    """
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
    for step in (values, kinds, typed):
        records = records.project(", ".join(step))
    return typed_table(nw.from_native(records), tuple(coders.values()))
