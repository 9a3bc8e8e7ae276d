"""What is published of sums depends on the data through noisy sums alone: frozen noise on neighbours.

Everything that leaves (document, report, ledger entry, terminal, warnings) is compared byte by byte, for
datasets that differ by one record, after the noisy sums were put in place of the exact ones.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet
import shorthand
from discreet._reporting.report import report
from discreet.errors import DiscreetError, GuaranteeMismatchError, InvalidInputError
from discreet.mechanisms.independent import IndependentNoise
from discreet.mechanisms.lattice import Lattice
from discreet.regression import means
from discreet.regression._newton import rounds
from discreet.regression._newton.sums import RoundSums

DECLARED: dict[str, Any] = {
    "gaussian": {"bounds": {"x": (0, 10), "y": (-5, 5)}},
    "binomial": {"bounds": {"x": (0, 10)}, "levels": {"y": ("no", "yes")}},
    "multinomial": {"bounds": {"x": (0, 10)}, "levels": {"y": ("no", "yes", "else")}},
    "poisson": {"bounds": {"x": (0, 10), "y": (0, 20)}},
}


def records(family: str, number: int) -> pd.DataFrame:
    generator = np.random.default_rng(5)
    x = generator.uniform(0, 10, number)
    levels = DECLARED[family].get("levels", {}).get("y")
    if levels:
        y: Any = generator.choice(levels, number)
    else:
        y = generator.integers(0, 5, number).astype(float)
    return pd.DataFrame({"x": x, "y": y})


class Frozen:
    """Noisy sums by round: exact ones of the first dataset, plus a constant; the same for every other."""

    def __init__(self) -> None:
        self.kept: list[RoundSums] = []
        self.at = 0

    def __call__(self, sums: RoundSums, noise: Any, source: Any) -> RoundSums:
        if self.at == len(self.kept):
            curvature = tuple(s + 5 for s in sums.curvature) if noise.curvature is not None else ()
            square = sums.square + 1 if noise.square is not None else 0
            self.kept.append(RoundSums(tuple(s + 3 for s in sums.gradient), curvature, square))
        self.at += 1
        return self.kept[self.at - 1]


def published(answer: Any, ledger: discreet.Ledger) -> dict[str, str]:
    page = report(answer)
    entry = ledger.history("d")[-1].to_dict()
    kept = {key: entry[key] for key in ("charged", "spent", "plan", "guarantee", "result", "relation")}
    return {
        "document": answer.to_json(),
        "text": str(answer),
        "report": page if isinstance(page, str) else str(page),
        "entry": json.dumps(kept, sort_keys=True),
    }


def everything(folder: Path, relation: str, delta: Any, ask: Any) -> dict[str, str]:
    folder.mkdir()
    with discreet.Ledger(folder / "ledger.db") as ledger, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        ledger.create("d", epsilon=5, relation=relation, **({} if delta is None else {"delta": "1e-3"}))
        found = published(ask(ledger=ledger, dataset="d", request_id="r"), ledger)
        return {**found, "warnings": "\n".join(str(one.message) for one in said)}


def neighbours(frame: pd.DataFrame, relation: str, change: dict[str, Any]) -> pd.DataFrame:
    if relation == "add-remove":
        return frame.iloc[:-1]
    other = frame.copy()
    for column, value in change.items():
        other.loc[other.index[0], column] = value
    return other


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("family", sorted(DECLARED))
@pytest.mark.parametrize("missing", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_regression_is_a_function_of_its_noisy_sums(
    family: str, relation: str, missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = records(family, 40)
    other = neighbours(frame, relation, {"x": np.nan if missing else 0.0, "y": frame["y"].iloc[1]})
    frozen = Frozen()
    monkeypatch.setattr(rounds, "add_noise", frozen)
    rule = {"missing": {"x": "exclude"}} if missing else {}

    def ask(data: pd.DataFrame) -> Any:
        frozen.at = 0
        declared = {**DECLARED[family], **rule, "family": family, "relation": relation}
        return lambda **charge: shorthand.regress(
            data, "y ~ x", **declared, epsilon=1, delta="1e-6", **charge
        )

    one = everything(tmp_path / "a", relation, "1e-6", ask(frame))
    assert everything(tmp_path / "b", relation, "1e-6", ask(other)) == one


@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize(
    ("relation", "options"),
    [
        ("replace-one", {}),
        ("replace-one", {"missing": "exclude"}),
        ("replace-one", {"by": "g", "levels": ("a", "b")}),
        ("add-remove", {}),
        ("add-remove", {"missing": "exclude"}),
        ("add-remove", {"by": "g", "levels": ("a", "b")}),
    ],
)
def test_a_mean_is_a_function_of_its_noisy_sums(
    relation: str, options: dict[str, Any], delta: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"x": np.linspace(0, 10, 21), "g": ["a", "b", "a"] * 7})
    change = {"x": np.nan if "missing" in options else 10.0, "g": "b"}
    other = neighbours(frame, relation, change)
    fixed = iter([(100, 2_000_000, 20), (-300, 3_000_000, 11)] * 2)
    whole = means.MeanDesign.answer

    def frozen(self: means.MeanDesign, cells: Any, total: int, *source: Any) -> Any:
        drawn = {name: next(fixed) for name in cells}

        class Cancelling(means.MeanNoise):
            def draw(self, source: Any) -> tuple[int, int, int]:
                name = next(names)
                (count, first, second), (a, b, c) = cells[name], drawn[name]
                return a - first, b - second, c - count

        names = iter(list(cells))
        noise = self.noise
        object.__setattr__(
            self, "noise", Cancelling(noise.epsilon, noise.mu_squared, noise.steps, noise.people)
        )
        return whole(self, cells, total, *source)

    monkeypatch.setattr(means.MeanDesign, "answer", frozen)

    def ask(data: pd.DataFrame) -> Any:
        asked: dict[str, Any] = {
            "bounds": (0, 10),
            "epsilon": 1,
            "delta": delta,
            "relation": relation,
            **options,
        }
        return lambda **charge: shorthand.mean(data, "x", **asked, **charge)

    one = everything(tmp_path / "a", relation, delta, ask(frame))
    fixed = iter([(100, 2_000_000, 20), (-300, 3_000_000, 11)] * 2)
    assert everything(tmp_path / "b", relation, delta, ask(other)) == one


@pytest.mark.parametrize("family", sorted(DECLARED))
def test_the_empty_dataset_is_answered_where_its_size_is_private(family: str) -> None:
    """It is a neighbour of a dataset with one record; that it was refused told that there was none."""
    asked: dict[str, Any] = {
        **DECLARED[family],
        "family": family,
        "epsilon": 1,
        "delta": "1e-6",
        "relation": "add-remove",
    }
    for number in (0, 1):
        fit = shorthand.regress(records(family, 1).iloc[:number], "y ~ x", **asked)
        assert np.isfinite(fit.mean()).all()
    with pytest.raises(DiscreetError, match="empty"):
        shorthand.regress(records(family, 1).iloc[:0], "y ~ x", **{**asked, "relation": "replace-one"})


def test_data_of_which_every_record_is_left_out_are_summed() -> None:
    """How many records are left out is private, so that all are must not show."""
    duckdb = pytest.importorskip("duckdb")
    from discreet.regression._newton.fit import regression
    from discreet.regression._newton.records import read

    asked = regression(
        "y ~ x", family="binomial", **DECLARED["binomial"], missing={"x": "exclude"}, epsilon=1, delta="1e-6"
    )
    data = duckdb.sql("SELECT CAST(NULL AS DOUBLE) AS x, 'no' AS y FROM range(3)")
    link = asked.model.link(asked.design, np.zeros(2))
    with read(asked.design, data) as found:
        assert found.sums(asked.model, link, True) == RoundSums((0, 0), (0, 0, 0), 0)


def test_a_bound_per_person_does_not_go_with_add_remove() -> None:
    """One record more of a person who has one takes its place: two records change, where ε pays for one.

    With the noise of add-remove the loss was 2ε for groups of means, and Δ was half of what it should be.
    """
    frame = pd.DataFrame({"x": [0.0, 9.0], "y": ["no", "yes"], "who": [1, 1]})
    for columns in ({"x": (0, 10), "y": ("no", "yes")}, {"y": ("no", "yes")}):
        with pytest.raises(InvalidInputError, match="one record per person"):
            discreet.Schema(columns, person="who", per_person=1)
    schema = discreet.Schema({"x": (0, 10), "y": ("no", "yes")}, n=2, person="who", per_person=2)
    assert discreet.mean(frame, "x", schema=schema, epsilon=1).guarantee.unit == "who"


def test_a_study_does_not_price_what_its_budget_refuses(tmp_path: Path) -> None:
    """What protects another kind of person fitted by price, and would be refused when asked."""
    frame = pd.DataFrame({"y": ["no", "yes"] * 5, "p": range(10), "v": range(10)})

    def study(person: str) -> discreet.Study:
        schema = discreet.Schema({"y": ("no", "yes")}, n=10, person=person, per_person=1)
        return discreet.Study(frame, schema, epsilon=1, ledger=tmp_path / "ledger.db", dataset="people")

    asked = {"id": "q", "columns": "y", "epsilon": "0.4"}
    study("p").answer({**asked, "id": "first"})
    assert study("p").price([asked]).fits
    with pytest.raises(GuaranteeMismatchError, match="unit 'p'"):
        study("v").price([asked])


def test_every_part_of_a_conditional_release_says_within_group() -> None:
    data = {"a": {"no": 5, "yes": 3}, "b": {"no": 2, "yes": 6}}
    frame = pd.DataFrame(
        [{"g": g, "y": y} for g, row in data.items() for y, number in row.items() for _ in range(number)]
    )
    asked: dict[str, Any] = {"outcome": "y", "by": "g", "levels": ("no", "yes"), "groups": ("a", "b")}
    told = shorthand.groups(frame, epsilon="0.5", sizes=(8, 8), **asked)
    assert [part.guarantee.relation for part in (told, *told.releases)] == ["within-group"] * 3
    assert "the 'g' of every record" in told.guarantee.assumptions[0]
    hidden = shorthand.groups(frame, epsilon="0.5", hidden=True, **asked)
    assert {part.guarantee.relation for part in (hidden, *hidden.releases)} == {"add-remove"}


def test_people_are_named_and_pay_what_was_asked() -> None:
    """A person of two records: the guarantee is the person's, with the ε that was asked for."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 9.0], "y": ["no", "yes", "no", "yes"], "who": [1, 1, 2, 2]})
    people: dict[str, Any] = {"person": "who", "per_person": 2, "n": 4, "epsilon": 2}
    binomial: dict[str, Any] = {"family": "binomial", **DECLARED["binomial"]}
    for answer in (
        shorthand.mean(frame, "x", bounds=(0, 10), **people),
        shorthand.mean(frame, "x", bounds=(0, 10), delta="1e-6", **people),
        shorthand.regress(frame, "y ~ x", **binomial, delta="1e-6", **people),
        shorthand.shares(frame, column="y", levels=("no", "yes"), **people),
    ):
        promised = answer.guarantee
        assert (str(promised.relation), promised.unit, promised.epsilon) == ("replace-person", "who", 2)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_a_network_is_a_function_of_its_noisy_tables(
    relation: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    levels = {"a": ("no", "yes"), "b": ("no", "yes"), "c": ("no", "yes")}
    generator = np.random.default_rng(5)
    frame = pd.DataFrame({name: generator.choice(own, 40) for name, own in levels.items()})
    changed = {name: "yes" if frame[name].iloc[0] == "no" else "no" for name in levels}
    kept: list[tuple[int, ...]] = []
    calls: list[int] = []

    def frozen(mechanism: Any, counts: tuple[int, ...], source: Any) -> tuple[int, ...]:
        calls.append(1)
        if len(calls) > len(kept):
            kept.append(counts)
        return kept[len(calls) - 1]

    for made in (Lattice, IndependentNoise):
        monkeypatch.setattr(made, "_noisy", frozen)

    def ask(data: pd.DataFrame) -> Any:
        calls.clear()
        declared = {"parents": {"b": "a", "c": "b"}, "levels": levels, "relation": relation}
        return lambda **charge: shorthand.network(data, **declared, epsilon=1, **charge)

    one = everything(tmp_path / "a", relation, None, ask(frame))
    other = neighbours(frame, relation, changed)
    assert everything(tmp_path / "b", relation, None, ask(other)) == one
    assert len(kept) == 2
