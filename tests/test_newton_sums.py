"""Private sums: every pair of records on a small grid, planted faults, exact integers, the same on every
engine."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import astuple, replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise, product
from typing import Any

import numpy as np
import pytest

from discreet._declarations import Relation
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import DataError
from discreet.regression._newton.design import Design, design, shorten_rows
from discreet.regression._newton.models import _CELLS, Link, ResponseModel, model_of
from discreet.regression._newton.posterior import CoefficientPrior, PublicSetting
from discreet.regression._newton.records import read
from discreet.regression._newton.sums import (
    Round,
    RoundNoise,
    RoundSums,
    RowBlock,
    _reach,
    add_noise,
    exact_sums,
    noise_for,
    possible,
    records,
    round_cost,
    survey_sums,
)

pytest.importorskip("formulaic")

LEVELS = {"b": ("p", "q", "r"), "binomial": ("no", "yes"), "multinomial": ("u", "v", "w")}
BOUNDS = {"a": (0, 10), "gaussian": (0, 5), "poisson": (0, 6)}
FAMILIES = ("gaussian", "binomial", "multinomial", "poisson")
WEIGHTED = {"weight": ("w", 2.0)}
MU = Fraction(1, 4)
CASES: list[tuple[str, dict[str, Any]]] = [
    *((family, {}) for family in FAMILIES),
    *((family, WEIGHTED) for family in FAMILIES if family != "multinomial"),
]


def declared(family: str, formula: str = "a + b", **options: Any) -> Design:
    used = {"a", family} | ({"b"} if "b" in formula else set())
    return design(
        f"{family} ~ {formula}",
        family=family,
        bounds={name: pair for name, pair in BOUNDS.items() if name in used},
        levels={name: given for name, given in LEVELS.items() if name in used},
        **options,
    )


def links(model: ResponseModel, made: Design, size: float = 1.5) -> list[Link]:
    """Rounds at several points; the residuals of the gaussian model and the counts clipped and not."""
    generator = np.random.default_rng(4)
    points = [np.zeros(made.d * model.outputs), *generator.normal(0, size, (2, made.d * model.outputs))]
    clips = {"gaussian": 0.3, "poisson": 3.0}
    found = [model.link(made, point) for point in points]
    found.append(model.link(made, points[1], clips.get(model.family)))
    if model.outputs == 1:  # rows in other coordinates: most are shortened, some a little, some are not
        matrix = generator.normal(size=(made.d, made.d)) * generator.uniform(0.2, 6, (made.d, 1))
        found += [link.with_mixing(matrix, made) for link in (found[0], found[1], found[-1])]
        found.append(found[-1].with_mixing(matrix / 12, made))
        assert all(link.mixing for link in found[-4:])
    robust = [model.bounded_link(link, True) for link in (found[0], *found[3:]) if model.outputs == 1]
    if made.weight is not None:
        return robust
    return [*found, *robust] if model.normal else found


def every_record(made: Design, model: ResponseModel) -> RowBlock:
    """All records of a coarse grid: ends and middle of every variable, every response of a few."""
    places = [sorted({0, v.coder.size // 2, v.coder.size - 1, v.coder.size // 3}) for v in made.variables]
    size = made.response.coder.size
    answers = range(size) if size < 10 else (0, size // 2, size - 1)
    weights = [(0, 1, 1365, 1 << 12, (1 << 12) + 1)] if made.weight else []
    return records(made, [np.array(c) for c in zip(*product(*places, answers, *weights), strict=True)])


def contributions(model: ResponseModel, made: Design, link: Link, block: RowBlock) -> list[RoundSums]:
    weight = block.weight
    return [
        exact_sums(
            model,
            made,
            link,
            [
                RowBlock(
                    block.rows[i : i + 1],
                    block.response[i : i + 1],
                    None if weight is None else weight[i : i + 1],
                )
            ],
        )
        for i in range(len(block.response))
    ]


def scaled(sums: RoundSums, noise: RoundNoise) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A record's sums in deviations of the noise, whose squared length is what μ² bounds."""
    size = len(sums.gradient)
    assert noise.curvature is not None
    across = [i == j for i in range(size) for j in range(i, size)]
    variances = [float(noise.gradient)] * size
    for matrix in (noise.curvature, noise.outer):
        variances += [] if matrix is None else [float(matrix if one else matrix / 2) for one in across]
    values = [*sums.gradient, *sums.curvature, *sums.outer]
    if noise.square is not None:
        values, variances = [*values, sums.square], [*variances, float(noise.square)]
    return np.array([float(v) for v in values]) / np.sqrt(variances)


