"""Private regressions, measured: do their intervals hold what they say, and how well do they predict?

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/regression.py coverage --fits 4000 --processes 16
    python benchmarks/regression.py coverage --fits 4000 --processes 16 --truth fixed
    python benchmarks/regression.py coverage --fits 1000 --processes 16 --design normal binary skewed mixed
    python benchmarks/regression.py coverage --fits 1000 --design adult acs --data FOLDER
    python benchmarks/regression.py coverage --fits 1000 --design adult acs --truth own --data FOLDER
    python benchmarks/regression.py robust --data FOLDER
    python benchmarks/regression.py steps
    python benchmarks/regression.py accuracy --data FOLDER
    python benchmarks/regression.py linear --data FOLDER
    python benchmarks/regression.py spark --n 100000 1000000 10000000
    python benchmarks/regression.py file --n 100000 1000000 10000000
    python benchmarks/regression.py large

``coverage`` simulates records from a known model and fits them by the estimator of :func:`discreet.regress`,
with noise from a seed (so nothing in it is private): 90 % intervals, averaged over coefficients. It needs
NumPy, SciPy, python-flint and narwhals besides the package; no table library and no formula. The prior is
declared, with deviation 1 (gaussian, whose errors have deviation 1, and binomial) or ½ (poisson) for columns
between −1 and 1; ``--prior default`` declares none. ``--truth prior`` draws coefficients from it, ``--truth
fixed`` repeats one vector. Designs: ``uniform`` columns; ``normal`` ones of deviation 0.4 with correlation ½;
``binary`` ones that are 1 for a fifth of the records and else −1; ``skewed`` ones, 2·Beta(1, 4) − 1;
``mixed`` takes these in turn, every second four times 0.4. ``adult`` and ``acs`` are rows of Adult and of the
American Community Survey (files as in reproductions/README.md), drawn with replacement, categories as two
levels; with ``--truth own`` the outcomes are those of the records, no prior is declared, and what is to be
held are the coefficients of the whole file, to which the model does not fit: ``exact`` is then how often
ordinary intervals of the same samples hold them.

It can run in parts: ``--start 1000 --fits 1000 --out part-2.json`` makes the fits 1000 to 1999 and keeps
them, and ``merge part-*.json`` prints one table of all parts.

``robust`` asks what a robust ("sandwich") variance would be worth: ordinary regressions of samples of Adult
and of the survey with their own outcomes, and a tenth of μ² for Σgg', the only sum that has noise there.

``steps`` is what the number of steps of descent was chosen by. ``accuracy`` compares test errors on Adult,
Abalone and MNIST (files as in reproductions/README.md; it needs the reproductions, pandas and scikit-learn)
with full-batch accelerated private gradient descent and with ordinary regression. Times are those of one
processor. ``linear`` compares the gaussian model with AdaSSP on Abalone's rings and on the diabetes data of
scikit-learn. ``spark`` times logistic fits of simulated records in Parquet files, with ten columns, on Spark
on this machine (it needs PySpark and Java); ``file`` those of files with twenty columns without Spark, each
in a process of its own, with the most memory that it took. ``large`` compares fits of many records in memory
with scikit-learn's, from an array and from a table of pandas. Nothing here is a test: no figure is asserted.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import math
import os
import threading
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

from discreet.data.grids import Grid
from discreet.data.levels import Levels
from discreet.declarations import Domain, Relation
from discreet.privacy.curves import largest_gaussian
from discreet.randomness.entropy import SeededEntropy
from discreet.regression.newton.design import Column, Design, Variable, shortened
from discreet.regression.newton.fit import doubts
from discreet.regression.newton.models import model_of
from discreet.regression.newton.posterior import CoefficientPrior, PublicSetting
from discreet.regression.newton.rounds import Schedule, ask
from discreet.regression.newton.sums import RowBlock, exact_sums

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
    deviations of its prior law, unless its ends are given.
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
        response = Variable("y", Grid(ends or (-most, most), 1 << 14, False, None), False)
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
class Population:
    """Records of a file: columns from −1 to 1, numbers first, and an outcome for each family that has one."""

    columns: Any
    numbers: tuple[bool, ...]
    outcomes: Mapping[str, tuple[Any, tuple[float, float]]]

    def of(self, family: str, columns: int) -> tuple[Any, Any, tuple[float, float], Any]:
        """Rows, responses as codes, the ends of the response, and what is to be held."""
        response, ends = self.outcomes[family]
        rows = np.column_stack([np.ones(len(response)), self.columns[:, :columns]])
        return rows, response, ends, ordinary(family, rows, response)[0]


@cache
def population(kind: str, folder: Path) -> Population:
    """Adult (income above 50,000; hours a week) or adults of the survey in households (owner; decile of
    income; children)."""
    if kind == "adult":
        table = _read(folder / "adult_train.csv.gz") + _read(folder / "adult_test.csv.gz")
        married = [row["marital_status"] == "Married-civ-spouse" for row in table]
        numbers = [("age", 17, 90), ("education_num", 1, 16)]
        flags = [
            [row["sex"] == "Male" for row in table],
            married,
            [row["race"] == "White" for row in table],
            [row["native_country"] == "United-States" for row in table],
            [row["workclass"].startswith("Self") for row in table],
            [row["workclass"].endswith("gov") for row in table],
            [row["occupation"] in ("Exec-managerial", "Prof-specialty") for row in table],
            [row["relationship"] == "Own-child" for row in table],
        ]
        hours = np.array([float(row["hours_per_week"]) for row in table])
        income = np.array([row["income"].startswith(">") for row in table])
        outcomes: dict[str, Any] = {"binomial": (income, (0, 1)), "gaussian": (hours, (1, 99))}
    else:
        table = [row for row in _read(folder / "acs_national2019.csv.gz") if row["OWN_RENT"] in "12"]
        table = [row for row in table if int(row["AGEP"]) >= 18]
        numbers = [("AGEP", 18, 99), ("EDU", 1, 12), ("DENSITY", 0, 20_000)]
        flags = [
            [row["SEX"] == "1" for row in table],
            [row["MSP"] == "1" for row in table],
            [row["MSP"] == "6" for row in table],
            [row["RAC1P"] == "1" for row in table],
            [row["HISP"] != "0" for row in table],
            [row["DPHY"] == "1" for row in table],
            [row["DREM"] == "1" for row in table],
        ]
        owner = np.array([row["OWN_RENT"] == "1" for row in table])
        decile = np.array([float(row["PINCP_DECILE"]) for row in table])
        children = np.array([int(row["NOC"]) for row in table])
        outcomes = {"binomial": (owner, (0, 1)), "gaussian": (decile, (0, 9)), "poisson": (children, (0, 10))}
    scaled = [
        np.clip(2 * (np.array([float(row[name]) for row in table]) - low) / (high - low) - 1, -1, 1)
        for name, low, high in numbers
    ]
    columns = np.column_stack(scaled + [np.where(flag, 1.0, -1.0) for flag in flags])
    kinds = tuple([True] * len(numbers) + [False] * len(flags))
    return Population(columns, kinds, outcomes)


def _read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ordinary(family: str, rows: Any, response: Any) -> tuple[Any, Any]:
    """Coefficients of an ordinary regression, and their standard deviations by its model."""
    found = np.zeros(rows.shape[1])
    if family == "gaussian":
        found = np.linalg.lstsq(rows, response, rcond=None)[0]
        left = response - rows @ found
        weights = np.full(len(rows), len(rows) / (left @ left))
    else:
        if family == "poisson":
            found[0] = math.log(max(float(np.mean(response)), 1e-3))
        for _ in range(30):
            means = _means(family, rows @ found)
            weights = means * (1 - means) if family == "binomial" else means
            curvature = rows.T @ (rows * weights[:, None]) + 1e-6 * np.eye(rows.shape[1])
            move = np.linalg.solve(curvature, rows.T @ (response - means))
            found = found + move / max(1.0, float(np.abs(move).max()))
            if np.abs(move).max() < 1e-9:
                break
    return found, np.sqrt(np.diag(np.linalg.inv(rows.T @ (rows * weights[:, None]))))


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
    """One fit: the share of intervals that hold the truth, whether it warned, the deviations' ratio to those
    without privacy, the mean squared error in deviations, and the share that ordinary intervals hold."""

    inside: float
    warned: bool
    ratio: float
    error: float
    exact: float = math.nan


def repetitions(cell: Cell, seed: int, number: int, folder: Path | None = None) -> list[Repetition]:
    """Fits of a cell one after the other."""
    known = None if folder is None or cell.design not in REAL else population(cell.design, folder)
    numbers = (True,) * cell.columns if known is None else known.numbers[: cell.columns]
    own = known.of(cell.family, cell.columns) if known is not None and cell.truth == "own" else None
    ends = None if own is None else own[2]
    design = plain_design(cell.family, numbers, ends)
    model = model_of(cell.family, design)
    size, scale = cell.columns + 1, DEVIATIONS[cell.family]
    unit, shift = 1.0, np.zeros(size)
    if cell.family == "gaussian":
        unit = design.response.coder.width / 2
        shift[0] = (design.response.coder.low + design.response.coder.high) / 2
    prior = CoefficientPrior(np.zeros(size), np.eye(size) * (scale / unit) ** 2)
    if cell.prior == "default":
        prior = CoefficientPrior.weak(design, model)
    question = PublicSetting(
        design, model, prior, largest_gaussian(Fraction(cell.epsilon), DELTA), Relation.REPLACE_ONE, cell.n
    )
    generator = np.random.default_rng([seed, 1])
    found = []
    for at in range(number):
        held = math.nan
        if known is not None:
            chosen = generator.integers(0, len(known.columns), cell.n)
            values = known.columns[chosen, : cell.columns]
        else:
            values = rows_of(cell.design, cell.n, cell.columns, generator)
        codes = np.rint((values + 1) * design.unit).astype(np.int64)
        rows = np.column_stack([np.full(cell.n, design.unit), codes - design.unit]).astype(np.float64)
        if own is not None:
            values, truth = own[1][chosen], own[3]
            plain, exact = ordinary(cell.family, rows / design.unit, values)
            held = float(np.mean(np.abs(plain - truth) <= ndtri((1 + LEVEL) / 2) * exact))
            response = coded(cell.family, values, design)
        else:
            fixed = np.cos(1 + 2.0 * np.arange(size))
            truth = scale * (generator.normal(size=size) if cell.truth == "prior" else fixed)
            predictor = rows @ truth / design.unit
            response, curvature = simulated(cell.family, predictor, rows / design.unit, design, generator)
            exact = np.sqrt(np.diag(np.linalg.inv(curvature + np.eye(size) / scale**2)))
        blocks = [RowBlock(rows, response)]
        outcome = ask(
            question,
            lambda link, curved, blocks=blocks: exact_sums(model, design, link, blocks, curved),
            SeededEntropy((seed << 20) + at),
        )
        law = outcome.posterior
        low, high = (end * unit + shift for end in law.interval(LEVEL))
        std = law.std() * unit
        found.append(
            Repetition(
                float(np.mean((low <= truth) & (truth <= high))),
                bool(doubts(outcome)),
                float(np.exp(np.mean(np.log(std / exact)))),
                float(np.mean(((law.mean * unit + shift - truth) / std) ** 2)),
                held,
            )
        )
    return found


def robust(options: argparse.Namespace) -> None:
    """How often ordinary intervals hold the coefficients of the population: of the model, with Σgg' as it is,
    and with the positive part of a private one. ``error`` is the median of how far its variances are off."""
    print(
        f"{'design':8} {'family':9} {'n':>6} {'fits':>5} {'model':>6} {'robust':>6}  by ε: private (error) …"
    )
    for kind, family, n in product(REAL, FAMILIES, options.n):
        known = population(kind, options.data)
        if family not in known.outcomes:
            continue
        every, responses, _, truth = known.of(family, options.d)
        left = responses - _means(family, every @ truth)
        most = 1.0 if family == "binomial" else 4 * float(np.sqrt(np.mean(left**2)))
        generator, size = np.random.default_rng(options.seed), options.d + 1
        held: dict[str, list[Any]] = defaultdict(list)
        errors: dict[str, list[float]] = defaultdict(list)
        for _ in range(options.fits):
            chosen = generator.integers(0, len(every), n)
            rows, response = every[chosen], responses[chosen]
            found, model = ordinary(family, rows, response)
            means = _means(family, rows @ found)
            weights = {"binomial": means * (1 - means), "poisson": means}.get(family, np.ones(n))
            inverse = np.linalg.inv(rows.T @ (rows * weights[:, None]))
            squares = rows.T @ (rows * (np.clip(response - means, -most, most) ** 2)[:, None])
            exact = np.sqrt(np.diag(inverse @ squares @ inverse))
            deviations = {"model": model, "robust": exact}
            for epsilon in options.epsilon:
                share = math.sqrt(largest_gaussian(Fraction(epsilon), DELTA) / 10)
                noise = math.sqrt(2) * most**2 * size / share * generator.normal(size=(size, size))
                noise = (
                    np.triu(noise, 1) / math.sqrt(2)
                    + np.triu(noise, 1).T / math.sqrt(2)
                    + np.diag(np.diag(noise))
                )
                values, vectors = np.linalg.eigh(squares + noise)
                private = (vectors * np.maximum(values, 0)) @ vectors.T
                deviations[epsilon] = np.sqrt(np.diag(inverse @ private @ inverse))
                errors[epsilon].append(float(np.median(np.abs(deviations[epsilon] ** 2 / exact**2 - 1))))
            for name, one in deviations.items():
                held[name].append(np.mean(np.abs(found - truth) <= ndtri((1 + LEVEL) / 2) * one))
        shares = "  ".join(
            f"{one}: {np.mean(held[one]):.3f} ({np.median(errors[one]):.0%})" for one in options.epsilon
        )
        print(
            f"{kind:8} {family:9} {n:6} {options.fits:5} {np.mean(held['model']):6.3f} "
            f"{np.mean(held['robust']):6.3f}  {shares}",
            flush=True,
        )


def _means(family: str, predictor: Any) -> Any:
    if family == "gaussian":
        return predictor
    return expit(predictor) if family == "binomial" else np.exp(np.minimum(predictor, 20.0))


def simulated(family: str, predictor: Any, rows: Any, design: Design, generator: np.random.Generator) -> Any:
    """Responses as codes, and the curvature of the exact likelihood at the truth."""
    if family == "binomial":
        chance = expit(predictor)
        weights, values = chance * (1 - chance), generator.random(len(chance)) < chance
    elif family == "poisson":
        weights = np.exp(predictor)
        values = generator.poisson(weights)
    else:
        values = predictor + generator.normal(size=len(predictor))
        weights = np.ones(len(values))
    return coded(family, values, design), rows.T @ (rows * weights[:, None])


def coded(family: str, values: Any, design: Design) -> Any:
    """Responses as the codes of the design."""
    if family != "gaussian":
        return np.minimum(values, design.response.coder.size - 1).astype(np.int64)
    coder = design.response.coder
    place = np.rint((values - coder.low) / coder.width * coder.steps)
    return np.clip(place, 0, coder.steps).astype(np.int64)


def _chunk(given: tuple[Cell, int, int, Path | None]) -> tuple[Cell, list[Repetition]]:
    return given[0], repetitions(*given)


def coverage(options: argparse.Namespace) -> None:
    """A line for each cell."""
    settings = (options.family, options.d, options.n, options.epsilon, options.truth, options.design)
    cells = [Cell(*one) for one in product(*settings, options.prior)]
    cells = [replace(one, prior="default") if one.truth == "own" else one for one in cells]
    cells = [one for one in cells if (one.design, one.family, one.truth) != ("adult", "poisson", "own")]
    for one in cells:
        if (one.design in REAL and options.data is None) or (one.truth == "own" and one.design not in REAL):
            raise SystemExit(
                "--design adult and acs need --data FOLDER, and --truth own one of these designs"
            )
    found: dict[Cell, list[Repetition]] = {cell: [] for cell in cells}
    started = time.perf_counter()
    with get_context("fork").Pool(options.processes) as pool:
        jobs = _jobs(cells, options.start, options.fits, options.seed, options.data)
        for cell, part in pool.imap_unordered(_chunk, jobs):
            found[cell] += part
    if options.out is not None:
        kept = [
            {"cell": asdict(cell), "fits": [_rounded(one) for one in every]} for cell, every in found.items()
        ]
        part = {"seed": options.seed, "start": options.start, "cells": kept}
        options.out.write_text(json.dumps(part, separators=(",", ":")), "utf-8")
    show(found)
    print(f"{time.perf_counter() - started:.0f} s on {options.processes} processes")


def merge(options: argparse.Namespace) -> None:
    """One table of several parts, none of them twice."""
    found: dict[Cell, list[Repetition]] = defaultdict(list)
    parts = set()
    for path in options.files:
        content = json.loads(path.read_text("utf-8"))
        for one in content["cells"]:
            cell = Cell(**one["cell"])
            if (key := (cell, content["seed"], content["start"])) in parts:
                raise SystemExit(f"{path} holds fits that another part holds too")
            parts.add(key)
            found[cell] += [Repetition(*map(_read_number, fit)) for fit in one["fits"]]
    show(found)


def _rounded(one: Repetition) -> list[Any]:
    return [None if math.isnan(value) else round(float(value), 4) for value in asdict(one).values()]


def _read_number(value: float | None) -> float:
    return math.nan if value is None else value


def show(found: Mapping[Cell, list[Repetition]]) -> None:
    """A line for each cell, and how many cells hold what they should."""
    print(
        f"{'family':9} {'d':>3} {'n':>6} {'ε':>4} {'truth':6} {'design':8} {'prior':9} {'fits':>5} "
        f"{'coverage':>8} ± {'s.e.':5} {'unwarned':>8} {'warn':>5} {'z²':>5} {'std ratio':>9} {'exact':>6}"
    )
    inside = often = 0
    for cell, every in found.items():
        held, warned, ratio, error, exact = np.array([[*asdict(one).values()] for one in every]).T
        quiet = f"{held[warned == 0].mean():8.3f}" if (warned == 0).any() else f"{'':8}"
        often += bool(warned.mean() >= 0.5)
        inside += bool(warned.mean() < 0.5 and 0.87 <= held.mean() <= 0.93)
        plain = "" if np.isnan(exact).any() else f"{exact.mean():6.3f}"
        print(
            f"{cell.family:9} {cell.columns:3} {cell.n:6} {cell.epsilon:>4} {cell.truth:6} {cell.design:8} "
            f"{cell.prior:9} {len(held):5} {held.mean():8.3f} ± {held.std() / math.sqrt(len(held)):.3f} "
            f"{quiet} {warned.mean():5.0%} {np.median(error):5.2f} {np.median(ratio):9.2f} {plain:>6}"
        )
    print(
        f"{len(found)} cells: {inside} of the {len(found) - often} that warn in fewer than half of their "
        f"fits cover 0.87–0.93; {often} warn more often"
    )


def _jobs(
    cells: list[Cell], first: int, fits: int, seed: int, folder: Path | None
) -> Iterator[tuple[Cell, int, int, Path | None]]:
    """Pieces of at most 50 fits, the long ones first, each with its own stream of randomness."""
    pieces = []
    for cell in cells:
        length, name = 50 if cell.n <= 5000 else 10, zlib.crc32(repr(cell).encode())
        pieces += [
            (cell, (seed << 64) + (name << 32) + start, min(length, first + fits - start), folder)
            for start in range(first, first + fits, length)
        ]
    return iter(sorted(pieces, key=lambda piece: -piece[0].n * (piece[0].columns + 5)))


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
                whole = shortened(np.rint(rows[:n] * design.unit).astype(np.int64), design.norm)
                blocks = [RowBlock(whole.astype(np.float64), response)]
                prior = CoefficientPrior.weak(design, model)
                asked = PublicSetting(design, model, prior, squared, Relation.REPLACE_ONE, n)
                for factor in (0.75, 1.5, 3.0):
                    number = max(10, round(factor * math.sqrt(n * math.sqrt(squared))))
                    outcome = ask(
                        asked,
                        lambda link, curved, model=model, design=design, blocks=blocks: exact_sums(
                            model, design, link, blocks, curved
                        ),
                        SeededEntropy(at),
                        schedule=Schedule((), (), descent=Fraction(1), steps=number),
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


def spark(options: argparse.Namespace) -> None:
    """Seconds of a fit in four passes by the number of records, and how they grow."""
    from pyspark.sql import SparkSession

    import discreet

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
                f"y ~ {' + '.join(names)}",
                session.read.parquet(file),
                family="binomial",
                bounds=dict.fromkeys(names, (-1, 1)),
                levels={"y": (False, True)},
                n=n,
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
        f"y ~ {' + '.join(names)}",
        path,
        family="binomial",
        bounds=dict.fromkeys(names, (-1, 1)),
        levels={"y": (False, True)},
        n=n,
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
    one.add_argument("--truth", nargs="+", default=["prior"], choices=("prior", "fixed", "own"))
    one.add_argument("--design", nargs="+", default=["uniform"], choices=(*SIMULATED, *REAL))
    one.add_argument("--prior", nargs="+", default=["declared"], choices=("declared", "default"))
    one.add_argument("--fits", type=int, default=4000)
    one.add_argument("--start", type=int, default=0, help="the number of the first fit")
    one.add_argument("--data", type=Path, help="the folder of Adult and of the survey")
    one.add_argument("--out", type=Path, help="a file for the fits, to be merged with others")
    one.add_argument("--processes", type=int, default=os.cpu_count())
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=coverage)
    one = commands.add_parser("merge")
    one.add_argument("files", type=Path, nargs="+")
    one.set_defaults(run=merge)
    one = commands.add_parser("robust")
    one.add_argument("--data", type=Path, required=True)
    one.add_argument("--d", type=int, default=10)
    one.add_argument("--n", nargs="+", type=int, default=[5000, 50_000])
    one.add_argument("--epsilon", nargs="+", default=["1", "3"])
    one.add_argument("--fits", type=int, default=40)
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=robust)
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
