"""Every public function at every size: an answer or one of our errors, and soon."""

from __future__ import annotations

import signal
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import discreet
from discreet._inference.noise_aware import noise_aware
from discreet.errors import DiscreetError
from discreet.mechanisms import MECHANISMS
from discreet_reproductions.hellinger.optimal import optimal_error
from discreet_reproductions.hellinger.plan import plan

pytestmark = [pytest.mark.slow, pytest.mark.long]

SIZES = (1, 2, 7, 100, 3000, 10**4, 10**6, 10**9)
LEVELS = (2, 3, 10, 100, 1000, 10**4)
SECONDS = 60
"""Of processor time, for one call; nearly all take less than one."""


@contextmanager
def hurried(seconds: float = SECONDS) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise AssertionError(f"took more than {seconds} seconds of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def spread(n: int, k: int) -> tuple[int, ...]:
    return tuple(n // k + (i < n % k) for i in range(k))


def answers(call: Callable[[], Any], label: str, slow: list[str]) -> Any:
    """The answer, or None where it is one of our errors; anything else is a failure."""
    start = time.process_time()
    try:
        with hurried():
            return call()
    except DiscreetError:
        return None
    except Exception as error:
        raise AssertionError(f"{label}: {type(error).__name__}: {error}") from error
    finally:
        took = time.process_time() - start
        if took > 5:
            slow.append(f"{label}: {took:.1f} s")


@pytest.fixture
def slow() -> Iterator[list[str]]:
    found: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield found
    print("\n".join(found))


@pytest.mark.parametrize("k", LEVELS)
@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_mechanisms(name: str, k: int, slow: list[str]) -> None:
    options = {"delta": "1e-6"} if name == "mbeta" else {}
    for n in SIZES:
        for epsilon in ("0.01", "1"):
            at = f"{name}, n={n}, k={k}, epsilon={epsilon}"
            m = answers(
                lambda n=n, e=epsilon: discreet.mechanism(name, prior=(1,) * k, n=n, epsilon=e, **options),
                at,
                slow,
            )
            if m is None or answers(lambda m=m: m.guarantee, f"guarantee of {at}", slow) is None:
                continue
            counts = spread(n, k)
            acknowledged = {} if m.guarantee.is_private else {"acknowledge_not_private": True}
            output = answers(lambda m=m, c=counts, a=acknowledged: m.run(c, **a), f"run of {at}", slow)
            if output is not None:
                assert sum(output.counts) == n or name in ("lszhang", "lsdim", "lshist")
                aware = answers(
                    lambda m=m, o=output: noise_aware(m, o.counts, o.noisy), f"noise_aware of {at}", slow
                )
                if aware is not None and k <= 100:
                    answers(lambda w=aware: w.interval(), f"interval of {at}", slow)
            answers(lambda m=m, c=counts: m.simulate(c, 3, 1), f"simulate of {at}", slow)
            answers(lambda m=m, c=counts: m.log_pmf(c), f"log_pmf of {at}", slow)
            found = answers(lambda m=m: discreet.audit(m), f"audit of {at}", slow)
            assert found is None or found.holds, at
            if m.keeps_noisy:
                assert found is not None, at
                answers(lambda m=m: discreet.audit(m, of="decoded"), f"decoded audit of {at}", slow)


@pytest.mark.parametrize("k", LEVELS)
def test_plans_and_limits(k: int, slow: list[str]) -> None:
    prior = (1,) * k
    for n in SIZES:
        at = f"n={n}, k={k}"
        answers(lambda n=n: plan(prior=prior, n=n, epsilon=0.5, quick=True), f"plan {at}", slow)
        answers(lambda n=n: str(plan(prior=prior, n=n, epsilon=0.5)), f"whole plan {at}", slow)
        answers(lambda n=n: optimal_error(prior=prior, n=n, epsilon=1), f"limit {at}", slow)
        counts = spread(n, k)
        answers(lambda c=counts: discreet.local_sensitivity(c, 1), f"local sensitivity {at}", slow)
        answers(lambda n=n: discreet.global_sensitivity(n, prior), f"global sensitivity {at}", slow)
        answers(lambda c=counts: discreet.smooth_sensitivity(c, 1, gamma=1), f"smooth {at}", slow)
        moved = (counts[0] + 1, counts[1] - 1, *counts[2:])
        if moved[1] >= 0:
            distance = discreet.hellinger(np.array(counts) + 1.0, np.array(moved) + 1.0)
            assert 0 < distance < 1
        made = answers(
            lambda n=n: discreet.posterior_sampler(
                "diffused", "dirichlet", prior=prior, n=n, epsilon=1, order=5
            ),
            f"sampler {at}",
            slow,
        )
        if made is not None and k <= 1000:
            answers(lambda s=made, c=counts: s.draw(c), f"draw {at}", slow)


FAMILIES: dict[str, tuple[Any, dict[str, Any], Callable[[int], Any]]] = {
    "beta": ((1, 1), {}, lambda n: n // 2),
    "gaussian": ((0, 1), {"sigma": 1, "bounds": (-3, 3)}, lambda n: 0),
    "gaussian-vector": (((0, 0), 1), {"sigma": 1, "radius": 3}, lambda n: (0, 0)),
    "poisson": ((2, 1), {"bounds": (0, 10)}, lambda n: 3 * n),
    "exponential": ((2, 1), {"bounds": (0.1, 10)}, lambda n: 2 * n),
}


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_families(name: str, slow: list[str]) -> None:
    prior, options, statistic = FAMILIES[name]
    for n in SIZES:
        for target in ({"order": 5}, {"delta": "1e-7"}):
            at = f"{name}, n={n}, {target}"
            made = answers(
                lambda n=n, t=target: discreet.posterior_sampler(
                    "diffused", name, prior=prior, n=n, epsilon=1, **t, **options
                ),
                at,
                slow,
            )
            if made is not None:
                sample = answers(lambda s=made, n=n: s.release(statistic(n), 2), f"release {at}", slow)
                assert sample is not None, at
                answers(lambda s=sample: s.summary(), f"summary {at}", slow)
