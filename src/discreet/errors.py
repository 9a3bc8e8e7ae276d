"""The errors and warnings that people meet. Nothing here imports another module of the package but types."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any

from discreet._typing import Arguments, Result

_UNSET: Any = object()


class DiscreetError(Exception):
    """Base of every error that the package raises on purpose.

    ``parameter`` names the field of a form or question that is at fault, where that is known.
    """

    parameter: str | None = None


class InvalidInputError(DiscreetError, ValueError):
    """A parameter has a value that cannot be used.

    Parameters
    ----------
    problem : str
        What is wrong and what to do, as it follows the name and the value of the parameter.
    parameter : str, optional
        The parameter at fault.
    value : object, optional
        Its value; left out where there is none.

    Examples
    --------
    >>> error = InvalidInputError("must be positive", parameter="epsilon", value=0)
    >>> str(error)
    'epsilon=0 must be positive'
    >>> error.describe("--epsilon 0")
    '--epsilon 0 must be positive'
    """

    def __init__(self, problem: str, *, parameter: str | None = None, value: Any = _UNSET) -> None:
        self.problem, self.parameter, self.value = problem, parameter, value
        known = value is not _UNSET
        super().__init__(self.describe(f"{parameter}={short_repr(value)}" if known else parameter))

    @property
    def has_value(self) -> bool:
        """Whether a value is at fault, and not that there is none."""
        return self.value is not _UNSET

    def describe(self, subject: str | None) -> str:
        """Return the message about a parameter that is called ``subject`` where the mistake was made."""
        if subject is None:
            return self.problem
        return subject + ("" if self.problem.startswith((":", ";", ",")) else " ") + self.problem


class DataError(DiscreetError, ValueError):
    """The data do not fit the declared domain. The message holds no data value."""


class ContributionError(DiscreetError):
    """A record would count for more than the noise is made for: a defect of this package.

    Nothing was released; please report it. The message holds no data value.
    """


class NotPrivateError(DiscreetError):
    """The call would have produced something that looks private and is not."""


class TooLargeError(DiscreetError):
    """The request needs more memory or time than it may take; the message says how much and what works."""


class FileError(DiscreetError):
    """A file is missing, cannot be read or written, or is not what its ending says. Quotes no content."""


class EngineFailure(DiscreetError):
    """An engine that reads data failed by an error of its own: nothing is said of the data.

    Nothing was counted or charged for the question. ``engine`` and ``version`` say which engine it was,
    ``kind`` is the name of its error, ``where`` names the files that were read, and ``twice`` is whether a
    new connection was tried as well.
    """

    engine: str = ""
    version: str = ""
    kind: str = ""
    where: str = ""
    twice: bool = False


class CorruptReleaseError(DiscreetError, ValueError):
    """A release file was edited, cut, or written by an unknown version."""


class LedgerError(DiscreetError):
    """The ledger cannot be used: absent, locked, read-only, full, out of reach, or of a newer version.

    ``request_id`` is set where a charge was under way: a retry with it returns the stored result, or makes
    the charge if there is none.
    """

    request_id: str | None = None


class MissingLedgerError(LedgerError):
    """There is no ledger at this address yet."""


class CorruptLedgerError(LedgerError):
    """A ledger was edited, cut or rolled back. ``row`` is the first entry that does not fit, where known."""

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class LedgerRefusal(DiscreetError):
    """The ledger works and says no: nothing was charged and nothing is released."""


class BudgetExceededError(LedgerRefusal):
    """What was asked does not fit under the cap: ``spent`` + ``asked`` is more than ``cap``, exactly."""

    def __init__(self, message: str, cap: Any = None, spent: Any = None, asked: Any = None) -> None:
        super().__init__(message)
        self.cap, self.spent, self.asked = cap, spent, asked


class RequestConflictError(LedgerRefusal):
    """The request id belongs to another plan already."""


class GuaranteeMismatchError(LedgerRefusal):
    """The guarantee has no price in the unit of the dataset's cap, or is for another relation."""


class UnknownDatasetError(DiscreetError, LookupError):
    """The ledger has no dataset of that name; the message names the nearest one."""


def short_repr(value: Any, most: int = 200) -> str:
    """Return how a value is written, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


def how_to_install(extra: str) -> str:
    """What to type for an optional part of the package, which is on no registry: in one place, here."""
    return f"pip install '.[{extra}]' in a checkout of discreet"


def missing_extra(package: str, extra: str) -> InvalidInputError:
    """The error where an optional package is absent."""
    return InvalidInputError(f"{package} is not installed: {how_to_install(extra)}")


def warn(message: str, category: type[Warning]) -> None:
    """Warns at the line of whoever called this package, however deep in it we are."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("discreet."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class PrivacyWarning(UserWarning):
    """A guarantee is weaker than what people take it for."""


class NoiseWarning(UserWarning):
    """The noise drowns the answer, as far as public parameters can tell."""


def drop_exception_context(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function, whose errors of ours leave with nothing behind them.

    ``raise … from None`` hides the exception that was being handled, and keeps it: whoever logs the whole
    chain would log what NumPy or an engine said of a record.
    """

    @functools.wraps(function)
    def guarded(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*arguments, **options)
        except DiscreetError as error:
            failure = error
        # Out here, where no exception is being handled, nothing becomes the context of this one.
        failure.__cause__ = failure.__context__ = None
        raise failure.with_traceback(None)

    return guarded
