"""The promises of the ledger, shown at length: `make test-slow`, with `-s` to see the figures."""

from __future__ import annotations

import os
import resource
import secrets
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from discreet import Guarantee, Ledger
from discreet.errors import LedgerError
from discreet.ledger import Budget, book
from discreet.ledger import _store as store
from evidence import drivers, postgres
from evidence.components import need

pytestmark = pytest.mark.slow


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.create("survey", epsilon=1)
        yield ledger


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    need(postgres.missing())
    with postgres.server() as running:
        yield running


@pytest.fixture
def on_postgres(server: postgres.Server) -> Iterator[Ledger]:
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    with Ledger(server.url) as ledger:
        ledger.create("survey", epsilon=1)
        yield ledger


def test_kill_9_at_each_step_and_at_any_moment(sqlite: Ledger) -> None:
    each, alone, crowds = 100, 200, 40  # ten thousand: python -m tests.evidence kills
    seen = drivers.Killed()
    for i in range(each):
        for label in drivers.STEPS:
            drivers.kill_at(sqlite, label, f"{label}-{i}", seen)
    at_steps = seen.deaths
    assert at_steps == each * len(drivers.STEPS)
    longest = 2.5 * drivers.duration_of(sqlite)
    seen.asked |= {f"warm-{i}" for i in range(50)}
    for i, delay in enumerate(drivers.delays(alone, longest)):
        drivers.kill_within(sqlite, delay, [f"any-{i}"], seen)
    for i, delay in enumerate(drivers.delays(crowds, 2 * longest, seed=1)):
        drivers.kill_within(sqlite, delay, [f"crowd-{i}-{j}" for j in range(4)], seen)
    verdict = drivers.judge(sqlite, seen)
    killed_anywhere = seen.deaths - at_steps
    waiting = verdict.charged_not_delivered - 50  # the 50 that only measured the time
    print(
        f"\nkill -9 on SQLite: {seen.trials:,} trials, {seen.deaths:,} deaths ({at_steps:,} at the "
        f"{len(drivers.STEPS)} steps, {killed_anywhere} at random moments, "
        f"alone or four at once); "
        f"{verdict.uncharged} uncharged releases, {verdict.lost} lost charges; "
        f"{waiting} charged but not delivered, all delivered by a retry"
    )
    assert seen.deaths >= 600
    assert killed_anywhere > (alone + 4 * crowds) // 10, "the random kills missed the transaction"
    assert (verdict.uncharged, verdict.lost) == (0, 0)
    assert verdict.delivered_by_retry == verdict.charged_not_delivered
    assert waiting >= each


@pytest.mark.parametrize("where", ["sqlite", "on_postgres"])
def test_16_processes_race_for_1000_charges(where: str, request: pytest.FixtureRequest) -> None:
    ledger: Ledger = request.getfixturevalue(where)
    start = time.perf_counter()
    won = drivers.race(ledger, processes=16, spends=200, cost=Fraction(1, 1000))
    took = time.perf_counter() - start
    print(f"\n{where}: 16 processes x 200 spends on a cap for 1,000: {won} succeeded, in {took:.1f} s")
    assert won == 1000
    assert ledger.show("survey").remaining == Budget(Fraction(0))
    assert ledger.verify().entries == 1001


def test_the_seat_belt_of_postgresql(on_postgres: Ledger, server: postgres.Server) -> None:
    import psycopg

    before = on_postgres.verify()
    for statement in (
        "UPDATE discreet_entries SET spent = '0'",
        "DELETE FROM discreet_entries",
        "TRUNCATE discreet_entries",
    ):
        with psycopg.connect(server.url) as connection, pytest.raises(psycopg.Error, match="append-only"):
            connection.execute(statement)
    assert on_postgres.verify() == before


def test_postgresql_refusals(on_postgres: Ledger, server: postgres.Server) -> None:
    import psycopg

    before = on_postgres.verify()
    with psycopg.connect(server.url) as holder:
        holder.execute("SELECT * FROM discreet_ledger FOR UPDATE")
        hasty = Ledger(server.url, timeout=0.3)
        with pytest.raises(LedgerError, match="locked"):
            drivers.spend(hasty, "q")
        hasty.close()
    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        owner.execute("SELECT pg_reload_conf()")
        server.wait_until("default_transaction_read_only", "on")
        try:
            reader = Ledger(server.url, timeout=60)
            with pytest.raises(LedgerError, match="read-only"):
                drivers.spend(reader, "q")
            reader.close()
        finally:
            owner.execute("SET default_transaction_read_only = off")
            owner.execute("ALTER SYSTEM RESET default_transaction_read_only")
            owner.execute("SELECT pg_reload_conf()")
    start = time.monotonic()
    with pytest.raises(LedgerError, match="refuses this user"):
        Ledger(server.url.rpartition("/")[0] + "/nothing", timeout=600).datasets()
    assert time.monotonic() - start < 300, "a wrong name is no reason to wait for the server"
    assert on_postgres.verify() == before


