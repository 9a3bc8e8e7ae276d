"""What follows from released sums, against brute force: windows of counts, the latent curvature, rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import integrate, linalg, stats
from scipy.special import expit

from discreet._declarations import Relation
from discreet._randomness.entropy import SeededEntropy
from discreet.privacy.curves import largest_gaussian
from discreet.regression._newton import curvature as engine
from discreet.regression._newton.curvature import (
    LastRound,
    LatentCurvature,
    clipped_moments,
    row_moments,
    symmetric,
)
from discreet.regression._newton.design import Column, Design, Variable, design
from discreet.regression._newton.models import PoissonModel, model_of, window_moments
from discreet.regression._newton.posterior import (
    CoefficientPrior,
    Evidence,
    NormalApproximation,
    Posterior,
    PublicSetting,
    _step,
    combine_rounds,
    latent,
    normal_approximation,
    posterior,
)
from discreet.regression._newton.rounds import Outcome, Schedule, ask
from discreet.regression._newton.sums import RowBlock, exact_sums

grids = pytest.importorskip("discreet._data.grids")
levels = pytest.importorskip("discreet._data.levels")


@pytest.mark.parametrize("window", [1, 3, 30])
def test_a_window_of_counts_has_the_moments_of_its_distribution(window: int) -> None:
    predictors = np.linspace(-3, 3.4, 40)
    mean, slope, variance, low, high = window_moments(predictors, window, 12)
    step = 1e-5
    for at, eta in enumerate(predictors):
        counts = np.clip(np.arange(200), low[at], high[at])
        distribution = stats.poisson.pmf(np.arange(200), math.exp(eta))
        moved = stats.poisson.pmf(np.arange(200), math.exp(eta + step))
        assert mean[at] == pytest.approx(counts @ distribution, abs=1e-9)
        assert variance[at] == pytest.approx(
            counts**2 @ distribution - (counts @ distribution) ** 2, abs=1e-8
        )
        assert slope[at] == pytest.approx(counts @ (moved - distribution) / step, abs=1e-3)


def test_no_slope_is_far_above_that_of_rates_whose_three_deviations_are_the_window() -> None:
    """So that a few large rates do not decide the noise of all; where nothing is clipped none is cut."""
    predictors = np.linspace(-3, math.log(2000), 400)
    for window in (6, 15, 60):
        slope = window_moments(predictors, window, 2000)[1]
        assert slope.max() < 1.25 * (window / 3) ** 2
        inside = np.exp(predictors) < (window / 3) ** 2 / 4
        assert slope[inside] == pytest.approx(np.exp(predictors)[inside], rel=0.1)
    assert window_moments(predictors, 2000, 2000)[1].max() > 900


def test_windows_of_small_rates_hold_their_counts() -> None:
    """A rate of one count in a hundred records still counts them: mean and slope are the rate."""
    predictors = np.log([1e-5, 1e-3, 0.01, 0.02, 0.1])
    mean, slope, variance, _, _ = window_moments(predictors, 6, 20)
    for moment in (mean, slope, variance):
        assert moment == pytest.approx(np.exp(predictors), rel=1e-5)


@pytest.mark.parametrize("clip", [0.1, 1.0, 5.0, math.inf])
def test_moments_of_clipped_normal_residuals(clip: float) -> None:
    inside, second, fourth = clipped_moments(np.array(0.7), clip)
    distribution = stats.norm(0, math.sqrt(0.7))
    for power, found in ((2, second), (4, fourth)):
        wanted = integrate.quad(
            lambda r, p=power: min(abs(r), clip) ** p * distribution.pdf(r), -9, 9, limit=300
        )[0]
        assert found == pytest.approx(wanted, rel=1e-6)
    assert inside == pytest.approx(distribution.cdf(clip) - distribution.cdf(-clip))


def three_columns(family: str = "gaussian") -> Design:
    made = design(
        "y ~ x + g",
        family=family,
        bounds={"x": (0, 10)} | ({"y": (-1, 1)} if family == "gaussian" else {"y": (0, 40)}),
        levels={"g": ("a", "b")},
    )
    assert made.d == 3
    return made


def seen_once(family: str, square_variance: float = 0.0) -> tuple[Any, Design, LastRound, Any]:
    """A round of about 900 records with noise that hides little, and its true curvature."""
    generator, made = np.random.default_rng(4), three_columns(family)
    root = generator.normal(size=(3, 3))
    true = 200 * (root @ root.T + np.eye(3))
    seen = LastRound(
        point=np.array([0.1, -0.2, 0.3]),
        score=generator.normal(size=3) * 30,
        variance=150.0,
        curvature=true,
        curvature_variance=400.0,
        square=90.0,
        square_variance=square_variance,
        square_point=np.array([0.0, 0.1, 0.2]),
        clip=math.inf,
        ratio=1.0,
    )
    return model_of(family, made), made, seen, true


def test_given_a_curvature_coefficients_are_normal_as_written_out() -> None:
    """K = AΛA' + φA + s²I: mean, covariance and evidence, by plain matrices."""
    model, made, seen, true = seen_once("poisson")
    centre, before = np.array([0.5, 0.2, -0.1]), np.diag([2.0, 0.3, 0.5])
    found = LatentCurvature(model, made, seen, (centre, before), 900.0, True)
    logs, others = [], []
    for matrix, dispersion in ((true, 1.0), (1.3 * true + 5 * np.eye(3), 0.6), (true / 2, 2.0)):
        values, vectors = np.linalg.eigh(matrix)
        state = found.compute_states(values[None], vectors[None], np.array([dispersion]), np.zeros(1))
        whole = matrix @ before @ matrix + (dispersion + found.rounding) * matrix + seen.variance * np.eye(3)
        gap = centre - seen.point
        left = seen.score - matrix @ gap
        gain = before @ matrix @ np.linalg.inv(whole)
        assert vectors @ state.mean[0] == pytest.approx(gap + gain @ left)
        covariance = vectors @ state.covariance[0] @ vectors.T
        assert covariance == pytest.approx(before - gain @ matrix @ before)
        assert state.root[0] @ state.root[0].T == pytest.approx(state.covariance[0])
        logs.append(float(state.log_density[0]))
        distribution = stats.multivariate_normal(np.zeros(3), whole)
        others.append(distribution.logpdf(left) - np.log(values + found.per_record).sum())
    assert np.diff(logs) == pytest.approx(np.diff(others))


