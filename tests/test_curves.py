"""Privacy curves: conversions, profiles and their composition against brute force and dp-accounting."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import discreet
from discreet.errors import InvalidInputError
from discreet.posterior_sampling.families.categorical import BetaFamily, DirichletFamily
from discreet.posterior_sampling.families.rates import Exponential, Poisson
from discreet.privacy._convolution import discretise
from discreet.privacy.composite_curves import Composed, Group, Inexact, Largest, compose_curves
from discreet.privacy.curves import Approximate, Curve, Gaussian

HALF = Approximate(Fraction(1, 2))
ONE = Gaussian(Fraction(1))


def responses(epsilons: list[float], epsilon: float) -> float:
    """δ(ε) of a product of randomised responses, from all 2^k outcomes."""
    total = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        p = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        q = math.prod(1 / (1 + math.exp(s * e)) for s, e in zip(signs, epsilons, strict=True))
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


# One curve.


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0, 40.0])
@pytest.mark.parametrize("order", [1.001, 2.0, 17.5, 4000.0])
def test_pure_curve_is_that_of_randomised_response(epsilon: float, order: float) -> None:
    curve = Approximate(Fraction(epsilon))
    yes, no = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    logs = order * yes + (1 - order) * no, order * no + (1 - order) * yes
    top = max(logs)
    wanted = (top + math.log(sum(math.exp(x - top) for x in logs))) / (order - 1)
    assert curve.rdp(order) == pytest.approx(wanted, rel=1e-6)
    assert curve.rdp(order) <= epsilon * (1 + 1e-12)
    assert curve.rdp(order) <= order * epsilon**2 / 2 * (1 + 1e-9)


def test_pure_profile_counts_outcomes() -> None:
    for epsilon in (0.0, 0.2, 0.4999, 0.5, 3.0):
        assert HALF.delta_at(epsilon) == pytest.approx(responses([0.5], epsilon), rel=1e-12, abs=1e-15)
    mixed = Approximate(Fraction(1, 2), Fraction(1, 100))
    assert mixed.delta_at(0.5) == 0.01
    assert mixed.delta_at(0.2) == pytest.approx(0.01 + 0.99 * responses([0.5], 0.2))
    assert mixed.rdp(2) == math.inf


def test_gaussian_profile_against_integration() -> None:
    from scipy import integrate, stats

    for mu in (0.1, 1.0, 3.0):
        curve = Gaussian(Fraction(mu) ** 2)
        x = np.linspace(-12, 12 + mu, 2_000_001)
        for epsilon in (0.0, 0.5, 2.0):
            part = np.maximum(stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x), 0)
            assert curve.delta_at(epsilon) == pytest.approx(integrate.trapezoid(part, x), abs=1e-9)
    assert Gaussian(Fraction(4)).rdp(7) == pytest.approx(14)
    assert Gaussian(Fraction(0)).delta_at(0) == 0


@given(st.floats(1e-3, 10), st.floats(1e-12, 0.5))
def test_epsilon_at_is_on_the_private_side(mu: float, delta: float) -> None:
    curve = Gaussian(Fraction(mu) ** 2)
    epsilon = curve.epsilon_at(delta)
    assert curve.delta_at(epsilon) <= delta
    assert epsilon == 0 or curve.delta_at(epsilon * (1 - 1e-6)) > delta * (1 - 1e-3)
    assert epsilon <= curve.rdp_epsilon_at(delta)


def test_far_tail_of_a_gaussian_is_small_and_not_zero() -> None:
    assert 0 < Gaussian(Fraction(1, 100)).delta_at(50) < 1e-290


@pytest.mark.parametrize("order", [0.99, 0.5, -3, math.nan, math.inf, "x", None])
def test_orders_from_one_on_only(order: object) -> None:
    with pytest.raises(InvalidInputError, match="order="):
        HALF.rdp(order)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, math.nan])
def test_bad_epsilon_and_delta(value: float) -> None:
    with pytest.raises(InvalidInputError, match="epsilon="):
        HALF.delta_at(value)
    with pytest.raises(InvalidInputError, match="delta="):
        HALF.epsilon_at(value)
    with pytest.raises(InvalidInputError, match="delta="):
        HALF.epsilon_at(1.0)


def test_conversion_agrees_with_dp_accounting() -> None:
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = [1 + math.exp(x) for x in np.linspace(-3, 8, 4000)]
    for curve in (HALF, ONE, compose_curves([(HALF, 20), (ONE, 1)])):
        values = [curve.rdp(order) for order in orders]
        for delta in (1e-3, 1e-6, 1e-9):
            theirs, _ = rdp.compute_epsilon(orders, values, delta)
            if curve is not HALF:  # whose best orders lie beyond theirs
                assert curve.rdp_epsilon_at(delta) == pytest.approx(theirs, rel=1e-5)
            assert curve.rdp_epsilon_at(delta) <= theirs * (1 + 1e-9)


# Composition.


def test_gaussians_merge_exactly() -> None:
    third = Gaussian(Fraction(1, 3))
    assert compose_curves([(third, 3), (ONE, 2)]) == Gaussian(Fraction(3))


def test_normal_form_forgets_the_order() -> None:
    other = Approximate(Fraction(1, 7))
    one = compose_curves([(HALF, 2), (other, 1), (ONE, 1), (HALF, 1)])
    two = compose_curves([(compose_curves([(ONE, 1), (HALF, 3)]), 1), (other, 1)])
    assert one == two
    assert isinstance(one, Composed)
    assert sorted(count for _, count in one.parts) == [1, 1, 3]
    assert Curve.from_dict(one.to_dict()) == one


@pytest.mark.parametrize(
    "epsilons", [[0.5], [0.5] * 2, [0.1, 0.9, 0.4], [0.25] * 6, [2.0, 0.01, 0.3, 0.7, 1.1], [0.05] * 10]
)
def test_composed_profile_against_all_outcomes(epsilons: list[float]) -> None:
    curve = compose_curves([(Approximate(Fraction(e)), 1) for e in epsilons] + [(Gaussian(Fraction(0)), 1)])
    total = math.fsum(epsilons)
    for epsilon in np.linspace(0, 1.1, 23) * total:
        exact = responses(epsilons, float(epsilon))
        assert exact <= curve.delta_at(float(epsilon)) + 1e-15
        assert curve.delta_at(float(epsilon)) == pytest.approx(exact, rel=2e-3, abs=1e-7)


def test_composed_delta_keeps_its_digits_far_in_the_tail() -> None:
    """Twenty times ε = 1/2: δ(9.9) is 7.26e-6; a transform without tilting keeps few digits of it."""
    k, e = 20, 0.5
    p = 1 / (1 + math.exp(-e))
    for epsilon in (3.0, 9.0, 9.9, 9.99):
        exact = math.fsum(
            math.comb(k, i)
            * max(0.0, p ** (k - i) * (1 - p) ** i - math.exp(epsilon) * (1 - p) ** (k - i) * p**i)
            for i in range(k + 1)
        )
        assert exact <= compose_curves([(HALF, k)]).delta_at(epsilon) <= exact * 1.002
    small = compose_curves([(Gaussian(Fraction(1, 50)), 1), (Approximate(Fraction(1, 100)), 1)])
    assert small.delta_at(2.0) < 1e-20


@pytest.mark.parametrize("count", [2, 7, 40])
def test_convolution_of_gaussian_profiles_is_a_gaussian(count: int) -> None:
    """Forced through the grid (as one-member maxima), where the answer is known."""
    small = Largest((Gaussian(Fraction(1, 10)), Gaussian(Fraction(1, 20))))
    curve, exact = compose_curves([(small, count)]), Gaussian(Fraction(count, 10))
    for epsilon in (0.1, 1.0, 3.0):
        assert exact.delta_at(epsilon) <= curve.delta_at(epsilon) <= exact.delta_at(epsilon) * 1.01 + 1e-13


def test_composition_agrees_with_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_randomized_response(2 / (1 + math.exp(0.5)), 2).self_compose(20)
    theirs = theirs.compose(pld.from_gaussian_mechanism(1.0))
    ours = compose_curves([(HALF, 20), (ONE, 1)])
    for delta in (1e-3, 1e-6, 1e-9):
        assert ours.epsilon_at(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=2e-3)
        assert ours.epsilon_at(delta) <= theirs.get_epsilon_for_delta(delta)


def test_discrete_distribution_is_a_distribution_and_dominates() -> None:
    curve = BetaFamily().curve((Fraction(6), Fraction(12)), 100, Fraction(1))
    losses = discretise(curve, 4.0, 0.01)
    assert losses.masses.sum() + losses.infinite == pytest.approx(1.0, abs=1e-12)
    assert (losses.masses >= 0).all()
    places = 0.01 * (losses.first + np.arange(len(losses.masses)))
    for epsilon in (0.0, 0.333, 1.0, 2.77):
        beyond = places > epsilon
        delta = losses.infinite - float(losses.masses[beyond] @ np.expm1(epsilon - places[beyond]))
        exact = curve.delta_at(epsilon)
        assert exact <= delta <= exact * 1.001 + 1e-9


def test_sampler_curves_compose_between_one_and_the_renyi_bound() -> None:
    one = BetaFamily().curve((Fraction(6), Fraction(12)), 100, Fraction(1, 4))
    ten = compose_curves([(one, 10)])
    assert one.epsilon_at(1e-6) < ten.epsilon_at(1e-6) < ten.rdp_epsilon_at(1e-6) < 10 * one.epsilon_at(1e-6)
    assert ten.max_order == one.max_order
    assert ten.rdp(3) == pytest.approx(10 * one.rdp(3))


# Groups and parts.


def test_group_of_pure_and_of_gaussian() -> None:
    pure = discreet.Guarantee(Fraction(1, 2)).group(3)
    assert (pure.epsilon, pure.delta) == (1.5, 0.0)
    gaussian = discreet.Guarantee(None, curve=ONE).group(3)
    assert gaussian.mu == 3
    grown = Group(ONE, 3)
    for epsilon in (0.0, 1.0, 4.0, 9.0):
        assert Gaussian(Fraction(9)).delta_at(epsilon) <= grown.delta_at(epsilon)
    assert grown.rdp(2) == math.inf


def test_groups_of_draws_compose() -> None:
    one = BetaFamily().curve((Fraction(6), Fraction(12)), 100, Fraction(1, 4))
    pair = Group(one, 2)
    assert pair.end == math.inf
    assert pair.epsilon_at(1e-6) < compose_curves([(pair, 3)]).epsilon_at(1e-6) < 3 * pair.epsilon_at(1e-7)


def test_group_of_an_approximate_guarantee_against_the_worst_mechanism() -> None:
    """Vadhan's bound for the pair (ε, δ): (sε, δ(e^{sε} − 1)/(e^ε − 1))."""
    group = discreet.Guarantee(Fraction(1, 2), exact_delta=Fraction(1, 1000)).group(2)
    assert group.epsilon == 1.0
    assert group.delta == pytest.approx(0.001 * math.expm1(1) / math.expm1(0.5))
    assert discreet.Guarantee(Fraction(1, 2), exact_delta=Fraction(1, 2)).group(9).is_private is False


