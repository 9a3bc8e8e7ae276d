"""Private regressions, measured: do their intervals hold what they say, and how well do they predict?

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/regression.py coverage --fits 4000 --processes 16
    python benchmarks/regression.py coverage --fits 4000 --processes 16 --truth fixed
    python benchmarks/regression.py coverage --fits 1000 --processes 16 --design normal binary skewed mixed
    python benchmarks/regression.py accuracy --data FOLDER
    python benchmarks/regression.py linear --data FOLDER

``coverage`` simulates records from a known model and fits them by the estimator of :func:`discreet.regress`,
with noise from a seed (so nothing in it is private): 90 % intervals, averaged over coefficients. It needs
NumPy, SciPy, python-flint and narwhals besides the package; no table library and no formula. The prior is
declared, with deviation 1 (gaussian, whose errors have deviation 1, and binomial) or ½ (poisson) for columns
between −1 and 1; ``--prior default`` declares none. ``--truth prior`` draws coefficients from it, ``--truth
fixed`` repeats one vector. Designs: ``uniform`` columns; ``normal`` ones of deviation 0.4 with correlation ½;
``binary`` ones that are 1 for a fifth of the records and else −1; ``skewed`` ones, 2·Beta(1, 4) − 1;
``mixed`` takes these in turn, every second four times 0.4.

``accuracy`` compares test errors on Adult, Abalone and MNIST (files as in reproductions/README.md; it needs
the reproductions, pandas and scikit-learn) with full-batch accelerated private gradient descent and with
ordinary regression. Times are those of one processor. ``linear`` compares the gaussian model with AdaSSP on
Abalone's rings and on the diabetes data of scikit-learn. Nothing here is a test: no figure is asserted.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from discreet.data.grids import Grid
from discreet.data.levels import Levels
from discreet.declarations import Domain, Relation
from discreet.privacy.curves import largest_gaussian
from discreet.randomness.entropy import SeededEntropy
from discreet.regression.newton.design import Column, Design, Variable
from discreet.regression.newton.fit import doubts
from discreet.regression.newton.models import model_of
from discreet.regression.newton.posterior import CoefficientPrior
from discreet.regression.newton.rounds import PublicSetting, ask
from discreet.regression.newton.sums import RowBlock, exact_sums

DELTA = Fraction(1, 10**6)
DESIGNS = ("uniform", "normal", "binary", "skewed", "mixed")
FAMILIES = ("gaussian", "binomial", "poisson")
DEVIATIONS = {"gaussian": 1.0, "binomial": 1.0, "poisson": 0.5}
MOST_COUNT = 20
LEVEL = 0.9


def plain_design(columns: int, family: str, bits: int = 10) -> Design:
    """The design of ``y ~ x1 + … + xd`` with all columns between −1 and 1, without a formula.

    The response of a gaussian model has bounds at four deviations of its prior law.
    """
    unit, steps = 1 << bits, 2 << bits
    table = tuple(range(-unit, unit + 1))
    variables = tuple(
        Variable(f"x{j}", Grid((-1, 1), steps, False, None), False) for j in range(1, columns + 1)
    )
    if family == "binomial":
        response = Variable("y", Levels(Domain(("0", "1"))), False, ("0", "1"))
    elif family == "poisson":
        response = Variable("y", Grid((0, MOST_COUNT), None, True, None), False)
    else:
        most = 4 * math.sqrt(2 + columns / 3)
        response = Variable("y", Grid((-most, most), 1 << 14, False, None), False)
    named = (Column("Intercept", ()), *(Column(v.name, ((j, table),)) for j, v in enumerate(variables)))
    norm = math.isqrt((columns + 1) * unit**2 - 1) + 1
    moments = np.diag([1.0] + [1 / 3] * columns)
    return Design("y ~ …", variables, response, named, bits, norm, np.eye(columns + 1), moments)


def rows_of(kind: str, n: int, columns: int, generator: np.random.Generator) -> Any:
    if kind == "uniform":
        return generator.uniform(-1, 1, (n, columns))
    if kind == "binary":
        return np.where(generator.random((n, columns)) < 0.2, 1.0, -1.0)
    if kind == "skewed":
        return 2 * generator.beta(1, 4, (n, columns)) - 1
    if kind == "mixed":
        every = [rows_of(one, n, columns, generator) for one in DESIGNS[:4]]
        return np.column_stack([every[j % 4][:, j] * (1.0, 0.4)[j // 4 % 2] for j in range(columns)])
    common = generator.normal(0, math.sqrt(0.5), (n, 1))
    return np.clip(0.4 * (common + generator.normal(0, math.sqrt(0.5), (n, columns))), -1, 1)


@dataclass(frozen=True)
class Cell:
    """One setting of the coverage experiment."""

    family: str
    columns: int
    n: int
    epsilon: str
    truth: str = "prior"
    design: str = "uniform"
    prior: str = "declared"


@dataclass(frozen=True)
class Repetition:
    """One fit: the share of intervals that hold the truth, whether it warned, and deviations' ratios."""

    inside: float
    warned: bool
    ratio: float
    error: float


