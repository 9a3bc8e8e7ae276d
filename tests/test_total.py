"""Records that have no declared place: left out with n public, and never an error where ``strict=False``."""

from __future__ import annotations

import csv
import json
import math
import re
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import betainc, gammaln, ndtr
from typer.testing import CliRunner

import discreet
import discreet.study.study  # before a test patches what it imports
import shorthand
from discreet._cli import app
from discreet._data import clipped_sum, contingency, count_levels, count_texts
from discreet._declarations import Domain
from discreet._inference.noise_aware import MixedShares, Respondents, noise_aware
from discreet._numerics.cells import GivenTotal
from discreet._numerics.noises import DiscreteLaplace
from discreet.answers.release import Release
from discreet.errors import DataError, InvalidInputError
from discreet.mechanisms.base import Mechanism
from discreet.mechanisms.independent import GaussianCounts, Geometric
from discreet.mechanisms.lattice import Lattice
from discreet.posterior_sampling.sampler import PosteriorSampler
from discreet.regression import means
from discreet.regression._newton import rounds
from discreet.regression._newton.sums import add_noise
from pace import now_or_slow
from shorthand import count_bins

LEVELS = ("no", "yes", "maybe")
PARTLY = ["no"] * 200 + ["yes"] * 90 + ["maybe"] * 30 + [None] * 280


class Unprintable:
    def __str__(self) -> str:
        raise ValueError("secret")


# ---- shares of those who answered, n public ----------------------------------------------------------------


def oracle(m: Any, noisy: tuple[int, ...]) -> tuple[np.ndarray[Any, Any], Any]:
    """Means of the shares, and P(share ≤ t), by listing all true counts: any number of answers is as likely
    as any other, and the shares of those who answered have the prior's Dirichlet distribution."""
    k = m.k - 1
    alpha = np.array(m.prior[:k])
    rows = np.array([x for x in product(range(m.n + 1), repeat=k) if sum(x) <= m.n])
    number = rows.sum(axis=1)
    log = gammaln(number + 1) + gammaln(alpha.sum()) - gammaln(alpha.sum() + number)
    log = log + (gammaln(alpha + rows) - gammaln(alpha) - gammaln(rows + 1)).sum(axis=1)
    every = np.concatenate([rows, (m.n - number)[:, None]], axis=1)
    away = np.array(noisy) - every
    if m.name == "lattice":
        log = log - float(m.epsilon) / 2 * np.abs(away).sum(axis=1)
    else:
        inner, outer = ((0.5 - np.abs(away)) / m.noise_scale, (-0.5 - np.abs(away)) / m.noise_scale)
        log = log + np.log(ndtr(inner) - ndtr(outer)).sum(axis=1)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    a, total = alpha + rows, (alpha.sum() + number)[:, None]

    def below(i: int, t: float) -> float:
        return float(weight @ betainc(a[:, i], (total - a[:, [i]])[:, 0], t))

    return weight @ (a / total), below


@pytest.mark.parametrize("noisy", [(3, 2, 4), (-2, 6, 5), (0, 0, 9), (14, -3, -2), (1, 1, 30)])
@pytest.mark.parametrize("prior", [(1.0, 1.0, 1.0), (0.3, 2.5, 1.0)])
@pytest.mark.parametrize(
    "made", [("lattice", {"epsilon": "1/2"}), ("lattice", {"epsilon": 4}), ("gaussian", {"mu": 1})]
)
def test_against_a_list_of_all_true_counts(made: Any, prior: Any, noisy: tuple[int, ...]) -> None:
    m = discreet.mechanism(made[0], prior=prior, n=9, **made[1])
    found = noise_aware(m, (), noisy, leaves_out=True)
    mean, below = oracle(m, noisy)
    assert found.mean() == pytest.approx(mean, abs=2e-7)
    low, high = found.interval(0.9)
    for i in range(2):
        assert below(i, float(low[i])) == pytest.approx(0.05, abs=1e-6)
        assert below(i, float(high[i])) == pytest.approx(0.95, abs=1e-6)
        assert found.marginal(i).mean() == pytest.approx(mean[i], abs=2e-7)
    draws = found.sample(4000, seed=1)
    assert draws.mean(axis=0) == pytest.approx(mean, abs=6 * 0.5 / math.sqrt(4000))


