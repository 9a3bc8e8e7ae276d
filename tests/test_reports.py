"""Reports: what a board needs is there, said truly, whole, and the same every time."""

from __future__ import annotations

import json
import math
import re
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import discreet
import shorthand
from discreet._documents.answer import Labels
from discreet._documents.parts import INTERVALS_NOTE, NOISE_NOTE, with_interval
from discreet._documents.study import StudyResult
from discreet._registry import MECHANISMS
from discreet._reporting.figures import _ticks
from discreet._reporting.report import meaning, report
from discreet.answers.release import Release
from discreet.errors import FileError, InvalidInputError
from discreet.posterior_sampling.sample import DRAW_METHODS
from discreet.regression._newton.fit import Fit
from discreet.regression._newton.formulas import term_in_words


def survey(epsilon: float = 1.0, **options: object) -> Release:
    return shorthand.shares(
        {"never": 300, "former": 120, "current": 80},
        levels=("never", "former", "current"),
        epsilon=epsilon,
        mechanism="lattice",
        **options,
    )


def test_every_part_that_a_board_needs() -> None:
    release = survey(other="current")
    text = report(release, title="Who smokes?")
    for words in (
        "Who smokes?",
        "never, former, current",  # what was declared
        "counted as current",
        "500 (public)",
        "all shares were equally likely beforehand",
        MECHANISMS["lattice"].words,
        release.guarantee.meaning(),
        "How to read the figures",
        "How to verify",
        "How to cite",
        json.loads(release.to_json())["checksum"],
        f"discreet {discreet.__version__}",
        "Receipt: none",
    ):
        assert words in text, words
    row = release.table()[0]
    assert f"{100 * row['low']:.1f} to {100 * row['high']:.1f} %" in text  # noise-aware
    assert "plug-in" not in text
    assert f"<td>{100 * row['noise']:.0f} %</td>" in text
    assert text == report(Release.from_json(release.to_json()), title="Who smokes?")


@pytest.mark.parametrize(("epsilon", "right"), [(0.1, 53), (1.0, 74), (3.0, 96)])
def test_the_best_guess_in_words(epsilon: float, right: int) -> None:
    assert right == math.ceil(100 * math.exp(epsilon) / (1 + math.exp(epsilon)))
    assert f"at most {right} times in 100" in report(survey(epsilon))


def test_the_table_of_suspicions_is_rounded_up_as_the_sentence() -> None:
    plain = meaning(discreet.Guarantee("0.5"))
    assert plain is not None
    assert "at most 63 times in 100" in plain.sentence
    assert plain.suspicions == ((0.01, 0.017), (0.1, 0.16), (0.5, 0.63), (0.9, 0.94))
    assert plain.unlucky == ""


def test_what_is_not_private_is_an_alarm() -> None:
    release = shorthand.shares(
        {"a": 3, "b": 9},
        levels=("a", "b"),
        epsilon=1,
        mechanism="ehdl",
        options={"acknowledge_not_private": True},
    )
    text = report(release)
    assert "must not be published as private" in text
    assert "times in 100" not in text


def test_receipt_is_cited(tmp_path: Path) -> None:
    ledger = discreet.Ledger(tmp_path / "ledger.db")
    ledger.create("survey", epsilon=2)
    release = survey(ledger=ledger, dataset="survey", request_id="once")
    again = survey(ledger=ledger, dataset="survey", request_id="once")
    assert release.receipt is not None
    assert report(release).count(release.receipt.hash) == 2
    assert report(release) == report(again)
    ledger.close()


def test_mechanisms_and_samplers_have_words() -> None:
    assert all(made.words for _, made in MECHANISMS.items())
    assert all(DRAW_METHODS.values())


def test_samples_have_a_report() -> None:
    sampler = discreet.posterior_sampler(
        "diffused", "gaussian", prior=(50, 30), n=50, sigma=20, bounds=(0, 120), epsilon=1, delta="1e-6"
    )
    sample = sampler.release(sampler.statistic([40.0] * 50))
    text = report(sample)
    assert "Each record was given less weight" in text
    low, high = sample.posterior.interval()
    digits = 1 if high - low < 10 else 0
    assert f"<td>{low:.{digits}f} to {high:.{digits}f}</td>" in text
    assert f"<td>{sample.values[0]:.6g}</td>" in text
    assert "account for its randomness" in text
    assert text.count("<polygon") == 1


