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
    from discreet import plots as plots
    from discreet.answers.conditional import ConditionalRelease as ConditionalRelease
    from discreet.answers.discovered import Discovered as Discovered
    from discreet.answers.network import NetworkRelease as NetworkRelease
    from discreet.answers.release import Release as Release
    from discreet.answers.sparse import SparseRelease as SparseRelease
    from discreet.declarations import Domain as Domain
    from discreet.declarations import Relation as Relation
    from discreet.distributions.beta_dirichlet import Beta as Beta
    from discreet.distributions.beta_dirichlet import Dirichlet as Dirichlet
    from discreet.distributions.gamma import Gamma as Gamma
    from discreet.distributions.normal import Normal as Normal
    from discreet.errors import BudgetExceededError as BudgetExceededError
    from discreet.errors import CorruptLedgerError as CorruptLedgerError
    from discreet.errors import CorruptReleaseError as CorruptReleaseError
    from discreet.errors import DataError as DataError
    from discreet.errors import DiscreetError as DiscreetError
    from discreet.errors import FileError as FileError
    from discreet.errors import GuaranteeMismatchError as GuaranteeMismatchError
    from discreet.errors import InvalidInput as InvalidInput
    from discreet.errors import LedgerError as LedgerError
    from discreet.errors import LedgerRefusal as LedgerRefusal
    from discreet.errors import NoiseWarning as NoiseWarning
    from discreet.errors import NotPrivateError as NotPrivateError
    from discreet.errors import PrivacyWarning as PrivacyWarning
    from discreet.errors import RequestConflictError as RequestConflictError
    from discreet.errors import TooLargeError as TooLargeError
    from discreet.errors import UnknownDatasetError as UnknownDatasetError
    from discreet.inference.published import Published as Published
    from discreet.inference.published import noisy_counts as noisy_counts
    from discreet.ledger import Ledger as Ledger
    from discreet.ledger import Receipt as Receipt
    from discreet.mechanisms import Mechanism as Mechanism
    from discreet.mechanisms import mechanism as mechanism
    from discreet.mechanisms.hellinger.sensitivity import global_sensitivity as global_sensitivity
    from discreet.mechanisms.hellinger.sensitivity import local_sensitivity as local_sensitivity
    from discreet.mechanisms.hellinger.sensitivity import smooth_sensitivity as smooth_sensitivity
    from discreet.mechanisms.optimal import optimal_error as optimal_error
    from discreet.mechanisms.optimal import optimal_mechanism as optimal_mechanism
    from discreet.numerics.hellinger import hellinger as hellinger
    from discreet.planning.audit import Audit as Audit
    from discreet.planning.audit import audit as audit
    from discreet.planning.audit import audit_sampler as audit_sampler
    from discreet.planning.plan import Plan as Plan
    from discreet.planning.search import plan as plan
    from discreet.posterior_sampling.families.categorical import BetaFamily as BetaFamily
    from discreet.posterior_sampling.families.categorical import DirichletFamily as DirichletFamily
    from discreet.posterior_sampling.families.means import GaussianMean as GaussianMean
    from discreet.posterior_sampling.families.means import GaussianVector as GaussianVector
    from discreet.posterior_sampling.families.rates import Exponential as Exponential
    from discreet.posterior_sampling.families.rates import Poisson as Poisson
    from discreet.posterior_sampling.family import Family as Family
    from discreet.posterior_sampling.public import PublicPlan as PublicPlan
    from discreet.posterior_sampling.public import plan_public as plan_public
    from discreet.posterior_sampling.sample import Sample as Sample
    from discreet.posterior_sampling.sampler import PosteriorSampler as PosteriorSampler
    from discreet.posterior_sampling.sampler import posterior_sampler as posterior_sampler
    from discreet.privacy.composition import Odometer as Odometer
    from discreet.privacy.composition import compose as compose
    from discreet.privacy.composition import parallel as parallel
    from discreet.privacy.guarantee import Guarantee as Guarantee
    from discreet.questions.asking import acknowledge_large_delta as acknowledge_large_delta
    from discreet.questions.fingerprints import bind_retries as bind_retries
    from discreet.questions.verbs import mean as mean
    from discreet.questions.verbs import posterior_sample as posterior_sample
    from discreet.questions.verbs import regress as regress
    from discreet.questions.verbs import release as release
    from discreet.questions.verbs import release_conditional as release_conditional
    from discreet.questions.verbs import release_logistic as release_logistic
    from discreet.questions.verbs import release_network as release_network
    from discreet.questions.verbs import release_table as release_table
    from discreet.questions.verbs import statistical_query as statistical_query
    from discreet.regression import BoundedScaler as BoundedScaler
    from discreet.regression import LogisticRelease as LogisticRelease
    from discreet.regression import PrivateLinearRegression as PrivateLinearRegression
    from discreet.regression import PrivateLogisticRegression as PrivateLogisticRegression
    from discreet.regression import PrivatePoissonRegression as PrivatePoissonRegression
    from discreet.regression.means import Mean as Mean
    from discreet.regression.means import Means as Means
    from discreet.regression.newton.fit import Fit as Fit
    from discreet.reporting.report import report as report
    from discreet.study.study import Study as Study
    from discreet.study.study_file import run_study as run_study


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
        "FileError",
        "GuaranteeMismatchError",
        "InvalidInput",
        "LedgerError",
        "LedgerRefusal",
        "NoiseWarning",
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
    "mechanisms.optimal": ("optimal_error", "optimal_mechanism"),
    "numerics.hellinger": ("hellinger",),
    "planning.audit": ("Audit", "audit", "audit_sampler"),
    "planning.plan": ("Plan",),
    "planning.search": ("plan",),
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
    "questions.fingerprints": ("bind_retries",),
    "answers.conditional": ("ConditionalRelease",),
    "answers.discovered": ("Discovered",),
    "answers.sparse": ("SparseRelease",),
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
    "study.study": ("Study",),
    "study.study_file": ("run_study",),
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

__all__ = sorted(["plots", *(name for names in _HOME.values() for name in names)])


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
