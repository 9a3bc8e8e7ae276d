"""A PostgreSQL server of our own for the length of a test: loopback only, data in a temporary folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def missing() -> str | None:
    """Why there can be no server here, or None."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "the driver psycopg is not installed"
    if _binaries() is None:
        return "the programs of a PostgreSQL server (initdb, pg_ctl) are not installed"
    if os.getuid() == 0 and shutil.which("runuser") is None:
        return "PostgreSQL does not run as root, and there is no runuser to become another user"
    return None


def _binaries() -> Path | None:
    folders = [Path(found).parent] if (found := shutil.which("initdb")) else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if (folder / "pg_ctl").exists()), None)


class Server:
    def __init__(self, folder: Path) -> None:
        binaries = _binaries()
        assert binaries is not None
        self._binaries, self._folder = binaries, folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"

    def make(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self._folder, "postgres")
        self._call(
            "initdb", "-D", self._data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-instructions"
        )
        self._call("pg_ctl", "-D", self._data, "-l", self._log, "-o", self._options(), "-w", "start")

    def wait_until(self, setting: str, value: str) -> None:
        """Until new connections see a setting that was changed, which takes as long as the server likes."""
        import psycopg

        for _ in range(2400):
            with psycopg.connect(self.url) as connection:
                if connection.execute(f"SHOW {setting}").fetchone() == (value,):
                    return
            time.sleep(0.05)
        raise AssertionError(f"the server does not take {setting} = {value}")

    def restart_at_once(self) -> None:
        """Without a goodbye to clients or writing of buffers, as after a crash; waits until it is up."""
        self._call(
            "pg_ctl",
            "-D",
            self._data,
            "-l",
            self._log,
            "-o",
            self._options(),
            "-m",
            "immediate",
            "-w",
            "restart",
        )

    def stop(self) -> None:
        self._call("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")

    @property
    def _data(self) -> str:
        return str(self._folder / "data")

    @property
    def _log(self) -> str:
        return str(self._folder / "log")

    def _options(self) -> str:
        return f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self._folder}"

    def _call(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=self._folder,
        )
        assert done.returncode == 0, f"{program} failed: {done.stderr.decode()[-2000:]}"


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="discreet-pg-") as folder:
        made = Server(Path(folder))
        made.make()
        try:
            yield made
        finally:
            made.stop()
