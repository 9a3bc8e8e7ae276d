"""Shares of groups under the hierarchical model θ_g ~ Dir(κμ), given noisy counts.

For two levels and public group sizes, κ and μ are integrated out by quadrature: P(z_g | κ, μ) = Σ_x P(z_g |
x)·BetaBin(x; n_g, κμ) is a plain sum; there is a grid of log κ and, for each κ, a grid of logit μ around its
mode. Otherwise a Gibbs sampler draws the true counts and (κ, μ). The counts are drawn from their exact
conditional distributions: two levels at a time, which keeps the size of the group, or one at a time if the
size is private. (κ, μ) are drawn by Metropolis steps, with proposals from the curvature of the log-density.

Prior: μ is uniform, and so is 1/(1 + κ), the correlation of two records of one group. A group without records
has the predictive distribution of a new group.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
from scipy.special import digamma, expit, gammaln, logit, polygamma, zeta

from discreet._documents.answer import Estimates
from discreet._documents.parts import Figure, Row, Table, Words, by_outcome, groups_table, rows_of
from discreet._inference.add_remove import integrate
from discreet._numerics.count_vectors import compositions
from discreet._numerics.neighbours import log_normalisers
from discreet._numerics.noises import Noise
from discreet._typing import FloatArray, IntArray
from discreet.distributions._beta_rows import trim
from discreet.distributions.base import as_draws, tails
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms.base import Mechanism, log_likelihood

Released = tuple[Mechanism, tuple[int, ...], tuple[int, ...] | None]
"""A mechanism, the counts that it released, and the noisy counts (None if it publishes none)."""

_WINDOW_NATS = 30.0  # nats below the likeliest count at which a window ends: e^{−30} = 1e-13
_MOST_COUNTS_IN_WINDOW = 1 << 14
_METROPOLIS_STEPS = 4  # Metropolis steps for (κ, μ) in a sweep


@dataclass(frozen=True, eq=False)
class Groups:
    """The likelihood of the true counts x_gi of group g and level i, over a range of possible counts.

    ``log_weight[g, i, j]`` is log P(z_gi | x_gi = ``low[g, i]`` + j). ``sizes`` are the sizes of the groups,
    None if they are private. ``total`` is their sum if only that is public; its division among the groups
    then has a uniform prior.
    """

    low: IntArray
    log_weight: FloatArray
    sizes: IntArray | None = None
    total: int | None = None

    @property
    def shape(self) -> tuple[int, int]:
        groups, levels = self.low.shape
        return groups, levels


def noisy_groups(values: Any, noise: Noise, sizes: Any = None, total: int | None = None) -> Groups:
    """Return the likelihood of groups from noisy counts of shape (groups, levels).

    Noise that is constrained to sum to zero does so within each group; but if ``total`` is given and
    ``sizes`` are not, over all groups. Counts x for which P(z | x) is below e^{−30} of its maximum are left
    out.
    """
    z = np.asarray(values, dtype=np.float64)
    if z.ndim != 2 or z.shape[1] < 2 or not np.all(np.isfinite(z)):
        raise InvalidInputError(
            "values must be finite numbers: a row for each group, a column for each of at least two levels"
        )
    noise.check(z)
    if total is None and sizes is None and noise.together:
        sizes = z.sum(axis=1)
    if sizes is None and noise.together and z.sum() != total:
        raise InvalidInputError(f"values do not sum to total={total}, which the noise preserves")
    top = np.full(len(z), np.inf) if sizes is None else np.asarray(sizes, dtype=np.float64)
    if top.shape != (len(z),) or np.any((top < 0) | (top != np.floor(top))):
        raise InvalidInputError(f"sizes must be {len(z)} non-negative whole numbers, one for each group")
    if sizes is not None and noise.together and np.any(z.sum(axis=1) != top):
        raise InvalidInputError("values of each group must sum to its size, because this noise sums to zero")
    scale = np.broadcast_to(noise.scale, z.shape)
    reach = noise.reach(scale, _WINDOW_NATS)
    # Where z is beyond 0 or n, the nearest possible count stands for it: the others decay from there.
    centre = np.clip(np.floor(z), 0, top[:, None])
    low, high = np.maximum(centre - reach, 0), np.minimum(centre + reach, top[:, None])
    if np.any(silent := np.isinf(reach)):
        # These have no published value: their windows are what the others leave of the size.
        if sizes is None or silent.sum(axis=1).max() > 1:
            raise InvalidInputError(
                "some cells have no published value, and sizes do not determine them; leave them out"
            )
        least, most = (top - np.where(silent, 0, end).sum(axis=1) for end in (high, low))
        low = np.where(silent, np.maximum(least, 0)[:, None], low)
        high = np.where(silent, np.maximum(most, 0)[:, None], high)
    elif not np.all(np.isfinite(high)):
        raise InvalidInputError("values clamped from above do not determine the size of a group; give sizes")
    width = int((high - low).max()) + 1
    if width > _MOST_COUNTS_IN_WINDOW:
        raise TooLargeError(
            f"the noise spreads a count over {width} values, more than "
            f"{_MOST_COUNTS_IN_WINDOW}; groups with so little information cannot be pooled"
        )
    x = np.asarray(low[:, :, None] + np.arange(width), dtype=np.float64)
    weight = noise.log_prob(z[:, :, None], x, scale[:, :, None])
    weight = np.where(x <= high[:, :, None], weight, -np.inf)
    weight = weight - weight.max(axis=2, keepdims=True)
    if sizes is None:
        return Groups(low.astype(np.int64), weight, total=total)
    return Groups(low.astype(np.int64), weight, top.astype(np.int64))


def released_groups(parts: Sequence[Released | None], sizes: Sequence[int], levels: int) -> Groups:
    """Return the likelihood of groups from a release for each group; None marks a group without records."""
    if max(sizes, default=0) > 2**53:
        raise TooLargeError("groups of more than 2^53 records cannot be pooled")
    per_group = [_one_group(part, size, levels) for part, size in zip(parts, sizes, strict=True)]
    weight = np.full((len(parts), levels, max(group.log_weight.shape[2] for group in per_group)), -np.inf)
    for target, group in zip(weight, per_group, strict=True):
        target[:, : group.log_weight.shape[2]] = group.log_weight[0]
    return Groups(
        np.concatenate([group.low for group in per_group]), weight, np.asarray(sizes, dtype=np.int64)
    )


def _one_group(part: Released | None, size: int, levels: int) -> Groups:
    none = np.zeros((1, levels), dtype=np.int64)
    if part is None:
        return Groups(none, np.zeros((1, levels, 1)))
    mechanism, counts, noisy = part
    carried = mechanism.count_noise(counts, noisy)
    if carried is not None:
        return noisy_groups([carried.values], carried.noise, [size])
    if levels > 2:
        raise InvalidInputError(
            f"{mechanism.name} publishes no noisy counts: groups of more than two levels need them"
        )
    rows = compositions(mechanism.n, 2)
    weight = log_likelihood(mechanism, rows, counts)  # by the count of the first level
    return Groups(none, np.stack([weight - weight.max(), np.zeros(len(rows))])[None])


@dataclass(frozen=True)
class Labels:
    """Names of the groups and of the values, and of their columns ``given`` and ``outcome``."""

    groups: tuple[Any, ...]
    values: tuple[Any, ...]
    given: str = "group"
    outcome: str = "value"


class Pooled(Estimates):
    """The posterior of each group's shares under a hierarchical model, with the noise accounted for.

    Results are in the order of ``names``: all values of the first group, then of the second, and so on.
    """

    variable: ClassVar[str] = "share"

    def __init__(self, labels: Labels) -> None:
        self.labels = labels

    @abstractmethod
    def shares(self) -> tuple[FloatArray, FloatArray]:
        """Expected shares and their standard deviations, each of shape (groups, values)."""

    @abstractmethod
    def ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        """The ends of equal-tailed credible intervals, each of shape (groups, values)."""

    @abstractmethod
    def sample(self, size: int = 1000, seed: int | None = None) -> FloatArray:
        """Draw all shares from their posterior.

        Parameters
        ----------
        size
            How many draws.
        seed
            Seed of the generator.

        Returns
        -------
        FloatArray
            Draws, of shape (size, groups, values).
        """

    @property
    @abstractmethod
    def concentration(self) -> tuple[float, float, float]:
        """The median and 90 % interval of κ; a large κ means that groups are similar."""

    @property
    def error(self) -> float:
        """The numerical standard error of the posterior means, in the worst group."""
        return 0.0

    @property
    def axes_of_names(self) -> Mapping[str, Sequence[Any]]:
        return {self.labels.given: self.labels.groups, self.labels.outcome: self.labels.values}

    @property
    def names(self) -> tuple[Any, ...]:
        """A pair for each share: the group and the value."""
        return tuple(product(self.labels.groups, self.labels.values))

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        return self.sample(size, seed).reshape(size, -1)

    def _rows(self, level: float) -> list[Row]:
        """Return a row for each group and value, with the share and its interval."""
        names = (f"{group} · {value}" for group, value in self.names)
        return rows_of(names, *self.shares(), *self.ends(level), share=True)

    def screen(self, level: float = 0.95) -> Table:
        """Return a table with a row for each group, and a column for each value.

        If there are two values, only the last is shown.
        """
        labels = self.labels
        return groups_table(labels.given, labels.groups, labels.values, self.rows(level), level)

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Return a figure of all shares; of two values only the last, with groups ordered by its share."""
        labels = self.labels
        if len(labels.values) > 2:
            title = f"Shares of {labels.outcome} within each {labels.given}"
            return Figure(title, by_outcome(rows, labels.groups))
        last = [replace(row, name=str(group)) for group, row in zip(labels.groups, rows[1::2], strict=True)]
        title = f"Share of {labels.values[-1]} within each {labels.given}"
        return Figure(title, tuple(sorted(last, key=lambda row: row.mean)))

    def words(self) -> Words:
        """Describe the shares, and how similar the groups are, in words."""
        (median, low, high), labels = self.concentration, self.labels
        return Words(
            headline=f"Shares of {labels.outcome} within {len(labels.groups)} groups (hierarchical model)",
            name=f"Shares of {labels.outcome} within {len(labels.groups)} pooled groups",
            notes=(
                "The groups' shares are modelled as draws from one unknown distribution, whose "
                "concentration is about "
                f"{median:.3g} (90 % interval {low:.3g} to {high:.3g}): the larger, the more alike they are.",
            ),
        )

    def __repr__(self) -> str:
        labels = self.labels
        return f"<Pooled: shares of {labels.outcome} within {len(labels.groups)} groups>"


