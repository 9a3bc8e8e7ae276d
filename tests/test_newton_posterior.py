"""What follows from released sums, against brute force: windows of counts, normal rows, the posterior."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import expit

from discreet.declarations import Relation
from discreet.privacy.curves import largest_gaussian
from discreet.randomness.entropy import SeededEntropy
from discreet.regression.newton.design import Column, Design, Variable, design
from discreet.regression.newton.models import EXCESSES, PoissonModel, model_of, windowed
from discreet.regression.newton.moments import (
    ResponseCurve,
    RowMoments,
    _entries,
    clipped_moments,
    column_spreads,
    gathering,
    learned,
    moments_of,
)
from discreet.regression.newton.posterior import (
    CoefficientPrior,
    Evidence,
    PublicSetting,
    _Target,
    evidence,
    maximum,
    targets_of,
)
from discreet.regression.newton.rounds import Outcome, ask
from discreet.regression.newton.sums import Round, RowBlock, exact_sums

grids = pytest.importorskip("discreet.data.grids")
levels = pytest.importorskip("discreet.data.levels")


@pytest.mark.parametrize("window", [1, 3, 30])
def test_a_window_of_counts_has_the_moments_of_its_law(window: int) -> None:
    predictors = np.linspace(-3, 3.4, 40)
    mean, slope, variance, low, high = windowed(predictors, window, 12)
    step = 1e-5
    for at, eta in enumerate(predictors):
        counts = np.clip(np.arange(200), low[at], high[at])
        law = stats.poisson.pmf(np.arange(200), math.exp(eta))
        moved = stats.poisson.pmf(np.arange(200), math.exp(eta + step))
        assert mean[at] == pytest.approx(counts @ law, abs=1e-9)
        assert variance[at] == pytest.approx(counts**2 @ law - (counts @ law) ** 2, abs=1e-8)
        assert slope[at] == pytest.approx(counts @ (moved - law) / step, abs=1e-3)


@pytest.mark.parametrize(
    ("most", "window", "centre", "variance"), [(20, 3, 1.0, 0.25), (20, 20, 2.5, 0.0), (2, 1, 0.0, 0.1)]
)
def test_counts_that_scatter_more_have_the_moments_of_their_law(
    most: int, window: int, centre: float, variance: float
) -> None:
    """Negative binomial counts around each of many rates, summed up, in the window of that rate."""
    counts, every = np.arange(3000), []
    predictors = centre + math.sqrt(variance) * np.linspace(-5, 5, 200 if variance else 1)
    for rate in np.exp(predictors):
        middle = min(round(rate), most)
        kept = np.clip(counts, max(middle - window, 0), min(middle + window, most))
        laws = [stats.poisson.pmf(counts, rate)]
        laws += [stats.nbinom.pmf(counts, rate / excess, 1 / (1 + excess)) for excess in EXCESSES[1:]]
        mean = kept @ laws[0]
        every.append([((kept @ law - mean) ** 2, (kept - mean) ** 2 @ law) for law in laws])
    chances = stats.norm.pdf(predictors, centre, math.sqrt(variance) or 1.0)
    wanted = np.tensordot(chances / chances.sum(), np.array(every), 1).T
    moved, ratios = PoissonModel(most + 1).excesses(window, np.array([centre]), np.array([variance]))
    assert moved == pytest.approx(wanted[0], rel=0.2, abs=1e-5)
    assert ratios == pytest.approx(wanted[1] / wanted[1][0], rel=0.02)


def test_ratios_never_fall() -> None:
    """With rare counts and narrow windows squares fall again where counts scatter much: most are 0."""
    _, ratios = PoissonModel(21).excesses(3, np.array([-3.0]), np.array([0.2]))
    assert (np.diff(ratios) >= 0).all()


@pytest.mark.parametrize("clip", [0.1, 1.0, 5.0, math.inf])
def test_moments_of_clipped_normal_residuals(clip: float) -> None:
    inside, second, fourth = clipped_moments(np.array(0.7), clip)
    law = stats.norm(0, math.sqrt(0.7))
    for power, found in ((2, second), (4, fourth)):
        wanted = integrate.quad(lambda r, p=power: min(abs(r), clip) ** p * law.pdf(r), -9, 9, limit=300)[0]
        assert found == pytest.approx(wanted, rel=1e-6)
    assert inside == pytest.approx(law.cdf(clip) - law.cdf(-clip))


def test_the_law_of_eigenvalues_has_the_slope_of_finite_differences() -> None:
    root = np.random.default_rng(3).normal(size=(4, 4))
    matrix, step, size = root @ root.T + np.eye(4), 1e-6, np.arange(4)

    def log_law(moved: Any) -> float:
        values = np.linalg.eigvalsh(moved)
        gaps = np.abs(values[:, None] - values) + np.eye(4)
        return float(np.sum(np.log(values)) - np.sum(np.log(gaps)) / 2)

    found = gathering(matrix, np.full((4, 4), 1e-12))
    for i, j in product(size, size):
        move = np.zeros((4, 4))
        move[i, j] = move[j, i] = step
        wanted = (log_law(matrix + move) - log_law(matrix - move)) / (2 * step)
        assert found[i, j] == pytest.approx(wanted if i != j else 0.0, rel=1e-4, abs=1e-4)


def test_eigenvalues_that_noise_drove_apart_come_together() -> None:
    """The least that is found is below what the matrix has along its vector; less of that is left."""
    generator, matrix, deviation = np.random.default_rng(4), np.diag(np.linspace(0.4, 0.6, 10)), 0.02
    variance = deviation**2 * (1 - np.eye(10))
    gaps = []
    for _ in range(40):
        noise = np.triu(generator.normal(size=(10, 10)) * np.sqrt(variance))
        seen = matrix + noise + np.triu(noise, 1).T
        for one in (seen, seen + variance * gathering(seen, variance)):
            values, vectors = np.linalg.eigh(one)
            gaps.append(values[0] - vectors[:, 0] @ matrix @ vectors[:, 0])
    before, after = np.array(gaps).reshape(-1, 2).T
    assert before.mean() < -2 * deviation
    assert abs(after.mean()) < 0.6 * abs(before.mean())


@pytest.mark.parametrize(("first", "second", "product"), [(0.5, 0.3, 0.1), (0.5, 0.3, 0.3), (1.0, 0.2, 0.3)])
def test_a_product_moves_to_its_mean_under_the_law_of_eigenvalues(
    first: float, second: float, product: float
) -> None:
    """Two columns with known squares: the mean of p(c | seen), by integration, is the oracle."""
    deviation = 0.005

    def density(c: float) -> float:
        law = (first * second - c * c) / math.hypot(first - second, 2 * c)
        return law * math.exp(-(((c - product) / deviation) ** 2) / 2)

    ends = product - 9 * deviation, min(product + 9 * deviation, math.sqrt(first * second))
    total, moment = (integrate.quad(lambda c, p=p: c**p * density(c), *ends, epsabs=0)[0] for p in (0, 1))
    seen = np.array([[first, product], [product, second]])
    moved = deviation**2 * gathering(seen, deviation**2 * (1 - np.eye(2)))
    assert moved[0, 1] == pytest.approx(moment / total - product, rel=0.06)
    assert moved[0, 1] == pytest.approx(moved[1, 0])


def test_moments_gather_by_what_the_rounds_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """By variance times slope, and of that the part that was not known before; squares stay."""
    pytest.importorskip("formulaic")
    found = design("y ~ x + z", family="gaussian", bounds=dict.fromkeys(("x", "y", "z"), (-1, 1)))
    model, records, noise = model_of("gaussian", found), 1000.0, 4e-4
    seen = model.guess(found) + np.array([[0.0, 0.1, 0.2], [0.1, 0.0, 0.2], [0.2, 0.2, 0.0]])
    told = Evidence(np.zeros(3), np.zeros(3), 1.0, records * seen, records**2 * noise)
    after = moments_of(model, found, [told], records)
    monkeypatch.setattr("discreet.regression.newton.moments.gathering", lambda mean, variance: 0 * mean)
    before = moments_of(model, found, [told], records)
    monkeypatch.undo()
    assert after.variance == pytest.approx(before.variance)
    gain = np.minimum(before.variance / (noise * (np.eye(3) + 1) / 2), 1)
    wanted = before.variance * gain * gathering(before.mean, before.variance)
    assert after.mean - before.mean == pytest.approx(wanted, rel=1e-9, abs=1e-15)
    assert np.abs(wanted).max() > 1e-3
    assert np.diag(after.mean) == pytest.approx(np.diag(before.mean))


def test_means_over_normal_rows_are_those_of_a_grid() -> None:
    """Two columns and a constant: a product rule over both columns is the oracle."""
    grid = np.linspace(-16, 16, 641)
    curve = ResponseCurve.of(grid, expit(grid) * expit(-grid), expit(grid) * expit(-grid))
    centre, root = np.array([1.0, 0.3, -0.2]), np.array([[0.0, 0], [0.5, 0], [0.2, 0.4]])
    moments = RowMoments(root @ root.T + np.outer(centre, centre), np.zeros((3, 3)), 1.0, 0)
    points = np.array([[0.2, -0.5, 0.9], [1.0, 2.0, 0.0]])
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    first, second = (one.ravel() for one in np.meshgrid(nodes, nodes))
    chance = np.outer(weights, weights).ravel() / weights.sum() ** 2
    rows = centre + np.column_stack([first, second]) @ root.T
    means = curve.expected(*moments.predictors(points))
    for at, point in enumerate(points):
        response = expit(rows @ point)
        assert moments.sums(points, means[0])[at] == pytest.approx((chance * response) @ rows, abs=2e-4)
        bent = (rows * (chance * response * (1 - response))[:, None]).T @ rows
        assert moments.weighted(points, means[1])[at] == pytest.approx(bent, abs=2e-4)


def test_numbers_are_learned_as_by_a_sum_over_all_of_them() -> None:
    """Two numbers about a common one, either of which may scatter: a sum over a grid of all is the oracle."""
    values, noise, own, records = np.array([0.4, -0.1]), np.array([0.02, 0.05]), np.array([0.0, 0.01]), 400.0
    found = learned(values, noise, own, records)
    axis = np.linspace(-1.6, 1.6, 161)
    common, first, second = np.meshgrid(axis, axis, axis, indexing="ij", sparse=True)
    total, moments = 0.0, np.zeros((2, 2))
    scatters = np.geomspace(1 / math.sqrt(records), 0.5, 12)
    ways = [(scatter, share) for scatter in scatters for share in (1 / 2, 1 / 4, 1 / 8, 1 / 16)]
    for scatter, share in ways + [(scatters[0], 1.0)] * len(ways):
        density = stats.norm.pdf(common, 0, 0.5) * np.ones_like(first + second)
        for at, number in enumerate((first, second)):
            few, most = (
                stats.norm.pdf(number, common, math.sqrt(one**2 + own[at])) for one in (scatter, scatters[0])
            )
            density = density * (share * few + (1 - share) * most)
            density = density * stats.norm.pdf(values[at], number, math.sqrt(noise[at]))
        total += density.sum()
        moments += [[(density * one**power).sum() for one in (first, second)] for power in (1, 2)]
    assert found.mean == pytest.approx(moments[0] / total, abs=0.01)
    assert found.variance == pytest.approx(moments[1] / total - (moments[0] / total) ** 2, rel=0.1)


def test_errors_of_moments_are_those_of_means_and_of_what_is_common() -> None:
    """E·δ has the covariance of E drawn part by part: of the means, of a common number, of the entries."""
    generator, centre = np.random.default_rng(3), np.array([1.0, 0.4, -0.7])
    tied = np.array([[0, 1, 1], [1, 0, 0.6], [1, 0.6, 0.0]])
    unsure, own = np.array([0.0, 0.3, 0.2]), np.array([[0, 0, 0], [0, 0.4, 0.1], [0, 0.1, 0.3]])
    alike = np.array([[0, 0, 0], [0, 0.5, 0], [0, 0, 0.2]])
    variance = own + alike**2 + tied**2 * (np.outer(centre**2, unsure) + np.outer(unsure, centre**2))
    moments = RowMoments(
        np.outer(centre, centre) + np.diag([0.0, 1, 1]), variance, 1.0, 0, None, 0.0, tied, (alike,)
    )
    number, moves = 200_000, np.array([[0.5, -1.0, 0.3], [0.0, 1.0, 1.0]])
    means = generator.normal(size=(number, 3)) * np.sqrt(unsure)
    entries = np.triu(generator.normal(size=(number, 3, 3)) * np.sqrt(own))
    errors = entries + np.triu(entries, 1).transpose(0, 2, 1)
    errors += tied * (means[:, :, None] * centre + centre[:, None] * means[:, None, :])
    errors += alike * generator.normal(size=(number, 1, 1))
    for move, found in zip(moves, moments.unsure(moves), strict=True):
        assert found == pytest.approx(np.cov(errors @ move, rowvar=False), abs=0.02)


def test_a_column_is_hidden_whose_variance_is_not_known_to_a_half() -> None:
    """Against the spread of square − mean² over draws of the two errors."""
    generator = np.random.default_rng(4)
    for spread, square, mean in (
        (0.12, 0.003, 0.003),
        (0.12, 0.003, 0.007),
        (0.12, 0.012, 0.001),
        (0.6, 0.1, 0.05),
    ):
        moments = np.array([[1.0, 0.7, 0.0], [0.7, 0.49 + spread**2, 0.0], [0.0, 0.0, 1 / 3]])
        variance = np.zeros((3, 3))
        variance[1, 1], variance[0, 1] = square**2, mean**2
        variance[1, 0] = variance[0, 1]
        errors = generator.normal(size=(2, 100_000)) * [[square], [mean]]
        off = np.std(moments[1, 1] + errors[0] - (0.7 + errors[1]) ** 2) / spread**2
        assert abs(off - 0.5) > 0.05
        assert RowMoments(moments, variance, 1e3, 0).hidden == ([1] if off > 0.5 else [])
    assert RowMoments(moments, np.ones((3, 3)), 1e3, 0).hidden == [1, 2]
    assert RowMoments(moments, np.ones((3, 3)), 1e3, None).hidden == []


def test_stated_errors_of_moments_are_those_of_moments_drawn_from_the_law_before() -> None:
    """Squares, means and correlations about a common number each, with noise on every second moment.

    The mean square of E·w, of its part along w and of that at the constant, over what is stated of them; of
    centred predictors x·w and of others.
    """
    n, k, sd = 1000, 4, 0.03
    guess, settled = np.diag([1.0] + [1 / 3] * k), np.full((k + 1, k + 1), np.nan)
    settled[0, 0] = 1.0
    generator = np.random.default_rng(12)

    def common(low: float, high: float) -> float:
        while not low < (found := generator.normal(0, 0.5)) < high:
            pass
        return float(found)

    sums = np.zeros((2, 2, 3))
    for turn in range(600):
        scatter = generator.normal(size=(2, k)) / math.sqrt(n)
        squares = np.array([1.0, *(1 + common(-0.5, 0.5) + scatter[0]) / 3])
        means = np.array([1.0, *np.sqrt(squares[1:]) * (common(-0.8, 0.8) + scatter[1])])
        spread = np.sqrt(squares - means**2)
        own = np.triu(generator.normal(size=(k + 1, k + 1)), 1) / math.sqrt(n)
        true = np.outer(means, means) + np.outer(spread, spread) * (common(-0.25, 0.8) + own + own.T)
        true[np.diag_indices(k + 1)] = squares
        noise = np.triu(generator.normal(size=(k + 1, k + 1)), 1) * sd / math.sqrt(2)
        noise = noise + noise.T + np.diag(generator.normal(size=k + 1)) * sd
        mean, variance, tied, alike = _entries(
            guess, true + noise, sd**2 * (np.eye(k + 1) + 1) / 2, settled, 0, float(n)
        )
        move = generator.normal(size=k + 1)
        move[0] = -means[1:] @ move[1:] if turn % 2 else move[0]
        move /= math.sqrt(move @ true @ move)
        stated = RowMoments(mean, variance, float(n), 0, tied=tied, alike=alike).unsure(move[None])[0]
        wrong = (mean - true) @ move
        sums[0, turn % 2] += wrong @ wrong, (move @ wrong) ** 2, wrong[0] ** 2
        sums[1, turn % 2] += np.trace(stated), move @ stated @ move, stated[0, 0]
    ratios = sums[0] / sums[1]
    assert (ratios > 0.75).all()
    assert (ratios < 1.25).all()


def test_moments_that_every_record_has_alike_are_known() -> None:
    pytest.importorskip("formulaic")
    found = design(
        "y ~ C(sex) + C(region) + age",
        family="gaussian",
        bounds={"y": (0, 1), "age": (0, 9)},
        levels={"sex": ("f", "m"), "region": ("n", "s", "w", "e")},
    )
    rows = found.scaled([np.tile([0, 1], 8), np.arange(16) // 4, np.arange(16)])
    products = np.einsum("ij,ik->ijk", rows, rows)
    same = np.ptp(products, axis=0) == 0
    assert (np.isfinite(found.settled) == same).all()
    assert found.settled[same] == pytest.approx(products[0][same])
    assert same.sum() == 1 + 1 + 6, "intercept, sex, and three pairs of regions, both ways"


def asked(family: str, size: int, epsilon: str) -> PublicSetting:
    """``y ~ x`` with x between −1 and 1, made without a formula."""
    unit = 1 << 10
    variable = Variable("x", grids.Grid((-1, 1), 2 * unit, False, None), False)
    response = {
        "gaussian": lambda: grids.Grid((-1, 1), 1 << 14, False, None),
        "binomial": lambda: levels.Levels(levels.Domain(("0", "1"))),
        "poisson": lambda: grids.Grid((0, 12), None, True, None),
    }[family]()
    columns = (Column("Intercept", ()), Column("x", ((0, tuple(range(-unit, unit + 1))),)))
    norm = math.isqrt(2 * unit**2 - 1) + 1
    moments = np.diag([1.0, 1 / 3])
    made = Design("y ~ x", (variable,), Variable("y", response, False), columns, 10, norm, np.eye(2), moments)
    prior = CoefficientPrior(
        np.zeros(2), np.eye(2) * {"gaussian": 0.1, "binomial": 1.0, "poisson": 0.3}[family]
    )
    budget = largest_gaussian(Fraction(epsilon), Fraction(1, 10**6))
    model = model_of(family, made)
    return PublicSetting(made, model, prior, budget, Relation.REPLACE_ONE, size)


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
            (np.clip(eta / 3 + generator.normal(0, 0.2, setting.n), -1, 1) + 1) / 2 * (1 << 14)
        )
    rows = np.column_stack([np.full(setting.n, 1024.0), x])
    blocks = [RowBlock(rows, response.astype(np.int64))]
    return ask(
        setting,
        lambda link, curved: exact_sums(setting.model, setting.design, link, blocks, curved),
        SeededEntropy(seed),
    )


@pytest.mark.parametrize(("size", "epsilon"), [(2_000, "3"), (20_000, "3"), (1_000, "100")])
def test_the_scatter_of_counts_is_found(size: int, epsilon: str) -> None:
    """Of 16 sets of counts the errors are as large as they say."""
    setting = asked("poisson", size, epsilon)
    errors, ratios = [], []
    for excess in (0.0, 0.5, 1.0, 2.0):
        for seed in range(4):
            law = answered(setting, seed, excess).posterior
            errors.append((law.excess[0] - excess) / law.excess[1])
            ratios.append(law.excess[1] / (1 + excess))
    assert 0.1 < np.mean(np.square(errors)) < 2
    assert max(ratios) < (0.12 if size == 20_000 else 0.6)


def test_counts_that_scatter_more_have_wider_intervals_and_windows() -> None:
    setting = asked("poisson", 50_000, "10")
    calm, wild = (answered(setting, 1, excess) for excess in (0.0, 1.0))
    ratio = wild.posterior.std() / calm.posterior.std()
    assert ratio == pytest.approx(math.sqrt(2), rel=0.1)
    assert wild.rounds[-1][0].link.clip > 1.5 * calm.rounds[-1][0].link.clip
    assert abs(calm.posterior.excess[0]) < 0.05


def test_a_narrow_window_counts_as_error_where_counts_scatter() -> None:
    """All rounds with the same narrow windows: what they take from counts moves coefficients."""
    setting = asked("poisson", 50_000, "10")
    outcome = answered(setting, 1, 1.0)
    (free,) = targets_of(setting, outcome.seen)
    narrow = [replace(one, clip=1.0) for one in outcome.seen]
    (tight,) = targets_of(setting, narrow)
    point = outcome.posterior.mean
    for target in (free, tight):
        target.look(point, 0.0)
    assert tight.noise > 10 * free.noise


def test_what_a_round_missed_by_is_no_scatter() -> None:
    """A round that looked 0.3 from the truth has larger squares, and they are those of a Poisson law."""
    setting, generator = asked("poisson", 50_000, "10"), np.random.default_rng(1)
    x = generator.integers(-1024, 1025, 50_000)
    truth = np.array([0.3, 0.5])
    counts = generator.poisson(np.exp(truth[0] + truth[1] * x / 1024)).clip(0, 12)
    rows = RowBlock(np.column_stack([np.full(len(x), 1024.0), x]), counts)
    link = setting.model.link(setting.design, truth - [0.3, 0.0])
    turn = Round(link, setting.noise(link, Fraction(10**6), 0.2, 0.02), Fraction(1))
    found = evidence(setting, turn, exact_sums(setting.model, setting.design, link, [rows]))
    (target,) = targets_of(setting, [found])
    target.look(truth, 0.0)
    assert abs(target.excess[0]) < 0.06


def test_windows_are_wide_while_little_is_known_of_scatter() -> None:
    setting = asked("poisson", 50_000, "10")
    law = maximum(setting, answered(setting, 1).seen)
    clips = [
        setting.model.clip(replace(law, excess=(0.0, error)), setting.cost(Fraction(1, 2)))
        for error in (0.01, 0.3, 3.0)
    ]
    assert clips[0] < clips[1] == clips[2]


def test_rounds_without_squares_say_nothing_of_scatter() -> None:
    """Documents of fits that had none: their intervals are as they were."""
    setting = asked("poisson", 20_000, "3")
    outcome = answered(setting, 1, 1.0)
    bare = [replace(one, square=0.0, square_variance=0.0) for one in outcome.seen]
    (target,) = targets_of(setting, bare)
    target.look(outcome.posterior.mean, 0.0)
    more, error = target.excess
    assert more < error / 2
    assert error > 0.5
    assert (target.curve.tables == np.tensordot(target.shares, [c.tables for c in target.curves], 1)).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize("declared", [True, False], ids=["declared", "default"])
@pytest.mark.parametrize(("family", "epsilon"), [("binomial", "0.5"), ("poisson", "1"), ("gaussian", "1")])
def test_draws_have_the_moments_of_the_density_on_a_grid(family: str, epsilon: str, declared: bool) -> None:
    """4,000 weighted draws, of which some hundreds count: means within 0.25 deviations, deviations 15 %."""
    setting = asked(family, 1500, epsilon)
    if not declared:
        spreads = column_spreads(setting.model.guess(setting.design), setting.design)
        setting = replace(setting, prior=replace(setting.prior, spreads=spreads))
    outcome = answered(setting, 2)
    law = outcome.posterior
    (target,) = targets_of(setting, outcome.seen)
    target.maximum()
    if not declared and family != "poisson":
        sigma = np.log(law.weights @ law.sigma_squared)[None]
        target.doubt(target.combined(law.mean[None, :], sigma), law.covariance)
    axes = [np.linspace(m - 6 * s, m + 6 * s, 61) for m, s in zip(law.mean, law.std(), strict=True)]
    logs = np.log(np.quantile(law.sigma_squared, np.linspace(0, 1, 41)))
    sigmas = np.linspace(logs[0], logs[-1], 41) if family == "gaussian" else np.zeros(1)
    first, second, third = (one.ravel() for one in np.meshgrid(*axes, sigmas, indexing="ij"))
    points = np.column_stack([first, second])
    density = np.concatenate(
        [
            target.log_density(points[i : i + 20_000], third[i : i + 20_000])
            for i in range(0, len(points), 20_000)
        ]
    )
    chance = np.exp(density - density.max())
    chance /= chance.sum()
    mean = chance @ points
    spread = np.sqrt(chance @ (points - mean) ** 2)
    assert law.effective > 0.1
    assert (np.abs(law.mean - mean) < 0.25 * spread).all()
    assert law.std() == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_what_is_not_known_of_curvatures_counts_at_its_mean_over_the_law(family: str) -> None:
    """Over 20,000 draws of the coefficients: within 5 %, where one entry's mean has a deviation below 1 %."""
    setting = asked(family, 1500, "0.5")
    outcome = answered(setting, 3)
    (target,) = targets_of(setting, outcome.seen)
    law, moments = target.maximum(), target.moments
    found = target.combined(law.mean[None, :], np.array(law.log_sigma[:1]))
    assert target.covariance(found)[0] == pytest.approx(
        found.sampling[0] + moments.unsure(moments.records * found.ways)[0] + target.noise * np.eye(2)
    )
    target.doubt(found, law.covariance)
    gaps = np.random.default_rng(5).multivariate_normal(np.zeros(2), law.covariance, 20_000)
    each = moments.unsure(moments.records * (found.ways - found.level * gaps))
    assert target.vague is not None
    assert target.vague == pytest.approx(each.mean(axis=0), rel=0.05, abs=0.02 * np.trace(target.vague))
    assert np.trace(target.vague) > 1.1 * np.trace(moments.unsure(moments.records * found.ways)[0])


