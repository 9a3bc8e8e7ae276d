"""The types that the experiments pass around."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
EpsilonLike: TypeAlias = float | int | str | Fraction | Decimal
