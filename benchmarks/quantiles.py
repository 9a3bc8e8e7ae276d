"""Do intervals of quantiles hold? And are they nearer to the truth than the exponential mechanism's?

Records are drawn from a distribution, counted in bins, lattice noise is added by its distribution from a
seed, and the nine deciles are asked for, or ``--probs``. The prior of the tree was chosen on the
distributions of ``--set tried``, and on others like those that ``--set drawn`` draws, a distribution and a
number of bins for each repetition. Its seed and the distributions of ``--set judged`` were looked at
afterwards. ``--joint`` compares with JointExp (Gillenwater, Joseph and Kulesza 2021), written here from the
paper, on the same records: root mean squared errors against the deciles of the distribution.

    python benchmarks/quantiles.py --set judged --repetitions 200
    python benchmarks/quantiles.py --set drawn --probs 0.05,0.1,0.5,0.9,0.95 --records 1000 --epsilon 0.3
    python benchmarks/quantiles.py --joint --repetitions 200
"""

from __future__ import annotations

import argparse
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import optimize, stats

from discreet._inference.quantiles import BinnedDistribution, Bins
from discreet._numerics.noises import DiscreteLaplace, LatticeNoise

Rng = np.random.Generator
DECILES = np.arange(1, 10) / 10
DRAWN = 20261122
"""The seed of distributions that are drawn."""
LEVEL = 0.9


@dataclass(frozen=True)
class Population:
    """A distribution on a declared range: records of it, and its quantiles at probabilities.

    ``beside`` is the share of the records that it leaves out: probabilities are those of all of them.
    """

    draw: Callable[[Rng, int], np.ndarray]
    point: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    atoms: tuple[float, ...] = field(default=())
    whole: bool = False
    beside: float = 0.0

    def bins(self, number: int) -> Bins:
        """So many equal ones."""
        return Bins(tuple(np.linspace(self.low, self.high, number + 1)), self.atoms, self.whole)


def continuous(distribution: object, low: float, high: float) -> Population:
    """Values beyond the range are recorded as its ends."""
    draw, point = distribution.rvs, distribution.ppf  # type: ignore[attr-defined]
    return Population(
        lambda rng, n: np.asarray(np.clip(draw(n, random_state=rng), low, high)),
        lambda probs: np.clip(point(probs), low, high),
        low,
        high,
    )


def two_humps(
    low: float,
    high: float,
    parts: Sequence[Any] = (stats.norm(0.25, 0.06), stats.norm(0.7, 0.1)),
    share: float = 0.4,
) -> Population:
    """The first of two distributions with a probability, and otherwise the second."""

    def draw(rng: Rng, n: int) -> np.ndarray:
        first = rng.random(n) < share
        values = np.where(first, *(part.rvs(n, random_state=rng) for part in parts))
        return np.asarray(np.clip(values, low, high))

    def excess(x: float, p: float) -> float:
        return float(share * parts[0].cdf(x) + (1 - share) * parts[1].cdf(x) - p)

    def point(probs: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip([optimize.brentq(excess, -9, 9, (p,)) for p in probs], low, high))

    return Population(draw, point, low, high)


def discrete(values: np.ndarray, chance: np.ndarray, **options: object) -> Population:
    chance = chance / chance.sum()
    below = np.cumsum(chance)

    def point(probs: np.ndarray) -> np.ndarray:
        return np.asarray(values[np.searchsorted(below, probs - 1e-12)])

    return Population(lambda rng, n: rng.choice(values, n, p=chance), point, 0.0, 120.0, **options)  # type: ignore[arg-type]


def ages(heaped: float) -> tuple[np.ndarray, np.ndarray]:
    """Whole ages, of which a share is rounded to the nearest five."""
    values = np.arange(121.0)
    chance = np.diff(stats.norm(40, 12).cdf(np.arange(122.0)))
    rounded = np.bincount((np.rint(values / 5) * 5).astype(int), chance, 121)
    return values, (1 - heaped) * chance + heaped * rounded


def with_zeros() -> Population:
    """Incomes in thousands, a quarter of them 0."""
    distribution = stats.lognorm(0.7, scale=30)

    def draw(rng: Rng, n: int) -> np.ndarray:
        return np.where(rng.random(n) < 0.25, 0.0, np.clip(distribution.rvs(n, random_state=rng), 0, 200))

    def point(probs: np.ndarray) -> np.ndarray:
        return np.where(probs <= 0.25, 0.0, distribution.ppf(np.maximum(probs - 0.25, 1e-12) / 0.75))

    return Population(draw, point, 0.0, 200.0, atoms=(0.0,))


