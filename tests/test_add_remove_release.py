"""Releases whose number of records is private: nothing but the noisy counts may depend on it."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import discreet
import shorthand
from discreet._cli import app
from discreet._declarations import Domain
from discreet._inference.add_remove import AddRemovePosterior
from discreet._reporting.report import report
from discreet.answers.conditional import ConditionalRelease
from discreet.answers.release import Release
from discreet.errors import DataError, GuaranteeMismatchError, InvalidInputError
from discreet.mechanisms.independent import GaussianCounts, Geometric
from effort import processor_seconds
from shorthand import groups_request, table_request

LEVELS = ("no", "yes", "maybe")
RECORDS = ["no"] * 4321 + ["yes"] * 2987 + ["maybe"] * 13
SIZE = len(RECORDS)


def asked(data: Any = RECORDS, **options: Any) -> Release:
    given = {"levels": LEVELS, "epsilon": 1, "hidden": options.get("relation") is None, **options}
    return shorthand.shares(data, **given)


def known_total(release: Release) -> Any:
    aware = release.posterior
    assert isinstance(aware, AddRemovePosterior)
    return aware.total


def test_names() -> None:
    release = asked()
    assert (release.mechanism, release.n) == ("geometric", None)
    assert str(release.guarantee) == "ε = 1 (add-remove)"
    assert "whether any one record is there at all" in release.guarantee.meaning().lower()
    aware = release.posterior
    low, high = aware.interval(0.9)
    assert (low < aware.mean()).all()
    assert (aware.mean() < high).all()
    assert isinstance(aware, AddRemovePosterior)
    first, last = aware.total.interval(0.999999)
    assert first <= SIZE <= last
    assert aware.total.mean() == pytest.approx(SIZE, abs=60)
    assert float(release.likelihood().log_prob(np.array(RECORDS_COUNTS, dtype=float))) < 0


RECORDS_COUNTS = [4321, 2987, 13]


def test_two_levels_are_two_shares() -> None:
    aware = asked({"no": 70, "yes": 30}, levels=("no", "yes")).posterior
    low, high = aware.interval(0.9)
    assert (low < aware.mean()).all()
    assert (aware.mean() < high).all()
    assert aware.mean().sum() == pytest.approx(1)
    for i in range(2):
        assert aware.marginal(i).interval(0.9) == pytest.approx((low[i], high[i]), abs=1e-5)


def test_delta_means_gaussian_with_either_relation() -> None:
    for relation in ("add-remove", "replace-one"):
        release = asked(delta="1e-6", relation=relation)
        assert release.mechanism == "gaussian"
        assert release.guarantee.relation == relation
        assert (release.guarantee.epsilon, release.guarantee.delta) == (1.0, 1e-6)
    counts = discreet.mechanism("geometric", prior=(1, 1), epsilon=0.5)
    assert isinstance(counts, Geometric)
    normal = discreet.mechanism("gaussian", prior=(1, 1), n=10, epsilon=1, delta=1e-6)
    assert isinstance(normal, GaussianCounts)
    assert normal.variance > discreet.mechanism("gaussian", prior=(1, 1), epsilon=1, delta=1e-6).variance  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"person": "id", "per_person": 1}, "person='id' needs n"),
        ({"mechanism": "lattice"}, "cannot be used with a private n; these can: geometric, gaussian"),
        ({"mechanism": "geometric", "relation": "replace-one"}, "cannot be used with a public n"),
        ({"relation": "replace-one", "expected_n": (1, 10)}, "expected_n is for a private number"),
        ({"expected_n": (10, 1)}, "expected_n="),
        ({"expected_n": (1, 2, 3)}, "expected_n="),
    ],
)
def test_what_does_not_go_together(options: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        asked(**options)


def test_the_price_needs_no_data(tmp_path: Path) -> None:
    question = shorthand.shares_request(LEVELS, epsilon=1, hidden=True)
    assert question.price().epsilon == 1

    class Unopened:
        def __iter__(self) -> Any:
            raise AssertionError("opened for a price")

    study = discreet.Study(Unopened(), LEVELS, epsilon=1, ledger=tmp_path / "ledger.db", dataset="d")
    assert study.price([{"id": "q", "epsilon": 1}]).fits


def frame(records: Any) -> Any:
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"answer": records, "group": (["f", "m"] * len(records))[: len(records)]})


def test_the_empty_dataset_is_answered(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(asked([]).counts) == 3
        assert len(asked({"no": 0}).counts) == 3
        assert len(asked(frame([]), column="answer").counts) == 3
        assert len(asked([], levels=None, edges=(0, 1, 2)).counts) == 2
        columns = {"answer": LEVELS, "group": ("f", "m")}
        table = shorthand.table(frame([]), columns, epsilon=1, hidden=True)
        assert len(table.counts) == 6
        path = tmp_path / "empty.csv"
        path.write_text("answer,group\n")
        assert len(asked(path, column="answer").counts) == 3
        assert known_total(asked([], epsilon="1/1000")).mean() >= 0
    with pytest.raises(DataError, match="empty"):
        asked([], relation="replace-one")


def test_no_error_tells_how_many_there_are() -> None:
    wrong = [*RECORDS, "Yes", None]
    with pytest.raises(DataError) as caught:
        asked(wrong)
    assert not re.search(r"\d", str(caught.value))
    with pytest.raises(DataError) as caught:
        asked(frame(wrong), column="answer")
    assert not re.search(r"\d", str(caught.value))
    with pytest.raises(DataError, match=f"of {len(wrong)} records"):
        asked(wrong, relation="replace-one")


@pytest.mark.parametrize("relation", ["add-remove", "replace-one"])
@pytest.mark.parametrize("wrong", [None, "?"])
def test_no_error_of_a_mean_or_a_regression_tells_how_many(relation: str, wrong: Any) -> None:
    """Of records without a place; under add-remove their number is as private as that of all records."""
    said: set[str] = set()
    for number in (1, 2, 30):
        records = frame([*["no"] * 20, *["yes"] * 20, *[wrong] * number])
        records["x"] = [*range(40), *[wrong] * number]
        options = {"bounds": {"x": (0, 40)}, "relation": relation, "epsilon": 1, "delta": "1e-6"}
        for formula, family in (("x ~ group", "gaussian"), ("answer ~ x", "binomial")):
            levels = {"group": ("f", "m")} if family == "gaussian" else {"answer": ("no", "yes")}
            with pytest.raises(DataError) as caught:
                shorthand.regress(records, formula, family=family, levels=levels, **options)
            said.add(str(caught.value))
        with pytest.raises(DataError) as caught:
            shorthand.mean(records, column="x", bounds=(0, 40), epsilon=1, relation=relation)
        said.add(str(caught.value))
    assert len(said) <= 3
    assert not re.search(r"\d", "".join(said))
    assert wrong is not None or any("say missing='exclude', or a number" in text for text in said)


def test_those_who_answered() -> None:
    partly = [*RECORDS, *[None] * 5000]
    for data, options in ((partly, {}), (frame(partly), {"column": "answer"})):
        release = asked(data, missing="exclude", **options)
        assert release.counts == pytest.approx(RECORDS_COUNTS, abs=40)
        assert ("Missing values", "left out: these are shares of those who answered") in release.words().facts
        assert Release.from_json(release.to_json()) == release
    bins = asked([0.5, None, 1.5], levels=None, edges=(0, 1, 2), missing="exclude")
    assert len(bins.counts) == 2
    columns: dict[str, Any] = {"answer": Domain(LEVELS, missing="exclude"), "group": ("f", "m")}
    table = shorthand.table(frame(partly), columns, epsilon=1, hidden=True)
    assert sum(table.counts) == pytest.approx(SIZE, abs=200)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_one_word_leaves_out_who_did_not_answer_in_all_columns(relation: str) -> None:
    data = frame([*RECORDS, *[None] * 50])
    places = {"answer": LEVELS, "group": ("f", "m")}
    known = {name: Domain(levels, missing="exclude") for name, levels in places.items()}
    both: dict[str, Any] = {"epsilon": 1, "relation": relation}
    plain, spelt = (
        table_request(columns=places, missing="exclude", **both),
        table_request(columns=known, **both),
    )
    assert plain.read(data) == spelt.read(data)
    assert plain.domain == spelt.domain
    names: dict[str, Any] = {"outcome": "answer", "by": "group", **both}
    plain_groups = groups_request(levels=LEVELS, groups=places["group"], missing="exclude", **names)
    spelt_groups = groups_request(levels=known["answer"], groups=known["group"], **names)
    assert plain_groups.read(data) == spelt_groups.read(data)
    assert plain_groups.domain == spelt_groups.domain
    own = table_request(columns={**places, "answer": Domain(LEVELS, missing="no")}, missing="exclude", **both)
    assert own.domains["answer"].missing == "no"
    with pytest.raises(InvalidInputError, match="missing='skip'"):
        table_request(columns=places, missing="skip", **both)


def test_groups_hide_their_sizes() -> None:
    options: dict[str, Any] = {
        "outcome": "answer", "by": "group", "levels": LEVELS, "groups": ("f", "m", "x"), "epsilon": 1,
        "hidden": True,
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        release = shorthand.groups(frame(RECORDS), **options)
    assert release.sizes is None
    assert str(release.guarantee) == "ε = 1 (add-remove)"
    assert all(one is not None for one in release.releases)
    assert ConditionalRelease.from_json(release.to_json()) == release
    text = release.summary()
    assert re.search(r"^x  ", text, re.MULTILINE)
    assert "n =" not in text
    assert "private" in report(release)
    with pytest.raises(InvalidInputError, match="of a public column"):
        shorthand.groups(frame(RECORDS), sizes=(1, 1, 1), **options)
    with pytest.raises(InvalidInputError, match="private under add-remove"):
        release.pool()


# ---- nothing but the noise depends on n --------------------------------------------------------------------


def frozen(monkeypatch: pytest.MonkeyPatch, output: tuple[int, ...]) -> None:
    """Every mechanism of independent noise gives this output, whatever the data: what else differs leaks."""

    for made in (Geometric, GaussianCounts):
        monkeypatch.setattr(made, "_noise", lambda self, source: list(output))
    monkeypatch.setattr("discreet.mechanisms.independent.add", lambda count, value: value)


def replayed(folder: Path, records: list[str], options: list[str], **about: Any) -> dict[str, Any]:
    """Everything that a release leaves behind: document, report, ledger, output, errors, exit code."""
    folder.mkdir()
    path, out, ledger = folder / "data.csv", folder / "out.json", folder / "ledger.db"
    path.write_text("\n".join(["answer", *records]) + "\n")
    schema = folder / "schema.toml"
    schema.write_text(discreet.Schema({"answer": LEVELS}, **about).to_toml())
    create = ["ledger", "create", "survey", "--epsilon", "3", "--delta", "1e-5", "--relation", "add-remove"]
    runner = CliRunner()
    assert runner.invoke(app, [*create, "--ledger", str(ledger)]).exit_code == 0
    arguments = [
        "proportions", str(path), str(schema), "answer",
        "--epsilon", "1", "--ledger", str(ledger), "--dataset", "survey", "--request-id", "q",
        "--out", str(out),
        *options,
    ]  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        result = runner.invoke(app, arguments)
    (entry,) = [one for one in discreet.Ledger(ledger).history("survey") if one.request_id == "q"]
    release = Release.from_json(out.read_text())
    kept = {name: str(value) for name, value in vars(entry).items() if name not in HISTORY}
    printed = re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d\S*", "…", result.output + (result.stderr or ""))
    return {
        "document": out.read_bytes(),
        "report": report(release),
        "ledger": kept,
        "printed": printed.replace(str(folder), ""),
        "warnings": [str(one.message) for one in caught],
        "code": result.exit_code,
    }


HISTORY = {"time", "hash", "previous", "at", "created"}
"""Times and the chain over them, which differ between any two runs."""


@pytest.mark.parametrize(
    ("options", "about"), [([], {}), (["--delta", "1e-6"], {}), ([], {"expected_n": (10, 1000)})]
)
@pytest.mark.parametrize("records", [[], ["no"] * 20 + ["yes"] * 9])
def test_replay_on_neighbours(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    records: list[str],
    options: list[str],
    about: dict[str, Any],
) -> None:
    frozen(monkeypatch, (19, 11, -1))
    one = replayed(tmp_path / "a", records, options, **about)
    other = replayed(tmp_path / "b", [*records, "maybe"], options, **about)
    assert one["code"] == 0, one["printed"]
    assert one == other


def test_replay_finds_a_planted_n(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen(monkeypatch, (19, 11, -1))
    real = Geometric._noisy

    def telling(self: Any, counts: Any, source: Any) -> Any:
        warnings.warn(f"{sum(counts)} records", stacklevel=2)
        return real(self, counts, source)

    monkeypatch.setattr(Geometric, "_noisy", telling)
    one, other = (replayed(tmp_path / name, ["no"] * size, []) for name, size in (("a", 5), ("b", 6)))
    assert one != other


class Fixed(int):
    """Noise with which every sum becomes this number, whatever it was."""

    def __radd__(self, other: Any) -> int:
        return int(self)


ASKED: dict[str, Any] = {
    "mean": discreet.Mean("x", epsilon=1),
    "means by group": discreet.Mean("x", by="g", epsilon=1, delta="1e-6"),
    "quantiles": discreet.Quantiles("x", by="g", epsilon=1),
    "survival": discreet.Survival("x", "g", bins=3, epsilon=1),
    "robust regression": discreet.Regress("x ~ g", epsilon=1, delta="1e-6", options={"errors": "robust"}),
    "weighted table": discreet.Proportions(("g", "h"), epsilon=1),
    "weighted mean by group": discreet.Mean("x", by="g", epsilon=1, delta="1e-6"),
}


def left_behind(folder: Path, records: list[tuple[Any, ...]], name: str) -> dict[str, Any]:
    """Everything that an answer leaves behind: document, text, report, ledger, warnings."""
    folder.mkdir()
    frame = pd.DataFrame(records, columns=["x", "g", "h", "w"])
    columns: Any = {"x": discreet.Number(0, 10, missing="exclude"), "g": ["u", "v"], "h": [1, 2]}
    if name.startswith("weighted"):
        columns["w"] = discreet.Weight(2)
    ledger = discreet.Ledger(folder / "ledger.db")
    ledger.create("survey", epsilon=3, delta="1e-5", relation="add-remove")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        charge = discreet.Charge(ledger, "survey", "q")
        answer = discreet.ask(
            frame, ASKED[name], schema=discreet.Schema(columns, strict=False), charge=charge
        )
    (entry,) = [one for one in ledger.history("survey") if one.request_id == "q"]
    return {
        "document": answer.to_json(),
        "text": answer.summary(),
        "report": report(answer),
        "draws": answer.draws(5, seed=1).tolist(),
        "ledger": {part: str(value) for part, value in vars(entry).items() if part not in HISTORY},
        "warnings": [str(one.message) for one in caught],
    }


@pytest.mark.parametrize(("size", "added"), [(0, (9.0, "v", 2, 7.5)), (40, (None, "?", None, -1.0))])
@pytest.mark.parametrize("name", ASKED)
def test_replay_of_every_kind_on_neighbours(
    name: str, size: int, added: tuple[Any, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With noise that hides all sums an added record changes nothing, whole or with no value in its place."""
    for made in (Geometric, GaussianCounts):
        monkeypatch.setattr(made, "_noise", lambda self, source: list(range(3, 3 + self.k)))
    monkeypatch.setattr("discreet.mechanisms.independent.add", lambda count, value: value)
    for module in ("answers.weighted", "regression.means"):
        monkeypatch.setattr(f"discreet.{module}.discrete_laplace", lambda p, q, source: Fixed(50))
        monkeypatch.setattr(f"discreet.{module}.rounded_gaussian", lambda variance, source: Fixed(50))
    newton = "discreet.regression._newton.sums.rounded_gaussians"
    monkeypatch.setattr(newton, lambda variance, number, source: [Fixed(10**9)] * number)
    records = [(float(i % 7), "uv"[i % 2], 1 + i % 2, 1.0) for i in range(size)]
    one = left_behind(tmp_path / "one", records, name)
    assert one == left_behind(tmp_path / "other", [*records, added], name)


