"""The estimators as scikit-learn sees them: its own checks, pipelines, bad input, what a release holds."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import chi2, ks_1samp, norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import discreet
from discreet import (
    BoundedScaler,
    DataError,
    InvalidInput,
    LogisticRelease,
    NoiseWarning,
    OPSLogisticRegression,
    OutputPerturbationLogisticRegression,
    PrivateLogisticRegression,
    ReferenceLogisticPosterior,
    RowClipper,
)
from discreet.privacy.guarantee import Guarantee
from discreet.randomness.entropy import SeededEntropy
from discreet.regression.baselines import found_share, gradient_bound
from discreet.regression.design import EXACT_NOISE, FLOATS, design
from discreet.regression.doubles import SeededNoise
from discreet.regression.kernel import loss, mode
from discreet.regression.release import clipped
from statistical.goodness import ALPHA

TARGET: dict[str, Any] = {"epsilon": 3, "delta": "1e-6"}
DESIGN: dict[str, Any] = {
    **TARGET, "method": "diffuse", "sampler": "rejection", "dimension": 3, "norm_squared": Fraction(1),
    "prior_precision": 1.3,
}  # fmt: skip

# Every check of scikit-learn is run, on seeded fits: repeatability is part of what the checks ask for. With
# random_state=None, the private path, scikit-learn itself leaves out the checks that compare two fits (the
# estimator says that it is not deterministic); the list is in docs/logistic.md.
CHECKED = [
    PrivateLogisticRegression(epsilon=100, delta=1e-5, norm_bound=3, random_state=0),
    PrivateLogisticRegression(
        epsilon=500, delta=1e-5, norm_bound=3, prior_precision=2, multi_class="ovr", random_state=0
    ),
    PrivateLogisticRegression(epsilon=100, delta=1e-5, norm_bound=3),
    OutputPerturbationLogisticRegression(
        epsilon=2000, delta=1e-5, norm_bound=3, prior_precision=5, random_state=0
    ),
    ReferenceLogisticPosterior(norm_bound=10, draws=40, random_state=0),
    BoundedScaler(-10, 10),
    RowClipper(5.0),
]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """The checks fit ten records: δ is then above 1/n, and the noise drowns them. Both warn, rightly."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", discreet.PrivacyWarning)
        warnings.simplefilter("ignore", NoiseWarning)
        yield


_CHECKS = parametrize_with_checks(CHECKED)


