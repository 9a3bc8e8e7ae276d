"""Are the answers honest? Simulation-based calibration and expected coverage of every kind of answer.

A truth is drawn from the prior, data from the truth, noise from its distribution, and the posterior is asked
where the truth lies among its draws. If it is right, then the rank of the truth in every coordinate is
uniform (SBC: Talts and others 2018; a chi-square over twenty bins, shown as a p-value, and how often central
intervals hold it), and so is the share of draws that lie nearer to a random point than the truth does (TARP:
Lemos and others 2023; the root mean square of expected coverage less level). N repetitions alone give a TARP
error of about √(1/6N), shown beside it.

The table and the picture of docs/evidence/calibration.md are made by

    python benchmarks/calibration.py --repetitions 5000 --processes 16 --picture docs/images/calibration.svg

and single rows by their names, as in ``--only pooled,mean``. Rows that need an extra which is not installed
are named as left out: regressions need ``discreet[glm]``, the bridges ``discreet[numpyro]`` and
``discreet[pymc]``; everything else runs on the package alone. Releases are simulated by the distribution of
their noise from seeds, so that a row can be made again; that the private path draws from those distributions
is tested in tests/statistical.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import discreet
from discreet._declarations import Domain
from discreet._inference.add_remove import LogUniform
from discreet._inference.noise_aware import noise_aware
from discreet._inference.polya_tree import END_STEPS, SMOOTH, STEPS, slopes_within, within
from discreet._inference.pooled import noisy_groups, pool_groups
from discreet._inference.quantiles import BinnedDistribution, Bins
from discreet._inference.survival import SurvivalDraws, SurvivalPosterior
from discreet._numerics import noises
from discreet._randomness.entropy import SeededEntropy
from discreet.answers.release import publish
from discreet.mechanisms._outputs import Output

os.environ.setdefault("JAX_PLATFORMS", "cpu")  # many processes: none is to take a graphics card
# coverage.py in this folder is not the package of that name, which PyMC loads by way of numba.
sys.path = [path for path in sys.path if Path(path or ".").resolve() != Path(__file__).parent.resolve()]
DRAWS = 400
Rng = np.random.Generator
Found = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Draws of the posterior (draws, coordinates), the truth, and a further draw from the prior."""


@dataclass(frozen=True)
class Calibration:
    """Ranks of the truth, shape (repetitions, coordinates), and shares of draws nearer than the truth."""

    name: str
    ranks: np.ndarray
    nearer: np.ndarray

    def coverage(self, level: float) -> float:
        """How often central intervals of that level held the truth."""
        return float(np.mean(np.abs(self.ranks - 0.5) <= level / 2))

    @property
    def p_value(self) -> float:
        """Of uniform ranks of the first coordinate."""
        return float(stats.chisquare(np.histogram(self.ranks[:, 0], 20, (0, 1))[0]).pvalue)

    @property
    def tarp(self) -> float:
        """Root mean square of expected coverage less level, over all levels."""
        levels = np.linspace(0, 1, 101)
        held = np.searchsorted(np.sort(self.nearer), levels, side="right") / len(self.nearer)
        return float(np.sqrt(np.mean((held - levels) ** 2)))

    @property
    def alone(self) -> float:
        """The TARP error that so many repetitions give of themselves."""
        return math.sqrt(1 / (6 * len(self.nearer)))

    def line(self) -> str:
        """One row of the table."""
        cover = "".join(f"{self.coverage(level):8.3f}" for level in (0.5, 0.9, 0.95))
        return (
            f"{self.name:44}{len(self.ranks):8d}{cover}{self.p_value:8.3f}{self.tarp:9.4f}{self.alone:8.4f}"
        )


HEADER = f"{'answer':44}{'N':>8}{'50 %':>8}{'90 %':>8}{'95 %':>8}{'SBC p':>8}{'TARP':>9}{'alone':>8}"


def lattice(rng: Rng, k: int, n: int, epsilon: str, prior: float) -> Found:
    """One column with a public number of records: shares of all levels but the last of two."""
    mechanism = discreet.mechanism("lattice", prior=(prior,) * k, n=n, epsilon=epsilon)
    shares = rng.dirichlet(np.full(k, prior), 2)
    z = noises.LatticeNoise(2 / float(epsilon)).draw(rng.multinomial(n, shares[0])[None], rng)[0]
    noisy = tuple(int(v) for v in z)
    draws = noise_aware(mechanism, noisy, noisy).sample(DRAWS, int(rng.integers(2**31)))
    return _shares(draws, *shares)


