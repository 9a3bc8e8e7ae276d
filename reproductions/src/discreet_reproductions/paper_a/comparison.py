"""The mechanisms of A side by side: exact expected Hellinger error and its 90 % quantile against n.

Datasets follow the prior predictive distribution, and every dataset and output is enumerated. The lattice
mechanism is a reference that A does not have. EHDL is drawn as well, although it is not private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._declarations import as_epsilon
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.hellinger.exponential import EHD, EHDL, EHDS
from discreet.mechanisms.hellinger.sensitivity import global_sensitivity
from discreet.mechanisms.independent import LSDim, LSHist, LSZhang
from discreet.mechanisms.lattice import Lattice
from discreet_reproductions.hellinger.expected_error import Setting
from discreet_reproductions.paper_a.pair import PAPER_GS
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "crossover", "measure", "mechanisms", "verdicts"]

Prior = tuple[float, ...]
GAMMAS = (0.01, 0.1, 1.0)
NOISE = ("lszhang", "lsdim", "lshist")
CONSTANT = 4.0
QUANTILE = 0.9


@dataclass(frozen=True)
class Settings:
    """Priors, each with its own sizes, and ε."""

    priors: tuple[Prior, ...] = ((1.0, 1.0), (7.0, 4.0), (0.5, 0.5), (1.0, 1.0, 1.0), (7.0, 4.0, 5.0))
    pair_sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 15, 20, 30, 40, 60, 80)
    triple_sizes: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 10, 12, 15)
    epsilons: tuple[float, ...] = (0.2, 0.8, 2.0)

    def sizes(self, prior: Prior) -> tuple[int, ...]:
        """Sizes whose outputs can all be listed."""
        return self.pair_sizes if len(prior) == 2 else self.triple_sizes

    def quick(self) -> Settings:
        return replace(
            self,
            priors=((1.0, 1.0), (7.0, 4.0), (1.0, 1.0, 1.0)),
            pair_sizes=(1, 2, 4, 8, 12, 20, 40),
            triple_sizes=(2, 4, 8),
            epsilons=(0.8, 2.0),
        )


def chosen_mechanisms(prior: Prior, n: int, epsilon: float) -> dict[str, Mechanism]:
    """Those of A, EHDS with several γ, and the lattice mechanism."""
    at = (prior, n, as_epsilon(epsilon))
    found: dict[str, Mechanism] = {
        "lattice": Lattice(*at),
        "lshist": LSHist(*at),
        "lsdim": LSDim(*at),
        "lszhang": LSZhang(*at),
        "ehd": EHD(*at),
        "ehdl": EHDL(*at),
    }
    if min(prior) >= 1:
        found["ehd-paper"] = EHD(*at, sensitivity="paper")
    return found | {f"ehds-{gamma:g}": EHDS(*at, gamma=gamma) for gamma in GAMMAS}


def measure(prior: Prior, n: int, epsilon: float) -> list[Row]:
    """Expected error and quantile of every mechanism, exact."""
    setting = Setting(prior, n)
    rows = []
    for name, mechanism in chosen_mechanisms(prior, n, epsilon).items():
        distributions = [mechanism.log_pmf(x) for x in setting.rows.tolist()]
        outputs, distribution = (
            distributions[0][0],
            np.exp([log_probability for _, log_probability in distributions]),
        )
        distance, probability = (
            setting.distances(outputs).ravel(),
            (setting.weight[:, None] * distribution).ravel(),
        )
        order = np.argsort(distance)
        cumulative = np.cumsum(probability[order])
        at = int(np.searchsorted(cumulative, QUANTILE * cumulative[-1] - 1e-12))
        rows.append(
            {
                "prior": _words(prior),
                "levels": len(prior),
                "n": n,
                "epsilon": epsilon,
                "mechanism": name,
                "private": mechanism.guarantee.is_private,
                "expected": float(distance @ probability),
                "quantile": float(distance[order[at]]),
            }
        )
    return rows


def _words(prior: Sequence[float]) -> str:
    return f"({', '.join(f'{a:g}' for a in prior)})"


Curves = Mapping[tuple[str, float], Mapping[str, Mapping[int, Row]]]


def _curves(rows: Sequence[Row]) -> Curves:
    """Rows by (prior, ε), then mechanism, then n."""
    curves: dict[tuple[str, float], dict[str, dict[int, Row]]] = {}
    for row in rows:
        lines = curves.setdefault((row["prior"], row["epsilon"]), {})
        lines.setdefault(row["mechanism"], {})[row["n"]] = row
    return curves


def crossover(first: Mapping[int, Row], second: Mapping[int, Row], measure: str = "expected") -> int | None:
    """The least listed n from which on the first has the smaller error; None if it has not at the last."""
    at = None
    for n in sorted(first, reverse=True):
        if first[n][measure] >= second[n][measure]:
            break
        at = n
    return at


def verdicts(rows: Sequence[Row]) -> list[Statement]:
    """Who wins where."""
    curves = _curves(rows)
    return [
        _large_n(curves),
        _small_n(curves),
        _calibrations(curves),
        _laplace_optimal(curves),
        _smooth(curves),
        _local(curves),
        _constant(curves),
    ]


def _share(holds: Sequence[bool]) -> Answer:
    return "yes" if all(holds) else ("partly" if any(holds) else "no")


def _large_n(curves: Curves) -> Statement:
    found = {key: crossover(lines["lshist"], lines["ehd"]) for key, lines in curves.items()}
    parts = [f"{prior} ε = {epsilon:g}: {n or 'not reached'}" for (prior, epsilon), n in found.items()]
    last = {key: max(lines["ehd"]) for key, lines in curves.items()}
    ahead = [
        curves[key]["lshist"][n]["expected"] < curves[key]["ehd"][n]["expected"] for key, n in last.items()
    ]
    return Statement(
        "large-n",
        "For large n LSHist is more accurate than EHD",
        "A 4.5.1, 4.5.3",
        _share(ahead),
        f"smaller expected error at the largest n in {sum(ahead)} of {len(ahead)} settings; from n = "
        + ", ".join(parts),
        "" if all(ahead) else "where it is not reached, the sizes listed are of the order of the noise",
        {_key(key): n for key, n in found.items()},
    )


def _small_n(curves: Curves) -> Statement:
    def ahead(key: tuple[str, float], n: int) -> bool:
        return bool(curves[key]["ehd"][n]["expected"] < curves[key]["lshist"][n]["expected"])

    small = {key: min(n for n in lines["ehd"] if n > 1) for key, lines in curves.items()}
    holds = [ahead(key, n) for key, n in small.items()]
    cells = [(key, n) for key, lines in curves.items() for n in lines["ehd"]]
    won = sum(ahead(key, n) for key, n in cells)
    return Statement(
        "small-n",
        "For small n EHD is more accurate than LSHist",
        "A 4.5.2",
        _share(holds),
        f"EHD has the smaller expected error at n = {min(small.values())} in {sum(holds)} of {len(holds)} "
        f"settings, "
        f"and at {won} of {len(cells)} points in all",
        "with the tight sensitivity; its weights are nearly uniform, so that it wins where the noise of "
        "LSHist is "
        "larger than n",
        {"won": won, "points": len(cells)},
    )


def _calibrations(curves: Curves) -> Statement:
    parts, holds, values = [], [], {}
    for levels in (2, 3):
        cells = [(lines, n) for lines in curves.values() for n in lines["lshist"] if _levels(lines) == levels]
        best = [
            lines["lshist"][n]["expected"] <= min(lines[name][n]["expected"] for name in NOISE) + 1e-12
            for lines, n in cells
        ]
        text = f"k = {levels}: least expected error at {sum(best)} of {len(best)} points"
        for name in ("lsdim", "lszhang"):
            ratios = [lines[name][n]["expected"] / lines["lshist"][n]["expected"] for lines, n in cells]
            text += f", {name}/lshist {min(ratios):.2f} to {max(ratios):.2f}"
            values[f"{name}, k = {levels}"] = [min(ratios), max(ratios)]
        parts.append(text)
        holds += best
    return Statement(
        "noise",
        "Calibrated to the histogram, LSHist improves on LSZhang and LSDim",
        "A, algorithms 1 to 3",
        _share(holds),
        "; ".join(parts),
        ""
        if all(holds)
        else "for k ≥ 3 LSHist has the scale of LSZhang, and its last count takes the noise of "
        "all others; at small n the clamp decides",
        values,
    )


def _levels(lines: Mapping[str, Mapping[int, Row]]) -> int:
    return int(next(iter(lines["lshist"].values()))["levels"])


def _laplace_optimal(curves: Curves) -> Statement:
    pairs = {key: lines for key, lines in curves.items() if _levels(lines) == 2}
    ratios = [
        row["expected"] / lines["lattice"][n]["expected"]
        for lines in pairs.values()
        for n, row in lines["lshist"].items()
        if n > 1
    ]
    quantiles = [
        row["quantile"] / lines["lattice"][n]["quantile"]
        for lines in pairs.values()
        for n, row in lines["lshist"].items()
        if lines["lattice"][n]["quantile"] > 0
    ]
    return Statement(
        "optimality",
        "The Laplace mechanism LSHist is optimal up to a constant",
        "A 4.1, 4.3",
        "yes" if max(ratios) <= 1 + 1e-9 else ("partly" if max(ratios) <= CONSTANT else "no"),
        f"k = 2: expected error {min(ratios):.3f} to {max(ratios):.3f} times that of the lattice mechanism, "
        f"90 % quantile {min(quantiles):.3f} to {max(quantiles):.3f} times",
        "for k = 2 the lattice mechanism has the least error that any ε-private mechanism can have, in "
        "every case "
        "compared; so LSHist is within that constant of the optimum, and not optimal",
        {"smallest": min(ratios), "largest": max(ratios)},
    )


def _smooth(curves: Curves) -> Statement:
    names = [f"ehds-{gamma:g}" for gamma in GAMMAS]
    wins = dict.fromkeys(names, 0)
    better, cells = 0, 0
    for lines in curves.values():
        for n, row in lines["ehd"].items():
            errors = {name: lines[name][n]["expected"] for name in names}
            least = min(errors, key=lambda name: errors[name])
            wins[least] += 1
            better += errors[least] < row["expected"]
            cells += 1
    return Statement(
        "smooth",
        "Smooth sensitivity (EHDS) improves on global sensitivity (EHD)",
        "A, algorithm 6",
        "yes" if better == cells else ("partly" if better else "no"),
        f"the best of γ = {', '.join(f'{g:g}' for g in GAMMAS)} beats EHD at {better} of {cells} points; "
        f"best γ: " + ", ".join(f"{name[5:]} at {count}" for name, count in wins.items()),
        "EHDS pays a factor 1 + γ; it gains where the local sensitivity of most data is far below the "
        "global one, "
        "for large n",
        {"better": better, "points": cells, "best": wins},
    )


def _local(curves: Curves) -> Statement:
    private = ("ehd", *(f"ehds-{gamma:g}" for gamma in GAMMAS))
    cells = [(key, n) for key, lines in curves.items() for n in lines["ehdl"]]
    ahead = []
    against_lshist = []
    for key, n in cells:
        lines = curves[key]
        value = lines["ehdl"][n]["expected"]
        ahead.append(value <= min(lines[name][n]["expected"] for name in private) + 1e-12)
        against_lshist.append(value < lines["lshist"][n]["expected"])
    return Statement(
        "local",
        "EHDL, which is not private, is the sharpest of the exponential mechanisms",
        "A, algorithm 5",
        _share(ahead),
        f"least expected error of EHD, EHDS, EHDL at {sum(ahead)} of {len(ahead)} points; below LSHist at "
        f"{sum(against_lshist)}",
        "local sensitivity is never above the global one; where they are equal so are the mechanisms",
        {"least": sum(ahead), "below_lshist": sum(against_lshist), "points": len(ahead)},
    )


def _constant(curves: Curves) -> Statement:
    rows = []
    for (prior, epsilon), lines in curves.items():
        for n, row in lines.get("ehd-paper", {}).items():
            parameters = tuple(float(a) for a in prior.strip("()").split(","))
            tight = global_sensitivity(n, parameters)
            gain = 1 - lines["ehd"][n]["expected"] / row["expected"]
            rows.append((tight, gain, prior, n, epsilon))
    small, large = min(rows), max(rows)
    best = max(rows, key=lambda row: row[1])
    jeffreys = global_sensitivity(100, (0.5, 0.5, 0.5))
    return Statement(
        "constant",
        "The global sensitivity is √(1 − π/4)",
        "A 1",
        "yes" if math.isclose(small[0], large[0]) and math.isclose(small[0], PAPER_GS) else "partly",
        f"√(1 − π/4) = {PAPER_GS:.5f}; the tight one is {small[0]:.5f} (α = {small[2]}, n = {small[3]}) to "
        f"{large[0]:.5f} (α = {large[2]}, n = {large[3]}) where αᵢ ≥ 1, and {jeffreys:.5f} for α = ½, k = "
        f"3. The "
        f"tight one lowers the expected error of EHD by up to {best[1]:.1%} (α = {best[2]}, n = {best[3]}, "
        f"ε = {best[4]:g})",
        "it bounds the sensitivity while every αᵢ ≥ 1 and is attained by α = 1 with k ≥ 3 or n = 1; for αᵢ "
        "< 1 it is "
        "too small",
        {"smallest": small[0], "largest": large[0], "jeffreys": jeffreys, "gain": best[1]},
    )


def _key(key: tuple[str, float]) -> str:
    return f"{key[0]} ε = {key[1]:g}"


def mechanisms(run: Run) -> Outcome:
    """Six mechanisms side by side, and a reference."""
    settings = Settings().quick() if run.quick else Settings()
    work = [(p, n, e) for p in settings.priors for n in settings.sizes(p) for e in settings.epsilons]
    run.expect(len(work))
    rows: list[Row] = []
    for prior, n, epsilon in work:
        rows += run.step(f"mechanisms {prior} {n} {epsilon}", partial(measure, prior, n, epsilon))
    statements = verdicts(rows)
    return Outcome(_verdict(rows), {"": rows}, {"": _plot(rows)}, statements, asdict(settings))


def _verdict(rows: Sequence[Row]) -> str:
    curves = _curves(rows)
    lines = curves[("(1, 1)", 0.8)]
    n = max(lines["lshist"])
    names = ("lattice", "lshist", "lszhang", "ehds-1", "ehd")
    errors = ", ".join(f"{name} {lines[name][n]['expected']:.3f}" for name in names)
    starts = [crossover(own["lshist"], own["ehd"]) for own in curves.values()]
    known = [start for start in starts if start is not None]
    return (
        f"α = (1, 1), ε = 0.8, n = {n}: expected error {errors}; LSHist passes EHD from n = {min(known)} to "
        f"{max(known)} on in {len(known)} of {len(starts)} settings"
    )


_LOOKS = {
    "lattice": ("black", "-", "lattice (not in A)"),
    "lshist": ("C0", "-", "LSHist"),
    "lsdim": ("C0", "--", "LSDim"),
    "lszhang": ("C0", ":", "LSZhang"),
    "ehd": ("C1", "-", "EHD, tight sensitivity"),
    "ehd-paper": ("C1", ":", "EHD, √(1 − π/4)"),
    "ehds-0.01": ("C2", ":", "EHDS, γ = 0.01"),
    "ehds-1": ("C2", "-", "EHDS, γ = 1"),
    "ehds-0.1": ("C2", "--", "EHDS, γ = 0.1"),
    "ehdl": ("C3", "-.", "EHDL (not private)"),
}


def _plot(rows: Sequence[Row]) -> Any:
    epsilons = sorted({row["epsilon"] for row in rows})
    shown = [epsilon for epsilon in epsilons if epsilon in (0.8, 2.0)] or epsilons[:2]
    priors = [
        p for p in dict.fromkeys(row["prior"] for row in rows) if p in ("(1, 1)", "(7, 4)", "(1, 1, 1)")
    ]
    curves = _curves(rows)
    figure = new_figure(4.2 * len(priors), 4 * len(shown) + 1.0)
    for i, epsilon in enumerate(shown):
        for j, prior in enumerate(priors):
            axis = figure.add_subplot(len(shown), len(priors), i * len(priors) + j + 1)
            lines = curves[(prior, epsilon)]
            for name, (colour, style, label) in _LOOKS.items():
                if name in lines:
                    sizes = sorted(lines[name])
                    values = [lines[name][n]["expected"] for n in sizes]
                    axis.plot(sizes, values, color=colour, linestyle=style, linewidth=1.5, label=label)
            axis.set_xscale("log")
            axis.set_title(f"α = {prior}, ε = {epsilon:g}", fontsize=10)
            axis.set_xlabel("n (records)")
            if j == 0:
                axis.set_ylabel("expected Hellinger error")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    return figure