def worst(model: ResponseModel, made: Design, link: Link, noise: RoundNoise, relation: Relation) -> float:
    """The largest squared distance of neighbours in deviations of the noise, over μ²: at most 1."""
    rows = np.array(
        [scaled(one, noise) for one in contributions(model, made, link, every_record(made, model))]
    )
    if relation is Relation.ADD_REMOVE:
        return float((rows**2).sum(axis=1).max()) / float(MU)
    return max(float(((rows - row) ** 2).sum(axis=1).max()) for row in rows) / float(MU)


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_pair_of_records_is_within_the_bound(family: str, relation: Relation) -> None:
    for formula, options in (("a", {}), ("a + b + a:b", {}), ("a + b", {"norm": 1.2})):
        made = declared(family, formula, **options)
        model = model_of(family, made)
        squares = 0.1 if model.squares else 0.0
        for link in links(model, made):
            noise = noise_for(model, made, link, MU, relation, 1, 0.2, squares)
            assert worst(model, made, link, noise, relation) <= 1


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ADD_REMOVE])
@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_every_pair_of_weighted_records_is_within_the_bound(family: str, relation: Relation) -> None:
    """Weights of 0, the smallest, a third, the largest and a cut one; all noises of matrices and squares."""
    made = declared(family, "a", **WEIGHTED)
    model = model_of(family, made)
    reached = []
    for link in links(model, made):
        assert link.outer_shift is not None
        for curved, squared in ((0.2, 0.02), (0.05, 0.5)):
            squares = squared if model.squares else 0.0
            noise = noise_for(model, made, link, MU, relation, 1, curved, squares)
            reached.append(worst(model, made, link, noise, relation))
            assert reached[-1] <= 1
    assert max(reached) > 0.4  # half of the noise would be found


@pytest.mark.parametrize(("most", "people"), [("public", 1), ("private", 1), ("public", 3)])
def test_sums_of_weights_move_by_no_more_than_their_noise_covers(most: str, people: int) -> None:
    made = declared("binomial", "a", **WEIGHTED)
    model = model_of("binomial", made)
    n = 5 if most == "public" else None
    relation = Relation.REPLACE_ONE if n else Relation.ADD_REMOVE
    prior = CoefficientPrior.wide(made, model)
    setting = PublicSetting(made, model, prior, MU, relation, n, people, robust=True)
    each = [survey_sums(np.array([weight])) for weight in (0, 1, 1365, 1 << 12, (1 << 12) + 1)]
    pairs = [(a, b) for a in each for b in each] if n else [(a, 0 * a) for a in each]
    variances = np.array([float(v) for v in setting.survey_noise])
    moved = [(people * (a - b)[: len(variances)]) ** 2 / variances for a, b in pairs]
    worst_pair = max(float(parts.sum()) for parts in moved)
    assert float(MU) / 20 * 0.95 < worst_pair <= float(MU) / 20
    assert setting.rounds_squared == MU * Fraction(19, 20)


def test_matrices_of_a_linear_model_add_little_to_the_distance_of_two_records() -> None:
    """Distances by residuals, lengths and angle of two rows, over all that noise may be: never above."""
    generator, size = np.random.default_rng(0), 20_000
    made = declared("gaussian", "a")
    model, rows = model_of("gaussian", made), float(made.norm) ** 2
    link = links(model, made)[-1]
    most = tuple(np.array([float(one.max())]) for one in model.extremes(link))
    longest, clip = float(most[0][0]) * rows, float(most[0][0])
    reached = []
    for _ in range(60):
        h, k = np.exp(generator.uniform(-1.5, 3, 2))
        q = float(np.exp(generator.uniform(-1, 3)))
        ratios = h * rows**2 / longest, q * clip / rows, k * longest
        found = _reach(model, rows, most, Relation.REPLACE_ONE, *ratios, 0) / longest
        u, v, a, b = generator.beta(0.3, 0.3, (4, size)) ** generator.integers(0, 2, (4, size))
        v = v * generator.choice([-1, 1], size)
        p = np.sqrt(a * b) * generator.uniform(-1, 1, size) ** generator.integers(0, 2, size)
        apart = u**2 * a + v**2 * b - 2 * u * v * p + (a**2 + b**2 - 2 * p**2) / h
        apart += ((u**2 * a) ** 2 + (v**2 * b) ** 2 - 2 * (u * v * p) ** 2) / k + (u**2 - v**2) ** 2 / q
        reached.append(float(apart.max()) / found)
    assert max(reached) <= 1
    assert max(reached) > 0.999


