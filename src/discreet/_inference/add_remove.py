"""Shares and total from counts with independent noise, where the number of records is private.

Rates λᵢ ~ Gamma(αᵢ, b) are equivalent to shares θ ~ Dir(α) and, independently, a total Λ ~ Gamma(Σα, b). The
true counts are xᵢ ~ Poisson(λᵢ), the noisy ones zᵢ = xᵢ + noise. Given b the levels are independent:

    π(xᵢ | zᵢ, b) ∝ Γ(αᵢ + x)/x! · (1 + b)^{−x} · P(noise = zᵢ − x),   θ | x ~ Dir(α + x).

A fixed b would determine n to within a relative error of 1/√Σα. Instead, the expected number of records Σα/b
has a log-uniform prior on a declared range, or by default the prior :class:`Matching`, and is integrated out
by quadrature. The posterior of one level's share also needs the distribution of the sum of all other counts.
This sum is replaced by a discrete variable with the same first moments, from a Gauss rule; the moments are
exact, because cumulants of independent counts add.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from discreet._numerics.cells import Cells, SumOfCells, distinct
from discreet._numerics.counts import RisingDistribution
from discreet._numerics.noises import Noise
from discreet._numerics.summation import Sums
from discreet._typing import FloatArray, IntArray
from discreet.distributions._beta_rows import BetaPart
from discreet.distributions.base import RecordNumber
from discreet.distributions.noise_aware import UncertainShares
from discreet.errors import InvalidInputError, TooLargeError

_EXACT_SUMS = 24  # sums of the other levels below this are summed exactly
_FEWEST_LISTED_TOTALS = 4096  # least number of totals that a node lists
_MOST_NODES = 400


@dataclass(frozen=True)
class LogUniform:
    """A positive number whose logarithm is uniform between two bounds."""

    low: float
    high: float

    def __post_init__(self) -> None:
        if not (0 < self.low < self.high < math.inf):
            raise InvalidInputError(
                f"the range ({self.low!r}, {self.high!r}) must be two numbers, 0 < low < high"
            )

    def log_density(self, log_total: float) -> float:
        """Return the log-density of the number's logarithm, up to a constant."""
        return 0.0

    @classmethod
    def of(cls, pair: Sequence[float], name: str) -> LogUniform:
        """Return the log-uniform distribution on the bounds ``pair``; ``name`` is used in errors."""
        try:
            low, high = map(float, pair)
            return cls(low, high)
        except (TypeError, ValueError, InvalidInputError):
            raise InvalidInputError(
                "must be two numbers, 0 < low < high, such as (100, 1e6)", name, pair
            ) from None


@dataclass(frozen=True)
class Matching(LogUniform):
    """The Jeffreys prior of a Poisson mean Λ whose count is observed with noise: p(Λ) ∝ 1/√(Λ + variance).

    It is flat where the noise dominates, and 1/√Λ where Poisson variation dominates. So intervals have about
    the stated coverage for each true number, not only on average over the prior.
    """

    variance: float = 0.0

    def log_density(self, log_total: float) -> float:
        return log_total - 0.5 * float(np.logaddexp(log_total, math.log(max(self.variance, 1e-300))))


TOTALS = (1.0, 1e9)
"""Bounds of the expected number of records, unless others are declared."""
_LARGEST_NOISE_DEVIATION = 1 << 15
"""Largest supported standard deviation of the noise on a count, in records; inference then takes a minute."""
STRENGTH_PRIOR = LogUniform(1e-4, 10.0)
"""The hyperprior of the parameter of a symmetric Dirichlet prior, where that parameter is inferred."""


