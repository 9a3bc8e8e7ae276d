"""Regressions on designs drawn at random: do the intervals hold on designs that nobody chose?

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/designs.py run --seed 20261118 --out designs.json      # all 200 designs, 100 fits each
    python benchmarks/designs.py run --seed 20261118 --part 3/20 --out part-3.json
    python benchmarks/designs.py run --quick                                 # 40 designs, 2 fits each
    python benchmarks/designs.py table part-*.json
    python benchmarks/designs.py prior --fits 150                            # coefficients from their prior
    python benchmarks/designs.py robust --fits 200                           # errors that spread unevenly
    python benchmarks/designs.py terms --fits 40                             # squares, splines, products

A design is a formula of one to three blocks of columns (normal, uniform, skewed, heavy-tailed, with narrow
data in wide bounds, polynomials, splines, levels of which some are rare, their interactions, correlated and
nearly collinear pairs), a family, a number of records and coefficients; in a third of the designs the model
does not fit: errors that spread more where a column is large, or a term that is left out. Each is fitted
``--fits`` times at each ε with δ = 10⁻⁶, with new records and new noise every time, from seeds (so nothing is
private). A fit is compared with the coefficients that the records were made with; where the model does not
fit, with those of an ordinary regression of 400,000 records. The ordinary regression of the same records is
judged beside.

The generator (:func:`draw`, :class:`Population`) is not edited once a table has been published; the seed of a
published table is the date of the run. ``table`` prints coverage of 50, 90 and 95 % intervals by family and
ε, with and without a warning, the median width over that of ordinary intervals, and the cells, one design at
one ε, that hold far less than they say. A fit takes 0.1 to 0.5 s of one processor: all of it takes about ten
hours, ``--quick`` five minutes.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, ndtri

FAMILIES = ("gaussian", "binomial", "poisson")
SIZES = (300, 1_000, 5_000, 50_000)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 1e5)
LEVELS = (0.5, 0.9, 0.95)
DESIGNS = 200
DELTA = 1e-6
HEADER = (
    "family",
    "ε",
    "fits",
    "50 %",
    "90 %",
    "95 %",
    "ordinary 90 %",
    "width",
    "warn",
    "warn, nε ≥ 1,000",
    "90 %, no warning",
)
BLOCKS = (
    "normal",
    "uniform",
    "skewed",
    "heavy",
    "narrow",
    "square",
    "cubic",
    "spline",
    "levels",
    "rare",
    "interaction",
    "correlated",
    "collinear",
)
MISFITS = ("none", "none", "none", "none", "spread", "omitted")


@dataclass
class RandomDesign:
    """What is public of a design, and the distributions of its columns: everything but the records."""

    number: int
    family: str
    n: int
    misfit: str
    blocks: list[str]
    terms: list[str] = field(default_factory=list)
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    columns: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By column of the data: how it is drawn."""
    seed: int = 0

    @property
    def formula(self) -> str:
        return "y ~ " + " + ".join(self.terms)