@pytest.mark.parametrize("point", [(0, 0), (0.3, 0.8), (0, 2), (1, -3), (0, 8)])
def test_two_records_of_a_logistic_model_are_within_a_bound_that_is_near(point: tuple[float, float]) -> None:
    """Every pair of 21 values with either response, at points near and far."""
    made = declared("binomial", "a")
    model = model_of("binomial", made)
    link = model.link(made, np.array(point))
    places = np.linspace(0, made.variables[0].coder.size - 1, 21).astype(int)
    block = records(made, [np.repeat(places, 2), np.tile([0, 1], 21)])
    noise = noise_for(model, made, link, MU, Relation.REPLACE_ONE, 1, 0.2)
    rows = np.array([scaled(one, noise) for one in contributions(model, made, link, block)])
    found = max(float(((rows - row) ** 2).sum(axis=1).max()) for row in rows) / float(MU)
    assert 0.6 < found <= 1


@pytest.mark.parametrize("point", [(0.0, 0.5), (0.3, 2), (-1, 4), (2, 3)])
@pytest.mark.parametrize("stretched", [((1, 0.2), (0, 3)), ((0.3, 0), (1, 9)), ((1.2, 1), (-1, 1.3))])
def test_two_records_of_a_logistic_model_are_within_the_bound_in_other_coordinates(
    point: tuple[float, float], stretched: tuple[tuple[float, float], ...]
) -> None:
    """Every pair of 41 values with either response: not shortened, a little, or to a ninth."""
    made = declared("binomial", "a")
    model = model_of("binomial", made)
    link = model.link(made, np.array(point)).with_mixing(np.array(stretched), made)
    places = np.linspace(0, made.variables[0].coder.size - 1, 41).astype(int)
    block = records(made, [np.repeat(places, 2), np.tile([0, 1], 41)])
    noise = noise_for(model, made, link, MU, Relation.REPLACE_ONE, 1, 0.2)
    rows = np.array([scaled(one, noise) for one in contributions(model, made, link, block)])
    found = max(float(((rows - row) ** 2).sum(axis=1).max()) for row in rows) / float(MU)
    assert 0.6 < found <= 1


@pytest.mark.parametrize("weight", [0.4, 0.25, 0.05])
def test_of_two_records_with_robust_errors_one_may_be_clipped(weight: float) -> None:
    """Opposite residuals on one row are four times as far apart as one is long; one alone has a curvature."""
    made = declared("gaussian", "a")
    model, rows = model_of("gaussian", made), float(made.norm) ** 2
    most = tuple(np.array([float(one.max())]) for one in model.extremes(links(model, made)[-1]))
    longest = float(most[0][0]) * rows
    ratios = rows**2 / (weight * longest), None, 1e6 * longest
    assert _reach(model, rows, most, Relation.REPLACE_ONE, *ratios, 0) >= (4 + weight) * longest


def test_a_square_that_is_rounded_up_is_within_the_bound() -> None:
    """Half a unit counts as one."""
    made = declared("gaussian", "a")
    model, rows, shift = model_of("gaussian", made), float(made.norm) ** 2, 12
    most = np.array([2.0 ** (shift - 1)]), np.ones(1), np.array([4.0 ** (shift - 1)])
    found = _reach(model, rows, most, Relation.ADD_REMOVE, None, None, rows, shift)
    assert found >= most[0][0] * rows + rows**2 / rows


@pytest.mark.parametrize("point", [(0.3, 0.8), (1, -3), (0, 8)])
def test_cells_of_predictors_bound_every_pair_in_them(point: tuple[float, float]) -> None:
    made = declared("binomial", "a")
    model = model_of("binomial", made)
    link = model.link(made, np.array(point))
    squares, weights, _ = model.pairs(link, made)
    cells, unit = math.isqrt(len(squares)), 2.0**model.residual_bits
    starts = np.unique(np.linspace(0, 2 * link.reach, _CELLS + 1).astype(int))[:-1]
    assert len(starts) == cells
    places = np.random.default_rng(1).integers(0, 2 * link.reach + 1, 2000)
    cell = np.searchsorted(starts, places, side="right") - 1
    chance, weight = (table[places] for table in link.tables)
    apart = np.maximum(places[:, None] - places - 1, 0) * 2.0**link.shift / made.norm
    apart = np.minimum(apart / float(np.linalg.norm(np.array(link.point, dtype=float))), 2.0)
    exact = (chance[:, None] + unit - chance) ** 2 - chance[:, None] * (unit - chance) * apart**2
    at = cell[:, None] * cells + cell
    assert (exact <= 4 * squares[at] * (1 + 1e-6)).all()
    assert (weight[:, None] ** 2 + weight**2 <= 2 * weights[at]).all()


