"""Private regression, from noisy sums or from posterior draws.

The estimators need scikit-learn (the extra ``glm``) and are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet.errors import missing_extra

if TYPE_CHECKING:
    from discreet.regression.estimators import (
        BoundedScaler,
        PrivateLinearRegression,
        PrivateLogisticRegression,
        PrivatePoissonRegression,
    )

__all__ = [
    "BoundedScaler",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'discreet.regression' has no attribute {name!r}")
    try:
        value = getattr(import_module("discreet.regression.estimators"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise missing_extra(f"scikit-learn, which {name} needs,", "glm") from None
    globals()[name] = value
    return value
