"""log P(published | parameters) with the true counts summed out, its gradient, and the true counts."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from discreet._typing import FloatArray, IntArray
from discreet.distributions.law import as_draws
from discreet.errors import InvalidInput, TooLargeError
from discreet.inference.likelihoods.models import Model, Multinomial, Parameters, PoissonCells
from discreet.numerics.cells import Cells, Constrained, Statistic
from discreet.numerics.noises import Noise

_CELLS_AT_ONCE = 1 << 16


class Likelihood(ABC):
    """What a release says about the parameters of a model of the true counts.

    Parameters have the cells on their last axis; axes before it are draws, and answers keep them. The model
    says which parameters it takes: ``shares`` where the total is public, ``rates`` where it is not.
    """

    model: Model

    @property
    @abstractmethod
    def k(self) -> int:
        """The number of cells."""

    @abstractmethod
    def _log_prob(self, parameters: Parameters) -> FloatArray: ...

    @abstractmethod
    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]: ...

    @abstractmethod
    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray: ...

    def log_prob(self, *parameters: Any) -> Any:
        """log P(what was published | parameters), normalised over all that could have been published."""
        shape, flat = self._checked(parameters)
        return self._log_prob(flat).reshape(shape)[()]

    def score(self, *parameters: Any) -> Any:
        """The gradient, as E[∂ log P(x | parameters) | published, parameters] (Fisher).

        By the logits of the shares: E[x | z] − n·shares. By the log rates: E[x | z] − rates. Models with two
        parameters give one array for each.
        """
        shape, flat = self._checked(parameters)
        columns = [p.ravel() for p in flat]
        means = self._means(flat, self.model.statistics(*columns))
        result = [
            (mean.reshape(flat[0].shape) - base).reshape((*shape, self.k))
            for mean, base in zip(means, self.model.baseline(*flat), strict=True)
        ]
        return result[0] if len(result) == 1 else tuple(result)

    def expected_counts(self, *parameters: Any) -> FloatArray:
        """E[x | published, parameters]: the true counts, as far as they can be known."""
        shape, flat = self._checked(parameters)
        (mean,) = self._means(flat, [lambda x, which: x])
        return mean.reshape((*shape, self.k))

    def sample_counts(self, *parameters: Any, size: int | None = None, seed: int | None = None) -> IntArray:
        """True counts drawn given what was published and the parameters, shape (…, [size,] k)."""
        number = 1 if size is None else as_draws(size, self.k)
        shape, flat = self._checked(parameters, number)
        counts = self._draw(flat, number, np.random.default_rng(seed)).astype(np.int64)
        return counts.reshape((*shape, *(() if size is None else (number,)), self.k))

    def _checked(self, parameters: Sequence[Any], size: int = 1) -> tuple[tuple[int, ...], Parameters]:
        """The shape of the draws, and parameters of shape (draws, k)."""
        arrays = self.model.check(self.k, parameters)
        as_draws(arrays[0].size // self.k * size, self.k)
        shape = arrays[0].shape[:-1]
        return shape, tuple(array.reshape(-1, self.k) for array in arrays)


@dataclass(frozen=True, eq=False)
class NoisyCells(Likelihood):
    """Noise on every cell; the true counts are summed out one by one, or given their total."""

    values: FloatArray
    noise: Noise
    model: Model

    def __post_init__(self) -> None:
        self.noise.check(self.values)
        self._scales  # noqa: B018 - refuses scales that do not fit
        if not self.noise.together:
            return
        total = self.values.sum()
        if self.model.total is None and total < 0:
            raise InvalidInput("values sum to less than 0, which noise of sum zero on counts cannot do")
        if self.model.total is not None and total != self.model.total:
            raise InvalidInput(
                f"values do not sum to total={self.model.total}, and {self.noise.name} noise keeps it; "
                "take the noisy counts, not counts that were decoded or adjusted afterwards"
            )

    @property
    def k(self) -> int:
        return len(self.values)

    def under(self, model: Model) -> NoisyCells:
        """The same published values under another model of the true counts."""
        return replace(self, model=model)

    @cached_property
    def _scales(self) -> FloatArray:
        return self.noise.scales(self.k)

    @cached_property
    def _constant(self) -> float:
        return -self.noise.log_normaliser(self.k)

    def _cells(self, parameters: Parameters) -> Cells:
        draws = len(parameters[0])
        law = self.model.law(*(p.ravel() for p in parameters))
        return Cells(law, self.noise, np.tile(self.values, draws), np.tile(self._scales, draws))

    def _chunks(self, parameters: Parameters) -> Iterator[tuple[slice, Parameters]]:
        step = max(1, _CELLS_AT_ONCE // self.k)
        if self._total is not None:
            step = max(1, step // 16)  # all nodes of a draw are kept while its total is inverted
        for start in range(0, len(parameters[0]), step):
            rows = slice(start, start + step)
            yield rows, tuple(p[rows] for p in parameters)

    @property
    def _total(self) -> int | None:
        return int(self.values.sum()) if self.noise.together else self.model.total

    def _constrained(self, parameters: Parameters) -> Constrained:
        assert self._total is not None
        return Constrained(self._cells(parameters), np.ones(self.k), self._total)

    def _log_prob(self, parameters: Parameters) -> FloatArray:
        result = np.empty(len(parameters[0]))
        for rows, own in self._chunks(parameters):
            if self._total is None:
                result[rows] = self._cells(own).log_prob().reshape(-1, self.k).sum(axis=1)
            else:
                result[rows] = self._constrained(own).log_prob() - self.model.log_total_prob(*own)
        return result + self._constant

    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        results = [np.empty(parameters[0].shape) for _ in statistics]
        for rows, own in self._chunks(parameters):
            offset = rows.start * self.k
            moved = [_moved(statistic, offset) for statistic in statistics]
            if self._total is None:
                means = self._cells(own).means(moved)
            else:
                means = self._constrained(own).means(moved)
            for result, mean in zip(results, means, strict=True):
                result[rows] = mean.reshape(-1, self.k)
        return results

    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray:
        result = np.empty((len(parameters[0]), size, self.k))
        for rows, own in self._chunks(parameters):
            if self._total is not None:
                result[rows] = self._constrained(own).draw(size, rng)
                continue
            repeated = tuple(np.repeat(p, size, axis=0) for p in own)
            for part, few in self._chunks(repeated):
                flat = result[rows].reshape(-1, self.k)
                flat[part] = self._cells(few).draw(rng).reshape(-1, self.k)
        return result


def _moved(statistic: Statistic, offset: int) -> Statistic:
    return lambda x, which: statistic(x, which + offset)


@dataclass(frozen=True, eq=False)
class RandomisedResponse(Likelihood):
    """Every record reported its own level with probability ``keep`` and each other level equally often else.

    Reported counts of shares θ are multinomial with shares Mθ, and those of rates are Poisson with rates Mλ:
    closed forms. A true record of level i was reported as j with probability θᵢMⱼᵢ/(Mθ)ⱼ.
    """

    values: FloatArray
    keep: float
    model: Model

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise InvalidInput(f"keep={self.keep!r} must be a probability between 0 and 1")
        if np.any((self.values < 0) | (self.values != np.floor(self.values))):
            raise InvalidInput("values must be whole numbers that are not negative: they count reports")
        if not isinstance(self.model, Multinomial | PoissonCells):
            raise InvalidInput(
                f"randomised response has no closed form under a {self.model.name} model; use shares of a "
                "public total or rates, or list the law of small data with Listed"
            )
        if self.model.total is not None and self.values.sum() != self.model.total:
            raise InvalidInput(
                f"values do not sum to total={self.model.total}; every record gives one report"
            )

    @property
    def k(self) -> int:
        return len(self.values)

    @property
    def _other(self) -> float:
        return (1 - self.keep) / (self.k - 1)

    def _reported(self, true: FloatArray) -> FloatArray:
        return np.asarray((self.keep - self._other) * true + self._other * true.sum(axis=-1, keepdims=True))

    def _log_prob(self, parameters: Parameters) -> FloatArray:
        reported = self._reported(parameters[0])
        value = (xlogy(self.values, reported) - gammaln(self.values + 1)).sum(axis=-1)
        if self.model.total is None:
            return np.asarray(value - reported.sum(axis=-1))
        return np.asarray(value + math.lgamma(self.model.total + 1))

    def _expected(self, true: FloatArray) -> FloatArray:
        ratio = self.values / self._reported(true)
        return np.asarray(
            true * ((self.keep - self._other) * ratio + self._other * ratio.sum(axis=-1, keepdims=True))
        )

    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        expected = self._expected(parameters[0])
        which = np.arange(expected.size).reshape(expected.shape)
        return [statistic(expected, which) for statistic in statistics]  # linear in x under both models

    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray:
        (true,) = parameters
        result = np.zeros((len(true), size, self.k))
        for j, reports in enumerate(self.values):
            origin = true * np.where(np.arange(self.k) == j, self.keep, self._other)
            origin = origin / origin.sum(axis=-1, keepdims=True)
            for i, row in enumerate(origin):
                result[i] += rng.multinomial(int(reports), row, size=size)
        return result


MAX_LISTED = 2_000_000
"""Up to this many sets of true counts a likelihood is listed."""


@dataclass(frozen=True, eq=False)
class Listed(Likelihood):
    """For outputs that are no noisy counts: all true counts, and log P(what was published | each)."""

    rows: IntArray
    log_weight: FloatArray
    model: Model

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.log_weight.shape != (len(self.rows),):
            raise InvalidInput("rows must have shape (datasets, cells), and log_weight one entry for each")
        if len(self.rows) > MAX_LISTED:
            raise TooLargeError(
                f"the law of this output is listed over all datasets: {len(self.rows):.3g} are more than "
                f"{MAX_LISTED:.0e}; lattice and the noisy counts have no such limit"
            )

    @property
    def k(self) -> int:
        return int(self.rows.shape[1])

    def _weights(self, parameters: Parameters) -> Iterator[tuple[int, float, FloatArray]]:
        """For each draw: log P(published), and the law of the true counts."""
        x = self.rows.astype(np.float64)
        for i in range(len(parameters[0])):
            law = self.model.law(*(np.ascontiguousarray(p[i]) for p in parameters))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = law.log_prob(x).sum(axis=1) + self.log_weight
            peak = terms.max()
            weight = np.exp(terms - (peak if np.isfinite(peak) else 0.0))
            total = weight.sum()
            with np.errstate(divide="ignore", invalid="ignore"):
                yield i, float(peak + np.log(total)), weight / total

    def _log_prob(self, parameters: Parameters) -> FloatArray:
        value = np.array([log_total for _, log_total, _ in self._weights(parameters)])
        return value - self.model.log_total_prob(*parameters)

    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        results = [np.empty(parameters[0].shape) for _ in statistics]
        x = self.rows.astype(np.float64)
        for i, _, weight in self._weights(parameters):
            which = np.broadcast_to(i * self.k + np.arange(self.k), x.shape)
            for result, statistic in zip(results, statistics, strict=True):
                result[i] = weight @ statistic(x, which)
        return results

    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray:
        result = np.empty((len(parameters[0]), size, self.k))
        for i, _, weight in self._weights(parameters):
            result[i] = self.rows[rng.choice(len(self.rows), size, p=weight)]
        return result


def likelihood(
    values: Any, noise: Noise | float, model: Model | None = None, *, total: Any = None
) -> Likelihood:
    """The likelihood of published values; without a model, a multinomial of ``total`` or Poisson cells."""
    array = as_values(values)
    if model is None:
        model = PoissonCells() if total is None else Multinomial(total)
    if isinstance(noise, Noise):
        return NoisyCells(array, noise, model)
    return RandomisedResponse(array, noise, model)


def as_values(values: Any) -> FloatArray:
    """Published values as one row of finite numbers."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInput("values must be numbers, one for each cell") from None
    if array.ndim != 1 or len(array) < 1 or not np.all(np.isfinite(array)):
        raise InvalidInput("values must be a row of finite numbers, one for each cell")
    return array