def test_the_step_between_numbers_makes_no_difference() -> None:
    m = discreet.mechanism("lattice", prior=(1.0,) * 4, n=500, epsilon="1/10")
    coarse = noise_aware(m, (), (120, 60, 20, 300), leaves_out=True)
    assert isinstance(coarse, MixedShares)
    noise = DiscreteLaplace(20.0)
    one = Respondents(GivenTotal((120, 60, 20), noise, (1.0,) * 3, 500), noise, 300)
    scores = [one.distribution.with_total(number) for number in range(40, 361, 2)]
    logs = [
        distribution.log_evidence + math.lgamma(distribution.n + 1) - abs(distribution.n - 200) / 20
        for distribution in scores
    ]
    whole = np.logaddexp.reduce(logs)
    fine = MixedShares(
        [(math.exp(log - whole), distribution) for log, distribution in zip(logs, scores, strict=True)], 500
    )
    assert len(coarse.nodes) < 60 < len(fine.nodes)
    assert np.array(coarse.interval(0.9)) == pytest.approx(np.array(fine.interval(0.9)), abs=1e-3)
    assert coarse.total.mean() == pytest.approx(fine.total.mean(), abs=0.5)
    assert coarse.total.interval(0.9) == pytest.approx(fine.total.interval(0.9), abs=2)


@pytest.mark.parametrize("options", [{}, {"delta": "1e-6"}, {"n": 600}])
def test_shares_of_those_who_answered(options: dict[str, Any]) -> None:
    frame = pd.DataFrame(
        {"a": PARTLY, "x": [1.0 if v == "no" else 11.0 if v else None for v in PARTLY], "g": ["f", "m"] * 300}
    )
    release = shorthand.shares(frame, column="a", levels=LEVELS, epsilon=4, missing="exclude", **options)
    aware = release.posterior
    assert release.n == 600
    assert len(release.counts) == len(release.noisy or ()) == len(release.prior) == 3
    assert aware.mean() == pytest.approx([200 / 320, 90 / 320, 30 / 320], abs=0.06)
    assert isinstance(aware, MixedShares)
    assert aware.total.mean() == pytest.approx(320, abs=20)
    assert Release.from_json(release.to_json()) == release
    assert "have a value is private" in str(release)
    facts = release.words().facts
    assert ("Missing values", "left out: these are shares of those who answered") in facts
    assert release.likelihood() is not None
    assert release.distribution if release.axes else True
    bins = shorthand.shares(frame, column="x", edges=(0, 10, 20), epsilon=4, missing="exclude", **options)
    assert bins.posterior.mean() == pytest.approx([200 / 320, 120 / 320], abs=0.06)
    columns: dict[str, Any] = {"a": Domain(LEVELS, missing="exclude"), "g": ("f", "m")}
    table = shorthand.table(frame, columns, epsilon=4, **options)
    assert table.margin("a").mean() == pytest.approx([200 / 320, 90 / 320, 30 / 320], abs=0.06)
    assert table.missing == "exclude"
    assert Release.from_json(table.to_json()) == table
    assert table.independence("a", "g").log_bayes_factor < 3
    options.pop("n", None)
    groups = shorthand.groups(
        frame,
        outcome="a",
        by="g",
        levels=Domain(LEVELS, missing="exclude"),
        groups=("f", "m"),
        epsilon=4,
        sizes=(300, 300),
        **options,
    )
    assert groups.shares().mean()[0] == pytest.approx([200 / 320, 90 / 320, 30 / 320], abs=0.08)
    with pytest.raises(InvalidInputError, match="pool needs the number"):
        groups.pool()


@pytest.mark.slow
def test_many_levels_of_unknown_strength_among_those_who_answered() -> None:
    records = [*[f"v{i % 7}" for i in range(700)], *[None] * 500]
    levels = tuple(f"v{i}" for i in range(80))
    aware = shorthand.shares(records, levels=levels, epsilon=2, missing="exclude").posterior
    assert aware.mean()[:7] == pytest.approx([1 / 7] * 7, abs=0.05)
    assert aware.mean()[7:].sum() < 0.1


