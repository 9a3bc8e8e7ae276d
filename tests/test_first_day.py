"""What somebody met who used the package for the first time, from its documentation alone."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet
import shorthand
from discreet._data.guard import redact_errors
from discreet._declarations import Relation
from discreet.distributions.base import PlugInInterval
from discreet.errors import DataError, GuaranteeMismatchError, InvalidInputError, UnknownDatasetError
from discreet.ledger._chain import scope_after
from discreet.questions.widths import POINTS, as_within
from discreet.study.study import read_study

ROOT = Path(__file__).resolve().parent.parent
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 100, "smokes": ["yes", "no", "no", "yes", "no"] * 40})
LEVELS = {"sex": ("f", "m"), "smokes": ("yes", "no")}


@pytest.mark.parametrize("levels", [("a", "b"), ("a", "b", "c")])
def test_the_plug_in_posterior_says_what_it_is(levels: tuple[str, ...]) -> None:
    release = shorthand.shares(["a", "b"] * 50, levels=levels, epsilon=1)
    posterior = release.plug_in
    for one in (posterior, posterior.marginal(0), posterior.update([0] * len(levels))):
        assert repr(one).startswith("plug-in ")
        assert "see `posterior`" in str(one)
        assert repr(one.interval()).startswith("PlugInInterval(low=")
    assert len(posterior.interval()) == 2
    assert isinstance(posterior.interval(), PlugInInterval)
    fresh = type(posterior)(*((posterior.alpha,) if len(levels) > 2 else posterior.parameters))
    assert posterior == fresh
    assert repr(fresh).startswith(type(posterior).__name__)
    assert not isinstance(fresh.interval(), PlugInInterval)
    assert "noise-aware" in str(release.posterior)


def test_groups_are_compared_where_they_are_shown() -> None:
    table = shorthand.table(PEOPLE, LEVELS, epsilon=1)
    given = {"outcome": "smokes", "by": "sex", "levels": ("yes", "no"), "groups": ("f", "m")}
    groups = shorthand.groups(PEOPLE, **given, sizes=(100, 100), epsilon=1)
    for answer in (table, groups):
        (shares,) = answer.tables()
        assert shares.header == ("smokes", "sex: f", "sex: m", "m − f")
        found = table.difference("yes", ("m", "f"), given="sex") if answer is table else None
        found = groups.difference("yes", ("m", "f")) if found is None else found
        assert shares.cells[0][3].startswith(f"{100 * found.mean():+.1f} (".replace("-", "−"))
        assert "percentage points" in discreet.report(answer)
    assert dict(groups.words().facts)["Records"] == "f: 100; m: 100"
    with pytest.raises(InvalidInputError, match=r"sizes of 'sex'.*leave them out"):
        shorthand.groups(PEOPLE, **given, sizes=(90, 110), epsilon=1)


def test_more_groups_than_levels_run_down_the_page() -> None:
    people = PEOPLE.assign(region=["north", "east", "south", "west"] * 50)
    found = shorthand.table(
        people, {"region": ("north", "east", "south", "west"), "smokes": ("yes", "no")}, epsilon=1
    )
    shares, differences = found.tables()
    assert shares.header == ("region", "yes", "no")
    assert [row[0] for row in differences.cells] == ["east − north", "south − north", "west − north"]
    assert max(map(len, str(found).splitlines())) <= 80


@pytest.mark.parametrize("within", [3, "3", "3 points", "±3", 0.03, "3 %"])
def test_three_points_in_any_words(within: Any) -> None:
    assert as_within(within, POINTS) == pytest.approx(0.03)
    assert as_within(7, "years") == 7


def test_a_second_analyst_joins(tmp_path: Path) -> None:
    data, book = tmp_path / "people.csv", tmp_path / "book.db"
    PEOPLE.to_csv(data, index=False)
    schema = discreet.Schema({"sex": discreet.Category(["f", "m"], public=True)}, n=200)
    first = discreet.Study(data, schema, epsilon=1, ledger=book, dataset="people")
    first.proportions("sex", epsilon="0.25", id="ana")
    second = discreet.Study(data, schema, ledger=book, dataset="people")
    assert second.relation == "within-group"
    second.proportions("sex", epsilon="0.25", id="ben")
    account = second.account()
    assert str(account) == "people: ε = 0.5 left of ε = 1; spent ε = 0.5 (within-group)"
    with pytest.raises(UnknownDatasetError, match="did you mean 'people'"):
        discreet.Study(data, schema, ledger=book, dataset="peple")
    with pytest.raises(InvalidInputError, match="epsilon is missing"):
        discreet.Study(data, schema)
    with pytest.raises(InvalidInputError, match="leave epsilon and delta out to join it"):
        discreet.Study(data, schema, ledger=book, dataset="people", epsilon=2)
    with pytest.raises(InvalidInputError, match="for within-group, but this schema is for add-remove"):
        discreet.Study(data, {"sex": ("f", "m")}, ledger=book, dataset="people")

    file = tmp_path / "third.toml"
    head = '[study]\ndata = "people.csv"\nledger = "book.db"\n'
    declared = '[schema]\nn = 200\n[schema.columns]\nsex = {values = ["f", "m"], public = true}\n'
    question = '[[question]]\nid = "carl"\ncolumns = ["sex"]\nepsilon = "0.1"\n'
    file.write_text(head + 'dataset = "people"\n' + declared + question)
    opened = read_study(file).open()
    assert (opened.budget, opened.relation) == (account.cap, "within-group")
    file.write_text(head + declared + question)
    with pytest.raises(InvalidInputError, match=r"epsilon.*join"):
        read_study(file)


def test_another_relation_gets_the_advice_that_helps() -> None:
    nearby = discreet.Guarantee(1, "replace-nearby", unit="5 years")
    with pytest.raises(GuaranteeMismatchError, match="created with relation='replace-nearby'") as no:
        scope_after("people", (Relation.REPLACE_ONE, None), nearby)
    assert "for_unit" not in str(no.value)
    with pytest.raises(GuaranteeMismatchError, match=r"for_unit\('patient', at_most=NUMBER\)"):
        scope_after("people", (Relation.REPLACE_PERSON, "patient"), discreet.Guarantee(1))
    with pytest.raises(InvalidInputError) as no_sum:
        discreet.compose([nearby, discreet.Guarantee(1)])
    assert "for_unit" not in str(no_sum.value)


def test_a_network_that_is_declared_as_text() -> None:
    with pytest.raises(
        InvalidInputError, match=r"parents='smokes=sex'.*in a study file parents = \{income ="
    ):
        discreet.network(PEOPLE, "smokes=sex", schema=LEVELS, epsilon=1)


def test_warnings_point_at_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.questions._asking._warned_uncounted", True)
    grouped = discreet.Schema({**LEVELS, "sex": discreet.Category(["f", "m"], public=True)}, n="public")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        discreet.proportions(PEOPLE, "smokes", by="sex", schema=grouped, epsilon=1)
        discreet.proportions(PEOPLE, "sex", schema=LEVELS, epsilon=20)
    assert [Path(one.filename).name for one in heard] == [Path(__file__).name] * 2


def test_a_missing_package_is_named() -> None:
    @redact_errors
    def needs() -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    with pytest.raises(DataError, match="pyarrow is not installed"):
        needs()


def test_a_csv_file_is_not_blamed_for_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PEOPLE.assign(age=30).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(DataError, match="pyarrow is not installed"):
        shorthand.regress(
            tmp_path / "people.csv",
            "age ~ C(sex)",
            bounds={"age": (0, 99)},
            levels={"sex": ("f", "m")},
            epsilon=1,
            delta="1e-6",
        )


def test_no_page_names_a_package_that_is_on_no_registry() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.ipynb")):
        text = page.read_text("utf-8").replace("# pip install discreet    # once published", "")
        assert not re.search(r"pip install '?\"?discreet", text), page
