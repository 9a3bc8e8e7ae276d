"""Questions that posterior draws answer: means, rates, proportions, and a logistic regression."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._registry import FAMILIES
from discreet._typing import EpsilonLike
from discreet.data import Contribution, clipped_sum, read_rows
from discreet.data.rows import as_number
from discreet.declarations import Domain, as_bounds, as_positive, as_size, people_assumption
from discreet.errors import DataError, InvalidInput, warn
from discreet.posterior_sampling.families.categorical import BetaFamily
from discreet.posterior_sampling.family import Family, public_prior
from discreet.posterior_sampling.sample import DRAW_METHODS, Sample
from discreet.posterior_sampling.sampler import PosteriorSampler, as_family, check_target, posterior_sampler
from discreet.questions.base import Bound, PeopleQuestion, Question, optional, parameter, same
from discreet.questions.text import (
    BUDGET,
    LEVEL,
    LEVELS,
    LIMITS,
    NUMBER,
    NUMBERS,
    OPTIONS,
    PAIR,
    TEXT,
    WHOLE,
    plain,
)
from discreet.regression.release import LogisticRelease

_STEPS = 2**32
_TRUTH = (bool, "bool")


@dataclass(frozen=True, kw_only=True)
class TargetQuestion(Question):
    """A question whose target is (ε, δ), or Rényi privacy of an order."""

    delta: EpsilonLike | None = optional(BUDGET, "(epsilon, delta) privacy: such as 1e-6.", example="1e-6")
    order: float | None = optional(
        NUMBER, "Rényi privacy of this order instead of delta: such as 10.", label="Rényi order"
    )


@dataclass(frozen=True, kw_only=True)
class DrawQuestion(TargetQuestion, PeopleQuestion):
    """What questions that are answered by posterior draws share: target, method, whose records they are."""

    epsilon: EpsilonLike | None = optional(BUDGET, "Privacy budget, with delta or order.", example="1")
    method: str = parameter(
        TEXT,
        "How the posterior is spread out: direct, diffused or concentrated.",
        default="diffused",
        choices=tuple(DRAW_METHODS),
    )
    bounds: tuple[float, float] | None = optional(
        PAIR, "Declared bounds of one record: 0,120. What lies outside is clipped.", example="0,120"
    )
    draws: int = parameter(WHOLE, "Number of draws; each is charged.", default=1)
    column: str | None = optional(TEXT, "The column to read; CSV and TSV always need it.", example="age")

    def __post_init__(self) -> None:
        self.check_total()
        check_target(self.method, self.epsilon, self.order, self.delta)
        as_positive(self.draws, "draws")
        Contribution(self.person, self.per_person, self.n)
        _ = self.declared_size

    def size_of(self, statistic: tuple[Any, int]) -> int:
        return statistic[1]

    @property
    def reading(self) -> dict[str, Any]:
        if self.person is None:
            return {} if self.strict else {"strict": False}
        return {"person": self.person, "per_person": self.per_person, "n": self.n}

    def check_total(self) -> None:
        """Draws are calibrated to a public number of values, so none is left out: missing ones count."""
        super().check_total()
        if not self.strict and getattr(self, "missing", None) is None:
            raise InvalidInput(
                "strict=False needs missing=: what a missing value, and one that is not declared, counts as"
            )

    @abstractmethod
    def sampler(self, n: int) -> PosteriorSampler:
        """The sampler, calibrated for n records."""

    def named(self) -> dict[str, Any]:
        """What the question knows of its sample."""
        return {}

    def calibrated(self, family: str | Family, n: int, **more: Any) -> PosteriorSampler:
        """A sampler for the target of this question, whose guarantee says which column tells people apart."""
        target: dict[str, Any] = {"epsilon": self.epsilon, "order": self.order, "delta": self.delta}
        found = posterior_sampler(self.method, family, n=n, per_person=self.per_person, **target, **more)
        if self.person is None or self.per_person is None:
            return found
        unnamed, named = (people_assumption(self.per_person, key) for key in (None, self.person))
        assumptions = tuple(named if text == unnamed else text for text in found.guarantee.assumptions)
        guarantee = replace(found.guarantee, assumptions=assumptions, unit=self.person)
        return replace(found, guarantee=guarantee)

    def bind(self, size: int) -> Bound:
        """The calibrated sampler; several draws compose."""
        sampler = self.sampler(as_size(size))

        def make(found: tuple[Any, int]) -> Sample:
            statistic, number = found
            if number != sampler.n:
                raise InvalidInput(f"n={sampler.n} was declared but the data have another number of records")
            return replace(sampler.release(statistic, self.draws), **self.named())

        return Bound(sampler.price(self.draws), make)


@dataclass(frozen=True, kw_only=True)
class PosteriorDraw(DrawQuestion):
    """Draws from the posterior of a conjugate family."""

    kind: ClassVar[str] = "sample"
    verb: ClassVar[str] = "posterior_sample"
    title: ClassVar[str] = "Posterior draw"
    sentence: ClassVar[str] = (
        "Release draws from a posterior of a mean, a rate or proportions, whose spread hides each record."
    )

    family: str | Family = parameter(
        TEXT,
        "The model: beta, dirichlet, gaussian, normal, poisson, exponential, binomial, geometric.",
        example="gaussian",
        choices=lambda: tuple(FAMILIES),
    )
    prior: Any = parameter(
        NUMBERS, "Parameters of the prior: 1,1 or, for a mean, 0,10 (mean, sd).", example="0,10"
    )
    sigma: float | None = optional(
        NUMBER,
        "Known standard deviation of one record (gaussian).",
        label="Standard deviation of one record",
        example="20",
    )
    levels: Sequence[Any] | None = optional(
        LEVELS, "All values a record may take (dirichlet).", example="never,former,current"
    )
    other: Any = optional(LEVEL, "Level that receives values outside the levels.")
    missing: Any = optional(LEVEL, "What a missing value counts as.")
    grid: EpsilonLike | None = optional(
        BUDGET, "Width of the cells to which draws are rounded.", label="Grid of the draws"
    )
    options: Mapping[str, Any] | None = optional(
        OPTIONS, "Further options of the family: radius=1; dimension=3.", label="Options of the family"
    )

    @cached_property
    def model(self) -> Family:
        named = {"bounds": self.bounds, "sigma": self.sigma}
        given = {name: value for name, value in named.items() if value is not None}
        return as_family(self.family, {**given, **(self.options or {})})

    @classmethod
    def options_of(cls, given: Mapping[str, Any]) -> set[str]:
        name = given.get("family")
        if not isinstance(name, str) or name not in FAMILIES:
            return set()
        return {field.name for field in fields(FAMILIES[name])} - {"bounds", "sigma"}

    def __post_init__(self) -> None:
        super().__post_init__()
        model = self.model
        model.prior(self.prior)
        if model.records == "levels" and self.levels is None:
            raise InvalidInput("levels are missing: declare every value that a record may take")
        if model.records == "levels" and Domain(self.levels or (), self.other, self.missing).excludes_missing:
            raise InvalidInput(
                "missing='exclude' does not go with a posterior draw; discreet.release(…) leaves values out"
            )
        if model.records == "vectors" and not self.strict:
            raise InvalidInput("strict=False does not go with vectors: a row that is no vector has no place")
        if model.records != "levels" and (self.levels is not None or self.other is not None):
            raise InvalidInput(f"levels and other belong to the family 'dirichlet', not to {model.name!r}")
        _ = self._missing

    @property
    def _missing(self) -> Any:
        """A number where records are numbers, also if it was written as text."""
        if self.model.records in ("levels", "vectors") or not isinstance(self.missing, str):
            return self.missing
        try:
            return float(self.missing)
        except ValueError:
            raise InvalidInput(
                f"missing={self.missing!r} must be a number for the family {self.model.name!r}"
            ) from None

    def normalised(self) -> dict[str, Any]:
        """Family and prior as the model has them."""
        prior = public_prior(self.model.prior(self.prior))
        return {"family": plain(self.model.to_dict()), "prior": plain(prior)}

    def read(self, data: Any) -> tuple[Any, int]:
        """The sufficient statistic, and the number of records."""
        given = {"levels": self.levels, "other": self.other, "missing": self._missing}
        kept = {name: value for name, value in given.items() if value is not None}
        return self.model.read(data, self.column, kept, **self.reading)

    def sampler(self, n: int) -> PosteriorSampler:
        return self.calibrated(self.model, n, prior=self.prior, grid=self.grid)

    def named(self) -> dict[str, Any]:
        return {} if self.levels is None else {"levels": tuple(map(str, self.levels))}


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
    missing: float | None = optional(NUMBER, "The number that a missing value counts as.")
    function: Callable[[Any], float] | None = optional(
        TEXT, "A function of one record with values within the bounds, or in [0, 1].", python=True
    )

    def __post_init__(self) -> None:
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

    def normalised(self) -> dict[str, Any]:
        """A plan cannot contain a function: the request id names it."""
        prior = public_prior(BetaFamily().prior(self.prior))
        return {"function": "a function of Python", "prior": prior}

    def read(self, data: Any) -> tuple[Fraction, int]:
        """The sum of the numbers in [0, 1], and how many there are."""
        if self.function is not None:
            return _sum_of(self.function, data, *as_bounds(self.bounds or (0, 1), "one record"))
        bounds = as_bounds(self.bounds, "one record")
        summed = clipped_sum(data, column=self.column, bounds=bounds, missing=self.missing, **self.reading)
        return Fraction(summed.grid_sum, summed.steps), summed.n

    def sampler(self, n: int) -> PosteriorSampler:
        return self.calibrated("beta", n, prior=self.prior)

    def named(self) -> dict[str, Any]:
        return {} if self.bounds is None else {"bounds": as_bounds(self.bounds, "one record")}


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


@dataclass(frozen=True, kw_only=True)
class Logistic(TargetQuestion):
    """Coefficients of a logistic regression of one column on others."""

    kind: ClassVar[str] = "logistic"
    verb: ClassVar[str] = "release_logistic"
    title: ClassVar[str] = "Logistic regression"
    sentence: ClassVar[str] = "Release draws of the coefficients of a private logistic regression."

    outcome: str = parameter(TEXT, "The column that is explained.", example="smoker")
    classes: Sequence[Any] = parameter(LEVELS, "All values of the outcome: no,yes.", example="no,yes")
    features: Mapping[str, tuple[float, float]] = parameter(
        LIMITS,
        "Each explaining column with its declared bounds: age=0,120; bmi=10,60.",
        label="Features and their bounds",
        example="age=0,120; bmi=10,60",
    )
    epsilon: EpsilonLike = parameter(BUDGET, "Privacy budget, with delta or order.", example="1")
    method: str = parameter(
        TEXT,
        "How the posterior is spread out.",
        default="diffuse",
        choices=("diffuse", "concentrated", "direct"),
    )
    prior_precision: float = parameter(
        NUMBER, "Precision of the normal prior of each coefficient.", default=1.0
    )
    norm_bound: float | None = optional(
        NUMBER, "Rows are clipped to this length; √d, which clips none, if not given."
    )
    draws: int = same(DrawQuestion, "draws")
    sampler: str = parameter(
        TEXT,
        "How draws are made: exactly (rejection), or by steps that take the same time for all data.",
        default="auto",
        choices=("auto", "rejection", "langevin"),
    )
    n: int | None = same(PeopleQuestion, "n")

    @cached_property
    def _labels(self) -> list[str]:
        return [str(label) for label in Domain(self.classes).levels]

    @cached_property
    def bounds(self) -> dict[str, tuple[float, float]]:
        if not isinstance(self.features, Mapping) or not self.features:
            raise InvalidInput("features must map each column to its bounds, such as {'age': (0, 120)}")
        bounds = {column: as_bounds(limits, f"column {column!r}") for column, limits in self.features.items()}
        if self.outcome in bounds:
            raise InvalidInput(f"outcome={self.outcome!r} cannot be a feature too")
        return bounds

    @cached_property
    def _estimator(self) -> Any:
        from discreet.regression import PrivateLogisticRegression

        taken = ("epsilon", "delta", "order", "method", "prior_precision", "draws", "sampler")
        return PrivateLogisticRegression(
            **{name: getattr(self, name) for name in taken},
            norm_bound=math.sqrt(len(self.bounds)) if self.norm_bound is None else self.norm_bound,
            n=self.declared_size,
            classes=self._labels,
            multi_class="ovr" if len(self._labels) > 2 else None,
        )

    def __post_init__(self) -> None:
        _ = self._labels, self.bounds, self.declared_size

    def read(self, data: Any) -> tuple[Any, Any]:
        """Scaled rows and labels: a model of this kind needs the records themselves."""
        bounds = self.bounds
        rows = read_rows(data, [self.outcome, *bounds])
        found = [str(row[0]) for row in rows]
        strange = sum(label not in self._labels for label in found)
        if strange:
            raise DataError(f"{strange} of {len(rows)} records have an outcome outside the declared classes")
        values = np.array([[as_number(value) for value in row[1:]] for row in rows]).reshape(len(rows), -1)
        for index, column in enumerate(bounds):
            missing = int(np.isnan(values[:, index]).sum()) if len(rows) else 0
            if missing:
                raise DataError(f"{missing} of {len(rows)} records have no number in column {column!r}")
        low, high = (np.array(ends) for ends in zip(*bounds.values(), strict=True))
        return 2 * (np.clip(values, low, high) - low) / (high - low) - 1, np.array(found)

    def size_of(self, statistic: tuple[Any, Any]) -> int:
        return len(statistic[1])

    def bind(self, size: int) -> Bound:
        """The estimator's price, which does not depend on n."""
        estimator = self._estimator

        def make(statistic: tuple[Any, Any]) -> LogisticRelease:
            estimator.fit(*statistic)
            fitted: LogisticRelease = estimator.release_
            return replace(fitted, features=tuple(self.bounds), bounds=tuple(self.bounds.values()))

        return Bound(estimator.price(self.draws), make)

    def price(self, size: Any = None) -> Any:
        """The price does not depend on the number of records."""
        return super().price(1 if size is None and self.declared_size is None else size)