def draw(seed: int, number: int) -> RandomDesign:
    """The design of a number; nobody edits this after the first published table."""
    generator = np.random.default_rng([seed, number])
    made = RandomDesign(
        number,
        FAMILIES[number % 3],
        SIZES[number // 3 % 4],
        str(generator.choice(MISFITS)),
        [str(one) for one in generator.choice(BLOCKS, generator.integers(1, 4), replace=False)],
        seed=int(generator.integers(2**31)),
    )
    for k, block in enumerate(made.blocks):
        x, g = f"x{k}", f"g{k}"
        numeric = {"distribution": "normal", "low": -4.0, "high": 4.0}
        if block == "uniform":
            numeric = {
                "distribution": "uniform",
                "low": 0.0,
                "high": float(generator.choice([1.0, 10.0, 100.0])),
            }
        elif block == "skewed":
            numeric = {"distribution": "skewed", "low": 0.0, "high": float(generator.uniform(6, 20))}
        elif block == "heavy":
            numeric = {"distribution": "heavy", "low": -10.0, "high": 10.0}
        elif block == "narrow":
            reach = float(generator.uniform(5, 15))
            centre = float(generator.uniform(-0.6, 0.6)) * reach
            numeric = {"distribution": "normal", "low": -reach - centre, "high": reach - centre}
        elif block in ("square", "cubic", "spline"):
            numeric = {"distribution": str(generator.choice(["uniform", "hump"])), "low": 0.0, "high": 40.0}
        if block == "levels":
            shares = generator.dirichlet(np.full(int(generator.integers(3, 6)), 2.0))
            made.levels[g] = tuple("abcde"[: len(shares)])
            made.columns[g] = {"distribution": "levels", "shares": shares.tolist()}
            made.terms.append(f"C({g})")
            continue
        if block == "rare":
            share = float(generator.uniform(0.01, 0.08))
            made.levels[g] = ("no", "yes")
            made.columns[g] = {"distribution": "levels", "shares": [1 - share, share]}
            made.terms.append(f"C({g})")
            continue
        made.bounds[x] = (numeric["low"], numeric["high"])
        made.columns[x] = numeric
        if block == "square":
            made.terms += [x, f"I({x}**2)"]
        elif block == "cubic":
            made.terms += [x, f"I({x}**2)", f"I({x}**3)"]
        elif block == "spline":
            made.terms.append(f"bs({x}, knots=[20], degree=3)")
        elif block == "interaction":
            made.levels[g] = ("no", "yes")
            share = float(generator.uniform(0.2, 0.5))
            made.columns[g] = {"distribution": "levels", "shares": [1 - share, share]}
            made.terms.append(f"{x} * C({g})")
        else:
            made.terms.append(x)
        if block in ("correlated", "collinear"):
            twin = f"z{k}"
            share = generator.uniform(0.5, 0.95) if block == "correlated" else generator.uniform(0.95, 0.995)
            made.bounds[twin] = made.bounds[x]
            made.columns[twin] = {**numeric, "distribution": "twin", "of": x, "correlation": float(share)}
            made.terms.append(twin)
    return made


def column(
    distribution: dict[str, Any], n: int, drawn: dict[str, Any], generator: np.random.Generator
) -> Any:
    if distribution["distribution"] == "levels":
        return generator.choice(len(distribution["shares"]), n, p=distribution["shares"])
    low, high = distribution["low"], distribution["high"]
    if distribution["distribution"] == "uniform":
        values = generator.uniform(low, high, n)
    elif distribution["distribution"] == "hump":
        values = low + (high - low) * generator.beta(2, 3, n)
    elif distribution["distribution"] == "skewed":
        values = generator.lognormal(0, 0.8, n)
    elif distribution["distribution"] == "heavy":
        values = generator.standard_t(3, n)
    elif distribution["distribution"] == "twin":
        r = distribution["correlation"]
        values = r * drawn[distribution["of"]] + math.sqrt(1 - r * r) * generator.normal(size=n)
    else:
        values = generator.normal(size=n)
    return np.clip(values, low, high)


class Population:
    """A design with its question at hand: coefficients, and records of any number."""

    def __init__(self, made: RandomDesign) -> None:
        from discreet.regression._newton.fit import regression

        self.made = made
        generator = np.random.default_rng(made.seed)
        family = made.family
        likely = 1 - 0.5 / max(SIZES)
        levels, bounds = dict(made.levels), dict(made.bounds)
        self.extremes: tuple[float, float] = (-1.0, 1.0)
        if family == "binomial":
            levels["y"] = ("no", "yes")
        else:
            bounds["y"] = (0, 9) if family == "poisson" else (-1.0, 1.0)
        self.declared = {"levels": levels, "bounds": bounds}

        def asked(epsilon: float) -> Any:
            return regression(
                made.formula, family=family, epsilon=epsilon, delta=DELTA, n=made.n, **self.declared
            )

        self.asked = asked
        self.design = asked(1.0).design
        probe = self.values(self.codes(100_000, generator))
        spread = np.maximum(probe.std(axis=0), 1e-9)
        strength = {"gaussian": 1.0, "binomial": 1.2, "poisson": 0.7}[family] * generator.uniform(0.3, 1.0)
        slopes = [j for j, name in enumerate(self.design.names) if name != "Intercept"]
        effects = generator.normal(size=len(slopes)) / math.sqrt(len(slopes))
        raw = np.zeros(self.design.d)
        raw[slopes] = effects / spread[slopes]
        deviation = max(float((probe @ raw).std()), 0.3 * float(np.sqrt(np.sum(effects**2))))
        raw *= strength / deviation
        level = {
            "gaussian": 0.0,
            "binomial": float(generator.uniform(-1.5, 1.5)),
            "poisson": math.log(float(np.exp(generator.uniform(math.log(0.5), math.log(8))))),
        }[family]
        raw[0] += level - float((probe @ raw).mean())
        self.raw = raw
        self.error = float(np.exp(generator.uniform(math.log(0.3), math.log(2.0))))
        predictor = probe @ raw
        if family == "gaussian":
            wide = float(generator.uniform(1.05, 2.5))
            reach = wide * float(np.abs(predictor).max() + 4.5 * self.error * (1 + (made.misfit == "spread")))
            bounds["y"] = (-reach, reach)
        elif family == "poisson":
            top = float(np.quantile(np.exp(predictor), likely))
            wide = float(generator.uniform(1.0, 3.0))
            bounds["y"] = (0, min(2000, math.ceil(wide * (top + 5 * math.sqrt(top) + 5))))
        self.design = asked(1.0).design
        self.extremes = bounds.get("y", (0.0, 1.0))
        self.bent = generator.normal(size=3)
        self.truth = raw
        if made.misfit != "none":
            codes = self.codes(400_000, generator)
            self.truth = self.ordinary(self.values(codes), self.response(codes, generator))[0]

    def codes(self, n: int, generator: np.random.Generator) -> list[Any]:
        """Records as the codes of their variables."""
        drawn: dict[str, Any] = {}
        for name, distribution in self.made.columns.items():
            drawn[name] = column(distribution, n, drawn, generator)
        found = []
        for variable in self.design.variables:
            values, coder = drawn[variable.name], variable.coder
            if variable.numeric:
                values = np.rint((values - coder.low) * (coder.steps / coder.width)).astype(np.int64)
            found.append(np.asarray(values, dtype=np.int64))
        return found

    def values(self, codes: list[Any]) -> Any:
        """The columns of the formula."""
        return self.design.scale_rows(codes) @ np.linalg.inv(self.design.mixing)

    def response(self, codes: list[Any], generator: np.random.Generator) -> Any:
        predictor = self.values(codes) @ self.raw
        first = codes[0] / max(self.design.variables[0].coder.size - 1, 1)
        error = self.error
        if self.made.misfit == "omitted":
            predictor = predictor + 0.7 * error * np.cos(3 * math.pi * first + self.bent[0])
        elif self.made.misfit == "spread":
            error = error * (0.4 + 1.2 * first)
        if self.made.family == "gaussian":
            return np.clip(predictor + error * generator.normal(size=len(predictor)), *self.extremes)
        if self.made.misfit == "spread":
            predictor = predictor + 0.8 * generator.normal(size=len(predictor))
        if self.made.family == "binomial":
            return (generator.random(len(predictor)) < expit(predictor)).astype(np.int64)
        return np.minimum(generator.poisson(np.exp(predictor)), self.extremes[1])

    def ordinary(self, values: Any, response: Any) -> tuple[Any, Any]:
        """Coefficients and standard errors of the ordinary regression; NaN where it has none."""
        scale = np.maximum(np.abs(values).max(axis=0), 1e-12)
        rows = values / scale
        w, size = np.zeros(rows.shape[1]), rows.shape[1]
        if self.made.family == "poisson":
            w[0] = math.log(max(float(response.mean()), 1e-3))
        dispersion = 1.0
        for _ in range(60):
            eta = np.clip(rows @ w, -30, 30)
            mean, weight = eta, np.ones(len(eta))
            if self.made.family == "binomial":
                mean = expit(eta)
                weight = mean * (1 - mean)
            elif self.made.family == "poisson":
                mean = weight = np.exp(eta)
            curvature = rows.T @ (rows * weight[:, None])
            try:
                step = np.linalg.solve(curvature, rows.T @ (response - mean))
            except np.linalg.LinAlgError:
                return np.full(size, np.nan), np.full(size, np.nan)
            straight = self.made.family == "gaussian"
            w = w + step * (1.0 if straight else min(1.0, 4.0 / max(float(np.abs(rows @ step).max()), 1e-12)))
            if straight or float(step @ curvature @ step) < 1e-12:
                break
        if self.made.family == "gaussian":
            dispersion = float(((response - rows @ w) ** 2).sum() / max(len(rows) - size, 1))
        try:
            errors = np.sqrt(dispersion * np.diag(np.linalg.inv(curvature)))
        except np.linalg.LinAlgError:
            errors = np.full(size, np.nan)
        return w / scale, errors / scale


def fitted(population: Population, asked: Any, epsilon: float, seed: list[int]) -> dict[str, Any]:
    """One fit of new records: which intervals hold, how wide they are, and what the ordinary ones do."""
    from discreet._randomness.entropy import SeededEntropy
    from discreet.regression._newton.records import RecordSource
    from discreet.regression._newton.sums import exact_sums, records

    generator = np.random.default_rng(seed)
    made, design = population.made, asked.design
    codes = population.codes(made.n, generator)
    response = population.response(codes, generator)
    placed = response
    if made.family == "gaussian":
        coder = design.response.coder
        placed = np.rint((response - coder.low) * (coder.steps / coder.width))
    blocks = [records(design, [*codes, placed.astype(np.int64)])]
    source = RecordSource(made.n, lambda model, link, curved: exact_sums(model, design, link, blocks, curved))
    started = time.perf_counter()
    fit = asked.fit_records(source, SeededEntropy(int(generator.integers(2**31))))
    ends = [fit.interval(level) for level in LEVELS]
    taken = time.perf_counter() - started
    truth = population.truth
    centre, errors = population.ordinary(population.values(codes), response)
    reach = [float(ndtri((1 + level) / 2)) for level in LEVELS]
    low, high = ends[1]
    with np.errstate(all="ignore"):
        widths = (high - low) / (2 * reach[1] * errors)
        theirs = [np.abs(centre - truth) <= one * errors for one in reach]
    return {
        "design": made.number,
        "family": made.family,
        "n": made.n,
        "misfit": made.misfit,
        "blocks": made.blocks,
        "epsilon": epsilon,
        "held": [((low <= truth) & (truth <= high)).tolist() for low, high in ends],
        "ordinary": [one.tolist() for one in theirs],
        "width": [float(one) if np.isfinite(one) else None for one in widths],
        "warnings": list(fit.warnings),
        "seconds": taken,
    }


def run(options: argparse.Namespace) -> None:
    """All fits of a part of the designs."""
    part, parts = (int(one) for one in options.part.split("/"))
    designs = 40 if options.quick else DESIGNS
    fits = 2 if options.quick and options.fits is None else options.fits or 100
    numbers = [number for number in range(designs) if number % parts == part % parts]
    found, started = [], time.perf_counter()
    for done, number in enumerate(numbers):
        population = Population(draw(options.seed, number))
        for at, epsilon in enumerate(EPSILONS):
            asked = population.asked(epsilon)
            seeds = [[options.seed, number, at, fit] for fit in range(fits)]
            found += [fitted(population, asked, epsilon, seed) for seed in seeds]
        share = (done + 1) / len(numbers)
        spent = time.perf_counter() - started
        left = spent * (1 - share) / share
        print(
            f"{done + 1}/{len(numbers)} designs, {spent:.0f} s, {left:.0f} s to go",
            file=sys.stderr,
            flush=True,
        )
        if options.out is not None:
            options.out.write_text(json.dumps(found))
    show(found)


def table(options: argparse.Namespace) -> None:
    """The table of all parts."""
    show([one for path in options.parts for one in json.loads(path.read_text())])


def show(found: list[dict[str, Any]]) -> None:
    """By family and ε, then cells that hold less than they say."""
    for misfit in (False, True):
        own = [one for one in found if (one["misfit"] != "none") is misfit]
        if not own:
            continue
        print("\nThe model does not fit" if misfit else "\nWell specified")
        print(f"| {' | '.join(HEADER)} |")
        print("| --- " * len(HEADER) + "|")
        groups = defaultdict(list)
        for one in own:
            groups[one["family"], one["epsilon"]].append(one)
        for family, epsilon in product(FAMILIES, EPSILONS):
            group = groups.get((family, epsilon))
            if group:
                print(_row(family, epsilon, group))
        cells = defaultdict(list)
        for one in own:
            cells[one["design"], one["epsilon"]].append(one)
        low = [group for group in cells.values() if _share(group, 1) < 0.8]
        warned = sum(any(one["warnings"] for one in group) for group in low)
        silent = sum(not any(one["warnings"] for one in group) for group in cells.values() if _below(group))
        far = [group for group in cells.values() if _below(group)]
        print(
            f"{len(cells)} cells of {len({one['design'] for one in own})} designs; 90 % intervals hold less "
            f"than .80 in {len(low)}, of which {warned} warn; significantly (10⁻⁴) less in {len(far)}, of "
            f"which {silent} never warn"
        )
        large = [one for one in own if one["n"] * one["epsilon"] >= 1000]
        for named, some in (("", large), (" with ε ≤ 10", [one for one in large if one["epsilon"] <= 10])):
            if some:
                share = np.mean([bool(one["warnings"]) for one in some])
                print(f"of {len(some)} fits with nε ≥ 1,000{named} {share:.3f} warn")
        for family in FAMILIES:
            quiet = [one for one in own if one["family"] == family and not one["warnings"]]
            if quiet:
                ours, theirs = _share(quiet, 1), _share(quiet, 1, "ordinary")
                print(f"{family}, no warning, all ε: 90 % intervals hold {ours:.3f}, ordinary {theirs:.3f}")
        for group in far:
            one = group[0]
            print(
                f"  design {one['design']}, {one['family']}, n = {one['n']}, ε = {one['epsilon']:g}, "
                f"{', '.join(one['blocks'])}: {_share(group, 1):.3f}, ordinary "
                f"{_share(group, 1, 'ordinary'):.3f}"
            )


SETTINGS = (
    (300, "1", "even"),
    (2_000, "1", "even"),
    (2_000, "0.3", "narrow"),
    (5_000, "1", "alike"),
    (5_000, "3", "narrow"),
    (20_000, "1", "even"),
)


def prior(options: argparse.Namespace) -> None:
    """Fits of ``y ~ a + b`` with coefficients from a declared prior N(0, 1): how often it holds them."""
    import pandas as pd

    from discreet._randomness.entropy import SeededEntropy
    from discreet.regression._newton.fit import regression

    print("| family | n | ε | columns | 50 % | 90 % | 95 % | mean error, deviations | warn |")
    print("| --- " * 9 + "|")
    known: dict[str, tuple[float, float]] = dict.fromkeys(("Intercept", "a", "b"), (0.0, 1.0))
    for family, (n, epsilon, kind) in product(options.family, SETTINGS):
        bounds, levels = {"a": (-1.0, 1.0), "b": (-1.0, 1.0)}, {}
        if family == "binomial":
            levels["y"] = (0, 1)
        else:
            bounds["y"] = (0, 30) if family == "poisson" else (-8.0, 8.0)
        declared = {"bounds": bounds, "levels": levels, "prior": known}
        asked = regression("y ~ a + b", family=family, epsilon=epsilon, delta=DELTA, n=n, **declared)
        held, errors, warned = [], [], []
        for fit in range(options.fits):
            generator = np.random.default_rng([options.seed, fit, n])
            rows = generator.uniform(-1, 1, (n, 2))
            if kind == "narrow":
                rows = np.array([0.3, 0.0]) + np.array([0.15, 0.3]) * generator.normal(size=(n, 2))
            elif kind == "alike":
                rows[:, 1] = 0.9 * rows[:, 0] + 0.25 * generator.normal(size=n)
            rows, truth = np.clip(rows, -1, 1), generator.normal(size=3)
            predictor = truth[0] + rows @ truth[1:]
            if family == "gaussian":
                response = np.clip(predictor + generator.normal(size=n), -8, 8)
            elif family == "binomial":
                response = (generator.random(n) < expit(predictor)).astype(int)
            else:
                response = np.minimum(generator.poisson(np.exp(predictor)), 30)
            frame = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "y": response})
            made = asked.fit(frame, source=SeededEntropy(int(generator.integers(2**31))))
            ends = [made.interval(level) for level in LEVELS]
            held.append([np.mean((low <= truth) & (truth <= high)) for low, high in ends])
            errors.append((made.mean() - truth) / made.std())
            warned.append(bool(made.warnings))
        shares = " | ".join(f"{one:.3f}" for one in np.mean(held, axis=0))
        off = ", ".join(f"{one:.2f}" for one in np.mean(errors, axis=0))
        row = f"| {family} | {n} | {epsilon} | {kind} | {shares} | {off} | {np.mean(warned):.2f} |"
        print(row, flush=True)