def test_a_server_that_may_forget_is_refused(on_postgres: Ledger, server: postgres.Server) -> None:
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute("ALTER SYSTEM SET fsync = off")
        owner.execute("ALTER SYSTEM SET synchronous_commit = off")
        owner.execute("SELECT pg_reload_conf()")
        on_postgres.close()
        try:
            server.wait_until("fsync", "off")
            with pytest.raises(LedgerError, match="fsync=off"):
                drivers.spend(on_postgres, "q")
        finally:
            owner.execute("ALTER SYSTEM RESET fsync")
            owner.execute("SELECT pg_reload_conf()")
        server.wait_until("fsync", "on")
        drivers.spend(on_postgres, "q")
        with on_postgres._store._transaction(write=False) as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
        owner.execute("ALTER SYSTEM RESET synchronous_commit")
        owner.execute("SELECT pg_reload_conf()")


def test_the_rights_of_an_analyst(on_postgres: Ledger, server: postgres.Server) -> None:
    """What docs/how-to/ledger-databases.md grants is enough to charge, and not enough to change an entry."""
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute("DROP ROLE IF EXISTS analyst")
        owner.execute("CREATE ROLE analyst LOGIN")
        owner.execute("GRANT USAGE ON SCHEMA public TO analyst")
        owner.execute("GRANT SELECT, INSERT ON discreet_entries TO analyst")
        owner.execute("GRANT SELECT, UPDATE ON discreet_ledger TO analyst")
        as_analyst = server.url.replace("postgres@", "analyst@")
        with Ledger(as_analyst) as ledger:
            drivers.spend(ledger, "q")
            ledger.verify()
        for statement in ("DELETE FROM discreet_entries", "ALTER TABLE discreet_entries DISABLE TRIGGER ALL"):
            with (
                psycopg.connect(as_analyst) as connection,
                pytest.raises(psycopg.errors.InsufficientPrivilege),
            ):
                connection.execute(statement)
        owner.execute("REVOKE INSERT ON discreet_entries FROM analyst")
        with Ledger(as_analyst) as ledger, pytest.raises(LedgerError, match="read-only for this user"):
            drivers.spend(ledger, "q2")
        owner.execute("DROP OWNED BY analyst")
        owner.execute("DROP ROLE analyst")


def test_several_hosts_make_the_same_ledger(on_postgres: Ledger, server: postgres.Server) -> None:
    import psycopg

    with psycopg.connect(server.url, autocommit=True) as owner:
        owner.execute("DROP SCHEMA public CASCADE")
        owner.execute("CREATE SCHEMA public")
    fresh = Ledger(server.url)
    children = [drivers.fork(lambda i=i: bool(fresh.create(f"d{i}", epsilon=1)) and None) for i in range(8)]
    assert [drivers.status_of(child) for child in children] == [0] * 8
    assert fresh.verify().entries == len(fresh.datasets()) == 8
    fresh.close()


