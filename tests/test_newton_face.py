"""What a fit shows: effects, pictures, ArviZ, a summary that fits a terminal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import expit

from discreet._randomness.entropy import SeededEntropy
from discreet.errors import InvalidInputError
from discreet.regression._newton.fit import Fit, regression

N = 4000
RNG = np.random.default_rng(3)
AGE, HOURS = RNG.uniform(20, 80, N), RNG.uniform(0, 60, N)
GROUP = RNG.choice(["a", "b", "c"], N)
SLOPE = 0.03 * (AGE - 50) - 0.02 * (HOURS - 30) + 0.5 * (GROUP == "c")


def fitted(family: str, formula: str = "y ~ age + hours + C(g)") -> tuple[Fit, Any]:
    pandas = pytest.importorskip("pandas")
    chance = expit(SLOPE)
    response: dict[str, Any] = {
        "binomial": np.where(np.random.default_rng(4).random(N) < chance, "yes", "no"),
        "poisson": np.random.default_rng(4).poisson(np.exp(SLOPE)),
        "gaussian": SLOPE + np.random.default_rng(4).normal(size=N),
        "multinomial": GROUP,
    }
    bounds: dict[str, Any] = {"age": (20, 80), "hours": (0, 60)}
    levels: dict[str, Any] = {"g": ("a", "b", "c")} if "(g)" in formula else {}
    if family in ("gaussian", "poisson"):
        bounds["y"] = (-6, 6) if family == "gaussian" else (0, 30)
    else:
        levels["y"] = ("no", "yes") if family == "binomial" else ("a", "b", "c")
    asked = regression(formula, family=family, bounds=bounds, levels=levels, epsilon=3, delta="1e-6")
    table = pandas.DataFrame({"age": AGE, "hours": HOURS, "g": GROUP, "y": response[family]})
    return asked.fit(table, source=SeededEntropy(1)), table


@pytest.fixture(scope="module")
def binomial() -> Fit:
    return fitted("binomial")[0]


def test_effects_are_averages_of_slopes(binomial: Fit) -> None:
    """Against Σ p(1 − p)β/n over the records themselves, which only a test may look at: within a tenth."""
    for fit, slope in ((binomial, expit(SLOPE) * (1 - expit(SLOPE))), (fitted("poisson")[0], np.exp(SLOPE))):
        rows = fit.effects(0.9)
        assert [row.name for row in rows] == ["age", "hours", "g: b (rather than a)", "g: c (rather than a)"]
        for row, true in zip(rows[:2], (0.03, -0.02), strict=True):
            assert row.mean == pytest.approx(true * slope.mean(), rel=0.2)
            assert row.low is not None
            assert row.high is not None
            assert row.low < row.mean < row.high
    linear = fitted("gaussian")[0]
    assert np.allclose([row.mean for row in linear.effects()], linear.mean()[1:])


def test_effects_that_are_not_one_number_are_left_out() -> None:
    fit = fitted("gaussian", "y ~ age * hours + C(g)")[0]
    assert [row.name for row in fit.effects()] == ["g: b (rather than a)", "g: c (rather than a)"]
    with pytest.raises(InvalidInputError, match="numbers or two values"):
        fitted("multinomial", "y ~ age + hours")[0].effects()


def test_draws_go_to_arviz_with_their_names(binomial: Fit) -> None:
    pytest.importorskip("arviz")
    shown = binomial.to_arviz(500).posterior
    assert list(shown["coefficients"].coords["coefficient"].values) == list(binomial.names)
    drawn = shown["coefficients"].values[0]
    assert drawn.shape == (500, 5)
    assert (np.abs(drawn.mean(axis=0) - binomial.mean()) < 6 * binomial.std() / math.sqrt(100)).all()
    assert shown.attrs["guarantee"] == "none: not private"


def test_a_fit_is_drawn(binomial: Fit) -> None:
    pytest.importorskip("matplotlib")
    axes = binomial.plot(level=0.9)
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "age × 60",
        "hours × 60",
        *(row.name for row in binomial.shown_rows()[3:]),
    ]
    assert "90 % interval" in axes.get_xlabel()


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_a_summary_fits_a_terminal(family: str, binomial: Fit) -> None:
    fit = binomial if family == "binomial" else fitted("gaussian")[0]
    text = fit.summary()
    tables = [line for line in text.splitlines() if "  " in line]
    assert all(len(line) <= 96 for line in tables)
    assert all(any(line.startswith(row.name) for line in tables) for row in fit.shown_rows())
    assert "noise" in tables[0]
    assert ("odds ratio" in text) == (family == "binomial")
    found = fit.predict({"age": [30, 60], "hours": [40, 10], "g": ["a", "c"]})
    assert (found.low < found.mean).all()
    assert (found.mean < found.high).all()


def test_columns_of_very_different_units_are_drawn_over_their_ranges() -> None:
    fit, _ = fitted("gaussian")
    rows = {row.name: row for row in fit.shown_rows()}
    drawn = fit.figure().rows
    assert [row.name for row in drawn] == [
        "age × 60",
        "hours × 60",
        "g: b (rather than a)",
        "g: c (rather than a)",
    ]
    for row, times in zip(drawn, (60, 60, 1, 1), strict=True):
        plain = rows[row.name.removesuffix(" × 60")]
        assert (row.mean, row.sd) == pytest.approx((times * plain.mean, times * (plain.sd or 0)))
        assert (row.low, row.high) == pytest.approx((times * (plain.low or 0), times * (plain.high or 0)))
    alike, _ = fitted("gaussian", "y ~ age + hours")
    assert alike.figure().rows == tuple(alike.rows()[1:])