def test_only_noise_that_can_be_summed_over() -> None:
    with pytest.raises(InvalidInputError, match="these can: lattice"):
        shorthand.shares(PARTLY, levels=LEVELS, epsilon=1, missing="exclude", mechanism="ehd")
    with pytest.raises(InvalidInputError, match="cannot be used with a posterior draw"):
        shorthand.draws(PARTLY, "dirichlet", levels=LEVELS, missing="exclude", epsilon=1, order=4)
    hours = discreet.Schema({"hours": discreet.Number(0, 80, missing="exclude")}, n=3)
    with pytest.raises(InvalidInputError, match="cannot be used with a posterior draw"):
        discreet.Draw("hours", epsilon=1, delta="1e-6").request(hours)


def test_what_is_left_out_is_counted_where_n_is_public() -> None:
    values = ["no", None, "yes", None, "no"]
    domain = Domain(("no", "yes"), missing="exclude")
    assert count_levels(values, domain) == (2, 1, 2)
    assert count_levels(values, domain, private_size=True) == (2, 1)
    assert count_levels([*values, "x", Unprintable()], domain, strict=False) == (2, 1, 4)
    assert count_levels([*values, "x"], domain, strict=False, private_size=True) == (2, 1)
    assert count_bins([1, None, 5, 30, "x"], edges=(0, 2, 9), missing="exclude", strict=False) == (1, 1, 3)
    frame = pd.DataFrame({"a": ["no", None, "yes", "x"], "b": [1, 2, None, 1]})
    both = {"a": domain, "b": Domain((1, 2), missing="exclude")}
    assert contingency(frame, both, strict=False).tolist() == [[1, 0, 0], [0, 0, 1], [1, 1, 0]]
    with pytest.raises(DataError):
        count_levels([*values, "x"], domain)


def test_people_of_a_json_file_are_bounded_in_a_total_run(tmp_path: Path) -> None:
    records = [("a", 1), ("b", 1), ("b", 2), (None, 3), ("zz", 4)]
    path = tmp_path / "t.jsonl"
    path.write_text("\n".join(json.dumps({"v": value, "who": who}) for value, who in records))
    domain = Domain(("a", "b", "?"), missing="?")
    found = count_levels(path, domain, column="v", person="who", per_person=1, strict=False)
    assert found == (1, 1, 2)


def test_nan_is_missing_in_parquet_whatever_the_other_records_are(tmp_path: Path) -> None:
    """DuckDB infers from the range of a column, which leaves NaN out, that nothing in it is NaN."""
    import duckdb
    import polars as pl

    for values in ([1.0, 2.0, 2.0], [1.0, 2.0, math.inf], [-4.0, 2.0, 2.0]):
        path = tmp_path / "x.parquet"
        for kind in (pl.Float64, pl.Float32):
            pl.DataFrame({"x": [*values, *[math.nan] * 9]}, schema={"x": kind}).write_parquet(path)
            for data in (path, duckdb.connect().read_parquet(str(path))):
                bins = count_bins(data, edges=(0, 1.5, 2.5), outside="clip", missing="level")
                assert bins[-1] == 9
                assert count_levels(data, Domain((1, 2, 3, 4), other=3, missing=4))[-1] == 9
                summed = clipped_sum(data, bounds=(0, 8), missing=8)
                assert summed.total == 72 + sum(min(max(x, 0), 8) for x in values)


# ---- total mode: no error depends on a record --------------------------------------------------------------

