"""Regression with error bars: linear, logistic, multinomial or Poisson, from a formula."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from discreet._typing import EpsilonLike
from discreet.declarations import EXCLUDE, as_size
from discreet.questions.base import Bound, SumsQuestion, optional, parameter
from discreet.questions.text import BUDGET, DOMAINS, LIMITS, NUMBER, RULES, TEXT
from discreet.questions.widths import NO_GUESS, Guess, Rehearsal, Width
from discreet.regression.newton.fit import Regression, regression
from discreet.regression.rehearsal import rehearsed


@dataclass(frozen=True, kw_only=True)
class Regress(SumsQuestion):
    """The coefficients of a regression, with intervals that know of the noise."""

    kind: ClassVar[str] = "regress"
    verb: ClassVar[str] = "regress"
    title: ClassVar[str] = "Regression"
    sentence: ClassVar[str] = "Release a private regression with intervals, from a formula."

    formula: str = parameter(
        TEXT, "What is explained by what: income ~ age + C(sex).", example="income ~ age + C(sex)"
    )
    family: str = parameter(
        TEXT,
        "The model of the outcome.",
        default="gaussian",
        choices=("gaussian", "binomial", "multinomial", "poisson"),
    )
    bounds: Mapping[str, tuple[float, float]] | None = optional(
        LIMITS,
        "Declared bounds of every number: age=16,100; hours=0,99.",
        label="Bounds of numbers",
        example="age=16,100",
    )
    levels: Mapping[str, Sequence[Any]] | None = optional(
        DOMAINS,
        "Declared levels of every category: sex=f,m.",
        label="Levels of categories",
        example="sex=f,m",
    )
    epsilon: EpsilonLike = parameter(BUDGET, "Privacy budget.", label="Privacy budget ε", example="1")
    delta: EpsilonLike = parameter(
        BUDGET, "The δ of the guarantee, far below 1/n: such as 1e-6.", label="δ", example="1e-6"
    )
    prior: Mapping[str, tuple[float, float]] | None = optional(
        LIMITS,
        "Prior mean and standard deviation of coefficients by name: age=0,1.",
        label="Prior of coefficients",
    )
    missing: Mapping[str, Any] | None = optional(
        RULES, "What a missing value of a column counts as: age=exclude; sex=f.", label="Missing values"
    )
    norm: float | None = optional(
        NUMBER,
        "Rows, of columns scaled to [−1, 1], are shortened to this length: less noise, another model.",
        label="Length of rows",
    )
    aim: str = parameter(
        TEXT,
        "intervals, or prediction, which takes more passes where many columns make curvature noisy.",
        default="intervals",
        choices=("intervals", "prediction"),
    )

    @cached_property
    def asked(self) -> Regression:
        """The regression with everything public fixed."""
        self.check_total()
        given = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "strict"}
        if self.strict:
            return regression(**given)
        left_out = dict.fromkeys([*(self.bounds or {}), *(self.levels or {})], EXCLUDE)
        made = regression(**{**given, "missing": {**left_out, **(self.missing or {})}})
        for coder in made.design.coders.values():
            coder.accepting()
        return made

    def __post_init__(self) -> None:
        """Every mistake of the declaration, before any data."""
        _ = self.asked.design

    def read(self, data: Any) -> Any:
        """The data themselves: a regression takes several passes over them."""
        return data

    def rehearse(self, n: int, level: float, seed: int, guess: Guess = NO_GUESS) -> Rehearsal:
        """Records whose columns are spread evenly and explain nothing."""
        told = guess.told(self.asked.design.excludes, columns=True)
        records = guess.answered(n, self.asked.design.excludes)
        fit, shrink, split = rehearsed(self.asked, records, seed, *guess[:3])
        low, high = fit.interval(level)
        return Rehearsal(
            fit.names,
            tuple(float(width) * shrink for width in (high - low) / 2),
            tuple(map(float, fit.noise_share())),
            (*split, *told),
            fit.warnings,
        )

    def expected_width(self, size: Any = None, level: float = 0.95) -> Width:
        """Of the widest coefficient but the intercept."""
        n = as_size(size or self.n or 0)
        found = Rehearsal.mean([self.rehearse(n, level=level, seed=seed) for seed in range(2)])
        at = found.widest
        half, share = found.widths[at], found.shares[at]
        assumed = "records that spread over the bounds and explain nothing"
        return Width(half, half * math.sqrt(1 - share), found.names[at], assumed)

    def bind(self, size: int) -> Bound:
        """The guarantee of all rounds together."""
        return Bound(self.asked.guarantee, lambda data: self.asked.fit(data, self.person))
