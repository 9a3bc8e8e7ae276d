"""Do survival bands hold, how far are curves from those without noise, and is the log-rank test of size 5 %?

Times are Weibull, censoring is uniform, as in a trial of 228 people of whom about 70 % have the event (the
size of the NCCTG lung data). Bins follow the rule of the question. The reference is Kaplan and Meier's curve
of the same records without noise.

    python benchmarks/survival.py --repetitions 1000

With ``--lung FILE``, the lung data of the North Central Cancer Treatment Group (228 people; a CSV file such
as ``lifelines/datasets/lung.csv``): how far private curves are from the curve without noise, and how far
curve and test are without noise from those of lifelines, where that is installed.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util

import numpy as np

from discreet._inference.quantiles import Bins
from discreet._inference.survival import SurvivalDraws, SurvivalPosterior
from discreet._numerics import noises

SCALE, HIGH = 420.0, 1000.0
DESIGNS = (  # records, Weibull shape, ε, groups, whether n is private
    (228, 1.3, 1.0, 1, False),
    (228, 1.3, 1.0, 1, True),
    (228, 1.3, 1.0, 2, False),
    (228, 0.8, 1.0, 2, True),
    (1000, 1.3, 1.0, 2, False),
    (1000, 0.8, 1.0, 3, False),
)


def kaplan_meier(time: np.ndarray, event: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The curve of records without noise."""
    events, ties = np.unique(time[event], return_counts=True)
    risk = len(time) - np.searchsorted(np.sort(time), events)
    return np.append(1.0, np.cumprod(1 - ties / risk))[np.searchsorted(events, at, side="right")]


def once(
    rng: np.random.Generator, n: int, shape: float, epsilon: float, groups: int, hidden: bool
) -> tuple[float, ...]:
    """Whether bands and intervals hold, squared errors, and whether the log-rank test rejects at 5 %."""
    group = rng.integers(groups, size=n)
    death, end = SCALE * rng.weibull(shape, n), rng.uniform(0.15 * HIGH, 1.3 * HIGH, n)
    time, event = np.minimum(np.minimum(death, end), HIGH), (death <= end) & (death < HIGH)
    bins = Bins.over((0.0, HIGH), n / (2 * groups), epsilon)
    counts = np.zeros((groups, len(bins), 2), dtype=int)
    np.add.at(counts, (group, bins.places(time), event.astype(int)), 1)
    noise = noises.DiscreteLaplace(1 / epsilon) if hidden else noises.LatticeNoise(2 / epsilon)
    noisy = noise.draw(counts.ravel()[None].astype(float), rng)[0].reshape(counts.shape)
    posterior = SurvivalPosterior(bins, noisy, noise, n=None if hidden else n)
    drawn = posterior.usual
    truth = np.exp(-((drawn.times / SCALE) ** shape))
    curves = np.stack([kaplan_meier(time[group == g], event[group == g], drawn.times) for g in range(groups)])
    low, high = drawn.band(0.9)
    left, right = drawn.interval(drawn.curves, 0.9)
    estimate = drawn.curves.mean(axis=0)
    rejects = posterior.log_rank()[2] < 0.05 if groups > 1 else np.nan
    return (
        ((low <= truth) & (truth <= high)).all(axis=-1).mean(),
        ((left <= truth) & (truth <= right)).mean(),
        np.mean((estimate - curves) ** 2),
        np.mean((curves - truth) ** 2),
        rejects,
    )


def lung(path: str, repetitions: int, seed: int) -> None:
    """Print the root mean squared errors of curves of the lung data, and differences from lifelines."""
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    time, event, sex = (
        np.array([int(float(row[name])) for row in rows]) for name in ("time", "status", "sex")
    )
    event, sex = event == event.max(), sex - sex.min()
    for hidden, groups in ((False, 1), (True, 1), (False, 2), (True, 2)):
        rng, group = np.random.default_rng(seed), sex * (groups - 1)
        bins = Bins.over((0.0, 1100.0), len(time) / (2 * groups), 1.0)
        counts = np.zeros((groups, len(bins), 2))
        np.add.at(counts, (group, bins.places(time), event.astype(int)), 1)
        noise = noises.DiscreteLaplace(1.0) if hidden else noises.LatticeNoise(2.0)
        errors = []
        for _ in range(repetitions):
            noisy = noise.draw(counts.ravel()[None], rng)[0].reshape(counts.shape)
            drawn = SurvivalPosterior(bins, noisy, noise, n=None if hidden else len(time)).usual
            curves = np.stack(
                [kaplan_meier(time[group == g], event[group == g], drawn.times) for g in range(groups)]
            )
            errors.append(np.mean((drawn.curves.mean(axis=0) - curves) ** 2))
        relation = "add-remove" if hidden else "replace-one"
        print(f"lung, ε = 1, {groups} groups, {relation}: {np.mean(errors) ** 0.5:.4f}", flush=True)
    single = Bins(tuple(map(float, range(time.max() + 2))), (), True)
    shares = np.zeros((1, 2, len(single), 2))
    np.add.at(shares, (0, sex, single.places(time), event.astype(int)), 1 / len(time))
    drawn = SurvivalDraws(single, shares[..., 1], shares[..., 0])
    ours = np.stack([kaplan_meier(time[sex == g], event[sex == g], drawn.times) for g in range(2)])
    print(f"without noise, from Kaplan and Meier: {np.abs(drawn.curves[0] - ours).max():.1e}")
    if importlib.util.find_spec("lifelines") is None:
        return
    from lifelines import KaplanMeierFitter
    from lifelines.statistics import logrank_test

    for g in range(2):
        theirs = KaplanMeierFitter().fit(time[sex == g], event[sex == g]).predict(drawn.times)
        print(f"lifelines, group {g}: {np.abs(drawn.curves[0, g] - theirs).max():.1e}")
    usual = logrank_test(time[sex == 0], time[sex == 1], event[sex == 0], event[sex == 1])
    bins = Bins(tuple(np.linspace(0, 1100, 23)))
    counts = np.zeros((2, 22, 2))
    np.add.at(counts, (sex, bins.places(time), event.astype(int)), 1)
    found = SurvivalPosterior(bins, counts, noises.DiscreteLaplace(0.05), n=len(time)).log_rank()
    print(f"log-rank: {found[0]:.2f} in bins of 50 days, {usual.test_statistic:.2f} of lifelines")


def main() -> None:
    """Print a line for each design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--lung", metavar="FILE")
    parser.add_argument("--designs", default="", help="the designs to run, by their numbers from 0 on: 0,2")
    asked = parser.parse_args()
    if asked.lung:
        lung(asked.lung, asked.repetitions, asked.seed)
        return
    chosen = [DESIGNS[int(i)] for i in asked.designs.split(",")] if asked.designs else DESIGNS
    names = (
        "n",
        "shape",
        "ε",
        "groups",
        "private n",
        "band 90 %",
        "point 90 %",
        "RMSE to KM",
        "KM",
        "rejects",
    )
    print("".join(f"{name:>11}" for name in names))
    for design in chosen:
        rng = np.random.default_rng(asked.seed)
        results = np.mean([once(rng, *design) for _ in range(asked.repetitions)], axis=0)
        results[2:4] **= 0.5
        print(
            "".join(f"{value!s:>11}" for value in design) + "".join(f"{v:11.4f}" for v in results), flush=True
        )


if __name__ == "__main__":
    main()
