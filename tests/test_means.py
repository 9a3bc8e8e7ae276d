"""Means with unknown variance: what one record moves, enumerated; intervals; groups and respondents."""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import discreet
import shorthand
from discreet._declarations import Relation
from discreet._documents.answer import load_answer
from discreet._documents.base import write_document
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import CorruptReleaseError, DataError, InvalidInputError, PrivacyWarning
from discreet.regression._pooled import PooledEstimates, Subject, group_mixture
from discreet.regression.means import MeanNoise, steps_between

pd = pytest.importorskip("pandas")


def every_contribution(steps: int) -> list[tuple[int, int, int]]:
    """(u, u², 1) of every point of a grid, and (0, 0, 0) of a record that is missing."""
    half = steps // 2
    return [(0, 0, 0), *((u, u * u, 1) for u in range(-half, half + 1))]


@pytest.mark.parametrize("steps", [2, 6, 16])
def test_one_record_moves_the_sums_by_what_the_noise_covers(steps: int) -> None:
    epsilon, mu_squared = Fraction(1), Fraction(1, 3)
    tight = {"laplace": Fraction(0), "gauss": Fraction(0)}
    variances = MeanNoise(epsilon, mu_squared, steps).variances()
    for one, other in product(every_contribution(steps), repeat=2):
        moved = [abs(a - b) for a, b in zip(one, other, strict=True)]
        loss = sum(
            (Fraction(m, part) for m, part in zip(moved, (steps, steps**2, 4), strict=True)), Fraction(0)
        )
        square = sum((Fraction(m * m) / v for m, v in zip(moved, variances, strict=True)), Fraction(0))
        tight = {"laplace": max(tight["laplace"], loss), "gauss": max(tight["gauss"], square)}
    assert tight == {"laplace": 1, "gauss": mu_squared}


def mean(data: Any, column: str, *, source: Any = None, **options: Any) -> Any:
    """The private mean, or with ``source`` one from a seed."""
    if source is None:
        return shorthand.mean(data, column, **options)
    design = shorthand.mean_request(column, **options).design
    return design.answer(*design.sums(data), source)


def test_the_interval_is_as_narrow_as_promised_and_holds_the_truth() -> None:
    """n = 400, ε = ½, bounds 0–120: at most ±3.2. Of 60 intervals of 95 % fewer than 45 has a chance below
    10⁻⁸."""
    generator = np.random.default_rng(1)
    widths, inside = [], 0
    for repetition in range(60):
        centre = generator.uniform(35, 85)
        values = np.clip(generator.normal(centre, 20, 400), 0, 120)
        found = mean(
            pd.DataFrame({"x": values}), "x", bounds=(0, 120), epsilon="0.5", source=SeededEntropy(repetition)
        )
        (low,), (high,) = found.interval(0.95)
        widths.append((high - low) / 2)
        inside += low <= values.mean() + (centre - values.mean()) <= high
        assert found.std() > 0
    assert float(np.mean(widths)) <= 3.2
    assert inside >= 45


@pytest.mark.parametrize(("value", "delta"), [(3.0, None), (3.0, "1e-9"), (10 / 3, None), (2.00031, None)])
def test_the_interval_holds_what_the_grid_rounds(value: float, delta: str | None) -> None:
    """A million records alike leave hardly any noise: what is left is rounding, at most half a step."""
    design = shorthand.mean_request("x", bounds=(0, 10), epsilon=5, delta=delta, n=10**6).design
    u = design.grid.code(value) - design.grid.steps // 2
    for seed in range(20):
        answer = design.answer({None: (10**6, 10**6 * u, 10**6 * u * u)}, 10**6, SeededEntropy(seed))
        (low,), (high,) = answer.interval(0.95)
        assert low <= value <= high
        assert high - low < 10 / 20_000
    assert delta is not None or answer.mean()[0] == pytest.approx(value, abs=1e-4)


def test_whole_numbers_and_decimals_lie_on_the_grid() -> None:
    declared = [(0, 10, "0.001"), (-5, 5, "0.01"), (0, 250_000, "5"), (0.5, 7.25, "0.01"), (0, 13_107, "1")]
    for low, high, unit in declared:
        steps = steps_between(low, high)
        assert steps % 2 == 0
        assert 26_000 < steps <= 1 << 16
        assert Fraction(unit) * steps % (Fraction(str(high)) - Fraction(str(low))) == 0
    assert steps_between(-np.pi, np.pi) == steps_between(0, 65_537) == 1 << 16


