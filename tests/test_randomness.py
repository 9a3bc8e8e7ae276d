"""The samplers by exhaustive enumeration of their decisions, not by sampling."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import discreet
import shorthand
from discreet._randomness import bulk
from discreet._randomness import integers as randomness
from discreet._randomness.entropy import OSEntropy, SeededEntropy, Source, private_source
from discreet._randomness.integers import (
    bernoulli_exp,
    categorical,
    discrete_laplace,
    floor_laplace,
    geometric,
)
from discreet.errors import InvalidInputError, NotPrivateError
from statistical.goodness import ALPHA, chi_square


class _NeedsMore(Exception):
    def __init__(self, branches: list[float | Fraction]) -> None:
        self.branches = branches


class _Script:
    """A source that replays a list of values, and asks for one more when it runs out."""

    def __init__(self, values: tuple[int, ...]) -> None:
        self.values = list(values)

    def below(self, bound: int) -> int:
        if not self.values:
            raise _NeedsMore([Fraction(1, bound)] * bound)
        value = self.values.pop(0)
        assert 0 <= value < bound
        return value

    def bytes(self, count: int) -> bytes:
        return bytes(count)

    def choose(self, probabilities: list[float]) -> int:
        if not self.values:
            raise _NeedsMore(list(probabilities))
        return self.values.pop(0)

    def decide(self, probability: float) -> bool:
        return self.choose([1 - probability, probability]) == 1


def choose_geometric(p: int, q: int, source: Any) -> int:
    ratio = math.exp(-p / q)
    return int(source.choose([(1 - ratio) * ratio**g for g in range(40)]))


def decide(p: int, q: int, source: Any) -> bool:
    """Bernoulli(exp(−p/q)) as one branch: the sampler itself is enumerated on its own below."""
    return bool(source.decide(math.exp(-p / q)))


# Each sampler is enumerated from the distribution of the samplers it calls, which are enumerated in turn.
@pytest.fixture
def exact_exp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "bernoulli_exp", decide)


@pytest.fixture
def exact_geometric(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(randomness, "geometric", choose_geometric)


class _Ratio:
    """p(total)/max p for p(m) = C(m + k − 1, k − 1)e^{−rate·m}, decided in one branch."""

    def __init__(self, k: int, rate: Fraction, total: int) -> None:
        distribution = [math.comb(m + k - 1, k - 1) * math.exp(-float(rate) * m) for m in range(200)]
        self.probability = distribution[total] / max(distribution)

    def exceeds(self, word: int, source: Any) -> bool:
        return bool(source.decide(self.probability))


@pytest.fixture
def exact_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of lattice noise, which tests/test_bulk.py has, in one branch each."""

    def several(k: int, rate: Fraction, source: Any) -> Any:
        return np.array([choose_geometric(rate.numerator, rate.denominator, source) for _ in range(k)])

    monkeypatch.setattr(bulk, "geometric", several)
    monkeypatch.setattr(bulk, "_same_sum", _Ratio)


def enumerate_distribution(sampler: Callable[[Source], Any], cut: float) -> tuple[dict[Any, float], float]:
    """Exact probabilities of all outcomes over every decision path above ``cut``, and the mass left open."""
    distribution: dict[Any, float | Fraction] = defaultdict(Fraction)
    left: float | Fraction = Fraction(0)
    paths: list[tuple[tuple[int, ...], float | Fraction]] = [((), Fraction(1))]
    while paths:
        prefix, probability = paths.pop()
        try:
            distribution[sampler(_Script(prefix))] += probability
        except _NeedsMore as more:
            if probability < cut:
                left += probability
            else:
                paths += [((*prefix, v), probability * p) for v, p in enumerate(more.branches)]
    return {outcome: float(p) for outcome, p in distribution.items()}, float(left)


def check_distribution(sampler: Callable[[Source], Any], claimed: Callable[[Any], float], cut: float) -> None:
    distribution, left = enumerate_distribution(sampler, cut)
    assert left < 1e-3
    assert sum(distribution.values()) + left == pytest.approx(1, abs=1e-6)
    left += 1e-6  # the replaced samplers are cut far out
    for outcome, probability in distribution.items():
        assert probability <= claimed(outcome) + 1e-12
        assert probability >= claimed(outcome) - left - 1e-12


@pytest.mark.parametrize(("p", "q"), [(0, 1), (1, 3), (2, 3), (1, 1)])
def test_bernoulli_exp(p: int, q: int) -> None:
    truth = math.exp(-p / q)
    check_distribution(
        lambda source: bernoulli_exp(p, q, source), lambda hit: truth if hit else 1 - truth, cut=1e-7
    )


@pytest.mark.usefixtures("exact_exp")
@pytest.mark.parametrize(("p", "q"), [(1, 1), (3, 1), (2, 3), (5, 3)])
def test_geometric(p: int, q: int) -> None:
    rate = p / q
    check_distribution(
        lambda source: geometric(p, q, source), lambda g: -math.expm1(-rate) * math.exp(-rate * g), cut=1e-7
    )


@pytest.mark.usefixtures("exact_geometric")
@pytest.mark.parametrize(("p", "q"), [(1, 1), (5, 2)])
def test_discrete_laplace(p: int, q: int) -> None:
    rate = p / q
    check_distribution(
        lambda source: discrete_laplace(p, q, source),
        lambda x: math.tanh(rate / 2) * math.exp(-rate * abs(x)),
        cut=1e-9,
    )


@pytest.mark.usefixtures("exact_geometric")
@pytest.mark.parametrize(("p", "q"), [(1, 1), (5, 2)])
def test_floor_laplace(p: int, q: int) -> None:
    rate = p / q

    def claimed(x: int) -> float:  # the integral of the Laplace density over [x, x + 1)
        def cdf(y: float) -> float:
            return 0.5 * math.exp(rate * y) if y < 0 else 1 - 0.5 * math.exp(-rate * y)

        return cdf(x + 1) - cdf(x)

    check_distribution(lambda source: floor_laplace(p, q, source), claimed, cut=1e-9)


