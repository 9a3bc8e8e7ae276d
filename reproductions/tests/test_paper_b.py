"""The tables, bounds and Figures 1–5 and 11 of B: printed digits, orderings, and verdicts that can say no."""

from __future__ import annotations

import math
from ast import literal_eval
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import chdtri

import discreet
from discreet._numerics.count_vectors import compositions
from discreet.mechanisms.hellinger.sensitivity import (
    global_sensitivity,
    local_sensitivity,
    smooth_sensitivity,
)
from discreet_reproductions.paper_b import (
    accuracy,
    bounds,
    distributions,
    privacy,
    quoted,
    readings,
    sensitivity,
    tables,
)
from discreet_reproductions.report import Row, Statement
from discreet_reproductions.running import Run


def agrees(statements: Sequence[Statement]) -> dict[str, str]:
    return {s.name: s.agrees for s in statements}


# Distributions.


@pytest.mark.parametrize(
    ("name", "options", "prior", "counts"),
    [
        ("lsdim", {}, (7.0, 4.0), (12, 8)),
        ("lshist", {"scale": 1.0}, (7.0, 4.0), (12, 8)),
        ("lshist", {}, (1.0, 2.0, 3.0), (5, 0, 4)),
        ("lszhang", {"every": True}, (1.0, 2.0, 3.0), (5, 0, 4)),
    ],
)
def test_laplace_readings_are_the_library_mechanisms(name, options, prior, counts) -> None:
    distribution = distributions.floored_laplace(counts, prior, 0.8, **options)
    outputs, log_probability = discreet.mechanism(name, prior=prior, n=sum(counts), epsilon="4/5").log_pmf(
        counts
    )
    assert (distribution.outputs == outputs).all()
    assert distribution.probability == pytest.approx(np.exp(log_probability), rel=1e-9)
    expected = discreet.hellinger(outputs + np.array(prior), np.array(counts) + np.array(prior))
    assert distribution.distance == pytest.approx(expected, abs=1e-9)


def test_exponential_reading_is_the_library_mechanism() -> None:
    counts, prior = (5, 1, 4), (1.0, 2.0, 3.0)
    distribution = distributions.exponential(counts, prior, 0.8 / (2 * local_sensitivity(counts, prior)))
    outputs, log_probability = discreet.mechanism("ehdl", prior=prior, n=10, epsilon="4/5").log_pmf(counts)
    assert (distribution.outputs == outputs).all()
    assert distribution.probability == pytest.approx(np.exp(log_probability), rel=1e-9)


def test_boxes_of_a_distribution_and_of_draws() -> None:
    values, probability = np.array([3.0, 1.0, 2.0]), np.array([0.2, 0.3, 0.5])
    exact = {"mean": 1.9, "low": 1.0, "q1": 1.0, "median": 2.0, "q3": 2.0, "high": 3.0}
    assert distributions.box(values, probability) == pytest.approx(exact)
    assert distributions.drawn_box(np.repeat(values, [2, 3, 5])) == pytest.approx(exact)


def test_draws_follow_the_distribution() -> None:
    """Chi-square at a false-alarm rate of 1e-6."""
    distribution = distributions.exponential((3, 3), (1.0, 1.0), 2.0)
    drawn = np.bincount(distribution.draw(5_000, np.random.default_rng(1)), minlength=7)
    assert (
        (drawn - 5_000 * distribution.probability) ** 2 / (5_000 * distribution.probability)
    ).sum() < chdtri(6, 1e-6)


def test_smoothing_is_that_of_the_library() -> None:
    m = discreet.mechanism("mbeta", prior=(1, 1), n=20, epsilon="4/5", delta="1/2000")
    assert distributions.smoothing(0.8, 0.0005, 20) == pytest.approx(m.beta, rel=1e-12)
    assert distributions.uniform_counts(8, 3) == (2, 3, 3)


# Tables.


