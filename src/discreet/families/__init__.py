"""Conjugate models: prior, update, posterior, and how much one record can move it."""

from discreet.families.base import Family
from discreet.families.categorical import BetaFamily, DirichletFamily
from discreet.families.dirichlet import Beta, Dirichlet, dirichlet
from discreet.families.gamma import Exponential, Gamma, Poisson
from discreet.families.normal import GaussianMean, GaussianVector, Normal

FAMILIES = Family.families

__all__ = [
    "FAMILIES",
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
    "dirichlet",
]
