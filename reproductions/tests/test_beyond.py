"""B's settings beside the limit, and the study of real columns on made-up files."""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from discreet.errors import FileError
from discreet_reproductions.beyond import errors, figures
from discreet_reproductions.beyond import limit as beyond_limit
from discreet_reproductions.beyond import study as beyond_study
from discreet_reproductions.beyond.columns import (
    COUNTS_FILE,
    SURVEYS,
    Column,
    bundled_columns,
    survey_columns,
)
from discreet_reproductions.beyond.study import Settings, measure
from discreet_reproductions.report import Outcome, Row
from discreet_reproductions.running import Run
from evidence.components import need


@pytest.fixture(scope="module")
def found() -> Outcome:
    return beyond_limit.limit(Run("beyond-limit", quick=True))


@pytest.mark.slow
def test_everything_stated_about_the_limit_holds(found: Outcome) -> None:
    assert {s.name: s.agrees for s in found.statements if s.agrees != "yes"} == {}
    assert len(found.verdict) <= 200
    assert max(errors.ratios(found.tables[""], "lattice", 2)) <= 1.0001
    assert max(errors.ratios(found.tables[""], "lattice", 3)) <= 1.1


@pytest.mark.parametrize(("label", "value"), beyond_limit.KNOWN.items())
def test_known_numbers(found: Outcome, label: str, value: float) -> None:
    places = beyond_limit._places(label)
    assert round(beyond_limit._known(found.tables[""], label), places) == pytest.approx(value)


def test_the_limit_is_drawn_only_where_it_is_solved(found: Outcome) -> None:
    rows = [r for r in found.tables[""] if r["k"] == 3 and r["n"] > 12]
    assert rows
    assert all(r["ratio to limit"] is None and r["mechanism"] != "limit" for r in rows)


def test_verdicts_on_the_limit_can_say_no(found: Outcome) -> None:
    def altered(row: Row) -> Row:
        factor = {"lattice": 1.3, "LSHist": 3.0, "EHD as in A": 0.1}.get(row["mechanism"], 1.0)
        ratio = row["ratio to limit"]
        return {**row, "expected": row["expected"] * factor, "ratio to limit": ratio and ratio * factor}

    answers = {s.name: s.agrees for s in beyond_limit.verdicts([altered(r) for r in found.tables[""]])}
    assert answers == {
        "limit-two-levels": "no",
        "limit-three-levels": "no",
        "limit-is-a-limit": "no",
        "known-numbers": "partly",
        "calibration": "no",
        "exponential-family": "no",
    }


def test_b_figures_are_measured_at_all_their_sizes(found: Outcome) -> None:
    rows = found.tables["figures"]
    measured = {(r["k"], r["n"], r["epsilon"], r["mechanism"]) for r in rows}
    for k, n, epsilon in ((2, 300, 0.5), (2, 500, 0.5), (3, 100, 0.8), (3, 120, 0.8), (3, 150, 0.8)):
        calibrated = {"LS shape, exact", "EHD, exact"}  # three levels have too many pairs of datasets
        shown = set(figures.SHOWN) - (calibrated if k == 3 else set())
        assert {r[3] for r in measured if r[:3] == (k, n, epsilon)} == shown
    assert set(found.plots) == {"", "figures"}
    assert all((r["standard error"] > 0) == r["method"].startswith("simulated") for r in rows)


def test_m_beta_at_the_rate_of_its_definition(found: Outcome) -> None:
    from scipy.stats import betabinom

    from discreet import hellinger
    from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity
    from discreet_reproductions.paper_b.distributions import smoothing

    n, prior = 10, np.array([7.0, 4.0])
    data = np.array([(x, n - x) for x in range(n + 1)])
    distance = np.asarray(hellinger(data[:, None] + prior, data[None] + prior))
    beta = smoothing(0.5, 0.0005, n)
    rates = [0.5 / (2 * smooth_sensitivity(x, (7, 4), beta=beta)) for x in data.tolist()]
    distribution = np.exp(-np.array(rates)[:, None] * distance)
    distribution /= distribution.sum(axis=1, keepdims=True)
    (row,) = [r for r in errors.of(found.tables["figures"], "M_β of B", 2) if r["n"] == n]
    weight = betabinom.pmf(data[:, 0], n, 7, 4)
    assert row["expected"] == pytest.approx(float(weight @ (distribution * distance).sum(axis=1)), rel=1e-9)


