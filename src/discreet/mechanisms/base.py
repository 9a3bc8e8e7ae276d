"""What every mechanism on counts has in common: public parameters bound first, the data only in ``draw``."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.declarations import as_counts, as_epsilon, as_prior, as_size
from discreet.errors import InvalidInput, NotPrivateError, TooLargeError
from discreet.privacy.guarantee import Guarantee
from discreet.privacy.interop import opendp_measurement
from discreet.randomness.entropy import OSEntropy, Source, private_source

MAX_OUTPUTS = 10_000_000
MAX_SIMULATED_N = 2**53
MIN_PRIOR = 1e-12  # smaller ones leave the range in which decoding can weigh counts against each other


class Output(NamedTuple):
    """One private output: the counts of the released posterior, and noisy counts where they are kept."""

    counts: tuple[int, ...]
    noisy: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Mechanism(ABC):
    """A private map from the counts of n records to released counts.

    Everything public is a field and validated on construction, so that a mechanism can be planned, priced
    and audited before any data is opened.
    """

    prior: tuple[float, ...]
    n: int
    epsilon: Fraction

    name: ClassVar[str]
    exchangeable: ClassVar[bool] = False
    """Whether relabelling levels of equal prior relabels the law: an audit then looks at fewer datasets."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prior", as_prior(self.prior))
        object.__setattr__(self, "n", as_size(self.n))
        object.__setattr__(self, "epsilon", as_epsilon(self.epsilon))
        if min(self.prior) < MIN_PRIOR:
            raise InvalidInput(f"prior={self.prior!r}: a parameter must be at least {MIN_PRIOR:g}")

    @property
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

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray] | None:
        """The laws of many datasets at once: outputs, and a row of log-probabilities for each dataset.

        None where that is not faster than asking for them one by one.
        """
        return None

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
        source = private_source(entropy)
        if not (self.guarantee.is_private or acknowledge_not_private):
            raise NotPrivateError(
                f"{self.name} has no privacy guarantee and is here for comparison only; choose another "
                "mechanism, or say acknowledge_not_private=True for data that need no protection"
            )
        return self._output(as_counts(counts, self.k, self.n), source)

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
        return self._log_pmf(as_counts(counts, self.k, self.n))

    def simulate(self, counts: Iterable[Any], size: int = 1, seed: int | None = None) -> IntArray:
        """``size`` outputs from a fast seeded generator, shape (size, k), for planning: **not private**."""
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 0:
            raise InvalidInput(f"size={size!r} must be a whole number, at least 0")
        if self.n > MAX_SIMULATED_N:
            raise TooLargeError(f"simulate works up to n = 2**53, not {self.n}; draw works at any n")
        return self._simulate(as_counts(counts, self.k, self.n), int(size), np.random.default_rng(seed))

    def to_opendp(self) -> Any:
        """This mechanism as a user measurement of OpenDP: counts in, released counts out."""
        if not self.guarantee.is_private:
            raise NotPrivateError(f"{self.name} has no privacy guarantee that OpenDP could carry")
        return opendp_measurement(self.draw, self.guarantee.known)

    def _check_outputs(self, number: int) -> None:
        if number > MAX_OUTPUTS:
            raise TooLargeError(
                f"log_pmf of {self.name} with n={self.n}, k={self.k} has about {number:.3g} outputs, more "
                f"than {MAX_OUTPUTS:.0e}; draw and simulate work at this size"
            )


def _as_json(value: Any) -> Any:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return [_as_json(item) for item in value]
    return value


def as_float(value: Fraction) -> float:
    """The nearest float, infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def log1mexp(x: float) -> float:
    """log(1 − e^{−x}) for x > 0, accurate at both ends."""
    return math.log(-math.expm1(-x)) if x < math.log(2) else math.log1p(-math.exp(-x))