COLUMNS: dict[str, Any] = {
    "a": ["no", "yes"],
    "b": {"values": ["no", "yes"], "missing": "no"},
    "c": {"values": ["no", "yes"], "other": "no", "missing": "yes"},
    "n": [1, 2, 3],
    "m": {"low": 0, "high": 9, "missing": 0},
    "x": {"low": 0, "high": 10, "bins": [0, 5, 10]},
    "y": {"low": 0, "high": 10, "bins": [0, 5, 10], "outside": "bin", "missing": "bin"},
    "z": {"low": 0, "high": 10, "missing": 0},
    "g": ["f", "m"],
}
"""The columns of the files, which hold what ``a``, ``n`` and ``x`` hold under several declarations."""
COPIES = {"b": "a", "c": "a", "m": "n", "y": "x", "z": "x"}
KINDS: dict[str, dict[str, Any]] = {
    "levels": {"kind": "proportions", "columns": "a", "epsilon": 1},
    "mapped": {"kind": "proportions", "columns": "c", "epsilon": 1},
    "numbers": {"kind": "proportions", "columns": "n", "epsilon": 1},
    "bins": {"kind": "proportions", "columns": "x", "epsilon": 1},
    "outside": {"kind": "proportions", "columns": "y", "epsilon": 1},
    "table": {"kind": "proportions", "columns": ["a", "n"], "epsilon": 1},
    "groups": {"kind": "proportions", "columns": "a", "by": "g", "epsilon": 1},
    "net": {"kind": "network", "parents": {"a": [], "n": ["a"]}, "epsilon": 1},
    "mean": {"kind": "mean", "column": "x", "epsilon": 1},
    "by": {"kind": "mean", "column": "x", "by": "a", "epsilon": 1},
    "quantiles": {"kind": "quantiles", "column": "x", "epsilon": 1},
    "line": {"kind": "regress", "formula": "x ~ m", "epsilon": 1, "delta": 1e-6},
    "logit": {"kind": "regress", "formula": "a ~ x", "family": "binomial", "epsilon": 1, "delta": 1e-6},
    "rate": {
        "kind": "draw",
        "column": "m",
        "family": "poisson",
        "prior": [2, 1],
        "epsilon": 1,
        "delta": 1e-6,
    },
    "draw": {"kind": "draw", "column": "b", "epsilon": 1, "delta": 1e-6},
    "bounded": {"kind": "draw", "column": "z", "epsilon": 1, "delta": 1e-6},
}
PUBLIC = tuple(kind for kind in KINDS if kind != "groups")
HIDDEN = tuple(kind for kind in KINDS if kind not in ("rate", "draw", "bounded"))
BASE = [{"a": "no", "x": 3.5, "n": 1, "g": "f"}, {"a": "yes", "x": 7.0, "n": 2, "g": "m"}] * 20
BAD: dict[str, tuple[Any, ...]] = {
    "csv": ("", "NO ", "?", "nan", "1e999", "-1e999", "12.5", "\u00e9\U0001f600", "a" * 5000, "[1]", "0x1F"),
    "jsonl": (
        None,
        {"b": [1]},
        [],
        True,
        "7",
        "",
        10**40,
        1e300,
        -5,
        2.5,
        "x" * 5000,
        "\u0000",
        "\ud83d\ude00",
    ),
}


