"""Mechanisms for an unknown number of records: every pair of datasets of n and n + 1 records, 0 included."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

import discreet
from discreet._declarations import Relation
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import InvalidInputError
from discreet.mechanisms.independent import GaussianCounts, Geometric, IndependentNoise
from discreet.privacy.curves import Gaussian
from statistical.goodness import ALPHA, chi_square

PRIORS = ((1.0, 1.0), (0.5, 2.0), (1.0, 1.0, 1.0))
EPSILONS = ("0.1", "0.8", "3")
SLACK = 1e-10


def geometric(prior: tuple[float, ...], epsilon: str) -> Geometric:
    built = discreet.mechanism("geometric", prior=prior, epsilon=epsilon)
    assert isinstance(built, Geometric)
    return built


def pairs(n: int, k: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """(c, c + e_i) for all datasets c of n records."""
    result = []
    for c in itertools.product(range(n + 1), repeat=k):
        if sum(c) == n:
            result += [(c, (*c[:i], c[i] + 1, *c[i + 1 :])) for i in range(k)]
    return result


def losses(m: IndependentNoise, n: int) -> np.ndarray:
    """The largest log-ratio of the distribution of any two neighbours, both ways, over all outcomes up to n +
    2."""
    worst = []
    for c, d in pairs(n, m.k):
        x, y = m.log_pmf(c, upper=n + 2)[1], m.log_pmf(d, upper=n + 2)[1]
        possible = np.isfinite(x) | np.isfinite(y)
        worst.append(np.abs(x[possible] - y[possible]).max())
    return np.array(worst)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_the_loss_of_geometric_is_epsilon_for_every_size(prior: tuple[float, ...], epsilon: str) -> None:
    m = geometric(prior, epsilon)
    for n in range(13 if m.k == 2 or (epsilon, prior) == ("0.8", PRIORS[-1]) else 6):
        distribution = np.exp(m.log_pmf((n,) + (0,) * (m.k - 1), upper=n + 2)[1])
        assert distribution.sum() == pytest.approx(1.0, abs=1e-12)
        np.testing.assert_allclose(losses(m, n), float(epsilon), rtol=0, atol=SLACK)


def test_planted_faults_are_found() -> None:
    assert losses(geometric((1.0, 1.0), "0.816"), 3).max() > 0.8 + SLACK  # noise 2 % too small

    class OneBare(Geometric):
        def clipped_distribution(self, count: int, upper: int) -> np.ndarray:
            distribution = np.full(upper + 1, -np.inf)
            distribution[min(count, upper)] = 0.0
            return distribution

    assert np.isinf(losses(OneBare(prior=(1.0, 1.0), epsilon=Fraction(1)), 1)).all()


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_published_loss_is_that_of_randomised_response(epsilon: str) -> None:
    m = geometric((1.0, 1.0), epsilon)
    loss = m.published_loss()
    assert loss.epsilon == float(epsilon)
    v = np.arange(-3000, 3001)
    p = np.exp(m.noise.log_pmf(v.astype(float)))
    q = np.exp(m.noise.log_pmf(v - 1.0))
    for e in (0.0, 0.05, float(epsilon) / 2, float(epsilon)):
        assert loss.delta(e) == pytest.approx(float(np.maximum(p - math.exp(e) * q, 0).sum()), abs=1e-12)


def test_the_empty_dataset_is_answered_without_a_word(recwarn: pytest.WarningsRecorder) -> None:
    m = geometric((1.0, 1.0, 1.0), "0.001")
    output = m.run((0, 0, 0))
    assert len(output.counts) == 3
    assert not recwarn.list
    assert m.guarantee.relation is Relation.ADD_REMOVE
    assert "n" not in m.parameters()
    assert type(m)(**m.parameters()) == m
    with pytest.raises(InvalidInputError, match="'n' is not an option of 'geometric'"):
        discreet.mechanism("geometric", prior=(1, 1), n=10, epsilon=1)


def test_released_counts_are_counts_where_all_noisy_ones_are_negative() -> None:
    m = geometric((1.0, 1.0), "0.5")
    assert m.decode((-3, -1)) == (0, 0)
    assert m.decode((-3, 7)) == (0, 7)


def test_noise_that_is_replayed_moves_with_the_data_and_with_nothing_else() -> None:
    """The same noise on neighbours: outputs differ by the record, in one place."""
    m = geometric((1.0,) * 40, "0.5")
    outputs = [m._noisy(counts, SeededEntropy(5)) for counts in ((0,) * 40, (0,) * 39 + (1,))]
    assert np.flatnonzero(np.array(outputs[1]) - np.array(outputs[0])).tolist() == [39]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_draws_of_geometric_follow_its_distribution(epsilon: str) -> None:
    m = geometric((1.0,) * 200, epsilon)
    source = SeededEntropy(8)
    counts = (3,) * 200
    drawn = np.array([m._noisy(counts, source) for _ in range(200)]).ravel()
    top = 3 + math.ceil(8 / float(epsilon))
    observed = np.bincount(np.clip(drawn, 0, top), minlength=top + 1)
    distribution = np.exp(m.clipped_distribution(3, top))
    assert chi2.sf(*chi_square(observed, len(drawn) * distribution)) > ALPHA
    simulated = m.simulate(counts, size=200, seed=3).ravel()
    observed = np.bincount(np.clip(simulated, 0, top), minlength=top + 1)
    assert chi2.sf(*chi_square(observed, len(drawn) * distribution)) > ALPHA


# Gaussian


def gaussian(n: int | None, **target: str) -> GaussianCounts:
    built = discreet.mechanism("gaussian", prior=(1.0, 1.0), n=n, **target)  # type: ignore[arg-type]
    assert isinstance(built, GaussianCounts)
    return built


@pytest.mark.parametrize("n", [None, 40])
@pytest.mark.parametrize("target", [{"mu": "0.5"}, {"rho": "2"}, {"epsilon": "1", "delta": "1e-4"}], ids=str)
def test_delta_of_gaussian_is_at_most_its_curve(n: int | None, target: dict[str, str]) -> None:
    """Enumerated: two counts change by one where n is public, one where it is not."""
    m = gaussian(n, **target)
    reach = m.reach + 2
    v = np.arange(-reach, reach + 1.0)
    p, q = np.exp(m.noise.log_pmf(v)), np.exp(m.noise.log_pmf(v - 1))
    near, far = (np.outer(p, p), np.outer(q, q[::-1])) if n else (p, q)
    curve = Gaussian(m.mu_squared)
    for epsilon in np.linspace(0, 4, 9) * curve.mu:
        exact = float(np.maximum(near - math.exp(epsilon) * far, 0).sum())
        assert exact <= curve.delta_at(float(epsilon)) + 1e-12
        if m.noise_scale > 2:  # rounding costs little where the noise is wide
            assert exact >= 0.85 * curve.delta_at(float(epsilon)) - 1e-9
    # A record that counts twice is found out.
    double = np.exp(m.noise.log_pmf(v - 2))
    assert n or np.maximum(p - double, 0).sum() > curve.delta_at(0.0)


def test_gaussian_has_the_relation_of_what_is_public() -> None:
    known, unknown = gaussian(10, mu="0.5"), gaussian(None, mu="0.5")
    assert (known.guarantee.relation, unknown.guarantee.relation) == ("replace-one", "add-remove")
    assert known.variance == 2 * unknown.variance == 8
    assert known.guarantee.mu == unknown.guarantee.mu == 0.5
    for m in (known, unknown):
        assert type(m)(**m.parameters()) == m
        assert np.exp(m.log_pmf((4, 6))[1]).sum() == pytest.approx(1.0, abs=1e-12)
    pair = gaussian(10, epsilon="1", delta="1e-6").guarantee
    assert (pair.epsilon, pair.delta) == (1.0, 1e-6)
    assert pair.delta_at(1) <= 1e-6


@pytest.mark.parametrize("target", [{}, {"epsilon": "1"}, {"delta": "0.1"}, {"mu": "1", "rho": "1"}], ids=str)
def test_gaussian_needs_one_target(target: dict[str, str]) -> None:
    with pytest.raises(InvalidInputError, match="needs one of"):
        gaussian(10, **target)


def test_gaussian_infers_with_its_total() -> None:
    m = gaussian(50, mu="0.5")
    distribution = m.true_counts((20, 30), (17, 29))
    (start, p), _ = distribution.marginals()
    x = np.arange(51.0)
    log = m.noise.log_pmf(17 - x) + m.noise.log_pmf(29 - (50 - x))
    exact = np.exp(log - log.max())
    np.testing.assert_allclose(p, (exact / exact.sum())[start : start + len(p)], atol=1e-12)
