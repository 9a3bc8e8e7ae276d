"""The bridges to NumPyro, PyMC and Stan against the NumPy engine."""

from __future__ import annotations

import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import discreet
import shorthand
from discreet._inference._likelihoods import (
    Binomial,
    Multinomial,
    PoissonCells,
    bridging,
    likelihood,
    noises,
)
from discreet._inference._likelihoods.bridging import LARGEST_EXPANSION_ERROR
from discreet._inference._likelihoods.transform import Transform
from discreet.errors import InvalidInputError
from evidence.components import need

NOISES = [
    noises.DiscreteLaplace(4.0),
    noises.DiscreteLaplace(0.3),
    noises.DiscreteLaplace(300.0),
    noises.Laplace(3.0),
    noises.FloorLaplace(5.0),
    noises.GaussianNoise(7.0),
    noises.DiscreteGaussian(30.0),
    noises.RoundedGaussian(4.0),
    noises.Clamped(noises.DiscreteLaplace(3.0), 0.0),
]
named = pytest.mark.parametrize("noise", NOISES, ids=lambda noise: f"{noise.name}-{noise.scale}")


def needs(package: str) -> None:
    """The package is there, or the test is skipped, which it may not be in CI."""
    need(None if importlib.util.find_spec(package) else f"{package} is not installed")


def grid(noise, *axes):
    z, *others = (a.ravel() for a in np.meshgrid(*axes))
    if isinstance(noise, noises.Clamped):
        z = np.maximum(z, 0)
    return z, *others


def close(found, wanted, tolerance=1e-8):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.all(np.abs(found - wanted) <= tolerance * np.maximum(1, np.abs(wanted)))


def blocks_of(page, holding):
    """The blocks of a page of docs/ that hold a text."""
    text = (Path(__file__).parents[1] / "docs" / page).read_text("utf-8")
    return [
        block for block in re.findall("```(?:python|text)\n(.*?)```", text, re.DOTALL) if holding in block
    ]


def noisy_line():
    """24 noisy counts whose log rates are a line."""
    rng, x = np.random.default_rng(4), np.repeat([-1.0, 0.0, 1.0], 8)
    return x, noises.DiscreteLaplace(4.0).draw(rng.poisson(np.exp(2.5 + 0.8 * x)), rng)


def grid_of_line(x, z):
    """Means and standard deviations of intercept and slope, each with the prior N(0, 3²)."""
    line = np.stack(np.meshgrid(np.linspace(1, 3.5, 150), np.linspace(-0.5, 2, 150)), axis=-1).reshape(-1, 2)
    own = likelihood(z, noises.DiscreteLaplace(4.0), PoissonCells())
    value = own.log_prob(np.exp(line[:, :1] + line[:, 1:] * x)) - (line**2).sum(axis=1) / 18
    weight = np.exp(value - value.max())
    means = weight @ line / weight.sum()
    return means, np.sqrt(weight @ (line - means) ** 2 / weight.sum())


def log_prob(noise, z, parameter, size=None):
    return bridging.sum_log_prob(noise, z, parameter, size)[0]


def by_log(noise, z, parameter, size=None):
    """The derivative by the log rate, or by the logit."""
    spread = parameter if size is None else parameter * (1 - parameter)
    return bridging.sum_log_prob(noise, z, parameter, size)[1] * spread


# ---- what the bridges call


def test_cells_and_totals_are_those_of_the_likelihoods():
    z, noise = np.array([3.0, -2.0, 9.0]), noises.DiscreteLaplace(2.0)
    rates = np.array([2.0, 0.4, 11.0])
    own = likelihood(z, noise, PoissonCells())
    assert log_prob(noise, z, rates).sum() == pytest.approx(own.log_prob(rates), rel=1e-12)
    np.testing.assert_allclose(by_log(noise, z, rates), own.score(rates), rtol=1e-12)
    sizes, probs = np.array([5, 3, 12]), np.array([0.3, 0.1, 0.9])
    own = likelihood(z, noise, Binomial(sizes))
    assert log_prob(noise, z, probs, sizes).sum() == pytest.approx(own.log_prob(probs), rel=1e-12)
    shares = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    values = np.array([[3.0, -2.0, 9.0], [4.0, 3.0, 3.0]])
    found, means = bridging.exact_totals(noise, values, shares, 10)
    for i in range(2):
        own = likelihood(values[i], noise, Multinomial(10))
        assert found[i] == pytest.approx(own.log_prob(shares[i]), rel=1e-12)
        np.testing.assert_allclose(means[i], own.expected_counts(shares[i]), rtol=1e-10)


