"""Sums from raw records to noise, against brute force over neighbours: nothing of the library is an oracle.

The variance or rate of the noise on every published coordinate is caught where it is drawn, the exact sums
of neighbouring datasets where they are noised. The loss follows from these by a line of arithmetic.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest

from discreet.regression import means
from discreet.regression._newton import rounds
from discreet.regression._newton import sums as newton_sums
from discreet.regression._newton.sums import RoundSums
from shorthand import mean_request, regress_request

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 10**6)


def hockey_stick(mu_squared: Fraction, epsilon: Fraction) -> mpmath.mpf:
    """δ(ε) of N(0, 1) against N(μ, 1)."""
    with mpmath.workdps(60):
        mu, e = (
            mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator),
            mpmath.mpf(epsilon.numerator),
        )
        e /= epsilon.denominator
        return mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)


# ---- means ---------------------------------------------------------------------------------------------


def caught(monkeypatch: pytest.MonkeyPatch, question: Any) -> list[tuple[Fraction, Fraction]]:
    """Rates (or 1/variances, squared distances) of the noises of one group: (weight, power)."""
    found: list[tuple[Fraction, Fraction]] = []

    def laplace(p: int, q: int, source: Any) -> int:
        found.append((Fraction(p, q), Fraction(1)))
        return 0

    def gaussian(variance: Fraction, source: Any) -> int:
        found.append((1 / Fraction(variance), Fraction(2)))
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(means, "discrete_laplace", laplace)
        patch.setattr(means, "rounded_gaussian", gaussian)
        question.design.noise.draw(None)  # type: ignore[arg-type]
    return found


def loss(
    weights: list[tuple[Fraction, Fraction]], one: dict[Any, Any], other: dict[Any, Any], counted: bool
) -> Fraction:
    """ε of two datasets, or μ² with Gaussian noise. Sums are (count, Σu, Σu²), noise (Σu, Σu², count)."""
    total = Fraction(0)
    for group in one:
        moved = [abs(a - b) for a, b in zip(one[group], other[group], strict=True)]
        for (weight, power), distance in zip(weights, (moved[1], moved[2], moved[0]), strict=True):
            if distance is not moved[0] or counted:
                total += weight * Fraction(distance) ** int(power)
    return total


VALUES = (-np.inf, 0.0, 0.1, 1.7, 2.5, 4.9, 5.0, 5.1, 7.3, 9.99, 10.0, 80.0)


@pytest.mark.parametrize("delta", [None, DELTA])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("by", [False, True])
@pytest.mark.parametrize("missing", [None, "exclude", 3.0])
def test_means_of_all_pairs_of_neighbours(
    delta: Fraction | None, relation: str, by: bool, missing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"by": "g", "levels": ("a", "b")} if by else {}
    question = mean_request(
        column="x",
        bounds=(0, 10),
        epsilon=EPSILON,
        delta=delta,
        relation=relation,
        missing=missing,
        **options,
    )
    weights = caught(monkeypatch, question)
    values = VALUES if missing is None else (*VALUES, np.nan)
    others = [(3.0, "a"), (8.0, "b")]

    def sums(records: list[tuple[float, str]]) -> dict[Any, Any]:
        frame = pd.DataFrame(records, columns=["x", "g"])
        return question.design.sums(frame)[0]

    each = [sums([*others, record]) for record in itertools.product(values, "ab" if by else "a")]
    pairs = (
        ((sums(others), one) for one in each) if relation == "add-remove" else itertools.permutations(each, 2)
    )
    counted = by or missing == "exclude" or relation == "add-remove"
    most = max(loss(weights, one, other, counted) for one, other in pairs)
    if delta is None:
        assert most <= EPSILON
        assert most >= EPSILON * Fraction(99, 100) or (missing is None and not by) or relation == "add-remove"
    else:
        assert hockey_stick(most, EPSILON) <= delta
    # Nothing is given away: the worst pair comes near to the claim, so that half the noise would be found.
    assert most > (EPSILON / 2 if delta is None else 0)


@pytest.mark.parametrize("delta", [None, DELTA])
@pytest.mark.parametrize("by", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_means_of_all_pairs_of_people(
    delta: Fraction | None, by: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person of up to three records, of whom two enter, replaced by another; the rest stays."""
    options: dict[str, Any] = {"by": "g", "levels": ("a", "b")} if by else {}
    question = mean_request(
        column="x", bounds=(0, 10), epsilon=EPSILON, delta=delta, person="p", per_person=2, n=4, **options
    )
    weights = caught(monkeypatch, question)
    rest = [(2.0, "a", "q"), (9.0, "b", "q")]
    own = list(itertools.product((0.0, 5.0, 10.0), "ab" if by else "a"))
    everyone = [
        question.design.sums(pd.DataFrame([*rest, *((x, g, "p") for x, g in mine)], columns=["x", "g", "p"]))[
            0
        ]
        for size in (2, 3)
        for mine in itertools.combinations_with_replacement(own, size)
    ]
    most = max(loss(weights, one, other, by) for one, other in itertools.combinations(everyone, 2))
    if delta is None:
        assert EPSILON * Fraction(9, 10) <= most <= EPSILON
    else:
        assert hockey_stick(most, EPSILON) <= delta


# ---- regressions ---------------------------------------------------------------------------------------


