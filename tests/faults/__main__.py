"""``python -m tests.faults [TEXT …]``: plants the faults whose names hold a text, one by one, in a copy.

Prints what became of each, and how many were found; ends with 1 if one was not. ``--list`` plants none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.faults import ROOT, Fault, faults

_COPIED = ("src", "tests", "proofs", "docs", "benchmarks", "reproductions", "pyproject.toml", "README.md")
_SECONDS = 600


def found(fault: Fault, copy: Path) -> str:
    """How the tests ended with the fault in place: ``found``, ``survived`` or ``found (slow)``."""
    path = fault.path(copy)
    before = path.read_text(encoding="utf-8")
    path.write_text(fault.planted(before), encoding="utf-8")
    places = [str(copy / "src"), str(copy / "reproductions" / "src"), str(copy), str(copy / "tests")]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow"]
    try:
        done = subprocess.run(
            [*command, *_serial(), *fault.tests],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "found (never ended)"
    finally:
        path.write_text(before, encoding="utf-8")
    if done.returncode not in (0, 1):
        raise SystemExit(f"{fault.name}: pytest ended with {done.returncode}\n{done.stdout.decode()[-2000:]}")
    return "found" if done.returncode else "SURVIVED"


def _serial() -> list[str]:
    try:
        import xdist  # noqa: F401
    except ImportError:
        return []
    return ["-n", "0"]


def main(wanted: list[str]) -> int:
    chosen = [one for one in faults() if not wanted or any(text in one.name for text in wanted)]
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        copy = Path(folder) / "tree"
        for name in _COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            elif source.exists():
                copy.mkdir(exist_ok=True)
                shutil.copy(source, copy / name)
        for fault in chosen:
            start = time.perf_counter()
            verdict = found(fault, copy)
            survivors += verdict == "SURVIVED"
            print(f"{verdict:9} {time.perf_counter() - start:6.1f} s  {fault.file}: {fault.name}", flush=True)
    print(f"{len(chosen)} faults planted, {len(chosen) - survivors} found, {survivors} survived")
    return int(survivors > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        for one in faults():
            print(f"{one.file}: {one.name} ({', '.join(one.tests)})")
        raise SystemExit(0)
    raise SystemExit(main(sys.argv[1:]))
