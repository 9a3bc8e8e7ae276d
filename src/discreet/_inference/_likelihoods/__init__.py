"""The likelihood of a private release under any model of the true counts."""

from discreet._inference._likelihoods.kinds import Likelihood as Likelihood
from discreet._inference._likelihoods.kinds import Listed as Listed
from discreet._inference._likelihoods.kinds import NoisyCells as NoisyCells
from discreet._inference._likelihoods.kinds import RandomisedResponse as RandomisedResponse
from discreet._inference._likelihoods.kinds import likelihood as likelihood
from discreet._inference._likelihoods.models import Binomial as Binomial
from discreet._inference._likelihoods.models import DirichletMultinomial as DirichletMultinomial
from discreet._inference._likelihoods.models import Model as Model
from discreet._inference._likelihoods.models import Multinomial as Multinomial
from discreet._inference._likelihoods.models import NegativeBinomial as NegativeBinomial
from discreet._inference._likelihoods.models import PoissonCells as PoissonCells
from discreet._numerics import noises as noises
