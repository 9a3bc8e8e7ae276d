"""Weighted surveys: what a neighbour moves, enumerated; the same sums on every engine; intervals."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import discreet
from benchmarks import weights as benchmark
from discreet import Category, Number, Schema, Weight
from discreet._data.grids import WeightGrid
from discreet._declarations import Relation
from discreet._documents.answer import load_answer
from discreet._documents.weights import SurveyWeights
from discreet._inference.quantiles import Bins
from discreet._inference.weighted import NoisyTotals, WeightedDistribution, draw_positive, draw_shares
from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy
from discreet.answers import weighted
from discreet.answers.quantiles import QuantileAnswer
from discreet.errors import DataError, InvalidInputError, TooLargeError
from discreet.questions.widths import Guess
from discreet.regression._newton.fit import Fit
from tables import TABLES

EPSILON, DELTA = Fraction(1, 2), Fraction(1, 10**6)
COLUMNS: dict[str, Any] = {
    "answer": ["a", "b", "c"],
    "x": (0, 10),
    "g": ["u", "v"],
    "h": Category([1, 2], public=True),
    "w": Weight(2),
}
NAMES = ["answer", "x", "g", "h", "w", "p"]


def published(
    monkeypatch: pytest.MonkeyPatch, request: Any, records: list[tuple[Any, ...]]
) -> tuple[list[int], list[tuple[Fraction, int]]]:
    """Every number of the document without its noise; for each the rate of the noise, and the power."""
    noises: list[tuple[Fraction, int]] = []

    def laplace(p: int, q: int, source: Any) -> int:
        noises.append((Fraction(p, q), 1))
        return 0

    def gaussian(variance: Fraction, source: Any) -> int:
        noises.append((1 / Fraction(variance), 2))
        return 0

    with monkeypatch.context() as patch:
        patch.setattr(weighted, "discrete_laplace", laplace)
        patch.setattr(weighted, "rounded_gaussian", gaussian)
        answer = request.answer(request.read(pd.DataFrame(records, columns=NAMES)), OS_ENTROPY)
    content = answer.content()
    numbers = [*itertools.chain(*content["totals"], *content["squares"]), *content["further"].values()]
    assert len(numbers) == len(noises)
    return numbers, noises


def worst(
    monkeypatch: pytest.MonkeyPatch,
    request: Any,
    pairs: list[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]],
) -> Fraction:
    """The largest loss of two datasets: ε, or with Gaussian noise μ²."""
    seen: dict[str, Any] = {}
    most = Fraction(0)
    for pair in pairs:
        numbers = []
        for records in pair:
            key = repr(records)
            if key not in seen:
                seen[key] = published(monkeypatch, request, records)
            numbers.append(seen[key][0])
        noises = seen[key][1]
        parts = zip(*numbers, noises, strict=True)
        loss = sum((rate * Fraction(abs(a - b)) ** power for a, b, (rate, power) in parts), Fraction(0))
        most = max(most, loss)
    return most


def check(most: Fraction, request: Any, delta: Fraction | None, least: Fraction) -> None:
    """The loss is within the claim, and no smaller than a part of it."""
    if delta is None:
        assert EPSILON * least <= most <= EPSILON
        return
    claimed = request.price().curve.gaussian_squared
    assert claimed * least <= most <= claimed
    with mpmath.workdps(60):
        mu, e = mpmath.sqrt(mpmath.mpf(most.numerator) / most.denominator), mpmath.mpf(1) / 2
        assert mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu) <= DELTA


WEIGHTS = (0.0, 0.25, 2.0, 7.5)
REST = [("a", 3.0, "u", 1, 1.5, 1), ("b", 8.0, "v", 2, 0.5, 2), ("c", 5.0, "v", 1, 2.0, 3)]


def question(kind: str, delta: Fraction | None, **about: Any) -> Any:
    schema = Schema(COLUMNS, **about)
    if kind == "mean":
        return discreet.Mean("x", epsilon=EPSILON, delta=delta).request(schema)
    if kind == "mean by":
        return discreet.Mean("x", by="g", epsilon=EPSILON, delta=delta).request(schema)
    if kind == "quantiles":
        columns = COLUMNS | {"x": Number(0, 10, bins=3)}
        return discreet.Quantiles("x", by="g", epsilon=EPSILON).request(Schema(columns, **about)).counts
    columns = ("answer", "g") if kind == "table" else "answer"
    by = "g" if kind == "by" else None
    return discreet.Proportions(columns, by=by, epsilon=EPSILON, delta=delta).request(schema)


@pytest.mark.parametrize("replaced", [True, False])
@pytest.mark.parametrize(
    ("kind", "delta"),
    [*itertools.product(["share", "table", "by", "mean", "mean by"], [None, DELTA]), ("quantiles", None)],
)
def test_records_of_all_pairs_of_neighbours(
    delta: Fraction | None, replaced: bool, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worst pair loses all of ε: less noise would be found."""
    request = question(kind, delta, n=4 if replaced else None)
    values = itertools.product("ac", (-3.0, 2.71, 10.0), "uv", (1,), WEIGHTS, (4,))
    each = [[*REST, record] for record in values]
    pairs = list(itertools.combinations(each, 2)) if replaced else [(REST, records) for records in each]
    check(worst(monkeypatch, request, pairs), request, delta, Fraction(1))
    assert request.price().relation is (Relation.REPLACE_ONE if replaced else Relation.ADD_REMOVE)


