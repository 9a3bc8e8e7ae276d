"""Levels found in the data: δ enumerated over neighbours; the chance to be published, and the optimum."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from discreet._randomness.entropy import SeededEntropy
from discreet.mechanisms.discovery import Discovery
from statistical.goodness import ALPHA, chi_square

CASES = [
    ("1", "1e-6"),
    ("1/2", "1e-3"),
    ("3", "1/50"),
    ("1/10", "1/100"),
    ("2", "1/2"),
    ("1/4", "1e-9"),
    ("1e-6", "1/40"),
]


def made(epsilon: str, delta: str) -> Discovery:
    return Discovery(Fraction(epsilon), Fraction(delta))


def distribution(records: int, epsilon: float, threshold: int, cut: int) -> dict[int | None, float]:
    """What is published of a level: a noisy count above ``threshold``, or nothing."""
    weights = {x: math.exp(-epsilon * abs(x)) for x in range(-cut, cut + 1)}
    whole = math.fsum(weights.values())
    found: dict[int | None, float] = {None: 0.0}
    for x, weight in weights.items():
        z = records + x
        if records and z > threshold:
            found[z] = weight / whole
        else:
            found[None] = (found[None] or 0.0) + weight / whole
    return found


def enumerated(epsilon: float, threshold: int, cut: int, rate: float | None = None) -> float:
    """δ(ε) over all pairs of c and c + 1 records, both ways, for noise of this rate."""
    worst = 0.0
    for c in range(2 * cut + 5):
        one, other = (distribution(records, rate or epsilon, threshold, cut) for records in (c, c + 1))
        for p, q in ((one, other), (other, one)):
            excess = (p[z] - math.exp(epsilon) * q.get(z, 0.0) for z in p)
            worst = max(worst, math.fsum(value for value in excess if value > 1e-15))
    return worst


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_delta_is_enumerated(epsilon: str, delta: str) -> None:
    m = made(epsilon, delta)
    last = float(m._last(m.threshold))
    found = enumerated(float(m.epsilon), m.threshold, m.threshold)
    assert found == pytest.approx(last, rel=1e-6, abs=1e-13)
    assert found <= float(m.delta) * (1 + 1e-6)
    assert m.threshold == 1 or float(m._last(m.threshold - 1)) > float(m.delta)


def test_planted_faults_are_found() -> None:
    m = made("1", "1e-6")
    t, last = m.threshold, float(m._last(m.threshold))
    assert enumerated(1.0, t, t) == pytest.approx(last, rel=1e-6)
    for threshold, cut in ((t - 1, t), (t - 1, t - 1), (t, t + 1), (0, t)):
        assert enumerated(1.0, threshold, cut) > 1.3 * last
    assert enumerated(1.0, t, t, rate=1.02) > 1e-3  # noise that is 2 % small


@pytest.mark.parametrize(("epsilon", "delta"), CASES)
def test_a_level_is_published_as_often_as_is_possible(epsilon: str, delta: str) -> None:
    m = made(epsilon, delta)
    rate, last = float(m.epsilon), float(m._last(m.threshold))
    optimum = 0.0
    for c in range(2 * m.threshold + 4):
        assert m.publication_probability(c) == pytest.approx(optimum, rel=1e-9, abs=1e-15)
        by_distribution = 1 - distribution(c, rate, m.threshold, m.threshold)[None]
        assert m.publication_probability(c) == pytest.approx(by_distribution, abs=1e-12)
        bounds = math.exp(rate) * optimum + last, 1 - math.exp(-rate) * (1 - optimum - last), 1.0
        optimum = min(bounds)
    assert m.publication_probability(0) == 0.0
    assert m.publication_probability(1) <= float(m.delta)
    assert (
        m.publication_probability(m.records_needed(0.5))
        >= 0.5
        > m.publication_probability(m.records_needed(0.5) - 1)
    )


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1/100"), ("1/4", "1/10")])
def test_the_noise_follows_its_distribution(epsilon: str, delta: str) -> None:
    m = made(epsilon, delta)
    t, draws = m.threshold, 20_000
    found = m.run({f"{i:05}": 10 * t for i in range(draws)}, SeededEntropy(3))
    assert len(found) == draws
    noise = np.array(list(found.values())) - 10 * t
    assert np.abs(noise).max() <= t
    expected = np.exp(-float(m.epsilon) * np.abs(np.arange(-t, t + 1)))
    observed = np.bincount(noise + t, minlength=2 * t + 1).astype(float)
    p = expected / expected.sum()
    assert chi2.sf(*chi_square(observed, draws * p)) >= ALPHA
    wrong = np.exp(-1.05 * float(m.epsilon) * np.abs(np.arange(-t, t + 1)))
    assert np.abs(wrong / wrong.sum() - p).max() > 1e-3
    assert m.deviation == pytest.approx(float(noise.std()), rel=0.05)
    assert np.mean(np.abs(noise) <= m.noise_bound(0.9)) >= 0.88


def test_levels_without_enough_records_are_never_published() -> None:
    m = made("1", "1e-6")
    assert m.run({}) == {}
    assert m.run({"none": 0, "a": 10**6}, SeededEntropy(1)).keys() == {"a"}
    few = m.run({str(i): 1 for i in range(5000)}, SeededEntropy(2))
    assert not few
    often = made("1", "1/20")
    assert not often.run({str(i): 0 for i in range(2000)}, SeededEntropy(4))
    for records in (1, 2, often.threshold):
        share = len(often.run({str(i): records for i in range(20_000)}, SeededEntropy(records))) / 20_000
        chance = often.publication_probability(records)
        assert abs(share - chance) < 6 * math.sqrt(chance * (1 - chance) / 20_000)
