"""The exponential mechanism with any score over any conjugate family, against brute force.

Distances here are computed with mpmath by quadrature or plain formulas, and neighbours by going through
datasets; nothing of ``discreet.mechanisms._candidates`` is an oracle.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

import discreet
import shorthand
from conformance.cases import EPSILONS, PRIORS, SIZES
from conformance.oracle import datasets, neighbours
from discreet.answers.release import Release
from discreet.distributions.gamma import Gamma
from discreet.distributions.normal import Normal
from discreet.errors import InvalidInputError, NoiseWarning, TooLargeError
from discreet.mechanisms._candidates import (
    DirichletCandidates,
    GaussianCandidates,
    PoissonCandidates,
    step_variation,
)
from discreet.mechanisms.exponential import Exponential

SCORES = ("hellinger", "kl", "total-variation", "l1")
FAMILIES: dict[str, dict[str, Any]] = {
    "beta": {"prior": (1, 1), "n": 6},
    "beta-small": {"prior": (0.3, 2), "n": 5},
    "dirichlet": {"prior": (1, 0.5, 2), "n": 4},
    "poisson": {"prior": Gamma(2, 1), "n": 4, "bounds": (0, 3)},
    "poisson-small": {"prior": Gamma(0.4, 3), "n": 3, "bounds": (0, 2)},
    "gaussian": {"prior": Normal(0.5, 2), "n": 4, "bounds": (-1, 2), "steps": 3, "sigma": 0.7},
    "gaussian-wide": {"prior": Normal(0, 1), "n": 2, "bounds": (0, 1), "steps": 5, "sigma": 5},
}


def build(**parameters: Any) -> Exponential:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        made = discreet.mechanism("exponential", **parameters)
    assert isinstance(made, Exponential)
    return made


def pairs_of(family: dict[str, Any]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All pairs of neighbouring statistics, from all datasets of n records."""
    n = family["n"]
    if "bounds" not in family:
        points = datasets(n, len(family["prior"]))
        return [(x, y) for x in points for y in neighbours(x)]
    most = family.get("steps", family["bounds"][1])
    found = set()
    for rest in itertools.combinations_with_replacement(range(most + 1), n - 1):
        for a, b in itertools.permutations(range(most + 1), 2):
            found.add(((sum(rest) + a,), (sum(rest) + b,)))
    return sorted(found)


def exact_distance(score: str, family: dict[str, Any], x: tuple[int, ...], b: tuple[int, ...]) -> mpmath.mpf:
    """The distance between two posteriors by mpmath, with 30 digits."""
    mp, prior, n = mpmath, family["prior"], family["n"]
    if score == "l1":
        most = family.get("steps", family.get("bounds", (0, 2))[1])
        return mp.mpf(sum(abs(i - j) for i, j in zip(x, b, strict=True))) / most
    if isinstance(prior, Gamma):
        p, q = ([mp.mpf(prior.shape) + s] for (s,) in (x, b))
    elif isinstance(prior, Normal):
        precision = 1 / mp.mpf(prior.scale) ** 2 + n / mp.mpf(family["sigma"]) ** 2
        step = mp.mpf(family["bounds"][1] - family["bounds"][0]) / family["steps"]
        apart = abs(x[0] - b[0]) * step / mp.mpf(family["sigma"]) ** 2 / mp.sqrt(precision)
        return {
            "hellinger": mp.sqrt(1 - mp.exp(-(apart**2) / 8)),
            "kl": apart**2 / 2,
            "total-variation": 2 * mp.ncdf(apart / 2) - 1,
        }[score]
    else:
        p, q = ([mp.mpf(a) + c for a, c in zip(prior, s, strict=True)] for s in (x, b))
    log_b, log_a, log_m = (
        sum(mp.loggamma(v) for v in w) for w in (q, p, [(i + j) / 2 for i, j in zip(p, q, strict=True)])
    )
    if score == "hellinger":
        return mp.sqrt(abs(1 - mp.exp(log_m - (log_a + log_b) / 2)))
    if score == "kl":
        return log_b - log_a + sum((i - j) * mp.digamma(i) for i, j in zip(p, q, strict=True))
    if x == b:
        return mp.mpf(0)
    if len(p) == 1:
        cross = mp.exp((log_b - log_a) / (q[0] - p[0]))
        return abs(
            mp.gammainc(p[0], 0, cross, regularized=True) - mp.gammainc(q[0], 0, cross, regularized=True)
        )
    if len(p) == 3 and p[2] != q[2]:
        return mp.mpf(variation_of_three([float(v) for v in p], [float(v) for v in q]))
    p, q = p[:2], q[:2]
    log_b, log_a = (sum(mp.loggamma(v) for v in w) for w in (q, p))
    cross = 1 / (1 + mp.exp((log_a - log_b) / (q[0] - p[0])))
    return abs(mp.betainc(*p, 0, cross, regularized=True) - mp.betainc(*q, 0, cross, regularized=True))


