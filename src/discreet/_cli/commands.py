"""The commands that do not ask one question: for documents, studies, audits and the studio."""

from __future__ import annotations

import itertools
import json
import sys
import tomllib
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import discreet
from discreet._cli.console import (
    LOSS,
    REFUSED,
    Delta,
    Force,
    Json,
    LargeDelta,
    LedgerUrl,
    Level,
    MechanismOptions,
    Prior,
    Records,
    add_commands,
    answers_of,
    file_problems,
    new_file,
    note,
    picture,
    print_answers,
    print_found,
    print_json,
    print_table,
    print_text,
)
from discreet._interop import reproductions
from discreet._registry import MECHANISMS
from discreet._text import printable
from discreet.errors import InvalidInputError, missing_extra

if TYPE_CHECKING:
    from discreet.planning.audit import Audit


def register(app: typer.Typer) -> None:
    add_commands(app, show=_show, run=_run, split=_split, report=_report, statement=_statement)
    add_commands(
        app,
        schema=_schema,
        check=_check,
        audit=_audit,
        distribution=_distribution,
        mechanisms=_mechanisms,
        version=show_version,
    )
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("reproduce", context_settings=passed_on, add_help_option=False)(_reproduce)
    add_commands(app, studio=_studio)


# ---- documents -----------------------------------------------------------------------------------------


def _show(
    file: Annotated[Path, typer.Argument(help="A release of any kind, or the document of a study.")],
    level: Level = 0.95,
    draws: Annotated[
        int | None, typer.Option(min=1, help="With --json: how many posterior draws to print, at no cost.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same draws.")] = None,
    as_json: Json = False,
) -> None:
    """Show a release: posterior, guarantee, and what the guarantee means."""
    if not 0 < level < 1:
        raise InvalidInputError(f"--level {level:g} must be between 0 and 1, such as 0.95")
    text, result = _read(file)
    signature = file.with_name(file.name + ".sig")  # of 0.2, which signed documents
    if not as_json:
        print_answers(result, level)
        if signature.exists():
            print_text(f"Signature {signature.name!r}: not checked.")
        return
    tables = {name: answer.shown_table(level) for name, answer in answers_of(result).items()}
    signed: dict[str, Any] = {"signature": "not checked"} if signature.exists() else {}
    if draws is not None:
        drawn = {name: _drawn(answer, draws, seed) for name, answer in answers_of(result).items()}
        signed["draws"] = drawn.get("", drawn)
    print_json({"level": level, "table": tables.get("", tables), **signed, **json.loads(text)})


def _drawn(answer: Any, size: int, seed: int | None) -> dict[str, Any]:
    names = [":".join(map(str, name)) if isinstance(name, tuple) else str(name) for name in answer.names]
    return {"names": names, "values": answer.draws(size, seed).tolist()}


def _read(file: Path) -> tuple[str, Any]:
    """Return the text of a document, and the answer in it."""
    from discreet._documents.answer import load_answer
    from discreet._documents.base import read_text

    with file_problems("file", file, "read"):
        text = read_text(file)

    return text, load_answer(text)


def _run(
    file: Annotated[Path, typer.Argument(help="A study file, .toml or .json.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for study.json and report.html; STUDY-results by default.")
    ] = None,
    price: Annotated[
        bool, typer.Option("--price", help="Print the cost and whether the budget allows it; spend nothing.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check/--no-check",
            help="Check that the data fit every question before the first charge; --no-check if others see "
            "the exit code, which would tell them about the data.",
        ),
    ] = True,
    acknowledge_large_delta: LargeDelta = False,
    as_json: Json = False,
) -> None:
    """Answer the questions of a study file, each charged to its ledger.

    A second run answers only the questions that are still open. Nothing is spent when the questions
    together exceed the budget.
    """
    from discreet._reporting.report import report
    from discreet.study.study import read_study, run_study

    declared = read_study(file)
    if price:
        quote = declared.open().price(declared.questions)
        print_found(quote.to_dict(), as_json, str(quote))
        if not quote.fits:
            raise typer.Exit(REFUSED)
        return
    count = itertools.count(1)

    def progress(name: str, repeated: bool) -> None:
        note(f"{next(count)}/{len(declared.questions)} {name}{': answered earlier' if repeated else ''}")

    folder = out if out is not None else file.with_name(f"{file.stem}-results")

    def keep(result: Any) -> None:
        with file_problems("--out", folder, "written"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("study.json", result.to_json()), ("report.html", report(result))):
            with new_file(folder / name, True, "--out") as write:
                write(text)
        if len(result.answers) < len(declared.questions):
            note(f"The answers so far are in {folder}")

    with discreet.acknowledge_large_delta() if acknowledge_large_delta else nullcontext():
        result = run_study(declared, progress=progress, check=check, keep=keep)
    account = result.account
    assert account is not None
    if as_json:
        files = {"study": str(folder / "study.json"), "report": str(folder / "report.html")}
        print_json({**files, "budget": account.to_dict()})
        return
    print_answers(result)
    note(f"Spent {account.spent} of {account.cap}. Saved to {folder}")