def test_coordinates_do_not_change_the_posterior() -> None:
    """The same sums in turned coordinates, in which the noise is as it was."""
    model, made, seen, true = seen_once("poisson")
    seen = seen._replace(curvature_variance=1e-6)
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    turned = seen._replace(
        point=turn @ seen.point,
        score=turn @ seen.score,
        curvature=turn @ true @ turn.T,
        square_point=turn @ seen.square_point,
    )
    distribution = np.array([0.5, 0.2, -0.1]), np.diag([2e-3, 3e-4, 0.5])
    plain = LatentCurvature(model, made, seen, distribution, 900.0, True).sample()
    found = LatentCurvature(model, made, turned, distribution, 900.0, True, mixing=turn).sample()
    deviation = np.sqrt(np.diag(plain.covariance))
    assert np.abs(found.mean - plain.mean).max() < 0.01 * deviation.min()
    assert found.covariance == pytest.approx(plain.covariance, rel=0.01, abs=1e-2 * deviation.min() ** 2)
    assert found.curvature == pytest.approx(true, rel=1e-3, abs=1.0)
    assert np.abs(found.weights @ found.draws - plain.mean).max() < 0.1 * deviation.max()
    assert found.level.mean() == pytest.approx(true[0, 0], rel=1e-3)
    assert np.cov(found.draws.T, aweights=found.weights) == pytest.approx(plain.covariance, rel=0.3, abs=1e-3)


def test_weights_of_records_count_in_the_squares() -> None:
    """Records that are shortened count less; never more than there are."""
    model, made, seen, true = seen_once("gaussian", 100.0)
    mixing = np.array([[2.0, 0.0, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 3.0]])
    for weights in (600.0, 2000.0):
        plain = true * weights / true[0, 0]
        mixed = seen._replace(curvature=mixing @ plain @ mixing.T, curvature_variance=1e-6)
        found = LatentCurvature(model, made, mixed, (np.zeros(3), np.eye(3)), 900.0, True, mixing=mixing)
        state, level = found.estimate()
        assert level == pytest.approx(min(weights, 900.0), rel=1e-6)
        assert found.unmixed((state.vectors[0] * state.values[0]) @ state.vectors[0].T) == pytest.approx(
            plain
        )


def test_a_round_in_other_coordinates_stands_alone() -> None:
    """Beside one that had them too; a round of rows as they are only told where to look."""
    setting = asked("gaussian", 500, "1")
    true, mixing = np.array([[500.0, 20.0], [20.0, 170.0]]), np.array([[1.0, 0.2], [0.0, 4.0]])
    beta, point = np.array([0.3, -0.2]), np.array([0.25, -0.3])
    first = Evidence(np.zeros(2), true @ beta, 4.0, true, 10.0, 30.0, 5.0, math.inf)
    moved, curved = mixing @ true @ (beta - point), mixing @ true @ mixing.T
    second = Evidence(point, moved, 2.0, curved, 10.0, 30.0, 5.0, math.inf, mixed=mixing)
    found = combine_rounds(setting, [first, second], 500.0)
    assert found.point == pytest.approx(np.linalg.solve(mixing.T, point))
    assert found.score == pytest.approx(moved)
    assert found.variance == pytest.approx(2.0)
    both = combine_rounds(setting, [first, second, second], 500.0)
    assert both.score == pytest.approx(moved)
    assert both.variance == pytest.approx(1.0)


def _log_normal_matrix(matrix: np.ndarray, root: np.ndarray) -> float:
    """The log density of a matrix where log(root·matrix·root) is normal, its slopes by differences."""
    i, j = np.triu_indices(len(matrix))
    normal = stats.norm(0, np.where(i == j, 0.5, 0.5 / np.sqrt(2)))

    def logarithm(entries: np.ndarray) -> np.ndarray:
        return np.asarray(linalg.logm(root @ symmetric(entries, len(matrix)) @ root)[i, j])

    entries, steps = matrix[i, j], 1e-4 * np.eye(len(i))
    slopes = [(logarithm(entries + step) - logarithm(entries - step)) / 2e-4 for step in steps]
    return float(normal.logpdf(logarithm(entries)).sum() + np.linalg.slogdet(np.array(slopes))[1])


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_robust_errors_take_the_place_of_equal_ones(family: str) -> None:
    """K = AΛA' + B + s²I, B drawn as A is: by plain matrices; where it is not positive it is refused."""
    model, made, seen, _ = seen_once(family, 1e30)
    other = np.array([[200.0, 60.0, 20.0], [60.0, 90.0, -10.0], [20.0, -10.0, 200.0]])
    seen = seen._replace(outer=other, outer_variance=25.0)
    before = np.diag([2.0, 0.3, 0.5])
    found = LatentCurvature(model, made, seen, (np.zeros(3), before), 900.0, True, tilt=0.5)
    first, free = found.root.shape[1], found.root.shape[1] + found.outer_root.shape[1]
    x = np.zeros((3, free + 1))
    x[1, first:free], x[2, first] = 0.7, -1e6
    state = found.states(x)
    assert state.log_density[2] == -math.inf
    matrix, logs = symmetric(found.mean, 3), []
    for at in range(2):
        spread = symmetric(found.outer_mean + found.outer_root @ x[at, first:free], 3)
        chance = spread + found.rounding * matrix + seen.variance * np.eye(3)
        whole = matrix @ before @ matrix + chance
        left = seen.score + matrix @ seen.point
        gain = before @ matrix @ np.linalg.inv(whole)
        vectors = state.vectors[at]
        assert vectors @ state.mean[at] == pytest.approx(gain @ left - seen.point)
        covariance = vectors @ state.covariance[at] @ vectors.T
        assert covariance == pytest.approx(before - gain @ matrix @ before)
        before_noise = -np.log(np.linalg.eigvalsh(spread) + found.outer_per_record).sum()
        if family == "poisson":
            even = np.linalg.inv(linalg.sqrtm(0.5 * state.dispersion[at] * matrix))
            before_noise = _log_normal_matrix(spread, even)
        logs.append(stats.multivariate_normal(np.zeros(3), whole).logpdf(left) + before_noise)
    assert np.diff(state.log_density[:2]) == pytest.approx(np.diff(logs))
    drawn = found.sample()
    assert drawn.outer is not None
    assert drawn.outer == pytest.approx(other, abs=25)  # five deviations of its noise


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE])
def test_robust_errors_without_noise_are_those_of_a_sandwich(relation: Relation) -> None:
    """White's standard errors, of ten thousand records whose errors grow with x; equal ones are too small."""
    setting, found = asked("gaussian", 10_000, "1e5"), []
    setting = replace(setting, relation=relation, n=None if relation is Relation.ADD_REMOVE else setting.n)
    generator = np.random.default_rng(6)
    x = generator.integers(-1024, 1025, 10_000) / 1024
    y = np.clip(0.1 + 0.2 * x + 0.3 * x**2 * generator.normal(size=len(x)), -1, 1)
    rows = np.column_stack([np.ones(len(x)), x])
    block = RowBlock(1024 * rows, np.rint((y + 1) / 2 * (1 << 16)).astype(np.int64))
    for robust in (True, False):
        public = replace(setting, robust=robust)
        outcome = ask(
            public,
            lambda link, curved: exact_sums(setting.model, setting.design, link, [block], curved),
            SeededEntropy(3),
        )
        assert [sums.outer != () for _, sums in outcome.rounds] == [robust] * 3
        found.append(outcome.posterior.std())
    inverse = np.linalg.inv(rows.T @ rows)
    left = y - rows @ inverse @ rows.T @ y
    white = inverse @ (rows.T * left**2) @ rows @ inverse
    assert found[0] == pytest.approx(np.sqrt(np.diag(white)), rel=0.05)
    assert found[1][1] < 0.85 * found[0][1]


