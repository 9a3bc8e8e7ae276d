"""Theorems 4.1, 4.3 and 4.4 of A: the error of LSHist in units of the local sensitivity, two levels.

ELap(x) is the (1 − γ)-quantile of the Hellinger error. 4.1 wants ELap/(ε·LS) to be O(1) in n; 4.3 goes by way
of the largest distance within ln(1/γ)/ε steps; 4.4 says how many steps that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet_reproductions.paper_a.pair import SAME, Pair, Prior, prior_words
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["OptimalitySettings", "measure", "optimality", "statements"]

CONSTANT = 2.0
"""O(1) in n: at most this many times the number of steps, which n is no part of, at every n and x."""


@dataclass(frozen=True)
class OptimalitySettings:
    """Priors, sizes, ε and γ; every x."""

    priors: tuple[Prior, ...] = ((1.0, 1.0), (7.0, 4.0), (0.5, 0.5))
    sizes: tuple[int, ...] = (2, 5, 10, 20, 50, 100, 200, 400, 800)
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    gammas: tuple[float, ...] = (0.5, 0.1, 0.01)

    def quick(self) -> OptimalitySettings:
        return replace(self, sizes=(2, 5, 20, 100, 200), epsilons=(0.1, 1.0), gammas=(0.5, 0.05))


def measure(prior: Prior, n: int, settings: OptimalitySettings) -> list[Row]:
    """For every ε and γ, over all x: how often 4.3's first inequality breaks, and the ratios to LS."""
    pair, x = Pair(prior, n), np.arange(n + 1)
    rows = []
    for epsilon in settings.epsilons:
        probability = pair.within(pair.lshist(epsilon))
        for gamma in settings.gammas:
            at = np.argmax(probability >= 1 - gamma - 1e-12, axis=1)
            error = pair.reached[x, at]
            reach = math.log(1 / gamma) / epsilon
            up = pair.distance[x, np.minimum(x + math.floor(reach + 1e-12), n)]
            sides = {}
            for name, steps in (("stated", math.floor(reach + 1e-12)), ("floored", math.ceil(reach - 1e-12))):
                sides[name] = np.maximum(up, pair.distance[x, np.maximum(x - steps, 0)])
            worst = int(np.argmax(error - sides["stated"]))
            rows.append(
                {
                    "prior": prior_words(prior),
                    "n": n,
                    "epsilon": epsilon,
                    "gamma": gamma,
                    "steps": reach,
                    "cases": n + 1,
                    "broken": int((error > sides["stated"] + SAME).sum()),
                    "broken with the floor": int((error > sides["floored"] + SAME).sum()),
                    "worst x": worst,
                    "error": float(error[worst]),
                    "largest distance": float(sides["stated"][worst]),
                    "error over LS": float((error / pair.local).max()),
                    "distance over LS": float((sides["floored"] / pair.local).max()),
                    "whole steps": max(1, math.ceil(reach - 1e-12)),
                }
            )
    return rows


