"""The command line. Tables for people at a terminal, plain text when piped, ``--json`` for machines.

Commands import what they need when they run, so that ``discreet --help`` is quick.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from discreet._cli import commands, ledgers
from discreet._cli.asking import Commands
from discreet._cli.console import (
    CORRUPT,
    DATA,
    EPILOG,
    EXIT_CODES,
    FILE,
    INTERNAL,
    LEDGER,
    OK,
    REFUSED,
    USAGE,
)
from discreet._registry import QUESTIONS
from discreet._text import printable
from discreet.errors import (
    CorruptLedgerError,
    CorruptReleaseError,
    DataError,
    DiscreetError,
    EngineFailure,
    FileError,
    InvalidInputError,
    LedgerError,
    LedgerRefusal,
    NoiseWarning,
    PrivacyWarning,
    short_repr,
)

__all__ = ["EXIT_CODES", "app", "main"]

app = typer.Typer(
    name="discreet",
    cls=Commands,
    help="Private Bayesian inference: from a column of records to a posterior that may be published.",
    epilog=EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        commands.show_version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


commands.register(app)
ledgers.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command of the ``discreet`` program and exit with one of EXIT_CODES."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ε must not cost a release
    sys.exit(_run(arguments, as_json="--json" in arguments))


def _message(error: DiscreetError, arguments: Sequence[str]) -> str:
    """Return the message of an error, in which a parameter has the name of its option."""
    if not isinstance(error, InvalidInputError) or error.parameter is None:
        return str(error)
    option = "--" + error.parameter.replace("_", "-")
    for word, following in zip(arguments, (*arguments[1:], ""), strict=True):
        name, equals, value = word.partition("=")
        if name == option:
            return error.describe(f"{option} {value if equals else following}")
    asked = next((QUESTIONS[word] for word in arguments if word in QUESTIONS), None)
    options = [] if asked is None else [p.name for p in asked.parameters() if p.name != asked.subject()]
    name = option if error.parameter in options else error.parameter
    return error.describe(f"{name} {short_repr(error.value)}" if error.has_value else name)


def _usage(usage: Any) -> str:
    """Return click's message about wrong usage; for an unknown option, say where it belongs."""
    command, option = usage.ctx, getattr(usage, "option_name", None)
    if command is None or option is None or command.info_name not in QUESTIONS:
        return str(usage.format_message()).rstrip(".")
    asked, name = QUESTIONS[command.info_name], option.strip("-").replace("-", "_")
    if name == asked.subject():
        return f"{option} is not an option: give the {name} as an argument, without {option}"
    return f"{option} {asked.explain_unknown(name).rstrip('?')}"


def _run(arguments: Sequence[str], as_json: bool) -> int:
    def report(kind: str, name: str, message: str) -> None:
        text = json.dumps({kind: {"type": name, "message": message}}) if as_json else f"{kind}: {message}"
        typer.echo(printable(text, keep="\n"), err=True)

    def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        report("warning", category.__name__, str(message))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", NoiseWarning)
            warnings.simplefilter("always", PrivacyWarning)
            warnings.showwarning = show_warning
            code = app(arguments, prog_name="discreet", standalone_mode=False)
            sys.stdout.flush()
            return code or OK
    except DiscreetError as error:
        report("error", type(error).__name__, _message(error, arguments))
        return _exit_code(error)
    except (BrokenPipeError, SystemExit) as error:
        if isinstance(error, SystemExit) and error.code != 1:  # 1 is what click makes of a broken pipe
            raise
        # The reader has gone, as in `| head`; Python must not complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (KeyboardInterrupt, typer.Abort):
        report("error", "Interrupted", "interrupted")
        return 130
    except OSError as error:
        report("error", "FileError", f"a file cannot be read or written: {error.strerror}")
        return FILE
    except Exception as error:
        usage: Any = error  # click's own error, whichever click typer brings
        if hasattr(usage, "format_message"):
            command = usage.ctx.command_path if getattr(usage, "ctx", None) else "discreet"
            report("error", "UsageError", f"{_usage(usage)}. Try '{command} --help'.")
            return USAGE
        if os.environ.get("DISCREET_DEBUG"):
            raise
        # The message of an unforeseen error may quote data, so only its type is shown.
        hint = "set DISCREET_DEBUG=1 to see the traceback, but do not publish it: it may quote data"
        report("error", "InternalError", f"internal error ({type(error).__name__}); {hint}")
        return INTERNAL


def _exit_code(error: DiscreetError) -> int:
    codes = (
        (FileError, FILE),
        (CorruptReleaseError, CORRUPT),
        (CorruptLedgerError, CORRUPT),
        (DataError, DATA),
        (EngineFailure, INTERNAL),
        (LedgerRefusal, REFUSED),
        (LedgerError, LEDGER),
    )
    return next((code for kind, code in codes if isinstance(error, kind)), USAGE)
