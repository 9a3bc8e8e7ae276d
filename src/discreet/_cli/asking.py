"""The commands that ask or plan a question, one for each kind, made from its fields when it is used."""

from __future__ import annotations

import inspect
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

import discreet
from discreet._cli.console import (
    EPILOG,
    CommandGroup,
    Dataset,
    Force,
    Json,
    LargeDelta,
    LedgerUrl,
    Level,
    Out,
    Pattern,
    Piped,
    Records,
    RequestId,
    new_file,
    note,
    print_answer,
    print_found,
    print_json,
    source,
)
from discreet._registry import QUESTIONS, SENTENCES
from discreet._text import nearest
from discreet.errors import InvalidInputError

if TYPE_CHECKING:
    from discreet.questions._text import Parameter
    from discreet.questions.base import Question

_REPEATS_COST_AGAIN = """Every run spends epsilon again, so a second run for a nicer answer costs twice. With
--dataset and --ledger the charge is recorded, or refused when the budget does not allow it."""
SchemaFile = Annotated[
    Path,
    typer.Argument(
        help="What is public about the data, a .toml or .json file; `discreet schema FILE` makes a template.",
        metavar="SCHEMA",
    ),
]


def sentence_of(kind: str) -> str:
    """Return the description of a kind of question; built-in kinds need no import."""
    return SENTENCES[kind] if kind in SENTENCES else QUESTIONS[kind].sentence


class Commands(CommandGroup):
    """The group of all commands: one for each kind of question, then the others."""

    def list_commands(self, context: Any) -> list[str]:
        """Return the names of all commands."""
        others = super().list_commands(context)
        return [*(kind for kind in QUESTIONS if kind not in others), *others, "plan"]

    def get_command(self, context: Any, name: str) -> Any:
        """Return the command of this name; the command of a question is built on first use."""
        command = super().get_command(context, name)
        if command is None and name in QUESTIONS:
            return _question_command(name, QUESTIONS[name])
        return PlanCommands(name="plan", help=_PLAN_HELP) if command is None and name == "plan" else command

    def sentences(self, context: Any) -> list[tuple[str, str]]:
        """Return every command with its description, without loading a question."""
        help_texts = {name: command.get_short_help_str(1000) for name, command in self.commands.items()}
        help_texts["plan"] = _PLAN_HELP.partition("\n")[0]
        return [
            (name, help_texts[name] if name in help_texts else sentence_of(name))
            for name in self.list_commands(context)
        ]


_PLAN_HELP = """Say how precise an answer will be, or which epsilon or n it needs, before any data are opened.

Give two of --n (unless the schema declares it), --epsilon and --within: the third is computed."""


class PlanCommands(CommandGroup):
    """``discreet plan KIND``: a command for each kind of question."""

    def list_commands(self, context: Any) -> list[str]:
        """Return the kinds of questions."""
        return list(QUESTIONS)

    def get_command(self, context: Any, name: str) -> Any:
        """Return the command that plans a kind of question."""
        return _plan_command(name, QUESTIONS[name]) if name in QUESTIONS else None

    def sentences(self, context: Any) -> list[tuple[str, str]]:
        """Return every kind of question with its description."""
        return [(kind, sentence_of(kind)) for kind in QUESTIONS]


def _make_command(
    name: str, help: str, run: Callable[..., None], options: Iterable[inspect.Parameter]
) -> Any:
    """Return a command that runs a function with these options."""
    run.__signature__ = inspect.Signature(list(options))  # type: ignore[attr-defined]
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, help=help, epilog=EPILOG)(run)
    return get_command(app)


def _fields(question: type[Question]) -> tuple[dict[str, Parameter], list[inspect.Parameter]]:
    """Return the fields of a question that a command line can set, by name, and their options."""
    written = {parameter.name: parameter for parameter in question.parameters() if not parameter.python}
    subject = question.subject()
    first = [_argument(written[subject])] if subject in written else []
    return written, [*first, *(_option(parameter) for name, parameter in written.items() if name != subject)]


def _argument(parameter: Parameter) -> inspect.Parameter:
    metavar = parameter.name.upper()
    if parameter.form.name == "names":
        many = typer.Argument(help=parameter.help, metavar=f"[{metavar}]...")
        return _keyword(parameter.name, Annotated[list[str] | None, many], None)
    shown = metavar if parameter.required else f"[{metavar}]"
    single = typer.Argument(help=parameter.help, metavar=shown, show_default=False)
    return _keyword(parameter.name, Annotated[str | None, single], None)


def _plan_command(kind: str, question: type[Question]) -> Any:
    """Return the command that plans a question, with options for its fields, the width and guesses."""
    written, options = _fields(question)

    def run(
        schema: SchemaFile,
        within: Annotated[str | None, typer.Option(help="The wanted half-width: 0.02, '2 points'.")] = None,
        n: Annotated[int | None, typer.Option("--n", help="The approximate number of records.")] = None,
        of: Annotated[
            str | None, typer.Option(help="The share, group or coefficient that --within is about.")
        ] = None,
        guess: Annotated[
            str | None,
            typer.Option(
                help="Guesses, such as typical=0.3 (a share or an sd); left_out=0.1 (share without a value).",
                metavar="'NAME=X; ...'",
            ),
        ] = None,
        level: Level = 0.95,
        as_json: Json = False,
        **given: Any,
    ) -> None:
        from discreet.questions._text import OPTIONS

        guessed = None if guess is None else OPTIONS.read(guess, "--guess")
        asked = question.from_text(_texts(written, given))
        plan = discreet.plan(
            asked,
            schema,
            epsilon=asked.epsilon,
            within=within,
            n=n,
            of=of,
            level=level,
            guess=guessed,
        )
        print_found(plan.to_dict(), as_json, str(plan))

    first, *common, _ = inspect.signature(run, eval_str=True).parameters.values()
    listed = (
        _keyword(parameter.name, parameter.annotation, parameter.default)
        for parameter in (first, *options, *common)
    )
    return _make_command(kind, f"Plan {kind}: {sentence_of(kind)}", run, listed)