def test_a_curvature_that_is_not_positive_is_refused() -> None:
    model, made, seen, true = seen_once("poisson")
    found = LatentCurvature(model, made, seen, (np.zeros(3), np.eye(3)), 900.0, True)
    values, vectors = np.linalg.eigh(true)
    values[0] = -1e-6
    state = found.compute_states(values[None], vectors[None], np.ones(1), np.zeros(1))
    assert state.log_density[0] == -math.inf


def test_scores_at_several_points_tell_of_the_curvature_between_them() -> None:
    model, made, seen, true = seen_once("poisson")
    way = np.array([0.4, -0.1, 0.2])
    more = true @ way
    plain, told = (
        LatentCurvature(model, made, one, (np.zeros(3), np.eye(3)), 900.0, True)
        for one in (seen, seen._replace(others=((way, more, 1 / 50.0),)))
    )
    for matrix in (true, 1.2 * true):
        values, vectors = np.linalg.eigh(matrix)
        with_it, without = (
            one.compute_states(values[None], vectors[None], np.ones(1), np.zeros(1)) for one in (told, plain)
        )
        gaps = more - matrix @ way
        assert with_it.log_density - without.log_density == pytest.approx(-(gaps @ gaps) / 100)


def test_squares_of_residuals_have_the_distribution_of_simulated_ones() -> None:
    """Given the noisy score: draws of coefficients, chance and noise, whose squares have that mean and
    variance. 4·10⁴ draws; a false alarm has a chance of 10⁻⁶."""
    model, made, seen, true = seen_once("gaussian", 1.0)
    before, dispersion, n, number = np.diag([0.3, 0.1, 0.2]), 0.08, 120, 40_000
    found = LatentCurvature(model, made, seen, (seen.point, before), float(n), True)
    generator = np.random.default_rng(7)
    values, vectors = np.linalg.eigh(true)
    steps = generator.multivariate_normal(np.zeros(3), before, number) @ true
    score = steps + generator.multivariate_normal(np.zeros(3), dispersion * true, number)
    noisy = score + math.sqrt(seen.variance) * generator.normal(size=score.shape)
    there = score + true @ (seen.point - seen.square_point)
    squares = dispersion * generator.chisquare(n - 3, number)
    squares += np.einsum("ij,ij->i", there, np.linalg.solve(true, there.T).T)
    surprises = []
    for one, square in zip(noisy[:2000], squares[:2000], strict=True):
        own = LatentCurvature.__new__(LatentCurvature)
        own.__dict__ = {
            **found.__dict__,
            "seen": seen._replace(score=one, square=square, square_variance=1e-6),
        }
        logs = []
        for shift in (0.0, 1.0, -1.0):
            own.seen = own.seen._replace(square=square + shift)
            with_it = own.compute_states(values[None], vectors[None], np.array([dispersion]), np.zeros(1))
            logs.append(float(with_it.log_density[0]))
        # A normal distribution from three of its values: −(q − m)²/2v.
        variance = -1 / (logs[1] + logs[2] - 2 * logs[0])
        surprises.append((-(logs[1] - logs[2]) / 2 * variance) / math.sqrt(variance))
    surprises = np.array(surprises)
    assert abs(surprises.mean()) < 4.9 / math.sqrt(2000)
    assert abs(np.mean(surprises**2) - 1) < 4.9 * math.sqrt(2.5 / 2000)


def test_squares_without_noise_have_the_degrees_of_freedom_of_a_regression() -> None:
    model, made, seen, true = seen_once("gaussian", 1e-6)
    seen = seen._replace(variance=1e-9, square_point=seen.point)
    dispersion, n = 0.08, 40
    found = LatentCurvature(model, made, seen, (seen.point, np.eye(3)), float(n), True)
    values, vectors = np.linalg.eigh(true)
    explained = float(seen.score @ np.linalg.solve(true, seen.score))
    wanted, logs = (n - 3) * dispersion + explained, []
    for shift in (0.0, 1.0, -1.0):
        found.seen = seen._replace(square=wanted + shift)
        state = found.compute_states(values[None], vectors[None], np.array([dispersion]), np.zeros(1))
        logs.append(float(state.log_density[0]))
    assert logs[1] == pytest.approx(logs[2]), "the middle is where it should be"
    assert logs[0] - logs[1] == pytest.approx(1 / (2 * 2 * n * dispersion**2), rel=1e-3)


def test_the_distribution_of_rows_ties_what_is_a_function_of_the_rest() -> None:
    """Levels: of two the square is 1 whatever the records; with the number of records public it is known."""
    made = three_columns()
    generator = np.random.default_rng(1)
    codes = [generator.integers(0, made.variables[0].coder.size, 800), generator.integers(0, 2, 800)]
    rows = made.scale_rows(codes)
    true = rows.T @ rows
    upper = np.triu_indices(3)
    noise = np.where(upper[0] == upper[1], 30.0, 30.0 / math.sqrt(2))
    noisy = true[upper] + noise * generator.normal(size=6)
    mean, root = row_moments(made, 800.0, 1.0, True, symmetric(noisy, 3), 900.0)
    deviations = symmetric(np.sqrt((root**2).sum(axis=1)), 3)
    assert symmetric(mean, 3)[0, 0] == pytest.approx(800)
    assert symmetric(mean, 3)[2, 2] == pytest.approx(800, abs=1)
    assert deviations[0, 0] == pytest.approx(0, abs=1e-3)
    assert deviations[2, 2] < 1
    assert deviations[1, 1] > 20
    hidden, spread = row_moments(made, 800.0, 1.0, False, symmetric(noisy, 3), 900.0)
    assert symmetric(hidden, 3)[0, 0] == pytest.approx(symmetric(hidden, 3)[2, 2], abs=1), "still tied"
    assert np.sqrt((spread**2).sum(axis=1))[0] > 10
    for counted in (True, False):
        exact, nothing = row_moments(made, 800.0, 1.0, counted, true, 1e-12)
        assert exact == pytest.approx(true[upper], abs=1e-6)
        assert np.abs(nothing).max() < 1e-5


def test_the_distribution_of_rows_is_that_of_normal_moments_given_noisy_ones() -> None:
    made = three_columns()
    rows = made.probes(2048)
    upper = np.triu_indices(3)
    products = rows[:, upper[0]] * rows[:, upper[1]]
    before = (500 * 0.2) ** 2 * (products.T @ products / 2048 + 4.0**-made.bits * np.eye(6))
    noise = np.diag(np.where(upper[0] == upper[1], 64.0, 32.0))
    entries = np.array([90.0, 5.0, -3.0, 20.0, 2.0, 70.0])
    mean, root = row_moments(made, 500.0, 0.2, False, symmetric(entries, 3), 64.0)
    precision = np.linalg.inv(before) + np.linalg.inv(noise)
    start = 100 * products.mean(axis=0)
    wanted = np.linalg.solve(precision, np.linalg.inv(before) @ start + np.linalg.inv(noise) @ entries)
    assert mean == pytest.approx(wanted, rel=1e-6)
    assert root @ root.T == pytest.approx(np.linalg.inv(precision), rel=1e-5, abs=1e-6)


