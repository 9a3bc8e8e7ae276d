"""A scaler that learns nothing from the rows: what it does is declared, so that it costs no privacy.

Scaling with the mean and deviation of the private rows (scikit-learn's ``StandardScaler``) makes every
transformed row depend on every record. One outlier moves all the others, so the promise of whatever comes
after no longer covers the whole of the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.regression.checks import as_box, checked_rows


class BoundedScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Clips each column to declared bounds and maps them to [−1, 1].

    ``lower`` and ``upper`` are numbers, or one number per column. They are what you know of the columns
    without looking at the rows: a questionnaire's range, a physical limit, public data.
    """

    def __init__(self, lower: Any = None, upper: Any = None) -> None:
        self.lower = lower
        self.upper = upper

    def fit(self, X: Any, y: Any = None) -> Any:
        """Reads the number of columns and their names, which are public, and no value."""
        columns = checked_rows(self, X, reset=True).shape[1]
        if self.lower is None or self.upper is None:
            raise InvalidInput(
                "BoundedScaler needs lower= and upper=, one number or one per column: the smallest and "
                "largest values of the private rows would give those records away"
            )
        as_box(self.lower, self.upper, columns)
        return self

    def transform(self, X: Any) -> FloatArray:
        """The rows, scaled as declared."""
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False)
        low, high = as_box(self.lower, self.upper, rows.shape[1])
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        scaled = (np.clip(rows, low, high) - middle) / half
        return np.asarray(np.clip(scaled, -1, 1), dtype=np.float64)  # rounding of close bounds
