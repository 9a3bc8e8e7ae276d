"""Posterior draws from data in one call, charged to a ledger where there is one."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from discreet._typing import EpsilonLike
from discreet.data import Contribution, clipped_sum
from discreet.declarations import as_bounds, as_size
from discreet.errors import DataError, InvalidInput
from discreet.posterior_sampling.families.categorical import BetaFamily
from discreet.posterior_sampling.family import Family
from discreet.posterior_sampling.sample import Sample
from discreet.posterior_sampling.sampler import (
    PosteriorSampler,
    as_draws,
    as_family,
    posterior_sampler,
    statistic_of,
)
from discreet.questions.answering import Prepared, answered

if TYPE_CHECKING:
    from discreet.ledger.charging import LedgerLike

__all__ = ["posterior_sample", "statistical_query"]

_STEPS = 2**32


def posterior_sample(
    data: Any,
    family: str | Family,
    *,
    prior: Any,
    epsilon: EpsilonLike | None = None,
    order: float | None = None,
    delta: EpsilonLike | None = None,
    sampler: str = "diffused",
    n: int | None = None,
    column: str | None = None,
    size: int = 1,
    levels: Sequence[Any] | None = None,
    other: Any = None,
    missing: Any = None,
    person: str | None = None,
    per_person: int | None = None,
    grid: EpsilonLike | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Sample:
    """Private posterior draws from data, in one call: statistic, calibration, draw, and charge.

    ``data`` and ``column`` as in :func:`discreet.release`; the rest as in :func:`posterior_sampler`.
    ``levels`` and ``other`` belong to a Dirichlet; ``missing`` says what a missing record counts as.
    ``person`` and ``per_person``: at most so many records of each person, by key column, enter, and the
    target is that of a person; of a person with more the lowest values enter, so to ask for a mean of people
    aggregate their records first. With ``ledger`` the budget of ``dataset`` is charged before anything
    leaves; a retry with the same ``request_id`` returns the stored draws. Under an (ε, δ) cap give ``delta``;
    under a zCDP cap a Gaussian mean fits.

    >>> counts = [4, 2, 7, 3] * 25
    >>> drawn = posterior_sample(counts, "poisson", prior=(2, 1), bounds=(0, 20), epsilon=1, order=8)
    >>> drawn.values.shape, drawn.guarantee.rdp(8) <= 1
    ((1,), True)
    """
    model = as_family(family, options)
    if model.records == "levels" and levels is None:
        raise InvalidInput("levels are missing: declare every value that a record may take")
    if model.records != "levels" and (levels is not None or other is not None):
        raise InvalidInput(f"levels and other belong to the family 'dirichlet', not to {model.name!r}")
    reading = {"levels": levels, "other": other, "missing": missing}
    given = {name: value for name, value in reading.items() if value is not None}

    people = _People(person, per_person, n)

    def build(declared: int) -> PosteriorSampler:
        target: dict[str, Any] = {"epsilon": epsilon, "order": order, "delta": delta}
        target["per_person"] = per_person
        return people.named(posterior_sampler(sampler, model, prior=prior, n=declared, grid=grid, **target))

    def read() -> tuple[Any, int]:
        return statistic_of(model, data, column, given, **people.reading())

    plan = {
        "question": "posterior sample",
        "family": model.to_dict(),
        "prior": model.public_prior(model.prior(prior)),
        "sampler": sampler,
        "target": {"epsilon": _text(epsilon), "order": _text(order), "delta": _text(delta)},
        "grid": _text(grid),
        "column": column,
        "size": as_draws(size),
        "reading": {name: _listed(value) for name, value in given.items()},
        "n": None if n is None else as_size(n),
        **people.plan(),
    }
    return _released(build, read, n, size, plan, ledger, dataset, request_id, levels=levels)


@dataclass(frozen=True)
class _People:
    """Whose records they are, if that is declared."""

    person: str | None
    per_person: int | None
    n: int | None

    def __post_init__(self) -> None:
        Contribution.of(self.person, self.per_person, self.n)

    def reading(self) -> dict[str, Any]:
        return {} if self.person is None else {**self.plan(), "n": self.n}

    def plan(self) -> dict[str, Any]:
        return {} if self.person is None else {"person": self.person, "per_person": self.per_person}

    def named(self, sampler: PosteriorSampler) -> PosteriorSampler:
        """The guarantee says which column tells people apart."""
        if self.person is None or self.per_person is None:
            return sampler
        assumptions = (Contribution.assumption(self.per_person, self.person),)
        return replace(sampler, guarantee=replace(sampler.guarantee, assumptions=assumptions))


def _released(
    build: Callable[[int], PosteriorSampler],
    read: Callable[[], tuple[Any, int]],
    n: int | None,
    size: int,
    plan: Mapping[str, Any],
    ledger: LedgerLike | None,
    dataset: str | None,
    request_id: str | None,
    bounds: tuple[float, float] | None = None,
    levels: Sequence[Any] | None = None,
) -> Sample:
    """Public parameters first, where n is declared; then the data; then draws, charged to a ledger if any."""

    def prepare() -> Prepared[Sample]:
        known = None if n is not None else read()
        built = build(as_size(n if known is None else known[1]))

        def make() -> Sample:
            statistic, number = read() if known is None else known
            if number != built.n:
                raise InvalidInput(f"n={built.n} was declared but the data have another number of records")
            named = None if levels is None else tuple(map(str, levels))
            return replace(built.release(statistic, size), bounds=bounds, levels=named)

        return built.price(size), make

    return answered(prepare, Sample.from_json, plan, ledger, dataset, request_id)


def _listed(value: Any) -> Any:
    return (
        [str(item) for item in value]
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def statistical_query(
    data: Any,
    function: Callable[[Any], float] | None = None,
    *,
    epsilon: EpsilonLike,
    order: float | None = None,
    delta: EpsilonLike | None = None,
    bounds: tuple[float, float] | None = None,
    column: str | None = None,
    n: int | None = None,
    prior: Any = (1, 1),
    sampler: str = "diffused",
    size: int = 1,
    missing: float | None = None,
    person: str | None = None,
    per_person: int | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> Sample:
    """A private mean of a number in [0, 1] that is computed from each record (paper C, Algorithm 1).

    ``function`` maps one record to [0, 1] and is clipped to it; or ``bounds`` = (low, high) are declared for
    a numeric column, which is clipped to them and read as (x − low)/(high − low). The answer is a draw from
    the Beta posterior of the mean, in the units of the bounds. Values are rounded to a grid and summed as
    integers, so that one record moves the sum by at most 1, exactly. A ledger is charged as in
    :func:`posterior_sample`; name the function by the ``request_id``, since a plan cannot contain it.

    >>> answer = statistical_query([3, 5, 4, 6] * 50, bounds=(0, 10), epsilon=1, delta="1e-6")
    >>> 0 <= float(answer.values[0]) <= 10
    True
    """
    if (function is None) == (bounds is None):
        raise InvalidInput(
            "give a function of one record with values in [0, 1], or bounds=(low, high) for numbers"
        )
    if function is not None and any(value is not None for value in (column, missing, person)):
        raise InvalidInput(
            "column=, missing= and person= go with bounds=; for a function give the records themselves"
        )
    if function is not None and (
        isinstance(data, str | bytes | os.PathLike | Mapping) or hasattr(data, "columns")
    ):
        raise InvalidInput(
            "a function takes records one by one: give a list or a column of them, not a table"
        )
    if function is not None and not isinstance(data, Iterable):
        raise InvalidInput("data must be a sequence of records")
    limits = None if bounds is None else as_bounds(bounds, "one record")

    people = _People(person, per_person, n)

    def build(declared: int) -> PosteriorSampler:
        target: dict[str, Any] = {"epsilon": epsilon, "order": order, "delta": delta}
        target["per_person"] = per_person
        return people.named(posterior_sampler(sampler, "beta", prior=prior, n=declared, **target))

    def read() -> tuple[Fraction, int]:
        if limits is None:
            assert function is not None
            return _sum_of(function, data)
        summed = clipped_sum(data, column=column, bounds=limits, missing=missing, **people.reading())
        return Fraction(summed.grid_sum, summed.steps), summed.n

    plan = {
        "question": "statistical query",
        "bounds": None if limits is None else list(limits),
        "column": column,
        "missing": missing,
        "prior": BetaFamily().public_prior(BetaFamily().prior(prior)),
        "sampler": sampler,
        "target": {"epsilon": _text(epsilon), "order": _text(order), "delta": _text(delta)},
        "size": as_draws(size),
        "n": None if n is None else as_size(n),
        **people.plan(),
    }
    return _released(build, read, n, size, plan, ledger, dataset, request_id, limits)


def _sum_of(function: Callable[[Any], float], records: Iterable[Any]) -> tuple[Fraction, int]:
    total, number = 0, 0
    for record in records:
        number += 1
        try:
            value = float(function(record))
        except Exception:
            value = math.nan
        if math.isnan(value):
            raise DataError("the function must give a number for every record; for at least one it did not")
        total += round(min(1.0, max(0.0, value)) * _STEPS)
    return Fraction(total, _STEPS), number