def pool_groups(
    groups: Groups,
    names: Sequence[Any] | None = None,
    values: Sequence[Any] | None = None,
    *,
    given: str = "group",
    outcome: str = "value",
    seed: int = 0,
    sweeps: int = 1000,
) -> Pooled:
    """Fit the hierarchical model by quadrature (two levels, public sizes) or by Gibbs sampling.

    Parameters
    ----------
    groups : Groups
        The likelihood of the true counts of each group.
    names, values : sequence, optional
        Names of the groups and of the values of the outcome; numbers if they are left out.
    given, outcome : str
        The columns that hold them.
    seed, sweeps : int
        Seed and number of sweeps of the sampler.

    Returns
    -------
    Pooled
    """
    number, levels = groups.shape
    called = tuple(range(number)) if names is None else tuple(names)
    shares_of = tuple(range(levels)) if values is None else tuple(values)
    if len(called) != number or len(shares_of) != levels:
        raise InvalidInputError(
            f"names has {len(called)} entries for {number} groups, or values {len(shares_of)} for {levels}"
        )
    labels = Labels(called, shares_of, given, outcome)
    if levels == 2 and groups.sizes is not None:
        return PooledPairs(groups, labels)
    return PooledDraws(groups, labels, seed, sweeps)


def _log_rising(a: float, longest: int) -> FloatArray:
    """Return log(Γ(a+x)/(Γ(a)x!)) for x = 0, …, longest."""
    steps = np.arange(longest)
    return np.concatenate([[0.0], np.cumsum(np.log((a + steps) / (1.0 + steps)))])


def _chosen(mass: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw an index in each row, with probability proportional to the entries of ``mass``."""
    cumulative = np.cumsum(mass, axis=1)
    target = rng.random(len(mass)) * cumulative[:, -1]
    return np.asarray((cumulative <= target[:, None]).sum(axis=1))


class PooledPairs(Pooled):
    """The posterior for two levels and public sizes, by quadrature."""

    def __init__(self, groups: Groups, labels: Labels) -> None:
        super().__init__(labels)
        assert groups.sizes is not None
        self.sizes, self._longest = groups.sizes, int(groups.sizes.max(initial=0))
        if self._longest > 5_000_000:
            raise TooLargeError(
                f"a group has {self._longest:.3g} records; pooling works up to 5e6 in a group"
            )
        low, self._weight = _first_level(groups)
        x = low[:, None] + np.arange(self._weight.shape[1])
        self._x = np.minimum(x, self.sizes[:, None])
        self._rest = np.maximum(self.sizes[:, None] - x, 0)
        self._dense: FloatArray | None = None
        # one distribution of x serves all groups
        if len(np.unique(self.sizes)) == 1 and self._longest <= 20_000:
            self._dense = np.zeros((len(x), self._longest + 1))
            np.add.at(self._dense, (np.arange(len(x))[:, None], self._x), self._weight)

    def _rising(self, log_kappa: float, logit: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the log-factors of the Beta-binomial: by count for both levels, and for the group sizes."""
        a, b = _parameters(log_kappa, logit)
        normaliser = _log_rising(math.exp(log_kappa), self._longest)[self.sizes]
        return _log_rising(a, self._longest), _log_rising(b, self._longest), normaliser

    def _distribution(self, log_kappa: float, logit: float) -> FloatArray:
        """Return P(z_g, x_g | κ, μ), up to a constant, for the possible counts x_g of each group."""
        first, second, normaliser = self._rising(log_kappa, logit)
        log_prior = first[self._x] + second[self._rest] - normaliser[:, None]
        return np.asarray(self._weight * np.exp(log_prior))

    def _log_group(self, log_kappa: float, logit: float) -> FloatArray:
        """Return log P(z_g | κ, μ) for each group, up to a constant."""
        if self._dense is None:
            return np.asarray(np.log(self._distribution(log_kappa, logit).sum(axis=1)))
        first, second, normaliser = self._rising(log_kappa, logit)
        return np.asarray(np.log(self._dense @ np.exp(first + second[::-1] - normaliser[0])))

    @cached_property
    def _nodes(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Quadrature nodes (log κ, logit μ), their weights, and log P(z_g | node), shape (groups, nodes)."""
        likely = (self._weight * self._x).sum(axis=1) / self._weight.sum(axis=1)
        mode = float(logit((likely.sum() + 1) / (self.sizes.sum() + 2)))
        log_group = cache(self._log_group)

        def at(log_kappa: float, logit_mu: float) -> float:
            # Density by (log κ, logit μ): 1/(1 + κ) and μ uniform, both logistic.
            prior = -sum(abs(v) + 2 * math.log1p(math.exp(-abs(v))) for v in (log_kappa, logit_mu))
            return prior + float(log_group(log_kappa, logit_mu).sum())

        @cache
        def along(log_kappa: float) -> tuple[list[tuple[float, float]], float]:
            nonlocal mode
            nodes_and_log = integrate(
                partial(at, log_kappa), -40.0, 40.0, start=mode, scale=0.3, negligible=9.0
            )
            mode = max(nodes_and_log[0], key=lambda node: node[1])[0]
            return nodes_and_log

        outer, _ = integrate(
            lambda v: along(v)[1], -12.0, 25.0, math.log(20.0), 1.0, negligible=9.0, spacing=0.5
        )
        nodes = {(x, y): w * v for x, w in outer for y, v in along(x)[0]}
        least = 1e-5 * max(nodes.values())
        relevant = {node: weight for node, weight in nodes.items() if weight > least}
        weight = np.array(list(relevant.values()))
        return (
            np.array(list(relevant)),
            weight / weight.sum(),
            np.stack([log_group(*n) for n in relevant], axis=1),
        )

    @cached_property
    def _grid(self) -> tuple[FloatArray, FloatArray]:
        """A grid of logit θ for each group, and the quadrature weight of each point.

        The grid u = m + s·sinh t is dense around the posterior mean m. s is the smallest of the posterior
        standard deviations at low, middle and high κ; the grid extends to ten times the largest.
        """
        nodes, weight, _ = self._nodes
        order = np.argsort(nodes[:, 0])
        means, deviations = [], []
        for node in nodes[order[np.searchsorted(np.cumsum(weight[order]), [0.05, 0.5, 0.95])]]:
            a, b = _parameters(*node)
            distribution = self._distribution(*node)
            distribution /= distribution.sum(axis=1, keepdims=True)
            centre = digamma(a + self._x) - digamma(b + self._rest)
            spread = polygamma(1, a + self._x) + polygamma(1, b + self._rest)
            means.append((distribution * centre).sum(axis=1))
            square = (distribution * (spread + (centre - means[-1][:, None]) ** 2)).sum(axis=1)
            deviations.append(np.sqrt(square))
        mean, least = np.mean(means, axis=0)[:, None], np.min(deviations, axis=0)[:, None]
        hyper = math.sqrt(float(weight @ (nodes[:, 1] - weight @ nodes[:, 1]) ** 2))
        reach = 10 * (np.max(deviations, axis=0) + hyper + np.ptp(means, axis=0))[:, None]
        steep = np.arcsinh(reach / least) * np.linspace(-1, 1, 145)
        return mean + least * np.sinh(steep), least * steep[:, -1:] * np.cosh(steep)

    @cached_property
    def _density(self) -> tuple[FloatArray, FloatArray]:
        """The grid of logit θ for each group, and the posterior probability of each point.

        P(θ | z) ∝ P(z_g | θ) Σ_m [W_m / P(z_g | m)]·Beta(θ; κ_m μ_m): this group's likelihood times the
        information from the others.
        """
        nodes, weight, log_p = self._nodes
        a, b = _parameters(*nodes.T)
        log_others = np.log(weight) - log_p + gammaln(a + b) - gammaln(a) - gammaln(b)
        u, width = self._grid
        log_theta, log_rest = -np.logaddexp(0, -u), -np.logaddexp(0, u)
        density = np.empty_like(u)
        with np.errstate(divide="ignore"):
            log_group_weight = np.log(self._weight) - gammaln(self._x + 1) - gammaln(self._rest + 1)
        step = max(1, (1 << 21) // (u.shape[1] * (self._weight.shape[1] + len(nodes))))
        for start in range(0, len(u), step):
            rows = (slice(start, start + step), None)  # for the points of the grid
            t, r = log_theta[rows[0], :, None], log_rest[rows[0], :, None]
            here = log_group_weight[rows] + t * self._x[rows] + r * self._rest[rows]
            density[rows[0]] = log_normalisers(here) + log_normalisers(log_others[rows] + t * a + r * b)
        density = width * np.exp(density - density.max(axis=1, keepdims=True))
        return u, density / density.sum(axis=1, keepdims=True)

    def shares(self) -> tuple[FloatArray, FloatArray]:
        u, density = self._density
        mean = (density * expit(u)).sum(axis=1)
        deviation = np.sqrt((density * (expit(u) - mean[:, None]) ** 2).sum(axis=1))
        return np.stack([mean, 1 - mean], axis=1), np.stack([deviation, deviation], axis=1)

    def ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        ends, (u, density) = tails(level), self._density
        cdf = np.cumsum(density, axis=1) - density / 2
        low, high = np.array(
            [np.interp(ends, reached, grid_row) for reached, grid_row in zip(cdf, u, strict=True)]
        ).T
        first, last = expit(low), expit(high)
        return np.stack([first, 1 - last], axis=1), np.stack([last, 1 - first], axis=1)

    @property
    def concentration(self) -> tuple[float, float, float]:
        nodes, weight, _ = self._nodes
        order = np.argsort(nodes[:, 0])
        cdf = np.cumsum(weight[order])
        at = np.exp(np.interp([0.5, 0.05, 0.95], cdf - weight[order] / 2, nodes[order, 0]))
        return float(at[0]), float(at[1]), float(at[2])

    def sample(self, size: int = 1000, seed: int | None = None) -> FloatArray:
        rng, number = np.random.default_rng(seed), as_draws(size, 2 * len(self.sizes))
        nodes, weight, _ = self._nodes
        draws: list[FloatArray] = []
        for node, times in zip(nodes, rng.multinomial(number, weight), strict=True):
            (a, b), distribution = _parameters(*node), self._distribution(*node)
            for _ in range(times):
                x = self._x[np.arange(len(distribution)), _chosen(distribution, rng)]
                draws.append(rng.beta(a + x, b + self.sizes - x))
        first = rng.permutation(np.reshape(draws, (number, len(self.sizes))))
        return np.stack([first, 1 - first], axis=2)


def _parameters(log_kappa: Any, logit_mu: Any) -> tuple[Any, Any]:
    """Return the Beta parameters κμ and κ(1 − μ)."""
    return np.exp(log_kappa) * expit(logit_mu), np.exp(log_kappa) * expit(-logit_mu)


def _first_level(groups: Groups) -> tuple[IntArray, FloatArray]:
    """Return P(z_g | x) as a function of the first level's count x, for two levels and public sizes.

    Returns the first possible x of each group, and an array of shape (groups, number of counts).
    """
    assert groups.sizes is not None
    n, width = groups.sizes[:, None], groups.log_weight.shape[2]
    x = groups.low[:, :1] + np.arange(width)
    j = n - x - groups.low[:, 1:]
    inside = (j >= 0) & (j < width)
    second = np.take_along_axis(groups.log_weight[:, 1], np.where(inside, j, 0), axis=1)
    value = groups.log_weight[:, 0] + np.where(inside, second, -np.inf)
    meet = np.isfinite(value).any(axis=1, keepdims=True)  # where not, what one says rules
    value = np.where(x <= n, np.where(meet, value, groups.log_weight[:, 0]), -np.inf)
    # Both levels' noise together is narrower than that of one.
    first, weight = trim(np.exp(value - value.max(axis=1, keepdims=True)), math.exp(-_WINDOW_NATS))
    return groups.low[:, 0] + first, weight


class PooledDraws(Pooled):
    """The posterior for more than two levels, or private sizes, by a Gibbs sampler over all groups at
    once."""

    def __init__(self, groups: Groups, labels: Labels, seed: int, sweeps: int) -> None:
        super().__init__(labels)
        self._groups, self._seed, self._sweeps = groups, seed, sweeps

    @cached_property
    def _chain(self) -> tuple[FloatArray, FloatArray]:
        """Draws of the shares, shape (draws, groups, levels), and of log κμ, shape (draws, levels)."""
        groups, levels = self._groups.shape
        saved = min(self._sweeps, max(200, (1 << 25) // (groups * levels)))
        rng = np.random.default_rng(self._seed)
        shares, alphas = np.empty((saved, groups, levels)), np.empty((saved, levels))
        thinning = max(1, self._sweeps // saved)
        state = _State(self._groups, rng)
        for _ in range(self._sweeps // 3):
            state.sweep(adapt=True)
        for i in range(saved):
            for _ in range(thinning):
                state.sweep(adapt=False)
            alpha = np.exp(state.log_alpha)
            draws = rng.standard_gamma(alpha + state.x)
            total = draws.sum(axis=1, keepdims=True)
            shares[i] = np.where(total > 0, draws / np.where(total > 0, total, 1), 1 / levels)
            alphas[i] = state.log_alpha
        return shares, alphas

    def shares(self) -> tuple[FloatArray, FloatArray]:
        drawn = self._chain[0]
        return drawn.mean(axis=0), drawn.std(axis=0)

    def ends(self, level: float) -> tuple[FloatArray, FloatArray]:
        low, high = np.quantile(self._chain[0], tails(level), axis=0)
        return low, high

    def sample(self, size: int = 1000, seed: int | None = None) -> FloatArray:
        number = as_draws(size, self._chain[0][0].size)
        chosen = np.random.default_rng(seed).integers(len(self._chain[0]), size=number)
        return self._chain[0][chosen]

    @property
    def concentration(self) -> tuple[float, float, float]:
        kappa = np.exp(self._chain[1]).sum(axis=1)
        median, low, high = np.quantile(kappa, [0.5, 0.05, 0.95])
        return float(median), float(low), float(high)

    @property
    def error(self) -> float:
        """The standard error from 20 batch means of the chain."""
        shares = self._chain[0]
        length = len(shares) // 20
        batches = shares[: 20 * length].reshape(20, length, *shares.shape[1:]).mean(axis=1)
        return float((batches.std(axis=0, ddof=1) / math.sqrt(20)).max())


class _State:
    """The state of the sampler: true counts x, shape (groups, levels), and log α = log κμ."""

    def __init__(self, groups: Groups, rng: np.random.Generator) -> None:
        self.groups, self.rng = groups, rng
        self.number, self.levels = groups.shape
        self.width = groups.log_weight.shape[2]
        self.x = self._start()
        share = (self.x.sum(axis=0) + 1) / (self.x.sum() + self.levels)
        self.log_alpha = np.log(20.0 * share)
        most = groups.low + self.width if groups.sizes is None else groups.sizes
        self.scale, self.longest = 2.4 / math.sqrt(self.levels), int(most.max(initial=0)) + 1
        self.row = np.arange(self.number)

    def _start(self) -> IntArray:
        low, best = self.groups.low, self.groups.low + self.groups.log_weight.argmax(axis=2)
        top = low + np.isfinite(self.groups.log_weight).sum(axis=2) - 1
        sizes = self.groups.sizes
        if sizes is None:
            if self.groups.total is None:
                return np.asarray(best)
            low, best, top = (array.reshape(1, -1) for array in (low, best, top))
            sizes = np.array([self.groups.total])
        # Move records one level at a time, within the windows, until every group has its size.
        gap = sizes - best.sum(axis=1)
        for i in range(best.shape[1]):
            moved = np.clip(best[:, i] + gap, low[:, i], np.minimum(top[:, i], sizes))
            gap -= moved - best[:, i]
            best[:, i] = moved
        if np.any(gap != 0):
            raise InvalidInputError(
                "some noisy counts are too far from any counts that a group of this size can have"
            )
        return np.asarray(best.reshape(self.number, self.levels))

    def sweep(self, adapt: bool) -> None:
        """Update all counts once, then (κ, μ); with ``adapt`` also the scale of the Metropolis proposals."""
        alpha = np.exp(self.log_alpha)
        tables = np.stack([_log_rising(a, self.longest) for a in alpha])
        order = self.rng.permutation(self.levels)
        if self.groups.sizes is None:
            size = _log_rising(float(alpha.sum()), self.longest * self.levels)
        if self.groups.sizes is None and self.groups.total is None:
            for i in order:
                self._update_cell(int(i), tables[i], size)
        else:
            for i, j in zip(order[::2], order[1::2], strict=False):
                self._update_pair((self.row, int(i)), (self.row, int(j)), tables)
            if self.levels % 2:
                self._update_pair((self.row, int(order[-1])), (self.row, int(order[0])), tables)
        if self.groups.total is not None:  # records move between pairs of groups, level by level
            for i in order:
                half = self.number // 2
                mixed = self.rng.permutation(self.number)
                self._update_pair((mixed[:half], int(i)), (mixed[half : 2 * half], int(i)), tables, size)
        self._update_alpha(adapt)

    def _choose(self, log_mass: FloatArray) -> IntArray:
        return _chosen(np.exp(log_mass - log_mass.max(axis=1, keepdims=True)), self.rng)

    def _update_pair(self, one: Any, other: Any, tables: FloatArray, size: FloatArray | None = None) -> None:
        """Draw pairs of counts, each a cell (groups, level), given the sum of each pair.

        If the two cells are in different groups, ``size`` is the table of Γ(κ + n)/(Γ(κ) n!), in logs, by the
        size n of a group.
        """
        (g, i), (h, j) = one, other
        mine, theirs = self.x[g, i], self.x[h, j]
        both, low_i, low_j = mine + theirs, self.groups.low[g, i], self.groups.low[h, j]
        first = np.maximum(low_i, both - low_j - self.width + 1)
        ends = np.minimum(low_i + self.width - 1, both - low_j) - first
        x = first[:, None] + np.arange(int(ends.max(initial=0)) + 1)
        y = both[:, None] - x
        f = self._pad[i].take(self._base[g] + np.minimum(x - low_i[:, None], self.width))
        f += self._pad[j].take(self._base[h] + np.maximum(y - low_j[:, None], -1))
        f += tables[i].take(x, mode="clip")
        f += tables[j].take(y, mode="clip")
        if size is not None:
            sizes = self.x.sum(axis=1)
            f -= size.take((sizes[g] - mine)[:, None] + x, mode="clip")
            f -= size.take((sizes[h] - theirs)[:, None] + y, mode="clip")
        chosen = first + self._choose(f)
        self.x[g, i], self.x[h, j] = chosen, both - chosen

    @cached_property
    def _pad(self) -> FloatArray:
        """log P(z | x) of each level in one axis, with −∞ before and after the counts of each group."""
        weight = np.moveaxis(self.groups.log_weight, 1, 0)
        return np.pad(weight, ((0, 0), (0, 0), (1, 1)), constant_values=-np.inf).reshape(self.levels, -1)

    @cached_property
    def _base(self) -> IntArray:
        return np.asarray((np.arange(self.number) * (self.width + 2) + 1)[:, None])

    def _update_cell(self, i: int, table: FloatArray, total: FloatArray) -> None:
        """Draw the counts of level i given the other counts; the sizes of the groups have a flat prior."""
        x = self.groups.low[:, i][:, None] + np.arange(self.width)
        rest = self.x.sum(axis=1) - self.x[:, i]
        f = self.groups.log_weight[:, i, :] + table[np.minimum(x, self.longest)] - total[rest[:, None] + x]
        self.x[:, i] = x[self.row, self._choose(f)]

    def _update_alpha(self, adapt: bool) -> None:
        """Update log α by Metropolis–Hastings steps, with normal proposals from the local curvature."""
        counts = [np.unique(self.x[:, i], return_counts=True) for i in range(self.levels)]
        sizes = np.unique(self.x.sum(axis=1), return_counts=True)
        here = self._local(self.log_alpha, counts, sizes)
        for _ in range(_METROPOLIS_STEPS):
            step = self.scale * here[1] @ self.rng.standard_normal(self.levels)
            there = self._local(self.log_alpha + step, counts, sizes)
            log_ratio = there[0] - here[0]
            log_ratio += _log_normal(step, self.scale * there[1]) - _log_normal(step, self.scale * here[1])
            if math.log(self.rng.random()) < log_ratio:
                self.log_alpha, here = self.log_alpha + step, there
            if adapt:
                self.scale *= math.exp(0.05 * (math.exp(min(0.0, log_ratio)) - 0.3))

    def _local(self, log_alpha: FloatArray, counts: list[Any], sizes: Any) -> tuple[float, FloatArray]:
        """Return log p(α | x), and a square root of its inverse negative Hessian, made positive definite."""
        alpha = np.exp(log_alpha)
        kappa = float(alpha.sum())
        # Uniform μ, uniform 1/(1 + κ); the Jacobian of log α is Π α / κ^{k−1}.
        value = -2 * math.log1p(kappa) + float(log_alpha.sum()) - (self.levels - 1) * math.log(kappa)
        value -= float(sizes[1] @ gammaln(kappa + sizes[0]) - self.number * gammaln(kappa))
        joint = self.number * _trigamma(kappa) - float(sizes[1] @ _trigamma(kappa + sizes[0]))
        diagonal = np.empty(self.levels)
        for i, (a, (x, times)) in enumerate(zip(alpha, counts, strict=True)):
            value += float(times @ gammaln(a + x) - self.number * gammaln(a))
            diagonal[i] = a**2 * max(self.number * _trigamma(a) - float(times @ _trigamma(a + x)), 0.0)
        precision = np.diag(diagonal) - max(joint, 0.0) * np.outer(alpha, alpha)
        size, vector = np.linalg.eigh(precision)
        return value, np.asarray(vector / np.sqrt(np.maximum(size, 0.2)))


def _trigamma(x: Any) -> Any:
    return zeta(2.0, x)


def _log_normal(difference: FloatArray, root: FloatArray) -> float:
    z = np.linalg.solve(root, difference)
    return float(-0.5 * z @ z - np.linalg.slogdet(root)[1])