TERMS = ("x + I(x**2)", "bs(x, knots=[20], degree=3)", "C(a) * C(b)")


def terms(options: argparse.Namespace) -> None:
    """A square, a cubic spline of four columns, levels times levels: coefficients anew for every fit."""
    print(f"| formula | {' | '.join(HEADER)} |")
    print("| --- " * (len(HEADER) + 1) + "|")
    numeric = {"distribution": "hump", "low": 0.0, "high": 40.0}
    shares = {"a": [0.5, 0.3, 0.2], "b": [0.6, 0.4]}
    levels = {name: tuple("uvw"[: len(each)]) for name, each in shares.items()}
    coded = {name: {"distribution": "levels", "shares": each} for name, each in shares.items()}
    for formula, family, epsilon in product(TERMS, options.family, options.epsilon):
        own = ({}, levels, coded) if "C(" in formula else ({"x": (0.0, 40.0)}, {}, {"x": numeric})
        found = []
        for fit in range(options.fits):
            population = Population(RandomDesign(fit, family, options.n, "none", [], [formula], *own, fit))
            seed = [options.seed, fit, round(10 * epsilon)]
            found.append(fitted(population, population.asked(epsilon), epsilon, seed))
        print(f"| `{formula}` {_row(family, epsilon, found)}", flush=True)


