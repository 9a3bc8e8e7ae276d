"""The posterior given noisy sums: the curvature is a latent positive definite matrix, given which everything
else is normal.

At a point w the released sums are g̃ = g + e and Ã = A + E: g is the score, A the curvature, and e and E are
Gaussian noise of known size. With δ = β − w and the dispersion φ

    g | β, A ~ N(Aδ, φA),   β ~ N(m, Λ).

With robust errors the score is N(Aδ, B), where B is the sum of xx' times squared residuals. B is latent too,
and released with noise like A. Where it is not released, for counts and levels, the log of its ratio to φA
has a normal prior. Given A, β is normal in closed form, so only the positive matrices are left to integrate.
Their density is the product of the noise density, the density of g̃, and a prior: :func:`row_moments` for the
entries, and log-uniform eigenvalues down to the information of one record.

Draws of A come from the noise distribution with importance weights if these are even enough, and otherwise
from elliptical slice sampling (Murray, Adams and MacKay 2010). As the noise vanishes, A tends to Ã and the
posterior to that of an ordinary regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import erf, ndtr

from discreet._typing import FloatArray

if TYPE_CHECKING:
    from discreet.regression._newton.design import Design
    from discreet.regression._newton.models import ResponseModel

_TRIED = 192
"""The number of draws from the noise distribution."""
_ENOUGH = 0.7
"""The least effective sample size, as a share of these draws; below it, slice sampling is used."""
_CHAINS, _BURN, _KEPT = 48, 30, 30
_NUMBERS = 330_000
"""The most chains times the cube of the number of coefficients, which bounds computing time."""
_SHRUNK = 20
"""The most points tried on an ellipse before a chain stays where it is."""
_DRAWS = 4000
MOST_LATENT = 30
"""The most coefficients for which the curvature is drawn; beyond that, one estimate of it is used."""
_MOST_MOMENTS = 210
"""The most entries of a curvature's triangle for which :func:`row_moments` has a prior: 20 columns."""
_PROBES = 2048
_DISPERSION = 0.5
"""The prior standard deviation of log φ for counts, and of the log of B over φA."""
_LEAST_SCALE = -math.log(64)
"""The logarithm of the least scale of the prior, which is log-uniform from 1/64 to 1 where it is learned."""


class LastRound(NamedTuple):
    """All rounds combined into one: the expansion point, score, noise, curvature and Σr², in real units."""

    point: FloatArray
    score: FloatArray
    variance: float
    curvature: FloatArray
    curvature_variance: float
    square: float
    square_variance: float
    square_point: FloatArray
    clip: float
    ratio: float
    """The variance of one record's score divided by φ times its slope: 1 unless responses are clipped."""
    outer: FloatArray | None = None
    """With robust errors, Σ r²xx', the sampling covariance of the score."""
    outer_variance: float = 0.0
    others: tuple[tuple[FloatArray, FloatArray, float], ...] = ()
    """For each round, Δ, d and the precision of d: its score exceeds ``score`` by d ≈ AΔ, noise apart."""


class States(NamedTuple):
    """Several curvatures with the quantities computed from each."""

    log_density: FloatArray
    values: FloatArray
    vectors: FloatArray
    dispersion: FloatArray
    mean: FloatArray
    """The means of the coefficients minus the expansion point, in coordinates of eigenvectors."""
    covariance: FloatArray
    root: FloatArray
    """A matrix R with RR' = ``covariance``."""
    outer: FloatArray | None


class NormalComponents(NamedTuple):
    """The normal distributions of the coefficients given each curvature."""

    weights: FloatArray
    means: FloatArray
    roots: FloatArray
    """For each curvature, a matrix R such that the covariance is RR'."""


