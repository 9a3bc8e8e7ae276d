"""Figures 1 and 2: held-out log-likelihood of one released draw in the Beta–Bernoulli system, against ε.

n records are Bernoulli(ρ). A mechanism of :mod:`experiments.paper_c.lines` releases one draw p of their
mean, and is judged by log P(X_H | p) of as many held-out records.

The paper's appendix has the settings and the captions, but not the definition of its baseline, the perturbed
sufficient statistic: Laplace and Gaussian noise are our reading of it. Nor does its text have the numbers
behind the curves. Verdicts are on what it says about them.

    discreet reproduce c-figure1 c-figure2 --out out/reproduce [--quick]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.posterior_sampling.sampler import posterior_sampler
from discreet_reproductions.paper_c.lines import BEYOND, RELEASED, Line, Settings, direct_line, lines_at
from discreet_reproductions.paper_c.verdicts import Result, common, matching, uniform
from discreet_reproductions.report import Outcome, Row, new_figure
from discreet_reproductions.running import Run

__all__ = ["FIGURE1", "FIGURE2", "FIGURES", "experiment1", "experiment2", "figure1", "figure2"]

Advance = Callable[[], object]

FIGURE1 = Settings(1, (6.0, 12.0), (1 / 3, 1 / 2, 2 / 3))
FIGURE2 = Settings(2, (1.0, 1.0), (0.2,))


def measure(settings: Settings, advance: Advance = lambda: None) -> tuple[list[Row], list[Row]]:
    """The points of the figure, and the privacy panels: ε of direct against λ, and r, m against ε.

    Data and held-out data are the same for every line and ε of a ρ, so that differences are paired.
    """
    direct = direct_line(settings)
    calibrated: list[tuple[float, list[Line]]] = []
    for epsilon in settings.epsilons:
        calibrated.append((epsilon, lines_at(settings, epsilon)))
        advance()
    table: list[Row] = []
    for panel, rho in enumerate(settings.rhos):
        rng = _generator(settings, panel)
        counts = rng.binomial(settings.n, rho, settings.repetitions)
        held_out = rng.binomial(settings.held_out, rho, settings.repetitions)

        def point(line: Line, epsilon: float, *place: int, name: str = "") -> Row:
            draws = line.draw(counts, _generator(settings, panel, *place))  # noqa: B023
            found = held_out * np.log(draws) + (settings.held_out - held_out) * np.log1p(-draws)  # noqa: B023
            mean = float(found.mean())
            half = 1.96 * float(found.std(ddof=1)) / math.sqrt(settings.repetitions)
            return {
                "figure": settings.figure,
                "prior": f"Beta({settings.prior[0]:g}, {settings.prior[1]:g})",
                "rho": rho,  # noqa: B023
                "n": settings.n,
                "held_out": settings.held_out,
                "order": settings.order,
                "epsilon": epsilon,
                "mechanism": name or line.name,
                "beyond_paper": line.name in BEYOND,
                "promise": line.promise,
                "renyi": line.renyi,
                "scale": line.scale,
                "repetitions": settings.repetitions,
                "mean": mean,
                "low": mean - half,
                "high": mean + half,
                "expected": line.expected(rho, settings.held_out),  # noqa: B023
            }

        table.append(point(direct, math.inf, 0, 0, name="non-private"))
        table.append(point(direct, direct.renyi, 0, 0))
        for i, (epsilon, lines) in enumerate(calibrated, 1):
            table.extend(point(line, epsilon, i, j) for j, line in enumerate(lines))
            advance()
    return table, [*_direct_rows(settings), *_scaling_rows(calibrated)]


def _generator(settings: Settings, *place: int) -> np.random.Generator:
    return np.random.default_rng([settings.seed, settings.figure, *place])


def _direct_rows(settings: Settings) -> Iterator[Row]:
    guarantee = posterior_sampler("direct", "beta", prior=settings.prior, n=settings.n).guarantee
    limit = guarantee.max_order
    orders = sorted(
        {*np.linspace(1, limit, 26)[1:-1], limit - (limit - 1) * 1e-3, limit - (limit - 1) * 1e-6}
    )
    for order in (*orders, limit, max(settings.order, limit)):
        yield {"quantity": "epsilon of direct", "at": float(order), "value": guarantee.rdp(float(order))}


def _scaling_rows(calibrated: Sequence[tuple[float, list[Line]]]) -> Iterator[Row]:
    for name, symbol in zip(RELEASED, ("r", "m"), strict=True):
        for epsilon, lines in calibrated:
            line = next(line for line in lines if line.name == name)
            yield {"quantity": f"{symbol} of {name}", "at": epsilon, "value": line.scale}
            yield {"quantity": f"weight of the data in {name}", "at": epsilon, "value": line.data_weight()}


# Figures.


def figure1(settings: Settings = FIGURE1, advance: Advance = lambda: None) -> Result:
    """Figure 1: a fixed prior, Beta(6, 12) (the paper's η₀ = (6, 18)), and three true ρ."""
    result = Result(settings, *measure(settings, advance), [])
    return replace(result, statements=[*matching(result), *common(result)])


def figure2(settings: Settings = FIGURE2, advance: Advance = lambda: None) -> Result:
    """Figure 2: the uniform prior (the paper's η₀ = (1, 2)) and ρ = 0.2."""
    result = Result(settings, *measure(settings, advance), [])
    return replace(result, statements=[*uniform(result), *common(result)])


FIGURES: dict[int, tuple[Settings, Callable[..., Result]]] = {1: (FIGURE1, figure1), 2: (FIGURE2, figure2)}
_LOOKS = {
    "diffused": ("C0", "o-", "diffused"),
    "concentrated": ("C1", "s-", "concentrated"),
    "laplace": ("C2", "^--", "Laplace on the count (pure ε)"),
    "gaussian": ("C3", "v--", "Gaussian on the count (Rényi)"),
    "lattice": ("C4", "D:", "lattice count (pure ε), beyond the paper"),
    "lattice-renyi": ("C5", "x:", "lattice count (Rényi), beyond the paper"),
}


def draw_plot(result: Result) -> Any:
    """Log-likelihood against ε for each ρ; below or beside, the ε of direct against λ and the scalings."""
    settings = result.settings
    columns = max(3, len(settings.rhos)) if len(settings.rhos) > 1 else 2
    figure = new_figure(4.3 * columns, 7.4)
    axes = [figure.add_subplot(2, columns, i + 1) for i in range(2 * columns)]
    for axis, rho, letter in zip(axes, settings.rhos, "abcdefg", strict=False):
        _utility_panel(axis, result, rho)
        label = f"({letter}) " if len(settings.rhos) > 1 else ""
        axis.set_title(f"{label}ρ = {Fraction(rho).limit_denominator(60)}", fontsize=10)
    axes[0].set_ylabel(f"held-out log-likelihood ({settings.held_out} records)")
    rest = axes[len(settings.rhos) :]
    _direct_panel(rest[0], result)
    _scaling_panel(rest[1], result)
    handles, labels = axes[0].get_legend_handles_labels()
    rest[2].legend(handles, labels, loc="center", frameon=False, fontsize=9)
    for axis in rest[2:]:
        axis.set_axis_off()
    figure.suptitle(
        f"Figure {settings.figure}: prior Beta({settings.prior[0]:g}, {settings.prior[1]:g}), "
        f"n = {settings.n}, λ = {settings.order:g}, {settings.repetitions:,} repetitions",
        fontsize=11,
    )
    return figure


def _utility_panel(axis: Any, result: Result, rho: float) -> None:
    rows = [row for row in result.table if row["rho"] == rho]
    base = next(row for row in rows if row["mechanism"] == "non-private")
    direct = next(row for row in rows if row["mechanism"] == "direct")
    axis.axhline(
        base["expected"], color="black", linewidth=1.4, label=f"non-private ({_direct_note(direct)})"
    )
    if math.isfinite(direct["epsilon"]):
        axis.plot(direct["epsilon"], direct["mean"], "*", color="black", markersize=11, label="direct")
    for name, (colour, style, label) in _LOOKS.items():
        points = [row for row in rows if row["mechanism"] == name]
        means = np.array([row["mean"] for row in points])
        axis.errorbar(
            [row["epsilon"] for row in points],
            means,
            yerr=[means - [row["low"] for row in points], [row["high"] for row in points] - means],
            fmt=style,
            color=colour,
            markersize=4,
            linewidth=1.3,
            elinewidth=0.9,
            label=label,
        )
    axis.set_xscale("log")
    axis.set_xlabel("ε")
    # Laplace noise at small ε is so far below that the other lines would not be told apart.
    floor = min(row["low"] for row in rows if row["mechanism"] != "laplace")
    lowest = min(rows, key=lambda row: row["mean"])
    if lowest["mean"] < floor:
        top = max(row["high"] for row in rows)
        axis.set_ylim(floor - 0.08 * (top - floor), top + 0.06 * (top - floor))
        note = f"Laplace falls to −{-lowest['mean']:.0f} at ε = {lowest['epsilon']:g}"
        axis.text(
            0.98, 0.02, note, transform=axis.transAxes, ha="right", fontsize=8, color=_LOOKS["laplace"][0]
        )


def _direct_note(direct: Row) -> str:
    return (
        f"direct has ε = {direct['renyi']:.3g} here"
        if math.isfinite(direct["renyi"])
        else "direct: ε = ∞ here"
    )


def _direct_panel(axis: Any, result: Result) -> None:
    rows = [row for row in result.privacy if row["quantity"] == "epsilon of direct"]
    shown = [row for row in rows if math.isfinite(row["value"])]
    threshold = min(row["at"] for row in rows if math.isinf(row["value"]))
    axis.plot(
        [row["at"] for row in shown], [row["value"] for row in shown], "-", color="black", linewidth=1.4
    )
    axis.axvline(threshold, color="0.4", linestyle=":", label=f"λ* = {threshold:g}")
    axis.set_yscale("log")
    axis.set_xlabel("λ")
    axis.set_ylabel("ε of direct sampling")
    axis.set_title("direct: finite below λ* only", fontsize=10)
    axis.legend(frameon=False, fontsize=9)


def _scaling_panel(axis: Any, result: Result) -> None:
    settings = result.settings
    for name, symbol in zip(RELEASED, ("r", "m"), strict=True):
        colour, style, _ = _LOOKS[name]
        values = result.quantity(f"{symbol} of {name}")
        axis.plot(settings.epsilons, values, style, color=colour, markersize=4, label=f"{symbol} of {name}")
    bound = min(1.0, min(settings.prior) / (settings.order - 1))
    axis.axhline(bound, color="0.4", linestyle=":", label=f"bound at this λ: {bound:.3g}")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("ε")
    axis.set_ylabel("scaling")
    axis.set_title("scalings that meet (λ, ε)", fontsize=10)
    axis.legend(frameon=False, fontsize=9)


def experiment1(run: Run) -> Outcome:
    """Figure 1 as ``discreet reproduce`` makes it."""
    return _experiment(run, 1)


def experiment2(run: Run) -> Outcome:
    """Figure 2 as ``discreet reproduce`` makes it."""
    return _experiment(run, 2)


def _experiment(run: Run, number: int) -> Outcome:
    settings, make = FIGURES[number]
    settings = replace(settings.quick() if run.quick else settings, seed=run.seed)
    run.expect(settings.steps + 1)
    result = make(settings, run.tick)
    outcome = Outcome(
        verdict(result),
        {"": result.table, "privacy": result.privacy},
        {"": draw_plot(result)},
        result.statements,
        asdict(settings),
    )
    run.tick()
    return outcome


def verdict(result: Result) -> str:
    """One line: what a draw costs at the smallest and the largest ε, and how many claims agree."""
    settings = result.settings
    rho = settings.rhos[-1]
    parts = [
        f"{name} is {result.gap(name, rho)[0]:.1f} nats below the non-private draw at ε = "
        f"{settings.epsilons[0]:g}, {result.gap(name, rho)[-1]:.1f} at ε = {settings.epsilons[-1]:g}"
        for name in RELEASED
    ]
    agreeing = sum(s.agrees == "yes" for s in result.statements)
    return f"{agreeing} of {len(result.statements)} statements agree; at ρ = {rho:.2g} {'; '.join(parts)}."