def statements(rows: Sequence[Row], settings: OptimalitySettings) -> list[Statement]:
    """One verdict for each theorem, and two for 4.3."""
    per_epsilon = {epsilon: _largest(rows, epsilon) / epsilon for epsilon in settings.epsilons}
    cases, broken = sum(r["cases"] for r in rows), sum(r["broken"] for r in rows)
    floored = sum(r["broken with the floor"] for r in rows)
    first = max(rows, key=lambda r: r["error"] - r["largest distance"])
    second = max(rows, key=lambda r: r["distance over LS"] / r["whole steps"])
    fourth = max(rows, key=lambda r: r["error over LS"] / r["whole steps"])
    ratio = fourth["error over LS"] / fourth["whole steps"]
    return [
        Statement(
            "constant-in-n",
            "ELap/(ε·LS) is O(1) in n",
            "A 4.1",
            "yes" if ratio <= CONSTANT else "no",
            f"for all x and n to {max(settings.sizes)}, ELap ≤ {ratio:.3f}·⌈ln(1/γ)/ε⌉·LS, in which n does "
            "not "
            "occur. It is no constant in ε: the largest ELap/(ε·LS) is "
            + ", ".join(f"{value:.3g} at ε = {epsilon:g}" for epsilon, value in per_epsilon.items()),
            "in the middle d steps are d·LS nearly, at the edge LS does not fall with n. The theorem does "
            "not "
            "say its γ; each γ has its own constant",
            {"ratio": ratio, "by_epsilon": per_epsilon},
        ),
        Statement(
            "within-the-steps",
            "ELap is at most the largest distance within ln(1/γ)/ε steps",
            "A 4.3, first",
            "yes" if not broken else "partly" if not floored else "no",
            f"broken in {broken:,} of {cases:,} cases, e.g. α = {first['prior']}, n = {first['n']}, "
            f"ε = {first['epsilon']:g}, γ = {first['gamma']:g}, x = {first['worst x']}: {first['error']:.4f} "
            f"against {first['largest distance']:.4f}; with one step more below, for the floor: {floored}",
            "|Lap(1/ε)| ≤ ln(1/γ)/ε has probability 1 − γ, but its floor can be one step further down",
            {"cases": cases, "broken": broken, "with the floor": floored},
        ),
        Statement(
            "constant-bound",
            "That distance is at most a constant times LS, the constant being the number of steps",
            "A 4.3, second",
            "yes" if second["distance over LS"] <= second["whole steps"] + SAME else "partly",
            f"largest ratio to steps·LS {second['distance over LS'] / second['whole steps']:.4f} at "
            f"α = {second['prior']}, n = {second['n']}, ε = {second['epsilon']:g}, γ = {second['gamma']:g}",
            "not with the number of steps itself: where x is near an edge, steps outward are longer than "
            "LS(x)",
            {"ratio": second["distance over LS"] / second["whole steps"]},
        ),
        Statement(
            "steps-bound",
            "For γ = e^{−O(k)ε} the error in units of LS is O(k)",
            "A 4.4",
            "yes" if ratio <= CONSTANT else "no",
            f"ELap/LS is at most {ratio:.3f} times ⌈ln(1/γ)/ε⌉ everywhere",
            "ln(1/γ)/ε = O(k) is what the choice of γ says, and nothing else is proved. As printed, γ = "
            "e^{O(k)ε}, "
            "it is no probability: the sign is missing. With ≤ in its proof the bound goes the wrong way; "
            "it is =",
            {"ratio": ratio},
        ),
    ]


def _largest(rows: Sequence[Row], epsilon: float) -> float:
    return float(max(row["error over LS"] for row in rows if row["epsilon"] == epsilon))


def optimality(run: Run) -> Outcome:
    """The three theorems over the grid."""
    settings = OptimalitySettings().quick() if run.quick else OptimalitySettings()
    places = [(prior, n) for prior in settings.priors for n in settings.sizes]
    run.expect(len(places))
    rows = [
        row
        for prior, n in places
        for row in run.step(f"{settings} {prior} {n}", partial(measure, prior, n, settings))
    ]
    found = statements(rows, settings)
    broken, floor = found[1].values["broken"], found[1].values["with the floor"]
    return Outcome(
        f"ELap/LS has a bound without n (4.1), like 1/ε; 4.3's first inequality breaks in {broken:,} of "
        f"{found[1].values['cases']:,} cases, {floor} with the floor; 4.4 restates its γ",
        {"": rows},
        {"": _plot(rows, settings)},
        found,
        asdict(settings),
    )


def _plot(rows: Sequence[Row], settings: OptimalitySettings) -> Any:
    figure = new_figure(6.4, 4.2)
    axis = figure.add_subplot()
    gamma = settings.gammas[-1]
    for epsilon in settings.epsilons:
        lines = {
            n: max(
                r["error over LS"] for r in rows if (r["n"], r["epsilon"], r["gamma"]) == (n, epsilon, gamma)
            )
            for n in settings.sizes
        }
        axis.loglog(list(lines), list(lines.values()), "o-", label=f"ε = {epsilon:g}")
    axis.set_xlabel("number of records n")
    axis.set_ylabel("largest ELap/LS over all data and priors")
    axis.set_title(f"Theorem 4.1 of A: quantile of the error of LSHist, γ = {gamma:g}", fontsize=10)
    axis.legend(frameon=False)
    return figure
