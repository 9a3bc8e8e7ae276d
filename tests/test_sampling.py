"""Posterior sampling: calibration, draws, releases, bad input, and the published attacks on floats."""

from __future__ import annotations

import itertools
import json
import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
import shorthand
from discreet import posterior_sampler
from discreet._declarations import Relation
from discreet._randomness.entropy import OSEntropy, SeededEntropy
from discreet.distributions.gamma import Gamma
from discreet.distributions.normal import Normal
from discreet.errors import (
    BudgetExceededError,
    CorruptReleaseError,
    DataError,
    GuaranteeMismatchError,
    InvalidInputError,
    NotPrivateError,
    PrivacyWarning,
)
from discreet.posterior_sampling.families.categorical import BetaFamily
from discreet.posterior_sampling.sample import DRAW_METHODS, Sample
from discreet.posterior_sampling.sampler import PosteriorSampler

MODELS: list[tuple[str, dict[str, Any], Any]] = [
    ("beta", {"prior": (6, 12)}, 30),
    ("dirichlet", {"prior": (6, 12)}, (30, 70)),
    ("dirichlet", {"prior": (6, 12, 3)}, (30, 30, 40)),
    ("gaussian", {"prior": (0, 0.1), "sigma": 1, "bounds": (-2, 3)}, 33.25),
    ("gaussian-vector", {"prior": ((0, 0), 0.1), "sigma": 1, "radius": 2, "dimension": 2}, (10, -20)),
    ("poisson", {"prior": (2, 1), "bounds": (0, 10)}, 333),
    ("exponential", {"prior": (2, 1), "bounds": (0, 5)}, 77.5),
]
TARGETS: list[dict[str, Any]] = [
    {"epsilon": "0.5", "order": 15},
    {"epsilon": 0.01, "order": 2},
    {"epsilon": 1, "delta": "1e-6"},
    {"epsilon": "0.05", "delta": 1e-9},
]


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", ["diffused", "concentrated"])
@pytest.mark.parametrize(("family", "options", "statistic"), MODELS)
def test_target_is_met_and_not_overshot(
    name: str, family: str, options: dict[str, Any], statistic: Any, target: dict[str, Any]
) -> None:
    sampler = posterior_sampler(name, family, n=100, **options, **target)
    guarantee = sampler.guarantee
    epsilon = Fraction(str(target["epsilon"]))
    if "order" in target:
        reached, wanted = Fraction(guarantee.rdp(target["order"])), epsilon
    else:
        reached, wanted = Fraction(guarantee.delta_at(target["epsilon"])), Fraction(str(target["delta"]))
        assert (guarantee.exact_epsilon, guarantee.exact_delta) == (epsilon, wanted)
    assert reached <= wanted
    scale = sampler.r if name == "diffused" else sampler.m
    assert (sampler.m if name == "diffused" else sampler.r) == 1
    assert 0 < scale <= 1
    if scale < 1:
        assert reached > wanted * Fraction(99, 100)
    assert sampler.draw(statistic, 2).shape[0] == 2


def test_direct_reports_what_it_gives() -> None:
    sampler = posterior_sampler("direct", "beta", prior=(30, 60), n=100)
    assert (sampler.r, sampler.m) == (1.0, 1.0)
    assert sampler.guarantee.max_order == 31
    assert sampler.guarantee.rdp(31) == math.inf
    assert sampler.guarantee.rdp(2) == pytest.approx(0.04017, abs=1e-5)
    assert sampler.guarantee.delta_at(1) < 1e-6
    assert sampler.guarantee.is_private
    assert sampler.guarantee.exact_epsilon is None


def test_the_figures_of_the_specification() -> None:
    """Beta(6, 12), n = 100, ε = 1: exactly 0.0051, by the Rényi conversion 0.0173."""
    guarantee = posterior_sampler("direct", "beta", prior=(6, 12), n=100).guarantee
    assert guarantee.delta_at(1) == pytest.approx(0.0051167, abs=1e-7)
    assert guarantee.effective_curve.rdp_delta_at(1) == pytest.approx(0.0172623, abs=1e-6)
    assert posterior_sampler("direct", "beta", prior=(1, 1), n=100).guarantee.max_order == 2


def test_gaussian_sensitivity_is_the_whole_width() -> None:
    """Exact hockey-stick of the two posterior distributions, records at the two bounds: μ = (hi−lo)√v'/σ²."""
    from scipy import integrate, stats

    low, high, sigma, n = -1.0, 3.0, 2.0, 50
    sampler = posterior_sampler("direct", "gaussian", prior=(0, 1), n=n, sigma=sigma, bounds=(low, high))
    precision = 1 + n / sigma**2
    p, q = (stats.norm(((n - 1) * low + x) / sigma**2 / precision, precision**-0.5) for x in (high, low))
    assert sampler.guarantee.mu == pytest.approx((high - low) / sigma**2 / math.sqrt(precision))
    x = np.linspace(-20, 20, 400_001)
    for epsilon in (0.1, 0.5, 1.0):
        delta = integrate.trapezoid(np.maximum(p.pdf(x) - math.exp(epsilon) * q.pdf(x), 0), x)
        assert sampler.guarantee.delta_at(epsilon) == pytest.approx(delta, rel=1e-6)


