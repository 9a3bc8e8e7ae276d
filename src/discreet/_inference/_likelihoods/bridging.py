"""The functions that the bridges to other libraries call: log P(z) and its gradient, as plain arrays.

Cells are independent (any shape, one number for each cell) or share a public total (cells on the last axis).
Where the values are known beforehand, cells are looked up in tables; otherwise exact sums are computed.

A sampler asks for the same cells at many parameters. For each cell, log P(z | λ) and its derivative in λ are
smooth functions of one number: v = 2√λ for Poisson rates, and v = 2√n·arcsin√p for binomial probabilities. On
this scale they vary at the same speed everywhere. They are interpolated once at Chebyshev nodes, on panels
halved until the last coefficients are negligible (below 1e-11). A look-up then costs about sixteen
multiplications for each cell, whatever the noise.

A public total (MATH §10): with the cells tilted by e^{sx} so that their means sum to n,

    log P(z | θ) = Σ log P(zᵢ | nθᵢeˢ) + n(eˢ − 1 − s) + log P_s(S = n) − log Poisson(n; n),

and P_s(S = n) = (2πK₂)^{−½}(1 + c₁ + c₂ + c₃ + …) from the cumulants of the tilted cells, which are tabled
too. The truncation error is about 8·max(c₂², |c₃|^{4/3}). Where that is above 1e-8, and for fewer than 32
cells, the distribution of the sum is computed exactly by a Fourier transform instead
(:mod:`~discreet._inference._likelihoods.transform`).

Functions take the array module ``xp``, NumPy's or JAX's.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

from discreet._inference._likelihoods.kinds import Likelihood, NoisyCells
from discreet._inference._likelihoods.models import Multinomial
from discreet._inference._likelihoods.transform import Transform, until
from discreet._numerics.cells import Cells
from discreet._numerics.counts import BinomialDistribution, CountDistribution, PoissonDistribution
from discreet._numerics.log_gamma import log_factorial_excess
from discreet._numerics.noises import Noise
from discreet._typing import FloatArray, IntArray
from discreet.errors import InvalidInputError

LARGEST_RATE = 4e9
CUMULANT_ORDERS = 9
"""The number of cumulants in a table for a public total."""
_FEWEST_EXPANDED_CELLS = 32  # with fewer cells their sum is not expanded
_DRAWS_AT_ONCE = 16  # draws whose cells NumPy transforms together
_CHEBYSHEV_DEGREE = 12
_CHEBYSHEV_NODES = np.cos(
    math.pi * np.arange(_CHEBYSHEV_DEGREE + 1) / _CHEBYSHEV_DEGREE
)  # the ends too: nothing hides beside them
_CHEBYSHEV_FIT = np.linalg.inv(
    np.cos(np.outer(np.arccos(_CHEBYSHEV_NODES), np.arange(_CHEBYSHEV_DEGREE + 1)))
)
_RELATIVE_TOLERANCE = 1e-11
_NARROWEST_PANEL = 0.05  # panels narrower than this are not halved: what is left is rounding
LARGEST_EXPANSION_ERROR = 1e-8
"""Largest expected error of the expansion; beyond it the distribution of the sum is transformed."""


def unit(m: Any, order: int) -> Any:
    """Return the scale of a cumulant: m for small counts, m^{order/2} for large ones."""
    return m * (1 + m) ** (order / 2 - 1)


def _expansion(most: int) -> list[tuple[int, float, dict[int, int]]]:
    """Return the terms of the expansion of √(2πK₂)·P(S = n) in the cumulants Kⱼ of S.

    Each term is a tuple (order, coefficient, {j: power of ρⱼ}) with ρⱼ = Kⱼ/K₂^{j/2}.

    The terms come from the average of exp(Σ_{j≥3} ρⱼ(it)^j/j!) over a standard normal t. Orders are counted
    in halves, and ρⱼ has the order j − 2.
    """
    terms = []
    for powers in product(*(range(2 * most // (j - 2) + 1) for j in range(3, 2 * most + 3))):
        used = {j: power for j, power in enumerate(powers, 3) if power}
        halves = sum(power * (j - 2) for j, power in used.items())
        if 0 < halves <= 2 * most and halves % 2 == 0:
            pairs = sum(power * j for j, power in used.items()) // 2
            size = math.prod(math.factorial(j) ** power * math.factorial(power) for j, power in used.items())
            terms.append((halves // 2, (-1) ** pairs * math.prod(range(1, 2 * pairs, 2)) / size, used))
    return terms


_EXPANSION = _expansion(3)


@dataclass(frozen=True, eq=False)
class CellTable:
    """Functions of v for several cells, in columns: log P(z), then cumulants of the true count.

    The cumulant of order j is in units of m(1 + m)^{j/2−1}, where m is the variance of the count before z is
    seen. The one of order 1 is E[x | z] minus the prior mean.
    """

    start: FloatArray
    width: FloatArray
    """Width of the panels of each distinct cell; starts are padded with infinity."""
    coefficients: FloatArray
    """Shape (distinct cells, panels, degree + 1, columns)."""
    row: IntArray
    """The index of each cell among the distinct cells."""
    sizes: FloatArray | None
    """Public sizes of binomial cells; None for Poisson cells."""
    largest: float = LARGEST_RATE
    """Larger rates are replaced by this one."""

    def at(self, xp: Any, parameter: Any, columns: int = 2) -> Any:
        """Return the first ``columns`` functions, interpolated at rates or probabilities.

        ``parameter`` has the shape (…, cells); the functions are on a new last axis.
        """
        if self.sizes is None:
            v = 2 * xp.sqrt(xp.clip(parameter, 0.0, self.largest))
        else:
            v = 2 * np.sqrt(self.sizes) * xp.arcsin(xp.sqrt(xp.clip(parameter, 0.0, 1.0)))
        panel = (v[..., None] >= xp.asarray(self.start[self.row, 1:])).sum(axis=-1)
        index = xp.asarray(self.row * self.start.shape[1]) + panel
        low, width = (xp.asarray(a.ravel()) for a in (self.start, self.width))
        t = (2 * (v - low[index]) / width[index] - 1)[..., None]
        c = xp.asarray(self.coefficients[..., :columns].reshape(-1, _CHEBYSHEV_DEGREE + 1, columns))[index]
        later, last = c[..., -1, :], xp.zeros_like(c[..., -1, :])
        for j in range(_CHEBYSHEV_DEGREE - 1, 0, -1):  # Clenshaw
            later, last = c[..., j, :] + 2 * t * later - last, later
        return c[..., 0, :] + t * later - last

    def log_prob(self, xp: Any, parameter: Any) -> tuple[Any, Any]:
        """Return log P(z) of each cell, and its derivative with respect to the rate or the probability."""
        values = self.at(xp, parameter)
        if self.sizes is None:
            return values[..., 0], values[..., 1] / xp.sqrt(1 + parameter)
        spread = self.sizes * parameter * (1 - parameter)
        return values[..., 0], self.sizes * values[..., 1] / xp.sqrt(1 + spread)


def given_total(
    xp: Any, cells: CellTable, total: int, shares: Any, loop: Any = until
) -> tuple[Any, Any, Any]:
    """Return log P(z), E[x | z] and the expected error of both, for cells with a public total of 1 or more.

    ``shares`` sum to 1 over the last axis; ``cells`` has the cumulants up to :data:`CUMULANT_ORDERS`. The
    caller adds the constant for noise that sums to zero.
    """
    rates = total * shares

    def moments(s: Any, orders: int) -> tuple[Any, list[Any]]:
        m = rates * xp.exp(s)[..., None]
        columns = cells.at(xp, m, orders + 1)
        scaled = [columns[..., j] * unit(m, j) for j in range(1, orders + 1)]
        return columns[..., 0], [m + scaled[0], *scaled[1:]]

    def step(state: Any) -> Any:
        s, _, left = state
        first, second = (k.sum(axis=-1) for k in moments(s, 2)[1])
        move = xp.clip((xp.log(float(total)) - xp.log(first)) * first / second, -2.0, 2.0)
        return s + move, xp.abs(first - total) / xp.sqrt(second), left - 1

    def going(state: Any) -> Any:
        return (xp.max(state[1]) > 1e-5) & (state[2] > 0)  # quadratic: one step more is past rounding

    start = xp.zeros(rates.shape[:-1])
    s, _, _ = loop(going, step, (start, start + 1.0, 100))
    values, cumulants = moments(s, CUMULANT_ORDERS)
    sums = [k.sum(axis=-1) for k in cumulants]
    second = sums[1]
    ratio = {j: sums[j - 1] / second ** (j / 2) for j in range(3, CUMULANT_ORDERS)}
    parts, by = [0.0, 0.0, 0.0, 0.0], dict.fromkeys(ratio, 0.0)
    for order, coefficient, powers in _EXPANSION:
        parts[order] = parts[order] + coefficient * _product(ratio, powers)
        for j, power in powers.items():
            others = {**powers, j: power - 1}
            by[j] = by[j] + coefficient * power * _product(ratio, others)
    whole = 1 + parts[1] + parts[2] + parts[3]
    excess = float(log_factorial_excess(np.array([float(total)]))[0])
    log_prob = values.sum(axis=-1) + total * (xp.expm1(s) - s) + excess
    log_prob = log_prob - 0.5 * xp.log(2 * math.pi * second) + xp.log(whole)
    # E[x] is the derivative in log rates: the cell's own mean, then how P(S = n) moves with K₂, K₃, …
    by_second = -0.5 * (1 + sum(j * ratio[j] * by[j] for j in ratio) / whole) / second
    means = cumulants[0]
    for j in range(2, CUMULANT_ORDERS):
        slope = by_second if j == 2 else by[j] / whole / second ** (j / 2)
        means = means + slope[..., None] * (cumulants[j] - (sums[j] / second)[..., None] * cumulants[1])
    return log_prob, means, 8 * xp.maximum(xp.abs(parts[2]) ** 2, xp.abs(parts[3]) ** (4 / 3))


def _product(ratio: dict[int, Any], powers: dict[int, int]) -> Any:
    value = 1.0
    for j, power in powers.items():
        value = value * ratio[j] ** power
    return value


def table(
    noise: Noise, z: FloatArray, sizes: FloatArray | None = None, total: int | None = None
) -> CellTable:
    """Return the table of the cells whose values are z; it is cached for the same cells and noise.

    With a total it has the cumulants for :func:`given_total`, at rates up to sixty times the total.
    """
    values = np.ascontiguousarray(z, dtype=np.float64)
    size_bytes = None if sizes is None else np.broadcast_to(sizes, values.shape).tobytes()
    return _make(pickle.dumps(noise), values.tobytes(), size_bytes, total)


@lru_cache(maxsize=32)
def _make(noise: bytes, values: bytes, sizes: bytes | None, total: int | None) -> CellTable:
    distribution: Noise = pickle.loads(noise)
    z = np.frombuffer(values)
    public_sizes = None if sizes is None else np.frombuffer(sizes)
    scales = distribution.scales(len(z))
    columns = [z, scales] if public_sizes is None else [z, scales, public_sizes]
    # NaN scales mark cells without a published value; np.unique would treat them as different.
    keys = np.where(np.isnan(np.stack(columns, axis=1)), -1.0, np.stack(columns, axis=1))
    _, first, row = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    size = (
        None if public_sizes is None else np.maximum(public_sizes[first], 1e-3)
    )  # a size of 0 is never used
    orders, largest = (1, LARGEST_RATE) if total is None else (CUMULANT_ORDERS, 60.0 * total)
    top = np.full(len(first), 2 * math.sqrt(largest)) if size is None else math.pi * np.sqrt(size)

    def values_at(which: IntArray, v: FloatArray) -> FloatArray:
        cell, v = first[which], np.maximum(v, 1e-7)
        if size is None:
            spread = (v / 2) ** 2
            counts: CountDistribution = PoissonDistribution(spread)
            near = np.rint(spread)
            rest = spread - near
        else:
            n = size[which]
            half = np.minimum(v, top[which] - 1e-7) / (2 * np.sqrt(n))
            p, other = np.sin(half) ** 2, np.cos(half) ** 2
            counts, spread = BinomialDistribution(n, p, other), n * p * other
            few = n * np.minimum(p, other)
            near = np.where(p < 0.5, np.rint(few), n - np.rint(few))
            rest = np.where(p < 0.5, 1, -1) * (few - np.rint(few))
        log_prob, cumulants = Cells(counts, distribution, z[cell], scales[cell]).cumulants(orders, near, rest)
        return np.stack([log_prob, *(k / unit(spread, j) for j, k in enumerate(cumulants, 1))], axis=1)

    return CellTable(*interpolate(values_at, top), row.ravel(), public_sizes, largest)


def interpolate(
    function: Callable[[IntArray, FloatArray], FloatArray], top: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return panels and Chebyshev coefficients of functions on [0, top], one for each column."""
    octaves = np.append(0.0, np.exp2(np.arange(1, 1 + max(1, math.ceil(math.log2(top.max()))))))
    which = np.repeat(np.arange(len(top)), len(octaves) - 1)
    low, high = (np.minimum(np.tile(part, len(top)), top[which]) for part in (octaves[:-1], octaves[1:]))
    which, low, high = which[low < high], low[low < high], high[low < high]
    done: list[tuple[IntArray, FloatArray, FloatArray, FloatArray]] = []
    while len(which):
        v = low[:, None] + (high - low)[:, None] * (1 + _CHEBYSHEV_NODES) / 2
        values = function(np.repeat(which, _CHEBYSHEV_DEGREE + 1), v.ravel()).reshape(
            len(which), _CHEBYSHEV_DEGREE + 1, -1
        )
        fit = np.einsum("ij,pjc->pic", _CHEBYSHEV_FIT, values)
        error = np.abs(fit[:, -2:]).max(axis=1)
        limit = 1 + np.abs(values).min(axis=1)
        limit[:, 2:3] *= 1e2
        limit[:, 3:] *= 1e5  # these only correct
        least = _NARROWEST_PANEL * np.minimum(
            np.minimum(high, top[which] - low), 1.0
        )  # ends may be logarithms
        fine = (error <= _RELATIVE_TOLERANCE * limit).all(axis=1) | (high - low < least)
        done.append((which[fine], low[fine], high[fine], fit[fine]))
        middle = (low + high)[~fine] / 2
        low, high = np.append(low[~fine], middle), np.append(middle, high[~fine])
        which = np.tile(which[~fine], 2)
    cell, start, end, fitted = (np.concatenate(part) for part in zip(*done, strict=True))
    order = np.lexsort((start, cell))
    cell, start, end, fitted = cell[order], start[order], end[order], fitted[order]
    number = np.bincount(cell, minlength=len(top))
    place = np.arange(len(cell)) - (np.cumsum(number) - number)[cell]
    shape = (len(top), number.max())
    starts, widths = np.full(shape, np.inf), np.ones(shape)
    coefficients = np.zeros((*shape, *fitted.shape[1:]))
    starts[cell, place], widths[cell, place], coefficients[cell, place] = start, end - start, fitted
    return starts, widths, coefficients


