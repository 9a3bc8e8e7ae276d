"""Do survival bands hold, how far are curves from those without noise, and is the log-rank test of size 5 %?

Times are Weibull, censoring is uniform, as in a trial of 228 people of whom about 70 % have the event (the
size of the NCCTG lung data). Bins follow the rule of the question. The reference is Kaplan and Meier's curve
of the same records without noise.

    python benchmarks/survival.py --repetitions 300
"""

from __future__ import annotations

import argparse

import numpy as np

from discreet._inference.quantiles import Bins
from discreet._inference.survival import SurvivalPosterior
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
    events = np.sort(time[event])
    risk = len(time) - np.searchsorted(np.sort(time), events)
    return np.append(1.0, np.cumprod(1 - 1 / risk))[np.searchsorted(events, at, side="right")]


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


def main() -> None:
    """Print a line for each design."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=35)
    asked = parser.parse_args()
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
    for design in DESIGNS:
        rng = np.random.default_rng(asked.seed)
        results = np.mean([once(rng, *design) for _ in range(asked.repetitions)], axis=0)
        results[2:4] **= 0.5
        print(
            "".join(f"{value!s:>11}" for value in design) + "".join(f"{v:11.4f}" for v in results), flush=True
        )


if __name__ == "__main__":
    main()
