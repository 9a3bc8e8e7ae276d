"""``discreet ledger``: budgets of datasets, their spending, and verification of the ledger."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import discreet
from discreet._cli.console import (
    EPILOG,
    REFUSED,
    CommandGroup,
    Delta,
    Force,
    Json,
    LedgerUrl,
    add_commands,
    new_file,
    note,
    print_found,
    print_json,
    print_table,
)
from discreet._declarations import Relation
from discreet._text import amount, nearest
from discreet.errors import InvalidInputError

if TYPE_CHECKING:
    from discreet.ledger import Account
    from discreet.ledger._chain import Entry
    from discreet.privacy.guarantee import Guarantee

Name = Annotated[str, typer.Argument(help="The dataset.")]
Epsilon = Annotated[str | None, typer.Option(help="Epsilon, alone or with --delta: 1 or 1/2.")]
Zcdp = Annotated[str | None, typer.Option(help="The rho of zero-concentrated differential privacy.")]


def register(app: typer.Typer) -> None:
    group = typer.Typer(
        name="ledger", cls=CommandGroup, rich_markup_mode=None, epilog=EPILOG, invoke_without_command=True
    )
    group.callback()(_start)
    add_commands(group, create=_create, show=_show, history=_history, price=_price, cap=_cap)
    add_commands(group, verify=_verify, export=_export)
    app.add_typer(group, help="Manage the privacy budgets of datasets.")


def _start(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@contextmanager
def _open(url: str | None) -> Iterator[discreet.Ledger]:
    if url is None:
        raise InvalidInputError("no ledger is named: give --ledger sqlite:///l.db, or set DISCREET_LEDGER")
    with discreet.Ledger(url) as ledger:
        yield ledger


def _create(
    dataset: Name,
    epsilon: Epsilon = None,
    delta: Delta = None,
    zcdp: Zcdp = None,
    relation: Annotated[
        Relation,
        typer.Option(
            help="What the budget protects.", metavar="replace-one|add-remove|within-group|replace-person"
        ),
    ] = Relation.REPLACE_ONE,
    unit: Annotated[
        str | None,
        typer.Option(
            help="With replace-person: column that identifies people; by default that of the first charge.",
            metavar="COLUMN",
        ),
    ] = None,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Create a dataset with a cap: --epsilon, --epsilon and --delta, or --zcdp."""
    with _open(ledger) as book:
        amounts = {"epsilon": epsilon, "delta": delta, "zcdp": zcdp}
        _print_account(book.create(dataset, **amounts, relation=relation, unit=unit), as_json)


