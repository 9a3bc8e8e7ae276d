"""Estimators for scikit-learn: ``y ~ all columns`` by :func:`discreet.regress`, or by posterior draws."""

from __future__ import annotations

import keyword
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import wraps
from typing import Any, ClassVar, TypeVar

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    OneToOneFeatureMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from discreet._declarations import as_choice, as_positive, as_size
from discreet._documents.parts import VERSIONS
from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy
from discreet._typing import FloatArray
from discreet.errors import DataError, InvalidInputError, PrivacyWarning, warn
from discreet.privacy.curves import Gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression._chain import (
    METHODS,
    DrawDesign,
    checked_target,
    draw_design,
    langevin,
    least_delta,
)
from discreet.regression._checks import (
    as_seed,
    checked_labels,
    checked_rows,
    checked_targets,
    declared_ends,
    positive,
)
from discreet.regression._doubles import DoubleNoise, PrivateNoise, SeededNoise
from discreet.regression._newton.fit import Fit, regression
from discreet.regression._newton.records import in_arrays, place_codes
from discreet.regression._rejection import rejection
from discreet.regression.release import LogisticRelease, clip_rows

Estimator = TypeVar("Estimator", bound=type)

_CONSTANT = Fraction(1, 2)  # of norm_bound: the value of the column that carries the intercept
_REFUSED = {
    "warm_start": "a fit that starts from an earlier fit to the data is not private, however short it is",
    "early_stopping": "the stopping point would depend on the data, and reveal something about them",
    "tol": "the stopping point would depend on the data, and reveal something about them",
    "max_iter": "the number of passes is public, and fixed beforehand",
    "preconditioner": "a metric taken from the data voids the proof; rescale columns with declared bounds",
    "seed": "a private fit takes its randomness from the operating system; random_state= is for experiments",
}
_OF_DRAWS = ("order", "prior_precision", "draws", "multi_class", "steps", "sampler")


def _refusing(estimator: Estimator) -> Estimator:
    """Make an estimator explain why it refuses a parameter, instead of raising a TypeError."""
    changed: Any = estimator
    initialise = changed.__init__

    @wraps(initialise)
    def check_settings(self: Any, **settings: Any) -> None:
        for name, why in _REFUSED.items():
            if name in settings:
                raise InvalidInputError(f"is refused: {why}", parameter=name, value=settings[name])
        initialise(self, **settings)

    changed.__init__ = check_settings
    return estimator


def _quote(name: str) -> str:
    if name.isidentifier() and not keyword.iskeyword(name):
        return name
    if "`" in name:
        raise InvalidInputError(f"the column {name!r} cannot be used in a formula; rename it")
    return f"`{name}`"


def _predict(estimator: Any, X: Any) -> FloatArray:
    fit: Fit = estimator.release_
    design, values = fit.question.design, checked_rows(estimator, X, reset=False).T
    codes = [place_codes(v.coder, column) for v, column in zip(design.variables, values, strict=True)]
    return fit.response(design.scale_rows(codes))


def _names(estimator: Any) -> list[str]:
    columns = range(estimator.n_features_in_)
    return list(map(str, getattr(estimator, "feature_names_in_", (f"x{i}" for i in columns))))


