"""Documents of every kind whose guarantee, or whatever it follows from, was edited under a right checksum."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet._declarations import (
    as_epsilon,
    as_rational,
    group_assumption,
    in_present_words,
    people_assumption,
    people_bound,
)
from discreet._documents.answer import Answer, load_answer
from discreet._documents.base import checksum
from discreet._numerics.cells import climb
from discreet._registry import DOCUMENTS
from discreet.errors import CorruptLedgerError, CorruptReleaseError, DiscreetError, InvalidInputError
from discreet.regression._newton.curvature import LatentCurvature
from discreet.regression._newton.fit import Regression
from discreet.regression._newton.formulas import check_formula
from effort import processor_seconds

pytestmark = pytest.mark.filterwarnings("ignore")

WRITTEN = Path(__file__).parent / "fixtures" / "0.2" / "documents"
TODAY: dict[str, Any] = {
    "regress-robust": ("public", {"options": {"errors": "robust"}, "delta": "1e-6"}),
    "quantiles": ("public", {}),
    "quantiles-add-remove": (None, {}),
    "quantiles-groups": ("public", {"by": "sex"}),
    "survival": ("public", {"by": "arm", "bins": 4}),
    "survival-add-remove": (None, {"bins": 4}),
    "exponential": (12, {"score": "kl"}),
    "exponential-table": (12, {"score": lambda x, b: abs(x[0] - b[0])}),
    "weighted": (120, {}),
    "weighted-add-remove": (None, {"delta": "1e-6"}),
    "weighted-strata": (120, {"strata": "sex"}),
    "weighted-clusters": (120, {"cluster": "who", "person": "who", "per_person": 2}),
}
"""What 0.2 had not: the number of records, and what else is asked."""
NAMES = sorted([*(path.stem for path in WRITTEN.glob("*.json")), *TODAY])


@cache
def text_of(name: str) -> str:
    """The document as it is written today; a regression is asked again, as its columns are scaled today."""
    if name in TODAY:
        n, asked_too = TODAY[name]
        columns = {"age": (0, 100), "sex": discreet.Category(("f", "m"), public=True)}
        columns["arm"] = ["a", "b"]
        data = {"age": [20.0, 30.0, 55.0, 70.0] * 30, "sex": ["f", "m", "m", "f"] * 30}
        data["arm"] = ["a", "b"] * 60
        if name.startswith("exponential"):
            few, asked_now = {"arm": data["arm"][:n]}, {"mechanism": "exponential", "options": asked_too}
            few_schema = discreet.Schema({"arm": ["a", "b"]}, n=n)
            return str(discreet.proportions(few, "arm", schema=few_schema, epsilon=1, **asked_now).to_json())
        if name.startswith("weighted"):
            delta = asked_too.pop("delta", None) if "delta" in asked_too else None
            weighted = discreet.Schema({**columns, "w": discreet.Weight(2)}, n=n, **asked_too)
            data |= {"w": [1.0, 2.0] * 60, "who": [*range(60), *range(60)]}
            if "strata" in asked_too:
                shares = discreet.proportions(data, "arm", schema=weighted, epsilon=1)
                return str(shares.to_json())
            return str(discreet.mean(data, "age", schema=weighted, epsilon=1, delta=delta).to_json())
        schema = discreet.Schema(columns, n=n)
        if name.startswith("regress"):
            return str(discreet.regress(data, "age ~ sex", schema=schema, epsilon=1, **asked_too).to_json())
        if name.startswith("survival"):
            return str(discreet.survival(data, "age", "sex", schema=schema, epsilon=1, **asked_too).to_json())
        return str(discreet.quantiles(data, "age", schema=schema, epsilon=1, **asked_too).to_json())
    text = (WRITTEN / f"{name}.json").read_text("utf-8")
    if not name.startswith("regress"):
        return str(load_answer(text).to_json())
    asked = Regression.from_dict(json.loads(text)["release"]["question"])
    return asked.fit(WRITTEN.parent / "survey.csv", asked.person).to_json()


@cache
def study_text() -> str:
    """The document of a study with two answers."""
    data = {"a": ["x", "y"] * 50, "b": [0.0, 1.0] * 50}
    schema = discreet.Schema({"a": ["x", "y"], "b": (0, 1)}, n=100)
    with tempfile.TemporaryDirectory() as folder:
        study = discreet.Study(data, schema, epsilon=5, ledger=Path(folder) / "l.db", dataset="d")
        study.proportions("a", epsilon=1, id="a")
        study.mean("b", epsilon=1, id="b")
        return str(study.result().to_json())


def content_of(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(text_of(name))["release"]
    return content


def sealed(name: str, content: dict[str, Any]) -> str:
    """The document with this content, and a checksum that is right."""
    return json.dumps({**json.loads(text_of(name)), "checksum": checksum(content), "release": content})


def put(content: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        content = content[key]
    content[path[-1]] = value


def refused(name: str, *edits: tuple[tuple[Any, ...], Any]) -> None:
    content = content_of(name)
    for path, value in edits:
        put(content, path, value)
    with pytest.raises(CorruptReleaseError):
        load_answer(sealed(name, content))


def claims(guarantee: dict[str, Any], share: Fraction | None) -> Iterator[dict[str, Any]]:
    """Guarantees that say more, of all that this one says."""
    for name in ("epsilon", "delta"):
        if share is not None and guarantee[name] not in (None, "0"):
            yield {name: str(as_rational(guarantee[name], name) * share)}
    for relation in ("replace-one", "replace-person", "add-remove"):
        if relation != guarantee["relation"]:
            yield {"relation": relation}
    yield {"relation": "replace-person", "unit": "somebody"}
    yield {"basis": "certified by an authority"}
    if guarantee["assumptions"]:
        yield {"assumptions": guarantee["assumptions"][1:]}
    if "curve" in guarantee:
        yield {"curve": {"kind": "gaussian", "mu_squared": "1/1000000"}}
        yield {"curve": {"kind": "tabulated", "epsilons": [0.0, 9.0], "deltas": [0.001, 0.0], "pure": None}}
        yield {"curve": {"kind": "approximate", "epsilon": "1/1000", "delta": "0"}}


LESS = {"logistic-direct", "logistic-langevin", "sample-defined-vector", "sample-direct"}
"""They cost less than was asked for, so that a smaller pair holds; or nobody computes it any more."""
BOTH = {"means", "mean-add-remove", "mean-exclude"}
"""Noise on sums and on the number of records hides one that is replaced, added or removed alike."""


@pytest.mark.parametrize("name", NAMES)
def test_no_guarantee_may_say_more(name: str) -> None:
    load_answer(text_of(name))
    content = content_of(name)
    guarantee, tried = content["guarantee"], 0
    if guarantee["epsilon"] is None and "curve" not in guarantee:
        assert not load_answer(text_of(name)).is_private  # it promises nothing, and says so
        return
    for claim in claims(guarantee, None if name in LESS else Fraction(9, 10)):
        if name == "sample-defined-vector" and "assumptions" in claim:
            continue  # a family that is no longer made, of which a document is told that nobody checks it
        if name in BOTH and claim.get("relation") in ("replace-one", "add-remove"):
            continue
        forged = {**guarantee, **claim}
        edits: list[tuple[tuple[Any, ...], Any]] = [(("guarantee",), forged)]
        edits += [(("means", i, "guarantee"), forged) for i in range(len(content.get("means", ())))]
        refused(name, *edits)
        tried += 1
    assert tried >= 4


def test_every_kind_of_document_is_among_them() -> None:
    kinds = {json.loads(text_of(name))["format"] for name in NAMES}
    assert kinds == set(DOCUMENTS) - {"discreet/study"}


def test_a_kind_that_does_not_say_its_cost_cannot_be_made() -> None:
    assert "cost" in Answer.__abstractmethods__
    for kind, answer in DOCUMENTS.items():
        if kind != "discreet/study":
            assert "cost" not in answer.__abstractmethods__


@pytest.mark.parametrize(
    "edit",
    [
        (("rounds", 0, "mu_squared"), "1/1000"),
        (("rounds", 1, "noise", 0), "1000"),
        (("rounds", 1, "noise", 0), str(10**30)),
        (("rounds", 0, "noise", 1), "1"),
        (("rounds", 0, "noise", 2), "1"),
        (("rounds", 1, "noise", 2), None),
        (("rounds", 1, "clip"), 1),
        (("rounds", 1, "clip"), 10**9),
        (("n",), 7),
        (("n",), None),
        (("rounds",), []),
        (("reached",), [0.0]),
        (("question", "relation"), "within-group"),
        (("question", "relation"), "add-remove"),
        (("question", "per_person"), 2),
        (("question", "epsilon"), "1e-9_9_9_9_9_9_9_9"),
        (("question", "delta"), "١/٢"),
        (("question", "bounds", "income"), ["0", "inf"]),
    ],
)
@pytest.mark.parametrize("name", ["regress-gaussian", "regress-poisson"])
def test_a_regression_has_the_noise_that_it_claims(name: str, edit: Any) -> None:
    path, value = edit
    content = content_of(name)
    if path[-1] == "income":
        path = ("question", "bounds", next(iter(content["question"]["bounds"])))
    if name == "regress-poisson" and path == ("rounds", 1, "clip") and value == 1:
        value = 0
    refused(name, (path, value))


OF_PEOPLE: Any = [
    (("design", "person"), "who"),
    (("guarantee", "relation"), "replace-person"),
    (("guarantee", "unit"), "who"),
    (("guarantee", "assumptions"), [people_assumption(1, "who")]),
]
OF_STRATA: Any = [
    (("design", "strata"), "sex"),
    (("noise", "strata"), True),
    (("further", "squared"), 5),
    (("guarantee", "relation"), "within-group"),
    (("guarantee", "assumptions"), [group_assumption("sex")]),
]
"""Noise on an added record does not protect one that is replaced, whoever they are."""


@pytest.mark.parametrize(
    ("name", "edits"),
    [
        ("regress-robust", [(("rounds", 2, "noise", 3), "1")]),
        ("regress-robust", [(("rounds", 2, "noise", 3), "-1")]),
        ("regress-robust", [(("rounds", 2, "noise", 3), None), (("rounds", 2, "outer"), [])]),
        ("regress-robust", [(("rounds", 1, "outer"), [])]),
        ("regress-robust", [(("question", "errors"), "other")]),
        ("regress-robust", [(("question", "errors"), None)]),
        ("regress-gaussian", [(("question", "errors"), "robust")]),
        ("logistic-diffuse", [(("estimator",), "OtherRegression"), (("guarantee", "epsilon"), "1/1000")]),
        ("logistic-diffuse", [(("estimator",), "OtherRegression")]),
        ("logistic-diffuse", [(("settings", "sampler"), "other")]),
        ("logistic-diffuse", [(("settings", "weight"), 0.9)]),
        ("logistic-diffuse", [(("settings", "weight"), "1e-9_9_9_9_9_9_9_9")]),
        ("logistic-diffuse", [(("settings", "n"), 99)]),
        ("logistic-diffuse", [(("settings", "draws"), 99)]),
        ("logistic-diffuse", [(("norm_bound",), 5.0)]),
        ("logistic-diffuse", [(("private",), False)]),
        ("logistic-langevin", [(("settings", "steps"), 10**8)]),
        ("logistic-langevin", [(("settings", "step_size"), 0.5)]),
        ("conditional", [(("guarantee", "relation"), "replace-one")]),
        ("conditional", [(("given",), "other")]),
        ("mean", [(("noise", "people"), 0)]),
        ("mean", [(("noise", "epsilon"), "2")]),
        ("mean", [(("noise", "steps"), 0)]),
        ("mean", [(("n",), 0)]),
        ("mean", [(("bounds",), [0, 1e999])]),
        ("mean", [(("bounds",), [5, 5])]),
        ("mean-person", [(("noise", "people"), 1)]),
        ("mean-delta", [(("noise", "mu_squared"), "1")]),
        ("means", [(("means", 0, "noise", "people"), 1)]),
        ("weighted", [(("noise", "people"), 0)]),
        ("weighted", [(("noise", "people"), 2)]),
        ("weighted", [(("noise", "epsilon"), "2")]),
        ("weighted", [(("noise", "steps"), 0)]),
        ("weighted", [(("noise", "cells"), 3)]),
        ("weighted", [(("noise", "groups"), 2)]),
        ("weighted", [(("noise", "replaces"), False)]),
        ("weighted", [(("noise", "replaces"), 1)]),
        ("weighted", [(("noise", "strata"), True)]),
        ("weighted", [(("noise", "diagonal"), True)]),
        ("weighted", [(("bounds",), [5, 5])]),
        ("weighted", [(("design", "n"), None)]),
        ("weighted", [(("design", "n"), 0)]),
        ("weighted", [(("design", "most"), -1)]),
        ("weighted", [(("further", "records"), 5)]),
        ("weighted", [(("totals", 0), [1])]),
        ("weighted", [(("totals", 0, 0), 1.5)]),
        ("weighted", [(("noise", "steps"), 2)]),
        ("weighted", [(("noise", "parts"), 1)]),
        ("weighted", [(("design", "most"), 3.0)]),
        ("weighted", [(("design", "units"), 60)]),
        ("weighted", [(("design", "strata_count"), 2)]),
        ("weighted-add-remove", [(("noise", "mu_squared"), "1")]),
        ("weighted-add-remove", OF_PEOPLE),
        ("weighted-add-remove", OF_STRATA),
        ("weighted-strata", [(("design", "strata"), None)]),
        ("weighted-strata", [(("noise", "strata"), False)]),
        ("weighted-clusters", [(("noise", "people"), 1)]),
        ("weighted-clusters", [(("noise", "clusters"), False)]),
        ("weighted-clusters", [(("design", "person"), None)]),
        ("sample-beta", [(("sampler",), "other")]),
        ("sample-beta", [(("r",), 1.0)]),
        ("sample-beta", [(("m",), 0.5)]),
        ("sample-beta", [(("n",), 10)]),
        ("sample-beta", [(("prior",), [0.5, 0.5])]),
        ("sample-beta", [(("grid",), "1e-9_9_9_9_9_9_9_9")]),
        ("sample-beta", [(("target", "epsilon"), "1/100")]),
        ("sample-gaussian", [(("family", "sigma"), 0.1)]),
        ("discovered", [(("selection", "epsilon"), "2")]),
        ("discovered", [(("guarantee", "epsilon"), "99/100")]),
        ("sparse", [(("epsilon",), "2")]),
        ("sparse", [(("guarantee", "epsilon"), "99/100")]),
        ("sparse", [(("k",), 10**9)]),
        ("release-lattice", [(("parameters", "epsilon"), "2")]),
        ("network", [(("releases",), [])]),
    ],
)
def test_what_a_guarantee_follows_from_is_compared_with_it(name: str, edits: Any) -> None:
    refused(name, *edits)


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("quantiles", ("probs",), [i / 200 for i in range(1, 102)]),
        ("quantiles", ("probs",), "5"),
        ("survival", ("edges",), "01234"),
        ("survival", ("edges",), ["0", "1", "2", "3", "4"]),
        ("survival", ("edges",), [False, True, 2, 3, 4]),
    ],
)
def test_curves_hold_numbers_and_not_too_many(name: str, path: Any, value: Any) -> None:
    """A document of 100,000 quantiles went on for minutes."""
    refused(name, (path, value))


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("release-exclude", ("parameters", "n"), 10**4000),
        ("release-exclude", ("parameters", "epsilon"), 5e-324),
        ("release-exclude", ("parameters", "prior"), [1e300, 1.0, 1.0]),
        ("mean", ("n",), 10**196),
    ],
)
def test_numbers_that_doubles_cannot_compute_with_are_refused(name: str, path: Any, value: Any) -> None:
    """What such documents offer ended in an OverflowError, or did one sum a dozen times in vain."""
    refused(name, (path, value))


def test_counts_that_are_not_of_so_many_records_end_at_once() -> None:
    """A document of 700 bytes walked through all numbers of records between its counts and its n."""
    content = content_of("release-exclude")
    assert load_answer(sealed("release-exclude", content)).posterior_or_none() is not None
    for times in (20, 1000):  # of the first a posterior could be computed
        forged = {**content, "parameters": {**content["parameters"], "n": content["parameters"]["n"] * times}}
        with processor_seconds(2):
            assert load_answer(sealed("release-exclude", forged)).posterior_or_none() is None


def test_totals_of_any_size_are_drawn_at_once() -> None:
    """Shares of 10²⁵ effective records took a minute; more than 2⁵³ have no other draws."""
    content = content_of("weighted")
    content["totals"][0][1] = 10**30
    read = load_answer(sealed("weighted", content))
    with processor_seconds(2):
        for seed in range(5):
            assert read.draws(200, seed).shape[0] == 200


def test_a_version_one_document_is_told_what_it_assumes() -> None:
    """Older documents left assumptions out: whoever takes them away writes an older one, and is told."""
    document = json.loads((WRITTEN / "mean-person.json").read_text("utf-8"))
    assert not document["release"]["guarantee"]["assumptions"]
    read = load_answer(json.dumps(document)).guarantee
    assert people_bound(read.assumptions, read.unit) == document["release"]["noise"]["people"]


def test_people_are_bounded_in_the_same_words_everywhere() -> None:
    for name in ("release-person", "sample-person", "mean-person", "regress-person"):
        guarantee = load_answer(text_of(name)).guarantee
        most = people_bound(guarantee.assumptions, guarantee.unit)
        assert most is not None
        assert people_assumption(most, guarantee.unit) in in_present_words(guarantee.assumptions)
    assert people_bound((people_assumption(1, 'it\'s; "b"'),), 'it\'s; "b"') == 1
    assert people_bound((people_assumption(12, "a"),), "b") is None


NUMBERS = ["1_0", "1e-9_9_9_9_9_9_9_9", "٣", "１/２", "1e9999", "1e-999", "9" * 9000, " 1"]
NUMBERS += ["0x1", "inf", "", "1/0"]


@pytest.mark.parametrize("text", NUMBERS)
def test_one_parser_reads_numbers(text: str) -> None:
    with processor_seconds(2):
        with pytest.raises(InvalidInputError):
            as_rational(text, "x")
        if text != " 1":
            with pytest.raises(InvalidInputError):
                as_epsilon(text)


FORMULAS = [
    "y ~ I(a*(9**9**9))",
    "y ~ I(a*9**9)",
    f"y ~ ({' + '.join(f'a{i}' for i in range(40))})**20",
    f"y ~ ({' + '.join(f'a{i}' for i in range(40))})**5",
    "y ~ bs(a, degree=100000, knots=[1])",
    "y ~ bs(a, knots=[0]*10**9)",
    "y ~ " + "*".join(f"a{i}" for i in range(12)),
    "y ~ " + ":".join(f"a{i}" for i in range(12)),
    "y ~ I(a << 10**9)",
    "y ~ I('a' * 10**9)",
    "y ~ " + "(" * 1000 + "a" + ")" * 1000,
    "y ~ I(" + "-" * 5000 + "a)",
    "y ~ I([a for a in b])",
    "y ~ a | b",
]


@pytest.mark.parametrize("formula", FORMULAS)
def test_a_formula_is_bounded_before_it_is_evaluated(formula: str) -> None:
    with processor_seconds(2):
        with pytest.raises(InvalidInputError):
            check_formula(formula)
        content = content_of("regress-gaussian")
        content["question"]["formula"] = formula
        with pytest.raises(CorruptReleaseError):
            load_answer(sealed("regress-gaussian", content))


def test_a_document_computes_no_more_than_it_holds() -> None:
    with processor_seconds(2):
        content = content_of("regress-gaussian")
        (first, *_) = content["question"]["bounds"]
        many = [str(i) for i in range(10**5)]
        for levels in (many, many[:500]):
            content["question"]["levels"] = {"g": levels}
            content["question"]["formula"] = f"{first} ~ C(g)"
            with pytest.raises(CorruptReleaseError):
                load_answer(sealed("regress-gaussian", content))


@pytest.mark.parametrize(
    ("name", "part", "value"),
    [
        *(("regress-poisson", part, 10**30) for part in ("gradient", "curvature", "square")),
        ("regress-add-remove", "curvature", 10**40),
        ("regress-robust", "outer", -(10**30)),
    ],
)
def test_sums_are_not_larger_than_those_of_so_many_records(name: str, part: str, value: int) -> None:
    whole = content_of(name)["rounds"][1][part]
    refused(name, (("rounds", 1, part, 0) if isinstance(whole, list) else ("rounds", 1, part), value))


@pytest.mark.parametrize("name", ["mean", "means"])
@pytest.mark.parametrize("place", [0, 1])
def test_a_mean_whose_sums_leave_nothing_likely_is_refused(name: str, place: int) -> None:
    """With Gaussian noise no mean was likely, and draws ended in an error of NumPy."""
    given: dict[str, Any] = {"epsilon": 1, "delta": "1e-6"}
    schema = discreet.Schema({"age": (0, 100), "sex": ["f", "m"]})
    by = "sex" if name == "means" else None
    data = {"age": [20.0, 30.0] * 60, "sex": ["f", "m"] * 60}
    document = json.loads(discreet.mean(data, "age", by=by, schema=schema, **given).to_json())
    content = document["release"]
    (content["means"][1] if by else content)["sums"][place] = 10**300
    with pytest.raises(CorruptReleaseError, match="no estimate"):
        load_answer(json.dumps({**document, "checksum": checksum(content)}))


def test_a_rate_beyond_the_range_of_predictors_is_computed() -> None:
    """A forged curvature moved the mean predictor to where its exponential is no double, or 0."""
    model = Regression.from_dict(content_of("regress-poisson")["question"]).model
    for predictor in (-1000.0, 1000.0):
        rate, slope = model.at_constant(predictor)
        assert 0 < rate == slope < 1e9


def test_a_posterior_is_drawn_from_a_bounded_number_of_curvatures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty coefficients with robust errors and no positive curvature went on for a quarter of a minute."""
    numbers = np.random.default_rng(1).normal(size=(900, 30)).clip(-4, 4)
    data = {f"x{i}": column for i, column in enumerate(numbers.T)}
    schema = discreet.Schema(dict.fromkeys(data, (-4, 4)), n=900)
    formula, robust = f"x0 ~ {' + '.join(list(data)[1:])}", {"errors": "robust"}
    with processor_seconds(20):
        fit = discreet.regress(data, formula, schema=schema, epsilon=1, delta="1e-6", options=robust)
    content = json.loads(fit.to_json())
    for turn in content["release"]["rounds"]:
        for part in ("curvature", "outer"):
            turn[part] = [-abs(value) for value in turn[part]]
    forged = load_answer(json.dumps({**content, "checksum": checksum(content["release"])}))
    tried, whole, solved = [], [], []
    matrices, compute, solve = LatentCurvature._matrices, LatentCurvature.compute_states, np.linalg.lstsq

    def counted(self: LatentCurvature, x: Any) -> Any:
        tried.append(len(x))
        return matrices(self, x)

    def computing(self: LatentCurvature, values: Any, *more: Any) -> Any:
        whole.append(len(values))
        return compute(self, values, *more)

    def solving(matrix: Any, *more: Any, **how: Any) -> Any:
        solved.append(matrix.shape)
        return solve(matrix, *more, **how)

    monkeypatch.setattr(LatentCurvature, "_matrices", counted)
    monkeypatch.setattr(LatentCurvature, "compute_states", computing)
    monkeypatch.setattr(np.linalg, "lstsq", solving)
    assert len(forged.rows()) == 30
    assert 1000 < sum(tried) < 16_000
    assert 500 < sum(whole) < sum(tried) / 4  # of most a matrix is not positive, and nothing else is computed
    assert len([shape for shape in solved if shape == (465, 465)]) <= 2


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [("sample-poisson", ("draws", 0), -1e12), ("release-mbeta", ("counts", 0), 10**9)],
)
def test_draws_of_impossible_results_end_in_an_error_of_ours(name: str, path: Any, value: Any) -> None:
    """The weights of what may lie behind a rate below 0 were no numbers, of which NumPy spoke."""
    content = content_of(name)
    put(content, path, value)
    with pytest.raises(DiscreetError), np.errstate(all="ignore"):
        load_answer(sealed(name, content)).draws(10, 1)


