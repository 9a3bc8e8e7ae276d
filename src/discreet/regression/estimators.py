"""The scikit-learn estimator; its baselines share everything but the design and the draw."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from contextlib import contextmanager
from fractions import Fraction
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from discreet._typing import FloatArray
from discreet.declarations import as_size
from discreet.documents.answer import versions
from discreet.errors import DataError, InvalidInput, PrivacyWarning
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Curve, Gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression.checks import checked_labels, checked_rows, positive
from discreet.regression.design import DrawDesign, Target, as_draws, design, least_delta, shares
from discreet.regression.doubles import DoubleNoise, PrivateNoise, SeededNoise
from discreet.regression.kernel import BACKENDS
from discreet.regression.release import LogisticRelease, clipped
from discreet.regression.samplers import Advance, draw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["LogisticEstimator", "PrivateLogisticRegression"]

_CONSTANT = Fraction(1, 2)  # of norm_bound: the value of the column that carries the intercept
_REFUSED = {
    "warm_start": "a chain that starts where the data put an earlier one is no longer private at any length",
    "early_stopping": "when a chain stops would depend on the data, and so give them away",
    "tol": "when a chain stops would depend on the data, and so give them away",
    "max_iter": "the length of the chain is public: give steps=",
    "preconditioner": "a metric taken from the data voids the proof; rescale columns with declared bounds",
    "seed": "a private fit takes its randomness from the operating system; random_state= is for experiments",
}


def _refusing(initialise: Callable[..., None]) -> Callable[..., None]:
    """A constructor that answers habits from elsewhere with the reason, in place of a TypeError."""

    @wraps(initialise)
    def checked(self: Any, **settings: Any) -> None:
        for name, why in _REFUSED.items():
            if name in settings:
                raise InvalidInput(f"{name}={settings[name]!r} is refused: {why}")
        initialise(self, **settings)

    return checked


class LogisticEstimator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What the private estimator and its baselines have in common: reading, fitting, predicting."""

    multi_class: Any
    norm_bound: Any
    fit_intercept: Any
    draws: Any
    n: Any
    classes: Any
    random_state: Any
    _promises = True

    def fit(self, X: Any, y: Any) -> Any:
        """Draws the coefficients. The settings are fixed from public values before the rows are used."""
        rows = checked_rows(self, X, reset=True)
        if self.multi_class not in (None, "ovr"):
            raise InvalidInput(f"multi_class={self.multi_class!r} must be 'ovr' (one versus rest) or None")
        self.classes_, index = checked_labels(y, len(rows), self.classes, self.multi_class == "ovr")
        models = 1 if len(self.classes_) == 2 else len(self.classes_)
        bound = positive(self.norm_bound, "norm_bound")
        if not 1e-100 < bound < 1e100:
            raise InvalidInput(f"norm_bound={bound:g} is too extreme to be computed with; rescale X")
        assumptions = self._public_facts(len(rows))
        constant = float(_CONSTANT) * bound if self.fit_intercept else 0.0
        squared = Fraction(bound) ** 2 * (1 + _CONSTANT**2 if self.fit_intercept else 1)
        width = rows.shape[1] + bool(self.fit_intercept)
        made = self._design(len(rows), width, squared, models, assumptions)
        noise = self._noise()
        inside = clipped(rows, bound)
        if self.fit_intercept:
            inside = np.hstack([inside, np.full((len(inside), 1), constant)])
        drawn = []
        with self._progress(made) as advance:
            for model in range(models):
                of_class = index == (model if models > 1 else 1)
                signed = inside * np.where(of_class, 1.0, -1.0)[:, None]
                drawn.append(self._draw(made, signed, noise, advance))
        coefficients = np.stack(drawn, axis=1)
        self._finish(made, coefficients, constant, noise.private)
        return self

    @abstractmethod
    def _design(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign: ...

    def _draw(self, made: DrawDesign, signed: FloatArray, noise: DoubleNoise, advance: Advance) -> FloatArray:
        return draw(made, signed, noise, advance=advance)

    def _settings(self, made: DrawDesign) -> dict[str, Any]:
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

    @contextmanager
    def _progress(self, made: DrawDesign) -> Iterator[Advance]:
        yield lambda steps: None

    def _public_facts(self, rows: int) -> tuple[str, ...]:
        if self.n is not None and as_size(self.n) != rows:
            raise DataError(
                f"n={self.n} was declared but X has another number of rows. In cross-validation declare the "
                "number of rows of a training fold, or leave n out"
            )
        facts = [f"n = {rows}, the number of rows, is public"]
        if self.classes is None:
            facts.append("the set of classes, taken from the labels, is public")
            if self._promises and self.random_state is None:
                warnings.warn(
                    "classes were not declared, so those that occur in y are published: the guarantee does "
                    "not cover a label that only one record has. Declare them, as in classes=(0, 1)",
                    PrivacyWarning,
                    stacklevel=3,
                )
        return tuple(facts)

    def _noise(self) -> DoubleNoise:
        state = self.random_state
        if state is None:
            return PrivateNoise()
        try:
            if isinstance(state, bool):
                raise TypeError
            if isinstance(state, np.random.RandomState):
                return SeededNoise(int(state.randint(2**31)))
            return SeededNoise(state)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"random_state={state!r} must be None (a private fit), a whole number from 0 on, or a "
                "generator of NumPy"
            ) from None

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
            norm_bound=positive(self.norm_bound, "norm_bound"),
            guarantee=guarantee,
            settings=self._settings(made),
            features=None if names is None else tuple(map(str, names)),
            versions=versions(),
        )
        self.coef_draws_ = own
        self.coef_ = own.mean(axis=0)
        self.intercept_ = intercepts.mean(axis=0)

    def decision_function(self, X: Any) -> FloatArray:
        """Log-odds, averaged over the draws as probabilities: shape (n,), or (n, classes) for several."""
        check_is_fitted(self)
        odds = self.release_.log_odds(checked_rows(self, X, reset=False))
        return odds[:, 0] if len(self.classes_) == 2 else odds

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each class, averaged over the draws."""
        check_is_fitted(self)
        return self.release_.probabilities(checked_rows(self, X, reset=False))

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

    def _more_tags(self) -> dict[str, Any]:  # the same, for scikit-learn before 1.6
        return {"binary_only": self.multi_class != "ovr", "non_deterministic": self.random_state is None}


class PrivateLogisticRegression(LogisticEstimator):
    """Logistic regression by one or more posterior draws that are differentially private together.

    ``epsilon`` with ``delta``, or with ``order`` for Rényi privacy, is the budget of **all** that a fit
    publishes: all draws, and all one-versus-rest models, which get equal shares of μ². The relation is
    replace-one, so the number of records is public; declare it with ``n``, or the number of rows is taken.

    Parameters
    ----------
    epsilon, delta, order
        The target. (ε, δ) is calibrated on the exact profile of the Gaussian loss.
    method
        ``"diffuse"`` lets each record count for ρ ≤ 1, ``"concentrated"`` strengthens the prior, until the
        target is met; ``"direct"`` changes neither and is refused if the prior is too weak.
    sampler
        ``"langevin"``: noisy gradient steps, private whether or not they have converged. ``"rejection"``: a
        draw from the posterior itself; its running time depends on the data. ``"proximal"``: within a
        certified total variation, paid for in δ. ``"auto"``: rejection where public values promise it an
        acceptance of 1 % or more, unless ``steps`` or ``backend`` ask for a chain. All of them compute in
        double precision, an assumption that the guarantee lists.
    prior_precision
        m of the prior N(0, I/m) on the coefficients.
    norm_bound
        Rows are clipped to this Euclidean length, here and in ``predict``.
    fit_intercept
        Adds a constant column of half the ``norm_bound``: the bound used is then √1.25 of ``norm_bound``, and
        the intercept has a prior of its own, N(0, norm_bound²/(4m)).
    draws
        Each draw is as private as its share of the budget: see :meth:`price`.
    classes
        The labels that may occur; if None, those that do occur are taken as public, with a warning.
    multi_class
        ``"ovr"`` for more than two classes.
    steps
        Length of the langevin chain; any is private.
    backend
        ``"numpy"`` or ``"jax"``, for langevin, which ``sampler="auto"`` then chooses.
    random_state
        For experiments: the fit is then reproducible and **not private**, and says so in ``release_``.

    Attributes
    ----------
    coef_draws_, coef_, intercept_
        Draws × models × columns; means over the draws.
    guarantee_, release_
        The promise, and the JSON document that may be published.
    """

    @_refusing
    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        order: float | None = None,
        method: str = "diffuse",
        sampler: str = "auto",
        prior_precision: float = 1.0,
        norm_bound: float = 1.0,
        fit_intercept: bool = True,
        draws: int = 1,
        n: int | None = None,
        classes: Any = None,
        multi_class: str | None = None,
        steps: int | None = None,
        backend: str = "numpy",
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.order = order
        self.method = method
        self.sampler = sampler
        self.prior_precision = prior_precision
        self.norm_bound = norm_bound
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.n = n
        self.classes = classes
        self.multi_class = multi_class
        self.steps = steps
        self.backend = backend
        self.progress = progress
        self.random_state = random_state

    def price(self, draws: int) -> Guarantee:
        """What ``draws`` draws would cost if each kept the sharpness of those that are asked for now.

        Without data. A fit never spends this: with ``draws=k`` it divides μ² by k instead, and each draw is
        √k times as noisy.
        """
        target = Target.checked(self.epsilon, self.delta, self.order, 1)
        if target.order is None:
            least_delta(target.delta)
        square, tau = shares(target, self.sampler)
        times = Fraction(as_draws(draws), as_draws(self.draws))
        curve: Curve = Gaussian(square * times)
        if tau:
            curve = Inexact(curve, tau * times)
        basis = f"{draws} posterior draws"
        if target.order is not None:
            return Guarantee(None, basis=basis, curve=curve)
        if times == 1:  # the target itself: a search for ε could end a hair above it, and above a cap
            return Guarantee(target.epsilon, exact_delta=target.delta, basis=basis, curve=curve)
        return Guarantee(None, basis=basis, curve=curve).to_dp(target.delta)

    def _design(
        self, n: int, width: int, squared: Fraction, models: int, assumptions: tuple[str, ...]
    ) -> DrawDesign:
        if self.backend not in BACKENDS:
            raise InvalidInput(f"backend={self.backend!r} must be one of {', '.join(map(repr, BACKENDS))}")
        sampler = self.sampler
        if self.backend != "numpy":
            if sampler not in ("auto", "langevin"):
                raise InvalidInput(
                    f"backend={self.backend!r} belongs to sampler='langevin'; this is {sampler!r}"
                )
            sampler = "langevin"
        return design(
            method=self.method,
            sampler=sampler,
            n=n,
            dimension=width,
            norm_squared=squared,
            prior_precision=self.prior_precision,
            epsilon=self.epsilon,
            delta=self.delta,
            order=self.order,
            draws=as_draws(self.draws),
            models=models,
            steps=self.steps,
            assumptions=assumptions,
        )

    def _draw(self, made: DrawDesign, signed: FloatArray, noise: DoubleNoise, advance: Advance) -> FloatArray:
        return draw(made, signed, noise, self.backend, advance)

    @contextmanager
    def _progress(self, made: DrawDesign) -> Iterator[Advance]:
        if not self.progress or not made.steps:
            yield lambda steps: None
            return
        from rich.console import Console
        from rich.progress import Progress

        with Progress(console=Console(stderr=True)) as bar:
            task = bar.add_task(made.sampler, total=made.steps * made.models)
            yield lambda steps: bar.advance(task, steps)
