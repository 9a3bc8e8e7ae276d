"""Independent noise on every count: geometric, rounded Gaussian, and floors of Laplace variables.

Where no total is kept the number of records may itself be private (the relation add-remove, where a dataset
may be empty). Geometric and Gaussian noisy counts are published as they are; the released counts are those,
clipped to the possible range. Proofs: ``proofs/geometric.md``, ``gaussian.md``, ``lszhang.md``, ``lsdim.md``,
``lshist.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from discreet._declarations import Relation, as_epsilon, as_size
from discreet._randomness.bulk import two_sided_geometric
from discreet._randomness.entropy import Source
from discreet._randomness.integers import floor_laplace
from discreet._typing import FloatArray, IntArray
from discreet.distributions.noise_aware import TrueCounts
from discreet.errors import InvalidInputError
from discreet.mechanisms._outputs import CountNoise, PublishedLoss
from discreet.mechanisms.base import Mechanism
from discreet.privacy.curves import Gaussian, largest_gaussian
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet._numerics.noises import Noise

_TAIL_NATS = 36.0  # what lies beyond this many nats is below e^{−36} < 3e-16, and is counted with the end


@dataclass(frozen=True)
class IndependentNoise(Mechanism):
    """Counts plus independent noise; the released counts are clipped at 0, and at n where it is public."""

    keeps_noisy: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True
    exchangeable: ClassVar[bool] = True
    last_is_rest: ClassVar[bool] = False
    """Whether no noise is added to the last count, which is released as n minus the others."""

    @property
    def relation(self) -> Relation:
        """The relation between neighbouring datasets: replace-one if n is public, otherwise add-remove."""
        return Relation.REPLACE_ONE if self.n else Relation.ADD_REMOVE

    @property
    @abstractmethod
    def noise(self) -> Noise:
        """The distribution of the noise, in floating point, for inference and plans."""

    @abstractmethod
    def _noise(self, source: Source) -> list[int]:
        """Draw the noise of every count that receives some, exactly."""

    @property
    def noisy_coordinates(self) -> int:
        """The number of counts to which noise is added; they come first."""
        return self.k - 1 if self.last_is_rest else self.k

    @property
    def reach(self) -> int:
        """A bound that the noise exceeds with probability below 1e-15."""
        return int(self.noise.reach(self.noise.scale, _TAIL_NATS))

    @property
    def number_of_outputs(self) -> int:
        return int((self.n + 1) ** self.noisy_coordinates) if self.n else 0

    def _noisy(self, counts: tuple[int, ...], source: Source) -> tuple[int, ...]:
        return tuple(map(add, counts, self._noise(source)))

    def decode(self, noisy: tuple[int, ...]) -> tuple[int, ...]:
        """Clip noisy counts to the possible range.

        Parameters
        ----------
        noisy
            Noisy counts.

        Returns
        -------
        tuple of int
            Released counts.

        Examples
        --------
        >>> Geometric(prior=(1, 1, 1), epsilon=1).decode((5, -2, 3))
        (5, 0, 3)
        >>> LSZhang(prior=(1, 1, 1), n=4, epsilon=1).decode((5, -2, 3))
        (4, 0, 3)
        """
        top = self.n or max(0, *noisy)
        released = [min(max(z, 0), top) for z in noisy]
        return (*released, max(self.n - sum(released), 0)) if self.last_is_rest else tuple(released)

    def _with_last(self, released: IntArray) -> IntArray:
        if not self.last_is_rest:
            return released
        rest = np.maximum(self.n - released.sum(axis=1, keepdims=True), 0)
        return np.concatenate([released, rest], axis=1)

    def log_pmf(self, counts: Iterable[Any], upper: int | None = None) -> tuple[IntArray, FloatArray]:
        """Return the exact distribution of ``draw(counts)``.

        Parameters
        ----------
        counts
            The true counts, one for each level.
        upper
            Larger released counts are set to this value; by default n if it is public, otherwise the reach of
            the noise.

        Returns
        -------
        outputs : IntArray
            All possible outputs, shape (R, k).
        log_probability : FloatArray
            Their log-probabilities, shape (R,).

        Examples
        --------
        >>> outputs, log_probability = LSHist(prior=(1, 1), n=1, epsilon=1).log_pmf((0, 1))
        >>> outputs.tolist(), np.exp(log_probability).round(4).tolist()
        ([[0, 1], [1, 0]], [0.8161, 0.1839])
        """
        noisy, exact = self.noisy_coordinates, self._as_counts(counts)
        top = upper if upper is not None else self.n or max(exact) + self.reach
        self._check_outputs((top + 1) ** noisy)
        columns = [self.clipped_distribution(count, top) for count in exact[:noisy]]
        grid = np.indices((top + 1,) * noisy).reshape(noisy, -1)
        logs = sum(axis.ravel() for axis in np.meshgrid(*columns, indexing="ij"))
        return self._with_last(grid.T), np.asarray(logs, dtype=np.float64)

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        return self.log_pmf(counts)

    def clipped_distribution(self, count: int, upper: int) -> FloatArray:
        """Return the log-distribution of one noisy count clipped to {0, …, upper}.

        Parameters
        ----------
        count
            The true count.
        upper
            The upper end.

        Returns
        -------
        FloatArray
            Log-probabilities; each end includes the tail beyond it.

        Examples
        --------
        >>> np.exp(Geometric(prior=(1, 1), epsilon=1).clipped_distribution(1, 2)).round(4).tolist()
        [0.2689, 0.4621, 0.2689]
        """
        from discreet._numerics.noises import Clamped

        distribution = Clamped(self.noise, 0, upper)
        return distribution.log_prob(
            np.arange(upper + 1.0), np.array(float(count)), np.array(self.noise_scale)
        )

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        true = np.array(counts[: self.noisy_coordinates], dtype=np.int64)
        noisy = self.noise.draw(np.broadcast_to(true, (size, len(true))), rng)
        return self._with_last(np.clip(noisy, 0, self.n or None).astype(np.int64))

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        """Return the noisy counts in a release with the distribution of their noise.

        Parameters
        ----------
        counts
            Released counts.
        noisy
            Noisy counts, where they were published.

        Returns
        -------
        CountNoise or None
            None where noisy counts are published and not given.
        """
        from discreet._numerics.noises import Clamped, PartiallyPublished

        if self.keeps_noisy:
            return None if noisy is None else CountNoise(noisy, self.noise)
        noise = Clamped(self.noise, 0, self.n)
        published = np.arange(self.k) < self.noisy_coordinates
        return CountNoise(counts, noise if published.all() else PartiallyPublished(noise, published))

    def true_counts(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> TrueCounts:
        """Return the posterior of the true counts given a release.

        Parameters
        ----------
        counts
            Released counts.
        noisy
            Noisy counts, where they were published.

        Returns
        -------
        TrueCounts
            The posterior.

        Raises
        ------
        InvalidInputError
            If n is private, or noisy counts are published and not given.
        """
        if not self.n:
            raise InvalidInputError(
                f"the number of records behind {self.name} is not known: infer the true counts together with "
                "their total"
            )
        if noisy is None and self.keeps_noisy:
            raise InvalidInputError(
                f"noisy=None: {self.name} publishes noisy counts, and inference needs them"
            )
        return super().true_counts(counts, noisy)


@dataclass(frozen=True)
class Geometric(IndependentNoise):
    """Two-sided geometric noise of rate ε on every count; the number of records stays private.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    epsilon
        Privacy budget ε.

    Examples
    --------
    >>> m = Geometric(prior=(1, 1), epsilon=1)
    >>> print(m.guarantee)
    ε = 1 (add-remove)
    >>> m.published_loss().epsilon
    1.0
    """

    n: int = field(init=False, default=0)
    name: ClassVar[str] = "geometric"
    relations: ClassVar[tuple[Relation, ...]] = (Relation.ADD_REMOVE,)
    words: ClassVar[str] = (
        "A random whole number was added to the count of every level, independently. The number of records "
        "was not published."
    )

    def _check_parameters(self) -> None:
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, Relation.ADD_REMOVE, basis="theorem: proofs/geometric.md")

    @property
    def noise_scale(self) -> float:
        return 1 / float(self.epsilon)

    @cached_property
    def noise(self) -> Noise:
        from discreet._numerics.noises import DiscreteLaplace

        return DiscreteLaplace(self.noise_scale)

    def _noise(self, source: Source) -> list[int]:
        return two_sided_geometric(self.k, self.epsilon, source).tolist()  # type: ignore[no-any-return]

    def published_loss(self) -> PublishedLoss:
        """Return the privacy loss of the noisy counts.

        Returns
        -------
        PublishedLoss
            The log-ratio of the probabilities of the output without and with one record. It is ε with
            probability 1/(1 + e^{−ε}), and otherwise −ε.
        """
        epsilon = float(self.epsilon)

        def _delta(e: float) -> float:
            return max(0.0, -math.expm1(e - epsilon) / (1 + math.exp(-epsilon))) if e < epsilon else 0.0

        empty = (0,) * self.k
        return PublishedLoss(epsilon, _delta, (empty, (1,) + (0,) * (self.k - 1), empty))


@dataclass(frozen=True)
class GaussianCounts(IndependentNoise):
    """Rounded Gaussian noise on every count, for (ε, δ), ρ or μ.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records; private if 0.
    epsilon, delta
        ε and δ, together.
    rho
        ρ of zero-concentrated privacy.
    mu
        μ of Gaussian differential privacy.

    Examples
    --------
    >>> m = GaussianCounts(prior=(1, 1), n=100, rho="1/8")
    >>> m.mu_squared, m.variance, m.guarantee.zcdp()
    (Fraction(1, 4), Fraction(8, 1), Fraction(1, 8))
    >>> round(GaussianCounts(prior=(1, 1), epsilon=1, delta="1e-6").noise_scale, 3)
    4.225
    """

    n: int = 0
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    rho: Fraction = Fraction(0)
    mu: Fraction = Fraction(0)
    name: ClassVar[str] = "gaussian"
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
    words: ClassVar[str] = (
        "Normal noise was added to the count of every level, independently, and the sums were rounded to "
        "whole numbers."
    )

    def _check_parameters(self) -> None:
        if self.n:
            object.__setattr__(self, "n", as_size(self.n))
        for name in ("epsilon", "delta", "rho", "mu"):
            if value := getattr(self, name):
                object.__setattr__(self, name, as_epsilon(value, name))
        pair = bool(self.epsilon), bool(self.delta)
        if [pair == (True, True), bool(self.rho), bool(self.mu)].count(True) != 1 or pair[0] != pair[1]:
            raise InvalidInputError(
                "gaussian needs one of: epsilon with delta, such as epsilon=1, delta=1e-6; rho, such as "
                "rho=0.1; mu, such as mu=0.5"
            )
        if self.delta >= 1:
            raise InvalidInputError(
                f"delta={float(self.delta):g} must be a probability below 1, such as 1e-6"
            )

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters that are given, exactly, as JSON values.

        Returns
        -------
        dict
            ``mechanism(name, **parameters)`` builds the same mechanism.
        """
        return {name: value for name, value in super().parameters().items() if value not in ("0", 0)}

    @property
    def mu_squared(self) -> Fraction:
        """μ² of the whole output: neighbours are as hard to tell apart as N(μ, 1) and N(0, 1)."""
        if self.mu:
            return self.mu**2
        return 2 * self.rho if self.rho else largest_gaussian(self.epsilon, self.delta)

    @property
    def variance(self) -> Fraction:
        """The variance σ² = Δ²/μ², where Δ² is 2 if n is public (two counts change by 1) and otherwise 1."""
        return (2 if self.n else 1) / self.mu_squared

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(
            self.epsilon or None,
            self.relation,
            self.delta,
            basis="theorem: proofs/gaussian.md",
            curve=Gaussian(self.mu_squared),
        )

    @property
    def noise_scale(self) -> float:
        return math.sqrt(self.variance)

    @cached_property
    def noise(self) -> Noise:
        from discreet._numerics.noises import RoundedGaussian

        return RoundedGaussian(self.noise_scale)

    def _noise(self, source: Source) -> list[int]:
        from discreet._randomness.gaussian import rounded_gaussians

        return list(rounded_gaussians(self.variance, self.k, source))

    def published_loss(self) -> PublishedLoss:
        """Return the privacy loss of the noise before rounding, of which the output is a function.

        Returns
        -------
        PublishedLoss
            The loss of a Gaussian with this μ.
        """
        records = self.n or 1
        near = (records,) + (0,) * (self.k - 1)
        far = (records - 1, 1 if self.n else 0) + (0,) * (self.k - 2)
        return PublishedLoss(math.inf, Gaussian(self.mu_squared).delta_at, (near, far, near))


