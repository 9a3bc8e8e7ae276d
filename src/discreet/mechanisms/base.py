"""What every mechanism on counts has in common: public parameters bound first, the data only in ``draw``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
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
"""Up to so many datasets the law of the true counts given an output is enumerated."""
MIN_PRIOR = 1e-12  # smaller ones leave the range in which decoding can weigh counts against each other


def _is_prior(prior: object) -> bool:
    """Whether it is what ``as_prior`` makes: then it is not looked at once more."""
    return (
        type(prior) is tuple
        and len(prior) > 1
        and all(type(a) is float and MIN_PRIOR <= a <= 1e300 for a in prior)
    )


@dataclass(frozen=True)
class Mechanism(ABC):
    """A private map from the counts of n records to released counts.

    Everything public is a field and validated on construction, so that a mechanism can be planned, priced
    and audited before any data is opened. A new mechanism is one subclass with a ``name``, a sentence for
    readers (``words``), a guarantee, ``_output``, ``_log_pmf`` and ``_simulate``; what plans, audits and
    inference need beside that has a default here.
    """

    prior: tuple[float, ...]
    n: int
    """The number of records; 0 where it is not public."""
    epsilon: Fraction

    name: ClassVar[str]
    words: ClassVar[str] = ""
    """What it does to the data, in a sentence for a reader of a report."""
    exchangeable: ClassVar[bool] = False
    """Whether relabelling levels of equal prior relabels the law: an audit then looks at fewer datasets."""
    keeps_noisy: ClassVar[bool] = False
    """Whether noisy counts are published too; the released counts must be a function of them."""
    relations: ClassVar[tuple[Relation, ...]] = (Relation.REPLACE_ONE,)
    """What it can be asked to protect; with add-remove it takes no n."""
    leaves_out: ClassVar[bool] = False
    """Whether one of its levels may hold the records that are left out: its noise must have no other total
    than n, so that the number of these can be summed over."""

    def __post_init__(self) -> None:
        if not _is_prior(self.prior):
            object.__setattr__(self, "prior", as_prior(self.prior))
            if min(self.prior) < MIN_PRIOR:
                raise InvalidInputError(
                    f": a parameter must be at least {MIN_PRIOR:g}", parameter="prior", value=self.prior
                )
        self._check_parameters()
        _ = self.k  # a value from now on, so that what a kind says calls nothing here

    def _check_parameters(self) -> None:
        if type(self.n) is not int or self.n < 1:
            object.__setattr__(self, "n", as_size(self.n))
        if type(self.epsilon) is not Fraction or self.epsilon <= 0:
            object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))

    def _as_counts(self, counts: Iterable[Any]) -> tuple[int, ...]:
        return as_counts(counts, self.k, self.n or None)

    @cached_property
    def k(self) -> int:
        return len(self.prior)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What is promised about one draw."""

    @property
    @abstractmethod
    def noise_scale(self) -> float:
        """Typical size of the noise in one released count, from public parameters only."""

    @abstractmethod
    def _output(self, counts: tuple[int, ...], source: Source) -> Output:
        """One output for validated counts, with exact integer randomness from ``source``."""

    @abstractmethod
    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]: ...

    @abstractmethod
    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray: ...

    # ---- what only the mechanism knows, for plans, audits and inference ----

    def check_size(self) -> None:  # noqa: B027
        """Raises TooLargeError where no draw is possible at these public sizes, whatever the data say."""

    @property
    def number_of_outputs(self) -> int:
        """How many different counts can be released."""
        return number_of_compositions(self.n, self.k)

    def published_loss(self) -> PublishedLoss | None:
        """The loss of everything that is published, where it is known in closed form.

        None: nothing but the counts is published, and ``log_pmf`` is their law.
        """
        if self.keeps_noisy:
            raise TooLargeError(f"the law of the noisy counts that {self.name} publishes is not known")
        return None

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        """The laws of many datasets at once: outputs, and a row of log-probabilities for each dataset."""
        return align_columns((self.log_pmf(row) for row in rows.tolist()), len(rows))

    def count_noise(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> CountNoise | None:
        """The noisy counts among what was released, where there are some."""
        return None

    def true_counts(self, counts: tuple[int, ...], noisy: tuple[int, ...] | None = None) -> TrueCounts:
        """The law of the true counts given what was released, the prior predictive before it."""
        carried = self.count_noise(counts, noisy)
        if carried is not None:
            from discreet.distributions._given_total import GivenTotal

            if self.n >= 2**53:
                raise TooLargeError(
                    f"the noise-aware posterior of {self.name} works up to n = 2**53, not {self.n}"
                )
            law = GivenTotal(carried.values, carried.noise, self.prior, self.n)
            law.check()
            return law
        datasets = number_of_compositions(self.n, self.k)
        if datasets > MAX_ENUMERATED_DATASETS:
            raise TooLargeError(
                f"the noise-aware posterior of {self.name} enumerates all datasets; n={self.n}, k={self.k} "
                f"has {about(datasets)}, more than {MAX_ENUMERATED_DATASETS}; lattice has no such limit"
            )
        rows = compositions(self.n, self.k)
        return Enumerated(rows, log_predictive(self.prior, rows) + log_likelihood(self, rows, counts))

    def parameters(self) -> dict[str, Any]:
        """The public parameters, exactly, as JSON values; ``mechanism(name, **parameters)`` rebuilds it."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.init}
        return {name: _as_json(value) for name, value in values.items()}

    def run(
        self,
        counts: Iterable[Any],
        *,
        entropy: OSEntropy | None = None,
        acknowledge_not_private: bool = False,
    ) -> Output:
        """One private output with everything that may be published about it."""
        source = OS_ENTROPY if entropy is None else private_source(entropy)
        if not (self.guarantee.is_private or acknowledge_not_private):
            raise NotPrivateError(
                f"{self.name} has no privacy guarantee and is here for comparison only; choose another "
                "mechanism, or say acknowledge_not_private=True for data that need no protection"
            )
        self.check_size()
        output = self._output(self._as_counts(counts), source)
        if (output.noisy is None) is self.keeps_noisy:
            raise AssertionError(f"{type(self).__name__}.keeps_noisy does not say what it publishes")
        return output

    def draw(
        self,
        counts: Iterable[Any],
        entropy: OSEntropy | None = None,
        *,
        acknowledge_not_private: bool = False,
    ) -> tuple[int, ...]:
        """One private output: k released counts; added to the prior they are the posterior's parameters.

        The randomness comes from the operating system; a seeded generator is refused.
        """
        return self.run(counts, entropy=entropy, acknowledge_not_private=acknowledge_not_private).counts

    def log_pmf(self, counts: Iterable[Any]) -> tuple[IntArray, FloatArray]:
        """The exact law of ``draw(counts)``: outputs (R, k) and their log-probabilities (R,)."""
        return self._log_pmf(self._as_counts(counts))

    def simulate(self, counts: Iterable[Any], size: int = 1, seed: int | None = None) -> IntArray:
        """``size`` outputs from a fast seeded generator, shape (size, k), for planning: **not private**."""
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
            raise InvalidInputError("must be a whole number, at least 0", parameter="size", value=size)
        if self.n > MAX_SIMULATED_N:
            raise TooLargeError(f"simulate works up to n = 2**53, not {self.n}; draw works at any n")
        self.check_size()
        return self._simulate(self._as_counts(counts), int(size), np.random.default_rng(seed))

    def to_opendp(self) -> Any:
        """This mechanism as a user measurement of OpenDP: counts in, released counts out."""
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
    """log P(released counts | dataset) for every row."""
    outputs, law = mechanism.log_pmfs(rows)
    match = np.flatnonzero((outputs == np.array(released)).all(axis=1))
    return law[:, match[0]] if len(match) else np.full(len(rows), -np.inf)


def simulated_output(mechanism: Mechanism, counts: Iterable[Any], seed: int) -> Output:
    """What ``run`` might give, from a seeded generator, for planning: **not private**."""
    return mechanism._output(mechanism._as_counts(counts), SeededEntropy(seed))


def align_columns(laws: Iterable[tuple[IntArray, FloatArray]], number: int) -> tuple[IntArray, FloatArray]:
    """Laws as rows of one matrix over all outcomes; −∞ where an outcome does not occur.

    Holds one law beside the matrix as long as all have the same outcomes.
    """
    several = iter(laws)
    outputs, first = next(several)
    matrix = np.empty((number, len(outputs)))
    matrix[0] = first
    for i, (other, log_probability) in enumerate(several, start=1):
        if other is outputs or np.array_equal(other, outputs):
            matrix[i] = log_probability
            continue
        rest = [(other, log_probability), *several]
        every = np.unique(np.concatenate([outputs, *(own for own, _ in rest)]), axis=0)
        place = {row: j for j, row in enumerate(map(tuple, every.tolist()))}
        wide = np.full((number, len(every)), -np.inf)
        wide[:i, [place[row] for row in map(tuple, outputs.tolist())]] = matrix[:i]
        for j, (own, values) in enumerate(rest, start=i):
            wide[j, [place[row] for row in map(tuple, own.tolist())]] = values
        return every, wide
    return outputs, matrix


def _as_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return list(value) if set(map(type, value)) == {float} else [_as_json(item) for item in value]
    return value
