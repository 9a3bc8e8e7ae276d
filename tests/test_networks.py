"""Bayesian networks: the graph, the split of ε, the distribution of what is published, inference, and
documents."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet
import shorthand
from benchmarks.networks import SHAPES, covered, simulated, truth_of
from conformance.test_newcomers import browsed
from discreet._data import contingencies, contingency
from discreet._declarations import Domain
from discreet._documents.answer import load_answer
from discreet._documents.base import write_document
from discreet.answers.network import NetworkRelease
from discreet.distributions._networks import (
    NetworkDraws,
    largest_families,
    layers,
    make_consistent,
    resample,
    table_for_column,
)
from discreet.errors import CorruptReleaseError, InvalidInputError, TooLargeError
from shorthand import network_request

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.NoiseWarning")

LEVELS: dict[str, tuple[str, ...]] = {"a": ("0", "1"), "b": ("x", "y", "z"), "c": ("no", "yes")}
PARENTS: dict[str, tuple[str, ...]] = {"b": ("a",), "c": ("b",)}


def records(n: int = 600, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.integers(2, size=n)
    b = np.where(rng.random(n) < 0.5, a, rng.integers(3, size=n))
    c = (rng.random(n) < 0.2 + 0.3 * b).astype(int)
    return pd.DataFrame({k: np.array(LEVELS[k])[v] for k, v in {"a": a, "b": b, "c": c}.items()})


# ---- the graph ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"parents": {"b": ("a",), "a": ("b",)}}, "cycle: (a → b → a|b → a → b)"),
        ({"parents": {"a": ("a",)}}, "cycle: a → a"),
        ({"parents": {"b": ("A",)}}, "'A' is not declared in the schema; did you mean 'a'"),
        ({"parents": {"d": ("a",)}}, "'d' is not declared in the schema"),
        ({"parents": {"c": ("a", "a")}}, "a parent twice"),
        ({"parents": ["a"]}, "must map columns to their parents"),
        ({"parents": {}}, "must map columns to their parents"),
        ({"parents": {"a": 1}}, "must be names of columns"),
        ({"parents": {"a": [["b"]]}}, "must be names of columns"),
        ({"schema": {}}, "must map column names"),
        ({"schema": {**LEVELS, "c": ("no",)}}, "level"),
        ({"schema": {**LEVELS, "c": (0, 1)}}, "declare it as a category"),
        ({"epsilon": 0}, "epsilon"),
        ({"prior": -1}, "prior"),
        ({"schema": discreet.Schema({**LEVELS, "w": discreet.Weight(3)})}, "weight"),
    ],
)
def test_what_cannot_be_asked_is_said_before_data_are_opened(changed: dict[str, Any], message: str) -> None:
    asked = {"parents": PARENTS, "schema": LEVELS, "epsilon": 1, **changed}
    with pytest.raises(InvalidInputError, match=message):
        discreet.network("no-such-file.csv", **asked)


def test_layers_families_and_homes() -> None:
    graph = {"a": (), "b": ("a",), "c": ("a", "b"), "d": (), "e": ("c",)}
    assert layers(graph) == [["a", "d"], ["b"], ["c"], ["e"]]
    families = largest_families(graph)
    assert families == [("d",), ("a", "b", "c"), ("c", "e")]
    sizes = {"a": 2, "b": 2, "c": 2, "d": 3, "e": 2}
    assert table_for_column(graph, families, sizes) == {"a": 1, "b": 1, "c": 1, "d": 0, "e": 2}


# ---- the price ---------------------------------------------------------------------------------------------


def test_epsilon_is_split_exactly_and_by_the_rule() -> None:
    question = network_request(parents=PARENTS, levels=LEVELS, epsilon="1/3", n=100)
    parts = [table.epsilon for table in question.tables]
    assert sum(parts) == Fraction(1, 3)
    assert question.price().exact_epsilon == Fraction(1, 3)
    # a × b: 6 cells, of which 1 + 2·2 parameters are read; b × c: 6 cells and 3 parameters
    assert float(parts[0] / parts[1]) == pytest.approx((5 / 3) ** (1 / 3), rel=2e-3)


def test_the_split_is_the_least_of_all_splits() -> None:
    question = network_request(
        parents={"c": ("a", "b"), "d": ("c",)}, levels={**LEVELS, "d": ("0", "1")}, epsilon=1
    )
    cost = np.array([12 * (6 + 1 + 2), 4 * 2])  # cells times parameters
    share = np.array(question.shares) / sum(question.shares)
    grid = np.linspace(0.01, 0.99, 981)
    least = (cost[0] / grid**2 + cost[1] / (1 - grid) ** 2).min()
    assert float((cost / share**2).sum()) == pytest.approx(least, rel=1e-4)


def test_every_part_is_what_the_document_says() -> None:
    made = shorthand.network(records(), parents=PARENTS, levels=LEVELS, epsilon="0.7")
    assert sum(one.guarantee.exact_epsilon for one in made.releases) == made.guarantee.exact_epsilon
    assert [Fraction(one.parameters["epsilon"]) for one in made.releases] == [
        one.guarantee.exact_epsilon for one in made.releases
    ]
    assert made.guarantee.exact_epsilon == Fraction(7, 10)


def test_noise_of_the_tables_is_drawn_anew() -> None:
    """Four tables of equal counts but for a chance below 1e-9: the same noise twice would cancel."""
    made = [shorthand.network(records(), parents=PARENTS, levels=LEVELS, epsilon="0.01") for _ in "12"]
    noisy = [one.noisy for answer in made for one in answer.releases]
    assert len(set(noisy)) == 4


def test_people() -> None:
    frame = records(40).assign(who=np.repeat(range(20), 2))
    asked: dict[str, Any] = {"parents": PARENTS, "levels": LEVELS, "epsilon": 1, "person": "who"}
    one = shorthand.network(frame, per_person=1, **asked)
    assert (one.n, one.guarantee.epsilon, str(one.guarantee.relation)) == (20, 1, "replace-person")
    two = shorthand.network(frame, per_person=2, n=40, **asked)
    assert two.guarantee.epsilon == 1
    assert sum(Fraction(r.parameters["epsilon"]) for r in two.releases) == Fraction(1, 2)


# ---- counting ----------------------------------------------------------------------------------------------


def test_one_pass_counts_what_several_do() -> None:
    frame = records(300)
    domains = {name: Domain(own) for name, own in LEVELS.items()}
    tables = [("a", "b"), ("c", "b"), ("c",)]
    found = contingencies(frame, domains, tables)
    for counts, own in zip(found, tables, strict=True):
        np.testing.assert_array_equal(counts, contingency(frame, {name: domains[name] for name in own}))


def test_a_record_with_a_value_left_out_is_in_no_table() -> None:
    frame = records(50)
    frame.loc[3, "c"] = None
    levels = {**LEVELS, "c": Domain(LEVELS["c"], missing="exclude")}
    question = network_request(parents=PARENTS, levels=levels, epsilon=1, relation="add-remove")
    assert [int(x.sum()) for x in question.read(frame)] == [49, 49]


def test_where_n_is_public_each_table_is_of_those_who_answered() -> None:
    frame = records(300)
    frame.loc[:60, "c"] = None
    levels = {**LEVELS, "c": Domain(LEVELS["c"], missing="exclude")}
    made = shorthand.network(frame, parents=PARENTS, levels=levels, epsilon=50)
    totals = [one.posterior.sample_counts(5, np.random.default_rng(0))[0].sum() / 5 for one in made.releases]
    assert totals[0] == 300
    assert abs(totals[1] - 239) < 20  # noise beyond it has a chance below 1e-90
    assert abs(made.probability({"a": "1"}).mean() - (frame["a"] == "1").mean()) < 0.1


def test_too_many_combinations_are_refused() -> None:
    levels = {f"c{i}": ("0", "1") for i in range(40)}
    frame = pd.DataFrame({name: ["0"] for name in levels})
    with pytest.raises(TooLargeError, match="fewer columns"):
        shorthand.network(frame, parents={}, levels=levels, epsilon=1)


# ---- inference ---------------------------------------------------------------------------------------------


def brute_force(draws: NetworkDraws, columns: tuple[str, ...], known: dict[str, Any]) -> np.ndarray:
    """P(columns, known) by summing over all cells of all columns."""
    names = list(draws.parents)
    shape = [len(draws.levels[name]) for name in names]
    found = np.zeros((len(draws), *(len(known.get(c, draws.levels[c])) for c in columns)))
    for cell in itertools.product(*(range(k) for k in shape)):
        at = dict(zip(names, cell, strict=True))
        if any(at[name] not in places for name, places in known.items()):
            continue
        p = math.prod(
            (draws.tables[c][(slice(None), *(at[n] for n in (*draws.parents[c], c)))] for c in names),
            start=np.ones(len(draws)),
        )
        place = tuple(list(known[c]).index(at[c]) if c in known else at[c] for c in columns)
        found[(slice(None), *place)] += p
    return found


@pytest.mark.parametrize("shape", SHAPES)
def test_elimination_agrees_with_the_sum_over_everything(shape: str) -> None:
    parents, sizes = SHAPES[shape]
    levels = {column: tuple(range(k)) for column, k in sizes.items()}
    rng = np.random.default_rng(3)
    truth = truth_of(network_request(parents=parents, levels=levels, epsilon=1), rng)
    names = list(levels)
    for _ in range(20):
        columns = tuple(rng.choice(names, rng.integers(3), replace=False).tolist())
        others = rng.choice(names, rng.integers(3), replace=False).tolist()
        known = {
            name: np.sort(rng.permutation(sizes[name])[: rng.integers(1, sizes[name] + 1)]) for name in others
        }
        np.testing.assert_allclose(
            truth.joint(columns, known), brute_force(truth, columns, known), rtol=1e-12, atol=1e-15
        )


def test_records_follow_the_network() -> None:
    question = network_request(parents=PARENTS, levels=LEVELS, epsilon=1)
    truth = truth_of(question, np.random.default_rng(5))
    drawn = next(truth.records(20_000, np.random.default_rng(6)))
    for pair in itertools.combinations(LEVELS, 2):
        counts = np.zeros([len(LEVELS[name]) for name in pair])
        np.add.at(counts, tuple(drawn[name] for name in pair), 1)
        expected = truth.joint(pair, {})[0]
        assert np.abs(counts / 20_000 - expected).max() < 6.5 * 0.5 / math.sqrt(20_000)  # seeded


def test_agreeing_draws_have_the_exact_posterior() -> None:
    """a – b – c of two levels each: the distribution of the true counts of both tables, summed out by
    hand."""
    n, rate, z = 40, 0.25, (np.array([[14, 4], [6, 16]]), np.array([[8, 16], [12, 4]]))
    x = np.arange(n + 1)
    # Given N_b = m, the tables are independent; within each the columns of b are.

    def column(target: np.ndarray) -> np.ndarray:
        """Σ over the two cells of a column with total m of e^{−rate|z − x|}, for every m; and Σ x·…"""
        total, first = np.zeros(n + 1), np.zeros(n + 1)
        for m in range(n + 1):
            i = np.arange(m + 1)
            w = np.exp(-rate * (np.abs(target[0] - i) + np.abs(target[1] - (m - i))))
            total[m], first[m] = w.sum(), (w * i).sum()
        return np.stack([total, first])

    above = [column(z[0][:, b]) for b in (0, 1)]  # a × b, by columns of b
    below = [column(z[1][b]) for b in (0, 1)]  # b × c, by rows of b
    weight = above[0][0] * above[1][0][::-1] * below[0][0] * below[1][0][::-1]
    weight /= weight.sum()
    exact_b = float((weight * x).sum())
    sd_b = math.sqrt(float((weight * x**2).sum()) - exact_b**2)
    exact_ab = float((weight * above[0][1] / above[0][0]).sum())

    rng = np.random.default_rng(0)
    released = [
        discreet.mechanism("lattice", prior=(1.0,) * 4, n=n, epsilon="1/2").true_counts((), tuple(t.ravel()))
        for t in z
    ]
    draws = [distribution.sample(40_000, rng).reshape(-1, 2, 2).astype(float) for distribution in released]
    one, two = make_consistent(draws, [("a", "b"), ("b", "c")])
    b = one.sum(axis=1)[:, 0]
    assert np.abs(b - two.sum(axis=2)[:, 0]).mean() < 0.05
    assert abs(b.mean() - exact_b) < 0.1 * sd_b
    assert b.std() == pytest.approx(sd_b, rel=0.1)
    assert abs(one[:, 0, 0].mean() - exact_ab) < 0.1 * one[:, 0, 0].std()


def test_tables_that_share_nothing_stay_as_they_are() -> None:
    rng = np.random.default_rng(0)
    draws = [
        rng.multinomial(50, [0.2, 0.8], 10).astype(float),
        rng.multinomial(50, [0.5, 0.5], 10).astype(float),
    ]
    for before, after in zip(draws, make_consistent(draws, [("a",), ("b",)]), strict=True):
        np.testing.assert_allclose(before, after, atol=1e-6)
    (alone,) = make_consistent(draws[:1], [("a",)])
    np.testing.assert_array_equal(alone, draws[0])


def test_resampling_goes_by_the_weights_and_never_to_few() -> None:
    rng = np.random.default_rng(0)
    found = resample(np.log(np.array([1.0, 3.0])), 20_000, rng)
    assert np.bincount(found)[1] / 20_000 == pytest.approx(0.75, abs=0.02)
    degenerate = resample(-100.0 * np.arange(1000.0), 1000, rng)
    assert len(set(degenerate.tolist())) > 30


def test_without_noise_it_is_the_posterior_of_the_records() -> None:
    """ε = 10⁴ in a simulation: the posterior is Dir(1 + counts) for each row."""
    frame = records()
    question = network_request(parents=PARENTS, levels=LEVELS, epsilon=10_000, n=len(frame))
    answer = simulated(question, question.read(frame), len(frame), np.random.default_rng(0))
    table = answer.conditional("b")
    counts = contingency(frame, {name: Domain(LEVELS[name]) for name in ("a", "b")})
    alpha = 1.0 + counts
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    sd = np.sqrt(mean * (1 - mean) / (1 + alpha.sum(axis=1, keepdims=True)))
    np.testing.assert_allclose(table.mean(), mean.ravel(), atol=0.15 * sd.max())
    np.testing.assert_allclose(table.std(), sd.ravel(), rtol=0.1)


@pytest.fixture(scope="module")
def answer() -> NetworkRelease:
    return shorthand.network(records(), parents=PARENTS, levels=LEVELS, epsilon=8)


def test_what_is_asked_fits_together(answer: NetworkRelease) -> None:
    whole = answer.distribution("c", given={"a": "1"})
    assert whole.names == LEVELS["c"]
    np.testing.assert_allclose(whole.draws.sum(axis=1), 1)
    one = answer.probability({"c": "yes"}, given={"a": "1"})
    np.testing.assert_allclose(one.draws, whole.draws[:, 1])
    some = answer.probability({"b": ["x", "y"]})
    np.testing.assert_allclose(some.draws, answer.distribution("b").draws[:, :2].sum(axis=1))
    both = answer.probability({"a": "1", "c": "yes"})
    np.testing.assert_allclose(both.draws, one.draws * answer.probability({"a": "1"}).draws)
    assert answer.probability({"a": "1"}, given={"a": "0"}).mean() == 0
    np.testing.assert_allclose(answer.probability({"a": "1"}, given={"a": ["1"]}).draws, 1)
    low, high = one.interval(0.9)
    assert 0 < low < high < 1
    other = answer.probability({"c": "yes"}, given={"a": "1"}, size=500, seed=3)
    assert len(other.draws) == 500
    assert abs(other.mean() - one.mean()) < one.std()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda r: r.probability({}), "event is empty"),
        (lambda r: r.probability("a"), "must map columns to levels"),
        (lambda r: r.probability({"A": "1"}), "not a column of this network.*'a'"),
        (lambda r: r.probability({"b": "X"}), "not a value of 'b'.*'x'"),
        (lambda r: r.probability({"b": []}), "the list of values of 'b' is empty"),
        (lambda r: r.distribution("a", given={"a": "1"}), "given must not name 'a'"),
        (lambda r: r.conditional("d"), "not a column"),
        (lambda r: r.sample_records(0), "m=0"),
        (lambda r: r.sample_records(5, draws=0), "draws=0"),
        (lambda r: r.draws(0), "size"),
    ],
)
def test_what_cannot_be_answered(answer: NetworkRelease, ask: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        ask(answer)


def test_synthetic_records(answer: NetworkRelease) -> None:
    made = answer.sample_records(50, draws=3, seed=1)
    assert list(made.columns) == ["draw", "a", "b", "c"]
    assert made["draw"].value_counts().to_dict() == {0: 50, 1: 50, 2: 50}
    assert set(made["b"]) <= set(LEVELS["b"])
    pd.testing.assert_frame_equal(made, answer.sample_records(50, draws=3, seed=1))
    assert list(answer.sample_records(2, seed=1).columns) == ["a", "b", "c"]


def test_it_prints_reports_and_reads_back(answer: NetworkRelease) -> None:
    assert load_answer(answer.to_json()) == answer
    printed = str(answer)
    assert "Private Bayesian network of 3 columns from n = 600 records" in printed
    assert "column: value" in printed
    page = discreet.report(answer)
    assert page.count("<rect") == 3
    assert page.count("<polygon") >= 2
    assert "b ← a; c ← b" in page
    assert max(map(len, printed.splitlines())) <= 80
    other = shorthand.network(records(), parents=PARENTS, levels=LEVELS, epsilon=1)
    levels = {**LEVELS, "b": ("x", "z", "y")}
    turned = shorthand.network(records(), parents=PARENTS, levels=levels, epsilon=8)
    for changed, message in (
        ({"parents": {"a": (), "b": (), "c": ("a", "b")}}, "do not match its graph"),
        ({"guarantee": other.guarantee}, "the claimed privacy curve"),
        ({"releases": (answer.releases[0], turned.releases[1])}, "different levels"),
    ):
        with pytest.raises(CorruptReleaseError, match=message):
            load_answer(replace(answer, **changed).to_json())
    with pytest.raises(CorruptReleaseError, match="its field 'private'"):
        NetworkRelease.from_json(
            write_document(NetworkRelease.format, 1, {**answer.content(), "private": False})
        )


def test_the_graph_is_drawn(answer: NetworkRelease) -> None:
    pytest.importorskip("matplotlib")
    axes = answer.plot()
    assert {text.get_text() for text in axes.texts} >= {"a", "b", "c"}


def test_in_a_study_file_and_in_the_studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ages.csv").write_text("age,smoker\n" + "30,no\n40,yes\n50,no\n" * 10, "utf-8")
    address = f"sqlite:///{tmp_path / 'ledger.db'}"
    with discreet.Ledger(address) as book:
        book.create("people", epsilon=20, delta="1e-3")
    question = {"id": "one", "kind": "network", "parents": {"smoker": ["age"]}, "epsilon": 4}
    schema = discreet.Schema({"age": [30, 40, 50], "smoker": ["no", "yes"]}, n=30)
    study = discreet.Study("ages.csv", schema, ledger=address, dataset="people")
    found = study.answer(question)
    assert study.answer(question) == found
    assert study.account().spent.epsilon == 4
    shown = browsed(address, schema, kind="network", parents="smoker=age", epsilon="4")
    assert "Private Bayesian network of 2 columns" in shown
    assert "An arrow leads from a column" in shown


def test_columns_without_arrows() -> None:
    made = shorthand.network(records(), parents={}, levels=LEVELS, epsilon=6)
    assert len(made.releases) == 3
    np.testing.assert_allclose(
        made.distribution("c", given={"a": "1"}).draws, made.distribution("c").draws, rtol=1e-12
    )
    assert load_answer(made.to_json()) == made


def test_add_remove_keeps_the_number_private() -> None:
    made = shorthand.network(
        records(), parents=PARENTS, levels=LEVELS, epsilon=6, hidden=True, expected_n=(100, 1e5)
    )
    assert made.n is None
    assert all("n" not in one.parameters for one in made.releases)
    assert str(made.guarantee.relation) == "add-remove"
    assert made.probability({"a": "1"}).std() < 0.1
    assert load_answer(made.to_json()) == made


def test_a_wide_network_says_when_it_is_too_large() -> None:
    levels = {f"c{i}": tuple(range(30)) for i in range(5)}
    tables = {"c0": np.ones((2000, 30)) / 30}
    tables |= {f"c{i}": np.ones((2000, 30, 30)) / 30 for i in range(1, 4)}
    tables["c4"] = np.ones((2000, 30, 30)) / 30
    parents = {"c0": (), **{f"c{i}": (f"c{i - 1}",) for i in range(1, 5)}}
    drawn = NetworkDraws(parents, levels, tables)
    with pytest.raises(TooLargeError, match="fewer draws"):
        drawn.joint(tuple(levels), {})


def test_a_chain_may_be_longer_than_the_alphabet() -> None:
    """einsum knows 52 letters: they are those of one product, not of the network."""
    rng, names = np.random.default_rng(2), [f"c{i}" for i in range(70)]
    parents = {name: (names[i - 1],) if i else () for i, name in enumerate(names)}
    tables = {name: rng.dirichlet((1, 1), size=(4, 2) if parents[name] else 4) for name in names}
    drawn = NetworkDraws(parents, dict.fromkeys(names, ("a", "b")), tables)
    distribution = tables["c0"]
    for name in names[1:]:
        distribution = np.einsum("di,dij->dj", distribution, tables[name])
    assert drawn.joint(["c69"], {}) == pytest.approx(distribution)


@pytest.mark.slow
def test_intervals_hold() -> None:
    """36 networks with about 45 intervals each; shares of one network hang together (seeded)."""
    found = [covered(shape, 1000, "2", "replace-one", seed) for shape in SHAPES for seed in range(12)]
    held, number = (sum(column) for column in zip(*(x for one in found for x in one.values()), strict=True))
    assert held / number == pytest.approx(0.9, abs=0.03)
