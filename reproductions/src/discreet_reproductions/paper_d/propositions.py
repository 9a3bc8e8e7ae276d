"""Statements I to III of D on the local sensitivity.

One step from x to x + 1 moves Beta(α₁ + x, α₂ + n − x) by h(x) = √(1 − w(s)w(r)), s = α₁ + x and
r = α₂ + n − 1 − x. As w(s+1)²/w(s)² = (s + ½)²/(s(s + 1)) is rational, whether h(x) < h(x + 1) is decided in
integers: no rounding enters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity, log_w, step_distance
from discreet_reproductions.arrays import IntArray
from discreet_reproductions.report import Answer, Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = [
    "StatementSettings",
    "balanced",
    "check_induction",
    "check_polynomials",
    "check_size",
    "proposition_statements",
    "statements",
    "step_signs",
]

ExactPrior = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class StatementSettings:
    """Priors as exact decimals, every n up to ``largest``; definitions are checked by enumeration."""

    priors: tuple[tuple[str, str], ...] = (
        ("1", "1"),
        ("0.1", "0.1"),
        ("0.5", "0.5"),
        ("2", "2"),
        ("7.3", "7.3"),
        ("7", "4"),
        ("0.3", "2"),
    )
    largest: int = 500
    enumerated: int = 40

    def quick(self) -> StatementSettings:
        return replace(self, priors=(*self.priors[:3], *self.priors[5:]), enumerated=15)


def step_signs(prior: ExactPrior, n: int) -> IntArray:
    """The sign of h(x + 1) − h(x) for x = 0, …, n − 2, exactly."""
    q = math.lcm(prior[0].denominator, prior[1].denominator)
    x = np.arange(max(n - 1, 0), dtype=np.int64)
    s = int(prior[0] * q) + q * x
    r = int(prior[1] * q) + q * (n - 1 - x)
    if 4 * int(max(s.max(initial=1), r.max(initial=1)) + q) ** 4 >= 2**63:
        raise OverflowError(f"prior {prior}, n={n}: the comparison does not fit 64-bit integers")
    # The squared coefficients of the two steps are as these; a smaller coefficient is a larger distance.
    after, before = (2 * s + q) ** 2 * (r * (r - q)), (2 * r - q) ** 2 * (s * (s + q))
    return np.asarray(np.sign(before - after), dtype=np.int64)


def balanced(prior: ExactPrior, n: int) -> tuple[int, int]:
    """x₀: the dataset, or the two, whose posterior parameters are closest; for (1, 1) that of the notes."""
    q = math.lcm(prior[0].denominator, prior[1].denominator)
    difference = np.abs(q * (2 * np.arange(n + 1) - n) + int(q * (prior[0] - prior[1])))
    found = np.flatnonzero(difference == difference.min())
    return int(found[0]), int(found[-1])


def _is_farther(prior: ExactPrior, n: int, i: int, j: int) -> int:
    """The sign of h(i) − h(j), exactly, by the product of the squared ratios between them."""
    ratio = Fraction(1)
    for x in range(min(i, j), max(i, j)):
        s, r = prior[0] + x, prior[1] + n - 1 - x
        ratio *= (2 * s + 1) ** 2 * r * (r - 1) / ((2 * r - 1) ** 2 * s * (s + 1))
    larger = (ratio < 1) - (ratio > 1)  # h(max) against h(min)
    return larger if i > j else -larger


def check_size(prior: ExactPrior, n: int) -> dict[str, tuple[int, list[int]]]:
    """Each statement: how many x it speaks of, and those for which it is wrong."""
    low, high = balanced(prior, n)
    x = np.arange(n + 1)
    signs = step_signs(prior, n)
    at, before, two_before = (_signs_at(signs, x - shift) for shift in (0, 1, 2))
    # The local sensitivity is the step up where there is one and the step down is not longer; so for down.
    up = (x < n) & ((x == 0) | (before >= 0))
    down = (x > 0) & ((x == n) | (before <= 0))
    spoken = {
        "I, up": ((x >= low) & (x <= n - 2), at > 0),
        "I, down as printed": ((x <= high) & (x <= n - 2), at < 0),
        "I, down as meant": ((x <= high) & (x >= 2), two_before < 0),
        "II, outward": (x >= 0, (up | (x < high)) & (down | (x > low))),
        "II, both x0": (x >= 0, (up | (x < low)) & (down | (x > high))),
    }
    found = {
        name: (int(cases.sum()), np.flatnonzero(cases & ~holds).tolist())
        for name, (cases, holds) in spoken.items()
    }
    return found | {"III": _third(prior, n, np.where(up, x, x - 1), low, high)}


def _signs_at(signs: IntArray, x: IntArray) -> IntArray:
    """The sign at x, 0 where there is none."""
    inside = (x >= 0) & (x < len(signs))
    return np.where(inside, np.append(signs, 0)[np.where(inside, x, -1)], 0)


def _third(prior: ExactPrior, n: int, step: IntArray, low: int, high: int) -> tuple[int, list[int]]:
    """x whose local sensitivity, that of h at ``step``, is not larger than that of x₀."""
    first, second = (float(a) for a in prior)
    affinity = log_w(first + np.arange(n)) + log_w(second + np.arange(n)[::-1])
    reached = affinity[step]
    x = np.arange(n + 1)
    others = np.flatnonzero((x < low) | (x > high))
    certain = reached[others] < reached[low] * (1 + 1e-11)  # a negative logarithm, exact to 1e-14
    unsure = others[~certain]
    return len(others), [int(i) for i in unsure if _is_farther(prior, n, int(step[i]), int(step[low])) <= 0]


PLACES = ("ends", "at_x0", "beside_x0", "elsewhere")


def check_prior(prior: tuple[str, str], settings: StatementSettings) -> list[Row]:
    """A row for each n and statement: cases and exceptions, and where the exceptions are."""
    exact = (Fraction(prior[0]), Fraction(prior[1]))
    rows = []
    for n in range(1, settings.largest + 1):
        low, high = balanced(exact, n)
        for name, (cases, wrong) in check_size(exact, n).items():
            places = [_place(x, n, low, high) for x in wrong]
            rows.append(
                {
                    "prior": f"({prior[0]}, {prior[1]})",
                    "n": n,
                    "statement": name,
                    "cases": cases,
                    "exceptions": len(wrong),
                    **{place: places.count(place) for place in PLACES},
                }
            )
    return rows


def _place(x: int, n: int, low: int, high: int) -> str:
    if x in (0, n):
        return "ends"
    if x in (low, high):
        return "at_x0"
    return "beside_x0" if x in (low - 1, high + 1) else "elsewhere"


def definition_gap(prior: tuple[str, str], largest: int) -> float:
    """The largest difference between Δ_l u by its definition and the distance to the further neighbour."""
    worst = 0.0
    floats = (float(prior[0]), float(prior[1]))
    for n in range(1, largest + 1):
        distance = candidate_distances(floats, compositions(n, 2))
        change = np.abs(np.diff(distance, axis=0)).max(axis=1)  # between x and x + 1, over all candidates
        by_definition = np.maximum(np.append(change, 0.0), np.append(0.0, change))
        closed = [local_sensitivity((x, n - x), floats) for x in range(n + 1)]
        worst = max(worst, float(np.abs(by_definition - closed).max()))
    return worst


def check_polynomials(largest: int) -> tuple[bool, bool]:
    """(n−1)²(n+2)(n+4) − (n+3)²n(n−2) = 8(n+1) for all n; the inequality is n > −1 on −largest, …, largest.

    Both sides are polynomials of degree 4, so that five points prove the identity.
    """

    def difference(n: int) -> int:
        return (n - 1) ** 2 * (n + 2) * (n + 4) - (n + 3) ** 2 * n * (n - 2)

    identity = all(difference(n) == 8 * (n + 1) for n in range(5))
    return identity, all((difference(n) > 0) == (n > -1) for n in range(-largest, largest + 1))


def check_induction(largest: int) -> tuple[int, int]:
    """How often the factors that the induction drops are in the order that allows it, prior (1, 1), even n.

    With c(x) the coefficient of the step at x and ρ(x) = c(x)/c(x + 1), it goes from c(x + 1)ρ(x) >
    c(x + 2)ρ(x + 1) to c(x + 1) > c(x + 2): that needs ρ(x) ≤ ρ(x + 1).
    """
    cases = wrong = 0
    for n in range(2, largest + 1, 2):
        for x in range(n // 2, n - 2):
            (a, b), (c, d) = ((_ratio_parts(n, y)) for y in (x, x + 1))
            cases += 1
            wrong += a * d > c * b
    return cases, wrong


def _ratio_parts(n: int, x: int) -> tuple[int, int]:
    """ρ(x)² as a fraction."""
    s, r = 1 + x, n - x
    return (2 * r - 1) ** 2 * s * (s + 1), (2 * s + 1) ** 2 * r * (r - 1)


NAMES = {
    "I, up": ("I-up", "h(x) < h(x + 1) for x ≥ x₀: steps grow away from the balanced data"),
    "I, down as printed": ("I-down-printed", "h(x) > h(x + 1) for x ≤ x₀, as it is printed"),
    "I, down as meant": ("I-down", "The mirror image, H(x, x − 1) < H(x − 1, x − 2) for x ≤ x₀"),
    "II, outward": ("II", "The local sensitivity is the outward step: up from x₀ on, down until x₀"),
    "II, both x0": ("II-odd", "The same where n is odd and each of the two x₀ counts as x ≥ x₀ and x ≤ x₀"),
    "III": ("III", "The local sensitivity of every other dataset is larger than that of x₀"),
}


def proposition_statements(
    rows: Sequence[Row], gaps: Mapping[str, float], polynomials: tuple[bool, bool], induction: tuple[int, int]
) -> list[Statement]:
    """The statements with their exceptions, and two steps of the proof."""
    result = []
    for name, (short, claim) in NAMES.items():
        own = [row for row in rows if row["statement"] == name]
        wrong = [row for row in own if row["exceptions"]]
        cases, exceptions = sum(row["cases"] for row in own), sum(row["exceptions"] for row in own)
        result.append(
            Statement(
                short,
                claim,
                f"D 2.1, {name.split(',')[0]}",
                _bounded(wrong),
                f"{exceptions:,} exceptions in {cases:,} cases{_where(wrong)}",
                _EXCEPTIONS[name],
                {
                    "cases": cases,
                    "exceptions": exceptions,
                    "ends": sum(row["ends"] for row in wrong),
                    "largest": max((row["n"] for row in wrong), default=0),
                },
            )
        )
    identity, inequality = polynomials
    cases, wrong_factors = induction
    worst = max(gaps.values())
    return [
        *result,
        Statement(
            "definition",
            "The maximum over neighbours and candidates is the distance to the further neighbour",
            "D 2.2.2",
            "yes" if worst < 1e-12 else "no",
            f"largest difference by enumeration {worst:.1e}",
            "triangle inequality, with equality at a neighbour itself",
            dict(gaps),
        ),
        Statement(
            "base-case",
            "(n − 1)²(n + 2)(n + 4) > (n + 3)²n(n − 2) if and only if n > −1",
            "D 2.2.1, step 1",
            "yes" if identity and inequality else "no",
            "the difference is 8(n + 1), an identity of polynomials checked at five integers"
            if identity
            else "the difference is not 8(n + 1)",
            "the step is right; it is for even n > 2 only, as x₀ + 2 must exist and odd n has another base "
            "case",
        ),
        Statement(
            "induction",
            "From h(x) < h(x + 1) follows h(x + 1) < h(x + 2)",
            "D 2.2.1, step 2",
            "partly" if wrong_factors == 0 else "no",
            f"the dropped factors are in the order that is needed in {cases - wrong_factors:,} of "
            f"{cases:,} cases",
            "the notes drop two different factors without a word; that is allowed as their ratio grows "
            "with x, "
            "which they do not show. It follows from the concavity of log w",
            {"cases": cases, "wrong": wrong_factors},
        ),
    ]


_EXCEPTIONS = {
    "I, up": "s(s + 1) > r(r − 1) decides it, that is 2x > n − 2 + α₂ − α₁: from x₀ on it is always so",
    "I, down as printed": "at x₀ it contradicts the first clause, and just before x₀ the two steps are "
    "equal when n "
    "(plus α₂ − α₁) is even",
    "I, down as meant": "the mirror image of the first clause",
    "II, outward": "at the last dataset on either side there is no outward step. Where α₁ − α₂ is not "
    "whole, x₀ lies "
    "on one side of the balance, and is its own exception there",
    "II, both x0": "the step between the two x₀ is the shortest of all, so neither can have it as local "
    "sensitivity",
    "III": "n so small that no step is longer than the longest of x₀",
}


def _bounded(wrong: Sequence[Row]) -> Answer:
    """PartiallyPublished: all exceptions are at the ends, at x₀ or beside it."""
    if not wrong:
        return "yes"
    return "no" if any(row["elsewhere"] for row in wrong) else "partly"


def _where(wrong: Sequence[Row]) -> str:
    if not wrong:
        return ""
    words = {"ends": "at x = 0 or n", "at_x0": "at x₀", "beside_x0": "beside x₀", "elsewhere": "elsewhere"}
    counts = {place: sum(row[place] for row in wrong) for place in PLACES}
    parts = []
    for prior in dict.fromkeys(row["prior"] for row in wrong):
        sizes = [row["n"] for row in wrong if row["prior"] == prior]
        count = sum(row["exceptions"] for row in wrong if row["prior"] == prior)
        listed = ", ".join(map(str, sizes)) if len(sizes) <= 4 else f"{sizes[0]} to {sizes[-1]}"
        parts.append(f"{prior} {count:,} (n = {listed})")
    places = ", ".join(f"{count:,} {words[place]}" for place, count in counts.items() if count)
    return f": {places}; by prior {', '.join(parts)}"


def statements(run: Run) -> Outcome:
    """Statements I to III for all n up to 500."""
    settings = StatementSettings().quick() if run.quick else StatementSettings()
    run.expect(len(settings.priors) + 1)
    rows: list[Row] = []
    for prior in settings.priors:
        rows += run.step(f"statements {prior} {settings}", partial(check_prior, prior, settings))
    gaps = {f"({p[0]}, {p[1]})": definition_gap(p, settings.enumerated) for p in settings.priors}
    found = proposition_statements(
        rows, gaps, check_polynomials(settings.largest), check_induction(settings.largest)
    )
    run.tick()
    values = {s.name: s.values for s in found}
    verdict = (
        f"{sum(row['cases'] for row in rows):,} exact comparisons, n ≤ {settings.largest}; exceptions: I "
        f"{values['I-up']['exceptions']} ({values['I-down-printed']['exceptions']:,} below x₀ as printed), "
        f"II "
        f"{values['II']['exceptions']:,} ({values['II']['ends']:,} at the ends), III "
        f"{values['III']['exceptions']} "
        f"(n ≤ {values['III']['largest']})"
    )
    return Outcome(verdict, {"": rows}, {"": _step_plot(settings)}, found, asdict(settings))


def _step_plot(settings: StatementSettings) -> Any:
    figure = new_figure(9, 4.2)
    n = 24
    left, right = (figure.add_subplot(1, 2, i + 1) for i in range(2))
    shown = [p for p in settings.priors if p in (("1", "1"), ("0.5", "0.5"), ("7", "4"), ("0.3", "2"))]
    for i, prior in enumerate(shown):
        floats = (float(prior[0]), float(prior[1]))
        x = np.arange(n)
        label = f"({prior[0]}, {prior[1]})"
        step = step_distance(floats[0] + x, floats[1] + x[::-1])
        left.plot(x, step, marker="osd^"[i], color=f"C{i}", markersize=4, linewidth=1, label=label)
        local = [local_sensitivity((y, n - y), floats) for y in range(n + 1)]
        right.plot(range(n + 1), local, marker="osd^"[i], color=f"C{i}", markersize=4, linewidth=1)
        low, high = balanced((Fraction(prior[0]), Fraction(prior[1])), n)
        right.plot([low, high], [local[low], local[high]], "*", color=f"C{i}", markersize=13)
    left.set_title(f"one step h(x) = H(x, x + 1), n = {n}", fontsize=10)
    right.set_title("local sensitivity; stars: x₀", fontsize=10)
    for axis in (left, right):
        axis.set_xlabel("x (records in the first level)")
        axis.set_ylabel("Hellinger distance")
    figure.legend(loc="outside lower center", ncols=4, frameon=False, title="prior")
    return figure