def plain(likelihood: Likelihood) -> bool:
    """Return whether a likelihood is that of noisy counts under a multinomial or a Poisson model."""
    return isinstance(likelihood, NoisyCells) and likelihood.model.name in ("multinomial", "Poisson")


def independent(noise: Noise) -> Noise:
    """Return the noise if its cells are independent, otherwise None."""
    if noise.together:
        raise InvalidInputError(
            f"{noise.name} noise sums to zero over its cells, so its cells are not independent; "
            "use NoisyMultinomial with the public total"
        )
    return noise


def looked_up(xp: Any, noise: Noise, z: Any, parameter: Any, size: Any = None) -> tuple[Any, Any]:
    """Return log P(z) of each cell and its derivative with respect to ``parameter``.

    That is a probability if ``size``, the number of trials, is given, and a rate otherwise.
    """
    values, sizes = np.asarray(z, dtype=np.float64), None if size is None else np.asarray(size, dtype=float)
    cells = np.broadcast_shapes(values.shape, noise.scale.shape, () if sizes is None else sizes.shape)
    shape = np.broadcast_shapes(np.shape(parameter), cells)
    while noise.scale.ndim < len(cells) and cells[0] == 1:  # an axis of draws: cells are the same along it
        cells = cells[1:]
    cells = shape[len(shape) - len(cells) :]
    flat = (*shape[: len(shape) - len(cells)], math.prod(cells))

    def row(array: FloatArray) -> FloatArray:
        return np.broadcast_to(array.reshape(array.shape[max(array.ndim - len(cells), 0) :]), cells).ravel()

    values, sizes = row(values), None if sizes is None else row(sizes)
    value_and_slope = table(noise.over(cells), values, sizes).log_prob(
        xp, xp.broadcast_to(parameter, shape).reshape(flat)
    )
    return value_and_slope[0].reshape(shape), value_and_slope[1].reshape(shape)