@named
def test_tables_are_the_sums(noise):
    z, rate = grid(noise, [-60.0, 0, 7, 1000], [1e-6, 0.1, 5.0, 37, 900, 1.2e5])
    for found, wanted in zip(
        bridging.looked_up(np, noise, z, rate), bridging.sum_log_prob(noise, z, rate), strict=True
    ):
        close(found, wanted)
    z, size, prob = grid(noise, [-5.0, 0, 3, 90], [1.0, 7, 100], [1e-6, 0.01, 0.3, 0.99])
    for found, wanted in zip(
        bridging.looked_up(np, noise, z, prob, size), bridging.sum_log_prob(noise, z, prob, size), strict=True
    ):
        close(found, wanted, 1e-7)


def test_tables_of_arrays_and_draws():
    noise, rng = noises.DiscreteLaplace([1.0, 4.0, 9.0]), np.random.default_rng(1)
    z, rate = rng.integers(-5, 30, (2, 3)), rng.gamma(2, 5, (4, 2, 3))
    close(bridging.looked_up(np, noise, z, rate)[0], bridging.sum_log_prob(noise, z, rate)[0])
    noise = noises.DiscreteLaplace(2.0)
    for shape in ((), (1,), (1, 1, 3), (1, 2, 1)):  # whatever broadcasts
        z = rng.integers(-5, 30, shape)
        close(bridging.looked_up(np, noise, z, rate)[0], bridging.sum_log_prob(noise, z, rate)[0])


@pytest.mark.parametrize("noise", [noises.LatticeNoise(4.0), noises.DiscreteGaussian(3.0)])
@pytest.mark.parametrize(("k", "n", "prior"), [(4, 30, 1.0), (40, 60, 0.05), (150, 1500, 1.0)])
def test_a_public_total_by_expansion_or_transform(noise, k, n, prior):
    """Few cells are transformed, 150 expanded: both are the exact sum."""
    rng = np.random.default_rng(k)
    shares = rng.dirichlet(np.full(k, prior), 2) + 1e-9
    shares /= shares.sum(axis=1, keepdims=True)
    z = noise.draw(rng.multinomial(n, shares[:1]), rng)[0]
    value, means = bridging.fast_totals(noise, z, shares, n)
    exact = likelihood(z, noise, Multinomial(n))
    error = bridging.given_total(np, bridging.table(noise, z, total=n), n, shares)[2]
    assert k < 150 or np.all(error < LARGEST_EXPANSION_ERROR)
    close(value, exact.log_prob(shares))
    close(means, exact.expected_counts(shares), 1e-7)


TRANSFORMED = [*NOISES, noises.LatticeNoise(10.0), noises.DiscreteLaplace([1.0, 4.0, 9.0, 2.0])]