class AddRemovePosterior(UncertainShares):
    """The posterior of the shares and the total, given noisy counts; see the module for the model.

    ``prior`` gives the Dirichlet parameters: one for each level, or one number for all. If it is a
    :class:`LogUniform`, all levels have the same unknown parameter, which is integrated out. This suits
    tables with many levels, most of them empty.
    """

    def __init__(
        self,
        noisy: Sequence[float] | IntArray | FloatArray,
        prior: float | Sequence[float] | FloatArray | LogUniform = STRENGTH_PRIOR,
        *,
        noise: Noise,
        total_prior: LogUniform | None = None,
    ) -> None:
        if noise.together:
            raise InvalidInputError("noise that sums to zero reveals the total: give total=…")
        self.noisy = np.asarray(noisy, dtype=np.float64)
        self.k = len(self.noisy)
        if np.abs(self.noisy).max() >= 2**53:
            raise TooLargeError("shares and total can be inferred from noisy counts up to 2**53 only")
        if noise.variance > _LARGEST_NOISE_DEVIATION**2:
            raise TooLargeError(
                f"the noise moves a count by about {math.sqrt(noise.variance):,.0f}, more than "
                f"{_LARGEST_NOISE_DEVIATION:,}: shares of an unknown number of records cannot be inferred; "
                "use a larger epsilon"
            )
        self.noise, self.prior = noise, prior
        self.total_prior = total_prior or Matching(*TOTALS, variance=self.k * noise.variance)

    @cached_property
    def _cells(self) -> tuple[Cells, FloatArray, IntArray]:
        """The distinct cells, how often each occurs, and the index of each level's cell.

        An unknown prior parameter is set to 1 here.
        """
        concentration = 1.0 if isinstance(self.prior, LogUniform) else self.prior
        alpha = np.broadcast_to(np.asarray(concentration, dtype=np.float64), self.noisy.shape)
        scale = self.noise.scales(self.k)
        first, inverse, times = distinct(self.noisy, scale, alpha)
        distribution = RisingDistribution.of(alpha[first], math.inf)
        return Cells(distribution, self.noise, self.noisy[first], scale[first]), times, inverse

    @cached_property
    def _posteriors(self) -> list[tuple[float, _Given]]:
        """(weight, posterior) for each quadrature node of the prior's parameter; one pair if it is known."""
        cells, times, _ = self._cells
        if not isinstance(self.prior, LogUniform):
            return [(1.0, _Given(cells, times, self.total_prior))]

        @cache
        def _posterior_at(at: float) -> _Given:
            distribution = RisingDistribution.of(np.full(len(cells), math.exp(at)), math.inf)
            return _Given(replace(cells, distribution=distribution), times, self.total_prior)

        low, high = math.log(self.prior.low), math.log(self.prior.high)
        nodes, _ = integrate(lambda at: _posterior_at(at).log_evidence, low, high)
        return [(weight, _posterior_at(at)) for at, weight in nodes]

    @cached_property
    def total(self) -> RecordNumber:
        """The posterior of the number of records."""
        distributions = [(weight, *node.distribution()) for weight, _, node in self._nodes if weight > 1e-9]
        probability = np.concatenate([weight * p for weight, _, p in distributions])
        return RecordNumber(np.concatenate([values for _, values, _ in distributions]), probability)

    @property
    def inverse(self) -> IntArray:
        return self._cells[2]

    @property
    def widths(self) -> IntArray:
        return self._nodes[0][2].sums.lengths

    def parts(self, rows: IntArray) -> list[BetaPart]:
        return [part for weight, posterior in self._posteriors for part in posterior.parts(rows, weight)]

    @cached_property
    def _nodes(self) -> list[tuple[float, _Given, _Node]]:
        return [(w * v, posterior, at) for w, posterior in self._posteriors for v, at in posterior.nodes]

    @property
    def weights(self) -> FloatArray:
        return np.array([weight for weight, _, _ in self._nodes])

    def counts_given(self, node: int, size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
        _, posterior, at = self._nodes[node]
        counts = np.empty((size, self.k), dtype=np.int64)
        for row, (start, p) in enumerate(zip(at.sums.starts, at.sums.distributions(), strict=True)):
            columns = np.flatnonzero(self.inverse == row)
            uniform = rng.random((size, len(columns)))
            counts[:, columns] = int(start) + np.searchsorted(np.cumsum(p), uniform * p.sum(), side="right")
        return counts, posterior.prior[self.inverse]


class _Node:
    """The posterior of the true counts at one value of b: distributions and cumulants of distinct cells."""

    def __init__(self, sums: Sums, times: FloatArray) -> None:
        self.sums = sums
        self.whole = SumOfCells(sums, times)
        self.cumulants = sums.cumulants(9)
        self.cumulants[0] += sums.around

    @cached_property
    def _cumulants_of_others(self) -> FloatArray:
        # Sums before and after, not a difference, which would cancel beside a much wider level.
        cumulants = self.cumulants * self.whole.times
        before = np.pad(np.cumsum(cumulants[:, :-1], axis=1), ((0, 0), (1, 0)))
        after = np.pad(np.cumsum(cumulants[:, :0:-1], axis=1)[:, ::-1], ((0, 0), (0, 1)))
        return np.asarray(before + after + self.cumulants * (self.whole.times - 1))

    def distribution(self) -> tuple[FloatArray, FloatArray]:
        """Return equally spaced values of the number of records, and their probabilities."""
        whole = self.whole
        period = 2 * int(whole.period(np.zeros(1))[0]) + 1
        spectrum = np.append(1.0, whole.product(whole.transform(period)).conj())
        points = min(period, max(2 * len(spectrum), _FEWEST_LISTED_TOTALS))
        density = np.maximum(np.fft.irfft(spectrum, points), 0.0)
        centre = np.rint(self.cumulants[0] @ whole.times)
        away = (whole.around - centre + period / points * np.arange(points) + period // 2) % period
        return centre - period // 2 + away, density / density.sum()

    @cached_property
    def _small(self) -> FloatArray:
        return self.whole.small_sums_of_others(_EXACT_SUMS)

    def others(
        self, rows: IntArray, rest: FloatArray
    ) -> tuple[FloatArray | None, list[tuple[FloatArray, FloatArray]]]:
        """Approximate, for each cell in ``rows``, the sum of the true counts of all other levels.

        Returns probabilities of the smallest sums 0, 1, … (or None), and a list of (values, weights) for the
        rest, from a Gauss rule with the same moments. The first part is needed where the sum may be so small
        that the Beta posterior changes noticeably from one value to the next.
        """
        cumulants = self._cumulants_of_others[:, rows]
        mean, deviation = cumulants[0], np.sqrt(np.maximum(cumulants[1], 1e-300))
        scale = float(np.max(deviation / (rest + mean)))
        number = 2 if scale < 0.02 else 3 if scale < 0.1 else 5
        moments = _moments(cumulants[: 2 * number - 1])
        if number < 5 or float((mean - 12 * deviation).min()) > _EXACT_SUMS:
            return None, gauss_rule(moments, mean, deviation)
        small = self._small[rows]
        away = (np.arange(_EXACT_SUMS) - mean[:, None]) / deviation[:, None]
        left = np.maximum(1 - small.sum(axis=1), 1e-12)
        inner = [m - np.einsum("rj,rj->r", small, away**j) for j, m in enumerate(moments)]
        centre = inner[1] / left
        spread = np.sqrt(np.maximum(inner[2] / left - centre**2, 1e-12))
        centred = [
            sum(math.comb(j, i) * inner[i] * (-centre) ** (j - i) for i in range(j + 1)) / left / spread**j
            for j in range(len(inner))
        ]
        # Next to nothing is left beyond the small values: its moments are rounding errors, any distribution
        # will do.
        nothing = left < 1e-6
        normal = [math.prod(range(1, j, 2)) * (1 - j % 2) for j in range(len(inner))]
        centred = [np.where(nothing, usual, m) for usual, m in zip(normal, centred, strict=True)]
        centre, spread = np.where(nothing, 0.0, centre), np.where(nothing, 1.0, spread)
        rule = gauss_rule(centred, mean + centre * deviation, spread * deviation)
        return small, [(np.maximum(value, _EXACT_SUMS - 1.0), left * weight) for value, weight in rule]


class _Given:
    """The posterior for known parameters of the prior, with b integrated out."""

    def __init__(self, cells: Cells, times: FloatArray, total_prior: LogUniform) -> None:
        self._cells, self._times = cells, times
        self.prior: FloatArray = cells.distribution.singularity[0]  # type: ignore[index]
        self.strength = float(times @ self.prior)
        self._total_prior = total_prior
        self._listed: tuple[float, float, Cells, Sums] | None = None
        low, high = math.log(total_prior.low), math.log(total_prior.high)
        records = max(1.0, float(times @ cells.z))
        self._log_weights, self.log_evidence = integrate(
            self._log_likelihood,
            low,
            high,
            start=min(max(math.log(records), low), high),
            scale=math.sqrt(1 / self.strength + 1 / (1 + records)),
        )

    def _tilt(self, log_total: float) -> float:
        """Return the tilt −log(1 + b) of the counts, for b = Σα/e^{log_total}."""
        return -float(np.logaddexp(0.0, math.log(self.strength) - log_total))

    def _tilt_terms(self, tilt: float) -> Cells:
        return replace(
            self._cells,
            distribution=self._cells.distribution.tilt(np.full(len(self._cells), tilt), math.inf)[0],
        )

    def _at(self, tilt: float) -> tuple[Sums, FloatArray]:
        """Return the terms of the cells at a tilt, and the logarithm of each cell's sum."""
        # Windows that serve for a range of tilts are kept until a tilt leaves it.
        if self._listed is None or not self._listed[0] <= tilt <= self._listed[1]:
            margin = 0.75 * abs(tilt)
            low, high = (tilt - margin, tilt + margin) if self._listed is None else self._listed[:2]
            low, high = min(low, tilt - margin), min(max(high, tilt + margin), 0.0)
            cells = self._tilt_terms(high)
            self._listed = low, high, cells, cells.between(self._tilt_terms(low).first, cells.last)
        _, high, cells, sums = self._listed
        sums = sums.tilt(np.full(len(cells), tilt - high))
        return sums, cells.height + (tilt - high) * cells.top + sums.log_total

    def _log_likelihood(self, log_total: float) -> float:
        """Return log p(z | b) plus the log-prior, for b = Σα/e^{log_total}."""
        _, log_size = self._at(self._tilt(log_total))
        # Σα·log(b/(1 + b)), without cancellation
        ratio = -float(np.logaddexp(0.0, log_total - math.log(self.strength)))
        value = float(self._times @ log_size) + self.strength * ratio
        return value + self._total_prior.log_density(log_total)

    @cached_property
    def nodes(self) -> list[tuple[float, _Node]]:
        """(weight, node) for each quadrature node of b with a non-negligible weight."""
        for log_total, _ in self._log_weights:  # widen the windows first, so that all nodes share them
            self._at(self._tilt(log_total))
        return [
            (weight, _Node(self._at(self._tilt(log_total))[0], self._times))
            for log_total, weight in self._log_weights
        ]

    def parts(self, rows: IntArray, weight: float) -> list[BetaPart]:
        """Return the posteriors of the shares of the distinct cells ``rows``, as mixtures of Betas."""
        prior = self.prior[rows]
        rest = self.strength - prior
        result, total = [], None
        for share, node in self.nodes:
            mass = weight * share * node.sums.rows(rows)
            first = prior + node.sums.starts[rows]
            small, rule = node.others(rows, rest)
            part = BetaPart.of(mass, first, rest, 0, 1e-11)
            result += [replace(part, mass=part.mass * v[:, None], s=rest + others) for others, v in rule]
            if small is not None:  # small sums are the same numbers at every node: one part for each
                total = (0.0 if total is None else total) + small.T[:, :, None] * mass
        if total is not None:
            result += [
                BetaPart.of(mass_of_sum, first, rest + j, 0, 1e-11) for j, mass_of_sum in enumerate(total)
            ]
        return result


def _moments(cumulants: FloatArray) -> list[FloatArray]:
    """Return the moments 0, 1, 2, … of standardised distributions, given cumulants in columns."""
    deviation = np.sqrt(np.maximum(cumulants[1], 1e-300))
    kappa = [cumulants[j] / deviation ** (j + 1) for j in range(len(cumulants))]
    moments = [np.ones_like(deviation), np.zeros_like(deviation)]
    for j in range(2, len(cumulants) + 1):
        value = kappa[j - 1].copy()
        for i in range(2, j):
            value += math.comb(j - 1, i - 1) * kappa[i - 1] * moments[j - i]
        moments.append(value)
    return moments


def gauss_rule(
    moments: list[FloatArray], mean: FloatArray, deviation: FloatArray
) -> list[tuple[FloatArray, FloatArray]]:
    """Return Gauss rules with this mean, standard deviation and standardised moments, as (nodes, weights)."""
    number = len(moments) // 2
    hankel, shifted = (
        np.stack([np.stack([moments[i + j + more] for j in range(number)], -1) for i in range(number)], -2)
        for more in (0, 1)
    )
    # With H = LLᵀ the Jacobi matrix is L⁻¹ H' L⁻ᵀ: its eigenvalues are the nodes (Golub and Welsch 1969). A
    # distribution on fewer points, or rounding, can leave H singular: the diagonal is raised until it is not.
    for ridge in (0.0, 1e-13, 1e-10, 1e-7, 1e-4, 1e-2, 1.0):
        try:
            lower = np.linalg.cholesky(hankel + ridge * hankel[..., -1:, -1:] * np.eye(number))
            break
        except np.linalg.LinAlgError:
            continue
    else:
        raise TooLargeError("the noise is too large for shares to be inferred")
    inverse = np.linalg.inv(lower)
    nodes, vectors = np.linalg.eigh(inverse @ shifted @ np.swapaxes(inverse, -1, -2))
    weights = vectors[..., 0, :] ** 2
    return [(np.maximum(mean + deviation * nodes[..., j], 0.0), weights[..., j]) for j in range(number)]


def integrate(
    log_density: Callable[[float], float],
    low: float,
    high: float,
    start: float | None = None,
    scale: float | None = None,
    negligible: float = 16.0,
    spacing: float = 1.1,
) -> tuple[list[tuple[float, float]], float]:
    """Integrate e^{log_density} over [low, high].

    Returns pairs (node, weight), whose weights sum to 1, and the log of the integral. Nodes with a log-weight
    more than ``negligible`` below the largest are left out, by default about 1e-7 of the integral. Nodes are
    ``spacing`` standard deviations apart; steps of 1.1 are exact to seven digits if the density decays on
    both sides. If it is still large at ``low`` or ``high``, Gauss–Legendre nodes are used instead.
    """
    log_density = cache(log_density)
    if start is None or scale is None:
        coarse = np.linspace(low, high, 8)
        start = float(coarse[int(np.argmax([log_density(float(s)) for s in coarse]))])
        scale = (high - low) / 7
    start, deviation = _peak(log_density, low, high, start, scale)
    step = spacing * deviation
    values = {start: log_density(start)}
    ends = [low, high]
    for side, direction in enumerate((-1, 1)):
        s = start + direction * step
        while low <= s <= high and len(values) < _MOST_NODES:
            values[s] = log_density(s)
            if values[s] < max(values.values()) - negligible:
                ends[side] = s
                break
            s += direction * step
    nodes, widths = np.array(sorted(values)), np.full(len(values), step)
    if ends[0] == low or ends[1] == high:
        unit, widths = np.polynomial.legendre.leggauss(math.ceil((ends[1] - ends[0]) / step) + 6)
        nodes = ends[0] + (ends[1] - ends[0]) * (unit + 1) / 2
        widths = widths * (ends[1] - ends[0]) / 2
    logs = np.array([log_density(float(s)) for s in nodes]) + np.log(widths)
    top = float(logs.max())
    weights = np.exp(logs - top)
    total = float(weights.sum())
    relevant = np.flatnonzero(logs > top - negligible)
    return [(float(nodes[i]), float(weights[i] / weights[relevant].sum())) for i in relevant], top + math.log(
        total
    )


def _peak(
    log_density: Callable[[float], float], low: float, high: float, start: float, scale: float
) -> tuple[float, float]:
    """Return the approximate mode and standard deviation of a smooth density, by fitting parabolas."""
    deviation = min(scale, (high - low) / 4)
    for _ in range(40):
        left, right = max(low, start - deviation), min(high, start + deviation)
        y = [log_density(s) for s in (left, start, right)]
        if y[0] > y[1] and y[0] >= y[2] and left > low:
            start, deviation = left, 1.5 * deviation
            continue
        if y[2] > y[1] and right < high:
            start, deviation = right, 1.5 * deviation
            continue
        if left == low or right == high:  # against an end: half a parabola says how fast it falls
            fall = max(y[1] - min(y[0], y[2]), 0.0)
            if fall > 4:
                deviation /= 2
                continue
            return start, min(deviation / max(math.sqrt(2 * fall), 0.5), (high - low) / 8)
        curvature = (2 * y[1] - y[0] - y[2]) / deviation**2
        if curvature * deviation**2 > 4:  # too coarse to see its shape
            deviation /= 2
            continue
        if curvature * deviation**2 < 0.2:
            if deviation >= (high - low) / 8:
                return start, (high - low) / 8
            deviation = min(2 * deviation, (high - low) / 8)
            continue
        start = min(max(start + 0.5 * deviation * (y[2] - y[0]) / (2 * y[1] - y[0] - y[2]), low), high)
        return start, 1 / math.sqrt(curvature)
    return start, deviation