@pytest.mark.parametrize(
    _CHECKS.args[0], list(_CHECKS.args[1]), ids=_CHECKS.kwargs["ids"]
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
    assert model.guarantee_.known.delta_at(3) <= 1e-6
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
        assert np.array_equal(again.probabilities(rows), model.predict_proba(rows))
    assert texts[0] == texts[1]


@pytest.mark.parametrize("sampler", ["langevin", "rejection", "proximal"])
@pytest.mark.parametrize("method", ["diffuse", "concentrated"])
def test_it_learns(cancer: tuple[np.ndarray, np.ndarray], method: str, sampler: str) -> None:
    model = PrivateLogisticRegression(
        epsilon=20, delta="1e-6", method=method, sampler=sampler, random_state=3
    )
    model.fit(*cancer)
    assert model.design_.sampler == sampler
    assert model.score(*cancer) > 0.85
    proba = model.predict_proba(cancer[0])
    assert np.allclose(proba.sum(axis=1), 1)
    assert (model.predict(cancer[0]) == (proba[:, 1] > 0.5)).all()
    assert np.allclose(model.predict_log_proba(cancer[0]), np.log(proba))


def test_pipeline_cross_validation_and_pickle(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    last = PrivateLogisticRegression(epsilon=50, delta="1e-5", norm_bound=2)
    model = make_pipeline(BoundedScaler(-0.2, 0.2), RowClipper(2.0), last)
    assert cross_val_score(model, *cancer, cv=3).mean() > 0.8
    fitted = model.fit(*cancer)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(cancer[0]), fitted.predict(cancer[0]))
    assert model.get_params()["privatelogisticregression__epsilon"] == 50


def test_names_of_columns(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(cancer[0], columns=[f"f{i}" for i in range(30)])
    model = PrivateLogisticRegression(**TARGET).fit(table, cancer[1])
    assert model.release_.features == tuple(table.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[table.columns[::-1]])
    assert list(BoundedScaler(0, 1).fit(table).get_feature_names_out()) == list(table.columns)


def test_several_classes_share_the_budget() -> None:
    rows, labels = load_digits(return_X_y=True)
    model = PrivateLogisticRegression(epsilon=10, delta="1e-6", multi_class="ovr", random_state=0)
    model.fit(rows / 60, labels)
    assert model.coef_.shape == (10, 64)
    assert model.score(rows / 60, labels) > 0.7
    single = PrivateLogisticRegression(epsilon=10, delta="1e-6", random_state=0).fit(rows / 60, labels == 1)
    assert model.design_.weight == pytest.approx(single.design_.weight / math.sqrt(10), rel=1e-6)
    assert model.design_.guarantee.known.delta_at(10) <= 1e-6
    assert np.allclose(model.predict_proba(rows / 60).sum(axis=1), 1)


def test_models_of_several_classes_have_noise_of_their_own() -> None:
    """Rows of zeros: a coefficient is noise alone. Two fits, and two models of a fit, share none of it."""
    three = np.arange(60) % 3
    for sampler in ("langevin", "rejection"):
        model = PrivateLogisticRegression(**TARGET, sampler=sampler, multi_class="ovr", draws=2)
        drawn = np.concatenate([model.fit(np.zeros((60, 2)), three).coef_draws_.ravel() for _ in range(2)])
        assert len(np.unique(drawn)) == 2 * 2 * 3 * 2
        assert model.release_.private


def test_the_price_of_a_proximal_draw_has_no_renyi_curve(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    model = PrivateLogisticRegression(epsilon=1, delta="1e-6", sampler="proximal")
    spent = model.fit(*cancer).guarantee_
    for epsilon in (0.5, 1, 2, 4):
        assert model.price(1).delta_at(epsilon) >= spent.delta_at(epsilon) * (1 - 1e-9)
    assert model.price(1).zcdp() is None
    assert PrivateLogisticRegression(epsilon=1, delta="1e-6").price(1).zcdp() is not None
    assert model.price(1).exact_epsilon == 1
    assert model.price(2).epsilon > PrivateLogisticRegression(epsilon=1, delta="1e-6").price(2).epsilon
    with pytest.raises(InvalidInput, match="no Rényi guarantee"):
        PrivateLogisticRegression(epsilon=1, order=10, sampler="proximal").price(1)
    with pytest.raises(InvalidInput, match="in double precision"):
        PrivateLogisticRegression(epsilon=1, delta="1e-19").price(1)


def test_draws_show_their_price() -> None:
    model = PrivateLogisticRegression(epsilon=1, delta="1e-6")
    assert model.price(1).epsilon == pytest.approx(1, rel=1e-6)
    four = model.price(4)
    assert four.epsilon == pytest.approx(2.15, abs=0.05)
    assert four.mu == pytest.approx(2 * (model.price(1).mu or 0))
    shared = PrivateLogisticRegression(epsilon=1, delta="1e-6", draws=4)
    assert shared.price(4).epsilon == pytest.approx(1, rel=1e-6)
    assert PrivateLogisticRegression(epsilon=1, order=10).price(3).rdp(10) == pytest.approx(3)


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
        PrivateLogisticRegression(**TARGET, sampler="langevin", random_state=0),
        PrivateLogisticRegression(**TARGET, sampler="rejection", random_state=0),
        OutputPerturbationLogisticRegression(**TARGET, random_state=0),
        OPSLogisticRegression(epsilon=1, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
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
        with pytest.raises(InvalidInput, match="distinct labels"):
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
    with pytest.warns(discreet.PrivacyWarning, match="classes were not declared"):
        PrivateLogisticRegression(**TARGET).fit(*cancer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrivateLogisticRegression(**TARGET, classes=(0, 1)).fit(*cancer)
        PrivateLogisticRegression(**TARGET, random_state=0).fit(*cancer)
        ReferenceLogisticPosterior(draws=8).fit(*cancer)


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
        ({"norm_bound": 0}, InvalidInput, "norm_bound=0 must be a positive number"),
        ({"norm_bound": None}, InvalidInput, "norm_bound is missing"),
        ({"multi_class": "multinomial"}, InvalidInput, "multi_class='multinomial'"),
        ({"epsilon": None}, InvalidInput, "a target is epsilon with delta"),
        ({"backend": "torch"}, InvalidInput, "backend='torch'"),
        ({"draws": 1.5}, InvalidInput, "draws=1.5"),
        ({"classes": (0, "1")}, InvalidInput, "of one kind"),
        ({"norm_bound": 1e200}, InvalidInput, "too extreme"),
        ({"backend": "jax", "sampler": "rejection"}, InvalidInput, "belongs to sampler='langevin'"),
        ({"random_state": "a"}, InvalidInput, "random_state='a'"),
        ({"random_state": -1}, InvalidInput, "random_state=-1"),
        ({"random_state": False}, InvalidInput, "random_state=False"),
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
    with pytest.raises(InvalidInput, match=f"{name}=1 is refused"):
        PrivateLogisticRegression(**TARGET, **{name: 1})
    with pytest.raises(TypeError):
        PrivateLogisticRegression(no_such_parameter=1)


def test_tiny_epsilon_warns(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    with pytest.warns(NoiseWarning, match="of the prior's standard deviations"):
        PrivateLogisticRegression(epsilon="0.0001", delta="1e-6").fit(*cancer)


def test_jax_asks_for_the_chain(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("jax", reason="JAX is an extra: pip install 'discreet[gpu]'")
    few = cancer[0][:40], cancer[1][:40]
    settings: dict[str, Any] = {"epsilon": "0.1", "delta": "1e-6"}
    assert PrivateLogisticRegression(**settings).fit(*few).design_.sampler == "rejection"
    assert PrivateLogisticRegression(**settings, backend="jax").fit(*few).design_.sampler == "langevin"


def test_progress_bar(cancer: tuple[np.ndarray, np.ndarray], capsys: pytest.CaptureFixture[str]) -> None:
    PrivateLogisticRegression(**TARGET, sampler="langevin", steps=50, progress=True).fit(*cancer)
    assert "langevin" in capsys.readouterr().err


# Transformers.


def test_bounded_scaler() -> None:
    rows = np.array([[0.0, 5.0], [10.0, 50.0], [-3.0, 20.0]])
    assert np.allclose(BoundedScaler((0, 10), (10, 20)).fit_transform(rows), [[-1, -1], [1, 1], [-1, 1]])
    for lower, upper, words in (
        (None, 1, "needs lower="),
        (1, 0, "must be below"),
        ((0, 0, 0), 1, "2 numbers"),
    ):
        with pytest.raises(InvalidInput, match=words):
            BoundedScaler(lower, upper).fit(rows)
    with pytest.raises(InvalidInput, match="finite"):
        BoundedScaler(0, math.inf).fit(rows)
    with pytest.raises(InvalidInput, match="too close together"):
        BoundedScaler(0, 5e-324).fit(rows)
    assert np.abs(BoundedScaler(1, 1 + 2.0**-52).fit_transform(rows)).max() == 1
    one = BoundedScaler(0, 10).fit(rows).transform(rows[:1])
    assert np.array_equal(one, BoundedScaler(0, 10).fit(rows[:1]).transform(rows[:1])), "nothing is learned"


def test_row_clipper() -> None:
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    assert np.allclose(RowClipper(1.0).fit_transform(rows), [[0.6, 0.8], [0.3, 0.4], [0, 0]])
    with pytest.raises(InvalidInput, match="norm_bound"):
        RowClipper(-1).fit(rows)


# Baselines.


def test_output_perturbation_moves_by_at_most_its_sensitivity(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    """The same seed for neighbours: what is left is the difference of the minimisers, at most Δ/m."""
    rows, labels = cancer
    model = OutputPerturbationLogisticRegression(**TARGET, prior_precision=0.5, random_state=0)
    first = clone(model).fit(rows, labels)
    bound = math.sqrt(first.design_.sensitivity_squared) / first.design_.precision
    moved = rows.copy()
    for row, label in ((-rows[0], labels[0]), (rows[0] * 0, 1 - labels[0]), (rows[5] * 9, 1 - labels[0])):
        moved[0] = row
        changed = np.concatenate([[label], labels[1:]])
        other = clone(model).fit(moved, changed)
        gap = np.linalg.norm(np.append(other.coef_ - first.coef_, 2 * (other.intercept_ - first.intercept_)))
        assert gap <= bound
    assert first.design_.guarantee.known.delta_at(3) <= 1e-6
    assert OutputPerturbationLogisticRegression(**TARGET).fit(rows, labels).guarantee_.is_private


def test_output_perturbation_has_noise_of_the_prior_s_width(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    """12,000 numbers, 400 draws: their deviation is 1/√m within 6 standard errors; 5 % off is found."""
    model = OutputPerturbationLogisticRegression(**TARGET, prior_precision=4, draws=400, random_state=0)
    drawn = model.fit(*cancer).coef_draws_[:, 0]
    assert (drawn - drawn.mean(axis=0)).std() == pytest.approx(0.5, rel=6 / math.sqrt(2 * 12_000))


def test_output_perturbation_pays_for_its_minimiser(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    made = OutputPerturbationLogisticRegression(**TARGET, random_state=0).fit(*cancer).design_
    shift = 2 * made.weight * math.sqrt(1.25) * (1 + 2e-6) / made.precision
    assert made.guarantee.mu == pytest.approx(shift * math.sqrt(made.precision), rel=1e-12)
    assert made.guarantee.mu > 2 * made.weight * math.sqrt(1.25) * (1 + 1.9e-6)
    assert EXACT_NOISE in made.guarantee.assumptions
    assert FLOATS not in made.guarantee.assumptions
    assert found_share(10**8) == Fraction(1, 10**4)


def test_a_minimum_that_is_not_found_is_refused(
    cancer: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away from the minimum by t the gradient is between m·t and M·t: refused from tΔ on, not before."""
    model = OutputPerturbationLogisticRegression(**TARGET, random_state=0)
    made = model.fit(*cancer).design_
    most = 2e-6 * made.weight * math.sqrt(1.25)

    def off(by: float) -> Any:
        def found(*settings: Any) -> tuple[np.ndarray, float]:
            w, size = mode(*settings)
            return w + by * np.eye(len(w))[0], size

        return found

    monkeypatch.setattr("discreet.regression.baselines.mode", off(0.5 * most / made.curvature))
    model.fit(*cancer)
    monkeypatch.setattr("discreet.regression.baselines.mode", off(1.01 * most / made.precision))
    with pytest.raises(discreet.DiscreetError, match="not found"):
        model.fit(*cancer)
    monkeypatch.setattr(
        "discreet.regression.samplers.mode", lambda signed, *_: (np.zeros(31), 1.01e-3 * math.sqrt(31))
    )
    with pytest.raises(discreet.DiscreetError, match="not found"):
        PrivateLogisticRegression(**TARGET, sampler="proximal").fit(*cancer)


def test_the_gradient_is_bounded_with_its_rounding() -> None:
    """Against the gradient with 200 bits, at points and rows of several sizes."""
    rng = np.random.default_rng(3)
    for size, scale in ((700, 1.0), (5, 40.0)):
        signed, w = rng.uniform(-1, 1, (size, 3)) / 2, scale * rng.normal(size=3)
        made = replace(design(**DESIGN, n=size), weight=0.7)
        with ctx.workprec(200):
            total = [arb(0), arb(0), arb(0)]
            for row in signed.tolist():
                dot = sum((arb(a) * arb(b) for a, b in zip(row, w.tolist(), strict=True)), arb(0))
                share = arb(made.weight) / (1 + dot.exp())
                total = [part - share * arb(a) for part, a in zip(total, row, strict=True)]
            slope = [part + arb(made.precision) * arb(b) for part, b in zip(total, w.tolist(), strict=True)]
            true = sum((part * part for part in slope), arb(0)).sqrt()
            bound = gradient_bound(signed, w, made)
            assert arb(bound) > true
            assert arb(bound - 1e-9) < true


def test_output_perturbation_has_exact_noise(
    cancer: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private fit takes no noise in doubles. 8 draws of 31 numbers are N(ŵ, 1/m): three tests at ALPHA."""
    monkeypatch.setattr("discreet.regression.baselines.OS_ENTROPY", SeededEntropy(0))
    monkeypatch.setattr("discreet.regression.doubles.os.urandom", None)
    model = OutputPerturbationLogisticRegression(**TARGET, prior_precision=4, draws=8).fit(*cancer)
    drawn = np.append(model.coef_draws_[:, 0], 2 * model.release_.intercepts, axis=1)
    assert model.release_.private
    assert all((Fraction(x) / model.design_.grid).denominator == 1 for x in drawn.ravel().tolist())
    signed = np.hstack([clipped(cancer[0], 1.0), np.full((569, 1), 0.5)])
    signed *= np.where(cancer[1], 1, -1)[:, None]
    centre, _ = mode(signed, model.design_.weight, 4.0, 1e-9)
    z = 2 * (drawn - centre).ravel()
    assert ks_1samp(z, norm.cdf).pvalue > ALPHA / 3
    assert ks_1samp(2 * (drawn + centre).ravel(), norm.cdf).pvalue < ALPHA, "another centre is found"
    for tail in (chi2.sf, chi2.cdf):
        assert tail((z**2).sum(), len(z)) > ALPHA / 3
    assert chi2.sf(2.25 * (z**2).sum(), len(z)) < ALPHA, "and another width"


@pytest.mark.parametrize("record", [-1.0, -0.4, 0.3])
def test_ops_is_purely_private_on_a_line(record: float) -> None:
    """Densities on the ball, by quadrature: the log-ratio is at most ε, and nearly half of it is met."""
    rows = np.array([[1.0], [0.5], [-0.2]])
    model = OPSLogisticRegression(epsilon=2, radius=3, fit_intercept=False, classes=(0, 1)).fit(
        rows, [1, 1, 0]
    )
    assert model.guarantee_.exact_epsilon == 2
    assert model.guarantee_.exact_delta == 0
    axis = np.linspace(-3, 3, 4001)

    def log_density(signed: np.ndarray) -> np.ndarray:
        value = -model.design_.weight * loss(signed, axis[None]) - axis**2 / 2
        return value - np.log(np.exp(value).sum())

    signed = rows * np.array([[1], [1], [-1]])
    other = signed.copy()
    other[0] = record
    ratio = np.abs(log_density(signed) - log_density(other)).max()
    assert ratio <= 2
    assert record != -1.0 or ratio > 0.9


def test_ops_draws_stay_in_the_ball(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    model = OPSLogisticRegression(epsilon=1, draws=50, radius=6).fit(*cancer)
    lengths = np.sqrt((model.coef_draws_**2).sum(axis=2) + 4 * model.release_.intercepts**2)
    assert lengths.max() <= 6
    assert model.design_.sampler == "rejection"
    near = OPSLogisticRegression(epsilon=60, sampler="proximal", random_state=0, prior_precision=5.0)
    near.fit(*cancer)
    assert near.design_.guarantee.exact_delta == Fraction(1, 10**9)
    for wrong, words in (
        ({"epsilon": None}, "epsilon is missing"),
        ({"sampler": "langevin"}, "must be 'auto'"),
        ({"sampler": "proximal", "delta": 0}, "needs a delta above 0"),
        ({"sampler": "proximal", "delta": None}, "needs a delta above 0"),
        ({"delta": 5}, "a probability above 0"),
    ):
        with pytest.raises(InvalidInput, match=words):
            OPSLogisticRegression(**{"epsilon": 1, **wrong}).fit(*cancer)


def test_the_total_variation_of_ops_is_from_anywhere_in_the_ball() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    model = OPSLogisticRegression(
        epsilon=2, delta=1e-9, sampler="proximal", radius=2.5, draws=3, random_state=0
    )
    made = model.fit(rows, rows[:, 0] > 0).design_
    k = made.steps - 1
    tau = 5.0 / (2 * math.sqrt(made.step)) * math.exp(-k * math.log1p(made.precision * made.step))
    assert made.radius == 2.5
    assert tau <= float(made.tau)
    assert 3 * float(made.tau) * (1 + math.exp(2)) <= 1e-9
    assert 3 * 2 * made.weight * math.sqrt(made.norm_squared) * made.radius <= 2, "draws share ε"
    assert made.guarantee.known.delta_at(2) == pytest.approx(1e-9)


@pytest.mark.parametrize("radius", [0.1, 1.0])
def test_ops_on_a_small_ball_ends(cancer: tuple[np.ndarray, np.ndarray], radius: float) -> None:
    model = OPSLogisticRegression(epsilon="0.1", radius=radius, sampler="rejection", draws=3)
    for labels in (cancer[1], np.ones_like(cancer[1])):
        model.set_params(classes=(0, 1)).fit(cancer[0], labels)
        assert model.guarantee_.exact_delta == 0
        lengths = np.sqrt((model.coef_draws_**2).sum(axis=2) + 4 * model.release_.intercepts**2)
        assert 0.5 * radius < lengths.max() <= radius * (1 + 1e-6)


# From a table, with a ledger.


TABLE = {"x": [0.0, 1.0, 0.25, 0.5] * 15, "z": [3.0, 7.0, 5.0, 5.5] * 15, "y": ["a", "b", "b", "a"] * 15}
QUESTION: dict[str, Any] = {
    "outcome": "y", "classes": ("a", "b"), "features": {"x": (0, 1), "z": (0, 10)}, "delta": "1e-6",
}  # fmt: skip


def table(**changes: Any) -> Any:
    return pytest.importorskip("pandas").DataFrame({**TABLE, **changes})


@pytest.mark.parametrize("epsilon", ["0.1", "0.3", "0.7", "3"])
@pytest.mark.parametrize("draws", [1, 4])
def test_a_regression_costs_what_it_states(epsilon: str, draws: int, tmp_path: Any) -> None:
    with discreet.Ledger(tmp_path / "ledger.db") as book:
        book.create("d", epsilon=epsilon, delta="1e-6")
        done = discreet.release_logistic(
            table(), **QUESTION, epsilon=epsilon, draws=draws, ledger=book, dataset="d"
        )
        assert book.show("d").spent.epsilon == Fraction(epsilon) == done.guarantee.exact_epsilon
        charged = Guarantee.from_dict(done.receipt.guarantee)
        for at in (0.01, 0.1, 1, 3):
            assert charged.delta_at(at) >= done.guarantee.delta_at(at) * (1 - 1e-9)


def test_a_proximal_regression_has_no_price_in_zcdp(tmp_path: Any) -> None:
    with discreet.Ledger(tmp_path / "ledger.db") as book:
        book.create("d", zcdp=1)
        asked = {**QUESTION, "epsilon": 1, "ledger": book, "dataset": "d"}
        with pytest.raises(discreet.GuaranteeMismatchError):
            discreet.release_logistic(table(), **asked, sampler="proximal")
        assert book.show("d").spent.zcdp == 0
        assert discreet.release_logistic(table(), **asked, sampler="langevin").private
        assert 0 < book.show("d").spent.zcdp < 1


def test_a_regression_from_a_table_uses_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.regression.estimators.PrivateNoise", lambda: SeededNoise(0))
    fits = []
    for top in (1.0, 50.0):  # beyond its bound a value counts as the bound
        changed = [top if value == 1.0 else value for value in TABLE["x"]]
        for sampler in ("langevin", "proximal"):
            done = discreet.release_logistic(
                table(x=changed), **QUESTION, epsilon=1, sampler=sampler, prior_precision=2.0
            )
            assert done.settings["sampler"] == sampler
            assert done.settings["prior_precision"] == 2
            assert done.norm_bound == math.sqrt(2)
            fits.append(done.coefficients)
    assert np.array_equal(fits[0], fits[2])
    assert np.array_equal(fits[1], fits[3])


def test_reference_is_labelled_and_goes_to_arviz(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    arviz = pytest.importorskip("arviz")
    model = ReferenceLogisticPosterior(draws=400, random_state=0).fit(*cancer)
    assert not model.guarantee_.is_private
    assert not model.release_.private
    assert not ReferenceLogisticPosterior(draws=8).fit(*cancer).release_.private, "without a seed too"
    data = model.to_arviz()
    assert data.posterior["coef"].shape == (4, 100, 1, 30)
    assert data.posterior.attrs["guarantee"] == "none: not private"
    assert float(arviz.rhat(data)["coef"].max()) < 1.1
    with pytest.raises(InvalidInput, match="multiple of chains"):
        ReferenceLogisticPosterior(draws=10, chains=4).fit(*cancer)
    private = PrivateLogisticRegression(**TARGET, draws=3).fit(*cancer)
    shown = private.release_.to_arviz().posterior
    assert shown["coef"].shape == (1, 3, 1, 30)
    assert shown.attrs["guarantee"] == str(private.guarantee_)
    assert isinstance(private.price(3), Guarantee)
