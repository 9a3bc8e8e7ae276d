"""Checks of rows and labels by public functions of scikit-learn (1.6 on); messages contain no data."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from discreet._declarations import as_float, as_plain
from discreet._typing import FloatArray
from discreet.errors import DataError, InvalidInputError, drop_exception_context


class WrongTypeError(DataError, TypeError):
    """Rows of a type that is not supported; scikit-learn expects a TypeError."""


def positive(value: Any, name: str) -> float:
    """Return a declared number as a float, after checking that it is positive."""
    if value is None:
        raise InvalidInputError(
            f"{name} is missing: declare it from what you know beforehand, not from the private rows"
        )
    if not 0 < (number := math.nan if isinstance(value, str) else as_float(value)) < math.inf:
        raise InvalidInputError("must be a positive number", parameter=name, value=value)
    return number


BOUNDS = (
    "(low, high) for all columns, [(low, high), …] with a pair for each, or {'age': (18, 95), …} by "
    "name, as you know them beforehand; after BoundedScaler, (-1, 1)"
)


def declared_ends(bounds: Any, names: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    """Return the declared lower and upper bound of each column."""
    if bounds is None:
        raise InvalidInputError(f"bounds is missing: declare {BOUNDS}")
    if isinstance(bounds, Mapping):
        if set(bounds) != set(names):
            raise InvalidInputError(
                f"must name each column: {', '.join(names)}", parameter="bounds", value=bounds
            )
        bounds = [bounds[name] for name in names]
    try:
        low, high = np.broadcast_to(np.asarray(bounds, dtype=np.float64), (len(names), 2)).T
    except (TypeError, ValueError):
        raise InvalidInputError(f"must be {BOUNDS}", parameter="bounds", value=bounds) from None
    if not (np.isfinite(low) & np.isfinite(high) & (low < high)).all():
        raise InvalidInputError(
            ": low must be below high in every pair (low, high), and both finite",
            parameter="bounds",
            value=bounds,
        )
    if not (high / 2 - low / 2 > 0).all():
        raise InvalidInputError(
            "are too close together for double precision", parameter="bounds", value=bounds
        )
    return low, high


def as_seed(state: Any) -> int | None:
    """Return the seed of an experiment, or None for a private fit."""
    try:
        if isinstance(state, bool):
            raise TypeError
        if state is None:
            return None
        if isinstance(state, np.random.RandomState):
            return int(state.randint(2**31))
        if isinstance(state, np.random.Generator):
            return int(state.integers(2**31))
        if (number := int(operator.index(state))) < 0:
            raise ValueError
        return number
    except (TypeError, ValueError):
        raise InvalidInputError(
            "must be None (a private fit), a non-negative integer, or a NumPy generator",
            parameter="random_state",
            value=state,
        ) from None


@drop_exception_context
def checked_rows(estimator: Any, X: Any, *, reset: bool) -> FloatArray:
    """Return rows as a finite matrix of doubles, and set or compare ``n_features_in_`` and
    ``feature_names_in_``.
    """
    types = np.asarray(getattr(X, "dtypes", getattr(X, "dtype", None)), dtype=object)
    if any(getattr(kind, "kind", None) in ("M", "m") for kind in types.ravel()):  # NumPy would count days
        raise WrongTypeError(_DATES)
    try:
        return np.asarray(validate_data(estimator, X, reset=reset, dtype=np.float64))
    except OverflowError:
        raise DataError("X holds numbers too large for double precision") from None
    except TypeError as error:
        text = str(error)
        if "parse" not in text and "argument must be" not in text:  # sparse data, the type of an object
            text = _DATES
        raise WrongTypeError(text) from None
    except ValueError as error:
        text = str(error).partition("array=")[0].rstrip()
        if text.startswith("Complex data"):  # the array follows
            text = "Complex data not supported: X must hold real numbers"
        elif "contains NaN" in text:
            text = _MISSING
        elif text.startswith("could not convert"):
            text = "X holds text or objects; turn them into numbers with a declared encoding"
        elif "array." in str(error) and "got" in text:
            text += " Reshape your data."
        raise DataError(text) from None


@drop_exception_context
def checked_targets(y: Any, rows: int) -> FloatArray:
    """Return the targets as finite numbers, one for each row."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None")
    try:
        values = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("y must be one column of numbers, a 1d array") from None
    _same_length(rows, len(values))
    if not np.isfinite(values).all():
        raise DataError(
            "y contains NaN, infinity or a missing value; drop those records before n is declared"
        )
    return values


def _same_length(rows: int, labels: int) -> None:
    if labels != rows:
        raise DataError(f"Found input variables with inconsistent numbers of samples: [{rows}, {labels}]")


@drop_exception_context
def checked_labels(
    y: Any, rows: int, classes: Sequence[Any] | None, several: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the classes, declared or observed, and the index of each record's class."""
    if y is None:
        raise DataError("requires y to be passed, but the target y is None")
    try:
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        occurring, which = np.unique(labels, return_inverse=True)
    except TypeError:
        raise DataError(_MIXED) from None
    except ValueError as error:
        text = str(error)
        if "Unknown label type" in text:
            objects = np.asarray(y).dtype == object
            text = "Unknown label type: " + (_MIXED if objects else _KIND)
        raise DataError(text) from None
    _same_length(rows, len(labels))
    class_labels = occurring if classes is None else declared_classes(classes)
    if not _can_be_written(class_labels.tolist()):
        raise DataError(_MIXED)
    place = {label: i for i, label in enumerate(class_labels.tolist())}
    index = np.array([place.get(label, -1) for label in occurring.tolist()], dtype=np.int64)[which]
    if isinstance(y, list | tuple) and not any(isinstance(label, list | tuple | np.ndarray) for label in y):
        # Each label by itself: NumPy has made one type of all of them, in which large numbers may be others.
        index = np.array([place.get(as_plain(label), -1) for label in y], dtype=np.int64)
    if (index < 0).any():
        raise DataError("a label is not among the declared classes; declare all that may occur")
    if len(class_labels) < 2:
        raise DataError(
            f"The number of classes has to be greater than one; got {len(class_labels)} class. Declare "
            "classes=, because a class without records is still possible"
        )
    if len(class_labels) > 2 and not several:
        raise DataError(
            "Only binary classification is supported. The type of the target is multiclass. "
            f"There are {len(class_labels)} classes: multi_class='ovr' fits one model for each against the "
            "rest, with the budget split equally"
        )
    return class_labels, index


def declared_classes(classes: Any) -> npt.NDArray[Any]:
    """Return the distinct declared labels, sorted."""
    try:
        values = list(classes)
        labels = np.unique(np.asarray(values))
        if labels.ndim != 1 or len(labels) != len(list(classes)) or not _can_be_written(values):
            raise ValueError
    except (TypeError, ValueError):
        raise InvalidInputError(
            "must be a sequence of distinct labels of one kind, such as (0, 1)",
            parameter="classes",
            value=classes,
        ) from None
    return labels


def _can_be_written(labels: list[Any]) -> bool:
    """Return whether a release can store the labels: all are text, or all are numbers and booleans."""
    plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
    return all(isinstance(label, str) for label in plain) or all(
        isinstance(label, bool | int | float) for label in plain
    )


_DATES = "X holds dates or objects; turn them into numbers with a declared rule"
_MISSING = (
    "X holds missing values (NaN): fill them with a declared constant, or drop those records before n is "
    "declared"
)
_MIXED = "labels must be all text or all numbers: a release cannot hold dates, mixtures or missing labels"
_KIND = "labels must be classes, not continuous numbers; maybe you passed a regression target"