def variation_of_three(p: list[float], q: list[float]) -> float:
    """Total variation of two Dirichlets of three levels and one total, by quadrature over θ₁/(θ₁+θ₂)."""
    from scipy.integrate import quad
    from scipy.special import betainc, betaln, expit, gammaln

    d = np.subtract(q, p)
    moved, level = d[0] + d[1], float(np.sum(gammaln(q)) - np.sum(gammaln(p)))

    def integrand(phi: float) -> float:
        v, w = math.sin(phi) ** 2, math.cos(phi) ** 2
        crossing = (level - d[0] * math.log(v) - d[1] * math.log(w)) / moved  # logit of θ₁ + θ₂
        u, rest = expit(crossing), expit(-crossing)
        parts = []
        for a in (q, p):
            density = math.exp((2 * a[0] - 1) * math.log(math.sin(phi)) - betaln(a[0], a[1]))
            density *= 2 * math.cos(phi) ** (2 * a[1] - 1)
            inside = betainc(a[2], a[0] + a[1], rest) if moved > 0 else betainc(a[0] + a[1], a[2], u)
            parts.append(density * inside)
        return parts[0] - parts[1]

    return float(quad(integrand, 0, math.pi / 2, epsabs=1e-13, epsrel=1e-13, limit=400)[0])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("score", SCORES)
def test_distances_and_sensitivity_against_brute_force(score: str, name: str) -> None:
    """To 1e-12: every distance, and the largest change over all neighbours and all candidates."""
    family = FAMILIES[name]
    m = build(score=score, epsilon=1, **family)
    rows = [tuple(row) for row in m.candidates.rows.tolist()]
    with mpmath.workdps(30):
        exact = {(x, b): exact_distance(score, family, x, b) for x in rows for b in rows}
        pairs = pairs_of(family)
        worst = max(abs(exact[x, b] - exact[y, b]) for x, y in pairs for b in rows)
    ours = m.distances()
    assert max(abs(ours[i, j] - exact[x, b]) for i, x in enumerate(rows) for j, b in enumerate(rows)) < 1e-12
    theorem = m.candidates.sensitivity(score)
    assert abs(theorem - float(worst)) <= 1e-12 * max(1.0, float(worst))
    assert m.score_sensitivity == pytest.approx(theorem, rel=1e-12)
    listed = {frozenset((rows[i], rows[j])) for i, j in m.candidates.pairs.tolist()}
    assert listed == {frozenset(pair) for pair in pairs}


@pytest.mark.parametrize("calibration", ["theorem", "exact"])
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("score", [*SCORES, "callable"])
@pytest.mark.parametrize("epsilon", ["0.1", "0.8", "3"])
def test_enumerated_loss_is_at_most_the_claim(score: str, name: str, calibration: str, epsilon: str) -> None:
    family = FAMILIES[name]
    chosen = (lambda x, b: Fraction(abs(x[0] - b[0]) ** 2, 7)) if score == "callable" else score
    m = build(score=chosen, epsilon=epsilon, calibration=calibration, **family)
    distribution = {tuple(x): m.log_pmf(x)[1] for x in m.candidates.rows.tolist()}
    loss = max(float((distribution[x] - distribution[y]).max()) for x, y in pairs_of(family))
    claim = m.guarantee
    assert claim.epsilon == float(epsilon)
    assert claim.delta == 0
    assert loss <= claim.epsilon + 1e-10
    if calibration == "exact":
        assert loss >= 0.999 * claim.epsilon
    else:
        assert loss >= 0.2 * claim.epsilon
    for probabilities in distribution.values():
        assert np.exp(probabilities).sum() == pytest.approx(1.0, abs=1e-12)
    result = discreet.audit(m)
    assert result.epsilon == pytest.approx(loss, abs=1e-12)
    assert result.holds


