"""``python -m tests.faults [TEXT …]``: plants the faults whose names hold a text, one by one, in a copy.

Prints what became of each and the test that found it, then how many were found; ends with 1 if one was not or
if a test that found one fails without it too. ``--list`` plants none.
"""

from __future__ import annotations

import compileall
import gc
import importlib
import multiprocessing
import os
import py_compile
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import conftest  # before NumPy, so that libraries have few threads in this process and its children

from . import ROOT, Fault, faults

_COPIED = ("src", "tests", "proofs", "docs", "benchmarks", "reproductions")
_COPIED += (Path(conftest.__file__).name, "pyproject.toml", "README.md")
_PROCESSOR_SECONDS = 600
_SECONDS = 7200
_LOADED = ("pytest", "hypothesis", "numpy", "pandas", "polars", "narwhals", "duckdb", "sqlalchemy", "mpmath")
_LOADED += (
    "flint",
    "formulaic",
    "scipy.stats",
    "scipy.optimize",
    "scipy.special",
    "scipy.sparse",
    "scipy.fft",
)


class Failures:
    """Writes down which tests failed, in a file that the parent reads."""

    def __init__(self, copy: Path) -> None:
        self.path = copy / "failed.txt"
        self.path.write_text("", encoding="utf-8")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            with self.path.open("a", encoding="utf-8") as file:
                print(report.nodeid, file=file)

    def read(self) -> list[str]:
        return self.path.read_text(encoding="utf-8").splitlines()


def found(fault: Fault, copy: Path) -> tuple[str, list[str]]:
    """What tests said with the fault in place, those of every day and then the slow ones; which failed."""
    path = fault.path(copy)
    before = path.read_text(encoding="utf-8")
    path.write_text(fault.planted(before), encoding="utf-8")
    try:
        said, failed = verdict(copy, fault.tests, "not slow")
        return verdict(copy, fault.tests, "slow and not long") if said == "SURVIVED" else (said, failed)
    finally:
        path.write_text(before, encoding="utf-8")


def verdict(
    copy: Path, tests: Iterable[str], which: str, limit: int = _PROCESSOR_SECONDS
) -> tuple[str, list[str]]:
    """``found`` if a test fails, ``SURVIVED`` if all pass, and those that failed.

    That something never ends is seen by its processor time, which busy neighbours do not change.
    """
    failures = Failures(copy)
    child = multiprocessing.get_context("fork").Process(
        target=_tried, args=(copy, tests, which, limit, failures)
    )
    child.start()
    child.join(_SECONDS)
    if child.exitcode is None:
        child.kill()
        return "BROKEN (waits)", []
    said = {0: "SURVIVED", 1: "found", 5: "SURVIVED", -signal.SIGXCPU: "found (never ended)"}
    return said.get(child.exitcode, f"BROKEN ({child.exitcode})"), failures.read()


def _tried(copy: Path, tests: Iterable[str], which: str, limit: int, failures: Failures) -> None:
    """Runs in a child that has loaded other people's libraries already, and nothing of ours."""
    import pytest

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(copy)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 60))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("discreet", "tests", "conftest")]:
        del sys.modules[name]
    sys.path[:0] = [str(copy / part) for part in ("src", "reproductions/src", "", "tests")]
    sys.dont_write_bytecode = False
    options = ["-q", "-x", "--disable-plugin-autoload", "-p", "no:cacheprovider", "-m", which]
    os._exit(int(pytest.main([*options, *tests], plugins=[failures])))


def copied(folder: Path) -> Path:
    """The parts of the repository that tests need, compiled; what is changed later is told by its hash."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy(source, folder / name)
    by_hash = py_compile.PycInvalidationMode.CHECKED_HASH
    compileall.compile_dir(folder / "src", quiet=1, invalidation_mode=by_hash)
    return folder


def main(wanted: list[str]) -> int:
    chosen = [one for one in faults() if not wanted or any(text in one.name for text in wanted)]
    for name in _LOADED:
        with suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    gc.freeze()
    missed = 0
    finders: dict[str, None] = {}
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = copied(Path(folder))
        for fault in chosen:
            start = time.perf_counter()
            said, failed = found(fault, copy)
            missed += not said.startswith("found")
            finders |= dict.fromkeys(failed or fault.tests)
            by = failed[0] if failed else ""
            print(
                f"{said:9} {time.perf_counter() - start:6.1f} s  {fault.file}: {fault.name}  {by}", flush=True
            )
        print(f"{len(chosen)} faults planted, {len(chosen) - missed} found, {missed} survived", flush=True)
        said, failed = verdict(copy, finders, "not long", limit=_SECONDS)
        print(
            f"the tests that found them, without a fault: {'pass' if said == 'SURVIVED' else failed or said}"
        )
    return int(missed > 0 or said != "SURVIVED")


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        raise SystemExit(0)
    if sys.argv[1:] == ["--list"]:
        for one in faults():
            print(f"{one.file}: {one.name} ({', '.join(one.tests)})")
        raise SystemExit(0)
    raise SystemExit(main(sys.argv[1:]))
