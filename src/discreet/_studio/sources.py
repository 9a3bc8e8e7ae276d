"""The data that a release may open: uploads, and files in the folder of ``--data``.

A client names a source by an identifier that the server made. No path, and no part of one, comes from a
client: the name of an uploaded file is only shown, and its ending decides how it is read.
"""

from __future__ import annotations

import gzip
import hashlib
import hmac
import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, islice
from pathlib import Path
from typing import Any, BinaryIO

from discreet._data import FORMATS, sql
from discreet._data.guard import redact_errors
from discreet._data.withheld import ours
from discreet.errors import DiscreetError, EngineFailure, FileError, InvalidInputError

DATABASES = (".duckdb", ".ddb")
"""Endings of DuckDB files, whose tables can be chosen."""
MAX_FILES = 500
MAX_VISITED = 20_000
"""The most files and folders that are listed, so that a listing does not take minutes."""
MAX_UPLOADS = 20
MAX_NAME, MAX_LISTED = 200, 200
"""The most characters of a column's name, and the most columns, in a template of a schema."""


@dataclass(frozen=True)
class DataSource:
    """A file, or a table of a database file; ``name`` is shown to people."""

    identifier: str
    name: str
    path: Path
    table: str | None = None
    uploaded: bool = False


class Sources:
    """The data that may be chosen while a studio runs."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = None if folder is None else folder.resolve()
        self._key = secrets.token_bytes(32)
        self._uploads: dict[str, DataSource] = {}
        self._numbers = count(1)
        self._private: _Private | None = None

    def keep(self, file: BinaryIO, name: str) -> DataSource:
        """Copy an upload to a file that only this user can read, and return it as a source."""
        ending = next((e for e in sorted(FORMATS, key=len, reverse=True) if name.lower().endswith(e)), None)
        if ending is None:
            raise FileError(f"the file extension must be one of {' '.join(FORMATS)}")
        self._private = self._private or _Private()
        identifier = secrets.token_urlsafe(16)
        path = Path(self._private.path, secrets.token_hex(16) + ending)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
            shutil.copyfileobj(file, copy, 1 << 20)
        while len(self._uploads) >= MAX_UPLOADS:
            self._uploads.pop(next(iter(self._uploads))).path.unlink(missing_ok=True)
        shown = "".join(c for c in name if c.isprintable())[-80:]
        shown += f" (upload {next(self._numbers)})"  # two files of one name may hold different records
        self._uploads[identifier] = DataSource(identifier, shown, path, uploaded=True)
        return self._uploads[identifier]

    def close(self) -> None:
        """Remove all uploads."""
        if self._private is not None:
            self._private.remove()
        self._uploads.clear()
        self._private = None

    def list_all(self) -> list[DataSource]:
        """Return the uploads, then the files and tables of the folder."""
        return [*self._uploads.values(), *islice(self._in_folder(), MAX_FILES)]

    def find(self, identifier: str) -> DataSource:
        for source in self.list_all():
            if hmac.compare_digest(source.identifier.encode(), identifier.encode()):
                return source
        raise FileError("this file was not found: uploads are removed when the studio stops; choose it again")

    def _in_folder(self) -> Iterator[DataSource]:
        if self.folder is None:
            return
        for path in sorted(islice(self.folder.rglob("*"), MAX_VISITED)):
            relative = path.relative_to(self.folder)
            if any(part.startswith((".", "_")) for part in relative.parts) or not _is_inside(
                path, self.folder
            ):
                continue
            tables: list[str | None] = [None] if path.name.lower().endswith(FORMATS) else []
            if path.name.lower().endswith(DATABASES):
                state = path.stat()
                tables = [*_tables(path, state.st_mtime_ns, state.st_size)]
            for table in tables:
                shown = str(relative) if table is None else f"{relative}: {table}"
                name = hmac.new(self._key, shown.encode("utf-8", "surrogateescape"), hashlib.sha256)
                yield DataSource(name.hexdigest()[:32], shown, path, table)


def _is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path is a regular file in the folder; a link that leads out of it is not."""
    try:
        return path.is_file() and path.resolve().is_relative_to(folder)
    except OSError:
        return False


PREFIX = "discreet-studio-"


