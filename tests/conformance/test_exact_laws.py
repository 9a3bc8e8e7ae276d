"""Every mechanism's exact law: it sums to one, keeps its promise, and has one support for all datasets."""

from __future__ import annotations

import numpy as np
import pytest

import discreet
from conformance.cases import CASES, SIZES, Case
from conformance.oracle import law_matrix, worst_delta, worst_loss
from discreet.mechanisms import MECHANISMS

FLOAT_SLACK = 1e-10  # log-probabilities are floats; nothing private is drawn from them


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_law(case: Case) -> None:
    for n in SIZES:
        m = case.build(n)
        points, matrix = law_matrix(m)
        np.testing.assert_allclose(np.exp(matrix).sum(axis=1), 1.0, rtol=0, atol=1e-12)
        assert np.isfinite(matrix).all(), "an outcome is possible for one dataset and not for another"
        claim = m.guarantee
        if claim.delta == 0:
            assert worst_loss(points, matrix) <= claim.epsilon + FLOAT_SLACK
        else:
            assert worst_delta(points, matrix, claim.epsilon) <= claim.delta + FLOAT_SLACK


@pytest.mark.parametrize("case", CASES, ids=str)
def test_public_contract(case: Case) -> None:
    m = case.build(6)
    counts = (6,) + (0,) * (m.k - 1)
    if not m.guarantee.is_private:
        with pytest.raises(discreet.NotPrivateError, match="acknowledge_not_private"):
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
def test_simulation_follows_the_law(case: Case) -> None:
    """The fast path and the exact law agree: total variation of 2·10⁵ draws, far outside sampling error."""
    m = case.build(7)
    counts = (3, 4) if m.k == 2 else (1, 2, 4)
    outputs, log_probability = m.log_pmf(counts)
    probability = np.exp(log_probability)
    index = {row: i for i, row in enumerate(map(tuple, outputs.tolist()))}
    size = 200_000
    rows, occurrences = np.unique(m.simulate(counts, size=size, seed=1), axis=0, return_counts=True)
    observed = np.zeros(len(probability))
    for row, number in zip(map(tuple, rows.tolist()), occurrences, strict=True):
        observed[index[row]] = number
    # E|observed − expected| ≤ √(size·p(1−p)) per cell, and changing one draw moves the sum by at most 2:
    # by McDiarmid it exceeds that mean by √(2 size ln(1e9)) with probability below 1e-9.
    bound = np.sqrt(size * probability * (1 - probability)).sum() + np.sqrt(2 * size * np.log(1e9))
    assert np.abs(observed - size * probability).sum() <= bound


def test_worst_loss_notices_a_wrong_scale() -> None:
    """The oracle itself can fail: a mechanism whose noise is 2 % too small breaks its claim."""
    honest = discreet.mechanism("lshist", prior=(1, 1), n=12, epsilon="0.8")
    careless = discreet.mechanism("lshist", prior=(1, 1), n=12, epsilon="0.816")
    assert worst_loss(*law_matrix(careless)) > honest.guarantee.epsilon + FLOAT_SLACK
