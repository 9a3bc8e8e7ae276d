"""Pooled groups: against plain sums over a grid, the two ways against each other, and what they cover."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

import discreet
import shorthand
from discreet._inference.pooled import Labels, PooledDraws, noisy_groups, pool_groups, released_groups
from discreet._numerics import noises
from discreet.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore:the number of records in each group")


def first(numbers):
    """Of two values in each group: those of the first."""
    return numbers[::2]


def simulated(rng, sizes, epsilon, alphas):
    """Shares, and noisy counts: lattice noise within every group."""
    shares = rng.dirichlet(alphas, size=len(sizes))
    x = np.array([rng.multinomial(n, p) for n, p in zip(sizes, shares, strict=True)])
    k, q, noise = len(alphas), math.exp(-epsilon / 2), []
    while len(noise) < len(sizes):
        first = rng.geometric(1 - q, k - 1) - rng.geometric(1 - q, k - 1)
        if rng.random() < math.exp(-epsilon / 2 * abs(first.sum())):
            noise.append(np.append(first, -first.sum()))
    return shares, x + np.array(noise)


def test_two_levels_against_a_plain_grid():
    """Six groups, one empty: means and intervals by summing over κ, μ, true counts and θ outright."""
    sizes = np.array([5, 9, 0, 12, 7, 30])
    z = np.array([[4, 1], [11, -2], [0, 0], [3, 9], [2, 5], [14, 16]])
    made = pool_groups(noisy_groups(z, noises.LatticeNoise(4.0), sizes), "abcdef")
    log_kappa, logit = (g.ravel() for g in np.meshgrid(np.linspace(-9, 12, 80), np.linspace(-7, 7, 70)))
    kappa, mu = np.exp(log_kappa), 1 / (1 + np.exp(-logit))
    a, b = kappa * mu, kappa * (1 - mu)
    logs = log_kappa - 2 * np.log1p(kappa) + np.log(mu) + np.log1p(-mu)
    tables = []
    for n, row in zip(sizes, z, strict=True):
        x = np.arange(n + 1)
        table = betaln(a[:, None] + x, b[:, None] + n - x) - betaln(a, b)[:, None] - np.abs(row[0] - x) / 2.0
        tables.append(table + gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1))
        logs = logs + logsumexp(tables[-1], axis=1)
    weight = np.exp(logs - logsumexp(logs))
    kept = weight > 1e-7
    u = np.linspace(-60, 60, 1501)  # θ on a logit scale
    theta = 1 / (1 + np.exp(-u))
    distributions = np.empty((6, len(u)))
    log_theta, log_rest = -np.logaddexp(0, -u), -np.logaddexp(0, u)
    prior = np.exp(np.outer(a[kept], log_theta) + np.outer(b[kept], log_rest) - betaln(a, b)[kept, None])
    for g, (n, row) in enumerate(zip(sizes, z, strict=True)):
        x = np.arange(n + 1)
        choose = gammaln(n + 1) - gammaln(x + 1) - gammaln(n - x + 1) - np.abs(row[0] - x) / 2.0
        own = np.exp(logsumexp(choose[:, None] + np.outer(x, log_theta) + np.outer(n - x, log_rest), axis=0))
        told = weight[kept] / np.exp(logsumexp(tables[g], axis=1)[kept])
        distributions[g] = own * (told @ prior)
    distributions /= distributions.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(first(made.mean()), distributions @ theta, atol=1e-3)
    np.testing.assert_allclose(made.mean()[1::2], 1 - distributions @ theta, atol=1e-3)
    low, high = map(first, made.interval(0.9))
    cdf = np.cumsum(distributions, axis=1) - distributions / 2
    for g in range(6):
        assert np.interp(low[g], theta, cdf[g]) == pytest.approx(0.05, abs=3e-3)
        assert np.interp(high[g], theta, cdf[g]) == pytest.approx(0.95, abs=3e-3)
    np.testing.assert_allclose(made.interval(0.9)[0][1::2], 1 - high, rtol=1e-12)
    table = first(made.table())
    assert [row["group"] for row in table] == list("abcdef")
    assert table[2]["high"] - table[2]["low"] == max(row["high"] - row["low"] for row in table)
    draws = made.sample(4000, seed=1)
    assert draws.shape == (4000, 6, 2)
    np.testing.assert_allclose(draws[:, :, 0].mean(axis=0), first(made.mean()), atol=0.02)


@pytest.mark.parametrize(("kappa", "epsilon"), [(25, 0.5), (25, 0.25)])
def test_pooled_groups_cover_and_gain(kappa, epsilon):
    """200 groups of 50, five times: 1000 intervals of 90 %. One μ for each run."""
    rng = np.random.default_rng(11)
    sizes, inside, error, alone = np.full(200, 50), 0, 0.0, 0.0
    for _ in range(5):
        shares, z = simulated(rng, sizes, epsilon, kappa * np.array([0.3, 0.7]))
        made = pool_groups(noisy_groups(z, noises.LatticeNoise(2 / epsilon), sizes))
        low, high = map(first, made.interval(0.9))
        inside += np.sum((low <= shares[:, 0]) & (shares[:, 0] <= high))
        error += np.sum((first(made.mean()) - shares[:, 0]) ** 2)
        x = np.arange(51)
        distribution = np.exp(-epsilon * np.abs(z[:, [0]] - x))
        alone += np.sum(
            ((distribution / distribution.sum(axis=1, keepdims=True)) @ ((x + 1) / 52) - shares[:, 0]) ** 2
        )
    assert abs(inside / 1000 - 0.9) < 0.05
    assert math.sqrt(error / alone) < 0.82


def test_the_sampler_agrees_with_the_quadrature():
    rng = np.random.default_rng(3)
    sizes = rng.integers(0, 60, 40)
    _, z = simulated(rng, sizes, 0.8, [3.0, 5.0])
    groups = noisy_groups(z, noises.LatticeNoise(2.5), sizes)
    exact, drawn = (
        pool_groups(groups),
        PooledDraws(groups, Labels(tuple(range(40)), (0, 1)), seed=1, sweeps=1500),
    )
    np.testing.assert_allclose(drawn.mean(), exact.mean(), atol=0.03)
    np.testing.assert_allclose(drawn.interval(0.9)[0], exact.interval(0.9)[0], atol=0.06)
    assert 0 < drawn.error < 0.02
    assert drawn.concentration[0] == pytest.approx(exact.concentration[0], rel=0.4)


def test_more_levels_and_sizes_that_are_not_public():
    rng = np.random.default_rng(4)
    sizes = np.full(60, 40)
    shares, z = simulated(rng, sizes, 0.8, [4.0, 5.0, 6.0, 9.0])
    made = pool_groups(noisy_groups(z, noises.LatticeNoise(2.5), sizes), sweeps=400)
    low, high = (end.reshape(60, 4) for end in made.interval(0.9))
    assert made.mean().shape == made.std().shape == (240,)
    assert abs(np.mean((low <= shares) & (shares <= high)) - 0.9) < 0.07
    np.testing.assert_allclose(made.mean().reshape(60, 4).sum(axis=1), 1.0)
    assert made.table()[5] | {"group": 1, "value": 1} == made.table()[5]
    x = np.array([rng.multinomial(40, p) for p in shares])
    noisy = x + np.rint(rng.laplace(0, 1.25, x.shape))
    free = pool_groups(noisy_groups(noisy, noises.DiscreteLaplace(1.25)), sweeps=400)
    low, high = (end.reshape(60, 4) for end in free.interval(0.9))
    assert abs(np.mean((low <= shares) & (shares <= high)) - 0.9) < 0.08
    assert free.sample(10, seed=1).shape == (10, 60, 4)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [noises.LatticeNoise(2.0), noises.DiscreteLaplace(1.5)])
def test_a_public_total_of_private_groups(noise):
    """Against all true counts that sum to it, on a grid of (κ, μ); sizes are as likely as each other."""
    z, n = np.array([[3.0, 1.0], [-1.0, 2.0], [2.0, 0.0]]), 7
    made = pool_groups(noisy_groups(z, noise, total=n), sweeps=2500)
    counts = np.array([c for c in np.ndindex(*[n + 1] * 6) if sum(c) == n]).reshape(-1, 3, 2)
    seen = noise.log_prob(z, counts.astype(float), np.full(z.shape, noise.scale)).sum(axis=(1, 2))
    total, mean = 0.0, np.zeros(3)
    for correlation in (np.arange(25) + 0.5) / 25:
        kappa = 1 / correlation - 1
        for mu in (np.arange(25) + 0.5) / 25:
            distributions = stats.betabinom.logpmf(
                counts[..., 0], counts.sum(axis=2), kappa * mu, kappa * (1 - mu)
            )
            weight = np.exp(seen + distributions.sum(axis=1))
            shares = (kappa * mu + counts[..., 0]) / (kappa + counts.sum(axis=2))
            total, mean = total + weight.sum(), mean + weight @ shares
    np.testing.assert_allclose(first(made.mean()), mean / total, atol=0.03)


def test_a_table_is_pooled():
    rows = {"region": ["a"] * 30 + ["b"] * 50 + ["c"] * 20, "vote": ["yes", "no"] * 50}
    columns = {"region": ("a", "b", "c", "d"), "vote": ("yes", "no")}
    for options in ({}, {"hidden": True, "mechanism": "geometric"}):
        table = shorthand.table(pd.DataFrame(rows), columns, epsilon=2.0, **options)
        made = table.pool("vote", given="region")
        assert made.names == tuple(product(columns["region"], columns["vote"]))
        assert len(table.pool("region", given="vote").names) == 8
    short = pool_groups(
        noisy_groups([[9.0, -1.0], [3.0, 4.0], [8.0, 7.0]], noises.LatticeNoise(2.0), total=30), sweeps=90
    )
    assert np.all((short.interval(0.9)[0] < short.mean()) & (short.mean() < short.interval(0.9)[1]))
    with pytest.raises(InvalidInputError, match="region, vote"):
        table.pool("vote", given="sex")
    listed = shorthand.table(pd.DataFrame(rows).head(4), columns, epsilon=1.0, mechanism="ehd")
    with pytest.raises(InvalidInputError, match="no noisy counts"):
        listed.pool("vote", given="region")


def test_bad_groups_are_refused():
    noise = noises.LatticeNoise(4.0)
    for values, sizes, message in [
        ([1, 2], [3], "a row for each group"),
        ([[1, 2]], [4], "sum"),
        ([[1, 2]], [3, 4], "sizes"),
        ([[1, 2]], [-1], "sizes"),
        ([[1, math.nan]], [3], "values"),
        ([[1.5, 1.5]], [3], "whole"),
    ]:
        with pytest.raises(InvalidInputError, match=message):
            noisy_groups(values, noise, sizes)
    groups = noisy_groups([[1, 2]], noise, [3])
    with pytest.raises(InvalidInputError, match="names"):
        pool_groups(groups, ["a", "b"])
    with pytest.raises(InvalidInputError, match="level"):
        pool_groups(groups).interval(1.5)


@pytest.mark.parametrize("mechanism", ["lattice", "lszhang", "lshist", "ehd"])
def test_releases_of_groups_pool_what_each_mechanism_published(mechanism):
    """The true count of every group: weights by hand from the mechanism's distribution, an empty group among
    them."""
    data = pd.DataFrame({"region": ["a"] * 6 + ["b"] * 9, "answer": ["y", "n"] * 3 + ["y"] * 9})
    options = {"levels": ("y", "n"), "groups": ("a", "b", "c"), "epsilon": 1.0, "sizes": (6, 9, 0)}
    made = shorthand.groups(data, outcome="answer", by="region", mechanism=mechanism, **options)
    pool = made.pool()
    assert pool.names == tuple(product("abc", "yn"))
    low, high = pool.interval(0.9)
    assert np.all((low >= 0) & (low <= pool.mean()) & (pool.mean() <= high) & (high <= 1))
    parts = [None if r is None else (r.built, r.counts, r.noisy) for r in made.releases]
    groups = released_groups(parts, made.sizes, 2)
    for g, one in enumerate(made.releases[:2]):
        n = made.sizes[g]
        x = np.arange(n + 1)
        likelihood = one.likelihood()
        shares = np.array([0.3, 0.7])
        own = [groups.log_weight[g, i] for i in (0, 1)]
        at = [
            [own[i][c - groups.low[g, i]] if 0 <= c - groups.low[g, i] < len(own[i]) else -np.inf for c in y]
            for i, y in enumerate((x, n - x))
        ]
        terms = np.array(at).sum(axis=0) + stats.binom.logpmf(x, n, 0.3)
        mean = np.exp(terms - logsumexp(terms)) @ x
        assert mean == pytest.approx(likelihood.expected_counts(shares)[0], rel=1e-9)


def test_more_levels_need_noisy_counts():
    data = pd.DataFrame({"region": ["a"] * 6, "answer": ["y", "n", "m"] * 2})
    options = {"levels": ("y", "n", "m"), "groups": ("a", "b"), "epsilon": 1.0}
    options |= {"by": "region", "sizes": (6, 0)}
    made = shorthand.groups(data, outcome="answer", mechanism="ehd", **options)
    with pytest.raises(InvalidInputError, match="noisy counts"):
        made.pool()
    made = shorthand.groups(data, outcome="answer", mechanism="lsdim", **options)
    assert made.pool().mean().shape == (6,)


def test_published_counts_are_pooled_and_drawn():
    values = [31, 19, 28, 22, 12, 38, 25, 25]
    published = discreet.noisy_counts(values, noise=("lattice", 4.0), total=200)
    made = published.pool("abcd", sizes=[50] * 4)
    own = pool_groups(noisy_groups(np.reshape(values, (4, 2)), noises.LatticeNoise(4.0), [50] * 4), "abcd")
    np.testing.assert_array_equal(made.mean(), own.mean())
    rows = made.figure().rows
    assert [row.name for row in rows] == ["a", "b", "d", "c"]  # the share of the second value, in order
    with pytest.raises(InvalidInputError, match="3 groups"):
        published.pool("abc")


def test_displays_show_what_the_document_holds_and_pooled_groups_show_themselves():
    """A report has the shares of the document, side by side; pooled groups are ordered by share."""
    groups = ("north", "east", "south", "west")
    rows = {
        "region": [group for group in groups for _ in range(40)],
        "vote": (["yes"] * 10 + ["no"] * 30) * 2 + (["yes"] * 22 + ["no"] * 18) * 2,
    }
    asked = {"outcome": "vote", "by": "region", "levels": ("yes", "no"), "epsilon": 2.0}
    found = shorthand.groups(pd.DataFrame(rows), groups=groups, **asked)
    (table,) = found.tables()
    assert [cells[0] for cells in table.cells] == list(groups)
    assert [row.group for row in found.figure().rows] == [*groups, *groups]
    assert float(table.cells[0][1].split()[0]) == pytest.approx(100 * found.rows()[0].mean, abs=1)
    figure = found.pool().figure(0.9)
    assert [row.mean for row in figure.rows] == sorted(row.mean for row in figure.rows)
    low, high = (end[1::2] for end in found.pool().interval(0.9))
    by_name = {row.name: row for row in figure.rows}
    assert [by_name[group].low for group in groups] == pytest.approx(list(low))
    assert [by_name[group].high for group in groups] == pytest.approx(list(high))
    assert "hierarchical" not in found.summary()
    lines = str(found.pool()).splitlines()
    assert "hierarchical model" in lines[0]
    assert [line.split()[0] for line in lines[4:8]] == list(groups)
    assert "hierarchical" not in discreet.report([found], title="Votes")
    two = {"region": rows["region"][:80], "vote": rows["vote"][:80]}
    few = shorthand.groups(pd.DataFrame(two), groups=groups[:2], **asked)
    assert len(few.figure().rows) == 4
    (shares,) = few.tables()
    assert shares.header == ("vote", "region: north", "region: east", "east − north")
