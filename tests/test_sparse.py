"""``options={"expected_false": …}``: what stands out of many levels, and everything else."""

from __future__ import annotations

import json
import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import discreet
import shorthand
from discreet._cli import app
from discreet._data import count_codes
from discreet._documents.answer import load_answer
from discreet._documents.base import write_document
from discreet._inference.sparse import SparsePosterior, number_near
from discreet._randomness.entropy import SeededEntropy
from discreet._reporting.report import report
from discreet.answers.selected import EVERYTHING_ELSE, SparseRelease
from discreet.errors import CorruptReleaseError, DataError, InvalidInputError, TooLargeError
from discreet.mechanisms.sparse import Sparse, SparseOutput

CODES = [4711] * 400 + [90210] * 90 + list(range(10_000, 10_050))
ASKED: dict[str, Any] = {
    "levels": range(10**9),
    "epsilon": 1,
    "hidden": True,
    "options": {"expected_false": "1/1000"},
}
QUESTION: dict[str, Any] = {"epsilon": 1, "options": {"expected_false": "1/1000"}}
SCHEMA = discreet.Schema({"c": discreet.Category(range(10**9))})


def asked(data: Any, **options: Any) -> SparseRelease:
    found = shorthand.shares(data, **{**ASKED, **options})
    assert isinstance(found, SparseRelease)
    return found


def test_what_stands_out_is_published() -> None:
    found = asked(CODES)
    assert {4711, 90210} <= set(found.levels)
    assert len(found.levels) < 10
    assert str(found.guarantee) == "ε = 1 (add-remove)"
    assert all(z >= found.threshold for z in found.counts)
    assert load_answer(found.to_json()) == found
    rows = {row.name: row for row in found.rows(0.9)}
    assert list(rows)[-2:] == [EVERYTHING_ELSE, "all records"]
    assert rows["4711"].mean == pytest.approx(400, abs=40)
    assert rows[EVERYTHING_ELSE].mean == pytest.approx(50, abs=400)
    assert found.posterior.total.interval(0.9)[0] > 300
    assert "1,000,000,000 declared levels" in str(found)
    assert "everything else" in report(found)
    low, high = found.posterior.interval(0.9)
    assert len(low) == len(high) == len(found.levels) + 1


def test_levels_may_be_a_list_and_nothing_may_stand_out() -> None:
    names = [f"level {i}" for i in range(1000)]
    found = asked({"level 3": 500, "level 4": 1}, levels=names)
    assert "level 3" in found.levels
    nothing: list[Any] = [[], {"level 4": 1}]
    for data in nothing:
        empty = asked(data, levels=names, options={"expected_false": "1e-9"})
        assert load_answer(empty.to_json()) == empty
        assert empty.levels == ()
        assert report(empty)
        assert [row.name for row in empty.rows()] == [EVERYTHING_ELSE, "all records"]
    assert asked(CODES, levels=range(100_000)).k == 100_000


def test_codes_are_counted_alike_everywhere(tmp_path: Path) -> None:
    import polars as pl

    frame = pd.DataFrame({"c": [7, 8, 7, 12]})
    frame.to_parquet(tmp_path / "c.parquet")
    frame.to_csv(tmp_path / "c.csv", index=False)
    many = (frame, pl.from_pandas(frame), tmp_path / "c.parquet", tmp_path / "c.csv")
    for data in many:
        assert count_codes(data, range(5, 20), "c") == {2: 2, 3: 1, 7: 1}
    values = [7, "7", 7.0, None, float("nan"), "07", 7.5, -1, True, "x"]
    assert count_codes(values, range(5, 20), strict=False) == {2: 3}
    assert count_codes(values, range(5, 20), other=5) == {2: 3, 0: 5}
    with pytest.raises(DataError, match="some records hold a value outside") as raised:
        count_codes(values, range(5, 20))
    assert "07" not in str(raised.value)
    assert count_codes([], range(5, 20)) == {}


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n": 5}, "leave n out of the schema"),
        ({"n": "public"}, "leave n out of the schema"),
        ({"prior": 1}, "prior cannot be used"),
        ({"delta": "1e-6"}, "delta cannot be used"),
        ({"mechanism": "geometric"}, "mechanism cannot be used"),
        ({"columns": ("c", "d")}, "one category only"),
        ({"columns": "x"}, "one category only"),
        ({"values": "discover", "delta": "1e-6"}, "options cannot be used"),
        ({"values": range(0, 10, 2)}, "steps of 1"),
        ({"values": range(10**30)}, "values"),
        ({"values": range(1)}, "two codes"),
        ({"missing": 3}, "must be 'exclude'"),
        ({"other": -1}, "is not one of the codes"),
        ({"other": "x"}, "must be a whole number"),
        ({"other": 3.7}, "must be a whole number"),
        ({"options": {"expected_false": 0}}, "expected_false"),
        ({"options": {"expected_false": 10**8}}, "expected_false"),
        ({"options": None}, "too many to be listed"),
    ],
)
def test_what_does_not_go_together_is_said_before_data_are_opened(
    options: dict[str, Any], match: str
) -> None:
    given = {"columns": "c", **QUESTION, "values": range(10**9), **options}
    column = {name: given.pop(name) for name in ("values", "other", "missing") if name in given}
    n = given.pop("n", None)

    def request() -> None:
        schema = discreet.Schema({"c": discreet.Category(**column), "d": ["a", "b"], "x": (0, 9)}, n=n)
        discreet.Proportions(**given).request(schema)

    with pytest.raises(InvalidInputError, match=match):
        request()