def sum_log_prob(noise: Noise, z: Any, parameter: Any, size: Any = None) -> tuple[FloatArray, FloatArray]:
    """Return what :func:`looked_up` does, by summing over the true counts."""
    arrays = [
        np.asarray(a, dtype=np.float64) for a in (z, parameter, noise.scale, 0 if size is None else size)
    ]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    values, p, scales, n = (np.array(np.broadcast_to(a, shape)).ravel() for a in arrays)
    distribution = PoissonDistribution(p) if size is None else BinomialDistribution(n, p, 1 - p)
    mean, spread = (p, p) if size is None else (n * p, p * (1 - p))
    log_prob, (excess,) = Cells(distribution, noise, values, scales).cumulants(1, np.zeros_like(p), mean)
    return log_prob.reshape(shape), (excess / np.maximum(spread, 1e-300)).reshape(shape)


def totals(
    xp: Any, noise: Noise, z: FloatArray, shares: Any, total: int, loop: Any, exact: Any
) -> tuple[Any, Any]:
    """Return log P(z) of one row of values with a public total, and E[x | z].

    ``exact`` computes both where the windows do not fit in memory.
    """
    direct = _transform(pickle.dumps(noise), z.tobytes(), total)

    def _by_transform() -> tuple[Any, Any]:
        return direct.both(xp, shares, loop) if direct.fits else exact(z, shares)

    if len(z) < _FEWEST_EXPANDED_CELLS or total == 0:
        return _by_transform()
    value, means, error = given_total(xp, table(noise, z, total=total), total, shares, loop)

    def again(_: Any) -> Any:
        value, means = _by_transform()
        return value, means, xp.zeros(error.shape)

    # A loop of at most one pass: mapped over draws it costs nothing where all expansions are accurate.
    start = value - noise.log_normaliser(len(z)), means, error
    value, means, _ = loop(lambda state: xp.any(~(state[2] <= LARGEST_EXPANSION_ERROR)), again, start)
    return value, means


