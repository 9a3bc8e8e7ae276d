"""The expected intervals of a regression, from a fit to simulated records; no data are opened."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtr

from discreet._data.grids import Grid
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import InvalidInputError
from discreet.regression._newton.design import Design
from discreet.regression._newton.fit import Fit, Regression
from discreet.regression._newton.rounds import Schedule

_MOST = 20_000
_TYPICAL = {
    "gaussian": "the standard deviation of the errors, in the units of the response",
    "binomial": "the share of the second level, between 0 and 1",
    "poisson": "the mean count",
}


def simulate_fit(
    asked: Regression, n: int, seed: int, *guessed: Any
) -> tuple[Fit, float, tuple[tuple[str, str], ...]]:
    """Return a fit to simulated records, the factor for its widths, and notes on the division of the budget.

    Above 20,000 records, N simulated records represent n, with μ√(n/N) in place of μ. Sampling variances (∝
    1/n) and noise variances (∝ 1/(nμ)²) are then both n/N times too large, for which the factor corrects.
    """
    size = min(n, _MOST)
    if size < asked.design.d:
        raise InvalidInputError(
            f"n={n} is less than the {asked.design.d} coefficients: nothing can be fitted"
        )
    schedule = Schedule.of(asked.setting(n), asked.aim)
    aim = "prediction" if schedule.steps else "intervals"
    alone = replace(asked, n=None, person=None, per_person=None, aim=aim)
    people = asked.per_person or 1
    vars(alone)["mu_squared"] = asked.mu_squared * Fraction(n, size) / people**2
    frame = simulate_records(asked.design, asked.family, size, seed, *guessed)
    return alone.fit(frame, source=SeededEntropy(seed)), math.sqrt(size / n), _split(schedule)


def simulate_records(
    design: Design,
    family: str,
    n: int,
    seed: int,
    typical: float | None = None,
    correlation: float = 0.0,
    spread: float | None = None,
    shares: Mapping[str, Sequence[float]] | None = None,
) -> Any:
    """Return a table of simulated records.

    All pairs of columns have the same rank correlation, and no column explains the response.

    Numbers are spread evenly, or follow a symmetric Beta distribution with standard deviation ``spread``, as
    a fraction of their range. Values of a category are equally frequent, or have the ``shares`` of their
    column.
    """
    import pandas as pd

    generator = np.random.default_rng(seed)
    shared = generator.normal(size=(n, 1)) * math.sqrt(max(correlation, 0.0))
    independent = generator.normal(size=(n, len(design.variables))) * math.sqrt(1 - max(correlation, 0.0))
    places = ndtr(shared + independent)
    shape = 1.0 if spread is None else (1 / (4 * spread**2) - 1) / 2
    remaining = dict(shares or {})
    columns = {}
    for variable, place in zip(design.variables, places.T, strict=True):
        size = variable.coder.size
        if variable.numeric:
            codes = (betaincinv(shape, shape, place) * (size - 1e-9)).astype(np.int64)
        else:
            parts = remaining.pop(variable.name, (1 / size,) * size)
            if len(parts) != size:
                raise InvalidInputError(
                    f"shares of {variable.name!r} must be {size} numbers, one for each of its values, not "
                    f"{len(parts)}"
                )
            codes = np.searchsorted(np.cumsum(parts)[:-1], place, side="right")
        columns[variable.name] = variable.values(codes)
    if remaining:
        categories = [variable.name for variable in design.variables if not variable.numeric]
        raise InvalidInputError(
            f"shares of {next(iter(remaining))!r} are given, but it is not a category of the formula, "
            "which has: "
            f"{', '.join(categories) or 'none'}"
        )
    if design.weight is not None and isinstance(design.weight.coder, Grid):
        columns[design.weight.name] = generator.random(n) * (design.weight.coder.high / 2)
    return pd.DataFrame({**columns, design.response.name: _response(design, family, n, typical, generator)})


def _response(
    design: Design, family: str, n: int, typical: float | None, generator: np.random.Generator
) -> Any:
    coder = design.response.coder
    levels = np.array(design.response.levels, dtype=object)
    if family == "multinomial":
        if typical is not None:
            raise InvalidInputError(
                "is not used by multinomial models: leave it out", parameter="typical", value=typical
            )
        return levels[generator.integers(0, len(levels), n)]
    most, part = (coder.width, {"gaussian": 8, "poisson": 5}[family]) if isinstance(coder, Grid) else (1, 2)
    guess = most / part if typical is None else float(typical)
    if not 0 < guess < most:
        raise InvalidInputError(f"must be {_TYPICAL[family]}", parameter="typical", value=typical)
    if not isinstance(coder, Grid):
        return levels[(generator.random(n) < guess).astype(int)]
    if family == "poisson":
        return np.minimum(generator.poisson(guess, n), coder.high)
    return (coder.low + coder.high) / 2 + guess * generator.normal(size=n)


def _split(schedule: Schedule) -> tuple[tuple[str, str], ...]:
    if schedule.steps:
        return (("Budget", f"an equal part in each of {schedule.steps} steps"),)
    shares = ", ".join(f"{100 * float(share):.0f} %" for share in schedule.shares)
    rounds = "one round" if len(schedule.shares) == 1 else f"rounds 1 to {len(schedule.shares)}"
    return (("Budget", f"{shares} in {rounds}"),)
