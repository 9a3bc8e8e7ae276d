"""Theorems A.11 and A.13: scalings that the proofs give, beside the largest ones; and A.2, a partial breach.

The proof of A.11 ends with an explicit r* = ε/(Δ²Hλ), H a bound on the curvature of C over all parameters
that can arise for r ≤ r₀ = δ/(2(λ−1)Δ), δ the distance from the prior to the end of the normalisable set.
Here for Beta priors, with the curvature along the direction in which neighbours differ,
g(a, b) = ψ'(a) + ψ'(b), which is smaller than the norm of the Hessian and so kinder to r*. The proof loses
twice: ‖η_P − η_Q‖² is r²Δ², not rΔ², and Lemma 1 has a ½ that its last line gives away. √(2ε/(Δ²Hλ)) is what
it proves. A.13 only says that some m* exists; the same lemma, with ψ'(x) ≤ 1/x + 1/x², makes one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from scipy.special import polygamma

from discreet._numerics.search import boundary
from discreet.posterior_sampling.families.categorical import BetaFamily
from discreet.posterior_sampling.sampler import posterior_sampler
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["ScalingSettings", "explicit_m", "explicit_r", "scalings"]

LEAKED, BREACH_N = 40, 100


@dataclass(frozen=True)
class ScalingSettings:
    """Priors, orders and ε on a grid."""

    priors: tuple[tuple[float, float], ...] = ((1.0, 1.0), (6.0, 12.0), (30.0, 60.0))
    n: int = 100
    orders: tuple[float, ...] = (2.0, 5.0, 15.0)
    epsilons: tuple[float, ...] = (0.01, 0.1, 0.5, 1.0)

    def quick(self) -> ScalingSettings:
        """For a test."""
        return replace(self, priors=((1.0, 1.0), (6.0, 12.0)), orders=(2.0, 15.0), epsilons=(0.1, 1.0))


def _curvature(a: Any, b: Any) -> Any:
    return polygamma(1, a) + polygamma(1, b)


def explicit_r(prior: tuple[float, float], n: int, order: float, epsilon: float) -> tuple[float, float]:
    """r* as the proof of A.11 has it, and as its inequalities allow: both at most r₀."""
    a, b = prior
    # In the coordinates (a, a + b) moving a alone; the end is at a = 0 or b = 0.
    least = min(a, b) / (2 * (order - 1))
    r = np.linspace(0.0, min(1.0, least), 2001)
    away = r * (order - 1)
    ends = [
        _curvature(a + r * n * x + away * d, b + r * n * (1 - x) - away * d) for x in (0, 1) for d in (-1, 1)
    ]
    largest = float(np.max(ends))
    wanted = epsilon / (largest * order)
    return min(1.0, least, wanted), min(1.0, least, math.sqrt(2 * wanted))


def explicit_m(prior: tuple[float, float], n: int, order: float, epsilon: float) -> float:
    """An m with λ/2·(g at the worst parameter) ≤ ε by ψ'(x) ≤ 1/x + 1/x²."""
    a, b = prior

    def holds(m: float) -> bool:
        low = min(a, b) / m - (order - 1)
        high = max(a, b) / m - (order - 1)
        return low > 0 and order / 2 * sum(1 / x + 1 / x**2 for x in (low, high)) <= epsilon

    return 1.0 if holds(1.0) else boundary(holds, 1e-9, 1.0)


def measure(prior: tuple[float, float], order: float, epsilon: float, n: int) -> list[Row]:
    """What the proofs give and what is the largest, at one place."""
    proof, mended = explicit_r(prior, n, order, epsilon)
    target: dict[str, Any] = {"prior": prior, "n": n, "epsilon": epsilon, "order": order}
    return [
        {
            "a": prior[0],
            "b": prior[1],
            "order": order,
            "epsilon": epsilon,
            "r of the proof": proof,
            "r of its inequalities": mended,
            "largest r": posterior_sampler("diffused", "beta", **target).r,
            "m of the lemma": explicit_m(prior, n, order, epsilon),
            "largest m": posterior_sampler("concentrated", "beta", **target).m,
            "loss at r": _loss(prior, n, mended, order),
        }
    ]


def _loss(prior: tuple[float, float], n: int, r: float, order: float) -> float:
    a, b = map(Fraction, prior)
    return BetaFamily().curve((a, b), n, Fraction(r)).rdp(order)