class Watched:
    """All rounds of a fit on one dataset: exact sums and the variance of the noise of every coordinate.

    The released sums are the same for all datasets, so that all are asked the same questions.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rounds: list[tuple[list[int], list[Fraction]]] = []
        self.kept: list[RoundSums] = []
        self.real: Callable[..., RoundSums] = newton_sums.add_noise
        monkeypatch.setattr(rounds, "add_noise", self)
        monkeypatch.setattr(newton_sums, "rounded_gaussians", self.tagged)
        self.tags: list[Fraction] = []

    def tagged(self, variance: Fraction, size: int, source: Any) -> list[int]:
        start = len(self.tags)
        self.tags += [Fraction(variance)] * size
        return [(start + i + 1) << 200 for i in range(size)]

    def __call__(self, sums: RoundSums, noise: Any, source: Any) -> RoundSums:
        self.tags = []
        out = self.real(sums, noise, source)
        flat = [*out.gradient, *out.curvature, *out.outer, out.square]
        variances, exact = [], []
        seen = set()
        for value in flat:
            tag = (value + (1 << 199)) >> 200  # sums are far smaller: the noise of a coordinate by its tag
            if tag == 0:
                assert value == 0, "a coordinate is published without noise"
                continue
            assert tag not in seen, "two coordinates share their noise"
            seen.add(tag)
            variances.append(self.tags[tag - 1])
            exact.append(value - (tag << 200))
        self.rounds.append((exact, variances))
        at = len(self.rounds) - 1
        if at == len(self.kept):
            width = len(sums.gradient)
            diagonal = np.cumsum([0, *range(width, 1, -1)]).tolist()
            triangle = [40_000_000 * (i in diagonal) for i in range(len(out.curvature))]
            outer = tuple(triangle) if out.outer else ()
            self.kept.append(RoundSums((1000,) * width, tuple(triangle), 10**9 * (out.square != 0), outer))
        return self.kept[at]

    def fit(self, question: Any, records: list[tuple[Any, ...]]) -> list[tuple[list[int], list[Fraction]]]:
        self.rounds = []
        frame = pd.DataFrame(records, columns=["x", "s", "y", "p"])
        question.fit(frame, question.person)
        return self.rounds


FAMILIES: dict[str, Any] = {
    "gaussian": ({"y": (-5, 5)}, {}, (-9.0, -5.0, 0.3, 5.0)),
    "binomial": ({}, {"y": ("no", "yes")}, ("no", "yes")),
    "multinomial": ({}, {"y": ("u", "v", "w")}, ("u", "v", "w")),
    "poisson": ({"y": (0, 20)}, {}, (0, 33)),
}


def asked(family: str, **options: Any) -> tuple[Any, list[tuple[Any, ...]]]:
    if family == "robust":
        family, options["options"] = "gaussian", {"errors": "robust"}
    bounds, levels, answers = FAMILIES[family]
    question = regress_request(
        "y ~ x + s",
        family=family,
        bounds={"x": (0, 10), **bounds},
        levels={"s": ("f", "m"), **levels},
        epsilon=EPSILON,
        delta=DELTA,
        **options,
    )
    return question.regression, list(itertools.product((-3.0, 4.0, 10.0), "fm", answers))


def squared(
    one: list[tuple[list[int], list[Fraction]]], other: list[tuple[list[int], list[Fraction]]]
) -> Fraction:
    """μ² of all rounds together."""
    total = Fraction(0)
    for (mine, variances), (theirs, same) in zip(one, other, strict=True):
        assert variances == same, "the noise depends on the data"
        total += sum((a - b) ** 2 / v for a, b, v in zip(mine, theirs, variances, strict=True))
    return total


@pytest.mark.parametrize("family", [*sorted(FAMILIES), "robust"])
@pytest.mark.parametrize("relation", ["replace-one", pytest.param("add-remove", marks=pytest.mark.slow)])
def test_regressions_of_all_pairs_of_neighbours(
    family: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question, places = asked(family, relation=relation, missing={"x": "exclude"})
    watched = Watched(monkeypatch)
    rest = [(*place, "q") for place in places[:4]]
    every = [
        watched.fit(question, [*rest, (*place, "p")]) for place in [*places, (np.nan, "f", places[0][2])]
    ]
    if relation == "add-remove":
        without = watched.fit(question, rest)
        most = max(squared(without, one) for one in every)
    else:
        most = max(squared(one, other) for one, other in itertools.combinations(every, 2))
    assert len(every[0]) == {"gaussian": 3, "robust": 3, "poisson": 6}.get(family, 3)
    assert hockey_stick(most, EPSILON) <= DELTA
    # With half the noise it would not hold; two gradients of several classes are never quite opposite.
    assert hockey_stick(most * (6 if family == "multinomial" else 4), EPSILON) > DELTA


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_regressions_of_pairs_of_people(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    question, places = asked(family, person="p", per_person=2, n=6)
    watched = Watched(monkeypatch)
    rest = [(*place, name) for place, name in zip(places[:4], "qqrr", strict=True)]
    ends = [places[0], places[1], places[-1], places[-2]]
    every = [
        watched.fit(question, [*rest, *((*place, "p") for place in mine)])
        for size in (2, 3)
        for mine in itertools.combinations_with_replacement(ends, size)
    ]
    most = max(squared(one, other) for one, other in itertools.combinations(every, 2))
    assert hockey_stick(most, EPSILON) <= DELTA
    assert hockey_stick(most * 5, EPSILON) > DELTA


def test_descent_is_within_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of the gradient alone: every one is counted."""
    question, places = asked("binomial", n=6)
    question = replace(question, aim="prediction")
    monkeypatch.setattr(rounds, "MOST_PREDICTED", 0)
    watched = Watched(monkeypatch)
    rest = [(*place, "q") for place in places[:5]]
    ends = [places[0], places[1], places[-1], places[-2]]
    every = [watched.fit(question, [*rest, (*place, "p")]) for place in ends]
    assert len(every[0]) >= 5
    most = max(squared(one, other) for one, other in itertools.combinations(every, 2))
    assert hockey_stick(most, EPSILON) <= DELTA
    assert hockey_stick(most * 4, EPSILON) > DELTA
