"""Private regressions, measured: how well they predict, and how long they take.

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/regression.py steps
    python benchmarks/regression.py accuracy --data FOLDER
    python benchmarks/regression.py linear --data FOLDER
    python benchmarks/regression.py spark --n 100000 1000000 10000000
    python benchmarks/regression.py file --n 100000 1000000 10000000
    python benchmarks/regression.py large
    python benchmarks/regression.py times

Whether intervals hold is measured by ``benchmarks/designs.py``. ``steps`` is what the number of steps of
descent was chosen by. ``accuracy`` compares test errors on Adult, Abalone and MNIST (files as in
reproductions/README.md; it needs the reproductions, pandas and scikit-learn) with full-batch accelerated
private gradient descent and with ordinary regression. Times are those of one processor. ``linear`` compares
the gaussian model with AdaSSP on Abalone's rings and on the diabetes data of scikit-learn. ``spark`` times
logistic fits of simulated records in Parquet files, with ten columns, on Spark on this machine (it needs
PySpark and Java); ``file`` those of files with twenty columns without Spark, each in a process of its own,
with the most memory that it took. ``large`` compares fits of many records in memory with scikit-learn's, from
an array and from a table of pandas; ``times`` compares fits with statsmodels'. Nothing here is a test: no
figure is asserted.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import expit

from discreet._data.grids import Grid
from discreet._data.levels import Levels
from discreet._declarations import Domain, Relation
from discreet._randomness.entropy import SeededEntropy
from discreet.privacy.curves import largest_gaussian
from discreet.regression._newton.design import RESPONSE_BITS, Column, Design, Variable, shorten_rows
from discreet.regression._newton.fit import regression
from discreet.regression._newton.models import model_of
from discreet.regression._newton.posterior import CoefficientPrior, PublicSetting
from discreet.regression._newton.rounds import Schedule, ask
from discreet.regression._newton.sums import RowBlock, exact_sums

DELTA = Fraction(1, 10**6)
SIMULATED = ("uniform", "normal", "binary", "skewed", "mixed")
REAL = ("adult", "acs")
FAMILIES = ("gaussian", "binomial", "poisson")
DEVIATIONS = {"gaussian": 1.0, "binomial": 1.0, "poisson": 0.5}
MOST_COUNT = 20
LEVEL = 0.9


def plain_design(
    family: str, numbers: Sequence[bool], ends: tuple[float, float] | None = None, bits: int = 10
) -> Design:
    """The design of ``y ~ x1 + … + xd`` with all columns between −1 and 1, without a formula.

    Columns are numbers or have two levels, −1 and 1. The response of a gaussian model has bounds at four
    deviations of its prior distribution, unless its ends are given.
    """
    unit, steps, columns = 1 << bits, 2 << bits, len(numbers)
    variables = tuple(
        Variable(f"x{j}", Grid((-1, 1), steps if one else 1, False, None), False)
        for j, one in enumerate(numbers, 1)
    )
    tables = [tuple(range(-unit, unit + 1)) if one else (-unit, unit) for one in numbers]
    squares = [1 / 3 if one else 1.0 for one in numbers]
    if family == "binomial":
        response = Variable("y", Levels(Domain(("0", "1"))), False, ("0", "1"))
    elif family == "poisson":
        response = Variable("y", Grid((0, MOST_COUNT if ends is None else ends[1]), None, True, None), False)
    else:
        most = 4 * math.sqrt(2 + sum(squares))
        response = Variable("y", Grid(ends or (-most, most), 2 << RESPONSE_BITS, False, None), False)
    named = (Column("Intercept", ()), *(Column(f"x{j + 1}", ((j, one),)) for j, one in enumerate(tables)))
    norm = math.isqrt((columns + 1) * unit**2 - 1) + 1
    moments = np.diag([1.0, *squares])
    return Design("y ~ …", variables, response, named, bits, norm, np.eye(columns + 1), moments)


def rows_of(kind: str, n: int, columns: int, generator: np.random.Generator) -> Any:
    if kind == "uniform":
        return generator.uniform(-1, 1, (n, columns))
    if kind == "binary":
        return np.where(generator.random((n, columns)) < 0.2, 1.0, -1.0)
    if kind == "skewed":
        return 2 * generator.beta(1, 4, (n, columns)) - 1
    if kind == "mixed":
        every = [rows_of(one, n, columns, generator) for one in SIMULATED[:4]]
        return np.column_stack([every[j % 4][:, j] * (1.0, 0.4)[j // 4 % 2] for j in range(columns)])
    common = generator.normal(0, math.sqrt(0.5), (n, 1))
    return np.clip(0.4 * (common + generator.normal(0, math.sqrt(0.5), (n, columns))), -1, 1)


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
                asked = regression(
                    task.formula,
                    family="binomial",
                    bounds=task.bounds,
                    levels=task.levels,
                    epsilon=epsilon,
                    delta=DELTA,
                    norm=task.norm,
                    aim="prediction",
                )
                fit = asked.fit(task.frames[0])
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


def steps(options: argparse.Namespace) -> None:
    """What descent loses by how many steps it takes and how long rows may be, on simulated columns.

    Excess errors, of which the best rule has 0: uniform columns, columns that say nearly the same, and signs
    that are mostly −1, with coefficients for which predictors have a deviation of 2.
    """
    print(f"{'columns':10} {'d':>3} {'n':>6} {'ε':>4} {'nμ/d':>5} rows: excess error by steps/√(nμ)")
    for (d, n), kind, epsilon in product(
        ((10, 3000), (30, 10_000)), ("uniform", "alike", "rare"), ("0.1", "0.5", "2")
    ):
        corner = plain_design("binomial", [True] * d)
        model, squared = model_of("binomial", corner), largest_gaussian(Fraction(epsilon), DELTA)
        typical = replace(corner, norm=math.isqrt(int(np.trace(corner.second_moments) * corner.unit**2)))
        generator, found = np.random.default_rng(options.seed), defaultdict(list)
        for at in range(options.fits):
            rows = rows_of("uniform", n + 4000, d, generator)
            if kind == "alike":
                rows = np.clip(generator.normal(0, 0.35, (len(rows), 1)) + 0.14 * rows, -1, 1)
            elif kind == "rare":
                rows = np.where(rows > 0.8, 1.0, -1.0)
            rows = np.column_stack([np.ones(len(rows)), rows])
            eta = rows @ (generator.normal(size=d + 1) * np.append(0.3, np.ones(d)))
            eta = (eta - np.median(eta)) * 2 / eta.std()
            chance = expit(eta)
            response = (generator.random(n) < chance[:n]).astype(np.int64)
            for name, design in (("longest", corner), ("typical", typical)):
                whole = shorten_rows(np.rint(rows[:n] * design.unit).astype(np.int64), design.norm)
                blocks = [RowBlock(whole.astype(np.float64), response)]
                prior = CoefficientPrior.wide(design, model)
                asked = PublicSetting(design, model, prior, squared, Relation.REPLACE_ONE, n)
                for factor in (0.75, 1.5, 3.0):
                    number = max(10, round(factor * math.sqrt(n * math.sqrt(squared))))
                    outcome = ask(
                        asked,
                        lambda link, curved, model=model, design=design, blocks=blocks: exact_sums(
                            model, design, link, blocks, curved
                        ),
                        SeededEntropy(at),
                        schedule=Schedule((), steps=number),
                    )
                    wrong = (rows[n:] @ outcome.reached > 0) != (eta[n:] > 0)
                    found[name, factor].append(np.mean(wrong * np.abs(2 * chance[n:] - 1)))
        for name in ("longest", "typical"):
            means = "  ".join(f"{f}: {np.mean(found[name, f]):.4f}" for f in (0.75, 1.5, 3.0))
            print(
                f"{kind:10} {d:3} {n:6} {epsilon:>4} {n * math.sqrt(squared) / d:5.0f} {name}  {means}",
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
        if options.only and options.only not in name:
            continue
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
                asked = regression(
                    f"{target} ~ {' + '.join(columns)}",
                    family="gaussian",
                    bounds={**columns, target: ends},
                    epsilon=epsilon,
                    delta=DELTA,
                    aim="prediction",
                )
                fit = asked.fit(table[train].reset_index(drop=True))
                ours = (fit.predict(table[~train].reset_index(drop=True)).mean - middle) / half
                theirs = rows[~train] @ adassp(rows[train], values[train], epsilon, generator)
                exact = rows[~train] @ np.linalg.lstsq(rows[train], values[train], rcond=None)[0]
                scale = float(np.var(values[~train]))
                found.append([np.mean((one - values[~train]) ** 2) / scale for one in (ours, theirs, exact)])
            mean, error = np.mean(found, axis=0), np.std(found, axis=0) / math.sqrt(len(found))
            pairs = " ".join(f"{m:7.3f} {e:6.3f}" for m, e in zip(mean[:2], error[:2], strict=True))
            print(f"{name:10} {epsilon:>4} {pairs} {mean[2]:7.3f}", flush=True)


def spark(options: argparse.Namespace) -> None:
    """Seconds of a fit in four passes by the number of records, and how they grow."""
    from pyspark.sql import SparkSession

    import discreet

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{options.threads}]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.memory", options.memory).config("spark.driver.host", "127.0.0.1")
    session = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    names = [f"x{j}" for j in range(1, 11)]
    columns = ", ".join(f"2 * rand({j}) - 1 AS {name}" for j, name in enumerate(names))
    eta = " + ".join(f"{math.cos(j):.3f} * {name}" for j, name in enumerate(names))
    print(f"{'records':>12} {'seconds':>8} {'µs a record':>11} {'worst error, deviations':>24}", flush=True)
    with TemporaryDirectory() as folder:
        for n in options.n:
            file = f"{folder}/{n}.parquet"
            rows = f"(SELECT {columns}, rand(99) AS u FROM range({n}))"
            chosen = f"SELECT {', '.join(names)}, u < 1 / (1 + exp(-({eta}))) AS y FROM {rows}"
            session.sql(chosen).write.parquet(file)
            started = time.perf_counter()
            fit = discreet.regress(
                session.read.parquet(file),
                f"y ~ {' + '.join(names)}",
                family="binomial",
                schema=discreet.Schema({**dict.fromkeys(names, (-1, 1)), "y": [False, True]}, n=n),
                epsilon=1,
                delta=min(DELTA, Fraction(1, 100 * n)),
            )
            taken = time.perf_counter() - started
            off = np.abs(fit.mean() - [0.0, *(math.cos(j) for j in range(10))]) / fit.std()
            print(f"{n:12,} {taken:8.1f} {taken / n * 1e6:11.2f} {off.max():24.2f}", flush=True)
    session.stop()


def file(options: argparse.Namespace) -> None:
    """Seconds and memory of a fit of a Parquet file in four passes, by the number of records."""
    import duckdb

    names = [f"x{j}" for j in range(1, 21)]
    eta = " + ".join(f"{math.cos(j):.3f} * {name}" for j, name in enumerate(names))
    columns = ", ".join(f"2 * random() - 1 AS {name}" for name in names)
    print(
        f"{'records':>12} {'file, MB':>9} {'seconds':>8} {'µs a record':>11} {'most memory, MB':>16}",
        flush=True,
    )
    with TemporaryDirectory(dir=options.folder) as folder:
        for n in options.n:
            path = Path(folder) / f"{n}.parquet"
            chosen = (
                f"SELECT *, random() < 1 / (1 + exp(-({eta}))) AS y FROM (SELECT {columns} FROM range({n}))"
            )
            with duckdb.connect() as made:
                made.execute(f"COPY ({chosen}) TO '{path}'")
            with get_context("spawn").Pool(1) as pool:
                seconds, memory = pool.apply(_fitted_file, (str(path), names, n))
            size = path.stat().st_size / 1e6
            print(
                f"{n:12,} {size:9,.0f} {seconds:8.1f} {seconds / n * 1e6:11.2f} {memory:16,.0f}", flush=True
            )
            path.unlink()


def _fitted_file(path: str, names: list[str], n: int) -> tuple[float, float]:
    import resource

    import discreet

    started = time.perf_counter()
    discreet.regress(
        path,
        f"y ~ {' + '.join(names)}",
        family="binomial",
        schema=discreet.Schema({**dict.fromkeys(names, (-1, 1)), "y": [False, True]}, n=n),
        epsilon=1,
        delta=min(DELTA, Fraction(1, 100 * n)),
    ).mean()
    return time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def large(options: argparse.Namespace) -> None:
    """Many records in memory: processor seconds and the most memory of a fit, beside scikit-learn's own."""
    print(
        f"{'records':>12} {'columns':>7} {'data':6} {'tool':13} {'seconds':>8} {'ratio':>6} "
        f"{'most memory, MB':>16} {'accuracy':>9}"
    )
    with TemporaryDirectory() as folder:
        for n in options.n:
            path, generator = Path(folder) / f"{n}.npy", np.random.default_rng(1)
            rows = generator.uniform(-1, 1, (n, options.d + 1))
            eta = rows[:, :-1] @ np.cos(np.arange(options.d))
            rows[:, -1] = generator.random(n) < 1 / (1 + np.exp(-eta))
            np.save(path, rows)
            del rows, eta
            for data in ("array", "frame"):
                theirs = 0.0
                for tool in ("scikit-learn", "ours"):
                    with get_context("spawn").Pool(1) as pool:
                        taken, memory, right = pool.apply(_fitted_rows, (str(path), tool, data))
                    theirs = theirs or taken
                    print(
                        f"{n:12,} {options.d:7} {data:6} {tool:13} {taken:8.2f} {taken / theirs:6.2f} "
                        f"{memory:16,.0f} {right:9.4f}",
                        flush=True,
                    )


