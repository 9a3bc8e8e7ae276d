"""What estimators by posterior draws have in common: reading rows, drawing, predicting."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from discreet._typing import FloatArray
from discreet.declarations import as_size
from discreet.documents.answer import VERSIONS
from discreet.errors import DataError, InvalidInput, PrivacyWarning, warn
from discreet.privacy.guarantee import Guarantee
from discreet.regression.chain import DrawDesign, langevin
from discreet.regression.checks import as_seed, checked_labels, checked_rows, positive
from discreet.regression.doubles import DoubleNoise, PrivateNoise, SeededNoise
from discreet.regression.rejection import rejection
from discreet.regression.release import LogisticRelease, clipped

_CONSTANT = Fraction(1, 2)  # of norm_bound: the value of the column that carries the intercept


class DrawingEstimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose coefficients are draws; a subclass makes the design and perhaps the draws."""

    multi_class: Any
    norm_bound: Any
    fit_intercept: Any
    draws: Any
    n: Any
    classes: Any
    random_state: Any
    release_: Any
    promises = True

    def fit(self, X: Any, y: Any) -> Any:
        """Draws the coefficients. The settings are fixed from public values before the rows are used."""
        rows = checked_rows(self, X, reset=True)
        if self.multi_class not in (None, "ovr"):
            raise InvalidInput(f"multi_class={self.multi_class!r} must be 'ovr' (one versus rest) or None")
        self.classes_, index = checked_labels(y, len(rows), self.classes, self.multi_class == "ovr")
        models = 1 if len(self.classes_) == 2 else len(self.classes_)
        bound = self.row_bound()
        if not 1e-100 < bound < 1e100:
            raise InvalidInput(f"norm_bound={bound:g} is too extreme to be computed with; rescale X")
        assumptions = public_facts(self, len(rows))
        constant = float(_CONSTANT) * bound if self.fit_intercept else 0.0
        squared = Fraction(bound) ** 2 * (1 + _CONSTANT**2 if self.fit_intercept else 1)
        width = rows.shape[1] + bool(self.fit_intercept)
        made = self.design_for(len(rows), width, squared, models, assumptions)
        seed = as_seed(self.random_state)
        noise: DoubleNoise = PrivateNoise() if seed is None else SeededNoise(seed)
        inside = clipped(rows, bound)
        if self.fit_intercept:
            inside = np.hstack([inside, np.full((len(inside), 1), constant)])
        drawn = []
        for model in range(models):
            of_class = index == (model if models > 1 else 1)
            signed = inside * np.where(of_class, 1.0, -1.0)[:, None]
            drawn.append(self.draws_of(made, signed, noise))
        self._finish(made, np.stack(drawn, axis=1), constant, noise.private)
        return self

    @abstractmethod
    def design_for(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign:
        """All that is fixed before the rows are used."""

    def row_bound(self) -> float:
        """The length to which rows are clipped."""
        return positive(self.norm_bound, "norm_bound")

    def draws_of(self, made: DrawDesign, signed: FloatArray, noise: DoubleNoise) -> FloatArray:
        """The draws of one model over signed rows."""
        if made.sampler == "rejection":
            return rejection(made, signed, noise.source)
        return langevin(made, signed, noise)

    def settings_of(self, made: DrawDesign) -> dict[str, Any]:
        """Public: all that a reader needs to judge or repeat the release, and nothing from the data."""
        return {
            "method": made.method,
            "sampler": made.sampler,
            "target": made.target.to_dict(),
            "n": made.n,
            "prior_precision": made.precision,
            "weight": made.weight,
            "steps": made.steps or None,
            "step_size": made.step or None,
            "draws": made.draws,
            "grid": str(made.grid),
        }

    def _finish(self, made: DrawDesign, drawn: FloatArray, constant: float, private: bool) -> None:
        columns = self.n_features_in_
        own = np.ascontiguousarray(drawn[..., :columns])
        intercepts = drawn[..., columns] * constant if self.fit_intercept else np.zeros(drawn.shape[:2])
        guarantee = made.guarantee
        if not private:
            guarantee = Guarantee(None, basis="not private: the noise came from random_state")
        names = getattr(self, "feature_names_in_", None)
        self.design_ = made
        self.guarantee_ = guarantee
        self.release_ = LogisticRelease(
            private=private and guarantee.is_private,
            estimator=type(self).__name__,
            classes=tuple(getattr(label, "item", lambda label=label: label)() for label in self.classes_),
            coefficients=own,
            intercepts=intercepts,
            norm_bound=self.row_bound(),
            guarantee=guarantee,
            settings=self.settings_of(made),
            features=None if names is None else tuple(map(str, names)),
            versions=VERSIONS,
        )
        self.coef_draws_ = own
        self.coef_ = own.mean(axis=0)
        self.intercept_ = intercepts.mean(axis=0)

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds, averaged over the draws as probabilities: shape (n,), or (n, classes) for several."""
        check_is_fitted(self)
        odds = self.release_.log_odds(checked_rows(self, X, reset=False), scaled=True)
        return np.asarray(odds[:, 0] if len(self.classes_) == 2 else odds, dtype=np.float64)

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each class, averaged over the draws."""
        check_is_fitted(self)
        found = self.release_.probabilities(checked_rows(self, X, reset=False), scaled=True)
        return np.asarray(found, dtype=np.float64)

    def predict_log_proba(self, X: Any) -> FloatArray:
        """Logarithms of :meth:`predict_proba`."""
        return np.asarray(np.log(np.maximum(self.predict_proba(X), np.finfo(float).tiny)), dtype=np.float64)

    def predict(self, X: Any) -> Any:
        """The class with the largest probability."""
        odds = self.decision_function(X)
        index = (odds > 0).astype(int) if odds.ndim == 1 else odds.argmax(axis=1)
        return self.classes_[index]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.multi_class == "ovr"
        tags.non_deterministic = self.random_state is None
        return tags


def public_facts(estimator: Any, rows: int) -> tuple[str, ...]:
    """What is taken for public from the rows, checked against what was declared."""
    if estimator.n is not None and as_size(estimator.n) != rows:
        raise DataError(
            f"n={estimator.n} was declared but X has another number of rows. In cross-validation declare the "
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
