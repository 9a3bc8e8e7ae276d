"""A command for each kind of question, made from its fields; a kind is loaded when its command runs."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

import discreet
from discreet._registry import COMMANDS, PLANNED, QUESTIONS
from discreet._text import nearest
from discreet.cli.console import (
    EPILOG,
    CommandGroup,
    Dataset,
    Force,
    Interval,
    Json,
    LargeDelta,
    LedgerUrl,
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
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.questions.base import Parameter, Question

_ONCE = """Every run spends epsilon anew, so a second run for a nicer answer costs twice. With --dataset and
--ledger the charge is recorded, or refused when the budget does not allow it."""


def question_commands() -> dict[str, tuple[str, str]]:
    """Kind and sentence of each question by its command; what ships is known without loading it."""
    found = {}
    for kind in QUESTIONS:
        if kind in COMMANDS:
            command, sentence = COMMANDS[kind]
        else:
            command, sentence = QUESTIONS[kind].command or kind, QUESTIONS[kind].sentence
        found[command] = (kind, sentence)
    return found


class Commands(CommandGroup):
    """All commands: those about questions first, which are looked up in the registry."""

    def list_commands(self, context: Any) -> list[str]:
        """The names of all commands."""
        own = super().list_commands(context)
        return [*(name for name in question_commands() if name not in own), *own, *PLANNED]

    def get_command(self, context: Any, name: str) -> Any:
        """The command of this name; that of a question is made now."""
        asked = question_commands()
        own = super().get_command(context, name)
        if own is None and name in asked:
            return _command(name, QUESTIONS[asked[name][0]])
        planned = name.removeprefix("plan-")
        return _plan_command(name, asked[planned][0]) if name in PLANNED and planned in asked else own

    def sentences(self, context: Any) -> list[tuple[str, str]]:
        """Every command with what it does, without loading a question."""
        own = {name: command.get_short_help_str(1000) for name, command in self.commands.items()}
        asked = {name: sentence for name, (_, sentence) in question_commands().items()}
        return [(name, {**asked, **own, **PLANNED}[name]) for name in self.list_commands(context)]


def _made(name: str, help: str, run: Callable[..., None], options: Iterable[inspect.Parameter]) -> Any:
    """A command that runs a function with these options."""
    run.__signature__ = inspect.Signature(list(options))  # type: ignore[attr-defined]
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, help=help, epilog=EPILOG)(run)
    return get_command(app)


def _fields(question: type[Question]) -> tuple[dict[str, Parameter], list[inspect.Parameter]]:
    """The fields of a question that can be written, by name, and their options."""
    written = {one.name: one for one in question.parameters() if not one.python}
    return written, [option for one in written.values() for option in _options(one, set(written))]


def _plan_command(name: str, kind: str) -> Any:
    """The command that plans a question's widths: its fields, and what is wanted or guessed."""
    written, options = _fields(QUESTIONS[kind])

    def run(as_json: bool, interval: float, **given: Any) -> None:
        fields = {
            key: written[key].form.read(value, written[key].option) if isinstance(value, str) else value
            for key, value in _texts(written, given).items()
        }
        found = discreet.plan(kind, level=interval, **fields, **{key: given[key] for key in _GUESSED})
        print_found(found.to_dict(), as_json, str(found))

    own = [
        _keyword(key, Annotated[form, typer.Option(help=text)], start)
        for key, (form, text, start) in _GUESSED.items()
    ]
    own += [_keyword("interval", Interval, 0.95), _keyword("as_json", Json, False)]
    help = f"{PLANNED[name]}\n\nGive two of --n, --epsilon and --within."
    return _made(name, help, run, [*options, *own])


_GUESSED: dict[str, tuple[Any, str, Any]] = {
    "within": (str | None, "Half-width of the interval that is wanted; n or epsilon is then found.", None),
    "of": (str | None, "The coefficient or group whose width is wanted.", None),
    "typical": (float | None, "A guess: standard deviation, share of the second level, mean count.", None),
    "correlation": (float, "A guess of the columns' correlation.", 0.0),
    "spread": (float | None, "A guess of numbers' standard deviation as a part of their range.", None),
    "left_out": (float | None, "A guess of the share of records that --missing exclude leaves out.", None),
}


