"""A disk that forgets what was not synced, under the real ledger.

SQLite (as apsw brings it) runs on a file system in Python that keeps what was synced apart from what was only
written. After a loss of power each unsynced 512-byte sector may or may not have reached the disk.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import apsw

from discreet.ledger._store import Store, configure_sqlite

SECTOR = 512


class File:
    """One file: its content, and what of it survives."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[tuple[int, bytes] | int] = []

    def xRead(self, amount: int, offset: int) -> bytes:
        return bytes(self.content[offset : offset + amount])

    def xWrite(self, data: bytes, offset: int) -> None:
        self._write(self.content, offset, data)
        self.pending.append((offset, bytes(data)))
        self.disk.moved()

    def xTruncate(self, size: int) -> None:
        del self.content[size:]
        self.pending.append(size)

    def xSync(self, flags: int) -> None:
        self.disk.syncs += 1
        self.durable = bytearray(self.content)
        self.pending.clear()
        self.disk.moved()

    def xFileSize(self) -> int:
        return len(self.content)

    def xLock(self, level: int) -> None: ...

    def xUnlock(self, level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, operation: int, pointer: int) -> bool:
        return False

    def xSectorSize(self) -> int:
        return SECTOR

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE  # as SQLite assumes on the usual file systems

    def xClose(self) -> None: ...

    @staticmethod
    def _write(target: bytearray, offset: int, data: bytes) -> None:
        if len(target) < offset:
            target.extend(bytes(offset - len(target)))
        target[offset : offset + len(data)] = data

    def after_power_loss(self, survives: Callable[[], bool]) -> bytes:
        content = bytearray(self.durable)
        for change in self.pending:
            if isinstance(change, int):
                if survives():
                    del content[change:]
                continue
            offset, data = change
            for start in range(0, len(data), SECTOR):
                if survives():
                    self._write(content, offset + start, data[start : start + SECTOR])
        return bytes(content)


class Disk(apsw.VFS):  # type: ignore[misc]
    """The file system; ``moved`` is called after every write and every sync."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, File] = {}
        self.syncs = 0
        self.moved: Callable[[], None] = lambda: None
        super().__init__(name, "")

    def xOpen(self, name: Any, flags: list[int]) -> File:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        flags[1] = flags[0]
        return self.files.setdefault(path, File(self))

    def xDelete(self, name: str, sync: bool) -> None:
        self.files.pop(name, None)

    def xAccess(self, name: str, flags: int) -> bool:
        return name in self.files

    def xFullPathname(self, name: str) -> str:
        return name

    def image(self, survives: Callable[[], bool]) -> dict[str, bytes]:
        """All files as they are found when the power is back."""
        return {Path(name).name: file.after_power_loss(survives) for name, file in self.files.items()}


def nothing() -> bool:
    return False


def some(seed: int) -> Callable[[], bool]:
    rng = random.Random(seed)
    return lambda: rng.random() < 0.5


class Cursor:
    """The little of a database driver that SQLAlchemy needs, over apsw."""

    arraysize = 1
    rowcount = -1
    lastrowid = None
    description: Any = None

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._rows: list[Any] = []

    def execute(self, statement: str, parameters: Iterable[Any] = ()) -> Cursor:
        cursor = self._connection.cursor()
        cursor.execute(statement, tuple(parameters))
        try:
            columns = cursor.get_description()
        except apsw.ExecutionCompleteError:
            columns = ()
        self.description = [(column[0], *[None] * 6) for column in columns] or None
        self._rows = list(cursor)
        return self

    def fetchone(self) -> Any:
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None: ...


class Connection:
    def __init__(self, disk: Disk, timeout: float) -> None:
        self._connection = apsw.Connection("ledger.db", vfs=disk.name)
        # One connection without shared memory, which a file system in Python cannot give.
        self._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        configure_sqlite(self._connection.execute, timeout)
        self._connection.execute(
            "PRAGMA wal_autocheckpoint = 40"
        )  # often, so that losses meet checkpoints too

    def cursor(self) -> Cursor:
        return Cursor(self._connection)

    def commit(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def create_function(self, *_: Any, **__: Any) -> None: ...

    def close(self) -> None:
        self._connection.close()


def opener(disk: Disk) -> Callable[[Store], Connection]:
    """What to put in the place of ``Store.open_sqlite``."""
    return lambda store: Connection(disk, store.timeout)
