"""Plans of widths: they say what fits then have, find what reaches a width, and open no data."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet import InvalidInput
from discreet.cli import main
from discreet.planning.intervals import IntervalPlan
from discreet.randomness.entropy import SeededEntropy
from discreet.regression.newton.fit import regression
from discreet.regression.rehearsal import made_up

LINEAR: dict[str, Any] = {
    "formula": "y ~ a + C(g)",
    "bounds": {"a": (0, 10), "y": (-50, 50)},
    "levels": {"g": ("u", "v", "w")},
    "delta": "1e-6",
}
COUNTS: dict[str, Any] = {**LINEAR, "family": "poisson", "bounds": {"a": (0, 10), "y": (0, 20)}}


@pytest.mark.parametrize(("asked", "typical"), [(LINEAR, 8.0), (COUNTS, 3.0)], ids=["gaussian", "poisson"])
def test_the_widths_are_those_of_fits_to_such_records(asked: dict[str, Any], typical: float) -> None:
    """Another seed, other records: within a third, which the noise of four fits does not reach."""
    plan = discreet.plan("regress", n=3000, epsilon=1, typical=typical, **asked)
    question = regression(**asked, epsilon=1)
    fits = []
    for seed in range(4):
        table = made_up(question.design, question.family, 3000, 100 + seed, typical)
        low, high = question.fit(table, source=SeededEntropy(100 + seed)).interval(0.95)
        fits.append((high - low) / 2)
    assert plan.names == question.units.names
    assert np.allclose(np.mean(fits, axis=0), plan.widths, rtol=1 / 3)
    assert all(0 <= share <= 1 for share in plan.shares)
    assert "of μ²" in str(plan)


def test_many_records_are_rehearsed_by_few_at_the_same_scale() -> None:
    """Beyond 20,000 records widths go on as a/n + b/(nμ)² says: here nearly 1/√n, and ½ at four times n."""
    few = discreet.plan("regress", n=20_000, epsilon=8, **LINEAR)
    many = discreet.plan("regress", n=80_000, epsilon=8, **LINEAR)
    assert np.allclose(many.widths, np.array(few.widths) / 2, rtol=0.1)


def test_numbers_that_crowd_tell_less() -> None:
    """Half the spread, twice the width of sampling, and more of the noise: at least 1.8 times."""
    even = discreet.plan("regress", n=3000, epsilon=8, typical=8, **LINEAR)
    crowded = discreet.plan("regress", n=3000, epsilon=8, typical=8, spread=0.145, **LINEAR)
    at = even.names.index("a")
    assert crowded.widths[at] > 1.8 * even.widths[at]


def test_a_wanted_width_is_reached_and_not_by_far() -> None:
    asked: dict[str, Any] = {"bounds": (0, 120), "typical": 20}
    by_n = discreet.plan("mean", epsilon="0.5", within=1, **asked)
    assert 0.9 < by_n.widths[0] <= 1
    assert discreet.plan("mean", n=by_n.n, epsilon="0.5", **asked).widths == by_n.widths
    by_epsilon = discreet.plan("mean", n=400, within=3, **asked)
    assert 2.5 < by_epsilon.widths[0] <= 3
    wanted = discreet.plan("regress", n=4000, within=0.5, of="a", typical=8, **LINEAR)
    assert wanted.widths[wanted.names.index("a")] <= 0.5
    assert wanted.within == 0.5
    with pytest.raises(InvalidInput, match="without privacy the interval of 'mean of value' is already"):
        discreet.plan("mean", n=400, within=1, **asked)


def test_a_mean_of_400_is_known_as_the_issue_asks() -> None:
    """n = 400, ε = 0.5, bounds 0–120, σ = 20: at most ± 3.2, ± 1.96 without privacy."""
    plan = discreet.plan("mean", n=400, epsilon="0.5", bounds=(0, 120), typical=20)
    assert plan.widths[0] <= 3.2
    assert plan.without()[0] == pytest.approx(1.96, rel=0.05)
    groups = discreet.plan("mean", n=400, epsilon=1, bounds=(0, 120), by="g", levels=("a", "b"), column="x")
    assert groups.names == ("a", "b")


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("regress", {"n": None}, "two of n, epsilon and within"),
        ("regress", {"within": 1}, "two of n, epsilon and within"),
        ("regress", {"correlation": 1}, "correlation=1"),
        ("regress", {"spread": 0.7}, "spread=0.7"),
        ("regress", {"typical": -1}, "standard deviation of the errors"),
        ("regress", {"formula": "y ~ z"}, "'z'"),
        ("regress", {"n": 2}, "less than the 4 coefficients"),
        ("regress", {"epsilon": None, "within": 1, "of": "b"}, "of='b' is none of"),
        ("regress", {"epsilon": None, "within": -1}, "within=-1"),
        ("regress", {"error": 0.1}, "within is"),
        ("regress", {"bound": 1}, "did you mean"),
        ("table", {}, "lacks|unknown"),
        ("proportion", {}, "belongs to plan"),
    ],
    ids=str,
)
def test_bad_plans(kind: str, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        discreet.plan(kind, **{**LINEAR, "n": 500, "epsilon": 1, **changes})


@pytest.mark.slow
def test_the_command_and_the_study_file_plan_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: str) -> str:
        with pytest.raises(SystemExit) as stopped:
            main(list(arguments))
        assert not stopped.value.code
        return capsys.readouterr().out

    options = ["--bounds", "0,120", "--n", "400", "--typical", "20"]
    assert "without privacy" in run("plan-mean", *options, "--epsilon", "0.5")
    found = json.loads(run("plan-mean", *options, "--within", "3", "--json"))
    assert 0 < float(found["rows"][0]["width"]) <= 3
    study = tmp_path / "s.toml"
    study.write_text(
        '[study]\ndata = "absent.csv"\nn = 2000\n[budget]\nepsilon = 3\ndelta = 1e-5\n'
        '[[question]]\nid = "line"\nkind = "regress"\nformula = "y ~ a"\nwithin = 0.5\n'
        "[question.bounds]\na = [0, 10]\ny = [-50, 50]\n",
        encoding="utf-8",
    )
    assert "in the unit of a" in run("split", str(study))


def test_a_plan_describes_itself() -> None:
    plan = discreet.plan("mean", n=100, epsilon=1, bounds=(0, 1))
    assert isinstance(plan, IntervalPlan)
    assert plan.to_dict()["rows"][0]["name"] == "mean of value"
    assert plan._repr_html_().count("<td") >= 4
    assert math.isclose(plan.epsilon, 1)
    assert all(len(line) <= 80 for line in str(plan).splitlines())
