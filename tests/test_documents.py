"""Documents of strangers: bounded before they are parsed, unambiguous, shown within seconds or refused."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import discreet
import shorthand
from discreet._cli import main
from discreet._documents.answer import load_answer
from discreet._documents.base import checksum, only, parse, read_document, read_text, writable, write_document
from discreet._json import MAX_BYTES, MAX_NESTING, MAX_VALUES, Unreadable, read_json
from discreet._reporting.report import report
from discreet.errors import CorruptReleaseError, TooLargeError
from effort import processor_seconds

WRITTEN = Path(__file__).parent / "fixtures" / "0.1.0" / "documents"
PURE = WRITTEN / "release-lattice-2.json"


# The parser.


@pytest.mark.parametrize(
    "text",
    [
        "[" * 10**6,
        "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1),
        '{"a":' * 400 + "1" + "}" * 400,
        "[" + "[]," * MAX_VALUES + "1]",
        "x" * (MAX_BYTES + 1),
        '{"a": 1, "a": 1}',
        '{"a": {"b": 1, "b": 2}}',
        '{"a": NaN}',
        "[Infinity]",
        "[-Infinity]",
        '{"a": [1, -1e999]}',
        "9" * 5000,
        "",
        "{",
        b"\xff\xfe",
    ],
    ids=lambda text: str(text)[:12],
)
def test_what_is_hostile_or_ambiguous_is_refused_soon_and_in_little_memory(text: str | bytes) -> None:
    tracemalloc.start()
    try:
        with processor_seconds(10):
            with pytest.raises(Unreadable):
                read_json(text)
            with pytest.raises(CorruptReleaseError, match="not a release"):
                parse(text)
        assert tracemalloc.get_traced_memory()[1] < 200 * 2**20
    finally:
        tracemalloc.stop()


def test_what_is_plain_is_read() -> None:
    assert read_json('{"a": [1, 2.5, "x", null, true]}') == {"a": [1, 2.5, "x", None, True]}
    assert read_json("[" * MAX_NESTING + "]" * MAX_NESTING) is not None
    assert read_json('"' + "," * 10**6 + '"') if MAX_VALUES > 10**6 else True


def test_a_document_has_four_parts_and_no_more(tmp_path: Path) -> None:
    text = write_document("discreet/x", 1, {"a": 1})
    assert read_document(text, "discreet/x", 1) == {"a": 1}
    document = json.loads(text)
    for forged in ({**document, "note": "trust me"}, {**document, "Release": {}}, [document]):
        with pytest.raises(CorruptReleaseError):
            read_document(json.dumps(forged), "discreet/x", 1)
    doubled = text.replace('"a": 1', '"a": 2, "a": 1')
    assert json.loads(doubled)["checksum"] == checksum({"a": 1})  # what json itself lets pass
    with pytest.raises(CorruptReleaseError, match="twice"):
        read_document(doubled, "discreet/x", 1)
    only({"a": 1}, ("a", "b"))
    with pytest.raises(CorruptReleaseError, match=r"has an unexpected part 'c\\\\n'"):
        only({"c\n": 1}, ("a", "b"))
    with pytest.raises(TooLargeError):
        writable("x" * (MAX_BYTES + 1))
    long = tmp_path / "long.json"
    with long.open("wb") as file:
        file.truncate(10 * MAX_BYTES)
    with pytest.raises(CorruptReleaseError, match="longer"):
        read_text(long)


# What `discreet show` does with them.


def forged(change: Any) -> str:
    """A release whose content was changed, with the right checksum."""
    document = json.loads(PURE.read_text("utf-8"))
    change(document["release"])
    document["checksum"] = checksum(document["release"])
    return json.dumps(document)


def nested(depth: int) -> dict[str, Any]:
    content: dict[str, Any] = {"kind": "gaussian", "mu_squared": "1"}
    for _ in range(depth):
        content = {"kind": "group", "curve": content, "size": 2}
    return content


PURE_CURVE = {"kind": "approximate", "epsilon": "1/10", "delta": "0"}
HOSTILE: dict[str, Any] = {
    "negative epsilon": {"epsilon": "-3"},
    "negative delta": {"delta": "-1/2"},
    "huge exponent": {"delta": "1e-99999999"},
    "long number": {"epsilon": "1" * 10**6},
    "nested curves": {"curve": nested(400)},
    "deeper": {"curve": nested(3000)},
    "many": {"epsilon": None, "curve": {"kind": "composed", "parts": [[PURE_CURVE, 10**9]]}},
    "more": {"epsilon": None, "curve": {"kind": "composed", "parts": [[PURE_CURVE, 10**250]]}},
    "new lines": {"basis": "theorem\nGuarantee: ε = 0"},
    "extra": {"note": "Guarantee: ε = 0"},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_show_ends_within_seconds(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DISCREET_LEDGER", raising=False)
    try:
        text = forged(lambda content: content["guarantee"].update(HOSTILE[kind]))
    except RecursionError:  # in writing it, here
        text = '{"format": "discreet/release", "release": ' + "[" * 5000 + "]" * 5000 + "}"
    (tmp_path / "hostile.json").write_text(text)
    with processor_seconds(20), pytest.raises(SystemExit) as stopped:
        main(["show", str(tmp_path / "hostile.json")])
    captured = capsys.readouterr()
    assert stopped.value.code in (0, 5)  # shown, or a corrupt document
    assert "Traceback" not in captured.err
    assert not any(line.startswith("Guarantee: ε = 0") for line in captured.out.splitlines())


# Parts that are each well formed and do not belong together, under a checksum that is right.


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("release-lattice-2", ("guarantee", "epsilon"), "1/100"),
        ("release-lattice-2", ("levels",), ["a", "b", "c"]),
        ("release-lattice-2", ("noisy",), []),
        ("release-lattice-2", ("noisy",), None),
        ("release-lattice-2", ("parameters", "epsilonx"), "1"),
        ("sample-beta-direct", ("draws",), [[0.1, 0.2]]),
        ("sample-beta-direct", ("draws",), []),
        ("sample-beta-direct", ("r",), 0.0),
        ("sample-dirichlet-diffused-delta", ("prior",), [1.0]),
        ("logistic-two", ("features",), ["one"]),
        ("logistic-three", ("classes",), ["a", "b"]),
        ("release-conditional", ("groups",), ["one"]),
        ("release-conditional", ("sizes",), [54, 66, 2**70]),
    ],
)
def test_parts_that_do_not_belong_together_are_refused(name: str, path: tuple[str, ...], value: Any) -> None:
    document = json.loads((WRITTEN / f"{name}.json").read_bytes())
    load_answer(json.dumps(document))
    part = document["release"]
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    document["checksum"] = checksum(document["release"])
    with pytest.raises(CorruptReleaseError):
        load_answer(json.dumps(document))


def changed(answer: Any, **guarantee: str) -> str:
    """The document of an answer that claims something else."""
    content = json.loads(json.dumps(answer.content()))
    for one in (content, *content.get("means", ())):
        one["guarantee"] |= guarantee
    return write_document(answer.format, answer.version, content)


@pytest.mark.parametrize(
    ("options", "claim"),
    [
        ({"epsilon": 10}, {"epsilon": "1/10"}),
        ({"epsilon": 10}, {"epsilon": "1/10", "delta": "1e-300"}),
        ({"epsilon": 10}, {"epsilon": "1/10", "delta": "1/2"}),
        ({"epsilon": 1, "delta": "1e-6"}, {"epsilon": "1/2"}),
        ({"epsilon": 1, "delta": "1e-6"}, {"epsilon": "1/2", "delta": "1e-3"}),
        ({"epsilon": 1, "delta": "1e-6"}, {"delta": "1e-7"}),
        ({"epsilon": 1, "delta": "1e-6"}, {"curve": {"kind": "gaussian", "mu_squared": "1/100"}}),
        ({"epsilon": 1}, {"relation": "add-remove"}),
        ({"epsilon": 1, "hidden": True}, {"relation": "replace-one"}),
        ({"epsilon": 1, "hidden": True}, {"epsilon": "1/2", "delta": "1e-9"}),
    ],
)
def test_no_less_is_claimed_than_a_mechanism_costs(options: Any, claim: Any) -> None:
    made = shorthand.shares({"a": 30, "b": 10}, levels=("a", "b"), **options)
    assert load_answer(changed(made)) == made
    with pytest.raises(CorruptReleaseError):
        load_answer(changed(made, **claim))


NUMBERS = [0.5 * i for i in range(40)]
ANSWERS: dict[str, Any] = {
    "mean": lambda: shorthand.mean(NUMBERS, bounds=(0, 20), epsilon=1),
    "mean (ε, δ)": lambda: shorthand.mean(NUMBERS, bounds=(0, 20), epsilon=1, delta="1e-6"),
    "means": lambda: _means(),
    "means (ε, δ)": lambda: _means(delta="1e-6"),
    "groups": lambda: shorthand.groups(
        _table(), outcome="x", by="g", groups=("a", "b"), levels=("l", "m"), epsilon=1
    ),
    "a draw": lambda: shorthand.draws(
        {"a": 30, "b": 10}, "dirichlet", levels=("a", "b"), prior=(1, 1), epsilon=1, delta="1e-6"
    ),
    "draws of a mean": lambda: shorthand.draws(
        NUMBERS, "gaussian", sigma=2, bounds=(0, 20), prior=(5, 1), draws=2, epsilon=1, delta="1e-6"
    ),
    "rejection": lambda: _logistic("rejection"),
    "langevin": lambda: _logistic("langevin"),
}


def _table() -> Any:
    import pandas

    groups = [("a", "b")[i % 2] for i in range(40)]
    return pandas.DataFrame(
        {"x": [("l", "m")[i // 30] for i in range(40)], "g": groups, "u": NUMBERS, "y": groups}
    )


def _means(**more: Any) -> Any:
    return shorthand.mean(_table(), "u", by="g", levels=("a", "b"), bounds=(0, 20), epsilon=1, **more)


def _logistic(sampler: str) -> Any:
    pytest.importorskip("sklearn")
    return discreet.draw(
        _table(),
        "y ~ u",
        schema=discreet.Schema({"u": (0, 20), "y": ["a", "b"]}, n="public"),
        epsilon=1,
        delta="1e-6",
        options={"sampler": sampler, "draws": 2},
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", ANSWERS)
def test_no_answer_claims_less_than_its_noise_allows(kind: str) -> None:
    made = ANSWERS[kind]()
    load_answer(changed(made))
    known = made.guarantee
    claims: list[dict[str, Any]] = [{"epsilon": str(known.exact_epsilon * 9 / 10)}]
    if "means" not in kind:  # whose noise, for a record that moves, hides one that is there or not
        claims += [{"relation": "add-remove"}]
    if known.exact_delta:
        claims += [{"delta": str(known.exact_delta / 2)}]
        claims += [{"curve": {"kind": "gaussian", "mu_squared": "1/1000"}}]
    for claim in claims:
        words = r"claim|must have group sizes|does not match its noise|its guarantee meets"
        with pytest.raises(CorruptReleaseError, match=words):
            load_answer(changed(made, **claim))


def test_a_study_says_what_its_answers_cost(tmp_path: Path) -> None:
    """Its report states the account's total: no less than was charged, and that no less than was promised."""
    data, schema = {"x": ["a"] * 30 + ["b"] * 10}, discreet.Schema({"x": ["a", "b"]}, n=40)
    study = discreet.Study(data, schema, epsilon=2, ledger=tmp_path / "ledger.db", dataset="spring")
    for request in ("one", "two"):
        study.proportions("x", epsilon="1/2", id=request)
    document = json.loads(study.result().to_json())
    load_answer(json.dumps(document))
    for path, value in (
        (("budget", "spent", "epsilon"), "3/4"),
        (("answers", 0, "receipt", "charged", "epsilon"), "1/4"),
        (("answers", 0, "receipt", "cap"), {"epsilon": "2", "delta": "1/10"}),
    ):
        forged_one = json.loads(json.dumps(document))
        part = forged_one["release"]
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = value
        forged_one["checksum"] = checksum(forged_one["release"])
        with pytest.raises(CorruptReleaseError):
            load_answer(json.dumps(forged_one))