def only_a_constant(variance: float, curvature_variance: float) -> LatentCurvature:
    made = design("y ~ 1", family="binomial", levels={"y": ("0", "1")})
    seen = LastRound(
        np.array([0.2]), np.array([25.0]), variance, np.array([[45.0]]), curvature_variance, 0.0, 0.0,
        np.array([0.2]), 0.0, 1.0,
    )  # fmt: skip
    return LatentCurvature(model_of("binomial", made), made, seen, (np.zeros(1), np.eye(1) * 4), 200.0, True)


@pytest.mark.parametrize(("variance", "curvature_variance"), [(30.0, 4.0), (200.0, 900.0), (200.0, 10_000.0)])
def test_draws_have_the_distribution_of_a_sum_over_all_curvatures(
    variance: float, curvature_variance: float
) -> None:
    """One coefficient: from little noise on the curvature, where draws have weights, to slices."""
    found = only_a_constant(variance, curvature_variance)
    drawn = found.sample()
    root = float(found.root[0, 0])
    grid = np.linspace(1e-3, float(found.mean[0]) + 9 * root, 40_000)
    state = found.compute_states(
        grid[:, None], np.ones((len(grid), 1, 1)), np.ones(len(grid)), np.zeros(len(grid))
    )
    logs = state.log_density - ((grid - found.mean[0]) / root) ** 2 / 2
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    centres, inside = 0.2 + state.mean[:, 0], state.covariance[:, 0, 0]
    mean = weights @ centres
    spread = math.sqrt(weights @ (inside + (centres - mean) ** 2))
    assert drawn.mean[0] == pytest.approx(mean, abs=0.12 * spread)
    assert math.sqrt(drawn.covariance[0, 0]) == pytest.approx(spread, rel=0.1)
    of_draws = np.cov(drawn.draws[:, 0], aweights=drawn.weights, ddof=0)
    assert drawn.covariance[0, 0] == pytest.approx(float(of_draws), rel=0.06)
    for level in (0.05, 0.5, 0.95):
        value = np.sort(drawn.draws[:, 0])[
            np.searchsorted(np.cumsum(drawn.weights[np.argsort(drawn.draws[:, 0])]), level)
        ]
        chance = weights @ stats.norm.cdf(value, centres, np.sqrt(inside))
        assert chance == pytest.approx(level, abs=0.035)
    assert drawn.curvature[0, 0] == pytest.approx(weights @ grid, rel=0.2)


def test_slices_and_weights_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    setting = asked("gaussian", 3000, "3")
    seen = answered(setting, 2).round_evidence
    by_weights = posterior(setting, seen)
    monkeypatch.setattr(engine, "_ENOUGH", 2.0)
    by_slices = posterior(setting, seen)
    assert by_slices.draws.shape != by_weights.draws.shape or (by_slices.draws != by_weights.draws).any()
    assert (np.abs(by_slices.mean - by_weights.mean) < 0.1 * by_weights.std()).all()
    assert by_slices.std() == pytest.approx(by_weights.std(), rel=0.08)


def asked(family: str, size: int, epsilon: str) -> PublicSetting:
    """``y ~ x`` with x between −1 and 1, made without a formula."""
    unit = 1 << 10
    variable = Variable("x", grids.Grid((-1, 1), 2 * unit, False, None), False)
    response = {
        "gaussian": lambda: grids.Grid((-1, 1), 1 << 16, False, None),
        "binomial": lambda: levels.Levels(levels.Domain(("0", "1"))),
        "poisson": lambda: grids.Grid((0, 12), None, True, None),
    }[family]()
    columns = (Column("Intercept", ()), Column("x", ((0, tuple(range(-unit, unit + 1))),)))
    norm = math.isqrt(2 * unit**2 - 1) + 1
    moments = np.diag([1.0, 1 / 3])
    made = Design("y ~ x", (variable,), Variable("y", response, False), columns, 10, norm, np.eye(2), moments)
    budget = largest_gaussian(Fraction(epsilon), Fraction(1, 10**6))
    model = model_of(family, made)
    return PublicSetting(made, model, CoefficientPrior.wide(made, model), budget, Relation.REPLACE_ONE, size)


def answered(setting: PublicSetting, seed: int, excess: float = 0.0) -> Outcome:
    generator = np.random.default_rng(seed)
    assert setting.n is not None
    x = generator.integers(-1024, 1025, setting.n)
    eta = 0.3 + 0.5 * x / 1024
    response: Any = generator.poisson(np.exp(eta)).clip(0, 12)
    if excess:
        response = generator.poisson(generator.gamma(np.exp(eta) / excess, excess)).clip(0, 12)
    if setting.model.family == "binomial":
        response = (generator.random(setting.n) < expit(eta)).astype(np.int64)
    if setting.model.family == "gaussian":
        response = np.rint(
            (np.clip(eta / 3 + generator.normal(0, 0.2, setting.n), -1, 1) + 1) / 2 * (1 << 16)
        )
    rows = np.column_stack([np.full(setting.n, 1024.0), x])
    blocks = [RowBlock(rows, response.astype(np.int64))]
    return ask(
        setting,
        lambda link, curved: exact_sums(setting.model, setting.design, link, blocks, curved),
        SeededEntropy(seed),
    )


