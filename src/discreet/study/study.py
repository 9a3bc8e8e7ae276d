"""Studies: several questions about one dataset under one schema and one budget, in Python or from a file.

The ids of questions are request ids of the ledger, so that an interrupted study continues where it stopped:
answers that were charged are returned, not charged again.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Never

from discreet._declarations import Relation
from discreet._documents.study import StudyResult
from discreet._reporting.report import report
from discreet._text import align_columns, nearest
from discreet._typing import EpsilonLike, SchemaLike
from discreet.errors import (
    BudgetExceededError,
    DataError,
    FileError,
    InvalidInputError,
    MissingLedgerError,
    UnknownDatasetError,
)
from discreet.ledger import Account, Budget, Ledger, Receipt
from discreet.ledger._chain import scope_after
from discreet.ledger.budgets import price_of
from discreet.ledger.charging import Charge
from discreet.planning.plan import Plan, Split, checked_question, plan, split, with_delta
from discreet.privacy.guarantee import Guarantee
from discreet.questions._asking import BoundQuestion, source_label
from discreet.questions._text import plain
from discreet.questions.base import Question, check_question
from discreet.schema import Schema, as_schema
from discreet.study.simulated import answer_from_simulation

_STUDY_KEYS = ("title", "data", "ledger", "dataset", "epsilon", "delta", "zcdp")


def _check_keys(values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if key not in _STUDY_KEYS:
            hint = f"is unknown to a study{nearest(key, _STUDY_KEYS)}"
            raise InvalidInputError(hint, key, value)


@dataclass(frozen=True)
class StudyPrice:
    """The price of questions, before anything is spent.

    Attributes
    ----------
    guarantees : mapping
        The guarantee of each question, by id.
    charged : tuple of str
        The ids of questions that were charged already.
    asked : Budget
        The price of all other questions together.
    account : Account
        The budget, and how much of it was spent.

    Examples
    --------
    >>> study = Study({"smoker": ["no", "yes"] * 50}, Schema({"smoker": ["no", "yes"]}, n=100), epsilon=1)
    >>> print(study.price([{"id": "smokers", "columns": "smoker", "epsilon": 0.4}]))
    smokers   ε = 0.4 (replace-one)
    Together ε = 0.4; spent ε = 0 of ε = 1: fits.
    """

    guarantees: Mapping[str, Guarantee]
    charged: tuple[str, ...]
    asked: Budget
    account: Account

    @property
    def fits(self) -> bool:
        """Whether the budget allows all questions together."""
        return (self.account.spent + self.asked).fits(self.account.cap)

    def __str__(self) -> str:
        width = max(8, *(len(name) for name in self.guarantees)) if self.guarantees else 8
        lines = [
            f"{name:<{width}}  {'charged already' if name in self.charged else guarantee}"
            for name, guarantee in self.guarantees.items()
        ]
        verdict = "fits" if self.fits else "DOES NOT FIT"
        lines.append(f"Together {self.asked}; spent {self.account.spent} of {self.account.cap}: {verdict}.")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return the price as JSON values."""
        return {
            "questions": {name: guarantee.to_dict() for name, guarantee in self.guarantees.items()},
            "charged": list(self.charged),
            "asked": self.asked.to_dict(),
            "spent": self.account.spent.to_dict(),
            "cap": self.account.cap.to_dict(),
            "fits": self.fits,
        }