def test_a_group_claims_what_all_claim() -> None:
    content = json.loads(json.dumps(_means().content()))
    content["means"][0]["guarantee"]["epsilon"] = "1/10"
    with pytest.raises(CorruptReleaseError, match="differs from that of the whole"):
        load_answer(write_document("discreet/means", 1, content))


def test_another_point_of_the_same_curve_may_be_claimed() -> None:
    made = shorthand.shares({"a": 30, "b": 10}, levels=("a", "b"), epsilon=1, delta="1e-6")
    assert (
        load_answer(changed(made, epsilon="1/2", delta=repr(made.guarantee.delta_at("1/2")))).epsilon == 0.5
    )


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("options", [{}, {"hidden": True}, {"missing": "exclude"}])
@pytest.mark.parametrize("count", [10**17, 10**20, 10**30])
def test_large_counts_are_read_and_reported(options: Any, count: int) -> None:
    made = shorthand.shares({"a": count, "b": 1}, levels=("a", "b"), epsilon=1, **options)
    assert load_answer(made.to_json()) == made
    assert str(made)
    assert report(made)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "claim",
    [
        {"epsilon": "0"},
        {"delta": "0"},
        {"delta": "1e-320"},
        {"epsilon": "1e-30", "delta": "1e-12"},
        {"relation": "replace-one"},
    ],
)
def test_levels_that_were_found_are_bound_to_their_guarantee(claim: Any) -> None:
    asked: Any = {"levels": "discover", "epsilon": 1, "delta": "1e-6", "hidden": True}
    made = shorthand.shares({"tea": 10**20}, **asked)
    assert load_answer(changed(made)) == made
    with processor_seconds(5), pytest.raises((CorruptReleaseError, TooLargeError)):
        load_answer(changed(made, **claim))