def test_gaussian_noise_groups_and_respondents() -> None:
    generator = np.random.default_rng(2)
    frame = pd.DataFrame({"x": generator.normal(50, 10, 6000), "g": generator.choice(["a", "b"], 6000)})
    frame.loc[frame["g"] == "b", "x"] += 10
    frame.loc[::5, "x"] = np.nan
    for options in ({}, {"delta": "1e-6"}, {"hidden": True}):
        found = mean(
            frame,
            "x",
            bounds=(0, 120),
            epsilon=2,
            by="g",
            levels=("a", "b"),
            missing="exclude",
            source=SeededEntropy(3),
            **options,
        )
        for name, truth in (("a", 50), ("b", 60)):
            assert abs(found[name].mean() - truth) < 6 * found[name].std()
            assert found[name].deviation()[1] < 10 < found[name].deviation()[2] * 1.2
    whole = mean(frame, "x", bounds=(0, 120), epsilon=1, missing=55, n=6000, source=SeededEntropy(1))
    assert not whole.guarantee.is_private  # from a seed
    assert whole.released.n == 6000
    real = mean(frame, "x", bounds=(0, 120), epsilon=1, missing=55, n=6000)
    assert real.guarantee.relation is Relation.REPLACE_ONE
    again = type(real).from_json(real.to_json())
    np.testing.assert_allclose(again.interval(0.9), real.interval(0.9))
    groups = mean(frame, "x", bounds=(0, 120), epsilon=1, missing=55, by="g", levels=("a", "b"))
    assert [row["g"] for row in type(groups).from_json(groups.to_json()).table()] == ["a", "b"]
    nobody = mean(frame[:0], "x", bounds=(0, 120), epsilon=1, missing="exclude", hidden=True)
    assert 0 <= nobody.interval(0.9)[0] < nobody.interval(0.9)[1] <= 120


def test_mistakes() -> None:
    frame = pd.DataFrame({"x": [1.0, np.nan, 3.0]})
    with pytest.raises(DataError, match="some records are missing"):
        mean(frame, "x", bounds=(0, 5), epsilon=1)
    with pytest.raises(InvalidInputError, match="'g'"):
        discreet.mean(frame, "x", by="g", schema={"x": (0, 5)}, epsilon=1)
    with pytest.raises(InvalidInputError, match="a different number"):
        mean(frame.dropna(), "x", bounds=(0, 5), epsilon=1, n=7)


@pytest.mark.filterwarnings("ignore:delta=")
@pytest.mark.parametrize("n", [4000, np.int64(4000), 4000.0, None])
def test_a_delta_of_one_in_n_is_refused_however_n_is_told(n: Any) -> None:
    data = {"x": [float(i % 10) for i in range(4000)], "y": [float(i % 7) for i in range(4000)]}
    asked: Any = {"epsilon": 1, "delta": "0.00025", "n": n}
    with pytest.raises(InvalidInputError, match=r"at least 1/n = 0\.00025"):
        shorthand.mean(data, column="x", bounds=(0, 10), **asked)
    with pytest.raises(InvalidInputError, match=r"at least 1/n = 0\.00025"):
        shorthand.regress(data, "y ~ x", bounds={"x": (0, 10), "y": (0, 7)}, **asked)
    asked["delta"] = "0.00024"
    assert shorthand.mean(data, column="x", bounds=(0, 10), **asked).n == 4000
    hidden = shorthand.mean(data, column="x", bounds=(0, 10), epsilon=1, delta="0.0005", hidden=True)
    assert hidden.n is None


def test_means_of_public_groups_cost_a_change_within_one() -> None:
    """All replacements within a group, enumerated on the grid's ends and middle: the loss is at most ε."""
    schema = discreet.Schema(
        {"x": (0, 10), "g": discreet.Category(["a", "b", "c"], public=True)},
        n=6,
        sizes={"g": {"a": 3, "b": 3, "c": 0}},
    )
    frame = {"x": [1, 2, 3, 7, 8, 9], "g": ["a"] * 3 + ["b"] * 3}
    answer = discreet.mean(frame, "x", by="g", schema=schema, epsilon=1)
    assert answer.guarantee.relation == "within-group"
    assert answer.guarantee.assumptions == (
        "the 'g' of every record, and with it the size of every group, is public",
    )
    assert [one.released.n for one in answer.means] == [3, 3, None]
    noise = answer.means[0].released.noise
    rates = [noise.epsilon / noise.people / part for part in (noise.steps, noise.steps**2, 4)]
    half = noise.steps // 2
    ends = [0, 1, half - 1, half, -half]
    losses = [abs(u - v) * rates[0] + abs(u * u - v * v) * rates[1] for u in ends for v in ends]
    assert max(losses) <= 1 < max(losses) * 2
    again = load_answer(answer.to_json())
    assert again.names == answer.names
    forged = json.loads(answer.to_json())
    for part in (forged["release"], *forged["release"]["means"]):
        part["guarantee"]["relation"], part["guarantee"]["assumptions"] = "replace-one", []
    with pytest.raises(CorruptReleaseError):
        load_answer(write_document("discreet/means", 1, forged["release"]))