def without_zeros() -> Population:
    """The three quarters of the same records that are above 0, and the same values asked for."""
    zeros, distribution = with_zeros(), stats.lognorm(0.7, scale=30)

    def draw(rng: Rng, n: int) -> np.ndarray:
        return np.asarray(np.clip(distribution.rvs(3 * n // 4, random_state=rng), 0, 200))

    return Population(draw, zeros.point, 0.0, 200.0, beside=0.25)


def drawn(rng: Rng) -> tuple[Population, int]:
    """A distribution on [0, 1] and a number of bins, both at random."""

    def between(low: float, high: float) -> float:
        return float(np.exp(rng.uniform(np.log(low), np.log(high))))

    number = int(rng.choice([40, 100, 200]))
    kinds = ("normal", "lognormal", "gamma", "beta", "exponential", "uniform", "cut", "t", "two humps")
    kind = str(rng.choice(kinds))
    if kind == "two humps":
        parts = [stats.norm(rng.uniform(0.15, 0.85), rng.uniform(0.03, 0.15)) for _ in range(2)]
        return two_humps(0, 1, parts, rng.uniform(0.2, 0.8)), number
    start, shape, middle, wide = rng.uniform(0, 0.4), rng.uniform(1, 6), rng.uniform(0, 1), between(0.15, 0.4)
    found = {
        "normal": stats.norm(rng.uniform(0.2, 0.8), between(0.03, 0.2)),
        "lognormal": stats.lognorm(rng.uniform(0.3, 1), scale=between(0.05, 0.3)),
        "gamma": stats.gamma(shape, scale=rng.uniform(0.3, 1) / stats.gamma(shape).ppf(0.99)),
        "beta": stats.beta(between(1, 20), between(1, 20)),
        "exponential": stats.truncexpon(b=2 * shape, scale=1 / (2 * shape)),
        "uniform": stats.uniform(start, rng.uniform(0.4, 1) * (1 - start)),
        "cut": stats.truncnorm(-middle / wide, (1 - middle) / wide, loc=middle, scale=wide),
        "t": stats.t(4, rng.uniform(0.3, 0.7), between(0.02, 0.1)),
    }[kind]
    return continuous(found, 0, 1), number


TRIED = {
    "beta 2, 5": (continuous(stats.beta(2, 5), 0, 1), 120),
    "beta 8, 20": (continuous(stats.beta(8, 20), 0, 1), 120),
    "uniform": (continuous(stats.uniform(), 0, 1), 120),
    "exponential": (continuous(stats.truncexpon(b=8, scale=1 / 8), 0, 1), 120),
    "gamma 3": (continuous(stats.gamma(3, scale=0.05), 0, 1), 120),
    "narrow normal": (continuous(stats.norm(0.63, 0.04), 0, 1), 120),
    "wide normal": (continuous(stats.truncnorm(-2.2, 3, loc=0.42, scale=0.19), 0, 1), 120),
    "two humps": (two_humps(0, 1), 120),
}
JUDGED = {
    "N(40, 12), one-year bins": (continuous(stats.norm(40, 12), 0, 120), 120),
    "lognormal, 40 bins": (continuous(stats.lognorm(0.7, scale=30), 0, 200), 40),
    "lognormal, 100 bins": (continuous(stats.lognorm(0.7, scale=30), 0, 200), 100),
    "lognormal, 400 bins": (continuous(stats.lognorm(0.7, scale=30), 0, 200), 400),
    "whole ages, not heaped": (discrete(*ages(0.0), whole=True), 120),
    "whole ages, 30 % heaped": (discrete(*ages(0.3), whole=True), 120),
    "the same, heaps declared": (
        discrete(*ages(0.3), whole=True, atoms=tuple(np.arange(0.0, 121.0, 5.0))),
        120,
    ),
    "incomes, 25 % at 0": (with_zeros(), 100),
    "the same incomes above 0": (without_zeros(), 100),
}


def answer(
    population: Population, number: int, values: np.ndarray, epsilon: float, rng: Rng, hidden: bool = False
) -> BinnedDistribution:
    """The posterior from noisy counts of some records."""
    bins = population.bins(number)
    counts = np.bincount(bins.places(values), minlength=len(bins))
    if hidden:
        noise = DiscreteLaplace(1 / epsilon)
        return BinnedDistribution(bins, noise.draw(counts, rng), noise)
    lattice = LatticeNoise(2 / epsilon)
    return BinnedDistribution(bins, lattice.draw(counts[None], rng)[0], lattice, n=len(values))


def coverage(
    name: str,
    case: tuple[Population, int] | None,
    n: int,
    epsilon: float,
    repetitions: int,
    hidden: bool = False,
    probs: np.ndarray = DECILES,
) -> str:
    """One line: coverage of all quantiles together, of each, errors and widths; ``case`` None draws them."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), n, round(100 * epsilon)])
    held, errors, widths, start = [], [], [], time.process_time()
    for repetition in range(repetitions):
        population, number = case or drawn(np.random.default_rng([DRAWN, repetition]))
        asked = probs[probs > population.beside]
        found = answer(population, number, population.draw(rng, n), epsilon, rng, hidden)
        among = (asked - population.beside) / (1 - population.beside)
        draws = found.quantiles(among).draws(1000, int(rng.integers(2**31)))
        low, high = np.quantile(draws, ((1 - LEVEL) / 2, (1 + LEVEL) / 2), axis=0, method="inverted_cdf")
        points = population.point(asked)
        held.append((low <= points) & (points <= high))
        errors.append(draws.mean(axis=0) - points)
        widths.append(high - low)
    each = np.mean(held, axis=0)
    seconds = (time.process_time() - start) / repetitions
    error = float(np.sqrt(np.mean(np.square(errors))))
    shown = " ".join(f"{100 * v:3.0f}" for v in each)
    start_of_line = f"{name:28}{n:7d}{epsilon:6g}{each.mean():8.3f}"
    return f"{start_of_line}  {shown}{error:10.4f}{np.mean(widths):10.4f}{seconds:7.2f}"


HEADER = f"{'distribution and bins':28}{'n':>7}{'ε':>6}{'held':>8}  {'of each quantile, in %':35}"
HEADER += f"{'RMSE':>10}{'width':>10}{'s':>7}"


def joint_exp(
    values: np.ndarray, probs: np.ndarray, low: float, high: float, epsilon: float, rng: Rng
) -> np.ndarray:
    """Quantiles by JointExp, replace-one: density of o₁ ≤ … ≤ o_m ∝ exp(−ε/4 · Σ |between − wanted|).

    Weights of sequences of intervals between records, by dynamic programming over (interval, how many of the
    last points lie in it); m! orderings of points in one interval count once.
    """
    x = np.concatenate([[low], np.sort(np.clip(values, low, high)), [high]])
    n, m = len(values), len(probs)
    wide = np.diff(x)
    wanted = np.diff(np.concatenate([[0.0], probs, [1.0]])) * n
    between = np.arange(n + 1)[None, :] - np.arange(n + 1)[:, None]  # (from, to)
    step = [np.where(between >= 0, np.exp(-epsilon / 4 * np.abs(between - gap)), 0.0) for gap in wanted]
    first = np.zeros((m, n + 1))
    first[0] = wide * np.exp(-epsilon / 4 * np.abs(np.arange(n + 1) - wanted[0]))
    weights = [first[:1] / first[0].sum()]  # of each: (how many in the last interval, interval)
    for j in range(1, m):
        before = weights[-1]
        fresh = wide * (before.sum(axis=0) @ (step[j] - np.diag(np.diag(step[j]))))
        run = np.arange(2, len(before) + 2)[:, None]
        again = before * wide * np.diag(step[j]) / run
        own = np.vstack([fresh, again])
        weights.append(own / own.sum())
    last = np.exp(-epsilon / 4 * np.abs(n - np.arange(n + 1) - wanted[m]))
    chosen: list[int] = []
    j = m - 1
    distribution = weights[j] * last
    while True:
        place = int(rng.choice(distribution.size, p=(distribution / distribution.sum()).ravel()))
        more, interval = divmod(place, n + 1)
        chosen += [interval] * (more + 1)
        j -= more + 1
        if j < 0:
            break
        distribution = weights[j] * np.where(np.arange(n + 1) < interval, step[j + 1][:, interval], 0.0)
    return np.sort(x[chosen] + wide[chosen] * rng.random(m))


def against_joint_exp(name: str, case: tuple[Population, int], repetitions: int) -> str:
    """Root mean squared errors of nine deciles, n = 1000, ε = 1, same records, the usual number of bins."""
    population = case[0]
    number = len(Bins.over((population.low, population.high), 1000, 1.0))
    rng = np.random.default_rng([zlib.crc32(name.encode()), 7])
    ours, theirs = [], []
    for _ in range(repetitions):
        values = population.draw(rng, 1000)
        found = answer(population, number, values, 1.0, rng)
        ours.append(found.quantiles(DECILES).draws(1000, int(rng.integers(2**31))).mean(axis=0))
        theirs.append(joint_exp(values, DECILES, population.low, population.high, 1.0, rng))
    points = population.point(DECILES)
    error = [float(np.sqrt(np.mean((np.array(v) - points) ** 2))) for v in (ours, theirs)]
    return f"{name:28}{error[0]:10.4f}{error[1]:10.4f}{error[1] / error[0]:8.2f}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", choices=("tried", "drawn", "judged"), default="judged")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--records", default="300,1000,10000")
    parser.add_argument("--epsilon", default="0.3,1")
    parser.add_argument("--probs", type=lambda text: np.array(text.split(","), float), default=DECILES)
    parser.add_argument("--only", default="", help="part of a name")
    parser.add_argument(
        "--hidden", action="store_true", help="add-remove, with the number of records private"
    )
    parser.add_argument("--joint", action="store_true", help="compare with JointExp")
    options = parser.parse_args()
    sets: dict[str, dict[str, Any]] = {
        "tried": TRIED,
        "drawn": {"drawn at random": None},
        "judged": JUDGED,
    }
    cases = {k: v for k, v in sets[options.set].items() if options.only in k}
    if options.joint:
        print(f"{'distribution and bins':28}{'here':>10}{'JointExp':>10}{'ratio':>8}")
        for name, case in cases.items():
            print(against_joint_exp(name, case, options.repetitions), flush=True)
        return
    print(HEADER)
    for n in map(int, options.records.split(",")):
        for epsilon in map(float, options.epsilon.split(",")):
            for name, case in cases.items():
                about = name, case, n, epsilon, options.repetitions, options.hidden, options.probs
                print(coverage(*about), flush=True)


if __name__ == "__main__":
    main()
