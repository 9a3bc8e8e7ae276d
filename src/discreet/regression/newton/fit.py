"""A private regression, from the question to its answer; see :func:`regress`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.declarations import Relation
from discreet.regression.newton.design import Design
from discreet.regression.newton.models import Model
from discreet.regression.newton.posterior import Evidence, Posterior, Prior, evidence, posterior
from discreet.regression.newton.sums import Round, Sums, noise_for, released


@dataclass(frozen=True)
class Schedule:
    """How μ² is spent, fixed before the data: a share for each round, and of what goes with the gradient."""

    shares: tuple[Fraction, ...]
    curvature: tuple[float, ...]
    squares: float
    descent: Fraction = Fraction(0)
    """The share of the gradient-only steps that come first, where records are at hand."""
    steps: int = 0

    @classmethod
    def of(cls, family: str) -> Schedule:
        if family == "gaussian":
            return cls((Fraction(1, 3), Fraction(2, 3)), (0.3, 0.15), 0.1)
        parts = (Fraction(2, 20), Fraction(3, 20), Fraction(5, 20), Fraction(10, 20))
        return cls(parts, (1 / 5,) * 4, 0.0)


def run_rounds(
    design: Design,
    model: Model,
    prior: Prior,
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
    if plan.steps:
        seen.append(
            _descend(
                design, model, mu_squared * plan.descent, plan.steps, sums, source, relation, n, per_person
            )
        )
        found = None if plan.shares else posterior(model, design, prior, seen, n)
    for share, curved in zip(plan.shares, plan.curvature, strict=True):
        point = found.mean if found is not None else seen[-1].point if seen else prior.mean * 0
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


def _descend(
    design: Design,
    model: Model,
    mu_squared: Fraction,
    steps: int,
    sums: Callable[[Any, bool], Sums],
    source: Any,
    relation: Relation,
    n: int | None,
    per_person: int,
) -> Evidence:
    """Nesterov's accelerated descent on noisy gradients; the later steps as one round at their mean point.

    Given the curvature, the likelihood of ŵ depends on the steps through the means of points and gradients.
    """
    assert n is not None
    most = n * (design.norm / design.unit) ** 2 * model.most_weight()
    point = np.zeros(design.d * model.outputs)
    ahead = point
    points, gradients, variances = [], [], []
    for step in range(steps):
        link = model.link(design, ahead)
        turn = Round(
            link,
            noise_for(model, design, link, mu_squared / steps, relation, per_person, 0.0),
            mu_squared / steps,
        )
        one = evidence(model, design, turn, released(sums(link, False), turn.noise, source))
        points.append(one.point)
        gradients.append(one.gradient)
        variances.append(one.gradient_variance)
        new = one.point - one.gradient / most
        ahead, point = new + step / (step + 3) * (new - point), new
    late = slice(steps // 2, None)
    noise = float(np.mean(variances[late])) / len(points[late])
    return Evidence(
        np.mean(points[late], axis=0), np.mean(gradients[late], axis=0), noise, None, 0.0, 0.0, 0.0, 0.0
    )


def _clip(found: Posterior, last: Evidence, design: Design) -> float:
    """Where residuals are clipped: two and a half deviations, with what is not known of them yet on top."""
    order = np.argsort(found.sigma_squared)
    cumulative = np.cumsum(found.sigma_weights[order])
    upper = float(found.sigma_squared[order][min(np.searchsorted(cumulative, 0.9), len(order) - 1)])
    misfit = float(np.sum(found.curvature * found.covariance)) / found.records
    return 2.5 * math.sqrt(upper + misfit)
