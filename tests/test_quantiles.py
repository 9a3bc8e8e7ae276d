"""Quantiles and the distribution function of a number released in bins."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, gammaln

import shorthand
from discreet._inference import polya_tree, quantiles
from discreet._inference.add_remove import LogUniform
from discreet._inference.polya_tree import END_STEPS, SMOOTH, STEPS, Message, PolyaTree, Together
from discreet._inference.quantiles import BinnedDistribution, Bins
from discreet._numerics.noises import DiscreteGaussian, DiscreteLaplace, LatticeNoise
from discreet.answers.release import Release
from discreet.errors import InvalidInputError, TooLargeError

TOP = np.array([1 / 3] * 3 + [0] * 6)


def beta_binomial(x: int, y: int, a: float, b: float) -> float:
    ways = gammaln(x + y + 1) - gammaln(x + 1) - gammaln(y + 1)
    return float(np.exp(ways + betaln(x + a, y + b) - betaln(a, b)))


def chance_of_three(x: tuple[int, int, int]) -> float:
    """P(counts of three cells | their sum), by listing the smoothness of both nodes: 1 | 2 3."""
    total = 0.0
    for i, j in itertools.product(range(9), repeat=2):
        top = beta_binomial(x[0], x[1] + x[2], 2 * SMOOTH[i] / 3, 4 * SMOOTH[i] / 3)
        low = beta_binomial(x[1], x[2], SMOOTH[j], SMOOTH[j])
        total += TOP[i] * END_STEPS[i, j] * top * low
    return total


def three(most: int = 12) -> tuple[PolyaTree, list[np.ndarray]]:
    rng = np.random.default_rng(4)
    logs = [rng.normal(0, 2, most + 1) for _ in range(3)]
    return PolyaTree([Message(0, log) for log in logs], np.full(3, 2.0), 1, most, True), logs


def counts_of_sum(total: int) -> list[tuple[int, int, int]]:
    some = itertools.product(range(total + 1), repeat=2)
    return [(x, y, total - x - y) for x, y in some if x + y <= total]


def test_messages_are_those_of_a_sum_over_all_counts() -> None:
    tree, logs = three()
    for total in (0, 1, 5, 12):
        weight = [
            chance_of_three(x) * math.exp(sum(log[c] for log, c in zip(logs, x, strict=True)))
            for x in counts_of_sum(total)
        ]
        assert tree.message.log[total - tree.message.first] == pytest.approx(math.log(sum(weight)), abs=1e-9)


def test_halves_inside_grow_smooth_and_those_at_the_ends_need_not() -> None:
    """Known counts of six cells, 0 | 1 2 and 3 | 4 5: their probability, by listing the nodes' smoothness."""
    x = (1, 4, 2, 0, 3, 5)

    def chances(y: tuple[int, ...], pair: np.ndarray) -> np.ndarray:
        """Of three cells, for each smoothness of the node above: y₀ | y₁ y₂."""
        inner = np.array([beta_binomial(y[1], y[2], a, a) for a in SMOOTH])
        outer = np.array([beta_binomial(y[0], y[1] + y[2], 2 * a / 3, 4 * a / 3) for a in SMOOTH])
        return np.asarray(END_STEPS @ (outer * (pair @ inner)))

    top = np.array([beta_binomial(sum(x[:3]), sum(x[3:]), a, a) for a in SMOOTH])
    expected = TOP @ (top * chances(x[:3], STEPS) * chances(x[3:], END_STEPS))
    tree = PolyaTree([Message(count, np.zeros(1)) for count in x], np.array(x, float), 1, 20, True)
    assert (tree.message.first, tree.message.log) == (sum(x), pytest.approx(math.log(expected)))
    assert STEPS.sum(axis=1) == pytest.approx(np.ones(9))
    assert END_STEPS.sum(axis=1) == pytest.approx(np.ones(9))


