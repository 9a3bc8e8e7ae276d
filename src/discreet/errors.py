"""The errors and warnings of the package."""

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
        What is wrong and what to do, worded to follow the name and the value of the parameter.
    parameter : str, optional
        The parameter at fault.
    value : object, optional
        Its value; left out where there is none.

    Examples
    --------
    >>> error = InvalidInputError("must be positive", "epsilon", 0)
    >>> str(error)
    'epsilon=0 must be positive'
    >>> error.describe("--epsilon 0")
    '--epsilon 0 must be positive'
    """

    def __init__(self, problem: str, parameter: str | None = None, value: Any = _UNSET) -> None:
        self.problem, self.parameter, self.value = problem, parameter, value
        has_value = value is not _UNSET
        super().__init__(self.describe(f"{parameter}={short_repr(value)}" if has_value else parameter))

    @property
    def has_value(self) -> bool:
        """Whether the error is about a value, rather than about a missing one."""
        return self.value is not _UNSET

    def describe(self, subject: str | None) -> str:
        """Return the message with another name for the parameter, such as a command-line option.

        Parameters
        ----------
        subject
            The name, with the value where there is one; None for the problem alone.

        Returns
        -------
        str
            The message.

        Examples
        --------
        >>> InvalidInputError("is missing", "epsilon").describe("--epsilon")
        '--epsilon is missing'
        """
        if subject is None:
            return self.problem
        return subject + ("" if self.problem.startswith((":", ";", ",")) else " ") + self.problem


class DataError(DiscreetError, ValueError):
    """The data do not fit the declared domain. The message holds no data value.

    Parameters
    ----------
    problem : str
        What is wrong and what to do.
    column : str, optional
        The column at fault, where that is known.
    """

    def __init__(self, problem: str, column: str | None = None) -> None:
        super().__init__(problem if column is None else f"column {column!r}: {problem}")
        self.problem, self.column = problem, column


class ContributionError(DiscreetError):
    """A record would contribute more than the noise was scaled for: a bug in this package.

    Nothing was released; please report it. The message holds no data value.
    """


class NotPrivateError(DiscreetError):
    """The call would have produced something that looks private and is not."""


class TooLargeError(DiscreetError):
    """The request needs more memory or time than allowed; the message says how much and what works."""


class FileError(DiscreetError):
    """A file is missing, unreadable, unwritable, or not what its extension says. No content is quoted."""


class EngineFailure(DiscreetError):
    """An engine that reads data failed with an internal error, which says nothing about the data.

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
    """The ledger cannot be used: missing, locked, read-only, full, unreachable, or of a newer version.

    ``request_id`` is set where a charge was under way: a retry with it returns the stored result, or makes
    the charge if there is none.
    """

    request_id: str | None = None


class MissingLedgerError(LedgerError):
    """There is no ledger at this address yet."""


class CorruptLedgerError(LedgerError):
    """A ledger was edited, cut or rolled back.

    Parameters
    ----------
    message
        What is wrong and what to do.
    row
        The first entry that does not fit, where known.
    """

    def __init__(self, message: str, row: int | None = None) -> None:
        super().__init__(message)
        self.row = row


class LedgerRefusal(DiscreetError):
    """The ledger works and refuses the request: nothing was charged and nothing is released."""


class BudgetExceededError(LedgerRefusal):
    """The request does not fit under the cap: ``spent`` + ``asked`` is more than ``cap``, exactly.

    Parameters
    ----------
    message
        What is wrong and what to do.
    cap, spent, asked
        The amounts, exactly.
    """

    def __init__(self, message: str, cap: Any = None, spent: Any = None, asked: Any = None) -> None:
        super().__init__(message)
        self.cap, self.spent, self.asked = cap, spent, asked


class RequestConflictError(LedgerRefusal):
    """The request id already belongs to another plan."""


class GuaranteeMismatchError(LedgerRefusal):
    """The guarantee has no price in the unit of the dataset's cap, or is for another relation."""


class UnknownDatasetError(DiscreetError, LookupError):
    """The ledger has no dataset of that name; the message names the nearest one."""


def short_repr(value: Any, most: int = 200) -> str:
    """Return the ``repr`` of a value, shortened where it is long.

    Parameters
    ----------
    value
        The value.
    most
        The largest number of characters.

    Returns
    -------
    str
        The text.

    Examples
    --------
    >>> short_repr("abcdef", most=4)
    "'abc…"
    """
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= most else f"{text[:most]}…"


def how_to_install(extra: str) -> str:
    """Return the command that installs an optional part of the package.

    Parameters
    ----------
    extra
        Name of the extra.

    Returns
    -------
    str
        The command.

    Examples
    --------
    >>> how_to_install("arviz")
    "pip install '.[arviz]' in a checkout of discreet"
    """
    return f"pip install '.[{extra}]' in a checkout of discreet"


def missing_extra(package: str, extra: str) -> InvalidInputError:
    """Return the error for an optional package that is not installed.

    Parameters
    ----------
    package
        Name of the package.
    extra
        Name of the extra that installs it.

    Returns
    -------
    InvalidInputError
        The error, to be raised.

    Examples
    --------
    >>> str(missing_extra("ArviZ", "arviz")).partition(":")[0]
    'ArviZ is not installed'
    """
    return InvalidInputError(f"{package} is not installed: {how_to_install(extra)}")


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning attributed to the line of user code that called this package.

    Parameters
    ----------
    message
        The text of the warning.
    category
        Class of the warning.
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("discreet."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


class PrivacyWarning(UserWarning):
    """A guarantee is weaker than a user may assume."""


class NoiseWarning(UserWarning):
    """Public parameters show that the noise will hide the answer."""


def drop_exception_context(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Remove the context of the errors that a function raises on purpose.

    ``raise … from None`` hides the exception that was being handled, but keeps it: a log of the whole chain
    would contain a message of NumPy or an engine that quotes a record.

    Parameters
    ----------
    function
        The function.

    Returns
    -------
    callable
        The function, whose :class:`DiscreetError` has neither cause nor context.

    Examples
    --------
    >>> @drop_exception_context
    ... def read(text):
    ...     try:
    ...         return int(text)
    ...     except ValueError:
    ...         raise DataError("not a whole number") from None
    >>> try:
    ...     read("secret")
    ... except DataError as error:
    ...     print(error.__context__)
    None
    """

    @functools.wraps(function)
    def call_without_context(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return function(*arguments, **options)
        except DiscreetError as error:
            failure = error
        # Out here, where no exception is being handled, nothing becomes the context of this one.
        failure.__cause__ = failure.__context__ = None
        raise failure.with_traceback(None)

    return call_without_context