def _split(
    file: Annotated[Path, typer.Argument(help="A study file whose questions have within or weight.")],
    as_json: Json = False,
) -> None:
    """Divide the budget of a study file among its questions; opens no data.

    A question says within = "3 points", or weight = 2, instead of epsilon. `run` divides in the same way.
    """
    from discreet.study.study import read_study

    division = read_study(file).split
    if division is None:
        raise InvalidInputError(
            "every question has an epsilon, so there is nothing to divide: leave epsilon out and give "
            'within = "3 points" or weight = 1'
        )
    print_found(division.to_dict(), as_json, str(division))


def _report(
    file: Annotated[list[Path], typer.Argument(help="Releases, or the document of a study.", metavar="FILE")],
    out: Annotated[Path, typer.Option(help="Write the report to this new HTML file.")],
    title: Annotated[str | None, typer.Option(help="Heading of the report.")] = None,
    ledger: Annotated[
        str | None,
        typer.Option(help="The ledger that was charged: its receipt becomes a part of the report."),
    ] = None,
    force: Force = False,
) -> None:
    """Make a self-contained HTML report of one or more releases, to read, print and file."""
    answers = {}
    for path in file:
        text, answer = _read(path)
        answers[path.stem] = answer if ledger is None else _with_receipt(answer, text, ledger)
    if len(answers) < len(file):
        raise InvalidInputError("the files must have different names, which are the headings of the report")
    with new_file(out, force, "--out") as write:
        from discreet._reporting.report import report

        result = answers if len(file) > 1 else next(iter(answers.values()))
        write(report(result, title=title))
    note(f"Saved to {out}")


def _statement(
    file: Annotated[Path, typer.Argument(help="The document of a study: study.json.")],
    out: Annotated[Path, typer.Option(help="Folder for deployment.yaml and review.html.")],
    about: Annotated[
        Path | None,
        typer.Option(
            help="TOML file with the registry's fields that discreet cannot fill in.", metavar="FILE"
        ),
    ] = None,
    force: Force = False,
) -> None:
    """State for a regulator what a study released: a registry record, and a page for review.

    The record follows the public registry of deployments of differential privacy. It is written once
    its required fields are filled; the page marks what a person still has to answer.
    """
    from discreet._documents.study import StudyResult
    from discreet._reporting import statement

    _, result = _read(file)
    if not isinstance(result, StudyResult):
        raise InvalidInputError(
            f"{file.name!r} is a single release: a statement needs the document of a study"
        )
    written: dict[str, Any] = {}
    if about is not None:
        with file_problems("--about", about, "read"):
            text = about.read_text("utf-8")
        try:
            written = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InvalidInputError(f"--about {about.name!r} is not TOML: {error}") from None
    record, missing = statement.registry_record(result, written)
    page = statement.review_page(result, written)
    with file_problems("--out", out, "written"):
        out.mkdir(exist_ok=True)
    with new_file(out / "review.html", force, "--out") as write:
        write(page)
    note(f"Saved to {out / 'review.html'}")
    if missing:
        names = ", ".join(missing)
        note(f"No record was written: it needs {names}; give these in a .toml file with --about FILE")
        return
    with new_file(out / "deployment.yaml", force, "--out") as write:
        write(statement.as_yaml(record))
    note(f"Saved to {out / 'deployment.yaml'}: a draft of tier {record['tier']}")


