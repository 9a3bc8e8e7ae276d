"""A statistical query: the private mean of a number in [0, 1] that is computed from each record."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from discreet.data import clipped_sum
from discreet.declarations import as_bounds
from discreet.errors import DataError, InvalidInput, warn
from discreet.posterior_sampling.families.categorical import BetaFamily
from discreet.posterior_sampling.sample import Sample
from discreet.posterior_sampling.sampler import PosteriorSampler
from discreet.questions.base import optional, parameter
from discreet.questions.sample import DrawQuestion
from discreet.questions.text import NUMBER, NUMBERS, TEXT, TextForm

_STEPS = 2**32
_TRUTH = (bool, "bool")


@dataclass(frozen=True, kw_only=True)
class StatisticalQuery(DrawQuestion):
    """The mean of a bounded column, or of a function of each record, by a draw from a Beta posterior."""

    kind: ClassVar[str] = "query"
    verb: ClassVar[str] = "statistical_query"
    title: ClassVar[str] = "Bounded mean"
    sentence: ClassVar[str] = "Release a private mean of a bounded column by a posterior draw."

    prior: Any = parameter(
        NUMBERS, "Beta prior of the mean, between the bounds: 1,1.", example="1,1", default=(1, 1)
    )
    missing: float | None = optional(
        NUMBER, "The number that a missing value counts as.", label="Missing values"
    )
    function: Callable[[Any], float] | None = optional(
        TEXT, "A function of one record with values within the bounds, or in [0, 1].", python=True
    )

    def __post_init__(self) -> None:
        """Checks that there are bounds or a function, and what goes with them."""
        super().__post_init__()
        BetaFamily().prior(self.prior)
        if self.function is None and self.bounds is None:
            raise InvalidInput(
                "give a function of one record with values in [0, 1], or bounds=(low, high) for numbers"
            )
        if self.bounds is not None:
            as_bounds(self.bounds, "one record")
        if self.function is None:
            return
        if not self.strict or {self.column, self.missing, self.person} - {None}:
            raise InvalidInput(
                "column=, missing=, person= and strict=False go with bounds= and no function; for a function "
                "give the records themselves"
            )
        if self.bounds is None and getattr(self.function, "__annotations__", {}).get("return") not in _TRUTH:
            # Before the data are opened, and whatever they are: a warning that came only when a value was
            # clipped would tell something about a record.
            warn(
                "values of the function below 0 count as 0 and above 1 as 1; declare bounds=(low, high) if "
                "its range is another, and bounds=(0, 1) if it is this",
                UserWarning,
            )

    def plain(self, name: str, value: Any, form: TextForm) -> Any:
        """A plan cannot contain a function: the request id names it."""
        if name == "function":
            return "a function of Python"
        if name == "prior":
            return BetaFamily().public_prior(BetaFamily().prior(self.prior))
        return super().plain(name, value, form)

    def read(self, data: Any) -> tuple[Fraction, int]:
        """The sum of the numbers in [0, 1], and how many there are."""
        if self.function is not None:
            return _sum_of(self.function, data, *as_bounds(self.bounds or (0, 1), "one record"))
        bounds = as_bounds(self.bounds, "one record")
        summed = clipped_sum(data, column=self.column, bounds=bounds, missing=self.missing, **self.reading)
        return Fraction(summed.grid_sum, summed.steps), summed.n

    def sampler(self, n: int) -> PosteriorSampler:
        """The sampler, calibrated for n records."""
        return self.calibrated("beta", n, prior=self.prior)

    def finished(self, sample: Sample) -> Sample:
        """The sample in the units of the bounds."""
        return sample if self.bounds is None else replace(sample, bounds=as_bounds(self.bounds, "one record"))


def _sum_of(function: Callable[[Any], float], records: Any, low: float, high: float) -> tuple[Fraction, int]:
    if isinstance(records, str | bytes | os.PathLike | Mapping) or hasattr(records, "columns"):
        raise InvalidInput(
            "a function takes records one by one: give a list or a column of them, not a table"
        )
    if not isinstance(records, Iterable):
        raise InvalidInput("data must be a sequence of records")
    total, number = 0, 0
    for record in records:
        number += 1
        try:
            value = float(function(record))
        except Exception:
            value = math.nan
        if math.isnan(value):
            raise DataError("the function must give a number for every record; for at least one it did not")
        share = (min(high, max(low, value)) - low) / (high - low)
        total += min(_STEPS, round(share * _STEPS))
    return Fraction(total, _STEPS), number
