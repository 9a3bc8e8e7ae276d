"""The release of a classifier: coefficient draws, their guarantee, and the public settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np

from discreet._declarations import as_positive, as_real, as_reals
from discreet._documents.answer import Answer
from discreet._documents.parts import FIRST, Row, Table, Words, as_count
from discreet._numerics.enclosures import round_up
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Approximate, Curve, Gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression._chain import CHAIN_BASIS, EXACT_BASIS, FLOATS, chain_mu_squared

_READING = (
    "Coefficients are draws from a private posterior, for columns scaled by their declared bounds. With a "
    "positive coefficient, larger values of the column make the class more likely."
)
_BELOW = 1 - 1e-12
_SQUARABLE = 1e150


@dataclass(frozen=True, repr=False)
class LogisticRelease(Answer):
    """Draws of logistic regression coefficients, as a document that may be published.

    ``coefficients`` is nested as draws × models × columns, ``intercepts`` as draws × models. Two classes have
    one model (the second against the first), more classes one model each. ``settings`` are public: they were
    fixed before the data were read.
    """

    format: ClassVar[str] = "discreet/logistic"
    label: ClassVar[str] = "coefficient"
    variable: ClassVar[str] = "coefficients"
    omit_if_none: ClassVar[tuple[str, ...]] = ("bounds",)

    private: bool
    estimator: str
    classes: tuple[Any, ...]
    coefficients: FloatArray
    intercepts: FloatArray
    norm_bound: float
    guarantee: Guarantee
    settings: Mapping[str, Any] = field(default_factory=dict)
    features: tuple[str, ...] | None = None
    bounds: tuple[tuple[float, float], ...] | None = None
    """The declared bounds by which columns were scaled to [−1, 1], if the release has them."""
    versions: Mapping[str, str] = field(default_factory=dict)

    def log_odds(self, rows: FloatArray, *, scaled: bool = False) -> FloatArray:
        """Return log p/(1 − p), where p is averaged over the draws.

        Parameters
        ----------
        rows : array of shape (rows, columns)
            As in :meth:`probabilities`.
        scaled : bool
            As in :meth:`probabilities`.

        Returns
        -------
        array of shape (rows, models)
        """
        inside = clip_rows(self._as_fitted(rows, scaled), self.norm_bound)
        scores = np.einsum("ij,kmj->kim", inside, self.coefficients) + self.intercepts[:, None, :]
        if len(scores) == 1:
            return np.asarray(scores[0], dtype=np.float64)
        yes = np.logaddexp.reduce(-np.logaddexp(0.0, -scores), axis=0)
        no = np.logaddexp.reduce(-np.logaddexp(0.0, scores), axis=0)
        return np.asarray(yes - no, dtype=np.float64)

    def probabilities(self, rows: FloatArray, *, scaled: bool = False) -> FloatArray:
        """Return the probability of each class; one-versus-rest values are normalised.

        Rows are shortened to ``norm_bound`` as in the fit.

        Parameters
        ----------
        rows : array of shape (rows, columns)
            Rows in the units of their columns, which the release scales by its ``bounds``.
        scaled : bool
            Whether rows are already scaled as for the fit. A release without ``bounds`` (of an estimator, or
            of version 0.1.0) cannot scale, and needs ``scaled=True``.

        Returns
        -------
        array of shape (rows, classes)
        """
        share = np.asarray(0.5 * np.tanh(0.5 * self.log_odds(rows, scaled=scaled)) + 0.5)
        if len(self.classes) == 2:
            return np.hstack([1 - share, share])
        total = share.sum(axis=1, keepdims=True)
        even = np.full_like(share, 1 / len(self.classes))
        return np.asarray(np.divide(share, total, out=even, where=total > 0), dtype=np.float64)

    def _as_fitted(self, rows: FloatArray, scaled: bool) -> FloatArray:
        values = np.asarray(rows, dtype=np.float64)
        columns = self.coefficients.shape[2]
        if values.ndim != 2 or values.shape[1] != columns or not np.isfinite(values).all():
            raise InvalidInputError(f"rows must be a matrix of {columns} columns of finite numbers")
        if scaled:
            return values
        if self.bounds is None:
            raise InvalidInputError(
                "this release has no bounds of its columns, so it cannot scale rows: scale them "
                "as for the fit, and say scaled=True; for a table, versions before 0.3 scaled each column "
                "from its bounds to [-1, 1]"
            )
        low, high = (np.array(ends) for ends in zip(*self.bounds, strict=True))
        return np.asarray(2 * (np.clip(values, low, high) - low) / (high - low) - 1)

    def check_parts(self) -> None:
        """Check that every draw and class has an intercept and a coefficient of each column."""
        super().check_parts()
        models = 1 if len(self.classes) == 2 else len(self.classes)
        if self.coefficients.ndim != 3 or self.intercepts.shape != (len(self.coefficients), models):
            raise ValueError("the coefficients are not nested as draws, models, columns")
        columns = self.coefficients.shape[2]
        if self.coefficients.shape[1] != models or len(self.features or range(columns)) != columns:
            raise ValueError("the coefficients do not match its classes and features")
        if self.bounds is not None and (len(self.bounds) != columns or any(a >= b for a, b in self.bounds)):
            raise ValueError("the bounds do not match its columns")
        settings = self.settings
        if not isinstance(settings, dict) or not set(settings) <= {*_SETTINGS, "radius"}:
            raise ValueError("the settings are malformed")
        if self.private is not self.guarantee.is_private:
            raise ValueError("its field 'private' contradicts its guarantee")
        if self.is_private and settings["draws"] != len(self.coefficients):
            raise ValueError("its number of draws differs from its settings")

    def cost(self) -> Guarantee:
        """Return the guarantee of all draws of all models together, computed from the settings."""
        settings, count = self.settings, self.intercepts.size
        if (kind := (self.estimator, settings["sampler"])) not in _COSTS:
            raise ValueError("the privacy cost of this estimator and sampler is not known")
        weight, precision = (Fraction(as_real(settings[name], name, 1e-150)) for name in _SETTINGS[:2])
        reach = Fraction(self.norm_bound) ** 2 * (Fraction(5, 4) if self.intercepts.any() else 1)
        n = as_count(settings["n"], "n", 1)
        by_first = self.versions.get("discreet") == FIRST
        dimension = self.coefficients.shape[2] + bool(self.intercepts.any())
        drawn = Drawn(count, dimension, n, weight, precision, reach, settings, by_first)
        curve, basis, assumed = _COSTS[kind](drawn)
        public = f"n = {n}, the number of rows, is public"
        return Guarantee(None, basis=basis, assumptions=(public, *assumed), curve=curve)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the intercept and the columns, for each model."""
        columns = ("Intercept", *self._columns)
        if self.coefficients.shape[1] == 1:
            return columns
        return tuple(f"{label}: {column}" for label in self.classes for column in columns)

    @property
    def _columns(self) -> tuple[str, ...]:
        return self.features or tuple(f"x{i + 1}" for i in range(self.coefficients.shape[2]))

    @property
    def _published_draws(self) -> FloatArray:
        """The draws that were published, a row each."""
        both = np.concatenate([self.intercepts[:, :, None], self.coefficients], axis=2)
        return both.reshape(len(both), -1)

    def _rows(self, level: float) -> list[Row]:
        """Return the mean of the published draws; how far it is from the posterior mean is not known."""
        return [
            Row(name, mean) for name, mean in zip(self.names, self._published_draws.mean(axis=0), strict=True)
        ]

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Choose among the published draws, with replacement.

        Parameters
        ----------
        size : int
            The number of draws.
        seed : int, optional
            Makes the draws reproducible.

        Returns
        -------
        array of shape (size, len(names))
        """
        chosen = np.random.default_rng(seed).integers(len(self.coefficients), size=as_positive(size, "size"))
        return self._published_draws[chosen]

    def tables(self) -> tuple[Table, ...]:
        """Return the drawn coefficients as a table."""
        models = self.classes[1:] if self.coefficients.shape[1] == 1 else self.classes
        cells = tuple(
            (f"{i + 1}", str(model), f"{self.intercepts[i, j]:.4g}", *(f"{x:.4g}" for x in draw[j]))
            for i, draw in enumerate(self.coefficients)
            for j, model in enumerate(models)
        )
        return (
            Table(
                ("draw", "class", "intercept", *self._columns), cells, "Coefficients of the scaled columns:"
            ),
        )

    def words(self) -> Words:
        """Describe the draws and how to read them."""
        number = len(self.coefficients)
        draws = "one draw" if number == 1 else f"{number} draws"
        stamp = "Private" if self.private else "NOT PRIVATE (seeded or without noise):"
        settings = "; ".join(f"{name}: {value}" for name, value in self.settings.items() if value is not None)
        return Words(
            headline=f"{stamp} logistic regression, {draws}, classes {', '.join(map(str, self.classes))}",
            name=f"Logistic regression ({self.estimator})",
            facts=(
                ("Classes", ", ".join(map(str, self.classes))),
                (
                    "Model",
                    f"Bayesian logistic regression ({self.estimator}), rows clipped to length "
                    f"{self.norm_bound:g}",
                ),
                ("Settings", settings),
            ),
            notes=() if number == 1 else (f"The guarantee is for all {number} draws together.",),
            reading=(_READING,),
        )

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Return the release that :meth:`content` describes.

        Parameters
        ----------
        content : mapping
            What :meth:`content` returns, perhaps read from JSON.

        Returns
        -------
        LogisticRelease
        """
        names, pairs = content["features"], content.get("bounds")
        bounds = None if pairs is None else as_reals(pairs, "bounds").tolist()
        return cls(
            private=content["private"] is True,
            estimator=str(content["estimator"]),
            classes=tuple(content["classes"]),
            coefficients=as_reals(content["coefficients"], "coefficients"),
            intercepts=as_reals(content["intercepts"], "intercepts"),
            norm_bound=as_real(content["norm_bound"], "norm_bound", 1e-100, 1e100),
            guarantee=Guarantee.from_dict(content["guarantee"]),
            settings=content["settings"],
            features=None if names is None else tuple(map(str, names)),
            bounds=None if bounds is None else tuple((low, high) for low, high in bounds),
            versions=content["versions"],
        )

    @property
    def is_private(self) -> bool:
        """Whether the draws are private; those made with a seed are not."""
        return self.private and self.guarantee.is_private