@pytest.mark.parametrize("name", ["poisson", "gaussian"])
@pytest.mark.parametrize("score", SCORES)
def test_totals_keep_their_promise_on_the_sizes_of_the_conformance_grid(score: str, name: str) -> None:
    for n, calibration in itertools.product(SIZES, ("theorem", "exact")):
        family = {**FAMILIES[name], "n": n}
        m = build(score=score, epsilon="0.8", calibration=calibration, **family)
        distribution = {tuple(x): m.log_pmf(x)[1] for x in m.candidates.rows.tolist()}
        assert (
            max(float((distribution[x] - distribution[y]).max()) for x, y in pairs_of(family)) <= 0.8 + 1e-10
        )


@pytest.mark.slow
@pytest.mark.parametrize("prior", [*PRIORS, Gamma(2, 1), Normal(0.5, 2)], ids=str)
@pytest.mark.parametrize("score", [*SCORES, "callable"])
def test_every_score_and_family_on_the_conformance_grid(score: str, prior: Any) -> None:
    family = {"prior": prior}
    if not isinstance(prior, tuple):
        family |= FAMILIES["poisson" if isinstance(prior, Gamma) else "gaussian"]
    chosen = (lambda x, b: Fraction(abs(x[0] - b[0]) ** 2, 7)) if score == "callable" else score
    for n, calibration, epsilon in itertools.product(SIZES, ("theorem", "exact"), EPSILONS):
        at = {**family, "n": n}
        m = build(score=chosen, epsilon=epsilon, calibration=calibration, **at)
        distribution = {tuple(x): m.log_pmf(x)[1] for x in m.candidates.rows.tolist()}
        loss = max(float((distribution[x] - distribution[y]).max()) for x, y in pairs_of(at))
        assert loss <= float(epsilon) + 1e-10, (n, calibration, epsilon)