def test_people_and_a_private_number_of_records_have_no_public_groups() -> None:
    """A person's records may be in other groups when replaced; sizes of groups would tell the number."""
    columns: Any = {"x": (0, 10), "h": discreet.Category([1, 2], public=True)}
    people: Any = discreet.Mean("x", by="h", epsilon=1).request(
        discreet.Schema(columns, n=4, person="p", per_person=2)
    )
    assert people.price().relation == "replace-person"
    assert people.design.noise.people == 2 * 2
    hidden: Any = discreet.Mean("x", by="h", epsilon=1).request(discreet.Schema(columns))
    assert hidden.price().relation == "add-remove"
    columns["x"] = discreet.Number(0, 10, missing="exclude")
    answered: Any = discreet.Mean("x", by="h", epsilon=1).request(discreet.Schema(columns, n=3))
    for request in (hidden, answered):
        made = request.bind(0).make(request.read({"x": [1.0, 2.0, 3.0], "h": [1, 2, 2]}))
        assert all(mean.n is None for mean in made.means)


def test_sizes_of_public_groups_are_compared_and_cautioned() -> None:
    columns = {"x": (0, 10), "g": discreet.Category(["a", "b"], public=True)}
    frame = {"x": [1, 2, 3], "g": ["a", "a", "b"]}
    with pytest.warns(PrivacyWarning, match="the number of records in each group of 'g' is read"):
        discreet.mean(frame, "x", by="g", schema=discreet.Schema(columns, n=3), epsilon=1)
    wrong = discreet.Schema(columns, n=3, sizes={"g": {"a": 1, "b": 2}})
    with pytest.raises(InvalidInputError, match="sizes of 'g' are not the numbers of records"):
        discreet.mean(frame, "x", by="g", schema=wrong, epsilon=1)
    private = discreet.Schema({"x": (0, 10), "g": ["a", "b"]}, n=3)
    assert discreet.mean(frame, "x", by="g", schema=private, epsilon=1).guarantee.relation == "replace-one"


def test_the_likelihood_of_a_mean_is_its_posterior_under_a_flat_prior() -> None:
    answer = discreet.mean([30, 50] * 200, schema=discreet.Schema({"x": (0, 100)}, n=400), epsilon=1)
    likelihood = answer.likelihood()
    grid = np.linspace(0, 100, 20_001)
    mass = np.exp(likelihood.log_prob(grid[:, None]))
    mass /= mass.sum()
    centre = mass @ grid
    assert centre == pytest.approx(answer.mean()[0], abs=1e-6)
    assert np.sqrt(mass @ (grid - centre) ** 2) == pytest.approx(answer.std()[0], rel=1e-6)
    assert likelihood.log_prob(40.0) == likelihood.log_prob([40.0])


def hierarchy(values: list[float], error: float, within: float) -> tuple[Any, Any]:
    """Means and deviations of the θ of a normal hierarchy, on a plain grid of μ and of the correlation."""
    centre, rho = np.linspace(0, 100, 2001)[:, None], ((np.arange(4000) + 0.5) / 4000)[None]
    between = within**2 * rho / (1 - rho)
    total = between + error**2
    log = sum(-((value - centre) ** 2) / total / 2 - np.log(total) / 2 for value in values)
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    spread = between * error**2 / total
    centres = [(between * value + error**2 * centre) / total for value in values]
    means = [(mass * found).sum() for found in centres]
    squares = [(mass * (spread + found**2)).sum() for found in centres]
    return np.array(means), np.sqrt(np.array(squares) - np.square(means))


@pytest.mark.parametrize("error", [0.5, 4.0])
def test_pooled_means_are_those_of_a_normal_hierarchy(error: float) -> None:
    """20,000 draws: a mean 6 standard errors off has a chance of 2e-9."""
    values = [44.0, 47.0, 50.0, 50.5, 58.0]
    own = [group_mixture(np.ones(1), np.array([value]), np.array([error])) for value in values]
    pooled = PooledEstimates(Subject(tuple("abcde"), "g", "Means of x", (0.0, 100.0)), own, 10.0)
    means, deviations = hierarchy(values, error, 10.0)
    assert np.all(np.abs(pooled.mean() - means) < 6 * deviations / np.sqrt(20_000) + 0.01)
    np.testing.assert_allclose(pooled.std(), deviations, rtol=0.05)
    assert pooled.names == tuple("abcde")
    assert pooled.draws(10, 1).shape == (10, 5)
    assert "standard deviation" in str(pooled)


def test_means_by_group_are_pooled_towards_each_other() -> None:
    frame = pd.DataFrame({"x": [40.0, 41.0, 42.0, 43.0] * 100, "g": list("abcd") * 100})
    schema = {"x": (0.0, 100.0), "g": list("abcd")}
    answer = discreet.mean(frame, "x", by="g", schema=schema, epsilon=1)
    pooled = answer.pool()
    assert np.ptp(pooled.mean()) < np.ptp(answer.mean())
    assert np.mean(pooled.std()) < np.mean(answer.std())
