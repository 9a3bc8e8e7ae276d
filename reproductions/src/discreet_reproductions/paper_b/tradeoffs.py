"""Paper B, §4.3, Figures 6 to 10: the exponential mechanism with S_β against Laplace noise on the counts.

Everything is decided on the exact distributions of the two mechanisms; the repetitions only draw the box
plots. The paper leaves the mechanisms open in four ways (``Reading``). Figure 6 measures the crossover of
each; the reading that gives both of the paper's crossovers, 12 and 15, is the one of the other figures. Here
is what they share; the figures themselves are in ``size_and_dimension`` and ``variance_and_prior``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
from discreet_reproductions.paper_b.distributions import (
    Counts,
    Distribution,
    Prior,
    box,
    draw_boxes,
    drawn_box,
    exponential,
    floored_laplace,
    smoothing,
)
from discreet_reproductions.report import Answer, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = [
    "LOOKS",
    "MECHANISMS",
    "TIE",
    "Reading",
    "Settings",
    "answer",
    "box_plot",
    "distributions",
    "ends",
    "errors_of",
    "is_rising",
    "measure",
    "ones",
    "panels_of",
    "points",
    "rows_of",
    "said",
    "text_of",
    "winner",
]

TIE = 1e-9
MECHANISMS = ("exponential", "laplace")


@dataclass(frozen=True)
class Reading:
    """What the paper leaves open about the two mechanisms."""

    half_rate: bool = True
    """Rate ε/(2S), as in Definition 2.1; else ε/S, as in §3.3 and the tables of §3.4.1."""
    beta_size: str = "2(n+1)"
    """β = ln(1 − ε/(2 ln(δ/size))): 2(n+1) in §2.3, 2n in the bounds quoted under Figure 4."""
    scale: int = 2
    """Laplace noise of scale/ε: 2/ε in §3.1, though 1/ε is enough for two levels."""
    every_count: bool = False
    """Noise on all m counts (end of §3.4.1), or on m − 1 with the last count as what is left (§3.1)."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides a figure; ``cases`` are (panel, prior, counts), in the order of the plot."""

    figure: int
    cases: tuple[tuple[str, Prior, Counts], ...]
    epsilon: float = 0.8
    delta: float = 0.0005
    repetitions: int = 1000
    seed: int = 2017
    reading: Reading = Reading()

    def quick(self) -> Settings:
        """The same with fewer repetitions: the exact figures, on which the verdict rests, stay."""
        return replace(self, repetitions=200)


def ones(k: int) -> Prior:
    return (1.0,) * k


# ---- the exact distributions
# --------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _exponential(
    prior: Prior, counts: Counts, epsilon: float, delta: float, half: bool, size: str
) -> Distribution:
    n = sum(counts)
    beta = smoothing(epsilon, delta, n, places=n if size == "2n" else n + 1)
    return exponential(counts, prior, epsilon / ((1 + half) * smooth_sensitivity(counts, prior, beta=beta)))


@lru_cache(maxsize=256)
def _laplace(prior: Prior, counts: Counts, epsilon: float, scale: int, every: bool) -> Distribution:
    return floored_laplace(counts, prior, epsilon, scale=scale, every=every)


def distributions(
    prior: Prior, counts: Counts, settings: Settings, reading: Reading
) -> dict[str, Distribution]:
    """Both mechanisms at one case."""
    epsilon, delta = settings.epsilon, settings.delta
    return {
        "exponential": _exponential(prior, counts, epsilon, delta, reading.half_rate, reading.beta_size),
        "laplace": _laplace(prior, counts, epsilon, reading.scale, reading.every_count),
    }


# ---- rows ------------------------------------------------------------------------------------------------


def points(settings: Settings, case: int) -> list[Row]:
    """The two boxes of one case: exact figures, and those of the repetitions."""
    panel, prior, counts = settings.cases[case]
    rows = []
    for index, (name, distribution) in enumerate(
        distributions(prior, counts, settings, settings.reading).items()
    ):
        rng = np.random.default_rng([settings.seed, settings.figure, case, index])
        exact = box(distribution.distance, distribution.probability)
        rows.append(
            {
                "panel": panel,
                "k": len(prior),
                "n": sum(counts),
                "prior": text_of(prior),
                "data": text_of(counts),
                "variance": float(np.var(counts)),
                "mechanism": name,
                "expected": exact["mean"],
                **{f"exact {key}": exact[key] for key in ("q1", "median", "q3")},
                **drawn_box(distribution.distance[distribution.draw(settings.repetitions, rng)]),
            }
        )
    return rows


