"""The estimators as scikit-learn sees them: its own checks, pipelines, bad input, what a release holds."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreet
from discreet import (
    BoundedScaler,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePoissonRegression,
)
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import DataError, InvalidInputError, NoiseWarning, PrivacyWarning
from discreet.privacy.guarantee import Guarantee
from discreet.regression._doubles import SeededNoise
from discreet.regression._newton.fit import Fit
from discreet.regression.release import LogisticRelease
from pace import now_or_slow

TARGET: dict[str, Any] = {"epsilon": 3, "delta": "1e-6", "method": "diffused"}
SUMS: dict[str, Any] = {"epsilon": 3, "delta": "1e-6", "bounds": (-0.2, 0.2)}

# Every check of scikit-learn is run, on seeded fits: repeatability is part of what the checks ask for. With
# random_state=None, the private path, scikit-learn itself leaves out the checks that compare two fits (the
# estimator says that it is not deterministic); the list is in docs/how-to/estimators.md.
CHECKED = [
    PrivateLogisticRegression(epsilon=5000, delta=1e-5, bounds=(-10, 10), random_state=0),
    PrivateLogisticRegression(epsilon=5000, delta=1e-5, bounds=(-10, 10)),
    PrivateLinearRegression(
        epsilon=5000, delta=1e-5, bounds=(-10, 10), target_bounds=(-20, 20), random_state=0
    ),
    PrivatePoissonRegression(
        epsilon=5000, delta=1e-5, bounds=(-10, 10), target_bounds=(0, 30), random_state=0
    ),
    PrivateLogisticRegression(method="diffused", epsilon=100, delta=1e-5, norm_bound=3, random_state=0),
    PrivateLogisticRegression(
        method="concentrated",
        epsilon=500,
        delta=1e-5,
        norm_bound=3,
        prior_precision=2,
        multi_class="ovr",
        random_state=0,
    ),
    PrivateLogisticRegression(method="diffused", epsilon=100, delta=1e-5, norm_bound=3),
    BoundedScaler((-10, 10)),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The checks fit ten records: δ is then above 1/n, and the noise drowns them. Both warn, rightly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", NoiseWarning)
        yield


_CHECKS = parametrize_with_checks(CHECKED)


@pytest.mark.parametrize(
    _CHECKS.args[0],
    now_or_slow(_CHECKS.args[1], lambda row: row[0] in (CHECKED[0], CHECKED[-1])),
    ids=_CHECKS.kwargs["ids"],
)  # a list in 1.4 too
def test_scikit_learn_accepts_it(estimator: Any, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(estimator)


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    rows, labels = load_breast_cancer(return_X_y=True)
    highs = np.ceil(rows.max(axis=0) * 10) / 10  # a test may look; a private program declares
    return (2 * rows / highs - 1) / math.sqrt(30), labels


def test_a_fit_is_private_by_default(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    model = PrivateLogisticRegression(**TARGET).fit(*cancer)
    assert model.guarantee_.exact_epsilon == 3
    assert model.guarantee_.exact_delta == Fraction(1, 10**6)
    assert model.guarantee_.effective_curve.delta_at(3) <= 1e-6
    assert model.release_.private
    assert model.coef_draws_.shape == (1, 1, 30)
    assert model.coef_.shape == (1, 30)
    facts = " ".join(model.guarantee_.assumptions)
    assert "n = 569, the number of rows, is public" in facts
    assert "the set of classes" in facts
    assert "double-precision" in facts
    again = PrivateLogisticRegression(**TARGET).fit(*cancer)
    assert (again.coef_ != model.coef_).all(), "no seed, not even numpy's global one"
    np.random.seed(0)  # noqa: NPY002
    first = PrivateLogisticRegression(**TARGET).fit(*cancer)
    np.random.seed(0)  # noqa: NPY002
    assert (PrivateLogisticRegression(**TARGET).fit(*cancer).coef_ != first.coef_).all()


def test_a_seeded_fit_is_stamped_not_private(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    model = PrivateLogisticRegression(**TARGET, random_state=1).fit(*cancer)
    assert not model.release_.private
    assert not model.guarantee_.is_private
    assert json.loads(model.release_.to_json())["release"]["private"] is False
    assert "NOT PRIVATE" in str(model.release_)
    assert model.design_.guarantee.is_private, "what a private fit would promise"
    same = clone(model).fit(*cancer)
    assert np.array_equal(same.coef_, model.coef_)


def test_the_release_holds_public_values_and_draws_only(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    """Two datasets give the same document but for the draws, and no key beyond the list."""
    rows, labels = cancer
    texts = []
    for flipped in (labels, 1 - labels):
        model = PrivateLogisticRegression(**TARGET, draws=2).fit(rows, flipped)
        content = json.loads(model.release_.to_json())["release"]
        assert set(content) == {
            "private", "estimator", "classes", "features", "coefficients", "intercepts",
            "norm_bound", "settings", "guarantee", "versions",
        }  # fmt: skip
        assert set(content["settings"]) == {
            "method", "sampler", "target", "n", "prior_precision", "weight", "steps", "step_size",
            "draws", "grid",
        }  # fmt: skip
        grid = Fraction(content["settings"]["grid"])
        assert all((Fraction(x) / grid).denominator == 1 for x in np.ravel(content["coefficients"]).tolist())
        del content["coefficients"], content["intercepts"]
        texts.append(json.dumps(content))
        again = LogisticRelease.from_json(model.release_.to_json())
        assert np.array_equal(again.probabilities(rows, scaled=True), model.predict_proba(rows))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("method", ["newton", "diffused", "concentrated"])
def test_it_learns(cancer: tuple[np.ndarray, np.ndarray], method: str) -> None:
    bounds = (-0.2, 0.2) if method == "newton" else None
    model = PrivateLogisticRegression(epsilon=20, delta="1e-6", method=method, bounds=bounds, random_state=3)
    model.fit(*cancer)
    assert model.score(*cancer) > 0.85
    proba = model.predict_proba(cancer[0])
    assert np.allclose(proba.sum(axis=1), 1)
    assert (model.predict(cancer[0]) == (proba[:, 1] > 0.5)).all()
    assert np.allclose(model.predict_log_proba(cancer[0]), np.log(proba))


def test_pipeline_cross_validation_and_pickle(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    last = PrivateLogisticRegression(epsilon=50, delta="1e-5", bounds=(-1, 1), norm_bound=2)
    model = make_pipeline(BoundedScaler((-0.2, 0.2)), last)
    assert cross_val_score(model, *cancer, cv=3).mean() > 0.8
    fitted = model.fit(*cancer)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(cancer[0]), fitted.predict(cancer[0]))
    assert model.get_params()["privatelogisticregression__epsilon"] == 50


def test_cross_validation_warns_once_that_every_fold_spends(
    cancer: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("discreet.regression.estimators._warned_of_copies", False)
    model = make_pipeline(
        BoundedScaler((-0.2, 0.2)),
        PrivateLogisticRegression(epsilon=50, delta="1e-5", bounds=(-1, 1), norm_bound=2, classes=(0, 1)),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ResourceWarning)  # of what earlier tests left open
        clone(model).fit(*cancer)
        seeded = PrivateLogisticRegression(random_state=1)
        for _ in range(3):
            clone(seeded)
        assert not [one for one in caught if "spends epsilon" in str(one.message)]
        for _ in range(2):
            cross_val_score(model, *cancer, cv=3)
    (told,) = [one for one in caught if "spends epsilon" in str(one.message)]
    assert told.category is PrivacyWarning


def test_names_of_columns(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(cancer[0], columns=[f"f{i}" for i in range(30)])
    model = PrivateLogisticRegression(**TARGET).fit(table, cancer[1])
    assert model.release_.features == tuple(table.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[table.columns[::-1]])
    assert list(BoundedScaler((0, 1)).fit(table).get_feature_names_out()) == list(table.columns)


def test_several_classes_share_the_budget() -> None:
    rows, labels = load_digits(return_X_y=True)
    model = PrivateLogisticRegression(
        method="diffused", epsilon=10, delta="1e-6", multi_class="ovr", random_state=0
    )
    model.fit(rows / 60, labels)
    assert model.coef_.shape == (10, 64)
    assert model.score(rows / 60, labels) > 0.7
    single = PrivateLogisticRegression(method="diffused", epsilon=10, delta="1e-6", random_state=0).fit(
        rows / 60, labels == 1
    )
    assert model.design_.weight == pytest.approx(single.design_.weight / math.sqrt(10), rel=1e-6)
    assert model.design_.guarantee.effective_curve.delta_at(10) <= 1e-6
    assert np.allclose(model.predict_proba(rows / 60).sum(axis=1), 1)


def test_models_of_several_classes_have_noise_of_their_own() -> None:
    """Rows of zeros: a coefficient is noise alone. Two fits, and two models of a fit, share none of it."""
    three = np.arange(60) % 3
    model = PrivateLogisticRegression(**TARGET, multi_class="ovr", draws=2)
    drawn = np.concatenate([model.fit(np.zeros((60, 2)), three).coef_draws_.ravel() for _ in range(2)])
    assert len(np.unique(drawn)) == 2 * 2 * 3 * 2
    assert model.release_.private


def test_draws_show_their_price() -> None:
    model = PrivateLogisticRegression(method="diffused", epsilon=1, delta="1e-6")
    assert model.price(1).epsilon == pytest.approx(1, rel=1e-6)
    four = model.price(4)
    assert four.epsilon == pytest.approx(2.15, abs=0.05)
    assert four.mu == pytest.approx(2 * (model.price(1).mu or 0))
    shared = PrivateLogisticRegression(method="diffused", epsilon=1, delta="1e-6", draws=4)
    assert shared.price(4).epsilon == pytest.approx(1, rel=1e-6)
    by_order = PrivateLogisticRegression(method="diffused", epsilon=1, order=10)
    assert by_order.price(3).rdp(10) == pytest.approx(3)


def test_the_constant_column_is_inside_the_bound(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    with_one = PrivateLogisticRegression(**TARGET, random_state=0, norm_bound=2).fit(*cancer)
    without = PrivateLogisticRegression(**TARGET, random_state=0, norm_bound=2, fit_intercept=False).fit(
        *cancer
    )
    assert with_one.design_.norm_squared == 5
    assert without.design_.norm_squared == 4
    assert (without.intercept_ == 0).all()
    assert (with_one.intercept_ != 0).all()


@pytest.mark.parametrize(
    "model",
    [
        PrivateLogisticRegression(**TARGET, random_state=0),
        PrivateLogisticRegression(**SUMS, norm_bound=1, random_state=0),
    ],
    ids=lambda model: model.method,
)
def test_rows_are_clipped_in_code(cancer: tuple[np.ndarray, np.ndarray], model: Any) -> None:
    """A record beyond the bound counts as one at the bound, in the fit and in a prediction."""
    rows, labels = cancer[0].copy(), cancer[1]
    rows[0] *= 1e3
    first = clone(model).fit(rows, labels)
    rows[0] *= 1e3
    second = clone(model).fit(rows, labels)
    assert np.allclose(first.coef_, second.coef_, atol=1e-9)
    assert np.allclose(first.predict_proba(rows[:1]), first.predict_proba(rows[:1] / 1e3), atol=1e-9)


def test_declared_n_and_classes(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    rows, labels = cancer
    model = PrivateLogisticRegression(**TARGET, n=569, classes=(0, 1)).fit(rows, labels)
    assert "the set of classes" not in " ".join(model.guarantee_.assumptions)
    for declared in (500, 568, 570):
        with pytest.raises(DataError, match=f"n={declared} was declared.*training fold"):
            PrivateLogisticRegression(**TARGET, n=declared).fit(rows, labels)
    with pytest.raises(DataError, match="not among the declared classes"):
        PrivateLogisticRegression(**TARGET, classes=(0, 2)).fit(rows, labels)
    for classes in ((0, 0, 1), 7):
        with pytest.raises(InvalidInputError, match="distinct labels"):
            PrivateLogisticRegression(**TARGET, classes=classes).fit(rows, labels)
    with pytest.raises(DataError, match="not among the declared classes"):
        PrivateLogisticRegression(**TARGET, classes=("no", "yes")).fit(rows, labels)
    named = np.where(labels == 1, "yes", "no")
    assert list(PrivateLogisticRegression(**TARGET, classes=("yes", "no")).fit(rows, named).classes_) == [
        "no",
        "yes",
    ]
    one_sided = PrivateLogisticRegression(**TARGET, classes=(0, 1)).fit(rows, np.ones(len(rows), dtype=int))
    assert list(one_sided.classes_) == [0, 1], "a class without records stays possible"


def test_classes_from_the_labels_are_warned_of(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(PrivacyWarning, match="classes were not declared"):
        PrivateLogisticRegression(**TARGET).fit(*cancer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateLogisticRegression(**TARGET, classes=(0, 1)).fit(*cancer)
        PrivateLogisticRegression(**TARGET, random_state=0).fit(*cancer)


def _marked(rows: np.ndarray, mark: Any) -> np.ndarray:
    changed = rows.astype(object)
    changed[3, 1] = mark
    return changed


@pytest.mark.parametrize(
    "rows",
    [
        lambda x: x + 0.12345j,
        lambda x: _marked(x, "hidden"),
        lambda x: _marked(x, {"hidden": 1}),
        lambda x: _marked(x, 12345 * 10**400),
        lambda x: _marked(x, 0.12345j),
        lambda x: (12345 + np.arange(x.size)).reshape(x.shape).astype("datetime64[D]"),
        lambda x: np.full(len(x), 0.12345),
        lambda x: np.where(x == x.max(), np.nan, 0.12345),
    ],
)
def test_no_value_of_a_row_is_quoted(cancer: tuple[np.ndarray, np.ndarray], rows: Any) -> None:
    with pytest.raises(DataError) as caught:
        PrivateLogisticRegression(**TARGET).fit(rows(cancer[0]), cancer[1])
    assert "hidden" not in str(caught.value)
    assert "12345" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda y: np.where(y == 1, "yes", "hidden"), "not among the declared classes"),
        (lambda y: np.array([1, "hidden"] * len(y), dtype=object)[: len(y)], "all text or all numbers"),
        (lambda y: np.array([None, "hidden"] * len(y), dtype=object)[: len(y)], "all text or all numbers"),
        (lambda y: y.astype("datetime64[D]"), "cannot hold dates"),
    ],
)
def test_no_label_is_quoted(cancer: tuple[np.ndarray, np.ndarray], labels: Any, words: str) -> None:
    declared = ("no", "yes") if "declared" in words else None
    with pytest.raises(DataError, match=words) as caught:
        PrivateLogisticRegression(**TARGET, classes=declared).fit(cancer[0], labels(cancer[1]))
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"labels": lambda y: np.zeros_like(y)}, DataError, "greater than one"),
        ({"labels": lambda y: np.arange(len(y)) % 3}, DataError, "multi_class='ovr'"),
        ({"labels": lambda y: y + 0.5 * np.arange(len(y))}, DataError, "Unknown label type"),
        ({"labels": lambda y: y[:-1]}, DataError, "inconsistent numbers of samples"),
        (
            {"rows": lambda x: np.where(x == x.max(), np.nan, x)},
            DataError,
            r"\(NaN\): fill them with a declared",
        ),
        ({"rows": lambda x: np.where(x == x.max(), np.inf, x)}, DataError, "infinity"),
        ({"rows": lambda x: x.astype(object).astype(str).astype(object) + "x"}, DataError, "text or objects"),
        ({"norm_bound": 0}, InvalidInputError, "norm_bound=0 must be a positive number"),
        ({"multi_class": "multinomial"}, InvalidInputError, "multi_class='multinomial'"),
        ({"epsilon": None}, InvalidInputError, "a target is epsilon with delta"),
        ({"method": "langevin"}, InvalidInputError, "method='langevin' must be one of: newton"),
        ({"draws": 1.5}, InvalidInputError, "draws=1.5"),
        ({"classes": (0, "1")}, InvalidInputError, "of one kind"),
        ({"norm_bound": 1e200}, InvalidInputError, "too extreme"),
        ({"random_state": "a"}, InvalidInputError, "random_state='a'"),
        ({"random_state": -1}, InvalidInputError, "random_state=-1"),
        ({"random_state": False}, InvalidInputError, "random_state=False"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_input(
    cancer: tuple[np.ndarray, np.ndarray], changes: dict[str, Any], error: type[Exception], words: str
) -> None:
    settings = dict(changes)
    rows = settings.pop("rows", lambda x: x)(cancer[0])
    labels = settings.pop("labels", lambda y: y)(cancer[1])
    with pytest.raises(error, match=words) as caught:
        PrivateLogisticRegression(**{**TARGET, **settings}).fit(rows, labels)
    assert repr(float(cancer[0][0, 0]))[:8] not in str(caught.value), "no data value in a message"


@pytest.mark.parametrize(
    "name", ["warm_start", "early_stopping", "tol", "max_iter", "preconditioner", "seed"]
)
def test_settings_that_depend_on_the_data_are_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match=f"{name}=1 is refused"):
        PrivateLogisticRegression(**TARGET, **{name: 1})
    with pytest.raises(TypeError):
        PrivateLogisticRegression(no_such_parameter=1)


def test_tiny_epsilon_warns(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(NoiseWarning, match="of the prior's standard deviations"):
        PrivateLogisticRegression(method="diffused", epsilon="0.0001", delta="1e-6").fit(*cancer)


# Transformers.


def test_bounded_scaler() -> None:
    rows = np.array([[0.0, 5.0], [10.0, 50.0], [-3.0, 20.0]])
    assert np.allclose(BoundedScaler([(0, 10), (10, 20)]).fit_transform(rows), [[-1, -1], [1, 1], [-1, 1]])
    for bounds, words in ((None, "bounds is missing"), ((1, 0), "must be below"), ([(0, 1)] * 3, "must be")):
        with pytest.raises(InvalidInputError, match=words):
            BoundedScaler(bounds).fit(rows)
    with pytest.raises(InvalidInputError, match="finite"):
        BoundedScaler((0, math.inf)).fit(rows)
    with pytest.raises(InvalidInputError, match="too close together"):
        BoundedScaler((0, 5e-324)).fit(rows)
    assert np.abs(BoundedScaler((1, 1 + 2.0**-52)).fit_transform(rows)).max() == 1
    one = BoundedScaler((0, 10)).fit(rows).transform(rows[:1])
    assert np.array_equal(one, BoundedScaler((0, 10)).fit(rows[:1]).transform(rows[:1])), "nothing is learned"


# Baselines.


# From a table, with a ledger.


TABLE = {"x": [0.0, 1.0, 0.25, 0.5] * 15, "z": [3.0, 7.0, 5.0, 5.5] * 15, "y": ["a", "b", "b", "a"] * 15}
SCHEMA = discreet.Schema({"y": ("a", "b"), "x": (0, 1), "z": (0, 10)}, n="public")


def table(**changes: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame({**TABLE, **changes})


@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "0.7", "3"])
@pytest.mark.parametrize("draws", [1, 4])
def test_a_regression_costs_what_it_states(epsilon: str, draws: int, tmp_path: Any) -> None:
    with discreet.Ledger(tmp_path / "ledger.db") as book:
        book.create("d", epsilon=epsilon, delta="1e-6")
        done = discreet.draw(
            table(),
            "y ~ x + z",
            schema=SCHEMA,
            epsilon=epsilon,
            delta="1e-6",
            options={"draws": draws},
            charge=discreet.Charge(book, "d", "q"),
        )
        assert book.show("d").spent.epsilon == Fraction(epsilon) == done.guarantee.exact_epsilon
        charged = Guarantee.from_dict(done.receipt.guarantee)
        for at in (0.01, 0.1, 1, 3):
            assert charged.delta_at(at) >= done.guarantee.delta_at(at) * (1 - 1e-9)


def test_a_regression_from_a_table_uses_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.regression.estimators.PrivateNoise", lambda: SeededNoise(0))
    fits = []
    for top in (1.0, 50.0):  # beyond its bound a value counts as the bound
        changed = [top if value == 1.0 else value for value in TABLE["x"]]
        done = discreet.draw(
            table(x=changed),
            "y ~ x + z",
            schema=SCHEMA,
            epsilon=1,
            delta="1e-6",
            options={"prior_precision": 2.0},
        )
        assert done.settings["prior_precision"] == 2
        assert done.norm_bound == math.sqrt(2)
        fits.append(done)
    assert np.array_equal(fits[0].coefficients, fits[1].coefficients)
    raw = np.array([[1.0, 10.0], [50.0, 12.0], [0.5, 5.0]])
    found = LogisticRelease.from_json(fits[0].to_json()).probabilities(raw)
    assert np.array_equal(found[0], found[1]), "clipped to the bounds"
    assert np.allclose(found, fits[0].probabilities([[1, 1], [1, 1], [0, 0]], scaled=True))


# By sums.


def line(family: str, n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = rng.uniform([0, -1], [10, 1], (n, 2))
    mean = 1 + 0.2 * rows[:, 0] - rows[:, 1]
    return rows, mean + rng.normal(size=n) if family == "gaussian" else rng.poisson(np.exp(mean / 2))


@pytest.mark.parametrize(
    ("model", "family", "truth"),
    [
        (PrivateLinearRegression(target_bounds=(-5, 10)), "gaussian", [1, 0.2, -1]),
        (PrivatePoissonRegression(target_bounds=(0, 30)), "poisson", [0.5, 0.1, -0.5]),
    ],
    ids=["linear", "poisson"],
)
def test_coefficients_are_in_the_units_of_the_rows(model: Any, family: str, truth: list[float]) -> None:
    """Within 8 posterior deviations of the truth: below 1e-14 for each of six."""
    model = clone(model).set_params(epsilon=5, delta="1e-6", bounds=[(0, 10), (-1, 1)], random_state=2)
    rows, response = line(family)
    model.fit(rows, response)
    found = np.append(model.intercept_, model.coef_)
    assert (np.abs(found - truth) < 8 * model.release_.std()).all()
    assert np.allclose(found, model.release_.mean())
    mean = found[0] + rows @ found[1:]
    assert np.allclose(model.predict(rows), np.exp(mean) if family == "poisson" else mean, rtol=2e-3)
    assert not model.release_.private
    assert not model.guarantee_.is_private
    private = clone(model).set_params(random_state=None, n=3000).fit(rows, response)
    assert private.guarantee_.exact_epsilon == 5
    assert type(Fit.from_json(private.release_.to_json())) is Fit


def test_an_estimator_fits_what_regress_fits() -> None:
    generator = np.random.default_rng(1)
    rows = generator.uniform(-1, 1, (500, 2))
    labels = np.where(generator.random(500) < 0.5 + 0.4 * rows[:, 0], "yes", "no")
    own = PrivateLogisticRegression(
        epsilon=2, delta=1e-6, bounds=(-1, 1), classes=("no", "yes"), random_state=5
    ).fit(rows, labels)
    asked = own.release_.question
    table = {"x0": rows[:, 0], "x1": rows[:, 1], "y": labels}
    again = asked.fit(table, source=SeededEntropy(5))
    assert [sums for _, sums in again.rounds] == [sums for _, sums in own.release_.rounds]


def test_names_of_columns_stand_in_the_fit() -> None:
    pandas = pytest.importorskip("pandas")
    rows, response = line("gaussian", 400)
    table = pandas.DataFrame(rows, columns=["mean age", "y"])
    model = PrivateLinearRegression(
        epsilon=5,
        delta="1e-6",
        bounds={"y": (-1, 1), "mean age": (0, 10)},
        target_bounds=(-5, 10),
        fit_intercept=False,
    ).fit(table, response)
    assert model.release_.question.bounds == {"mean age": (0, 10), "y": (-1, 1), "y_": (-5, 10)}
    assert model.release_.names == ("mean age", "y")
    assert model.intercept_ == 0
    assert model.predict(table).shape == (400,)


def test_several_classes_need_no_models_of_their_own() -> None:
    rows, labels = load_digits(n_class=3, return_X_y=True)
    model = PrivateLogisticRegression(epsilon=20, delta="1e-6", bounds=(0, 16), norm_bound=3, random_state=0)
    model.set_params(epsilon=200).fit(rows, labels)
    assert model.coef_.shape == (3, 64)
    assert (model.coef_[0] == 0).all(), "the first class is the reference"
    assert model.score(rows, labels) > 0.9
    assert np.allclose(model.predict_proba(rows).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bounds": None}, "bounds is missing: declare .low, high.*BoundedScaler"),
        ({"bounds": 3}, "bounds=3: low must be below"),
        ({"bounds": (1, 0)}, "must be below"),
        ({"bounds": ((0, 1), 2)}, "must be .low, high"),
        ({"bounds": (0, [1.0] * 30)}, "a pair for each"),
        ({"bounds": [(0, 1), (0, 1)]}, "a pair for each"),
        ({"bounds": [(0, 1)] * 29 + [(1, 0)]}, "must be below"),
        ({"bounds": {"x0": (0, 1)}}, "must name each column: x0, x1"),
        ({"epsilon": None}, "epsilon is missing"),
        ({"delta": None}, "delta is missing"),
        ({"draws": 3}, "belongs to posterior draws"),
        ({"order": 10}, "belongs to posterior draws"),
        ({"prior_precision": 1.0}, "belongs to posterior draws"),
        ({"aim": "speed"}, "aim='speed'"),
        ({"norm_bound": -1}, "norm_bound=-1"),
        ({"random_state": "a"}, "random_state='a'"),
    ],
    ids=str,
)
def test_bad_settings_of_sums(
    cancer: tuple[np.ndarray, np.ndarray], changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInputError, match=words):
        PrivateLogisticRegression(**{**SUMS, "classes": (0, 1), **changes}).fit(*cancer)


def test_bad_targets_are_refused_without_a_value() -> None:
    rows, response = line("gaussian", 50)
    model = PrivateLinearRegression(epsilon=1, delta="1e-6", bounds=(0, 10))
    with pytest.raises(InvalidInputError, match="target_bounds is missing"):
        model.fit(rows, response)
    counts = PrivatePoissonRegression(epsilon=1, delta="1e-6", bounds=(0, 10), target_bounds=(0, 9))
    for wrong, words in (
        (np.where(response > 1, np.nan, 12345.0), "NaN"),
        (response[:-1], "inconsistent numbers of samples"),
        (np.array(["12345"] * 49 + ["hidden"]), "numbers"),
        (-abs(response), "negative"),
    ):
        with pytest.raises(DataError, match=words) as caught:
            counts.fit(rows, wrong)
        assert "12345" not in str(caught.value)
        assert "hidden" not in str(caught.value)


def test_draws_go_to_arviz(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("arviz")
    private = PrivateLogisticRegression(**TARGET, draws=3).fit(*cancer)
    shown = private.release_.to_arviz().posterior
    drawn = shown["coefficients"]
    assert drawn.shape == (1, 4000, 31)
    assert len(np.unique(drawn.values[0], axis=0)) == 3  # those that were published
    assert shown.attrs["guarantee"] == str(private.guarantee_)
    assert isinstance(private.price(3), Guarantee)


def test_a_release_that_cannot_scale_refuses_rows() -> None:
    """A document of an estimator, or of 0.1.0, does not hold bounds: raw rows gave 0.97 for 0.05."""
    rows = np.array([[0.5], [-0.5]] * 30)
    document = PrivateLogisticRegression(**TARGET).fit(rows, [1, 0] * 30).release_
    with pytest.raises(InvalidInputError, match="scaled=True"):
        document.probabilities(rows)
    assert document.probabilities(rows, scaled=True).shape == (60, 2)
    with pytest.raises(InvalidInputError, match="1 columns"):
        document.probabilities([[1.0, 2.0]], scaled=True)
