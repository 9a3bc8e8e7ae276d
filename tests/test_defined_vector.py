"""Families of two and three parameters defined by formulas: masses, bounds, exact draws, and all places."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import eigh
from scipy.special import betaln, gammaln, polygamma

import discreet
from discreet.cli import main
from discreet.numerics.enclosures import above, ball
from discreet.posterior_sampling.families import defined, defined_vector
from discreet.posterior_sampling.families.defined_vector import _cover, _Laws, _near, _rough, _variances
from discreet.posterior_sampling.family import Family, Natural, renyi
from discreet.randomness import log_concave
from discreet.randomness.entropy import SeededEntropy
from discreet.randomness.log_concave import LogConcave
from statistical.goodness import ALPHA, chi_square

INF = math.inf
TWO = Family.define(
    log_partition="log(1 + exp(t1)) + log(1 + exp(t2))", statistic=("x1", "x2"), bounds=((0, 1), (0, 1))
)
TIED = Family.define(
    log_partition="t1**2 / 2 + t2**2 / 2 + t1 * t2 / 2", statistic="x1, x2", bounds=((-1, 1), (-1, 1))
)
CATEGORIES = Family.define(
    log_partition="log(1 + exp(t1) + exp(t2))", statistic=("x1", "x2"), values=[(0, 0), (1, 0), (0, 1)]
)
WEIGHTS = Family.define(
    log_partition="-t1**2 / (4 * t2) - log(-2 * t2) / 2",
    statistic=("x", "x**2"),
    values=[(x / 2, x * x / 4) for x in range(-2, 3)],
    support=((-INF, INF), (-INF, 0)),
)
STARS = [(k, k * k) for k in range(1, 6)]
RATINGS = Family.define(
    log_partition="log(" + " + ".join(f"exp({a}*t1 + {b}*t2)" for a, b in STARS) + ")",
    statistic=("x", "x**2"),
    values=STARS,
)


def bounds(law: _Laws, cells: Any) -> tuple[Any, Any, Any]:
    """Of cells near one law: above their covariances, those in the middles, and whether they are seen."""
    above, own, seen = (part[0] for part in law.bounds(cells[None]))
    return above, own, seen


def two(chi: Any, nu: float) -> float:
    return float(sum(betaln(one, nu - one) for one in chi))


def tied(chi: Any, nu: float) -> float:
    inverse = np.linalg.inv(np.array([[1.0, 0.5], [0.5, 1.0]]) * nu)
    return float(
        np.array(chi) @ inverse @ chi / 2 + math.log(2 * math.pi) + np.log(np.linalg.det(inverse)) / 2
    )


def categories(chi: Any, nu: float) -> float:
    return float(gammaln([*chi, nu - sum(chi)]).sum() - gammaln(nu))


def weights(chi: Any, nu: float) -> float:
    """−t2 is a Gamma variable, and t1 normal given it: ∫∫ exp(χ·t) (−2t2)^{ν/2} exp(νt1²/4t2)."""
    rate, shape = chi[1] - chi[0] ** 2 / nu, nu / 2 + 1.5
    constant = nu / 2 * math.log(2) + math.log(4 * math.pi / nu) / 2
    return float(gammaln(shape) - shape * math.log(rate) + constant)


KNOWN = [
    (TWO, two, [((2.4, 3.0), 6.0), ((0.6, 40.0), 41.0), ((2.4, 300.0), 700.0)]),
    (TIED, tied, [((0.0, 0.0), 5.0), ((300.0, -200.0), 400.0)]),
    (CATEGORIES, categories, [((5.0, 5.0), 15.0), ((2.0, 9.0), 50.0)]),
    (WEIGHTS, weights, [((0.0, 20.0), 30.0), ((20.0, 50.0), 100.0)]),
]


@pytest.mark.parametrize(("family", "exact", "points"), KNOWN, ids=["two", "tied", "categories", "weights"])
def test_the_mass_of_a_posterior_is_that_in_closed_form(family: Any, exact: Any, points: Any) -> None:
    for chi, nu in points:
        law = family.laws(np.array([chi]), nu)
        assert law.seen[0]
        assert law.log_masses[0] == pytest.approx(exact(chi, nu), abs=1e-6)
        exactly = family.log_partition([ball(part) for part in (*chi, nu)])
        assert float(exactly.mid()) == pytest.approx(exact(chi, nu), abs=1e-9)


def test_the_divergence_of_ratings_is_the_integral() -> None:
    """A law without a closed form, against Gauss's rule on a lattice of small squares."""
    first, second = (Fraction(60), Fraction(210), Fraction(20)), (Fraction(61), Fraction(215), Fraction(20))
    node, weight = np.polynomial.legendre.leggauss(12)
    # In sums and differences the law is round enough for squares.
    ends = np.linspace(-1, 1, 81)
    axis = ((ends[1:] + ends[:-1])[:, None] / 2 + node * np.diff(ends)[:, None] / 2).ravel()
    share = np.tile(weight / len(ends[1:]), len(ends) - 1)
    a, b = np.meshgrid(14 * axis, 3 * axis, indexing="ij")
    t1, t2 = a - 6 * b, b
    law = np.log(np.exp(np.array([k * t1 + k * k * t2 for k in range(1, 6)])).sum(axis=0))

    def mass(eta: Natural) -> float:
        return math.log(
            float(share @ np.exp(float(eta[0]) * t1 + float(eta[1]) * t2 - 20 * law - 20) @ share)
        )

    mixed = tuple(2 * p - q for p, q in zip(first, second, strict=True))
    wanted = mass(mixed) - 2 * mass(first) + mass(second)
    found = renyi(RATINGS, (first, second), Fraction(2))
    assert found is not None
    assert float(found.mid()) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    "alpha",
    [
        (0.339, 0.808, 0.341),
        (0.166, 0.338, 0.228),
        (0.327, 4.71, 0.394),
        (5.0, 2.0, 8.0),
        (0.02, 0.03, 0.05),
        (0.001, 5.0, 5.0),
        (0.943, 4.033, 0.029),
    ],
    ids=str,
)
def test_covariances_are_no_less_than_in_closed_form(alpha: tuple[float, ...]) -> None:
    """Weak priors have corners that nodes step over: what half of the nodes miss is added."""
    exact = np.diag(polygamma(1, alpha[:2])) + polygamma(1, alpha[2])
    for level in (0, 1):
        law = CATEGORIES.laws(np.array([alpha[:2]]), sum(alpha), level=level)
        found = law.covariances[0]
        assert not law.seen[0] or (np.linalg.eigvalsh(found - exact) > -1e-9).all()
        assert not law.seen[0] or np.trace(found) < 1.004 * np.trace(exact)
    assert law.seen[0] == (min(alpha) > 0.1)


