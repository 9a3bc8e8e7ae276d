"""What 30 mixed questions of one study cost: the sum of prices, their exact composition, and dp-accounting's.

Proportions, tables, means, quantiles, survival curves and regressions of 2,000 simulated people are charged
to a ledger, whose account is then what ``discreet ledger show`` prints. dp-accounting composes the worst
mechanisms with the same guarantees: randomised response for a pure ε, Gaussian noise for a regression.

    python benchmarks/ledger.py
"""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet._cli import app
from discreet.privacy.curves import Gaussian

DELTA = "1e-6"
N = 2000


def people() -> tuple[dict[str, Any], discreet.Schema]:
    """Simulated records, and their schema."""
    rng = np.random.default_rng(35)
    columns: dict[str, Any] = {f"answer{i}": ["no", "perhaps", "yes"] for i in range(8)}
    data: dict[str, Any] = {name: rng.choice(values, N) for name, values in columns.items()}
    columns |= {"age": (18, 95), "hours": (0, 80), "days": (0, 1000), "status": ["alive", "dead"]}
    data |= {"age": rng.uniform(18, 95, N), "hours": rng.normal(38, 10, N), "days": rng.uniform(0, 1000, N)}
    data["status"] = rng.choice(columns["status"], N)
    return data, discreet.Schema(columns, n=N)


def ask(study: discreet.Study) -> None:
    """Ask thirty questions, at prices that were fixed beforehand."""
    for i in range(8):
        study.proportions(f"answer{i}", epsilon="0.1")
        study.proportions(f"answer{i}", f"answer{(i + 1) % 8}", epsilon="0.15")
    for column in ("age", "hours", "days"):
        study.mean(column, epsilon="0.1")
        study.quantiles(column, (0.25, 0.5, 0.75), epsilon="0.15")
    study.survival("days", "status", epsilon="0.2")
    study.survival("days", "status", by="answer0", epsilon="0.2")
    for i in range(6):
        study.regress(f"hours ~ age + answer{i}", epsilon="0.4", delta="1e-8")


def main() -> None:
    """Print the account, and what dp-accounting says of the same guarantees."""
    warnings.simplefilter("ignore")
    data, schema = people()
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "ledger.db")
        study = discreet.Study(data, schema, ledger=url, dataset="people", epsilon=9, delta=DELTA)
        ask(study)
        parts: Counter[tuple[str, float]] = Counter()
        for answer in study.result(title="Thirty questions").answers.values():
            curve, epsilon = answer.guarantee.curve, answer.guarantee.epsilon
            gaussian = isinstance(curve, Gaussian)
            parts["mu" if gaussian else "epsilon", curve.mu if gaussian else epsilon] += 1
        listed = ", ".join(f"{number} × {kind} = {v:.4g}" for (kind, v), number in parts.items())
        print(f"{sum(parts.values())} answers: {listed}")
        app(["ledger", "show", "people", "--ledger", url], standalone_mode=False)
    try:
        from peers_accounting import by_loss_distribution, by_rdp

        job = {"delta": float(DELTA), "parts": [({kind: value}, n) for (kind, value), n in parts.items()]}
        print(
            f"dp-accounting: ε = {by_loss_distribution(job):.4f}, by its Rényi accountant {by_rdp(job):.4f}"
        )
    except ImportError:
        print("dp-accounting is not installed")


if __name__ == "__main__":
    main()