def test_shares_of_a_draw_are_in_percent_and_by_name() -> None:
    data = ["<a>"] * 30 + ["b"] * 20
    sample = shorthand.draws(data, "dirichlet", prior=(1, 1), levels=("<a>", "b"), epsilon=2, delta="1e-4")
    text = report(sample)
    assert "<td>&lt;a&gt;</td>" in text
    assert re.search(r"<td>b</td><td>[\d.]+ %</td><td>[\d.]+ to [\d.]+ %</td>", text)


@pytest.mark.parametrize("levels", [2, 9, 41])
def test_drawings_stay_inside_their_frame(levels: int) -> None:
    names = [f"level {i}" for i in range(levels)]
    release = shorthand.shares(dict.fromkeys(names, 20), levels=names, epsilon=0.5, mechanism="lattice")
    text = report(release)
    drawing = re.search(r'<svg viewBox="0 0 360 (\d+)".*?</svg>', text)
    assert (drawing is None) == (levels > 40)
    if drawing is not None:
        for x in re.findall(r'(?:x1|x2|cx)="([-\d.]+)"', drawing.group()):
            assert 0 <= float(x) <= 360
        for y in re.findall(r'(?:y1|y2|cy)="([-\d.]+)"', drawing.group()):
            assert 0 <= float(y) <= int(drawing.group(1))
        assert "<polygon" not in drawing.group()  # intervals side by side, without densities


@pytest.mark.parametrize("least", [0.0, 0.123, 0.5, 0.9])
@pytest.mark.parametrize("span", [1e-6, 0.003, 0.0499, 0.1])
def test_ticks_enclose_the_range(least: float, span: float) -> None:
    ticks = _ticks(least, least + span)
    assert ticks[0] <= least + 1e-12
    assert ticks[-1] >= least + span - 1e-12
    assert ticks[0] < ticks[-1]
    assert 2 <= len(ticks) <= 9
    assert 2 <= len(ticks) <= 9


@pytest.mark.parametrize(
    ("family", "prior", "options", "model", "before"),
    [
        ("gaussian", (50, 30), {"sigma": 20, "bounds": (0, 120)}, "20, clipped to 0 – 120", "mean 50"),
        ("gaussian-vector", ((1, 2), 3), {"sigma": 1, "radius": 4}, "clipped to length 4", "mean (1, 2)"),
        ("poisson", (2, 4), {"bounds": (0, 9)}, "number of events per record, clipped to 0 – 9", "mean 0.5"),
        ("exponential", (2, 4), {"bounds": (0, 9)}, "rate of waiting times", "Gamma(2, 4)"),
        ("beta", (1, 1), {}, "or the share of yes", "equally likely"),
    ],
)
def test_models_are_said_in_words(family: str, prior: Any, options: Any, model: str, before: str) -> None:
    sampler = discreet.posterior_sampler("direct", family, prior=prior, n=20, **options)
    statistic = (3.0, 4.0) if family == "gaussian-vector" else 15
    text = report(sampler.release(statistic))
    assert model in text
    assert before in text


def test_the_report_of_a_mean_is_in_its_units() -> None:
    answer = shorthand.draws([20.0, 60.0] * 100, None, bounds=(10, 110), epsilon=2, delta="1e-6")
    drawn = shorthand.draws(
        [43.0, 45.0] * 40, "gaussian", prior=(40, 10), sigma=2, bounds=(0, 90), epsilon=2, delta="1e-6"
    )
    for sample in (answer, drawn):
        (row,) = sample.table()
        page = report(sample)
        cells = re.search(r"<tr><t[dh][^>]*>mean</t[dh]>(.*?)</tr>", page, re.DOTALL)
        assert cells is not None
        assert "%" not in cells[1]
        shown = [float(text.replace(",", "")) for text in re.findall(r"[0-9][0-9.,]*", cells[1])[:3]]
        expected = [row["mean"], row["low"], row["high"]]
        assert shown == pytest.approx(expected, abs=0.1 * (row["high"] - row["low"]))
        assert "<polygon" in page