def test_the_bound_holds_where_moves_are_tiny() -> None:
    """There nothing is lost but what the nodes miss: D_λ is λ/2 times the variance of the move."""
    alpha, r = [Fraction(value) for value in (0.33922546, 0.80811662, 0.34055118)], Fraction(1, 10**7)
    exact = np.diag(polygamma(1, [float(a) for a in alpha[:2]])) + polygamma(1, float(alpha[2]))
    variance = max(float(move @ exact @ move) for move in CATEGORIES.moves) * float(r) ** 2
    bound = CATEGORIES.renyi_bound((*alpha[:2], sum(alpha)), 1, r, 2.0)
    assert variance <= bound <= 1.007 * variance


@pytest.mark.parametrize(
    ("shift", "nu", "mean", "level"),
    [
        (30, 0.275, 0.942, 1),
        (45, 0.602, 0.827, 0),
        (45, 0.602, 0.827, 1),
        (128, 2.45, 0.706, 0),
        (20, 19, 1.4, 1),
    ],
)
@pytest.mark.parametrize("d", [2, 3])
def test_where_floats_overflow_the_law_does_not_end(
    d: int, shift: int, nu: float, mean: float, level: int
) -> None:
    """exp(46·t) is no double where the law still has mass: three values, far from zero, against a sum."""
    family: Any = Family.define(
        log_partition=f"log(exp({shift}*t1) + exp({shift + 1}*t1) + exp({shift + 2}*t1)) + t2**2/2"
        + " + t3**2/2" * (d == 3),
        statistic=("x1", "x2", "x3")[:d],
        bounds=((shift, shift + 2), (-1, 1), (-1, 1))[:d],
    )
    law = family.laws(np.array([[(shift + mean) * nu, 0.0, 0.0][:d]]), nu, level=level)
    t = np.linspace(-60 / (mean * nu), 60 / ((2 - mean) * nu), 100_001)
    density = np.exp(nu * (mean * t - np.logaddexp(np.logaddexp(0, t), 2 * t)))
    exact = float(np.cov(t, aweights=density, ddof=0))
    assert law.seen[0] == (shift == 20)
    assert not law.seen[0] or exact <= law.covariances[0][0, 0] <= 1.004 * exact


def test_one_parameter_does_not_end_where_floats_overflow_either() -> None:
    """Years, not centred: long doubles overflow where 7 in a million of the variance is left."""
    bounds = []
    for year in (0, 2400):
        family: Any = Family.define(
            log_partition=f"log(exp({year}*t) + exp({year + 1}*t) + exp({year + 2}*t))",
            bounds=(year, year + 2),
        )
        cells = 4.0 * year + np.array([3.99, 4.01])
        bounds.append(float(defined._in_cells(family, cells, 4.0, 800)[1][0]))
    assert bounds[0] < 1.000001 * bounds[1]


def test_sharp_bends_of_a_formula_are_within_the_margin() -> None:
    """A value with a weight of e⁻³⁹, a weak prior: all nodes and half of them agree, and miss as much."""
    bend, nu, chi = 39.23894, 0.37973, 0.46221
    family: Any = Family.define(
        log_partition=f"log(1 + exp(t1) + exp(2*t1 - {bend})) + t2**2/2",
        statistic=("x1", "x2"),
        bounds=((0, 2), (-1, 1)),
    )
    law = family.laws(np.array([[chi, 0.0]]), nu, level=0)
    t = np.linspace(-60 / chi, bend + 60 / (2 * nu - chi), 200_001)
    density = np.exp(chi * t - nu * np.logaddexp(np.logaddexp(0, t), 2 * t - bend))
    exact = float(np.cov(t, aweights=density, ddof=0))
    assert law.seen[0]
    assert 0.997 * exact < law.covariances[0][0, 0] < exact
    bound = family.renyi_bound((Fraction(chi), Fraction(0), Fraction(nu)), 1, Fraction(1, 10**6), 2.0)
    assert 4 * exact + 4 / nu <= 1e12 * bound < INF  # of a move of (2, 2)


@pytest.mark.parametrize("scale", [1.0, 1e13])
def test_units_of_a_statistic_do_not_matter(scale: float) -> None:
    family = Family.define(
        log_partition=f"log(1 + exp({scale!r} * t1)) + log(1 + exp(t2))",
        statistic=("x1", "x2"),
        bounds=((0, scale), (0, 1)),
    )
    eta = family.natural(family.prior((0.4 * scale, 0.5, 8)))
    assert family.curve(eta, 60, Fraction(1, 40)).rdp(2) == pytest.approx(0.00077, rel=0.2)


