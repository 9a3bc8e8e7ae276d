from __future__ import annotations

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import discreet
from conformance.cases import REPLACE_ONE
from discreet.errors import InvalidInputError, NoiseWarning, TooLargeError
from discreet.mechanisms.independent import LSHist


def test_lshist_by_hand() -> None:
    """k = 2, n = 8, ε = 0.8, c = (4, 4): ⌊Laplace(1/ε)⌋ moved to 4 and clamped to [0, 8]."""
    m = discreet.mechanism("lshist", prior=(1, 1), n=8, epsilon=0.8)
    outputs, log_probability = m.log_pmf((4, 4))
    distribution = dict(zip(outputs[:, 0].tolist(), np.exp(log_probability).tolist(), strict=True))

    def cdf(y: float) -> float:
        return 0.5 * math.exp(0.8 * y) if y < 0 else 1 - 0.5 * math.exp(-0.8 * y)

    by_hand = {t: cdf(t - 4 + 1) - cdf(t - 4) for t in range(1, 8)}
    by_hand[0] = cdf(-3)  # all noise below −3 is floored to −4 or less, and clamped to 0
    by_hand[8] = 1 - cdf(4)
    assert distribution == pytest.approx(by_hand, abs=1e-15)
    assert (outputs.sum(axis=1) == 8).all()
    away = {d: sum(p for t, p in distribution.items() if abs(t - 4) == d) for d in range(5)}
    assert away[0] == pytest.approx(0.5 * (1 - math.exp(-0.8)), abs=1e-15)


@pytest.mark.parametrize("rate", [0.01, 0.8, 30.0])
@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_clamped_distribution_sums_to_one(count: int, rate: float) -> None:
    distribution = np.exp(
        LSHist(prior=(1.0, 1.0), n=5, epsilon=Fraction(str(rate))).clipped_distribution(count, 5)
    )
    assert distribution.sum() == pytest.approx(1, abs=1e-14)


def test_lszhang_noises_every_count_and_lsdim_does_not() -> None:
    totals = (
        discreet.mechanism("lszhang", prior=(1, 1), n=50, epsilon=1).simulate((25, 25), 500, 0).sum(axis=1)
    )
    assert (totals != 50).any()
    for name in ("lsdim", "lshist"):
        m = discreet.mechanism(name, prior=(1, 1, 1), n=50, epsilon=1)
        rows = m.simulate((20, 20, 10), 500, 0)
        np.testing.assert_array_equal(rows[:, 2], np.maximum(50 - rows[:, :2].sum(axis=1), 0))


def test_exact_losses_below_the_claim() -> None:
    """LSDim promises ε and really loses 2ε/k (ε/2 for two levels): the proof page says so."""
    from conformance.oracle import distribution_matrix, worst_loss

    for prior, share in (((1, 1), 1 / 2), ((1, 1, 1), 2 / 3), ((1, 1, 1, 1), 1 / 2)):
        m = discreet.mechanism("lsdim", prior=prior, n=8, epsilon=1)
        assert worst_loss(*distribution_matrix(m)) == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("name", ["lszhang", "lsdim", "lshist", "lattice"])
def test_counts_up_to_ten_to_the_thirty(name: str) -> None:
    n = 10**30
    for k in (2, 4):
        m = discreet.mechanism(name, prior=(1,) * k, n=n, epsilon=1)
        counts = (n - 7 * (k - 1),) + (7,) * (k - 1)
        released = m.draw(counts)
        assert all(type(value) is int for value in released)
        assert abs(released[0] - counts[0]) < 10**6
        assert abs(sum(released) - n) < 10**6
    with pytest.raises(TooLargeError, match="simulate"):
        m.simulate(counts)


@pytest.mark.parametrize("name", ["lszhang", "lsdim", "lshist", "lattice"])
def test_distributions_too_large_say_how_large(name: str) -> None:
    m = discreet.mechanism(name, prior=(1,) * 6, n=1000, epsilon=1)
    with pytest.raises(TooLargeError, match=r"1e\+1"):
        m.log_pmf((1000, 0, 0, 0, 0, 0))