def _fitted_rows(path: str, tool: str, data: str) -> tuple[float, float, float]:
    """Processor seconds of a fit, the most memory while it ran, and its accuracy on the first records."""
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    from discreet.regression import PrivateLogisticRegression

    labels = np.load(path, mmap_mode="r")[:, -1].astype(int)
    rows: Any = np.ascontiguousarray(np.load(path, mmap_mode="r")[:, :-1])
    if data == "frame":
        rows = pd.DataFrame({f"x{i}": rows[:, i].copy() for i in range(rows.shape[1])})
    private = {"epsilon": 1, "delta": 1e-9, "bounds": (-1, 1), "classes": (0, 1)}
    model = LogisticRegression() if tool == "scikit-learn" else PrivateLogisticRegression(**private)
    model.fit(rows[:3000], labels[:3000])  # imports, and what is made once
    found, over = [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.005):
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found[0] = max(found[0], pages * os.sysconf("SC_PAGESIZE") / 2**20)

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.process_time()
    model.fit(rows, labels)
    taken = time.process_time() - started
    over.set()
    watcher.join()
    return taken, found[0], float(model.score(rows[:100_000], labels[:100_000]))


def times(options: argparse.Namespace) -> None:
    """Processor seconds of logistic fits with intervals, and of statsmodels: the least of several."""
    import pandas as pd
    import statsmodels.api as statsmodels

    import discreet

    for n, d in ((5_000, 5), (50_000, 10), (10**5, 50)):
        generator = np.random.default_rng(0)
        x = generator.uniform(-1, 1, (n, d - 1))
        y = generator.random(n) < expit(x @ np.linspace(-1, 1, d - 1))
        frame = pd.DataFrame(x, columns=[f"x{j}" for j in range(d - 1)])
        schema = discreet.Schema({**dict.fromkeys(frame, (-1, 1)), "y": [False, True]}, n=n)
        formula, rows = f"y ~ {' + '.join(frame)}", np.column_stack([np.ones(n), x])
        how: dict[str, Any] = {"family": "binomial", "schema": schema, "epsilon": 1, "delta": DELTA}
        frame["y"] = y
        ours, theirs = [], []
        for _ in range(options.fits):
            started = time.process_time()
            discreet.regress(frame, formula, **how).interval(LEVEL)
            ours.append(time.process_time() - started)
            started = time.process_time()
            statsmodels.Logit(y.astype(float), rows).fit(disp=0)
            theirs.append(time.process_time() - started)
        ratio = min(ours) / min(theirs)
        print(f"n = {n:,}, d = {d}: {min(ours):.3f} s, {ratio:.2f} × {min(theirs):.4f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("steps")
    one.add_argument("--fits", type=int, default=8)
    one.add_argument("--seed", type=int, default=11)
    one.set_defaults(run=steps)
    one = commands.add_parser("accuracy")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--only", default="")
    one.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1", "2"])
    one.add_argument("--fits", type=int, default=10)
    one.set_defaults(run=accuracy)
    one = commands.add_parser("linear")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--only", default="")
    one.add_argument("--epsilon", nargs="+", default=["0.1", "0.5", "1", "2"])
    one.add_argument("--fits", type=int, default=20)
    one.set_defaults(run=linear)
    one = commands.add_parser("spark")
    one.add_argument("--n", nargs="+", type=int, default=[10**5, 10**6, 10**7])
    one.add_argument("--threads", type=int, default=os.cpu_count())
    one.add_argument("--memory", default="4g")
    one.set_defaults(run=spark)
    one = commands.add_parser("large")
    one.add_argument("--n", nargs="+", type=int, default=[10**5, 10**6])
    one.add_argument("--d", type=int, default=50)
    one.set_defaults(run=large)
    one = commands.add_parser("times")
    one.add_argument("--fits", type=int, default=8)
    one.set_defaults(run=times)
    one = commands.add_parser("file")
    one.add_argument("--n", nargs="+", type=int, default=[10**5, 10**6, 10**7])
    one.add_argument(
        "--folder", type=Path, help="where the file is made; the usual place for such files else"
    )
    one.set_defaults(run=file)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