def _with_receipt(answer: Any, text: str, url: str) -> Any:
    """Return the answer with the receipt of its charge, looked up in the ledger by its document."""
    if "" not in answers_of(answer):
        raise InvalidInputError(
            "--ledger is for a single release: the document of a study already has its receipts"
        )
    with discreet.Ledger(url) as book:
        # As it stands first: an earlier version wrote fewer fields than this one writes again.
        receipt = book.receipt_of(text) or book.receipt_of(answer.to_json())
    if receipt is None:
        raise InvalidInputError(
            "this release is not in the ledger: it was not charged there, or the document was changed; check "
            "--ledger, or leave it out for a report without a receipt"
        )
    return answer.with_receipt(receipt)


# ---- without data ------------------------------------------------------------------------------------


def _schema(
    file: Records,
    n: Annotated[
        str | None,
        typer.Option("--n", help="The number of records, if it is public; 'public' reads it from the data."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the template to this new TOML file.")] = None,
    force: Force = False,
) -> None:
    """Write a template of a schema: the names of the columns, with empty declarations to fill in.

    Types are shown where the format of the file stores them; the values are not looked at.
    """
    from discreet._data.codebook import schema_template

    text = schema_template(file, n)
    if out is None:
        typer.echo(printable(text, keep="\n"), nl=False)
        return
    with new_file(out, force, "--out") as write:
        write(text)
    note(f"Saved to {out}: fill in values and bounds from what is publicly known, not from the data")


def _check(
    file: Records,
    schema: Annotated[Path, typer.Argument(help="A schema: a .toml or .json file.", metavar="SCHEMA")],
) -> None:
    """Tell the curator, on a terminal only, how many records do not fit a schema. Nothing is written.

    The numbers depend on the data. Do not change bounds or values because of them: the schema would then
    reveal something about the records.
    """
    from discreet._data.codebook import misfits

    if not sys.stdout.isatty():
        raise InvalidInputError(
            "check prints private counts, to a terminal only: run it without redirecting its output"
        )
    declared = discreet.Schema.load(schema)
    rows = [[name, *(f"{count:,}" for count in counts)] for name, counts in misfits(file, declared).items()]
    print_table(["column", "missing", "undeclared or out of bounds", "records"], rows)
    print_text(
        "These numbers are private: do not publish them, and do not change declared values or bounds because "
        "of them."
    )


def _audit(
    mechanism: Annotated[str, typer.Argument(help="Its name, as `discreet mechanisms` lists it.")],
    prior: Prior,
    n: Annotated[int, typer.Option("--n", help="Number of records.")],
    epsilon: Annotated[str, typer.Option(help="Privacy budget of the mechanism, such as 0.5 or 1/2.")],
    delta: Delta = None,
    options: MechanismOptions = "",
    csv: Annotated[Path | None, typer.Option(help="Write the curve delta(epsilon) to this new file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot the curve into this new file.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute the exact privacy loss of a mechanism over all datasets of n records."""
    from discreet.questions._text import OPTIONS, SERIES

    parameters = SERIES.read(prior, "--prior")
    with new_file(csv, force, "--csv") as write_csv, new_file(plot, force, "--plot") as write_plot:
        extra = {**OPTIONS.read(options, "--options"), **({} if delta is None else {"delta": delta})}
        result = discreet.audit(
            discreet.mechanism(mechanism, prior=parameters, n=n, epsilon=epsilon, **extra)
        )
        if csv is not None:
            rows = zip(*result.profile(), strict=True)
            write_csv("epsilon,delta\n" + "".join(f"{float(e)!r},{float(d)!r}\n" for e, d in rows))
        if plot is not None:
            write_plot(picture(discreet.plots.profile(result), plot))
    print_found(_audit_document(result), as_json, str(result))
    for path in (csv, plot):
        if path is not None:
            note(f"Saved to {path}")
    if not result.holds:
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


def _distribution(
    mechanism: Annotated[str, typer.Argument(help="Its name, as `discreet mechanisms` lists it.")],
    counts: Annotated[str, typer.Option(help="The counts, such as 4,4; not those of real people.")],
    prior: Prior,
    epsilon: Annotated[str, typer.Option(help="Privacy budget of the mechanism, such as 0.5 or 1/2.")],
    n: Annotated[int | None, typer.Option("--n", help="Number of records, if --counts is one total.")] = None,
    delta: Delta = None,
    options: MechanismOptions = "",
    as_printed: Annotated[
        bool, typer.Option("--as-printed", help="Add the columns of the papers' tables, and 12 digits.")
    ] = False,
    rows: Annotated[int, typer.Option(min=3, help="Rows to print; the others are combined.")] = 20,
    plot: Annotated[Path | None, typer.Option(help="Plot the distribution into this new file.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Show what a mechanism can release for some counts: each candidate, its distance and its probability.

    The mechanism lshist is shown for comparison. Use counts of your own: nothing is drawn, and the output is
    not private.
    """
    from discreet.planning.candidates import candidate_distribution
    from discreet.questions._text import OPTIONS, SERIES, WHOLES

    given = WHOLES.read(counts, "--counts")
    extra = {**OPTIONS.read(options, "--options"), **({} if delta is None else {"delta": delta})}
    with new_file(plot, force, "--plot") as write_plot:
        m = discreet.mechanism(
            mechanism,
            prior=SERIES.read(prior, "--prior"),
            n=sum(given) if n is None else n,
            epsilon=epsilon,
            **extra,
        )
        found = candidate_distribution(m, given, as_printed=as_printed)
        if plot is not None:
            write_plot(picture(discreet.plots.distribution(found), plot))
    table = found.table(rows)
    if as_json:
        print_json(found.to_dict())
    elif not sys.stdout.isatty():
        print_text(str(table))
    else:
        print_text(table.caption)
        print_table(table.header, table.cells, wrap=0)
        print_text(table.below)
    if plot is not None:
        note(f"Saved to {plot}")


def _mechanisms(as_json: Json = False) -> None:
    """List the mechanisms that `--mechanism` takes."""
    lines = {name: (cls.__doc__ or "").strip().partition("\n")[0] for name, cls in MECHANISMS.items()}
    lines = {"auto": "Chosen by a rule on public parameters: the prior, n and epsilon.", **lines}
    if as_json:
        print_json({"mechanisms": [{"name": name, "description": text} for name, text in lines.items()]})
    else:
        print_table(["mechanism", "what it does"], [list(row) for row in lines.items()])


def show_version(as_json: Json = False) -> None:
    """Show the version."""
    from discreet._version import __version__

    print_found({"version": __version__}, as_json, f"discreet {__version__}")


def _reproduce(context: typer.Context) -> None:
    """Reproduce the tables and figures of the papers, with a verdict on each statement."""
    command = reproductions("command")
    if command is None:
        raise InvalidInputError(
            "discreet reproduce needs a package that is not installed; in a checkout of discreet, run: "
            "pip install ./reproductions"
        )
    raise typer.Exit(command(context.args, prog_name=context.command_path, standalone_mode=False) or 0)


def _studio(
    ledger: LedgerUrl = None,
    port: Annotated[int, typer.Option(help="Port on this machine; 0 takes a free one.")] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address; open no browser.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder whose files and DuckDB tables may be chosen on the page.")
    ] = None,
) -> None:
    """Open a local page to plan, release, track budgets and audit, without writing code.

    It serves this machine only. The printed address holds a token that is new at every start.
    """
    try:
        from discreet._studio.app import serve
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "discreet":
            raise
        raise missing_extra(f"{error.name}, which the studio needs,", "web") from None
    with suppress(KeyboardInterrupt):  # how a studio ends
        serve(ledger=ledger, data=data, port=port, browser=not no_browser, say=_say)
    typer.echo("The studio has ended; uploads are removed.", err=True)


def _say(address: str) -> None:
    typer.echo(printable(address))
    typer.echo("Ctrl+C ends the studio.", err=True)