def _command(name: str, question: type[Question]) -> Any:
    """The command that asks a question: the file, its fields, and what every command has."""
    written, options = _fields(question)

    def run(
        file: Records,
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
        asked = question.from_text(_texts(written, given))
        _check_charge(ledger, dataset, request_id)
        with ExitStack() as stack:
            write = stack.enter_context(new_file(out, force, "--out"))
            data = stack.enter_context(source(file, format, glob))
            from discreet.ledger.charging import Charge

            if acknowledge_large_delta:
                stack.enter_context(discreet.acknowledge_large_delta())
            answer = asked.ask(data, Charge.of(ledger, dataset, request_id))
            receipt = answer.receipt
            if receipt is not None:  # at once: whatever goes wrong from here on, a retry needs the id
                note(json.dumps({"receipt": receipt.to_dict()}) if as_json else str(receipt))
            write(answer.to_json())
        if as_json:
            print_json(answer.document())
            return
        print_answer(answer)
        if out is None and receipt is not None:
            note("Not saved to a file; the ledger keeps it: repeat with this --request-id and --out FILE")
        else:
            note(f"Saved to {out}" if out else "Not saved: give --out FILE to keep the release")

    first, *common, _ = inspect.signature(run, eval_str=True).parameters.values()
    taken = {one.name for one in common} | {"file", "json", "help"}
    if clash := taken & set(written):
        raise InvalidInput(
            f"the question {question.kind!r} has a field {min(clash)!r}, but every command has --{min(clash)}"
        )
    listed = (_keyword(one.name, one.annotation, one.default) for one in (first, *options, *common))
    return _made(name, f"{question.sentence}\n\n{_ONCE}", run, listed)


def _keyword(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _options(one: Parameter, names: set[str]) -> list[inspect.Parameter]:
    """The option of a field; levels have a second one, for a level with a comma."""
    note = "  [required]" if one.required else ""
    if one.default is not None:
        note = f"  [default: {one.form.write(one.default)}]"
    told: dict[str, Any] = {"help": one.help + note}
    if one.form.name == "flag":
        return [_keyword(one.name, Annotated[bool | None, typer.Option(**told)], None)]
    if one.choices:
        told["autocompletion"] = lambda: list(one.choices)
    option = typer.Option(one.option, metavar=_metavar(one), **told)
    found = [_keyword(one.name, Annotated[str | None, option], None)]
    single = re.sub(r"(?<=ss)es$|s$", "", one.name)
    if one.form.name == "levels" and single not in names:
        literal = typer.Option(
            f"--{single.replace('_', '-')}",
            help=f"One more of {one.option}, taken literally, for one with a comma; repeat it.",
            metavar=single.upper(),
        )
        found.append(_keyword(f"literal_{one.name}", Annotated[list[str] | None, literal], None))
    return found


_METAVARS = {"text": "NAME", "whole": "N", "number": "X", "numbers": "X,Y", "options": "'NAME=X; ...'"}


def _metavar(one: Parameter) -> str:
    listed = "|".join(one.choices)
    if listed and len(listed) <= 30:
        return listed
    return shlex.quote(one.example) if one.example else _METAVARS.get(one.form.name, one.form.name.upper())


def _texts(written: Mapping[str, Parameter], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as texts; levels that were given one by one as they are."""
    found: dict[str, Any] = {}
    for name, one in written.items():
        value = given[name]
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if value is not None and not value.strip():
            # Not as if it were left out: an empty --person "$KEY" must not weaken the guarantee.
            example = f", such as {one.example}" if one.example else ""
            raise InvalidInput(f"{one.option} is empty; give a value{example}, or leave it out")
        if value is not None and one.choices and value not in one.choices:
            raise InvalidInput(f"{one.option} {value!r} is unknown{nearest(value, one.choices)}")
        literal = given.get(f"literal_{name}") or []
        if literal:
            found[name] = (*(one.form.read(value, one.option) if value else ()), *literal)
        elif value is not None:
            found[name] = value
    return found


def _check_charge(ledger: str | None, dataset: str | None, request_id: str | None) -> None:
    if (ledger is None) != (dataset is None):
        raise InvalidInput(
            "--dataset NAME needs --ledger URL (or DISCREET_LEDGER)"
            if ledger is None
            else "--ledger or DISCREET_LEDGER names a ledger: say which dataset to charge with --dataset NAME"
        )
    if request_id is not None and ledger is None:
        raise InvalidInput("--request-id is for a charge: give --dataset and --ledger too")
