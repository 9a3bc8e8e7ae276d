"""The accuracy bounds of B 3.2 and 3.3 on P[H ≥ c] against the exact tail, and an N(n) for the third.

B's third bound |R|e^{−εc/S(x)}/N(n) asks for an N(n) ≤ NL_x = Σ_r e^{−εH(x,r)/S(x)} that depends on the size
of the data alone, and leaves it open. One follows from the smoothness of S. A step away from a dataset at
distance j from x costs at most LS ≤ S(x)e^{βj}, so H(x, r) ≤ S(x)·g(d) for r at d steps, with g(d) =
(e^{βd} − 1)/(e^β − 1). And within d steps there are at least C(d+k−1, k−1) candidates: take d records out of
x, and put them back in every way. Summing by parts,

    N(n) = Σ_{d=0}^{n} C(d+k−2, k−2) exp(−ε g(d)).

With ε/2 in the place of ε it serves the rate ε/(2S) too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.hellinger import candidate_distances, hellinger
from discreet.mechanisms.hellinger.exponential import MBeta
from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.paper_b.distributions import (
    RATES,
    Counts,
    Prior,
    exponential,
    sensitivity,
    smoothing,
)
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "bounds", "least_normaliser", "measure", "normalisers", "statements"]


@dataclass(frozen=True)
class Settings:
    """Datasets, even and uneven, of two and three categories, and the c at which tails are compared."""

    cases: tuple[tuple[Prior, Counts], ...] = (
        ((1.0, 1.0), (4, 4)),
        ((1.0, 1.0), (30, 30)),
        ((1.0, 1.0), (3, 57)),
        ((7.0, 4.0), (150, 150)),
        ((1.0, 1.0, 1.0), (20, 20, 20)),
        ((1.0, 1.0, 1.0), (2, 18, 40)),
        ((7.0, 4.0, 5.0), (20, 20, 20)),
    )
    epsilon: float = 0.8
    delta: float = 0.0005
    points: int = 50

    def quick(self) -> Settings:
        """Fewer points, and three categories with fewer records."""
        small = tuple((a, c if len(c) == 2 else tuple(x // 2 for x in c)) for a, c in self.cases)
        return replace(self, cases=small, points=20)


def least_normaliser(n: int, k: int, epsilon: float, beta: float) -> float:
    """N(n) = Σ_d C(d+k−2, k−2) exp(−ε(e^{βd} − 1)/(e^β − 1)): no dataset of n records has a smaller NL_x."""
    d = np.arange(n + 1)
    many = np.array([math.comb(i + k - 2, k - 2) for i in range(n + 1)], dtype=np.float64)
    return float(many @ np.exp(-epsilon * np.expm1(beta * d) / math.expm1(beta)))


def normalisers(prior: Prior, n: int, epsilons: Sequence[float], beta: float) -> FloatArray:
    """NL_x = Σ_r exp(−εH(x, r)/S_β(x)) of every dataset of n records; a column for each ε."""
    rows = compositions(n, len(prior))
    smooth = np.array([smooth_sensitivity(row, prior, beta=beta) for row in rows.tolist()])
    distance = candidate_distances(prior, rows)
    distance /= smooth[:, None]
    return np.stack([np.exp(-epsilon * distance).sum(axis=1) for epsilon in epsilons], axis=1)


def measure(settings: Settings, run: Run | None = None) -> tuple[list[Row], list[Row]]:
    """Tails and bounds by dataset, rate and c; and the normalisers by dataset and rate."""
    tails: list[Row] = []
    sizes: list[Row] = []
    run = run or Run("b-bounds")
    run.expect(len(settings.cases))
    for prior, counts in settings.cases:
        made = run.step(f"{prior} {counts} {settings}", partial(_case, settings, prior, counts))
        tails.extend(row for row in made if "c" in row)
        sizes.extend(row for row in made if "c" not in row)
    return tails, sizes


def _case(settings: Settings, prior: Prior, counts: Counts) -> list[Row]:
    n, k, epsilon, delta = sum(counts), len(counts), settings.epsilon, settings.delta
    many, beta = number_of_compositions(n, k), smoothing(epsilon, delta, n)
    smooth = sensitivity("smooth", counts, prior, epsilon, delta)
    whole = sensitivity("global", counts, prior, epsilon, delta)
    rows: list[Row] = []
    grid = np.linspace(0, 1, settings.points + 1)
    name = {"prior": str(prior), "counts": str(counts)}
    least = normalisers(prior, n, [factor * epsilon for factor in RATES.values()], beta).min(axis=0)
    for (label, factor), everywhere in zip(RATES.items(), least, strict=True):
        distribution = exponential(counts, prior, factor * epsilon / smooth)
        own = float(np.exp(-factor * epsilon / smooth * distribution.distance).sum())
        defined = float(np.exp(-epsilon / (2 * smooth) * distribution.distance).sum())
        closed = least_normaliser(n, k, factor * epsilon, beta)
        library, from_truth = _of_the_library(
            prior, counts, Fraction(str(epsilon)), Fraction(str(delta)), label
        )
        for c in grid:
            beyond = distribution.distance >= c
            if beyond.any():
                far = many * math.exp(-factor * epsilon * c / smooth)
                mixed = float(np.exp(-epsilon / smooth * distribution.distance[beyond]).sum()) / defined
                rows.append(
                    {**name, "mechanism": "smooth", "rate": label, "c": float(c)}
                    | {"exact": float(library[from_truth >= c].sum())}
                    | {
                        "first": float(
                            np.exp(-factor * epsilon / smooth * distribution.distance[beyond]).sum()
                        )
                        / own
                    }
                    | {"first_as_printed": mixed, "second": far / own, "third": far / closed}
                )
        rows.append(
            {**name, "rate": label, "beta": beta, "smooth": smooth, "normaliser": own}
            | {"least_normaliser": float(everywhere), "closed_form": closed, "candidates": many}
        )
    distribution = exponential(counts, prior, epsilon / (2 * whole))
    for c in grid:
        beyond = distribution.distance >= c
        if beyond.any():
            bound = many * math.exp(-epsilon * c / (2 * whole))
            rows.append(
                {**name, "mechanism": "global", "rate": "ε/(2S)", "c": float(c)}
                | {"exact": float(distribution.probability[beyond].sum()), "first": math.nan}
                | {"first_as_printed": math.nan, "second": math.nan, "third": bound}
            )
    return rows


def _of_the_library(
    prior: Prior, counts: Counts, epsilon: Fraction, delta: Fraction, rate: str
) -> tuple[FloatArray, FloatArray]:
    """The distribution of M_β for one dataset as the library has it, and the distance of each output.

    At rate ε/S it is M_β for 2ε, with the δ that leaves β as it is: δ²/(2(n + 1)).
    """
    n = sum(counts)
    if rate == "ε/S":
        epsilon, delta = 2 * epsilon, delta**2 / (2 * (n + 1))
    outputs, log_probability = MBeta(prior, n, epsilon, delta=delta).log_pmf(counts)
    distance = hellinger(outputs + np.array(prior), np.array(counts) + np.array(prior))
    return np.exp(log_probability), np.asarray(distance)


_ROUNDING = 1e-12


def _ratios(rows: Sequence[Row], bound: str) -> FloatArray:
    """min(bound, 1)/exact: a bound above 1 says nothing more than 1."""
    return np.array([min(row[bound], 1.0) / row["exact"] for row in rows])


def _holds(rows: Sequence[Row], bound: str) -> tuple[bool, str]:
    broken = sum(row[bound] < row["exact"] * (1 - _ROUNDING) for row in rows)
    return (
        not broken,
        f"fails in {broken} of {len(rows)} cases" if broken else f"holds in all {len(rows)} cases",
    )


def statements(tails: Sequence[Row], sizes: Sequence[Row]) -> list[Statement]:
    """The four bounds."""
    smooth = [row for row in tails if row["mechanism"] == "smooth"]
    whole = [row for row in tails if row["mechanism"] == "global"]
    return [_first(smooth), _second(smooth), _third(smooth, sizes), _whole(whole)]


def _first(rows: Sequence[Row]) -> Statement:
    off = max(abs(row["first"] - row["exact"]) for row in rows)
    defined = [row for row in rows if row["rate"] == "ε/(2S)"]
    start = [row["first_as_printed"] for row in defined if row["c"] == 0]
    return Statement(
        "first",
        "the tail is the sum of e^{−εH/S}/NL over candidates at distance c or more",
        "B 3.3",
        "no" if off > _ROUNDING else "yes" if max(abs(s - 1) for s in start) <= _ROUNDING else "partly",
        f"within {off:.1g} of the distribution of the library's M_β with one rate throughout; as printed "
        f"P[H ≥ 0] would be {min(start):.3f} to {max(start):.3f}",
        "the formula has e^{−εH/S}, while the mechanism and NL (B 2.1, 2.3.2) have e^{−εH/(2S)}",
        {"difference": off, "at_zero_as_printed": start},
    )


def _second(rows: Sequence[Row]) -> Statement:
    holds, said = _holds(rows, "second")
    ratio = _ratios(rows, "second")
    worst = rows[int(ratio.argmax())]
    return Statement(
        "second",
        "|R|e^{−εc/S}/NL bounds the tail and is slightly looser",
        "B 3.3",
        "no" if not holds else "yes" if ratio.max() <= 2 else "partly",
        f"{said}; capped at 1 it is {np.median(ratio):.2g} times the tail in the median, {ratio.max():.3g} "
        "times at worst",
        f"a count of all candidates in the place of those beyond c: worst for counts {worst['counts']}, c = "
        f"{worst['c']:g}, rate {worst['rate']}",
        {"median_ratio": float(np.median(ratio)), "largest_ratio": float(ratio.max())},
    )


def _third(rows: Sequence[Row], sizes: Sequence[Row]) -> Statement:
    holds, said = _holds(rows, "third")
    below = all(row["closed_form"] <= row["least_normaliser"] * (1 + _ROUNDING) for row in sizes)
    ratio = _ratios(rows, "third")
    loss = np.array([row["normaliser"] / row["closed_form"] for row in sizes])
    apart = np.array([row["least_normaliser"] / row["closed_form"] for row in sizes])
    return Statement(
        "third",
        "some N(n), a function of the size alone, can take the place of NL",
        "B 3.3",
        "yes" if holds and below else "no",
        f"with N(n) = Σ_d C(d+k−2, k−2)exp(−ε(e^{{βd}} − 1)/(e^β − 1)) it {said}; NL/N(n) is "
        f"{loss.min():.2g} to {loss.max():.3g}, and {apart.min():.2g} to {apart.max():.2g} for the dataset "
        "with the least NL; "
        f"capped at 1 the bound is {np.median(ratio):.2g} times the tail in the median, {ratio.max():.3g} at "
        "worst",
        "B leaves N(n) open; this one follows from the smoothness of S and holds for every prior. S(x) still "
        "depends on the data",
        {"normaliser_ratio": loss.tolist(), "median_ratio": float(np.median(ratio))},
    )


def _whole(rows: Sequence[Row]) -> Statement:
    holds, said = _holds(rows, "third")
    useful = sum(row["third"] < 1 for row in rows)
    return Statement(
        "global",
        "with the global sensitivity the tail is at most |R|e^{−εc/(2GS)}",
        "B 3.2",
        "yes" if holds else "no",
        f"{said}; it is below 1 in {useful} of them, and {min(row['third'] for row in rows):.3g} at best",
        "" if useful else "no distance is above 1, and εc/(2GS) never makes up for the number of candidates",
        {"useful": useful},
    )


def draw_plot(settings: Settings, tails: Sequence[Row]) -> Any:
    """Tails and bounds for even data of two and of three categories, at both rates."""
    figure = new_figure(8.2, 7.0)
    chosen = (settings.cases[1], settings.cases[4])
    looks = (("exact", "black", "-"), ("second", "#0072B2", "--"), ("third", "#D55E00", ":"))
    labels = {"exact": "exact tail", "second": "second bound", "third": "third bound, N(n) found here"}
    for i, rate in enumerate(("ε/S", "ε/(2S)")):
        for j, (prior, counts) in enumerate(chosen):
            axis = figure.add_subplot(2, 2, 2 * i + j + 1)
            rows = [row for row in tails if (row["prior"], row["counts"]) == (str(prior), str(counts))]
            rows = [row for row in rows if row["rate"] == rate]
            own = [row for row in rows if row["mechanism"] == "smooth"]
            for column, colour, style in looks:
                axis.plot(
                    [r["c"] for r in own], [r[column] for r in own], style, color=colour, label=labels[column]
                )
            whole = [row for row in rows if row["mechanism"] == "global"]
            if whole:
                axis.plot(*_line(whole, "exact"), "-", color="#009E73", label="GS: exact tail")
                axis.plot(*_line(whole, "third"), "--", color="#009E73", label="GS: bound of B 3.2")
            axis.axhline(1, color="0.7", linewidth=0.8)
            axis.set_yscale("log")
            axis.set_title(f"counts {counts}, rate {rate}", fontsize=10)
            axis.set_xlabel("c")
            if j == 0:
                axis.set_ylabel("P[H ≥ c]")
    handles, names = figure.axes[2].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncol=3, frameon=False)
    return figure


def _line(rows: Sequence[Row], column: str) -> tuple[list[float], list[float]]:
    return [row["c"] for row in rows], [row[column] for row in rows]


def bounds(run: Run) -> Outcome:
    """Three bounds of B 3.3 and the one of B 3.2."""
    settings = Settings().quick() if run.quick else Settings()
    tails, sizes = measure(settings, run)
    found = statements(tails, sizes)
    second, third, whole = (s.values for s in found[1:])
    held = sum(s.agrees != "no" for s in found)
    verdict = (
        f"{held} of 4 bounds hold; the second is {second['median_ratio']:.2g} times the tail (median), the "
        f"third {third['median_ratio']:.2g} times with an N(n) found here; that of B 3.2 is below 1 in "
        f"{whole['useful']} cases."
    )
    return Outcome(
        verdict, {"": tails, "normalisers": sizes}, {"": draw_plot(settings, tails)}, found, asdict(settings)
    )
