"""A real Stan, through R: the functions as rstan compiles them, and a fit by brms.

Compiling takes most of a minute of processor time, so these tests are long. Without the packages of R
(Debian: r-cran-rstan, r-cran-brms) they are skipped and say so.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from discreet import stan
from discreet._inference._likelihoods import Binomial, Multinomial, PoissonCells, likelihood, noises
from evidence.components import need
from test_bridges import blocks_of, grid_of_line, noisy_line

pytestmark = [pytest.mark.slow, pytest.mark.long]


def run_in_r(package: str, script: str, folder: Path) -> list[float]:
    """The numbers in the last line that a script prints, run in a folder with a package of R."""
    probe = ["Rscript", "-e", f"library({package})"]
    if not shutil.which("Rscript") or subprocess.run(probe, check=False, capture_output=True).returncode:
        need(f"{package} is not installed (Debian: r-cran-{package})")
    boost = 'if (rstan::rstan_options("boost_lib") == "") rstan::rstan_options(boost_lib = "/usr/include")'
    (folder / "run.R").write_text(f"suppressMessages(library({package}))\n{boost}\n{script}", "utf-8")
    done = subprocess.run(["Rscript", "run.R"], cwd=folder, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-2000:]
    return [float(part) for part in done.stdout.splitlines()[-1].split()]


MODEL = """\
functions {
%s}
data { int k; vector[k] z; vector[k] scale; int most; int total; }
parameters { vector[k] log_rates; vector[k] logits; vector[k] scores; }
model {
  for (i in 1:k) target += noisy_poisson_lpdf(z[i] | exp(log_rates[i]), scale[i]);
  for (i in 1:k) target += noisy_binomial_lpdf(z[i] | most, inv_logit(logits[i]), scale[i]);
  target += noisy_multinomial_lpdf(z | total, softmax(scores), scale[1]);
}
"""
SLOPES = """\
made <- stan_model("model.stan")
fit <- sampling(made, data = list(k = 4, z = c(12, 0, -4, 33), scale = rep(2, 4), most = 40, total = 45),
                chains = 0)
at <- c(log(c(10, 0.3, 2, 40)), c(-1, -3, 0.5, 2), log(c(0.3, 0.05, 0.05, 0.6)))
cat(sprintf("%.15g", c(log_prob(fit, at), grad_log_prob(fit, at))), "\\n")
"""


def test_a_real_stan_finds_the_same(tmp_path: Path) -> None:
    """log_prob and gradient are the engine's to 1e-8."""
    (tmp_path / "model.stan").write_text(MODEL % stan.functions(("geometric", 0.5)))
    value, *slope = run_in_r("rstan", SLOPES, tmp_path)
    z, noise = [12, 0, -4, 33], noises.DiscreteLaplace(2.0)
    parts = [
        (likelihood(z, noise, PoissonCells()), np.array([10, 0.3, 2, 40])),
        (likelihood(z, noise, Binomial(40)), 1 / (1 + np.exp(-np.array([-1, -3, 0.5, 2])))),
        (likelihood(z, noise, Multinomial(45)), np.array([0.3, 0.05, 0.05, 0.6])),
    ]
    assert value == pytest.approx(sum(made.log_prob(at) for made, at in parts), rel=1e-8)
    assert slope == pytest.approx(np.concatenate([made.score(at) for made, at in parts]), rel=1e-8)


FOUND = """
found <- as.data.frame(fit)
cat(mean(found$b_Intercept), mean(found$b_x), sd(found$b_Intercept), sd(found$b_x),
    mean(simulated), mean(posterior_epred(fit)), var(as.vector(simulated - posterior_epred(fit))),
    +all(simulated == round(simulated)), max(brms::rhat(fit)), "\\n")
"""


def test_a_fit_by_brms_is_the_posterior(tmp_path: Path) -> None:
    """The lines of docs/how-to/likelihoods.md: 4 chains of 1,000 draws, mean and deviation as on a grid."""
    x, z = noisy_line()
    rows = "".join(f"{a},{int(b)},4\n" for a, b in zip(x, z, strict=True))
    (tmp_path / "published.csv").write_text("x,z,scale\n" + rows)
    (tmp_path / "family.R").write_text(stan.brms_family(("geometric", 0.25)))
    (block,) = blocks_of("how-to/likelihoods.md", "library(brms)")
    block = block.replace("prior = weak)", "prior = weak, seed = 1, refresh = 0)")
    found = run_in_r("brms", block + FOUND, tmp_path)
    means, deviations = grid_of_line(x, z)
    assert np.all(np.abs(found[:2] - means) <= 0.2 * deviations)
    assert found[2:4] == pytest.approx(deviations, rel=0.2)
    simulated, rates, spread, whole, chains = found[4:]
    assert simulated == pytest.approx(rates, rel=0.02)
    assert spread == pytest.approx(rates + 32, rel=0.1)  # Poisson and discrete Laplace of scale 4: 31.8
    assert whole
    assert chains < 1.02
