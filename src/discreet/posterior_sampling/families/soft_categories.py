"""Records that are shares of levels, such as the probabilities of a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.distributions.beta_dirichlet import prior_in_words
from discreet.posterior_sampling.families.simplex import DividedFamily


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