@pytest.fixture(scope="module")
def table_rows() -> list[Row]:
    return tables.measure(tables.Settings())


@pytest.mark.parametrize("line", tables.PRINTED, ids=lambda line: f"{line.table}-{line.distance}")
def test_tables_to_the_last_printed_digit(table_rows: list[Row], line: tables.Printed) -> None:
    rows = [row for row in table_rows if row["table"] == line.table]
    row = min(rows, key=lambda row: abs(row["distance"] - float(line.distance)))
    assert tables.digits_apart(line.distance, row["distance"]) <= 0.5
    assert tables.digits_apart(line.exponential, row["exponential"]) <= 0.5
    assert tables.digits_apart(line.laplace, row["laplace"]) <= 0.5
    assert line.steps in (None, row["steps"])


def test_table_columns(table_rows: list[Row]) -> None:
    for table, candidates, laplace in ((1, 9, -math.expm1(-2)), (2, 1891, 0.99926)):
        rows = [row for row in table_rows if row["table"] == table]
        assert sum(row["candidates"] for row in rows) == candidates
        assert sum(row["exponential"] for row in rows) == pytest.approx(1, abs=1e-12)
        assert sum(row["laplace"] for row in rows) == pytest.approx(laplace, abs=1e-5)


LOSS = {"table": 1, "n": 8, "k": 2, "loss": 0.7}


def test_table_verdicts_can_say_no(table_rows: list[Row]) -> None:
    losses = [LOSS]
    found = agrees(tables.statements(tables.Settings(), table_rows, losses))
    for name in ("table 1, exponential", "table 1, laplace", "table 2, exponential", "table 2, laplace"):
        assert found[name] == "yes"
    assert found["same steps"] == found["laplace column"] == "no"
    assert found["private"] == "yes"
    altered = [{**row, "exponential": row["exponential"] * (1 + 1e-9)} for row in table_rows]
    changed = agrees(tables.statements(tables.Settings(), altered, [losses[0] | {"loss": 0.9}]))
    assert changed["table 1, exponential"] == changed["table 2, exponential"] == "no"
    assert changed["table 1, laplace"] == "yes"
    assert changed["private"] == "no"
    alone = [row for row in table_rows if row["table"] == 1 or row["steps"] in (0, 1)]
    assert agrees(tables.statements(tables.Settings(), alone, losses))["same steps"] == "yes"


def test_who_is_better_in_the_tables(table_rows: list[Row]) -> None:
    """Expected errors by plain sums; at the defined rate, and with noise on all counts, it can turn."""
    found = {s.name: s for s in tables.statements(tables.Settings(), table_rows, [{**LOSS}])}
    first, second = found["comparison 1"].values, found["comparison 2"].values
    shown = sum(row["distance"] * row["exponential"] for row in table_rows if row["table"] == 1)
    assert first["at_table_rate"] == pytest.approx(shown, rel=1e-9)
    assert [s["at_defined_rate"] > s["at_table_rate"] for s in (first, second)] == [True, True]
    for name in ("comparison 1", "comparison 2"):
        assert found[name].agrees == "partly"
        assert "3 of the 4 readings" in found[name].why


def test_the_mechanism_of_the_tables_is_not_private() -> None:
    """Its rate ε/LS is that of ehdl, ε/(2LS), at twice the ε."""
    settings = tables.Settings(priors=((1.0, 1.0), (1.0, 1.0, 1.0)), counts=((4, 4), (2, 2, 2)))
    found = [row["loss"] for row in tables.losses(settings)]
    assert found[0] == pytest.approx(0.9966, abs=5e-5)
    for loss, prior, n in zip(found, settings.priors, (8, 6), strict=True):
        ehdl = discreet.mechanism("ehdl", prior=prior, n=n, epsilon="8/5")
        assert loss == pytest.approx(discreet.audit(ehdl).epsilon, rel=1e-6)


