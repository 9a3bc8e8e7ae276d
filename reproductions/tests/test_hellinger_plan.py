"""Plans: figures against definitions and simulations, searches against their promise, no look at the data."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaln, psi

import discreet
from conformance.oracle import datasets
from discreet._declarations import Relation
from discreet._inference.made_up_counts import imagined_counts
from discreet.errors import InvalidInputError, TooLargeError
from discreet.mechanisms import automatic
from discreet.mechanisms.base import simulated_output
from discreet_reproductions.hellinger import expected_error as expectations
from discreet_reproductions.hellinger import pictures
from discreet_reproductions.hellinger import plan as planning
from discreet_reproductions.hellinger.expected_error import PlanRow, kl_divergence, mechanism_class
from discreet_reproductions.hellinger.plan import Plan, gaussian_from, plan
from pace import now_or_slow
from test_decoding import prior_predictive

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")


def build(name: str, prior: tuple[float, ...], n: int, epsilon: str, **options: Any) -> discreet.Mechanism:
    return mechanism_class(name, options)(prior=prior, n=n, epsilon=Fraction(epsilon), **options)


# ---- exact figures -------------------------------------------------------------------------------------

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("lattice", {}),
    ("lshist", {}),
    ("lsdim", {}),
    ("lszhang", {}),
    ("ehds", {}),
    ("ehd", {}),
    ("ehd", {"calibration": "exact"}),
    ("ehdl-calibrated", {}),
    ("optimal", {}),
    ("ehdl", {}),
]


@pytest.mark.parametrize(
    ("prior", "n", "epsilon"), [((1.0, 1.0), 6, "0.8"), ((7.0, 0.4), 9, "0.2"), ((2.0, 0.5, 1.0), 4, "1.5")]
)
def test_exact_figures_are_the_definition(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    found = plan(prior=prior, n=n, epsilon=epsilon, mechanisms=KINDS, level=0.9)
    points = np.array(datasets(n, len(prior)))
    predictive = prior_predictive(points, prior)
    alpha = np.array(prior)
    for (name, options), row in zip(KINDS, found.rows, strict=True):
        m = build(name, prior, n, epsilon, **options)
        errors, weights, kl, l1 = [], [], 0.0, 0.0
        for x, w in zip(points, predictive, strict=True):
            outputs, log_probability = m.log_pmf(x)
            p = w * np.exp(log_probability)
            a, b = alpha + x, alpha + outputs
            errors += discreet.hellinger(a, b).tolist()
            weights += p.tolist()
            kl += p @ np.array([dirichlet_kl(a, released) for released in b])
            l1 += p @ np.abs(a / a.sum() - b / b.sum(axis=1, keepdims=True)).sum(axis=1)
        assert row.method == "exact"
        assert row.standard_error == 0
        assert row.expected == pytest.approx(np.dot(errors, weights), rel=1e-9)
        order = np.argsort(errors, kind="stable")
        cumulative = np.cumsum(np.array(weights)[order])
        for value, p in ((row.median, 0.5), (row.q95, 0.95)):
            at = int(np.searchsorted(cumulative, p - 1e-9))
            assert value == pytest.approx(np.array(errors)[order][at], abs=1e-7)
        assert row.kl == pytest.approx(kl, rel=1e-8)
        assert row.l1 == pytest.approx(l1, rel=1e-9)
        assert row.comparable == (name != "ehdl")


def dirichlet_kl(a: np.ndarray, b: np.ndarray) -> float:
    size = gammaln(a.sum()) - gammaln(b.sum()) - (gammaln(a) - gammaln(b)).sum()
    return float(size + ((a - b) * (psi(a) - psi(a.sum()))).sum())


@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0, 1e4, 1e8, 1e12])
def test_kl_divergence_keeps_its_digits(scale: float) -> None:
    from flint import arb, ctx

    ctx.prec = 400
    rng = np.random.default_rng(1)
    for _ in range(20):
        a = scale * np.exp(rng.normal(size=3))
        b = a + rng.choice([0.5, 3.0, 0.3 * scale]) * rng.uniform(0, 1, 3)
        x, y = [arb(float(v)) for v in a], [arb(float(v)) for v in b]
        total_x, total_y = sum(x, arb(0)), sum(y, arb(0))
        truth = total_x.lgamma() - total_y.lgamma()
        for u, v in zip(x, y, strict=True):
            truth += v.lgamma() - u.lgamma() + (u - v) * (u.digamma() - total_x.digamma())
        assert float(kl_divergence(a, b)) == pytest.approx(float(truth), rel=1e-6, abs=1e-13)
    assert float(kl_divergence(a, a)) == 0


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1e-6, 1)), min_size=1, max_size=60))
def test_weighted_quantiles(pairs: list[tuple[float, float]]) -> None:
    values, weights = (np.array(column) for column in zip(*pairs, strict=True))
    probabilities = (0.05, 0.5, 0.95)
    order = np.argsort(values, kind="stable")
    cumulative = np.cumsum(weights[order])
    found = expectations._weighted_quantiles(values[None], weights[None], probabilities)
    for p, value in zip(probabilities, found, strict=True):
        wanted = p * cumulative[-1]
        below = weights[values < value].sum()
        assert below <= wanted * (1 + 1e-9)
        assert weights[values <= value].sum() >= wanted * (1 - 1e-9)


# ---- against simulation --------------------------------------------------------------------------------

COUNTS = ("lattice", "lshist", "lsdim", "lszhang")
SETTINGS = [
    *((name, (1.0, 1.0), 20, "0.8") for name in (*COUNTS, "ehds", "ehd", "ehdl-calibrated", "optimal")),
    *((name, (7.0, 4.0), 30, "0.3") for name in (*COUNTS, "ehds", "ehd")),
    *((name, (0.5, 0.5), 12, "2") for name in (*COUNTS, "ehds", "ehd")),
    *((name, (1.0, 1.0, 1.0), 8, "1") for name in (*COUNTS, "ehds", "ehd")),
    *((name, (0.3, 2.0, 1.0), 6, "0.1") for name in COUNTS),
    *((name, (1.0,) * 4, 5, "2") for name in COUNTS),
]
SLOW = [
    *((name, (1.0, 1.0), 400, "0.1") for name in (*COUNTS, "ehds")),
    *((name, (1.0, 1.0), 3000, "0.5") for name in ("lshist", "lszhang", "ehds")),
    *((name, (2.0, 1.0, 1.0), 40, "0.5") for name in (*COUNTS, "ehd")),
    *((name, (1.0, 1.0, 1.0), 2000, "1") for name in ("lshist", "lsdim", "lszhang")),
    *((name, (0.5,) * 5, 30, "1") for name in ("lshist", "lsdim", "lszhang", "ehd")),
]


def check_against_simulation(
    name: str, prior: tuple[float, ...], n: int, epsilon: str, numbers: tuple[int, int]
) -> None:
    """10⁵ draws made without the planner: datasets by NumPy, outputs by ``simulate``."""
    (row,) = plan(prior=prior, n=n, epsilon=epsilon, mechanisms=[name], seed=11).rows
    m = build(name, prior, n, epsilon)
    number, each = numbers
    rng = np.random.default_rng(20_261)
    alpha = np.array(prior)
    means = []
    for x in rng.multinomial(n, rng.dirichlet(prior, number)):
        drawn = m.simulate(x, size=each, seed=int(rng.integers(2**31)))
        means.append(discreet.hellinger(alpha + drawn, alpha + x).mean())
    noise = float(np.std(means, ddof=1)) / math.sqrt(number)
    assert abs(row.expected - np.mean(means)) <= 4 * math.hypot(noise, row.standard_error), row


def test_there_are_enough_settings() -> None:
    assert len(set(SETTINGS)) >= 30


@pytest.mark.parametrize(
    ("name", "prior", "n", "epsilon"), now_or_slow(SETTINGS, lambda row: SETTINGS.index(row) % 3 == 0)
)
def test_plans_agree_with_simulation(name: str, prior: tuple[float, ...], n: int, epsilon: str) -> None:
    check_against_simulation(name, prior, n, epsilon, (200, 500))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "prior", "n", "epsilon"), SLOW)
def test_plans_agree_with_simulation_at_size(
    name: str, prior: tuple[float, ...], n: int, epsilon: str
) -> None:
    check_against_simulation(name, prior, n, epsilon, (500, 200))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("prior", "n", "epsilon"),
    [((1.0, 1.0), 5000, "0.3"), ((1.0, 1.0), 10**6, "1"), ((1.0,) * 3, 1000, "1"), ((0.5,) * 5, 200, "0.5")],
)
def test_the_control_variate_is_not_biased(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    """The lattice mechanism where it is simulated: many seeds, and their stated errors."""
    rows = [
        plan(prior=prior, n=n, epsilon=epsilon, mechanisms=["lattice"], seed=seed, quick=True).rows[0]
        for seed in range(40)
    ]
    assert rows[0].method != "exact"
    m = build("lattice", prior, n, epsilon)
    rng = np.random.default_rng(5)
    true = rng.multinomial(n, rng.dirichlet(prior, 1500))
    drawn = m.decoder.decode_many(true + m.simulate_noise(len(true), rng))  # type: ignore[attr-defined]
    errors = discreet.hellinger(drawn + np.array(prior), true + np.array(prior))
    values = np.array([row.expected for row in rows])
    noise = math.hypot(np.std(errors) / math.sqrt(len(errors)), np.std(values) / math.sqrt(len(values)))
    assert abs(values.mean() - errors.mean()) <= 4 * noise
    stated = math.sqrt(np.mean([row.standard_error**2 for row in rows]))
    assert 0.6 <= np.std(values, ddof=1) / stated <= 1.6  # 40 values: within this with probability > 0.999


# ---- the recommendation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "n", "epsilon"),
    [
        *(((1.0, 1.0), n, e) for n in (5, 30) for e in ("0.1", "0.8", "3")),
        *(((7.0, 4.0), 12, e) for e in ("0.1", "0.8", "3")),
        *(((1.0, 1.0, 1.0), 6, e) for e in ("0.1", "0.8", "3")),
    ],
)
def test_lattice_is_best_and_nothing_is_below_the_limit(
    prior: tuple[float, ...], n: int, epsilon: str
) -> None:
    found = plan(prior=prior, n=n, epsilon=epsilon)
    assert found.best == "lattice"
    assert found.limit is not None
    assert all(row.expected >= found.limit - 1e-9 for row in found.rows)
    if len(prior) == 2:
        assert found.row("lattice").expected <= 1.0001 * found.limit


@pytest.mark.slow
def test_another_mechanism_is_better_only_where_none_is_good() -> None:
    """What the documentation of ``auto`` says, on a grid of priors, sizes and ε."""
    for k, a in ((2, 0.1), (2, 1.0), (3, 0.1), (3, 0.5), (3, 2.0), (5, 0.1), (5, 1.0)):
        for n in (10, 1000):
            for epsilon in ("0.003", "0.03", "0.3", "3"):
                found = plan(prior=(a,) * k, n=n, epsilon=epsilon)
                assert found.best == "lattice" or min(row.expected for row in found.rows) > 0.85, str(found)


def row_of(name: str, expected: float, standard_error: float = 0.0, comparable: bool = True) -> PlanRow:
    rest = dict.fromkeys(("median", "q95", "kl", "l1", "width", "width_without"), math.nan)
    return PlanRow(name, {}, expected, standard_error, method="", comparable=comparable, **rest)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([row_of("lshist", 0.2), row_of("lattice", 0.1)], "lattice"),
        ([row_of("lshist", 0.1), row_of("lattice", 0.2)], "lshist"),
        ([row_of("lshist", 0.1), row_of("lattice", 0.1 + 5e-10)], "lattice"),
        ([row_of("lshist", 0.1), row_of("lattice", 0.1 + 5e-9)], "lshist"),
        ([row_of("lshist", 0.100, 0.004), row_of("lattice", 0.109, 0.003)], "lattice"),
        ([row_of("lshist", 0.100, 0.004), row_of("lattice", 0.111, 0.003)], "lshist"),
        ([row_of("ehdl", 0.01, comparable=False), row_of("lattice", 0.2)], "lattice"),
        ([row_of("optimal", 0.1), row_of("ehd", 0.1)], "ehd"),
        ([row_of("ehdl", 0.01, comparable=False)], None),
    ],
)
def test_best(rows: list[PlanRow], best: str | None) -> None:
    assert Plan((1.0, 1.0), 5, Fraction(1), tuple(rows), None).best == best


def test_what_does_not_promise_epsilon_is_shown_and_not_recommended() -> None:
    found = plan(prior=(0.1, 0.1), n=50, epsilon=0.8, mechanisms=["ehdl", ("mbeta", {"delta": "1/1000"})])
    assert not found.row("ehdl").comparable
    assert "ehdl *" in str(found)
    assert found.best in (None, "mbeta")


def test_a_plan_cites_no_paper() -> None:
    found = plan(prior=(1, 1), n=20, epsilon=1)
    assert "Cor." not in str(found)
    assert "paper" not in str(found)


# ---- searches ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prior", "n", "error"),
    [((1, 1), 30, 0.2), ((1, 1), 30, 0.02), ((7, 4), 10, 0.05), ((1, 1, 1), 6, 0.3), ((1, 1), 1, 1e-6)],
)
def test_the_smallest_epsilon(prior: tuple[float, ...], n: int, error: float) -> None:
    found = plan(prior=prior, n=n, error=error)
    assert found.error == error
    assert found.best is not None
    assert found.row(found.best).expected <= error
    digits = found.exact_epsilon * 10 ** (3 - math.floor(math.log10(found.epsilon)))
    assert digits.denominator == 1
    assert 1000 <= digits < 10_000
    again = plan(prior=prior, n=n, epsilon=found.exact_epsilon)
    assert again.rows == found.rows
    less = found.exact_epsilon * (digits - 1) / digits
    assert all(row.expected > error for row in plan(prior=prior, n=n, epsilon=less, quick=True).rows)


@pytest.mark.parametrize(
    ("prior", "epsilon", "error"), [((1, 1), "0.8", 0.15), ((1, 1), "2", 0.05), ((1, 1, 1), "3", 0.07)]
)
def test_the_smallest_n_from_which_on(prior: tuple[float, ...], epsilon: str, error: float) -> None:
    found = plan(prior=prior, epsilon=epsilon, error=error)
    assert found.best is not None
    assert found.row(found.best).expected <= error

    def reached(n: int) -> bool:
        rows = plan(prior=prior, epsilon=epsilon, n=n, mechanisms=["lattice", "lshist"]).rows
        assert {row.method for row in rows} == {"exact"}
        return min(row.expected for row in rows) <= error

    assert not reached(found.n - 1)
    assert all(reached(n) for n in range(found.n, found.n + 5))


def test_targets_that_anything_reaches() -> None:
    assert plan(prior=(1, 1), n=20, error=0.95).exact_epsilon == planning.MIN_EPSILON
    assert plan(prior=(1, 1), epsilon=1, error=0.9).n == 1


@pytest.mark.slow
def test_searches_where_figures_are_simulated() -> None:
    found = plan(prior=(1, 1, 1), n=1000, error=0.1)
    assert found.row("lattice").expected <= 0.1
    assert plan(prior=(1, 1, 1), n=1000, epsilon=found.epsilon * 0.9).row("lattice").expected > 0.1
    larger = plan(prior=(1, 1), epsilon=1, error=0.01)
    assert larger.row("lattice").expected <= 0.01
    assert 7000 <= larger.n <= 10_000


# ---- widths ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "n", "epsilon"), [(2, 400, "0.1"), (3, 60, "0.3"), (6, 2000, "1")])
def test_a_plan_promises_what_releases_give(k: int, n: int, epsilon: str) -> None:
    counts = imagined_counts((1.0,) * k, n, 0.5)
    assert sum(counts) == n
    levels = tuple(map(str, range(k)))
    found = plan(prior=(1,) * k, n=n, epsilon=epsilon, mechanisms="lattice").rows[0]
    data = dict(zip(levels, counts, strict=True))
    schema = discreet.Schema({"value": levels}, n=n, nameless=True)
    widths = []
    for _ in range(12):
        row = discreet.proportions(data, schema=schema, epsilon=epsilon).rows()[0]
        assert row.low is not None
        assert row.high is not None
        widths.append(row.high - row.low)
    assert found.width == pytest.approx(np.mean(widths), rel=0.25)
    assert found.width > found.width_without


def test_a_plan_is_asked_for_by_its_width() -> None:
    found = plan(prior=(1, 1), n=1200, within=0.03, mechanisms="lattice")
    assert found.rows[0].width / 2 <= 0.03
    assert plan(prior=(1, 1), n=1200, epsilon=found.epsilon * 0.98, mechanisms="lattice").rows[0].width > 0.06
    assert found.within == 0.03
    assert str(found).startswith("Within ± 3.00 points: n = 1200 records, ε = ")
    more = plan(prior=(1, 1), epsilon="0.5", within=0.03, mechanisms="lattice")
    assert more.rows[0].width / 2 <= 0.03
    assert 1070 < more.n < 1120
    assert max(map(len, str(found).splitlines())) <= 80
    with pytest.raises(InvalidInputError, match="even without privacy"):
        plan(prior=(1, 1), n=100, within=0.03)
    for wrong in (0, -0.1, 1.5):
        with pytest.raises(InvalidInputError, match="within="):
            plan(prior=(1, 1), n=100, within=wrong)
    with pytest.raises(InvalidInputError, match="share="):
        plan(prior=(1, 1), n=100, epsilon=1, share=1.5)


@pytest.mark.parametrize("index", [0, 1, 8999, 9000, 12_345, 51_999])
def test_the_grid_of_epsilons(index: int) -> None:
    epsilon = planning._epsilon_at(index)
    assert planning._index_of(epsilon) == index
    assert planning._index_of(epsilon * Fraction(10_000_001, 10_000_000)) == index
    assert epsilon < planning._epsilon_at(index + 1)


# ---- bad input -----------------------------------------------------------------------------------------

BAD: list[tuple[dict[str, Any], str]] = [
    ({"n": 10}, "give two of n, epsilon and within"),
    ({"epsilon": 1}, "give two of n, epsilon and within"),
    ({"error": 0.1}, "give two of n, epsilon and within"),
    ({}, "give two of n, epsilon and within"),
    ({"n": 10, "epsilon": 1, "error": 0.1}, "give two of n, epsilon and within"),
    ({"n": 10, "error": 0}, "error=0 must be between 0 and 1"),
    ({"n": 10, "error": 1}, "error=1 must be between 0 and 1"),
    ({"n": 10, "error": "much"}, "error='much' must be between 0 and 1"),
    ({"n": 10, "error": math.nan}, "error=nan must be between 0 and 1"),
    ({"n": 10, "error": True}, "error=True must be between 0 and 1"),
    ({"n": 10, "error": 1e-30}, "not reached with n=10: the best at epsilon = 50 is"),
    ({"n": 10, "error": 0.01, "mechanisms": ["lshist"]}, "not reached with n=10"),
    ({"epsilon": 0.01, "error": 0.001, "mechanisms": ["lshist"]}, "the best at n = 10000000 is"),
    ({"n": 10, "error": 0.1, "mechanisms": ["ehdl"]}, "none of the mechanisms promises epsilon"),
    ({"n": 0, "epsilon": 1}, "n=0 must be at least 1"),
    ({"n": 10, "epsilon": -1}, "epsilon=-1 must be positive"),
    ({"n": 10, "epsilon": 1, "mechanisms": ["latice"]}, "did you mean 'lattice'"),
    ({"n": 10, "epsilon": 1, "mechanisms": []}, "mechanisms is empty"),
    ({"n": 10, "epsilon": 1, "mechanisms": [("ehd", {"gamma": 1})]}, "'gamma' is not an option of 'ehd'"),
    ({"n": 10, "epsilon": 1, "level": 95}, "level=95 must be a probability"),
    ({"n": 10, "epsilon": 1, "seed": -1}, "seed=-1 must not be negative"),
    ({"n": 10, "epsilon": 1, "seed": 0.5}, "seed=0.5 must be a whole number"),
]


@pytest.mark.parametrize(("given", "message"), BAD)
def test_bad_input(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        plan(prior=(1, 1), **given)
    assert message in str(caught.value)


def test_more_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="at least two levels"):
        plan(prior=(1,), n=10, epsilon=1)
    with pytest.raises(InvalidInputError, match="'ehdl' is not in this plan; it has: lattice"):
        plan(prior=(1, 1), n=5, epsilon=1).row("ehdl")
    with pytest.raises(TooLargeError, match="lattice"):
        plan(prior=(1, 1), n=200, epsilon=1, mechanisms=["optimal"])
    with pytest.raises(TooLargeError, match=r"2\*\*53"):
        plan(prior=(1, 1), n=10**18, epsilon=1, mechanisms=["lattice"])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=4).map(tuple),
    st.integers(1, 40),
    st.sampled_from(["1e-9", "0.001", "0.5", "7", "1e4"]),
)
def test_any_public_parameters(prior: tuple[float, ...], n: int, epsilon: str) -> None:
    found = plan(prior=prior, n=n, epsilon=epsilon, quick=True)
    assert all(0 <= row.expected <= 1 for row in found.rows)
    assert found.best is not None


# ---- promises ------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_plan() -> None:
    simulated: dict[str, Any] = {"prior": (1, 1, 1), "n": 40, "mechanisms": ["lattice", "lszhang"]}
    for setting in ({"prior": (1, 1), "n": 30}, simulated):
        first, second = plan(**setting, epsilon=1, seed=3), plan(**setting, epsilon=1, seed=3)
        assert first == second
        assert str(first) == str(second)
    other = plan(**simulated, epsilon=1, seed=4)
    assert all(a.expected != b.expected for a, b in zip(first.rows, other.rows, strict=True))
    assert all(row.standard_error > 0 for row in other.rows)
    assert all(row.method.startswith("simulated (") for row in other.rows)


def test_a_plan_for_machines_and_for_people() -> None:
    found = plan(prior=(1, 1), n=10, epsilon="4/5")
    document = json.loads(json.dumps(found.to_dict()))
    assert document["epsilon"] == "4/5"
    assert document["best"] == "lattice"
    assert [row["mechanism"] for row in document["mechanisms"]][:2] == ["lattice", "lshist"]
    text = str(found)
    for part in (
        "n = 10",
        "ε = 0.8",
        "lattice",
        "ehd (calibration=exact)",
        "limit",
        "Best: lattice",
    ):
        assert part in text
    quick = plan(prior=(1, 1), n=10, epsilon="4/5", quick=True)
    assert {row.name for row in quick.rows} == {"lattice", "lshist", "lsdim", "lszhang"}
    assert quick.limit is None
    assert quick.row("lshist").expected == pytest.approx(found.row("lshist").expected, rel=1e-12)
    json.dumps(quick.to_dict(), allow_nan=False)
    assert "–" in str(quick)


def test_the_rule_of_auto_agrees_with_the_planner() -> None:
    """Over a grid; where it does not, everything is noise and little is lost."""
    for prior in ((1.0, 1.0), (7.0, 4.0), (0.5, 0.5, 0.5), (1.0,) * 3):
        for n in (12, 60, 300):
            for epsilon in ("0.05", "0.3", "1", "3"):
                found = plan(prior=prior, n=n, epsilon=epsilon, quick=True)
                chosen = automatic()
                errors = {row.name: row for row in found.rows if row.comparable}
                best = errors[found.best or chosen]
                noise = 3 * math.hypot(best.standard_error, errors[chosen].standard_error)
                assert found.best == chosen or best.expected > 0.75 or best.name == "optimal"
                assert errors[chosen].expected <= best.expected + 0.02 + noise


# ---- plots ---------------------------------------------------------------------------------------------


def test_plots(tmp_path: Path) -> None:
    curve = pictures.error_curve((1, 1), 8, epsilons=("1/2", 1, 2))
    names = [text.get_text() for text in curve.get_legend().get_texts()]
    assert {"lattice", "lshist", "ehd (calibration=exact)", "limit"} <= set(names)
    styles = {
        (line.get_linestyle(), line.get_marker()) for line in curve.get_lines() if len(line.get_xdata()) == 3
    }
    assert len(styles) == len(names)  # told apart without colour
    without = pictures.error_curve((1, 1, 1), 30, epsilons=(0.5, 1), mechanisms=["lattice", "ehdl"])
    assert [text.get_text() for text in without.get_legend().get_texts()] == ["lattice", "ehdl (not private)"]
    profile = discreet.plots.profile(discreet.audit(build("lshist", (1, 1), 10, "0.8")))
    assert profile.get_yscale() == "log"
    boxes = pictures.errors_box((1, 1), 10, 0.8, size=200)
    one = pictures.errors_box(
        (1, 1),
        10,
        "4/5",
        counts=(3, 7),
        mechanisms=["lattice", "ehds"],
        size=100,
        ax=boxes.figure.add_subplot(),
    )
    assert "counts (3, 7)" in one.get_title()
    for number, axes in enumerate((curve, without, profile, boxes)):
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        axes.figure.savefig(tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 5000


# Public records.


def test_public_records_buy_error_and_epsilon() -> None:
    with_public = plan(prior=(1, 1), n=50, epsilon="0.5", public=(40, 60), quick=True)
    alone = plan(prior=(1, 1), n=50, epsilon="0.5", quick=True)
    by_hand = plan(prior=(41, 61), n=50, epsilon="0.5", quick=True)
    gain = with_public.public
    assert gain is not None
    assert with_public.prior == (41, 61)
    assert repr(with_public.rows) == repr(by_hand.rows)  # a NaN equals none
    assert gain.error_without == pytest.approx(alone.best_row.expected, rel=1e-6)  # type: ignore[union-attr]
    assert gain.error_with == by_hand.best_row.expected < gain.error_without  # type: ignore[union-attr]
    assert gain.epsilon_for_error is not None
    assert gain.epsilon_for_error < 0.5
    again = plan(prior=(41, 61), n=50, epsilon=str(gain.epsilon_for_error), quick=True)
    assert again.best_row.expected <= gain.error_without  # type: ignore[union-attr]
    sampler = discreet.posterior_sampler("direct", "dirichlet", prior=(41, 61), n=50)
    assert gain.draw_with == pytest.approx(sampler.guarantee.epsilon_at(1e-6))
    assert gain.draw_with < gain.draw_without
    assert "100 public records" in str(with_public)
    assert with_public.to_dict()["public"]["counts"] == (40, 60)
    assert alone.public is None


@pytest.mark.parametrize("public", [(1,), (1, -1), (1, 2, 3), 5, (0.5, 1)])
def test_bad_public_counts(public: Any) -> None:
    with pytest.raises(InvalidInputError, match="counts"):
        plan(prior=(1, 1), n=50, epsilon=1, public=public)


def test_quick_plans_state_a_standard_error_that_holds() -> None:
    """Twelve seeds: their spread is within what a chi-square of 11 degrees allows once in a million plans."""
    for k, n in ((2, 10_000), (3, 1000)):
        rows = [
            plan(prior=(1,) * k, n=n, epsilon=0.5, quick=True, mechanisms="lattice", seed=seed).row("lattice")
            for seed in range(12)
        ]
        spread = np.std([row.expected for row in rows], ddof=1)
        stated = math.sqrt(np.mean([row.standard_error**2 for row in rows]))
        assert spread < 2.2 * stated


@pytest.mark.slow
def test_rows_of_geometric_and_gaussian() -> None:
    hidden = plan(prior=(1, 1, 1), n=200, epsilon=1, delta="1e-6", relation="add-remove", quick=True)
    assert [row.name for row in hidden.rows] == ["geometric", "gaussian"]
    assert hidden.best == "geometric"
    assert "n is private" in str(hidden)
    assert hidden.to_dict()["gaussian_from"] == hidden.gaussian_from
    public = plan(prior=(1, 1, 1), n=200, epsilon=1, delta="1e-6", quick=True)
    assert {"lattice", "gaussian"} <= {row.name for row in public.rows}
    assert all(row.comparable for row in public.rows)
    assert "gaussian has the smaller noise from" in str(public).replace("\n", " ")
    alone = plan(prior=(1, 1, 1), n=200, epsilon=1, quick=True)
    assert "gaussian" not in str(alone)
    found = plan(prior=(1, 1), epsilon=1, within=0.03, relation="add-remove")
    assert 1000 < found.n < 1200


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_from_how_many_tables_on_gaussian_is_ahead(relation: str) -> None:
    """Against the accountant: pure releases that share (ε, δ) evenly, just before and at the number found."""
    kind, k, epsilon, delta = Relation(relation), 4, Fraction(1), Fraction(1, 10**6)
    first = gaussian_from(epsilon, delta, k, kind)
    assert first is not None
    size = {} if relation == "add-remove" else {"n": 10**6}
    for tables, wins in ((first - 1, False), (first, True)):
        low, high = epsilon / tables, epsilon
        for _ in range(12):
            middle = (low + high) / 2
            whole = discreet.compose([discreet.Guarantee(middle, kind)], count=tables)
            low, high = (middle, high) if whole.delta_at(1.0) <= 1e-6 else (low, middle)
        name = "geometric" if relation == "add-remove" else "lattice"
        pure = discreet.mechanism(name, prior=(1.0,) * k, epsilon=low, **size)
        total = discreet.mechanism("gaussian", prior=(1.0,) * k, epsilon=epsilon, delta=delta, **size)
        mu = math.sqrt(total.mu_squared / tables)  # type: ignore[attr-defined]
        normal = discreet.mechanism("gaussian", prior=(1.0,) * k, mu=Fraction(mu), **size)
        spread = []
        for m in (pure, normal):
            draws = np.array([simulated_output(m, (250_000,) * k, seed).noisy for seed in range(3000)])
            noise = draws - 250_000.0
            if relation == "replace-one":
                noise = noise - noise.mean(axis=1, keepdims=True)
            spread.append(float((noise**2).mean()))
        assert spread[1] < spread[0] * 1.1 if wins else spread[1] > spread[0] * 0.9