def test_it_is_charged_and_repeated(tmp_path: Path) -> None:
    ledger = discreet.Ledger(tmp_path / "l.db")
    ledger.create("d", epsilon=2, relation="add-remove")
    charge: dict[str, Any] = {"ledger": ledger, "dataset": "d", "request_id": "q"}
    one = asked(CODES, **charge)
    assert asked([5] * 900, **charge) == one
    assert str(ledger.show("d").spent) == "ε = 1"
    question = discreet.Proportions("c", **QUESTION)
    assert question.request(SCHEMA).price() == one.guarantee
    plan = question.plan(SCHEMA)
    assert plan["schema"]["columns"]["c"] == {"values": {"from": 0, "to": 999_999_999}}
    assert plan["options"] == {"expected_false": "1/1000"}
    assert question.arguments() == ["--epsilon=1", "--options=expected_false=1/1000", "c"]


def test_command_line_and_study(tmp_path: Path) -> None:
    path, out, schema = tmp_path / "codes.csv", tmp_path / "out.json", tmp_path / "schema.toml"
    path.write_text("c\n" + "\n".join(map(str, CODES)) + "\n")
    schema.write_text(SCHEMA.to_toml())
    options = ["--epsilon", "1", "--options", "expected_false=1/1000", "--out", str(out)]
    run = CliRunner().invoke(app, ["proportions", str(path), str(schema), "c", *options])
    assert run.exit_code == 0, run.output
    assert "4711" in run.output
    assert "everything else" in CliRunner().invoke(app, ["show", str(out)]).output
    study = tmp_path / "s.toml"
    study.write_text(
        '[study]\ndata = "codes.csv"\nepsilon = 1\n'
        "[schema.columns]\nc = {values = {from = 0, to = 999999999}}\n"
        '[[question]]\nid = "codes"\ncolumns = ["c"]\nepsilon = 1\noptions = {expected_false = 0.001}\n'
    )
    run = CliRunner().invoke(app, ["run", str(study), "--json"])
    assert run.exit_code == 0, run.output
    assert "4711" in json.dumps(json.loads((tmp_path / "s-results" / "study.json").read_text()))


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        ("{values = {from = 0, to = 999999999}}", {"options": "expected_false=1"}),
        ('"discover"', {"delta": "1e-6"}),
    ],
)
def test_the_studio_takes_it_too(column: str, texts: dict[str, str]) -> None:
    pytest.importorskip("starlette")
    from discreet._studio.forms import ReleaseForm
    from discreet._studio.schemas import Schemas

    given = {**texts, "epsilon": "1", "columns": "c"}
    kept = Schemas().keep(f"[columns]\nc = {column}\n", "codes")
    form = ReleaseForm(kind="proportions", texts=given, kept_schema=kept)
    assert form.checked_request.declared_size == 0
    if "delta" in texts:
        with pytest.raises(InvalidInputError, match="no width can be planned"):
            discreet.plan(form.question, form.declared_schema, n=1000)
    else:
        assert discreet.plan(form.question, form.declared_schema, n=10**5).width_text().endswith("records")
    dense = Schemas().keep("[columns]\nc = {values = {from = 0, to = 99999}}\n", "codes")
    with pytest.raises((InvalidInputError, TooLargeError)):
        _ = ReleaseForm(
            kind="proportions", texts={"epsilon": "1", "columns": "c"}, kept_schema=dense
        ).checked_request


def test_nothing_but_what_was_published_depends_on_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sparse, "run", lambda self, counts: SparseOutput({4711: 99}, 12))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        strange = [*CODES, None, "x", -3]
        pages = {
            (one := asked(data, strict=False)).to_json() + str(one) + report(one)
            for data in (CODES, CODES[1:], [], strange)
        }
    assert len(pages) == 1
    assert not said


def test_an_edited_document_is_refused() -> None:
    guarantee = Sparse(Fraction(1), 1000).guarantee
    content = SparseRelease((7, 9), (30, 40), 5, 1000, Fraction(1), guarantee, Fraction(1), "c").content()
    assert SparseRelease.from_content(content).counts == (30, 40)
    for change in (
        {"counts": [3, 40]},
        {"counts": [30]},
        {"counts": [30, 40.5]},
        {"threshold": 2},
        {"levels": [7, 7]},
        {"levels": [7, None]},
        {"k": 1},
        {"k": "x"},
        {"everything_else": 0.5},
        {"expected_false": "0"},
        {"column": 3},
        {"versions": 3},
        {"guarantee": {**content["guarantee"], "relation": "replace-one"}},
    ):
        with pytest.raises((ValueError, TypeError, CorruptReleaseError)):
            SparseRelease.from_json(
                write_document(SparseRelease.format, SparseRelease.version, {**content, **change})
            )


