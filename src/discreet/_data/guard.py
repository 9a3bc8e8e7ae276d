"""A wrapper around calls of engines, so that their errors reveal nothing about a record."""

from __future__ import annotations

import functools
from collections.abc import Callable

from discreet._data.withheld import bare, caught, connections, failed, may_be_repeated, silent_spark
from discreet._typing import Arguments, Result
from discreet.errors import EngineFailure


def redact_errors(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Wrap a function so that errors of an engine show only the name of the error, never data.

    If the call opened DuckDB itself and this fails with an internal error, the call is repeated once. A
    relation that the caller opened is not read twice, because it may yield its records only once.
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