def text_of(values: Iterable[float]) -> str:
    return "(" + ", ".join(f"{value:g}" for value in values) + ")"


def measure(run: Run, settings: Settings, more: int = 0) -> tuple[Settings, list[Row]]:
    settings = replace(settings.quick() if run.quick else settings, seed=run.seed)
    run.expect(len(settings.cases) + more)
    rows: list[Row] = []
    for case, (panel, prior, counts) in enumerate(settings.cases):
        key = f"{run.name} {panel} {prior} {counts} {settings.repetitions} {settings.seed}"
        rows += run.step(key, partial(points, settings, case))
    return settings, rows


def winner(rows: Sequence[Row], panel: str, at: int) -> str:
    ours, theirs = (errors_of(rows, panel, name)[at] for name in MECHANISMS)
    return "exponential" if ours < theirs else "laplace"


# ---- shared by the verdicts ------------------------------------------------------------------------------


def panels_of(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(row["panel"] for row in rows))


def rows_of(rows: Iterable[Row], panel: str, mechanism: str) -> list[Row]:
    return [row for row in rows if row["panel"] == panel and row["mechanism"] == mechanism]


def errors_of(rows: Iterable[Row], panel: str, mechanism: str) -> list[float]:
    return [row["expected"] for row in rows_of(rows, panel, mechanism)]


def is_rising(values: Sequence[float]) -> bool:
    return all(b > a - TIE for a, b in itertools.pairwise(values))


def ends(values: Sequence[float]) -> str:
    return f"{values[0]:.3f} → {values[-1]:.3f}"


def said(statement: Statement, holds: str, fails: str) -> str:
    """What a verdict says about a statement: that it holds as a whole, or not."""
    return holds if statement.agrees == "yes" else fails


def answer(whole: bool, part: bool = False) -> Answer:
    return "yes" if whole else "partly" if part else "no"


# ---- plots -----------------------------------------------------------------------------------------------

LOOKS = {
    "exponential": ("#0072B2", "exponential mechanism with S_β"),
    "laplace": ("#E69F00", "Laplace mechanism"),
}


def box_plot(rows: Sequence[Row], along: str, label: str, settings: Settings, columns: int) -> Any:
    """Box plots of the repetitions in pairs, with the exact expectations as lines."""
    panels = panels_of(rows)
    lines = -(-len(panels) // columns)
    figure = new_figure(4.6 * columns if columns > 1 else 7.0, 3.3 * lines + 0.7)
    for place, panel in enumerate(panels, 1):
        axis = figure.add_subplot(lines, columns, place)
        names = [row[along] for row in rows_of(rows, panel, "laplace")]
        for shift, name in zip((-0.2, 0.2), MECHANISMS, strict=True):
            colour, title = LOOKS[name]
            found = rows_of(rows, panel, name)
            at = [i + shift for i in range(len(found))]
            draw_boxes(axis, found, at, 0.34, colour)
            axis.plot(
                at,
                [row["expected"] for row in found],
                "-",
                color=colour,
                linewidth=1.3,
                zorder=3,
                label=title,
            )
        texts = [str(name) for name in names]
        long = max(map(len, texts)) > 4
        axis.set_xticks(range(len(texts)), texts, rotation=60 if long else 0, fontsize=8 if long else 9)
        axis.set_xlabel(label)
        axis.set_ylim(0, 1)
        axis.set_title(panel, fontsize=10)
        if (place - 1) % columns == 0:
            axis.set_ylabel("Hellinger error")
    _legend(figure, settings)
    return figure


def _legend(figure: Any, settings: Settings) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(
        f"Figure {settings.figure}: ε = {settings.epsilon:g}, δ = {settings.delta:g}; boxes of "
        f"{settings.repetitions:,} repetitions, lines through exact means",
        fontsize=10,
    )
