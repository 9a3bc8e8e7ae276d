from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from conformance.oracle import datasets
from discreet._numerics.count_vectors import Separable, compositions, number_of_compositions
from discreet._randomness.bulk import uniform_composition
from discreet._randomness.entropy import SeededEntropy
from discreet._randomness.weights import IntegerSeparable
from discreet.errors import InvalidInputError
from statistical.goodness import ALPHA, chi_square


@pytest.mark.parametrize(("n", "k"), [(0, 3), (5, 1), (5, 2), (7, 3), (4, 5)])
def test_compositions_are_complete_and_in_order(n: int, k: int) -> None:
    rows = [tuple(row) for row in compositions(n, k).tolist()]
    assert rows == sorted(datasets(n, k))
    assert len(rows) == number_of_compositions(n, k)


def brute_force(log_weights: list[np.ndarray], n: int) -> tuple[float, list[np.ndarray]]:
    rows = np.array(datasets(n, len(log_weights)))
    value = sum(w[rows[:, i]] for i, w in enumerate(log_weights))
    log_z = np.logaddexp.reduce(value)
    p = np.exp(value - log_z)
    return float(log_z), [np.bincount(rows[:, i], p, minlength=n + 1) for i in range(len(log_weights))]


@given(st.integers(2, 4), st.integers(0, 9), st.integers(0, 2**31), st.floats(0.1, 30))
def test_against_brute_force(k: int, n: int, seed: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    log_weights = [rng.normal(0, spread, n + 1) for _ in range(k)]
    log_z, marginals = brute_force(log_weights, n)
    distribution = Separable.of(log_weights, n)
    assert distribution.log_normaliser == pytest.approx(log_z, abs=1e-9)
    for (start, mass), truth in zip(distribution.marginals(), marginals, strict=True):
        full = np.zeros(n + 1)
        full[start : start + len(mass)] = mass
        np.testing.assert_allclose(full, truth, atol=1e-12 + distribution.truncation)
    assert sum(distribution.mean()) == pytest.approx(n, abs=1e-8)


def test_dirichlet_multinomial_normaliser_at_scale() -> None:
    """A closed form to compare with: n = 10⁵ and ten categories."""
    alpha, n = np.array([0.3, 1, 1, 2, 5, 0.5, 1, 1, 3, 10]), 100_000
    b = np.arange(n + 1)
    distribution = Separable.of([gammaln(a + b) - gammaln(b + 1) - gammaln(a) for a in alpha], n)
    truth = gammaln(alpha.sum() + n) - gammaln(n + 1) - gammaln(alpha.sum())
    assert distribution.log_normaliser == pytest.approx(truth, rel=1e-9)
    np.testing.assert_allclose(distribution.mean(), n * alpha / alpha.sum(), rtol=1e-7)
    assert distribution.truncation < 1e-12


def test_offsets_of_any_size() -> None:
    base = 10**30
    steps = np.arange(-200, 201)
    distribution = Separable.of([-0.5 * np.abs(steps)] * 3, 3 * base, [base - 200] * 3)
    (start, mass) = distribution.marginals()[0]
    assert start + int(np.argmax(mass)) == base
    assert mass.sum() == pytest.approx(1)


def test_truncation_bound_holds() -> None:
    """Windows cut on purpose: the marginals move by less than the bound says."""
    n, k = 40, 3
    weights = [-0.9 * np.abs(np.arange(n + 1) - c) for c in (10, 12, 18)]
    full = Separable.of(weights, n)
    theta_free = [w.copy() for w in weights]
    for w in theta_free:
        w[w < w.max() - 9] = -np.inf
    cut = Separable.of(theta_free, n)
    lost = sum(float(np.exp(w[w < w.max() - 9]).sum() / np.exp(w).sum()) for w in weights)
    bound = 2 * lost / full._hit
    for (s1, m1), (s2, m2) in zip(full.marginals(), cut.marginals(), strict=True):
        a, b = np.zeros(n + 1), np.zeros(n + 1)
        a[s1 : s1 + len(m1)] = m1
        b[s2 : s2 + len(m2)] = m2
        assert 0 < np.abs(a - b).sum() / 2 <= bound
    assert k == full.k


def test_samples_follow_the_distribution() -> None:
    from scipy.stats import chi2

    n = 9
    rng = np.random.default_rng(3)
    weights = [rng.normal(0, 1, n + 1) for _ in range(3)]
    distribution = Separable.of(weights, n)
    rows = np.array(datasets(n, 3))
    value = sum(w[rows[:, i]] for i, w in enumerate(weights))
    p = np.exp(value - np.logaddexp.reduce(value))
    size = 100_000
    drawn = distribution.sample(size, np.random.default_rng(4))
    assert (drawn.sum(axis=1) == n).all()
    key = {tuple(r): i for i, r in enumerate(rows.tolist())}
    observed = np.bincount([key[tuple(r)] for r in drawn.tolist()], minlength=len(rows)).astype(float)
    statistic, df = chi_square(observed, size * p)
    assert chi2.sf(statistic, df) >= ALPHA


@given(st.integers(2, 4), st.integers(0, 2**31))
def test_integer_weights_are_summed_and_drawn_exactly(k: int, seed: int) -> None:
    """Every value of the source leads to a composition, each as often as its weight says."""
    rng = np.random.default_rng(seed)
    windows = [(int(rng.integers(0, 3)), rng.integers(1, 4, rng.integers(2, 4)).tolist()) for _ in range(k)]
    total = sum(low for low, _ in windows) + int(rng.integers(0, 1 + sum(len(w) - 1 for _, w in windows)))
    distribution = IntegerSeparable(windows, total)
    weights = {b: distribution.weight(b) for b in datasets(total, k)}
    assert distribution.size == sum(weights.values())
    source = SeededEntropy(seed)
    drawn = {distribution.draw(source) for _ in range(200)}
    assert drawn <= {b for b, weight in weights.items() if weight}
    marginals = distribution.floats.marginals()
    for i, (start, mass) in enumerate(marginals):
        for j, p in enumerate(mass):
            exact = sum(w for b, w in weights.items() if b[i] == start + j) / distribution.size
            assert p == pytest.approx(exact, abs=1e-12)


def test_exact_draws_follow_the_distribution() -> None:
    from scipy.stats import chi2

    distribution = IntegerSeparable([(0, [5, 1, 7, 2]), (1, [3, 3, 9]), (0, [1, 8, 2, 4, 6])], 6)
    rows = [b for b in datasets(6, 3) if distribution.weight(b)]
    source = SeededEntropy(1)
    drawn = [distribution.draw(source) for _ in range(40_000)]
    observed = np.array([drawn.count(b) for b in rows], dtype=float)
    statistic, df = chi_square(
        observed, 40_000 * np.array([distribution.weight(b) / distribution.size for b in rows])
    )
    assert chi2.sf(statistic, df) >= ALPHA


def test_uniform_compositions() -> None:
    from scipy.stats import chi2

    source = SeededEntropy(2)
    rows = datasets(5, 3)
    drawn = [uniform_composition(5, 3, source) for _ in range(20_000)]
    observed = np.array([drawn.count(b) for b in rows], dtype=float)
    statistic, df = chi_square(observed, np.full(len(rows), 20_000 / len(rows)))
    assert chi2.sf(statistic, df) >= ALPHA


@pytest.mark.parametrize("total", [-1, 7])
def test_unreachable_totals(total: int) -> None:
    with pytest.raises(InvalidInputError):
        Separable.of([np.zeros(3), np.zeros(4)], total)


def test_ends_of_the_range() -> None:
    assert Separable.of([np.zeros(3), np.zeros(4)], 5).mean() == [2.0, 3.0]
    assert Separable.of([np.zeros(3), np.zeros(4)], 0).mean() == [0.0, 0.0]