def test_logistic_pairs_in_other_coordinates_are_bounded_as_the_proof_says() -> None:
    """What rounding may take off the distance and add to residuals, term by term: cells hold one predictor.

    No pair that was found loses all that rounding could take: only the proof says how much it may be.
    """
    made = declared("binomial", "a")
    model = model_of("binomial", made)
    link = model.link(made, np.array([0.001, 0.01])).with_mixing(np.array([[1.0, 0.2], [0.0, 3.0]]), made)
    assert link.mixing
    assert 2 * link.reach + 1 <= _CELLS
    found = model.pairs(link, made)[0].reshape(2 * link.reach, -1)  # the last cell holds two
    point = np.linalg.solve(link.matrix(2).T, np.array(link.point, dtype=float))
    unit, chance = 2.0**model.residual_bits, link.tables[0]
    for e in range(2 * link.reach - 1):
        for other in range(2 * link.reach - 1):
            a, b = chance[e], unit - chance[other]
            apart = (e - other - 3) * 2.0**link.shift / float(np.linalg.norm(point)) - 4 * math.sqrt(2)
            apart = min(max(apart / made.norm, 0.0), 2.0)
            proved = (a + 1 + b + 1) ** 2 - (a - 1) * (b - 1) * apart**2
            assert 4 * found[e, other] >= proved * (1 - 1e-12)
            assert 4 * found[e, other] <= proved * (1 + 1e-3)


@pytest.mark.parametrize(("n", "most"), [(1, 64 + 2), (40, 64 + 80)])
def test_sums_as_large_as_noise_and_records_allow_are_possible_and_no_larger(n: int, most: int) -> None:
    """64 deviations of noise, and for each record two: one is less than one deviation long here."""
    made = declared("gaussian", "a")
    model = model_of("gaussian", made)
    link = model.link(made, model.start(made))
    noise = noise_for(model, made, link, MU, Relation.ADD_REMOVE, 1, 0.2, 0.1)
    turn = Round(link, noise, MU)
    assert 0 < round_cost(model, made, turn, Relation.ADD_REMOVE) <= 1
    (exact,) = contributions(model, made, link, every_record(made, model))[-1:]
    assert possible(model, made, turn, exact, 1)
    for name in ("gradient", "curvature", "square"):
        limit = math.isqrt(math.floor(most**2 * getattr(noise, name)))
        for sign in (-1, 1):
            for value, fine in ((sign * limit, True), (sign * (limit + 1), False)):
                changed = value if name == "square" else (*getattr(exact, name)[:-1], value)
                assert possible(model, made, turn, replace(exact, **{name: changed}), n) is fine


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_planted_faults_are_found(family: str) -> None:
    made = declared(family, "a")
    model = model_of(family, made)
    link = model.link(made, model.start(made))
    noise = noise_for(model, made, link, MU, Relation.REPLACE_ONE, 1, 0.2, 0.1 if model.squares else 0.0)
    honest = worst(model, made, link, noise, Relation.REPLACE_ONE)
    assert 0.55 < honest <= 1  # tight enough for what follows to show
    halved = RoundNoise(
        noise.gradient / 2, noise.curvature and noise.curvature / 2, noise.square and noise.square / 2
    )
    assert worst(model, made, link, halved, Relation.REPLACE_ONE) > 1  # Δ too small by √2
    # The intercept left out of the bound on a row: √2 of the length, with one more column.
    bare = replace(made, norm=made.unit)
    small = noise_for(model, bare, link, MU, Relation.REPLACE_ONE, 1, 0.2, 0.1 if model.squares else 0.0)
    assert worst(model, made, link, small, Relation.REPLACE_ONE) > 1


def test_products_of_columns_are_those_of_plain_integers() -> None:
    made = declared("gaussian", "a + b + a:b")
    codes = [code.ravel() for code in np.indices([variable.coder.size for variable in made.variables])]
    rows = made.rows(codes, len(codes[0]))
    ((first, table), (second, other)) = made.columns[-1].factors
    expected = [
        quotient(table[i] * other[j], 1 << made.bits)
        for i, j in zip(codes[first].tolist(), codes[second].tolist(), strict=True)
    ]
    assert min(expected) < 0 < max(expected)
    assert rows[:, -1].tolist() == expected


def test_rows_are_shortened_after_rounding_and_towards_zero() -> None:
    generator = np.random.default_rng(8)
    rows = generator.integers(-4000, 4000, (4000, 5))
    norm = 3001
    kept = shorten_rows(rows.copy(), norm)
    assert ((kept**2).sum(axis=1) <= norm**2).all()
    assert (np.abs(kept) <= np.abs(rows)).all()
    assert ((kept**2).sum(axis=1) > (norm - 6) ** 2)[(rows**2).sum(axis=1) > norm**2].all()
    lengths = np.sqrt((rows**2).sum(axis=1))[:, None]
    nearest = np.rint(rows * np.minimum(1, norm / lengths))  # rounding to nearest: the fault
    assert ((nearest**2).sum(axis=1) > norm**2).any()
    exact = rows * (norm / lengths) * (1 - 1e-12)  # the norm checked before rounding: another fault
    assert (np.square(exact).sum(axis=1) <= norm**2).all()
    assert (np.square(np.rint(exact)).sum(axis=1) > norm**2).any()
    made = declared("binomial", "a + b", norm=1.2)
    block = every_record(made, model_of("binomial", made))
    assert (block.rows**2).sum(axis=1).max() <= made.norm**2