def by_hand(noisy: list[int], m: Sparse) -> tuple[np.ndarray, np.ndarray]:
    """Means, and probabilities that a level is empty: sums over x, π and s one by one."""
    rate, tau, top = float(m.level_epsilon), m.threshold, max(noisy)
    x = np.arange(1, top + 200.0)
    edges = np.linspace(math.log(0.01 / m.k), 0, 601)
    steps = (edges[1:] + edges[:-1]) / 2
    weight, empties, means = 0.0, np.zeros(len(noisy)), np.zeros(len(noisy))
    found = []
    for s in np.linspace(0, 3, 13):
        slab = x**-s
        slab_whole = slab[: int(top)].sum()
        v = tau - np.arange(1, top + 1)
        reach = np.where(v >= 1, np.exp(-rate * v), 1 + math.exp(-rate) - np.exp(-rate * (1 - v)))
        true = (slab[: int(top)] * reach).sum() / (1 + math.exp(-rate)) / slab_whole
        false = math.exp(-rate * tau) / (1 + math.exp(-rate))
        terms = [slab / slab_whole * np.exp(-rate * np.abs(z - x)) for z in noisy]
        for pi in np.exp(steps):
            each = [(1 - pi) * math.exp(-rate * z) + pi * t.sum() for z, t in zip(noisy, terms, strict=True)]
            log = np.log(each).sum() + (m.k - len(noisy)) * math.log1p(-(1 - pi) * false - pi * true)
            none = [(1 - pi) * math.exp(-rate * z) / f for z, f in zip(noisy, each, strict=True)]
            mean = [pi * (t * x).sum() / f for t, f in zip(terms, each, strict=True)]
            found.append((log, none, mean))
    peak = max(log for log, _, _ in found)
    for log, none, mean in found:
        w = math.exp(log - peak)
        weight, empties, means = weight + w, empties + w * np.array(none), means + w * np.array(mean)
    return means / weight, empties / weight


@pytest.mark.parametrize(("noisy", "k"), [([13, 16, 40], 10**5), ([15, 15, 90, 200], 10**5), ([3, 4, 5], 6)])
def test_the_posterior_of_published_levels_by_hand(noisy: list[int], k: int) -> None:
    m = Sparse(Fraction(1), k)
    assert m.threshold <= min(noisy)
    means, empties = by_hand(noisy, m)
    found = SparsePosterior(noisy, 0, m)
    assert found.mean()[:-1] == pytest.approx(means, rel=2e-3)
    assert found.empty() == pytest.approx(empties, rel=5e-3, abs=1e-9)


def test_everything_else_by_hand() -> None:
    for noisy in (-30, -3, 0, 4, 200):
        distribution = np.exp(-0.1 * np.abs(np.arange(-2000, 2001)))
        value = np.maximum(noisy + np.arange(-2000, 2001), 0)
        reached = np.cumsum(distribution / distribution.sum())
        found = number_near(noisy, 0.1)
        low, high = found.interval(0.9)
        assert (low, high) == (value[np.argmax(reached >= 0.05)], value[np.argmax(reached >= 0.95)])
        assert found.mean() == pytest.approx(
            float(distribution @ value / distribution.sum()), rel=1e-2, abs=0.05
        )


def zipf(rng: np.random.Generator) -> dict[int, int]:
    codes, counts = np.unique(rng.zipf(1.5, 20_000) % 10**9, return_counts=True)
    return dict(zip(codes.tolist(), counts.tolist(), strict=True))


def few(rng: np.random.Generator) -> dict[int, int]:
    return dict(enumerate(rng.multinomial(20_000, np.ones(20) / 20).tolist()))


@pytest.mark.parametrize("make", [zipf, few])
@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say(make: Any) -> None:
    """150 releases: of the two numbers of each at least 112 of 150 intervals; a false alarm is below 1e-7."""
    m, rng = Sparse(Fraction(1, 2), 10**9), np.random.default_rng(3)
    levels: list[bool] = []
    rest = total = 0
    for seed in range(150):
        counts = make(rng)
        out = m.run(counts, SeededEntropy(seed))
        found = SparsePosterior(list(out.counts.values()), out.rest, m)
        true = np.array([counts.get(place, 0) for place in out.counts])
        n = sum(counts.values())
        low, high = found.interval(0.9)
        levels += ((low[:-1] <= true) & (true <= high[:-1])).tolist()
        rest += bool(low[-1] <= n - true.sum() <= high[-1])
        ends = found.total.interval(0.9)
        total += bool(ends[0] <= n <= ends[1])
    assert len(levels) > 2000
    assert 0.88 <= np.mean(levels) <= 0.96
    assert min(rest, total) >= 112


@pytest.mark.parametrize(("allowed", "doubtful"), [("1", True), ("0.01", False)])
def test_the_answer_says_where_its_total_is_not_to_be_trusted(allowed: str, doubtful: bool) -> None:
    notes = " ".join(asked([7] * 90, levels=range(1000), options={"expected_false": allowed}).notes)
    assert ("interval of all records covers less often" in notes) == doubtful
