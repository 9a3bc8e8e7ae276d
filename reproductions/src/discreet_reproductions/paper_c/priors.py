"""Figures 3 and 4 of C as the prior varies: which of its claims hold at which prior precision.

The paper does not say its prior, and the prior decides the order of the lines: at small ε a diffuse draw is a
draw from N(0, I/m), whose margins are as wide as m is small, while concentrated strengthens the prior. The
axes of Figure 4 show 10⁰ and 10¹, which tells which m the paper may have had. Adult is measured at fewer
points, and MNIST is left out: a point of it takes as long as all of Abalone. The shipped sampler is run
beside the reference chains.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from discreet.regression.estimators import PrivateLogisticRegression
from discreet_reproductions.paper_c.regression import SMALL, Problem, Settings, load, measure, scores
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["PriorSettings", "experiment", "ordering", "shipped", "statements"]

SOURCE = "the paper, A.8"
PAIRS = (("diffuse", "concentrated"), ("concentrated", "ops"), ("diffuse", "ops"))
QUANTITIES = {"error": "test error", "loss": "negative log-likelihood"}
TICKS = (1.0, 10.0)
WITH_FILES = ("abalone", "adult")
MANY = 10_000
"""Data with more rows than this are measured at ``few``."""


@dataclass(frozen=True)
class PriorSettings:
    """The prior precisions, and the points at which each data set is measured."""

    precisions: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001)
    all: Settings = field(default_factory=Settings)
    few: Settings = field(
        default_factory=lambda: Settings(epsilons=(1e-2, 1.0, 100.0), repetitions=8, warm_up=40)
    )
    shipped: tuple[tuple[float, float], ...] = ((10.0, 0.1), (10.0, 10.0), (100.0, 100.0))
    """(λ, ε) at which the shipped sampler is run, at every other precision."""
    fits: int = 40
    seed: int = 2017

    def quick(self) -> PriorSettings:
        small = Settings(epsilons=(1e-2, 1.0, 100.0), repetitions=8, warm_up=30)
        return replace(
            self, precisions=(1.0, 0.01, 0.001), all=small, few=small, shipped=((10.0, 1.0),), fits=6
        )

    def of(self, data: Problem, precision: float) -> Settings:
        points = self.few if len(data.train) > MANY else self.all
        return replace(points, prior_precision=precision, seed=self.seed)


def shipped(data: Problem, precision: float, order: float, epsilon: float, fits: int, seed: int) -> list[Row]:
    """Scores of draws of the estimator as it ships, with seeds, in place of the reference chains."""
    signs = np.where(np.random.default_rng([seed, 1]).random(len(data.train)) < 0.5, -1.0, 1.0)
    rows, labels = data.train * signs[:, None], signs > 0  # the same signed rows under both labels
    found = []
    for line, method in (("diffuse", "diffused"), ("concentrated", "concentrated")):
        draws = []
        for fit in range(fits):
            model = PrivateLogisticRegression(
                epsilon=epsilon,
                order=order,
                method=method,
                prior_precision=precision,
                norm_bound=math.sqrt(1.25) * (1 + 1e-12),
                fit_intercept=False,
                classes=(False, True),
                random_state=seed + fit,
            ).fit(rows, labels)
            draws.append(np.asarray(model.coef_draws_[0, 0]))
        measured = scores(data, np.array(draws))
        row: Row = {"data": data.name, "precision": precision, "order": order, "epsilon": epsilon}
        row |= {"line": line, "sampler": model.design_.sampler, "fits": fits}
        for name, values in (("error", measured.errors), ("loss", measured.losses)):
            row |= {name: float(values.mean()), f"{name}_se": float(values.std(ddof=1)) / math.sqrt(fits)}
        found.append(row)
    return found


def ordering(table: Sequence[Row], quantity: str, better: str, worse: str) -> tuple[list[Row], ...]:
    """The points where the better line is ahead, within both intervals, and behind."""
    others = {(r["data"], r["prior"], r["order"], r["epsilon"]): r for r in table if r["line"] == worse}
    ahead: list[Row] = []
    within: list[Row] = []
    behind: list[Row] = []
    for row in table:
        if row["line"] != better:
            continue
        other = others[row["data"], row["prior"], row["order"], row["epsilon"]]
        gap = other[quantity] - row[quantity]
        half = sum((r[f"{quantity}_high"] - r[f"{quantity}_low"]) / 2 for r in (row, other))
        (ahead if gap > half else behind if gap < -half else within).append(row)
    return ahead, within, behind


def statements(table: Sequence[Row], compared: Sequence[Row], precisions: Sequence[float]) -> list[Statement]:
    """Each ordering of the paper over the priors, the axes, λ, and the shipped sampler."""
    found = [_ordered(table, precisions, quantity, *pair) for quantity in QUANTITIES for pair in PAIRS]
    return [*found, _axes(table, precisions), _degrades(table), _samplers(compared)]


def _ordered(
    table: Sequence[Row], precisions: Sequence[float], quantity: str, better: str, worse: str
) -> Statement:
    counts = {}
    for precision in precisions:
        own = [row for row in table if row["prior"] == precision]
        for data in dict.fromkeys(row["data"] for row in own):
            sides = ordering([row for row in own if row["data"] == data], quantity, better, worse)
            counts[precision, data] = tuple(map(len, sides))
    first = [row for row in table if row["prior"] == precisions[0]]
    exceptions = [
        f"{row['data']} λ = {row['order']:g} ε = {row['epsilon']:g}"
        for row in ordering(first, quantity, better, worse)[2]
    ]
    held = [not behind for _, _, behind in counts.values()]
    some = [bool(ahead) for ahead, _, _ in counts.values()]
    answer: Answer = "yes" if all(held) else "partly" if any(some) else "no"
    return Statement(
        f"{better}-over-{worse}-{quantity}",
        f"{better.capitalize()} has a smaller {QUANTITIES[quantity]} than {worse}, whatever the prior",
        SOURCE,
        answer,
        "ahead/within/behind: "
        + "; ".join(
            f"m = {precision:g}: "
            + ", ".join(
                f"{data} {'/'.join(map(str, n))}" for (at, data), n in counts.items() if at == precision
            )
            for precision in precisions
        )
        + (f". Behind at m = {precisions[0]:g}: {', '.join(exceptions)}" if exceptions else ""),
        "'within' means less than the two 95 % half-widths together",
        {f"{precision:g} {data}": list(n) for (precision, data), n in counts.items()},
    )


def _axes(table: Sequence[Row], precisions: Sequence[float]) -> Statement:
    spans = {
        precision: (min(losses), max(losses))
        for precision in precisions
        if (losses := [row["loss"] for row in table if row["prior"] == precision])
    }
    fits = [m for m, (low, high) in spans.items() if low <= TICKS[0] and high >= TICKS[1]]
    return Statement(
        "axes",
        "Some prior gives losses from below 10⁰ to above 10¹, the ticks of Figure 4",
        SOURCE,
        "yes" if fits else "no",
        "; ".join(f"m = {m:g}: {low:.3g} to {high:.3g}" for m, (low, high) in spans.items())
        + (f"; both ticks are inside for m = {', '.join(f'{m:g}' for m in fits)}" if fits else ""),
        "a draw from N(0, I/m) has margins of about 1/√m: the tick 10¹ needs m well below 0.1. There the "
        "order of diffuse and concentrated is the other way round, so that the claim and the axes do not go "
        "together with our scaling of the columns",
        {"fits": fits, "spans": {f"{m:g}": list(span) for m, span in spans.items()}},
    )


def _degrades(table: Sequence[Row]) -> Statement:
    """Means over ε, for every data set, prior, line and quantity."""
    rising, total, worst = 0, 0, 0.0
    for data, prior in dict.fromkeys((row["data"], row["prior"]) for row in table):
        for line in ("diffuse", "concentrated"):
            for quantity in QUANTITIES:
                own = [r for r in table if (r["data"], r["prior"], r["line"]) == (data, prior, line)]
                means = [
                    float(np.mean([r[quantity] for r in own if r["order"] == order]))
                    for order in sorted({row["order"] for row in own})
                ]
                total += 1
                rising += all(b >= a for a, b in pairwise(means))
                worst = min(worst, *(b - a for a, b in pairwise(means)))
    return Statement(
        "degrades-with-order",
        "Utility degrades as λ increases",
        SOURCE,
        "yes" if rising == total else "partly" if rising > total / 2 else "no",
        f"means over ε rise with λ in {rising} of {total} cases (data, prior, line, quantity); the largest "
        f"fall is {abs(worst):.4f}",
        "at a fixed ε a larger λ asks for more: 2c²λ/m = ε"
        + ("" if rising == total else ". Where a prior draw is best, more noise does not hurt"),
        {"rising": rising, "of": total},
    )


def _samplers(compared: Sequence[Row]) -> Statement:
    gaps = [
        abs(row[name] - row[f"reference_{name}"]) / math.hypot(row[f"{name}_se"], row[f"reference_{name}_se"])
        for row in compared
        for name in QUANTITIES
        if math.hypot(row[f"{name}_se"], row[f"reference_{name}_se"]) > 0
    ]
    used = sorted({row["sampler"] for row in compared})
    return Statement(
        "shipped-samplers",
        "The samplers that ship give the lines of the reference chains",
        "our own check",
        "yes" if max(gaps) < 5 else "no",
        f"largest difference of means {max(gaps):.2f} standard errors over {len(gaps)} comparisons; sampler "
        f"chosen: {', '.join(used)}",
        "λ = 1 is left out, as the estimator asks for an order above 1",
        {"largest": max(gaps)},
    )


def _with_reference(row: Row, table: Sequence[Row]) -> Row | None:
    for other in table:
        same = (other["data"], other["prior"], other["line"], other["order"], other["epsilon"])
        if same == (row["data"], row["precision"], row["line"], row["order"], row["epsilon"]):
            return row | {
                key: value
                for name in QUANTITIES
                for key, value in (
                    (f"reference_{name}", other[name]),
                    (f"reference_{name}_se", (other[f"{name}_high"] - other[name]) / 1.96),
                )
            }
    return None


def experiment(run: Run) -> Outcome:
    """Every line at every prior, and the shipped sampler on the first data set."""
    settings = replace(PriorSettings().quick() if run.quick else PriorSettings(), seed=run.seed)
    names = WITH_FILES if run.data is not None else SMALL
    data = [load(name, run.data) for name in names]
    checks = [(m, *point) for m in settings.precisions[::2] for point in settings.shipped]
    run.expect(len(data) * len(settings.precisions) + len(checks))
    table: list[Row] = []
    for item in data:
        for precision in settings.precisions:
            points = settings.of(item, precision)
            key = f"{item.name} {points}"
            table += [row | {"prior": precision} for row in run.step(key, partial(measure, item, points))]
    compared = []
    for m, order, epsilon in checks:
        make: Callable[[], list[Row]] = partial(
            shipped, data[0], m, order, epsilon, settings.fits, settings.seed
        )
        rows = run.step(f"shipped {data[0].name} {m} {order} {epsilon} {settings.fits} {settings.seed}", make)
        compared += [full for row in rows if (full := _with_reference(row, table)) is not None]
    found = statements(table, compared, settings.precisions)
    shares = found[3].values
    return Outcome(
        "The prior decides: diffuse against concentrated by loss is (ahead/within/behind) "
        + ", ".join(
            f"{'/'.join(map(str, shares[f'{m:g} {data[0].name}']))} at m = {m:g}" for m in settings.precisions
        )
        + f" on {data[0].name}; both ticks of Figure 4 need m = "
        + (", ".join(f"{m:g}" for m in found[6].values["fits"]) or "none of these"),
        {"": table, "samplers": compared},
        {"": _plot(table, settings, names)},
        found,
        {**asdict(settings), "data": list(names)},
    )


def _plot(table: Sequence[Row], settings: PriorSettings, names: Sequence[str]) -> Any:
    looks = {"diffuse": ("C0", "o-"), "concentrated": ("C1", "s-"), "ops": ("C2", "^-")}
    figure = new_figure(3.0 * len(settings.precisions), 2.7 * len(names) + 0.5)
    order = 10.0
    for i, name in enumerate(names):
        for j, precision in enumerate(settings.precisions):
            axis = figure.add_subplot(
                len(names), len(settings.precisions), i * len(settings.precisions) + j + 1
            )
            own = [r for r in table if (r["data"], r["prior"], r["order"]) == (name, precision, order)]
            for line, (colour, style) in looks.items():
                chosen = [row for row in own if row["line"] == line]
                axis.loglog(
                    [r["epsilon"] for r in chosen],
                    [r["loss"] for r in chosen],
                    style,
                    color=colour,
                    label=line,
                )
            for tick in TICKS:
                axis.axhline(tick, color="0.85", linewidth=0.8, zorder=0)
            axis.set_title(f"{name}, m = {precision:g}", fontsize=9)
            if j == 0:
                axis.set_ylabel("negative log-likelihood", fontsize=8)
            if i == len(names) - 1:
                axis.set_xlabel("ε", fontsize=9)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.suptitle(f"Figure 4 of C with prior N(0, I/m), λ = {order:g}", fontsize=10)
    return figure