@pytest.mark.parametrize("noise", TRANSFORMED, ids=lambda n: f"{n.name}-{n.scale}")
@pytest.mark.parametrize("n", [1, 60, 4000])
def test_a_total_of_few_cells_is_transformed_exactly(noise, n):
    """Also at shares far from what was published: all in one cell, none in another."""
    rng = np.random.default_rng(n)
    shares = np.array(
        [[0.4, 0.3, 0.2, 0.1], [0.25] * 4, [1e-9, 1e-4, 0.2 - 1e-4, 0.8 - 1e-9], [0.0, 0.5, 0.5, 0.0]]
    )
    z = noise.draw(rng.multinomial(n, shares[0])[None].astype(float), rng)[0]
    transform = Transform(noise, z, n)
    assert transform.fits
    exact = likelihood(z, noise, Multinomial(n))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, means = transform.both(np, shares)
    close(value[:3], exact.log_prob(shares[:3]), 1e-9)
    close(means[:3], exact.expected_counts(shares[:3]), 1e-7)
    # Two cells alone, one by one.
    x, scale = np.arange(n + 1.0), noise.scales(4)
    terms = noise.log_prob(z[1], x, scale[1]) + noise.log_prob(z[2], n - x, scale[2])
    terms = terms + stats.binom(n, 0.5).logpmf(x) - noise.log_normaliser(4)
    empty = noise.log_prob(z[[0, 3]], np.zeros(2), scale[[0, 3]]).sum()
    close(value[3], logsumexp(terms) + empty, 1e-9)
    own = x @ np.exp(terms - logsumexp(terms))
    close(means[3], np.array([0, own, n - own, 0]), 1e-7)
    one = transform.both(np, shares[2])
    close(one[0], value[2], 1e-11)
    close(one[1].sum(), float(n), 1e-9)


def test_what_memory_does_not_hold_is_inverted_by_the_engine():
    z, shares = np.array([9e6, 4e6, 7e6]), np.array([[0.45, 0.2, 0.35]])
    assert not Transform(noises.DiscreteGaussian(30.0), z, 20_000_000).fits
    value, means = bridging.fast_totals(noises.DiscreteGaussian(30.0), z, shares, 20_000_000)
    exact = likelihood(z, noises.DiscreteGaussian(30.0), Multinomial(20_000_000))
    close(value, exact.log_prob(shares))
    close(means, exact.expected_counts(shares))


def test_of_no_records_the_noise_is_published_alone():
    noise, z = noises.DiscreteLaplace(2.0), np.array([1.0, -2.0])
    value, means = bridging.fast_totals(noise, z, np.array([[0.5, 0.5]]), 0)
    assert value == pytest.approx(noise.log_pmf(z).sum())
    np.testing.assert_array_equal(means, np.zeros((1, 2)))


@pytest.mark.parametrize("noise", [*NOISES, noises.LatticeNoise(3.0)], ids=lambda n: f"{n.name}-{n.scale}")
def test_simulated_values_follow_the_noise(noise):
    """Frequencies of 40,000 values against P(z | x), six standard errors (0.999999 over all cases)."""
    rng = np.random.default_rng(5)
    counts = np.full((40_000, 2), [12.0, 8.0])
    values = noise.draw(counts, rng)
    if noise.together:
        assert np.all(values.sum(axis=1) == 20)
        q = np.exp(-2 / 3.0)  # two cells: (v, −v) has weight e^{−2|v|/b}
        expected = (1 - q) / (1 + q) * q ** np.arange(4)
        tested = [(values[:, 0] == 12 + v, p) for v, p in enumerate(expected)]
    elif noise.integer:
        at = np.array([12.0, 13.0, 10.0, 0.0])
        distribution = np.exp(noise.log_prob(at, np.full(4, 12.0), np.full(4, float(noise.scale))))
        tested = [(values[:, 0] == z, p) for z, p in zip(at, distribution, strict=True)]
    else:
        edges = np.array([-3.0, 0.0, 2.0])
        distribution = np.exp(noise.log_cdf(edges, np.full(3, float(noise.scale))))
        tested = [(values[:, 0] - 12 <= v, p) for v, p in zip(edges, distribution, strict=True)]
    for hit, p in tested:
        assert abs(hit.mean() - p) <= 6 * np.sqrt(p * (1 - p) / len(hit)) + 1e-4


def test_noise_of_sum_zero_has_no_cell_of_its_own():
    with pytest.raises(InvalidInputError, match="NoisyMultinomial"):
        bridging.independent(noises.LatticeNoise(2.0))


# ---- NumPyro