def _cap(
    dataset: Name,
    epsilon: Epsilon = None,
    delta: Delta = None,
    zcdp: Zcdp = None,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Change the cap of a dataset, not below what is spent; the change is recorded."""
    with _open(ledger) as book:
        _print_account(book.set_cap(dataset, epsilon=epsilon, delta=delta, zcdp=zcdp), as_json)


def _show(
    dataset: Annotated[str | None, typer.Argument(help="The dataset; all datasets by default.")] = None,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Show cap, spent and remaining budget."""
    with _open(ledger) as book:
        if dataset is not None:
            _print_account(book.show(dataset), as_json, book.together(dataset))
            return
        accounts = [book.show(name) for name in book.datasets()]
    if as_json:
        print_json({"datasets": [account.to_dict() for account in accounts]})
    else:
        rows = [[a.dataset, str(a.cap), str(a.spent), str(a.remaining), str(a.entries)] for a in accounts]
        print_table(["dataset", "cap", "spent", "remaining", "entries"], rows)


_COLUMNS = ("row", "hour (UTC)", "price", "total", "request", "what was asked")


def _history(
    dataset: Name,
    since: Annotated[
        str | None, typer.Option(help="Entries from this date or time (UTC) on.", metavar="2026-01-31")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Entries up to this date or time (UTC).", metavar="2026-12-31")
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            help="Only create, cap or charge, or charges of one kind of question, such as mean; repeatable."
        ),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write the entries to this new CSV file.")] = None,
    force: Force = False,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """List the entries of a dataset, oldest first: what was asked, when, its price, and the running total."""
    first, last = _moment(since, "--since", 0), _moment(until, "--until", 1)
    with new_file(csv, force, "--csv") as write:
        with _open(ledger) as book:
            entries = book.history(dataset)
        kinds = {"create", "cap", "charge"}.union(*map(_kinds, entries))
        for name in kind or ():
            if name not in kinds:
                raise InvalidInputError(f"--kind {name!r} is not in this history{nearest(name, kinds)}")
        entries = [
            entry
            for entry in entries
            if first <= datetime.fromisoformat(entry.time) < last and (not kind or _kinds(entry) & set(kind))
        ]
        rows = [_row(entry) for entry in entries]
        write(_as_csv([[*_COLUMNS, "hash"], *([*row, e.hash] for row, e in zip(rows, entries, strict=True))]))
    if as_json:
        shown = [{k: v for k, v in entry.to_dict().items() if k != "result"} for entry in entries]
        print_json({"dataset": dataset, "entries": shown})
    elif rows:
        print_table(_COLUMNS, [[row[0], row[1][:16].replace("T", " "), *row[2:]] for row in rows])
    else:
        note("no entries")
    if csv is not None:
        note(f"Saved to {csv}")


def _row(entry: Entry) -> list[str]:
    if entry.plan is None:
        relation, unit = entry.scope
        people = "" if unit is None else f", people by {unit!r}"
        what = "Created" if entry.kind == "create" else "Cap changed"
        price, asked = "–", f"{what}: cap {entry.cap}, {relation}{people}"
    else:
        from discreet.questions._text import plan_in_words

        price, asked = str(entry.charged), plan_in_words(entry.plan)
    return [str(entry.sequence), entry.time, price, str(entry.spent), entry.request_id or "–", asked]


def _kinds(entry: Entry) -> set[str]:
    """Return the names by which an entry can be selected: its kind, and that of its question."""
    return {entry.kind} if entry.plan is None else {entry.kind, str(entry.plan.get("question", ""))}


def _moment(text: str | None, option: str, days: int) -> datetime:
    """Read a date or time as UTC; a date without a time means its beginning plus ``days`` days."""
    if text is None:
        return (datetime.max if days else datetime.min).replace(tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(
            f"{option} {text!r} must be a date such as 2026-01-31, with or without a time"
        ) from None
    whole = len(text.strip()) <= len("2026-01-31")
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment + timedelta(days=days) if whole else moment


def _as_csv(rows: list[list[str]]) -> str:
    from csv import writer

    text = io.StringIO()
    writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _price(
    dataset: Name,
    ledger: LedgerUrl = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    zcdp: Zcdp = None,
    as_json: Json = False,
) -> None:
    """Say what a guarantee would cost and whether it fits; spends nothing. Exit code 7: it does not fit."""
    with _open(ledger) as book:
        from discreet.ledger import Budget

        asked: Any = Budget.cap(epsilon, delta, zcdp)
        if asked.zcdp is None:
            account = book.show(dataset)
            relation, part = Relation(account.relation), asked.delta or Fraction(0)
            asked = discreet.Guarantee(asked.epsilon, relation, unit=account.unit, exact_delta=part)
        quote = book.price(dataset, asked)
    if as_json:
        print_json(quote.to_dict())
    else:
        verdict = "yes" if quote.fits else "no"
        rows = [["asked", str(quote.asked)], ["spent", str(quote.spent)], ["cap", str(quote.cap)]]
        print_table(["", quote.dataset], [*rows, ["fits", verdict]])
    if not quote.fits:
        raise typer.Exit(REFUSED)


def _verify(
    file: Annotated[Path | None, typer.Option(help="Verify this export instead of a ledger.")] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(help="Hash of an entry that must be there, as a receipt shows it; repeatable."),
    ] = None,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Recompute every hash and every sum; names the first row that is wrong."""
    if file is not None:
        verification = discreet.Ledger.verify_export(file, expect=expect or ())
    else:
        with _open(ledger) as book:
            verification = book.verify(expect=expect or ())
    notes = (f"note: {text}" for text in verification.notes)
    print_found(
        verification.to_dict(),
        as_json,
        f"intact: {verification.entries} entries, head {verification.head}",
        *notes,
    )


def _export(
    out: Annotated[Path, typer.Argument(help="The new file.")],
    force: Force = False,
    ledger: LedgerUrl = None,
    as_json: Json = False,
) -> None:
    """Verify the ledger and write all of it to a file: a line of JSON per entry."""
    with _open(ledger) as book:
        export = book.export(out, overwrite=force)
    print_found(export.to_dict(), as_json, f"{export.entries} entries, head {export.head}")
    if not as_json:
        note(f"Saved to {out}")


def _print_account(account: Account, as_json: bool, whole: Guarantee | None = None) -> None:
    together = {}
    if whole is not None:
        delta = float(account.cap.delta or 1e-6)
        together = {"epsilon": whole.quick_epsilon_at(delta), "delta": delta}
        if account.cap.epsilon is not None:
            together["remaining"] = max(0.0, float(account.cap.epsilon) - together["epsilon"])
    if as_json:
        print_json(account.to_dict() | ({"together": together} if together else {}))
        return
    tight = []
    if together:
        text = f"ε = {together['epsilon']:.4g} at δ = {amount(together['delta'])}"
        left = f", which leaves ε = {together['remaining']:.4g}" if "remaining" in together else ""
        tight.append(["together", f"{text}{left}, if prices were fixed beforehand"])
    rows = [
        ["cap", str(account.cap)],
        ["spent", str(account.spent)],
        ["remaining", str(account.remaining)],
        *tight,
        ["relation", account.relation],
        *([] if account.unit is None else [["unit", account.unit]]),
        ["entries", str(account.entries)],
        ["head", account.head],
    ]
    print_table(["", "budget"], [["dataset", account.dataset], *rows])