@pytest.mark.usefixtures("exact_parts")
def test_lattice_noise_of_two_levels() -> None:
    check_distribution(
        lambda source: tuple(bulk.lattice_noise(2, Fraction(3), source).tolist()),
        lambda v: math.tanh(1.5) * math.exp(-3 * abs(v[0])),
        cut=3e-7,
    )


@pytest.mark.usefixtures("exact_parts")
def test_lattice_noise_of_three_levels() -> None:
    epsilon = Fraction(6)
    normaliser = discreet.mechanism("lattice", prior=(1, 1, 1), n=9, epsilon=6).log_noise_normaliser()
    check_distribution(
        lambda source: tuple(bulk.lattice_noise(3, epsilon, source).tolist()),
        lambda v: math.exp(-3.0 * sum(map(abs, v)) - normaliser) if sum(v) == 0 else 0.0,
        cut=3e-7,
    )


def test_categorical() -> None:
    weights = [3, 0, 5, 1]
    distribution, left = enumerate_distribution(lambda source: categorical(weights, source), 0)
    assert left == 0
    assert distribution == {0: pytest.approx(3 / 9), 2: pytest.approx(5 / 9), 3: pytest.approx(1 / 9)}
    huge = [10**40, 1]
    assert categorical(huge, _Script((10**40,))) == 1
    assert categorical(huge, _Script((10**40 - 1,))) == 0
    for bad in ([0, 0], [], [1, -1]):
        with pytest.raises(InvalidInputError):
            categorical(bad, OSEntropy())


def test_extreme_randomness_is_not_cut() -> None:
    """A source that keeps saying "go on" reaches arbitrarily far into the tail."""
    steps = 400
    # low = 0 is accepted at once; each further unit is granted by the answers 0, 0, 1 and ended by 0, 1.
    script = (0, 0) + (0, 0, 1) * steps + (0, 1)
    assert geometric(1, 1, _Script(script)) == steps


@pytest.mark.parametrize("bad", [np.random.default_rng(0), SeededEntropy(1), 7, "seed"])
def test_the_private_path_refuses_seeds(bad: Any) -> None:
    m = discreet.mechanism("lattice", prior=(1, 1), n=10, epsilon=1)
    with pytest.raises(NotPrivateError, match="operating system"):
        m.draw((4, 6), entropy=bad)
    with pytest.raises(NotPrivateError):
        private_source(bad)


def test_seeded_stream_is_reproducible_and_uniform() -> None:
    first, second = SeededEntropy(3), SeededEntropy(3)
    bounds = [2, 7, 1, 10**30, 5, 2**64] * 50
    values = [first.below(b) for b in bounds]
    assert values == [second.below(b) for b in bounds]
    assert all(0 <= v < b for v, b in zip(values, bounds, strict=True))
    assert values != [SeededEntropy(4).below(b) for b in bounds]
    source = SeededEntropy(9)
    observed = np.bincount([source.below(11) for _ in range(44_000)], minlength=11).astype(float)
    statistic, _ = chi_square(observed, np.full(11, 4000.0))
    assert statistic < 80


@pytest.mark.parametrize("name", ["lszhang", "lattice", "ehds"])
def test_private_draws_consume_the_operating_systems_entropy(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every integer of a draw comes from ``secrets``, and no seed of another generator fixes it."""
    import random
    import secrets

    m = discreet.mechanism(name, prior=(1, 1), n=1000, epsilon="0.5")
    asked = []
    for generator in ("randbelow", "token_bytes"):
        real = getattr(secrets, generator)
        monkeypatch.setattr(
            f"discreet._randomness.entropy.secrets.{generator}",
            lambda n, real=real: (asked.append(n), real(n))[1],
        )
    m.draw((400, 600))
    assert asked
    before = len(asked)
    shorthand.shares({"a": 400, "b": 600}, levels=("a", "b"), epsilon="0.5", mechanism=name)
    assert len(asked) > before
    outputs = set()
    for _ in range(12):
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        outputs.add(m.draw((400, 600)))
    assert len(outputs) > 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_children_never_repeat() -> None:
    seen = []
    for _ in range(8):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            # lattice would not do here: its decoding maps nearby noisy counts to one
            m = discreet.mechanism("lshist", prior=(1, 1), n=10**30, epsilon="1e-15")
            os.write(write, m.draw((10**29, 9 * 10**29))[0].to_bytes(16, "big"))
            os._exit(0)
        os.waitpid(child, 0)
        seen.append(os.read(read, 16))
        os.close(read)
        os.close(write)
    assert len(set(seen)) == len(seen)


@pytest.mark.slow
def test_discrete_laplace_agrees_with_opendp() -> None:
    """Another implementation, the same distribution: 4·10⁴ of its draws against our formula."""
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed")
    from scipy.stats import chi2

    dp.enable_features("contrib")
    scale = 1.5
    laplace = dp.m.make_laplace(dp.atom_domain(T="i32"), dp.absolute_distance(T="i32"), scale=scale)
    size = 40_000
    drawn = np.clip([laplace(0) for _ in range(size)], -12, 12)
    x = np.arange(-12, 13)
    expected = math.tanh(0.5 / scale) * np.exp(-np.abs(x) / scale)
    expected[[0, -1]] /= -math.expm1(-1 / scale)  # the clipped ends hold their tails
    statistic, df = chi_square(np.bincount(drawn + 12, minlength=25).astype(float), size * expected)
    assert chi2.sf(statistic, df) >= ALPHA