def test_draws_have_the_mean_of_a_sum_over_all_counts() -> None:
    """4 standard errors of 40,000 draws, three numbers: false alarms in 2 of 10,000 seeds."""
    tree, logs = three()
    total, expected, weight = 7, np.zeros(3), 0.0
    for x in counts_of_sum(total):
        seen = math.exp(sum(log[c] for log, c in zip(logs, x, strict=True)))
        for i, j in itertools.product(range(9), repeat=2):
            a = (2 * SMOOTH[i] / 3, 4 * SMOOTH[i] / 3, SMOOTH[j])
            own = TOP[i] * END_STEPS[i, j] * seen * beta_binomial(x[0], x[1] + x[2], a[0], a[1])
            own *= beta_binomial(x[1], x[2], a[2], a[2])
            left = (a[0] + x[0]) / (a[0] + a[1] + total)
            middle = (a[2] + x[1]) / (2 * a[2] + x[1] + x[2])
            expected += own * np.array([left, (1 - left) * middle, (1 - left) * (1 - middle)])
            weight += own
    shares, _ = tree.draw(np.full(40_000, total), np.random.default_rng(1))
    assert shares.sum(axis=1) == pytest.approx(np.ones(40_000))
    error = np.abs(shares.mean(axis=0) - expected / weight) / (shares.std(axis=0) / 200)
    assert error.max() < 4


def test_a_tilt_and_left_out_ends_change_nothing() -> None:
    """The same messages whatever counts are expected, also far from them."""
    _, logs = three()
    cells = [Message(0, log) for log in logs]
    near, far = (PolyaTree(cells, np.full(3, v), 1, 12, True).message for v in (0.01, 400.0))
    assert near.first == far.first == 0
    np.testing.assert_allclose(near.log, far.log, atol=1e-9)
    wide = Message(3, np.array([-90.0, -1.0, 0.0, -90.0])).trim()
    assert (wide.first, wide.log.tolist()) == (4, [-1.0, 0.0])


def test_split_counts_have_their_weights() -> None:
    """A chi-square of 20,000 draws at 1e-4, also where weights are summed in blocks."""
    left = polya_tree._Half(2, np.array([[0.2, 1.0, 0.5], [1.0, 0.1, 0.3]]))
    right = polya_tree._Half(1, np.array([[1.0, 0.5, 0.1, 2.0], [0.3, 0.3, 1.0, 0.2]]))
    state = np.repeat([0, 1], 10_000)
    before = polya_tree._WEIGHTS_AT_ONCE
    for block in (before, 3):
        polya_tree._WEIGHTS_AT_ONCE = block
        try:
            drawn = polya_tree.split_counts(left, right, np.full(20_000, 6), state, np.random.default_rng(2))
        finally:
            polya_tree._WEIGHTS_AT_ONCE = before
        for s in (0, 1):
            weight = np.array([left.weight[s, i] * right.weight[s, 3 - i] for i in range(3)])
            expected = 10_000 * weight / weight.sum()
            seen = np.bincount(drawn[state == s] - 2, minlength=3)
            assert ((seen - expected) ** 2 / expected).sum() < 18.4


def test_the_number_of_records_is_inferred_where_it_is_private() -> None:
    """One cell and one apart: P(n) ∝ prior · Σ P(z₁ | x) P(z₂ | n − x)/(n + 1), by listing."""
    noise, z = DiscreteLaplace(1.5), (4.0, 2.0)
    expected = LogUniform(2.0, 40.0)
    found = BinnedDistribution(Bins((0, 1)), z[:1], noise, apart=z[1:], total_prior=expected)
    values, chance = found._distribution._number
    weight = np.zeros(41)
    for n in range(2, 41):
        x = np.arange(n + 1.0)
        near = noise.log_prob(np.array(z[0]), x, noise.scale) + noise.log_prob(
            np.array(z[1]), n - x, noise.scale
        )
        weight[n] = np.exp(near).sum() / (n + 1) / n
    got = np.zeros(200)
    got[values] = chance
    np.testing.assert_allclose(got[:41], weight / weight.sum(), atol=1e-9)