def test_rounds_of_a_straight_response_are_one_at_the_mean_of_their_points() -> None:
    setting = asked("gaussian", 500, "1")
    generator = np.random.default_rng(3)
    true = np.array([[500.0, 20.0], [20.0, 170.0]])
    beta, chance = np.array([0.3, -0.2]), generator.normal(size=2)
    points = (np.zeros(2), np.array([0.25, -0.3]), np.array([0.31, -0.18]))
    seen = [
        Evidence(point, true @ (beta - point) + chance, variance, true, 10.0, 30.0, 5.0, math.inf)
        for point, variance in zip(points, (4.0, 2.0, 1.0), strict=True)
    ]
    found = combine_rounds(setting, seen, 500.0)
    shares = np.array([1, 2, 4]) / 7
    assert found.point == pytest.approx(shares @ np.array(points))
    assert found.score == pytest.approx(true @ (beta - found.point) + chance)
    assert found.variance == pytest.approx(1 / (1 / 4 + 1 / 2 + 1))
    assert found.curvature_variance == pytest.approx(10 / 3)
    assert found.square_point == pytest.approx(points[-1])
    for way, more, _ in found.others:
        assert more == pytest.approx(true @ way), "differences are those of the curvature"


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_rounds_of_a_curved_response_have_the_score_of_the_last_point(family: str) -> None:
    """Without noise what is said of the score at the last point is right up to the stated error."""
    setting = asked(family, 4000, "1")
    generator = np.random.default_rng(5)
    rows = np.column_stack([np.ones(4000), generator.uniform(-1, 1, 4000)])
    response = (
        (generator.random(4000) < expit(rows @ [0.3, 0.5])).astype(float)
        if family == "binomial"
        else generator.poisson(np.exp(rows @ [0.3, 0.5]))
    )

    def at(point: Any, variance: float) -> Evidence:
        mean = expit(rows @ point) if family == "binomial" else np.exp(rows @ point)
        weight = mean * (1 - mean) if family == "binomial" else mean
        return Evidence(
            point,
            rows.T @ (response - mean),
            variance,
            rows.T @ (rows * weight[:, None]),
            1e-6,
            0.0,
            0.0,
            12.0,
        )

    first, last = np.array([0.1, 0.2]), np.array([0.35, 0.45])
    seen = [at(first, 1e-3), at(last, 1e9)]  # nearly all weight on the first
    found = combine_rounds(setting, seen, 4000.0)
    assert seen[1].curvature is not None
    predicted = found.score - seen[1].curvature @ (last - found.point)
    straight = seen[0].score - seen[0].curvature @ (last - first)
    assert np.linalg.norm(predicted - seen[1].score) < 0.2 * np.linalg.norm(straight - seen[1].score)
    assert np.sum((predicted - seen[1].score) ** 2) < 2 * 2 * found.variance


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_a_round_at_a_constant_point_is_one_at_every_constant(family: str) -> None:
    setting = asked(family, 3000, "1")
    generator = np.random.default_rng(6)
    rows = np.column_stack([np.ones(3000), generator.uniform(-1, 1, 3000)])
    response = (
        (generator.random(3000) < 0.2).astype(float) if family == "binomial" else generator.poisson(2, 3000)
    )
    start = setting.model.start(setting.design)
    mean, weight = setting.model.at_constant(float(start[0]))
    one = Evidence(start, rows.T @ (response - mean), 1e-9, weight * rows.T @ rows, 1e-9, 0.0, 0.0, 12.0)
    found = combine_rounds(setting, [one], 3000.0)
    average = float(response.mean())
    wanted = math.log(average / (1 - average)) if family == "binomial" else math.log(average)
    assert found.point == pytest.approx([wanted, 0.0])
    assert found.score == pytest.approx(rows.T @ (response - average), abs=1e-5)
    slope = average * (1 - average) if family == "binomial" else average
    assert found.curvature == pytest.approx(slope * rows.T @ rows)


def test_a_prior_that_is_not_declared_is_wide_over_the_spread_of_the_response() -> None:
    setting = asked("gaussian", 1000, "1")
    wide = setting.prior.covariance(0.09)
    assert np.sqrt(np.diag(wide)) == pytest.approx([0.3 * 4, 0.3 * 4])
    logistic = asked("binomial", 1000, "1").prior
    assert np.sqrt(np.diag(logistic.covariance())) == pytest.approx([6, 6])
    assert not setting.prior.learned


def test_a_prior_for_prediction_bounds_the_spread_of_predictors() -> None:
    """A linear predictor of evenly spread records has at most twice the response's deviation, however many
    columns, and a constant half the bounds; other families keep a quarter of the wide deviation."""
    made = three_columns()
    prior = CoefficientPrior.wide(made, model_of("gaussian", made), "prediction")
    assert prior.learned
    spreads = np.diag(prior.covariance(1.0)) * np.diag(made.second_moments)
    assert spreads == pytest.approx([0.25, 2.0, 2.0])
    counts = three_columns("poisson")
    deviations = np.sqrt(
        np.diag(CoefficientPrior.wide(counts, model_of("poisson", counts), "prediction").weak)
    )
    assert deviations == pytest.approx([6, 1, 1])


def approximated(
    mean: Any, covariance: Any, curvature: Any, level: float, dispersion: float
) -> NormalApproximation:
    """A distribution of the coefficients of records with a weight of 1 each."""
    return NormalApproximation(
        mean, covariance, curvature, level, level, dispersion, dispersion, curvature / level
    )


@pytest.mark.parametrize(("unsure", "again"), [(0.001, False), (0.5, True)])
def test_residuals_that_cannot_be_clipped_are_looked_at_from_the_start(unsure: float, again: bool) -> None:
    """The noise of a round never exceeds that of the bounds of the response."""
    setting = asked("gaussian", 1000, "1")
    curvature = 1000 * np.diag([1.0, 1 / 3])
    distribution = approximated(np.array([0.3, 0.9]), unsure * np.diag([0.5, 1.5]), curvature, 1000.0, 0.01)
    point, clip = setting.model.linearise_at(setting.design, distribution, setting.cost(Fraction(1, 2)))
    assert (clip is None) is again
    assert point.tolist() == ([0.0, 0.0] if again else [0.3, 0.9])
    plain, looked = (
        setting.round(setting.model.link(setting.design, *at), Fraction(1, 2)).noise.gradient
        for at in ((np.zeros(2), None), (point, clip))
    )
    assert looked <= plain


def test_a_declared_prior_is_taken_as_declared_and_leaves_the_others() -> None:
    wide = CoefficientPrior.wide(three_columns(), model_of("gaussian", three_columns()))
    mixing = np.array([[1.0, -1.0, 0.5], [0.0, 0.2, 0.0], [0.0, 0.0, 2.0]])
    offset = np.array([3.0, 0.0, 0.0])
    given = wide.with_declared(np.linalg.inv(mixing), offset, {1: (0.7, 0.01)})
    back = mixing @ given.covariance(0.25) @ mixing.T
    assert (mixing @ given.mean + offset) == pytest.approx([3.0, 0.7, 0.0])
    assert back[1] == pytest.approx([0, 1e-4, 0], abs=1e-12)
    plain = 0.25 * mixing @ wide.weak @ mixing.T
    assert back[np.ix_([0, 2], [0, 2])] == pytest.approx(plain[np.ix_([0, 2], [0, 2])])


def test_coefficients_that_the_prior_decides_are_named() -> None:
    before = np.diag([4.0, 9.0, 1.0])
    known = np.diag([0.01, 0.02, 0.01])
    direction = np.array([0.0, 2.0, 0.9])  # no more is known of it than before
    hidden = known + 0.8 * np.outer(direction, direction)
    draws = np.zeros((1, 3))
    distribution = Posterior(draws, np.ones(1), np.ones(1), known, before, exact=(np.zeros(3), hidden))
    assert distribution.find_undecided() == [1, 2]
    assert replace(distribution, exact=(np.zeros(3), known)).find_undecided() == []
    for informed, named in ((1.1, []), (0.9, [2])):  # data that say more, or less, than the prior
        posterior = np.linalg.inv(np.diag([100.0, 50.0, informed]) + np.linalg.inv(before))
        assert replace(distribution, exact=(np.zeros(3), posterior)).find_undecided() == named
    # Neither of two columns that say the same is known, though both deviations are below the prior's.
    alike = np.linalg.inv(np.array([[400.0, 400.0, 0.0], [400.0, 400.0, 0.0], [0.0, 0.0, 400.0]]) + np.eye(3))
    assert replace(distribution, prior=np.eye(3), exact=(np.zeros(3), alike)).find_undecided() == [0, 1]