def test_units_of_the_last_digit() -> None:
    assert tables.digits_apart("0.25", 0.26) == pytest.approx(1)
    assert tables.digits_apart("3.05e-09", 3.06e-9) == pytest.approx(1)


# Bounds.


@pytest.mark.parametrize(
    ("prior", "n"), [((1.0, 1.0), 40), ((0.2, 3.0), 25), ((1.0, 1.0, 1.0), 12), ((7.0, 4.0, 0.5), 9)]
)
@pytest.mark.parametrize("epsilon", [0.1, 0.8, 3.0])
def test_least_normaliser_is_below_every_normaliser(prior: tuple[float, ...], n: int, epsilon: float) -> None:
    beta = distributions.smoothing(epsilon, 0.0005, n)
    least = bounds.normalisers(prior, n, [epsilon], beta).min()
    assert 1 <= bounds.least_normaliser(n, len(prior), epsilon, beta) <= least


def test_normalisers_by_plain_sums() -> None:
    prior, n, beta = (1.0, 2.0), 5, 0.1
    rows = compositions(n, 2)
    expected = [
        sum(math.exp(-0.7 * discreet.hellinger(x + np.array(prior), y + np.array(prior)) / s) for y in rows)
        for x in rows
        for s in [smooth_sensitivity(x.tolist(), prior, beta=beta)]
    ]
    assert bounds.normalisers(prior, n, [0.7], beta)[:, 0] == pytest.approx(expected, rel=1e-9)


def test_bounds_hold_and_their_verdicts_can_say_no() -> None:
    settings = bounds.Settings(cases=bounds.Settings().cases[:3], points=20)
    tails, sizes = bounds.measure(settings)
    found = bounds.statements(tails, sizes)
    assert agrees(found) == {"first": "partly", "second": "partly", "third": "yes", "global": "yes"}
    assert found[3].values["useful"] == 0
    altered = [
        {**row, "first": row["first"] + 0.1, "second": row["second"] / 100, "third": row["third"] / 1e6}
        for row in tails
    ]
    assert set(agrees(bounds.statements(altered, sizes)).values()) == {"no"}


def test_bounds_are_those_of_the_notes() -> None:
    """B 3.2 and 3.3 by plain sums, at both rates."""
    prior, counts, epsilon, c = (7.0, 4.0), (3, 9), 0.8, 0.25
    settings = bounds.Settings(cases=((prior, counts),), points=4)
    tails, _ = bounds.measure(settings)
    smooth = smooth_sensitivity(counts, prior, beta=distributions.smoothing(epsilon, 0.0005, 12))
    outputs = compositions(12, 2) + np.array(prior)
    distance = np.asarray(discreet.hellinger(outputs, np.array(counts) + np.array(prior)))
    for label, rate in (("ε/(2S)", epsilon / (2 * smooth)), ("ε/S", epsilon / smooth)):
        (row,) = [r for r in tails if (r["rate"], r["c"], r["mechanism"]) == (label, c, "smooth")]
        weight = np.exp(-rate * distance)
        assert row["exact"] == pytest.approx(weight[distance >= c].sum() / weight.sum(), rel=1e-9)
        assert row["second"] == pytest.approx(13 * math.exp(-rate * c) / weight.sum(), rel=1e-9)
    (row,) = [r for r in tails if r["mechanism"] == "global" and r["c"] == c]
    rate = epsilon / (2 * global_sensitivity(12, prior))
    weight = np.exp(-rate * distance)
    assert row["exact"] == pytest.approx(weight[distance >= c].sum() / weight.sum(), rel=1e-9)
    assert row["third"] == pytest.approx(13 * math.exp(-rate * c), rel=1e-9)


# Figures 1 and 2.