def _question_command(name: str, question: type[Question]) -> Any:
    """Return the command that asks a question, with options for its fields and those of all commands."""
    written, options = _fields(question)

    def run(
        file: Records,
        schema: SchemaFile,
        glob: Pattern = False,
        format: Piped = None,
        ledger: LedgerUrl = None,
        dataset: Dataset = None,
        request_id: RequestId = None,
        out: Out = None,
        force: Force = False,
        acknowledge_large_delta: LargeDelta = False,
        as_json: Json = False,
        **given: Any,
    ) -> None:
        from discreet.ledger.charging import Charge
        from discreet.questions._asking import BoundQuestion
        from discreet.schema import Schema

        asked = question.from_text(_texts(written, given))
        declared = Schema.load(schema)
        asked.request(declared)
        _check_charge(ledger, dataset, request_id)
        with ExitStack() as stack:
            write = stack.enter_context(new_file(out, force, "--out"))
            data = stack.enter_context(source(file, format, glob))
            if acknowledge_large_delta:
                stack.enter_context(discreet.acknowledge_large_delta())
            answer = BoundQuestion(asked, declared, data).answer(Charge.of(ledger, dataset, request_id))
            receipt = answer.receipt
            if receipt is not None:  # at once: whatever goes wrong from here on, a retry needs the id
                note(json.dumps({"receipt": receipt.to_dict()}) if as_json else str(receipt))
            write(answer.to_json())
        if as_json:
            print_json(answer.document())
            return
        print_answer(answer)
        if out is None and receipt is not None:
            note("Stored in the ledger only: to save a file, repeat with this --request-id and --out FILE")
        else:
            note(f"Saved to {out}" if out else "Not saved: give --out FILE to keep the release")

    first, second, *common, _ = inspect.signature(run, eval_str=True).parameters.values()
    taken = {parameter.name for parameter in common} | {"file", "schema", "json", "help"}
    if clash := taken & set(written):
        raise InvalidInputError(
            f"the field {min(clash)!r} of {question.kind!r} needs another name: every command has "
            f"--{min(clash)}"
        )
    listed = (
        _keyword(parameter.name, parameter.annotation, parameter.default)
        for parameter in (first, second, *options, *common)
    )
    return _make_command(name, f"{question.sentence}\n\n{_REPEATS_COST_AGAIN}", run, listed)


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(parameter: Parameter) -> inspect.Parameter:
    """Return the command-line option of a field."""
    note = "  [required]" if parameter.required else ""
    if parameter.default is not None:
        note = f"  [default: {parameter.form.write(parameter.default)}]"
    details: dict[str, Any] = {"help": parameter.help + note}
    if parameter.form.name == "flag":
        return _keyword(parameter.name, Annotated[bool | None, typer.Option(**details)], None)
    if parameter.choices:
        details["autocompletion"] = lambda: list(parameter.choices)
    option = typer.Option(parameter.option, metavar=_metavar(parameter), **details)
    return _keyword(parameter.name, Annotated[str | None, option], None)


_METAVARS = {"text": "NAME", "whole": "N", "number": "X", "numbers": "X,Y", "options": "'NAME=X; ...'"}


def _metavar(parameter: Parameter) -> str:
    listed = "|".join(parameter.choices)
    if listed and len(listed) <= 30:
        return listed
    return (
        shlex.quote(parameter.example)
        if parameter.example
        else _METAVARS.get(parameter.form.name, parameter.form.name.upper())
    )


def _texts(written: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the options as texts."""
    texts: dict[str, Any] = {}
    for name, parameter in written.items():
        value = given[name]
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if isinstance(value, list):
            value = ("\n" if any("," in part for part in value) else ",").join(value) or None
        if value is not None and not value.strip():
            # Not as if it were left out: an empty --by "$GROUP" must not change what is asked.
            example = f", such as {parameter.example}" if parameter.example else ""
            raise InvalidInputError(f"{parameter.option} is empty; give a value{example}, or leave it out")
        if value is not None and parameter.choices and value not in parameter.choices:
            raise InvalidInputError(
                f"{parameter.option} {value!r} is unknown{nearest(value, parameter.choices)}"
            )
        if value is not None:
            texts[name] = value
    return texts


def _check_charge(ledger: str | None, dataset: str | None, request_id: str | None) -> None:
    if (ledger is None) != (dataset is None):
        raise InvalidInputError(
            "--dataset NAME needs --ledger URL (or DISCREET_LEDGER)"
            if ledger is None
            else "--ledger or DISCREET_LEDGER names a ledger: say which dataset to charge with --dataset NAME"
        )
    if request_id is not None and ledger is None:
        raise InvalidInputError("--request-id is for a charge: give --dataset and --ledger too")