def test_an_intercept_is_moved_by_half_of_the_mean_square_of_what_predictors_move() -> None:
    """Rates e^0.3 times those of the point: a straight score puts an intercept 0.05 too high."""
    setting, generator = asked("poisson", 3000, "1"), np.random.default_rng(3)
    rows = np.column_stack([np.ones(3000), generator.uniform(-1, 1, 3000)])
    last = np.array([1.0, 0.5])
    weights = np.exp(rows @ last)
    curvature = rows.T @ (rows * weights[:, None])
    truth = last + np.array([0.3, 0.0])
    score = rows.T @ (np.exp(rows @ truth) - weights)
    distribution = posterior(setting, [Evidence(last, score, 1e-3, curvature, 1e-3, 0.0, 1e12, 12.0)] * 2)
    straight = last + np.linalg.solve(curvature, score)
    assert abs(straight[0] - truth[0]) > 0.045
    assert distribution.mean == pytest.approx(truth, abs=0.012)


def test_a_round_looks_where_rates_are_and_not_where_a_straight_score_has_them() -> None:
    """A tenth of the records have a rate of 4, and were the score straight of 10."""
    made = design("y ~ g", family="poisson", bounds={"y": (0, 12)}, levels={"g": ("no", "yes")})
    setting = replace(asked("poisson", 20_000, "1"), design=made)
    codes = (np.arange(20_000) < 2000).astype(np.int64)
    rows = made.rows([codes], len(codes)) / made.unit
    rates = np.where(codes, 4.0, 1.0)
    start = np.array([math.log(rates.mean()), 0.0])
    score, curvature = rows.T @ (rates - rates.mean()), rates.mean() * rows.T @ rows
    straight = np.linalg.solve(curvature, score)
    assert np.exp(rows @ (start + straight)).max() > 10
    moments = rows.T @ rows / len(rows)
    step = _step(setting, np.eye(2), moments, start, straight)
    assert rows @ (start + step) == pytest.approx(np.log(rates), abs=0.06)
    wild = _step(setting, np.eye(2), moments, start, 1e4 * straight)
    assert np.abs(rows @ wild).max() < 20


def test_whether_the_score_is_straight_is_judged_where_the_records_are() -> None:
    """Narrow data in wide bounds: what a coefficient moves in the corners of the bounds does not count."""
    setting, generator = asked("poisson", 3000, "1"), np.random.default_rng(2)
    rows = np.column_stack([np.ones(3000), 0.05 * generator.normal(size=3000)])
    response = generator.poisson(np.exp(rows @ [0.3, 2.0]))
    last = np.array([0.35, 0.5])
    weights = np.exp(rows @ last)
    curvature = rows.T @ (rows * weights[:, None])
    seen = [
        Evidence(point, rows.T @ (response - np.exp(rows @ point)), 1e-3, curvature, 1e-3, 0.0, 0.0, 12.0)
        for point in (last - 0.01, last)
    ]
    distribution = posterior(setting, seen)
    gap = distribution.mean - last
    far = math.sqrt(np.average((rows @ gap) ** 2, weights=weights))
    sure = math.sqrt(gap @ np.linalg.solve(distribution.covariance, gap) / 2)
    assert distribution.bent == pytest.approx(far * sure / 2, rel=1e-3)
    assert far < 0.1 * np.abs(gap).sum()


def test_more_budget_narrows_intervals_down_to_those_without_noise() -> None:
    wide, narrow, most = (
        answered(asked("binomial", 4000, epsilon), 3).posterior for epsilon in ("0.3", "3", "40")
    )
    assert (wide.std() > narrow.std()).all()
    assert (narrow.std() > most.std() * 0.97).all()
    assert np.sqrt(np.diag(most.noise_free)) == pytest.approx(most.std(), rel=0.1)


@pytest.mark.parametrize(("family", "rounds"), [("binomial", 1), ("poisson", 1), ("poisson", 2)])
def test_steps_between_rounds_are_bounded(family: str, rounds: int) -> None:
    """A score that only noise explains does not carry the next round beyond 1½ deviations of predictors."""
    setting = asked(family, 1000, "0.1")
    start = setting.model.start(setting.design)
    curvature = np.diag([6000.0, 2000.0])
    one = Evidence(start, np.array([0.0, 9e4]), 1e4, curvature, 1e4, 0.0, 0.0, 12.0)
    distribution = normal_approximation(setting, [one] * rounds)
    gap = distribution.mean - np.array([distribution.mean[0], 0.0])
    assert math.sqrt(gap @ distribution.curvature @ gap / distribution.level) <= 1.5 + 1e-9
    assert distribution.predictor_variance >= 0


@pytest.mark.parametrize("excess", [0.0, 1.0])
def test_the_scatter_of_counts_is_found(excess: float) -> None:
    setting = asked("poisson", 20_000, "3")
    distribution = answered(setting, 1, excess).posterior
    middle = float(distribution.weights @ distribution.dispersion)
    assert middle == pytest.approx(1 + excess, rel=0.15)
    plain = answered(setting, 1).posterior
    if excess:
        assert (distribution.std() > 1.2 * plain.std()).all()


def test_clips_come_closer_with_more_noise_and_are_off_without() -> None:
    """Of residuals and of windows alike."""
    for family in ("gaussian", "poisson"):
        setting = asked(family, 5000, "1")
        distribution = normal_approximation(setting, answered(setting, 1).round_evidence)
        clips = [setting.model.clip(distribution, cost) for cost in (1e-9, 1e2, 1e6)]
        assert None not in clips
        assert clips == sorted(clips, reverse=True)  # type: ignore[type-var]
        assert clips[0] > clips[-1]  # type: ignore[operator]
    model = PoissonModel(13)
    assert model.scatter(12, 0.3, 0.1) == pytest.approx(1, abs=0.01)


