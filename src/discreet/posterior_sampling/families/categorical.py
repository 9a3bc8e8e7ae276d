"""Proportions: the Dirichlet family of categorical records and the Beta family of numbers in [0, 1].

For posteriors Dir(a + r eᵢ) and Dir(a + r eⱼ) everything depends on aᵢ and aⱼ only, through u = θᵢ/(θᵢ+θⱼ),
which is Beta(aᵢ + r, aⱼ) or Beta(aᵢ, aⱼ + r). Why the pairs below are the worst ones:

* *More prior weight helps.* With V ~ Beta(aᵢ+aⱼ+r, s) independent, u·V turns the pair of (aᵢ, aⱼ) into the
  pair of (aᵢ, aⱼ + s): every divergence falls in aᵢ and in aⱼ. So for k ≥ 3 the n − 1 other records are in
  other levels, and the two levels with the smallest priors are the worst.
* *For k = 2* the other records are in one of the two levels, x and n − 1 − x of them. D_λ is convex in x
  (ψ' is convex), so an end is worst. For the hockey-stick divergence the ends are compared with bounds on
  everything between them, which the first argument gives for whole ranges of x.
* *Numbers in [0, 1]*: Beta(a + t, N − a − t) has a monotone likelihood ratio in t, so records 0 and 1 are
  worse than any two others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet._typing import FloatArray
from discreet.data import count_levels
from discreet.declarations import Domain, as_counts, as_exact, as_positive, as_prior, as_total
from discreet.distributions.beta_dirichlet import Beta, Dirichlet, dirichlet, prior_in_words
from discreet.distributions.law import Law
from discreet.distributions.mixtures import BetaMixture
from discreet.distributions.noise_aware import Enumerated, NoiseAware
from discreet.errors import InvalidInput, TooLargeError
from discreet.numerics.count_vectors import Separable
from discreet.numerics.enclosures import Ball, ball
from discreet.numerics.log_gamma import log_gamma_step, log_rising
from discreet.posterior_sampling.family import Family, Natural, Pair, RecordKind, clipped_words, in_floats
from discreet.randomness.cells import exact_cell
from discreet.randomness.entropy import Source

MAX_SHARES_N = 1_000_000
_QUICK = 2_000_000  # records times levels up to which intervals of shares take seconds
_GRID = Fraction(1, 2**40)
_END = Fraction(1, 10**6)
"""A statistic that may be any number: the end of its range stands for all within this many records."""
_MOST_CELLS = 4096
_DOUBLES = 600.0  # e^{−600} is a double with all its digits


@dataclass(frozen=True)
class ShareFamily(Family):
    """Coordinates η = a, the parameters themselves; C = ΣlnΓ(aᵢ) − lnΓ(Σa).

    One record adds ``items`` to a in all; moving it from level i to level j is a step of r·``items``.
    """

    parameter: ClassVar[str] = "share"
    is_share: ClassVar[bool] = True
    whole: ClassVar[bool]
    """Whether a record adds whole numbers, or may be split between levels."""

    @property
    def items(self) -> int:
        """How much one record adds to all parameters together."""
        return 1

    def prior(self, parameters: Any) -> Beta | Dirichlet:
        return dirichlet(as_prior(getattr(parameters, "parameters", parameters)))

    def natural(self, distribution: Beta | Dirichlet) -> Natural:
        return tuple(Fraction(value) for value in distribution.parameters)

    def from_natural(self, eta: Natural) -> Beta | Dirichlet:
        return dirichlet([float(value) for value in eta])

    def log_partition(self, eta: Sequence[Ball]) -> Ball:
        total: Ball = sum(eta, start=ball(0))
        return sum((value.lgamma() for value in eta), start=-total.lgamma())

    def normalisable(self, eta: Natural) -> bool:
        return all(value > 0 for value in eta)

    def grid(self, eta: Natural, n: int, r: Fraction) -> Fraction:
        return _GRID

    def as_grid(self, grid: Fraction) -> Fraction:
        if (1 / grid).denominator != 1:
            raise InvalidInput(f"grid={grid} must be 1 divided by a whole number: cells that fill [0, 1]")
        return grid

    def simulate(self, eta: Natural, size: int, rng: np.random.Generator) -> FloatArray:
        return rng.dirichlet([float(value) for value in eta], size)

    def draw(self, eta: Natural, grid: Fraction, source: Source) -> tuple[Fraction, ...]:
        """Stick-breaking: θᵢ/(θᵢ + … + θ_k) is Beta(aᵢ, aᵢ₊₁ + … + a_k), each rounded by itself."""
        proportions = []
        left = Fraction(1)
        for index in range(len(eta) - 1):
            part = beta_cell(eta[index], sum(eta[index + 1 :], Fraction(0)), grid, source)
            proportions.append(left * part)
            left *= 1 - part
        return *proportions, left

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        step = r * self.items
        if len(eta) > 2:
            first, second = sorted(eta)[:2]
            return _both_orders(first, second, step)
        most = step * (n - 1)
        return _both_orders(eta[0], eta[1] + most, step) + _both_orders(eta[0] + most, eta[1], step)

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        if len(eta) > 2 or self.whole:
            return self.extreme_pairs(eta, n, r)
        step, most = r * self.items, max(Fraction(0), r * (self.items * (n - 1) - _END))
        return _both_orders(eta[0], eta[1] + most, step) + _both_orders(eta[0] + most, eta[1], step)

    def elsewhere(self, eta: Natural, n: int, r: Fraction, epsilons: FloatArray) -> FloatArray | None:
        """k = 2, statistics strictly between the ends: ranges low ≤ x ≤ high, each bounded by one pair.

        By the first argument of the module (eta₁ + r·low, eta₂ + r·(n − 1 − high)) is worse than all of
        them. A range whose bound exceeds that of the ends is halved, as long as that can help.
        """
        most = float(self.items * (n - 1))
        if len(eta) > 2 or most < (2 if self.whole else 1):
            return None
        a, b, scale, step = float(eta[0]), float(eta[1]), float(r), float(r * self.items)
        if self.whole:
            starts = [2.0**i for i in range(int(most).bit_length()) if 2**i < most]
            lows = np.array(sorted({*starts, *(most - start for start in starts)}))
            highs = np.append(lows[1:] - 1, lows[-1])
            lows, highs = lows[lows <= highs], highs[lows <= highs]
        else:
            starts = [float(_END) * 2.0**i for i in range(64) if float(_END) * 2.0**i < most / 2]
            ends = np.array(sorted({*starts, *(most - start for start in starts), most / 2}))
            lows, highs = ends[:-1], ends[1:]
        pairs = self.profile_pairs(eta, n, r)
        at_ends = np.max([self.hockey_sticks(pair, epsilons) for pair in pairs], axis=0)
        bound = np.zeros_like(epsilons)
        smallest = 1.0 if self.whole else float(_END)
        for _ in range(40):
            values = np.maximum(
                _float_hockey_sticks(a + scale * lows, b + scale * (most - highs), step, epsilons),
                _float_hockey_sticks(b + scale * (most - highs), a + scale * lows, step, epsilons),
            )
            over = (values > at_ends[:, None]).any(axis=0) & (highs - lows >= smallest)
            if not over.any() or len(lows) > _MOST_CELLS:
                return np.asarray(np.maximum(bound, values.max(axis=1)), dtype=np.float64)
            bound = np.maximum(bound, values[:, ~over].max(axis=1, initial=0.0))
            middle = (lows[over] + highs[over]) / 2
            if self.whole:
                middle = np.floor(middle)
            lows, highs = (
                np.concatenate([lows[over], middle + 1 if self.whole else middle]),
                np.concatenate([middle, highs[over]]),
            )
        return np.asarray(np.maximum(bound, values.max(axis=1)), dtype=np.float64)

    def given_draws(self, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> Any:
        return shares_given(prior.parameters, self.items * n, r, m, draws)

    def slow_given_draws(self, n: int, number: int) -> bool:
        return self.items * n * number > _QUICK

    def marginals(self, law: NoiseAware | Beta | Dirichlet) -> list[Law]:
        number = law.k if isinstance(law, NoiseAware) else len(law.parameters)
        return [law.marginal(i) for i in range(number)]

    def sample(self, law: NoiseAware, size: int, seed: int | None) -> FloatArray:
        return law.sample(size, seed)

    def hockey_stick(self, pair: Pair, epsilon: Fraction) -> Ball:
        (p, b), (a, q) = pair
        r, exact = ball(p - a), ball(epsilon)
        # ln of the ratio of the laws of u = θᵢ/(θᵢ+θⱼ): r·logit(u) − ln[Γ(a+r)Γ(b) / Γ(a)Γ(b+r)].
        level = ball(p).lgamma() - ball(a).lgamma() - ball(q).lgamma() + ball(b).lgamma()
        rest = 1 / (1 + ((exact + level) / r).exp())  # 1 − u where the ratio is e^ε
        first = rest.beta_lower(ball(b), ball(p), regularized=1)
        second = rest.beta_lower(ball(q), ball(a), regularized=1)
        return first - exact.exp() * second

    def hockey_sticks(self, pair: Pair, epsilons: FloatArray) -> FloatArray:
        (p, b), (a, _) = pair
        return _float_hockey_sticks(np.array([float(a)]), np.array([float(b)]), float(p - a), epsilons)[:, 0]


def shares_given(prior: tuple[float, ...], n: int, r: float, m: float, draws: FloatArray) -> NoiseAware:
    """π(counts | y) is a product over the levels: Γ(α+x)/x! · Π_j y_j^{r·x} / Γ(α/m + r·x)."""
    from scipy.special import gammaln

    if n > MAX_SHARES_N:
        raise TooLargeError(f"the posterior given draws of shares works up to n = 10⁶, not {n}")
    x = np.arange(n + 1)
    logs = np.log(np.maximum(draws, 1e-300)).sum(axis=0)  # a share below the least double is drawn as 0
    weights = [
        log_rising(a, x) + r * log_y * x - len(draws) * gammaln(a / m + r * x)
        for a, log_y in zip(prior, logs, strict=True)
    ]
    if len(prior) == 2:  # listed: no tilt has to find the sum, however steep many draws make the weights
        return NoiseAware(prior, n, Enumerated(np.stack([x, n - x], axis=1), weights[0] + weights[1][::-1]))
    return NoiseAware(prior, n, Separable.of(weights, n))


def _both_orders(first: Fraction, second: Fraction, r: Fraction) -> list[Pair]:
    return [((first + r, second), (first, second + r)), ((second + r, first), (second, first + r))]


def _float_hockey_sticks(a: FloatArray, b: FloatArray, r: float, epsilons: FloatArray) -> FloatArray:
    """Divergences of Beta(a + r, b) from Beta(a, b + r): a row for each ε, a column for each (a, b)."""
    z = (epsilons[:, None] + log_gamma_step(a, r) - log_gamma_step(b, r)) / r
    largest = float(max(a.max(), b.max())) + r
    return in_floats(upper_tail(a + r, b, z), upper_tail(a, b + r, z), epsilons[:, None], largest)


def upper_tail(a: FloatArray, b: FloatArray, z: FloatArray) -> FloatArray:
    """P(u > 1/(1 + e^{−z})) for u ~ Beta(a, b), also where the bound is no double other than 0 or 1.

    There I_x(a, b) = x^a/(a B(a, b))·(1 + O(x)), which for a small a is far from 0 however small x is.
    """
    from scipy.special import betainc, betaincc, expit, gammaln

    a, b, z = np.broadcast_arrays(a, b, z)
    tail = np.empty(z.shape)
    high = z >= 0
    tail[high] = betainc(b[high], a[high], expit(-z[high]))
    tail[~high] = betaincc(a[~high], b[~high], expit(z[~high]))
    if (np.abs(z) > _DOUBLES).any():
        near_one = np.exp(np.minimum(0.0, -b * z - gammaln(b + 1) + log_gamma_step(a, b)))
        near_zero = -np.expm1(np.minimum(0.0, a * z - gammaln(a + 1) + log_gamma_step(b, a)))
        tail = np.where(z > _DOUBLES, near_one, np.where(z < -_DOUBLES, near_zero, tail))
    return np.asarray(tail, dtype=np.float64)


def beta_cell(a: Fraction, b: Fraction, grid: Fraction, source: Source) -> Fraction:
    approximate = Beta(float(a), float(b))

    def cdf(theta: Fraction) -> Ball:
        if theta <= 0 or theta >= 1:
            return ball(int(theta >= 1))
        return ball(theta).beta_lower(ball(a), ball(b), regularized=1)

    return exact_cell(cdf, lambda u: float(approximate.ppf(u)), grid, source)


@dataclass(frozen=True)
class OneShare(ShareFamily):
    """Two levels, of which one is read: θ is one share with a Beta(a, b) prior."""

    def prior(self, parameters: Any) -> Beta:
        return Beta(*as_prior(getattr(parameters, "parameters", parameters), 2))

    def value(self, draws: FloatArray) -> FloatArray:
        return draws[:, 0]

    def given_draws(self, prior: Beta, n: int, r: float, m: float, draws: FloatArray) -> BetaMixture:
        share = draws.reshape(-1)
        both = np.stack([share, 1 - share], axis=1)
        return shares_given(prior.parameters, self.items * n, r, m, both).marginal(0)

    slow_given_draws, marginals, sample = Family.slow_given_draws, Family.marginals, Family.sample


@dataclass(frozen=True)
class BetaFamily(OneShare):
    """Records that are numbers in [0, 1], a yes or no among them; Beta(a, b) prior over their mean.

    A record x adds (x, 1 − x) to (a, b). The statistic is the sum of the records, or the pair (sum, n − sum).
    """

    name: ClassVar[str] = "beta"
    whole: ClassVar[bool] = False

    def contribution(self, statistic: Any, n: int) -> Natural:
        if isinstance(statistic, Sequence | np.ndarray) and not isinstance(statistic, str):
            if len(statistic) != 2:
                raise InvalidInput("the statistic must be the sum of the records, or the pair (sum, n − sum)")
            total, rest = (as_exact(part, "the statistic") for part in statistic)
            if total + rest != n:
                raise InvalidInput(f"the two parts of the statistic do not sum to n={n}")
            statistic = total
        total = as_total(statistic, Fraction(0), Fraction(n))
        return total, n - total

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        within = clipped_words(bounds) or " in [0, 1], or the share of yes"
        return f"the mean of numbers{within}", prior_in_words(prior)


@dataclass(frozen=True)
class DirichletFamily(ShareFamily):
    """Records in k declared levels; Dirichlet prior over their proportions. The statistic is the counts."""

    name: ClassVar[str] = "dirichlet"
    records: ClassVar[RecordKind] = "levels"
    reads: ClassVar[tuple[str, ...]] = ("levels", "other", "missing")
    whole: ClassVar[bool] = True

    def gathered(
        self, data: Any, column: str | None, options: Mapping[str, Any], people: Mapping[str, Any]
    ) -> tuple[Any, int]:
        if "levels" not in options:
            raise InvalidInput("levels are missing: declare every value that a record may take")
        counts = count_levels(data, Domain(**options), column=column, **people)
        return counts, sum(counts)

    def contribution(self, statistic: Any, n: int) -> Natural:
        values = tuple(statistic) if isinstance(statistic, Sequence | np.ndarray) else ()
        if len(values) < 2:
            raise InvalidInput("the statistic must be the counts of the levels")
        return tuple(Fraction(count) for count in as_counts(values, len(values), n))

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        return "the shares of the levels", prior_in_words(prior)


@dataclass(frozen=True)
class BinomialFamily(OneShare):
    """Successes in ``trials`` trials a record, of which θ is the share; Beta(a, b) prior.

    A record x adds (x, trials − x) to (a, b). It is the Beta family with steps of ``trials``: none and all
    are the worst records, by the monotone likelihood ratio, and the others are at one end.
    """

    trials: int
    name: ClassVar[str] = "binomial"
    records: ClassVar[RecordKind] = "counts"
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", as_trials(self.trials))

    @property
    def items(self) -> int:
        return self.trials

    @property
    def record_bounds(self) -> tuple[float, float]:
        return 0.0, float(self.trials)

    def contribution(self, statistic: Any, n: int) -> Natural:
        total = self.total(statistic, n)
        return total, n * self.trials - total

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        return f"the share of successes in {self.trials} trials a record", prior_in_words(prior)


def as_trials(trials: Any) -> int:
    """How many trials a record has."""
    return as_positive(trials, "trials", ": the items of one record")
