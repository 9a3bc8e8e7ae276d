"""Figures 6 and 7 of B: accuracy against the number of records, and against the number of levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from discreet_reproductions.paper_b.distributions import box, uniform_counts
from discreet_reproductions.paper_b.sizes import SizeSettings, intervals, led, peak, scan
from discreet_reproductions.paper_b.tradeoffs import (
    MECHANISMS,
    TIE,
    Reading,
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
    said,
    winner,
)
from discreet_reproductions.report import Outcome, Row, Statement
from discreet_reproductions.running import Run

__all__ = ["FIGURE6", "FIGURE7", "READINGS", "crossover", "crossovers", "figure6", "figure7"]

STATISTICS = {"mean": "mean", "lower quartile": "q1", "median": "median", "upper quartile": "q3"}
READINGS = tuple(
    Reading(half, size, scale, every)
    for half, size, scale, every in itertools.product((True, False), ("2(n+1)", "2n"), (2, 1), (False, True))
)

FIGURE6 = Settings(
    6,
    (
        *(("(a) prior (1, 1)", ones(2), uniform_counts(n, 2)) for n in range(2, 25, 2)),
        *(("(b) prior (1, 1, 1)", ones(3), uniform_counts(n, 3)) for n in range(3, 31, 3)),
    ),
)
LARGEST_SIZE = 30
PAPER_CROSSOVERS = {2: 12, 3: 15}

FIGURE7 = Settings(
    7,
    (
        *((f"{c} records in each level", ones(k), (c,) * k) for c in (2, 4, 6) for k in (2, 3, 4, 5)),
        *(("12 records in all", ones(k), uniform_counts(12, k)) for k in (2, 3, 4, 5, 6)),
    ),
)
DIMENSIONS = (2, 3, 4, 5)
MOST_PER_LEVEL = 6


def crossover(exponential: Sequence[float], laplace: Sequence[float], sizes: Sequence[int]) -> int | None:
    """Smallest size where Laplace is better, from which on it is at least as good; ties do not count."""
    found = None
    for size, ours, theirs in zip(sizes, exponential, laplace, strict=True):
        if theirs > ours + TIE:
            found = None
        elif found is None and theirs < ours - TIE:
            found = size
    return found


def crossovers(settings: Settings, k: int, readings: Sequence[Reading] = READINGS) -> list[Row]:
    """Where each reading crosses for k levels, by each statistic: over all n, and over the multiples of k."""
    prior, rows = ones(k), []
    for reading in readings:
        pairs = [
            distributions(prior, uniform_counts(n, k), settings, reading) for n in range(1, LARGEST_SIZE + 1)
        ]
        exact = {
            name: [box(pair[name].distance, pair[name].probability) for pair in pairs] for name in MECHANISMS
        }
        for statistic, key in STATISTICS.items():
            ours, theirs = ([distribution[key] for distribution in exact[name]] for name in MECHANISMS)
            even = slice(k - 1, None, k)
            sizes = range(1, LARGEST_SIZE + 1)
            at = crossover(ours[even], theirs[even], sizes[even])
            rows.append(
                {
                    "k": k,
                    "rate": "ε/(2S)" if reading.half_rate else "ε/S",
                    "beta": reading.beta_size,
                    "Laplace scale": f"{reading.scale}/ε",
                    "noisy counts": "m" if reading.every_count else "m − 1",
                    "compared by": statistic,
                    "crossover, even splits": at,
                    "crossover, all n": crossover(ours, theirs, sizes),
                    "paper": PAPER_CROSSOVERS[k],
                    "reproduces": at == PAPER_CROSSOVERS[k],
                }
            )
    return rows


# ---- Figure 6 --------------------------------------------------------------------------------------------

_READING_COLUMNS = ("rate", "beta", "Laplace scale", "noisy counts", "compared by")


def figure6(run: Run) -> Outcome:
    """Accuracy against the size of uniform data, and the crossover of every reading of the mechanisms."""
    settings, rows = measure(run, FIGURE6, more=4)
    table = [row for k in (2, 3) for row in run.step(f"crossovers {k}", partial(crossovers, settings, k))]
    further = SizeSettings().quick() if run.quick else SizeSettings()
    whole = [
        row
        for k in (2, 3)
        for row in run.step(f"{further} {k}", partial(scan, k, settings.epsilon, further.tried(k)))
    ]
    statements = verdict6(rows, table, whole)
    found = [_own(table, k)["crossover, even splits"] for k in (2, 3)]
    both = reproducing(table)
    return Outcome(
        f"Laplace takes over at n = {found[0]} for k = 2 (paper: 12) and {found[1]} for k = 3 (paper: 15), "
        f"at ε/(2S); {len(both)} of {len(table) // 2} readings give both. Beyond the figure, k = 2: "
        f"{led(intervals(_of(whole, 2))[2:]) or 'no change'}; k = 3: "
        f"{led(intervals(_of(whole, 3))[2:]) or 'no change'}",
        {"": rows, "crossovers": table, "sizes": whole},
        {"": box_plot(rows, "n", "number of records n (uniform data)", settings, 2)},
        statements,
        asdict(settings),
    )


def _of(whole: Sequence[Row], k: int) -> list[Row]:
    return [row for row in whole if row["k"] == k]


def _own(table: Sequence[Row], k: int, statistic: str = "mean") -> Row:
    """The row of the reading that the figures use."""
    own = {
        "rate": "ε/(2S)",
        "beta": "2(n+1)",
        "Laplace scale": "2/ε",
        "noisy counts": "m − 1",
        "compared by": statistic,
    }
    return next(r for r in table if r["k"] == k and all(r[name] == value for name, value in own.items()))


def reproducing(table: Sequence[Row]) -> list[str]:
    """The readings that give both of the paper's crossovers."""
    good: dict[tuple[str, ...], int] = {}
    for row in table:
        key = tuple(row[name] for name in _READING_COLUMNS)
        good[key] = good.get(key, 0) + bool(row["reproduces"])
    return [", ".join(key) for key, number in good.items() if number == len(PAPER_CROSSOVERS)]


