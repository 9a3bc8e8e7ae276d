"""The sampler that does not enumerate, against enumeration: domination, exact distribution, chi-square,
acceptance."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import discreet
from discreet._numerics.count_vectors import compositions
from discreet._numerics.log_gamma import log_gamma_gap
from discreet._randomness.entropy import SeededEntropy
from discreet._randomness.weights import dyadic
from discreet.errors import TooLargeError
from discreet.mechanisms.hellinger._envelope import Envelope, height, largest_windows
from shorthand import shares_request
from statistical.goodness import ALPHA, chi_square


def build(counts: tuple[int, ...], prior: tuple[float, ...], rate: float, narrow: bool = False) -> Envelope:
    def gap(i: int, b: np.ndarray) -> np.ndarray:
        return log_gamma_gap(prior[i] + counts[i], prior[i] + b, counts[i] - b)

    down = [float(gap(i, np.array([c - 1.0]))[0]) if c else math.inf for i, c in enumerate(counts)]
    up = [float(gap(i, np.array([c + 1.0]))[0]) for i, c in enumerate(counts)]
    nearest = min(d + u for (i, d), (j, u) in itertools.product(enumerate(down), enumerate(up)) if i != j)
    return Envelope(counts, gap, rate, nearest * (1 - 1e-9), narrow)


def bound_and_value(e: Envelope, b: tuple[int, ...]) -> tuple[int, int]:
    """The integers that decide whether b is kept, as ``draw`` computes them."""
    unit, bound = e._scale[1], e._envelope_at(b)
    mantissa, exponent = dyadic(height(sum(s.at(x) for s, x in zip(e._sides, b, strict=True)), e.rate))
    shift = int(exponent) - 52 - unit
    return bound << max(-shift, 0), int(mantissa) << max(shift, 0)


@st.composite
def settings_of(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[float, ...], float]:
    k = draw(st.integers(2, 4))
    counts = tuple(draw(st.lists(st.integers(0, 9), min_size=k, max_size=k).filter(any)))
    prior = tuple(draw(st.lists(st.floats(-3, 3).map(lambda e: 10.0**e), min_size=k, max_size=k)))
    return counts, prior, 10.0 ** draw(st.floats(-3, 4))


@settings(max_examples=80)
@given(settings_of(), st.booleans())
def test_the_envelope_dominates_and_its_masses_are_exact(
    setting: tuple[tuple[int, ...], tuple[float, ...], float], narrow: bool
) -> None:
    counts, prior, rate = setting
    e = build(counts, prior, rate, narrow)
    rows = [tuple(row) for row in compositions(sum(counts), len(counts)).tolist()]
    total = 0
    for b in rows:
        bound, value = bound_and_value(e, b)
        assert 0 < value <= bound
        total += e._envelope_at(b)
    # Summed over all candidates the envelope is what its normalisers say, to the last bit.
    assert total == sum(e._masses)


def drawn_distribution(e: Envelope, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = compositions(e.n, e.k)
    gaps = np.sum([e.gap(i, column.astype(float)) for i, column in enumerate(rows.T)], axis=0)
    log_weight = height(gaps, e.rate)
    p = np.exp(log_weight - np.logaddexp.reduce(log_weight))
    source = SeededEntropy(seed)
    seen = Counter(e.draw(source) for _ in range(size))
    assert set(seen) <= {tuple(row) for row in rows.tolist()}
    return np.array([seen[tuple(row)] for row in rows.tolist()], dtype=float), size * p


CASES = [
    (counts, prior, rate)
    for counts, prior in [
        ((10, 10, 10), (1.0, 1.0, 1.0)),
        ((28, 1, 1), (0.5, 0.5, 0.5)),
        ((0, 3, 9, 4), (2.0, 1.0, 0.3, 5.0)),
        ((5, 5, 5, 5), (1.0,) * 4),
        ((2, 0, 0, 7, 1), (1.0,) * 5),
    ]
    for rate in (0.4, 2.0, 6.0, 15.0)
]


@pytest.mark.parametrize(("counts", "prior", "rate"), CASES[:12:5])
def test_draws_match_the_enumeration(counts, prior, rate) -> None:  # type: ignore[no-untyped-def]
    statistic, df = chi_square(*drawn_distribution(build(counts, prior, rate), 40_000, 11))
    assert chi2.sf(statistic, df) >= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("counts", "prior", "rate"), CASES)
def test_draws_match_the_enumeration_in_all_cases(counts, prior, rate) -> None:  # type: ignore[no-untyped-def]
    statistic, df = chi_square(*drawn_distribution(build(counts, prior, rate), 100_000, 12))
    assert chi2.sf(statistic, df) >= ALPHA


def test_a_rate_wrong_by_five_percent_is_noticed() -> None:
    e = build((10, 10, 10), (1.0, 1.0, 1.0), 12.0)
    wrong = build((10, 10, 10), (1.0, 1.0, 1.0), 12.6)
    _, expected = drawn_distribution(e, 1, 0)
    observed, _ = drawn_distribution(wrong, 40_000, 13)
    grouped = np.argsort(-expected).argsort() // 50  # neighbouring weights together: fewer cells, more power
    statistic, df = chi_square(np.bincount(grouped, observed), np.bincount(grouped, 40_000 * expected))
    assert chi2.sf(statistic, df) < ALPHA


def test_simulation_follows_the_same_distribution() -> None:
    e = build((5, 5, 5, 5), (1.0,) * 4, 12.0)
    rows = compositions(20, 4)
    index = {tuple(row): i for i, row in enumerate(rows.tolist())}
    size = 60_000
    simulated = e.simulate(size, np.random.default_rng(5))
    observed = np.bincount([index[tuple(r)] for r in simulated.tolist()], minlength=len(rows)).astype(float)
    _, expected = drawn_distribution(e, 1, 0)
    statistic, df = chi_square(observed, size * expected)
    assert chi2.sf(statistic, df) >= ALPHA


def acceptance(name: str, n: int, k: int, epsilon: float, flat: bool, draws: int) -> float:
    counts = [n // k] * k if flat else [2] * k
    counts[0] += n - sum(counts)
    m = discreet.mechanism(name, prior=(1.0,) * k, n=n, epsilon=epsilon)
    e = m.envelope(tuple(counts))  # type: ignore[attr-defined]
    source = SeededEntropy(1)
    for _ in range(draws):
        e.draw(source)
    return draws / e.attempts


@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 1, 10])
@pytest.mark.parametrize(("n", "k"), [(300, 10), (10_000, 5)])
def test_acceptance(n: int, k: int, epsilon: float, flat: bool) -> None:
    assert acceptance("ehds", n, k, epsilon, flat, 60) >= 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize("name", ["ehd", "ehds"])
@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1, 10])
@pytest.mark.parametrize("k", [3, 5, 10, 20])
@pytest.mark.parametrize("n", [100, 1_000, 100_000])
def test_acceptance_everywhere(n: int, k: int, epsilon: float, flat: bool, name: str) -> None:
    assert acceptance(name, n, k, epsilon, flat, 40) >= 0.5


def test_huge_candidate_sets() -> None:
    """n = 10⁵, k = 10: 2.7·10³⁹ candidates, drawn without a list of them."""
    m = discreet.mechanism("ehds", prior=(1.0,) * 10, n=100_000, epsilon=1)
    assert m.number_of_outputs == math.comb(100_009, 9)  # type: ignore[attr-defined]
    released = m.draw((10_000,) * 10)
    assert sum(released) == 100_000
    assert all(type(x) is int for x in released)
    with pytest.raises(TooLargeError, match=r"2\.76e\+39"):
        m.log_pmf((10_000,) * 10)
    assert m.simulate((10_000,) * 10, size=20, seed=1).shape == (20, 10)


@pytest.mark.parametrize("rate", [3.0, 8.0, 20.0])
def test_narrow_windows_draw_the_same_distribution(rate: float) -> None:
    e = build((3, 2, 1), (1.0, 0.5, 2.0), rate, narrow=True)
    statistic, df = chi_square(*drawn_distribution(e, 3_000, 14))
    assert chi2.sf(statistic, df) >= ALPHA


def shapes(n: int, k: int) -> list[tuple[int, ...]]:
    """Datasets as different as they can be: flat, all in one level, halved, with a few records elsewhere."""
    found = [[n // k] * k, [0] * k, [0] * k, [min(30, n // k)] * k]
    found[2][1] = n // 2
    for counts in found:
        counts[0] += n - sum(counts)
    return [tuple(counts) for counts in found]


@settings(max_examples=40)
@given(st.integers(2, 6), st.integers(1, 4000), st.floats(-3, 3), st.floats(-3, 2), st.data())
def test_windows_are_never_larger_than_public_numbers_say(
    k: int, n: int, log_prior: float, log_gap: float, data: st.DataObject
) -> None:
    prior, reach = (10.0**log_prior,) * k, 10.0**log_gap
    bars = sorted(data.draw(st.lists(st.integers(0, n), min_size=k - 1, max_size=k - 1)))
    drawn = tuple(b - a for a, b in itertools.pairwise([0, *bars, n]))
    for counts in (*shapes(n, k), drawn):
        lengths = []
        for i, count in enumerate(counts):
            b = np.arange(n + 1.0)
            inside = log_gamma_gap(prior[i] + count, prior[i] + b, count - b) <= reach
            lengths.append((inside[: count + 1].sum(), inside[count:].sum(), inside.sum()))
        widest, together = largest_windows(n, k, n + sum(prior), np.array([reach]))
        assert max(max(down, up) for down, up, _ in lengths) <= widest[0]
        assert sum(whole for *_, whole in lengths) <= together[0]


@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize(
    ("name", "k", "n", "epsilon"),
    [
        ("ehd", 3, 10**12, 10),
        ("ehds", 3, 10**12, 10),
        ("ehds", 2, 10**12, 10_000),
        ("ehds", 2, 10**11, 1),
        ("ehds", 2, 10**10, 10),
        ("ehd", 100, 10**6, 1),
        ("mbeta", 5, 10**11, 1),
    ],
)
def test_what_is_too_large_does_not_depend_on_the_counts(name: str, k: int, n: int, epsilon: int) -> None:
    """Once the windows around the true counts decided, and with them an error that an observer may see."""
    options = {"delta": "1e-6"} if name == "mbeta" else {}
    m = discreet.mechanism(name, prior=(1.0,) * k, n=n, epsilon=epsilon, **options)

    def outcome(counts: tuple[int, ...]) -> str:
        try:
            return str(len(m.draw(counts)))
        except TooLargeError as error:
            return str(error)

    assert len({outcome(counts) for counts in shapes(n, k)}) == 1


def test_too_large_is_said_before_the_data_are_opened() -> None:
    question = shares_request(levels=("a", "b", "c"), epsilon=10, mechanism="ehds", n=10**12)
    with pytest.raises(TooLargeError, match="windows"):
        question.price()


@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize("name", ["ehd", "ehds"])
@pytest.mark.parametrize(
    ("k", "n"), [(2, 10**10), (3, 10**9), (5, 10**9), (10, 10**8), (20, 10**7), (50, 10**6)]
)
def test_ordinary_sizes_are_not_refused(name: str, k: int, n: int) -> None:
    for epsilon in ("0.1", "1", "10"):
        discreet.mechanism(name, prior=(1.0,) * k, n=n, epsilon=epsilon).check_size()


@pytest.mark.parametrize("counts", [(1, 0), (0, 1), (1, 0, 0), (0, 0, 0, 2)])
def test_smallest_cases(counts: tuple[int, ...]) -> None:
    e = build(counts, (1.0,) * len(counts), 5.0)
    source = SeededEntropy(2)
    assert all(sum(e.draw(source)) == sum(counts) for _ in range(50))


def test_weights_below_the_unit_are_accepted_as_rarely_as_they_say() -> None:
    """A far candidate at a steep rate: its weight is below the unit, and further bits must all be 0."""

    class Scripted:
        def __init__(self, *values: int) -> None:
            self.values, self.rest = list(values), SeededEntropy(4)

        def below(self, bound: int) -> int:
            return self.values.pop(0) if self.values else self.rest.below(bound)

        def bytes(self, count: int) -> bytes:
            return self.rest.bytes(count)

    e = build((10, 10, 10), (1.0, 1.0, 1.0), 5000.0)
    far = (0, 30, 0)
    last = sum(e._masses) - 1  # the node λ = 0, which proposes any composition; then its two bars
    assert e.draw(Scripted(last, *[0] * 400)) == far  # below the weight, and all bits 0
    assert e.draw(Scripted(last, 0, 0, 0, 1)) != far