def test_more_prior_weight_and_public_data_buy_privacy() -> None:
    prior = discreet.Beta(1, 1)
    informed = prior.updated_with_public((30, 70))
    assert informed == discreet.Beta(31, 71)
    epsilons = [
        posterior_sampler("direct", "beta", prior=p, n=100).guarantee.epsilon_at(1e-6)
        for p in (discreet.Beta(2, 2), informed)
    ]
    assert epsilons[1] < epsilons[0] / 3
    assert discreet.Dirichlet((1, 1, 1)).updated_with_public((4, 0, 2)).alpha == (5, 1, 3)
    assert Gamma(2, 1).updated_with_public([3, 4]).parameters == (9, 3)
    assert Gamma(2, 1).updated_with_public([3, 4], "exponential").parameters == (4, 8)
    assert Normal(0, 1).updated_with_public([1.0, 2.0], sigma=1).mean() == pytest.approx(1.0)


# Draws.


def test_draws_need_the_operating_system() -> None:
    sampler = posterior_sampler("direct", "beta", prior=(30, 60), n=100)
    with pytest.raises(NotPrivateError):
        sampler.draw(30, entropy=SeededEntropy(1))  # type: ignore[arg-type]
    assert sampler.draw(30, entropy=OSEntropy()).shape == (1,)
    assert sampler.draw(30)[0] != sampler.draw(30)[0]


def test_draws_use_the_secrets_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import secrets

    sampler = posterior_sampler("direct", "gaussian", prior=(0, 1), n=10, sigma=1, bounds=(0, 1))
    monkeypatch.setattr(secrets, "randbelow", lambda bound: bound // 2)
    assert sampler.draw(5.0)[0] == sampler.draw(5.0)[0] == pytest.approx(5 / 11)


def test_simulation_is_seeded_and_has_the_same_distribution() -> None:
    sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=1, order=15)
    one, two = sampler.simulate(30, 100_000, seed=3), sampler.simulate(30, 100_000, seed=3)
    assert np.array_equal(one, two)
    distribution = discreet.Beta(6 + sampler.r * 30, 12 + sampler.r * 70)
    assert one.mean() == pytest.approx(distribution.mean(), abs=6 * distribution.std() / 316)


def test_draws_lie_on_the_declared_grid() -> None:
    sampler = posterior_sampler("direct", "beta", prior=(30, 60), n=100, grid="1/128")
    draws = sampler.draw(30, 50)
    assert all(float(d * 256).is_integer() and int(d * 256) % 2 == 1 for d in draws)
    with pytest.raises(InvalidInputError, match="whole number"):
        posterior_sampler("direct", "beta", prior=(30, 60), n=100, grid="0.3")


@pytest.mark.parametrize(("family", "options", "statistic"), MODELS)
def test_default_grid_is_public_and_fine(family: str, options: dict[str, Any], statistic: Any) -> None:
    sampler = posterior_sampler("direct", family, n=100, **options)
    spread = sampler.simulate(statistic, 2000, seed=1).std(axis=0).min()
    assert 0 < float(sampler.grid) < spread * 1e-6


def test_several_draws_are_charged() -> None:
    sampler = posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=1, delta="1e-6")
    assert sampler.price(1) == sampler.guarantee
    three = sampler.release(30, 3)
    assert three.guarantee == sampler.price(3)
    assert three.guarantee.exact_delta == Fraction(1, 10**6)
    assert 1 < three.guarantee.epsilon < 3
    mean = posterior_sampler("direct", "gaussian", prior=(0, 1), n=10, sigma=1, bounds=(0, 1))
    assert mean.price(4).mu == pytest.approx(2 * mean.guarantee.mu)  # type: ignore[operator]


# Exact statistics from records.


def test_statistics_of_records() -> None:
    beta = posterior_sampler("direct", "beta", prior=(6, 12), n=4)
    assert beta.statistic([0, 1, 1, 0.5]) == Fraction(5, 2)
    levels = posterior_sampler("direct", "dirichlet", prior=(6, 12), n=3)
    assert tuple(levels.statistic(["a", "b", "b"], levels=("a", "b"))) == (1, 2)
    counts = posterior_sampler("direct", "poisson", prior=(6, 12), n=3, bounds=(0, 5))
    assert counts.statistic([0, 3, 99]) == 8
    times = posterior_sampler("direct", "exponential", prior=(6, 12), n=2, bounds=(0, 4))
    assert times.statistic([1.0, 100.0]) == 5
    mean = posterior_sampler("direct", "gaussian", prior=(0, 1), n=3, sigma=1, bounds=(-1, 1))
    assert mean.statistic([-5, 0.25, 9]) == Fraction(1, 4)
    with pytest.raises(InvalidInputError, match="n=3 was declared"):
        mean.statistic([0.0])


