"""The settings of paper B with the lattice mechanism, exact calibration and the limit drawn in.

Errors are expected Hellinger distances under the prior predictive. The limit is the optimum of the linear
program over all ε-private mechanisms (``hellinger.optimal``); no private mechanism can be below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from discreet_reproductions.beyond import figures
from discreet_reproductions.beyond.errors import (
    LOOKS,
    MECHANISMS,
    Case,
    answer,
    draw_lines,
    draw_names,
    of,
    ratios,
)
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "limit", "measure", "verdicts"]

SHOWN = tuple(label for label in MECHANISMS if label != "LSZhang")
PANELS = "Figure 6(a): prior (1, 1)", "Beta(7, 4)", "Figure 6(b): prior (1, 1, 1)"
KNOWN = {
    "limit": 0.1305,
    "LSHist": 0.1525,
    "EHD as in A": 0.750,
    "EHD, tight": 0.717,
    "EHD, exact": 0.603,
    "LS shape, exact": 0.333,
}
CROSSOVERS = {2: 12, 3: 15}
"""From how many records on Laplace noise wins in B, by the number of levels."""
KNOWN_CASE = ((1.0, 1.0), 60, "0.8")


@dataclass(frozen=True)
class Settings:
    """(panel, prior, sizes) at ε, more ε at which lattice and limit alone are compared, and Figures 3–5."""

    series: tuple[tuple[str, tuple[float, ...], tuple[int, ...]], ...] = (
        (PANELS[0], (1.0, 1.0), (2, 4, 6, 8, 10, 12, 16, 20, 24, 30, 40, 50, 60)),
        (PANELS[1], (7.0, 4.0), (2, 5, 10, 15, 20, 30, 40, 50, 60)),
        (PANELS[2], (1.0, 1.0, 1.0), (1, 3, 5, 6, 8, 9, 10, 12, 15, 18, 24, 30)),
    )
    epsilon: str = "0.8"
    delta: str = "0.0005"
    more_epsilons: tuple[str, ...] = ("0.1", "0.5", "2")
    more_sizes: tuple[tuple[int, ...], ...] = ((8, 20, 60), (8, 20, 60), (5, 8))
    figures: tuple[figures.Panel, ...] = figures.PANELS
    seed: int = 2017

    def quick(self) -> Settings:
        """Fewer sizes; the case whose numbers are known, and three levels, stay."""
        sizes = (4, 12, 30, 60), (5, 20, 60), (3, 6, 12, 15)
        kept = tuple((panel, prior, few) for (panel, prior, _), few in zip(self.series, sizes, strict=True))
        return replace(
            self,
            series=kept,
            more_epsilons=("0.5",),
            more_sizes=((8, 20), (8, 20), (5,)),
            figures=tuple(panel.quick() for panel in self.figures),
        )


def measure(settings: Settings, case: Case) -> list[Row]:
    """The errors of one case of Figure 6."""
    return case.measure(SHOWN if case.epsilon == settings.epsilon else ("lattice",), seed=settings.seed)


def limit(run: Run) -> Outcome:
    """B's settings with everything drawn in."""
    settings = replace(Settings().quick() if run.quick else Settings(), seed=run.seed)
    cases = [
        Case(panel, prior, n, settings.epsilon, settings.delta)
        for panel, prior, sizes in settings.series
        for n in sizes
    ]
    for (panel, prior, _), sizes in zip(settings.series, settings.more_sizes, strict=True):
        cases += [
            Case(panel, prior, n, epsilon, settings.delta)
            for epsilon in settings.more_epsilons
            for n in sizes
        ]
    larger = [case for panel in settings.figures for case in panel.cases]
    run.expect(len(cases) + len(larger))
    rows: list[Row] = []
    for case in cases:
        rows += run.step(f"limit {case} {settings.seed}", partial(measure, settings, case))
    more: list[Row] = []
    for case in larger:
        compute = partial(case.measure, figures.SHOWN, seed=settings.seed, quick=run.quick)
        more += run.step(f"figures {case} {settings.seed} {run.quick}", compute)
    statements = [*verdicts(rows), *figures.verdicts(more, settings.figures)]
    pair, triple = (max(ratios(rows, "lattice", k)) for k in (2, 3))
    known = {label: _known(rows, label) for label in ("LSHist", "EHD as in A")}
    least = _known(rows, "limit")
    return Outcome(
        f"lattice is within {pair - 1:.1e} of the limit for k = 2 and {triple - 1:.1%} for k = 3; at n = 60, "
        f"prior (1, 1) LSHist costs {known['LSHist'] / least:.2f}, EHD as in A "
        f"{known['EHD as in A'] / least:.1f} times the limit",
        {"": rows, "figures": more},
        {"": _plot(rows, settings), "figures": figures.plot(more, settings.figures)},
        statements,
        asdict(settings),
    )


# ---- verdicts --------------------------------------------------------------------------------------------


def _known(rows: Sequence[Row], label: str) -> float:
    """The error at the case whose numbers are known."""
    prior, n, epsilon = KNOWN_CASE
    case = str(prior), n, float(epsilon)
    return float(next(r["expected"] for r in of(rows, label) if (r["prior"], r["n"], r["epsilon"]) == case))


