"""A wrapper around calls of engines, so that their errors reveal nothing about a record."""

from __future__ import annotations

import functools
from collections.abc import Callable

from discreet._data.withheld import bare, caught, connections, failed, may_be_repeated, silent_spark
from discreet._typing import Arguments, Result
from discreet.errors import EngineFailure


def redact_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a function so that errors of an engine show only their name, never data.

    Where DuckDB fails by itself and was opened in this call, the call is made a second time: it opens the
    same files or tables in memory again. What was open before, such as a relation of the caller's, is not
    read twice: it may give its records only once.
    """

    @functools.wraps(function)
    def _guarded_call(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        again = False
        while True:
            before = connections()
            try:
                with silent_spark():
                    return function(*arguments, **options)
            except BaseException as error:
                failure = caught(error)
            if again or not may_be_repeated(failure) or connections() == before:
                break
            again = True
        if again and isinstance(failure, EngineFailure):
            failure = failed(failure.engine, failure.kind, failure.where, twice=True)
        raise bare(failure)

    return _guarded_call