UNEVEN = ("ends", "fan", "skewed", "levels")
"""Errors spread more at both ends of a column, at one of them, in the tail of a skewed one, in a level."""


def uneven(kind: str, n: int, generator: np.random.Generator) -> tuple[Any, Any]:
    """A column between -4 and 4, or a sign, and a response whose errors spread unevenly along it."""
    x = np.clip(generator.normal(size=n), -4, 4)
    if kind == "fan":
        x = generator.uniform(-4, 4, n)
    elif kind == "skewed":
        x = np.clip(generator.gamma(1.0, 1.0, n) - 2, -4, 4)
    elif kind == "levels":
        x = np.where(generator.random(n) < 0.15, 1.0, -1.0)
    spread = {
        "ends": 0.1 + x**2 / 2,
        "fan": np.exp(x / 2) / 2,
        "skewed": 0.1 + (x + 2) / 1.5,
        "levels": np.where(x > 0, 1.5, 0.5),
    }[kind]
    return x, 0.5 + 0.4 * x + spread * generator.normal(size=n)


def robust(options: argparse.Namespace) -> None:
    """Slopes of ``y ~ x + z`` by ordinary and by robust errors, where errors spread unevenly along x."""
    import pandas as pd

    from discreet._randomness.entropy import SeededEntropy
    from discreet.regression._newton.fit import regression

    print("| errors | n | ε | ordinary | robust | OLS | HC1 | width / ordinary | width / HC1 | warn |")
    print("| --- " * 10 + "|")
    bounds = {"x": (-4.0, 4.0), "z": (-1.0, 1.0), "y": (-25.0, 25.0)}
    for n, epsilon in product(options.n, options.epsilon):
        asked = [
            regression("y ~ x + z", epsilon=epsilon, delta=DELTA, n=n, bounds=bounds, errors=errors)
            for errors in (None, "robust")
        ]
        every: list[Any] = []
        for kind in options.kinds:
            found = []
            for fit in range(options.fits):
                generator = np.random.default_rng([options.seed, UNEVEN.index(kind), fit, n])
                x, y = uneven(kind, n, generator)
                z, y = generator.uniform(-1, 1, n), np.clip(y, -25, 25)
                source = SeededEntropy(int(generator.integers(2**31)))
                made = [one.fit(pd.DataFrame({"x": x, "z": z, "y": y}), source=source) for one in asked]
                (low, high), (least, most) = ([float(end[1]) for end in one.interval(0.9)] for one in made)
                rows = np.column_stack([np.ones(n), x, z])
                inverse = np.linalg.inv(rows.T @ rows)
                beta = inverse @ rows.T @ y
                left = y - rows @ beta
                errors = inverse * (left @ left), inverse @ (rows.T * left**2) @ rows @ inverse * n
                reach = [1.645 * math.sqrt(one[1, 1] / (n - 3)) for one in errors]
                held = [low <= 0.4 <= high, least <= 0.4 <= most, *(abs(beta[1] - 0.4) <= np.array(reach))]
                widths = (most - least) / (high - low), (most - least) / (2 * reach[1])
                found.append([*held, *widths, bool(made[1].warnings)])
            every += found
            _uneven_row(kind, n, epsilon, found)
        _uneven_row("all", n, epsilon, every)