def test_vector_rows_are_clipped_to_the_norm() -> None:
    sampler = posterior_sampler(
        "direct", "gaussian-vector", prior=((0, 0), 1), n=2, sigma=1, radius=1, dimension=2
    )
    total = sampler.statistic([[30.0, 40.0], [0.0, 0.5]])
    assert float(total[0]) == pytest.approx(0.6, abs=1e-9)
    assert float(total[1]) == pytest.approx(1.3, abs=1e-9)
    rng = np.random.default_rng(0)
    for row in rng.normal(size=(200, 2)) * 10 ** rng.uniform(-3, 12, (200, 1)):
        one = posterior_sampler(
            "direct", "gaussian-vector", prior=((0, 0), 1), n=1, sigma=1, radius=1, dimension=2
        ).statistic([row])
        assert sum(x * x for x in one) <= 1
    for bad in ([[math.nan, 0]], [[math.inf, 0]], [1.0], []):
        with pytest.raises(DataError):
            sampler.statistic(bad)


# Releases.


def test_release_round_trip_and_content() -> None:
    sampler = posterior_sampler(
        "concentrated", "poisson", prior=(2, 1), n=50, bounds=(0, 9), epsilon=1, order=4
    )
    released = sampler.release(200, 2)
    assert Sample.from_json(released.to_json()) == released
    content = json.loads(released.to_json())["release"]
    assert content["r"] == sampler.r
    assert content["m"] == sampler.m
    assert content["target"] == {"epsilon": "1", "order": 4.0}
    assert set(content) == {
        "private",
        "sampler",
        "family",
        "prior",
        "n",
        "r",
        "m",
        "grid",
        "target",
        "draws",
        "bounds",
        "levels",
        "guarantee",
        "versions",
    }
    edited = released.to_json().replace('"n": 50', '"n": 51')
    with pytest.raises(CorruptReleaseError, match="edited"):
        Sample.from_json(edited)
    assert "concentrated poisson" in str(released)


