"""Which mechanism, which ε, how many records: answered from public parameters, before any data is opened.

The error of a mechanism is the Hellinger distance between the posterior that it releases and the true one,
on average over its noise and over datasets drawn from the prior predictive, the Dirichlet-multinomial law
DirMult(α, n). Where all datasets and outputs can be listed the figures are exact; else datasets are drawn
with a seeded generator, and the standard error, clustered by dataset, is stated.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from discreet.compositions import compositions, number_of_compositions
from discreet.core import (
    DiscreetError,
    EpsilonLike,
    InvalidInput,
    TooLargeError,
    as_counts,
    as_epsilon,
    as_integer,
    as_prior,
    as_size,
)
from discreet.decoding import MAX_MARGINAL, MAX_WINDOW, log_rising, reduced_log_gamma
from discreet.distance import hellinger, stirling_remainder
from discreet.mechanisms import MECHANISMS, Mechanism, check_options
from discreet.mechanisms.base import MAX_SIMULATED_N
from discreet.mechanisms.counts import LSDim, LSHist, LSZhang, NoisyCounts
from discreet.mechanisms.exponential import EHD, EHDL, EHDS, MAX_ENUMERATED, EHDLCalibrated, MBeta
from discreet.mechanisms.lattice import Lattice
from discreet.mechanisms.optimal import optimal_error

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
Choice: TypeAlias = str | tuple[str, Mapping[str, Any]]
Chosen: TypeAlias = list[tuple[str, dict[str, Any]]]

PREFERENCE = ("lattice", "lshist", "lsdim", "lszhang", "ehdl-calibrated", "ehds", "ehd")
"""Among mechanisms of equal expected error the earlier one is recommended."""

MIN_EPSILON, MAX_EPSILON = Fraction(1, 10_000), Fraction(50)
MAX_N = 10_000_000
"""Where the search for ε and for n ends."""

_CELLS, _QUICK_CELLS = 2_000_000, 200_000  # (dataset, output) pairs that are listed rather than drawn
_CALIBRATED_CANDIDATES = 300  # exact calibrations are in the default table up to this size
_QUICK_SECONDS, _QUICK_DRAWS = 0.15, 40  # for decoding in a quick plan; fewer draws are not worth the time
_SLOW = 0.25  # seconds per dataset from which a mechanism is left out of the default table
_CROSSOVER_MAX_N = 1000
_COUNTS = (LSHist, LSDim, LSZhang)
_HELLINGER = (EHD, EHDS, EHDLCalibrated, EHDL, MBeta)


@dataclass(frozen=True)
class Row:
    """What to expect of one mechanism; errors are Hellinger distances to the true posterior."""

    name: str
    options: Mapping[str, Any]
    expected: float
    standard_error: float
    """Of ``expected``; 0 when it is exact."""
    median: float
    q95: float
    kl: float
    """Expected Kullback–Leibler divergence of the released posterior from the true one, in nats."""
    l1: float
    """Expected ℓ₁ distance between the posterior means."""
    width: float
    """Expected width of the credible interval of one level, read from the released posterior as it is."""
    width_without: float
    """The same of the true posterior, without privacy."""
    method: str
    """``exact``, or ``simulated (N datasets)``."""
    comparable: bool = True
    """Whether it promises the planned ε with δ = 0, as a release that is compared at equal privacy must."""

    @property
    def label(self) -> str:
        return label(self.name, self.options)


@dataclass(frozen=True)
class Crossover:
    """From which n on LSHist beats EHD, as computed, and the bounds of paper A, Corollaries 4.5.1 to 4.5.3.

    The bounds are for "as accurate as one step", k = 1, and constant 1 for the O(·) of the corollaries.
    """

    first: int | None
    """Smallest n at which LSHist has the smaller expected error."""
    above: int | None
    """Smallest n from which on it has; n = 1 can be an exception of its own."""
    bound_lshist_better_above: float
    bound_ehd_better_below: float
    bound_good_set_above: float

    def __str__(self) -> str:
        found = f"none up to {_CROSSOVER_MAX_N}" if self.above is None else f"{self.above}"
        return (
            f"LSHist beats EHD from n = {found} on (computed); bounds of the paper: above "
            f"{self.bound_lshist_better_above:.4g} (Cor. 4.5.1) or {self.bound_good_set_above:.4g} (4.5.3), "
            f"EHD better below {self.bound_ehd_better_below:.4g} (4.5.2)"
        )


@dataclass(frozen=True)
class Plan:
    """The mechanisms that fit public parameters, with the error to expect of each; made by :func:`plan`."""

    prior: tuple[float, ...]
    n: int
    exact_epsilon: Fraction
    rows: tuple[Row, ...]
    limit: float | None
    """Least expected error of any ε-private mechanism from data to posteriors of n records, where the linear
    program can be solved; else None."""
    level: float = 0.95
    error: float | None = None
    """The target that ε or n was solved for."""

    @property
    def epsilon(self) -> float:
        return float(self.exact_epsilon)

    @property
    def best(self) -> str | None:
        """Name of the private mechanism with the least expected error; None if no row promises ε."""
        return None if self.best_row is None else self.best_row.name

    @cached_property
    def best_row(self) -> Row | None:
        return _best(self.rows)

    def row(self, name: str, **options: Any) -> Row:
        """The row of a mechanism, the first of that name unless options say which."""
        for row in self.rows:
            if row.name == name and (not options or dict(row.options) == options):
                return row
        listed = ", ".join(row.label for row in self.rows)
        raise InvalidInput(f"{label(name, options)!r} is not in this plan; it has: {listed}")

    @cached_property
    def crossover(self) -> Crossover | None:
        """From which n on LSHist beats EHD at this ε, beside the bounds of the paper; two levels only."""
        return crossover(self.prior, self.exact_epsilon) if len(self.prior) == 2 else None

    def table(self) -> list[dict[str, Any]]:
        """The rows as plain values."""
        names = ("expected", "standard_error", "median", "q95", "kl", "l1", "width", "width_without")
        return [
            {
                "mechanism": row.name,
                "options": {key: str(value) for key, value in row.options.items()},
                **{name: _number(getattr(row, name)) for name in names},
                "method": row.method,
                "private": row.comparable,
            }
            for row in self.rows
        ]

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return {
            "prior": list(self.prior),
            "n": self.n,
            "epsilon": str(self.exact_epsilon),
            "error": self.error,
            "level": self.level,
            "best": self.best,
            "limit": self.limit,
            "mechanisms": self.table(),
        }

    def header(self) -> list[str]:
        return ["mechanism", "expected", "median", "95 %", "KL", "ℓ₁", "width", "how"]

    def cells(self) -> list[list[str]]:
        """The table as text, one list per row, in the order of :meth:`header`."""
        rows = []
        for row in self.rows:
            error = f"{row.expected:.4f}" + (f" ± {row.standard_error:.4f}" if row.standard_error else "")
            figures = (row.median, row.q95, row.kl, row.l1, row.width)
            rows.append(
                [
                    row.label + ("" if row.comparable else " *"),
                    error,
                    *("–" if math.isnan(value) else f"{value:.4f}" for value in figures),
                    row.method,
                ]
            )
        if self.limit is not None:
            rows.append(["limit", f"{self.limit:.4f}", *["–"] * 5, "linear program"])
        return rows

    def title(self) -> str:
        prior = ", ".join(f"{a:g}" for a in self.prior)
        if self.error is not None:
            return f"Expected error ≤ {self.error:g}: n = {self.n}, ε = {self.epsilon:g}, prior ({prior})"
        return f"Plan for n = {self.n} records, ε = {self.epsilon:g} (replace-one), prior ({prior})"

    def notes(self) -> list[str]:
        """What the table means, and what it recommends."""
        percent = f"{100 * self.level:g} %"
        lines = [
            "Errors are Hellinger distances (0 to 1) between the released and the true posterior, before any "
            f"data; width is that of the released {percent} interval",
        ]
        if self.rows and not math.isnan(self.rows[0].width_without):
            lines[0] += f", {self.rows[0].width_without:.4f} without privacy"
        lines[0] += "."
        if any(not row.comparable for row in self.rows):
            lines.append(f"* does not promise ε = {self.epsilon:g} with δ = 0; for comparison.")
        if self.limit is not None:
            lines.append(
                "The limit is the least error of any mechanism of this ε that releases such posteriors."
            )
        if self.best_row is not None:
            lines.append(f"Best: {self.best_row.label}.")
        if self.crossover is not None:
            lines.append(f"{self.crossover}.")
        return lines

    def __str__(self) -> str:
        cells = [self.header(), *self.cells()]
        widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
        lines = []
        for row in cells:
            middle = [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
            lines.append("  ".join([row[0].ljust(widths[0]), *middle, row[-1]]).rstrip())
        return "\n".join([self.title(), "", *lines, "", *self.notes()])


def label(name: str, options: Mapping[str, Any]) -> str:
    """A mechanism with its options, for people."""
    said = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{name} ({said})" if said else name


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _above(row: Row, least: Row) -> bool:
    """Whether the error of ``row`` is above that of ``least`` by more than rounding and noise explain."""
    noise = 2 * math.hypot(row.standard_error, least.standard_error)
    return row.expected - least.expected > 1e-9 + noise


# ---- what is compared ----------------------------------------------------------------------------------


def default_mechanisms(prior: Sequence[float], n: int) -> Chosen:
    """What a plan compares unless told otherwise: name and options."""
    chosen: Chosen = [(name, {}) for name in ("lattice", "lshist", "lsdim", "lszhang")]
    if _seconds_per_dataset(n, len(prior)) <= _SLOW:
        chosen += [("ehds", {}), ("ehd", {})]
    if number_of_compositions(n, len(prior)) <= _CALIBRATED_CANDIDATES:
        chosen += [("ehd", {"calibration": "exact"}), ("ehdl-calibrated", {})]
    return chosen


def _choices(mechanisms: Iterable[Choice] | str | None) -> Chosen | None:
    if mechanisms is None:
        return None
    listed: Chosen = []
    for choice in [mechanisms] if isinstance(mechanisms, str) else mechanisms:
        name, options = (choice, {}) if isinstance(choice, str) else (choice[0], dict(choice[1]))
        listed.append((check_options(name, options).name, options))
    if not listed:
        raise InvalidInput("mechanisms is empty; name at least one, or leave it out")
    return listed


def _rows(chosen: Chosen | None, setting: _Setting, epsilon: Fraction) -> tuple[Row, ...]:
    """A row per mechanism; of the default ones those that work at this size."""
    rows = []
    for name, options in setting.default if chosen is None else chosen:
        try:
            m = MECHANISMS[name](prior=setting.prior, n=setting.n, epsilon=epsilon, **options)
            rows.append(setting.row(m, options))
        except (InvalidInput, TooLargeError):
            if chosen is not None or name == Lattice.name:
                raise
    return tuple(rows)


def _best(rows: Iterable[Row]) -> Row | None:
    """The least expected error among equally private rows; what noise cannot tell apart by preference."""
    rows = [row for row in rows if row.comparable]
    if not rows:
        return None
    least = min(rows, key=lambda row: row.expected)
    ties = [row for row in rows if not _above(row, least)]
    order = [*PREFERENCE, *(row.name for row in rows if row.name not in PREFERENCE)]
    return min(ties, key=lambda row: order.index(row.name))


# ---- errors of one mechanism ---------------------------------------------------------------------------


class _Setting:
    """Everything about (prior, n) that several mechanisms share."""

    def __init__(
        self,
        prior: tuple[float, ...],
        n: int,
        *,
        level: float = 0.95,
        seed: int = 0,
        quick: bool = False,
        only_expected: bool = False,
    ) -> None:
        self.prior, self.n, self.k = prior, n, len(prior)
        self.level, self.seed, self.quick, self.only_expected = level, seed, quick, quick or only_expected
        self.datasets = number_of_compositions(n, self.k)
        self._distances: list[tuple[IntArray, FloatArray]] = []

    @property
    def default(self) -> Chosen:
        if self.only_expected:
            return [(cls.name, {}) for cls in (Lattice, *_COUNTS)]
        return default_mechanisms(self.prior, self.n)

    @cached_property
    def rows(self) -> IntArray:
        return compositions(self.n, self.k)

    @cached_property
    def weight(self) -> FloatArray:
        """Prior predictive probabilities of all datasets."""
        columns = [log_rising(a, column) for a, column in zip(self.prior, self.rows.T, strict=True)]
        log_weight = np.sum(columns, axis=0)
        weight = np.exp(log_weight - log_weight.max())
        return np.asarray(weight / weight.sum(), dtype=np.float64)

    def distances(self, outputs: IntArray) -> FloatArray:
        """Hellinger distances from all datasets to all outputs, kept for the next mechanism that asks."""
        for known, distance in self._distances:
            if known.shape == outputs.shape and np.array_equal(known, outputs):
                return distance
        gap = np.zeros((self.datasets, len(outputs)))
        for a, x, r in zip(self.prior, self.rows.T, outputs.T, strict=True):
            table = reduced_log_gamma(a, np.arange(2 * self.n + 1) / 2)
            own = 0.5 * table[::2]
            gap += own[x][:, None] + own[r] - table[x[:, None] + r]
        total = outputs.sum(axis=1)
        if (total != self.n).any():
            half = reduced_log_gamma(sum(self.prior), np.arange(2 * self.k * self.n + 1) / 2)
            gap -= 0.5 * (half[2 * self.n] + half[2 * total]) - half[self.n + total]
        np.maximum(gap, 0.0, out=gap)
        distance = np.sqrt(-np.expm1(-gap))
        self._distances = [*self._distances[-1:], (outputs, distance)]
        return distance

    def drawn(self, size: int) -> IntArray:
        """The first ``size`` datasets of one stream from the prior predictive."""
        rng = np.random.default_rng([self.seed, 0])
        parts = []
        for start in range(0, size, 64):  # blocks, such that a longer stream begins with the shorter one
            theta = rng.dirichlet(self.prior, 64)
            parts.append(rng.multinomial(self.n, theta)[: size - start])
        return np.concatenate(parts)

    @cached_property
    def width_without(self) -> float:
        if self.datasets * self.k <= 20_000:
            return float(self.weight @ self.widths(self.rows))
        return float(self.widths(self.drawn(400)).mean())

    def widths(self, outputs: IntArray) -> FloatArray:
        """Width of the equal-tailed interval of one level, averaged over the levels, for each output."""
        total = outputs.sum(axis=1)
        levels = range(1 if self.k == 2 and (total == self.n).all() else self.k)
        width = np.zeros(len(outputs))
        for i in levels:
            pairs, inverse = np.unique(
                np.stack([outputs[:, i], total - outputs[:, i]]), axis=1, return_inverse=True
            )
            a = self.prior[i] + pairs[0]
            b = sum(self.prior[:i] + self.prior[i + 1 :]) + pairs[1]
            width += _interval_width(a, b, self.level)[inverse.ravel()]
        return width / len(levels)

    def row(self, m: Mechanism, options: Mapping[str, Any]) -> Row:
        figures, method = self._figures(m)
        claim = m.guarantee
        comparable = claim.exact_epsilon is not None and claim.exact_epsilon <= m.epsilon and not claim.delta
        return Row(m.name, options, method=method, comparable=comparable, **figures)

    def _figures(self, m: Mechanism) -> tuple[dict[str, float], str]:
        if self.datasets * _listed_outputs(m) <= (_QUICK_CELLS if self.quick else _CELLS):
            try:
                return self._exact(m), "exact"
            except TooLargeError:  # the law of the lattice mechanism at a tiny ε
                pass
        return self._simulated(m)

    def _exact(self, m: Mechanism) -> dict[str, float]:
        outputs, law = self._law(m)
        distance = self.distances(outputs)
        weighted = self.weight[:, None] * law
        figures = _only_expected(float((weighted * distance).sum()), 0.0)
        if self.only_expected:
            return figures
        median, q95 = _weighted_quantiles(distance, weighted, (0.5, 0.95))
        return {
            "expected": figures["expected"],
            "standard_error": 0.0,
            "median": median,
            "q95": q95,
            "kl": self._exact_kl(outputs, law),
            "l1": self._exact_l1(outputs, weighted),
            "width": float(weighted.sum(axis=0) @ self.widths(outputs)),
            "width_without": self.width_without,
        }

    def _law(self, m: Mechanism) -> tuple[IntArray, FloatArray]:
        """Outputs and P(output|dataset) of all datasets."""
        if isinstance(m, Lattice):
            return self._lattice_law(m)
        if isinstance(m, _HELLINGER):
            exponent = self.distances(self.rows) * -np.array([[m.rate(tuple(x))] for x in self.rows.tolist()])
            law = np.exp(exponent - exponent.max(axis=1, keepdims=True))
            return self.rows, law / law.sum(axis=1, keepdims=True)
        together = m.log_pmfs(self.rows)
        if together is not None:
            return together[0], np.exp(together[1])
        laws = [m.log_pmf(x) for x in self.rows.tolist()]
        return laws[0][0], np.exp([log_probability for _, log_probability in laws])

    def _lattice_law(self, m: Lattice) -> tuple[IntArray, FloatArray]:
        # The law of the clipped noisy counts t is base(t)·exp(−ε‖t − x‖₁/2): one dataset gives the base.
        corner = tuple(self.rows[-1].tolist())
        noisy, base = m._clipped_pair(corner) if self.k == 2 else m._clipped_classes(corner)
        half = float(m.epsilon) / 2
        base = base + half * np.abs(noisy - np.array(corner)).sum(axis=1)
        released = _positions(m.decoder.decode_many(noisy), self.n)
        order = np.argsort(released, kind="stable")
        keys, starts = np.unique(released[order], return_index=True)
        noisy, base = noisy[order], base[order]
        law = np.empty((self.datasets, len(keys)))
        for part in np.array_split(np.arange(self.datasets), max(1, self.datasets * len(noisy) >> 20)):
            log_law = np.broadcast_to(base, (len(part), len(base))).copy()
            for i in range(self.k):
                log_law -= half * np.abs(self.rows[part, i][:, None] - noisy[:, i])
            law[part] = np.add.reduceat(np.exp(log_law), starts, axis=1)
        all_keys = _positions(self.rows, self.n)
        wide = np.zeros((self.datasets, self.datasets))
        wide[:, np.searchsorted(all_keys, keys)] = law
        return self.rows, wide

    def _exact_kl(self, outputs: IntArray, law: FloatArray) -> float:
        """Σ_x w(x) Σ_r P(r|x) KL(Dir(α+x) ‖ Dir(α+r)), from the means of what depends on r."""
        from scipy.special import gammaln, psi

        prior = np.array(self.prior)
        released, true = outputs + prior, self.rows + prior
        size, total = released.sum(axis=1), float(true[0].sum())
        of_released = law @ (gammaln(released).sum(axis=1) - gammaln(size))
        of_true = gammaln(true).sum(axis=1) - gammaln(total)
        slope = psi(true) - psi(total)
        moved = ((law @ released - true) * slope).sum(axis=1)
        return max(float(self.weight @ (of_released - of_true - moved)), 0.0)

    def _exact_l1(self, outputs: IntArray, weighted: FloatArray) -> float:
        released, true = (rows + np.array(self.prior) for rows in (outputs, self.rows))
        released /= released.sum(axis=1, keepdims=True)
        true /= true.sum(axis=1, keepdims=True)
        return sum(
            float((weighted * np.abs(true[:, i][:, None] - released[:, i])).sum()) for i in range(self.k)
        )

    def _simulated(self, m: Mechanism) -> tuple[dict[str, float], str]:
        number, each = _sample_sizes(m, self.quick)
        true = self.drawn(number)
        rng = np.random.default_rng([self.seed, 1, zlib.crc32(m.name.encode())])
        drawn, plain = self.simulate(m, true, each, rng)
        error = self._errors(true, drawn)
        means = error.reshape(number, each).mean(axis=1)
        expected, noise = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(number)
        if plain is not None:
            expected, noise = self._with_control(m, error, self._errors(true, plain), rng)
        method = f"simulated ({number} datasets)"
        if self.only_expected:
            return _only_expected(expected, noise), method
        a, b = np.repeat(true, each, axis=0) + np.array(self.prior), drawn + np.array(self.prior)
        sizes = a.sum(axis=1, keepdims=True), b.sum(axis=1, keepdims=True)
        median, q95 = np.quantile(error, (0.5, 0.95), method="inverted_cdf")
        figures = {
            "expected": expected,
            "standard_error": noise,
            "median": float(median),
            "q95": float(q95),
            "kl": float(kl_divergence(a, b).mean()),
            "l1": float(np.abs(a / sizes[0] - b / sizes[1]).sum(axis=1).mean()),
            "width": float(self.widths(drawn[:: max(1, len(drawn) // 1000)]).mean()),
            "width_without": self.width_without,
        }
        return figures, method

    def _errors(self, true: IntArray, released: IntArray) -> FloatArray:
        prior = np.array(self.prior)
        each = len(released) // len(true)
        return np.asarray(hellinger(released + prior, np.repeat(true, each, axis=0) + prior))

    def _with_control(
        self, m: Mechanism, error: FloatArray, plain: FloatArray, rng: np.random.Generator
    ) -> tuple[float, float]:
        """The mean error of the lattice mechanism, with that of the noisy counts as control variate.

        Noisy counts cost nothing, decoding does: E[error] = E[error − b·plain] + b·E[plain], the second
        mean from many more draws, independent of the first.
        """
        assert isinstance(m, Lattice)
        more = 2000 if self.quick else 10_000
        b = 0.0
        if len(error) >= 32 and (spread := float(plain.var())) > 0:  # fewer draws do not tell b
            b = min(max(float(np.cov(error, plain, ddof=0)[0, 1]) / spread, 0.0), 1.0)
        true = self.drawn(len(error) + more)[len(error) :]
        control = self._errors(true, np.clip(true + m.simulate_noise(more, rng), 0, self.n))
        rest = error - b * plain
        variance = float(rest.var(ddof=1)) / len(error) + b * b * float(control.var(ddof=1)) / more
        return min(max(float(rest.mean() + b * control.mean()), 0.0), 1.0), math.sqrt(variance)

    def simulate(
        self, m: Mechanism, true: IntArray, each: int, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray | None]:
        """``each`` outputs for every row of true counts; for the lattice also what was decoded."""
        if m.n > MAX_SIMULATED_N:
            raise TooLargeError(f"n={m.n}: plans are simulated up to n = 2**53; draw works at any n")
        if isinstance(m, Lattice):  # decoded together: every distinct vector once
            noise = m.simulate_noise(len(true) * each, rng)
            noisy = np.clip(np.repeat(true, each, axis=0) + noise, 0, self.n)
            return m.decoder.decode_many(noisy), noisy
        return np.concatenate([m._simulate(tuple(x), each, rng) for x in true.tolist()]), None


def _only_expected(expected: float, standard_error: float) -> dict[str, float]:
    rest = dict.fromkeys(("median", "q95", "kl", "l1", "width", "width_without"), math.nan)
    return {"expected": expected, "standard_error": standard_error, **rest}


def _positions(rows: IntArray, n: int) -> IntArray:
    """Keys that are in the order of :func:`compositions`."""
    key = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T[:-1]:
        key = key * (n + 1) + column
    return key


def _weighted_quantiles(
    values: FloatArray, weights: FloatArray, probabilities: Sequence[float]
) -> list[float]:
    """Smallest value v with P(value ≤ v) ≥ p for each p, for values in [0, 1] without sorting them all."""
    bins = np.minimum((values * 4096).astype(np.int64), 4095).ravel()
    values, weights = values.ravel(), weights.ravel()
    mass = np.bincount(bins, weights, minlength=4096)
    cumulative = np.cumsum(mass)
    result = []
    for p in probabilities:
        wanted = (p - 1e-12) * cumulative[-1]
        at = int(np.searchsorted(cumulative, wanted))
        inside = np.flatnonzero(bins == at)
        inside = inside[np.argsort(values[inside], kind="stable")]
        below = cumulative[at] - mass[at] + np.cumsum(weights[inside])
        result.append(float(values[inside[min(int(np.searchsorted(below, wanted)), len(inside) - 1)]]))
    return result


def _interval_width(a: FloatArray, b: FloatArray, level: float) -> FloatArray:
    from scipy.special import betaincinv, ndtri

    low, high = (1 - level) / 2, (1 + level) / 2
    total = a + b
    normal = 2 * float(ndtri(high)) * np.sqrt((a / total) * (b / total) / (total + 1))
    near = np.minimum(a, b) > 1e12  # where Beta quantiles lose digits, and the Beta is normal
    safe_a, safe_b = np.where(near, 1.0, a), np.where(near, 1.0, b)
    exact = betaincinv(safe_a, safe_b, high) - betaincinv(safe_a, safe_b, low)
    return np.where(near, normal, exact)


def kl_divergence(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray:
    """KL(Dir(a) ‖ Dir(b)) in nats along the last axis, stable for large parameters.

    With g(a, b) = lnΓ(b) − lnΓ(a) − (b − a)ψ(a) it is Σᵢ g(aᵢ, bᵢ) − g(Σa, Σb).
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64))
    return np.asarray(np.maximum(_bregman(a, b).sum(axis=-1) - _bregman(a.sum(axis=-1), b.sum(axis=-1)), 0.0))


