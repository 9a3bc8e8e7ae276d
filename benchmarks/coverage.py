"""How often 90 % intervals hold: shares and totals, for public and for private numbers of records.

Each row draws shares from the prior, records from the shares and noise from a seeded generator (this is a
simulation, nothing here is private), infers, and counts. The result does not depend on ``--workers``. Needs
no more than discreet itself: ``python benchmarks/coverage.py [--intervals 20000] [--only PATTERN]``.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

import discreet
from discreet._inference.add_remove import LogUniform
from discreet._inference.noise_aware import noise_aware
from discreet._inference.sparse import SparsePosterior
from discreet._randomness.entropy import SeededEntropy
from discreet.mechanisms.sparse import Sparse

SETTINGS = (
    (2, 100, "0.1"),
    (3, 200, "0.1"),
    (10, 1_000, "0.2"),
    (20, 300, "0.5"),
    (100, 300, "0.5"),
    (10_000, 100_000, "0.5"),
)
LEVEL = 0.9
MISSING = 0.47
LEAST = 60  # releases, however many intervals each has: these are not independent of each other
BATCHES = 200

Drawn = tuple[np.ndarray, np.ndarray, int]
"""Shares, counts and the number of records of one dataset."""


def fixed(k: int, n: int, rng: np.random.Generator) -> Drawn:
    theta = rng.dirichlet(np.ones(k))
    return theta, rng.multinomial(n, theta), n


def from_prior(k: int, expected: LogUniform, rng: np.random.Generator) -> Drawn:
    mean = math.exp(rng.uniform(math.log(expected.low), math.log(expected.high)))
    rates = rng.gamma(np.ones(k), mean / k)
    counts = rng.poisson(rates)
    return rates / rates.sum(), counts, int(counts.sum())


def noise(k: int, epsilon: float, rng: np.random.Generator) -> np.ndarray:
    """Two-sided geometric, by floats."""
    draws = np.floor(rng.standard_exponential((2, k)) / epsilon).astype(np.int64)
    return np.asarray(draws[0] - draws[1])


def holds(low: np.ndarray, true: np.ndarray, high: np.ndarray) -> float:
    return float(((low <= true) & (true <= high)).mean())


@dataclass(frozen=True)
class Row:
    """One line of the table: ``trial`` makes a release and says what share of its intervals hold."""

    label: str
    trial: Callable[[np.random.Generator], float]
    intervals: int
    """Of one release."""
    wanted: float
    """How far from 0.90 is still good."""


def share_trial(k: int, n: int, epsilon: str, rng: np.random.Generator) -> float:
    theta, counts, _ = fixed(k, n, rng)
    m = discreet.mechanism("geometric", prior=(1.0,) * k, epsilon=epsilon)
    known = noise_aware(m, (), tuple((counts + noise(k, float(epsilon), rng)).tolist()))
    low, high = known.interval(LEVEL)
    return holds(low, theta, high)


def total_trial(k: int, n: int, epsilon: str, drawn: bool, rng: np.random.Generator) -> float:
    expected = LogUniform(n / 10, n * 10) if drawn else None
    _, counts, total = fixed(k, n, rng) if expected is None else from_prior(k, expected, rng)
    m = discreet.mechanism("geometric", prior=(1.0,) * k, epsilon=epsilon)
    noisy = tuple((counts + noise(k, float(epsilon), rng)).tolist())
    low, high = noise_aware(m, (), noisy, expected).total.interval(LEVEL)
    return float(low <= total <= high)


def lattice_trial(k: int, n: int, epsilon: str, rng: np.random.Generator) -> float:
    theta, counts, _ = fixed(k, n, rng)
    m = discreet.mechanism("lattice", prior=(1.0,) * k, n=n, epsilon=epsilon)
    low, high = noise_aware(m, (), tuple((counts + m.simulate_noise(1, rng)[0]).tolist())).interval(LEVEL)
    return holds(low, theta, high)


def answered_trial(k: int, n: int, epsilon: str, rng: np.random.Generator) -> float:
    """Of n records 47 % have no value: the shares are those of the others, whose number is private."""
    return share_trial(k, int(rng.binomial(n, 1 - MISSING)), epsilon, rng)


def counted_out_trial(k: int, n: int, epsilon: str, rng: np.random.Generator) -> float:
    """The same with n public: those without a value are a level of the mechanism."""
    answering = int(rng.binomial(n, 1 - MISSING))
    theta, counts, _ = fixed(k, answering, rng)
    m = discreet.mechanism("lattice", prior=(1.0,) * (k + 1), n=n, epsilon=epsilon)
    noisy = np.append(counts, n - answering) + m.simulate_noise(1, rng)[0]
    low, high = noise_aware(m, (), tuple(noisy.tolist()), leaves_out=True).interval(LEVEL)
    return holds(low, theta, high)


def zipf(slope: float, n: int, rng: np.random.Generator) -> np.ndarray:
    return np.unique(rng.zipf(slope, n) % 10**9, return_counts=True)[1]


def even(levels: int, n: int, rng: np.random.Generator) -> np.ndarray:
    counts = rng.multinomial(n, np.full(levels, 1 / levels))
    return np.asarray(counts[counts > 0])


SPARSE: dict[str, tuple[Callable[[np.random.Generator], np.ndarray], int]] = {
    "Zipf 1.3": (partial(zipf, 1.3, 10_000), 30),
    "Zipf 2": (partial(zipf, 2.0, 10_000), 10),
    "20 even levels": (partial(even, 20, 10_000), 20),
    "500 even levels": (partial(even, 500, 10_000), 100),
    "no level twice": (lambda rng: np.ones(10_000, dtype=np.int64), 1),
    "no record": (lambda rng: np.zeros(0, dtype=np.int64), 1),
}
"""Counts of 10,000 records on the levels that occur, of 10⁹, and about how many of these stand out."""


def sparse_trial(data: str, epsilon: str, false: str, what: str, rng: np.random.Generator) -> float:
    """Levels that stand out, everything else, or all records; nan where nothing stands out."""
    counts = SPARSE[data][0](rng)
    m = Sparse(Fraction(epsilon), 10**9, Fraction(false))
    out = m.run(dict(enumerate(counts.tolist())), SeededEntropy(int(rng.integers(2**63))))
    found = SparsePosterior(tuple(out.counts.values()), out.rest, m)
    true = np.array([counts[place] if place < len(counts) else 0 for place in out.counts])
    low, high = found.interval(LEVEL)
    if what == "levels":
        return holds(low[:-1], true, high[:-1]) if len(true) else math.nan
    if what == "everything else":
        return float(low[-1] <= counts.sum() - true.sum() <= high[-1])
    low, high = found.total.interval(LEVEL)
    return float(low <= counts.sum() <= high)


def sparse_rows() -> list[Row]:
    """Whole numbers with noise of a few records hold more often than 90 %: at ε = 1 up to 3 % is wanted."""
    result = []
    settings = [*itertools.product(("1", "0.1"), ("1",), SPARSE), ("0.1", "0.01", "20 even levels")]
    for epsilon, false, data in settings:
        standing = SPARSE[data][1]
        for what, each in (("levels", standing), ("everything else", 1), ("all records", 1)):
            label = f"sparse, {what}, {data}, ε = {epsilon}, expected_false = {false}"
            trial = partial(sparse_trial, data, epsilon, false, what)
            result.append(Row(label, trial, each, 0.03 if epsilon == "1" else 0.02))
    return result


def rows() -> list[Row]:
    result = []
    for k, n, epsilon in SETTINGS:
        at = f"k = {k:,}, n = {n:,}, ε = {epsilon}"
        result += [
            Row(f"add-remove, shares, {at}", partial(share_trial, k, n, epsilon), k, 0.01),
            Row(
                f"add-remove, total from its prior, {at}", partial(total_trial, k, n, epsilon, True), 1, 0.01
            ),
            Row(f"add-remove, total fixed, {at}", partial(total_trial, k, n, epsilon, False), 1, 0.02),
            Row(f"replace-one, shares, {at}", partial(lattice_trial, k, n, epsilon), k, 0.01),
        ]
    for k, n, epsilon in SETTINGS[:4]:
        at = f"k = {k:,}, n = {n:,}, ε = {epsilon}"
        for relation, trial in (("add-remove", answered_trial), ("replace-one", counted_out_trial)):
            label = f"{relation}, 47 % missing and left out, {at}"
            result.append(Row(label, partial(trial, k, n, epsilon), k, 0.01))
    return result + sparse_rows()


def batch(trial: Callable[[np.random.Generator], float], seed: tuple[int, ...], releases: int) -> list[float]:
    rng = np.random.default_rng(seed)
    return [trial(rng) for _ in range(releases)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--intervals", type=int, default=20_000, help="of each row, at least")
    parser.add_argument("--only", default="", help="rows in whose label this regular expression is found")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the rows as JSON")
    arguments = parser.parse_args()
    found = []
    print(f"{'90 % intervals':<72} {'hold':>6} {'± s.e.':>7} {'wanted':>11} {'releases':>9}")
    with ProcessPoolExecutor(arguments.workers) as pool:
        for number, row in enumerate(rows()):
            if not re.search(arguments.only, row.label):
                continue
            start = time.perf_counter()
            releases = max(LEAST, math.ceil(arguments.intervals / row.intervals))
            sizes = [releases // BATCHES + (i < releases % BATCHES) for i in range(BATCHES)]
            jobs = {
                pool.submit(batch, row.trial, (number, i), size): i for i, size in enumerate(sizes) if size
            }
            parts: dict[int, list[float]] = {}
            for done in as_completed(jobs):
                parts[jobs[done]] = done.result()
                if sys.stderr.isatty():
                    print(f"\r{len(parts)}/{len(jobs)}", end="", file=sys.stderr)
            held = np.array([value for i in sorted(parts) for value in parts[i]])
            held = held[np.isfinite(held)]
            error = float(held.std(ddof=1) / math.sqrt(len(held)))
            mark = "" if abs(held.mean() - LEVEL) <= row.wanted + 2 * error else "  MISSED"
            print(
                f"\r{row.label:<72} {held.mean():6.4f} {error:7.4f} {LEVEL:.2f} ± {row.wanted:.2f} "
                f"{len(held):9,}{mark}  ({time.perf_counter() - start:.0f} s)",
                flush=True,
            )
            found.append(
                {"row": row.label, "share": held.mean(), "standard error": error, "releases": len(held)}
            )
    if arguments.out:
        arguments.out.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