@pytest.mark.parametrize("strength", [3, 8])
def test_laws_that_floats_cannot_tell_do_not_warn(strength: int) -> None:
    normal = Family.define(
        log_partition="-t1**2/(4*t2) - log(-2*t2)/2",
        statistic=("x", "x**2"),
        values=((-1, 1), (0, 0), (1, 1)),
        support=((-math.inf, math.inf), (-math.inf, 0)),
    )
    eta = (Fraction(strength, 10), Fraction(7 * strength, 10), Fraction(strength))
    assert normal.order_limit(eta, 1, Fraction(1)) is not None


def test_a_curve_without_a_bound_says_that_everything_may_leak() -> None:
    eta, r = (Fraction(1, 100), Fraction(1, 100), Fraction(1, 50)), Fraction(1, 1000)
    assert TWO.renyi_bound(eta, 1, r, 1.5) == INF
    assert TWO.curve(eta, 1, r).delta_at(1.0) == pytest.approx(1.0)


def test_a_parameter_that_the_formula_does_not_use_is_drawn_all_the_same() -> None:
    family = Family.define(
        log_partition="log(1 + exp(t1))",
        statistic=("x1", "x2"),
        bounds=((0, 1), (0, 1)),
        support=((-INF, INF), (-1, 1)),
    )
    eta = family.natural(family.prior((0.5, 0.5, 8)))
    drawn = family.draw(eta, Fraction(1, 64), SeededEntropy(1))
    assert -1 < drawn[1] < 1


def test_draws_have_their_law_where_the_formula_divides_by_a_parameter() -> None:
    """−t2 is a Gamma variable, and t1 normal given it; boxes of the envelope lie across t2 = 0."""
    chi, nu, source = (9, 25), 40, SeededEntropy(3)
    eta = tuple(map(Fraction, (*chi, nu)))
    drawn = [[float(part) for part in WEIGHTS.draw(eta, Fraction(1, 2**40), source)] for _ in range(300)]
    t1, t2 = np.array(drawn).T
    law = stats.gamma(nu / 2 + 1.5, scale=1 / (chi[1] - chi[0] ** 2 / nu))
    given = stats.norm(-2 * t2 * chi[0] / nu, np.sqrt(-2 * t2 / nu))
    for shares in (law.cdf(-t2), given.cdf(t1)):
        observed = np.bincount((10 * shares).astype(int), minlength=10)
        statistic, freedom = chi_square(observed, np.full(10, 30.0))
        assert stats.chi2.sf(statistic, freedom) > ALPHA


def test_data_in_the_place_of_a_family_are_not_quoted() -> None:
    for secret in (np.array([[0.123456, 2.0]]), [0.123456]):
        with pytest.raises(discreet.InvalidInput, match="by its name, not by a") as refused:
            discreet.posterior_sample(TWO, secret, prior=(1, 1), epsilon=1, delta="1e-6")
        assert "0.123456" not in str(refused.value)


@pytest.mark.parametrize(
    ("n", "r", "order"), [(5, "1/4", 1.2), (5, "1/4", 2.0), (5, "1/4", 4.0), (60, "1/40", 2.0)]
)
def test_the_bound_is_near_the_exact_divergence(n: int, r: Any, order: float) -> None:
    """Of two independent Bernoulli laws: the sum of two exact ones, for all pairs of datasets."""
    eta, r = TWO.natural(TWO.prior((0.4, 0.5, 8))), Fraction(r)
    beta = discreet.BetaFamily()
    exact = sum(beta.curve((eta[i], eta[2] - eta[i]), n, r).rdp(order) for i in (0, 1))
    assert exact <= TWO.curve(eta, n, r).rdp(order) <= 1.25 * exact


def test_the_bound_of_normal_laws_is_near_their_divergence() -> None:
    """λ/2·v'Cov v for all pairs alike, Cov that of ν = 8 + rn records."""
    eta, r = TIED.natural(TIED.prior((0, 0, 8))), Fraction(1, 2)
    precision = (8 + 8 / 2) * np.array([[1, 0.5], [0.5, 1]])
    exact = max(float(v @ np.linalg.solve(precision, v)) for v in TIED.moves) / 4
    for order in (1.5, 4.0):
        assert order / 2 * exact <= TIED.renyi_bound(eta, 8, r, order) <= 1.3 * order / 2 * exact


def test_the_bound_is_infinite_where_a_divergence_is() -> None:
    """χ_P = 3.2 + ρ/4 and the like leave the laws at ρ = 12.8; variances on the way only grow."""
    eta, n, r = TWO.natural(TWO.prior((0.4, 0.5, 8))), 5, Fraction(1, 4)
    assert TWO.curve(eta, n, r).max_order < 13.8
    assert TWO.renyi_bound(eta, n, r, 13.8) == INF
    depths, largest = _variances(TWO, eta, n, r)
    assert (np.diff(depths) > 0).all()
    assert (np.diff(largest) > 0).all()


@pytest.mark.slow
def test_no_pair_within_the_box_exceeds_the_bound() -> None:
    """A directed search: records anywhere in the box, most of them at its corners."""
    eta, n, r = TWO.natural(TWO.prior((0.3, 0.6, 5))), 4, 0.5
    curve = TWO.curve(eta, n, Fraction(1, 2))
    start, nu = np.array([float(part) for part in eta[:-1]]), float(eta[-1]) + r * n
    rng = np.random.default_rng(11)
    rest, one, other = (
        np.clip(rng.uniform(-1, 2, size=(20_000, 2)), 0, 1) * scale for scale in (n - 1, 1, 1)
    )
    p, q = start + r * (rest + one), start + r * (rest + other)
    for order in (1.3, 2.0, 3.0):
        mixed = order * p + (1 - order) * q
        inside = ((mixed > 0) & (mixed < nu)).all(axis=1)
        mass = [betaln(x, nu - x).sum(axis=1) for x in (mixed[inside], p[inside], q[inside])]
        divergence = (mass[0] - order * mass[1]) / (order - 1) + mass[2]
        assert 0.5 * curve.rdp(order) < divergence.max() <= curve.rdp(order)


