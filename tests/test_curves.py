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
from discreet.convolution import Profile, discretise
from discreet.curves import Approximate, Composed, Curve, Gaussian, Group, Largest, composed
from discreet.families import BetaFamily

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
    from scipy import stats

    for mu in (0.1, 1.0, 3.0):
        curve = Gaussian(Fraction(mu) ** 2)
        x = np.linspace(-12, 12 + mu, 2_000_001)
        for epsilon in (0.0, 0.5, 2.0):
            part = np.maximum(stats.norm.pdf(x, mu) - math.exp(epsilon) * stats.norm.pdf(x), 0)
            assert curve.delta_at(epsilon) == pytest.approx(np.trapezoid(part, x), abs=1e-9)
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


@pytest.mark.parametrize("order", [1, 0.5, -3, math.nan, math.inf, "x", None])
def test_orders_above_one_only(order: object) -> None:
    with pytest.raises(discreet.InvalidInput, match="order="):
        HALF.rdp(order)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, math.nan])
def test_bad_epsilon_and_delta(value: float) -> None:
    with pytest.raises(discreet.InvalidInput, match="epsilon="):
        HALF.delta_at(value)
    with pytest.raises(discreet.InvalidInput, match="delta="):
        HALF.epsilon_at(value)
    with pytest.raises(discreet.InvalidInput, match="delta="):
        HALF.epsilon_at(1.0)


def test_conversion_agrees_with_dp_accounting() -> None:
    from dp_accounting.rdp import rdp_privacy_accountant as rdp

    orders = [1 + math.exp(x) for x in np.linspace(-3, 8, 4000)]
    for curve in (HALF, ONE, composed([(HALF, 20), (ONE, 1)])):
        values = [curve.rdp(order) for order in orders]
        for delta in (1e-3, 1e-6, 1e-9):
            theirs, _ = rdp.compute_epsilon(orders, values, delta)
            if curve is not HALF:  # whose best orders lie beyond theirs
                assert curve.rdp_epsilon_at(delta) == pytest.approx(theirs, rel=1e-5)
            assert curve.rdp_epsilon_at(delta) <= theirs * (1 + 1e-9)


# Composition.


def test_gaussians_merge_exactly() -> None:
    third = Gaussian(Fraction(1, 3))
    assert composed([(third, 3), (ONE, 2)]) == Gaussian(Fraction(3))


def test_normal_form_forgets_the_order() -> None:
    other = Approximate(Fraction(1, 7))
    one = composed([(HALF, 2), (other, 1), (ONE, 1), (HALF, 1)])
    two = composed([(composed([(ONE, 1), (HALF, 3)]), 1), (other, 1)])
    assert one == two
    assert isinstance(one, Composed)
    assert sorted(count for _, count in one.parts) == [1, 1, 3]
    assert Curve.from_dict(one.to_dict()) == one


@pytest.mark.parametrize(
    "epsilons", [[0.5], [0.5] * 2, [0.1, 0.9, 0.4], [0.25] * 6, [2.0, 0.01, 0.3, 0.7, 1.1], [0.05] * 10]
)
def test_composed_profile_against_all_outcomes(epsilons: list[float]) -> None:
    curve = composed([(Approximate(Fraction(e)), 1) for e in epsilons] + [(Gaussian(Fraction(0)), 1)])
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
        assert exact <= composed([(HALF, k)]).delta_at(epsilon) <= exact * 1.002
    small = composed([(Gaussian(Fraction(1, 50)), 1), (Approximate(Fraction(1, 100)), 1)])
    assert small.delta_at(2.0) < 1e-20


@pytest.mark.parametrize("count", [2, 7, 40])
def test_convolution_of_gaussian_profiles_is_a_gaussian(count: int) -> None:
    """Forced through the grid (as one-member maxima), where the answer is known."""
    small = Largest((Gaussian(Fraction(1, 10)), Gaussian(Fraction(1, 20))))
    curve, exact = composed([(small, count)]), Gaussian(Fraction(count, 10))
    for epsilon in (0.1, 1.0, 3.0):
        assert exact.delta_at(epsilon) <= curve.delta_at(epsilon) <= exact.delta_at(epsilon) * 1.01 + 1e-13


def test_composition_agrees_with_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as pld

    theirs = pld.from_randomized_response(2 / (1 + math.exp(0.5)), 2).self_compose(20)
    theirs = theirs.compose(pld.from_gaussian_mechanism(1.0))
    ours = composed([(HALF, 20), (ONE, 1)])
    for delta in (1e-3, 1e-6, 1e-9):
        assert ours.epsilon_at(delta) == pytest.approx(theirs.get_epsilon_for_delta(delta), rel=2e-3)
        assert ours.epsilon_at(delta) <= theirs.get_epsilon_for_delta(delta)


def test_discrete_law_is_a_law_and_dominates() -> None:
    curve = BetaFamily().curve((Fraction(6), Fraction(12)), 100, Fraction(1))
    losses = discretise(Profile(curve.profiles, curve.end), 4.0, 0.01)
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
    ten = composed([(one, 10)])
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
    with pytest.raises(discreet.InvalidInput, match="update discreet"):
        Curve.from_dict({"kind": "of tomorrow"})