def _bregman(a: FloatArray, b: FloatArray) -> FloatArray:
    """lnΓ(b) − lnΓ(a) − (b − a)ψ(a) ≥ 0; for a ≥ 10 the leading terms of Stirling's formula cancelled."""
    from scipy.special import gammaln, psi

    small = a < 10
    t = np.where(small, 10.0, a)
    d = np.where(small, 0.0, b - a)
    y = d / t
    near = np.where(np.abs(y) < 0.05, y, 0.0)
    series = np.zeros_like(near)
    for j in range(16, 1, -1):  # (1+y)ln(1+y) − y = y² Σ_{j≥2} (−y)^{j−2} / (j(j−1))
        series = series * -near + 1.0 / (j * (j - 1))
    log = np.log1p(y)
    curve = np.where(np.abs(y) < 0.05, series * near * near, (1.0 + y) * log - y)
    u = 1.0 / (t * t)
    slope = -u * (1 / 12 - u * (1 / 120 - u * (1 / 252 - u * (1 / 240 - u * (1 / 132)))))
    remainder = stirling_remainder(t + d) - stirling_remainder(t) - d * slope
    large = t * curve + 0.5 * (y - log) + remainder
    own = np.where(small, a, 1.0)
    direct = gammaln(np.where(small, b, 1.0)) - gammaln(own) - (np.where(small, b, 1.0) - own) * psi(own)
    return np.asarray(np.where(small, direct, large), dtype=np.float64)