@lru_cache(maxsize=32)
def _transform(noise: bytes, values: bytes, total: int) -> Transform:
    return Transform(pickle.loads(noise), np.frombuffer(values), total)


def exact_totals(noise: Noise, z: Any, shares: Any, total: int) -> tuple[FloatArray, FloatArray]:
    """Return what :func:`totals` does by exact sums, for rows of values and of shares."""
    return _by_rows(z, shares, partial(_invert, noise, total))


def fast_totals(noise: Noise, z: Any, shares: Any, total: int) -> tuple[FloatArray, FloatArray]:
    """Return what :func:`exact_totals` does, faster: by the expansion or the transform."""

    def _row_totals(row: FloatArray, row_shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        return totals(np, noise, row, row_shares, total, until, partial(_invert, noise, total))

    return _by_rows(z, shares, _row_totals)


def _invert(noise: Noise, total: int, row: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
    likelihood = NoisyCells(row, noise, Multinomial(total))
    return likelihood.log_prob(shares), likelihood.expected_counts(shares)


def _by_rows(z: Any, shares: Any, function: Any) -> tuple[FloatArray, FloatArray]:
    """Call a function once for each distinct row of values, with all shares that go with it."""
    z, shares = np.broadcast_arrays(np.asarray(z, dtype=np.float64), np.asarray(shares, dtype=np.float64))
    values, flat = z.reshape(-1, z.shape[-1]), shares.reshape(-1, z.shape[-1])
    flat = flat / flat.sum(axis=1, keepdims=True)
    distinct, inverse = np.unique(values, axis=0, return_inverse=True)
    value, means = np.empty(len(values)), np.empty(values.shape)
    for i, row in enumerate(distinct):
        rows = np.flatnonzero(inverse.ravel() == i)
        for chunk in np.array_split(rows, math.ceil(len(rows) / _DRAWS_AT_ONCE)):
            value[chunk], means[chunk] = function(row, flat[chunk])
    return value.reshape(z.shape[:-1]), means.reshape(z.shape)