def test_known_counts_are_inverted() -> None:
    """Next to no noise and very many records: lines within bins, and both directions agree."""
    counts = np.array([200_000, 300_000, 500_000])
    found = BinnedDistribution(Bins((0, 10, 20, 40)), counts, DiscreteLaplace(0.02), n=1_000_000)
    up_to = found.cdf((-5, 0, 10, 20, 40, 99))
    np.testing.assert_allclose(up_to.mean(), [0, 0, 0.2, 0.5, 1, 1], atol=1e-3)
    middle = found.quantiles((0.2, 0.5))
    np.testing.assert_allclose(middle.mean(), [10, 20], atol=0.4)
    shares = found.cdf(found.quantiles(0.35).mean())
    assert shares.mean()[0] == pytest.approx(0.35, abs=0.02)


def test_a_wide_bin_gives_a_wide_interval() -> None:
    """Nothing is known within bins: of three, the median's interval is as wide as much of one."""
    found = BinnedDistribution(
        Bins((0, 18, 65, 120)), (250_000, 500_000, 250_000), DiscreteLaplace(0.02), n=10**6
    )
    low, high = found.quantiles(0.5).interval(0.9)
    assert 20 < high[0] - low[0] < 47
    assert 18 < low[0] < 41.5 < high[0] < 65


def test_the_density_is_a_line_between_neighbours() -> None:
    """Exact for a straight density; none in a hump; never negative; widths count."""
    edges = np.array([0.0, 1, 2, 4, 5])
    share = np.diff(edges**2 / 25)
    np.testing.assert_allclose(
        polya_tree.slopes_within(share[None], np.diff(edges))[0],
        2 * np.diff(edges) / (edges[1:] + edges[:-1]),
    )
    steep = polya_tree.slopes_within(np.array([[0.1, 0.5, 0.3, 1e-9, 0.1]]), np.ones(5))[0]
    assert steep[1] == steep[3] == 0
    assert steep[0] == 2
    assert -2 <= steep[2] < 0
    parts = polya_tree.within(
        np.full(4000, 8, dtype=np.int8), np.full(4000, 2.0), 2, np.random.default_rng(1)
    )
    np.testing.assert_allclose(parts.mean(axis=0), np.array([1, 3, 5, 7]) / 16, atol=2e-3)


def test_what_is_left_out_does_not_count() -> None:
    """900,000 without a value: the quantiles are those of the others."""
    bins, noise = Bins((0, 1, 2)), DiscreteLaplace(0.02)
    shares = BinnedDistribution(bins, (30_000, 70_000), noise, n=1_000_000, apart=(900_000,)).cdf((1, 2))
    np.testing.assert_allclose(shares.mean(), [0.3, 1], atol=2e-3)
    assert shares.std()[0] == pytest.approx(math.sqrt(0.3 * 0.7 / 100_000), rel=0.1)


def test_atoms_are_values_that_many_share() -> None:
    """A quarter at 0, and some at 5 within a bin: F jumps there, and the quantile is the atom."""
    bins = Bins((0, 4, 8), atoms=(0, 5))
    assert bins.intervals == ((0, 4), (4, 5), (5, 8))
    values = np.array([0, 0.5, 4, 4.5, 5, 5.5, 8, 9, -1])
    assert bins.places(values).tolist() == [3, 0, 1, 1, 4, 2, 2, 2, 3]
    counts = (200_000, 100_000, 100_000, 250_000, 350_000)
    found = BinnedDistribution(bins, counts, DiscreteLaplace(0.02), n=1_000_000)
    quarter, middle, above = found.quantiles((0.2, 0.6, 0.95)).draws(2000, 3).T
    assert set(quarter) == {0.0}
    assert set(middle) == {5.0}
    assert above.min() > 5
    np.testing.assert_allclose(
        found.cdf((-1, 0, 4, 4.999999, 5, 8)).mean(), [0, 0.25, 0.45, 0.55, 0.9, 1], atol=2e-3
    )
    low, high = found.quantiles(0.6).interval(0.9)
    assert low == high == 5


