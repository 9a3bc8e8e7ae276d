"""Every family: divergences against numerical integration, worst cases against all datasets, exact draws."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import optimize
from scipy.special import gammaincc, gammainccinv, ndtri

import discreet
from conformance.families import ROWS, Row
from discreet._numerics.enclosures import above, enclose
from discreet._randomness.entropy import SeededEntropy
from discreet._registry import FAMILIES
from discreet.posterior_sampling.families.categorical import BetaFamily, DirichletFamily
from discreet.posterior_sampling.families.rates import Exponential, Poisson
from discreet.posterior_sampling.family import Natural, Pair, renyi
from discreet.privacy.curves import Curve, Gaussian
from pace import now_or_slow
from statistical.goodness import ALPHA, chi_square

# Near 1 the densities of SciPy are noisy at the last digits, which quad reports; the comparison decides.
pytestmark = pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")

SCALINGS = [(Fraction(1), Fraction(1)), (Fraction(1, 3), Fraction(1)), (Fraction(1), Fraction(1, 4))]
ORDERS = (1.25, 2.0, 5.0)
EPSILONS = (0.0, 0.1, 0.5, 1.0, 2.5)
ONE_NUMBER = [row for row in ROWS if row.family.name != "normal"]
"""Rows where one number carries all of the difference between two posteriors."""


def test_every_family_has_a_row() -> None:
    assert {row.family.name for row in ROWS} == set(FAMILIES)


def one_dimensional(row: Row, pair: Pair) -> tuple[Any, Any]:
    """SciPy distributions of one number that carries all of the difference between two posteriors."""
    first, second = pair
    if row.of_shares and len(first) > 2:
        # The ratio depends on θᵢ/(θᵢ+θⱼ), which is Beta(aᵢ, aⱼ).
        first, second = two(first, pair), two(second, pair)
    if row.family.records == "vectors" and not row.of_shares:
        # Along the line through the two means; across it the distributions agree.
        precision = first[-1]
        distance = math.sqrt(sum(float((p - q) / precision) ** 2 for p, q in zip(*pair, strict=True)))
        first, second = (Fraction(0), precision), (Fraction(distance) * precision, precision)
    return row.scipy(first), row.scipy(second)


def integral(function: Any, p: Any, q: Any, kink: float | None = None) -> float:
    """Over the support, in the variable in which the densities are smooth and decay at both ends.

    ``kink``: the level of ln p − ln q at which the function has a corner.
    """
    low, high = p.support()
    unit = 1.0
    if math.isfinite(high):
        place, slope = (lambda y: 1 / (1 + np.exp(-y))), (lambda x: x * (1 - x))
        ends = np.array([-200.0, -60, -20, -8, -4, -2, -1, 0, 1, 2, 4, 8, 20, 36])
    elif math.isfinite(low):
        place, slope = np.exp, (lambda x: x)
        ends = np.array([-200.0, -60, -20, -8, -4, -2, -1, 0, 1, 2, 3, 4, 5, 6])
    else:
        place, slope = (lambda y: y), np.ones_like
        unit = p.std()
        centres, width = [p.mean(), q.mean()], 12 * unit
        ends = np.array([min(centres) - 3 * width, min(centres) - width, *sorted(centres)])
        ends = np.append(ends, [max(centres) + width, max(centres) + 3 * width])
    if kink is not None:

        def above_kink(y: float) -> float:
            return float(p.logpdf(place(y)) - q.logpdf(place(y)) - kink)

        signs = [above_kink(y) > 0 for y in ends]
        for i, (one, other) in enumerate(itertools.pairwise(signs)):
            if one != other:
                ends = np.sort(np.append(ends, optimize.brentq(above_kink, ends[i], ends[i + 1], xtol=1e-14)))
                break

    # Gauss's rule on pieces of one unit: the integrands are analytic, and the tests ask for nine digits.
    corner, weight = np.polynomial.legendre.leggauss(30)
    total = []
    for a, b in itertools.pairwise(ends):
        pieces = np.linspace(a, b, max(2, math.ceil((b - a) / unit) + 1))
        middle, half = (pieces[1:] + pieces[:-1]) / 2, (pieces[1:] - pieces[:-1]) / 2
        x = place(middle[:, None] + half[:, None] * corner)
        total.append(float(half @ (function(x) * slope(x)) @ weight))
    return math.fsum(total)


def some_pairs(row: Row, r: Fraction, m: Fraction) -> list[Pair]:
    """Where posteriors are Dirichlet distributions, of which two parameters differ: the rest is the same
    formula."""
    pairs = [pair for pair in row.neighbours(3, r, m) if not row.of_shares or len(two(pair[0], pair)) <= 2]
    return pairs[:: max(1, len(pairs) // 4)]


def curve_of(row: Row, r: Fraction, m: Fraction) -> Curve:
    return row.family.curve(row.start(m), 3, r)


_LATER = ("defined", "normal", "multinomial", "geometric")


def _for_every_day(row: Row) -> bool:
    return row.family.name not in _LATER and len(row.prior) < 3


UNHURRIED = now_or_slow(ROWS, _for_every_day)
"""All rows; curves without a closed form, and distributions that are again Dirichlet, wait for the slow
tests."""


@pytest.mark.parametrize("row", ONE_NUMBER, ids=str)
def test_renyi_divergence_is_the_integral(row: Row) -> None:
    checked = 0
    for r, m in SCALINGS:
        for pair in some_pairs(row, r, m):
            p, q = one_dimensional(row, pair)
            for order in ORDERS:
                value = renyi(row.family, pair, Fraction(order))
                mixed = [Fraction(order) * a + (1 - Fraction(order)) * b for a, b in zip(*pair, strict=True)]
                heavy = not isinstance(curve_of(row, r, m), Gaussian) and min(mixed) < 0.75
                if value is None or heavy:
                    continue  # infinite, or an integrand whose tail is too heavy for quad
                checked += 1

                def density(x: Any, order: float = order, p: Any = p, q: Any = q) -> Any:
                    return np.exp(order * p.logpdf(x) + (1 - order) * q.logpdf(x))

                wanted = math.log(integral(density, p, q)) / (order - 1)
                assert above(value) == pytest.approx(wanted, abs=1e-9)
    assert checked >= 12


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_hockey_stick_is_the_integral(row: Row) -> None:
    for r, m in SCALINGS[:2]:
        eta = row.start(m)
        curve = row.family.curve(eta, 3, r)
        gaussian = isinstance(curve, Gaussian)
        exact: Any = row.family
        if not gaussian and not row.profiled(eta):
            continue
        for pair in (exact.extreme_pairs if gaussian else exact.profile_pairs)(eta, 3, r):
            p, q = one_dimensional(row, pair)
            for epsilon in EPSILONS:
                if isinstance(curve, Gaussian):
                    value, rough = curve.profile(epsilon), float(curve.profiles(np.array([epsilon]))[0])
                else:
                    stick = functools.partial(exact.hockey_stick, pair, Fraction(epsilon))
                    value = above(enclose(stick, absolute=1e-300))
                    rough = float(exact.hockey_sticks(pair, np.array([epsilon]))[0])

                def part(x: Any, epsilon: float = epsilon, p: Any = p, q: Any = q) -> Any:
                    return np.maximum(0.0, p.pdf(x) - math.exp(epsilon) * q.pdf(x))

                assert value == pytest.approx(integral(part, p, q, kink=epsilon), abs=1e-9)
                assert value <= rough * (1 + 1e-12) + 1e-15 <= value * (1 + 2e-6) + 1e-11


@pytest.mark.parametrize("size", [1, 30, 1000, 10**5, 10**7, 10**9])
@pytest.mark.parametrize("family", [DirichletFamily(), Poisson((0, 10)), Exponential((0, 10))], ids=str)
def test_profiles_in_floats_stay_within_their_margin(family: Any, size: int) -> None:
    for eta, r in itertools.product([(Fraction(size), Fraction(2 * size))], [Fraction(1), Fraction(1, 1000)]):
        for pair in family.extreme_pairs(eta, 100, r):
            rough = family.hockey_sticks(pair, np.array(EPSILONS))
            for epsilon, bound in zip(EPSILONS, rough, strict=True):
                exact = above(
                    enclose(functools.partial(family.hockey_stick, pair, Fraction(epsilon)), absolute=1e-300)
                )
                assert exact <= bound + 1e-300
                assert bound <= exact * (1 + 1e-4) + 1e-15


@pytest.mark.parametrize("row", UNHURRIED, ids=str)
def test_no_pair_of_datasets_exceeds_the_curve_and_one_attains_it(row: Row) -> None:
    for r, m in SCALINGS:
        for n in row.sizes:
            curve = row.family.curve(row.start(m), n, r)
            pairs = set(row.neighbours(n, r, m))
            for order in ORDERS:
                divergences = [renyi(row.family, pair, Fraction(order)) for pair in pairs]
                if any(value is None for value in divergences):
                    assert curve.rdp(order) == math.inf
                    continue
                largest = max(above(value) for value in divergences)
                assert largest <= curve.rdp(order) * (1 + 1e-12)
                if row.bounded:
                    assert curve.rdp(order) <= 1.3 * largest or order > 0.95 * curve.max_order
                else:
                    assert largest == pytest.approx(curve.rdp(order), rel=1e-9)
            if curve.gaussian_squared is not None:
                continue  # its profile is that of its μ, which the Rényi divergences have just pinned down
            if not row.profiled(row.start(m)):
                for epsilon in () if row.bounded else EPSILONS:  # whose curve is slow
                    followed = curve.rdp_delta_at(epsilon)
                    assert 0.95 * followed <= curve.delta_at(epsilon) <= 1.05 * followed
                continue
            for epsilon, value in zip(EPSILONS, largest_profiles(row, pairs), strict=True):
                assert value <= curve.delta_at(epsilon) * (1 + 1e-10)
                assert value == pytest.approx(curve.delta_at(epsilon), rel=1e-2, abs=1e-12)


def largest_profiles(row: Row, pairs: set[Pair]) -> list[float]:
    """For each ε the largest sup P(A) − e^ε Q(A) over pairs, A over half-lines (the ratios are monotone).

    From distribution functions on a grid, without the formula for the best half-line.
    """
    from scipy.special import betainc, expit, gammainc, gammaincc

    reduced = {
        tuple(float(x) for eta in pair for x in (eta if len(eta) == 2 else two(eta, pair))) for pair in pairs
    }
    a, b, c, d = np.array(sorted(reduced)).T[:, :, None]
    y = np.linspace(-30, 30, 3001)
    if row.of_shares:
        below, rest = expit(y), expit(-y)
        tails = [(betainc(a, b, below), betainc(c, d, below)), (betainc(b, a, rest), betainc(d, c, rest))]
    else:
        x = np.exp(y / 4)
        tails = [(t(a, b * x), t(c, d * x)) for t in (gammainc, gammaincc)]
    return [max(float(np.max(p - math.exp(epsilon) * q)) for p, q in tails) for epsilon in EPSILONS]


def two(eta: Natural, pair: Pair) -> Natural:
    """The coordinates in which a pair differs."""
    return tuple(x for x, p, q in zip(eta, *pair, strict=True) if p != q)


@pytest.mark.parametrize("row", UNHURRIED, ids=str)
def test_exact_profile_is_below_the_renyi_conversion(row: Row) -> None:
    for r, m in SCALINGS:
        curve = row.family.curve(row.start(m), 6, r)
        for epsilon in EPSILONS[1:]:
            slack = 1 if row.profiled(row.start(m)) else 1.05
            assert 0 < curve.delta_at(epsilon) <= slack * curve.rdp_delta_at(epsilon)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_curve_is_read_back(row: Row) -> None:
    guarantee = discreet.Guarantee(None, curve=row.family.curve(row.start(Fraction(1, 3)), 5, Fraction(2, 3)))
    again = discreet.Guarantee.from_dict(guarantee.to_dict())
    assert again == guarantee
    assert again.rdp(1.1) == guarantee.rdp(1.1)


@pytest.mark.parametrize("row", UNHURRIED, ids=str)
def test_draws_have_the_distribution_of_the_posterior(row: Row) -> None:
    """Cells of a coarse grid, chi-square against SciPy's distribution function."""
    dataset = tuple(row.records[i % len(row.records)] for i in range(6))
    eta = row.eta(dataset, Fraction(1), Fraction(1))
    grid, source = Fraction(1, 64), SeededEntropy(7)
    number = 4000 if row in ONE_NUMBER else 1000
    drawn = np.array([float(row.family.draw(eta, grid, source)[0]) for _ in range(number)])
    distribution = marginal(row, eta)
    cells = np.floor(drawn * 64).astype(int)
    assert np.array_equal((cells + 0.5) / 64, drawn)
    edges = np.arange(cells.min(), cells.max() + 2)
    probability = np.diff(distribution.cdf(edges / 64))
    probability[0] += distribution.cdf(edges[0] / 64)
    probability[-1] += distribution.sf(edges[-1] / 64)
    statistic, freedom = chi_square(np.bincount(cells - cells.min()), number * probability)
    from scipy.stats import chi2

    assert chi2.sf(statistic, freedom) > ALPHA