class _Private:
    """A folder that only this user can enter. Its lock is released when the process ends, so that the next
    studio can remove the files of one that was killed.
    """

    def __init__(self) -> None:
        for left in Path(tempfile.gettempdir()).glob(PREFIX + "*"):
            if _is_abandoned(left):
                shutil.rmtree(left, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        draft = self.path / "draft"
        self._lock = draft.open("xb")
        _try_lock(self._lock)
        draft.rename(self.path / "lock")

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _is_abandoned(folder: Path) -> bool:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return False
        with (folder / "lock").open("rb") as file:
            return _try_lock(file)
    except (AttributeError, OSError):  # gone meanwhile, not finished yet, or a system without owners
        return False


def _try_lock(file: BinaryIO) -> bool:
    """Lock a file unless another process has locked it; return whether this process holds the lock."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True


@lru_cache(maxsize=200)
@redact_errors
def _tables(path: Path, changed: int, size: int) -> list[str]:
    """Return the tables of a DuckDB file; none if it is not one, or another program uses it."""
    try:
        with _duckdb(path) as connection:
            rows = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
            return [row[0] for row in rows]
    except FileError:
        return []


@contextmanager
def _duckdb(path: Path) -> Iterator[Any]:
    import duckdb

    settings: dict[str, Any] = {"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
    try:
        connection = duckdb.connect(str(path), read_only=True, config=settings)
    except duckdb.Error as error:
        if isinstance(failure := ours(error), EngineFailure):
            raise failure from None
        raise FileError(
            f"{path.name!r} cannot be opened: it is not a DuckDB file, or it is in use elsewhere"
        ) from None
    with closing(connection):
        yield connection


MAX_HEADER, MAX_COLUMNS = 1_000_000, 5_000
"""The most bytes and fields in the first line of a CSV file; more would take minutes to read."""


def _check_header(source: DataSource) -> None:
    name = source.path.name.lower()
    if ".csv" not in name and ".tsv" not in name:
        return
    try:
        with (gzip.open if name.endswith(".gz") else open)(source.path, "rb") as file:
            first = file.readline(MAX_HEADER)
    except (OSError, EOFError, zlib.error):
        return  # said by whoever reads all of it
    if len(first) == MAX_HEADER or max(map(first.count, (b",", b";", b"\t", b"|"))) >= MAX_COLUMNS:
        raise FileError(
            f"{source.name!r}: its first line has more than {MAX_HEADER:,} bytes or {MAX_COLUMNS:,} names; "
            "choose a file with fewer columns"
        )


@contextmanager
def open_source(source: DataSource) -> Iterator[Any]:
    """Yield the data of a source as a question takes them; messages show its name, never its path."""
    try:
        if source.table is None:
            _check_header(source)
            yield source.path
        else:
            with _duckdb(source.path) as connection:
                name = source.table.replace('"', '""')
                yield connection.sql(f'SELECT * FROM "{name}"')
    except DiscreetError as error:
        shown = (str(part).replace(repr(str(source.path)), repr(source.name)) for part in error.args)
        error.args = tuple(part.replace(str(source.path), source.name) for part in shown)
        raise


def columns(source: DataSource) -> list[tuple[str, str | None]]:
    """Return the names of the columns, and their types where the format stores them; never a value.

    The names of a CSV file are its first line, and its types are not known.
    """
    import duckdb

    name = source.path.name.lower()
    if name.endswith((".json", ".jsonl", ".ndjson")):
        raise InvalidInputError("a JSON file has no list of columns; write the names of its fields")
    typed = source.table is not None or name.endswith(".parquet")
    try:
        with open_source(source) as data:
            relation = data if source.table is not None else sql("SELECT * FROM data", data=data)
            types = [str(kind).lower().partition("(")[0] if typed else None for kind in relation.types]
            named = zip(map(str, relation.columns), types, strict=True)
            return [one for one in named if 0 < len(one[0]) <= MAX_NAME][:MAX_LISTED]
    except (OSError, EOFError, ValueError, duckdb.Error) as error:
        if isinstance(failure := ours(error), EngineFailure):
            raise failure from None
        raise FileError(f"{source.name!r}: the names of its columns cannot be read") from None
