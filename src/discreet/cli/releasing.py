"""``discreet release``, ``discreet sample`` and ``discreet show``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.console import (
    EPILOG,
    Calibration,
    Dataset,
    Delta,
    Force,
    Gamma,
    Interval,
    Json,
    LedgerUrl,
    Out,
    Piped,
    Records,
    RequestId,
    Size,
    file_problems,
    new_file,
    numbers,
    options,
    print_json,
    print_table,
    printable,
    source,
    split,
)
from discreet.errors import CorruptReleaseError, InvalidInput, TooLargeError

if TYPE_CHECKING:
    from discreet.answers.release import Release
    from discreet.ledger import Receipt
    from discreet.posterior_sampling.sample import Sample


Person = Annotated[str | None, typer.Option(help="Column that says whose record it is.")]
PerPerson = Annotated[
    int | None, typer.Option(help="At most so many records of each person; epsilon is a person's.")
]


def register(app: typer.Typer) -> None:
    app.command("release", epilog=EPILOG)(_release)
    app.command("sample", epilog=EPILOG)(_sample)
    app.command("show", epilog=EPILOG)(_show)


def _release(
    file: Records,
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
    edges: Annotated[
        str | None, typer.Option(help="For numbers, edges of bins instead of levels: 0,18,65,120.")
    ] = None,
    outside: Annotated[
        str | None, typer.Option(help="Numbers outside the edges: clip, or level for one of their own.")
    ] = None,
    person: Person = None,
    per_person: PerPerson = None,
    pattern: Annotated[
        bool, typer.Option("--glob", help="FILE is a pattern for several files, such as 'visits/*.csv'.")
    ] = False,
    n: Size = None,
    format: Piped = None,
    dataset: Dataset = None,
    ledger: LedgerUrl = None,
    request_id: RequestId = None,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Release a private posterior of the proportions of a column's levels.

    Every run spends epsilon anew, so a second run for a nicer answer costs twice. With --dataset and --ledger
    the charge is recorded, or refused when the budget does not allow it.
    """
    declared = [*split(levels, "--levels"), *(level or ())]
    if not declared and edges is None:
        raise InvalidInput(
            "declare the levels: --levels never,former,current; or for numbers --edges 0,18,65"
        )
    parameters = numbers(prior, "--prior")
    _check_charge(ledger, dataset, request_id)
    with new_file(out, force, "--out") as write, source(file, format, pattern) as data:
        import discreet

        result = discreet.release(
            data,
            column=column,
            levels=declared or None,
            edges=None if edges is None else numbers(edges, "--edges"),
            outside=outside,
            person=person,
            per_person=per_person,
            epsilon=epsilon,
            prior=parameters[0] if len(parameters) == 1 else parameters,
            mechanism=mechanism,
            other=other,
            missing=missing,
            n=n,
            **options(gamma=gamma, delta=delta, calibration=calibration),
            **options(ledger=ledger, dataset=dataset, request_id=request_id),
        )
        _print_receipt(result.receipt, as_json)
        write(result.to_json())
    if as_json:
        print_json(json.loads(result.to_json()))
        return
    _print_release(result)
    _print_where(out, result.receipt)


