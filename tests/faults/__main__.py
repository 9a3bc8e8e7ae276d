"""``python -m tests.faults [TEXT …]``: plants the faults whose names hold a text, one by one, in a copy.

Prints what became of each, and how many were found; ends with 1 if one was not. ``--list`` plants none.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from . import ROOT, Fault, faults

_COPIED = ("src", "tests", "proofs", "docs", "benchmarks", "reproductions", "pyproject.toml", "README.md")
_SECONDS = 900
_LOADED = ("numpy", "pandas", "polars", "narwhals", "duckdb", "sqlalchemy", "mpmath")
_LOADED += (
    "flint",
    "formulaic",
    "scipy.stats",
    "scipy.optimize",
    "scipy.special",
    "scipy.sparse",
    "scipy.fft",
)


def found(fault: Fault, copy: Path) -> str:
    """What the tests said with the fault in place."""
    path = fault.path(copy)
    before = path.read_text(encoding="utf-8")
    path.write_text(fault.planted(before), encoding="utf-8")
    try:
        said = verdict(copy, fault.tests)
        return verdict(copy, fault.tests, "slow and not long") if said == "SURVIVED" else said
    finally:
        path.write_text(before, encoding="utf-8")


def verdict(copy: Path, tests: tuple[str, ...], which: str = "not slow") -> str:
    """``found`` if a test fails; ``SURVIVED`` if all pass. First those of every day, then the slow ones."""
    child = multiprocessing.get_context("fork").Process(target=_tried, args=(copy, tests, which))
    child.start()
    child.join(_SECONDS)
    if child.exitcode is None:
        child.kill()
        return "found (never ended)"
    return {0: "SURVIVED", 1: "found", 5: "SURVIVED"}.get(child.exitcode, f"BROKEN ({child.exitcode})")


def _tried(copy: Path, tests: tuple[str, ...], which: str) -> None:
    """Runs in a child that has loaded other people's libraries already, and nothing of ours."""
    import pytest

    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    os.chdir(copy)
    for name in [name for name in sys.modules if name.partition(".")[0] in ("discreet", "tests")]:
        del sys.modules[name]
    sys.path[:0] = [str(copy / part) for part in ("src", "reproductions/src", "", "tests")]
    sys.dont_write_bytecode = True
    serial = ["-n", "0"] if importlib.util.find_spec("xdist") else []
    options = ["-q", "-x", "-p", "no:cacheprovider", "-m", which, *serial]
    os._exit(int(pytest.main([*options, *tests])))


def check(tests: set[str], copy: Path) -> None:
    """Every test passes without a fault: else nothing would be learned from one that fails with it."""
    if verdict(copy, tuple(sorted(tests))) != "SURVIVED":
        raise SystemExit("the tests do not pass as they are")


def copied(folder: Path) -> Path:
    """The parts of the repository that tests need."""
    for name in _COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        elif source.exists():
            shutil.copy(source, folder / name)
    return folder


def main(wanted: list[str]) -> int:
    chosen = [one for one in faults() if not wanted or any(text in one.name for text in wanted)]
    for name in _LOADED:
        try:
            importlib.import_module(name)
        except ImportError:  # an extra that is not installed
            continue
    missed = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = copied(Path(folder))
        check({test for one in chosen for test in one.tests}, copy)
        for fault in chosen:
            start = time.perf_counter()
            said = found(fault, copy)
            missed += not said.startswith("found")
            print(f"{said:9} {time.perf_counter() - start:6.1f} s  {fault.file}: {fault.name}", flush=True)
    print(f"{len(chosen)} faults planted, {len(chosen) - missed} found, {missed} survived")
    return int(missed > 0)


if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(__doc__)
        raise SystemExit(0)
    if sys.argv[1:] == ["--list"]:
        for one in faults():
            print(f"{one.file}: {one.name} ({', '.join(one.tests)})")
        raise SystemExit(0)
    raise SystemExit(main(sys.argv[1:]))
