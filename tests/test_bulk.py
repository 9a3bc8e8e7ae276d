"""The samplers in bulk against the distributions that they state, and against the samplers that draw one by
one."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, ks_2samp

from discreet._numerics.count_vectors import compositions
from discreet._numerics.enclosures import Ball, above, ball, enclose, round_up
from discreet._randomness import bulk
from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy
from statistical.goodness import ALPHA, chi_square


def fits(observed: Any, probability: Any) -> bool:
    statistic, freedom = chi_square(np.asarray(observed), np.sum(observed) * np.asarray(probability))
    return freedom == 0 or bool(chi2.sf(statistic, freedom) > ALPHA)


class _Words:
    """A source that hands out these 64-bit words, then those of a seeded stream."""

    def __init__(self, *words: int) -> None:
        self.words = list(words)
        self.rest = SeededEntropy(0)

    def bytes(self, count: int) -> bytes:
        assert count % 8 == 0
        taken, self.words = self.words[: count // 8], self.words[count // 8 :]
        start = b"".join(word.to_bytes(8, "little") for word in taken)
        return start + self.rest.bytes(count - len(start))

    def below(self, bound: int) -> int:
        return int.from_bytes(self.bytes(8), "little") if bound == 2**64 else self.rest.below(bound)


def test_digits_are_those_of_the_number() -> None:
    from mpmath import exp, floor, mp, mpf

    with mp.workdps(120):
        for rate in (Fraction(1, 3), Fraction(7), Fraction(1, 100)):
            table = bulk._tail_table(rate)
            for g, word in enumerate(table.ascending[::-1].tolist(), start=1):
                exact = exp(-mpf(rate.numerator) * g / rate.denominator)
                assert word == int(floor(exact * 2**64))
                if g < 5:
                    assert bulk.enclosed_digits(table.tail(g), 200) == int(floor(exact * 2**200))
        tiny = Fraction(1, 10**9)
        table = bulk._digit_table(tiny)
        rate = mpf(1) / 10**9
        for g in (1, 2, 500, 1023):
            exact = (exp(-rate * g) - exp(-rate * 1024)) / (1 - exp(-rate * 1024))
            assert table.ascending[-g] == int(floor(exact * 2**64))


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 1000), Fraction(50)])
def test_a_word_equal_to_a_threshold_is_decided_by_its_next_bits(rate: Fraction) -> None:
    table = bulk._tail_table(rate) if rate >= Fraction(1, 128) else bulk._digit_table(rate)
    last = len(table.ascending)
    for g in {1, last // 2 + 1, last}:
        word = int(table.ascending[last - g])
        following = bulk.enclosed_digits(table.tail(g), 128) - (word << 64)
        third = bulk.enclosed_digits(table.tail(g), 192) - ((word << 64 | following) << 64)
        for then, drawn in (((following - 1,), g), ((following + 1,), g - 1)):
            assert table.draw(1, _Words(word, *then)).tolist() == [drawn]
        assert table.draw(1, _Words(word, following, third - 1)).tolist() == [g]
        assert table.draw(1, _Words(word, following, third + 1)).tolist() == [g - 1]
        many = table.draw(100, _Words(*[word] * 100, *[following - 1] * 50, *[following + 1] * 50))
        assert many.tolist() == [g] * 50 + [g - 1] * 50


def two_sided_distribution(rate: float, reach: int) -> tuple[Any, Any]:
    x = np.arange(-reach, reach + 1)
    p = math.tanh(rate / 2) * np.exp(-rate * np.abs(x))
    tail = math.exp(-rate * reach) / (1 + math.exp(-rate))
    p[[0, -1]] = tail
    return x, p


@pytest.mark.parametrize("rate", ["1", "1/7", "1/150", "1/5000", "3", "30"])
def test_two_sided_geometric_distribution(rate: str) -> None:
    exact = Fraction(rate)
    draws = bulk.two_sided_geometric(200_000, exact, SeededEntropy(3))
    bins = max(1, math.ceil(0.2 / exact))
    reach = math.ceil(6 / exact)
    x, p = two_sided_distribution(float(exact), reach)
    observed = np.bincount((np.clip(draws, -reach, reach) + reach) // bins, minlength=len(x) // bins + 1)
    expected = np.bincount((x + reach) // bins, weights=p, minlength=len(observed))
    assert fits(observed, expected)


def test_digits_join_to_the_geometric_distribution() -> None:
    # Rate 1/500 has one digit below 1024 and the rest above: both lie in the reach of the test.
    rate = Fraction(1, 500)
    draws = bulk.geometric(300_000, rate, SeededEntropy(9))
    edges = np.arange(0, 4000, 100)
    observed = np.bincount(np.searchsorted(edges, draws, side="right") - 1, minlength=len(edges))
    tails = np.append(np.exp(-edges / 500), 0.0)
    assert fits(observed, -np.diff(tails))


@pytest.mark.parametrize(("k", "epsilon"), [(3, "1"), (3, "1/3"), (4, "2")])
def test_lattice_distribution(k: int, epsilon: str) -> None:
    exact = Fraction(epsilon)
    source = SeededEntropy(5)
    draws = Counter(tuple(bulk.lattice_noise(k, exact, source).tolist()) for _ in range(30_000))
    reach = range(-8, 9)
    cells = list(np.ndindex(*(len(reach),) * (k - 1)))
    rows = np.array([[reach[i] for i in v] for v in cells])
    rows = np.column_stack([rows, -rows.sum(axis=1)])
    # The normaliser: Σ_v e^{−ε‖v‖₁/2} = (1 − e^{−ε})^k Σ_m C(m + k − 1, k − 1)² e^{−εm}.
    rate = float(exact)
    sums = sum(math.comb(m + k - 1, k - 1) ** 2 * math.exp(-rate * m) for m in range(2000))
    p = np.exp(-rate * np.abs(rows).sum(axis=1) / 2) / ((1 - math.exp(-rate)) ** k * sums)
    kept = np.flatnonzero(p > 2e-4)
    observed = np.array([draws[tuple(rows[i].tolist())] for i in kept])
    observed = np.append(observed, 30_000 - observed.sum())
    assert fits(observed, np.append(p[kept], 1 - p[kept].sum()))


def test_lattice_noise_of_many_levels_agrees_with_another_sampler() -> None:
    """The distributions of v₄, ‖v‖₁ and ‖v‖₂ at k = 40, against discrete Laplace values that happen to sum to
    zero."""
    k, epsilon, size = 40, Fraction(1), 4000
    source = SeededEntropy(11)
    bulk_draws = np.array([bulk.lattice_noise(k, epsilon, source) for _ in range(size)])
    values = np.random.default_rng(11).geometric(1 - math.exp(-0.5), (2, 20 * size, k))
    free = values[0] - values[1]
    oracle = free[free.sum(axis=1) == 0]
    assert len(oracle) > 1000
    assert (bulk_draws.sum(axis=1) == 0).all()
    for statistic in (lambda v: np.abs(v).sum(axis=1), lambda v: (v**2).sum(axis=1), lambda v: v[:, 3]):
        assert ks_2samp(statistic(bulk_draws), statistic(oracle)).pvalue > ALPHA


def test_acceptance_of_the_sum_is_the_ratio_of_its_distribution() -> None:
    for k, rate in ((3, Fraction(1, 2)), (100, Fraction(1, 2)), (100, Fraction(5))):
        distribution = [math.comb(m + k - 1, k - 1) * math.exp(-float(rate) * m) for m in range(600)]
        assert bulk._likeliest_sum(k, rate) == int(np.argmax(distribution))
        for m in (0, 1, 7, 150):
            ratio = bulk._same_sum(k, rate, m)
            assert ratio.word / 2**64 == pytest.approx(
                distribution[m] / max(distribution), rel=1e-9, abs=1e-18
            )
            assert bulk.enclosed_digits(ratio.value, 200) >> 136 == ratio.word
            following = bulk.enclosed_digits(ratio.value, 128) - (ratio.word << 64)
            if following:
                assert ratio.exceeds(ratio.word, _Words(following - 1))
                assert not ratio.exceeds(ratio.word, _Words(following + 1))


@pytest.mark.parametrize(("total", "parts"), [(3, 30), (60, 26)])
def test_compositions_in_bulk_are_uniform(total: int, parts: int) -> None:
    """The number of empty parts and the size of one part have known distributions; both ways of choosing are
    used."""
    source = SeededEntropy(2)
    draws = np.array([bulk.composition(total, parts, source) for _ in range(20_000)])
    assert (draws.sum(axis=1) == total).all()
    assert (draws >= 0).all()
    ways = math.comb(total + parts - 1, parts - 1)
    p = np.array([math.comb(total - j + parts - 2, parts - 2) / ways for j in range(total + 1)])
    for part in (0, parts // 2, parts - 1):
        top = int(np.flatnonzero(p > 1e-3)[-1])
        observed = np.bincount(np.minimum(draws[:, part], top), minlength=top + 1)
        assert fits(observed, np.append(p[:top], p[top:].sum()))
    empty = np.array([math.comb(parts, j) * math.comb(total - 1, parts - j - 1) / ways for j in range(parts)])
    used = np.flatnonzero(empty > 1e-3)
    observed = np.bincount((draws == 0).sum(axis=1), minlength=parts)
    rest = len(draws) - observed[used].sum()
    expected = np.append(empty[used], max(1 - empty[used].sum(), 1e-12))
    assert fits(np.append(observed[used], rest), expected)


def test_compositions_by_subsets_are_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "_FEW", 0)
    source = SeededEntropy(4)
    for total, parts in ((4, 3), (2, 5)):
        rows = [tuple(row) for row in compositions(total, parts).tolist()]
        draws = Counter(tuple(bulk.composition(total, parts, source).tolist()) for _ in range(20_000))
        assert fits(np.array([draws[row] for row in rows]), np.full(len(rows), 1 / len(rows)))


def test_uniform_integers_drop_the_uneven_part() -> None:
    bound = 3 * 2**62 // 2
    top = 2**64 - 1
    drawn = bulk.below(bound, 2, _Words(top, 5, 2**64 % bound + bound))
    assert drawn.tolist()[1] == 5
    assert bulk.below(6, 3, _Words(top, 0, 17)).tolist()[1:] == [0, 5]
    assert bulk.below(2**32, 2, _Words(top, 2**33 + 9)).tolist() == [2**32 - 1, 9]


@pytest.mark.parametrize("k", [4, 30])
def test_rates_beyond_64_bits_are_drawn_in_whole_numbers_of_any_size(k: int) -> None:
    noise = bulk.two_sided_geometric(3, Fraction(1, 10**25), SeededEntropy(1))
    assert max(abs(v) for v in noise.tolist()) > 2**63
    v = bulk.lattice_noise(k, Fraction(1, 10**25), SeededEntropy(1)).tolist()
    assert all(type(x) is int for x in v)
    assert sum(v) == 0
    assert max(map(abs, v)) > 2**63
    assert len(bulk.lattice_noise(2, Fraction(1), OS_ENTROPY)) == 2


def test_words_that_would_make_small_values_likelier_are_drawn_again() -> None:
    for bound in (3, 10, 2**40 + 1, 2**63 - 1):
        first_bad = 2**64 - 2**64 % bound
        for bad in (first_bad, 2**64 - 1):
            assert bulk.below(bound, 1, _Words(bad, bad, 2)).tolist() == [2]
        assert bulk.below(bound, 2, _Words(first_bad - 1, bad, 1)).tolist() == [bound - 1, 1]
    assert bulk.below(8, 2, _Words(2**64 - 1, 0)).tolist() == [7, 0]


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(3)])
def test_beyond_its_table_the_geometric_distribution_begins_anew(rate: Fraction) -> None:
    jump = math.ceil(24 / rate)
    assert bulk.geometric(2, rate, _Words(0, 2**64 - 1, 2**64 - 1)).tolist() == [jump, 0]
    assert bulk.geometric(1, rate, _Words(0, 0, 2**64 - 1)).tolist() == [2 * jump]
    assert bulk.geometric(40, rate, _Words(*[0] * 40, *[2**64 - 1] * 40)).tolist() == [jump] * 40


def test_noises_are_put_together_from_independent_parts() -> None:
    rate = Fraction(1, 3)
    both = bulk.geometric(60, rate, SeededEntropy(8))
    assert bulk.two_sided_geometric(30, rate, SeededEntropy(8)).tolist() == (both[:30] - both[30:]).tolist()
    for seed in range(20):
        one = bulk.two_sided_geometric(1, rate, SeededEntropy(seed)).tolist()[0]
        assert bulk.lattice_noise(2, rate, SeededEntropy(seed)).tolist() == [one, -one]


def test_tiny_rates_have_the_distribution_of_others_on_another_scale() -> None:
    """‖v‖₁ times the rate has nearly the same distribution at 2⁻⁴⁰, where Python's integers are used, and at
    2⁻²⁰."""
    norms = []
    for power in (20, 40):
        epsilon, source = Fraction(1, 2**power), SeededEntropy(power)
        draws = [bulk.lattice_noise(5, epsilon, source).tolist() for _ in range(2000)]
        norms.append([float(epsilon * sum(map(abs, v))) for v in draws])
    assert ks_2samp(*norms).pvalue > ALPHA


def test_a_success_that_ties_for_64_bits_is_decided_by_the_next() -> None:
    def chance() -> Ball:
        return ball(-1).exp()

    rate = round_up(above(enclose(lambda: -(-chance()).log1p())))

    def kept() -> Ball:
        return chance() / -ball(-rate).expm1()

    tie, following = divmod(bulk.enclosed_digits(kept, 128), 2**64)
    gaps = [2**64 - 1] * 4  # every trial is a candidate
    for last, found in ((following - 1, [0]), (following + 1, [])):
        assert bulk.successes(1, chance, _Words(*gaps, tie, last)).tolist() == found
