"""Figure 11 of B: the concrete privacy loss of the mechanism with smooth sensitivity against n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.neighbours import HellingerDistributions
from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
from discreet_reproductions.paper_b.distributions import (
    RATES,
    Prior,
    exponential,
    sensitivity,
    smoothing,
    uniform_counts,
)
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "figure11", "measure", "own_loss", "statements"]


@dataclass(frozen=True)
class Settings:
    """B captions both panels "90 to 180"; the first range here is what comes before."""

    prior: Prior = (1.0, 1.0)
    ranges: tuple[tuple[int, int], ...] = ((2, 90), (90, 180))
    step: int = 1
    epsilon: float = 0.8
    delta: float = 0.0005

    def quick(self) -> Settings:
        """Every seventh n, even and odd ones."""
        return replace(self, step=7)

    @property
    def sizes(self) -> tuple[int, ...]:
        """All n of both ranges, ends included."""
        return tuple(
            sorted({n for low, high in self.ranges for n in (*range(low, high + 1, self.step), high)})
        )


def own_loss(settings: Settings, n: int, factor: float) -> float:
    """max |log P(r|x)/P(r|y)| over candidates r and neighbours y of the even dataset x."""
    x = uniform_counts(n, 2)

    def log_distribution(counts: tuple[int, ...]) -> Any:
        smooth = sensitivity("smooth", counts, settings.prior, settings.epsilon, settings.delta)
        return np.log(exponential(counts, settings.prior, factor * settings.epsilon / smooth).probability)

    here = log_distribution(x)
    neighbours = [(x[0] + move, x[1] - move) for move in (-1, 1) if x[0] + move >= 0]
    return max(float(np.abs(here - log_distribution(y)).max()) for y in neighbours)


def _at(settings: Settings, n: int) -> list[Row]:
    rows = compositions(n, 2)
    beta = smoothing(settings.epsilon, settings.delta, n)
    sharpness = np.array([1 / smooth_sensitivity(row, settings.prior, beta=beta) for row in rows.tolist()])
    distributions = HellingerDistributions(settings.prior, rows, sharpness)
    found: list[Row] = []
    for label, factor in RATES.items():
        loss = distributions.worst_loss(factor * settings.epsilon)
        above = loss > settings.epsilon
        delta = distributions.worst_delta(factor * settings.epsilon, settings.epsilon) if above else 0.0
        found.append(
            {"n": n, "rate": label, "even_data": own_loss(settings, n, factor), "worst": loss, "delta": delta}
        )
    return found


def measure(settings: Settings, run: Run | None = None) -> list[Row]:
    """Loss of the even dataset, worst loss of all, and δ(ε) where the loss is above ε: by n and rate."""
    run = run or Run("b-figure11")
    parts = np.array_split(np.array(settings.sizes), max(1, len(settings.sizes) // 12))
    run.expect(len(parts))
    rows: list[Row] = []
    for part in parts:
        rows.extend(run.step(f"{settings} {part[0]}–{part[-1]}", partial(_block, settings, part.tolist())))
    return rows


def _block(settings: Settings, sizes: Sequence[int]) -> list[Row]:
    return [row for n in sizes for row in _at(settings, n)]


def statements(settings: Settings, rows: Sequence[Row]) -> list[Statement]:
    """Below 0.8 in each range, for the data of the figure and for all data, at both rates; and (ε, δ)."""
    epsilon = settings.epsilon
    found = []
    for low, high in settings.ranges:
        here = [row for row in rows if low <= row["n"] <= high]
        tops = {
            (rate, column): max(row[column] for row in here if row["rate"] == rate)
            for rate in RATES
            for column in ("even_data", "worst")
        }
        below = {key: value < epsilon for key, value in tops.items()}
        held = [rate for rate in RATES if below[rate, "even_data"] and below[rate, "worst"]]
        found.append(
            Statement(
                f"n = {low} to {high}",
                f"the concrete loss is below ε = {epsilon:g}",
                "B 4.4, Figure 11",
                "yes" if all(below.values()) else "partly" if any(below.values()) else "no",
                "; ".join(
                    f"rate {rate}: at most {tops[rate, 'even_data']:.4f} between the even data and their "
                    f"neighbours, {tops[rate, 'worst']:.4f} between any two neighbours"
                    for rate in RATES
                ),
                ""
                if all(below.values())
                else f"for all data it holds at {' and '.join(held) or 'neither rate'}; ε/(2S) is the rate "
                "of the definition, ε/S that of B 3.3 and 3.4",
                {f"{rate}, {column}": value for (rate, column), value in tops.items()},
            )
        )
    deltas = {rate: max(row["delta"] for row in rows if row["rate"] == rate) for rate in RATES}
    kept = {rate: value <= settings.delta for rate, value in deltas.items()}
    found.append(
        Statement(
            "(ε, δ)",
            f"the mechanism is ({epsilon:g}, {settings.delta:g})-private",
            "B 2.3, 4.4",
            "yes" if all(kept.values()) else "partly" if any(kept.values()) else "no",
            "; ".join(
                f"rate {rate}: exact δ({epsilon:g}) up to {value:.4g}" for rate, value in deltas.items()
            ),
            "" if all(kept.values()) else "the rate ε/S leaves out the factor 2 of the definition",
            deltas,
        )
    )
    return found


def draw_plot(settings: Settings, rows: Sequence[Row]) -> Any:
    """Loss against n in both ranges."""
    figure = new_figure(8.2, 4.2)
    looks = (("ε/(2S)", "#0072B2"), ("ε/S", "#D55E00"))
    for i, (low, high) in enumerate(settings.ranges):
        axis = figure.add_subplot(1, 2, i + 1, sharey=figure.axes[0] if i else None)
        for rate, colour in looks:
            here = [row for row in rows if row["rate"] == rate and low <= row["n"] <= high]
            x = [row["n"] for row in here]
            axis.plot(x, [row["worst"] for row in here], "-", color=colour, label=f"{rate}, all datasets")
            axis.plot(x, [row["even_data"] for row in here], ":", color=colour, label=f"{rate}, even data")
        axis.axhline(settings.epsilon, color="black", linewidth=0.9, linestyle="--", label="ε")
        axis.set_xlabel("number of records n")
        axis.set_ylim(bottom=0)
        note = " (captioned “90 to 180” too)" if i == 0 else ""
        axis.set_title(f"11({'ab'[i]}): n = {low} to {high}{note}", fontsize=9)
    figure.axes[0].set_ylabel("exact privacy loss")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncol=3, frameon=False)
    return figure


def figure11(run: Run) -> Outcome:
    """Concrete ε against the number of records."""
    settings = Settings().quick() if run.quick else Settings()
    rows = measure(settings, run)
    top = {rate: max(row["worst"] for row in rows if row["rate"] == rate) for rate in RATES}
    said = " and ".join(f"{value:.3f} at rate {rate}" for rate, value in top.items())
    passed = [rate for rate, value in top.items() if value < settings.epsilon]
    where = f"{' and '.join(passed) if passed else 'neither rate'}{' only' if len(passed) == 1 else ''}"
    verdict = (
        f"The largest exact loss over n = {rows[0]['n']} to {rows[-1]['n']} is {said}: below "
        f"ε = {settings.epsilon:g} at {where}."
    )
    return Outcome(
        verdict, {"": rows}, {"": draw_plot(settings, rows)}, statements(settings, rows), asdict(settings)
    )