def verdict6(rows: Sequence[Row], table: Sequence[Row], whole: Sequence[Row]) -> list[Statement]:
    """The two crossovers, and that accuracy falls with the size: in the figure, and over the whole range."""
    both = reproducing(table)
    statements = []
    for k, letter in ((2, "a"), (3, "b")):
        own, wanted = _own(table, k), PAPER_CROSSOVERS[k]
        at, anywhere = own["crossover, even splits"], own["crossover, all n"]
        others = sorted({r["crossover, even splits"] or 0 for r in table if r["k"] == k})
        spans = intervals(_of(whole, k))
        stays = spans[-1][0] == "Laplace" and spans[-1][1] == wanted
        statements.append(
            Statement(
                f"crossover-{letter}",
                f"6({letter}): the exponential mechanism wins below n = {wanted} and loses from there on",
                "B 4.3.1",
                "yes"
                if at == wanted and stays
                else "partly"
                if any(r["reproduces"] for r in table if r["k"] == k)
                else "no",
                f"by expected error Laplace takes over at n = {at} along even splits ({anywhere} along all "
                "n); "
                f"over all sizes to {spans[-1][2]:,}: {led(spans)}; "
                f"the {len(table) // 2} readings give {', '.join(str(o or 'none') for o in others)}",
                f"even splits are the multiples of {k}; the reading is rate ε/(2S) (Definition 2.1), Laplace "
                "2/ε on m − 1 counts (§3.1), compared by the mean. With the rate ε/S of §3.3 and the "
                "tables the "
                f"crossover is {_other(table, k, 'rate', 'ε/S')}; by medians, which tie often, "
                f"{_own(table, k, 'median')['crossover, even splits']}; with Laplace 1/ε "
                f"{_other(table, k, 'Laplace scale', '1/ε')}; with noise on all m counts "
                f"{_other(table, k, 'noisy counts', 'm')}; with 2n in β {_other(table, k, 'beta', '2n')}",
                {"even splits": at, "all n": anywhere, "readings that give both": both, "intervals": spans},
            )
        )
    tops = [(peak(_of(whole, k)), _of(whole, k)[-1]["n"]) for k in (2, 3)]
    falls, laplace = (
        [is_rising(errors_of(rows, panel, name)) for panel in panels_of(rows)] for name in MECHANISMS
    )
    statements.append(
        Statement(
            "size",
            "The exponential mechanism becomes less accurate as the data grow",
            "B 4.3.1",
            answer(all(falls) and all(top["n"] == last for top, last in tops), any(falls)),
            "; ".join(
                f"{panel}: expected error {ends(errors_of(rows, panel, 'exponential'))}, Laplace "
                f"{ends(errors_of(rows, panel, 'laplace'))}"
                for panel in panels_of(rows)
            )
            + f" over n = {rows[0]['n']}–{max(r['n'] for r in rows)}. Further on it falls: "
            + "; ".join(
                f"k = {top['k']}: {top['exponential']:.3f} at n = {top['n']}, the largest, and "
                f"{_of(whole, top['k'])[-1]['exponential']:.4f} at n = {last:,}"
                for top, last in tops
            ),
            "at first more and more candidates share the probability; then the distribution narrows with the "
            "posterior. "
            "Laplace noise stays the same, and its error falls after a first rise",
            {"exponential rises": falls, "laplace rises": laplace, "peaks": [top["n"] for top, _ in tops]},
        )
    )
    return statements


