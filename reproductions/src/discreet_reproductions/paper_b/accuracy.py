"""Figures 3, 4 and 5 of B: the exponential mechanism with three sensitivities, and Laplace noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from discreet_reproductions.paper_b.distributions import RATES, draw_boxes
from discreet_reproductions.paper_b.quoted import constant_claims, constants
from discreet_reproductions.paper_b.readings import FIGURE3, FIGURE4, FIGURE5, LAPLACE, Settings, measure
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = [
    "Ordering",
    "compare",
    "figure3",
    "figure4",
    "figure5",
    "orderings",
    "same_by_both",
    "shared_claims",
]

# Claims.

SIMILAR, MUCH, SLIGHT, ALIKE = 1.1, 0.5, 0.8, 1.25
"""Similar: within 10 %. Much better: less than half the error. Slightly better: between 80 % and 100 %.
Alike by two measures: ratios of errors within 25 %."""


def compare(rows: Sequence[Row]) -> list[Row]:
    """Expected error with the smooth sensitivity relative to each other mechanism, reading by reading."""
    found: list[Row] = []
    for row in rows:
        if row["mechanism"] != "smooth":
            continue
        for other in rows:
            same = all(row[key] == other[key] for key in ("n", "data", "measure"))
            if not same or other["mechanism"] == "smooth":
                continue
            if other["mechanism"] != "laplace" and any(
                row[key] != other[key] for key in ("reading", "constants", "delta")
            ):
                continue
            found.append(
                {key: row[key] for key in ("figure", "n", "data", "measure", "constants", "delta")}
                | {"rate": row["reading"], "against": other["mechanism"]}
                | {"laplace": other["reading"] if other["mechanism"] == "laplace" else "none"}
                | {"smooth": row["mean"], "other": other["mean"], "ratio": row["mean"] / other["mean"]}
                | {"median_ratio": row["median"] / other["median"] if other["median"] else math.inf}
            )
    return found


def _range(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:.2f}" if high - low < 0.005 else f"{low:.2f}–{high:.2f}"


def _rate_ranges(rows: Sequence[Row]) -> str:
    parts = [
        f"{_range([row['ratio'] for row in rows if row['rate'] == rate])} at {rate}"
        for rate in RATES
        if any(row["rate"] == rate for row in rows)
    ]
    return ", ".join(parts)


@dataclass(frozen=True)
class Ordering:
    """Smooth against one Laplace mechanism at every size: ratios of mean errors, and of median errors."""

    means: tuple[float, ...]
    medians: tuple[float, ...]

    @property
    def slightly_better(self) -> bool:
        """By the mean, and everywhere."""
        return all(SLIGHT <= ratio < 1 for ratio in self.means)

    def __str__(self) -> str:
        return f"{_range(self.means)} ({_range(self.medians)})"


def orderings(comparison: Sequence[Row]) -> dict[tuple[str, str], Ordering]:
    """The orderings by rate and Laplace mechanism."""
    found = {}
    for rate in RATES:
        for laplace in LAPLACE:
            rows = [row for row in comparison if (row["rate"], row["laplace"]) == (rate, laplace)]
            if rows:
                means, medians = (tuple(row[key] for row in rows) for key in ("ratio", "median_ratio"))
                found[rate, laplace] = Ordering(means, medians)
    return found


def shared_claims(comparison: Sequence[Row], source: str) -> list[Statement]:
    """What B says of all three figures: SS like LS, far ahead of GS, a little ahead of Laplace."""
    own = [row for row in comparison if row["constants"] == "recomputed"]
    local, whole, noise = (
        [row for row in own if row["against"] == name] for name in ("local", "global", "laplace")
    )
    alike = [1 / SIMILAR <= row["ratio"] <= SIMILAR for row in local]
    ahead = [row["ratio"] <= MUCH for row in whole]
    better = {rate: [row["ratio"] < 1 for row in noise if row["rate"] == rate] for rate in RATES}
    reading = orderings([row for row in noise if row["data"] == "even"])
    fits = [
        f"{rate} with Laplace {laplace}"
        for (rate, laplace), ordering in reading.items()
        if ordering.slightly_better
    ]
    apart = next((row for row, same in zip(local, alike, strict=True) if not same), None)
    return [
        Statement(
            "smooth and local",
            "accuracy with the smooth sensitivity is similar to that with the local one",
            source,
            "yes" if all(alike) else "partly" if any(alike) else "no",
            f"expected error relative to LS: {_rate_ranges(local)}",
            "S_β is LS here, or nearly: datasets with a larger local sensitivity are too far away"
            if apart is None
            else f"not for δ = {apart['delta']:g}, n = {apart['n']}, data {apart['data']}: a small δ makes a "
            "small β",
            {"within_10_percent": sum(alike), "of": len(alike)},
        ),
        Statement(
            "smooth and global",
            "both are much better than the global sensitivity",
            source,
            "yes" if all(ahead) else "partly" if any(ahead) else "no",
            f"expected error relative to GS: {_rate_ranges(whole)}",
            "" if all(ahead) else "ahead throughout, but not by half at the rate of the definition",
            {"below_half": sum(ahead), "of": len(ahead)},
        ),
        Statement(
            "smooth and Laplace",
            "a little better than Laplace noise",
            source,
            "yes" if len(fits) == len(reading) else "partly" if fits else "no",
            "expected (median) error relative to Laplace, even data: "
            + "; ".join(f"{rate}, {laplace}: {ordering}" for (rate, laplace), ordering in reading.items()),
            f"so with {', '.join(fits) or 'no reading'}. Over all data, δ and Laplace noises it is ahead in "
            + " and ".join(f"{sum(yes)} of {len(yes)} readings at {rate}" for rate, yes in better.items())
            + "; only the first rate is that of the definition",
            {"fits": fits, "ahead": {rate: sum(yes) for rate, yes in better.items()}},
        ),
    ]


def quoted_claims(comparison: Sequence[Row], source: str) -> Statement:
    """The same conclusions with the sensitivities as quoted, for even data at rate ε/S."""
    quoted = [row for row in comparison if row["constants"] == "quoted" and row["data"] == "even"]
    quoted = [row for row in quoted if row["rate"] == "ε/S"]
    against = {
        name: [row["ratio"] for row in quoted if row["against"] == name] for name in ("local", "global")
    }
    noise = orderings([row for row in quoted if row["against"] == "laplace"])
    held = [
        all(1 / SIMILAR <= ratio <= SIMILAR for ratio in against["local"]),
        all(ratio <= MUCH for ratio in against["global"]),
        any(ordering.slightly_better for ordering in noise.values()),
    ]
    return Statement(
        "with the quoted constants",
        "conclusions 1 and 2 with the sensitivities as quoted",
        source,
        "yes" if all(held) else "partly" if any(held) else "no",
        f"rate ε/S, even data: expected (median) error relative to LS {_range(against['local'])}, to GS "
        f"{_range(against['global'])}, to "
        + ", ".join(f"Laplace {laplace} {ordering}" for (_, laplace), ordering in noise.items()),
        ""
        if all(held)
        else "no dataset has these constants together: as the statement on the smooth one shows",
        {"held": held},
    )


# Pictures and outcomes.

_LOOKS = {
    "ε/S": "#0072B2",
    "ε/(2S)": "#56B4E9",
    "S as quoted, ε/S": "#999999",
    "2/ε on m − 1": "#D55E00",
    "2/ε on all m": "#E69F00",
    "1/ε on m − 1": "#CC79A7",
}
_NAMES = {"smooth": "SS", "local": "LS", "global": "GS", "laplace": "Laplace"}


def draw_plot(settings: Settings, rows: Sequence[Row]) -> Any:
    """Box plots of the draws for even data: sensitivities at both rates, and the Laplace mechanisms."""
    from matplotlib.patches import Patch

    figure = new_figure(8.2, 4.4)
    panels = [(n, name) for n in settings.sizes for name in settings.measures]
    used: dict[str, str] = {}
    for i, (n, name) in enumerate(panels):
        axis = figure.add_subplot(1, len(panels), i + 1)
        here = [row for row in rows if row["n"] == n and row["measure"] == name and row["data"] == "even"]
        here = [row for row in here if row["delta"] in (0.0, settings.deltas[0])]
        for place, mechanism in enumerate(_NAMES):
            boxes = {
                ("S as quoted, " if row["constants"] == "quoted" else "") + row["reading"]: row
                for row in here
                if row["mechanism"] == mechanism
            }
            shown = [label for label in _LOOKS if label in boxes]
            for j, label in enumerate(shown):
                stats = {k: boxes[label][f"drawn_{k}"] for k in ("mean", "low", "q1", "median", "q3", "high")}
                at = place + 0.26 * (j - (len(shown) - 1) / 2)
                draw_boxes(axis, [stats], [at], 0.22, _LOOKS[label])
                used[label] = _LOOKS[label]
        axis.set_xticks(range(len(_NAMES)), list(_NAMES.values()))
        axis.set_ylim(bottom=0)
        axis.set_ylabel("Hellinger distance" if name == "hellinger" else "ℓ₁ distance of the counts")
        axis.set_title(f"n = {n}, ε = {settings.epsilon:g}", fontsize=10)
    figure.suptitle(
        f"Prior {tuple(int(a) for a in settings.prior)}, even data, {settings.repetitions:,} repetitions; "
        "whiskers 5–95 %, dots: means",
        fontsize=9,
    )
    patches = [Patch(facecolor=used[label], alpha=0.55, label=label) for label in _LOOKS if label in used]
    figure.legend(handles=patches, loc="outside lower center", ncol=3, frameon=False)
    return figure


def draw_authors(settings: Settings, rows: Sequence[Row]) -> Any:
    """The four boxes of B as its text has them: rate ε/S, quoted sensitivities, noise on m − 1 counts."""
    figure = new_figure(7.6, 3.6)
    panels = [(n, name) for n in settings.sizes for name in settings.measures]
    for i, (n, name) in enumerate(panels):
        axis = figure.add_subplot(1, len(panels), i + 1)
        here = [row for row in rows if (row["n"], row["measure"], row["data"]) == (n, name, "even")]
        here = [row for row in here if row["delta"] in (0.0, settings.deltas[0])]
        here = [row for row in here if row["reading"] in ("ε/S", "2/ε on m − 1")]
        for place, mechanism in enumerate(_NAMES):
            mine = [row for row in here if row["mechanism"] == mechanism]
            row = next((row for row in mine if row["constants"] == "quoted"), mine[0])
            stats = {k: row[f"drawn_{k}"] for k in ("mean", "low", "q1", "median", "q3", "high")}
            draw_boxes(axis, [stats], [place], 0.6, _LOOKS[row["reading"]])
        labels = [f"ExpoMech\nof {kind}" for kind in ("SS", "LS", "GS")]
        axis.set_xticks(range(len(_NAMES)), [*labels, "Laplace\nMech"], fontsize=8)
        axis.set_ylim(bottom=0)
        axis.set_ylabel("Hellinger distance" if name == "hellinger" else "ℓ₁ distance of the counts")
        axis.set_title(f"n = {n}, ε = {settings.epsilon:g}", fontsize=10)
    figure.suptitle("As the authors ran it: rate ε/S, which is not private", fontsize=9)
    return figure


def _settings(base: Settings, run: Run) -> Settings:
    return replace(base.quick() if run.quick else base, seed=run.seed)


def _verdict(found: Sequence[Statement], comparison: Sequence[Row]) -> str:
    own = [row for row in comparison if row["constants"] == "recomputed" and row["data"] == "even"]
    own = [row for row in own if row["measure"] == "hellinger"]
    fits = next(s for s in found if s.name == "smooth and Laplace").values["fits"]
    whole = [row["ratio"] for row in own if row["against"] == "global" and row["rate"] == "ε/S"]
    noise = [row["ratio"] for row in own if row["against"] == "laplace" and row["rate"] == "ε/(2S)"]
    return (
        f"SS is slightly ahead of Laplace {'only at ' + ' or '.join(fits) if fits else 'in no reading'} "
        f"({_range(whole)} of the GS error at ε/S); at the defined rate ε/(2S) its error is {_range(noise)} "
        "times that of Laplace."
    )


def figure3(run: Run) -> Outcome:
    """Beta(7, 4), n = 500 and 300, ε = 0.5."""
    settings = _settings(FIGURE3, run)
    rows = measure(settings, run)
    comparison = compare(rows)
    found = shared_claims(comparison, "B 4.2, Figure 3")
    return Outcome(
        _verdict(found, comparison),
        {"": rows, "ratios": comparison},
        {"": draw_plot(settings, rows), "authors": draw_authors(settings, rows)},
        found,
        asdict(settings),
    )


def figure4(run: Run) -> Outcome:
    """Dir(7, 4, 5), n = 100 and 120, ε = δ = 0.8, and the constants of the captions."""
    return _with_constants(FIGURE4, run, "B 4.2, Figure 4")


def figure5(run: Run) -> Outcome:
    """Dir(7, 4, 5), n = 150, by Hellinger distance and by ℓ₁."""
    outcome = _with_constants(FIGURE5, run, "B 4.2, Figure 5")
    return replace(outcome, statements=[*outcome.statements, same_by_both(outcome.tables["ratios"])])


def _with_constants(base: Settings, run: Run, source: str) -> Outcome:
    settings = _settings(base, run)
    rows = measure(settings, run)
    comparison = compare(rows)
    captions = constants(settings)
    found = [
        *shared_claims(comparison, source),
        quoted_claims(comparison, source),
        *constant_claims(captions),
    ]
    return Outcome(
        _verdict(found, comparison),
        {"": rows, "ratios": comparison, "constants": captions},
        {"": draw_plot(settings, rows), "authors": draw_authors(settings, rows)},
        found,
        asdict(settings),
    )


def same_by_both(comparison: Sequence[Row]) -> Statement:
    """Whether ℓ₁ puts the mechanisms in the same order as the Hellinger distance, and as far apart."""
    keys = ("n", "data", "constants", "delta", "rate", "against", "laplace")
    sides: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in comparison:
        sides.setdefault(tuple(row[key] for key in keys), {})[row["measure"]] = row["ratio"]
    changed = [key for key, ratio in sides.items() if (ratio["hellinger"] < 1) != (ratio["l1"] < 1)]
    factor = float(np.exp(max(abs(np.log(ratio["hellinger"] / ratio["l1"])) for ratio in sides.values())))
    return Statement(
        "by ℓ₁",
        "results by ℓ₁ are very similar to those by Hellinger distance",
        "B 4.2, Figure 5",
        "no" if len(changed) == len(sides) else "partly" if changed or factor > ALIKE else "yes",
        f"the order of two mechanisms changes in {len(changed)} of {len(sides)} comparisons; ratios of "
        f"errors differ by a factor of up to {factor:.2f}",
        "ℓ₁ of counts and of parameters are the same; it has no upper end as H has, so far draws count more"
        + (f", and ratios differ by more than {ALIKE - 1:.0%}" if factor > ALIKE else ""),
        {"changed": len(changed), "comparisons": len(sides), "factor": factor},
    )
