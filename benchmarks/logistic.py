"""Private logistic regression, measured: gradient steps, exact draws, Adult, diffprivlib at the same (ε, δ).

    python benchmarks/logistic.py [--data FOLDER] [--out FILE]

Without ``--data`` gradient steps and exact draws are timed, on random rows of the shapes that matter. With
it, Adult is read from the folder (see reproductions/README.md), and diffprivlib is installed, with the
scikit-learn that it needs, into an environment of its own (``.venv-bench``). Nothing here is a test.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from discreet.regression._chain import loss_gradient, one_thread

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # the loader of Adult is an experiment's
from benchmarks.environments import DIFFPRIVLIB, find

SHAPES = {"Adult, 14 columns": (32_561, 15), "Adult, 108 columns": (32_561, 109), "MNIST 3v8": (11_982, 785)}
EPSILON, DELTA = 1.0, 1e-6
EXACT = ((200, 2, 1.0), (1_000, 5, 1.0), (2_000, 4, 1.0), (1_000, 10, 0.5), (5_000, 4, 0.1), (5_000, 5, 1.0))

Row = dict[str, Any]


def gradient_steps(budget: float) -> Iterator[Row]:
    """Gradients of all rows, as a step of the chain takes them, on one thread."""
    rng = np.random.default_rng(1)
    for name, (n, dimension) in SHAPES.items():
        signed = rng.standard_normal((n, dimension)) / dimension**0.5
        for chains in (1, 64):
            at, spent, best = rng.standard_normal((dimension, chains)), 0.0, math.inf
            with one_thread():
                while spent < budget:
                    start = time.perf_counter()
                    loss_gradient(signed, at)
                    took = time.perf_counter() - start
                    best, spent = min(best, took), spent + took
            yield {"group": "gradient steps", "what": f"{name}, {chains} chain(s)", "per_s": 1 / best}


def exact_draws() -> Iterator[Row]:
    """One private fit by exact rejection and by the chain, where ``auto`` takes which; random rows."""
    import discreet

    rng = np.random.default_rng(1)
    for n, columns, epsilon in EXACT:
        rows = rng.uniform(-1, 1, (n, columns)) / columns**0.5
        labels = rng.random(n) < 1 / (1 + np.exp(-4 * rows[:, 0]))
        asked = {"method": "diffuse", "epsilon": epsilon, "delta": DELTA, "classes": (False, True)}
        took = {}
        for sampler in ("rejection", "langevin"):
            times = []
            for _ in range(5):
                model = discreet.PrivateLogisticRegression(**asked, sampler=sampler)
                start = time.perf_counter()
                model.fit(rows, labels)
                times.append(time.perf_counter() - start)
            took[f"{sampler}_s"] = float(np.mean(times))
        chosen = discreet.PrivateLogisticRegression(**asked).fit(rows, labels).design_.sampler
        name = f"{n:,} records, {columns} columns, epsilon = {epsilon:g}: {chosen}"
        yield {"group": "exact draws, and what auto takes", "what": name, **took}


def adult(folder: Path, one_hot_too: bool = True) -> Iterator[Row]:
    """Time and test error of one private fit; then the same clipped rows for diffprivlib."""
    import discreet
    from discreet.regression.release import clip_rows
    from discreet_reproductions.paper_c.regression import adult_rows

    peer = find(DIFFPRIVLIB)
    for one_hot in (False, True) if one_hot_too else (False,):
        rows, labels, train = adult_rows(folder, one_hot=one_hot)
        rows = clip_rows(rows, 1.0)
        name = f"Adult, {rows.shape[1]} columns, epsilon = {EPSILON:g}, delta = {DELTA:g}"
        width = 1 / math.sqrt(
            14
        )  # columns are within ± this: 14 of them, or 6 and 8 of 102 that are 0 or this
        bounded = {"bounds": (-width, width), "norm_bound": math.sqrt(15)}
        methods: dict[str, Row] = {"newton": bounded}
        if one_hot_too:
            methods |= {method: {"norm_bound": 1.0} for method in ("diffuse", "concentrated")}
        for method, declared in methods.items():
            errors, times = [], []
            for _ in range(10 if method == "newton" else 3):
                model = discreet.PrivateLogisticRegression(
                    epsilon=EPSILON, delta=DELTA, method=method, classes=(False, True), **declared
                )
                start = time.perf_counter()
                model.fit(rows[train], labels[train])
                times.append(time.perf_counter() - start)
                errors.append(1 - model.score(rows[~train], labels[~train]))
            steps = "" if method == "newton" else f", {model.design_.steps:,} steps"
            yield {
                "group": name,
                "what": f"discreet {method}{steps}",
                "seconds": min(times),
                "test_error": float(np.mean(errors)),
            }
        if peer.python is None:
            yield {"group": name, "what": f"diffprivlib: skipped, {peer.reason}"}
            continue
        with tempfile.TemporaryDirectory() as home:
            data = Path(home, "adult.npz")
            np.savez(data, X=rows[train], y=labels[train], Xt=rows[~train], yt=labels[~train])
            command = [peer.python, "-c", _PEER, str(data)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        yield {"group": name, "what": "diffprivlib LogisticRegression, delta = 0", **found}


_PEER = f"""
import json, sys, time, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
z = np.load(sys.argv[1])
errors, times = [], []
for seed in range(10):
    model = LogisticRegression(epsilon={EPSILON}, data_norm=1.0, max_iter=1000)
    start = time.perf_counter()
    model.fit(z["X"], z["y"])
    times.append(time.perf_counter() - start)
    errors.append(1 - model.score(z["Xt"], z["yt"]))
print(json.dumps({{"seconds": min(times), "test_error": float(np.mean(errors))}}))
"""


def show(row: Row) -> str:
    figures = [f"{key} {value:.4g}" for key, value in row.items() if isinstance(value, float)]
    return f"  {row['what']:<48} {'   '.join(figures)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with adult_train.csv.gz and adult_test.csv.gz")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each timing of gradient steps")
    parser.add_argument("--out", type=Path, default=Path("out/logistic.json"))
    arguments = parser.parse_args()
    about = {"python": platform.python_version(), "numpy": np.__version__, "date": time.strftime("%Y-%m-%d")}
    print(about)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    group = ""
    parts = [gradient_steps(arguments.seconds), exact_draws()]
    if arguments.data:
        parts.append(adult(arguments.data))
    else:
        print("Adult and diffprivlib: skipped, no folder was given (--data FOLDER, make bench DATA=FOLDER)")
    for row in (row for part in parts for row in part):
        if row["group"] != group:
            group = row["group"]
            print(f"\n{group}")
        rows.append(row)
        print(show(row), flush=True)
    arguments.out.write_text(json.dumps({"about": about, "rows": rows}, indent=2) + "\n", "utf-8")
    print(f"\nWritten to {arguments.out}")


if __name__ == "__main__":
    main()