def test_noise_warning_has_the_figure() -> None:
    with pytest.warns(NoiseWarning, match=r"±1e\+03"):
        discreet.mechanism("lattice", prior=(1, 1), n=50, epsilon="0.001")
    for name in ("lattice", "lshist"):
        with pytest.warns(NoiseWarning):
            discreet.mechanism(name, prior=(1, 1), n=50, epsilon="1e-299").draw((20, 30))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        discreet.mechanism("lattice", prior=(1, 1), n=50, epsilon=1)


@pytest.mark.parametrize("name", REPLACE_ONE)
def test_priors_that_vanish_are_refused_before_any_draw(name: str) -> None:
    with pytest.raises(InvalidInputError, match="at least 1e-12"):
        discreet.mechanism(
            name, prior=(1, 1e-13), n=8, epsilon=1, **({"delta": 0.1} if name == "mbeta" else {})
        )
    for n in (10, 10**6):
        smallest = discreet.mechanism("lattice", prior=(1e-12,) * 3, n=n, epsilon=1)
        assert sum(smallest.draw((n, 0, 0))) == n


def test_the_floating_point_attack_finds_nothing() -> None:
    """Mironov (2012): textbook Laplace noise in floats reaches different numbers from neighbouring counts.

    The attack works on the textbook sampler here, with every value of a 12-bit uniform, and has nothing to
    look at in ours: neighbours have the same integers as outputs.
    """
    uniforms = (np.arange(4096) + 0.5) / 4096

    def reachable(count: float) -> set[float]:
        return set((count + np.sign(uniforms - 0.5) * np.log(1 - 2 * np.abs(uniforms - 0.5))).tolist())

    assert len(reachable(0.0) & reachable(1.0)) < 0.9 * 4096
    for name in ("lszhang", "lsdim", "lshist", "lattice", "ehd", "ehds"):
        m = discreet.mechanism(name, prior=(1, 1), n=20, epsilon=1)
        supports = [set(map(tuple, m.log_pmf((c, 20 - c))[0].tolist())) for c in range(21)]
        assert all(support == supports[0] for support in supports)


def test_unknown_names_and_options() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'lattice'"):
        discreet.mechanism("latice", prior=(1, 1), n=5, epsilon=1)
    with pytest.raises(InvalidInputError, match="'gamma' is not an option of 'lattice'"):
        discreet.mechanism("lattice", prior=(1, 1), n=5, epsilon=1, gamma=2)


@pytest.mark.parametrize("size", [-1, 2.5, True, "3"])
def test_bad_simulation_size(size: object) -> None:
    with pytest.raises(InvalidInputError, match="size="):
        discreet.mechanism("lattice", prior=(1, 1), n=5, epsilon=1).simulate((2, 3), size)  # type: ignore[arg-type]


def test_mechanisms_are_immutable_values() -> None:
    m = discreet.mechanism("lattice", prior=(1, 1), n=5, epsilon=0.3)
    assert m == discreet.mechanism("lattice", prior=(1.0, 1.0), n=5, epsilon="3/10")
    with pytest.raises(AttributeError):
        m.n = 6  # type: ignore[misc]
    assert m.simulate((2, 3), 0).shape == (0, 2)
    m3 = discreet.mechanism("lattice", prior=(1, 1, 1), n=5, epsilon=1)
    assert m3.simulate((2, 3, 0), 0).shape == (0, 3)


def test_lattice_distribution_of_large_n_is_local() -> None:
    """n = 10⁶: the distribution is given up to the stated tail, centred on the count."""
    m = discreet.mechanism("lattice", prior=(1, 1), n=10**6, epsilon=1)
    outputs, log_probability = m.log_pmf((300_000, 700_000))
    assert 1 - np.exp(log_probability).sum() < 1e-15
    assert abs(float(np.exp(log_probability) @ outputs[:, 0]) - 300_000) < 1


def test_noise_normaliser_against_brute_force() -> None:
    import itertools

    for k, epsilon in ((2, 1.0), (3, 1.5), (4, 3.0)):
        m = discreet.mechanism("lattice", prior=(1,) * k, n=9, epsilon=epsilon)
        reach = range(-22, 23)
        total = sum(
            math.exp(-epsilon / 2 * (sum(map(abs, v)) + abs(sum(v))))
            for v in itertools.product(reach, repeat=k - 1)
        )
        assert m.log_noise_normaliser() == pytest.approx(math.log(total), abs=1e-7)