@pytest.mark.slow
@named
def test_numpyro_cells(noise):
    needs("numpyro")
    import jax
    import jax.numpy as jnp

    from discreet.numpyro import NoisyBinomial, NoisyPoisson

    z, rate = grid(noise, [-1e6, -60.0, -1, 0, 1, 40, 1000, 1e7, 1e9], [1e-6, 0.1, 5.0, 37, 900, 1.2e5, 1e9])
    close(jax.jit(lambda r: NoisyPoisson(r, noise).log_prob(z))(rate), log_prob(noise, z, rate))
    slope = jax.grad(lambda e: NoisyPoisson(jnp.exp(e), noise).log_prob(z).sum())(jnp.log(rate))
    wanted = by_log(noise, z, rate)
    assert np.all(np.abs(slope - wanted) <= 1e-8 * np.maximum(1, np.abs(wanted)) + 1e-9 * np.sqrt(rate))
    z, size, prob = grid(noise, [-50.0, 0, 3, 90, 1e5], [1.0, 7, 100, 1e5], [1e-6, 0.01, 0.3, 0.9999])
    close(NoisyBinomial(size, prob, noise).log_prob(z), log_prob(noise, z, prob, size))
    slope = jax.grad(lambda p: NoisyBinomial(size, p, noise).log_prob(z).sum())(jnp.asarray(prob))
    wanted = by_log(noise, z, prob, size)
    assert np.all(
        np.abs(slope * prob * (1 - prob) - wanted)
        <= 1e-8 * np.maximum(1, np.abs(wanted)) + 1e-7 * (prob > 0.99)
    )


@pytest.mark.slow
def test_numpyro_totals_and_maps():
    needs("numpyro")
    import jax
    import jax.numpy as jnp
    from jax.scipy.special import logit

    from discreet.numpyro import NoisyMultinomial, NoisyPoisson

    z, shares = np.array([5.0, -2.0, 17.0]), np.array([[0.2, 0.1, 0.7], [0.3, 0.3, 0.4]])
    for noise in (noises.LatticeNoise(4.0), noises.DiscreteGaussian(3.0)):
        own = likelihood(z, noise, Multinomial(20))
        close(
            jax.jit(lambda s, noise=noise: NoisyMultinomial(20, s, noise).log_prob(z))(shares),
            own.log_prob(shares),
        )
        mapped = jax.vmap(lambda s, noise=noise: NoisyMultinomial(20, s, noise).log_prob(z))(
            jnp.asarray(shares)
        )
        close(mapped, own.log_prob(shares))
        slope = jax.grad(lambda e, noise=noise: NoisyMultinomial(20, jax.nn.softmax(e), noise).log_prob(z))
        close(slope(jnp.log(shares[0])), own.score(shares[0]))
    assert logit(0.5) == 0
    noise = noises.DiscreteLaplace(3.0)
    curve = jax.grad(jax.grad(lambda e: NoisyPoisson(jnp.exp(e), noise).log_prob(4.0)))(jnp.log(6.0))
    ends = [by_log(noise, 4.0, r) for r in (6.0 * np.exp(1e-5), 6.0 * np.exp(-1e-5))]
    assert curve == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


@pytest.mark.slow
def test_numpyro_expands_a_total_of_many_cells():
    """150 cells: jit, grad and vmap of the expansion are the exact sum."""
    needs("numpyro")
    import jax
    import jax.numpy as jnp

    from discreet.numpyro import NoisyMultinomial

    rng, noise = np.random.default_rng(3), noises.LatticeNoise(4.0)
    shares = rng.dirichlet(np.ones(150), 2)
    z = noise.draw(rng.multinomial(1500, shares[:1]), rng)[0]
    own = likelihood(z, noise, Multinomial(1500))

    def value(logits):
        return NoisyMultinomial(1500, jax.nn.softmax(logits), noise).log_prob(z)

    both = jax.jit(jax.vmap(jax.value_and_grad(value)))(jnp.log(shares))
    close(both[0], own.log_prob(shares))
    close(both[1], own.score(shares), 1e-7)


