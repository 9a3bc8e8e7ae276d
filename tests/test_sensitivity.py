"""Sensitivities against brute force over all datasets, against enclosures, and the inequality behind them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from flint import arb, ctx, fmpq, fmpq_poly
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet._numerics.hellinger import hellinger
from discreet.errors import InvalidInputError
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    log_w,
    smooth_sensitivity,
    step_distance,
)


@cache
def datasets(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """All count vectors of n records over k levels, and the number of records to replace between any two."""
    points = np.array([c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n])
    return points, np.abs(points[:, None] - points[None]).sum(axis=-1) // 2


def all_local(points: np.ndarray, distance: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Local sensitivity of every dataset: the largest Hellinger distance to a neighbour."""
    x, y = np.nonzero(np.triu(distance == 1))
    step = hellinger(points[x] + prior, points[y] + prior)
    local = np.zeros(len(points))
    np.maximum.at(local, x, step)
    np.maximum.at(local, y, step)
    return local


def random_prior(rng: np.random.Generator, k: int) -> np.ndarray:
    prior = np.exp(rng.uniform(math.log(0.05), math.log(10), k))
    return np.full(k, prior[0]) if rng.random() < 0.2 else prior


@pytest.mark.parametrize("k", [2, 3, 4])
def test_against_all_datasets(k: int) -> None:
    rng = np.random.default_rng(k)
    worst = 0.0
    for _ in range(400):
        n = int(rng.integers(1, 13))
        points, distance = datasets(n, k)
        prior = random_prior(rng, k)
        local = all_local(points, distance, prior)
        gamma, beta = np.exp(rng.uniform(math.log(1e-3), math.log(10), 2))
        found, truth = [global_sensitivity(n, prior)], [local.max()]
        for i in rng.integers(len(points), size=4):
            c, d = points[i], distance[i]
            found += [local_sensitivity(c, prior)]
            truth += [local[i]]
            found += [smooth_sensitivity(c, prior, gamma=gamma), smooth_sensitivity(c, prior, beta=beta)]
            truth += [(1 / (1 / local + gamma * d)).max(), (local * np.exp(-beta * d)).max()]
        worst = max(worst, float(np.abs(np.subtract(found, truth)).max()))
    assert worst < 1e-12


@pytest.mark.parametrize(("k", "n"), [(2, 1), (2, 12), (3, 1), (3, 9), (4, 5)])
def test_sensitivity_of_the_score_is_the_step(k: int, n: int) -> None:
    """max over candidates r of |H(x, r) − H(x', r)| = H(x, x') for all neighbours."""
    points, distance = datasets(n, k)
    prior = random_prior(np.random.default_rng(n), k)
    table = hellinger(points[:, None] + prior, points[None] + prior)
    for x, y in np.argwhere(distance == 1):
        moved = np.abs(table[x] - table[y]).max()
        i, j = np.argmax(points[x] - points[y]), np.argmin(points[x] - points[y])
        step = float(step_distance(prior[i] + points[x, i] - 1, prior[j] + points[x, j]))
        assert moved == pytest.approx(table[x, y], abs=1e-13)
        assert step == pytest.approx(table[x, y], abs=1e-12)


@pytest.mark.parametrize("case", range(40))
def test_against_a_scan_of_long_paths(case: int) -> None:
    """k = 2 and k = 3 with hundreds of records: every c' that matters, not only the ends of the segments."""
    rng = np.random.default_rng(case)
    prior = np.exp(rng.uniform(math.log(1e-3), math.log(100), 3))
    gamma, beta = np.exp(rng.uniform(math.log(1e-4), math.log(0.3), 2))
    two = rng.integers((1, 0), 3000)
    three = rng.integers((1, 0, 0), 60)
    n = int(two.sum())
    m = np.arange(1, n + 1)
    local = np.concatenate([step_distance(prior[i] + m - 1, prior[1 - i] + n - m) for i in (0, 1)])
    d = np.concatenate([np.abs(m - two[i]) for i in (0, 1)])
    check_smooth(two, prior[:2], local, d, gamma, beta)
    locals_, distances = [], []
    for i, j in itertools.permutations(range(3), 2):
        x, y = np.meshgrid(np.arange(1, three.sum() + 1), np.arange(three.sum()))
        x, y = x[x + y <= three.sum()], y[x + y <= three.sum()]
        locals_.append(step_distance(prior[i] + x - 1, prior[j] + y))
        change = np.array([x - three[i], y - three[j]])
        distances.append((np.abs(change).sum(axis=0) + np.abs(change.sum(axis=0))) / 2)
    check_smooth(three, prior, np.concatenate(locals_), np.concatenate(distances), gamma, beta)