@pytest.mark.parametrize("name", ["beta", "dirichlet", "poisson", "gaussian"])
def test_draws_follow_the_distribution(name: str) -> None:
    from discreet._randomness.entropy import SeededEntropy
    from statistical.goodness import ALPHA, combined_p, fit

    m = build(score="kl", epsilon=3, **FAMILIES[name])
    statistic = tuple(m.candidates.rows[len(m.candidates.rows) // 3].tolist())
    outputs, log_probability = m.log_pmf(statistic)
    source = SeededEntropy(5)
    drawn = np.array([m._output(statistic, source) for _ in range(20_000)])
    assert combined_p([fit(drawn, outputs, np.exp(log_probability))]) >= ALPHA
    simulated = m.simulate(statistic, 20_000, seed=3)
    assert combined_p([fit(simulated, outputs, np.exp(log_probability))]) >= ALPHA
    assert m.draw(statistic) in set(map(tuple, outputs.tolist()))


def test_hellinger_is_ehd_at_any_size() -> None:
    """Where candidates are too many to list too, and without a table of all pairs where they are not."""
    from discreet._randomness.entropy import SeededEntropy

    for prior, counts in (((1, 1), (20_000, 30_000)), ((1, 0.5, 2), (10_000, 40_000, 50_000))):
        asked = {"prior": prior, "n": sum(counts), "epsilon": 1}
        ours, ehd = build(score="hellinger", **asked), discreet.mechanism("ehd", **asked)
        drawn = [ours._output(counts, SeededEntropy(seed)) for seed in range(3)]
        assert drawn == [ehd._output(counts, SeededEntropy(seed)) for seed in range(3)]
        np.testing.assert_array_equal(ours.simulate(counts, 9, seed=1), ehd.simulate(counts, 9, seed=1))


def test_hellinger_is_ehd() -> None:
    for calibration in ("theorem", "exact"):
        asked = {"prior": (1, 2, 0.5), "n": 6, "epsilon": 1, "calibration": calibration}
        ours, ehd = build(score="hellinger", **asked), discreet.mechanism("ehd", **asked)
        for x in datasets(6, 3):
            np.testing.assert_allclose(ours.log_pmf(x)[1], ehd.log_pmf(x)[1], atol=1e-12)


@pytest.mark.parametrize("n", [3, 40, 3000])
@pytest.mark.parametrize("prior", [(0.01, 0.02, 5), (1, 1, 1, 1), (0.49, 30, 7)])
def test_sensitivity_of_kl_finds_its_peak_at_any_size(prior: tuple[float, ...], n: int) -> None:
    """Over three levels both counts are free: the search against a sweep of all of them."""
    mp = mpmath
    worst = mp.mpf(0)
    for a, b in itertools.permutations(prior, 2):
        left = mp.log(a) - mp.digamma(a + 1) + (a + n) / mp.mpf(a)
        joined = max(mp.digamma(b + m + 1) - mp.log(b + m) - b / mp.mpf(b + m) for m in range(n))
        worst = max(worst, left + joined)
    found = DirichletCandidates(tuple(map(float, prior)), n).sensitivity("kl")
    assert found == pytest.approx(float(worst), rel=1e-12)


def test_sensitivity_of_kl_over_two_levels_is_not_at_a_corner() -> None:
    """A heavy level and a light one: the record that moves is not the only one of its level."""
    table = DirichletCandidates((1e4, 0.01), 5)
    values = table.distances("kl")
    first, second = table.pairs.T
    assert table.sensitivity("kl") == pytest.approx(np.abs(values[first] - values[second]).max(), rel=1e-9)


def test_step_variation_at_large_counts() -> None:
    for t, s in ((1e-3, 4.0), (1e6, 3e6), (12.0, 0.5)):
        with mpmath.workdps(40):
            x, y = mpmath.mpf(t), mpmath.mpf(s)
            power = y * mpmath.log(y) + x * mpmath.log(x) - (x + y) * mpmath.log(x + y)
            exact = mpmath.exp(
                power + mpmath.loggamma(x + y + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(y + 1)
            )
        assert float(step_variation(t, s)) == pytest.approx(float(exact), rel=1e-8)


class Liar:
    """Answers otherwise once it has been asked about everything."""

    def __init__(self, calls: int) -> None:
        self.left = calls

    def __call__(self, x: tuple[int, ...], b: tuple[int, ...]) -> float:
        self.left -= 1
        return abs(x[0] - b[0]) if self.left >= 0 else 1e6 * (x == (3, 3))


def test_a_lying_score_changes_nothing_after_its_table_is_made() -> None:
    asked = {"prior": (1, 1), "n": 6, "epsilon": 1, "calibration": "exact"}
    liar = Liar(49)
    m = build(score=liar, **asked)
    assert liar.left == 0, "it is asked once about each pair, and never again"
    honest = build(score=lambda x, b: abs(x[0] - b[0]), **asked)
    assert m == honest
    for x in datasets(6, 2):
        np.testing.assert_array_equal(m.log_pmf(x)[1], honest.log_pmf(x)[1])
        m.draw(x)
    assert liar.left == 0
    assert discreet.audit(m).holds
    assert m.strength == honest.strength
    with pytest.raises(ValueError, match="read-only"):
        m.table[0, 0] = 9


def test_a_random_score_is_private_too() -> None:
    rng = np.random.default_rng(1)
    m = build(score=lambda x, b: float(rng.normal()), prior=(1, 1), n=8, epsilon=1)
    assert discreet.audit(m).holds
    copy = type(m)(**json.loads(json.dumps(m.parameters())))
    assert copy == m
    np.testing.assert_array_equal(copy.log_pmf((3, 5))[1], m.log_pmf((3, 5))[1])


@pytest.mark.parametrize(
    ("score", "says"),
    [
        ("helinger", "did you mean .hellinger"),
        (lambda x, b: math.nan, "finite numbers"),
        (lambda x, b: math.inf, "finite numbers"),
        (lambda x, b: "near", "finite numbers"),
        (lambda x, b: b[0], "same for all datasets"),
        ([[0.0, 1.0]], "table of 7 rows"),
    ],
)
def test_bad_scores(score: Any, says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        build(score=score, prior=(1, 1), n=6, epsilon=1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"prior": (1, 1), "bounds": (0, 3)}, "not an option of family='dirichlet'"),
        ({"prior": Gamma(1, 1)}, "bounds are missing"),
        ({"prior": Gamma(1, 1), "bounds": (1, 3)}, "largest count"),
        ({"prior": Gamma(1, 1), "bounds": (0, 3), "sigma": 1}, "not an option of family='poisson'"),
        ({"prior": Normal(0, 1), "bounds": (0, 3)}, "sigma=None"),
        ({"prior": Normal(0, 1), "bounds": (0, 3), "sigma": 1, "steps": 0}, "steps"),
        ({"prior": (1, 1), "family": "gamma"}, "family='gamma'"),
        ({"prior": (1, 1, 1), "family": "poisson", "bounds": (0, 3)}, "two parameters"),
        ({"prior": (1, -1), "family": "poisson", "bounds": (0, 3)}, "positive"),
    ],
)
def test_bad_families(options: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        build(score="l1", n=4, epsilon=1, **options)


def test_sizes_out_of_reach() -> None:
    with pytest.raises(TooLargeError, match="at most 2,048"):
        build(score="kl", prior=(1, 1), n=5000, epsilon=1)
    with pytest.raises(TooLargeError, match="at most 512"):
        build(score=lambda x, b: 1 / 0, prior=(1, 1), n=600, epsilon=1)
    with pytest.raises(TooLargeError, match="at most 512"):
        build(score="total-variation", prior=(1, 1, 1), n=40, epsilon=1)
    with pytest.raises(TooLargeError, match="500 levels"):
        build(score="hellinger", prior=(1,) * 501, n=1, epsilon=1)
    with pytest.raises(TooLargeError, match="at most 2,048"):
        build(score="kl", prior=Gamma(1, 1), bounds=(0, 1000), n=10**6, epsilon=1)
    with pytest.raises(TooLargeError, match="lists all candidates"):
        build(score="l1", prior=(1, 1, 1), n=5000, epsilon=1).draw((5000, 0, 0))
    assert sum(build(score="l1", prior=(1, 1), n=50_000, epsilon=1).draw((20_000, 30_000))) == 50_000


@pytest.mark.parametrize("statistic", [(13,), (-1,), (1, 2), (1.5,), ("x",), 3])
def test_totals_that_no_dataset_has_are_refused_without_quoting_them(statistic: Any) -> None:
    m = build(score="l1", epsilon=1, **FAMILIES["poisson"])
    with pytest.raises(InvalidInputError, match="from 0 to 12"):
        m.draw(statistic)


def test_statistics_of_records() -> None:
    counts = build(score="kl", epsilon=1, **FAMILIES["poisson"])
    assert counts.statistic([1, 9, -2, 0]) == (4,)
    values = build(score="kl", epsilon=1, **FAMILIES["gaussian"])
    assert values.statistic([-5, 2, 0.1, 99]) == (7,)
    assert values.plug_in((7,)).loc == pytest.approx(Normal(0.5, 2).update(-1 * 4 + 7, 4, 0.7).loc)
    with pytest.raises(InvalidInputError, match="n=4 records"):
        counts.statistic([1])
    with pytest.raises(InvalidInputError, match="counts of the levels"):
        build(score="kl", epsilon=1, **FAMILIES["beta"]).statistic([1])


def test_a_release_is_a_document_with_a_noise_aware_posterior() -> None:
    for score in ("kl", "total-variation", lambda x, b: abs(x[0] - b[0])):
        options = {"score": score, "calibration": "exact"}
        r = shorthand.shares(
            {"a": 12, "b": 28}, levels=("a", "b"), epsilon=2, mechanism="exponential", options=options
        )
        again = Release.from_json(r.to_json())
        assert again.mechanism == "exponential"
        assert again.guarantee.epsilon == 2
        assert again.posterior.mean() == pytest.approx(r.posterior.mean())
        assert r.posterior.std()[0] > r.plug_in.std()
        assert "those with a better score were more likely" in r.summary() + str(r.words())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "gaussian"])