def test_release_depends_on_the_data_through_draws_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frozen draws on neighbouring statistics: the documents are equal byte for byte."""
    sampler = posterior_sampler("direct", "beta", prior=(30, 60), n=100)
    monkeypatch.setattr(type(sampler.family), "draw", lambda *_: (Fraction(1, 4), Fraction(3, 4)))
    assert sampler.release(30).to_json() == sampler.release(31).to_json()


# Means of bounded numbers.


def bounded(data: Any, bounds: Any, **given: Any) -> Sample:
    """A draw of the mean of a bounded column, the family of a number."""
    drawn: Sample = shorthand.draws(data, None, bounds=bounds, **given)
    return drawn


def test_a_mean_is_drawn_in_the_units_of_its_bounds() -> None:
    ages = [10, 15, 25, 30] * 500  # far from the mean of the prior; bounds of eight standard deviations
    drawn = bounded(ages, (0, 100), epsilon=1, delta="1e-6", prior=(20, 20))
    assert drawn.values.mean() == pytest.approx(20, abs=12)
    assert drawn.bounds == (0, 100)
    old = [age >= 30 for age in ages]
    share = bounded(old, (0, 1), epsilon=1, delta="1e-6", prior=(20, 20), n=2000)
    assert share.values.mean() == pytest.approx(0.25, abs=0.12)
    assert Sample.from_json(drawn.to_json()) == drawn
    named = shorthand.draws([0.5, 0.25], "bounded-mean", bounds=(0, 1), epsilon=1, order=3)
    assert named.bounds == (0, 1)


def test_a_mean_is_drawn_from_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": [20.0, 30.0] * 100})
    answer = bounded(frame, (0, 50), column="age", epsilon=5, order=3, prior=(50, 50))
    assert 0 < answer.values[0] < 50


def test_records_are_clipped_and_one_moves_the_sum_by_at_most_one() -> None:
    for low, high in ((0, 1), (-3, 0.1)):
        schema = discreet.Schema({"value": discreet.Number(low, high)}, n=2, nameless=True)
        request = discreet.Draw(epsilon=1, delta="1e-6").request(schema)
        for values in itertools.product((-5.0, 0.0, 0.3, 1 / 3, 1.0, 1e300), repeat=2):
            one, n = request.read(values)
            assert n == 2
            assert 0 <= one <= 2
            for other in (-5.0, 0.7, 1e300):
                two, _ = request.read((values[0], other))
                assert abs(one - two) <= 1


@pytest.mark.parametrize(
    ("bounds", "options", "message"),
    [
        ((1, 0), {}, "low < high"),
        ((0, 1), {"n": 7}, "a different number of records"),
        ((0, 1), {"hidden": True}, "declare n"),
        ((0, 1), {"sigma": 1}, "'sigma' is unknown"),
    ],
)
def test_bad_draws_of_a_mean(bounds: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        bounded([0.5, 0.25], bounds, epsilon=1, order=3, prior=(5, 5), **options)


def test_a_mean_needs_numbers() -> None:
    with pytest.raises(DataError) as error:
        bounded(["secret", "b"], (0, 1), epsilon=1, order=3)
    assert "secret" not in str(error.value)


# From data, with a ledger.


def test_posterior_sample_reads_calibrates_and_draws(tmp_path: Path) -> None:
    table = tmp_path / "visits.csv"
    table.write_text("visits\n" + "3\n5\n99\n\n" * 25)
    options: dict[str, Any] = {"prior": (2, 1), "bounds": (0, 10), "epsilon": 1, "order": 8}
    with pytest.raises(DataError, match="missing"):
        shorthand.draws(table, "poisson", column="visits", **options)
    drawn = shorthand.draws(table, "poisson", column="visits", missing=0, n=100, **options)
    assert drawn.n == 100
    assert drawn.values[0] > 0
    with pytest.raises(InvalidInputError, match="n=99 was declared"):
        shorthand.draws(table, "poisson", column="visits", missing=0, n=99, **options)
    answers = ["yes", "no", "no"] * 20
    shares = shorthand.draws(
        answers, "dirichlet", prior=(3, 3), levels=("no", "yes"), epsilon=1, delta="1e-6", draws=2
    )
    assert shares.values.shape == (2, 2)
    assert shares.values.sum(axis=1) == pytest.approx(1)
    with pytest.raises(InvalidInputError, match="declare it as a category"):
        shorthand.draws(answers, "dirichlet", prior=(3, 3), epsilon=1, order=3)
    with pytest.raises(InvalidInputError, match="not as numbers"):
        shorthand.draws([1.0], "beta", prior=(3, 3), levels=(0, 1), epsilon=1, order=3)


@pytest.mark.parametrize("bounds", [(0.1, 0.7), (-0.3, 0.1), (1 / 3, 2 / 3), (1e-9, 0.1)])
@pytest.mark.parametrize("end", [0, 1])
def test_records_at_bounds_that_are_no_binary_fractions(bounds: tuple[float, float], end: int) -> None:
    """Whether the data are refused must not depend on them: all at one bound is a dataset like any other."""
    records = [bounds[end]] * 10
    for family, prior, options in (("gaussian", (0, 1), {"sigma": 1}), ("exponential", (2, 1), {})):
        if family == "exponential" and bounds[0] < 0:
            continue
        sampler = discreet.posterior_sampler("direct", family, prior=prior, n=10, bounds=bounds, **options)
        assert sampler.statistic(records) == 10 * Fraction(bounds[end])
        assert np.isfinite(sampler.draw(sampler.statistic(records))).all()
    answer = bounded(records, bounds, epsilon=1, order=2)
    assert np.isfinite(answer.values).all()


def test_parameters_too_large_for_the_profile_are_still_said() -> None:
    sampler = discreet.posterior_sampler("direct", "poisson", prior=(1e15, 1e3), n=10**6, bounds=(0, 60000))
    assert f"ε = {sampler.guarantee.effective_curve.rdp_epsilon_at(1e-6):.4g} at" in str(sampler.guarantee)
    assert "additive 1e-6" in sampler.guarantee.meaning()
    assert "additive 1e-6" in discreet.report(sampler.release(10**9))


def people() -> Any:
    import pandas as pd

    return pd.DataFrame({"who": [i // 3 for i in range(60)], "x": [float(i % 3) for i in range(60)]})


GAUSSIAN: dict[str, Any] = {"prior": (0, 10), "sigma": 1, "epsilon": 1, "delta": "1e-4", "column": "x"}


def test_a_person_with_several_records_is_protected_as_a_whole() -> None:
    """m records of width w move a mean as one of width m·w: the scalings are the same, to the last digit."""
    bound = shorthand.draws(people(), "gaussian", bounds=(0, 4), person="who", per_person=3, n=60, **GAUSSIAN)
    wide = discreet.posterior_sampler(
        "diffused", "gaussian", prior=(0, 10), sigma=1, n=60, bounds=(0, 12), epsilon=1, delta="1e-4"
    )
    assert bound.r == wide.r
    assert bound.guarantee.mu == wide.guarantee.mu
    assert bound.guarantee.relation == Relation.REPLACE_PERSON
    assert "'who'" in bound.guarantee.assumptions[0]
    assert Sample.from_json(bound.to_json()) == bound


def test_one_record_of_a_person_is_the_lowest() -> None:
    sample = shorthand.draws(people(), "gaussian", bounds=(0, 4), person="who", per_person=1, **GAUSSIAN)
    assert sample.n == 20
    assert sample.guarantee.relation == Relation.REPLACE_PERSON
    sharp = {**GAUSSIAN, "epsilon": 500, "prior": (0, 1e3), "sigma": 1e-3}
    drawn = shorthand.draws(people(), "gaussian", bounds=(0, 4), person="who", per_person=1, **sharp)
    assert float(drawn.values[0]) == pytest.approx(0, abs=0.1)


def test_group_privacy_of_a_person_holds_where_the_loss_is_not_gaussian() -> None:
    """Over all that m records of one person can do to the sum, the profile of the pair is below the claim."""
    m, n, top = 2, 12, 3
    built = discreet.posterior_sampler(
        "diffused", "poisson", prior=(3, 1), n=n, bounds=(0, top), epsilon=1, delta="1e-3", per_person=m
    )
    start, rate = Fraction(3), 1 + Fraction(built.r) * n
    worst = 0.0
    for low in range(n * top + 1):
        for step in range(1, m * top + 1):
            pair = tuple((start + Fraction(built.r) * s, rate) for s in (low, low + step))
            for order in (pair, pair[::-1]):
                worst = max(worst, float(built.family.hockey_sticks(order, np.array([1.0]))[0]))
    assert 0 < worst <= 1e-3
    with pytest.raises(InvalidInputError, match="there is no bound for people"):
        discreet.posterior_sampler(
            "diffused", "poisson", prior=(3, 1), n=n, bounds=(0, top), epsilon=1, order=4, per_person=m
        )


def test_people_are_declared_wholly() -> None:
    given: dict[str, Any] = {"bounds": (0, 4), **GAUSSIAN}
    with pytest.raises(InvalidInputError, match="go together"):
        shorthand.draws(people(), "gaussian", person="who", **given)
    with pytest.raises(InvalidInputError, match="per_person=2 needs a declared n"):
        shorthand.draws(people(), "gaussian", person="who", per_person=2, **given)
    with pytest.raises(InvalidInputError, match="at least 1"):
        discreet.posterior_sampler("direct", "beta", prior=(1, 1), n=5, per_person=0)
    with pytest.raises(InvalidInputError, match="one row for each person"):
        shorthand.draws(
            np.zeros((5, 2)),
            "gaussian-vector",
            prior=((0, 0), 1),
            sigma=1,
            radius=1,
            epsilon=1,
            order=2,
            person="who",
            per_person=1,
        )
    query = bounded(people(), (0, 4), column="x", epsilon=1, delta="1e-4", person="who", per_person=3, n=60)
    assert query.guarantee.relation == Relation.REPLACE_PERSON


def test_a_mean_is_summed_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records at the bounds are 0 and 1, to the last bit, whatever the bounds are."""
    seen: list[Any] = []
    true = PosteriorSampler.release

    def release(self: Any, statistic: Any, size: int = 1) -> Sample:
        seen.append(statistic)
        return true(self, statistic, size)

    monkeypatch.setattr(PosteriorSampler, "release", release)
    bounded([0.1] * 3 + [0.7] * 5, (0.1, 0.7), epsilon=1, order=2)
    assert seen == [5]


