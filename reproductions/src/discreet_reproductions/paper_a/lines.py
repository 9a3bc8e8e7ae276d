"""Single lines of A: Theorem 3.1 with A's constant, the last step of 4.4.1, and the limit of LS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.neighbours import HellingerDistributions
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["lines", "local_rows", "loss_with_constant"]

CONSTANT = math.sqrt(1 - math.pi / 4)
EDGE = math.sqrt(1 - math.gamma(1.5))
"""The limit of LS at (0, n) for α = (1, 1): w(t) → 1 for the full level, w(1) = Γ(3/2) for the empty one."""


def loss_with_constant(prior: tuple[float, ...], n: int, epsilon: float) -> float:
    """The exact loss of EHD with √(1 − π/4) as its sensitivity."""
    rows = compositions(n, len(prior))
    return HellingerDistributions(prior, rows, np.full(len(rows), 1 / CONSTANT)).worst_loss(epsilon / 2)


def local_rows() -> list[Row]:
    """LS of even data and of data at the edge, α = (1, 1)."""
    sizes = (2, 10, 100, 1000, 10**4, 10**6, 10**8)
    return [
        {
            "n": n,
            "even": local_sensitivity((n // 2, n // 2), (1, 1)),
            "edge": local_sensitivity((0, n), (1, 1)),
        }
        for n in sizes
    ]


def _theorem(epsilon: float = 0.8) -> Statement:
    large = [((1.0, 1.0), 40), ((1.0, 1.0, 1.0), 12), ((7.0, 4.0), 40), ((1.0, 3.0, 2.0), 12)]
    above = max(loss_with_constant(prior, n, epsilon) for prior, n in large)
    witness = loss_with_constant((0.01, 0.01), 5, epsilon)
    return Statement(
        "theorem 3.1",
        "LSDim, LSHist, EHD and EHDS are ε-private, EHD with A's GS = √(1 − π/4)",
        "A 3.1",
        "yes" if witness <= epsilon else "partly" if above <= epsilon else "no",
        f"EHD at ε = {epsilon:g}: exact loss at most {above:.4f} over priors from 1 on; {witness:.4f} for "
        "α = (0.01, 0.01), n = 5",
        "proved for αᵢ ≥ 1, where the constant bounds the sensitivity; the others need no condition",
        {"above": above, "witness": witness},
    )


def _last_step() -> list[Statement]:
    grid = [0.01, 0.1, 0.5, 1.0, 2.0, 5.0]
    printed = [math.log(2 / math.exp(-2 * e)) / e for e in grid]
    chain = [math.log(2 / (math.exp(-e) + math.exp(-2 * e))) / e for e in grid]
    return [
        Statement(
            "last step",
            "The last step of the printed chain, ln(2/e^{−2ε})/ε = 2",
            "A 4.4.1",
            "yes" if max(abs(value - 2) for value in printed) < 1e-9 else "no",
            f"it is 2 + ln 2/ε: {printed[1]:.3f} at ε = 0.1, {printed[3]:.3f} at ε = 1",
            "one of the two terms was dropped without its factor 2",
        ),
        Statement(
            "last step repaired",
            "What the chain wants to show, ln(2/(e^{−ε} + e^{−2ε}))/ε < 2",
            "A 4.4.1",
            "yes" if max(chain) < 2 else "no",
            f"between {min(chain):.4f} and {max(chain):.4f}",
            "e^{−ε} + e^{−2ε} > 2e^{−2ε}, so it is below ln(2/(2e^{−2ε}))/ε = 2",
        ),
    ]


def _limit(rows: Sequence[Row]) -> Statement:
    even, edge = rows[-1]["even"], rows[-1]["edge"]
    return Statement(
        "limit of LS",
        "LS(x) tends to 0 as n grows",
        "A 4.5, end",
        "yes" if max(even, edge) < 1e-3 else "partly" if even < 1e-3 else "no",
        f"α = (1, 1), n = {rows[-1]['n']:,}: {even:.2g} for even data, {edge:.4f} for (0, n), whose limit is "
        f"√(1 − Γ(3/2)) = {EDGE:.4f}",
        "an empty level stays empty: one record moved into it is a step that n does not shorten",
        {"edge": edge},
    )


def lines(run: Run) -> Outcome:
    """Three lines, and the local sensitivity against n."""
    rows = local_rows()
    found = [_theorem(), *_last_step(), _limit(rows)]
    run.tick()
    verdict = (
        f"3.1 needs αᵢ ≥ 1 for A's constant (loss {found[0].values['witness']:.3f} for ε = 0.8 else); "
        f"LS tends to {EDGE:.4f} at the edge, not to 0."
    )
    return Outcome(verdict, {"": rows}, {"": _plot(rows)}, found, {})


def _plot(rows: Sequence[Row]) -> Any:
    figure = new_figure(5.6, 3.6)
    axis = figure.add_subplot()
    for column, label in (("even", "even data"), ("edge", "data (0, n)")):
        axis.loglog([row["n"] for row in rows], [row[column] for row in rows], "o-", label=label)
    axis.axhline(EDGE, color="black", linewidth=0.9, linestyle=":", label="√(1 − Γ(3/2))")
    axis.set_xlabel("n")
    axis.set_ylabel("local sensitivity, α = (1, 1)")
    axis.legend(frameon=False)
    return figure
