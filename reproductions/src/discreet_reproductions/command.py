"""``discreet reproduce``, which the program finds by its entry point."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet._cli.console import DATA, EPILOG, FILE, Json, print_json, print_table, printable
from discreet.errors import InvalidInputError
from discreet_reproductions import catalogue
from discreet_reproductions.running import reproduce

__all__ = ["app"]

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(epilog=EPILOG)
def _reproduce(
    names: Annotated[
        list[str],
        typer.Argument(help="list, all, the letter of a paper, or names of experiments.", metavar="NAME..."),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for tables (CSV), plots (PNG, SVG) and verdicts (JSON).")
    ] = Path("out/reproduce"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer repetitions and points: two minutes for all.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="Folder with data files for the experiments that take some.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 2017,
    jobs: Annotated[int, typer.Option(help="Experiments at the same time.")] = 2,
    again: Annotated[bool, typer.Option("--again", help="Make anew what is finished already.")] = False,
    as_json: Json = False,
) -> None:
    """Reproduce the tables and figures of the papers, with a verdict on each statement.

    An interrupted run continues from its last result. Simulations have a seed; nothing here is private.
    """
    if "list" in names:
        if names != ["list"]:
            raise InvalidInputError("list stands alone: discreet reproduce list")
        listed = [{"name": e.name, "title": e.title} for e in catalogue.EXPERIMENTS]
        if as_json:
            print_json({"experiments": listed})
        else:
            print_table(("name", "what it shows"), [(e["name"], e["title"]) for e in listed])
        return
    experiments = catalogue.chosen(names)
    results = []
    with _bars(len(experiments)) as bars:
        try:
            for result in reproduce(
                experiments,
                out,
                quick=quick,
                seed=seed,
                data=data,
                jobs=jobs,
                again=again,
                advance=bars.advance,
            ):
                results.append(result)
                bars.finish(result)
        except KeyboardInterrupt:
            told = f"{len(results)} of {len(experiments)} done; the same command goes on where this stopped"
            typer.echo(printable(told), err=True)
            raise
    if as_json:
        print_json({"out": str(out), "experiments": [vars(result) for result in results]})
    else:
        for result in sorted(results, key=lambda result: [e.name for e in experiments].index(result.name)):
            counts = "" if not result.agrees else f" [{_counts(result.agrees)}]"
            typer.echo(printable(f"{result.name} ({result.status}){counts}: {result.verdict}"))
        typer.echo(printable(f"Files are in {out}"), err=True)
    if failed := [result for result in results if result.status == "failed"]:
        raise typer.Exit(FILE if all(result.error == "file" for result in failed) else DATA)


def _counts(agrees: tuple[str, ...]) -> str:
    words = {"yes": "agree", "partly": "in part", "no": "do not"}
    return ", ".join(f"{agrees.count(a)} {word}" for a, word in words.items() if a in agrees)


class _bars:
    """Progress on a terminal: one bar for all, and one for each experiment under way."""

    def __init__(self, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._all = self._progress.add_task("experiments", total=total)
        self._own: dict[str, Any] = {}
        self._finished: set[str] = set()

    def __enter__(self) -> _bars:
        self._progress.start()
        return self

    def __exit__(self, *problem: object) -> None:
        self._progress.stop()

    def advance(self, name: str, done: int, total: int) -> None:
        if name in self._finished:  # a step that was told late
            return
        if name not in self._own:
            self._own[name] = self._progress.add_task(f"  {name}")
        self._progress.update(self._own[name], completed=done, total=total)

    def finish(self, result: Any) -> None:
        self._finished.add(result.name)
        if (task := self._own.pop(result.name, None)) is not None:
            self._progress.update(task, visible=False)
        self._progress.advance(self._all)
        if self._progress.disable:
            typer.echo(printable(f"{result.name}: {result.status}"), err=True)