def test_n_is_nowhere_in_the_document() -> None:
    release = asked(frame(RECORDS), column="answer")
    document = release.document()["release"]
    assert "n" not in document["parameters"]
    assert set(document) - {"total_prior", "column"} == set(
        asked(relation="replace-one").document()["release"]
    )  # the same parts otherwise
    assert str(SIZE) not in json.dumps({**document, "counts": [], "noisy": []})
    text = release.to_json()
    assert Release.from_json(text) == release
    planted = {**release.content(), "parameters": {**release.parameters, "n": SIZE}}
    with pytest.raises(ValueError, match="n is private"):
        Release.from_content(planted).check_parts()


def test_rows_words_and_report() -> None:
    release = asked()
    assert "n private" in release.words().name
    text = release.summary()
    assert "The number of records is private" in text
    assert "whether any one record is there at all" in report(release).lower()
    assert [row.name for row in release.rows()] == list(LEVELS)
    figure = release.figure()
    assert len(figure.series) == 3


def test_a_ledger_mixes_no_relations(tmp_path: Path) -> None:
    ledger = discreet.Ledger(tmp_path / "ledger.db")
    ledger.create("survey", epsilon=2)
    with pytest.raises((GuaranteeMismatchError, InvalidInputError), match="add-remove"):
        asked(ledger=ledger, dataset="survey")
    study = discreet.Study(RECORDS, LEVELS, epsilon=2, ledger=ledger, dataset="hidden")
    release = study.proportions(epsilon=1)
    assert release.guarantee.relation == "add-remove"
    with pytest.raises((GuaranteeMismatchError, InvalidInputError), match="replace-one"):
        shorthand.shares(RECORDS, levels=LEVELS, epsilon=1, ledger=ledger, dataset="hidden")


