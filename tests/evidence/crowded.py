"""Releases from files while as many busy processes as the machine has cores, and two at least, want them too.

At ε = 100 a count is the true one but for a probability below 10⁻⁴⁰, so that every answer can be compared.
"""

from __future__ import annotations

import csv
import json
import multiprocessing
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path

import duckdb

import shorthand
from discreet._data.withheld import connections
from discreet.errors import DiscreetError, EngineFailure, PrivacyWarning

LEVELS = ("never", "former", "current")
TRUE = (3001, 1203, 799)
RECORDS = [level for level, records in zip(LEVELS, TRUE, strict=True) for _ in range(records)]
RECORDS = [RECORDS[i * 2003 % len(RECORDS)] for i in range(len(RECORDS))]


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """While neighbours use the processors."""
    crowd = [multiprocessing.get_context("fork").Process(target=_spin) for _ in range(processes)]
    for one in crowd:
        one.start()
    try:
        yield
    finally:
        for one in crowd:
            one.kill()
            one.join()


def written(folder: Path) -> list[Path]:
    """The same records in each format."""
    rows = [{"id": i, "smoker": level} for i, level in enumerate(RECORDS)]
    with (folder / "t.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, ("id", "smoker"))
        table.writeheader()
        table.writerows(rows)
    (folder / "t.json").write_text(json.dumps(rows))
    (folder / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with duckdb.connect() as connection:
        source = str(folder / "t.csv")
        connection.execute("CREATE TABLE t AS SELECT * FROM read_csv($1)", [source])
        connection.execute(f"COPY t TO '{folder / 't.parquet'}'")
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (len(RECORDS),)
    return [folder / name for name in ("t.parquet", "t.csv", "t.json", "t.jsonl")]


def crowded(number: int) -> Counter[str]:
    """What came of so many releases, the formats in turn."""
    found = Counter({"right": 0, "wrong": 0, "called malformed": 0, "engine failures": 0, "tried again": 0})
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        paths = written(Path(folder))
        with busy(max(2, os.cpu_count() or 1)):
            for path in islice(cycle(paths), number):
                before = connections()
                try:
                    answer = shorthand.shares(path, column="smoker", levels=LEVELS, epsilon=100)
                    found["right" if tuple(answer.counts) == TRUE else "wrong"] += 1
                except EngineFailure as error:
                    found["engine failures"] += 1
                    print(error)
                except DiscreetError as error:
                    found["called malformed"] += 1
                    print(error)
                found["tried again"] += connections() - before - 1
    print(f"DuckDB {duckdb.__version__}")
    return found