# ---- what it costs -------------------------------------------------------------------------------------


def _listed_outputs(m: Mechanism) -> float:
    """How many outputs have to be listed per dataset for an exact figure."""
    if isinstance(m, Lattice):
        if not m.decoder.exhaustive:
            return math.inf
        return float(m.n + 1 if m.k == 2 else (m.n + 1) ** m.k)
    if isinstance(m, NoisyCounts):
        return float((m.n + 1) ** m.noisy_coordinates)
    return float(number_of_compositions(m.n, m.k))


def _seconds_per_decoding(m: Lattice) -> float:
    """About how long the decoder takes for one vector of noisy counts; measured on an ordinary machine."""
    if m.decoder.exhaustive:
        return 2e-5 + 2e-10 * number_of_compositions(m.n, m.k) ** 2
    if m.k == 2:
        return 3e-3 + 3e-6 * min(m.n, 90 / float(m.epsilon), MAX_WINDOW)
    reach = (2 * (45 + 4 * m.k) + 4 * sum(m.prior)) / float(m.epsilon)
    return m.k * (2e-4 + 1e-6 * min(m.n, 2 * reach, MAX_MARGINAL))


def _seconds_per_dataset(n: int, k: int) -> float:
    """About how long an exponential mechanism takes until it can draw for one dataset."""
    candidates = number_of_compositions(n, k)
    if candidates <= MAX_ENUMERATED:
        return 1e-3 + 4e-8 * candidates
    return 0.04 + 8e-4 * k * k + (0.3 if n > 10**8 else 0.0)


