"""Between the records and the noise: each record counts once, for no more than declared, by itself alone."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import discreet
from discreet.errors import ContributionError, InvalidInput
from discreet.regression.newton import design as designs
from discreet.regression.newton.fit import Regression, regression
from discreet.regression.newton.records import _SqlSums, read

# ---- no row is longer than the noise is made for -----------------------------------------------------------

PEOPLE = {"y": [0.0, 3.0, 10.0], "x": [0.0, 10.0, 2.5], "g": ["a", "b", "c"]}


def question(formula: str, norm: float | None, **more: Any) -> Regression:
    used = {name for name in "xg" if name in formula.partition("~")[2]}
    bounds = {name: (0, 10) for name in ("y", "x") if name == "y" or name in used}
    levels = {"g": ("a", "b", "c")} if "g" in used else {}
    return regression(formula, bounds=bounds, levels=levels, norm=norm, epsilon=1, delta="1e-6", **more)


def sums_of(asked: Regression, data: Any, pushdown: bool = False) -> Any:
    with read(asked.design, data, pushdown=pushdown) as records:
        link = asked.model.link(asked.design, asked.model.start(asked.design))
        return records.n, records.sums(asked.model, link, True), link


@pytest.mark.parametrize("norm", [0.01, 0.3, None])
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x", "y ~ x + 0", "y ~ g", "y ~ x * g"])
def test_one_record_moves_the_sums_by_no_more_than_the_noise_is_made_for(
    formula: str, norm: float | None
) -> None:
    """An intercept alone was not shortened: its squared distance was 2.9e7 times what is allowed."""
    asked = question(formula, norm)
    for row in range(3):
        one = pd.DataFrame({name: values[row : row + 1] for name, values in PEOPLE.items()})
        relation = duckdb.connect().from_df(one)
        found = [sums_of(asked, data, pushdown) for data, pushdown in
                 ((one, False), (relation, False), (relation, True))]  # fmt: skip
        assert found[0] == found[1] == found[2]
        _, sums, link = found[0]
        residuals, weights, squares = asked.model.extremes(link)
        rows = asked.design.norm**2
        assert sum(value**2 for value in sums.gradient) <= residuals.max() * rows
        triangle = np.zeros((asked.design.d,) * 2, dtype=object)
        triangle[np.triu_indices(asked.design.d)] = sums.curvature
        whole = triangle + triangle.T - np.diag(np.diag(triangle))
        assert (whole**2).sum() <= weights.max() * rows**2
        assert sums.square**2 <= squares.max()


@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
@pytest.mark.parametrize("pushdown", [None, False, True])
def test_a_row_that_is_too_long_stops_the_release(
    monkeypatch: pytest.MonkeyPatch, formula: str, pushdown: bool | None
) -> None:
    """Whatever makes it so: the length of every row is compared with the bound when it is summed."""
    asked = question(formula, 0.3)
    data: Any = pd.DataFrame(PEOPLE)
    if pushdown is not None:
        data = duckdb.connect().from_df(data)
    sums_of(asked, data, bool(pushdown))
    if pushdown:
        real = _SqlSums.query

        def unshortened(self: Any, *given: Any) -> str:
            return real(self, *given).replace(f"squares > {asked.design.norm**2}", "squares < 0")

        monkeypatch.setattr(_SqlSums, "query", unshortened)
    else:
        monkeypatch.setattr(designs, "shortened", lambda rows, norm: rows)
    with pytest.raises(ContributionError, match="nothing was released"):
        sums_of(asked, data, bool(pushdown))


# ---- counts are never guessed ------------------------------------------------------------------------------


def test_records_are_not_taken_for_counts_whatever_they_are() -> None:
    """A Series called count whose index happened to be levels: these five were released as 912 people."""
    values = [900, 5, 1, 2, 4]
    for index in (range(5), [1, 2, 4, 5, 900]):
        column = pd.Series(values, index=index, name="count")
        with pytest.raises(InvalidInput, match="give counts as a mapping"):
            discreet.release(column, levels=(1, 2, 4, 5, 900), epsilon=1)
        for data in (column.tolist(), column.rename("people"), column.to_frame()):
            assert discreet.release(data, levels=(1, 2, 4, 5, 900), epsilon=1).n == 5
    with pytest.raises(InvalidInput):  # its name alone decides
        discreet.release(pd.Series(["x"] * 9, name="count"), levels=("a", "b"), epsilon=1, strict=False)