@dataclass(frozen=True)
class FloorNoise(IndependentNoise):
    """⌊Laplace(1/rate)⌋ on the counts, clipped to [0, n]; nothing but the released counts is published."""

    keeps_noisy: ClassVar[bool] = False
    leaves_out: ClassVar[bool] = False

    @property
    @abstractmethod
    def rate(self) -> Fraction:
        """1/scale of the Laplace noise."""

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee(self.epsilon, basis=f"theorem: proofs/{self.name}.md")

    @property
    def noise_scale(self) -> float:
        return 1 / float(self.rate)

    @cached_property
    def noise(self) -> Noise:
        from discreet._numerics.noises import FloorLaplace

        return FloorLaplace(self.noise_scale)

    def _noise(self, source: Source) -> list[int]:
        p, q = self.rate.numerator, self.rate.denominator
        return [floor_laplace(p, q, source) for _ in range(self.noisy_coordinates)]


@dataclass(frozen=True)
class LSZhang(FloorNoise):
    """⌊Laplace(2/ε)⌋ noise on all k counts, each clipped to [0, n]; the total is not kept.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.

    Examples
    --------
    >>> LSZhang(prior=(1, 1, 1), n=60, epsilon=1).rate
    Fraction(1, 2)
    """

    name: ClassVar[str] = "lszhang"
    words: ClassVar[str] = "A random whole number was added to the count of every level."

    @property
    def rate(self) -> Fraction:
        return self.epsilon / 2