def marginal(row: Row, eta: Natural) -> Any:
    if row.of_shares:
        return row.scipy((eta[0], sum(eta[1:], Fraction(0))))
    return row.scipy((eta[0], eta[-1]) if row.family.records == "vectors" else eta)


@pytest.mark.parametrize("row", [row for row in ONE_NUMBER if not row.bounded], ids=str)
def test_draw_is_the_inverse_of_the_distribution_function(row: Row) -> None:
    """Fed with chosen bits for U, the output is the cell in which SciPy's quantile of U lies."""

    class Bits:
        def __init__(self, value: int) -> None:
            self.value = value

        def below(self, bound: int) -> int:
            return self.value

    eta = row.eta(tuple(row.records[i % len(row.records)] for i in range(4)), Fraction(1), Fraction(1))
    distribution, grid = marginal(row, eta), Fraction(1, 1000)
    wrong = 0
    for i in range(1, 200):
        drawn = row.family.draw(eta, grid, Bits((i << 64) // 200))[0]
        wrong += math.floor(drawn / grid) != math.floor(Fraction(float(distribution.ppf(i / 200))) / grid)
    assert wrong == 0


def several(row: Row, eta: Natural) -> list[Any]:
    """The distribution function of each number of a draw."""
    if row.of_shares:
        return [row.scipy((one, sum(eta, Fraction(0)) - one)).cdf for one in eta]
    if row.family.name == "normal":
        rate = float(eta[2] - eta[1] ** 2 / (2 * eta[0]))
        return [row.scipy(eta).cdf, lambda deviation: gammaincc(float(eta[3]), rate / deviation**2)]
    return [row.scipy((one, eta[-1])).cdf for one in eta[:-1]]


SEVERAL = [row for row in ROWS if row not in ONE_NUMBER or len(row.start(Fraction(1))) > 2]


@pytest.mark.parametrize("row", now_or_slow(SEVERAL, _for_every_day), ids=str)
def test_every_number_of_a_draw_has_its_distribution(row: Row) -> None:
    """Where θ is several numbers, for two sizes of data: each of them, in twenty cells of equal mass."""
    from scipy.stats import chi2

    for size, r in ((2, Fraction(1, 2)), (9, Fraction(1))):
        eta = row.eta(tuple(row.records[i % len(row.records)] for i in range(size)), r, Fraction(1))
        source = SeededEntropy(size)
        drawn = np.array(
            [[float(x) for x in row.family.draw(eta, Fraction(1, 2**40), source)] for _ in range(500)]
        )
        distributions = several(row, eta)
        assert drawn.shape == (500, len(distributions))
        for distribution, values in zip(distributions, drawn.T, strict=True):
            counts = np.bincount(np.minimum((20 * distribution(values)).astype(int), 19), minlength=20)
            assert chi2.sf(float(((counts - 25) ** 2 / 25).sum()), 19) > ALPHA / 10


@pytest.mark.parametrize("n", [1, 3, 40])
def test_a_normal_draw_is_the_inverse_one_number_after_the_other(n: int) -> None:
    """Fed with chosen bits: the cell of the deviation's quantile, and of the mean's given that deviation."""

    class Same:
        def __init__(self, value: int) -> None:
            self.value = value

        def below(self, bound: int) -> int:
            return self.value

    (row,) = (row for row in ROWS if row.family.name == "normal")
    eta = row.eta(tuple(row.records[i % len(row.records)] for i in range(n)), Fraction(1), Fraction(1))
    rate, grid = float(eta[2] - eta[1] ** 2 / (2 * eta[0])), Fraction(1, 1000)
    for i in range(1, 200, 7):
        mean, deviation = row.family.draw(eta, grid, Same((i << 64) // 200))
        exact = math.sqrt(rate / gammainccinv(float(eta[3]), i / 200))
        centre = float(eta[1] / eta[0]) + exact / math.sqrt(eta[0]) * float(ndtri(i / 200))
        assert [math.floor(x / grid) for x in (mean, deviation)] == [
            math.floor(Fraction(x) / grid) for x in (centre, exact)
        ]


def test_a_draw_far_in_a_tail_is_found() -> None:
    family = BetaFamily()
    eta = (Fraction(5), Fraction(100))

    class Extreme:
        def __init__(self, value: int) -> None:
            self.value = value

        def below(self, bound: int) -> int:
            return self.value if bound == 1 << 64 else 0

    smallest = family.draw(eta, Fraction(1, 2**40), Extreme(0))[0]
    largest = family.draw(eta, Fraction(1, 2**40), Extreme((1 << 64) - 1))[0]
    distribution = marginal(ROWS[0], eta)
    assert float(smallest) < distribution.ppf(2.0**-60) < distribution.isf(2.0**-60) < float(largest) < 1