def test_no_sum_is_released_without_noise() -> None:
    made = declared("gaussian", "a")
    model = model_of("gaussian", made)
    link = links(model, made)[0]
    noise = noise_for(model, made, model.bounded_link(link, True), MU, Relation.REPLACE_ONE, 1, 0.2, 0.1)
    zero = RoundSums((0,) * 2, (0,) * 3, 0, (0,) * 3)
    source = SeededEntropy(5)
    draws = np.array(
        [
            [*(s := add_noise(zero, noise, source)).gradient, *s.curvature, *s.outer, s.square]
            for _ in range(400)
        ]
    )
    assert noise.square is not None
    wanted = [noise.gradient] * 2
    for matrix in (noise.curvature, noise.outer):
        assert matrix is not None
        wanted += [matrix, matrix / 2, matrix]
    wanted.append(noise.square)
    ratio = draws.std(axis=0) / np.sqrt([float(one) for one in wanted])
    assert (np.abs(ratio - 1) < 0.25).all()  # a deviation of 400 draws is within 7/√800 but for 10⁻¹¹


def test_a_bound_per_person_multiplies_the_noise() -> None:
    made = declared("binomial", "a")
    model = model_of("binomial", made)
    link = links(model, made)[0]
    one, three = (noise_for(model, made, link, MU, Relation.REPLACE_ONE, m) for m in (1, 3))
    assert float(three.gradient) == pytest.approx(9 * float(one.gradient))


def quotient(value: int, divisor: int) -> int:
    """Towards zero."""
    return abs(value) // divisor * (1 if value > 0 else -1)


@pytest.mark.parametrize(("family", "options"), CASES)
def test_sums_are_those_of_plain_integers(family: str, options: dict[str, Any]) -> None:
    """The oracle: Python integers, record by record, for all sums."""
    made = declared(family, "a + b", **options)
    model = model_of(family, made)
    block = every_record(made, model)
    for link in links(model, made):
        found = exact_sums(model, made, link, [block])
        point = np.array(link.point).reshape(model.outputs, made.d)
        gradient = np.zeros((model.outputs, made.d), dtype=object)
        size = made.d * model.outputs
        curvature = np.zeros((size, size), dtype=object)
        spread = np.zeros((size, size), dtype=object)
        square, shift, survey = 0, link.outer_shift, np.zeros(4, dtype=int)
        parts = [1 << 12] * len(block.response) if block.weight is None else block.weight.tolist()
        whole = zip(block.rows.astype(int).tolist(), block.response.tolist(), parts, strict=True)
        for row, answer, code in whole:
            part = min(code, 1 << 12)
            survey += [code > part, part, part**2 >> 12, 1]
            eta = [sum(x * w for x, w in zip(row, ws, strict=True)) for ws in point.tolist()]
            e = [
                max(-link.reach, min(link.reach, (2 * v + (1 << link.shift)) >> (link.shift + 1)))
                for v in eta
            ]
            at = np.array([e], dtype=float)
            unweighted = model.residuals(link, at, np.array([answer]))[0]
            inside = int(abs(unweighted[0]) < link.clip)
            if link.mixing:
                parts = [link.mixing[j * made.d : (j + 1) * made.d] for j in range(made.d)]
                row = [quotient(sum(m * x for m, x in zip(part, row, strict=True)), 4096) for part in parts]
                squares = sum(x * x for x in row)
                if squares > made.norm**2:
                    length = math.isqrt(squares) + 1
                    row = [quotient(x * made.norm, length) for x in row]
                    unweighted = np.array([quotient(int(unweighted[0]) * made.norm, length)])
            square += int(unweighted[0]) ** 2 * part >> 12 if model.squares else 0
            residual = [int(Fraction(int(value) * part, 1 << 12)) for value in unweighted]
            if shift is not None:
                squared = (2 * int(residual[0]) ** 2 + (1 << shift)) >> (shift + 1)
                spread += np.array([[squared * x * z for z in row] for x in row], dtype=object)
            pairs = combinations_with_replacement(range(model.outputs), 2)
            weights = dict(zip(pairs, model.weights(link, at), strict=True))
            for k in range(model.outputs):
                gradient[k] += np.array([int(residual[k]) * x for x in row], dtype=object)
                for other in range(model.outputs):
                    weight = weights[min(k, other), max(k, other)]
                    v = 1 << model.weight_bits if weight is None else int(weight[0])
                    v = v * inside if shift and model.normal else v
                    v = (2 * v * part + (1 << 12)) >> 13
                    outer = np.array([[v * x * z for z in row] for x in row], dtype=object)
                    curvature[k * made.d : (k + 1) * made.d, other * made.d : (other + 1) * made.d] += outer
        assert found.gradient == tuple(gradient.ravel())
        assert found.curvature == tuple(curvature[np.triu_indices(size)])
        assert found.square == square
        assert found.survey == (() if block.weight is None else tuple(survey.tolist()))
        assert found.outer == (() if shift is None else tuple(spread[np.triu_indices(size)]))


