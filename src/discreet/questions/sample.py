"""Draws from a posterior: of a mean, a rate, or proportions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

from discreet._registry import FAMILIES
from discreet._typing import EpsilonLike
from discreet.data import Contribution
from discreet.declarations import Domain, as_positive, as_size
from discreet.errors import InvalidInput
from discreet.posterior_sampling.family import Family
from discreet.posterior_sampling.sample import DRAW_METHODS, Sample
from discreet.posterior_sampling.sampler import PosteriorSampler, as_family, check_target, posterior_sampler
from discreet.questions.base import Bound, PeopleQuestion, Question, optional, parameter
from discreet.questions.text import (
    BUDGET,
    LEVEL,
    LEVELS,
    NUMBER,
    NUMBERS,
    OPTIONS,
    PAIR,
    TEXT,
    WHOLE,
    TextForm,
    plain,
)


@dataclass(frozen=True, kw_only=True)
class TargetQuestion(Question):
    """A question whose target is (ε, δ), or Rényi privacy of an order."""

    delta: EpsilonLike | None = optional(
        BUDGET, "(epsilon, delta) privacy: such as 1e-6.", label="δ", example="1e-6"
    )
    order: float | None = optional(
        NUMBER, "Rényi privacy of this order instead of delta: such as 10.", label="Rényi order"
    )


@dataclass(frozen=True, kw_only=True)
class DrawQuestion(TargetQuestion, PeopleQuestion):
    """What questions that are answered by posterior draws share: target, method, whose records they are."""

    epsilon: EpsilonLike | None = optional(
        BUDGET, "Privacy budget, with delta or order.", label="Privacy budget ε", example="1"
    )
    method: str = parameter(
        TEXT,
        "How the posterior is spread out: direct, diffused or concentrated.",
        default="diffused",
        choices=tuple(DRAW_METHODS),
    )
    bounds: tuple[float, float] | None = optional(
        PAIR,
        "Declared bounds of one record: 0,120. What lies outside is clipped.",
        label="Bounds of one record",
        example="0,120",
    )
    draws: int = parameter(WHOLE, "Number of draws; each is charged.", default=1)
    column: str | None = optional(TEXT, "The column to read; CSV and TSV always need it.", example="age")

    def __post_init__(self) -> None:
        """Checks the target, the number of draws and the bound on records of a person."""
        self.check_total()
        check_target(self.method, self.epsilon, self.order, self.delta)
        as_positive(self.draws, "draws")
        Contribution(self.person, self.per_person, self.n)
        _ = self.declared_size

    @property
    def declared_size(self) -> int | None:
        """The public number of records, where it was declared."""
        return None if self.n is None else as_size(self.n)

    def size_of(self, statistic: tuple[Any, int]) -> int:
        """The number of records."""
        return statistic[1]

    @property
    def reading(self) -> dict[str, Any]:
        """How records are bounded while they are summed."""
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

    def finished(self, sample: Sample) -> Sample:
        """The sample with what the question knows of it."""
        return sample

    def calibrated(self, family: str | Family, n: int, **more: Any) -> PosteriorSampler:
        """A sampler for the target of this question, whose guarantee says which column tells people apart."""
        target: dict[str, Any] = {"epsilon": self.epsilon, "order": self.order, "delta": self.delta}
        found = posterior_sampler(self.method, family, n=n, per_person=self.per_person, **target, **more)
        if self.person is None or self.per_person is None:
            return found
        assumptions = (Contribution.assumption(self.per_person, self.person),)
        named = replace(found.guarantee, assumptions=assumptions, unit=self.person)
        return replace(found, guarantee=named)

    def bind(self, size: int) -> Bound:
        """The calibrated sampler; several draws compose."""
        sampler = self.sampler(as_size(size))

        def make(found: tuple[Any, int]) -> Sample:
            statistic, number = found
            if number != sampler.n:
                raise InvalidInput(f"n={sampler.n} was declared but the data have another number of records")
            return self.finished(sampler.release(statistic, self.draws))

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
    other: Any = optional(LEVEL, "Level that receives values outside the levels.", label="Other values")
    missing: Any = optional(LEVEL, "What a missing value counts as.", label="Missing values")
    grid: EpsilonLike | None = optional(
        BUDGET, "Width of the cells to which draws are rounded.", label="Grid of the draws"
    )
    options: Mapping[str, Any] | None = optional(
        OPTIONS, "Further options of the family: radius=1; dimension=3.", label="Options of the family"
    )

    @cached_property
    def model(self) -> Family:
        """The family with its options."""
        named = {"bounds": self.bounds, "sigma": self.sigma}
        given = {name: value for name, value in named.items() if value is not None}
        return as_family(self.family, {**given, **(self.options or {})})

    @classmethod
    def options_of(cls, given: Mapping[str, Any]) -> set[str]:
        """Options of the family that is named."""
        name = given.get("family")
        if not isinstance(name, str) or name not in FAMILIES:
            return set()
        return {field.name for field in fields(FAMILIES[name])} - {"bounds", "sigma"}

    def __post_init__(self) -> None:
        """Checks family, prior and what the records are."""
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
        if model.records not in ("levels", "vectors") and isinstance(self.missing, str):
            try:
                float(self.missing)
            except ValueError:
                raise InvalidInput(
                    f"missing={self.missing!r} must be a number for the family {model.name!r}"
                ) from None

    def plain(self, name: str, value: Any, form: TextForm) -> Any:
        """Family and prior as the model has them."""
        if name == "family":
            return plain(self.model.to_dict())
        return (
            plain(self.model.public_prior(self.model.prior(self.prior)))
            if name == "prior"
            else super().plain(name, value, form)
        )

    def read(self, data: Any) -> tuple[Any, int]:
        """The sufficient statistic, and the number of records."""
        missing = self.missing
        if self.model.records not in ("levels", "vectors") and isinstance(missing, str):
            missing = float(missing)
        given = {"levels": self.levels, "other": self.other, "missing": missing}
        kept = {name: value for name, value in given.items() if value is not None}
        return self.model.read(data, self.column, kept, **self.reading)

    def sampler(self, n: int) -> PosteriorSampler:
        """The sampler, calibrated for n records."""
        return self.calibrated(self.model, n, prior=self.prior, grid=self.grid)

    def finished(self, sample: Sample) -> Sample:
        """The sample with the names of its levels."""
        return sample if self.levels is None else replace(sample, levels=tuple(map(str, self.levels)))