class Study:
    """Questions about one dataset, under one schema, charged to one budget.

    Parameters
    ----------
    data : table, mapping of columns, list or path
        The records. They are opened when a question is asked, not before.
    schema : Schema, mapping, path, or the declaration of one column
        What is public about the data.
    epsilon, delta, zcdp : number, optional
        The budget: ε, or ε and δ, or ρ of zero-concentrated privacy. Leave them out to join a budget that is
        already in the ledger.
    ledger : Ledger or address, optional
        The ledger to which charges are written: a file name is enough. Without one, a study opens no data and
        answers from simulated records only, stamped "not private".
    dataset : str, optional
        The name of the data in the ledger; by default that of the file.
    title : str, optional
        The heading of the report.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> schema = Schema({"smoker": ["no", "yes"]}, n=100)
    >>> data = {"smoker": ["no"] * 70 + ["yes"] * 30}
    >>> study = Study(data, schema, epsilon=1, ledger=f"{folder.name}/ledger.db", dataset="survey")
    >>> study.proportions("smoker", epsilon="0.4").guarantee.epsilon
    0.4
    >>> str(study.account().remaining)
    'ε = 0.6'
    >>> folder.cleanup()
    """

    def __init__(
        self,
        data: Any,
        schema: SchemaLike = None,
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        zcdp: EpsilonLike | None = None,
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> None:
        _check_keys(unknown)
        self.data, self.schema, self.title = data, as_schema(schema), title
        # Part of every plan: an answer about other data must not be taken for that of these.
        self.label = source_label(data) if isinstance(data, str | Path | tuple) else None
        if dataset is None:
            is_file = self.label is not None and "://" not in self.label
            dataset = Path(str(self.label)).stem if is_file else "study"
            if ledger is not None and not is_file:
                raise InvalidInputError("dataset is missing: name the data, such as dataset='survey'")
        self.dataset = dataset
        self.relation = self.schema.relation
        self.ledger = ledger if isinstance(ledger, Ledger | None) else Ledger(ledger)
        self.budget = self._budget(epsilon, delta, zcdp)
        self._priced: dict[str, BoundQuestion] = {}
        self._answered: dict[str, tuple[Mapping[str, Any], Any]] = {}
        if self.ledger is not None:
            self._check(self.account())

    def _budget(self, epsilon: Any, delta: Any, zcdp: Any) -> Budget:
        parameters = {"epsilon": epsilon, "delta": delta, "zcdp": zcdp}
        limits = {name: value for name, value in parameters.items() if value is not None}
        if isinstance(epsilon, tuple | list | Mapping):
            raise InvalidInputError("must be one number; delta is a parameter of its own", "epsilon", epsilon)
        if limits:
            return Budget.cap(**limits)
        if self.ledger is None:
            raise InvalidInputError("epsilon is missing: the budget of the study, such as epsilon=1")
        return self.ledger.show(self.dataset).cap

    def _check(self, account: Account) -> None:
        if account.cap != self.budget:
            raise InvalidInputError(
                f"the study's budget is {self.budget} but the ledger's cap for {self.dataset!r} is "
                f"{account.cap}: leave epsilon and delta out to join it, or change the cap with "
                "ledger.set_cap (discreet ledger cap)"
            )
        if account.relation != self.relation:
            raise InvalidInputError(
                f"the ledger holds {self.dataset!r} for {account.relation}, but this schema is for "
                f"{self.relation}"
            )

    def account(self) -> Account:
        """Return the budget, the spending and the remainder; before the first charge nothing is spent."""
        beginning = Account(self.dataset, str(self.relation), self.budget, self.budget.zero(), 0, "")
        if self.ledger is None:
            return beginning
        try:
            return self.ledger.show(self.dataset)
        except (UnknownDatasetError, MissingLedgerError):
            return beginning

    # Questions by kind.

    def proportions(
        self,
        *columns: str,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        by: str | None = None,
        prior: float | Sequence[float] | None = None,
        mechanism: str = "auto",
        options: Mapping[str, Any] | None = None,
        id: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release proportions of a column, of a table, or within public groups.

        Parameters
        ----------
        *columns : str
            One column, or several for the cells of their table.
        epsilon, delta : number
            The privacy budget of this question; δ for mechanisms that need one.
        by : str, optional
            A public column: release the shares within each of its groups, all for one ε.
        prior : float or sequence of float, optional
            The parameter of the Dirichlet prior: one number for all values, or one for each.
        mechanism : str
            ``"auto"`` chooses by a rule on public parameters.
        options : mapping, optional
            Options of the mechanism.
        id : str, optional
            The request id of the charge; asked again with it, the stored answer is returned at no cost.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        Release, ConditionalRelease or Selected

        See Also
        --------
        discreet.proportions : The same for one answer without a study.

        Examples
        --------
        >>> schema = Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=100)
        >>> study = Study("survey.csv", schema, epsilon=1)  # without a ledger answers are simulated
        >>> study.proportions("smoker", "sex", epsilon=0.5).names
        (('no', 'f'), ('no', 'm'), ('yes', 'f'), ('yes', 'm'))
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
        return self.ask(asked, id=id, title=title)

    def mean(
        self,
        column: str | None = None,
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        by: str | None = None,
        id: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release the mean of a bounded column.

        Parameters
        ----------
        column : str, optional
            A column of numbers; may be left out where the schema declares only one.
        epsilon, delta : number
            The privacy budget of this question; pure ε-differential privacy without δ.
        by : str, optional
            A column of groups: release the mean of each.
        id : str, optional
            The request id of the charge.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        Answer

        Examples
        --------
        >>> study = Study("survey.csv", Schema({"age": (18, 95)}, n=100), epsilon=1)
        >>> study.mean("age", epsilon=0.2).mean().shape
        (1,)
        """
        from discreet.questions.mean import Mean

        return self.ask(Mean(column, by=by, epsilon=epsilon, delta=delta, **unknown), id=id, title=title)

    def quantiles(
        self,
        column: str | None = None,
        probs: Sequence[float] = (0.25, 0.5, 0.75),
        *,
        epsilon: EpsilonLike | None = None,
        by: str | None = None,
        id: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release quantiles of a bounded column.

        Parameters
        ----------
        column : str, optional
            A column of numbers; may be left out where the schema declares only one.
        probs : sequence of float
            The probabilities of the quantiles, between 0 and 1.
        epsilon : number
            The privacy budget of this question.
        by : str, optional
            A public column: release the quantiles within each of its groups, all for one ε.
        id : str, optional
            The request id of the charge.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        QuantileAnswer

        Examples
        --------
        >>> study = Study("survey.csv", Schema({"hours": (0, 80)}, n=100), epsilon=1)
        >>> study.quantiles("hours", (0.1, 0.5, 0.9), epsilon=0.3).names
        ('10 %', '50 %', '90 %')
        """
        from discreet.questions.quantiles import Quantiles

        return self.ask(Quantiles(column, probs, by=by, epsilon=epsilon, **unknown), id=id, title=title)

    def survival(
        self,
        time: str = "",
        event: str = "",
        *,
        epsilon: EpsilonLike | None = None,
        by: str | None = None,
        bins: int | Sequence[float] | None = None,
        id: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release survival curves of times to an event, some of them censored.

        Parameters
        ----------
        time : str
            A column of numbers: the time of the event, or of the last observation without it.
        event : str
            A column of two values; the last one declared is the event, the first means censored.
        epsilon : number
            The privacy budget of this question.
        by : str, optional
            A column of groups: a curve for each, all for one ε.
        bins : int or sequence of float, optional
            The number of time bins, or their edges.
        id : str, optional
            The request id of the charge.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        SurvivalAnswer
        """
        from discreet.questions.survival import Survival

        return self.ask(
            Survival(time, event, by=by, bins=bins, epsilon=epsilon, **unknown), id=id, title=title
        )

    def regress(
        self,
        formula: str = "",
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        family: str = "gaussian",
        prior: Mapping[str, tuple[float, float]] | None = None,
        options: Mapping[str, Any] | None = None,
        id: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release a regression with intervals that account for the noise.

        Parameters
        ----------
        formula : str
            The response and the predictors, such as ``"income ~ age + sex"``.
        epsilon, delta : number
            The privacy budget of this question; without δ it uses a part of the study's δ.
        family : {"gaussian", "binomial", "multinomial", "poisson"}
            The model of the response.
        prior : mapping, optional
            The mean and standard deviation of coefficients by name, in the units of the columns.
        options : mapping, optional
            Options of the fit.
        id : str, optional
            The request id of the charge.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        Fit

        Examples
        --------
        >>> schema = Schema({"hours": (0, 80), "age": (18, 95)}, n=1000)
        >>> study = Study("survey.csv", schema, epsilon=2, delta="1e-6")  # simulated: there is no ledger
        >>> study.regress("hours ~ age", epsilon=1).names
        ('Intercept', 'age')
        """
        from discreet.questions.regress import Regress

        asked = Regress(
            formula, family=family, epsilon=epsilon, delta=delta, prior=prior, options=options, **unknown
        )
        return self.ask(asked, id=id, title=title)

    def draw(
        self,
        column: str | None = None,
        *,
        epsilon: EpsilonLike | None = None,
        delta: EpsilonLike | None = None,
        method: str = "diffused",
        family: Any = None,
        prior: Any = None,
        options: Mapping[str, Any] | None = None,
        id: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release draws from a posterior, made private by the spread of the posterior itself.

        Parameters
        ----------
        column : str, optional
            A column, or a formula such as ``"smoker ~ age"`` for coefficients of a logistic regression.
        epsilon, delta : number
            The privacy budget of this question.
        method : {"diffused", "concentrated", "direct"}
            How the posterior is made private.
        family : str, optional
            The model of one record.
        prior : optional
            The parameters of the prior.
        options : mapping, optional
            ``draws``, ``order``, ``grid``, and options of the family such as ``sigma``.
        id : str, optional
            The request id of the charge.

        Returns
        -------
        Answer

        Examples
        --------
        >>> schema = Schema({"smoker": ["no", "yes"]}, n=100)
        >>> study = Study("survey.csv", schema, epsilon=1, delta="1e-5")
        >>> study.draw("smoker", epsilon=0.5, delta="1e-6").is_private  # simulated: there is no ledger
        False
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
        return self.ask(asked, id=id)

    def network(
        self,
        parents: Mapping[str, Sequence[str]],
        *,
        epsilon: EpsilonLike | None = None,
        prior: float | None = None,
        id: str | None = None,
        title: str | None = None,
        **unknown: Never,
    ) -> Any:
        """Release the conditional tables of a Bayesian network whose graph is declared.

        Parameters
        ----------
        parents : mapping
            A mapping from each column to the columns on which it depends.
        epsilon : number
            The privacy budget of the whole network.
        prior : float, optional
            The parameter of the Dirichlet prior of every conditional distribution.
        id : str, optional
            The request id of the charge.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        NetworkRelease

        Examples
        --------
        >>> schema = Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=100)
        >>> study = Study("survey.csv", schema, epsilon=1)
        >>> study.network({"sex": [], "smoker": ["sex"]}, epsilon=0.5).parents["smoker"]
        ('sex',)
        """
        from discreet.questions.network import Network

        return self.ask(Network(parents, epsilon=epsilon, prior=prior, **unknown), id=id, title=title)

    def ask(self, question: Question, *, id: str | None = None, title: str | None = None) -> Any:
        """Answer a question of any kind.

        Parameters
        ----------
        question : Question
            Such as ``discreet.Proportions("smoker", epsilon=0.5)``.
        id : str, optional
            The request id of the charge; asked again with it, the stored answer is returned at no cost.
        title : str, optional
            The heading of the answer in the report.

        Returns
        -------
        Answer

        Raises
        ------
        BudgetExceededError
            If the budget does not allow the question; nothing is charged.
        InvalidInputError
            If the question does not fit the schema, or ``id`` is malformed.

        Examples
        --------
        >>> import discreet
        >>> study = Study("survey.csv", Schema({"smoker": ["no", "yes"]}, n=100), epsilon=1)
        >>> study.ask(discreet.Proportions("smoker", epsilon=0.5)).names
        ('no', 'yes')
        """
        if id is not None:
            check_id(id, "id")
        return self._answer(self._bind(id, self._with_delta(question)), id, title)

    # Plans.

    def plan(
        self,
        question: Question,
        *,
        epsilon: EpsilonLike | None = None,
        within: float | str | None = None,
        n: int | None = None,
        of: str | None = None,
        level: float = 0.95,
        guess: Mapping[str, Any] | None = None,
        **unknown: Never,
    ) -> Plan:
        """Plan a question under the schema of this study; no data are opened.

        Parameters
        ----------
        question : Question
            Such as ``discreet.Proportions("smoker")``.
        epsilon : number, optional
            The privacy budget; leave it out with ``within`` to solve for it.
        within : float or str, optional
            The wanted half-width of the interval, such as 0.02 or ``"2 points"``.
        n : int, optional
            The approximate number of records, where the schema does not declare it.
        of : str, optional
            The coefficient, group or share that ``within`` is about.
        level : float
            The probability of the intervals.
        guess : mapping, optional
            Guesses about the records; see :func:`discreet.plan`.

        Returns
        -------
        Plan

        Examples
        --------
        >>> import discreet
        >>> study = Study("survey.csv", Schema({"smoker": ["no", "yes"]}, n=2000), epsilon=1)
        >>> study.plan(discreet.Proportions("smoker"), within="3 points").epsilon < 0.1
        True
        """
        asked = self._with_delta(question)
        options: dict[str, Any] = {"epsilon": epsilon, "within": within, "n": n, "of": of, "level": level}
        return plan(asked, self.schema, guess=guess, **options, **unknown)

    def split(self, questions: Iterable[Mapping[str, Any]]) -> Split:
        """Divide the budget of this study among questions; no data are opened.

        Parameters
        ----------
        questions : iterable of mappings
            Each with an ``id``, a ``kind`` (``"proportions"`` unless given), its fields, and one of
            ``epsilon``, ``within`` (the half-width that it needs) and ``weight`` (1 by default). Questions
            with a weight share what the others leave. ``of`` and ``guess`` are those of
            :func:`discreet.plan`.

        Returns
        -------
        Split
            ``split.questions`` are the questions with their ε, for :meth:`price` and :meth:`answer`.

        Raises
        ------
        InvalidInputError
            If the budget is in ρ, or does not allow the questions.

        Examples
        --------
        >>> schema = Schema({"smoker": ["no", "yes"], "age": (18, 95)}, n=2000)
        >>> study = Study("survey.csv", schema, epsilon=1)
        >>> asked = [
        ...     {"id": "smokers", "columns": "smoker", "epsilon": "0.4"},
        ...     {"id": "age", "kind": "mean", "column": "age"},
        ... ]
        >>> [question["epsilon"] for question in study.split(asked).questions]
        ['2/5', '3/5']
        """
        if self.budget.epsilon is None:
            raise InvalidInputError("split divides a budget of ε, or of ε and δ; this one is in ρ (zCDP)")
        named = dict(by_id(questions))
        return split(named, self.schema, self.budget.epsilon, self.budget.delta)

    # Questions with an id.

    def check(self, questions: Iterable[Mapping[str, Any]]) -> None:
        """Compare the data with the questions, so that mistakes show before anything is charged.

        The error names each question whose column, type or values do not fit, and no value of the data.
        Whether there is an error depends on the data, so it is for the curator only. The data that were read
        are kept for the answer.

        Parameters
        ----------
        questions : iterable of mappings
            Each with an ``id``, a ``kind`` and its fields.

        Raises
        ------
        DataError, InvalidInputError
            If the data do not fit a question; nothing is charged.
        """
        problems = []
        for name, question, earlier in self._each(questions):
            try:
                _ = self._bind(name, question).size if earlier is None else None
            except (DataError, InvalidInputError) as error:
                problems.append((type(error), f"question {name!r}: {error}"))
        if problems:
            text = "\n".join([*(text for _, text in problems), "nothing was charged"])
            raise problems[0][0](text) from None

    def price(self, questions: Iterable[Mapping[str, Any]]) -> StudyPrice:
        """Return the price of questions together, and whether it fits the budget; nothing is charged.

        A question that was charged already is not counted again. Numbers of records that the schema declares
        as ``"public"`` are counted in the data. The data that were read are kept for the answer.

        Parameters
        ----------
        questions : iterable of mappings
            Each with an ``id``, a ``kind`` and its fields.

        Returns
        -------
        StudyPrice

        Raises
        ------
        InvalidInputError
            If a question was changed since it was charged, or its relation is not that of the budget.

        Examples
        --------
        >>> study = Study({"smoker": ["no", "yes"] * 50}, Schema({"smoker": ["no", "yes"]}, n=100), epsilon=1)
        >>> price = study.price([{"id": "smokers", "columns": "smoker", "epsilon": 0.4}])
        >>> price.fits, str(price.asked)
        (True, 'ε = 0.4')
        """
        guarantees: dict[str, Guarantee] = {}
        charged = []
        account = self.account()
        asked, scope = account.cap.zero(), (Relation(account.relation), account.unit)
        for name, question, earlier in self._each(questions):
            if earlier is not None:
                guarantees[name] = Guarantee.from_dict(earlier.guarantee)
                charged.append(name)
                continue
            bound = self._bind(name, question)
            guarantees[name] = bound.guarantee
            scope = scope_after(self.dataset, scope, bound.guarantee)
            asked += price_of(bound.guarantee, account.cap.unit)
        return StudyPrice(guarantees, tuple(charged), asked, account)

    def _each(self, questions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Question, Receipt | None]]:
        """Yield the id and the question of each mapping, and its receipt where it was charged already."""
        begun = self.account().entries
        for name, mapping in by_id(questions):
            question = self._with_delta(checked_question(name, mapping))
            earlier = self._charge(name).recall(question.plan(self.schema)) if begun else None
            yield name, question, earlier

    def answer(self, question: Mapping[str, Any]) -> Any:
        """Answer a question that is a mapping with an ``id``; asked again, return the stored answer.

        Parameters
        ----------
        question : mapping
            With an ``id``, a ``kind`` and its fields, as in a study file.

        Returns
        -------
        Answer

        Examples
        --------
        >>> study = Study("survey.csv", Schema({"smoker": ["no", "yes"]}, n=100), epsilon=1)
        >>> study.answer({"id": "smokers", "columns": "smoker", "epsilon": 0.4}).names
        ('no', 'yes')
        """
        name = question_id(question, "question")
        answer = self.ask(checked_question(name, question), id=name, title=question.get("title"))
        self._priced.pop(name, None)
        return answer

    def _with_delta(self, question: Question) -> Question:
        """Return the question, with a part of the study's δ if it needs one and has none."""
        check_question(question)
        return with_delta(question, self.budget.delta)

    def _bind(self, name: str | None, question: Question) -> BoundQuestion:
        """Return the question bound to the data, which are not read again if pricing has read them."""
        bound = None if name is None else self._priced.get(name)
        if bound is None or bound.question != question:
            bound = BoundQuestion(question, self.schema, self.data)
            if name is not None:
                self._priced[name] = bound
        return bound

    def _charge(self, request_id: str | None) -> Charge:
        assert self.ledger is not None
        return Charge(self.ledger, self.dataset, request_id, self.label)

    def _answer(self, bound: BoundQuestion, id: str | None, title: str | None = None) -> Any:
        if self.ledger is None:
            answer, name = answer_from_simulation(bound), id or f"simulated-{len(self._answered) + 1}"
        else:
            if not self.account().entries:
                with suppress(InvalidInputError):  # somebody else was quicker: what they made is checked
                    self.ledger.create(self.dataset, relation=self.relation, **asdict(self.budget))
                self._check(self.account())
            answer = bound.answer(self._charge(id))
            name = answer.receipt.request_id
        fields = {key: plain(value) for key, value in bound.question.explicit_fields().items()}
        heading = {} if title is None else {"title": title}
        self._answered[name] = {"kind": bound.question.kind, **heading, **fields}, answer
        return answer

    def result(self, title: str | None = None) -> StudyResult:
        """Return all answers of this study so far as one document.

        Parameters
        ----------
        title : str, optional
            The heading; by default that of the study.

        Returns
        -------
        StudyResult

        Examples
        --------
        >>> study = Study("survey.csv", Schema({"smoker": ["no", "yes"]}, n=100), epsilon=1)
        >>> _ = study.proportions("smoker", epsilon=0.5, id="smokers")
        >>> list(study.result().answers)
        ['smokers']
        """
        questions = {name: question for name, (question, _) in self._answered.items()}
        answers = {name: answer for name, (_, answer) in self._answered.items()}
        heading = title or self.title or self.dataset
        account = None if self.ledger is None else self.account()
        return StudyResult(heading, self.dataset, questions, answers, account, self.schema.to_dict())

    def report(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the report of all answers as one HTML page.

        Parameters
        ----------
        path : path, optional
            The file to write. The JSON document of all answers is written beside it; another file of that
            name, such as a single answer, is not replaced.
        title : str, optional
            The heading; by default that of the study.

        Returns
        -------
        str
            The HTML page.

        Raises
        ------
        FileError
            If the JSON document would replace a file that is not a study.

        Examples
        --------
        >>> study = Study("survey.csv", Schema({"smoker": ["no", "yes"]}, n=100), epsilon=1)
        >>> _ = study.proportions("smoker", epsilon=0.5)
        >>> study.report(title="Smoking").startswith("<!DOCTYPE html>")
        True
        """
        result = self.result(title)
        if path is None:
            return report(result)
        document = Path(path).with_suffix(".json")
        if document.exists() and f'"{result.format}"' not in document.read_text("utf-8", "replace"):
            raise FileError(
                f"path={str(path)!r}: the document {document.name!r} beside it would replace a file that "
                "is not a study; choose another name"
            )
        page = report(result, path=path)
        document.write_text(result.to_json(), "utf-8")
        return page

    def __repr__(self) -> str:
        return f"Study({self.dataset!r}, {len(self.schema.columns)} columns, {self.account().remaining} left)"

    def __str__(self) -> str:
        account = self.account()
        paid = "without a ledger: simulated answers only, not private" if self.ledger is None else "charged"
        lines = [f"Study {self.dataset!r}, {paid}", str(self.schema)]
        lines.append(f"Budget {account.cap}; spent {account.spent}; left {account.remaining}")
        rows = [
            [name, str(question["kind"]), str(answer.guarantee)]
            for name, (question, answer) in self._answered.items()
        ]
        return "\n".join([*lines, *(align_columns(["id", "question", "guarantee"], rows) if rows else [])])


def by_id(questions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each question with its id.

    Parameters
    ----------
    questions : iterable of mappings
        Each with an ``id``.

    Yields
    ------
    id, question : str, mapping

    Raises
    ------
    InvalidInputError
        If an id is missing, malformed or used twice.

    Examples
    --------
    >>> [name for name, question in by_id([{"id": "a"}, {"id": "b"}])]
    ['a', 'b']
    """
    seen = set()
    for index, question in enumerate(questions, 1):
        name = question_id(question, f"question {index}")
        if name in seen:
            raise InvalidInputError(f"question id {name!r} is used twice")
        seen.add(name)
        yield name, question


def question_id(question: Mapping[str, Any], where: str) -> str:
    """Return the id of a question, which is the request id of its charge.

    Parameters
    ----------
    question : mapping
        A question with an ``id``.
    where : str
        The name of the question in messages.

    Returns
    -------
    str
    """
    if not isinstance(question, Mapping):
        raise InvalidInputError(f"{where} must be a mapping with id, kind and parameters")
    return check_id(question.get("id"), where)


def check_id(name: Any, where: str) -> str:
    """Return an id, or refuse it unless it consists of letters, digits, dots and dashes.

    Parameters
    ----------
    name
        The id.
    where : str
        The name of the question in messages.

    Returns
    -------
    str

    Raises
    ------
    InvalidInputError
        If it is malformed.

    Examples
    --------
    >>> check_id("smokers-2024", "question 1")
    'smokers-2024'
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]{1,100}", name):
        raise InvalidInputError(f'{where} needs an id of letters, digits, dots and dashes: id = "smokers"')
    return name


@dataclass(frozen=True)
class StudyFile:
    """The content of a study file; made by :func:`read_study`."""

    title: str
    questions: tuple[Mapping[str, Any], ...]
    arguments: Mapping[str, Any]
    """The arguments of its :class:`Study`."""
    split: Split | None = None
    """The division of the budget, if some questions state no ε."""

    def open(self) -> Study:
        """Return the study that the file declares; nothing is written before its first question."""
        return _with_label(Study(**self.arguments["study"]), self.arguments["label"])


def _with_label(study: Study, label: str) -> Study:
    study.label = label
    return study


def read_study(path: str | Path) -> StudyFile:
    """Read and check a study file (TOML); no data are opened and nothing is spent.

    Parameters
    ----------
    path : path
        The file. Paths in it are relative to the file.

    Returns
    -------
    StudyFile

    Raises
    ------
    FileError
        If the file cannot be read.
    InvalidInputError
        If a table, key or question is malformed.

    Examples
    --------
    >>> import tempfile
    >>> text = '''
    ... [study]
    ... data = "survey.csv"
    ... epsilon = 1
    ... [schema]
    ... n = 100
    ... [schema.columns]
    ... smoker = ["no", "yes"]
    ... [[question]]
    ... id = "smokers"
    ... columns = "smoker"
    ... epsilon = 0.5
    ... '''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "study.toml")
    ...     _ = path.write_text(text)
    ...     study = read_study(path)
    >>> study.title, len(study.questions)
    ('study', 1)
    """
    path = Path(path)
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"{str(path)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FileError(f"{str(path)!r} is not text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise InvalidInputError(f"{str(path)!r} is not valid TOML: {error}") from None
    if "schema" not in content:
        raise InvalidInputError(
            f"{str(path)!r} needs a table [schema] with [schema.columns], or schema = "
            '"schema.toml" at its top: what is public about the data is declared there, '
            "once, and the budget as epsilon and delta in [study]"
        )
    unknown = set(content) - {"study", "schema", "question"}
    if unknown:
        raise InvalidInputError(
            f"{str(path)!r}: [{sorted(unknown)[0]}] is unknown; a study file has [study], "
            "[schema] and [[question]]"
        )
    head = content.get("study")
    if not isinstance(head, dict) or "data" not in head:
        raise InvalidInputError(f'{str(path)!r} needs a table [study] with data = "FILE"')
    _check_keys(head)
    declared = content["schema"]
    if isinstance(declared, str):
        schema = Schema.load(path.parent / declared)
    else:
        schema = Schema.from_dict(declared)
    questions = plain(content.get("question"))
    if not isinstance(questions, list) or not questions:
        raise InvalidInputError(f"{str(path)!r} has no question: add a table [[question]]")
    ledger = str(
        head.get("ledger") or os.environ.get("DISCREET_LEDGER") or path.with_suffix(".ledger.db").name
    )
    if "ledger" in head or "DISCREET_LEDGER" not in os.environ:  # there an address of its own
        ledger = _beside(path, ledger)
    budget = {name: head[name] for name in ("epsilon", "delta", "zcdp") if name in head}
    if not budget and "dataset" not in head:
        raise InvalidInputError(
            f"{str(path)!r} needs epsilon = 1 in [study], and optionally delta; or, to join "
            "a budget that is in "
            'a ledger, dataset = "NAME"'
        )
    title = str(head.get("title", path.stem))
    arguments = {
        "data": _beside(path, str(head["data"])),
        "schema": schema,
        **budget,
        "ledger": ledger,
        "dataset": str(head.get("dataset", path.stem)),
        "title": title,
    }
    divided = None
    if any(isinstance(question, dict) and "epsilon" not in question for question in questions):
        divided = Study(**arguments).split(questions)
        questions = list(divided.questions)
    for name, question in by_id(questions):
        checked = checked_question(name, question)
        if not checked.needs_delta or checked.delta is not None:
            checked.request(schema)
    return StudyFile(
        title, tuple(questions), {"study": arguments, "label": source_label(str(head["data"]))}, divided
    )


def _beside(path: Path, address: str) -> str:
    """Return the path of a file beside the study file, or the address of a database."""
    if "://" not in address:
        return str(path.parent / address)
    if address.startswith("sqlite:///") and not address.startswith("sqlite:////"):
        return f"sqlite:///{path.parent / address.removeprefix('sqlite:///')}"
    return address


def run_study(
    path: str | Path | StudyFile,
    *,
    progress: Callable[[str, bool], None] | None = None,
    check: bool = True,
    keep: Callable[[StudyResult], None] | None = None,
) -> StudyResult:
    """Run a study file; questions that were answered earlier are not charged again.

    Parameters
    ----------
    path : path or StudyFile
        The study file.
    progress : callable, optional
        Called with the id of each question once it is answered, and whether it was answered earlier.
    check : bool
        Whether to compare the data with every question before the first charge (:meth:`Study.check`).
    keep : callable, optional
        Called with the answers so far, even if an error ends the run.

    Returns
    -------
    StudyResult

    Raises
    ------
    BudgetExceededError
        If the questions do not fit the budget; nothing is spent.
    """
    declared = path if isinstance(path, StudyFile) else read_study(path)
    study = declared.open()
    price = study.price(declared.questions)
    if not price.fits:
        raise BudgetExceededError(
            f"the questions do not fit into the budget, and nothing was spent.\n{price}",
            cap=price.account.cap,
            spent=price.account.spent,
            asked=price.asked,
        )
    if check:
        study.check(declared.questions)
    try:
        for question in declared.questions:
            answer = study.answer(question)
            if progress is not None:
                progress(str(question["id"]), answer.receipt.repeated)
    finally:
        if keep is not None and study.result().answers:
            keep(study.result(declared.title))
    return study.result(declared.title)
