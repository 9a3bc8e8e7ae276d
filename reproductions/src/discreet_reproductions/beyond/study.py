"""Real columns: what every mechanism costs on survey data, at the size of the data and on subsamples.

The column is taken as the population. Subsamples are drawn from it with a seed, so that its shares are the
truth that an interval should cover; at the size of the data the counts are those of the column. This is a
simulation on public data: nothing here is private.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._inference.noise_aware import noise_aware
from discreet._numerics.hellinger import hellinger
from discreet.errors import NoiseWarning
from discreet.mechanisms import Mechanism, mechanism
from discreet.mechanisms.lattice import Lattice, decoding_seconds
from discreet_reproductions.arrays import FloatArray, IntArray
from discreet_reproductions.beyond.columns import Column, bundled_columns, survey_columns
from discreet_reproductions.hellinger.expected_error import seconds_per_dataset
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "measure", "study", "verdicts"]


MECHANISMS = ("lattice", "lshist", "lsdim", "lszhang", "ehds", "ehd")
LEVEL = 0.9


@dataclass(frozen=True)
class Settings:
    """What is measured; ``seconds``: about what the draws of one cell may take; it decides their number."""

    sizes: tuple[int, ...] = (100, 1000)
    epsilons: tuple[str, ...] = ("0.1", "0.5", "1")
    datasets: int = 60
    aware: int = 12
    """Releases of a cell whose noise-aware intervals are computed; more where there are few levels."""
    seconds: float = 0.3
    columns: int | None = None
    """How many columns of each source are taken; None is all."""
    seed: int = 2017

    def quick(self) -> Settings:
        """The first columns only, two ε, and fewer draws."""
        return replace(self, epsilons=("0.1", "1"), datasets=24, aware=6, seconds=0.08, columns=1)


# ---- one cell --------------------------------------------------------------------------------------------


def measure(settings: Settings, column: Column, n: int, epsilon: str) -> list[Row]:
    """Every mechanism on one column at one size and ε."""
    k, whole = len(column.counts), n == column.n
    seeds = [settings.seed, n, *column.name.encode()]
    share = np.array(column.counts) / column.n
    true = (
        np.array([column.counts])
        if whole
        else np.random.default_rng(seeds).multinomial(n, share, settings.datasets)
    )
    rows = []
    for index, name in enumerate(MECHANISMS):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            built = mechanism(name, prior=(1.0,) * k, n=n, epsilon=epsilon)
        rng = np.random.default_rng([*seeds, index, round(1000 * float(epsilon))])
        own, drawn, noisy = _drawn(built, true, settings, rng)
        expected, noise = _clustered(_errors(own, drawn), len(own))
        row: Row = {
            "source": column.source,
            "column": column.name,
            "k": k,
            "n": n,
            "size": "data" if whole else "subsample",
            "rarest": float(n * share.min()),
            "epsilon": float(epsilon),
            "mechanism": name,
            "expected": expected,
            "standard error": noise,
            "draws": len(drawn),
            **dict.fromkeys(("coverage", "width", "coverage without", "width without"), None),
            **dict.fromkeys(("coverage aware", "width aware"), None),
        }
        if not whole:
            row["coverage"], row["width"] = _covered(*_intervals(drawn), share)
            row["coverage without"], row["width without"] = _covered(*_intervals(true), share)
            if noisy is not None:
                row["coverage aware"], row["width aware"] = _aware(built, drawn, noisy, share, settings.aware)
        rows.append(row)
    return rows


def _drawn(
    m: Mechanism, true: IntArray, settings: Settings, rng: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray | None]:
    """Datasets that were used, outputs for each in turn, and the noisy counts where they are kept."""
    if isinstance(m, Lattice):
        size = int(min(max(settings.seconds / decoding_seconds(m), settings.datasets), 2000))
        each = max(1, size // len(true))
        noisy = np.repeat(true, each, axis=0) + m.simulate_noise(len(true) * each, rng)
        return true, m.decoder.decode_many(noisy), noisy
    if m.name.startswith("ehd"):
        true = true[: max(1, int(min(settings.seconds / seconds_per_dataset(m.n, m.k), len(true))))]
        each = 16 if len(true) > 1 else 200
    else:
        each = -(-4000 // len(true))
    seeds = rng.integers(2**31, size=len(true)).tolist()
    outputs = [m.simulate(x, each, seed) for x, seed in zip(true.tolist(), seeds, strict=True)]
    return true, np.concatenate(outputs), None


def _errors(true: IntArray, drawn: IntArray) -> FloatArray:
    each = len(drawn) // len(true)
    return np.asarray(hellinger(np.repeat(true, each, axis=0) + 1.0, drawn + 1.0))


def _clustered(errors: FloatArray, datasets: int) -> tuple[float, float]:
    """Mean and its standard error, clustered by dataset where there are several."""
    means = errors.reshape(datasets, -1).mean(axis=1) if datasets > 1 else errors
    return float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means)) if len(
        means
    ) > 1 else math.nan


def _intervals(counts: IntArray) -> tuple[FloatArray, FloatArray]:
    """Equal-tailed intervals of every level, read from the posteriors of these counts as they are."""
    from scipy.special import betaincinv

    parameters = counts + 1.0
    rest = parameters.sum(axis=1, keepdims=True) - parameters
    low, high = (betaincinv(parameters, rest, p) for p in ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return low, high


def _covered(low: FloatArray, high: FloatArray, share: FloatArray) -> tuple[float, float]:
    return float(((low <= share) & (share <= high)).mean()), float((high - low).mean())


def _aware(
    m: Mechanism, drawn: IntArray, noisy: IntArray, share: FloatArray, number: int
) -> tuple[float, float]:
    """Coverage and width of noise-aware intervals, of releases from different datasets."""
    number = min(max(number, 5 * number // m.k), len(drawn))
    step = len(drawn) // number
    ends = []
    for counts, z in zip(drawn[::step][:number].tolist(), noisy[::step][:number].tolist(), strict=True):
        ends.append(noise_aware(m, counts, z).interval(LEVEL))
    low, high = np.array([e[0] for e in ends]), np.array([e[1] for e in ends])
    return _covered(low, high, share)


# ---- the study -------------------------------------------------------------------------------------------


def study(run: Run) -> Outcome:
    """All columns, sizes and ε."""
    settings = replace(Settings().quick() if run.quick else Settings(), seed=run.seed)
    if run.data is None:
        columns = bundled_columns(settings.columns)
    else:
        columns = survey_columns(run.data, settings.columns)
    cells = [
        (column, n, epsilon)
        for column in columns
        for n in sorted({*(n for n in settings.sizes if n < column.n), column.n})
        for epsilon in settings.epsilons
    ]
    run.expect(len(cells))
    rows: list[Row] = []
    for column, n, epsilon in cells:
        key = f"study {column} {n} {epsilon} {settings}"
        rows += run.step(key, partial(measure, settings, column, n, epsilon))
    found = _compared(rows)
    covered = _coverages(rows)
    return Outcome(
        f"lattice has the least error in {found.best} of {found.cells} cells; the next is "
        f"{found.next:.2f} times "
        f"it (median), EHD {found.ehd:.1f}; 90 % intervals cover {covered['coverage']:.0%} plug-in, "
        f"{covered['coverage aware']:.0%} noise-aware",
        {
            "": rows,
            "columns": [{**asdict(c), "counts": " ".join(map(str, c.counts)), "n": c.n} for c in columns],
        },
        {"": _plot(rows), "coverage": _coverage_plot(rows)},
        verdicts(rows),
        {**asdict(settings), "columns": [f"{c.source} {c.name}" for c in columns], "level": LEVEL},
    )


@dataclass(frozen=True)
class Compared:
    """Who wins in how many cells, and by what."""

    cells: int
    best: int
    behind: tuple[str, ...]
    """Cells in which another mechanism is better by more than two standard errors."""
    rarest: float
    """In those cells, the most records expected in the rarest level, over the noise scale 2/ε."""
    next: float
    largest: float
    ehd: float
    winners: Mapping[str, int]


def _cells(rows: Iterable[Row]) -> dict[tuple[Any, ...], dict[str, Row]]:
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        key = row["source"], row["column"], row["n"], row["epsilon"]
        cells.setdefault(key, {})[row["mechanism"]] = row
    return cells


def _compared(rows: Sequence[Row]) -> Compared:
    winners: dict[str, int] = {}
    behind, ratios, ehd, rarest = [], [], [], 0.0
    for (source, column, n, epsilon), cell in _cells(rows).items():
        least = min(cell.values(), key=lambda row: row["expected"])
        winners[least["mechanism"]] = winners.get(least["mechanism"], 0) + 1
        own = cell["lattice"]
        others = [row for name, row in cell.items() if name != "lattice"]
        ratios.append(min(row["expected"] for row in others) / own["expected"])
        ehd.append(cell["ehd"]["expected"] / own["expected"])
        noise = 2 * math.hypot(own["standard error"], least["standard error"])
        if own["expected"] - least["expected"] > noise:
            rarest = max(rarest, own["rarest"] * epsilon / 2)
            behind.append(
                f"{source} {column}, n = {n}, ε = {epsilon:g}: {least['mechanism']} {least['expected']:.3f}, "
                f"lattice {own['expected']:.3f}"
            )
    return Compared(
        len(ratios),
        winners.get("lattice", 0),
        tuple(behind),
        rarest,
        float(np.median(ratios)),
        float(max(ratios)),
        float(np.median(ehd)),
        winners,
    )


def _coverages(rows: Sequence[Row]) -> dict[str, float]:
    """Mean coverage of the lattice mechanism's intervals over subsample cells."""
    cells = [row for row in rows if row["mechanism"] == "lattice" and row["coverage"] is not None]
    names = ("coverage", "coverage aware", "coverage without")
    return {name: float(np.mean([row[name] for row in cells])) for name in names}


