"""The one way to an engine: whatever it says when it fails is withheld, because it often quotes a record.

Every function at the door of this room is :func:`withheld`. What leaves by an exception is one of ours,
and nothing hangs behind it: no cause, no context, no note, no frame of an engine.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from discreet._typing import Arguments, Result
from discreet.errors import DataError, DiscreetError

if TYPE_CHECKING:
    import narwhals as nw

OUT_OF_MEMORY = "OutOfMemoryException"
MISSING_PACKAGE = ("ImportError", "ModuleNotFoundError")


class EngineError(DataError):
    """An engine failed; ``kind`` is the name of its error and ``line`` that of a CSV file, if it said one."""

    kind: str = ""
    line: str | None = None


def withheld(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, with every error of an engine replaced by one of ours that says no more than its name."""

    @functools.wraps(function)
    def guarded(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            with _silent_spark():
                return function(*arguments, **options)
        except DiscreetError as error:
            failure = error
        except BaseException as error:
            # Polars panics are no Exception; an interrupt is no engine's.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            failure = _named(error)
        # Out here, where no exception is being handled, nothing becomes the context of this one: whoever
        # logs the whole chain would log what the engine said of a record, which ``from None`` only hides.
        failure.__cause__ = failure.__context__ = None
        raise failure.with_traceback(None)

    return guarded


def _named(error: BaseException) -> EngineError:
    name = type(error).__name__
    said = f"the engine cannot read the data, and nothing was counted ({name}; details withheld)"
    if isinstance(error, ImportError) and error.name:
        said = f"{error.name} is not installed, and the engine needs it to read these data: pip install it"
    bare = EngineError(said)
    bare.kind = name
    if line := re.match(r"[\w ]*: CSV Error on Line: (\d+)", str(error)):
        bare.line = line[1]
    return bare


@contextmanager
def _silent_spark() -> Iterator[None]:
    """PySpark also logs the errors that it raises, records and all: not while we count, in this thread."""
    if "pyspark" not in sys.modules or importlib.util.find_spec("pyspark.logger") is None:
        yield  # PySpark 3 has no such log
        return
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def others(entry: logging.LogRecord) -> bool:
        return entry.thread != thread

    logger.addFilter(others)
    try:
        yield
    finally:
        logger.removeFilter(others)


def connect() -> Any:
    """A DuckDB in memory. It fetches nothing, writes no record to the disk, and prints no progress."""
    import duckdb

    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET enable_progress_bar=false")
    return connection


@withheld
def fetch(aggregate: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    """The rows of a frame, which an engine computes here and now."""
    native = aggregate.to_native()
    # DuckDB and Spark hand over rows themselves: narwhals would go through pyarrow, which need not be there.
    if aggregate.implementation.is_duckdb():
        return list(native.fetchall())
    if aggregate.implementation.is_spark_like():
        return [tuple(row) for row in native.collect()]
    return list(aggregate.collect().rows())
