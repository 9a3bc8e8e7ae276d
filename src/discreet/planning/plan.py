"""Plans: how precise an answer will be, and which ε or n a precision needs, before any data are opened.

One solver serves Python, the command line, the studio and :meth:`discreet.Study.split`. Widths come from
answers about simulated records, with a seed; no private answer ever uses a seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from discreet._declarations import as_choice, as_epsilon, as_probability, as_size
from discreet._documents.answer import Labels
from discreet._html import card, paragraph, table
from discreet._text import align_columns, amount, nearest
from discreet._typing import EpsilonLike, SchemaLike
from discreet.errors import InvalidInputError
from discreet.questions.base import Question, check_question, question_of
from discreet.questions.widths import POINTS, RECORDS, Guess, PlannedWidth, as_within, round_digits
from discreet.schema import Schema, as_schema

SIMULATIONS, MOST_SIMULATIONS = 3, 5
"""The number of simulated answers whose median width a plan shows: more if the first ones differ."""
MAX_STEPS = 8
"""The most plans that the search for ε or n tries."""
MAX_EPSILON, MAX_N = 10_000, 10**12
"""The largest ε and the largest n that the search tries."""


@dataclass(frozen=True)
class Plan:
    """Expected half-widths of the intervals of a question; made by :func:`discreet.plan`.

    Attributes
    ----------
    question : Question
        The question with the ε of the plan.
    n : int
        The assumed number of records.
    level : float
        The probability of the intervals.
    planned : PlannedWidth
        The names of the intervals, their half-widths and the share of noise in each.
    within : float or None
        The half-width that ε or n was solved for.
    labels : Labels
        The labels of the schema, for display.

    Examples
    --------
    >>> from discreet import Proportions, Schema
    >>> made = plan(Proportions("smoker"), Schema({"smoker": ["no", "yes"]}, n=2000), epsilon=1)
    >>> made.n, made.epsilon, made.title()
    (2000, 1.0, 'Plan for n = 2,000, ε = 1')
    """

    question: Question
    n: int
    level: float
    planned: PlannedWidth
    within: float | None = None
    labels: Labels = field(default_factory=Labels)

    @property
    def epsilon(self) -> float:
        """The privacy budget."""
        return float(self.question.exact_epsilon)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the numbers that have an interval."""
        return self.planned.names

    @property
    def widths(self) -> tuple[float, ...]:
        """The expected half-widths of the intervals."""
        return self.planned.widths

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings of the simulated answers."""
        return self.planned.warnings

    def without_privacy(self) -> tuple[float, ...]:
        """Return the expected half-widths without privacy."""
        pairs = zip(self.widths, self.planned.noise_shares, strict=True)
        return tuple(width * math.sqrt(1 - share) for width, share in pairs)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table as JSON values."""
        rows = zip(self.names, self.widths, self.without_privacy(), self.planned.noise_shares, strict=True)
        return [dict(zip(("name", "width", "without", "noise_share"), row, strict=True)) for row in rows]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON values."""
        return {
            "question": self.question.kind,
            "n": self.n,
            "epsilon": str(self.question.exact_epsilon),
            "level": self.level,
            "within": self.within,
            "unit": self.planned.unit,
            "rows": self.rows(),
            "notes": [list(pair) for pair in self.planned.notes],
            "warnings": list(self.warnings),
        }

    @property
    def place(self) -> int:
        """The index of the interval that the plan reports: the widest, not counting the intercept."""
        return 0 if self.planned.unit == RECORDS else self.planned.widest

    def width_text(self, widths: tuple[float, ...] | None = None) -> str:
        """Return the widest interval as text.

        Parameters
        ----------
        widths : tuple of float, optional
            Other half-widths in the order of ``names``, such as those without privacy.

        Returns
        -------
        str

        Examples
        --------
        >>> from discreet import Proportions, Schema
        >>> plan(Proportions("smoker"), Schema({"smoker": ["no", "yes"]}, n=2000), epsilon=1).width_text()
        '± 2.19 points'
        """
        unit = f" {self.planned.unit}" if self.planned.unit in (POINTS, RECORDS) else ""
        return f"± {self.planned.scale * (widths or self.widths)[self.place]:#.3g}{unit}"

    def title(self) -> str:
        """Return the heading."""
        setting = f"n = {self.n:,}, ε = {self.epsilon:g}"
        if self.within is None:
            return f"Plan for {setting}"
        return f"To expect ± {self.planned.scale * self.within:g}: {setting}"

    def header(self) -> list[str]:
        """Return the names of the columns of the table."""
        unit = f"{self.planned.unit} " if self.planned.unit in (POINTS, RECORDS) else ""
        return ["", f"± {unit}at {100 * self.level:g} %", "without privacy", "share of noise"]

    def cells(self) -> list[list[str]]:
        """Return the table as text."""
        by, rows = self.planned.scale, (tuple(row.values()) for row in self.rows())
        return [
            [self.labels.term(name), f"{by * width:.4g}", f"{by * alone:.4g}", f"{100 * share:.0f} %"]
            for name, width, alone, share in rows
        ]

    def notes(self) -> list[str]:
        """Return sentences that explain the table."""
        return [
            f"Expected half-widths of intervals, from {self.planned.assumed}; no data were opened.",
            *(f"Warning: {text}" for text in self.warnings),
            *(f"{what}: {value}." for what, value in self.planned.notes),
        ]

    def __str__(self) -> str:
        return "\n".join([self.title(), "", *align_columns(self.header(), self.cells()), "", *self.notes()])

    def _repr_html_(self) -> str:
        notes = (paragraph(note, soft=True) for note in self.notes())
        return card(paragraph(self.title(), strong=True), table(self.header(), self.cells()), *notes)


def plan(
    question: Question,
    schema: SchemaLike,
    *,
    epsilon: EpsilonLike | None = None,
    within: float | str | None = None,
    n: int | None = None,
    of: str | None = None,
    level: float = 0.95,
    guess: Guess | Mapping[str, Any] | None = None,
    seed: int = 0,
    **unknown: Any,
) -> Plan:
    """Plan a question: the expected widths of its intervals, or the ε or n that a width needs.

    No data are opened.

    Parameters
    ----------
    question : Question
        Such as ``discreet.Proportions("smoker")``.
    schema : Schema, mapping, or the declaration of one column
        What is public about the data.
    epsilon : number, optional
        The privacy budget; by default that of the question. Leave it out with ``within`` to solve for it.
    within : float or str, optional
        The wanted half-width of the interval, such as 0.02 or ``"2 points"`` for a share.
    n : int, optional
        The approximate number of records; by default that of the schema. Leave it out with ``within`` and
        ``epsilon`` to solve for it.
    of : str, optional
        The coefficient, group or share that ``within`` is about; by default the one with the widest interval,
        not counting the intercept.
    level : float
        The probability of the intervals.
    guess : Guess or mapping, optional
        Guesses about the records: ``typical``, ``correlation``, ``spread``, ``left_out``, ``shares``.
    seed : int
        The seed of the simulation: the same seed gives the same plan.

    Returns
    -------
    Plan

    Raises
    ------
    InvalidInputError
        If not exactly two of ``n``, ``epsilon`` and ``within`` are known, or the width cannot be reached.

    Examples
    --------
    >>> from discreet import Proportions, Schema
    >>> schema = Schema({"smoker": ["no", "yes"]}, n=2000)
    >>> plan(Proportions("smoker"), schema, within="3 points").epsilon < 0.1
    True
    >>> plan(Proportions("smoker"), schema, epsilon=1).names
    ('a share of 50 %',)
    """
    check_question(question)
    for name, value in unknown.items():
        keywords = ("epsilon", "within", "n", "of", "level", "guess", "seed")
        hint = f"is unknown to a plan{nearest(name, keywords)}"
        if name in Guess.keywords():
            hint = f"belongs in the guess: guess={{{name!r}: {value!r}}}"
        raise InvalidInputError(hint, name, value)
    declared = as_schema(schema)
    budget = question.epsilon if epsilon is None else epsilon
    size = n if n is not None else declared.size
    if within is None and (budget is None or size is None):
        missing = "epsilon, or the wanted half-width within" if budget is None else "n"
        raise InvalidInputError(f"a plan needs {missing}")
    if within is not None and budget is not None and epsilon is None and size is not None:
        budget = None  # the ε of the question is what is looked for
    if within is not None and budget is not None and size is not None:
        raise InvalidInputError("give two of n, epsilon and within; the third is computed")
    if within is not None and budget is None and size is None:
        raise InvalidInputError("n is missing: a plan needs the number of records, exact or approximate")
    solver = _Solver(question, declared, as_probability(level), as_guess(guess), seed)
    if within is None:
        return solver.at(as_size(size), as_epsilon(budget))
    if budget is None:
        return solver.solve_epsilon(as_size(size), within, of)
    return solver.solve_size(as_epsilon(budget), within, of)


def as_guess(guess: Guess | Mapping[str, Any] | None) -> Guess:
    """Return guesses about the records, which may be given as a mapping.

    Parameters
    ----------
    guess : Guess, mapping or None
        None for the defaults.

    Returns
    -------
    Guess

    Raises
    ------
    InvalidInputError
        If a key is unknown.

    Examples
    --------
    >>> as_guess(None) == as_guess({})
    True
    """
    if guess is None:
        return Guess()
    if isinstance(guess, Guess):
        return guess
    return Guess(**guess)


@dataclass(frozen=True)
class _Solver:
    """The search for ε and for n."""

    question: Question
    schema: Schema
    level: float
    guess: Guess
    seed: int

    def at(self, n: int, epsilon: Fraction) -> Plan:
        """Return the plan for this size and budget.

        Parameters
        ----------
        n : int
            The number of records.
        epsilon : Fraction
            The privacy budget.

        Returns
        -------
        Plan
        """
        question = replace(self.question, epsilon=epsilon)
        request = question.request(self.schema)
        simulated: list[PlannedWidth] = []
        for seed in range(self.seed, self.seed + MOST_SIMULATIONS):
            simulated.append(request.simulate(n, self.level, seed, self.guess))
            planned = PlannedWidth.typical(simulated)
            if len(simulated) >= SIMULATIONS and not planned.ranges:
                break
        labels = Labels.of(self.schema.columns)
        return Plan(question, n, self.level, planned, labels=labels)

    def solve_epsilon(self, n: int, within: Any, of: str | None) -> Plan:
        """Return the plan with the least ε, to three digits, whose half-width is at most ``within``.

        Parameters
        ----------
        n : int
            The number of records.
        within : float or str
            The wanted half-width.
        of : str or None
            The name of the interval; None for the widest.

        Returns
        -------
        Plan

        Raises
        ------
        InvalidInputError
            If the width cannot be reached.
        """
        small = Fraction(0)  # the largest epsilon seen to be too small

        def _following(
            plan: Plan, name: str, sampling: float, noise: float, target: float, best: Plan | None
        ) -> Plan | None:
            nonlocal small
            epsilon, factor = plan.question.exact_epsilon, 4.0
            small = small if best is plan else max(small, epsilon)
            if sampling < target:
                factor = min(max(math.sqrt(noise / (target - sampling)), 0.02), 50.0)
            elif best is None and (noise < 1e-3 * (sampling + noise) or epsilon >= MAX_EPSILON):
                shown = plan.planned.scale * math.sqrt(sampling)
                points = " points" if plan.planned.unit == POINTS else ""
                raise InvalidInputError(
                    f"cannot be reached with n={n}: without privacy the interval of {name!r} is already "
                    f"± {shown:.3g}{points}; more precision needs more records",
                    "within",
                    within,
                )
            following = min(round_digits(epsilon * Fraction(factor)), Fraction(MAX_EPSILON))
            if best is not None and not small < following < best.epsilon and small:
                following = round_digits(Fraction(math.sqrt(small * best.question.exact_epsilon)))
            return None if following == epsilon else self.at(n, following)

        return self._solve(self.at(n, Fraction(1)), within, of, _following)

    def solve_size(self, epsilon: Fraction, within: Any, of: str | None) -> Plan:
        """Return the plan with the least n, to three digits, whose half-width is at most ``within``.

        Parameters
        ----------
        epsilon : Fraction
            The privacy budget.
        within : float or str
            The wanted half-width.
        of : str or None
            The name of the interval; None for the widest.

        Returns
        -------
        Plan

        Raises
        ------
        InvalidInputError
            If the width cannot be reached, or does not depend on n.
        """
        start = self.at(10_000, epsilon)
        if start.planned.unit == RECORDS:
            raise InvalidInputError(
                "the precision of a number of records does not depend on n: give n, to find epsilon"
            )

        def _following(
            plan: Plan, _: str, sampling: float, noise: float, target: float, __: Plan | None
        ) -> Plan | None:
            # sampling/x + noise/x² = target at x times as many records
            factor = (sampling + math.sqrt(sampling**2 + 4 * target * noise)) / (2 * target)
            size = min(max(2, math.ceil(plan.n * factor)), MAX_N)
            if size == plan.n:
                return None
            return self.at(size if size < 1000 else math.ceil(round_digits(size)), epsilon)

        return self._solve(start, within, of, _following)

    def _solve(self, plan: Plan, within: Any, of: str | None, following: Callable[..., Plan | None]) -> Plan:
        """Return the first plan, starting with ``plan``, whose half-width is at most ``within``."""
        place = plan.place if of is None else plan.names.index(as_choice(of, plan.names, "of"))
        wanted = as_within(within, plan.planned.unit)
        best: Plan | None = None
        for _ in range(MAX_STEPS):
            width, share = plan.widths[place], plan.planned.noise_shares[place]
            if width <= wanted and (best is None or (plan.n, plan.epsilon) < (best.n, best.epsilon)):
                best = plan
            sampling, noise, target = (1 - share) * width**2, share * width**2, (0.993 * wanted) ** 2
            if 0.985 * wanted <= width <= wanted:
                break
            next_plan = following(plan, plan.names[place], sampling, noise, target, best)
            if next_plan is None:
                break
            plan = next_plan
        if best is None:
            raise InvalidInputError(
                f"was not reached: the search ended at n={plan.n} and epsilon={plan.epsilon:.3g}; plan with "
                "these values to see the width, and ask for that or a larger one",
                "within",
                within,
            )
        return replace(best, within=wanted)


@dataclass(frozen=True)
class BudgetShare:
    """The part of a budget that one question gets, and its expected precision."""

    name: str
    question: Question
    plan: Plan | None
    entry: Mapping[str, Any]
    """The question as in a study file, with its ε in place of ``within`` or ``weight``."""


@dataclass(frozen=True)
class Split:
    """A budget divided among questions before any data are opened; made by ``Study.split``.

    Examples
    --------
    >>> asked = {"smokers": {"columns": "smoker"}, "sex": {"columns": "sex"}}
    >>> schema = Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=2000)
    >>> split(asked, schema, Fraction(1)).spent
    Fraction(1, 1)
    """

    shares: tuple[BudgetShare, ...]
    epsilon: Fraction
    """The budget that was divided: the whole budget, or its unspent part."""

    @property
    def questions(self) -> list[Mapping[str, Any]]:
        """The questions with their ε, as mappings for :meth:`discreet.Study.answer` or a study file."""
        return [share.entry for share in self.shares]

    @property
    def spent(self) -> Fraction:
        """The ε of all questions together."""
        return sum((share.question.exact_epsilon for share in self.shares), Fraction(0))

    def __str__(self) -> str:
        columns: dict[str, list[str]] = {"question": [share.name for share in self.shares]}
        columns["ε"] = [f"{float(share.question.exact_epsilon):g}" for share in self.shares]
        columns["95 % interval"] = [
            "–" if share.plan is None else share.plan.width_text() for share in self.shares
        ]
        columns["without privacy"] = [
            "–" if share.plan is None else share.plan.width_text(share.plan.without_privacy())
            for share in self.shares
        ]
        left = self.epsilon - self.spent
        end = f"Together ε = {float(self.spent):g} of {float(self.epsilon):g}; {float(left):g} is left."
        return "\n".join([*align_columns(list(columns), list(zip(*columns.values(), strict=True))), "", end])

    def to_dict(self) -> dict[str, Any]:
        """Return the split as JSON values."""
        return {
            "epsilon": str(self.epsilon),
            "questions": [
                {
                    "id": share.name,
                    "epsilon": str(share.question.exact_epsilon),
                    "expected": None if share.plan is None else share.plan.to_dict(),
                }
                for share in self.shares
            ],
        }


DELTA_PARTS = 10
"""A question that needs δ and states none gets the δ of its study divided by this number."""
SPLIT_KEYS = ("epsilon", "within", "weight", "of", "guess")
"""The keys of a question of a study that determine its part of the budget."""


def split(
    questions: Mapping[str, Mapping[str, Any]],
    schema: Schema,
    epsilon: Fraction,
    delta: Fraction | None = None,
    n: int | None = None,
) -> Split:
    """Divide a budget among questions, from public parameters only.

    Parameters
    ----------
    questions : mapping from id to mapping
        Each with ``kind`` and its fields, and one of ``epsilon``, ``within`` (the half-width that it needs)
        and ``weight`` (1 by default). Questions with a weight share what the others leave. ``of`` and
        ``guess`` are those of :func:`discreet.plan`.
    schema : Schema
        What is public about the data.
    epsilon, delta : Fraction
        The budget.
    n : int, optional
        The approximate number of records, where the schema does not declare it.

    Returns
    -------
    Split

    Raises
    ------
    InvalidInputError
        If the budget does not allow the questions, or a question needs a δ and there is none.

    Examples
    --------
    >>> asked = {"smokers": {"columns": "smoker"}, "sex": {"columns": "sex", "weight": 3}}
    >>> schema = Schema({"smoker": ["no", "yes"], "sex": ["f", "m"]}, n=2000)
    >>> print(split(asked, schema, Fraction(1)).questions[1]["epsilon"])
    3/4
    """
    size = schema.size if n is None else n
    asked: dict[str, Question] = {}
    plans: dict[str, Plan] = {}
    weights: dict[str, Fraction] = {}
    for name, entry in questions.items():
        if sum(key in entry for key in ("within", "weight", "epsilon")) > 1:
            raise InvalidInputError(f"question {name!r}: give one of epsilon, within and weight")
        question = asked[name] = with_delta(checked_question(name, entry), delta)
        if question.needs_delta and question.delta is None:
            raise InvalidInputError(f"question {name!r} needs a δ: give the study one, such as delta='1e-6'")
        if "within" in entry:
            wanted = {key: entry.get(key) for key in ("within", "of", "guess")}
            try:
                plans[name] = plan(question, schema, n=size, **wanted)  # type: ignore[arg-type]
            except InvalidInputError as error:
                raise InvalidInputError(f"question {name!r}: {error}") from None
            asked[name] = plans[name].question
        elif "epsilon" not in entry:
            weights[name] = as_epsilon(entry.get("weight", 1), "weight")
    budgets = {name: question.exact_epsilon for name, question in asked.items() if name not in weights}
    left = epsilon - sum(budgets.values(), Fraction(0))
    if left < 0 or (weights and left <= 0):
        needs = ", ".join(f"{name} ε = {amount(value)}" for name, value in budgets.items())
        raise InvalidInputError(
            f"the budget ε = {float(epsilon):g} is too small: {needs}"
            f"{', and the others need a part too' if weights else ''}; ask for wider intervals or fewer "
            "questions, or raise the budget"
        )
    total = sum(weights.values(), Fraction(0))
    shares = []
    for name, question in asked.items():
        part = budgets[name] if name in budgets else round_digits(left * weights[name] / total, math.floor, 4)
        funded = replace(question, epsilon=part)
        expected = plans.get(name) or _plan_if_known(funded, schema, questions[name], size)
        fields = {key: value for key, value in questions[name].items() if key not in SPLIT_KEYS}
        shares.append(BudgetShare(name, funded, expected, {**fields, "epsilon": str(part)}))
    return Split(tuple(shares), epsilon)


def checked_question(name: str, question: Mapping[str, Any]) -> Question:
    """Return the question that a mapping describes.

    Parameters
    ----------
    name : str
        Its id.
    question : mapping
        ``kind`` and the fields of a question, as a study file has them.

    Returns
    -------
    Question

    Raises
    ------
    InvalidInputError
        If the kind or a field is unknown, or a field has a wrong value.

    Examples
    --------
    >>> checked_question("age", {"kind": "mean", "column": "age", "epsilon": 1}).kind
    'mean'
    """
    elsewhere = {"id", "kind", "title", *SPLIT_KEYS} - {"epsilon"}
    kind = question.get("kind", "proportions")
    fields = {key: value for key, value in question.items() if key not in elsewhere}
    return question_of(kind, fields, f"question {name!r} ({kind})")


def with_delta(question: Question, delta: Fraction | None) -> Question:
    """Return the question with its part of the δ of a study, if it needs one and has none.

    Parameters
    ----------
    question : Question
        A question.
    delta : Fraction, optional
        The δ of the study.

    Returns
    -------
    Question
    """
    if not question.needs_delta or question.delta is not None or not delta:
        return question
    return replace(question, delta=str(delta / DELTA_PARTS))


def _plan_if_known(
    question: Question, schema: Schema, given: Mapping[str, Any], n: int | None
) -> Plan | None:
    """Return the plan of a question with its ε; None where n is not known or the kind has no plan."""
    if n is None or not question.request(schema).has_width:
        return None
    return plan(question, schema, epsilon=question.epsilon, n=n, guess=given.get("guess"))
