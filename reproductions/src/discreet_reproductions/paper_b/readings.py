"""Figures 3, 4 and 5 of B: the error of every mechanism in every reading, from exact distributions.

B does not give the data, the δ of Figure 3, nor which of its two rates and which of its Laplace mechanisms
were run. Here every combination is measured; the repetitions draw the pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from discreet._numerics.count_vectors import compositions
from discreet.mechanisms.hellinger.sensitivity import step_distance
from discreet_reproductions.arrays import FloatArray, IntArray
from discreet_reproductions.paper_b.distributions import (
    RATES,
    Counts,
    Distribution,
    Prior,
    Sensitivity,
    box,
    drawn_box,
    exponential,
    floored_laplace,
    sensitivity,
    uniform_counts,
)
from discreet_reproductions.report import Row
from discreet_reproductions.running import Run

__all__ = [
    "FIGURE3",
    "FIGURE4",
    "FIGURE5",
    "LAPLACE",
    "QUOTED",
    "Quoted",
    "Settings",
    "datasets",
    "evenest",
    "local_sensitivities",
    "measure",
    "with_local",
]

KINDS: tuple[Sensitivity, ...] = ("smooth", "local", "global")
LAPLACE: Mapping[str, tuple[float, bool]] = {
    "2/ε on m − 1": (2.0, False),
    "2/ε on all m": (2.0, True),
    "1/ε on m − 1": (1.0, False),
}
"""Scale times ε, and whether every count has noise: B 3.1, B 3.4.1, and what is private for k = 2 only."""


@dataclass(frozen=True)
class Quoted:
    """The constants in the captions of Figures 4 and 5, with their digits."""

    whole: str
    local: str
    smooth: str
    beta: str


QUOTED: Mapping[int, Quoted] = {
    100: Quoted("0.239992747797", "0.08", "0.09", "0.0699407108115"),
    120: Quoted("0.239992747797", "0.0945", "0.096", "0.0677791100173"),
    150: Quoted("0.239992747797", "0.0945", "0.096", "0.0677791100173"),
}


@dataclass(frozen=True)
class Settings:
    """What decides a figure. ``deltas``: readings of δ; ``measures``: hellinger, l1."""

    figure: int
    prior: Prior
    sizes: tuple[int, ...]
    epsilon: float
    deltas: tuple[float, ...]
    measures: tuple[str, ...] = ("hellinger",)
    quoted: Mapping[int, Quoted] = field(default_factory=dict)
    data: tuple[str, ...] = ("even", "as the prior", "quoted LS")
    repetitions: int = 10_000
    seed: int = 2017

    def quick(self) -> Settings:
        """Fewer repetitions, and of three categories even data only; everything rests on the exact
        distributions."""
        return replace(self, repetitions=1_000, data=self.data if len(self.prior) == 2 else ("even",))


FIGURE3 = Settings(3, (7.0, 4.0), (500, 300), 0.5, (0.5, 0.0005, 1e-6))
FIGURE4 = Settings(4, (7.0, 4.0, 5.0), (100, 120), 0.8, (0.8,), quoted={n: QUOTED[n] for n in (100, 120)})
FIGURE5 = Settings(5, (7.0, 4.0, 5.0), (150,), 0.8, (0.8,), ("hellinger", "l1"), {150: QUOTED[150]})


def datasets(settings: Settings, n: int) -> dict[str, Counts]:
    """Guesses at the data: even, in proportion to the prior, the most even with the quoted sensitivity."""
    prior = settings.prior
    shares = np.array(prior) / sum(prior) * n
    counts = np.floor(shares).astype(int)
    counts[np.argsort(counts - shares)[: n - int(counts.sum())]] += 1
    found = {"even": uniform_counts(n, len(prior)), "as the prior": tuple(counts.tolist())}
    if n in settings.quoted:
        found["quoted LS"] = evenest(with_local(settings, n))
    return found


def local_sensitivities(rows: IntArray, prior: Prior) -> FloatArray:
    """The local sensitivity of many datasets at once."""
    a = rows + np.array(prior)
    best = np.zeros(len(rows))
    for i in range(len(prior)):
        some = rows[:, i] > 0
        for j in range(len(prior)):
            if i != j:
                best[some] = np.maximum(best[some], step_distance(a[some, i] - 1, a[some, j]))
    return best


def with_local(settings: Settings, n: int) -> IntArray:
    """All datasets of n records whose local sensitivity rounds to the quoted one."""
    rows, quoted = compositions(n, len(settings.prior)), settings.quoted[n].local
    rounded = np.round(local_sensitivities(rows, settings.prior), len(quoted.split(".")[1]))
    return np.asarray(rows[rounded == float(quoted)])


def evenest(rows: IntArray) -> Counts:
    """The dataset with the least sum of squares."""
    return tuple(rows[np.argmin((rows**2).sum(axis=1))].tolist())


def measure(settings: Settings, run: Run | None = None) -> list[Row]:
    """Error of every mechanism in every reading: one row each, exact and as drawn."""
    run = run or Run(f"b-figure{settings.figure}")
    places = [
        (n, data, counts)
        for n in settings.sizes
        for data, counts in datasets(settings, n).items()
        if data in settings.data
    ]
    run.expect(len(places))
    rows: list[Row] = []
    for i, (n, data, counts) in enumerate(places):
        rows.extend(run.step(f"{settings} {n} {data}", partial(_rows, settings, i, n, data, counts)))
    return rows


def _rows(settings: Settings, place: int, n: int, data: str, counts: Counts) -> list[Row]:
    prior, epsilon = settings.prior, settings.epsilon
    made: list[tuple[Row, Callable[[], Distribution]]] = []

    def tell(mechanism: str, reading: str, constants: str, delta: float, value: float) -> Row:
        return {
            "figure": settings.figure,
            "n": n,
            "data": data,
            "counts": str(counts),
            "mechanism": mechanism,
            "reading": reading,
            "constants": constants,
            "delta": delta,
            "sensitivity": value,
        }

    for kind in KINDS:
        for delta in settings.deltas:
            values = {"recomputed": sensitivity(kind, counts, prior, epsilon, delta)}
            if n in settings.quoted:
                quoted = settings.quoted[n]
                values["quoted"] = float(getattr(quoted, "whole" if kind == "global" else kind))
            for constants_of, value in values.items():
                for label, factor in RATES.items():
                    rate = factor * epsilon / value
                    row = tell(kind, label, constants_of, delta, value)
                    made.append((row, partial(exponential, counts, prior, rate)))
    for label, (scale, every) in LAPLACE.items():
        row = tell("laplace", label, "none", 0.0, 0.0)
        made.append((row, partial(floored_laplace, counts, prior, epsilon, scale=scale, every=every)))
    rows = []
    for index, (row, build) in enumerate(made):
        distribution = build()
        drawn = distribution.draw(settings.repetitions, _generator(settings, place, index))
        for name in settings.measures:
            values_of = distribution.distance if name == "hellinger" else distribution.l1
            simulated = {f"drawn_{key}": value for key, value in drawn_box(values_of[drawn]).items()}
            rows.append({**row, "measure": name, **box(values_of, distribution.probability), **simulated})
    return rows


def _generator(settings: Settings, *place: int) -> np.random.Generator:
    return np.random.default_rng([settings.seed, settings.figure, *place])
