"""Models of the true counts: their parameters, and the gradient of the likelihood with respect to them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma

from discreet._declarations import as_integer
from discreet._numerics.cells import Statistic
from discreet._numerics.counts import (
    BinomialDistribution,
    CountDistribution,
    PoissonDistribution,
    RisingDistribution,
)
from discreet._typing import FloatArray
from discreet.distributions.base import as_draws
from discreet.errors import InvalidInputError

Parameters = tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """A distribution of the true counts of k cells, with parameters that have the cells on the last axis."""

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    positive: ClassVar[bool] = False
    """Whether a parameter of 0 is refused."""

    @property
    def total(self) -> int | None:
        """The public total of the true counts, where there is one."""
        return None

    @abstractmethod
    def distribution(self, *parameters: FloatArray) -> CountDistribution:
        """Return the distributions of the cells.

        If the total is public, the true counts follow these distributions conditionally on their total.
        """

    def log_total_prob(self, *parameters: FloatArray) -> FloatArray:
        """Return log P(Σx = total) under independent cells for each draw; parameters of shape (draws, k)."""
        return np.zeros(len(parameters[0]))

    def means(self, *parameters: FloatArray) -> FloatArray:
        """Return expected counts of the cells, for flat parameters."""
        return parameters[0]

    def statistics(self, *parameters: FloatArray) -> list[Statistic]:
        """Return functions of x whose means given z, minus :meth:`baseline`, are the gradient."""
        mean = self.means(*parameters)
        return [lambda x, which: x - mean[which]]

    def baseline(self, *parameters: FloatArray) -> list[Any]:
        """Return the terms that are subtracted from those means."""
        return [0.0] * len(self.parameters)

    def check(self, cells: int, parameters: Sequence[Any]) -> Parameters:
        """Return arrays of one shape (…, cells), or raise an error that names the parameter."""
        if len(parameters) != len(self.parameters):
            raise InvalidInputError(f"a {self.name} model takes {', '.join(self.parameters)}")
        arrays = []
        for name, values in zip(self.parameters, parameters, strict=True):
            try:
                array = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise InvalidInputError(f"{name} must hold numbers, one for each cell") from None
            if array.ndim == 0 or array.shape[-1] not in (1, cells):
                raise InvalidInputError(
                    f"{name} has shape {array.shape}; the last axis must have length {cells}, the "
                    "number of cells, or 1; axes before it index draws"
                )
            as_draws(array.size // array.shape[-1], cells)  # before anything as large is made of it
            self._check_values(name, array)
            arrays.append(array)
        try:
            shape = np.broadcast_shapes(*(array.shape for array in arrays), (cells,))
        except ValueError:
            raise InvalidInputError(
                f"{' and '.join(self.parameters)} have shapes that do not match"
            ) from None
        return tuple(np.broadcast_to(array, shape) for array in arrays)

    def _check_values(self, name: str, array: FloatArray) -> None:
        if not np.all(np.isfinite(array) & ((array > 0) if self.positive else (array >= 0))):
            raise InvalidInputError(
                f"{name} must be finite and {'positive' if self.positive else 'not negative'}"
            )


class PoissonCells(Model):
    """Independent Poisson counts with ``rates``; the gradient is with respect to the log rates."""

    name: ClassVar[str] = "Poisson"
    parameters: ClassVar[tuple[str, ...]] = ("rates",)

    def distribution(self, *parameters: FloatArray) -> CountDistribution:
        return PoissonDistribution(parameters[0])


@dataclass(frozen=True, eq=False)
class Binomial(Model):
    """Independent binomial counts out of public ``sizes``, with probabilities ``probs``.

    The gradient is with respect to the logits.
    """

    sizes: Any
    called: str = "sizes"
    name: ClassVar[str] = "Binomial"
    parameters: ClassVar[tuple[str, ...]] = ("probs",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", _whole(self.sizes, self.called))

    def check(self, cells: int, parameters: Sequence[Any]) -> Parameters:
        if self.sizes.ndim and self.sizes.shape != (cells,):
            raise InvalidInputError(f"sizes has {self.sizes.size} entries for {cells} cells")
        return super().check(cells, parameters)

    def _check_values(self, name: str, array: FloatArray) -> None:
        if not np.all((array >= 0) & (array <= 1)):
            raise InvalidInputError(f"{name} must lie between 0 and 1")

    def _sizes(self, probs: FloatArray) -> FloatArray:
        cells = self.sizes.size
        return np.broadcast_to(self.sizes.ravel(), (probs.size // cells, cells)).ravel()

    def distribution(self, *parameters: FloatArray) -> CountDistribution:
        (probs,) = parameters
        return BinomialDistribution(self._sizes(probs), probs, 1 - probs)

    def means(self, *parameters: FloatArray) -> FloatArray:
        return np.asarray(self._sizes(parameters[0]) * parameters[0])


class NegativeBinomial(Model):
    """Independent counts with ``means`` and variances mean + mean²/dispersion.

    The gradient is with respect to the logs of the means and of the dispersions.
    """

    name: ClassVar[str] = "negative binomial"
    parameters: ClassVar[tuple[str, ...]] = ("means", "dispersions")
    positive: ClassVar[bool] = True

    def distribution(self, *parameters: FloatArray) -> CountDistribution:
        return RisingDistribution.negative_binomial(*parameters)

    def statistics(self, *parameters: FloatArray) -> list[Statistic]:
        mean, r = parameters
        share = r / (r + mean)
        level = r * (np.log(share) - digamma(r))
        return [
            lambda x, which: (x - mean[which]) * share[which],
            lambda x, which: (
                r[which] * digamma(x + r[which]) + level[which] + (mean[which] - x) * share[which]
            ),
        ]


@dataclass(frozen=True, eq=False)
class _WithTotal(Model):
    size: Any

    def __post_init__(self) -> None:
        size = as_integer(self.size, "total")
        if size < 0:
            raise InvalidInputError("must not be negative", "total", self.size)
        object.__setattr__(self, "size", size)

    @property
    def total(self) -> int:
        return int(self.size)


class Multinomial(_WithTotal):
    """Counts of a public total with ``shares`` that sum to 1.

    The gradient is with respect to logits of which the shares are the softmax.
    """

    name: ClassVar[str] = "multinomial"
    parameters: ClassVar[tuple[str, ...]] = ("shares",)

    def _check_values(self, name: str, array: FloatArray) -> None:
        super()._check_values(name, array)
        if not np.all(np.abs(array.sum(axis=-1) - 1) <= 1e-9 * max(1.0, array.shape[-1] ** 0.5)):
            raise InvalidInputError(f"{name} must sum to 1 over the last axis; divide by their sum")

    def means(self, *parameters: FloatArray) -> FloatArray:
        return np.asarray(self.size * parameters[0])

    def distribution(self, *parameters: FloatArray) -> CountDistribution:
        return PoissonDistribution(self.means(*parameters))

    def log_total_prob(self, *parameters: FloatArray) -> FloatArray:
        sums = self.size * parameters[0].sum(axis=-1)
        return PoissonDistribution(sums).log_prob(np.full(len(sums), float(self.size)))


class DirichletMultinomial(_WithTotal):
    """Counts of a public total whose shares have the distribution Dirichlet(``alphas``).

    The gradient is with respect to the log alphas.
    """

    name: ClassVar[str] = "Dirichlet-multinomial"
    parameters: ClassVar[tuple[str, ...]] = ("alphas",)
    positive: ClassVar[bool] = True

    def distribution(self, *parameters: FloatArray) -> CountDistribution:
        (alphas,) = parameters
        return RisingDistribution.of(alphas, self.size)

    def log_total_prob(self, *parameters: FloatArray) -> FloatArray:
        sums = parameters[0].sum(axis=-1)
        return RisingDistribution.of(sums, math.inf).log_prob(np.full(len(sums), float(self.size)))

    def statistics(self, *parameters: FloatArray) -> list[Statistic]:
        (alphas,) = parameters
        return [lambda x, which: alphas[which] * (digamma(x + alphas[which]) - digamma(alphas[which]))]

    def baseline(self, *parameters: FloatArray) -> list[Any]:
        (alphas,) = parameters
        sums = alphas.sum(axis=-1, keepdims=True)
        return [alphas * (digamma(self.size + sums) - digamma(sums))]


def _whole(values: Any, name: str) -> FloatArray:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name} must hold whole numbers") from None
    if array.ndim > 1 or not np.all(np.isfinite(array) & (array >= 0) & (array == np.floor(array))):
        raise InvalidInputError(f"{name} must hold non-negative whole numbers, one or one for each cell")
    return array