def test_largest_is_pointwise() -> None:
    largest = Largest((HALF, ONE))
    for epsilon in (0.0, 0.3, 1.0):
        assert largest.delta_at(epsilon) == max(HALF.delta_at(epsilon), ONE.delta_at(epsilon))
    assert largest.rdp(3) == max(HALF.rdp(3), ONE.rdp(3))
    assert largest.zcdp() == Fraction(1, 2)
    assert Curve.from_dict(largest.to_dict()) == largest


def test_unknown_kind_of_curve() -> None:
    with pytest.raises(InvalidInputError, match="update discreet"):
        Curve.from_dict({"kind": "of tomorrow"})


# What a review found.


def tiny_settings() -> list[Curve]:
    curves: list[Curve] = [
        Poisson((0, 10)).curve((Fraction(1, 1000), Fraction(1, 1000)), 1000, Fraction(1, 10**4)),
        DirichletFamily().curve((Fraction(1, 100), Fraction(1, 100), Fraction(1)), 50, Fraction(1, 1000)),
        Exponential((0, 10)).curve((Fraction(1, 100), Fraction(1, 100)), 20, Fraction(1, 1000)),
        Exponential((0, 10)).curve((Fraction(4.925), Fraction(0.00738)), 30, Fraction(0.954)),
    ]
    rng = np.random.default_rng(8)
    for _ in range(40):
        a, b, r = (Fraction(float(x)) for x in np.exp(rng.uniform(np.log(1e-3), np.log(5), 3)))
        family = [Poisson((0, 7)), DirichletFamily(), Exponential((0, 3))][int(rng.integers(3))]
        curves.append(family.curve((a, b), int(rng.integers(1, 200)), min(r, Fraction(1)) / 7))
    return curves


