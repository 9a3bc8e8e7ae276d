"""Posterior draws: release a draw from the posterior itself, whose spread hides each record."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from discreet._data import Contribution, clipped_sum, read_rows
from discreet._data.rows import as_number
from discreet._declarations import EXCLUDE, as_choice, as_positive, as_size, people_assumption
from discreet._registry import FAMILIES, SENTENCES
from discreet._text import nearest
from discreet.errors import DataError, InvalidInputError
from discreet.posterior_sampling.family import Family, public_prior
from discreet.posterior_sampling.sample import DRAW_METHODS, Sample
from discreet.posterior_sampling.sampler import PosteriorSampler, as_family, check_target, posterior_sampler
from discreet.questions._request import PricedRequest, Request, refuse_weight
from discreet.questions._text import NUMBERS, OPTIONS, TEXT, optional, parameter, plain
from discreet.questions.base import Question
from discreet.regression._newton.design import formula_columns
from discreet.regression.release import LogisticRelease
from discreet.schema import Category, Number, Schema

LOGISTIC_OPTIONS = ("prior_precision", "norm_bound", "sampler")
_COMMON_OPTIONS = ("draws", "order", "grid")
BOUNDED_MEAN = "bounded-mean"
"""The family of a number in declared bounds: a Beta posterior of its mean, in the units of the bounds."""


@dataclass(frozen=True)
class Draw(Question):
    """Ask for draws from a posterior, made private by its own spread (Geumlek, Song and Chaudhuri, 2017).

    Parameters
    ----------
    column : str
        A column, or a formula such as ``"smoker ~ age + hours"`` for draws of logistic coefficients.
    method : {"diffused", "concentrated", "direct"}
        How the posterior is made private: ``diffused`` gives the records less weight, ``concentrated`` gives
        the prior more weight, and ``direct`` changes neither.
    family : str, optional
        The model of one record; by default ``"dirichlet"`` for a category and ``"bounded-mean"`` for a
        number. See :func:`discreet.posterior_sampler` for the others.
    prior : optional
        Parameters of the prior; by default 1 for each value.
    epsilon, delta : number
        The privacy budget; in place of ``delta``, ``options={"order": 10}`` asks for Rényi privacy.
    options : mapping, optional
        ``draws`` (each is charged), ``order``, ``grid``, and options of the family such as ``sigma``.

    Examples
    --------
    >>> Draw("smoker", epsilon=0.5, delta="1e-6").method
    'diffused'
    """

    kind: ClassVar[str] = "draw"
    title: ClassVar[str] = "Posterior draw"
    sentence: ClassVar[str] = SENTENCES["draw"]

    column: str | None = parameter(
        TEXT, "The column, or a formula: smoker ~ age + hours.", example="smoker", default=None
    )
    method: str = parameter(
        TEXT,
        "diffused gives records less weight, concentrated gives the prior more, direct does neither.",
        default="diffused",
        choices=tuple(DRAW_METHODS),
        kw_only=True,
    )
    family: str | Family | None = optional(
        TEXT,
        "The model: dirichlet, beta, gaussian, normal, poisson, exponential, binomial, geometric.",
        choices=lambda: tuple(FAMILIES),
        kw_only=True,
    )
    prior: Any = optional(
        NUMBERS, "Parameters of the prior: 1,1 or, for a mean, 0,10 (mean, sd).", kw_only=True
    )
    options: Mapping[str, Any] | None = optional(
        OPTIONS, "draws=1; order=10; sigma=20 and other options of the family.", kw_only=True
    )

    def __post_init__(self) -> None:
        as_choice(self.method, DRAW_METHODS, "method")
        as_positive(self.draws, "draws")

    def option(self, name: str) -> Any:
        """Return an option, or None if it was not given.

        Parameters
        ----------
        name : str
            The name of the option.

        Returns
        -------
        object

        Examples
        --------
        >>> Draw("smoker", epsilon=1, options={"order": 10}).option("order")
        10
        """
        return (self.options or {}).get(name)

    @property
    def needs_delta(self) -> bool:
        """Whether δ is needed; Rényi privacy and a direct draw without a target need none."""
        return self.option("order") is None and (self.method != "direct" or self.epsilon is not None)

    @property
    def draws(self) -> int:
        """The number of draws."""
        return 1 if self.option("draws") is None else int(self.option("draws"))

    @property
    def is_formula(self) -> bool:
        """Whether coefficients of a regression are drawn."""
        return self.column is not None and "~" in self.column

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the column, or the columns of the formula.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str
        """
        if self.is_formula:
            return formula_columns(str(self.column), schema.columns)
        return (schema.only() if self.column is None else self.column,)

    def normalise(self, schema: Schema) -> dict[str, Any]:
        """Return the family and the prior as the model stores them.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        dict

        Examples
        --------
        >>> from discreet import Schema
        >>> schema = Schema({"smoker": ["no", "yes"]}, n=1000)
        >>> Draw("smoker", epsilon=1, delta="1e-6").normalise(schema)
        {'family': {'name': 'dirichlet'}, 'prior': [1.0, 1.0]}
        """
        if self.is_formula:
            return {}
        request = self.request(schema)
        assert isinstance(request, PosteriorDraw)
        prior = public_prior(request.model.prior(request.prior))
        return {"family": plain(request.model.to_dict()), "prior": plain(prior)}

    def request(self, schema: Schema) -> Request:
        """Return the posterior to draw from, calibrated once the number of records is known.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        Request

        Raises
        ------
        InvalidInputError
            If the schema does not make n public, declares a weight, or the target is incomplete.

        Examples
        --------
        >>> from discreet import Schema
        >>> request = Draw("age", epsilon=1, delta="1e-6").request(Schema({"age": (0, 120)}, n=500))
        >>> request.price().epsilon
        1.0
        """
        check_target(self.method, self.epsilon, self.option("order"), self.delta)
        if schema.hides_size:
            raise InvalidInputError(
                "a posterior draw is calibrated for a public number of records: declare n"
            )
        refuse_weight(schema, "a posterior draw takes unweighted records: leave it out of the schema")
        if self.is_formula:
            return LogisticDraw(schema=schema, question=self)
        column = self.columns_used(schema)[0]
        declared = schema.column(column)
        if isinstance(declared, Number) and (
            self.family is None or (isinstance(self.family, str) and self.family == BOUNDED_MEAN)
        ):
            return BoundedMeanDraw(schema=schema, question=self)
        return PosteriorDraw(schema=schema, question=self)