def check_smooth(
    c: np.ndarray, prior: np.ndarray, local: np.ndarray, d: np.ndarray, gamma: float, beta: float
) -> None:
    truth = float((1 / (1 / local + gamma * d)).max())
    assert smooth_sensitivity(c, prior, gamma=gamma) == pytest.approx(truth, rel=1e-13)
    assert smooth_sensitivity(c, prior, beta=beta) == pytest.approx(
        float((local * np.exp(-beta * d)).max()), rel=1e-13
    )


def test_many_categories_need_only_the_undominated() -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        k = int(rng.integers(5, 12))
        c = rng.integers(0, 6, k) + np.eye(k, dtype=int)[0]
        prior = rng.choice([0.1, 0.3, 1.0, 2.5], k)
        gamma = float(np.exp(rng.uniform(-4, 1)))
        best = max(
            value for i, j in itertools.permutations(range(k), 2) for value in corners(c, prior, i, j, gamma)
        )
        assert smooth_sensitivity(c, prior, gamma=gamma) == pytest.approx(best, rel=1e-14)


def corners(c: np.ndarray, prior: np.ndarray, i: int, j: int, gamma: float) -> list[float]:
    """The smooth candidates of one ordered pair when there is a third category."""
    if c[i]:
        points = [(x, y, c[i] - 1 - x + c[j] - y) for x in (c[i] - 1, 0) for y in (c[j], 0)]
    else:
        points = [(0, max(c[j] - 1, 0), 1), (0, 0, max(c[j], 1))]
    return [1 / (1 / float(step_distance(prior[i] + x, prior[j] + y)) + gamma * d) for x, y, d in points]


def test_published_values() -> None:
    constant = math.sqrt(1 - math.pi / 4)
    assert constant == pytest.approx(0.46325, abs=5e-6)
    for n, prior in ((50, (1, 1, 1)), (1, (1, 1)), (1, (1, 1, 1, 1))):
        assert global_sensitivity(n, prior) == pytest.approx(constant, rel=1e-14)
    assert global_sensitivity(50, (0.5,) * 3) == pytest.approx(0.60281, abs=5e-6)
    assert global_sensitivity(2000, (1, 1)) == pytest.approx(0.3374, abs=5e-5)
    assert global_sensitivity(10**15, (1, 1)) == pytest.approx(
        math.sqrt(1 - math.sqrt(math.pi) / 2), rel=1e-12
    )
    # first row of both tables of the notes, section 3.4.1
    assert local_sensitivity((4, 4), 1) == pytest.approx(0.233629480709, abs=1e-12)
    assert local_sensitivity((20, 20, 20), 1) == pytest.approx(0.110122822057, abs=1e-12)


def test_the_papers_constant() -> None:
    assert global_sensitivity(9, (1, 2, 7), sensitivity="paper") == math.sqrt(1 - math.pi / 4)
    assert global_sensitivity(9, (1, 2, 7)) <= global_sensitivity(9, (1, 2, 7), "paper")
    with pytest.raises(InvalidInputError, match="sensitivity='paper' is too small"):
        global_sensitivity(9, (0.999, 2, 7), sensitivity="paper")


# Against enclosures


def exact_log_w(t: arb | float) -> arb:
    ctx.prec = 400
    t = arb(t)
    return (t + arb(1) / 2).lgamma() - t.lgamma() - t.log() / 2


def exact_step(t: arb, s: arb) -> arb:
    return (1 - (exact_log_w(t) + exact_log_w(s)).exp()).sqrt()