@pytest.mark.slow
def test_composition_never_costs_less_than_a_part() -> None:
    """Tiny priors, whose thresholds are no doubles: an earlier version computed their profiles as 0."""
    for curve in tiny_settings():
        both = compose_curves([(curve, 1), (Approximate(Fraction(1, 10**6)), 1)])
        for epsilon in (0.1, 1.0, 3.0):
            assert both.delta_at(epsilon) >= curve.delta_at(epsilon) * (1 - 1e-5)


def test_profiles_of_tiny_priors_in_floats_are_those_of_balls() -> None:
    """Where enclosures are quick, down to parameters of 0.001."""
    from discreet._numerics.enclosures import above, enclose

    family, poisson = DirichletFamily(), Poisson((0, 10))
    for model, eta, r in (
        (family, (Fraction(1, 100), Fraction(1, 50), Fraction(1)), Fraction(1, 100)),
        (family, (Fraction(1, 1000), Fraction(1, 500), Fraction(1)), Fraction(1, 1000)),
        (poisson, (Fraction(1, 1000), Fraction(1)), Fraction(1, 10**5)),
        (poisson, (Fraction(1, 1000), Fraction(1)), Fraction(1, 100)),
    ):
        for pair in model.extreme_pairs(eta, 10, r):
            for epsilon in (0.01, 0.3, 1.0, 2.0):
                exact = above(enclose(lambda: model.hockey_stick(pair, Fraction(epsilon)), absolute=1e-300))  # noqa: B023
                bound = float(model.hockey_sticks(pair, np.array([epsilon]))[0])
                assert exact <= bound + 1e-300
                assert bound == pytest.approx(exact, rel=1e-4, abs=1e-11)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 30])
