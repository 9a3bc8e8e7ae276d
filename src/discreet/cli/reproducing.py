"""``discreet reproduce``: the papers behind the methods, which are a package of their own."""

from __future__ import annotations

import typer

from discreet._interop import reproductions
from discreet.errors import InvalidInput


def register(app: typer.Typer) -> None:
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True}
    app.command("reproduce", context_settings=passed_on, add_help_option=False)(_reproduce)


def _reproduce(context: typer.Context) -> None:
    """Make the tables and figures of the papers anew, with a verdict on what each states."""
    command = reproductions("command")
    if command is None:
        raise InvalidInput(
            "discreet reproduce comes with a package of its own, which is not installed; in a checkout of "
            "discreet: pip install ./reproductions"
        )
    raise typer.Exit(command(context.args, prog_name=context.command_path, standalone_mode=False) or 0)