@dataclass(frozen=True)
class Drawn:
    """Public values on which the cost of logistic draws depends."""

    count: int
    dimension: int
    n: int
    weight: Fraction
    precision: Fraction
    norm_squared: Fraction
    settings: Mapping[str, Any]
    by_first: bool = False
    """Whether version 0.1.0 made the draws; its rejection sampler used double-precision numbers."""

    @property
    def sensitivity_squared(self) -> Fraction:
        """Δ² = 4ρ²c², the squared bound on how much one record changes the gradient."""
        return 4 * self.weight**2 * self.norm_squared

    @property
    def chain(self) -> tuple[Fraction, int]:
        """The step size of a chain, and its number of steps."""
        step = Fraction(as_real(self.settings["step_size"], "step_size", 1e-150))
        return step, as_count(self.settings["steps"], "steps", 1, 10**9)


_Cost = tuple[Curve, str, tuple[str, ...]]
_NO_CHAIN = "it states steps of a chain, but its sampler has no chain"


def _rejection(drawn: Drawn) -> _Cost:
    if drawn.settings["steps"] or drawn.settings["step_size"]:
        raise ValueError(_NO_CHAIN)
    curve = Gaussian(drawn.count * drawn.sensitivity_squared / drawn.precision)
    if drawn.by_first:
        return curve, "exact posterior draw (Gopi, Lee and Liu 2022; proofs/logistic.md)", (FLOATS,)
    return curve, EXACT_BASIS, ()