@pytest.mark.slow
def test_numpyro_calls_nothing_back():
    """24 cells and 150: value and gradient are JAX alone, also mapped over chains, and warn of nothing."""
    needs("numpyro")
    import jax
    import jax.numpy as jnp

    from discreet.numpyro import NoisyMultinomial

    for k, n in ((24, 21_483), (150, 1500)):
        rng, noise = np.random.default_rng(3), noises.LatticeNoise(10.0)
        shares = rng.dirichlet(np.ones(k), 2)
        z = noise.draw(rng.multinomial(n, shares[:1]), rng)[0]

        def value(logits, n=n, z=z, noise=noise):
            return NoisyMultinomial(n, jax.nn.softmax(logits), noise).log_prob(z)

        function = jax.vmap(jax.value_and_grad(value))
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            assert "callback" not in str(jax.make_jaxpr(function)(jnp.log(shares)))
            found = jax.jit(function)(jnp.log(shares))
        own = likelihood(z, noise, Multinomial(n))
        close(found[0], own.log_prob(shares))
        close(found[1], own.score(shares), 1e-7)


@pytest.mark.slow
def test_numpyro_nuts_finds_the_posterior():
    """NUTS against a grid: one rate, geometric noise; and a release with public n against noise_aware."""
    needs("numpyro")
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, Predictive

    from discreet.numpyro import NoisyPoisson

    def model(observed=None):
        rate = numpyro.sample("rate", dist.Gamma(2.0, 0.1))
        numpyro.sample("z", NoisyPoisson(rate, ("geometric", 0.3)), obs=observed)

    chain = MCMC(NUTS(model), num_warmup=300, num_samples=1500, progress_bar=False)
    chain.run(jax.random.PRNGKey(0), 14.0)
    rates = np.linspace(0.01, 90, 4000)
    weight = rates * np.exp(-0.1 * rates + log_prob(noises.DiscreteLaplace(1 / 0.3), 14.0, rates))
    mean = (weight @ rates) / weight.sum()
    assert np.mean(chain.get_samples()["rate"]) == pytest.approx(mean, abs=0.6)
    predicted = Predictive(model, num_samples=200)(jax.random.PRNGKey(1))["z"]
    assert predicted.shape == (200,)
    assert np.all(predicted == np.rint(predicted))

    release = shorthand.shares(
        ["a"] * 30 + ["b"] * 50 + ["c"] * 20,
        levels=("a", "b", "c"),
        epsilon=1.0,
        prior=1.0,
        mechanism="lattice",
    )
    says = release.to_numpyro()
    chain = MCMC(
        NUTS(lambda: says(numpyro.sample("shares", dist.Dirichlet(np.ones(3))))),
        num_warmup=60,
        num_samples=150,
        progress_bar=False,
    )
    chain.run(jax.random.PRNGKey(2))
    np.testing.assert_allclose(
        chain.get_samples()["shares"].mean(axis=0), release.posterior.mean(), atol=0.06
    )


# ---- PyMC


@pytest.mark.slow
@named
def test_pymc_cells(noise):
    needs("pymc")
    import pymc as pm
    import pytensor
    import pytensor.tensor as pt

    from discreet.pymc import NoisyBinomial, NoisyPoisson

    with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"):
        z, rate = grid(noise, [-60.0, 0, 40, 1e7], [0.1, 37, 1e5])
        eta = pt.dvector()
        value = pm.logp(NoisyPoisson.dist(pt.exp(eta), noise), z)
        both = pytensor.function([eta], [value, pt.grad(value.sum(), eta)])(np.log(rate))
        close(both[0], log_prob(noise, z, np.exp(np.log(rate))))
        close(both[1], by_log(noise, z, np.exp(np.log(rate))))
        z, size, prob = grid(noise, [-5.0, 0, 3, 90], [7.0, 100], [0.01, 0.3])
        value = pm.logp(NoisyBinomial.dist(size, pt.sigmoid(eta), noise), z)
        both = pytensor.function([eta], [value, pt.grad(value.sum(), eta)])(np.log(prob / (1 - prob)))
        close(both[0], log_prob(noise, z, prob, size))
        close(both[1], by_log(noise, z, prob, size))


