"""A private release as evidence about any model of the true counts."""

from discreet.inference.likelihoods.kinds import (
    Likelihood,
    Listed,
    NoisyCells,
    RandomisedResponse,
    likelihood,
)
from discreet.inference.likelihoods.models import (
    Binomial,
    DirichletMultinomial,
    Model,
    Multinomial,
    NegativeBinomial,
    PoissonCells,
)
from discreet.numerics import noises
from discreet.numerics.noises import (
    Clamped,
    DiscreteGaussian,
    DiscreteLaplace,
    FloorLaplace,
    GaussianNoise,
    Laplace,
    LatticeNoise,
    Noise,
    RoundedGaussian,
    RoundedLaplace,
)

__all__ = [
    "Binomial",
    "Clamped",
    "DirichletMultinomial",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "FloorLaplace",
    "GaussianNoise",
    "Laplace",
    "LatticeNoise",
    "Likelihood",
    "Listed",
    "Model",
    "Multinomial",
    "NegativeBinomial",
    "Noise",
    "NoisyCells",
    "PoissonCells",
    "RandomisedResponse",
    "RoundedGaussian",
    "RoundedLaplace",
    "likelihood",
    "noises",
]
