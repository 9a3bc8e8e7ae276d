"""Transformers that learn nothing from the rows: what they do is declared, so that it costs no privacy.

Scaling with the mean and deviation of the private rows (scikit-learn's ``StandardScaler``) makes every
transformed row depend on every record. One outlier moves all the others, so the promise of whatever comes
after no longer covers the whole of the program.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.regression.checks import checked_rows, positive
from discreet.regression.release import clipped

__all__ = ["BoundedScaler", "RowClipper"]


class _Declared(TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """``fit`` reads the number of columns and their names, which are public, and no value."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self._check_settings(checked_rows(self, X, reset=True).shape[1])
        return self

    def transform(self, X: Any) -> FloatArray:
        """The rows, transformed as declared."""
        check_is_fitted(self)
        return self._apply(checked_rows(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """The names of the columns, which do not change."""
        check_is_fitted(self)
        own = getattr(self, "feature_names_in_", None)
        if input_features is not None:
            given = np.asarray(input_features, dtype=object)
            if own is not None and not np.array_equal(given, own):
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != self.n_features_in_:
                raise ValueError("input_features should have length equal to number of features")
            return given
        return (
            own if own is not None else np.array([f"x{i}" for i in range(self.n_features_in_)], dtype=object)
        )

    @abstractmethod
    def _check_settings(self, columns: int) -> None:
        """What is declared fits a table of so many columns."""

    @abstractmethod
    def _apply(self, rows: FloatArray) -> FloatArray:
        """Checked rows, transformed."""


class BoundedScaler(_Declared):
    """Clips each column to declared bounds and maps them to [−1, 1].

    ``lower`` and ``upper`` are numbers, or one number per column. They are what you know of the columns
    without looking at the rows: a questionnaire's range, a physical limit, public data.
    """

    def __init__(self, lower: Any = None, upper: Any = None) -> None:
        self.lower = lower
        self.upper = upper

    def _check_settings(self, columns: int) -> None:
        if self.lower is None or self.upper is None:
            raise InvalidInput(
                "BoundedScaler needs lower= and upper=, one number or one per column: the smallest and "
                "largest values of the private rows would give those records away"
            )
        self._bounds(columns)

    def _bounds(self, columns: int) -> tuple[FloatArray, FloatArray]:
        ends = []
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            try:
                end = np.broadcast_to(np.asarray(value, dtype=np.float64), (columns,))
            except (TypeError, ValueError):
                raise InvalidInput(f"{name}={value!r} must be a number or {columns} numbers") from None
            if not np.isfinite(end).all():
                raise InvalidInput(f"{name}={value!r} must be finite")
            ends.append(end)
        if not (ends[0] < ends[1]).all():
            raise InvalidInput(f"lower={self.lower!r} must be below upper={self.upper!r} in every column")
        if not (ends[1] / 2 - ends[0] / 2 > 0).all():
            raise InvalidInput(
                f"lower={self.lower!r} and upper={self.upper!r} are too close together to be computed with"
            )
        return ends[0], ends[1]

    def _apply(self, rows: FloatArray) -> FloatArray:
        low, high = self._bounds(rows.shape[1])
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        scaled = (np.clip(rows, low, high) - middle) / half
        return np.asarray(np.clip(scaled, -1, 1), dtype=np.float64)  # rounding of close bounds


class RowClipper(_Declared):
    """Scales rows that are longer than ``norm_bound`` down to that Euclidean length; others are kept.

    :class:`~discreet.PrivateLogisticRegression` does this itself with its own ``norm_bound``; the transformer
    is for whoever wants to see, or share, the rows as they are used.
    """

    def __init__(self, norm_bound: float = 1.0) -> None:
        self.norm_bound = norm_bound

    def _check_settings(self, columns: int) -> None:
        positive(self.norm_bound, "norm_bound")

    def _apply(self, rows: FloatArray) -> FloatArray:
        return clipped(rows, positive(self.norm_bound, "norm_bound"))