def _shares(draws: np.ndarray, truth: np.ndarray, other: np.ndarray) -> Found:
    kept = 1 if len(truth) == 2 else len(truth)
    return draws[:, :kept], truth[:kept], other[:kept]


def add_remove(rng: Rng, k: int, epsilon: str, what: str) -> Found:
    """n private: the shares, or the number of records."""
    expected = LogUniform(30.0, 3000.0)
    mechanism = discreet.mechanism("geometric", prior=(1.0,) * k, epsilon=epsilon)
    shares = rng.dirichlet(np.ones(k), 2)
    totals = np.exp(rng.uniform(math.log(expected.low), math.log(expected.high), 2))
    x = rng.poisson(totals[0] * shares[0])
    z = noises.DiscreteLaplace(1 / float(epsilon)).draw(x, rng)
    noisy = tuple(int(v) for v in z)
    distribution = noise_aware(mechanism, noisy, noisy, expected)
    if what == "shares":
        return _shares(distribution.sample(DRAWS, int(rng.integers(2**31))), *shares)
    counts, _ = distribution.sample_counts(DRAWS, rng)  # type: ignore[union-attr]
    other = float(rng.poisson(totals[1]))
    return counts.sum(axis=1)[:, None].astype(float), np.array([float(x.sum())]), np.array([other])


QUARTILES = (0.25, 0.5, 0.75)


def binned(rng: Rng, depth: int, n: int, epsilon: float, hidden: bool) -> Found:
    """Quartiles of a distribution from the tree's prior, counted in 2^depth bins; some have no value."""
    bins = Bins(tuple(np.linspace(0, 1, 2**depth + 1)))
    distributions = [_from_tree(rng, depth, END_STEPS) for _ in range(2)]
    truth, other = (
        np.interp(QUARTILES, distribution, np.linspace(0, 1, len(distribution)))
        for distribution in distributions
    )
    cells = np.diff(distributions[0][::16])
    if hidden:
        total = int(np.exp(rng.uniform(math.log(30), math.log(3000))))
        noise: noises.Noise = noises.DiscreteLaplace(1 / epsilon)
        z = noise.draw(rng.multinomial(total, cells), rng)
        found = BinnedDistribution(bins, z, noise, total_prior=LogUniform(30.0, 3000.0))
    else:
        noise, answered = noises.LatticeNoise(2 / epsilon), rng.random()
        z = noise.draw(rng.multinomial(n, np.append(answered * cells, 1 - answered))[None], rng)[0]
        found = BinnedDistribution(bins, z[:-1], noise, n=n, apart=z[-1:])
    return found.quantiles(QUARTILES).draws(DRAWS, int(rng.integers(2**31))), truth, other


def survival(rng: Rng, depth: int, n: int, epsilon: float) -> Found:
    """A survival curve at three times; events and censored records have distributions from the tree's
    prior."""
    bins, places = Bins(tuple(np.linspace(0, 1, 2**depth + 1))), [0, 2 ** (depth - 1), 2**depth - 2]
    truths = []
    for _ in range(2):
        cells = np.stack([np.diff(_from_tree(rng, depth, STEPS)[::16]) for _ in range(2)], axis=1)
        cells *= (share := rng.random(), 1 - share)
        truths.append(cells)
    noise = noises.LatticeNoise(2 / epsilon)
    z = noise.draw(rng.multinomial(n, truths[0].ravel())[None], rng)[0]
    found = SurvivalPosterior(bins, z.reshape(1, -1, 2), noise, n=n)
    truth, other = (
        SurvivalDraws(bins, cells[None, None, :, 1], cells[None, None, :, 0]).curves[0, 0, places]
        for cells in truths
    )
    return found.draws(DRAWS, int(rng.integers(2**31))).curves[:, 0, places], truth, other


def _from_tree(rng: Rng, depth: int, ends: np.ndarray) -> np.ndarray:
    """Cumulative shares of 2^depth cells in sixteen parts each."""
    state, share = rng.integers(3, size=1), np.ones(1)  # the three smallest at the top
    for level in range(depth):
        if level:
            steps = [ends, *[STEPS] * (2**level - 2), ends]
            pairs = zip(steps, np.repeat(state, 2), strict=True)
            state = np.array([rng.choice(len(SMOOTH), p=step[s]) for step, s in pairs])
        part = rng.beta(SMOOTH[state], SMOOTH[state])
        share = np.stack([share * part, share * (1 - part)], axis=1).ravel()
    steep = slopes_within(share[None], np.full(2**depth, 0.5**depth))[0]
    parts = within(np.repeat(state, 2).astype(np.int8), steep, 4, rng) * share[:, None]
    return np.append(0.0, np.cumsum(parts.ravel()))