def test_noise_aware_intervals_of_totals_cover(name: str) -> None:
    """600 datasets from the prior, seed 7: 90 % intervals cover within 4 standard errors (± 0.05)."""
    rng = np.random.default_rng(7)
    if name == "poisson":
        m = build(score="hellinger", prior=Gamma(4, 2), n=20, epsilon=2, bounds=(0, 12), calibration="exact")
    else:
        m = build(score="l1", prior=Normal(0, 1), n=20, epsilon=1, bounds=(-8, 8), steps=16, sigma=1.5)
    held = plain = 0
    for _ in range(600):
        if name == "poisson":
            truth = rng.gamma(4, 1 / 2)
            total = m.statistic(rng.poisson(truth, 20).tolist())
        else:
            truth = rng.normal(0, 1)
            total = m.statistic(rng.normal(truth, 1.5, 20).tolist())
        released = tuple(m.simulate(total, 1, seed=int(rng.integers(2**31)))[0].tolist())
        low, high = m.posterior(released).interval(0.9)
        held += low <= truth <= high
        low, high = m.plug_in(released).interval(0.9)
        plain += low <= truth <= high
    assert abs(held / 600 - 0.9) < 0.05
    assert plain / 600 < 0.8


def test_candidates_share_one_interface() -> None:
    poisson = PoissonCandidates((1.0, 1.0), 3, 2)
    gaussian = GaussianCandidates((0.0, 1.0), 3, 2, (0.0, 1.0), 1.0)
    for space in (poisson, gaussian):
        weight = np.exp(space.log_predictive(space.rows))
        mixture = space.mixture(weight / weight.sum())
        assert mixture.mean() == pytest.approx(
            sum(w * space.posterior((i,)).mean() for i, w in enumerate(weight / weight.sum()))
        )