def _uneven_row(kind: str, n: int, epsilon: str, found: list[Any]) -> None:
    shares, widths = np.mean(found, axis=0), np.median(found, axis=0)
    cells = [f"{share:.3f}" for share in shares[:4]] + [f"{width:.2f}" for width in widths[4:6]]
    print(f"| {kind} | {n} | {epsilon} | {' | '.join(cells)} | {shares[6]:.2f} |", flush=True)


def _share(group: list[dict[str, Any]], level: int, of: str = "held") -> float:
    return float(np.mean([held for one in group for held in one[of][level]]))


def _below(group: list[dict[str, Any]]) -> bool:
    """Whether the fits, which are independent, hold less than .80 on average at 10⁻⁴."""
    shares = np.array([np.mean(one["held"][1]) for one in group])
    error = max(float(shares.std(ddof=1)) if len(shares) > 1 else 1.0, 0.05) / math.sqrt(len(shares))
    return bool(shares.mean() + 3.72 * error < 0.8)


def _row(family: str, epsilon: float, group: list[dict[str, Any]]) -> str:
    quiet = [one for one in group if not one["warnings"]]
    large = [one for one in group if one["n"] * epsilon >= 1000]
    widths = [width for one in quiet or group for width in one["width"] if width is not None]
    cells = [
        family,
        f"{epsilon:g}",
        str(len(group)),
        *(f"{_share(group, level):.3f}" for level in range(3)),
        f"{_share(group, 1, 'ordinary'):.3f}",
        f"{np.median(widths):.2f}",
        f"{np.mean([bool(one['warnings']) for one in group]):.2f}",
        f"{np.mean([bool(one['warnings']) for one in large]):.2f}" if large else "",
        f"{_share(quiet, 1):.3f} ({len(quiet)})" if quiet else "",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--fits", type=int, help="of each design at each ε; 100 if not given")
    one.add_argument("--part", default="0/1", help="such as 3/20: every twentieth design from the third on")
    one.add_argument("--quick", action="store_true", help="40 designs, 2 fits")
    one.add_argument("--out", type=Path, help="a file for the fits")
    one.set_defaults(run=run)
    one = commands.add_parser("table")
    one.add_argument("parts", nargs="+", type=Path)
    one.set_defaults(run=table)
    one = commands.add_parser("prior")
    one.add_argument("--fits", type=int, default=150)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--family", nargs="+", default=FAMILIES)
    one.set_defaults(run=prior)
    one = commands.add_parser("terms")
    one.add_argument("--fits", type=int, default=40)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--family", nargs="+", default=FAMILIES)
    one.add_argument("--n", type=int, default=5_000)
    one.add_argument("--epsilon", nargs="+", type=float, default=[1.0, 10.0])
    one.set_defaults(run=terms)
    one = commands.add_parser("robust")
    one.add_argument("--fits", type=int, default=200)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--kinds", nargs="+", default=UNEVEN)
    one.add_argument("--n", nargs="+", type=int, default=[1_000, 5_000, 20_000])
    one.add_argument("--epsilon", nargs="+", default=["1", "3", "10"])
    one.set_defaults(run=robust)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
