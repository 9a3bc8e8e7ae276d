"""What somebody met who used the package for the first time, from its documentation alone."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import discreet
from discreet.data.withheld import withheld
from discreet.distributions.law import PlugInInterval
from discreet.ledger.chain import scope_after
from discreet.questions.widths import POINTS, as_within
from discreet.study.study import read_study

ROOT = Path(__file__).resolve().parent.parent
PEOPLE = pd.DataFrame({"sex": ["f", "m"] * 100, "smokes": ["yes", "no", "no", "yes", "no"] * 40})
LEVELS = {"sex": ("f", "m"), "smokes": ("yes", "no")}


@pytest.mark.parametrize("levels", [("a", "b"), ("a", "b", "c")])
def test_the_plug_in_posterior_says_what_it_is(levels: tuple[str, ...]) -> None:
    release = discreet.release(["a", "b"] * 50, levels=levels, epsilon=1)
    posterior = release.posterior
    for one in (posterior, posterior.marginal(0), posterior.updated([0] * len(levels))):
        assert repr(one).startswith("plug-in ")
        assert "noise_aware()" in str(one)
        assert repr(one.interval()).startswith("PlugInInterval(low=")
    assert len(posterior.interval()) == 2
    assert isinstance(posterior.interval(), PlugInInterval)
    fresh = type(posterior)(*((posterior.alpha,) if len(levels) > 2 else posterior.parameters))
    assert posterior == fresh
    assert repr(fresh).startswith(type(posterior).__name__)
    assert not isinstance(fresh.interval(), PlugInInterval)
    assert "noise-aware" in str(release.noise_aware())


def test_groups_are_compared_where_they_are_shown() -> None:
    table = discreet.release_table(PEOPLE, LEVELS, epsilon=1)
    assert "noise-aware" in str(table.margin("sex"))
    given = {"outcome": "smokes", "given": "sex", "levels": ("yes", "no"), "groups": ("f", "m")}
    groups = discreet.release_conditional(PEOPLE, **given, sizes=(100, 100), epsilon=1)
    for answer in (table, groups):
        shares, differences = answer.tables()
        assert shares.header == ("smokes", "sex: f", "sex: m")
        assert differences.header == ("smokes", "m − f")
        found = answer.shares("smokes", "sex") if answer is table else answer.shares()
        mean = 100 * found.difference("yes", ("m", "f")).mean()
        assert differences.cells[0][1].startswith(f"{mean:+.1f} (".replace("-", "−"))
        assert "percentage points" in discreet.report(answer)
    assert dict(groups.words().facts)["Records"] == "f: 100; m: 100"
    with pytest.raises(discreet.InvalidInput, match=r"sizes=\(90, 110\).*leave sizes out"):
        discreet.release_conditional(PEOPLE, **given, sizes=(90, 110), epsilon=1)


def test_more_groups_than_levels_run_down_the_page() -> None:
    people = PEOPLE.assign(region=["north", "east", "south", "west"] * 50)
    found = discreet.release_table(
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
    ask = {"column": "sex", "levels": ("f", "m"), "epsilon": "0.25"}
    first = discreet.Study(data, budget=1, ledger=book, dataset="people", relation="within-group")
    first.release(**ask, request_id="ana")
    second = discreet.Study(data, ledger=book, dataset="people")
    assert second.relation == "within-group"
    second.release(**ask, request_id="ben")
    account = second.account()
    assert str(account) == "people: ε = 0.5 left of ε = 1; spent ε = 0.5 (within-group)"
    with pytest.raises(discreet.UnknownDatasetError, match="did you mean 'people'"):
        discreet.Study(data, ledger=book, dataset="peple")
    with pytest.raises(discreet.InvalidInput, match="budget is missing"):
        discreet.Study(data)
    with pytest.raises(discreet.InvalidInput, match="leave the budget out to join it"):
        discreet.Study(data, ledger=book, dataset="people", budget=2)

    file = tmp_path / "third.toml"
    head = '[study]\ndata = "people.csv"\nledger = "book.db"\n'
    question = '[[question]]\nid = "carl"\ncolumn = "sex"\nlevels = ["f", "m"]\n'
    file.write_text(head + 'dataset = "people"\n' + question + 'epsilon = "0.1"\n')
    declared = read_study(file)
    assert (declared.open().budget, declared.open().relation) == (account.cap, "within-group")
    file.write_text(head + question + 'epsilon = "0.1"\n')
    with pytest.raises(discreet.InvalidInput, match=r"\[budget\].*or, to join"):
        read_study(file)


def test_another_relation_gets_the_advice_that_helps() -> None:
    nearby = discreet.Guarantee(1, "replace-nearby", unit="5 years")
    with pytest.raises(discreet.GuaranteeMismatchError, match="created with relation='replace-nearby'") as no:
        scope_after("people", (discreet.Relation.REPLACE_ONE, None), nearby)
    assert "for_unit" not in str(no.value)
    with pytest.raises(discreet.GuaranteeMismatchError, match=r"for_unit\('patient', at_most=NUMBER\)"):
        scope_after("people", (discreet.Relation.REPLACE_PERSON, "patient"), discreet.Guarantee(1))
    with pytest.raises(discreet.InvalidInput) as no_sum:
        discreet.compose([nearby, discreet.Guarantee(1)])
    assert "for_unit" not in str(no_sum.value)


def test_a_network_that_is_declared_as_text(tmp_path: Path) -> None:
    with pytest.raises(discreet.InvalidInput, match=r"levels='sex=f,m'.*in a study file levels = \{sex ="):
        discreet.release_network(PEOPLE, parents={"smokes": ("sex",)}, levels="sex=f,m", epsilon=1)


def test_warnings_point_at_whoever_asked() -> None:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        discreet.release_conditional(
            PEOPLE, outcome="smokes", given="sex", levels=("yes", "no"), groups=("f", "m"), epsilon=1
        )
        discreet.Study(PEOPLE, budget=30).release(column="sex", levels=("f", "m"), epsilon=20)
    assert [Path(one.filename).name for one in heard] == [Path(__file__).name] * 2


def test_a_missing_package_is_named() -> None:
    @withheld
    def needs() -> None:
        raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")

    with pytest.raises(discreet.DataError, match="pyarrow is not installed"):
        needs()


def test_a_csv_file_is_not_blamed_for_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PEOPLE.assign(age=30).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(discreet.DataError, match="pyarrow is not installed"):
        discreet.regress(
            "age ~ C(sex)", tmp_path / "people.csv", bounds={"age": (0, 99)}, levels={"sex": ("f", "m")},
            epsilon=1, delta="1e-6",
        )  # fmt: skip


def test_no_page_names_a_package_that_is_on_no_registry() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.ipynb")):
        lines = [
            line for line in page.read_text("utf-8").splitlines() if not line.endswith("# once published")
        ]
        assert not re.search(r"pip install '?\"?discreet", "\n".join(lines)), page