@dataclass(frozen=True, kw_only=True)
class PosteriorDraw(Request):
    """Draws from the posterior of a conjugate family."""

    question: Draw

    @cached_property
    def column(self) -> str:
        """The column that is read."""
        return self.question.columns_used(self.schema)[0]

    @property
    def name(self) -> str | None:
        """The column, as reports name it."""
        return None if self.schema.nameless else self.column

    @cached_property
    def prior(self) -> Any:
        """The prior of the question; by default 1 for each value of a category."""
        if self.question.prior is not None:
            return self.question.prior
        declared = self.schema[self.column]
        if self.model.records == "levels" and isinstance(declared, Category):
            return (1.0,) * declared.domain.k
        if self.model.name == "beta":
            return (1.0, 1.0)
        raise InvalidInputError(
            f"is missing: give the parameters of the prior of family {self.model.name!r}", "prior"
        )

    @cached_property
    def model(self) -> Family:
        """The conjugate family."""
        family, declared = self.question.family, self.schema[self.column]
        if family is None:
            family = "dirichlet"
        if not isinstance(family, str):
            return as_family(family, self.options_of(None))
        if family not in FAMILIES:
            raise InvalidInputError(f"is unknown{nearest(family, FAMILIES)}", "family", family)
        family_fields = {field.name for field in fields(FAMILIES[family]) if field.init}
        family_options = self.options_of(family_fields)
        if "bounds" in family_fields and isinstance(declared, Number):
            family_options.setdefault("bounds", declared.bounds)
        return as_family(family, family_options)

    def options_of(self, allowed: Collection[str] | None) -> dict[str, Any]:
        """Return the options of the family.

        Parameters
        ----------
        allowed : collection of str, optional
            The names that are allowed; None allows all.

        Returns
        -------
        dict

        Raises
        ------
        InvalidInputError
            If an option is not allowed.
        """
        family_options = {k: v for k, v in (self.question.options or {}).items() if k not in _COMMON_OPTIONS}
        for name in family_options:
            if allowed is not None and name not in allowed:
                raise InvalidInputError(
                    f": {name!r} is unknown{nearest(name, {*allowed, *_COMMON_OPTIONS})}", "options"
                )
        return family_options

    def __post_init__(self) -> None:
        schema, model = self.schema, self.model
        model.prior(self.prior)
        excludes = model.records != "vectors" and schema[self.column].missing == EXCLUDE
        if model.records == "levels":
            excludes = schema.category(self.column).domain.excludes_missing
        elif not isinstance(schema[self.column], Number) and model.records != "vectors":
            schema.number(self.column)
        if excludes:
            raise InvalidInputError(
                f"column {self.column!r}: missing='exclude' cannot be used with a posterior draw; ask for "
                "proportions or a mean, or declare the value that missing ones count as"
            )
        if not schema.strict and (
            model.records == "vectors" or schema[self.column].missing in (None, EXCLUDE)
        ):
            raise InvalidInputError(
                f"strict=False counts invalid values of {self.column!r} as missing: declare missing=, the "
                "value that these count as"
            )
        Contribution(schema.person, schema.per_person, schema.size)

    @property
    def reading(self) -> dict[str, Any]:
        """The arguments that bound the records of each person while they are read."""
        schema = self.schema
        if schema.person is None:
            return {} if schema.strict else {"strict": False}
        return {"person": schema.person, "per_person": schema.per_person, "n": schema.size}

    def read(self, data: Any) -> tuple[Any, int]:
        """Return the sufficient statistic and the number of records.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.

        Returns
        -------
        tuple
        """
        reading_rules: dict[str, Any] = {"missing": self.schema[self.column].missing}
        if self.model.records == "levels":
            domain = self.schema.domain(self.column)
            reading_rules = {"levels": domain.levels, "other": domain.other, "missing": domain.missing}
        declared_rules = {name: value for name, value in reading_rules.items() if value is not None}
        return self.model.read(data, self.name, declared_rules, **self.reading)

    def size_of(self, statistic: tuple[Any, int]) -> int:
        """Return the number of records.

        Parameters
        ----------
        statistic : tuple
            What :meth:`read` returned.

        Returns
        -------
        int
        """
        return statistic[1]

    def sampler(self, n: int) -> PosteriorSampler:
        """Return the sampler, calibrated for n records.

        Parameters
        ----------
        n : int
            The number of records.

        Returns
        -------
        PosteriorSampler
        """
        return self.calibrate(self.model, n, prior=self.prior, grid=self.question.option("grid"))

    def labels(self) -> dict[str, Any]:
        """Return the labels of the released numbers.

        Returns
        -------
        dict
        """
        if self.model.records != "levels":
            return {}
        return {"levels": tuple(map(str, self.schema.domain(self.column).levels))}

    def calibrate(self, family: str | Family, n: int, **more: Any) -> PosteriorSampler:
        """Return a sampler that meets the target; if people are protected, its guarantee names their column.

        Parameters
        ----------
        family : str or Family
            The model of one record.
        n : int
            The number of records.
        **more
            Further arguments of :func:`discreet.posterior_sampler`.

        Returns
        -------
        PosteriorSampler
        """
        asked, person, most = self.question, self.schema.person, self.schema.per_person
        target = {"epsilon": asked.epsilon, "order": asked.option("order"), "delta": asked.delta}
        sampler = posterior_sampler(asked.method, family, n=n, per_person=most, **target, **more)
        if person is None or most is None:
            return sampler
        unnamed, named = (people_assumption(most, key) for key in (None, person))
        notes = tuple(named if text == unnamed else text for text in sampler.guarantee.assumptions)
        return replace(sampler, guarantee=replace(sampler.guarantee, assumptions=notes, unit=person))

    def bind(self, size: int) -> PricedRequest:
        """Return the guarantee of the draws, which compose, and the function that releases them.

        Parameters
        ----------
        size : int
            The public number of records.

        Returns
        -------
        PricedRequest

        Raises
        ------
        InvalidInputError
            When the answer is made, if the data have a different number of records than declared.
        """
        sampler, draws = self.sampler(as_size(size)), self.question.draws

        def _make(read: tuple[Any, int]) -> Sample:
            statistic, number = read
            if number != sampler.n:
                raise InvalidInputError(
                    f"n={sampler.n} was declared but the data have a different number of records"
                )
            return replace(sampler.release(statistic, draws), **self.labels())

        return PricedRequest(sampler.price(draws), _make)


