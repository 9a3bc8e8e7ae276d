"""Regression on the cells of a private table by NUTS: what it costs beside the true counts, and its coverage.

    python benchmarks/samplers.py speed
    python benchmarks/samplers.py coverage --fits 105 --processes 16

The model is one of multilevel regression and poststratification: 192 cells (4 ages × 4 schools × 12 regions),
each with an unknown size and a share that answered yes; shares follow a logistic regression with varying
effects. Published is the table of 192 × 2 counts of 4,000 records, with two-sided geometric noise of rate ε/2
(a record that changes its answer moves two counts). ``speed`` runs the same model on true counts (Poisson or
multinomial), on noisy ones (NoisyPoisson), and on lattice noise with public n (NoisyMultinomial) side by
side, after one run each that compiles: seconds of the clock and of the processor, which other work on the
machine disturbs less, and one value and gradient. The time to table the observed values is shown apart.
``coverage`` draws truths from the model and counts how often 90 % intervals of the cells' shares hold them,
with the noise modelled and with the noisy counts taken for true ones (clipped at 0). Needs
``discreet[numpyro]``.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import time
from typing import Any

import numpy as np

from discreet._numerics import noises

os.environ.setdefault("JAX_PLATFORMS", "cpu")
SHAPE = (4, 4, 12)
CELLS = math.prod(SHAPE)
RECORDS = 4000


def truth(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and shares of the cells, from the model's prior."""
    sizes = RECORDS / CELLS * np.exp(rng.normal(0, 0.5, CELLS))
    logit = rng.normal(0, 1) + sum(
        (np.abs(rng.normal(0, 0.5)) * rng.normal(0, 1, n)).reshape([n if i == j else 1 for j in range(3)])
        for i, n in enumerate(SHAPE)
    )
    return sizes, 1 / (1 + np.exp(-np.broadcast_to(logit, SHAPE).ravel()))


def model(says: Any) -> None:
    """``says`` states what was published about rates of shape (cells · 2,)."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    size = numpyro.sample("size", dist.Normal(0, 1).expand([CELLS]).to_event(1))
    total = numpyro.sample("intercept", dist.Normal(0, 1))
    for i, (name, n) in enumerate(zip(("age", "school", "region"), SHAPE, strict=True)):
        spread = numpyro.sample(f"spread_{name}", dist.HalfNormal(0.5))
        effect = spread * numpyro.sample(name, dist.Normal(0, 1).expand([n]).to_event(1))
        total = total + effect.reshape([n if i == j else 1 for j in range(3)])
    logit = numpyro.deterministic("logit", jnp.broadcast_to(total, SHAPE).ravel())
    mean = RECORDS / CELLS * jnp.exp(0.5 * size)
    says(jnp.stack([mean * jax.nn.sigmoid(logit), mean * jax.nn.sigmoid(-logit)], axis=1).ravel())


def statements(x: np.ndarray, z: np.ndarray, lattice: np.ndarray, epsilon: float) -> dict[str, Any]:
    """What may be said of the rates: by true counts, noisy ones, and those with a public total."""
    import numpyro
    import numpyro.distributions as dist

    from discreet.numpyro import NoisyMultinomial, NoisyPoisson

    noise, tied = ("geometric", epsilon / 2), ("lattice", {"epsilon": epsilon})
    return {
        "true counts, Poisson": lambda rate: numpyro.sample("x", dist.Poisson(rate).to_event(1), obs=x),
        "noisy counts, NoisyPoisson": lambda rate: numpyro.sample(
            "z", NoisyPoisson(rate, noise).to_event(1), obs=z
        ),
        "true counts, Multinomial": lambda rate: numpyro.sample(
            "x", dist.Multinomial(int(x.sum()), rate / rate.sum()), obs=x
        ),
        "lattice, NoisyMultinomial": lambda rate: numpyro.sample(
            "z", NoisyMultinomial(int(x.sum()), rate / rate.sum(), tied), obs=lattice
        ),
        "plug-in": lambda rate: numpyro.sample(
            "x", dist.Poisson(rate).to_event(1), obs=np.maximum(z, 0).astype(int)
        ),
    }


def fit(says: Any, seed: int, warmup: int, draws: int) -> tuple[float, float, int]:
    """Seconds and processor seconds of the second of two runs, which compiles nothing; leapfrog steps."""
    import jax
    from numpyro.infer import MCMC, NUTS

    chain = MCMC(NUTS(model), num_warmup=warmup, num_samples=draws, progress_bar=False)
    chain.run(jax.random.PRNGKey(seed), says, extra_fields=("num_steps",))
    start, used = time.perf_counter(), time.process_time()
    chain.run(jax.random.PRNGKey(seed), says, extra_fields=("num_steps",))
    np.asarray(chain.get_samples()["logit"])
    spent, used = time.perf_counter() - start, time.process_time() - used
    return spent, used, int(chain.get_extra_fields()["num_steps"].sum())


def step(says: Any) -> float:
    """Seconds of one value and gradient of the log-posterior, compiled."""
    import jax
    from numpyro.infer.util import initialize_model

    made = initialize_model(jax.random.PRNGKey(0), model, model_args=(says,))
    both, at = jax.jit(jax.value_and_grad(made.potential_fn)), made.param_info.z
    float(both(at)[0])
    times = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(20):
            found = both(at)
        float(found[0])
        times.append((time.perf_counter() - start) / 20)
    return min(times)


def simulated(seed: int, epsilon: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Shares, true counts, and the two kinds of noisy ones."""
    rng = np.random.default_rng(seed)
    sizes, shares = truth(rng)
    x = rng.poisson(np.stack([sizes * shares, sizes * (1 - shares)], axis=1).ravel())
    z = noises.DiscreteLaplace(2 / epsilon).draw(x, rng)
    return shares, x, z, noises.LatticeNoise(2 / epsilon).draw(x[None], rng)[0]


