"""Types of numbers, arrays and declarations that all modules share."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

EpsilonLike: TypeAlias = float | int | str | Fraction | Decimal
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
"""The parameters of a function that is wrapped or called."""

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray: TypeAlias = npt.NDArray[np.float64]
    IntArray: TypeAlias = npt.NDArray[np.int64]
else:  # NumPy is not loaded for a name in an annotation
    FloatArray = IntArray = Any
ColumnLike: TypeAlias = Any
"""The declaration of a column: a Category, a Number, a Weight, a list of values, or a pair of numbers."""
SchemaLike: TypeAlias = Any
"""A Schema, a mapping of columns, the path of a schema file, or the declaration of one column."""
