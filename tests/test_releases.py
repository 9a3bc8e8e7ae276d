from __future__ import annotations

import json

import numpy as np
import pandas
import pytest

import discreet
import shorthand
from conformance.cases import REPLACE_ONE
from discreet._documents import base as documents
from discreet.answers.release import Release
from discreet.errors import CorruptReleaseError, InvalidInputError
from discreet.questions import _counts as counts

ANSWERS = ["no"] * 70 + ["yes"] * 30


def test_five_lines() -> None:
    r = shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1.0, prior=1.0, mechanism="auto")
    assert r.mechanism == "lattice"
    assert r.guarantee.epsilon == 1.0
    assert isinstance(r.plug_in, discreet.Beta)
    assert r.plug_in.parameters == (1.0 + r.counts[0], 1.0 + r.counts[1])
    assert sum(r.counts) == 100
    assert sum(r.noisy) == 100
    assert "no" in r.summary()
    assert "replace-one" in r.summary()


@pytest.mark.parametrize("name", REPLACE_ONE)
def test_json_round_trip(name: str) -> None:
    counts = {"a": 12, "b": 10, "c": 9}
    r = shorthand.shares(
        counts,
        levels=("a", "b", "c"),
        epsilon="4/3",
        mechanism=name,
        **({"delta": "1/1000"} if name == "mbeta" else {}),
        options={"acknowledge_not_private": name == "ehdl"},
    )
    text = r.to_json()
    back = Release.from_json(text)
    assert back == r
    assert back.to_json() == text
    assert back.plug_in == r.plug_in
    assert back.guarantee.exact_epsilon == r.guarantee.exact_epsilon
    assert discreet.mechanism(back.mechanism, **back.parameters).guarantee == r.guarantee


def test_numpy_levels_are_plain_in_json() -> None:
    r = shorthand.shares(np.array([0, 1, 1, 0]), levels=np.array([0, 1]), epsilon=3)
    assert json.loads(r.to_json())["release"]["levels"] == [0, 1]


def test_huge_counts_survive_json() -> None:
    r = shorthand.shares({"a": 10**30, "b": 5}, levels=("a", "b"), epsilon=1)
    assert Release.from_json(r.to_json()).counts == r.counts


@pytest.mark.parametrize(
    "edit",
    [
        lambda d: d["release"]["counts"].__setitem__(0, d["release"]["counts"][0] + 1),
        lambda d: d["release"]["guarantee"].__setitem__("epsilon", "1/1000"),
        lambda d: d["release"].__setitem__("private", False),
        lambda d: d["release"].pop("noisy"),
        lambda d: d.__setitem__("checksum", "sha256:0"),
        lambda d: d.pop("checksum"),
    ],
)
def test_edited_releases_are_refused(edit: object) -> None:
    document = json.loads(shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1).to_json())
    edit(document)  # type: ignore[operator]
    with pytest.raises(CorruptReleaseError, match="checksum"):
        Release.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("counts", [1.5, 2]),
        ("counts", [1]),
        ("levels", ["a"]),
        ("noisy", ["x", 1]),
        ("versions", None),
        (
            "guarantee",
            {"epsilon": "1/0", "delta": "0", "relation": "replace-one", "basis": "", "assumptions": []},
        ),
        ("guarantee", {}),
        ("parameters", {"prior": [1, 1], "n": "many"}),
    ],
)
def test_malformed_releases_with_a_good_checksum_are_refused(key: str, value: object) -> None:
    document = json.loads(shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1).to_json())
    document["release"][key] = value
    document["checksum"] = documents.checksum(document["release"])
    with pytest.raises(CorruptReleaseError, match="malformed"):
        Release.from_json(json.dumps(document))


def test_unknown_versions_and_formats() -> None:
    document = json.loads(shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1).to_json())
    with pytest.raises(CorruptReleaseError, match="version 99"):
        Release.from_json(json.dumps({**document, "version": 99}))
    for text in ("", "{", "[]", "null", '{"format": "other"}', "[" * 100_000):
        with pytest.raises(CorruptReleaseError):
            Release.from_json(text)


