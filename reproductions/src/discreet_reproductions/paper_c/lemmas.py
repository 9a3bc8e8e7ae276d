"""The lemmas and single lines of C's appendix: A.4 to A.7 recomputed in small cases.

Beta–Bernoulli in C's coordinates η = (a, N): C(η) = lnΓ(a) + lnΓ(N − a) − lnΓ(N). Along the line
η_Q + s(η_P − η_Q) the divergence is D_λ = ∫₀^λ G(s)g″(s) ds with G(s) = s up to 1 and (λ − s)/(λ − 1) beyond,
so that a bound H of the Hessian from η_Q (s = 0) to ληP + (1 − λ)ηQ (s = λ) gives ‖η_P − η_Q‖²Hλ/2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import expit, gammaln, log_expit, polygamma

from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["WITNESS", "divergence", "hessian", "largest_norm", "lemma_rows", "lemmas"]

WITNESS = (1.001, 2.0), (0.001, 3.0)
"""Parameters of two Beta distributions P and Q."""
Pair = tuple[tuple[float, float], tuple[float, float]]


def _log_partition(eta: FloatArray) -> float:
    a, whole = eta
    return float(gammaln(a) + gammaln(whole - a) - gammaln(whole))


def hessian(eta: FloatArray) -> FloatArray:
    """∇²C of Beta–Bernoulli: (56) of C with d = 2."""
    a, whole = eta
    rest = polygamma(1, whole - a)
    return np.array([[polygamma(1, a) + rest, -rest], [-rest, rest - polygamma(1, whole)]])


def _natural(beta: tuple[float, float]) -> FloatArray:
    return np.array([beta[0], beta[0] + beta[1]])


def divergence(p: FloatArray, q: FloatArray, order: float) -> float:
    """D_λ(P‖Q) by (14)."""
    mixed = _log_partition(order * p + (1 - order) * q)
    return (mixed - order * _log_partition(p)) / (order - 1) + _log_partition(q)


def largest_norm(p: FloatArray, v: FloatArray, low: float, high: float) -> float:
    """The largest ‖∇²C(η_P + xv)‖ for x from low to high; infinite where C is."""
    points = [p + x * v for x in np.linspace(low, high, 201)]
    if any(not 0 < a < whole for a, whole in points):
        return math.inf
    return max(float(np.linalg.norm(hessian(point), 2)) for point in points)


def lemma_rows(pair: Pair = WITNESS) -> list[Row]:
    """D_λ against the bound of Lemma 1 as printed, and with the segment to η_Q."""
    p, q = map(_natural, pair)
    v = p - q
    square = float(v @ v)
    rows = []
    for order in (1.01, 1.05, 1.1, 1.2, 1.5, 1.9, 1.99, 1.999):
        printed = largest_norm(p, v, 1 - order, order - 1) * square * order
        repaired = largest_norm(p, v, -1, order - 1) * square * order / 2
        rows.append(
            {"order": order, "divergence": divergence(p, q, order), "printed": printed, "repaired": repaired}
        )
    return rows


def _random_pairs(number: int, seed: int = 1) -> list[tuple[FloatArray, FloatArray, float]]:
    rng = np.random.default_rng(seed)
    found: list[tuple[FloatArray, FloatArray, float]] = []
    while len(found) < number:
        p = np.exp(rng.uniform(-4, 4, 2))
        move, order = rng.uniform(-1, 1), float(rng.choice([1.05, 1.5, 2.0, 3.0, 10.0]))
        q = p + np.array([move, -move])
        if min(q) > 0 and min(order * p + (1 - order) * q) > 0:
            found.append((_natural(tuple(p)), _natural(tuple(q)), order))
    return found


def _share(p: FloatArray, q: FloatArray, order: float, low: float) -> float:
    """D_λ over ‖η_P − η_Q‖²Hλ/2, H from x = low to λ − 1."""
    bound = largest_norm(p, p - q, low, order - 1) * float((p - q) @ (p - q)) * order / 2
    return divergence(p, q, order) / bound


def _lemma_1(rows: Sequence[Row]) -> list[Statement]:
    worst = next(row for row in rows if row["order"] == 1.05)
    broken = [row["order"] for row in rows if row["divergence"] > row["printed"]]
    pairs = _random_pairs(300)
    large = [_share(p, q, order, 1 - order) / 2 for p, q, order in pairs if order >= 2]
    tight = [_share(p, q, order, -1) for p, q, order in pairs]
    repaired = max(*tight, *(row["divergence"] / row["repaired"] for row in rows))
    return [
        Statement(
            "lemma 1",
            "D_λ ≤ ‖η_P − η_Q‖²Hλ if ‖∇²C‖ < H at η_P + x(η_P − η_Q) for |x| ≤ λ − 1, for any λ > 1",
            "C A.4, lemma 1",
            "yes" if not broken else "partly" if max(large) <= 1 else "no",
            f"P = Beta(1.001, 2), Q = Beta(0.001, 3), λ = 1.05: D = {worst['divergence']:.3f}, "
            f"Hλ = {worst['printed']:.3f}. For λ ≥ 2 at most {max(large):.3f} of the bound in {len(large)} "
            "pairs",
            "for λ < 2 these x do not reach η_Q, which is x = −1; (18) has P and Q the other way round",
            {"broken": broken, "divergence": worst["divergence"], "bound": worst["printed"]},
        ),
        Statement(
            "lemma 1 repaired",
            "D_λ ≤ ‖η_P − η_Q‖²Hλ/2 for any λ > 1 if ‖∇²C‖ ≤ H for −1 ≤ x ≤ λ − 1",
            "C A.4, lemma 1",
            "yes" if repaired <= 1 else "no",
            f"at most {repaired:.3f} of the bound in {len(tight)} random pairs and for the witness",
            "proved; A.11 and A.13 bound the Hessian on a set that holds η_Q, so they stay",
            {"largest": repaired},
        ),
    ]


def _standard() -> list[Statement]:
    rng = np.random.default_rng(2)
    least = min(
        float(np.linalg.eigvalsh(hessian(_natural((a, b))))[0]) * (a + b) ** 2
        for a, b in np.exp(rng.uniform(-5, 8, (400, 2))).tolist()
    )
    ball = [_natural((a, b)) for a, b in ((6.0, 12.0), (5.5, 12.5), (6.5, 11.5), (5.5, 11.5), (6.5, 12.5))]
    scaled = [max(k * np.linalg.norm(hessian(k * eta), 2) for eta in ball) for k in (1, 10, 100, 1e4, 1e6)]
    theta = np.linspace(-30, 30, 60001)
    betas = ((1.0, 2.0), (0.01, 3.0), (40.0, 0.2))
    heights = [a * theta - (a + b) * np.logaddexp(0, theta) for a, b in betas]
    modes, aim = [theta[np.argmax(height)] for height in heights], [math.log(a / b) for a, b in betas]
    off = max(abs(m - t) for m, t in zip(modes, aim, strict=True))
    return [
        Statement(
            "theorems 2 and 3",
            "C is smooth and ∇²C is nonsingular inside the normalisable set",
            "C A.4, theorems 2, 3",
            "yes" if least > 0 else "no",
            f"Beta: the least eigenvalue times N² is at least {least:.3f} over 400 parameters",
            "cited by C; v′∇²Cv is the variance of v·T(θ), 0 only if v·T is constant",
        ),
        Statement(
            "lemma 4",
            "with T*_η at the mode (definition A.12): the mode lies inside Θ for η₀ inside E",
            "C A.4, definition A.12, lemma 4",
            "yes" if off < 1e-2 else "no",
            f"Beta: the mode is ln(a/b) (largest difference {off:.1g} on a grid of 0.001)",
            "cited by C; for Bernoulli the exponent aθ − N ln(1 + e^θ) falls on both sides if 0 < a < N",
        ),
        Statement(
            "lemma 5",
            "‖∇²C(kη)‖ < V/k around η₀ from some k on",
            "C A.4, lemma 5",
            "yes" if max(scaled) < 2 * scaled[-1] else "no",
            "Beta(6, 12) and around: k‖∇²C(kη)‖ is " + ", ".join(f"{value:.4f}" for value in scaled),
            "cited by C; for Beta it is ψ′(ka) ~ 1/(ka)",
        ),
    ]


def _limits() -> Statement:
    alpha, n = 18.0, 100.0
    scale = {m: alpha / (alpha / m + n) for m in (1e-2, 1e-4, 1e-8)}
    sizes = [(c, abs(c / m - 1)) for m, c in scale.items()]
    negative = scale[1e-2] / 1e-2 - 1
    return Statement(
        "limits",
        "c_m, c_m/m − 1 and the size of D_m tend to 0 with m: (37) to (41)",
        "C A.4, (37)–(41)",
        "yes" if max(sizes[-1]) < 1e-5 else "no",
        "η₀ = (6, 18), n = 100: c_m = " + ", ".join(f"{c:.2g}" for c, _ in sizes),
        f"c_m/m − 1 is negative ({negative:.3f} at m = 0.01): (39) lacks the absolute value; the limit stays",
    )


def _derivatives() -> list[Statement]:
    errors, bends, rises = [], [], []
    for p, q, order in _random_pairs(200, 3):
        step = 1e-3 * min(p[0], q[0], p[1] - p[0], q[1] - q[0], *_positive(p, q, order))
        v = np.array([step, 0.0])
        second = divergence(p, q + v, order) - 2 * divergence(p, q, order) + divergence(p, q - v, order)
        mixed = order * p + (1 - order) * q
        formula = (hessian(q) + (order - 1) * hessian(mixed))[0, 0]
        b = q - p
        both = divergence(p + v, q + v, order) - 2 * divergence(p, q, order) + divergence(p - v, q - v, order)
        whole = (hessian(q) - order / (order - 1) * hessian(p) + hessian(p + (1 - order) * b) / (order - 1))[
            0, 0
        ]
        scale = abs(formula) + order / (order - 1) * hessian(p)[0, 0]
        errors += [abs(second / step**2 - formula) / scale, abs(both / step**2 - whole) / scale]
        bends.append(formula)
        rises.append(whole / scale)
    return [
        Statement(
            "derivatives",
            "the gradients and Hessians of D_λ in η_Q and, at a fixed offset, in η_P: (46) to (53)",
            "C A.4, (46)–(53)",
            "yes" if max(errors) < 1e-3 else "no",
            f"second differences along Diff agree to {max(errors):.1g} of their terms in {len(bends)} cases",
        ),
        Statement(
            "theorem A.14",
            "D_λ is convex in η_Q, and its supremum over neighbours in η_P if v′∇²Cv is convex, v in Diff",
            "C A.4, theorem A.14",
            "yes" if min(bends) > 0 and min(rises) > -1e-9 else "no",
            f"Beta: both second derivatives are above 0 in {len(bends)} cases",
            "proved in C, and that is all it says: where the maximum lies depends on the set of neighbours",
        ),
    ]


def _positive(p: FloatArray, q: FloatArray, order: float) -> tuple[float, float]:
    a, whole = order * p + (1 - order) * q
    return a, whole - a


def _sobolev() -> Statement:
    """Ent(f²) ≤ (2/m)E[f′²] for a posterior exp(−U), U″ ≥ m = 1: one logistic record, prior N(0, 1)."""

    def mean(function: Any) -> float:
        return float(quad(lambda w: function(w) * math.exp(float(log_expit(w)) - w * w / 2), -12, 12)[0])

    total = mean(lambda _: 1.0)
    worst = 0.0
    for f, slope in (
        (lambda w: math.exp(0.7 * w / 2), lambda w: 0.35 * math.exp(0.7 * w / 2)),
        (lambda w: 1 + 0.5 * math.sin(w), lambda w: 0.5 * math.cos(w)),
        (lambda w: 2 + math.tanh(w), lambda w: 1 / math.cosh(w) ** 2),
        (lambda w: 1 + w * w, lambda w: 2 * w),
    ):
        square = mean(lambda w, f=f: f(w) ** 2) / total
        entropy = mean(lambda w, f=f: f(w) ** 2 * math.log(f(w) ** 2)) / total - square * math.log(square)
        worst = max(worst, entropy * total / (2 * mean(lambda w, s=slope: s(w) ** 2)))
    return Statement(
        "log-Sobolev",
        "definition A.15, and a measure exp(−U) with U″ ≥ m has its constant 1/m",
        "C A.7.1, definition A.15, lemma 2",
        "yes" if worst <= 1 else "no",
        f"one logistic record, prior N(0, 1), four functions: at most {worst:.3f} of the bound",
        "cited by C (Bakry and Émery); our proof of the Rényi bound does not need it",
    )


def _regression() -> list[Statement]:
    """Records z and −z with ‖z‖ = L = 1, prior N(0, 1/m), tempered by ρ: w along z is one-dimensional."""
    ratios, forms = [], []
    for m in (0.1, 1.0, 10.0):
        for rho in (0.5, 1.0):
            grid = np.linspace(-14 / math.sqrt(m), 14 / math.sqrt(m), 40001)
            logs = [rho * log_expit(sign * grid) - m * grid**2 / 2 for sign in (1, -1)]
            p, q = (np.exp(values - values.max()) for values in logs)
            p, q = p / p.sum(), q / q.sum()
            log_ratio = np.log(p) - np.log(q)
            divergence_kl = float((p * log_ratio).sum())
            bound = 2 * rho**2 / m
            ratios.append(divergence_kl / bound)
            for order in (1.5, 3.0, 8.0):
                renyi = math.log(float((p * np.exp((order - 1) * log_ratio)).sum())) / (order - 1)
                forms.append(renyi / (bound * order + divergence_kl - bound))
    steepest = max(abs(float(expit(u)) - y) for u in np.linspace(-40, 40, 801) for y in (0, 1))
    x = np.array([0.3, -1.2, 0.5])
    found = []
    for i, variance in ((1, 0.5), (3, 0.2), (5, 0.1)):
        spread = math.sqrt(variance) * float(np.linalg.norm(x))
        value = quad(lambda u, i=i, s=spread: math.exp(-i * s * u - u * u / 2), -40, 40)[0] / math.sqrt(
            2 * math.pi
        )
        found.append(abs(value / math.exp(i * i * variance * float(x @ x) / 2) - 1))
    return [
        Statement(
            "zCDP form",
            "D_λ ≤ aλ + KL − a with a = 2ρ²L²/m, the zCDP form of the bound",
            "C A.7.1, zCDP",
            "yes" if max(forms) <= 1 else "no",
            f"antipodal logistic records, m from 0.1 to 10: at most {max(forms):.3f} of it",
            "Herbst's theorem with λ − 1 in the place of λ",
        ),
        Statement(
            "KL bound",
            "KL(p(w|D)‖p(w|D′)) ≤ 2ρ²L²/m: (65) and what follows, except for a superfluous ρ in ‖∇ ln F‖",
            "C A.7.1, (65)",
            "yes" if max(ratios) <= 1 else "no",
            f"at most {max(ratios):.3f} of it for antipodal logistic records",
            "a slip on the way: “‖∇ ln F‖ = ρ‖∇ ln p(w|D) − …‖” has a ρ too many, as the posterior holds it "
            "already; the next lines are right",
        ),
        Statement(
            "GLMs",
            "the loss of a GLM is Bc-Lipschitz: ‖(g⁻¹(w·x) − y)x‖ ≤ Bc",
            "C A.7.1, theorems 16, 17",
            "yes" if steepest <= 1 else "no",
            f"logistic: |g⁻¹ − y| ≤ {steepest:.3f} = B. Poisson with g⁻¹ = exp has none",
            "true where |g⁻¹(w·x) − y| ≤ B for every w and ‖x‖ ≤ c, as the theorems ask: clip rates",
        ),
        Statement(
            "(67)",
            "E exp(−i w·x) = exp(i²σ²‖x‖²/2) for w ~ N(0, σ²I)",
            "C A.7.2, (67)",
            "yes" if max(found) < 1e-9 else "no",
            f"by quadrature to {max(found):.1g}",
        ),
    ]


def _pairs() -> Statement:
    numbers = {d: d * d * (d - 1) for d in (2, 3, 5, 10, 100)}
    return Statement(
        "O(d³)",
        "the pairs of posteriors to check for d categories grow as O(d³)",
        "C A.6.1, end",
        "yes" if all(value <= d**3 for d, value in numbers.items()) else "no",
        "d corners and d(d − 1) moves: "
        + ", ".join(f"{value:,} for d = {d}" for d, value in numbers.items()),
        "two are enough for d ≥ 3: D_λ falls in both parameters, so the two smallest of the prior are worst",
    )


def lemmas(run: Run) -> Outcome:
    """Every lemma and line of the appendix that no other experiment shows."""
    rows = lemma_rows()
    found = [*_lemma_1(rows), *_standard(), _limits(), *_derivatives(), _pairs(), _sobolev(), *_regression()]
    run.tick()
    first = found[0].values
    verdict = (
        f"Lemma 1 of A.4 fails for λ < 2 (D = {first['divergence']:.3f} > {first['bound']:.3f} at λ = 1.05) "
        "and true with the segment to η_Q; the other lines hold."
    )
    return Outcome(verdict, {"": rows}, {"": _plot(rows)}, found, {})


def _plot(rows: Sequence[Row]) -> Any:
    figure = new_figure(5.8, 3.8)
    axis = figure.add_subplot()
    for column, label, style in (
        ("divergence", "D_λ, exact", "o-"),
        ("printed", "Lemma 1 as printed", "s--"),
        ("repaired", "with the segment to η_Q", "^:"),
    ):
        axis.semilogy([row["order"] for row in rows], [row[column] for row in rows], style, label=label)
    axis.set_xlabel("order λ; P = Beta(1.001, 2), Q = Beta(0.001, 3)")
    axis.set_ylabel("Rényi divergence and bounds")
    axis.legend(frameon=False)
    return figure