def _langevin(drawn: Drawn) -> _Cost:
    step, steps = drawn.chain
    steepest = 2 * drawn.precision + drawn.weight * drawn.n * drawn.norm_squared / 4
    if step * steepest > 2:  # η ≤ 2/(m + M), M = m + ρnc²/4: the theorem says nothing of longer ones
        raise ValueError("its steps are longer than those for which the privacy cost is known")
    cost = chain_mu_squared(drawn.sensitivity_squared, drawn.precision, step, steps)
    return Gaussian(drawn.count * cost), CHAIN_BASIS, (FLOATS,)


# What version 0.1.0 had besides, by the formulas of proofs/logistic.md.


def _proximal(drawn: Drawn) -> _Cost:
    step, steps = drawn.chain
    start = math.sqrt(drawn.dimension / drawn.precision)
    rate = math.log1p(float(drawn.precision * step))
    log_tau = math.log(0.505 * start / math.sqrt(step)) - (steps - 1) * rate
    tau = round_up(math.exp(min(log_tau, 0.0)) * (1 + 1e-9))
    exact = Gaussian(drawn.count * drawn.sensitivity_squared / drawn.precision)
    basis = "proximal sampler with a certified total variation (proofs/logistic.md)"
    return Inexact(exact, min(Fraction(1), drawn.count * tau)), basis, (FLOATS,)