@pytest.mark.slow
def test_every_pair_of_datasets_of_ratings_is_below_the_curve() -> None:
    eta, n, r = RATINGS.natural(RATINGS.prior((3, 10.5, 20))), 3, Fraction(1)
    curve = RATINGS.curve(eta, n, r)
    largest = 0.0
    for rest in itertools.combinations_with_replacement(STARS, n - 1):
        for one, other in itertools.permutations(STARS, 2):
            pair = []
            for record in (one, other):
                sums = RATINGS.contribution([sum(axis) for axis in zip(*rest, record, strict=True)], n)
                pair.append(tuple(own + r * more for own, more in zip(eta, sums, strict=True)))
            value = renyi(RATINGS, (pair[0], pair[1]), Fraction(2))
            assert value is not None
            largest = max(largest, above(value))
    assert largest <= curve.rdp(2) <= 1.3 * largest


THREE: Any = Family.define(
    log_partition="log(1 + exp(t1)) + log(1 + exp(t2)) + log(1 + exp(t3))",
    statistic=("x1", "x2", "x3"),
    bounds=((0, 1), (0, 1), (0, 1)),
)
KINDS: Any = Family.define(
    log_partition="log(1 + exp(t1) + exp(t2) + exp(t3))",
    statistic=("x1", "x2", "x3"),
    values=[(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)],
)


def test_masses_and_covariances_of_three_parameters_are_those_in_closed_form() -> None:
    chi, nu = (4.0, 7.0, 9.0), 30.0
    assert THREE.laws(np.array([chi]), nu).log_masses[0] == pytest.approx(two(chi, nu), abs=1e-6)
    exact = np.diag(polygamma(1, chi)) + polygamma(1, nu - sum(chi))
    law = KINDS.laws(np.array([chi]), nu)
    assert law.seen[0]
    assert law.log_masses[0] == pytest.approx(categories(chi, nu), abs=1e-4)
    assert (np.linalg.eigvalsh(law.covariances[0] - exact) > -1e-9).all()
    assert np.trace(law.covariances[0]) < 1.004 * np.trace(exact)
    assert float(KINDS.log_partition([ball(part) for part in (*chi, nu)]).mid()) == pytest.approx(
        categories(chi, nu), abs=1e-8
    )


@pytest.mark.slow
@pytest.mark.parametrize(("family", "weakest", "laws"), [(CATEGORIES, 0.15, 60), (KINDS, 0.6, 25)])
def test_the_nodes_of_one_law_never_tell_less_of_others(family: Any, weakest: float, laws: int) -> None:
    """Categories, whose covariances are known; weak laws have corners."""
    rng, d, compared = np.random.default_rng(1), len(family.statistic), 0
    for _ in range(laws):
        alpha = np.exp(rng.uniform(math.log(weakest), math.log(30), d + 1))
        near = _near(family, alpha[:d], alpha.sum())
        if near is None:
            continue
        factor = np.linalg.cholesky(np.linalg.inv(np.diag(polygamma(1, alpha[:d])) + polygamma(1, alpha[d])))
        away = rng.normal(size=(20, d))
        away *= 1.5 * rng.uniform(size=(20, 1)) / np.linalg.norm(away, axis=1, keepdims=True)
        points = alpha[:d] + away @ factor.T
        points = points[(points > 0).all(axis=1) & (points.sum(axis=1) < alpha.sum())]
        for point, found, seen in zip(points, *bounds(near, points[:, None])[1:], strict=True):
            exact = np.diag(polygamma(1, point)) + polygamma(1, alpha.sum() - point.sum())
            ratios = eigh(found, exact, eigvals_only=True)
            assert not seen or 1 - 1e-9 < ratios[0] <= ratios[-1] < 1.0045
            compared += seen
    assert compared > 2 * laws


@pytest.mark.slow
@pytest.mark.parametrize(("n", "r", "order"), [(5, "1/4", 1.2), (5, "1/4", 2.0), (60, "1/40", 4.0)])
def test_the_bound_of_three_parameters_is_near_the_exact_divergence(n: int, r: Any, order: float) -> None:
    """Of three independent Bernoulli laws."""
    eta, r = THREE.natural(THREE.prior((0.4, 0.5, 0.6, 8))), Fraction(r)
    beta = discreet.BetaFamily()
    exact = sum(beta.curve((eta[i], eta[3] - eta[i]), n, r).rdp(order) for i in (0, 1, 2))
    assert exact <= THREE.curve(eta, n, r).rdp(order) <= 1.5 * exact


@pytest.mark.slow
def test_the_bound_of_four_categories_is_near_the_exact_divergence() -> None:
    eta, r = KINDS.natural(KINDS.prior((0.2, 0.3, 0.1, 40))), Fraction(1, 2)
    exact = discreet.DirichletFamily().curve((*eta[:3], eta[3] - sum(eta[:3])), 10, r)
    found = KINDS.curve(eta, 10, r)
    for order in (1.5, 2.0, 3.0):
        assert exact.rdp(order) <= found.rdp(order) <= 2 * exact.rdp(order)
    assert exact.delta_at(1) <= found.delta_at(1)


