"""A private release as evidence about any model of the true counts."""

from discreet.likelihoods.likelihood import Likelihood, Listed, NoisyCells, RandomisedResponse, likelihood
from discreet.likelihoods.models import (
    Binomial,
    DirichletMultinomial,
    Model,
    Multinomial,
    NegativeBinomial,
    Poisson,
)
from discreet.likelihoods.noises import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    FloorLaplace,
    Gaussian,
    Laplace,
    LatticeNoise,
    Noise,
    RoundedGaussian,
    RoundedLaplace,
)
from discreet.likelihoods.published import Published, noisy_counts

__all__ = [
    "Binomial",
    "Clamped",
    "DirichletMultinomial",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FloorLaplace",
    "Gaussian",
    "Laplace",
    "LatticeNoise",
    "Likelihood",
    "Listed",
    "Model",
    "Multinomial",
    "NegativeBinomial",
    "Noise",
    "NoisyCells",
    "Poisson",
    "Published",
    "RandomisedResponse",
    "RoundedGaussian",
    "RoundedLaplace",
    "likelihood",
    "noisy_counts",
]