@pytest.mark.slow
def test_pymc_models():
    """A release with public n in a model: gradient, NUTS against noise_aware, predictive draws."""
    needs("pymc")
    import pymc as pm
    import pytensor

    release = shorthand.shares(
        ["a"] * 30 + ["b"] * 50 + ["c"] * 20,
        levels=("a", "b", "c"),
        epsilon=1.0,
        prior=1.0,
        mechanism="lattice",
    )
    with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"), pm.Model() as model:
        shares = pm.Dirichlet("shares", np.ones(3))
        release.to_pymc()(shares)
        trace = pm.sample(
            draws=120, tune=60, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False
        )
        point = model.initial_point()
        slope = model.compile_dlogp()(point)
        assert np.all(np.isfinite(slope))
        drawn = pm.sample_prior_predictive(20, random_seed=2)
    found = trace.posterior["shares"].mean(("chain", "draw")).values
    np.testing.assert_allclose(found, release.posterior.mean(), atol=0.06)
    assert np.all(drawn.prior_predictive["published"].sum(axis=-1) == 100)


@pytest.mark.slow
def test_bambi_finds_the_posterior():
    """The block of docs/how-to/likelihoods.md, with priors: mean, deviation and predictions as on a grid."""
    needs("bambi")
    import bambi
    import pandas as pd
    import pytensor

    from discreet.pymc import bambi_family

    x, z = noisy_line()
    names: dict = {"data": pd.DataFrame({"x": x, "z": z})}
    weak = bambi.Prior("Normal", mu=0, sigma=3)
    names["options"] = {"tune": 200, "chains": 1, "cores": 1, "random_seed": 1, "progressbar": False}
    names["priors"] = {"Intercept": weak, "x": weak}
    (block,) = blocks_of("how-to/likelihoods.md", "bambi_family")
    block = block.replace("0.25))", "0.25)), priors=priors").replace("draws=1000", "draws=500, **options")
    with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"):
        exec(block, names)
        fit, model = names["fit"], names["model"]
        means, deviations = grid_of_line(x, z)
        for name, mean, deviation in zip(("Intercept", "x"), means, deviations, strict=True):
            draws = fit.posterior[name].values
            assert draws.mean() == pytest.approx(mean, abs=0.4 * deviation)
            assert draws.std() == pytest.approx(deviation, rel=0.3)
        simulated = fit.posterior_predictive["z"].values
        assert np.all(simulated == np.rint(simulated))
        model.compute_log_likelihood(fit)
        rates = np.exp(
            fit.posterior["Intercept"].values[..., None] + fit.posterior["x"].values[..., None] * x
        )
        close(fit.log_likelihood["z"].values, log_prob(noises.DiscreteLaplace(4.0), z, rates))
        sizes = bambi.Model("z ~ x", names["data"], family=bambi_family(("geometric", 0.25), total=60))
        sizes.build()
        assert np.isfinite(sizes.backend.model.compile_logp()(sizes.backend.model.initial_point()))
        with pytest.raises(InvalidInputError, match="cells are not independent"):
            bambi_family(("lattice", 2.0))
        with pytest.raises(InvalidInputError, match="fractions"):
            bambi.Model("z ~ x", names["data"] + 0.5, family=bambi_family(("geometric", 1.0))).build()


@pytest.mark.slow
@pytest.mark.parametrize("library", ["numpyro", "pymc"])
def test_bridges_refuse_what_the_noise_cannot_have_produced(library):
    needs(library)
    module = importlib.import_module(f"discreet.{library}")

    def observe(kind, values, *parameters):
        if library == "numpyro":
            return getattr(module, kind)(*parameters).log_prob(np.asarray(values))
        import pymc as pm

        with pm.Model():
            return getattr(module, kind)("z", *parameters, observed=values)

    rates, shares = np.array([3.0, 4.0]), np.array([0.4, 0.6])
    for message, arguments in {
        "fractions": ("NoisyPoisson", [1.5, 2], rates, ("geometric", 1.0)),
        "epsilon=0": ("NoisyPoisson", [1, 2], rates, ("geometric", 0)),
        "sums to zero": ("NoisyPoisson", [1, 2], rates, ("lattice", 2.0)),
        "total": ("NoisyBinomial", [1, 2], 2.5, shares, ("geometric", 1.0)),
        "do not sum to total=4": ("NoisyMultinomial", [1, 2], 4, shares, ("lattice", 2.0)),
        "must not be negative": ("NoisyMultinomial", [1, 2], -4, shares, ("geometric", 1.0)),
    }.items():
        with pytest.raises(InvalidInputError, match=message):
            observe(*arguments)


