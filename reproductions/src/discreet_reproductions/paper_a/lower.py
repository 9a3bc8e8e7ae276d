"""A 4.5, end: “We cannot found a tighter lower bound” for EHDL. One that does not vanish as n grows.

Of two levels let the posterior of the truth be Beta(a, b). To that of j steps up −ln(1 − H²) is half of
A(0) + A(j) less A(j/2), where A(x) = ln Γ(a + x) + ln Γ(b − x). As ψ'(x) > 1/x, A'' is above
1/(a + x) + 1/(b − x), of which v(j) is the least value between 0 and j: H² ≥ 1 − exp(−v(j)·j²/8). EHDL gives
such a candidate, relative to the truth, a weight of at most

    q(j) = exp(−ε·√(1 − exp(−v(j)·j²/8))/(2·LS)),

the truth weight 1, each neighbour of it, being within LS, at least exp(−ε/2), and all that are within t more
than exp(−εt/(2·LS)). With u steps up and d steps down within t, m of the two neighbours among them,

    P[H < t] ≥ w/(w + Σ_{j>u} q(j) + Σ_{j>d} q(j)),
    w = 1 + m·exp(−ε/2) + (u + d − m)·exp(−εt/(2·LS)),

the second sum with a and b exchanged, both ending where the counts do. As q ≤ 1 this is never below A's bound
with n + 1 for n and u + d for 2k. LS shrinks as √v(1), so that q(j) tends to a geometric sequence: the bound
tends to 1 as t covers more steps, whatever n is, where A's tends to 1/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.paper_a.pair import Pair, Prior, prior_words
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["LowerSettings", "bound", "lower"]


@dataclass(frozen=True)
class LowerSettings:
    """Where the bound is compared with the exact probability: every dataset, every t."""

    priors: tuple[Prior, ...] = ((1.0, 1.0), (7.0, 4.0), (0.1, 0.1), (0.01, 40.0))
    sizes: tuple[int, ...] = (1, 2, 5, 20, 100, 500, 1500)
    epsilons: tuple[float, ...] = (0.1, 0.8, 3.0)

    def quick(self) -> LowerSettings:
        """For a test."""
        return replace(self, sizes=(1, 5, 20))


def bound(pair: Pair, epsilon: float) -> FloatArray:
    """The lower bound of P[H < t] for every dataset (rows) and every event (columns)."""
    n, x = pair.n, np.arange(pair.n + 1)
    step, rate = x[None, :], epsilon / (2 * pair.local[:, None])
    shape = (pair.prior[0] + x)[:, None], (pair.prior[1] + n - x)[:, None]
    sides = ((pair.steps["up"], n - x, *shape), (pair.steps["down"], x, *shape[::-1]))
    outside = np.zeros(pair.reached.shape)
    for within, last, a, b in sides:
        halfway = np.clip((b - a) / 2, 0, np.minimum(step, last[:, None]))
        least = 1 / (a + halfway) + 1 / (b - halfway)
        weight = np.exp(-rate * np.sqrt(-np.expm1(-least * step**2 / 8)))
        up_to = np.cumsum(weight, axis=1)  # of all candidates at most so many steps away, at this side
        outside += up_to[x[:, None], last[:, None]] - up_to[x[:, None], within]
    near, all_within = (sum(part) for part in zip(*(((w > 0) * 1, w) for w, *_ in sides), strict=True))
    further = (all_within - near) * np.exp(-rate * pair.reached)
    inside = 1 + near * np.exp(-epsilon / 2) + further
    return np.asarray(inside / (inside + np.maximum(outside, 0)))


def measure(prior: Prior, n: int, epsilon: float) -> list[Row]:
    """Both bounds beside the truth at one place; the least probability over its datasets within two steps."""
    pair = Pair(prior, n)
    exact = pair.within(pair.exponential(epsilon, pair.local))
    ours = bound(pair, epsilon)
    most = pair.steps["largest"]
    theirs = (2 * most * np.exp(-epsilon / (2 * pair.local[:, None])) + 1) / n
    events = pair.is_event
    middle, two = n // 2, int(np.searchsorted(most[n // 2], 2, "right")) - 1
    return [
        {
            "prior": prior_words(prior),
            "n": n,
            "epsilon": epsilon,
            "events": int(events.sum()),
            "above": int((ours > exact * (1 + 1e-12))[events].sum()),
            "least quotient": float((ours / exact)[events].min()),
            "least quotient of A": float((np.minimum(theirs, 1) / exact)[events].min()),
            "two steps, exact": float(exact[middle, two]),
            "two steps, bound": float(ours[middle, two]),
            "two steps, A": float(theirs[middle, two]),
        }
    ]


def statements(rows: Sequence[Row]) -> list[Statement]:
    """Whether it holds everywhere, and what it is worth."""
    above = sum(row["above"] for row in rows)
    worst = min(row["least quotient"] for row in rows)
    theirs = min(row["least quotient of A"] for row in rows)
    holds = above == 0 and worst > theirs
    return [
        Statement(
            "tighter",
            "There is no tighter lower bound of P[H < t] for EHDL",
            "A 4.5, end",
            "no" if holds else "yes",
            f"over {sum(row['events'] for row in rows):,} pairs of dataset and t ours is above the exact "
            f"probability in {above} and at least {worst:.3g} times it in all; A's falls to {theirs:.2g}",
            "candidates j steps away are at least √(1 − exp(−v·j²/8)) away, which A replaces by 0",
            {"above": above, "ours": worst, "theirs": theirs},
        )
    ]


def lower(run: Run) -> Outcome:
    """The bound against the exact distribution of EHDL and against A's."""
    settings = LowerSettings().quick() if run.quick else LowerSettings()
    places = [(p, n, e) for p in settings.priors for n in settings.sizes for e in settings.epsilons]
    run.expect(len(places))
    rows = [row for place in places for row in run.step(f"{settings} {place}", partial(measure, *place))]
    found = statements(rows)
    verdict = f"A bound within a factor of {1 / found[0].values['ours']:.2g}, where A's is off by n"
    return Outcome(verdict, {"": rows}, {"": _plot(rows, settings)}, found, asdict(settings))


def _plot(rows: Sequence[Row], settings: LowerSettings) -> Any:
    figure = new_figure(3.6 * len(settings.epsilons), 3.5)
    prior = prior_words(settings.priors[0])
    for place, epsilon in enumerate(settings.epsilons, 1):
        axis = figure.add_subplot(1, len(settings.epsilons), place)
        own = [row for row in rows if row["prior"] == prior and row["epsilon"] == epsilon and row["n"] > 2]
        for key, style in (("exact", "o-"), ("bound", "s--"), ("A", "^:")):
            axis.loglog(
                [row["n"] for row in own], [row[f"two steps, {key}"] for row in own], style, label=key
            )
        axis.set_title(f"prior {prior}, ε = {epsilon:g}", fontsize=10)
        axis.set_xlabel("n")
        if place == 1:
            axis.set_ylabel("P[within two steps]")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