def verdicts(rows: Sequence[Row]) -> list[Statement]:
    """Who wins, what EHD costs, and what the intervals cover."""
    found, covered = _compared(rows), _coverages(rows)
    tight = [row for row in rows if row["mechanism"] == "lattice" and row["coverage"] is not None]
    smallest = min(row["epsilon"] for row in tight)
    at_small = [row for row in tight if row["epsilon"] == smallest]
    small = {name: float(np.mean([row[name] for row in at_small])) for name in ("coverage", "coverage aware")}
    ehd = [(cell["ehd"]["expected"], cell["lattice"]["expected"]) for cell in _cells(rows).values()]
    near = sum(own > 0.9 for own, _ in ehd)
    ahead = [other for own, other in ehd if own < other]
    return [
        Statement(
            "lattice-wins",
            "The lattice mechanism has the smallest expected error",
            "beyond the papers",
            _answer(not found.behind, found.best > found.cells / 2),
            f"in {found.best} of {found.cells} cells (winners: "
            + ", ".join(f"{name} {number}" for name, number in found.winners.items())
            + f"); the best other mechanism has {found.next:.2f} times its error in the median cell, "
            f"{found.largest:.2f} times at most",
            "where another mechanism is ahead, two standard errors explain it"
            if not found.behind
            else f"beaten by more than two standard errors in {len(found.behind)} cells: "
            + "; ".join(found.behind[:4])
            + f". The rarest level is expected to hold at most {found.rarest:.2f} noise scales of "
            "records there: "
            "LSZhang clamps such a level to 0 half of the time, the decoder, which trusts the uniform prior, "
            "does not expect a level to be empty",
            {"behind": list(found.behind)},
        ),
        Statement(
            "ehd-costs",
            "EHD has a larger error than the lattice mechanism on every column",
            "beyond the papers, on A",
            _answer(not ahead, len(ahead) < len(ehd) / 2),
            f"{found.ehd:.1f} times the lattice error in the median cell; above 0.9, near the largest "
            "distance 1, "
            f"in {near} of {len(ehd)} cells"
            + (
                f"; smaller in {len(ahead)}, where the lattice error is at least {min(ahead):.3f}"
                if ahead
                else ""
            ),
            "its candidates are all compositions of n: the more there are, the less probability is near "
            "the truth",
        ),
        Statement(
            "plug-in",
            "Intervals read from the released posterior as it is do not cover what they promise",
            "beyond the papers",
            _answer(small["coverage"] < 0.85, covered["coverage"] < 0.88),
            f"90 % intervals of the lattice release cover {small['coverage']:.0%} at ε = {smallest:g}, "
            f"{covered['coverage']:.0%} over all ε (without privacy {covered['coverage without']:.0%})",
            "they leave the noise out",
        ),
        Statement(
            "noise-aware",
            "Noise-aware intervals cover about 90 %",
            "beyond the papers",
            _answer(covered["coverage aware"] >= 0.88, covered["coverage aware"] >= 0.8),
            f"{small['coverage aware']:.0%} at ε = {smallest:g}, {covered['coverage aware']:.0%} over all ε, "
            f"from {len(tight)} cells",
            "the promise is on average over the prior; these are fixed shares, some of them far from uniform",
        ),
    ]