# ---- The tutorial on a private table


@pytest.mark.slow
@pytest.mark.parametrize(
    ("library", "long", "short"),
    [
        (
            "numpyro",
            "num_warmup=500, num_samples=1000",
            "num_warmup=100, num_samples=100, progress_bar=False",
        ),
        ("pymc", "tune=500, draws=1000", "tune=40, draws=40, chains=1, random_seed=1, progressbar=False"),
    ],
)
def test_the_tutorial_on_a_private_table_runs(library, long, short):
    """Its blocks, with shorter chains: the shares come out nearer to the truth than those of each cell."""
    needs(library)
    page = "how-to/table-regression.md"
    (table,), (fit,) = blocks_of(page, "default_rng"), blocks_of(page, f"from discreet.{library}")
    assert long in fit
    names: dict = {}
    exec(table + fit.replace(long, short), names)
    if library == "numpyro":
        found = np.asarray(names["chain"].get_samples()["share"]).mean(axis=0)
    else:
        found = names["trace"].posterior["share"].mean(("chain", "draw")).values
    noisy = np.maximum(names["noisy"], 0) + 0.5
    each = noisy[:, 0] / noisy.sum(axis=1)
    truth = 1 / (1 + np.exp(-names["logit"].ravel()))
    assert np.abs(found - truth).mean() < 0.6 * np.abs(each - truth).mean()


# ---- Stan


def test_stan_programs():
    from discreet import stan

    published = discreet.noisy_counts([12, 30, -2], noise=("geometric", 0.5))
    program = published.to_stan()
    assert program.data == {"k": 3, "z": [12, 30, -2], "scale": [2.0, 2.0, 2.0]}
    assert "noisy_poisson_lpdf(z[i] | rates[i], scale[i])" in str(program)
    assert program.functions.count("{") == program.functions.count("}")
    begins = {line.split(" ")[0] for line in program.functions.split("\n") if line}
    assert begins <= {"", "//", "real", "int", "vector", "}"}  # no comment runs on into a line of code
    total = discreet.noisy_counts([12, 30, -2], noise=("lattice", 4.0), total=40).to_stan()
    assert total.data["total"] == 40
    assert "rexp(length(mu))" in stan.brms_family(("laplace", 2.0))
    with pytest.raises(InvalidInputError, match="cells are not independent"):
        stan.brms_family(("lattice", 2.0))
    with pytest.raises(InvalidInputError, match="rounded-gaussian"):
        stan.functions(("rounded-gaussian", 2.0))


def regression_and_mean():
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 400)
    frame = {"x": x, "y": np.clip(x + rng.normal(size=400), -5, 5)}
    schema = discreet.Schema({"x": (-1, 1), "y": (-5, 5)}, n=400)
    fit = discreet.regress(frame, "y ~ x", schema=schema, epsilon=1, delta="1e-6")
    return fit, discreet.mean(frame, "y", schema=schema, epsilon=1)


def test_means_and_regressions_inside_numpyro():
    needs("numpyro")
    import jax
    import numpyro

    for answer in regression_and_mean():
        own, at = answer.likelihood(), answer.mean() + answer.std()

        def density(values, answer=answer):
            return numpyro.infer.util.log_density(answer.to_numpyro(), (values,), {}, {})[0]

        close(density(at), own.log_prob(at))
        close(jax.grad(density)(at), own.gradient(at), 1e-6)


def test_means_and_regressions_inside_pymc():
    needs("pymc")
    import pymc as pm
    import pytensor

    for answer in regression_and_mean():
        own, at = answer.likelihood(), answer.mean() + answer.std()
        with pytensor.config.change_flags(cxx="", mode="FAST_COMPILE"), pm.Model() as model:
            answer.to_pymc()(pm.Flat("values", shape=own.k))
            close(model.compile_logp()({"values": at}), own.log_prob(at))
            close(model.compile_dlogp()({"values": at}), own.gradient(at))
