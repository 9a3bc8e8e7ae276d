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
    from discreet.auditing import Audit, audit, audit_sampler
    from discreet.core import (
        CorruptReleaseError,
        DataError,
        DiscreetError,
        Domain,
        FileError,
        InvalidInput,
        NoiseWarning,
        NotPrivateError,
        Relation,
        TooLargeError,
    )
    from discreet.distance import hellinger
    from discreet.families import Beta, Dirichlet
    from discreet.guarantees import Guarantee
    from discreet.mechanisms import Mechanism, mechanism
    from discreet.mechanisms.optimal import optimal_error, optimal_mechanism
    from discreet.planning import Plan, plan
    from discreet.releases import Release, release
    from discreet.sensitivity import global_sensitivity, local_sensitivity, smooth_sensitivity

__version__ = "0.1.0"

_HOME = {
    "auditing": ("Audit", "audit", "audit_sampler"),
    "core": (
        "CorruptReleaseError",
        "DataError",
        "DiscreetError",
        "Domain",
        "FileError",
        "InvalidInput",
        "NoiseWarning",
        "NotPrivateError",
        "Relation",
        "TooLargeError",
    ),
    "families": ("Beta", "Dirichlet"),
    "distance": ("hellinger",),
    "guarantees": ("Guarantee",),
    "mechanisms": ("Mechanism", "mechanism"),
    "mechanisms.optimal": ("optimal_error", "optimal_mechanism"),
    "planning": ("Plan", "plan"),
    "releases": ("Release", "release"),
    "sensitivity": ("global_sensitivity", "local_sensitivity", "smooth_sensitivity"),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Audit",
    "Beta",
    "CorruptReleaseError",
    "DataError",
    "Dirichlet",
    "DiscreetError",
    "Domain",
    "FileError",
    "Guarantee",
    "InvalidInput",
    "Mechanism",
    "NoiseWarning",
    "NotPrivateError",
    "Plan",
    "Relation",
    "Release",
    "TooLargeError",
    "audit",
    "audit_sampler",
    "global_sensitivity",
    "hellinger",
    "local_sensitivity",
    "mechanism",
    "optimal_error",
    "optimal_mechanism",
    "plan",
    "plots",
    "release",
    "smooth_sensitivity",
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
    return sorted(__all__)