def _answer(whole: bool, part: bool = False) -> Answer:
    return "yes" if whole else "partly" if part else "no"


# ---- plots -----------------------------------------------------------------------------------------------

_LOOKS = {
    "lattice": ("#009E73", "o"),
    "lshist": ("#E69F00", "^"),
    "lsdim": ("#D55E00", "v"),
    "lszhang": ("#CC79A7", "D"),
    "ehds": ("#56B4E9", "s"),
    "ehd": ("#0072B2", "x"),
}


def _axes(rows: Sequence[Row], width: float, title: str) -> tuple[Any, dict[float, Any], dict[str, int]]:
    """A panel per ε with a line for each column and size."""
    names = list(dict.fromkeys(_name(row) for row in rows))
    epsilons = sorted({row["epsilon"] for row in rows})
    figure = new_figure(width, 1.6 + 0.23 * len(names))
    first, axes = None, {}
    for place, epsilon in enumerate(epsilons, 1):
        axis = figure.add_subplot(1, len(epsilons), place, sharey=first)
        axis.set_title(f"ε = {epsilon:g}", fontsize=10)
        axis.set_xlim(-0.03, 1.03)
        axis.grid(axis="y", color="0.9")
        if first is None:
            axis.set_yticks(range(len(names)), names, fontsize=8)
            axis.set_ylim(len(names) - 0.5, -0.5)
        else:
            axis.tick_params(labelleft=False)
        first = first or axis
        axes[epsilon] = axis
    figure.suptitle(title, fontsize=11)
    return figure, axes, {name: i for i, name in enumerate(names)}


