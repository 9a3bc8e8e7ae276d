"""Records that count a known number of items by level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.distributions.beta_dirichlet import prior_in_words
from discreet.errors import DataError
from discreet.posterior_sampling.families.binomial import as_trials
from discreet.posterior_sampling.families.simplex import DividedFamily


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
