"""Small areas: means and shares of groups around a line of public covariates, against quadrature."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import discreet
from discreet._documents.parts import Row
from discreet.errors import InvalidInputError
from discreet.regression._pooled import PooledEstimates, Subject, drawn_mixture, group_mixture, pool_shares

AREAS = tuple("abcdefgh")
LINE = dict(zip(AREAS, [31.0, 28, 35, 40, 26, 33, 30, 38], strict=True))


def quadrature(values: np.ndarray, error: float, x: np.ndarray, within: float) -> tuple[np.ndarray, ...]:
    """Means and deviations of all groups and of the slope, on a dense grid of two coefficients and τ."""
    coordinate = (np.arange(100) + 0.5) / 100
    tau = within * np.sqrt(coordinate**3 / (1 - coordinate**3))
    middle = np.polynomial.polynomial.polyfit(x, values, 1)
    zero, one = (m + np.linspace(-9, 9, 61) for m in middle)
    zero, one, tau = (a.ravel() for a in np.meshgrid(zero, one, tau, indexing="ij"))
    log, variance = 2 * np.log(np.tile(coordinate, 61**2)), tau**2 + error**2
    for value, at in zip(values, x, strict=True):
        log -= ((value - zero - one * at) ** 2 / variance + np.log(variance)) / 2
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    means, squares = [], []
    for value, at in zip(values, x, strict=True):
        own = (tau**2 * value + error**2 * (zero + one * at)) / variance
        means.append(weights @ own)
        squares.append(weights @ (own**2 + tau**2 * error**2 / variance))
    means, slope = np.array(means), weights @ one
    return means, np.sqrt(np.array(squares) - means**2), np.array([slope])


@pytest.mark.parametrize("error", [0.7, 2.0])
def test_estimates_around_a_line_are_those_of_quadrature(error: float) -> None:
    """20,000 draws over 256 points of the coefficients; the tolerance is a tenth of a deviation."""
    values = np.array([50.0, 47, 53.5, 58, 46, 51, 50, 57.5])
    x = np.array(list(LINE.values()))
    own = [group_mixture(np.ones(1), np.array([value]), np.array([error])) for value in values]
    subject = Subject(AREAS, "area", "Means of x", (0.0, 100.0))
    pooled = PooledEstimates(subject, own, 4.0, {"income": LINE})
    scale = x.std()
    means, deviations, slope = quadrature(values, error, (x - x.mean()) / scale, 4.0)
    np.testing.assert_allclose(pooled.mean(), means, atol=0.1 * deviations.min())
    np.testing.assert_allclose(pooled.std(), deviations, rtol=0.06)
    (row,) = pooled.slopes()
    assert row.name == "income"
    assert row.mean == pytest.approx(slope[0] / scale, abs=0.1 * row.sd)
    assert "income" in str(pooled)
    assert [r.mean for r in pooled.figure().rows] == sorted(pooled.mean())


def test_the_prior_of_drawn_shares_is_taken_out() -> None:
    """40,000 draws: five standard errors."""
    rng = np.random.default_rng(1)
    likelihood = drawn_mixture(rng.beta(12 + 1, 8 + 4, 40_000), (1.0, 4.0))
    mean = likelihood.weights @ likelihood.means
    assert likelihood.weights.sum() == pytest.approx(1)
    assert mean == pytest.approx(13 / 22, abs=0.005)
    variance = likelihood.weights @ (likelihood.variances + likelihood.means**2) - mean**2
    assert math.sqrt(variance) == pytest.approx(math.sqrt(13 * 9 / 22**2 / 23), rel=0.05)


def survey(n: int = 1600) -> dict[str, Any]:
    rng = np.random.default_rng(35)
    area = np.arange(n) % 8
    share = np.array([0.01 * LINE[name] for name in AREAS])[area]
    return {
        "ill": np.where(rng.random(n) < share, "yes", "no"),
        "age": np.clip(100 * share + rng.normal(0, 10, n), 0, 100),
        "area": np.array(AREAS)[area],
        "weight": rng.uniform(0.5, 2, n),
    }


COLUMNS: dict[str, Any] = {"ill": ["no", "yes"], "age": (0, 100), "area": list(AREAS)}
WEIGHTED = {**COLUMNS, "weight": discreet.Weight(2)}


@pytest.mark.parametrize("columns", [COLUMNS, WEIGHTED])
def test_shares_and_means_gain_from_the_line(columns: dict[str, Any]) -> None:
    schema, truth = discreet.Schema(columns), np.array(list(LINE.values())) / 100
    shares = discreet.proportions(survey(), "ill", by="area", schema=schema, epsilon=2)
    pooled = shares.pool(covariates={"income": LINE})
    assert pooled.names == AREAS
    assert all(row.share for row in pooled.rows())
    assert np.abs(pooled.mean() - truth).max() < 0.15
    assert pooled.std().mean() < shares.std().reshape(8, 2)[:, 1].mean()
    means = discreet.mean(survey(), "age", by="area", schema=schema, epsilon=2)
    line = means.pool(covariates={"income": LINE})
    assert np.abs(line.mean() - 100 * truth).max() < 15
    assert line.std().mean() < means.std().mean()


def test_a_table_and_a_group_without_records_are_pooled_around_the_line() -> None:
    schema = discreet.Schema(COLUMNS, n=1600)
    table = discreet.proportions(survey(), "ill", "area", schema=schema, epsilon=2)
    assert table.pool("ill", given="area", covariates={"income": LINE}).names == AREAS
    public = {**COLUMNS, "area": discreet.Category(list(AREAS), public=True)}
    data = {name: values[survey()["area"] != "d"] for name, values in survey().items()}
    sizes = {name: 0 if name == "d" else 200 for name in AREAS}
    groups = discreet.proportions(
        data, "ill", by="area", schema=discreet.Schema(public, n=1400, sizes={"area": sizes}), epsilon=5
    )
    pooled = groups.pool(covariates={"income": LINE})
    d, h = (pooled.rows()[AREAS.index(name)] for name in "dh")
    assert d.mean == pytest.approx(0.4, abs=0.2)
    assert h.sd < d.sd < 0.25


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"covariates": {"income": {"a": 1}}}, "has no number for the group 'b'"),
        ({"covariates": {"income": dict.fromkeys(AREAS, 1)}}, "must not be constant"),
        ({"covariates": {"income": dict.fromkeys(AREAS, "high")}}, "a finite number"),
        ({"covariates": {str(i): {a: float(a == AREAS[i]) for a in AREAS} for i in range(7)}}, "more than 8"),
        ({"covariates": [1, 2]}, "must map names to numbers"),
        ({"value": "maybe"}, "must be one of: no, yes"),
    ],
)
def test_what_cannot_be_pooled_is_refused(given: dict[str, Any], words: str) -> None:
    schema = discreet.Schema(WEIGHTED, n=1600)
    shares = discreet.proportions(survey(), "ill", by="area", schema=schema, epsilon=2)
    with pytest.raises(InvalidInputError, match=words):
        shares.pool(**given)


def test_draws_of_a_group_without_records_say_nothing() -> None:
    drawn = np.random.default_rng(5).dirichlet((30.0, 50.0), (2000, 8))
    empty, rows = [name == "d" for name in AREAS], [Row("x", 0.5, noise=0.1)] * 16
    found = []
    for shape in ((1.0, 1.0), (400.0, 2.0)):
        drawn[:, AREAS.index("d")] = np.random.default_rng(6).dirichlet(shape, 2000)
        axes = {"area": AREAS, "ill": ["no", "yes"]}
        pooled = pool_shares(drawn, np.ones(2), axes, None, None, 0, rows, empty)
        found.append([(row.mean, row.sd) for row in pooled.rows()])
    assert np.array(found[0]) == pytest.approx(np.array(found[1]), abs=2e-3)


def test_weighted_estimates_without_groups_are_not_pooled() -> None:
    alone = discreet.proportions(survey(), "ill", schema=discreet.Schema(WEIGHTED, n=1600), epsilon=2)
    with pytest.raises(InvalidInputError, match="by=COLUMN"):
        alone.pool()


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("counts", "noise", "hidden"),
    [
        ((30, 0, 0, 0, 0, 0, 0, 28), 0.9, "v1, v2, v3, v4, v5, v6;"),
        ((30, 0, 0, 0, 0, 0, 0, 28), 0.1, None),
        ((28, 0, 30), 0.9, None),
        ((300, 280), 0.9, None),
        ((30, 2), 0.9, "v1;"),
    ],
)
def test_values_whose_share_the_prior_decides_are_named(
    counts: tuple[int, ...], noise: float, hidden: str | None, turned: bool
) -> None:
    """Many values without records together, or the value itself; not one other, nor without noise."""
    drawn = np.random.default_rng(3).dirichlet(1 + np.array(counts), (4000, 8))
    axes = {"area": AREAS, "answer": [f"v{i}" for i in range(len(counts))]}
    of_value = [noise if count < 5 else 0.1 for count in counts]
    parts = np.repeat(of_value, 8) if turned else np.tile(of_value, 8)
    rows = [Row("x", 0.5, noise=float(part)) for part in parts]
    about = {"income": LINE}
    prior = np.ones(len(counts))
    pooled = pool_shares(drawn, prior, axes, None, about, 0, rows, turned=turned)
    assert len(pooled.warnings) == (hidden is not None)
    assert all(f"hidden by noise: {hidden}" in text for text in pooled.warnings)
