"""A private release as evidence about any model of the true counts."""

from discreet.inference.likelihoods.kinds import Likelihood as Likelihood
from discreet.inference.likelihoods.kinds import Listed as Listed
from discreet.inference.likelihoods.kinds import NoisyCells as NoisyCells
from discreet.inference.likelihoods.kinds import RandomisedResponse as RandomisedResponse
from discreet.inference.likelihoods.kinds import likelihood as likelihood
from discreet.inference.likelihoods.models import Binomial as Binomial
from discreet.inference.likelihoods.models import DirichletMultinomial as DirichletMultinomial
from discreet.inference.likelihoods.models import Model as Model
from discreet.inference.likelihoods.models import Multinomial as Multinomial
from discreet.inference.likelihoods.models import NegativeBinomial as NegativeBinomial
from discreet.inference.likelihoods.models import PoissonCells as PoissonCells
from discreet.numerics import noises as noises