def speed(epsilon: float, warmup: int, draws: int) -> None:
    """Each kind beside the one on true counts."""
    _, x, z, lattice = simulated(0, epsilon)
    kinds = statements(x, z, lattice, epsilon)
    found: dict[str, tuple[float, float, float]] = {}
    heads = ("seconds", "ratio", "processor", "ratio", "a step, µs", "ratio", "steps")
    print(f"{f'NUTS on 192 × 2 cells, ε = {epsilon}':32}" + "".join(f"{head:>11}" for head in heads))
    for name, beside in (
        ("true counts, Poisson", None),
        ("noisy counts, NoisyPoisson", "true counts, Poisson"),
        ("true counts, Multinomial", None),
        ("lattice, NoisyMultinomial", "true counts, Multinomial"),
    ):
        seconds, used, steps = fit(kinds[name], 1, warmup, draws)
        found[name] = seconds, used, step(kinds[name])
        cells = ""
        for figure, unit, one in zip(found[name], (1, 1, 1e6), found[beside or name], strict=True):
            cells += f"{figure * unit:11.{1 if unit == 1 else 0}f}"
            cells += f"{'' if beside is None else f'{figure / one:.2f}':>11}"
        print(f"{name:32}{cells}{steps:11d}", flush=True)
    from discreet._inference._likelihoods.bridging import table

    for what, distribution, total in (
        ("NoisyPoisson", noises.DiscreteLaplace(2 / epsilon + 1e-9), None),
        ("NoisyMultinomial", noises.LatticeNoise(2 / epsilon + 1e-9), int(x.sum())),
    ):
        start = time.perf_counter()
        table(distribution, z.astype(float), total=total)
        print(f"tables for {what}, once: {time.perf_counter() - start:.2f} s")


def covered(job: tuple[int, float]) -> list[tuple[float, float]]:
    """Of one truth: the share of intervals that hold it, and their mean width; noise-aware, then plug-in."""
    seed, epsilon = job
    shares, x, z, lattice = simulated(1000 + seed, epsilon)
    kinds, rows = statements(x, z, lattice, epsilon), []
    for name in ("noisy counts, NoisyPoisson", "plug-in", "true counts, Poisson"):
        import jax
        from numpyro.infer import MCMC, NUTS

        chain = MCMC(NUTS(model), num_warmup=300, num_samples=400, progress_bar=False)
        chain.run(jax.random.PRNGKey(seed), kinds[name])
        draws = 1 / (1 + np.exp(-np.asarray(chain.get_samples()["logit"])))
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        rows.append((float(np.mean((low <= shares) & (shares <= high))), float(np.mean(high - low))))
    return rows


def coverage(fits: int, processes: int, epsilons: list[float]) -> None:
    """A row for each ε and kind."""
    heads = f"{'ε':>6}{'intervals':>11}{'coverage':>10}{'± 2 s.e.':>10}{'width':>8}"
    print(f"{'90 % intervals of 192 shares':34}{heads}")
    for epsilon in epsilons:
        jobs = [(seed, epsilon) for seed in range(fits)]
        if processes > 1:
            with multiprocessing.get_context("spawn").Pool(processes) as pool:
                rows = np.array(pool.map(covered, jobs, chunksize=1))
        else:
            rows = np.array([covered(job) for job in jobs])
        for i, name in enumerate(("noise-aware", "plug-in", "true counts (not private)")):
            cover, width = rows[:, i, 0], rows[:, i, 1].mean()
            error = 2 * cover.std(ddof=1) / math.sqrt(fits) if fits > 1 else math.nan
            numbers = f"{CELLS * fits:11d}{cover.mean():10.3f}{error:10.3f}{width:8.3f}"
            print(f"{name:34}{epsilon:6}{numbers}", flush=True)


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("speed", "coverage"))
    parser.add_argument("--epsilon", type=float, nargs="*", default=[0.5, 0.2])
    parser.add_argument("--warmup", type=int, default=500)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--fits", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if options.what == "speed":
        for epsilon in options.epsilon:
            speed(epsilon, options.warmup, options.draws)
    else:
        coverage(options.fits, options.processes, options.epsilon)


if __name__ == "__main__":
    main()
