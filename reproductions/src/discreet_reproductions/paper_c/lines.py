"""The mechanisms of the Beta–Bernoulli comparison: from n records to one released draw of their mean.

* ``non-private``: a draw from the posterior Beta(a + x, b + n − x). ``direct`` is the same draw, with the ε
  that it has at order λ;
* ``diffused``: from Beta(a + r x, b + r (n − x)); ``concentrated``: from Beta(a/m + x, b/m + n − x);
* ``laplace``: x + Laplace(1/ε), purely ε-private, clipped to [0, n] and put into the posterior in place of x;
* ``gaussian``: the same with N(0, λ/(2ε)), which is (λ, ε)-Rényi private;
* beyond the paper, ``lattice``: the exact count mechanism at pure ε, decoded, then a posterior draw; and
  ``lattice-renyi``: the same with the noise that is (λ, ε)-Rényi private, no more.

A Rényi target is weaker than pure ε: ``laplace`` and ``lattice`` promise more than the others at the same ε.

In each a count z takes the place of x, with a known distribution P(z | x), so the expected log-likelihood of
n_H held-out records is exact: n_H Σ_x Bin(x) Σ_z P(z|x) [ρ ψ(a + rz) + (1 − ρ) ψ(b + r(n − z)) − ψ(a + b +
rn)].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import digamma, ndtr
from scipy.stats import binom

from discreet.mechanisms.lattice import Lattice
from discreet.posterior_sampling.sampler import PosteriorSampler, posterior_sampler
from discreet_reproductions.arrays import FloatArray, IntArray

__all__ = [
    "BASELINES",
    "BEYOND",
    "PRIVATE",
    "RELEASED",
    "FloatArray",
    "IntArray",
    "Line",
    "Settings",
    "direct_line",
    "geometric_rate",
    "geometric_renyi",
    "laplace_renyi",
    "lattice",
    "limits",
    "lines_at",
    "perturbed",
    "sampled",
    "without_data",
]


EPSILONS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
QUICK_EPSILONS = (0.01, 0.1, 1.0, 10.0)
RELEASED = ("diffused", "concentrated")
BASELINES = ("laplace", "gaussian")
BEYOND = ("lattice", "lattice-renyi")
PRIVATE = (*RELEASED, *BASELINES, *BEYOND)


@dataclass(frozen=True)
class Settings:
    """Everything that decides a figure."""

    figure: int
    prior: tuple[float, float]
    rhos: tuple[float, ...]
    n: int = 100
    held_out: int = 100
    order: float = 15.0
    epsilons: tuple[float, ...] = EPSILONS
    repetitions: int = 10_000
    seed: int = 2017

    def quick(self) -> Settings:
        return replace(self, epsilons=QUICK_EPSILONS, repetitions=500)

    @property
    def steps(self) -> int:
        return len(self.epsilons) * (1 + len(self.rhos))


@dataclass(frozen=True)
class Line:
    """A mechanism at one ε: a count z in place of x, then a draw from Beta(start + r (z, n − z))."""

    name: str
    promise: str
    renyi: float
    scale: float
    start: tuple[float, float]
    r: float
    n: int
    release: Callable[[IntArray, np.random.Generator], npt.NDArray[Any]]
    distribution: Callable[[], tuple[FloatArray, FloatArray]]
    """Values z, shape (K,), and P(z | x) for x = 0, …, n, shape (n + 1, K)."""

    def parameters(self, z: npt.NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        return self.start[0] + self.r * z, self.start[1] + self.r * (self.n - z)

    def draw(self, counts: IntArray, rng: np.random.Generator) -> FloatArray:
        """One draw for each count: **not private**, from a seeded generator."""
        return rng.beta(*self.parameters(self.release(counts, rng)))

    def expected(self, rho: float, held_out: int) -> float:
        """E log P(X_H | p) over data, held-out data and draw, exactly but for rounding (and quadrature)."""
        z, weights = self.distribution()
        a, b = self.parameters(z)
        utility = rho * digamma(a) + (1 - rho) * digamma(b) - digamma(a + b)
        return float(held_out * binom.pmf(np.arange(self.n + 1), self.n, rho) @ (weights @ utility))

    def data_weight(self) -> float:
        """The weight of the data in the mean of the released posterior."""
        return self.r * self.n / (sum(self.start) + self.r * self.n)


def sampled(sampler: PosteriorSampler, order: float, promise: str = "Rényi") -> Line:
    """Posterior sampling: the count itself, from η₀/m + r (x, n − x)."""
    n = sampler.n
    a, b = (value / sampler.m for value in sampler.prior.parameters)
    return Line(
        name=sampler.name,
        promise=promise,
        renyi=sampler.guarantee.rdp(order),
        scale=sampler.m if sampler.name == "concentrated" else sampler.r,
        start=(a, b),
        r=sampler.r,
        n=n,
        release=lambda counts, rng: counts,
        distribution=lambda: (np.arange(n + 1.0), np.eye(n + 1)),
    )


def perturbed(settings: Settings, name: str, epsilon: float) -> Line:
    """The baselines: continuous noise on the count, clipped to [0, n], put in the place of the count."""
    n, order = settings.n, settings.order
    if name == "laplace":
        scale, renyi, promise = 1 / epsilon, laplace_renyi(epsilon, order), "pure ε"
    else:
        scale, renyi, promise = math.sqrt(order / (2 * epsilon)), epsilon, "Rényi"

    def release(counts: IntArray, rng: np.random.Generator) -> FloatArray:
        noise = rng.laplace if name == "laplace" else rng.normal
        return np.clip(counts + noise(0.0, scale, len(counts)), 0, n)

    def distribution() -> tuple[FloatArray, FloatArray]:
        # Between whole numbers the density is smooth: Gauss–Legendre on each, and the clipped tails as atoms.
        nodes, weights = np.polynomial.legendre.leggauss(24)
        inside = (np.arange(n)[:, None] + (nodes + 1) / 2).ravel()
        x = np.arange(n + 1.0)
        distance = (inside - x[:, None]) / scale
        if name == "laplace":
            density = np.exp(-np.abs(distance)) / (2 * scale)
            below, above = np.exp(-x / scale) / 2, np.exp(-(n - x) / scale) / 2
        else:
            density = np.exp(-(distance**2) / 2) / (scale * math.sqrt(2 * math.pi))
            below, above = ndtr(-x / scale), ndtr((x - n) / scale)
        middle = density * np.tile(weights / 2, n)
        return np.concatenate([[0.0], inside, [n]]), np.column_stack([below, middle, above])

    return Line(name, promise, renyi, scale, settings.prior, 1.0, n, release, distribution)


def lattice(settings: Settings, name: str, epsilon: float) -> Line:
    """The exact count mechanism with decoding, at pure ε or at the rate that is (λ, ε)-Rényi private."""
    n = settings.n
    rate = epsilon if name == "lattice" else geometric_rate(epsilon, settings.order)
    mechanism = Lattice(settings.prior, n, Fraction(rate))
    counts = np.arange(n + 1)
    decoded = mechanism.decoder.decode_many(np.column_stack([counts, n - counts]))[:, 0]

    def release(x: IntArray, rng: np.random.Generator) -> IntArray:
        return np.asarray(decoded[np.clip(x + mechanism.simulate_noise(len(x), rng)[:, 0], 0, n)])

    def distribution() -> tuple[FloatArray, FloatArray]:
        # P(v) = tanh(t/2) e^{−t|v|}; the ends of [0, n] take their tails, P(v ≥ g) = e^{−tg}/(1 + e^{−t}).
        weights = math.tanh(rate / 2) * np.exp(-rate * np.abs(counts - counts[:, None]))
        weights[:, 0] = np.exp(-rate * counts) / (1 + math.exp(-rate))
        weights[:, n] = weights[::-1, 0]
        return decoded.astype(float), weights

    promise = "pure ε" if name == "lattice" else "Rényi"
    renyi = geometric_renyi(rate, settings.order)
    return Line(name, promise, renyi, rate, settings.prior, 1.0, n, release, distribution)


def laplace_renyi(rate: float, order: float) -> float:
    """D_λ of Laplace noise of scale 1/rate under a shift of 1 (Mironov 2017)."""
    rest = (order + (order - 1) * math.exp(-(2 * order - 1) * rate)) / (2 * order - 1)
    return rate + math.log(rest) / (order - 1)


def geometric_renyi(rate: float, order: float) -> float:
    """D_λ of geometric noise, q = e^{−rate}, under a shift of 1: ln[(q^{1−λ} + q^λ)/(1 + q)]/(λ − 1)."""
    rest = (1 + math.exp(-(2 * order - 1) * rate)) / (1 + math.exp(-rate))
    return rate + math.log(rest) / (order - 1)


def geometric_rate(epsilon: float, order: float) -> float:
    """The largest rate found whose D_λ is at most ε, seen to hold at the one returned."""
    rate = float(
        brentq(lambda t: geometric_renyi(t, order) - epsilon, epsilon, epsilon + math.log(2) / (order - 1))
    )
    while geometric_renyi(rate, order) > epsilon:
        rate *= 1 - 1e-12
    return rate


def lines_at(settings: Settings, epsilon: float) -> list[Line]:
    """Every private line at one ε; none of them depends on ρ."""
    samplers = [
        posterior_sampler(
            name, "beta", prior=settings.prior, n=settings.n, epsilon=epsilon, order=settings.order
        )
        for name in RELEASED
    ]
    return [
        *(sampled(sampler, settings.order) for sampler in samplers),
        *(perturbed(settings, name, epsilon) for name in BASELINES),
        *(lattice(settings, name, epsilon) for name in BEYOND),
    ]


def direct_line(settings: Settings) -> Line:
    sampler = posterior_sampler("direct", "beta", prior=settings.prior, n=settings.n)
    return sampled(sampler, settings.order, "its own Rényi curve")


def limits(settings: Settings) -> dict[str, Line]:
    """The two samplers at ε → ∞: the scalings beyond which order λ is infinite, or 1 where there are none."""
    most = min(1.0, min(settings.prior) / (settings.order - 1))
    direct = direct_line(settings)
    start = tuple(value / most for value in settings.prior)
    return {
        "diffused": replace(direct, name="diffused", r=most),
        "concentrated": replace(direct, name="concentrated", start=(start[0], start[1])),
    }


def without_data(settings: Settings, rho: float) -> dict[str, float]:
    """The two samplers at ε → 0: a draw from the prior, and the mean of the prior."""
    a, b = settings.prior
    draw = rho * digamma(a) + (1 - rho) * digamma(b) - digamma(a + b)
    mean = rho * math.log(a / (a + b)) + (1 - rho) * math.log(b / (a + b))
    return {"diffused": settings.held_out * float(draw), "concentrated": settings.held_out * mean}
