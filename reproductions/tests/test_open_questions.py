"""What the papers leave open: a lower bound for EHDL that stays, and a search around Lemma 2.3."""

from __future__ import annotations

import math

import numpy as np
import pytest

from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import hellinger
from discreet._numerics.neighbours import HellingerDistributions
from discreet.mechanisms import mechanism
from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
from discreet_reproductions.paper_a import lower
from discreet_reproductions.paper_a.pair import Pair
from discreet_reproductions.paper_b import lemma, levels
from discreet_reproductions.paper_b.distributions import smoothing


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.01, 40.0), (300.0, 0.2)])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_the_bound_is_below_the_distribution_and_above_the_papers(prior: tuple[float, float], n: int) -> None:
    pair = Pair(prior, n)
    for epsilon in (0.05, 1.0, 6.0):
        exact = pair.within(pair.exponential(epsilon, pair.local))
        ours = lower.bound(pair, epsilon)
        assert (ours <= exact * (1 + 1e-12)).all()
        within = pair.steps["up"] + pair.steps["down"]
        theirs = (1 + within * np.exp(-epsilon * pair.reached / (2 * pair.local[:, None]))) / (n + 1)
        assert (ours >= theirs * (1 - 1e-12)).all()


def test_it_does_not_vanish_as_records_are_added() -> None:
    near = [lower.measure((1.0, 1.0), n, 0.8)[0] for n in (100, 400)]
    assert min(row["two steps, bound"] for row in near) > 0.5
    assert near[1]["two steps, A"] < 0.003
    (said,) = lower.statements(near)
    assert (said.agrees, said.values["above"]) == ("no", 0)


@pytest.mark.parametrize(("prior", "n", "epsilon"), [((0.001, 1.7), 170, 16.5), ((2.0, 3.0), 9, 0.8)])
def test_the_search_computes_what_an_audit_does(prior: tuple[float, float], n: int, epsilon: float) -> None:
    made = mechanism("mbeta", prior=prior, n=n, epsilon=epsilon, delta="0.08")
    rows = compositions(n, 2)
    distributions = HellingerDistributions(
        made.prior, rows, np.array([made.sharpness(tuple(row)) for row in rows.tolist()])
    )
    logarithm, loss = lemma.excess(prior, n, epsilon, 0.08)
    assert loss * epsilon == pytest.approx(distributions.worst_loss(epsilon / 2), rel=1e-9)
    delta = distributions.worst_delta(epsilon / 2, epsilon)
    assert math.exp(logarithm) * 0.08 == pytest.approx(delta, rel=1e-6, abs=1e-15)


def test_a_climb_ends_higher_than_it_began() -> None:
    settings = lemma.LemmaSettings().quick()
    rows = [row for seed in range(2) for row in lemma.climb(settings, seed)]
    for row in rows:
        prior = row["prior 1"], row["prior 2"]
        logarithm, loss = lemma.excess(prior, row["n"], row["epsilon"], row["delta"])
        assert (math.exp(logarithm), loss) == pytest.approx((row["δ(ε) over δ"], row["loss over ε"]))
    assert lemma.statements(rows, [])[0].agrees == "partly"
    assert max(row["loss over ε"] for row in rows) > 0.7


@pytest.mark.parametrize(("k", "n"), [(3, 6), (4, 5)])
def test_the_distribution_by_types_is_that_of_all_candidates(k: int, n: int) -> None:
    """Every candidate enumerated with its own distance; δ(ε) of one pair, both ways."""
    epsilon, delta, (a, large) = 12.0, 1e-6, (3.0, 400.0)
    alpha = np.array([a] * (k - 1) + [large])
    rows = compositions(n, k)
    distributions = []
    for counts in ((0,) * (k - 1) + (n,), (1,) + (0,) * (k - 2) + (n - 1,)):
        smooth = smooth_sensitivity(counts, tuple(alpha), beta=smoothing(epsilon, delta, n))
        weights = np.exp(-epsilon * hellinger(alpha + counts, alpha + rows) / (2 * smooth))
        distributions.append(weights / weights.sum())
    p, q = distributions
    expected = max(np.maximum(x - math.exp(1.5) * y, 0).sum() for x, y in ((p, q), (q, p)))
    assert expected > 1e-3
    found = levels.exact_delta(k, n, 1.5, delta, (a, large), budget=epsilon)
    assert found == pytest.approx(expected, rel=1e-9)


def test_the_lemma_is_refuted_from_thirteen_levels_on_and_mbeta_is_not() -> None:
    for k, n, epsilon, delta in levels.WITNESSES[:3]:
        exact, limit = levels.exact_delta(k, n, epsilon, delta), levels.limit_delta(k, n, epsilon, delta)
        assert limit > delta
        assert exact == pytest.approx(limit, rel=1e-6)
    k, n, epsilon, delta = levels.WITNESSES[2]
    for small, large in ((10.0, 1e4), (1e6, 1e12)):
        assert levels.exact_delta(k, n, epsilon, delta, (small, large)) > 20 * delta
        made = mechanism("mbeta", prior=(small,) * (k - 1) + (large,), n=n, epsilon=16, delta="1.52e-8")
        assert made.budget < epsilon
        kept = levels.exact_delta(k, n, epsilon, delta, (small, large), budget=made.budget)
        assert kept <= float(made.guarantee.delta) <= 1.5200001e-8
