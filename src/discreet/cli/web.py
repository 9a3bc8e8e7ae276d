"""``discreet studio``: the local page."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from discreet._text import printable
from discreet.cli.console import EPILOG, LedgerUrl
from discreet.errors import missing_extra


def register(app: typer.Typer) -> None:
    app.command("studio", epilog=EPILOG)(_studio)


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
        from discreet.studio.server import serve
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