@pytest.mark.parametrize("prior", [(0.3, 5.0), (6.0, 12.0), (1.0, 1.0), (40.0, 0.2)])
def test_statistics_between_the_ends_are_covered(n: int, prior: tuple[float, float]) -> None:
    """The bound on what lies between the ends, against every sum (and, for numbers, sums in between)."""
    epsilons = np.array([0.05, 0.5, 2.0])
    eta = (Fraction(prior[0]), Fraction(prior[1]))
    for family, places in (
        (DirichletFamily(), [Fraction(x) for x in range(1, n - 1)]),
        (BetaFamily(), [Fraction(x, 4) for x in range(1, 4 * (n - 1))]),
    ):
        for r in (Fraction(1), Fraction(1, 5)):
            bound = family.elsewhere(eta, n, r, epsilons)
            if not places:
                assert bound is None
                continue
            assert bound is not None
            for x in places:
                a, b = eta[0] + r * x, eta[1] + r * (n - 1 - x)
                for pair in (((a + r, b), (a, b + r)), ((b + r, a), (b, a + r))):
                    exact = family.hockey_sticks(pair, epsilons) / (1 + 1.1e-6)
                    assert (exact <= bound + 1e-11).all()


def test_composed_pairs_keep_their_delta() -> None:
    pair = Approximate(Fraction(1, 2), Fraction(1, 1000))
    assert compose_curves([(pair, 3)]).delta_at(1.5) == pytest.approx(0.003, rel=1e-6)
    assert compose_curves([(pair, 3)]).delta_at(10.0) >= 0.0029