def test_posterior_sample_is_charged_once(tmp_path: Path) -> None:
    ledger = discreet.Ledger(tmp_path / "ledger.db")
    ledger.create("survey", epsilon=2, delta="1e-5")
    options: dict[str, Any] = {
        "prior": (0, 10),
        "sigma": 2,
        "bounds": (0, 10),
        "epsilon": 1,
        "delta": "1e-6",
        "n": 30,
        "ledger": ledger,
        "dataset": "survey",
    }
    one = shorthand.draws([4.0, 5.0, 6.0] * 10, "gaussian", request_id="first", **options)
    again = shorthand.draws(None, "gaussian", request_id="first", **options)  # the data stay closed
    assert one == again
    assert again.receipt is not None
    assert again.receipt.repeated
    assert ledger.show("survey").spent.epsilon == 1
    with pytest.raises(BudgetExceededError):
        shorthand.draws([4.0] * 30, "gaussian", draws=9, **options)
    query = bounded([4.0] * 30, (0, 10), epsilon=1, delta="1e-6", ledger=ledger, dataset="survey")
    assert query.receipt is not None
    assert ledger.show("survey").remaining.epsilon == 0
    with pytest.raises(InvalidInputError, match="belong to a ledger"):
        bounded([1.0], (0, 1), epsilon=1, order=2, dataset="survey")


