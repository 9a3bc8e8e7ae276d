"""Runs of experiments: progress, several at once, and going on where a run was broken off.

Steps that take a while are kept under ``OUT/.steps`` as they are finished, until there is a verdict. A result
stands as long as settings, data and source are the same; then it is made anew. Everything here is seeded
simulation or exact enumeration for study: nothing of it is private.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import Any

import discreet
from discreet._declarations import as_integer
from discreet.errors import DiscreetError, FileError, InvalidInputError
from discreet_reproductions.catalogue import EXPERIMENTS, Experiment
from discreet_reproductions.report import Row, digest, write_outcome

__all__ = ["Result", "Run", "reproduce"]

STEPS = ".steps"
SOURCES = (Path(discreet.__file__).parent, Path(__file__).parent)
Advance = Callable[[str, int, int], None]
"""Told (experiment, steps done, steps in all) after each step."""


def _quiet(name: str, done: int, total: int) -> None:
    return None


@dataclass
class Run:
    """What an experiment is given: its settings from outside, and a place for finished steps."""

    name: str
    quick: bool = False
    seed: int = 2017
    data: Path | None = None
    steps: Path | None = None
    advance: Advance = _quiet
    anew: bool = False
    total: int = 1
    done: int = field(default=0, init=False)

    def expect(self, total: int) -> None:
        """Say how many steps there will be."""
        self.total = total
        self.advance(self.name, self.done, self.total)

    def step(self, key: str, compute: Callable[[], list[Row]], parts: int = 1) -> list[Row]:
        """The rows of one step: those kept from an earlier run (unless ``anew``), or computed now and kept.

        Rows come back as they are read from JSON, so that both ways give the same. ``parts``: for how many
        steps it counts; ``compute`` may show all but the last by :meth:`tick`.
        """
        end = self.done + parts
        label = hashlib.sha256(f"{self.name} {key}".encode()).hexdigest()[:24]
        place = None if self.steps is None else self.steps / f"{label}.json"
        rows = None if self.anew else _kept(place)
        if rows is None:
            rows = json.loads(json.dumps([{k: plain_float(v) for k, v in row.items()} for row in compute()]))
            if place is not None:
                place.parent.mkdir(parents=True, exist_ok=True)
                unfinished = place.with_suffix(f".{os.getpid()}")
                unfinished.write_text(json.dumps(rows), "utf-8")
                unfinished.replace(place)
        self.done = end - 1
        self.tick()
        return rows

    def tick(self) -> None:
        """Show that one more step is done; for steps too quick to keep."""
        self.done += 1
        self.advance(self.name, self.done, self.total)


def plain_float(value: Any) -> Any:
    """NumPy's numbers as Python's. Infinities stay: this JSON is read by nobody else."""
    return value.tolist() if hasattr(value, "tolist") else value


def _kept(place: Path | None) -> list[Row] | None:
    if place is None:
        return None
    try:
        rows: list[Row] = json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return rows


@dataclass(frozen=True)
class Result:
    """How an experiment ended: ``made``, ``kept`` as it was, or ``skipped`` or ``failed`` with the reason.

    ``error`` is the kind of failure: ``file`` when a file cannot be read, else ``other``.
    """

    name: str
    status: str
    verdict: str
    agrees: tuple[str, ...] = ()
    error: str = ""


def fingerprint(experiment: Experiment, quick: bool, seed: int, data: Path | None) -> str:
    """Changes with what may change the result: settings, data files, the source of both packages."""
    mark = hashlib.sha256(json.dumps([experiment.name, quick, seed]).encode())
    for package in SOURCES:
        for path in sorted(package.rglob("*.py")):
            mark.update(path.read_bytes())
    if data is not None:
        for path in sorted(p for p in data.iterdir() if p.is_file()):
            mark.update(f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}".encode())
    return mark.hexdigest()[:32]


def reproduce(
    experiments: Sequence[Experiment] = EXPERIMENTS,
    out: str | os.PathLike[str] = "out/reproduce",
    *,
    quick: bool = False,
    seed: int = 2017,
    data: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    again: bool = False,
    advance: Advance = _quiet,
) -> Iterator[Result]:
    """Make the experiments and write their files under ``out``; results come as they are finished."""
    if find_spec("matplotlib") is None:
        raise InvalidInputError("experiments draw with matplotlib: pip install 'discreet[plots]'")
    folder, jobs = Path(out), as_integer(jobs, "jobs")
    if jobs < 1:
        raise InvalidInputError(f"jobs is {jobs}; give 1 or more")
    given = None if data is None else Path(data)
    if given is not None and not given.is_dir():
        raise FileError(f"--data {str(given)!r} is not a folder; give the folder that holds the data files")
    if as_integer(seed, "seed") < 0:
        raise InvalidInputError(f"seed is {seed}; give 0 or more")
    try:
        (folder / STEPS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"--out {str(folder)!r}: {error.strerror}; give another folder") from None
    tasks = [_Task(e, folder, quick, seed, given if e.takes_data else None, again) for e in experiments]
    if jobs == 1 or len(tasks) == 1:
        for task in tasks:
            yield task.run(advance)
    else:
        yield from _side_by_side(tasks, jobs, advance)
    with suppress(OSError):  # what was broken off keeps its steps
        (folder / STEPS).rmdir()


@dataclass(frozen=True)
class _Task:
    experiment: Experiment
    out: Path
    quick: bool
    seed: int
    data: Path | None
    again: bool

    def run(self, advance: Advance) -> Result:
        experiment = self.experiment
        missing = [name for name in experiment.needs if find_spec(name) is None]
        if missing:
            return Result(experiment.name, "skipped", f"needs {', '.join(missing)}, which is not installed")
        mark = fingerprint(experiment, self.quick, self.seed, self.data)
        if not self.again and (kept := self._finished(mark)) is not None:
            return kept
        steps = self.out / STEPS / mark
        run = Run(experiment.name, self.quick, self.seed, self.data, steps, advance, self.again)
        try:
            with _one_thread():
                outcome = experiment.make(run)
        except DiscreetError as error:
            kind = "file" if isinstance(error, FileError) else "other"
            return Result(experiment.name, "failed", str(error), error=kind)
        stamp = {"quick": self.quick, "seed": self.seed, "fingerprint": mark}
        write_outcome(self.out, experiment.name, experiment.title, outcome, stamp)
        rmtree(steps, ignore_errors=True)
        return Result(experiment.name, "made", outcome.verdict, tuple(s.agrees for s in outcome.statements))

    def _finished(self, mark: str) -> Result | None:
        try:
            found = json.loads((self.out / f"{self.experiment.name}.json").read_text("utf-8"))
            files = found["sha256"].items()
            whole = found["fingerprint"] == mark and all(digest(self.out / f) == sha for f, sha in files)
            answers = tuple(s["agrees"] for s in found["statements"])
            return Result(self.experiment.name, "kept", found["verdict"], answers) if whole else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None


@contextmanager
def _one_thread() -> Iterator[None]:
    from discreet.regression._chain import one_thread

    with one_thread():
        yield


def _side_by_side(tasks: Sequence[_Task], jobs: int, advance: Advance) -> Iterator[Result]:
    """Each experiment in a process of its own; their steps come back through a queue."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import active_children, get_context
    from queue import Empty

    context = get_context("spawn")
    told, others = context.Queue(), set(active_children())
    pool = ProcessPoolExecutor(jobs, context, _begin_process, (told,))
    try:
        pending = {pool.submit(_in_process, task) for task in tasks}
        while pending:
            with suppress(Empty):
                advance(*told.get(timeout=0.2))
            for future in [future for future in pending if future.done()]:
                pending.remove(future)
                yield future.result()
        pool.shutdown()
    except BaseException as problem:
        # Broken off: the pool would first finish all that is waiting.
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
        if isinstance(problem, BrokenProcessPool):
            raise DiscreetError(
                "a process was ended from outside, perhaps for want of memory; the same command with "
                "--jobs 1 continues from the last result"
            ) from None
        raise


_told: Any = None
"""In a process of the pool: where its steps are told."""


def _begin_process(told: Any) -> None:
    from threading import Thread

    global _told
    _told = told
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A process of the pool would otherwise stay for ever when its parent is killed."""
    from multiprocessing import parent_process

    if (parent := parent_process()) is not None:
        parent.join()
        os._exit(1)


def _in_process(task: _Task) -> Result:
    return task.run(lambda *step: _told.put(step))
