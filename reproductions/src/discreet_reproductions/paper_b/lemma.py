"""B, Lemma 2.3: is M_β (ε, δ)-private at its defined rate? A search for two levels, witnesses for many.

δ(ε) is computed for all neighbours of one setting (prior, n, ε, δ). From the best of some random settings the
search climbs by the simplex method: every second time on ln(δ(ε)/δ), or on the largest loss over ε as long as
nothing is above ε, and else on ln(δ(θε)/δ) with θ = 3/4, then 9/10, then 1. A counterexample would have
δ(ε) > δ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.paper_b import levels
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["LemmaSettings", "climb", "excess", "lemma"]


_WAYS = ((1.0, 1.0), (0.75, 0.9, 1.0))


@dataclass(frozen=True)
class LemmaSettings:
    """How many climbs, from how many settings each, and up to which size."""

    climbs: int = 200
    starts: int = 12
    evaluations: int = 320
    largest: int = 250
    witnesses: tuple[tuple[int, int, float, float], ...] = levels.WITNESSES

    def quick(self) -> LemmaSettings:
        """For a test."""
        few = tuple(witness for witness in self.witnesses if witness[1] <= 40)
        return replace(self, climbs=4, evaluations=80, largest=30, witnesses=few)


def excess(
    prior: tuple[float, float], n: int, epsilon: float, delta: float, part: float = 1.0
) -> tuple[float, float]:
    """ln(δ(θε)/δ) over all neighbours, −inf if no loss is above it, and the largest loss over ε."""
    from scipy.special import logsumexp

    distance = candidate_distances(prior, compositions(n, 2))
    steps = np.diagonal(distance, 1)
    smooth = np.maximum(np.append(steps, 0), np.append(0, steps))
    fall = 1 / (1 + epsilon / (2 * math.log(2 * (n + 1) / delta)))
    for j in range(1, n + 1):
        smooth[j] = max(smooth[j], smooth[j - 1] * fall)
    for j in range(n - 1, -1, -1):
        smooth[j] = max(smooth[j], smooth[j + 1] * fall)
    distribution = -epsilon * distance / (2 * smooth[:, None])
    distribution -= logsumexp(distribution, axis=1)[:, None]
    found, largest = -math.inf, -math.inf
    for first, second in ((distribution[:-1], distribution[1:]), (distribution[1:], distribution[:-1])):
        loss = first - second
        above, largest = loss - part * epsilon, max(largest, float(loss.max()))
        with np.errstate(divide="ignore"):
            terms = np.where(above > 0, first + np.log(-np.expm1(-np.maximum(above, 0))), -np.inf)
        found = max(found, float(logsumexp(terms, axis=1).max()))
    return found - math.log(delta), largest / epsilon


def _place(values: FloatArray) -> tuple[tuple[float, float], float, float]:
    first, second = np.exp(np.clip(values[:2], -16, 16)).tolist()
    epsilon, odds = np.exp(np.clip(values[2:], (-4, -60), (5, 7))).tolist()
    return (first, second), epsilon, odds / (1 + odds)


def climb(settings: LemmaSettings, seed: int) -> list[Row]:
    """One climb: where it ends, and how far below δ the exact δ(ε) is there."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(seed)
    n = int(np.exp(rng.uniform(math.log(2), math.log(settings.largest + 1))))

    def depth(values: FloatArray, part: float) -> float:
        prior, epsilon, delta = _place(values)
        logarithm, loss = excess(prior, n, epsilon, delta, part)
        return -logarithm if math.isfinite(logarithm) else 2000 - 1000 * loss

    parts = _WAYS[seed % 2]
    starts = [rng.uniform((-9, -9, -2, -15), (9, 9, 4.5, 5)) for _ in range(settings.starts)]
    best = min(starts, key=partial(depth, part=parts[0]))
    for part in parts:
        simplex = best + np.vstack([np.zeros(4), np.diag([0.8, 0.8, 0.4, 1.0])])
        options = {"maxfev": settings.evaluations // len(parts), "initial_simplex": simplex}
        best = minimize(depth, best, (part,), method="Nelder-Mead", options=options).x
    prior, epsilon, delta = _place(best)
    logarithm, loss = excess(prior, n, epsilon, delta)
    place = {"n": n, "prior 1": prior[0], "prior 2": prior[1], "epsilon": epsilon, "delta": delta}
    return [{"seed": seed, **place, "δ(ε) over δ": math.exp(min(logarithm, 700.0)), "loss over ε": loss}]


def statements(rows: Sequence[Row], witnesses: Sequence[Row]) -> list[Statement]:
    """Whether a counterexample was met for two levels, where it was nearest; and those for many levels."""
    nearest = max(rows, key=lambda row: row["δ(ε) over δ"])
    beyond = sum(row["loss over ε"] > 1 for row in rows)
    at = ", ".join(f"{key} = {nearest[key]:.4g}" for key in ("n", "prior 1", "prior 2", "epsilon", "delta"))
    refuted = [row for row in witnesses if min(row["limit"], row["exact"] or 1) > row["delta"]]
    return [
        Statement(
            "lemma",
            "M_β at its defined rate is (ε, δ)-private for two levels",
            "B 2.3.4, lemma 2.3",
            "no" if nearest["δ(ε) over δ"] > 1 else "partly",
            f"{len(rows)} climbs: the nearest to a counterexample is "
            f"δ(ε) = {nearest['δ(ε) over δ']:.2g}·δ at {at}. "
            f"{beyond} climbs ended where the loss is above ε, so that δ > 0 is needed",
            "open: a search is no proof; (3ε/2 + δ/2, δ/2) is proved",
            {"nearest": nearest, "beyond": beyond},
        ),
        Statement(
            "many levels",
            "M_β at its defined rate is (ε, δ)-private for any number of levels",
            "B 2.3.4, lemma 2.3",
            "no" if refuted else "partly",
            "; ".join(
                f"k = {row['k']}, n = {row['n']}, ε = {row['epsilon']:g}, δ = {row['delta']:g}: "
                f"δ(ε) = {row['exact'] or row['limit']:.3g}"
                for row in refuted
            ),
            "prior (a, …, a, B), B ≫ a ≫ n²: (0, …, 0, n) has a local sensitivity smaller by √2 than its "
            "neighbours, and most of the mass is far away",
            {"refuted": [row["k"] for row in refuted]},
        ),
    ]


def lemma(run: Run) -> Outcome:
    """Climbs towards δ(ε) > δ for two levels, and how near they come; witnesses for many levels."""
    settings = LemmaSettings().quick() if run.quick else LemmaSettings()
    run.expect(settings.climbs + len(settings.witnesses))
    rows = [
        row
        for seed in range(settings.climbs)
        for row in run.step(f"{settings} {seed}", partial(climb, settings, seed))
    ]
    witnesses = [
        row
        for place in settings.witnesses
        for row in run.step(f"{settings} {place}", partial(levels.measure, *place))
    ]
    found = statements(rows, witnesses)
    nearest = found[0].values["nearest"]["δ(ε) over δ"]
    least = min(found[1].values["refuted"], default=None)
    verdict = (
        f"False from k = {least} levels on. For two no counterexample in {len(rows)} climbs; the nearest has "
        f"δ(ε) = {nearest:.2g}·δ"
    )
    tables = {"": rows, "levels": witnesses}
    return Outcome(verdict, tables, {"": _plot(rows, witnesses)}, found, asdict(settings))


def _plot(rows: Sequence[Row], witnesses: Sequence[Row]) -> Any:
    figure = new_figure(8.2, 3.6)
    two, many = figure.subplots(1, 2)
    ended = [row for row in rows if row["δ(ε) over δ"] > 0]
    two.set_xlim(1.5, 1.2 * max(row["n"] for row in rows))
    two.set_ylim(1e-12, 10)
    two.loglog([row["n"] for row in ended], [row["δ(ε) over δ"] for row in ended], ".")
    two.set_xlabel("n")
    two.set_ylabel("δ(ε)/δ where a climb ended")
    two.set_title("two levels: open", fontsize=10)
    many.loglog([row["k"] for row in witnesses], [row["limit"] / row["delta"] for row in witnesses], "o")
    for row in witnesses:
        if row["exact"]:
            many.loglog(row["k"], row["exact"] / row["delta"], "x", color="black")
    many.set_xticks([row["k"] for row in witnesses], [str(row["k"]) for row in witnesses])
    many.minorticks_off()
    many.set_xlabel("levels k (cross: exact distribution, dot: its limit)")
    many.set_title("prior (a, …, a, B): refuted", fontsize=10)
    for axis in (two, many):
        axis.axhline(1, color="black", linewidth=0.9, linestyle=":")
    return figure
