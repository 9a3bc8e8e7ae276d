"""How well plans foresee releases: the planned half-width over that of releases of simulated records.

Every kind of question with a width is planned with what is true of the records as its guess, and asked of
simulated records; the root mean square half-width of the releases is what the plan promised, or not.

    python benchmarks/plans.py                      # the grid of kinds, sizes, ε and missing values
    python benchmarks/plans.py mean quantiles       # some kinds
    python benchmarks/plans.py --releases 40
"""

from __future__ import annotations

import argparse
import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

import discreet

SIZES, EPSILONS, MISSING = (500, 5000), ("0.2", "1"), (0.0, 0.3)
DEVIATION, SHARE = 20, 0.5
"""Of numbers between 0 and 100, and of every value of a category."""
QUESTIONS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "proportions": (discreet.Proportions, {"columns": "smoker"}),
    "table": (discreet.Proportions, {"columns": ("smoker", "sex")}),
    "groups": (discreet.Proportions, {"columns": "smoker", "by": "region"}),
    "mean": (discreet.Mean, {"column": "age"}),
    "mean by": (discreet.Mean, {"column": "age", "by": "region"}),
    "quantiles": (discreet.Quantiles, {"column": "age", "probs": (0.25, 0.5, 0.75)}),
    "regress": (discreet.Regress, {"formula": "age ~ hours", "delta": "1e-6"}),
    "binomial": (discreet.Regress, {"formula": "smoker ~ hours", "family": "binomial", "delta": "1e-6"}),
}
Cell = tuple[str, int, str, float]


def cells(kinds: list[str]) -> Iterator[Cell]:
    """Yield the grid."""
    yield from itertools.product(kinds, SIZES, EPSILONS, MISSING)


def records(n: int, missing: float) -> tuple[dict[str, list[Any]], discreet.Schema]:
    """Return simulated records and their schema."""
    rng = np.random.default_rng(n)
    ages, hours = (np.clip(rng.normal(50, DEVIATION, n), 0, 100).tolist() for _ in range(2))
    smokers = rng.choice(["no", "yes"], n).tolist()
    for place in range(round(n * missing)):
        ages[place] = smokers[place] = None
    rule = {"missing": "exclude"} if missing else {}
    public = discreet.Category(["north", "south"], public=True)
    columns = {
        "smoker": discreet.Category(["no", "yes"], **rule),
        "sex": ["f", "m"],
        "region": public,
        "age": discreet.Number(0, 100, **rule),
        "hours": (0, 100),
    }
    data = {
        "smoker": smokers,
        "sex": rng.choice(["f", "m"], n).tolist(),
        "region": ["north", "south"] * (n // 2),
        "age": ages,
        "hours": hours,
    }
    return data, discreet.Schema(columns, n=n)


def ratio(cell: Cell, releases: int) -> tuple[float, float]:
    """Return the planned half-width over that of releases, of the last interval, and its relative error."""
    kind, n, epsilon, missing = cell
    data, schema = records(n, missing)
    question_type, fields = QUESTIONS[kind]
    question = question_type(**fields, epsilon=epsilon)
    used = question.columns_used(schema)
    schema = schema.select(*used)
    guess: dict[str, Any] = {"left_out": missing} if missing else {}
    if question_type is not discreet.Proportions and "age" in used:
        guess["typical"] = DEVIATION
    if question_type is discreet.Regress:
        guess["spread"] = DEVIATION / 100
    halves = []
    for _ in range(releases):
        low, high = discreet.ask({name: data[name] for name in used}, question, schema=schema).interval(0.95)
        halves.append((np.ravel(high)[-1] - np.ravel(low)[-1]) / 2)
    planned = discreet.plan(question, schema, guess=guess).widths[-1]
    squares = np.square(halves)
    error = float(squares.std(ddof=1) / squares.mean() / 2 / np.sqrt(releases))
    return planned / float(np.sqrt(squares.mean())), error


def main() -> None:
    """Print the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(QUESTIONS))
    parser.add_argument("--releases", type=int, default=12)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':14}{'n':>6}{'ε':>6}{'missing':>9}  planned / realised")
    for kind, n, epsilon, missing in cells(given.kinds):
        found, error = ratio((kind, n, epsilon, missing), given.releases)
        mark = "" if 0.9 <= found <= 1.15 else "  *"
        print(f"{kind:14}{n:6}{epsilon:>6}{missing:9}  {found:.2f} ± {error:.2f}{mark}", flush=True)


if __name__ == "__main__":
    main()
