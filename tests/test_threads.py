"""The tests themselves: few threads, whatever the machine has."""

from __future__ import annotations

import duckdb
import numpy  # noqa: F401
import polars as pl
import pytest

from discreet._data.withheld import connect


def test_pools_are_small() -> None:
    for connection in (duckdb, duckdb.connect(), connect()):
        assert connection.execute("SELECT current_setting('threads')").fetchone() == (2,)
    assert pl.thread_pool_size() <= 2
    threadpoolctl = pytest.importorskip("threadpoolctl")
    pools = threadpoolctl.threadpool_info()
    assert all(pool["num_threads"] == 1 for pool in pools if pool["user_api"] == "blas"), pools
