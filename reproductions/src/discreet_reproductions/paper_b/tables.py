"""The two tables of B 3.4.1: how likely each Hellinger distance is, exponential mechanism against Laplace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.neighbours import HellingerDistributions
from discreet.mechanisms import mechanism
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity
from discreet.planning.candidates import PRINTED as AS_PRINTED
from discreet.planning.candidates import candidate_distribution
from discreet_reproductions.paper_b.distributions import (
    Counts,
    Prior,
    exponential,
    floored_laplace,
    sensitivity,
)
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["PRINTED", "Printed", "Settings", "digits_apart", "losses", "measure", "statements", "tables"]


@dataclass(frozen=True)
class Printed:
    """One printed line, with its digits."""

    table: int
    distance: str
    steps: int | None
    exponential: str
    laplace: str


PRINTED = (
    Printed(1, "0.83737258593", 4, "0.0431193490585", "0.066561234758"),
    Printed(1, "0.662174391701", 3, "0.0785621424847", "0.0992976939175"),
    Printed(1, "0.457635865026", 2, "0.158265808563", "0.148134752205"),
    Printed(1, "0.233629480709", 1, "0.340809715054", "0.220991081918"),
    Printed(1, "0.0", 0, "0.37924298484", "0.329679953964"),
    Printed(2, "0.999999984481", None, "0.000149705644585", "3.05988187701e-09"),
    Printed(2, "0.187421762881", 2, "0.0548161224677", "0.0285774941516"),
    Printed(2, "0.110122822057", 1, "0.192227323562", "0.170131188571"),
    Printed(2, "0.0", 0, "0.0713016293602", "0.108688872046"),
)


@dataclass(frozen=True)
class Settings:
    """The data of the two tables. For the second B has x = (20, 20); (20, 20, 20) gives its digits.

    δ is that of B's other experiments, for the smooth sensitivity; no printed number depends on it.
    """

    priors: tuple[Prior, Prior] = ((1.0, 1.0), (1.0, 1.0, 1.0))
    counts: tuple[Counts, Counts] = ((4, 4), (20, 20, 20))
    epsilon: float = 0.8
    delta: float = 0.0005


def measure(settings: Settings) -> list[Row]:
    """Every line of both tables, those that B leaves out included: one row a distance."""
    rows: list[Row] = []
    for table, (prior, counts) in enumerate(zip(settings.priors, settings.counts, strict=True), 1):
        ehdl = mechanism("ehdl", prior=prior, n=sum(counts), epsilon=settings.epsilon)
        for row in candidate_distribution(ehdl, counts, as_printed=True).rows():
            exponential, laplace = (row[name] for name in AS_PRINTED)
            if exponential:
                rows.append(
                    {
                        "table": table,
                        "distance": row["distance"],
                        "steps": row["steps"],
                        "candidates": len(row["candidates"]),
                        "exponential": exponential,
                        "laplace": laplace,
                    }
                )
    return rows


def digits_apart(printed: str, value: float) -> float:
    """How far a value is from a printed number, in units of its last digit."""
    exponent = Decimal(printed).as_tuple().exponent
    assert isinstance(exponent, int)
    return float(abs(Decimal(value) - Decimal(printed)) / Decimal(1).scaleb(exponent))


def _found(rows: Sequence[Row], line: Printed) -> Row:
    same = [row for row in rows if row["table"] == line.table]
    return min(same, key=lambda row: abs(row["distance"] - float(line.distance)))


def statements(settings: Settings, rows: Sequence[Row], privacy: Sequence[Row]) -> list[Statement]:
    """Printed digits, then what the text says about them."""
    return [
        *(_digits(rows, table, column) for table in (1, 2) for column in ("exponential", "laplace")),
        _same_steps(rows),
        _laplace_sums(rows),
        _better(settings, 1),
        _better(settings, 2),
        _private(settings, privacy),
    ]


def _digits(rows: Sequence[Row], table: int, column: str) -> Statement:
    lines = [line for line in PRINTED if line.table == table]
    off = max(
        max(
            digits_apart(line.distance, found["distance"]), digits_apart(getattr(line, column), found[column])
        )
        for line in lines
        for found in [_found(rows, line)]
    )
    data = "α = (1, 1), counts (4, 4)" if table == 1 else "α = (1, 1, 1), counts (20, 20, 20)"
    how = (
        "rate ε/LS: no factor 2, no smoothing"
        if column == "exponential"
        else "|⌊Laplace(2/ε)⌋| with a fair sign on m − 1 counts, not clamped"
    )
    why = f"{data}, ε = 0.8; {how}"
    if table == 2:
        why += "; the text has x = (20, 20) and beta(21, 21), which do not give these digits"
    return Statement(
        f"table {table}, {column}",
        f"the {len(lines)} printed lines: distance and probability",
        "B 3.4.1",
        "yes" if off <= 0.5 else "no",
        f"largest difference {off:.2g} units of the last printed digit",
        why,
        {"units_of_last_digit": off},
    )


def _same_steps(rows: Sequence[Row]) -> Statement:
    second = [row for row in rows if row["table"] == 2]
    spread = {s: [r["distance"] for r in second if r["steps"] == s] for s in {row["steps"] for row in second}}
    several = {s: d for s, d in spread.items() if len(d) > 1}
    two = sorted(spread.get(2, []))
    return Statement(
        "same steps",
        "candidates at the same number of steps have the same distance",
        "B 3.4.1",
        "yes" if not several else "no",
        f"table 2: {len(several)} of {len(spread)} numbers of steps have several distances; at 2 steps "
        + ", ".join(f"{d:.5f}" for d in two),
        "true around a symmetric posterior with k = 2 only; the printed line for 2 steps is the nearest, "
        "(22, 19, 19)",
        {"distances_at_two_steps": two},
    )


def _laplace_sums(rows: Sequence[Row]) -> Statement:
    sums = [sum(row["laplace"] for row in rows if row["table"] == table) for table in (1, 2)]
    return Statement(
        "laplace column",
        "the columns are the distributions of the two mechanisms",
        "B 3.4.1",
        "yes" if all(math.isclose(s, 1, abs_tol=1e-6) for s in sums) else "no",
        f"the Laplace column sums to {sums[0]:.4f} (table 1) and {sums[1]:.6f} (table 2)",
        "noise that leaves the candidates is not counted, so small data make Laplace noise look bad",
        {"sums": sums},
    )


def _better(settings: Settings, table: int) -> Statement:
    prior, counts = settings.priors[table - 1], settings.counts[table - 1]
    epsilon = settings.epsilon
    smooth = sensitivity("smooth", counts, prior, epsilon, settings.delta)
    shown = exponential(counts, prior, epsilon / local_sensitivity(counts, prior)).expected
    defined = exponential(counts, prior, epsilon / (2 * smooth)).expected
    noise = [floored_laplace(counts, prior, epsilon, every=every).expected for every in (False, True)]
    held = [(e < lap) == (table == 1) for e in (shown, defined) for lap in noise]
    return Statement(
        f"comparison {table}",
        "the exponential mechanism is clearly better" if table == 1 else "Laplace noise is much better",
        "B 3.4.1",
        "yes" if all(held) else "partly" if any(held) else "no",
        f"expected H: exponential {shown:.3f} at ε/LS, {defined:.3f} at ε/(2S) as defined; Laplace, clamped, "
        f"{noise[0]:.3f} on m − 1 counts, {noise[1]:.3f} on all",
        "" if all(held) else f"so in {sum(held)} of the 4 readings; the rate of the tables is not private",
        {"at_table_rate": shown, "at_defined_rate": defined, "laplace": noise},
    )


def losses(settings: Settings) -> list[Row]:
    """The exact privacy loss of the mechanism of the tables over all datasets of their sizes."""
    found: list[Row] = []
    for table, (prior, counts) in enumerate(zip(settings.priors, settings.counts, strict=True), 1):
        rows = compositions(sum(counts), len(counts))
        sharpness = np.array([1 / local_sensitivity(row, prior) for row in rows.tolist()])
        loss = HellingerDistributions(prior, rows, sharpness).worst_loss(settings.epsilon)
        found.append({"table": table, "n": sum(counts), "k": len(counts), "loss": loss})
    return found


def _private(settings: Settings, privacy: Sequence[Row]) -> Statement:
    return Statement(
        "private",
        f"the mechanism of the tables is private at ε = {settings.epsilon:g}",
        "B 2.3, 3.4.1",
        "yes" if max(row["loss"] for row in privacy) <= settings.epsilon else "no",
        "exact loss at rate ε/LS: "
        + ", ".join(f"{row['loss']:.4f} for n = {row['n']}, k = {row['k']}" for row in privacy),
        "the tables leave out the factor 2 of the definition",
        {f"table {row['table']}": row["loss"] for row in privacy},
    )


def draw_plot(rows: Sequence[Row]) -> Any:
    """Both tables: lines for the full distribution, rings for what B prints."""
    figure = new_figure(8.0, 4.2)
    looks = (
        ("exponential", "#0072B2", "o", "exponential, rate ε/LS"),
        ("laplace", "#D55E00", "s", "Laplace of B"),
    )
    for table in (1, 2):
        axis = figure.add_subplot(1, 2, table)
        shown = [row for row in rows if row["table"] == table]
        for column, colour, marker, label in looks:
            x = [row["distance"] for row in shown]
            style = f"{marker}-" if table == 1 else marker
            axis.plot(x, [row[column] for row in shown], style, color=colour, markersize=3, label=label)
            lines = [line for line in PRINTED if line.table == table]
            axis.plot(
                [float(line.distance) for line in lines],
                [float(getattr(line, column)) for line in lines],
                "o",
                markersize=9,
                markerfacecolor="none",
                markeredgecolor=colour,
            )
        axis.set_yscale("log")
        axis.set_xlabel("Hellinger distance of the candidate")
        if table == 1:
            top = axis.secondary_xaxis("top")
            top.set_xticks([row["distance"] for row in shown], [str(row["steps"]) for row in shown])
            top.set_xlabel("steps")
        else:
            axis.set_ylim(bottom=1e-9)
        axis.set_title("(4, 4), α = (1, 1)" if table == 1 else "(20, 20, 20), α = (1, 1, 1)", fontsize=10)
    figure.axes[0].set_ylabel("probability of that distance")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    ring = figure.axes[0].plot([], [], "o", markersize=9, markerfacecolor="none", markeredgecolor="0.3")[0]
    figure.legend(
        [*handles, ring], [*labels, "printed in B"], loc="outside lower center", ncol=3, frameon=False
    )
    return figure


def tables(run: Run) -> Outcome:
    """Both tables, to all printed digits."""
    settings = Settings()
    rows = measure(settings)
    privacy = run.step(f"losses {settings}", partial(losses, settings))
    found = statements(settings, rows, privacy)
    off = max(s.values["units_of_last_digit"] for s in found[:4])
    verdict = (
        f"All {3 * len(PRINTED)} printed numbers come out to the last digit, by the rate ε/LS: not that of "
        "the mechanism B defines, and not private."
        if off <= 0.5
        else f"The printed numbers differ by up to {off:.3g} units of the last digit."
    )
    return Outcome(verdict, {"": rows, "privacy": privacy}, {"": draw_plot(rows)}, found, asdict(settings))
