"""Are the intervals honest? Simulation-based calibration of noise-aware answers.

A truth is drawn from the prior, data from the truth, a release from the data, and the posterior is asked
where the truth lies. Ranks of the truth must be uniform (chi-square over ten bins, shown as a p-value) and
intervals must hold it as often as they say. Releases are simulated by the law of the noise, not made by the
private path.

    python benchmarks/calibration.py --repetitions 5000
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

import discreet
from discreet.inference.likelihoods import bridging, noises
from discreet.inference.pooled import noisy_groups, pooled


@dataclass(frozen=True)
class Calibration:
    """Ranks of the truth in [0, 1] and what follows from them."""

    name: str
    ranks: np.ndarray

    def coverage(self, level: float) -> float:
        """How often the equal-tailed interval of that level held the truth."""
        return float(np.mean(np.abs(self.ranks - 0.5) <= level / 2))

    @property
    def p_value(self) -> float:
        """Of uniform ranks."""
        return float(stats.chisquare(np.histogram(self.ranks, 10, (0, 1))[0]).pvalue)

    @property
    def rmse(self) -> float:
        """Root mean square of coverage less level, over levels 0.05, …, 0.95."""
        levels = np.arange(0.05, 1, 0.05)
        return float(np.sqrt(np.mean([(self.coverage(level) - level) ** 2 for level in levels])))


def proportions(
    rng: np.random.Generator, repetitions: int, levels: int, n: int, epsilon: float
) -> Calibration:
    """One column with lattice noise and public n: the first level's share."""
    return counts(rng, repetitions, levels, n, noises.LatticeNoise(2 / epsilon), f"lattice, k = {levels}")


def counts(
    rng: np.random.Generator, repetitions: int, levels: int, n: int, noise: noises.Noise, name: str
) -> Calibration:
    """Counts that somebody published with some noise: the first level's share."""
    shares = rng.dirichlet(np.ones(levels), repetitions)
    values = bridging.simulated(noise, rng.multinomial(n, shares), rng)
    ranks = [
        discreet.noisy_counts(z, noise, total=n).noise_aware().marginal(0).cdf(truth[0])
        for z, truth in zip(values, shares, strict=True)
    ]
    return Calibration(name, np.array(ranks, dtype=float))


def groups(rng: np.random.Generator, repetitions: int, number: int, size: int, epsilon: float) -> Calibration:
    """Pooled groups of two levels, with hyperparameters from their prior."""
    noise, ranks = noises.LatticeNoise(2 / epsilon), []
    for _ in range(repetitions):
        kappa, mu = 1 / rng.uniform(1e-6, 1) - 1, rng.random()
        shares = rng.beta(kappa * mu, kappa * (1 - mu), number)
        x = rng.binomial(size, shares)
        z = bridging.simulated(noise, np.stack([x, size - x], axis=1), rng)
        draws = pooled(noisy_groups(z, noise, np.full(number, size))).sample(400, int(rng.integers(2**31)))
        below = (draws[:, :, 0] < shares).sum(axis=0) + rng.random(number) * (
            1 + (draws[:, :, 0] == shares).sum(0)
        )
        ranks.append(below / 401)
    return Calibration(f"pooled, {number} groups of {size}", np.concatenate(ranks))


def cases(rng: np.random.Generator, repetitions: int) -> list[Callable[[], Calibration]]:
    """What is tested, smallest first."""
    return [
        lambda: proportions(rng, repetitions, 2, 100, 0.5),
        lambda: proportions(rng, repetitions, 4, 100, 0.5),
        lambda: counts(rng, repetitions, 2, 100, noises.DiscreteLaplace(10.0), "discrete Laplace, scale 10"),
        lambda: counts(rng, repetitions, 3, 100, noises.DiscreteGaussian(6.0), "discrete Gaussian, σ = 6"),
        lambda: groups(rng, max(1, repetitions // 50), 50, 40, 0.5),
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000, help="simulated releases of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{'answer':32}{'intervals':>10}{'50 %':>8}{'90 %':>8}{'95 %':>8}{'RMSE':>8}{'p':>8}")
    for case in cases(np.random.default_rng(options.seed), options.repetitions):
        found = case()
        shown = [found.coverage(level) for level in (0.5, 0.9, 0.95)]
        print(
            f"{found.name:32}{len(found.ranks):10d}"
            + "".join(f"{v:8.3f}" for v in (*shown, found.rmse, found.p_value))
        )


if __name__ == "__main__":
    main()
