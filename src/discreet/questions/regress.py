"""A regression from a formula, with intervals that account for the noise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from discreet._declarations import as_choice, as_epsilon
from discreet._registry import SENTENCES
from discreet._text import nearest
from discreet.errors import InvalidInputError
from discreet.questions._request import PricedRequest, Request, SumsRequest
from discreet.questions._text import LIMITS, OPTIONS, TEXT, optional, parameter
from discreet.questions.base import Question
from discreet.questions.widths import Guess, PlannedWidth
from discreet.regression._newton.design import formula_columns
from discreet.regression._newton.fit import Regression, regression
from discreet.regression._simulation import simulate_fit
from discreet.schema import OWN_BIN, Category, Number, Schema, Weight

FAMILIES = ("gaussian", "binomial", "multinomial", "poisson")


@dataclass(frozen=True)
class Regress(Question):
    """Ask for the coefficients of a regression.

    Parameters
    ----------
    formula : str
        The response and the predictors, such as ``"income ~ age + sex"``; every column is declared in the
        schema.
    family : {"gaussian", "binomial", "multinomial", "poisson"}
        The model of the response.
    epsilon, delta : number
        The privacy budget; δ should be far below 1/n, such as 1e-6.
    prior : mapping, optional
        Mean and standard deviation of coefficients by name, in the units of the columns. Without it
        coefficients have a weak prior.
    options : mapping, optional
        ``{"errors": "robust"}`` for a linear model whose errors may have unequal variances.

    Examples
    --------
    >>> Regress("hours ~ age + smoker", epsilon=1, delta="1e-6").family
    'gaussian'
    """

    kind: ClassVar[str] = "regress"
    title: ClassVar[str] = "Regression"
    sentence: ClassVar[str] = SENTENCES["regress"]

    formula: str = parameter(
        TEXT, "The response and the predictors: income ~ age + sex.", example="income ~ age + sex"
    )
    family: str = parameter(
        TEXT, f"One of {', '.join(FAMILIES)}.", default="gaussian", choices=FAMILIES, kw_only=True
    )
    prior: Mapping[str, tuple[float, float]] | None = optional(
        LIMITS,
        "Prior mean and standard deviation of coefficients by name: age=0,1.",
        label="Prior of coefficients",
        kw_only=True,
    )
    options: Mapping[str, Any] | None = optional(
        OPTIONS, "errors=robust where errors may have unequal variances (gaussian family).", kw_only=True
    )

    def __post_init__(self) -> None:
        as_choice(self.family, FAMILIES, "family")
        for name in self.options or {}:
            if name != "errors":
                raise InvalidInputError(f": {name!r} is unknown{nearest(name, ('errors',))}", "options")

    @property
    def needs_delta(self) -> bool:
        return True

    def columns_used(self, schema: Schema) -> tuple[str, ...]:
        """Return the columns of the formula.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        tuple of str

        Examples
        --------
        >>> from discreet import Schema
        >>> Regress("hours ~ age").columns_used(Schema({"hours": (0, 80), "age": (0, 120)}))
        ('hours', 'age')
        """
        return formula_columns(self.formula, schema.columns)

    def request(self, schema: Schema) -> Request:
        """Return the noisy sums that the regression is computed from.

        Parameters
        ----------
        schema : Schema
            What is public about the data.

        Returns
        -------
        RegressionSums

        Raises
        ------
        InvalidInputError
            If the schema declares clusters, a column is not declared, or δ is missing.

        Examples
        --------
        >>> from discreet import Schema
        >>> schema = Schema({"hours": (0, 80), "age": (0, 120)})
        >>> Regress("hours ~ age", epsilon=1, delta="1e-6").request(schema).price().epsilon
        1.0
        """
        if schema.cluster is not None:
            raise InvalidInputError(
                "is not used by regressions, whose intervals would then be too narrow: leave it out where "
                "records of a cluster are no more alike than others",
                "cluster",
                schema.cluster,
            )
        return RegressionSums(schema=schema, question=self)


@dataclass(frozen=True, kw_only=True)
class RegressionSums(SumsRequest):
    """The noisy sums from which a regression follows."""

    question: Regress

    def __post_init__(self) -> None:
        _ = self.regression.design

    @cached_property
    def regression(self) -> Regression:
        """The regression with its model, design and noise."""
        asked, schema = self.question, self.schema
        if asked.delta is None:
            raise InvalidInputError("is missing: a regression needs a δ far below 1/n, such as 1e-6", "delta")
        bounds, levels, missing = {}, {}, {}
        for name in asked.columns_used(schema):
            declared, rule = schema.column(name, "formula"), schema.missing(name)
            if rule == OWN_BIN:
                raise InvalidInputError(
                    f"column {name!r}: missing='bin' is for proportions; say 'exclude' here"
                )
            if rule is not None:
                missing[name] = rule
            if isinstance(declared, Number):
                bounds[name] = declared.bounds
            elif isinstance(declared, Category):
                levels[name] = schema.domain(name)
        weights: dict[str, Any] = {}
        if schema.weight is not None:
            declared = schema.column(schema.weight)
            assert isinstance(declared, Weight)
            weights = {"weight": schema.weight, "most": float(declared.most)}
            if not schema.strict:
                missing[schema.weight] = "exclude"
        model = regression(
            asked.formula,
            family=asked.family,
            bounds=bounds,
            levels=levels,
            epsilon=as_epsilon(asked.epsilon),
            delta=asked.delta,
            prior=asked.prior,
            missing=missing,
            n=schema.size,
            relation=str(self.relation),
            person=schema.person,
            per_person=schema.per_person,
            **weights,
            **(asked.options or {}),
        )
        if not schema.strict:
            for coder in model.design.coders.values():
                coder.accepting()
        return model

    def read(self, data: Any) -> Any:
        """Return the data themselves: a regression reads them several times.

        Parameters
        ----------
        data : list, array, table, mapping or path
            The records.

        Returns
        -------
        object
        """
        return data

    def simulate(self, n: int, level: float, seed: int, guess: Guess) -> PlannedWidth:
        """Return the widths of coefficients for simulated records.

        The columns are spread evenly over their bounds and do not explain the response.

        Parameters
        ----------
        n : int
            The number of records.
        level : float
            The probability of an interval, such as 0.95.
        seed : int
            Seed of the simulated records and noise.
        guess : Guess
            Assumptions about the records.

        Returns
        -------
        PlannedWidth
        """
        model = self.regression
        notes = guess.notes(model.design.excludes, regression=True)
        records = guess.number_answered(n, model.design.excludes)
        fit, shrink, split = simulate_fit(
            model, records, seed, guess.typical, float(guess.correlation), guess.spread, guess.shares
        )
        low, high = fit.interval(level)
        return PlannedWidth(
            tuple(map(model.term_in_words, fit.names)),
            tuple(float(width) * shrink for width in (high - low) / 2),
            tuple(map(float, fit.noise_share())),
            (*split, *notes),
            fit.warnings,
        )

    def bind(self, size: int) -> PricedRequest:
        """Return the guarantee, and the function that fits the model.

        Parameters
        ----------
        size : int
            Not used: the price does not depend on the number of records.

        Returns
        -------
        PricedRequest
        """
        model = self.regression
        return PricedRequest(model.guarantee, lambda data: model.fit(data, self.schema.person))
