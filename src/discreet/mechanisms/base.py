"""The base of all mechanisms on counts: public parameters come first, the data only in ``draw``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._declarations import Relation, as_counts, as_epsilon, as_prior, as_size
from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.log_gamma import log_predictive
from discreet._randomness.entropy import OS_ENTROPY, OSEntropy, SeededEntropy, Source, private_source
from discreet._text import about
from discreet._typing import FloatArray, IntArray
from discreet.distributions.noise_aware import Enumerated, TrueCounts
from discreet.errors import InvalidInputError, NotPrivateError, TooLargeError
from discreet.mechanisms._outputs import CountNoise, Output, PublishedLoss
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.interop import opendp_measurement

MAX_OUTPUTS = 10_000_000
MAX_SIMULATED_N = 2**53
MAX_ENUMERATED_DATASETS = 5_000
"""The most datasets for which the distribution of the true counts given an output is enumerated."""
MIN_PRIOR = 1e-12  # smaller ones leave the range in which decoding can weigh counts against each other


def _is_prior(prior: object) -> bool:
    """Return whether a prior has the form that ``as_prior`` returns, so that it needs no further check."""
    return (
        type(prior) is tuple
        and len(prior) > 1
        and all(type(a) is float and MIN_PRIOR <= a <= 1e100 for a in prior)
    )


@dataclass(frozen=True)
class Mechanism(ABC):
    """A private map from the counts of n records to released counts.

    Everything public is a field and validated on construction, so that a mechanism can be planned, priced and
    audited before any data are opened. A new mechanism is a subclass with a ``name``, a sentence for readers
    (``words``), a guarantee, ``_output``, ``_log_pmf`` and ``_simulate``; everything else has a default.

    Parameters
    ----------
    prior
        Parameters of the Dirichlet prior, one for each level.
    n
        Number of records; 0 where it is not public.
    epsilon
        Privacy budget ε.
    """

    prior: tuple[float, ...]
    n: int
    """The number of records; 0 where it is not public."""
    epsilon: Fraction

    name: ClassVar[str]
    words: ClassVar[str] = ""
    """One sentence about how it changes the data, for readers of a report."""
    exchangeable: ClassVar[bool] = False
    """Whether relabelling levels of equal prior only relabels the output: an audit then needs fewer
    datasets."""
    keeps_noisy: ClassVar[bool] = False
    """Whether noisy counts are published too; the released counts must be a function of them."""
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    """The relations that it supports; with add-remove it takes no n."""
    leaves_out: ClassVar[bool] = False
    """Whether one of its levels may count the records that are left out. The noise must preserve the total n,
    so that the number of these records can be summed over."""

    def __post_init__(self) -> None:
        self._check_prior()
        self._check_parameters()
        _ = self.k  # a value from now on, so that what a kind says calls nothing here

    def _check_prior(self) -> None:
        if not _is_prior(self.prior):
            object.__setattr__(self, "prior", as_prior(self.prior))
            if min(self.prior) < MIN_PRIOR:
                raise InvalidInputError(f": a parameter must be at least {MIN_PRIOR:g}", "prior", self.prior)

    def _check_parameters(self) -> None:
        if type(self.n) is not int or not 1 <= self.n < MAX_SIMULATED_N:
            object.__setattr__(self, "n", as_size(self.n))
        if type(self.epsilon) is not Fraction or self.epsilon <= 0:
            object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))

    def _as_counts(self, counts: Iterable[Any]) -> tuple[int, ...]:
        return as_counts(counts, self.k, self.n or None)

    @cached_property
    def k(self) -> int:
        """The number of levels."""
        return len(self.prior)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of one draw."""

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """Typical size of the noise in one released count, from public parameters only."""

    def _output(self, counts: tuple[int, ...], source: Source) -> tuple[int, ...]:
        """Draw released counts for validated counts, with exact integer randomness from ``source``."""
        return self.decode(self._noisy(counts, source))

    _noisy: ClassVar[Callable[[Any, tuple[int, ...], Source], tuple[int, ...]]]
    """The draw of noisy counts from which released ones are computed, for mechanisms that publish them."""
    decode: ClassVar[Callable[[Any, tuple[int, ...]], tuple[int, ...]]]
    """The function from noisy counts to released ones, for mechanisms that publish noisy counts."""

    @abstractmethod
    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]: ...

    @abstractmethod
    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray: ...

    # ---- what only the mechanism knows, for plans, audits and inference ----

    def check_size(self) -> None:  # noqa: B027
        """Raise TooLargeError if no draw is possible with these public sizes, whatever the data."""

    @property
    def number_of_outputs(self) -> int:
        """The number of different counts that can be released."""
        return number_of_compositions(self.n, self.k)

    def published_loss(self) -> PublishedLoss | None:
        """Return the privacy loss of everything that is published, where it has a closed form.

        Returns
        -------
        PublishedLoss or None
            None if only the counts are published; ``log_pmf`` is their distribution.

        Raises
        ------
        TooLargeError
            If noisy counts are published and their distribution is not known.
        """
        if self.keeps_noisy:
            raise TooLargeError(
                f"the distribution of the noisy counts that {self.name} publishes is not known"
            )
        return None

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the exact output distributions of many datasets.

        Parameters
        ----------
        rows
            The counts of each dataset, one row each.

        Returns
        -------
        outputs : IntArray
            All possible outputs, shape (R, k).
        log_probability : FloatArray
            A row of log-probabilities for each dataset.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> m = mechanism("lshist", prior=(1, 1), n=2, epsilon=1)
        >>> outputs, log_probability = m.log_pmfs(np.array([[0, 2], [2, 0]]))
        >>> np.exp(log_probability).round(4).tolist()
        [[0.8161, 0.1163, 0.0677], [0.1839, 0.3161, 0.5]]
        """
        return align_columns((self.log_pmf(row) for row in rows.tolist()), len(rows))

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        """Return the noisy counts of a release, if it has any, with the distribution of their noise.

        Parameters
        ----------
        counts
            Released counts.
        noisy
            Noisy counts, where they were published.

        Returns
        -------
        CountNoise or None
            None where the released counts are not counts plus noise.
        """
        return None

    def true_counts(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> TrueCounts:
        """Return the posterior of the true counts given a release, under the prior predictive.

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
        TooLargeError
            If all datasets would have to be enumerated and there are too many.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> m = mechanism("ehd", prior=(1, 1), n=4, epsilon=2)
        >>> first, probability = m.true_counts((1, 3)).marginals()[0]
        >>> first, probability.round(3).tolist()
        (0, [0.201, 0.451, 0.186, 0.097, 0.066])
        """
        carried = self.count_noise(counts, noisy)
        if carried is not None:
            from discreet._numerics.cells import GivenTotal

            if self.n >= 2**53:
                raise TooLargeError(
                    f"the noise-aware posterior of {self.name} works up to n = 2**53, not {self.n}"
                )
            distribution = GivenTotal(carried.values, carried.noise, self.prior, self.n)
            distribution.check()
            return distribution
        datasets = number_of_compositions(self.n, self.k)
        if datasets > MAX_ENUMERATED_DATASETS:
            raise TooLargeError(
                f"the noise-aware posterior of {self.name} enumerates all datasets; n={self.n}, k={self.k} "
                f"has {about(datasets)}, more than {MAX_ENUMERATED_DATASETS}; lattice has no such limit"
            )
        rows = compositions(self.n, self.k)
        return Enumerated(rows, log_predictive(self.prior, rows) + log_likelihood(self, rows, counts))

    def parameters(self) -> dict[str, Any]:
        """Return the public parameters, exactly, as JSON values.

        Returns
        -------
        dict
            ``mechanism(name, **parameters)`` builds the same mechanism.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> mechanism("lattice", prior=(1, 1), n=60, epsilon="1/3").parameters()
        {'prior': [1.0, 1.0], 'n': 60, 'epsilon': '1/3'}
        """
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        return {name: _as_json(value) for name, value in values.items()}

    def run(
        self,
        counts: Iterable[Any],
        *,
        entropy: OSEntropy | None = None,
        acknowledge_not_private: bool = False,
    ) -> Output:
        """Draw one private output, with everything that may be published about it.

        Parameters
        ----------
        counts
            The true counts, one for each level.
        entropy
            Source of randomness: always the operating system. A seeded generator is refused.
        acknowledge_not_private
            Set it to run a mechanism without a guarantee, on data that need no protection.

        Returns
        -------
        Output
            The released counts, and the noisy counts where they are published.

        Raises
        ------
        NotPrivateError
            If the mechanism has no guarantee and this was not acknowledged.
        TooLargeError
            If no draw is possible at this size.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> output = mechanism("lattice", prior=(1, 1, 1), n=60, epsilon=1).run((20, 30, 10))
        >>> sum(output.counts), sum(output.noisy)
        (60, 60)
        """
        source = OS_ENTROPY if entropy is None else private_source(entropy)
        if not (self.guarantee.is_private or acknowledge_not_private):
            raise NotPrivateError(
                f"{self.name} has no privacy guarantee and is here for comparison only; choose another "
                "mechanism, or pass acknowledge_not_private=True for data that need no protection"
            )
        self.check_size()
        return self._draw_output(self._as_counts(counts), source)

    def _draw_output(self, counts: tuple[int, ...], source: Source) -> Output:
        if self.keeps_noisy:
            return Output(None, self._noisy(counts, source), self.decode)
        return Output(self._output(counts, source))

    def draw(
        self,
        counts: Iterable[Any],
        entropy: OSEntropy | None = None,
        *,
        acknowledge_not_private: bool = False,
    ) -> tuple[int, ...]:
        """Draw one private output: k released counts.

        Parameters
        ----------
        counts
            The true counts, one for each level.
        entropy
            Source of randomness: always the operating system. A seeded generator is refused.
        acknowledge_not_private
            Set it to draw from a mechanism without a guarantee, on data that need no protection.

        Returns
        -------
        tuple of int
            Released counts; added to the prior they are the parameters of the plug-in posterior.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> released = mechanism("lattice", prior=(1, 1, 1), n=60, epsilon=1).draw((20, 30, 10))
        >>> len(released), sum(released)
        (3, 60)
        """
        return self.run(counts, entropy=entropy, acknowledge_not_private=acknowledge_not_private).counts

    def log_pmf(self, counts: Iterable[Any]) -> tuple[IntArray, FloatArray]:
        """Return the exact distribution of ``draw(counts)``.

        Parameters
        ----------
        counts
            The true counts, one for each level.

        Returns
        -------
        outputs : IntArray
            All possible outputs, shape (R, k).
        log_probability : FloatArray
            Their log-probabilities, shape (R,).

        Raises
        ------
        TooLargeError
            If there are too many outputs to list.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> outputs, log_probability = mechanism("lattice", prior=(1, 1), n=2, epsilon=1).log_pmf((0, 2))
        >>> outputs.tolist(), np.exp(log_probability).round(4).tolist()
        ([[0, 2], [1, 1], [2, 0]], [0.7311, 0.17, 0.0989])
        """
        return self._log_pmf(self._as_counts(counts))

    def simulate(self, counts: Iterable[Any], size: int = 1, seed: int | None = None) -> IntArray:
        """Simulate outputs with a fast seeded generator, for planning: **not private**.

        Parameters
        ----------
        counts
            Counts, one for each level.
        size
            Number of outputs.
        seed
            Seed of the random numbers; None for fresh ones.

        Returns
        -------
        IntArray
            Outputs of shape (size, k).

        Raises
        ------
        InvalidInputError
            If ``size`` is not a whole number of at least 0.
        TooLargeError
            If n is above 2**53.

        Examples
        --------
        >>> from discreet.mechanisms import mechanism
        >>> m = mechanism("lattice", prior=(1, 1, 1), n=60, epsilon=1)
        >>> simulated = m.simulate((20, 30, 10), 5, seed=1)
        >>> simulated.shape, set(simulated.sum(axis=1).tolist())
        ((5, 3), {60})
        """
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
            raise InvalidInputError("must be a whole number, at least 0", "size", size)
        if self.n > MAX_SIMULATED_N:
            raise TooLargeError(f"simulate works up to n = 2**53, not {self.n}; draw works at any n")
        self.check_size()
        return self._simulate(self._as_counts(counts), int(size), np.random.default_rng(seed))

    def to_opendp(self) -> Any:
        """Return this mechanism as an OpenDP user measurement: counts in, released counts out.

        Returns
        -------
        opendp.Measurement
            The measurement, with the privacy curve as its map.

        Raises
        ------
        NotPrivateError
            If the mechanism has no guarantee.
        """
        if not self.guarantee.is_private:
            raise NotPrivateError(f"{self.name} has no privacy guarantee that OpenDP could carry")
        return opendp_measurement(self.draw, self.guarantee.effective_curve)

    def _check_outputs(self, number: int) -> None:
        if number > MAX_OUTPUTS:
            raise TooLargeError(
                f"log_pmf of {self.name} with n={self.n}, k={self.k} has {about(number)} outputs, more "
                f"than {MAX_OUTPUTS:.0e}; draw and simulate work at this size"
            )


def log_likelihood(mechanism: Mechanism, rows: IntArray, released: Sequence[int]) -> FloatArray:
    """Return log P(released counts | dataset) for many datasets.

    Parameters
    ----------
    mechanism
        The mechanism.
    rows
        The counts of each dataset, one row each.
    released
        The released counts.

    Returns
    -------
    FloatArray
        One value for each row.

    Examples
    --------
    >>> from discreet.mechanisms import mechanism
    >>> m = mechanism("lshist", prior=(1, 1), n=2, epsilon=1)
    >>> np.exp(log_likelihood(m, np.array([[0, 2], [1, 1], [2, 0]]), (1, 1))).round(4).tolist()
    [0.1163, 0.3161, 0.3161]
    """
    outputs, distribution = mechanism.log_pmfs(rows)
    match = np.flatnonzero((outputs == np.array(released)).all(axis=1))
    return distribution[:, match[0]] if len(match) else np.full(len(rows), -np.inf)


def simulated_output(mechanism: Mechanism, counts: Iterable[Any], seed: int) -> Output:
    """Simulate what ``run`` returns with a seeded generator, for planning: **not private**.

    Parameters
    ----------
    mechanism
        The mechanism.
    counts
        Counts, one for each level.
    seed
        Seed of the random numbers.

    Returns
    -------
    Output
        The simulated output.

    Examples
    --------
    >>> from discreet.mechanisms import mechanism
    >>> m = mechanism("lattice", prior=(1, 1, 1), n=60, epsilon=1)
    >>> sum(simulated_output(m, (20, 30, 10), seed=1).counts)
    60
    """
    return mechanism._draw_output(mechanism._as_counts(counts), SeededEntropy(seed))


def align_columns(
    distributions: Iterable[tuple[IntArray, FloatArray]], number: int
) -> tuple[IntArray, FloatArray]:
    """Put distributions over different outcomes into one matrix; −∞ where an outcome does not occur.

    Parameters
    ----------
    distributions
        Outcomes and log-probabilities of each distribution. As long as all have the same outcomes, only one
        is in memory besides the matrix.
    number
        How many distributions there are.

    Returns
    -------
    outcomes : IntArray
        All outcomes, one row each.
    log_probability : FloatArray
        A row for each distribution.

    Examples
    --------
    >>> first = np.array([[0], [1]]), np.log([0.5, 0.5])
    >>> second = np.array([[1], [2]]), np.log([0.25, 0.75])
    >>> outcomes, log_probability = align_columns([first, second], 2)
    >>> outcomes.ravel().tolist(), np.exp(log_probability).tolist()
    ([0, 1, 2], [[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]])
    """
    several = iter(distributions)
    outputs, first = next(several)
    matrix = np.empty((number, len(outputs)))
    matrix[0] = first
    for i, (other, log_probability) in enumerate(several, start=1):
        if other is outputs or np.array_equal(other, outputs):
            matrix[i] = log_probability
            continue
        rest = [(other, log_probability), *several]
        all_outputs = np.unique(
            np.concatenate([outputs, *(dataset_outputs for dataset_outputs, _ in rest)]), axis=0
        )
        place = {row: j for j, row in enumerate(map(tuple, all_outputs.tolist()))}
        wide = np.full((number, len(all_outputs)), -np.inf)
        wide[:i, [place[row] for row in map(tuple, outputs.tolist())]] = matrix[:i]
        for j, (dataset_outputs, values) in enumerate(rest, start=i):
            wide[j, [place[row] for row in map(tuple, dataset_outputs.tolist())]] = values
        return all_outputs, wide
    return outputs, matrix


def _as_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return list(value) if set(map(type, value)) == {float} else [_as_json(item) for item in value]
    return value