@dataclass(frozen=True)
class CurvatureDraws:
    """Weighted draws of the coefficients, the dispersion, and the curvature's entry for the intercept."""

    draws: FloatArray
    weights: FloatArray
    mean: FloatArray
    covariance: FloatArray
    """The covariance of the coefficients, from its closed form given each curvature."""
    dispersion: FloatArray
    level: FloatArray
    curvature: FloatArray
    """The mean of the drawn curvatures."""
    outer: FloatArray | None
    """The mean of the drawn sums Σ r²xx', with robust errors."""
    effective: float
    components: NormalComponents


def symmetric(entries: FloatArray, size: int) -> FloatArray:
    """Return symmetric matrices from their upper triangles, which are on the last axis."""
    matrices = np.zeros((*entries.shape[:-1], size, size))
    i, j = np.triu_indices(size)
    matrices[..., i, j] = entries
    matrices[..., j, i] = entries
    return matrices


def row_moments(
    design: Design | None, records: float, weight: float, counted: bool, noisy: FloatArray, variance: float
) -> tuple[FloatArray, FloatArray]:
    """Return the mean of a curvature's triangle given noisy entries, and a root R of its covariance RR'.

    The prior of the rows is the limit of a Dirichlet process of vanishing concentration centred on evenly
    spread records: the entries have mean n·E f and covariance n²·Cov f, where f are the products of the
    columns. This ties entries that are functions of each other, such as those of levels or powers. Where the
    number of records is public and the weights are 1, entries that do not depend on the records are fixed.
    Without a design nothing is assumed about the rows.
    """
    i, j = np.triu_indices(len(noisy))
    entries, noise = noisy[i, j], np.where(i == j, variance, variance / 2)
    if design is None or len(i) > _MOST_MOMENTS:
        return entries, np.diag(np.sqrt(noise))
    rows = design.probes(_PROBES)
    products = rows[:, i] * rows[:, j]
    mean, scale = products.mean(axis=0), records * weight
    whole = products.T @ products / len(products)
    if counted:
        whole = whole - np.outer(mean, mean)
    # What is cut off on the grid is not a function of the rest.
    before = scale**2 * (whole + np.diag(np.full(len(i), 4.0**-design.bits)))
    at = design.constant
    if counted and at is not None:
        fixed = (i == at) & (j == at)
        before[fixed] = before[:, fixed] = 0.0
    gain = np.linalg.solve(before + np.diag(noise), before).T
    values, vectors = np.linalg.eigh(before - gain @ before)
    keep = values > 1e-14 * max(float(values[-1]), 1e-300)
    return scale * mean + gain @ (entries - scale * mean), vectors[:, keep] * np.sqrt(values[keep])


