"""The optimal mechanism against the definition: its bound is a bound, it attains it, and it is private."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import discreet
from conformance.cases import MECHANISMS, Case
from conformance.oracle import distribution_matrix, neighbours, worst_loss
from discreet._inference.noise_aware import noise_aware
from discreet._numerics.enclosures import ball
from discreet.errors import DiscreetError, InvalidInputError, TooLargeError
from discreet_reproductions.hellinger import optimal
from discreet_reproductions.hellinger.optimal import TOTAL, Optimal, optimal_error, optimal_mechanism
from test_decoding import expected_error, least_error

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")

SMALL = [
    ((1.0, 1.0), 8, "0.1"),
    ((1.0, 1.0), 20, "0.8"),
    ((7.0, 4.0), 20, "2"),
    ((0.5, 0.5), 15, "0.8"),
    ((1.0, 1.0, 1.0), 5, "0.8"),
    ((1.0, 1.0, 2.0), 4, "2"),
    ((2.0, 3.0, 4.0), 5, "0.1"),
    ((1.0, 2.0, 1.0, 2.0), 3, "1"),
]
EDGES = [
    ((1.0, 1.0), 1, "0.8"),
    ((1.0, 1.0), 5, "1e-12"),
    ((1.0, 1.0), 5, "1e-6"),
    ((7.0, 4.0), 10, "0.0001"),
    ((1.0, 1.0), 10, "8"),
    ((1.0, 1.0), 10, "12"),
    ((30.0, 1.0), 30, "0.5"),
    ((1000.0, 0.01), 6, "1"),
    ((0.001, 0.001), 20, "0.5"),
    ((0.1, 5.0, 0.7), 4, "0.5"),
    ((1.0,) * 6, 2, "1"),
    ((1.0,) * 12, 1, "2"),
]


@pytest.mark.parametrize(("prior", "n", "epsilon"), SMALL)
def test_the_bound_is_the_optimum(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    truth = least_error(prior, n, float(epsilon))
    ours = optimal_error(prior=prior, n=n, epsilon=epsilon)
    assert truth * (1 - 1e-5) - 1e-9 <= ours <= truth + 1e-10


def check_mechanism(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    m = optimal_mechanism(prior=prior, n=n, epsilon=epsilon)
    claim = m.guarantee
    assert claim.exact_epsilon == Fraction(epsilon)
    assert claim.delta == 0
    points, matrix = distribution_matrix(m)
    assert np.isfinite(matrix).all()
    np.testing.assert_allclose(np.exp(matrix).sum(axis=1), 1, rtol=0, atol=1e-12)
    assert worst_loss(points, matrix) <= float(Fraction(epsilon)) * (1 + 1e-12)
    limit = optimal_error(prior=prior, n=n, epsilon=epsilon)
    error = expected_error(m)
    assert limit - 1e-9 <= error <= (1 + 1e-4) * limit + 1e-9


@pytest.mark.parametrize(("prior", "n", "epsilon"), SMALL + EDGES)
def test_the_mechanism_attains_it_and_is_private(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    check_mechanism(prior, n, epsilon)


@pytest.mark.parametrize(("prior", "n", "epsilon"), SMALL)
def test_no_mechanism_is_below_the_limit(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    limit = optimal_error(prior=prior, n=n, epsilon=epsilon)
    for name, options in MECHANISMS:
        m = Case(name, prior, epsilon, options).build(n)
        if m.guarantee.is_private and m.guarantee.delta == 0:
            assert expected_error(m) >= limit - 1e-9, name


def test_every_ratio_in_integers() -> None:
    """What the guarantee rests on, once more: no floats, another bound on e^ε."""
    epsilon = Fraction(4, 5)
    m = optimal_mechanism(prior=(2, 3, 4), n=5, epsilon=epsilon)
    with localcontext() as context:
        context.prec = 60
        bound = (Decimal(4) / Decimal(5)).exp()
        tightest = Decimal(0)
        for counts, weights in m._table.weights.items():
            assert sum(weights) == TOTAL
            assert min(weights) > 0
            for other in neighbours(counts):
                pairs = zip(weights, m._table.weights[other], strict=True)
                tightest = max(tightest, *(Decimal(a) / Decimal(b) for a, b in pairs))
    assert tightest <= bound
    assert tightest >= bound * Decimal("0.99999")  # and the budget is used


def test_a_table_that_is_not_private_is_noticed() -> None:
    m = optimal_mechanism(prior=(1, 1), n=6, epsilon="0.8")
    program = optimal._program(m.prior, m.n)
    weights = [list(row) for row in m._table.weights.values()]
    assert optimal._is_private(weights, program.pairs, m.epsilon)
    assert not optimal._is_private(weights, program.pairs, Fraction("0.79999"))
    # The pair and outcome of largest ratio, and two parts in a million more.
    x, _, r = max(
        ((x, y, r) for x, y in program.pairs.tolist() for r in range(len(weights[0]))),
        key=lambda at: Fraction(weights[at[0]][at[2]], weights[at[1]][at[2]]),
    )
    planted = [row.copy() for row in weights]
    planted[x][r] += planted[x][r] // 500_000
    assert not optimal._is_private(planted, program.pairs, m.epsilon)
    planted = [row.copy() for row in weights]
    planted[0][0] = 0
    assert not optimal._is_private(planted, program.pairs, m.epsilon)


@pytest.fixture
def fresh() -> Iterator[None]:
    optimal._table.cache_clear()
    yield
    optimal._table.cache_clear()


@pytest.mark.usefixtures("fresh")
def test_a_solution_above_the_budget_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimal, "_MARGIN", -1e-6)
    with pytest.raises(DiscreetError, match="within its budget"):
        _ = optimal_mechanism(prior=(1, 1), n=6, epsilon="0.8").guarantee


@pytest.mark.parametrize("exponent", ["1e-9", "0.8", "4/5", "7", "128"])
def test_the_exponential_is_rounded_down(exponent: str) -> None:
    below = Fraction(optimal.enclosed_digits(lambda: ball(Fraction(exponent)).exp(), 96), 2**96)
    with localcontext() as context:
        context.prec = 80
        x = Decimal(Fraction(exponent).numerator) / Decimal(Fraction(exponent).denominator)
        exact = x.exp()
        value = Decimal(below.numerator) / Decimal(below.denominator)
        assert 0 <= exact - value <= exact * Decimal(2) ** -90


def test_symmetry_saves_work_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    program = optimal._program((1.0, 1.0, 1.0), 4)
    assert optimal._orbits((1.0, 1.0, 1.0), program).max() + 1 < len(program.rows) ** 2 / 4
    with_symmetry = optimal_error(prior=(1, 1, 1), n=4, epsilon=1)
    monkeypatch.setattr(optimal, "_MAX_PERMUTATIONS", 0)
    optimal._solve.cache_clear()
    assert optimal_error(prior=(1, 1, 1), n=4, epsilon=1) == pytest.approx(with_symmetry, abs=1e-9)
    optimal._solve.cache_clear()
    mirrored = [optimal_error(prior=prior, n=9, epsilon=1) for prior in ((7, 4), (4, 7))]
    assert mirrored[0] == pytest.approx(mirrored[1], abs=1e-9)


def test_the_limit_falls_with_epsilon_and_is_never_negative() -> None:
    values = [optimal_error(prior=(1, 1), n=12, epsilon=e) for e in ("1e-13", 0.01, 0.1, 1, 5, 20, 41, 1e6)]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(values))
    assert values[-1] == 0
    constant = min(
        np.mean([discreet.hellinger((1 + x, 13 - x), (1 + s, 13 - s)) for x in range(13)]) for s in range(13)
    )
    assert values[0] == pytest.approx(constant, rel=1e-9)


@pytest.mark.parametrize(("k", "n"), [(2, 101), (3, 13), (4, 6), (5, 5), (2, 10**30)])
def test_too_large(k: int, n: int) -> None:
    for call in (optimal_error, optimal_mechanism):
        with pytest.raises(TooLargeError, match="lattice") as caught:
            call(prior=(1,) * k, n=n, epsilon=1)
        assert "n = 100" in str(caught.value)
        assert "n = 12" in str(caught.value)


def test_it_is_solved_on_first_use_only(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = []
    real = optimal._linear_program
    monkeypatch.setattr(optimal, "_linear_program", lambda *a: solved.append(a) or real(*a))
    m = Optimal(prior=(1.0, 3.0), n=7, epsilon="0.77")
    assert m.noise_scale == pytest.approx(1 / 0.77)
    assert not solved
    assert m.draw((3, 4)) in {tuple(row) for row in m.log_pmf((3, 4))[0].tolist()}
    optimal_mechanism(prior=(1, 3), n=7, epsilon="0.77").draw((7, 0))
    assert len(solved) == 1


def test_it_can_be_released_audited_and_inferred_from() -> None:
    m = optimal_mechanism(prior=(1, 1, 1), n=8, epsilon=1)
    assert sum(m.draw((5, 2, 1))) == 8
    with pytest.raises(InvalidInputError, match="no longer offered"):
        discreet.mechanism("optimal", prior=(1, 1), n=7, epsilon=1)
    a = discreet.audit(m)
    assert a.holds
    assert 1 - 1e-5 <= a.epsilon <= 1
    outputs, together = m.log_pmfs(np.array([[5, 2, 1], [8, 0, 0]]))
    np.testing.assert_array_equal(together[0], m.log_pmf((5, 2, 1))[1])
    assert len(outputs) == together.shape[1]
    assert math.isclose(sum(noise_aware(m, (5, 2, 1), None).mean()), 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "n", "epsilon"),
    [
        *(((1.0, 1.0), 100, e) for e in ("0.01", "0.1", "0.8", "3", "8")),
        *(((7.0, 4.0), 100, e) for e in ("0.1", "0.8", "3")),
        *(((30.0, 1.0), 100, e) for e in ("0.3", "1", "5")),
        ((0.1, 0.3), 100, "0.5"),
        ((300.0, 200.0), 100, "0.5"),
        *(((1.0, 1.0, 1.0), 12, e) for e in ("0.1", "0.8", "3")),
        *(((2.0, 3.0, 4.0), 12, e) for e in ("0.1", "0.8", "3")),
        ((0.1, 5.0, 0.7), 12, "0.5"),
        ((1.0, 2.0, 3.0, 4.0), 5, "0.8"),
        ((1.0, 2.0, 3.0, 4.0, 5.0), 4, "0.8"),
    ],
)
def test_at_the_limits_of_size(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    check_mechanism(prior, n, epsilon)
    if len(prior) == 2:
        lattice = discreet.mechanism("lattice", prior=prior, n=n, epsilon=epsilon)
        limit = optimal_error(prior=prior, n=n, epsilon=epsilon)
        assert limit - 1e-9 <= expected_error(lattice) <= 1.0001 * limit


@pytest.mark.slow
def test_random_settings() -> None:
    rng = np.random.default_rng(4)
    for _ in range(150):
        k = int(rng.integers(2, 5))
        n = int(rng.integers(1, {2: 40, 3: 7, 4: 4}[k]))
        prior = tuple(float(a) for a in np.exp(rng.uniform(-5, 5, k)))
        check_mechanism(prior, n, f"{math.exp(rng.uniform(-9, 2.5)):.4g}")
