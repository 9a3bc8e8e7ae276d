"""The sparse release: its loss enumerated over neighbours; draws against dense noise and a threshold."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from discreet._numerics.enclosures import ball
from discreet._randomness.bulk import successes
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms.sparse import Sparse
from statistical.goodness import ALPHA, chi_square


def noise(rate: float, low: int, high: int) -> np.ndarray:
    """Two-sided geometric noise on {low, …, high}."""
    return math.tanh(rate / 2) * np.exp(-rate * np.abs(np.arange(low, high + 1)))


def level_distribution(count: int, rate: float, tau: int, top: int) -> np.ndarray:
    """What is published of one level: nothing, or τ, τ + 1, …, top."""
    above = noise(rate, tau - count, top - count)
    return np.append(1 - math.exp(-rate * (tau - count)) / (1 + math.exp(-rate)), above) if count < tau else (
        np.append(math.exp(-rate * (count - tau + 1)) / (1 + math.exp(-rate)), above)
    )  # fmt: skip


def distribution(counts: tuple[int, ...], m: Sparse, top: int) -> np.ndarray:
    """P of every output: an axis for each level, and one for the noisy number of all other records."""
    rate, rest_rate = float(m.level_epsilon), float(m.rest_epsilon)
    each = [level_distribution(c, rate, m.threshold, top) for c in counts]
    found = np.empty([len(p) for p in each] + [2 * top + 1])
    for at in product(*(range(len(p)) for p in each)):
        rest = sum(c for c, place in zip(counts, at, strict=True) if place == 0)
        chance = math.prod(p[place] for p, place in zip(each, at, strict=True))
        found[at] = chance * noise(rest_rate, -top - rest, top - rest)
    return found


CASES = [("1", 2, "1/2"), ("2", 2, "1/10"), ("1/2", 2, "1"), ("1", 3, "1/4"), ("5", 3, "2")]


@pytest.mark.parametrize(("epsilon", "k", "false"), CASES)
def test_the_loss_is_epsilon_over_all_neighbours(epsilon: str, k: int, false: str) -> None:
    m = Sparse(Fraction(epsilon), k, Fraction(false))
    top = m.threshold + 6
    most = m.threshold + 1 if k == 2 else 2
    distributions = {
        c: distribution(c, m, top) for c in product(range(most + 2), repeat=k) if sum(c) <= most + 1
    }
    worst = 0.0
    for one, p in distributions.items():
        for i in range(k):
            q = distributions.get(tuple(c + (j == i) for j, c in enumerate(one)))
            if q is not None:
                worst = max(worst, float(np.abs(np.log(p / q)).max()))
    assert worst <= float(m.epsilon) + 1e-9
    if k == 2:  # attained by a level that stays below the threshold against all odds
        assert worst == pytest.approx(float(m.epsilon), abs=1e-9)


@pytest.mark.parametrize("false", ["1/1000", "1", "1000", "1000000"])
@pytest.mark.parametrize("epsilon", ["3", "1", "1/10", "1/1000"])
def test_the_threshold_is_the_least_that_keeps_its_word(epsilon: str, false: str) -> None:
    m = Sparse(Fraction(epsilon), 10**9, Fraction(false))

    def expected(tau: int) -> Fraction:
        return (
            10**9
            * Fraction(math.exp(-float(m.level_epsilon) * tau))
            / Fraction(1 + math.exp(-float(m.level_epsilon)))
        )

    assert expected(m.threshold) <= m.expected_false * (1 + Fraction(1, 10**9))
    assert m.threshold == 1 or expected(m.threshold - 1) > m.expected_false * (1 - Fraction(1, 10**9))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="between 2 and"):
        Sparse(Fraction(1), 1)
    with pytest.raises(InvalidInputError, match="between 2 and"):
        Sparse(Fraction(1), 10**19)
    for false in (0, -1, 10**7):
        with pytest.raises(InvalidInputError, match="expected_false"):
            Sparse(Fraction(1), 10, Fraction(false))
    with pytest.raises(TooLargeError, match="stand out"):
        _ = Sparse(Fraction(1, 10**15), 10).threshold


def close(observed: float, trials: int, chance: float) -> bool:
    """Within six standard deviations: a false alarm is rarer than 1e-8."""
    return abs(observed - trials * chance) <= 6 * math.sqrt(trials * chance * (1 - chance)) + 1


@pytest.mark.parametrize("epsilon", ["1", "1/3"])
def test_draws_have_the_distribution_of_dense_noise_and_a_threshold(epsilon: str) -> None:
    k, seed = 200_000, 11
    m = Sparse(Fraction(epsilon), k, Fraction(k, 20))
    tau, rate = m.threshold, float(m.level_epsilon)
    counts = {place: tau - 2 + place % 6 for place in range(0, k, 2)}  # every other level occurs
    counts = {place: count for place, count in counts.items() if count > 0}
    out = m.run(counts, SeededEntropy(seed))
    assert list(out.counts) == sorted(out.counts)
    top = tau + math.ceil(12 / rate)
    for count in {0, *counts.values()}:
        places = {p for p, c in counts.items() if c == count} if count else set(range(k)) - set(counts)
        seen = np.bincount(
            [min(z, top) - tau + 1 for p, z in out.counts.items() if p in places], minlength=top - tau + 2
        ).astype(float)
        seen[0] = len(places) - seen.sum()
        expected = level_distribution(count, rate, tau, top) * len(places)
        expected[-1] = len(places) - expected[:-1].sum()  # the last one stands for all above
        enough = expected >= 5
        seen, expected = (
            np.append(x[enough], x[~enough].sum()) if (~enough).any() else x for x in (seen, expected)
        )
        assert chi2.sf(*chi_square(seen, expected)) >= ALPHA
    empty = np.array([p for p in out.counts if p not in counts])
    spread = np.bincount(empty * 20 // k, minlength=20).astype(float)
    share = np.bincount([p * 20 // k for p in range(k) if p not in counts], minlength=20)
    assert chi2.sf(*chi_square(spread, len(empty) * share / share.sum())) >= ALPHA
    rest = sum(c for p, c in counts.items() if p not in out.counts)
    assert abs(out.rest - rest) <= 40 / float(m.rest_epsilon)


def test_small_datasets_one_by_one() -> None:
    m = Sparse(Fraction(1), 2, Fraction(1, 2))
    tau, top, runs = m.threshold, m.threshold + 3, 500
    source = SeededEntropy(5)
    for counts in ((0, 0), (0, 2)):
        seen = np.zeros((top - tau + 2,) * 2)
        rests: list[int] = []
        for _ in range(runs):
            out = m.run(dict(enumerate(counts)), source)
            at = [min(out.counts[i], top) - tau + 1 if i in out.counts else 0 for i in range(2)]
            seen[at[0], at[1]] += 1
            rests.append(out.rest - sum(c for i, c in enumerate(counts) if i not in out.counts))
        each = [level_distribution(c, float(m.level_epsilon), tau, top) for c in counts]
        for p in each:
            p[-1] = 1 - p[:-1].sum()
        expected = np.outer(*each).ravel() * runs
        enough = expected >= 5
        pooled = [np.append(x[enough], x[~enough].sum()) for x in (seen.ravel(), expected)]
        assert chi2.sf(*chi_square(*pooled)) >= ALPHA
        scale = float(m.rest_epsilon)
        for v in (0, 5, 20):
            chance = math.exp(-scale * (v + 1)) / (1 + math.exp(-scale))
            assert close(sum(r > v for r in rests), runs, chance)
            assert close(sum(r < -v for r in rests), runs, chance)


def test_successes_of_many_trials() -> None:
    source = SeededEntropy(7)
    half = successes(40_000, lambda: (-ball(1)).exp(), source)
    assert close(len(half), 40_000, math.exp(-1))
    assert len(set(half.tolist())) == len(half)
    assert 0 <= half.min() < half.max() < 40_000
    rare = [len(successes(2**45, lambda: (-ball(Fraction(305, 10))).exp(), source)) for _ in range(100)]
    mean = 2**45 * math.exp(-30.5)
    assert abs(sum(rare) - 100 * mean) <= 6 * math.sqrt(100 * mean)
    assert len(successes(0, lambda: (-ball(1)).exp(), source)) == 0
    many = successes(10**6, lambda: (-ball(2)).exp(), source)
    assert close(len(many), 10**6, math.exp(-2))


def test_what_is_hit_too_often_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    from discreet._randomness import bulk

    monkeypatch.setattr(bulk, "round_up", lambda value: Fraction(2))  # hits 86 of 100 trials
    found = successes(40_000, lambda: (-ball(1)).exp(), SeededEntropy(8))
    assert close(len(found), 40_000, math.exp(-1))
