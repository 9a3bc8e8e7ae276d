"""Commands that open no data: ``plan``, ``audit``, ``mechanisms``, ``version``, ``reproduce``, ``studio``."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet._interop import reproductions
from discreet._registry import MECHANISMS
from discreet._text import printable
from discreet.cli.console import (
    LOSS,
    Delta,
    Force,
    Json,
    LedgerUrl,
    MechanismOptions,
    Prior,
    add_commands,
    new_file,
    note,
    picture,
    print_found,
    print_json,
    print_table,
    print_text,
)
from discreet.errors import InvalidInput, missing_extra

if TYPE_CHECKING:
    from discreet.planning.audit import Audit


def register(app: typer.Typer) -> None:
    add_commands(app, plan=_plan, audit=_audit, mechanisms=_mechanisms, version=show_version)
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("reproduce", context_settings=passed_on, add_help_option=False)(_reproduce)
    add_commands(app, studio=_studio)


def _plan(
    prior: Prior = "1,1",
    n: Annotated[int | None, typer.Option("--n", help="Number of records; to be found if not said.")] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Privacy budget, such as 0.5; to be found if not said.")
    ] = None,
    delta: Delta = None,
    relation: Annotated[
        str, typer.Option(help="replace-one; add-remove, where n is private and a guess.", metavar="R")
    ] = "replace-one",
    within: Annotated[
        str | None,
        typer.Option(help="Precision to reach: '3 points' for an interval of ± 3 points.", metavar="W"),
    ] = None,
    share: Annotated[float, typer.Option(help="The share that is planned for.", metavar="P")] = 0.5,
    error: Annotated[
        float | None, typer.Option(help="Expected Hellinger error to reach, between 0 and 1.", metavar="E")
    ] = None,
    public: Annotated[
        str | None, typer.Option(help="Counts of public records, one per level, that enter the prior: 40,60.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the error against epsilon into this new file.")
    ] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Say how precise a release will be, before any data is opened.

    Give two of --n, --epsilon and --within: the third is found.
    """
    from discreet.questions.text import SERIES

    parameters = SERIES.read(prior, "--prior")
    known = None if public is None else SERIES.read(public, "--public")
    with new_file(plot, force, "--plot") as write:
        import discreet

        target: dict[str, Any] = {"within": within, "error": error, "share": share}
        target |= {"delta": delta, "relation": relation}
        found = discreet.plan(prior=parameters, n=n, epsilon=epsilon, public=known, **target)
        if plot is not None:
            budgets = sorted({*discreet.plots.EPSILONS, found.epsilon})
            axes = discreet.plots.error_curve(found.prior, found.n, budgets)
            axes.axvline(found.epsilon, linestyle=":", color="0.4", linewidth=1.0)
            write(picture(axes, plot))
    if as_json or not sys.stdout.isatty():
        print_found(found.to_dict(), as_json, str(found))
    else:
        print_text(found.title())
        print_table(found.header(), found.cells())
        print_text(*found.notes())
    if plot is not None:
        note(f"Saved to {plot}")


def _audit(
    mechanism: Annotated[str, typer.Argument(help="See `discreet mechanisms`.")],
    prior: Prior,
    n: Annotated[int, typer.Option("--n", help="Number of records.")],
    epsilon: Annotated[str, typer.Option(help="Privacy budget of the mechanism, such as 0.5 or 1/2.")],
    delta: Delta = None,
    options: MechanismOptions = "",
    csv: Annotated[Path | None, typer.Option(help="Write the curve delta(epsilon) to this new file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the curve into this new file.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute the exact privacy loss of a mechanism over all datasets of n records."""
    from discreet.questions.text import OPTIONS, SERIES

    parameters = SERIES.read(prior, "--prior")
    with new_file(csv, force, "--csv") as write_csv, new_file(plot, force, "--plot") as write_plot:
        import discreet

        given = {**OPTIONS.read(options, "--options"), **({} if delta is None else {"delta": delta})}
        found = discreet.audit(discreet.mechanism(mechanism, prior=parameters, n=n, epsilon=epsilon, **given))
        if csv is not None:
            rows = zip(*found.profile(), strict=True)
            write_csv("epsilon,delta\n" + "".join(f"{float(e)!r},{float(d)!r}\n" for e, d in rows))
        if plot is not None:
            write_plot(picture(discreet.plots.profile(found), plot))
    print_found(_audit_document(found), as_json, str(found))
    for path in (csv, plot):
        if path is not None:
            note(f"Saved to {path}")
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
    """Make the tables and figures of the papers anew, with a verdict on what each states."""
    command = reproductions("command")
    if command is None:
        raise InvalidInput(
            "discreet reproduce comes with a package of its own, which is not installed; in a checkout of "
            "discreet: pip install ./reproductions"
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
    """Open a local page to plan, release, keep the budget and audit, without writing code.

    It serves this machine only. The printed address holds a token that is new at every start.
    """
    try:
        from discreet.studio.app import serve
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
