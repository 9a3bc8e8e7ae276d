"""What a private posterior draw says about the parameter, with the randomness of the draw accounted for.

Posterior sampling publishes y₁, …, y_J, drawn from the family's law with coordinates η₀/m + r·s, where s is
the statistic of the records. A draw is no estimate with an interval. What is known of θ after it is

    p(θ | y) = ∫ π(s | y) p(θ | s) ds,    π(s | y) ∝ p(s) Π_j q(y_j | η₀/m + r·s),

with p(s) the prior predictive law of the statistic and p(θ | s) the conjugate posterior of η₀ + s. A Gaussian
mean has it in closed form; for shares π is separable over the levels; for rates s is one number. The
likelihood is that of the records as they were summed, after they were clipped to the declared bounds.
Numbers in [0, 1] are taken for a yes or no each, which is the widest spread that such numbers can have.
Derivation: ``proofs/posterior-sampling.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.distributions.mixtures import GammaMixture
from discreet.distributions.noise_aware import Enumerated, NoiseAware
from discreet.distributions.normal import Normal
from discreet.errors import InvalidInput, TooLargeError
from discreet.numerics.count_vectors import Separable
from discreet.numerics.log_gamma import log_rising
from discreet.posterior_sampling.families.categorical import BetaFamily, DirichletFamily
from discreet.posterior_sampling.families.means import GaussianMean, GaussianVector
from discreet.posterior_sampling.families.rates import Exponential, Poisson
from discreet.posterior_sampling.family import Family

MAX_SHARES_N = 1_000_000
_DEPTH = 45.0
"""Statistics whose weight is below e^−45 of the largest are left out."""
_LISTED, _SCANNED, _NODES = 2_000, 4_000, 2_000


def given_draws(family: Family, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> Any:
    """The posterior of θ: NoiseAware for shares, a Normal (one each for a vector), or a mixture of Gammas."""
    if isinstance(family, GaussianMean):
        return _mean(prior, n, r, m, family.sigma, draws.reshape(-1))
    if isinstance(family, GaussianVector):
        axes = zip(prior, draws.T, strict=True)
        return tuple(_mean(own, n, r, m, family.sigma, values) for own, values in axes)
    if isinstance(family, BetaFamily):
        share = draws.reshape(-1)
        return _shares(prior.parameters, n, r, m, np.stack([share, 1 - share], axis=1))
    if isinstance(family, DirichletFamily):
        return _shares(prior.parameters, n, r, m, draws)
    if isinstance(family, Poisson | Exponential):
        return _rate(family, prior, n, r, m, draws.reshape(-1))
    raise InvalidInput(f"no posterior given draws is known for the family {family.name!r}")


def _mean(prior: Normal, n: int, r: float, m: float, sigma: float, draws: FloatArray) -> Normal:
    """The mean of the draws is normal around a + b·θ, so the posterior is conjugate."""
    own = prior.scale**-2.0
    precision = own / m + r * n / sigma**2
    a, b = own * prior.loc / m / precision, r * n / sigma**2 / precision
    variance = 1 / (len(draws) * precision) + b**2 * sigma**2 / n
    total = own + b**2 / variance
    centre = prior.loc * own + b * (float(draws.mean()) - a) / variance
    return Normal(centre / total, 1 / math.sqrt(total))


def _shares(prior: tuple[float, ...], n: int, r: float, m: float, draws: FloatArray) -> NoiseAware:
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


def _rate(family: Family, prior: Any, n: int, r: float, m: float, draws: FloatArray) -> GammaMixture:
    from scipy.special import gammaln

    shape, rate, number = prior.shape, prior.rate, len(draws)
    low, high = (n * float(bound) for bound in family.bounds)  # type: ignore[attr-defined]
    if isinstance(family, Poisson):
        log_y = float(np.log(draws).sum()) + number * math.log(rate / m + r * n)
        falling = math.log1p(rate / n)

        def of_counts(s: FloatArray) -> FloatArray:
            drawn = r * s * log_y - number * gammaln(shape / m + r * s)
            return np.asarray(log_rising(shape, s) - s * falling + drawn, dtype=np.float64)

        s, weight = _weighed(of_counts, low, high, whole=True)
        return GammaMixture(weight, shape + s, np.full(len(s), rate + n))

    total = r * float(draws.sum())

    def of_times(s: FloatArray) -> FloatArray:
        # Differences to s·(…) cancel for many records, so s^{n−1}/(b+s)^{a+n} is written in b/s.
        predictive = -(shape + n) * np.log1p(rate / s) - (shape + 1) * np.log(s)
        drawn = number * (shape / m + r * n) * np.log(rate / m + r * s) - s * total
        return np.asarray(predictive + drawn, dtype=np.float64)

    s, weight = _weighed(of_times, low, high, whole=False)
    return GammaMixture(weight, np.full(len(s), shape + n), rate + s)


def _weighed(
    log_weight: Callable[[FloatArray], FloatArray], low: float, high: float, *, whole: bool
) -> tuple[FloatArray, FloatArray]:
    """Statistics between the ends with their probabilities: all whole ones if few, else those of a rule.

    The range that matters is found from ends inwards, in steps that are fine near both ends; then a midpoint
    rule, in an angle so that a weight like (s − low)^−½ at an end is smooth.
    """
    for _ in range(60):
        if whole and high - low <= _LISTED:
            nodes = np.arange(math.ceil(low), math.floor(high) + 1, dtype=np.float64)
            return nodes, _normalised(log_weight(nodes))
        steps = np.geomspace(1e-15, 0.5, _SCANNED)
        scanned = low + (high - low) * np.concatenate([steps, 1 - steps[-2::-1]])
        scanned = scanned[(scanned > low) & (scanned < high)]
        values = log_weight(scanned)
        kept = np.flatnonzero(values > values.max() - _DEPTH)
        first, last = kept[0] - 1, kept[-1] + 1
        inner = low if first < 0 else float(scanned[first])
        outer = high if last >= len(scanned) else float(scanned[last])
        if outer - inner > 0.5 * (high - low) and len(kept) > 100:
            break
        if (inner, outer) == (low, high):
            break
        low, high = (float(math.floor(inner)), float(math.ceil(outer))) if whole else (inner, outer)
    listed = np.zeros(0)
    if whole:  # near an end a sum of weights like s^(a − 1), a < 1, is no integral
        listed = np.arange(math.ceil(low), math.ceil(low) + _LISTED, dtype=np.float64)
        low, high = float(listed[-1]) + 0.5, math.floor(high) + 0.5
    angle = (np.arange(_NODES) + 0.5) * (math.pi / 2 / _NODES)
    nodes = low + (high - low) * np.sin(angle) ** 2
    step = np.log((high - low) * math.pi / 2 / _NODES * np.sin(2 * angle))
    every = np.concatenate([listed, nodes])
    return every, _normalised(log_weight(every) + np.concatenate([np.zeros(len(listed)), step]))


def _normalised(log_weights: FloatArray) -> FloatArray:
    weight = np.exp(log_weights - log_weights.max())
    return np.asarray(weight / weight.sum(), dtype=np.float64)
