"""discreet: differentially private Bayesian inference with exact, audited guarantees.

>>> import discreet
>>> r = discreet.release(["no"] * 70 + ["yes"] * 30, levels=("no", "yes"), epsilon=1.0, prior=1.0)
>>> r.noise_aware().interval(0.95)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from discreet._version import __version__ as __version__

if TYPE_CHECKING:
    from discreet import plots
    from discreet.answers.conditional import ConditionalRelease
    from discreet.answers.network import NetworkRelease
    from discreet.answers.release import Release
    from discreet.answers.selected import Discovered, SparseRelease
    from discreet.declarations import Domain, Relation
    from discreet.distributions.beta_dirichlet import Beta, Dirichlet
    from discreet.distributions.gamma import Gamma
    from discreet.distributions.normal import Normal
    from discreet.errors import (
        BudgetExceededError,
        ContributionError,
        CorruptLedgerError,
        CorruptReleaseError,
        DataError,
        DiscreetError,
        EngineFailure,
        FileError,
        GuaranteeMismatchError,
        InvalidInput,
        LedgerError,
        LedgerRefusal,
        NoiseWarning,
        NotPrivateError,
        PrivacyWarning,
        RequestConflictError,
        TooLargeError,
        UnknownDatasetError,
    )
    from discreet.inference.published import Published, noisy_counts
    from discreet.ledger import Ledger, Receipt
    from discreet.mechanisms import Mechanism, mechanism
    from discreet.mechanisms.hellinger.sensitivity import (
        global_sensitivity,
        local_sensitivity,
        smooth_sensitivity,
    )
    from discreet.numerics.hellinger import hellinger
    from discreet.planning.audit import Audit, audit, audit_sampler
    from discreet.planning.plan import plan
    from discreet.posterior_sampling.families.categorical import BetaFamily, DirichletFamily
    from discreet.posterior_sampling.families.means import GaussianMean, GaussianVector
    from discreet.posterior_sampling.families.rates import Exponential, Poisson
    from discreet.posterior_sampling.family import Family
    from discreet.posterior_sampling.public import PublicPlan, plan_public
    from discreet.posterior_sampling.sample import Sample
    from discreet.posterior_sampling.sampler import PosteriorSampler, posterior_sampler
    from discreet.privacy.composition import Odometer, compose, parallel
    from discreet.privacy.guarantee import Guarantee
    from discreet.questions.asking import acknowledge_large_delta
    from discreet.questions.verbs import (
        mean,
        posterior_sample,
        regress,
        release,
        release_conditional,
        release_logistic,
        release_network,
        release_table,
        statistical_query,
    )
    from discreet.regression import (  # noqa: F401
        BoundedScaler,
        LogisticRelease,
        PrivateLinearRegression,
        PrivateLogisticRegression,
        PrivatePoissonRegression,
    )
    from discreet.regression.means import Mean, Means
    from discreet.regression.newton.fit import Fit
    from discreet.reporting.report import report
    from discreet.study.study import Study, run_study


_HOME = {
    "answers.release": ("Release",),
    "declarations": ("Domain", "Relation"),
    "distributions.beta_dirichlet": ("Beta", "Dirichlet"),
    "distributions.gamma": ("Gamma",),
    "distributions.normal": ("Normal",),
    "errors": (
        "BudgetExceededError",
        "CorruptLedgerError",
        "CorruptReleaseError",
        "DataError",
        "DiscreetError",
        "EngineFailure",
        "FileError",
        "GuaranteeMismatchError",
        "InvalidInput",
        "LedgerError",
        "LedgerRefusal",
        "NoiseWarning",
        "ContributionError",
        "NotPrivateError",
        "PrivacyWarning",
        "RequestConflictError",
        "TooLargeError",
        "UnknownDatasetError",
    ),
    "inference.published": ("Published", "noisy_counts"),
    "ledger": ("Ledger", "Receipt"),
    "mechanisms": ("Mechanism", "mechanism"),
    "mechanisms.hellinger.sensitivity": ("global_sensitivity", "local_sensitivity", "smooth_sensitivity"),
    "numerics.hellinger": ("hellinger",),
    "planning.audit": ("Audit", "audit", "audit_sampler"),
    "planning.plan": ("plan",),
    "posterior_sampling.families.categorical": ("BetaFamily", "DirichletFamily"),
    "posterior_sampling.families.means": ("GaussianMean", "GaussianVector"),
    "posterior_sampling.families.rates": ("Exponential", "Poisson"),
    "posterior_sampling.family": ("Family",),
    "posterior_sampling.public": ("PublicPlan", "plan_public"),
    "posterior_sampling.sample": ("Sample",),
    "posterior_sampling.sampler": ("PosteriorSampler", "posterior_sampler"),
    "privacy.composition": ("Odometer", "compose", "parallel"),
    "privacy.guarantee": ("Guarantee",),
    "questions.asking": ("acknowledge_large_delta",),
    "answers.conditional": ("ConditionalRelease",),
    "answers.selected": ("Discovered", "SparseRelease"),
    "answers.network": ("NetworkRelease",),
    "regression.newton.fit": ("Fit",),
    "regression.means": ("Mean", "Means"),
    "questions.verbs": (
        "mean",
        "posterior_sample",
        "regress",
        "release",
        "release_conditional",
        "release_logistic",
        "release_network",
        "release_table",
        "statistical_query",
    ),
    "reporting.report": ("report",),
    "study.study": ("Study", "run_study"),
}
_GLM = (
    "BoundedScaler",
    "LogisticRelease",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
)
"""Estimators that need scikit-learn, an extra: found as attributes, but not loaded by ``import *``."""
_MODULE_OF = {name: module for module, names in (*_HOME.items(), ("regression", _GLM)) for name in names}

__all__ = [
    "Audit",
    "Beta",
    "BetaFamily",
    "BudgetExceededError",
    "ConditionalRelease",
    "ContributionError",
    "CorruptLedgerError",
    "CorruptReleaseError",
    "DataError",
    "Dirichlet",
    "DirichletFamily",
    "Discovered",
    "DiscreetError",
    "Domain",
    "EngineFailure",
    "Exponential",
    "Family",
    "FileError",
    "Fit",
    "Gamma",
    "GaussianMean",
    "GaussianVector",
    "Guarantee",
    "GuaranteeMismatchError",
    "InvalidInput",
    "Ledger",
    "LedgerError",
    "LedgerRefusal",
    "Mean",
    "Means",
    "Mechanism",
    "NetworkRelease",
    "NoiseWarning",
    "Normal",
    "NotPrivateError",
    "Odometer",
    "Poisson",
    "PosteriorSampler",
    "PrivacyWarning",
    "PublicPlan",
    "Published",
    "Receipt",
    "Relation",
    "Release",
    "RequestConflictError",
    "Sample",
    "SparseRelease",
    "Study",
    "TooLargeError",
    "UnknownDatasetError",
    "acknowledge_large_delta",
    "audit",
    "audit_sampler",
    "compose",
    "global_sensitivity",
    "hellinger",
    "local_sensitivity",
    "mean",
    "mechanism",
    "noisy_counts",
    "parallel",
    "plan",
    "plan_public",
    "plots",
    "posterior_sample",
    "posterior_sampler",
    "regress",
    "release",
    "release_conditional",
    "release_logistic",
    "release_network",
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