def with_signs(family: str, mu: int) -> tuple[PublicSetting, Any, Any]:
    """``y ~ rare + x + often``: columns that are far from normal, and responses that fill their bounds."""
    generator, n, unit = np.random.default_rng(5), 6000, 1 << 10
    rare = generator.random(n) < 0.06
    x = np.rint(unit * (2 * generator.beta(1, 5, n) - 1)).astype(np.int64)
    often = generator.random(n) < np.where(rare, 0.2, 0.95)
    signs = [np.where(one, unit, -unit) for one in (rare, often)]
    rows = np.column_stack([np.full(n, unit), signs[0], x, signs[1]]).astype(np.float64)
    eta = rows / unit @ [-0.8, 0.5, -0.9, 0.6]
    if family == "gaussian":
        coder: Any = grids.Grid((0, 1), 1 << 16, False, None)
        values = generator.beta(0.5 + expit(eta), 0.7)  # from one bound to the other, and not normal
        response = np.rint(values * (1 << 16)).astype(np.int64)
    elif family == "binomial":
        coder = levels.Levels(levels.Domain(("0", "1")))
        values = response = (generator.random(n) < expit(eta)).astype(np.int64)
    else:
        coder = grids.Grid((0, 12), None, True, None)
        values = response = generator.poisson(np.exp(eta)).clip(0, 12)
    pair, line = (-unit, unit), tuple(range(-unit, unit + 1))
    sign, number = levels.Levels(levels.Domain((0, 1))), grids.Grid((-1, 1), 2 * unit, False, None)
    variables = (Variable("rare", sign, False), Variable("x", number, False), Variable("often", sign, False))
    columns = (
        Column("Intercept", ()),
        *(
            Column(v.name, ((j, table),))
            for j, (v, table) in enumerate(zip(variables, (pair, line, pair), strict=True))
        ),
    )
    guess = np.diag([1.0, 1.0, 1 / 3, 1.0])
    made = Design("…", variables, Variable("y", coder, False), columns, 10, 2 * unit, np.eye(4), guess)
    model = model_of(family, made)
    prior = CoefficientPrior.wide(made, model)
    setting = PublicSetting(made, model, prior, Fraction(mu) ** 2, Relation.REPLACE_ONE, n)
    return setting, RowBlock(rows, response), 2 * values - 1 if family == "gaussian" else values


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_without_noise_it_is_an_ordinary_regression_whatever_the_rows(family: str) -> None:
    """Columns that are not normal, and bounds that clip nothing: maximum likelihood is the oracle."""
    setting, block, values = with_signs(family, 500)
    outcome = ask(
        setting,
        lambda link, curved: exact_sums(setting.model, setting.design, link, [block], curved),
        SeededEntropy(1),
    )
    rows, found = block.rows / setting.design.unit, np.zeros(4)
    weights = np.ones(len(rows))
    for _ in range(30):
        means = {"gaussian": rows @ found, "binomial": expit(rows @ found), "poisson": np.exp(rows @ found)}
        weights = {"gaussian": weights, "binomial": expit(rows @ found) * expit(-rows @ found)}.get(
            family, means["poisson"]
        )
        curvature = rows.T @ (rows * weights[:, None])
        found = found + np.linalg.solve(curvature, rows.T @ (values - means[family]))
    errors = 1.0 if family != "gaussian" else float(np.std(values - rows @ found))
    exact = errors * np.sqrt(np.diag(np.linalg.inv(curvature)))
    distribution = outcome.posterior
    assert distribution.std() == pytest.approx(exact, rel=0.03 if family != "poisson" else 0.08)
    assert (np.abs(distribution.mean - found) < 0.06 * exact).all()


def test_a_bound_that_no_residual_reaches_clips_nothing() -> None:
    setting, _, _ = with_signs("gaussian", 1)
    model, design = setting.model, setting.design
    assert math.isinf(model.clip_of(model.link(design, np.zeros(4))))
    assert math.isinf(model.clip_of(model.link(design, np.zeros(4), 7.0)))
    assert model.clip_of(model.link(design, np.zeros(4), 0.5)) == 0.5


@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_what_is_drawn_beside_the_curvature_has_its_distribution(family: str) -> None:
    """The dispersion is drawn from a guess that the density takes back; before, σ is uniform and log φ of
    counts normal. The scale of the prior is log-uniform, and is of slopes alone."""
    model, made, seen, _ = seen_once(family, 1e30)  # squares that say nothing
    centre, before = np.array([0.5, 0.2, -0.1]), np.diag([2.0, 0.3, 0.5])
    found = LatentCurvature(model, made, seen, (centre, before), 900.0, True, learned=True)
    matrix, free = symmetric(found.mean, 3), found.root.shape[1]
    logs, others = [], []
    for own, turn in ((0.0, 0.0), (-0.3, -1.0), (-0.7, 1.5)):
        x = np.zeros((1, free + 2))
        x[0, free:] = own, turn
        state = found.states(x)
        middle, spread = found.log_dispersion
        dispersion = math.exp(middle + spread * own)
        assert state.dispersion[0] == pytest.approx(dispersion)
        scale = 64 ** -stats.norm.cdf(turn)
        stretch = np.diag([1.0, scale, scale])
        distribution = matrix @ stretch @ before @ stretch @ matrix
        distribution += (dispersion + found.rounding) * matrix + seen.variance * np.eye(3)
        left = seen.score - matrix @ (centre - seen.point)
        log = stats.multivariate_normal(np.zeros(3), distribution).logpdf(left) + own**2 / 2
        known = math.log(dispersion) / 2 if family == "gaussian" else -((math.log(dispersion) / 0.5) ** 2) / 2
        logs.append(float(state.log_density[0]))
        others.append(log + known)
    assert np.diff(logs) == pytest.approx(np.diff(others), rel=1e-6)


def test_squares_of_counts_have_the_distribution_of_simulated_ones() -> None:
    """Σ(y − λ)² of 400 counts: 2,000 of them; a false alarm has a chance of 10⁻⁶."""
    made, rate, n = design("y ~ 1", family="poisson", bounds={"y": (0, 60)}), 3.0, 400
    seen = LastRound(
        np.array([math.log(rate)]), np.zeros(1), 1e-9, np.array([[n * rate]]), 1e-9, 0.0, 1e-9,
        np.array([math.log(rate)]), 60.0, 1.0,
    )  # fmt: skip
    found = LatentCurvature(model_of("poisson", made), made, seen, (seen.point, np.eye(1)), float(n), True)
    counts = np.random.default_rng(3).poisson(rate, (2000, n))
    surprises = []
    for square in ((counts - rate) ** 2).sum(axis=1):
        logs = []
        for shift in (0.0, 1.0, -1.0):
            found.seen = seen._replace(square=float(square) + shift)
            state = found.compute_states(np.array([[n * rate]]), np.ones((1, 1, 1)), np.ones(1), np.zeros(1))
            logs.append(float(state.log_density[0]))
        variance = -1 / (logs[1] + logs[2] - 2 * logs[0])
        surprises.append(-(logs[1] - logs[2]) / 2 * math.sqrt(variance))
    assert abs(np.mean(surprises)) < 4.9 / math.sqrt(2000)
    assert np.mean(np.square(surprises)) == pytest.approx(1, abs=4.9 * math.sqrt(2.5 / 2000) + 0.03)


def test_draws_have_the_moments_that_are_known_in_closed_form() -> None:
    model, made, seen, _ = seen_once("poisson")
    found = LatentCurvature(model, made, seen, (seen.point, np.eye(3)), 900.0, False)
    drawn = found.sample()
    assert drawn.weights @ drawn.draws == pytest.approx(drawn.mean, abs=1e-9)
    assert drawn.weights @ drawn.level == pytest.approx(drawn.curvature[0, 0])
    assert len(np.unique(drawn.level)) > 20, "few coefficients: many curvatures"