def test_a_curve_has_no_price_under_a_pair_cap(tmp_path: Path) -> None:
    ledger = discreet.Ledger(tmp_path / "ledger.db")
    ledger.create("survey", epsilon=2, delta="1e-5")
    ledger.create("concentrated", zcdp=5)
    for dataset, family, options, fits in (
        ("survey", "beta", {"prior": (3, 3), "order": 8}, False),
        ("concentrated", "beta", {"prior": (3, 3), "order": 8}, False),
        ("concentrated", "gaussian", {"prior": (0, 1), "order": 8, "sigma": 1, "bounds": (0, 1)}, True),
    ):
        records = [0.0, 1.0, 0.5]
        if fits:
            drawn = shorthand.draws(records, family, epsilon=1, ledger=ledger, dataset=dataset, **options)
            assert drawn.receipt is not None
            assert drawn.receipt.charged.zcdp == drawn.guarantee.zcdp()
        else:
            with pytest.raises(GuaranteeMismatchError):
                shorthand.draws(records, family, epsilon=1, ledger=ledger, dataset=dataset, **options)


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("direkt", "beta", {"prior": (1, 1)}), "did you mean 'direct'"),
        (("direct", "betta", {"prior": (1, 1)}), "did you mean 'beta'"),
        (("diffused", "beta", {"prior": (1, 1)}), "needs a target"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 1}), "epsilon alone is not a target"),
        (("diffused", "beta", {"prior": (1, 1), "order": 3}), "epsilon is missing"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 1, "order": 3, "delta": 0.1}), "not both"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 1, "order": 0.5}), "order=0.5 must be"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 1, "order": math.nan}), "order=nan"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 1, "delta": 0}), "delta=0 cannot be reached"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 1, "delta": 1}), "delta=1 must be"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": 0, "order": 3}), "epsilon=0 must be positive"),
        (("direct", "beta", {"prior": (1, 1), "epsilon": 1, "order": 2}), "below order 2 only"),
        (("direct", "beta", {"prior": (6, 12), "epsilon": "0.01", "order": 3}), "it gives epsilon = 0.307"),
        (("direct", "beta", {"prior": (6, 12), "epsilon": 1, "delta": 1e-6}), "it gives delta = 0.005"),
        (("diffused", "beta", {"prior": (1, 1), "epsilon": "1e-60", "order": 3}), "smallest tried"),
        (("direct", "beta", {"prior": (0, 1)}), "positive and finite"),
        (
            ("direct", "beta", {"prior": (1, 1), "bounds": (0, 1)}),
            "not an option of family 'beta'; it takes none",
        ),
        (("direct", "gaussian", {"prior": (0, 1), "sigma": 1}), "bounds are missing"),
        (("direct", "gaussian", {"prior": (0, 1), "bounds": (0, 1)}), "needs sigma="),
        (("direct", "gaussian", {"prior": (0, 1), "sigma": 1, "bounds": (1, 0)}), "low < high"),
        (("direct", "gaussian", {"prior": (0, 1), "sigma": 1, "bounds": (0, math.inf)}), "must be finite"),
        (("direct", "gaussian", {"prior": (0, 1), "sigma": 1, "bounds": (0, math.nan)}), "must be finite"),
        (("direct", "gaussian", {"prior": (0, 1), "sigma": 0, "bounds": (0, 1)}), "sigma=0"),
        (("direct", "gaussian", {"prior": (0, 0), "sigma": 1, "bounds": (0, 1)}), "must be positive"),
        (("direct", "gaussian", {"prior": 3, "sigma": 1, "bounds": (0, 1)}), "such as"),
        (("direct", "gaussian-vector", {"prior": ((0, 0), 1), "sigma": 1}), "bounds are missing"),
        (
            ("direct", "gaussian-vector", {"prior": ((0, 0, 0), 1), "sigma": 1, "radius": 1}),
            "must have 2 means",
        ),
        (("direct", "poisson", {"prior": (2, 1)}), "bounds are missing"),
        (("direct", "poisson", {"prior": (2, 1), "bounds": (0, 2.5)}), "whole numbers"),
        (("direct", "poisson", {"prior": (2, 1), "bounds": (-1, 2)}), "at least 0"),
        (("direct", "poisson", {"prior": (0, 1), "bounds": (0, 2)}), "must be positive"),
        (("direct", "exponential", {"prior": (2, 1), "bounds": (-1, 2)}), "at least 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_bad_parameters(arguments: tuple[str, str, dict[str, Any]], message: str) -> None:
    name, family, options = arguments
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        with pytest.raises(InvalidInputError, match=message):
            posterior_sampler(name, family, n=100, **options)


@pytest.mark.parametrize(("family", "options", "statistic"), MODELS)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -1e9, 1e9, None, "30", True, (1, 2, 3, 4)])
def test_bad_statistic_is_refused_without_being_quoted(
    family: str, options: dict[str, Any], statistic: Any, bad: Any
) -> None:
    sampler = posterior_sampler("direct", family, n=100, **options)
    if not np.isscalar(statistic) and not isinstance(bad, tuple):
        bad = tuple(bad for _ in statistic)
    with pytest.raises(InvalidInputError) as error:
        sampler.draw(bad)
    assert "1e9" not in str(error.value)
    assert "1000000000" not in str(error.value)


def test_delta_of_one_over_n_warns() -> None:
    with pytest.warns(PrivacyWarning, match="at least 1/n"):
        posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=1, delta="0.01")


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_bad_number_of_draws(size: Any) -> None:
    with pytest.raises(InvalidInputError, match="size"):
        posterior_sampler("direct", "beta", prior=(6, 12), n=10).draw(3, size)


def test_names() -> None:
    assert tuple(DRAW_METHODS) == ("direct", "diffused", "concentrated")


