"""Stan code for noisy counts: a ``functions`` block, the data, and a brms family, as text.

    program = discreet.stan.observe(release.likelihood())
    program.functions, program.data, program.statement

The functions sum over the true counts. ``noisy_poisson`` and ``noisy_binomial`` sum one cell over a window
around its largest term. ``noisy_multinomial`` adds one cell after the other to a public total, in time
proportional to cells × total × window, and is meant for totals up to a few thousand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet._inference._likelihoods import bridging
from discreet._inference._likelihoods.kinds import NoisyCells
from discreet._inference.published import as_noise
from discreet._numerics.noises import Noise
from discreet.errors import InvalidInputError

__all__ = ["Program", "brms_family", "functions", "observe"]

_COUNT_REACH = "9 * sqrt(fmax(centre, mean)) + 40"  # there the distribution of x has fallen by 40 nats
_STAN_LOG_DENSITIES = {
    "discrete-laplace": "log1m_exp(-1 / scale) - log1p_exp(-1 / scale) - fmax(z - x, x - z) / scale",
    "lattice": "-fmax(z - x, x - z) / scale",
    "laplace": "double_exponential_lpdf(z | x, scale)",
    "gaussian": "normal_lpdf(z | x, scale)",
}

_R_NOISE = {  # the same noises, drawn by R
    "discrete-laplace": "rgeom(length(mu), -expm1(-1 / scale)) - rgeom(length(mu), -expm1(-1 / scale))",
    "laplace": "scale * (rexp(length(mu)) - rexp(length(mu)))",
    "gaussian": "rnorm(length(mu), 0, scale)",
}

# No arrays and no conversions from real to int: that way every Stan from 2.21 (rstan) to today's takes it.
_FUNCTIONS = """\
// log P(z | x): {name} noise of a count x.
real noisy_term(real z, real x, real scale) {{
  return {distribution};
}}

// The largest whole number up to a value, 0 for negative values.
int noisy_floor(real value) {{
  int low = 0;
  int high = 1;
  while (high <= value && high < 1000000000)
    high = 2 * high;
  while (high - low > 1) {{
    int half = 1;
    int middle = 0;
    while (low + 2 * half < high)
      half = 2 * half;
    middle = low + half;
    if (middle <= value)
      low = middle;
    else
      high = middle;
  }}
  return low;
}}

// The middle and the ends of the whole numbers whose terms matter: z, moved towards the mean of x.
real noisy_centre(real z, real mean, real scale) {{
  return fmax({pulled}, 0);
}}
int noisy_low(real z, real mean, real scale) {{
  real centre = noisy_centre(z, mean, scale);
  return noisy_floor(centre - ({reach}) - 2);
}}
int noisy_high(real z, real mean, real scale) {{
  real centre = noisy_centre(z, mean, scale);
  return noisy_floor(centre + ({reach}) + 3);
}}

real noisy_poisson_lpdf(real z, real rate, real scale) {{
  int low = noisy_low(z, rate, scale);
  int high = noisy_high(z, rate, scale);
  vector[high - low + 1] terms;
  for (x in low:high)
    terms[x - low + 1] = poisson_lpmf(x | rate) + noisy_term(z, x, scale);
  return log_sum_exp(terms);
}}

real noisy_binomial_lpdf(real z, int total, real prob, real scale) {{
  int low = min(noisy_low(z, total * prob, scale), total);
  int high = min(noisy_high(z, total * prob, scale), total);
  vector[high - low + 1] terms;
  for (x in low:high)
    terms[x - low + 1] = binomial_lpmf(x | total, prob) + noisy_term(z, x, scale);
  return log_sum_exp(terms);
}}

