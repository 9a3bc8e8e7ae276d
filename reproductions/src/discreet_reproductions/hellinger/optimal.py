"""The limit: the ε-private mechanism of least expected Hellinger error, by linear programming.

Over all distributions P(r|x) from the datasets x of n records to the posteriors r of such datasets,

    minimise Σ_x w(x) Σ_r P(r|x) H(x, r)   subject to   P(r|x) ≤ e^ε P(r|x') for neighbours,  Σ_r P(r|x) = 1,

with w the prior predictive probability of x. The optimum bounds every ε-private mechanism that releases the
posterior of a dataset; ``Optimal`` is a mechanism that attains it up to rounding: the solution is repaired,
rounded to integers, and released only after every pair of neighbours was checked in exact arithmetic. Proof:
``proofs/optimal.md``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np

from discreet._declarations import as_epsilon, as_prior, as_size
from discreet._numerics.count_vectors import compositions, number_of_compositions
from discreet._numerics.enclosures import ball
from discreet._numerics.log_gamma import log_predictive
from discreet._numerics.neighbours import neighbouring_rows
from discreet._randomness.bulk import enclosed_digits
from discreet._randomness.entropy import Source
from discreet._randomness.integers import categorical
from discreet.errors import DiscreetError, TooLargeError
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.lattice import decoder
from discreet.privacy.guarantee import Guarantee
from discreet_reproductions.arrays import EpsilonLike, FloatArray, IntArray

MAX_N_OF_A_PAIR = 100
MAX_RATIOS = 50_000
"""Three or more levels: as many constraints P(r|x) ≤ e^ε P(r|x') as are solved in seconds (k = 3: n ≤ 12)."""

TOTAL = 2**128
"""The integer weights of every dataset sum to this."""

_TOLERANCE = 1e-10
_RELATIVE_GAP = 1e-5  # accepted between the error of the solution and the bound that its multipliers prove
_ABSOLUTE_GAP = 1e-9
_STEEP = 9.0  # above this ε the constraints are scaled evenly, below on the side that keeps small values
_MAX_PERMUTATIONS = 720
_MARGIN = 1e-7  # share of ε that is kept back for rounding
_FLAT = (
    5e-5  # ε·n up to which the best distribution without data is within this relative distance of the optimum
)
_NEGLIGIBLE = 1e-9  # prior predictive probability of a dataset that may be left out of the program
_USED = 1e-12  # outcomes that no dataset releases with more than this probability are left out


def check_size(n: int, k: int) -> None:
    """Refuses what the linear program cannot solve in seconds."""
    ratios = number_of_compositions(n - 1, k) * k * (k - 1) * number_of_compositions(n, k)
    if (n > MAX_N_OF_A_PAIR) if k == 2 else (ratios > MAX_RATIOS):
        raise TooLargeError(
            f"n={n}, k={k}: the linear program of the optimal mechanism has {ratios:.2g} constraints; it "
            f"is solved for k = 2 up to n = {MAX_N_OF_A_PAIR}, for k = 3 up to n = 12, for more levels up to "
            f"{MAX_RATIOS} constraints. The lattice mechanism works at any size"
        )


class _Program(NamedTuple):
    """What does not depend on ε: all datasets (= candidates), those that the program looks at, neighbours."""

    rows: IntArray
    pairs: IntArray
    """Ordered pairs (x, x') of neighbours among all datasets."""
    kept: IntArray
    """The datasets of the program; the others have a prior predictive probability below 1e-9 each."""
    nearest: IntArray
    """For each dataset the position in ``kept`` of the nearest: a map that brings no neighbours apart."""
    weight: FloatArray
    distance: FloatArray
    """Prior predictive probability, and Hellinger distance to all candidates, of the kept datasets."""


@lru_cache(maxsize=4)
def _program(prior: tuple[float, ...], n: int) -> _Program:
    rows = compositions(n, len(prior))
    log_weight = log_predictive(prior, rows)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    pairs = neighbouring_rows(rows)
    kept = nearest = np.arange(len(rows))
    if len(prior) == 2:
        ends = np.flatnonzero(weight > _NEGLIGIBLE)
        kept = np.arange(ends[0], ends[-1] + 1)
        nearest = np.clip(nearest, kept[0], kept[-1]) - kept[0]
    return _Program(
        rows,
        np.concatenate([pairs, pairs[:, ::-1]]),
        kept,
        nearest,
        weight[kept],
        decoder(prior, n, Fraction(1)).distances[kept],
    )


def _orbits(prior: tuple[float, ...], program: _Program) -> IntArray:
    """Number of the orbit of each (x, r) under permutations of levels that have the same prior parameter.

    Averaging a mechanism over these permutations changes neither its loss nor its expected error, so the
    program needs one variable per orbit.
    """
    size = len(program.rows)
    least = program.kept[:, None] * size + np.arange(size)
    groups = [[i for i, a in enumerate(prior) if a == value] for value in sorted(set(prior))]
    if math.prod(math.factorial(len(group)) for group in groups) <= _MAX_PERMUTATIONS:
        index = {row: i for i, row in enumerate(map(tuple, program.rows.tolist()))}
        for images in itertools.product(*(itertools.permutations(group) for group in groups)):
            target = np.arange(len(prior))
            for group, image in zip(groups, images, strict=True):
                target[group] = image
            moved = np.array([index[row] for row in map(tuple, program.rows[:, target].tolist())])
            np.minimum(least, moved[program.kept][:, None] * size + moved, out=least)
    return np.asarray(np.unique(least.ravel(), return_inverse=True)[1].reshape(least.shape))


class _Solution(NamedTuple):
    distribution: FloatArray
    """P(r|x) of the kept datasets, up to the solver's tolerance."""
    bound: float
    """No ε-private mechanism has a smaller expected error: the multipliers prove it, exact or not."""


@lru_cache(maxsize=32)
def _solve(prior: tuple[float, ...], n: int, epsilon: Fraction) -> _Solution:
    program = _program(prior, n)
    rate = float(epsilon)
    if rate * n <= 1e-9:
        # P(r|x) ≤ e^{εn} P(r|x') for all x, x': no mechanism gains more than that factor on a constant
        # distribution.
        distribution, error = _constant(program)
        return _Solution(distribution, math.exp(-rate * n) * error)
    if rate > 40:  # e^{−ε} is below every tolerance: the truth, repaired
        return _Solution(np.eye(len(program.rows))[program.kept], 0.0)
    orbit = _orbits(prior, program)
    # The dual simplex is faster for two levels unless ε is small; the other order of magnitude of the costs
    # is a second chance with another sense of tolerance.
    methods = ("highs-ds", "highs-ipm") if len(prior) == 2 and rate > 0.2 else ("highs-ipm", "highs-ds")
    for scale, method in itertools.product((1.0, 1000.0), methods):
        solution = _linear_program(program, orbit, rate, method, scale)
        if solution is None:
            continue
        gap = float(program.weight @ (solution.distribution * program.distance).sum(axis=1)) - solution.bound
        if gap <= _RELATIVE_GAP * solution.bound + _ABSOLUTE_GAP:
            return solution
    raise DiscreetError(
        f"the linear program for prior={prior}, n={n}, epsilon={epsilon} was not solved to its tolerance; "
        "the lattice mechanism needs none"
    )


def _linear_program(
    program: _Program, orbit: IntArray, rate: float, method: str, scale: float
) -> _Solution | None:
    """A solution of the program, and the lower bound that its multipliers prove."""
    from scipy import sparse
    from scipy.optimize import linprog

    pairs = program.pairs[np.isin(program.pairs, program.kept).all(axis=1)] - program.kept[0]
    variables = int(orbit.max()) + 1
    cost = np.bincount(orbit.ravel(), (program.weight[:, None] * program.distance).ravel())
    ratios = np.stack([orbit[pairs[:, 0]].ravel(), orbit[pairs[:, 1]].ravel()], axis=1)
    ratios = np.unique(ratios, axis=0)
    ratios = ratios[ratios[:, 0] != ratios[:, 1]]
    # The same constraint in two scalings: 1 and e^ε keeps small values precise, e^{±ε/2} is for a large ε.
    left, right = (math.exp(-rate / 2), math.exp(rate / 2)) if rate > _STEEP else (1.0, math.exp(rate))
    number = np.arange(len(ratios))
    ratio = sparse.csr_matrix(
        (
            np.concatenate([np.full(len(number), left), np.full(len(number), -right)]),
            (np.concatenate([number, number]), ratios.T.ravel()),
        ),
        shape=(len(number), variables),
    )
    _, representative = np.unique(np.sort(orbit, axis=1), axis=0, return_index=True)
    rows = np.repeat(np.arange(len(representative)), len(program.rows))
    total = sparse.csr_matrix(
        (np.ones(len(rows)), (rows, orbit[representative].ravel())), shape=(len(representative), variables)
    )
    solved = linprog(
        scale * cost,
        A_ub=ratio,
        b_ub=np.zeros(len(number)),
        A_eq=total,
        b_eq=np.ones(len(representative)),
        method=method,
        options={"primal_feasibility_tolerance": _TOLERANCE, "dual_feasibility_tolerance": _TOLERANCE},
    )
    if solved.x is None:
        return None
    # For any μ ≤ 0 and every P that keeps the ratios, cost·P ≥ (cost − μ·ratio)·P, and a row whose
    # entries sum to 1 makes that at least its smallest quotient.
    reduced = cost - ratio.T @ np.minimum(solved.ineqlin.marginals, 0.0) / scale
    bound = float(np.minimum.reduceat(reduced[total.indices] / total.data, total.indptr[:-1]).sum())
    return _Solution(np.clip(solved.x, 0.0, 1.0)[orbit], bound)


def _constant(program: _Program) -> tuple[FloatArray, float]:
    """The best distribution that does not look at the data: one posterior, always."""
    errors = program.weight @ program.distance
    distribution = np.zeros_like(program.distance)
    distribution[:, int(np.argmin(errors))] = 1.0
    return distribution, float(errors.min())


def optimal_error(*, prior: Sequence[float], n: int, epsilon: EpsilonLike) -> float:
    """The least expected Hellinger error of any ε-private mechanism, under the prior predictive.

    Mechanisms from the counts of n records (n public, replace-one) to posteriors of n records. Solved for
    two levels up to n = 100 and three up to n = 12. The value is a proved lower bound, within 1e-5 of the
    optimum (relative, plus 1e-9), so that no private mechanism is ever below it.

    >>> round(optimal_error(prior=(1, 1), n=20, epsilon=0.8), 6)
    0.188422
    """
    parameters, size = as_prior(prior), as_size(n)
    check_size(size, len(parameters))
    return max(_solve(parameters, size, as_epsilon(epsilon)).bound, 0.0)


class _Table(NamedTuple):
    outputs: IntArray
    weights: dict[tuple[int, ...], tuple[int, ...]]
    """For the counts of every dataset the weights of the outputs; they are positive and sum to TOTAL."""


@lru_cache(maxsize=16)
def _table(prior: tuple[float, ...], n: int, epsilon: Fraction) -> _Table:
    """The solution as integers whose loss, checked pair by pair in exact arithmetic, is at most ε."""
    program = _program(prior, n)
    rate = min(float(epsilon), 80.0)  # TOTAL < e^89: no two positive weights differ by more
    if float(epsilon) * n <= _FLAT:
        distribution = _constant(program)[0][program.nearest]
    else:
        distribution = _solve(prior, n, epsilon).distribution[program.nearest]
        distribution = _repaired(distribution, program.pairs, rate * (1 - _MARGIN) - 1e-13)
    used = np.flatnonzero(distribution.max(axis=0) > 0)
    weights = tuple(_as_integers(row) for row in distribution[:, used].tolist())
    if not _is_private(weights, program.pairs, epsilon):
        raise DiscreetError(
            f"the optimal table for prior={prior}, n={n}, epsilon={epsilon} could not be rounded within its "
            "budget; use the lattice mechanism"
        )
    outputs = program.rows[used]
    outputs.flags.writeable = False
    return _Table(outputs, dict(zip(map(tuple, program.rows.tolist()), weights, strict=True)))


def _repaired(distribution: FloatArray, pairs: IntArray, rate: float) -> FloatArray:
    """The nearest distribution above the solver's that keeps all ratios, brought back to sum one.

    First the least majorant, max over x' of P(r|x') e^{−rate·d(x,x')}. Then rows of different sums are filled
    up with a distribution q that is the same for all datasets, in an amount that changes between them by a
    factor of at most e^rate because a constant part is added to it.
    """
    distribution = np.where(distribution.max(axis=0) > _USED, distribution, 0.0)
    factor = math.exp(-rate)
    x, y = pairs.T
    while True:
        raised = distribution.copy()
        np.maximum.at(raised, x, factor * distribution[y])
        if np.array_equal(raised, distribution):
            break
        distribution = raised
    missing = distribution.sum(axis=1)
    missing = missing.max() - missing
    constant = 1.01 * float(missing.max()) / math.expm1(rate) + 2.0**-60
    common = distribution.mean(axis=0)
    distribution = distribution + (missing + constant)[:, None] * (common / common.sum())
    return np.asarray(distribution / distribution.sum(axis=1).max(), dtype=np.float64)


def _as_integers(distribution: Sequence[float]) -> tuple[int, ...]:
    """Weights proportional to probabilities, exactly TOTAL in sum; the largest takes the rounding."""
    weights = [int(Fraction(p) * TOTAL) for p in distribution]
    largest = max(range(len(weights)), key=weights.__getitem__)
    weights[largest] += TOTAL - sum(weights)
    return tuple(weights)


def _is_private(weights: Sequence[Sequence[int]], pairs: IntArray, epsilon: Fraction) -> bool:
    """Whether every weight is positive and no ratio of neighbours is above e^ε, in integers."""
    if min(min(row) for row in weights) <= 0:
        return False
    bits = 96
    bound = enclosed_digits(lambda: ball(min(epsilon, Fraction(128))).exp(), bits)
    rows = [np.array(row, dtype=object) for row in weights]
    return all(bool(((rows[x] << bits) <= rows[y] * bound).all()) for x, y in pairs.tolist())


@dataclass(frozen=True)
class Optimal(Mechanism):
    """The best ε-private mechanism for the expected Hellinger error, from a linear program; small n only."""

    name: ClassVar[str] = "optimal"
    words: ClassVar[str] = (
        "The counts were drawn from a table of probabilities that has the least expected error of all "
        "private ones."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_size(self.n, self.k)

    @property
    def guarantee(self) -> Guarantee:
        _ = self._table  # raises unless every pair was checked
        return Guarantee(self.epsilon, basis=f"enumeration of all pairs of datasets: proofs/{self.name}.md")

    @property
    def noise_scale(self) -> float:
        return float((1 if self.k == 2 else 2) / self.epsilon)

    @property
    def _table(self) -> _Table:
        return _table(self.prior, self.n, self.epsilon)

    def _output(self, counts: tuple[int, ...], source: Source) -> tuple[int, ...]:
        outputs, weights = self._table
        return tuple(outputs[categorical(weights[counts], source)].tolist())

    def _log_pmf(self, counts: tuple[int, ...]) -> tuple[IntArray, FloatArray]:
        return self._table.outputs, np.log(self._probabilities(counts))

    def log_pmfs(self, rows: IntArray) -> tuple[IntArray, FloatArray]:
        distributions = [self._probabilities(tuple(row)) for row in rows.tolist()]
        return self._table.outputs, np.log(np.array(distributions))

    def _probabilities(self, counts: tuple[int, ...]) -> FloatArray:
        return np.array([weight / TOTAL for weight in self._table.weights[counts]])

    def _simulate(self, counts: tuple[int, ...], size: int, rng: np.random.Generator) -> IntArray:
        cumulative = np.cumsum(self._probabilities(counts))
        drawn = np.searchsorted(cumulative, rng.random(size) * cumulative[-1], side="right")
        return np.asarray(self._table.outputs[drawn])


def optimal_mechanism(*, prior: Sequence[float], n: int, epsilon: EpsilonLike) -> Optimal:
    """The mechanism that attains :func:`optimal_error` up to rounding, usable like any other.

    Its distribution is a table of integers, drawn exactly; that no pair of neighbouring datasets has a loss
    above ε is checked on these integers. The linear program is solved when the mechanism is first used.
    """
    return Optimal(prior=as_prior(prior), n=as_size(n), epsilon=as_epsilon(epsilon))