@pytest.mark.parametrize("committed", [True, False])
def test_a_connection_lost_in_commit(
    committed: bool, on_postgres: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has committed, or not; the client asks again by the request id, and charges once."""
    import psycopg

    drivers.spend(on_postgres, "before")
    engine = on_postgres._store._engine
    assert engine is not None
    real = engine.dialect.do_commit
    lost: list[int] = []

    def cut(connection: Any) -> None:
        if not lost and "inserted" in passed:
            lost.append(1)
            if committed:
                real(connection)
            connection.dbapi_connection.close()
            raise psycopg.OperationalError("the connection was lost")
        real(connection)

    passed: list[str] = []
    monkeypatch.setattr(engine.dialect, "do_commit", cut)
    monkeypatch.setattr(book, "_step", passed.append)
    receipt = on_postgres.spend("survey", Guarantee(Fraction(1, 4)), lambda: b"x", plan={}, request_id="q")
    assert lost
    assert (receipt.result, receipt.repeated) == (b"x", False)
    assert passed.count("locked") == 2
    assert passed.count("inserted") == (1 if committed else 2)
    assert [e.request_id for e in on_postgres.history("survey")] == [None, "before", "q"]


def test_20_immediate_restarts_of_postgresql_under_load(on_postgres: Ledger, server: postgres.Server) -> None:
    """Every result that reached a worker is charged, every charge is once, and no doubt stays unresolved."""
    workers, restarts = 4, 20
    reader, writer = os.pipe()
    stop_reader, stop_writer = os.pipe()

    def ask(request: str) -> bytes:
        """As the message advises a person whose server was away for longer than the ledger waits."""
        while True:
            try:
                return drivers.spend(on_postgres, request)
            except LedgerError as error:
                away = "is out of reach" in str(error)  # before anything was charged
                if not away and f"try again with request_id={request!r}" not in str(error):
                    raise

    def work(number: int) -> None:
        os.close(stop_writer)
        os.set_blocking(stop_reader, False)
        passed: list[str] = []
        book._step = passed.append  # type: ignore[assignment]
        i = 0
        while True:
            try:
                if os.read(stop_reader, 1) == b"":
                    return
            except BlockingIOError:
                pass
            passed.clear()
            request = f"{number}-{i}"
            result = ask(request)
            attempts = passed.count("inserted")
            doubt = "resolved" if passed[-2:-1] == ["locked"] else "again" if attempts > 1 else "-"
            os.write(writer, f"{request} {result.hex()} {doubt} {passed.count('locked')}\n".encode())
            i += 1

    children = [drivers.fork(lambda number=number: work(number)) for number in range(workers)]
    os.close(writer)
    os.close(stop_reader)
    lines: list[str] = []
    for _ in range(restarts):
        time.sleep(0.4)
        server.restart_at_once()
    time.sleep(0.5)
    os.close(stop_writer)
    with os.fdopen(reader, "r") as reports:
        lines = reports.read().splitlines()
    assert [drivers.status_of(child) for child in children] == [0] * workers

    told = {}
    doubts: Counter[str] = Counter()
    for line in lines:
        request, result, doubt, _ = line.split()
        assert request not in told
        told[request] = bytes.fromhex(result)
        doubts[doubt] += 1
    stored = {e.request_id: e.result for e in on_postgres.history("survey") if e.kind == "charge"}
    print(
        f"\n{restarts} immediate restarts of PostgreSQL under {workers} workers: {len(told):,} results "
        f"delivered, {len(stored):,} charges; {doubts['resolved']} commits in doubt had been made and were "
        f"found by their request id, {doubts['again']} had not and were made again"
    )
    assert stored == told
    assert on_postgres.show("survey").spent == Budget(Fraction(len(told), 10**6))
    assert on_postgres.verify().entries == len(told) + 1
    assert len(told) > restarts


def test_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsynced sectors vanish, all or half of them: FULL keeps every acknowledged charge, NORMAL does not."""
    try:
        import apsw  # noqa: F401
    except ImportError:
        need("apsw is not installed")
    lost = {mode: _lose_power(mode, tmp_path / mode, monkeypatch) for mode in ("FULL", "NORMAL")}
    assert lost["FULL"] == 0
    assert lost["NORMAL"] > 0


def _lose_power(mode: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    from evidence import powerloss

    folder.mkdir()
    (folder / "ledger.db").touch()  # what the store looks for; the content is on the simulated disk
    disk = powerloss.Disk(f"forgetful-{mode}")
    acknowledged: set[str] = set()
    losses, charges_lost, worst, unsound = 0, 0, 0, 0
    in_check = False

    def check(survives: Callable[[], bool]) -> None:
        nonlocal losses, charges_lost, worst, unsound, in_check
        if in_check:
            return
        in_check = True
        losses += 1
        found_in = folder / f"after-{losses}"
        found_in.mkdir()
        for name, content in disk.image(survives).items():
            (found_in / name).write_bytes(content)
        there: set[str | None] = set()
        with monkeypatch.context() as real:
            real.setattr(store.Store, "open_sqlite", genuine)
            with Ledger(found_in / "ledger.db") as after:
                try:
                    after.verify()
                    there = {entry.request_id for entry in after.history("survey")}
                except LedgerError:
                    unsound += 1
        gone = len(acknowledged - there)
        charges_lost += gone > 0
        worst = max(worst, gone)
        shutil.rmtree(found_in)
        in_check = False

    genuine = store.Store.open_sqlite
    with monkeypatch.context() as simulated:
        simulated.setattr(store, "SYNCHRONOUS", mode)
        simulated.setattr(store.Store, "open_sqlite", powerloss.opener(disk))
        ledger = Ledger(folder / "ledger.db")
        ledger.create("survey", epsilon=1)
        moves = 0

        def moved() -> None:
            nonlocal moves
            moves += 1
            if moves % 7 == 0:  # in the middle of a transaction or a checkpoint
                check(powerloss.some(moves))

        disk.moved = moved
        for i in range(120):
            drivers.spend(ledger, f"q{i}")
            acknowledged.add(f"q{i}")
            check(powerloss.nothing)
            check(powerloss.some(i))
        in_check = True
        ledger.close()
    print(
        f"\npower loss with synchronous={mode}: {losses} losses around {len(acknowledged)} committed charges "
        f"({disk.syncs} syncs): charges were missing after {charges_lost} of them, at most {worst} at once; "
        f"{unsound} times no ledger could be read"
    )
    return charges_lost


class TestDisk:
    """Full and read-only for real, not by a setting of the database."""

    def test_a_full_file_system(self, tmp_path: Path) -> None:
        if os.getuid() != 0 or shutil.which("mount") is None:
            need("a small file system of its own can only be mounted by root")
        folder = tmp_path / "small"
        folder.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=False
        )
        if mounted.returncode:
            need("no file system can be mounted here")
        try:
            with Ledger(folder / "ledger.db") as ledger:
                ledger.create("survey", epsilon=1)
                charged, refusal = self._spend_until_refused(ledger)
                assert "full" in str(refusal)
                assert [e.request_id for e in ledger.history("survey")][1:] == charged
                ledger.verify()
            with Ledger(folder / "ledger.db") as ledger:  # as after a restart of the program
                assert [e.request_id for e in ledger.history("survey")][1:] == charged
            subprocess.run(["mount", "-o", "remount,size=4m", str(folder)], check=True)
            with Ledger(folder / "ledger.db") as ledger:
                assert self._spend(ledger, str(refusal.request_id)).repeated is False
                assert ledger.verify().entries == len(charged) + 2
            print(
                f"\nfull disk: refused after {len(charged)} charges, nothing lost; with room it works again"
            )
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    def test_a_limit_on_file_sizes(self, sqlite: Ledger) -> None:
        charged = [self._spend(sqlite, f"before-{i}").request_id for i in range(20)]
        sqlite.close()

        def work() -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            size = sqlite._store.path.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, size // 2))
            self._spend_until_refused(sqlite)

        assert drivers.status_of(drivers.fork(work)) == 0
        found = [e.request_id for e in sqlite.history("survey")][1:]
        assert found[:20] == charged
        assert sqlite.verify().entries == len(found) + 1
        print(f"\nlimit on file sizes: refused after {len(found) - 20} more charges; the ledger is sound")

    def test_a_read_only_file_system(self, tmp_path: Path) -> None:
        if os.getuid() != 0 or shutil.which("mount") is None:
            need("a file system of its own can only be mounted by root")
        folder = tmp_path / "ro"
        folder.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], check=False)
        if mounted.returncode:
            need("no file system can be mounted here")
        try:
            with Ledger(folder / "ledger.db") as ledger:
                ledger.create("survey", epsilon=1)
                self._spend(ledger, "q0")
            before = (folder / "ledger.db").read_bytes()
            subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
            with (
                Ledger(folder / "ledger.db") as ledger,
                pytest.raises(LedgerError, match=r"read-only|opened"),
            ):
                self._spend(ledger, "q1")
            assert (folder / "ledger.db").read_bytes() == before
            print("\nread-only file system: refused, the file unchanged")
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    def _spend_until_refused(self, ledger: Ledger) -> tuple[list[str], LedgerError]:
        charged = []
        for i in range(10_000):
            try:
                charged.append(self._spend(ledger, f"q{i}").request_id)
            except LedgerError as refusal:
                return charged, refusal
        raise AssertionError("nothing was refused")

    @staticmethod
    def _spend(ledger: Ledger, request_id: str) -> book.Receipt:
        return ledger.spend(
            "survey",
            Guarantee(Fraction(1, 10**6)),
            lambda: secrets.token_bytes(2000),
            plan={},
            request_id=request_id,
        )
