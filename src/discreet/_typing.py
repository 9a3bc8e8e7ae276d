"""The types of numbers and arrays that everything is written in."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

EpsilonLike: TypeAlias = float | int | str | Fraction | Decimal
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
"""Of a function that is wrapped or called for somebody."""

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    FloatArray: TypeAlias = npt.NDArray[np.float64]
    IntArray: TypeAlias = npt.NDArray[np.int64]
else:  # NumPy is not loaded for a name in an annotation
    FloatArray = IntArray = Any
