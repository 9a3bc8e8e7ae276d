"""Scalings of the proofs of C, against the exact loss."""

from __future__ import annotations

from fractions import Fraction

import pytest

import discreet
from discreet.posterior_sampling.families.categorical import BetaFamily
from discreet_reproductions.paper_c import scalings


@pytest.mark.parametrize("prior", [(1.0, 1.0), (6.0, 12.0)])
@pytest.mark.parametrize(("order", "epsilon"), [(2.0, 0.1), (15.0, 1.0)])
def test_explicit_scalings_are_private_and_below_the_largest(
    prior: tuple[float, float], order: float, epsilon: float
) -> None:
    a, b = map(Fraction, prior)
    proof, mended = scalings.explicit_r(prior, 30, order, epsilon)
    largest = discreet.posterior_sampler(
        "diffused", "beta", prior=prior, n=30, epsilon=epsilon, order=order
    ).r
    assert 0 < proof <= mended <= largest * (1 + 1e-9)
    family = BetaFamily()
    assert family.curve((a, b), 30, Fraction(mended)).rdp(order) <= epsilon
    m = Fraction(scalings.explicit_m(prior, 30, order, epsilon))
    assert family.curve((a / m, b / m), 30, Fraction(1)).rdp(order) <= epsilon
