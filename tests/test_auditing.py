"""The audit against brute force, and against a set of planted faults of which it must find every one."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import discreet
from conformance.cases import CASES, Case
from conformance.oracle import datasets, distribution_matrix, neighbours, worst_delta, worst_loss
from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances, gap_table
from discreet._numerics.neighbours import neighbouring_rows
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms import MECHANISMS
from discreet.mechanisms.independent import LSHist
from discreet.mechanisms.lattice import Lattice
from discreet.planning import audit as auditing


@pytest.mark.parametrize("case", CASES, ids=str)
def test_audit_equals_brute_force(case: Case) -> None:
    m = case.build(7)
    a = discreet.audit(m, of="decoded")
    points, matrix = distribution_matrix(m)
    assert a.epsilon == pytest.approx(worst_loss(points, matrix), abs=1e-10)
    for epsilon in (0.0, 0.05, 0.5):
        assert a.delta(epsilon) == pytest.approx(worst_delta(points, matrix, epsilon), abs=1e-12)
    assert a.holds
    x, y = (dict(zip(map(tuple, o.tolist()), p, strict=True)) for o, p in map(m.log_pmf, a.worst[:2]))
    assert x[a.worst.outcome] - y[a.worst.outcome] == pytest.approx(a.epsilon, abs=1e-10)
    assert a.worst.neighbour in neighbours(a.worst.counts)


def test_profile_is_the_whole_curve() -> None:
    m = discreet.mechanism("ehds", prior=(1, 1), n=30, epsilon=2)
    a = discreet.audit(m)
    epsilons, deltas = a.profile()
    assert epsilons[0] == 0
    assert epsilons[-1] == a.epsilon
    assert (np.diff(deltas) <= 0).all()
    assert deltas[0] > 0
    assert deltas[-1] == pytest.approx(0, abs=1e-12)


def test_ehdl_is_found_not_private() -> None:
    a = discreet.audit(discreet.mechanism("ehdl", prior=(0.1, 0.1), n=200, epsilon=0.8))
    assert a.epsilon == pytest.approx(0.8214, abs=5e-5)
    assert "no guarantee" in str(a)


def test_symmetric_reduction_changes_nothing() -> None:
    m = discreet.mechanism("ehds", prior=(1, 1, 1), n=9, epsilon=2)
    reduced = discreet.audit(m)

    class Plain(type(m)):  # type: ignore[misc]
        exchangeable = False

    full = discreet.audit(Plain(prior=m.prior, n=m.n, epsilon=m.epsilon))
    assert reduced.epsilon == pytest.approx(full.epsilon, abs=1e-12)
    assert reduced.delta(0.1) == pytest.approx(full.delta(0.1), abs=1e-13)
    assert reduced.triples < full.triples


@pytest.mark.parametrize("k", [2, 3, 5])
def test_noisy_counts_of_the_lattice_in_closed_form(k: int) -> None:
    m = discreet.mechanism("lattice", prior=(1,) * k, n=9, epsilon=0.8)
    a = discreet.audit(m, of="noisy")
    assert a.epsilon == 0.8
    noise = m.simulate_noise(400_000, np.random.default_rng(1))  # type: ignore[attr-defined]
    chance = float(((noise[:, 0] >= 0) & (noise[:, 1] <= 0)).mean())
    for epsilon in (0.0, 0.3, 0.8, 1.5):
        expected = chance * max(0.0, 1 - math.exp(epsilon - 0.8))
        assert a.delta(epsilon) == pytest.approx(expected, abs=0.004)
    # decoding is post-processing: it cannot lose more
    if k < 5:
        decoded = discreet.audit(m, of="decoded")
        assert decoded.epsilon <= a.epsilon + 1e-9
        assert decoded.delta(0.2) <= a.delta(0.2) + 1e-9


# ---- what is published ---------------------------------------------------------------------------------


def test_a_guarantee_is_of_everything_that_is_published() -> None:
    """Composing audited lattice releases once gave ε = 0 where the published documents cost 33."""
    m = discreet.mechanism("lattice", prior=(1, 50), n=4, epsilon="1/2")
    decoded = discreet.audit(m, of="decoded")
    assert decoded.epsilon < 1e-9, "the decoded counts of this prior are always the same"
    assert "no guarantee" in str(decoded)
    with pytest.raises(InvalidInputError, match="leaves out the noisy counts"):
        decoded.guarantee()
    whole = discreet.audit(m)
    assert whole.everything
    assert whole.epsilon == 0.5
    together = discreet.compose([whole.guarantee()], count=100)
    # An attacker who reads the noisy counts of 100 releases: δ at ε = 10 of 100 two-sided geometrics.
    assert together.to_dp("1e-6").epsilon > 20
    # Noisy counts of a mechanism that does not say that it publishes them are not published.
    quiet = _KeepsQuiet(prior=(1.0, 1.0), n=4, epsilon=Fraction(1)).run((2, 2))
    assert quiet.noisy is None
    assert sum(quiet.counts) == 4
    assert min(quiet.counts) >= 0
    with pytest.raises(TooLargeError, match="not known"):
        discreet.audit(_KeepsUnknown(prior=(1.0, 1.0), n=4, epsilon=Fraction(1)))


class _KeepsQuiet(Lattice):
    keeps_noisy = False


class _KeepsUnknown(LSHist):
    keeps_noisy = True


@pytest.mark.parametrize(("n", "k"), [(2048, 2), (5000, 2), (10**9, 2), (10**6, 10_000)])
def test_lattice_is_audited_at_any_size(n: int, k: int) -> None:
    """At n ≥ 2,048 the distribution was once cut at 36 nats, and the claim called false."""
    for epsilon in ("0.001", "1", "30"):
        m = MECHANISMS["lattice"](prior=(1.0,) * k, n=n, epsilon=Fraction(epsilon))
        a = discreet.audit(m)
        assert a.epsilon == float(Fraction(epsilon))
        assert a.holds
        assert 0 < a.delta(0.0) < 1


def test_the_decoded_distribution_of_many_records_has_all_its_tails() -> None:
    a = discreet.audit(discreet.mechanism("lattice", prior=(1, 1), n=2049, epsilon=4), of="decoded")
    assert a.holds
    assert a.epsilon == pytest.approx(4, abs=1e-9)


def test_a_large_audit_keeps_one_matrix() -> None:
    """4,001² probabilities are 122 MiB; the distributions, kept one by one, once took four times that."""
    m = discreet.mechanism("lshist", prior=(1, 1), n=4000, epsilon=1)
    tracemalloc.start()
    try:
        assert discreet.audit(m).holds
        assert tracemalloc.get_traced_memory()[1] < 180 * 2**20
    finally:
        tracemalloc.stop()


# ---- planted faults ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Planted:
    """A mechanism as somebody might write it: a claim and a distribution over outputs."""

    n: int
    k: int
    epsilon: str
    distribution: Callable[[tuple[int, ...]], dict[tuple[int, ...], float]]

    @property
    def guarantee(self) -> discreet.Guarantee:
        return discreet.Guarantee(Fraction(self.epsilon))

    def log_pmf(self, counts: Any) -> tuple[np.ndarray, np.ndarray]:
        distribution = {r: p for r, p in self.distribution(tuple(int(c) for c in counts)).items() if p > 0}
        return np.array(list(distribution)), np.log(np.array(list(distribution.values())))


def library(name: str, claimed: str, **parameters: Any) -> Planted:
    """The library's own mechanism, built with other parameters than it is claimed with."""
    m = discreet.mechanism(name, **parameters)

    def distribution(counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        outputs, log_probability = m.log_pmf(counts)
        return dict(zip(map(tuple, outputs.tolist()), np.exp(log_probability).tolist(), strict=True))

    return Planted(m.n, m.k, claimed, distribution)


def one_count(noise: Callable[[int], dict[int, float]], n: int = 10, epsilon: str = "1") -> Planted:
    """k = 2: the first count plus noise, clamped; ``noise`` may look at the count."""

    def distribution(counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        result: dict[tuple[int, ...], float] = {}
        for v, p in noise(counts[0]).items():
            r = min(max(counts[0] + v, 0), n)
            result[r, n - r] = result.get((r, n - r), 0.0) + p
        return result

    return Planted(n, 2, epsilon, distribution)


def geometric(rate: float, reach: int = 80) -> dict[int, float]:
    return {v: math.tanh(rate / 2) * math.exp(-rate * abs(v)) for v in range(-reach, reach + 1)}


def gaussian(sigma: float) -> dict[int, float]:
    weight = {v: math.exp(-(v**2) / (2 * sigma**2)) for v in range(-30, 31)}
    return {v: p / sum(weight.values()) for v, p in weight.items()}


def cut(distribution: dict[int, float], reach: int) -> dict[int, float]:
    kept = {v: p for v, p in distribution.items() if abs(v) <= reach}
    return {v: p / sum(kept.values()) for v, p in kept.items()}


def scaled(m: discreet.Mechanism, strength: float, sharpness: Callable[[tuple[int, ...]], float]) -> Planted:
    """An exponential mechanism with a strength and a sharpness of the fault's own."""
    rows = compositions(m.n, m.k)
    distance = candidate_distances(m.prior, rows)
    outputs = [tuple(row) for row in rows.tolist()]

    def distribution(counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        weight = np.exp(-strength * sharpness(counts) * distance[outputs.index(counts)])
        return dict(zip(outputs, (weight / weight.sum()).tolist(), strict=True))

    return Planted(m.n, m.k, str(m.epsilon), distribution)


def without_noise_on_the_last() -> Planted:
    m = discreet.mechanism("lszhang", prior=(1, 1, 1), n=6, epsilon=1)

    def distribution(counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        result: dict[tuple[int, ...], float] = {}
        outputs, log_probability = m.log_pmf(counts)
        for row, p in zip(outputs.tolist(), np.exp(log_probability).tolist(), strict=True):
            r = (row[0], row[1], counts[2])
            result[r] = result.get(r, 0.0) + p
        return result

    return Planted(6, 3, "1", distribution)


def with_a_backdoor() -> Planted:
    honest = library("lattice", "1", prior=(1, 1), n=10, epsilon=1)

    def distribution(counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        result = {r: 0.999 * p for r, p in honest.distribution(counts).items()}
        result[counts] += 0.001
        return result

    return Planted(10, 2, "1", distribution)


def underflow() -> Planted:
    m = discreet.mechanism("ehds", prior=(1, 1), n=40, epsilon=60)

    def distribution(counts: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        outputs, log_probability = m.log_pmf(counts)
        weight = np.exp(log_probability.astype(np.float16)).astype(np.float64)  # most round to zero
        return dict(zip(map(tuple, outputs.tolist()), (weight / weight.sum()).tolist(), strict=True))

    return Planted(40, 2, "60", distribution)


def calibrated(prior: tuple[float, ...], n: int) -> Any:
    return discreet.mechanism("ehdl", prior=prior, n=n, epsilon=1, calibration="exact")


def shape(m: Any) -> Callable[[tuple[int, ...]], float]:
    return lambda counts: float(m.sharpness(counts))


FAULTS: dict[str, Callable[[], Planted]] = {
    "lshist, k = 2: scale 2 % too small": lambda: library(
        "lshist", "0.8", prior=(1, 1), n=12, epsilon="0.816"
    ),
    "lshist, k = 3: scale 2 % too small": lambda: library(
        "lshist", "0.8", prior=(1,) * 3, n=6, epsilon="0.816"
    ),
    "lszhang: scale 2 % too small": lambda: library("lszhang", "0.8", prior=(1, 1), n=8, epsilon="0.816"),
    "lattice: scale 2 % too small": lambda: library("lattice", "0.8", prior=(1, 1), n=12, epsilon="0.816"),
    "lszhang with the scale 1/ε of one count": lambda: library("lszhang", "1", prior=(1, 1), n=8, epsilon=2),
    "lshist, k = 3, with the scale of k = 2": lambda: library("lshist", "1", prior=(1,) * 3, n=6, epsilon=2),
    "one coordinate without noise": without_noise_on_the_last,
    "noise cut at ±3": lambda: one_count(lambda c: cut(geometric(1), 3)),
    "noise clamped before it is added": lambda: one_count(
        lambda c: (
            {v: p for v, p in cut(geometric(1), 5).items() if v >= 0}
            | {0: sum(p for v, p in cut(geometric(1), 5).items() if v <= 0)}
        )
    ),
    "one-sided noise": lambda: one_count(lambda c: {v: (1 - math.exp(-1)) * math.exp(-v) for v in range(60)}),
    "uniform noise": lambda: one_count(lambda c: dict.fromkeys(range(-4, 5), 1 / 9)),
    "Gaussian noise claimed as pure": lambda: one_count(lambda c: gaussian(2.0)),
    "rounded scale: ε = 1.4 run as 1": lambda: one_count(lambda c: geometric(1.4)),
    "noise only where the count is even": lambda: one_count(
        lambda c: geometric(1) if c % 2 == 0 else {0: 1.0}
    ),
    "less noise for larger counts": lambda: one_count(lambda c: geometric(1 + c / 10)),
    "truth with probability 1/1000": with_a_backdoor,
    "weights that underflow to zero": underflow,
    "local sensitivity": lambda: library("ehdl", "0.8", prior=(0.1, 0.1), n=200, epsilon="0.8"),
    "calibrated strength 2 % too large": lambda: scaled(
        calibrated((1, 1), 40), 1.02 * calibrated((1, 1), 40).strength, shape(calibrated((1, 1), 40))
    ),
    "strength calibrated for α = 1 used at α = ½": lambda: scaled(
        calibrated((0.5, 0.5), 40), calibrated((1, 1), 40).strength, shape(calibrated((0.5, 0.5), 40))
    ),
    "sensitivity of α = 1 used at α = ½ with calibrated EHD": lambda: scaled(
        discreet.mechanism("ehd", prior=(0.5, 0.5), n=40, epsilon=1),
        discreet.mechanism("ehd", prior=(1, 1), n=40, epsilon=1, calibration="exact").strength,  # type: ignore[attr-defined]
        lambda counts: 1 / discreet.global_sensitivity(40, (1, 1)),
    ),
    "strength calibrated for n = 20 used at n = 200": lambda: scaled(
        calibrated((1, 1), 200), calibrated((1, 1), 20).strength, shape(calibrated((1, 1), 200))
    ),
    "rate ε/S instead of ε/2S": lambda: scaled(
        discreet.mechanism("mbeta", prior=(1, 1), n=180, epsilon="0.8", delta="0.0005"),
        0.8,
        shape(discreet.mechanism("mbeta", prior=(1, 1), n=180, epsilon="0.8", delta="0.0005")),
    ),
    "sensitivity of the neighbour, not of the data": lambda: scaled(
        calibrated((1, 1), 40),
        calibrated((1, 1), 40).strength,
        lambda c: 1 / discreet.local_sensitivity((min(c[0] + 1, 40), max(c[1] - 1, 0)), (1, 1)),
    ),
}


@pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")
@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_fault_is_found(fault: str) -> None:
    a = discreet.audit(FAULTS[fault]())
    assert not a.holds, fault
    assert "FALSE" in str(a)
    assert a.slack < 0


def test_there_are_at_least_twenty_faults() -> None:
    assert len(FAULTS) >= 20


@pytest.mark.parametrize("name", ["lshist", "lszhang", "lattice", "ehds"])
def test_the_honest_versions_pass(name: str) -> None:
    assert discreet.audit(library(name, "0.8", prior=(1, 1), n=12, epsilon="0.8")).holds
    assert discreet.audit(one_count(lambda c: geometric(1))).holds


# ---- the sampler ---------------------------------------------------------------------------------------


class Draws:
    """A mechanism whose draws come from another ε than its distribution."""

    def __init__(self, distribution: discreet.Mechanism, sampler: discreet.Mechanism, seed: int) -> None:
        self.n, self.k, self.guarantee, self.log_pmf = (
            distribution.n,
            distribution.k,
            distribution.guarantee,
            distribution.log_pmf,
        )
        self._drawn = iter(sampler.simulate((10, 20), size=100_000, seed=seed).tolist())

    def draw(self, counts: Any) -> tuple[int, ...]:
        return tuple(next(self._drawn))


def test_audit_sampler() -> None:
    distribution = discreet.mechanism("lshist", prior=(1, 1), n=30, epsilon=1)
    honest = discreet.audit_sampler(Draws(distribution, distribution, 1), (10, 20))
    assert honest.fits
    assert "fit the distribution" in str(honest)
    wrong = discreet.mechanism("lshist", prior=(1, 1), n=30, epsilon="1.05")
    assert not discreet.audit_sampler(Draws(distribution, wrong, 1), (10, 20)).fits
    outside = Draws(distribution, distribution, 1)
    outside.draw = lambda counts: (99, -69)  # type: ignore[method-assign]
    assert discreet.audit_sampler(outside, (10, 20)).p_value == 0
    assert discreet.audit_sampler(distribution, draws=2000).fits
    ehdl = discreet.mechanism("ehdl", prior=(1, 1), n=30, epsilon=1)
    assert discreet.audit_sampler(ehdl, draws=2000).fits


# ---- bad input -----------------------------------------------------------------------------------------


def test_too_large_says_how_large_and_what_fits() -> None:
    m = discreet.mechanism("ehd", prior=(1,) * 4, n=300, epsilon=1)
    with pytest.raises(TooLargeError, match=r"2\.5e\+14 triples.*up to about n = \d\d they fit"):
        discreet.audit(m)
    with pytest.raises(TooLargeError):
        discreet.audit(discreet.mechanism("lszhang", prior=(1,) * 3, n=200, epsilon=1))


def test_bad_input() -> None:
    m = discreet.mechanism("lshist", prior=(1, 1), n=5, epsilon=1)
    with pytest.raises(InvalidInputError, match="no log_pmf"):
        discreet.audit(object())  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="of='noisy'"):
        discreet.audit(m, of="noisy")
    with pytest.raises(InvalidInputError, match="of='all'"):
        discreet.audit(m, of="all")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="epsilon="):
        discreet.audit(m).delta(-1)
    with pytest.raises(InvalidInputError, match="epsilon="):
        discreet.audit(m).delta(math.nan)
    with pytest.raises(InvalidInputError, match="false_alarm_rate"):
        discreet.audit_sampler(m, false_alarm_rate=0)
    with pytest.raises(InvalidInputError, match="draws"):
        discreet.audit_sampler(m, draws=10)


def test_progress_bar_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    discreet.audit(discreet.mechanism("lshist", prior=(1, 1), n=5, epsilon=1), progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "enumerating" in captured.err


# ---- pairs ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "k"), [(1, 2), (6, 2), (5, 3), (4, 4)])
def test_neighbouring_rows(n: int, k: int) -> None:
    rows = compositions(n, k)
    points = [tuple(row) for row in rows.tolist()]
    found = {tuple(sorted((points[x], points[y]))) for x, y in neighbouring_rows(rows).tolist()}
    assert found == {tuple(sorted((c, d))) for c in datasets(n, k) for d in neighbours(c)}
    assert len(neighbouring_rows(rows)) == len(found)


@pytest.mark.parametrize("a", [0.001, 1.0, 37.5])
def test_gap_table(a: float) -> None:
    from discreet._numerics.log_gamma import log_gamma_gap

    counts = np.arange(301.0)
    expected = log_gamma_gap(a + counts[:, None], a + counts, counts[:, None] - counts)
    np.testing.assert_allclose(gap_table(a, 300), expected, rtol=1e-12, atol=0)
    assert auditing.MAX_ENTRIES == 50_000_000


def test_the_curve_of_an_audit_is_above_what_was_enumerated() -> None:
    result = discreet.audit(discreet.mechanism("lshist", prior=(1, 1), n=20, epsilon=0.5))
    guarantee = result.guarantee()
    for epsilon in (0.0, 0.1, 0.3):
        assert guarantee.delta_at(epsilon) >= result.delta(epsilon) + 0.9e-9