@given(
    st.floats(min_value=-12, max_value=15).map(lambda e: 10.0**e) | st.floats(min_value=1e-6, max_value=30)
)
@settings(max_examples=500, deadline=None)
def test_log_w_against_enclosures(t: float) -> None:
    assert abs(float(arb(float(log_w(t))) / exact_log_w(t) - 1)) < 2e-15


def test_log_w_at_the_seams_and_the_ends() -> None:
    seams = [v for s in (0.5, 12.0) for v in (np.nextafter(s, 0), s, np.nextafter(s, 99))]
    for t, value in zip(seams, log_w(seams), strict=True):
        assert abs(float(arb(float(value)) / exact_log_w(float(t)) - 1)) < 2e-15
    assert log_w(1e-300) == pytest.approx(0.5 * math.log(math.pi * 1e-300), rel=1e-14)
    assert log_w(1e300) == pytest.approx(-1.25e-301, rel=1e-14)
    assert log_w(1.0) == pytest.approx(math.log(math.pi) / 2 - math.log(2), rel=1e-14)
    assert log_w(np.ones((2, 3))).shape == (2, 3)
    assert log_w([]).shape == (0,)


T = 10**12


@pytest.mark.parametrize("prior", [1e-3, 1e-9, 0.5, 1.0, 7.25])
@pytest.mark.parametrize(
    "counts",
    [(T, T), (T, 0), (1, T), (T, T + 1, T - 7), (T, 0, 0), (0, 3, T), (1, 1, T), (10**6, 10**9, T, T)],
)
@pytest.mark.parametrize("rate", [1e-13, 1e-7, 0.01, 2.0])
def test_large_counts_against_enclosures(counts: tuple[int, ...], prior: float, rate: float) -> None:
    ctx.prec = 400
    alpha, k, n = arb(prior), len(counts), sum(counts)
    steps: dict[tuple[int, int, int], arb] = {}  # (records kept in i beyond one, records in j, moved)
    for i, j in itertools.permutations(range(k), 2):
        ci, cj = counts[i], counts[j]
        if k == 2:
            points = [(m - 1, n - m, abs(m - ci)) for m in (1, ci, n) if m]
        elif ci:
            points = [(x, y, ci - 1 - x + cj - y) for x in (ci - 1, 0) for y in (cj, 0)]
        else:
            points = [(0, max(cj - 1, 0), 1), (0, 0, max(cj, 1))]
        steps |= {point: exact_step(alpha + point[0], alpha + point[1]) for point in points}
    local = max(float(step) for (_, _, d), step in steps.items() if d == 0)
    gamma = max(float(1 / (1 / step + arb(rate) * d)) for (_, _, d), step in steps.items())
    beta = max(float(step * (-arb(rate) * d).exp()) for (_, _, d), step in steps.items())
    assert local_sensitivity(counts, prior) == pytest.approx(local, rel=1e-14)
    assert smooth_sensitivity(counts, prior, gamma=rate) == pytest.approx(gamma, rel=1e-14)
    assert smooth_sensitivity(counts, prior, beta=rate) == pytest.approx(beta, rel=1e-14)


def test_extreme_inputs_give_finite_answers() -> None:
    huge = (10**299, 10**299)
    assert local_sensitivity(huge, 1) == pytest.approx(0.5e-149 / math.sqrt(10), rel=1e-12)
    for rate in (5e-324, 1e308):
        for c in (huge, (0, 0, 10**250), (1, 0), (0, 0, 1)):
            assert 0 < smooth_sensitivity(c, 1e-300, gamma=rate) <= 1
            assert 0 < smooth_sensitivity(c, 1e-300, beta=rate) <= 1
    assert smooth_sensitivity(range(10_000), 1, gamma=1e-9) == pytest.approx(global_sensitivity(9, (1, 1, 1)))


# The property that the mechanisms rest on


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], list[float]]:
    k = draw(st.integers(2, 5))
    size = st.one_of(st.integers(0, 4), st.integers(0, 300), st.integers(0, 10**12))
    c = draw(st.lists(size, min_size=k, max_size=k))
    i, j = draw(st.permutations(range(k)))[:2]
    c[i] += 1
    moved = list(c)
    moved[i] -= 1
    moved[j] += 1
    prior = draw(st.lists(st.floats(1e-3, 50), min_size=k, max_size=k))
    return tuple(c), tuple(moved), prior


