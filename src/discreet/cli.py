"""The command line. Tables for people at a terminal, plain text when piped, ``--json`` for machines.

Commands import what they need when they run, so that ``discreet --help`` is quick.
"""

from __future__ import annotations

import io
import json
import os
import secrets
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.core import CorruptReleaseError, DataError, DiscreetError, FileError, InvalidInput, NoiseWarning

if TYPE_CHECKING:
    from discreet.auditing import Audit
    from discreet.planning import Plan
    from discreet.releases import Release

__all__ = ["EXIT_CODES", "app", "main"]

OK, USAGE, DATA, FILE, CORRUPT, LOSS, INTERNAL = 0, 2, 3, 4, 5, 6, 70

EXIT_CODES = {
    OK: "done",
    USAGE: "wrong usage, or a parameter that cannot be used",
    DATA: "the data do not fit the declared levels",
    FILE: "a file cannot be read or written",
    CORRUPT: "a release file is corrupt or of an unknown version",
    LOSS: "the audit found a loss above the claim",
    INTERNAL: "internal error",
}

_EPILOG = "\b\nExit codes:\n" + "\n".join(f"  {code:<3} {meaning}" for code, meaning in EXIT_CODES.items())

app = typer.Typer(
    name="discreet",
    help="Private Bayesian inference: from a column of records to a posterior that may be published.",
    epilog=_EPILOG,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Format(StrEnum):
    """What standard input holds."""

    CSV = "csv"
    TSV = "tsv"
    PARQUET = "parquet"
    JSON = "json"
    JSONL = "jsonl"


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of text.")]
Interval = Annotated[float, typer.Option(help="Probability of the credible intervals.", metavar="P")]


Gamma = Annotated[float | None, typer.Option(help="Smoothness of ehds; 1 if not said.")]
Delta = Annotated[str | None, typer.Option(help="The delta of mbeta, such as 1e-6.")]
Calibration = Annotated[
    str | None, typer.Option(help="theorem, or exact: raise the rate of ehd, ehds or ehdl by enumeration.")
]


Prior = Annotated[str, typer.Option(help="Dirichlet prior, one number per level: 1,1,1.")]
Force = Annotated[bool, typer.Option("--force", help="Let new files replace old ones.")]


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        _version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("release", epilog=_EPILOG)
def _release(
    file: Annotated[
        str, typer.Argument(help="A .csv, .tsv, .parquet, .json or .jsonl file; - is standard input.")
    ],
    epsilon: Annotated[str, typer.Option(help="Privacy budget of this release, such as 0.5 or 1/2.")],
    levels: Annotated[str, typer.Option(help="All values a record may take: never,former,current.")] = "",
    level: Annotated[
        list[str] | None,
        typer.Option(help="One more level, taken literally; repeat it. For levels with a comma."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The column to count; CSV and TSV always need it.")
    ] = None,
    prior: Annotated[
        str, typer.Option(help="Dirichlet prior: one number for all levels, or one each: 1,2,1.")
    ] = "1",
    mechanism: Annotated[str, typer.Option(help="See `discreet mechanisms`.")] = "auto",
    gamma: Gamma = None,
    delta: Delta = None,
    calibration: Calibration = None,
    other: Annotated[str | None, typer.Option(help="Level that receives values outside the levels.")] = None,
    missing: Annotated[str | None, typer.Option(help="Level that receives missing values.")] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Public number of records; checked against the data.")
    ] = None,
    format: Annotated[Format | None, typer.Option(help="What standard input holds; csv if not said.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the release to this new JSON file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Let --out replace a file.")] = False,
    as_json: Json = False,
) -> None:
    """Release a private posterior of the proportions of a column's levels.

    Every run spends epsilon anew, so a second run for a nicer answer costs twice.
    """
    declared = [*_split(levels, "--levels"), *(level or ())]
    if not declared:
        raise InvalidInput("declare the levels: --levels never,former,current")
    parameters = _numbers(prior, "--prior")
    with _new_file(out, force, "--out") as write, _source(file, format) as source:
        import discreet

        result = discreet.release(
            source,
            column=column,
            levels=declared,
            epsilon=epsilon,
            prior=parameters[0] if len(parameters) == 1 else parameters,
            mechanism=mechanism,
            other=other,
            missing=missing,
            n=n,
            **_options(gamma=gamma, delta=delta, calibration=calibration),
        )
        write(result.to_json())
    if as_json:
        _print_json(json.loads(result.to_json()))
        return
    _print_release(result)
    note = f"Saved to {out}" if out else "Not saved: give --out FILE to keep the release"
    typer.echo(_printable(note), err=True)


@app.command("show", epilog=_EPILOG)
def _show(
    file: Annotated[Path, typer.Argument(help="A release that `discreet release --out` wrote.")],
    interval: Interval = 0.95,
    as_json: Json = False,
) -> None:
    """Show a release: posterior, guarantee, and what the guarantee means."""
    if not 0 < interval < 1:
        raise InvalidInput(f"--interval {interval:g} must be between 0 and 1, such as 0.95")
    try:
        with _file_problems("file", file, "read"):
            text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CorruptReleaseError(f"{str(file)!r} is not a release: it is not text in UTF-8") from None
    import discreet

    result = discreet.Release.from_json(text)
    if as_json:
        _print_json({"interval": interval, "table": result.table(interval), **json.loads(text)})
    else:
        _print_release(result, interval)


@app.command("plan", epilog=_EPILOG)
def _plan(
    prior: Prior,
    n: Annotated[int | None, typer.Option("--n", help="Number of records; to be found if not said.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy budget, such as 0.5; to be found if not said.")
    ] = None,
    error: Annotated[
        float | None, typer.Option(help="Expected Hellinger error to reach, between 0 and 1.", metavar="E")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the error against epsilon into this new file.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say what error to expect of each mechanism, before any data is opened.

    Give two of --n, --epsilon and --error: the third is found.
    """
    parameters = _numbers(prior, "--prior")
    with _new_file(plot, force, "--plot") as write:
        import discreet

        found = discreet.plan(prior=parameters, n=n, epsilon=epsilon, error=error)
        if plot is not None:
            budgets = sorted({*discreet.plots.EPSILONS, found.epsilon})
            axes = discreet.plots.error_curve(found.prior, found.n, budgets)
            axes.axvline(found.epsilon, linestyle=":", color="0.4", linewidth=1.0)
            write(_picture(axes, plot))
    if as_json:
        _print_json(found.to_dict())
    else:
        _print_plan(found)
    if plot is not None:
        typer.echo(_printable(f"Saved to {plot}"), err=True)


@app.command("audit", epilog=_EPILOG)
def _audit(
    mechanism: Annotated[str, typer.Argument(help="See `discreet mechanisms`.")],
    prior: Prior,
    n: Annotated[int, typer.Option("--n", help="Number of records.")],
    epsilon: Annotated[str, typer.Option(help="Privacy budget of the mechanism, such as 0.5 or 1/2.")],
    gamma: Gamma = None,
    delta: Delta = None,
    calibration: Calibration = None,
    csv: Annotated[Path | None, typer.Option(help="Write the curve delta(epsilon) to this new file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve into this new file.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute the exact privacy loss of a mechanism over all datasets of n records."""
    parameters = _numbers(prior, "--prior")
    with _new_file(csv, force, "--csv") as write_csv, _new_file(plot, force, "--plot") as write_plot:
        import discreet

        options = _options(gamma=gamma, delta=delta, calibration=calibration)
        found = discreet.audit(
            discreet.mechanism(mechanism, prior=parameters, n=n, epsilon=epsilon, **options)
        )
        if csv is not None:
            rows = zip(*found.profile(), strict=True)
            write_csv("epsilon,delta\n" + "".join(f"{float(e)!r},{float(d)!r}\n" for e, d in rows))
        if plot is not None:
            write_plot(_picture(discreet.plots.profile(found), plot))
    if as_json:
        _print_json(_audit_document(found))
    else:
        typer.echo(_printable(str(found), keep="\n"))
    for path in (csv, plot):
        if path is not None:
            typer.echo(_printable(f"Saved to {path}"), err=True)
    if not found.holds:
        raise typer.Exit(LOSS)


def _audit_document(audit: Audit) -> dict[str, Any]:
    claimed = audit.claimed if audit.claimed.is_private else None
    return {
        "mechanism": audit.mechanism,
        "claimed": None if claimed is None else claimed.to_dict(),
        "epsilon": audit.epsilon,
        "delta": None if claimed is None else audit.delta(claimed.epsilon),
        "slack": None if claimed is None else audit.slack,
        "holds": None if claimed is None else audit.holds,
        "worst": {key: [int(count) for count in value] for key, value in audit.worst._asdict().items()},
        "triples": audit.triples,
    }


@app.command("mechanisms", epilog=_EPILOG)
def _mechanisms(as_json: Json = False) -> None:
    """List the mechanisms that `--mechanism` takes."""
    from discreet.mechanisms import MECHANISMS

    lines = {name: (cls.__doc__ or "").strip().partition("\n")[0] for name, cls in MECHANISMS.items()}
    lines = {"auto": "The one that `discreet plan` finds best.", **lines}
    if as_json:
        _print_json({"mechanisms": [{"name": name, "description": text} for name, text in lines.items()]})
    else:
        _print_table(["mechanism", "what it does"], [list(row) for row in lines.items()])


@app.command("version", epilog=_EPILOG)
def _version(as_json: Json = False) -> None:
    """Show the version."""
    from discreet import __version__

    if as_json:
        _print_json({"version": __version__})
    else:
        typer.echo(f"discreet {__version__}")


# ---- in and out ----------------------------------------------------------------------------------------


def _options(**given: Any) -> dict[str, Any]:
    """The options of a mechanism that were given; the mechanism refuses those that are not its own."""
    return {name: value for name, value in given.items() if value is not None}


def _split(text: str, option: str) -> list[str]:
    parts = [part.strip() for part in text.split(",")] if text else []
    if "" in parts:
        raise InvalidInput(f"{option} {text!r} has an empty entry; separate entries by single commas")
    return parts


def _numbers(text: str, option: str) -> list[float]:
    parts = _split(text, option)
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise InvalidInput(f"{option} {text!r} must be a number, or numbers separated by commas") from None
    if not numbers:
        raise InvalidInput(f"{option} is empty; give a number, such as 1")
    return numbers


@contextmanager
def _source(file: str, format: Format | None) -> Iterator[str | Path]:
    """The data file; standard input becomes one that only this user can read, and that is gone afterwards."""
    if file != "-":
        if format is not None:
            raise InvalidInput("--format is for standard input (-); a file says what it is by its ending")
        yield file
        return
    if sys.stdin.isatty():
        raise InvalidInput("- means standard input, but nothing is piped into it")
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        path = Path(folder, f"stdin.{format or Format.CSV}")
        with path.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield path


@contextmanager
def _new_file(path: Path | None, force: bool, option: str) -> Iterator[Callable[[str | bytes], None]]:
    """Opened before any budget is spent, and in place only when everything in the block has gone well."""
    if path is None:
        yield lambda content: None
        return
    if path.is_dir():
        raise FileError(f"{option} {str(path)!r} is a folder; give the name of a new file")
    if path.exists() and not force:
        raise FileError(f"{option} {str(path)!r} exists already; choose another name or add --force")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    held: list[str | bytes] = []
    try:
        with _file_problems(option, path, "written"):
            draft.touch(exist_ok=False)
        yield held.append
        with _file_problems(option, path, "written"):
            with draft.open("wb") as file:
                file.writelines(part if isinstance(part, bytes) else part.encode() for part in held)
                file.flush()
                os.fsync(file.fileno())
            os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def _file_problems(name: str, path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(f"{name} {str(path)!r} cannot be {verb}: {error.strerror}") from None


def _print_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2))


def _print_release(release: Release, interval: float = 0.95) -> None:
    text = release.summary(interval)
    if not sys.stdout.isatty():
        typer.echo("\n".join(map(_printable, text.split("\n"))))
        return
    head, _, rest = text.partition("\n\n")
    typer.echo(_printable(head, keep="\n"))
    rows = [
        [str(row["level"]), str(row["count"]), *(f"{row[key]:.4f}" for key in ("mean", "sd", "low", "high"))]
        for row in release.table(interval)
    ]
    tail = f"{100 * (1 - interval) / 2:g} %", f"{100 * (1 + interval) / 2:g} %"
    _print_table(["level", "count", "mean", "sd", *tail], rows)
    typer.echo(_printable(rest.rpartition("\n\n")[2]))


def _picture(axes: Any, path: Path) -> bytes:
    """What matplotlib draws, in the format that the ending names."""
    kinds = axes.figure.canvas.get_supported_filetypes()
    kind = path.suffix.lower().lstrip(".")
    if kind not in kinds:
        raise FileError(f"--plot {str(path)!r}: the ending is none of .{', .'.join(sorted(kinds))}")
    buffer = io.BytesIO()
    axes.figure.savefig(buffer, format=kind, dpi=150)
    return buffer.getvalue()


def _print_plan(plan: Plan) -> None:
    if not sys.stdout.isatty():
        typer.echo(str(plan))
        return
    typer.echo(plan.title())
    _print_table(plan.header(), plan.cells())
    typer.echo("\n".join(plan.notes()))


def _print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not sys.stdout.isatty():
        width = max(len(row[0]) for row in rows)
        for row in rows:
            typer.echo("  ".join([row[0].ljust(width), *row[1:]]))
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for index, title in enumerate(header):
        table.add_column(title, justify="right" if index and len(header) > 2 else "left")
    for row in rows:
        table.add_row(*(Text(_printable(cell)) for cell in row))
    Console().print(table)


def _printable(text: str, keep: str = "") -> str:
    """Without the control characters by which a level in a stranger's release could drive the terminal."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


# ---- errors --------------------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """The ``discreet`` program: runs a command and exits with one of EXIT_CODES."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without ε must not cost a release
    sys.exit(_run(arguments, as_json="--json" in arguments))


def _run(arguments: Sequence[str], as_json: bool) -> int:
    def report(kind: str, name: str, message: str) -> None:
        text = json.dumps({kind: {"type": name, "message": message}}) if as_json else f"{kind}: {message}"
        typer.echo(_printable(text, keep="\n"), err=True)

    def show_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: Any = None,
        line: Any = None,
    ) -> None:
        report("warning", category.__name__, str(message))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", NoiseWarning)
            warnings.showwarning = show_warning
            code = app(arguments, prog_name="discreet", standalone_mode=False)
            sys.stdout.flush()
            return code or OK
    except DiscreetError as error:
        report("error", type(error).__name__, str(error))
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
            report("error", "UsageError", f"{usage.format_message()} Try '{command} --help'.")
            return USAGE
        if os.environ.get("DISCREET_DEBUG"):
            raise
        # The message of an unforeseen error may quote data, so only its type is shown.
        hint = "set DISCREET_DEBUG=1 to see where, but do not publish that: it may quote data"
        report("error", "InternalError", f"internal error ({type(error).__name__}); {hint}")
        return INTERNAL


def _exit_code(error: DiscreetError) -> int:
    codes = ((FileError, FILE), (CorruptReleaseError, CORRUPT), (DataError, DATA))
    return next((code for kind, code in codes if isinstance(error, kind)), USAGE)


if __name__ == "__main__":
    main()