def statements(rows: Sequence[Row]) -> list[Statement]:
    """Whether the scalings of the proofs are private, and how far from the largest."""
    held = all(row["loss at r"] <= row["epsilon"] * (1 + 1e-9) for row in rows)
    below = all(row["r of the proof"] <= row["largest r"] * (1 + 1e-9) for row in rows)
    loose, mended = (
        [row["largest r"] / row[key] for row in rows] for key in ("r of the proof", "r of its inequalities")
    )
    m_loose = [row["largest m"] / row["m of the lemma"] for row in rows]
    sampler = posterior_sampler("direct", "beta", prior=(6, 12), n=BREACH_N)
    before = sampler.guarantee.rdp(2)
    after = [sampler.after_breach(yes, LEAKED).rdp(2) for yes in range(LEAKED + 1)]
    return [
        Statement(
            "explicit-r",
            "r* = ε/(Δ²Hλ), at most r₀, meets (λ, ε)",
            "the paper, theorem A.11",
            "yes" if held and below else "no",
            f"the largest r is {min(loose):.3g} to {max(loose):.3g} times r* on {len(rows)} settings, and "
            f"{min(mended):.3g} to {max(mended):.3g} times what its inequalities allow, √(2ε/(Δ²Hλ))",
            "the proof bounds r²Δ² by rΔ², and Lemma 1 by twice what it shows. The search of this package "
            "finds the largest r and sees that it holds; nothing is to be gained from r*",
            {"proof": [min(loose), max(loose)], "inequalities": [min(mended), max(mended)]},
        ),
        Statement(
            "some-m",
            "Some m* > 0 meets any (λ, ε)",
            "the paper, theorem A.13",
            "yes" if min(m_loose) >= 1 - 1e-9 else "no",
            f"the proof names none; Lemma 1 with ψ'(x) ≤ 1/x + 1/x² gives one, and the largest is "
            f"{min(m_loose):.3g} to {max(m_loose):.3g} times as large",
            "its Lemma 5 is about kη₀ for large k, with constants that it does not give",
            {"ratio": [min(m_loose), max(m_loose)]},
        ),
        Statement(
            "breach",
            "If some records become known, the guarantee for the others can improve",
            "the paper, A.2",
            "yes" if max(after) <= before * (1 + 1e-9) and min(after) < before / 2 else "no",
            f"Beta(6, 12), n = {BREACH_N}, λ = 2, {LEAKED} known: D falls from {before:.3f} to "
            f"{after[13]:.3f} if 13 of them said yes, and to {min(after):.3f} at best; it never rises",
            "where none of them said yes nothing is gained: the others can all be no as well",
            {"before": before, "after": after},
        ),
    ]


def scalings(run: Run) -> Outcome:
    """Scalings of the proofs and of the search, and the breach."""
    settings = ScalingSettings().quick() if run.quick else ScalingSettings()
    places = [
        (p, order, epsilon)
        for p in settings.priors
        for order in settings.orders
        for epsilon in settings.epsilons
    ]
    run.expect(len(places))
    rows = [
        row
        for place in places
        for row in run.step(f"{settings} {place}", partial(measure, *place, settings.n))
    ]
    found = statements(rows)
    proof, mended = found[0].values["proof"], found[0].values["inequalities"]
    return Outcome(
        f"The proofs hold; the largest r is {proof[0]:.3g} to {proof[1]:.3g} times the r* of A.11, and "
        f"{mended[0]:.3g} to {mended[1]:.3g} times what its inequalities allow",
        {"": rows},
        {"": _plot(rows, settings)},
        found,
        asdict(settings),
    )


def _plot(rows: Sequence[Row], settings: ScalingSettings) -> Any:
    figure = new_figure(3.2 * len(settings.priors), 3.5)
    for place, prior in enumerate(settings.priors, 1):
        axis = figure.add_subplot(1, len(settings.priors), place)
        order = settings.orders[-1]
        own = [row for row in rows if (row["a"], row["b"]) == prior and row["order"] == order]
        lines = {"largest r": "o-", "r of its inequalities": "s--", "r of the proof": "^:"}
        for key, style in lines.items():
            axis.loglog([row["epsilon"] for row in own], [row[key] for row in own], style, label=key)
        axis.set_title(f"Beta({prior[0]:g}, {prior[1]:g}), λ = {order:g}", fontsize=10)
        axis.set_xlabel("ε")
        if place == 1:
            axis.set_ylabel("r")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure
