"""Posteriors of quantiles and of the distribution function of a number, from noisy counts of bins.

The estimand is the quantile inf{x: F(x) ≥ p} of the recorded values. Bins are public intervals. Within a bin
there are no data: the Pólya tree of :mod:`~discreet._inference.polya_tree` continues there under its prior,
around a linear density that is estimated from the neighbouring bins. So a wide bin gives a wide credible
interval. Values that many records share, such as 0 or rounded ages, can be declared as *atoms*: they are
counted separately, and their shares have a tree of their own. If values are recorded as whole numbers,
quantiles are whole numbers too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet._declarations import as_plain
from discreet._inference.add_remove import TOTALS, LogUniform, Matching
from discreet._inference.polya_tree import Message, PolyaTree, Together, slopes_within, step_of, within
from discreet._numerics.noises import Noise
from discreet._text import align_columns
from discreet._typing import FloatArray, IntArray
from discreet.distributions.base import as_draws, tails
from discreet.errors import InvalidInputError, TooLargeError

_HALVINGS_OF_A_BIN = 4  # how often a bin is halved below the counted bins
_NOISE_REACH_NATS = 34.0
MOST_BINS = 1 << 13
"""The largest number of cells in one inference: bins and atoms, times groups."""
MOST_PROBS = 100
"""The largest number of quantiles that can be requested for one group."""
DRAWS = 4000
_BIN = re.compile(r"\[(\S+), (\S+)[\])]")


def check_bins(number: int) -> None:
    """Raise an error if there are too many bins, before anything is charged or computed."""
    if number > MOST_BINS:
        raise TooLargeError(f"at most {MOST_BINS:,} bins are inferred together, not {number:,}")


@dataclass(frozen=True)
class Bins:
    """The public bins: intervals between edges, and single values (atoms).

    Parameters
    ----------
    edges
        Finite and increasing. An interval contains its lower edge; the last one also contains its upper edge.
    atoms
        Values that are counted separately; intervals are split there.
    whole
        Whether values are recorded as whole numbers.
    """

    edges: tuple[float, ...]
    atoms: tuple[float, ...] = ()
    whole: bool = False

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=np.float64)
        if len(edges) < 2 or not np.isfinite(edges).all():
            raise InvalidInputError(
                "must be at least two finite numbers: an open bin does not bound its values",
                "edges",
                self.edges,
            )
        if not (np.diff(edges) > 0).all():
            raise InvalidInputError("must increase, as in (0, 18, 65, 120)", "edges", self.edges)
        if any(not edges[0] <= atom <= edges[-1] for atom in self.atoms) or len(set(self.atoms)) < len(
            self.atoms
        ):
            raise InvalidInputError(
                "must be different values between the first and last edge", "atoms", self.atoms
            )
        if self.whole and any(float(atom) != math.floor(atom) for atom in self.atoms):
            raise InvalidInputError("must be whole numbers, as the values are", "atoms", self.atoms)

    @classmethod
    def over(
        cls,
        bounds: tuple[float, float],
        records: float,
        epsilon: float,
        atoms: tuple[float, ...] = (),
        whole: bool = False,
    ) -> Bins:
        """Return bins of equal width between bounds, in a number that suits n and ε.

        Their number is 2·(nε)^0.4, so that the noise in a sum of bins is smaller than the sampling error.
        """
        number = max(8, round(2 * (records * float(epsilon)) ** 0.4))
        low, high = map(float, bounds)
        if whole and high - low + 1 <= number:
            return cls(tuple(np.arange(low, high + 2).tolist()), atoms, True)
        return cls(tuple(np.linspace(low, high, number + 1).tolist()), atoms, whole)

    @classmethod
    def of_levels(cls, levels: Sequence[Any]) -> tuple[Bins, set[int]]:
        """Read bins from the names of levels; also return the positions of levels that are not bins."""
        matches = [_BIN.fullmatch(str(as_plain(level))) for level in levels]
        ends = [(float(match[1]), float(match[2])) for match in matches if match]
        if not ends:
            raise InvalidInputError(
                "this release has no bins: ask for a distribution with edges=(0, 18, 65, 120)"
            )
        edges = (ends[0][0], *(high for _, high in ends))
        return cls(edges), {i for i, match in enumerate(matches) if match is None}

    @cached_property
    def intervals(self) -> tuple[tuple[float, float], ...]:
        """The interval of each bin; for whole numbers, x is represented by the interval [x, x + 1)."""
        cuts = sorted({*map(float, self.edges), *map(float, self.atoms)})
        if not self.whole:
            return tuple(pairwise(cuts))
        apart, intervals = set(map(float, self.atoms)), []
        for low, high in pairwise(cuts):
            last = high == cuts[-1]
            first = math.ceil(low) + (float(math.ceil(low)) in apart)
            end = math.floor(high) + 1 if last and high not in apart else math.ceil(high)
            if end > first:
                intervals.append((float(first), float(end)))
        return tuple(intervals)

    def __len__(self) -> int:
        return len(self.intervals) + len(self.atoms)

    @cached_property
    def ordered(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The positions of the cells in the order of their values, and their lower and upper ends.

        An atom precedes the bin that starts at it.
        """
        low, high = np.array([*self.intervals, *((atom, atom) for atom in self.atoms)], dtype=np.float64).T
        order = np.lexsort((high - low > 0, low))
        return order, low[order], high[order]

    def places(self, values: npt.ArrayLike) -> IntArray:
        """Return the position of each value's cell: bins first, then atoms; values outside are clipped."""
        x = np.clip(np.asarray(values, dtype=np.float64), self.edges[0], self.edges[-1])
        starts = np.array([low for low, _ in self.intervals])
        places = np.clip(np.searchsorted(starts, x, side="right") - 1, 0, len(starts) - 1)
        for i, atom in enumerate(self.atoms):
            places[x == atom] = len(starts) + i
        return places


def trees_together(
    z: FloatArray,
    groups: Sequence[range],
    noise: Noise,
    n: int | None,
    total_prior: LogUniform | None,
    fades: bool,
) -> Together:
    """Return the posterior of the shares of cells given noisy counts ``z``; each group has its own tree."""
    if noise.together and n is None:
        raise InvalidInputError("noise that sums to zero reveals the number of records: give n=…")
    scales = noise.scales(len(z))
    variance = np.broadcast_to(noise.variance, z.shape)
    unit = step_of(float(np.sqrt(np.max(variance) / 2)))
    reach = noise.reach(scales, _NOISE_REACH_NATS)
    spread = _NOISE_REACH_NATS * math.sqrt(float(np.sum(variance)))
    largest = n if n is not None else float(np.maximum(z, 0).sum()) + spread + 100
    most = math.ceil(largest / unit) if n is None else max(1, round(n / unit))
    messages = []
    for value, scale, far in zip(z, scales, reach, strict=True):
        peak = min(max(float(noise.peak(np.array([value]), scale)[0]), 0.0), largest)
        first = max(0, math.floor((peak - far) / unit))
        last = max(min(most, math.ceil((peak + far) / unit)), first)
        x = np.arange(first, last + 1)
        log = noise.log_prob(np.array(value), unit * x.astype(np.float64), np.array(scale))
        messages.append(Message(first, log - log.max()))
    pairs = [(messages[group.start : group.stop], z[group.start : group.stop]) for group in groups]
    trees = [PolyaTree(cells, near, unit, most, fades) for cells, near in pairs]
    prior = total_prior or Matching(*TOTALS, variance=float(np.sum(variance)))
    log_total = np.zeros(0) if n is not None else _log_number(prior, unit, most)
    return Together(trees, unit, most, n, log_total)


class BinnedDistribution:
    """The posterior of a distribution given noisy counts of bins.

    Parameters
    ----------
    bins
        The bins and atoms.
    counts
        Noisy counts: of the bins in their order, then of the atoms.
    noise
        The distribution of the noise; lattice noise needs ``n``.
    n
        The number of all records, including those in ``apart``, if it is public.
    apart
        Noisy counts of records in no bin, such as those with a missing value. The distribution is that of all
        other records.
    total_prior
        The prior of n, if n is private.
    """

    def __init__(
        self,
        bins: Bins,
        counts: npt.ArrayLike,
        noise: Noise,
        *,
        n: int | None = None,
        apart: Sequence[float] = (),
        total_prior: LogUniform | None = None,
    ) -> None:
        z = np.append(np.asarray(counts, dtype=np.float64), np.asarray(apart, dtype=np.float64))
        if len(z) != len(bins) + len(apart):
            raise InvalidInputError(
                f"counts has {len(z) - len(apart)} entries for {len(bins)} bins and atoms"
            )
        check_bins(len(z))
        self.bins, self.n = bins, n
        ends = np.cumsum([0, len(bins.intervals), len(bins.atoms)]).tolist()
        groups = [range(*pair) for pair in pairwise(ends) if pair[0] < pair[1]]
        groups += [range(i, i + 1) for i in range(len(bins), len(z))]
        self._distribution = trees_together(z, groups, noise, n, total_prior, True)
        self._placed = len(groups) - len(apart)
        self._drawn: dict[tuple[int, int | None], _Draws] = {}

    def _draws(self, size: int, seed: int | None) -> _Draws:
        key = (size, seed)
        if seed is None or key not in self._drawn:
            rng, (order, low, high) = np.random.default_rng(seed), self.bins.ordered
            share, state = self._draw_shares(as_draws(size, len(self.bins)), rng)
            share = share[:, order] / share.sum(axis=1, keepdims=True)
            drawn = _Draws(low, high, share, state[:, order], self.bins.whole)
            if seed is None:
                return drawn
            self._drawn = {key: drawn}  # the last is kept: quantiles and shares of one posterior go together
        return self._drawn[key]

    def _draw_shares(self, size: int, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.int8]]:
        """Draw the shares of the cells, and the index of the smoothness around each."""
        parts = self._distribution.draw(size, rng)[: self._placed]
        share = np.concatenate([group_share[:, None] * cells for group_share, cells, _ in parts], axis=1)
        return share, np.concatenate([states for _, _, states in parts], axis=1)

    def _pair(
        self, values: FloatArray, points: FloatArray, inverse: bool, rng: np.random.Generator
    ) -> FloatArray:
        """Return joint draws of quantiles (``inverse``) or of cumulative shares; these are joint already."""
        return values

    def quantiles(self, probs: npt.ArrayLike) -> Quantiles:
        """Return the posterior of the quantile inf{x: F(x) ≥ p} for each p between 0 and 1."""
        points = np.atleast_1d(np.asarray(probs, dtype=np.float64))
        if not ((points > 0) & (points < 1)).all():
            raise InvalidInputError("must be between 0 and 1, such as 0.25, 0.5, 0.75", "probs", probs)
        return Quantiles(self, points, tuple(f"{100 * p:g} % quantile" for p in points), inverse=True)

    def cdf(self, values: npt.ArrayLike) -> Quantiles:
        """Return the posterior of the share of records at or below each value."""
        points = np.atleast_1d(np.asarray(values, dtype=np.float64))
        return Quantiles(self, points, tuple(f"share up to {x:g}" for x in points), inverse=False)


@dataclass(frozen=True, eq=False, repr=False)
class Quantiles:
    """The joint posterior of several quantiles, or of the distribution function at several values."""

    distribution: BinnedDistribution
    points: FloatArray
    names: tuple[str, ...]
    inverse: bool

    def draws(self, size: int = DRAWS, seed: int | None = 0) -> FloatArray:
        """Return joint posterior draws, shape (size, len(names))."""
        drawn = self.distribution._draws(size, seed)
        rng = np.random.default_rng(None if seed is None else [seed, 1])
        values = drawn.quantiles(self.points, rng) if self.inverse else drawn.below(self.points, rng)
        return self.distribution._pair(values, self.points, self.inverse, rng)

    @cached_property
    def _usual(self) -> FloatArray:
        return self.draws()

    def mean(self) -> FloatArray:
        return np.asarray(self._usual.mean(axis=0))

    def std(self) -> FloatArray:
        return np.asarray(self._usual.std(axis=0))

    def interval(self, level: float = 0.95) -> tuple[FloatArray, FloatArray]:
        """Return equal-tailed intervals; their ends are drawn values, so whole numbers stay whole."""
        low, high = np.quantile(self._usual, tails(level), axis=0, method="inverted_cdf")
        return low, high

    def table(self, interval: float = 0.95) -> list[dict[str, Any]]:
        """Return for each name a mapping with its mean, standard deviation and interval."""
        columns = [column.tolist() for column in (self.mean(), self.std(), *self.interval(interval))]
        keys = ("name", "mean", "sd", "low", "high")
        return [dict(zip(keys, row, strict=True)) for row in zip(self.names, *columns, strict=True)]

    def __repr__(self) -> str:
        lines = [
            (name, f"{mean:.4g}", f"{low:.4g} – {high:.4g}")
            for name, mean, low, high in zip(self.names, self.mean(), *self.interval(), strict=True)
        ]
        return "\n".join(align_columns(("", "mean", "95 % interval, noise-aware"), lines))