@pytest.mark.parametrize(
    ("formula", "levels", "columns"),
    [
        ("y ~ a + b", {}, (2, 3)),
        ("y ~ a*C(g) + bs(b, knots=[3, 6])", {"g": 3}, (1 + 2 + 2 + 2, 1 + 1 + 3 + 3 + 26)),
        ("y ~ (a + b + c)**2 - a:b", {}, (5, 6)),
        ("y ~ `my column`/b + 0", {}, (2, 3)),
        ("y ~ C(g, contr.treatment(base='x')):np.log(a)", {"g": 4}, (3, 5)),
    ],
)
def test_columns_are_counted(formula: str, levels: dict[str, int], columns: tuple[int, int]) -> None:
    assert check_formula(formula, levels) == columns


@pytest.mark.parametrize(
    "edits",
    [
        [(("budget", "relation"), "replace-person"), (("budget", "unit"), "household")],
        [(("budget", "unit"), "household")],
        [(("budget", "relation"), "add-remove")],
        [(("budget", "relation"), "replace-nobody")],
        [(("budget", "dataset"), "other")],
        [(("budget", "cap"), {"epsilon": "1/10"})],
        [(("budget", "entries"), 0)],
        [(("answers", 1, "receipt", "sequence"), 2), (("budget", "spent"), {"epsilon": "1"})],
        [(("answers", 1, "receipt", "dataset"), "other")],
        [(("answers", 1, "id"), "a")],
        [(("answers", 0, "receipt", "charged"), {"epsilon": "1/10"})],
        [(("budget", "spent"), {"epsilon": "1"})],
    ],
)
def test_a_study_says_whom_its_answers_protect_and_what_all_of_them_cost(edits: Any) -> None:
    """A statement to a regulator called answers for records answers for households."""
    text = study_text()
    assert len(load_answer(text).answers) == 2
    document = json.loads(text)
    for path, value in edits:
        put(document["release"], path, value)
    with pytest.raises(CorruptReleaseError):
        load_answer(json.dumps({**document, "checksum": checksum(document["release"])}))