def _sample_sizes(m: Mechanism, quick: bool) -> tuple[int, int]:
    """Number of datasets and draws for each, from public parameters alone."""
    if isinstance(m, Lattice):
        seconds, most = (_QUICK_SECONDS, 400) if quick else (0.6, 4000)
        number = int(min(max(seconds / _seconds_per_decoding(m), 12), most))
        unit = 1 << (number.bit_length() - 2)  # few different sizes, so that a change of ε rarely changes it
        return number // unit * unit, 1
    if isinstance(m, _HELLINGER):
        return int(min(max((0.15 if quick else 0.8) / _seconds_per_dataset(m.n, m.k), 8), 400)), 20
    return (200, 5) if quick else (1000, 10)


# ---- the plan ------------------------------------------------------------------------------------------


def plan(
    *,
    prior: Sequence[float],
    n: int | None = None,
    epsilon: EpsilonLike | None = None,
    error: float | None = None,
    mechanisms: Iterable[Choice] | str | None = None,
    level: float = 0.95,
    seed: int = 0,
    quick: bool = False,
) -> Plan:
    """What error to expect of each mechanism, from public parameters only; or which ε or n an error needs.

    Give two of ``n``, ``epsilon`` and ``error``. With n and ε the plan compares the mechanisms. With n and
    ``error`` it also finds the smallest ε, to four digits and rounded up, at which the best mechanism has at
    most that expected error; with ε and ``error`` the smallest n from which on it has (with very few records
    the posterior is close to the prior and any mechanism does well, which is not what is asked). The search
    looks at ``mechanisms`` where they are given, else at the lattice and count mechanisms.

    ``mechanisms``: names, or pairs (name, options). ``level``: of the credible intervals whose width is
    compared. ``seed``: of the simulations; the same seed gives the same plan. ``quick``: expected errors
    only, of the lattice and count mechanisms unless ``mechanisms`` says otherwise, in about 0.3 seconds.

    >>> p = plan(prior=(1, 1), n=20, epsilon=0.8)
    >>> p.best, round(p.row("lattice").expected, 4), round(p.limit, 4)
    ('lattice', 0.1884, 0.1884)
    """
    parameters = as_prior(prior)
    chosen = _choices(mechanisms)
    if not 0 < level < 1:
        raise InvalidInput(f"level={level!r} must be a probability between 0 and 1, such as 0.95")
    number = as_integer(seed, "seed")
    if number < 0:
        raise InvalidInput(f"seed={seed!r} must not be negative")
    if sum(value is None for value in (n, epsilon, error)) != 1:
        raise InvalidInput(
            "give two of n, epsilon and error: n and epsilon to compare the mechanisms, n and error to find "
            "epsilon, epsilon and error to find n"
        )
    size = None if n is None else as_size(n)
    budget = None if epsilon is None else as_epsilon(epsilon)
    target = None if error is None else _as_error(error)
    ask = _Question(parameters, chosen, float(level), number, quick, target)
    if size is None:
        assert budget is not None
        return ask.with_size(budget)
    return ask.with_epsilon(size) if budget is None else ask.compare(size, budget)


