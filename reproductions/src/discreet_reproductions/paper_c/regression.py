"""Figures 3 and 4: test error and negative log-likelihood of one private draw in logistic regression.

Lines of the paper: ``diffuse``, ``concentrated``, ``ops`` (one posterior sample on a ball, pure ε) and the
non-private posterior. Beyond it: ``output``, the mode of the diffuse posterior plus N(0, I/m), with the same
Rényi curve. The target is (λ, ε)-Rényi privacy with λ → 1, 10 and 100.

Draws come from long Metropolis chains with seeds (:mod:`discreet_reproductions.logistic.reference`): the
distribution that every sampler converges to, and not private. The paper's text names neither its prior nor
its preprocessing nor the radius of OPS: ours are in the settings and the loaders. All columns are scaled by
declared bounds.

    discreet reproduce c-figures34 --data FOLDER --out out/reproduce [--quick]

FOLDER holds abalone.csv.gz, adult_train.csv.gz, adult_test.csv.gz and mnist_3v8.npz; reproductions/README.md
says where these come from. Without it two data sets that come with scikit-learn are taken.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.errors import FileError, InvalidInputError
from discreet.regression._chain import one_thread
from discreet.regression._doubles import SeededNoise
from discreet.regression.release import clip_rows
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.logistic.baselines import ops_radius, ops_weight
from discreet_reproductions.logistic.modes import mode
from discreet_reproductions.logistic.reference import reference_draws
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["LARGE", "SMALL", "Problem", "Settings", "experiment", "load", "measure", "verdicts"]

BoolArray = npt.NDArray[np.bool_]

CONSTANT = 0.5
NORM_SQUARED = Fraction(5, 4)  # rows of length 1 with the constant column
LARGE = ("abalone", "adult", "mnist")
SMALL = ("breast-cancer", "digits")
PAPER, OURS = "the paper, A.8", "beyond the paper"


@dataclass(frozen=True)
class Settings:
    """Everything that decides the figures besides the data."""

    epsilons: tuple[float, ...] = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
    orders: tuple[float, ...] = (1.0, 10.0, 100.0)
    prior_precision: float = 1.0
    repetitions: int = 40
    warm_up: int = 60
    seed: int = 2017


QUICK = Settings(epsilons=(1e-2, 1.0, 100.0), repetitions=12, warm_up=40)


@dataclass(frozen=True)
class Problem:
    """Signed training rows, each with the constant column, and signed test rows."""

    name: str
    train: FloatArray
    test: FloatArray

    @property
    def chance(self) -> float:
        """The test error of the better constant answer."""
        positive = float((self.test[:, -1] > 0).mean())
        return min(positive, 1 - positive)


# Data, scaled by declared bounds.


def problem(name: str, rows: FloatArray, labels: BoolArray, train: BoolArray) -> Problem:
    inside = np.hstack([clip_rows(rows, 1.0), np.full((len(rows), 1), CONSTANT)])
    signed = inside * np.where(labels, 1.0, -1.0)[:, None]
    return Problem(name, signed[train], signed[~train])


def split(size: int, share: float = 0.75, seed: int = 3) -> BoolArray:
    return np.random.default_rng(seed).permutation(size) < share * size


def read(path: Path) -> list[dict[str, str]]:
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except OSError as error:
        raise FileError(
            f"{path.name}: {error.strerror or 'cannot be read'} in the folder given with --data; "
            "reproductions/README.md says where it comes from"
        ) from None


def abalone(folder: Path) -> Problem:
    """More than nine rings, from sex and seven measurements."""
    table = read(folder / "abalone.csv.gz")
    bounds = {
        "length": 1.0,
        "diameter": 0.8,
        "height": 0.4,
        "whole_weight": 3.0,
        "shucked_weight": 1.5,
        "viscera_weight": 0.8,
        "shell_weight": 1.0,
    }
    numbers = [[scaled(float(row[name]), 0, high) for name, high in bounds.items()] for row in table]
    sexes = [[float(row["sex"] == sex) for sex in "MFI"] for row in table]
    rows = np.hstack([np.array(numbers), np.array(sexes)]) / math.sqrt(8)
    return problem("abalone", rows, np.array([int(row["rings"]) > 9 for row in table]), split(len(table)))


ADULT_NUMBERS = {
    "age": (17, 90),
    "fnlwgt": (0, 1_000_000),
    "education_num": (1, 16),
    "capital_gain": (0, 20_000),
    "capital_loss": (0, 3_000),
    "hours_per_week": (0, 80),
}


def adult_rows(folder: Path, *, one_hot: bool) -> tuple[FloatArray, BoolArray, BoolArray]:
    """Rows of the 14 columns, or of 108 with categories as indicators; labels; which are for training.

    The categories are those of the code book, which is public. Here they are read from both files.
    """
    parts = [read(folder / f"adult_{part}.csv.gz") for part in ("train", "test")]
    table = [row for part in parts for row in part]
    columns = []
    for name in table[0]:
        if name == "income":
            continue
        if name in ADULT_NUMBERS:
            columns.append([scaled(float(row[name]), *ADULT_NUMBERS[name]) for row in table])
            continue
        levels = sorted({row[name] for row in table})
        if one_hot:
            columns.extend([float(row[name] == level) for row in table] for level in levels)
        else:
            place = {level: scaled(i, 0, len(levels) - 1) for i, level in enumerate(levels)}
            columns.append([place[row[name]] for row in table])
    labels = np.array([row["income"] == ">50K" for row in table])
    return np.array(columns).T / math.sqrt(14), labels, np.arange(len(table)) < len(parts[0])


def adult(folder: Path) -> Problem:
    return problem("adult", *adult_rows(folder, one_hot=True))


def mnist(folder: Path) -> Problem:
    """Pixels of 3 against 8; images have a length of about 9 and are clipped to 8 before scaling."""
    try:
        with np.load(folder / "mnist_3v8.npz") as file:
            images = np.concatenate([file["X_train"], file["X_test"]]).reshape(-1, 784) / 255.0
            labels = np.concatenate([file["y_train"], file["y_test"]]) == 8
            first = len(file["y_train"])
    except OSError:
        raise FileError(
            "mnist_3v8.npz cannot be read in the folder given with --data; reproductions/README.md says "
            "where it comes from"
        ) from None
    return problem("mnist", images / 8, labels, np.arange(len(labels)) < first)


def scaled(value: float, low: float, high: float) -> float:
    return 2 * (min(max(value, low), high) - low) / (high - low) - 1


def breast_cancer(folder: Path) -> Problem:
    from sklearn.datasets import load_breast_cancer

    rows, labels = load_breast_cancer(return_X_y=True)
    highs = np.tile([30.0, 40.0, 200.0, 2500.0, 0.2, 0.4, 0.5, 0.2, 0.4, 0.1], 3)
    highs[10:20] = [3.0, 5.0, 22.0, 550.0, 0.04, 0.14, 0.4, 0.06, 0.08, 0.03]
    highs[20:] = [40.0, 50.0, 260.0, 4300.0, 0.25, 1.1, 1.3, 0.3, 0.7, 0.21]
    inside = 2 * np.clip(rows / highs, 0, 1) - 1
    return problem("breast-cancer", inside / math.sqrt(10), labels == 1, split(len(rows)))


def digits(folder: Path) -> Problem:
    from sklearn.datasets import load_digits

    rows, labels = load_digits(return_X_y=True)
    chosen = (labels == 3) | (labels == 8)
    return problem("digits", rows[chosen] / 60, labels[chosen] == 8, split(int(chosen.sum())))


LOADERS: dict[str, Callable[[Path], Problem]] = {
    "abalone": abalone,
    "adult": adult,
    "mnist": mnist,
    "breast-cancer": breast_cancer,
    "digits": digits,
}


def load(name: str, folder: Path | None) -> Problem:
    if name not in LOADERS:
        raise InvalidInputError(f"data set {name!r} is unknown; the names are {', '.join(LOADERS)}")
    if folder is None and name in LARGE:
        raise InvalidInputError(f"{name} is read from files: give --data FOLDER")
    return LOADERS[name](folder or Path())


# Measurements.


@dataclass(frozen=True)
class Scores:
    """Of each draw: the share of wrong test labels, and the mean negative log-likelihood of a test record."""

    errors: FloatArray
    losses: FloatArray


def scores(data: Problem, draws: FloatArray) -> Scores:
    margins = data.test @ draws.T
    return Scores((margins <= 0).mean(axis=0), np.logaddexp(0, -margins).mean(axis=0))


def measure(data: Problem, settings: Settings, advance: Callable[[], object] = lambda: None) -> list[Row]:
    """A row for every line, λ and ε; lines with the same posterior share their draws."""
    n, width = data.train.shape
    c, base = math.sqrt(NORM_SQUARED), settings.prior_precision
    radius = ops_radius(None, width, base)
    known: dict[tuple[Any, ...], Scores] = {}

    def of(kind: str, weight: float, precision: float) -> Scores:
        key = (kind, f"{weight:.9g}", f"{precision:.9g}")
        if key not in known:
            noise = SeededNoise(np.random.default_rng([settings.seed, len(known)]))
            with one_thread():
                if kind == "output":
                    center, _ = mode(data.train, weight, precision, 1e-7)
                    shape = (settings.repetitions, width)
                    draws = center + noise.normals(shape) / math.sqrt(precision)
                else:
                    draws = reference_draws(
                        data.train,
                        weight,
                        precision,
                        noise,
                        chains=settings.repetitions,
                        warm_up=settings.warm_up,
                        radius=radius if kind == "ops" else math.inf,
                    )[:, 0]
            known[key] = scores(data, draws)
        return known[key]

    def row(line: str, order: float, epsilon: float, weight: float, precision: float, found: Scores) -> Row:
        values = {}
        for name, measured in (("error", found.errors), ("loss", found.losses)):
            half = 1.96 * float(measured.std(ddof=1)) / math.sqrt(len(measured))
            mean = float(measured.mean())
            values.update({name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half})
        return {
            "data": data.name,
            "n": n,
            "columns": width,
            "line": line,
            "order": order,
            "epsilon": epsilon,
            "weight": weight,
            "precision": precision,
            "repetitions": settings.repetitions,
            **values,
        }

    rows: list[Row] = [row("posterior", 0.0, math.inf, 1.0, base, of("draw", 1.0, base))]
    advance()
    for order in settings.orders:
        for epsilon in settings.epsilons:
            needed = 2 * c * c * order / epsilon  # m with 2c²λ/m = ε at ρ = 1
            weight = min(1.0, math.sqrt(base / needed))
            precision = max(base, needed)
            sampled = ops_weight(Fraction(epsilon), NORM_SQUARED, radius)
            rows += [
                row("diffuse", order, epsilon, weight, base, of("draw", weight, base)),
                row("concentrated", order, epsilon, 1.0, precision, of("draw", 1.0, precision)),
                row("ops", order, epsilon, sampled, base, of("ops", sampled, base)),
                row("output", order, epsilon, weight, base, of("output", weight, base)),
            ]
            advance()
    return rows


# Verdicts.


def verdicts(table: Sequence[Row], data: Sequence[Problem], settings: Settings) -> list[Statement]:
    statements = []
    for quantity, figure in (("error", "test error"), ("loss", "negative log-likelihood")):
        for better, worse in (("diffuse", "concentrated"), ("concentrated", "ops"), ("diffuse", "ops")):
            statements.append(_ordering(table, quantity, figure, better, worse))
    statements.append(_level(table, data, settings))
    return statements


def _pairs(table: Sequence[Row], better: str, worse: str) -> Iterator[tuple[Row, Row]]:
    others = {(r["data"], r["order"], r["epsilon"]): r for r in table if r["line"] == worse}
    for row in table:
        if row["line"] == better:
            yield row, others[row["data"], row["order"], row["epsilon"]]


def _ordering(table: Sequence[Row], quantity: str, figure: str, better: str, worse: str) -> Statement:
    """At every (data, λ, ε): is the better line not above the worse by more than both intervals?"""
    ahead: list[str] = []
    even: list[str] = []
    behind: list[str] = []
    for first, second in _pairs(table, better, worse):
        gap = second[quantity] - first[quantity]
        half = sum((r[f"{quantity}_high"] - r[f"{quantity}_low"]) / 2 for r in (first, second))
        place = f"{first['data']} λ = {first['order']:g} ε = {first['epsilon']:g} ({gap:+.3f})"
        (ahead if gap > half else behind if gap < -half else even).append(place)
    total = len(ahead) + len(even) + len(behind)
    answer: Answer = "yes" if not behind else ("partly" if ahead else "no")
    where = f"; behind at {', '.join(behind)}" if behind else ""
    return Statement(
        f"{better}-over-{worse}-{quantity}",
        f"{better.capitalize()} has a smaller {figure} than {worse} at equal ε",
        PAPER,
        answer,
        f"of {total} points ahead at {len(ahead)}, within the intervals at {len(even)}, behind at "
        f"{len(behind)}{where}",
        "differences are of means over draws; 'within' means less than the two 95 % half-widths together",
        {"ahead": ahead, "within": even, "behind": behind},
    )


def _level(table: Sequence[Row], data: Sequence[Problem], settings: Settings) -> Statement:
    found = {}
    for item in data:
        own = [row for row in table if row["data"] == item.name]
        last = {r["line"]: r["error"] for r in own if r["epsilon"] in (settings.epsilons[-1], math.inf)}
        found[item.name] = {"constant answer": item.chance, **last}
    text = "; ".join(
        f"{name}: " + ", ".join(f"{line} {value:.3f}" for line, value in values.items())
        for name, values in found.items()
    )
    reached = all(values["diffuse"] < values["constant answer"] for values in found.values())
    return Statement(
        "level",
        "At the largest ε the diffuse draw predicts better than a constant answer",
        OURS,
        "yes" if reached else "no",
        f"test error at ε = {settings.epsilons[-1]:g}, λ = {settings.orders[-1]:g}: {text}",
        "",
        found,
    )


# Figures.

_LOOKS = {
    "concentrated": ("C1", "s-", "concentrated"),
    "diffuse": ("C0", "o-", "diffuse"),
    "ops": ("C2", "^-", "OPS (pure ε)"),
    "output": ("C3", "x:", "mode + N(0, I/m), beyond the paper"),
}


def draw_plot(table: Sequence[Row], quantity: str, settings: Settings) -> Any:
    """A panel for each λ (row) and data set (column)."""
    names = list(dict.fromkeys(row["data"] for row in table))
    figure = new_figure(3.9 * len(names), 2.9 * len(settings.orders) + 0.6)
    for i, order in enumerate(settings.orders):
        for j, name in enumerate(names):
            axis = figure.add_subplot(len(settings.orders), len(names), i * len(names) + j + 1)
            _panel(axis, [row for row in table if row["data"] == name], quantity, order)
            axis.set_title(f"{name}, λ {'→ 1' if order == 1 else f'= {order:g}'}", fontsize=10)
            if quantity == "loss":
                axis.set_yscale("log")
            if j == 0:
                axis.set_ylabel("test error" if quantity == "error" else "test −log-likelihood")
    lines = figure.axes[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=len(lines[0]), frameon=False, fontsize=9)
    return figure


def _panel(axis: Any, rows: Sequence[Row], quantity: str, order: float) -> None:
    base = next(row for row in rows if row["line"] == "posterior")
    axis.axhline(base[quantity], color="black", linewidth=1.2, label="posterior (not private)")
    for line, (colour, style, label) in _LOOKS.items():
        points = [row for row in rows if row["line"] == line and row["order"] == order]
        values = np.array([row[quantity] for row in points])
        low = np.array([row[f"{quantity}_low"] for row in points])
        axis.errorbar(
            [row["epsilon"] for row in points],
            values,
            yerr=values - low,
            fmt=style,
            color=colour,
            markersize=4,
            linewidth=1.2,
            elinewidth=0.8,
            label=label,
        )
    axis.set_xscale("log")
    axis.set_xlabel("ε")


def experiment(run: Run) -> Outcome:
    """Figures 3 and 4 as ``discreet reproduce`` makes them.

    With ``--data`` on the paper's data sets; without on two that come with scikit-learn.
    """
    names = SMALL if run.data is None else LARGE
    settings = replace(QUICK if run.quick else Settings(), seed=run.seed)
    points = 1 + len(settings.orders) * len(settings.epsilons)
    run.expect(len(names) * (points + 1))
    data = [load(name, run.data) for name in names]
    table: list[Row] = []
    for item in data:
        table += run.step(item.name, partial(measure, item, settings, run.tick), points + 1)
    statements = verdicts(table, data, settings)
    plots = {
        "error": draw_plot(table, "error", settings),
        "loss": draw_plot(table, "loss", settings),
    }
    described = {**asdict(settings), "data": list(names)}
    return Outcome(_verdict(statements, names), {"": table}, plots, statements, described)


def _verdict(statements: Sequence[Statement], names: Sequence[str]) -> str:
    orderings = [s for s in statements if s.name.endswith("-error")]
    parts = [
        f"{s.claim.split(' has ')[0].lower()} behind {s.name.split('-')[2]} at {len(s.values['behind'])}"
        for s in orderings
    ]
    total = sum(len(orderings[0].values[key]) for key in ("ahead", "within", "behind"))
    return f"On {', '.join(names)}, of {total} points (test error): {', '.join(parts)}."
