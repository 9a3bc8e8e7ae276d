"""Replacement of engines' errors by our own, because an engine's message often quotes a record.

Only exceptions of this package reach the caller, without the cause, context, notes or stack frames of an
engine. Every function that other packages call is guarded (:mod:`discreet._data.guard`).

This module also decides whether the data or the engine are at fault. Data that an engine cannot read raise an
:class:`EngineError`. An internal error of the engine raises an :class:`EngineFailure`, which reveals nothing
about the data; a call that opened DuckDB itself is then repeated once, on a new connection.
"""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from discreet.errors import DataError, DiscreetError, EngineFailure

if TYPE_CHECKING:
    import narwhals as nw

OUT_OF_MEMORY = "OutOfMemoryException"
MISSING_PACKAGE = ("ImportError", "ModuleNotFoundError")


_ENGINES = {"duckdb": "DuckDB", "polars": "Polars", "pyspark": "Spark"}
_OWN_ERRORS = {
    ("duckdb", "InternalException"): "duckdb",
    ("duckdb", "FatalException"): "duckdb",
    ("pyo3_runtime", "PanicException"): "polars",
    ("polars", "PanicException"): "polars",
    ("py4j", "Py4JNetworkError"): "pyspark",
}
"""The engine of each internal error, by the package and name of its exception."""
_connections: ContextVar[int] = ContextVar("_connections", default=0)


class EngineError(DataError):
    """The data cannot be read; ``kind`` is the engine's name for the error, ``line`` the line of a CSV
    file."""

    kind: str = ""
    line: int | None = None


def connections() -> int:
    """Return how many times DuckDB was opened in this thread."""
    return _connections.get()


def may_be_repeated(failure: DiscreetError) -> bool:
    """Return whether the call may succeed on a new connection of DuckDB."""
    return isinstance(failure, EngineFailure) and failure.engine == "duckdb" and not failure.twice


def ours(error: BaseException) -> DiscreetError:
    """Return the error of this package that replaces an engine's error; our own are returned unchanged."""
    if isinstance(error, DiscreetError):
        return error
    name = type(error).__name__
    engine = _OWN_ERRORS.get((type(error).__module__.strip("_").partition(".")[0], name))
    if _is_internal_to_spark(error):
        engine = "pyspark"
    if engine is not None:
        return failed(engine, name)
    message = f"the engine cannot read the data, and nothing was counted ({name}; details withheld)"
    if isinstance(error, ImportError) and error.name:
        message = f"{error.name} is not installed, and the engine needs it to read these data: pip install it"
    if name == "PythonException":
        message = (
            "the workers of Spark cannot compute sums: they need this Python, with discreet and PyArrow "
            "(set PYSPARK_PYTHON)"
        )
    bare = EngineError(message)
    bare.kind = name
    if line := re.match(r"[\w ]*: CSV Error on Line: (\d+)", str(error)):
        bare.line = int(line[1])
    return bare


def caught(error: BaseException) -> DiscreetError:
    """Return the replacement of a caught error; an interrupt by the user is raised again."""
    # Polars panics are no Exception.
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    return ours(error)


def bare(failure: DiscreetError) -> DiscreetError:
    """Return an error without cause, context and stack frames, to be raised outside any ``except`` block.

    ``from None`` would only hide the engine's message, which a log of the whole chain would still contain.
    """
    failure.__cause__ = failure.__context__ = None
    return failure.with_traceback(None)


def _is_internal_to_spark(error: BaseException) -> bool:
    """Return whether an error is internal to Spark, by its error condition (an error class in PySpark 3)."""
    condition = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    if not type(error).__module__.startswith("pyspark.") or condition is None:
        return False
    try:
        return str(condition()).startswith("INTERNAL_ERROR")
    except Exception:  # it is asked of a Java process, which may be gone
        return False


def failed(engine: str, kind: str, where: str = "", *, twice: bool = False) -> EngineFailure:
    """Return the error for an internal failure of an engine; ``where`` names the files that it read."""
    name, version = _ENGINES[engine], getattr(sys.modules.get(engine), "__version__", "")
    files, times = f"{where}: " if where else "", ", twice," if twice else ""
    failure = EngineFailure(
        f"{files}{name} {version} failed{times} with an internal error ({kind}; details withheld), which "
        "says nothing about the data; nothing was counted or charged for this question. Ask again; if it "
        f"fails each time, install another version of {name}"
    )
    failure.engine, failure.version, failure.kind = engine, version, kind
    failure.where, failure.twice = where, twice
    return failure


@contextmanager
def silent_spark() -> Iterator[None]:
    """Silence the log of PySpark in this thread, because logged errors quote records."""
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
    """Open DuckDB in memory, with settings that prevent downloads, writing to disk and progress bars."""
    import duckdb

    _connections.set(connections() + 1)
    settings: dict[str, Any] = {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "temp_directory": "",
    }
    connection = duckdb.connect(":memory:", config=settings)
    connection.execute("SET enable_progress_bar=false")
    return connection


def fetch(aggregate: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    """Compute and return the rows of a frame."""
    try:
        with silent_spark():
            return _rows_of(aggregate)
    except BaseException as error:
        failure = caught(error)
    raise bare(failure)


def _rows_of(aggregate: nw.LazyFrame[Any]) -> list[tuple[Any, ...]]:
    native = aggregate.to_native()
    # DuckDB and Spark hand over rows themselves: narwhals would go through pyarrow, which need not be there.
    if aggregate.implementation.is_duckdb():
        return list(native.fetchall())
    if aggregate.implementation.is_spark_like():
        return [tuple(row) for row in native.collect()]
    return list(aggregate.collect().rows())
