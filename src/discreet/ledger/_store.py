"""The database under a ledger: addresses, connections, the schema and its versions, and what can go wrong.

SQLite keeps a commit through a loss of power only with ``synchronous=FULL`` (WAL with NORMAL loses commits),
and PostgreSQL only with ``fsync`` and ``synchronous_commit``: every connection sets or requires these.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from discreet.errors import (
    CorruptLedgerError,
    InvalidInputError,
    LedgerError,
    MissingLedgerError,
    how_to_install,
)

SYNCHRONOUS = "FULL"
LOCK_KEY = 0x64697363  # "disc": the advisory lock under which PostgreSQL tables are made

metadata = sa.MetaData()
BOOK = sa.Table(
    "discreet_ledger",
    metadata,
    sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
)
_FILLED = ("dataset", "kind", "relation", "cap", "charged", "spent", "time", "previous")
_OF_CHARGES = ("request_id", "plan_hash", "plan", "guarantee")
ENTRIES = sa.Table(
    "discreet_entries",
    metadata,
    sa.Column("sequence", sa.BigInteger, primary_key=True, autoincrement=False),
    *(sa.Column(name, sa.Text, nullable=False) for name in _FILLED),
    *(sa.Column(name, sa.Text) for name in _OF_CHARGES),
    sa.Column("result", sa.LargeBinary),
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.UniqueConstraint("dataset", "request_id"),
    sa.Index("discreet_entries_of_dataset", "dataset", "sequence"),
)


# ---- schema versions -----------------------------------------------------------------------------------


def _tables(connection: sa.Connection) -> None:
    metadata.create_all(connection)
    connection.execute(BOOK.insert().values(id=1, version=0))


def _seat_belt(connection: sa.Connection) -> None:
    """Make the database refuse to change or remove entries: a guard against accidents, not against its
    owner.
    """
    if connection.dialect.name == "sqlite":
        for event in ("UPDATE", "DELETE"):
            connection.exec_driver_sql(
                f"CREATE TRIGGER discreet_entries_no_{event.lower()} BEFORE {event} ON discreet_entries "
                "BEGIN SELECT RAISE(ABORT, 'entries of the ledger are append-only'); END"
            )
        return
    connection.exec_driver_sql(
        "CREATE FUNCTION discreet_append_only() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN RAISE EXCEPTION 'entries of the ledger are append-only'; END $$"
    )
    connection.exec_driver_sql(
        "CREATE TRIGGER discreet_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON discreet_entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION discreet_append_only()"
    )


MIGRATIONS: tuple[Callable[[sa.Connection], None], ...] = (_tables, _seat_belt)
"""``MIGRATIONS[v]`` takes a database from version v to v + 1; version 0 is a database without a ledger."""
VERSION = len(MIGRATIONS)


# ---- addresses -----------------------------------------------------------------------------------------


def parse(address: str | os.PathLike[str]) -> sa.URL:
    """Return ``sqlite:///file``, a plain path or ``postgresql://…`` as a URL with our driver."""
    if not isinstance(address, str | os.PathLike):
        raise InvalidInputError("must be a path or text such as 'sqlite:///ledger.db'", "url", address)
    text = os.fspath(address)
    if not text:
        raise InvalidInputError(
            "url is empty; give a path such as 'ledger.db', or 'postgresql://host/database'"
        )
    try:
        url = sa.make_url(text) if "://" in text else sa.URL.create("sqlite", database=text)
        backend = url.get_backend_name()
    except (ArgumentError, NoSuchModuleError, ValueError):
        raise InvalidInputError(
            "url is not a database address; write sqlite:///ledger.db or postgresql://host/name"
        ) from None
    if backend == "sqlite":
        if url.database in (None, "", ":memory:"):
            raise InvalidInputError(
                "names no file, and a ledger must be kept in one: write sqlite:///l.db", "url", text
            )
        if url.query:
            raise InvalidInputError(
                "url: a SQLite ledger takes no options after '?'; for a file whose name has one, give "
                "the path alone"
            )
        return sa.URL.create("sqlite", database=url.database)
    if backend in ("postgresql", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise InvalidInputError(
        f"url begins with {backend!r}; a ledger must be in SQLite (sqlite:///…) or PostgreSQL (postgresql://…)"
    )


_SHOWN = ["host", "hostaddr", "port", "dbname", "service", "sslmode", "connect_timeout", "application_name"]


def redacted_url(url: sa.URL) -> str:
    """Write an address without its password; after '?' only values that cannot be one are shown."""
    query = {name: value if name in _SHOWN else "***" for name, value in url.query.items()}
    return url.set(query=query).render_as_string(hide_password=True).replace("+psycopg:", ":", 1)


_MAKE_ONE = "make one with `discreet ledger create NAME --epsilon E`, or Ledger.create"


# ---- the store -----------------------------------------------------------------------------------------


class ConnectionLost(Exception):
    """The connection was lost: the transaction may be repeated; ``args`` has the error to raise otherwise."""


class Store:
    """Short transactions on one database, safe for threads, forked children and restarts of the server."""

    def __init__(self, address: str | os.PathLike[str], timeout: float) -> None:
        self.url = parse(address)
        self.timeout = timeout
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        self.path = Path(str(self.url.database)).absolute()  # fixed here: the program may change its folder
        self.name = redacted_url(self.url)
        if not self.is_sqlite:
            try:
                import psycopg  # noqa: F401
            except ImportError:
                advice = how_to_install("postgres")
                raise LedgerError(f"a ledger on PostgreSQL needs a driver: {advice}") from None
        self._reset()
        _STORES.add(self)

    def _reset(self) -> None:
        self._engine: sa.Engine | None = None
        self._ready = False
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close idle connections; the next call opens new ones."""
        with self._lock:
            if self._engine is not None:
                self._engine.dispose()

    @contextmanager
    def attempt(self, write: bool, create: bool) -> Iterator[sa.Connection]:
        """Open a transaction that commits when the block ends; raise errors of this package or
        ConnectionLost."""
        try:
            self._prepare(create)
            with self._transaction(write) as connection:
                if write:
                    self._take_lock(connection)
                yield connection
        except UnicodeDecodeError:  # the driver quotes a damaged name, and stumbles over it
            raise self._corrupt_error() from None
        except SQLAlchemyError as error:
            trouble = self._trouble(error)
            raise (ConnectionLost(trouble) if _connection_lost(error) else trouble) from None

    @contextmanager
    def _transaction(self, write: bool) -> Iterator[sa.Connection]:
        with self._lock:
            engine = self._engine = self._engine or self._make_engine()
        with engine.connect() as connection:
            yield connection.execution_options(discreet_write=write)
            connection.commit()

    def _take_lock(self, connection: sa.Connection) -> None:
        """Lock the row that all writers lock, and check that the version of the schema has not changed.

        SQLite has locked the database already (BEGIN IMMEDIATE); but the file may have been removed or
        replaced since it was opened, and a charge to a deleted file would be lost.
        """
        if self.is_sqlite and connection.info["file"] != _identity(self.path):
            raise LedgerError(
                f"the ledger {self.name} was removed or replaced while this program had it open; "
                "nothing was charged. End the program and start it again"
            )
        query = sa.select(BOOK.c.version)
        self._check_version(connection.scalar(query if self.is_sqlite else query.with_for_update()))

    # Connections.

    def _make_engine(self) -> sa.Engine:
        if not self.is_sqlite:
            seconds = max(2, int(self.timeout))
            engine = sa.create_engine(
                self.url,
                isolation_level="READ COMMITTED",
                hide_parameters=True,
                connect_args={"connect_timeout": seconds, "application_name": "discreet"},
            )
            sa.event.listen(engine, "connect", self._configure_postgres)
            return engine
        engine = sa.create_engine(
            "sqlite://", creator=lambda: self.open_sqlite(), poolclass=QueuePool, hide_parameters=True
        )

        @sa.event.listens_for(engine, "connect")
        def _remember(connection: Any, record: Any) -> None:
            record.info["file"] = _identity(self.path)

        @sa.event.listens_for(engine, "begin")
        def _begin(connection: sa.Connection) -> None:
            write = connection.get_execution_options().get("discreet_write")
            connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

        return engine

    def _configure_postgres(self, connection: Any, record: Any) -> None:
        milliseconds = int(1000 * self.timeout)
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {milliseconds}")
            # A client that died in a transaction must not keep the lock from everyone else.
            cursor.execute(f"SET idle_in_transaction_session_timeout = {max(10_000, milliseconds)}")
            cursor.execute("SELECT current_setting('fsync'), current_setting('synchronous_commit')")
            fsync, synchronous = cursor.fetchone()
            if fsync != "on":
                raise LedgerError("the PostgreSQL server has fsync=off and may forget charges; set it to on")
            if synchronous in ("off", "local"):
                cursor.execute("SET synchronous_commit = on")
        connection.commit()

    def open_sqlite(self) -> Any:
        """Return a connection to the existing file, in autocommit mode: transactions are begun explicitly."""
        connection = sqlite3.connect(
            f"file:{quote(str(self.path))}?mode=rw",
            uri=True,
            timeout=self.timeout,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            configure_sqlite(connection.execute, self.timeout)
        except BaseException:
            connection.close()
            raise
        return connection

    # The schema.

    def _prepare(self, create: bool) -> None:
        """Check once per process that the database exists and has the current version, or upgrade it."""
        if self._ready:
            return
        with self._lock:
            if self.is_sqlite:
                self._find_file(create)
            with self._transaction(write=False) as connection:
                version = _version(connection)
            self._check_version(version, create)
            if version != VERSION:
                with self._transaction(write=True) as connection:
                    if not self.is_sqlite:
                        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK_KEY)))
                    version = _version(connection)  # another process may have been quicker
                    self._check_version(version, create)
                    for migrate in MIGRATIONS[version:]:
                        migrate(connection)
                    connection.execute(BOOK.update().values(version=VERSION))
            self._ready = True

    def _find_file(self, create: bool) -> None:
        path = self.path
        try:
            if path.is_dir():
                raise LedgerError(f"the ledger {str(path)!r} is a folder; name a file in it")
            if not path.exists():
                if not create:
                    raise MissingLedgerError(f"there is no ledger {str(path)!r}; {_MAKE_ONE}")
                path.touch(mode=0o600)
        except OSError as error:
            raise LedgerError(f"the ledger {str(path)!r} cannot be opened: {error.strerror}") from None

    def _check_version(self, version: int | None, create: bool = False) -> None:
        if not version and not create:
            raise LedgerError(f"{self.name} holds no ledger yet; {_MAKE_ONE}")
        if version and version > VERSION:
            raise LedgerError(
                f"{self.name} has schema version {version} and this program knows {VERSION}: update discreet"
            )

    # Errors.

    def _corrupt_error(self) -> LedgerError:
        said = f"the ledger {self.name} is damaged: text in it is not UTF-8; put it aside and restore a copy"
        return CorruptLedgerError(said)

    def _trouble(self, error: SQLAlchemyError) -> LedgerError:
        """Describe an error without the driver's message, which may quote a statement or its values."""
        original = error.orig if isinstance(error, DBAPIError) else None
        code = getattr(original, "sqlite_errorname", None) or getattr(original, "sqlstate", None) or ""
        if not code and _REFUSED_AT_CONNECT.search(str(original)):
            return LedgerError(f"the ledger {self.name} refuses this user, password or database name")
        if "decode to UTF-8" in str(original):
            return self._corrupt_error()
        for pattern, text in _TROUBLE.items():
            if re.match(pattern, code):
                kind = CorruptLedgerError if "CORRUPT" in pattern else LedgerError
                return kind(f"the ledger {self.name} {text.format(seconds=self.timeout)}")
        what = code or type(original or error).__name__
        return LedgerError(f"the ledger {self.name} cannot be used ({what}); check the database")


_TROUBLE = {
    "SQLITE_(BUSY|LOCKED)|55P03": "is locked by another program, after {seconds:g} s; end that one or retry",
    "SQLITE_READONLY|25006|42501": "cannot be written: it is read-only for this user; change its permissions",
    "SQLITE_(FULL|IOERR_WRITE)|53100": "cannot grow: the disk is full; free some space and try again",
    "SQLITE_CANTOPEN": "cannot be opened: it was removed, or its folder is not writable, which reading needs",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error",
    "SQLITE_(CORRUPT|NOTADB)|XX00[12]": "is damaged or not a database; put it aside and restore a copy",
    "08|57P|^$": "cannot be reached: no server answers; check that it runs and that the address is right",
}
"""Descriptions of error codes of SQLite and PostgreSQL; the first match is used."""

# While a connection is being made PostgreSQL's driver has no code, only words. In another language they are
# not matched; then the attempts go on until the timeout and the error says "cannot be reached".
_REFUSED_AT_CONNECT = re.compile('database ".*" does not exist|authentication failed|no pg_hba|role ".*"')


def configure_sqlite(execute: Callable[[str], Any], timeout: float) -> None:
    """Turn on WAL and full synchronisation, and check that they are on."""
    deadline = time.monotonic() + timeout
    execute(f"PRAGMA busy_timeout = {int(1000 * timeout)}")
    while next(iter(execute("PRAGMA journal_mode")))[0] != "wal":
        try:  # the first switch to WAL does not wait for locks by itself
            next(iter(execute("PRAGMA journal_mode = WAL")))
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
    execute("PRAGMA fullfsync = ON")  # what FULL means on macOS; elsewhere without effect


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _version(connection: sa.Connection) -> int:
    if not sa.inspect(connection).has_table(BOOK.name):
        return 0
    return connection.scalar(sa.select(BOOK.c.version)) or 0


def _connection_lost(error: SQLAlchemyError) -> bool:
    if not isinstance(error, DBAPIError) or hasattr(error.orig, "sqlite_errorname"):
        return False
    code = getattr(error.orig, "sqlstate", None) or ""
    no_server = not code and not _REFUSED_AT_CONNECT.search(str(error.orig))
    return error.connection_invalidated or no_server or code.startswith(("08", "57P"))


# ---- fork ----------------------------------------------------------------------------------------------

# A connection must not be used, nor even closed, by a child that inherited it. Idle ones are closed before
# the fork; one that another thread of the parent is using stays referenced in the child, never touched there.
_STORES: weakref.WeakSet[Store] = weakref.WeakSet()
_INHERITED: list[sa.Engine] = []


def _before_fork() -> None:
    for store in list(_STORES):
        store.close()


def _in_child() -> None:
    for store in list(_STORES):
        if store._engine is not None:
            _INHERITED.append(store._engine)
        store._reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_in_child)
