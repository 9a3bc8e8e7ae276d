"""Verbs of tables: against draws of the exact posterior, and sums by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import shorthand
from discreet._inference.comparisons import JointDraws, independence
from discreet.errors import InvalidInputError


@pytest.fixture(scope="module")
def table():
    frame = pd.DataFrame(
        {"sex": ["f"] * 60 + ["m"] * 40, "smoker": (["no"] * 45 + ["yes"] * 15) + ["no"] * 20 + ["yes"] * 20}
    )
    return shorthand.table(
        frame, {"sex": ("f", "m"), "smoker": ("no", "yes")}, epsilon=2.0, prior=1.0, mechanism="lattice"
    )


def test_shares_are_those_of_the_draws(table):
    draws = table.posterior.sample(4000, 0).reshape(-1, 2, 2)
    shares = table.shares("smoker", given="sex")
    inner = draws / draws.sum(axis=2, keepdims=True)
    a, b = inner[:, 0, 1], inner[:, 1, 1]
    pair = ("f", "m")
    np.testing.assert_allclose(shares.difference("yes", pair).draws, a - b)
    np.testing.assert_allclose(shares.ratio("yes", pair).draws, a / b)
    np.testing.assert_allclose(shares.odds_ratio("yes", pair).draws, a * (1 - b) / (b * (1 - a)))
    assert shares.probability("yes", pair) == np.mean(a > b)
    low, high = shares.difference("yes", pair).interval(0.9)
    assert low < shares.difference("yes", pair).mean() < high
    np.testing.assert_allclose(table.shares("sex").draws[:, 0], draws.sum(axis=2))
    np.testing.assert_allclose(table.joint().margin("smoker", "sex"), draws.transpose(0, 2, 1))
    assert [row["smoker"] for row in shares.table()] == ["no", "yes", "no", "yes"]
    assert str(shares).split()[:4] == ["sex", "smoker", "estimate", "95"]
    assert len(repr(shares).splitlines()) == len(repr(shares.difference("yes", pair)).splitlines()) == 1
    assert table.difference("yes", pair, given="sex").mean() == pytest.approx(np.mean(a - b))
    assert table.ratio("yes", pair, given="sex").mean() == pytest.approx(np.mean(a / b))
    (no, yes) = table.differences("sex", 0.9).cells
    assert yes[0] == "yes"
    assert yes[1].startswith(f"{100 * np.mean(b - a):+.1f} (")
    assert no[1].split()[0] == f"{100 * np.mean(a - b):+.1f}".replace("-", "−")


def test_a_cross_table_in_percent(table):
    cells = table.posterior.mean().reshape(2, 2)
    shown = table.crosstab()
    assert shown.header[1:] == ("no", "yes")
    assert shown.cells[0] == ("f", *(f"{v:.1f} %" for v in 100 * cells[0] / cells[0].sum()))
    columns = table.crosstab(rows="smoker", percent="column")
    assert columns.cells[1] == ("yes", *(f"{v:.1f} %" for v in 100 * cells[:, 1] / cells.sum(axis=1)))
    assert table.tables()[0].caption.startswith("Shares of smoker within each sex")
    frame = table.to_frame()
    assert list(frame.columns[:2]) == ["sex", "smoker"]
    assert len(frame) == 4


def test_groups_have_the_same_verbs():
    frame = pd.DataFrame(
        {"g": ["x"] * 50 + ["y"] * 50, "o": ["a"] * 40 + ["b"] * 10 + ["a"] * 10 + ["b"] * 40}
    )
    answer = shorthand.groups(
        frame,
        outcome="o",
        by="g",
        levels=("a", "b"),
        groups=("x", "y", "z"),
        epsilon=5.0,
        prior=1.0,
        sizes=(50, 50, 0),
    )
    shares = answer.shares()
    assert shares.draws.shape == (4000, 3, 2)
    assert shares.probability("a", ("x", "y")) > 0.9
    assert abs(shares.mean()[2, 0] - 0.5) < 0.05
    assert list(answer.to_frame().columns[:2]) == ["g", "o"]
    assert answer.difference("a", ("x", "y")).mean() == pytest.approx(
        shares.difference("a", ("x", "y")).mean()
    )
    assert answer.ratio("a", ("x", "y")).mean() > 1
    assert [cells[0] for cells in answer.differences().cells] == ["a", "b"]
    assert "No records" in str(answer)


def test_the_bayes_factor_against_a_sum_over_all_tables():
    """P(z | M) summed over every 2 × 2 table of 9 records, with P(x | z) enumerated."""
    rng = np.random.default_rng(3)
    n, alpha = 9, np.array([1.0, 2.0, 0.5, 1.5])
    tables = np.array(
        [
            (a, b, c, n - a - b - c)
            for a in range(n + 1)
            for b in range(n + 1 - a)
            for c in range(n + 1 - a - b)
        ]
    )
    weight = rng.random(len(tables)) ** 4  # any likelihood of what was published

    def log_marginal(x, a):
        return gammaln(a.sum()) - gammaln(a.sum() + n) + (gammaln(a + x) - gammaln(a)).sum(axis=-1)

    log_choice = gammaln(n + 1) - gammaln(tables + 1).sum(axis=1)
    square, prior = tables.reshape(-1, 2, 2), alpha.reshape(2, 2)
    joint = log_choice + log_marginal(tables, alpha)
    apart = (
        log_choice
        + log_marginal(square.sum(axis=2), prior.sum(axis=1))
        + log_marginal(square.sum(axis=1), prior.sum(axis=0))
    )
    wanted = math.log(weight @ np.exp(joint)) - math.log(weight @ np.exp(apart))
    posterior = weight * np.exp(joint)
    drawn = tables[rng.choice(len(tables), 60_000, p=posterior / posterior.sum())]
    found = independence(drawn.astype(float), alpha, (2, 2))
    assert found.log_bayes_factor == pytest.approx(wanted, abs=6 * found.error)
    assert found.error < 0.02


def test_names_that_are_not_there(table):
    with pytest.raises(
        InvalidInputError, match="not a known column of this table; choose one of: sex, smoker"
    ):
        table.shares("age")
    with pytest.raises(InvalidInputError, match="not a known level of smoker"):
        table.shares("smoker", "sex").difference("maybe", ("f", "m"))
    with pytest.raises(InvalidInputError, match="two groups"):
        table.shares("smoker", "sex").ratio("yes", ("f",))
    with pytest.raises(InvalidInputError, match="given"):
        table.shares("smoker").ratio("yes", ("f", "m"))
    with pytest.raises(InvalidInputError, match="given='age' must be one of the two columns"):
        table.difference("yes", ("f", "m"), given="age")
    with pytest.raises(InvalidInputError, match="percent"):
        table.crosstab(percent="cell")
    with pytest.raises(InvalidInputError, match="once"):
        JointDraws(np.ones((1, 4)), {"a": (0, 1), "b": (0, 1)}).margin("a", "a")
    assert table.independence("sex", "smoker").error < 0.2


def test_arviz_knows_the_names(table):
    pytest.importorskip("arviz")
    share = table.to_arviz(50, seed=1).posterior["share"]
    assert share.dims == ("chain", "draw", "sex", "smoker")
    inner = share.sel(sex="m", smoker="no").values[0]
    np.testing.assert_array_equal(inner, table.posterior.sample(50, 1)[:, 2])
