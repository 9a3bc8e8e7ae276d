"""Quantiles of very many mixtures of Betas at once.

Row r is the distribution Σ weight·Beta(a + j, s + σj), summed over parts and over j = 0, 1, …: the
distribution of a share whose count is uncertain. Here σ = −1 if the total count is known, and σ = 0 if the
count of the other levels is known. Neighbouring distribution functions differ by one term,

    I_x(a, s) − I_x(a + 1, s + σ) = T(a, s) = Γ(a + s)/(Γ(a + 1)Γ(s))·x^a (1 − x)^{s + σ},

so a row needs one incomplete Beta function and a sum of terms, whose logarithms change linearly in j when x
changes: one exponential for each entry and each step of Newton's method.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from discreet._typing import FloatArray, IntArray
from discreet.distributions.base import QuantileSearch
from discreet.distributions.beta_dirichlet import beta_cdf, beta_logpdf

_ENTRIES = 1 << 17
_LOWEST, _HIGHEST = 1e-300, 1 - 1e-16


@dataclass(frozen=True)
class BetaPart:
    """One part of every row: Σ_j mass[r, j]·Beta(a[r] + j, s[r] + σj); the parts of a row sum to 1."""

    mass: FloatArray
    a: FloatArray
    s: FloatArray
    sigma: int

    @classmethod
    def of(cls, mass: FloatArray, a: FloatArray, s: FloatArray, sigma: int, least: float = 1e-14) -> BetaPart:
        """Build a part; leading and trailing weights below ``least`` times a row's maximum are dropped."""
        first, inner = trim(mass, least)
        return cls(inner, a + first, s + sigma * first, sigma)

    def flat(self) -> FloatArray:
        """The weights and both parameters of the Betas, for a part with a single row."""
        steps = np.arange(self.mass.shape[1])
        return np.stack([self.mass[0], self.a[0] + steps, self.s[0] + self.sigma * steps])

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return Σ mass·E[θ] and Σ mass·E[θ²] of each row."""
        steps = np.arange(self.mass.shape[1])
        a = self.a[:, None] + steps
        total = a + (self.s[:, None] + self.sigma * steps if self.sigma else self.s[:, None])
        first = self.mass * (a / total)
        return first.sum(axis=1), np.asarray((first * ((a + 1) / (total + 1))).sum(axis=1))


def trim(mass: FloatArray, least: float) -> tuple[IntArray, FloatArray]:
    """Drop leading and trailing entries of each row that are below ``least`` times the row's maximum.

    Returns the position of the first entry kept in each row, and the trimmed rows, padded with zeros.
    """
    is_large = mass > least * mass.max(axis=1, keepdims=True)
    first = is_large.argmax(axis=1)
    length = int((mass.shape[1] - is_large[:, ::-1].argmax(axis=1) - first).max())
    index = first[:, None] + np.arange(length)
    inner = np.take_along_axis(mass, np.minimum(index, mass.shape[1] - 1), axis=1)
    return first, np.where(index < mass.shape[1], inner, 0.0)


def pad_rows(distributions: Sequence[FloatArray]) -> FloatArray:
    """Return distributions of different lengths as rows of one array, padded with zeros."""
    mass = np.zeros((len(distributions), max(map(len, distributions))))
    for row, distribution in zip(mass, distributions, strict=True):
        row[: len(distribution)] = distribution
    return mass


def _stack(parts: list[BetaPart]) -> Iterator[BetaPart]:
    """Yield the same parts, many small ones stacked as rows of one: row p·R + r is row r of part p."""
    start = 0
    while start < len(parts):
        end, width = start + 1, parts[start].mass.shape[1]
        while end < len(parts) and parts[end].sigma == parts[start].sigma:
            width = max(width, parts[end].mass.shape[1])
            if (end + 1 - start) * len(parts[end].a) * width > _ENTRIES:
                break
            end += 1
        taken, start = parts[start:end], end
        width = max(part.mass.shape[1] for part in taken)
        mass = [np.pad(part.mass, ((0, 0), (0, width - part.mass.shape[1]))) for part in taken]
        a, s = (np.concatenate([getattr(part, name) for part in taken]) for name in ("a", "s"))
        yield BetaPart(np.concatenate(mass), a, s, taken[0].sigma)


class _Terms:
    """The terms T(a + j, s + σj) of one part: logarithms at a first x, updated for other x."""

    def __init__(self, part: BetaPart, first: FloatArray) -> None:
        self.part = part
        x = np.tile(first, len(part.a) // len(first))
        steps = np.arange(part.mass.shape[1])
        self.a = part.a[:, None] + steps
        s = part.s[:, None] + part.sigma * steps
        self.inside = s > 0  # windows are padded with zero mass beyond the total
        s = np.where(self.inside, s, 1.0)
        at = x[:, None]
        with np.errstate(divide="ignore"):
            # T = x/a · density, times 1 − x where σ = 0
            base = beta_logpdf(self.a, s, at) + np.log(at) - np.log(self.a)
        self.base = base if part.sigma else base + np.log1p(-at)
        self.x = x
        self.tail = np.cumsum(part.mass[:, ::-1], axis=1)[:, ::-1]

    def at(self, rows: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the distribution function and the density of each row, times the part's weight."""
        part = self.part
        x = np.tile(rows, len(self.x) // len(rows))
        up, down = np.log(x / self.x), np.log1p((self.x - x) / (1 - self.x))
        move = part.a * up + (part.s + part.sigma) * down
        slope = up + part.sigma * down
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.exp(self.base + move[:, None] + slope[:, None] * np.arange(part.mass.shape[1]))
        terms[~self.inside] = 0.0
        first = beta_cdf(part.a, part.s, x) * self.tail[:, 0]
        cdf = first - np.einsum("rj,rj->r", terms[:, :-1], self.tail[:, 1:])
        pdf = np.einsum("rj,rj,rj->r", terms, part.mass, self.a) / x
        pdf = pdf if part.sigma else pdf / (1 - x)
        return cdf.reshape(-1, len(rows)).sum(axis=0), pdf.reshape(-1, len(rows)).sum(axis=0)


def mean_and_deviation(parts: list[BetaPart]) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the standard deviation of every row."""
    first, second = (np.sum(m, axis=0) for m in zip(*(part.moments() for part in parts), strict=True))
    return first, np.sqrt(np.maximum(second - first**2, 0.0))


def spread_of_means(parts: list[BetaPart]) -> tuple[FloatArray]:
    """Return Var(E[θ | count]) of every row: the part of the variance that is due to uncertain counts."""
    squares = []
    for part in parts:
        steps = np.arange(part.mass.shape[1])
        a = part.a[:, None] + steps
        total = a + (part.s[:, None] + part.sigma * steps)
        squares.append((part.mass * (a / total) ** 2).sum(axis=1))
    first = np.sum([part.moments()[0] for part in parts], axis=0)
    return (np.maximum(np.sum(squares, axis=0) - first**2, 0.0),)


def quantiles(parts: list[BetaPart], *probabilities: float) -> list[FloatArray]:
    """Return the quantiles of every row, for each probability between 0 and 1."""
    mean, deviation = mean_and_deviation(parts)
    terms = [_Terms(part, np.clip(mean, _LOWEST, _HIGHEST)) for part in _stack(parts)]
    return [_quantile(terms, mean, deviation, probability) for probability in probabilities]


def _quantile(terms: list[_Terms], mean: FloatArray, deviation: FloatArray, probability: float) -> FloatArray:
    from scipy.special import betaincinv

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        strength = np.clip(mean * (1 - mean) / deviation**2 - 1, 1e-6, 1e300)
        start = betaincinv(mean * strength, (1 - mean) * strength, probability)
    x = np.clip(np.where(np.isfinite(start) & (start > 1e-12 * mean), start, mean), _LOWEST, _HIGHEST)
    search = QuantileSearch(probability, x, np.full(len(x), _LOWEST), np.full(len(x), _HIGHEST))
    while search.improve(
        *(np.sum(v, axis=0) for v in zip(*(term.at(search.x) for term in terms), strict=True))
    ):
        pass
    return search.x
