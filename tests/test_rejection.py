"""Exact draws of logistic coefficients: their distribution, its promise over all pairs, and what decides."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import chi2

import discreet
from discreet._randomness.cells import Uniform
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import InvalidInputError, NotPrivateError
from discreet.privacy.curves import Curve
from discreet.regression._chain import DrawDesign, draw_design
from discreet.regression._rejection import Candidate, Tangent, rejection
from discreet.regression.release import LogisticRelease
from glm_density import worst_excess
from statistical.goodness import ALPHA, chi_square

FloatArray = npt.NDArray[np.float64]
EPSILONS = np.linspace(0, 3, 13)
REACH = 8.0


def design(n: int, dimension: int, **settings: Any) -> DrawDesign:
    target: dict[str, Any] = {"epsilon": 20, "delta": "1e-6", "method": "diffused", "sampler": "rejection"}
    return draw_design(
        n=n,
        dimension=dimension,
        norm_squared=Fraction(1),
        **{**target, "prior_precision": 1.0, **settings},
    )


def distribution(
    made: DrawDesign, signed: FloatArray, grid: float, centre: FloatArray | None = None
) -> FloatArray:
    """P(nearest multiple of the grid) ∝ ∫ e^{−U} over its cell, by Gauss's rule in every cell."""
    nodes, weights = np.polynomial.legendre.leggauss(6)
    number = math.ceil(REACH / math.sqrt(made.precision) / grid)
    cells = np.arange(-number, number + 1) * grid
    axis = (cells[:, None] + nodes * grid / 2).ravel()
    middle = np.zeros(made.dimension) if centre is None else centre
    axes = [axis + round(value / grid) * grid for value in middle]
    points = np.stack(np.meshgrid(*axes, indexing="ij")).reshape(made.dimension, -1)
    rows, times = np.unique(signed, axis=0, return_counts=True)
    energy = made.weight * (times @ np.logaddexp(0.0, -rows @ points))
    energy += made.precision / 2 * (points**2).sum(axis=0)
    density = np.exp(energy.min() - energy).reshape([len(cells), len(nodes)] * made.dimension)
    for _ in range(made.dimension):  # sums the nodes of a cell, the last coordinate first
        density = np.moveaxis(density @ weights, -1, 0)
    return np.asarray(density / density.sum())


def bound(curve: Curve) -> FloatArray:
    return np.array([curve.delta_at(float(epsilon)) for epsilon in EPSILONS])


