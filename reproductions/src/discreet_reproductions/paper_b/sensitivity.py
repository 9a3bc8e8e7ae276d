"""Figures 1 and 2 of B: the local sensitivity of Beta over its parameters, and where it is attained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet._numerics.neighbours import neighbouring_rows
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity
from discreet_reproductions.arrays import FloatArray, IntArray
from discreet_reproductions.paper_b.distributions import Counts, Prior, exponential, sensitivity
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = [
    "Grid",
    "Profiles",
    "figure1",
    "figure2",
    "gains",
    "measure1",
    "measure2",
    "statements1",
    "statements2",
]

_TIE = 1e-13


# Figure 1.


@dataclass(frozen=True)
class Grid:
    """Beta(a, b) as the posterior of a − 1 and b − 1 records under Beta(1, 1), for a, b up to ``largest``."""

    largest: int = 40
    epsilon: float = 0.8
    delta: float = 0.0005

    def quick(self) -> Grid:
        """A smaller square."""
        return replace(self, largest=20)


def measure1(settings: Grid) -> list[Row]:
    """Local and smooth sensitivity of every Beta(a, b); Beta(1, 1) has no record to replace."""
    prior = (1.0, 1.0)
    rows: list[Row] = []
    for a in range(1, settings.largest + 1):
        for b in range(1, settings.largest + 1):
            if a + b > 2:
                counts = (a - 1, b - 1)
                smooth = sensitivity("smooth", counts, prior, settings.epsilon, settings.delta)
                local = local_sensitivity(counts, prior)
                rows.append({"a": a, "b": b, "n": a + b - 2, "local": local, "smooth": smooth})
    return rows


def _moves(rows: Sequence[Row], column: str, step: tuple[int, int]) -> list[tuple[Row, float]]:
    """Where a step from (a, b) with a < b stays in the square: the start, and how much the value rises."""
    value = {(row["a"], row["b"]): row[column] for row in rows}
    found = []
    for row in rows:
        to = (row["a"] + step[0], row["b"] + step[1])
        if to in value and (step != (1, -1) or to[0] <= to[1]):
            found.append((row, value[to] - row[column]))
    return found


def statements1(settings: Grid, rows: Sequence[Row]) -> list[Statement]:
    """Larger, closer, smoothed, and what it means for accuracy."""
    found = []
    for column, name in (("local", "local"), ("smooth", "smooth")):
        larger = [rise for _, rise in _moves(rows, column, (1, 0))]
        closer = _moves(rows, column, (1, -1))
        ties = [row for row, rise in closer if abs(rise) <= _TIE]
        inner = sum(row["a"] > 1 for row in ties)
        rises = sum(rise > _TIE for _, rise in closer)
        grown = sum(rise > _TIE for rise in larger)
        found.append(
            Statement(
                f"{name}, larger",
                f"the {name} sensitivity falls when a parameter grows",
                "B 3.4.2",
                _answer(grown, len(larger)),
                f"it rises in {grown} of {len(larger)} steps a → a + 1",
                ""
                if not grown
                else "β falls as n grows, and empty categories come within reach more cheaply",
                {"rises": grown, "steps": len(larger)},
            )
        )
        found.append(
            Statement(
                f"{name}, closer",
                f"the {name} sensitivity falls when the parameters get closer",
                "B 3.4.2, 3.4.3",
                _answer(rises, len(closer)),
                f"with a + b fixed it rises in {rises} of {len(closer)} steps towards a = b and stays the "
                f"same in {len(ties)}, {inner} of them not from a = 1",
                "with a + b fixed only: bringing the larger parameter down to the smaller one raises it",
                {"rises": rises, "steps": len(closer), "ties": len(ties)},
            )
        )
    return [*found, _larger_prior(settings), _accuracy(settings)]


def _answer(broken: int, of: int) -> Answer:
    return "yes" if not broken else "no" if broken == of else "partly"


def _larger_prior(settings: Grid) -> Statement:
    data = ((5, 5), (2, 8), (0, 10), (30, 30), (6, 54))
    values = [
        [
            sensitivity("smooth", counts, (float(a), float(a)), settings.epsilon, settings.delta)
            for a in range(1, settings.largest + 1)
        ]
        for counts in data
    ]
    rises = sum(b > a + _TIE for line in values for a, b in pairwise(line))
    return Statement(
        "smooth, larger prior",
        "the smooth sensitivity falls when the prior grows and the data stay",
        "B 3.4.2",
        _answer(rises, sum(len(line) - 1 for line in values)),
        f"priors (1, 1) to ({settings.largest}, {settings.largest}), {len(data)} datasets: it rises in "
        f"{rises} steps; counts (5, 5): from {values[0][0]:.3f} to {values[0][-1]:.3f}",
        values={"rises": rises},
    )


def _accuracy(settings: Grid) -> Statement:
    counts, prior = (10, 10), (1.0, 1.0)
    values = (0.1, 0.2, 0.3, 0.4)
    errors = [exponential(counts, prior, settings.epsilon / (2 * s)).expected for s in values]
    better = all(b < a for a, b in pairwise(errors))
    return Statement(
        "accuracy",
        "accuracy improves when the sensitivity gets larger",
        "B 3.4.2",
        "yes" if better else "no",
        "expected H for counts (10, 10) at S = 0.1, 0.2, 0.3, 0.4: " + ", ".join(f"{e:.3f}" for e in errors),
        "a slip: the next sentence of B has it the right way round",
        {"errors": errors},
    )


def draw_figure1(rows: Sequence[Row]) -> Any:
    """Local sensitivity as a map, and along a = b and a = 1."""
    largest = max(row["a"] for row in rows)
    figure = new_figure(8.2, 4.0)
    axis, lines = figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2)
    table = np.full((largest, largest), np.nan)
    for row in rows:
        table[row["b"] - 1, row["a"] - 1] = row["local"]
    edge = (0.5, largest + 0.5)
    image = axis.imshow(table, origin="lower", extent=(*edge, *edge), cmap="viridis")
    ticks = np.arange(1, largest + 1)
    axis.contour(ticks, ticks, table, levels=8, colors="white", linewidths=0.6)
    axis.set_xticks([1, *range(5, largest + 1, 5)])
    axis.set_yticks([1, *range(5, largest + 1, 5)])
    axis.set_xlabel("a")
    axis.set_ylabel("b")
    axis.set_title("local sensitivity of Beta(a, b)", fontsize=10)
    figure.colorbar(image, ax=axis, shrink=0.85)
    even, edge_rows = [row for row in rows if row["a"] == row["b"]], [row for row in rows if row["a"] == 1]
    for label, shown, colour in (("a = b", even, "#0072B2"), ("a = 1", edge_rows, "#D55E00")):
        x = [row["n"] for row in shown]
        local = [row["local"] for row in shown]
        lines.plot(x, local, "-", color=colour, alpha=0.4, linewidth=4, label=f"local, {label}")
        lines.plot(x, [row["smooth"] for row in shown], "--", color=colour, label=f"smooth, {label}")
    lines.set_xlabel("n = a + b − 2")
    lines.set_ylabel("sensitivity")
    lines.set_ylim(bottom=0)
    figure.legend(*lines.get_legend_handles_labels(), loc="outside lower center", ncol=4, frameon=False)
    return figure


def figure1(run: Run) -> Outcome:
    """Local sensitivity over the parameters of Beta."""
    settings = Grid().quick() if run.quick else Grid()
    rows = measure1(settings)
    found = {s.name: s for s in statements1(settings, rows)}
    run.tick()
    local = [found[f"local, {name}"].values for name in ("larger", "closer")]
    smooth = [found[f"smooth, {name}"].values for name in ("larger", "closer")]
    verdict = (
        f"The local sensitivity rises in {sum(v['rises'] for v in local)} of "
        f"{sum(v['steps'] for v in local)} steps to larger or (at equal sum) closer parameters; the smooth "
        f"one, with β for that n, in {sum(v['rises'] for v in smooth)}."
    )
    return Outcome(verdict, {"": rows}, {"": draw_figure1(rows)}, list(found.values()), asdict(settings))


# Figure 2.


@dataclass(frozen=True)
class Profiles:
    """Where all datasets are looked at, and the ones that are drawn."""

    sizes: tuple[tuple[Prior, tuple[int, ...]], ...] = (
        ((1.0, 1.0), (1, 2, 3, 5, 10, 20, 60)),
        ((0.5, 0.5), (5, 20)),
        ((7.0, 4.0), (10, 60)),
        ((1.0, 1.0, 1.0), (3, 6, 12, 18)),
        ((7.0, 4.0, 5.0), (6, 15)),
        ((0.3, 1.0, 2.5), (6, 15)),
    )
    drawn: tuple[tuple[Prior, Counts], ...] = (((1.0, 1.0), (30, 30)), ((7.0, 4.0), (6, 54)))

    def quick(self) -> Profiles:
        """Three categories with fewer records."""
        return replace(
            self,
            sizes=tuple(
                (a, sizes if len(a) == 2 else tuple(n for n in sizes if n <= 6)) for a, sizes in self.sizes
            ),
        )


def gains(prior: Prior, rows: IntArray) -> tuple[FloatArray, FloatArray, IntArray]:
    """g(x, r) = max over neighbours y of |H(x, r) − H(y, r)|; the distances; and the neighbouring pairs."""
    distance = candidate_distances(prior, rows)
    pairs = neighbouring_rows(rows)
    gain = np.zeros_like(distance)
    for x, y in (pairs.T, pairs.T[::-1]):
        np.maximum.at(gain, x, np.abs(distance[x] - distance[y]))
    return gain, distance, pairs


def measure2(settings: Profiles) -> tuple[list[Row], list[Row]]:
    """One row a dataset: the maximum at BI(x), at its neighbours, and elsewhere; and the drawn profiles."""
    found: list[Row] = []
    for prior, sizes in settings.sizes:
        for n in sizes:
            rows = compositions(n, len(prior))
            gain, distance, pairs = gains(prior, rows)
            beside = np.zeros_like(gain, dtype=bool)
            beside[pairs[:, 0], pairs[:, 1]] = beside[pairs[:, 1], pairs[:, 0]] = True
            own = np.diagonal(gain)
            elsewhere = np.where(beside | np.eye(len(rows), dtype=bool), 0.0, gain).max(axis=1)
            found.extend(
                {"prior": str(prior), "n": n, "counts": str(tuple(counts)), "local": local}
                | {"at_itself": at, "at_neighbours": near, "elsewhere": far}
                for counts, local, at, near, far in zip(
                    rows.tolist(),
                    np.where(beside, distance, 0.0).max(axis=1).tolist(),
                    own.tolist(),
                    np.where(beside, gain, 0.0).max(axis=1).tolist(),
                    elsewhere.tolist(),
                    strict=True,
                )
            )
    profiles: list[Row] = []
    for prior, counts in settings.drawn:
        rows = compositions(sum(counts), len(counts))
        gain, _, _ = gains(prior, rows)
        x = int(np.flatnonzero((rows == counts).all(axis=1))[0])
        profiles.extend(
            {"prior": str(prior), "counts": str(counts), "candidate": int(row[0]), "gain": float(g)}
            for row, g in zip(rows, gain[x], strict=True)
        )
    return found, profiles


def seconds(prior: Prior, n: int) -> Row:
    """Time and distances for the local sensitivities of all datasets: every candidate, or neighbours only."""
    rows = compositions(n, len(prior))
    gains(prior, rows[:2])  # so that nothing is imported while the time is taken
    start = process_time()
    gains(prior, rows)
    whole = process_time() - start
    start = process_time()
    for counts in rows.tolist():
        local_sensitivity(tuple(counts), prior)
    return {
        "prior": str(prior),
        "n": n,
        "datasets": len(rows),
        "distances, every candidate": len(rows) ** 2,
        "distances, neighbours": len(neighbouring_rows(rows)),
        "seconds, every candidate": whole,
        "seconds, neighbours": process_time() - start,
    }


def efficiency(row: Row) -> Statement:
    """B 4.1 is called “computation efficiency” without timing. Distances are judged: no load changes them."""
    fewer = row["distances, every candidate"] / row["distances, neighbours"]
    faster = row["seconds, every candidate"] / row["seconds, neighbours"]
    return Statement(
        "efficiency",
        "The reduction makes the local sensitivity efficient to compute",
        "B 4.1",
        "yes" if fewer > 1 else "no",
        f"prior {row['prior']}, n = {row['n']}, all {row['datasets']:,} datasets: "
        f"{row['distances, neighbours']:,} distances between neighbours in the place of "
        f"{row['distances, every candidate']:,}; processor time {row['seconds, neighbours']:.2g} s in closed "
        f"form, {row['seconds, every candidate']:.2g} s over every candidate",
        "k(k − 1) neighbours whatever n is, against a number of candidates that grows like n^{k−1}",
        {"fewer": fewer, "faster": faster},
    )


def statements2(rows: Sequence[Row]) -> list[Statement]:
    """The maximum is at BI(x); and it is there alone, or not."""
    short = [r for r in rows if r["at_itself"] < max(r["at_neighbours"], r["elsewhere"]) - _TIE]
    off = max(abs(r["at_itself"] - r["local"]) for r in rows)
    ties = sum(abs(r["at_neighbours"] - r["at_itself"]) <= _TIE for r in rows)
    nearest = max(r["elsewhere"] / r["at_itself"] for r in rows)
    return [
        Statement(
            "attained at BI(x)",
            "max over neighbours of |H(BI(x), r) − H(BI(y), r)| is largest at r = BI(x)",
            "B 4.1",
            "yes" if not short else "no",
            f"at all of {len(rows)} datasets"
            if not short
            else f"not at {len(short)} of {len(rows)} datasets",
            "triangle inequality",
            {"datasets": len(rows), "exceptions": len(short)},
        ),
        Statement(
            "a distance to a neighbour",
            "so the local sensitivity is the largest distance to a neighbour",
            "B 4.1",
            "yes" if off <= _TIE else "no",
            f"largest difference {off:.1g}",
            values={"difference": off},
        ),
        Statement(
            "only there",
            "it always happens at r = BI(x) itself",
            "B 4.1",
            "yes" if not ties else "partly",
            f"the farthest neighbour attains it too at {ties} of {len(rows)} datasets; any other candidate "
            f"reaches at most {nearest:.3f} of it",
            "H is symmetric: H(x, y) is the difference at r = x and at r = y",
            {"ties": ties, "elsewhere": nearest},
        ),
    ]


def draw_figure2(profiles: Sequence[Row]) -> Any:
    """The profile over candidates; rings at BI(x)."""
    figure = new_figure(7.6, 3.8)
    axis = figure.add_subplot(1, 1, 1)
    names = list(dict.fromkeys((row["prior"], row["counts"]) for row in profiles))
    for (prior, counts), colour in zip(names, ("#0072B2", "#D55E00"), strict=True):
        rows = [row for row in profiles if (row["prior"], row["counts"]) == (prior, counts)]
        axis.plot(
            [row["candidate"] for row in rows],
            [row["gain"] for row in rows],
            ".-",
            color=colour,
            markersize=4,
            linewidth=0.8,
            label=f"x = {counts}, α = {prior.replace('.0', '')}",
        )
        own = int(counts.strip("()").split(",")[0])
        at = next(row["gain"] for row in rows if row["candidate"] == own)
        axis.plot(own, at, "o", markersize=10, markerfacecolor="none", markeredgecolor=colour)
    axis.set_xlabel("first count of the candidate r (ring: r = BI(x))")
    axis.set_ylabel("max over neighbours y of\n|H(BI(x), r) − H(BI(y), r)|")
    axis.set_ylim(bottom=0)
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncol=2, frameon=False)
    return figure


def figure2(run: Run) -> Outcome:
    """Where the maximum over candidates is attained."""
    settings = Profiles().quick() if run.quick else Profiles()
    rows, profiles = measure2(settings)
    found = [*statements2(rows), efficiency(seconds((1.0, 1.0, 1.0), 30))]
    run.tick()
    exceptions, ties = found[0].values["exceptions"], found[2].values
    verdict = (
        f"The maximum is at r = BI(x) for {len(rows) - exceptions} of {len(rows)} datasets; the farthest "
        f"neighbour attains it too in {ties['ties']}; others reach at most {ties['elsewhere']:.3f} of it."
    )
    return Outcome(
        verdict, {"": rows, "profiles": profiles}, {"": draw_figure2(profiles)}, found, asdict(settings)
    )
