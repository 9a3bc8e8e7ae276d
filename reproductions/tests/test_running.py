"""Running experiments: the command, resumption, gallery, and the files each leaves behind."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from discreet._cli import app
from discreet.errors import FileError, InvalidInputError
from discreet_reproductions import catalogue, gallery, index, report, running
from discreet_reproductions.catalogue import EXPERIMENTS, PAPERS, Experiment, chosen
from discreet_reproductions.report import Outcome, Row, Statement, new_figure, plain
from discreet_reproductions.running import Run, reproduce

ROOT = Path(__file__).resolve().parents[2]
CALLS: list[str] = []


def tiny(run: Run) -> Outcome:
    """An experiment of three steps; the second breaks off while ``CALLS`` says so."""
    run.expect(3)

    def compute(i: int) -> list[Row]:
        if i == 1 and "break" in CALLS:
            raise KeyboardInterrupt
        CALLS.append(f"step {i}")
        given = {"quick": run.quick, "data": run.data and run.data.name}
        return [{"i": i, "value": run.seed + i / 3, "limit": float("inf"), **given}]

    rows = [row for i in range(3) for row in run.step(str(i), lambda i=i: compute(i))]  # type: ignore[misc]
    statement = Statement("sum", "a sum", "here", "yes", f"{sum(row['value'] for row in rows)}")
    return Outcome("It adds up.", {"": rows}, {"": new_figure(2, 1)}, [statement], {"limit": float("inf")})


def missing(run: Run) -> Outcome:
    raise FileError("a file is missing")


def refused(run: Run) -> Outcome:
    raise InvalidInputError("an unknown level")


TINY = Experiment("b-tiny", "A tiny one", "tiny:tiny", takes_data=True)
ABSENT = Experiment("b-absent", "Needs more", "tiny:tiny", ("no_such_module",))
FAILING = Experiment("a-failing", "Fails", "tiny:missing")
REFUSED = Experiment("a-refused", "Is refused", "tiny:refused")


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "discreet_reproductions.tiny", sys.modules[__name__])
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (TINY, ABSENT, FAILING))
    CALLS.clear()


def test_a_broken_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    CALLS.append("break")
    with pytest.raises(KeyboardInterrupt):
        list(reproduce([TINY], tmp_path))
    assert CALLS == ["break", "step 0"]
    assert not (tmp_path / "b-tiny.json").exists(), "no verdict, so nothing stands for a result"
    CALLS.clear()
    steps: list[tuple[str, int, int]] = []
    (result,) = reproduce([TINY], tmp_path, advance=lambda *step: steps.append(step))
    assert CALLS == ["step 1", "step 2"]
    assert (result.status, result.verdict, result.agrees) == ("made", "It adds up.", ("yes",))
    assert steps[-1] == ("b-tiny", 3, 3)
    assert not (tmp_path / ".steps").exists(), "a verdict needs no steps"
    kept = (tmp_path / "b-tiny.csv").read_bytes()

    CALLS.clear()
    (result,) = reproduce([TINY], tmp_path)
    assert (result.status, result.agrees, CALLS) == ("kept", ("yes",), [])
    (result,) = reproduce([TINY], tmp_path / "whole")
    assert (tmp_path / "whole" / "b-tiny.csv").read_bytes() == kept, "resumed or whole: the same table"


def test_a_broken_run_keeps_its_steps_and_those_of_others_go(tmp_path: Path) -> None:
    CALLS.append("break")
    with pytest.raises(KeyboardInterrupt):
        list(reproduce([TINY], tmp_path))
    CALLS.clear()
    list(reproduce([TINY], tmp_path, seed=1))
    CALLS.clear()
    list(reproduce([TINY], tmp_path))
    assert CALLS == ["step 1", "step 2"]


def test_a_step_of_several_parts_counts_the_same_when_it_was_kept(tmp_path: Path) -> None:
    for _ in range(2):
        told: list[int] = []
        run = Run("a", steps=tmp_path, advance=lambda name, done, total, told=told: told.append(done))  # type: ignore[misc]
        run.expect(8)

        def compute(run: Run = run) -> list[Row]:
            run.tick()
            run.tick()
            return [{"a": 1}]

        for key in "xy":
            assert run.step(key, compute, 4) == [{"a": 1}]
        assert (run.done, told[-1]) == (8, 8)
    assert told == [0, 4, 8]


def test_what_changes_the_result_makes_it_anew(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    list(reproduce([TINY], tmp_path / "out", data=data))
    for change in ({"seed": 1}, {"quick": True}, {}):
        CALLS.clear()
        if not change:
            (data / "new.csv").write_text("a\n", "utf-8")
        (result,) = reproduce([TINY], tmp_path / "out", data=data, **change)  # type: ignore[arg-type]
        assert (result.status, len(CALLS)) == ("made", 3), change
        seed, quick = change.get("seed", 2017), change.get("quick", False)
        assert (tmp_path / "out" / "b-tiny.csv").read_text("utf-8").splitlines() == [
            "i,value,limit,quick,data",
            *(f"{i},{seed + i / 3!r},inf,{quick},data" for i in range(3)),
        ]
    CALLS.clear()
    (tmp_path / "out" / "b-tiny.png").unlink()
    assert next(reproduce([TINY], tmp_path / "out", data=data)).status == "made"
    assert next(reproduce([TINY], tmp_path / "out", data=data)).status == "kept"
    table = tmp_path / "out" / "b-tiny.csv"
    whole = table.read_bytes()
    table.write_bytes(whole[:-5])
    assert next(reproduce([TINY], tmp_path / "out", data=data)).status == "made", "a table cut short"
    assert table.read_bytes() == whole
    CALLS.clear()
    assert next(reproduce([TINY], tmp_path / "out", data=data, again=True)).status == "made"
    assert len(CALLS) == 3, "anew means that every step is"


def test_data_make_anew_only_what_takes_them(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    without = replace(TINY, takes_data=False)
    list(reproduce([without], tmp_path / "out"))
    assert next(reproduce([without], tmp_path / "out", data=data)).status == "kept"
    assert {e.name for e in EXPERIMENTS if e.takes_data} == {"c-figures34", "c-prior", "beyond-study"}


def test_a_change_of_the_source_makes_it_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"discreet", "discreet_reproductions"}
    assert {package.name for package in running.SOURCES} == names
    monkeypatch.setattr(running, "SOURCES", tuple(tmp_path / name for name in names))
    for name in names:
        (tmp_path / name / "deep").mkdir(parents=True)
        source = tmp_path / name / "deep" / "sensitivity.py"
        source.write_text("a = 1\n", "utf-8")
        before = running.fingerprint(TINY, False, 1, None)
        assert running.fingerprint(TINY, False, 1, None) == before
        source.write_text("a = 2\n", "utf-8")
        assert running.fingerprint(TINY, False, 1, None) != before


def test_a_verdict_never_stands_beside_the_files_of_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    list(reproduce([TINY], tmp_path, quick=True))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(report, "save_plot", interrupted)
        with pytest.raises(KeyboardInterrupt):
            list(reproduce([TINY], tmp_path, seed=1))
    assert not (tmp_path / "b-tiny.json").exists()
    assert next(reproduce([TINY], tmp_path, quick=True)).status == "made"
    assert "2017.0" in (tmp_path / "b-tiny.csv").read_text("utf-8")


def test_side_by_side_and_broken_off(tmp_path: Path) -> None:
    """The second would take half a minute: when the first is done and no more is wanted, it ends."""
    before = set(active_children())
    two = [e for e in EXPERIMENTS if e.name in ("b-figure2", "b-figure11")]
    steps: list[tuple[str, int, int]] = []
    results = reproduce(two, tmp_path, jobs=2, advance=lambda *step: steps.append(step))
    assert next(results).name == "b-figure2"
    start = time.monotonic()
    results.close()  # type: ignore[attr-defined]
    while set(active_children()) - before and time.monotonic() - start < 300:
        time.sleep(0.05)
    assert set(active_children()) == before
    assert (tmp_path / "b-figure2.json").exists()
    assert not (tmp_path / "b-figure11.json").exists()
    assert ("b-figure2", 1, 1) in steps


def test_a_verdict_is_valid_json_with_everything_in_it(tmp_path: Path) -> None:
    list(reproduce([TINY], tmp_path, quick=True))
    found = json.loads((tmp_path / "b-tiny.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert found["settings"] == {"limit": "inf"}
    assert found["files"] == ["b-tiny.csv", "b-tiny.png", "b-tiny.svg"]
    assert all((tmp_path / name).stat().st_size for name in found["files"])
    assert found["sha256"] == {name: report.digest(tmp_path / name) for name in found["files"]}
    assert "date>" not in (tmp_path / "b-tiny.svg").read_text("utf-8"), "or runs would not repeat"
    assert (found["agrees"], found["quick"], found["verdict"]) == (1, True, "It adds up.")
    assert plain({1: (1.5, float("nan"))}) == {"1": [1.5, "nan"]}


def test_what_cannot_be_made_is_said(tmp_path: Path) -> None:
    results = {result.name: result for result in reproduce([ABSENT, FAILING, TINY], tmp_path)}
    assert results["b-absent"].status == "skipped"
    assert "no_such_module" in results["b-absent"].verdict
    assert (results["a-failing"].status, results["a-failing"].verdict) == ("failed", "a file is missing")
    assert results["b-tiny"].status == "made"
    with pytest.raises(FileError, match="not a folder"):
        list(reproduce([TINY], tmp_path, data=tmp_path / "nowhere"))
    with pytest.raises(InvalidInputError, match="jobs is 0"):
        list(reproduce([TINY], tmp_path, jobs=0))
    with pytest.raises(InvalidInputError, match="seed is -1"):
        list(reproduce([TINY], tmp_path, seed=-1))
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "out"):
        with pytest.raises(FileError, match="Not a directory; give another folder"):
            list(reproduce([TINY], out))


def test_names_of_experiments() -> None:
    assert chosen(["all"]) == (TINY, ABSENT, FAILING)
    assert chosen(["b"]) == (TINY, ABSENT)
    assert chosen(["b-tiny", "a"]) == (TINY, FAILING)
    with pytest.raises(InvalidInputError, match="'figure6' is unknown"):
        chosen(["figure6"])


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["reproduce", "list", "--json"])
    names = [e["name"] for e in json.loads(listed.stdout)["experiments"]]
    assert names == ["b-tiny", "b-absent", "a-failing"]
    done = runner.invoke(app, ["reproduce", "b", "--out", str(tmp_path), "--jobs", "1"])
    assert done.exit_code == 0
    assert "b-tiny (made) [1 agree]: It adds up." in done.stdout
    assert "b-absent (skipped): needs no_such_module" in done.stdout
    failed = runner.invoke(app, ["reproduce", "all", "--out", str(tmp_path), "--jobs", "1", "--json"])
    assert failed.exit_code == 4
    monkeypatch.setattr(catalogue, "EXPERIMENTS", (FAILING, REFUSED))
    worse = runner.invoke(app, ["reproduce", "a", "--out", str(tmp_path), "--jobs", "1", "--json"])
    assert worse.exit_code == 3, "not the file alone"
    assert [e["error"] for e in json.loads(worse.stdout)["experiments"]] == ["file", "other"]
    statuses = [e["status"] for e in json.loads(failed.stdout)["experiments"]]
    assert statuses == ["kept", "skipped", "failed"]
    alone = runner.invoke(app, ["reproduce", "list", "all"])
    assert isinstance(alone.exception, InvalidInputError)


def test_gallery_takes_full_runs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "EXPERIMENTS", (TINY,))
    run, folder, page = tmp_path / "run", tmp_path / "gallery", tmp_path / "page.md"
    with pytest.raises(FileError, match="discreet reproduce all"):
        gallery.collect(run, folder)
    list(reproduce([TINY], run, quick=True))
    with pytest.raises(InvalidInputError, match="quick run"):
        gallery.collect(run, folder)
    list(reproduce([TINY], run))
    found = gallery.collect(run, folder)
    assert (folder / "b-tiny.png").read_bytes() == (run / "b-tiny.png").read_bytes()
    page.write_text("# Title\n", "utf-8")
    with pytest.raises(InvalidInputError, match="once each"):
        gallery.rewrite(page, "")
    page.write_text(f"# Title\n\n{gallery.BEGIN}\nold\n{gallery.END}\n\nafter\n", "utf-8")
    for _ in range(2):
        gallery.rewrite(page, gallery.markdown(found, "images"))
        text = page.read_text("utf-8")
        assert text.startswith("# Title\n")
        assert text.endswith("\n\nafter\n")
        assert "old" not in text
        assert text.count("![A tiny one](images/b-tiny.png)") == 1


# The real ones.


def test_every_experiment_is_there_and_in_the_gallery() -> None:
    found = {entry["name"]: entry for entry in gallery.entries()}
    assert list(found) == [e.name for e in EXPERIMENTS]
    for experiment in EXPERIMENTS:
        assert experiment.paper in PAPERS
        entry = found[experiment.name]
        assert entry["verdict"]
        assert all(s["agrees"] in report.ANSWERS for s in entry["statements"])
        assert entry["statements"]
        assert entry["images"]
        assert all((gallery.FOLDER / image).is_file() for image in entry["images"])
    page = (ROOT / "reproductions" / "README.md").read_text("utf-8")
    expected = gallery.markdown(gallery.entries(), gallery.IMAGES)
    assert f"{gallery.BEGIN}\n\n{expected}\n{gallery.END}" in page


def test_the_findings_name_experiments_that_exist() -> None:
    text = (ROOT / "docs" / "evidence" / "literature.md").read_text("utf-8")
    named = set(re.findall(r"`((?:[abcd]|beyond)-[a-z0-9]+)`", text))
    assert named <= {e.name for e in EXPERIMENTS}
    assert {e.name for e in EXPERIMENTS} <= named, "each experiment has a finding"


def test_the_index_is_that_of_the_gallery() -> None:
    page = (ROOT / "docs" / "evidence" / "literature.md").read_text("utf-8")
    assert f"{index.BEGIN}\n\n{index.markdown(index.items())}\n{index.END}" in page


def test_every_row_of_the_index_has_something_that_shows_it() -> None:
    found = index.items()
    assert len(found) >= 150
    names = {e.name for e in EXPERIMENTS}
    assert {e.name for e in EXPERIMENTS if e.paper != "beyond"} <= {item.shown for item in found}
    recorded = {(entry["name"], s["name"]) for entry in gallery.entries() for s in entry["statements"]}
    assert set(index.FEWER) <= recorded
    for item in found:
        assert item.place[0] in index.PAPERS, item
        if item.statement:
            assert (item.shown, item.statement) in recorded, item
        elif item.shown.startswith("discreet "):
            arguments = [*item.shown.split()[1:], "--json"]
            assert CliRunner().invoke(app, arguments).exit_code in (0, 6), item  # 6: a loss above the claim
        else:
            assert item.shown in names or (ROOT / item.shown).is_file(), item


@pytest.mark.slow
def test_all_quick(tmp_path: Path) -> None:
    """Every table and figure, as ``discreet reproduce all --quick`` makes them; all verdicts as recorded."""
    start = time.monotonic()
    results = {result.name: result for result in reproduce(EXPERIMENTS, tmp_path, quick=True, jobs=2)}
    print(f"discreet reproduce all --quick: {time.monotonic() - start:.0f} s")
    found = {entry["name"]: entry for entry in gallery.entries()}
    assert {name: result.status for name, result in results.items()} == {e.name: "made" for e in EXPERIMENTS}
    for experiment in EXPERIMENTS:
        verdict: dict[str, Any] = json.loads((tmp_path / f"{experiment.name}.json").read_text("utf-8"))
        assert len(verdict["verdict"]) <= 240
        recorded = {s["name"]: s["agrees"] for s in found[experiment.name]["statements"]}
        expected = {name: index.FEWER.get((experiment.name, name), said) for name, said in recorded.items()}
        assert {s["name"]: s["agrees"] for s in verdict["statements"]} == expected, experiment.name
        for statement in verdict["statements"]:
            assert statement["claim"], (experiment.name, statement)
            assert statement["source"], (experiment.name, statement)
            assert statement["measured"], (experiment.name, statement)