def verdicts(rows: Sequence[Row]) -> list[Statement]:
    """Lattice and limit, the known numbers, and what calibration gains."""
    pair, triple = ratios(rows, "lattice", 2), ratios(rows, "lattice", 3)
    measured = {label: _known(rows, label) for label in KNOWN}
    exact = {label: abs(measured[label] - KNOWN[label]) < 0.51 * 10 ** -_places(label) for label in KNOWN}
    pure = [r for r in rows if r["pure"] and r["mechanism"] != "limit" and r["ratio to limit"] is not None]
    lowest = min(pure, key=lambda row: row["ratio to limit"])
    gains = _gains(rows)
    lower = all(gain < 1 for gain in gains["EHD, exact"])
    pairs = zip(of(rows, "LS shape, exact", 2), of(rows, "EHD, exact", 2), strict=True)
    more = all(local["expected"] < plain["expected"] for local, plain in pairs if plain["n"] > 5)
    losers = _behind_lshist(rows)
    return [
        Statement(
            "limit-two-levels",
            "For two levels the lattice mechanism with decoding attains the limit",
            "beyond the papers",
            answer(max(pair) <= 1.0001, max(pair) <= 1.01),
            f"largest ratio to the limit 1 + {max(pair) - 1:.1e} over {len(pair)} cases (n, ε, prior)",
            "the limit is a proved lower bound within 1e-5 of the optimum",
            {"largest": max(pair)},
        ),
        Statement(
            "limit-three-levels",
            "For three levels the lattice mechanism is within 10 % of the limit",
            "beyond the papers",
            answer(max(triple) <= 1.1, max(triple) <= 1.2),
            f"ratio to the limit {min(triple):.3f}–{max(triple):.3f} over {len(triple)} cases; the "
            "program is "
            f"solved up to n = {max(r['n'] for r in of(rows, 'limit', 3))}",
            values={"largest": max(triple)},
        ),
        Statement(
            "limit-is-a-limit",
            "No ε-private mechanism is below the limit",
            "beyond the papers",
            answer(lowest["ratio to limit"] > 1 - 1e-9),
            f"smallest ratio {lowest['ratio to limit']:.6f} ({lowest['mechanism']}, n = {lowest['n']})",
        ),
        Statement(
            "known-numbers",
            "At ε = 0.8, n = 60, prior (1, 1): "
            + ", ".join(f"{label} {value:.{_places(label)}f}" for label, value in KNOWN.items()),
            "beyond the papers",
            answer(all(exact.values()), any(exact.values())),
            ", ".join(f"{label} {value:.5f}" for label, value in measured.items()),
            values=measured,
        ),
        Statement(
            "calibration",
            "Exact calibration lowers the error of EHD; for two levels the local shape gains more (n > 5)",
            "beyond the papers",
            answer(lower and more, lower),
            "; ".join(
                f"{label} has {min(values):.0%}–{max(values):.0%} of the error of EHD as in A"
                for label, values in gains.items()
            ),
            "even so it stays far above the limit: at n = 60, prior (1, 1) the local shape is at "
            f"{measured['LS shape, exact'] / measured['limit']:.1f} times the limit",
            {label: [min(values), max(values)] for label, values in gains.items()},
        ),
        Statement(
            "exponential-family",
            "No mechanism by Hellinger scores beats LSHist once n is past B's crossovers "
            f"({CROSSOVERS[2]} records for two levels, {CROSSOVERS[3]} for three)",
            "beyond the papers, on B 4.3.1",
            answer(not losers),
            "none does" if not losers else "; ".join(losers[:4]),
        ),
    ]


def _places(label: str) -> int:
    """Decimal places to which the number is known."""
    return 4 if label in ("limit", "LSHist") else 3


def _gains(rows: Sequence[Row]) -> dict[str, list[float]]:
    base = {(r["panel"], r["n"]): r["expected"] for r in of(rows, "EHD as in A")}
    labels = ("EHD, tight", "EHD, exact", "EHDS, exact", "LS shape, exact")
    return {label: [r["expected"] / base[r["panel"], r["n"]] for r in of(rows, label)] for label in labels}


def _behind_lshist(rows: Sequence[Row]) -> list[str]:
    """Where a mechanism with Hellinger scores has a smaller error than LSHist, past B's crossover."""
    base = {(r["panel"], r["n"]): r["expected"] for r in of(rows, "LSHist")}
    return [
        f"{r['mechanism']} at {r['panel']}, n = {r['n']}: {r['expected']:.4f}"
        for label in SHOWN
        if label not in ("lattice", "LSHist")
        for r in of(rows, label)
        if r["n"] > CROSSOVERS[r["k"]] and r["expected"] < base[r["panel"], r["n"]]
    ]


# ---- plot ------------------------------------------------------------------------------------------------


def _plot(rows: Sequence[Row], settings: Settings) -> Any:
    figure = new_figure(10.4, 4.9)
    first = None
    for place, (panel, _, _) in enumerate(settings.series, 1):
        axis = figure.add_subplot(1, len(settings.series), place, sharey=first)
        first = first or axis
        shown = [r for r in rows if r["panel"] == panel and r["epsilon"] == float(settings.epsilon)]
        draw_lines(axis, shown, [label for label in LOOKS if label in ("limit", *SHOWN)])
        axis.set_title(panel, fontsize=10)
    draw_names(figure, 5)
    figure.suptitle(f"Expected error under the prior predictive, ε = {settings.epsilon}", fontsize=11)
    return figure
