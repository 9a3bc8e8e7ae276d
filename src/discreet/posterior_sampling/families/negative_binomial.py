"""Records that count failures before a known number of successes: geometric and negative binomial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.distributions.beta_dirichlet import Beta, prior_in_words
from discreet.distributions.mixtures import BetaMixture
from discreet.numerics.enclosures import Ball, ball
from discreet.numerics.log_gamma import log_gamma_step, log_rising
from discreet.posterior_sampling.families.categorical import OneShare, as_trials, upper_tail
from discreet.posterior_sampling.family import (
    Family,
    Natural,
    Pair,
    RecordKind,
    as_whole_bounds,
    clipped_words,
    in_floats,
)
from discreet.posterior_sampling.given_draws import weighed_statistics


@dataclass(frozen=True)
class _Failures(OneShare):
    """Failures before ``wanted`` successes of probability θ, clipped to declared bounds; Beta prior.

    A record x adds (wanted, x) to (a, b), so neighbours are Beta(A, B) and Beta(A, B + t), and all of the
    difference is in w = 1 − θ, with the ratio w^t. −ln w is the less dispersed the larger B is, so that the
    divergences fall in B, and they grow with t. The worst pair has all other records at the lower bound.
    """

    bounds: tuple[float, float]
    parameter: ClassVar[str] = "probability"
    records: ClassVar[RecordKind] = "counts"
    whole: ClassVar[bool] = True

    @property
    def wanted(self) -> int:
        """How many successes a record waits for."""
        return 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "bounds", as_whole_bounds(self.bounds, "a number of failures"))

    def contribution(self, statistic: Any, n: int) -> Natural:
        return Fraction(n * self.wanted), self.total(statistic, n)

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        low, high = (Fraction(bound) for bound in self.bounds)
        a, b = eta[0] + r * n * self.wanted, eta[1] + r * n * low
        first, second = (a, b), (a, b + r * (high - low))
        return [(first, second), (second, first)]

    profile_pairs, elsewhere = Family.profile_pairs, Family.elsewhere

    def hockey_stick(self, pair: Pair, epsilon: Fraction) -> Ball:
        (shape, p), (_, q) = pair
        a, exact = ball(shape), ball(epsilon)
        # ln(p/q)(w) = (p−q)·ln w + level, which is at most level where p > q, since w < 1.
        level = (ball(p) + a).lgamma() - (ball(q) + a).lgamma() - ball(p).lgamma() + ball(q).lgamma()
        end = (exact - level) / ball(p - q)
        if not end < 0:
            none = p > q and end >= 0
            return ball(0) if none else end / ball(0)  # not finite: undecided, more bits are needed
        w, rest = end.exp(), -end.expm1()
        if p > q:
            first, second = (rest.beta_lower(a, ball(b), regularized=1) for b in (p, q))
        else:
            first, second = (w.beta_lower(ball(b), a, regularized=1) for b in (p, q))
        return first - exact.exp() * second

    def hockey_sticks(self, pair: Pair, epsilons: FloatArray) -> FloatArray:
        a, p, q = float(pair[0][0]), float(pair[0][1]), float(pair[1][1])
        step, low = float(abs(pair[0][1] - pair[1][1])), min(p, q)
        level = log_gamma_step(low + a, step) - log_gamma_step(low, step)
        end = (epsilons - level) / step if p > q else -(epsilons + level) / step
        inside = np.minimum(end, -1e-300)
        z = inside - np.log(-np.expm1(inside))  # logit of w where the ratio is e^ε
        if p > q:
            first, second = (np.where(end < 0, upper_tail(np.array(b), np.array(a), z), 0.0) for b in (p, q))
        else:
            first, second = (upper_tail(np.array(a), np.array(b), -z) for b in (p, q))
        return in_floats(first, second, epsilons, max(a, p, q))

    def given_draws(self, prior: Beta, n: int, r: float, m: float, draws: FloatArray) -> BetaMixture:
        (a, b), drawn, trials = prior.parameters, draws.reshape(-1), n * self.wanted
        low, high = (n * float(bound) for bound in self.bounds)
        log_rest = float(np.log1p(-drawn).sum())
        shape = a / m + r * trials

        def of_failures(s: FloatArray) -> FloatArray:
            # The predictive law Γ(trials+s)Γ(b+s)/(s! Γ(a+b+trials+s)), and Beta draws given s.
            predictive = log_rising(trials, s) - log_gamma_step(b + s, a + trials)
            given = r * s * log_rest + len(drawn) * log_gamma_step(b / m + r * s, shape)
            return np.asarray(predictive + given, dtype=np.float64)

        s, weight = weighed_statistics(of_failures, low, high, whole=True)
        return BetaMixture(weight, np.full(len(s), a + trials), a + b + trials + s)

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        often = "success" if self.wanted == 1 else f"{self.wanted} successes"
        model = f"the probability of success, from the failures before {often}{clipped_words(self.bounds)}"
        return model, prior_in_words(prior)


@dataclass(frozen=True)
class GeometricFamily(_Failures):
    """Failures before the first success, clipped to declared whole bounds; Beta(a, b) prior of θ."""

    name: ClassVar[str] = "geometric"


@dataclass(frozen=True)
class NegativeBinomialFamily(_Failures):
    """Failures before ``successes`` successes, clipped to declared whole bounds; Beta(a, b) prior."""

    successes: int = 1
    name: ClassVar[str] = "negative-binomial"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "successes", as_trials(self.successes))

    @property
    def wanted(self) -> int:
        return self.successes
