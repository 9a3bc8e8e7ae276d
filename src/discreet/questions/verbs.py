"""One function for each kind of question, which returns one answer without a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Never

from discreet._typing import EpsilonLike, SchemaLike
from discreet.questions._asking import BoundQuestion, warn_uncounted
from discreet.schema import as_schema

if TYPE_CHECKING:
    from discreet.answers.network import NetworkRelease
    from discreet.ledger.charging import Charge
    from discreet.posterior_sampling.family import Family
    from discreet.questions.base import Question
    from discreet.regression._newton.fit import Fit


def ask(data: Any, question: Question, *, schema: SchemaLike, charge: Charge | None = None) -> Any:
    """Answer a question of any kind about data.

    Parameters
    ----------
    data : list, array, table, mapping or path
        The records.
    question : Question
        The question, such as an instance of :class:`discreet.Proportions`.
    schema : Schema, mapping, or the declaration of one column
        What is public about the data.
    charge : Charge, optional
        The dataset in a ledger to charge, with a request id.

    Returns
    -------
    Answer

    Raises
    ------
    InvalidInputError
        If the question cannot be asked under this schema.
    DataError
        If the data do not have the declared columns or values.

    Examples
    --------
    >>> from discreet import Mean
    >>> age = ask([31.0, 44.0, 52.0] * 100, Mean(epsilon=1), schema=(0, 120))
    >>> age.names, age.guarantee.epsilon
    (('value',), 1.0)
    """
    from discreet.questions.base import check_question

    check_question(question)
    bound = BoundQuestion(question, as_schema(schema), data)
    if charge is None:
        warn_uncounted()
    return bound.answer(charge)


def proportions(
    data: Any,
    *columns: str,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    delta: EpsilonLike | None = None,
    by: str | None = None,
    prior: float | Sequence[float] | None = None,
    mechanism: str = "auto",
    options: Mapping[str, Any] | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> Any:
    """Release the private posterior of proportions: of a column, of a table, or within public groups.

    Parameters
    ----------
    data : list, array, table, mapping or path
        A list of values, a NumPy array, a table of pandas, Polars, Arrow, DuckDB or PySpark, a dict of
        columns, a mapping from value to count, or the path of a file.
    *columns : str
        One column, or several for the cells of their table; none where the schema declares only one.
    schema : Schema, mapping, or the declaration of one column
        What is public about the data; ``("no", "yes")`` for one list of values.
    epsilon, delta : number
        The privacy budget; δ for mechanisms that have one.
    by : str, optional
        A public column of groups; the shares are computed within each group, all for one ε.
    prior : float or sequence of float, optional
        The parameters of the Dirichlet prior: one number for all values, or one for each value.
    mechanism : str
        ``"auto"`` chooses by a rule on public parameters.
    options : mapping, optional
        Options of the mechanism.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    Answer
        Its ``mean()``, ``std()`` and ``interval(level)`` account for the noise.

    Examples
    --------
    >>> answers = ["no"] * 700 + ["yes"] * 300
    >>> smokers = proportions(answers, schema=("no", "yes"), epsilon=1)
    >>> smokers.guarantee.epsilon
    1.0
    """
    from discreet.questions.proportions import Proportions

    asked = Proportions(
        columns,
        by=by,
        epsilon=epsilon,
        delta=delta,
        prior=prior,
        mechanism=mechanism,
        options=options,
        **unknown,
    )
    return ask(data, asked, schema=schema, charge=charge)


def mean(
    data: Any,
    column: str | None = None,
    *,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    delta: EpsilonLike | None = None,
    by: str | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> Any:
    """Release the private mean of a bounded column, with its standard deviation.

    Parameters
    ----------
    data : list, array, table, mapping or path
        The records, as in :func:`discreet.proportions`.
    column : str, optional
        A column of numbers; may be left out where the schema declares only one.
    schema : Schema, mapping, or the bounds of one column
        What is public about the data; ``(0, 120)`` for one list of numbers.
    epsilon, delta : number
        The privacy budget; without ``delta`` the guarantee is pure ε.
    by : str, optional
        A column of groups; the mean is computed in each of them.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    Answer

    Examples
    --------
    >>> age = mean([31.0, 44.0, 52.0, 38.0] * 100, schema=(0, 120), epsilon=1)
    >>> low, high = age.interval(0.95)
    >>> bool(0 < low < high < 120)
    True
    """
    from discreet.questions.mean import Mean

    return ask(
        data, Mean(column, by=by, epsilon=epsilon, delta=delta, **unknown), schema=schema, charge=charge
    )


def quantiles(
    data: Any,
    column: str | None = None,
    probs: Sequence[float] = (0.25, 0.5, 0.75),
    *,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    by: str | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> Any:
    """Release private quantiles of a bounded column, several at once for one price.

    Parameters
    ----------
    data : list, array, table, mapping or path
        The records, as in :func:`discreet.proportions`.
    column : str, optional
        A column of numbers; may be left out where the schema declares only one.
    probs : sequence of float
        The probabilities, between 0 and 1.
    schema : Schema, mapping, or the bounds of one column
        What is public about the data; ``bins``, ``atoms`` and ``whole`` of a number define the cells in which
        it is counted.
    epsilon : number
        The privacy budget.
    by : str, optional
        A public column of groups; the quantiles are computed within each group, all for one ε.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    Answer
        Its ``cdf(values)`` is the distribution function, at no further price.

    Examples
    --------
    >>> hours = quantiles([38.0, 40.0, 42.0, 20.0] * 100, schema=(0, 80), epsilon=1)
    >>> len(hours.mean()), hours.guarantee.epsilon
    (3, 1.0)
    """
    from discreet.questions.quantiles import Quantiles

    return ask(
        data, Quantiles(column, probs, by=by, epsilon=epsilon, **unknown), schema=schema, charge=charge
    )


def survival(
    data: Any,
    time: str = "",
    event: str = "",
    *,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    by: str | None = None,
    bins: int | Sequence[float] | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> Any:
    """Release private survival curves of times to an event, some of them censored.

    Parameters
    ----------
    data : table, mapping or path
        The records, as in :func:`discreet.proportions`.
    time : str
        A column of numbers: the time of the event, or of the last observation without it.
    event : str
        A column of two values; the last one declared is the event, the first means censored.
    schema : Schema or mapping
        What is public about the data.
    epsilon : number
        The privacy budget.
    by : str, optional
        A column of groups; there is a curve for each group, all for one ε.
    bins : int or sequence of float, optional
        The number of time bins, or their edges.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    SurvivalAnswer
        Its ``band``, ``median``, ``restricted_mean``, ``difference`` and ``log_rank`` cost nothing more.

    Examples
    --------
    >>> from discreet import Schema
    >>> people = {"days": [100 + i % 700 for i in range(500)], "status": ["alive", "dead"] * 250}
    >>> schema = Schema({"days": (0, 1000), "status": ["alive", "dead"]}, n=500)
    >>> survival(people, "days", "status", schema=schema, epsilon=1).guarantee.epsilon
    1.0
    """
    from discreet.questions.survival import Survival

    return ask(
        data,
        Survival(time, event, by=by, bins=bins, epsilon=epsilon, **unknown),
        schema=schema,
        charge=charge,
    )


def regress(
    data: Any,
    formula: str = "",
    *,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    delta: EpsilonLike | None = None,
    family: str = "gaussian",
    prior: Mapping[str, tuple[float, float]] | None = None,
    options: Mapping[str, Any] | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> Fit:
    """Release a private regression with intervals that account for the noise.

    Parameters
    ----------
    data : table, mapping or path
        The records, as in :func:`discreet.proportions`.
    formula : str
        The response and the predictors, such as ``"income ~ age + sex"``.
    schema : Schema or mapping
        Bounds of every number and values of every category in the formula.
    epsilon, delta : number
        The privacy budget; δ should be far below 1/n, such as ``"1e-6"``.
    family : {"gaussian", "binomial", "multinomial", "poisson"}
        The model of the response.
    prior : mapping, optional
        Mean and standard deviation of coefficients by name, in the units of the columns.
    options : mapping, optional
        Options of the fit.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    Fit
        The coefficients, with ``summary()`` and ``interval(level)``.

    Examples
    --------
    >>> people = {"hours": [20.0 + i % 40 for i in range(500)], "age": [18.0 + i % 60 for i in range(500)]}
    >>> bounds = {"hours": (0, 80), "age": (0, 120)}
    >>> fit = regress(people, "hours ~ age", schema=bounds, epsilon=2, delta="1e-6")
    >>> fit.names
    ('Intercept', 'age')
    """
    from discreet.questions.regress import Regress

    asked = Regress(
        formula, family=family, epsilon=epsilon, delta=delta, prior=prior, options=options, **unknown
    )
    return ask(data, asked, schema=schema, charge=charge)  # type: ignore[no-any-return]


def draw(
    data: Any,
    column: str | None = None,
    *,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    delta: EpsilonLike | None = None,
    method: str = "diffused",
    family: str | Family | None = None,
    prior: Any = None,
    options: Mapping[str, Any] | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> Any:
    """Release draws from a posterior, made private by its own spread.

    Parameters
    ----------
    data : list, array, table, mapping or path
        The records, as in :func:`discreet.proportions`.
    column : str, optional
        A column, or a formula such as ``"smoker ~ age"`` for draws of logistic coefficients.
    schema : Schema, mapping, or the declaration of one column
        What is public about the data; n is declared or ``"public"``.
    epsilon, delta : number
        The privacy budget; in place of ``delta``, ``options={"order": 10}`` asks for Rényi privacy.
    method : {"diffused", "concentrated", "direct"}
        How the posterior is made private: ``diffused`` gives the records less weight, ``concentrated`` gives
        the prior more weight, and ``direct`` changes neither.
    family : str, optional
        The model of one record.
    prior : optional
        Parameters of the prior.
    options : mapping, optional
        ``draws``, ``order``, ``grid``, and options of the family such as ``sigma``.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    Answer
        Its ``values`` are the draws; ``mean()`` and ``interval(level)`` account for their randomness.

    Examples
    --------
    >>> from discreet import Schema
    >>> smokers = draw(
    ...     {"smoker": ["no", "yes"] * 100}, "smoker",
    ...     schema=Schema({"smoker": ["no", "yes"]}, n=200), epsilon=1, delta="1e-6",
    ... )
    >>> smokers.names, smokers.values.shape
    (('no', 'yes'), (1, 2))
    """
    from discreet.questions.draw import Draw

    asked = Draw(
        column,
        method=method,
        family=family,
        prior=prior,
        epsilon=epsilon,
        delta=delta,
        options=options,
        **unknown,
    )
    return ask(data, asked, schema=schema, charge=charge)


def network(
    data: Any,
    parents: Mapping[str, Sequence[str]],
    *,
    schema: SchemaLike = None,
    epsilon: EpsilonLike | None = None,
    prior: float | None = None,
    charge: Charge | None = None,
    **unknown: Never,
) -> NetworkRelease:
    """Release private posteriors of the conditional tables of a Bayesian network, together for one ε.

    Parameters
    ----------
    data : table, mapping or path
        The records, as in :func:`discreet.proportions`.
    parents : mapping
        A mapping from each column to the columns on which it depends.
    schema : Schema or mapping
        The values of every column of the network.
    epsilon : number
        The privacy budget of the whole network.
    prior : float, optional
        Dirichlet prior of every conditional distribution, one number for all values.
    charge : Charge, optional
        The dataset in a ledger to charge; without it no ledger records the spending.

    Returns
    -------
    NetworkRelease
        It has ``probability(event, given)`` with its interval, and ``sample_records``.

    Examples
    --------
    >>> people = {"sex": ["f", "m"] * 100, "smoker": ["no", "no", "no", "yes"] * 50}
    >>> tables = network(
    ...     people, {"smoker": ["sex"]}, schema={"sex": ["f", "m"], "smoker": ["no", "yes"]}, epsilon=1
    ... )
    >>> tables.guarantee.epsilon
    1.0
    """
    from discreet.questions.network import Network

    return ask(data, Network(parents, epsilon=epsilon, prior=prior, **unknown), schema=schema, charge=charge)  # type: ignore[no-any-return]