@pytest.mark.parametrize(
    ("prior", "n", "r", "orders"),
    [
        ((4.0, 4.0, 3.6, 7.6), 2, "1/20", (1.01, 2.0, 8.0)),
        ((2.4, 26.0, 27.0, 31.0), 5, "1/50", (1.01, 2.0, 16.0)),
    ],
    ids=["even", "corner"],
)
def test_three_bernoulli_laws_are_below_the_bound(prior: Any, n: int, r: str, orders: Any) -> None:
    """By trigamma functions, for every place of the other records."""
    *chi, nu = prior
    eta, share = tuple(map(Fraction, prior)), float(Fraction(r))
    nodes, weights = np.polynomial.legendre.leggauss(24)
    rest = np.linspace(0, n - 1, 21)[:, None]
    for order in orders:
        exact = 0.0
        for start in chi:
            found = np.zeros((2, len(rest)))
            for side, (low, high) in itertools.product((0, 1), ((0.0, 1.0), (1.0, order))):
                u = (low + high) / 2 + (high - low) / 2 * nodes
                one = start + share * (rest + (1 - u if side else u))
                kernel = np.minimum(u, (order - u) / (order - 1)) * weights * (high - low) / 2
                found[side] += (polygamma(1, one) + polygamma(1, nu + share * n - one)) @ kernel
            exact += share**2 * found.max()
        assert exact <= THREE.renyi_bound(eta, n, Fraction(r), order) < 1.5 * exact


def test_covariances_beyond_the_cells_are_bounded_by_the_skewness(monkeypatch: pytest.MonkeyPatch) -> None:
    """With cells for a tenth of a move only: Bernoulli laws, and Gamma laws that are rather skew."""
    monkeypatch.setitem(defined_vector._MOST_MOVES, 2, 0.1)
    defined_vector._variances.cache_clear()
    eta, n, r = TWO.natural(TWO.prior((0.4, 0.5, 8))), 5, Fraction(1, 4)
    beta = discreet.BetaFamily()
    curve = TWO.curve(eta, n, r)
    top = curve.max_order
    defined_vector._variances.cache_clear()
    assert 3 < top < 6
    for order in (1.5, 2.0, 0.9 * top):
        exact = sum(beta.curve((eta[i], eta[2] - eta[i]), n, r).rdp(order) for i in (0, 1))
        assert exact <= curve.rdp(order) < 4 * exact
    assert curve.rdp(1.01 * top) == INF
    waits: Any = Family.define(
        log_partition="-log(-t1) - log(-t2)",
        statistic=("x1", "x2"),
        bounds=((1, 2), (1, 2)),
        support=((-INF, 0), (-INF, 0)),
    )
    start, r = waits.natural(waits.prior((1.5, 30, 0.5))), Fraction(1, 10)
    order = 1 + 0.95 * (waits.order_limit(start, 1, r) - 1)
    bound = waits.renyi_bound(start, 1, r, order)
    defined_vector._variances.cache_clear()
    chi, shape = float(start[0]) + 0.1, float(start[2]) + 1.1  # the record at its lower and at its upper end
    logs = [math.log(chi + step) for step in (-0.1 * (order - 1), 0.0, 0.1)]
    assert shape * (-logs[0] + order * logs[1] - (order - 1) * logs[2]) / (order - 1) <= bound < INF


@pytest.mark.slow
def test_exact_draws_of_three_parameters_have_the_law() -> None:
    eta = KINDS.natural(KINDS.prior((0.2, 0.3, 0.1, 30)))
    source, grid = SeededEntropy(5), Fraction(1, 2**20)
    drawn = np.array([[float(part) for part in KINDS.draw(eta, grid, source)] for _ in range(1500)])
    for axis, (a, rest) in enumerate(((6, 12), (9, 12), (3, 12))):
        share = 1 / (1 + np.exp(-drawn[:, axis]))  # of the category against the first one: Beta
        assert stats.kstest(share, stats.beta(a, rest).cdf).pvalue > ALPHA
    assert np.cov(drawn.T)[0, 1] == pytest.approx(float(polygamma(1, 12)), abs=0.03)


def test_too_many_records_for_the_cells_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defined_vector, "_MOST_LAWS", 4)
    eta = THREE.natural(THREE.prior((0.4, 0.5, 0.6, 40)))
    assert THREE.renyi_bound(eta, 1000, Fraction(1), 2.0) == INF


def normal(theta: Any) -> tuple[Any, list[Any]]:
    """Two correlated normal numbers: −(a² + ab + b²)/2."""
    a, b = theta
    return -(a * a + a * b + b * b) / 2, [-(2 * a + b) / 2, -(a + 2 * b) / 2]