def test_scalings_enter_curve_and_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    import secrets

    monkeypatch.setattr(secrets, "randbelow", lambda bound: bound // 2)
    for name in ("diffused", "concentrated"):
        sampler = posterior_sampler(name, "beta", prior=(6, 12), n=100, epsilon="0.1", order=15)
        scaled = tuple(Fraction(a) / Fraction(sampler.m) for a in (6, 12))
        assert sampler.guarantee.curve == sampler.family.curve(scaled, 100, Fraction(sampler.r))
        median = discreet.Beta(6 / sampler.m + 100 * sampler.r, 12 / sampler.m).ppf(0.5)
        assert sampler.draw(100)[0] == pytest.approx(float(median), abs=1e-6)


def test_vague_priors_calibrate_and_charge() -> None:
    options: dict[str, Any] = {"prior": (0.001, 0.001), "n": 1000, "bounds": (0, 10)}
    sampler = posterior_sampler("diffused", "poisson", epsilon=1, delta="1e-6", **options)
    assert sampler.guarantee.delta_at(1) <= 1e-6
    renyi = posterior_sampler("diffused", "poisson", epsilon=1, order=2, **options)
    assert renyi.price(2).delta_at("1.4") >= renyi.guarantee.delta_at("1.4")
    assert renyi.price(2).epsilon_at("0.1") >= renyi.guarantee.epsilon_at("0.1")


def test_extreme_priors_are_answered_quickly() -> None:
    sampler = posterior_sampler("direct", "beta", prior=(1e-200, 1e-200), n=10)
    assert sampler.guarantee.delta_at(1) > 0.5
    hopeless = posterior_sampler("direct", "beta", prior=(1e-9, 1e-9), n=10)
    assert "no privacy guarantee" in hopeless.guarantee.meaning()  # δ(1) is 1 to the last digit
    assert "ε = inf" in str(hopeless.guarantee)
    assert hopeless.price(2).delta_at(1) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    "call",
    [
        lambda: posterior_sampler("direct", "dirichlet", prior=(3, 3), n=2).statistic(["a", "b"]),
        lambda: posterior_sampler("direct", "beta", prior=(3, 3), n=2).statistic([0, 1], foo=1),
        lambda: posterior_sampler("direct", [1], prior=(3, 3), n=2),
        lambda: posterior_sampler("direct", "poisson", prior=(3, 3), n=2, bounds=(0, 10**400)),
        lambda: discreet.compose(None),
        lambda: discreet.privacy.composition.Odometer(1).spend(0.5),
        lambda: discreet.privacy.composition.Odometer(1, relation="foo"),
        lambda: bounded(None, (0, 1), epsilon=1, order=2),
        lambda: Normal(0, 1).updated_with_public(["x"], sigma=1),
        lambda: Normal(0, 1).updated_with_public([1.0], sigma=0),
        lambda: Gamma(1, 1).updated_with_public(["x"]),
        lambda: posterior_sampler("direct", "beta", prior=(3, 3), n=2).guarantee.delta_at(math.inf),
    ],
)
def test_mistakes_have_our_type(call: Any) -> None:
    with pytest.raises(InvalidInputError):
        call()


def test_a_table_is_not_a_sequence_of_records() -> None:
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match="column"):
        bounded(pandas.DataFrame({"a": [1, 2], "b": [1, 2]}), (0, 1), epsilon=1, order=2)


def test_vectors_of_any_size_stay_within_the_radius() -> None:
    for radius, record in ((1e-200, [1e-197, 1e-197]), (1.0, [1e200, 1e200]), (1.0, [1e-300, 0.0])):
        sampler = posterior_sampler(
            "direct", "gaussian-vector", prior=((0, 0), 1), n=2, sigma=1, radius=radius, dimension=2
        )
        total = sampler.statistic([record, [0.0, 0.0]])
        assert sum(x * x for x in total) <= Fraction(radius) ** 2
        if max(record) >= radius:
            assert math.sqrt(sum(float(x / Fraction(radius)) ** 2 for x in total)) > 0.99
    for bad in ([["secret", 0]], [[1, 2], [3]]):
        with pytest.raises(DataError) as error:
            sampler.statistic(bad)
        assert "secret" not in str(error.value)
    with pytest.raises(InvalidInputError, match="'missing' is not an option"):
        sampler.statistic([[0, 0]], missing=0)


# Published attacks on floating-point noise: what breaks a draw in floats, and why it does not break ours.


def test_attack_on_the_support_of_float_draws() -> None:
    """Mironov (2012): adding a float to float noise leaves holes that tell the neighbours apart.

    A Gaussian draw mean + sd·z with 53-bit z reaches other doubles for another mean. Ours is the middle of a
    cell of a public grid, for every mean, and every cell has positive probability.
    """
    rng = np.random.default_rng(2)
    z = rng.integers(0, 2**20, 20_000) / 2.0**20  # few noise values make the holes visible at once
    means = (0.1, 0.30000000000000004)
    reachable = [set((mean + z).tolist()) for mean in means]
    fresh = means[0] + rng.integers(0, 2**20, 2_000) / 2.0**20
    all_of_the_other = {means[1] + i / 2.0**20 for i in range(2**20)}
    told_apart = np.mean([value not in all_of_the_other for value in fresh.tolist()])
    assert told_apart > 0.5
    assert reachable[0] != reachable[1]

    sampler = posterior_sampler("direct", "gaussian", prior=(0, 1), n=4, sigma=1, bounds=(0, 1), grid="1/8")
    for total in (0.1, 0.30000000000000004, 3.7):
        cells = {Fraction(value) / Fraction(1, 8) for value in sampler.draw(total, 200).tolist()}
        assert {cell - Fraction(1, 2) for cell in cells} <= set(map(Fraction, range(-40, 41)))