def test_nothing_but_the_released_value_reaches_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbouring datasets, noise chosen such that the released values agree: the same bytes."""
    texts = []
    for yes, noise in ((30, 2), (31, 1)):
        monkeypatch.setattr(
            "discreet.mechanisms.lattice.lattice_noise",
            lambda k, e, s, noise=noise: (-noise, noise),
        )
        r = shorthand.shares(["no"] * (100 - yes) + ["yes"] * yes, levels=("no", "yes"), epsilon=1)
        texts.append((r.to_json(), r.summary(), repr(r.table())))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", ["lattice", "lshist", "lsdim", "lszhang"])
def test_three_levels_release_nothing_but_the_noisy_value(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for three levels and independent noise: equal noisy counts, equal bytes."""
    texts = []
    for data_counts in ((30, 40, 30), (31, 39, 30)):
        target = (33, 37, 30)
        steps = iter([t - c for t, c in zip(target, data_counts, strict=True)] * 2)
        monkeypatch.setattr(
            "discreet.mechanisms.independent.floor_laplace", lambda p, q, s, steps=steps: next(steps)
        )
        noise = tuple(t - c for t, c in zip(target, data_counts, strict=True))
        monkeypatch.setattr("discreet.mechanisms.lattice.lattice_noise", lambda k, e, s, noise=noise: noise)
        data = dict(zip("abc", data_counts, strict=True))
        r = shorthand.shares(data, levels=("a", "b", "c"), epsilon=1, mechanism=name)
        texts.append((r.to_json(), r.summary()))
    assert texts[0] == texts[1]


def test_the_mechanism_is_built_before_the_data_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    build, count = counts.build_mechanism, counts.count_levels
    monkeypatch.setattr(counts, "build_mechanism", lambda *a, **k: (order.append("build"), build(*a, **k))[1])
    monkeypatch.setattr(counts, "count_levels", lambda *a, **k: (order.append("open"), count(*a, **k))[1])
    shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1, n=100)
    assert order[0] == "build"
    assert "open" in order[1:]


def test_declared_n_is_checked_after_the_mechanism_is_fixed() -> None:
    opened = []

    class Recorder(list):  # type: ignore[type-arg]
        def __iter__(self):  # type: ignore[no-untyped-def]
            opened.append(True)
            return super().__iter__()

    with pytest.raises(InvalidInputError, match="mechanism"):
        shorthand.shares(Recorder(ANSWERS), levels=("no", "yes"), epsilon=1, n=100, mechanism="nope")
    assert not opened
    with pytest.raises(InvalidInputError, match="n=99"):
        shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1, n=99)
    assert shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1, n=100).n == 100


def test_a_release_says_what_was_mapped_where() -> None:
    r = shorthand.shares(
        ["a", "b", "?", None] * 9, levels=("a", "b", "rest"), other="rest", missing="rest", epsilon=1
    )
    back = Release.from_json(r.to_json())
    assert (back.other, back.missing) == ("rest", "rest")
    assert shorthand.shares(ANSWERS, levels=("no", "yes"), epsilon=1).other is None


def test_tables_cover_every_level() -> None:
    r = shorthand.shares({"a": 4, "b": 5, "c": 1}, levels=("a", "b", "c"), epsilon=2, prior=(1, 2, 3))
    rows = r.table(0.9)
    assert [row["value"] for row in rows] == ["a", "b", "c"]
    assert sum(row["mean"] for row in rows) == pytest.approx(1)
    assert all(row["low"] < row["mean"] < row["high"] for row in rows)


def test_posterior_plot(tmp_path) -> None:  # type: ignore[no-untyped-def]
    for levels in (("no", "yes"), ("a", "b", "c")):
        r = shorthand.shares({levels[0]: 60, levels[1]: 40}, levels=levels, epsilon=1)
        axes = discreet.plots.posterior(r, truth=discreet.Dirichlet(tuple(r.plug_in.parameters)))
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        axes.figure.savefig(tmp_path / "plot.png")
        assert (tmp_path / "plot.png").stat().st_size > 5000


def test_answers_draw_themselves() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    one = shorthand.shares({"no": 60, "yes": 40}, levels=("no", "yes"), epsilon=1)
    assert one.plot(level=0.9).get_ylabel() == "posterior density"
    many = shorthand.shares(dict.fromkeys(range(20), 5), levels=tuple(range(20)), epsilon=1)
    axes = many.plot(level=0.9)
    assert [label.get_text() for label in axes.get_yticklabels()] == [str(i) for i in range(20)]
    assert axes.get_xlabel() == "90 % interval"
    rows = pandas.DataFrame({"a": ["x", "y"] * 20, "b": ["u", "u", "v", "u"] * 10})
    table = shorthand.table(rows, {"a": ("x", "y"), "b": ("u", "v")}, epsilon=2)
    assert len(table.plot().get_yticklabels()) == 4
    printed = str(table.crosstab(percent="column"))
    assert printed.startswith("Percent of the column\n")
    assert printed.count(" %") == 4
    groups = discreet.noisy_counts([31, 19, 28, 22, 12, 38], noise=("lattice", 4.0), total=150)
    pooled = groups.pool(("north", "east", "south"), sizes=[50, 50, 50])
    assert {label.get_text() for label in pooled.plot().get_yticklabels()} == {"north", "east", "south"}
