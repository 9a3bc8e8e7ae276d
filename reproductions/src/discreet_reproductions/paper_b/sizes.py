"""Every size that the exact distributions allow: who leads where, where the error of M_β peaks, and what the
limit is.

B's figures stop at n = 24 and 30. Beyond them M_β changes its nature. While the posterior is wide, its rate
is small against the number of candidates, and the draw is nearly uniform. When n is large, H is √(k/8n) times
the Euclidean length of the step d and S_β the same of one replaced record, so that the distribution tends to
exp(−ε‖d‖/(2√2)) on the lattice Σd = 0, whatever n is. For k = 2 that is two-sided geometric noise with the
rate of B's Laplace noise, but without the half step down that its floor adds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import number_of_compositions
from discreet_reproductions.paper_b.distributions import Distribution, Prior, uniform_counts
from discreet_reproductions.paper_b.tradeoffs import (
    LOOKS,
    MECHANISMS,
    Reading,
    Settings,
    answer,
    distributions,
    ones,
)
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["SizeSettings", "intervals", "leads_from", "led", "limit", "peak", "scan", "sizes"]

STEPS = 3
"""B 3.4.1 calls candidates within three steps good answers."""


@dataclass(frozen=True)
class SizeSettings:
    """Even data: the largest n of each k, the n up to which every size is tried, and the ε."""

    largest: tuple[tuple[int, int], ...] = ((2, 8192), (3, 960))
    every: tuple[tuple[int, int], ...] = ((2, 640), (3, 96))
    epsilons: tuple[float, ...] = (0.2, 0.5, 0.8, 1.0, 2.0)
    epsilon: float = 0.8
    growth: float = 1.1
    figure3_largest: int = 8192

    def quick(self) -> SizeSettings:
        return replace(
            self,
            largest=((2, 2048), (3, 480)),
            every=((2, 48), (3, 24)),
            epsilons=(0.8, 2.0),
            growth=1.4,
            figure3_largest=4096,
        )

    def tried(self, k: int) -> list[int]:
        """Multiples of k: each at first, then a growing step."""
        largest, every = dict(self.largest)[k], dict(self.every)[k]
        found = list(range(k, every + 1, k))
        while found[-1] < largest:
            found.append(min(largest // k * k, max(found[-1] + k, int(found[-1] * self.growth) // k * k)))
            if found[-1] == largest // k * k:
                break
        return found


def _pair(prior: Prior, n: int, epsilon: float, delta: float = 0.0005) -> dict[str, Distribution]:
    return distributions(prior, uniform_counts(n, len(prior)), Settings(6, (), epsilon, delta), Reading())


def scan(k: int, epsilon: float, tried: Sequence[int]) -> list[Row]:
    """Exact expected error of both, and P(within three steps), for the uniform prior and even data."""
    rows = []
    for n in tried:
        row: Row = {"k": k, "epsilon": epsilon, "n": n, "candidates": number_of_compositions(n, k)}
        for name, distribution in _pair(ones(k), n, epsilon).items():
            steps = np.abs(distribution.outputs - np.array(distribution.counts)).sum(axis=1) / 2
            row |= {
                name: distribution.expected,
                f"{name} near": float(distribution.probability @ (steps <= STEPS)),
            }
        rows.append(row)
    return rows


def intervals(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """(who leads, from which n, to which n) along the sizes that were tried."""
    found: list[tuple[str, int, int]] = []
    for row in rows:
        ours, theirs = (row[name] for name in MECHANISMS)
        leader = "M_β" if ours < theirs else "Laplace"
        if found and found[-1][0] == leader:
            found[-1] = (leader, found[-1][1], row["n"])
        else:
            found.append((leader, row["n"], row["n"]))
    return found


def leads_from(leads: Callable[[int], bool], tried: Sequence[int], step: int) -> int | None:
    """The size from which on M_β leads: the last change along the sizes tried, then every size before it."""
    last = next((i for i in range(len(tried) - 1, -1, -1) if not leads(tried[i])), None)
    if last is None:
        return tried[0]
    if last == len(tried) - 1:
        return None
    return next(n for n in range(tried[last] + step, tried[last + 1] + 1, step) if leads(n))


def peak(rows: Sequence[Row]) -> Row:
    """The row with the largest error of M_β."""
    return max(rows, key=lambda row: row["exponential"])


def limit(k: int, epsilon: float) -> Row:
    """n → ∞: the mean length of a step of both noises, and P(within three steps)."""
    reach = math.ceil((60 if k == 2 else 40) / epsilon)
    side = np.arange(-reach, reach + 1)
    free = np.indices((len(side),) * (k - 1)).reshape(k - 1, -1).T - reach
    step = np.concatenate([free, -free.sum(axis=1, keepdims=True)], axis=1)
    length, near = np.sqrt((step.astype(np.float64) ** 2).sum(axis=1)), np.abs(step).sum(axis=1) <= 2 * STEPS
    exponential = np.exp(-epsilon * length / (2 * math.sqrt(2)))
    # P(⌊Lap(2/ε)⌋ = j) is proportional to q^j for j ≥ 0 and to q^{−j−1} below.
    single = np.exp(-epsilon / 2 * np.where(side >= 0, side, -side - 1))
    laplace = np.ones(1)
    for _ in range(k - 1):
        laplace = np.multiply.outer(laplace, single).ravel()
    row: Row = {"k": k, "epsilon": epsilon}
    for name, weight in (("exponential", exponential), ("laplace", laplace)):
        distribution = weight / weight.sum()
        row |= {f"{name} step": float(distribution @ length), f"{name} near": float(distribution @ near)}
    return row | {"ratio": row["exponential step"] / row["laplace step"]}


def figure3_from(settings: SizeSettings, delta: float) -> list[Row]:
    """Figure 3 of B (prior (7, 4), ε = 0.5, even data): from which n on M_β beats Laplace 2/ε."""
    errors: dict[int, tuple[float, float]] = {}

    def leads(n: int) -> bool:
        if n not in errors:
            found = _pair((7.0, 4.0), n, 0.5, delta)
            errors[n] = (found["exponential"].expected, found["laplace"].expected)
        return errors[n][0] < errors[n][1]

    tried, n = [], 4
    while n <= settings.figure3_largest:
        tried.append(n)
        n = max(n + 2, int(n * settings.growth) // 2 * 2)
    at = leads_from(leads, tried, 2)
    ours, theirs = errors[at if at is not None else tried[-1]]
    return [{"delta": delta, "from": at, "exponential": ours, "laplace": theirs, "largest": tried[-1]}]


def sizes(run: Run) -> Outcome:
    """Who leads at which size, at the defined rate."""
    settings = SizeSettings().quick() if run.quick else SizeSettings()
    jobs = [(k, epsilon) for k in (2, 3) for epsilon in settings.epsilons]
    run.expect(len(jobs) + 3)
    rows = [
        row
        for k, epsilon in jobs
        for row in run.step(f"{settings} {k} {epsilon}", partial(scan, k, epsilon, settings.tried(k)))
    ]
    figure3 = [
        row
        for delta in (0.5, 0.0005, 1e-6)
        for row in run.step(f"{settings} figure 3 {delta}", partial(figure3_from, settings, delta))
    ]
    limits = [limit(k, epsilon) for k, epsilon in jobs]
    statements = size_statements(rows, limits, figure3, settings)
    spans = intervals(_of(rows, 2, settings.epsilon))
    return Outcome(
        f"k = 2, ε = {settings.epsilon:g}: "
        + ", ".join(f"{who} leads from n = {first}" for who, first, _ in spans)
        + f"; the error of M_β peaks at n = {peak(_of(rows, 2, settings.epsilon))['n']} (k = 2) and "
        f"{peak(_of(rows, 3, settings.epsilon))['n']} (k = 3), then falls",
        {"": rows, "limits": limits, "figure3": figure3},
        {"": _plot(rows, settings)},
        statements,
        asdict(settings),
    )


def _of(rows: Sequence[Row], k: int, epsilon: float) -> list[Row]:
    return [row for row in rows if row["k"] == k and row["epsilon"] == epsilon]


def size_statements(
    rows: Sequence[Row], limits: Sequence[Row], figure3: Sequence[Row], settings: SizeSettings
) -> list[Statement]:
    """The claims of B about growing data, over the whole range."""
    statements = []
    for k, letter, stated in ((2, "a", 12), (3, "b", 15)):
        own = _of(rows, k, settings.epsilon)
        later = intervals([row for row in own if row["n"] >= stated])
        always = all(who == "Laplace" for who, _, _ in later)
        other = {epsilon: intervals(_of(rows, k, epsilon)) for epsilon in settings.epsilons if epsilon != 0.8}
        statements.append(
            Statement(
                f"leader-{letter}",
                f"6({letter}): Laplace stays ahead from n = {stated} on",
                "B 4.3.1",
                answer(always, later[0][0] == "Laplace"),
                f"ε = {settings.epsilon:g}: {led(intervals(own))}; "
                + "; ".join(f"ε = {epsilon:g}: {led(found)}" for epsilon, found in other.items()),
                "n → ∞: the error of M_β is "
                + ", ".join(f"{r['ratio']:.3f} (ε = {r['epsilon']:g})" for r in limits if r["k"] == k)
                + " times that of Laplace. For k = 2 both are geometric with the same rate and the floor of "
                "Laplace adds a bias of half a step; for k = 3 the draw is spherical, with longer steps",
                {"intervals": intervals(own), "limit": [r["ratio"] for r in limits if r["k"] == k]},
            )
        )
    for k in (2, 3):
        own = _of(rows, k, settings.epsilon)
        top, last = peak(own), own[-1]
        statements.append(
            Statement(
                f"peak-{k}",
                f"The exponential mechanism becomes less accurate as the data grow, k = {k}",
                "B 4.3.1",
                answer(top is last, top["n"] > own[0]["n"]),
                f"the expected error rises to {top['exponential']:.3f} at n = {top['n']} and then falls, to "
                f"{last['exponential']:.4f} at n = {last['n']}",
                "the rate ε/(2S) grows as fast as posteriors narrow once S_β is the local sensitivity; until "
                "then far datasets hold S_β up",
                {"n": top["n"], "error": top["exponential"], "last": last["exponential"]},
            )
        )
    statements += [_speed(rows, limits, settings), _laplace_speed(rows, settings), _figure3(figure3)]
    return statements


def led(found: Sequence[tuple[str, int, int]]) -> str:
    """The intervals in words."""
    return ", ".join(
        f"{who} at n = {first}" if first == last else f"{who} at n = {first}–{last}"
        for who, first, last in found
    )


def _speed(rows: Sequence[Row], limits: Sequence[Row], settings: SizeSettings) -> Statement:
    parts, values, held = [], {}, []
    for k in (2, 3):
        own = [row for row in _of(rows, k, settings.epsilon) if row["candidates"] > 1]
        near = [row["exponential near"] for row in own]
        low = min(own, key=lambda row: row["exponential near"])
        end = next(r for r in limits if r["k"] == k and r["epsilon"] == settings.epsilon)["exponential near"]
        product = [row["exponential near"] * row["n"] ** (k - 1) for row in own if row["n"] >= low["n"]]
        held.append(low is own[-1])
        parts.append(
            f"k = {k}: from {near[0]:.3f} down to {low['exponential near']:.4f} at n = {low['n']}, then up "
            "to "
            f"{near[-1]:.3f} at n = {own[-1]['n']}; limit {end:.3f}; P·n^{k - 1} grows "
            f"{product[-1] / product[0]:.3g}-fold after the lowest point"
        )
        values[str(k)] = {"lowest at": low["n"], "lowest": low["exponential near"], "limit": end}
    return Statement(
        "speed",
        "The probability of good answers, within three steps, decreases with speed n^{m−1}",
        "B 3.4.1",
        answer(all(held)),
        "; ".join(parts),
        "the number of candidates grows like n^{m−1}, but they do not share the probability evenly: the draw "
        "narrows with the posterior, and the probability has a limit above 0",
        values,
    )


def _laplace_speed(rows: Sequence[Row], settings: SizeSettings) -> Statement:
    spans = {}
    for k in (2, 3):
        near = [r["laplace near"] for r in _of(rows, k, settings.epsilon) if r["n"] >= 4 * STEPS * k]
        spans[k] = (near[0], near[-1])
    changes = [abs(b - a) for a, b in spans.values()]
    return Statement(
        "laplace-speed",
        "For Laplace noise the probability of good answers hardly changes with the size",
        "B 3.4.1",
        answer(max(changes) < 0.05),
        "; ".join(f"k = {k}: {a:.4f} → {b:.4f}" for k, (a, b) in spans.items())
        + f", from n = {4 * STEPS}k on",
        "only the clamp at 0 and n depends on n. B's text leaves out the speed itself (“upper bounded by ,”)",
        {str(k): span for k, span in spans.items()},
    )


def _figure3(figure3: Sequence[Row]) -> Statement:
    reached = [row["from"] is not None for row in figure3]
    return Statement(
        "smooth-and-laplace-later",
        "At the defined rate M_β beats Laplace noise 2/ε with the prior (7, 4), ε = 0.5: not at B's n = "
        "300 and "
        "500, but from some n on",
        "B 4.2, Figure 3",
        answer(all(reached), any(reached)),
        "; ".join(
            f"δ = {row['delta']:g}: "
            + (
                f"from n = {row['from']:,} on ({row['exponential']:.5f} against {row['laplace']:.5f})"
                if row["from"] is not None
                else f"not up to n = {row['largest']:,}"
            )
            for row in figure3
        ),
        "S_β is the local sensitivity there for every δ: M_β gains only the bias of the floor, a few per "
        "cent, "
        "and the curvature of the posterior with this prior costs as much until n is large",
        {f"{row['delta']:g}": row["from"] for row in figure3},
    )


def _plot(rows: Sequence[Row], settings: SizeSettings) -> Any:
    figure = new_figure(9.2, 3.9)
    for place, k in enumerate((2, 3), 1):
        axis = figure.add_subplot(1, 2, place)
        own = _of(rows, k, settings.epsilon)
        for name in MECHANISMS:
            colour, label = LOOKS[name]
            axis.loglog([r["n"] for r in own], [r[name] for r in own], color=colour, label=label)
        ends = [first for _, first, _ in intervals(own)[1:]]
        for n in ends:
            axis.axvline(n, color="0.7", linewidth=0.8, linestyle=":")
        axis.set_xlabel("number of records n (uniform data)")
        axis.set_title(
            f"k = {k}, ε = {settings.epsilon:g}; the lead changes at n = {', '.join(map(str, ends))}"
        )
        axis.title.set_fontsize(10)
        if place == 1:
            axis.set_ylabel("expected Hellinger error")
            axis.legend(frameon=False, fontsize=9)
    return figure