def repetitions(cell: Cell, seed: int, number: int) -> list[Repetition]:
    """Fits of a cell one after the other."""
    design = plain_design(cell.columns, cell.family)
    model = model_of(cell.family, design)
    size, scale = cell.columns + 1, DEVIATIONS[cell.family]
    unit = design.response.coder.width / 2 if cell.family == "gaussian" else 1.0
    declared = CoefficientPrior(np.zeros(size), np.eye(size) * (scale / unit) ** 2)
    prior = declared if cell.prior == "declared" else CoefficientPrior.weak(design, model)
    question = PublicSetting(
        design, model, prior, largest_gaussian(Fraction(cell.epsilon), DELTA), Relation.REPLACE_ONE, cell.n
    )
    generator = np.random.default_rng([seed, 1])
    found = []
    for at in range(number):
        values = rows_of(cell.design, cell.n, cell.columns, generator)
        codes = np.rint((values + 1) * design.unit).astype(np.int64)
        rows = np.column_stack([np.full(cell.n, design.unit), codes - design.unit]).astype(np.float64)
        truth = scale * (
            generator.normal(size=size) if cell.truth == "prior" else np.cos(1 + 2.0 * np.arange(size))
        )
        predictor = rows @ truth / design.unit
        response, curvature = simulated(cell.family, predictor, rows / design.unit, design, generator)
        blocks = [RowBlock(rows, response)]
        outcome = ask(
            question,
            lambda link, curved, blocks=blocks: exact_sums(model, design, link, blocks, curved),
            SeededEntropy((seed << 20) + at),
        )
        law = outcome.posterior
        low, high = (end * unit for end in law.interval(LEVEL))
        exact = np.sqrt(np.diag(np.linalg.inv(curvature + np.eye(size) / scale**2)))
        std = law.std() * unit
        found.append(
            Repetition(
                float(np.mean((low <= truth) & (truth <= high))),
                bool(doubts(outcome)),
                float(np.exp(np.mean(np.log(std / exact)))),
                float(np.mean(((law.mean * unit - truth) / std) ** 2)),
            )
        )
    return found


def simulated(family: str, predictor: Any, rows: Any, design: Design, generator: np.random.Generator) -> Any:
    """Responses as codes, and the curvature of the exact likelihood at the truth."""
    if family == "binomial":
        chance = expit(predictor)
        weights = chance * (1 - chance)
        response = (generator.random(len(chance)) < chance).astype(np.int64)
    elif family == "poisson":
        weights = np.exp(predictor)
        response = np.minimum(generator.poisson(weights), MOST_COUNT)
    else:
        coder = design.response.coder
        values = predictor + generator.normal(size=len(predictor))
        weights = np.ones(len(values))
        place = np.rint((values - coder.low) / coder.width * coder.steps)
        response = np.clip(place, 0, coder.steps).astype(np.int64)
    return response, rows.T @ (rows * weights[:, None])


def _chunk(given: tuple[int, Cell, int, int]) -> tuple[int, list[Repetition]]:
    at, cell, seed, number = given
    return at, repetitions(cell, seed, number)