def test_figure1_claims() -> None:
    settings = sensitivity.Grid(largest=12)
    rows = sensitivity.measure1(settings)
    assert len(rows) == 143
    found = agrees(sensitivity.statements1(settings, rows))
    assert found == {
        "local, larger": "yes",
        "local, closer": "yes",
        "smooth, larger": "partly",
        "smooth, closer": "yes",
        "smooth, larger prior": "yes",
        "accuracy": "no",
    }
    upside_down = [{**row, "local": -row["local"]} for row in rows]
    changed = agrees(sensitivity.statements1(settings, upside_down))
    assert changed["local, larger"] == "no"
    assert changed["local, closer"] == "partly"  # the ties at the edge stay


def test_figure2_claims() -> None:
    rows, _ = sensitivity.measure2(sensitivity.Profiles(sizes=(((0.5, 2.0), (7,)), ((1.0, 1.0, 3.0), (4,)))))
    assert len(rows) == 8 + 15
    for row in rows:
        prior, counts = literal_eval(row["prior"]), literal_eval(row["counts"])
        assert row["at_itself"] == pytest.approx(local_sensitivity(counts, prior), abs=1e-12)
    assert agrees(sensitivity.statements2(rows)) == {
        "attained at BI(x)": "yes",
        "a distance to a neighbour": "yes",
        "only there": "partly",
    }
    altered = [{**row, "elsewhere": 2 * row["at_itself"], "local": 0.0} for row in rows]
    changed = agrees(sensitivity.statements2(altered))
    assert changed["attained at BI(x)"] == changed["a distance to a neighbour"] == "no"


# Figures 3, 4 and 5.


@pytest.fixture(scope="module")
def figure3_rows() -> list[Row]:
    return readings.measure(readings.FIGURE3.quick())


def test_figure3_orderings(figure3_rows: list[Row]) -> None:
    """At ε/S it is 3–4 % ahead of Laplace noise of scale 1/ε; at ε/(2S) behind every Laplace noise."""
    comparison = accuracy.compare(figure3_rows)
    found = agrees(accuracy.shared_claims(comparison, ""))
    assert found == {"smooth and local": "partly", "smooth and global": "yes", "smooth and Laplace": "partly"}
    noise = [row for row in comparison if row["against"] == "laplace" and row["data"] == "even"]
    slightly = {key for key, found in accuracy.orderings(noise).items() if found.slightly_better}
    assert slightly == {("ε/S", "1/ε on m − 1")}
    assert all(row["ratio"] > 1.1 for row in noise if row["rate"] == "ε/(2S)")
    medians = accuracy.orderings(noise)["ε/(2S)", "2/ε on m − 1"].medians
    assert medians == pytest.approx([1] * len(medians), abs=1e-3)


def test_figure3_numbers(figure3_rows: list[Row]) -> None:
    row = next(r for r in figure3_rows if r["mechanism"] == "local" and r["reading"] == "ε/S")
    assert (row["n"], row["counts"]) == (500, "(250, 250)")
    assert row["mean"] == pytest.approx(0.06089, abs=5e-5)
    spread = 1e-3 * 5  # 1,000 draws of a standard deviation of 0.04: four standard errors
    assert row["drawn_mean"] == pytest.approx(row["mean"], abs=spread)


def test_figure3_verdicts_can_say_no(figure3_rows: list[Row]) -> None:
    altered = [{**row, "mean": 1.0 if row["mechanism"] == "smooth" else 0.5} for row in figure3_rows]
    changed = agrees(accuracy.shared_claims(accuracy.compare(altered), ""))
    assert set(changed.values()) == {"no"}


def test_the_seed_decides() -> None:
    settings = replace(readings.FIGURE3, sizes=(30,), deltas=(0.5,), repetitions=200, data=("even",))
    first, again = readings.measure(settings), readings.measure(settings)
    other = readings.measure(replace(settings, seed=1))
    assert first == again
    assert [row["mean"] for row in first] == [row["mean"] for row in other]
    assert [row["drawn_mean"] for row in first] != [row["drawn_mean"] for row in other]