@pytest.mark.parametrize("delta", [None, DELTA])
@pytest.mark.parametrize("kind", ["share", "by", "mean"])
def test_records_that_are_replaced_within_strata(
    delta: Fraction | None, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = question(kind, delta, n=6, strata="h")
    rest = [("b", 10.0, "u", 1, 2.0, i) for i in range(4)] + [("b", 10.0, "u", 2, 1.0, 9)]
    values = itertools.product("abc", (0.0, 4.321, 10.0), "u", (1,), WEIGHTS, (4,))
    pairs = list(itertools.combinations([[*rest, record] for record in values], 2))
    check(worst(monkeypatch, request, pairs), request, delta, Fraction(2, 5))
    guarantee = request.price()
    assert guarantee.relation is Relation.WITHIN_GROUP
    assert any("'h'" in text for text in guarantee.assumptions)


@pytest.mark.parametrize("delta", [None, DELTA])
@pytest.mark.parametrize("kind", ["share", "mean"])
@pytest.mark.parametrize("design", ["person", "cluster", "both"])
def test_people_and_clusters_that_are_replaced(
    delta: Fraction | None, kind: str, design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a person or cluster with up to three records two enter, and all of them are replaced."""
    more: dict[str, Any] = {} if design == "person" else {"cluster": "p"}
    if design == "both":
        more["strata"] = "h"
    request = question(kind, delta, n=5, person="p", per_person=2, **more)
    told = (("a", "c"), (0.0,)) if kind == "share" else (("a",), (0.0, 10.0))
    member = list(itertools.product(*told, "u", (1,), (0.5, 2.0, 3.0), ("p",)))
    rest = [(*record[:-1], f"q{record[-1]}") for record in REST]
    people = [
        [*rest, *records]
        for size in (2, 3)
        for records in itertools.combinations_with_replacement(member[:: size - 1], size)
    ]
    pairs = list(itertools.combinations(people, 2))
    least = Fraction(9, 10) if design != "both" else Fraction(2, 5)
    check(worst(monkeypatch, request, pairs), request, delta, least)
    assert request.price().unit == "p"


@pytest.mark.parametrize("delta", [None, DELTA])
def test_the_stratum_of_a_cluster_is_that_of_its_strata_alone(
    delta: Fraction | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster in several strata stays where it is, whatever its records say and whichever of them enter."""
    request = question("share", delta, n=6, person="p", per_person=2, cluster="p", strata="h")
    rest = [("b", 1.0, "u", 2, 2.0, cluster) for cluster in "qqrr"]
    told = list(itertools.product("ac", (0.5, 2.0)))
    clusters = [
        [*rest, *((answer, 1.0, "u", h, w, "p") for h, (answer, w) in zip((2, 1, 2), records, strict=True))]
        for records in itertools.product(told, repeat=3)
    ]
    kept = [request.read(pd.DataFrame(records, columns=NAMES)) for records in clusters]
    assert {(sums.units, sums.strata) for sums in kept} == {(3, 2)}
    pairs = list(itertools.combinations(clusters, 2))
    check(worst(monkeypatch, request, pairs), request, delta, Fraction(1, 5))


def test_codes_of_many_groups_and_strata_are_one_number() -> None:
    """More of them than there are numbers would give a record the code of another."""
    many = {"g": Category(range(10**5)), "h": Category(range(10**5), public=True)}
    request: Any = discreet.Mean("x", by="g", epsilon=1).request(Schema({**COLUMNS, **many}, strata="h", n=1))
    record = {"x": [1.0], "g": [99_999], "h": [99_999], "w": [1.0]}
    with pytest.raises(TooLargeError, match="combinations"):
        request.read(pd.DataFrame(record))


@pytest.mark.parametrize("engine", TABLES)
def test_the_same_sums_on_every_engine(engine: str, tmp_path: Path) -> None:
    """Weights, answers and numbers of a table, against sums record by record."""
    rng = np.random.default_rng(5)
    rows: Any = [
        (["x", "y", None][rng.integers(3)], weight, int(rng.integers(-1, 12)), f"p{rng.integers(6)}")
        for weight in (0.0, 0.5, 1.00007, 1.99995, 2.0, 2.5, 1e300, *rng.uniform(0, 2.2, 30).tolist())
    ]
    schema = Schema(
        {"text": Category(["x", "y"], missing="exclude"), "whole": (0, 10), "real": Weight(2)}, n=37
    )
    grid = [min(int(np.floor(w / 2 * 40_000 + 0.5)), 40_000) for _, w, _, _ in rows]
    shares: Any = discreet.Proportions("text", epsilon=1)
    means: Any = discreet.Mean("whole", epsilon=1)
    share = shares.request(schema).read(TABLES[engine](rows, tmp_path))
    for cell, level in enumerate("xy"):
        assert share.totals[0][cell] == sum(a for a, row in zip(grid, rows, strict=True) if row[0] == level)
        assert share.squares[0][cell] == sum(a * a for a, r in zip(grid, rows, strict=True) if r[0] == level)
    assert share.cut == sum(row[1] > 2 for row in rows)
    assert (share.records, share.squared) == (37, sum(a * a for a in grid))
    mean = means.request(schema).read(TABLES[engine](rows, tmp_path))
    pairs = [
        (a * (50_000 - u), a * u)
        for a, row in zip(grid, rows, strict=True)
        for u in [5000 * min(max(row[2], 0), 10)]
    ]
    assert mean.totals[0] == tuple(map(sum, zip(*pairs, strict=True)))
    corners = ((0, 0), (0, 1), (1, 1))
    assert mean.squares[0] == tuple(sum(p[i] * p[j] for p in pairs) for i, j in corners)
    whole = Schema(dict(schema.columns), n=37, person="who", per_person=20, cluster="who")
    clusters = means.request(whole).read(TABLES[engine](rows, tmp_path))
    totals = pd.DataFrame(pairs, dtype=object).groupby([row[3] for row in rows]).sum().to_numpy()
    assert clusters.totals == mean.totals
    assert clusters.squares[0] == tuple(
        int((totals[:, i] * totals[:, j]).sum()) for i, j in ((0, 0), (0, 1), (1, 1))
    )
    assert clusters.units == len(totals)


@pytest.mark.parametrize("kind", ["share", "by"])
def test_squares_around_means_move_as_far_as_is_said(kind: str) -> None:
    request = question(kind, None, n=400, strata="h")
    rest = [("b", 1.0, "u", 1, 2.0, 1)] * 399
    first, other = (
        np.array(request.read(pd.DataFrame([*rest, (answer, 1.0, "u", 1, 2.0, 2)], columns=NAMES)).squares)
        for answer in "ac"
    )
    apart = (first - other).ravel().tolist()
    straight, squared = request.noise.moved["squares"]
    assert 0.99 * straight < sum(map(abs, apart)) <= straight
    assert 0.99 * squared < sum(value**2 for value in apart) <= squared


def test_squares_that_are_rounded_move_further() -> None:
    """A stratum so large that means move nothing: each S_jS_l/t is rounded, which must be in the bound."""
    columns: dict[str, Any] = {"answer": list("abcde"), "h": Category([1, 2], public=True), "w": Weight(2)}
    asked: Any = discreet.Proportions("answer", epsilon=1).request(Schema(columns, n=10**16, strata="h"))
    grid = WeightGrid(2)
    most = grid.steps
    assert most % 1000 == 0
    # Of three answers the total over the number of records is thirds of a weight, with fractions of a step.
    size = 10 * most**2 * 10**4
    first = Fraction(most // 3) + Fraction(7, 10) * (1 + Fraction(1, most))
    means = (first, first, most - 2 * first)
    numbers = [size * mean / most - 1 for mean in means]
    assert all(number.denominator == 1 for number in numbers)
    rest = [([((0, most, place + 2), 1)], int(number)) for place, number in enumerate(numbers)]
    rest += [([((0, 1, place), 1)], 1) for place in (0, 1)]
    pair = [[*rest, ([((0, most, place), 1)], 1)] for place in (0, 1)]
    found = [asked.design._add(units, ["h", "w", "answer"], grid) for units in pair]
    assert {sums.records for sums in found} == {size}
    apart = [a - b for a, b in zip(found[0].squares[0], found[1].squares[0], strict=True)]
    straight, squared = asked.noise.moved["squares"]
    assert 4 * most**2 < sum(map(abs, apart)) <= straight
    assert sum(value**2 for value in apart) <= squared


def test_squares_are_around_the_means_of_strata() -> None:
    """Also the means of a stratum in which some did not answer: its size is that of all."""
    data = survey(300)
    data["answer"][::7] = [None] * 43
    columns = {**COLUMNS, "answer": Category(["a", "b", "c"], missing="exclude")}
    request: Any = discreet.Proportions("answer", epsilon=1).request(Schema(columns, n=300, strata="h"))
    sums = request.read(pd.DataFrame(data))
    grid = np.floor(np.array(data["w"]) / 2 * 40_000 + 0.5)
    x = grid[:, None] * (np.array(data["answer"])[:, None] == np.array(["a", "b", "c"]))
    strata = [x[np.array(data["h"]) == h] for h in (1, 2)]
    exact = sum((len(part) - 1) * np.cov(part, rowvar=False) for part in strata)
    assert sums.squares[0] == pytest.approx(exact[np.triu_indices(3)], abs=2.01)
    assert (sums.units, sums.strata) == (300, 2)


@pytest.mark.parametrize("kind", benchmark.KINDS)
def test_without_noise_it_is_hajek_with_its_linearised_variance(kind: str) -> None:
    frame = benchmark.survey(np.random.default_rng(3), 4000, kind)
    request = benchmark.request(kind, 4000, 5000.0, None)
    answer = request.answer(request.read(frame), SeededEntropy(1))
    estimates, deviations = benchmark.hajek(frame, kind)
    assert answer.mean() == pytest.approx(estimates, abs=0.1 * deviations.min())
    assert answer.std() == pytest.approx(deviations, rel=0.06)
    assert answer.draws(50, seed=1).shape == (50, len(answer.names))
    w = np.minimum(frame["weight"], 4)
    assert answer.effective_size()[0] == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=0.01)
    assert answer.design_effect()[0] == pytest.approx(4000 * (w**2).sum() / w.sum() ** 2, rel=0.01)


def test_equal_weights_give_the_posterior_of_a_multinomial() -> None:
    counts = np.array([3.0, 40.0, 157.0])
    noisy = NoisyTotals(counts, counts, 1e-9, 1e-9, False, None)
    drawn = draw_shares(noisy, 20_000, np.random.default_rng(1)).shares
    for cell, count in enumerate(counts):
        distribution = stats.beta(count + 1, 202 - count)
        assert stats.kstest(drawn[:, cell], distribution.cdf).pvalue > 1e-7


@pytest.mark.parametrize("gaussian", [True, False])
@pytest.mark.parametrize("tilt", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("value", [-6.0, 0.0, 0.3, 8.0])
def test_totals_are_quantiles_of_their_distribution(gaussian: bool, tilt: float, value: float) -> None:
    x = np.linspace(0, 60, 600_001)
    distance = np.abs(x - value) / 1.5
    density = np.exp(-(distance**2 / 2 if gaussian else distance) - tilt * x)
    distribution = np.cumsum(density) / density.sum()
    chance = np.array([0.001, 0.2, 0.5, 0.9, 0.999])
    found = draw_positive(np.array([value]), 1.5, gaussian, tilt, chance[:, None])[:, 0]
    assert found == pytest.approx(np.interp(chance, distribution, x), abs=3e-4)


def survey(n: int = 2000, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "answer": rng.choice(list("abc"), n, p=[0.6, 0.3, 0.1]).tolist(),
        "x": rng.uniform(0, 10, n).tolist(),
        "g": rng.choice(["u", "v"], n).tolist(),
        "h": rng.choice([1, 2], n).tolist(),
        "w": rng.uniform(0.2, 1.8, n).tolist(),
    }


def test_weights_that_were_cut_are_counted_and_warned_about() -> None:
    data = survey()
    schema = Schema(COLUMNS, n=2000)
    request: Any = discreet.Proportions("answer", epsilon=1).request(schema)
    quiet = request.answer(request.read(pd.DataFrame(data)), SeededEntropy(2))
    assert quiet.cut()[1] == 0
    assert not quiet.warnings
    data["w"][:600] = [9.0] * 600
    loud = request.answer(request.read(pd.DataFrame(data)), SeededEntropy(2))
    number, low, high = loud.cut()
    assert low < 600 < high
    assert abs(number - 600) < 200
    (warning,) = loud.warnings
    assert "were cut to 2" in warning
    assert "Weight(most)" in warning
    assert "Effective number of records (Kish)" in loud.summary()


def test_too_few_records_that_count_are_warned_about() -> None:
    """Sixty of 2,000 have nearly all of the weight."""
    data = survey() | {"w": [2.0] * 60 + [0.01] * 1940}
    for asked in (discreet.Proportions("answer", epsilon=9), discreet.Quantiles("x", epsilon=9)):
        answer = asked.request(Schema(COLUMNS, n=2000))
        read = answer.read(pd.DataFrame(data))
        found = answer.bind(0).make(read)
        assert any("effective records" in text for text in found.warnings)


def test_quantiles_without_noise_are_those_of_woodruff() -> None:
    frame = benchmark.survey(np.random.default_rng(3), 4000, "quantiles")
    request = benchmark.request("quantiles", 4000, 5000.0, None)
    answer = benchmark.answer(request, request.read(frame), SeededEntropy(1))
    estimates, deviations = benchmark.hajek(frame, "quantiles")
    assert answer.mean() == pytest.approx(estimates, abs=0.3)  # bins are 1 wide
    assert answer.std() == pytest.approx(deviations, rel=0.15)
    parts = request.counts.design.pairs
    assert len(parts) == 100


def test_ends_of_weighted_quantiles_are_the_outer_ones() -> None:
    """Noise lets the distribution fall from 0.5 to 0.3: half of the draws at 0.45 are in the first bin."""
    totals = np.array([50.0, -20.0, 20.0, 50.0])
    found = WeightedDistribution(
        Bins(tuple(range(5))), NoisyTotals(totals, np.zeros(4), 10.0, 1.0, True), list(range(4))
    )
    assert np.mean(found.quantiles([0.45]).draws(4000, 1) < 1) == pytest.approx(0.5, abs=0.05)


def test_draws_of_a_distribution_that_noise_lets_fall_are_distributions() -> None:
    totals = np.array([50.0, -20.0, 20.0, -10.0, 50.0])
    noisy = NoisyTotals(totals, np.zeros(5), 10.0, 1.0, True)
    found = WeightedDistribution(Bins(tuple(range(6))), noisy, list(range(5)))
    shares, _ = found._draw_shares(400, np.random.default_rng(1))
    assert (shares >= 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(400))
    below = found.cdf(np.arange(6)).draws(400, 1)
    assert (np.diff(below, axis=1) >= 0).all()


def test_values_that_many_share_are_found_where_they_are() -> None:
    """Levels hold them between bins, or behind all of these: cells are in the order of bins."""
    values = [0.0] * 100 + [1.0] * 200 + [3.0] * 500 + [7.0] * 200
    schema = Schema({"x": Number(0, 10, bins=5, atoms=(3, 7)), "w": Weight(1)}, n=1000)
    asked = discreet.Quantiles("x", probs=(0.2, 0.5, 0.95), epsilon=10**6).request(schema)
    sums = asked.read(pd.DataFrame({"x": values, "w": [1.0] * 1000}))
    answer = asked.bind(0).make(sums)
    assert answer.mean()[1:] == pytest.approx([3, 7], abs=0.01)
    assert np.diff(answer.cdf([2.9, 3.0, 6.9, 7.0]).mean()) == pytest.approx([0.5, 0, 0.2], abs=0.02)


def test_noise_on_the_number_of_records_is_in_the_design_effect() -> None:
    """Of 1,000 ± 200 records with weights of ½ the design effect is not sure; the effective number is."""
    given: dict[str, Any] = {"column": "w", "most": 2.0, "n": None, "cut": 0.0, "cut_scale": 1.0}
    given |= {"gaussian": True, "totals": np.full(4000, 500.0), "squared": 250.0, "deviation": 0.01}
    known, guessed = (SurveyWeights(**given, counted=(1000.0, scale)).kish() for scale in (1e-9, 200.0))
    assert known[1][2] - known[1][1] < 0.01
    assert guessed[1][1:] == pytest.approx((1.0, 1.392), abs=0.05)
    for asked in (discreet.Regress("x ~ g", epsilon=1, delta="1e-6"), discreet.Proportions("g", epsilon=1)):
        request: Any = asked.request(Schema(COLUMNS))
        read = getattr(request, "regression", None)
        answer = (
            read.fit(survey(), source=SeededEntropy(2))
            if read
            else discreet.proportions(survey(), "g", schema=Schema(COLUMNS), epsilon=1)
        )
        number, deviation = answer.survey_weights.counted
        assert deviation > 1
        assert abs(number - 2000) < 8 * deviation


@pytest.mark.parametrize(("n", "records"), [(1000, 1000), (None, 1000)])
def test_the_mean_weight_of_a_regression_is_that_by_weight(n: int | None, records: int) -> None:
    """Σw²/Σw, where chance is expected beside the curvature, and no more than the largest weight."""
    asked: Any = discreet.Regress("x ~ g", epsilon=1, delta="1e-6").request(Schema(COLUMNS, n=n))
    step = 1 << 12
    for total, squares, mean in ((500, 300, 0.6), (500, 900, 1.0), (500, 10, 0.5)):
        survey_of = (0, total * step, squares * step, *(() if n else (records,)))
        setting = replace(asked.regression.setting(n), survey=survey_of)
        assert setting.weights == pytest.approx((total, mean))


@pytest.mark.parametrize("weighted", [True, False])
def test_quantiles_of_groups_are_drawn_apart(weighted: bool) -> None:
    """With a seed all groups had the same luck, so that their differences seemed five times as sure."""
    columns: Any = {"x": Number(0, 10, bins=8), "g": ["u", "v"]}
    schema = Schema(columns | ({"w": Weight(2)} if weighted else {}))
    drawn = discreet.quantiles(survey(), "x", by="g", probs=(0.5,), schema=schema, epsilon=1).draws(4000, 1)
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.12  # seven deviations


def test_quantiles_are_not_read_from_totals_of_something_else() -> None:
    """The first cells of a table, and the groups of a mean, were taken for bins."""
    bins = ["[0, 5)", "[5, 10]"]
    columns = COLUMNS | {"x": Number(0, 10, bins=2), "g": bins}
    data = survey() | {"g": [bins[value > 5] for value in survey()["x"]]}
    schema = Schema(columns, n=2000)
    content = discreet.quantiles(data, "x", schema=schema, epsilon=1).content()
    for counted in (
        discreet.proportions(data, "answer", "g", schema=schema, epsilon=1),
        discreet.mean(data, "x", by="g", schema=schema, epsilon=1),
    ):
        with pytest.raises(ValueError, match="do not match the bins"):
            QuantileAnswer.from_content(content | {"counted": counted.document()}).check_parts()


@pytest.mark.parametrize("coupled", [True, False])
def test_intervals_of_weighted_quantiles_hold(coupled: bool) -> None:
    """Seeded: 100 samples of 400, where noise and sampling are alike; and the distribution function."""
    rng, bins, cells = np.random.default_rng(7), Bins(tuple(range(11)), (5.0,)), list(range(12))
    places = np.triu_indices(12)
    held, together = [], []
    for _ in range(100):
        x, w = rng.beta(2, 3, 400) * 10, rng.uniform(0.2, 1, 400)
        x[:60] = 5.0
        at = bins.places(x)
        totals, squares = np.bincount(at, w, 12), np.bincount(at, w**2, 12)
        squares = np.diag(squares)[places] if coupled else squares
        noisy = NoisyTotals(
            totals + rng.laplace(0, 3, 12), squares + rng.laplace(0, 6, len(squares)), 3.0, 6.0, False, 399
        )
        found = WeightedDistribution(bins, noisy, cells)
        drawn, below = found.quantiles([0.2, 0.9]).draws(800), found.cdf([2.0, 7.5]).draws(800)
        least, most = np.quantile(np.diff(drawn), [0.05, 0.95])
        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
        below_low, below_high = np.quantile(below, [0.05, 0.95], axis=0)
        share = 0.85 * stats.beta(2, 3).cdf([0.2, 0.75]) + 0.15 * np.array([0, 1])
        points = stats.beta(2, 3).ppf([0.2 / 0.85, 0.75 / 0.85]) * 10
        held.append([(low <= points) & (points <= high), (below_low <= share) & (share <= below_high)])
        together.append(least <= points[1] - points[0] <= most)
    assert np.mean(held, axis=0) == pytest.approx(0.9, abs=0.11)
    assert np.mean(together) == pytest.approx(0.9, abs=0.11)


@pytest.mark.parametrize(
    ("counts", "epsilon", "hidden"),
    [
        ((1996, 4, 0), 0.02, "a, b, c"),
        ((1700, 300, 0), 5, "c"),
        ((0, 0, 2000), 5, "a, b, c"),
        ((1200, 600, 200), 5, None),
    ],
)
def test_shares_whose_size_the_noise_hides_are_named(
    counts: tuple[int, ...], epsilon: float, hidden: str | None
) -> None:
    """Whatever the noise is, an empty value is named, and the value that all records have."""
    data = survey() | {"answer": [v for v, count in zip("abc", counts, strict=True) for _ in range(count)]}
    request: Any = discreet.Proportions("answer", epsilon=epsilon).request(Schema(COLUMNS, n=2000))
    answer = request.answer(request.read(pd.DataFrame(data)), SeededEntropy(2))
    named = [text for text in answer.warnings if "hard to tell from 0 or 1" in text]
    assert bool(named) is bool(hidden)
    assert all(f"from 0 or 1: {hidden};" in text for text in named)


@pytest.mark.parametrize("about", [{"n": 2000}, {}, {"n": "public", "strata": "h"}])
@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_an_answer_is_what_its_document_says(about: dict[str, Any], delta: str | None) -> None:
    schema = Schema(COLUMNS, **about)
    answers = [
        discreet.proportions(survey(), "answer", schema=schema, epsilon=1, delta=delta),
        discreet.proportions(survey(), "answer", "g", schema=schema, epsilon=1, delta=delta),
        discreet.proportions(survey(), "answer", by="g", schema=schema, epsilon=1, delta=delta),
        discreet.mean(survey(), "x", schema=schema, epsilon=1, delta=delta),
        discreet.mean(survey(), "x", by="h", schema=schema, epsilon=1, delta=delta),
    ]
    for answer in answers:
        again = load_answer(answer.to_json())
        assert again.to_json() == answer.to_json()
        assert (again.mean() == answer.mean()).all()
        assert len(answer.to_frame()) == len(answer.names) == len(answer.rows())
        assert (answer.n is None) is (schema.n is None)
        assert answer.guarantee.exact_epsilon == 1
    if delta is None:
        again = load_answer(discreet.quantiles(survey(), "x", by="g", schema=schema, epsilon=1).to_json())
        assert again.mean() == pytest.approx([2.5, 5, 7.5] * 2, abs=2)
        assert "Private weighted quantiles of x by g" in again.words().headline
        assert again.words().name == "Weighted quantiles of x by g"
        assert ("Strata" in dict(again.words().facts)) is ("strata" in about)
    assert answers[0].mean() == pytest.approx([0.6, 0.3, 0.1], abs=0.1)
    assert answers[3].mean()[0] == pytest.approx(5, abs=1)
    assert answers[0].mean().sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("ask", "about", "message"),
    [
        (lambda s: discreet.Draw("answer", epsilon=1, delta="1e-6").request(s), {}, "takes unweighted"),
        (lambda s: discreet.Network({"g": ["h"]}, epsilon=1).request(s), {}, "unweighted records"),
        (lambda s: discreet.Survival("x", "g", epsilon=1).request(s), {}, "not weighted yet"),
        (
            lambda s: discreet.Regress("h ~ x", family="multinomial", epsilon=1, delta="1e-6").request(s),
            {},
            "no weighted form",
        ),
        (lambda s: discreet.Regress("x ~ w", epsilon=1, delta="1e-6").request(s), {}, "is the weight"),
        (
            lambda s: discreet.Regress("x ~ g", epsilon=1, delta="1e-6").request(s),
            {"person": "p", "per_person": 2, "cluster": "p"},
            "not used by regressions",
        ),
        (
            lambda s: discreet.Proportions("answer", mechanism="lattice", epsilon=1).request(s),
            {},
            "mechanism cannot be used with the weight 'w'",
        ),
        (
            lambda s: discreet.Proportions("answer", prior=2, epsilon=1).request(s),
            {},
            "prior cannot be used",
        ),
        (lambda s: discreet.Proportions("w", epsilon=1).request(s), {}, "must differ"),
        (
            lambda s: discreet.Proportions(["answer", "g", "x"], epsilon=1).request(s),
            {"strata": "h"},
            "60 cells of answer, g, x are too many: with strata or clusters at most 30; declare fewer bins=",
        ),
        (lambda s: discreet.Proportions(["answer", "g"], by="g", epsilon=1).request(s), {}, "must differ"),
        (lambda s: discreet.Mean("x", epsilon=1).request(s), {"cluster": "p"}, "column of person="),
        (lambda s: discreet.Mean("x", epsilon=1).request(s), {"n": None, "strata": "h"}, "declare n"),
        (
            lambda s: discreet.Mean("x", epsilon=1).request(s),
            {"strata": "h", "person": "p", "per_person": 1},
            "name that column as cluster=",
        ),
    ],
)
def test_what_is_not_weighted_is_refused(ask: Any, about: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ask(Schema(COLUMNS, **{"n": 2000, **about}))


def test_a_design_needs_one_weight() -> None:
    with pytest.raises(InvalidInputError, match="replicate weights are not used"):
        Schema({**COLUMNS, "w2": Weight(2)})
    with pytest.raises(InvalidInputError, match="declare its column of weights"):
        Schema({"h": COLUMNS["h"]}, strata="h")


def test_weights_that_are_none_stop_an_answer_or_are_left_out() -> None:
    for wrong, text in ((-1.0, "hold an invalid weight"), (None, "needs a weight")):
        data = survey(50)
        data["w"][3] = wrong
        with pytest.raises(DataError, match=text):
            discreet.proportions(data, "answer", schema=Schema(COLUMNS, n=50), epsilon=1)
        request: Any = discreet.Proportions("answer", epsilon=1).request(Schema(COLUMNS, n=50, strict=False))
        assert request.read(data | {"w": [*data["w"]]}).records == 50


def test_a_plan_says_how_wide_intervals_will_be() -> None:
    schema = Schema(COLUMNS | {"x": Number(0, 10, bins=100)}, n=2000)
    for asked in (
        discreet.Proportions("answer", epsilon=1),
        discreet.Mean("x", by="g", epsilon=1),
        discreet.Quantiles("x", epsilon=1),
        discreet.Quantiles("x", by="g", epsilon=1),
        discreet.Regress("x ~ g", epsilon=1, delta="1e-6"),
    ):
        request = asked.request(schema)
        near, far = request.simulate(50_000, 0.95, 1, Guess()), request.simulate(1000, 0.95, 1, Guess())
        assert max(near.widths) < min(far.widths) / 3
        assert max(near.noise_shares) < max(far.noise_shares)


def test_the_plan_of_a_ledger_names_the_design() -> None:
    schema = Schema(COLUMNS, n=20, strata="h", person="p", per_person=1, cluster="p")
    plan = discreet.Proportions("answer", epsilon=1).plan(schema)
    assert (plan["schema"]["strata"], plan["schema"]["cluster"]) == ("h", "p")
    assert set(plan["schema"]["columns"]) == {"answer", "w", "h"}
    assert json.loads(json.dumps(plan)) == plan


@pytest.mark.parametrize("kind", benchmark.FAMILIES)
def test_without_noise_a_regression_is_that_of_the_survey_package(kind: str) -> None:
    """Coefficients, the sandwich and Kish's numbers; and the unit of the weights does not matter."""
    frame = benchmark.survey(np.random.default_rng(3), 4000, kind)
    asked = benchmark.request(kind, 4000, 1e6, None)
    fit = benchmark.answer(asked, frame, SeededEntropy(1))
    estimates, deviations = benchmark.hajek(frame, kind)
    assert fit.mean() == pytest.approx(estimates, abs=0.05 * deviations.min())
    assert fit.std() == pytest.approx(deviations, rel=0.03)
    w = np.minimum(frame["weight"], 4)
    assert fit.effective_size()[0] == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=0.01)
    assert fit.design_effect()[0] == pytest.approx(4000 * (w**2).sum() / w.sum() ** 2, rel=0.01)
    if kind == "linear":
        errors = frame["income"] - estimates @ np.array([np.ones(4000), frame["x"], frame["sex"] == "m"])
        assert fit.sigma()[0] == pytest.approx(np.sqrt(np.average(errors**2, weights=w)), rel=0.02)
    columns = dict(asked.schema.columns) | {"weight": Weight(512 * benchmark.MOST)}
    scaled = discreet.Regress(
        asked.question.formula, family=asked.question.family, epsilon=10**6, delta=benchmark.DELTA
    ).request(Schema(columns, n=4000))
    again = benchmark.answer(scaled, frame.assign(weight=512 * frame["weight"]), SeededEntropy(1))
    assert (again.content()["rounds"], again.survey) == (fit.content()["rounds"], fit.survey)


def test_residuals_wider_than_half_of_the_bounds_do_not_move_coefficients() -> None:
    """Without noise nothing is clipped, also where responses are at either bound."""
    rng = np.random.default_rng(4)
    frame = benchmark.survey(rng, 4000, "linear")
    frame["income"] = np.where(rng.random(4000) < 0.05 + 0.03 * frame["x"], 80.0, 0.0)
    fit = benchmark.answer(benchmark.request("linear", 4000, 1e6, None), frame, SeededEntropy(1))
    estimates, deviations = benchmark.hajek(frame, "linear")
    assert np.abs(fit.mean() - estimates).max() < 0.02 * deviations.min()
    assert load_answer(fit.to_json()) == fit


@pytest.mark.parametrize("about", [{"n": 2000}, {}, {"n": 2000, "person": "p", "per_person": 2}])
def test_a_weighted_regression_is_what_its_document_says(about: dict[str, Any]) -> None:
    """Everything is in the document, and noise that is too small, or sums that are left out, are refused."""
    data = survey() | {"p": list(range(2000))}
    data["x"] = np.rint(data["x"]).tolist()
    fit = discreet.regress(data, "x ~ answer", schema=Schema(COLUMNS, **about), epsilon=1, delta="1e-6")
    assert load_answer(fit.to_json()) == fit
    assert fit.guarantee.exact_epsilon == 1
    assert fit.words().headline == "Private weighted gaussian regression: x ~ answer"
    assert "Weights that were cut" in fit.summary()
    curve = fit.cost().curve
    people = about.get("per_person", 1)
    assert curve.gaussian_squared * people**2 <= fit.guarantee.curve.gaussian_squared * Fraction(
        1000001, 10**6
    )
    document = json.loads(fit.to_json())
    for name, value in (("survey", document["release"]["survey"][:2]), ("survey", [])):
        forged = json.loads(json.dumps(document))
        forged["release"][name] = value
        with pytest.raises(ValueError, match="sums of weights"):
            Fit.from_content(forged["release"]).check_parts()


def test_weights_of_a_regression_that_were_cut_are_warned_about() -> None:
    data = survey()
    asked: Any = discreet.Regress("x ~ g", epsilon=3, delta="1e-6").request(Schema(COLUMNS, n=2000))
    assert not asked.regression.fit(data, source=SeededEntropy(2)).warnings
    data["w"][:600] = [9.0] * 600
    fit = asked.regression.fit(data, source=SeededEntropy(2))
    assert fit.cut()[1] < 600 < fit.cut()[2]
    assert "were cut to 2" in fit.warnings[0]
    data["w"][5] = -1.0
    with pytest.raises(DataError, match="column 'w'"):
        asked.regression.fit(data)
    lenient: Any = discreet.Regress("x ~ g", epsilon=3, delta="1e-6").request(
        Schema(COLUMNS, n=2000, strict=False)
    )
    without = lenient.regression.fit(data, source=SeededEntropy(2))
    assert without.n is None
    assert len(without.survey) == 4


@pytest.mark.slow
@pytest.mark.parametrize("kind", benchmark.ALL)
def test_intervals_hold_the_population(kind: str) -> None:
    """Seeded: of 60 surveys 90 % hold the population's numbers, but for five standard errors."""
    held = [found[0].mean() for (found,) in benchmark.results(kind, 1000, [1.0], None, 60, 9)]
    assert np.mean(held) > 0.9 - 5 * np.sqrt(0.09 / 60)


@pytest.mark.parametrize("n", [4, None])
@pytest.mark.parametrize("left_out", ["x", "answer", "w"])
def test_that_every_record_is_left_out_is_no_error(left_out: str, n: int | None) -> None:
    """Whether anybody answered is as private as who did; data of which all are left out were called empty."""
    data: dict[str, Any] = {"x": [1.0] * 4, "answer": ["a"] * 4, "w": [1.0] * 4, left_out: [None] * 4}
    columns = {"x": discreet.Number(0, 10, missing="exclude"), "w": Weight(2)}
    columns["answer"] = Category(["a", "b"], missing="exclude")
    schema = Schema(columns, n=n, strict=False)
    assert discreet.mean(data, "x", schema=schema, epsilon=1).n == n
    assert discreet.proportions(data, "answer", schema=schema, epsilon=1).n == n