def test_of_many_coefficients_the_error_of_the_curvature_counts_as_noise() -> None:
    model, made, seen, _ = seen_once("poisson")
    found = LatentCurvature(model, made, seen, (seen.point, np.eye(3)), 900.0, True)
    one, many = found._estimate_state(), found._many()
    far = float((many.mean[0] ** 2).sum() + np.trace(many.covariance[0]))
    spread = seen.curvature_variance * far / 2 * (1 + 1 / 3)  # the mean square of an entry of E·δ
    found.seen = seen._replace(variance=seen.variance + spread)
    assert many.covariance == pytest.approx(found._estimate_state().covariance, rel=0.02)
    assert np.trace(many.covariance[0]) > 1.001 * np.trace(one.covariance[0])


def test_a_prior_is_over_an_upper_end_of_the_spread_of_the_response() -> None:
    setting = asked("gaussian", 1000, "1")
    one = Evidence(np.zeros(2), np.zeros(2), 1.0, 1000 * np.eye(2), 1.0, 10.0, 100.0, math.inf)
    assert np.linalg.inv(latent(setting, [one]).precision) == pytest.approx(setting.prior.covariance(0.03))


def test_noise_on_the_curvature_of_an_earlier_round_is_noise_on_its_score() -> None:
    """By 20,000 draws of that noise."""
    setting, way, size = asked("binomial", 4000, "1"), np.array([0.3, -0.2]), 2
    true = np.array([[900.0, 30.0], [30.0, 300.0]])
    points = (np.zeros(2), way)
    seen = [
        Evidence(point, np.array([5.0, 7.0]), variance, true, 400.0)
        for point, variance in zip(points, (9.0, 1e12), strict=True)
    ]
    found = combine_rounds(setting, seen, 4000.0)
    generator = np.random.default_rng(1)
    errors = symmetric(generator.normal(size=(20_000, 3)) * np.sqrt([400.0, 200.0, 400.0]), 2) @ way / 2
    assert found.variance == pytest.approx(9 + (errors**2).sum(axis=1).mean() / size, rel=0.03)


def test_clipped_residuals_are_straight_over_the_share_that_is_not_clipped() -> None:
    setting = asked("gaussian", 1000, "1")
    one = Evidence(np.zeros(2), np.array([30.0, -20.0]), 4.0, 1000 * np.eye(2), 1.0, 40.0, 1.0, 0.25)
    found = combine_rounds(setting, [one], 1000.0)
    inside = 1 - 2 * stats.norm.sf(0.25, scale=0.2)
    assert found.score == pytest.approx(one.score / inside)
    assert found.variance == pytest.approx(4 / inside**2)
    counts = asked("poisson", 1000, "1")
    last = replace(one, point=np.array([1.5, 0.0]), curvature=4000 * np.eye(2), clip=6.0)
    ratio = combine_rounds(counts, [replace(last, clip=12.0), last], 1000.0).ratio
    _, slope, scatter, _, _ = window_moments(np.array([1.5]), 6.0, 12)
    assert ratio == pytest.approx(float(scatter[0] / slope[0]), abs=0.01)
    assert ratio < 0.95


def test_a_constant_that_is_moved_takes_its_noise_along() -> None:
    setting = asked("binomial", 1000, "1")
    one = Evidence(np.zeros(2), np.array([-300.0, 0.0]), 16.0, np.array([[250.0, 10.0], [10.0, 80.0]]), 36.0)
    found = combine_rounds(setting, [one], 1000.0)
    assert found.point[0] == pytest.approx(math.log(0.2 / 0.8))
    assert found.variance == pytest.approx(16 + (0.3 / 0.25) ** 2 * 36 / 2)
    assert found.curvature_variance == pytest.approx(36 * (0.16 / 0.25) ** 2)


def test_a_constant_is_not_moved_beyond_what_noise_leaves_sure() -> None:
    """More than all responses are 0 as far as the noisy sum goes: the share is three deviations of it."""
    setting = asked("binomial", 1000, "1")
    one = Evidence(np.zeros(2), np.array([-505.0, 0.0]), 100.0, 250 * np.eye(2), 36.0)
    chance = 3 * 10 / 1000
    assert combine_rounds(setting, [one], 1000.0).point[0] == pytest.approx(math.log(chance / (1 - chance)))


def test_a_private_number_of_records_is_taken_from_the_constant_column() -> None:
    setting = replace(asked("binomial", 1000, "1"), n=None, relation=Relation.ADD_REMOVE)
    one = Evidence(np.zeros(2), np.zeros(2), 1.0, np.diag([210.0, 70.0]), 4.0)
    assert latent(setting, [one]).records == pytest.approx(840)


def test_what_the_noise_adds_is_none_without_noise_for_linear_models_too() -> None:
    distribution = answered(asked("gaussian", 4000, "200"), 3).posterior
    assert np.sqrt(np.diag(distribution.noise_free)) == pytest.approx(distribution.std(), rel=0.05)


def test_clips_leave_room_where_errors_may_not_be_normal() -> None:
    """Of residuals, the more records the wider, with noise in proportion; of counts, three deviations at the
    larger rates and two of what is not known of them."""
    made, clips = asked("gaussian", 1000, "1"), []
    for records in (1e3, 1e6, 1e9):
        curvature = records * np.diag([1.0, 1 / 3])
        distribution = approximated(np.zeros(2), np.zeros((2, 2)), curvature, records, 0.01)
        clips.append(made.model.clip(distribution, 0.01 * records))
    assert clips[0] < clips[1] < clips[2]  # type: ignore[operator]
    counts = asked("poisson", 1000, "1")
    curvature = 1000 * math.e * np.diag([1.0, 1 / 3])
    unsure = 0.04 * np.diag([0.5, 1.5])
    distribution = approximated(np.array([1.0, 0.0]), unsure, curvature, 1000 * math.e, 1.0)
    assert distribution.predictor_variance == pytest.approx(0.04)
    rate = math.exp(1 + 1.5 * 0.2)
    assert counts.model.clip(distribution, 1e9) == 1 + math.ceil(3 * math.sqrt(rate) + 2 * 0.2 * rate)
    scattered = replace(distribution, dispersion=2.0)
    assert counts.model.clip(scattered, 1e9) == 1 + math.ceil(3 * math.sqrt(2 * rate) + 2 * 0.2 * rate)


def test_the_next_round_clips_by_an_upper_end_of_the_dispersion() -> None:
    setting = asked("gaussian", 500, "1")
    curvature = 500 * np.diag([1.0, 1 / 3])
    one = Evidence(np.zeros(2), np.zeros(2), 1e-3, curvature, 1e-3, 20.0, 25.0, math.inf)
    distribution = normal_approximation(setting, [one])
    assert distribution.upper_dispersion > (20 + 2 * 5) / 500


def test_descent_without_noise_ends_at_the_maximum_likelihood() -> None:
    """The mean of its later points, of which there are as many as it divides by."""
    setting, block, values = with_signs("binomial", 10**6)
    plan = Schedule((), steps=199)
    reached = ask(
        setting,
        lambda link, curved: exact_sums(setting.model, setting.design, link, [block], curved),
        SeededEntropy(1),
        schedule=plan,
    ).reached
    assert reached is not None
    rows = block.rows / setting.design.unit
    left = rows.T @ (values - expit(rows @ reached))
    assert np.abs(left).max() < 0.01 * len(rows)
