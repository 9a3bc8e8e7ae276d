"""What the package costs, measured on this machine in one run: ``make bench``.

Prints a table and writes ``out/bench.json``. Nothing here is a test: no figure is asserted.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

import discreet


@dataclass
class Row:
    group: str
    what: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None


def seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Best of ``repeat``: the least disturbed by whatever else the machine does."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def counts_of(n: int, k: int) -> tuple[int, ...]:
    return tuple(n // k + (1 if i < n % k else 0) for i in range(k))


def simulation() -> Iterator[Row]:
    for name in ("lszhang", "lsdim", "lshist", "lattice"):
        m = discreet.mechanism(name, prior=(1, 1, 1), n=60, epsilon=0.8)
        took = seconds(lambda m=m: m.simulate((20, 20, 20), size=1_000_000, seed=0))
        yield Row("simulate 10⁶ draws, k = 3, n = 60", name, took, "s")


def drawing() -> Iterator[Row]:
    for name in ("lszhang", "lsdim", "lshist", "lattice"):
        for n in (1_000, 1_000_000):
            m = discreet.mechanism(name, prior=(1, 1), n=n, epsilon=0.8)
            counts = counts_of(n, 2)
            first = seconds(lambda m=m, counts=counts: m.draw(counts), repeat=1)
            each = seconds(lambda m=m, counts=counts: [m.draw(counts) for _ in range(5_000)], 2) / 5_000
            yield Row("one private draw, k = 2", f"{name}, n = {n:,}", each * 1e6, "µs")
            if name == "lattice":
                yield Row("first draw, tables included, k = 2", f"{name}, n = {n:,}", first * 1e3, "ms")


_RELEASE = """
import resource, sys, time
start = time.perf_counter()
import discreet
r = discreet.release(sys.argv[1], column="smoker", levels=("never", "former", "current"), epsilon=1)
took = time.perf_counter() - start
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_SQL = """
import resource, sys, time
start = time.perf_counter()
import duckdb
duckdb.sql(f"select smoker, count(*) from '{sys.argv[1]}' group by smoker").fetchall()
took = time.perf_counter() - start
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def parquet() -> Iterator[Row]:
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "survey.parquet")
        duckdb.sql(
            "copy (select ['never', 'former', 'current'][1 + (range * 7919 % 10) // 4] as smoker "
            f"from range(10000000)) to '{path}' (format parquet)"
        )
        measured = {}
        for label, program in (("discreet.release", _RELEASE), ("the same count in SQL", _SQL)):
            best = (float("inf"), 0.0)
            for _ in range(3):
                done = subprocess.run(
                    [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
                )
                took, memory = map(float, done.stdout.split())
                best = min(best, (took, memory))
            measured[label] = best
        ours, theirs = measured["discreet.release"], measured["the same count in SQL"]
        group = "10⁷-row Parquet column, imports included"
        yield Row(group, "discreet.release", ours[0], "s", "the same count in SQL", ours[0] / theirs[0])
        yield Row(group, "the same count in SQL (DuckDB)", theirs[0], "s")
        yield Row(group, "discreet.release, peak memory", ours[1], "MB", "SQL", ours[1] / theirs[1])


def starting() -> Iterator[Row]:
    for what, command in (
        ("import discreet", [sys.executable, "-c", "import discreet"]),
        ("discreet --help", [sys.executable, "-m", "discreet.cli", "--help"]),
    ):
        yield Row("start", what, seconds(lambda c=command: subprocess.run(c, capture_output=True)), "s")


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "simulation": simulation,
    "drawing": drawing,
    "parquet": parquet,
    "starting": starting,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run, of: {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    group = ""
    for name in arguments.names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            rows.append(row)
            if row.group != group:
                group = row.group
                print(f"\n{group}")
            ratio = f"   {row.ratio:.2f} × {row.against}" if row.ratio is not None else ""
            print(f"  {row.what:<42} {row.value:>12.4g} {row.unit}{ratio}", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"python": platform.python_version(), "numpy": np.__version__, "discreet": discreet.__version__}
    arguments.out.write_text(
        json.dumps({"versions": about, "rows": [asdict(r) for r in rows]}, indent=2) + "\n"
    )
    print(f"\nWritten to {arguments.out}")


if __name__ == "__main__":
    main()
