"""Conjugate families: a prior, its update from sufficient statistics, and the posterior."""

from discreet.families.dirichlet import Beta, Dirichlet, dirichlet

__all__ = ["Beta", "Dirichlet", "dirichlet"]
