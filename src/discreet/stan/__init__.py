"""Stan code of noisy counts: a ``functions`` block, the data, and a brms family, as text.

    program = discreet.stan.observe(release.likelihood())
    program.functions, program.data, program.statement

The functions sum the true counts out: a cell over a window around its largest term, ``noisy_poisson`` and
``noisy_binomial``; a public total by adding one cell after the other, ``noisy_multinomial``, which takes time
in proportion to cells × total × window and is meant for totals up to some thousands.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import InvalidInput
from discreet.inference.likelihoods.kinds import Likelihood, NoisyCells
from discreet.inference.likelihoods.noises import Noise
from discreet.inference.published import as_noise

__all__ = ["Program", "brms_family", "functions", "observe"]

_TAIL = 40

_CURVED = f"9 * sqrt(fmax(centre, mean)) + {_TAIL}"  # the law of x has fallen by 40 nats
_LAWS = {
    "discrete-laplace": (
        "log1m_exp(-1 / scale) - log1p_exp(-1 / scale) - abs(z - x) / scale",
        _CURVED,
    ),
    "lattice": ("-abs(z - x) / scale", _CURVED),
    "laplace": ("double_exponential_lpdf(z | x, scale)", _CURVED),
    "gaussian": ("normal_lpdf(z | x, scale)", f"abs(z - mean) / 2 + fmin(9 * scale, {_CURVED})"),
}

_FUNCTIONS = """\
// log P(z | x): {name} noise of a count x.
real noise_lp(real z, real x, real scale) {{
  return {law};
}}

// The whole numbers around the largest term: z pulled to where the law of x is, and as far as terms matter.
array[] int noisy_window(real z, real mean, real scale, int upper) {{
  real inner = {pulled};
  real centre = fmin(fmax(inner, 0), upper);
  real reach = {reach} + 2;
  int low = to_int(floor(fmax(centre - reach, 0)));
  int high = to_int(ceil(fmin(centre + reach, upper)));
  return {{low, high}};
}}

real noisy_poisson_lpdf(real z, real rate, real scale) {{
  array[2] int ends = noisy_window(z, rate, scale, 2000000000);
  vector[ends[2] - ends[1] + 1] terms;
  for (x in ends[1]:ends[2])
    terms[x - ends[1] + 1] = poisson_lpmf(x | rate) + noise_lp(z, x, scale);
  return log_sum_exp(terms);
}}

real noisy_binomial_lpdf(real z, int total, real prob, real scale) {{
  array[2] int ends = noisy_window(z, total * prob, scale, total);
  vector[ends[2] - ends[1] + 1] terms;
  for (x in ends[1]:ends[2])
    terms[x - ends[1] + 1] = binomial_lpmf(x | total, prob) + noise_lp(z, x, scale);
  return log_sum_exp(terms);
}}

// Up to the constant of the noise where it is tied to sum zero.
real noisy_multinomial_lpdf(vector z, int total, vector probs, real scale) {{
  vector[total + 1] known = rep_vector(negative_infinity(), total + 1);
  known[1] = 0;
  for (i in 1:num_elements(z)) {{
    array[2] int ends = noisy_window(z[i], total * probs[i], scale, total);
    vector[total + 1] next = rep_vector(negative_infinity(), total + 1);
    for (s in ends[1]:total) {{
      int width = min(ends[2], s) - ends[1] + 1;
      vector[width] terms;
      for (j in 1:width) {{
        int x = ends[1] + j - 1;
        terms[j] = known[s - x + 1] + x * log(probs[i]) - lgamma(x + 1) + noise_lp(z[i], x, scale);
      }}
      next[s + 1] = log_sum_exp(terms);
    }}
    known = next;
  }}
  return lgamma(total + 1) + known[total + 1];
}}
"""


def functions(noise: Any) -> str:
    """The contents of a ``functions`` block for one kind of noise."""
    law = as_noise(noise)
    if law.name not in _LAWS:
        raise InvalidInput(
            f"{law.name} noise has no Stan code, but {', '.join(_LAWS)} have; discreet.pymc takes every noise"
        )
    formula, reach = _LAWS[law.name]
    pulled = "fmin(fmax(z, mean * exp(-1 / scale)), mean * exp(1 / scale))"
    if law.name == "gaussian":
        pulled = "(z + mean) / 2"
    return _FUNCTIONS.format(name=law.name, law=formula, pulled=pulled, reach=reach)


@dataclass(frozen=True)
class Program:
    """What goes where: text for the blocks of a Stan program, and the data."""

    functions: str
    declarations: str
    statement: str
    data: dict[str, Any]

    def __str__(self) -> str:
        blocks = (("functions", self.functions), ("data", self.declarations), ("model", self.statement))
        return "\n".join(f"{name} {{\n{text.rstrip()}\n}}" for name, text in blocks)


def observe(likelihood: Likelihood) -> Program:
    """The program's part that says what was published, about ``shares`` or ``rates`` that the model has."""
    if not isinstance(likelihood, NoisyCells) or likelihood.model.name not in ("multinomial", "Poisson"):
        raise InvalidInput("only noisy counts of shares or rates have Stan code; use release.to_pymc()")
    noise: Noise = likelihood.noise
    total, k = likelihood.model.total, likelihood.k
    text = functions(noise)
    data: dict[str, Any] = {"k": k, "z": likelihood.values.tolist()}
    if total is not None:
        if np.ptp(noise.scale) > 0:
            raise InvalidInput(
                "noise of one scale a cell with a public total has no Stan code; use to_pymc()"
            )
        data |= {"total": total, "scale": float(np.ravel(noise.scale)[0])}
        declared = "int k; int total; vector[k] z; real scale;"
        return Program(text, declared, "z ~ noisy_multinomial(total, shares, scale);", data)
    data["scale"] = noise.scales(k).tolist()
    declared = "int k; vector[k] z; vector[k] scale;"
    return Program(text, declared, "for (i in 1:k) z[i] ~ noisy_poisson(rates[i], scale[i]);", data)


def brms_family(noise: Any) -> str:
    """R code of a custom family for brms: Poisson counts with noise, ``scale`` as ``vreal``."""
    return f"""\
noisy_poisson <- brms::custom_family(
  "noisy_poisson", dpars = "mu", links = "log", type = "real", vars = "vreal1[n]", loop = TRUE
)
noisy_poisson_code <- brms::stanvar(scode = "
{functions(noise)}", block = "functions")
# brm(z | vreal(scale) ~ ..., data = d, family = noisy_poisson, stanvars = noisy_poisson_code)
"""