class LatentCurvature:
    """The posterior of coefficients, curvature and dispersion given :class:`LastRound`."""

    def __init__(
        self,
        model: ResponseModel,
        design: Design,
        seen: LastRound,
        prior: tuple[FloatArray, FloatArray],
        records: float,
        counted: bool,
        learned: bool = False,
        mixing: FloatArray | None = None,
        tilt: float = 1.0,
    ) -> None:
        """Set up the posterior; the sums in ``seen`` are over ``mixing`` @ x, for rows x of the design."""
        self.model, self.seen, self.records, self.learned, self.tilt = model, seen, records, learned, tilt
        self.size, self.constant = len(seen.point), design.constant
        self.slopes = np.ones(self.size, dtype=bool)
        ones = np.zeros(self.size)
        if self.constant is not None:
            self.slopes[self.constant :: design.d] = False
            ones[self.constant] = 1.0
        self.mixing = np.eye(self.size) if mixing is None else mixing
        self.mixed = not np.array_equal(self.mixing, np.eye(self.size))
        self.ones = np.asarray(np.linalg.solve(self.mixing.T, ones), dtype=np.float64)
        self.gap = np.linalg.solve(self.mixing.T, prior[0]) - seen.point
        precision = np.linalg.inv(prior[1])
        precision = (precision + precision.T) / 2
        stretched = precision * np.outer(self.slopes, self.slopes) if learned else np.zeros_like(precision)
        self.precision = self.mixing @ precision @ self.mixing.T
        self.stretched = self.mixing @ stretched @ self.mixing.T
        weight = model.typical_weight
        if self.constant is not None and not model.normal:
            noise = math.sqrt(seen.curvature_variance)
            weight = max(float(self.ones @ seen.curvature @ self.ones), noise, 0.5) / records
        self.per_record = weight * float(np.trace(design.second_moments)) / design.d
        if self.mixed:
            self.per_record = weight * (design.norm / design.unit) ** 2 / design.d
        fixed = counted and model.normal and seen.outer is None
        known = None if model.outputs > 1 or self.mixed else design
        self.mean, self.root = row_moments(
            known, records, weight, fixed, seen.curvature, seen.curvature_variance
        )
        self.noise = float(np.sqrt((self.root**2).sum(axis=1)).mean())
        self.log_dispersion = self._dispersion()
        self.outer_mean, self.outer_root = np.zeros(0), np.zeros((0, 0))
        if seen.outer is not None:
            spread = math.exp(self.log_dispersion[0]) * tilt  # a weight counts twice in squares
            self.outer_mean, self.outer_root = row_moments(
                known, records, spread * weight, False, seen.outer, seen.outer_variance
            )
            self.outer_per_record = spread * self.per_record
        self.rounding = 0.0
        state = self._estimate_state()
        near = self.mixing.T @ (seen.point + state.vectors[0] @ state.mean[0])
        squares = float(((near.reshape(-1, design.d) * design.resolution) ** 2).sum())
        self.rounding = records * weight * (squares + 2 * 4.0**-model.link_bits) / 12
        """The dispersion that rounding to grids adds to φ. Equal records are rounded alike, so their errors
        do not average out: errors e of predictors move the score by Σv·e·x, whose norm in A⁻¹ is at most
        √(Σv·e²)."""

    @property
    def disperses(self) -> bool:
        return self.seen.square_variance > 0

    def _levels(self, values: FloatArray, vectors: FloatArray) -> FloatArray:
        """Return the sum of the records' weights, the intercept's diagonal entry, for each curvature."""
        if self.constant is None or (self.model.normal and not self.mixed):
            return np.full(len(values), self.records * self.model.typical_weight)
        level = np.einsum("ij,ij->i", values, (self.ones @ vectors) ** 2)
        return np.minimum(level, self.records) if self.model.normal else np.asarray(level)

    def _dispersion(self) -> tuple[float, float]:
        """Return the approximate mean and standard deviation of log φ."""
        seen, n = self.seen, self.records
        if not self.disperses:
            return 0.0, 0.0
        values, vectors = self.positive()
        if not self.model.normal:
            tried = np.linspace(-2.0, 5.0, 141)
            level = np.full(len(tried), float(self._levels(values[None], vectors[None])[0]))
            log = self._squares_of_counts(level, np.exp(tried))
            shares = np.exp(log - log.max())
            shares /= shares.sum()
            middle = float(shares @ tried)
            return middle, max(math.sqrt(float(shares @ (tried - middle) ** 2)), 0.02)
        score = seen.score @ vectors + values * ((seen.point - seen.square_point) @ vectors)
        n = float(self._levels(values[None], vectors[None])[0])
        left = seen.square - float((np.maximum(score**2 - seen.variance, 0.0) / values).sum())
        error = math.sqrt(seen.square_variance + 2 * max(left, 0.0) ** 2 / n)
        left = max(left, error, 1e-9 * n)
        return math.log(min(left / n, 0.9)), min(max(1.5 * error / left, 0.02), 1.5)

    def positive(self, part: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return the eigenvalues and eigenvectors of the estimated curvature.

        Eigenvalues below ``part`` times the noise, or below the information of one record, are raised to it.
        """
        return self._above(self.mean, max(part * self.noise * math.sqrt(self.size), self.per_record))

    def _above(self, mean: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
        values, vectors = np.linalg.eigh(symmetric(mean, self.size))
        return np.maximum(values, least), vectors

    def states(self, x: FloatArray, matrices: tuple[FloatArray, FloatArray | None] | None = None) -> States:
        """Compute :class:`States` for rows of standard normal numbers, which determine all latent values.

        ``matrices`` is the result of :meth:`_matrices` for these rows, if it was computed already.
        """
        curvature, outer = matrices or self._matrices(x)
        values, vectors = np.linalg.eigh(curvature)
        dispersion, correction = np.ones(len(x)), np.zeros(len(x))
        if self.disperses:
            (middle, spread), coordinate = self.log_dispersion, x[:, -1 - self.learned]
            dispersion = np.exp(middle + spread * coordinate)
            correction = coordinate**2 / 2
        scale = np.exp(_LEAST_SCALE * ndtr(x[:, -1])) if self.learned else None
        return self.compute_states(values, vectors, dispersion, correction, scale, outer)

    def _matrices(self, x: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the curvature of each row of ``x`` and, with robust errors, the score's covariance."""
        size, outer = self.root.shape[1], None
        if self.seen.outer is not None:
            drawn = x[:, size : size + self.outer_root.shape[1]] @ self.outer_root.T
            outer = symmetric(self.outer_mean + drawn, self.size)
        return symmetric(self.mean + x[:, :size] @ self.root.T, self.size), outer

    def _log_density(self, x: FloatArray) -> FloatArray:
        """Return log densities of the rows of ``x``; −inf, quickly, if a matrix is not positive definite."""
        log, (curvature, outer) = np.full(len(x), -np.inf), self._matrices(x)
        good = np.flatnonzero(np.linalg.eigvalsh(curvature)[:, 0] > 0)
        if outer is not None:
            outer = outer[good := good[np.linalg.eigvalsh(outer[good])[:, 0] > 0]]
        log[good] = self.states(x[good], (curvature[good], outer)).log_density
        return log

    def compute_states(
        self,
        values: FloatArray,
        vectors: FloatArray,
        dispersion: FloatArray,
        correction: FloatArray,
        scale: FloatArray | None = None,
        outer: FloatArray | None = None,
    ) -> States:
        """Compute :class:`States` of curvatures, given eigenvalues and eigenvectors.

        ``scale`` multiplies the prior's standard deviations, except those of constant columns; ``outer`` is
        the sampling covariance of the score, φA by default.
        """
        seen = self.seen
        log = correction - np.log(np.maximum(values, 0.0) + self.per_record).sum(axis=1)
        bad = values[:, 0] <= 0
        values = np.maximum(values, 1e-12 * self.per_record)
        diagonal = np.arange(self.size)
        chance = np.zeros((len(values), self.size, self.size))
        if outer is None:
            chance[:, diagonal, diagonal] = seen.ratio * dispersion[:, None] * values
        else:
            sizes, ways = np.linalg.eigh(outer)
            bad |= sizes[:, 0] <= 0
            ways = np.swapaxes(vectors, 1, 2) @ ways
            sizes = np.maximum(sizes, 1e-12 * self.outer_per_record)
            chance = (ways * sizes[:, None, :]) @ np.swapaxes(ways, 1, 2)
            if self.model.normal:  # errors may have any variances
                log -= np.log(sizes + self.outer_per_record).sum(axis=1)
            else:
                log += log_unevenness(chance, self.tilt * seen.ratio * dispersion[:, None] * values)
        chance[:, diagonal, diagonal] += self.rounding * values + seen.variance
        inverse: FloatArray = np.asarray(np.linalg.inv(chance), dtype=np.float64)
        left = seen.score @ vectors - values * (self.gap @ vectors)
        weighted_left = np.einsum("ijk,ik->ij", inverse, left)
        prior = self.precision
        if scale is not None:
            prior = prior + self.stretched * (1 / scale[:, None, None] ** 2 - 1)
            log -= self.slopes.sum() * np.log(scale)
        precision = np.swapaxes(vectors, 1, 2) @ prior @ vectors
        precision += values[:, :, None] * inverse * values[:, None, :]
        root = np.linalg.cholesky(precision)
        back = np.linalg.inv(root)
        covariance = np.swapaxes(back, 1, 2) @ back
        weighted = values * weighted_left
        moved = np.einsum("ijk,ik->ij", covariance, weighted)
        log -= np.linalg.slogdet(chance)[1] / 2 + np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
        log -= ((left * weighted_left).sum(axis=1) - (weighted * moved).sum(axis=1)) / 2
        for way, more, round_precision in seen.others:
            gaps = more @ vectors - values * (way @ vectors)
            log -= round_precision * (gaps**2).sum(axis=1) / 2
        if self.disperses:
            log += self._squares(values, vectors, dispersion, inverse, left, moved, covariance)
        log[bad] = -np.inf
        mean = moved + self.gap @ vectors
        return States(log, values, vectors, dispersion, mean, covariance, np.swapaxes(back, 1, 2), outer)

    def _squares(
        self,
        values: FloatArray,
        vectors: FloatArray,
        dispersion: FloatArray,
        weight: FloatArray,
        left: FloatArray,
        moved: FloatArray,
        covariance: FloatArray,
    ) -> FloatArray:
        """Return log p(Σr² | g̃, A, φ) plus the log prior density of log φ, for each curvature."""
        seen = self.seen
        if not self.model.normal:
            return self._squares_of_counts(self._levels(values, vectors), dispersion)
        # Of the score without noise, given that with it: K⁻¹ = Σ⁻¹ − Σ⁻¹A P⁻¹ AΣ⁻¹.
        noise, n, diagonal = seen.variance, self._levels(values, vectors), np.arange(self.size)
        share = weight * values[:, None, :]
        inverse = weight - share @ covariance @ np.swapaxes(share, 1, 2)
        score = seen.score @ vectors - noise * np.einsum("ijk,ik->ij", weight, left - values * moved)
        score = score + values * ((seen.point - seen.square_point) @ vectors)
        score_cov = -(noise**2) * inverse
        score_cov[:, diagonal, diagonal] += noise
        shape = score / values
        fitted = (shape * score).sum(axis=1) + (np.diagonal(score_cov, axis1=1, axis2=2) / values).sum(axis=1)
        spread = 4 * np.einsum("ij,ijk,ik->i", shape, score_cov, shape)
        spread += 2 * np.einsum("ijk,ij,ik->i", score_cov**2, 1 / values, 1 / values)
        _, second, fourth = clipped_moments(dispersion, seen.clip)
        expected = np.maximum(n - self.size, 1.0) * second + fitted
        spread = spread + seen.square_variance + n * np.maximum(fourth - second**2, 0.0)
        log = -((seen.square - expected) ** 2) / spread / 2 - np.log(spread) / 2
        return np.asarray(np.where(dispersion > 1.5, -np.inf, log + np.log(dispersion) / 2))

    def _squares_of_counts(self, level: FloatArray, dispersion: FloatArray) -> FloatArray:
        """Return log p(Σr² | Σμ, φ) plus the log prior density of log φ, for each element."""
        seen = self.seen
        rate = level / self.records
        spread = seen.square_variance + level * dispersion**2 * (1 + 2 * rate) + (0.02 * level) ** 2
        log = -((seen.square - seen.ratio * dispersion * level) ** 2) / spread / 2 - np.log(spread) / 2
        return np.asarray(log - (np.log(dispersion) / _DISPERSION) ** 2 / 2)

    def estimate(self) -> tuple[States, float]:
        """Compute :class:`States` of the estimated curvature, and the records' sum of weights under it."""
        state = self._estimate_state()
        return state, float(self._levels(state.values, state.vectors)[0])

    def sample(self, seed: int = 0) -> CurvatureDraws:
        """Draw curvature, dispersion and coefficients by importance or slice sampling, with a fixed seed.

        For more than ``MOST_LATENT`` coefficients, the curvature is fixed at its estimate.
        """
        generator = np.random.default_rng(seed)
        free = self.root.shape[1] + self.outer_root.shape[1] + self.disperses + self.learned
        if self.size > MOST_LATENT:
            return self._draw(self._many(), np.ones(1), generator, 1.0)
        number = min(_TRIED, max(24, 4_000_000 // self.size**3))
        x = generator.normal(size=(number, free))
        states = self.states(x)
        top = float(states.log_density.max())
        weights = np.exp(states.log_density - top) if math.isfinite(top) else np.zeros(number)
        effective = float(weights.sum() ** 2 / max((weights**2).sum(), 1e-300)) / number
        if effective < _ENOUGH:
            states = self._slices(x, states.log_density, generator)
            weights = np.ones(len(states.values))
        return self._draw(states, weights / weights.sum(), generator, effective)

    def _estimate_state(self) -> States:
        values, vectors = self.positive()
        dispersion = np.exp(np.array([self.log_dispersion[0]]))
        scale = np.exp(np.array([_LEAST_SCALE / 2])) if self.learned else None
        return self.compute_states(values[None], vectors[None], dispersion, np.zeros(1), scale)

    def _many(self) -> States:
        """Compute :class:`States` of the estimated curvature, for many coefficients.

        The error of the curvature, times the coefficients' distance from the expansion point, is added to the
        noise on the score.
        """
        seen = self.seen
        for _ in range(3):
            state = self._estimate_state()
            far = float((state.mean[0] ** 2).sum() + np.trace(state.covariance[0]))
            error = seen.curvature_variance * far / 2 * (1 + 1 / self.size)
            self.seen = seen._replace(variance=seen.variance + error)
        state = self._estimate_state()
        self.seen = seen
        return state

    def _slices(self, x: FloatArray, log: FloatArray, generator: np.random.Generator) -> States:
        """Run several chains of elliptical slice sampling, and return the kept states."""
        chains = min(_CHAINS, max(12, _NUMBERS // self.size**3))
        if math.isfinite(log.max()):
            weights = np.exp((log - log.max()) / 4)
            chosen = generator.choice(len(x), chains, p=weights / weights.sum())
            x, log = x[chosen], log[chosen]
        else:
            x = np.tile(self._start(x.shape[1]), (chains, 1))
            log = self.states(x).log_density
        points = []
        for step in range(_BURN + _KEPT):
            other = generator.normal(size=x.shape)
            least = log + np.log(generator.random(chains))
            angle = generator.uniform(0, 2 * math.pi, chains)
            low, high = angle - 2 * math.pi, angle.copy()
            active, new, new_log = np.arange(chains), x.copy(), log.copy()
            for _ in range(_SHRUNK):
                if not len(active):
                    break
                turn = angle[active, None]
                tried = x[active] * np.cos(turn) + other[active] * np.sin(turn)
                reached = self._log_density(tried)
                taken = reached > least[active]
                new[active[taken]], new_log[active[taken]] = tried[taken], reached[taken]
                active = active[~taken]
                back = angle[active] < 0
                low[active[back]], high[active[~back]] = angle[active[back]], angle[active[~back]]
                angle[active] = generator.uniform(low[active], high[active])
            x, log = new, new_log
            if step >= _BURN and step % 2:
                points.append(x)
        return self.states(np.concatenate(points))

    def _start(self, free: int) -> FloatArray:
        """Return standard normal coordinates of a positive definite curvature near the estimate."""
        i, j = np.triu_indices(self.size)
        distributions = [(self.mean, self.root, self.positive())]
        if self.seen.outer is not None:
            noise = math.sqrt(self.size * self.seen.outer_variance)
            positive = self._above(self.outer_mean, max(noise, self.outer_per_record))
            distributions.append((self.outer_mean, self.outer_root, positive))
        ways, diagonal = [], i == j
        for mean, root, (values, vectors) in distributions:
            whole = ((vectors * values) @ vectors.T)[i, j]
            parts = np.column_stack([whole * ~diagonal - mean, whole * diagonal])
            ways.append(np.linalg.lstsq(root, parts, rcond=1e-12)[0])
        way = np.concatenate(ways)
        start = np.zeros(free)
        for turn in range(60):
            start[: len(way)] = way @ (1.0, 1.25**turn)
            if np.isfinite(self.states(start[None]).log_density[0]):
                break
        return start

    def _draw(
        self, states: States, weights: FloatArray, generator: np.random.Generator, effective: float
    ) -> CurvatureDraws:
        keep = weights > 1e-9 * weights.max()
        values, vectors, dispersion = states.values[keep], states.vectors[keep], states.dispersion[keep]
        mean, root, weights = states.mean[keep], states.root[keep], weights[keep] / weights[keep].sum()
        times = 2 * max(1, round(_DRAWS / 2 / len(weights)))
        half = generator.normal(size=(times // 2, len(weights), self.size))
        units = np.concatenate([half, -half])
        moved = mean + np.einsum("ijk,tik->tij", root, units)
        draws = self.seen.point + np.einsum("ijk,tik->tij", vectors, moved)
        curvature = np.einsum("i,ijk,ik,ilk->jl", weights, vectors, values, vectors)
        outer = None if states.outer is None else np.einsum("i,ijk->jk", weights, states.outer[keep])
        centres = np.einsum("ijk,ik->ij", vectors, mean)
        middle = weights @ centres
        spread = np.einsum("ijk,ikl->ijl", vectors, root)
        covariance = np.einsum("i,ijk,ilk->jl", weights, spread, spread)
        covariance += ((centres - middle) * weights[:, None]).T @ (centres - middle)
        plain = self.mixing
        return CurvatureDraws(
            draws.reshape(-1, self.size) @ plain,
            np.tile(weights / times, times),
            (self.seen.point + middle) @ plain,
            plain.T @ covariance @ plain,
            np.tile(dispersion, times),
            np.tile(self._levels(values, vectors), times),
            self.unmixed(curvature),
            None if outer is None else self.unmixed(outer),
            effective,
            NormalComponents(weights, (self.seen.point + centres) @ plain, plain.T @ spread),
        )

    def unmixed(self, matrix: FloatArray) -> FloatArray:
        """Return Σ x x' over the rows x of the design from Σ u u' over the rows u = ``mixing`` @ x."""
        back = np.linalg.inv(self.mixing)
        return np.asarray(back @ matrix @ back.T)


def log_unevenness(matrices: FloatArray, even: FloatArray) -> FloatArray:
    """Return the log density, up to a constant, of matrices D^½ R D^½ with D = diag(``even``).

    R is log-normal: the entries of log R are independent normal variables, and u' (log R) u has the standard
    deviation of log φ for every unit vector u.
    """
    ratios = matrices / np.sqrt(even[:, :, None] * even[:, None, :])
    logs = np.log(np.maximum(np.linalg.eigvalsh(ratios), 1e-12))
    i, j = np.triu_indices(logs.shape[1], 1)
    half = np.maximum(np.abs(logs[:, i] - logs[:, j]) / 2, 1e-6)
    normal = ((logs / _DISPERSION) ** 2 + (logs.shape[1] + 1) * (logs + np.log(even))).sum(axis=1) / 2
    return np.asarray(np.log(half / np.sinh(half)).sum(axis=1) - normal)


def clipped_moments(variance: FloatArray, clip: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return P(|r| < clip) and the second and fourth moments of r clipped to ±``clip``.

    r is normal with mean 0. The probability is also the derivative of the clipped value's mean with respect
    to the mean of r.
    """
    k = np.minimum(clip / np.sqrt(variance), 40.0)  # beyond it nothing is clipped
    inside = erf(k / math.sqrt(2))
    density = np.exp(-k * k / 2) / math.sqrt(2 * math.pi)
    second = inside - 2 * k * density + k**2 * (1 - inside)
    fourth = 3 * inside - 2 * density * (k**3 + 3 * k) + k**4 * (1 - inside)
    return inside, variance * second, variance**2 * fourth
