"""Composition by convolution against all outcomes in exact arithmetic, over any size of loss."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.privacy import _convolution as convolution
from discreet.privacy._convolution import Composition, discretise
from discreet.privacy.composite_curves import Largest, compose_curves
from discreet.privacy.curves import Approximate, Gaussian


def exact_delta(parts: list[tuple[Fraction, Fraction]], epsilon: float) -> Fraction:
    """δ(ε) of all (ε_i, δ_i)-private mechanisms together, from every outcome."""
    from mpmath import exp, mp, mpf

    with mp.workdps(60 + int(2 * sum(float(e) for e, _ in parts))):
        at = mpf(epsilon)
        total = mpf(0)
        finite = mpf(1)
        distributions = []
        for e, d in parts:
            own, delta = mpf(e.numerator) / e.denominator, mpf(d.numerator) / d.denominator
            finite *= 1 - delta
            distributions.append([(own, 1 / (1 + exp(-own))), (-own, 1 / (1 + exp(own)))])
        for outcome in itertools.product(*distributions):
            loss = sum((x for x, _ in outcome), mpf(0))
            if loss > at:
                mass = mpf(1)
                for _, p in outcome:
                    mass *= p
                total += mass * -mp.expm1(at - loss)
        value = 1 - finite + finite * total
        return Fraction(int(value * mpf(2) ** 2000), 2**2000)


def random_parts(rng: np.random.Generator) -> list[tuple[Fraction, Fraction]]:
    """Two to nine outputs; losses of one order of magnitude, or of any from 1e-15 to 1e3."""
    number = int(rng.integers(2, 10))
    if rng.random() < 0.5:
        logs = rng.uniform(-15, 3) + rng.uniform(-0.5, 0.5, number)
    else:
        logs = rng.uniform(-15, 3, number)
    epsilons = [Fraction(float(10 ** min(x, 3.0))) for x in logs]
    if rng.random() < 0.3:
        epsilons = [epsilons[0]] * number
    with_delta = rng.random() < 0.2
    return [(e, Fraction(float(10 ** rng.uniform(-12, -2))) if with_delta else Fraction(0)) for e in epsilons]


def compare_with_all_outcomes(seed: int, histories: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(histories):
        parts = random_parts(rng)
        curve = compose_curves([(Approximate(e, d), 1) for e, d in parts])
        total = float(sum(e for e, _ in parts))
        biggest = float(max(e for e, _ in parts))
        for epsilon in (0.0, biggest / 3, biggest, 0.999 * total, rng.uniform(0, 1) * total):
            exact = exact_delta(parts, epsilon)
            ours = curve.delta_at(epsilon)
            assert Fraction(ours) >= exact, (parts, epsilon, ours, float(exact))
            assert ours <= float(exact) * 1.01 + 3e-5 * math.tanh(biggest / 2), (parts, epsilon)


@pytest.mark.slow
def test_never_below_all_outcomes() -> None:
    compare_with_all_outcomes(1, 25)


@pytest.mark.slow
def test_never_below_all_outcomes_at_length() -> None:
    compare_with_all_outcomes(2, 500)


def test_tiny_losses_keep_their_digits() -> None:
    """Two outputs of ε = 1e-15: subtracting exponentials would lose all of δ(0) = tanh(ε)/… ≈ ε/2."""
    for size in ("1e-15", "1e-12", "1e-8"):
        epsilon = Fraction(size)
        curve = compose_curves([(Approximate(epsilon), 2)])
        exact = exact_delta([(epsilon, Fraction(0))] * 2, 0.0)
        assert exact <= Fraction(curve.delta_at(0.0)) <= exact * Fraction(1001, 1000)


@pytest.mark.parametrize("mu_squared", [Fraction(1, 10**20), Fraction(1, 10), Fraction(9)])
def test_a_profile_on_the_grid_is_never_below_itself(mu_squared: Fraction) -> None:
    """A Gaussian forced through the grid; the exact curve comes from enclosures."""
    gaussian = Gaussian(mu_squared)
    forced = Largest((gaussian, Gaussian(mu_squared / 2)))
    composition = Composition([(forced, 1)])
    for epsilon in np.linspace(0, 4, 9) * gaussian.mu:
        exact = gaussian.delta_at(float(epsilon))
        assert exact <= composition.delta(float(epsilon)) <= exact * 1.001 + 1e-11


def test_losses_on_a_common_grid_are_not_spread() -> None:
    parts = [(Approximate(e), 3) for e in map(Fraction, ("1/4", "3/4"))]
    composition = Composition(parts)
    assert composition.delta(3.0 - 1e-9) == pytest.approx(
        float(
            exact_delta([(Fraction(1, 4), Fraction(0))] * 3 + [(Fraction(3, 4), Fraction(0))] * 3, 3.0 - 1e-9)
        ),
        rel=1e-6,
    )
    losses = discretise(parts[0][0], 0.25, 0.25)
    assert np.flatnonzero(losses.masses > 1e-12).tolist() == [0, 2]


@pytest.mark.parametrize("more", [Fraction(1, 10**15), Fraction(5, 10**14), Fraction(99, 10**15)])
def test_a_loss_just_beyond_a_grid_point_is_not_moved_down_to_it(more: Fraction) -> None:
    losses = [Fraction(1), Fraction(1), Fraction(1, 2) * (1 + more)]
    parts = [(loss, Fraction(0)) for loss in losses]
    curve = compose_curves([(Approximate(loss), 1) for loss in losses])
    for share in (1e-15, 1e-14, 1e-13, 1e-12, 1e-9):
        epsilon = 2.5 * (1 - share)
        assert exact_delta(parts, epsilon) <= Fraction(curve.delta_at(epsilon))


def test_epsilon_is_where_delta_falls_to_it() -> None:
    curve = compose_curves(
        [(Approximate(Fraction(i + 1, 37)), 1) for i in range(30)] + [(Gaussian(Fraction(1)), 1)]
    )
    for delta in (1e-2, 1e-6, 1e-10):
        epsilon = curve.epsilon_at(delta)
        assert curve.delta_at(epsilon) <= delta
        assert curve.delta_at(epsilon * (1 - 1e-6)) > delta


def test_cutting_and_transforms_do_not_change_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same history with direct convolutions of whole distributions: nothing is cut, nothing
    transformed."""
    from discreet.privacy import _convolution as convolution

    parts = [(Approximate(Fraction(i + 3, 4001)), 2) for i in range(40)]
    fast = {e: compose_curves(parts).delta_at(e) for e in (0.01, 0.3, 0.6)}
    monkeypatch.setattr(convolution, "_MAX_DIRECT_MULTIPLICATIONS", 1 << 60)
    monkeypatch.setattr(convolution, "_MAX_UNCUT_LENGTH", 1 << 60)
    for epsilon, value in fast.items():
        plain = compose_curves(parts).delta_at(epsilon)
        assert plain * (1 - 1e-9) <= value <= plain * (1 + 1e-6)


def test_what_is_cut_off_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With cuts that are far too large the bound is still one: 300 times randomised response, by hand."""
    monkeypatch.setattr(convolution, "_CUT_MASS", 1e-3)
    monkeypatch.setattr(convolution, "_MAX_UNCUT_LENGTH", 16)
    own, number, epsilon = 0.1, 300, 6.0
    p = math.exp(own) / (1 + math.exp(own))
    exact = sum(
        math.comb(number, j) * p**j * (1 - p) ** (number - j) * -math.expm1(epsilon - (2 * j - number) * own)
        for j in range(number + 1)
        if (2 * j - number) * own > epsilon
    )
    whole = convolution.Composition([(Approximate(Fraction(1, 10)), number)])
    assert whole.delta(epsilon) >= exact
