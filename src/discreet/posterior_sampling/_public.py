"""What public records contribute to a posterior draw, before any private record is opened.

Public records enter the prior, η₀ + ΣS(public): they inform about θ, and one private record changes an
informative prior less. So with enough of them the posterior itself is private (``direct``), and with fewer
each private record keeps more of its weight (``diffused``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet._declarations import as_integer, as_size
from discreet._numerics.search import boundary
from discreet._typing import EpsilonLike
from discreet.errors import InvalidInputError
from discreet.posterior_sampling.family import Family, Natural, add_scaled, start
from discreet.posterior_sampling.sampler import PosteriorSampler, as_family, posterior_sampler

_MOST_PUBLIC_RECORDS = 10**9
_SIMULATED_DRAWS = 16


@dataclass(frozen=True)
class PublicPlan:
    """What public records would contribute to one private draw; made by :func:`plan_public`."""

    family: str
    n: int
    public: int
    """The number of public records."""
    enough: int | None
    """The least number of public records with which ``direct`` meets the target; None above 10⁹."""
    weight: tuple[float, float]
    """r, the weight of a private record in a diffused draw: without and with the public records."""
    error: tuple[float, float] | None
    """Expected standard deviation of θ given the draw, without and with; None where it is not known."""
    records: int | None
    """The number of private records that, without public ones, would give the second error."""

    @property
    def worth(self) -> int | None:
        """The number of private records that the public ones are worth; None if it is unknown."""
        return None if self.records is None else self.records - self.n

    def __str__(self) -> str:
        enough = f"more than {_MOST_PUBLIC_RECORDS:.0e}" if self.enough is None else f"{self.enough:,}"
        lines = [
            f"Posterior draw from n = {self.n:,} private records, {self.family}",
            f"Public records needed to release a direct draw: {enough}",
            f"Weight of each private record: {self.weight[0]:.4g} without public records, "
            f"{self.weight[1]:.4g} with {self.public:,}",
        ]
        if self.error is not None:
            before, after = (f"{error:.4g}" for error in self.error)
            lines.append(f"Standard deviation of θ given the draw: {before} without, {after} with them")
        if self.worth is not None:
            lines.append(f"Private records for the same accuracy without public ones: {self.records:,}")
        return "\n".join(lines)


def plan_public(
    family: str | Family,
    *,
    prior: Any,
    n: int,
    typical: Any,
    epsilon: EpsilonLike,
    order: float | None = None,
    delta: EpsilonLike | None = None,
    public: int = 0,
    **options: Any,
) -> PublicPlan:
    """Compute what public records contribute to a posterior draw, before any private record is opened.

    Parameters
    ----------
    family
        The family, or its name.
    prior
        Parameters of the prior, without the public records.
    n
        Number of private records.
    typical
        Made-up records; private and public ones are assumed to be copies of these, such as ``[0, 0, 1]`` if a
        third are yes; for ``"dirichlet"``, counts of the levels. Public records are the typical ones in
        order, repeated; counts of levels are rounded down.
    epsilon, order, delta
        The target, as in :func:`discreet.posterior_sampler`.
    public
        The number of public records that are available.
    **options
        Options of the family.

    Returns
    -------
    PublicPlan
        How many public records are enough for ``direct``, and what ``public`` of them are worth.

    Examples
    --------
    >>> plan = plan_public("beta", prior=(1, 2), n=100, typical=[0, 0, 1], public=60, epsilon=1, order=5)
    >>> plan.enough, [round(weight, 2) for weight in plan.weight]
    (12, [0.25, 1.0])
    """
    model = as_family(family, options)
    size, number = as_size(n), as_integer(public, "public")
    if number < 0:
        raise InvalidInputError("must not be negative", "public", public)
    prior_eta, record = model.natural(model.prior(prior)), _record(model, typical)

    def sampler(method: str, public_records: int, records: int = size) -> PosteriorSampler:
        informed = model.from_natural(add_scaled(prior_eta, _whole(model, typical, public_records)))
        return posterior_sampler(
            method, model, prior=informed, n=records, epsilon=epsilon, order=order, delta=delta
        )

    def suffices(public_records: int) -> bool:
        try:
            return sampler("direct", public_records).r == 1
        except InvalidInputError:
            return False

    before, after = sampler("diffused", 0), sampler("diffused", number)
    errors = _error(before, record), _error(after, record)

    def as_good(records: int) -> bool:
        return _error(sampler("diffused", 0, records), record) <= errors[1]

    error_is_known = not math.isnan(errors[0])
    enough, records = _least(suffices, 0), _least(as_good, size) if error_is_known and number else None
    weights = before.r, after.r
    return PublicPlan(model.name, size, number, enough, weights, errors if error_is_known else None, records)


def _record(model: Family, typical: Any) -> Natural:
    """Return the natural statistic of one typical record."""
    if model.records == "levels":
        statistic, number = typical, sum(typical)
    else:
        statistic, number = model.read(typical, None, {})
    return tuple(part / number for part in model.contribution(statistic, number))


def _whole(model: Family, typical: Any, number: int) -> Natural:
    """Return the statistic of ``number`` records, which are the typical ones in order, repeated.

    If ``typical`` holds counts of levels, the counts are scaled to this number and rounded down.
    """
    if model.records == "levels":
        counts = [int(count) * number // sum(typical) for count in typical]
        return model.contribution(counts, sum(counts))
    times, left = divmod(number, len(typical))
    once = model.contribution(*model.read(typical, None, {}))
    whole = tuple(part * times for part in once)
    return add_scaled(whole, model.contribution(*model.read(typical[:left], None, {}))) if left else whole


def _least(holds: Any, start: int) -> int | None:
    """Return the smallest whole number, at least ``start``, that meets a condition met by all larger ones."""
    if holds(start):
        return start
    step = 1
    while not holds(start + step):
        step *= 2
        if step > _MOST_PUBLIC_RECORDS:
            return None
    return boundary(holds, start + step, start + step // 2)


def _error(sampler: PosteriorSampler, record: Natural) -> float:
    """Return the mean standard deviation of the first number in θ over simulated draws; NaN if it is
    unknown.
    """
    model = sampler.family
    eta = add_scaled(start(model, sampler.prior, sampler.m), record, Fraction(sampler.r) * sampler.n)
    drawn = model.simulate(eta, _SIMULATED_DRAWS, np.random.default_rng(0))
    deviations = []
    for theta in drawn:
        try:
            distribution = model.given_draws(
                sampler.prior, sampler.n, sampler.r, sampler.m, model.value(theta[None])
            )
        except InvalidInputError:
            return math.nan
        deviations.append(model.marginals(distribution)[0].std())
    return float(np.mean(deviations))
