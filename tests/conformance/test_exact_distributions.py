"""Every mechanism's exact distribution: it sums to one, keeps its promise, and has one support for all
datasets."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from conformance.cases import CASES, Case
from conformance.oracle import distribution_matrix, worst_delta, worst_loss
from discreet.errors import NotPrivateError
from discreet.mechanisms import MECHANISMS
from statistical.goodness import ALPHA, combined_p, fit

FLOAT_SLACK = 1e-10  # log-probabilities are floats; nothing private is drawn from them


def heavy(case: Case) -> bool:
    """Three levels: one ε of each prior is enough for every day, and none of the lattice with its tails."""
    return len(case.prior) > 2 and (case.mechanism == "lattice" or case.epsilon != "0.8")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if heavy(case) else case for case in CASES], ids=str
)
def test_exact_distribution(case: Case) -> None:
    for n in case.sizes:
        m = case.build(n)
        points, matrix = distribution_matrix(m)
        np.testing.assert_allclose(np.exp(matrix).sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert np.isfinite(matrix).all(), "an outcome is possible for one dataset and not for another"
        claim = m.guarantee
        if claim.delta == 0:
            assert worst_loss(points, matrix) <= claim.epsilon + FLOAT_SLACK
        else:
            assert worst_delta(points, matrix, claim.epsilon) <= claim.delta + FLOAT_SLACK


TWENTY = (10.0,) * 19 + (1e4,)
"""Levels at which the papers' mechanism is not (ε, δ)-private: proofs/mbeta.md."""


@pytest.mark.parametrize("epsilon", ["0.8", "16"])
@pytest.mark.parametrize(("n", "basis"), [(2, "audit"), pytest.param(3, "theorem", marks=pytest.mark.slow)])
def test_mbeta_at_twenty_levels(n: int, basis: str, epsilon: str) -> None:
    m = Case("mbeta", TWENTY, epsilon, {"delta": "1.52e-8"}).build(n)
    points, matrix = distribution_matrix(m)
    assert basis in m.guarantee.basis
    np.testing.assert_allclose(np.exp(matrix).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert worst_delta(points, matrix, m.guarantee.epsilon) <= m.guarantee.delta + 1e-15
    assert worst_loss(points, matrix) > 0.1 * m.guarantee.epsilon, "it says something"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_public_contract(case: Case) -> None:
    m = case.build(6)
    counts = (6,) + (0,) * (m.k - 1)
    if not m.guarantee.is_private:
        with pytest.raises(NotPrivateError, match="acknowledge_not_private"):
            m.draw(counts)
    released = m.draw(counts, acknowledge_not_private=not m.guarantee.is_private)
    assert isinstance(released, tuple)
    assert len(released) == m.k
    assert all(type(value) is int and 0 <= value <= 6 for value in released)
    outputs, log_probability = m.log_pmf(counts)
    assert outputs.shape == (len(log_probability), m.k)
    assert np.issubdtype(outputs.dtype, np.integer)
    assert len(np.unique(outputs, axis=0)) == len(outputs)
    simulated = m.simulate(counts, size=50, seed=0)
    assert simulated.shape == (50, m.k)
    assert np.issubdtype(simulated.dtype, np.integer)
    np.testing.assert_array_equal(simulated, m.simulate(counts, size=50, seed=0))
    possible = set(map(tuple, outputs.tolist()))
    assert {tuple(row) for row in simulated.tolist()} <= possible
    assert released in possible
    assert m.guarantee.relation == "replace-one"
    if m.guarantee.is_private:
        assert m.guarantee.epsilon == float(case.epsilon)
    rebuilt = Case(m.name, case.prior, case.epsilon, {})
    assert rebuilt.mechanism in MECHANISMS
    assert type(m)(**m.parameters()) == m


@pytest.mark.parametrize("case", CASES, ids=str)
def test_simulation_follows_the_distribution(case: Case) -> None:
    """The fast path and the exact distribution agree: chi-square of 2·10⁵ draws, joint and by coordinate."""
    m = case.build(7)
    counts = (3, 4) if m.k == 2 else (1, 2, 4)
    outputs, log_probability = m.log_pmf(counts)
    drawn = m.simulate(counts, size=200_000, seed=1)
    assert combined_p([fit(drawn, outputs, np.exp(log_probability))]) >= ALPHA


def test_simulation_with_a_wrong_scale_is_noticed() -> None:
    claimed = Case("lszhang", (1.0, 1.0), "3").build(12)
    wrong = Case("lszhang", (1.0, 1.0), "3.06").build(12)
    drawn = wrong.simulate((5, 7), size=200_000, seed=1)
    outputs, log_probability = claimed.log_pmf((5, 7))
    assert combined_p([fit(drawn, outputs, np.exp(log_probability))]) < ALPHA


@pytest.mark.parametrize("epsilon", ["0.1", "0.8", "3"])
@pytest.mark.parametrize(
    ("name", "k", "share"),
    [
        ("lszhang", 2, 1),
        ("lszhang", 3, 1),
        ("lshist", 2, 1),
        ("lshist", 3, 1),
        ("lsdim", 2, 1 / 2),
        ("lsdim", 3, 2 / 3),
    ],
)
def test_noise_is_not_larger_than_it_need_be(name: str, k: int, share: float, epsilon: str) -> None:
    """The exact loss is what the proof page says, not only below the claim: too much noise is a fault too."""
    m = Case(name, (1.0,) * k, epsilon).build(7)
    assert worst_loss(*distribution_matrix(m)) == pytest.approx(share * float(epsilon), abs=1e-9)


def test_worst_loss_notices_a_wrong_scale() -> None:
    """The oracle itself can fail: a mechanism whose noise is 2 % too small breaks its claim."""
    honest = discreet.mechanism("lshist", prior=(1, 1), n=12, epsilon="0.8")
    careless = discreet.mechanism("lshist", prior=(1, 1), n=12, epsilon="0.816")
    assert worst_loss(*distribution_matrix(careless)) > honest.guarantee.epsilon + FLOAT_SLACK