@dataclass(frozen=True, eq=False)
class _Draws:
    """Draws of the shares of cells in the order of values, and of the smoothness around each cell."""

    low: FloatArray
    high: FloatArray
    share: FloatArray
    state: npt.NDArray[np.int8]
    whole: bool

    @cached_property
    def cumulative(self) -> FloatArray:
        below = np.cumsum(self.share, axis=1)
        below[:, -1] = 1.0
        return below

    @cached_property
    def slopes(self) -> FloatArray:
        """The relative slope of the density within each bin, in each draw; 0 for atoms."""
        bins = np.flatnonzero(self.high > self.low)
        slopes = np.zeros(self.share.shape)
        slopes[:, bins] = slopes_within(self.share[:, bins], (self.high - self.low)[bins])
        return slopes

    def _parts(self, cells: IntArray, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
        """Draw how the records of cells are distributed within them; ``cells`` has shape (draws, cells).

        Returns rows of cumulative shares, and the row of each cell; a repeated cell has the same row.
        """
        rows = np.repeat(np.arange(len(cells))[:, None], cells.shape[1], axis=1)
        asked, inverse = np.unique(rows * len(self.low) + cells, return_inverse=True)
        parts = within(self.state.ravel()[asked], self.slopes.ravel()[asked], _HALVINGS_OF_A_BIN, rng)
        below = np.cumsum(parts, axis=1)
        below[:, -1] = 1.0
        return np.pad(below, ((0, 0), (1, 0))), np.asarray(inverse).reshape(cells.shape)

    def quantiles(self, probs: FloatArray, rng: np.random.Generator) -> FloatArray:
        cells = np.stack([(self.cumulative < p).sum(axis=1) for p in probs], axis=1)
        rows = np.arange(len(cells))[:, None]
        share = self.share[rows, cells]
        left = (probs - (self.cumulative[rows, cells] - share)) / np.maximum(share, 1e-300)
        left = np.clip(left, 0.0, 1.0)
        parts, which = self._parts(cells, rng)
        below = parts[which]
        part = np.clip((below < left[..., None]).sum(axis=-1) - 1, 0, parts.shape[1] - 2)[..., None]
        start, end = (np.take_along_axis(below, part + i, axis=-1)[..., 0] for i in (0, 1))
        along = part[..., 0] + np.clip((left - start) / np.maximum(end - start, 1e-300), 0.0, 1.0)
        low, high = self.low[cells], self.high[cells]
        values = low + (high - low) * along / (parts.shape[1] - 1)
        if self.whole:
            values = np.where(high > low, np.clip(np.floor(values), low, np.maximum(high - 1, low)), low)
        return np.asarray(values)

    def below(self, values: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Return draws of the share at or below each value, shape (draws, values)."""
        at = np.floor(values) + 1 if self.whole else values
        atom = self.high == self.low
        before = np.where(atom, self.low <= values[:, None], self.high <= at[:, None])
        inside = (~atom) & (self.low < at[:, None]) & (at[:, None] < self.high)
        share_below = self.share @ before.T.astype(np.float64)
        for i in np.flatnonzero(inside.any(axis=1)):
            cell = int(np.flatnonzero(inside[i])[0])
            along = (at[i] - self.low[cell]) / (self.high[cell] - self.low[cell]) * 2**_HALVINGS_OF_A_BIN
            parts, which = self._parts(np.full((len(share_below), 1), cell), rng)
            below = parts[which[:, 0]]
            part = min(int(along), 2**_HALVINGS_OF_A_BIN - 1)
            inner = below[:, part] + (along - part) * (below[:, part + 1] - below[:, part])
            share_below[:, i] += self.share[:, cell] * inner
        return np.asarray(np.minimum(share_below, 1.0))


def _log_number(prior: LogUniform, unit: int, most: int) -> FloatArray:
    """Return log P(n), up to a constant, for n = 0, unit, 2·unit, …, most·unit."""
    n = np.maximum(unit * np.arange(most + 1.0), 0.5)
    log = np.asarray([prior.log_density(at) for at in np.log(n)]) - np.log(n)
    # Beyond the declared range it falls off instead of ending: a total that cannot be is still drawn.
    return np.asarray(log - 50 * ((n < prior.low - 0.5) | (n > prior.high)))