def coverage(options: argparse.Namespace) -> None:
    """A line for each cell."""
    cells = [
        Cell(*one)
        for one in product(
            options.family,
            options.d,
            options.n,
            options.epsilon,
            options.truth,
            options.design,
            options.prior,
        )
    ]
    jobs = list(_jobs(cells, options.fits, options.seed))
    found: dict[int, list[Repetition]] = {at: [] for at in range(len(cells))}
    print(
        f"{'family':9} {'d':>3} {'n':>6} {'ε':>4} {'truth':6} {'design':8} {'prior':9} {'fits':>5} "
        f"{'coverage':>8} ± {'s.e.':5} {'unwarned':>8} {'warn':>5} {'z²':>5} {'std ratio':>9}",
        flush=True,
    )
    started, inside, often = time.perf_counter(), 0, 0
    with get_context("fork").Pool(options.processes) as pool:
        for at, part in pool.imap_unordered(_chunk, jobs):
            found[at] += part
            if len(found[at]) < options.fits:
                continue
            every = found.pop(at)
            held = np.array([one.inside for one in every])
            warned = np.array([one.warned for one in every])
            quiet = f"{held[~warned].mean():8.3f}" if (~warned).any() else f"{'':8}"
            one = cells[at]
            often += bool(warned.mean() >= 0.5)
            inside += bool(warned.mean() < 0.5 and 0.87 <= held.mean() <= 0.93)
            print(
                f"{one.family:9} {one.columns:3} {one.n:6} {one.epsilon:>4} {one.truth:6} {one.design:8} "
                f"{one.prior:9} {len(held):5} {held.mean():8.3f} ± {held.std() / math.sqrt(len(held)):.3f} "
                f"{quiet} {warned.mean():5.0%} {np.median([r.error for r in every]):5.2f} "
                f"{np.median([r.ratio for r in every]):9.2f}",
                flush=True,
            )
    spent = time.perf_counter() - started
    print(
        f"{len(cells)} cells in {spent:.0f} s: {inside} of the {len(cells) - often} that warn in "
        f"fewer than half of their fits cover 0.87–0.93; {often} warn more often"
    )


def _jobs(cells: list[Cell], fits: int, seed: int) -> Iterator[tuple[int, Cell, int, int]]:
    """Pieces of at most 50 fits, the long ones first, each with its own stream of randomness."""
    pieces = []
    for at, cell in enumerate(cells):
        length = 50 if cell.n <= 5000 else 10
        pieces += [
            (at, cell, (seed << 32) + (at << 20) + start, min(length, fits - start))
            for start in range(0, fits, length)
        ]
    return iter(sorted(pieces, key=lambda piece: -cells[piece[0]].n * (cells[piece[0]].columns + 5)))


@dataclass(frozen=True)
class Task:
    """A classification: columns for the formula, and the same as rows of length 1 with a constant column."""

    name: str
    formula: str
    bounds: dict[str, tuple[float, float]]
    levels: dict[str, tuple[Any, ...]]
    frames: tuple[Any, Any]
    labels: tuple[Any, Any]
    rows: tuple[Any, Any]
    norm: float | None = None


def tasks(folder: Path) -> Iterator[Task]:
    """Adult by 14 and 108 columns, Abalone (more than nine rings) and MNIST (3 against 8)."""
    import pandas as pd

    from discreet_reproductions.paper_c import regression as paper

    def made(
        name: str, problem: Any, frames: Any, bounds: Any, levels: Any, norm: float | None = None
    ) -> Task:
        signs = tuple(np.sign(part[:, -1]) for part in (problem.train, problem.test))
        rows = tuple(
            part * sign[:, None] for part, sign in zip((problem.train, problem.test), signs, strict=True)
        )
        labels = tuple(sign > 0 for sign in signs)
        for frame, known in zip(frames, labels, strict=True):
            frame["label"] = known
        formula = "label ~ " + " + ".join([*bounds, *levels])
        return Task(name, formula, bounds, {**levels, "label": (False, True)}, frames, labels, rows, norm)

    numbers = paper.ADULT_NUMBERS
    adult = [pd.DataFrame(paper.read(folder / f"adult_{part}.csv.gz")) for part in ("train", "test")]
    for frame in adult:
        frame[list(numbers)] = frame[list(numbers)].astype(float)
    texts = [name for name in adult[0] if name not in numbers and name != "income"]
    levels = {name: tuple(sorted(set(adult[0][name]) | set(adult[1][name]))) for name in texts}
    coded = [
        frame.assign(**{name: frame[name].map(given.index).astype(float) for name, given in levels.items()})
        for frame in adult
    ]
    places = {name: (0.0, len(given) - 1.0) for name, given in levels.items()}
    few = paper.problem("adult", *paper.adult_rows(folder, one_hot=False))
    yield made("Adult, 14 columns", few, coded, {**numbers, **places}, {})
    yield made("Adult, 108 columns", paper.adult(folder), adult, numbers, levels)

    table = pd.DataFrame(paper.read(folder / "abalone.csv.gz"))
    highs = dict(zip(table.columns[1:-1], (1.0, 0.8, 0.4, 3.0, 1.5, 0.8, 1.0), strict=True))
    table[list(highs)] = table[list(highs)].astype(float)
    first = paper.split(len(table))
    halves = [table[first].reset_index(drop=True), table[~first].reset_index(drop=True)]
    bounds = {name: (0.0, high) for name, high in highs.items()}
    yield made("Abalone", paper.abalone(folder), halves, bounds, {"sex": ("M", "F", "I")})

    mnist = paper.mnist(folder)
    names = [f"p{j}" for j in range(784)]
    with np.load(folder / "mnist_3v8.npz") as file:
        images = [file[f"X_{part}"].reshape(-1, 784) / 255.0 for part in ("train", "test")]
    frames = [pd.DataFrame(part, columns=names) for part in images]
    yield made("MNIST 3v8", mnist, frames, dict.fromkeys(names, (-1.0, 1.0)), {}, math.sqrt(65))


