"""The types of numbers and arrays that everything is written in."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

EpsilonLike: TypeAlias = float | int | str | Fraction | Decimal
FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