def test_exact_values_are_rounded_to_the_safe_side() -> None:
    from discreet._numerics.enclosures import down, round_up, up

    more = Fraction(1, 2) + Fraction(1, 10**20)
    twice = discreet.compose([discreet.Guarantee(more)] * 2)
    assert twice.to_dp(0).exact_epsilon == 2 * more
    assert discreet.Guarantee(more).delta_at("0.5") > 0
    assert Fraction(discreet.Guarantee(Fraction(1, 3)).epsilon_at(0)) >= Fraction(1, 3)
    for value in (Fraction(1, 3), Fraction(10) ** 400, Fraction(1, 10**20), Fraction(7)):
        assert down(value) <= value
        assert up(value) == math.inf or up(value) >= value
    for number in (0.0, 1 / 3, 1e-9, 123.456):
        assert number <= round_up(number) <= number * (1 + 1e-11)


def test_twofold_randomised_response_is_not_understated() -> None:
    tenth = Approximate(Fraction(1, 10))
    from flint import arb, ctx

    with ctx.workprec(400):
        p = 1 / (1 + (-arb("0.1")).exp())
        truth = p * p - arb("0.19998").exp() * (1 - p) ** 2
        assert Fraction(compose_curves([(tenth, 2)]).delta_at(0.19998)) >= Fraction(float(truth.lower())) * (
            1 - Fraction(1, 10**15)
        )


def test_a_certain_loss_composes_to_a_certain_loss() -> None:
    hopeless = Exponential((0, 10)).curve((Fraction(4.925), Fraction(0.00738)), 30, Fraction(0.954))
    assert compose_curves([(hopeless, 1), (Approximate(Fraction(1, 10**9)), 1)]).delta_at(0.5) == 1.0


def test_audited_distributions_compose_to_less_than_their_epsilon() -> None:
    """PLDs from exact discrete distributions: ours against dp-accounting's from two probability mass
    functions."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    mechanism = discreet.mechanism("lshist", prior=(1, 1), n=3, epsilon="0.8")
    audited = discreet.audit(mechanism).guarantee()
    assert audited.exact_epsilon == Fraction(4, 5)
    five = discreet.compose([audited], count=5)
    assert five.exact_epsilon == 4
    assert five.epsilon_at(1e-3) < discreet.compose([mechanism.guarantee], count=5).epsilon_at(1e-3)
    assert discreet.Guarantee.from_dict(five.to_dict()) == five
    worst = 0.0
    for x in range(3):
        tables = []
        for counts in ((x, 3 - x), (x + 1, 2 - x)):
            outputs, logs = mechanism.log_pmf(counts)
            tables.append({tuple(map(int, o)): float(v) for o, v in zip(outputs, logs, strict=True)})
        for first, second in (tables, tables[::-1]):
            one = pld.from_two_probability_mass_functions(second, first, value_discretization_interval=1e-3)
            worst = max(worst, one.self_compose(5).get_delta_for_epsilon(2.0))
    assert five.delta_at(2.0) >= worst * (1 - 2e-2)  # theirs is rounded up by its grid
    assert five.delta_at(2.0) <= worst * 1.2 + 1e-7  # ours covers all pairs by one profile


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 3.0])
def test_outputs_that_are_a_little_off_add_to_delta(epsilon: float) -> None:
    """Outputs within total variation τ: at least δ + (1 + e^ε)τ, and hardly more."""
    tau = Fraction(1, 10**6)
    exact = ONE.delta_at(epsilon) + (1 + math.exp(epsilon)) * float(tau)
    assert exact <= Inexact(ONE, tau).delta_at(epsilon) <= exact * (1 + 1e-9)
