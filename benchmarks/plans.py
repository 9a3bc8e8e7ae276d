"""How well plans foresee releases: the planned half-width over that of releases of simulated records.

Every kind of question with a width is planned with what is true of the records as its guess, and asked of
simulated records. The median half-width of the releases is what the plan promised, or, where the plan says
that widths vary by chance, within the range that it states.

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


def compare(cell: Cell, releases: int) -> tuple[float, tuple[float, float] | None, list[float]]:
    """Return the last interval's planned half-width, its stated range, and the half-widths of releases."""
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
    planned = discreet.plan(question, schema, guess=guess).planned
    return planned.widths[-1], planned.ranges[-1] if planned.ranges else None, sorted(map(float, halves))


def is_foreseen(planned: float, stated: tuple[float, float] | None, halves: list[float]) -> bool:
    """Whether the median release has the planned width, or one of the range that the plan states."""
    middle = float(np.median(halves))
    low, high = (planned, planned) if stated is None else stated
    return 0.9 * middle <= high and low <= 1.15 * middle


def main() -> None:
    """Print the grid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(QUESTIONS))
    parser.add_argument("--releases", type=int, default=12)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'':14}{'n':>6}{'ε':>6}{'missing':>9}  planned / realised")
    for kind, n, epsilon, missing in cells(given.kinds):
        planned, stated, halves = compare((kind, n, epsilon, missing), given.releases)
        middle = float(np.median(halves))
        between = "" if stated is None else f"  stated {stated[0] / middle:.2f} to {stated[1] / middle:.2f}"
        mark = "" if is_foreseen(planned, stated, halves) else "  *"
        print(f"{kind:14}{n:6}{epsilon:>6}{missing:9}  {planned / middle:.2f}{between}{mark}", flush=True)


if __name__ == "__main__":
    main()