@pytest.mark.parametrize(
    ("family", "declared", "averaged"),
    [("binomial", False, True), ("gaussian", False, True), ("poisson", False, False)]
    + [(family, True, False) for family in ("binomial", "gaussian", "poisson")],
)
def test_it_counts_so_only_where_no_prior_is_declared_and_not_for_counts(
    family: str, declared: bool, averaged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    setting = asked(family, 1500, "1")
    if not declared:
        setting = replace(setting, prior=CoefficientPrior.weak(setting.design, setting.model))
    calls = []
    monkeypatch.setattr(_Target, "doubt", lambda *given: calls.append(given))
    assert answered(setting, 2).posterior.effective > 0
    assert bool(calls) == averaged


@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson"])
def test_the_density_is_normal_with_the_stated_covariance_times_the_prior(family: str) -> None:
    setting = asked(family, 1500, "1")
    outcome = answered(setting, 4)
    (target,) = targets_of(setting, outcome.seen)
    law = target.maximum()
    points = law.mean + np.random.default_rng(1).normal(size=(20, 2)) @ np.linalg.cholesky(law.covariance).T
    logs = np.full(20, law.log_sigma[0])
    found = target.combined(points, logs)
    wanted = [
        stats.multivariate_normal.logpdf(left, np.zeros(2), covariance)
        for left, covariance in zip(found.left, target.covariance(found), strict=True)
    ]
    prior = stats.multivariate_normal.logpdf(points, setting.prior.mean, setting.prior.covariance)
    gap = target.log_density(points, logs) - wanted - prior - target.squares(points, logs)
    assert gap == pytest.approx(gap[0], abs=1e-6)


@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson"])
def test_the_maximum_is_where_all_steps_lead(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the first round alone, whose point is far away."""
    setting = asked(family, 20_000, "10")
    first = answered(setting, 5).seen[:1]
    (early,) = targets_of(setting, first)
    found = early.maximum()
    monkeypatch.setattr("discreet.regression.newton.posterior._ARRIVED", 0.0)
    (late,) = targets_of(setting, first)
    last = late.maximum()
    assert (np.abs(found.mean - last.mean) < 0.02 * np.sqrt(np.diag(last.covariance))).all()


def test_turned_rows_have_turned_sums() -> None:
    moments = RowMoments(np.array([[1.0, 0.2], [0.2, 0.4]]), np.zeros((2, 2)), 100.0, 0)
    points, means = np.array([[0.3, 1.0], [-0.5, 0.4]]), np.array([[0.7, 0.6], [0.2, -0.1], [0.1, 0.3]])
    turn = np.array([[1.1, 0.0], [-0.3, 0.8]])
    wanted = turn @ moments.weighted(points, means) @ turn.T
    assert moments.weighted(points, means, turn) == pytest.approx(wanted)


def test_more_budget_narrows_intervals_down_to_those_without_noise() -> None:
    wide, narrow, most = (
        answered(asked("binomial", 4000, epsilon), 3).posterior for epsilon in ("0.3", "3", "40")
    )
    assert (wide.std() > narrow.std()).all()
    assert (narrow.std() > most.std() * 0.97).all()
    assert np.sqrt(np.diag(most.noise_free)) == pytest.approx(most.std(), rel=0.1)


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
        coder: Any = grids.Grid((0, 1), 1 << 14, False, None)
        values = generator.beta(0.5 + expit(eta), 0.7)  # from one bound to the other, and not normal
        response = np.rint(values * (1 << 14)).astype(np.int64)
    elif family == "binomial":
        coder = levels.Levels(levels.Domain(("0", "1")))
        values = response = (generator.random(n) < expit(eta)).astype(np.int64)
    else:
        coder = grids.Grid((0, 12), None, True, None)
        values = response = generator.poisson(np.exp(eta)).clip(0, 12)
    pair, line = (-unit, unit), tuple(range(-unit, unit + 1))
    sign, number = grids.Grid((-1, 1), 1, False, None), grids.Grid((-1, 1), 2 * unit, False, None)
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
    prior = CoefficientPrior.weak(made, model)
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
    law = outcome.posterior
    assert law.std() == pytest.approx(exact, rel=0.08)
    assert (np.abs(law.mean - found) < 0.2 * exact).all()


def test_a_prior_that_is_not_declared_is_about_effects_of_deviations() -> None:
    setting, block, _ = with_signs("binomial", 1)
    rows = block.rows / setting.design.unit
    spreads = column_spreads(rows.T @ (rows * 0.3) / len(rows), setting.design)
    assert spreads[1:] == pytest.approx(rows.std(axis=0)[1:])
    for scale, prior in zip(setting.prior.scales, setting.prior.each(spreads), strict=True):
        effects = np.sqrt(np.diag(prior.covariance)[1:]) * rows.std(axis=0)[1:]
        assert effects == pytest.approx(np.full(3, scale * setting.model.deviation / math.sqrt(3)))
        assert prior.covariance[0, 0] == pytest.approx(setting.model.level_deviation**2), "not of the scale"


def test_a_bound_that_no_residual_reaches_clips_nothing() -> None:
    setting, _, _ = with_signs("gaussian", 1)
    model, design = setting.model, setting.design
    assert math.isinf(model.clip_of(model.link(design, np.zeros(4))))
    assert math.isinf(model.clip_of(model.link(design, np.zeros(4), 7.0)))
    assert model.clip_of(model.link(design, np.zeros(4), 0.5)) == 0.5