def test_everything_is_said_with_its_column_its_dataset_and_its_day(tmp_path: Path) -> None:
    table = {"smoker": ["no", "yes"] * 200, "sex": ["f"] * 200 + ["m"] * 200}
    schema = discreet.Schema({"sex": ["f", "m"], "smoker": ["no", "yes"]}, n=400)
    ledger = tmp_path / "ledger.db"
    study = discreet.Study(pd.DataFrame(table), schema, epsilon=3, dataset="spring", ledger=ledger)
    study.proportions("smoker", epsilon=1)
    study.proportions("sex", "smoker", epsilon=1)
    page = study.report(tmp_path / "board.html", title="Board")
    assert page == (tmp_path / "board.html").read_text("utf-8")
    text = report(study.result("Board"), day=date(2026, 3, 1))
    assert "Dataset: spring. Printed on 1 March 2026." in text
    found, protection, appendix = re.split("How people are protected|Appendix: method and checks", text)
    assert "at most 89 times in 100" in protection  # both together
    assert "ε" not in re.sub("<style>.*</style>", "", found, flags=re.DOTALL)
    assert appendix.count("Receipt: ") == 2
    assert ">smoker</th>" in text
    assert "Shares of smoker within each sex" in text
    assert re.search(r"[\d.]+ \([\d.]+ to [\d.]+\)", text)
    assert "proofs/" not in text
    assert ".md" not in text
    assert "@misc{board," in text
    assert "Methods, for a paper" in text


def test_several_answers_and_wrong_arguments() -> None:
    text = report([survey(0.5), survey(0.5)])
    assert "their losses add up" in text
    assert "ε = 1 (replace-one)" in text.partition("How people are protected")[2]
    for wrong in ([], {}, 3, "x", [1], None, {"a": 1}):
        with pytest.raises(InvalidInputError, match="report takes"):
            report(wrong)
    with pytest.raises(FileError, match="cannot be written"):
        report(survey(), "no/such/folder.html")
    with pytest.raises(InvalidInputError, match="nothing to report"):
        discreet.Study({"a": [1, 2]}, {"a": [1, 2]}, epsilon=1).report()


def test_groups_have_one_axis() -> None:
    groups = shorthand.groups(
        pd.DataFrame({"y": ["no", "yes"] * 100, "g": ["a"] * 20 + ["b"] * 180}),
        outcome="y",
        by="g",
        levels=("no", "yes"),
        groups=("a", "b"),
        sizes=(20, 180),
        epsilon=1,
    )
    (drawing,) = re.findall(r"<svg.*?</svg>", report(groups))
    labels = re.findall(r"<text([^>]*)>([a-z]+)</text>", drawing)
    assert [text for _, text in labels] == ["no", "a", "b", "yes", "a", "b"]  # by outcome, then by group
    # No label stands on a line of the axis, which begins right of all of them.
    axis = min(float(x) for x in re.findall(r'<line x1="([\d.]+)" x2="\1"', drawing))
    assert all(float(re.search(r'x="([\d.]+)"', at)[1]) < axis for at, _ in labels)  # type: ignore[index]


def test_a_report_says_shared_notes_once_and_writes_minus_signs() -> None:
    values = [-7.5, -1.0, 3.0, 6.0] * 60
    means = [discreet.mean(values, schema=(-20, 20), epsilon=1) for _ in range(2)]
    text = report(means)
    assert text.count(INTERVALS_NOTE) == 1
    assert text.count(NOISE_NOTE) == 1
    assert "−" in text
    assert not re.search(r"<td>-\d|to -\d", text.partition("How people are protected")[0])
    assert "<svg" not in text  # a drawing of one interval says nothing that its numbers do not


def test_survival_is_reported_as_curves_with_a_short_table() -> None:
    n = 400
    data = {
        "days": [float(i % 97) for i in range(n)],
        "status": ["alive" if i % 3 else "dead" for i in range(n)],
        "arm": ["new" if i % 2 else "usual" for i in range(n)],
    }
    schema = discreet.Schema({"days": (0, 100), "status": ["alive", "dead"], "arm": ["usual", "new"]}, n=n)
    curve = discreet.survival(data, "days", "status", by="arm", schema=schema, bins=20, epsilon=4)
    (drawing,) = re.findall(r"<svg.*?</svg>", report(curve))
    lines = [
        [tuple(map(float, point.split(","))) for point in points.split()]
        for points in re.findall(r'<polyline points="([^"]+)"', drawing)
    ]
    assert len(lines) == 2
    assert all(len(line) == len(curve.times) + 1 for line in lines)
    assert all(line == sorted(line, key=lambda point: point[1]) for line in lines)  # y grows downwards
    assert ">usual</text>" in drawing
    shown, times = curve.tables()
    assert 5 <= len(shown.cells) <= 10
    assert shown.header == ("days", "usual", "new")
    assert [row[0] for row in times.cells][:2] == ["usual", "new"]
    # A curve that may not fall to one half has a median without an upper end.
    assert with_interval(45.0, 30.0, math.inf) == "45 (30 to ∞)"
    assert with_interval(math.inf, math.inf, math.inf) == "∞ (∞ to ∞)"
    late = {**data, "status": ["alive"] * n}
    assert "∞" in report(discreet.survival(late, "days", "status", schema=schema, bins=20, epsilon=4))


