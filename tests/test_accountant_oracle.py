"""The accountant against Arb: no composition may report less than the truth, however small or large ε is.

A history is a multiset of (ε, δ) pairs and Gaussian losses. Its worst mechanisms are randomised responses
and a Gaussian, so its δ(ε) is a finite sum: over how many of the responses lose and how many gain, of the
hockey stick of the Gaussian at what is left. That sum is computed with balls of 400 bits.
"""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction
from typing import Any

import flint
import pytest

from discreet._numerics.enclosures import down
from discreet.privacy.composition import compose
from discreet.privacy.curves import Gaussian
from discreet.privacy.guarantee import Guarantee

History = list[tuple[Guarantee, int]]


def arb(value: Fraction) -> Any:
    return flint.arb(flint.fmpq(value.numerator, value.denominator))


def true_delta(history: History, epsilon: Fraction) -> Any:
    """δ(ε) of the least private mechanisms with these guarantees, as a ball."""
    responses, square, intact = [], Fraction(0), flint.arb(1)
    for guarantee, count in history:
        if guarantee.exact_epsilon is None:
            assert isinstance(guarantee.curve, Gaussian)
            square += count * guarantee.curve.mu_squared
        else:
            responses.append((arb(guarantee.exact_epsilon), count))
            intact *= (1 - arb(guarantee.exact_delta)) ** count
    finite = flint.arb(0)
    for gains in itertools.product(*(range(count + 1) for _, count in responses)):
        mass, loss = flint.arb(1), flint.arb(0)
        for gained, (own, count) in zip(gains, responses, strict=True):
            more, less = 1 / (1 + (-own).exp()), 1 / (1 + own.exp())
            mass *= math.comb(count, gained) * more**gained * less ** (count - gained)
            loss += (2 * gained - count) * own
        finite += mass * _stick(square, arb(epsilon) - loss)
    return 1 - intact + intact * finite


def _stick(square: Fraction, epsilon: Any) -> Any:
    """E[(1 − e^{ε − L})₊] of a Gaussian loss with this μ², for any real ε."""
    if not square:  # neither below nor above 0 is 0 up to 400 bits
        return -epsilon.expm1() if epsilon < 0 else flint.arb(0)
    mu, root = arb(square).sqrt(), flint.arb(2).sqrt()
    far, near = (epsilon / mu + sign * mu / 2 for sign in (1, -1))
    return ((near / root).erfc() - epsilon.exp() * (far / root).erfc()) / 2


def random_history(source: random.Random) -> tuple[History, Fraction]:
    """Up to three kinds of pairs and perhaps a Gaussian, of sizes around one scale; and an ε within reach."""
    scale = 10 ** source.uniform(-15, 3)
    history: History = []
    for _ in range(source.randint(1, 3)):
        epsilon = Fraction(f"{scale * 10 ** source.uniform(-1, 1):.6e}")
        delta = Fraction(f"{10 ** source.uniform(-14, -2):.3e}") if source.random() < 0.3 else Fraction(0)
        count = source.choice((1, 1, 2, 3, 10, 30))
        history.append((Guarantee(min(epsilon, Fraction(1000)), exact_delta=delta), count))
    if scale < 10 and source.random() < 0.4:
        square = Fraction(f"{(scale * 10 ** source.uniform(-1, 1)) ** 2:.6e}")
        history.append((Guarantee(None, curve=Gaussian(square)), 1))
    size = math.sqrt(sum(count * float(own.exact_epsilon or scale) ** 2 for own, count in history))
    return history, Fraction(f"{source.choice((0.0, size * 10 ** source.uniform(-2, 0.7))):.6e}")


def check(histories: int, seed: int) -> None:
    source = random.Random(seed)
    below, loosest = [], 1.0
    flint.ctx.prec, before = 400, flint.ctx.prec
    try:
        for number in range(histories):
            history, epsilon = random_history(source)
            parts = [guarantee for guarantee, count in history for _ in range(count)]
            reported = compose(parts).delta_at(epsilon)
            truth = true_delta(history, epsilon)
            lower = truth.lower().fmpq()
            least = max(Fraction(0), Fraction(int(lower.p), int(lower.q)))
            if Fraction(reported) < least:
                below.append((number, float(epsilon), reported, down(least)))
            if least > Fraction(1, 10**9):
                loosest = max(loosest, reported / float(least))
    finally:
        flint.ctx.prec = before
    assert below == []
    assert loosest < 2


def test_no_composition_reports_less_than_the_truth() -> None:
    check(75, 1)


@pytest.mark.slow
def test_no_composition_of_two_thousand_reports_less_than_the_truth() -> None:
    check(2_000, 2)


@pytest.mark.slow
@pytest.mark.long
def test_no_composition_of_ten_thousand_reports_less_than_the_truth() -> None:
    check(10_000, 3)