def test_quoted_constants() -> None:
    rows = quoted.constants(readings.FIGURE4)
    assert [row["datasets_with_quoted_local"] for row in rows] == [165, 18]
    assert [row["datasets_with_both"] for row in rows] == [0, 0]
    assert rows[0]["record_from_prior"] == pytest.approx(0.239992747797, abs=5e-13)
    assert rows[0]["global"] == pytest.approx(global_sensitivity(100, (7, 4, 5)), rel=1e-12)
    assert agrees(quoted.constant_claims(rows)) == {
        "quoted global sensitivity": "no",
        "quoted smoothing": "partly",
        "quoted local sensitivity": "partly",
        "quoted smooth sensitivity": "no",
    }
    right = [{**row, "quoted_beta": f"{row['beta']:.12f}", "datasets_with_both": 1} for row in rows]
    changed = agrees(quoted.constant_claims(right))
    assert changed["quoted smoothing"] == changed["quoted smooth sensitivity"] == "yes"


def test_settings_are_those_of_the_captions() -> None:
    three, four, five = readings.FIGURE3, readings.FIGURE4, readings.FIGURE5
    assert (three.prior, three.sizes, three.epsilon) == ((7, 4), (500, 300), 0.5)
    assert (four.prior, four.sizes, four.epsilon, four.deltas) == ((7, 4, 5), (100, 120), 0.8, (0.8,))
    assert (five.prior, five.sizes, five.epsilon, five.deltas) == ((7, 4, 5), (150,), 0.8, (0.8,))
    assert five.measures == ("hellinger", "l1")
    assert {s.repetitions for s in (three, four, five)} == {10_000}
    eleven = privacy.Settings()
    assert (eleven.prior, eleven.epsilon, eleven.delta) == ((1, 1), 0.8, 0.0005)
    assert eleven.sizes == tuple(range(2, 181))
    assert {2, 90, 180} <= set(eleven.quick().sizes)
    quick = accuracy._settings(three, Run("b-figure3", quick=True, seed=7))
    full = accuracy._settings(three, Run("b-figure3", seed=8))
    assert (quick.seed, quick.repetitions, full.seed, full.repetitions) == (7, 1_000, 8, 10_000)


def test_quoted_constants_are_those_of_the_captions() -> None:
    assert {n: (q.whole, q.local, q.smooth, q.beta) for n, q in readings.QUOTED.items()} == {
        100: ("0.239992747797", "0.08", "0.09", "0.0699407108115"),
        120: ("0.239992747797", "0.0945", "0.096", "0.0677791100173"),
        150: ("0.239992747797", "0.0945", "0.096", "0.0677791100173"),
    }


def test_l1_is_the_sum_of_the_differences() -> None:
    distribution = distributions.exponential((1, 2, 0), (1.0, 1.0, 1.0), 1.0)
    expected = [
        sum(abs(a - b) for a, b in zip(row, (1, 2, 0), strict=True)) for row in distribution.outputs.tolist()
    ]
    assert distribution.l1.tolist() == expected


def test_local_sensitivities_at_once() -> None:
    rows, prior = compositions(7, 3), (0.5, 4.0, 1.0)
    expected = [local_sensitivity(row, prior) for row in rows.tolist()]
    assert readings.local_sensitivities(rows, prior) == pytest.approx(expected, rel=1e-12)


def test_figures_4_and_5_on_fewer_records() -> None:
    settings = replace(
        readings.FIGURE5,
        sizes=(40,),
        quoted={40: replace(readings.QUOTED[150], local="0.12")},
        data=("even",),
    )
    rows = readings.measure(replace(settings, repetitions=50))
    assert len(rows) == 2 * (3 * 2 * 2 + 3)
    comparison = accuracy.compare(rows)
    same = [{**row, "ratio": 0.5} for row in comparison]
    assert accuracy.same_by_both(same).agrees == "yes"
    apart = [{**row, "ratio": 0.3 if row["measure"] == "l1" else 0.5} for row in comparison]
    assert accuracy.same_by_both(apart).agrees == "partly", "the same order alone is not enough"
    other = [{**row, "ratio": 1.1 if row["measure"] == "l1" else 0.95} for row in comparison]
    assert accuracy.same_by_both(other).agrees == "no"
    flipped = [{**row, "ratio": 1 / row["ratio"]} if row["measure"] == "l1" else row for row in comparison]
    smaller = [row for row in flipped if abs(math.log(row["ratio"])) > 1e-6]
    assert accuracy.same_by_both(smaller).values["changed"] > 0
    assert accuracy.quoted_claims(comparison, "").values["held"][1] is True


