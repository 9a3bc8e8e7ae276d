"""The pictures of docs/reference/mechanisms/, from exact distributions and exact expected errors.

``python docs/_pictures.py`` writes them anew to docs/images/mechanisms/.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import discreet
from discreet.regression._chain import draw_design
from discreet_reproductions.hellinger.optimal import optimal_error
from discreet_reproductions.hellinger.plan import plan

FOLDER = Path(__file__).resolve().parent / "images" / "mechanisms"
N, COUNTS, EPSILON = 50, (15, 35), 1
EPSILONS = (0.1, 0.2, 0.5, 1, 2, 4)
OPTIONS: dict[str, dict[str, Any]] = {
    "mbeta": {"delta": "1e-3"},
    "exponential": {"score": "l1", "calibration": "exact"},
}
COUNT_MECHANISMS = (
    "lattice", "lshist", "lsdim", "lszhang", "ehd", "ehds", "ehdl-calibrated", "exponential", "mbeta", "ehdl",
)  # fmt: skip
OURS, OTHER, TRUE = "#2456a6", "#c2410c", "#555555"


def panels() -> tuple[Figure, Any, Any]:
    figure = Figure(figsize=(7.4, 2.7), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    return figure, left, right


def distribution_of_first_count(name: str) -> tuple[np.ndarray, np.ndarray]:
    """The first released count and its probability, for the counts above."""
    options = OPTIONS.get(name, {})
    m = discreet.mechanism(name, prior=(1, 1), n=N, epsilon=EPSILON, **options)
    outputs, log_probability = m.log_pmf(COUNTS)
    return np.arange(N + 1), np.bincount(outputs[:, 0], np.exp(log_probability), N + 1)


def expected_errors(name: str) -> list[float]:
    choice = (name, OPTIONS.get(name, {}))
    plans = (plan(prior=(1, 1), n=N, epsilon=e, mechanisms=[choice]) for e in EPSILONS)
    return [found.rows[0].expected for found in plans]


def count_mechanism(name: str) -> Figure:
    figure, left, right = panels()
    counts, probability = distribution_of_first_count(name)
    left.bar(counts, probability, width=0.85, color=OURS, label=name)
    if name != "lattice":
        left.step(*distribution_of_first_count("lattice"), where="mid", color=OTHER, lw=1, label="lattice")
    left.axvline(COUNTS[0], color=TRUE, ls=":", lw=1.5, label="true count")
    left.set(xlabel=f"released count (true: {COUNTS[0]} of {N})", ylabel="probability", xlim=(-1, N + 1))
    left.legend(frameon=False, fontsize=8)
    right.plot(EPSILONS, expected_errors(name), "o-", color=OURS, label=name)
    if name == "lattice":
        limit = [optimal_error(prior=(1, 1), n=N, epsilon=e) for e in EPSILONS]
        right.plot(EPSILONS, limit, "+", color=OTHER, ms=12, label="limit of all private mechanisms")
    else:
        right.plot(EPSILONS, expected_errors("lattice"), "s--", color=OTHER, label="lattice")
    right.set(xscale="log", xlabel="ε", ylabel="expected Hellinger error", ylim=(0, 1))
    right.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    right.minorticks_off()
    right.legend(frameon=False, fontsize=8)
    return figure


def posterior_draws() -> Figure:
    figure, left, right = panels()
    share = np.linspace(0.001, 0.999, 400)
    counts, prior = (60, 140), (5, 5)
    styles = {"direct": (TRUE, ":"), "diffused": (OURS, "-"), "concentrated": (OTHER, "--")}
    for name, (colour, style) in styles.items():
        target = {} if name == "direct" else {"epsilon": 1, "delta": "1e-6"}
        s = discreet.posterior_sampler(name, "beta", prior=prior, n=sum(counts), **target)
        a, b = (p / s.m + s.r * c for p, c in zip(prior, counts, strict=True))
        label = f"{name}, ε = {s.guarantee.epsilon_at(1e-6):.3g}"
        left.plot(share, discreet.Beta(a, b).pdf(share), color=colour, ls=style, label=label)
    left.set(xlabel=f"share (data: {counts[0]} of {sum(counts)})", ylabel="density of a draw")
    left.legend(frameon=False, fontsize=8)
    strength = (2, 5, 10, 20, 50, 100, 200)
    cost = [
        discreet.posterior_sampler("direct", "beta", prior=(a, a), n=200).guarantee.epsilon_at(1e-6)
        for a in strength
    ]
    right.plot(strength, cost, "o-", color=OURS)
    right.set(
        xscale="log", yscale="log", xlabel="a of the prior Beta(a, a)", ylabel="ε of a direct draw, δ = 10⁻⁶"
    )
    right.set_xticks(strength, [f"{a:g}" for a in strength])
    right.set_yticks((0.5, 1, 2, 5), ["0.5", "1", "2", "5"])
    right.minorticks_off()
    return figure


def logistic() -> Figure:
    """What a chain of T steps loses, and what further draws of the same sharpness would cost."""
    figure, left, right = panels()
    public: dict[str, Any] = {"method": "diffused", "n": 569, "dimension": 31, "prior_precision": 1.0}
    public["norm_squared"] = Fraction(5, 4)
    target: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    whole = draw_design(**public, **target)
    steps = sorted({*np.geomspace(1, 20 * whole.steps, 25).astype(int).tolist()})
    loss = [
        draw_design(steps=t, **public, **target).guarantee.effective_curve.epsilon_at(1e-6) for t in steps
    ]
    left.plot(steps, loss, "-", color=OURS, label="T noisy gradient steps")
    left.axhline(1, color=TRUE, ls=":", label="exact draw: the limit of any T")
    left.axvline(whole.steps, color=OTHER, ls="--", lw=1, label=f"default, T = {whole.steps:,}")
    left.set(xscale="log", xlabel="steps T", ylabel="ε at δ = 10⁻⁶", ylim=(0, 1.6))
    left.legend(frameon=False, fontsize=8, loc="upper left")
    draws = (1, 2, 4, 8, 16)
    model = discreet.PrivateLogisticRegression(**target)
    right.plot(
        draws, [model.price(k).epsilon_at(1e-6) for k in draws], "o-", color=OURS, label="draws together"
    )
    right.plot(draws, draws, ":", color=TRUE, label="if the ε simply added up")
    right.set(xlabel="draws of the same sharpness", ylabel="ε at δ = 10⁻⁶", xticks=draws)
    right.legend(frameon=False, fontsize=8)
    return figure


def independent(name: str) -> Figure:
    """Noise of its own on every count: the distribution of one of them, and how wide it is."""
    figure, left, right = panels()
    delta = "1e-6"

    def built(kind: str, epsilon: float) -> Any:
        options = {"delta": delta, "n": N} if kind == "gaussian" else {}
        return discreet.mechanism(kind, prior=(1, 1), epsilon=epsilon, **options)

    distribution = np.exp(built(name, EPSILON).clipped_distribution(COUNTS[0], N))
    left.bar(np.arange(N + 1), distribution, width=0.85, color=OURS, label=name)
    left.axvline(COUNTS[0], color=TRUE, ls=":", lw=1.5, label="true count")
    left.set(xlabel=f"released count (true: {COUNTS[0]})", ylabel="probability", xlim=(-1, N + 1))
    left.legend(frameon=False, fontsize=8)
    v = np.arange(-2000.0, 2001.0)
    for kind, colour, style in (("geometric", OURS, "o-"), ("gaussian", OTHER, "s--")):
        distributions = [np.exp(built(kind, e).noise.log_pmf(v)) for e in EPSILONS]
        right.plot(EPSILONS, [np.sqrt(p @ v**2) for p in distributions], style, color=colour, label=kind)
    right.set(xscale="log", yscale="log", xlabel="ε", ylabel="deviation of the noise")
    right.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
    right.minorticks_off()
    right.legend(frameon=False, fontsize=8)
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    **{name: lambda name=name: count_mechanism(name) for name in COUNT_MECHANISMS},
    **{name: lambda name=name: independent(name) for name in ("geometric", "gaussian")},
    "posterior-draws": posterior_draws,
    "logistic": logistic,
}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for picture, draw in PICTURES.items():
        draw().savefig(FOLDER / f"{picture}.png", dpi=110, metadata={"Software": None})
