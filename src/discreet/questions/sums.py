"""Questions that noisy sums answer: a mean, of all records or by group, and a regression from a formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from statistics import NormalDist
from typing import Any, ClassVar

from discreet._typing import EpsilonLike
from discreet.data import Contribution
from discreet.declarations import (
    EXCLUDE,
    Domain,
    Relation,
    as_bounds,
    as_epsilon,
    as_relation,
    as_size,
    as_target_delta,
    check_hidden_size,
)
from discreet.documents.answer import Answer
from discreet.errors import InvalidInput
from discreet.privacy.guarantee import Guarantee
from discreet.questions.asking import check_delta
from discreet.questions.base import Bound, PeopleQuestion, optional, parameter
from discreet.questions.text import BUDGET, DOMAINS, LEVEL, LEVELS, LIMITS, NUMBER, PAIR, RULES, TEXT
from discreet.questions.widths import NO_GUESS, Guess, Rehearsal, Width
from discreet.randomness.entropy import SeededEntropy
from discreet.regression.means import MeanDesign
from discreet.regression.newton.fit import Regression, regression
from discreet.regression.rehearsal import rehearsed


@dataclass(frozen=True, kw_only=True)
class SumsQuestion(PeopleQuestion):
    """A question that noisy sums answer: the size is constant, as the price does not depend on it."""

    relation: str = parameter(
        TEXT, "What is protected.", default="replace-one", choices=("replace-one", "add-remove")
    )

    @property
    def declared_size(self) -> int:
        return 0

    def size_of(self, statistic: Any) -> int:
        return 0

    def bound(self, guarantee: Guarantee, make: Callable[[Any], Answer]) -> Bound:
        """A number of records that was not declared is known with the answer: only then is δ compared."""

        def checked(statistic: Any) -> Answer:
            made = make(statistic)
            check_delta(guarantee, getattr(made, "n", None))
            return made

        return Bound(guarantee, checked)


@dataclass(frozen=True, kw_only=True)
class MeanQuestion(SumsQuestion):
    """The mean of a column of numbers between declared bounds."""

    kind: ClassVar[str] = "mean"
    verb: ClassVar[str] = "mean"
    title: ClassVar[str] = "A mean"
    sentence: ClassVar[str] = "Release a private mean of a bounded column, with its standard deviation."

    bounds: tuple[float, float] = parameter(
        PAIR, "Declared bounds of one record: 0,120. What lies outside is clipped.", example="0,120"
    )
    epsilon: EpsilonLike = parameter(BUDGET, "Privacy budget.", example="0.5")
    delta: EpsilonLike | None = optional(BUDGET, "For (ε, δ) privacy, such as 1e-6; pure ε without it.")
    column: str | None = optional(TEXT, "The column to read; CSV and TSV always need it.", example="age")
    by: str | None = optional(TEXT, "A column of groups, which may be private.", label="By group")
    levels: Sequence[Any] | Domain | None = optional(
        LEVELS, "All groups: north,south.", label="Groups", example="north,south"
    )
    missing: Any = optional(
        LEVEL, "The number that a missing value counts as; exclude: the mean among those who answered."
    )

    @cached_property
    def design(self) -> MeanDesign:
        if (self.by is None) != (self.levels is None):
            raise InvalidInput("by=COLUMN and levels=(…) go together: the groups are declared")
        kind = as_relation(self.relation)
        if kind not in (Relation.REPLACE_ONE, Relation.ADD_REMOVE):
            raise InvalidInput(
                f"relation={self.relation!r} must be 'replace-one' or 'add-remove'; people are protected "
                "with person=… and per_person=…"
            )
        if kind is Relation.ADD_REMOVE:
            check_hidden_size(self.n, self.person)
        size = None if self.n is None else as_size(self.n)
        bound, groups, delta = Contribution(self.person, self.per_person, size), self.levels, self.delta
        self.check_total()
        missing = self.place_of_missing(self.missing)
        if isinstance(missing, str) and missing != "exclude":
            try:
                missing = float(missing)
            except ValueError:
                raise InvalidInput(f"missing={missing!r} must be a number, or 'exclude'") from None
        return MeanDesign(
            column=self.column,
            bounds=as_bounds(self.bounds, "one record"),
            epsilon=as_epsilon(self.epsilon),
            delta=None if delta is None else as_target_delta(delta, size or 1, "leave delta out"),
            by=self.by,
            groups=groups if groups is None or isinstance(groups, Domain) else Domain(groups),
            missing=missing,
            n=size,
            relation=kind,
            person=self.person,
            per_person=bound.per_person,
            strict=self.strict,
        )

    def __post_init__(self) -> None:
        _ = self.design.grid, self.design.noise

    def read(self, data: Any) -> Any:
        return self.design.sums(data)

    def rehearse(self, n: int, level: float, seed: int, guess: Guess = NO_GUESS) -> Rehearsal:
        """Values around the middle, whose deviation is ``typical`` or a quarter of the range."""
        design = self.design
        told = guess.told(design.excludes)
        low, high = design.bounds
        deviation = (high - low) / 4 if guess.typical is None else float(guess.typical)
        if not 0 < deviation <= (high - low) / 2:
            raise InvalidInput(
                f"typical={guess.typical!r} must be a standard deviation that the bounds allow"
            )
        groups = [None] if design.groups is None else list(design.groups.levels)
        count = max(1, guess.answered(n, design.excludes) // len(groups))
        square = round(count * (deviation / (high - low) * design.noise.steps) ** 2)
        made = design.answer(dict.fromkeys(groups, (count, 0, square)), n, SeededEntropy(seed))
        parts = (made,) if design.groups is None else made.means
        ends = [one.interval(level) for one in parts]
        return Rehearsal(
            (f"mean of {self.column or 'value'}",) if design.groups is None else tuple(map(str, groups)),
            tuple((right - left) / 2 for left, right in ends),
            tuple(max(0.0, 1 - deviation**2 / count / one.std() ** 2) for one in parts),
            told,
        )

    def expected_width(self, size: Any = None, level: float = 0.95) -> Width:
        """Of the mean of records whose standard deviation is a quarter of the range, in equal groups."""
        n, (low, high) = as_size(size or self.n or 0), self.design.bounds
        found = [self.rehearse(n, level=level, seed=seed) for seed in range(4)]
        groups = len(found[0].names)
        half = sum(sum(one.widths) for one in found) / 4 / groups
        answered = max(1, NO_GUESS.answered(n, self.design.excludes) // groups)
        without = NormalDist().inv_cdf((1 + level) / 2) * (high - low) / 4 / math.sqrt(answered)
        return Width(half, without, self.column or "value", "records that spread over the bounds")

    def bind(self, size: int) -> Bound:
        return self.bound(self.design.guarantee, lambda found: self.design.answer(*found))


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
    epsilon: EpsilonLike = parameter(BUDGET, "Privacy budget.", example="1")
    delta: EpsilonLike = parameter(
        BUDGET, "The δ of the guarantee, far below 1/n: such as 1e-6.", example="1e-6"
    )
    prior: Mapping[str, tuple[float, float]] | None = optional(
        LIMITS,
        "Prior mean and standard deviation of coefficients by name: age=0,1.",
        label="Prior of coefficients",
    )
    missing: Mapping[str, Any] | None = optional(
        RULES, "What a missing value of a column counts as: age=exclude; sex=f."
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
        assumed = "records that spread over the bounds and explain nothing"
        return found.width(found.widest, found.names[found.widest], assumed)

    def bind(self, size: int) -> Bound:
        return self.bound(self.asked.guarantee, lambda data: self.asked.fit(data, self.person))