# Figure 11.


def test_concrete_loss() -> None:
    settings = privacy.Settings(ranges=((6, 6), (90, 90)))
    rows = {(row["n"], row["rate"]): row for row in privacy.measure(settings)}
    assert rows[90, "ε/(2S)"]["worst"] == pytest.approx(0.425, abs=5e-4)
    assert rows[90, "ε/S"]["worst"] == pytest.approx(0.869, abs=5e-4)
    m = discreet.mechanism("mbeta", prior=(1, 1), n=6, epsilon="4/5", delta="1/2000")
    assert rows[6, "ε/(2S)"]["worst"] == pytest.approx(discreet.audit(m).epsilon, rel=1e-6)
    for row in rows.values():
        assert 0 < row["even_data"] <= row["worst"]
    found = agrees(privacy.statements(settings, list(rows.values())))
    assert found == {"n = 6 to 6": "partly", "n = 90 to 90": "partly", "(ε, δ)": "partly"}


def test_concrete_loss_by_plain_enumeration() -> None:
    """Where the smooth sensitivity is not the local one, and the even dataset has no mirror image."""
    settings = privacy.Settings(prior=(0.2, 0.7), ranges=((15, 15),), epsilon=6.0)
    found = {row["rate"]: row for row in privacy.measure(settings)}
    for rate, factor in distributions.RATES.items():
        log_distributions = []
        for x in range(16):
            smooth = smooth_sensitivity(
                (x, 15 - x), settings.prior, beta=distributions.smoothing(6.0, 0.0005, 15)
            )
            distribution = distributions.exponential((x, 15 - x), settings.prior, factor * 6.0 / smooth)
            log_distributions.append(np.log(distribution.probability))
        steps = np.abs(np.diff(log_distributions, axis=0)).max(axis=1)
        assert found[rate]["worst"] == pytest.approx(steps.max(), rel=1e-9)
        assert found[rate]["even_data"] == pytest.approx(max(steps[6], steps[7]), rel=1e-9)


def test_concrete_loss_verdicts_can_say_yes_and_no() -> None:
    settings = privacy.Settings(ranges=((6, 6),))
    rows = privacy.measure(settings)
    low = [{**row, "worst": 0.3, "even_data": 0.2, "delta": 0.0} for row in rows]
    high = [{**row, "worst": 0.9, "even_data": 0.9, "delta": 0.1} for row in rows]
    assert set(agrees(privacy.statements(settings, low)).values()) == {"yes"}
    assert set(agrees(privacy.statements(settings, high)).values()) == {"no"}


# Outcomes.


SLOW = (tables.tables, bounds.bounds, accuracy.figure3, accuracy.figure4, accuracy.figure5, privacy.figure11)


@pytest.mark.parametrize(
    "make",
    [
        sensitivity.figure1,
        sensitivity.figure2,
        *(pytest.param(make, marks=pytest.mark.slow) for make in SLOW),
    ],
)
def test_quick_runs_are_well_formed(make) -> None:
    pytest.importorskip("matplotlib")
    outcome = make(Run("b", quick=True))
    assert len(outcome.verdict) <= 200
    assert "\n" not in outcome.verdict
    for rows in outcome.tables.values():
        assert rows
        assert all(row.keys() == rows[0].keys() for row in rows)
    assert len({s.name for s in outcome.statements}) == len(outcome.statements)
    assert outcome.plots[""].axes