def table(rng: Rng) -> Found:
    """Two columns of 3 and 2 levels: the shares of the second within the first, by the verb."""
    epsilon, n, axes = "0.5", 300, {"a": [0, 1, 2], "b": [0, 1]}
    mechanism = discreet.mechanism("lattice", prior=(1.0,) * 6, n=n, epsilon=epsilon)
    cells = rng.dirichlet(np.ones(6), 2)
    z = noises.LatticeNoise(4.0).draw(rng.multinomial(n, cells[0])[None], rng)[0]
    noisy = tuple(int(v) for v in z)
    release = publish(mechanism, Output(noisy, noisy), Domain(tuple(range(6))), axes=axes)
    draws = release.shares("b", given="a", size=DRAWS, seed=int(rng.integers(2**31))).draws[:, :, 0]
    truth, other = (c.reshape(3, 2)[:, 0] / c.reshape(3, 2).sum(axis=1) for c in cells)
    return draws, truth, other


def groups(rng: Rng, number: int, size: int, levels: int) -> Found:
    """Pooled groups, with hyperparameters from their prior: five of the groups."""
    noise = noises.LatticeNoise(4.0)
    shares = np.stack([_population(rng, number, levels) for _ in range(2)])
    x = np.stack([rng.multinomial(size, share) for share in shares[0]])
    z = noise.draw(x, rng)
    seed = int(rng.integers(2**31))
    found = pool_groups(noisy_groups(z, noise, np.full(number, size)), seed=seed).sample(DRAWS, seed)
    return found[:, :5, 0], shares[0, :5, 0], shares[1, :5, 0]


def _population(rng: Rng, number: int, levels: int) -> np.ndarray:
    kappa, mu = 1 / rng.uniform(0, 1) - 1, rng.dirichlet(np.ones(levels))
    gammas = rng.standard_gamma(np.maximum(kappa * mu, 1e-12), (number, levels))
    sums = gammas.sum(axis=1, keepdims=True)
    return np.where(sums > 0, gammas / np.where(sums > 0, sums, 1), rng.multinomial(1, mu, number))


def published(rng: Rng, k: int, noise: noises.Noise, n: int | None) -> Found:
    """Counts that somebody published, the total public or not."""
    shares = rng.dirichlet(np.ones(k), 2)
    total = n or math.exp(rng.uniform(math.log(30), math.log(3000)))
    x = rng.multinomial(n, shares[0]) if n else rng.poisson(total * shares[0])
    given = discreet.noisy_counts(noise.draw(x, rng), noise, total=n)
    distribution = given.noise_aware() if n else given.noise_aware(total_range=(30.0, 3000.0))
    return _shares(distribution.sample(DRAWS, int(rng.integers(2**31))), *shares)


def mean(rng: Rng, relation: str) -> Found:
    """A column between 0 and 1, its mean and deviation uniform over what the bounds allow."""
    truth, other = _moments(rng), _moments(rng)
    centre, deviation = truth
    strength = centre * (1 - centre) / deviation**2 - 1
    values = rng.beta(centre * strength, (1 - centre) * strength, 400)
    n = "public" if relation == "replace-one" else None
    schema = discreet.Schema({"value": (0.0, 1.0)}, n=n, nameless=True)
    question: Any = discreet.Mean(epsilon="0.5").request(schema)
    cells, total = question.read(values.tolist())
    answer = question.design.answer(cells, total, SeededEntropy(int(rng.integers(2**62))))
    return answer.distribution.sample(DRAWS, int(rng.integers(2**62)))[:, None], truth[:1], other[:1]