def _fit_all_columns(
    estimator: Any,
    rows: FloatArray,
    response: Any,
    family: str,
    target_bounds: Any = None,
    levels: tuple[str, ...] | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return coefficients and intercepts of ``y ~ all columns``, a row for each output, in units of X.

    ``target_bounds`` or ``levels`` declares y; the estimator holds the other settings and receives the
    release. ``response`` holds numbers, or the positions of the declared levels.
    """
    columns, first = estimator.n_features_in_, int(bool(estimator.fit_intercept))
    names = _names(estimator)
    box = declared_ends(estimator.bounds, names)
    if len(rows) < columns + first:
        raise DataError(f"n_samples={len(rows)} is less than the coefficients: nothing can be fitted")
    outcome = "y"
    while outcome in names:
        outcome += "_"
    terms = [*([] if first else ["0"]), *map(_quote, names)]
    bounds: dict[str, Any] = {
        name: (float(low), float(high)) for name, low, high in zip(names, *box, strict=True)
    }
    if levels is None:
        bounds[outcome] = target_bounds
    for name in ("epsilon", "delta"):
        if getattr(estimator, name) is None:
            raise InvalidInputError(
                f"{name} is missing: a target is epsilon with delta, such as epsilon=1, delta=1e-6"
            )
    asked = regression(
        f"{outcome} ~ {' + '.join(terms)}",
        family=family,
        bounds=bounds,
        levels=None if levels is None else {outcome: levels},
        epsilon=estimator.epsilon,
        delta=estimator.delta,
        n=len(rows),
        norm=None if estimator.norm_bound is None else positive(estimator.norm_bound, "norm_bound"),
        aim=estimator.aim,
    )
    seed = as_seed(estimator.random_state)
    records = in_arrays(asked.design, [*rows.T, response])
    fit = asked.fit_records(records, OS_ENTROPY if seed is None else SeededEntropy(seed))
    estimator.release_, estimator.guarantee_ = fit, fit.guarantee
    whole = fit.mean().reshape(fit.question.model.outputs, -1)
    return whole[:, first:], whole[:, 0] if first else np.zeros(len(whole))


def public_facts(estimator: Any, rows: int) -> tuple[str, ...]:
    """Return the public facts that a fit reads from the rows, after checking them against the declarations.

    Parameters
    ----------
    estimator : estimator
        With ``n``, ``random_state`` and perhaps ``classes``.
    rows : int
        The number of rows of X.

    Returns
    -------
    tuple of str
        A sentence for each fact.
    """
    if estimator.n is not None and as_size(estimator.n) != rows:
        raise DataError(
            f"n={estimator.n} was declared but X has a different number of rows. In cross-validation "
            "declare the "
            "number of rows of a training fold, or leave n out"
        )
    facts = [f"n = {rows}, the number of rows, is public"]
    if getattr(estimator, "classes", ()) is None:
        facts.append("the set of classes, taken from the labels, is public")
        if getattr(estimator, "promises", True) and estimator.random_state is None:
            warn(
                "classes were not declared, so those that occur in y are published: the guarantee does "
                "not cover a label that only one record has. Declare them, as in classes=(0, 1)",
                PrivacyWarning,
            )
    return tuple(facts)


_warned_of_copies = False


class CountedCopies:
    """A mixin that warns, once per process, of an estimator copied for several fits (cross-validation)."""

    def __sklearn_clone__(self) -> Any:
        """Return an unfitted copy with the same parameters."""
        global _warned_of_copies
        self._copies = getattr(self, "_copies", 0) + 1
        if self._copies == 2 and not _warned_of_copies and getattr(self, "random_state", None) is None:
            _warned_of_copies = True
            warn(
                "a private estimator is copied for several fits, as cross_val_score and GridSearchCV do: "
                "every fit spends epsilon again, and scores on private rows are not protected at all. "
                "Choose settings on public or simulated data, then fit once",
                PrivacyWarning,
            )
        return super().__sklearn_clone__()  # type: ignore[misc]


@_refusing
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(CountedCopies, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Private linear regression with the interface of scikit-learn, by :func:`discreet.regress`.

    ``epsilon`` and ``delta`` are the budget of everything that a fit publishes, under replace-one: the number
    of records is public. ``release_`` is the :class:`~discreet.regression._newton.fit.Fit`, with intervals.

    Parameters
    ----------
    bounds
        (low, high) for all columns of X, a pair for each, or a mapping from names to pairs; rows are clipped
        to them.
    target_bounds
        (lowest, highest) y, to which the response is clipped.
    norm_bound
        The Euclidean norm to which rows, of columns scaled to [−1, 1], are shortened; by default none is.
    aim
        ``"prediction"``, or ``"intervals"`` where the coefficients' error bars matter most.
    n
        The number of records, checked against X.
    random_state
        A seed for experiments: the fit is then reproducible and **not private**, as ``release_`` states.
    """

    family: ClassVar[str] = "gaussian"

    epsilon: Any = None
    delta: Any = None
    bounds: Any = None
    target_bounds: Any = None
    norm_bound: float | None = None
    fit_intercept: bool = True
    aim: str = "prediction"
    n: int | None = None
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> Any:
        """Fit the coefficients; missing declarations are an error, and are not learned from the rows.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            The records.
        y : array of shape (n,)
            The response.

        Returns
        -------
        estimator
            This estimator, fitted.
        """
        rows = checked_rows(self, X, reset=True)
        values = self.prepare_response(checked_targets(y, len(rows)))
        if self.target_bounds is None:
            raise InvalidInputError(
                "target_bounds is missing: declare the lowest and the highest y, such as (0, 100)"
            )
        public_facts(self, len(rows))
        coefficients, intercepts = _fit_all_columns(
            self, rows, values, self.family, target_bounds=self.target_bounds
        )
        self.coef_, self.intercept_ = coefficients[0], float(intercepts[0])
        return self

    def prepare_response(self, values: FloatArray) -> FloatArray:
        """Return the response in the form the model needs.

        Parameters
        ----------
        values : array of shape (n,)
            Finite numbers.

        Returns
        -------
        array of shape (n,)
        """
        return values

    def predict(self, X: Any) -> FloatArray:
        """Predict the mean of the response; ``release_.predict(frame)`` has intervals.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows in the units of the fit.

        Returns
        -------
        array of shape (n,)
        """
        check_is_fitted(self)
        return _predict(self, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.target_tags.positive_only = self.family == "poisson"
        return tags


class PrivatePoissonRegression(PrivateLinearRegression):
    """Private Poisson regression with a log link, for counts from 0 to a declared bound.

    Parameters as in :class:`~discreet.PrivateLinearRegression`; ``target_bounds`` are (0, largest count), to
    which counts are clipped. Numbers between counts are rounded.
    """

    family: ClassVar[str] = "poisson"

    def prepare_response(self, values: FloatArray) -> FloatArray:
        """Return the response rounded to counts.

        Parameters
        ----------
        values : array of shape (n,)
            Finite numbers, none below 0.

        Returns
        -------
        array of shape (n,)
        """
        if (values < 0).any():
            raise DataError("y must hold counts, but some numbers are negative")
        return np.rint(values)


class DrawingEstimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose coefficients are private draws; subclasses define the design and the sampler."""

    promises = True

    def fit(self, X: Any, y: Any) -> Any:
        """Draw the coefficients; the settings are fixed from public values before the rows are used.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            The records.
        y : array of shape (n,)
            The label of each record.

        Returns
        -------
        estimator
            This estimator, fitted.
        """
        rows = checked_rows(self, X, reset=True)
        if self.multi_class not in (None, "ovr"):
            raise InvalidInputError(
                "must be 'ovr' (one versus rest) or None", parameter="multi_class", value=self.multi_class
            )
        self.classes_, index = checked_labels(y, len(rows), self.classes, self.multi_class == "ovr")
        models = 1 if len(self.classes_) == 2 else len(self.classes_)
        bound = self.row_bound()
        if not 1e-100 < bound < 1e100:
            raise InvalidInputError(f"norm_bound={bound:g} is too extreme to be computed with; rescale X")
        assumptions = public_facts(self, len(rows))
        constant = float(_CONSTANT) * bound if self.fit_intercept else 0.0
        squared = Fraction(bound) ** 2 * (1 + _CONSTANT**2 if self.fit_intercept else 1)
        width = rows.shape[1] + bool(self.fit_intercept)
        design = self.design_for(len(rows), width, squared, models, assumptions)
        seed = as_seed(self.random_state)
        noise: DoubleNoise = PrivateNoise() if seed is None else SeededNoise(seed)
        inside = clip_rows(rows, bound)
        if self.fit_intercept:
            inside = np.hstack([inside, np.full((len(inside), 1), constant)])
        drawn = []
        for model in range(models):
            of_class = index == (model if models > 1 else 1)
            signed = inside * np.where(of_class, 1.0, -1.0)[:, None]
            drawn.append(self.draws_of(design, signed, noise))
        stacked, columns = np.stack(drawn, axis=1), self.n_features_in_
        coefficients = np.ascontiguousarray(stacked[..., :columns])
        intercepts = stacked[..., columns] * constant if self.fit_intercept else np.zeros(stacked.shape[:2])
        guarantee = design.guarantee
        if not noise.private:
            guarantee = Guarantee(None, basis="not private: the noise came from random_state")
        names = getattr(self, "feature_names_in_", None)
        self.design_ = design
        self.guarantee_ = guarantee
        self.release_ = LogisticRelease(
            private=noise.private and guarantee.is_private,
            estimator=type(self).__name__,
            classes=tuple(getattr(label, "item", lambda label=label: label)() for label in self.classes_),
            coefficients=coefficients,
            intercepts=intercepts,
            norm_bound=bound,
            guarantee=guarantee,
            settings=self.settings_of(design),
            features=None if names is None else tuple(map(str, names)),
            versions=VERSIONS,
        )
        self.coef_draws_ = coefficients
        self.coef_ = coefficients.mean(axis=0)
        self.intercept_ = intercepts.mean(axis=0)
        return self

    @abstractmethod
    def design_for(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign:
        """Return everything that is fixed before the rows are used.

        Parameters
        ----------
        n : int
            The number of records.
        width : int
            The number of coefficients, including the intercept.
        squared : Fraction
            The largest squared norm of a row, including the constant column.
        models : int
            The number of models: 1 for two classes, otherwise one for each class.
        assumptions : tuple of str
            The assumptions of the guarantee.

        Returns
        -------
        DrawDesign
        """

    def row_bound(self) -> float:
        """Return the Euclidean norm to which rows are clipped."""
        return positive(self.norm_bound, "norm_bound")

    def draws_of(self, design: DrawDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
        """Draw the coefficients of one model.

        Parameters
        ----------
        design : DrawDesign
            The public design of the draws.
        signed : array of shape (n, coefficients)
            Rows, negated where the record is not of the model's class.
        noise : DoubleNoise
            The source of randomness.

        Returns
        -------
        array of shape (draws, coefficients)
        """
        if design.sampler == "rejection":
            return rejection(design, signed, noise.source)
        return langevin(design, signed, noise)

    def settings_of(self, design: DrawDesign) -> dict[str, Any]:
        """Return the public settings: what a reader needs to judge or repeat the release.

        Parameters
        ----------
        design : DrawDesign
            The public design of the draws.

        Returns
        -------
        dict
        """
        return {
            "method": design.method,
            "sampler": design.sampler,
            "target": design.target.to_dict(),
            "n": design.n,
            "prior_precision": design.precision,
            "weight": design.weight,
            "steps": design.steps or None,
            "step_size": design.step or None,
            "draws": design.draws,
            "grid": str(design.grid),
        }

    def decision_function(self, X: Any) -> FloatArray:
        """Return log-odds of the probabilities averaged over the draws.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows, scaled as for the fit.

        Returns
        -------
        array of shape (n,) or (n, classes)
            For two classes, the log-odds of the second; otherwise an array with a column for each class.
        """
        check_is_fitted(self)
        odds = self.release_.log_odds(checked_rows(self, X, reset=False), scaled=True)
        return np.asarray(odds[:, 0] if len(self.classes_) == 2 else odds, dtype=np.float64)

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class, averaged over the draws.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows, scaled as for the fit.

        Returns
        -------
        array of shape (n, classes)
        """
        check_is_fitted(self)
        probabilities = self.release_.probabilities(checked_rows(self, X, reset=False), scaled=True)
        return np.asarray(probabilities, dtype=np.float64)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Return logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows, scaled as for the fit.

        Returns
        -------
        array of shape (n, classes)
        """
        return np.asarray(np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny)), dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """Return the class with the largest probability.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows, scaled as for the fit.

        Returns
        -------
        array of shape (n,)
            A label of ``classes_`` for each row.
        """
        odds = self.decision_function(X)
        index = (odds > 0).astype(int) if odds.ndim == 1 else odds.argmax(axis=1)
        return self.classes_[index]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multi_class == "ovr"
        tags.non_deterministic = self.random_state is None
        return tags


@_refusing
@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(CountedCopies, DrawingEstimator):
    """Private logistic regression, from noisy sums with intervals or from posterior draws.

    ``epsilon`` with ``delta`` is the budget of **everything** that a fit publishes. The relation is
    replace-one, so the number of records is public: ``n``, or the number of rows if ``n`` is not given.

    Parameters
    ----------
    method
        ``"newton"``: private sums (:func:`discreet.regress`), with intervals, for any number of classes.
        ``"diffused"``, ``"concentrated"``, ``"direct"``: draws from a posterior in which each record has a
        weight ρ ≤ 1, from one with a stronger prior, or from the posterior itself, which is an error if the
        prior is too weak.
    bounds
        For ``"newton"``: (low, high) for all columns, a pair for each, or a mapping from names to pairs; rows
        are clipped to them.
    norm_bound
        The Euclidean norm to which rows are shortened, here and in ``predict``. For draws it applies to the
        rows as they are, and is 1 by default. For ``"newton"`` it applies to rows of columns scaled to [−1,
        1]; by default no row is shortened.
    fit_intercept
        For draws: whether to add a constant column of half the ``norm_bound``, so that norms are bounded by
        √1.25 times it.
    classes
        The labels that may occur; if None, those that do occur are treated as public, with a warning.
    aim
        For ``"newton"``: ``"prediction"``, or ``"intervals"`` where the coefficients' error bars matter most.
    random_state
        A seed for experiments: the fit is then reproducible and **not private**, as ``release_`` states.
    order
        For draws: the order of Rényi privacy, in place of ``delta``.
    prior_precision
        For draws: m of the prior N(0, I/m) on the coefficients, 1 if not given.
    draws
        For draws: their number, among which the budget is divided equally: see :meth:`price`.
    multi_class
        For draws: ``"ovr"`` for more than two classes, one model for each, with equal shares of μ².
    steps
        For draws: the number of steps of the chain, which is private at any length.
    sampler
        For draws: ``"rejection"`` draws from the posterior exactly, with no assumption about floating-point
        numbers, for few records or a small epsilon; its running time depends on the data. ``"langevin"``
        takes the same steps for all data. ``"auto"`` uses rejection if it is quick for all possible data.

    Attributes
    ----------
    coef_, intercept_
        Posterior means, or means of the draws (``coef_draws_``, of shape draws × models × columns).
    guarantee_, release_
        The guarantee, and the document that may be published: a :class:`~discreet.regression._newton.fit.Fit`
        for ``"newton"``, otherwise a :class:`~discreet.regression.release.LogisticRelease`.
    """

    epsilon: Any = None
    delta: Any = None
    method: str = "newton"
    bounds: Any = None
    norm_bound: float | None = None
    fit_intercept: bool = True
    n: int | None = None
    classes: Any = None
    aim: str = "prediction"
    random_state: Any = None
    order: float | None = None
    prior_precision: float | None = None
    draws: int = 1
    multi_class: str | None = None
    steps: int | None = None
    sampler: str = "auto"

    @property
    def _fit_by_sums(self) -> bool:
        return bool(self.method == "newton")

    def fit(self, X: Any, y: Any) -> Any:
        """Fit the coefficients; all settings are public, and fixed before the rows are used.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            The records.
        y : array of shape (n,)
            The label of each record.

        Returns
        -------
        estimator
            This estimator, fitted.
        """
        if not self._fit_by_sums:
            as_choice(self.method, ("newton", *METHODS), "method")
            return super().fit(X, y)
        for name in _OF_DRAWS:
            if getattr(self, name) != getattr(type(self), name):
                raise InvalidInputError(
                    "belongs to posterior draws: method='diffused' has it, method='newton' does not",
                    parameter=name,
                    value=getattr(self, name),
                )
        rows = checked_rows(self, X, reset=True)
        self.classes_, index = checked_labels(y, len(rows), self.classes, True)
        public_facts(self, len(rows))
        names = tuple(str(label) for label in self.classes_.tolist())
        family = "binomial" if len(names) == 2 else "multinomial"
        coefficients, intercepts = _fit_all_columns(self, rows, index, family, levels=names)
        if family == "multinomial":  # the first class is the reference
            coefficients = np.vstack([np.zeros(coefficients.shape[1]), coefficients])
            intercepts = np.append(0.0, intercepts)
        self.coef_, self.intercept_ = coefficients, intercepts
        return self

    def row_bound(self) -> float:
        return 1.0 if self.norm_bound is None else super().row_bound()

    def predict_proba(self, X: Any) -> FloatArray:
        """Return the probability of each class.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows in the units of the fit.

        Returns
        -------
        array of shape (n, classes)
        """
        check_is_fitted(self)
        if not self._fit_by_sums:
            return super().predict_proba(X)
        response = _predict(self, X)
        return response if response.ndim == 2 else np.column_stack([1 - response, response])

    def decision_function(self, X: Any) -> FloatArray:
        """Return the log-odds of the second class, or log-probabilities of several classes.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows in the units of the fit.

        Returns
        -------
        array of shape (n,) or (n, classes)
        """
        check_is_fitted(self)
        if not self._fit_by_sums:
            return super().decision_function(X)
        chances = np.log(np.clip(self.predict_proba(X), 1e-300, 1.0))
        return np.asarray(chances[:, 1] - chances[:, 0] if chances.shape[1] == 2 else chances)

    def price(self, draws: int = 1) -> Guarantee:
        """Return the cost of a fit, without data.

        A fit never spends more than its target: with ``draws=k`` each draw gets μ²/k, and is √k times as
        noisy.

        Parameters
        ----------
        draws : int
            The number of posterior draws to price, each as precise as those of this estimator.

        Returns
        -------
        Guarantee
        """
        target = checked_target(self.epsilon, self.delta, self.order, 1)
        if target.order is None and not self._fit_by_sums and self.sampler != "rejection":
            least_delta(target.delta)
        times = Fraction(as_positive(draws, "draws"), as_positive(self.draws, "draws"))
        curve = Gaussian(target.mu_squared * times)
        basis = f"{draws} posterior draws" if not self._fit_by_sums else "private sums"
        if target.order is not None:
            return Guarantee(None, basis=basis, curve=curve)
        if times == 1:  # the target itself: a search for ε could end a hair above it, and above a cap
            return Guarantee(target.epsilon, exact_delta=target.delta, basis=basis, curve=curve)
        return Guarantee(None, basis=basis, curve=curve).to_dp(target.delta)

    def design_for(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign:
        """Return the weight, the prior and the sampler that meet the target.

        Parameters
        ----------
        n : int
            The number of records.
        width : int
            The number of coefficients, including the intercept.
        squared : Fraction
            The largest squared norm of a row, including the constant column.
        models : int
            The number of models: 1 for two classes, otherwise one for each class.
        assumptions : tuple of str
            The assumptions of the guarantee.

        Returns
        -------
        DrawDesign
        """
        return draw_design(
            method=self.method,
            n=n,
            dimension=width,
            norm_squared=squared,
            prior_precision=1.0 if self.prior_precision is None else self.prior_precision,
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.order,
            draws=as_positive(self.draws, "draws"),
            models=models,
            steps=self.steps,
            sampler=self.sampler,
            assumptions=assumptions,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self._fit_by_sums or self.multi_class == "ovr"
        return tags


@dataclass(eq=False, repr=False)
class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Clip each column to declared bounds and map them to [−1, 1].

    Bounds must be known without looking at the rows: the range of a questionnaire, a physical limit, public
    data.

    Parameters
    ----------
    bounds
        (low, high) for all columns, a pair for each, or a mapping from names to pairs.
    """

    bounds: Any = None

    def fit(self, X: Any, y: Any = None) -> Any:
        """Read the number of columns and their names, which are public; values are not read.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            The records.
        y : object
            Ignored.

        Returns
        -------
        BoundedScaler
            This scaler.
        """
        checked_rows(self, X, reset=True)
        declared_ends(self.bounds, _names(self))
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the rows, scaled as declared.

        Parameters
        ----------
        X : array or table of shape (n, columns)
            Rows in the units of the bounds.

        Returns
        -------
        array of shape (n, columns)
            Values from −1 to 1.
        """
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False)
        low, high = declared_ends(self.bounds, _names(self))
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        scaled = (np.clip(rows, low, high) - middle) / half
        return np.asarray(np.clip(scaled, -1, 1), dtype=np.float64)  # rounding of close bounds
