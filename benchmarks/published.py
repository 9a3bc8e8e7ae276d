"""Rows against published methods, from the settings of their papers: coverage and width of intervals, tests.

    export OMP_NUM_THREADS=1 PYTHONPATH=src
    python benchmarks/published.py slope --n 100 500 1000 2000 --epsilon 0.1 1 10 --fits 200
    python benchmarks/published.py cubic --fits 100
    python benchmarks/published.py cubic --data FOLDER --fits 20

``slope``: the logistic regression of Awan and Wang (2023), x = 2·Beta(½, ½) − 1, coefficients (0.5, 2): 95 %
intervals of the slope, and the test of a slope of 0 at the level 0.05 by whether the interval holds 0, its
power with the slope 2 and its size with 0. ``cubic``: log wages by a cubic in experience and two levels,
after Barrientos et al. (2019), of records drawn from such a distribution, or with ``--data`` of incomes of
the American Community Survey (file as in reproductions/README.md), drawn with replacement: how often 95 %
intervals hold each coefficient, how far they overlap those of the ordinary regression, and how often the sign
is the same. Everything is from seeds, so nothing is private; δ = 10⁻⁶.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

DELTA = "1e-6"


def slope(options: argparse.Namespace) -> None:
    """Coverage, width, size and power by n and ε."""
    import pandas as pd

    from discreet._randomness.entropy import SeededEntropy
    from discreet.regression._newton.fit import regression

    print("| n | ε | fits | 95 % interval holds | width | size | power | warn | s a fit |")
    print("| --- " * 9 + "|")
    for n in options.n:
        for epsilon in options.epsilon:
            asked = regression(
                "y ~ x",
                family="binomial",
                bounds={"x": (-1, 1)},
                levels={"y": (0, 1)},
                epsilon=epsilon,
                delta=DELTA,
                n=n,
            )
            held, widths, found, warned, started = [], [], {0.0: [], 2.0: []}, [], time.process_time()
            for fit in range(options.fits):
                generator = np.random.default_rng([options.seed, n, fit])
                for truth in (2.0, 0.0):
                    x = 2 * generator.beta(0.5, 0.5, n) - 1
                    y = (generator.random(n) < expit(0.5 + truth * x)).astype(int)
                    frame = pd.DataFrame({"x": x, "y": y})
                    made = asked.fit(frame, source=SeededEntropy(int(generator.integers(2**31))))
                    low, high = (float(end[1]) for end in made.interval(0.95))
                    found[truth].append(low > 0 or high < 0)
                    if truth:
                        held.append(low <= truth <= high)
                        widths.append(high - low)
                        warned.append(bool(made.warnings))
            seconds = (time.process_time() - started) / options.fits / 2
            print(
                f"| {n} | {epsilon} | {options.fits} | {np.mean(held):.3f} | {np.mean(widths):.2f} | "
                f"{np.mean(found[0.0]):.3f} | {np.mean(found[2.0]):.3f} | {np.mean(warned):.2f} | "
                f"{seconds:.2f} |",
                flush=True,
            )


def workers(folder: Path) -> Any:
    """People of the survey with an income: its logarithm, years since 18, sex, and a degree or none."""
    import pandas as pd

    columns = ["AGEP", "PINCP", "SEX", "EDU"]
    table = pd.read_csv(folder / "acs_national2019.csv.gz", usecols=columns)
    table = table.apply(pd.to_numeric, errors="coerce").dropna()
    table = table[(table["PINCP"] > 1000) & (table["AGEP"] >= 18) & (table["AGEP"] <= 66)]
    return pd.DataFrame(
        {
            "wage": np.log(table["PINCP"].clip(1000, 500_000)),
            "exp": (table["AGEP"] - 18).astype(float),
            "sex": np.where(table["SEX"] == 2, "f", "m"),
            "degree": np.where(table["EDU"] >= 9, "yes", "no"),
        }
    ).reset_index(drop=True)


def simulated(n: int, generator: np.random.Generator) -> Any:
    import pandas as pd

    exp = 48 * generator.beta(1.4, 1.6, n)
    sex, degree = generator.random(n) < 0.48, generator.random(n) < 0.37
    mean = 9.7 + 0.11 * exp - 0.0035 * exp**2 + 0.000033 * exp**3 - 0.3 * sex + 0.6 * degree
    return pd.DataFrame(
        {
            "wage": mean + 0.75 * generator.normal(size=n),
            "exp": exp,
            "sex": np.where(sex, "f", "m"),
            "degree": np.where(degree, "yes", "no"),
        }
    )


def cubic(options: argparse.Namespace) -> None:
    """Each coefficient of the cubic: coverage, overlap with ordinary intervals, sign."""
    from discreet._randomness.entropy import SeededEntropy
    from discreet.regression._newton.fit import regression

    bounds = {"exp": (0, 48), "wage": (math.log(1000), math.log(500_000))}
    given = {"sex": ("m", "f"), "degree": ("no", "yes")}
    whole = None if options.data is None else workers(options.data)

    def values(frame: Any) -> Any:
        exp = frame["exp"].to_numpy()
        signs = [(frame[name] == levels[1]).to_numpy(dtype=float) for name, levels in given.items()]
        return np.column_stack([np.ones(len(exp)), exp, exp**2, exp**3, *signs])

    def ordinary(frame: Any) -> tuple[Any, Any]:
        rows, response = values(frame), frame["wage"].clip(*bounds["wage"]).to_numpy()
        scale = np.abs(rows).max(axis=0)
        found, *_ = np.linalg.lstsq(rows / scale, response, rcond=None)
        left = response - rows / scale @ found
        spread = (
            np.linalg.inv((rows / scale).T @ (rows / scale)) * (left @ left) / (len(rows) - rows.shape[1])
        )
        return found / scale, np.sqrt(np.diag(spread)) / scale

    truth = np.array([9.7, 0.11, -0.0035, 0.000033, -0.3, 0.6]) if whole is None else ordinary(whole)[0]
    names = ("Intercept", "exp", "exp²", "exp³", "sex", "degree")
    print(f"| ε | | {' | '.join(names)} | warn |")
    print("| --- " * (len(names) + 3) + "|")
    for epsilon in options.epsilon:
        asked = regression(
            "wage ~ exp + I(exp**2) + I(exp**3) + sex + degree",
            family="gaussian",
            bounds=bounds,
            levels=given,
            epsilon=epsilon,
            delta=DELTA,
            n=options.n,
        )
        places = [
            next(j for j, name in enumerate(asked.design.names) if name.startswith(one))
            for one in ("Intercept", "exp", "I(exp ** 2)", "I(exp ** 3)", "sex", "degree")
        ]
        held, exact, overlap, sign, warned = [], [], [], [], []
        for fit in range(options.fits):
            generator = np.random.default_rng([options.seed, fit])
            if whole is None:
                frame = simulated(options.n, generator)
            else:
                frame = whole.iloc[generator.integers(0, len(whole), options.n)].reset_index(drop=True)
            made = asked.fit(frame, source=SeededEntropy(int(generator.integers(2**31))))
            low, high = (end[places] for end in made.interval(0.95))
            centre, error = ordinary(frame)
            left, right = centre - 1.96 * error, centre + 1.96 * error
            both = np.maximum(np.minimum(high, right) - np.maximum(low, left), 0.0)
            held.append((low <= truth) & (truth <= high))
            exact.append((left <= truth) & (truth <= right))
            overlap.append((both / (high - low) + both / (right - left)) / 2)
            sign.append(np.sign(made.mean()[places]) == np.sign(centre))
            warned.append(bool(made.warnings))
        for label, rows in (
            ("holds", held),
            ("ordinary holds", exact),
            ("overlap", overlap),
            ("same sign", sign),
        ):
            cells = " | ".join(f"{one:.2f}" for one in np.mean(rows, axis=0))
            last = f"{np.mean(warned):.2f}" if label == "holds" else ""
            print(f"| {epsilon if label == 'holds' else ''} | {label} | {cells} | {last} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("slope")
    one.add_argument("--n", nargs="+", type=int, default=[100, 500, 1000, 2000])
    one.add_argument("--epsilon", nargs="+", default=["0.1", "1", "10"])
    one.add_argument("--fits", type=int, default=200)
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=slope)
    one = commands.add_parser("cubic")
    one.add_argument("--n", type=int, default=14_935)
    one.add_argument("--epsilon", nargs="+", default=["0.5", "1", "5", "10"])
    one.add_argument("--fits", type=int, default=100)
    one.add_argument("--data", type=Path, help="the folder of the survey; simulated records without it")
    one.add_argument("--seed", type=int, default=1)
    one.set_defaults(run=cubic)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
