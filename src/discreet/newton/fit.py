"""A private regression, from the question to its answer; see :func:`regress`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.core import InvalidInput, Relation
from discreet.newton.design import Design
from discreet.newton.models import Model
from discreet.newton.posterior import Evidence, Normal, Posterior, evidence, posterior
from discreet.newton.sums import Round, Sums, noise_for, released

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Schedule:
    """How μ² is spent, fixed before the data: a share for each round, and of what goes with the gradient."""

    shares: tuple[Fraction, ...]
    curvature: tuple[float, ...]
    squares: float

    @classmethod
    def of(cls, family: str) -> Schedule:
        if family == "gaussian":
            return cls((Fraction(1, 3), Fraction(2, 3)), (0.3, 0.15), 0.1)
        parts = (Fraction(2, 20), Fraction(3, 20), Fraction(5, 20), Fraction(10, 20))
        return cls(parts, (1 / 5,) * 4, 0.0)


def run_rounds(
    design: Design,
    model: Model,
    prior: Normal,
    mu_squared: Fraction,
    sums: Callable[[Any, bool], Sums],
    source: Any,
    relation: Relation,
    n: int | None,
    per_person: int = 1,
    schedule: Schedule | None = None,
) -> tuple[list[Round], list[Sums], Posterior]:
    """All rounds: each looks where the posterior of those before it has its mean."""
    plan = Schedule.of(model.family) if schedule is None else schedule
    rounds: list[Round] = []
    outputs: list[Sums] = []
    seen: list[Evidence] = []
    found: Posterior | None = None
    for share, curved in zip(plan.shares, plan.curvature, strict=True):
        point = prior.mean * 0 if found is None else found.mean
        clip = None if found is None or not model.squares else _clip(found, seen[-1], design)
        link = model.link(design, point, clip)
        noise = noise_for(model, design, link, share * mu_squared, relation, per_person, curved, plan.squares)
        turn = Round(link, noise, share * mu_squared)
        out = released(sums(link, noise.curvature is not None), noise, source)
        rounds.append(turn)
        outputs.append(out)
        seen.append(evidence(model, design, turn, out))
        found = posterior(model, design, prior, seen, n)
    assert found is not None
    return rounds, outputs, found


def _clip(found: Posterior, last: Evidence, design: Design) -> float:
    """Where residuals are clipped: two and a half deviations, with what is not known of them yet on top."""
    order = np.argsort(found.sigma_squared)
    cumulative = np.cumsum(found.weights[order])
    upper = float(found.sigma_squared[order][min(np.searchsorted(cumulative, 0.9), len(order) - 1)])
    misfit = float(np.sum(found.curvature * found.covariance)) / found.records
    return 2.5 * math.sqrt(upper + misfit)