@pytest.mark.parametrize(
    ("changed", "answers"),
    [
        ({"lattice": 1.08}, {"figures-lattice": "partly", "figures-limit": "partly"}),
        ({"lattice": 100.0}, {"figures-lattice": "no", "figures-limit": "no"}),
        ({"M_β of B": 0.1}, {"figures-laplace": "no", "figures-lattice": "partly"}),
        ({"LS shape, exact": 5.0}, {"figures-calibration": "partly"}),
        ({"LS shape, exact": 5.0, "EHD, exact": 5.0}, {"figures-calibration": "no"}),
    ],
)
def test_verdicts_on_the_figures_can_say_no(
    found: Outcome, changed: dict[str, float], answers: dict[str, str]
) -> None:
    rows = []
    for row in found.tables["figures"]:
        factor, ratio = changed.get(row["mechanism"], 1.0), row["ratio to limit"]
        rows.append({**row, "expected": row["expected"] * factor, "ratio to limit": ratio and ratio * factor})
    statements = figures.verdicts(rows, beyond_limit.Settings().quick().figures)
    said = {s.name: s.agrees for s in statements}
    assert {name: said[name] for name in answers} == answers
    noisy = [{**row, "standard error": 1.0} for row in found.tables["figures"]]
    unsure = figures.verdicts(noisy, beyond_limit.Settings().quick().figures)
    assert [s.agrees for s in unsure] == ["no", "no", "no", "yes"]


@pytest.mark.parametrize(("quick", "seed"), [(True, 7), (False, 8)])
def test_a_run_decides_seed_and_size(quick: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[object, int]] = []

    def stop(settings: Settings, *_: object) -> list[Row]:
        seen.append((settings, settings.seed))
        raise KeyboardInterrupt

    run = Run("beyond", quick=quick, seed=seed)
    for module, make in ((beyond_limit, beyond_limit.limit), (beyond_study, beyond_study.study)):
        monkeypatch.setattr(module, "measure", stop)
        monkeypatch.setattr(beyond_study, "bundled_columns", lambda most: [COLUMN])
        with pytest.raises(KeyboardInterrupt):
            make(run)
        whole = module.Settings(seed=seed)
        assert seen.pop() == (whole.quick() if quick else whole, seed)


def test_intervals_have_the_level_that_they_promise() -> None:
    from scipy.special import betainc

    low, high = beyond_study._intervals(np.array([[3, 9]]))
    assert betainc(4.0, 10.0, low[0, 0]) == pytest.approx(0.05)
    assert betainc(4.0, 10.0, high[0, 0]) == pytest.approx(0.95)


SMALL = Settings(sizes=(60,), epsilons=("1",), datasets=12, aware=4, seconds=0.01)
COLUMN = Column("test", "made up", (700, 200, 100))


def test_a_cell_of_the_study_is_decided_by_its_seed() -> None:
    first, again = measure(SMALL, COLUMN, 60, "1"), measure(SMALL, COLUMN, 60, "1")
    other = measure(Settings(**{**SMALL.__dict__, "seed": 1}), COLUMN, 60, "1")
    assert first == again
    assert [r["expected"] for r in first] != [r["expected"] for r in other]
    assert [r["mechanism"] for r in first] == list(beyond_study.MECHANISMS)
    lattice, ehd = first[0], first[-1]
    assert lattice["expected"] < ehd["expected"]
    assert 0 <= lattice["coverage"] <= 1
    assert lattice["width aware"] > lattice["width"]  # noise makes an honest interval wider
    assert ehd["coverage aware"] is None


def test_simulated_errors_agree_with_the_exact_distribution() -> None:
    # 4.4 standard errors: one false alarm in 100,000 seeds per mechanism.
    from discreet import hellinger, mechanism

    column = Column("test", "pair", (30, 10))
    settings = Settings(datasets=600, seconds=0.05)
    for row in measure(settings, column, 40, "0.5"):
        outputs, log_probability = mechanism(row["mechanism"], prior=(1, 1), n=40, epsilon="0.5").log_pmf(
            (30, 10)
        )
        exact = float(np.exp(log_probability) @ np.asarray(hellinger(outputs + 1.0, (31, 11))))
        assert abs(row["expected"] - exact) < 4.4 * row["standard error"]
        assert row["coverage"] is None  # the data themselves: there is no truth beside them


