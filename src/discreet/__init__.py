"""discreet: differentially private Bayesian inference with exact, audited guarantees.

>>> import discreet
>>> r = discreet.release(["no"] * 70 + ["yes"] * 30, levels=("no", "yes"), epsilon=1.0, prior=1.0)
>>> r.posterior.interval(0.95)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet import plots
    from discreet.accounting import Odometer, compose, parallel
    from discreet.auditing import Audit, audit, audit_sampler
    from discreet.core import (
        BudgetExceededError,
        CorruptLedgerError,
        CorruptReleaseError,
        DataError,
        DiscreetError,
        Domain,
        FileError,
        GuaranteeMismatchError,
        InvalidInput,
        LedgerError,
        LedgerRefusal,
        NoiseWarning,
        NotPrivateError,
        PrivacyWarning,
        Relation,
        RequestConflictError,
        TooLargeError,
        UnknownDatasetError,
    )
    from discreet.distance import hellinger
    from discreet.families import (
        Beta,
        BetaFamily,
        Dirichlet,
        DirichletFamily,
        Exponential,
        Family,
        Gamma,
        GaussianMean,
        GaussianVector,
        Normal,
        Poisson,
    )
    from discreet.glm import (  # noqa: F401
        BoundedScaler,
        LogisticRelease,
        OPSLogisticRegression,
        OutputPerturbationLogisticRegression,
        PrivateLogisticRegression,
        ReferenceLogisticPosterior,
        RowClipper,
    )
    from discreet.guarantees import Guarantee
    from discreet.ledger import Ledger, Receipt
    from discreet.mechanisms import Mechanism, mechanism
    from discreet.mechanisms.optimal import optimal_error, optimal_mechanism
    from discreet.planning import Plan, plan
    from discreet.proportions import ConditionalRelease, release, release_conditional, release_table
    from discreet.queries import posterior_sample, statistical_query
    from discreet.regression import release_logistic
    from discreet.releases import Release
    from discreet.reports import report
    from discreet.samples import Sample
    from discreet.sampling import PosteriorSampler, posterior_sampler
    from discreet.sensitivity import global_sensitivity, local_sensitivity, smooth_sensitivity
    from discreet.study import Study
    from discreet.studyfile import run_study

__version__ = "0.1.0"

_HOME = {
    "accounting": ("Odometer", "compose", "parallel"),
    "auditing": ("Audit", "audit", "audit_sampler"),
    "core": (
        "BudgetExceededError",
        "CorruptLedgerError",
        "CorruptReleaseError",
        "DataError",
        "DiscreetError",
        "Domain",
        "FileError",
        "GuaranteeMismatchError",
        "InvalidInput",
        "LedgerError",
        "LedgerRefusal",
        "NoiseWarning",
        "NotPrivateError",
        "PrivacyWarning",
        "Relation",
        "RequestConflictError",
        "TooLargeError",
        "UnknownDatasetError",
    ),
    "families": (
        "Beta",
        "BetaFamily",
        "Dirichlet",
        "DirichletFamily",
        "Exponential",
        "Family",
        "Gamma",
        "GaussianMean",
        "GaussianVector",
        "Normal",
        "Poisson",
    ),
    "distance": ("hellinger",),
    "ledger": ("Ledger", "Receipt"),
    "guarantees": ("Guarantee",),
    "mechanisms": ("Mechanism", "mechanism"),
    "mechanisms.optimal": ("optimal_error", "optimal_mechanism"),
    "planning": ("Plan", "plan"),
    "proportions": ("ConditionalRelease", "release", "release_conditional", "release_table"),
    "releases": ("Release",),
    "regression": ("release_logistic",),
    "queries": ("posterior_sample", "statistical_query"),
    "samples": ("Sample",),
    "sampling": ("PosteriorSampler", "posterior_sampler"),
    "reports": ("report",),
    "sensitivity": ("global_sensitivity", "local_sensitivity", "smooth_sensitivity"),
    "study": ("Study",),
    "studyfile": ("run_study",),
}
_GLM = (
    "BoundedScaler",
    "LogisticRelease",
    "OPSLogisticRegression",
    "OutputPerturbationLogisticRegression",
    "PrivateLogisticRegression",
    "ReferenceLogisticPosterior",
    "RowClipper",
)
"""Estimators that need scikit-learn, an extra: found as attributes, but not loaded by ``import *``."""
_MODULE_OF = {name: module for module, names in (*_HOME.items(), ("glm", _GLM)) for name in names}

__all__ = [
    "Audit",
    "Beta",
    "BetaFamily",
    "BudgetExceededError",
    "ConditionalRelease",
    "CorruptLedgerError",
    "CorruptReleaseError",
    "DataError",
    "Dirichlet",
    "DirichletFamily",
    "DiscreetError",
    "Domain",
    "Exponential",
    "Family",
    "FileError",
    "Gamma",
    "GaussianMean",
    "GaussianVector",
    "Guarantee",
    "GuaranteeMismatchError",
    "InvalidInput",
    "Ledger",
    "LedgerError",
    "LedgerRefusal",
    "Mechanism",
    "NoiseWarning",
    "Normal",
    "NotPrivateError",
    "Odometer",
    "Plan",
    "Poisson",
    "PosteriorSampler",
    "PrivacyWarning",
    "Receipt",
    "Relation",
    "Release",
    "RequestConflictError",
    "Sample",
    "Study",
    "TooLargeError",
    "UnknownDatasetError",
    "audit",
    "audit_sampler",
    "compose",
    "global_sensitivity",
    "hellinger",
    "local_sensitivity",
    "mechanism",
    "optimal_error",
    "optimal_mechanism",
    "parallel",
    "plan",
    "plots",
    "posterior_sample",
    "posterior_sampler",
    "release",
    "release_conditional",
    "release_logistic",
    "release_table",
    "report",
    "run_study",
    "smooth_sensitivity",
    "statistical_query",
]


def __getattr__(name: str) -> Any:
    # Modules load on first use: the command line and `import discreet` stay fast.
    if name in _MODULE_OF:
        value = getattr(import_module(f"discreet.{_MODULE_OF[name]}"), name)
    elif name == "plots":
        value = import_module("discreet.plots")
    else:
        raise AttributeError(f"module 'discreet' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted((*__all__, *_GLM))