def _perturb(drawn: Drawn) -> _Cost:
    more = 1 + 2 * max(Fraction(1, 10**6), Fraction(drawn.n, 10**12))
    curve = Gaussian(drawn.count * drawn.sensitivity_squared * more**2 / drawn.precision)
    return curve, "output perturbation of the posterior mode (proofs/logistic.md)", ()


def _on_ball(drawn: Drawn) -> _Cost:
    radius = Fraction(as_real(drawn.settings["radius"], "radius", 1e-150))
    squared = (2 * drawn.count * drawn.weight * radius) ** 2 * drawn.norm_squared
    basis = "one posterior sample on a ball (Wang, Fienberg and Smola 2015; proofs/logistic.md)"
    return Approximate(round_up(math.sqrt(squared))), basis, ()


_COSTS: dict[tuple[str, str], Callable[[Drawn], _Cost]] = {
    ("PrivateLogisticRegression", "rejection"): _rejection,
    ("PrivateLogisticRegression", "langevin"): _langevin,
    ("PrivateLogisticRegression", "proximal"): _proximal,
    ("OutputPerturbationLogisticRegression", "output perturbation"): _perturb,
    ("OPSLogisticRegression", "rejection"): _on_ball,
}
_SETTINGS = (
    "weight",
    "prior_precision",
    "method",
    "sampler",
    "target",
    "n",
    "steps",
    "step_size",
    "draws",
    "grid",
)


def clip_rows(rows: FloatArray, bound: float) -> FloatArray:
    """Shorten rows with ‖x‖ > bound to a little less than it, so that rounding cannot exceed the bound.

    Parameters
    ----------
    rows : array of shape (n, columns)
        Finite numbers.
    bound : float
        The largest length.

    Returns
    -------
    array of shape (n, columns)
    """
    most = bound * _BELOW
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    plain = (largest == 0) | ((largest > 1 / _SQUARABLE) & (largest < _SQUARABLE))
    unit = np.where(plain, 1.0, largest)  # squares of the others are infinite or 0
    inside = rows / unit
    norms = np.linalg.norm(inside, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        long = norms * unit > most
    shorter = inside * (most / np.maximum(norms, 1e-300))
    return np.asarray(np.where(long, shorter, rows), dtype=np.float64)
