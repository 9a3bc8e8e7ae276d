"""Bayesian logistic regression that is private whether or not a chain has converged.

The estimators need scikit-learn (the extra ``glm``) and are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet.errors import missing_extra

if TYPE_CHECKING:
    from discreet.regression.baselines import (
        OPSLogisticRegression,
        OutputPerturbationLogisticRegression,
        ReferenceLogisticPosterior,
    )
    from discreet.regression.estimators import PrivateLogisticRegression
    from discreet.regression.preprocessing import BoundedScaler, RowClipper
    from discreet.regression.release import LogisticRelease

__all__ = [
    "BoundedScaler",
    "LogisticRelease",
    "OPSLogisticRegression",
    "OutputPerturbationLogisticRegression",
    "PrivateLogisticRegression",
    "ReferenceLogisticPosterior",
    "RowClipper",
]

_HOME = {
    "baselines": (
        "OPSLogisticRegression",
        "OutputPerturbationLogisticRegression",
        "ReferenceLogisticPosterior",
    ),
    "estimators": ("PrivateLogisticRegression",),
    "preprocessing": ("BoundedScaler", "RowClipper"),
    "release": ("LogisticRelease",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'discreet.regression' has no attribute {name!r}")
    try:
        value = getattr(import_module(f"discreet.regression.{_MODULE_OF[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "sklearn":
            raise
        raise missing_extra(f"scikit-learn, of which {name} is an estimator,", "glm") from None
    globals()[name] = value
    return value
