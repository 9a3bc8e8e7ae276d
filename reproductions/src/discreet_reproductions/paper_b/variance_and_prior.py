"""Figures 8, 9 and 10 of B: accuracy against the variance of the data, the prior, and both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from discreet_reproductions.paper_b.tradeoffs import (
    MECHANISMS,
    TIE,
    Settings,
    answer,
    box_plot,
    distributions,
    ends,
    errors_of,
    is_rising,
    measure,
    ones,
    panels_of,
    rows_of,
    said,
    text_of,
    winner,
)
from discreet_reproductions.report import Outcome, Row, Statement
from discreet_reproductions.running import Run

__all__ = ["FIGURE8", "FIGURE9", "FIGURE10", "figure8", "figure9", "figure10"]

FIGURE8 = Settings(
    8,
    tuple((f"n = {n}", ones(2), (i, n - i)) for n in (10, 12, 20, 40) for i in range(0, n + 1, n // 10 or 1)),
)
FIGURE9 = Settings(
    9,
    tuple(("data (5, 5, 5)", (float(a),) * 3, (5, 5, 5)) for a in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50)),
)
_UNEVEN = ((15, 0, 0), (12, 2, 1), (9, 4, 2), (7, 5, 3))
FIGURE10 = Settings(
    10,
    (
        *(
            (f"k = 2, prior ({a}, {a})", (float(a),) * 2, (i, 10 - i))
            for a in (1, 2, 5, 10, 20)
            for i in range(10, -1, -1)
        ),
        *(
            (f"k = 3, prior ({a}, {a}, {a})", (float(a),) * 3, counts)
            for a in (1, 2, 5, 10, 20)
            for counts in (*_UNEVEN, (5, 5, 5), *(counts[::-1] for counts in reversed(_UNEVEN)))
        ),
    ),
)


# ---- Figure 8 --------------------------------------------------------------------------------------------


def figure8(run: Run) -> Outcome:
    """Accuracy against the variance of the data, for several sizes: the paper does not name its own."""
    settings, rows = measure(run, FIGURE8)
    statements = verdict8(rows)
    wins = {panel: _won(rows, panel) for panel in panels_of(rows)}
    return Outcome(
        f"{said(statements[0], 'the exponential mechanism is best on even data', 'no order by variance')}, "
        f"{said(statements[1], 'Laplace on one-sided data', 'Laplace not always on one-sided data')}; "
        "the former wins " + ", ".join(f"{len(won)} splits at {panel}" for panel, won in wins.items()),
        {"": rows},
        {"": box_plot(rows, "data", "data", settings, 2)},
        statements,
        asdict(settings),
    )


def _won(rows: Sequence[Row], panel: str) -> list[str]:
    """The data at which the exponential mechanism has the smaller expected error."""
    series = [rows_of(rows, panel, name) for name in MECHANISMS]
    return [o["data"] for o, t in zip(*series, strict=True) if o["expected"] < t["expected"] - TIE]


def verdict8(rows: Sequence[Row]) -> list[Statement]:
    """Better on uniform data; Laplace the other way round; wins where the data are uniform."""
    panels = panels_of(rows)
    exponential = [_follows_variance(rows, panel, "exponential", rising=True) for panel in panels]
    laplace = [_follows_variance(rows, panel, "laplace", rising=False) for panel in panels]
    edges = [_edge_and_middle(rows, panel, "laplace") for panel in panels]
    wins = {panel: _won(rows, panel) for panel in panels}
    return [
        Statement(
            "exponential",
            "The exponential mechanism is more accurate the smaller the variance of the data",
            "B 4.3.3",
            answer(all(exponential), any(exponential)),
            "; ".join(
                f"{panel}: {edge:.3f} at the edge, {middle:.3f} in the middle"
                for panel in panels
                for edge, middle in [_edge_and_middle(rows, panel, "exponential")]
            ),
            "S_β is smallest where the posterior is even",
            {"monotone": exponential},
        ),
        Statement(
            "laplace",
            "The Laplace mechanism becomes worse as the variance falls",
            "B 4.3.3",
            answer(all(laplace), all(edge < middle for edge, middle in edges[:1])),
            "; ".join(
                f"{panel}: {edge:.3f} at the edge, {middle:.3f} in the middle, largest "
                f"{max(errors_of(rows, panel, 'laplace')):.3f}"
                for panel, (edge, middle) in zip(panels, edges, strict=True)
            ),
            "clamping to [0, n] helps at the edge only. In the middle posteriors are widest and nearest "
            "to each "
            "other: for larger n the error rises next to the edge and falls again towards even data",
            {"monotone": laplace},
        ),
        Statement(
            "winner",
            "The exponential mechanism beats Laplace when the data are more uniform",
            "B 4.3.3",
            answer(all(wins.values()), any(wins.values())),
            "; ".join(f"{panel}: wins at {', '.join(won) if won else 'none'}" for panel, won in wins.items()),
            "it wins on even data only below the crossover of Figure 6, n = 12; the paper does not name n",
            wins,
        ),
    ]


def _follows_variance(rows: Sequence[Row], panel: str, name: str, *, rising: bool) -> bool:
    """Whether the error rises (falls) with the variance on both sides of the middle."""
    found = rows_of(rows, panel, name)
    middle = min(range(len(found)), key=lambda i: found[i]["variance"])
    errors = [row["expected"] for row in found]
    sides = errors[: middle + 1][::-1], errors[middle:]
    return all(is_rising(side if rising else side[::-1]) for side in sides)


def _edge_and_middle(rows: Sequence[Row], panel: str, name: str) -> tuple[float, float]:
    """The mean error of the most uneven data, and the error of the most even."""
    found = rows_of(rows, panel, name)
    most = max(row["variance"] for row in found)
    edge = [row["expected"] for row in found if row["variance"] == most]
    return sum(edge) / len(edge), min(found, key=lambda row: row["variance"])["expected"]


# ---- Figure 9 --------------------------------------------------------------------------------------------


def figure9(run: Run) -> Outcome:
    """Accuracy against the prior, for the data (5, 5, 5)."""
    settings, rows = measure(run, FIGURE9, more=1)
    other = run.step("Figure 9 rate", lambda: _figure9_by_rate(settings))
    statements = verdict9(rows, other)
    at = prior_crossover(rows)
    (panel,) = panels_of(rows)
    first, last = ([errors_of(rows, panel, name)[i] for name in MECHANISMS] for i in (0, -1))
    leads = "Laplace" if winner(rows, panel, 0) == "laplace" else "the exponential mechanism"
    return Outcome(
        f"with prior {rows[0]['prior']} {leads} wins, {min(first):.3f} against "
        f"{max(first):.3f}; "
        + (
            f"from {at} on the exponential mechanism does, "
            if at
            else "the exponential mechanism never does, "
        )
        + f"{last[0]:.3f} against {last[1]:.3f} at {rows[-1]['prior']}",
        {"": rows, "rates": other},
        {"": box_plot(rows, "prior", "prior", settings, 1)},
        statements,
        asdict(settings),
    )


def _figure9_by_rate(settings: Settings) -> list[Row]:
    found = []
    for half in (True, False):
        for _, prior, counts in settings.cases:
            pair = distributions(prior, counts, settings, replace(settings.reading, half_rate=half))
            rate = "ε/(2S)" if half else "ε/S"
            found.append(
                {
                    "rate": rate,
                    "prior": text_of(prior),
                    **{name: distribution.expected for name, distribution in pair.items()},
                }
            )
    return found


def prior_crossover(rows: Sequence[Row]) -> str | None:
    """The prior from which on the exponential mechanism wins."""
    found = None
    for panel in panels_of(rows):
        ours, theirs = (rows_of(rows, panel, name) for name in MECHANISMS)
        for own, their in zip(ours, theirs, strict=True):
            if own["expected"] >= their["expected"] - TIE:
                found = None
            elif found is None:
                found = own["prior"]
    return found


def verdict9(rows: Sequence[Row], by_rate: Sequence[Row]) -> list[Statement]:
    """Loses at first, wins finally."""
    (panel,) = panels_of(rows)
    at = prior_crossover(rows)
    starts_behind = winner(rows, panel, 0) == "laplace"
    ours = errors_of(rows, panel, "exponential")
    full = [row for row in by_rate if row["rate"] == "ε/S"]
    at_full = sum(row["exponential"] < row["laplace"] for row in full)
    return [
        Statement(
            "prior",
            "Data (5, 5, 5): the exponential mechanism loses at first and wins in the end as the prior grows",
            "B 4.3.4",
            answer(starts_behind and at is not None and at != rows[0]["prior"], at is not None),
            f"expected error {ours[0]:.4f} against {errors_of(rows, panel, 'laplace')[0]:.4f} at "
            f"{rows[0]['prior']}; it wins from the prior {at} on",
            f"this needs the rate ε/(2S) of Definition 2.1: at ε/S it wins at {at_full} of the "
            f"{len(full)} priors",
            {"from": at},
        ),
        Statement(
            "better-and-better",
            "The exponential mechanism performs better and better as the prior grows",
            "B 4.3.4",
            answer(is_rising(ours[::-1])),
            f"exponential {ends(ours)}, Laplace {ends(errors_of(rows, panel, 'laplace'))}",
            "both fall: a larger prior brings all posteriors closer together, and S_β falls with them",
        ),
    ]


# ---- Figure 10 -------------------------------------------------------------------------------------------


def figure10(run: Run) -> Outcome:
    """Accuracy against prior and variance together."""
    settings, rows = measure(run, FIGURE10)
    statements = verdict10(rows)
    changes = {name: _falls(rows, name) for name in MECHANISMS}
    return Outcome(
        f"from prior 1 to 20 the expected error on even data falls by {_percents(changes['exponential'])} "
        f"(exponential) and {_percents(changes['laplace'])} (Laplace) for k = 2 and 3",
        {"": rows},
        {"": box_plot(rows, "data", "data, from one edge to the other", settings, 2)},
        statements,
        asdict(settings),
    )


def _percents(values: Mapping[int, float]) -> str:
    return " and ".join(f"{value:.0%}" for value in values.values())


def _falls(rows: Sequence[Row], name: str) -> dict[int, float]:
    """By what share the error on the most even data falls from the first prior to the last, for each k."""
    found = {}
    for k in sorted({row["k"] for row in rows}):
        panels = [panel for panel in panels_of(rows) if rows_of(rows, panel, name)[0]["k"] == k]
        first, last = (_edge_and_middle(rows, panels[i], name)[1] for i in (0, -1))
        found[k] = 1 - last / first
    return found


def verdict10(rows: Sequence[Row]) -> list[Statement]:
    """Uniform against one-sided data, and what the prior does to each."""
    panels = panels_of(rows)
    steady_variance = [_follows_variance(rows, panel, "exponential", rising=True) for panel in panels]
    ours = [
        edge > middle for panel in panels for edge, middle in [_edge_and_middle(rows, panel, "exponential")]
    ]
    theirs = {panel: _edge_and_middle(rows, panel, "laplace") for panel in panels}
    contrary = {panel: edge < middle for panel, (edge, middle) in theirs.items()}
    falls = {name: _falls(rows, name) for name in MECHANISMS}
    steady = [is_rising(list(errors)[::-1]) for errors in _along_the_prior(rows, "exponential")]
    laplace_still = all(value < 0.1 for value in falls["laplace"].values())
    return [
        Statement(
            "variance-exponential",
            "The exponential mechanism does better on uniform data than on data at the edge, for every prior",
            "B 4.3.5",
            answer(all(ours), any(ours)),
            f"a larger error at the edge than on even data for {sum(ours)} of {len(ours)} priors; it "
            "rises with "
            f"the variance all the way for {sum(steady_variance)}",
        ),
        Statement(
            "variance-laplace",
            "The Laplace mechanism does better on data at the edge, for every prior",
            "B 4.3.5",
            answer(all(contrary.values()), any(contrary.values())),
            "error at the edge and on even data: "
            + "; ".join(f"{panel} {edge:.3f}, {middle:.3f}" for panel, (edge, middle) in theirs.items()),
            "noise on data at the edge is clamped half of the time",
            contrary,
        ),
        Statement(
            "prior-exponential",
            "The exponential mechanism improves continuously and significantly as the prior grows",
            "B 4.3.5",
            answer(all(steady), any(steady)),
            f"falls with every larger prior for {sum(steady)} of {len(steady)} datasets; on even data by "
            f"{_percents(falls['exponential'])} for k = 2, 3",
        ),
        Statement(
            "prior-laplace",
            "The Laplace mechanism does not improve as the prior grows",
            "B 4.3.5",
            answer(laplace_still),
            f"on even data its error falls by {_percents(falls['laplace'])} for k = 2, 3",
            "its noise does not change, but a larger prior brings the posteriors of all datasets closer "
            "together. The paper does not say which data Figure 10 shows: its caption is that of Figure 2",
            falls,
        ),
    ]


def _along_the_prior(rows: Sequence[Row], name: str) -> Iterable[list[float]]:
    for data in dict.fromkeys(row["data"] for row in rows):
        yield [row["expected"] for row in rows if row["mechanism"] == name and row["data"] == data]
