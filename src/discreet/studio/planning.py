"""The figures of the plan page: first what takes a few hundredths of a second, then the rest.

Everything here is simulated or computed from public parameters and a made-up data set. Nothing is private,
and nothing needs to be.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from discreet._typing import FloatArray
from discreet.distributions.beta_dirichlet import Beta, dirichlet
from discreet.distributions.normal import Normal
from discreet.errors import DiscreetError, InvalidInput, TooLargeError
from discreet.mechanisms import MECHANISMS
from discreet.mechanisms.lattice.mechanism import Lattice
from discreet.mechanisms.optimal import check_size
from discreet.planning.expected_error import Setting, default_mechanisms, label
from discreet.planning.search import Plan, plan
from discreet.privacy.guarantee import Guarantee
from discreet.studio.questions import PlanQuestion

SIMULATED = 10
QUICK = ("lattice", "lshist", "lsdim", "lszhang")
SECONDS = 0.15
"""How long the first figures may take to decode noisy counts; slower mechanisms follow with the rest."""
POINTS = 121


@dataclass(frozen=True)
class Line:
    """A mechanism in the table; what is not known yet is None."""

    label: str
    expected: float | None = None
    standard_error: float = 0.0
    width: float | None = None
    method: str = ""
    private: bool = True


@dataclass(frozen=True)
class Comparison:
    """The table of mechanisms. ``complete`` is False while only the quick figures are in it."""

    lines: tuple[Line, ...]
    complete: bool
    best: str | None = None
    limit: float | None = None
    limit_possible: bool = False
    width_without: float | None = None


@dataclass(frozen=True)
class Picture:
    """Densities of one proportion: without privacy, and of ten simulated releases."""

    mechanism: str
    counts: tuple[int, ...]
    x: FloatArray
    true: FloatArray
    released: FloatArray
    """One row per simulated release."""
    noise: float
    """Typical noise in one count, in records."""


@lru_cache(maxsize=16)
def _setting(prior: tuple[float, ...], n: int) -> Setting:
    return Setting(prior, n, quick=True)


def _quick_names(prior: tuple[float, ...], n: int, epsilon: Fraction) -> tuple[str, ...]:
    lattice = Lattice(prior=prior, n=n, epsilon=epsilon)
    return QUICK if lattice.seconds_per_dataset * 12 <= SECONDS else QUICK[1:]


@lru_cache(maxsize=512)
def first_figures(prior: tuple[float, ...], n: int, epsilon: Fraction) -> Comparison:
    """Expected errors of the fast mechanisms, with the other rows still empty."""
    setting = _setting(prior, n)
    found = {}
    for name in _quick_names(prior, n, epsilon):
        row = setting.row(MECHANISMS[name](prior=prior, n=n, epsilon=epsilon), {})
        found[name] = Line(row.label, row.expected, row.standard_error, method=row.method)
    lines = [
        found.get(name, Line(label(name, options))) if not options else Line(label(name, options))
        for name, options in default_mechanisms(prior, n)
    ]
    return Comparison(tuple(lines), complete=False, limit_possible=_limit_possible(n, len(prior)))


class _Known:
    """All figures that were computed, the newest 500; one computation at a time."""

    def __init__(self) -> None:
        self.figures: OrderedDict[tuple[Any, ...], Comparison] = OrderedDict()
        self.newest: object = None
        self.busy = threading.Lock()


_known = _Known()


def all_figures(prior: tuple[float, ...], n: int, epsilon: Fraction) -> Comparison | None:
    """Every mechanism, interval widths and the limit; None if a newer question came while this one waited."""
    key, turn = (prior, n, epsilon), object()
    _known.newest = turn
    with _known.busy:
        if key in _known.figures:
            return _known.figures[key]
        if _known.newest is not turn:
            return None
        found: Plan = plan(prior=prior, n=n, epsilon=epsilon)
        lines = tuple(
            Line(row.label, row.expected, row.standard_error, row.width, row.method, row.comparable)
            for row in found.rows
        )
        best = None if found.best_row is None else found.best_row.label
        without = found.rows[0].width_without if found.rows else None
        possible = _limit_possible(n, len(prior))
        _known.figures[key] = Comparison(lines, True, best, found.limit, possible, without)
        while len(_known.figures) > 500:
            _known.figures.popitem(last=False)
        return _known.figures[key]


def figures(prior: tuple[float, ...], n: int, epsilon: Fraction) -> Comparison:
    """All figures if they are known already, else the first ones."""
    return _known.figures.get((prior, n, epsilon)) or first_figures(prior, n, epsilon)


def _limit_possible(n: int, k: int) -> bool:
    try:
        check_size(n, k)
    except TooLargeError:
        return False
    return True


def picture(question: PlanQuestion) -> Picture:
    return _picture(question.alpha, question.counts, question.budget, question.shown)


@lru_cache(maxsize=256)
def _picture(prior: tuple[float, ...], counts: tuple[int, ...], epsilon: Fraction, shown: int) -> Picture:
    """Ten simulated releases of a made-up data set, by lattice or, where that is slow, by lshist."""
    n = sum(counts)
    name = _quick_names(prior, n, epsilon)[0]
    m = MECHANISMS[name](prior=prior, n=n, epsilon=epsilon)
    true = dirichlet([a + c for a, c in zip(prior, counts, strict=True)]).marginal(shown)
    laws = [
        dirichlet([a + c for a, c in zip(prior, row, strict=True)]).marginal(shown)
        for row in m.simulate(counts, SIMULATED, seed=1).tolist()
    ]
    x = grid([true, *laws])
    return Picture(
        name, counts, x, densities(true, x), np.array([densities(law, x) for law in laws]), m.noise_scale
    )


def grid(laws: list[Any], points: int = POINTS) -> FloatArray:
    """Points that cover all densities, wherever between 0 and 1 they are."""
    low = min(float(law.ppf(0.001)) for law in laws)
    high = max(float(law.ppf(0.999)) for law in laws)
    margin = 0.06 * (high - low) + 1e-9
    return np.linspace(max(low - margin, 0.0), min(high + margin, 1.0), points)


def densities(law: Any, x: FloatArray) -> FloatArray:
    """Values that can be drawn: a density that is infinite at 0 or 1 is cut there."""
    inside = np.clip(x, 1e-6, 1 - 1e-6)
    return np.nan_to_num(np.asarray(law.pdf(inside), dtype=np.float64), posinf=0.0)


STEPS = tuple(Fraction(f"{10 ** (i / 20):.2g}") for i in range(-40, 21))
"""The positions of the slider: 20 in a decade, of two digits each."""


class Prefetch:
    """Works out what the slider may show next, nearest positions first, while nobody waits for anything."""

    def __init__(self) -> None:
        self._question: PlanQuestion | None = None
        self._newer = threading.Event()

    def note(self, question: PlanQuestion) -> None:
        """The question that somebody looks at now."""
        self._question = question
        self._newer.set()

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while self._newer.wait():
            self._newer.clear()
            question = self._question
            if question is None or question.kind != "levels":
                continue
            at = math.log(question.budget)
            for epsilon in sorted(STEPS, key=lambda step: abs(math.log(step) - at)):
                began = time.perf_counter()
                with _known.busy, suppress(DiscreetError):  # after the figures that are waited for
                    first_figures(question.alpha, question.records, epsilon)
                    _picture(question.alpha, question.counts, epsilon, question.shown)
                if self._newer.wait(min(time.perf_counter() - began, 0.2)):  # half of the time at most
                    break


def prior_densities(question: PlanQuestion) -> list[tuple[str, FloatArray, FloatArray]]:
    """The marginal prior of every level, Beta(αᵢ, Σα − αᵢ); one curve for levels of the same prior."""
    total = math.fsum(question.alpha)
    named: dict[float, list[str]] = {}
    for name, a in zip(question.names, question.alpha, strict=True):
        named.setdefault(a, []).append(name)
    x = np.linspace(0.004, 0.996, POINTS)
    curves = []
    for a, names in named.items():
        text = "every level" if len(names) == len(question.names) > 1 else ", ".join(names)
        curves.append((text, x, densities(Beta(a, total - a), x)))
    return curves


@dataclass(frozen=True)
class MeanLine:
    """One way of drawing a mean: what it keeps of the data, how far a draw is from the truth, and what is
    known after it."""

    sampler: str
    kept: float = math.nan
    """Share of the weight of the data."""
    prior_weight: float = math.nan
    """How many times the prior counts."""
    error: float = math.nan
    """Root mean square distance of a draw from the mean of the posterior without privacy."""
    width: float = math.nan
    """Width of the 95 % interval of the mean given a draw, noise-aware: the same for every draw."""
    note: str = ""


@dataclass(frozen=True)
class MeanPlan:
    lines: tuple[MeanLine, ...]
    centre: float
    deviation: float
    """Mean and standard deviation of the posterior without privacy, of the made-up data set."""
    made_up: float
    given: tuple[Normal, ...]
    """What would be known of the mean after each of ten simulated draws."""
    drawn_by: str


@lru_cache(maxsize=256)
def mean_plan(
    prior: tuple[float, float],
    n: int,
    sigma: float,
    bounds: tuple[float, float],
    epsilon: Fraction,
    delta: Fraction,
) -> MeanPlan:
    """Posterior draws of a Gaussian mean for n made-up records whose mean is the middle of the bounds."""
    from discreet.posterior_sampling.sampler import posterior_sampler

    made_up = sum(bounds) / 2
    centre, deviation = _normal(prior, n, sigma, made_up, 1.0, 1.0)
    lines, found = [], {}
    for name in ("diffused", "concentrated", "direct"):
        try:
            sampler = posterior_sampler(
                name, "gaussian", prior=prior, n=n, sigma=sigma, bounds=bounds, epsilon=epsilon, delta=delta
            )
        except InvalidInput:
            lines.append(MeanLine(name, note="does not reach this ε and δ"))
            continue
        middle, spread = _normal(prior, n, sigma, made_up, sampler.r, sampler.m)
        error = math.hypot(spread, middle - centre)
        drawn = middle + spread * np.random.default_rng(1).standard_normal(SIMULATED)
        own = (sampler.prior, n, sampler.r, sampler.m)
        given: list[Normal] = [sampler.family.given_draws(*own, np.array([draw])) for draw in drawn]
        low, high = given[0].interval(0.95)
        lines.append(MeanLine(name, sampler.r, 1 / sampler.m, error, high - low))
        found[name] = error, tuple(given)
    if not found:
        raise TooLargeError("no posterior draw reaches this ε and δ with so few records; raise n or ε")
    best = min(found, key=lambda name: found[name][0])
    return MeanPlan(tuple(lines), centre, deviation, made_up, found[best][1], best)


def _normal(
    prior: tuple[float, float], n: int, sigma: float, mean: float, r: float, m: float
) -> tuple[float, float]:
    """Mean and standard deviation of N(·) with natural parameters η₀/m + r ΣS(x)."""
    own, data = 1 / (m * prior[1] ** 2), r * n / sigma**2
    return (own * prior[0] + data * mean) / (own + data), 1 / math.sqrt(own + data)


@dataclass(frozen=True)
class Meaning:
    """ε in words: what somebody can gain who knows everything but one record."""

    factor: float
    right: int
    """How often, in 100 times, they guess right between two equally likely worlds; rounded up."""
    suspicions: tuple[tuple[float, float], ...]
    """(probability before, largest probability afterwards)."""


def meaning(guarantee: Guarantee) -> Meaning:
    """What (ε, δ) means; δ(0) is the total variation between neighbours, as in the report."""
    factor = math.exp(guarantee.epsilon)

    def after(before: float) -> float:
        odds = factor * before / (1 - before)
        return odds / (1 + odds)

    right = after(0.5)
    with suppress(TooLargeError):
        right = (1 + guarantee.delta_at(0)) / 2
    return Meaning(factor, math.ceil(100 * right - 1e-9), tuple((p, after(p)) for p in (0.01, 0.1, 0.5, 0.9)))