def neighbours(records: list[tuple[float, ...]], n: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of datasets of n records that differ in one."""
    datasets = list(combinations_with_replacement(range(len(records)), n))
    return [
        (a, b) for i, a in enumerate(datasets) for b in datasets[:i] if (Counter(a) - Counter(b)).total() == 1
    ]


LINE = [(1.0,), (-1.0,), (0.5,), (-0.5,), (0.2,), (0.0,)]
PLANE = [(0.6, 0.8), (0.6, -0.8), (-1.0, 0.0), (1.0, 0.0), (-0.1, 0.3)]


@pytest.mark.parametrize(("records", "n", "grid"), [(LINE, 3, 0.25), (PLANE, 2, 0.5)])
@pytest.mark.parametrize("precision", [0.25, 2.0])
def test_the_distribution_keeps_its_promise_over_all_pairs(
    records: list[tuple[float, ...]], n: int, grid: float, precision: float
) -> None:
    made = design(n, len(records[0]), prior_precision=precision)
    assert made.guarantee.curve is not None
    promised = bound(made.guarantee.curve)
    distributions: dict[tuple[int, ...], FloatArray] = {}
    pairs = neighbours(records, n)
    assert len(pairs) > 40
    for pair in pairs:
        for dataset in pair:
            if dataset not in distributions:
                distributions[dataset] = distribution(
                    made, np.array([records[i] for i in dataset]), grid
                ).ravel()
        assert worst_excess(distributions[pair[0]], distributions[pair[1]], promised, EPSILONS) <= 1


def test_the_promise_is_nearly_attained() -> None:
    """Others hold w where the losses of two opposite rows are steep: a Δ of half the size would be found."""
    rest = np.tile([-0.1, 0.0], (1600, 1))
    pair = [np.vstack([[[0.3, sign * math.sqrt(0.91) * (1 - 1e-9)]], rest]) for sign in (1, -1)]
    made = design(len(pair[0]), 2, epsilon=3)
    assert made.guarantee.curve is not None
    centre = np.array([-12.0, 0.0])
    p, q = (distribution(made, signed, 0.5, centre).ravel() for signed in pair)
    assert 0.4 < worst_excess(p, q, bound(made.guarantee.curve), EPSILONS) <= 1


@pytest.mark.parametrize("number", [1_500, pytest.param(20_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("rows", "precision"),
    [([[0.9]] * 3 + [[-0.4]], 0.5), ([[0.6, 0.7], [0.6, 0.7], [-0.5, 0.8], [0.0, 0.0], [0.9, -0.3]], 2.0)],
)
def test_draws_have_the_distribution(rows: list[list[float]], precision: float, number: int) -> None:
    """On a grid of about half a deviation; with the false-alarm rate of one statistical test."""
    signed, grid = np.array(rows), Fraction(1, 2)
    made = design(len(rows), signed.shape[1], epsilon=200, delta="1e-6", prior_precision=precision)
    assert made.weight == 1
    drawn = _many(made, signed, grid, number)
    assert _p_value(drawn, distribution(made, signed, float(grid)), float(grid)) > ALPHA
    if number > 10_000:
        wrong = design(len(rows), signed.shape[1], epsilon=200, prior_precision=precision * 1.12)
        assert _p_value(drawn, distribution(wrong, signed, float(grid)), float(grid)) < ALPHA


def _many(made: DrawDesign, signed: FloatArray, grid: Fraction, number: int) -> FloatArray:
    tangent = Tangent(signed, np.full(made.dimension, 0.125), Fraction(1), Fraction(made.precision))
    source = SeededEntropy(5)
    return np.array([tangent.draw(grid, source) for _ in range(number)], dtype=float)


def _p_value(drawn: FloatArray, expected: FloatArray, grid: float) -> float:
    half = expected.shape[0] // 2
    place = np.rint(drawn / grid).astype(int) + half
    observed = np.zeros(expected.shape)
    np.add.at(observed, tuple(place.T), 1.0)
    whole = expected * len(drawn)
    fits = [chi_square(observed.ravel(), whole.ravel())]
    for axis in range(expected.ndim):
        others = tuple(i for i in range(expected.ndim) if i != axis)
        fits.append(chi_square(observed.sum(axis=others), whole.sum(axis=others)))
    return min(1.0, len(fits) * min(float(chi2.sf(*fit)) for fit in fits))


class Scripted:
    """The words that are given, then the last of them for ever."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def below(self, bound: int) -> int:
        assert bound == 1 << 64
        return self.words.pop(0) if len(self.words) > 1 else self.words[0]

    def bytes(self, count: int) -> bytes:
        raise AssertionError("integers only")


ROWS = [[0.6, 0.7], [-0.5, 0.8], [0.1, -0.9]] * 30  # more than one block
WEIGHT, PRECISION = Fraction(1, 3), Fraction(3, 2)


def reference(words: list[int], tail: int, z: list[float]) -> tuple[list[Any], Any]:
    """(w, r) with 60 digits: each word continued by ``tail`` for ever."""
    rows = [[mpmath.mpf(x) for x in row] for row in ROWS]
    rate, precision = mpmath.mpf(1) / 3, mpmath.mpf(3) / 2

    def dot(row: list[Any], point: list[Any]) -> Any:
        return mpmath.fsum(a * b for a, b in zip(row, point, strict=True))

    ends = [mpmath.mpf(word) + mpmath.mpf(tail) / (2**64 - 1) for word in words]
    normals = [mpmath.sqrt(2) * mpmath.erfinv(2 * end / 2**64 - 1) for end in ends]
    gradient = [-mpmath.fsum(row[i] / (1 + mpmath.exp(dot(row, z))) for row in rows) for i in range(2)]
    w = [-rate * g / precision + x / mpmath.sqrt(precision) for g, x in zip(gradient, normals, strict=True)]
    above = mpmath.fsum(mpmath.log1p(mpmath.exp(-dot(row, w))) for row in rows)
    above -= mpmath.fsum(mpmath.log1p(mpmath.exp(-dot(row, z))) for row in rows)
    above -= mpmath.fsum(g * (a - b) for g, a, b in zip(gradient, w, z, strict=True))
    return w, mpmath.exp(-rate * above)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("tail", [0, 2**64 - 1])
def test_the_last_bits_decide(seed: int, tail: int) -> None:
    """A level that agrees with r in its first 64 bits is kept or not by the bits that follow."""
    rng, z = np.random.default_rng(seed), [0.25, -0.5]
    words = [int(word) for word in rng.integers(2**62, 3 * 2**62, 2, dtype=np.uint64)]
    with mpmath.workdps(60):
        w, r = reference(words, tail, z)
        level = int(mpmath.floor(r * 2**64))
        nearest = [int(mpmath.nint(value * 2**20)) for value in w]
    source = Scripted([*words, level, tail])
    tangent = Tangent(np.array(ROWS), np.array(z), WEIGHT, PRECISION)
    candidate = Candidate(tangent, [Uniform(source), Uniform(source)])
    assert candidate.is_accepted(Uniform(source)) == (tail == 0)
    grid = Fraction(1, 2**20)
    assert [candidate.nearest(i, grid) / grid for i in range(2)] == nearest


def test_a_normal_number_is_the_same_at_every_precision() -> None:
    from flint import ctx

    uniform = Uniform(Scripted([3, 7 << 40, 1 << 63]))  # 2⁻⁶²·¾: nine deviations out
    balls = []
    for precision in (128, 256, 512):
        with ctx.workprec(precision):
            balls.append(uniform.normal())
    with mpmath.workdps(40):
        exact = mpmath.sqrt(2) * mpmath.erfinv(2 * (mpmath.mpf(3) + mpmath.mpf(7 << 40) / 2**64) / 2**64 - 1)
    assert all(wide.contains(narrow) for wide, narrow in pairwise(balls))
    assert float(balls[-1]) == pytest.approx(float(exact), rel=1e-14)
    with ctx.workprec(128):
        assert not Uniform(Scripted([0])).normal().is_finite()


def test_normal_numbers_are_enclosed() -> None:
    """At intervals of all places and widths, and out in both tails: erfc of the ends, with many more bits."""
    from flint import arb, ctx

    generator = random.Random(3)
    for _ in range(400):
        word = generator.getrandbits(generator.choice((8, 40, 64))) | 1
        word = word if generator.random() < 0.5 else 2**64 - 1 - word
        uniform = Uniform(Scripted([word, generator.getrandbits(64)]))
        with ctx.workprec(generator.choice((64, 128, 200))):
            found = uniform.normal()
        with ctx.workprec(1000):
            low, high = uniform.ends()
            if found.is_finite():
                root = arb(2).sqrt()
                assert not (-arb(found.lower()) / root).erfc() > 2 * low
                assert not (-arb(found.upper()) / root).erfc() < 2 * high


def test_rows_of_nothing_draw_from_the_prior() -> None:
    made = design(3, 1)
    found = rejection(made, np.zeros((3, 1)), SeededEntropy(2))
    assert np.abs(found).max() < 7
    assert Fraction(float(found[0, 0])) % made.grid == 0


def test_rows_beyond_the_bound_are_refused() -> None:
    """To the last place: nothing is left to rounding."""
    made = design(2, 2)
    for rows in ([[0.6, 0.8 + 1e-15], [0, 0]], [[0.1, 0.1]]):
        with pytest.raises(NotPrivateError, match="must be the n rows of the design"):
            rejection(made, np.array(rows), SeededEntropy(0))


@pytest.mark.parametrize(
    ("settings", "sampler"),
    [
        ({"n": 600, "dimension": 4, "epsilon": 1}, "rejection"),
        ({"n": 10_000, "dimension": 4, "epsilon": "0.1"}, "rejection"),
        ({"n": 600, "dimension": 4, "epsilon": 1, "steps": 50}, "langevin"),
        ({"n": 600, "dimension": 4, "epsilon": 1, "draws": 1000}, "langevin"),
        ({"n": 10_000, "dimension": 10, "epsilon": 1}, "langevin"),
    ],
)
def test_auto_is_exact_where_public_sizes_make_it_quick(settings: dict[str, Any], sampler: str) -> None:
    made = design(**{"sampler": "auto", **settings})
    assert made.sampler == sampler
    assumed = " ".join(made.guarantee.assumptions)
    assert ("double-precision" in assumed) == (sampler == "langevin")
    assert made.guarantee.exact_delta <= Fraction(1, 10**6)


def test_every_model_and_every_draw_takes_its_time() -> None:
    one, several = design(600, 4), design(600, 4, models=3, epsilon=1)
    assert several.seconds > 2.5 * replace(several, models=1).seconds
    assert replace(one, draws=100).seconds > 20 * one.seconds


def test_what_cannot_end_is_refused_by_public_sizes() -> None:
    with pytest.raises(InvalidInputError, match=r"might take .* 'langevin' takes the same time"):
        design(10_000, 30, epsilon=2)
    with pytest.raises(InvalidInputError, match="steps=10 is the length of a chain"):
        design(100, 2, steps=10)
    with pytest.raises(InvalidInputError, match="sampler='nuts' must be one of: auto"):
        design(100, 2, sampler="nuts")
    # δ need not be above what noise in doubles can promise.
    assert design(100, 2, delta="1e-30").guarantee.exact_delta == Fraction(1, 10**30)


def test_a_fit_says_how_it_was_drawn() -> None:
    rng = np.random.default_rng(1)
    rows, labels = rng.uniform(-1, 1, (60, 2)), rng.integers(0, 2, 60)
    asked: dict[str, Any] = {
        "method": "diffused",
        "epsilon": 1,
        "delta": "1e-6",
        "classes": (0, 1),
        "draws": 2,
    }
    document = discreet.PrivateLogisticRegression(**asked).fit(rows, labels).release_
    assert document.private
    assert document.settings["sampler"] == "rejection"
    assert document.settings["steps"] is None
    assert "double" not in str(document.guarantee.to_dict())
    assert "exact posterior draw" in document.guarantee.basis
    assert LogisticRelease.from_json(document.to_json()).to_json() == document.to_json()
    seeded = [discreet.PrivateLogisticRegression(**asked, random_state=3).fit(rows, labels) for _ in range(2)]
    assert (seeded[0].coef_ == seeded[1].coef_).all()
    assert not seeded[0].release_.private
    chained = discreet.PrivateLogisticRegression(**asked, sampler="langevin").fit(rows, labels)
    assert "double-precision" in str(chained.guarantee_.to_dict())


@pytest.mark.parametrize("sign", [1, -1])
def test_draws_follow_the_rows(sign: int) -> None:
    made = design(60, 1, epsilon=200)
    found = [rejection(made, np.full((60, 1), 0.999 * sign), SeededEntropy(seed)) for seed in range(6)]
    assert all(value[0, 0] * sign > 0 for value in found)
