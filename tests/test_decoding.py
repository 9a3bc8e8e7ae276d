"""The decoder against the definition, and the lattice mechanism against the limit of any mechanism."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog
from scipy.special import gammaln

import discreet
import shorthand
from conformance.oracle import datasets, neighbours
from discreet._numerics.log_gamma import log_rising
from discreet.answers.release import Release
from discreet.mechanisms.lattice import Decoder, Lattice, round_to_total


def prior_predictive(points: np.ndarray, prior: tuple[float, ...]) -> np.ndarray:
    value = (gammaln(points + np.array(prior)) - gammaln(points + 1.0)).sum(axis=1)
    return np.exp(value - np.logaddexp.reduce(value))


def expected_error(m: discreet.Mechanism) -> float:
    points = np.array(datasets(m.n, m.k))
    total = 0.0
    for c, weight in zip(points, prior_predictive(points, m.prior), strict=True):
        outputs, log_probability = m.log_pmf(c)
        distance = discreet.hellinger(outputs + np.array(m.prior), c + np.array(m.prior))
        total += weight * float(np.exp(log_probability) @ distance)
    return total


def least_error(prior: tuple[float, ...], n: int, epsilon: float) -> float:
    """The linear program over all ε-private mechanisms from datasets to posteriors of datasets."""
    points = datasets(n, len(prior))
    index = {c: i for i, c in enumerate(points)}
    array, size = np.array(points), len(points)
    distance = discreet.hellinger((array + np.array(prior))[:, None], (array + np.array(prior))[None])
    pairs = np.array([(index[c], index[d]) for c in points for d in neighbours(c)])
    rows = np.arange(len(pairs) * size)
    left = (pairs[:, [0]] * size + np.arange(size)).ravel()
    right = (pairs[:, [1]] * size + np.arange(size)).ravel()
    ratio = sparse.csr_matrix(
        (
            np.concatenate([np.ones(len(rows)), np.full(len(rows), -math.exp(epsilon))]),
            (np.concatenate([rows, rows]), np.concatenate([left, right])),
        ),
        shape=(len(rows), size * size),
    )
    ones = sparse.kron(sparse.eye(size), np.ones((1, size)), format="csr")
    solved = linprog(
        (prior_predictive(array, prior)[:, None] * distance).ravel(),
        A_ub=ratio,
        b_ub=np.zeros(len(rows)),
        A_eq=ones,
        b_eq=np.ones(size),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert solved.success
    return float(solved.fun)


@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.8, 2])
@pytest.mark.parametrize("prior", [(1.0, 1.0), (7.0, 4.0)])
@pytest.mark.parametrize("n", [8, 20, 60])
def test_two_levels_reach_the_limit(n: int, prior: tuple[float, ...], epsilon: float) -> None:
    ours = expected_error(discreet.mechanism("lattice", prior=prior, n=n, epsilon=epsilon))
    limit = least_error(prior, n, epsilon)
    assert limit - 1e-9 <= ours <= 1.0001 * limit


@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 0.8, 2])
@pytest.mark.parametrize("n", [5, 8])
def test_three_levels_come_within_a_tenth_of_the_limit(n: int, epsilon: float) -> None:
    prior = (1.0, 1.0, 1.0)
    ours = expected_error(discreet.mechanism("lattice", prior=prior, n=n, epsilon=epsilon))
    limit = least_error(prior, n, epsilon)
    assert limit - 1e-9 <= ours <= 1.10 * limit


def test_a_worse_decoder_is_noticed() -> None:
    """The comparison with the limit can fail: releasing the clamped noisy count is measurably worse."""
    m = discreet.mechanism("lattice", prior=(7, 4), n=20, epsilon=0.5)
    points = np.array(datasets(20, 2))
    clamped = 0.0
    for c, weight in zip(points, prior_predictive(points, m.prior), strict=True):
        noisy, log_probability = m._clipped_pair(tuple(c))  # type: ignore[attr-defined]
        distance = discreet.hellinger(noisy + np.array(m.prior), c + np.array(m.prior))
        clamped += weight * float(np.exp(log_probability) @ distance)
    assert clamped > 1.0001 * least_error(m.prior, 20, 0.5)


priors = st.sampled_from([(1.0, 1.0), (0.5, 0.5), (7.0, 4.0), (0.01, 3.0), (200.0, 30.0)])


@given(priors, st.integers(1, 400), st.sampled_from([0.02, 0.1, 0.8, 3.0]), st.floats(0, 1))
def test_window_equals_all_candidates(prior: tuple[float, ...], n: int, epsilon: float, at: float) -> None:
    """k = 2: the windowed minimiser for large n is the one found among all candidates."""
    z = round(at * n)
    everything = Decoder(prior, n, Fraction(str(epsilon)))
    exact = everything.decode_many(np.array([[z, n - z]]))[0]
    assert Decoder(prior, n, Fraction(epsilon)).by_pair(z) == exact[0]
    assert everything.decode((z, n - z)) == tuple(exact)


@pytest.mark.parametrize("n", [10**6, 10**12, 10**30])
def test_the_window_finds_a_minimum_at_any_n(n: int) -> None:
    prior, epsilon, z = (1.0, 2.0), 0.3, n // 3
    s = Decoder(prior, n, Fraction(epsilon)).by_pair(z)
    assert abs(s - z) <= 1
    edge = Decoder(prior, n, Fraction(epsilon)).by_pair(0)
    assert 0 <= edge <= 10


USUAL = [((1.0,) * 3, 30), ((0.5,) * 3, 30), ((2.0, 3.0, 4.0), 30), ((1.0,) * 4, 12), ((1.0,) * 5, 8)]


@pytest.mark.parametrize(
    ("settings", "epsilons", "limit"),
    [
        pytest.param(USUAL, (0.1, 0.5, 1, 2), 1.02, marks=pytest.mark.slow),
        (USUAL[2:4], (0.1, 1), 1.02),
        ([((0.1,) * 3, 30)], (0.1, 0.5, 1), 1.25),
    ],
    ids=["usual priors", "some of them", "a sparse prior"],
)
def test_medians_against_the_exact_minimiser(
    settings: list[tuple[tuple[float, ...], int]], epsilons: tuple[float, ...], limit: float
) -> None:
    """k ≥ 3: what the scalable rule costs in expected error, where the exact one can be had."""
    worst = 0.0
    for prior, n in settings:
        for epsilon in epsilons:
            d = Decoder(prior, n, Fraction(str(epsilon)))
            rng = np.random.default_rng(7)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                m = discreet.mechanism("lattice", prior=prior, n=n, epsilon=epsilon)
            true = d.candidates[rng.choice(len(d.candidates), 600, p=prior_predictive(d.candidates, prior))]
            noisy = np.clip(true + m.simulate_noise(600, rng), 0, n)  # type: ignore[attr-defined]
            rows, weight = np.unique(noisy, axis=0, return_counts=True)
            log_weight = d._log_prior - 0.5 * epsilon * np.abs(rows[:, None] - d.candidates).sum(axis=2)
            posterior = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
            cost = posterior / posterior.sum(axis=1, keepdims=True) @ d.distances
            index = {tuple(c): i for i, c in enumerate(d.candidates.tolist())}
            rule = [index[Decoder(prior, n, Fraction(epsilon)).by_medians(tuple(z))] for z in rows.tolist()]
            worst = max(worst, float(weight @ cost[range(len(rows)), rule] / (weight @ cost.min(axis=1))))
    print(f"interpolated medians: at most {worst:.4f} times the least expected error")
    assert 1 <= worst <= limit


@given(
    st.lists(st.integers(0, 10**30), min_size=2, max_size=6),
    st.lists(st.floats(0, 1e6), min_size=6, max_size=6),
    st.integers(0, 10**6),
)
def test_rounding_keeps_the_total(starts: list[int], values: list[float], extra: int) -> None:
    n = sum(starts) + extra
    rounded = round_to_total(starts, values[: len(starts)], n)
    assert sum(rounded) == n
    assert min(rounded) >= 0


@pytest.mark.parametrize("epsilon", ["1e-6", "0.003", "1", "50"])
@pytest.mark.parametrize(("n", "k"), [(10**6, 2), (10**5, 5), (300, 40)])
def test_any_noise_decodes_to_a_dataset(n: int, k: int, epsilon: str) -> None:
    d = Decoder((0.7,) * k, n, Fraction(epsilon))
    first = n // 2 + 50
    for noisy in (
        (first, n - first) + (0,) * (k - 2),
        (n + 90, -90) + (0,) * (k - 2),
        (-5, n + 5) + (0,) * (k - 2),
    ):
        released = d.decode(noisy)
        assert sum(released) == n
        assert min(released) >= 0
        assert released == d.decode(tuple(min(max(z, 0), n) for z in noisy))


@pytest.mark.parametrize("a", [0.001, 1.0, 3.5, 1000.0])
def test_log_rising(a: float) -> None:
    from flint import arb, ctx

    ctx.prec = 300
    for x in (0, 1, 7, 10**4, 10**9, 10**15):
        truth = float((arb(a) + x).lgamma() - (arb(1) + x).lgamma())
        assert float(log_rising(a, x)) == pytest.approx(truth, rel=1e-11, abs=1e-12)


def test_counts_are_decoded_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    decode = Lattice.decode
    monkeypatch.setattr(Lattice, "decode", lambda self, noisy: asked.append(noisy) or decode(self, noisy))
    released = shorthand.shares(
        {"a": 30, "b": 20, "c": 10}, levels=("a", "b", "c"), epsilon=1, mechanism="lattice"
    )
    assert sum(released.noisy) == 60
    assert asked == []
    assert sum(released.counts) == 60
    assert Release.from_json(released.to_json()) == released
    assert asked == [released.noisy]
