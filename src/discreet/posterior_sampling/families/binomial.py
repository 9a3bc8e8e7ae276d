"""Records that are numbers of successes among a known number of trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from discreet.declarations import as_integer, as_total
from discreet.distributions.beta_dirichlet import prior_in_words
from discreet.errors import InvalidInput
from discreet.posterior_sampling.families.categorical import OneShare
from discreet.posterior_sampling.family import Natural, RecordKind


@dataclass(frozen=True)
class BinomialFamily(OneShare):
    """Successes in ``trials`` trials a record, of which θ is the share; Beta(a, b) prior.

    A record x adds (x, trials − x) to (a, b). It is the Beta family with steps of ``trials``: none and all
    are the worst records, by the monotone likelihood ratio, and the others are at one end.
    """

    trials: int
    name: ClassVar[str] = "binomial"
    records: ClassVar[RecordKind] = "counts"
    whole: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "trials", as_trials(self.trials))

    @property
    def items(self) -> int:
        return self.trials

    @property
    def record_bounds(self) -> tuple[float, float]:
        return 0.0, float(self.trials)

    def contribution(self, statistic: Any, n: int) -> Natural:
        total = as_total(statistic, Fraction(0), Fraction(n * self.trials))
        return total, n * self.trials - total

    def described(self, prior: list[Any], bounds: Sequence[float] | None) -> tuple[str, str]:
        return f"the share of successes in {self.trials} trials a record", prior_in_words(prior)


def as_trials(trials: Any) -> int:
    """How many trials a record has: at least one."""
    number = as_integer(trials, "trials")
    if number < 1:
        raise InvalidInput(f"trials={trials!r} must be at least 1: the items of one record")
    return number