def weighted(rng: Rng, what: str, clusters: bool = False) -> Found:
    """A weighted survey whose shares are uniform, or whose mean and deviation are; weights around 1, of 4."""
    import pandas as pd

    n, size = 1200, 3 if clusters else 1
    weights = np.minimum(np.exp(rng.normal(-0.1, 0.5, n)), 4)
    columns: dict[str, Any] = {"answer": [0, 1, 2], "value": (0.0, 1.0), "weight": discreet.Weight(4)}
    design = {"cluster": "who", "person": "who", "per_person": size} if clusters else {}
    question: Any
    if what == "mean":
        truth, other = _moments(rng), _moments(rng)
        strength = truth[0] * (1 - truth[0]) / truth[1] ** 2 - 1
        values = rng.beta(truth[0] * strength, (1 - truth[0]) * strength, n)
        truth, other, question = truth[:1], other[:1], discreet.Mean("value", epsilon="1")
    elif what == "quartiles":
        shapes = rng.uniform(1, 4, (2, 2))
        truth, other = (stats.beta(*pair).ppf([0.25, 0.5, 0.75]) for pair in shapes)
        columns["value"] = discreet.Number(0, 1, bins=50)
        values, question = rng.beta(*shapes[0], n), discreet.Quantiles("value", epsilon="1")
    else:
        truth, other = rng.dirichlet(np.ones(3), 2)
        values, question = np.zeros(n), discreet.Proportions("answer", epsilon="1")
    answers = np.repeat(rng.choice(3, n // size, p=truth if what == "shares" else None), size)
    frame = pd.DataFrame({"answer": answers, "value": values, "weight": weights, "who": np.arange(n) // size})
    request = question.request(discreet.Schema(columns, n=n, **design))
    sums, source = request.read(frame), SeededEntropy(int(rng.integers(2**62)))
    if what == "quartiles":
        answer = request.answer(request.counts.answer(sums, source))
    else:
        answer = request.answer(sums, source)
    return answer.draws(DRAWS, int(rng.integers(2**31))), truth, other


def pooled_means(rng: Rng, size: int) -> Found:
    """Normal means of 12 groups whose centre and spread are from their prior: five of the groups."""
    truth, other, _ = _areas(rng, 12, 0.15)
    frame = _records(rng, truth, size)
    schema = discreet.Schema({"value": (0.0, 1.0), "group": list(range(12))})
    question: Any = discreet.Mean("value", by="group", epsilon="1").request(schema)
    answer = question.design.answer(*question.read(frame), SeededEntropy(int(rng.integers(2**62))))
    return answer.pool().draws(DRAWS, int(rng.integers(2**31)))[:, :5], truth[:5], other[:5]


def small_areas(rng: Rng, what: str, size: int) -> Found:
    """Twenty areas around a line of a covariate: of five of them the mean, or the weighted share or mean."""
    truth, other, line = _areas(rng, 20, 0.15, slope=True)
    frame = _records(rng, truth, size)
    columns: dict[str, Any] = {"value": (0.0, 1.0), "yes": ["no", "yes"], "group": list(range(20))}
    if what.startswith("weighted"):
        columns["weight"] = discreet.Weight(2)
    asked: Any = discreet.Mean("value", by="group", epsilon="2")
    if what.endswith("share"):
        asked = discreet.Proportions("yes", by="group", epsilon="2")
    request, source = asked.request(discreet.Schema(columns)), SeededEntropy(int(rng.integers(2**62)))
    read = request.read(frame)
    weighted = what.startswith("weighted")
    answer = request.answer(read, source) if weighted else request.design.answer(*read, source)
    pooled = answer.pool(covariates={"x": dict(enumerate(line))})
    return pooled.draws(DRAWS, int(rng.integers(2**31)))[:, :5], truth[:5], other[:5]


def _areas(rng: Rng, number: int, most: float, slope: bool = False) -> tuple[np.ndarray, ...]:
    """Two sets of true means, whose centre, slope and spread are from their prior, and the covariate."""
    line, sets = np.linspace(-1, 1, number), []
    while len(sets) < 2:
        correlation = rng.random()
        spread = 0.05 * math.sqrt(correlation / (1 - correlation))
        change = rng.uniform(-0.2, 0.2) * slope
        if spread <= most:  # nearly all groups are within the bounds
            sets.append(rng.normal(rng.uniform(0.4, 0.6) + change * line, spread).clip(0, 1))
    return sets[0], sets[1], line


def _records(rng: Rng, truth: np.ndarray, size: int) -> Any:
    """Records of areas: a value, an answer, and a weight that tells nothing of these."""
    import pandas as pd

    group, n = np.repeat(np.arange(len(truth)), size), len(truth) * size
    return pd.DataFrame(
        {
            "value": rng.normal(truth[group], 0.05),
            "yes": np.where(rng.random(n) < truth[group], "yes", "no"),
            "group": group,
            "weight": rng.uniform(0.5, 2, n),
        }
    )


def _moments(rng: Rng) -> np.ndarray:
    while True:
        centre, deviation = rng.random(), rng.random() / 2
        if 1e-3 < deviation**2 < centre * (1 - centre) - 1e-3:
            return np.array([centre, deviation])


SLOPES = {"Intercept": (0.0, 0.5), "a": (0.0, 0.5), "b": (0.0, 0.5)}


def regress(rng: Rng, family: str, weighted: bool = False) -> Found:
    """Three coefficients with a declared prior, 1,000 records; or weights that tell nothing of these."""
    import pandas as pd

    truth, other = rng.normal(0, 0.5, (2, 3))
    x = rng.uniform(-1, 1, (1000, 2))
    eta = truth[0] + x @ truth[1:]
    outcome = {
        "gaussian": lambda: np.clip(eta + rng.normal(0, 0.5, 1000), -5, 5),
        "binomial": lambda: (rng.random(1000) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": lambda: np.minimum(rng.poisson(np.exp(eta)), 20),
    }[family]()
    columns = {"a": x[:, 0], "b": x[:, 1], "y": outcome}
    if weighted:
        columns["w"] = rng.uniform(0.5, 2, 1000)
    fit = _regression(family, weighted).fit(
        pd.DataFrame(columns), source=SeededEntropy(int(rng.integers(2**62)))
    )
    order = [fit.names.index(name) for name in SLOPES]
    centre, spread = fit.mean()[order], fit.covariance()[np.ix_(order, order)]
    return rng.multivariate_normal(centre, spread, DRAWS), truth, other


@cache
def _regression(family: str, weighted: bool) -> Any:
    outcome = {"gaussian": (-5.0, 5.0), "poisson": (0.0, 20.0)}.get(family)
    response = discreet.Category([0, 1]) if outcome is None else outcome
    weight = {"w": discreet.Weight(2)} if weighted else {}
    schema = discreet.Schema({"a": (-1.0, 1.0), "b": (-1.0, 1.0), "y": response, **weight}, n="public")
    epsilon = "3" if weighted else "1"
    asked = discreet.Regress("y ~ a + b", family=family, epsilon=epsilon, delta="1e-6", prior=SLOPES)
    request: Any = asked.request(schema)
    return request.regression


GRID = 150 * (np.arange(600) + 0.5) / 600
NOISE = ("geometric", 0.5)


def bridge(rng: Rng, library: str) -> Found:
    """Four Poisson rates with a Gamma prior, on a grid of the bridge's own log-probability."""
    truth, other = rng.gamma(2.0, 10.0, (2, 4))
    z = noises.DiscreteLaplace(2.0).draw(rng.poisson(truth), rng)
    log_prob = np.stack([_column(library, float(value)) for value in z], axis=1)
    log_prob += stats.gamma(2.0, scale=10.0).logpdf(GRID)[:, None]
    weight = np.exp(log_prob - log_prob.max(axis=0))
    draws = np.stack([rng.choice(GRID, DRAWS, p=w / w.sum()) for w in weight.T], axis=1)
    return draws + rng.uniform(-0.125, 0.125, draws.shape), truth, other


@cache
def _column(library: str, value: float) -> np.ndarray:
    """log P(value) at the rates of the grid."""
    if library == "numpyro":
        from discreet import numpyro

        return np.asarray(numpyro.NoisyPoisson(GRID, NOISE).log_prob(np.array(value)))
    if library == "pymc":
        return np.asarray(_pymc_function()(value, GRID))
    return np.asarray(discreet.noisy_counts([value], NOISE).likelihood().log_prob(GRID[:, None]))


@cache
def _pymc_function() -> Any:
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt

    from discreet.pymc import NoisyPoisson

    rate, value = pt.dvector("rate"), pt.dscalar("value")
    function = vars(pytensor)["function"]
    return function([value, rate], pm.logp(NoisyPoisson.dist(rate, NOISE), value))


@dataclass(frozen=True)
class Case:
    """A kind of answer: one repetition of it, and the modules that it needs."""

    name: str
    one: Callable[[Rng], Found]
    needs: tuple[str, ...] = field(default=())

    @property
    def missing(self) -> list[str]:
        """What would have to be installed."""
        return [module for module in self.needs if importlib.util.find_spec(module) is None]


_GLM = ("formulaic", "pandas")
CASES = (
    Case("proportion, 2 levels, n 100, ε 0.5", partial(lattice, k=2, n=100, epsilon="0.5", prior=1.0)),
    Case("proportion, 2 levels, n 100, ε 0.1", partial(lattice, k=2, n=100, epsilon="0.1", prior=1.0)),
    Case("proportion, 5 levels, n 200, ε 0.5", partial(lattice, k=5, n=200, epsilon="0.5", prior=1.0)),
    Case("proportion, 50 levels, n 1000, ε 0.5", partial(lattice, k=50, n=1000, epsilon="0.5", prior=1.0)),
    Case("proportion, 500 levels, n 5000, ε 0.5", partial(lattice, k=500, n=5000, epsilon="0.5", prior=0.5)),
    Case("add/remove, 2 levels, ε 0.2: share", partial(add_remove, k=2, epsilon="0.2", what="shares")),
    Case("add/remove, 10 levels, ε 0.5: shares", partial(add_remove, k=10, epsilon="0.5", what="shares")),
    Case("add/remove, 10 levels, ε 0.5: total", partial(add_remove, k=10, epsilon="0.5", what="total")),
    Case(
        "quartiles, 64 bins, n 1000, some missing, ε 1",
        partial(binned, depth=6, n=1000, epsilon=1.0, hidden=False),
    ),
    Case("quartiles, 32 bins, add/remove, ε 0.5", partial(binned, depth=5, n=0, epsilon=0.5, hidden=True)),
    Case("survival, 16 bins, n 300, ε 1", partial(survival, depth=4, n=300, epsilon=1.0)),
    Case("table 3 × 2, n 300, ε 0.5: conditional", table),
    Case("pooled, 50 groups of 40, 2 levels, ε 0.5", partial(groups, number=50, size=40, levels=2)),
    Case("pooled, 20 groups of 60, 4 levels, ε 0.5", partial(groups, number=20, size=60, levels=4)),
    Case(
        "noisy counts, discrete Laplace 10, n 100",
        partial(published, k=2, noise=noises.DiscreteLaplace(10.0), n=100),
    ),
    Case(
        "noisy counts, discrete Gaussian 6, n 100",
        partial(published, k=3, noise=noises.DiscreteGaussian(6.0), n=100),
    ),
    Case(
        "noisy counts, Laplace 4 clamped at 0, n 100",
        partial(published, k=4, noise=noises.Clamped(noises.Laplace(4.0)), n=100),
    ),
    Case(
        "noisy counts, Gaussian 5, total unknown",
        partial(published, k=4, noise=noises.GaussianNoise(5.0), n=None),
    ),
    Case("mean, n 400, ε 0.5", partial(mean, relation="replace-one")),
    Case("mean, add/remove, n 400, ε 0.5", partial(mean, relation="add-remove")),
    Case("pooled means, 12 groups of 60, ε 1", partial(pooled_means, size=60)),
    Case("pooled means, 12 groups of 2000, ε 1", partial(pooled_means, size=2000)),
    Case("areas: means of 20 around a line, ε 2", partial(small_areas, what="mean", size=200)),
    Case("areas: weighted means of 20, ε 2", partial(small_areas, what="weighted mean", size=200)),
    Case("areas: weighted shares of 20, ε 2", partial(small_areas, what="weighted share", size=200)),
    Case("regress, gaussian, n 1000, ε 1", partial(regress, family="gaussian"), _GLM),
    Case("regress, binomial, n 1000, ε 1", partial(regress, family="binomial"), _GLM),
    Case("regress, poisson, n 1000, ε 1", partial(regress, family="poisson"), _GLM),
    Case("likelihood, 4 Poisson rates, ε 0.5", partial(bridge, library="likelihood")),
    Case("NumPyro, 4 Poisson rates, ε 0.5", partial(bridge, library="numpyro"), ("numpyro",)),
    Case("PyMC, 4 Poisson rates, ε 0.5", partial(bridge, library="pymc"), ("pymc",)),
    Case("weighted shares, 3 levels, n 1200, ε 1", partial(weighted, what="shares"), ("pandas",)),
    Case("weighted mean, n 1200, ε 1", partial(weighted, what="mean"), ("pandas",)),
    Case(
        "weighted shares, 400 clusters of 3, ε 1",
        partial(weighted, what="shares", clusters=True),
        ("pandas",),
    ),
    Case("weighted quartiles, n 1200, ε 1", partial(weighted, what="quartiles"), ("pandas",)),
    *(
        Case(f"weighted {family} model, n 1000, ε 3", partial(regress, family=family, weighted=True), _GLM)
        for family in ("gaussian", "binomial", "poisson")
    ),
)


def repeat(job: tuple[int, int, int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Some repetitions of a case: (its number, seed, first, last)."""
    number, seed, first, last = job
    ranks, nearer = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for repetition in range(first, last):
            rng = np.random.default_rng([seed, number, repetition])
            draws, truth, other = CASES[number].one(rng)
            ranks.append(_rank(draws, truth, rng))
            distance = np.linalg.norm(draws - other, axis=1)[:, None]
            nearer.append(_rank(distance, np.array([np.linalg.norm(truth - other)]), rng)[0])
    return np.array(ranks), np.array(nearer)


def _rank(draws: np.ndarray, truth: np.ndarray, rng: Rng) -> np.ndarray:
    """Uniform where truth and draws are exchangeable, ties included."""
    below, ties = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    return np.asarray((below + rng.random(len(truth)) * (1 + ties)) / (1 + len(draws)))


def calibrations(
    repetitions: int, processes: int = 1, seed: int = 0, only: tuple[str, ...] = ()
) -> Iterator[Calibration | str]:
    """Row after row; a text for one that is left out."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(processes) if processes > 1 else _Alone() as pool:
        for number, case in enumerate(CASES):
            if only and not any(part in case.name for part in only):
                continue
            if case.missing:
                yield f"{case.name:44} left out: {', '.join(case.missing)} not installed"
                continue
            edges = np.linspace(0, repetitions, min(repetitions, 8 * processes) + 1).astype(int)
            jobs = [(number, seed, int(a), int(b)) for a, b in pairwise(edges)]
            parts = list(pool.imap(repeat, jobs))
            yield Calibration(
                case.name, np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
            )


class _Alone:
    """One process: this one."""

    imap = staticmethod(map)

    def __enter__(self) -> _Alone:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def picture(found: list[Calibration]) -> str:
    """Expected coverage less level (TARP), a line for each kind of answer: SVG."""
    wide, high, left, top, row = 300, 64, 330, 40, 74
    levels, parts = np.linspace(0, 1, 101), []
    # Of a right answer 95 % of such lines stay within its band (Kolmogorov).
    bands = [1.36 / math.sqrt(len(one.nearer)) for one in found]
    limit = max(0.05, 1.3 * max(bands))
    for i, (one, band) in enumerate(zip(found, bands, strict=True)):
        y = top + i * row + high / 2
        held = np.searchsorted(np.sort(one.nearer), levels, side="right") / len(one.nearer)
        scale = high / 2 / limit
        points = " ".join(
            f"{left + wide * a:.1f},{y - scale * np.clip(h - a, -limit, limit):.1f}"
            for a, h in zip(levels, held, strict=True)
        )
        parts.append(
            f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{one.name}</text>'
            f'<rect x="{left}" y="{y - scale * band:.1f}" width="{wide}" height="{2 * scale * band:.1f}" '
            'fill="#dfe7ee"/>'
            f'<line x1="{left}" y1="{y}" x2="{left + wide}" y2="{y}" stroke="#889"/>'
            f'<polyline points="{points}" fill="none" stroke="#0b5c8f" stroke-width="1.5"/>'
        )
    total = top + len(found) * row + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 80} {total}" '
        'font-family="sans-serif" font-size="13"><title>Expected coverage less level</title>'
        f'<text x="12" y="20">expected coverage less level, ±{limit:.2f}, by level 0 to 1; '
        "grey: 95 % of right answers</text>" + "".join(parts) + "</svg>\n"
    )


def main() -> None:
    """Print the table, and draw the picture where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=500, help="of each kind of answer")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts of names, with commas")
    parser.add_argument("--picture", type=Path, help="an SVG file")
    options = parser.parse_args()
    only = tuple(part for part in options.only.split(",") if part)
    print(HEADER, flush=True)
    found, start = [], time.perf_counter()
    for one in calibrations(options.repetitions, options.processes, options.seed, only):
        if isinstance(one, str):
            print(one, flush=True)
            continue
        found.append(one)
        print(one.line(), f"{time.perf_counter() - start:7.0f} s", flush=True)
    if options.picture is not None:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        options.picture.write_text(picture(found), encoding="utf-8")


if __name__ == "__main__":
    main()