def test_a_noise_aware_posterior_prints_itself() -> None:
    lines = str(survey().posterior).splitlines()
    assert lines[0].split() == ["noise-aware", "estimate", "95", "%", "interval"]
    assert [line.split()[0] for line in lines[1:]] == ["never", "former", "current"]
    hidden = shorthand.shares({"a": 30, "b": 70}, levels=("a", "b"), epsilon=1, hidden=True)
    assert str(hidden.posterior).splitlines()[1].startswith("a ")
    assert len(repr(hidden.posterior).splitlines()) == 1
    assert max(map(len, survey().summary().splitlines())) <= 80


def test_labels_of_the_schema_name_columns_and_values(tmp_path: Path) -> None:
    columns = {
        "hours": discreet.Number(0, 80, label="Hours worked", unit="a week"),
        "age": discreet.Number(18, 95, label="Age", unit="years"),
        "marital": discreet.Category(["single", "married"], label="Marital status"),
    }
    rng = np.random.default_rng(1)
    data = {
        "hours": rng.uniform(0, 80, 300),
        "age": rng.uniform(18, 95, 300),
        "marital": rng.choice(["single", "married"], 300),
    }
    schema, ledger = discreet.Schema(columns, n=300), tmp_path / "ledger.db"
    study = discreet.Study(data, schema, epsilon=9, delta="1e-6", ledger=ledger, dataset="d")
    study.proportions("marital", epsilon=1)
    study.regress("hours ~ age + marital", epsilon=5)
    study.survival("age", "marital", epsilon=1)
    study.network({"marital": []}, epsilon=1)
    text = report(study.result())
    for words in (
        "<h2>Marital status</h2>",
        "<h2>Regression of Hours worked</h2>",
        "<h2>Survival by Age</h2>",
        "<h2>Network of Marital status</h2>",
        "<td>Age (years)</td>",
        "<td>Marital status: married (rather than single)</td>",
    ):
        assert words in text, words
    assert "[T." not in text
    marital, hours, *_ = study.result().answers.values()
    again = StudyResult.from_json(study.result().to_json()).answers
    for shown in (hours, *(answer for answer in again.values() if isinstance(answer, Fit))):
        assert "\nMarital status: married (rather than single) " in str(shown)
        assert "Age (years)" in str(shown)
        assert shown.names == ("Intercept", "age", "marital[T.married]")
        assert shown.page().rows[1].name == "Age (years)"
    assert str(marital).splitlines()[2].startswith("Marital status ")
    assert marital.table()[0]["marital"] == "single"


def test_coefficients_in_words() -> None:
    levels = {"a": ("x", "y: z"), "b": ("u", "v", "w")}
    for name, words in {
        "Intercept": "Intercept",
        "age": "age",
        "a[T.y: z]": "a: y: z (rather than x)",
        "C(b)[T.v]": "b: v (rather than u)",
        "a[T.y: z]:b[T.w]": "a: y: z (rather than x) × b: w (rather than u)",
        "C(b, contr.treatment(base='w'))[T.u]": "b: u (rather than w)",
        'C(b, contr.treatment("v"))[T.u]': "b: u (rather than v)",
        "C(b, contr.sum)[S.u]": "b: u (rather than the average)",
        "a[x]": "a: x",
        "I(age ** 2)": "I(age ** 2)",
    }.items():
        assert term_in_words(name, levels) == words
    labels = Labels({"age": "Age", "a": "Answer"}, {"age": "years"})
    assert (
        labels.term("age × a: age (rather than x) × 60") == "Age (years) × Answer: age (rather than x) × 60"
    )