def _name(row: Row) -> str:
    return f"{row['source']} {row['column']} (k = {row['k']}), n = {row['n']}"


def _plot(rows: Sequence[Row]) -> Any:
    figure, axes, places = _axes(rows, 10.0, "Expected Hellinger error of the released posterior")
    for epsilon, axis in axes.items():
        for name, (colour, marker) in _LOOKS.items():
            points = [row for row in rows if row["epsilon"] == epsilon and row["mechanism"] == name]
            x, y = [row["expected"] for row in points], [places[_name(row)] for row in points]
            axis.plot(x, y, marker, color=colour, markersize=5, label=name)
        axis.set_xlabel("expected error")
    _legend(figure)
    return figure


def _coverage_plot(rows: Sequence[Row]) -> Any:
    shown = [row for row in rows if row["coverage"] is not None]
    figure, axes, places = _axes(shown, 10.0, "Coverage of 90 % intervals of the shares, subsamples")
    marks = (
        ("lattice", "coverage aware", "#009E73", "o", "lattice, noise-aware"),
        ("lattice", "coverage", "#009E73", "x", "lattice, as released"),
        ("lshist", "coverage", "#E69F00", "^", "LSHist, as released"),
        ("lattice", "coverage without", "0.5", "|", "without privacy"),
    )
    for epsilon, axis in axes.items():
        axis.axvline(LEVEL, color="0.6", linewidth=1)
        for name, key, colour, marker, label in marks:
            points = [row for row in shown if row["epsilon"] == epsilon and row["mechanism"] == name]
            x, y = [row[key] for row in points], [places[_name(row)] for row in points]
            axis.plot(x, y, marker, color=colour, markersize=6, label=label)
        axis.set_xlabel("coverage")
    _legend(figure)
    return figure


def _legend(figure: Any) -> None:
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False, fontsize=9)