def accelerated(rows: Any, labels: Any, epsilon: str, generator: np.random.Generator) -> Any:
    """The baseline: full-batch accelerated gradient descent, noise on each gradient (not private here)."""
    mu = math.sqrt(largest_gaussian(Fraction(epsilon), DELTA))
    steps = 30 if float(epsilon) <= 0.1 else 100
    length = math.sqrt(1.25)
    point = ahead = np.zeros(rows.shape[1])
    later = np.zeros(rows.shape[1])
    for step in range(steps):
        noise = 2 * length * math.sqrt(steps) / mu * generator.normal(size=len(point))
        new = ahead - (rows.T @ (expit(rows @ ahead) - labels) + noise) / (len(rows) * length**2 / 4)
        ahead, point = new + step / (step + 3) * (new - point), new
        later = later + point * (2 * step >= steps)
    return later


def accuracy(options: argparse.Namespace) -> None:
    """Test errors of our fits (private ones), the baseline and ordinary regression, with times."""
    from sklearn.linear_model import LogisticRegression

    import discreet

    heads = f"{'data':20} {'ε':>4} {'ours':>7} {'s.e.':>6} {'baseline':>8} {'exact':>7}"
    print(f"{heads} {'seconds':>8} {'× sklearn':>9}")
    for task in tasks(options.data):
        if options.only and options.only not in task.name:
            continue
        rows, (labels, truth) = task.rows, task.labels
        started = time.process_time()
        plain = LogisticRegression(C=1.0, max_iter=1000).fit(task.rows[0], labels)
        usual = time.process_time() - started
        exact = float(np.mean(plain.predict(rows[1]) != truth))
        for epsilon in options.epsilon:
            ours, times, theirs = [], [], []
            for repetition in range(options.fits):
                started = time.process_time()
                fit = discreet.regress(
                    task.formula,
                    task.frames[0],
                    family="binomial",
                    bounds=task.bounds,
                    levels=task.levels,
                    epsilon=epsilon,
                    delta=DELTA,
                    norm=task.norm,
                    aim="prediction",
                )
                times.append(time.process_time() - started)
                ours.append(np.mean((fit.predict(task.frames[1]).mean > 0.5) != truth))
                point = accelerated(rows[0], labels, epsilon, np.random.default_rng(repetition))
                theirs.append(np.mean((rows[1] @ point > 0) != truth))
            error = np.std(ours) / math.sqrt(len(ours))
            print(
                f"{task.name:20} {epsilon:>4} {np.mean(ours):7.4f} {error:6.4f} {np.mean(theirs):8.4f} "
                f"{exact:7.4f} {np.median(times):8.2f} {np.median(times) / usual:9.1f}",
                flush=True,
            )


def adassp(rows: Any, values: Any, epsilon: str, generator: np.random.Generator) -> Any:
    """AdaSSP (Wang 2018) for rows of columns and values in [−1, 1], replace-one, its three parts in μ-GDP."""
    size = rows.shape[1]
    third = math.sqrt(largest_gaussian(Fraction(epsilon), DELTA) / 3)
    square = rows.T @ rows
    least = float(np.linalg.eigvalsh(square)[0]) + size / third * generator.normal()
    least = max(least - size / third * math.sqrt(2 * math.log(6e6)), 0.0)
    entries = np.triu(generator.normal(size=(size, size)))
    noise = math.sqrt(2) * size / third
    ridge = max(0.0, noise * math.sqrt(size * math.log(2 * size**2 / 0.05)) - least)
    across = rows.T @ values + 2 * math.sqrt(size) / third * generator.normal(size=size)
    whole = square + noise * (entries + np.triu(entries, 1).T) + ridge * np.eye(size)
    return np.linalg.solve(whole, across)