@pytest.mark.parametrize("number", [1, 4, 60])
def test_bins_beside_an_atom_say_nothing_about_its_share(number: int) -> None:
    """Beta(11, 31) with 10 of 40 records, however many bins: 4 standard errors of mean and deviation."""
    counts = np.bincount(np.arange(30) * number // 30, minlength=number)
    bins = Bins(tuple(range(number + 1)), atoms=(0,))
    found = BinnedDistribution(bins, (*counts, 10), DiscreteLaplace(0.02), n=40)
    share, exact = found.cdf(0).draws(40_000, 1)[:, 0], stats.beta(11, 31)
    assert share.mean() == pytest.approx(exact.mean(), abs=4 * exact.std() / 200)
    assert share.std() == pytest.approx(exact.std(), abs=4 * exact.std() / 280)


def test_whole_numbers_have_whole_quantiles() -> None:
    bins = Bins((0, 1, 2, 5), atoms=(3,), whole=True)
    assert bins.intervals == ((0, 1), (1, 2), (2, 3), (4, 6))
    assert Bins((0, 2, 4), atoms=(4,), whole=True).intervals == ((0, 2), (2, 4))
    assert bins.places([0, 1, 2, 3, 4, 5]).tolist() == [0, 1, 2, 4, 3, 3]
    counts = (100_000, 200_000, 100_000, 300_000, 300_000)
    found = BinnedDistribution(bins, counts, DiscreteLaplace(0.02), n=1_000_000)
    draws = found.quantiles((0.05, 0.25, 0.35, 0.6, 0.99)).draws(2000)
    assert [set(column) for column in draws.T] == [{0.0}, {1.0}, {2.0}, {3.0}, {4.0, 5.0}]
    np.testing.assert_allclose(
        found.cdf((0, 1, 1.5, 2, 3, 5)).mean(), [0.1, 0.3, 0.3, 0.4, 0.7, 1], atol=2e-3
    )


def test_quantiles_of_one_draw_are_in_order_and_repeat() -> None:
    noise = LatticeNoise(2.0)
    z = noise.draw(np.array([[3, 9, 20, 40, 20, 6, 2, 0]]), np.random.default_rng(0))[0]
    found = BinnedDistribution(Bins(tuple(range(9))), z, noise, n=100)
    asked = found.quantiles(np.linspace(0.02, 0.98, 49))
    draws = asked.draws(500, 7)
    assert (np.diff(draws, axis=1) >= 0).all()
    np.testing.assert_array_equal(draws, asked.draws(500, 7))
    assert asked.names[0] == "2 % quantile"
    assert asked.table(0.5)[24]["low"] == asked.interval(0.5)[0][24]
    assert not np.array_equal(asked.draws(500, None), draws)


def test_wide_noise_is_taken_in_steps() -> None:
    """Scale 40 by steps of 10 and by steps of 1: the same intervals up to a tenth of their width."""
    z = np.array([900.0, 2100.0, 2950.0, 2400.0, 1020.0, 390.0])
    ends = []
    for step in (polya_tree.step_of, lambda _: 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(quantiles, "step_of", step)
            found = BinnedDistribution(Bins(tuple(range(7))), z, DiscreteLaplace(40.0), n=9760)
            ends.append(np.stack(found.cdf((1, 3, 5)).interval(0.9)))
    width = ends[1][1] - ends[1][0]
    assert (np.abs(ends[0] - ends[1]) < 0.1 * width).all()


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_release_in_bins_has_quantiles(relation: str) -> None:
    """20,000 records, ε = 1: the median and a share are about where the records have them."""
    ages = np.random.default_rng(1).triangular(0, 30, 90, 20_000)
    done = shorthand.shares(
        ages.tolist(), edges=tuple(range(0, 91, 5)), epsilon=1, prior=1, relation=relation
    )
    found = Release.from_json(done.to_json()).distribution()
    median = found.quantiles(0.5)
    low, high = median.interval()
    assert median.mean()[0] == pytest.approx(float(np.median(ages)), abs=1.5)
    assert found.cdf(30).mean()[0] == pytest.approx(1 / 3, abs=0.03)
    assert 0 < high[0] - low[0] < 2.5


def test_records_without_a_value_are_left_out_of_a_release() -> None:
    """3,000 of 5,000 have a value."""
    ages = [*np.random.default_rng(1).triangular(0, 30, 90, 3_000).tolist(), *[None] * 2_000]
    done = shorthand.shares(ages, edges=(0, 30, 90), missing="exclude", epsilon=1, prior=1)
    assert done.distribution().cdf(30).mean()[0] == pytest.approx(1 / 3, abs=0.05)


def test_intervals_hold_as_often_as_they_say() -> None:
    """90 % intervals of three quartiles of one skewed distribution, 60 bins, n 500, ε 1: 150 repetitions.

    Three dependent numbers each: a right answer holds fewer than .80 with probability below 1e-4.
    """
    rng, truth = np.random.default_rng(12), np.array([0.5, 2 - math.sqrt(1.5), 2 - math.sqrt(0.75)])
    bins, noise, held = Bins(tuple(np.linspace(0, 2, 61))), LatticeNoise(2.0), []
    for seed in range(150):
        values = rng.triangular(0, 0.5, 2, 500)
        z = noise.draw(np.bincount(bins.places(values), minlength=60)[None], rng)[0]
        draws = BinnedDistribution(bins, z, noise, n=500).quantiles((0.25, 0.5, 0.75)).draws(400, seed)
        low, high = np.quantile(draws, (0.05, 0.95), axis=0)
        held.append((low <= truth) & (truth <= high))
    assert np.mean(held) > 0.80


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Bins((0,)), "at least two finite"),
        (lambda: Bins((0, math.inf)), "open bin"),
        (lambda: Bins((0, 2, 1)), "must increase"),
        (lambda: Bins((0, 1), atoms=(2,)), "between the first and last"),
        (lambda: Bins((0, 1), atoms=(1, 1)), "different values"),
        (lambda: Bins((0, 1), atoms=(0.5,), whole=True), "whole numbers"),
        (lambda: Bins.of_levels(["a", "b"]), "no bins"),
        (lambda: Bins.of_levels(["[-inf, 0)", "[0, inf]"]), "open bin"),
        (lambda: BinnedDistribution(Bins((0, 1)), (1, 2), DiscreteLaplace(1.0), n=3), "2 entries for 1"),
        (lambda: BinnedDistribution(Bins((0, 1)), (1,), LatticeNoise(1.0)), "give n="),
        (
            lambda: BinnedDistribution(Bins((0, 1)), (1,), DiscreteGaussian(1.0), n=1).quantiles(1.5),
            "between 0 and 1",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(make: object, match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        make()  # type: ignore[operator]


def test_too_many_bins_are_refused() -> None:
    with pytest.raises(TooLargeError, match="at most 8,192"):
        BinnedDistribution(Bins(tuple(range(9001))), np.zeros(9000), DiscreteLaplace(1.0), n=1)


def test_what_publishes_no_noisy_counts_has_no_quantiles() -> None:
    done = shorthand.shares([1.0, 7.0] * 20, edges=(0, 5, 9), epsilon=1, prior=1, mechanism="ehds")
    with pytest.raises(InvalidInputError, match="publishes no noisy counts"):
        done.distribution()


def test_bins_grow_in_number_with_what_can_be_told() -> None:
    assert len(Bins.over((0, 120), 1000, 1)) == 32
    assert len(Bins.over((0, 120), 300, 0.3)) == 12
    assert len(Bins.over((0, 10), 10**6, 1, whole=True)) == 11
    assert len(Bins.over((0, 10), 1000, 1, atoms=(0,))) == 33
    assert Bins.over((0, 1), 2, 0.1).edges == pytest.approx(np.linspace(0, 1, 9))


def test_side_by_side_trees_share_uniformly() -> None:
    """Nothing published: each of three trees has a third, with the deviation of a uniform distribution on
    them."""
    flat = PolyaTree([Message(0, np.zeros(7))], np.ones(1), 1, 6, True)
    drawn = Together([flat] * 3, 1, 6, 6, np.zeros(0)).draw(20_000, np.random.default_rng(5))
    shares = np.stack([share for share, _, _ in drawn])
    assert shares.mean(axis=1) == pytest.approx(np.full(3, 1 / 3), abs=0.01)
    assert shares.std(axis=1) == pytest.approx(np.full(3, math.sqrt(1 / 18)), abs=0.01)