@pytest.mark.parametrize("depth", [24, 4])
def test_exact_draws_have_the_law(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With depth 4 many of the draws come from beyond the boxes."""
    monkeypatch.setattr(log_concave, "_DEPTH", depth)
    if depth == 4:
        monkeypatch.setattr(log_concave, "_BOXES", 40)
        monkeypatch.setattr(log_concave, "_FIRST_REACH", Fraction(2))
    made = LogConcave(normal, np.array([0.2, -0.1]), np.array([[1.0, 0.0], [-0.5, 0.9]]))
    source, grid = SeededEntropy(5), Fraction(1, 2)
    drawn = np.array([[float(part) for part in made.draw(grid, source)] for _ in range(1500)])
    exact = stats.norm(0, math.sqrt(4 / 3))
    for axis in (drawn[:, 0], drawn[:, 1]):
        edges = np.append(np.append(-INF, np.arange(-4, 5) / 2), INF)
        observed = np.histogram(axis, edges)[0]
        statistic, freedom = chi_square(observed, 1500 * np.diff(exact.cdf(edges)))
        assert stats.chi2.sf(statistic, freedom) > ALPHA
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(-0.5, abs=0.15)
    share = made.weights[-1] / sum(made.weights)
    assert share > 0.01 if depth == 4 else share < 1e-6


def test_the_envelope_is_above_the_density() -> None:
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    rng = np.random.default_rng(2)
    for box, weight in zip(made._boxes[::20], made.weights[::20], strict=False):
        for _ in range(5):
            z = [float(c) + float(w) * rng.uniform(-1, 1) for c, w in zip(box.centre, box.half, strict=True)]
            assert float(normal([ball(part) for part in z])[0].exp()) * float(box.volume) <= weight / 2**80


def test_candidates_beyond_the_boxes_have_their_density(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of 1/density over those in a ring is its area."""
    monkeypatch.setattr(log_concave, "_DEPTH", 4)
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    source, inverse = SeededEntropy(9), []
    for _ in range(2000):
        z, density = made._beyond(source)()
        rho = max(abs(float(part)) for part in z) / float(made._reach)
        assert rho > 1
        inverse.append(1 / float(density) if rho < 2 else 0.0)
    area = 3 * (2 * float(made._reach)) ** 2
    error = float(np.std(inverse)) / math.sqrt(len(inverse))
    assert abs(float(np.mean(inverse)) - area) < 6 * error < 0.2 * area


def test_candidates_fill_their_box_and_all_faces() -> None:
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    box, source = made._boxes[7], SeededEntropy(4)
    for bits, side in ((0, -1), (-1, 1)):
        z, _ = made._in_box(box, _Bits(bits))()
        for part, centre, half in zip(z, box.centre, box.half, strict=True):
            assert abs(float(part - ball(centre + side * half))) < 1e-10
    far = [[float(part) for part in made._beyond(source)()[0]] for _ in range(800)]
    faces = [(int(np.abs(z).argmax()), z[int(np.abs(z).argmax())] > 0) for z in far]
    assert all(
        abs(faces.count(face) - 200) < 6 * math.sqrt(150) for face in itertools.product((0, 1), (0, 1))
    )


class _Bits:
    """All bits alike."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def below(self, bound: int) -> int:
        return self.bits % bound


def test_a_box_across_the_edge_of_the_support_keeps_its_mass() -> None:
    def half(theta: Any) -> Any:
        return None if theta[0] > 1 else normal(theta)

    made = LogConcave(half, np.zeros(2), np.eye(2))
    across, beyond = (
        made._bounded([Fraction(13, 10), Fraction(0)], [Fraction(width, 10), Fraction(1)]) for width in (5, 2)
    )
    assert across is not None
    assert beyond is None
    source = SeededEntropy(6)
    drawn = [float(made.draw(Fraction(1, 4), source)[0]) for _ in range(600)]
    share = 1 - stats.norm(0, math.sqrt(4 / 3)).cdf(0.5) / stats.norm(0, math.sqrt(4 / 3)).cdf(1)
    assert max(drawn) < 1
    assert stats.binomtest(sum(x > 0.5 for x in drawn), 600, share).pvalue > ALPHA


def test_no_double_decides_about_a_cell() -> None:
    made = LogConcave(normal, np.zeros(2), np.eye(2))
    source, grid = SeededEntropy(8), Fraction(1, 2**90)
    cells = [int(part / grid - Fraction(1, 2)) for _ in range(10) for part in made.draw(grid, source)]
    assert 2 <= sum(cell % 2 for cell in cells) <= 18


def test_bounds_hold_in_the_whole_cell() -> None:
    rng, nu = np.random.default_rng(4), 12.0
    corners = np.array([[2.0, 3.0], [3.0, 3.5], [2.2, 4.5]])
    centre = corners.mean(axis=0)
    family: Any = TWO
    near = _near(family, centre + 0.3, nu)  # the nodes of another law serve too
    assert near is not None
    above, own, seen = bounds(near, corners[None])
    assert seen.all()
    exact = polygamma(1, centre) + polygamma(1, nu - centre)
    assert (exact <= np.diag(own[0])).all()
    assert (np.diag(own[0]) <= 1.004 * exact).all()
    found = above[0]
    for chi in rng.dirichlet((1, 1, 1), 200) @ corners:
        exact = np.diag(polygamma(1, chi) + polygamma(1, nu - chi))
        for move in rng.normal(size=(5, 2)):
            assert move @ exact @ move <= max(move @ one @ move for one in found)


def test_a_variance_in_the_middle_bounds_those_of_the_cell() -> None:
    """Attained by 1/χ², of the exponential law, at the farthest corner; nothing is known from 1 on."""
    cells = np.array([[[0.6, 1.0], [1.2, 1.0], [1.2, 1.0]], [[-1.0, 1.0], [2.0, 1.0], [2.0, 1.0]]])
    bounds = _rough(cells, np.ones(2), np.tile(np.eye(2), (2, 1, 1)))
    assert bounds == pytest.approx([0.6**-2, INF])
    assert _rough(cells[:1], np.zeros(1), np.eye(2)[None]) == INF


@pytest.mark.parametrize("family", [TWO, pytest.param(THREE, marks=pytest.mark.slow)], ids=["two", "three"])
def test_variances_are_bounded_at_every_corner_of_what_can_be_reached(family: Any) -> None:
    """By trigamma functions, which are largest at a corner: whichever the prior makes the worst."""
    d, n, r = len(family.statistic), 3, Fraction(1, 8)
    for ends in itertools.product((0.25, 0.75), repeat=d):
        eta = family.natural(family.prior((*ends, 6 if d == 2 else 16)))
        start, nu, share = np.array(eta[:-1], dtype=float), float(eta[-1] + r * n), float(r)
        depths, largest = _variances(family, eta, n, r)
        assert np.isfinite(largest).all()
        for depth, found in zip(depths[1:], largest, strict=True):
            sides = itertools.product((-depth, n + depth), repeat=d)
            corners = start + share * np.array(list(sides))
            exact = share**2 * (polygamma(1, corners) + polygamma(1, nu - corners)).sum(axis=1).max()
            assert (1 - 1e-6) * exact <= (1 + 3e-3) * found


def test_what_the_nodes_do_not_show_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in cells nor by what is found in their middles."""
    eta, r = TWO.natural(TWO.prior((0.4, 0.5, 8))), Fraction(1, 4)
    law = TWO.laws(np.array([[2.0, 3.0]]), 8.0)  # type: ignore[attr-defined]
    assert np.isfinite(bounds(law, np.tile(law.chi, (1, 3, 1)))[0]).all()
    law.seen[:] = False
    assert np.isinf(bounds(law, np.tile(law.chi, (1, 3, 1)))[0]).all()

    def unseen(real: Any) -> Any:
        def made(self: Any, *given: Any) -> None:
            real(self, *given)
            self.seen = np.zeros_like(self.seen)

        return made

    with monkeypatch.context() as patched:
        patched.setattr(defined_vector._Laws, "__init__", unseen(defined_vector._Laws.__init__))
        defined_vector._variances.cache_clear()
        assert TWO.renyi_bound(eta, 3, r, 2.0) == INF
    real = _Laws.bounds

    def told(self: Any, cells: Any) -> Any:
        matrices, found, seen = real(self, cells)
        return np.full_like(matrices, INF), found, np.zeros_like(seen)

    with monkeypatch.context() as patched:
        patched.setattr(_Laws, "bounds", told)
        patched.setattr(defined_vector, "_MOST_LAWS", 4)
        defined_vector._variances.cache_clear()
        prior = THREE.natural(THREE.prior((0.4, 0.5, 0.5, 8)))
        assert THREE.renyi_bound(prior, 3, r, 2.0) == INF
    defined_vector._variances.cache_clear()


def test_a_cell_is_bounded_only_if_all_of_its_corners_are_told() -> None:
    """Categories, of which one becomes rare: above what trigamma functions say at that corner, or unknown."""
    family: Any = CATEGORIES
    near = _near(family, np.array([5.0, 4.0]), 15.0)
    assert near is not None
    unknown = np.zeros(2)
    for weak in np.geomspace(4, 0.005, 50):
        cell = np.array([[weak, 4.0], [5.0, 4.0], [5.0, 4.5]])
        exact = np.diag(polygamma(1, [weak, 4.0])) + polygamma(1, 11 - weak)
        law = family.laws(cell.mean(axis=0)[None], 15.0)
        by_law = bounds(law, cell[None])[0][0]
        for one, found in enumerate((bounds(near, cell[None])[0][0], by_law)):
            if np.isinf(found).any():
                unknown[one] += 1
                assert np.isinf(found).all()
                continue
            for move in np.array([(1, 0), (1, -1)]):
                assert move @ exact @ move <= max(move @ matrix @ move for matrix in found)
    assert (unknown > 0).all()
    assert (unknown < 50).all()


def test_cells_that_do_not_fill_the_hull_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import scipy.spatial

    corners = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    cells = _cover(corners)
    volumes = np.abs(np.linalg.det(cells[:, 1:] - cells[:, :1])) / 6
    assert volumes.sum() == pytest.approx(1)
    whole = scipy.spatial.Delaunay(corners)

    class Short:
        def __init__(self, points: Any) -> None:
            self.simplices = whole.simplices[1:]

    monkeypatch.setattr(scipy.spatial, "Delaunay", Short)
    with pytest.raises(discreet.TooLargeError, match="to be covered"):
        _cover(corners)


def test_the_nodes_of_another_law_tell_a_cell_of_normal_laws() -> None:
    """E[zz'e^{s·z}] = e^{s'Σs/2}(Σ + Σss'Σ), or nothing where nodes do not go so far."""
    family: Any = TIED
    nu, sigma = 8.0, np.linalg.inv(np.array([[1.0, 0.5], [0.5, 1.0]]) * 8)
    near = _near(family, np.array([1.0, -2.0]), nu)
    assert near is not None
    cell = np.array([[1.2, -1.6], [2.5, -1.5], [0.5, -1.0]])
    above, own, seen = bounds(near, cell[None])
    assert seen.all()
    assert own[0] == pytest.approx(sigma, rel=4e-3)
    for corner, found in zip(cell, above[0], strict=True):
        s = sigma @ (corner - cell.mean(axis=0))
        exact = (sigma + np.outer(s, s)) * math.exp(s @ np.linalg.solve(sigma, s) / 2)
        assert found == pytest.approx(exact, rel=4e-3)
    for far in np.geomspace(5, 500, 30):
        above, own, seen = bounds(near, np.array([[[1.0, -2.0], [1.0, -2.0], [1.0 + far, -2.0]]]))
        s = sigma @ np.array([2 * far / 3, 0.0])
        exact = (sigma + np.outer(s, s)) * math.exp(min(600.0, s @ np.linalg.solve(sigma, s) / 2))
        assert not seen[0] or own[0] == pytest.approx(sigma, rel=4e-3)
        assert np.isinf(above[0]).all() or above[0, 2] == pytest.approx(exact, rel=4e-3)
    assert not seen[0]


def test_weak_laws_are_not_told_by_the_nodes_of_stronger_ones() -> None:
    near = _near(CATEGORIES, np.array([5.0, 4.0]), 15.0)  # type: ignore[arg-type]
    assert near is not None
    told = []
    for weak in np.geomspace(5, 0.01, 60):
        exact = np.diag(polygamma(1, [weak, 4.0])) + polygamma(1, 11 - weak)
        _, own, seen = bounds(near, np.array([[[weak, 4.0]]]))
        told.append(seen[0])
        assert not seen[0] or eigh(own[0], exact, eigvals_only=True)[0] > 1 - 1e-6
    assert told[0]
    assert not told[-1]


def test_an_exponent_that_is_not_concave_is_noticed() -> None:
    def hollow(theta: Any) -> tuple[Any, list[Any]]:
        a, b = theta
        value, slopes = normal(theta)
        ring = (-(a * a + b * b) * 4).exp()
        return value - 3 * ring, [slope + 24 * x * ring for slope, x in zip(slopes, theta, strict=True)]

    made = LogConcave(hollow, np.zeros(2), np.eye(2))
    source = SeededEntropy(3)
    with pytest.raises(discreet.InvalidInput, match="not concave"):
        [made.draw(Fraction(1, 4), source) for _ in range(200)]


def test_records_are_read_and_kept_in_their_place(tmp_path: Path) -> None:
    path = tmp_path / "stars.csv"
    path.write_text("stars\n1\n5\n5\n7\n2.2\n", "utf-8")
    found = ((1 + 5 + 5 + 5 + 2, 1 + 25 + 25 + 25 + 4), 5)
    assert RATINGS.read(path, "stars", {}) == found
    assert RATINGS.read([1, 5, 5, 7, 2.2], None, {}) == found
    sums, n = TWO.read([[0.5, 2.0], [-1.0, 0.25]], None, {})
    assert n == 2
    assert [float(part) for part in sums] == pytest.approx([0.5, 1.25], abs=1e-4)
    with pytest.raises(discreet.InvalidInput, match="outside of n times"):
        RATINGS.contribution((15, 40), 5)
    assert RATINGS.informed((3, 10.5, 20), [3] * 10) == pytest.approx((3, 10, 30))
    bernoulli = Family.define(log_partition="log(1 + exp(t))", bounds=(1, 5))
    assert bernoulli.read(path, "stars", {})[1] == 5


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"statistic": ("x", "x**2", "x**3", "x**4")}, "one formula, or two or three"),
        ({"statistic": ("x", "x**2", "x**3")}, "several times 3 numbers"),
        ({"statistic": ("x",)}, "one formula, or two"),
        ({"statistic": ("x", "y")}, "use numbers"),
        ({"log_partition": "exp(t3)"}, "use numbers, t1, t2"),
        ({"values": None}, "box"),
        ({"bounds": ((0, 1), (0, 1))}, "box"),
        ({"values": [(0, 0), (1, 1), (2, 2)]}, "not minimal"),
        ({"values": [(0, 0), (1, math.nan), (2, 2)]}, "values="),
        ({"values": [(0, 0), (1, math.inf), (2, 2)]}, "values="),
        ({"values": [(k, k * k) for k in range(40)]}, "more than 32"),
        ({"support": ((0, 1),)}, "support="),
        ({"support": ((1, 0), (0, 1))}, "low < high"),
        ({"means": (0, 1)}, "one parameter"),
    ],
    ids=str,
)
def test_what_is_no_family_is_refused(changed: Any, words: str) -> None:
    given = {"log_partition": RATINGS.to_dict()["cumulant"], "statistic": ("x", "x**2"), "values": STARS}
    with pytest.raises(discreet.InvalidInput, match=words):
        Family.define(**{**given, **changed})


