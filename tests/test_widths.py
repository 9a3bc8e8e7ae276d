"""Plans of widths: they say what fits then have, find what reaches a width, and open no data."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from discreet.planning.widths import IntervalPlan
from scipy import stats

import discreet
import shorthand
from discreet.answers.selected import SparseRelease
from discreet.cli import main
from discreet.errors import InvalidInput
from discreet.mechanisms.sparse import Sparse
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
        ("regress", {"error": 0.1}, "'error' is unknown"),
        ("regress", {"bound": 1}, "did you mean"),
        ("table", {}, "lacks|unknown"),
        ("proportion", {}, "'formula' is unknown"),
        (None, {}, "kind None is unknown"),
        ("regress", {"left_out": 1}, "left_out=1"),
        ("regress", {"left_out": 0.2}, "left_out=0.2 is about records without a value"),
        ("regress", {"of": "b"}, "of='b' is none of what is planned"),
    ],
    ids=str,
)
def test_bad_plans(kind: Any, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        discreet.plan(kind, **{**LINEAR, "n": 500, "epsilon": 1, **changes})


SPARSE: dict[str, Any] = {"levels": range(10**6), "relation": "add-remove", "expected_false": "0.1"}


@pytest.mark.parametrize("each", [pytest.param(2000, marks=pytest.mark.slow), 23, 9])
def test_a_plan_of_levels_that_stand_out_is_what_releases_give(each: int) -> None:
    """Forty levels of ``each`` records, in eight releases with noise of their own."""
    plan = discreet.plan("proportion", n=40 * each, epsilon="0.8", typical=1 / 40, level=0.9, **SPARSE)
    made = Sparse(Fraction(4, 5), 10**6, Fraction(1, 10))
    halves, ends, published = [], [], 0
    for seed in range(100, 108):
        found, rest = made.run(dict.fromkeys(range(40), each), SeededEntropy(seed))
        parts = made.k, made.epsilon, made.guarantee, made.expected_false
        rows = SparseRelease(tuple(found), tuple(found.values()), rest, *parts).rows(0.9)
        ends.append([(row.high or 0) - (row.low or 0) for row in rows[-2:]])
        own = [(row.high or 0) - (row.low or 0) for row in rows[:-2] if int(row.name) < 40]
        published += len(own)
        halves += [*own, *[made.surely(0.9)] * (40 - len(own))]
    assert plan.names == (f"a level of {each:,} records", "everything else", "all records")
    assert plan.widths[0] == pytest.approx(np.mean(halves) / 2, rel=0.12)
    assert plan.widths[1:] == pytest.approx(np.mean(ends, axis=0) / 2, rel=0.5)
    chance = made.standing_out(each)
    assert abs(published - 320 * chance) <= 6 * math.sqrt(320 * chance * (1 - chance)) + 1e-9
    assert f"at least: {made.threshold}." in str(plan)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"left_out": 0.3}, "left_out=0.3 is about records without a value: say missing='exclude'"),
        ({"correlation": 0.3}, "correlation and spread are guesses about the columns of a regression"),
        ({"spread": 0.1}, "correlation and spread"),
        ({"typical": 30}, "typical=30 must be between 0 and 1"),
        ({"level": 95}, "=95 must be between 0 and 1"),
        ({"of": "yes"}, "of='yes' is none of what is planned: 'a share of 50 %'"),
        ({"epsilon": None, "within": "0.1 points"}, "within='0.1 points' cannot be .* already ± 3.57 points"),
    ],
    ids=str,
)
def test_a_guess_about_shares_that_does_not_matter_is_refused(changes: dict[str, Any], words: str) -> None:
    """It would have been ignored, and the user have thought otherwise."""
    asked = {"levels": ("no", "yes"), "n": 750, "epsilon": 1}
    with pytest.raises(InvalidInput, match=words):
        discreet.plan("proportion", **{**asked, **changes})
    codes = {"levels": range(10**4), "relation": "add-remove", "expected_false": 1, "n": 750, "epsilon": 1}
    if not set(changes) & {"epsilon", "of"}:
        with pytest.raises(InvalidInput, match=words):
            discreet.plan("proportion", **{**codes, **changes})


def test_a_plan_of_levels_that_stand_out_tells_whom_it_leaves_out() -> None:
    asked = {**SPARSE, "missing": "exclude", "n": 1000, "epsilon": 1, "typical": 0.1}
    plan = discreet.plan("proportion", left_out=0.125, **asked)
    assert plan.names[0] == "a level of 88 records"
    assert "10 % of all with a value" in str(plan)
    assert "without a value: 12.5%" in str(plan)


def test_the_command_plans_intervals_of_any_probability(capsys: pytest.CaptureFixture[str]) -> None:
    """--level declares a level, so that the probability is --interval, as of discreet show."""
    options = ["--levels", "no", "--level", "yes, often", "--n", "750", "--epsilon", "1", "--json"]
    for given, level in (([], 0.95), (["--interval", "0.5"], 0.5)):
        with pytest.raises(SystemExit) as stopped:
            main(["plan-release", *options, *given])
        assert not stopped.value.code
        found = json.loads(capsys.readouterr().out)
        plan = discreet.plan("proportion", levels=("no", "yes, often"), n=750, epsilon=1, level=level)
        assert (found["level"], found["rows"]) == (level, plan.to_dict()["rows"])


def test_with_which_probability_a_level_stands_out() -> None:
    """Against the sum of the law of the noise."""
    made = Sparse(Fraction(1, 2), 5000)
    rate, noise = float(made.level_epsilon), np.arange(-2000, 2001)
    law = np.exp(-rate * np.abs(noise)) * math.tanh(rate / 2)
    for records in (0, 1, made.threshold - 1, made.threshold, made.threshold + 1, 60):
        assert made.standing_out(records) == pytest.approx(law[records + noise >= made.threshold].sum())
    for probability in (0.05, 0.5, 0.95):
        least = made.surely(probability)
        assert made.standing_out(least) >= probability > made.standing_out(least - 1)


@pytest.mark.parametrize("left_out", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
def test_a_plan_among_those_who_answered_is_what_releases_give(left_out: float) -> None:
    """The share is of the respondents, and so is the width without privacy."""
    asked: dict[str, Any] = {"levels": ("no", "yes"), "missing": "exclude"}
    plan = discreet.plan("proportion", n=40, epsilon=3, left_out=left_out, level=0.9, **asked)
    half = round(40 * (1 - left_out) / 2)
    records = ["no"] * half + ["yes"] * half + [None] * (40 - 2 * half)
    widths = []
    for _ in range(3):
        row = shorthand.shares(records, epsilon=3, **asked).rows(0.9)[0]
        widths.append(((row.high or 0) - (row.low or 0)) / 2)
    assert plan.widths[0] == pytest.approx(np.mean(widths), rel=0.15)
    ends = stats.beta(1 + half, 1 + half).interval(0.9)
    assert plan.without()[0] == pytest.approx((ends[1] - ends[0]) / 2, rel=1e-3)
    assert f"without a value: {left_out:.0%}" in str(plan)
    hidden = discreet.plan("proportion", n=40, epsilon=3, left_out=left_out, relation="add-remove", **asked)
    assert hidden.without()[0] == pytest.approx(-stats.beta(1 + half, 1 + half).ppf(0.025) + 0.5, rel=1e-3)


def test_means_and_regressions_have_fewer_records_where_some_are_left_out() -> None:
    asked: dict[str, Any] = {"bounds": (0, 120), "typical": 20, "missing": "exclude", "epsilon": 4}
    whole, half = (discreet.plan("mean", n=4000, left_out=part, **asked) for part in (0, 0.5))
    assert half.without()[0] == pytest.approx(whole.without()[0] * math.sqrt(2), rel=0.05)
    assert "without a value: 50%" in str(half)


@pytest.mark.slow
def test_a_regression_that_leaves_records_out_is_planned() -> None:
    plan = discreet.plan("regress", n=3000, epsilon=4, left_out=0.5, missing={"a": "exclude"}, **LINEAR)
    same = discreet.plan("regress", n=1500, epsilon=4, left_out=0, missing={"a": "exclude"}, **LINEAR)
    assert plan.widths == same.widths


@pytest.mark.slow
def test_a_wanted_width_of_a_level_is_reached_by_epsilon() -> None:
    plan = discreet.plan("proportion", n=10**5, within=10, **SPARSE)
    assert 8 < plan.widths[0] <= 10
    with pytest.raises(InvalidInput, match="give n, to find epsilon"):
        discreet.plan("proportion", epsilon=1, within=10, **SPARSE)
    shares = discreet.plan("proportion", n=1200, within="4 points", levels=("a", "b"))
    assert 0.035 < shares.widths[0] <= 0.04
    assert str(shares).startswith("To expect ± 4: n = 1,200, ε = ")


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
    codes = ["--levels", "0..999999", "--relation", "add-remove", "--expected-false", "1", "--n", "9999"]
    assert "± records at 95 %" in run("plan-release", *codes, "--epsilon", "1")
    left = ["--levels", "no,yes", "--missing", "exclude", "--left-out", "0.3", "--n", "500"]
    assert json.loads(run("plan-release", *left, "--within", "8 points", "--json"))["unit"] == "points"
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
