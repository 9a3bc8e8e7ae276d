"""How precise an answer will be, which ε it needs, or how many records: before any data are opened."""

from __future__ import annotations

from typing import Any

from discreet._typing import EpsilonLike
from discreet.planning.widths import IntervalPlan, plan_intervals
from discreet.questions.widths import Guess


def plan(
    kind: str,
    *,
    n: int | None = None,
    epsilon: EpsilonLike | None = None,
    within: float | str | None = None,
    level: float = 0.95,
    seed: int = 0,
    of: str | None = None,
    typical: float | None = None,
    correlation: float = 0.0,
    spread: float | None = None,
    left_out: float | None = None,
    **fields: Any,
) -> IntervalPlan:
    """How wide the intervals of an answer will be, from public parameters only; or which ε or n that needs.

    ``kind``: ``"proportion"``, ``"table"``, ``"conditional"``, ``"mean"`` or ``"regress"``, with the fields
    of :func:`discreet.release` and so on, and two of ``n``, ``epsilon`` and ``within``, the ± wanted of the
    coefficient ``of`` (the widest but the intercept, if not said): ``"3 points"`` of a share. With
    ``expected_false`` the plan is about numbers of records, and says from how many on a level stands out.

    What is guessed of made-up records: ``typical``, of one record the standard deviation of a number or of a
    gaussian model's errors, the share of a binomial model's second level, the mean count of a Poisson model,
    or the share of a level (0.5; 0.01 of those that stand out); ``correlation`` of columns; ``spread``, the
    standard deviation of numbers as a part of their range (0.29, spread evenly, if not said); ``left_out``,
    the share of records without a value where ``missing="exclude"`` (0.1 if not said).

    >>> 0.02 < plan("proportion", levels=("no", "yes"), n=1071, epsilon=1).widths[0] < 0.04
    True
    """
    wanted: dict[str, Any] = {"n": n, "epsilon": epsilon, "within": within, "of": of}
    guess = Guess(typical, correlation, spread, left_out)
    return plan_intervals(kind, fields, guess, level=level, seed=seed, **wanted)
