"""Groups that share strength, and counts that others published: coverage, error and time.

    python benchmarks/likelihoods.py pooled --repetitions 100 --processes 16
    python benchmarks/likelihoods.py speed
    python benchmarks/likelihoods.py histogram --repetitions 20000 --processes 16

``pooled``: 200 groups of 50 with lattice noise, 90 % intervals, 200 × repetitions of them a row, and how much
less the root mean square error is than group by group. Truths: μ uniform on (0.1, 0.9), κ fixed, or
log-uniform from 2 to 200; none of these decided anything about the prior, which is uniform on the correlation
1/(1 + κ) of two records of one group. ``speed``: 3,000 groups. ``histogram``: OpenDP's discrete Laplace on
two counts of 100 records at ε = 0.1, read by noisy_counts from the measurement itself (``discreet[opendp]``).
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

import discreet
from discreet._inference.pooled import noisy_groups, pool_groups
from discreet._numerics import noises

GROUPS, SIZE = 200, 50


def one_pooled(job: tuple[int, float, float | None]) -> tuple[float, float, float, float]:
    """Coverage pooled and alone, and both squared errors, of one set of groups."""
    seed, epsilon, fixed = job
    rng = np.random.default_rng([seed, int(1000 * epsilon), int(fixed or 0)])
    kappa, mu = fixed or math.exp(rng.uniform(math.log(2), math.log(200))), rng.uniform(0.1, 0.9)
    shares = rng.beta(kappa * mu, kappa * (1 - mu), GROUPS)
    x = rng.binomial(SIZE, shares)
    noise = noises.LatticeNoise(2 / epsilon)
    z = noise.draw(np.stack([x, SIZE - x], axis=1), rng)
    together = pool_groups(noisy_groups(z, noise, np.full(GROUPS, SIZE)))
    low, high = (end[::2] for end in together.interval(0.9))  # of the first value in each group
    alone = [discreet.noisy_counts(row, noise, total=SIZE).noise_aware() for row in z]
    ends = np.array([distribution.interval(0.9) for distribution in alone])[:, :, 0]
    own = np.array([distribution.mean()[0] for distribution in alone])
    return (
        float(np.mean((low <= shares) & (shares <= high))),
        float(np.mean((ends[:, 0] <= shares) & (shares <= ends[:, 1]))),
        float(np.mean((together.mean()[::2] - shares) ** 2)),
        float(np.mean((own - shares) ** 2)),
    )


def mapped(function: Callable[[Any], Any], jobs: list[Any], processes: int) -> list[Any]:
    """In several processes where asked."""
    if processes == 1:
        return [function(job) for job in jobs]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        return pool.map(function, jobs)


def print_pooled(repetitions: int, processes: int) -> None:
    """A row for each ε and distribution of κ."""
    heads = f"{'ε':>6}{'intervals':>11}{'pooled':>8}{'alone':>8}{'RMSE':>8}{'alone':>8}{'less':>8}"
    print(f"{'200 groups of 50':26}{heads}")
    for epsilon in (0.5, 0.25):
        for kappa in (None, 4.0, 15.0, 60.0):
            jobs = [(seed, epsilon, kappa) for seed in range(repetitions)]
            cover, single, error, own = np.array(mapped(one_pooled, jobs, processes)).mean(axis=0)
            name = "κ log-uniform on 2 … 200" if kappa is None else f"κ = {kappa:g}"
            saved = 1 - math.sqrt(error / own)
            numbers = f"{cover:8.3f}{single:8.3f}{math.sqrt(error):8.4f}{math.sqrt(own):8.4f}{saved:8.1%}"
            print(f"{name:26}{epsilon:6}{GROUPS * repetitions:11d}{numbers}", flush=True)


def print_speed() -> None:
    """3,000 groups of two and of ten levels."""
    rng = np.random.default_rng(0)
    for levels in (2, 10):
        shares = rng.dirichlet(np.full(levels, 20 / levels), 3000)
        x = np.stack([rng.multinomial(SIZE, share) for share in shares])
        noise = noises.LatticeNoise(4.0)
        z = noise.draw(x, rng)
        start, used = time.perf_counter(), time.process_time()
        found = pool_groups(noisy_groups(z, noise, np.full(3000, SIZE)))
        found.interval(0.9)
        spent, used = time.perf_counter() - start, time.process_time() - used
        print(f"3,000 groups × {levels} levels: {spent:.1f} s ({used:.1f} s of one processor), "
              f"error of the means by computation {found.error:.4f}", flush=True)  # fmt: skip


def one_histogram(job: tuple[int, int]) -> tuple[int, int]:
    """How often the noise-aware and the plug-in interval held the share."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    distribution = dp.vector_domain(dp.atom_domain(T=int))
    measurement = dp.m.make_laplace(distribution, dp.l1_distance(T=int), scale=10.0)
    seed, repetitions = job
    rng, hits = np.random.default_rng(seed), [0, 0]
    for share in rng.random(repetitions):
        x = int(rng.binomial(100, share))
        z = measurement([x, 100 - x])
        low, high = discreet.noisy_counts(z, noise=measurement, total=100).noise_aware().interval(0.9)
        hits[0] += low[0] <= share <= high[0]
        plain = stats.beta(1 + max(z[0], 0), 1 + max(z[1], 0))
        hits[1] += plain.ppf(0.05) <= share <= plain.ppf(0.95)
    return hits[0], hits[1]


def print_histogram(repetitions: int, processes: int) -> None:
    """Coverage of 90 % intervals."""
    jobs = [(seed, repetitions // (4 * processes)) for seed in range(4 * processes)]
    aware, plain = np.sum(mapped(one_histogram, jobs, processes), axis=0)
    total = sum(number for _, number in jobs)
    print(f"OpenDP, discrete Laplace, 2 levels, n = 100, ε = 0.1: {total} intervals of 90 %")
    print(f"noise-aware {aware / total:.3f}, plug-in {plain / total:.3f}")


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("pooled", "speed", "histogram"))
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.what == "pooled":
        print_pooled(options.repetitions, options.processes)
    elif options.what == "speed":
        print_speed()
    else:
        print_histogram(options.repetitions, options.processes)


if __name__ == "__main__":
    main()
