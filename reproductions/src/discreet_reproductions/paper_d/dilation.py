"""The lemmas of D (and B) on sliding and dilation, by exact computation.

**Laplace.** For z with density h(z) = ½e^{−|z|}, P[z ∈ e^λ S] is the mass of S under h'(z) = e^λ h(e^λ z).
The least δ* with P[z ∈ S] ≤ e^{ε/2} P[z ∈ e^λ S] + δ* for all S is ∫(h − e^{ε/2}h')₊. For λ > 0 this is over
|z| > c = (ε/2 + λ)/(e^λ − 1), and δ* = e^{−c}(1 − e^{−λ}).

**Exponential mechanism.** Scores are u = −H, and the probability of a score s is read in four ways:

- formula: exp(εs/2S)/N for any real s, attainable or not, as the proofs take it;
- score: the probability that the output has score s, 0 where no candidate has it, as the statements say;
- attained: the same, for pairs of scores that candidates have;
- candidate: the probabilities of two single candidates with these scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = [
    "Settings",
    "critical_epsilon",
    "dilation_rows",
    "laplace_delta",
    "laplace_rows",
    "lemmas",
    "sliding_rows",
    "smoothing",
    "verdicts",
]

Prior = tuple[float, float]
SAME = 1e-10


@dataclass(frozen=True)
class Version:
    """A form of Lemma 3.1: β = ε/(2 ln(inside/δ)), and share·δ is added."""

    inside: float
    share: float
    source: str

    def beta(self, epsilon: float, delta: float) -> float:
        return epsilon / (2 * math.log(self.inside / delta))

    @property
    def words(self) -> str:
        added = "δ/2" if self.share == 0.5 else "δ"
        return f"+ {added} for all S and |λ| ≤ β = ε/(2 ln({self.inside:g}/δ))"


VERSIONS = {
    "laplace-two": Version(2.0, 0.5, "D 3.1 and, in the second notes, 4"),
    "laplace-quantile": Version(3.0, 0.5, "D 3.1, with ρ_{δ/3} = ln(3/δ)"),
    "laplace-whole": Version(3.0, 1.0, "D, second notes, 4: as the proof ends"),
}


@dataclass(frozen=True)
class Settings:
    """Grids of both parts; λ runs over [−β, β]."""

    laplace_epsilons: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
    laplace_deltas: tuple[float, ...] = (1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9)
    shifts: int = 401
    priors: tuple[Prior, ...] = ((1.0, 1.0), (7.0, 4.0), (0.5, 0.5))
    sizes: tuple[int, ...] = (1, 2, 5, 10, 20, 50, 100)
    epsilons: tuple[float, ...] = (0.1, 0.5, 0.8, 2.0, 5.0)
    deltas: tuple[float, ...] = (1e-6, 1e-3, 0.1)

    def quick(self) -> Settings:
        return replace(self, shifts=101, sizes=(1, 2, 10, 40), epsilons=(0.1, 0.8, 5.0), deltas=(1e-6, 0.1))


def laplace_delta(epsilon: float, shift: float) -> float:
    """∫(h − e^{ε/2}h')₊ for λ = ``shift``, in closed form."""
    if shift == 0:
        return 0.0
    cut = (epsilon / 2 + shift) / math.expm1(shift)
    if shift > 0:  # h is the larger one beyond the cut
        return math.exp(-cut) * -math.expm1(-shift)
    if cut <= 0:  # ε/2 ≥ |λ|: nowhere
        return 0.0
    return -math.expm1(-cut) + math.exp(epsilon / 2) * math.expm1(-math.exp(shift) * cut)


def laplace_rows(settings: Settings) -> list[Row]:
    """The worst λ of [−β, β] for each version, ε and δ."""
    rows = []
    for name, version in VERSIONS.items():
        for epsilon in settings.laplace_epsilons:
            for delta in settings.laplace_deltas:
                beta, allowed = version.beta(epsilon, delta), version.share * delta
                shifts = np.linspace(-beta, beta, settings.shifts)
                found = [laplace_delta(epsilon, float(shift)) for shift in shifts]
                at = int(np.argmax(found))
                rows.append(
                    {
                        "version": name,
                        "epsilon": epsilon,
                        "delta": delta,
                        "beta": beta,
                        "shift": float(shifts[at]),
                        "exact": found[at],
                        "allowed": allowed,
                        "ratio": found[at] / allowed,
                    }
                )
    return rows


def critical_epsilon(version: Version, delta: float) -> float:
    """The ε from which on the lemma fails at λ = ±β, by bisection; ∞ if it does not up to ε = 200."""

    def excess(epsilon: float) -> float:
        beta = version.beta(epsilon, delta)
        return max(laplace_delta(epsilon, shift) for shift in (beta, -beta)) - version.share * delta

    low, high = 1e-6, 200.0
    if excess(high) <= 0:
        return math.inf
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return high


def smoothing(epsilon: float, delta: float, n: int) -> float:
    """β = ln(1 − ε/(2 ln(δ/(2(n + 1))))) of B."""
    return math.log1p(epsilon / (2 * math.log(2 * (n + 1) / delta)))


class _Scores:
    """All datasets of n records with the exponential mechanism at its β-smooth sensitivity."""

    def __init__(self, prior: Prior, n: int, epsilon: float, delta: float) -> None:
        self.beta = smoothing(epsilon, delta, n)
        self.distance = candidate_distances(prior, compositions(n, 2))
        self.smooth = np.array([smooth_sensitivity((x, n - x), prior, beta=self.beta) for x in range(n + 1)])
        self.rate = epsilon / (2 * self.smooth)
        weight = np.exp(-self.rate[:, None] * self.distance)
        self.normaliser = weight.sum(axis=1)
        self.distribution = weight / self.normaliser[:, None]
        # A symmetric posterior has pairs of mirror images with the same score: their probabilities add up.
        self.of_score = self.distribution.copy()
        for x in np.flatnonzero(np.arange(n + 1) * 2 + prior[0] == n + prior[1]).tolist():
            candidates = np.arange(max(0, 2 * x - n), min(n, 2 * x) + 1)
            candidates = candidates[candidates != x]
            self.of_score[x, candidates] += self.distribution[x, 2 * x - candidates]

    def formula(self, distance: FloatArray) -> FloatArray:
        """exp(εs/2S)/N at the score s = −distance, which no candidate needs to have."""
        return np.asarray(np.exp(-self.rate[:, None] * distance) / self.normaliser[:, None])


def sliding_rows(prior: Prior, n: int, epsilon: float, delta: float) -> list[Row]:
    """Lemma 3.2 of D, 2.1 of B: the largest P[u = s] − e^{ε/2} P[u = s + Δ], Δ ≥ −S(x), in each reading.

    "unbounded" is the formula for Δ → −∞: the statements do not limit Δ.
    """
    scores = _Scores(prior, n, epsilon, delta)
    factor, allowed = math.exp(epsilon / 2), delta / 2
    distribution, total, distance = scores.distribution, scores.of_score, scores.distance
    slides = distance[:, :, None] - distance[:, None, :] >= -scores.smooth[:, None, None] * (1 + 1e-12)
    readings = {
        "formula": distribution
        - factor * scores.formula(distance + scores.smooth[:, None]),  # Δ = −S, the worst
        "unbounded": distribution,  # Δ → −∞
        "score": total,  # nothing has the score s + Δ for almost every Δ
        "attained": np.where(slides, total[:, :, None] - factor * total[:, None, :], -np.inf).max(axis=2),
        "candidate": np.where(
            slides, distribution[:, :, None] - factor * distribution[:, None, :], -np.inf
        ).max(axis=2),
    }
    return [
        _row("sliding", prior, n, epsilon, delta, reading, value, allowed)
        for reading, value in readings.items()
    ]


def dilation_rows(prior: Prior, n: int, epsilon: float, delta: float) -> list[Row]:
    """Lemma 2.2 of B (3.3 of D): the largest P[u = s] − e^{ε/2} P[u = e^λ s], |λ| ≤ β.

    λ = β is the worst: e^λ s falls as λ grows. "set" is the formula for the worst set of scores; "unbounded"
    is the formula for λ → ∞, where P[u = e^λ s] → 0 for s < 0.
    """
    scores = _Scores(prior, n, epsilon, delta)
    factor, allowed = math.exp(epsilon / 2), delta / 2
    away = scores.distance > SAME
    excess = scores.distribution - factor * scores.formula(math.exp(scores.beta) * scores.distance)
    readings = {
        "formula": excess,
        "set": np.maximum(excess, 0.0).sum(axis=1, keepdims=True),
        "score": np.where(away, scores.of_score, -np.inf),
        "unbounded": np.where(away, scores.distribution, -np.inf),
    }
    rows = [
        _row("dilation", prior, n, epsilon, delta, reading, value, allowed)
        for reading, value in readings.items()
    ]
    largest = math.log1p(float((scores.smooth / scores.distance.max(axis=1)).min()))
    for row in rows:
        row |= {"beta": scores.beta, "own_condition": largest}
    return rows


def _row(
    lemma: str,
    prior: Prior,
    n: int,
    epsilon: float,
    delta: float,
    reading: str,
    value: FloatArray,
    allowed: float,
) -> Row:
    x, j = np.unravel_index(int(np.argmax(value)), value.shape)
    return {
        "lemma": lemma,
        "prior": f"({prior[0]:g}, {prior[1]:g})",
        "n": n,
        "epsilon": epsilon,
        "delta": delta,
        "reading": reading,
        "excess": float(value[x, j]),
        "allowed": allowed,
        "x": int(x),
        "candidate": int(j),
        "holds": bool(value[x, j] <= allowed + 1e-13),
        "beta": math.nan,
        "own_condition": math.nan,
    }


def check_own_condition(prior: Prior, n: int, epsilon: float, delta: float, shifts: Sequence[float]) -> bool:
    """D's condition: without δ the formula holds at λ > 0 exactly where λ ≤ ln(1 − S/s)."""
    scores = _Scores(prior, n, epsilon, delta)
    away = scores.distance > SAME
    with np.errstate(divide="ignore"):
        limit = np.log1p(scores.smooth[:, None] / scores.distance)
    rate, distance = scores.rate[:, None], scores.distance
    for shift in shifts:
        holds = -rate * distance <= epsilon / 2 - rate * math.exp(shift) * distance
        unsure = np.abs(limit - shift) < 1e-9
        if not ((holds == (shift <= limit)) | unsure | ~away).all():
            return False
    return True


def verdicts(
    laplace: Sequence[Row], rows: Sequence[Row], critical: Sequence[Row], own: bool
) -> list[Statement]:
    """Each lemma, in each version or reading."""
    statements = []
    for name, version in VERSIONS.items():
        mine = [row for row in laplace if row["version"] == name]
        broken = [row for row in mine if row["ratio"] > 1 + 1e-9]
        usual = [row for row in mine if row["epsilon"] <= 1]
        worst = max(mine, key=lambda row: row["ratio"])
        limits = ", ".join(
            f"{row['epsilon']:.3g} (δ = {row['delta']:g})" for row in critical if row["version"] == name
        )
        safe = all(row["ratio"] <= 1 for row in usual)
        statements.append(
            Statement(
                name,
                f"P[z ∈ S] ≤ e^{{ε/2}} P[z ∈ e^λ S] {version.words}",
                version.source,
                "yes" if not broken else ("partly" if safe else "no"),
                f"{len(broken)} of {len(mine)} settings broken; largest δ*/allowed "
                f"{max(row['ratio'] for row in usual):.3g} for ε ≤ 1, {worst['ratio']:.3g} at "
                f"ε = {worst['epsilon']:g}, δ = {worst['delta']:g}, λ = {worst['shift']:.3g}; fails from "
                f"ε = {limits} on",
                "it holds for the ε in use with room to spare, and fails for large ε, where e^λ − 1 is much "
                "more than λ. The proof bounds P[e^λ S]/P[S], which is the other direction",
                {"broken": len(broken), "settings": len(mine), "worst": worst["ratio"]},
            )
        )
    statements.append(
        Statement(
            "bound of the ratio",
            "h(e^λz)/h(z) = exp(|z|(1 − e^λ)) ≤ |λ| for λ < 0",
            "D, second notes, 4: case 2",
            "no",
            f"at z = 0 it is 1 > |λ|; at z = 1, λ = −0.1 it is {math.exp(1 - math.exp(-0.1)):.4f}",
            "meant is 1 − e^λ ≤ |λ|, as in the first notes, from which the next line follows",
            {"broken": 1},
        )
    )
    texts = {
        ("sliding", "formula"): (
            "With exp(εs/2S)/N for any real s: P[u = s] ≤ e^{ε/2} P[u = s + Δ] + δ/2 for Δ ≥ −S(x)",
            "that is all that the proof shows, with equality at Δ = −S; δ is not needed",
        ),
        ("sliding", "unbounded"): (
            "With the formula, for any Δ",
            "the statements do not limit Δ; the proofs take Δ ≥ −S(x)",
        ),
        ("sliding", "score"): (
            "With the probability of a score as it is, for any Δ ≥ −S(x)",
            "s + Δ is not the score of any candidate for almost every Δ: the right side is δ/2 alone",
        ),
        ("sliding", "attained"): (
            "With the probability of a score, for scores that candidates have",
            "two candidates can share a score and the truth has its own: the factor 2 that B cancels on "
            "both sides "
            "is not on both",
        ),
        ("sliding", "candidate"): (
            "With the probabilities of two candidates whose scores differ by Δ ≥ −S(x)",
            "this is the form that a proof of privacy can use",
        ),
        ("dilation", "formula"): (
            "With exp(εs/2S)/N for any real s: P[u = s] ≤ e^{ε/2} P[u = e^λ s] + δ/2 for |λ| ≤ β of B",
            "where λ is too large for s, the left side is at most δ/(2(n + 1)) by the choice of β",
        ),
        ("dilation", "set"): (
            "The same for every set of scores at once",
            "at most n + 1 candidates of δ/(2(n + 1)) each",
        ),
        ("dilation", "score"): (
            "With the probability of a score as it is",
            "e^λ s is not the score of any candidate for almost every λ: the right side is δ/2 alone",
        ),
        ("dilation", "unbounded"): (
            "With the formula, and λ a function of ε and δ without a bound",
            "D names no bound on λ in the statement; its conclusion, λ ≤ ln(1 − S/s), depends on the score "
            "and is " + ("exactly the condition without δ" if own else "not the exact condition"),
        ),
    }
    for (lemma, reading), (claim, why) in texts.items():
        mine = [row for row in rows if (row["lemma"], row["reading"]) == (lemma, reading)]
        source = "D 3.2, B lemma 2.1" if lemma == "sliding" else "D 3.3, B lemma 2.2"
        source = "D 3.3" if (lemma, reading) == ("dilation", "unbounded") else source
        statements.append(_reading(f"{lemma}-{reading}", claim, source, why, mine))
    return statements


def _reading(name: str, claim: str, source: str, why: str, rows: Sequence[Row]) -> Statement:
    broken = [row for row in rows if not row["holds"]]
    worst = max(rows, key=lambda row: row["excess"] - row["allowed"])
    answer: Answer = "yes" if not broken else "no"
    measured = f"{len(broken)} of {len(rows)} settings broken"
    if broken:
        measured += (
            f", by {worst['excess']:.4g} where {worst['allowed']:g} is allowed at α = {worst['prior']}, "
            f"n = {worst['n']}, ε = {worst['epsilon']:g}, x = {worst['x']}, candidate {worst['candidate']}"
        )
    else:
        closest = max(row["excess"] / row["allowed"] for row in rows)
        measured += f"; largest excess/(δ/2) {max(closest, 0.0):.3g}"
    return Statement(
        name, claim, source, answer, measured, why, {"broken": len(broken), "settings": len(rows)}
    )


def lemmas(run: Run) -> Outcome:
    """Sliding and dilation."""
    settings = Settings().quick() if run.quick else Settings()
    run.expect(len(settings.priors) + 1)
    laplace = laplace_rows(settings)
    critical: list[Row] = [
        {"version": name, "delta": delta, "epsilon": critical_epsilon(version, delta)}
        for name, version in VERSIONS.items()
        for delta in settings.laplace_deltas
    ]
    run.tick()
    rows: list[Row] = []
    for prior in settings.priors:
        rows += run.step(f"lemmas {prior} {settings}", partial(_prior_rows, prior, settings))
    own = all(check_own_condition(p, 12, 0.8, 1e-3, (0.01, 0.1, 0.5, 2.0)) for p in settings.priors)
    statements = verdicts(laplace, rows, critical, own)
    first = min(critical, key=lambda row: float(row["epsilon"]))
    counts = {s.name: s.values["broken"] for s in statements}
    verdict = (
        f"Laplace dilation fails only from ε = {first['epsilon']:.2f} on (δ = {first['delta']:g}); sliding "
        f"and dilation hold as formulas (broken "
        f"{counts['sliding-formula'] + counts['dilation-set']}) but not as probabilities of a score (broken "
        f"{counts['sliding-score']} and {counts['dilation-score']} of {statements[-1].values['settings']})"
    )
    tables = {"": rows, "laplace": laplace, "critical": critical}
    return Outcome(verdict, tables, {"": _plot(rows, settings)}, statements, asdict(settings))


def _prior_rows(prior: Prior, settings: Settings) -> list[Row]:
    return [
        row
        for n in settings.sizes
        for epsilon in settings.epsilons
        for delta in settings.deltas
        for row in (*sliding_rows(prior, n, epsilon, delta), *dilation_rows(prior, n, epsilon, delta))
    ]


def _plot(rows: Sequence[Row], settings: Settings) -> Any:
    figure = new_figure(10, 4.6)
    left, right = (figure.add_subplot(1, 2, i + 1) for i in range(2))
    epsilons = np.geomspace(0.1, 20, 120)
    version = VERSIONS["laplace-two"]
    for i, delta in enumerate((1e-6, 1e-3, 0.1, 0.5)):
        ratio = [laplace_delta(e, version.beta(e, delta)) / (version.share * delta) for e in epsilons]
        left.plot(epsilons, ratio, color=f"C{i}", linestyle=("-", "--", "-.", ":")[i], label=f"δ = {delta:g}")
    left.axhline(1, color="black", linewidth=0.9)
    left.set_xscale("log")
    left.set_yscale("log")
    left.set_xlabel("ε")
    left.set_ylabel("exact δ* / (δ/2); above 1 it fails")
    left.set_title("Laplace dilation at λ = β = ε/(2 ln(2/δ))", fontsize=10)
    left.legend(frameon=False, fontsize=9)
    delta, floor = settings.deltas[-1], 1e-4
    looks = {"set": ("C0", "o", "formula, any set"), "score": ("C3", "s", "probability of a score")}
    for reading, (colour, marker, label) in looks.items():
        for epsilon, style in ((0.8, "-"), (5.0, "--")):
            own = [
                row
                for row in rows
                if (row["lemma"], row["reading"], row["prior"], row["epsilon"], row["delta"])
                == ("dilation", reading, "(1, 1)", epsilon, delta)
            ]
            right.plot(
                [row["n"] for row in own],
                [max(row["excess"] / row["allowed"], floor) for row in own],
                color=colour,
                marker=marker,
                linestyle=style,
                markersize=4,
                label=f"{label}, ε = {epsilon:g}",
            )
    right.axhline(1, color="black", linewidth=0.9)
    right.set_xscale("log")
    right.set_yscale("log")
    right.set_xlabel("n (records)")
    right.set_ylabel("largest excess / (δ/2), 10⁻⁴ for less; above 1 it fails")
    right.set_title(f"dilation, exponential mechanism, (1, 1), δ = {delta:g}", fontsize=10)
    right.legend(frameon=False, fontsize=9, loc="center right", bbox_to_anchor=(1, 0.42))
    return figure
