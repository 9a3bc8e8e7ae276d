"""Distributions of a published value given the true count: noise, and clamping or suppression afterwards.

Every class gives log P(z | x) for a published value z and a true count x. It is defined for all real x, and
smooth except at listed points (``breaks``), so that sums over x can be computed by Gauss rules. ``scale`` is
one number, or one for each cell: b = sensitivity/ε for Laplace noise and σ for Gaussian noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import gammaln, log_ndtr, ndtr

from discreet._numerics.summation import log_tail
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError

_HALF_LOG_2PI = 0.9189385332046728
_LEGENDRE_X, _LEGENDRE_W = np.polynomial.legendre.leggauss(12)


def log1mexp(x: FloatArray) -> FloatArray:
    """Return log(1 − e^{−x}) for x > 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x < 0.6931, np.log(-np.expm1(-x)), np.log1p(-np.exp(-x))))


@dataclass(frozen=True, eq=False)
class Noise(ABC):
    """The distribution of a published value given the true count, independent for each cell by default."""

    scale: Any
    """One positive number, or one for each cell."""

    name: ClassVar[str]
    integer: ClassVar[bool] = True
    """Whether published values are whole numbers."""
    together: ClassVar[bool] = False
    """Whether the noise of the cells is constrained to sum to zero."""
    centre: ClassVar[float] = 0.0
    """The point about which the noise is symmetric."""

    def __post_init__(self) -> None:
        try:
            scale = np.asarray(self.scale, dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError("must be a number, or one for each cell", "scale", self.scale) from None
        if scale.ndim > 1 or not np.all(np.isfinite(scale) & (scale > 0)):
            raise InvalidInputError(
                "must be positive and finite, one number or one for each cell; counts "
                "that were published without noise are not a private release",
                "scale",
                self.scale,
            )
        object.__setattr__(self, "scale", scale)

    def scales(self, cells: int) -> FloatArray:
        """Return the scale of the noise of each cell."""
        if self.scale.ndim and len(self.scale) != cells:
            raise InvalidInputError(f"scale has {len(self.scale)} entries for {cells} cells")
        return np.broadcast_to(self.scale, (cells,))

    @abstractmethod
    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        """Return log P(z | x), or the log-density of a continuous z; concave in x."""

    def log_pmf(self, v: FloatArray) -> FloatArray:
        """Return log P(v) of the noise itself, which is the published value of a count of 0."""
        return self.log_prob(np.asarray(v, dtype=np.float64), np.zeros(1), self.scale)

    def relative(self, z: FloatArray, x: FloatArray, at: FloatArray, scale: FloatArray) -> FloatArray:
        """Return log(P(z | x)/P(z | at)), accurate even where P is tiny."""
        return self.log_prob(z, x, scale) - self.log_prob(z, at, scale)

    def breaks(self, z: FloatArray) -> list[FloatArray]:
        """Return arrays of whole numbers b such that log P is smooth in x on each side of b − ½."""
        return []

    def peak(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        """Return a whole number x near the maximum of log P(z | x)."""
        return np.floor(z)

    def reach(self, scale: FloatArray, nats: float) -> FloatArray:
        """Return a distance |x − z| beyond which log P(z | x) is at least ``nats`` below its maximum."""
        return np.ceil(nats * scale) + 1

    @property
    @abstractmethod
    def variance(self) -> Any:
        """The variance of the noise of each cell, before any clamping."""

    def log_normaliser(self, cells: int) -> float:
        """Return the log of the constant that normalises the joint noise of ``cells`` cells.

        It is 0 if the cells are independent.
        """
        return 0.0

    @abstractmethod
    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw published values given true counts, for predictive checks; never use this for a release."""

    def _shape(self, x: FloatArray | IntArray) -> tuple[int, ...]:
        return np.broadcast_shapes(x.shape, self.scale.shape)

    def over(self, shape: tuple[int, ...]) -> Self:
        """Return this noise for cells of an array of this shape, flattened to one axis."""
        if self.scale.ndim == 0 or len(shape) == 1:
            return self
        return replace(self, scale=np.broadcast_to(self.scale, shape).ravel())

    def check(self, z: FloatArray) -> None:
        """Raise an error if this noise cannot have produced the values ``z``."""
        if self.integer and np.any(z != np.floor(z)):
            raise InvalidInputError(
                f"values contains fractions, but {self.name} noise on counts gives whole numbers; "
                "name the noise that was used (noise=('laplace', …) or ('gaussian', …)), or undo the "
                "scaling of the values"
            )


class _Kinked(Noise):
    @property
    def variance(self) -> Any:
        return 2 * self.scale**2

    def relative(self, z: FloatArray, x: FloatArray, at: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray((np.abs(z - at) - np.abs(z - x)) / scale)

    def breaks(self, z: FloatArray) -> list[FloatArray]:
        return [np.floor(z) + 1]


class DiscreteLaplace(_Kinked):
    """Two-sided geometric noise, P(v) = tanh(1/2b)·e^{−|v|/b}. ``scale`` is b = sensitivity/ε."""

    name: ClassVar[str] = "discrete-laplace"

    @property
    def variance(self) -> Any:
        return 2 * np.exp(-1 / self.scale) / np.expm1(-1 / self.scale) ** 2

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(log1mexp(1 / scale) - np.log1p(np.exp(-1 / scale)) - np.abs(z - x) / scale)

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        """Return log P(noise ≤ v), by formulas for v ≥ 0 and v < 0 that are also smooth between integers."""
        tail = -np.log1p(np.exp(-1 / scale))
        below = v / scale + tail
        above = np.log1p(-np.exp(-(np.maximum(v, -0.5) + 1) / scale + tail))
        return np.asarray(np.where(v >= 0, above, below))

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        stop, shape = -np.expm1(-1 / self.scale), self._shape(x)
        return np.asarray(x + rng.geometric(stop, shape) - rng.geometric(stop, shape))


class LatticeNoise(_Kinked):
    """Discrete Laplace noise of scale b = 2/ε on every cell, conditioned to sum to zero over the cells."""

    name: ClassVar[str] = "lattice"
    together: ClassVar[bool] = True

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(-np.abs(z - x) / scale)

    def log_normaliser(self, cells: int) -> float:
        """Return log Σ_v e^{−‖v‖₁/b} over all v with Σv = 0.

        This is the constant of independent cells, times the probability that these sum to 0.
        """
        rate = max(0.5 / float(self.scale), 1e-300)
        return -cells * math.log(math.tanh(rate)) + log_chance_of_zero(rate, cells)

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw x + A − B, where A and B are vectors of geometric variables conditioned on equal sums.

        A is accepted with probability p(ΣA)/max p, where p(m) ∝ C(m+k−1, k−1)·e^{−m/b} is the distribution of
        ΣA. B is then a uniform composition of ΣA."""
        k, rows = x.shape[-1], int(np.prod(x.shape[:-1]))
        rate = max(1 / float(self.scale), 1e-17 * k)  # beyond, sums leave 64 bits
        mode = max(0, math.ceil((k * math.exp(-rate) - 1) / -math.expm1(-rate)))
        noise = np.empty((0, k), dtype=np.int64)
        while len(noise) < rows:
            free = np.floor(rng.standard_exponential((2 * (rows - len(noise)) + 8, k)) / rate)
            sums = np.append(free.sum(axis=1), mode)
            log_p = gammaln(sums + k) - gammaln(sums + 1) - rate * sums
            accepted = rng.standard_exponential(len(free)) >= log_p[-1] - log_p[:-1]
            noise = np.concatenate([noise, free[accepted].astype(np.int64)])[:rows]
        composition = rng.multinomial(noise.sum(axis=1), rng.dirichlet(np.ones(k), rows))
        return np.asarray(x + (noise - composition).reshape(x.shape))


class Laplace(_Kinked):
    """Continuous Laplace noise, density e^{−|v|/b}/2b. ``scale`` is b."""

    name: ClassVar[str] = "laplace"
    integer: ClassVar[bool] = False

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(-np.abs(z - x) / scale - np.log(2 * scale))

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        above = np.log1p(-0.5 * np.exp(-np.maximum(v, 0.0) / scale))
        return np.asarray(np.where(v >= 0, above, v / scale - math.log(2)))

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.asarray(x + rng.laplace(0.0, self.scale, self._shape(x)))


class FloorLaplace(Laplace):
    """The floor ⌊Y⌋ of Laplace noise Y of scale b, which is G or −1 − G with equal probability.

    G is geometric, with P(G = g) = (1 − e^{−1/b})e^{−g/b}.
    """

    name: ClassVar[str] = "floor-laplace"
    integer: ClassVar[bool] = True
    centre: ClassVar[float] = -0.5

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        v = z - x
        return np.asarray(log1mexp(1 / scale) - math.log(2) - np.where(v >= 0, v, -1 - v) / scale)

    def relative(self, z: FloatArray, x: FloatArray, at: FloatArray, scale: FloatArray) -> FloatArray:
        return super().relative(z + 0.5, x, at, scale)

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        """Return log P(⌊Y⌋ ≤ v) = log P(Y < v + 1)."""
        return super().log_cdf(v + 1, scale)

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.floor(super().draw(x, rng))


class RoundedLaplace(Laplace):
    """Laplace noise rounded to whole numbers: P(0) = 1 − e^{−1/2b}, P(v) = sinh(1/2b)·e^{−|v|/b}."""

    name: ClassVar[str] = "rounded-laplace"
    integer: ClassVar[bool] = True
    relative = Noise.relative

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        half = 0.5 / scale
        beside = half + log1mexp(2 * half) - math.log(2) - np.abs(z - x) / scale
        return np.asarray(np.where(z == x, log1mexp(half), beside))

    def breaks(self, z: FloatArray) -> list[FloatArray]:
        return [z, z + 1]

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        return super().log_cdf(v + 0.5, scale)

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.rint(super().draw(x, rng))


class _Bell(Noise):
    @property
    def variance(self) -> Any:
        return self.scale**2

    def relative(self, z: FloatArray, x: FloatArray, at: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray((x - at) * (2 * z - x - at) / (2 * scale**2))

    def reach(self, scale: FloatArray, nats: float) -> FloatArray:
        return np.ceil(math.sqrt(2 * nats) * scale) + 1


class GaussianNoise(_Bell):
    """Continuous Gaussian noise. ``scale`` is the standard deviation."""

    name: ClassVar[str] = "gaussian"
    integer: ClassVar[bool] = False

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * ((z - x) / scale) ** 2 - np.log(scale) - _HALF_LOG_2PI)

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(log_ndtr(v / scale))

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.asarray(x + rng.normal(0.0, self.scale, self._shape(x)))


class DiscreteGaussian(_Bell):
    """Discrete Gaussian noise, P(v) ∝ e^{−v²/2σ²} on whole numbers.

    ``scale`` is σ, which for σ above 1 is nearly the standard deviation.
    """

    name: ClassVar[str] = "discrete-gaussian"

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * ((z - x) / scale) ** 2 - log_theta(scale))

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        tail = log_tail(lambda u: -0.5 * (u / scale[..., None]) ** 2, np.where(v < 0, -v, v + 1))
        tail = np.minimum(tail - log_theta(scale), -1e-300)
        return np.asarray(np.where(v < 0, tail, log1mexp(-tail)))

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw values by rejection from two-sided geometric noise (Canonne, Kamath and Steinke 2020)."""
        shape = self._shape(x)
        sigma = np.broadcast_to(self.scale, shape).ravel()
        t, noise = np.floor(sigma) + 1, np.full(sigma.size, np.nan)
        while (left := np.flatnonzero(np.isnan(noise))).size:
            v = DiscreteLaplace(t[left]).draw(np.zeros(left.size), rng)
            gap = (np.abs(v) - sigma[left] ** 2 / t[left]) / sigma[left]
            keep = rng.random(left.size) < np.exp(-0.5 * gap**2)
            noise[left[keep]] = v[keep]
        return np.asarray(x + noise.reshape(shape))


class RoundedGaussian(GaussianNoise):
    """Gaussian noise rounded to whole numbers, P(v) = Φ((v+½)/σ) − Φ((v−½)/σ). ``scale`` is σ."""

    name: ClassVar[str] = "rounded-gaussian"
    integer: ClassVar[bool] = True
    relative = Noise.relative

    @property
    def variance(self) -> Any:
        return self.scale**2 + 1 / 12

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        v, scale = np.broadcast_arrays(np.abs(z - x), scale)
        slope = v / scale**2
        smooth = (slope <= 1) & (scale >= 1)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            near, far = log_ndtr((0.5 - v) / scale), log_ndtr((-0.5 - v) / scale)
            result = near + log1mexp(np.maximum(near - far, 0.0))
        few = (v < 0.5) & ~smooth
        if np.any(few):
            result[few] = np.log(ndtr((v[few] + 0.5) / scale[few]) - ndtr((v[few] - 0.5) / scale[few]))
            centre = few & (v == 0)
            result[centre] = np.log1p(-2 * ndtr(-0.5 / scale[centre]))
        if np.any(smooth):
            u, s, c, t = v[smooth], scale[smooth], slope[smooth][:, None], 0.5 * _LEGENDRE_X
            inner = (0.5 * _LEGENDRE_W * np.exp(-c * t - 0.5 * (t / s[:, None]) ** 2)).sum(axis=1)
            result[smooth] = np.log(inner) - 0.5 * (u / s) ** 2 - np.log(s) - _HALF_LOG_2PI
        return np.asarray(result)

    def log_cdf(self, v: FloatArray, scale: FloatArray) -> FloatArray:
        return super().log_cdf(v + 0.5, scale)

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.rint(super().draw(x, rng))


def log_chance_of_zero(rate: float, k: int) -> float:
    """Return log P(Σv = 0) for k independent two-sided geometric variables v.

    Their distribution is P(v) ∝ q^|v| with q = e^{−2·rate}.

    By Fourier inversion, P = (1/π)∫₀^π (1 + s·sin²(θ/2))^{−k} dθ with s = 4q/(1−q)². The substitution tan φ =
    √(1+s)·tan(θ/2) gives T·(2/π)∫₀^{π/2} (cos²φ + T² sin²φ)^{k−1} dφ with T = (1−q)/(1+q) = tanh(rate). The
    integrand is a polynomial of degree k − 1 in cos 2φ, so the mean over k equally spaced points is exact.
    """
    t = math.tanh(max(rate, 1e-300))
    phi = (np.arange(k) + 0.5) * (math.pi / 2 / k)
    log_terms = (k - 1) * np.log(np.cos(phi) ** 2 + t * t * np.sin(phi) ** 2)
    peak = float(log_terms.max())
    return math.log(t) + peak + math.log(float(np.exp(log_terms - peak).mean()))


def log_theta(scale: FloatArray) -> FloatArray:
    """Return log Σ_v e^{−v²/2σ²} over whole numbers, by the sum or by its Fourier dual."""
    steps = np.arange(1, 12).reshape((-1,) + (1,) * scale.ndim)
    small, large = np.minimum(scale, 1.0), np.maximum(scale, 0.5)
    direct = np.log1p(2 * np.exp(-0.5 * (steps / small) ** 2).sum(axis=0))
    dual = np.log1p(2 * np.exp(-2 * (math.pi * large * steps) ** 2).sum(axis=0))
    return np.asarray(np.where(scale < 1, direct, dual + np.log(large) + _HALF_LOG_2PI))


@dataclass(frozen=True, eq=False)
class _Wrapped(Noise):
    """The base of noises that modify another noise."""

    scale: Any = field(init=False)
    noise: Noise

    @property
    def integer(self) -> bool:  # type: ignore[override]
        return self.noise.integer

    @property
    def variance(self) -> Any:
        return self.noise.variance

    def breaks(self, z: FloatArray) -> list[FloatArray]:
        return self.noise.breaks(z)

    def reach(self, scale: FloatArray, nats: float) -> FloatArray:
        return self.noise.reach(scale, nats)


@dataclass(frozen=True, eq=False)
class Clamped(_Wrapped):
    """Noise on counts whose noisy values were then clamped to [``lower``, ``upper``].

    This also describes suppression: a value that was withheld because it fell below t is treated as clamped
    to ``lower`` = t − 1.
    """

    lower: float = 0.0
    upper: float = math.inf
    name: ClassVar[str] = "clamped"

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", self.noise.scale)
        if not hasattr(self.noise, "log_cdf"):
            raise InvalidInputError(
                f"{self.noise.name} noise cannot be clamped: its cells are not independent"
            )
        if not self.lower < self.upper:
            raise InvalidInputError(f"must be below upper={self.upper!r}", "lower", self.lower)

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        z, x, scale = np.broadcast_arrays(z, x, scale)
        result = self.noise.log_prob(z, x, scale)
        # P(noise ≥ v) = P(noise ≤ 2·centre − v).
        above = x - self.upper + 2 * self.noise.centre
        for ends, beyond in ((z <= self.lower, self.lower - x), (z >= self.upper, above)):
            if np.any(ends):
                result = np.array(result)
                result[ends] = self.noise.log_cdf(beyond[ends], scale[ends])  # type: ignore[attr-defined]
        return np.asarray(result)

    def breaks(self, z: FloatArray) -> list[FloatArray]:
        z = np.minimum(np.maximum(z, self.lower), self.upper)
        return [np.floor(z), np.floor(z) + 1]

    def peak(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        inner = self.noise.peak(np.clip(z, self.lower, self.upper), scale)
        inner = np.where(z <= self.lower, np.floor(self.lower - 50 * scale), inner)
        return np.asarray(np.where(z >= self.upper, np.ceil(self.upper + 50 * scale), inner))

    def check(self, z: FloatArray) -> None:
        self.noise.check(z)
        if np.any((z < self.lower) | (z > self.upper)):
            raise InvalidInputError(
                f"values must lie in [{self.lower:g}, {self.upper:g}], where they were clamped"
            )

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.clip(self.noise.draw(x, rng), self.lower, self.upper)

    def over(self, shape: tuple[int, ...]) -> Clamped:
        return Clamped(self.noise.over(shape), self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class PartiallyPublished(_Wrapped):
    """Noise on some cells only: ``published`` marks the cells that have a published value."""

    published: Any
    name: ClassVar[str] = "partly published"

    def __post_init__(self) -> None:
        if self.noise.together:
            raise InvalidInputError(f"{self.noise.name} noise must be published for all cells or for none")
        shown = np.asarray(self.published, dtype=bool)
        object.__setattr__(self, "published", shown)
        # NaN marks a cell of which nothing is said.
        object.__setattr__(self, "scale", np.where(shown, self.noise.scales(len(shown)), np.nan))

    def log_prob(self, z: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
        log_density = self.noise.log_prob(z, x, np.where(np.isnan(scale), 1.0, scale))
        return np.asarray(np.where(np.isnan(scale), 0.0, log_density))

    def relative(self, z: FloatArray, x: FloatArray, at: FloatArray, scale: FloatArray) -> FloatArray:
        ratio = self.noise.relative(z, x, at, np.where(np.isnan(scale), 1.0, scale))
        return np.asarray(np.where(np.isnan(scale), 0.0, ratio))

    def peak(self, z: FloatArray, scale: FloatArray) -> FloatArray:
        return self.noise.peak(z, np.where(np.isnan(scale), 1.0, scale))

    def reach(self, scale: FloatArray, nats: float) -> FloatArray:
        return self.noise.reach(np.where(np.isnan(scale), np.inf, scale), nats)

    def check(self, z: FloatArray) -> None:
        self.noise.check(z[..., self.published])

    def draw(self, x: FloatArray | IntArray, rng: np.random.Generator) -> FloatArray:
        return np.where(self.published, self.noise.draw(x, rng), 0.0)