rates = st.floats(min_value=-14, max_value=1).map(lambda e: 10.0**e)


@given(neighbours(), rates)
@settings(max_examples=400, deadline=None)
def test_smooth_between_neighbours(
    pair: tuple[tuple[int, ...], tuple[int, ...], list[float]], rate: float
) -> None:
    """Up to the rounding of S itself, which is relative: 1/S_γ ~ 10⁶ carries an error of about 10⁻⁹."""
    x, y, prior = pair
    a, b = (1 / smooth_sensitivity(c, prior, gamma=rate) for c in (x, y))
    assert abs(a - b) <= rate * (1 + 1e-12) + 1e-14 * max(a, b)
    a, b = (smooth_sensitivity(c, prior, beta=rate) for c in (x, y))
    assert max(a, b) <= math.exp(rate) * min(a, b) * (1 + 1e-14)
    assert local_sensitivity(x, prior) <= min(a, b) * math.exp(rate) * (1 + 1e-14)
    assert max(a, b) <= global_sensitivity(sum(x), prior) * (1 + 1e-14)


# The inequality w''(1−w) + (3/2)w'² ≤ 0, which makes 1/L concave


def quotient(n: fmpq_poly, d: fmpq_poly) -> tuple[fmpq_poly, fmpq_poly]:
    common = n.gcd(d)
    return n // common, d // common


def rational_bound(factor: fmpq) -> tuple[fmpq_poly, fmpq_poly]:
    """D/(4t+1) − G²(1+W)(1+(factor−1)W) of the proof page, as numerator and denominator in t."""
    t = fmpq_poly([0, 1])
    r, u = 2 * t * (t + 1) * (2 * t + 1), t + 1
    g = quotient(8 * u**2 + r, 8 * u**2 * r)
    derivative = quotient(4 * u**2 - 1, 16 * u**5)
    d = quotient(derivative[0] * r**2 + r.derivative() * derivative[1], derivative[1] * r**2)
    w = (8 * t + 1, 8 * t + 2)
    right = (g[0] ** 2 * (w[1] + w[0]) * (w[1] + (factor - 1) * w[0]), g[1] ** 2 * w[1] ** 2)
    left = (d[0], d[1] * (4 * t + 1))
    return quotient(left[0] * right[1] - right[0] * left[1], left[1] * right[1])


def test_the_polynomial_of_the_proof_is_positive() -> None:
    numerator, denominator = rational_bound(fmpq(3, 2))
    t = fmpq_poly([0, 1])
    q = fmpq_poly([16, 56, 353, 3413, 7392, 6660, 2976, 512])
    assert numerator * (512 * t**2 * (t + 1) ** 5 * (2 * t + 1) ** 2 * (4 * t + 1) ** 2) == q * denominator
    failing, _ = rational_bound(fmpq(3))
    assert min(failing.coeffs()) < 0


def cells_hold(factor: float, low: float, high: float, ratio: float) -> bool:
    """−g'(1−w) ≥ g²(1+(factor−1)w) on [low, high], cell by cell: −g', 1−w and g decrease, w increases."""
    ctx.prec = 160
    half, a = arb(1) / 2, arb(low)
    g = (a + half).digamma() - a.digamma() - half / a
    while a < high:
        b = a * ratio
        slope = arb(2).zeta(b) - arb(2).zeta(b + half) - half / b**2  # −g'(b)
        w = ((b + half).lgamma() - b.lgamma() - b.log() / 2).exp()
        if not slope * (1 - w) >= g**2 * (1 + (factor - 1) * w):
            return False
        a, g = b, (b + half).digamma() - b.digamma() - half / b
    return True


def test_the_inequality_cell_by_cell() -> None:
    assert cells_hold(1.5, 1e-12, 1e6, 1 + 1 / 32)
    assert not cells_hold(3, 1e-12, 1e6, 1 + 1 / 32)
    # the factor may go up to 2 as t grows, and no further: the check sees the difference
    assert cells_hold(1.99, 1e5, 1.0001e5, 1 + 2**-20)
    assert not cells_hold(2.01, 1e5, 1.0001e5, 1 + 2**-20)


