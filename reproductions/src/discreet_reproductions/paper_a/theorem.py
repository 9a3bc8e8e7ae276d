"""Theorem 4.5 of A, two levels, against exact probabilities of every dataset and every t.

The theorem speaks of k, the largest number of steps within t. A posterior off the middle reaches further to
one side than to the other: "largest" is the further side, as the theorem has it, and "both sides" is how many
steps fit on either side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet_reproductions.arrays import FloatArray, IntArray
from discreet_reproductions.hellinger.expected_error import Setting
from discreet_reproductions.paper_a.pair import (
    ANSWERS,
    CONSTANT,
    PAPER_GS,
    SAME,
    Pair,
    Prior,
    noisy_counts,
    prior_words,
)
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["TheoremSettings", "curve", "measure_theorem", "step_rows", "theorem", "theorem_statements"]

ROUNDING = 1e-9

CLAIMS = {
    "lszhang-equality": ("lszhang", "equal", "(1 − ½(e^{−kε/2} + e^{−(k+1)ε/2}))²"),
    "lszhang-lower": ("lszhang", "lower", "(1 − e^{−kε/2})²"),
    "lshist-equality": ("lshist", "equal", "1 − ½(e^{−kε} + e^{−(k+1)ε})"),
    "lshist-lower": ("lshist", "lower", "1 − e^{−kε}"),
    "ehd-lower": ("ehd", "lower", "(2ke^{−ε} + 1)/n"),
    "ehd-upper": ("ehd", "upper", "(2k + 1)e^ε/n"),
    "ehdl-lower": ("ehdl", "lower", "(2k·exp(−ε/2LS) + 1)/n"),
    "ehdl-upper": ("ehdl", "upper", "(2k + 1)·exp(ε/2LS)/n"),
}
READINGS = ("largest", "both sides")
WORDS = {"lszhang": "LSZhang", "lshist": "LSHist", "ehd": "EHD", "ehdl": "EHDL"}
SIGNS = {"equal": "=", "lower": "≥", "upper": "≤"}


@dataclass(frozen=True)
class TheoremSettings:
    """The grid of Theorem 4.5, and the four curves that are drawn: (mechanism, n, ε, x) with prior (1, 1)."""

    priors: tuple[Prior, ...] = ((1.0, 1.0), (7.0, 4.0), (0.5, 0.5))
    sizes: tuple[int, ...] = (2, 5, 10, 20, 50, 100)
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    curves: tuple[tuple[str, int, float, int], ...] = (
        ("lszhang", 20, 1.0, 10),
        ("lshist", 20, 0.5, 3),
        ("ehd", 20, 0.5, 3),
        ("ehdl", 20, 0.2, 10),
    )

    def quick(self) -> TheoremSettings:
        return replace(self, sizes=(2, 5, 10, 30, 100), epsilons=(0.1, 1.0))


def stated(claim: str, steps: IntArray, n: int, epsilon: float, local: FloatArray) -> FloatArray:
    """The expression of the theorem."""
    k = np.asarray(steps, dtype=np.float64)
    half = np.exp(-epsilon / (2 * local))
    one, zhang = math.exp(-epsilon), epsilon / 2
    if claim == "lszhang-equality":
        value = (1 - (np.exp(-k * zhang) + np.exp(-(k + 1) * zhang)) / 2) ** 2
    elif claim == "lszhang-lower":
        value = (1 - np.exp(-k * zhang)) ** 2
    elif claim == "lshist-equality":
        value = 1 - (np.exp(-k * epsilon) + np.exp(-(k + 1) * epsilon)) / 2
    elif claim == "lshist-lower":
        value = 1 - np.exp(-k * epsilon)
    else:
        smallest = half if claim.startswith("ehdl") else one
        value = (2 * k * smallest + 1) / n if claim.endswith("lower") else (2 * k + 1) / (n * smallest)
    return np.asarray(value, dtype=np.float64)


def measure_theorem(prior: Prior, n: int, epsilons: Sequence[float]) -> list[Row]:
    """For every ε, claim and reading of k: how many (x, t) break it, and the worst of them.

    ``constant`` is the factor that repairs a bound: a lower bound is divided by it, an upper one multiplied.
    """
    pair = Pair(prior, n)
    zhang = _ZhangEvents(pair)
    rows = []
    for epsilon in epsilons:
        exact = {
            "lszhang": zhang.probabilities(epsilon),
            "lshist": (pair.within(pair.lshist(epsilon)),) * 2,
            "ehd": (pair.within(pair.exponential(epsilon, PAPER_GS)),) * 2,
            "ehdl": (pair.within(pair.exponential(epsilon, pair.local)),) * 2,
        }
        for claim, (mechanism, kind, _) in CLAIMS.items():
            low, high = exact[mechanism]
            for reading in READINGS:
                value = stated(claim, pair.steps[reading], n, epsilon, pair.local[:, None])
                rows.append(
                    {
                        "prior": prior_words(prior),
                        "n": n,
                        "epsilon": epsilon,
                        "claim": claim,
                        "reading": reading,
                        **_worst(pair, kind, low, high, value, pair.steps[reading]),
                    }
                )
    return rows


def _worst(
    pair: Pair, kind: str, low: FloatArray, high: FloatArray, value: FloatArray, steps: IntArray
) -> Row:
    with np.errstate(divide="ignore", invalid="ignore"):
        too_high = np.where(value > 0, value / low, 0.0)
        too_low = np.where(high > 0, high / value, 0.0)
    factor = {"lower": too_high, "upper": too_low, "equal": np.maximum(too_high, too_low)}[kind]
    factor = np.where(pair.is_event, factor, 0.0)
    x, j = np.unravel_index(int(np.argmax(factor)), factor.shape)
    below = kind == "lower" or (kind == "equal" and too_high[x, j] >= too_low[x, j])
    return {
        "cases": int(pair.is_event.sum()),
        "broken": int((factor > 1 + ROUNDING).sum()),
        "constant": float(factor[x, j]),
        "x": int(x),
        "k": int(steps[x, j]),
        "exact": float((low if below else high)[x, j]),
        "stated": float(value[x, j]),
    }


class _ZhangEvents:
    """P[H < t] of LSZhang, whose outputs have any total, at both ends of the t of an event."""

    def __init__(self, pair: Pair) -> None:
        self.pair = pair
        side = np.arange(pair.n + 1)
        outputs = np.stack([axis.ravel() for axis in np.meshgrid(side, side, indexing="ij")], axis=1)
        distance = Setting(pair.prior, pair.n).distances(outputs)
        self._order = np.argsort(distance, axis=1)
        ordered = np.take_along_axis(distance, self._order, axis=1)
        # The table behind these distances is exact to about 1e-8 near 0.
        self._ends = [
            np.stack([np.searchsorted(row, at, side="right") for row, at in zip(ordered, ends, strict=True)])
            for ends in (pair.reached + 1e-7, pair.beyond - 1e-7)
        ]

    def probabilities(self, epsilon: float) -> tuple[FloatArray, FloatArray]:
        n = self.pair.n
        distribution = noisy_counts(n, epsilon / 2)
        joint = (distribution[:, :, None] * distribution[::-1][:, None, :]).reshape(n + 1, -1)
        cumulative = np.cumsum(np.take_along_axis(joint, self._order, axis=1), axis=1)
        cumulative = np.concatenate([np.zeros((n + 1, 1)), cumulative], axis=1)
        low, high = (np.take_along_axis(cumulative, ends, axis=1) for ends in self._ends)
        return low, high


def step_rows(prior: Prior, n: int, epsilons: Sequence[float]) -> list[Row]:
    """Theorem 4.2 and Corollary 4.4.1: LSHist within the local sensitivity, at the least favourable x."""
    pair = Pair(prior, n)
    rows = []
    for epsilon in epsilons:
        distribution = pair.lshist(epsilon)
        inside = pair.distance <= pair.local[:, None] + SAME
        strictly = pair.distance < pair.local[:, None] - SAME
        one, two = math.exp(-epsilon), math.exp(-2 * epsilon)
        shift = np.arange(n + 1)
        near = np.abs(shift[:, None] - shift) <= 1
        row: Row = {
            "prior": prior_words(prior),
            "n": n,
            "epsilon": epsilon,
            "stated": 1 - (one + two) / 2,
            "within": float((distribution * inside).sum(axis=1).min()),
            "strictly_within": float((distribution * strictly).sum(axis=1).min()),
            "near_steps_within": bool((inside | ~near).all()),
        }
        for name, gamma in (("corollary", (one + two) / 2), ("theorem", one)):
            probability = pair.within(distribution)
            position = np.argmax(probability >= 1 - gamma - 1e-12, axis=1)
            ratio = pair.reached[shift, position] / pair.local
            row |= {f"error_ratio_{name}_low": float(ratio.min()), f"error_ratio_{name}": float(ratio.max())}
        row["log_bound"] = math.log(2 / (one + two)) / epsilon
        rows.append(row)
    return rows


def curve(mechanism: str, n: int, epsilon: float, x: int) -> list[Row]:
    """P[H < t] of one dataset with prior (1, 1) along t, beside the expressions of the theorem."""
    pair = Pair((1.0, 1.0), n)
    distributions = {
        "lszhang": lambda: _ZhangEvents(pair).probabilities(epsilon)[0],
        "lshist": lambda: pair.within(pair.lshist(epsilon)),
        "ehd": lambda: pair.within(pair.exponential(epsilon, PAPER_GS)),
        "ehdl": lambda: pair.within(pair.exponential(epsilon, pair.local)),
    }
    exact = distributions[mechanism]()
    rows = []
    for j in np.flatnonzero(pair.is_event[x]):
        k = pair.steps["largest"][x, j]
        row = {"mechanism": mechanism, "n": n, "epsilon": epsilon, "x": x, "t": float(pair.reached[x, j])}
        row |= {
            "k": int(k),
            "exact": float(exact[x, j]),
            "lower": math.nan,
            "upper": math.nan,
            "equal": math.nan,
        }
        for claim, (own, kind, _) in CLAIMS.items():
            if own == mechanism:
                row[kind] = float(stated(claim, k, n, epsilon, pair.local[x]))
        rows.append(row)
    return rows


def theorem_statements(rows: Sequence[Row], steps: Sequence[Row]) -> list[Statement]:
    """Each bound: holds, holds up to constants, or fails at its worst case."""
    statements = []
    for claim, (mechanism, kind, formula) in CLAIMS.items():
        found = {reading: _over_grid(rows, claim, reading) for reading in READINGS}
        worst = found["largest"]["worst"]
        measured = "; ".join(_bound_words(reading, found[reading]) for reading in READINGS)
        statements.append(
            Statement(
                claim,
                f"P[H < t] {SIGNS[kind]} {formula} for {WORDS[mechanism]}, k the most steps within t",
                "A 4.5",
                _constant_answer(worst["constant"], found["largest"]["broken"]),
                measured,
                _WHY[claim],
                {
                    reading: {key: value for key, value in f.items() if key != "worst"} | f["worst"]
                    for reading, f in found.items()
                },
            )
        )
    return [*statements, *_step_statements(steps)]


_WHY = {
    "lszhang-equality": "the square treats both counts as within k steps, but an output of another total "
    "has another "
    "distance, and the clamp at 0 and n moves mass to the ends",
    "lszhang-lower": "k counts the further side only; with the steps that fit on both sides it holds",
    "lshist-equality": "it leaves out the clamp at 0 and n, and counts k steps on both sides",
    "lshist-lower": "k counts the further side only; with the steps on both sides it holds",
    "ehd-lower": "it counts 2k + 1 candidates where an edge leaves k + 1, and n candidates for n + 1; its "
    "proof takes "
    "exp(−ε/(2·GS)) for larger than e^{−ε}, but 2·GS = 0.9265 < 1",
    "ehd-upper": "the same step: a denominator n·exp(−ε/(2·GS)) is smaller than n·e^{−ε}, not larger. For "
    "large n "
    "the factor can come to e^{0.079ε} at most",
    "ehdl-lower": "it counts 2k + 1 candidates where an edge leaves k + 1, and n candidates for n + 1",
    "ehdl-upper": "H ≤ 1 bounds the normaliser below, and at most 2k + 1 candidates are within t",
}


def _over_grid(rows: Sequence[Row], claim: str, reading: str) -> dict[str, Any]:
    chosen = [row for row in rows if row["claim"] == claim and row["reading"] == reading]
    worst = max(chosen, key=lambda row: row["constant"])
    by_size: dict[int, float] = {}
    for row in chosen:
        by_size[row["n"]] = max(by_size.get(row["n"], 0.0), row["constant"])
    return {
        "cases": sum(row["cases"] for row in chosen),
        "broken": sum(row["broken"] for row in chosen),
        "constant_by_size": by_size,
        "worst": worst,
    }


def _bound_words(reading: str, found: Mapping[str, Any]) -> str:
    worst = found["worst"]
    what = "k on the further side" if reading == "largest" else "k on both sides"
    if not found["broken"]:
        return f"{what}: holds in all {found['cases']:,} cases (closest at factor {worst['constant']:.3g})"
    return (
        f"{what}: broken in {found['broken']:,} of {found['cases']:,} cases, by a factor "
        f"{worst['constant']:.3g} at "
        f"α = {worst['prior']}, n = {worst['n']}, ε = {worst['epsilon']:g}, x = {worst['x']}, k = "
        f"{worst['k']} "
        f"(exact {worst['exact']:.4g}, stated {worst['stated']:.4g})"
    )


def _constant_answer(constant: float, broken: int) -> Answer:
    if not broken:
        return "yes"
    return "partly" if constant <= CONSTANT else "no"


def _step_statements(rows: Sequence[Row]) -> list[Statement]:
    least = min(rows, key=lambda row: row["within"] - row["stated"])
    strict = min(rows, key=lambda row: row["strictly_within"] - row["stated"])
    largest = max(rows, key=lambda row: row["error_ratio_corollary"])
    bound = max(rows, key=lambda row: row["log_bound"])
    theorem_high = max(row["error_ratio_theorem"] for row in rows)
    theorem_low = min(row["error_ratio_theorem_low"] for row in rows)
    by_epsilon = {
        row["epsilon"]: max(r["error_ratio_theorem"] for r in rows if r["epsilon"] == row["epsilon"])
        for row in rows
    }
    grows = {epsilon: ratio / epsilon for epsilon, ratio in sorted(by_epsilon.items())}
    return [
        Statement(
            "near-steps",
            "A noise of −1, 0 or 1 step stays within the local sensitivity, so that P[H ≤ LS] of LSHist is "
            "at least "
            "1 − ½(e^{−ε} + e^{−2ε})",
            "A 4.4.1",
            "yes"
            if all(row["near_steps_within"] and row["within"] >= row["stated"] - ROUNDING for row in rows)
            else "no",
            f"{len(rows)} settings, all x: least margin {least['within'] - least['stated']:.3g} at "
            f"α = {least['prior']}, n = {least['n']}, ε = {least['epsilon']:g}",
            "P[−1 ≤ Lap(1/ε) < 2] is exactly that; the clamp only helps",
            {"margin": least["within"] - least["stated"]},
        ),
        Statement(
            "strictly-near",
            "P[H < LS] of LSHist is at least 1 − ½(e^{−ε} + e^{−2ε})",
            "A 4.2, proof",
            "yes" if strict["strictly_within"] >= strict["stated"] - ROUNDING else "no",
            f"α = {strict['prior']}, n = {strict['n']}, ε = {strict['epsilon']:g}: "
            f"{strict['strictly_within']:.4g}, "
            f"stated {strict['stated']:.4g}",
            "the inequality must not be strict: the neighbour that attains LS is at LS",
            {"exact": strict["strictly_within"], "stated": strict["stated"]},
        ),
        Statement(
            "error-within-two",
            "The (1 − γ)-quantile of H is at most LS·ln(1/γ)/ε, and that is below 2·LS, γ = ½(e^{−ε} + "
            "e^{−2ε})",
            "A 4.4.1",
            "yes" if all(row["error_ratio_corollary"] <= row["log_bound"] < 2 for row in rows) else "no",
            f"largest quantile/LS {largest['error_ratio_corollary']:.4g}; largest ln(1/γ)/ε "
            f"{bound['log_bound']:.4g} "
            f"at ε = {bound['epsilon']:g}",
            values={"ratio": largest["error_ratio_corollary"], "bound": bound["log_bound"]},
        ),
        Statement(
            "error-per-epsilon",
            "The (1 − e^{−ε})-quantile of H, divided by ε·LS, is O(ε) (its proof: is 1/ε)",
            "A 4.2",
            "no" if grows[min(grows)] > 2 * grows[max(grows)] else "yes",
            f"quantile/LS from {theorem_low:.3g} to {theorem_high:.3g}, so divided by ε it is "
            + ", ".join(f"{value:.3g} at ε = {epsilon:g}" for epsilon, value in grows.items()),
            "the quantile is a neighbour or the truth whatever ε is: divided by ε it grows as ε falls. 1/ε "
            "is an upper "
            "bound, and an equality only where the quantile is LS itself",
            {"by_epsilon": grows},
        ),
    ]


def theorem(run: Run) -> Outcome:
    """Theorem 4.5 over the grid."""
    settings = TheoremSettings().quick() if run.quick else TheoremSettings()
    run.expect(len(settings.priors) * len(settings.sizes) + 1)
    rows: list[Row] = []
    steps: list[Row] = []
    for prior in settings.priors:
        for n in settings.sizes:
            key = f"theorem {prior} {n} {settings.epsilons}"
            rows += run.step(key, partial(measure_theorem, prior, n, settings.epsilons))
            steps += step_rows(prior, n, settings.epsilons)
    curves = [row for chosen in settings.curves for row in curve(*chosen)]
    run.tick()
    statements = theorem_statements(rows, steps)
    return Outcome(
        _theorem_verdict(rows, statements),
        {"": rows, "steps": steps, "curves": curves},
        {"": _theorem_plot(curves)},
        statements,
        {**asdict(settings), "global_sensitivity": PAPER_GS, "constant": CONSTANT},
    )


def _theorem_verdict(rows: Sequence[Row], statements: Sequence[Statement]) -> str:
    parts = []
    for answer, words in ANSWERS.items():
        names = [s.name for s in statements if s.name in CLAIMS and s.agrees == answer]
        if names:
            worst = max(_over_grid(rows, name, "largest")["worst"]["constant"] for name in names)
            factor = "" if answer == "yes" else f" (factor {worst:.3g})"
            parts.append(f"{words}{factor}: {', '.join(names)}")
    return "; ".join(parts)


def _theorem_plot(curves: Sequence[Row]) -> Any:
    figure = new_figure(9.5, 7.2)
    mechanisms = list(dict.fromkeys(row["mechanism"] for row in curves))
    looks = {
        "equal": ("C1", "--", "stated value"),
        "lower": ("C0", "-.", "lower bound"),
        "upper": ("C3", ":", "upper bound"),
    }
    for i, mechanism in enumerate(mechanisms):
        axis = figure.add_subplot(2, 2, i + 1)
        rows = [row for row in curves if row["mechanism"] == mechanism]
        t = [*(row["t"] for row in rows), 1.0]
        for kind, (colour, style, label) in looks.items():
            values = np.array([row[kind] for row in rows])
            if not np.isnan(values).all():
                shown = np.append(values, values[-1])
                axis.step(t, shown, where="post", color=colour, linestyle=style, linewidth=1.6, label=label)
        exact = [row["exact"] for row in rows]
        axis.step(t, [*exact, exact[-1]], where="post", color="black", linewidth=1.4, label="exact")
        axis.set_ylim(-0.03, 1.35)
        axis.axhline(1, color="0.8", linewidth=0.8)
        first = rows[0]
        axis.set_title(
            f"{WORDS[mechanism]}, n = {first['n']}, ε = {first['epsilon']:g}, x = {first['x']}", fontsize=10
        )
        axis.set_xlabel("t (Hellinger distance)")
        axis.set_ylabel("P[H < t]")
    handles: dict[str, Any] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("Theorem 4.5 of A: prior (1, 1), exact probability against what is stated", fontsize=11)
    return figure