@pytest.mark.parametrize(
    "path", sorted(WRITTEN.parents[1].glob("*/studies/*/study.json")), ids=lambda p: p.parent.name
)
def test_studies_of_earlier_versions_are_read(path: Path) -> None:
    """Version 0.1.0 charged releases within groups as if they held for replace-one, and named no unit."""
    assert load_answer(path.read_text("utf-8")).answers


def test_a_ledger_verifies_what_its_documents_promise(tmp_path: Path) -> None:
    document = text_of("mean")
    guarantee = load_answer(document).guarantee
    for name, epsilon in (("right", guarantee.exact_epsilon), ("wrong", guarantee.exact_epsilon / 2)):
        with discreet.Ledger(tmp_path / f"{name}.db") as ledger:
            ledger.create("d", epsilon=5)
            ledger.spend("d", discreet.Guarantee(epsilon), lambda: document, plan={"a": 1})
            if name == "right":
                assert ledger.verify().entries == 2
            else:
                with pytest.raises(CorruptLedgerError, match="the price of its stored document") as raised:
                    ledger.verify()
                assert raised.value.row == 2


def test_a_ledger_that_is_not_text_is_damaged(tmp_path: Path) -> None:
    import sqlite3

    with discreet.Ledger(tmp_path / "l.db") as ledger:
        ledger.create("d", epsilon=5)
    with sqlite3.connect(tmp_path / "l.db") as raw:
        for (trigger,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {trigger}")
        raw.execute("UPDATE discreet_entries SET time = CAST(X'ff41' AS TEXT)")
    with discreet.Ledger(tmp_path / "l.db") as ledger, pytest.raises(CorruptLedgerError):
        ledger.verify()


def test_far_tails_of_compositions_are_computed() -> None:
    from discreet.privacy.composite_curves import compose_curves
    from discreet.privacy.curves import Approximate, Gaussian

    for epsilon, delta, square, times in (
        ("1e-300", "9/10", "1e-29", 10**7),
        ("1e-12", "9/10", "2e-12", 1),
        ("1e5", "1e-30", "1e-12", 1000),
    ):
        parts = [(Approximate(as_rational(epsilon, "ε"), as_rational(delta, "δ")), times)]
        curve = compose_curves([*parts, (Gaussian(as_rational(square, "μ²")), 1)])
        assert 0 <= discreet.Guarantee(None, curve=curve).delta_at(10**300) <= 1
        assert curve.epsilon_at(0.999) >= 0


@pytest.mark.parametrize(
    ("values", "options"),
    [
        ([10**400, 1], {"noise": ("laplace", 1)}),
        ([1, 2], {"noise": ("laplace", {"variance": 10**400})}),
        ([1, 2], {"noise": ("gaussian", 1e-200)}),
        ([1, 2], {"noise": ("laplace", 1), "suppressed_below": float("inf")}),
        ([1, 2], {"noise": ("laplace", 1), "clamped": 10**400}),
    ],
)
def test_noisy_counts_are_refused_in_our_words(values: Any, options: Any) -> None:
    with pytest.raises(DiscreetError):
        discreet.noisy_counts(values, **options)


def test_noisy_counts_of_an_unknown_total_need_one_scale() -> None:
    made = discreet.noisy_counts([1, 2], noise=("laplace", [1, 2]))
    with pytest.raises(DiscreetError, match="one scale"):
        made.noise_aware()
    with pytest.raises(DiscreetError, match="prior"):
        discreet.noisy_counts([20, 39], noise=("discrete-laplace", 2.5)).noise_aware(1e9)


def test_a_search_among_the_largest_exact_doubles_ends() -> None:
    """A document of 565 bytes with n = 2⁵³ went on for ever."""
    steps = iter(range(200))

    def rising(x: Any, at: Any) -> Any:
        next(steps)
        return x - at

    assert climb(rising, np.zeros(1), np.array([2.0**53])).tolist() == [2.0**53]