@dataclass(frozen=True, kw_only=True)
class BoundedMeanDraw(PosteriorDraw):
    """A draw from the Beta posterior of the mean of a bounded column, in the units of its bounds."""

    @cached_property
    def prior(self) -> Any:
        return (1.0, 1.0) if self.question.prior is None else self.question.prior

    @cached_property
    def model(self) -> Family:
        return as_family("beta", self.options_of(()))

    def read(self, data: Any) -> tuple[Fraction, int]:
        """Return the sum of the numbers, scaled to [0, 1], and how many there are.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.

        Returns
        -------
        tuple of (Fraction, int)
        """
        number = self.schema.number(self.column)
        missing = None if number.missing is None else float(number.missing)
        summed = clipped_sum(data, column=self.name, bounds=number.bounds, missing=missing, **self.reading)
        return Fraction(summed.grid_sum, summed.steps), summed.n

    def labels(self) -> dict[str, Any]:
        return {"bounds": self.schema.number(self.column).bounds}


@dataclass(frozen=True, kw_only=True)
class LogisticDraw(Request):
    """Draws of the coefficients of a logistic regression, with declared classes and bounds."""

    question: Draw

    @cached_property
    def outcome(self) -> str:
        """The response column."""
        return str(self.question.column).partition("~")[0].strip()

    @cached_property
    def labels(self) -> list[str]:
        """The values of the outcome."""
        return [str(value) for value in self.schema.category(self.outcome, "formula").domain.levels]

    @cached_property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """The predictors with their bounds."""
        right = str(self.question.column).partition("~")[2]
        names = [part.strip() for part in right.split("+")]
        return {name: self.schema.number(name, "formula").bounds for name in names}

    @cached_property
    def estimator(self) -> Any:
        """The estimator that draws."""
        from discreet.regression import PrivateLogisticRegression

        asked = self.question
        options = dict(asked.options or {})
        allowed = (*_COMMON_OPTIONS, *LOGISTIC_OPTIONS)
        for name in options:
            if name not in allowed:
                raise InvalidInputError(f": {name!r} is unknown{nearest(name, allowed)}", "options")
        norm = options.get("norm_bound")
        return PrivateLogisticRegression(
            epsilon=asked.epsilon,
            delta=asked.delta,
            order=options.get("order"),
            method=asked.method,
            prior_precision=options.get("prior_precision", 1.0),
            draws=asked.draws,
            sampler=options.get("sampler", "auto"),
            norm_bound=math.sqrt(len(self.bounds)) if norm is None else norm,
            n=self.schema.size,
            classes=self.labels,
            multi_class="ovr" if len(self.labels) > 2 else None,
        )

    def __post_init__(self) -> None:
        _ = self.labels, self.bounds, self.estimator
        if not self.schema.strict or self.schema.person is not None:
            raise InvalidInputError(
                "draws of coefficients take neither strict=False nor person=; use 'regress'"
            )

    def read(self, data: Any) -> tuple[Any, Any]:
        """Return the scaled rows and the labels: this model needs the records themselves.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.

        Returns
        -------
        tuple of ndarray

        Raises
        ------
        DataError
            If a record has an undeclared outcome, or no number in a column.
        """
        rows = read_rows(data, [self.outcome, *self.bounds])
        labels = [str(row[0]) for row in rows]
        if any(label not in self.labels for label in labels):
            raise DataError(f"some records have an undeclared value in column {self.outcome!r}")
        values = np.array([[as_number(value) for value in row[1:]] for row in rows]).reshape(len(rows), -1)
        for index, column in enumerate(self.bounds):
            if len(rows) and np.isnan(values[:, index]).any():
                raise DataError(f"some records have no number in column {column!r}")
        low, high = (np.array(ends) for ends in zip(*self.bounds.values(), strict=True))
        return 2 * (np.clip(values, low, high) - low) / (high - low) - 1, np.array(labels)

    def size_of(self, statistic: tuple[Any, Any]) -> int:
        """Return the number of records.

        Parameters
        ----------
        statistic : tuple of ndarray
            What :meth:`read` returned.

        Returns
        -------
        int
        """
        return len(statistic[1])

    def bind(self, size: int) -> PricedRequest:
        """Return the estimator's guarantee, which does not depend on n, and the function that fits it.

        Parameters
        ----------
        size : int
            The public number of records.

        Returns
        -------
        PricedRequest
        """
        estimator = self.estimator

        def _make(statistic: tuple[Any, Any]) -> LogisticRelease:
            estimator.fit(*statistic)
            fitted: LogisticRelease = estimator.release_
            return replace(fitted, features=tuple(self.bounds), bounds=tuple(self.bounds.values()))

        return PricedRequest(estimator.price(self.question.draws), _make)
