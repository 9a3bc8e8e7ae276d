"""Survival curves from noisy counts: against Kaplan and Meier without noise, and through the question."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import discreet
from discreet._inference.quantiles import Bins
from discreet._inference.survival import SurvivalDraws, SurvivalPosterior
from discreet._numerics import noises

SCHEMA = discreet.Schema(
    {
        "days": (0, 1000),
        "status": ["alive", "dead"],
        "arm": ["a", "b"],
    },
    n=2000,
)


def people(hazard_ratio: float = 1.0, n: int = 2000) -> dict[str, Any]:
    rng = np.random.default_rng(35)
    arm = np.arange(n) % 2
    time = rng.exponential(400 / np.where(arm, hazard_ratio, 1.0))
    end = rng.uniform(200, 1200, n)
    return {
        "days": np.minimum(np.minimum(time, end), 1000.0),
        "status": np.where((time <= end) & (time < 1000), "dead", "alive"),
        "arm": np.array(["a", "b"])[arm],
    }


def kaplan_meier(time: np.ndarray, dead: np.ndarray, at: np.ndarray) -> np.ndarray:
    events = np.sort(time[dead])
    risk = len(time) - np.searchsorted(np.sort(time), events)
    return np.append(1.0, np.cumprod(1 - 1 / risk))[np.searchsorted(events, at, side="right")]


def test_single_whole_numbers_have_the_curve_of_kaplan_and_meier() -> None:
    events, censored = np.array([[[0.1, 0.2, 0.1, 0.05]]]), np.array([[[0.05, 0.1, 0.2, 0.2]]])
    drawn = SurvivalDraws(Bins((0, 1, 2, 3, 4), (), True), events, censored)
    expected = np.cumprod([1 - 0.1 / 1.0, 1 - 0.2 / 0.85, 1 - 0.1 / 0.55])
    assert drawn.curves[0, 0] == pytest.approx(expected)
    assert drawn.times.tolist() == [0, 1, 2]
    assert drawn.restricted_mean()[0, 0] == pytest.approx(expected.sum())


def test_wide_bins_share_the_risk_between_events_and_censoring() -> None:
    """Exponential times of rates 1 and 2: the curve is e^{−t} at every edge."""
    edges = np.array([0, 0.3, 0.9, 2.0, 9.0])
    both = -np.diff(np.exp(-3 * edges))
    drawn = SurvivalDraws(Bins(tuple(edges)), both[None, None] / 3, 2 * both[None, None] / 3)
    assert drawn.curves[0, 0] == pytest.approx(np.exp(-edges[1:-1]), rel=1e-6)
    assert drawn.quantile(0.5)[0, 0] == pytest.approx(np.log(2), abs=0.05)
    assert np.isinf(drawn.quantile(0.9)[0, 0])


def test_nearly_no_noise_gives_the_curve_without_noise() -> None:
    data = people()
    bins = Bins(tuple(np.linspace(0, 1000, 21)))
    dead = data["status"] == "dead"
    counts = np.zeros((1, 20, 2))
    np.add.at(counts, (0, bins.places(data["days"]), dead.astype(int)), 1)
    drawn = SurvivalPosterior(bins, counts, noises.DiscreteLaplace(0.05), n=2000).usual
    expected = kaplan_meier(data["days"], dead, drawn.times)
    assert np.abs(drawn.curves.mean(axis=0)[0] - expected).max() < 0.01
    low, high = drawn.band(0.9)
    held = ((low <= drawn.curves) & (drawn.curves <= high)).all(axis=-1).mean()
    assert held == pytest.approx(0.9, abs=0.01)


def test_the_answer_is_near_the_truth_and_reads_back() -> None:
    answer = discreet.survival(people(2.0), "days", "status", by="arm", schema=SCHEMA, epsilon=2)
    times = np.array([float(name.split("beyond ")[1]) for name in answer.names]).reshape(2, -1)
    truth = np.exp(-times / np.array([[400], [200]])).ravel()
    assert np.sqrt(np.mean((answer.mean() - truth) ** 2)) < 0.08
    assert answer.log_rank().p_value < 0.01
    assert [row.name for row in answer.restricted_mean()] == ["a", "b", "b − a"]
    assert all(a.low <= b.low and b.high <= a.high for a, b in zip(answer.band(), answer.rows(), strict=True))
    first = answer.median()[0]
    assert first.low <= first.mean <= first.high
    again = discreet.answers.survival.SurvivalAnswer.from_json(answer.to_json())
    assert again == answer
    assert np.array_equal(again.draws(10, 1), answer.draws(10, 1))
    assert "Survival" in answer.words().name


def test_one_table_is_paid_for() -> None:
    question = discreet.Survival("days", "status", by="arm", epsilon=1)
    assert question.request(SCHEMA).price().epsilon == 1
    hidden = discreet.Schema(SCHEMA.columns)
    assert question.request(hidden).price().relation.value == "add-remove"


@pytest.mark.parametrize(
    ("time", "event", "bins", "words"),
    [
        ("days", "arm3", None, "two values"),
        ("negative", "status", None, "from 0 on"),
        ("days", "status", 1, "number of bins"),
        ("days", "status", (0.0, 5.0), "three edges"),
    ],
)
def test_questions_that_have_no_curve_are_refused(time: str, event: str, bins: Any, words: str) -> None:
    columns = {**SCHEMA.columns, "arm3": ["a", "b", "c"], "negative": (-1, 5)}
    with pytest.raises(discreet.errors.InvalidInputError, match=words):
        discreet.Survival(time, event, bins=bins, epsilon=1).request(discreet.Schema(columns, n=2000))


def test_a_median_that_is_not_reached_is_reported() -> None:
    from discreet._reporting.report import report

    lasting = {"days": [900.0] * 2000, "status": ["alive"] * 2000}
    answer = discreet.survival(lasting, "days", "status", schema=SCHEMA, bins=8, epsilon=5)
    assert math.isinf(answer.median()[0].high)
    assert "∞" in report(answer)


def test_a_single_group_is_not_compared() -> None:
    answer = discreet.survival(people(), "days", "status", schema=SCHEMA, bins=8, epsilon=1)
    with pytest.raises(discreet.errors.InvalidInputError, match="by=COLUMN"):
        answer.log_rank()
    with pytest.raises(discreet.errors.InvalidInputError, match="must be one of"):
        answer.difference(3.0)


def test_log_rank_is_the_usual_one_without_noise_and_smaller_with_it() -> None:
    data = people(1.25)
    time, dead, group = data["days"], data["status"] == "dead", (data["arm"] == "b").astype(int)
    excess = variance = 0.0
    for t in time[dead]:
        risk, other = (time >= t).sum(), (group[time >= t]).sum()
        excess += group[(time == t) & dead][0] - other / risk
        variance += other * (risk - other) / risk**2
    bins = Bins(tuple(np.linspace(0, 1000, 21)))
    counts = np.zeros((2, 20, 2))
    np.add.at(counts, (group, bins.places(time), dead.astype(int)), 1)
    statistic, freedom, p_value = SurvivalPosterior(
        bins, counts, noises.DiscreteLaplace(0.05), n=2000
    ).log_rank()
    assert statistic == pytest.approx(excess**2 / variance, rel=0.1)
    assert freedom == 1
    assert 0 < p_value < 0.01
    noisy = SurvivalPosterior(bins, counts, noises.LatticeNoise(20.0), n=2000).log_rank()
    assert noisy[0] < 0.5 * statistic