@pytest.mark.parametrize("t", [1e-9, 1e-3, 0.2, 1.0, 5.0, 1e3])
def test_the_bounds_of_the_proof(t: float) -> None:
    """g < G, −g' > D and w² < 4t/(4t+1), as the polynomial uses them."""
    ctx.prec = 160
    x, half = arb(t), arb(1) / 2
    u, r = x + 1, 2 * x * (x + 1) * (2 * x + 1)
    g = (x + half).digamma() - x.digamma() - half / x
    slope = arb(2).zeta(x) - arb(2).zeta(x + half) - half / x**2
    assert g < 1 / r + 1 / (8 * u**2)
    assert slope > (12 * x**2 + 12 * x + 2) / r**2 + 1 / (4 * u**3) - 1 / (16 * u**5)
    assert (2 * exact_log_w(t)).exp() < 4 * x / (4 * x + 1)


# Bad input


@pytest.mark.parametrize(
    ("counts", "prior", "message"),
    [
        ((3, -1), 1, "counts must not be negative"),
        ((3, 1.5), 1, "counts must be a sequence of 2 whole numbers"),
        ((3, "7"), 1, "counts must be a sequence"),
        ("37", 1, "counts must be a sequence"),
        ((3, math.nan), 1, "counts must be a sequence"),
        ((3, math.inf), 1, "counts must be a sequence"),
        ((3, None), 1, "counts must be a sequence"),
        ((True, 3), 1, "counts must be a sequence"),
        (37, 1, "counts must be a sequence"),
        ({1: 37, 2: 3}, 1, "not a mapping"),
        ((0, 0), 1, "n=0 must be at least 1"),
        ((), 1, "at least two levels"),
        ((37,), 1, "at least two levels"),
        ((3, 7), 0, "prior=0 must be positive"),
        ((3, 7), (1, math.inf), "prior=.* must be positive and finite"),
        ((3, 7), (1, 1, 1), "3 parameters for 2 levels"),
        ((3, 7), "ab", "prior='ab' must contain numbers only"),
        ((10**301, 7), 1, "at most 1e300"),
        ((3, 7), (1, 1e301), "at most 1e100"),
    ],
)
def test_bad_data(counts: object, prior: object, message: str) -> None:
    for call in (local_sensitivity, lambda c, a: smooth_sensitivity(c, a, gamma=1)):
        with pytest.raises(InvalidInputError, match=message) as caught:
            call(counts, prior)
        assert "37" not in str(caught.value)
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("name", ["gamma", "beta"])
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, "x", True, [1]])
def test_bad_rates(name: str, value: object) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}="):
        smooth_sensitivity((3, 7), 1, **{name: value})


def test_exactly_one_rate() -> None:
    for rates in ({}, {"gamma": 1, "beta": 1}, {"gamma": None}):
        with pytest.raises(InvalidInputError, match="exactly one of gamma and beta"):
            smooth_sensitivity((3, 7), 1, **rates)


def test_rates_of_any_kind_of_number() -> None:
    expected = smooth_sensitivity((3, 7), 1, gamma=0.25)
    for rate in (Fraction(1, 4), "1/4", np.float32(0.25)):
        assert smooth_sensitivity(np.array([3, 7]), (1, 1), gamma=rate) == expected


@pytest.mark.parametrize("n", [0, -3, 1.5, "4", math.nan, 10**301])
def test_bad_size(n: object) -> None:
    with pytest.raises(InvalidInputError, match="n"):
        global_sensitivity(n, (1, 1))


def test_bad_global() -> None:
    with pytest.raises(InvalidInputError, match="one parameter per level"):
        global_sensitivity(5, 1.0)
    with pytest.raises(InvalidInputError, match="sensitivity='loose' must be"):
        global_sensitivity(5, (1, 1), sensitivity="loose")
    with pytest.raises(InvalidInputError, match="prior="):
        global_sensitivity(5, (1, -1))
