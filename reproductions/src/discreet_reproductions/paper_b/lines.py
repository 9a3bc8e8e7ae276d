"""Single lines of B: the density of 1, the Laplace probabilities of 3.1 and 3.4.1, the list of neighbours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import betaln

from discreet._numerics.count_vectors import compositions
from discreet._numerics.neighbours import neighbouring_rows
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["NAMED", "lines", "noise_rows"]

EPSILON = 0.8
NAMED = ((4, 5, 3), (4, 3, 5), (5, 4, 3), (5, 3, 4), (3, 5, 4), (5, 5, 5))
"""What B calls one step from DL(5, 5, 5)."""


def _below(y: float) -> float:
    """P[Y < y] for Y ~ Laplace(2/ε)."""
    tail = math.exp(-abs(y) * EPSILON / 2) / 2
    return tail if y < 0 else 1 - tail


def _from_absolute(low: float) -> float:
    """½·P[low ≤ |Y| < low + 1]."""
    return (_below(low + 1) - _below(max(low, 0.0))) if low > -1 else 0.0


def _either_sign(size: int) -> float:
    """P[|floor(Y)| = size]."""
    return sum(_below(step + 1) - _below(step) for step in {size, -size}) if size >= 0 else 0.0


def noise_rows() -> list[Row]:
    """The noise l: its probability, and B's formulas for it and for its size."""
    return [
        {
            "l": step,
            "floor(Y) = l": _below(step + 1) - _below(step),
            "B 3.4.1": _from_absolute(step if step > 0 else abs(step) - 1),
            "|floor(Y)| = l": _either_sign(step),
            "B 3.1": (math.exp(-step * EPSILON / 2) - math.exp(-(step + 1) * EPSILON / 2)) * (step >= 0),
            "floor(|Y|) = l": 2 * _from_absolute(step) * (step >= 0),
        }
        for step in range(-6, 7)
    ]


def _density() -> Statement:
    total = math.exp(betaln(2, 2) - betaln(1, 1))
    return Statement(
        "density",
        "the Dirichlet density is ∏ξᵢ^{αᵢ}/B(α)",
        "B 1",
        "no",
        f"for α = (1, 1) it integrates to B(2, 2)/B(1, 1) = {total:.4f}",
        "the exponents are αᵢ − 1; the posterior parameters that follow are right",
        {"total": total},
    )


def _sizes(rows: Sequence[Row]) -> Statement:
    printed, floor, size = (
        [row[key] for row in rows if row["l"] >= 0] for key in ("B 3.1", "|floor(Y)| = l", "floor(|Y|) = l")
    )
    return Statement(
        "size of the noise",
        "P[|⌊Y⌋| = l] = e^{−lε/2} − e^{−(l+1)ε/2} for Y ~ Laplace(2/ε)",
        "B 3.1",
        "yes" if np.allclose(printed, floor) else "no",
        f"it is the distribution of ⌊|Y|⌋ (largest difference {max(abs(np.subtract(printed, size))):.1g}): "
        f"at 0 {printed[0]:.4f}, where |⌊Y⌋| has {floor[0]:.4f}",
        "⌊Y⌋ is −1 as often as 0; the Laplace columns of the tables follow the printed formula",
        {"printed": printed[0], "floor": floor[0]},
    )


def _shift(rows: Sequence[Row]) -> Statement:
    off = {row["l"]: abs(row["B 3.4.1"] - row["floor(Y) = l"]) for row in rows}
    wrong = [step for step, gap in off.items() if gap > 1e-12]
    zero = next(row for row in rows if row["l"] == 0)
    return Statement(
        "half and shift",
        "P[⌊Y⌋ = l] = ½P[|l| ≤ |Y| < |l| + 1] for l > 0, ½P[|l| − 1 ≤ |Y| < |l|] else",
        "B 3.4.1",
        "yes" if not wrong else "partly" if len(wrong) < len(off) else "no",
        f"right but at l = {', '.join(map(str, wrong))}: there it gives {zero['B 3.4.1']:g}, and the "
        f"probability is {zero['floor(Y) = l']:.4f}",
        "0 belongs to the first case",
        {"wrong": wrong},
    )


def _neighbours() -> Statement:
    rows = compositions(15, 3)
    at = int(np.flatnonzero((rows == 5).all(axis=1))[0])
    pairs = neighbouring_rows(rows)
    beside = {tuple(rows[j].tolist()) for i, j in (*pairs.tolist(), *pairs[:, ::-1].tolist()) if i == at}
    right = [named for named in NAMED if named in beside]
    return Statement(
        "one step",
        "DL(4, 5, 3), DL(4, 3, 5), DL(5, 4, 3), DL(5, 3, 4), DL(3, 5, 4) and DL(5, 5, 5) are one step from "
        "DL(5, 5, 5)",
        "B 3.4.1",
        "yes" if len(right) == len(NAMED) else "partly" if right else "no",
        f"{len(right)} of the 6: five sum to 12 and the sixth is DL(5, 5, 5) itself. One step away are the "
        f"{len(beside)} orders of DL(6, 5, 4)",
        "a record that moves leaves the sum at 15",
        {"neighbours": sorted(beside)},
    )


def _fixed() -> Statement:
    rows = compositions(9, 3)
    apart = [np.abs(rows[i] - rows[j]).sum() for i, j in neighbouring_rows(rows)]
    return Statement(
        "fixed sensitivity",
        "the ℓ₁ sensitivity of the counts is fixed, whatever the prior is",
        "B 3.4.2",
        "yes" if set(apart) == {2} else "no",
        f"2 for all {len(apart):,} pairs of neighbours with k = 3, n = 9",
        "the prior is added to both posteriors; so the noise stays, though its effect on H does not (4.3.5)",
    )


def lines(run: Run) -> Outcome:
    """Five lines, and the distributions of the floored noise."""
    rows = noise_rows()
    found = [_density(), _sizes(rows), _shift(rows), _neighbours(), _fixed()]
    run.tick()
    verdict = (
        f"The probabilities of 3.1 are those of ⌊|Y|⌋, not of |⌊Y⌋| ({found[1].values['printed']:.4f} "
        f"against {found[1].values['floor']:.4f} at 0); of the six named as one step from DL(5, 5, 5) "
        "none is."
    )
    return Outcome(verdict, {"": rows}, {"": _plot(rows)}, found, {"epsilon": EPSILON})


def _plot(rows: Sequence[Row]) -> Any:
    figure = new_figure(8.2, 3.6)
    left, right = figure.subplots(1, 2)
    shown = [row for row in rows if row["l"] >= 0]
    for axis, part, names in (
        (left, shown, ("|floor(Y)| = l", "B 3.1")),
        (right, rows, ("floor(Y) = l", "B 3.4.1")),
    ):
        for name, marker in zip(names, "ox", strict=True):
            axis.plot([row["l"] for row in part], [row[name] for row in part], marker, label=name)
        axis.set_xlabel("l")
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False)
    left.set_ylabel(f"probability, ε = {EPSILON:g}")
    return figure