def test_attack_on_the_ordinary_generator_of_floats() -> None:
    """Haney et al. (2022): float samplers reach few values near an end; Beta in floats gives exact zeros.

    With NumPy a Beta(0.01, 1) draw is 0.0 with probability far above that of the true distribution, which a
    neighbour (0.02, 1) does not share: an event with a large ratio. Our distribution of the lowest cell is
    exact.
    """
    rng = np.random.default_rng(0)
    zeros = [np.mean(rng.beta(a, 1, 200_000) == 0.0) for a in (0.001, 0.004)]
    assert zeros[0] > 0.3
    family = BetaFamily()
    source = SeededEntropy(4)
    eta = (Fraction(1, 1000), Fraction(1))
    draws = [family.draw(eta, Fraction(1, 2**40), source)[0] for _ in range(300)]
    assert min(draws) == Fraction(1, 2**41)  # the middle of the lowest cell, never 0
    lowest = np.mean([draw == Fraction(1, 2**41) for draw in draws])
    assert lowest == pytest.approx(2.0 ** (-40 / 1000), abs=0.03)


def test_attack_on_float_sums() -> None:
    """Casacuberta et al. (2022): a sum of floats can move by more than the bounds of one record.

    The plain sum of these records moves by 2 when one record moves from 0 to 1. Ours is a sum of integers.
    """
    big = [2.0**53] + [1.0] * 4
    assert sum(big) - sum([2.0**53, *([1.0] * 3), 0.0]) == 0.0  # lost altogether
    odd = 2.0**53 - 1
    assert (odd + 1.0 + 1.0 + 1.0) - (odd + 1.0 + 1.0 + 0.0) in (0.0, 2.0)
    records = [0.1] * 999
    sampler = posterior_sampler("direct", "beta", prior=(6, 12), n=1000)
    one, two = sampler.statistic([*records, 0.0]), sampler.statistic([*records, 1.0])
    assert two - one == 1
    assert isinstance(one, Fraction)


@pytest.mark.parametrize("total", range(4))
def test_exact_distribution_on_a_coarse_grid_obeys_the_claim(total: int) -> None:
    """The distribution that is really sampled, cell by cell, for neighbours: within the claimed (ε, δ)."""
    from scipy.special import betainc

    claim = posterior_sampler("direct", "beta", prior=(3, 4), n=4).guarantee
    edges = np.linspace(0, 1, 65)
    distributions = [np.diff(betainc(3 + s, 4 + 4 - s, edges)) for s in (total, total + 1)]
    for epsilon in (0.0, 0.2, 0.7, 1.5):
        for p, q in (distributions, distributions[::-1]):
            delta = float(np.maximum(p - math.exp(epsilon) * q, 0).sum())
            assert delta <= claim.delta_at(epsilon) + 1e-13


def test_a_draw_is_charged_what_it_needs(tmp_path: Any) -> None:
    """With r = 1 the posterior itself is drawn from: its own ε at δ is charged, not the one allowed."""
    asked: dict[str, Any] = {"prior": (50, 100), "sigma": 200, "bounds": (0, 120), "delta": "1e-6"}
    sampler = posterior_sampler("diffused", "gaussian", n=400, epsilon="0.5", **asked)
    assert sampler.r == sampler.m == 1
    needed = sampler.guarantee.epsilon
    assert 0 < needed < 0.25
    assert (
        sampler.guarantee.effective_curve.delta_at(needed)
        <= 1e-6
        < sampler.guarantee.effective_curve.delta_at(0.99 * needed)
    )
    tight = posterior_sampler("diffused", "gaussian", n=400, epsilon="0.01", **asked)
    assert tight.r < 1
    assert tight.guarantee.epsilon == 0.01
    with discreet.Ledger(tmp_path / "ledger.db") as book:
        book.create("d", epsilon=1, delta="1e-5")
        shorthand.draws(
            [60.0] * 400, "gaussian", method="diffused", epsilon="0.5", ledger=book, dataset="d", **asked
        )
        assert book.show("d").spent.epsilon == sampler.guarantee.exact_epsilon


def test_order_one_is_kullback_leibler_privacy() -> None:
    """The largest divergence over all neighbouring counts, in closed form, is just below the curve."""
    from scipy import special

    a, b, n = 6, 12, 100

    def divergence(x: int, y: int) -> float:
        (p, q), (r, s) = (a + x, b + n - x), (a + y, b + n - y)
        log = special.betaln(r, s) - special.betaln(p, q)
        return float(log + (p - r) * special.digamma(p) + (q - s) * special.digamma(q))

    largest = max(divergence(x, y) for x in range(n + 1) for y in (x - 1, x + 1) if 0 <= y <= n)
    curve = posterior_sampler("direct", "beta", prior=(a, b), n=n).guarantee
    assert largest <= curve.rdp(1) <= largest * 1.002
    sampler = posterior_sampler("diffused", "beta", prior=(a, b), n=n, epsilon="0.05", order=1)
    assert 0.04 < sampler.guarantee.rdp(1) <= 0.05
    mean = posterior_sampler(
        "diffused", "gaussian", prior=(0, 10), sigma=5, bounds=(-5, 5), n=50, epsilon="0.02", order=1
    )
    assert 0.019 < mean.guarantee.rdp(1) <= 0.02
