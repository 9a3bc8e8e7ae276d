"""log P(published | parameters) and its gradient with the true counts summed out, and draws of these."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln, xlogy

from discreet._inference._likelihoods.models import Model, Multinomial, Parameters, PoissonCells
from discreet._numerics.cells import Cells, Constrained, Statistic
from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.noises import Noise
from discreet._text import about
from discreet._typing import FloatArray, IntArray
from discreet.distributions.base import as_draws
from discreet.errors import InvalidInputError, NotPrivateError, TooLargeError
from discreet.mechanisms.base import MAX_ENUMERATED_DATASETS, Mechanism, log_likelihood

_CELLS_AT_ONCE = 1 << 16


class Likelihood(ABC):
    """The likelihood of the parameters of a model of the true counts, given a release.

    Parameters have the cells on their last axis; earlier axes are draws, and results keep them. The model
    names its parameters: ``shares`` where the total is public, ``rates`` where it is not.
    """

    model: Model

    @property
    @abstractmethod
    def k(self) -> int:
        """The number of cells."""

    @abstractmethod
    def _log_prob(self, parameters: Parameters) -> FloatArray: ...

    @abstractmethod
    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        """Return E[g(x) | published, parameters] for each function g in ``statistics``.

        Each array is flat, or has the shape of the parameters.
        """

    @abstractmethod
    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray: ...

    def _at_once(self) -> int:
        """Return the number of draws of the parameters that are evaluated together."""
        return max(1, _CELLS_AT_ONCE // self.k)

    def log_prob(self, *parameters: Any) -> Any:
        """Return log P(published values | parameters), normalised over all possible values.

        Parameters
        ----------
        *parameters
            The parameters of the model: shares, rates, or two arrays for models with two.

        Returns
        -------
        float or array
            The log-probability.
        """
        shape, chunks = self._chunks(parameters)
        return _join([self._log_prob(chunk) for chunk in chunks], shape)[()]

    def score(self, *parameters: Any) -> Any:
        """Return the gradient, as E[∂ log P(x | parameters) | published, parameters] (Fisher's identity).

        Parameters
        ----------
        *parameters
            The parameters of the model: shares, rates, or two arrays for models with two.

        Returns
        -------
        array or tuple of arrays
            With respect to the logits of the shares, E[x | z] − n·shares; with respect to the log rates, E[x
            | z] − rates. Models with two parameters give one array for each.
        """
        shape, chunks = self._chunks(parameters)
        scores = []
        for chunk in chunks:
            means = self._means(chunk, self.model.statistics(*(p.ravel() for p in chunk)))
            base = self.model.baseline(*chunk)
            scores.append([mean.reshape(chunk[0].shape) - b for mean, b in zip(means, base, strict=True)])
        number = len(self.model.parameters)
        result = [_join([parts[i] for parts in scores], (*shape, self.k)) for i in range(number)]
        return result[0] if len(result) == 1 else tuple(result)

    def gradient(self, parameters: Any) -> Any:
        """Return the gradient with respect to the shares or rates themselves.

        Parameters
        ----------
        parameters
            The shares or rates.

        Returns
        -------
        array
            The gradient.
        """
        return self.score(parameters) / np.maximum(parameters, 1e-300)

    def expected_counts(self, *parameters: Any) -> FloatArray:
        """Return E[x | published values, parameters], where x are the true counts.

        Parameters
        ----------
        *parameters
            The parameters of the model: shares, rates, or two arrays for models with two.

        Returns
        -------
        FloatArray
            The expected counts.
        """
        shape, chunks = self._chunks(parameters)
        return _join([self._means(chunk, [lambda x, which: x])[0] for chunk in chunks], (*shape, self.k))

    def sample_counts(self, *parameters: Any, size: int | None = None, seed: int | None = None) -> IntArray:
        """Draw true counts given the published values and the parameters.

        Parameters
        ----------
        *parameters
            The parameters of the model: shares, rates, or two arrays for models with two.
        size
            The number of draws; None gives one draw, without an axis for draws.
        seed
            Seed of the generator; None for a fresh one.

        Returns
        -------
        IntArray
            Counts, of shape (…, [size,] k).
        """
        number, rng = 1 if size is None else as_draws(size, self.k), np.random.default_rng(seed)
        shape, chunks = self._chunks(parameters, number)
        whole = (*shape, *(() if size is None else (number,)), self.k)
        return _join([self._draw(chunk, number, rng) for chunk in chunks], whole).astype(np.int64)

    def _chunks(self, parameters: Sequence[Any], size: int = 1) -> tuple[tuple[int, ...], list[Parameters]]:
        """Return the shape of the draws, and the parameters in parts of shape (draws, k) of bounded size."""
        arrays = self.model.check(self.k, parameters)
        as_draws(arrays[0].size // self.k * size, self.k)
        flat, step = [array.reshape(-1, self.k) for array in arrays], self._at_once()
        starts = range(0, len(flat[0]), step)
        return arrays[0].shape[:-1], [tuple(p[at : at + step] for p in flat) for at in starts]


def _join(parts: Sequence[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    return np.concatenate([np.empty(0), *map(np.ravel, parts)]).reshape(shape)


@dataclass(frozen=True, eq=False)
class NoisyCells(Likelihood):
    """Noise on each cell; the true counts are summed out cell by cell, or given their total."""

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
            raise InvalidInputError("values sum to less than 0, which noise that sums to zero cannot cause")
        if self.model.total is not None and total != self.model.total:
            raise InvalidInputError(
                f"values do not sum to total={self.model.total}, and {self.noise.name} noise preserves "
                "it; give the noisy counts, not counts that were decoded or adjusted afterwards"
            )

    @property
    def k(self) -> int:
        return len(self.values)

    def under(self, model: Model) -> NoisyCells:
        """Return the same published values under another model of the true counts."""
        return replace(self, model=model)

    @cached_property
    def _scales(self) -> FloatArray:
        return self.noise.scales(self.k)

    @cached_property
    def _constant(self) -> float:
        return -self.noise.log_normaliser(self.k)

    def _cells(self, parameters: Parameters) -> Cells:
        draws = len(parameters[0])
        distribution = self.model.distribution(*(p.ravel() for p in parameters))
        return Cells(distribution, self.noise, np.tile(self.values, draws), np.tile(self._scales, draws))

    @cached_property
    def _total(self) -> int | None:
        return int(self.values.sum()) if self.noise.together else self.model.total

    def _at_once(self) -> int:
        # All nodes of a draw are kept while its total is inverted.
        return super()._at_once() if self._total is None else max(1, super()._at_once() // 16)

    def _distribution(self, parameters: Parameters) -> Cells | Constrained:
        cells = self._cells(parameters)
        return cells if self._total is None else Constrained(cells, np.ones(self.k), self._total)

    def _log_prob(self, parameters: Parameters) -> FloatArray:
        value = self._distribution(parameters).log_prob()
        if self._total is None:
            return np.asarray(value.reshape(-1, self.k).sum(axis=1) + self._constant)
        return np.asarray(value - self.model.log_total_prob(*parameters) + self._constant)

    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        return self._distribution(parameters).means(statistics)

    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray:
        distribution = self._distribution(parameters)
        if isinstance(distribution, Constrained):
            return distribution.draw(size, rng)
        result, step = np.empty((len(parameters[0]) * size, self.k)), self._at_once()
        for start in range(0, len(result), step):
            rows = np.arange(start, min(start + step, len(result))) // size
            cells = self._cells(tuple(p[rows] for p in parameters))
            result[start : start + len(rows)] = cells.draw(rng).reshape(-1, self.k)
        return result.reshape(len(parameters[0]), size, self.k)


@dataclass(frozen=True, eq=False)
class RandomisedResponse(Likelihood):
    """Each record reports its own level with probability ``keep``, otherwise another level at random.

    Reported counts are multinomial with shares Mθ, or Poisson with rates Mλ: closed forms. A record reported
    as j truly has level i with probability θᵢMⱼᵢ/(Mθ)ⱼ.
    """

    values: FloatArray
    keep: float
    model: Model

    def __post_init__(self) -> None:
        if not 0 < self.keep < 1:
            raise InvalidInputError("must be a probability between 0 and 1", "keep", self.keep)
        if np.any((self.values < 0) | (self.values != np.floor(self.values))):
            raise InvalidInputError("values must be non-negative whole numbers: they count reports")
        if not isinstance(self.model, Multinomial | PoissonCells):
            raise InvalidInputError(
                f"randomised response has no closed form under a {self.model.name} model; use shares of a "
                "public total or rates, or list the distribution of small data with Listed"
            )
        if self.model.total is not None and self.values.sum() != self.model.total:
            raise InvalidInputError(
                f"values do not sum to total={self.model.total}; every record gives one report"
            )

    @property
    def k(self) -> int:
        return len(self.values)

    @property
    def _other(self) -> float:
        return (1 - self.keep) / (self.k - 1)

    def _report(self, true: FloatArray) -> FloatArray:
        return np.asarray((self.keep - self._other) * true + self._other * true.sum(axis=-1, keepdims=True))

    def _log_prob(self, parameters: Parameters) -> FloatArray:
        reported = self._report(parameters[0])
        value = (xlogy(self.values, reported) - gammaln(self.values + 1)).sum(axis=-1)
        if self.model.total is None:
            return np.asarray(value - reported.sum(axis=-1))
        return np.asarray(value + math.lgamma(self.model.total + 1))

    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        (true,) = parameters
        expected = true * self._report(self.values / self._report(true))
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
"""The largest number of sets of true counts that a likelihood lists."""


@dataclass(frozen=True, eq=False)
class Listed(Likelihood):
    """Outputs that are not noisy counts: all possible true counts, and log P(published | each)."""

    rows: IntArray
    log_weight: FloatArray
    model: Model

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.log_weight.shape != (len(self.rows),):
            raise InvalidInputError(
                "rows must have shape (datasets, cells), and log_weight one entry for each"
            )
        if len(self.rows) > MAX_LISTED:
            raise TooLargeError(
                f"the likelihood of this output lists all datasets: {len(self.rows):.3g} are more than "
                f"{MAX_LISTED:.0e}; use mechanism='lattice' or noisy counts, which have no such limit"
            )

    @property
    def k(self) -> int:
        return int(self.rows.shape[1])

    def _weights(self, parameters: Parameters) -> Iterator[tuple[float, FloatArray]]:
        """Return for each draw log P(published), and the distribution of the true counts."""
        x = self.rows.astype(np.float64)
        for draw in zip(*parameters, strict=True):
            distribution = self.model.distribution(*map(np.ascontiguousarray, draw))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = distribution.log_prob(x).sum(axis=1) + self.log_weight
            peak = terms.max()
            weight = np.exp(terms - (peak if np.isfinite(peak) else 0.0))
            total = weight.sum()
            with np.errstate(divide="ignore", invalid="ignore"):
                yield float(peak + np.log(total)), weight / total

    def _log_prob(self, parameters: Parameters) -> FloatArray:
        value = np.array([log_total for log_total, _ in self._weights(parameters)])
        return value - self.model.log_total_prob(*parameters)

    def _means(self, parameters: Parameters, statistics: Sequence[Statistic]) -> list[FloatArray]:
        x, weights = self.rows.astype(np.float64), [weight for _, weight in self._weights(parameters)]
        which = [np.broadcast_to(i * self.k + np.arange(self.k), x.shape) for i in range(len(weights))]
        return [
            np.array([w @ g(x, cells) for w, cells in zip(weights, which, strict=True)]) for g in statistics
        ]

    def _draw(self, parameters: Parameters, size: int, rng: np.random.Generator) -> FloatArray:
        chosen = [rng.choice(len(self.rows), size, p=weight) for _, weight in self._weights(parameters)]
        return self.rows[np.array(chosen)].astype(np.float64)


def likelihood(
    values: Any, noise: Noise | float, model: Model | None = None, *, total: Any = None
) -> Likelihood:
    """Return the likelihood of published values under a model of the true counts.

    The default model is multinomial if ``total`` is given, and otherwise has independent Poisson cells.
    """
    array = as_values(values)
    if model is None:
        model = PoissonCells() if total is None else Multinomial(total)
    if isinstance(noise, Noise):
        return NoisyCells(array, noise, model)
    return RandomisedResponse(array, noise, model)


def as_values(values: Any, gaps: bool = False) -> FloatArray:
    """Return published values as one row of finite numbers.

    With ``gaps``, None and empty text are allowed and become NaN.
    """
    try:
        numbers = [math.nan if v is None or v == "" else v for v in values] if gaps else values
        array = np.asarray(numbers, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError("values must be numbers, one for each cell") from None
    is_valid = np.isfinite(array) | (np.isnan(array) & gaps)
    if array.ndim != 1 or len(array) < 1 or not np.all(is_valid):
        raise InvalidInputError("values must be a row of finite numbers, one for each cell")
    return array


def check_private(mechanism: Mechanism) -> None:
    """Raise an error if a mechanism is not private."""
    if not mechanism.guarantee.is_private:
        raise NotPrivateError(
            f"mechanism={mechanism.name!r} is not private, so nothing is inferred from what it publishes"
        )


def likelihood_of(mechanism: Mechanism, counts: Sequence[int], noisy: Sequence[int] | None) -> Likelihood:
    """Return the likelihood of shares given a release of noisy counts, or of outputs that can be listed.

    If n is private, the model is PoissonCells, and the parameters are rates: shares times the expected n.
    """
    check_private(mechanism)
    n, k = mechanism.n, mechanism.k
    model = Multinomial(n) if n else PoissonCells()
    carried = mechanism.count_noise(tuple(counts), None if noisy is None else tuple(noisy))
    if carried is not None:
        return NoisyCells(np.array(carried.values, dtype=np.float64), carried.noise, model)
    datasets = number_of_compositions(n, k)
    if datasets > MAX_ENUMERATED_DATASETS:
        raise TooLargeError(
            f"{mechanism.name} publishes no noisy counts, so its likelihood lists all datasets: n={n}, k={k} "
            f"has {about(datasets)}, more than {MAX_ENUMERATED_DATASETS}; lattice and the mechanisms that "
            "publish noisy counts have no such limit"
        )
    rows = compositions(n, k)
    return Listed(rows, log_likelihood(mechanism, rows, counts), model)