@dataclass(frozen=True)
class LSDim(FloorNoise):
    """⌊Laplace(k/ε)⌋ noise on the first k − 1 counts; the last is the remainder of n.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.

    Examples
    --------
    >>> LSDim(prior=(1, 1, 1), n=60, epsilon=1).rate
    Fraction(1, 3)
    """

    name: ClassVar[str] = "lsdim"
    words: ClassVar[str] = (
        "A random whole number, larger the more levels there are, was added to the count of every level but "
        "the last, the remainder of n."
    )
    exchangeable: ClassVar[bool] = False
    last_is_rest: ClassVar[bool] = True

    @property
    def rate(self) -> Fraction:
        return self.epsilon / self.k


@dataclass(frozen=True)
class LSHist(FloorNoise):
    """⌊Laplace(1/ε)⌋ noise (2/ε when k ≥ 3) on the first k − 1 counts; the last is the remainder of n.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records.
    epsilon
        Privacy budget ε.

    Examples
    --------
    >>> LSHist(prior=(1, 1), n=60, epsilon=1).rate, LSHist(prior=(1, 1, 1), n=60, epsilon=1).rate
    (Fraction(1, 1), Fraction(1, 2))
    """

    name: ClassVar[str] = "lshist"
    words: ClassVar[str] = (
        "A random whole number was added to the count of every level but the last, the remainder of n."
    )
    exchangeable: ClassVar[bool] = False
    last_is_rest: ClassVar[bool] = True

    @property
    def rate(self) -> Fraction:
        return self.epsilon if self.k == 2 else self.epsilon / 2