# ---- many levels -------------------------------------------------------------------------------------------


def test_a_hundred_thousand_levels() -> None:
    k = 100_000
    rng = np.random.default_rng(3)
    true = rng.poisson(rng.gamma(0.5, 20.0, k))
    counts = {f"level{i}": int(records) for i, records in enumerate(true)}
    with processor_seconds(60):
        release = asked(counts, levels=tuple(counts), prior=0.5)
        low, high = release.posterior.interval(0.9)
        text = release.to_json()
        assert Release.from_json(text) == release
        assert len(release.rows()) == k
    assert (low < high).all()
    first, last = known_total(release).interval(0.999999)
    assert first <= sum(counts.values()) <= last


# ---- intervals hold ----------------------------------------------------------------------------------------


def test_coverage_of_whole_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """400 intervals at 90 %, all seeded: five standard deviations around it."""
    rng = np.random.default_rng(5)

    def noise(self: Any, source: Any) -> list[int]:
        draws = rng.geometric(-np.expm1(-float(self.epsilon)), (2, self.k))
        return (draws[0] - draws[1]).tolist()  # type: ignore[no-any-return]

    monkeypatch.setattr(Geometric, "_noise", noise)
    inside = 0
    for _ in range(16):
        shares = rng.dirichlet(np.ones(25))
        true = rng.multinomial(500, shares)
        release = asked(dict(enumerate(true.tolist())), levels=range(25), epsilon="0.5")
        low, high = release.posterior.interval(0.9)
        inside += int(((low <= shares) & (shares <= high)).sum())
        first, last = known_total(release).interval(0.999999)
        assert first <= 500 <= last
    assert 0.82 < inside / 400 < 0.98


def test_a_study_file(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("\n".join(["answer,group", "no,f", "yes,m", ",f"]) + "\n")
    (tmp_path / "study.toml").write_text(
        """
        [study]
        data = "data.csv"
        epsilon = 1
        [schema.columns]
        answer = { values = ["no", "yes", "maybe"], missing = "exclude" }
        group = ["f", "m"]
        [[question]]
        id = "answers"
        columns = "answer"
        epsilon = "0.5"
        [[question]]
        id = "groups"
        columns = "answer"
        by = "group"
        epsilon = "0.5"
        """
    )
    result = discreet.run_study(tmp_path / "study.toml")
    page = report(result)
    assert "learning whether any one record is there at all" in page
    assert "The number of records is private" in page