class Frozen:
    """Whatever a mechanism gave first, again and again; and rounds and means that see no sums."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept: dict[Any, Any] = {}
        self.rounds: dict[str, int] = {}
        for made in (Lattice, Geometric, GaussianCounts):
            monkeypatch.setattr(made, "_noisy", self._first(made._noisy))
        monkeypatch.setattr(PosteriorSampler, "release", self._first(PosteriorSampler.release))
        monkeypatch.setattr(means.MeanDesign, "answer", self._first(means.MeanDesign.answer))
        real = add_noise

        def first(sums: Any, noise: Any, source: Any) -> Any:
            key = ("round", len(sums.gradient), noise)
            return self.kept.setdefault(key, real(sums, noise, source))

        monkeypatch.setattr(rounds, "add_noise", first)

    def _first(self, real: Any) -> Any:
        def frozen(this: Any, *given: Any) -> Any:
            key = (real.__qualname__, this.k if isinstance(this, Mechanism) else repr(this))
            if key not in self.kept:
                self.kept[key] = real(this, *given)
            return self.kept[key]

        return frozen


def written(folder: Path, records: list[dict[str, Any]], ending: str) -> Path:
    path = folder / f"data.{ending}"
    records = [{**one, **{copy: one[name] for copy, name in COPIES.items()}} for one in records]
    if ending == "jsonl":
        path.write_text("".join(json.dumps(one) + "\n" for one in records))
    else:
        frame = pd.DataFrame(records, columns=list(COLUMNS)).astype(object)
        frame.to_csv(path, index=False, na_rep="")
    return path


def ran(folder: Path, records: list[dict[str, Any]], ending: str, relation: str, kinds: Any) -> Any:
    """Everything that ``discreet run`` leaves behind: exit code, words, warnings, documents."""
    folder.mkdir()
    data = written(folder, records, ending)
    shown = {"values": COLUMNS["g"], "public": True} if relation == "within-group" else COLUMNS["g"]
    size = {} if relation == "add-remove" else {"n": "public"}
    (folder / "schema.json").write_text(
        json.dumps({"columns": {**COLUMNS, "g": shown}, "strict": False, **size})
    )
    asked = []
    for name in kinds:
        lines = [
            f"{key} = {json.dumps(value)}"
            for key, value in KINDS[name].items()
            if not isinstance(value, dict)
        ]
        tables = [
            f"{key}.{own} = {json.dumps(value)}"
            for key, nested in KINDS[name].items()
            if isinstance(nested, dict)
            for own, value in nested.items()
        ]
        asked.append("\n".join(["[[question]]", f'id = "{name}"', *lines, *tables]))
    study = folder / "study.toml"
    head = f'schema = "schema.json"\n\n[study]\ndata = "{data.name}"\nepsilon = 50\ndelta = 1e-3\n\n'
    study.write_text(head + "\n\n".join(asked))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        result = CliRunner().invoke(app, ["run", str(study), "--out", str(folder / "out")])
    printed = re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d\S*", "…", result.output + (result.stderr or ""))
    kept = json.loads((folder / "out" / "study.json").read_text()) if result.exit_code == 0 else {}
    documents = re.sub(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d\S*", "…", json.dumps(kept))
    return {
        "code": result.exit_code,
        "printed": printed.replace(str(folder), ""),
        "warnings": sorted({str(one.message) for one in said}),
        "documents": documents.replace(str(folder), ""),
    }


@pytest.mark.parametrize("ending", ["csv", pytest.param("jsonl", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("relation", "kinds"),
    now_or_slow(
        [("replace-one", PUBLIC), ("within-group", ("groups",)), ("add-remove", HIDDEN)],
        lambda row: row[0] != "replace-one",
    ),
)
def test_a_total_run_is_the_same_whatever_a_record_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, relation: str, kinds: Any, ending: str
) -> None:
    Frozen(monkeypatch)
    # Made from the document alone, which is compared: most of the time of a run.
    monkeypatch.setattr("discreet._reporting.report.report", lambda result: "page")
    one = ran(tmp_path / "base", BASE, ending, relation, kinds)
    assert one["code"] == 0, one["printed"]
    hidden = relation == "add-remove"
    replaced = BASE[-len(BAD[ending]) :]
    fields = "axn" if relation == "within-group" else "axng"  # there the group of every record is public
    strange = [{**old, **dict.fromkeys(fields, bad)} for old, bad in zip(replaced, BAD[ending], strict=True)]
    rest = BASE if hidden else BASE[: -len(strange)]
    assert ran(tmp_path / "bad", [*rest, *strange], ending, relation, kinds) == one
    if hidden:
        assert ran(tmp_path / "none", [], ending, relation, kinds) == one


YES_NO = Domain(("no", "yes"), missing="exclude")


def counted(path: Path) -> Any:
    return count_levels(path, YES_NO, column="a", strict=False)


@pytest.mark.parametrize(
    "strange",
    ["x" * 3_000_000, "\0", "x\ny" * 4000, '"', ",", "\ufffe", "\r", "'", ""],
    ids=["3 MB", "NUL", "12 kB of lines", "quote", "comma", "no character", "return", "mark", "empty"],
)  # fmt: skip
@pytest.mark.parametrize("where", ["a", "b"])
def test_no_value_of_a_well_formed_csv_file_is_an_error(tmp_path: Path, strange: str, where: str) -> None:
    path = tmp_path / "t.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["a", "b"])
        writer.writerows([("yes", "1")] * 5)
        writer.writerow([strange if name == where else "no" for name in "ab"])
    assert counted(path) == ((1, 5, 0) if where == "b" else (0, 5, 1))
    assert count_texts(path, "b").get("1") == 5


def test_a_csv_file_is_read_by_one_thread_where_no_record_may_be_an_error(tmp_path: Path) -> None:
    """Several fail where a quoted field lies across the border between two of them."""
    path, lines = tmp_path / "t.csv", b"yes\n" * 475_000
    path.write_bytes(b"a\n" + b"yes\n" * 1_784_687 + b'"' + lines + b'"\n' + b"yes\n" * 3_569_374)
    assert counted(path) == (0, 1_784_687 + 3_569_374, 1)


@pytest.mark.parametrize("line", [r'{"a": "\ud800"}', '{"a": "yes"', "nonsense", "3", "[1]", '{"a": 1e999}'])
def test_a_line_that_is_no_json_counts_as_missing(tmp_path: Path, line: str) -> None:
    path = tmp_path / "t.jsonl"
    for lines in ([line, *['{"a": "yes"}'] * 5], ['{"a": "yes"}', line, *['{"a": "yes"}'] * 4]):
        path.write_text("\n".join(lines) + "\n")
        assert counted(path) == (0, 5, 1)
    array = tmp_path / "t.json"
    array.write_text('[{"a": "yes"}]')
    with pytest.raises(InvalidInputError, match=r"cannot be used with \.json files"):
        counted(array)


def test_bytes_of_parquet_that_are_no_text_count_as_missing(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"a": [b"yes", b"\xff", b"no"]}), tmp_path / "t.parquet")
    assert counted(tmp_path / "t.parquet") == (1, 1, 1)


def test_infinite_numbers_of_a_sheet_count_as_missing() -> None:
    from discreet._data.excel import _plain

    assert [_plain(value) for value in (math.inf, -math.inf, math.nan, 2.0)] == [None, None, None, 2]


@pytest.mark.parametrize("records", [["a"] * 9, ["a"] * 9 + [1], [1j], [None], [b"x", "y"]])
def test_values_of_a_list_are_no_error_of_a_mean(records: list[Any]) -> None:
    """A list of texts was one, and with one number among them it was not."""
    made = shorthand.mean(records, bounds=(0, 2), epsilon=1, strict=False, hidden=True)
    assert made.guarantee.epsilon == 1


def test_a_strict_run_stops_at_an_undeclared_value(tmp_path: Path) -> None:
    path = written(tmp_path, [*BASE, {"a": "?", "x": 1, "n": 1, "g": "f"}], "csv")
    with pytest.raises(DataError):
        shorthand.shares(path, ("no", "yes"), column="a", epsilon=1)
    assert shorthand.shares(path, ("no", "yes"), column="a", epsilon=1, strict=False).n == len(BASE) + 1
    lenient = discreet.Schema({"a": ["no", "yes"], "x": (0, 10)}, n="public", strict=False)
    study = discreet.Study(path, lenient, epsilon=3, delta="1e-5", ledger=tmp_path / "l.db", dataset="d")
    assert study.proportions("a", epsilon=1).missing == "exclude"
    with pytest.raises(InvalidInputError, match="strict=False"):
        study.draw("a ~ x", epsilon=1, delta="1e-6")
    (tmp_path / "schema.toml").write_text(lenient.to_toml())
    result = CliRunner().invoke(
        app, ["proportions", str(path), str(tmp_path / "schema.toml"), "a", "--epsilon", "1"]
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("question", "about", "match"),
    [
        (discreet.Draw("x", epsilon=1, delta="1e-6"), {}, "declare missing="),
        (discreet.Draw("x", family="poisson", prior=(2, 1), epsilon=1, delta="1e-6"), {}, "declare missing="),
        (
            discreet.Mean("x", epsilon=1),
            {"person": "p", "per_person": 1},
            "strict=False cannot be used with person",
        ),
        (
            discreet.Proportions("a", epsilon=1),
            {"person": "p", "per_person": 1},
            "strict=False cannot be used with person",
        ),
    ],
)
def test_what_cannot_be_total_is_refused_before_data_are_opened(
    question: Any, about: Any, match: str
) -> None:
    columns = {"a": ("a", "b"), "x": (0, 9)}
    with pytest.raises(InvalidInputError, match=match):
        question.request(discreet.Schema(columns, n="public", strict=False, **about))
