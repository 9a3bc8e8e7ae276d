"""Logistic regression by draws from a private posterior."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._typing import EpsilonLike
from discreet.data import read_rows
from discreet.data.rows import as_number
from discreet.declarations import Domain, as_bounds, as_size
from discreet.errors import DataError, InvalidInput
from discreet.questions.base import Bound, PeopleQuestion, optional, parameter, same
from discreet.questions.sample import TargetQuestion
from discreet.questions.text import BUDGET, LEVELS, LIMITS, NUMBER, TEXT, WHOLE
from discreet.regression.release import LogisticRelease


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
    epsilon: EpsilonLike = parameter(
        BUDGET, "Privacy budget, with delta or order.", label="Privacy budget ε", example="1"
    )
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
    draws: int = parameter(WHOLE, "Number of draws; each is charged.", default=1)
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
        """The declared bounds of each feature."""
        if not isinstance(self.features, Mapping) or not self.features:
            raise InvalidInput("features must map each column to its bounds, such as {'age': (0, 120)}")
        bounds = {column: as_bounds(limits, f"column {column!r}") for column, limits in self.features.items()}
        if self.outcome in bounds:
            raise InvalidInput(f"outcome={self.outcome!r} cannot be a feature too")
        return bounds

    @cached_property
    def _estimator(self) -> Any:
        from discreet.regression import PrivateLogisticRegression

        reach = math.sqrt(len(self.bounds)) if self.norm_bound is None else self.norm_bound
        return PrivateLogisticRegression(
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.order,
            method=self.method,
            prior_precision=self.prior_precision,
            norm_bound=reach,
            draws=self.draws,
            sampler=self.sampler,
            n=self.declared_size,
            classes=self._labels,
            multi_class="ovr" if len(self._labels) > 2 else None,
        )

    def __post_init__(self) -> None:
        """Checks classes, features and n."""
        _ = self._labels, self.bounds, self.declared_size

    @property
    def declared_size(self) -> int | None:
        """The public number of records, where it was declared."""
        return None if self.n is None else as_size(self.n)

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
        """The number of records."""
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
