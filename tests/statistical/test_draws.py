"""The real sampler against the exact distribution: 10⁵ draws each, and the test notices 2 % in the scale."""

from __future__ import annotations

import zlib
from fractions import Fraction

import numpy as np
import pytest

from conformance.cases import CASES, EPSILONS, PRIORS, REPLACE_ONE, Case
from discreet._randomness.entropy import SeededEntropy
from discreet.mechanisms.lattice import Lattice
from statistical.goodness import ALPHA, combined_p, fit

DRAWS = 100_000
COUNT_MECHANISMS = ("lszhang", "lsdim", "lshist", "lattice")
OPTIONS = {"mbeta": {"delta": "1/2000"}, "exponential": {"score": "l1"}}
TELLING = {"mbeta": "4", "ehds": "6", "ehd": "12", "ehdl": "4", "ehdl-calibrated": "2", "exponential": "4"}


def spread(n: int, k: int) -> tuple[int, ...]:
    counts = [n // k + (1 if i < n % k else 0) for i in range(k)]
    if counts[0] > 1:
        counts[0], counts[-1] = counts[0] - 1, counts[-1] + 1
    return tuple(counts)


def one_fit(case: Case, n: int, factor: Fraction = Fraction(1)) -> list[tuple[float, int]]:
    """The distribution that is claimed, and draws made with ε times ``factor``."""
    claimed = case.build(n)
    used = type(claimed)(**{**claimed.parameters(), "epsilon": claimed.epsilon * factor})
    counts = spread(n, claimed.k)
    # A stream of its own for every case: fits that are pooled must be independent.
    source = SeededEntropy(zlib.crc32(f"{case}/{n}/{factor}".encode()))
    runs = [used._draw_output(counts, source) for _ in range(DRAWS)]
    drawn = [run.counts for run in runs]
    if isinstance(claimed, Lattice):
        # The decoder is public and belongs to the claim; what may be wrong is the noise.
        decoded = [claimed.decoder.decode(run.noisy) for run in runs if run.noisy is not None]
        assert factor != 1 or decoded == drawn, "what is released is not what the noisy counts decode to"
        drawn = decoded
    outputs, log_probability = claimed.log_pmf(counts)
    return fit(drawn, outputs, np.exp(log_probability))


def cases_of(name: str, *epsilons: str) -> list[Case]:
    return [
        case
        for case in CASES
        if case.mechanism == name and case.epsilon in epsilons and case.options.get("calibration") != "exact"
    ]


# The whole grid is slow, a cross-section of it is not; for every day one mechanism of each sampler.
EVERY_DAY = {"lshist"}


@pytest.mark.parametrize(
    "name",
    [name if name in EVERY_DAY else pytest.param(name, marks=pytest.mark.slow) for name in REPLACE_ONE],
)
def test_draws_match_the_distribution(name: str) -> None:
    cases = [case for case in cases_of(name, "0.8") if case.prior in ((7.0, 4.0), (1.0, 1.0, 1.0))]
    assert combined_p([one_fit(case, 12) for case in cases]) >= ALPHA


@pytest.mark.slow
def test_a_scale_wrong_by_two_percent_is_noticed() -> None:
    cases = cases_of("lshist", "0.8")
    assert combined_p([one_fit(case, 12, Fraction(102, 100)) for case in cases]) < ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("n", [3, *(pytest.param(n, marks=pytest.mark.long) for n in (1, 2, 5, 8, 12))])
@pytest.mark.parametrize("name", REPLACE_ONE)
def test_draws_match_the_distribution_on_the_whole_grid(name: str, n: int) -> None:
    # The exponential mechanisms share one sampler: a few sizes of each are enough of it.
    if name in COUNT_MECHANISMS or n in (1, 3, 12):
        assert combined_p([one_fit(case, n) for case in cases_of(name, *EPSILONS)]) >= ALPHA


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLACE_ONE)
def test_a_scale_wrong_by_two_percent_is_noticed_everywhere(name: str) -> None:
    """For the exponential mechanisms at an ε where 10⁵ draws can tell: neither flat nor all at the truth."""
    if name in COUNT_MECHANISMS:
        cases = cases_of(name, "0.8")
    else:
        cases = [Case(name, prior, TELLING[name], OPTIONS.get(name, {})) for prior in PRIORS]
    assert combined_p([one_fit(case, 12, Fraction(102, 100)) for case in cases]) < ALPHA