def table(number: int = 400) -> Any:
    import pandas as pd

    generator = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "a": generator.normal(5, 4, number),
            "b": generator.choice(list("pqr"), number),
            "gaussian": generator.normal(2, 2, number),
            "binomial": generator.choice(["no", "yes"], number),
            "multinomial": generator.choice(list("uvw"), number),
            "poisson": generator.poisson(2, number).clip(0, 9),
            "who": generator.integers(0, number // 3, number),
            "w": generator.choice([0, 0.3, 1.7, 2, 2.5, 1e300], number),
        }
    )


@pytest.mark.parametrize("norm", [None, pytest.param(1.1, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("family", "options"), CASES)
def test_engines_give_the_same_integers(
    family: str, options: dict[str, Any], norm: float | None, tmp_path: Any
) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    frame = table()
    made = declared(family, "a + b + a:b + np.log(a + 1)", norm=norm, **options)
    model = model_of(family, made)
    link = links(model, made, 0.2)[-1]
    assert bool(options) or (link.outer_shift is not None) is model.normal
    relation = duckdb.connect().from_df(frame)
    frame.to_parquet(tmp_path / "records.parquet")
    found = []
    for data in (frame, polars.from_pandas(frame), relation, tmp_path / "records.parquet"):
        with read(made, data) as those:
            found.append((those.n, those.sums(model, link, True)))
    assert all(one == other for one, other in pairwise(found))


def test_bounded_contributions_are_the_same_on_every_engine() -> None:
    duckdb = pytest.importorskip("duckdb")
    frame = table()
    made = declared("binomial", "a + b")
    model = model_of("binomial", made)
    link = links(model, made, 0.2)[1]
    sums = []
    for data in (frame, duckdb.connect().from_df(frame)):
        with read(made, data, "who", 2) as those:
            sums.append((those.n, those.sums(model, link, True)))
    assert sums[0] == sums[1]
    assert sums[0][0] == int(frame.groupby("who").size().clip(upper=2).sum())


def test_what_does_not_fit_in_memory_is_read_again_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same integers from a relation whose rows are more than may be kept, in small batches."""
    duckdb = pytest.importorskip("duckdb")
    frame, made = table(), declared("gaussian", "a + b")
    model = model_of("gaussian", made)
    with read(made, frame) as those:
        expected = [those.sums(model, link, True) for link in links(model, made, 0.2)]
    monkeypatch.setattr("discreet.regression._newton.records._KEPT_BYTES", 1000)
    monkeypatch.setattr("discreet.regression._newton.records._BATCH", 64)
    with read(made, duckdb.connect().from_df(frame)) as those:
        assert those.blocks is None, "nothing is kept"
        assert [those.sums(model, link, True) for link in links(model, made, 0.2)] == expected


@pytest.mark.slow
def test_a_large_file_takes_little_memory(tmp_path: Any) -> None:
    """9·10⁶ × 8 numbers are more than is kept: two passes take less than 600 MB more."""
    duckdb = pytest.importorskip("duckdb")
    columns = ", ".join(f"random() AS x{i}" for i in range(7))
    duckdb.execute(
        f"COPY (SELECT {columns}, random() AS y FROM range(9000000)) TO '{tmp_path / 'large.parquet'}'"
    )
    program = f"""
import resource
from discreet.regression._newton.design import design
from discreet.regression._newton.models import model_of
from discreet.regression._newton.records import read
import duckdb, numpy, pandas
names = [f"x{{i}}" for i in range(7)]
made = design("y ~ " + " + ".join(names), family="gaussian", bounds={{n: (0, 1) for n in [*names, "y"]}})
model = model_of("gaussian", made)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with read(made, {str(tmp_path / "large.parquet")!r}) as those:
    those.sums(model, model.link(made, model.start(made)), True)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(those.blocks is None, those.n, (after - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    streamed, number, more = done.stdout.split()
    print(f"{number} records took {more} MB more")
    assert (streamed, number) == ("True", "9000000")
    assert int(more) < 600


class Workers:
    """A table of codes in parts, each of which another process sums, as on Spark."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts

    def mapInArrow(self, function: Any, schema: str) -> Any:
        assert schema == "part binary"
        self.answers = [batch for part in self.parts for batch in function(iter(part))]
        return self

    def collect(self) -> list[tuple[bytes]]:
        return [(batch["part"][0].as_py(),) for batch in self.answers]


@pytest.mark.parametrize(("family", "options"), CASES)
def test_workers_sum_their_own_records(family: str, options: dict[str, Any]) -> None:
    """In parts of one batch, of several and of none; undeclared values are told, and not what they are."""
    arrow = pytest.importorskip("pyarrow")
    from discreet.regression._newton.records import _on_spark

    generator, made = np.random.default_rng(4), declared(family, "a + b", norm=1.1, **options)
    model = model_of(family, made)
    codes = {f"k{i}": generator.integers(0, v.coder.size, 500) for i, v in enumerate(made.inputs)}
    whole = arrow.RecordBatch.from_pydict(codes)
    link = links(model, made, 0.2)[-1]
    expected = exact_sums(model, made, link, [records(made, list(codes.values()))])
    parts = [[whole.slice(0, 100)], [], [whole.slice(100, 7), whole.slice(107)]]
    assert _on_spark(made, Workers(parts))(model, link, True) == expected
    assert _on_spark(made, Workers([[]]))(model, link, True) == expected.__class__(
        *(tuple(0 for _ in part) if isinstance(part, tuple) else 0 for part in astuple(expected))
    )
    codes["k0"][3] = made.inputs[0].coder.size
    parts[1] = [arrow.RecordBatch.from_pydict(codes)]
    with pytest.raises(DataError, match="not declared"):
        _on_spark(made, Workers(parts))(model, link, True)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "options"), CASES)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_gives_the_same_integers(
    family: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = pytest.importorskip("pyspark.sql")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    frame = table()
    made = declared(family, "a + b + a:b + np.log(a + 1)", norm=1.1, **options)
    model = model_of(family, made)
    link = links(model, made, 0.2)[-1]
    found = []
    for data in (frame, spark.createDataFrame(frame.to_dict("records"))):
        with read(made, data) as those:
            found.append((those.n, those.sums(model, link, True)))
    assert found[0] == found[1]


def test_doubles_are_put_on_the_grid_as_by_every_engine() -> None:
    import pandas as pd

    made = declared("binomial", "a")
    grid = made.variables[0].coder
    generator = np.random.default_rng(2)
    halves = (generator.integers(0, grid.size, 300) + 0.5) * (10 / (grid.size - 1))
    values = [-np.inf, -1.0, 0.0, 10.0, 11.0, np.inf, *halves, *generator.uniform(0, 10, 300)]
    with read(made, pd.DataFrame({"a": values, "binomial": "no"})) as those:
        rows = those.blocks[0].rows  # type: ignore[index]
    table = np.array(made.columns[1].factors[0][1])
    assert rows[:, 1].tolist() == [table[grid.find(value)] for value in values]


def test_arrays_are_summed_in_pieces_as_a_table_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kept or made again in every round, in pieces that do not divide the records."""
    from discreet.regression._newton import records

    generator = np.random.default_rng(3)
    values, codes = generator.uniform(-2, 2, (1000, 2)), generator.integers(0, 2, 1000)
    made = design(
        "y ~ a + b", family="binomial", bounds={"a": (-1, 1), "b": (-1.5, 1)}, levels={"y": (0, 1)}, norm=1.2
    )
    model = model_of("binomial", made)
    link = model.link(made, np.array([0.3, -0.5, 0.8]))
    with read(made, {"a": values[:, 0], "b": values[:, 1], "y": codes}) as table:
        whole = table.sums(model, link, True)
    monkeypatch.setattr(records, "_SHORT", 96)
    for kept in (1 << 20, 0):
        monkeypatch.setattr(records, "_KEPT_BYTES", kept)
        source = records.in_arrays(made, [*values.T, codes])
        assert (source.blocks is None) == (not kept)
        assert (source.n, source.sums(model, link, True)) == (1000, whole)


def test_no_record_is_lost_or_counted_twice_where_pieces_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of records, also a last piece of one; nothing is taken from pieces but in their order."""
    from discreet.regression._newton import records as module

    generator = np.random.default_rng(5)
    values, counts = generator.uniform(0, 10, 10), generator.integers(0, 7, 10)
    made = declared("poisson", "a")
    model = model_of("poisson", made)
    link = model.link(made, np.array([0.4, -0.7]), 2.0)
    grid = made.variables[0].coder
    single = [
        exact_sums(model, made, link, [records(made, [np.array([grid.find(value)]), np.array([count])])])
        for value, count in zip(values.tolist(), counts.tolist(), strict=True)
    ]
    monkeypatch.setattr(module, "_SHORT", 4)
    for kept in (1 << 20, -1):
        monkeypatch.setattr(module, "_KEPT_BYTES", kept)
        for n in range(11):
            source = module.in_arrays(made, [values[:n], counts[:n]])
            found = source.sums(model, link, True)
            assert source.n == n
            assert found.square == sum(one.square for one in single[:n])
            for name in ("gradient", "curvature"):
                wanted = np.sum([getattr(one, name) for one in single[:n]], axis=0, dtype=object)
                assert list(getattr(found, name)) == (wanted.tolist() if n else [0] * (2 + (name[0] == "c")))


def test_a_record_is_left_out_if_any_of_its_columns_is_missing() -> None:
    import pandas as pd

    made = declared("gaussian", missing=dict.fromkeys(("a", "b", "gaussian"), "exclude"))
    model = model_of("gaussian", made)
    link = links(model, made, 0.2)[1]
    frame = pd.DataFrame(
        {"a": [np.nan, 1, 2, 3, 4], "b": ["p", None, "q", "r", "p"], "gaussian": [1, 2, np.nan, 4, 5]}
    )
    with read(made, frame) as some, read(made, frame.iloc[3:]) as whole:
        assert (some.n, whole.n) == (5, 2)
        assert some.sums(model, link, True) == whole.sums(model, link, True)


def test_sums_of_many_large_records_are_exact() -> None:
    """Together they are beyond 2⁵³, where doubles know no odd number: so many times the sums of one."""
    made = declared("binomial", "a + b")
    model, number = model_of("binomial", made), 1_200_001
    row = made.unit - np.array([[1, 95, 93, 97]])[:, : made.d]
    block = RowBlock(np.repeat(row.astype(np.int16), number, axis=0), np.zeros(number, dtype=np.int64))
    for shift in (0.03, 0.04, 0.05, 0.06):
        link = model.link(made, np.full(made.d, shift))
        one = exact_sums(model, made, link, [RowBlock(row, np.zeros(1, dtype=np.int64))])
        if one.curvature[0] % 2:
            break
    whole = exact_sums(model, made, link, [block])
    assert whole.curvature[0] > 2**53
    assert whole.curvature[0] % 2 == 1
    for name in ("gradient", "curvature"):
        assert getattr(whole, name) == tuple(number * part for part in getattr(one, name))


def test_undeclared_values_stop_before_any_sum() -> None:
    frame = table(50)
    frame.loc[3, "b"] = "z"
    made = declared("binomial", "a + b")
    with (
        pytest.raises(DataError, match="'b': some records hold a value that is not declared"),
        read(made, frame),
    ):
        pass
    frame = table(50)
    frame.loc[3:5, "a"] = np.nan
    with pytest.raises(DataError, match="'a': some records are missing"), read(made, frame):
        pass
    excluded = declared("binomial", "a + b", missing={"a": "exclude"})
    with read(excluded, frame) as those:
        assert those.n == 50
        assert len(those.blocks[0].response) == 47  # type: ignore[index]


def test_functions_of_a_column_are_orthogonal_for_evenly_spread_values() -> None:
    """Powers, splines and levels, and their products: rows that lie round have the least noise."""
    for terms, given in (
        ("x + I(x**2) + I(x**3)", {}),
        ("bs(x, knots=[4], degree=3)", {}),
        ("C(g)", {"g": tuple("abcde")}),
        ("x * C(g)", {"g": tuple("abc")}),
    ):
        bounds = {"y": (0, 1)} | ({"x": (0, 10)} if "x" in terms else {})
        made = design(f"y ~ {terms}", family="gaussian", bounds=bounds, levels=given)
        rows = made.probes(20_000)
        moments = rows.T @ rows / len(rows)
        deviations = np.sqrt(np.diag(moments))
        across = moments / np.outer(deviations, deviations) - np.eye(made.d)
        assert np.abs(across).max() < 0.06, terms  # eight deviations of twenty thousand probes
        assert np.abs(rows).max() <= 1.5
        if terms == "C(g)":
            assert (rows[:, 1:] ** 2).sum(axis=1) == pytest.approx(np.ones(len(rows)), abs=0.01)
        values = rows @ np.linalg.inv(made.mixing)
        assert np.linalg.matrix_rank(values) == made.d
