"""Libraries with threads of their own have few in a test and in the programs that it starts.

There are as many tests at a time as the machine has cores, and a pool for each of them would only wait.
"""

import os
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # before anything imports NumPy
os.environ.setdefault("POLARS_MAX_THREADS", "2")


def pytest_configure() -> None:
    """DuckDB reads no variable of the environment: every connection is told."""
    import duckdb

    connect = duckdb.connect

    def connect_with_two_threads(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        return connect(*arguments, **{**options, "config": {"threads": 2, **options.get("config", {})}})

    duckdb.connect = connect_with_two_threads
    duckdb.execute("SET threads = 2")