def _other(table: Sequence[Row], k: int, column: str, value: str) -> Any:
    """The crossover when one column of the reading is changed."""
    own = {**_own(table, k), column: value}
    row = next(r for r in table if r["k"] == k and all(r[name] == own[name] for name in _READING_COLUMNS))
    return row["crossover, even splits"]


# ---- Figure 7 --------------------------------------------------------------------------------------------


def dimension_crossovers(settings: Settings, k: int) -> list[Row]:
    """Where Laplace takes over by expected error for k levels, along c = 1, 2, … records in each level."""
    found = [
        distributions(ones(k), (c,) * k, settings, settings.reading)
        for c in range(1, (MOST_PER_LEVEL if k > 3 else 12) + 1)
    ]
    ours, theirs = ([pair[name].expected for pair in found] for name in MECHANISMS)
    at = crossover(ours, theirs, range(1, len(found) + 1))
    return [{"k": k, "records in each level": at, "n": None if at is None else at * k}]


def figure7(run: Run) -> Outcome:
    """Accuracy against the dimension."""
    settings, rows = measure(run, FIGURE7, more=len(DIMENSIONS))
    table = [
        row
        for k in DIMENSIONS
        for row in run.step(f"dimension {k}", partial(dimension_crossovers, settings, k))
    ]
    per_level = [row["records in each level"] for row in table]
    totals = [row["n"] for row in table]
    statements = verdict7(rows, table)
    return Outcome(
        f"{said(statements[0], 'both get worse with every dimension', 'not both get worse')}; Laplace "
        "wins from "
        f"{_list(per_level)} records per level on (n = {_list(totals)}) for k = {_list(DIMENSIONS)}",
        {"": rows, "crossovers": table},
        {"": box_plot(rows, "k", "number of levels k", settings, 2)},
        statements,
        asdict(settings),
    )


def verdict7(rows: Sequence[Row], table: Sequence[Row]) -> list[Statement]:
    """Both fall with the dimension; the winner depends on the size."""
    rising = {
        name: [is_rising(errors_of(rows, panel, name)) for panel in panels_of(rows)] for name in MECHANISMS
    }
    kept = all(itertools.chain(*rising.values()))
    same_winner = {
        panel: len({winner(rows, panel, at) for at in range(len(errors_of(rows, panel, "laplace")))}) == 1
        for panel in panels_of(rows)
    }
    per_level = [row["records in each level"] for row in table]
    known = [value for value in per_level if value is not None]
    spread = max(known) - min(known) if len(known) == len(per_level) else math.inf
    last = panels_of(rows)[-1]
    return [
        Statement(
            "worse",
            "Both mechanisms become less accurate as the dimension grows",
            "B 4.3.2",
            answer(kept, any(itertools.chain(*rising.values()))),
            "; ".join(
                f"{panel}: exponential {ends(errors_of(rows, panel, 'exponential'))}, Laplace "
                f"{ends(errors_of(rows, panel, 'laplace'))}"
                for panel in panels_of(rows)
            ),
            "k rises from left to right; the error rises at every step" if kept else "not at every step",
            rising,
        ),
        Statement(
            "dimension-and-winner",
            "The size decides who wins; the dimension has little influence",
            "B 4.3.2",
            answer(all(same_winner.values()) and spread <= 1, spread <= 3),
            f"Laplace takes over at {_list(per_level)} records in each level for k = "
            f"{_list(DIMENSIONS)}; one "
            f"winner for all k in {sum(same_winner.values())} of {len(same_winner)} panels",
            f"in records per level the crossovers differ by {spread}; in records in all they are at n = "
            f"{_list([row['n'] for row in table])}; at a fixed total ({last}) "
            + ("one mechanism wins throughout" if same_winner[last] else "the winner changes with k"),
            {"records in each level": per_level, "one winner": same_winner},
        ),
    ]


def _list(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values)
