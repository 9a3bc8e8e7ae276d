"""Posteriors that account for the noise: p(θ | released) = Σ_x π(x | released) Dir(θ | α + x).

π(x | released) ∝ DirMult(x; α, n) · P(released | x) is the exact posterior of the true counts. For lattice
noise and for noise that is independent between levels, π is a product of functions of single counts, and its
marginals come from convolutions; otherwise all x are enumerated. There is no sampling and no normal
approximation. The plug-in posterior Dir(α + released) treats the released counts as exact, and its intervals
are too narrow.

Two further unknowns may be integrated out: the parameter of a symmetric prior, and the number of records that
were left out, of which only a noisy count is published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, cached_property

import numpy as np

from discreet._inference._likelihoods.kinds import check_private
from discreet._inference.add_remove import AddRemovePosterior, LogUniform, integrate
from discreet._numerics.cells import GivenTotal
from discreet._numerics.noises import DiscreteLaplace, Noise
from discreet.distributions.base import RecordNumber
from discreet.distributions.noise_aware import Node, NoiseAware, TrueCounts, UncertainShares
from discreet.errors import TooLargeError
from discreet.mechanisms.base import Mechanism

_FARTHEST = 80.0  # noise so many scales off, times the root of how many counts, has odds below e^{−40}
_NEGLIGIBLE_NATS = 16.0  # numbers of records this far below the likeliest are left out: e^{−16} = 1e-7


def noise_aware(
    mechanism: Mechanism,
    counts: Sequence[int],
    noisy: Sequence[int] | None,
    total_prior: LogUniform | None = None,
    strength: LogUniform | None = None,
    leaves_out: bool = False,
) -> UncertainShares:
    """Return the posterior of the shares given a release.

    A release consists of ``counts`` and, if the mechanism publishes them, the ``noisy`` counts. If n is
    private it is inferred too, under ``total_prior`` or by default a prior that suits the noise. With
    ``strength``, the mechanism's prior is replaced by a symmetric one whose parameter is unknown in that
    range. With ``leaves_out`` the last count is the number of records left out; shares are of the others.
    """
    check_private(mechanism)
    noisy_counts = None if noisy is None else tuple(noisy)
    carried = mechanism.count_noise(tuple(counts), noisy_counts)
    if not mechanism.n and carried is not None:
        prior = mechanism.prior if strength is None else strength
        return AddRemovePosterior(carried.values, prior, noise=carried.noise, total_prior=total_prior)
    if leaves_out and carried is not None:
        noise = DiscreteLaplace(carried.noise.scale) if carried.noise.together else carried.noise
        values = np.asarray(carried.values, dtype=np.float64)
        if abs(float(values.sum()) - mechanism.n) > _FARTHEST * math.sqrt(len(values)) * float(noise.scale):
            raise TooLargeError(f"the noisy counts are practically impossible for n={mechanism.n} records")
        respondents = GivenTotal(carried.values[:-1], noise, mechanism.prior[:-1], mechanism.n)
        distribution: TrueCounts | Respondents = Respondents(respondents, noise, carried.values[-1])
    else:
        distribution = mechanism.true_counts(tuple(counts), noisy_counts)
    if strength is not None and isinstance(distribution, GivenTotal | Respondents):
        return MixedShares(_over(strength, distribution), mechanism.n)
    if isinstance(distribution, Respondents):
        return MixedShares(distribution.nodes, mechanism.n)
    return NoiseAware(mechanism.prior, mechanism.n, distribution)


class Respondents:
    """The posterior of true counts whose sum N ≤ n is unknown: n − N of the n records were left out.

    z₀ is the noisy count of the records left out. The prior of N is uniform, so P(N | z) ∝ P(noise = z₀ −
    (n − N)) · P(z | N). Given N the total is known (``proofs/noise-aware.md``).
    """

    def __init__(self, distribution: GivenTotal, noise: Noise, left_out: int) -> None:
        self.distribution, self.noise, self.left_out = distribution, noise, left_out
        self.inverse = distribution.inverse

    def under(self, prior: Sequence[float]) -> Respondents:
        """Return the same release under another prior."""
        return Respondents(self.distribution.under(prior), self.noise, self.left_out)

    @cached_property
    def scores(self) -> list[tuple[float, GivenTotal]]:
        """Pairs of log P(z | N), up to a constant, and the true counts given N, for equally spaced N.

        Negligible N are left out.
        """
        n, scale = self.distribution.n, self.noise.scale
        step = max(1, min(int(float(scale) / 2), n // 24))
        middle = min(max(n - self.left_out, 0), n)
        scored: list[tuple[float, GivenTotal]] = []
        for numbers in (range(middle, -1, -step), range(middle + step, n + 1, step)):
            best = max((score for score, _ in scored), default=-math.inf)
            for number in numbers:
                distribution = self.distribution.with_total(number)
                away = self.noise.log_prob(
                    *(np.array([float(v)]) for v in (self.left_out, n - number, scale))
                )
                scored.append(
                    (distribution.log_evidence + math.lgamma(number + 1) + float(away[0]), distribution)
                )
                best = max(best, scored[-1][0])
                if scored[-1][0] < best - _NEGLIGIBLE_NATS:  # log-concave: what lies beyond is less
                    break
        return scored

    @property
    def log_evidence(self) -> float:
        """log P(z), up to a constant that does not depend on the prior."""
        return float(np.logaddexp.reduce([score for score, _ in self.scores]))

    @property
    def nodes(self) -> list[tuple[float, GivenTotal]]:
        """Pairs of P(N | z) and the distribution of the true counts given N, for all non-negligible N."""
        whole = self.log_evidence
        return [(math.exp(score - whole), distribution) for score, distribution in self.scores]


def _over(strength: LogUniform, distribution: GivenTotal | Respondents) -> list[tuple[float, GivenTotal]]:
    """Return pairs (weight, distribution of the true counts), one for each value of the prior parameter."""

    @cache
    def _distribution_at(at: float) -> GivenTotal | Respondents:
        return distribution.under([math.exp(at)] * len(distribution.inverse))

    low, high = math.log(strength.low), math.log(strength.high)
    nodes, _ = integrate(lambda at: _distribution_at(at).log_evidence, low, high)
    return [(weight * share, part) for at, weight in nodes for share, part in _distribution_at(at).nodes]


class MixedShares(NoiseAware):
    """The posterior of shares when a second number is unknown, besides the true counts.

    This is the parameter of a symmetric prior, with a log-uniform prior, or the number of records that were
    not left out, whose posterior is ``total``.
    """

    def __init__(self, nodes: Sequence[tuple[float, GivenTotal]], n: int) -> None:
        self.n: int = n
        self.nodes = [
            Node(weight, distribution.prior[distribution.inverse], distribution.n, distribution)
            for weight, distribution in nodes
            if weight > 1e-9
        ]
        self.k = len(self.nodes[0].prior)

    @property
    def total(self) -> RecordNumber:
        """The posterior of the number of records not left out; its log-density is interpolated linearly."""
        weights: dict[int, float] = {}
        for node in self.nodes:
            weights[node.n] = weights.get(node.n, 0.0) + node.weight
        steps = np.array(sorted(weights))
        logs = np.log(np.maximum([weights[step] for step in steps.tolist()], 1e-300))
        totals = np.arange(float(steps[0]), float(steps[-1]) + 1)
        return RecordNumber(totals, np.exp(np.interp(totals, steps, logs)))