def test_verdicts_of_the_study_can_say_both() -> None:
    rows = [r for n in (60, 1000) for r in measure(SMALL, COLUMN, n, "1")]
    answers = {s.name: s.agrees for s in beyond_study.verdicts(rows)}
    assert answers["lattice-wins"] in ("yes", "partly")
    assert answers["ehd-costs"] == "yes"
    worse = {"lattice": 0.99, "ehd": 0.01}
    altered = [
        {
            **r,
            "expected": worse.get(r["mechanism"], 0.5),
            "coverage": r["coverage"] and 1.0,
            "coverage aware": 0.1,
        }
        for r in rows
    ]
    assert {s.name: s.agrees for s in beyond_study.verdicts(altered)} == {
        "lattice-wins": "no",
        "ehd-costs": "no",
        "plug-in": "no",
        "noise-aware": "no",
    }


def _folder(place: Path, records: int = 3) -> Path:
    """Files of the right form: every level of every column in turn."""
    for file, columns in SURVEYS.items():
        longest = max(map(len, columns.values())) * records
        lines = [",".join(columns)]
        lines += [
            ",".join(f'"{levels[i % len(levels)]}"' for levels in columns.values()) for i in range(longest)
        ]
        with gzip.open(place / file, "wt", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
    (place / COUNTS_FILE).write_text("dataset,levels,n,count_0,count_1,count_2\npair,2,9,4,5,\n", "utf-8")
    return place


def test_columns_of_a_data_folder(tmp_path: Path) -> None:
    columns = survey_columns(_folder(tmp_path))
    assert [len(c.counts) for c in columns] == [3, 10, 15, 13, 2, 3, 2, 6, 2]
    assert columns[2].counts == (3,) * 15
    assert columns[-1] == Column("papers", "pair", (4, 5))
    assert len(survey_columns(tmp_path, 1)) == 4


def test_a_missing_damaged_or_foreign_file_is_named(tmp_path: Path) -> None:
    for file in (*SURVEYS, COUNTS_FILE):
        folder = _folder(tmp_path)
        (folder / file).unlink()
        with pytest.raises(FileError, match=file):
            survey_columns(folder)
    folder = _folder(tmp_path)
    (folder / "gss_cat.csv.gz").write_bytes((folder / "gss_cat.csv.gz").read_bytes()[:-12])
    with pytest.raises(FileError, match="damaged"):
        survey_columns(folder)
    with gzip.open(folder / "gss_cat.csv.gz", "wt") as out:
        out.write("race,partyid\nWhite,Independent\n")
    with pytest.raises(FileError, match="relig"):
        survey_columns(folder)
    with gzip.open(folder / "gss_cat.csv.gz", "wt") as out:
        out.write("race,partyid,relig\nMartian,Independent,None\n")
    with pytest.raises(FileError, match="not a declared level"):
        survey_columns(folder)
    _folder(tmp_path)
    (folder / COUNTS_FILE).write_text("dataset,levels\nx,2\n", "utf-8")
    with pytest.raises(FileError, match="count_0"):
        survey_columns(folder)


def test_bundled_columns() -> None:
    need(None if find_spec("sklearn") else "the bundled columns need scikit-learn, which is not installed")
    columns = bundled_columns()
    assert [(c.name, c.n) for c in columns] == [
        ("breast_cancer label", 569),
        ("digits label", 1797),
        ("wine label", 178),
        ("diabetes body mass", 442),
    ]
    assert [len(c.counts) for c in columns] == [2, 10, 3, 4]
    assert len(bundled_columns(1)) == 2


@pytest.mark.slow
def test_the_quick_study_as_a_whole() -> None:
    need(None if find_spec("sklearn") else "the bundled columns need scikit-learn, which is not installed")
    outcome = beyond_study.study(Run("beyond-study", quick=True))
    assert len(outcome.verdict) <= 200
    assert len({tuple(row) for row in outcome.tables[""]}) == 1
    assert set(outcome.plots) == {"", "coverage"}
    assert next(s for s in outcome.statements if s.name == "plug-in").agrees == "yes"