def linear(options: argparse.Namespace) -> None:
    """Test errors, as shares of the variance: ours (private), AdaSSP and least squares, by random splits."""
    import pandas as pd
    from sklearn.datasets import load_diabetes

    import discreet

    abalone = pd.read_csv(options.data / "abalone.csv.gz")
    abalone = abalone.assign(**{f"sex_{one}": (abalone["sex"] == one).astype(float) for one in "MF"})
    numbers = list(abalone.columns[1:8])
    highs = dict(zip(numbers, (1.0, 0.8, 0.4, 3.0, 1.5, 0.8, 1.0), strict=True))
    bounds = {name: (0.0, high) for name, high in highs.items()} | {f"sex_{one}": (0.0, 1.0) for one in "MF"}
    bunch = load_diabetes(as_frame=True)
    sugar = bunch.data.assign(target=bunch.target)
    known = dict.fromkeys(bunch.data.columns, (-0.2, 0.2))
    print(f"{'data':10} {'ε':>4} {'ours':>7} {'s.e.':>6} {'AdaSSP':>7} {'s.e.':>6} {'exact':>7}")
    for name, table, target, ends, columns in (
        ("Abalone", abalone, "rings", (1.0, 29.0), bounds),
        ("diabetes", sugar, "target", (25.0, 346.0), known),
    ):
        middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 2
        parts = [
            (table[one].clip(*pair) - sum(pair) / 2) * 2 / (pair[1] - pair[0])
            for one, pair in columns.items()
        ]
        rows = np.column_stack([np.ones(len(table)), *parts])
        values = (table[target].clip(*ends).to_numpy(dtype=float) - middle) / half
        for epsilon in options.epsilon:
            found = []
            for repetition in range(options.fits):
                generator = np.random.default_rng(repetition)
                train = generator.permutation(len(table)) < 0.75 * len(table)
                fit = discreet.regress(
                    f"{target} ~ {' + '.join(columns)}",
                    table[train].reset_index(drop=True),
                    family="gaussian",
                    bounds={**columns, target: ends},
                    epsilon=epsilon,
                    delta=DELTA,
                    aim="prediction",
                )
                ours = (fit.predict(table[~train].reset_index(drop=True)).mean - middle) / half
                theirs = rows[~train] @ adassp(rows[train], values[train], epsilon, generator)
                exact = rows[~train] @ np.linalg.lstsq(rows[train], values[train], rcond=None)[0]
                scale = float(np.var(values[~train]))
                found.append([np.mean((one - values[~train]) ** 2) / scale for one in (ours, theirs, exact)])
            mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(len(found))
            pairs = " ".join(f"{m:7.3f} {e:6.3f}" for m, e in zip(mean[:2], error[:2], strict=True))
            print(f"{name:10} {epsilon:>4} {pairs} {mean[2]:7.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("coverage")
    one.add_argument("--family", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    one.add_argument("--d", nargs="+", type=int, default=[3, 10])
    one.add_argument("--n", nargs="+", type=int, default=[1000, 5000, 50_000])
    one.add_argument("--epsilon", nargs="+", default=["0.3", "1", "3"])
    one.add_argument("--truth", nargs="+", default=["prior"], choices=("prior", "fixed"))
    one.add_argument("--design", nargs="+", default=["uniform"], choices=DESIGNS)
    one.add_argument("--prior", nargs="+", default=["declared"], choices=("declared", "default"))
    one.add_argument("--fits", type=int, default=4000)
    one.add_argument("--processes", type=int, default=os.cpu_count())
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=coverage)
    one = commands.add_parser("accuracy")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--only", default="")
    one.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1", "2"])
    one.add_argument("--fits", type=int, default=10)
    one.set_defaults(run=accuracy)
    one = commands.add_parser("linear")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1", "2"])
    one.add_argument("--fits", type=int, default=20)
    one.set_defaults(run=linear)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