// For noise that sums to zero, the log-density without its normalising constant.
real noisy_multinomial_lpdf(vector z, int total, vector probs, real scale) {{
  vector[total + 1] known = rep_vector(negative_infinity(), total + 1);
  known[1] = 0;
  for (i in 1:num_elements(z)) {{
    int low = min(noisy_low(z[i], total * probs[i], scale), total);
    int high = min(noisy_high(z[i], total * probs[i], scale), total);
    vector[high - low + 1] own;
    vector[total + 1] next = rep_vector(negative_infinity(), total + 1);
    for (x in low:high)
      own[x - low + 1] = x * log(probs[i]) - lgamma(x + 1) + noisy_term(z[i], x, scale);
    for (s in low:total) {{
      int width = min(high, s) - low + 1;
      vector[width] terms;
      for (j in 1:width)
        terms[j] = known[s - low - j + 2] + own[j];
      if (max(terms) > negative_infinity())
        next[s + 1] = log_sum_exp(terms);
    }}
    known = next;
  }}
  return lgamma(total + 1) + known[total + 1];
}}
"""


def functions(noise: Any) -> str:
    """Return the contents of a Stan ``functions`` block for one kind of noise.

    Parameters
    ----------
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.

    Returns
    -------
    str

    Raises
    ------
    InvalidInputError
        If there is no Stan code for this noise.

    Examples
    --------
    >>> print(functions(("geometric", 0.5)).splitlines()[0])
    // log P(z | x): discrete-laplace noise of a count x.
    """
    distribution = as_noise(noise)
    if distribution.name not in _STAN_LOG_DENSITIES:
        raise InvalidInputError(
            f"there is no Stan code for {distribution.name} noise: it must be one of "
            f"{', '.join(_STAN_LOG_DENSITIES)}; discreet.pymc takes every noise"
        )
    pulled, reach = "fmin(fmax(z, mean * exp(-1 / scale)), mean * exp(1 / scale))", _COUNT_REACH
    if distribution.name == "gaussian":
        pulled, reach = "(z + mean) / 2", f"fmax(z - mean, mean - z) / 2 + fmin(9 * scale, {_COUNT_REACH})"
    return _FUNCTIONS.format(
        name=distribution.name,
        distribution=_STAN_LOG_DENSITIES[distribution.name],
        pulled=pulled,
        reach=reach,
    )


@dataclass(frozen=True)
class Program:
    """Text for the blocks of a Stan program, and its data.

    Attributes
    ----------
    functions : str
        The ``functions`` block.
    declarations : str
        The ``data`` block.
    statement : str
        A statement of the ``model`` block.
    data : dict
        The values of the data.

    Examples
    --------
    >>> import discreet
    >>> smokers = discreet.proportions(["no"] * 70 + ["yes"] * 30, schema=("no", "yes"), epsilon=1)
    >>> sorted(observe(smokers.likelihood()).data)
    ['k', 'scale', 'z']
    """

    functions: str
    declarations: str
    statement: str
    data: dict[str, Any]

    def __str__(self) -> str:
        blocks = (("functions", self.functions), ("data", self.declarations), ("model", self.statement))
        return "\n".join(f"{name} {{\n{text.rstrip()}\n}}" for name, text in blocks)


def observe(likelihood: Any) -> Program:
    """Return the part of a Stan program that adds the likelihood of the published values to a model.

    Parameters
    ----------
    likelihood : Likelihood
        ``release.likelihood()``. The model must have ``shares`` if the total is public, otherwise ``rates``.

    Returns
    -------
    Program

    Raises
    ------
    InvalidInputError
        If there is no Stan code for this likelihood.

    Examples
    --------
    >>> import discreet
    >>> smokers = discreet.proportions(["no"] * 70 + ["yes"] * 30, schema=("no", "yes"), epsilon=1)
    >>> observe(smokers.likelihood()).statement
    'for (i in 1:k) target += noisy_poisson_lpdf(z[i] | rates[i], scale[i]);'
    """
    if not (isinstance(likelihood, NoisyCells) and bridging.plain(likelihood)):
        raise InvalidInputError("only noisy counts of shares or rates have Stan code; use release.to_pymc()")
    noise: Noise = likelihood.noise
    total, k = likelihood.model.total, likelihood.k
    text = functions(noise)
    data: dict[str, Any] = {"k": k, "z": likelihood.values.tolist()}
    if total is not None:
        if np.ptp(noise.scale) > 0:
            raise InvalidInputError(
                "noise whose scale differs between cells has no Stan code where the total is public; use "
                "to_pymc()"
            )
        constant = -noise.log_normaliser(k)
        data |= {"total": total, "scale": float(np.ravel(noise.scale)[0]), "constant": constant}
        declared = "int k; int total; vector[k] z; real scale; real constant;"
        statement = "target += noisy_multinomial_lpdf(z | total, shares, scale) + constant;"
        return Program(text, declared, statement, data)
    data["scale"] = noise.scales(k).tolist()
    declared = "int k; vector[k] z; vector[k] scale;"
    statement = "for (i in 1:k) target += noisy_poisson_lpdf(z[i] | rates[i], scale[i]);"
    return Program(text, declared, statement, data)


def brms_family(noise: Any) -> str:
    """Return R code of a custom brms family: Poisson counts with noise, whose scale is a ``vreal``.

    Parameters
    ----------
    noise : Noise or tuple
        As in :func:`discreet.noisy_counts`, such as ``("geometric", epsilon)``.

    Returns
    -------
    str

    Raises
    ------
    InvalidInputError
        If there is no Stan code for this noise.

    Examples
    --------
    >>> brms_family(("geometric", 0.5)).splitlines()[0]
    'noisy_poisson <- brms::custom_family('
    """
    distribution = bridging.independent(as_noise(noise))
    code = functions(distribution)
    return f"""\
noisy_poisson <- brms::custom_family(
  "noisy_poisson", dpars = "mu", links = "log", type = "real", vars = "vreal1[n]", loop = TRUE
)
noisy_poisson_code <- brms::stanvar(scode = "
{code}", block = "functions")
posterior_epred_noisy_poisson <- function(prep) brms::get_dpar(prep, "mu")
posterior_predict_noisy_poisson <- function(i, prep, ...) {{
  mu <- brms::get_dpar(prep, "mu", i = i)
  scale <- prep$data$vreal1[i]
  rpois(length(mu), mu) + {_R_NOISE[distribution.name]}
}}
# brm(z | vreal(scale) ~ ..., data = d, family = noisy_poisson, stanvars = noisy_poisson_code)
"""
