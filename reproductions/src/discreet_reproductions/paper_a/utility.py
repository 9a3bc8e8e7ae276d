"""The utility table at the end of A: its expressions against exact quantiles of the Hellinger and KL errors.

The table gives for each mechanism what the error exceeds "with probability at most δ", so that an expression
U is right where the (1 − δ)-quantile of the error is at most U. Its O(·) are taken with constant 1, and the
constant that they would need is measured.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_epsilon
from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import hellinger
from discreet.mechanisms.independent import LSHist, LSZhang
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.hellinger.expected_error import kl_divergence
from discreet_reproductions.paper_a.pair import PAPER_GS
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["Settings", "measure", "reach", "utility", "verdicts"]

Prior = tuple[float, float]
CONSTANT = 4.0
PLACES = {"edge": 0.0, "quarter": 0.25, "balanced": 0.5}
WORDS = {"lshist": "LSHist", "lszhang": "LSZhang", "ehd": "EHD"}


@dataclass(frozen=True)
class Settings:
    """Priors, sizes, ε and δ; data with no, a quarter or half of the records in the first level."""

    priors: tuple[Prior, ...] = ((1.0, 1.0), (7.0, 4.0), (0.1, 0.1))
    sizes: tuple[int, ...] = (10, 20, 50, 100, 200)
    epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)
    deltas: tuple[float, ...] = (0.01, 0.05, 0.1, 0.5)

    def quick(self) -> Settings:
        return replace(self, sizes=(10, 50, 200), epsilons=(0.1, 1.0), deltas=(0.05, 0.5))


def reach(mechanism: str, n: int, epsilon: float, delta: float) -> tuple[float, float]:
    """What the table adds to n and takes from it, and the exponent: ((n + a)/(n − a))^exponent."""
    if mechanism == "lshist":
        a = math.log(1 / delta) / epsilon
        return a, a / 2
    if mechanism == "lszhang":
        a = math.log(1 / (2 - delta - 2 * math.sqrt(1 - delta))) / epsilon
        return a, a / 2
    a = (n - delta * n - 1) / 2 * math.exp(-epsilon)
    return a, a


def printed(mechanism: str, n: int, epsilon: float, delta: float) -> float:
    """√(1 − ((n + a)/(n − a))^e) as it stands; NaN where it is not a real number."""
    a, exponent = reach(mechanism, n, epsilon, delta)
    if a >= n:
        return math.nan
    under = 1 - ((n + a) / (n - a)) ** exponent
    return math.sqrt(under) if under >= 0 else math.nan


def inverted(mechanism: str, n: int, epsilon: float, delta: float) -> float:
    """√(1 − ((n − a)/(n + a))^e): the fraction turned over; 1, which bounds H always, from a = n on."""
    a, exponent = reach(mechanism, n, epsilon, delta)
    return 1.0 if a >= n else math.sqrt(max(1 - ((n - a) / (n + a)) ** exponent, 0.0))


def kl_expression(mechanism: str, n: int, epsilon: float, delta: float) -> float:
    """The KL column; EHD has none."""
    if mechanism == "ehd":
        return math.nan
    size, rate = (
        (4 * n * math.log(n), epsilon) if mechanism == "lshist" else (8 * n * math.log(n), epsilon / 2)
    )
    return size * -math.expm1(-n * rate) + math.sqrt(-size * math.log(delta))


def measure(prior: Prior, n: int, settings: Settings) -> list[Row]:
    """Exact quantiles of both errors beside the expressions, for three datasets of n records."""
    rows: list[Row] = []
    for place, share in PLACES.items():
        x = round(share * n)
        counts, true = (x, n - x), np.array(prior) + np.array([x, n - x])
        outputs = compositions(n, 2) + np.array(prior)
        distance = np.asarray(hellinger(outputs, true))
        errors = {"pair": _errors(true, outputs)}
        for epsilon in settings.epsilons:
            for mechanism in WORDS:
                if mechanism == "ehd":
                    weight = np.exp(-epsilon * distance / (2 * PAPER_GS))
                    distribution, which = weight / weight.sum(), "pair"
                else:
                    cls = LSHist if mechanism == "lshist" else LSZhang
                    released, log_distribution = cls(prior, n, as_epsilon(epsilon)).log_pmf(counts)
                    distribution, which = np.exp(log_distribution), mechanism
                    if which not in errors:
                        errors[which] = _errors(true, released + np.array(prior))
                found = {
                    name: _quantiles(value, distribution, settings.deltas)
                    for name, value in errors[which].items()
                }
                for i, delta in enumerate(settings.deltas):
                    at = (mechanism, n, epsilon, delta)
                    rows.append(
                        {
                            "prior": f"({prior[0]:g}, {prior[1]:g})",
                            "n": n,
                            "x": x,
                            "place": place,
                            "epsilon": epsilon,
                            "delta": delta,
                            "mechanism": mechanism,
                            "hellinger": found["hellinger"][i],
                            "printed": printed(*at),
                            "inverted": inverted(*at),
                            "kl": max(found["kl"][i], found["reverse_kl"][i]),
                            "kl_forward": found["kl"][i],
                            "kl_stated": kl_expression(*at),
                        }
                    )
    return rows


def _errors(true: FloatArray, released: FloatArray) -> dict[str, tuple[FloatArray, npt.NDArray[np.int64]]]:
    """Each error of every output, with the order that sorts it."""
    values = {
        "hellinger": np.asarray(hellinger(released, true)),
        "kl": kl_divergence(true, released),
        "reverse_kl": kl_divergence(released, true),
    }
    return {name: (value, np.argsort(value, kind="stable")) for name, value in values.items()}


def _quantiles(
    error: tuple[FloatArray, npt.NDArray[np.int64]], distribution: FloatArray, deltas: Sequence[float]
) -> list[float]:
    """The least v with P[error ≤ v] ≥ 1 − δ for each δ."""
    value, order = error
    cumulative = np.cumsum(distribution[order])
    at = [min(int(np.searchsorted(cumulative, 1 - delta - 1e-12)), len(order) - 1) for delta in deltas]
    return [float(value[order[i]]) for i in at]


def verdicts(rows: Sequence[Row]) -> list[Statement]:
    """Is the printed expression defined, does the inverted one bound H, does the KL column bound KL?"""
    statements = []
    for mechanism, word in WORDS.items():
        own = [row for row in rows if row["mechanism"] == mechanism]
        defined = [row for row in own if not math.isnan(row["printed"])]
        one = [row for row in own if row["place"] == "balanced"]
        beyond = [row for row in one if _beyond(row)]
        statements.append(
            Statement(
                f"{mechanism}-h-printed",
                f"H of {word} is at most √(1 − ((n + a)/(n − a))^e) except with probability δ",
                "A, table after 4.5.3",
                _defined_answer(defined, own),
                f"a real number in {len(defined)} of {len(own)} cases; in {len(beyond)} of {len(one)} of its "
                "settings a ≥ n, where the fraction is negative or infinite",
                "(n + a)/(n − a) ≥ 1, so that 1 less its power is negative under the root; with a constant C "
                "in front it is defined only where C < ((n − a)/(n + a))^e",
                {"defined": len(defined), "cases": len(own)},
            )
        )
        statements.append(_inverted(mechanism, word, own))
    of_kl = [
        _kl(mechanism, [row for row in rows if row["mechanism"] == mechanism])
        for mechanism in ("lshist", "lszhang")
    ]
    return statements + of_kl


def _beyond(row: Row) -> bool:
    return bool(reach(row["mechanism"], row["n"], row["epsilon"], row["delta"])[0] >= row["n"])


def _defined_answer(defined: Sequence[Row], own: Sequence[Row]) -> Answer:
    good = [row for row in defined if row["hellinger"] <= row["printed"] + 1e-9]
    return "yes" if len(good) == len(own) else ("partly" if good else "no")


def _inverted(mechanism: str, word: str, own: Sequence[Row]) -> Statement:
    worst = max(own, key=lambda row: _ratio(row["hellinger"], row["inverted"]))
    constant = _ratio(worst["hellinger"], worst["inverted"])
    parts = []
    for place in PLACES:
        here = [row for row in own if row["place"] == place]
        broken = [row for row in here if row["hellinger"] > row["inverted"] + 1e-9]
        largest = max(_ratio(row["hellinger"], row["inverted"]) for row in here)
        parts.append(f"{place} data {len(broken)} of {len(here)} broken (factor {largest:.3g})")
    balanced = max(_ratio(r["hellinger"], r["inverted"]) for r in own if r["place"] == "balanced")
    answer: Answer = "yes" if constant <= 1 + 1e-9 else ("partly" if constant <= CONSTANT else "no")
    why = {
        "lshist": "a is not a whole number of steps, ⌊Laplace⌋ reaches one step further down, and near an "
        "edge a step "
        "weighs more",
        "lszhang": "its total is not n, and near an edge a step weighs more",
        "ehd": "setting (2ke^{−ε} + 1)/n = 1 − δ gives k = (n − δn − 1)e^{+ε}/2; the table has e^{−ε}",
    }[mechanism]
    return Statement(
        f"{mechanism}-h-inverted",
        f"The same for {word} with the fraction inverted, (n − a)/(n + a), which makes sense of it",
        "A, table after 4.5.3",
        answer,
        f"{'; '.join(parts)}; worst at α = {worst['prior']}, n = {worst['n']}, x = {worst['x']}, "
        f"ε = {worst['epsilon']:g}, δ = {worst['delta']:g}: quantile {worst['hellinger']:.3g}, "
        f"expression {worst['inverted']:.3g}",
        why,
        {"constant": constant, "balanced": balanced},
    )


def _kl(mechanism: str, own: Sequence[Row]) -> Statement:
    broken = [row for row in own if row["kl"] > row["kl_stated"]]
    worst = max(own, key=lambda row: _ratio(row["kl"], row["kl_stated"]))
    constant = _ratio(worst["kl"], worst["kl_stated"])
    regular = [row for row in own if row["prior"] != worst["prior"]]
    loosest = min((_ratio(row["kl"], row["kl_stated"]) for row in own if row["kl"] > 0), default=0.0)
    formula = "4n ln n·(1 − e^{−nε})" if mechanism == "lshist" else "8n ln n·(1 − e^{−nε/2})"
    return Statement(
        f"{mechanism}-kl",
        f"KL of {WORDS[mechanism]} is at most {formula} + √(deviation) except with probability δ",
        "A, table after 4.5.3",
        "yes" if not broken else ("partly" if constant <= CONSTANT else "no"),
        f"{len(broken)} of {len(own)} broken, KL in both directions; largest quantile/expression "
        f"{constant:.3g} at "
        f"α = {worst['prior']}, n = {worst['n']}, x = {worst['x']}, ε = {worst['epsilon']:g}, "
        f"δ = {worst['delta']:g}; for the other priors "
        f"{max((_ratio(row['kl'], row['kl_stated']) for row in regular), default=0.0):.3g}; smallest "
        f"{loosest:.2g}",
        "n ln n is about the largest KL that two posteriors of n records can have: the bound says little. "
        "It has "
        "no prior in it, and KL grows as 1/α",
        {"constant": constant, "smallest": loosest},
    )


def _ratio(value: float, bound: float) -> float:
    if value <= 1e-12:
        return 0.0
    return value / bound if bound > 0 else math.inf


def utility(run: Run) -> Outcome:
    """The utility table against exact quantiles."""
    settings = Settings().quick() if run.quick else Settings()
    run.expect(len(settings.priors) * len(settings.sizes))
    rows: list[Row] = []
    for prior in settings.priors:
        for n in settings.sizes:
            rows += run.step(f"utility {prior} {n} {settings}", partial(measure, prior, n, settings))
    statements = verdicts(rows)
    defined = sum(not math.isnan(row["printed"]) for row in rows)
    values = {s.name: s.values for s in statements}
    verdict = (
        f"As printed the H column is defined in {defined} of {len(rows)} cases; turned over it is short by "
        f"up to "
        + (", ".join(f"{values[f'{m}-h-inverted']['constant']:.2g}× ({word})" for m, word in WORDS.items()))
    )
    verdict += f"; the KL column is loose, largest ratio {values['lshist-kl']['constant']:.2g}"
    return Outcome(verdict, {"": rows}, {"": _plot(rows, settings)}, statements, asdict(settings))


def _plot(rows: Sequence[Row], settings: Settings) -> Any:
    figure = new_figure(10, 4.4)
    delta = settings.deltas[1] if len(settings.deltas) > 2 else settings.deltas[0]
    epsilon = 1.0
    for i, (mechanism, word) in enumerate(WORDS.items()):
        axis = figure.add_subplot(1, 3, i + 1)
        chosen = [
            row
            for row in rows
            if (row["mechanism"], row["prior"], row["epsilon"], row["delta"])
            == (mechanism, "(1, 1)", epsilon, delta)
        ]
        for place, colour, marker in zip(PLACES, ("C3", "C1", "C0"), ("o", "s", "^"), strict=True):
            here = [row for row in chosen if row["place"] == place]
            label = f"exact quantile, {place} data"
            axis.plot(
                [r["n"] for r in here],
                [r["hellinger"] for r in here],
                marker=marker,
                color=colour,
                label=label,
            )
        here = [row for row in chosen if row["place"] == "balanced"]
        axis.plot(
            [r["n"] for r in here], [r["inverted"] for r in here], "k--", label="table, fraction turned over"
        )
        axis.set_xscale("log")
        axis.set_ylim(0, 1.05)
        axis.set_xlabel("n (records)")
        axis.set_title(word, fontsize=10)
    figure.axes[0].set_ylabel(f"Hellinger distance, {1 - delta:.0%} quantile")
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle(f"Utility table of A, prior (1, 1), ε = {epsilon:g}, δ = {delta:g}", fontsize=11)
    return figure
