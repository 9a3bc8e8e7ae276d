"""Records that are divided between levels: counts of a known number of items, and shares of a whole.

Neighbours are Dir(a + s·p) and Dir(a + s·q) for two points p, q of the simplex, s = r·items. D_λ is convex in
q, and for a ≥ ½ in p as well, so two corners are the worst pair: the same as for categories, with steps of s.
Below ½ it is not so (records that spread can then be worse), and such priors are refused. For three levels
and more no such theorem is known for hockey-stick divergences: δ(ε) follows from the Rényi curve.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.declarations import as_exact, as_integer
from discreet.distributions.beta_dirichlet import Beta, Dirichlet, prior_in_words
from discreet.errors import DataError, InvalidInput
from discreet.posterior_sampling.families.categorical import ShareFamily, as_trials
from discreet.posterior_sampling.family import Natural, Pair, RecordKind, record_rows


@dataclass(frozen=True)
class DividedFamily(ShareFamily):
    """What the two families share. ``dimension``: how many levels a record is divided between."""

    dimension: int
    records: ClassVar[RecordKind] = "vectors"
    reads: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        number = as_integer(self.dimension, "dimension")
        if number < 2:
            raise InvalidInput(f"dimension={self.dimension!r} must be at least 2")
        object.__setattr__(self, "dimension", number)

    def prior(self, parameters: Any) -> Beta | Dirichlet:
        made = super().prior(parameters)
        if len(made.parameters) != self.dimension:
            raise InvalidInput(f"the prior must have {self.dimension} parameters, one for each level")
        _check_weight(self.natural(made))
        return made

    def extreme_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        _check_weight(eta)
        return super().extreme_pairs(eta, n, r)

    def profile_pairs(self, eta: Natural, n: int, r: Fraction) -> list[Pair]:
        return super().profile_pairs(eta, n, r) if len(eta) == 2 else []

    def contribution(self, statistic: Any, n: int) -> Natural:
        values = statistic if isinstance(statistic, Sequence | np.ndarray) else ()
        parts = tuple(as_exact(part, "the statistic") for part in values)
        if len(parts) != self.dimension or min(parts) < 0 or sum(parts) != self.items * n:
            raise InvalidInput(
                f"the statistic must be what the records add to the {self.dimension} levels, "
                f"{self.items * n} in all"
            )
        return parts

    def gathered(
        self, data: Any, column: str | None, options: Mapping[str, Any], people: Mapping[str, Any]
    ) -> tuple[Any, int]:
        rows = record_rows(data, people, self.dimension)
        if (rows < 0).any():
            raise DataError("a record has a negative component")
        units = self.in_units(rows)
        if (units.sum(axis=1) != self.items * self.unit).any():
            raise DataError(f"the components of a record do not add up to {self.items}")
        return tuple(Fraction(int(part), self.unit) for part in units.astype(object).sum(axis=0)), len(rows)

    unit: ClassVar[int]
    """How many whole units one item is counted in."""

    @abstractmethod
    def in_units(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        """Each record, by itself, in whole units."""


def _check_weight(eta: Natural) -> None:
    if len(eta) > 2 and min(eta) < Fraction(1, 2):
        raise InvalidInput(
            f"a prior parameter of {float(min(eta)):g}: records that are divided between three levels or "
            "more need at least 0.5 for each, where the worst pair of records is known"
        )


@dataclass(frozen=True)
class MultinomialFamily(DividedFamily):
    """Counts of ``trials`` items in ``dimension`` levels a record; Dirichlet prior over their shares.

    A record adds its counts to the parameters. The statistic is the sum of the counts.
    """

    trials: int
    name: ClassVar[str] = "multinomial"
    whole: ClassVar[bool] = True
    unit: ClassVar[int] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "trials", as_trials(self.trials))

    @property
    def items(self) -> int:
        return self.trials

    def in_units(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        counts = np.minimum(rows, self.trials + 1.0).astype(np.int64)
        if (counts != np.minimum(rows, self.trials + 1.0)).any():
            raise DataError("a record has a count that is no whole number")
        return counts

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        return f"the shares of the levels among {self.trials} items a record", prior_in_words(prior)


@dataclass(frozen=True)
class SoftCategories(DividedFamily):
    """A record is a point of the simplex, shares of each of ``dimension`` levels; Dirichlet prior.

    It adds itself to the parameters. The statistic is the sum of the shares.
    """

    name: ClassVar[str] = "soft-categories"
    whole: ClassVar[bool] = False
    unit: ClassVar[int] = 2**32

    def in_units(self, rows: FloatArray) -> npt.NDArray[np.int64]:
        units: npt.NDArray[np.int64] = np.trunc(np.minimum(rows, 2.0) * self.unit).astype(np.int64)
        near = np.abs(rows.sum(axis=1) - 1) < 1e-6
        # What rounding left over of a record goes to its largest share.
        largest = units.argmax(axis=1)[near]
        units[near.nonzero()[0], largest] += self.unit - units[near].sum(axis=1)
        return units

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        return "the mean share of each level in a record", prior_in_words(prior)