def _sample(
    file: Records,
    family: Annotated[str, typer.Option(help="beta, dirichlet, gaussian, poisson or exponential.")],
    prior: Annotated[str, typer.Option(help="Parameters of the prior: 1,1 or, for a mean, 0,10 (mean, sd).")],
    epsilon: Annotated[str, typer.Option(help="Privacy budget, with --delta or --order.")],
    delta: Annotated[str | None, typer.Option(help="(epsilon, delta) privacy: such as 1e-6.")] = None,
    order: Annotated[float | None, typer.Option(help="Rényi privacy of this order: such as 10.")] = None,
    sampler: Annotated[str, typer.Option(help="direct, diffused or concentrated.")] = "diffused",
    bounds: Annotated[str | None, typer.Option(help="Declared bounds of one record: 0,120.")] = None,
    sigma: Annotated[float | None, typer.Option(help="Known standard deviation (gaussian).")] = None,
    levels: Annotated[str, typer.Option(help="All values a record may take (dirichlet).")] = "",
    column: Annotated[
        str | None, typer.Option(help="The column to read; CSV and TSV always need it.")
    ] = None,
    missing: Annotated[str | None, typer.Option(help="What a missing value counts as.")] = None,
    person: Person = None,
    per_person: PerPerson = None,
    size: Annotated[int, typer.Option(help="Number of draws; each is charged.")] = 1,
    n: Size = None,
    format: Piped = None,
    dataset: Dataset = None,
    ledger: LedgerUrl = None,
    request_id: RequestId = None,
    out: Out = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Release draws from a posterior of a mean, a rate or proportions, whose spread hides each record.

    Numbers are clipped to the declared bounds. Every run spends anew. With --dataset and --ledger the charge
    is recorded, or refused when the budget does not allow it.
    """
    _check_charge(ledger, dataset, request_id)
    given: dict[str, object] = options(sigma=sigma, levels=split(levels, "--levels") or None)
    if bounds is not None:
        given["bounds"] = tuple(numbers(bounds, "--bounds"))
    if missing is not None:
        given["missing"] = missing if levels else numbers(missing, "--missing")[0]
    with new_file(out, force, "--out") as write, source(file, format) as data:
        import discreet

        result = discreet.posterior_sample(
            data,
            family,
            prior=numbers(prior, "--prior"),
            epsilon=epsilon,
            delta=delta,
            order=order,
            sampler=sampler,
            column=column,
            person=person,
            per_person=per_person,
            size=size,
            n=n,
            **given,  # type: ignore[arg-type]
            **options(ledger=ledger, dataset=dataset, request_id=request_id),
        )
        _print_receipt(result.receipt, as_json)
        write(result.to_json())
    if as_json:
        print_json(json.loads(result.to_json()))
        return
    typer.echo(printable(str(result), keep="\n"))
    _print_where(out, result.receipt)


def _check_charge(ledger: str | None, dataset: str | None, request_id: str | None) -> None:
    if (ledger is None) != (dataset is None):
        raise InvalidInput(
            "--dataset NAME needs --ledger URL (or DISCREET_LEDGER)"
            if ledger is None
            else "--ledger or DISCREET_LEDGER names a ledger: say which dataset to charge with --dataset NAME"
        )
    if request_id is not None and ledger is None:
        raise InvalidInput("--request-id is for a charge: give --dataset and --ledger too")


def _print_receipt(receipt: Receipt | None, as_json: bool) -> None:
    """At once, on standard error: whatever goes wrong from here on, a retry needs the id."""
    if receipt is not None:
        text = json.dumps({"receipt": receipt.to_dict()}) if as_json else str(receipt)
        typer.echo(printable(text), err=True)


def _print_where(out: Path | None, receipt: Receipt | None) -> None:
    note = f"Saved to {out}" if out else "Not saved: give --out FILE to keep the release"
    if receipt is not None and not out:
        note = "Not saved to a file; the ledger keeps it: repeat with this --request-id and --out FILE"
    typer.echo(printable(note), err=True)


def _show(
    file: Annotated[Path, typer.Argument(help="What `discreet release` or `discreet sample` wrote.")],
    interval: Interval = 0.95,
    as_json: Json = False,
) -> None:
    """Show a release: posterior, guarantee, and what the guarantee means."""
    if not 0 < interval < 1:
        raise InvalidInput(f"--interval {interval:g} must be between 0 and 1, such as 0.95")
    try:
        with file_problems("file", file, "read"):
            text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CorruptReleaseError(f"{str(file)!r} is not a release: it is not text in UTF-8") from None
    from discreet.answers.release import Release
    from discreet.posterior_sampling.sample import Sample
    from discreet.study.study_file import load_answer

    result = load_answer(text)
    if isinstance(result, Sample):
        if as_json:
            print_json({"interval": interval, "table": _rows(result, interval), **json.loads(text)})
        else:
            typer.echo(printable(result.summary(interval), keep="\n"))
    elif not isinstance(result, Release):
        if as_json:
            print_json(json.loads(text))
        else:
            typer.echo(printable(str(result), keep="\n"))
    elif as_json:
        print_json({"interval": interval, "table": result.table(interval), **json.loads(text)})
    else:
        _print_release(result, interval)


def _rows(sample: Sample, interval: float) -> list[dict[str, object]] | None:
    try:
        return sample.table(interval)
    except (TooLargeError, InvalidInput):
        return None


def _print_release(release: Release, interval: float = 0.95) -> None:
    text = release.summary(interval)
    if not sys.stdout.isatty():
        typer.echo("\n".join(map(printable, text.split("\n"))))
        return
    head, _, rest = text.partition("\n\n")
    typer.echo(printable(head, keep="\n"))
    rows = [
        [str(row["level"]), str(row["count"]), *(f"{row[key]:.4f}" for key in ("mean", "sd", "low", "high"))]
        for row in release.table(interval)
    ]
    tail = f"{100 * (1 - interval) / 2:g} %", f"{100 * (1 + interval) / 2:g} %"
    print_table(["level", "count", "mean", "sd", *tail], rows)
    typer.echo(printable(rest.rpartition("\n\n")[2]))