@pytest.mark.parametrize("prior", [(3, 20), (3, 10.5, 0), (3, 8, 20), 5], ids=str)
def test_a_prior_that_is_no_law_is_refused(prior: Any) -> None:
    with pytest.raises(discreet.InvalidInput, match="prior="):
        RATINGS.prior(prior)


@pytest.mark.slow
def test_a_family_of_two_parameters_works_in_all_places(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "stars.csv"
    data.write_text("stars\n" + "\n".join(map(str, [1, 4, 5, 5, 3] * 2)) + "\n", "utf-8")
    ledger, out, page = (str(tmp_path / name) for name in ("budget.db", "draw.json", "page.html"))
    flat = ",".join(f"{a},{b}" for a, b in STARS)
    options = f"statistic=x,x**2; cumulant={RATINGS.to_dict()['cumulant']}; values={flat}"

    def run(*arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code in (0, None), capsys.readouterr().err

    run("ledger", "create", "stars", "--epsilon", "5", "--delta", "1e-5", "--ledger", ledger)
    asked = ["sample", str(data), "--column", "stars", "--family", "defined-vector", "--prior", "3,10.8,200"]
    asked += ["--options", options, "--epsilon", "2", "--delta", "1e-6", "--ledger", ledger]
    run(*asked, "--dataset", "stars", "--out", out)
    sample = discreet.Sample.from_json(Path(out).read_text("utf-8"))
    assert sample.model == RATINGS
    assert sample.parameters() == ["t1", "t2"]
    assert sample.values.shape == (1, 2)
    assert "numerically" in sample.guarantee.assumptions[0]
    run("show", out)
    run("report", out, "--out", page)
    assert "natural parameters t1, t2 of x, x**2" in Path(page).read_text("utf-8")
    capsys.readouterr()


def test_moves_too_small_for_floats_are_refused_in_our_words() -> None:
    eta = KINDS.natural(KINDS.prior((0.2, 0.3, 0.1, 40)))
    with pytest.raises(discreet.TooLargeError, match="too little for its bound"):
        _variances(KINDS, eta, 10, Fraction(1, 10**16))