def _as_error(error: Any) -> float:
    try:
        value = float(error)
    except (TypeError, ValueError):
        value = math.nan
    if isinstance(error, bool) or not 0 < value < 1:
        raise InvalidInput(
            f"error={error!r} must be between 0 and 1: it is a Hellinger distance, 0 for the true posterior"
        )
    return value


@dataclass(frozen=True)
class _Question:
    prior: tuple[float, ...]
    chosen: Chosen | None
    level: float
    seed: int
    quick: bool
    target: float | None = None
    known: dict[tuple[int, Fraction, bool], float] = field(default_factory=dict)

    def compare(self, n: int, epsilon: Fraction) -> Plan:
        setting = _Setting(self.prior, n, level=self.level, seed=self.seed, quick=self.quick)
        rows = _rows(self.chosen, setting, epsilon)
        limit = None
        if not self.quick:
            try:
                limit = optimal_error(prior=self.prior, n=n, epsilon=epsilon)
            except DiscreetError:  # too large, or not solved
                limit = None
        return Plan(self.prior, n, epsilon, rows, limit, self.level, self.target)

    def error(self, n: int, epsilon: Fraction, chosen: Chosen | None) -> float:
        """Expected error of the best mechanism among ``chosen``, or the quick ones."""
        key = (n, epsilon, chosen is self.chosen)
        if key not in self.known:
            setting = _Setting(self.prior, n, seed=self.seed, quick=self.quick, only_expected=True)
            best = _best(_rows(chosen, setting, epsilon))
            if best is None:
                raise InvalidInput(
                    "none of the mechanisms promises epsilon with delta = 0; add one, such as lattice"
                )
            self.known[key] = best.expected
        return self.known[key]

    def _smallest(self, search: Callable[[Chosen | None], int], reached: Callable[[int], bool]) -> int:
        """Smallest index that reaches the target: found for the lattice, then checked for all mechanisms."""
        if self.chosen is None:
            found = search([(Lattice.name, {})])
            if reached(found) and (found == 0 or not reached(found - 1)):
                return found
        return search(self.chosen)

    def with_epsilon(self, n: int) -> Plan:
        """The plan at the smallest ε that reaches the target."""
        assert self.target is not None
        target, last = self.target, _index_of(MAX_EPSILON)

        def search(chosen: Chosen | None) -> int:
            def value(index: int) -> float:
                return self.error(n, _epsilon_at(index), chosen)

            high = _index_of(Fraction(1))
            while value(high) > target:  # by decades, up or down from 1
                if high == last:
                    raise InvalidInput(
                        f"error={target:g} is not reached with n={n}: the best at epsilon = "
                        f"{float(MAX_EPSILON):g} is {value(high):.4g}"
                    )
                high = min(high + 9000, last)
            low = max(high - 9000, 0)
            while low and value(low) <= target:
                low, high = max(low - 9000, 0), low
            return _first_below(
                low, high, value, target, lambda i: float(_epsilon_at(i)), lambda x: _index_of(Fraction(x))
            )

        index = self._smallest(search, lambda i: self.error(n, _epsilon_at(i), self.chosen) <= target)
        while True:
            found = self.compare(n, _epsilon_at(index))
            if index >= last or (found.best_row is not None and found.best_row.expected <= target):
                return found
            index = min(index + max(1, (1000 + index % 9000) // 500), last)

    def with_size(self, epsilon: Fraction) -> Plan:
        """The plan at the smallest n from which on the target is reached."""
        assert self.target is not None
        target = self.target
        sizes = [2**i for i in range(MAX_N.bit_length()) if 2**i < MAX_N] + [MAX_N]

        def search(chosen: Chosen | None) -> int:
            low, before = 0, 0.0  # without records there is no error
            for size in sizes:
                value = self.error(size, epsilon, chosen)
                if value > target:
                    low = size
                elif value <= before:
                    break  # past the rise that small n can have
                before = value
            if low == MAX_N:
                raise InvalidInput(
                    f"error={target:g} is not reached with epsilon={float(epsilon):g}: the best at "
                    f"n = {MAX_N} is {value:.4g}"
                )
            if not low:
                return 1
            high = min(size for size in sizes if size > low)
            return _first_below(low, high, lambda i: self.error(i, epsilon, chosen), target, float, round)

        n = self._smallest(search, lambda i: i > 0 and self.error(i, epsilon, self.chosen) <= target)
        while True:
            found = self.compare(n, epsilon)
            if n >= MAX_N or (found.best_row is not None and found.best_row.expected <= target):
                return found
            n = min(n + max(1, n // 500), MAX_N)


def _epsilon_at(index: int) -> Fraction:
    """The numbers of four significant digits from MIN_EPSILON on, in order."""
    decade, step = divmod(index, 9000)
    return MIN_EPSILON * Fraction((1000 + step) * 10**decade, 1000)


def _index_of(epsilon: Fraction) -> int:
    decade, left = 0, epsilon / MIN_EPSILON
    while left >= 10:
        decade, left = decade + 1, left / 10
    return 9000 * decade + math.floor(1000 * left) - 1000


def _first_below(
    low: int,
    high: int,
    value: Callable[[int], float],
    target: float,
    place: Callable[[int], float],
    index: Callable[[float], int],
) -> int:
    """Smallest index in [low, high] whose value is at most ``target``; values fall, value(high) is below.

    Interpolates log value over log place(index) between the ends of the bracket, and halves it when that is
    slow. ``index`` is the inverse of ``place``, rounded.
    """
    if (above := value(low)) <= target:
        return low
    below = value(high)
    slow = False
    while high - low > 1:
        width = high - low
        share = 0.5
        if above > target > below > 0:
            share = math.log(above / target) / math.log(above / below)
        if slow:
            share = 0.5 * (share + (0.0 if share > 0.5 else 1.0))  # towards the far end
        a, b = math.log(place(low)), math.log(place(high))
        middle = min(max(index(math.exp(a + share * (b - a))), low + 1), high - 1)
        at = value(middle)
        if at <= target:
            high, below = middle, at
        else:
            low, above = middle, at
        slow = not slow and high - low > width // 2
    return high


def crossover(prior: Sequence[float], epsilon: EpsilonLike) -> Crossover:
    """From which n on LSHist has a smaller expected error than EHD, two levels, by exact computation."""
    parameters, budget = as_prior(prior, 2), as_epsilon(epsilon)
    return _crossover(parameters, budget)


@lru_cache(maxsize=64)
def _crossover(prior: tuple[float, ...], epsilon: Fraction) -> Crossover:
    @cache
    def better(n: int) -> bool:
        setting = _Setting(prior, n, only_expected=True)
        lshist, ehd = (
            setting._exact(cls(prior=prior, n=n, epsilon=epsilon))["expected"] for cls in (LSHist, EHD)
        )
        return lshist < ehd

    high = 4
    while not better(high) and high < _CROSSOVER_MAX_N:
        high = min(2 * high, _CROSSOVER_MAX_N)
    above = None
    if better(high):
        low = 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if better(middle) else (middle, high)
        above = 1 if high == 2 and better(1) else high
    first = next((n for n in range(1, (above or 1) + 1) if better(n)), None)
    q = math.exp(-float(epsilon))
    good = math.exp(float(epsilon) / (2 * math.sqrt(1 - math.pi / 4)))
    return Crossover(
        first,
        above,
        bound_lshist_better_above=3 / (q * (1 - q)),
        bound_ehd_better_below=(2 * q + 1) / (1 - 0.5 * (q + q * q)),
        bound_good_set_above=3 * good / (1 - q),
    )


# ---- for releases and plots ----------------------------------------------------------------------------


@lru_cache(maxsize=256)
def best_mechanism(prior: tuple[float, ...], n: int, epsilon: Fraction) -> str:
    """What ``mechanism="auto"`` means: the best of a quick plan for these public parameters.

    Where fewer than 40 decodings of noisy counts fit into 0.15 seconds (many levels, or small ε with many
    records) the quick plan is left out and the answer is ``lattice``. Wherever both were compared, another
    mechanism was better only where all had an expected error above 0.9 (``tests/test_planning.py``).
    """
    m = Lattice(prior=prior, n=n, epsilon=epsilon)
    if n > MAX_SIMULATED_N or _seconds_per_decoding(m) * _QUICK_DRAWS > _QUICK_SECONDS:
        return m.name
    return plan(prior=prior, n=n, epsilon=epsilon, quick=True).best or m.name


def chosen_mechanisms(mechanisms: Iterable[Choice] | str | None, prior: tuple[float, ...], n: int) -> Chosen:
    """What to compare: what was asked for, or what a plan compares by default and works at this size."""
    return _choices(mechanisms) or default_mechanisms(prior, n)


def simulated_errors(
    name: str,
    options: Mapping[str, Any],
    prior: tuple[float, ...],
    n: int,
    epsilon: EpsilonLike,
    *,
    size: int = 1000,
    seed: int = 0,
    counts: Iterable[Any] | None = None,
) -> FloatArray:
    """About ``size`` Hellinger errors of a mechanism at ``counts``, or at prior predictive datasets."""
    m = MECHANISMS[name](prior=prior, n=n, epsilon=as_epsilon(epsilon), **options)
    setting = _Setting(prior, n, seed=seed)
    if counts is not None:
        true = np.array([as_counts(counts, m.k, n)], dtype=np.int64)
        return setting._errors(true, m.simulate(true[0], size, seed))
    number = min(_sample_sizes(m, quick=False)[0], size)
    true = setting.drawn(number)
    drawn, _ = setting.simulate(m, true, -(-size // number), np.random.default_rng([seed, 1]))
    return setting._errors(true, drawn)


__all__ = [
    "Crossover",
    "Plan",
    "Row",
    "best_mechanism",
    "chosen_mechanisms",
    "crossover",
    "default_mechanisms",
    "kl_divergence",
    "label",
    "plan",
    "simulated_errors",
]
